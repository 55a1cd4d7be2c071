/*
 * engine_impl.h - the interface between engine.c and the two engines; private to gpu.
 *
 * engine.c forwards each call of engine.h through the function table of the open engine. Functions
 * that only one of the engines has are NULL in the other's table.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "gpu/engine/engine.h"

/* ---- activity.c: for how long copies and kernels kept a device busy ---- */

enum activity_kind { ACTIVITY_H2D, ACTIVITY_KERNEL, ACTIVITY_D2H, ACTIVITY_ANY, ACTIVITY_KINDS };

/* Collects the intervals in which a device was busy. They may overlap, and are added in the order
 * in which tasks end. activity_take computes the length of their union, so that no time is counted
 * twice. The functions may be called on any thread. */
struct activity {
    pthread_mutex_t lock; /* guards all members below */
    struct activity_span *spans[ACTIVITY_KINDS]; /* intervals that are not in sum_s yet */
    size_t count[ACTIVITY_KINDS];
    double counted_to_s[ACTIVITY_KINDS]; /* the end of the latest interval that is in sum_s */
    double sum_s[ACTIVITY_KINDS];        /* this and the next: since the last activity_take */
    uint64_t h2d_bytes, d2h_bytes, turns, tasks;
};

enum status activity_open(struct activity *activity, struct error *error) MUST_CHECK;
void activity_close(struct activity *activity); /* ignored if it is zeroed or closed already */
/* Adds an interval, in seconds of any clock that the caller uses for all intervals. An empty or
 * reversed interval is ignored. */
void activity_add(struct activity *activity, enum activity_kind kind, double start_s, double end_s);
/* Counts a batch that has ended. */
void activity_count(struct activity *activity, uint64_t h2d_bytes, uint64_t d2h_bytes,
                    uint64_t tasks);
/* Adds the sums and counts since the last call to *total. */
void activity_take(struct activity *activity, struct engine_activity *total);

/* ---- engines ---- */

/* The part of a device that both engines have. The CPU engine also has one device, which
 * engine_devices does not count. */
struct engine_device {
    char name[24];      /* "cpu", or "cuda:0" */
    struct pool *pool;  /* device memory; NULL: CPU engine */
    uint32_t slot_count;
    _Atomic enum engine_device_state state; /* CPU engine: always DEVICE_IN_SERVICE */
    struct activity activity;
};

/* An engine's functions, named after those of engine.h. */
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
    uint64_t (*cpu_ns)(const struct engine *engine);                 /* asynchronous only */
};

/* As the argument `device` of reserve: the device in service that has the fewest jobs. */
#define ENGINE_ANY_DEVICE UINT32_MAX

/* The first member of both engines' structs. */
struct engine {
    const struct engine_table *table;
    struct pool *pinned;
    struct engine_device *devices[DEVICES_MAX];
    uint32_t device_count; /* 0: CPU engine */
    atomic_bool failed;    /* set after `fault`, which does not change afterwards */
    struct error fault;
    struct engine_codecs codecs;
    char description[160];
};

enum status engine_cpu_open(const struct engine_config *config, struct engine **engine,
                            struct error *error) MUST_CHECK;

/* Opens the CUDA engine. If CUDA has no usable device, the function succeeds with *usable false and
 * writes the cause to `reason`; the caller may then open the CPU engine. */
enum status engine_cuda_open(const struct engine_config *config, struct engine **engine,
                             bool *usable, char *reason, size_t reason_size,
                             struct error *error) MUST_CHECK;

/* ---- reserve.c ---- */

/* Takes one block of pinned memory for the plan's input, its output and `extra` bytes, in this
 * order, and sets memory->input, ->output and ->scratch to them. ENGINE_NEVER: the error is that of
 * engine_never. */
enum engine_reserved engine_take_pinned(struct engine *engine, const struct plan *plan,
                                        size_t extra, struct engine_memory *memory,
                                        struct error *error);
/* Sets the error for a request that the pool can never satisfy: over_budget, or out_of_memory if
 * the budget allows it but the system has no memory. `option` is the option that sets the pool's
 * budget. Returns ENGINE_NEVER. */
enum engine_reserved engine_never(const struct pool *pool, size_t bytes, const char *option,
                                  struct error *error);
