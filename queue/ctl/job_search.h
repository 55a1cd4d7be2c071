/*
 * job_search.h - whether a job with an id waits or runs.
 *
 * The queue has no index of ids, so the jobs themselves are read, a bounded number of them, and in
 * pieces, between which they move on.
 */
#ifndef GPUIMGD_QUEUE_CTL_JOB_SEARCH_H
#define GPUIMGD_QUEUE_CTL_JOB_SEARCH_H

#include "queue/ctl/client.h"

enum job_search_result {
    JOB_SEARCH_NONE, /* all were read, and none has the id */
    JOB_SEARCH_FOUND,
    JOB_SEARCH_UNKNOWN /* there are too many, or Redis does not let them be read */
};

enum job_search_result job_search(struct client *client, const char *ns, const char *id);

#endif
