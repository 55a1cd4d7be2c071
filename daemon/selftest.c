#include "daemon/selftest.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/clock.h"

#define TIMEOUT_S   30
#define TASKS_MAX   (DEVICES_MAX * STREAMS_CEILING)

struct selftest {
    uv_loop_t *loop;
    struct engine *engine;
    const struct specimen *specimen;
    struct error *error;
    struct codec_context *codec;
    struct run {
        struct engine_memory memory;
        struct engine_task task;
        bool ended;
    } *runs;
    uint32_t run_count;
};

static bool wrong(struct selftest *test, const char *what)
{
    error_set(test->error, STATUS_GPU_FAILED, "self-test: %s", what);
    return false;
}

static void on_done(struct engine_task *task)
{
    container_of(task, struct run, task)->ended = true;
}

/* false: there is no room for one more, or the codec fails; why is in error. */
static bool start(struct selftest *test, struct run *run, struct error *error)
{
    struct engine *engine = test->engine;
    const struct plan *plan = specimen_plan(test->specimen);
    enum engine_reserved reserved = engine_reserve(engine, plan, &run->memory, error);
    if (reserved == ENGINE_WAIT)
        error_set(error, STATUS_OUT_OF_MEMORY, "no room for its image in the pools");
    if (reserved != ENGINE_RESERVED)
        return false;
    if (!specimen_decode(test->specimen, test->codec, &run->memory, error)) {
        engine_release(engine, &run->memory);
        return false;
    }
    run->task = (struct engine_task){.plan = plan, .memory = &run->memory, .alone = true,
                                     .done = on_done};
    if (engine_is_synchronous(engine)) {
        engine_run(engine, &run->task);
        run->ended = true;
    } else {
        engine_submit(engine, &run->task);
        engine_start(engine);
    }
    return true;
}

static void on_tick(uv_timer_t *timer)
{
    engine_reap(timer->data);
}

static bool all_ended(const struct selftest *test)
{
    for (uint32_t i = 0; i < test->run_count; i++)
        if (!test->runs[i].ended)
            return false;
    return true;
}

static bool wait_for_all(struct selftest *test)
{
    uint64_t limit = clock_after_s(clock_now_ns(), TIMEOUT_S);
    uv_timer_t timer;
    uv_timer_init(test->loop, &timer);
    timer.data = test->engine;
    uv_timer_start(&timer, on_tick, 20, 20);
    while (!all_ended(test) && clock_now_ns() < limit)
        uv_run(test->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(test->loop, UV_RUN_NOWAIT);
    return all_ended(test) || wrong(test, "the engine did not answer within 30 s");
}

static bool check(struct selftest *test, const struct run *run)
{
    struct error error = {0};
    if (run->task.error.status != STATUS_OK)
        return wrong(test, run->task.error.text);
    return specimen_compare(test->specimen, test->codec, &run->memory, &error) ||
           wrong(test, error.text);
}

static bool run_all(struct selftest *test)
{
    struct error error = {0};
    uint32_t slots = engine_slots(test->engine);
    uint32_t wanted = slots == 0 ? 1 : slots < TASKS_MAX ? slots : TASKS_MAX;
    test->codec = codec_context_create();
    test->runs = calloc(wanted, sizeof *test->runs);
    if (!test->codec || !test->runs)
        return wrong(test, "no memory");
    while (test->run_count < wanted && start(test, &test->runs[test->run_count], &error))
        test->run_count++;
    bool ok = test->run_count > 0 || wrong(test, error.text);
    ok = ok && wait_for_all(test);
    for (uint32_t i = 0; ok && i < test->run_count; i++)
        ok = check(test, &test->runs[i]);
    for (uint32_t i = 0; i < test->run_count; i++)
        if (test->runs[i].ended) /* else the device may still write to it */
            engine_release(test->engine, &test->runs[i].memory);
    return ok;
}

bool selftest_run(uv_loop_t *loop, struct engine *engine, const struct specimen *specimen,
                  struct error *error)
{
    struct selftest test = {.loop = loop, .engine = engine, .specimen = specimen, .error = error};
    bool ok = run_all(&test);
    codec_context_destroy(test.codec);
    if (all_ended(&test))
        free(test.runs);
    return ok;
}
