/* key_transfer.h - uploads images to Redis and downloads results, for hosts without a shared disk.
 *
 * An image is in flight from its upload until its results are downloaded. At most
 * KEY_TRANSFER_IMAGES are in flight, which bounds the memory of Redis. One thread. */
#pragma once

#include "queue/ctl/client.h"
#include "queue/ctl/submit/output_file.h"
#include "queue/ctl/submit/job_template.h"

/* Enough to keep several daemons busy; about 200 MB of photographs. */
#define KEY_TRANSFER_IMAGES 64

struct key_transfer {
    const struct job_template *template;
    const struct output_file_rules *rules;
    uint64_t bytes_max;      /* limit for one image: the option input_bytes_max */
    struct job_image images[KEY_TRANSFER_IMAGES]; /* in flight; number 0: unused. Without `file` */
    unsigned used;                                /* number of images in flight */
    bool redis_lost; /* the last upload failed because of Redis: client_why of the image's
                        shard gives the reason */
};

/* Uploads an image to its key, unless the image is a URL, which the daemon downloads. Returns false
 * and sets `error` or redis_lost on failure. */
bool key_transfer_upload(struct key_transfer *transfer, const struct job_image *image,
                         struct error *error);
/* Adds an uploaded image to those in flight. Takes the contents of *image. */
void key_transfer_hold(struct key_transfer *transfer, struct job_image *image);
/* Downloads the outputs of a job to their files. Returns a JSON array, owned by the caller, with an
 * object for each output that could not be written: path, message and, if Redis still has the
 * output, key and left_s, the time until it expires. */
cJSON *key_transfer_download(struct key_transfer *transfer, uint64_t number, const cJSON *result);
/* Removes the image of a job that has ended, and deletes its keys, except those of unwritten
 * outputs. The keys of a dead job stay, so that the job can be retried. */
void key_transfer_end(struct key_transfer *transfer, uint64_t number, const char *status,
                      const cJSON *unwritten);
/* Returns the paths of the output files of an image in flight (job_image.outs), valid until
 * key_transfer_end; NULL: no image with this number is in flight. */
const char *const *key_transfer_outs(const struct key_transfer *transfer, uint64_t number);
/* Downloads one output to its file, or adds it to `unwritten`. may_lack: the output may not exist.
 */
void key_transfer_fetch(const struct output_file_rules *rules, struct client *client,
                        const char *key, const char *path, bool may_lack, cJSON *unwritten);
/* Whether the output with this key could not be written. */
bool key_transfer_is_unwritten(const cJSON *unwritten, const char *key);
void key_transfer_clear(struct key_transfer *transfer);
