/*
 * webp_movie.h - the chunks of an animated WebP (RFC 9649) around those of its frames; for movie.c.
 *
 * Each file becomes a frame that replaces the whole canvas. The first file's ICC profile is kept.
 */
#pragma once

#include "codecs/movie.h"

/* The beginning of the movie, which is written last. */
#define WEBP_MOVIE_HEAD_BYTES 30

enum status webp_movie_add(struct movie *movie, const struct movie_frame *frame,
                           movie_write_fn *write, void *context, struct error *error) MUST_CHECK;
size_t webp_movie_head(const struct movie *movie, uint8_t *to);
