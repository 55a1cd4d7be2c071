/* import_avx2.c - converts pairs of rows of pixels with AVX2. */
#include "gpu/avif/kernels/kernels_avx2.h"

#ifdef __x86_64__

#include "gpu/avif/kernels/import.h"

/* Loads 4 pixels: the words red, green, blue, green of two pixels in each half. channels: a
 * constant, 3 or 4. Reads 16 bytes. */
AVX2_INLINE __m256i load_pixels(const uint8_t *at, int channels)
{
    const __m256i of_3 = _mm256_setr_epi8(0, -1, 1, -1, 2, -1, 1, -1, 3, -1, 4, -1, 5, -1, 4, -1, 6,
                                          -1, 7, -1, 8, -1, 7, -1, 9, -1, 10, -1, 11, -1, 10, -1);
    const __m256i of_4 = _mm256_setr_epi8(0, -1, 1, -1, 2, -1, 1, -1, 4, -1, 5, -1, 6, -1, 5, -1, 8,
                                          -1, 9, -1, 10, -1, 9, -1, 12, -1, 13, -1, 14, -1, 13, -1);
    __m256i bytes = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)at));
    return _mm256_shuffle_epi8(bytes, channels == 3 ? of_3 : of_4);
}

/* Four factors of the words of each pixel. */
AVX2_INLINE __m256i factors_of(int red, int green, int blue, int more_green)
{
    return _mm256_set1_epi64x((int64_t)((uint64_t)(uint16_t)red | (uint64_t)(uint16_t)green << 16 |
                                        (uint64_t)(uint16_t)blue << 32 |
                                        (uint64_t)(uint16_t)more_green << 48));
}

/* avif_luma of 8 pixels. */
AVX2_INLINE void put_luma(__m256i first, __m256i second, uint8_t *to)
{
    __m256i factors = factors_of(19595, 19235, 7471, 19235);
    __m256i sum =
        _mm256_hadd_epi32(_mm256_madd_epi16(first, factors), _mm256_madd_epi16(second, factors));
    sum = _mm256_srli_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(1 << 15)), 16);
    sum = _mm256_permute4x64_epi64(sum, 0xD8);
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    _mm_storel_epi64((__m128i *)to, _mm_packus_epi16(words, words));
}

/* Sums of the words of two neighbouring pixels, twice in each half. */
AVX2_INLINE __m256i add_pixels(__m256i pixels)
{
    return _mm256_add_epi16(pixels, _mm256_shuffle_epi32(pixels, 0x4E));
}

/* avif_cb and avif_cr of 8 x 2 pixels, whose rows have been added. The factors have the other sign,
 * because 32768 has more than 16 bits. */
AVX2_INLINE void put_chroma(__m256i first, __m256i second, uint8_t *u, uint8_t *v)
{
    const __m128i order = _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, -1, -1, -1, -1, -1, -1, -1, -1);
    __m256i sums = _mm256_unpacklo_epi64(add_pixels(first), add_pixels(second));
    __m256i less = _mm256_hadd_epi32(_mm256_madd_epi16(sums, factors_of(11059, 21709, -32768, 0)),
                                     _mm256_madd_epi16(sums, factors_of(-32768, 27439, 5329, 0)));
    __m256i samples = _mm256_sub_epi32(_mm256_set1_epi32((128 << 18) + (1 << 17)), less);
    samples = _mm256_srai_epi32(samples, 18);
    /* In each half: samples 0 and 2, or 1 and 3, of U, then of V. */
    samples = _mm256_packus_epi16(_mm256_packs_epi32(samples, samples), _mm256_setzero_si256());
    __m128i both =
        _mm_unpacklo_epi64(_mm256_castsi256_si128(samples), _mm256_extracti128_si256(samples, 1));
    both = _mm_shuffle_epi8(both, order);
    int32_t four_u = _mm_cvtsi128_si32(both), four_v = _mm_extract_epi32(both, 1);
    memcpy(u, &four_u, sizeof four_u);
    memcpy(v, &four_v, sizeof four_v);
}

AVX2_INLINE void import_pair(const uint8_t *const rows[2], uint32_t count, int channels,
                             uint8_t *const luma[2], uint8_t *u, uint8_t *v)
{
    for (uint32_t x = 0; x < count; x += 8) {
        size_t at = (size_t)x * (size_t)channels, more = at + 4 * (size_t)channels;
        __m256i upper[2] = {load_pixels(rows[0] + at, channels),
                            load_pixels(rows[0] + more, channels)};
        __m256i lower[2] = {load_pixels(rows[1] + at, channels),
                            load_pixels(rows[1] + more, channels)};
        put_luma(upper[0], upper[1], luma[0] + x);
        put_luma(lower[0], lower[1], luma[1] + x);
        put_chroma(_mm256_add_epi16(upper[0], lower[0]), _mm256_add_epi16(upper[1], lower[1]),
                   u + x / 2, v + x / 2);
    }
}

AVX2 void avif_import_avx2(const uint8_t *const rows[2], uint32_t width, uint32_t channels,
                           uint8_t *const luma[2], uint8_t *u, uint8_t *v)
{
    /* The last load of 8 pixels reads 4 bytes more, if there are 3 channels. */
    uint32_t count = width < 10 ? 0 : (width - 2) / 8 * 8;
    if (channels == 3)
        import_pair(rows, count, 3, luma, u, v);
    else
        import_pair(rows, count, 4, luma, u, v);
    const uint8_t *const rest[2] = {rows[0] + (size_t)count * channels,
                                    rows[1] + (size_t)count * channels};
    uint8_t *const luma_rest[2] = {luma[0] + count, luma[1] + count};
    avif_kernels_plain.import(rest, width - count, channels, luma_rest, u + count / 2,
                              v + count / 2);
}

#endif
