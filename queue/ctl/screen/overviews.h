/* overviews.h - reads the snapshots of all shards (overview.h), and adds them up. One thread. */
#pragma once

#include "queue/ctl/ctl.h"
#include "queue/ctl/screen/overview.h"

struct overviews {
    struct overview sum;    /* with each daemon once */
    struct overview *parts; /* one per shard, without daemons; all zero if it was not read */
    bool read[SHARDS_MAX];  /* the shard was read */
    uint32_t count;         /* number of shards that were read */
};

/* Reads all selected shards. A shard that does not answer counts as away until it answers again;
 * the user is told once, unless `quiet`. Returns false if none answers (client_why of the shard in
 * use); otherwise call overviews_clear later. */
bool overviews_read(struct overviews *all, struct ctl *ctl, bool details, bool quiet);
void overviews_clear(struct overviews *all); /* idempotent */

/* Returns the sum as JSON, like overview_json, with a row per shard if there are several. */
cJSON *overviews_json(const struct overviews *all, const struct ctl *ctl);
