/*
 * Tests of transpose, rotate, flip and crop: both engines, byte for byte, against a reference that
 * moves one pixel at a time. The plan must fuse them into one pass or none.
 */
#include "tests/fixtures/gpu/both_engines.h"

#include "gpu/plan/pass.h"
#include "tests/fixtures/reference.h"

/* ---- the reference ---- */

/* EXIF orientations equivalent to the operations. */
#define FLIPPED 2
#define UPSIDE_DOWN 4
#define TRANSPOSED 5
#define TURNED 6 /* clockwise */

static struct raster cropped(const struct raster *in, uint32_t x0, uint32_t y0, uint32_t width,
                             uint32_t height)
{
    struct raster out = raster_make(width, height, in->channels);
    for (uint32_t y = 0; y < height; y++)
        memcpy(raster_at(&out, 0, y), raster_at(in, x0, y0 + y), (size_t)width * in->channels);
    return out;
}

static void replace(struct raster *raster, struct raster next)
{
    raster_clear(raster);
    *raster = next;
}

static int number(const cJSON *item, const char *name, int missing)
{
    const cJSON *value = cJSON_GetObjectItem(item, name);
    return value ? value->valueint : missing;
}

static const char *word(const cJSON *item, const char *name, const char *missing)
{
    const cJSON *value = cJSON_GetObjectItem(item, name);
    return value ? value->valuestring : missing;
}

static void apply_crop(struct raster *now, const cJSON *item)
{
    uint32_t width = (uint32_t)number(item, "width", 0);
    uint32_t height = (uint32_t)number(item, "height", 0);
    uint32_t right = now->width - width, below = now->height - height;
    const char *gravity = word(item, "gravity", "center");
    uint32_t x = strstr(gravity, "west") ? 0 : strstr(gravity, "east") ? right : right / 2;
    uint32_t y = strstr(gravity, "north") ? 0 : strstr(gravity, "south") ? below : below / 2;
    replace(now, cropped(now, (uint32_t)number(item, "x", (int)x),
                         (uint32_t)number(item, "y", (int)y), width, height));
}

static void apply(struct raster *now, const cJSON *item)
{
    const char *name = cJSON_IsString(item) ? item->valuestring : word(item, "op", "");
    if (strcmp(name, "transpose") == 0) {
        replace(now, reference_orient(now, TRANSPOSED));
    } else if (strcmp(name, "rotate") == 0) {
        bool counter = cJSON_IsFalse(cJSON_GetObjectItem(item, "clockwise"));
        int turns = (number(item, "angle", 90) / 90 + 4) % 4;
        for (int i = 0; i < (counter ? 4 - turns : turns) % 4; i++)
            replace(now, reference_orient(now, TURNED));
    } else if (strcmp(name, "flip") == 0) {
        bool vertical = strcmp(word(item, "axis", "horizontal"), "vertical") == 0;
        replace(now, reference_orient(now, vertical ? UPSIDE_DOWN : FLIPPED));
    } else if (strcmp(name, "crop") == 0) {
        apply_crop(now, item);
    } else if (strcmp(name, "grayscale") == 0) {
        replace(now, reference_gray(now, NULL, test_background));
    } else {
        assert_string_equal(name, "sobel");
        replace(now, reference_gray(now, NULL, test_background));
        replace(now, reference_sobel(now, REFERENCE_HALF, REFERENCE_REFLECT101));
    }
}

/* ---- running operations on an engine ---- */

struct setting {
    uint32_t width, height, channels;
    int orientation;
    bool opaque;
};

static void check(struct engine *engine, const struct setting *setting, const char *json)
{
    struct gpu_run run;
    gpu_run_open(&run, engine,
                 SOURCE(setting->width, setting->height, setting->channels,
                        .orientation = setting->orientation),
                 &(struct plan_target){.opaque = setting->opaque}, json);
    gpu_run_finish(&run);
    struct raster want = raster_of(run.input);
    replace(&want, reference_orient(&want, setting->orientation));
    for (const cJSON *item = run.ops->child; item; item = item->next)
        apply(&want, item);
    if (setting->opaque)
        replace(&want, reference_flatten(&want, test_background));
    gpu_run_expect(&run, want);
    gpu_run_close(&run);
}

/* ---- the tables ---- */

/* CUDA tiles are 128 pixels square (gray) or 64; rows are copied 512 RGB pixels x 4 at a time. */
static const uint32_t sizes[][2] = {
    {1, 1},    {1, 2},   {2, 1},    {3, 3},     {1, 37},    {37, 1},   {5, 4},    {15, 13},
    {16, 16},  {17, 15}, {32, 17},  {63, 65},   {64, 64},   {65, 31},  {127, 62}, {128, 128},
    {129, 65}, {33, 130}, {511, 9}, {512, 5},   {513, 7},   {257, 300}, {1040, 3}, {16384, 2},
    {2, 16384},
};

static const char *const maps[] = {
    "[\"transpose\"]",
    "[\"rotate\"]",
    "[{\"op\":\"rotate\",\"angle\":180}]",
    "[{\"op\":\"rotate\",\"angle\":270}]",
    "[{\"op\":\"rotate\",\"angle\":90,\"clockwise\":false}]",
    "[{\"op\":\"rotate\",\"angle\":180,\"clockwise\":false}]",
    "[{\"op\":\"rotate\",\"angle\":270,\"clockwise\":false}]",
    "[{\"op\":\"rotate\",\"angle\":270,\"clockwise\":true}]",
    "[{\"op\":\"rotate\",\"angle\":-90}]",
    "[{\"op\":\"rotate\",\"angle\":0}]",
    "[{\"op\":\"rotate\",\"angle\":-360,\"expand\":false}]",
    "[{\"op\":\"rotate\",\"angle\":180,\"expand\":false,\"background\":\"transparent\"}]",
    "[\"flip\"]",
    "[{\"op\":\"flip\",\"axis\":\"horizontal\"}]",
    "[{\"op\":\"flip\",\"axis\":\"vertical\"}]",
    "[\"transpose\",{\"op\":\"rotate\",\"angle\":180}]",
};

static void all_maps(struct engine *engine)
{
    for (size_t m = 0; m < COUNT_OF(maps); m++)
        for (size_t i = 0; i < COUNT_OF(sizes); i += test_quick() ? 3 : 1)
            each_channels(channels)
                check(engine, &(struct setting){sizes[i][0], sizes[i][1], channels, 1, false},
                      maps[m]);
}

/* Rectangles that begin at every byte offset of an aligned word and end at various offsets. Each is
 * mapped in every way, read by passes that need alignment, and left unchanged. */
static void all_crops(struct engine *engine)
{
    static const char *const after[] = {
        "", ",\"transpose\"", ",\"rotate\"", ",{\"op\":\"rotate\",\"angle\":270}", ",\"flip\"",
        ",{\"op\":\"rotate\",\"angle\":180}", ",{\"op\":\"flip\",\"axis\":\"vertical\"}",
        ",\"sobel\"", ",\"grayscale\""};
    uint32_t step = test_quick() ? 7 : 1;
    each_channels(channels)
        for (uint32_t x = 0; x <= 40; x += step)
            for (size_t a = 0; a < COUNT_OF(after); a++)
                check(engine, &(struct setting){200, 150, channels, 1, x % 2},
                      text_of("[{'op':'crop','x':%u,'y':%u,'width':%u,'height':%u}%s]", x,
                              3 + x % 5, x * 53 % 160 + 1, x * 29 % 140 + 1, after[a]));
}

static void all_gravities(struct engine *engine)
{
    static const char *const gravities[] = {"center",    "north", "northeast", "east", "southeast",
                                            "south", "southwest", "west", "northwest"};
    for (size_t g = 0; g < 9; g++) {
        for (uint32_t odd = 0; odd < 2; odd++) {
            const char *json = text_of("[{'op':'crop','width':%u,'height':%u,'gravity':'%s'}]",
                                       40 + odd, 21 - odd, gravities[g]);
            check(engine, &(struct setting){61, 50, 3, 1, false}, json);
            check(engine, &(struct setting){61, 50, 4, 6, true}, json);
        }
    }
    check(engine, &(struct setting){61, 50, 1, 1, false},
          "[{\"op\":\"crop\",\"width\":8,\"height\":9}]");
    check(engine, &(struct setting){61, 50, 1, 1, false},
          "[{\"op\":\"crop\",\"width\":61,\"height\":50}]");
}

/* The result of `ops` on a source that holds `pixels` at (x, y). */
static struct raster run_on(struct engine *engine, const struct raster *pixels, uint32_t x,
                            uint32_t y, uint32_t width, uint32_t height, const char *json)
{
    struct gpu_run run;
    gpu_run_open(&run, engine, SOURCE(width, height, pixels->channels), NULL, json);
    for (uint32_t i = 0; i < pixels->height; i++)
        memcpy(run.input.pixels + (y + i) * run.input.stride + (size_t)x * pixels->channels,
               raster_at(pixels, 0, i), (size_t)pixels->width * pixels->channels);
    gpu_run_finish(&run);
    struct raster result = raster_of(run.result);
    gpu_run_close(&run);
    return result;
}

/* An operation on a cropped rectangle must give the same result as on an image of those pixels. */
static void all_windows(struct engine *engine)
{
    static const char *const ops[] = {
        "\"grayscale\"",
        "\"sobel\"",
        "{\"op\":\"resize\",\"width\":50,\"height\":31,\"fit\":\"exact\"}",
        "{\"op\":\"resize\",\"width\":40,\"height\":40,\"fit\":\"cover\",\"filter\":\"lanczos3\"}",
        "\"invert\"",
        "\"threshold\"",
        "{\"op\":\"color_matrix\",\"matrix\":[[0,1,0,0],[0,0,1,0],[1,0,0,8]]}",
        "\"gaussian\"",
        "{\"op\":\"gaussian\",\"ksize\":31}",
        "\"unsharp\"",
        "\"median\"",
        "{\"op\":\"median\",\"size\":5}",
        "{\"op\":\"convolve\",\"kernel\":[[1,2,1,0,3],[0,1,4,1,2],[3,1,1,0,5]]}",
    };
    static const uint32_t corners[][2] = {{0, 1}, {32, 0}, {64, 7}, {5, 3}};
    static const uint32_t sides[][2] = {{1, 1}, {97, 70}, {128, 33}, {530, 40}};
    for (size_t i = 0; i < COUNT_OF(ops); i++) {
        for (size_t k = 0; k < 16; k += test_quick() ? 3 : 1) {
            const uint32_t *corner = corners[k % 4], *side = sides[k / 4];
            each_channels(channels) {
                struct raster pixels = raster_make(side[0], side[1], channels);
                uint32_t state = 77 + (uint32_t)k;
                char where[200] = "";
                for (size_t b = 0; b < (size_t)side[0] * side[1] * channels; b++)
                    pixels.pixels[b] = (uint8_t)(test_random(&state) >> 9);
                struct raster want = run_on(engine, &pixels, 0, 0, side[0], side[1],
                                            text_of("[%s]", ops[i]));
                const char *json = text_of("[{'op':'crop','x':%u,'y':%u,'width':%u,'height':%u},"
                                           "%s]", corner[0], corner[1], side[0], side[1], ops[i]);
                struct raster got = run_on(engine, &pixels, corner[0], corner[1],
                                           corner[0] + side[0] + 20, corner[1] + side[1] + 3,
                                           json);
                if (raster_differ(&got, &want, 0, where, sizeof(where)) != 0)
                    fail_msg("%u channels: %s: %s", channels, json, where);
                raster_clear(&want);
                raster_clear(&got);
                raster_clear(&pixels);
            }
        }
    }
}

/* Appends one random operation that fits the image; updates *width and *height to its result. */
static void add_random(char *json, size_t size, uint32_t *state, uint32_t *width, uint32_t *height)
{
    static const char *const gravities[] = {"center", "north", "southeast", "west"};
    size_t length = strlen(json);
    char *end = json + length;
    size_t room = size - length;
    uint32_t kind = test_random(state) % 7, swap = *width;
    uint32_t w = 1 + test_random(state) % *width, h = 1 + test_random(state) % *height;
    uint32_t x = test_random(state) % (*width - w + 1), y = test_random(state) % (*height - h + 1);
    uint32_t quarters = 1 + test_random(state) % 3;
    if (kind <= 1) {
        snprintf(end, room, "{\"op\":\"crop\",\"x\":%u,\"y\":%u,\"width\":%u,\"height\":%u}", x, y,
                 w, h);
    } else if (kind == 2) {
        snprintf(end, room, "{\"op\":\"crop\",\"width\":%u,\"height\":%u,\"gravity\":\"%s\"}", w, h,
                 gravities[test_random(state) % 4]);
    } else if (kind == 3) {
        snprintf(end, room, "{\"op\":\"rotate\",\"angle\":%u,\"clockwise\":%s}", quarters * 90,
                 test_random(state) % 2 ? "true" : "false");
    } else if (kind == 4) {
        snprintf(end, room, "{\"op\":\"flip\",\"axis\":\"%s\"}",
                 test_random(state) % 2 ? "horizontal" : "vertical");
    } else {
        snprintf(end, room, "\"%s\"",
                 kind == 5 ? "transpose" : test_random(state) % 2 ? "sobel" : "grayscale");
    }
    if (kind <= 2) {
        *width = w;
        *height = h;
    } else if (kind == 5 || (kind == 3 && quarters % 2 == 1)) {
        *width = *height;
        *height = swap;
    }
}

static void all_random(struct engine *engine)
{
    uint32_t state = 20110711;
    int chains = test_quick() ? 60 : 600;
    for (int i = 0; i < chains; i++) {
        char json[1200] = "[";
        uint32_t channels = test_random(&state) % 3;
        struct setting setting = {.width = 1 + test_random(&state) % 300,
                                  .height = 1 + test_random(&state) % 300,
                                  .channels = channels == 0 ? 1 : channels + 2,
                                  .orientation = (int)(test_random(&state) % 9),
                                  .opaque = test_random(&state) % 2};
        bool turned = setting.orientation >= 5;
        uint32_t width = turned ? setting.height : setting.width;
        uint32_t height = turned ? setting.width : setting.height;
        uint32_t count = 1 + test_random(&state) % 6;
        for (uint32_t k = 0; k < count; k++) {
            strcat(json, k ? "," : "");
            add_random(json, sizeof(json), &state, &width, &height);
        }
        strcat(json, "]");
        check(engine, &setting, json);
    }
}

/* ---- plans ---- */

struct shape {
    const char *ops;
    uint32_t channels;
    int orientation;
    const char *passes; /* names separated by blanks */
    uint32_t x, y, width, height; /* of the first pass's input, or of the source's part */
    size_t scratch_bytes;
};

#define CROP(x, y, w, h)                                                                           \
    "{\"op\":\"crop\",\"x\":" #x ",\"y\":" #y ",\"width\":" #w ",\"height\":" #h "}"

/* For an image of 300 x 200 pixels. */
static const struct shape shapes[] = {
    {"[\"rotate\",\"flip\"]", 3, 1, "orient", 0, 0, 300, 200, 0},
    {"[\"rotate\"]", 3, 6, "orient", 0, 0, 300, 200, 0},
    {"[\"rotate\"]", 3, 8, "", 0, 0, 300, 200, 0},
    {"[{\"op\":\"rotate\",\"angle\":270}]", 3, 6, "", 0, 0, 300, 200, 0},
    {"[\"transpose\",\"transpose\"]", 3, 1, "", 0, 0, 300, 200, 0},
    {"[\"flip\",{\"op\":\"flip\",\"axis\":\"vertical\"},{\"op\":\"rotate\",\"angle\":180}]", 1, 1,
     "", 0, 0, 300, 200, 0},
    {"[\"flip\",\"transpose\",\"rotate\",\"flip\",\"rotate\"]", 4, 5, "orient", 0, 0, 300, 200, 0},
    {"[" CROP(7, 9, 100, 80) "]", 3, 1, "", 7, 9, 100, 80, 0},
    {"[" CROP(0, 0, 300, 200) "]", 3, 1, "", 0, 0, 300, 200, 0},
    {"[" CROP(7, 9, 100, 80) "," CROP(1, 2, 3, 4) "]", 4, 1, "", 8, 11, 3, 4, 0},
    {"[" CROP(7, 9, 100, 80) ",\"rotate\"]", 3, 1, "orient", 7, 9, 100, 80, 0},
    /* The rectangle of the rotated image, in coordinates of the stored image. */
    {"[" CROP(7, 9, 100, 80) "]", 3, 6, "orient", 9, 93, 80, 100, 0},
    {"[\"rotate\"," CROP(7, 9, 100, 80) ",{\"op\":\"rotate\",\"angle\":270}]", 3, 1, "", 9, 93, 80,
     100, 0},
    {"[" CROP(64, 9, 100, 80) ",\"sobel\"]", 1, 1, "sobel", 64, 9, 100, 80, 0},
    {"[" CROP(64, 9, 100, 80) ",\"grayscale\",\"sobel\"]", 3, 1, "sobel", 64, 9, 100, 80, 512},
    {"[" CROP(7, 9, 100, 80) ",\"sobel\"]", 1, 1, "orient sobel", 7, 9, 100, 80, 128 * 80},
    {"[" CROP(7, 9, 100, 80) ",\"grayscale\",\"sobel\"]", 1, 1, "orient sobel", 7, 9, 100, 80,
     128 * 80},
    /* After a crop, pixels outside the rectangle are not neighbours of those inside. */
    {"[\"grayscale\"," CROP(64, 9, 100, 80) ",\"sobel\"]", 3, 1, "grayscale sobel", 0, 0, 300, 200,
     320 * 200},
    {"[\"sobel\"," CROP(64, 9, 100, 80) "]", 1, 1, "sobel orient", 0, 0, 300, 200, 320 * 200},
    {"[\"sobel\",\"rotate\"," CROP(7, 9, 100, 80) "]", 1, 1, "sobel orient", 0, 0, 300, 200,
     320 * 200},
    {"[\"flip\",\"sobel\",\"flip\"]", 1, 1, "orient sobel orient", 0, 0, 300, 200, 2 * 320 * 200},
};

static void check_shape(const struct shape *shape)
{
    struct plan plan;
    test_plan(&plan, SOURCE(300, 200, shape->channels, .orientation = shape->orientation), NULL,
              shape->ops);
    const struct plan_variant *variant = &plan.variants[0];
    const char *names = pass_names(&plan, ' ');
    if (strcmp(names, shape->passes) != 0)
        fail_msg("%s: \"%s\" instead of \"%s\"", shape->ops, names, shape->passes);
    uint32_t x = variant->x, y = variant->y, width = variant->width, height = variant->height;
    if (variant->pass_count > 0) {
        const struct pass *first = &variant->passes[0];
        x = first->window.x;
        y = first->window.y;
        width = first->from.width;
        height = first->from.height;
    }
    if (x != shape->x || y != shape->y || width != shape->width || height != shape->height)
        fail_msg("%s: reads %u x %u at %u, %u instead of %u x %u at %u, %u", shape->ops, width,
                 height, x, y, shape->width, shape->height, shape->x, shape->y);
    assert_int_equal(variant->is_source, *shape->passes == '\0');
    assert_int_equal(plan.idle, *shape->passes == '\0');
    if (plan.scratch_bytes != shape->scratch_bytes)
        fail_msg("%s: %zu bytes of scratch instead of %zu", shape->ops, plan.scratch_bytes,
                 shape->scratch_bytes);
    assert_int_equal(plan.output_bytes,
                     plan.idle ? 0 : image_bytes(variant->width, variant->height,
                                                 variant->channels));
    plan_clear(&plan);
}

TEST(test_plans)
{
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        check_shape(&shapes[i]);
}

/* ---- refused parameters ---- */

static const struct test_refusal refusals[] = {
    {"[{\"op\":\"transpose\",\"axis\":\"horizontal\"}]", "no parameter \"axis\"; it has none"},
    {"[{\"op\":\"rotate\",\"clockwise\":1}]", "clockwise is a number; it must be true or false"},
    {"[{\"op\":\"rotate\",\"clockwise\":null}]", "clockwise is null"},
    {"[{\"op\":\"flip\",\"axis\":\"x\"}]", "axis is \"x\"; it must be horizontal or vertical"},
    {"[{\"op\":\"flip\",\"axis\":true}]", "axis is a boolean"},
    {"[\"crop\"]", "ops[0] crop needs width and height"},
    {"[{\"op\":\"crop\",\"x\":1,\"y\":1,\"width\":5}]", "crop needs width and height"},
    {"[{\"op\":\"crop\",\"x\":1,\"width\":5,\"height\":5}]", "crop has x without y"},
    {"[{\"op\":\"crop\",\"y\":1,\"width\":5,\"height\":5}]", "crop has y without x"},
    {"[{\"op\":\"crop\",\"x\":1,\"y\":1,\"width\":5,\"height\":5,\"gravity\":\"east\"}]",
     "x, y and gravity; remove gravity, or x and y"},
    {"[{\"op\":\"crop\",\"x\":-1,\"y\":1,\"width\":5,\"height\":5}]",
     "x is -1; it must be an integer of 0 to 65499"},
    {"[{\"op\":\"crop\",\"x\":1,\"y\":1.5,\"width\":5,\"height\":5}]", "y is 1.5"},
    {"[{\"op\":\"crop\",\"x\":1,\"y\":1,\"width\":0,\"height\":5}]",
     "width is 0; it must be an integer of 1 to 65500"},
    {"[{\"op\":\"crop\",\"x\":1,\"y\":1,\"width\":5,\"height\":65501}]", "height is 65501"},
    {"[{\"op\":\"crop\",\"width\":5,\"height\":5,\"gravity\":\"top\"}]",
     "gravity is \"top\"; it must be center, north, northeast, east, southeast, south, southwest, "
     "west or northwest"},
};

static const struct test_refusal misfits[] = {
    {"[" CROP(0, 0, 301, 5) "]",
     "ops[0] crop: width is 301; the image is 300 x 200 at this operation"},
    {"[" CROP(0, 0, 5, 201) "]", "height is 201; the image is 300 x 200 at this operation"},
    {"[" CROP(201, 0, 100, 5) "]",
     "x 201 + width 100 is 301; the image is 300 x 200 at this operation"},
    {"[" CROP(0, 101, 100, 100) "]", "y 101 + height 100 is 201"},
    {"[\"rotate\"," CROP(101, 0, 100, 5) "]", "x 101 + width 100 is 201; the image is 200 x 300"},
    {"[" CROP(0, 0, 10, 10) "," CROP(5, 0, 6, 5) "]",
     "ops[1] crop: x 5 + width 6 is 11; the image is 10 x 10 at this operation"},
    {"[{\"op\":\"crop\",\"width\":301,\"height\":5,\"gravity\":\"west\"}]", "width is 301"},
};

TEST(test_refused_parameters)
{
    check_refused(refusals, COUNT_OF(refusals));
}

TEST(test_refused_rectangles)
{
    for (size_t i = 0; i < COUNT_OF(misfits); i++)
        check_misfit(SOURCE(300, 200, 3), NULL, misfits[i].ops, STATUS_BAD_OP, misfits[i].text);
}

ON_BOTH(maps)
ON_BOTH(crops)
ON_BOTH(gravities)
ON_BOTH(random)
ON_BOTH(windows)

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
