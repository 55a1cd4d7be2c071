/* consumer.h - takes results from Redis so that a crash of this process loses none.
 *
 * From the stream NS:results:stream it takes results as a member of a consumer group. From the list
 * NS:results it moves them to a list of its own. A result that was taken stays in Redis until
 * consumer_settle. If the process dies before, the result comes again. One thread; one consumer per
 * client. */
#pragma once

#include "queue/ctl/client.h"

/* The most results per consumer_take. */
#define CONSUMER_BATCH 64

struct consumer_result {
    char *id;   /* of the stream's entry; NULL in a list */
    char *text; /* the result; NULL: it was trimmed from the stream before a consumer settled it */
    size_t bytes;
};

struct consumer {
    /* Set by the caller. */
    struct client *client;
    const char *ns;
    bool stream;             /* read NS:results:stream, not NS:results */
    const char *group;       /* name of the consumer group of the stream */
    const char *name;        /* of this consumer; no other running consumer may have it */
    double idle_s;           /* take over results that another consumer has held for longer */
    bool only_new;           /* if the group does not exist, it begins with results after now */
    bool others; /* the process has further consumers: do not wait while Redis is away */

    struct consumer_result results[CONSUMER_BATCH]; /* of the last consumer_take */
    size_t count;
    /* The rest is private. */
    char key[160];           /* of the stream or list */
    char taken[320];         /* key of the list with results that this consumer has taken */
    char cursor[48];         /* of XAUTOCLAIM */
    bool ready;              /* the group exists */
    bool resumed;            /* all results that this name took earlier have come again */
    bool failed;             /* Redis refused a command of this consumer_take */
    double claim_at_s; /* stream: next search for results of dead consumers; list: next reading
                          of `taken`; clock_now_s */
};

void consumer_init(struct consumer *consumer);
/* Takes at most `limit` results into `results`, the oldest first. If there is none, waits up to
 * wait_s for one; `count` may then still be 0, also if the connection broke. Returns false if Redis
 * refuses (client_why). */
bool consumer_take(struct consumer *consumer, size_t limit, double wait_s);
/* Removes the results of the last consumer_take from Redis (list), or acknowledges them (stream):
 * they never come again. Returns false if Redis does not reply; then they come again. */
bool consumer_settle(struct consumer *consumer);
void consumer_clear(struct consumer *consumer);
