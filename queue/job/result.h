/*
 * result.h - the completion message: a plain struct in, JSON text out.
 *
 * Loop thread only. Borrows everything it points to for the length of the call.
 */
#ifndef GPUIMGD_QUEUE_JOB_RESULT_H
#define GPUIMGD_QUEUE_JOB_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/status.h"
#include "queue/job/job.h"

struct result_output {
    const struct job_place *place;
    const char *format; /* NULL: not known yet */
    uint32_t width, height;
    uint64_t bytes;
    const struct error *error; /* NULL or status OK: written */
    const cJSON *values;       /* what its operations found out, or NULL */
};

struct result {
    const struct job *job;      /* may be NULL, or hold as little as was understood */
    const char *text;           /* the job's, of which an excerpt names it if its input cannot; or
                                   NULL */
    size_t text_bytes;
    uint64_t number;
    const char *status;         /* "done", "failed", "dead" or "cancelled" */
    const struct error *error;  /* of the job as a whole; NULL or OK when done */
    const char *input_format;   /* NULL: not known */
    uint32_t input_width, input_height;
    uint64_t input_bytes;
    const struct result_output *outputs;
    size_t output_count;
    uint32_t attempt;
    const char *engine;         /* "cpu", "cuda:0"; NULL before the engine was reached */
    const char *daemon;         /* "host:pid" */
    struct {
        double queue, read, admit, decode, h2d, kernel, d2h, encode, total; /* negative: left out */
    } ms;
};

/* One line of JSON, malloc'd; NULL when memory is short. Keys in the order of README's example;
 * times with microseconds. */
char *result_write(const struct result *result);

/* The same for a job that the kept result of another one answers: that result with the job's own
 * number and meta, and `same_as`, the other's number. NULL also where kept is no result. */
char *result_repeat(const char *kept, const struct job *job, uint64_t number);

/* The same result for a job whose output with this key cannot be stored: the output has the error,
 * and so has the job if it was done. NULL when memory is short. */
char *result_deny(const char *result, const char *key, const struct error *error);

#endif
