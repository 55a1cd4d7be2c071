/*
 * check.h - what end-to-end tests assert again and again, on top of cmocka.
 *
 * A check that fails prints the result or the picture's first difference and fails the test.
 */
#ifndef GPUIMGD_TESTS_TOOLS_CHECK_H
#define GPUIMGD_TESTS_TOOLS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/tools/world.h"

/* Pushes a job (quotes as world_push) and waits for the next result, which must come. */
cJSON *check_answer(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The next result; it must come. */
cJSON *check_next(struct world *world);

/* status "done" without an error. The result is freed. */
void check_done(cJSON *result);
/* status "failed" with this error code and a message that holds each of the given words (ended
 * by NULL). The result is freed. */
void check_failed(cJSON *result, const char *code, ...) __attribute__((sentinel));
/* As check_failed, for any status. */
void check_ended(cJSON *result, const char *status, const char *code);

/* Whatever became of it, a result says of which job it is, and each error in it has the one form.
 * check_next looks at every result in this way. */
void check_traceable(const cJSON *result);
/* The message's shape: every key of a result is there with its type, and no other. */
void check_message(const cJSON *result);

/* An output file against the expected pixels, which are freed; limit as in raster_differ. */
void check_output(struct world *world, const char *name, struct raster expected, int limit);
void check_pixels(const char *what, struct raster got, struct raster expected, int limit);
/* As check_output for JPEG: at least this peak signal-to-noise ratio in dB. */
void check_output_near(struct world *world, const char *name, struct raster expected, double db);

void check_ready(struct process *daemon);
/* SIGTERM: ends with 0 in time, and (where it was the last daemon) leaves nothing behind. */
void check_stop(struct process *daemon);
void check_clean(struct world *world);

#endif
