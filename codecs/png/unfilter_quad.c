/*
 * unfilter_quad.c - unfilters four rows together with AVX2, if that is faster.
 *
 * A row alone is a chain of dependent steps: 7 cycles per pixel for Paeth, in which a processor
 * could do four times as much. So four rows are unfiltered at once: in each step, row k is two
 * pixels behind row k - 1. The pixel above is then two steps old, which hides the time of moving it
 * between the halves of a register.
 *
 * A register has the four samples of a pixel of each row, in 16 bits. With fewer channels, the rest
 * of the four samples are those of the next pixels. They are computed and stored in vain: the next
 * step overwrites them. At both ends of the rows, pixels outside are loaded as 0 and not stored.
 */
#include "codecs/png/unfilter.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define QUAD        __attribute__((target("avx2"))) static
#define QUAD_INLINE __attribute__((target("avx2"), always_inline)) static inline

enum { rows_at_once = UNFILTER_QUAD, lag = 2, sample_bytes = 4 };

struct quad {
    const uint8_t *filtered[rows_at_once], *above;
    uint8_t *rows[rows_at_once];
    size_t row_bytes;
    /* Which rows are predicted as Paeth; which add the sample to the left, their average, or the
     * sample above. */
    __m256i is_paeth, is_left, is_average, is_up;
    __m256i left, corner; /* of the previous step */
    __m256i moved[lag];   /* the samples of the last two steps, for the next row */
};

/* All bits of the rows with one of two filters. */
QUAD_INLINE __m256i rows_with(const struct quad *quad, enum unfilter one, enum unfilter other)
{
    int64_t mask[rows_at_once];
    for (int k = 0; k < rows_at_once; k++) {
        uint8_t filter = quad->filtered[k][-1];
        mask[k] = filter == one || filter == other ? -1 : 0;
    }
    return _mm256_loadu_si256((const __m256i *)mask);
}

/* Predicts as add_paeth in unfilter.c does. In rows with other filters, `slope` is 0: then the
 * first candidate is chosen, which has their prediction. */
QUAD_INLINE __m256i add_prediction(const struct quad *quad, __m256i filtered, __m256i above)
{
    __m256i left = quad->left, corner = quad->corner;
    __m256i slope = _mm256_and_si256(_mm256_sub_epi16(above, corner), quad->is_paeth);
    __m256i step = _mm256_sub_epi16(left, corner);
    __m256i to_left = _mm256_abs_epi16(slope), to_above = _mm256_abs_epi16(step);
    __m256i to_corner = _mm256_abs_epi16(_mm256_add_epi16(step, slope));
    __m256i least = _mm256_min_epi16(to_above, to_corner);
    __m256i average = _mm256_srli_epi16(_mm256_add_epi16(left, above), 1);
    __m256i first = _mm256_or_si256(_mm256_or_si256(_mm256_and_si256(above, quad->is_up),
                                                    _mm256_and_si256(left, quad->is_left)),
                                    _mm256_and_si256(average, quad->is_average));
    __m256i other =
        _mm256_blendv_epi8(_mm256_add_epi8(filtered, above), _mm256_add_epi8(filtered, corner),
                           _mm256_cmpgt_epi16(to_above, to_corner));
    return _mm256_blendv_epi8(_mm256_add_epi8(filtered, first), other,
                              _mm256_cmpgt_epi16(to_left, least));
}

/* A step: `filtered` has the bytes of four pixels, `above` those above the first row. */
QUAD_INLINE __m128i next_pixels(struct quad *quad, __m128i filtered, __m128i above)
{
    __m256i over =
        _mm256_blend_epi32(quad->moved[0], _mm256_castsi128_si256(_mm_cvtepu8_epi16(above)), 3);
    __m256i pixels = add_prediction(quad, _mm256_cvtepu8_epi16(filtered), over);
    quad->left = pixels;
    quad->corner = over;
    quad->moved[0] = quad->moved[1];
    quad->moved[1] = _mm256_permute4x64_epi64(pixels, _MM_SHUFFLE(2, 1, 0, 0));
    __m256i packed = _mm256_packus_epi16(pixels, pixels);
    return _mm_unpacklo_epi64(_mm256_castsi256_si128(packed), _mm256_extracti128_si256(packed, 1));
}

QUAD_INLINE int load_samples(const uint8_t *at)
{
    int samples;
    memcpy(&samples, at, sizeof samples);
    return samples;
}

/* A step in which every row has four bytes at its place. `at` is that of the first row. */
QUAD_INLINE void step_inside(struct quad *quad, size_t at, size_t pixel_bytes)
{
    size_t back = lag * pixel_bytes;
    __m128i filtered = _mm_setr_epi32(load_samples(quad->filtered[0] + at),
                                      load_samples(quad->filtered[1] + at - back),
                                      load_samples(quad->filtered[2] + at - 2 * back),
                                      load_samples(quad->filtered[3] + at - 3 * back));
    __m128i pixels = next_pixels(quad, filtered, _mm_cvtsi32_si128(load_samples(quad->above + at)));
    int samples[rows_at_once] = {_mm_extract_epi32(pixels, 0), _mm_extract_epi32(pixels, 1),
                                 _mm_extract_epi32(pixels, 2), _mm_extract_epi32(pixels, 3)};
#pragma GCC unroll 4
    for (int k = 0; k < rows_at_once; k++)
        memcpy(quad->rows[k] + at - (size_t)k * back, &samples[k], sample_bytes);
}

/* Any step. */
QUAD_INLINE void step_at_end(struct quad *quad, size_t at, size_t pixel_bytes)
{
    uint8_t filtered[rows_at_once][sample_bytes] = {{0}}, above[sample_bytes] = {0},
            pixels[rows_at_once][sample_bytes];
    size_t back = lag * pixel_bytes;
    if (at < quad->row_bytes)
        memcpy(above, quad->above + at, pixel_bytes);
    for (size_t k = 0; k < rows_at_once; k++)
        if (at >= k * back && at - k * back < quad->row_bytes)
            memcpy(filtered[k], quad->filtered[k] + at - k * back, pixel_bytes);
    _mm_storeu_si128((__m128i *)pixels,
                     next_pixels(quad, _mm_loadu_si128((const __m128i *)filtered),
                                 _mm_cvtsi32_si128(load_samples(above))));
    for (size_t k = 0; k < rows_at_once; k++)
        if (at >= k * back && at - k * back < quad->row_bytes)
            memcpy(quad->rows[k] + at - k * back, pixels[k], pixel_bytes);
}

QUAD_INLINE void unfilter_quad(struct quad quad, size_t pixel_bytes)
{
    size_t end = (rows_at_once - 1) * lag * pixel_bytes, at = 0;
    for (; at < end; at += pixel_bytes)
        step_at_end(&quad, at, pixel_bytes);
    for (; at + sample_bytes <= quad.row_bytes; at += pixel_bytes)
        step_inside(&quad, at, pixel_bytes);
    for (; at < quad.row_bytes + end; at += pixel_bytes)
        step_at_end(&quad, at, pixel_bytes);
}

QUAD void unfilter_quad_avx2(const uint8_t *filtered, const uint8_t *above, uint8_t *rows,
                             size_t stride, size_t row_bytes, unsigned pixel_bytes)
{
    __m256i zero = _mm256_setzero_si256();
    struct quad quad = {.above = above,
                        .row_bytes = row_bytes,
                        .left = zero,
                        .corner = zero,
                        .moved = {zero, zero}};
    for (size_t k = 0; k < rows_at_once; k++) {
        quad.filtered[k] = filtered + k * (row_bytes + 1) + 1;
        quad.rows[k] = rows + k * stride;
    }
    quad.is_paeth = rows_with(&quad, FILTER_PAETH, FILTER_PAETH);
    quad.is_left = rows_with(&quad, FILTER_PAETH, FILTER_SUB);
    quad.is_average = rows_with(&quad, FILTER_AVERAGE, FILTER_AVERAGE);
    quad.is_up = rows_with(&quad, FILTER_UP, FILTER_UP);
    if (pixel_bytes == 1)
        unfilter_quad(quad, 1);
    else if (pixel_bytes == 3)
        unfilter_quad(quad, 3);
    else
        unfilter_quad(quad, 4);
}

/* Whether rows together take less time than one after the other. In cycles per pixel. */
static bool is_faster(const uint8_t *filtered, size_t row_bytes, unsigned pixel_bytes, size_t rows)
{
    static const uint8_t cycles[FILTERS] = {
        [FILTER_SUB] = 2, [FILTER_AVERAGE] = 5, [FILTER_PAETH] = 7};
    enum { together = 10 };
    unsigned sum = 0;
    for (size_t k = 0; k < rows; k++, filtered += row_bytes + 1)
        sum += filtered[0] == FILTER_SUB && pixel_bytes == 1 ? 0 : cycles[filtered[0]];
    return sum > together && __builtin_cpu_supports("avx2");
}

/* Returns how many rows it has unfiltered together. */
static size_t unfilter_together(const uint8_t *filtered, const uint8_t *above, uint8_t *rows,
                                size_t stride, size_t row_bytes, unsigned pixel_bytes, size_t count)
{
    if (pixel_bytes == 1 && count >= UNFILTER_GRAY &&
        is_faster(filtered, row_bytes, pixel_bytes, UNFILTER_GRAY)) {
        unfilter_gray_rows(filtered, above, rows, stride, row_bytes);
        return UNFILTER_GRAY;
    }
    if (count >= rows_at_once && is_faster(filtered, row_bytes, pixel_bytes, rows_at_once)) {
        unfilter_quad_avx2(filtered, above, rows, stride, row_bytes, pixel_bytes);
        return rows_at_once;
    }
    return 0;
}
#endif

void unfilter_rows(const uint8_t *filtered, const uint8_t *above, uint8_t *rows, size_t stride,
                   size_t row_bytes, unsigned pixel_bytes, size_t count)
{
    while (count > 0) {
        size_t done = 0;
#if defined(__x86_64__)
        done = unfilter_together(filtered, above, rows, stride, row_bytes, pixel_bytes, count);
#endif
        if (done == 0) {
            unfilter_row(filtered[0], filtered + 1, above, rows, row_bytes, pixel_bytes);
            done = 1;
        }
        filtered += done * (row_bytes + 1);
        rows += done * stride;
        above = rows - stride;
        count -= done;
    }
}
