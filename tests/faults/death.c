/* death.c - daemons that die, are stopped, get SIGTERM, or whose workers hang. */
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/faults/rig.h"
#include "tests/fixtures/text_file.h"

/* Leases that outlast the case: only the next daemon on this host can bring the jobs back. */
#define LONG_LEASES "--lease_s=600", "--renew_s=5", "--reap_s=0.3"

/* Only the tests' own daemon has fault hooks. */
static void release_build(struct rig *rig)
{
    setenv("GPUIMGD_FAULT", "enter=read,action=kill", 1);
    rig_start(rig, 0, NULL, NULL);
    rig_push(rig, "n", 5);
    rig_wait_done(rig, 20, "n");
}

/* ---- kill -9 --------------------------------------------------------------------------------- */

static void kill_idle(struct rig *rig)
{
    struct process *daemon = rig_start(rig, 0, NULL, LONG_LEASES, NULL);
    process_sleep(0.3);
    process_kill9(daemon);
    rig_start(rig, 1, NULL, LONG_LEASES, NULL);
    rig_push(rig, "n", 5);
    rig_wait_done(rig, 20, "n");
    rig_saw_if(rig, world_until(&rig->world, 20, 1, "ZCARD gpuimgd:inst"), "its name is gone");
}

/* One daemon dies at the victim, and the next daemon runs the job. with: the place. */
static void kill_at(struct rig *rig)
{
    const char *fault = text_of("%s,action=kill,match=victim", rig->fault->with[0]);
    struct process *daemon = rig_start(rig, 0, fault, LONG_LEASES, NULL);
    rig_push(rig, "victim", 1);
    rig_push(rig, "n", 3);
    rig_saw_end(rig, daemon, 20);
    if (strncmp(fault, "enter=ack", 9) == 0)
        rig_saw_if(rig, text_file_count(rig->world.out, "/victim0.png") == 1, "renamed");
    rig_start(rig, 1, NULL, LONG_LEASES, NULL);
    rig_wait_done(rig, 20, "n");
    rig_saw_jobs(rig, "victim0");
}

/* Stops the daemon first, so that it cannot finish between the check and the kill. part: of the
 * paths of temporary files. */
static bool kill_while_writing(struct process *daemon, const char *part)
{
    double deadline = process_now() + patience(20);
    while (process_now() < deadline) {
        if (process_has_open(daemon, part)) {
            process_signal(daemon, SIGSTOP);
            if (rig_stopped(daemon, 5) && process_has_open(daemon, part)) {
                process_kill9(daemon);
                return true;
            }
            process_signal(daemon, SIGCONT);
        }
        process_sleep(0.002);
    }
    return false;
}

static void kill_writing(struct rig *rig)
{
    struct process *daemon = rig_start(rig, 0, NULL, LONG_LEASES, NULL);
    rig_push_slow(rig, "victim", 1);
    rig_saw_if(rig, kill_while_writing(daemon, text_of("%s/.gpuimgd/", rig->world.out)),
               "a temporary file was there");
    rig_start(rig, 1, NULL, LONG_LEASES, NULL);
    rig_wait_jobs(rig, 20, "victim0");
}

/* In a tmpfs, a file that is not complete has no name. */
static void kill_writing_in_memory(struct rig *rig)
{
    const char *out = rig->world.out;
    if (!rig_mount(rig, out, "size=64m"))
        return;
    struct process *daemon = rig_start(rig, 0, NULL, LONG_LEASES, NULL);
    rig_push_slow(rig, "victim", 1);
    rig_saw_if(rig, kill_while_writing(daemon, text_of("%s/.gpuimgd/", out)),
               "a temporary file was there");
    rig_saw(rig, "%zu files", text_file_count(out, ""));
    rig_start(rig, 1, NULL, LONG_LEASES, NULL);
    rig_wait_jobs(rig, 20, "victim0");
    rig_saw(rig, "%zu files", text_file_count(out, ""));
    rig_saw_terminated(rig, &rig->world.daemons[1]);
}

/* A folder below output_root on another filesystem: temporary files are created next to their
 * targets, and are removed at the next write to the folder. */
static void kill_writing_elsewhere(struct rig *rig)
{
    struct world *w = &rig->world;
    const char *other = text_of("%s/other", w->out);
    if (mkdir(other, 0755) != 0 || !rig_mount(rig, other, "size=64m"))
        return;
    const char *job = "{'id':'%s','input':'slow.png','output':{'path':'other/%s.png',"
                      "'compression':9}}";
    world_put_slow(w);
    struct process *daemon = rig_start(rig, 0, NULL, LONG_LEASES, NULL);
    rig_push_text(rig, "victim0", job, "victim0", "a");
    bool is_there = kill_while_writing(daemon, text_of("%s/.gpuimgd.", other));
    rig_saw_if(rig, is_there, "a temporary file was there");
    rig_start(rig, 1, NULL, LONG_LEASES, NULL);
    rig_wait_jobs(rig, 20, "victim0");
    rig_saw(rig, "%zu temporary files", text_file_count(other, ".tmp"));
    rig_saw_terminated(rig, &w->daemons[1]);
}

/* No daemon of its host can detect its death: its leases must expire. */
static void killed_on_another_host(struct rig *rig)
{
    const char *lease = rig_option_s("lease_s", 1), *renew = rig_option_s("renew_s", 0.2);
    if (unshare(CLONE_NEWUTS) != 0 || sethostname("elsewhere", 9) != 0) {
        rig_skip(rig, "the host cannot be given another name");
        return;
    }
    struct process *daemon = rig_start(rig, 0, "run=decode,action=kill,match=victim", lease, renew,
                                       NULL);
    rig_push(rig, "victim", 1);
    rig_saw_end(rig, daemon, 20);
    if (sethostname("here", 4) != 0)
        rig_saw(rig, "no other name");
    rig_start(rig, 1, NULL, lease, renew, "--reap_s=0.3", NULL);
    double began = process_now();
    rig_wait_jobs(rig, 20, "victim0");
    rig_saw_in_time(rig, began, 8);
}

/* A reaper died between REAP and NACK, together with a daemon that could run jobs alone. */
static void leftovers_of_a_reaper(struct rig *rig)
{
    redisContext *redis = rig->world.client;
    const char *job = "{\"id\":\"%s\",\"input\":\"p.jpg\",\"ops\":[\"stats\"]}";
    const char *buried = text_of(job, "buried");
    const char *last = text_of(job, "last");
    redis_integer(redis, "SET gpuimgd:seq 2");
    redis_integer(redis, "HSET gpuimgd:job:1 raw %s state burying attempt 3 owner else:a:1:1:1 "
                         "token else:a:1:1:1:9", buried);
    redis_integer(redis, "ZADD gpuimgd:lease 1 1");
    redis_integer(redis, "HSET gpuimgd:job:2 raw %s state alone attempt 2", last);
    redis_integer(redis, "LPUSH gpuimgd:alone 2");
    redis_integer(redis, "SET gpuimgd:alone:owner else:a:1:1:1 PX 500");
    rig_expects(rig, "buried");
    rig_expects(rig, "last");
    rig_start(rig, 0, NULL, "--reap_s=0.3", "--block_s=0.3", NULL);
    rig_wait_jobs(rig, 20, "buried");
    rig_saw_jobs(rig, "last");
}

static void random_kills(struct rig *rig)
{
    unsigned jobs = 0, results = 0, daemons = 0, kills = 0;
    struct process chaos;
    const char *args[] = {"--daemon", getenv("GPUIMGD"), "--jobs", "5000", "--kills", "100",
                          "--daemons", "3", NULL};
    struct process_options how = {.program = text_of("%s/tests/tools/chaos", rig->build),
                                  .args = args, .folder = rig->world.folder, .name = "chaos"};
    if (!process_start(&chaos, &how))
        abort();
    const char *end = rig_end_of(&chaos, 400);
    char *out = process_out(&chaos);
    for (const char *at = out; at && kills == 0; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
        sscanf(at, "%u jobs, %u results, %u daemons, %u kills", &jobs, &results, &daemons, &kills);
    rig_saw(rig, "%u jobs, %u results, %u kills", jobs, results, kills);
    rig_saw_if(rig, strstr(out, "\nPASSED: 0 errors") != NULL, "set(results) = set(jobs), clean");
    rig_saw(rig, "%s", end);
    if (!strstr(out, "\nPASSED"))
        fprintf(stderr, "%s\n", out);
    free(out);
    process_clear(&chaos);
}

/* ---- a stopped daemon ------------------------------------------------------------------------ */

/* number: the daemon's lease, and how long it is stopped between rename and DONE, in seconds. */
static void stand_still(struct rig *rig)
{
    double lease_s = rig->fault->number[0], stop_s = rig->fault->number[1];
    const char *lease = rig_option_s("lease_s", lease_s);
    const char *renew = rig_option_s("renew_s", lease_s / 5);
    struct process *first = rig_start(rig, 0, "enter=ack,action=stop,match=victim", lease, renew,
                                      NULL);
    rig_push(rig, "victim", 1);
    rig_saw_if(rig, rig_stopped(first, 20), "stopped");
    double stopped = process_now();
    struct process *second = rig_start(rig, 1, NULL, lease, renew, NULL);
    rig_wait(rig, stop_s);
    rig_saw_jobs(rig, "victim0");
    rig_saw_if(rig, rig_by(rig, "victim0", second), "by the other");
    while (process_now() < stopped + patience(stop_s))
        process_sleep(0.02);
    process_signal(first, SIGCONT);
    rig_saw_terminated(rig, first);
    rig_saw_if(rig, process_log_count(first, 0, "stopped after 0 jobs") == 1, "its DONE was stale");
}

/* Deadlines pass while the whole process is stopped. No worker hangs, so the grace starts when the
 * process continues. */
static void workers_of_a_stopped_daemon(struct rig *rig)
{
    const char *fault = text_of("run=encode,action=stop,match=victim,seconds=%g", patience(0.5));
    struct process *daemon = rig_start(rig, 0, fault, rig_option_s("job_timeout_s", 0.5),
                                       rig_option_s("hang_grace_s", 1.5), "--lease_s=60", NULL);
    rig_push(rig, "victim", 1);
    rig_saw_stopped(rig, daemon);
    rig_push(rig, "n", 4);
    rig_wait_done(rig, 20, "n");
    rig_saw_jobs(rig, "victim0");
    rig_saw(rig, "%zu workers replaced", process_log_count(daemon, 0, "is replaced"));
}

/* Timeouts of Redis commands pass, too; the connection is not at fault. */
static void line_of_a_stopped_daemon(struct rig *rig)
{
    rig_push(rig, "n", 20);
    struct process *daemon = rig_start(rig, 0, "enter=read,action=stop,match=n1", "--inflight=4",
                                       "--batch=2", rig_option_s("command_timeout_s", 1),
                                       "--lease_s=60", NULL);
    rig_saw_stopped(rig, daemon);
    rig_wait_done_at(rig, 20, "n", 1);
    rig_saw(rig, "%zu connections let go", process_log_count(daemon, 0, "trying again"));
}

/* ---- SIGTERM --------------------------------------------------------------------------------- */

static void term_under_load(struct rig *rig)
{
    struct world *w = &rig->world;
    struct process *daemon = rig_start(rig, 0, NULL, "--inflight=6", "--drain_timeout_s=1", NULL);
    rig_push_slow(rig, "slow", 10);
    rig_wait_for(rig, 1, 20);
    double start = process_now();
    rig_saw_terminated(rig, daemon);
    rig_saw_in_time(rig, start, 15);
    rig_wait_for(rig, 0, 0);
    size_t back = (size_t)redis_integer(w->client, "LLEN gpuimgd:jobs");
    rig_saw_if(rig, rig_answered(rig, "") + back == 10 && back > 0, "each answered or back");
    rig_saw(rig, "%lld leases", redis_integer(w->client, "ZCARD gpuimgd:lease"));
    rig_start(rig, 1, NULL, NULL);
    rig_wait_done_at(rig, 60, "slow", 1);
}

static const char hang_at_victim[] = "run=decode,action=hang,match=victim";

/* A job hangs, so the first SIGTERM waits; the second one does not. with: whether Redis is stopped.
 */
static void second_term(struct rig *rig)
{
    bool frozen = rig->fault->with[0] != NULL;
    struct world *w = &rig->world;
    struct process *daemon = rig_start(rig, 0, hang_at_victim, "--lease_s=600", NULL);
    rig_push(rig, "victim", 1);
    world_until(w, 20, 1, "ZCARD gpuimgd:lease");
    process_sleep(0.2);
    if (frozen)
        redis_server_freeze(w->redis, true);
    process_signal(daemon, SIGTERM);
    rig_saw_if(rig, process_noted(daemon, 0, "STOPPING=1", 10), "drains");
    process_sleep(0.3);
    rig_saw_if(rig, process_running(daemon), "waits");
    double start = process_now();
    process_signal(daemon, SIGTERM);
    rig_saw_end(rig, daemon, 40);
    rig_saw_in_time(rig, start, 15);
    if (frozen)
        redis_server_freeze(w->redis, false);
    rig_start(rig, 1, NULL, NULL);
    rig_wait_jobs(rig, 20, "victim0");
}

/* ---- poison ---------------------------------------------------------------------------------- */

/* Restarts two daemons after each death, until all jobs are answered. */
static unsigned keep_two(struct rig *rig, const char *fault, double seconds)
{
    double deadline = process_now() + patience(seconds);
    unsigned deaths = 0;
    for (size_t i = 0; i < 2; i++)
        rig_start(rig, i, fault, NULL);
    while (!rig_wait_for(rig, rig->job_count, 0.02) && process_now() < deadline) {
        for (size_t i = 0; i < 2; i++) {
            if (process_running(&rig->world.daemons[i]))
                continue;
            deaths++;
            rig_start(rig, i, fault, NULL);
        }
    }
    for (size_t i = 0; i < 2; i++)
        deaths += !process_running(&rig->world.daemons[i]);
    return deaths;
}

/* number: of poisonous jobs. */
static void poison(struct rig *rig)
{
    size_t count = (size_t)rig->fault->number[0];
    rig_push(rig, "n", 15);
    rig_push(rig, "poison", count);
    rig_push(rig, "m", 15);
    unsigned deaths = keep_two(rig, "run=decode,action=crash,match=poison", 100);
    rig_saw_done(rig, "n");
    rig_saw_done(rig, "m");
    rig_saw_jobs(rig, "poison");
    /* Adjacent jobs are in flight together when a daemon dies. */
    rig_saw_if(rig, deaths >= 3 && deaths <= 3 * count, "3 deaths a poison at most");
    rig_saw(rig, "%lld in :dead", redis_integer(rig->world.client, "LLEN gpuimgd:dead"));
}

/* ---- workers that hang ----------------------------------------------------------------------- */

#define SLOW 8

/* One worker, the duration of each decode, and the timeout of each job. */
static struct process *start_slow(struct rig *rig, double decode_s, const char *option)
{
    const char *fault = text_of("run=decode,action=hang,seconds=%g", patience(decode_s));
    return rig_start(rig, 0, fault, "--workers=1", "--inflight=8", option, NULL);
}

static void push_with_time(struct rig *rig, const char *input, double timeout_s)
{
    for (int i = 0; i < SLOW; i++) {
        const char *id = text_of("n%d", i);
        rig_push_text(rig, id, "{'id':'%s','input':'%s','output':'%s.jpg','timeout_s':%g,"
                               "'ops':['invert',{'op':'resize','width':64}]}",
                      id, input, id, patience(timeout_s));
    }
}

/* Waiting for a worker does not count: all jobs together take several times the timeout. A small
 * file is read just before it is decoded, that of a job above SMALL_JOB_BYTES long before.
 * with: the input. */
static void wait_for_the_one_worker(struct rig *rig)
{
    world_put_photo(&rig->world, "large.jpg", 1500, 1200);
    struct process *daemon = start_slow(rig, 0.6, NULL);
    push_with_time(rig, rig->fault->with[0], 4);
    rig_wait_done_at(rig, 30, "n", 1);
    rig_saw(rig, "%zu workers replaced", process_log_count(daemon, 0, "is replaced"));
    rig_saw(rig, "%zu went back", process_log_count(daemon, 0, "goes back after it waited"));
}

/* Jobs that wait longer than job_timeout_s return to the queue, and are fetched again in order. All
 * are in the queue before the daemon starts, because only those that are fetched together go back
 * together. */
static void waiting_ones_go_back(struct rig *rig)
{
    struct world *w = &rig->world;
    push_with_time(rig, "p.jpg", 1.5);
    struct process *daemon = start_slow(rig, 0.4, rig_option_s("job_timeout_s", 1.5));
    rig_saw_if(rig, world_until(w, 60, SLOW, "LLEN %s:results", w->ns), "all answered");
    bool in_order = true;
    for (int i = 0; i < SLOW; i++) {
        char *text = redis_string(w->client, "LINDEX %s:results %d", w->ns, -1 - i);
        cJSON *result = cJSON_Parse(text);
        const char *id = json_text(result, "id");
        in_order = in_order && id[0] == 'n' && id[1] == '0' + i;
        cJSON_Delete(result);
        free(text);
    }
    rig_saw_if(rig, in_order, "in their order");
    rig_wait_done_at(rig, 1, "n", 1);
    rig_saw_if(rig, process_log_count(daemon, 0, "goes back after it waited") > 0,
               "some went back");
}

static void three_of_four_workers_hang(struct rig *rig)
{
    struct process *daemon = rig_start(rig, 0, hang_at_victim, "--workers=4", "--inflight=12",
                                       rig_option_s("hang_grace_s", 0.3), NULL);
    for (int i = 0; i < 3; i++) { /* together, so that one tick abandons all of them */
        const char *id = text_of("victim%d", i);
        rig_push_text(rig, id, "{'id':'%s','input':'p.jpg','output':'%s.png','timeout_s':%g}", id,
                      id, patience(0.5));
    }
    rig_wait(rig, 20);
    rig_push(rig, "n", 12);
    rig_wait_jobs(rig, 20, "victim");
    rig_saw(rig, "%zu workers replaced", process_log_count(daemon, 0, "is replaced"));
    rig_saw_done(rig, "n");
}

static void as_many_hang_as_there_are_places(struct rig *rig)
{
    struct process *daemon = rig_start(rig, 0, hang_at_victim, "--workers=4", "--inflight=2",
                                       rig_option_s("hang_grace_s", 0.3),
                                       rig_option_s("job_timeout_s", 0.5), NULL);
    rig_push(rig, "victim", 2);
    rig_wait(rig, 20);
    rig_push(rig, "n", 3);
    rig_saw_end(rig, daemon, 20);
    rig_start(rig, 1, NULL, NULL);
    rig_wait_jobs(rig, 20, "victim");
    rig_saw_done(rig, "n");
}

/* A worker of a zombie must not rename its output into place. */
static void hung_worker_comes_back(struct rig *rig)
{
    const char *fault = text_of("run=encode,action=hang,match=victim,seconds=%g", patience(2));
    struct process *daemon = rig_start(rig, 0, fault, rig_option_s("hang_grace_s", 0.2), NULL);
    rig_push_text(rig, "victim0", "{'id':'victim0','input':'p.jpg','output':'late.png',"
                                  "'timeout_s':%g}", patience(0.5));
    rig_wait_jobs(rig, 20, "victim0");
    rig_push(rig, "n", 3);
    rig_wait(rig, 20);
    process_sleep(patience(2.5));
    rig_push(rig, "m", 3);
    rig_wait_done(rig, 20, "n");
    rig_saw_done(rig, "m");
    rig_saw_if(rig, text_file_count(rig->world.out, "late.png") == 0, "no late picture");
    rig_saw_terminated(rig, daemon);
}

/* More slow jobs than workers: each costs its own result. */
static void slow_ones_come_back(struct rig *rig)
{
    enum { slow = 6 };
    const char *fault = text_of("run=encode,action=hang,match=victim,seconds=%g", patience(0.8));
    struct process *daemon =
        rig_start(rig, 0, fault, "--workers=2", rig_option_s("hang_grace_s", 0.1), NULL);
    for (int i = 0; i < slow; i++) {
        const char *id = text_of("victim%d", i);
        rig_push_text(rig, id, "{'id':'%s','input':'p.jpg','output':'%s.png','timeout_s':%g}", id,
                      id, patience(0.2));
    }
    rig_wait(rig, 20);
    rig_push(rig, "n", 3);
    rig_wait(rig, 20);
    size_t late = 0;
    for (size_t i = 0; i < slow; i++)
        late += strcmp(rig->jobs[i].code, "timeout") == 0;
    rig_saw(rig, "%zu timeouts", late);
    rig_saw_if(rig, process_log_count(daemon, 0, "is replaced") > 2, "more than 2 replaced");
    rig_saw_done(rig, "n");
    rig_saw_terminated(rig, daemon);
}

/* libwebp does not look at the deadline while it encodes alpha. Its worker does not hang. */
static void encoder_without_a_deadline(struct rig *rig)
{
    struct picture_png png = {.width = 300, .height = 300, .colour_type = 6};
    world_put_picture(&rig->world, "alpha.png", picture_png(&png));
    struct process *daemon = rig_start(rig, 0, NULL, "--hang_grace_s=0.05", NULL);
    rig_push_text(rig, "victim0",
                  "{'id':'victim0','input':'alpha.png','timeout_s':0.15,"
                  "'output':{'path':'late.webp','effort':6},'ops':[]}");
    rig_wait_jobs(rig, 30, "victim0");
    rig_saw(rig, "%zu workers replaced", process_log_count(daemon, 0, "is replaced"));
    rig_saw_if(rig, text_file_count(rig->world.out, "late.webp") == 0, "no late picture");
}

#define AGAIN "killed by 9; 3 done once; victim0: done, attempt 2"
#define STALE "stopped; victim0: done, attempt 2; by the other; exit 0; its DONE was stale"
#define AT_ONCE "drains; waits; exit 0; within 15 s; victim0: done, attempt 1"
#define ENOUGH_TIME "8 done once; all at attempt 1; 0 workers replaced; 0 went back"

const struct fault_case death_faults[] = {
    CASE("release build", "GPUIMGD_FAULT is set", release_build, "5 done once"),
    CASE("idle", "kill -9", kill_idle, "5 done once; its name is gone"),
    CASE("after FETCH", "kill -9", kill_at, AGAIN, .with = {"enter=read"}),
    CASE("reading", "kill -9", kill_at, AGAIN, .with = {"run=read"}),
    CASE("decoding", "kill -9", kill_at, AGAIN, .with = {"run=decode"}),
    CASE("on the engine", "kill -9", kill_at, AGAIN, .with = {"run=gpu"}),
    CASE("encoding", "kill -9", kill_at, AGAIN, .with = {"run=encode"}),
    CASE("between rename and DONE", "kill -9", kill_at,
         "killed by 9; renamed; 3 done once; victim0: done, attempt 2", .with = {"enter=ack"}),
    CASE("writing", "kill -9", kill_writing,
         "a temporary file was there; victim0: done, attempt 2"),
    CASE("writing to a tmpfs", "kill -9", kill_writing_in_memory,
         "a temporary file was there; 0 files; victim0: done, attempt 2; 1 files; exit 0"),
    CASE("writing to another filesystem", "kill -9", kill_writing_elsewhere,
         "a temporary file was there; victim0: done, attempt 2; 0 temporary files; exit 0"),
    CASE("decoding, on another host", "kill -9, leases of 1 s", killed_on_another_host,
         "killed by 9; victim0: done, attempt 2; within 8 s"),
    CASE("burying, and running alone", "kill -9", leftovers_of_a_reaper,
         "buried: dead attempts_exhausted, attempt 3; last: done, attempt 3"),
    CASE("5,000 jobs, 3 daemons", "100 random kill -9", random_kills,
         "5000 jobs, 5000 results, 100 kills; set(results) = set(jobs), clean; exit 0",
         .slow = true, .limit_s = 450),
    CASE("before DONE, leases of 0.8 s", "SIGSTOP for 2.5 s", stand_still, STALE,
         .number = {0.8, 2.5}),
    CASE("before DONE, leases of 30 s", "SIGSTOP for 60 s", stand_still, STALE, .number = {30, 60},
         .slow = true, .limit_s = 200),
    CASE("encoding, past its deadline", "SIGSTOP for 2.5 s", workers_of_a_stopped_daemon,
         "stopped; 4 done once; victim0: failed timeout, attempt 1; 0 workers replaced"),
    CASE("after FETCH, beyond the timeout", "SIGSTOP for 2.5 s", line_of_a_stopped_daemon,
         "stopped; 20 done once; all at attempt 1; 0 connections let go"),
    CASE("under load", "SIGTERM", term_under_load,
         "exit 0; within 15 s; each answered or back; 0 leases; 10 done once; all at attempt 1"),
    CASE("a job hangs", "SIGTERM twice", second_term, AT_ONCE),
    CASE("a job hangs, Redis is stopped", "SIGTERM twice", second_term, AT_ONCE,
         .with = {"stopped"}),
    CASE("a poisonous job among 30", "abort at each attempt", poison,
         "15 done once; 15 done once; poison0: dead attempts_exhausted, attempt 3; 3 deaths a "
         "poison at most; 1 in :dead",
         .number = {1}),
    CASE("four poisonous jobs among 30", "abort at each attempt", poison,
         "15 done once; 15 done once; poison0: dead attempts_exhausted, attempt 3; poison1: dead "
         "attempts_exhausted, attempt 3; poison2: dead attempts_exhausted, attempt 3; poison3: "
         "dead attempts_exhausted, attempt 3; 3 deaths a poison at most; 4 in :dead",
         .number = {4}, .slow = true, .limit_s = 150),
    CASE("3 of 4 workers at once", "they hang", three_of_four_workers_hang,
         "victim0: failed timeout, attempt 1; victim1: failed timeout, attempt 1; victim2: failed "
         "timeout, attempt 1; 3 workers replaced; 12 done once"),
    CASE("2 of 4 workers, 2 places", "they hang", as_many_hang_as_there_are_places,
         "exit 70; victim0: failed timeout, attempt 1; victim1: failed timeout, attempt 1; 3 done "
         "once"),
    CASE("8 small jobs, 1 worker", "together they take longer than each may",
         wait_for_the_one_worker, ENOUGH_TIME, .with = {"p.jpg"}),
    CASE("8 large jobs, 1 worker", "together they take longer than each may",
         wait_for_the_one_worker, ENOUGH_TIME, .with = {"large.jpg"}),
    CASE("8 jobs, 1 worker", "together they take longer than job_timeout_s", waiting_ones_go_back,
         "all answered; in their order; 8 done once; all at attempt 1; some went back"),
    CASE("a worker", "it comes back after its replacement", hung_worker_comes_back,
         "victim0: failed timeout, attempt 1; 3 done once; 3 done once; no late picture; exit 0"),
    CASE("6 jobs, 2 workers", "each is slower than its timeout and the grace", slow_ones_come_back,
         "6 timeouts; more than 2 replaced; 3 done once; exit 0"),
    CASE("a WebP with alpha, effort 6", "its encoder cannot be interrupted",
         encoder_without_a_deadline,
         "victim0: failed timeout, attempt 1; 0 workers replaced; no late picture"),
    {.name = NULL},
};
