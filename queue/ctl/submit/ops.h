/* ops.h - converts operations from the command line to a job's JSON.
 *
 *     grayscale,resize:width=512,height=512,sobel:border=zero
 *
 * Commas separate the items, except in brackets and quotes. An item name=value is a parameter of
 * the operation before it. A value that is valid JSON is used as JSON, any other value as a string.
 * One thread. */
#pragma once

#include <cjson/cJSON.h>

#include "conf/status.h"

/* Returns an array for a job's `ops`, owned by the caller, or NULL with `error` set. Checks the
 * names of operations; the daemon checks their parameters. */
cJSON *ops_parse(const char *text, struct error *error);
/* The same for a file that holds the array as JSON. */
cJSON *ops_load(const char *path, struct error *error);

/* Reads a file into malloc'd memory; "-" is standard input. Returns NULL with `error` set. Text
 * longer than JOB_BYTES_MAX is cut, so that it is invalid JSON. */
char *ops_read_file(const char *path, size_t *length, struct error *error);

/* The names of all operations, in the order of gpu/ops/table.c. */
extern const char *const ops_names[];
extern const size_t ops_count;
