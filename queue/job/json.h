/*
 * json.h - the strictness that a JSON tree alone does not give: one check over the raw text.
 *
 * Refuses what parsers disagree about: more than JOB_DEPTH_MAX levels, bytes that are not UTF-8, lone
 * surrogates and \u0000, a key twice in one object, numbers outside JSON's grammar or a double's
 * range, anything after the value. cJSON reads every text that passes in the same way.
 */
#ifndef GPUIMGD_QUEUE_JOB_JSON_H
#define GPUIMGD_QUEUE_JOB_JSON_H

#include <stddef.h>

#include "conf/status.h"

/* cJSON reads a number through a buffer of 64 bytes. */
#define JSON_NUMBER_BYTES_MAX 63

/* The raw text of one member of the outermost object, for values given back verbatim. */
struct json_member {
    const char *name; /* the caller's */
    const char *at;   /* into the checked text; NULL if there is no such member */
    size_t length;
};

/* bad_json with the byte (from 1) at which the text goes wrong, or out_of_memory. member may be
 * NULL. */
enum status json_check(const char *text, size_t length, struct json_member *member,
                       struct error *error) MUST_CHECK;

#endif
