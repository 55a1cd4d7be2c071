/*
 * plan_print.h - prints a plan as text and as JSON. Bytes are those of whole rows, with padding.
 */
#pragma once

#include <stdio.h>

#include <cjson/cJSON.h>

#include "gpu/plan/plan.h"

/* For people: one line per pass with sizes and bytes, and the memory of the plan. */
void plan_print_passes(const struct plan *plan, size_t variant, FILE *out);
void plan_print_memory(const struct plan *plan, FILE *out);
/* For programs: the same as an array and as an object. Owned by the caller. NULL: out of memory. */
cJSON *plan_json_passes(const struct plan *plan, size_t variant);
cJSON *plan_json_memory(const struct plan *plan);
