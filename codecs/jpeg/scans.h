/*
 * scans.h - the scans of a progressive JPEG that a decode can do without.
 *
 * Where only the Y of a YCbCr file is wanted, nothing reads the AC coefficients of Cb and Cr, and
 * where a component is decoded at 1/8, nothing reads its own. Scans of such coefficients alone
 * are left out of what libjpeg is given; to walk through their codes is the costliest part of
 * decoding a progressive file. Pixels are the same. Damage within those scans is not found.
 */
#ifndef GPUIMGD_CODECS_JPEG_SCANS_H
#define GPUIMGD_CODECS_JPEG_SCANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

#include "codecs/codec.h"

/* Bytes of the file that follow one another; borrowed. */
struct jpeg_span {
    const uint8_t *bytes;
    size_t length;
};

/* Scripts that libjpeg writes have 10 scans, 4 of which are of AC coefficients of Cb or Cr; a
 * file that would take more spans than this is decoded in full. */
#define JPEG_SPANS_MAX 32

struct jpeg_scans {
    struct jpeg_span spans[JPEG_SPANS_MAX];
    size_t count;
};

/* reader: behind jpeg_read_header, with all that decides on the output set; bytes: of the file from
 * there on. true: spans are what is to be decoded of them. false, and no spans: nothing can be left
 * out, or the file is not plainly in order (it does not reach its end marker, a scan does not
 * continue those before it, coefficients that are wanted are never sent in full, there are more
 * scans than limits permit, the deadline is over): it must be decoded as it is, for its errors to
 * be found. */
bool jpeg_scans_choose(j_decompress_ptr reader, const uint8_t *bytes, size_t length,
                       const struct codec_limits *limits, struct jpeg_scans *scans);

#endif
