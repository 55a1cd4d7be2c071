/*
 * known_header.h - the last headers of sequential JPEGs that a thread has read, and what libjpeg
 * found in them.
 *
 * The header of a file is read up to three times: for its size, for the plan of a device, and when
 * the whole file is in the device's input buffer. The files of a data set often have the same
 * header, byte for byte, or one of two: some have a colour profile. Equal headers give equal
 * results, so libjpeg reads a header only until what it has found is known.
 */
#pragma once

#include "codecs/codec.h"
#include "codecs/jpeg/frame.h"

/* libjpeg writes headers of 623 bytes; with the usual profile of sRGB, they have 3,785. Longer ones
 * are read each time. */
#define JPEG_KNOWN_BYTES 4096
#define JPEG_KNOWN_COUNT 2

struct jpeg_state;

struct jpeg_known_header {
    size_t length; /* of `bytes`; 0: no header is known */
    bool has_frame;
    struct image_info info; /* info.icc is NULL */
    size_t icc_at;          /* offset of the profile in `bytes`; 0: there is none */
    struct jpeg_frame frame;
    uint8_t bytes[JPEG_KNOWN_BYTES];
};

/* The known header with which a file begins, or NULL. */
struct jpeg_known_header *jpeg_find_known(struct jpeg_state *state, const uint8_t *file,
                                          size_t length);

/* Keeps the header of a file, and what jpeg_probe has found in it. It replaces the known header
 * that was found or kept less recently. Does nothing if jpeg_header_bytes is 0 or more than
 * JPEG_KNOWN_BYTES, or if the header has EXIF, XMP, IPTC, a profile in several parts, or warnings.
 */
void jpeg_keep_header(struct jpeg_state *state, const uint8_t *file, size_t length,
                      const struct image_info *info);
/* Sets all of the info except `format` and `gain_map`, which codec_probe has set. false: there is
 * no memory for the profile, and the info is as it was. */
bool jpeg_copy_info(const struct jpeg_known_header *known, struct image_info *info);

/* Keeps the frame of a file that begins with the known header. */
void jpeg_keep_frame(struct jpeg_known_header *known, const struct jpeg_frame *frame);
/* Sets the frame of a file of this length that begins with the known header. false: the known
 * header has no frame. */
bool jpeg_copy_frame(const struct jpeg_known_header *known, size_t length,
                     struct jpeg_frame *frame);
