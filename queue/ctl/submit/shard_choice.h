/* shard_choice.h - chooses the shard of each job of a submit. One thread. */
#pragma once

#include <limits.h>

#include "queue/ctl/ctl.h"

struct shard_choice {
    struct ctl *ctl;
    uint32_t turn;   /* the shard of the last job without an id */
    bool made_ids;   /* gpuimgctl made the ids, and may change them */
    bool waits;      /* also for a shard that goes away */
};

/* Begins at a random shard. */
struct shard_choice shard_choice_begin(struct ctl *ctl, bool made_ids, bool waits);

/* Puts the shard of a job in use: that of its id, or without an id ("") the next one that is there.
 * Extends an id that gpuimgctl made until its shard is there. Returns false and sets `error` if the
 * shard is away. */
bool shard_choice_next(struct shard_choice *choice, char id[PATH_MAX], struct error *error);
