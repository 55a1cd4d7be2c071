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

/* A pass leads at most one other. */
#define CALLS_LED_MAX   2
#define JOINT_CALLS_MAX 16

/* Passes that run together. */
struct joint_calls {
    const struct plan *plan;
    struct pass_buffers buffers;
    uint64_t deadline_ns;
    uint32_t count;
    struct pass passes[JOINT_CALLS_MAX]; /* with the deadline, and bound to their constants */
    struct pass_call calls[JOINT_CALLS_MAX];
};

static void add_call(struct joint_calls *joint, const struct pass *pass)
{
    struct pass *own = &joint->passes[joint->count];
    if (pass_bind(pass, joint->plan, &joint->buffers, own) == pass)
        *own = *pass;
    own->deadline_ns = joint->deadline_ns;
    joint->calls[joint->count++] =
        (struct pass_call){own, pass_from(pass, &joint->buffers), pass_to(pass, &joint->buffers),
                           pass_address(&joint->buffers, pass->work_place)};
}

/* Adds a pass of the variant, and the passes that it leads. Returns the index of the next one. */
static uint32_t add_calls(struct joint_calls *joint, const struct plan_variant *variant,
                          uint32_t index)
{
    do {
        if (pass_runs(&variant->passes[index]))
            add_call(joint, &variant->passes[index]);
    } while (variant->passes[index++].leads);
    return index;
}

static void run_calls(struct joint_calls *joint)
{
    const struct pass_call *first = &joint->calls[0];
    if (joint->count > 0 && first->pass->type->cpu_joint)
        first->pass->type->cpu_joint(first, joint->count);
    else if (joint->count > 0)
        first->pass->type->cpu(first->pass, &first->from, &first->to, first->work);
    joint->count = 0;
}

/* Runs the joint passes: the first ones of all variants together, then the next ones, and so on. */
static void run_joint(struct joint_calls *joint)
{
    uint32_t next[JOB_OUTPUTS_MAX];
    bool any = true;
    for (uint32_t v = 0; v < joint->plan->variant_count; v++)
        next[v] = phase_begin(&joint->plan->variants[v], PHASE_JOINT);
    while (any) {
        any = false;
        for (uint32_t v = 0; v < joint->plan->variant_count; v++) {
            const struct plan_variant *variant = &joint->plan->variants[v];
            if (next[v] >= phase_end(variant, PHASE_JOINT))
                continue;
            next[v] = add_calls(joint, variant, next[v]);
            any = true;
            if (joint->count + CALLS_LED_MAX > JOINT_CALLS_MAX)
                run_calls(joint);
        }
        run_calls(joint);
    }
}

/* Sets the task's error if the deadline has passed at a pass. */
static void check_deadline(struct engine_task *task, const struct plan_variant *variant,
                           uint32_t index, uint64_t now_ns)
{
    if (task->deadline_ns && now_ns > task->deadline_ns && !task->error.status)
        error_set(&task->error, STATUS_TIMEOUT, "the deadline passed at %s, pass %u of %u",
                  variant->passes[index].type->name, index + 1, variant->pass_count);
}

/* Runs the passes of a phase, one variant after the other. *now_ns: the time, which is updated. */
static void run_phase(struct engine_task *task, struct joint_calls *joint, enum plan_phase phase,
                      uint64_t *now_ns)
{
    for (uint32_t v = 0; v < task->plan->variant_count; v++) {
        const struct plan_variant *variant = &task->plan->variants[v];
        uint32_t p = phase_begin(variant, phase);
        while (p < phase_end(variant, phase)) {
            uint32_t first = p;
            check_deadline(task, variant, first, *now_ns);
            if (task->error.status)
                return;
            p = add_calls(joint, variant, p);
            run_calls(joint);
            *now_ns = clock_now_ns();
            check_deadline(task, variant, first, *now_ns);
        }
    }
}

void engine_run_here(struct engine_task *task)
{
    const struct plan *plan = task->plan;
    const struct engine_memory *memory = task->memory;
    struct joint_calls joint;
    uint64_t start_ns = clock_now_ns(), now_ns = start_ns;

    joint.plan = plan;
    joint.buffers = (struct pass_buffers){memory->input, memory->output, memory->scratch};
    joint.deadline_ns = task->deadline_ns;
    joint.count = 0;
    task->error.status = STATUS_OK;
    task->suspect = false;
    run_phase(task, &joint, PHASE_EARLY, &now_ns);
    if (!task->error.status) {
        run_joint(&joint);
        now_ns = clock_now_ns();
        for (uint32_t v = 0; v < plan->variant_count; v++)
            if (plan->variants[v].joint > 0)
                check_deadline(task, &plan->variants[v], plan->variants[v].early, now_ns);
    }
    if (!task->error.status)
        run_phase(task, &joint, PHASE_REST, &now_ns);
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
