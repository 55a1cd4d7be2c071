/* inverse_avx2.c - inverse transforms with AVX2: 16 rows or columns at once, in 16 bits. */
#include "gpu/avif/kernels/kernels_avx2.h"

#ifdef __x86_64__

#include "gpu/avif/predict/predict.h"
#include "gpu/avif/transform/scans.h"
#include "gpu/avif/transform/transform.h"

AVX2_INLINE __m256i pair_of(int low, int high)
{
    return _mm256_set1_epi32((int)((uint32_t)low & 0xFFFF) | high * 65536);
}

AVX2_INLINE __m256i round_12(__m256i low, __m256i high)
{
    __m256i half = _mm256_set1_epi32(2048);
    return _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(low, half), 12),
                              _mm256_srai_epi32(_mm256_add_epi32(high, half), 12));
}

AVX2_INLINE void rotate(__m256i *t, int a, int b, int angle)
{
    int cos = avif_cos(angle), sin = avif_sin(angle);
    __m256i low = _mm256_unpacklo_epi16(t[a], t[b]), high = _mm256_unpackhi_epi16(t[a], t[b]);
    __m256i x = pair_of(cos, -sin), y = pair_of(sin, cos);
    t[a] = round_12(_mm256_madd_epi16(low, x), _mm256_madd_epi16(high, x));
    t[b] = round_12(_mm256_madd_epi16(low, y), _mm256_madd_epi16(high, y));
}

AVX2_INLINE void add(__m256i *t, int a, int b)
{
    __m256i x = t[a], y = t[b];
    t[a] = _mm256_adds_epi16(x, y);
    t[b] = _mm256_subs_epi16(x, y);
}

#define NETWORK(name)                  network_##name
#define NETWORK_INLINE                 AVX2_INLINE
#define NETWORK_TYPE                   __m256i
#define NETWORK_ROTATE(t, a, b, angle) rotate(t, a, b, angle)
#define NETWORK_ADD(t, a, b)           add(t, a, b)
#define NETWORK_NEGATE(x)              _mm256_subs_epi16(_mm256_setzero_si256(), x)
#undef UNROLL
#define UNROLL _Pragma("GCC unroll 64")
#include "gpu/avif/transform/transform_network.inc"

AVX2 static void dct_3(const __m256i *from, __m256i *to)
{
    network_dct(from, to, 3);
}
AVX2 static void dct_4(const __m256i *from, __m256i *to)
{
    network_dct(from, to, 4);
}
AVX2 static void dct_5(const __m256i *from, __m256i *to)
{
    network_dct(from, to, 5);
}
AVX2 static void dct_6(const __m256i *from, __m256i *to)
{
    network_dct(from, to, 6);
}
AVX2 static void adst_3(const __m256i *from, __m256i *to)
{
    network_adst(from, to, 3);
}
AVX2 static void adst_4(const __m256i *from, __m256i *to)
{
    network_adst(from, to, 4);
}

/* Transforms 16 lines at once. */
AVX2 static void inverse_lines(const __m256i *from, __m256i *to, int size, bool adst)
{
    static void (*const dcts[])(const __m256i *, __m256i *) = {dct_3, dct_4, dct_5, dct_6};
    if (adst)
        (size == 3 ? adst_3 : adst_4)(from, to);
    else
        dcts[size - 3](from, to);
}

/* Transposes 16 x 16 words. */
AVX2_INLINE void transpose_16(__m256i r[16])
{
    __m256i left[8], right[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        left[i] = _mm256_permute2x128_si256(r[i], r[i + 8], 0x20);
        right[i] = _mm256_permute2x128_si256(r[i], r[i + 8], 0x31);
    }
    avif_transpose_8(left);
    avif_transpose_8(right);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        r[i] = left[i];
        r[i + 8] = right[i];
    }
}

/* Sets 16 rows of the buffer between both transforms, from a row on. */
AVX2 static void transform_rows(const int16_t *columns, int size, bool adst, int row,
                                int16_t *between)
{
    int side = 1 << size, coded = avif_coded_side(size), shift = avif_row_shift(size);
    __m256i from[64], to[64], round = _mm256_set1_epi16((int16_t)(1 << (15 - shift)));
    for (int x = 0; x < coded; x++)
        from[x] = _mm256_load_si256((const __m256i *)(columns + x * coded + row));
    for (int x = coded; x < side; x++)
        from[x] = _mm256_setzero_si256();
    inverse_lines(from, to, size, adst);
    for (int left = 0; left < side; left += 16) {
        /* (x + (1 << shift >> 1)) >> shift */
        for (int x = left; x < left + 16; x++)
            to[x] = _mm256_mulhrs_epi16(to[x], round);
        transpose_16(to + left);
        for (int y = 0; y < 16; y++)
            _mm256_store_si256((__m256i *)(between + (row + y) * side + left), to[left + y]);
    }
}

/* Transforms 16 columns, and adds them to samples. */
AVX2 static void transform_columns(const int16_t *between, int size, bool adst, int rows,
                                   uint8_t *to, size_t stride)
{
    int side = 1 << size;
    __m256i from[64], lines[64];
    for (int y = 0; y < side; y++)
        from[y] = y < rows ? _mm256_load_si256((const __m256i *)(between + y * side))
                           : _mm256_setzero_si256();
    inverse_lines(from, lines, size, adst);
    for (int y = 0; y < side; y++, to += stride) {
        __m256i sample = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)to));
        __m256i sum = _mm256_mulhrs_epi16(lines[y], _mm256_set1_epi16(1 << 11));
        sum = _mm256_adds_epi16(sum, sample);
        _mm_storeu_si128((__m128i *)to, _mm_packus_epi16(_mm256_castsi256_si128(sum),
                                                         _mm256_extracti128_si256(sum, 1)));
    }
}

/* 8 x 8: only the lower halves of vectors are used. */
AVX2 static void inverse_8(const int16_t *columns, int type, uint8_t *to, size_t stride)
{
    __m256i from[8], lines[8];
    for (int x = 0; x < 8; x++)
        from[x] = _mm256_zextsi128_si256(_mm_load_si128((const __m128i *)(columns + 8 * x)));
    inverse_lines(from, lines, 3, avif_adst_rows(type));
    for (int x = 0; x < 8; x++)
        lines[x] = _mm256_mulhrs_epi16(lines[x], _mm256_set1_epi16(1 << 14));
    avif_transpose_8(lines);
    inverse_lines(lines, from, 3, avif_adst_columns(type));
    for (int y = 0; y < 8; y++, to += stride) {
        __m128i sample = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)to));
        __m128i sum = _mm_mulhrs_epi16(_mm256_castsi256_si128(from[y]), _mm_set1_epi16(1 << 11));
        sum = _mm_adds_epi16(sum, sample);
        _mm_storel_epi64((__m128i *)to, _mm_packus_epi16(sum, sum));
    }
}

/* ---- 4 x 4 ---- */

AVX2_INLINE __m128i products_4(__m128i a, __m128i b, int factor_a0, int factor_a1, int factor_b0,
                               int factor_b1)
{
    __m128i x = _mm_madd_epi16(a, _mm256_castsi256_si128(pair_of(factor_a0, factor_a1)));
    __m128i y = _mm_madd_epi16(b, _mm256_castsi256_si128(pair_of(factor_b0, factor_b1)));
    __m128i sum = _mm_add_epi32(_mm_add_epi32(x, y), _mm_set1_epi32(2048));
    sum = _mm_srai_epi32(sum, 12);
    return _mm_packs_epi32(sum, sum);
}

/* As avif_inverse_adst_4, of the four lowest words. */
AVX2_INLINE void lines_adst_4(__m128i t[4])
{
    __m128i a = _mm_unpacklo_epi16(t[0], t[2]), b = _mm_unpacklo_epi16(t[3], t[1]);
    t[0] = products_4(a, b, 1321, 3803, 2482, 3344);
    t[1] = products_4(a, b, 2482, -1321, -3803, 3344);
    t[2] = products_4(a, b, 3344, -3344, 3344, 0);
    t[3] = products_4(a, b, 3803, 2482, -1321, -3344);
}

/* As avif_inverse_dct. */
AVX2_INLINE void lines_dct_4(__m128i t[4])
{
    __m128i even = _mm_unpacklo_epi16(t[0], t[2]), odd = _mm_unpacklo_epi16(t[1], t[3]);
    __m128i none = _mm_setzero_si128();
    __m128i a = products_4(even, none, 2896, 2896, 0, 0);
    __m128i b = products_4(even, none, 2896, -2896, 0, 0);
    __m128i c = products_4(odd, none, 1567, -3784, 0, 0);
    __m128i d = products_4(odd, none, 3784, 1567, 0, 0);
    t[0] = _mm_adds_epi16(a, d);
    t[1] = _mm_adds_epi16(b, c);
    t[2] = _mm_subs_epi16(b, c);
    t[3] = _mm_subs_epi16(a, d);
}

AVX2_INLINE void lines_4(__m128i t[4], bool adst)
{
    if (adst)
        lines_adst_4(t);
    else
        lines_dct_4(t);
}

AVX2 static void inverse_4(const int16_t *columns, int type, uint8_t *to, size_t stride)
{
    __m128i t[4];
    for (int x = 0; x < 4; x++)
        t[x] = _mm_loadl_epi64((const __m128i *)(columns + 4 * x));
    lines_4(t, avif_adst_rows(type));
    __m128i a = _mm_unpacklo_epi16(t[0], t[1]), b = _mm_unpacklo_epi16(t[2], t[3]);
    __m128i upper = _mm_unpacklo_epi32(a, b), lower = _mm_unpackhi_epi32(a, b);
    t[0] = upper;
    t[1] = _mm_srli_si128(upper, 8);
    t[2] = lower;
    t[3] = _mm_srli_si128(lower, 8);
    lines_4(t, avif_adst_columns(type));
    for (int y = 0; y < 4; y++, to += stride) {
        int32_t four;
        memcpy(&four, to, sizeof four);
        __m128i sum = _mm_mulhrs_epi16(t[y], _mm_set1_epi16(1 << 11));
        sum = _mm_adds_epi16(sum, _mm_cvtepu8_epi16(_mm_cvtsi32_si128(four)));
        four = _mm_cvtsi128_si32(_mm_packus_epi16(sum, sum));
        memcpy(to, &four, sizeof four);
    }
}

AVX2 void avif_inverse_avx2(const int16_t *columns, int size, int type, int rows, uint8_t *to,
                            size_t stride)
{
    int16_t between[32 * 64] __attribute__((aligned(AVIF_KERNEL_ALIGN)));
    int side = 1 << size;
    if (type == IDENTITY) { /* rare */
        avif_kernels_plain.inverse(columns, size, type, rows, to, stride);
        return;
    }
    if (size == 2) {
        inverse_4(columns, type, to, stride);
        return;
    }
    if (size == 3) {
        inverse_8(columns, type, to, stride);
        return;
    }
    rows = (rows + 15) & ~15;
    for (int row = 0; row < rows; row += 16)
        transform_rows(columns, size, avif_adst_rows(type), row, between);
    for (int x = 0; x < side; x += 16)
        transform_columns(between + x, size, avif_adst_columns(type), rows, to + x, stride);
}

#endif
