/* result_reader.h - reads results from the reply lists of one submit, one list per shard.
 *
 * It delivers each job's result once, even if the job ran twice or a reply of Redis was lost. Jobs
 * are identified by the number meta.n, which submit gives them. One thread. */
#pragma once

#include <cjson/cJSON.h>

#include "queue/ctl/client.h"

/* text: the result as JSON text; number: the job's meta.n; file: its meta.file. All are valid only
 * during the call. */
typedef void (*result_reader_cb)(void *context, const cJSON *result, const char *text,
                                 uint64_t number, const char *file);

struct result_reader {
    result_reader_cb each;
    void *context;
    uint8_t *seen;     /* one bit per job */
    size_t seen_bytes;
    bool refused; /* the last result_reader_take failed, and a retry cannot help */
};

/* Takes the available results of a list, at most one batch, and sets *taken to their number. waits:
 * retries as client_ask does; else tries once. Returns false if Redis does not reply or refuses. */
bool result_reader_take(struct result_reader *reader, struct client *client, const char *list,
                        bool waits, size_t *taken);
void result_reader_clear(struct result_reader *reader);
