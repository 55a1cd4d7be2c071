/*
 * scans.h - finds the scans of a progressive JPEG that do not affect the decoded pixels.
 *
 * A decode to Y alone does not use the AC coefficients of Cb and Cr. A component that is decoded at
 * 1/8 does not use its own AC coefficients. libjpeg does not receive scans that have only unused
 * coefficients: their Huffman codes are the most expensive part of decoding a progressive file.
 * Pixels are the same. Damage within skipped scans is not found.
 */
#ifndef GPUIMGD_CODECS_JPEG_SCANS_H
#define GPUIMGD_CODECS_JPEG_SCANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

#include "codecs/codec.h"

/* Consecutive bytes of the file; borrowed. */
struct jpeg_span {
    const uint8_t *bytes;
    size_t length;
};

/* libjpeg writes 10 scans, of which 4 have AC coefficients of Cb or Cr. A file that needs more
 * spans than this is decoded in full. */
#define JPEG_SPANS_MAX 32

struct jpeg_scans {
    struct jpeg_span spans[JPEG_SPANS_MAX];
    size_t count;
};

/* Sets scans->spans to the bytes to decode and returns true, or returns false with no spans if the
 * whole file must be decoded. Call after jpeg_read_header, with all output parameters of the reader
 * set; `bytes` are those of the file after the header.
 *
 * Returns false if no scan can be skipped or the file may have errors, which the full decode then
 * reports: it does not reach its end marker, a scan does not continue those before it, needed
 * coefficients are never complete, it has more scans than the limit, or the deadline has passed. */
bool jpeg_scans_choose(j_decompress_ptr reader, const uint8_t *bytes, size_t length,
                       const struct codec_limits *limits, struct jpeg_scans *scans);

#endif
