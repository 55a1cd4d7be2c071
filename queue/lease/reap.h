/* reap.h - returns the jobs of dead daemons to the queue, by the script REAP.
 *
 * REAP takes expired leases, and at once those of daemons of this host whose process is gone.
 * Expired leases are taken at the second of two scans (PROTOCOL.md, Two scans). If the clock of
 * Redis has stepped, the leases of live daemons seem expired at the first scan, but by the second
 * one they have been renewed. Loop thread only. */
#pragma once

#include "queue/lease/limit.h"
#include "queue/lease/queue.h"

/* First ZRANGE reads the names of all daemons in NS:inst, unless names_due_ms has not come yet.
 * Then the script runs. If one call cannot do everything, both follow again. */
enum reap_state { REAP_NOT, REAP_READS_NAMES, REAP_RUNS };

/* Which daemons whose process is gone a call of REAP names. */
enum reap_names {
    NAMES_NOT, /* none: the names were not read for this call */
    NAMES_ALL,
    NAMES_FIRST /* not all: more are gone than one call may name */
};

/* Whether a call, and the calls that go on with its work, also scan for expired leases. */
enum reap_scan {
    SCAN_NOT,
    SCAN_FIRST, /* takes none of them */
    SCAN_SECOND /* takes those that had expired by scan_time */
};

struct reap {
    enum reap_state state;
    struct limit limit;    /* of the leases per call */
    uint64_t counter;      /* of the outstanding call, like that of a FETCH; in REAP_RUNS */
    uint32_t count;        /* the most leases that this call may take */
    enum reap_names names; /* of this call */
    enum reap_scan scan;   /* of this call */
    long long scan_time;   /* Redis's time at the last first scan, Unix ms; -1: none since the
                              connection was made */
    uint64_t scan_loop_ms; /* the same moment, uv_now */
    size_t name_count;     /* names in NS:inst at the last ZRANGE */
    uint64_t names_due_ms; /* no ZRANGE before this time, uv_now */
};

/* Call when the main connection is up. first: for the first time since the daemon's start; a REAP
 * without a scan then returns the jobs of a process that died before. */
void reap_up(struct queue *queue, bool first);
void reap_due(struct queue *queue); /* call when TIMER_REAP expires */
