/*
 * key_transfer.h - takes pictures to Redis and results back, for hosts that share no disk with a daemon.
 *
 * A bounded number of pictures is under way at once, so that Redis never holds more of them.
 */
#ifndef GPUIMGD_QUEUE_CTL_SUBMIT_KEY_TRANSFER_H
#define GPUIMGD_QUEUE_CTL_SUBMIT_KEY_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/ctl/client.h"
#include "queue/ctl/submit/output_file.h"
#include "queue/ctl/submit/job_template.h"

/* Jobs that wait for each other's bytes: enough for several daemons, and some 200 MB of
 * photographs. */
#define KEY_TRANSFER_SLOTS 64

struct key_transfer {
    struct client *client;
    const struct job_template *template;
    const struct output_file_rules *rules;
    uint64_t bytes_max;      /* of a picture */
    struct {
        uint64_t number;     /* 0: free */
        char *outs[JOB_OUTPUTS_MAX]; /* the files that results go to; NULL: none */
    } slots[KEY_TRANSFER_SLOTS];
    unsigned used;
    bool redis_lost;         /* why the last call failed: the client says it */
};

bool key_transfer_full(const struct key_transfer *transfer);
/* Puts the picture under its key. false: not done, with a sentence, or redis_lost. */
bool key_transfer_upload(struct key_transfer *transfer, const struct source_file *file,
                         uint64_t number, struct error *error);
/* Writes the results that a job has made to their files. Gives an array, for cJSON_Delete, of an
 * object for each that was not written: path, message, and key and left_s if Redis has it still. */
cJSON *key_transfer_download(struct key_transfer *transfer, uint64_t number, const cJSON *result);
/* The job is over: takes its keys away, but for those of unwritten results. The picture of a dead
 * one stays, so that it can be tried again. */
void key_transfer_end(struct key_transfer *transfer, uint64_t number, const char *status,
                      const cJSON *unwritten);
/* The files of a job that is under way, by its outputs; NULL: there is none. */
const char *const *key_transfer_outs(const struct key_transfer *transfer, uint64_t number);
void key_transfer_clear(struct key_transfer *transfer);

#endif
