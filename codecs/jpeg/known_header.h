/*
 * known_header.h - the last header of a sequential JPEG that a thread has read, and what libjpeg
 * found in it.
 *
 * The header of a file is read up to three times: for its size, for the plan of a device, and when
 * the whole file is in the device's input buffer. The files of a data set often have the same
 * header, byte for byte. Equal headers give equal results, so libjpeg reads only the first one.
 */
#pragma once

#include "codecs/codec.h"
#include "codecs/jpeg/frame.h"

/* libjpeg writes headers of 623 bytes. Longer ones are read each time. */
#define JPEG_KNOWN_BYTES 1024

struct jpeg_state;

struct jpeg_known_header {
    size_t length; /* of `bytes`; 0: no header is known */
    bool has_frame;
    struct image_info info;
    struct jpeg_frame frame;
    uint8_t bytes[JPEG_KNOWN_BYTES];
};

/* Whether a file begins with the known header. */
bool jpeg_is_known(const struct jpeg_known_header *known, const uint8_t *file, size_t length);

/* Keeps the header of a file, and what jpeg_probe has found in it, unless it has metadata or
 * warnings, is longer than JPEG_KNOWN_BYTES, or has bytes between its segments. */
void jpeg_keep_header(struct jpeg_state *state, const uint8_t *file, size_t length,
                      const struct image_info *info);
/* Sets all of the info except `format` and `gain_map`, which are not in the header. */
void jpeg_copy_info(const struct jpeg_known_header *known, struct image_info *info);

/* Keeps the frame of a file that begins with the known header. */
void jpeg_keep_frame(struct jpeg_known_header *known, const struct jpeg_frame *frame);
/* Sets the frame of a file of this length that begins with the known header. false: the known
 * header has no frame. */
bool jpeg_copy_frame(const struct jpeg_known_header *known, size_t length,
                     struct jpeg_frame *frame);
