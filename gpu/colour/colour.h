/*
 * colour.h - tables that convert pixels from the colours of an ICC profile to sRGB.
 *
 * The tables are computed once per profile, on the host. They hold integers, so the conversion of
 * a pixel (gpu/ops/colour.h) has the same bits on every engine. A profile with curves and colorants
 * becomes three curves, a matrix and the curve of sRGB. Other profiles become a table over a grid,
 * which lcms2 computes. Any thread.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/status.h"
#include "gpu/colour/tables.h"

enum colour_intent { COLOUR_RELATIVE, COLOUR_PERCEPTUAL };
#define COLOUR_INTENT_WORDS ((const char *const[]){"relative", "perceptual", NULL})

struct colour {
    atomic_uint owners;
    enum colour_kind kind;
    uint8_t gray[256];   /* COLOUR_GRAY: gray of sRGB */
    size_t tables_bytes; /* 0: none */
    void *tables;        /* after this struct, in the same block */
};

/* Returns the tables of a profile, which the caller releases. Takes them from the cache, or
 * computes them, which takes up to a tenth of a second, and as much memory as
 * COLOUR_BUILD_BYTES_MAX. Errors: decode_failed if the profile is damaged or describes no image,
 * unsupported_format if this program cannot use it, out_of_memory. */
enum status colour_take(const uint8_t *icc, size_t bytes, enum colour_intent intent,
                        struct colour **colour, struct error *error) MUST_CHECK;
void colour_release(struct colour *colour); /* takes NULL */
/* Memory of the tables, in bytes. */
size_t colour_bytes(const struct colour *colour);

/* The most memory for tables and profiles that stay after their jobs, in bytes. 0, as at first:
 * none; frees those that are kept. */
void colour_cache_limit(size_t bytes);
size_t colour_cache_bytes(void);
