/*
 * state.h - what the files of the JPEG codec share: a worker's state, and its ways out.
 *
 * setjmp stands only in the three functions of the codec's row; what must survive a longjmp lives
 * in jpeg_state, never in a local.
 */
#ifndef GPUIMGD_CODECS_JPEG_STATE_H
#define GPUIMGD_CODECS_JPEG_STATE_H

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include "codecs/codec_impl.h"
#include "codecs/jpeg/coefficients.h"
#include "codecs/jpeg/scans.h"

#define JPEG_MARKER_EXIF (JPEG_APP0 + 1)
#define JPEG_MARKER_ICC  (JPEG_APP0 + 2)
/* Rows a call that libjpeg may give or take at once; it works in groups of at most 4. */
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
    struct jpeg_scans scans; /* what of the source is read; none: all */
    size_t next_span;
    uint64_t source_bytes;
    const uint8_t *rest; /* what the source has not been given yet */
    size_t rest_bytes;
    uint64_t kept_bytes;
    uint32_t warnings, segments, monitor_calls;
};

/* ---- jpeg.c ---- */

/* For a library object that is about to be created, behind memset: its errors, warnings and
 * progress come to this state from now on, and its ends to `error`. */
void jpeg_begin(struct jpeg_state *state, j_common_ptr common, struct error *error);
/* With state->error set: to the setjmp. */
_Noreturn void jpeg_leave(struct jpeg_state *state);
/* Where in the picture the decoder is, for messages. */
void jpeg_say_where(const struct jpeg_state *state, char *text, size_t size);
/* Segments with EXIF and profiles are kept from here on, or no longer. */
void jpeg_keep_segments(struct jpeg_state *state, bool keep);
/* Leaves with decode_limit where the time for decoding is over. */
void jpeg_stop_late_decode(struct jpeg_state *state);

/* ---- source.c ---- */

/* Creates the reader, of the file's bytes. Only after setjmp(state->jump). */
void jpeg_open_reader(struct jpeg_state *state, const uint8_t *bytes, size_t length);
/* Has the reader go on with the next piece: of what is left, then of state->scans' spans. false:
 * the file, or what is read of it, is at its end. */
bool jpeg_give_piece(struct jpeg_state *state);

/* ---- the codec's row: decode.c, encode.c ---- */

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
