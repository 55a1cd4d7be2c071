/*
 * avif_movie.h - the boxes of an AVIF sequence around the coded images of its frames; for movie.c.
 *
 * The sequence has one track for the colours and, if the frames have alpha, one for that (AV1 Image
 * File Format 1.1, 3). Each sample is a key frame, so the file has the brand avio, too. The first
 * frame is also the image that readers without sequences show. The colours are those of the first
 * frame's file.
 */
#pragma once

#include "codecs/movie.h"

/* Whether a sequence has room for so many frames. false: *error is set. */
bool avif_movie_takes(uint32_t frames, struct error *error);
enum status avif_movie_add(struct movie *movie, const struct movie_frame *frame,
                           movie_write_fn *write, void *context, struct error *error) MUST_CHECK;
size_t avif_movie_head_bytes(const struct movie *movie);
/* Returns avif_movie_head_bytes. */
size_t avif_movie_head(const struct movie *movie, uint8_t *to);
void avif_movie_clear(struct movie *movie); /* idempotent */
