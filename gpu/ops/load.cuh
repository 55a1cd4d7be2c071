/*
 * load.cuh - loads 16 bytes from any address, for kernels that copy pixels to other columns.
 *
 * A lane loads the two aligned pieces of 16 bytes that contain its bytes, and shifts them together.
 * `skew` is the distance of its first byte from the aligned address before it. It must be the same
 * for the whole launch. That is the case if the rows' stride is a multiple of STRIDE_ALIGN and all
 * offsets differ by multiples of 16.
 */
#pragma once

#include "gpu/ops/launch.cuh"

/* Loads the piece at `at`, an aligned address, if it contains a byte of the row; otherwise returns
 * 0. The row may start in the middle of a piece. */
SIMT uint4 load_piece(const uint8_t *row, int at, int row_bytes)
{
    uint4 piece = make_uint4(0, 0, 0, 0);
    if (at > -(int)sizeof(piece) && at < row_bytes)
        piece = __ldg(&piece_at(row + at));
    return piece;
}

/* Loads 16 bytes at `offset` of a row of row_bytes bytes. Bytes outside of the row are undefined.
 * SKEWED false: skew is 0. */
template <bool SKEWED> SIMT uint4 load_16(const uint8_t *row, int offset, int row_bytes, int skew)
{
    int at = SKEWED ? offset - skew : offset;
    uint4 low = load_piece(row, at, row_bytes);
    if constexpr (!SKEWED)
        return low;
    uint4 high = load_piece(row, at + 16, row_bytes);
    /* Shifts by words, then by bytes. No branch diverges, because skew is the same for all
     * threads. */
    bool two = skew & 8, one = skew & 4;
    uint32_t a0 = two ? low.z : low.x, a1 = two ? low.w : low.y, a2 = two ? high.x : low.z;
    uint32_t a3 = two ? high.y : low.w, a4 = two ? high.z : high.x, a5 = two ? high.w : high.y;
    uint32_t b0 = one ? a1 : a0, b1 = one ? a2 : a1, b2 = one ? a3 : a2, b3 = one ? a4 : a3;
    uint32_t b4 = one ? a5 : a4;
    unsigned bits = (skew & 3) * 8;
    return make_uint4(__funnelshift_r(b0, b1, bits), __funnelshift_r(b1, b2, bits),
                      __funnelshift_r(b2, b3, bits), __funnelshift_r(b3, b4, bits));
}
