/* batch.h - jobs that are ready to be pushed, for all shards together. One thread. */
#pragma once

#include "queue/ctl/submit/job_template.h"

/* Jobs per push: about 30 KB, which Redis handles in 100 us. */
#define BATCH_MAX       128
#define BATCH_BYTES_MAX (1 << 20)

struct batch {
    size_t count, bytes; /* bytes: of the jobs' texts */
    struct batch_job {
        const struct ctl_shard *shard;
        char *job, *file, id[JOB_ID_BYTES_MAX + 1];
    } jobs[BATCH_MAX];
};

bool batch_is_full(const struct batch *batch);
/* Adds a job to a batch that is not full. Takes ownership of `job` and `file`. */
void batch_add(struct batch *batch, const struct ctl_shard *shard, char *job, char *file,
               const char *id);
/* Removes the jobs of a shard; NULL: all jobs. */
void batch_clear(struct batch *batch, const struct ctl_shard *shard);

/* The next job of a shard, from *at on; NULL: no more. */
const struct batch_job *batch_next(const struct batch *batch, const struct ctl_shard *shard,
                                   size_t *at);
/* Sends the push of a shard's jobs to its list. Returns their number; if it is not 0, take the
 * reply with client_take. command: LPUSH or RPUSH. */
size_t batch_send(const struct batch *batch, const struct ctl_shard *shard, const char *command,
                  const char *list);
