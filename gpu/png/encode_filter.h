/*
 * encode_filter.h - a warp chooses the filter of a row and writes the filtered row. All warps of a
 * block share a long row.
 *
 * A lane computes four residuals at a time, in the bytes of a word.
 */
#pragma once

#include "gpu/png/encode_impl.h"
#include "gpu/simt/simt.h"

/* ---- four bytes at a time ---- */

/* a - b per byte. */
DEVICE uint32_t subtract4(uint32_t a, uint32_t b)
{
    return ((a | 0x80808080u) - (b & 0x7F7F7F7Fu)) ^ ((a ^ ~b) & 0x80808080u);
}

DEVICE uint32_t average4(uint32_t a, uint32_t b)
{
    return (a & b) + (((a ^ b) >> 1) & 0x7F7F7F7Fu);
}

/* 255 in each byte where a > b, 0 elsewhere. */
DEVICE uint32_t greater4(uint32_t a, uint32_t b)
{
    uint32_t carries = average4(a, ~b); /* bit 7: whether a + 255 - b > 255 */
#ifdef __CUDA_ARCH__
    uint32_t mask;
    asm("prmt.b32 %0, %1, 0, 0xBA98;" : "=r"(mask) : "r"(carries)); /* copies the signs */
    return mask;
#else
    return (carries >> 7 & 0x01010101u) * 255;
#endif
}

/* a where the mask is 1, b elsewhere. */
DEVICE uint32_t select4(uint32_t mask, uint32_t a, uint32_t b)
{
    return (mask & a) | (~mask & b);
}

/* png_paeth without wider numbers: the distance from the corner is more than the others, unless
 * `left` and `up` are on different sides of it. */
DEVICE uint32_t paeth4(uint32_t left, uint32_t up, uint32_t corner)
{
    uint32_t above = greater4(up, corner), before = greater4(left, corner);
    uint32_t from_left = select4(above, up, corner) - select4(above, corner, up);
    uint32_t from_up = select4(before, left, corner) - select4(before, corner, left);
    uint32_t far_left = greater4(from_left, from_up);
    uint32_t nearest = select4(far_left, from_up, from_left);
    uint32_t farthest = select4(far_left, from_left, from_up);
    uint32_t from_corner = (farthest - nearest) | ~(above ^ before);
    return select4(greater4(nearest, from_corner), corner, select4(far_left, up, left));
}

/* The sum of the bit lengths of the absolute values of four signed bytes. */
DEVICE uint32_t cost4(uint32_t residuals)
{
    uint32_t negative = residuals >> 7 & 0x01010101u;
    uint32_t size = (residuals ^ negative * 255) + negative;
    size |= size >> 1 & 0x7F7F7F7Fu;
    size |= size >> 2 & 0x3F3F3F3Fu;
    size |= size >> 4 & 0x0F0F0F0Fu;
    return (uint32_t)count_bits(size);
}

/* Four bytes, and those that the filters subtract from them. */
struct neighbours {
    uint32_t bytes, left, up, corner;
};

DEVICE uint32_t residuals4(int filter, const struct neighbours *of)
{
    switch (filter) {
    case 0:
        return of->bytes;
    case 1:
        return subtract4(of->bytes, of->left);
    case 2:
        return subtract4(of->bytes, of->up);
    case 3:
        return subtract4(of->bytes, average4(of->left, of->up));
    default:
        return subtract4(of->bytes, paeth4(of->left, of->up, of->corner));
    }
}

/* ---- rows ---- */

/* A warp per row of a group. */
#define FILTER_WARPS   GROUP_ROWS
#define FILTER_THREADS (FILTER_WARPS * WARP_LANES)

/* A row, and how much of it a warp filters: part number `part` of `parts`. */
struct pixel_row {
    const uint8_t *bytes, *above; /* above: NULL for the first row */
    int length, channels;         /* length: in bytes */
    int part, parts;              /* parts: 1, or FILTER_WARPS */
};

/* Loads the word at a column, a multiple of 4; 0 before the row. */
SIMT uint32_t row_word(const uint8_t *row, int column)
{
    return column < 0 ? 0 : load_word(row + column);
}

SIMT struct neighbours load_neighbours(const struct pixel_row *row, int column)
{
    struct neighbours of;
    uint32_t shift = (uint32_t)(4 - row->channels) * 8;
    uint32_t before = row_word(row->bytes, column - 4), above_before = 0;
    of.bytes = load_word(row->bytes + column);
    of.up = 0;
    if (row->above) {
        of.up = load_word(row->above + column);
        above_before = row_word(row->above, column - 4);
    }
    of.left = funnel_right(before, of.bytes, shift); /* shift 0: the word before */
    of.corner = funnel_right(above_before, of.up, shift);
    return of;
}

/* Adds up the costs of the warps that share a row. */
SIMT void add_parts(uint32_t costs[PNG_FILTERS])
{
    SHARED uint32_t parts[FILTER_WARPS][PNG_FILTERS];
    UNROLL
    for (int filter = 0; filter < PNG_FILTERS; filter++) {
        if (lane_index() == 0)
            parts[thread_index() / WARP_LANES][filter] = costs[filter];
        costs[filter] = 0;
    }
    block_barrier();
    for (int i = 0; i < FILTER_WARPS; i++)
        UNROLL
    for (int filter = 0; filter < PNG_FILTERS; filter++)
        costs[filter] += parts[i][filter];
}

SIMT int choose_filter(const struct pixel_row *row)
{
    uint32_t costs[PNG_FILTERS] = {0, 0, 0, 0, 0};
    int step = row->parts * WARP_LANES * 4;
    if (row->length == row->channels)
        return 0;
    for (int column = (row->part * WARP_LANES + lane_index()) * 4; column < row->length;
         column += step) {
        struct neighbours of = load_neighbours(row, column);
        int rest = row->length - column;
        uint32_t mask = rest >= 4 ? ~0u : (1u << rest * 8) - 1;
        UNROLL
        for (int filter = 0; filter < PNG_FILTERS; filter++)
            costs[filter] += cost4(residuals4(filter, &of) & mask);
    }
    UNROLL
    for (int filter = 0; filter < PNG_FILTERS; filter++)
        costs[filter] = warp_sum(costs[filter]);
    if (row->parts > 1)
        add_parts(costs);
    return png_best_filter(costs);
}

/* Returns a word of the output. Its first `behind` residuals are the last ones of the column
 * before, and the rest are the first ones of this column. *carried: the residuals before those of
 * lane 0 */
SIMT uint32_t shifted_residuals(uint32_t own, int behind, uint32_t *carried)
{
    uint32_t before = warp_read_up(own, 1);
    if (lane_index() == 0)
        before = *carried;
    *carried = warp_read(own, WARP_LANES - 1);
    return behind > 0 ? funnel_left(before, own, (uint32_t)behind * 8) : own;
}

/* Writes the residuals of the columns [first, end) to `to`. */
SIMT void write_residuals(const struct pixel_row *row, int filter, int first, int end, uint8_t *to)
{
    int behind = (int)(((uintptr_t)to - (uintptr_t)first) & 3);
    uint32_t carried = 0;
    for (int start = first & ~3; start < end + behind; start += WARP_LANES * 4) {
        int column = start + lane_index() * 4, at = column - behind;
        if (start - behind >= first && start + WARP_LANES * 4 <= end) {
            struct neighbours of = load_neighbours(row, column);
            *(uint32_t *)(to + (at - first)) =
                shifted_residuals(residuals4(filter, &of), behind, &carried);
            continue;
        }
        uint32_t own = 0;
        if (column < end) {
            struct neighbours of = load_neighbours(row, column);
            own = residuals4(filter, &of);
        }
        uint32_t word = shifted_residuals(own, behind, &carried);
        for (int i = 0; i < 4; i++)
            if (at + i >= first && at + i < end)
                to[at + i - first] = (uint8_t)(word >> 8 * i);
    }
}

/* Writes the warp's part of these columns. */
SIMT void write_filtered(const struct pixel_row *row, int filter, int first, int end, uint8_t *to)
{
    int each = (end - first + row->parts - 1) / row->parts, skipped = each * row->part;
    to += skipped;
    first += skipped;
    end = first + each < end ? first + each : end;
    switch (filter) { /* a loop for each filter */
    case 0:
        write_residuals(row, 0, first, end, to);
        break;
    case 1:
        write_residuals(row, 1, first, end, to);
        break;
    case 2:
        write_residuals(row, 2, first, end, to);
        break;
    case 3:
        write_residuals(row, 3, first, end, to);
        break;
    default:
        write_residuals(row, 4, first, end, to);
    }
}

/* Filters row y, or the warp's part of a long row. channels: those of the image, as a constant. */
SIMT void filter_row(const struct png_encode_descriptor *image, uint32_t y, int channels)
{
    int warp = thread_index() / WARP_LANES;
    bool is_long = image->group_rows == 1;
    struct pixel_row row = {image->pixels + (size_t)y * image->stride,
                            NULL,
                            (int)image->row_bytes - 1,
                            channels,
                            is_long ? warp : 0,
                            is_long ? FILTER_WARPS : 1};
    if (y > 0)
        row.above = row.bytes - image->stride;
    int filter = choose_filter(&row);
    uint8_t *to = image->stream;
    if (image->tile_rows > 0) {
        uint32_t tile = y / image->tile_rows;
        to += (size_t)tile * image->tile_stride +
              (size_t)(y - tile * image->tile_rows) * image->row_bytes;
    } else {
        to += (size_t)y * image->row_stride;
    }
    if (lane_index() == 0 && row.part == 0)
        to[0] = (uint8_t)filter;
    /* The pieces of the row. Of its bytes, 0 is the filter. */
    size_t piece;
    for (size_t at = 0; at < image->row_bytes; at += piece, to += image->tile_stride) {
        piece = image->tile_rows > 0 ? image->row_bytes : png_piece_bytes(image->row_bytes, at);
        int first = at > 0 ? (int)at - 1 : 0;
        write_filtered(&row, filter, first, (int)(at + piece) - 1, to + (at == 0));
    }
}
