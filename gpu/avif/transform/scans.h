/*
 * scans.h - the order of coefficients, and the matrices of the forward transforms.
 *
 * Both are made of formulas when the first image is encoded.
 */
#pragma once

#include "gpu/avif/frame/encoder.h"

enum { SCAN_SIZES = 4, FORWARD_SIZES = 5 };

struct avif_scans {
    /* By size - 2, for sides up to 32: the position of each index, and the opposite plus 1. */
    uint16_t positions[SCAN_SIZES][1024], ranks[SCAN_SIZES][1024];
} __attribute__((aligned(64)));

struct avif_matrices {
    /* By size - 2, for sides up to 64: 8192 times orthonormal matrices, row after row. */
    int16_t dct[FORWARD_SIZES][64 * 64], adst[3][16 * 16];
} __attribute__((aligned(64)));

const struct avif_scans *avif_scans(void);
const struct avif_matrices *avif_matrices(void);

DEVICE int avif_coded_side(int size)
{
    return size < 5 ? 1 << size : 32;
}
