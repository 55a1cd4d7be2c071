/*
 * Tests of images with 16 bits per sample: resize, crop, pad, rotate, flip, transpose and the EXIF
 * orientation, and the conversions from and to 8 bits. Both engines, byte for byte, against a
 * reference that computes each sample from the definition, in long doubles where it can.
 */
#include "tests/fixtures/gpu/both_engines.h"

#include <math.h>

#include "conf/format.h"
#include "gpu/plan/op.h"

/* ---- the reference ---- */

static uint16_t *deep_at(const struct raster *raster, uint32_t x, uint32_t y)
{
    return (uint16_t *)(void *)raster_at(raster, x, y);
}

static uint32_t samples_of(const struct raster *raster)
{
    return raster->channels / 2;
}

/* The pixel (x, y) of the source for each pixel of the result. */
typedef void source_pixel(uint32_t width, uint32_t height, uint32_t *x, uint32_t *y);

static struct raster moved(const struct raster *in, uint32_t width, uint32_t height,
                           source_pixel *source)
{
    struct raster out = raster_make(width, height, in->channels);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            uint32_t column = x, row = y;
            source(in->width, in->height, &column, &row);
            memcpy(raster_at(&out, x, y), raster_at(in, column, row), in->channels);
        }
    return out;
}

static void mirrored(uint32_t width, uint32_t height, uint32_t *x, uint32_t *y)
{
    (void)height, (void)y;
    *x = width - 1 - *x;
}

static void upside_down(uint32_t width, uint32_t height, uint32_t *x, uint32_t *y)
{
    (void)width, (void)x;
    *y = height - 1 - *y;
}

static void exchanged(uint32_t width, uint32_t height, uint32_t *x, uint32_t *y)
{
    (void)width, (void)height;
    uint32_t column = *y;
    *y = *x;
    *x = column;
}

static void clockwise(uint32_t width, uint32_t height, uint32_t *x, uint32_t *y)
{
    exchanged(width, height, x, y);
    *y = height - 1 - *y;
}

static void counterclockwise(uint32_t width, uint32_t height, uint32_t *x, uint32_t *y)
{
    exchanged(width, height, x, y);
    *x = width - 1 - *x;
}

static void half_turn(uint32_t width, uint32_t height, uint32_t *x, uint32_t *y)
{
    mirrored(width, height, x, y);
    upside_down(width, height, x, y);
}

static struct raster cropped(const struct raster *in, uint32_t left, uint32_t top, uint32_t width,
                             uint32_t height)
{
    struct raster out = raster_make(width, height, in->channels);
    for (uint32_t y = 0; y < height; y++)
        memcpy(raster_at(&out, 0, y), raster_at(in, left, top + y), (size_t)width * in->channels);
    return out;
}

enum kind { NEAREST, BOX, BILINEAR, BICUBIC, LANCZOS3, KINDS };
static const char *const kinds[KINDS] = {"nearest", "box", "bilinear", "bicubic", "lanczos3"};
static const double supports[KINDS] = {0, 0.5, 1, 2, 3};

static double weight_of(enum kind kind, double x)
{
    double d = fabs(x);
    switch (kind) {
    case BOX:
        return -0.5 < x && x <= 0.5;
    case BILINEAR:
        return d < 1 ? 1 - d : 0;
    case BICUBIC:
        return d < 1 ? (1.5 * d - 2.5) * d * d + 1 : d < 2 ? (((d - 5) * d + 8) * d - 4) * -0.5 : 0;
    default:
        if (x == 0)
            return 1;
        return x >= -3 && x < 3 ? sin(M_PI * x) / (M_PI * x) * (sin(M_PI * x / 3) / (M_PI * x / 3))
                                : 0;
    }
}

static uint16_t rounded(long double value)
{
    return (uint16_t)(value < 0 ? 0 : value > 65535 ? 65535 : floorl(value + 0.5L));
}

/* Sample i of `outputs` of a line of `count` samples that are `step` apart. Weights are rounded to
 * multiples of 2^-30. The sum is exact in a long double. */
static uint16_t mean(const uint16_t *line, size_t step, uint32_t count, uint32_t outputs,
                     uint32_t i, enum kind kind)
{
    double scale = (double)count / outputs, stretch = fmax(scale, 1), centre = (i + 0.5) * scale;
    int low = (int)fmax(0, centre - supports[kind] * stretch + 0.5);
    int high = (int)fmin(count, floor(centre + supports[kind] * stretch + 0.5));
    double all = 0;
    long double sum = 0;
    for (int k = low; k < high; k++)
        all += weight_of(kind, (k - centre + 0.5) / stretch);
    for (int k = low; k < high; k++) {
        double share = weight_of(kind, (k - centre + 0.5) / stretch) / all;
        sum += (long double)round(share * (1 << 30)) / (1 << 30) * line[(size_t)k * step];
    }
    return rounded(sum);
}

static struct raster scaled(const struct raster *in, uint32_t width, uint32_t height,
                            enum kind kind)
{
    struct raster out = raster_make(width, height, in->channels);
    uint32_t samples = samples_of(in);
    bool across = width != in->width;
    assert_true(!across || height == in->height);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < samples; c++)
                deep_at(&out, x, y)[c] =
                    across ? mean(deep_at(in, 0, y) + c, samples, in->width, width, x, kind)
                           : mean(deep_at(in, x, 0) + c, (size_t)samples * in->width, in->height,
                                  height, y, kind);
    return out;
}

static void premultiply(struct raster *raster, bool divides)
{
    for (uint32_t i = 0; i < raster->width * raster->height; i++) {
        uint16_t *pixel = (uint16_t *)(void *)(raster->pixels + (size_t)i * 8);
        for (int c = 0; c < 3; c++)
            if (!divides)
                pixel[c] = rounded((long double)pixel[c] * pixel[3] / 65535);
            else if (pixel[3] > 0)
                pixel[c] = rounded(pixel[c] * 65535.0L / pixel[3]);
    }
}

static void replace(struct raster *raster, struct raster next)
{
    raster_clear(raster);
    *raster = next;
}

/* Steps are added up, as by Pillow. */
static struct raster picked(const struct raster *in, uint32_t width, uint32_t height)
{
    struct raster out = raster_make(width, height, in->channels);
    double across = (double)in->width / width, down = (double)in->height / height, row = down / 2;
    for (uint32_t y = 0; y < height; y++, row += down) {
        double column = across / 2;
        for (uint32_t x = 0; x < width; x++, column += across)
            memcpy(raster_at(&out, x, y), raster_at(in, (uint32_t)column, (uint32_t)row),
                   in->channels);
    }
    return out;
}

static struct raster resized(const struct raster *source, uint32_t width, uint32_t height,
                             enum kind kind)
{
    struct raster out = raster_copy(source);
    bool has_alpha = source->channels == 8;
    bool columns_first = source->height > source->width * 100 && height < source->height;
    if (width == source->width && height == source->height)
        return out;
    if (kind == NEAREST) {
        replace(&out, picked(source, width, height));
        return out;
    }
    if (has_alpha)
        premultiply(&out, false);
    if (columns_first)
        replace(&out, scaled(&out, out.width, height, kind));
    if (out.width != width)
        replace(&out, scaled(&out, width, out.height, kind));
    if (out.height != height)
        replace(&out, scaled(&out, width, height, kind));
    if (has_alpha)
        premultiply(&out, true);
    return out;
}

static struct raster padded(const struct raster *in, uint32_t left, uint32_t top, uint32_t right,
                            uint32_t bottom, const uint8_t rgba[4])
{
    bool is_gray = rgba[0] == rgba[1] && rgba[1] == rgba[2];
    uint32_t own = samples_of(in), samples = own == 4 || rgba[3] < 255 ? 4
                                             : own == 1 && is_gray     ? 1
                                                                       : 3;
    struct raster out =
        raster_make(in->width + left + right, in->height + top + bottom, samples * 2);
    for (uint32_t y = 0; y < out.height; y++)
        for (uint32_t x = 0; x < out.width; x++)
            for (uint32_t c = 0; c < samples; c++) {
                bool inside = x >= left && x < left + in->width && y >= top && y < top + in->height;
                const uint16_t *from = inside ? deep_at(in, x - left, y - top) : NULL;
                deep_at(&out, x, y)[c] = !inside             ? (uint16_t)(rgba[c] << 8 | rgba[c])
                                         : c == 3 && own < 4 ? 65535
                                                             : from[own == 1 ? 0 : c];
            }
    return out;
}

/* ---- running ---- */

static const struct plan_target deep = {.deep = true};
static const uint32_t sizes[][2] = {{1, 1},  {1, 9},   {9, 1},   {2, 2},   {3, 5},   {31, 33},
                                    {33, 7}, {64, 40}, {65, 32}, {129, 3}, {2, 401}, {1030, 2}};

#define each_deep(channels)                                                                        \
    for (uint32_t channels = 2; channels <= 8; channels += channels == 2 ? 4 : 2)

/* Runs operations, and leaves the source in *source. */
static void run_ops(struct gpu_run *run, struct engine *engine, const struct plan_source *like,
                    const char *ops, struct raster *source)
{
    gpu_run_open(run, engine, like, &deep, ops);
    gpu_run_finish(run);
    *source = raster_of(run->input);
}

static void finish(struct gpu_run *run, struct raster *source, struct raster wanted)
{
    gpu_run_expect(run, wanted);
    raster_clear(source);
    gpu_run_close(run);
}

static const struct {
    const char *ops;
    int orientation; /* that does the same */
    source_pixel *source;
    bool swaps;
} moves[] = {
    {"[{'op':'flip','axis':'horizontal'}]", 2, mirrored, false},
    {"[{'op':'rotate','angle':180}]", 3, half_turn, false},
    {"[{'op':'flip','axis':'vertical'}]", 4, upside_down, false},
    {"['transpose']", 5, exchanged, true},
    {"['rotate']", 6, clockwise, true},
    {"[{'op':'rotate','angle':270}]", 8, counterclockwise, true},
};

static void all_moves(struct engine *engine)
{
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        each_deep(channels) for (size_t m = 0; m < COUNT_OF(moves);
                                 m++) for (int by_exif = 0; by_exif < 2; by_exif++)
        {
            uint32_t width = sizes[i][0], height = sizes[i][1];
            struct gpu_run run;
            struct raster source;
            run_ops(
                &run, engine,
                SOURCE(width, height, channels, .orientation = by_exif ? moves[m].orientation : 1),
                by_exif ? "[]" : moves[m].ops, &source);
            finish(&run, &source,
                   moves[m].swaps ? moved(&source, height, width, moves[m].source)
                                  : moved(&source, width, height, moves[m].source));
        }
}

/* A crop alone, before a turn, and before a resize along one axis. */
static void all_crops(struct engine *engine)
{
    each_deep(channels) for (uint32_t x = 0; x < 5; x++) for (int then = 0; then < 3; then++)
    {
        static const char *const next[] = {"", ",'rotate'",
                                           ",{'op':'resize','width':20,'height':5,'fit':'exact'}"};
        struct gpu_run run;
        struct raster source;
        run_ops(&run, engine, SOURCE(37, 11, channels),
                text_of("[{'op':'crop','x':%u,'y':3,'width':20,'height':7}%s]", x, next[then]),
                &source);
        struct raster part = cropped(&source, x, 3, 20, 7);
        struct raster wanted = then == 0   ? raster_copy(&part)
                               : then == 1 ? moved(&part, 7, 20, clockwise)
                                           : resized(&part, 20, 5, LANCZOS3);
        finish(&run, &source, wanted);
        raster_clear(&part);
    }
}

static void all_pads(struct engine *engine)
{
    static const uint8_t colours[][4] = {{1, 2, 3, 255}, {7, 7, 7, 255}, {200, 100, 0, 9}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        each_deep(channels) for (size_t k = 0; k < COUNT_OF(colours); k++)
        {
            const uint8_t *rgba = colours[k];
            uint32_t left = (uint32_t)k, top = (uint32_t)i % 3;
            struct gpu_run run;
            struct raster source;
            run_ops(&run, engine, SOURCE(sizes[i][0], sizes[i][1], channels),
                    text_of("[{'op':'pad','left':%u,'top':%u,'right':1,'bottom':2,"
                            "'color':[%u,%u,%u,%u]}]",
                            left, top, rgba[0], rgba[1], rgba[2], rgba[3]),
                    &source);
            finish(&run, &source, padded(&source, left, top, 1, 2, rgba));
        }
}

/* To sizes that are smaller, larger, equal along one axis, and 1. */
static void all_resizes(struct engine *engine)
{
    static const uint32_t to[][2] = {{1, 1}, {7, 5}, {40, 9}, {31, 66}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (size_t t = 0; t < 2 * COUNT_OF(to); t++)
            each_deep(channels)
            {
                enum kind kind = (enum kind)((i + t + channels / 3) % KINDS);
                uint32_t width = t < COUNT_OF(to) ? to[t][0] : sizes[i][0];
                uint32_t height = to[t % COUNT_OF(to)][1];
                struct gpu_run run;
                struct raster source;
                run_ops(&run, engine, SOURCE(sizes[i][0], sizes[i][1], channels),
                        text_of("[{'op':'resize','width':%u,'height':%u,'fit':'exact',"
                                "'filter':'%s'}]",
                                width, height, kinds[kind]),
                        &source);
                finish(&run, &source, resized(&source, width, height, kind));
            }
}

/* White stays white after the mean of many pixels: no weight is lost. */
static void all_white(struct engine *engine)
{
    for (int kind = BOX; kind < KINDS; kind++)
        each_deep(channels)
        {
            struct gpu_run run;
            gpu_run_open(&run, engine, SOURCE(4099, 331, channels), &deep,
                         text_of("[{'op':'resize','width':3,'height':2,'fit':'exact',"
                                 "'filter':'%s'}]",
                                 kinds[kind]));
            memset(run.input.pixels, 255, run.input.stride * run.input.height);
            gpu_run_finish(&run);
            struct raster wanted = raster_make(3, 2, channels);
            memset(wanted.pixels, 255, (size_t)3 * 2 * channels);
            gpu_run_expect(&run, wanted);
            gpu_run_close(&run);
        }
}

/* cover and contain, whose parts crop and pad. */
static void all_fits(struct engine *engine)
{
    each_deep(channels)
    {
        struct gpu_run run;
        struct raster source;
        run_ops(&run, engine, SOURCE(90, 60, channels),
                "[{'op':'resize','width':30,'height':30,'fit':'cover','gravity':'west'}]", &source);
        struct raster part = cropped(&source, 0, 0, 60, 60);
        finish(&run, &source, resized(&part, 30, 30, LANCZOS3));
        run_ops(&run, engine, SOURCE(90, 60, channels),
                "[{'op':'resize','width':30,'height':31,'fit':'contain','color':[9,9,9]}]",
                &source);
        static const uint8_t colour[] = {9, 9, 9, 255};
        replace(&part, resized(&source, 30, 20, LANCZOS3));
        finish(&run, &source, padded(&part, 0, 5, 0, 6, colour));
        raster_clear(&part);
    }
}

/* An 8-bit source of a deep output, and a deep source of an 8-bit output. */
static void all_conversions(struct engine *engine)
{
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        each_channels (channels) {
            struct gpu_run run;
            uint32_t width = sizes[i][0], height = sizes[i][1];
            struct raster source, wanted = raster_make(width, height, channels * 2);
            run_ops(&run, engine, SOURCE(width, height, channels), "[]", &source);
            for (uint32_t k = 0; k < width * height * channels; k++)
                ((uint16_t *)(void *)wanted.pixels)[k] = (uint16_t)(source.pixels[k] * 257);
            finish(&run, &source, wanted);

            gpu_run_open(&run, engine, SOURCE(width, height, channels * 2), NULL, "[]");
            gpu_run_finish(&run);
            source = raster_of(run.input);
            wanted = raster_make(width, height, channels);
            for (uint32_t k = 0; k < width * height * channels; k++)
                wanted.pixels[k] =
                    (uint8_t)floor(((uint16_t *)(void *)source.pixels)[k] * 255 / 65535.0 + 0.5);
            finish(&run, &source, wanted);
        }
}

ON_BOTH(moves)
ON_BOTH(crops)
ON_BOTH(pads)
ON_BOTH(resizes)
ON_BOTH(white)
ON_BOTH(fits)
ON_BOTH(conversions)

/* ---- plans ---- */

static void check_passes(uint32_t channels, const char *ops, const char *wanted)
{
    struct plan plan;
    test_plan(&plan, SOURCE(40, 30, channels, .orientation = 1), &deep, ops);
    assert_string_equal(pass_names(&plan, ','), wanted);
    assert_int_equal(plan.variants[0].channels % 2, 0);
    plan_clear(&plan);
}

/* Turns and crops are joined as those of 8 bits, and nothing is copied before a resize. */
TEST(test_deep_passes)
{
    check_passes(6, "[]", "");
    check_passes(6, "['rotate','rotate',{'op':'rotate','angle':180}]", "");
    check_passes(6, "['rotate',{'op':'crop','x':1,'y':1,'width':9,'height':8},'transpose']",
                 "orient 16");
    check_passes(8,
                 "[{'op':'crop','x':1,'y':1,'width':9,'height':8},"
                 "{'op':'resize','width':5,'height':4,'fit':'exact'}]",
                 "resample x 16,resample y 16");
    check_passes(3, "[{'op':'resize','width':5,'height':4,'filter':'nearest'}]", "widen,pick 16");
}

/* A YCbCr source becomes RGB before it is widened. */
TEST(test_deep_of_ycc)
{
    struct plan plan;
    test_plan(&plan, SOURCE(40, 30, 3, .ycc = true, .orientation = 6), &deep, "[]");
    assert_string_equal(pass_names(&plan, ','), "ycc to rgb,widen,orient 16");
    plan_clear(&plan);
}

static void check_deep_misfit(const char *ops, const char *text)
{
    struct plan plan;
    struct error error = {0};
    struct plan_target target = {.ops = test_ops(ops), .deep = true};
    enum status status = plan_build(&plan, SOURCE(40, 30, 6), &target, 1, &test_limits, &error);
    if (status != STATUS_BAD_OP || !strstr(error.text, text))
        fail_msg("%s: %s \"%s\" instead of \"%s\"", ops, status_name(status), error.text, text);
    plan_clear(&plan);
    op_list_free(target.ops);
}

TEST(test_deep_misfits)
{
    check_deep_misfit("[{'op':'rotate','angle':30}]", "angle is 30 and expand true");
    check_deep_misfit("[{'op':'rotate','expand':false}]", "angle is 90 and expand false");
    check_deep_misfit("[{'op':'resize','width':9,'height':9,'fit':'cover','gravity':'attention'}]",
                      "ops[0] resize: gravity attention finds edges of 8 bits");
}

TEST(test_operations_without_16_bits)
{
    struct error error = {0};
    struct op_item *ops = test_ops("['rotate','transpose',{'op':'pad','left':1}]");
    assert_int_equal(op_list_check_deep(ops, &error), STATUS_OK);
    op_list_free(ops);
    ops = test_ops("['rotate','median','invert']");
    assert_int_equal(op_list_check_deep(ops, &error), STATUS_BAD_OP);
    assert_non_null(strstr(error.text, "ops[1] median works with 8 bits, but the output's depth is "
                                       "16, which only these operations keep: "));
    assert_non_null(strstr(error.text, "rotate"));
    assert_null(strstr(error.text, "invert"));
    op_list_free(ops);
}

/* The help of the key lists them. */
TEST(test_help_of_depth)
{
    const char *help = encoder_parameters[PARAMETER_depth].help;
    const char *list = strstr(help, ".Ic ");
    assert_non_null(list);
    for (size_t i = 0; i < op_count; i++) {
        const char *found = strstr(list, text_of(" %s", op_table[i]->name));
        if ((found != NULL) != ((op_table[i]->flags & OP_DEEP) != 0))
            fail_msg("the help of the output key depth %s %s", found ? "names" : "lacks",
                     op_table[i]->name);
    }
}

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
