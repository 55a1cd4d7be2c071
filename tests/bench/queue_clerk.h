/*
 * queue_clerk.h - a client process of a bench, which leases and answers jobs without any work.
 *
 * A clerk runs the daemon's queue code: for each shard one queue on one event loop. It parses each
 * job, writes a result and ends the lease. Clerks are forked, so that each has a thread of its own;
 * they share counters with the bench.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <sched.h>
#include <stdint.h>
#include <sys/types.h>

#define CLERK_SHARDS_MAX 64
#define CLERKS_MAX 64

#define CLERK_JOB "{\"input\":\"in.jpg\",\"output\":\"out.jpg\",\"ops\":[]}"

struct clerk_shard {
    const char *redis; /* address, as in the option `redis` */
    char ns[32];
};

/* Shared by the bench and all clerks: mmap with MAP_SHARED. */
struct clerk_board {
    _Atomic unsigned ready; /* clerks whose queues are all connected */
    _Atomic bool go, stop;
    _Atomic uint64_t settled[CLERKS_MAX][CLERK_SHARDS_MAX];
    _Atomic uint64_t bad[CLERKS_MAX]; /* stale, dead, or not parsed */
};

struct clerk_plan {
    struct clerk_shard shards[CLERK_SHARDS_MAX];
    unsigned shard_count;
    uint32_t places;       /* per shard */
    uint32_t batch;
    const cpu_set_t *cpus; /* NULL: any */
    struct clerk_board *board;
};

struct clerk_board *clerk_board_new(void);
void clerk_board_free(struct clerk_board *board);

/* Forks clerk `index`, which runs until board->stop. It dies with the bench. Returns -1 if fork
 * fails. The child exits with 0 if all of its leases were acknowledged. */
pid_t clerk_start(const struct clerk_plan *plan, unsigned index);
