/* build.h - computes the tables of a profile; private to gpu/colour. */
#pragma once

#include "gpu/colour/colour.h"
#include "gpu/colour/icc.h"

/* Allocates a colour with zeroed tables of this size and one owner. NULL: out of memory. */
struct colour *colour_create(enum colour_kind kind, size_t tables_bytes);

/* Whether the profile is described by curves and colorants alone, or by the curve of gray. */
bool colour_is_simple(const struct icc *icc, enum colour_intent intent);
/* For such profiles. The arguments and errors of the next two are those of colour_take. After an
 * error, *colour may be incomplete; the caller releases it. */
enum status colour_build_simple(const struct icc *icc, struct colour **colour,
                                struct error *error) MUST_CHECK;
/* For all other profiles, with lcms2. */
enum status colour_build_grid(const struct icc *icc, enum colour_intent intent,
                              struct colour **colour, struct error *error) MUST_CHECK;
