/*
 * gpu_run.h - opens engines and runs one image through a plan, for the tests of gpu.
 *
 * Works the same with a synchronous engine and with an asynchronous one, whose wake it answers
 * from a condition variable as the daemon's loop does from its own.
 */
#ifndef GPUIMGD_TESTS_GPU_RUN_H
#define GPUIMGD_TESTS_GPU_RUN_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/engine/engine.h"

/* Bytes behind the results and the scratch that no pass may touch. */
#define GUARD 4096

struct bell {
    pthread_mutex_t lock;
    pthread_cond_t rung;
    unsigned count;
};

static inline void bell_ring(void *context)
{
    struct bell *bell = context;
    pthread_mutex_lock(&bell->lock);
    bell->count++;
    pthread_cond_signal(&bell->rung);
    pthread_mutex_unlock(&bell->lock);
}

/* Waits for a ring, 100 ms at most, as the daemon does. */
static inline void bell_wait(struct bell *bell)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&bell->lock);
    while (bell->count == 0)
        if (pthread_cond_timedwait(&bell->rung, &bell->lock, &until) != 0)
            break;
    bell->count = 0;
    pthread_mutex_unlock(&bell->lock);
}

/* One for the process: a driver thread may still be ringing it while an engine is closed. */
static struct bell test_bell = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

/* NULL: there is no such engine here, and why has been printed. */
static inline struct engine *test_engine_open(const char *kind, uint32_t streams, size_t pinned,
                                              size_t device)
{
    struct engine *engine = NULL;
    struct error error = {0};
    struct engine_config config = {.kind = kind,
                                   .devices = "all",
                                   .streams = streams,
                                   .pinned_bytes = pinned,
                                   .device_bytes = device,
                                   .wake = bell_ring,
                                   .wake_context = &test_bell};
    if (engine_open(&config, &engine, &error) == STATUS_OK)
        return engine;
    print_message("no %s engine: %s\n", kind, error.text);
    return NULL;
}

/* A reduced table: for compute-sanitizer, and for a ThreadSanitizer that has no threads to see. */
static inline bool test_quick(void)
{
#ifdef __SANITIZE_THREAD__
    return true;
#endif
    const char *quick = getenv("GPUIMGD_TEST_QUICK");
    return quick && *quick == '1';
}

static inline uint32_t test_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Done tasks are counted here: each test runs on one thread. */
static unsigned test_done_count;

static inline void test_done(struct engine_task *task)
{
    (void)task;
    test_done_count++;
}

/* Carries out one task from reservation to its end. */
static inline void test_run(struct engine *engine, struct engine_task *task)
{
    task->done = test_done;
    plan_put_constants(task->plan, task->memory->input);
    if (engine_is_synchronous(engine)) {
        engine_run(engine, task);
        return;
    }
    unsigned before = test_done_count;
    engine_submit(engine, task);
    engine_start(engine);
    while (test_done_count == before) {
        bell_wait(&test_bell);
        engine_reap(engine);
    }
}

/* Reserves what the plan needs and guards behind it; results and scratch are filled like those. */
static inline void test_reserve(struct engine *engine, struct plan *plan,
                                struct engine_memory *memory)
{
    struct error error = {0};
    size_t output = plan->output_bytes, scratch = plan->scratch_bytes;
    plan->output_bytes += GUARD;
    plan->scratch_bytes += GUARD;
    plan->device_bytes += 2 * GUARD;
    if (engine_reserve(engine, plan, memory, &error) != ENGINE_RESERVED)
        fail_msg("%s", error.text);
    plan->output_bytes = output;
    plan->scratch_bytes = scratch;
    plan_put_constants(plan, memory->input);
    memset(memory->output, 0xA5, output + GUARD);
    if (memory->scratch) /* of a device it is elsewhere */
        memset(memory->scratch, 0xA5, scratch + GUARD);
}

static inline void test_guards(const struct plan *plan, const struct engine_memory *memory,
                               const char *what)
{
    for (size_t i = 0; i < GUARD; i++) {
        if (memory->output[plan->output_bytes + i] != 0xA5)
            fail_msg("%s: byte %zu behind the results was written", what, i);
        if (memory->scratch && memory->scratch[plan->scratch_bytes + i] != 0xA5)
            fail_msg("%s: byte %zu behind the scratch was written", what, i);
    }
}

/* Carries the plan out in what test_reserve has reserved, with its input filled since. */
static inline void test_carry_out(struct engine *engine, const struct plan *plan,
                                  const struct engine_memory *memory, const char *what)
{
    struct engine_task task = {.plan = plan, .memory = memory};
    test_run(engine, &task);
    if (task.error.status != STATUS_OK)
        fail_msg("%s: %s", what, task.error.text);
    test_guards(plan, memory, what);
}

static inline cJSON *test_ops(const char *json)
{
    cJSON *ops = cJSON_Parse(json);
    if (!ops)
        fail_msg("not JSON: %s", json);
    return ops;
}

static const struct plan_limits test_limits = {.pixels_max = PIXELS_CEILING,
                                               .side_max = SIDE_CEILING};

/* Fills a view's rows with bytes of a fixed sequence; the padding gets other ones. */
static inline void test_fill(struct image image, uint32_t seed)
{
    uint32_t state = seed * 2654435761u + 12345u;
    for (size_t i = 0; i < image.stride * image.height; i++)
        image.pixels[i] = (uint8_t)(test_random(&state) >> 11);
    /* Flat stretches and full-range steps, which noise alone does not have. */
    size_t row = (size_t)image.width * image.channels;
    for (uint32_t y = 0; y < image.height; y++)
        for (size_t x = 0; x < row; x++)
            if (y % 11 == 3 || (x / 29) % 3 == 1)
                image.pixels[y * image.stride + x] =
                    (x / (5 * image.channels) + y) % 2 ? 255 : 0;
}

#endif
