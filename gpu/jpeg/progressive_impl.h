/*
 * progressive_impl.h - the descriptors of a batch of progressive JPEGs, as the kernels read them.
 *
 * progressive.c fills them on the host. All addresses are device addresses.
 */
#pragma once

#include "codecs/jpeg/frame.h"
#include "gpu/jpeg/progressive.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Words of zeros after the data of a scan: a reader loads some words ahead. */
#define SCAN_PADDING 8
/* Bytes by which a reader may pass the end of its scan until it checks its position, after each
 * group of 32 blocks: 63 symbols of up to 31 bits, and 63 correction bits, per block. They belong
 * to the image's work memory. The image is then declined. */
#define SCAN_OVERRUN (32 * 64 * 4 + 4 * SCAN_PADDING)

enum progressive_kind { DC_FIRST, DC_REFINE, AC_FIRST, AC_REFINE };

struct progressive_component {
    int16_t *values;  /* layout: coefficients.h */
    uint32_t *masks;  /* 2 words per block: bit k is set if coefficient k, in zigzag order, is
                         nonzero so far */
    uint32_t across, down, blocks;
    uint8_t h, v;     /* blocks of an MCU of an interleaved scan */
    bool stored;      /* false: the component is decoded but its coefficients are not kept */
};

struct progressive_scan {
    const uint8_t *bytes;  /* in the file */
    uint32_t *words;       /* without stuffed bytes and markers; the first bit is the most
                              significant */
    uint32_t *segments;    /* segment_count + 1 offsets of the restart segments in `words`, in
                              bytes; the last one is the end of the data */
    uint64_t *corrections; /* AC_REFINE: per block, the correction bits in the order of the scan,
                              the last in bit 0 */
    uint32_t byte_count;
    uint32_t word_count;   /* with the padding */
    uint32_t segment_count;
    uint32_t interval;     /* MCUs per segment */
    uint32_t mcus, mcus_across;
    uint32_t predecessors; /* AC_REFINE: bit i is set if the scan continues scan i */
    uint32_t image;
    uint32_t tables[JPEG_COMPONENTS_MAX]; /* indices of the batch's tables */
    uint8_t kind, index;   /* index: of the scan in its image */
    uint8_t first, last, low;
    uint8_t component_count, components[JPEG_COMPONENTS_MAX];
};

struct progressive_image {
    struct progressive_component components[JPEG_COMPONENTS_MAX];
    uint32_t *progress;   /* per scan: number of complete blocks, or PROGRESS_FAILED */
    uint32_t *verdict;    /* of the scans, in the work memory */
    uint32_t *result;     /* the caller's copy */
    uint8_t *cleared;     /* memory that must be zero before the scans; multiple of 16 bytes */
    uint64_t cleared_bytes;
    uint32_t first_scan, scan_count; /* in the batch */
    uint8_t component_count;
};

#define PROGRESS_FAILED (~(uint32_t)0)

/* The descriptors start with this, then the images. */
struct progressive_header {
    uint32_t ticket; /* number of scans that blocks have taken */
    uint32_t pad[3];
};

/* The arguments of all kernels. */
struct progressive_args {
    struct progressive_header *header;
    const struct progressive_image *images;
    const struct progressive_scan *scans; /* a scan follows the scans that it continues */
    const struct jpeg_huffman *tables;
    uint32_t image_count, scan_count;
    uint32_t clear_blocks; /* per image, of clear_images */
};

/* Enqueues the kernel that decodes all scans. Returns a cudaError_t. */
int progressive_decode_scans(const struct progressive_args *args, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
