/*
 * blocked.h - says what keeps a daemon from taking or starting more jobs, since when, and what an
 * operator can do: for the status page, gpuimgctl status, and metrics.
 *
 * The structs contain no pointers, so an assignment copies them. Loop thread only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "conf/status.h"

struct snapshot;

/* In the order in which they are reported: a daemon may have several reasons. */
enum blocked_by {
    BLOCKED_BY_NOTHING,
    BLOCKED_BY_DRAIN,
    BLOCKED_BY_SIGNAL,
    BLOCKED_BY_PAUSE,
    BLOCKED_BY_REDIS,
    BLOCKED_BY_DISK,
    /* Transfers wait for keys of a role; other jobs go on while there are slots. */
    BLOCKED_BY_KEYS,
    /* The first waiting job does not get its memory from this pool. */
    BLOCKED_BY_PINNED,
    BLOCKED_BY_DEVICE,
    BLOCKED_BY_FILES,
    BLOCKED_BY_CODECS,
    BLOCKED_BY_INFLIGHT, /* the usual state of a busy daemon */
    BLOCKED_COUNT
};
extern const char *const blocked_names[BLOCKED_COUNT];   /* "", "drain", "signal", ... */
extern const char *const blocked_advices[BLOCKED_COUNT]; /* what to do, as a sentence */

/* The memory for which the first waiting job waits. */
struct blocked_memory {
    enum blocked_by by;           /* a pool, or BLOCKED_BY_NOTHING: no job waits */
    uint64_t wanted, free, limit; /* bytes; wanted 0: unknown */
    uint64_t since_ns;            /* when this job began to wait, CLOCK_MONOTONIC */
};

struct blocked {
    enum blocked_by by;
    double for_s;                 /* from the beginning of this reason until the snapshot */
    uint64_t wanted, free, limit; /* bytes of memory, or jobs of inflight; else 0 */
    char why[ERROR_TEXT_MAX + 64];
    /* When each reason began, and when it was found last. CLOCK_MONOTONIC */
    struct blocked_past {
        uint64_t since_ns, found_ns;
    } past[BLOCKED_COUNT];
};

/* Sets snapshot->blocked from the other members. by_signal: SIGUSR2 has paused the daemon. A reason
 * lasts if it is found again within some seconds: of a daemon that is short of memory all the time,
 * one job after the other waits, and at some moments none. */
void blocked_find(struct snapshot *snapshot, bool by_signal);
