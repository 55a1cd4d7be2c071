/*
 * result_reader.h - takes results from a reply list that is one submit's own.
 *
 * Each job's result is handed out once, also where Redis forgot that it had it and the job ran
 * again, and where an answer was lost with its connection: jobs are told apart by meta.n.
 */
#ifndef GPUIMGD_QUEUE_CTL_SUBMIT_RESULT_READER_H
#define GPUIMGD_QUEUE_CTL_SUBMIT_RESULT_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "queue/ctl/client.h"

/* text: the result's line; number: its job's meta.n; file: its meta.file. */
typedef void (*result_reader_cb)(void *context, const cJSON *result, const char *text,
                                 uint64_t number, const char *file);

struct result_reader {
    struct client *client;
    const char *list;
    result_reader_cb each;
    void *context;
    uint8_t *seen;     /* a bit a job */
    size_t seen_bytes;
};

/* Takes what is there, at most a batch; *taken: how many. false: Redis does not answer. */
bool result_reader_take(struct result_reader *reader, size_t *taken);
void result_reader_clear(struct result_reader *reader);

#endif
