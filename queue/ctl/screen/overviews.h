/* overviews.h - the snapshots of all shards, and their sum. One thread. */
#pragma once

#include "queue/ctl/ctl.h"
#include "queue/ctl/screen/overview.h"

struct overviews {
    struct overview sum;    /* with the daemons of all shards, each once */
    struct overview *parts; /* one per shard, without daemons; zero if it was not read */
    bool read[SHARDS_MAX];
    uint32_t count;         /* of the shards that were read */
};

/* Reads the shards that the command is connected to. A shard that does not answer is away until it
 * answers again; its first failure is reported unless `quiet`. Returns false if none answers
 * (client_why of the shard in use); otherwise the caller calls overviews_clear. */
bool overviews_read(struct overviews *all, struct ctl *ctl, bool details, bool quiet);
void overviews_clear(struct overviews *all); /* idempotent */

/* The sum as JSON, with a row per shard if there are several. Owned as by overview_json. */
cJSON *overviews_json(const struct overviews *all, const struct ctl *ctl);
