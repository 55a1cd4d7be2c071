/*
 * conversion.h - tables that convert pixels from the colours of an ICC profile to sRGB.
 *
 * The host computes the tables once per profile and caches them. They hold integers, so that the
 * conversion of a pixel (gpu/ops/colour.h) gives the same bits on every engine. A profile that has
 * only curves and colorants becomes three curves, a matrix and the curve of sRGB. For other
 * profiles, lcms2 computes the result at each node of a grid over all input colours. The functions
 * may be called on any thread.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/status.h"
#include "gpu/colour/tables.h"

/* The rendering intents of ICC: relative colorimetric and perceptual. */
enum colour_intent { COLOUR_RELATIVE, COLOUR_PERCEPTUAL };
/* The values of the parameter `intent`, in the order of the enum. */
#define COLOUR_INTENT_WORDS ((const char *const[]){"relative", "perceptual", NULL})

/* The tables of one profile and one intent. Read-only, and shared by the jobs and the cache. */
struct colour {
    atomic_uint owners; /* freed when the last owner calls colour_release */
    enum colour_kind kind;
    uint8_t gray[256];   /* COLOUR_GRAY: the gray in sRGB of each gray of the profile */
    size_t tables_bytes; /* 0: `kind` needs no tables */
    void *tables;        /* the struct that colour_kind names; in the same allocation */
};

/* Returns the tables of a profile from the cache, or computes them. The caller becomes an owner.
 * Computing takes up to 0.1 s and up to COLOUR_BUILD_BYTES_MAX of memory. Errors: decode_failed if
 * the profile is damaged or is not one of images, unsupported_format if gpuimgd was built without
 * lcms2 or lcms2 would need too much memory, out_of_memory. */
enum status colour_take(const uint8_t *icc, size_t bytes, enum colour_intent intent,
                        struct colour **colour, struct error *error) MUST_CHECK;
void colour_release(struct colour *colour); /* NULL is ignored */
/* Bytes that the struct and its tables take, at most. */
size_t colour_bytes(const struct colour *colour);

/* Sets the size of the cache of profiles and their tables, in bytes, and frees the entries above
 * it. 0, the default, disables the cache. */
void colour_cache_limit(size_t bytes);
/* Bytes that the cache takes now. */
size_t colour_cache_bytes(void);
