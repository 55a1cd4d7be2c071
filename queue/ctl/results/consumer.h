/* consumer.h - takes results from Redis so that a crash loses none: from the stream as a member of
 * a consumer group, or from the list through a list of its own.
 *
 * A result that was taken stays in Redis until consumer_settle, and comes again if the process dies
 * before. One thread; one consumer per client. */
#pragma once

#include "queue/ctl/client.h"

/* The most results per call. */
#define CONSUMER_BATCH 64

struct consumer_result {
    char *id;   /* of the stream's entry; NULL in a list */
    char *text; /* NULL: the entry was trimmed before a consumer settled it */
    size_t bytes;
};

struct consumer {
    /* Set by the caller. */
    struct client *client;
    const char *ns;
    bool stream;             /* read NS:results:stream, not NS:results */
    const char *group;       /* of the stream */
    const char *name;        /* of this consumer; unique among those that run */
    double idle_s;           /* results that another consumer has held for longer are taken over */
    bool only_new;           /* a new group begins with the results after now */
    bool others;             /* the process has further consumers: do not wait for a lost Redis */

    struct consumer_result results[CONSUMER_BATCH]; /* of the last consumer_take */
    size_t count;
    /* The rest is private. */
    char key[160], taken[320], cursor[48];
    bool ready;              /* the group exists */
    bool resumed;            /* nothing that was delivered to this name before is left */
    bool failed;
    double claim_at_s;       /* the next search for results of dead consumers, clock_now_s */
};

void consumer_init(struct consumer *consumer);
/* Takes up to `limit` results into `results`, oldest first, and waits up to `wait_s` for the first.
 * None may come, also after a lost connection. Returns false if Redis refuses (client_why).
 * wait_s = 0: does not wait. */
bool consumer_take(struct consumer *consumer, size_t limit, double wait_s);
/* Ends the results that consumer_take took: they never come again. Returns false if Redis does not
 * reply; then they come again. */
bool consumer_settle(struct consumer *consumer);
void consumer_clear(struct consumer *consumer);
