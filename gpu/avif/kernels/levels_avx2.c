/* levels_avx2.c - costs and levels of coefficients with AVX2. */
#include "gpu/avif/kernels/kernels_avx2.h"

#ifdef __x86_64__

#include "gpu/avif/transform/levels.h"

/* The upper halves of the products of 32 bits. */
AVX2_INLINE __m256i multiply_high_each(__m256i a, __m256i b)
{
    __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(a, b), 32);
    __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), b);
    return _mm256_blend_epi32(even, odd, 0xAA);
}

AVX2 int64_t avif_cost_avx2(const struct avif_coefficients *from, int size,
                            const struct avif_quantiser *quantiser)
{
    int count = avif_coded_side(size) * avif_coded_side(size);
    __m256i rounding = _mm256_set1_epi32(quantiser->cost_rounding);
    __m256i inverse = _mm256_set1_epi32((int)quantiser->inverse[1]);
    __m256i step = _mm256_set1_epi32(quantiser->steps[1]);
    /* The error of a coefficient is less than a step, so squares and their sums fit in 32 bits. */
    __m256i error = _mm256_setzero_si256(), ones = error, doublings = error;
    for (int i = 0; i < count; i += 8) {
        __m256i value = _mm256_abs_epi32(_mm256_load_si256((const __m256i *)(from->of + i)));
        __m256i level = multiply_high_each(_mm256_add_epi32(value, rounding), inverse);
        __m256i rest = _mm256_sub_epi32(value, _mm256_madd_epi16(level, step));
        rest = _mm256_abs_epi32(rest);
        error = _mm256_add_epi32(error, _mm256_madd_epi16(rest, rest));
        ones = _mm256_sub_epi32(ones, _mm256_cmpgt_epi32(level, _mm256_setzero_si256()));
        /* The exponent of a float is 127 plus the highest bit. */
        __m256i exponent = _mm256_srli_epi32(_mm256_castps_si256(_mm256_cvtepi32_ps(level)), 23);
        exponent = _mm256_subs_epu16(exponent, _mm256_set1_epi32(127));
        doublings = _mm256_add_epi32(doublings, exponent);
    }
    int sixteenths =
        COST_BLOCK + COST_LEVEL * avif_sum_8(ones) + COST_DOUBLING * avif_sum_8(doublings);
    __m256i wide = _mm256_add_epi64(_mm256_and_si256(error, _mm256_set1_epi64x(UINT32_MAX)),
                                    _mm256_srli_epi64(error, 32));
    __m128i sums = _mm_add_epi64(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
    int64_t total = _mm_cvtsi128_si64(sums) + _mm_extract_epi64(sums, 1);
    return from->lost + total + avif_cost_of(quantiser, sixteenths);
}

/* Levels and what is left of coefficients, with room for two rows of zeros after the levels. */
struct quantised {
    int16_t levels[COEFFICIENTS_MAX], errors[COEFFICIENTS_MAX];
    int16_t most_3[COEFFICIENTS_MAX + 2 * 32 + 16]; /* levels, at most 3 */
} __attribute__((aligned(AVIF_KERNEL_ALIGN)));

/* Joins the words of two vectors. */
AVX2_INLINE __m256i join(__m256i first, __m256i second)
{
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(first, second), 0xD8);
}

AVX2_INLINE void quantise_all(const struct avif_coefficients *from, int count,
                              const struct avif_quantiser *quantiser, struct quantised *to)
{
    __m256i rounding = _mm256_set1_epi32(quantiser->rounding[1]);
    __m256i inverse = _mm256_set1_epi32((int)quantiser->inverse[1]);
    __m256i step = _mm256_set1_epi32(quantiser->steps[1]);
    for (int i = 0; i < count; i += 16) {
        __m256i levels[2], errors[2];
        for (int k = 0; k < 2; k++) {
            const __m256i *at = (const __m256i *)(from->of + i + 8 * k);
            __m256i value = _mm256_abs_epi32(_mm256_load_si256(at));
            levels[k] = multiply_high_each(_mm256_add_epi32(value, rounding), inverse);
            errors[k] = _mm256_sub_epi32(value, _mm256_madd_epi16(levels[k], step));
        }
        __m256i level = join(levels[0], levels[1]);
        _mm256_store_si256((__m256i *)(to->levels + i), level);
        _mm256_store_si256((__m256i *)(to->errors + i), join(errors[0], errors[1]));
        _mm256_store_si256((__m256i *)(to->most_3 + i),
                           _mm256_min_epi16(level, _mm256_set1_epi16(3)));
    }
    int value = avif_abs(from->of[0]);
    int dc =
        avif_level_of((uint32_t)value, (uint32_t)quantiser->rounding[0], quantiser->inverse[0]);
    to->levels[0] = (int16_t)dc;
    to->most_3[0] = (int16_t)avif_min(dc, 3);
}

AVX2_INLINE __m256i load_words(const int16_t *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

/* avif_level_sum of 16 levels from index i on. before_1, before_2: which lanes have one, or two
 * columns after them */
AVX2_INLINE __m256i sums_of(const int16_t *most_3, int i, int side, __m256i before_1,
                            __m256i before_2)
{
    const int16_t *at = most_3 + i;
    __m256i right = _mm256_add_epi16(load_words(at + 1), load_words(at + side + 1));
    __m256i sum = _mm256_add_epi16(load_words(at + side), load_words(at + 2 * side));
    sum = _mm256_add_epi16(sum, _mm256_and_si256(right, before_1));
    return _mm256_add_epi16(sum, _mm256_and_si256(load_words(at + 2), before_2));
}

/* The thresholds of avif_quantiser.lowered for 16 levels. */
AVX2_INLINE __m256i thresholds_of(const struct avif_quantiser *quantiser, __m256i level,
                                  __m256i sum)
{
    const int *lowered = quantiser->lowered[1];
    __m256i to = _mm256_set1_epi16((int16_t)lowered[3]);
    for (int i = 0; i < 3; i++)
        to = _mm256_blendv_epi8(to, _mm256_set1_epi16((int16_t)lowered[i]),
                                _mm256_cmpeq_epi16(sum, _mm256_set1_epi16((int16_t)i)));
    to = _mm256_blendv_epi8(to, _mm256_set1_epi16((int16_t)lowered[LOWER_TWO]),
                            _mm256_cmpgt_epi16(level, _mm256_set1_epi16(1)));
    return _mm256_blendv_epi8(to, _mm256_set1_epi16((int16_t)lowered[LOWER_MORE]),
                              _mm256_cmpgt_epi16(level, _mm256_set1_epi16(2)));
}

/* The level of the DC coefficient, with its sign. */
AVX2_INLINE int16_t lower_dc(const struct quantised *from, int value, int side,
                             const struct avif_quantiser *quantiser)
{
    const int16_t *at = from->most_3;
    int level = from->levels[0], error = avif_abs(value) - level * quantiser->steps[0];
    int group = avif_lower_class(level, at[1] + at[2] + at[side] + at[side + 1] + at[2 * side]);
    level -= level > 0 && !quantiser->keeps_low && error < quantiser->lowered[0][group];
    return (int16_t)(value < 0 ? -level : level);
}

/* The highest of 16 numbers. */
AVX2_INLINE int highest_of(__m256i x)
{
    __m128i most = _mm_max_epu16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    /* The least of the complements. */
    most = _mm_minpos_epu16(_mm_xor_si128(most, _mm_set1_epi16(-1)));
    return ~_mm_cvtsi128_si32(most) & 0xFFFF;
}

AVX2 int avif_quantise_avx2(const struct avif_coefficients *from, int size,
                            const struct avif_quantiser *quantiser, int16_t *levels)
{
    const __m256i zero = _mm256_setzero_si256();
    const __m256i order = _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const uint16_t *ranks = avif_scans()->ranks[avif_min(size, 5) - 2];
    int side = avif_coded_side(size), count = side * side;
    /* As avif_is_low. */
    const __m256i kept = _mm256_set1_epi16((int16_t)(quantiser->keeps_low ? 1 << size >> 2 : 0));
    struct quantised all;
    __m256i last = zero;
    if (size == 2)
        return avif_kernels_plain.quantise(from, size, quantiser, levels);
    quantise_all(from, count, quantiser, &all);
    for (int i = 0; i < 2 * side + 16; i += 16)
        _mm256_store_si256((__m256i *)(all.most_3 + count + i), zero);
    for (int i = 0; i < count; i += 16) {
        __m256i level = _mm256_load_si256((const __m256i *)(all.levels + i));
        __m256i at = _mm256_add_epi16(order, _mm256_set1_epi16((int16_t)i));
        __m256i column = _mm256_and_si256(at, _mm256_set1_epi16((int16_t)(side - 1)));
        __m256i row = _mm256_srli_epi16(at, avif_min(size, 5));
        __m256i before_1 = _mm256_cmpgt_epi16(_mm256_set1_epi16((int16_t)(side - 1)), column);
        __m256i before_2 = _mm256_cmpgt_epi16(_mm256_set1_epi16((int16_t)(side - 2)), column);
        __m256i sum = sums_of(all.most_3, i, side, before_1, before_2);
        __m256i error = _mm256_load_si256((const __m256i *)(all.errors + i));
        __m256i lower = _mm256_cmpgt_epi16(thresholds_of(quantiser, level, sum), error);
        lower = _mm256_and_si256(lower, _mm256_cmpgt_epi16(level, zero));
        lower = _mm256_andnot_si256(_mm256_cmpgt_epi16(kept, _mm256_add_epi16(row, column)), lower);
        level = _mm256_add_epi16(level, lower);
        __m256i rank = _mm256_loadu_si256((const __m256i *)(ranks + i));
        rank = _mm256_and_si256(rank, _mm256_cmpgt_epi16(level, zero));
        last = _mm256_max_epu16(last, i == 0 ? _mm256_insert_epi16(rank, 0, 0) : rank);
        const __m256i *values = (const __m256i *)(from->of + i);
        __m256i sign = join(_mm256_load_si256(values), _mm256_load_si256(values + 1));
        _mm256_store_si256((__m256i *)(levels + i), _mm256_sign_epi16(level, sign));
    }
    levels[0] = lower_dc(&all, from->of[0], side, quantiser);
    return avif_max(highest_of(last), levels[0] != 0);
}

#endif
