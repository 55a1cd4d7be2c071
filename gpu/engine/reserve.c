/* reserve.c - reserves pinned memory for a job; both engines use it. */
#include "gpu/engine/engine_impl.h"

enum engine_reserved engine_never(const struct pool *pool, size_t bytes, const char *option,
                                  struct error *error)
{
    size_t budget = pool_usage(pool).budget;
    if (!pool_fits(pool, bytes))
        error_set(error, STATUS_OVER_BUDGET,
                  "the job needs %zu bytes of %s memory; %s allows %zu in all", bytes,
                  pool_name(pool), option, budget);
    else
        error_set(error, STATUS_OUT_OF_MEMORY,
                  "the system cannot provide %zu bytes of %s memory, although %s allows %zu", bytes,
                  pool_name(pool), option, budget);
    return ENGINE_NEVER;
}

enum engine_reserved engine_take_pinned(struct engine *engine, const struct plan *plan,
                                        size_t extra, struct engine_memory *memory,
                                        struct error *error)
{
    size_t output_at = buffer_align(plan->input_bytes);
    size_t extra_at = output_at + buffer_align(plan->output_bytes);
    bool exhausted;
    if (!pool_take(engine->pinned, extra_at + extra, &memory->pinned_block, &exhausted))
        return exhausted ? engine_never(engine->pinned, extra_at + extra, "pinned_bytes", error)
                         : ENGINE_WAIT;
    memory->input = (uint8_t *)memory->pinned_block.memory;
    memory->output = memory->input + output_at;
    memory->scratch = memory->input + extra_at;
    return ENGINE_RESERVED;
}
