/*
 * avif_parts.h - finds the coded images in a frame of an AVIF sequence: the AVIF that avif_encode
 * makes of it.
 */
#pragma once

#include "codecs/movie.h"

enum avif_plane { AVIF_COLOURS, AVIF_ALPHA, AVIF_PLANES };

/* The box av1C without the sequence header. */
#define AV1C_BYTES 4

struct avif_parts {
    struct {
        size_t at, bytes; /* in the file; 0: there is none */
        uint8_t av1c[AV1C_BYTES];
    } planes[AVIF_PLANES];
    uint8_t *colours; /* the boxes colr; malloc'd, for the caller, or NULL */
    size_t colours_bytes;
};

/* Reads the header. The alpha of an opaque frame is a second AVIF after the first one: see
 * encode_request.keeps_alpha. Free parts->colours in any case. Errors: encode_failed if the file is
 * not like those of the own encoder and libavif, out_of_memory, those of frame->read. */
enum status avif_find_parts(const struct movie_frame *frame, struct avif_parts *parts,
                            struct error *error) MUST_CHECK;
