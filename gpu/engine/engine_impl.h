/*
 * engine_impl.h - the interface between engine.c and the two engines; private to gpu.
 *
 * engine.c forwards each call of engine.h through the function table of the open engine. Functions
 * that only one kind of engine has are NULL in the other's table.
 */
#ifndef GPUIMGD_GPU_ENGINE_ENGINE_IMPL_H
#define GPUIMGD_GPU_ENGINE_ENGINE_IMPL_H

#include "gpu/engine/engine.h"

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

/* For reserve: the device with the most free memory. */
#define ENGINE_ANY_DEVICE UINT32_MAX

/* The first member of both engines' structs. */
struct engine {
    const struct engine_table *table;
    struct pool *pinned;
    struct error fault; /* STATUS_OK: none */
    char description[160];
};

enum status engine_cpu_open(const struct engine_config *config, struct engine **engine,
                            struct error *error) MUST_CHECK;

/* If CUDA has no usable device, succeeds with *usable false and the cause in `reason`, so that the
 * caller can open the CPU engine. */
enum status engine_cuda_open(const struct engine_config *config, struct engine **engine,
                             bool *usable, char *reason, size_t reason_size,
                             struct error *error) MUST_CHECK;

/* Takes input, output and `extra` bytes from the pinned pool as one block, in this order, and sets
 * memory->input, ->output and ->scratch. If ENGINE_NEVER, the error names need and option. */
enum engine_reserved engine_take_pinned(struct engine *engine, const struct plan *plan,
                                        size_t extra, struct engine_memory *memory,
                                        struct error *error);
/* Sets over_budget, or out_of_memory if the budget allows the size but the system has no memory. */
enum engine_reserved engine_never(const struct pool *pool, size_t bytes, const char *option,
                                  struct error *error);

#endif
