/*
 * plan_values.h - the values that operations return, as JSON, after the engine has run a plan.
 */
#pragma once

#include <cjson/cJSON.h>

#include "gpu/plan/plan.h"

/* Whether a pass of the variant returns values. */
bool plan_has_values(const struct plan *plan, size_t variant);
/* The values of a variant after the engine has run: an object with a member per operation, named
 * after it ("histogram", and "histogram_2" for a second one). Owned by the caller. NULL: out of
 * memory. Any thread. */
cJSON *plan_values(const struct plan *plan, size_t variant, const uint8_t *output);
/* Whether two runs computed the same for the values of a variant. Exact: a hash may be equal
 * although the numbers that it was made of differ. false, too, if there is no memory. */
bool plan_same_values(const struct plan *plan, size_t variant, const uint8_t *a, const uint8_t *b);
/* Upper estimate of the memory for plan_values and its text, in bytes; 0: no values. */
size_t plan_values_bytes(const struct plan *plan, size_t variant);
