/* resample_vnni.c - the kernels of resample_kernels.h with AVX-512 VNNI. */
#include "gpu/ops/resample_kernels.h"

#include <string.h>

#define HALF (1 << (RESAMPLE_BITS - 1))

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define VNNI        __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define VNNI_ALWAYS VNNI static inline __attribute__((always_inline))

/* ---- columns ---- */

/* value * alpha / 255 of each byte, rounded to nearest, as resample_premultiply. */
VNNI_ALWAYS __m512i premultiply(__m512i values, __m512i alphas)
{
    const __m512i low = _mm512_set1_epi16(255), half = _mm512_set1_epi16(128);
    __m512i even = _mm512_mullo_epi16(_mm512_and_si512(values, low), _mm512_and_si512(alphas, low));
    __m512i odd = _mm512_mullo_epi16(_mm512_srli_epi16(values, 8), _mm512_srli_epi16(alphas, 8));
    even = _mm512_add_epi16(even, half);
    odd = _mm512_add_epi16(odd, half);
    even = _mm512_srli_epi16(_mm512_add_epi16(even, _mm512_srli_epi16(even, 8)), 8);
    odd = _mm512_add_epi16(odd, _mm512_srli_epi16(odd, 8));
    return _mm512_mask_blend_epi8(0xAAAAAAAAAAAAAAAA, even, odd);
}

/* 16 bytes of rows i, i + 4, i + 8 and i + 12. */
VNNI_ALWAYS __m512i load_rows(const uint8_t *const rows[STRIP_ROWS], int i, size_t at)
{
    __m512i all = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(rows[i] + at)));
    all = _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i *)(rows[i + 4] + at)), 1);
    all = _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i *)(rows[i + 8] + at)), 2);
    return _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i *)(rows[i + 12] + at)), 3);
}

/* Makes the columns of 16 bytes of each row: four groups of gray, or one of RGB or RGBA. The last
 * four bytes are not used for RGB. */
VNNI_ALWAYS void turn_sixteen(const uint8_t *const rows[STRIP_ROWS], size_t at, bool multiply,
                              uint8_t *columns, int channels)
{
    const __m512i order = _mm512_broadcast_i32x4(
        channels == 4 ? _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
                      : _mm_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1));
    __m512i a = load_rows(rows, 0, at), b = load_rows(rows, 1, at);
    __m512i c = load_rows(rows, 2, at), d = load_rows(rows, 3, at);
    if (channels != 1) {
        a = _mm512_shuffle_epi8(a, order);
        b = _mm512_shuffle_epi8(b, order);
        c = _mm512_shuffle_epi8(c, order);
        d = _mm512_shuffle_epi8(d, order);
    }
    __m512i ab = _mm512_unpacklo_epi32(a, b), cd = _mm512_unpacklo_epi32(c, d);
    __m512i first = _mm512_unpacklo_epi64(ab, cd), second = _mm512_unpackhi_epi64(ab, cd);
    ab = _mm512_unpackhi_epi32(a, b);
    cd = _mm512_unpackhi_epi32(c, d);
    __m512i third = _mm512_unpacklo_epi64(ab, cd), fourth = _mm512_unpackhi_epi64(ab, cd);
    if (multiply && channels == 4) {
        first = premultiply(first, fourth);
        second = premultiply(second, fourth);
        third = premultiply(third, fourth);
    }
    _mm512_storeu_si512(columns, first);
    _mm512_storeu_si512(columns + STRIP_VECTOR, second);
    _mm512_storeu_si512(columns + 2 * STRIP_VECTOR, third);
    if (channels != 3)
        _mm512_storeu_si512(columns + 3 * STRIP_VECTOR, fourth);
}

VNNI_ALWAYS void turn_run(const uint8_t *const rows[STRIP_ROWS], size_t steps, size_t ahead,
                          bool multiply, uint8_t *columns, int channels)
{
    enum { loads_per_line = 4 };
    size_t step = channels == 3 ? 12 : STRIP_LOAD;
    size_t columns_step = (channels == 3 ? 3 : 4) * STRIP_VECTOR;
    for (size_t i = 0; i < steps; i++, columns += columns_step) {
        /* The processor does not predict loads from so many rows. */
        for (int r = 0; r < STRIP_ROWS && i % loads_per_line == 0; r++)
            _mm_prefetch((const char *)rows[r] + i * step + ahead, _MM_HINT_T1);
        turn_sixteen(rows, i * step, multiply, columns, channels);
    }
}

VNNI static void turn(const uint8_t *const rows[STRIP_ROWS], size_t steps, uint32_t channels,
                      size_t ahead, bool multiply, uint8_t *columns)
{
    BY_CHANNELS(channels, turn_run, rows, steps, ahead, multiply, columns);
}

/* ---- along a row ---- */

enum { digit_count = 3 };

static inline const uint8_t *digits_of(const struct strip_band *band, size_t output)
{
    return band->digits + output * digit_count * STRIP_GROUP * band->groups;
}

VNNI_ALWAYS __m512i broadcast(const uint8_t *at)
{
    int32_t four;
    memcpy(&four, at, sizeof four);
    return _mm512_set1_epi32(four);
}

VNNI_ALWAYS __m512i join(__m512i low, __m512i middle, __m512i high)
{
    __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(high, 8), middle);
    sum = _mm512_add_epi32(_mm512_slli_epi32(sum, 8), low);
    return _mm512_srai_epi32(sum, RESAMPLE_BITS);
}

/* Computes a pixel of the result in each row, before it is clipped. */
VNNI_ALWAYS void sum_pixel(const struct strip_band *band, size_t output, const uint8_t *columns,
                           __m512i *pixel, int channels)
{
    size_t window = (size_t)band->groups * STRIP_GROUP;
    const uint8_t *digits = digits_of(band, output);
    const uint8_t *from = columns + (size_t)band->starts[output] * (size_t)channels * STRIP_VECTOR;
    __m512i low[4], middle[4], high[4];
#pragma GCC unroll 4
    for (int c = 0; c < channels; c++) {
        low[c] = _mm512_set1_epi32(HALF);
        middle[c] = high[c] = _mm512_setzero_si512();
    }
    for (size_t at = 0; at < window; at += STRIP_GROUP, from += channels * STRIP_VECTOR) {
        __m512i first = broadcast(digits + at), second = broadcast(digits + window + at);
        __m512i third = broadcast(digits + 2 * window + at);
#pragma GCC unroll 4
        for (int c = 0; c < channels; c++) {
            __m512i values = _mm512_loadu_si512(from + c * STRIP_VECTOR);
            low[c] = _mm512_dpbusd_epi32(low[c], values, first);
            middle[c] = _mm512_dpbusd_epi32(middle[c], values, second);
            high[c] = _mm512_dpbusd_epi32(high[c], values, third);
        }
    }
#pragma GCC unroll 4
    for (int c = 0; c < channels; c++)
        pixel[c] = join(low[c], middle[c], high[c]);
}

/* As sum_pixel, for STRIP_PIXELS pixels of gray together: a sum waits for its last product, so
 * there must be others. */
VNNI_ALWAYS void sum_grays(const struct strip_band *band, size_t output, const uint8_t *columns,
                           __m512i pixels[STRIP_PIXELS])
{
    size_t window = (size_t)band->groups * STRIP_GROUP;
    const uint8_t *digits = digits_of(band, output);
    __m512i low[STRIP_PIXELS], middle[STRIP_PIXELS], high[STRIP_PIXELS];
    const uint8_t *from[STRIP_PIXELS];
#pragma GCC unroll 4
    for (int i = 0; i < STRIP_PIXELS; i++) {
        low[i] = _mm512_set1_epi32(HALF);
        middle[i] = high[i] = _mm512_setzero_si512();
        from[i] = columns + (size_t)band->starts[output + (size_t)i] * STRIP_VECTOR;
    }
    for (size_t at = 0; at < window; at += STRIP_GROUP) {
#pragma GCC unroll 4
        for (int i = 0; i < STRIP_PIXELS; i++) {
            const uint8_t *own = digits + (size_t)i * digit_count * window + at;
            __m512i values = _mm512_loadu_si512(from[i] + at * (STRIP_VECTOR / STRIP_GROUP));
            low[i] = _mm512_dpbusd_epi32(low[i], values, broadcast(own));
            middle[i] = _mm512_dpbusd_epi32(middle[i], values, broadcast(own + window));
            high[i] = _mm512_dpbusd_epi32(high[i], values, broadcast(own + 2 * window));
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < STRIP_PIXELS; i++)
        pixels[i] = join(low[i], middle[i], high[i]);
}

/* Clips four bytes of each row, and writes them to the quads. */
VNNI_ALWAYS void put_four(const __m512i four[4], uint8_t *const quads[STRIP_QUADS], size_t at)
{
    __m512i bytes = _mm512_packus_epi16(_mm512_packs_epi32(four[0], four[1]),
                                        _mm512_packs_epi32(four[2], four[3]));
    _mm_storeu_si128((__m128i *)(quads[0] + at), _mm512_castsi512_si128(bytes));
    _mm_storeu_si128((__m128i *)(quads[1] + at), _mm512_extracti32x4_epi32(bytes, 1));
    _mm_storeu_si128((__m128i *)(quads[2] + at), _mm512_extracti32x4_epi32(bytes, 2));
    _mm_storeu_si128((__m128i *)(quads[3] + at), _mm512_extracti32x4_epi32(bytes, 3));
}

VNNI_ALWAYS void sum_run(const struct strip_band *band, const uint8_t *columns,
                         uint8_t *const quads[STRIP_QUADS], int channels)
{
    enum { four = 4 * STRIP_GROUP }; /* bytes of a quad */
    size_t step = channels == 4 ? 1 : STRIP_PIXELS, put = 0;
    for (size_t x = 0; x < band->outputs; x += step) {
        __m512i sums[3 * STRIP_PIXELS];
        if (channels == 1) {
            sum_grays(band, x, columns, sums);
        } else {
#pragma GCC unroll 4
            for (size_t i = 0; i < step; i++)
                sum_pixel(band, x + i, columns, sums + i * (size_t)channels, channels);
        }
        put_four(sums, quads, put);
        put += four;
        if (channels == 3) {
            put_four(sums + 4, quads, put);
            put_four(sums + 8, quads, put + four);
            put += 2 * four;
        }
    }
}

VNNI static void sum_x(const struct strip_band *band, const uint8_t *columns, uint32_t channels,
                       uint8_t *const quads[STRIP_QUADS])
{
    BY_CHANNELS(channels, sum_run, band, columns, quads);
}

VNNI static void split_quad(const uint8_t *quad, size_t bytes, uint8_t *const rows[STRIP_GROUP])
{
    enum { part = STRIP_VECTOR / STRIP_GROUP }; /* bytes of a row in a vector */
    const __m512i order =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const __m512i lanes = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (size_t at = 0; at < bytes; at += part) {
        __m512i all = _mm512_shuffle_epi8(_mm512_loadu_si512(quad + at * STRIP_GROUP), order);
        __m128i four[STRIP_GROUP];
        _mm512_storeu_si512(four, _mm512_permutexvar_epi32(lanes, all));
        size_t left = bytes - at;
        __mmask16 kept = left < part ? (__mmask16)((1u << left) - 1) : 0xFFFF;
        for (int i = 0; i < STRIP_GROUP; i++)
            if (rows[i] != NULL)
                _mm_mask_storeu_epi8(rows[i] + at, kept, four[i]);
    }
}

/* ---- down the columns ---- */

/* The sums of STRIP_VECTOR bytes of a row of the result. */
struct sums {
    __m512i low[4], middle[4], high[4];
};

VNNI_ALWAYS void clear(struct sums *sums)
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        sums->low[i] = _mm512_set1_epi32(HALF);
        sums->middle[i] = sums->high[i] = _mm512_setzero_si512();
    }
}

VNNI_ALWAYS void add_quad(struct sums *sums, const __m512i quad[4], const uint8_t *digits,
                          size_t window)
{
    __m512i first = broadcast(digits), second = broadcast(digits + window);
    __m512i third = broadcast(digits + 2 * window);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        sums->low[i] = _mm512_dpbusd_epi32(sums->low[i], quad[i], first);
        sums->middle[i] = _mm512_dpbusd_epi32(sums->middle[i], quad[i], second);
        sums->high[i] = _mm512_dpbusd_epi32(sums->high[i], quad[i], third);
    }
}

/* The bytes, in the order of lanes: in lane i those of lane i of each of the four vectors. */
VNNI_ALWAYS __m512i end(const struct sums *sums)
{
    __m512i joined[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        joined[i] = join(sums->low[i], sums->middle[i], sums->high[i]);
    return _mm512_packus_epi16(_mm512_packs_epi32(joined[0], joined[1]),
                               _mm512_packs_epi32(joined[2], joined[3]));
}

VNNI_ALWAYS __mmask64 mask_of(size_t left)
{
    return left < STRIP_VECTOR ? ((__mmask64)1 << left) - 1 : ~(__mmask64)0;
}

/* Computes STRIP_VECTOR bytes of a row, from byte `at` on. */
VNNI_ALWAYS __m512i sum_window(const struct strip_band *band, uint32_t row,
                               const struct strip_ring *ring, size_t at)
{
    const uint8_t *digits = digits_of(band, row);
    size_t window = (size_t)band->groups * STRIP_GROUP;
    const uint8_t *quads = ring->quads + at * STRIP_GROUP;
    const uint8_t *from = quads + (uint32_t)band->starts[row] % ring->count * ring->quad_bytes;
    const uint8_t *last = quads + (ring->count - 1) * ring->quad_bytes;
    struct sums sums;
    clear(&sums);
    for (size_t t = 0; t < window; t += STRIP_GROUP) {
        __m512i quad[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            quad[i] = _mm512_loadu_si512(from + i * STRIP_VECTOR);
        add_quad(&sums, quad, digits + t, window);
        from = from == last ? quads : from + ring->quad_bytes;
    }
    return end(&sums);
}

VNNI static void sum_quads(const struct strip_band *band, uint32_t first, uint32_t end,
                           const struct strip_ring *ring, const struct image *to)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    size_t bytes = (size_t)to->width * to->channels;
    /* The rows of a part follow each other, because they have most of their windows in common. */
    for (size_t at = 0; at < bytes; at += STRIP_VECTOR)
        for (uint32_t row = first; row < end; row++)
            _mm512_mask_storeu_epi8(
                to->pixels + row * to->stride + at, mask_of(bytes - at),
                _mm512_permutexvar_epi32(order, sum_window(band, row, ring, at)));
}

VNNI_ALWAYS __m512i load_part(const uint8_t *row, __mmask64 part, bool multiply)
{
    const __m512i alphas = _mm512_broadcast_i32x4(
        _mm_setr_epi8(3, 3, 3, 3, 7, 7, 7, 7, 11, 11, 11, 11, 15, 15, 15, 15));
    __m512i all = _mm512_maskz_loadu_epi8(part, row);
    if (!multiply)
        return all;
    return _mm512_mask_blend_epi8(0x8888888888888888,
                                  premultiply(all, _mm512_shuffle_epi8(all, alphas)), all);
}

/* The quad of STRIP_VECTOR bytes of four rows, in the order of lanes. */
VNNI_ALWAYS void load_quad(const uint8_t *const rows[STRIP_GROUP], __mmask64 part, bool multiply,
                           __m512i quad[4])
{
    __m512i a = load_part(rows[0], part, multiply), b = load_part(rows[1], part, multiply);
    __m512i c = load_part(rows[2], part, multiply), d = load_part(rows[3], part, multiply);
    __m512i ab = _mm512_unpacklo_epi8(a, b), cd = _mm512_unpacklo_epi8(c, d);
    quad[0] = _mm512_unpacklo_epi16(ab, cd);
    quad[1] = _mm512_unpackhi_epi16(ab, cd);
    ab = _mm512_unpackhi_epi8(a, b);
    cd = _mm512_unpackhi_epi8(c, d);
    quad[2] = _mm512_unpacklo_epi16(ab, cd);
    quad[3] = _mm512_unpackhi_epi16(ab, cd);
}

VNNI_ALWAYS void sum_rows_run(const struct strip_band *band, uint32_t row, const struct image *from,
                              uint8_t *to, bool multiply)
{
    const uint8_t *digits = digits_of(band, row);
    size_t window = (size_t)band->groups * STRIP_GROUP, last = from->height - 1;
    size_t first = (size_t)band->starts[row] * STRIP_GROUP;
    size_t bytes = (size_t)from->width * from->channels;
    for (size_t at = 0; at < bytes; at += STRIP_VECTOR) {
        __mmask64 part = mask_of(bytes - at);
        struct sums sums;
        clear(&sums);
        for (size_t t = 0; t < window; t += STRIP_GROUP) {
            const uint8_t *rows[STRIP_GROUP];
            __m512i quad[4];
            for (size_t i = 0; i < STRIP_GROUP; i++) {
                size_t y = first + t + i < last ? first + t + i : last;
                rows[i] = from->pixels + y * from->stride + at;
            }
            load_quad(rows, part, multiply, quad);
            add_quad(&sums, quad, digits + t, window);
        }
        _mm512_mask_storeu_epi8(to + at, part, end(&sums));
    }
}

VNNI static void sum_rows(const struct strip_band *band, uint32_t row, const struct image *from,
                          bool multiply, uint8_t *to)
{
    if (multiply)
        sum_rows_run(band, row, from, to, true);
    else
        sum_rows_run(band, row, from, to, false);
}

/* ---- alpha ---- */

VNNI static void divide_row(uint8_t *pixels, size_t width)
{
    const __m512i most = _mm512_set1_epi32(255);
    for (size_t x = 0; x < width; x += 16, pixels += STRIP_VECTOR) {
        __mmask16 part = width - x < 16 ? (__mmask16)((1u << (width - x)) - 1) : 0xFFFF;
        __m512i all = _mm512_maskz_loadu_epi32(part, pixels), alpha = _mm512_srli_epi32(all, 24);
        __mmask16 changed = _mm512_cmplt_epu32_mask(_mm512_sub_epi32(alpha, _mm512_set1_epi32(1)),
                                                    _mm512_set1_epi32(254));
        if (changed == 0)
            continue;
        __m512 divisor = _mm512_cvtepi32_ps(alpha);
        __m512i result = _mm512_slli_epi32(alpha, 24);
#pragma GCC unroll 3
        for (unsigned c = 0; c < 3; c++) {
            __m512i value = _mm512_and_si512(_mm512_srli_epi32(all, 8 * c), most);
            __m512 product = _mm512_cvtepi32_ps(_mm512_mullo_epi32(value, most));
            __m512i whole = _mm512_cvttps_epi32(_mm512_div_ps(product, divisor));
            whole = _mm512_min_epu32(whole, most);
            result = _mm512_or_si512(result, _mm512_slli_epi32(whole, 8 * c));
        }
        _mm512_mask_storeu_epi32(pixels, part & changed, result);
    }
}

const struct resample_kernels *resample_kernels_vnni(void)
{
    static const struct resample_kernels kernels = {digit_count, 1,         turn,     sum_x,
                                                    split_quad,  sum_quads, sum_rows, divide_row};
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
               ? &kernels
               : NULL; /* uncovered: machine */
}

#else

const struct resample_kernels *resample_kernels_vnni(void)
{
    return NULL;
}

#endif
