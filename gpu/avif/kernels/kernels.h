/*
 * kernels.h - the loops over samples and coefficients that take most of the host's time, in plain C
 * and with AVX2.
 *
 * All give the same results. The functions may be called on any thread.
 */
#pragma once

#include "gpu/avif/predict/edges.h"

/* Alignment of predictions, coefficients and levels. */
#define AVIF_KERNEL_ALIGN 32

/* The coefficients of a transform, which are 8 times the orthonormal ones, in raster order: the
 * first 32 rows and columns of 64 x 64. */
struct avif_coefficients {
    int32_t of[COEFFICIENTS_MAX];
    int64_t lost; /* the energy of those of 64 x 64 that are not coded */
} __attribute__((aligned(AVIF_KERNEL_ALIGN)));

struct avif_kernels {
    /* Converts two rows of 3 or 4 channels to samples: two rows of luma, one of each chroma. */
    void (*import)(const uint8_t *const rows[2], uint32_t width, uint32_t channels,
                   uint8_t *const luma[2], uint8_t *u, uint8_t *v);
    /* Predicts a block. smooth: a neighbour has a smooth mode. */
    void (*predict)(const struct avif_edges *edges, int size, int mode, int delta, bool smooth,
                    uint8_t *to, size_t stride);
    /* 8 times the sum of the absolute coefficients of Hadamard transforms of 8 x 8 differences. */
    int (*satd)(const uint8_t *source, size_t source_stride, const uint8_t *prediction,
                size_t stride, int size);
    /* Transforms source - prediction. */
    void (*transform)(const uint8_t *source, size_t source_stride, const uint8_t *prediction,
                      size_t stride, int size, int type, struct avif_coefficients *to);
    /* Returns an estimate of the squared error plus the costs of bits. */
    int64_t (*cost)(const struct avif_coefficients *from, int size,
                    const struct avif_quantiser *quantiser);
    /* Rounds to levels, and lowers them if that saves more bits than it adds error. Returns the
     * number of levels up to the last in the order of the scan that is not 0. */
    int (*quantise)(const struct avif_coefficients *from, int size,
                    const struct avif_quantiser *quantiser, int16_t *levels);
    /* Adds the inverse transform of coefficients, which are column after column. rows: those from
     * here on are 0. */
    void (*inverse)(const int16_t *columns, int size, int type, int rows, uint8_t *to,
                    size_t stride);
};

extern const struct avif_kernels avif_kernels_plain;
/* NULL: this processor has no AVX2, or the program is not for x86-64. */
const struct avif_kernels *avif_kernels_avx2(void);
