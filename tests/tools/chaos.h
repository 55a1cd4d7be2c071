/*
 * chaos.h - what the parts of the program chaos share: chaos_jobs.c pushes jobs, chaos_results.c
 * checks their results, chaos_kills.c starts and kills daemons and masters, chaos_main.c runs them.
 */
#pragma once

#include "queue/redis/shard.h"
#include "tests/fixtures/redis_fleet.h"
#include "tests/fixtures/text_file.h"
#include "tests/fixtures/world.h"

#define LEASE_S 2.0
#define INPUTS 12
#define CHAINS 14
#define TWINS "reply:twins" /* after the namespace */

enum kind {
    GOOD_PNG, GOOD_JPEG, GOOD_KEY, GOOD_TWO, GOOD_LATER, GOOD_TWIN, CANCELLED, EXPIRED, CUT,
    MISSING, NO_IMAGE, BAD_OP, UNKNOWN_OP, BAD_KEY, REFUSED, HUGE_SIDES, NONSENSE, KINDS
};
struct kind_row {
    const char *name, *code; /* the expected error code; "": done */
    unsigned share;          /* of 1000 */
    const char *rest;        /* more members of a job that fails */
};
extern const struct kind_row chaos_kinds[KINDS];
extern const char *const chaos_chains[CHAINS]; /* operations */

struct job {
    uint8_t kind, input, chain, results;
    bool deferred; /* its shard was away: push it later */
};

struct shard {
    redisContext *client; /* NULL: its master is down */
    char ns[24];
    size_t node;          /* of the Cluster */
};

struct tally {
    unsigned pushed, done, failed, dead, wrong;
};

struct chaos {
    struct world world;
    struct redis_fleet fleet;       /* with several shards */
    struct shard shard[SHARDS_MAX];
    uint32_t random;
    unsigned jobs, kills, daemons, shards, master_kills;
    unsigned masters_killed, deferred, *master_kill_at; /* as kill_at */
    double back_at[FLEET_NODES_MAX]; /* when a killed master restarts; 0: it runs */
    struct job *job;
    unsigned pushed, answered, nonsense_answered;
    unsigned twins, same;           /* second results of unique jobs; those with same_as */
    unsigned twins_dead;            /* second results of jobs that were killed too often */
    const char *old;                /* the program of another version, or NULL */
    bool plain;
    unsigned drained, olds, switches; /* restarts: with the old program, with the other one */
    bool is_old[WORLD_DAEMONS_MAX];
    unsigned killed, repeated, attempts_most, errors;
    unsigned *kill_at;              /* sorted numbers of results after which to kill */
    double restart_at[WORLD_DAEMONS_MAX];
    struct tally tally[KINDS];
    /* The first output of each kind, checked against the reference; all others must equal it. */
    struct picture_file proven[INPUTS][CHAINS][2];
};

/* A random number below `below`. */
uint32_t chaos_pick(struct chaos *chaos, uint32_t below);
/* Counts an error, and prints the first 20. */
#define complain(chaos, ...) chaos_complain(chaos, text_of(__VA_ARGS__))
void chaos_complain(struct chaos *chaos, const char *text);
/* The shard of a job. */
struct shard *chaos_shard(struct chaos *chaos, unsigned id);

/* chaos_jobs.c */
void chaos_put_inputs(struct chaos *chaos);
/* Pushes so many new jobs, and the deferred ones whose shard is back. */
void chaos_push(struct chaos *chaos, unsigned count);

/* chaos_results.c. Returns the number of results. */
unsigned chaos_take(struct chaos *chaos);
/* Waits for the results of second unique jobs. */
void chaos_await_twins(struct chaos *chaos);
/* Checks the results of second unique jobs. Each has exactly one, which repeats that of the first
 * job, unless one of the two was dead before the other was looked at. */
void chaos_check_twins(struct chaos *chaos);

/* chaos_kills.c */

/* Sorted numbers of results after which to kill; malloc'd. */
unsigned *chaos_kill_times(struct chaos *chaos, unsigned kills);
/* wait: until the daemon is ready. false: it is not. */
bool chaos_start(struct chaos *chaos, size_t index, bool wait);
/* Ends a daemon with SIGTERM. */
void chaos_drain(struct chaos *chaos, size_t index);
/* Kills a daemon and a master if it is time, and restarts those that were away long enough. */
void chaos_kill(struct chaos *chaos);
bool chaos_all_masters_run(struct chaos *chaos);
