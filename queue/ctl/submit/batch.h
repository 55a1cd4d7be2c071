/* batch.h - collects jobs of gpuimgctl submit, and pushes those of a shard with one command. One
 * thread. */
#pragma once

#include "queue/ctl/submit/job_template.h"

/* The most jobs in a batch. That is about 30 KB, which Redis handles in 100 us. */
#define BATCH_MAX       128
#define BATCH_BYTES_MAX (1 << 20)

struct batch {
    size_t count, bytes; /* bytes: of the jobs' texts */
    struct batch_job {
        const struct ctl_shard *shard;
        char *job;  /* JSON, malloc'd */
        char *file; /* name of the image for messages, malloc'd */
        char id[JOB_ID_BYTES_MAX + 1];
        size_t images; /* or archives, of the job; 1 unless changed after batch_add */
    } jobs[BATCH_MAX];
};

bool batch_is_full(const struct batch *batch);
/* Adds a job to a batch that is not full. Takes ownership of `job` and `file`. */
void batch_add(struct batch *batch, const struct ctl_shard *shard, char *job, char *file,
               const char *id);
/* Removes the jobs of a shard; NULL: all jobs. */
void batch_clear(struct batch *batch, const struct ctl_shard *shard);

/* Returns the number of images of the jobs of a shard. */
uint64_t batch_images(const struct batch *batch, const struct ctl_shard *shard);

/* Returns the next job of a shard, and moves *at after it; NULL: there is none. *at is 0 at first.
 */
const struct batch_job *batch_next(const struct batch *batch, const struct ctl_shard *shard,
                                   size_t *at);
/* Sends a command, LPUSH or RPUSH, that pushes the jobs of a shard to its list. Returns the number
 * of jobs; if it is not 0, call client_take for the reply. */
size_t batch_send(const struct batch *batch, const struct ctl_shard *shard, const char *command,
                  const char *list);
