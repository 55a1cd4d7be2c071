/*
 * progressive_impl.h - the descriptors of a batch of progressive JPEGs, as the kernels read them.
 *
 * progressive.c fills them on the host. All pointers are device addresses.
 */
#pragma once

#include "codecs/jpeg/frame.h"
#include "gpu/jpeg/progressive.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Words of zeros after the data of a scan, because a reader loads some words ahead. */
#define SCAN_PADDING 8
/* Bytes by which a reader may pass the end of a damaged scan, before the image is declined. A
 * reader checks its position after each group of 32 blocks, and a block has at most 63 symbols of
 * up to 31 bits, and 63 correction bits. In the image's work memory, this many bytes follow each
 * scan. */
#define SCAN_OVERRUN (32 * 64 * 4 + 4 * SCAN_PADDING)

enum progressive_kind { DC_FIRST, DC_REFINE, AC_FIRST, AC_REFINE };

/* A component of an image. */
struct progressive_component {
    int16_t *values;  /* layout: coefficients.h */
    uint32_t *masks;  /* 2 words per block: bit k is set if a scan has made coefficient k, in zigzag
                         order, nonzero */
    uint32_t across, down, blocks; /* the size, and the number of blocks */
    uint8_t h, v;                  /* blocks per MCU of a scan with several components */
    bool stored;                   /* false: the coefficients are decoded but not kept */
};

/* A scan that is decoded. */
struct progressive_scan {
    const uint8_t *bytes;  /* in the file */
    uint32_t *words;       /* the data without stuffed bytes and markers; the first bit of a word is
                              the most significant */
    uint32_t *segments;    /* segment_count + 1 offsets of the restart segments in `words`, in
                              bytes; the last one is the end of the data */
    uint64_t *corrections; /* AC_REFINE: the correction bits of each block, the last in bit 0. These
                              are the scan's bits for coefficients that were nonzero before. */
    uint32_t byte_count;
    uint32_t word_count;   /* with the padding */
    uint32_t segment_count;
    uint32_t interval;     /* MCUs per segment */
    uint32_t mcus, mcus_across;
    uint32_t predecessors; /* AC_REFINE: bit i is set if the scan refines bits of scan i */
    uint32_t image;        /* index in the batch */
    uint32_t tables[JPEG_COMPONENTS_MAX]; /* indices of the batch's tables */
    uint8_t kind, index;   /* index: of the scan in its image */
    uint8_t first, last, low;
    uint8_t component_count, components[JPEG_COMPONENTS_MAX];
};

/* An image of the batch. */
struct progressive_image {
    struct progressive_component components[JPEG_COMPONENTS_MAX];
    uint32_t *progress;   /* per scan: number of complete blocks, or PROGRESS_FAILED */
    uint32_t *verdict;    /* the largest verdict of the scans so far, in the work memory */
    uint32_t *result;     /* jpeg_progressive_image.verdict */
    uint32_t *scans_ended; /* number of scans that have ended, in the work memory */
    uint32_t *ended;       /* jpeg_progressive_image.ended */
    uint8_t *cleared;     /* memory that must be zero before the scans; aligned to 16 */
    uint64_t cleared_bytes;
    uint32_t first_scan, scan_count; /* the image's scans among those of the batch */
    uint8_t component_count;
};

#define PROGRESS_FAILED (~(uint32_t)0)

/* The start of the descriptors. The images follow, then the scans, then the tables. */
struct progressive_header {
    uint32_t ticket; /* number of scans that blocks of threads have begun */
    uint32_t pad[3];
};

/* The arguments of all kernels. */
struct progressive_args {
    struct progressive_header *header;
    const struct progressive_image *images;
    const struct progressive_scan *scans; /* a scan comes after the scans that it refines */
    const struct jpeg_huffman *tables;
    uint32_t image_count, scan_count;
    uint32_t clear_blocks; /* blocks of threads per image of the kernel clear_images */
};

/* Enqueues the kernel that decodes all scans. Returns a cudaError_t. */
int progressive_decode_scans(const struct progressive_args *args, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
