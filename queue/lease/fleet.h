/* fleet.h - reads which daemons work in the namespace, and their statistics, for the fleet page.
 *
 * One call of the script FLEET reads a page of FLEET_PAGE daemons. Every daemon publishes its
 * statistics in each shard, so one shard is enough. Loop thread only, but fleet_clear. */
#pragma once

#include "queue/job/instance.h"
#include "queue/lease/group.h"

#define FLEET_PAGE 100
/* More names are not sorted, because Redis runs nothing else meanwhile: 2,048 take 2 ms. */
#define FLEET_NAMES_MAX 2048
/* Statistics of a daemon with 64 devices have 7 KB. */
#define FLEET_STATS_BYTES_MAX 16384

struct fleet_daemon {
    char instance[INSTANCE_BYTES_MAX]; /* any bytes, if not a daemon has written the name */
    double left_s;                     /* until the name expires; negative: the daemon is gone */
    double stats_left_s;               /* until the statistics expire; negative: there are none */
    char *stats; /* the JSON as it was published, malloc'd; NULL: none, or too long */
};

struct fleet {
    uint64_t names, alive; /* in NS:inst: all, and those that have not expired */
    uint64_t sorted;       /* names that the pages show: FLEET_NAMES_MAX at most */
    uint32_t first, count; /* index of the first daemon of this page, and length of the list */
    struct fleet_daemon list[FLEET_PAGE];
};

/* Frees the statistics. Any thread. */
void fleet_clear(struct fleet *fleet);

/* Called once, on the loop. The callee owns the fleet; NULL: there is none, and `error` says why;
 * it is not set if Redis did not answer. */
typedef void (*fleet_done)(void *context, struct fleet *fleet, const struct error *error);

/* Reads the page that begins with daemon number `first` from the first shard whose Redis answers.
 * false: none does, or the last call has no reply yet; `done` is not called. */
bool fleet_ask(struct group *group, uint32_t first, fleet_done done, void *context);
