/*
 * Tests of `resize` with gravity attention on both engines: against all places of the window over
 * the reference's edges of the resized image.
 */
#include "tests/fixtures/gpu/values_run.h"

#include <math.h>

#include "tests/fixtures/reference.h"

/* ---- the reference ---- */

struct expected {
    uint32_t width, height; /* of the whole image, resized */
    uint32_t x, y, across, down; /* of the result in it */
    int window[4]; /* as in the values */
};

/* a b / c, rounded half up, at least 1. */
static uint32_t part(uint32_t a, uint32_t b, uint32_t c)
{
    double whole = (double)((uint64_t)a * b / c), rest = (double)((uint64_t)a * b % c);
    return (uint32_t)fmax(1, whole + (2 * rest >= c));
}

/* The sides; the window is at the centre. */
static struct expected expect(uint32_t w, uint32_t h, uint32_t to_w, uint32_t to_h, bool enlarge)
{
    struct expected e = {.across = to_w, .down = to_h};
    bool wide = (uint64_t)w * to_h > (uint64_t)h * to_w;
    uint32_t cut_w = wide ? part(h, to_w, to_h) : w, cut_h = wide ? h : part(w, to_h, to_w);
    if (!enlarge && (to_w > cut_w || to_h > cut_h)) {
        e.across = cut_w;
        e.down = cut_h;
    }
    bool down = cut_h < h;
    e.width = down ? e.across : part(w, e.down, h);
    e.height = down ? part(h, e.across, w) : e.down;
    e.width = e.width < e.across ? e.across : e.width;
    e.height = e.height < e.down ? e.down : e.height;
    e.window[2] = (int)cut_w;
    e.window[3] = (int)cut_h;
    return e;
}

/* Moves the window to the place with the most edges. */
static void place(struct expected *e, const struct raster *edges, uint32_t w, uint32_t h)
{
    bool down = e->height > e->down;
    uint32_t length = down ? e->height : e->width, inner = down ? e->down : e->across;
    uint32_t full = down ? h : w, start = 0;
    uint64_t best = 0;
    for (uint32_t s = 0; s + inner <= length; s++) {
        uint64_t sum = 0;
        for (uint32_t y = 0; y < edges->height; y++)
            for (uint32_t x = 0; x < edges->width; x++)
                sum += (down ? y : x) >= s && (down ? y : x) < s + inner ? *raster_at(edges, x, y)
                                                                         : 0;
        int64_t middle = (int64_t)length - inner;
        bool nearer = llabs(2 * (int64_t)s - middle) < llabs(2 * (int64_t)start - middle);
        if (s == 0 || sum > best || (sum == best && nearer)) {
            best = sum;
            start = s;
        }
    }
    double at = floor((double)start * full / length + 0.5);
    e->window[down] = (int)fmin(at, (double)full - e->window[2 + down]);
    *(down ? &e->y : &e->x) = start;
}

/* ---- running ---- */

struct attention_case {
    uint32_t width, height, to_width, to_height;
    bool stay_small; /* enlarge false */
    enum { NOISE, FLAT, SPOT, TWO_SPOTS } fill;
};

/* The spots have equal edges, and the second mirrors the first. */
static void fill(struct image image, int kind)
{
    size_t spot = image.width / 5, mirrored = image.width - 1 - spot;
    for (uint32_t y = 0; y < image.height && kind != NOISE; y++)
        for (uint32_t x = 0; x < image.width; x++) {
            bool lit = x == spot || (kind == TWO_SPOTS && x == mirrored);
            bool row = y == image.height / 5 ||
                       (kind == TWO_SPOTS && y == image.height - 1 - image.height / 5);
            memset(image.pixels + y * image.stride + (size_t)x * image.channels,
                   kind != FLAT && lit && row ? 220 : 90, image.channels);
        }
}

static void compare_window(const struct gpu_run *run, const int want[4])
{
    cJSON *values = plan_values(&run->plan, 0, run->memory.output);
    const cJSON *got = cJSON_GetObjectItem(values, "attention");
    assert_int_equal(cJSON_GetArraySize(got), 4);
    for (int i = 0; i < 4; i++)
        if (cJSON_GetArrayItem(got, i)->valueint != want[i])
            fail_msg("%s: attention[%d] is %d instead of %d", run->what, i,
                     cJSON_GetArrayItem(got, i)->valueint, want[i]);
    cJSON_Delete(values);
}

static void check(struct engine *engine, const struct attention_case *c, uint32_t channels)
{
    struct expected e = expect(c->width, c->height, c->to_width, c->to_height, !c->stay_small);
    struct gpu_run run, whole;
    gpu_run_open(&run, engine, SOURCE(c->width, c->height, channels), NULL,
                 text_of("[{'op':'resize','width':%u,'height':%u,'fit':'cover','filter':'box',"
                         "'gravity':'attention'%s}]", c->to_width, c->to_height,
                         c->stay_small ? ",'enlarge':false" : ""));
    fill(run.input, c->fill);
    gpu_run_open(&whole, cpu, SOURCE(c->width, c->height, channels), NULL,
                 text_of("[{'op':'resize','width':%u,'height':%u,'fit':'exact','filter':'box'}]",
                         e.width, e.height));
    memcpy(whole.input.pixels, run.input.pixels, run.input.stride * run.input.height);
    gpu_run_finish(&run);
    gpu_run_finish(&whole);
    struct raster image = raster_of(whole.result);
    struct raster gray = reference_gray(&image, NULL, test_background);
    struct raster edges = reference_sobel(&gray, REFERENCE_HALF, REFERENCE_REFLECT101);
    place(&e, &edges, c->width, c->height);
    struct raster want = raster_make(e.across, e.down, channels);
    for (uint32_t y = 0; y < e.down; y++)
        memcpy(raster_at(&want, 0, y), raster_at(&image, e.x, e.y + y),
               (size_t)e.across * channels);
    gpu_run_expect(&run, want);
    compare_window(&run, e.window);
    raster_clear(&image);
    raster_clear(&gray);
    raster_clear(&edges);
    gpu_run_close(&whole);
    gpu_run_close(&run);
}

/* Both axes, no room, no resize at all, single pixels, and images around the tiles of 512 columns,
 * of 32 x 64 pixels, and the 1,024 threads that share the lines. */
static const struct attention_case cases[] = {
    {1, 1, 1, 1, 0, NOISE},       {1, 1, 9, 5, 0, NOISE},      {1, 70, 3, 3, 0, NOISE},
    {70, 1, 3, 3, 0, NOISE},      {2, 2, 1, 2, 0, NOISE},      {40, 30, 40, 30, 0, NOISE},
    {40, 30, 8, 6, 0, NOISE},     {90, 60, 30, 30, 0, NOISE},  {60, 90, 30, 30, 0, NOISE},
    {90, 60, 30, 30, 0, FLAT},    {91, 60, 30, 30, 0, FLAT},   {60, 91, 31, 30, 0, FLAT},
    {90, 60, 20, 60, 0, SPOT},    {60, 90, 60, 20, 0, SPOT},   {90, 60, 20, 60, 0, TWO_SPOTS},
    {60, 90, 60, 20, 0, TWO_SPOTS}, {90, 60, 60, 60, 0, TWO_SPOTS}, {50, 40, 100, 300, 1, NOISE},
    {50, 40, 300, 100, 1, NOISE}, {50, 40, 300, 100, 0, SPOT}, {511, 31, 31, 31, 0, NOISE},
    {512, 33, 200, 33, 0, NOISE}, {513, 64, 64, 64, 0, NOISE}, {65, 514, 65, 65, 0, SPOT},
    {1025, 9, 600, 9, 0, NOISE},  {1023, 9, 1, 9, 0, SPOT},    {3, 2049, 3, 1023, 0, NOISE},
    {2050, 2, 2049, 2, 0, NOISE}, {300, 200, 120, 130, 0, SPOT},
};

static void all_cases(struct engine *engine)
{
    for (size_t i = 0; i < COUNT_OF(cases); i += test_quick() ? 2 : 1)
        each_channels(channels)
            check(engine, &cases[i], channels);
}

/* The longest axis: the window is found by the only lit line. */
static void all_long(struct engine *engine)
{
    struct attention_case c = {16384, 3, 64, 3, false, SPOT};
    check(engine, &c, 3);
    c = (struct attention_case){2, 16384, 2, 32, false, SPOT};
    check(engine, &c, 1);
}

/* ---- plans ---- */

/* The window is cut out of a part of the source, of a turned image, and of one decoded at 1/8. The
 * values count the pixels before the resize. */
static void all_plans(struct engine *engine)
{
    static const struct {
        const char *ops;
        struct plan_source source;
        int window[4];
    } table[] = {
        {"[{'op':'crop','width':50,'height':20,'x':3,'y':1}," "{'op':'resize','width':20,"
         "'height':20,'fit':'cover','gravity':'attention'}]",
         {.width = 60, .height = 30, .channels = 3}, {15, 0, 20, 20}},
        {"[{'op':'resize','width':20,'height':20,'fit':'cover','gravity':'attention'},'invert']",
         {.width = 60, .height = 120, .channels = 1, .orientation = 6}, {30, 0, 60, 60}},
        {"[{'op':'resize','width':10,'height':10,'fit':'cover','gravity':'attention'}]",
         {.width = 801, .height = 400, .channels = 3, .eighths = 1}, {200, 0, 400, 400}},
    };
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct gpu_run run;
        gpu_run_open(&run, engine, &table[i].source, NULL, table[i].ops);
        fill(run.input, FLAT);
        gpu_run_finish(&run);
        compare_window(&run, table[i].window);
        gpu_run_close(&run);
    }
}

TEST(test_values)
{
    struct op_item *with = test_ops("[{'op':'resize','width':9,'height':9,'fit':'cover',"
                                    "'gravity':'attention'}]");
    struct op_item *without = test_ops("[{'op':'resize','width':9,'height':9,'fit':'cover',"
                                       "'gravity':'north'}]");
    assert_true(op_list_gives_values(with));
    assert_false(op_list_gives_values(without));
    op_list_free(with);
    op_list_free(without);
}

/* The whole image, resized, has 2,000 columns more than are allowed. */
TEST(test_too_large)
{
    struct plan_limits limits = {.pixels_max = 1000000, .side_max = 2000};
    check_misfit(SOURCE(400, 1, 1), &limits,
                 "[{'op':'resize','width':10,'height':10,'fit':'cover','gravity':'attention'}]",
                 STATUS_IMAGE_TOO_LARGE, "makes an image of 4000 x 10 pixels");
}

ON_BOTH(cases)
ON_BOTH(long)
ON_BOTH(plans)

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
