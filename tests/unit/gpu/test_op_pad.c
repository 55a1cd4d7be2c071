/* Tests of pad on both engines, byte for byte, against a reference that copies single pixels. */
#include "tests/fixtures/gpu/both_engines.h"

#include "gpu/plan/pass.h"
#include "tests/fixtures/reference.h"

/* ---- the sides ---- */

/* Colours as JSON and as RGBA: all kinds, which make all results of gray, RGB and RGBA. */
static const struct {
    const char *json;
    uint8_t rgba[4];
} colours[] = {
    {"[90,90,90]", {90, 90, 90, 255}},     {"[1,200,3]", {1, 200, 3, 255}},
    {"[255,0,7,255]", {255, 0, 7, 255}},   {"[5,6,7,0]", {5, 6, 7, 0}},
    {"[9,9,9,254]", {9, 9, 9, 254}},       {"'transparent'", {0, 0, 0, 0}},
};

/* left, top, right, bottom */
static void check_sides(struct engine *engine, const uint32_t size[2], uint32_t channels,
                        const uint32_t sides[4], size_t colour)
{
    struct gpu_run run;
    gpu_run_open(&run, engine, SOURCE(size[0], size[1], channels), NULL,
                 text_of("[{'op':'pad','left':%u,'top':%u,'right':%u,'bottom':%u,'color':%s}]",
                         sides[0], sides[1], sides[2], sides[3], colours[colour].json));
    gpu_run_finish(&run);
    struct raster source = raster_of(run.input);
    gpu_run_expect(&run, reference_pad(&source, sides[0], sides[1], size[0] + sides[0] + sides[2],
                                       size[1] + sides[1] + sides[3], colours[colour].rgba));
    raster_clear(&source);
    gpu_run_close(&run);
}

/* CUDA stores 16 bytes at a time, so that the source starts and ends at each byte of a piece. */
static void all_sides(struct engine *engine)
{
    static const uint32_t sizes[][2] = {{1, 1},   {1, 37},  {37, 1},   {3, 3},     {16, 16},
                                        {17, 15}, {33, 30}, {255, 31}, {257, 12},  {16384, 2},
                                        {2, 16384}};
    static const uint32_t sides[][4] = {{0, 0, 0, 0}, {1, 0, 0, 0},   {0, 1, 0, 0}, {0, 0, 1, 0},
                                        {0, 0, 0, 1}, {16, 2, 16, 2}, {5, 3, 40, 1}, {77, 0, 3, 9}};
    for (size_t i = 0; i < COUNT_OF(sizes); i += test_quick() ? 3 : 1)
        for (size_t s = 0; s < COUNT_OF(sides); s++)
            each_channels(channels)
                for (size_t c = 0; c < COUNT_OF(colours); c++)
                    check_sides(engine, sizes[i], channels, sides[s], c);
}

static void all_offsets(struct engine *engine)
{
    for (uint32_t left = 0; left <= 50; left += test_quick() ? 7 : 1)
        for (uint32_t width = 1; width <= 50; width += 7)
            each_channels(channels)
                check_sides(engine, (const uint32_t[2]){width, 2}, channels,
                            (const uint32_t[4]){left, 1, left % 5, 0}, left % COUNT_OF(colours));
}

/* ---- the size and gravity ---- */

static void check_size(struct engine *engine, const char *json, uint32_t left, uint32_t top,
                       uint32_t width, uint32_t height)
{
    each_channels(channels) {
        /* Without a colour, the background of the job. */
        uint8_t background[] = {test_background[0], test_background[1], test_background[2], 255};
        struct gpu_run run;
        gpu_run_open(&run, engine, SOURCE(61, 50, channels), NULL, json);
        gpu_run_finish(&run);
        struct raster source = raster_of(run.input);
        gpu_run_expect(&run, reference_pad(&source, left, top, width, height, background));
        raster_clear(&source);
        gpu_run_close(&run);
    }
}

static void all_gravities(struct engine *engine)
{
    static const char *const names[] = {"center",    "north", "northeast", "east", "southeast",
                                        "south", "southwest", "west", "northwest"};
    for (size_t g = 0; g < COUNT_OF(names); g++) {
        for (uint32_t more = 0; more <= 5; more += 5) {
            uint32_t across = 9 + more, down = 4 + more;
            uint32_t left = strstr(names[g], "west") ? 0 : strstr(names[g], "east") ? across
                                                                                    : across / 2;
            uint32_t top = strstr(names[g], "north") ? 0 : strstr(names[g], "south") ? down
                                                                                     : down / 2;
            check_size(engine, text_of("[{'op':'pad','width':%u,'height':%u,'gravity':'%s'}]",
                                       61 + across, 50 + down, names[g]),
                       left, top, 61 + across, 50 + down);
        }
    }
    check_size(engine, "[{'op':'pad','width':70}]", 4, 0, 70, 50);
    check_size(engine, "[{'op':'pad','height':53}]", 0, 1, 61, 53);
    check_size(engine, "[{'op':'pad','width':61,'height':50}]", 0, 0, 61, 50);
}

/* ---- rectangles ---- */

/* pad reads a rectangle at any byte of the source in place. */
static void all_rectangles(struct engine *engine)
{
    static const uint8_t colour[] = {3, 2, 1, 255};
    each_channels(channels) {
        for (uint32_t x = 0; x <= 33; x += test_quick() ? 5 : 1) {
            uint32_t y = 2 + x % 3, width = x * 53 % 60 + 1, height = x * 29 % 40 + 1;
            struct gpu_run run;
            gpu_run_open(&run, engine, SOURCE(100, 50, channels), NULL,
                         text_of("[{'op':'crop','x':%u,'y':%u,'width':%u,'height':%u},"
                                 "{'op':'pad','left':%u,'bottom':2,'color':[3,2,1]}]", x, y, width,
                                 height, x % 7));
            assert_string_equal(pass_names(&run.plan, ' '), "pad");
            gpu_run_finish(&run);
            struct raster inner = raster_make(width, height, channels);
            for (uint32_t i = 0; i < height; i++)
                memcpy(raster_at(&inner, 0, i),
                       run.input.pixels + (y + i) * run.input.stride + (size_t)x * channels,
                       (size_t)width * channels);
            gpu_run_expect(&run, reference_pad(&inner, x % 7, 0, width + x % 7, height + 2,
                                               colour));
            raster_clear(&inner);
            gpu_run_close(&run);
        }
    }
}

/* ---- plans ---- */

TEST(test_plans)
{
    static const struct {
        const char *ops;
        uint32_t channels;
        const char *passes;
        uint32_t result_channels;
    } table[] = {
        {"[{'op':'pad','left':0}]", 3, "", 3},
        {"[{'op':'pad','width':60}]", 1, "pad", 3}, /* test_background is not gray */
        {"[{'op':'pad','left':0,'color':'transparent'}]", 3, "pad", 4},
        {"[{'op':'pad','left':0,'color':[1,1,1]}]", 1, "", 1},
        {"[{'op':'pad','left':1,'color':[1,1,1]}]", 1, "pad", 1},
        {"[{'op':'pad','left':1},'grayscale']", 3, "pad grayscale", 1},
        {"['grayscale',{'op':'pad','left':1,'color':[0,0,0]}]", 3, "grayscale pad", 1},
    };
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct plan plan;
        struct plan_source *source = SOURCE(50, 40, table[i].channels);
        memcpy(source->background, test_background, sizeof(source->background));
        test_plan(&plan, source, NULL, table[i].ops);
        if (strcmp(pass_names(&plan, ' '), table[i].passes) != 0)
            fail_msg("%s: \"%s\"", table[i].ops, pass_names(&plan, ' '));
        assert_int_equal(plan.variants[0].channels, table[i].result_channels);
        plan_clear(&plan);
    }
}

/* ---- refused parameters ---- */

TEST(test_refused_parameters)
{
    static const struct test_refusal table[] = {
        {"['pad']", "ops[0] pad needs width or height, or left, top, right or bottom"},
        {"[{'op':'pad','gravity':'west'}]", "pad needs width or height, or left"},
        {"[{'op':'pad','color':[1,2,3]}]", "pad needs width or height"},
        {"[{'op':'pad','width':9,'right':2}]", "pad has width and right; give the size of the "
                                               "result, or the sides"},
        {"[{'op':'pad','gravity':'west','top':2}]", "pad has gravity and top"},
        {"[{'op':'pad','left':-1}]", "left is -1; it must be an integer of 0 to 65500"},
        {"[{'op':'pad','width':0}]", "width is 0; it must be an integer of 1 to 65500"},
        {"[{'op':'pad','left':1,'color':'black'}]",
         "color must be [r,g,b], [r,g,b,a] or \"transparent\""},
        {"[{'op':'pad','left':1,'color':[1,2]}]", "color must be [r,g,b]"},
        {"[{'op':'pad','left':1,'color':[1,2,3,4,5]}]", "color must be [r,g,b]"},
        {"[{'op':'pad','left':1,'color':7}]", "color must be [r,g,b]"},
        {"[{'op':'pad','left':1,'color':[1,2,256]}]",
         "color[2] is 256; it must be an integer of 0 to 255"},
        {"[{'op':'pad','left':1,'color':[1,2,3,0.5]}]", "color[3] is 0.5"},
        {"[{'op':'pad','left':1,'color':['a',2,3]}]", "color[0] is a string"},
    };
    check_refused(table, COUNT_OF(table));
}

TEST(test_refused_sizes)
{
    static const struct {
        const char *ops, *text;
        enum status status;
    } table[] = {
        {"[{'op':'pad','width':299}]",
         "ops[0] pad: width is 299; it must be at least 300, because the image is 300 x 200 at "
         "this operation", STATUS_BAD_OP},
        {"[{'op':'pad','width':300,'height':100}]", "height is 100; it must be at least 200",
         STATUS_BAD_OP},
        {"['rotate',{'op':'pad','height':299}]", "the image is 200 x 300 at this operation",
         STATUS_BAD_OP},
        {"[{'op':'pad','left':65201}]", "the result is 65501 x 200 pixels; a side may have at "
                                        "most 65500", STATUS_IMAGE_TOO_LARGE},
        {"[{'op':'pad','left':65500,'right':65500,'top':65500,'bottom':65500}]",
         "the result is 131300 x 131200", STATUS_IMAGE_TOO_LARGE},
        {"[{'op':'pad','width':65500,'height':65500}]", "the result has 4290250000 pixels",
         STATUS_IMAGE_TOO_LARGE},
    };
    for (size_t i = 0; i < COUNT_OF(table); i++)
        check_misfit(SOURCE(300, 200, 3), NULL, table[i].ops, table[i].status, table[i].text);
}

ON_BOTH(sides)
ON_BOTH(offsets)
ON_BOTH(gravities)
ON_BOTH(rectangles)

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
