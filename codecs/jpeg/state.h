/*
 * state.h - the state of the JPEG codec in a worker, shared by the files of the codec.
 *
 * Only jpeg_probe, jpeg_decode and jpeg_encode call setjmp. A variable that must survive a longjmp
 * is in jpeg_state, never a local.
 */
#ifndef GPUIMGD_CODECS_JPEG_STATE_H
#define GPUIMGD_CODECS_JPEG_STATE_H

#include <stdio.h>

#include <jpeglib.h>

#include "codecs/codec_impl.h"
#include "codecs/jpeg/coefficients.h"
#include "codecs/jpeg/scans.h"

#define JPEG_MARKER_EXIF (JPEG_APP0 + 1)
#define JPEG_MARKER_ICC  (JPEG_APP0 + 2)
/* Rows per call of libjpeg, which works in groups of at most 4. */
#define JPEG_ROWS_PER_CALL 16

struct jpeg_state {
    jmp_buf jump;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    struct jpeg_source_mgr source;
    struct jpeg_destination_mgr destination;
    union {
        struct jpeg_decompress_struct reader;
        struct jpeg_compress_struct writer;
    };
    struct error *error;
    const struct codec_limits *limits; /* NULL while encoding */
    const struct encode_request *request;
    struct codec_sink *sink;
    struct jpeg_coefficients coefficients;
    struct jpeg_scans scans; /* the parts of the source to read; empty: all of it */
    size_t next_span;
    uint64_t source_bytes;
    const uint8_t *rest; /* the bytes that the reader has not received yet */
    size_t rest_bytes;
    uint64_t kept_bytes;
    uint32_t warnings, segments, monitor_calls;
};

/* ---- jpeg.c ---- */

/* Prepares a library object after memset and before its creation: directs its errors, warnings and
 * progress calls to this state, which reports failures in `error`. */
void jpeg_begin(struct jpeg_state *state, j_common_ptr common, struct error *error);
/* Returns the decoder's position in the image, for messages. */
#define JPEG_POSITION_BYTES 64
const char *jpeg_position(const struct jpeg_state *state, char text[JPEG_POSITION_BYTES]);
/* Starts or stops keeping the segments with EXIF data and profiles. */
void jpeg_keep_segments(struct jpeg_state *state, bool keep);
/* Fails with decode_limit if the deadline has passed. */
void jpeg_stop_late_decode(struct jpeg_state *state);

/* ---- source.c ---- */

/* Creates the reader on the bytes of the file. Call only after setjmp(state->jump). */
void jpeg_open_reader(struct jpeg_state *state, const uint8_t *bytes, size_t length);
/* Gives the reader its next piece: first of the remaining bytes, then of the spans in state->scans.
 * Returns false at the end of the data. */
bool jpeg_give_piece(struct jpeg_state *state);

/* ---- decode.c, encode.c ---- */

enum status jpeg_probe(void *opaque, const uint8_t *bytes, size_t length,
                       const struct codec_limits *limits, struct image_info *info,
                       struct error *error) MUST_CHECK;
enum status jpeg_decode(void *opaque, const uint8_t *bytes, size_t length,
                        const struct image_info *info, const struct decode_request *request,
                        const struct codec_limits *limits, const struct image *dst,
                        struct error *error) MUST_CHECK;
enum status jpeg_encode(void *opaque, const struct image *src,
                        const struct encode_request *request, struct codec_sink *sink,
                        struct error *error) MUST_CHECK;

#endif
