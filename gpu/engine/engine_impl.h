/*
 * engine_impl.h - what the engines share; private to gpu.
 *
 * engine.c hands every call of engine.h on through the table of the engine that was opened.
 */
#ifndef GPUIMGD_GPU_ENGINE_ENGINE_IMPL_H
#define GPUIMGD_GPU_ENGINE_ENGINE_IMPL_H

#include "gpu/engine/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

struct engine_table {
    bool synchronous;
    void (*close)(struct engine *engine);
    const char *(*name)(const struct engine *engine, uint32_t device);
    uint32_t (*devices)(const struct engine *engine);
    uint32_t (*slots)(const struct engine *engine, uint32_t device); /* asynchronous only */
    enum engine_reserved (*reserve)(struct engine *engine, uint32_t device,
                                    const struct plan *plan, struct engine_memory *memory,
                                    struct error *error);
    void (*release)(struct engine *engine, struct engine_memory *memory);
    void (*run)(struct engine *engine, struct engine_task *task);    /* synchronous only */
    void (*submit)(struct engine *engine, struct engine_task *task); /* asynchronous only */
    void (*start)(struct engine *engine);                            /* asynchronous only */
    void (*reap)(struct engine *engine);                             /* asynchronous only */
    void (*condemn)(struct engine *engine, const char *why);         /* asynchronous only */
    struct engine_activity (*take_activity)(struct engine *engine, uint32_t device);
    struct pool_usage (*device_usage)(const struct engine *engine, uint32_t device);
};

/* For reserve: whichever has most room. */
#define ENGINE_ANY_DEVICE UINT32_MAX

/* The first member of either engine. */
struct engine {
    const struct engine_table *table;
    struct pool *pinned;
    struct error fault; /* STATUS_OK: none */
    char description[160];
};

enum status engine_cpu_open(const struct engine_config *config, struct engine **engine,
                            struct error *error) MUST_CHECK;

/* *usable, where there is no error: false where CUDA has no device for us, and `reason` says
 * why, so that another engine can be tried. */
enum status engine_cuda_open(const struct engine_config *config, struct engine **engine,
                             bool *usable, char *reason, size_t reason_size,
                             struct error *error) MUST_CHECK;

/* Takes input, output and `extra` bytes behind them from the pinned pool as one block, and fills
 * in memory->input and ->output. ENGINE_NEVER names need and option in the error. */
enum engine_reserved engine_take_pinned(struct engine *engine, const struct plan *plan,
                                        size_t extra, struct engine_memory *memory,
                                        struct error *error);
/* Sets over_budget, or out_of_memory where the budget would do but the system has no more. */
enum engine_reserved engine_never(const struct pool *pool, size_t bytes, const char *option,
                                  struct error *error);


#ifdef __cplusplus
}
#endif
#endif
