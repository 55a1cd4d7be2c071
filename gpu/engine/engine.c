/* engine.c - chooses the engine and forwards each call to it. */
#include "gpu/engine/engine.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "conf/log.h"
#include "gpu/engine/engine_impl.h"

#ifndef GPUIMGD_CUDA
enum status engine_cuda_open(const struct engine_config *config, struct engine **engine,
                             bool *usable, char *reason, size_t reason_size, struct error *error)
{
    (void)config, (void)engine, (void)error;
    *usable = false;
    snprintf(reason, reason_size, "this gpuimgd was built without CUDA (make CUDA=yes, with nvcc)");
    return STATUS_OK;
}
#endif

enum status engine_open(const struct engine_config *config, struct engine **engine,
                        struct error *error)
{
    bool wanted = strcmp(config->kind, "cuda") == 0, usable;
    char reason[200] = "";
    *engine = NULL;
    if (strcmp(config->kind, "cpu") == 0)
        return engine_cpu_open(config, engine, error);

    enum status status = engine_cuda_open(config, engine, &usable, reason, sizeof(reason), error);
    if (status || usable) /* uncovered: gpu */
        return status;
    if (wanted)
        return error_set(error, STATUS_GPU_FAILED,
                         "engine = cuda, but %s; engine = auto would use the CPU", reason);
    log_warning("%s; running on the CPU engine", reason);
    return engine_cpu_open(config, engine, error);
}

void engine_close(struct engine *engine)
{
    if (engine)
        engine->table->close(engine);
}

bool engine_is_synchronous(const struct engine *engine)
{
    return engine->table->synchronous;
}

const char *engine_name(const struct engine *engine, uint32_t device)
{
    return engine->devices[device < engine->device_count ? device : 0]->name;
}

const char *engine_description(const struct engine *engine)
{
    return engine->description;
}

uint32_t engine_devices(const struct engine *engine)
{
    return engine->device_count;
}

uint32_t engine_slots(const struct engine *engine)
{
    uint32_t sum = 0;
    for (uint32_t d = 0; d < engine->device_count; d++) /* uncovered: gpu */
        sum += engine_slots_of(engine, d);
    return sum;
}

uint32_t engine_slots_of(const struct engine *engine, uint32_t device) /* uncovered: gpu */
{
    return engine->devices[device]->slot_count;
}

bool engine_prepare_codecs(struct engine *engine)
{
    return engine->table->prepare_codecs && engine->table->prepare_codecs(engine);
}

void engine_set_codecs(struct engine *engine, struct engine_codecs codecs)
{
    engine->codecs = codecs;
}

struct engine_codecs engine_codecs(const struct engine *engine)
{
    return engine->codecs;
}

bool engine_fits(const struct engine *engine, const struct plan *plan)
{
    bool fits = !plan->device_bytes || engine->table->synchronous;
    for (uint32_t d = 0; d < engine->device_count && !fits; d++)
        fits = engine_device_state(engine, d) != DEVICE_FAILED &&
               pool_fits(engine->devices[d]->pool, plan->device_bytes);
    return fits && pool_fits(engine->pinned, buffer_align(plan->input_bytes) +
                                                 buffer_align(plan->output_bytes));
}

size_t engine_pinned_need(const struct engine *engine, const struct plan *plan)
{
    size_t scratch = engine->table->synchronous ? plan->scratch_bytes : 0;
    return buffer_align(plan->input_bytes) + buffer_align(plan->output_bytes) + scratch;
}

bool engine_has_room(const struct engine *engine, const struct plan *plan)
{
    return pool_has_room(engine->pinned, engine_pinned_need(engine, plan));
}

enum engine_reserved engine_reserve(struct engine *engine, const struct plan *plan,
                                    struct engine_memory *memory, struct error *error)
{
    return engine_reserve_on(engine, ENGINE_ANY_DEVICE, plan, memory, error);
}

enum engine_reserved engine_reserve_on(struct engine *engine, uint32_t device,
                                       const struct plan *plan, struct engine_memory *memory,
                                       struct error *error)
{
    memset(memory, 0, sizeof(*memory));
    return engine->table->reserve(engine, device, plan, memory, error);
}

void engine_release(struct engine *engine, struct engine_memory *memory)
{
    engine->table->release(engine, memory);
    memset(memory, 0, sizeof(*memory));
}

void engine_run(struct engine *engine, struct engine_task *task)
{
    assert(engine->table->synchronous);
    engine->table->run(engine, task);
}

void engine_submit(struct engine *engine, struct engine_task *task) /* uncovered: gpu */
{
    assert(!engine->table->synchronous);
    engine->table->submit(engine, task);
}

enum engine_device_state engine_device_state(const struct engine *engine, uint32_t device)
{
    return atomic_load(&engine->devices[device]->state);
}

void engine_set_in_service(struct engine *engine, uint32_t device, bool in_service,
                           const char *why) /* uncovered: gpu */
{
    assert(!engine->table->synchronous && device < engine->device_count);
    engine->table->set_in_service(engine, device, in_service, why);
}

const struct error *engine_fault(const struct engine *engine)
{
    return atomic_load(&engine->failed) ? &engine->fault : NULL;
}

void engine_take_activity(struct engine *engine, uint32_t device, struct engine_activity *total)
{
    activity_take(&engine->devices[device]->activity, total);
}

uint64_t engine_cpu_ns(const struct engine *engine)
{
    return engine->table->cpu_ns ? engine->table->cpu_ns(engine) : 0;
}

struct pool_usage engine_pinned_usage(const struct engine *engine)
{
    return pool_usage(engine->pinned);
}

struct pool_usage engine_device_usage(const struct engine *engine, uint32_t device)
{
    const struct pool *pool = engine->devices[device]->pool;
    return pool ? pool_usage(pool) : (struct pool_usage){0};
}
