/* predict_avx2.c - predictions with AVX2: rows of samples, or columns that are transposed. */
#include "gpu/avif/kernels/kernels_avx2.h"

#ifdef __x86_64__

#include "gpu/avif/predict/predict.h"

enum { SIDE_MAX = 32 }; /* of directional blocks */

/* ---- stores: side is a constant ---- */

AVX2_INLINE __m256i load(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

AVX2_INLINE void store_row(uint8_t *to, __m256i row, int side)
{
    __m128i low = _mm256_castsi256_si128(row);
    if (side == 4)
        memcpy(to, &(int32_t){_mm_cvtsi128_si32(low)}, 4);
    else if (side == 8)
        _mm_storel_epi64((__m128i *)to, low);
    else if (side == 16)
        _mm_storeu_si128((__m128i *)to, low);
    else
        _mm256_storeu_si256((__m256i *)to, row);
}

AVX2_INLINE __m256i load_row(const uint8_t *from, int side)
{
    if (side == 4) {
        int32_t four;
        memcpy(&four, from, 4);
        return _mm256_zextsi128_si256(_mm_cvtsi32_si128(four));
    }
    if (side == 8)
        return _mm256_zextsi128_si256(_mm_loadl_epi64((const __m128i *)from));
    if (side == 16)
        return _mm256_zextsi128_si256(_mm_loadu_si128((const __m128i *)from));
    return load(from);
}

/* ---- modes without an angle ---- */

AVX2_INLINE void fill(uint8_t *to, size_t stride, int side, __m256i row)
{
    for (int y = 0; y < side; y++, to += stride)
        for (int x = 0; x < side; x += 32)
            store_row(to + x, row, side < 32 ? side : 32);
}

AVX2_INLINE void predict_vertical(const uint8_t *above, int side, uint8_t *to, size_t stride)
{
    for (int y = 0; y < side; y++)
        memcpy(to + (size_t)y * stride, above, (size_t)side);
}

AVX2_INLINE void predict_horizontal(const uint8_t *left, int side, uint8_t *to, size_t stride)
{
    for (int y = 0; y < side; y++)
        memset(to + (size_t)y * stride, left[y], (size_t)side);
}

/* Eight or sixteen samples of SMOOTH: (a + b + 256) >> 9, where a and b have 16 bits. */
AVX2_INLINE __m256i halve_and_round(__m256i a, __m256i b)
{
    __m256i mean = _mm256_avg_epu16(a, b); /* rounded up */
    __m256i odd = _mm256_and_si256(_mm256_xor_si256(a, b), _mm256_set1_epi16(1));
    mean = _mm256_sub_epi16(mean, odd);
    return _mm256_srli_epi16(_mm256_add_epi16(mean, _mm256_set1_epi16(128)), 8);
}

AVX2_INLINE __m256i words_of(const uint8_t *bytes)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)bytes));
}

AVX2_INLINE void predict_smooth(const uint8_t *above, const uint8_t *left, int size, uint8_t *to,
                                size_t stride)
{
    int side = 1 << size;
    const uint8_t *weights = avif_smooth_weights + side;
    for (int x = 0; x < side; x += 16) {
        uint8_t across[16] = {0};
        memcpy(across, weights + x, (size_t)(side < 16 ? side : 16));
        __m256i weight_x = words_of(across), top = words_of(above + x);
        __m256i right = _mm256_mullo_epi16(_mm256_sub_epi16(_mm256_set1_epi16(256), weight_x),
                                           _mm256_set1_epi16(above[side - 1]));
        for (int y = 0; y < side; y++) {
            __m256i a = _mm256_mullo_epi16(top, _mm256_set1_epi16(weights[y]));
            int bottom = (256 - weights[y]) * left[side - 1];
            a = _mm256_add_epi16(a, _mm256_set1_epi16((int16_t)bottom));
            __m256i b = _mm256_mullo_epi16(weight_x, _mm256_set1_epi16(left[y]));
            __m256i sum = halve_and_round(a, _mm256_add_epi16(b, right));
            __m128i row =
                _mm_packus_epi16(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
            store_row(to + (size_t)y * stride + x, _mm256_zextsi128_si256(row),
                      side < 16 ? side : 16);
        }
    }
}

AVX2_INLINE void predict_plain(const struct avif_edges *edges, int size, int mode, uint8_t *to,
                               size_t stride)
{
    const uint8_t *above = edges->above_room + EDGE_BEFORE, *left = edges->left_room + EDGE_BEFORE;
    if (mode == DC_PRED)
        fill(to, stride, 1 << size, _mm256_set1_epi8((char)avif_dc(edges, size)));
    else if (mode == V_PRED)
        predict_vertical(above, 1 << size, to, stride);
    else if (mode == H_PRED)
        predict_horizontal(left, 1 << size, to, stride);
    else
        predict_smooth(above, left, size, to, stride);
}

/* ---- directional modes ---- */

/* Interpolates a row of samples from edge[0], edge[1] on; upsampled, from every other one. part: of
 * the next sample, in 32nds */
AVX2_INLINE __m256i between(const uint8_t *edge, int part, bool upsampled, int side)
{
    __m256i factors = _mm256_set1_epi16((int16_t)(32 - part + part * 256));
    __m256i half = _mm256_set1_epi16(1 << 10); /* mulhrs: (x + 16) >> 5 */
    if (upsampled) {
        __m256i pairs = _mm256_zextsi128_si256(_mm_loadu_si128((const __m128i *)edge));
        __m256i sum = _mm256_mulhrs_epi16(_mm256_maddubs_epi16(pairs, factors), half);
        return _mm256_packus_epi16(sum, sum);
    }
    if (side <= 16) {
        __m128i first = _mm_loadu_si128((const __m128i *)edge);
        __m128i second = _mm_loadu_si128((const __m128i *)(edge + 1));
        __m256i pairs =
            _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi8(first, second)),
                                    _mm_unpackhi_epi8(first, second), 1);
        __m256i sum = _mm256_mulhrs_epi16(_mm256_maddubs_epi16(pairs, factors), half);
        return _mm256_zextsi128_si256(
            _mm_packus_epi16(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1)));
    }
    __m256i first = load(edge), second = load(edge + 1);
    __m256i low = _mm256_maddubs_epi16(_mm256_unpacklo_epi8(first, second), factors);
    __m256i high = _mm256_maddubs_epi16(_mm256_unpackhi_epi8(first, second), factors);
    return _mm256_packus_epi16(_mm256_mulhrs_epi16(low, half), _mm256_mulhrs_epi16(high, half));
}

/* Transposes 8 x 8 bytes. */
AVX2_INLINE void transpose_8(const uint8_t *from, size_t from_stride, uint8_t *to, size_t stride)
{
    __m128i r[8];
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; i++)
        r[i] = _mm_loadl_epi64((const __m128i *)(from + i * from_stride));
    __m128i a = _mm_unpacklo_epi8(r[0], r[1]), b = _mm_unpacklo_epi8(r[2], r[3]);
    __m128i c = _mm_unpacklo_epi8(r[4], r[5]), d = _mm_unpacklo_epi8(r[6], r[7]);
    __m128i low = _mm_unpacklo_epi16(a, b), high = _mm_unpackhi_epi16(a, b);
    __m128i low2 = _mm_unpacklo_epi16(c, d), high2 = _mm_unpackhi_epi16(c, d);
    __m128i out[4] = {_mm_unpacklo_epi32(low, low2), _mm_unpackhi_epi32(low, low2),
                      _mm_unpacklo_epi32(high, high2), _mm_unpackhi_epi32(high, high2)};
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        _mm_storel_epi64((__m128i *)(to + 2 * i * stride), out[i]);
        _mm_storel_epi64((__m128i *)(to + (2 * i + 1) * stride), _mm_srli_si128(out[i], 8));
    }
}

AVX2_INLINE void transpose(const uint8_t *from, int side, uint8_t *to, size_t stride)
{
    if (side == 4) {
        for (size_t y = 0; y < 4; y++)
            for (size_t x = 0; x < 4; x++)
                to[y * stride + x] = from[x * SIDE_MAX + y];
        return;
    }
    for (int y = 0; y < side; y += 8)
        for (int x = 0; x < side; x += 8)
            transpose_8(from + x * SIDE_MAX + y, SIDE_MAX, to + (size_t)y * stride + x, stride);
}

/* Angles below 90 degrees: from above and to the right. */
AVX2_INLINE void rays_from_above(struct avif_rays *rays, int side, uint8_t *to, size_t stride)
{
    uint8_t *above = rays->above_room + EDGE_BEFORE;
    int up = rays->upsampled_above, last = (2 * side - 1) << up;
    memset(above + last + 1, above[last], 48);
    for (int y = 0; y < side; y++, to += stride) {
        int at = (y + 1) * rays->dx, base = at >> (6 - up), part = (at << up) >> 1 & 31;
        base = base < last ? base : last;
        store_row(to, between(above + base, part, up, side), side);
    }
}

/* Sets columns from the left edge as rows of `to`. angle_sign: of the direction of dy */
AVX2_INLINE void columns_from_left(const struct avif_rays *rays, int side, int sign, int columns,
                                   uint8_t *to)
{
    const uint8_t *left = rays->left_room + EDGE_BEFORE;
    int up = rays->upsampled_left;
    for (int x = 0; x < columns; x++, to += SIDE_MAX) {
        int at = sign * (x + 1) * rays->dy, base = at >> (6 - up);
        int part = (at * (1 << up)) >> 1 & 31;
        /* Columns before the edge are all from above. */
        base = base < -(side << up) ? -(side << up) : base;
        store_row(to, between(left + base, part, up, side), side);
    }
}

/* Angles above 180 degrees: from the left and below. */
AVX2_INLINE void rays_from_below(const struct avif_rays *rays, int side, uint8_t *to, size_t stride)
{
    uint8_t columns[SIDE_MAX * SIDE_MAX];
    columns_from_left(rays, side, 1, side, columns);
    transpose(columns, side, to, stride);
}

/* The first x of row y whose ray comes from above. */
AVX2_INLINE int first_from_above(const struct avif_rays *rays, int side, int y)
{
    int up = rays->upsampled_above;
    int before = -(1 << up) - (-(y + 1) * rays->dx >> (6 - up));
    int first = before <= 0 ? 0 : (before + up) >> up;
    return first < side ? first : side;
}

/* Angles between 90 and 180 degrees: from above and from the left. */
AVX2_INLINE void rays_from_both(const struct avif_rays *rays, int side, uint8_t *to, size_t stride)
{
    uint8_t columns[SIDE_MAX * SIDE_MAX];
    const uint8_t *above = rays->above_room + EDGE_BEFORE;
    const __m256i order =
        _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
                         21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    int up = rays->upsampled_above;
    columns_from_left(rays, side, -1, first_from_above(rays, side, side - 1), columns);
    transpose(columns, side, to, stride);
    for (int y = 0; y < side; y++, to += stride) {
        int at = -(y + 1) * rays->dx, first = first_from_above(rays, side, y);
        if (first == side)
            continue;
        __m256i row = between(above + (at >> (6 - up)), (at * (1 << up)) >> 1 & 31, up, side);
        __m256i from_left = _mm256_cmpgt_epi8(_mm256_set1_epi8((char)first), order);
        store_row(to, _mm256_blendv_epi8(row, load_row(to, side), from_left), side);
    }
}

/* Sixteen samples from edge[at] on, in which those before the corner are the corner, and those
 * after edge[last] are edge[last]. In registers, because loads that span recent stores are slow. */
AVX2_INLINE __m256i samples_at(const uint8_t *edge, int at, int last, __m128i corner, __m128i end)
{
    const __m128i order = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m128i samples = _mm_loadu_si128((const __m128i *)(edge + at));
    __m128i index = _mm_add_epi8(order, _mm_set1_epi8((char)at));
    samples = _mm_blendv_epi8(samples, corner, index); /* a negative index */
    samples = _mm_blendv_epi8(samples, end, _mm_cmpgt_epi8(index, _mm_set1_epi8((char)last)));
    return _mm256_cvtepu8_epi16(samples);
}

/* As avif_filter_edge, but copies the samples, up to `count` of them without the corner. */
AVX2_INLINE void filter_edge(const uint8_t *edge, const struct avif_edge_plan *plan, uint8_t corner,
                             uint8_t *to)
{
    int outer = plan->strength == 3 ? 2 : 0, inner = plan->strength == 2 ? 5 : 4;
    int last = plan->filtered - 2;
    __m128i first = _mm_set1_epi8((char)corner), end = _mm_set1_epi8((char)edge[last]);
    __m256i factor_inner = _mm256_set1_epi16((int16_t)inner);
    __m256i factor = _mm256_set1_epi16((int16_t)(16 - 2 * outer - 2 * inner));
    for (int i = 0; i <= last; i += 16) {
        __m256i sum = _mm256_mullo_epi16(samples_at(edge, i, last, first, end), factor);
        __m256i both = _mm256_add_epi16(samples_at(edge, i - 1, last, first, end),
                                        samples_at(edge, i + 1, last, first, end));
        sum = _mm256_add_epi16(sum, _mm256_mullo_epi16(both, factor_inner));
        if (outer > 0) {
            both = _mm256_add_epi16(samples_at(edge, i - 2, last, first, end),
                                    samples_at(edge, i + 2, last, first, end));
            sum = _mm256_add_epi16(sum, _mm256_slli_epi16(both, 1));
        }
        sum = _mm256_srli_epi16(_mm256_add_epi16(sum, _mm256_set1_epi16(8)), 4);
        _mm_storeu_si128((__m128i *)(to + i), _mm_packus_epi16(_mm256_castsi256_si128(sum),
                                                               _mm256_extracti128_si256(sum, 1)));
    }
    if (last + 1 < plan->count)
        memcpy(to + last + 1, edge + last + 1, (size_t)(plan->count - last - 1));
}

/* As avif_upsample_edge, from another edge. count: 4, 8 or 16 */
AVX2_INLINE void upsample_edge(const uint8_t *edge, int count, uint8_t *to)
{
    __m128i corner = _mm_set1_epi8((char)edge[-1]), end = _mm_set1_epi8((char)edge[count - 1]);
    __m256i inner = _mm256_add_epi16(samples_at(edge, -1, count - 1, corner, end),
                                     samples_at(edge, 0, count - 1, corner, end));
    __m256i outer = _mm256_add_epi16(samples_at(edge, -2, count - 1, corner, end),
                                     samples_at(edge, 1, count - 1, corner, end));
    __m256i sum = _mm256_sub_epi16(_mm256_mullo_epi16(inner, _mm256_set1_epi16(9)), outer);
    sum = _mm256_srai_epi16(_mm256_add_epi16(sum, _mm256_set1_epi16(8)), 4);
    __m128i half = _mm_packus_epi16(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    __m128i whole = _mm_loadu_si128((const __m128i *)edge);
    to[-2] = edge[-1];
    _mm_storeu_si128((__m128i *)(to - 1), _mm_unpacklo_epi8(half, whole));
    _mm_storeu_si128((__m128i *)(to + 15), _mm_unpackhi_epi8(half, whole));
}

/* Copies an edge that the rays meet, and prepares it. Edges that are upsampled are not filtered. */
AVX2_INLINE void prepare_edge(const uint8_t *edge, const struct avif_edge_plan *plan,
                              uint8_t corner, uint8_t *to)
{
    if (plan->count == 0)
        return;
    if (plan->upsampled) {
        upsample_edge(edge, plan->count, to);
        return;
    }
    to[-1] = corner;
    if (plan->filtered > 0 && plan->strength > 0)
        filter_edge(edge, plan, corner, to);
    else
        for (int i = 0; i < plan->count; i += 32)
            _mm256_storeu_si256((__m256i *)(to + i), load(edge + i));
}

AVX2_INLINE void predict_rays(const struct avif_edges *edges, int size, int angle, bool smooth,
                              uint8_t *to, size_t stride)
{
    const uint8_t *above = edges->above_room + EDGE_BEFORE, *left = edges->left_room + EDGE_BEFORE;
    struct avif_rays rays;
    struct avif_edge_plan plan_above, plan_left;
    avif_plan_rays(edges, size, angle, smooth, &rays, &plan_above, &plan_left);
    uint8_t corner =
        angle > 90 && angle < 180 && size >= 4 ? avif_filter_corner(above, left) : above[-1];
    prepare_edge(above, &plan_above, corner, rays.above_room + EDGE_BEFORE);
    prepare_edge(left, &plan_left, corner, rays.left_room + EDGE_BEFORE);
    if (angle < 90)
        rays_from_above(&rays, 1 << size, to, stride);
    else if (angle > 180)
        rays_from_below(&rays, 1 << size, to, stride);
    else
        rays_from_both(&rays, 1 << size, to, stride);
}

/* size: a constant */
AVX2_INLINE void predict_size(const struct avif_edges *edges, int size, int mode, int delta,
                              bool smooth, uint8_t *to, size_t stride)
{
    int angle = avif_is_directional(mode) ? avif_angle(mode, delta) : 90;
    if (angle % 90 == 0)
        predict_plain(edges, size, mode, to, stride);
    else
        predict_rays(edges, size, angle, smooth, to, stride);
}

AVX2 void avif_predict_avx2(const struct avif_edges *edges, int size, int mode, int delta,
                            bool smooth, uint8_t *to, size_t stride)
{
    switch (size) {
    case 2:
        predict_size(edges, 2, mode, delta, smooth, to, stride);
        break;
    case 3:
        predict_size(edges, 3, mode, delta, smooth, to, stride);
        break;
    case 4:
        predict_size(edges, 4, mode, delta, smooth, to, stride);
        break;
    case 5:
        predict_size(edges, 5, mode, delta, smooth, to, stride);
        break;
    default:
        predict_plain(edges, 6, mode, to, stride);
        break;
    }
}

#endif
