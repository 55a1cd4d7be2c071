#include "queue/ctl/submit/batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "conf/text.h"

bool batch_is_full(const struct batch *batch)
{
    return batch->count == BATCH_MAX || batch->bytes >= BATCH_BYTES_MAX;
}

void batch_add(struct batch *batch, const struct ctl_shard *shard, char *job, char *file,
               const char *id)
{
    assert(!batch_is_full(batch));
    struct batch_job *added = &batch->jobs[batch->count++];
    *added = (struct batch_job){.shard = shard, .job = job, .file = file, .images = 1};
    text_copy(added->id, sizeof added->id, id);
    batch->bytes += strlen(job);
}

void batch_clear(struct batch *batch, const struct ctl_shard *shard)
{
    size_t kept = 0;
    for (size_t i = 0; i < batch->count; i++) {
        struct batch_job *job = &batch->jobs[i];
        if (shard && job->shard != shard) {
            batch->jobs[kept++] = *job;
            continue;
        }
        batch->bytes -= strlen(job->job);
        free(job->job);
        free(job->file);
    }
    batch->count = kept;
}

const struct batch_job *batch_next(const struct batch *batch, const struct ctl_shard *shard,
                                   size_t *at)
{
    while (*at < batch->count) {
        const struct batch_job *job = &batch->jobs[(*at)++];
        if (job->shard == shard)
            return job;
    }
    return NULL;
}

uint64_t batch_images(const struct batch *batch, const struct ctl_shard *shard)
{
    const struct batch_job *job;
    uint64_t images = 0;
    for (size_t at = 0; (job = batch_next(batch, shard, &at));)
        images += job->images;
    return images;
}

size_t batch_send(const struct batch *batch, const struct ctl_shard *shard, const char *command,
                  const char *list)
{
    const char *argv[BATCH_MAX + 2] = {command, list};
    const struct batch_job *job;
    size_t count = 0;
    for (size_t at = 0; (job = batch_next(batch, shard, &at));)
        argv[2 + count++] = job->job;
    if (count > 0)
        client_send_words(shard->client, (int)count + 2, argv, NULL);
    return count;
}
