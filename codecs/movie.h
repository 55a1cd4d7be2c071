/*
 * movie.h - joins the files of frames to one animation: an animated WebP, or a sequence of AVIF.
 *
 * Each frame replaces the whole image, and needs no other frame. A movie of one frame is the file
 * itself. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/format.h"
#include "conf/status.h"

struct avif_tracks; /* codecs/avif/avif_movie.c */

struct movie {
    const struct format *format; /* of the frames and the movie, with .movies; set by the caller */
    uint64_t bytes;              /* written so far */
    uint32_t width, height;
    bool has_alpha, has_icc, is_still;
    struct avif_tracks *tracks; /* of an AVIF, from the first frame on */
};

/* Reads a part of a frame's file. */
typedef enum status movie_read_fn(void *source, size_t at, uint8_t *to, size_t bytes,
                                  struct error *error);

/* A frame's file, and what the movie needs of the animation. */
struct movie_frame {
    const uint8_t *bytes; /* a file of this program's encoders; NULL: `read` reads it */
    movie_read_fn *read;
    void *source; /* for it */
    size_t length;
    uint32_t width, height;
    bool has_alpha;
    uint32_t delay_ms;
    uint32_t plays;  /* of the animation; 0: for ever */
    uint32_t frames; /* of the animation */
};

/* Appends bytes to the movie. */
typedef enum status movie_write_fn(void *context, const uint8_t *bytes, size_t length,
                                   struct error *error);

/* Adds a frame. Errors: those of `write` and `read`, out_of_memory, and encode_failed if the movie
 * would have more than 4 GiB or the file cannot be a frame. */
enum status movie_add(struct movie *movie, const struct movie_frame *frame, movie_write_fn *write,
                      void *context, struct error *error) MUST_CHECK;
/* Makes the beginning of the movie, which replaces what movie_add has written there. *head is for
 * the caller to free; *bytes 0: it is written already. Errors: out_of_memory. */
enum status movie_head(const struct movie *movie, uint8_t **head, size_t *bytes,
                       struct error *error) MUST_CHECK;
void movie_clear(struct movie *movie); /* idempotent */

/* ---- for the formats ---- */

/* Writes a part of a frame's file, which may be as large as the memory of the host. */
enum status movie_put_part(struct movie *movie, const struct movie_frame *frame, size_t at,
                           size_t bytes, movie_write_fn *write, void *context,
                           struct error *error) MUST_CHECK;
enum status movie_put(struct movie *movie, const uint8_t *bytes, size_t length,
                      movie_write_fn *write, void *context, struct error *error) MUST_CHECK;
/* Reads bytes of a frame's file. */
enum status movie_get(const struct movie_frame *frame, size_t at, uint8_t *to, size_t bytes,
                      struct error *error) MUST_CHECK;
/* Fails if the movie with so many more bytes is too large. */
enum status movie_check_size(const struct movie *movie, uint64_t more,
                             struct error *error) MUST_CHECK;
