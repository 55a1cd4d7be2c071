/* cpu.c - the CPU engine, which runs a plan's passes on the calling thread. */
#include <stdio.h>
#include <stdlib.h>

#include "conf/clock.h"
#include "gpu/engine/engine_impl.h"
#include "gpu/plan/pass.h"

struct engine_cpu {
    struct engine base;
    struct engine_device device;
};

static void cpu_close(struct engine *engine)
{
    struct engine_cpu *cpu = container_of(engine, struct engine_cpu, base);
    pool_destroy(engine->pinned);
    activity_close(&cpu->device.activity);
    free(cpu);
}

static enum engine_reserved cpu_reserve(struct engine *engine, uint32_t device,
                                        const struct plan *plan, struct engine_memory *memory,
                                        struct error *error)
{
    (void)device;
    return engine_take_pinned(engine, plan, plan->scratch_bytes, memory, error);
}

static void cpu_release(struct engine *engine, struct engine_memory *memory)
{
    pool_give(engine->pinned, &memory->pinned_block);
}

static void run_pass(const struct pass *pass, const struct plan *plan,
                     const struct pass_buffers *buffers, uint64_t deadline_ns)
{
    struct pass own, bound;
    if (pass->deferred)
        return;
    struct image from = pass_from(pass, buffers);
    struct image to = pass_to(pass, buffers);
    own = *pass;
    own.deadline_ns = deadline_ns;
    pass->type->cpu(pass_bind(&own, plan, buffers, &bound), &from, &to,
                    pass_address(buffers, pass->work_place));
}

static bool is_late(const struct engine_task *task, uint64_t now_ns)
{
    return task->deadline_ns && now_ns > task->deadline_ns;
}

void engine_run_here(struct engine_task *task)
{
    const struct plan *plan = task->plan;
    const struct engine_memory *memory = task->memory;
    struct pass_buffers buffers = {memory->input, memory->output, memory->scratch};
    uint64_t start_ns = clock_now_ns(), now_ns = start_ns;

    task->error.status = STATUS_OK;
    task->suspect = false;
    for (uint32_t v = 0; v < plan->variant_count && !task->error.status; v++) {
        const struct plan_variant *variant = &plan->variants[v];
        for (uint32_t p = 0; p < variant->pass_count && !task->error.status; p++) {
            if (!is_late(task, now_ns)) {
                run_pass(&variant->passes[p], plan, &buffers, task->deadline_ns);
                now_ns = clock_now_ns();
            }
            if (is_late(task, now_ns))
                error_set(&task->error, STATUS_TIMEOUT, "the deadline passed at %s, pass %u of %u",
                          variant->passes[p].type->name, p + 1, variant->pass_count);
        }
    }
    task->h2d_ms = task->d2h_ms = 0;
    task->started_ns = start_ns;
    task->kernel_ms = (double)(now_ns - start_ns) * 1e-6;
}

static void cpu_run(struct engine *engine, struct engine_task *task)
{
    struct activity *activity = &engine->devices[0]->activity;
    engine_run_here(task);
    double start_s = (double)task->started_ns * 1e-9, end_s = start_s + task->kernel_ms * 1e-3;
    activity_add(activity, ACTIVITY_KERNEL, start_s, end_s);
    activity_add(activity, ACTIVITY_ANY, start_s, end_s);
}

static const struct engine_table cpu_table = {
    .synchronous = true,
    .close = cpu_close,
    .reserve = cpu_reserve,
    .release = cpu_release,
    .run = cpu_run,
};

static const char *instruction_set(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return "avx512";
    return __builtin_cpu_supports("avx2") ? "avx2" : "sse2"; /* uncovered: machine */
#elif defined(__aarch64__)
    return "neon";
#else
    return "generic";
#endif
}

enum status engine_cpu_open(const struct engine_config *config, struct engine **engine,
                            struct error *error)
{
    struct engine_cpu *cpu = calloc(1, sizeof(*cpu));
    if (!cpu)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the CPU engine");
    cpu->base.table = &cpu_table;
    cpu->base.devices[0] = &cpu->device;
    snprintf(cpu->device.name, sizeof(cpu->device.name), "cpu");
    snprintf(cpu->base.description, sizeof(cpu->base.description), "CPU (%s)", instruction_set());
    cpu->base.pinned =
        pool_create("pinned", config->pinned_bytes, POOL_SEGMENT_BYTES, &pool_backend_pages);
    enum status status = activity_open(&cpu->device.activity, error);
    if (!status && !cpu->base.pinned)
        status = error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the CPU engine's pool");
    if (status) {
        cpu_close(&cpu->base);
        return status;
    }
    *engine = &cpu->base;
    return STATUS_OK;
}
