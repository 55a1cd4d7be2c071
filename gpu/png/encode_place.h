/*
 * encode_place.h - a block of threads adds up the bits of the blocks of an image: the positions of
 * its tiles in the zlib stream.
 *
 * The padding of a stored block depends on its position. So successive blocks are described by a
 * struct span, which gives their end for any begin.
 */
#pragma once

#include "gpu/png/encode_tokens.h"

/* Successive blocks: if none is stored, they take `before` bits. Otherwise there are so many bits
 * before the first stored block, and `after` bits from the byte on where that block's header ends
 * with its padding. */
struct span {
    uint64_t before, after;
    bool stored;
};

SIMT uint64_t span_end(uint64_t at, const struct span *span)
{
    at += span->before;
    return span->stored ? (at + 3 + 7) / 8 * 8 + span->after : at;
}

SIMT struct span span_join(const struct span *first, const struct span *second)
{
    struct span both = *first;
    if (first->stored) {
        both.after = span_end(first->after, second);
        return both;
    }
    both = *second;
    both.before += first->before;
    return both;
}

SIMT struct span span_of(const struct png_encode_tile *tile, uint32_t index)
{
    struct span span = {0, 0, false};
    if (tile->head != index)
        return span;
    span.stored = png_is_stored(tile->block_bytes, tile->block_bits);
    if (span.stored)
        span.after = 32 + (uint64_t)tile->block_bytes * 8;
    else
        span.before = tile->block_bits;
    return span;
}

SIMT uint64_t warp_read_up64(uint64_t value, int by)
{
    uint32_t low = warp_read_up((uint32_t)value, by);
    return (uint64_t)warp_read_up((uint32_t)(value >> 32), by) << 32 | low;
}

SIMT struct span span_below(const struct span *span, int by)
{
    struct span below;
    below.before = warp_read_up64(span->before, by);
    below.after = warp_read_up64(span->after, by);
    below.stored = warp_read_up(span->stored, by) != 0;
    return below;
}

/* Returns the spans of all lower threads together. spans: of the warps */
SIMT struct span scan_spans(struct span own, struct span spans[WARP_LANES])
{
    int lane = lane_index(), warp = thread_index() / WARP_LANES;
    UNROLL
    for (int by = 1; by < WARP_LANES; by *= 2) {
        struct span below = span_below(&own, by);
        if (lane >= by)
            own = span_join(&below, &own);
    }
    if (lane == WARP_LANES - 1)
        spans[warp] = own;
    block_barrier();
    struct span before = {0, 0, false}, below = span_below(&own, 1);
    for (int i = 0; i < warp; i++)
        before = span_join(&before, &spans[i]);
    return lane > 0 ? span_join(&before, &below) : before;
}

/* Sets the positions of the heads of blocks among tiles [first, end), and the end of the stream. */
SIMT void place_heads(struct png_encode_descriptor *image, uint32_t first, uint32_t end,
                      struct span *spans)
{
    struct span own = {0, 0, false};
    for (uint32_t i = first; i < end; i++) {
        struct span span = span_of(&image->tiles[i], i);
        own = span_join(&own, &span);
    }
    struct span before = scan_spans(own, spans);
    uint64_t at = span_end(ZLIB_HEAD_BITS, &before);
    for (uint32_t i = first; i < end; i++) {
        struct span span = span_of(&image->tiles[i], i);
        if (image->tiles[i].head == i)
            image->tiles[i].at = at;
        at = span_end(at, &span);
    }
    if (first < end && end == image->tile_count)
        image->end_bit = at;
}

/* Sets the positions of the other tiles, and clears the words that tiles share. */
SIMT void place_others(struct png_encode_descriptor *image, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        struct png_encode_tile *tile = image->tiles + i, *head = image->tiles + tile->head;
        uint64_t at = head->at;
        if (tile->head != i)
            at = png_is_stored(head->block_bytes, head->block_bits)
                     ? (at + 3 + 7) / 8 * 8 + 32 + (uint64_t)tile->bytes_before * 8
                     : at + tile->bits_before;
        tile->at = at;
        image->bits[at / 32] = 0;
    }
}

/* Returns the Adler-32 checksum of the filtered stream, to thread 0. */
SIMT uint32_t adler_of_image(const struct png_encode_descriptor *image, uint32_t first,
                             uint32_t end, uint32_t *sums)
{
    uint32_t sum1 = 0, sum2 = 0, all1, all2;
    for (uint32_t i = first; i < end; i++) {
        int count;
        uint64_t after = image->stream_bytes - tile_end(image, i, &count);
        uint32_t adler1 = image->tiles[i].adler1;
        sum1 += adler1;
        sum2 += (uint32_t)((image->tiles[i].adler2 + after % ADLER_BASE * adler1) % ADLER_BASE);
        sum1 %= ADLER_BASE;
        sum2 %= ADLER_BASE;
    }
    (void)block_scan(sum1, &all1, sums);
    (void)block_scan(sum2, &all2, sums);
    /* The checksum begins with 1, which each byte adds to the second sum again. */
    all1 = (all1 + 1) % ADLER_BASE;
    all2 = (uint32_t)((all2 + image->stream_bytes) % ADLER_BASE);
    return all2 << 16 | all1;
}

SIMT uint64_t zlib_bytes(const struct png_encode_descriptor *image)
{
    return (image->end_bit + 7) / 8 + ADLER_BYTES;
}

SIMT uint32_t idat_count(const struct png_encode_descriptor *image)
{
    return (uint32_t)((zlib_bytes(image) + PNG_CHUNK_BYTES - 1) / PNG_CHUNK_BYTES);
}
