/*
 * Tests of the loops of the AV1 encoder: the plain ones against their definitions, and those with
 * AVX2 against the plain ones, also with values that no image has.
 */
#include "tests/fixtures/test.h"

#include <math.h>

#include "gpu/avif/frame/activity.h"
#include "gpu/avif/kernels/kernels.h"
#include "gpu/avif/predict/predict.h"
#include "gpu/avif/transform/levels.h"

enum { STRIDE = 80, SIDE = 64 };

static uint32_t random_state = 12345;
static uint32_t random_word(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

static int random_below(uint32_t end)
{
    return (int)(random_word() % end);
}

/* A block of samples, and its prediction. */
struct block {
    uint8_t source[STRIDE * SIDE];
    uint8_t prediction[SIDE * SIDE] __attribute__((aligned(AVIF_KERNEL_ALIGN)));
};

enum contents { NOISE, STRIPES, EXTREMES, SIMILAR, CONTENTS };

static void fill(struct block *block, enum contents contents)
{
    for (int i = 0; i < SIDE * SIDE; i++)
        block->prediction[i] =
            (uint8_t)(contents == EXTREMES ? 255 * random_below(2) : 100 + i % 50 + i / 300);
    for (int i = 0; i < STRIDE * SIDE; i++)
        block->source[i] = (uint8_t)(contents == NOISE      ? random_below(256)
                                     : contents == STRIPES  ? i % 7 * 30
                                     : contents == EXTREMES ? 255 * random_below(2)
                                                            : 100 + i % 50 + random_below(9));
}

static struct avif_quantiser quantiser_of(int quality, int effort)
{
    struct avif_frame frame;
    const struct avif_encode_options options = {.quality = quality, .effort = effort};
    assert_true(avif_frame_set(&frame, 64, 64, 3, &options));
    return frame.quantiser;
}

static int types_of(int size)
{
    return size <= 4 ? TRANSFORM_TYPES : 1;
}

/* ---- definitions ---- */

/* Element n of the basis function k of an orthonormal transform. */
static double basis(int size, bool adst, int k, int n)
{
    const double pi = acos(-1);
    int side = 1 << size;
    if (!adst)
        return sqrt((k > 0 ? 2. : 1.) / side) * cos(pi * (2 * n + 1) * k / (2. * side));
    if (size == 2)
        return sqrt(8. / 9) * sin(pi * (2 * k + 1) * (n + 1) / 9.) / sqrt(2.);
    return sqrt(2. / side) * sin(pi * (2 * n + 1) * (2 * k + 1) / (4. * side));
}

static double coefficient(const struct block *block, int size, int type, int row, int column)
{
    bool adst_rows = type == DCT_ADST || type == ADST_ADST;
    bool adst_columns = type == ADST_DCT || type == ADST_ADST;
    double sum = 0;
    if (type == IDENTITY)
        return 8. *
               (block->source[row * STRIDE + column] - block->prediction[(row << size) + column]);
    for (int y = 0; y < 1 << size; y++)
        for (int x = 0; x < 1 << size; x++)
            sum += (block->source[y * STRIDE + x] - block->prediction[(y << size) + x]) *
                   basis(size, adst_columns, row, y) * basis(size, adst_rows, column, x);
    return 8 * sum;
}

TEST(transforms_are_eight_times_the_orthonormal_ones)
{
    static struct block block;
    for (int size = 2; size <= 6; size++)
        for (int type = 0; type < types_of(size); type++) {
            struct avif_coefficients coefficients;
            int side = avif_coded_side(size);
            fill(&block, NOISE);
            avif_kernels_plain.transform(block.source, STRIDE, block.prediction, 1u << size, size,
                                         type, &coefficients);
            for (int i = 0; i < 40; i++) {
                int row = i ? random_below((uint32_t)side) : 0;
                int column = i ? random_below((uint32_t)side) : 0;
                double expected = coefficient(&block, size, type, row, column);
                double difference = coefficients.of[row * side + column] - expected;
                if (fabs(difference) > 2 + fabs(expected) / 1000)
                    fail_msg("size %d, type %d, row %d, column %d: %d, not %.2f", size, type, row,
                             column, coefficients.of[row * side + column], expected);
            }
        }
}

TEST(the_inverse_transform_restores_samples)
{
    static struct block block;
    for (int size = 2; size <= 5; size++)
        for (int type = 0; type < types_of(size); type++) {
            struct avif_coefficients coefficients;
            int16_t columns[COEFFICIENTS_MAX] __attribute__((aligned(AVIF_KERNEL_ALIGN)));
            int side = 1 << size;
            fill(&block, SIMILAR);
            avif_kernels_plain.transform(block.source, STRIDE, block.prediction, (size_t)side, size,
                                         type, &coefficients);
            for (int i = 0; i < side * side; i++)
                columns[i % side * side + i / side] =
                    (int16_t)(coefficients.of[i] / (size == 5 ? 2 : 1));
            avif_kernels_plain.inverse(columns, size, type, side, block.prediction, (size_t)side);
            for (int i = 0; i < side * side; i++)
                assert_in_range(
                    block.prediction[i] + 1 - block.source[i / side * STRIDE + i % side], 0, 2);
        }
}

TEST(the_satd_is_the_sum_of_hadamard_coefficients)
{
    static struct block block;
    fill(&block, NOISE);
    int sum = 0;
    for (int i = 0; i < 64; i++) {
        int coefficient = 0;
        for (int k = 0; k < 64; k++) /* the signs of the basis function i */
            coefficient += (block.source[k / 8 * STRIDE + k % 8] - block.prediction[k]) *
                           (__builtin_parity((unsigned)(i & k)) ? -1 : 1);
        sum += abs(coefficient);
    }
    assert_int_equal(avif_kernels_plain.satd(block.source, STRIDE, block.prediction, 8, 3), sum);
}

TEST(levels_are_quotients)
{
    for (int quality = 1; quality <= 99; quality++) {
        struct avif_quantiser quantiser = quantiser_of(quality, 0);
        for (int i = 0; i < 200; i++) {
            uint32_t value = random_word() % (1 << 17), step = (uint32_t)quantiser.steps[i % 2];
            uint32_t rounding = (uint32_t)quantiser.rounding[i % 2];
            assert_int_equal(avif_level_of(value, rounding, quantiser.inverse[i % 2]),
                             (value + rounding) / step);
        }
    }
}

/* Noise of -contrast to contrast. */
static void fill_noise(struct block *block, int contrast)
{
    for (int i = 0; i < STRIDE * SIDE; i++)
        block->source[i] =
            (uint8_t)(contrast > 127 ? 255 * random_below(2)
                                     : 128 + random_below((uint32_t)(2 * contrast + 1)) - contrast);
}

/* How often 2 v + c is twice c, which are the variance and the constant in SSIM's divisor. */
static int activity_of(const uint8_t *samples)
{
    double sum = 0, squares = 0, constant = 58;
    for (int i = 0; i < 64; i++) {
        double value = samples[i / 8 * STRIDE + i % 8];
        sum += value / 64;
        squares += value * value / 64;
    }
    return (int)log2((floor(2 * (squares - sum * sum)) + constant) / constant);
}

TEST(activities_are_means_of_doublings)
{
    static const int contrasts[] = {0, 1, 4, 8, 16, 32, 64, 127, 128};
    struct block block;
    const struct avif_plane plane = {block.source, STRIDE};
    for (size_t i = 0; i < COUNT_OF(contrasts); i++)
        for (int size = 2; size <= 6; size++) {
            int cells = size > 3 ? 1 << (size - 3) : 1;
            double sum = 0;
            fill_noise(&block, contrasts[i]);
            for (int k = 0; k < cells * cells; k++)
                sum += activity_of(block.source + k / cells * 8 * STRIDE + k % cells * 8);
            int activity = avif_activity(&plane, 0, 0, size);
            assert_int_equal(activity, (int)(sum / (cells * cells) + 0.5));
            assert_in_range(activity, 0, contrasts[i] > 0 ? ACTIVITIES - 1 : 0);
        }
}

/* By 2^(1/4) for each doubling; at effort 0, by 2^0.3. */
static void expect_costs_to_grow(const struct avif_encode_options *options)
{
    struct avif_frame frame;
    struct avif_quantiser quantisers[ACTIVITIES];
    double growth = pow(2, options->effort == 0 ? 0.3 : 0.25);
    assert_true(avif_frame_set(&frame, 64, 64, 3, options));
    avif_set_quantisers(&frame, quantisers);
    for (int i = 1; i < ACTIVITIES; i++) {
        double times = (double)quantisers[i].lambda / (double)quantisers[i - 1].lambda;
        assert_true(fabs(times - growth) < 0.02);
        for (int group = 0; group < LOWER_CLASSES; group++)
            assert_true(quantisers[i].lowered[1][group] >= quantisers[i - 1].lowered[1][group]);
        assert_int_equal(quantisers[i].steps[1], frame.quantiser.steps[1]);
    }
    assert_true(quantisers[0].lambda < frame.quantiser.lambda);
    assert_true(quantisers[ACTIVITIES - 1].lambda > frame.quantiser.lambda);
}

TEST(bits_cost_more_amid_contrast)
{
    for (int effort = 0; effort <= AVIF_EFFORT_MAX; effort++)
        for (int quality = 1; quality < 100; quality += 7)
            expect_costs_to_grow(
                &(struct avif_encode_options){.quality = quality, .effort = effort});
}

TEST(scans_are_diagonals)
{
    /* Default_Scan_4x4 of the specification, and some of the others. */
    static const uint8_t scan_4[] = {0, 1, 4, 8, 5, 2, 3, 6, 9, 12, 13, 10, 7, 11, 14, 15};
    const struct avif_scans *scans = avif_scans();
    for (int i = 0; i < 16; i++)
        assert_int_equal(scans->positions[0][i], scan_4[i]);
    assert_int_equal(scans->positions[1][63], 63);
    assert_int_equal(scans->positions[3][1], 1);
    assert_int_equal(scans->positions[3][3], 64);
    for (int size = 2; size <= 5; size++)
        for (int i = 0; i < 1 << (2 * size); i++)
            assert_int_equal(scans->ranks[size - 2][scans->positions[size - 2][i]], i + 1);
}

/* ---- AVX2 ---- */

static const struct avif_kernels *need_avx2(void)
{
    const struct avif_kernels *kernels = avif_kernels_avx2();
    if (!kernels)
        skip();
    return kernels;
}

static void random_edges(struct avif_edges *edges, bool smooth)
{
    for (int i = 0; i < EDGE_ROOM; i++) {
        edges->above_room[i] = (uint8_t)(smooth ? 100 + random_below(8) : random_below(256));
        edges->left_room[i] = (uint8_t)(smooth ? 100 + random_below(8) : random_below(256));
    }
    edges->above_room[EDGE_BEFORE - 1] = edges->left_room[EDGE_BEFORE - 1];
    edges->has_above = random_below(8) > 0;
    edges->has_left = random_below(8) > 0;
    edges->rest_x = random_below(2) ? 200 : 4 + 4 * random_below(16);
    edges->rest_y = random_below(2) ? 200 : 4 + 4 * random_below(16);
}

TEST(imports_with_avx2_are_equal)
{
    const struct avif_kernels *kernels = need_avx2();
    for (uint32_t width = 1; width < 100; width++)
        for (uint32_t channels = 3; channels <= 4; channels++) {
            uint8_t pixels[2][400], luma[2][2][104] = {0}, chroma[2][2][52] = {0};
            for (int i = 0; i < 800; i++) /* the extremes, too */
                pixels[i / 400][i % 400] =
                    (uint8_t)(width % 3 ? random_below(256) : 255 * random_below(2));
            for (int i = 0; i < 2; i++) {
                const uint8_t *const rows[] = {pixels[0], pixels[1]};
                uint8_t *const lumas[] = {luma[i][0], luma[i][1]};
                (i ? kernels : &avif_kernels_plain)
                    ->import(rows, width, channels, lumas, chroma[i][0], chroma[i][1]);
            }
            assert_memory_equal(luma[0], luma[1], sizeof luma[0]);
            assert_memory_equal(chroma[0], chroma[1], sizeof chroma[0]);
        }
}

TEST(predictions_with_avx2_are_equal)
{
    const struct avif_kernels *kernels = need_avx2();
    for (int i = 0; i < 20000; i++) {
        struct avif_edges edges;
        uint8_t expected[SIDE * SIDE], samples[SIDE * SIDE];
        int size = 2 + random_below(5), mode = random_below(SMOOTH_PRED + 1);
        mode = size == 6 && mode > H_PRED ? SMOOTH_PRED : mode;
        int delta = avif_is_directional(mode) && size < 6 ? random_below(7) - 3 : 0;
        bool smooth = random_below(2);
        random_edges(&edges, random_below(2));
        avif_kernels_plain.predict(&edges, size, mode, delta, smooth, expected, 1u << size);
        kernels->predict(&edges, size, mode, delta, smooth, samples, 1u << size);
        if (memcmp(samples, expected, 1u << (2 * size)) != 0)
            fail_msg("size %d, mode %d, delta %d, smooth %d", size, mode, delta, smooth);
    }
}

/* 0.55 of a step: a level of 1 whose neighbours are 0 costs more than it is worth. */
static int level_alone(int size, int at, int effort)
{
    static struct avif_coefficients coefficients;
    static int16_t levels[COEFFICIENTS_MAX];
    struct avif_quantiser quantiser = quantiser_of(60, effort);
    memset(&coefficients, 0, sizeof coefficients);
    coefficients.of[at] = -quantiser.steps[at > 0] * 55 / 100;
    int end = avif_kernels_plain.quantise(&coefficients, size, &quantiser, levels);
    assert_int_equal(end > 0, levels[at] != 0);
    return levels[at];
}

TEST(effort_0_keeps_levels_of_low_frequencies)
{
    for (int size = 2; size <= 6; size++) {
        int side = 1 << avif_min(size, 5);
        for (int at = 0; at < side * side; at++) {
            /* In cycles per 8 samples, both directions together. */
            double frequency = (at / side + at % side) * 4.0 / (1 << size);
            assert_int_equal(level_alone(size, at, 0), frequency < 1 ? -1 : 0);
            assert_int_equal(level_alone(size, at, 1), 0);
        }
    }
}

TEST(coefficients_and_levels_with_avx2_are_equal)
{
    const struct avif_kernels *kernels = need_avx2();
    static struct block block;
    for (int i = 0; i < 1500; i++) {
        struct avif_coefficients expected, coefficients;
        int16_t expected_levels[COEFFICIENTS_MAX] __attribute__((aligned(AVIF_KERNEL_ALIGN)));
        int16_t levels[COEFFICIENTS_MAX] __attribute__((aligned(AVIF_KERNEL_ALIGN)));
        struct avif_quantiser quantiser = quantiser_of(1 + random_below(99), i / 5 % 2);
        int size = 2 + i % 5, type = random_below((uint32_t)types_of(size));
        size_t count = (size_t)1 << (2 * avif_min(size, 5)), side = (size_t)1 << size;
        fill(&block, (enum contents)random_below(CONTENTS));
        avif_kernels_plain.transform(block.source + 3, STRIDE, block.prediction, side, size, type,
                                     &expected);
        kernels->transform(block.source + 3, STRIDE, block.prediction, side, size, type,
                           &coefficients);
        assert_memory_equal(coefficients.of, expected.of, count * sizeof *expected.of);
        assert_int_equal(coefficients.lost, expected.lost);
        assert_int_equal(kernels->cost(&expected, size, &quantiser),
                         avif_kernels_plain.cost(&expected, size, &quantiser));
        assert_int_equal(kernels->quantise(&expected, size, &quantiser, levels),
                         avif_kernels_plain.quantise(&expected, size, &quantiser, expected_levels));
        assert_memory_equal(levels, expected_levels, count * sizeof *levels);
        if (size > 2)
            assert_int_equal(
                kernels->satd(block.source + 3, STRIDE, block.prediction, side, size),
                avif_kernels_plain.satd(block.source + 3, STRIDE, block.prediction, side, size));
    }
}

TEST(inverse_transforms_with_avx2_are_equal)
{
    const struct avif_kernels *kernels = need_avx2();
    static struct block expected, samples;
    for (int i = 0; i < 3000; i++) {
        int16_t columns[COEFFICIENTS_MAX] __attribute__((aligned(AVIF_KERNEL_ALIGN))) = {0};
        int size = 2 + i % 5, type = random_below((uint32_t)types_of(size));
        int side = avif_coded_side(size), rows = 1 + random_below((uint32_t)side);
        bool extreme = random_below(8) == 0;
        for (int at = 0; at < side * side; at++)
            if (at % side < rows && random_below(4) == 0)
                columns[at] = (int16_t)(extreme ? random_below(65536) : random_below(2000) - 1000);
        fill(&expected, NOISE);
        memcpy(&samples, &expected, sizeof samples);
        avif_kernels_plain.inverse(columns, size, type, rows, expected.source, STRIDE);
        kernels->inverse(columns, size, type, rows, samples.source, STRIDE);
        if (memcmp(&samples, &expected, sizeof samples) != 0)
            fail_msg("size %d, type %d, %d rows, extreme %d", size, type, rows, extreme);
    }
}

TEST_MAIN()
