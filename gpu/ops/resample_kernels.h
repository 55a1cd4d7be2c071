/*
 * resample_kernels.h - the loops of resample_strips.c, written for instruction sets. All give the
 * results of resample.c.
 *
 * The instructions multiply short numbers. A weight is split into signed digits: three of 8 bits,
 * weight = d0 + 2^8 d1 + 2^16 d2, or two of 16 bits. Each digit has sums of its own, which are
 * joined at the end. Sums of 32 bits that wrap around equal those of resample.c modulo 2^32.
 *
 * Four pixels of one channel that are multiplied at once are a group: successive pixels of a row,
 * or of a column. The pixels with the weights of a pixel of the result are within its window of
 * groups. All windows of an axis have the same number of groups.
 *
 * - columns: STRIP_ROWS rows of an image, as [group][channel][row][pixel of the group]
 * - quad: four rows of an image, as [byte of the row][row]
 */
#pragma once

#include <stdbool.h>

#include "gpu/ops/resample.h"

#define STRIP_ROWS   16
#define STRIP_GROUP  4
#define STRIP_QUADS  (STRIP_ROWS / STRIP_GROUP) /* of STRIP_ROWS rows */
#define STRIP_VECTOR 64                         /* bytes of a group in columns */
#define STRIP_LOAD   16                         /* bytes that `turn` loads of a row at once */
#define STRIP_PIXELS 4 /* of the result that are computed together; bands and quads are padded */

/* The weights of an axis. */
struct strip_band {
    uint32_t outputs, groups; /* groups: of each window */
    int32_t *starts;          /* of each output: the first group of its window */
    uint8_t *digits;          /* [output][digit][pixel of the window], of `digit_bytes` each */
};

/* The most bytes of the digits of a weight. */
#define STRIP_WEIGHT_BYTES_MAX 4

/* A ring with room for `count` quads: quad q is at q % count, and replaces quad q - count. */
struct strip_ring {
    uint8_t *quads;
    uint32_t count;
    size_t quad_bytes;
};

static inline uint8_t *strip_quad(const struct strip_ring *ring, uint32_t quad)
{
    return ring->quads + quad % ring->count * ring->quad_bytes;
}

/* The pixels of gray, RGB and RGBA that `turn` takes of a load. */
static inline size_t strip_step_pixels(uint32_t channels)
{
    return channels == 1 ? STRIP_LOAD : STRIP_GROUP;
}

struct resample_kernels {
    uint32_t digits, digit_bytes;
    /* Makes columns of `steps` loads of each row. Prefetches the bytes that are `ahead` bytes after
     * these. premultiply: for RGBA. */
    void (*turn)(const uint8_t *const rows[STRIP_ROWS], size_t steps, uint32_t channels,
                 size_t ahead, bool premultiply, uint8_t *columns);
    /* Makes the quads of STRIP_ROWS rows of the result. Writes padded rows. */
    void (*sum_x)(const struct strip_band *band, const uint8_t *columns, uint32_t channels,
                  uint8_t *const quads[STRIP_QUADS]);
    /* Copies the rows of a quad, `bytes` bytes each. rows[i] NULL: this row is not needed. */
    void (*split_quad)(const uint8_t *quad, size_t bytes, uint8_t *const rows[STRIP_GROUP]);
    /* Computes the rows `first` to `end` - 1 of an image from the quads of their windows. */
    void (*sum_quads)(const struct strip_band *band, uint32_t first, uint32_t end,
                      const struct strip_ring *ring, const struct image *to);
    /* Computes a row of the result from rows of the source. premultiply: they are RGBA, and are to
     * be premultiplied. */
    void (*sum_rows)(const struct strip_band *band, uint32_t row, const struct image *from,
                     bool premultiply, uint8_t *to);
    /* Divides the colours of a row of RGBA by alpha, as resample_divide. */
    void (*divide_row)(uint8_t *pixels, size_t width);
};

/* NULL: this processor lacks the instructions. */
const struct resample_kernels *resample_kernels_avx2(void);
const struct resample_kernels *resample_kernels_vnni(void); /* AVX-512 VNNI */
