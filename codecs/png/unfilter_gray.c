/*
 * unfilter_gray.c - unfilters eight rows of gray together, as unfilter_eight.c does those of
 * colours.
 *
 * Each row has a lane of 16 bits, and is two pixels behind the row above it. Eight steps are done
 * at a time, so that the bytes of each row are loaded and stored together: a transposition makes
 * them the columns of the steps.
 */
#include "codecs/png/unfilter.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

/* Keeps arrays in registers. */
#define UNROLL      _Pragma("GCC unroll 8")
#define GRAY_INLINE __attribute__((target("avx2"), always_inline)) static inline

enum { rows_at_once = UNFILTER_ROWS, lag = 2, steps = 8 };

struct gray {
    const uint8_t *filtered[rows_at_once], *above;
    uint8_t *rows[rows_at_once];
    size_t row_bytes;
    __m128i is_paeth, is_left, is_average, is_up; /* as in unfilter_eight.c */
    __m128i left, corner, moved[lag];
};

GRAY_INLINE __m128i rows_with(const struct gray *gray, enum unfilter one, enum unfilter other)
{
    int16_t mask[rows_at_once];
    for (int k = 0; k < rows_at_once; k++) {
        uint8_t filter = gray->filtered[k][-1];
        mask[k] = filter == one || filter == other ? -1 : 0;
    }
    return _mm_loadu_si128((const __m128i *)mask);
}

/* Predicts as add_paeth in unfilter.c does. In rows with other filters, `slope` is 0: then the
 * first candidate is chosen, which has their prediction. */
GRAY_INLINE __m128i add_prediction(const struct gray *gray, __m128i filtered, __m128i above)
{
    __m128i left = gray->left, corner = gray->corner;
    __m128i slope = _mm_and_si128(_mm_sub_epi16(above, corner), gray->is_paeth);
    __m128i step = _mm_sub_epi16(left, corner);
    __m128i to_left = _mm_abs_epi16(slope), to_above = _mm_abs_epi16(step);
    __m128i to_corner = _mm_abs_epi16(_mm_add_epi16(step, slope));
    __m128i least = _mm_min_epi16(to_above, to_corner);
    __m128i average = _mm_srli_epi16(_mm_add_epi16(left, above), 1);
    __m128i first = _mm_or_si128(
        _mm_or_si128(_mm_and_si128(above, gray->is_up), _mm_and_si128(left, gray->is_left)),
        _mm_and_si128(average, gray->is_average));
    __m128i other = _mm_blendv_epi8(_mm_add_epi8(filtered, above), _mm_add_epi8(filtered, corner),
                                    _mm_cmpgt_epi16(to_above, to_corner));
    return _mm_blendv_epi8(_mm_add_epi8(filtered, first), other, _mm_cmpgt_epi16(to_left, least));
}

/* A step: `filtered` has a byte of each row in its lower half, `above` is over the first row.
 * Returns the pixels in the same form. */
GRAY_INLINE __m128i next_pixels(struct gray *gray, __m128i filtered, uint8_t above)
{
    __m128i over = _mm_insert_epi16(gray->moved[0], above, 0);
    __m128i pixels = add_prediction(gray, _mm_cvtepu8_epi16(filtered), over);
    gray->left = pixels;
    gray->corner = over;
    gray->moved[0] = gray->moved[1];
    gray->moved[1] = _mm_slli_si128(pixels, 2);
    return _mm_packus_epi16(pixels, pixels);
}

/* Transposes 8 x 8 bytes: from the lower halves of eight registers into both halves of four. */
GRAY_INLINE void transpose(const __m128i from[8], __m128i to[4])
{
    __m128i pairs[4], quads[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        pairs[i] = _mm_unpacklo_epi8(from[2 * i], from[2 * i + 1]);
    UNROLL
    for (int i = 0; i < 2; i++) {
        quads[i] = _mm_unpacklo_epi16(pairs[2 * i], pairs[2 * i + 1]);
        quads[2 + i] = _mm_unpackhi_epi16(pairs[2 * i], pairs[2 * i + 1]);
    }
    UNROLL
    for (int i = 0; i < 2; i++) {
        to[2 * i] = _mm_unpacklo_epi32(quads[2 * i], quads[2 * i + 1]);
        to[2 * i + 1] = _mm_unpackhi_epi32(quads[2 * i], quads[2 * i + 1]);
    }
}

/* Eight steps. columns: the filtered bytes of each row; becomes their pixels. */
GRAY_INLINE void do_steps(struct gray *gray, __m128i columns[rows_at_once],
                          const uint8_t above[steps])
{
    __m128i filtered[steps / 2], pixels[steps], rows[rows_at_once / 2];
    transpose(columns, filtered);
    UNROLL
    for (int i = 0; i < steps; i++)
        pixels[i] = next_pixels(gray,
                                i % 2 == 0 ? filtered[i / 2]
                                           : _mm_unpackhi_epi64(filtered[i / 2], filtered[i / 2]),
                                above[i]);
    transpose(pixels, rows);
    UNROLL
    for (int k = 0; k < rows_at_once; k++)
        columns[k] = k % 2 == 0 ? rows[k / 2] : _mm_unpackhi_epi64(rows[k / 2], rows[k / 2]);
}

/* Steps in which all rows are inside. `at` is the place of the first row. */
GRAY_INLINE void steps_inside(struct gray *gray, size_t at)
{
    __m128i columns[rows_at_once];
    UNROLL
    for (size_t k = 0; k < rows_at_once; k++)
        columns[k] = _mm_loadl_epi64((const __m128i *)(gray->filtered[k] + at - k * lag));
    do_steps(gray, columns, gray->above + at);
    UNROLL
    for (size_t k = 0; k < rows_at_once; k++)
        _mm_storel_epi64((__m128i *)(gray->rows[k] + at - k * lag), columns[k]);
}

/* Copies the bytes of a row that are inside, from the place at - back on. */
static void copy_inside(uint8_t *to, const uint8_t *from, size_t at, size_t back, size_t row_bytes,
                        bool to_row)
{
    for (size_t i = 0; i < steps; i++)
        if (at + i >= back && at + i - back < row_bytes) {
            if (to_row)
                to[at + i - back] = from[i];
            else
                to[i] = from[at + i - back];
        }
}

/* Any steps. */
GRAY_INLINE void steps_at_end(struct gray *gray, size_t at)
{
    uint8_t above[steps] = {0}, bytes[rows_at_once][16] = {{0}};
    __m128i columns[rows_at_once];
    copy_inside(above, gray->above, at, 0, gray->row_bytes, false);
    for (size_t k = 0; k < rows_at_once; k++) {
        copy_inside(bytes[k], gray->filtered[k], at, k * lag, gray->row_bytes, false);
        columns[k] = _mm_loadu_si128((const __m128i *)bytes[k]);
    }
    do_steps(gray, columns, above);
    for (size_t k = 0; k < rows_at_once; k++) {
        _mm_storeu_si128((__m128i *)bytes[k], columns[k]);
        copy_inside(gray->rows[k], bytes[k], at, k * lag, gray->row_bytes, true);
    }
}

__attribute__((target("avx2"))) void unfilter_gray_rows(const uint8_t *filtered,
                                                        const uint8_t *above, uint8_t *rows,
                                                        size_t stride, size_t row_bytes)
{
    const size_t behind = (rows_at_once - 1) * lag;
    __m128i zero = _mm_setzero_si128();
    struct gray gray = {.above = above,
                        .row_bytes = row_bytes,
                        .left = zero,
                        .corner = zero,
                        .moved = {zero, zero}};
    for (size_t k = 0; k < rows_at_once; k++) {
        gray.filtered[k] = filtered + k * (row_bytes + 1) + 1;
        gray.rows[k] = rows + k * stride;
    }
    gray.is_paeth = rows_with(&gray, FILTER_PAETH, FILTER_PAETH);
    gray.is_left = rows_with(&gray, FILTER_PAETH, FILTER_SUB);
    gray.is_average = rows_with(&gray, FILTER_AVERAGE, FILTER_AVERAGE);
    gray.is_up = rows_with(&gray, FILTER_UP, FILTER_UP);
    size_t at = 0;
    for (; at < behind; at += steps)
        steps_at_end(&gray, at);
    for (; at + steps <= row_bytes; at += steps)
        steps_inside(&gray, at);
    for (; at < row_bytes + behind; at += steps)
        steps_at_end(&gray, at);
}
#endif
