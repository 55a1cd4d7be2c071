/* satd_avx2.c - the sum of absolute Hadamard coefficients with AVX2. */
#include "gpu/avif/kernels/kernels_avx2.h"

#ifdef __x86_64__

/* Adds and subtracts the rows i and i + half. */
#define STEP(half)                                                                                 \
    for (int i = 0; i < 8; i++)                                                                    \
        if (!(i & (half))) {                                                                       \
            __m256i a = r[i], b = r[i + (half)];                                                   \
            r[i] = _mm256_add_epi16(a, b);                                                         \
            r[i + (half)] = _mm256_sub_epi16(a, b);                                                \
        }

/* r: the differences of two blocks of 8 x 8, a row of both in each vector. Returns sums in 32 bits.
 * The last step is left out: |a + b| + |a - b| = 2 max(|a|, |b|). */
AVX2_INLINE __m256i hadamard_sums(__m256i r[8])
{
#pragma GCC unroll 8
    STEP(1)
#pragma GCC unroll 8
    STEP(2)
#pragma GCC unroll 8
    STEP(4)
    avif_transpose_8(r);
#pragma GCC unroll 8
    STEP(1)
#pragma GCC unroll 8
    STEP(2)
    __m256i sum = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m256i most = _mm256_max_epi16(_mm256_abs_epi16(r[i]), _mm256_abs_epi16(r[i + 4]));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(most, _mm256_set1_epi16(2)));
    }
    return sum;
}

AVX2_INLINE __m256i load_16(const uint8_t *at)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)at));
}

AVX2 int avif_satd_avx2(const uint8_t *source, size_t source_stride, const uint8_t *prediction,
                        size_t stride, int size)
{
    __m256i r[8], sum = _mm256_setzero_si256();
    if (size == 3) {
        /* The upper half of each vector is 0. */
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            __m128i a = _mm_loadl_epi64((const __m128i *)(source + (size_t)i * source_stride));
            __m128i b = _mm_loadl_epi64((const __m128i *)(prediction + (size_t)i * stride));
            r[i] = _mm256_sub_epi16(_mm256_cvtepu8_epi16(a), _mm256_cvtepu8_epi16(b));
        }
        return avif_sum_8(hadamard_sums(r));
    }
    for (size_t y = 0; y < (size_t)1 << size; y += 8)
        for (size_t x = 0; x < (size_t)1 << size; x += 16) {
#pragma GCC unroll 8
            for (size_t i = 0; i < 8; i++)
                r[i] = _mm256_sub_epi16(load_16(source + (y + i) * source_stride + x),
                                        load_16(prediction + (y + i) * stride + x));
            sum = _mm256_add_epi32(sum, hadamard_sums(r));
        }
    return avif_sum_8(sum);
}

#endif
