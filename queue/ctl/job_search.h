/*
 * job_search.h - whether a job with an id waits or runs.
 *
 * The queue has no index of ids, so the jobs themselves are read, a bounded number of them, and in
 * pieces, between which they move on.
 */
#ifndef GPUIMGD_QUEUE_CTL_JOB_SEARCH_H
#define GPUIMGD_QUEUE_CTL_JOB_SEARCH_H

#include "queue/ctl/client.h"

enum sighting {
    SIGHTING_NONE,    /* all were read, and none has the id */
    SIGHTING_FOUND,
    SIGHTING_UNKNOWN  /* there are too many, or Redis does not let them be read */
};

enum sighting sighting_look(struct client *client, const char *ns, const char *id);

#endif
