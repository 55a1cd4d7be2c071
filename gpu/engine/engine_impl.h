/*
 * engine_impl.h - the interface between engine.c and the two engines; private to gpu.
 *
 * engine.c forwards each call of engine.h through the function table of the open engine. Functions
 * that only one kind of engine has are NULL in the other's table.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "gpu/engine/engine.h"

/* ---- activity.c: for how long copies and kernels kept a device busy ---- */

enum activity_kind { ACTIVITY_H2D, ACTIVITY_KERNEL, ACTIVITY_D2H, ACTIVITY_ANY, ACTIVITY_KINDS };

/* Intervals are added in the order in which tasks end, and may overlap. They are folded into sums
 * by activity_take, or earlier if the table is full. Each sum is the length of the union of the
 * intervals, so that no time is counted twice. Any thread. */
struct activity {
    pthread_mutex_t lock; /* guards all members below */
    struct activity_span *spans[ACTIVITY_KINDS];
    size_t count[ACTIVITY_KINDS];
    double counted_to_s[ACTIVITY_KINDS];
    double sum_s[ACTIVITY_KINDS];
    uint64_t h2d_bytes, d2h_bytes, turns, tasks; /* since the last take */
};

enum status activity_open(struct activity *activity, struct error *error) MUST_CHECK;
void activity_close(struct activity *activity); /* a zeroed or closed one is ignored */
/* Times are seconds on one clock of the caller's choice. An empty or reversed interval is
 * ignored. */
void activity_add(struct activity *activity, enum activity_kind kind, double start_s, double end_s);
/* Counts a batch that has ended. */
void activity_count(struct activity *activity, uint64_t h2d_bytes, uint64_t d2h_bytes,
                    uint64_t tasks);
/* Adds the sums and counts since the last call to `total` and resets them. */
void activity_take(struct activity *activity, struct engine_activity *total);

/* ---- engines ---- */

/* The part of a device that both engines have. The CPU engine has one, which engine_devices does
 * not count. */
struct engine_device {
    char name[24];      /* "cpu", or "cuda:0" */
    struct pool *pool;  /* device memory; NULL: CPU engine */
    uint32_t slot_count;
    _Atomic enum engine_device_state state; /* CPU engine: always DEVICE_IN_SERVICE */
    struct activity activity;
};

struct engine_table {
    bool synchronous;
    void (*close)(struct engine *engine);
    enum engine_reserved (*reserve)(struct engine *engine, uint32_t device, const struct plan *plan,
                                    struct engine_memory *memory, struct error *error);
    void (*release)(struct engine *engine, struct engine_memory *memory);
    void (*run)(struct engine *engine, struct engine_task *task);    /* synchronous only */
    void (*submit)(struct engine *engine, struct engine_task *task); /* asynchronous only */
    void (*set_in_service)(struct engine *engine, uint32_t device, bool in_service,
                           const char *why);                         /* asynchronous only */
    bool (*prepare_codecs)(struct engine *engine);                   /* asynchronous only */
};

/* For reserve: the device in service that has the fewest jobs. */
#define ENGINE_ANY_DEVICE UINT32_MAX

/* The first member of both engines' structs. */
struct engine {
    const struct engine_table *table;
    struct pool *pinned;
    struct engine_device *devices[DEVICES_MAX];
    uint32_t device_count; /* 0: CPU engine */
    atomic_bool failed;    /* set after `fault`, which then stays unchanged */
    struct error fault;
    struct engine_codecs codecs;
    char description[160];
};

enum status engine_cpu_open(const struct engine_config *config, struct engine **engine,
                            struct error *error) MUST_CHECK;

/* If CUDA has no usable device, succeeds with *usable false and the cause in `reason`, so that the
 * caller can open the CPU engine. */
enum status engine_cuda_open(const struct engine_config *config, struct engine **engine,
                             bool *usable, char *reason, size_t reason_size,
                             struct error *error) MUST_CHECK;

/* ---- reserve.c ---- */

/* Takes input, output and `extra` bytes from the pinned pool as one block, in this order, and sets
 * memory->input, ->output and ->scratch. If ENGINE_NEVER, the error names need and option. */
enum engine_reserved engine_take_pinned(struct engine *engine, const struct plan *plan,
                                        size_t extra, struct engine_memory *memory,
                                        struct error *error);
/* Sets over_budget, or out_of_memory if the budget allows the size but the system has no memory. */
enum engine_reserved engine_never(const struct pool *pool, size_t bytes, const char *option,
                                  struct error *error);
