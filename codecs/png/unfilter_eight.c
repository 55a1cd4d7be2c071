/*
 * unfilter_eight.c - unfilters eight rows together with AVX2, if that is faster.
 *
 * A row alone is a chain of dependent steps: 7 cycles per pixel for Paeth, in which a processor
 * could do several times as much. So eight rows are unfiltered at once: in each step, row k is two
 * pixels behind row k - 1. The pixel above is then two steps old, which hides the time of moving it
 * between the parts of a register. unfilter_gray.c does the same for pixels of one byte.
 *
 * A register has a pixel of each row, in 32 bits. Four steps are a turn, so that the pixels of each
 * row are loaded and stored together: a transposition makes them the columns of the steps.
 */
#include "codecs/png/unfilter.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

/* Keeps arrays in registers. */
#define UNROLL       _Pragma("GCC unroll 8")
#define EIGHT        __attribute__((target("avx2"))) static
#define EIGHT_INLINE __attribute__((target("avx2"), always_inline)) static inline

enum {
    rows_at_once = UNFILTER_ROWS,
    lag = 2,
    steps = 4,
    slots = 16 /* bytes of a row in a turn */
};

struct eight {
    const uint8_t *filtered[rows_at_once], *above;
    uint8_t *rows[rows_at_once];
    size_t row_bytes;
    /* Which rows are predicted as Paeth; which add the byte to the left, their average, or the byte
     * above. */
    __m256i is_paeth, is_left, is_average, is_up;
    __m256i left, corner; /* of the previous step */
    __m256i moved[lag];   /* the pixels of the last two steps, for the next row */
};

/* All bits of the rows with one of two filters. */
EIGHT_INLINE __m256i rows_with(const struct eight *eight, enum unfilter one, enum unfilter other)
{
    int32_t mask[rows_at_once];
    for (int k = 0; k < rows_at_once; k++) {
        uint8_t filter = eight->filtered[k][-1];
        mask[k] = filter == one || filter == other ? -1 : 0;
    }
    return _mm256_loadu_si256((const __m256i *)mask);
}

EIGHT_INLINE __m256i difference(__m256i a, __m256i b)
{
    return _mm256_sub_epi8(_mm256_max_epu8(a, b), _mm256_min_epu8(a, b));
}

/* Predicts Paeth as png_avx2.c does. In rows with other filters, the distance from the left is 0:
 * then the first candidate is chosen, which has their prediction. The filtered byte is added to the
 * candidates before one is chosen: this is not in the chain from pixel to pixel. */
EIGHT_INLINE __m256i add_prediction(const struct eight *eight, __m256i filtered, __m256i above)
{
    const __m256i left = eight->left, corner = eight->corner;
    __m256i is_odd = _mm256_and_si256(eight->is_average, _mm256_set1_epi8(1));
    __m256i first = _mm256_add_epi8(filtered, _mm256_and_si256(above, eight->is_up));
    __m256i average = _mm256_and_si256(_mm256_avg_epu8(left, above), eight->is_average);
    __m256i odd = _mm256_and_si256(_mm256_xor_si256(left, above), is_odd);
    first = _mm256_add_epi8(first, _mm256_and_si256(left, eight->is_left));
    first = _mm256_sub_epi8(_mm256_add_epi8(first, average), odd);

    __m256i from_left = _mm256_and_si256(difference(above, corner), eight->is_paeth);
    __m256i most = _mm256_max_epu8(left, corner);
    __m256i from_above = _mm256_sub_epi8(most, _mm256_min_epu8(left, corner));
    __m256i is_below = _mm256_cmpeq_epi8(_mm256_min_epu8(above, corner), above);
    __m256i opposite = _mm256_xor_si256(is_below, _mm256_cmpeq_epi8(most, left));
    __m256i nearest = _mm256_min_epu8(from_left, from_above);
    __m256i from_corner =
        _mm256_or_si256(_mm256_sub_epi8(_mm256_max_epu8(from_left, from_above), nearest), opposite);
    __m256i side = _mm256_blendv_epi8(_mm256_add_epi8(filtered, above), first,
                                      _mm256_cmpeq_epi8(nearest, from_left));
    return _mm256_blendv_epi8(_mm256_add_epi8(filtered, corner), side,
                              _mm256_cmpeq_epi8(_mm256_min_epu8(nearest, from_corner), nearest));
}

/* A step: `above` has the pixel above the first row. */
EIGHT_INLINE __m256i next_pixels(struct eight *eight, __m256i filtered, __m128i above)
{
    const __m256i down = _mm256_setr_epi32(0, 0, 1, 2, 3, 4, 5, 6);
    __m256i over = _mm256_blend_epi32(eight->moved[0], _mm256_castsi128_si256(above), 1);
    __m256i pixels = add_prediction(eight, filtered, over);
    eight->left = pixels;
    eight->corner = over;
    eight->moved[0] = eight->moved[1];
    eight->moved[1] = _mm256_permutevar8x32_epi32(pixels, down);
    return pixels;
}

/* Transposes 4 x 4 pixels in both halves. */
EIGHT_INLINE void transpose(__m256i parts[4])
{
    __m256i a = _mm256_unpacklo_epi32(parts[0], parts[1]),
            b = _mm256_unpackhi_epi32(parts[0], parts[1]),
            c = _mm256_unpacklo_epi32(parts[2], parts[3]),
            d = _mm256_unpackhi_epi32(parts[2], parts[3]);
    parts[0] = _mm256_unpacklo_epi64(a, c);
    parts[1] = _mm256_unpackhi_epi64(a, c);
    parts[2] = _mm256_unpacklo_epi64(b, d);
    parts[3] = _mm256_unpackhi_epi64(b, d);
}

/* Four steps. parts: filtered bytes of rows k and k + 4; become their pixels. */
EIGHT_INLINE void do_steps(struct eight *eight, __m256i parts[steps], const uint8_t *above,
                           size_t pixel_bytes)
{
    const __m256i spread = _mm256_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, 0,
                                            1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
    const __m256i gather = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1,
                                            0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    UNROLL
    for (int i = 0; i < steps; i++)
        parts[i] = pixel_bytes == 3 ? _mm256_shuffle_epi8(parts[i], spread) : parts[i];
    transpose(parts);
    UNROLL
    for (int i = 0; i < steps; i++) {
        int pixel;
        memcpy(&pixel, above + (size_t)i * pixel_bytes, sizeof pixel);
        parts[i] = next_pixels(eight, parts[i], _mm_cvtsi32_si128(pixel));
    }
    transpose(parts);
    UNROLL
    for (int i = 0; i < steps; i++)
        parts[i] = pixel_bytes == 3 ? _mm256_shuffle_epi8(parts[i], gather) : parts[i];
}

EIGHT_INLINE __m128i load(const uint8_t *at)
{
    return _mm_loadu_si128((const __m128i *)at);
}

EIGHT_INLINE void store(uint8_t *at, __m128i bytes)
{
    _mm_storeu_si128((__m128i *)at, bytes);
}

/* A turn in which every row has `slots` bytes from its place on. `at` is that of the first row. The
 * next turn overwrites the bytes after the pixels. */
EIGHT_INLINE void turn_inside(struct eight *eight, size_t at, size_t pixel_bytes)
{
    const size_t back = lag * pixel_bytes;
    __m256i parts[steps];
    UNROLL
    for (size_t k = 0; k < steps; k++)
        parts[k] = _mm256_inserti128_si256(
            _mm256_castsi128_si256(load(eight->filtered[k] + at - k * back)),
            load(eight->filtered[k + 4] + at - (k + 4) * back), 1);
    do_steps(eight, parts, eight->above + at, pixel_bytes);
    UNROLL
    for (size_t k = 0; k < steps; k++) {
        store(eight->rows[k] + at - k * back, _mm256_castsi256_si128(parts[k]));
        store(eight->rows[k + 4] + at - (k + 4) * back, _mm256_extracti128_si256(parts[k], 1));
    }
}

/* The filtered bytes of a row from `at` on, 0 before its first byte. After its last byte are those
 * of the next row, or UNFILTER_SLACK. */
EIGHT_INLINE __m128i load_from(const uint8_t *filtered, ptrdiff_t at, size_t row_bytes)
{
    static const uint8_t is_inside[2 * slots] = {[slots... 2 * slots - 1] = 255};
    if (at <= -slots || at >= (ptrdiff_t)row_bytes)
        return _mm_setzero_si128();
    return _mm_and_si128(load(filtered + at), load(is_inside + slots + (at < 0 ? at : 0)));
}

/* Stores the pixels that are inside a row. */
EIGHT_INLINE void store_from(uint8_t *row, ptrdiff_t at, size_t row_bytes, size_t turn_bytes,
                             __m128i bytes)
{
    uint8_t copy[slots];
    ptrdiff_t from = at < 0 ? -at : 0, end = (ptrdiff_t)row_bytes - at;
    end = end < (ptrdiff_t)turn_bytes ? end : (ptrdiff_t)turn_bytes;
    store(copy, bytes);
    if (from < end)
        memcpy(row + at + from, copy + from, (size_t)(end - from));
}

/* Any turn. */
EIGHT_INLINE void turn_at_end(struct eight *eight, size_t at, size_t pixel_bytes)
{
    const size_t turn_bytes = steps * pixel_bytes;
    uint8_t above[slots] = {0};
    __m256i parts[steps];
    ptrdiff_t places[rows_at_once];
    if (at < eight->row_bytes)
        memcpy(above, eight->above + at,
               eight->row_bytes - at < turn_bytes ? eight->row_bytes - at : turn_bytes);
    for (int k = 0; k < rows_at_once; k++)
        places[k] = (ptrdiff_t)at - k * (ptrdiff_t)(lag * pixel_bytes);
    UNROLL
    for (int k = 0; k < steps; k++)
        parts[k] = _mm256_inserti128_si256(
            _mm256_castsi128_si256(load_from(eight->filtered[k], places[k], eight->row_bytes)),
            load_from(eight->filtered[k + 4], places[k + 4], eight->row_bytes), 1);
    do_steps(eight, parts, above, pixel_bytes);
    UNROLL
    for (int k = 0; k < steps; k++) {
        store_from(eight->rows[k], places[k], eight->row_bytes, turn_bytes,
                   _mm256_castsi256_si128(parts[k]));
        store_from(eight->rows[k + 4], places[k + 4], eight->row_bytes, turn_bytes,
                   _mm256_extracti128_si256(parts[k], 1));
    }
}

EIGHT_INLINE void unfilter_eight(struct eight eight, size_t pixel_bytes)
{
    const size_t behind = (rows_at_once - 1) * lag * pixel_bytes, turn_bytes = steps * pixel_bytes;
    size_t at = 0;
    for (; at < behind; at += turn_bytes)
        turn_at_end(&eight, at, pixel_bytes);
    for (; at + slots <= eight.row_bytes; at += turn_bytes)
        turn_inside(&eight, at, pixel_bytes);
    for (; at < eight.row_bytes + behind; at += turn_bytes)
        turn_at_end(&eight, at, pixel_bytes);
}

/* row_bytes: at least two pixels, so that the places of all rows are in `filtered` */
EIGHT void unfilter_eight_rows(const uint8_t *filtered, const uint8_t *above, uint8_t *rows,
                               size_t stride, size_t row_bytes, unsigned pixel_bytes)
{
    __m256i zero = _mm256_setzero_si256();
    struct eight eight = {.above = above,
                          .row_bytes = row_bytes,
                          .left = zero,
                          .corner = zero,
                          .moved = {zero, zero}};
    for (size_t k = 0; k < rows_at_once; k++) {
        eight.filtered[k] = filtered + k * (row_bytes + 1) + 1;
        eight.rows[k] = rows + k * stride;
    }
    eight.is_paeth = rows_with(&eight, FILTER_PAETH, FILTER_PAETH);
    eight.is_left = rows_with(&eight, FILTER_PAETH, FILTER_SUB);
    eight.is_average = rows_with(&eight, FILTER_AVERAGE, FILTER_AVERAGE);
    eight.is_up = rows_with(&eight, FILTER_UP, FILTER_UP);
    if (pixel_bytes == 3)
        unfilter_eight(eight, 3);
    else
        unfilter_eight(eight, 4);
}

/* Whether the rows together take less time than one after the other. In cycles per pixel. */
static bool is_faster(const uint8_t *filtered, size_t row_bytes, unsigned pixel_bytes)
{
    static const uint8_t cycles[FILTERS] = {
        [FILTER_SUB] = 2, [FILTER_AVERAGE] = 5, [FILTER_PAETH] = 7};
    enum { together = 14 };
    unsigned sum = 0;
    for (size_t k = 0; k < rows_at_once; k++, filtered += row_bytes + 1)
        sum += filtered[0] == FILTER_SUB && pixel_bytes == 1 ? 0 : cycles[filtered[0]];
    return sum > together && row_bytes >= 2 * pixel_bytes && __builtin_cpu_supports("avx2");
}
#endif

void unfilter_rows(const uint8_t *filtered, const uint8_t *above, uint8_t *rows, size_t stride,
                   size_t row_bytes, unsigned pixel_bytes, size_t count)
{
    while (count > 0) {
        size_t done = 1;
#if defined(__x86_64__)
        if (count >= UNFILTER_ROWS && is_faster(filtered, row_bytes, pixel_bytes)) {
            done = UNFILTER_ROWS;
            if (pixel_bytes == 1)
                unfilter_gray_rows(filtered, above, rows, stride, row_bytes);
            else
                unfilter_eight_rows(filtered, above, rows, stride, row_bytes, pixel_bytes);
        }
#endif
        if (done == 1)
            unfilter_row(filtered[0], filtered + 1, above, rows, row_bytes, pixel_bytes);
        filtered += done * (row_bytes + 1);
        rows += done * stride;
        above = rows - stride;
        count -= done;
    }
}
