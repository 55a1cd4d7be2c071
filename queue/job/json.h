/* json.h - parses strict JSON into a tree of cJSON.
 *
 * cJSON's own parser accepts too much. This one refuses everything that parsers read differently:
 * more than JOB_DEPTH_MAX levels, invalid UTF-8, lone surrogates and \u0000, duplicate keys in one
 * object, numbers outside JSON's grammar or a double's range, and text after the value. From a text
 * that it accepts, cJSON makes the same tree. Any thread. */
#pragma once

#include <cjson/cJSON.h>

#include "conf/status.h"

/* The longest number that cJSON reads. */
#define JSON_NUMBER_BYTES_MAX 63

/* Errors: bad_json, which names the faulty byte (counted from 1), or out_of_memory. */
enum status json_check(const char *text, size_t length, struct error *error) MUST_CHECK;

/* Returns the tree of the text, which the caller frees, or NULL with the error set. If
 * `raw` is not NULL, it names a member of the outermost object that becomes a raw node. A raw node
 * prints the text as it was written; a number would lose digits in a double. */
cJSON *json_parse(const char *text, size_t length, const char *raw,
                  struct error *error) MUST_CHECK;

/* Replaces the member, or appends it. Takes ownership of item. Returns false if memory is short or
 * item is NULL; the object is unusable then. */
bool json_set(cJSON *object, const char *key, cJSON *item);
/* Reads an array of 1 to `most` numbers from `low` to `high`. Returns their number; 0: it is not
 * such an array. */
int json_numbers(const cJSON *list, double low, double high, double *numbers, int most);
