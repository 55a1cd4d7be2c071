/* result_reader.h - reads results from the reply list of one submit.
 *
 * It delivers each job's result once, even if the job ran twice or a reply was lost with its
 * connection. meta.n identifies the job. One thread. */
#pragma once

#include <cjson/cJSON.h>

#include "queue/ctl/client.h"

/* text: the result as JSON text; number: the job's meta.n; file: its meta.file. All are valid only
 * during the call. */
typedef void (*result_reader_cb)(void *context, const cJSON *result, const char *text,
                                 uint64_t number, const char *file);

struct result_reader {
    struct client *client;
    const char *list;
    result_reader_cb each;
    void *context;
    uint8_t *seen;     /* one bit per job */
    size_t seen_bytes;
};

/* Takes the available results, at most a batch, and sets *taken to their number. Returns false if
 * Redis does not reply. */
bool result_reader_take(struct result_reader *reader, size_t *taken);
void result_reader_clear(struct result_reader *reader);
