/* levels_avx2.c - costs and levels of coefficients with AVX2. */
#include "gpu/avif/kernels_avx2.h"

#ifdef __x86_64__

#include "gpu/avif/levels.h"

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

AVX2_INLINE __m256i quantise_eight(const int32_t *from, __m256i rounding, __m256i inverse)
{
    __m256i value = _mm256_load_si256((const __m256i *)from);
    __m256i level =
        multiply_high_each(_mm256_add_epi32(_mm256_abs_epi32(value), rounding), inverse);
    return _mm256_sign_epi32(level, value);
}

AVX2 int avif_quantise_avx2(const struct avif_coefficients *from, int size,
                            const struct avif_quantiser *quantiser, int16_t *levels)
{
    int count = avif_coded_side(size) * avif_coded_side(size);
    const uint16_t *ranks = avif_scans()->ranks[avif_min(size, 5) - 2];
    __m256i rounding = _mm256_set1_epi32(quantiser->rounding[1]);
    __m256i inverse = _mm256_set1_epi32((int)quantiser->inverse[1]);
    __m256i last = _mm256_setzero_si256();
    for (int i = 0; i < count; i += 16) {
        __m256i first = quantise_eight(from->of + i, rounding, inverse);
        __m256i second = quantise_eight(from->of + i + 8, rounding, inverse);
        __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi32(first, second), 0xD8);
        _mm256_store_si256((__m256i *)(levels + i), both);
        __m256i zero = _mm256_cmpeq_epi16(both, _mm256_setzero_si256());
        __m256i rank = _mm256_loadu_si256((const __m256i *)(ranks + i));
        if (i == 0) /* DC has its own quantiser */
            rank = _mm256_insert_epi16(rank, 0, 0);
        last = _mm256_max_epu16(last, _mm256_andnot_si256(zero, rank));
    }
    int dc = avif_level_of((uint32_t)avif_abs(from->of[0]), (uint32_t)quantiser->rounding[0],
                           quantiser->inverse[0]);
    levels[0] = (int16_t)(from->of[0] < 0 ? -dc : dc);
    __m128i most = _mm_max_epu16(_mm256_castsi256_si128(last), _mm256_extracti128_si256(last, 1));
    /* The least of the complements. */
    most = _mm_minpos_epu16(_mm_xor_si128(most, _mm_set1_epi16(-1)));
    int end = ~_mm_cvtsi128_si32(most) & 0xFFFF;
    return avif_max(end, dc > 0);
}

#endif
