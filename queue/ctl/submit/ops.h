/*
 * ops.h - operations as people write them on a command line, as a job's JSON.
 *
 *     grayscale,resize:width=512,height=512,sobel:border=zero
 *
 * Items have commas between them; one of the form name=value is a parameter of the operation
 * before it. A value that is JSON is taken as such, brackets hold commas, and all else is a text.
 */
#ifndef GPUIMGD_QUEUE_CTL_SUBMIT_OPS_H
#define GPUIMGD_QUEUE_CTL_SUBMIT_OPS_H

#include <cjson/cJSON.h>

#include "conf/status.h"

/* An array for a job's `ops`; NULL with a sentence. Whether the parameters are right is the
 * daemon's to say, names are looked at here. */
cJSON *ops_parse(const char *text, struct error *error);
/* The same from a file that holds the array as JSON. */
cJSON *ops_load(const char *path, struct error *error);

/* A file that holds JSON, - being standard input; malloc'd, NULL with a sentence. More than a job
 * may have is cut, and then no JSON any more. */
char *ops_read_file(const char *path, size_t *length, struct error *error);

/* The operations of the build, in the order of their table. */
extern const char *const ops_names[];
extern const size_t ops_count;

#endif
