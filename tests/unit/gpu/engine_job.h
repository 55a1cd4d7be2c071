/*
 * engine_job.h - an image, its plan and its task, for the tests of gpu/engine/engine.h.
 */
#ifndef GPUIMGD_TESTS_ENGINE_JOB_H
#define GPUIMGD_TESTS_ENGINE_JOB_H

#include "tests/unit/gpu/gpu_run.h"

#include "gpu/plan/plan.h"

struct job {
    struct plan plan;
    struct engine_memory memory;
    struct engine_task task;
    cJSON *ops;
    uint32_t seed;
};

static inline void job_open(struct job *job, uint32_t width, uint32_t height, uint32_t channels,
                     const char *ops)
{
    struct error error = {0};
    memset(job, 0, sizeof(*job));
    job->ops = test_ops(ops);
    job->seed = width * 131 + height * 17 + channels;
    struct plan_source source = {.width = width, .height = height, .channels = channels,
                                 .orientation = 1 + (int)(job->seed % 8)};
    struct plan_target target = {.ops = job->ops, .opaque = true};
    if (plan_build(&job->plan, &source, &target, 1, &test_limits, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    job->task = (struct engine_task){.plan = &job->plan, .memory = &job->memory,
                                     .done = test_done};
}

static inline enum engine_reserved job_reserve(struct job *job, struct engine *engine)
{
    struct error error = {0};
    enum engine_reserved reserved = engine_reserve(engine, &job->plan, &job->memory, &error);
    if (reserved == ENGINE_RESERVED) {
        test_fill(plan_input(&job->plan, job->memory.input), job->seed);
        plan_put_constants(&job->plan, job->memory.input);
        memset(job->memory.output, 0x5A, job->plan.output_bytes);
    }
    return reserved;
}

static inline void job_close(struct job *job, struct engine *engine)
{
    engine_release(engine, &job->memory);
    engine_release(engine, &job->memory);
    plan_clear(&job->plan);
    plan_clear(&job->plan);
    cJSON_Delete(job->ops);
    job->ops = NULL;
}

static inline uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Runs the same job on the CPU engine and compares every pixel with what `job` has. */
static inline void compare_with_cpu(struct engine *cpu, const struct job *job, const char *ops)
{
    const struct plan_source *source = &job->plan.source;
    struct job twin;
    job_open(&twin, source->width, source->height, source->channels, ops);
    assert_int_equal(job_reserve(&twin, cpu), ENGINE_RESERVED);
    test_run(cpu, &twin.task);
    struct image a = plan_result(&job->plan, 0, job->memory.input, job->memory.output);
    struct image b = plan_result(&twin.plan, 0, twin.memory.input, twin.memory.output);
    size_t row = (size_t)a.width * a.channels;
    for (uint32_t y = 0; y < a.height; y++)
        for (size_t x = 0; x < row; x++)
            if (a.pixels[y * a.stride + x] != b.pixels[y * b.stride + x])
                fail_msg("%ux%ux%u %s: row %u, byte %zu: %u instead of %u", source->width,
                         source->height, source->channels, ops, y, x,
                         a.pixels[y * a.stride + x], b.pixels[y * b.stride + x]);
    job_close(&twin, cpu);
}

#endif
