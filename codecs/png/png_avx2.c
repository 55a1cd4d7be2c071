/* png_avx2.c - the loops of the PNG writer with AVX2 (png_kernels.h). */
#include "codecs/png/png_kernels.h"

#ifdef __x86_64__

#include <immintrin.h>
#include <zlib.h>

#define AVX2        __attribute__((target("avx2,bmi,bmi2,popcnt,pclmul")))
#define AVX2_ALWAYS AVX2 static inline __attribute__((always_inline))
#define ADLER_BASE  65521

AVX2_ALWAYS __m256i load(const uint8_t *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

AVX2_ALWAYS uint64_t sum_of(__m256i x)
{
    __m128i sum = _mm_add_epi64(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    return (uint64_t)_mm_cvtsi128_si64(sum) + (uint64_t)_mm_extract_epi64(sum, 1);
}

/* ---- filters ---- */

/* Bit lengths of |x|, by the two halves of each byte. */
AVX2_ALWAYS __m256i cost_of(__m256i x)
{
    const __m256i low = _mm256_setr_epi8(0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 0, 1, 2, 2,
                                         3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4);
    const __m256i high = _mm256_setr_epi8(0, 5, 6, 6, 7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 8, 8, 0, 5, 6,
                                          6, 7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 8, 8);
    /* A shuffle gives 0 for bytes of 128 and more. |-128| is 128, which `high` makes 8. */
    __m256i size = _mm256_abs_epi8(x);
    __m256i upper = _mm256_and_si256(_mm256_srli_epi16(size, 4), _mm256_set1_epi8(15));
    return _mm256_max_epu8(_mm256_shuffle_epi8(low, size), _mm256_shuffle_epi8(high, upper));
}

/* (a + b) / 2, rounded down. */
AVX2_ALWAYS __m256i average(__m256i a, __m256i b)
{
    __m256i odd = _mm256_and_si256(_mm256_xor_si256(a, b), _mm256_set1_epi8(1));
    return _mm256_sub_epi8(_mm256_avg_epu8(a, b), odd);
}

/* png_paeth without wider numbers. The distance of the sum from the corner is the difference of the
 * other two distances if these have different signs. With equal signs it is their sum, so the
 * corner is never the nearest. */
AVX2_ALWAYS __m256i paeth(__m256i left, __m256i up, __m256i corner)
{
    __m256i most_up = _mm256_max_epu8(up, corner), most_left = _mm256_max_epu8(left, corner);
    __m256i from_left = _mm256_sub_epi8(most_up, _mm256_min_epu8(up, corner));
    __m256i from_up = _mm256_sub_epi8(most_left, _mm256_min_epu8(left, corner));
    __m256i nearest = _mm256_min_epu8(from_left, from_up);
    __m256i from_corner = _mm256_sub_epi8(_mm256_max_epu8(from_left, from_up), nearest);
    __m256i opposite =
        _mm256_xor_si256(_mm256_cmpeq_epi8(most_up, up), _mm256_cmpeq_epi8(most_left, left));
    from_corner = _mm256_or_si256(from_corner, _mm256_xor_si256(opposite, _mm256_set1_epi8(-1)));
    __m256i side = _mm256_blendv_epi8(up, left, _mm256_cmpeq_epi8(nearest, from_left));
    __m256i is_side = _mm256_cmpeq_epi8(_mm256_min_epu8(nearest, from_corner), nearest);
    return _mm256_blendv_epi8(corner, side, is_side);
}

struct sides {
    __m256i byte, left, up, corner;
};

AVX2_ALWAYS struct sides load_sides(const uint8_t *row, const uint8_t *above, uint32_t channels)
{
    return (struct sides){load(row), load(row - channels), load(above), load(above - channels)};
}

AVX2_ALWAYS __m256i residual(int filter, struct sides s)
{
    switch (filter) {
    case 0:
        return s.byte;
    case 1:
        return _mm256_sub_epi8(s.byte, s.left);
    case 2:
        return _mm256_sub_epi8(s.byte, s.up);
    case 3:
        return _mm256_sub_epi8(s.byte, average(s.left, s.up));
    default:
        return _mm256_sub_epi8(s.byte, paeth(s.left, s.up, s.corner));
    }
}

/* Adds the costs of 32 bytes. mask: of the bytes that count */
AVX2_ALWAYS void add_costs(struct sides s, __m256i mask, __m256i costs[PNG_FILTERS])
{
#define ADD(filter)                                                                                \
    costs[filter] =                                                                                \
        _mm256_add_epi8(costs[filter], cost_of(_mm256_and_si256(residual(filter, s), mask)))
    ADD(0);
    ADD(1);
    ADD(2);
    ADD(3);
    ADD(4);
#undef ADD
}

AVX2 static int choose(const uint8_t *row, const uint8_t *above, size_t bytes, uint32_t channels)
{
    enum { part_max = 31 * 32 }; /* 31 costs of 8 fit a byte */
    static const uint8_t ends[64] = {[0 ... 31] = 255};
    const __m256i zero = _mm256_setzero_si256(), all = _mm256_set1_epi8(-1);
    __m256i sums[PNG_FILTERS] = {zero, zero, zero, zero, zero};
    for (size_t at = 0; at < bytes;) {
        size_t end = bytes - at < part_max ? bytes : at + part_max;
        __m256i costs[PNG_FILTERS] = {zero, zero, zero, zero, zero};
        for (; at + 32 <= end; at += 32)
            add_costs(load_sides(row + at, above + at, channels), all, costs);
        if (at < end) {
            add_costs(load_sides(row + at, above + at, channels), load(ends + 32 - (end - at)),
                      costs);
            at = end;
        }
        for (int i = 0; i < PNG_FILTERS; i++)
            sums[i] = _mm256_add_epi64(sums[i], _mm256_sad_epu8(costs[i], zero));
    }
    uint32_t totals[PNG_FILTERS];
    for (int i = 0; i < PNG_FILTERS; i++)
        totals[i] = (uint32_t)sum_of(sums[i]);
    return png_best_filter(totals);
}

AVX2_ALWAYS void filter_as(int filter, const uint8_t *row, const uint8_t *above, size_t bytes,
                           uint32_t channels, uint8_t *to)
{
    for (size_t at = 0; at < bytes; at += 32)
        _mm256_storeu_si256((__m256i *)(to + at),
                            residual(filter, load_sides(row + at, above + at, channels)));
}

AVX2 static void filter_row(int filter, const uint8_t *row, const uint8_t *above, size_t bytes,
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

/* ---- tokens ---- */

/* Bit i: byte i equals `same` byte i. */
AVX2_ALWAYS uint32_t equal_bytes(const uint8_t *bytes, __m256i same)
{
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(load(bytes), same));
}

/* Writes 64 literals. Only the first `count` of them are valid. */
AVX2_ALWAYS void put_literals(const uint8_t *bytes, size_t count, uint16_t *tokens)
{
    const __m128i *from = (const __m128i *)bytes;
    __m256i *to = (__m256i *)tokens;
    _mm256_storeu_si256(to, _mm256_cvtepu8_epi16(_mm_loadu_si128(from)));
    _mm256_storeu_si256(to + 1, _mm256_cvtepu8_epi16(_mm_loadu_si128(from + 1)));
    if (count <= 32)
        return;
    _mm256_storeu_si256(to + 2, _mm256_cvtepu8_epi16(_mm_loadu_si128(from + 2)));
    _mm256_storeu_si256(to + 3, _mm256_cvtepu8_epi16(_mm_loadu_si128(from + 3)));
}

/* A bit per repeat of the 64 bytes from `at` on; none at `count` and after it. */
AVX2_ALWAYS uint64_t repeats_at(const uint8_t *bytes, size_t at, size_t count)
{
    if (at >= count)
        return 0;
    uint64_t repeats = equal_bytes(bytes + at, load(bytes + at - 1)) |
                       (uint64_t)equal_bytes(bytes + at + 32, load(bytes + at + 31)) << 32;
    return count - at < 64 ? repeats & ~(~0ull << (count - at)) : repeats;
}

/* The bits from `bit` on, of 128. bit: less than 64 */
AVX2_ALWAYS uint64_t shifted(uint64_t bits, uint64_t next, uint32_t bit)
{
    return bits >> bit | next << 1 << (63 - bit);
}

/* Where run_min repeats begin. next: the repeats of the 64 bytes after them */
AVX2_ALWAYS uint64_t run_starts(uint64_t repeats, uint64_t next, uint32_t run_min)
{
    uint64_t two = repeats & shifted(repeats, next, 1), next_two = next & next >> 1;
    if (run_min == PNG_RUN_LEAST)
        return two & shifted(repeats, next, 2);
    uint64_t four = two & shifted(two, next_two, 2), next_four = next_two & next_two >> 2;
    return run_min == 5 ? four & shifted(repeats, next, 4) : four & shifted(four, next_four, 4);
}

/* Returns the length of a run that begins at `bytes`. Its first 64 bytes are already compared. */
AVX2_ALWAYS uint32_t long_run(const uint8_t *bytes, size_t count)
{
    __m256i same = _mm256_set1_epi8((char)bytes[0]);
    for (size_t at = 64; at < count; at += 32) {
        uint32_t other = ~equal_bytes(bytes + at, same);
        if (other != 0) {
            at += (uint32_t)__builtin_ctz(other);
            return (uint32_t)(at < count ? at : count);
        }
    }
    return (uint32_t)count;
}

AVX2_ALWAYS uint16_t *put_matches(uint32_t matched, uint16_t *to)
{
    for (; matched >= PNG_MATCH_MAX; matched -= PNG_MATCH_MAX)
        *to++ = 256 + PNG_MATCH_MAX;
    *to = (uint16_t)(256 + matched);
    return to + (matched > 0);
}

/* Looks at 64 bytes at a time: a bit per repeat. A processor cannot predict how many runs there
 * are, so fewer and larger steps are faster. */
AVX2_ALWAYS size_t tokens_as(const uint8_t *bytes, size_t count, uint32_t run_min, uint16_t *tokens,
                             uint32_t *all_repeats)
{
    uint16_t *to = tokens;
    size_t done = 0; /* bytes that have tokens */
    uint32_t sum = 0;
    uint64_t next, repeats = repeats_at(bytes, 0, count);
    for (size_t at = 0; at < count; at += 64, repeats = next) {
        size_t end = count - at < 64 ? count : at + 64;
        next = repeats_at(bytes, at + 64, count);
        sum += (uint32_t)__builtin_popcountll(repeats);
        if (done >= end)
            continue;
        uint64_t starts = run_starts(repeats, next, run_min) & ~0ull << (done - at);
        while (starts != 0) {
            uint32_t bit = (uint32_t)__builtin_ctzll(starts);
            uint64_t others = ~shifted(repeats, next, bit);
            size_t run = at + bit;
            uint32_t length = others != 0 ? (uint32_t)__builtin_ctzll(others)
                                          : long_run(bytes + run, count - run);
            put_literals(bytes + done, run - done, to);
            to += run - done;
            if (length < PNG_MATCH_MAX)
                *to++ = (uint16_t)(256 + length);
            else
                to = put_matches(length = png_matched(length, run_min), to);
            done = run + length;
            if (done >= end)
                break;
            starts &= ~0ull << (done - at);
        }
        if (done < end) {
            put_literals(bytes + done, end - done, to);
            to += end - done;
            done = end;
        }
    }
    *all_repeats = sum;
    return (size_t)(to - tokens);
}

AVX2 static size_t find_tokens(const uint8_t *bytes, size_t count, uint32_t run_min,
                               uint16_t *tokens, uint32_t *repeats)
{
    switch (run_min) {
    case PNG_RUN_LEAST:
        return tokens_as(bytes, count, PNG_RUN_LEAST, tokens, repeats);
    case 5:
        return tokens_as(bytes, count, 5, tokens, repeats);
    default:
        return tokens_as(bytes, count, 8, tokens, repeats);
    }
}

/* BMI2 shifts by a variable number of bits in one step. */
AVX2 static void put_tokens(const struct png_block *block, const uint16_t *tokens, size_t count,
                            struct png_bits *bits)
{
    png_put_any(block, tokens, count, bits);
}

/* ---- checksums ---- */

/* The sums of up to 512 groups of 32 bytes: a, the bytes; b, each byte times the number of bytes
 * from it to the end of the groups. */
AVX2_ALWAYS void adler_groups(const uint8_t *bytes, size_t groups, uint64_t *a, uint64_t *b)
{
    const __m256i zero = _mm256_setzero_si256(), ones = _mm256_set1_epi16(1);
    const __m256i weights =
        _mm256_setr_epi8(32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14,
                         13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1);
    __m256i sum = zero, before = zero, weighted = zero;
    for (size_t i = 0; i < groups; i++) {
        __m256i x = load(bytes + i * 32);
        before = _mm256_add_epi64(before, sum);
        sum = _mm256_add_epi64(sum, _mm256_sad_epu8(x, zero));
        weighted =
            _mm256_add_epi32(weighted, _mm256_madd_epi16(_mm256_maddubs_epi16(x, weights), ones));
    }
    __m256i even = _mm256_and_si256(weighted, _mm256_set1_epi64x(0xFFFFFFFF));
    *a = sum_of(sum);
    *b = 32 * sum_of(before) + sum_of(_mm256_add_epi64(even, _mm256_srli_epi64(weighted, 32)));
}

AVX2 static uint32_t adler(uint32_t sum, const uint8_t *bytes, size_t count)
{
    uint64_t a = sum & 0xFFFF, b = sum >> 16, bytes_sum, weighted;
    while (count >= 32) {
        size_t groups = count / 32 < 512 ? count / 32 : 512;
        adler_groups(bytes, groups, &bytes_sum, &weighted);
        b = (b + a * 32 * groups + weighted) % ADLER_BASE;
        a = (a + bytes_sum) % ADLER_BASE;
        bytes += groups * 32;
        count -= groups * 32;
    }
    for (; count > 0; count--) {
        a += *bytes++;
        b += a;
    }
    return (uint32_t)(b % ADLER_BASE << 16 | a % ADLER_BASE);
}

/* x * the two constants, a fold of 128 bits by the distance that they stand for. */
AVX2_ALWAYS __m128i fold(__m128i x, __m128i constants, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(x, constants, 0x00);
    __m128i high = _mm_clmulepi64_si128(x, constants, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* From 128 bits to 32: two folds, and Barrett's reduction. */
AVX2_ALWAYS uint32_t crc_reduce(__m128i x, __m128i by_16)
{
    const __m128i mask = _mm_setr_epi32(-1, 0, -1, 0), by_4 = _mm_set_epi64x(0, 0x0163cd6124);
    const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
    __m128i y = _mm_xor_si128(_mm_srli_si128(x, 8), _mm_clmulepi64_si128(x, by_16, 0x10));
    y = _mm_xor_si128(_mm_srli_si128(y, 4),
                      _mm_clmulepi64_si128(_mm_and_si128(y, mask), by_4, 0x00));
    __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(y, mask), barrett, 0x10);
    quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, mask), barrett, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(y, quotient), 1);
}

/* Gopal et al., "Fast CRC computation for generic polynomials using PCLMULQDQ", Intel 2009.
 * count: a multiple of 16, at least 64 */
AVX2_ALWAYS uint32_t crc_blocks(uint32_t state, const uint8_t *bytes, size_t count)
{
    const __m128i by_64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
    const __m128i by_16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    const __m128i *from = (const __m128i *)bytes, *end = from + count / 16;
    __m128i x0 = _mm_xor_si128(_mm_loadu_si128(from), _mm_cvtsi32_si128((int)state));
    __m128i x1 = _mm_loadu_si128(from + 1), x2 = _mm_loadu_si128(from + 2);
    __m128i x3 = _mm_loadu_si128(from + 3);
    for (from += 4; end - from >= 4; from += 4) {
        x0 = fold(x0, by_64, _mm_loadu_si128(from));
        x1 = fold(x1, by_64, _mm_loadu_si128(from + 1));
        x2 = fold(x2, by_64, _mm_loadu_si128(from + 2));
        x3 = fold(x3, by_64, _mm_loadu_si128(from + 3));
    }
    x0 = fold(fold(fold(x0, by_16, x1), by_16, x2), by_16, x3);
    for (; from < end; from++)
        x0 = fold(x0, by_16, _mm_loadu_si128(from));
    return crc_reduce(x0, by_16);
}

AVX2 static uint32_t crc(uint32_t sum, const uint8_t *bytes, size_t count)
{
    size_t blocks = count < 64 ? 0 : count / 16 * 16;
    if (blocks > 0)
        sum = ~crc_blocks(~sum, bytes, blocks);
    return (uint32_t)crc32_z(sum, bytes + blocks, count - blocks);
}

const struct png_kernels *png_kernels_avx2(void)
{
    static const struct png_kernels kernels = {choose,     filter_row, find_tokens,
                                               put_tokens, adler,      crc};
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                   __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") &&
                   __builtin_cpu_supports("pclmul")
               ? &kernels
               : NULL;
}

const struct png_kernels *png_kernels_avx512(void)
{
    static const struct png_kernels kernels = {choose,         filter_row, find_tokens,
                                               png_put_avx512, adler,      crc};
    return png_kernels_avx2() != NULL && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512vbmi")
               ? &kernels
               : NULL;
}

#else

const struct png_kernels *png_kernels_avx2(void)
{
    return NULL;
}

const struct png_kernels *png_kernels_avx512(void)
{
    return NULL;
}

#endif
