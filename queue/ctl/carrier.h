/*
 * carrier.h - takes pictures to Redis and results back, for hosts that share no disk with a daemon.
 *
 * A bounded number of pictures is under way at once, so that Redis never holds more of them.
 */
#ifndef GPUIMGD_QUEUE_CTL_CARRIER_H
#define GPUIMGD_QUEUE_CTL_CARRIER_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/ctl/client.h"
#include "queue/ctl/recipe.h"

/* Jobs that wait for each other's bytes: enough for several daemons, and some 200 MB of
 * photographs. */
#define CARRIER_PLACES 64

struct carrier {
    struct client *client;
    const struct recipe *recipe;
    uint64_t bytes_max;      /* of a picture */
    struct {
        uint64_t number;     /* 0: free */
        char *out;           /* the file that the result goes to, or NULL */
    } places[CARRIER_PLACES];
    unsigned used;
    bool redis_lost;         /* why the last call failed: the client says it */
};

bool carrier_full(const struct carrier *carrier);
/* Puts the picture under its key. false: not done, with a sentence, or redis_lost. */
bool carrier_send(struct carrier *carrier, const struct source_file *file, uint64_t number,
                  struct error *error);
/* The job has ended with this status: writes what was made by one that is done, and takes its keys
 * away; the picture of a dead one stays, so that it can be tried again. false as carrier_send. */
bool carrier_fetch(struct carrier *carrier, uint64_t number, const char *status,
                   struct error *error);
/* The file of a job that is under way; NULL: there is none. */
const char *carrier_out(const struct carrier *carrier, uint64_t number);
void carrier_clear(struct carrier *carrier);

#endif
