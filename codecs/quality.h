/*
 * quality.h - finds the quality at which an encoded image has at most a given number of bytes.
 *
 * The search encodes an image several times and only counts the bytes. It serves every codec whose
 * encoder takes `quality`: it expects that files grow with the quality, and uses integers only, so
 * that all hosts choose the same quality. The interpolation starts from a typical curve of sizes.
 * The quality found is the highest that fits, or its file has at least QUALITY_NEAR_PERCENT of the
 * limit, except for a few images whose curve differs much from the typical one.
 */
#pragma once

#include "codecs/codec.h"

/* One more encode writes the file. */
#define QUALITY_TRIALS_MAX 5
/* The search ends with a file of this size: a higher quality gains almost nothing. */
#define QUALITY_NEAR_PERCENT 98

struct quality_trial {
    int quality; /* 0: there is no such trial */
    uint64_t bytes;
};

/* Start with all zero but bytes_max. */
struct quality_search {
    uint64_t bytes_max;
    int count;                   /* of trials */
    struct quality_trial fits;   /* the best one */
    struct quality_trial above;  /* the lowest one that is too large */
    struct quality_trial before; /* the one that was `above` before it */
};

/* Adds the size at a quality: first at the highest that is allowed, then at those of
 * quality_search_next. */
void quality_search_add(struct quality_search *search, int quality, uint64_t bytes);
/* Returns the quality to try next, or 0 at the end: `fits` then has the result, or quality 0 if the
 * file is too large even at the lowest quality, which is then in `above`. */
int quality_search_next(const struct quality_search *search);

/* Finds the quality, at most request->encoder.quality, for a file of request->encoder.max_bytes,
 * which is not 0. buffer: 4096 bytes or more, overwritten. The deadline of the request holds for
 * each encode. Errors: those of codec_encode, and encode_failed if no quality is low enough. */
enum status codec_find_quality(struct codec_context *context, const struct image *src,
                               const struct encode_request *request, uint8_t *buffer,
                               size_t capacity, int *quality, struct error *error) MUST_CHECK;
