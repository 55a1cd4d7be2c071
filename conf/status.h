/*
 * status.h - the error codes of jobs, and the error struct that functions fill in.
 *
 * STATUS_TABLE declares each code once: its enum, its name in results, its meaning, and whether a
 * retry can help. A test compares the list in gpuimgd-job(5) with it. Functions that can fail
 * return `enum status` and describe the failure in a `struct error` of the caller. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "conf/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(ENUM, "name in the result", retry can help, "meaning") */
#define STATUS_TABLE(X)                                                                            \
    X(BAD_JSON, "bad_json", false, "the job is not valid JSON within the size and depth limits")   \
    X(BAD_JOB, "bad_job", false, "a key of the job is missing, unknown or has a wrong value")      \
    X(UNKNOWN_OP, "unknown_op", false, "no operation has this name")                               \
    X(BAD_OP, "bad_op", false, "a parameter of an operation is unknown, missing or out of range")  \
    X(PATH_REFUSED, "path_refused", false,                                                         \
      "a path, key or URL is outside what the configuration allows, or a server denies it")        \
    X(INPUT_MISSING, "input_missing", false, "the input file, key or URL does not exist")          \
    X(INPUT_UNREADABLE, "input_unreadable", true, "the input exists but reading it failed")        \
    X(INPUT_TOO_LARGE, "input_too_large", false, "the input has more bytes than the limit")        \
    X(IMAGE_TOO_LARGE, "image_too_large", false,                                                   \
      "an image has more pixels or a longer side than allowed")                                    \
    X(UNSUPPORTED_FORMAT, "unsupported_format", false, "gpuimgd cannot read the input's format")   \
    X(DECODE_FAILED, "decode_failed", false, "the image is truncated or corrupt")                  \
    X(DECODE_LIMIT, "decode_limit", false,                                                         \
      "decoding exceeds a limit on scans, chunks, time or memory")                                 \
    X(BAD_ARCHIVE, "bad_archive", false,                                                           \
      "the archive is broken, encrypted, of another kind, or beyond a limit")                      \
    X(ENCODE_FAILED, "encode_failed", false, "the result cannot be encoded")                       \
    X(WRITE_FAILED, "write_failed", true,                                                          \
      "this output could not be written, but other outputs can be")                                \
    X(OVER_BUDGET, "over_budget", false,                                                           \
      "the job needs more memory than a whole pool has, or too many tables for its operations")    \
    X(OUT_OF_MEMORY, "out_of_memory", true, "memory ran out while the job ran")                    \
    X(GPU_FAILED, "gpu_failed", true, "the GPU reported an error while the job was on it")         \
    X(TIMEOUT, "timeout", false, "the job did not end within its time limit")                      \
    X(EXPIRED, "expired", false, "the job was not started before its expiry time")                 \
    X(CANCELLED, "cancelled", false, "a client cancelled the job")                                 \
    X(ATTEMPTS_EXHAUSTED, "attempts_exhausted", false,                                             \
      "in the last attempt, the daemon that ran the job crashed or was lost")                      \
    X(INTERNAL, "internal", true, "a fault of gpuimgd itself")

enum status {
    STATUS_OK = 0,
#define X(code, name, retryable, meaning) STATUS_##code,
    STATUS_TABLE(X)
#undef X
    STATUS_COUNT
};

#define MUST_CHECK __attribute__((warn_unused_result))

/* Holds the first error; later calls of error_set change nothing. */
struct error {
    enum status status;
    char text[ERROR_TEXT_MAX];
};

/* Clears an error. Faster than {0}, which writes all of the text. */
static inline void error_clear(struct error *error)
{
    error->status = STATUS_OK;
    error->text[0] = '\0';
}

/* The columns of STATUS_TABLE for a status. The name of STATUS_OK is "ok". */
const char *status_name(enum status status);
const char *status_meaning(enum status status);
bool status_retryable(enum status status);

/* Sets the status and a printf-style message, unless an error is already set. Returns the status of
 * the error. The text goes into JSON and logs, so secrets of URLs are removed (mask.h), and control
 * characters and invalid UTF-8 become '?'. */
enum status error_set(struct error *error, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for functions that return bool: returns false. */
#define error_fail(...) (error_set(__VA_ARGS__) == STATUS_OK)
/* error_fail with STATUS_INTERNAL, for errors that belong to no job. */
bool error_refuse(struct error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif
