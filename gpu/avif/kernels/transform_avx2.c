/*
 * transform_avx2.c - forward transforms with AVX2.
 *
 * Rows k of the matrix of a DCT are symmetric for even k, and antisymmetric for odd ones. So even
 * coefficients need only the sums of the samples n and side - 1 - n, and odd ones the differences,
 * both of half the length. This changes no sum.
 */
#include "gpu/avif/kernels/kernels_avx2.h"

#ifdef __x86_64__

#include <pthread.h>

#include "gpu/avif/transform/scans.h"
#include "gpu/avif/transform/transform.h"

/* Matrices for the rows: pairs of factors, for each pair of samples those of all coefficients. */
static struct {
    /* DCT of sizes 4 to 6: of the even coefficients, then of the odd ones. */
    int32_t halves[3][2][16 * 16];
    /* All factors of size 3, and of the ADST. */
    int32_t dct_8[4 * 8], adst_8[4 * 8], adst_16[8 * 16];
} pairs __attribute__((aligned(AVIF_KERNEL_ALIGN)));

static int32_t pair_of(const int16_t *at)
{
    return (int32_t)((uint32_t)(uint16_t)at[0] | (uint32_t)(uint16_t)at[1] << 16);
}

/* count: coefficients, of every `step`-th row of the matrix from `first` on */
static void make_pairs(const int16_t *matrix, int side, int samples, int first, int step, int count,
                       int32_t *to)
{
    for (int pair = 0; pair < samples / 2; pair++)
        for (int i = 0; i < count; i++)
            to[pair * count + i] = pair_of(matrix + (first + i * step) * side + 2 * pair);
}

static void make_all_pairs(void)
{
    const struct avif_matrices *matrices = avif_matrices();
    for (int size = 4; size <= 6; size++)
        for (int odd = 0; odd < 2; odd++)
            make_pairs(matrices->dct[size - 2], 1 << size, 1 << (size - 1), odd, 2,
                       avif_coded_side(size) / 2, pairs.halves[size - 4][odd]);
    make_pairs(matrices->dct[1], 8, 8, 0, 1, 8, pairs.dct_8);
    make_pairs(matrices->adst[1], 8, 8, 0, 1, 8, pairs.adst_8);
    make_pairs(matrices->adst[2], 16, 16, 0, 1, 16, pairs.adst_16);
}

/* ---- columns ---- */

/* Sets pairs of neighbouring rows in 32 bits. */
AVX2_INLINE void join_rows(const int16_t *upper, const int16_t *lower, int32_t *to)
{
    __m128i a = _mm_load_si128((const __m128i *)upper), b = _mm_load_si128((const __m128i *)lower);
    _mm_store_si128((__m128i *)to, _mm_unpacklo_epi16(a, b));
    _mm_store_si128((__m128i *)to + 1, _mm_unpackhi_epi16(a, b));
}

/* Multiplies 8 columns of joined rows, which are `side` apart, with four rows of the matrix, `step`
 * apart. */
AVX2_INLINE void multiply_columns(const int32_t *joined, int side, int samples,
                                  const int16_t *matrix, int step, int16_t *to)
{
    __m256i sums[4];
    for (int i = 0; i < 4; i++)
        sums[i] = _mm256_set1_epi32(1 << 9);
    for (int pair = 0; pair < samples / 2; pair++) {
        __m256i both = _mm256_load_si256((const __m256i *)(joined + pair * side));
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            int32_t factors;
            memcpy(&factors, matrix + i * step * side + 2 * pair, sizeof factors);
            sums[i] =
                _mm256_add_epi32(sums[i], _mm256_madd_epi16(both, _mm256_set1_epi32(factors)));
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m256i sum = _mm256_srai_epi32(sums[i], 10);
        __m128i words =
            _mm_packs_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
        _mm_store_si128((__m128i *)(to + i * step * side), words);
    }
}

/* Transforms columns by all factors. */
AVX2_INLINE void transform_columns(const int16_t *differences, int side, const int16_t *matrix,
                                   int16_t *to)
{
    int32_t joined[8 * 16] __attribute__((aligned(AVIF_KERNEL_ALIGN)));
    for (int y = 0; y < side; y += 2)
        for (int x = 0; x < side; x += 8)
            join_rows(differences + y * side + x, differences + (y + 1) * side + x,
                      joined + y / 2 * side + x);
    for (int k = 0; k < side; k += 4)
        for (int x = 0; x < side; x += 8)
            multiply_columns(joined + x, side, side, matrix + k * side, 1, to + k * side + x);
}

/* Transforms columns by the DCT. */
AVX2_INLINE void transform_halves(const int16_t *differences, int side, int coded,
                                  const int16_t *matrix, int16_t *to)
{
    int32_t sums[16 * 64] __attribute__((aligned(AVIF_KERNEL_ALIGN)));
    int32_t rests[16 * 64] __attribute__((aligned(AVIF_KERNEL_ALIGN)));
    for (int y = 0; y < side / 2; y += 2)
        for (int x = 0; x < side; x += 8) {
            const __m128i *upper = (const __m128i *)(differences + y * side + x);
            const __m128i *lower = (const __m128i *)(differences + (side - 1 - y) * side + x);
            __m128i a = _mm_load_si128(upper), b = _mm_load_si128(upper + side / 8);
            __m128i d = _mm_load_si128(lower), c = _mm_load_si128(lower - side / 8);
            __m128i first = _mm_add_epi16(a, d), second = _mm_add_epi16(b, c);
            int at = y / 2 * side + x;
            _mm_store_si128((__m128i *)(sums + at), _mm_unpacklo_epi16(first, second));
            _mm_store_si128((__m128i *)(sums + at) + 1, _mm_unpackhi_epi16(first, second));
            first = _mm_sub_epi16(a, d);
            second = _mm_sub_epi16(b, c);
            _mm_store_si128((__m128i *)(rests + at), _mm_unpacklo_epi16(first, second));
            _mm_store_si128((__m128i *)(rests + at) + 1, _mm_unpackhi_epi16(first, second));
        }
    for (int k = 0; k < coded; k += 8)
        for (int x = 0; x < side; x += 8) {
            multiply_columns(sums + x, side, side / 2, matrix + k * side, 2, to + k * side + x);
            multiply_columns(rests + x, side, side / 2, matrix + (k + 1) * side, 2,
                             to + (k + 1) * side + x);
        }
}

/* ---- rows ---- */

/* Multiplies a row with pairs of factors of `count` coefficients: returns eight sums. */
AVX2_INLINE __m256i multiply_row(const int16_t *row, int samples, const int32_t *factors, int count)
{
    __m256i sum = _mm256_set1_epi32(1 << 12);
#pragma GCC unroll 16
    for (int pair = 0; pair < samples / 2; pair++) {
        int32_t both;
        memcpy(&both, row + 2 * pair, sizeof both);
        __m256i eight = _mm256_load_si256((const __m256i *)(factors + pair * count));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(eight, _mm256_set1_epi32(both)));
    }
    return _mm256_srai_epi32(sum, 13);
}

AVX2_INLINE void transform_rows(const int16_t *rows, int side, const int32_t *factors, int32_t *to)
{
    for (int y = 0; y < side; y++)
        for (int k = 0; k < side; k += 8)
            _mm256_store_si256((__m256i *)(to + y * side + k),
                               multiply_row(rows + y * side, side, factors + k, side));
}

/* The words in reverse order. */
AVX2_INLINE __m128i reverse_words(__m128i x)
{
    const __m128i order = _mm_setr_epi8(14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1);
    return _mm_shuffle_epi8(x, order);
}

AVX2_INLINE void transform_row_halves(const int16_t *rows, int side, int coded,
                                      int32_t factors[2][16 * 16], int32_t *to)
{
    int half = side / 2, count = coded / 2;
    for (int y = 0; y < coded; y++) {
        const int16_t *row = rows + y * side;
        int16_t sums[32], rests[32];
        for (int x = 0; x < half; x += 8) {
            __m128i a = _mm_load_si128((const __m128i *)(row + x));
            __m128i b = reverse_words(_mm_load_si128((const __m128i *)(row + side - 8 - x)));
            _mm_storeu_si128((__m128i *)(sums + x), _mm_add_epi16(a, b));
            _mm_storeu_si128((__m128i *)(rests + x), _mm_sub_epi16(a, b));
        }
        for (int k = 0; k < count; k += 8) {
            __m256i even = multiply_row(sums, half, factors[0] + k, count);
            __m256i odd = multiply_row(rests, half, factors[1] + k, count);
            __m256i low = _mm256_unpacklo_epi32(even, odd);
            __m256i high = _mm256_unpackhi_epi32(even, odd);
            __m256i *at = (__m256i *)(to + y * coded + 2 * k);
            _mm256_store_si256(at, _mm256_permute2x128_si256(low, high, 0x20));
            _mm256_store_si256(at + 1, _mm256_permute2x128_si256(low, high, 0x31));
        }
    }
}

/* ---- 4 x 4 ---- */

/* Sums of products of four columns with the factors of row k of the matrix. */
AVX2_INLINE __m128i multiply_4(__m128i upper, __m128i lower, const int16_t *row)
{
    __m128i sum = _mm_madd_epi16(upper, _mm_set1_epi32(pair_of(row)));
    return _mm_add_epi32(sum, _mm_madd_epi16(lower, _mm_set1_epi32(pair_of(row + 2))));
}

/* Sums of products of a row with all factors, which are transposed pairs. */
AVX2_INLINE __m128i multiply_row_4(__m128i row, const __m128i pairs_of[2])
{
    __m128i sum = _mm_madd_epi16(_mm_shuffle_epi32(row, 0x00), pairs_of[0]);
    return _mm_add_epi32(sum, _mm_madd_epi16(_mm_shuffle_epi32(row, 0x55), pairs_of[1]));
}

AVX2_INLINE __m128i subtract_4(const uint8_t *source, const uint8_t *prediction)
{
    int32_t a, b;
    memcpy(&a, source, sizeof a);
    memcpy(&b, prediction, sizeof b);
    return _mm_sub_epi16(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(a)),
                         _mm_cvtepu8_epi16(_mm_cvtsi32_si128(b)));
}

AVX2 static void transform_4(const uint8_t *source, size_t source_stride, const uint8_t *prediction,
                             size_t stride, int type, int32_t *to)
{
    const struct avif_matrices *matrices = avif_matrices();
    const int16_t *down = avif_adst_columns(type) ? matrices->adst[0] : matrices->dct[0];
    const int16_t *across = avif_adst_rows(type) ? matrices->adst[0] : matrices->dct[0];
    const __m128i *at = (const __m128i *)across;
    /* The rows of the matrix are pairs of factors: the first pairs of all, then the second ones. */
    __m128i first = _mm_load_si128(at), second = _mm_load_si128(at + 1);
    const __m128i pairs_of[2] = {
        _mm_unpacklo_epi64(_mm_shuffle_epi32(first, 0xD8), _mm_shuffle_epi32(second, 0xD8)),
        _mm_unpackhi_epi64(_mm_shuffle_epi32(first, 0xD8), _mm_shuffle_epi32(second, 0xD8))};
    __m128i rows[4], columns[4];
    for (size_t y = 0; y < 4; y++)
        rows[y] = subtract_4(source + y * source_stride, prediction + y * stride);
    __m128i upper = _mm_unpacklo_epi16(rows[0], rows[1]);
    __m128i lower = _mm_unpacklo_epi16(rows[2], rows[3]);
    for (int k = 0; k < 4; k++) {
        __m128i sum = multiply_4(upper, lower, down + 4 * k);
        sum = _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(1 << 9)), 10);
        columns[k] = _mm_packs_epi32(sum, sum);
    }
    for (int y = 0; y < 4; y++) {
        __m128i sum = multiply_row_4(columns[y], pairs_of);
        sum = _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(1 << 12)), 13);
        _mm_store_si128((__m128i *)(to + 4 * y), sum);
    }
}

/* ---- blocks ---- */

/* Sets the differences. Returns the sum of their squares. */
AVX2_INLINE int64_t subtract(const uint8_t *source, size_t source_stride, const uint8_t *prediction,
                             size_t stride, int side, int16_t *to)
{
    __m256i energy = _mm256_setzero_si256();
    for (int y = 0; y < side; y++, source += source_stride, prediction += stride)
        for (int x = 0; x < side; x += 8) {
            __m128i a = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(source + x)));
            __m128i b = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(prediction + x)));
            __m128i difference = _mm_sub_epi16(a, b);
            _mm_store_si128((__m128i *)(to + y * side + x), difference);
            energy = _mm256_add_epi32(
                energy, _mm256_zextsi128_si256(_mm_madd_epi16(difference, difference)));
        }
    return avif_sum_8(energy);
}

AVX2_INLINE int64_t energy_of(const int32_t *coefficients)
{
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < COEFFICIENTS_MAX; i += 8) {
        __m256i even = _mm256_load_si256((const __m256i *)(coefficients + i));
        __m256i odd = _mm256_srli_epi64(even, 32);
        sum = _mm256_add_epi64(sum, _mm256_mul_epi32(even, even));
        sum = _mm256_add_epi64(sum, _mm256_mul_epi32(odd, odd));
    }
    __m128i sums = _mm_add_epi64(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    return _mm_cvtsi128_si64(sums) + _mm_extract_epi64(sums, 1);
}

/* size: a constant */
AVX2_INLINE void transform_block(const int16_t *differences, int size, int type, int32_t *to)
{
    const struct avif_matrices *matrices = avif_matrices();
    int16_t columns[32 * 64] __attribute__((aligned(AVIF_KERNEL_ALIGN)));
    int side = 1 << size, coded = avif_coded_side(size);
    if (size <= 4 && avif_adst_columns(type))
        transform_columns(differences, side, matrices->adst[size - 2], columns);
    else
        transform_halves(differences, side, coded, matrices->dct[size - 2], columns);
    if (size <= 4 && avif_adst_rows(type))
        transform_rows(columns, side, size == 3 ? pairs.adst_8 : pairs.adst_16, to);
    else if (size == 3)
        transform_rows(columns, side, pairs.dct_8, to);
    else
        transform_row_halves(columns, side, coded, pairs.halves[size - 4], to);
}

AVX2 static void transform_8(const int16_t *from, int type, int32_t *to)
{
    transform_block(from, 3, type, to);
}
AVX2 static void transform_16(const int16_t *from, int type, int32_t *to)
{
    transform_block(from, 4, type, to);
}
AVX2 static void transform_32(const int16_t *from, int type, int32_t *to)
{
    transform_block(from, 5, type, to);
}
AVX2 static void transform_64(const int16_t *from, int type, int32_t *to)
{
    transform_block(from, 6, type, to);
}

/* Eight times the differences. */
AVX2_INLINE void transform_identity(const uint8_t *source, size_t source_stride,
                                    const uint8_t *prediction, size_t stride, int size, int32_t *to)
{
    for (int y = 0; y < 1 << size; y++, source += source_stride, prediction += stride)
        for (int x = 0; x < 1 << size; x += 4, to += 4) {
            __m128i words = _mm_slli_epi16(subtract_4(source + x, prediction + x), 3);
            _mm_store_si128((__m128i *)to, _mm_cvtepi16_epi32(words));
        }
}

AVX2 void avif_transform_avx2(const uint8_t *source, size_t source_stride,
                              const uint8_t *prediction, size_t stride, int size, int type,
                              struct avif_coefficients *to)
{
    static void (*const blocks[])(const int16_t *, int, int32_t *) = {transform_8, transform_16,
                                                                      transform_32, transform_64};
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int16_t differences[64 * 64] __attribute__((aligned(AVIF_KERNEL_ALIGN)));
    if (type == IDENTITY) {
        transform_identity(source, source_stride, prediction, stride, size, to->of);
        to->lost = 0;
        return;
    }
    if (size == 2) {
        transform_4(source, source_stride, prediction, stride, type, to->of);
        to->lost = 0;
        return;
    }
    (void)pthread_once(&once, make_all_pairs);
    int64_t energy =
        64 * subtract(source, source_stride, prediction, stride, 1 << size, differences);
    blocks[size - 3](differences, type, to->of);
    to->lost = 0;
    if (size == 6) {
        int64_t coded = energy_of(to->of);
        to->lost = energy > coded ? energy - coded : 0;
    }
}

#endif
