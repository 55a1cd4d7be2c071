/* build.h - the functions that compute the tables of a profile; private to gpu/colour. */
#pragma once

#include "gpu/colour/conversion.h"
#include "gpu/colour/icc.h"

/* Allocates a struct colour with one owner and tables_bytes of zeroed tables. NULL: out of
 * memory. */
struct colour *colour_create(enum colour_kind kind, size_t tables_bytes);

/* Whether the profile has only curves and colorants, or only a curve of gray, and no table
 * (A2B0, A2B1) that the intent would prefer. */
bool colour_is_simple(const struct icc *icc, enum colour_intent intent);
/* Computes the tables of a simple profile. Both functions fail with the errors of colour_take.
 * After an error, *colour may be incomplete; the caller releases it. */
enum status colour_build_simple(const struct icc *icc, struct colour **colour,
                                struct error *error) MUST_CHECK;
/* Computes the tables of any other profile, with lcms2. */
enum status colour_build_grid(const struct icc *icc, enum colour_intent intent,
                              struct colour **colour, struct error *error) MUST_CHECK;
