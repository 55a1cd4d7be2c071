/* key_transfer.h - uploads images to Redis and downloads results, for hosts without a shared disk.
 * At most KEY_TRANSFER_SLOTS images are in flight, which bounds the memory of Redis. One thread. */
#pragma once

#include "queue/ctl/client.h"
#include "queue/ctl/submit/output_file.h"
#include "queue/ctl/submit/job_template.h"

/* Images in flight: enough to keep several daemons busy, and about 200 MB of photographs. */
#define KEY_TRANSFER_SLOTS 64

struct key_transfer {
    const struct job_template *template;
    const struct output_file_rules *rules;
    uint64_t bytes_max;      /* limit for one image: the option input_bytes_max */
    struct job_image slots[KEY_TRANSFER_SLOTS]; /* number 0: free. `file` is not used */
    unsigned used;
    bool redis_lost;         /* the last upload failed because of Redis: see client_why of the
                                image's shard */
};

/* Uploads an image to its key, unless the daemon downloads it from its URL. Returns false and sets
 * `error` or redis_lost on failure. */
bool key_transfer_upload(struct key_transfer *transfer, const struct job_image *image,
                         struct error *error);
/* Gives an uploaded image a slot, which takes the names of its outputs. */
void key_transfer_hold(struct key_transfer *transfer, struct job_image *image);
/* Downloads the results of a job to their files. Returns a JSON array, owned by the caller, with an
 * object per result that was not written: path, message, and, if Redis still has it, key and
 * left_s. */
cJSON *key_transfer_download(struct key_transfer *transfer, uint64_t number, const cJSON *result);
/* Frees the slot of a job that has ended and deletes its keys, except those of unwritten results.
 * The keys of a dead job stay, so that it can be retried. */
void key_transfer_end(struct key_transfer *transfer, uint64_t number, const char *status,
                      const cJSON *unwritten);
/* The result files of a job in flight, one per output; NULL: no such job. Valid until
 * key_transfer_end. */
const char *const *key_transfer_outs(const struct key_transfer *transfer, uint64_t number);
void key_transfer_clear(struct key_transfer *transfer);
