#include "codecs/png/png_kernels.h"

#include <string.h>

#include <zlib.h>

/* The loops over bytes are written for vectorization: 16 bytes at a time with any compiler. */
#define LANES 16
/* Costs of so many bytes per lane fit a byte. */
#define PART_BYTES (31 * LANES)

/* png_paeth without wider numbers, as in png_avx2.c. */
static inline uint8_t paeth(uint8_t left, uint8_t up, uint8_t corner)
{
    uint8_t from_left = up > corner ? up - corner : corner - up;
    uint8_t from_up = left > corner ? left - corner : corner - left;
    uint8_t nearest = from_left < from_up ? from_left : from_up;
    uint8_t farthest = from_left < from_up ? from_up : from_left;
    uint8_t same_sign = (up > corner ? 255 : 0) ^ (left > corner ? 0 : 255);
    uint8_t from_corner = (uint8_t)(farthest - nearest) | same_sign;
    uint8_t side = from_left <= from_up ? left : up;
    return nearest <= from_corner ? side : corner;
}

static inline void filter_as(int filter, const uint8_t *row, const uint8_t *above, size_t bytes,
                             uint32_t channels, uint8_t *restrict to)
{
    const uint8_t *left = row - channels, *corner = above - channels;
    if (filter == 4)
        for (size_t i = 0; i < bytes; i++)
            to[i] = (uint8_t)(row[i] - paeth(left[i], above[i], corner[i]));
    else
        for (size_t i = 0; i < bytes; i++)
            to[i] = png_residual(filter, row[i], left[i], above[i], corner[i]);
}

/* The bit length of |residual|. */
static inline uint8_t cost_of(uint8_t residual)
{
    uint8_t sign = residual > 127 ? 255 : 0, size = (uint8_t)((residual ^ sign) - sign);
    return (uint8_t)((size >= 1) + (size >= 2) + (size >= 4) + (size >= 8) + (size >= 16) +
                     (size >= 32) + (size >= 64) + (size >= 128));
}

/* bytes: at most PART_BYTES */
static inline uint32_t costs_of(const uint8_t *residuals, size_t bytes)
{
    uint8_t costs[LANES] = {0};
    uint32_t sum = 0;
    size_t at = 0;
    for (; at + LANES <= bytes; at += LANES)
        for (size_t i = 0; i < LANES; i++)
            costs[i] = (uint8_t)(costs[i] + cost_of(residuals[at + i]));
    for (; at < bytes; at++)
        sum += cost_of(residuals[at]);
    for (size_t i = 0; i < LANES; i++)
        sum += costs[i];
    return sum;
}

static int choose(const uint8_t *row, const uint8_t *above, size_t bytes, uint32_t channels)
{
    uint8_t residuals[PART_BYTES];
    uint32_t costs[PNG_FILTERS] = {0};
    for (size_t at = 0; at < bytes; at += PART_BYTES) {
        size_t part = bytes - at < PART_BYTES ? bytes - at : PART_BYTES;
        const uint8_t *from = row + at, *up = above + at;
        costs[0] += costs_of(from, part);
        filter_as(1, from, up, part, channels, residuals);
        costs[1] += costs_of(residuals, part);
        filter_as(2, from, up, part, channels, residuals);
        costs[2] += costs_of(residuals, part);
        filter_as(3, from, up, part, channels, residuals);
        costs[3] += costs_of(residuals, part);
        filter_as(4, from, up, part, channels, residuals);
        costs[4] += costs_of(residuals, part);
    }
    return png_best_filter(costs);
}

static void filter_row(int filter, const uint8_t *row, const uint8_t *above, size_t bytes,
                       uint32_t channels, uint8_t *to)
{
    switch (filter) {
    case 0:
        filter_as(0, row, above, bytes, channels, to);
        break;
    case 1:
        filter_as(1, row, above, bytes, channels, to);
        break;
    case 2:
        filter_as(2, row, above, bytes, channels, to);
        break;
    case 3:
        filter_as(3, row, above, bytes, channels, to);
        break;
    default:
        filter_as(4, row, above, bytes, channels, to);
        break;
    }
}

/* Writes `matched` bytes as matches. Returns the end of the tokens. */
static uint16_t *put_matches(uint32_t matched, uint16_t *to)
{
    for (; matched >= PNG_MATCH_MAX; matched -= PNG_MATCH_MAX)
        *to++ = 256 + PNG_MATCH_MAX;
    if (matched > 0)
        *to++ = (uint16_t)(256 + matched);
    return to;
}

/* The end of the bytes from `at` on that equal the byte before them. */
static size_t run_end(const uint8_t *bytes, size_t at, size_t count)
{
    uint64_t eight, same = bytes[at - 1] * 0x0101010101010101u;
    for (; at + sizeof eight <= count; at += sizeof eight) {
        memcpy(&eight, bytes + at, sizeof eight);
        if (eight != same)
            break;
    }
    while (at < count && bytes[at] == (uint8_t)same)
        at++;
    return at;
}

/* Writes every byte as a literal until run_min of them are repeats. A processor predicts this
 * better than a search for the end of each run. */
static size_t find_tokens(const uint8_t *bytes, size_t count, uint32_t run_min, uint16_t *tokens,
                          uint32_t *all_repeats)
{
    uint16_t *to = tokens;
    uint32_t sum = 0, repeats = 0;
    uint8_t before = bytes[-1];
    for (size_t at = 0; at < count; at++) {
        uint8_t byte = bytes[at];
        uint32_t is_repeat = byte == before;
        *to++ = before = byte;
        sum += is_repeat;
        repeats = (repeats + 1) * is_repeat;
        if (repeats < run_min)
            continue;
        to -= run_min;
        size_t end = run_end(bytes, at + 1, count);
        repeats += (uint32_t)(end - at - 1);
        at = end - 1;
        uint32_t matched = png_matched(repeats, run_min);
        sum += repeats - run_min;
        to = put_matches(matched, to);
        for (; repeats > matched; repeats--)
            *to++ = byte;
        repeats = 0; /* the next byte differs */
    }
    *all_repeats = sum;
    return (size_t)(to - tokens);
}

static void put_tokens(const struct png_block *block, const uint16_t *tokens, size_t count,
                       struct png_bits *bits)
{
    png_put_any(block, tokens, count, bits);
}

static uint32_t adler(uint32_t sum, const uint8_t *bytes, size_t count)
{
    return (uint32_t)adler32_z(sum, bytes, count);
}

static uint32_t crc(uint32_t sum, const uint8_t *bytes, size_t count)
{
    return (uint32_t)crc32_z(sum, bytes, count);
}

const struct png_kernels png_kernels_plain = {choose,     filter_row, find_tokens,
                                              put_tokens, adler,      crc};

const struct png_kernels *png_kernels_fastest(void)
{
    const struct png_kernels *avx512 = png_kernels_avx512(), *avx2 = png_kernels_avx2();
    return avx512 != NULL ? avx512 : avx2 != NULL ? avx2 : &png_kernels_plain;
}
