/* kernels.c - the loops of kernels.h in plain C. They define the results. */
#include "gpu/avif/kernels/kernels.h"

#include "gpu/avif/kernels/import.h"
#include "gpu/avif/predict/predict.h"
#include "gpu/avif/transform/levels.h"
#include "gpu/avif/transform/transform.h"

/* ---- import ---- */

static void import(const uint8_t *const rows[2], uint32_t width, uint32_t channels,
                   uint8_t *const luma[2], uint8_t *u, uint8_t *v)
{
    for (uint32_t x = 0; x < width; x += 2) {
        /* The last column of an odd width counts twice. */
        size_t left = (size_t)x * channels, right = x + 1 < width ? left + channels : left;
        int sums[3] = {0, 0, 0};
        for (int i = 0; i < 2; i++) {
            const uint8_t *a = rows[i] + left, *b = rows[i] + right;
            luma[i][x] = (uint8_t)avif_luma(a[0], a[1], a[2]);
            luma[i][x + (x + 1 < width)] = (uint8_t)avif_luma(b[0], b[1], b[2]);
            for (int c = 0; c < 3; c++)
                sums[c] += a[c] + b[c];
        }
        u[x / 2] = (uint8_t)avif_cb(sums[0], sums[1], sums[2]);
        v[x / 2] = (uint8_t)avif_cr(sums[0], sums[1], sums[2]);
    }
}

/* ---- predictions ---- */

static void predict_rays(const struct avif_edges *edges, int size, int angle, bool smooth,
                         uint8_t *to, size_t stride)
{
    struct avif_rays rays;
    memcpy(rays.above_room, edges->above_room, sizeof rays.above_room);
    memcpy(rays.left_room, edges->left_room, sizeof rays.left_room);
    avif_prepare_rays(edges, size, angle, smooth, &rays);
    for (int y = 0; y < 1 << size; y++)
        for (int x = 0; x < 1 << size; x++)
            to[(size_t)y * stride + x] = (uint8_t)avif_ray_sample(&rays, size, x, y);
}

static void predict(const struct avif_edges *edges, int size, int mode, int delta, bool smooth,
                    uint8_t *to, size_t stride)
{
    const uint8_t *above = edges->above_room + EDGE_BEFORE, *left = edges->left_room + EDGE_BEFORE;
    int angle = avif_is_directional(mode) ? avif_angle(mode, delta) : 0, side = 1 << size;
    if (avif_is_directional(mode) && angle != 90 && angle != 180) {
        predict_rays(edges, size, angle, smooth, to, stride);
        return;
    }
    int dc = mode == DC_PRED ? avif_dc(edges, size) : 0;
    for (int y = 0; y < side; y++, to += stride)
        for (int x = 0; x < side; x++)
            to[x] = (uint8_t)(mode == DC_PRED ? dc
                              : angle == 90   ? above[x]
                              : angle == 180  ? left[y]
                                              : avif_smooth(above, left, size, x, y));
}

/* ---- differences ---- */

static void hadamard(int *t, int step)
{
    for (int half = 1; half < 8; half *= 2)
        for (int i = 0; i < 8; i++)
            if (!(i & half)) {
                int a = t[i * step], b = t[(i + half) * step];
                t[i * step] = a + b;
                t[(i + half) * step] = a - b;
            }
}

static int satd(const uint8_t *source, size_t source_stride, const uint8_t *prediction,
                size_t stride, int size)
{
    int sum = 0;
    for (int top = 0; top < 1 << size; top += 8)
        for (int left = 0; left < 1 << size; left += 8) {
            int t[64];
            for (int i = 0; i < 64; i++)
                t[i] = source[(size_t)(top + i / 8) * source_stride + left + i % 8] -
                       prediction[(size_t)(top + i / 8) * stride + left + i % 8];
            for (int i = 0; i < 8; i++)
                hadamard(t + 8 * i, 1);
            for (int i = 0; i < 8; i++)
                hadamard(t + i, 8);
            for (int i = 0; i < 64; i++)
                sum += avif_abs(t[i]);
        }
    return sum;
}

/* ---- transforms ---- */

static void transform(const uint8_t *source, size_t source_stride, const uint8_t *prediction,
                      size_t stride, int size, int type, struct avif_coefficients *to)
{
    const struct avif_matrices *matrices = avif_matrices();
    const int16_t *down =
        avif_adst_columns(type) ? matrices->adst[size - 2] : matrices->dct[size - 2];
    const int16_t *across =
        avif_adst_rows(type) ? matrices->adst[size - 2] : matrices->dct[size - 2];
    int side = 1 << size, coded = avif_coded_side(size);
    int16_t differences[64 * 64], columns[32 * 64];
    int64_t energy = 0;
    for (int i = 0; i < side * side; i++) {
        size_t y = (size_t)i >> size, x = (size_t)i & (size_t)(side - 1);
        int difference = source[y * source_stride + x] - prediction[y * stride + x];
        differences[i] = (int16_t)difference;
        energy += difference * difference;
    }
    for (int k = 0; k < coded; k++)
        for (int x = 0; x < side; x++) {
            int sum = 0;
            for (int n = 0; n < side; n++)
                sum += down[k * side + n] * differences[n * side + x];
            columns[k * side + x] = (int16_t)((sum + (1 << 9)) >> 10);
        }
    if (type == IDENTITY) {
        for (int i = 0; i < side * side; i++)
            to->of[i] = 8 * differences[i];
        to->lost = 0;
        return;
    }
    int64_t coded_energy = 0;
    for (int i = 0; i < coded * coded; i++) {
        int row = i / coded, k = i % coded, sum = 0;
        for (int n = 0; n < side; n++)
            sum += across[k * side + n] * columns[row * side + n];
        to->of[i] = (sum + (1 << 12)) >> 13;
        coded_energy += (int64_t)to->of[i] * to->of[i];
    }
    to->lost = size == 6 && 64 * energy > coded_energy ? 64 * energy - coded_energy : 0;
}

static void inverse_line(const int *from, int *to, int size, bool adst)
{
    switch (size) {
    case 2:
        if (adst)
            avif_inverse_adst_4(from, to);
        else
            avif_inverse_dct(from, to, 2);
        break;
    case 3:
        if (adst)
            avif_inverse_adst(from, to, 3);
        else
            avif_inverse_dct(from, to, 3);
        break;
    case 4:
        if (adst)
            avif_inverse_adst(from, to, 4);
        else
            avif_inverse_dct(from, to, 4);
        break;
    case 5:
        avif_inverse_dct(from, to, 5);
        break;
    default:
        avif_inverse_dct(from, to, 6);
        break;
    }
}

static void inverse_identity(const int16_t *columns, int size, int rows, uint8_t *to, size_t stride)
{
    for (int y = 0; y < rows; y++, to += stride)
        for (int x = 0; x < 1 << size; x++) {
            int part = (avif_inverse_identity(columns[(x << size) + y], size) + 8) >> 4;
            to[x] = (uint8_t)avif_clip(to[x] + part);
        }
}

static void inverse(const int16_t *columns, int size, int type, int rows, uint8_t *to,
                    size_t stride)
{
    int side = 1 << size, coded = avif_coded_side(size), shift = avif_row_shift(size);
    if (type == IDENTITY) {
        inverse_identity(columns, size, rows, to, stride);
        return;
    }
    int16_t between[64 * 64];
    int from[64] = {0}, line[64];
    memset(between, 0, sizeof between);
    for (int y = 0; y < rows; y++) {
        for (int x = 0; x < coded; x++)
            from[x] = columns[x * coded + y];
        inverse_line(from, line, size, avif_adst_rows(type));
        for (int x = 0; x < side; x++)
            between[x * side + y] = (int16_t)((line[x] + (1 << shift >> 1)) >> shift);
    }
    for (int x = 0; x < side; x++) {
        for (int y = 0; y < side; y++)
            from[y] = between[x * side + y];
        inverse_line(from, line, size, avif_adst_columns(type));
        for (int y = 0; y < side; y++) {
            uint8_t *sample = &to[(size_t)y * stride + x];
            *sample = (uint8_t)avif_clip(*sample + ((line[y] + 8) >> 4));
        }
    }
}

/* ---- levels ---- */

static int64_t cost(const struct avif_coefficients *from, int size,
                    const struct avif_quantiser *quantiser)
{
    int count = avif_coded_side(size) * avif_coded_side(size), sixteenths = COST_BLOCK;
    int64_t error = from->lost;
    for (int i = 0; i < count; i++) {
        int value = avif_abs(from->of[i]);
        int level = avif_level_of((uint32_t)value, (uint32_t)quantiser->cost_rounding,
                                  quantiser->inverse[1]);
        int rest = value - level * quantiser->steps[1];
        error += (int64_t)rest * rest;
        if (level > 0)
            sixteenths += COST_LEVEL + COST_DOUBLING * highest_bit((uint32_t)level);
    }
    return error + avif_cost_of(quantiser, sixteenths);
}

static int quantise(const struct avif_coefficients *from, int size,
                    const struct avif_quantiser *quantiser, int16_t *levels)
{
    const uint16_t *ranks = avif_scans()->ranks[avif_min(size, 5) - 2];
    int side = avif_coded_side(size), end = 0;
    int16_t before[COEFFICIENTS_MAX];
    for (int i = 0; i < side * side; i++)
        before[i] =
            (int16_t)avif_level_of((uint32_t)avif_abs(from->of[i]),
                                   (uint32_t)quantiser->rounding[i > 0], quantiser->inverse[i > 0]);
    for (int i = 0; i < side * side; i++) {
        int level = before[i], error = avif_abs(from->of[i]) - level * quantiser->steps[i > 0];
        /* The sum is of the levels before any of them is lowered. */
        if (level > 0 && !(quantiser->keeps_low && avif_is_low(size, i / side, i % side))) {
            int group = avif_lower_class(level, avif_level_sum(before, side, i / side, i % side));
            level -= error < quantiser->lowered[i > 0][group];
        }
        levels[i] = (int16_t)(from->of[i] < 0 ? -level : level);
        if (level > 0)
            end = avif_max(end, ranks[i]);
    }
    return end;
}

const struct avif_kernels avif_kernels_plain = {
    .import = import,
    .predict = predict,
    .satd = satd,
    .transform = transform,
    .cost = cost,
    .quantise = quantise,
    .inverse = inverse,
};
