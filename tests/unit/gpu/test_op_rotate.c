/*
 * Tests of rotate by any angle on both engines, byte for byte: against hashes of images that Pillow
 * rotated, and against a reference that interpolates one channel of one pixel at a time.
 * test_op_geometry.c tests the multiples of 90.
 */
#include "tests/fixtures/gpu/both_engines.h"

#include <math.h>

#include "gpu/plan/pass.h"
#include "tests/fixtures/reference.h"

/* ---- Pillow ---- */

/* Image.rotate(-angle, BICUBIC, expand, fillcolor=fills[]) of Pillow 9.4 and 11.1: the size and
 * the FNV-1a hash of the result. */
static const struct {
    uint32_t width, height, channels;
    double angle;
    bool expand;
    uint32_t result_width, result_height, hash;
} pillow[] = {
    {40, 30, 1, 12, true, 46, 38, 0x00e33b34},
    {40, 30, 1, -45, true, 50, 50, 0xa2608fbd},
    {40, 30, 1, 200.75, false, 40, 30, 0x2736e896},
    {40, 30, 1, 90, false, 40, 30, 0xd164744f},
    {40, 30, 3, 12, true, 46, 38, 0xc7d66793},
    {40, 30, 3, -45, true, 50, 50, 0x49461f6b},
    {40, 30, 3, 200.75, false, 40, 30, 0x3380d605},
    {40, 30, 3, 90, false, 40, 30, 0xc3de6f1c},
    {40, 30, 4, 12, true, 46, 38, 0xc93d80b2},
    {40, 30, 4, -45, true, 50, 50, 0x11bfbd43},
    {40, 30, 4, 200.75, false, 40, 30, 0x6a5bec47},
    {40, 30, 4, 90, false, 40, 30, 0xaa308b59},
    {1, 1, 3, 30, true, 3, 3, 0x4482fbc9},
    {500, 7, 4, 0.4, true, 502, 11, 0x8a2c9bca},
    {7, 500, 1, 271.5, true, 501, 22, 0x9efd7f84},
    {16384, 3, 3, 0.02, false, 16384, 3, 0x0921f299},
};
static const char *const fills[] = {"", "[77,77,77]", "", "[200,30,10]", "[1,2,3,0]"};

static void all_pillow(struct engine *engine)
{
    for (size_t i = 0; i < COUNT_OF(pillow); i++) {
        struct gpu_run run;
        gpu_run_open(&run, engine,
                     SOURCE(pillow[i].width, pillow[i].height, pillow[i].channels), NULL,
                     text_of("[{'op':'rotate','angle':%g,'expand':%s,'background':%s}]",
                             pillow[i].angle, pillow[i].expand ? "true" : "false",
                             fills[pillow[i].channels]));
        test_pattern(run.input);
        gpu_run_finish(&run);
        assert_int_equal(run.result.width, pillow[i].result_width);
        assert_int_equal(run.result.height, pillow[i].result_height);
        assert_int_equal(run.result.channels, pillow[i].channels);
        if (test_hash(run.result) != pillow[i].hash)
            fail_msg("%s: other pixels than Pillow", run.what);
        gpu_run_close(&run);
    }
}

/* ---- the reference ---- */

static double reference_cubic(double a, double b, double c, double d, double t)
{
    double p2 = -a + c, p3 = 2 * (a - b) + c - d, p4 = -a + b - c + d;
    return b + t * (p2 + t * (p3 + t * p4));
}

static uint32_t clamp(double index, uint32_t size)
{
    return index < 0 ? 0 : index >= size ? size - 1 : (uint32_t)index;
}

/* A channel of the source pixel nearest to (x, y), with premultiplied colours. */
static double reference_value(const struct raster *in, double x, double y, uint32_t channel)
{
    const uint8_t *pixel = raster_at(in, clamp(x, in->width), clamp(y, in->height));
    if (in->channels < 4 || channel == 3)
        return pixel[channel];
    return floor(pixel[channel] * pixel[3] / 255.0 + 0.5);
}

static int reference_channel(const struct raster *in, double x, double y, uint32_t channel)
{
    double left = floor(x - 0.5), top = floor(y - 0.5), rows[4];
    for (int r = 0; r < 4; r++) {
        double v[4];
        for (int k = 0; k < 4; k++)
            v[k] = reference_value(in, left - 1 + k, top - 1 + r, channel);
        rows[r] = reference_cubic(v[0], v[1], v[2], v[3], x - 0.5 - left);
    }
    double value = reference_cubic(rows[0], rows[1], rows[2], rows[3], y - 0.5 - top);
    return (int)fmax(0, fmin(255, value));
}

static void reference_pixel(const struct raster *in, double x, double y, uint8_t *to)
{
    int value[4] = {0};
    for (uint32_t c = 0; c < in->channels; c++)
        value[c] = reference_channel(in, x, y, c);
    for (uint32_t c = 0; c < in->channels; c++) {
        bool divides = in->channels == 4 && c < 3 && value[3] > 0;
        int whole = divides ? value[c] * 255 / value[3] : value[c];
        to[c] = (uint8_t)(whole > 255 ? 255 : whole);
    }
}

struct turn {
    double cosine, sine, x, y; /* the source of the point (X, Y) is (cX + sY + x, -sX + cY + y) */
    double width, height;
};

/* To 15 decimals. */
static double rounded(long double value)
{
    return (double)(roundl(value * 1e15L) / 1e15L);
}

/* A clockwise turn by `degrees`. As in Pillow, the counterclockwise angle of 0 to 360 degrees, in
 * radians, and its cosine and sine are doubles: their rounding shows in the last decimals. */
static struct turn reference_turn(double degrees, double w, double h, bool expand)
{
    double counter = fmod(fmod(-degrees, 360) + 360, 360), angle = -(counter * (M_PI / 180));
    struct turn t = {.cosine = rounded(cos(angle)), .sine = rounded(sin(angle)),
                     .width = w, .height = h};
    t.x = t.cosine * (-w / 2) + t.sine * (-h / 2) + w / 2;
    t.y = -t.sine * (-w / 2) + t.cosine * (-h / 2) + h / 2;
    if (!expand)
        return t;
    double xs[] = {t.x, t.cosine * w + t.x, t.cosine * w + t.sine * h + t.x, t.sine * h + t.x};
    double ys[] = {t.y, -t.sine * w + t.y, -t.sine * w + t.cosine * h + t.y, t.cosine * h + t.y};
    t.width = ceil(fmax(fmax(xs[0], xs[1]), fmax(xs[2], xs[3]))) -
              floor(fmin(fmin(xs[0], xs[1]), fmin(xs[2], xs[3])));
    t.height = ceil(fmax(fmax(ys[0], ys[1]), fmax(ys[2], ys[3]))) -
               floor(fmin(fmin(ys[0], ys[1]), fmin(ys[2], ys[3])));
    double across = -(t.width - w) / 2, down = -(t.height - h) / 2, x = t.x, y = t.y;
    t.x = t.cosine * across + t.sine * down + x;
    t.y = -t.sine * across + t.cosine * down + y;
    return t;
}

static struct raster reference_rotate(const struct raster *source, double degrees, bool expand,
                                      const uint8_t rgba[4])
{
    /* Converts to the channels of the result. */
    struct raster in = reference_pad(source, 0, 0, source->width, source->height, rgba);
    struct turn t = reference_turn(degrees, in.width, in.height, expand);
    struct raster out = raster_make((uint32_t)t.width, (uint32_t)t.height, in.channels);
    for (uint32_t y = 0; y < out.height; y++) {
        for (uint32_t x = 0; x < out.width; x++) {
            double source_x = t.cosine * (x + 0.5) + t.sine * (y + 0.5) + t.x;
            double source_y = -t.sine * (x + 0.5) + t.cosine * (y + 0.5) + t.y;
            if (source_x >= 0 && source_x < in.width && source_y >= 0 && source_y < in.height)
                reference_pixel(&in, source_x, source_y, raster_at(&out, x, y));
            else
                memcpy(raster_at(&out, x, y), rgba, in.channels);
        }
    }
    raster_clear(&in);
    return out;
}

/* ---- the tables ---- */

static const struct {
    const char *json;
    uint8_t rgba[4];
} colours[] = {
    {"[90,90,90]", {90, 90, 90, 255}},
    {"[1,200,3]", {1, 200, 3, 255}},
    {"'transparent'", {0, 0, 0, 0}},
    {"[250,6,7,128]", {250, 6, 7, 128}},
};

static void check(struct engine *engine, const uint32_t size[2], uint32_t channels, double angle,
                  bool expand, size_t colour)
{
    bool clockwise = colour % 2;
    struct gpu_run run;
    gpu_run_open(&run, engine, SOURCE(size[0], size[1], channels), NULL,
                 text_of("[{'op':'rotate','angle':%g,'expand':%s,'clockwise':%s,"
                         "'background':%s}]", angle, expand ? "true" : "false",
                         clockwise ? "true" : "false", colours[colour].json));
    gpu_run_finish(&run);
    struct raster source = raster_of(run.input);
    gpu_run_expect(&run, reference_rotate(&source, clockwise ? angle : -angle, expand,
                                          colours[colour].rgba));
    raster_clear(&source);
    gpu_run_close(&run);
}

/* A block of the kernel is 32 x 8 pixels. */
static void all_sizes(struct engine *engine)
{
    static const uint32_t sizes[][2] = {{1, 1},  {1, 2},  {2, 1},  {1, 37},  {37, 1},  {3, 3},
                                        {4, 4},  {5, 4},  {31, 9}, {32, 8},  {33, 7},  {64, 63},
                                        {65, 17}, {129, 65}, {300, 200}};
    static const double angles[] = {0.001, 12, 45, 89.999, 133.7, 180.5, 271.25, -33, 359.5};
    for (size_t i = 0; i < COUNT_OF(sizes); i += test_quick() ? 3 : 1)
        for (size_t a = 0; a < COUNT_OF(angles); a += test_quick() ? 3 : 1)
            each_channels(channels)
                check(engine, sizes[i], channels, angles[a], (i + a) % 3 != 0, (i + a) % 4);
}

static void all_long_sides(struct engine *engine)
{
    each_channels(channels) {
        check(engine, (const uint32_t[2]){16384, 2}, channels, 0.01, true, 0);
        check(engine, (const uint32_t[2]){16384, 2}, channels, 30, false, 1);
        check(engine, (const uint32_t[2]){2, 16384}, channels, 180.01, true, 2);
        check(engine, (const uint32_t[2]){2, 16384}, channels, 45, false, 3);
    }
}

/* Quarter turns that keep the size: the image is not square, so that parts of it are outside. */
static void all_quarters(struct engine *engine)
{
    each_channels(channels) {
        for (size_t colour = 0; colour < COUNT_OF(colours); colour++) {
            check(engine, (const uint32_t[2]){40, 21}, channels, 90, false, colour);
            check(engine, (const uint32_t[2]){17, 30}, channels, 270, false, colour);
        }
    }
}

/* rotate reads a rectangle at any byte of the source in place; pixels outside it do not count. */
static void all_rectangles(struct engine *engine)
{
    each_channels(channels) {
        for (uint32_t x = 0; x <= 17; x++) {
            uint32_t width = x * 53 % 60 + 1, height = x * 29 % 40 + 1;
            struct gpu_run run;
            gpu_run_open(&run, engine, SOURCE(100, 50, channels), NULL,
                         text_of("[{'op':'crop','x':%u,'y':3,'width':%u,'height':%u},"
                                 "{'op':'rotate','angle':20,'background':[4,4,4]}]", x, width,
                                 height));
            assert_string_equal(pass_names(&run.plan, ' '), "rotate");
            gpu_run_finish(&run);
            struct raster inner = raster_make(width, height, channels);
            for (uint32_t i = 0; i < height; i++)
                memcpy(raster_at(&inner, 0, i),
                       run.input.pixels + (3 + i) * run.input.stride + (size_t)x * channels,
                       (size_t)width * channels);
            gpu_run_expect(&run, reference_rotate(&inner, 20, true,
                                                  (const uint8_t[4]){4, 4, 4, 255}));
            raster_clear(&inner);
            gpu_run_close(&run);
        }
    }
}

/* ---- plans ---- */

/* Other angles do not commute with gray, so that a YCbCr image becomes RGB before them. */
TEST(test_plans)
{
    static const struct {
        const char *ops, *passes;
        uint32_t width, height, channels;
        enum decode_as as;
    } table[] = {
        {"['rotate','grayscale']", "orient", 40, 50, 1, DECODE_LUMA},
        {"[{'op':'rotate','angle':180,'expand':false},'sobel']", "orient,sobel", 50, 40, 1,
         DECODE_LUMA},
        {"[{'op':'rotate','angle':90,'expand':false},'grayscale']",
         "ycc to rgb,rotate,grayscale", 50, 40, 1, DECODE_COLOUR},
        {"[{'op':'rotate','angle':30},'grayscale']", "ycc to rgb,rotate,grayscale", 64, 60, 1,
         DECODE_COLOUR},
        {"[{'op':'rotate','angle':30,'background':'transparent'}]", "ycc to rgb,pad,rotate", 64,
         60, 4, DECODE_COLOUR},
        {"[{'op':'rotate','angle':-360}]", "ycc to rgb", 50, 40, 3, DECODE_COLOUR},
    };
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct plan plan;
        struct op_item *ops = test_ops(table[i].ops);
        struct plan_target target = {.ops = ops};
        enum decode_as as = plan_decode_as(&target, 1);
        bool luma = table[i].as == DECODE_LUMA;
        assert_int_equal(as, table[i].as);
        test_plan(&plan, SOURCE(50, 40, luma ? 1 : 3, .ycc = !luma), NULL, table[i].ops);
        if (strcmp(pass_names(&plan, ','), table[i].passes) != 0)
            fail_msg("%s: \"%s\"", table[i].ops, pass_names(&plan, ','));
        assert_int_equal(plan.variants[0].width, table[i].width);
        assert_int_equal(plan.variants[0].height, table[i].height);
        assert_int_equal(plan.variants[0].channels, table[i].channels);
        plan_clear(&plan);
        op_list_free(ops);
    }
}

TEST(test_too_large)
{
    check_misfit(SOURCE(65500, 10, 1), NULL, "[{'op':'rotate','angle':45}]", STATUS_IMAGE_TOO_LARGE,
                 "the result has 2145912976 pixels");
}

TEST(test_refused_parameters)
{
    static const struct test_refusal table[] = {
        {"[{'op':'rotate','angle':361}]", "ops[0] rotate: angle is 361; it must be -360 to 360"},
        {"[{'op':'rotate','angle':'90'}]", "angle is a string; it must be a number"},
        {"[{'op':'rotate','expand':1}]", "expand is a number; it must be true or false"},
        {"[{'op':'rotate','background':'black'}]", "background must be [r,g,b]"},
        {"[{'op':'rotate','background':[1,2,300]}]",
         "background[2] is 300; it must be an integer of 0 to 255"},
        {"[{'op':'rotate','degrees':9}]", "there is no parameter \"degrees\""},
    };
    check_refused(table, COUNT_OF(table));
}

ON_BOTH(pillow)
ON_BOTH(sizes)
ON_BOTH(long_sides)
ON_BOTH(quarters)
ON_BOTH(rectangles)

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
