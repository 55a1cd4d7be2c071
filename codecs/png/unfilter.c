#include "codecs/png/unfilter.h"

#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* ---- plain C ---- */

INLINE uint8_t paeth(int left, int above, int corner)
{
    int to_left = abs(above - corner), to_above = abs(left - corner),
        to_corner = abs(left + above - 2 * corner);
    int best = to_above < to_left ? above : left,
        distance = to_above < to_left ? to_above : to_left;
    return (uint8_t)(to_corner < distance ? corner : best);
}

/* `left` and `corner` are the bytes before in this row and in the row above; 0 before the first
 * pixel. */
INLINE uint8_t predict(enum unfilter filter, int left, int above, int corner)
{
    switch (filter) {
    case FILTER_SUB:
        return (uint8_t)left;
    case FILTER_UP:
        return (uint8_t)above;
    case FILTER_AVERAGE:
        return (uint8_t)((left + above) / 2);
    case FILTER_PAETH:
        return paeth(left, above, corner);
    default:
        return 0;
    }
}

INLINE void add_prediction(enum unfilter filter, const uint8_t *filtered, const uint8_t *above,
                           uint8_t *row, size_t row_bytes, unsigned pixel_bytes)
{
    size_t first = pixel_bytes < row_bytes ? pixel_bytes : row_bytes;
    for (size_t i = 0; i < first; i++)
        row[i] = (uint8_t)(filtered[i] + predict(filter, 0, above[i], 0));
    for (size_t i = first; i < row_bytes; i++)
        row[i] = (uint8_t)(filtered[i] +
                           predict(filter, row[i - pixel_bytes], above[i], above[i - pixel_bytes]));
}

void unfilter_row_plain(enum unfilter filter, const uint8_t *filtered, const uint8_t *above,
                        uint8_t *row, size_t row_bytes, unsigned pixel_bytes)
{
    switch (filter) {
    case FILTER_SUB:
        add_prediction(FILTER_SUB, filtered, above, row, row_bytes, pixel_bytes);
        break;
    case FILTER_UP:
        add_prediction(FILTER_UP, filtered, above, row, row_bytes, pixel_bytes);
        break;
    case FILTER_AVERAGE:
        add_prediction(FILTER_AVERAGE, filtered, above, row, row_bytes, pixel_bytes);
        break;
    case FILTER_PAETH:
        add_prediction(FILTER_PAETH, filtered, above, row, row_bytes, pixel_bytes);
        break;
    default:
        memcpy(row, filtered, row_bytes);
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

#define SIMD        __attribute__((target("sse4.1"))) static
#define SIMD_INLINE __attribute__((target("sse4.1"))) INLINE

/* ---- pixels of 3 or 4 bytes ---- */

SIMD_INLINE __m128i load_pixel(const uint8_t *at)
{
    int value;
    memcpy(&value, at, sizeof value);
    return _mm_cvtsi32_si128(value);
}

SIMD_INLINE void store_pixel(uint8_t *at, __m128i pixel, size_t bytes)
{
    int value = _mm_cvtsi128_si32(pixel);
    memcpy(at, &value, bytes);
}

/* Average rounds down, but the instruction rounds up. */
SIMD_INLINE __m128i average(__m128i a, __m128i b)
{
    __m128i odd = _mm_and_si128(_mm_xor_si128(a, b), _mm_set1_epi8(1));
    return _mm_sub_epi8(_mm_avg_epu8(a, b), odd);
}

/* Of samples of 16 bits, whose upper bytes are and stay 0. The filtered byte is added to the three
 * candidates before one is chosen: this is not in the chain from pixel to pixel. */
SIMD_INLINE __m128i add_paeth(__m128i filtered, __m128i left, __m128i above, __m128i corner)
{
    __m128i slope = _mm_sub_epi16(above, corner), step = _mm_sub_epi16(left, corner);
    __m128i to_left = _mm_abs_epi16(slope), to_above = _mm_abs_epi16(step),
            to_corner = _mm_abs_epi16(_mm_add_epi16(step, slope));
    __m128i least = _mm_min_epi16(to_above, to_corner);
    __m128i other = _mm_blendv_epi8(_mm_add_epi8(filtered, above), _mm_add_epi8(filtered, corner),
                                    _mm_cmpgt_epi16(to_above, to_corner));
    return _mm_blendv_epi8(_mm_add_epi8(filtered, left), other, _mm_cmpgt_epi16(to_left, least));
}

/* The state of a chain: the pixel before, and the one above it. */
struct chain {
    __m128i left, corner;
};

SIMD_INLINE __m128i next_pixel(enum unfilter filter, struct chain *chain, __m128i filtered,
                               __m128i above)
{
    __m128i zero = _mm_setzero_si128();
    if (filter == FILTER_SUB) {
        chain->left = _mm_add_epi8(filtered, chain->left);
    } else if (filter == FILTER_AVERAGE) {
        chain->left = _mm_add_epi8(filtered, average(chain->left, above));
    } else {
        above = _mm_unpacklo_epi8(above, zero);
        chain->left =
            add_paeth(_mm_unpacklo_epi8(filtered, zero), chain->left, above, chain->corner);
        chain->corner = above;
        return _mm_packus_epi16(chain->left, zero);
    }
    return chain->left;
}

/* All pixels but the last are loaded and stored as 4 bytes: the next one overwrites the fourth. */
SIMD_INLINE void unfilter_pixels(enum unfilter filter, const uint8_t *filtered,
                                 const uint8_t *above, uint8_t *row, size_t row_bytes,
                                 size_t pixel_bytes)
{
    struct chain chain = {_mm_setzero_si128(), _mm_setzero_si128()};
    size_t last = row_bytes - pixel_bytes;
    for (size_t i = 0; i < last; i += pixel_bytes)
        store_pixel(row + i,
                    next_pixel(filter, &chain, load_pixel(filtered + i), load_pixel(above + i)), 4);
    int end = 0;
    memcpy(&end, above + last, pixel_bytes);
    store_pixel(row + last,
                next_pixel(filter, &chain, load_pixel(filtered + last), _mm_cvtsi32_si128(end)),
                pixel_bytes);
}

#define UNFILTER_PIXELS(name, filter)                                                              \
    SIMD void name(const uint8_t *filtered, const uint8_t *above, uint8_t *row, size_t row_bytes,  \
                   unsigned pixel_bytes)                                                           \
    {                                                                                              \
        if (pixel_bytes == 3)                                                                      \
            unfilter_pixels(filter, filtered, above, row, row_bytes, 3);                           \
        else                                                                                       \
            unfilter_pixels(filter, filtered, above, row, row_bytes, 4);                           \
    }
UNFILTER_PIXELS(unfilter_sub, FILTER_SUB)
UNFILTER_PIXELS(unfilter_average, FILTER_AVERAGE)
UNFILTER_PIXELS(unfilter_paeth, FILTER_PAETH)

/* ---- Up, of pixels of any size ---- */

static void unfilter_up(const uint8_t *filtered, const uint8_t *above, uint8_t *row,
                        size_t row_bytes)
{
    size_t i = 0;
    for (; i + 16 <= row_bytes; i += 16) {
        __m128i sum = _mm_add_epi8(_mm_loadu_si128((const __m128i *)(filtered + i)),
                                   _mm_loadu_si128((const __m128i *)(above + i)));
        _mm_storeu_si128((__m128i *)(row + i), sum);
    }
    for (; i < row_bytes; i++)
        row[i] = (uint8_t)(filtered[i] + above[i]);
}

/* ---- pixels of 1 byte ---- */

/* Sub adds up: the sums of 16 bytes take four steps. */
SIMD void unfilter_gray_sub(const uint8_t *filtered, uint8_t *row, size_t row_bytes)
{
    __m128i carry = _mm_setzero_si128();
    size_t i = 0;
    for (; i + 16 <= row_bytes; i += 16) {
        __m128i sum = _mm_loadu_si128((const __m128i *)(filtered + i));
        sum = _mm_add_epi8(sum, _mm_slli_si128(sum, 1));
        sum = _mm_add_epi8(sum, _mm_slli_si128(sum, 2));
        sum = _mm_add_epi8(sum, _mm_slli_si128(sum, 4));
        sum = _mm_add_epi8(sum, _mm_slli_si128(sum, 8));
        sum = _mm_add_epi8(sum, carry);
        _mm_storeu_si128((__m128i *)(row + i), sum);
        carry = _mm_shuffle_epi8(sum, _mm_set1_epi8(15));
    }
    for (; i < row_bytes; i++)
        row[i] = (uint8_t)(filtered[i] + (i > 0 ? row[i - 1] : 0));
}

/* One sample in a register: its comparisons and choices take fewer steps than those of integers. */
SIMD void unfilter_gray_paeth(const uint8_t *filtered, const uint8_t *above, uint8_t *row,
                              size_t row_bytes)
{
    __m128i left = _mm_setzero_si128(), corner = left;
    for (size_t i = 0; i < row_bytes; i++) {
        __m128i over = _mm_cvtsi32_si128(above[i]);
        left = add_paeth(_mm_cvtsi32_si128(filtered[i]), left, over, corner);
        corner = over;
        row[i] = (uint8_t)_mm_cvtsi128_si32(left);
    }
}

static bool has_simd(void)
{
    return __builtin_cpu_supports("sse4.1");
}

void unfilter_row(enum unfilter filter, const uint8_t *filtered, const uint8_t *above, uint8_t *row,
                  size_t row_bytes, unsigned pixel_bytes)
{
    if (filter == FILTER_UP)
        unfilter_up(filtered, above, row, row_bytes);
    else if (filter == FILTER_NONE || !has_simd() || (pixel_bytes == 1 && filter == FILTER_AVERAGE))
        unfilter_row_plain(filter, filtered, above, row, row_bytes, pixel_bytes);
    else if (pixel_bytes == 1 && filter == FILTER_SUB)
        unfilter_gray_sub(filtered, row, row_bytes);
    else if (pixel_bytes == 1)
        unfilter_gray_paeth(filtered, above, row, row_bytes);
    else if (filter == FILTER_SUB)
        unfilter_sub(filtered, above, row, row_bytes, pixel_bytes);
    else if (filter == FILTER_AVERAGE)
        unfilter_average(filtered, above, row, row_bytes, pixel_bytes);
    else
        unfilter_paeth(filtered, above, row, row_bytes, pixel_bytes);
}
#else
void unfilter_row(enum unfilter filter, const uint8_t *filtered, const uint8_t *above, uint8_t *row,
                  size_t row_bytes, unsigned pixel_bytes)
{
    unfilter_row_plain(filter, filtered, above, row, row_bytes, pixel_bytes);
}
#endif
