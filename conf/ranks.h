/*
 * ranks.h - assigns ranks to jobs (conf/rank.h). Not for C++, which has other atomics.
 */
#pragma once

#include <stdatomic.h>

#include "conf/limits.h"
#include "conf/rank.h"

/* The state from which ranks are assigned. All zero at first. */
struct ranks {
    _Atomic uint64_t served;       /* highest rank of a job that was served (ranks_serve) */
    uint64_t last[JOB_PRIORITIES]; /* rank of the last job with each priority; only for the thread
                                      that calls ranks_next */
};

static inline struct rank ranks_next(struct ranks *ranks, uint32_t priority)
{
    uint64_t served = atomic_load(&ranks->served), *last = &ranks->last[priority];
    *last = (*last > served ? *last : served) + (1u << (JOB_PRIORITIES - 1 - priority));
    return (struct rank){*last, priority};
}

/* Call when a job leaves the last line in which it waits (leaves_lines in spine.c), or when a
 * worker begins any task (the ranks of workers.c). Any thread. */
static inline void ranks_serve(struct ranks *ranks, const struct rank *rank)
{
    uint64_t served = atomic_load(&ranks->served);
    while (rank->at > served && !atomic_compare_exchange_weak(&ranks->served, &served, rank->at))
        continue;
}
