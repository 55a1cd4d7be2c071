/* reap.h - recovers the leases of dead daemons, through the script REAP. */
#pragma once

#include "queue/lease/limit.h"
#include "queue/lease/queue.h"

/* REAP: a ZRANGE reads the names in NS:inst, unless it is too early to read them again. Then the
 * script runs. If it has more to do than one call may, both steps follow again. */
enum reap_state { REAP_NOT, REAP_READS_NAMES, REAP_RUNS };

/* The names of daemons that are gone in a call. */
enum reap_names {
    NAMES_NOT,  /* they were not read for it */
    NAMES_ALL,
    NAMES_FIRST /* more daemons are gone than one call may name */
};

/* Whether a call, and those that follow it, also scan for expired leases. */
enum reap_scan {
    SCAN_NOT,
    SCAN_FIRST,
    SCAN_SECOND /* it takes the leases that had ended by scan_time */
};

struct reap {
    enum reap_state state;
    struct limit limit;
    uint64_t counter;      /* of the outstanding call; in the step REAP_RUNS */
    uint32_t count;        /* the most leases that it takes */
    enum reap_names names;
    enum reap_scan scan;
    long long scan_time;   /* Redis's time at the first scan, Unix ms; -1: no scan since the last
                              connect */
    uint64_t scan_loop_ms; /* the same moment, uv_now */
    size_t name_count;     /* in NS:inst when it was read last */
    uint64_t names_due_ms; /* not read again before this time, uv_now */
};

/* The main connection is new. first: of this daemon, which then looks for daemons of its host whose
 * process is gone. */
void reap_up(struct queue *queue, bool first);
void reap_due(struct queue *queue); /* the timer expired */
