/* queue_clerk.c - see queue_clerk.h. */
#include "tests/bench/queue_clerk.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <uv.h>

#include "conf/log.h"
#include "queue/job/instance.h"
#include "queue/job/job.h"
#include "queue/job/result.h"
#include "queue/lease/queue.h"

#define POLL_MS 2 /* how often a clerk reads the board */

struct clerk;

struct desk { /* one shard */
    struct clerk *clerk;
    struct options config;
    struct queue *queue;
    uint32_t places;
    _Atomic uint64_t *settled;
};

struct clerk {
    uv_loop_t loop;
    uv_timer_t poll;
    const struct clerk_plan *plan;
    unsigned index, open;
    bool is_ready, is_going;
    char inst[INSTANCE_BYTES_MAX], daemon[INSTANCE_BYTES_MAX];
    struct desk desks[CLERK_SHARDS_MAX];
};

struct clerk_board *clerk_board_new(void)
{
    void *board = mmap(NULL, sizeof(struct clerk_board), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return board == MAP_FAILED ? NULL : board;
}

void clerk_board_free(struct clerk_board *board)
{
    munmap(board, sizeof *board);
}

static char *result_of(const struct clerk *clerk, const struct job *job,
                       const struct lease *lease)
{
    struct result_output output = {.place = &job->outputs[0].place, .format = "jpeg",
                                   .width = 256, .height = 256, .bytes = 10000};
    struct result result = {
        .job = job, .number = lease->number, .status = "done", .input_format = "jpeg",
        .input_width = 256, .input_height = 256, .input_bytes = 10000, .outputs = &output,
        .output_count = 1, .attempt = lease->attempt, .engine = "cpu", .daemon = clerk->daemon,
        .ms = {-1, 0.012, 0.001, 0.123, 0, 0.012, 0, 0.123, 1.234}};
    return result_write(&result);
}

static void on_leased(void *context, struct lease *lease)
{
    struct desk *desk = context;
    struct job_rules rules = {desk->config.namespace, 60};
    struct error error = {0};
    struct job job = {0};
    desk->places--;
    if (!lease->raw ||
        job_parse(&job, lease->raw, lease->raw_bytes, &rules, &error) != STATUS_OK)
        desk->clerk->plan->board->bad[desk->clerk->index]++;
    struct queue_answer answer = {.result = result_of(desk->clerk, &job, lease)};
    if (!queue_done(desk->queue, lease, &answer))
        abort();
    job_clear(&job);
}

static void on_settled(void *context, struct lease *lease, bool stale, bool dead)
{
    struct desk *desk = context;
    (void)lease;
    if (stale || dead)
        desk->clerk->plan->board->bad[desk->clerk->index]++;
    desk->places++;
    atomic_fetch_add_explicit(desk->settled, 1, memory_order_relaxed);
}

static void on_batch_ended(void *context)
{
    struct desk *desk = context;
    if (desk->clerk->is_going)
        queue_set_places(desk->queue, desk->places);
}

static void on_closed(void *context)
{
    struct clerk *clerk = context;
    if (--clerk->open == 0)
        uv_stop(&clerk->loop);
}

static void look_at_board(uv_timer_t *timer)
{
    struct clerk *clerk = timer->data;
    struct clerk_board *board = clerk->plan->board;
    unsigned connected = 0, count = clerk->plan->shard_count;
    for (unsigned i = 0; i < count && !clerk->is_ready; i++)
        connected += queue_view(clerk->desks[i].queue)->state == QUEUE_READY;
    if (connected == count) {
        clerk->is_ready = true;
        board->ready++;
    }
    if (board->go && !clerk->is_going) {
        clerk->is_going = true;
        for (unsigned i = 0; i < count; i++)
            queue_set_places(clerk->desks[i].queue, clerk->desks[i].places);
    }
    if (board->stop) {
        uv_timer_stop(timer);
        for (unsigned i = 0; i < count; i++)
            queue_close(clerk->desks[i].queue, 10, on_closed, clerk);
    }
}

static void open_desk(struct clerk *clerk, unsigned at)
{
    const struct clerk_plan *plan = clerk->plan;
    struct desk *desk = &clerk->desks[at];
    struct error error = {0};
    desk->clerk = clerk;
    desk->places = plan->places;
    desk->settled = &plan->board->settled[clerk->index][at];
    desk->config = (struct options){
        .redis = (char *)plan->shards[at].redis, .namespace = (char *)plan->shards[at].ns,
        .lease_s = 60, .renew_s = 5, .reap_s = 10, .retry_delay_s = 1, .block_s = 2,
        .connect_timeout_s = 30, .command_timeout_s = 30, .auth_retry_s = 30, .attempts = 3,
        .batch = plan->batch, .result_ttl_s = 3600, .results = "list",
        .results_max = 100000000, .dead_max = 100000};
    struct queue_events events = {.context = desk, .leased = on_leased, .settled = on_settled,
                                  .batch_ended = on_batch_ended};
    desk->queue = queue_create(&clerk->loop, &desk->config, clerk->inst, &events, &error);
    if (!desk->queue)
        abort();
    queue_start(desk->queue);
}

static int run(const struct clerk_plan *plan, unsigned index)
{
    static struct clerk clerk;
    clerk.plan = plan;
    clerk.index = index;
    clerk.open = plan->shard_count;
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_LEVEL_WARNING);
    if (plan->cpus && sched_setaffinity(0, sizeof *plan->cpus, plan->cpus) != 0)
        return 1;
    if (!instance_self(clerk.inst, clerk.daemon) || uv_loop_init(&clerk.loop))
        return 1;
    for (unsigned i = 0; i < plan->shard_count; i++)
        open_desk(&clerk, i);
    uv_timer_init(&clerk.loop, &clerk.poll);
    clerk.poll.data = &clerk;
    uv_timer_start(&clerk.poll, look_at_board, POLL_MS, POLL_MS);
    uv_run(&clerk.loop, UV_RUN_DEFAULT);
    bool unacknowledged = false;
    for (unsigned i = 0; i < plan->shard_count; i++) {
        unacknowledged |= queue_view(clerk.desks[i].queue)->unacknowledged > 0;
        queue_destroy(clerk.desks[i].queue);
    }
    return unacknowledged;
}

pid_t clerk_start(const struct clerk_plan *plan, unsigned index)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(getppid() == parent ? run(plan, index) : 1);
}
