/*
 * json.h - strict JSON: checks a text before cJSON, which accepts too much, makes a tree of it.
 *
 * Refuses all that parsers disagree about: more than JOB_DEPTH_MAX levels, bytes that are not
 * UTF-8, lone surrogates and \u0000, a key twice in one object, numbers outside JSON's grammar or a
 * double's range, anything after the value. cJSON reads every text that passes in the same way.
 */
#ifndef GPUIMGD_QUEUE_JOB_JSON_H
#define GPUIMGD_QUEUE_JOB_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "conf/status.h"

/* cJSON reads a number through a buffer of 64 bytes. */
#define JSON_NUMBER_BYTES_MAX 63

/* bad_json with the byte (from 1) at which the text goes wrong, or out_of_memory. */
enum status json_check(const char *text, size_t length, struct error *error) MUST_CHECK;

/* Checks the text, and returns it as a tree; NULL with the error set. The member `raw` of the
 * outermost object, unless raw is NULL, becomes a node that prints as the member was written: a
 * number would lose digits in a double. */
cJSON *json_parse(const char *text, size_t length, const char *raw,
                  struct error *error) MUST_CHECK;

/* Replaces the member, or appends it. Owns item from then on. false without memory, or if item is
 * NULL: then the object is of no more use. */
bool json_set(cJSON *object, const char *key, cJSON *item);

#endif
