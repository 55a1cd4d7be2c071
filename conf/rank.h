/*
 * rank.h - the order of jobs with different priorities in every line of the daemon.
 *
 * The rule is that of FETCH (queue/PROTOCOL.md, Priorities): while jobs of several priorities wait,
 * priority P gets a share in proportion to 2^P. Each job gets a rank when it is fetched: the rank
 * of the job that was served last, or of the last job with its priority if that is higher, plus 512
 * / 2^P. Lines are in the order of ranks. So a job of priority 9 overtakes all jobs of NS:jobs that
 * wait, but of each 33 jobs that start, one comes from there. Jobs with the same priority never
 * overtake each other.
 *
 * The lines: reads, downloads, admission, workers, and the queues of each device. What already runs
 * goes on.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/list.h"

/* Of the jobs of NS:jobs. */
#define PRIORITY_DEFAULT 4

/* All zero: no job's. It overtakes nothing and is not overtaken. */
struct rank {
    uint64_t at;
    uint32_t priority; /* 0 to 9; 9 is the most urgent */
};

/* Whether the job goes before a job in the line of a later stage, which goes first otherwise. */
static inline bool rank_overtakes(const struct rank *rank, const struct rank *other)
{
    return rank->priority > other->priority && rank->at < other->at;
}

/* Distance from a list's node to the rank in the same struct. */
#define RANK_OFFSET(type, node, rank)                                                              \
    ((ptrdiff_t)offsetof(type, rank) - (ptrdiff_t)offsetof(type, node))

static inline const struct rank *rank_at(const struct list_node *node, ptrdiff_t offset)
{
    return (const struct rank *)((const char *)node + offset);
}

/* Puts a node into a line: behind all with its priority, and before all others with a higher rank
 * that come after these. A job that returns to a line goes behind those of its priority, and may
 * then have a lower rank than they: so the whole line is searched. */
static inline void rank_push(struct list *line, struct list_node *node, ptrdiff_t offset)
{
    struct list_node *before = &line->head;
    const struct rank *rank = rank_at(node, offset);
    for (struct list_node *at = line->head.prev; rank->at > 0 && at != &line->head; at = at->prev) {
        const struct rank *other = rank_at(at, offset);
        if (other->priority == rank->priority)
            break;
        if (other->at > rank->at)
            before = at;
    }
    list_insert_before(line, before, node);
}
