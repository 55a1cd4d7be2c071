#include "daemon/workers/workers.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "conf/clock.h"
#include "conf/lock.h"
#include "conf/log.h"
#include "conf/ranks.h"
#include "daemon/device_codecs.h"
#include "daemon/workers/finished_tasks.h"

/* Tasks that `yield` may wait for the loop while so many others wait for a worker. */
#define MANY_WAIT 32
/* How often the shares of CPUs are measured: workers_leave_cpus. */
#define SHARE_NS (NS_PER_S / 10)
/* The most idle threads that are signalled and do not run yet. In a virtual machine, a thread needs
 * about 50 us to wake, and a device returns a hundred tasks at once: if threads woke one after the
 * other, most of a batch would wait. Each signal is a system call of the device's thread, so the
 * first few threads wake the others. */
#define WAKING_MAX 4
/* The most brief tasks that a worker takes at once, but at most half of its part of the waiting
 * tasks. When workers took the lock for each task, three times per image, 14 of them waited for it
 * a sixth of their time, at 230,000 images per second. */
#define GROUP_MAX 8

struct worker {
    struct list_node node;
    pthread_t thread;
    struct workers *workers;
    pthread_mutex_t lock;     /* guards the next three members; a thread that needs both locks takes
                                 workers->lock first */
    struct worker_task *task; /* the running task */
    struct list group;        /* tasks that follow it on this worker */
    bool is_given_up;         /* see workers_give_up; changes only with both locks held */
    bool is_busy;      /* this and the next two: guarded by workers->lock. It runs a group, and
                          was not given up */
    uint64_t began_ns; /* when the first task of the group began */
    bool has_place;    /* `running` counts it */
    bool handed_on;    /* the last task ended with workers_hand_on; only this thread uses it */
    bool is_gone;   /* it was given up, and its thread must end; only this thread uses it */
    uint32_t number;
};

struct workers {
    /* Guards the members before `finished`. `started`, and reads of `given_up`, need no lock,
     * because only the loop changes them. */
    pthread_mutex_t lock;
    pthread_cond_t wanted; /* signalled when a task waits */
    struct list waiting[WORKERS_PRIORITIES];
    struct ranks ranks;    /* gives ranks to tasks that belong to no job; learns the highest rank of
                              a task that a worker has begun (ranks_serve), from which new ranks
                              count */
    uint32_t idle;         /* threads that wait for `wanted` */
    /* Threads in a task or about to take the next one, without those given up, and their maximum. A
     * thread keeps its place between two tasks: no other is woken in its place, which would only
     * sleep again. */
    uint32_t running, limit;
    uint32_t waking; /* idle threads that were signalled and do not run yet; at most WAKING_MAX */
    struct list threads; /* struct worker, without those given up */
    bool stopping;
    uint32_t count;    /* threads that should work: the option workers */
    uint32_t given_up; /* threads given up since the start */
    uint32_t started;  /* threads started since the start */
    uint32_t away;     /* threads given up that have not returned from their task */
    uint64_t busy_ns;  /* time of tasks that ended, or whose worker was given up */
    struct finished_tasks finished;
    uint32_t pausing_most;  /* this and the following members: only the loop thread uses them. This
                               and the next two: of workers_leave_cpus */
    workers_others *others; /* NULL: none */
    const void *others_context;
    /* CLOCK_MONOTONIC, and the CPU time of the loop and of the others then. */
    uint64_t measured_ns, measured_cpu_ns, measured_others_ns;
    void (*on_collected)(void *context); /* optional: workers_on_collected */
    void *context;
};

/* ---- on a worker ---------------------------------------------------------------------------- */

#define TASK_RANK RANK_OFFSET(struct worker_task, node, rank)

/* Whether the first task of `line` overtakes the first task of `other`. */
static bool goes_before(const struct list *line, const struct list *other)
{
    return rank_overtakes(rank_at(line->head.next, TASK_RANK),
                          rank_at(other->head.next, TASK_RANK));
}

/* Call with the lock held. The list whose first task runs next; NULL: no task waits. */
static struct list *next_line(struct workers *workers)
{
    struct list *next = NULL;
    for (int priority = WORKERS_PRIORITIES - 1; priority >= 0; priority--) {
        struct list *line = &workers->waiting[priority];
        if (!list_empty(line) && (!next || goes_before(line, next)))
            next = line;
    }
    return next;
}

/* Call with the lock held. The idle threads that may begin a task. */
static uint32_t count_ready(const struct workers *workers)
{
    uint32_t room = workers->running < workers->limit ? workers->limit - workers->running : 0;
    return room < workers->idle ? room : workers->idle;
}

/* Call with the lock held. The tasks that no worker has begun. To compare with count_ready, which
 * still includes threads that were woken for these tasks and do not run yet. */
static size_t count_waiting(const struct workers *workers)
{
    size_t waiting = 0;
    for (int priority = 0; priority < WORKERS_PRIORITIES; priority++)
        waiting += workers->waiting[priority].length;
    return waiting;
}

/* Call with the lock held. Returns how many threads the caller must `wake` after it has released
 * the lock. They wake further ones, so that the loop need not make a system call per task. */
static uint32_t take_over_waking(struct workers *workers)
{
    size_t waiting = count_waiting(workers);
    uint32_t ready = count_ready(workers), most = ready < WAKING_MAX ? ready : WAKING_MAX;
    most = waiting < most ? (uint32_t)waiting : most;
    uint32_t more = most > workers->waking ? most - workers->waking : 0;
    workers->waking += more;
    return more;
}

/* Call without the lock. count: of take_over_waking. */
static void wake(struct workers *workers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        pthread_cond_signal(&workers->wanted);
}

/* Call with the lock held. */
static void wait_for_tasks(struct workers *workers)
{
    workers->idle++;
    pthread_cond_wait(&workers->wanted, &workers->lock);
    workers->idle--;
    /* It may have woken without a signal. Then too many threads are woken, which is harmless. */
    workers->waking -= workers->waking > 0;
}

/* Call with the lock held. The list whose first task this thread begins; NULL: it must wait. */
static struct list *line_to_begin(struct workers *workers)
{
    return workers->running < workers->limit ? next_line(workers) : NULL;
}

/* Call with the lock held. */
static struct worker_task *pop_task(struct worker *worker, struct list *line)
{
    struct worker_task *task = container_of(list_pop(line), struct worker_task, node);
    task->waiting = false;
    atomic_store(&task->worker, worker);
    ranks_serve(&worker->workers->ranks, &task->rank);
    return task;
}

static bool is_brief(const struct list *line)
{
    return !list_empty(line) && container_of(list_first(line), struct worker_task, node)->brief;
}

/* Call with the lock held. The worker begins the first task of the line, and takes those that
 * follow it on this worker. */
static struct worker_task *begin_group(struct worker *worker, struct list *line)
{
    struct workers *workers = worker->workers;
    size_t part = count_waiting(workers) / (2 * (size_t)workers->count);
    size_t most = !is_brief(line) ? 1 : part < GROUP_MAX ? part : GROUP_MAX;
    pthread_mutex_lock(&worker->lock);
    struct worker_task *task = worker->task = pop_task(worker, line);
    while (worker->group.length + 1 < most && is_brief(line))
        list_push(&worker->group, &pop_task(worker, line)->node);
    pthread_mutex_unlock(&worker->lock);
    return task;
}

/* Call with the lock held. Waits for a task and notes that this worker runs it. NULL: the thread
 * must end. */
static struct worker_task *take_task(struct worker *worker, uint64_t now_ns)
{
    struct workers *workers = worker->workers;
    struct list *line;
    while (!(line = line_to_begin(workers)) && !workers->stopping) {
        wait_for_tasks(workers);
        now_ns = clock_now_ns();
    }
    if (!line)
        return NULL;
    worker->is_busy = worker->has_place = true;
    workers->running++;
    worker->began_ns = now_ns;
    return begin_group(worker, line);
}

/* The next task of the group after `ended`, which the loop gets (NULL: it was handed on). NULL: the
 * group is over, or the worker was given up. */
static struct worker_task *next_of_group(struct worker *worker, struct worker_task *ended)
{
    struct worker_task *next = NULL;
    pthread_mutex_lock(&worker->lock);
    if (!list_empty(&worker->group))
        next = worker->task = container_of(list_pop(&worker->group), struct worker_task, node);
    pthread_mutex_unlock(&worker->lock);
    if (!next || !ended)
        return next;
    atomic_store(&ended->worker, NULL);
    if (finished_add(&worker->workers->finished, &ended->node, ended->patient))
        finished_wake(&worker->workers->finished);
    return next;
}

/* Call with the lock held. */
static void leave_place(struct worker *worker)
{
    worker->workers->running -= worker->has_place;
    worker->has_place = false;
}

/* Call with the lock held, when the last task of a group has returned or was handed on.
 * workers_give_up has already counted the time of a worker that was given up. */
static void leave_group(struct worker *worker, uint64_t now_ns)
{
    if (worker->is_busy)
        worker->workers->busy_ns += now_ns - worker->began_ns;
    worker->is_busy = false;
    pthread_mutex_lock(&worker->lock);
    worker->task = NULL;
    pthread_mutex_unlock(&worker->lock);
}

void workers_hand_on(struct worker_tools *tools, struct worker_task *task)
{
    struct worker *worker = tools->worker;
    pthread_mutex_lock(&worker->lock);
    worker->task = NULL;
    atomic_store(&task->worker, NULL);
    pthread_mutex_unlock(&worker->lock);
    worker->handed_on = true;
}

/* Call with the lock held, when the task of a worker that was given up has returned. The worker
 * works again if fewer than `count` threads work. false: its thread must end; no other thread joins
 * it. */
static bool rejoin_or_leave(struct worker *worker)
{
    struct workers *workers = worker->workers;
    bool leaves = workers->stopping || workers->threads.length >= workers->count;
    workers->away--;
    pthread_mutex_lock(&worker->lock);
    worker->is_given_up = leaves;
    pthread_mutex_unlock(&worker->lock);
    if (leaves)
        pthread_detach(worker->thread);
    else
        list_push(&workers->threads, &worker->node);
    return !leaves;
}

/* Call with the lock held. true: the caller must wake the loop. */
static bool finish_task(struct worker *worker, struct worker_task *task)
{
    struct workers *workers = worker->workers;
    bool can_wait = task->patient || (task->yields && count_waiting(workers) >= MANY_WAIT);
    atomic_store(&task->worker, NULL);
    bool must_wake = finished_add(&workers->finished, &task->node, can_wait);
    /* workers_stop does not wait for a thread that was given up, so after it the waker may be
     * closed. */
    return must_wake && !(worker->is_given_up && workers->stopping);
}

void worker_close_later(struct worker_tools *tools, int descriptor)
{
    if (tools->to_close >= 0)
        close(tools->to_close);
    tools->to_close = descriptor;
}

/* What follows the end of a task. The lock is free meanwhile: the woken loop takes it at once, and
 * to close a file may take long. Returns the time after it. */
static uint64_t follow_up(struct worker *worker, bool notify, struct worker_tools *tools,
                          uint64_t now_ns)
{
    struct workers *workers = worker->workers;
    bool closes = tools->to_close >= 0;
    if (!notify && !closes)
        return now_ns;
    if (closes) /* one that paused may begin a task meanwhile */
        leave_place(worker);
    uint32_t wakes = closes ? take_over_waking(workers) : 0;
    pthread_mutex_unlock(&workers->lock);
    wake(workers, wakes);
    if (notify)
        finished_wake(&workers->finished);
    worker_close_later(tools, -1);
    now_ns = clock_now_ns();
    pthread_mutex_lock(&workers->lock);
    return now_ns;
}

/* Ends a group with its last task and takes the next one, if possible with the lock only once.
 * ended: NULL: there is none, or it was handed on. NULL: the thread must end; if worker->is_gone,
 * without using `workers` again, because workers_destroy may free it after the unlock. */
static struct worker_task *next_group(struct worker *worker, struct worker_tools *tools,
                                      struct worker_task *ended)
{
    struct workers *workers = worker->workers;
    struct worker_task *task = NULL;
    uint64_t now_ns = clock_now_ns();
    pthread_mutex_lock(&workers->lock);
    leave_group(worker, now_ns);
    bool notify = ended && finish_task(worker, ended);
    worker->is_gone = worker->is_given_up && !rejoin_or_leave(worker);
    if (notify && worker->is_gone) /* before the unlock, because `workers` may be freed after it */
        finished_wake(&workers->finished);
    if (!worker->is_gone) {
        now_ns = follow_up(worker, notify, tools, now_ns);
        leave_place(worker);
        task = take_task(worker, now_ns);
    }
    uint32_t wakes = worker->is_gone ? 0 : take_over_waking(workers);
    pthread_mutex_unlock(&workers->lock);
    wake(workers, wakes);
    return task;
}

static void free_worker(struct worker *worker)
{
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct worker_tools tools = {codec_context_create(),
                                 malloc(SINK_BYTES),
                                 NULL,
                                 malloc(sizeof(union device_frame)),
                                 worker->number,
                                 worker,
                                 -1};
    bool usable = tools.codec && tools.sink && tools.frame;
    if (!usable) /* uncovered: memory (tests/coverage/reasons.txt) */
        log_error("no memory for the codecs of a worker thread; the thread ends");
    struct worker_task *task = usable ? next_group(worker, &tools, NULL) : NULL;
    while (task) {
        worker->handed_on = false;
        tools.head_of = NULL;
        task->run(task, &tools);
        struct worker_task *ended = worker->handed_on ? NULL : task;
        task = next_of_group(worker, ended);
        if (!task)
            task = next_group(worker, &tools, ended);
    }
    worker_close_later(&tools, -1);
    codec_context_destroy(tools.codec);
    free(tools.sink);
    free(tools.frame);
    if (worker->is_gone) /* it is no longer in workers->threads, so workers_stop does not free it */
        free_worker(worker);
    return NULL;
}

/* ---- on the loop ---------------------------------------------------------------------------- */

static bool start_thread(struct workers *workers)
{
    struct worker *worker = calloc(1, sizeof *worker);
    if (!worker) /* uncovered: memory */
        return false;
    worker->workers = workers;
    worker->number = workers->started++;
    pthread_mutex_init(&worker->lock, NULL);
    list_init(&worker->group);
    pthread_mutex_lock(&workers->lock);
    bool ok = pthread_create(&worker->thread, NULL, worker_main, worker) == 0;
    if (ok) {
        pthread_setname_np(worker->thread, "worker"); /* for top and ps */
        list_push(&workers->threads, &worker->node);
    }
    pthread_mutex_unlock(&workers->lock);
    if (!ok) /* uncovered: memory */
        free_worker(worker);
    return ok;
}

uint32_t workers_spare(struct workers *workers)
{
    pthread_mutex_lock(&workers->lock);
    size_t waiting = count_waiting(workers);
    uint32_t ready = count_ready(workers);
    uint32_t spare = waiting < ready ? ready - (uint32_t)waiting : 0;
    pthread_mutex_unlock(&workers->lock);
    return spare;
}

static void set_limit(struct workers *workers, uint32_t limit)
{
    pthread_mutex_lock(&workers->lock);
    workers->limit = limit;
    uint32_t wakes = take_over_waking(workers);
    pthread_mutex_unlock(&workers->lock);
    wake(workers, wakes);
}

static uint64_t others_cpu_ns(const struct workers *workers)
{
    return workers->others ? workers->others(workers->others_context) : 0;
}

static void measure_share(struct workers *workers)
{
    uint64_t now_ns = clock_now_ns(), passed_ns = now_ns - workers->measured_ns;
    if (workers->pausing_most == 0 || passed_ns < SHARE_NS)
        return;
    uint64_t cpu_ns = clock_thread_cpu_ns(), others_ns = others_cpu_ns(workers);
    double share = (double)(cpu_ns - workers->measured_cpu_ns) / (double)passed_ns;
    /* It may be less than before if the thread of a device has ended. */
    double others = others_ns > workers->measured_others_ns
                        ? (double)(others_ns - workers->measured_others_ns) / (double)passed_ns
                        : 0;
    double pausing = (share < 1 ? share : 1) * workers->pausing_most + others + 0.5;
    set_limit(workers, pausing < workers->count ? workers->count - (uint32_t)pausing : 1);
    workers->measured_ns = now_ns;
    workers->measured_cpu_ns = cpu_ns;
    workers->measured_others_ns = others_ns;
}

void workers_leave_cpus(struct workers *workers, uint32_t most, workers_others *others,
                        const void *context)
{
    assert(most < workers->count);
    workers->pausing_most = most;
    workers->others = others;
    workers->others_context = context;
    workers->measured_ns = clock_now_ns();
    workers->measured_cpu_ns = clock_thread_cpu_ns();
    workers->measured_others_ns = others_cpu_ns(workers);
}

void workers_collect(struct workers *workers)
{
    struct list taken;
    list_init(&taken);
    bool some = finished_take(&workers->finished, &taken);
    measure_share(workers);
    for (struct list_node *node; (node = list_pop(&taken));) {
        struct worker_task *task = container_of(node, struct worker_task, node);
        task->done(task);
    }
    if (some && workers->on_collected)
        workers->on_collected(workers->context);
}

static void on_finished(void *context)
{
    workers_collect(context);
}

struct workers *workers_create(uv_loop_t *loop, uint32_t count)
{
    struct workers *workers = calloc(1, sizeof *workers);
    if (!workers || finished_open(&workers->finished, loop, on_finished, workers) != 0) {
        free(workers); /* uncovered: memory */
        return NULL;
    }
    workers->count = workers->limit = count;
    lock_init(&workers->lock);
    pthread_cond_init(&workers->wanted, NULL);
    for (int i = 0; i < WORKERS_PRIORITIES; i++)
        list_init(&workers->waiting[i]);
    list_init(&workers->threads);
    for (uint32_t i = 0; i < count; i++) {
        if (start_thread(workers))
            continue;
        if (i == 0) { /* uncovered: memory */
            workers_stop(workers);
            uv_run(loop, UV_RUN_NOWAIT); /* closes the handles of `finished` */
            workers_destroy(workers);
            return NULL;
        }
        log_warning("only %u of %u worker threads could be started", i, count);
        break;
    }
    return workers;
}

void workers_on_collected(struct workers *workers, void (*collected)(void *context), void *context)
{
    workers->on_collected = collected;
    workers->context = context;
}

/* Call with the lock held. */
static void push_task(struct workers *workers, struct worker_task *task)
{
    task->waiting = true;
    if (task->rank.at == 0)
        task->rank = ranks_next(&workers->ranks, 0);
    rank_push(&workers->waiting[task->priority], &task->node, TASK_RANK);
}

/* Prepares tasks to be submitted. true: they have one priority and rank_push would keep their
 * order.
 */
static bool prepare_tasks(struct list *tasks)
{
    const struct worker_task *first = container_of(list_first(tasks), struct worker_task, node);
    bool are_alike = true;
    list_each (node, tasks) {
        struct worker_task *task = container_of(node, struct worker_task, node);
        assert(task->priority < WORKERS_PRIORITIES);
        task->patient = task->yields = false;
        are_alike &= task->rank.at != 0 && task->priority == first->priority &&
                     task->rank.priority == first->rank.priority;
    }
    return are_alike;
}

/* Call with the lock held. Whether rank_push would append a task of this rank. */
static bool is_appended(const struct list *waiting, const struct rank *rank)
{
    return list_empty(waiting) ||
           rank_at(waiting->head.prev, TASK_RANK)->priority == rank->priority;
}

void workers_submit(struct workers *workers, struct worker_task *task)
{
    struct list tasks;
    list_init(&tasks);
    list_push(&tasks, &task->node);
    workers_submit_all(workers, &tasks);
}

void workers_submit_all(struct workers *workers, struct list *tasks)
{
    if (list_empty(tasks))
        return;
    const struct worker_task *first = container_of(list_first(tasks), struct worker_task, node);
    bool are_alike = prepare_tasks(tasks);
    pthread_mutex_lock(&workers->lock);
    struct list *waiting = &workers->waiting[first->priority];
    if (are_alike && is_appended(waiting, &first->rank)) {
        list_each (node, tasks)
            container_of(node, struct worker_task, node)->waiting = true;
        list_take(waiting, tasks);
    }
    for (struct list_node *node; (node = list_pop(tasks));)
        push_task(workers, container_of(node, struct worker_task, node));
    uint32_t wakes = take_over_waking(workers);
    pthread_mutex_unlock(&workers->lock);
    wake(workers, wakes);
}

bool workers_withdraw(struct workers *workers, struct worker_task *task)
{
    pthread_mutex_lock(&workers->lock);
    bool withdrawn = task->waiting;
    if (withdrawn)
        list_remove(&workers->waiting[task->priority], &task->node);
    task->waiting = false;
    pthread_mutex_unlock(&workers->lock);
    return withdrawn;
}

/* Call with the lock held. Returns the worker that runs the task, after it has lost the tasks that
 * would follow; NULL: no worker runs it. */
static struct worker *give_up_worker(struct workers *workers, struct worker_task *task)
{
    struct worker *worker = atomic_load(&task->worker);
    if (!worker)
        return NULL;
    pthread_mutex_lock(&worker->lock);
    bool runs = worker->task == task && !worker->is_given_up;
    if (runs)
        worker->is_given_up = true;
    for (struct list_node *node; runs && (node = list_pop(&worker->group));) {
        struct worker_task *next = container_of(node, struct worker_task, node);
        atomic_store(&next->worker, NULL);
        push_task(workers, next);
    }
    pthread_mutex_unlock(&worker->lock);
    return runs ? worker : NULL;
}

void workers_give_up(struct workers *workers, struct worker_task *task)
{
    pthread_mutex_lock(&workers->lock);
    struct worker *worker = give_up_worker(workers, task);
    bool may_replace = worker && workers->away < workers->count;
    if (worker) {
        list_remove(&workers->threads, &worker->node);
        workers->given_up++;
        workers->away++;
        workers->busy_ns += clock_now_ns() - worker->began_ns;
        worker->is_busy = false;
        leave_place(worker);
    }
    uint32_t wakes = take_over_waking(workers);
    pthread_mutex_unlock(&workers->lock);
    wake(workers, wakes);
    if (may_replace && !start_thread(workers)) /* uncovered: memory */
        log_error("a worker thread hangs, and no new thread can be started in its place");
}

uint32_t workers_given_up(const struct workers *workers)
{
    return workers->given_up;
}

uint32_t workers_away(struct workers *workers)
{
    pthread_mutex_lock(&workers->lock);
    uint32_t away = workers->away;
    pthread_mutex_unlock(&workers->lock);
    return away;
}

struct workers_usage workers_usage(struct workers *workers)
{
    struct workers_usage usage = {0};
    pthread_mutex_lock(&workers->lock);
    uint64_t now = clock_now_ns(), busy_ns = workers->busy_ns;
    list_each (node, &workers->threads) {
        const struct worker *worker = container_of(node, struct worker, node);
        usage.threads++;
        if (worker->is_busy) {
            usage.busy++;
            busy_ns += now - worker->began_ns;
        }
    }
    pthread_mutex_unlock(&workers->lock);
    usage.busy_s = (double)busy_ns / NS_PER_S;
    return usage;
}

void workers_stop(struct workers *workers)
{
    pthread_mutex_lock(&workers->lock);
    workers->stopping = true;
    pthread_cond_broadcast(&workers->wanted);
    pthread_mutex_unlock(&workers->lock);
    /* After `stopping` is set, only the loop changes the list of threads: rejoin_or_leave adds none
     * any more. So the list needs no lock here. */
    for (struct list_node *node; (node = list_pop(&workers->threads));) {
        struct worker *worker = container_of(node, struct worker, node);
        pthread_join(worker->thread, NULL);
        free_worker(worker);
    }
    finished_close(&workers->finished);
}

void workers_destroy(struct workers *workers)
{
    if (!workers)
        return;
    pthread_mutex_lock(&workers->lock);
    bool awaited = workers->away > 0;
    pthread_mutex_unlock(&workers->lock);
    /* If a thread that was given up has not returned yet, it will still use `workers`: `workers`
     * then stays allocated. */
    if (awaited) /* uncovered: moment */
        return;
    pthread_mutex_destroy(&workers->lock);
    pthread_cond_destroy(&workers->wanted);
    free(workers);
}
