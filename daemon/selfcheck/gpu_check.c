/* uncovered file: gpu (tests/coverage/reasons.txt) */
#include "daemon/selfcheck/gpu_check.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "conf/clock.h"
#include "conf/log.h"

/* The time limit of the test image on a device, with the wait for jobs of the device. A device that
 * exceeds it stays in service: that is only a warning. */
#define TIMEOUT_S 60
/* The highest priority of the workers' tasks: a check should end soon, because it uses memory for
 * which jobs may wait. */
#define PRIORITY 3

/* The check of one device. */
struct run {
    struct gpu_check *check;
    struct engine_memory memory;
    struct engine_task task;
    struct error error; /* of the device or of a worker */
    bool wrong; /* the result is wrong, or a codec has failed: takes the device out of service */
};

struct gpu_check {
    struct engine *engine;
    struct workers *workers;
    const struct test_image *test_image;
    uv_timer_t timer;
    double interval_s;
    bool running;
    struct worker_task task;
    struct run runs[DEVICES_MAX];
    uint32_t run_count;
    atomic_uint computing; /* devices that have not finished */
    struct gpu_check_counts counts;
};

static void on_due(uv_timer_t *timer);

static void schedule_next(struct gpu_check *check)
{
    uv_timer_stop(&check->timer);
    if (check->interval_s > 0 && !engine_fault(check->engine))
        uv_timer_start(&check->timer, on_due, (uint64_t)(check->interval_s * 1e3) + 1, 0);
}

static void end_check(struct worker_task *task)
{
    struct gpu_check *check = container_of(task, struct gpu_check, task);
    for (uint32_t i = 0; i < check->run_count; i++) {
        struct run *run = &check->runs[i];
        const char *device = engine_name(check->engine, run->memory.device);
        check->counts.runs++;
        check->counts.failures += run->error.status != STATUS_OK;
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "GPU check on %.23s: %.250s", device, run->error.text);
        if (run->wrong)
            engine_set_in_service(check->engine, run->memory.device, false, text);
        else if (run->error.status != STATUS_OK)
            log_warning("%s", text);
        else
            engine_set_in_service(check->engine, run->memory.device, true, NULL);
        engine_release(check->engine, &run->memory);
    }
    check->running = false;
    schedule_next(check);
}

static void compare_run(struct worker_task *task, struct worker_tools *tools)
{
    struct gpu_check *check = container_of(task, struct gpu_check, task);
    for (uint32_t i = 0; i < check->run_count; i++) {
        struct run *run = &check->runs[i];
        if (run->error.status == STATUS_OK)
            run->wrong =
                !test_image_compare(check->test_image, tools->codec, &run->memory, &run->error);
    }
}

static void submit_task(struct gpu_check *check,
                        void (*run)(struct worker_task *, struct worker_tools *),
                        void (*done)(struct worker_task *))
{
    check->task = (struct worker_task){.priority = PRIORITY, .run = run, .done = done};
    workers_submit(check->workers, &check->task);
}

/* Called on the thread of the device. The last device submits the comparison. */
static void on_computed(struct engine_task *task)
{
    struct run *run = container_of(task, struct run, task);
    struct gpu_check *check = run->check;
    run->error = task->error;
    if (atomic_fetch_sub(&check->computing, 1) == 1)
        submit_task(check, compare_run, end_check);
}

static void decode_done(struct worker_task *task)
{
    struct gpu_check *check = container_of(task, struct gpu_check, task);
    uint64_t deadline_ns = clock_after_s(clock_now_ns(), TIMEOUT_S);
    uint32_t computing = 0;
    for (uint32_t i = 0; i < check->run_count; i++)
        computing += !check->runs[i].wrong;
    if (computing == 0) {
        end_check(task);
        return;
    }
    atomic_store(&check->computing, computing);
    for (uint32_t i = 0; i < check->run_count; i++) {
        struct run *run = &check->runs[i];
        if (run->wrong)
            continue;
        run->task = (struct engine_task){.plan = test_image_plan(check->test_image),
                                         .memory = &run->memory, .deadline_ns = deadline_ns,
                                         .is_check = true, .done = on_computed};
        engine_submit(check->engine, &run->task);
    }
}

static void decode_run(struct worker_task *task, struct worker_tools *tools)
{
    struct gpu_check *check = container_of(task, struct gpu_check, task);
    for (uint32_t i = 0; i < check->run_count; i++) {
        struct run *run = &check->runs[i];
        run->wrong = !test_image_decode(check->test_image, tools->codec, &run->memory, &run->error);
    }
}

static void on_due(uv_timer_t *timer)
{
    struct gpu_check *check = timer->data;
    const struct plan *plan = test_image_plan(check->test_image);
    check->run_count = 0;
    for (uint32_t d = 0; d < engine_devices(check->engine); d++) {
        struct run *run = &check->runs[check->run_count];
        *run = (struct run){.check = check};
        if (engine_reserve_on(check->engine, d, plan, &run->memory, &run->error) == ENGINE_RESERVED)
            check->run_count++;
    }
    if (check->run_count == 0) {
        schedule_next(check);
        return;
    }
    check->running = true;
    submit_task(check, decode_run, decode_done);
}

struct gpu_check *gpu_check_create(uv_loop_t *loop, struct engine *engine, struct workers *workers,
                                   const struct test_image *test_image)
{
    struct gpu_check *check = calloc(1, sizeof *check);
    if (!check)
        return NULL;
    check->engine = engine;
    check->workers = workers;
    check->test_image = test_image;
    uv_timer_init(loop, &check->timer);
    check->timer.data = check;
    return check;
}

void gpu_check_set_interval(struct gpu_check *check, double interval_s)
{
    if (!check)
        return;
    check->interval_s = interval_s;
    if (!check->running)
        schedule_next(check);
}

bool gpu_check_is_running(const struct gpu_check *check)
{
    return check && check->running;
}

struct gpu_check_counts gpu_check_counts(const struct gpu_check *check)
{
    return check ? check->counts : (struct gpu_check_counts){0};
}

void gpu_check_destroy(struct gpu_check *check)
{
    free(check);
}
