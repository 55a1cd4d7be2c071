#include "daemon/selfcheck/canary.h"

#include <stdio.h>
#include <stdlib.h>

#include "conf/clock.h"
#include "conf/log.h"

/* How often the engine is asked while the canary is with it: a device that fails reports nothing,
 * and there may be no job that asks. */
#define TICK_MS 100
/* It waits behind the jobs of its device; where it is not answered by then, it says nothing. */
#define TIMEOUT_S 60
/* Above most tasks: it holds memory that jobs may wait for. */
#define PRIORITY 3

struct run {
    struct canary *canary;
    struct engine_memory memory;
    struct engine_task task;
    struct error error; /* the task's, or what was found out on a worker */
    bool wrong;         /* it was found out about the pixels or by a codec */
};

struct canary {
    struct engine *engine;
    struct workers *workers;
    const struct specimen *specimen;
    uv_timer_t timer;
    double interval_s;
    bool out;
    struct worker_task task;
    struct run runs[DEVICES_MAX];
    uint32_t run_count, computing;
    struct canary_counts counts;
};

static void on_turn(uv_timer_t *timer);

static void rest(struct canary *canary)
{
    uv_timer_stop(&canary->timer);
    if (canary->interval_s > 0 && !engine_fault(canary->engine))
        uv_timer_start(&canary->timer, on_turn, (uint64_t)(canary->interval_s * 1e3) + 1, 0);
}

/* ---- its end --------------------------------------------------------------------------------- */

static void end(struct canary *canary)
{
    for (uint32_t i = 0; i < canary->run_count; i++) {
        struct run *run = &canary->runs[i];
        const char *device = engine_name(canary->engine, run->memory.device);
        canary->counts.runs++;
        canary->counts.failures += run->error.status != STATUS_OK;
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "canary on %.23s: %.250s", device, run->error.text);
        if (run->wrong)
            engine_condemn(canary->engine, text);
        else if (run->error.status != STATUS_OK)
            log_warning("%s", text);
        engine_release(canary->engine, &run->memory);
    }
    canary->out = false;
    rest(canary);
}

static void compare_run(struct worker_task *task, struct worker_tools *tools)
{
    struct canary *canary = container_of(task, struct canary, task);
    for (uint32_t i = 0; i < canary->run_count; i++) {
        struct run *run = &canary->runs[i];
        if (run->error.status == STATUS_OK)
            run->wrong = !specimen_compare(canary->specimen, tools->codec, &run->memory,
                                           &run->error);
    }
}

static void compare_done(struct worker_task *task)
{
    end(container_of(task, struct canary, task));
}

static void submit_task(struct canary *canary,
                        void (*run)(struct worker_task *, struct worker_tools *),
                        void (*done)(struct worker_task *))
{
    canary->task = (struct worker_task){.priority = PRIORITY, .run = run, .done = done};
    workers_submit(canary->workers, &canary->task);
}

/* ---- on the devices -------------------------------------------------------------------------- */

static void on_computed(struct engine_task *task)
{
    struct run *run = container_of(task, struct run, task);
    struct canary *canary = run->canary;
    run->error = task->error;
    if (--canary->computing > 0)
        return;
    uv_timer_stop(&canary->timer);
    submit_task(canary, compare_run, compare_done);
}

static void on_tick(uv_timer_t *timer)
{
    engine_reap(((struct canary *)timer->data)->engine);
}

static void decode_done(struct worker_task *task)
{
    struct canary *canary = container_of(task, struct canary, task);
    uint64_t deadline_ns = clock_after_s(clock_now_ns(), TIMEOUT_S);
    for (uint32_t i = 0; i < canary->run_count; i++)
        canary->computing += !canary->runs[i].wrong;
    if (canary->computing == 0) {
        end(canary);
        return;
    }
    uv_timer_start(&canary->timer, on_tick, TICK_MS, TICK_MS);
    for (uint32_t i = 0; i < canary->run_count; i++) {
        struct run *run = &canary->runs[i];
        if (run->wrong)
            continue;
        run->task = (struct engine_task){.plan = specimen_plan(canary->specimen),
                                         .memory = &run->memory,
                                         .deadline_ns = deadline_ns,
                                         .done = on_computed};
        engine_submit(canary->engine, &run->task);
    }
}

/* ---- its beginning --------------------------------------------------------------------------- */

static void decode_run(struct worker_task *task, struct worker_tools *tools)
{
    struct canary *canary = container_of(task, struct canary, task);
    for (uint32_t i = 0; i < canary->run_count; i++) {
        struct run *run = &canary->runs[i];
        run->wrong = !specimen_decode(canary->specimen, tools->codec, &run->memory, &run->error);
    }
}

static void on_turn(uv_timer_t *timer)
{
    struct canary *canary = timer->data;
    const struct plan *plan = specimen_plan(canary->specimen);
    canary->run_count = 0;
    for (uint32_t d = 0; d < engine_devices(canary->engine); d++) {
        struct run *run = &canary->runs[canary->run_count];
        *run = (struct run){.canary = canary};
        if (engine_reserve_on(canary->engine, d, plan, &run->memory, &run->error) ==
            ENGINE_RESERVED)
            canary->run_count++;
    }
    if (canary->run_count == 0) {
        rest(canary);
        return;
    }
    canary->out = true;
    submit_task(canary, decode_run, decode_done);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct canary *canary_create(uv_loop_t *loop, struct engine *engine, struct workers *workers,
                             const struct specimen *specimen)
{
    struct canary *canary = calloc(1, sizeof *canary);
    if (!canary)
        return NULL;
    canary->engine = engine;
    canary->workers = workers;
    canary->specimen = specimen;
    uv_timer_init(loop, &canary->timer);
    canary->timer.data = canary;
    return canary;
}

void canary_set_interval(struct canary *canary, double interval_s)
{
    if (!canary)
        return;
    canary->interval_s = interval_s;
    if (!canary->out)
        rest(canary);
}

bool canary_is_out(const struct canary *canary)
{
    return canary && canary->out;
}

struct canary_counts canary_counts(const struct canary *canary)
{
    return canary ? canary->counts : (struct canary_counts){0};
}

void canary_destroy(struct canary *canary)
{
    free(canary);
}
