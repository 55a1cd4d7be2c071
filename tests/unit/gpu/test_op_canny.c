/*
 * Tests of canny: both engines against a reference that fills from one strong pixel at a time,
 * difficult images, refused parameters, and memory.
 */
#include "tests/fixtures/gpu/neighbours.h"
#include "tests/fixtures/reference.h"

/* ---- one image on an engine ---- */

struct canny_case {
    uint32_t width, height, channels;
    void (*fill)(struct image image);
    int low, high;
    const char *ops; /* NULL: canny with low and high */
    struct behind behind;
};

static void run_begin(struct gpu_run *run, struct engine *engine, const struct canny_case *c)
{
    char json[100], ops[300];
    snprintf(json, sizeof(json), "[{'op':'canny','low':%d,'high':%d}]", c->low, c->high);
    behind_ops(c->behind, c->ops ? c->ops : json, ops, sizeof(ops));
    gpu_run_open(run, engine, SOURCE(c->width, c->height, c->channels), NULL, ops);
    c->fill(run->input);
    gpu_run_finish(run);
}

static void check(struct engine *engine, const struct canny_case *c)
{
    struct gpu_run run;
    run_begin(&run, engine, c);
    /* A table of colours is fused into the same pass. */
    if (c->channels == 1 || c->behind.gray || !c->behind.table)
        behind_is_fused(&run, c->behind.table ? "table+" : "");
    struct raster found = behind_raster(c->behind, run.input);
    struct raster gray = reference_gray(&found, NULL, test_background);
    gpu_run_expect(&run, reference_canny(&gray, c->low, c->high));
    raster_clear(&gray);
    raster_clear(&found);
    gpu_run_close(&run);
}

/* ---- the table ---- */

static void fill_noise(struct image image)
{
    test_fill(image, image.width * 31 + image.height * 7 + image.channels);
}

/* Hills with a little noise give long weak and strong edges side by side. */
static void fill_hills(struct image image)
{
    uint32_t state = 77;
    for (uint32_t y = 0; y < image.height; y++) {
        for (size_t x = 0; x < image.stride; x++) {
            uint32_t u = (uint32_t)x / image.channels, hill = (u * u / 97 + y * y / 61) % 256;
            uint32_t height = hill < 128 ? hill : 255 - hill;
            image.pixels[y * image.stride + x] =
                (uint8_t)(height * (1 + (u / 32 + y / 24) % 2) + test_random(&state) % 9);
        }
    }
}

/* The gradients are equal everywhere, in all directions, so that ties occur. */
static void fill_squares(struct image image)
{
    for (uint32_t y = 0; y < image.height; y++)
        for (size_t x = 0; x < image.stride; x++)
            image.pixels[y * image.stride + x] =
                (x / image.channels / 3 + y / 3) % 2 ? 200 : (x + y) % 16 < 8 ? 40 : 60;
}

/* CUDA tiles are 128 x 32, of blocks of 2 x 2. */
static const uint32_t sizes[][2] = {
    {1, 1},    {1, 2},    {2, 1},    {2, 2},    {3, 3},    {1, 70},   {70, 1},   {5, 4},
    {15, 13},  {16, 16},  {17, 31},  {33, 32},  {31, 33},  {112, 49}, {113, 7},  {127, 31},
    {128, 32}, {129, 33}, {130, 34}, {131, 65}, {143, 5},  {255, 63}, {256, 64}, {257, 66},
    {3, 200},  {300, 97}, {1000, 1}, {1, 1000},
};
static const uint32_t large[][2] = {{16384, 3}, {3, 16384}, {700, 500}};
static const int thresholds[][2] = {{50, 150}, {0, 0}, {0, 1530}, {1530, 1530}, {200, 201},
                                    {300, 700}};

static void (*const fills[])(struct image) = {fill_noise, fill_hills, fill_squares};

static void all_pictures(struct engine *engine)
{
    size_t turn = 0, step = test_quick() ? 5 : 1;
#ifdef __SANITIZE_ADDRESS__
    step *= 2;
#endif
    for (size_t i = 0; i < COUNT_OF(sizes); i += step) {
        for (size_t f = 0; f < 3; f++) {
            each_channels(channels) {
                const int *pair = thresholds[turn++ % COUNT_OF(thresholds)];
                check(engine, &(struct canny_case){sizes[i][0], sizes[i][1], channels, fills[f],
                                                   pair[0], pair[1], NULL, behind_nothing});
            }
            check(engine, &(struct canny_case){sizes[i][0], sizes[i][1], 1, fills[f], 60, 400,
                                               NULL, behind_nothing});
        }
    }
    for (size_t i = 0; i < COUNT_OF(large) && !test_quick(); i++)
        for (size_t f = 0; f < 2; f++)
            check(engine, &(struct canny_case){large[i][0], large[i][1], f ? 1 : 3, fills[f], 80,
                                               500, NULL, behind_nothing});
}

static void sweep_behind(struct engine *engine, struct behind behind, const uint32_t channels[5])
{
    size_t step = test_quick() ? 5 : 1;
    for (size_t i = 0; i < COUNT_OF(sizes); i += step)
        for (size_t f = 0; f < 3; f++)
            check(engine, &(struct canny_case){sizes[i][0], sizes[i][1], channels[(i + f) % 5],
                                               fills[f], 60, 400, NULL, behind});
    check(engine, &(struct canny_case){700, 500, channels[0], fill_noise, 80, 500, NULL, behind});
}

/* With gray, all is one pass. With colours, the first of two applies the table and makes gray. */
static void all_behind_table(struct engine *engine)
{
    static const uint32_t channels[5] = {1, 1, 3, 1, 4};
    sweep_behind(engine, (struct behind){.table = true}, channels);
}

static void all_behind_gray(struct engine *engine)
{
    static const uint32_t channels[5] = {3, 4, 3, 4, 3};
    sweep_behind(engine, (struct behind){.gray = true}, channels);
    sweep_behind(engine, (struct behind){.gray = true, .table = true}, channels);
}

/* ---- a line that winds through the whole image ---- */

#define PITCH 8 /* distance between turns */

/* Draws a line 4 pixels wide that winds inwards, `bright` above the background. Its last part, in
 * the middle, is much brighter; only from there hysteresis reaches the rest. */
static void draw_spiral(struct image image, uint8_t bright, bool with_end)
{
    uint32_t left = PITCH, top = PITCH, right = image.width - PITCH, bottom = image.height - PITCH;
    uint32_t x = left, y = top;
    for (size_t i = 0; i < image.stride * image.height; i++)
        image.pixels[i] = 100;
    for (unsigned turn = 0; left + PITCH < right && top + PITCH < bottom; turn++) {
        uint32_t x0 = x, y0 = y;
        switch (turn % 4) {
        case 0: x = right - 4; top += PITCH; break;
        case 1: y = bottom - 4; right -= PITCH; break;
        case 2: x = left; bottom -= PITCH; break;
        default: y = top; left += PITCH; break;
        }
        bool last = !(left + PITCH < right && top + PITCH < bottom);
        for (uint32_t v = y0 < y ? y0 : y; v < (y0 < y ? y : y0) + 4; v++)
            for (uint32_t u = x0 < x ? x0 : x; u < (x0 < x ? x : x0) + 4; u++)
                image.pixels[v * image.stride + u] =
                    (uint8_t)(100 + (last && with_end ? 120 : bright));
    }
}

static void fill_spiral(struct image image)
{
    draw_spiral(image, 30, true);
}

static void fill_weak_spiral(struct image image)
{
    draw_spiral(image, 30, false);
}

static size_t edge_count(struct image image)
{
    size_t count = 0;
    for (uint32_t y = 0; y < image.height; y++)
        for (uint32_t x = 0; x < image.width; x++)
            count += image.pixels[y * image.stride + x] == 255;
    return count;
}

static void all_spiral(struct engine *engine)
{
    static const uint32_t sides[][2] = {{61, 60}, {401, 300}, {130, 900}};
    for (size_t i = 0; i < COUNT_OF(sides); i++) {
        struct canny_case c = {sides[i][0], sides[i][1], 1, fill_spiral, 50, 250, NULL,
                               behind_nothing};
        check(engine, &c);
        c.fill = fill_weak_spiral;
        check(engine, &c);
    }
}

/* A line six million pixels long winds through 49 megapixels. From its bright end canny finds both
 * sides as one edge of twice that length; without the end it finds nothing. */
static void all_long_spiral(struct engine *engine)
{
#ifdef __SANITIZE_ADDRESS__
    const uint32_t width = 2000, height = 700;
#else
    const uint32_t width = test_quick() ? 2000 : 16384, height = test_quick() ? 700 : 3000;
#endif
    struct canny_case c = {width, height, 1, fill_spiral, 50, 250, NULL, behind_nothing};
    struct gpu_run run;
    for (int weak = 0; weak < 2; weak++) {
        c.fill = weak ? fill_weak_spiral : fill_spiral;
        run_begin(&run, engine, &c);
        size_t edges = edge_count(run.result);
        /* two sides of a line every PITCH rows or columns */
        size_t least = (size_t)width * height / PITCH * 3 / 2;
        if (weak ? edges != 0 : edges < least)
            fail_msg("%s: %zu pixels of the %s spiral are edges", run.what, edges,
                     weak ? "weak" : "strong");
        gpu_run_close(&run);
    }
}

/* ---- parameters ---- */

static void all_parameters(struct engine *engine)
{
    static const struct {
        const char *ops;
        int low, high;
    } same[] = {
        {"[\"canny\"]", 50, 150},
        {"[{\"op\":\"canny\",\"high\":333}]", 50, 333},
        {"[{\"op\":\"canny\",\"low\":99.99,\"high\":200.5}]", 99, 200},
        {"[\"grayscale\",{\"op\":\"canny\",\"low\":10}]", 10, 150},
    };
    for (size_t i = 0; i < COUNT_OF(same); i++)
        check(engine, &(struct canny_case){200, 150, 3, fill_hills, same[i].low, same[i].high,
                                           same[i].ops, behind_nothing});
}

TEST(test_refused)
{
    static const struct test_refusal refusals[] = {
        {"[{\"op\":\"canny\",\"low\":-1}]", "low is -1; it must be 0 to 1530"},
        {"[{\"op\":\"canny\",\"high\":1530.5}]", "high is 1530.5; it must be 0 to 1530"},
        {"[{\"op\":\"canny\",\"low\":\"50\"}]", "low is a string; it must be a number"},
        {"[{\"op\":\"canny\",\"low\":151}]",
         "ops[0] canny: low is 151 and high is 150; low must not be above high"},
        {"[{\"op\":\"canny\",\"low\":30,\"high\":20.5}]", "low is 30 and high is 20.5; low must"},
        {"[{\"op\":\"canny\",\"threshold\":1}]",
         "no parameter \"threshold\"; there is low or high"},
    };
    check_refused(refusals, COUNT_OF(refusals));
}

/* Canny can use a JPEG's Y channel. From gray it is one pass, from colour two. */
TEST(test_gray)
{
    struct op_item *ops = test_ops("[\"canny\"]");
    struct plan_target target = {.ops = ops};
    assert_int_equal(plan_decode_as(&target, 1), DECODE_LUMA);
    for (uint32_t channels = 1; channels <= 3; channels += 2) {
        struct plan plan;
        test_plan(&plan, SOURCE(9, 9, channels), NULL, "['canny']");
        assert_int_equal(plan.variants[0].pass_count, 1);
        assert_int_equal(plan.variants[0].channels, 1);
        plan_clear(&plan);
    }
    op_list_free(ops);
}

ON_BOTH(pictures)
ON_BOTH(behind_table)
ON_BOTH(behind_gray)
ON_BOTH(spiral)
ON_BOTH(long_spiral)
ON_BOTH(parameters)

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
