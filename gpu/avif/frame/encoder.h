/*
 * encoder.h - what all stages of the AV1 encoder share: the frame, its blocks and its planes.
 *
 * Sizes are base 2 logarithms of sides: a block has size 3 (8 x 8) to 6, a transform 2 to 6.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/avif/frame/options.h"
#include "gpu/simt/simt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A function that reads a table (CONSTANT), which only kernels and C can. */
#ifdef __CUDACC__
#define LOOKUP SIMT
#else
#define LOOKUP DEVICE
#endif

enum { SUPERBLOCK = 64, SUPERBLOCK_SIZE = 6, BLOCK_SIZE_MIN = 3, BLOCK_SIZES = 4 };
/* The 8 x 8 cells of a superblock, and its levels: luma, then both chroma planes. */
enum {
    CELLS = 64,
    LUMA_LEVELS = 4096,
    CHROMA_LEVELS = 1024,
    LEVELS = LUMA_LEVELS + 2 * CHROMA_LEVELS
};
/* Of a transform: the first 32 rows and columns. */
enum { COEFFICIENTS_MAX = 1024 };
enum { CANDIDATES_MAX = 4, PLANES = 3 };

enum avif_mode {
    DC_PRED,
    V_PRED,
    H_PRED,
    D45_PRED,
    D135_PRED,
    D113_PRED,
    D157_PRED,
    D203_PRED,
    D67_PRED,
    SMOOTH_PRED,
    SMOOTH_V_PRED,
    SMOOTH_H_PRED,
    PAETH_PRED,
    CFL_PRED, /* chroma only */
    MODES = CFL_PRED
};

/* Of the columns, then of the rows. */
enum avif_transform { DCT_DCT, ADST_DCT, DCT_ADST, ADST_ADST, IDENTITY, TRANSFORM_TYPES };

/* The tools of an effort. */
struct avif_tools {
    bool smooth, diagonals; /* prediction modes besides DC, V and H */
    bool split_transforms;  /* of luma blocks, once */
    bool palettes;          /* of blocks, in images of screens */
    bool decides_early;     /* stage A alone chooses modes and types; no trials for chroma */
    bool by_satd;           /* SATD alone chooses the mode of stage B */
    unsigned types;         /* of transforms that are tried: bits 1 << avif_transform */
    int candidates;         /* modes that stage A keeps for stage B */
    int rounding_dc;        /* of DC coefficients: per cent of a step */
    int rounding;           /* of the others */
    int lambda_satd;        /* of a bit: thousandths of a step */
    int lowering;           /* per cent of the bits that lower levels are taken to save */
    bool keeps_low;         /* levels of low frequencies are not lowered (transform/levels.h) */
    int luma_bits;          /* costs of bits when luma's levels are chosen, in per cent */
    bool by_contrast;       /* these costs grow more with the contrast */
    /* Filters are as those of so many per cent of the step. */
    int deblocking, cdef_primary, cdef_secondary;
    int cdef_damping; /* 3 to 6: larger differences are smoothed */
};

/* The tiles are `columns` times `rows`, each of width x height superblocks but the last ones. */
struct avif_tiles {
    int columns, rows, width, height;
    int columns_log2, rows_log2;
    /* The bounds of the logarithms, from the size of the frame. */
    int columns_log2_min, columns_log2_max, rows_log2_min, rows_log2_max;
};

/* Classes of levels by what it saves to lower them by one: 0 to 3: a level of 1, by the sum of the
 * levels after it, 4: 2, 5: more. */
enum { LOWER_TWO = 4, LOWER_MORE = 5, LOWER_CLASSES = 6 };

/* A quantiser index, and what follows from it. Costs are in units of the squared error of
 * coefficients, which are 8 times those of an orthonormal transform. */
struct avif_quantiser {
    int index;
    int steps[2];        /* of DC, of the other coefficients */
    uint32_t inverse[2]; /* 2^32 / step, rounded up */
    int rounding[2];     /* added before the division by the step */
    int cost_rounding;   /* the same in estimates, for all coefficients */
    /* Costs of 1/16 bit with COST_BITS fractional bits: in squared errors, and in SATDs. */
    int64_t lambda;
    int lambda_satd;
    /* Of both steps: a level is lowered if the coefficient exceeds it by less. */
    int lowered[2][LOWER_CLASSES];
    bool keeps_low; /* as in avif_tools; kernels do not read it, as devices always keep them */
};
enum { COST_BITS = 10 };

DEVICE int64_t avif_cost_of(const struct avif_quantiser *quantiser, int64_t sixteenths)
{
    return (quantiser->lambda * sixteenths) >> COST_BITS;
}

/* Classes of luma blocks by their contrast: how often variance doubles (frame/activity.h). */
enum { ACTIVITIES = 10 };

/* Strengths of the filters after the reconstruction (AV1 5.9.11, 5.9.19). */
struct avif_filters {
    int deblocking, cdef_primary, cdef_secondary, cdef_damping;
};

struct avif_frame {
    uint32_t width, height;
    int planes;           /* 1 or PLANES */
    int cells_x, cells_y; /* 8 x 8, which cover the image */
    int superblocks_x, superblocks_y;
    struct avif_tiles tiles;
    struct avif_tools tools;
    struct avif_quantiser quantiser;
    struct avif_filters filters;
    bool palettes; /* blocks may have palettes: depends on the pixels */
};

/* A plane of superblocks_x times superblocks_y superblocks. */
struct avif_plane {
    uint8_t *samples;
    size_t stride;
};

DEVICE uint8_t *avif_sample_at(const struct avif_plane *plane, int x, int y)
{
    return plane->samples + (size_t)y * plane->stride + (size_t)x;
}

/* Candidates of stage A for a block of each size and position, the best one first. */
struct avif_choice {
    uint8_t modes[CANDIDATES_MAX];
    int8_t deltas[CANDIDATES_MAX];
    uint8_t count;
    uint8_t type;     /* of the whole block's transform, if tools.decides_early */
    uint8_t activity; /* of the block, which kernels store for stage B (frame/activity.h) */
    bool palette, split_transform, split; /* split: into four blocks */
};

/* A block, as stage B has decided. Each of its cells has a copy, which later blocks read. */
struct avif_block {
    uint8_t size, mode, uv_mode, skip;
    int8_t delta, uv_delta;
    int8_t cfl[2];          /* alphas of U and V, -16 to 16 */
    uint8_t transform_size; /* of luma */
    uint8_t types[4];       /* of luma's transforms */
    uint16_t ends[6];       /* levels of each transform that are coded: luma 0 to 3, U, V */
};

/* The decisions of stage A for a superblock: its blocks of size 6, then of 5, 4 and 3, each in
 * raster order. */
enum { CHOICES = 1 + 4 + 16 + 64 };
DEVICE int avif_choice_index(int x, int y, int size)
{
    int across = SUPERBLOCK_SIZE - size, first = size == 6 ? 0 : size == 5 ? 1 : size == 4 ? 5 : 21;
    return first + ((y & 63) >> size << across) + ((x & 63) >> size);
}

/* Interleaves the bits of x and y, below 16: the order of 8 x 8 or 4 x 4 blocks in a superblock. */
DEVICE uint32_t avif_morton(uint32_t x, uint32_t y)
{
    uint32_t both = x | y << 16;
    both = (both | both << 4) & 0x0F0F0F0F;
    both = (both | both << 2) & 0x33333333;
    both = (both | both << 1) & 0x55555555;
    return (both & 0xFFFF) | both >> 15;
}

/* What later transforms need of one for their contexts, for each 4 x 4 samples of it. */
struct avif_level_context {
    uint8_t sum;     /* of its levels, up to 63 */
    uint8_t dc_sign; /* 0: the DC level is 0; 1: negative; 2: positive */
};

struct avif_kernels;       /* kernels/kernels.h */
struct avif_palette_block; /* predict/palette.h */
struct avif_scans;         /* transform/scans.h */

/* What the stages read and write. */
struct avif_encoder {
    struct avif_frame frame;
    struct avif_plane source[PLANES], reconstruction[PLANES], proxy;
    struct avif_block *blocks; /* by cell, cells_x per row */
    /* By 4 x 4 samples, 16 or 8 per superblock. */
    struct avif_level_context *contexts[PLANES];
    /* Of each superblock; on the host, of the one that is encoded. */
    struct avif_choice *choices; /* CHOICES */
    int16_t *levels;             /* LEVELS */
    bool has_one_superblock;
    const struct avif_scans *scans;
    /* Of the host. */
    struct avif_palette_block *palettes;
    const struct avif_quantiser *quantisers; /* of luma's levels, by activity */
    const struct avif_kernels *kernels;
};

/* Bounds of a tile in luma samples. The right and lower ones are those of whole cells. */
struct avif_bounds {
    int left, top, right, bottom;
};

/* Returns the block at (x, y), in luma samples. */
DEVICE struct avif_block *avif_block_at(const struct avif_encoder *encoder, int x, int y)
{
    return &encoder->blocks[(size_t)(y >> 3) * (size_t)encoder->frame.cells_x + (size_t)(x >> 3)];
}

DEVICE size_t avif_superblock_at(const struct avif_encoder *encoder, int x, int y)
{
    if (encoder->has_one_superblock)
        return 0;
    return (size_t)(y >> 6) * (size_t)encoder->frame.superblocks_x + (size_t)(x >> 6);
}

/* Returns the decisions on the block of a size at (x, y). */
DEVICE struct avif_choice *avif_choice_at(const struct avif_encoder *encoder, int x, int y,
                                          int size)
{
    return encoder->choices + avif_superblock_at(encoder, x, y) * CHOICES +
           avif_choice_index(x, y, size);
}

/* Returns the levels of the block at (x, y). Those of a split block's transforms follow each
 * other. By cell in Morton order; in raster order within a transform. */
DEVICE int16_t *avif_levels_of(const struct avif_encoder *encoder, int plane, int x, int y)
{
    int cell = (int)avif_morton((uint32_t)(x & 63) >> 3, (uint32_t)(y & 63) >> 3);
    return encoder->levels + avif_superblock_at(encoder, x, y) * LEVELS +
           (plane == 0 ? cell * 64 : LUMA_LEVELS + (plane - 1) * CHROMA_LEVELS + cell * 16);
}

/* Returns the context of the samples at (x, y) of a plane. */
DEVICE struct avif_level_context *avif_context_at(const struct avif_encoder *encoder, int plane,
                                                  int x, int y)
{
    size_t stride = (size_t)encoder->frame.superblocks_x * (plane ? 8 : 16);
    return encoder->contexts[plane] + (size_t)(y >> 2) * stride + (size_t)(x >> 2);
}

/* Sets the contexts of a transform. (x, y): in samples of the plane */
DEVICE void avif_set_context(const struct avif_encoder *encoder, int plane, int x, int y, int size,
                             struct avif_level_context context)
{
    for (int row = 0; row < 1 << size; row += 4)
        for (int column = 0; column < 1 << size; column += 4)
            *avif_context_at(encoder, plane, x + column, y + row) = context;
}

/* ---- frame.c ---- */

/* Sets all members. Returns false if the encoder does not take such an image. */
bool avif_frame_set(struct avif_frame *frame, uint32_t width, uint32_t height, uint32_t channels,
                    const struct avif_encode_options *options);
/* Makes the quantisers of luma's levels, whose costs of bits grow with the contrast. */
void avif_set_quantisers(const struct avif_frame *frame, struct avif_quantiser to[ACTIVITIES]);
/* Returns seq_level_idx of the sequence header. */
int avif_level(const struct avif_frame *frame);

DEVICE int avif_min(int a, int b)
{
    return a < b ? a : b;
}
DEVICE int avif_max(int a, int b)
{
    return a > b ? a : b;
}

#ifdef __cplusplus
}
#endif
