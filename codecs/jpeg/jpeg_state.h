/*
 * jpeg_state.h - the state of the JPEG codec of one worker thread, and the functions that the .c
 * files of this codec share.
 *
 * libjpeg reports errors by longjmp. Only jpeg_probe, jpeg_encode, jpeg_read_frame and decode_once
 * call setjmp. A variable that is used after a longjmp is in struct jpeg_state, because a local
 * variable could have lost its value.
 */
#pragma once

#include <stdio.h>

#include <jpeglib.h>

#include "codecs/codec_impl.h"
#include "codecs/jpeg/known_header.h"

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
/* Rows that are passed to libjpeg in one call. libjpeg processes at most 4 rows at a time. */
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
    struct jpeg_segment icc[256]; /* parts of the ICC profile, by their number from 1 on */
    unsigned icc_count;           /* the number of parts, according to the first part found */
    bool icc_is_damaged;          /* the numbers of the parts contradict each other */
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
    struct jpeg_segments segments; /* set by jpeg_note_segments and jpeg_read_header */
    uint32_t warnings, segments_seen, monitor_calls; /* counted for limits */
    /* These stay from file to file. known_last: of the last header that was found or kept. */
    struct jpeg_known_header known[JPEG_KNOWN_COUNT];
    size_t known_last;
};

/* ---- callbacks.c ---- */

/* Prepares an object of libjpeg after it was set to zero and before it is created: libjpeg then
 * calls the functions of callbacks.c, which report failures in `error`. */
void jpeg_begin(struct jpeg_state *state, j_common_ptr common, struct error *error);
/* Returns how far the decoder has got, for error messages: "after 8 of 100 rows". */
#define JPEG_POSITION_BYTES 64
const char *jpeg_position(const struct jpeg_state *state, char text[JPEG_POSITION_BYTES]);
/* Fails because the file ends too early. what: the end of the error message. */
_Noreturn void jpeg_fail_at_end(struct jpeg_state *state, const char *what);
/* Fails if the deadline has passed. */
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

/* Fills in a frame for decoders other than libjpeg. Call after jpeg_read_header. Returns false if
 * only libjpeg can decode the file, or find out that it is damaged. Changes the Huffman tables and
 * the restart interval of state->reader to those of the last scan. */
bool jpeg_fill_frame(struct jpeg_frame *frame, struct jpeg_state *state, const uint8_t *bytes,
                     size_t length);

/* ---- segments.c ---- */

/* Counts an APPn or COM segment against JPEG_SEGMENTS_MAX. */
void jpeg_count_segment(struct jpeg_state *state);
/* Prepares libjpeg so that jpeg_read_header notes the places of metadata in state->segments. */
void jpeg_note_segments(struct jpeg_state *state);
/* Copies the metadata that was noted. Call after jpeg_read_header, with info->cmyk set. */
void jpeg_read_metadata(struct jpeg_state *state, struct image_info *info);

/* ---- markers.c ---- */

struct jpeg_markers {
    const uint8_t *checked; /* position at the last check of the deadline; at first, the start */
    uint64_t deadline_ns;
};

struct jpeg_scan_header {
    int count;                                        /* number of components */
    int components[MAX_COMPS_IN_SCAN];                /* indices of the frame's components */
    int dc[MAX_COMPS_IN_SCAN], ac[MAX_COMPS_IN_SCAN]; /* numbers of their Huffman tables */
    int first, last; /* range of coefficients in zigzag order: Ss and Se of the standard */
    int high, low;   /* lowest known bit before the scan (Ah; 0: none) and after it (Al) */
};

/* Returns the next marker that ends compressed data. NULL: there is none, or the deadline has
 * passed. */
const uint8_t *jpeg_find_marker(struct jpeg_markers *markers, const uint8_t *at,
                                const uint8_t *end);
/* Returns the length of the segment whose marker is at `at`, without the marker. 0: the segment is
 * truncated or not allowed between scans. */
size_t jpeg_segment_length(const uint8_t *at, const uint8_t *end);
/* Reads the header of a scan of a progressive file. segment: the bytes after its marker. Returns
 * false if it is invalid. */
bool jpeg_read_scan_header(const struct jpeg_decompress_struct *reader, const uint8_t *segment,
                           size_t length, struct jpeg_scan_header *scan);
