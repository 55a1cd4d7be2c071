/*
 * quality.h - finds the quality at which an encoded image has at most a given number of bytes.
 *
 * The search encodes the image with several qualities and counts the bytes. It works for every
 * codec whose encoder has a quality, because files grow with the quality. The next quality to try
 * is estimated from the sizes so far and a typical curve of sizes. All arithmetic is in integers,
 * so that all hosts find the same quality.
 *
 * The result is the highest quality that fits, or a file of at least QUALITY_NEAR_PERCENT of the
 * limit, except for a few images whose sizes differ much from the typical curve.
 */
#pragma once

#include "codecs/codec.h"

/* The most encodes of a search. The caller then encodes the image once more, to write the file. */
#define QUALITY_TRIALS_MAX 5
/* A file of at least this share of the limit ends the search: more bytes gain almost nothing. */
#define QUALITY_NEAR_PERCENT 98

struct quality_trial {
    int quality; /* 0: there is no such trial */
    uint64_t bytes;
};

/* At first, all members but bytes_max are zero. */
struct quality_search {
    uint64_t bytes_max;
    int count;                   /* of trials so far */
    struct quality_trial fits;   /* the largest file so far that is not too large */
    struct quality_trial above;  /* the smallest file so far that is too large */
    struct quality_trial before; /* the smallest but one that is too large */
};

/* Adds the size of the file at a quality. The first trial must have the highest quality that is
 * allowed, all others the one that quality_search_next has returned. */
void quality_search_add(struct quality_search *search, int quality, uint64_t bytes);
/* Returns the quality to try next. 0: the search has ended, and search->fits has the result. If its
 * quality is 0, the file is too large even at the lowest quality: search->above. */
int quality_search_next(const struct quality_search *search);

/* Finds the highest quality, at most request->encoder.quality, for a file of at most
 * request->encoder.max_bytes, which is not 0. buffer: at least 4096 bytes, which are overwritten.
 * Each encode checks the deadline of the request. Errors: those of codec_encode, and encode_failed
 * if the file is too large even at the lowest quality. */
enum status codec_find_quality(struct codec_context *context, const struct image *src,
                               const struct encode_request *request, uint8_t *buffer,
                               size_t capacity, int *quality, struct error *error) MUST_CHECK;
