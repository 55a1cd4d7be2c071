/*
 * icc.h - reads ICC profiles (ICC.1:2022): the header, tags, curves and colorants.
 *
 * The bytes come from an image file and may be hostile. Every function checks the bounds. None
 * allocates memory, or takes longer than a few microseconds.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ICC_HEADER_BYTES 128
/* lcms2's own limit. */
#define ICC_TAGS_MAX 100
/* The name of a tag, a type or a colour space: four characters, as a big-endian number. */
#define ICC_NAME(a, b, c, d)                                                                       \
    ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

/* The colour space of the pixels to which a profile belongs. */
enum icc_space {
    ICC_SPACE_NONE, /* not a profile */
    ICC_SPACE_GRAY,
    ICC_SPACE_RGB,
    ICC_SPACE_CMYK,
    ICC_SPACE_OTHER
};

/* A profile with a valid header and tag table. Borrows the bytes. */
struct icc {
    const uint8_t *bytes;
    size_t length;
    enum icc_space space;
    bool pcs_is_lab;    /* The profile connection space is Lab, not XYZ: the curve of gray gives
                           L* instead of Y. */
    uint32_t tag_count; /* at most ICC_TAGS_MAX */
};

struct icc_tag {
    const uint8_t *bytes; /* NULL: there is no such tag */
    size_t length;        /* at least 8 */
};

/* A tone curve from 0..1 to 0..1. */
struct icc_curve {
    int function;         /* of a parametric curve, 0 to 4; -1: a table */
    double values[7];     /* g, a, b, c, d, e, f of ICC.1, table 68 */
    const uint8_t *table; /* big-endian 16-bit numbers */
    uint32_t count;       /* of the table, 2 or more */
};

/* Returns the colour space in the header; ICC_SPACE_NONE: the header is invalid. */
enum icc_space icc_space(const uint8_t *bytes, size_t length);
/* Returns NULL, or a sentence without its end that says what is wrong with the profile: "its
 * version is newer than 4". */
const char *icc_open(struct icc *icc, const uint8_t *bytes, size_t length);
/* The first tag with this name. A tag outside the profile counts as missing. */
struct icc_tag icc_find(const struct icc *icc, uint32_t name);
bool icc_has(const struct icc *icc, uint32_t name);

/* Read a curve, and X, Y and Z. false: the tag is missing or invalid. */
bool icc_read_curve(const struct icc *icc, uint32_t name, struct icc_curve *curve);
bool icc_read_xyz(const struct icc *icc, uint32_t name, double xyz[3]);
/* The curve's value at x, 0 to 1. */
double icc_curve_at(const struct icc_curve *curve, double x);
