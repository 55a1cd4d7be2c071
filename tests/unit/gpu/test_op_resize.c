/* Tests of resize on both engines. The reference follows the definition: a table of doubles for
 * each output pixel, rounded to 1/2^22, applied along the rows and then down the columns, or in the
 * other order. Hashes of Pillow's results check the order. */
#include "tests/fixtures/gpu/both_engines.h"
#include "tests/fixtures/reference.h"

#include "gpu/ops/resample_strips.h"

#include <math.h>

/* ---- the reference ---- */

enum kind { NEAREST, BOX, BILINEAR, BICUBIC, LANCZOS3, KINDS };
static const char *const kinds[KINDS] = {"nearest", "box", "bilinear", "bicubic", "lanczos3"};
static const double supports[KINDS] = {0, 0.5, 1, 2, 3};

static double reference_weight(enum kind kind, double x)
{
    double d = fabs(x), angle = M_PI * x, third = M_PI * (x / 3);
    switch (kind) {
    case BOX: return -0.5 < x && x <= 0.5;
    case BILINEAR: return d < 1 ? 1 - d : 0;
    case BICUBIC:
        return d < 1 ? (1.5 * d - 2.5) * d * d + 1 : d < 2 ? (((d - 5) * d + 8) * d - 4) * -0.5 : 0;
    case LANCZOS3:
        if (x == 0)
            return 1;
        return x >= -3 && x < 3 ? sin(angle) / angle * (sin(third) / third) : 0;
    default: return 0;
    }
}

/* One axis of the source: the pixels that may be read, and the span that the output covers. */
struct span {
    int origin, count;
    double start, end;
};

static int reference_cut(int64_t sum)
{
    int64_t value = sum >= 0 ? sum / (1 << 22) : -((-sum + (1 << 22) - 1) / (1 << 22));
    return (int)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* One output of one channel; the `pixels` are `step` bytes apart. */
static uint8_t reference_mean(const uint8_t *pixels, size_t step, struct span span, int outputs,
                              int i, enum kind kind)
{
    double scale = (span.end - span.start) / outputs, stretch = scale > 1 ? scale : 1;
    double centre = span.start + (i + 0.5) * scale, sum = 0;
    int low = (int)fmax(0, centre - supports[kind] * stretch + 0.5);
    int high = (int)(centre + supports[kind] * stretch + 0.5);
    int64_t total = 1 << 21;
    if (high > span.count)
        high = span.count;
    for (int k = low; k < high; k++)
        sum += reference_weight(kind, (k - centre + 0.5) * (1.0 / stretch));
    for (int k = low; k < high; k++) {
        double share = reference_weight(kind, (k - centre + 0.5) * (1.0 / stretch)) / sum;
        int64_t whole = (int64_t)((share < 0 ? -0.5 : 0.5) + share * (1 << 22));
        total += whole * pixels[(size_t)(span.origin + k) * step];
    }
    return (uint8_t)reference_cut(total);
}

static void reference_premultiply(struct raster *raster)
{
    for (size_t i = 0; i < (size_t)raster->width * raster->height; i++)
        for (int c = 0; c < 3; c++) {
            int t = raster->pixels[4 * i + (size_t)c] * raster->pixels[4 * i + 3] + 128;
            raster->pixels[4 * i + (size_t)c] = (uint8_t)((t + t / 256) / 256);
        }
}

static void reference_divide(struct raster *raster)
{
    for (size_t i = 0; i < (size_t)raster->width * raster->height; i++)
        for (int c = 0; c < 3; c++) {
            int alpha = raster->pixels[4 * i + 3], value = raster->pixels[4 * i + (size_t)c];
            int whole = alpha ? 255 * value / alpha : value;
            raster->pixels[4 * i + (size_t)c] = (uint8_t)(whole > 255 ? 255 : whole);
        }
}

static struct raster reference_pick(const struct raster *in, struct span x, struct span y, int w,
                                    int h)
{
    struct raster out = raster_make((uint32_t)w, (uint32_t)h, in->channels);
    double step_x = (x.end - x.start) / w, step_y = (y.end - y.start) / h;
    double at_y = y.start + step_y / 2;
    for (int j = 0; j < h; j++, at_y += step_y) {
        double at_x = x.start + step_x / 2;
        for (int i = 0; i < w; i++, at_x += step_x)
            memcpy(raster_at(&out, (uint32_t)i, (uint32_t)j),
                   raster_at(in, (uint32_t)(x.origin + (int)at_x),
                             (uint32_t)(y.origin + (int)at_y)), in->channels);
    }
    return out;
}

static bool same_span(struct span span, int outputs)
{
    return span.start == 0 && span.end == span.count && span.count == outputs;
}

static struct raster reference_rows(const struct raster *in, struct span x, int w, enum kind kind)
{
    struct raster out = raster_make((uint32_t)w, in->height, in->channels);
    for (uint32_t j = 0; j < in->height; j++)
        for (int i = 0; i < w; i++)
            for (uint32_t c = 0; c < in->channels; c++)
                raster_at(&out, (uint32_t)i, j)[c] = reference_mean(
                    raster_at(in, 0, j) + c, in->channels, x, w, i, kind);
    return out;
}

static struct raster reference_columns(const struct raster *in, struct span y, int h,
                                       enum kind kind)
{
    struct raster out = raster_make(in->width, (uint32_t)h, in->channels);
    for (int j = 0; j < h; j++)
        for (uint32_t i = 0; i < out.width; i++)
            for (uint32_t c = 0; c < in->channels; c++)
                raster_at(&out, i, (uint32_t)j)[c] =
                    reference_mean(raster_at(in, i, 0) + c, (size_t)in->width * in->channels, y, h,
                                   j, kind);
    return out;
}

static struct raster reference_resize(const struct raster *source, struct span x, struct span y,
                                      int w, int h, enum kind kind)
{
    bool copy = same_span(x, w) && same_span(y, h);
    uint32_t channels = source->channels;
    if (kind == NEAREST || copy)
        return reference_pick(source, x, y, w, h);
    struct raster in = raster_copy(source), middle, out;
    if (channels == 4)
        reference_premultiply(&in);
    if (y.count > 100 * x.count && h < y.count) {
        middle = reference_columns(&in, y, h, kind);
        out = reference_rows(&middle, x, w, kind);
    } else {
        middle = reference_rows(&in, x, w, kind);
        out = reference_columns(&middle, y, h, kind);
    }
    if (channels == 4)
        reference_divide(&out);
    raster_clear(&in);
    raster_clear(&middle);
    return out;
}

/* ---- Pillow ---- */

/* Image.resize of Pillow 12.3: the FNV-1a hash of the result. 9.4 gives the same where high is
 * false: the source is at most 100 times as high as wide, or does not become lower. */
static const struct {
    uint32_t width, height, channels, to_width, to_height;
    enum kind kind;
    uint32_t hash;
    bool high;
} pillow[] = {
    {2, 500, 3, 300, 5, LANCZOS3, 0x59bfd4c1, true},
    {2, 500, 1, 300, 5, BICUBIC, 0x04ee0ea9, true},
    {2, 500, 4, 300, 5, LANCZOS3, 0x15d49a2f, true},
    {3, 301, 3, 70, 300, BILINEAR, 0xde03bfb2, true},
    {3, 301, 3, 70, 302, LANCZOS3, 0xaf483781, false},
    {3, 300, 3, 70, 5, LANCZOS3, 0x7a7d958a, false},
    {1, 16000, 4, 32, 32, LANCZOS3, 0xc3733145, true},
    {450, 900, 3, 32, 32, LANCZOS3, 0x4b032897, false},
    {640, 427, 3, 97, 61, BOX, 0x2c29738c, false},
};

static void all_pillow(struct engine *engine)
{
    for (size_t i = 0; i < COUNT_OF(pillow); i++) {
        struct gpu_run run;
        gpu_run_open(&run, engine,
                     SOURCE(pillow[i].width, pillow[i].height, pillow[i].channels), NULL,
                     text_of("[{'op':'resize','fit':'exact','width':%u,'height':%u,"
                             "'filter':'%s'}]",
                             pillow[i].to_width, pillow[i].to_height, kinds[pillow[i].kind]));
        test_pattern(run.input);
        gpu_run_finish(&run);
        bool high = strcmp(pass_names(&run.plan, ','), "resample y,resample x") == 0;
        if (test_hash(run.result) != pillow[i].hash || high != pillow[i].high)
            fail_msg("%s: other pixels than Pillow", run.what);
        gpu_run_close(&run);
    }
}

ON_BOTH(pillow)

/* ---- running ---- */

static struct span whole(uint32_t side)
{
    return (struct span){0, (int)side, 0, side};
}

/* Resizes one span of the source on each axis. */
static void check(struct engine *engine, const uint32_t from[2], const uint32_t to[2],
                  uint32_t channels, enum kind kind, const char *fit, struct span x, struct span y)
{
    struct gpu_run run;
    gpu_run_open(&run, engine, SOURCE(from[0], from[1], channels), NULL,
                 text_of("[{'op':'resize','width':%u,'height':%u,'fit':'%s','filter':'%s'}]",
                         to[0], to[1], fit, kinds[kind]));
    gpu_run_finish(&run);
    struct raster source = raster_of(run.input);
    gpu_run_expect(&run, reference_resize(&source, x, y, (int)to[0], (int)to[1], kind));
    raster_clear(&source);
    gpu_run_close(&run);
}

/* Resizes of one pass, two and none. Some shrink so far that a warp makes 32, 16, ... 1 outputs and
 * weights come in several pieces. Others test the edges of blocks of 8 x 4 rows and 64 words, and
 * weights that repeat after 2, 16, 8 and 8 outputs. */
static const uint32_t sizes[][4] = {
    {1, 1, 1, 1},       {1, 1, 7, 5},      {5, 3, 1, 1},       {40, 30, 40, 30},
    {40, 30, 20, 30},   {40, 30, 40, 11},  {33, 47, 97, 101},  {64, 33, 65, 32},
    {127, 65, 64, 31},  {300, 70, 100, 35}, {255, 97, 31, 12}, {513, 40, 40, 41},
    {1000, 9, 30, 3},   {1025, 5, 11, 9},  {3, 1025, 9, 11},   {2, 700, 257, 3},
    {1, 37, 9, 5},      {37, 1, 5, 9},     {16384, 2, 3, 2},   {2, 16384, 2, 3},
    {16384, 1, 1, 1},   {1, 3, 1, 16384},  {5, 1, 16384, 1},   {301, 203, 77, 52},
    {125, 90, 50, 32},  {90, 125, 144, 200}, {2, 500, 300, 5}, {3, 300, 70, 299},
    {3, 301, 70, 300},  {3, 301, 70, 301},   {3, 301, 70, 302},
};

static void all_sizes(struct engine *engine)
{
    size_t step = test_quick() ? 3 : 1;
    for (size_t i = 0; i < COUNT_OF(sizes); i += step)
        each_channels(channels)
            for (int kind = 0; kind < KINDS; kind++)
                check(engine, sizes[i], sizes[i] + 2, channels, (enum kind)kind, "exact",
                      whole(sizes[i][0]), whole(sizes[i][1]));
}

/* Crops the centre of the source to the target's ratio, and resizes it. */
static void check_cover(struct engine *engine, const uint32_t from[2], const uint32_t to[2],
                        uint32_t channels, enum kind kind)
{
    int w = (int)from[0], h = (int)from[1], across = w, down = h;
    if ((double)w / h > (double)to[0] / to[1])
        across = (int)fmax(1, floor((double)h * to[0] / to[1] + 0.5));
    else
        down = (int)fmax(1, floor((double)w * to[1] / to[0] + 0.5));
    struct span x = {(w - across) / 2, across, 0, across}, y = {(h - down) / 2, down, 0, down};
    check(engine, from, to, channels, kind, "cover", x, y);
}

static void all_covers(struct engine *engine)
{
    static const uint32_t table[][4] = {
        {90, 60, 30, 30}, {60, 90, 30, 30}, {61, 90, 31, 30}, {90, 60, 60, 60}, {60, 90, 60, 60},
        {91, 60, 60, 60}, {61, 61, 5, 61},  {61, 61, 61, 5},  {40, 40, 100, 20}, {500, 3, 4, 2},
        {61, 60, 60, 60}, {61, 60, 60, 20}, {500, 301, 3, 40}, {7, 7, 7, 7},
        {9, 950, 2, 300}, {40, 600, 1, 120},
    };
    for (size_t i = 0; i < COUNT_OF(table); i++)
        each_channels(channels)
            for (int kind = 0; kind < KINDS; kind++)
                check_cover(engine, table[i], table[i] + 2, channels, (enum kind)kind);
}

/* Fits the image into the size and pads it: width, height, gravity, and the place of the image. */
static void all_contains(struct engine *engine)
{
    static const struct {
        uint32_t from[2], to[2], inner[2], left, top;
        const char *gravity;
    } table[] = {
        {{90, 60}, {30, 31}, {30, 20}, 0, 5, "center"},
        {{60, 90}, {31, 30}, {20, 30}, 5, 0, "center"},
        {{61, 47}, {100, 50}, {65, 50}, 35, 0, "northeast"},
        {{61, 47}, {100, 50}, {65, 50}, 0, 0, "west"},
        {{61, 47}, {61, 60}, {61, 47}, 0, 13, "south"},
        {{500, 3}, {40, 20}, {40, 1}, 0, 9, "east"},
        {{1, 1}, {7, 9}, {7, 7}, 0, 2, "southwest"},
        {{40, 30}, {40, 30}, {40, 30}, 0, 0, "north"},
    };
    static const uint8_t colour[] = {10, 200, 30, 40};
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        each_channels(channels) {
            struct gpu_run run;
            gpu_run_open(&run, engine, SOURCE(table[i].from[0], table[i].from[1], channels), NULL,
                         text_of("[{'op':'resize','width':%u,'height':%u,'fit':'contain',"
                                 "'gravity':'%s','color':[10,200,30,40]}]", table[i].to[0],
                                 table[i].to[1], table[i].gravity));
            gpu_run_finish(&run);
            struct raster source = raster_of(run.input);
            struct raster inner = reference_resize(
                &source, whole(table[i].from[0]), whole(table[i].from[1]),
                (int)table[i].inner[0], (int)table[i].inner[1], LANCZOS3);
            gpu_run_expect(&run, reference_pad(&inner, table[i].left, table[i].top,
                                               table[i].to[0], table[i].to[1], colour));
            raster_clear(&source);
            raster_clear(&inner);
            gpu_run_close(&run);
        }
    }
}

/* An image decoded at M/8. The padding that the decoder added lies after the right and lower edges,
 * or before the left and upper edges if the orientation mirrors them. */
static void check_scaled(struct engine *engine, uint32_t eighths, int orientation)
{
    bool right = orientation == 2 || orientation == 3, below = orientation == 3 || orientation == 4;
    struct gpu_run run;
    gpu_run_open(&run, engine,
                 SOURCE(203, 149, 3, .eighths = eighths, .orientation = orientation), NULL,
                 "[{'op':'resize','width':12,'height':9,'fit':'exact'}]");
    gpu_run_finish(&run);
    uint32_t across = run.input.width, down = run.input.height;
    assert_int_equal(across, (203 * eighths + 7) / 8);
    assert_int_equal(down, (149 * eighths + 7) / 8);
    struct raster source = raster_of(run.input);
    struct raster turned = reference_orient(&source, orientation);
    double width = 203 * eighths / 8.0, height = 149 * eighths / 8.0;
    double left = right ? across - width : 0, top = below ? down - height : 0;
    gpu_run_expect(&run, reference_resize(
        &turned, (struct span){0, (int)across, left, left + width},
        (struct span){0, (int)down, top, top + height}, 12, 9, LANCZOS3));
    raster_clear(&source);
    raster_clear(&turned);
    gpu_run_close(&run);
}

static void all_scaled(struct engine *engine)
{
    for (uint32_t eighths = 1; eighths <= 4; eighths *= 2)
        for (int orientation = 1; orientation <= 4; orientation++)
            check_scaled(engine, eighths, orientation);
}

/* Resizes a part of the source at the place that `params` gives. */
static void check_place(struct engine *engine, const uint32_t from[2], const char *params,
                        int left, int top, int across, int down)
{
    struct gpu_run run;
    gpu_run_open(&run, engine, SOURCE(from[0], from[1], 3), NULL,
                 text_of("[{'op':'resize','width':30,'height':30,'fit':'cover',%s}]", params));
    gpu_run_finish(&run);
    struct raster source = raster_of(run.input);
    gpu_run_expect(&run, reference_resize(&source, (struct span){left, across, 0, across},
                                          (struct span){top, down, 0, down}, 30, 30, LANCZOS3));
    raster_clear(&source);
    gpu_run_close(&run);
}

/* The free columns are 0 to 32 of 91, the free rows 0 to 35 of 92: only one axis has room. */
static void all_places(struct engine *engine)
{
    static const uint32_t wide[] = {91, 59}, high[] = {57, 92};
    static const struct {
        const char *params;
        int left, top; /* in the wide and in the high image */
    } table[] = {
        {"'gravity':'center'", 16, 17},      {"'gravity':'north'", 16, 0},
        {"'gravity':'northeast'", 32, 0},    {"'gravity':'east'", 32, 17},
        {"'gravity':'southeast'", 32, 35},   {"'gravity':'south'", 16, 35},
        {"'gravity':'southwest'", 0, 35},    {"'gravity':'west'", 0, 17},
        {"'gravity':'northwest'", 0, 0},     {"'focus':[0.5,0.5]", 16, 17},
        {"'focus':[0,0]", 0, 0},             {"'focus':[1,1]", 32, 35},
        {"'focus':[0.25,0.75]", 0, 35},      {"'focus':[0.4,0.6]", 7, 27},
        {"'focus':[0.625,0.375]", 27, 6},    {"'focus':[0.6,0.3]", 25, 0},
    };
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        check_place(engine, wide, table[i].params, table[i].left, 0, 59, 59);
        check_place(engine, high, table[i].params, 0, table[i].top, 57, 57);
    }
}

ON_BOTH(sizes)
ON_BOTH(contains)
ON_BOTH(covers)
ON_BOTH(places)
ON_BOTH(scaled)

/* ---- the CPU engine's instruction sets ---- */

/* The tests above run the best one. */
TEST(test_lower_levels)
{
    for (enum resample_level level = RESAMPLE_PLAIN; level < RESAMPLE_VNNI; level++) {
        resample_level_max = level;
        all_sizes(cpu);
        all_covers(cpu);
        all_places(cpu);
        all_scaled(cpu);
    }
    resample_level_max = RESAMPLE_VNNI;
}

#define OUTPUTS 9

/* Hashes the results of several outputs of one job. */
static void run_job(const struct plan_source *source, const char *const *ops, size_t count,
                    enum resample_level level, uint32_t *hashes)
{
    struct plan_target targets[OUTPUTS] = {0};
    struct plan plan;
    struct engine_memory memory;
    struct error error = {0};
    for (size_t v = 0; v < count; v++)
        targets[v] = (struct plan_target){.ops = test_ops(ops[v])};
    assert_int_equal(plan_build(&plan, source, targets, count, &test_limits, &error), STATUS_OK);
    test_reserve(cpu, &plan, &memory);
    test_pattern(plan_input(&plan, memory.input));
    resample_level_max = level;
    test_carry_out(cpu, &plan, &memory, "together");
    resample_level_max = RESAMPLE_VNNI;
    for (size_t v = 0; v < count; v++) {
        hashes[v] = test_hash(plan_result(&plan, v, memory.input, memory.output));
        op_list_free(targets[v].ops);
    }
    engine_release(cpu, &memory);
    plan_clear(&plan);
}

/* Outputs share strips of the source. Some need different rows of it, one or no pass, a ring that
 * is too large, or a result in the memory of the source. */
TEST(test_together)
{
    static const char *const ops[OUTPUTS] = {
        "[{'op':'resize','width':77,'height':50,'fit':'exact'}]",
        "[{'op':'resize','width':40,'height':9,'fit':'cover','gravity':'south'}]",
        "[{'op':'resize','width':9,'height':40,'fit':'cover','gravity':'east'},'invert']",
        "[{'op':'resize','width':301,'height':70,'fit':'exact','filter':'box'}]",
        "[{'op':'resize','width':60,'height':203,'fit':'exact','filter':'bilinear'}]",
        "['invert',{'op':'resize','width':90},{'op':'resize','width':33}]",
        "[{'op':'resize','width':50},{'op':'resize','width':70,'enlarge':true},'invert']",
        "[{'op':'resize','width':30,'height':30,'fit':'cover','gravity':'attention'}]",
        "[{'op':'resize','width':4000,'height':20,'fit':'exact','filter':'bicubic'}]",
    };
    each_channels (channels) {
        uint32_t plain[OUTPUTS], hashes[OUTPUTS], alone;
        const struct plan_source *source = SOURCE(301, 203, channels, .orientation = 1);
        run_job(source, ops, OUTPUTS, RESAMPLE_PLAIN, plain);
        for (enum resample_level level = RESAMPLE_AVX2; level <= RESAMPLE_VNNI; level++) {
            /* AVX2 does not enlarge. */
            size_t count = level == RESAMPLE_AVX2 ? OUTPUTS - 1 : OUTPUTS;
            run_job(source, ops, count, level, hashes);
            for (size_t v = 0; v < count; v++) {
                run_job(source, &ops[v], 1, level, &alone);
                if (hashes[v] != plain[v] || alone != plain[v])
                    fail_msg("%u channels, output %zu: %x in plain C, %x at level %d, alone %x",
                             channels, v, plain[v], hashes[v], (int)level, alone);
            }
        }
    }
}

/* ---- geometry ---- */

struct outcome {
    const char *parameters;
    uint32_t width, height, to_width, to_height, eighths; /* eighths: chosen for a JPEG */
};

static const struct outcome outcomes[] = {
    {"\"width\":512", 5120, 2880, 512, 288, 2},
    {"\"width\":512", 4096, 4096, 512, 512, 2},
    {"\"width\":512", 4095, 4096, 512, 512, 4},
    {"\"height\":100", 5120, 2880, 178, 100, 1},
    {"\"width\":100,\"height\":100", 640, 427, 100, 67, 4},
    {"\"width\":100,\"height\":100", 427, 640, 67, 100, 4},
    {"\"width\":100,\"height\":50", 200, 101, 99, 50, 8},
    {"\"width\":1", 1000, 3, 1, 1, 8}, /* the height counts too: 3/8 would be less than 2 */
    {"\"width\":2", 5, 5, 2, 2, 8},
    {"\"width\":2", 4, 5, 2, 3, 8}, /* 2.5, rounded half up */
    {"\"width\":800", 640, 427, 640, 427, 8},
    {"\"width\":800,\"height\":100", 640, 427, 150, 100, 4},
    {"\"width\":800,\"enlarge\":true", 640, 400, 800, 500, 8},
    {"\"width\":100,\"height\":300,\"fit\":\"exact\"", 200, 200, 100, 300, 8},
    {"\"width\":100,\"height\":300,\"fit\":\"exact\",\"enlarge\":false", 200, 200, 100, 200, 8},
    {"\"width\":100,\"height\":100,\"fit\":\"cover\"", 800, 400, 100, 100, 4},
    {"\"width\":300,\"height\":300,\"fit\":\"cover\"", 400, 200, 300, 300, 8},
    {"\"width\":300,\"height\":300,\"fit\":\"cover\",\"enlarge\":false", 400, 200, 200, 200, 8},
    {"\"width\":256,\"height\":256,\"fit\":\"outside\"", 500, 375, 341, 256, 8},
    {"\"width\":256,\"height\":256,\"fit\":\"outside\"", 375, 500, 256, 341, 8},
    {"\"width\":256,\"height\":256,\"fit\":\"outside\"", 640, 427, 384, 256, 8}, /* 383.7 */
    {"\"width\":256,\"height\":256,\"fit\":\"outside\"", 5120, 2880, 455, 256, 2},
    {"\"width\":100,\"height\":50,\"fit\":\"outside\"", 200, 101, 100, 51, 8}, /* 50.5 */
    {"\"width\":100,\"height\":50,\"fit\":\"outside\"", 202, 100, 101, 50, 8},
    {"\"width\":30,\"height\":30,\"fit\":\"outside\"", 20, 10, 60, 30, 8},
    {"\"width\":30,\"height\":30,\"fit\":\"outside\",\"enlarge\":false", 20, 10, 20, 10, 8},
    {"\"width\":30,\"height\":30,\"fit\":\"outside\",\"enlarge\":false", 90, 29, 90, 29, 8},
    {"\"width\":10,\"fast_shrink\":false", 1000, 1000, 10, 10, 8},
    {"\"width\":10,\"filter\":\"nearest\"", 1000, 1000, 10, 10, 8},
    {"\"width\":10,\"filter\":\"box\"", 1000, 1000, 10, 10, 1},
};

/* The output's sides do not depend on the scale of decoding, in all orientations. */
TEST(test_geometry)
{
    for (size_t i = 0; i < COUNT_OF(outcomes); i++) {
        const struct outcome *o = &outcomes[i];
        const char *json = text_of("['grayscale',{'op':'resize',%s}]", o->parameters);
        struct plan_target target = {.ops = test_ops(json)};
        for (int orientation = 1; orientation <= 8; orientation++) {
            bool turned = orientation >= 5;
            struct plan_source source = {.width = turned ? o->height : o->width,
                                         .height = turned ? o->width : o->height,
                                         .channels = 3, .orientation = orientation};
            if (plan_eighths(&source, target.ops) != o->eighths)
                fail_msg("%s: decoded at %u/8", o->parameters, plan_eighths(&source, target.ops));
            for (int fast = 0; fast < 2; fast++) {
                struct plan plan;
                source.eighths = fast ? o->eighths : 0;
                test_plan(&plan, &source, NULL, json);
                if (plan.variants[0].width != o->to_width ||
                    plan.variants[0].height != o->to_height)
                    fail_msg("%s: %u x %u", json, plan.variants[0].width,
                             plan.variants[0].height);
                plan_clear(&plan);
            }
        }
        op_list_free(target.ops);
    }
}

/* A smaller decode is chosen only for a reduction that comes first or after grayscale. */
TEST(test_what_comes_first)
{
    static const struct {
        const char *ops;
        uint32_t eighths;
    } table[] = {
        {"[{\"op\":\"resize\",\"width\":500},\"sobel\"]", 2},
        {"[\"grayscale\",{\"op\":\"resize\",\"width\":512}]", 2},
        {"[\"sobel\",{\"op\":\"resize\",\"width\":512}]", 8},
        {"[\"flip\",{\"op\":\"resize\",\"width\":512}]", 8},
        {"[\"stats\",{\"op\":\"resize\",\"width\":512}]", 8},
        {"[]", 8},
    };
    struct plan_source source = {.width = 5120, .height = 2880, .channels = 3, .orientation = 1};
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct op_item *ops = test_ops(table[i].ops);
        assert_int_equal(plan_eighths(&source, ops), table[i].eighths);
        op_list_free(ops);
    }
    assert_int_equal(plan_eighths(&source, NULL), 8);
}

TEST(test_bytes)
{
    struct plan plan;
    test_plan(&plan, SOURCE(100, 40, 3), NULL,
              "[{'op':'resize','width':50,'height':10,'fit':'exact','filter':'box'}]");
    /* Each output has its first pixel and 8 weights; the second table starts aligned. */
    assert_int_equal(plan.constants_at, 320 * 40);
    assert_int_equal(plan.constants_bytes, 2048 + 10 * 9 * 4);
    assert_int_equal(plan.input_bytes, 320 * 40 + 2048 + 360);
    assert_int_equal(plan.output_bytes, 160 * 10);
    /* One image between the passes, which is packed as 56 x 48 pixels, and 16 rows of 32-bit
     * numbers: 300 rounded up to a multiple of 64, with room for 8 weights of 3 channels. The
     * weights down the columns in bytes: 2 groups of 4 for 10 outputs, padded to 12, with 4 bytes
     * more. */
    assert_int_equal(plan.scratch_bytes, 8192 + (320 + 8 * 3) * 16 * 4 + 512);
    plan_clear(&plan);
    plan_clear(&plan);
}

/* ---- refused parameters ---- */

TEST(test_refused)
{
    static const struct test_refusal refusals[] = {
        {"[{'op':'resize','fit':'inside'}]", "ops[0] resize needs width, height or both"},
        {"[{'op':'resize','width':0}]", "width is 0; it must be an integer of 1 to 65500"},
        {"[{'op':'resize','width':65501}]", "width is 65501"},
        {"[{'op':'resize','width':1.5}]", "width is 1.5"},
        {"[{'op':'resize','height':'9'}]", "height is a string; it must be an integer"},
        {"[{'op':'resize','width':9,'fit':'cover'}]", "fit cover needs both width and height"},
        {"[{'op':'resize','height':9,'fit':'exact'}]", "fit exact needs both width and height"},
        {"[{'op':'resize','width':9,'fit':'contain'}]", "fit contain needs both width and height"},
        {"[{'op':'resize','width':9,'fit':'outside'}]", "fit outside needs both width and height"},
        {"[{'op':'resize','width':9,'height':9,'fit':'outside','gravity':'west'}]",
         "gravity needs fit cover or contain; fit is outside"},
        {"[{'op':'resize','width':9,'gravity':'west'}]",
         "gravity needs fit cover or contain; fit is inside"},
        {"[{'op':'resize','width':9,'height':9,'fit':'cover','color':[1,2,3]}]",
         "color needs fit contain; fit is cover"},
        {"[{'op':'resize','width':9,'fit':'fill'}]",
         "fit is \"fill\"; it must be inside, cover, exact, contain or outside"},
        {"[{'op':'resize','width':9,'filter':'cubic'}]",
         "nearest, box, bilinear, bicubic or lanczos3"},
        {"[{'op':'resize','width':9,'enlarge':1}]",
         "enlarge is a number; it must be true or false"},
        {"[{'op':'resize','width':9,'fast_shrink':null}]", "fast_shrink is null"},
        {"[{'op':'resize','width':9,'height':9,'fit':'cover','focus':[1]}]",
         "focus has 1 items; it must have 2"},
        {"[{'op':'resize','width':9,'height':9,'fit':'cover','focus':[0,1.5]}]",
         "focus[1] is 1.5; it must be 0 to 1"},
        {"[{'op':'resize','width':9,'height':9,'fit':'cover','focus':[0,'a']}]",
         "focus[1] is a string; it must be a number"},
        {"[{'op':'resize','width':9,'height':9,'fit':'cover','focus':0.5}]",
         "focus is a number; it must be an array of 2 numbers"},
        {"[{'op':'resize','width':9,'height':9,'fit':'cover','focus':[0,1],'gravity':'east'}]",
         "ops[0] resize has focus and gravity; remove one of them"},
        {"[{'op':'resize','width':9,'height':9,'fit':'exact','focus':[0,1]}]",
         "focus needs fit cover; fit is exact"},
        {"[{'op':'resize','width':9,'gravity':'attention'}]",
         "gravity attention needs fit cover; fit is inside"},
        {"[{'op':'resize','width':9,'height':9,'fit':'cover','gravity':'up'}]",
         "gravity is \"up\"; it must be center,"},
        {"[{'op':'resize','size':9}]", "there is no parameter \"size\""},
    };
    check_refused(refusals, COUNT_OF(refusals));
}

TEST(test_too_large)
{
    static const char *const table[] = {
        "[{\"op\":\"resize\",\"width\":2001,\"height\":5,\"fit\":\"exact\"}]",
        "[{\"op\":\"resize\",\"width\":1000,\"height\":1001,\"fit\":\"exact\"}]",
        "[{\"op\":\"resize\",\"width\":2000,\"enlarge\":true}]",
        "[{\"op\":\"resize\",\"width\":65500,\"enlarge\":true}]"};
    struct plan_limits limits = {.pixels_max = 1000000, .side_max = 2000};
    for (size_t i = 0; i < COUNT_OF(table); i++)
        check_misfit(SOURCE(2, 2000, 1), &limits, table[i], STATUS_IMAGE_TOO_LARGE, "");
}

/* One resize of the largest image per output is accepted; the largest number in one job is not. */
TEST(test_too_many_tables)
{
    char many[2048] = "[";
    for (int i = 0; i < JOB_OPS_MAX; i++)
        sprintf(many + strlen(many), "%s{\"op\":\"resize\",\"width\":%d,\"enlarge\":true}",
                i > 0 ? "," : "", SIDE_DEFAULT - i % 2);
    strcat(many, "]");
    const struct {
        const char *ops;
        enum status status;
    } table[] = {{"[{\"op\":\"resize\",\"width\":16383}]", STATUS_OK},
                 {many, STATUS_OVER_BUDGET}};
    struct plan_limits limits = {PIXELS_DEFAULT, SIDE_DEFAULT};
    struct plan_source source = {
        .width = SIDE_DEFAULT, .height = 3000, .channels = 1, .orientation = 1};
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct plan plan;
        struct error error = {0};
        struct plan_target targets[JOB_OUTPUTS_MAX];
        struct op_item *ops = test_ops(table[i].ops);
        for (size_t t = 0; t < JOB_OUTPUTS_MAX; t++)
            targets[t] = (struct plan_target){.ops = ops};
        assert_int_equal(plan_build(&plan, &source, targets, JOB_OUTPUTS_MAX, &limits, &error),
                         table[i].status);
        assert_true(plan.constants_bytes <= PLAN_CONSTANTS_BYTES_MAX);
        assert_true(!table[i].status || strstr(error.text, "67108864"));
        plan_clear(&plan);
        op_list_free(ops);
    }
}

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
