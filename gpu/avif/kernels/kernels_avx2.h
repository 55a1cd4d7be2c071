/* kernels_avx2.h - the functions of avif_kernels_avx2, which are in several files. */
#pragma once

#include "gpu/avif/kernels/kernels.h"

#ifdef __x86_64__

#include <immintrin.h>

#define AVX2        __attribute__((target("avx2")))
#define AVX2_INLINE __attribute__((target("avx2"), always_inline)) static inline

/* Transposes the 8 x 8 words of each half. */
AVX2_INLINE void avif_transpose_8(__m256i r[8])
{
    __m256i t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_epi16(r[i], r[i + 4]);
        t[2 * i + 1] = _mm256_unpackhi_epi16(r[i], r[i + 4]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        r[2 * i] = _mm256_unpacklo_epi16(t[i], t[i + 4]);
        r[2 * i + 1] = _mm256_unpackhi_epi16(t[i], t[i + 4]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_epi16(r[i], r[i + 4]);
        t[2 * i + 1] = _mm256_unpackhi_epi16(r[i], r[i + 4]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        r[i] = t[i];
}

/* Returns the sum of the eight numbers. */
AVX2_INLINE int avif_sum_8(__m256i x)
{
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1)));
}

void avif_import_avx2(const uint8_t *const rows[2], uint32_t width, uint32_t channels,
                      uint8_t *const luma[2], uint8_t *u, uint8_t *v);
void avif_predict_avx2(const struct avif_edges *edges, int size, int mode, int delta, bool smooth,
                       uint8_t *to, size_t stride);
int avif_satd_avx2(const uint8_t *source, size_t source_stride, const uint8_t *prediction,
                   size_t stride, int size);
void avif_transform_avx2(const uint8_t *source, size_t source_stride, const uint8_t *prediction,
                         size_t stride, int size, int type, struct avif_coefficients *to);
int64_t avif_cost_avx2(const struct avif_coefficients *from, int size,
                       const struct avif_quantiser *quantiser);
int avif_quantise_avx2(const struct avif_coefficients *from, int size,
                       const struct avif_quantiser *quantiser, int16_t *levels);
void avif_inverse_avx2(const int16_t *columns, int size, int type, int rows, uint8_t *to,
                       size_t stride);

#endif
