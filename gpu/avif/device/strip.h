/*
 * strip.h - transforms of a block by a warp.
 *
 * The warp has one block, or the blocks of both chroma planes at once, as two parts. A lane has a
 * column of samples, and then a row of coefficients, in registers: the loops over a line are
 * unrolled for each size. The prediction is in shared memory.
 *
 * All lanes of a warp call these functions together.
 */
#pragma once

#include "gpu/avif/device/device.h"
#include "gpu/avif/predict/predict.h"
#include "gpu/avif/transform/forward.h"
#include "gpu/avif/transform/transform.h"

/* Lines are longer than the side by this, so that lanes with a line each use all banks. */
enum { COEFFICIENT_GAP = 1, SAMPLE_GAP = 2, LEVEL_GAP = 2 };

/* Shared memory of a warp. Parts follow each other in each member. */
struct strip_work {
    int32_t coefficients[32 * (32 + COEFFICIENT_GAP)]; /* row after row; then their levels */
    /* Columns that are transformed, the decoder's coefficients, rows that are transformed back. */
    int16_t lines[32 * (64 + SAMPLE_GAP)];
    uint32_t most_3[(32 + LEVEL_GAP) * (32 + LEVEL_GAP) / 4]; /* bytes: levels, at most 3 */
    /* Predictions by samples above and to the left, of up to 64 or in parts of up to 32; and chroma
     * from luma, of both planes. */
    uint8_t above[64], left[64], from_luma[2 * 16 * 16];
};

/* What a lane knows of its part of a block. */
struct strip_block {
    const uint8_t *source;
    uint8_t *to;   /* the reconstruction */
    size_t stride; /* of both */
    int size, parts;
    /* Shared memory: the prediction of column x and row y is at across * x + down * y. */
    const uint8_t *predicted;
    int across, down;
};

SIMT int strip_predicted(const struct strip_block *block, int x, int y)
{
    return block->predicted[block->across * x + block->down * y];
}

SIMT int strip_part(int size, int parts)
{
    return parts == 1 ? 0 : (lane_index() >> size) & (parts - 1);
}

SIMT int strip_line(int size)
{
    return lane_index() & ((1 << avif_min(size, 5)) - 1);
}

/* Whether the lane has a line of a part. */
SIMT bool strip_has_line(int size, int parts)
{
    return size >= 5 || lane_index() < parts << size;
}

SIMT int16_t *strip_lines(struct strip_work *work, int size, int part)
{
    return work->lines + part * ((1 << size) * ((1 << size) + SAMPLE_GAP));
}

SIMT int32_t *strip_coefficients(struct strip_work *work, int size, int part)
{
    int coded = avif_coded_side(size);
    return work->coefficients + part * coded * (coded + COEFFICIENT_GAP);
}

/* ---- forward ---- */

/* Where the coefficients of a line go: from columns to `columns`, or if that is NULL, from rows to
 * `coefficients`. */
struct forward_to {
    int16_t *columns;
    int32_t *coefficients;
    int step, shift; /* of columns; both divide by 1 << shift */
};

SIMT void forward_store(const struct forward_to *to, int k, int sum)
{
    if (to->columns)
        to->columns[k * to->step] = (int16_t)(sum >> to->shift);
    else
        to->coefficients[k] = sum >> to->shift;
}

/* A step of forward_line: sets the coefficients whose numbers are odd multiples of 1 << level. */
SIMT void forward_level(int *v, int size, int level, const struct forward_to *to)
{
    const int count = 1 << size >> level, half = count / 2, rounding = 1 << (to->shift - 1);
    UNROLL
    for (int i = 0; i < half; i++) {
        int a = v[i], b = v[count - 1 - i];
        v[i] = a + b;
        v[count - 1 - i] = a - b;
    }
    UNROLL
    for (int m = 0; m < half; m++) {
        int k = (2 * m + 1) << level, sum = rounding;
        if (k >= avif_coded_side(size))
            continue;
        UNROLL
        for (int i = 0; i < half; i++)
            sum += v[count - 1 - i] * avif_dct_factor(size, k, i);
        forward_store(to, k, sum);
    }
}

/* The DCT of a line. The sums and differences of opposite samples make the odd coefficients, then
 * the sums of these make every second even one, and so on. */
SIMT void forward_line(int *v, int size, const struct forward_to *to)
{
    forward_level(v, size, 0, to);
    forward_level(v, size, 1, to);
    if (size > 2)
        forward_level(v, size, 2, to);
    if (size > 3)
        forward_level(v, size, 3, to);
    if (size > 4)
        forward_level(v, size, 4, to);
    if (size > 5)
        forward_level(v, size, 5, to);
    forward_store(to, 0, v[0] * avif_dct_factor(size, 0, 0) + (1 << (to->shift - 1)));
}

/* Loads samples of a line, two at once. */
SIMT void load_line(const int16_t *from, int count, int *to)
{
    const uint32_t *words = (const uint32_t *)(const void *)from;
    UNROLL
    for (int i = 0; i < count / 2; i++) {
        uint32_t word = words[i];
        to[2 * i] = (int16_t)word;
        to[2 * i + 1] = (int16_t)(word >> 16);
    }
}

/* Transforms the differences of a block and its prediction to work->coefficients. Returns the sum
 * of the squares of 8 times the differences of the lane's columns, and subtracts those of the
 * coefficients; only 64 x 64 needs it. size: a constant. One loop has the columns, and then the
 * rows, to keep the code short: instructions are fetched through small caches. */
SIMT int64_t strip_forward_size(struct strip_work *work, const struct strip_block *block, int size)
{
    const int side = 1 << size, coded = avif_coded_side(size), stride = side + SAMPLE_GAP;
    const int columns = (side + WARP_LANES - 1) / WARP_LANES, line = strip_line(size);
    bool has_line = strip_has_line(size, block->parts);
    int16_t *lines = strip_lines(work, size, strip_part(size, block->parts));
    int32_t *coefficients = strip_coefficients(work, size, strip_part(size, block->parts)) +
                            line * (coded + COEFFICIENT_GAP);
    int64_t lost = 0;
    NO_UNROLL
    for (int pass = 0; pass <= columns; pass++) {
        int v[64], x = line + pass * WARP_LANES, energy = 0;
        struct forward_to to = {lines + x, coefficients, stride, 10};
        if (pass == columns) {
            warp_barrier();
            to.columns = NULL;
            to.shift = 13;
        }
        if (!has_line)
            continue;
        if (pass == columns) {
            load_line(lines + line * stride, side, v);
        } else {
            const uint8_t *source = block->source + x;
            UNROLL
            for (int y = 0; y < side; y++) {
                v[y] = source[(size_t)y * block->stride] - strip_predicted(block, x, y);
                energy += size == 6 ? v[y] * v[y] : 0;
            }
            lost += (int64_t)64 * energy;
        }
        forward_line(v, size, &to);
    }
    if (size == 6)
        for (int k = 0; k < coded; k++)
            lost -= (int64_t)coefficients[k] * coefficients[k];
    return lost;
}

SIMT int64_t strip_forward(struct strip_work *work, const struct strip_block *block)
{
    warp_barrier();
    if (warp_any(block->size == 2))
        return strip_forward_size(work, block, 2);
    if (warp_any(block->size == 3))
        return strip_forward_size(work, block, 3);
    if (warp_any(block->size == 4))
        return strip_forward_size(work, block, 4);
    if (warp_any(block->size == 5))
        return strip_forward_size(work, block, 5);
    return strip_forward_size(work, block, 6);
}

/* Eight times the differences of a block of luma. */
SIMT void strip_forward_identity(struct strip_work *work, const struct strip_block *block)
{
    int size = block->size, side = 1 << size;
    warp_barrier();
    for (int i = lane_index(); i < side * side; i += WARP_LANES) {
        int x = i & (side - 1), y = i >> size;
        work->coefficients[i + y * COEFFICIENT_GAP] =
            8 *
            (block->source[(size_t)y * block->stride + (size_t)x] - strip_predicted(block, x, y));
    }
}

/* ---- inverse ---- */

/* Transforms the decoder's coefficients in work->lines back, and reconstructs the block.
 * Only the first `rows` rows have coefficients other than 0. size: a constant. As in
 * strip_forward_size, but the rows come first. */
SIMT void strip_inverse_size(struct strip_work *work, const struct strip_block *block, int size,
                             int rows)
{
    const int side = 1 << size, coded = avif_coded_side(size), stride = side + SAMPLE_GAP;
    const int columns = (side + WARP_LANES - 1) / WARP_LANES, line = strip_line(size);
    const int shift = avif_row_shift(size);
    bool has_line = strip_has_line(size, block->parts);
    int16_t *lines = strip_lines(work, size, strip_part(size, block->parts));
    NO_UNROLL
    for (int pass = 0; pass <= columns; pass++) {
        int from[64], to[64], x = line + (pass - 1) * WARP_LANES;
        int16_t *row = lines + line * stride;
        if (pass == 1)
            warp_barrier();
        if (!has_line || (pass == 0 && line >= rows))
            continue;
        if (pass == 0) {
            load_line(row, coded, from);
        } else {
            UNROLL
            for (int y = 0; y < coded; y++)
                from[y] = y < rows ? lines[y * stride + x] : 0;
        }
        UNROLL
        for (int y = coded; y < side; y++)
            from[y] = 0;
        avif_inverse_dct(from, to, size);
        if (pass == 0) {
            uint32_t *words = (uint32_t *)(void *)row;
            UNROLL
            for (int i = 0; i < side; i += 2)
                words[i / 2] = ((uint32_t)((to[i] + (1 << shift >> 1)) >> shift) & 0xFFFF) |
                               (uint32_t)((to[i + 1] + (1 << shift >> 1)) >> shift) << 16;
        } else {
            uint8_t *at = block->to + x;
            UNROLL
            for (int y = 0; y < side; y++, at += block->stride)
                *at = (uint8_t)avif_clip(strip_predicted(block, x, y) + ((to[y] + 8) >> 4));
        }
    }
}

SIMT void strip_inverse(struct strip_work *work, const struct strip_block *block, int rows)
{
    warp_barrier();
    if (warp_any(block->size == 2))
        strip_inverse_size(work, block, 2, rows);
    else if (warp_any(block->size == 3))
        strip_inverse_size(work, block, 3, rows);
    else if (warp_any(block->size == 4))
        strip_inverse_size(work, block, 4, rows);
    else if (warp_any(block->size == 5))
        strip_inverse_size(work, block, 5, rows);
    else
        strip_inverse_size(work, block, 6, rows);
}

SIMT void strip_inverse_identity(struct strip_work *work, const struct strip_block *block)
{
    int size = block->size, side = 1 << size;
    warp_barrier();
    for (int i = lane_index(); i < side * side; i += WARP_LANES) {
        int x = i & (side - 1), y = i >> size;
        int part = avif_inverse_identity(work->lines[i + y * SAMPLE_GAP], size);
        block->to[(size_t)y * block->stride + (size_t)x] =
            (uint8_t)avif_clip(strip_predicted(block, x, y) + ((part + 8) >> 4));
    }
}

/* Reconstructs a block without levels. */
SIMT void strip_predict(const struct strip_block *block)
{
    int size = block->size, side = 1 << size;
    for (int x = strip_line(size); strip_has_line(size, block->parts) && x < side; x += WARP_LANES)
        for (int y = 0; y < side; y++)
            block->to[(size_t)y * block->stride + (size_t)x] =
                (uint8_t)strip_predicted(block, x, y);
}
