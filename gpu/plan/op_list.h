/*
 * op_list.h - the operations of an output, parsed and checked once, when a job is parsed.
 *
 * A list is a struct op_item * (gpu/plan/op.h), which is NULL if there are no operations. It owns
 * all of its memory, so the JSON may be freed. It is read-only. Any thread.
 */
#pragma once

#include <cjson/cJSON.h>

#include "conf/status.h"

struct op_item;
struct op_place; /* gpu/plan/plan.h */

/* Parses job_output.ops, whose form job_parse has checked; NULL is an empty array. The caller calls
 * op_list_free in every case. If `output` < 0, messages omit the output's number. Errors:
 * unknown_op and bad_op, with the operation's place and name in the text; out_of_memory. */
enum status op_list_parse(struct op_item **list, const cJSON *array, int output,
                          struct error *error) MUST_CHECK;
void op_list_free(const struct op_item *list);
/* Heap memory in bytes. */
size_t op_list_bytes(const struct op_item *list);

/* Whether an operation converts to sRGB, so that the output has no profile. */
bool op_list_converts_to_srgb(const struct op_item *list);
/* Whether an operation returns values: only then an output without an image makes sense. */
bool op_list_gives_values(const struct op_item *list);
/* Whether the resulting image is gray with pixels of 0 and 255 only, because its last operation
 * makes it so. Operations that only move pixels, or only give values, do not count. */
bool op_list_is_bilevel(const struct op_item *list);
/* Checks that all operations take deep images (codecs/image.h); with some parameters, only
 * plan_build refuses them. bad_op: names the first that does not, and those that do. */
enum status op_list_check_deep(const struct op_item *list, struct error *error) MUST_CHECK;
/* Finds the next operation after *position that has an overlay, and sets *position to it. Returns
 * the overlay's place, which has no members if the overlay is a text, or NULL. */
const struct op_place *op_list_next_overlay(const struct op_item *list, int *position);
