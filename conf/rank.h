/*
 * rank.h - the order in which jobs of different priorities wait inside the daemon.
 *
 * The rule is that of FETCH (queue/PROTOCOL.md, Priorities): while jobs of several priorities wait,
 * priority P gets a share in proportion to 2^P. Each job gets a rank when it is fetched: the
 * highest rank of a job that has left its last line (ranks_serve), or the rank of the last job with
 * the same priority if that is higher, plus 512 / 2^P. Jobs wait in lines: for reads, downloads,
 * memory, workers and devices. Each line is in the order of ranks. So a job of priority 9 overtakes
 * all waiting jobs of NS:jobs (priority 4), but one of 33 jobs that start is from NS:jobs. Jobs
 * with the same priority never overtake each other. Running work is not interrupted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/list.h"

/* The priority of the jobs of NS:jobs. */
#define PRIORITY_DEFAULT 4

/* All zero: no rank. It overtakes nothing and is not overtaken. */
struct rank {
    uint64_t at;       /* a smaller one goes first */
    uint32_t priority; /* 0 to 9; 9 is the most urgent */
};

/* Whether a job goes before `other`, which waits for a later stage and would go first otherwise. */
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

/* Puts a node into a line: after the last node with its priority, and from there on before the
 * first node with a higher rank. The nodes after it are not always in the order of ranks, because a
 * job that returns to a line also goes after the jobs with its priority. So all are searched. */
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
