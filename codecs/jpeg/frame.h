/*
 * frame.h - the contents of JPEG headers, for decoders and encoders other than libjpeg.
 *
 * These are the row decoder (row_decoder.h), and the decoder and encoder on GPUs (gpu/jpeg/). The
 * structs are filled in on the host, from what libjpeg reads and writes. They have no pointers, so
 * they can be copied to a GPU.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JPEG_COMPONENTS_MAX 3
#define JPEG_TABLES_MAX 4
/* Progressive files that libjpeg has written have 10 scans. A file with more than this maximum is
 * decoded by libjpeg. */
#define JPEG_FRAME_SCANS_MAX 32

/* A Huffman table as in the file (ISO/IEC 10918-1, B.2.4.2). */
struct jpeg_huffman {
    uint8_t counts[16];   /* number of codes of 1 to 16 bits */
    uint8_t symbols[256]; /* in the order of their codes; zero after the last one */
};

#ifdef __cplusplus
extern "C" {
#endif
/* ISO/IEC 10918-1, K.3.3: DC and AC of luma, then of chroma. */
extern const struct jpeg_huffman jpeg_standard_tables[4];
#ifdef __cplusplus
}
#endif

struct jpeg_component {
    uint8_t h, v;        /* sampling factors */
    uint16_t quant[64];  /* in natural order: index 8 * row + column; 1 to 65535 */
};

/* A scan, with the Huffman tables and the restart interval that are in force at its start. */
struct jpeg_scan {
    uint8_t component_count;
    uint8_t components[JPEG_COMPONENTS_MAX]; /* indices of the frame's components, ascending */
    /* For each component of the scan, the index of its table in jpeg_frame.huffman. */
    uint8_t dc[JPEG_COMPONENTS_MAX], ac[JPEG_COMPONENTS_MAX];
    uint8_t first, last; /* range of coefficients in zigzag order (Ss, Se); sequential: 0, 63 */
    uint8_t high, low;   /* lowest known bit before and after it (Ah, Al); sequential: 0 */
    uint32_t restart_interval; /* MCUs between two restart markers; 0: there are no such markers */
    uint32_t at, bytes; /* offset and length of the compressed data in the file. For a sequential
                           scan, the length goes to the end of the file, because the GPU finds the
                           marker that ends the data. */
};

#define JPEG_FRAME_HUFFMAN_MAX (JPEG_FRAME_SCANS_MAX + 2 * JPEG_TABLES_MAX)

/* The headers of a JPEG. Offsets refer to the file, which must stay in memory. */
struct jpeg_frame {
    uint32_t width, height;
    uint8_t component_count;  /* 1: gray; 3: Y, Cb, Cr */
    bool progressive;
    bool has_standard_tables; /* a sequential scan has just those of jpeg_standard_tables */
    struct jpeg_component components[JPEG_COMPONENTS_MAX];
    uint32_t scan_count;      /* sequential: 1 */
    struct jpeg_scan scans[JPEG_FRAME_SCANS_MAX];
    uint32_t huffman_count;
    struct jpeg_huffman huffman[JPEG_FRAME_HUFFMAN_MAX]; /* each distinct table once */
};

/* Returns the length of a sequential JPEG up to its compressed data, if these bytes, the beginning
 * of the file, have all of that. libjpeg then reads the same header from them as from the whole
 * file. 0: they do not, or only libjpeg reads such a header. */
size_t jpeg_header_bytes(const uint8_t *bytes, size_t length);

/* What a GPU that encodes an image needs: the bytes that libjpeg would write before the compressed
 * data, and the quantisation tables. codecs/jpeg/header.c fills it in. */
struct jpeg_prelude {
    uint32_t header_bytes;
    uint32_t quant_at[2];  /* offset in the header of the values of each table of quantisers */
    uint16_t quant[2][64]; /* of Y, and of Cb and Cr, in natural order; gray: only of Y */
    uint8_t header[];      /* the file up to its compressed data */
};
