/*
 * jpeg_state.h - the state of the JPEG codec of one worker thread, and the functions that the .c
 * files of this codec share.
 *
 * Only the functions of codec_jpeg and decode_once call setjmp. A variable that must survive a
 * longjmp is in jpeg_state, never a local.
 */
#pragma once

#include <stdio.h>

#include <jpeglib.h>

#include "codecs/codec_impl.h"

#define JPEG_MARKER_EXIF (JPEG_APP0 + 1)
#define JPEG_MARKER_ICC  (JPEG_APP0 + 2)
#define JPEG_MARKER_IPTC (JPEG_APP0 + 13)
/* The names at the beginning of segments, with their zero bytes: EXIF 2.32, 4.7.2; XMP part 3,
 * 1.1.3; ICC.1:2022, B.4. */
#define JPEG_EXIF_NAME       "Exif\0"
#define JPEG_EXIF_NAME_BYTES 6
#define JPEG_XMP_NAME        "http://ns.adobe.com/xap/1.0/"
#define JPEG_XMP_NAME_BYTES  29
#define JPEG_ICC_NAME        "ICC_PROFILE"
#define JPEG_IPTC_NAME       "Photoshop 3.0"
/* Markers of ISO/IEC 10918-1, table B.1, that jpeglib.h does not define. */
#define JPEG_MARKER_SOF0 0xC0
#define JPEG_MARKER_SOF1 0xC1
#define JPEG_MARKER_DHT  0xC4
#define JPEG_MARKER_SOS  0xDA
#define JPEG_MARKER_DQT  0xDB
#define JPEG_MARKER_DRI  0xDD
/* Rows per call of libjpeg, which works in groups of at most 4. */
#define JPEG_ROWS_PER_CALL 16

/* A segment of the file without its marker and length; borrowed. NULL: there is none. */
struct jpeg_segment {
    const uint8_t *bytes;
    size_t length;
};

/* The metadata in a header. */
struct jpeg_segments {
    struct jpeg_segment exif, xmp;
    struct jpeg_segment iptc;     /* Photoshop's resources */
    struct jpeg_segment icc[256]; /* parts of the profile, by their number from 1 */
    unsigned icc_count;           /* of all parts, by the first one */
    bool icc_is_damaged;          /* numbers that do not fit */
};

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
    bool by_libjpeg; /* for tests: libjpeg decodes the coefficients of progressive files, too */
    bool by_rows;    /* in this decode, a row decoder decodes them */
    struct jpeg_row_decoder *row_decoder; /* NULL before jpeg_row_decoder_take_over */
    uint64_t source_bytes;
    bool ends_early; /* the reader has received an end marker that the file does not have */
    const uint8_t *rest; /* the bytes that the reader has not received yet */
    size_t rest_bytes;
    struct jpeg_segments segments; /* after jpeg_note_segments */
    uint32_t warnings, segments_seen, monitor_calls;
};

/* ---- callbacks.c ---- */

/* Prepares a library object after memset and before its creation: directs its errors, warnings and
 * progress calls to this state, which reports failures in `error`. */
void jpeg_begin(struct jpeg_state *state, j_common_ptr common, struct error *error);
/* Returns the decoder's position in the image, for messages. */
#define JPEG_POSITION_BYTES 64
const char *jpeg_position(const struct jpeg_state *state, char text[JPEG_POSITION_BYTES]);
/* Fails because the file ends. what: the end of the message. */
_Noreturn void jpeg_fail_at_end(struct jpeg_state *state, const char *what);
void jpeg_stop_late_decode(struct jpeg_state *state);

/* ---- reader.c ---- */

/* Creates the reader on the bytes of the file. Call only after setjmp(state->jump). */
void jpeg_open_reader(struct jpeg_state *state, const uint8_t *bytes, size_t length);
/* Gives the reader its next piece. Returns false at the end of the data. */
bool jpeg_give_piece(struct jpeg_state *state);

/* ---- jpeg_decode.c, jpeg_encode.c, frame.c ---- */

codec_probe_fn jpeg_probe;
codec_decode_fn jpeg_decode;
codec_encode_fn jpeg_encode;
codec_frame_fn jpeg_read_frame;

/* ---- frame.c ---- */

/* Reads what decoders other than libjpeg need. Call after jpeg_read_header. Returns false if
 * libjpeg must decode the file, which may be damaged. Replaces Huffman tables and the restart
 * interval of the reader by those of later scans. */
bool jpeg_fill_frame(struct jpeg_frame *frame, struct jpeg_state *state, const uint8_t *bytes,
                     size_t length);

/* ---- segments.c ---- */

/* Counts an APPn or COM segment against JPEG_SEGMENTS_MAX. */
void jpeg_count_segment(struct jpeg_state *state);
/* Notes the places of metadata. Call before jpeg_read_header. */
void jpeg_note_segments(struct jpeg_state *state);
/* Copies the metadata that was noted. Call after jpeg_read_header, with info->cmyk set. */
void jpeg_read_metadata(struct jpeg_state *state, struct image_info *info);

/* ---- markers.c ---- */

struct jpeg_markers {
    const uint8_t *checked; /* position at the last check of the deadline; at first, the start */
    uint64_t deadline_ns;
};

struct jpeg_scan_header {
    int count;                                      /* of components */
    int components[MAX_COMPS_IN_SCAN];              /* indices of components of the frame */
    int dc[MAX_COMPS_IN_SCAN], ac[MAX_COMPS_IN_SCAN]; /* numbers of Huffman tables */
    int first, last;                                /* range of coefficients, Ss and Se */
    int high, low;                                  /* bit positions, Ah and Al */
};

/* Returns the next marker that ends entropy-coded data, or NULL if there is none or the deadline
 * has passed. */
const uint8_t *jpeg_find_marker(struct jpeg_markers *markers, const uint8_t *at,
                                const uint8_t *end);
/* Returns the length of the segment with its marker at `at`, from after the marker; 0 if the
 * segment is truncated or not allowed between scans. */
size_t jpeg_segment_length(const uint8_t *at, const uint8_t *end);
/* Reads the header of a scan of a progressive file: `segment` are the bytes after its marker.
 * Returns false if it is invalid. */
bool jpeg_read_scan_header(const struct jpeg_decompress_struct *reader, const uint8_t *segment,
                           size_t length, struct jpeg_scan_header *scan);
