/*
 * job_search.h - searches the waiting and running jobs for an id.
 *
 * The queue has no index of ids, so the search reads the jobs themselves, up to a limit. It reads
 * them in pieces, and jobs may move between two pieces. One thread.
 */
#ifndef GPUIMGD_QUEUE_CTL_JOB_SEARCH_H
#define GPUIMGD_QUEUE_CTL_JOB_SEARCH_H

#include "queue/ctl/client.h"

enum job_search_result {
    JOB_SEARCH_NONE, /* all jobs were read; none has the id */
    JOB_SEARCH_FOUND,
    JOB_SEARCH_UNKNOWN /* there are too many jobs, or Redis does not let us read them */
};

enum job_search_result job_search(struct client *client, const char *ns, const char *id);

#endif
