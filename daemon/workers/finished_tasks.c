#include "daemon/workers/finished_tasks.h"

/* While tasks finish often, the loop collects finished tasks every COLLECT_MS without being woken.
 * A task that can wait then does not wake the loop, unless PATIENT_MAX tasks have finished. Waking
 * the loop more often gains nothing: the calls to Redis that end jobs are sent every 2 ms, or when
 * they have 32 jobs (GATHER_MS in queue/lease/calls.h, and the default of the option batch). */
#define COLLECT_MS  2
#define PATIENT_MAX 32

int finished_open(struct finished_tasks *finished, uv_loop_t *loop, waker_cb collect, void *context)
{
    *finished = (struct finished_tasks){.collect = collect, .context = context};
    int error = waker_open(&finished->waker, loop, collect, context);
    if (error != 0)
        return error; /* uncovered: memory */
    uv_timer_init(loop, &finished->timer);
    finished->timer.data = finished;
    return 0;
}

bool finished_add(struct finished_tasks *finished, struct list_node *task, bool can_wait)
{
    struct list_node *last = atomic_load(&finished->last);
    do
        task->next = last;
    while (!atomic_compare_exchange_weak(&finished->last, &last, task));
    uint32_t count = atomic_fetch_add(&finished->count, 1) + 1;
    if (can_wait && count <= PATIENT_MAX && atomic_load(&finished->timer_runs))
        return false;
    return !atomic_exchange(&finished->notified, true);
}

void finished_wake(struct finished_tasks *finished)
{
    waker_wake(&finished->waker);
}

static void on_timer(uv_timer_t *timer)
{
    struct finished_tasks *finished = timer->data;
    finished->collect(finished->context);
}

/* Notes when the loop has taken tasks. true: the timer must be started, because tasks finish often:
 * the loop has taken others at most COLLECT_MS ago. */
static bool note_taken(struct finished_tasks *finished, bool some)
{
    uint64_t now_ms = uv_now(finished->timer.loop);
    bool often = now_ms - finished->taken_ms <= COLLECT_MS;
    if (some)
        finished->taken_ms = now_ms;
    return some && often;
}

bool finished_take(struct finished_tasks *finished, struct list *tasks)
{
    struct list taken;
    bool runs = uv_is_active((uv_handle_t *)&finished->timer);
    atomic_store(&finished->timer_runs, runs);
    atomic_store(&finished->notified, false);
    atomic_store(&finished->count, 0);
    struct list_node *last = atomic_exchange(&finished->last, NULL);
    bool some = last != NULL;
    if (!runs && note_taken(finished, some)) {
        uv_timer_start(&finished->timer, on_timer, COLLECT_MS, 0);
        atomic_store(&finished->timer_runs, true);
    }
    list_init(&taken);
    for (struct list_node *before; last; last = before) {
        before = last->next;
        list_push_front(&taken, last);
    }
    list_take(tasks, &taken);
    return some;
}

void finished_close(struct finished_tasks *finished)
{
    waker_close(&finished->waker);
    uv_close((uv_handle_t *)&finished->timer, NULL);
}
