/* shard_choice.h - chooses the shard of each job of a submit. One thread. */
#pragma once

#include <limits.h>

#include "queue/ctl/ctl.h"

struct shard_choice {
    struct ctl *ctl;
    uint32_t last; /* index of the shard of the last job without an id */
    bool made_ids; /* the program made the ids, and may change them */
    bool waits;    /* submit waits for a shard that goes away */
};

/* Returns a choice that begins at a random shard. */
struct shard_choice shard_choice_begin(struct ctl *ctl, bool made_ids, bool waits);

/* Puts the shard of the next job in use (ctl_use). Without an id ("") it is the next shard in turn
 * that is not away; else it is the shard of the id. If that one is away and the program made the
 * id, extends the id until its shard is not away. Returns false and sets `error` if the shard is
 * away. */
bool shard_choice_next(struct shard_choice *choice, char id[PATH_MAX], struct error *error);
