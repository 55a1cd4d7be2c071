/* queue_servers.h - measures the queue with one shard on each of several Redis servers. */
#pragma once

#include <stdbool.h>

#include "tests/fixtures/arguments.h"

struct servers_bench {
    struct argument_numbers counts; /* of servers; none: 1, 2 and 4 */
    unsigned jobs;                  /* per server and round */
    unsigned rounds;
    unsigned clerks;                /* per server; 0: auto */
    unsigned places, batch;         /* of a clerk, per server */
    const char *daemon;             /* a program that serves the shards; NULL: clerks */
    bool tcp;                       /* instead of unix sockets */
};

/* Prints a table. false: a run failed, or a job was lost or ran twice. */
bool servers_run(const struct servers_bench *bench);
