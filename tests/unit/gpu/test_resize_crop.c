/*
 * Tests of a crop after a resize: the resize computes only the rectangle, and its bytes equal those
 * of the whole result. Both engines. test_op_resize compares whole results with a reference.
 */
#include "tests/fixtures/gpu/both_engines.h"

#include "gpu/ops/resample_strips.h"
#include "gpu/plan/pass.h"

static const char *const filters[] = {"box", "bilinear", "bicubic", "lanczos3"};

struct rect {
    uint32_t x, y, width, height;
};

static struct raster part_of(const struct raster *whole, struct rect rect)
{
    struct raster part = raster_make(rect.width, rect.height, whole->channels);
    for (uint32_t y = 0; y < rect.height; y++)
        memcpy(raster_at(&part, 0, y), raster_at(whole, rect.x, rect.y + y),
               (size_t)rect.width * whole->channels);
    return part;
}

static const char *crop_text(struct rect rect)
{
    return text_of("{'op':'crop','x':%u,'y':%u,'width':%u,'height':%u}", rect.x, rect.y, rect.width,
                   rect.height);
}

/* Crops the result of `resize` twice: to `rect`, and to a part of that. */
static void check(struct engine *engine, const struct plan_source *source, const char *resize,
                  struct rect rect)
{
    struct gpu_run run;
    struct rect inner = {rect.width / 3, rect.height / 2, rect.width - rect.width / 3,
                         rect.height - rect.height / 2};
    gpu_run_open(&run, engine, source, NULL, text_of("[%s]", resize));
    gpu_run_finish(&run);
    struct raster whole = raster_of(run.result);
    gpu_run_close(&run);

    gpu_run_open(&run, engine, source, NULL, text_of("[%s,%s]", resize, crop_text(rect)));
    gpu_run_finish(&run);
    gpu_run_expect(&run, part_of(&whole, rect));
    gpu_run_close(&run);

    struct raster outer = part_of(&whole, rect);
    gpu_run_open(&run, engine, source, NULL,
                 text_of("[%s,%s,%s]", resize, crop_text(rect), crop_text(inner)));
    gpu_run_finish(&run);
    gpu_run_expect(&run, part_of(&outer, inner));
    gpu_run_close(&run);
    raster_clear(&outer);
    raster_clear(&whole);
}

/* The width and height of the source and of the result. */
static const uint32_t sizes[][4] = {
    {40, 30, 40, 11},   {64, 33, 65, 32}, {300, 70, 100, 35}, {33, 47, 97, 101},
    {500, 37, 341, 26}, {1025, 5, 11, 9}, {3, 1025, 9, 11},   {255, 97, 31, 12},
};

static void all_rects(struct engine *engine)
{
    size_t step = test_quick() ? 3 : 1;
    for (size_t i = 0; i < COUNT_OF(sizes); i += step) {
        uint32_t w = sizes[i][2], h = sizes[i][3];
        const struct rect rects[] = {{0, 0, w, h},         {0, 0, 1, 1},
                                     {w - 1, h - 1, 1, 1}, {w / 4, h / 4, w - w / 2, h - h / 2},
                                     {w / 2, 0, 1, h},     {0, h / 3, w, 1}};
        for (size_t r = 0; r < COUNT_OF(rects); r++)
            each_channels (channels)
                check(engine, SOURCE(sizes[i][0], sizes[i][1], channels),
                      text_of("{'op':'resize','width':%u,'height':%u,'fit':'exact','filter':'%s'}",
                              w, h, filters[(i + r + channels) % COUNT_OF(filters)]),
                      rects[r]);
    }
}

/* Resizes of a part of the source, and of an image that was decoded at a fraction of its size. */
static void all_parts(struct engine *engine)
{
    static const char *const cover =
        "{'op':'resize','width':31,'height':22,'fit':'cover','focus':[0.3,0.9]}";
    const struct rect rect = {5, 3, 21, 17};
    check(engine, SOURCE(91, 60, 3), cover, rect);
    check(engine, SOURCE(60, 91, 4), cover, rect);
    for (int orientation = 1; orientation <= 4; orientation++)
        check(engine, SOURCE(403, 249, 3, .eighths = 2, .orientation = orientation),
              "{'op':'resize','width':31,'height':22,'fit':'exact'}", rect);
}

ON_BOTH(rects)
ON_BOTH(parts)

/* The tests above run the best instruction set. */
TEST(test_lower_levels)
{
    for (enum resample_level level = RESAMPLE_PLAIN; level < RESAMPLE_VNNI; level++) {
        resample_level_max = level;
        all_rects(cpu);
        all_parts(cpu);
    }
    resample_level_max = RESAMPLE_VNNI;
}

/* ---- plans ---- */

/* The passes with the sizes of their results, of a source of 400 x 300 x 3. */
static const struct {
    const char *ops, *passes;
} plans[] = {
    /* Row 67 needs rows from 86 on, and row 156 needs rows up to 212. */
    {"{'op':'resize','width':300},{'op':'crop','width':100,'height':90,'gravity':'center'}",
     "resample x 100 x 127, resample y 100 x 90"},
    /* A mirrored image is cropped before it is mirrored. */
    {"{'op':'resize','width':300},{'op':'flip','axis':'horizontal'},"
     "{'op':'crop','x':0,'y':0,'width':100,'height':90}",
     "resample x 100 x 123, resample y 100 x 90, orient 100 x 90"},
    /* The rows are not resized: the crop is read in place. */
    {"{'op':'resize','width':200,'height':300,'fit':'exact'},"
     "{'op':'crop','x':0,'y':0,'width':100,'height':90}",
     "resample x 200 x 300, orient 100 x 90"},
    /* Another operation needs the whole result. */
    {"{'op':'resize','width':300},'stats',{'op':'crop','x':0,'y':0,'width':100,'height':90}",
     "resample x 300 x 300, resample y 300 x 225, stats 300 x 225, orient 100 x 90"},
    {"{'op':'resize','width':300,'filter':'nearest'},"
     "{'op':'crop','x':0,'y':0,'width':100,'height':90}",
     "pick 300 x 225, orient 100 x 90"},
};

static const char *describe(const struct plan_variant *variant, char text[256])
{
    size_t used = 0;
    for (uint32_t i = 0; i < variant->pass_count; i++) {
        const struct pass *pass = &variant->passes[i];
        used += (size_t)snprintf(text + used, 256 - used, "%s%s %u x %u", i > 0 ? ", " : "",
                                 pass->type->name, pass->to.width, pass->to.height);
    }
    return text;
}

TEST(test_plans)
{
    char text[256];
    for (size_t i = 0; i < COUNT_OF(plans); i++) {
        struct plan plan;
        test_plan(&plan, SOURCE(400, 300, 3), NULL, text_of("[%s]", plans[i].ops));
        assert_string_equal(describe(&plan.variants[0], text), plans[i].passes);
        plan_clear(&plan);
    }
}

/* The tables of passes that were replaced do not count for the limit of tables: 30 crops of a
 * result with tables of 2 MB would exceed it. */
TEST(test_tables)
{
    char ops[2048] = "[{'op':'resize','width':48000,'height':60,'fit':'exact'}";
    for (uint32_t i = 1; i < JOB_OPS_MAX; i++)
        sprintf(ops + strlen(ops), ",{'op':'crop','x':0,'y':0,'width':%u,'height':59}", 48000 - i);
    strcat(ops, "]");
    const struct plan_limits limits = {PIXELS_DEFAULT, 65500};
    struct plan_target target = {.ops = test_ops(ops)};
    struct error error = {0};
    struct plan plan;
    assert_int_equal(plan_build(&plan, SOURCE(16000, 20, 1), &target, 1, &limits, &error),
                     STATUS_OK);
    plan_clear(&plan);
    op_list_free(target.ops);
}

/* Several outputs may share the passes of a resize, so these are not changed. */
TEST(test_several_outputs)
{
    struct op_item *ops = test_ops(
        text_of("[{'op':'resize','width':300},{'op':'crop','x':0,'y':0,'width':100,'height':90}]"));
    struct plan_target targets[2] = {{.ops = ops}, {.ops = ops}};
    struct error error = {0};
    struct plan plan;
    char text[256];
    assert_int_equal(plan_build(&plan, SOURCE(400, 300, 3), targets, 2, &test_limits, &error),
                     STATUS_OK);
    assert_string_equal(describe(&plan.variants[0], text),
                        "resample x 300 x 300, resample y 300 x 225, orient 100 x 90");
    plan_clear(&plan);
    op_list_free(ops);
}

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
