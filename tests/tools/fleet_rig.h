/*
 * fleet_rig.h - shared by the phases of fleet: the table, Redis's statistics, jobs and results.
 */
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/redis/script.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/world.h"

#define SCRIPT_MS_MAX 10.0
#define STRAY 3
#define STALLS 4
#define LOST_MS_MAX 100.0
#define WAIT_S 120.0
#define NUMBER_FIRST 1000000000ull /* of followers written directly to Redis */

#define JOB                                                                                        \
    "{\"input\":{\"key\":\"gpuimgd:img:in\"},\"output\":{\"key\":\"gpuimgd:img:out:%u\","          \
    "\"format\":\"png\"},\"ops\":[]%s}"

struct fleet {
    struct world world;
    unsigned daemons, jobs, followers, leases;
    unsigned missed;
    double scripts_before, lost_before; /* at the start of the phase; lost_before in ms */
    double cpu_per_job;              /* with one daemon, s */
    char sha[SCRIPT_ID_COUNT][41];   /* of the scripts as Redis names them */
    unsigned char *seen;             /* one bit per job number that has a result */
    unsigned long long seen_max;
    unsigned repeated;               /* jobs with a second result */
    const char *status;              /* the expected status of the results */
    unsigned bad;                    /* results with another status */
};

struct slow {
    double longest_ms;
    double stall_ms;         /* the longest command of constant time */
    unsigned over;           /* scripts that took longer than SCRIPT_MS_MAX */
    const char *name;        /* of the longest */
    unsigned calls[SCRIPT_ID_COUNT];
};

/* ---- the table ------------------------------------------------------------------------------- */

/* bound < 0: the row has no limit. */
void fleet_row(struct fleet *fleet, const char *what, double value, const char *unit, double bound);

/* ---- Redis's statistics ---------------------------------------------------------------------- */

void fleet_run(struct fleet *fleet, const char *command);
void fleet_load_scripts(struct fleet *fleet);
void fleet_prefer_redis(struct fleet *fleet);
/* Sets the threshold of SLOWLOG in microseconds. */
void slowlog_watch(struct fleet *fleet, long us);
struct slow slowlog_look(struct fleet *fleet);
/* Adds the last row of a phase: its verdict on the scripts. */
void fleet_judge_scripts(struct fleet *fleet, const char *phase);

/* ---- jobs and results ------------------------------------------------------------------------ */

void fleet_put_input(struct fleet *fleet);
void fleet_push(struct fleet *fleet, unsigned count);
/* Waits for `count` results and removes them; returns the number of missing results. */
unsigned fleet_take_results(struct fleet *fleet, unsigned count, double seconds);
/* Prints the row that checks for exactly one good result per job. */
void fleet_judge_results(struct fleet *fleet, const char *phase, unsigned missing);
/* Writes jobs that wait under an id, for another job or for a time, in the state of START. */
void fleet_put_waiting(struct fleet *fleet, const char *id, const char *conditions,
                       unsigned long long first, unsigned count);
/* Leases jobs for a daemon of another host, which then dies: only its leases remain. */
bool fleet_lease_elsewhere(struct fleet *fleet);
