/*
 * Tests of the pass that makes a tensor, on both engines. The reference computes in double, which
 * rounds each step to the same float32, and finds float16 among all of its values.
 */
#include "tests/fixtures/gpu/both_engines.h"

#include <math.h>

#include "gpu/plan/pass.h"

/* ---- the reference ---- */

/* Half-precision bits as a number: IEEE 754 binary16. */
static double half_value(uint32_t bits)
{
    int exponent = (int)(bits >> 10 & 31);
    double fraction = (bits & 1023) / 1024.0;
    double size = exponent == 31 ? 65536.0 /* infinity begins as if there were no limit */
                  : exponent > 0 ? ldexp(1 + fraction, exponent - 15)
                                 : ldexp(fraction, -14);
    return bits >> 15 ? -size : size;
}

static uint32_t nearest_half(double number)
{
    uint32_t sign = signbit(number) ? 0x8000 : 0, best = 0;
    double size = fabs(number), least = INFINITY;
    for (uint32_t bits = 0; bits <= 0x7C00; bits++) {
        double distance = fabs(half_value(bits) - size);
        if (distance < least || (distance == least && bits % 2 == 0))
            least = distance, best = bits;
    }
    return sign | best;
}

static uint32_t float_bits(double number)
{
    float single = (float)number;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return bits;
}

static double normalized(const struct normalization *normalize, uint32_t channel, int value)
{
    double mean = (float)normalize->mean[normalize->mean_count == 1 ? 0 : channel];
    double std = (float)normalize->std[normalize->std_count == 1 ? 0 : channel];
    double scaled = (float)(value / 255.0), centred = (float)(scaled - mean);
    return (float)(centred / std);
}

static uint32_t number_of(const struct plan_tensor *tensor, uint32_t channel, int value)
{
    static const struct normalization *last;
    static uint32_t halves[4][256];
    static bool known[4][256];
    double number = tensor->normalize ? normalized(tensor->normalize, channel, value) : value;
    if (tensor->type == TENSOR_U8)
        return (uint32_t)value;
    if (tensor->type == TENSOR_F32)
        return float_bits(number);
    if (tensor->normalize != last)
        memset(known, 0, sizeof known);
    last = tensor->normalize;
    if (!known[channel][value])
        halves[channel][value] = nearest_half(number);
    known[channel][value] = true;
    return halves[channel][value];
}

/* Number i of a tensor. */
static uint32_t stored(const uint8_t *bytes, enum tensor_type type, size_t i)
{
    uint32_t number = 0;
    memcpy(&number, bytes + (i << type), (size_t)1 << type);
    return number;
}

static void compare(const struct gpu_run *run, const struct plan_tensor *tensor,
                    const struct raster *image)
{
    const struct plan_variant *variant = &run->plan.variants[0];
    const uint8_t *bytes = plan_tensor(&run->plan, 0, run->memory.output);
    uint32_t channels = image->channels == 1 && tensor->rgb ? 3 : image->channels;
    size_t count = (size_t)image->width * image->height * channels, i = 0;
    assert_int_equal(variant->tensor_bytes, count << tensor->type);
    assert_int_equal(variant->channels, channels);
    assert_int_equal(variant->offset % BUFFER_ALIGN, 0);
    assert_true(variant->offset >= BUFFER_ALIGN);
    bool planar = tensor->layout == TENSOR_CHW;
    for (uint32_t plane = 0; plane < (planar ? channels : 1); plane++)
        for (uint32_t y = 0; y < image->height; y++)
            for (uint32_t x = 0; x < image->width; x++)
                for (uint32_t k = 0; k < (planar ? 1 : channels); k++, i++) {
                    uint32_t c = planar ? plane : k;
                    uint8_t value = raster_at(image, x, y)[image->channels == 1 ? 0 : c];
                    uint32_t want = number_of(tensor, c, value);
                    uint32_t got = stored(bytes, tensor->type, i);
                    if (got != want)
                        fail_msg("%s: type %d, layout %d: number %zu (%u, %u, channel %u) is %x "
                                 "instead of %x",
                                 run->what, (int)tensor->type, (int)tensor->layout, i, x, y, c, got,
                                 want);
                }
    assert_int_equal(i, count);
}

static void check(struct engine *engine, const struct plan_source *source,
                  const struct plan_tensor *tensor)
{
    struct plan_target target = {.tensor = *tensor};
    struct gpu_run run;
    target.tensor.wanted = true;
    gpu_run_open(&run, engine, source, &target, "[]");
    struct raster image = raster_of(run.input);
    gpu_run_finish(&run);
    compare(&run, &target.tensor, &image);
    raster_clear(&image);
    gpu_run_close(&run);
}

/* ---- the tests ---- */

static struct normalization of_channels(uint32_t channels)
{
    return (struct normalization){.given = true,
                                  .mean_count = (int)channels,
                                  .std_count = (int)channels,
                                  .mean = {0.485, 0.456, 0.406, 0},
                                  .std = {0.229, 0.224, 0.225, 1}};
}

/* Subnormal float16, infinity, and a 0 that is half way between two float16. */
static const struct normalization extremes[] = {
    {.given = true, .mean_count = 1, .std_count = 1, .mean = {0.4999}, .std = {1e6}},
    {.given = true, .mean_count = 1, .std_count = 1, .mean = {0.5}, .std = {7.64e-6}},
    {.given = true, .mean_count = 1, .std_count = 1, .mean = {0.25}, .std = {9000}},
    {.given = true, .mean_count = 1, .std_count = 1, .mean = {-1e6}, .std = {1e-6}},
    {.given = true, .mean_count = 1, .std_count = 1, .mean = {1 + 1 / 2048.0}, .std = {1}},
    {.given = true, .mean_count = 1, .std_count = 1, .mean = {1 + 3 / 2048.0}, .std = {1}},
    {.given = true, .mean_count = 1, .std_count = 1, .mean = {0x1p-25}, .std = {1}},
    {.given = true, .mean_count = 1, .std_count = 1, .mean = {0x3p-25}, .std = {1}},
    {.given = true, .mean_count = 1, .std_count = 1, .mean = {65520}, .std = {1}},
    {.given = true, .mean_count = 1, .std_count = 1, .mean = {65519}, .std = {1}},
};

static void all_sizes(struct engine *engine)
{
    static const uint32_t sizes[][2] = {{1, 1},   {1, 9},    {7, 1},    {5, 3},     {33, 17},
                                        {64, 31}, {255, 33}, {257, 16}, {16384, 2}, {2, 4099}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        each_channels (channels)
            for (int how = 0; how < 12; how++) {
                struct plan_tensor tensor = {.type = (enum tensor_type)(how % 3),
                                             .layout = (enum tensor_layout)(how / 3 % 2),
                                             .rgb = how >= 6};
                struct normalization own = of_channels(channels == 1 && tensor.rgb ? 3 : channels);
                if (how % 3 != TENSOR_U8 && i % 2)
                    tensor.normalize = &own;
                check(engine, SOURCE(sizes[i][0], sizes[i][1], channels, .orientation = 1),
                      &tensor);
            }
}
ON_BOTH(sizes)

static void all_values(struct engine *engine)
{
    for (size_t i = 0; i < COUNT_OF(extremes); i++)
        for (int type = TENSOR_F16; type <= TENSOR_F32; type++)
            check(engine, SOURCE(128, 32, 1, .orientation = 1),
                  &(struct plan_tensor){.type = (enum tensor_type)type, .normalize = &extremes[i]});
}
ON_BOTH(values)

/* A rectangle is read in place, at any address. */
static void all_cut(struct engine *engine)
{
    each_channels (channels)
        for (int type = TENSOR_U8; type <= TENSOR_F32; type++) {
            struct plan_tensor tensor = {
                .wanted = true, .type = (enum tensor_type)type, .layout = TENSOR_CHW};
            struct plan_target target = {.tensor = tensor};
            struct gpu_run run;
            gpu_run_open(&run, engine, SOURCE(90, 41, channels, .orientation = 1), &target,
                         "[{'op':'crop','x':13,'y':7,'width':59,'height':30}]");
            assert_string_equal(pass_names(&run.plan, ' '), "tensor");
            struct raster image = raster_make(59, 30, channels);
            for (uint32_t y = 0; y < 30; y++)
                memcpy(raster_at(&image, 0, y),
                       run.input.pixels + (y + 7) * run.input.stride + 13 * channels,
                       (size_t)59 * channels);
            gpu_run_finish(&run);
            compare(&run, &tensor, &image);
            raster_clear(&image);
            gpu_run_close(&run);
        }
}
ON_BOTH(cut)

/* Equal tensors are computed once, and others from the same image. */
TEST(test_shared)
{
    struct plan plan;
    struct error error = {0};
    struct op_item *ops = test_ops("[{'op':'resize','width':20,'height':10,'fit':'exact'}]");
    struct plan_target targets[4] = {{.ops = ops, .tensor = {.wanted = true, .type = TENSOR_F16}},
                                     {.ops = ops},
                                     {.ops = ops, .tensor = {.wanted = true, .type = TENSOR_F16}},
                                     {.ops = ops, .tensor = {.wanted = true, .type = TENSOR_F32}}};
    assert_int_equal(
        plan_build(&plan, SOURCE(90, 41, 3, .orientation = 1), targets, 4, &test_limits, &error),
        STATUS_OK);
    unsigned runs = 0;
    for (size_t v = 0; v < 4; v++)
        for (uint32_t p = 0; p < plan.variants[v].pass_count; p++)
            runs += pass_runs(&plan.variants[v].passes[p]);
    assert_int_equal(runs, 2 + 1 + 1); /* two for the resize */
    assert_int_equal(plan.variants[0].offset, plan.variants[2].offset);
    assert_int_not_equal(plan.variants[0].offset, plan.variants[3].offset);
    assert_int_equal(plan.variants[0].tensor_bytes, 20 * 10 * 3 * 2);
    assert_int_equal(plan.variants[1].tensor_bytes, 0);
    op_list_free(ops);
    plan_clear(&plan);
}

TEST(test_wrong_number_of_channels)
{
    static const struct normalization three = {
        .given = true, .mean_count = 3, .std_count = 1, .std = {1}};
    struct plan plan;
    struct error error = {0};
    struct plan_target target = {
        .tensor = {.wanted = true, .type = TENSOR_F32, .normalize = &three}};
    for (int rgb = 0; rgb < 2; rgb++) {
        target.tensor.rgb = rgb;
        enum status status =
            plan_build(&plan, SOURCE(9, 4, 1, .orientation = 1), &target, 1, &test_limits, &error);
        assert_int_equal(status, rgb ? STATUS_OK : STATUS_BAD_JOB);
        if (!rgb)
            assert_string_equal(error.text, "normalize.mean has 3 numbers, but the tensor has 1 "
                                            "channel; give 1 or 1, or set channels");
        plan_clear(&plan);
        error_clear(&error);
    }
}

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
