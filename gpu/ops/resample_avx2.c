/*
 * resample_avx2.c - the kernels of resample_kernels.h with AVX2.
 *
 * vpmaddwd multiplies 16 signed words and adds each two products to 32 bits. A group of pixels
 * becomes two pairs of words, whose sums are added at the end.
 */
#include "gpu/ops/resample_kernels.h"

#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define HALF        (1 << (RESAMPLE_BITS - 1))
#define AVX2        __attribute__((target("avx2")))
#define AVX2_ALWAYS AVX2 static inline __attribute__((always_inline))
#define VECTOR      32 /* bytes */

AVX2_ALWAYS __m256i load(const void *at)
{
    return _mm256_loadu_si256(at);
}

/* ---- columns ---- */

/* value * alpha / 255 of each byte, rounded to nearest, as resample_premultiply. */
AVX2_ALWAYS __m256i premultiply(__m256i values, __m256i alphas)
{
    const __m256i low = _mm256_set1_epi16(255), half = _mm256_set1_epi16(128);
    __m256i even = _mm256_mullo_epi16(_mm256_and_si256(values, low), _mm256_and_si256(alphas, low));
    __m256i odd = _mm256_mullo_epi16(_mm256_srli_epi16(values, 8), _mm256_srli_epi16(alphas, 8));
    even = _mm256_add_epi16(even, half);
    odd = _mm256_add_epi16(odd, half);
    even = _mm256_srli_epi16(_mm256_add_epi16(even, _mm256_srli_epi16(even, 8)), 8);
    odd = _mm256_add_epi16(odd, _mm256_srli_epi16(odd, 8));
    return _mm256_or_si256(even, _mm256_andnot_si256(low, odd));
}

/* STRIP_LOAD bytes of rows i and i + 4. */
AVX2_ALWAYS __m256i load_rows(const uint8_t *const *rows, int i, size_t at)
{
    __m256i all = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(rows[i] + at)));
    return _mm256_inserti128_si256(all, _mm_loadu_si128((const __m128i *)(rows[i + 4] + at)), 1);
}

/* Makes half of the columns, those of 8 rows, of STRIP_LOAD bytes of each row: four groups of gray,
 * or one of RGB or RGBA. The last four bytes are not used for RGB. */
AVX2_ALWAYS void turn_half(const uint8_t *const *rows, size_t at, bool multiply, uint8_t *columns,
                           int channels)
{
    const __m256i order = _mm256_broadcastsi128_si256(
        channels == 4 ? _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
                      : _mm_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1));
    __m256i a = load_rows(rows, 0, at), b = load_rows(rows, 1, at);
    __m256i c = load_rows(rows, 2, at), d = load_rows(rows, 3, at);
    if (channels != 1) {
        a = _mm256_shuffle_epi8(a, order);
        b = _mm256_shuffle_epi8(b, order);
        c = _mm256_shuffle_epi8(c, order);
        d = _mm256_shuffle_epi8(d, order);
    }
    __m256i ab = _mm256_unpacklo_epi32(a, b), cd = _mm256_unpacklo_epi32(c, d);
    __m256i first = _mm256_unpacklo_epi64(ab, cd), second = _mm256_unpackhi_epi64(ab, cd);
    ab = _mm256_unpackhi_epi32(a, b);
    cd = _mm256_unpackhi_epi32(c, d);
    __m256i third = _mm256_unpacklo_epi64(ab, cd), fourth = _mm256_unpackhi_epi64(ab, cd);
    if (multiply && channels == 4) {
        first = premultiply(first, fourth);
        second = premultiply(second, fourth);
        third = premultiply(third, fourth);
    }
    _mm256_storeu_si256((__m256i *)columns, first);
    _mm256_storeu_si256((__m256i *)(columns + STRIP_VECTOR), second);
    _mm256_storeu_si256((__m256i *)(columns + 2 * STRIP_VECTOR), third);
    if (channels != 3)
        _mm256_storeu_si256((__m256i *)(columns + 3 * STRIP_VECTOR), fourth);
}

AVX2_ALWAYS void turn_run(const uint8_t *const rows[STRIP_ROWS], size_t steps, size_t ahead,
                          bool multiply, uint8_t *columns, int channels)
{
    enum { loads_per_line = 4 };
    size_t step = channels == 3 ? 12 : STRIP_LOAD;
    size_t columns_step = (channels == 3 ? 3 : 4) * STRIP_VECTOR;
    for (size_t i = 0; i < steps; i++, columns += columns_step) {
        /* The processor does not predict loads from so many rows. */
        for (int r = 0; r < STRIP_ROWS && i % loads_per_line == 0; r++)
            _mm_prefetch((const char *)rows[r] + i * step + ahead, _MM_HINT_T1);
        turn_half(rows, i * step, multiply, columns, channels);
        turn_half(rows + STRIP_ROWS / 2, i * step, multiply, columns + VECTOR, channels);
    }
}

AVX2 static void turn(const uint8_t *const rows[STRIP_ROWS], size_t steps, uint32_t channels,
                      size_t ahead, bool multiply, uint8_t *columns)
{
    BY_CHANNELS(channels, turn_run, rows, steps, ahead, multiply, columns);
}

/* ---- sums ---- */

/* The sums of two vectors of groups: 16 rows, or 16 bytes of a row. Index 2 i has the lower half of
 * each lane of the vector i, and 2 i + 1 the upper half. */
struct sums {
    __m256i low[4], high[4];
};

AVX2_ALWAYS void clear(struct sums *sums)
{
    /* Only the first of two sums that will be added has the half. */
    const __m256i half = _mm256_set1_epi64x(HALF);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        sums->low[i] = half;
        sums->high[i] = _mm256_setzero_si256();
    }
}

static inline const uint8_t *digits_of(const struct strip_band *band, size_t output)
{
    return band->digits + output * 2 * sizeof(int16_t) * STRIP_GROUP * band->groups;
}

AVX2_ALWAYS __m256i broadcast(const uint8_t *at)
{
    int64_t four;
    memcpy(&four, at, sizeof four);
    return _mm256_set1_epi64x(four);
}

/* window: bytes of a digit of all weights. */
AVX2_ALWAYS void add_groups(struct sums *sums, __m256i first, __m256i second, const uint8_t *digits,
                            size_t window)
{
    const __m256i zero = _mm256_setzero_si256();
    const __m256i words[4] = {_mm256_unpacklo_epi8(first, zero), _mm256_unpackhi_epi8(first, zero),
                              _mm256_unpacklo_epi8(second, zero),
                              _mm256_unpackhi_epi8(second, zero)};
    __m256i low = broadcast(digits), high = broadcast(digits + window);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        sums->low[i] = _mm256_add_epi32(sums->low[i], _mm256_madd_epi16(words[i], low));
        sums->high[i] = _mm256_add_epi32(sums->high[i], _mm256_madd_epi16(words[i], high));
    }
}

/* The sums of a vector, before they are clipped. */
AVX2_ALWAYS __m256i end(const struct sums *sums, int vector)
{
    __m256i low = _mm256_hadd_epi32(sums->low[2 * vector], sums->low[2 * vector + 1]);
    __m256i high = _mm256_hadd_epi32(sums->high[2 * vector], sums->high[2 * vector + 1]);
    return _mm256_srai_epi32(_mm256_add_epi32(low, _mm256_slli_epi32(high, 16)), RESAMPLE_BITS);
}

/* ---- along a row ---- */

/* Computes one channel of a pixel of the result, in the upper and the lower rows. */
AVX2_ALWAYS void sum_pixel(const struct strip_band *band, size_t output, const uint8_t *columns,
                           __m256i *upper, __m256i *lower, size_t channels)
{
    enum { step = STRIP_GROUP * sizeof(int16_t) };
    size_t window = (size_t)band->groups * step;
    const uint8_t *digits = digits_of(band, output);
    const uint8_t *from = columns + (size_t)band->starts[output] * channels * STRIP_VECTOR;
    struct sums sums;
    clear(&sums);
    for (size_t at = 0; at < window; at += step, from += channels * STRIP_VECTOR)
        add_groups(&sums, load(from), load(from + VECTOR), digits + at, window);
    *upper = end(&sums, 0);
    *lower = end(&sums, 1);
}

/* Clips four bytes of each of 8 rows, and writes them to two quads. */
AVX2_ALWAYS void put_four(const __m256i four[4], uint8_t *const quads[2], size_t at)
{
    __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(four[0], four[1]),
                                        _mm256_packs_epi32(four[2], four[3]));
    _mm_storeu_si128((__m128i *)(quads[0] + at), _mm256_castsi256_si128(bytes));
    _mm_storeu_si128((__m128i *)(quads[1] + at), _mm256_extracti128_si256(bytes, 1));
}

AVX2_ALWAYS void sum_run(const struct strip_band *band, const uint8_t *columns,
                         uint8_t *const quads[STRIP_QUADS], size_t channels)
{
    enum { four = 4 * STRIP_GROUP }; /* bytes of a quad */
    size_t step = channels == 4 ? 1 : STRIP_PIXELS, count = step * channels, put = 0;
    for (size_t x = 0; x < band->outputs; x += step) {
        __m256i upper[3 * STRIP_PIXELS], lower[3 * STRIP_PIXELS];
        for (size_t i = 0; i < count; i++)
            sum_pixel(band, x + i / channels, columns + i % channels * STRIP_VECTOR, &upper[i],
                      &lower[i], channels);
        for (size_t i = 0; i < count; i += 4, put += four) {
            put_four(upper + i, quads, put);
            put_four(lower + i, quads + 2, put);
        }
    }
}

AVX2 static void sum_x(const struct strip_band *band, const uint8_t *columns, uint32_t channels,
                       uint8_t *const quads[STRIP_QUADS])
{
    BY_CHANNELS(channels, sum_run, band, columns, quads);
}

/* The four rows of STRIP_LOAD bytes of a quad. */
AVX2_ALWAYS void split_part(const uint8_t *quad, __m128i rows[STRIP_GROUP])
{
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    __m256i a = _mm256_shuffle_epi8(load(quad), order);
    __m256i b = _mm256_shuffle_epi8(load(quad + VECTOR), order);
    /* Lanes with four bytes of each row become rows. */
    __m256i even = _mm256_permute2x128_si256(a, b, 0x20),
            odd = _mm256_permute2x128_si256(a, b, 0x31);
    __m256i low = _mm256_unpacklo_epi32(even, odd), high = _mm256_unpackhi_epi32(even, odd);
    __m256i first = _mm256_permute4x64_epi64(low, 0xD8),
            last = _mm256_permute4x64_epi64(high, 0xD8);
    rows[0] = _mm256_castsi256_si128(first);
    rows[1] = _mm256_extracti128_si256(first, 1);
    rows[2] = _mm256_castsi256_si128(last);
    rows[3] = _mm256_extracti128_si256(last, 1);
}

AVX2_ALWAYS void store_part(uint8_t *to, __m128i bytes, size_t left)
{
    uint8_t part[STRIP_LOAD];
    if (left >= STRIP_LOAD) {
        _mm_storeu_si128((__m128i *)to, bytes);
    } else {
        _mm_storeu_si128((__m128i *)part, bytes);
        memcpy(to, part, left);
    }
}

AVX2 static void split_quad(const uint8_t *quad, size_t bytes, uint8_t *const rows[STRIP_GROUP])
{
    for (size_t at = 0; at < bytes; at += STRIP_LOAD) {
        __m128i parts[STRIP_GROUP];
        split_part(quad + at * STRIP_GROUP, parts);
        for (int i = 0; i < STRIP_GROUP; i++)
            if (rows[i] != NULL)
                store_part(rows[i] + at, parts[i], bytes - at);
    }
}

/* ---- down the columns ---- */

/* STRIP_LOAD bytes of the result. */
AVX2_ALWAYS __m128i clip(const struct sums *sums)
{
    __m256i words = _mm256_packs_epi32(end(sums, 0), end(sums, 1));
    __m256i bytes = _mm256_packus_epi16(words, words);
    return _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
}

AVX2_ALWAYS __m128i sum_window(const struct strip_band *band, uint32_t row,
                               const struct strip_ring *ring, size_t at)
{
    enum { step = STRIP_GROUP * sizeof(int16_t) };
    const uint8_t *digits = digits_of(band, row);
    size_t window = (size_t)band->groups * step;
    const uint8_t *quads = ring->quads + at * STRIP_GROUP;
    const uint8_t *from = quads + (uint32_t)band->starts[row] % ring->count * ring->quad_bytes;
    const uint8_t *last = quads + (ring->count - 1) * ring->quad_bytes;
    struct sums sums;
    clear(&sums);
    for (size_t t = 0; t < window; t += step) {
        add_groups(&sums, load(from), load(from + VECTOR), digits + t, window);
        from = from == last ? quads : from + ring->quad_bytes;
    }
    return clip(&sums);
}

AVX2 static void sum_quads(const struct strip_band *band, uint32_t first, uint32_t end,
                           const struct strip_ring *ring, const struct image *to)
{
    size_t bytes = (size_t)to->width * to->channels;
    /* The rows of a part follow each other, because they have most of their windows in common. */
    for (size_t at = 0; at < bytes; at += STRIP_LOAD)
        for (uint32_t row = first; row < end; row++)
            store_part(to->pixels + row * to->stride + at, sum_window(band, row, ring, at),
                       bytes - at);
}

/* Loads STRIP_LOAD bytes of each of four rows, and interleaves them to a quad. If only `left` bytes
 * of the rows are left, the others are 0. */
AVX2_ALWAYS void load_quad(const uint8_t *const rows[STRIP_GROUP], size_t left, bool multiply,
                           __m256i quad[2])
{
    const __m256i alphas = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(3, 3, 3, 3, 7, 7, 7, 7, 11, 11, 11, 11, 15, 15, 15, 15));
    uint8_t parts[STRIP_GROUP][STRIP_LOAD] = {{0}};
    __m256i pairs[2];
    for (int i = 0; i < 2; i++) {
        const uint8_t *one = rows[2 * i], *other = rows[2 * i + 1];
        if (left < STRIP_LOAD) {
            one = memcpy(parts[2 * i], one, left);
            other = memcpy(parts[2 * i + 1], other, left);
        }
        pairs[i] = _mm256_set_m128i(_mm_loadu_si128((const __m128i *)other),
                                    _mm_loadu_si128((const __m128i *)one));
        if (multiply)
            pairs[i] =
                _mm256_blendv_epi8(premultiply(pairs[i], _mm256_shuffle_epi8(pairs[i], alphas)),
                                   pairs[i], _mm256_set1_epi32((int)0xFF000000));
    }
    __m128i a = _mm256_castsi256_si128(pairs[0]), b = _mm256_extracti128_si256(pairs[0], 1);
    __m128i c = _mm256_castsi256_si128(pairs[1]), d = _mm256_extracti128_si256(pairs[1], 1);
    __m128i ab = _mm_unpacklo_epi8(a, b), cd = _mm_unpacklo_epi8(c, d);
    quad[0] = _mm256_set_m128i(_mm_unpackhi_epi16(ab, cd), _mm_unpacklo_epi16(ab, cd));
    ab = _mm_unpackhi_epi8(a, b);
    cd = _mm_unpackhi_epi8(c, d);
    quad[1] = _mm256_set_m128i(_mm_unpackhi_epi16(ab, cd), _mm_unpacklo_epi16(ab, cd));
}

AVX2_ALWAYS void sum_rows_run(const struct strip_band *band, uint32_t row, const struct image *from,
                              uint8_t *to, bool multiply)
{
    const uint8_t *digits = digits_of(band, row);
    size_t window = (size_t)band->groups * STRIP_GROUP, last = from->height - 1;
    size_t first = (size_t)band->starts[row] * STRIP_GROUP;
    size_t bytes = (size_t)from->width * from->channels;
    for (size_t at = 0; at < bytes; at += STRIP_LOAD) {
        struct sums sums;
        clear(&sums);
        for (size_t t = 0; t < window; t += STRIP_GROUP) {
            const uint8_t *rows[STRIP_GROUP];
            __m256i quad[2];
            for (size_t i = 0; i < STRIP_GROUP; i++) {
                size_t y = first + t + i < last ? first + t + i : last;
                rows[i] = from->pixels + y * from->stride + at;
            }
            load_quad(rows, bytes - at, multiply, quad);
            add_groups(&sums, quad[0], quad[1], digits + t * sizeof(int16_t),
                       window * sizeof(int16_t));
        }
        store_part(to + at, clip(&sums), bytes - at);
    }
}

AVX2 static void sum_rows(const struct strip_band *band, uint32_t row, const struct image *from,
                          bool multiply, uint8_t *to)
{
    if (multiply)
        sum_rows_run(band, row, from, to, true);
    else
        sum_rows_run(band, row, from, to, false);
}

/* ---- alpha ---- */

AVX2 static void divide_row(uint8_t *pixels, size_t width)
{
    enum { together = VECTOR / 4 };
    const __m256i most = _mm256_set1_epi32(255), one = _mm256_set1_epi32(1);
    size_t x = 0;
    for (; x + together <= width; x += together) {
        __m256i all = load(pixels + 4 * x), alpha = _mm256_srli_epi32(all, 24);
        /* 0 becomes 255, as in resample_divide. */
        __m256i divisor =
            _mm256_add_epi32(_mm256_and_si256(_mm256_sub_epi32(alpha, one), most), one);
        divisor = _mm256_sub_epi32(divisor, _mm256_srli_epi32(divisor, 8));
        __m256 real = _mm256_cvtepi32_ps(divisor);
        __m256i result = _mm256_slli_epi32(alpha, 24);
#pragma GCC unroll 3
        for (int c = 0; c < 3; c++) {
            __m256i value = _mm256_and_si256(_mm256_srli_epi32(all, 8 * c), most);
            __m256 product = _mm256_cvtepi32_ps(_mm256_mullo_epi32(value, most));
            __m256i whole = _mm256_cvttps_epi32(_mm256_div_ps(product, real));
            whole = _mm256_min_epi32(whole, most);
            result = _mm256_or_si256(result, _mm256_slli_epi32(whole, 8 * c));
        }
        _mm256_storeu_si256((__m256i *)(pixels + 4 * x), result);
    }
    for (; x < width; x++)
        for (int c = 0; c < 3; c++)
            pixels[4 * x + c] = (uint8_t)resample_divide(pixels[4 * x + c], pixels[4 * x + 3]);
}

const struct resample_kernels *resample_kernels_avx2(void)
{
    static const struct resample_kernels kernels = {
        2, sizeof(int16_t), turn, sum_x, split_quad, sum_quads, sum_rows, divide_row};
    return __builtin_cpu_supports("avx2") ? &kernels : NULL; /* uncovered: machine */
}

#else

const struct resample_kernels *resample_kernels_avx2(void)
{
    return NULL;
}

#endif
