/* Tests of composite: both engines against the definition, pixel by pixel. */
#include "tests/fixtures/gpu/both_engines.h"

#include "gpu/plan/pass.h"
#include "tests/fixtures/gpu/overlay.h"
#include "tests/fixtures/reference.h"

/* An overlay, where its first pixel is, and how it is laid. */
struct laid {
    const char *name;
    uint32_t width; /* 0: its own */
    int x, y;
    double opacity;
    bool tile;
};

/* ---- the reference: no shifts, but for Pillow's weights ---- */

/* x / 255; ties do not exist. */
static uint8_t by_255(uint32_t x)
{
    return (uint8_t)((2 * x + 255) / 510);
}

/* AlphaComposite.c of Pillow 9 to 12, with its 7 additional bits. */
static void over_rgba(const uint8_t *over, uint32_t a, uint8_t *base)
{
    uint32_t b = base[3], t = a * 255 + b * (255 - a);
    if (a == 0)
        return;
    uint64_t k = (uint64_t)a * 255 * 255 * 128 / t;
    for (int c = 0; c < 3; c++) {
        uint64_t x = over[c] * k + base[c] * (255 * 128 - k) + 0x4000;
        base[c] = (uint8_t)((x / 256 + x) / 256 / 128);
    }
    base[3] = by_255(t);
}

static int wrap(int at, int side)
{
    return at % side < 0 ? at % side + side : at % side;
}

/* Frees `base`. */
static struct raster reference(struct raster base, const struct laid *laid)
{
    struct plan_overlay overlay = test_overlay(laid->name, laid->width);
    int across = (int)overlay.image.width, down = (int)overlay.image.height;
    uint32_t opacity = (uint32_t)(65536 * laid->opacity + 0.5);
    bool seen = opacity > 0 && (laid->tile || (laid->x < (int)base.width &&
                laid->y < (int)base.height && laid->x + across > 0 && laid->y + down > 0));
    uint32_t channels = base.channels == 1 && seen && !overlay.gray ? 3 : base.channels;
    struct raster to = raster_make(base.width, base.height, channels);
    for (uint32_t y = 0; y < base.height; y++)
        for (uint32_t x = 0; x < base.width; x++) {
            uint8_t *pixel = raster_at(&to, x, y);
            for (uint32_t c = 0; c < channels; c++)
                pixel[c] = raster_at(&base, x, y)[base.channels == 1 ? 0 : c];
            int ox = (int)x - laid->x, oy = (int)y - laid->y;
            ox = laid->tile ? wrap(ox, across) : ox;
            oy = laid->tile ? wrap(oy, down) : oy;
            if (!seen || ox < 0 || oy < 0 || ox >= across || oy >= down)
                continue;
            const uint8_t *over =
                overlay.image.pixels + (size_t)oy * overlay.image.stride + (size_t)ox * 4;
            uint32_t a = (over[3] * opacity + 32768) / 65536;
            for (uint32_t c = 0; c < channels && channels != 4; c++)
                pixel[c] = by_255(pixel[c] * (255 - a) + over[c] * a);
            if (channels == 4)
                over_rgba(over, a, pixel);
        }
    raster_clear(&base);
    return to;
}

static void check(struct engine *engine, const uint32_t sides[2], uint32_t channels,
                  const char *ops, const struct laid *laid)
{
    struct gpu_run run;
    gpu_run_open(&run, engine, SOURCE(sides[0], sides[1], channels), NULL, ops);
    struct raster base = raster_of(run.input);
    gpu_run_finish(&run);
    gpu_run_expect(&run, reference(base, laid));
    gpu_run_close(&run);
}

/* ---- sizes and places ---- */

/* CUDA blocks are 64 x 4 pixels. */
static const uint32_t sizes[][2] = {
    {1, 1}, {1, 37}, {37, 1}, {3, 3}, {7, 5}, {8, 6}, {40, 20}, {41, 21}, {39, 19}, {63, 3},
    {64, 4}, {65, 5}, {128, 9}, {127, 64}, {300, 201}, {16384, 2}, {2, 16384},
};
static const char *const overlays[] = {"colour-40x20", "gray-40x20", "opaque-1x1", "colour-90x70",
                                       "gray-1x31", "opaque-33x1", "colour-17000x3"};

static void all_places(struct engine *engine)
{
    static const int places[][2] = {{0, 0}, {5, 3}, {-3, -2}, {-39, 0}, {0, -19}, {-40, 0},
                                    {1000, 7}, {61, 2}, {-17, 1}};
    for (size_t i = 0; i < COUNT_OF(sizes); i += test_quick() ? 3 : 1)
        for (size_t o = 0; o < COUNT_OF(overlays); o++)
            for (size_t p = 0; p < COUNT_OF(places) * 2; p++) {
                struct laid laid = {.name = overlays[o], .x = places[p / 2][0],
                                    .y = places[p / 2][1], .opacity = 1, .tile = p % 2};
                char ops[200];
                snprintf(ops, sizeof ops, "[{'op':'composite','input':'%s','x':%d,'y':%d,"
                         "'tile':%s}]", laid.name, laid.x, laid.y, laid.tile ? "true" : "false");
                each_channels(channels)
                    check(engine, sizes[i], channels, ops, &laid);
            }
}

/* Every value under every alpha and over every alpha: a 256 x 256 base that the fixture fills, and
 * overlays of all alphas, moved by one pixel at a time. */
static void all_arithmetic(struct engine *engine)
{
    const uint32_t sides[2] = {700, 300};
    static const double opacities[] = {1, 0.5, 0.25, 0.1, 0.999, 0.00001, 0.0000001, 0};
    for (size_t i = 0; i < COUNT_OF(opacities); i++) {
        struct laid laid = {"colour-641x277", 0, -(int)i, (int)i * 3 - 4, opacities[i], true};
        char ops[200];
        snprintf(ops, sizeof ops, "[{'op':'composite','input':'%s','x':%d,'y':%d,'tile':true,"
                 "'opacity':%.7f}]", laid.name, laid.x, laid.y, laid.opacity);
        each_channels(channels)
            check(engine, sides, channels, ops, &laid);
    }
}

static int middle(int outer, int inner)
{
    return (outer - inner) >= 0 ? (outer - inner) / 2 : -((inner - outer + 1) / 2);
}

static void all_gravities(struct engine *engine)
{
    static const char *const words[3][3] = {{"northwest", "north", "northeast"},
                                            {"west", "center", "east"},
                                            {"southwest", "south", "southeast"}};
    static const uint32_t bases[][2] = {{100, 60}, {101, 61}, {39, 19}, {12, 7}};
    for (size_t b = 0; b < COUNT_OF(bases); b++)
        for (int g = 0; g < 9; g++) {
            int width = (int)bases[b][0], height = (int)bases[b][1], h = g % 3, v = g / 3;
            struct laid laid = {.name = "colour-40x20", .opacity = 1};
            laid.x = h == 0 ? 3 : h == 1 ? middle(width, 40) + 3 : width - 40 - 3;
            laid.y = v == 0 ? -2 : v == 1 ? middle(height, 20) - 2 : height - 20 + 2;
            char ops[200];
            snprintf(ops, sizeof ops, "[{'op':'composite','input':{'key':'%s'},'gravity':'%s',"
                     "'x':3,'y':-2}]", laid.name, words[v][h]);
            check(engine, bases[b], 3, ops, &laid);
            snprintf(ops, sizeof ops, "[{'op':'composite','input':{'path':'%s'},'gravity':'%s'}]",
                     laid.name, words[v][h]);
            laid.x = h == 0 ? 0 : h == 1 ? middle(width, 40) : width - 40;
            laid.y = v == 0 ? 0 : v == 1 ? middle(height, 20) : height - 20;
            check(engine, bases[b], 4, ops, &laid);
        }
    struct laid laid = {.name = "gray-40x20", .x = middle(71, 40), .y = middle(30, 20),
                        .opacity = 1};
    const uint32_t sides[2] = {71, 30};
    check(engine, sides, 1, "[{'op':'composite','input':'gray-40x20'}]", &laid);
}

static void all_scales(struct engine *engine)
{
    static const struct {
        uint32_t width;
        double scale;
        uint32_t wanted;
    } cases[] = {{100, 1, 100}, {100, 0.25, 25}, {90, 0.25, 23}, {3, 0.001, 1}, {1, 1, 1},
                 {50, 0.03, 2}, {333, 0.5, 167}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct laid laid = {.name = "colour-40x20", .width = cases[i].wanted, .opacity = 1};
        const uint32_t sides[2] = {cases[i].width, 40};
        char ops[200];
        snprintf(ops, sizeof ops, "[{'op':'composite','input':'colour-40x20','scale':%.4f,'y':0}]",
                 cases[i].scale);
        each_channels(channels)
            check(engine, sides, channels, ops, &laid);
    }
}

ON_BOTH(places)
ON_BOTH(arithmetic)
ON_BOTH(gravities)
ON_BOTH(scales)

/* ---- in chains ---- */

static void all_chains(struct engine *engine)
{
    struct gpu_run run;
    struct laid laid = {.name = "opaque-9x9", .x = 2, .y = 1, .opacity = 1};
    gpu_run_open(&run, engine, SOURCE(61, 40, 3), NULL,
                 "[{'op':'crop','x':5,'y':3,'width':40,'height':30},"
                 "{'op':'composite','input':'opaque-9x9','x':2,'y':1},'grayscale']");
    struct raster whole = raster_of(run.input), part = raster_make(40, 30, 3);
    for (uint32_t y = 0; y < 30; y++)
        memcpy(raster_at(&part, 0, y), raster_at(&whole, 5, 3 + y), 40 * 3);
    raster_clear(&whole);
    struct raster laid_over = reference(part, &laid);
    gpu_run_finish(&run);
    gpu_run_expect(&run, reference_gray(&laid_over, NULL, test_background));
    raster_clear(&laid_over);
    gpu_run_close(&run);
}
ON_BOTH(chains)

/* An overlay that cannot be seen needs no pass. */
TEST(test_passes)
{
    static const char *const none[] = {
        "[{'op':'composite','input':'colour-9x9','x':40,'y':0}]",
        "[{'op':'composite','input':'colour-9x9','x':0,'y':-9}]",
        "[{'op':'composite','input':'colour-9x9','opacity':0}]"};
    struct plan plan;
    for (size_t i = 0; i < COUNT_OF(none); i++) {
        test_plan(&plan, SOURCE(40, 30, 1), NULL, none[i]);
        assert_int_equal(plan.variants[0].pass_count, 0);
        assert_int_equal(plan.constants_bytes, 0);
        plan_clear(&plan);
    }
    /* Only the visible part is stored. */
    test_plan(&plan, SOURCE(40, 30, 3), NULL, "[{'op':'composite','input':'colour-9000x90'}]");
    assert_int_equal(plan.overlays_bytes, buffer_align(40 * 30 * 4));
    assert_int_equal(plan.constants_bytes, plan.overlays_bytes);
    plan_clear(&plan);
}

/* Overlays have a limit of their own, which leaves the limit of tables as it is. */
TEST(test_bytes)
{
    struct plan plan;
    struct error error = {0};
#define TILED "{'op':'composite','tile':true,'input':'opaque-4096x4096'},"
#define FOUR  "[" TILED TILED TILED TILED "{'op':'resize','width':100}"
    struct plan_target target = {.ops = test_ops(FOUR "]"), .overlays = &test_overlays};
    assert_int_equal(plan_build(&plan, SOURCE(4096, 4096, 3), &target, 1, &test_limits, &error),
                     STATUS_OK);
    assert_int_equal(plan.overlays_bytes, PLAN_OVERLAYS_BYTES_MAX);
    plan_clear(&plan);
    op_list_free(target.ops);
    target.ops = test_ops(FOUR ",{'op':'composite','input':'opaque-1x1'}]");
    assert_int_equal(plan_build(&plan, SOURCE(4096, 4096, 3), &target, 1, &test_limits, &error),
                     STATUS_OVER_BUDGET);
    assert_non_null(strstr(error.text, "more than 67108864 pixels"));
    plan_clear(&plan);
    op_list_free(target.ops);
}

/* An overlay's error fails its variant alone. */
/* An output with values only drops its overlay, whose bytes then count for no limit. */
TEST(test_dropped)
{
    struct plan_target targets[] = {
        {.ops = test_ops("['stats',{'op':'composite','input':'colour-900x600'}]"),
         .overlays = &test_overlays, .no_picture = true},
        {.ops = test_ops("[{'op':'resize','width':300}]"), .overlays = &test_overlays}};
    struct error error = {0};
    struct plan plan;
    assert_int_equal(plan_build(&plan, SOURCE(1000, 700, 3), targets, 2, &test_limits, &error),
                     STATUS_OK);
    assert_int_equal(plan.overlays_bytes, 0);
    plan_clear(&plan);
    op_list_free(targets[0].ops);
    op_list_free(targets[1].ops);
}

TEST(test_missing)
{
    struct plan plan;
    struct error error = {0}, first = {0};
    struct op_item *bad = test_ops("[{'op':'composite','input':'missing'}]");
    struct op_item *good = test_ops("['invert']");
    struct plan_target targets[2] = {
        {.ops = bad, .overlays = &test_overlays, .number = 1, .error = &first},
        {.ops = good, .number = 2}};
    assert_int_equal(plan_build(&plan, SOURCE(9, 9, 3), targets, 2, &test_limits, &error),
                     STATUS_OK);
    assert_int_equal(first.status, STATUS_INPUT_MISSING);
    assert_int_equal(plan.variants[1].pass_count, 1);
    plan_clear(&plan);
    targets[0].overlays = NULL;
    first = (struct error){0};
    assert_int_equal(plan_build(&plan, SOURCE(9, 9, 3), targets, 2, &test_limits, &error),
                     STATUS_OK);
    assert_int_equal(first.status, STATUS_BAD_OP);
    plan_clear(&plan);
    op_list_free(bad);
    op_list_free(good);
}

TEST(test_refused)
{
    static const struct test_refusal refusals[] = {
        {"['composite']", "input is missing; it must be a path or an object with path or key"},
        {"[{'op':'composite','input':7}]", "input is a number; it must be a path or an object"},
        {"[{'op':'composite','input':{}}]", "input must have path or key, and nothing else"},
        {"[{'op':'composite','input':{'path':'a','key':'b'}}]", "must have path or key, and"},
        {"[{'op':'composite','input':{'path':'a','format':'png'}}]", "must have path or key, and"},
        {"[{'op':'composite','input':{'key':3}}]", "input is without a string; it must be a path"},
        {"[{'op':'composite','input':'a','gravity':'up'}]", "gravity is \"up\"; it must be center"},
        {"[{'op':'composite','input':'a','x':65501}]", "x is 65501; it must be an integer of "},
        {"[{'op':'composite','input':'a','opacity':1.5}]", "opacity is 1.5; it must be 0 to 1"},
        {"[{'op':'composite','input':'a','scale':0}]", "scale is 0; it must be 0.0001 to 1"},
        {"[{'op':'composite','input':'a','tile':1}]", "tile is a number; it must be true or false"},
    };
    check_refused(refusals, COUNT_OF(refusals));
}

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
