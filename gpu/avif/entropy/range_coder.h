/*
 * range_coder.h - the arithmetic coder of AV1 (AV1 8.2.6, inverted).
 *
 * The interval of a symbol begins at the top: `low` is the distance of its upper end from the
 * end of the whole.
 */
#pragma once

#include "gpu/avif/entropy/tokens.h"

struct avif_range_coder {
    uint64_t low;
    uint32_t range;
    int bits; /* of low, beyond 15, that are not yet written */
    uint8_t *bytes;
    size_t count, capacity; /* count > capacity: the bytes from there on were not written */
};

DEVICE void avif_begin_range(struct avif_range_coder *to, uint8_t *bytes, size_t capacity)
{
    struct avif_range_coder start = {0, 32768, 0, bytes, 0, capacity};
    *to = start;
}

/* Appends 8 bits, and adds the rest of the value, a carry of up to 2, to the bytes before. */
DEVICE void avif_put_byte(struct avif_range_coder *to, uint32_t value)
{
    uint32_t carry = value >> 8;
    for (size_t i = to->count; carry > 0 && i-- > 0;) {
        carry += i < to->capacity ? to->bytes[i] : 0;
        if (i < to->capacity)
            to->bytes[i] = (uint8_t)carry;
        carry >>= 8;
    }
    if (to->count < to->capacity)
        to->bytes[to->count] = (uint8_t)value;
    to->count++;
}

/* Codes the part from `above` to `below` of the range, where the whole begins at `range`. */
DEVICE void avif_put_interval(struct avif_range_coder *to, uint32_t above, uint32_t below)
{
    to->low += to->range - above;
    uint32_t range = above - below;
    int shift = leading_zeros(range) - 16;
    to->range = range << shift;
    to->low <<= shift;
    to->bits += shift;
    while (to->bits >= 8) {
        avif_put_byte(to, (uint32_t)(to->low >> (15 + to->bits - 8)));
        to->low &= ((uint64_t)1 << (15 + to->bits - 8)) - 1;
        to->bits -= 8;
    }
}

/* The part of the range that remains below a probability. left: symbols after this one */
DEVICE uint32_t avif_part(uint32_t range, uint32_t probability, int left)
{
    return (((range >> 8) * ((32768 - probability) >> 6)) >> 1) + 4 * (uint32_t)left;
}

DEVICE void avif_put_symbol(struct avif_range_coder *to, const uint16_t *cdf, int symbols,
                            int symbol)
{
    uint32_t above = to->range, below = 0;
    if (symbol > 0)
        above = avif_part(to->range, cdf[symbol - 1], symbols - symbol);
    if (symbol < symbols - 1)
        below = avif_part(to->range, cdf[symbol], symbols - symbol - 1);
    avif_put_interval(to, above, below);
}

DEVICE void avif_put_literal(struct avif_range_coder *to, uint32_t value, int bits)
{
    const uint16_t half[] = {16384, 32768};
    while (bits-- > 0)
        avif_put_symbol(to, half, 2, (int)(value >> bits & 1));
}

/* Codes a flag that is set, whose probability is the sum of those of partitions (AV1 8.3.3). */
DEVICE void avif_put_edge_split(struct avif_range_coder *to, const uint16_t *cdf, int flag)
{
    /* Bits: NONE 0, HORZ 1, VERT 2, SPLIT 3, HORZ_A 4, HORZ_B 5, VERT_A 6, VERT_B 7, HORZ_4 8,
     * VERT_4 9. Blocks of 8 x 8 are never at an edge. */
    uint32_t counted = flag == SPLIT_OR_HORZ ? 0x2DC : 0x17A, sum = 0;
    for (int i = 1; i < 10; i++)
        if (counted >> i & 1)
            sum += (i < 9 ? cdf[i] : 32768u) - cdf[i - 1];
    const uint16_t both[] = {(uint16_t)(32768 - sum), 32768};
    avif_put_symbol(to, both, 2, 1);
}

/* Writes the last bits. */
DEVICE void avif_end_range(struct avif_range_coder *to)
{
    uint64_t mask = 0x3FFF, end = ((to->low + mask) & ~mask) | (mask + 1);
    int bits = 15 + to->bits;
    for (int left = to->bits + 1; left > 0; left -= 8, bits -= 8) {
        avif_put_byte(to, (uint32_t)(bits >= 8 ? end >> (bits - 8) : end << (8 - bits)));
        end &= bits >= 8 ? ((uint64_t)1 << (bits - 8)) - 1 : 0;
    }
}
