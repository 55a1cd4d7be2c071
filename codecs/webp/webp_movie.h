/*
 * webp_movie.h - joins WebP files to one animated WebP (RFC 9649).
 *
 * Each file becomes a frame that replaces the whole canvas. The first file's ICC profile is kept. A
 * movie of one frame is the file itself. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/status.h"

/* The beginning of the movie, which is written last. */
#define WEBP_MOVIE_HEAD_BYTES 30

struct webp_movie {
    uint64_t bytes; /* written so far */
    uint32_t width, height;
    bool has_alpha, has_icc, is_still;
};

/* Reads a part of a frame's file. */
typedef enum status webp_movie_read_fn(void *source, size_t at, uint8_t *to, size_t bytes,
                                       struct error *error);

/* What add and the head need of the animation. */
struct webp_movie_frame {
    const uint8_t *bytes; /* a file of libwebp or of a device; NULL: `read` reads it */
    webp_movie_read_fn *read;
    void *source; /* for it */
    size_t length;
    uint32_t width, height;
    bool has_alpha;
    uint32_t delay_ms;
    uint32_t plays;  /* of the animation; 0: for ever */
    uint32_t frames; /* of the animation */
};

/* Appends bytes to the movie. */
typedef enum status webp_movie_write_fn(void *context, const uint8_t *bytes, size_t length,
                                        struct error *error);

/* Adds a frame. Errors: those of `write` and `read`, and encode_failed if the movie would have more
 * than 4 GiB or the file is no WebP. */
enum status webp_movie_add(struct webp_movie *movie, const struct webp_movie_frame *frame,
                           webp_movie_write_fn *write, void *context,
                           struct error *error) MUST_CHECK;
/* Fills in the beginning of a movie of several frames. Returns its size; 0: it is written. */
size_t webp_movie_head(const struct webp_movie *movie, uint8_t to[WEBP_MOVIE_HEAD_BYTES]);
