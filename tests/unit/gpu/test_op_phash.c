/*
 * Tests of phash on both engines: against a reference in long double over grayscale and resize,
 * against hashes of Python's imagehash, and several hashes of one job in one pass.
 */
#include "tests/fixtures/gpu/values_run.h"

#include "gpu/ops/phash.h"
#include "gpu/plan/pass.h"
#include "tests/fixtures/reference.h"

#define TO_32                                                                                      \
    "{'op':'resize','width':32,'height':32,'fit':'exact','fast_shrink':false}"

static void compare_hash(const cJSON *values, const char *name, uint64_t want, const char *what)
{
    const cJSON *value = cJSON_GetObjectItem(values, name);
    const char *text = text_of("%016llx", (unsigned long long)want);
    if (!cJSON_IsString(value) || strcmp(value->valuestring, text) != 0)
        fail_msg("%s: %s %s instead of %s", what, name,
                 cJSON_IsString(value) ? value->valuestring : "is missing", text);
}

/* ---- all sizes, channels and fills ---- */

static void check_phash(struct engine *engine, const struct values_case *c)
{
    struct gpu_run small;
    struct values_run run;
    values_begin(&run, engine, c);
    gpu_run_open(&small, cpu, SOURCE(c->width, c->height, c->channels), NULL,
                 "['grayscale'," TO_32 "]");
    memcpy(small.input.pixels, run.run.input.pixels, small.input.stride * small.input.height);
    gpu_run_finish(&small);
    struct raster gray = raster_of(small.result);
    compare_hash(run.values, "phash", reference_phash(&gray), run.run.what);
    raster_clear(&gray);
    if (!c->no_picture)
        assert_ptr_equal(run.run.result.pixels, run.run.input.pixels);
    gpu_run_close(&small);
    values_end(&run);
}

static void all_phash(struct engine *engine)
{
    static const uint32_t own[][2] = {{32, 32}, {32, 9}, {9, 32}, {32, 77}, {64, 32}};
    values_for_all(engine, "[\"phash\"]", check_phash);
    for (size_t i = 0; i < COUNT_OF(own); i++) {
        each_channels(channels) {
            struct values_case c = {.width = own[i][0], .height = own[i][1], .channels = channels,
                                    .ops = "[\"phash\"]", .no_picture = i % 2};
            check_phash(engine, &c);
        }
    }
}

/* ---- generated images ---- */

/* Kinds of images: four with known hashes, 256 of one value, and symmetric ones. */
#define FLAT 4
#define PAIRED 1000

struct pixels {
    uint32_t width, height, channels;
    int kind;
};

/* The same formulas made the images that imagehash hashed: see `known`. */
static uint8_t pixel_at(const struct pixels *p, int64_t x, int64_t y, int64_t c)
{
    int64_t value = 0, w = p->width, h = p->height;
    if (p->kind == 0)
        value = (x * x * 3 + y * y * 5 + x * y * (c + 1)) / 97 + 40 * c;
    else if (p->kind == 1)
        value = (x * 255 / (w - 1) * 3 + y * 255 / (h - 1) * 2) / 5;
    else if (p->kind == 2)
        value = (x * 5 / w + y * 3 / h * 2 + c) % 3 == 0 ? 200 : 30;
    else if (p->kind == 3)
        value = (x * 2654435761 + y * 40503 * 7 + c * 977) >> 5;
    else if (p->kind >= PAIRED)
        value = ((x + 7) * (y + 7) * (p->kind * 37 + 11) + (x + y) * p->kind * p->kind) >> 3;
    else
        value = p->kind - FLAT;
    return (uint8_t)value;
}

/* Runs a job over the image and stores each variant's values. Returns how many passes hash. */
static unsigned run_job(struct engine *engine, const struct pixels *pixels,
                        const char *const *ops, size_t count, bool no_picture, cJSON **values)
{
    struct plan_source source = {.width = pixels->width, .height = pixels->height,
                                 .channels = pixels->channels, .orientation = 1};
    struct plan_target targets[JOB_OUTPUTS_MAX];
    struct engine_memory memory;
    struct error error = {0};
    struct plan plan;
    unsigned hashes = 0;
    for (size_t i = 0; i < count; i++)
        targets[i] = (struct plan_target){.ops = test_ops(ops[i]), .no_picture = no_picture};
    if (plan_build(&plan, &source, targets, count, &test_limits, &error) != STATUS_OK)
        fail_msg("%s: %s", ops[0], error.text);
    test_reserve(engine, &plan, &memory);
    struct image input = plan_input(&plan, memory.input);
    for (uint32_t y = 0; y < input.height; y++)
        for (uint32_t x = 0; x < input.width * input.channels; x++)
            input.pixels[y * input.stride + x] =
                pixel_at(pixels, x / input.channels, y, x % input.channels);
    test_carry_out(engine, &plan, &memory, ops[0]);
    for (size_t v = 0; v < count; v++) {
        values[v] = plan_values(&plan, v, memory.output);
        assert_non_null(values[v]);
        for (uint32_t p = 0; p < plan.variants[v].pass_count; p++)
            hashes += plan.variants[v].passes[p].stacked && !plan.variants[v].passes[p].deferred;
        op_list_free(targets[v].ops);
    }
    engine_release(engine, &memory);
    plan_clear(&plan);
    return hashes;
}

static void check_one(struct engine *engine, const struct pixels *pixels, uint64_t want)
{
    static const char *const ops[] = {"[\"phash\"]"};
    const char *what = text_of("%ux%ux%u, image %d", pixels->width, pixels->height,
                               pixels->channels, pixels->kind);
    cJSON *values;
    assert_int_equal(run_job(engine, pixels, ops, 1, true, &values), 1);
    compare_hash(values, "phash", want, what);
    cJSON_Delete(values);
}

/* Results of str(imagehash.phash(image)), with Pillow 9.4 and SciPy 1.10. */
static void all_known(struct engine *engine)
{
    static const uint64_t known[][2] = {{0x830303070ffffcf0, 0xaa2a5f816ad52ad5},
                                        {0xaa6e9539976aaa28, 0xaa7cbe03e602f43c},
                                        {0xd95c0df2f2a35858, 0xa2f658a7a709a2f2},
                                        {0xef0172ab77039623, 0x875d8953a713982f}};
    for (int kind = 0; kind < 4; kind++) {
        struct pixels colour = {200, 133, 3, kind}, gray = {31, 77, 1, kind};
        check_one(engine, &colour, known[kind][0]);
        check_one(engine, &gray, known[kind][1]);
    }
}

/* An image of one value sets only the first of the 64 bits; a black image sets none. */
static void all_flat(struct engine *engine)
{
    for (int value = 0; value < 256; value += test_quick() ? 51 : 1) {
        struct pixels flat = {.width = 45, .height = 33, .channels = 1, .kind = FLAT + value};
        check_one(engine, &flat, value ? 1ull << 63 : 0);
    }
}

/* ---- several hashes in one job ---- */

/* Two hashes in one chain and one in each of many chains, before and after other operations. Each
 * hash equals that of its chain alone, and one pass computes them all. */
static void check_many(struct engine *engine, bool no_picture)
{
    static const char *const ops[] = {
        "[\"phash\"]", "[\"stats\",\"transpose\",\"phash\",\"sobel\",\"phash\"]",
        "[{\"op\":\"rotate\",\"angle\":180},\"phash\",\"otsu\"]",
        "[{\"op\":\"crop\",\"width\":32,\"height\":32,\"x\":1,\"y\":0},\"phash\"]",
        "[\"invert\",\"phash\",\"grayscale\",\"median\"]", "[\"flip\",\"phash\"]",
        "[{\"op\":\"crop\",\"width\":99,\"height\":71,\"x\":32,\"y\":5},\"phash\",\"transpose\"]",
        "[{\"op\":\"resize\",\"width\":50},\"phash\"]", "[\"grayscale\"," TO_32 ",\"phash\"]",
    };
    enum { count = COUNT_OF(ops) };
    struct pixels picture = {200, 133, 3, 0};
    cJSON *together[count], *alone;
    assert_int_equal(run_job(engine, &picture, ops, count, no_picture, together), 1);
    for (int i = 0; i < count; i++) {
        run_job(cpu, &picture, &ops[i], 1, no_picture, &alone);
        assert_non_null(cJSON_GetObjectItem(alone, "phash"));
        assert_true(cJSON_Compare(together[i], alone, true));
        cJSON_Delete(alone);
    }
    compare_hash(together[0], "phash", 0x830303070ffffcf0, ops[0]);
    assert_int_equal(cJSON_GetArraySize(together[1]), 3);
    const char *second = cJSON_GetStringValue(cJSON_GetObjectItem(together[1], "phash_2"));
    const char *first = cJSON_GetStringValue(cJSON_GetObjectItem(together[1], "phash"));
    assert_non_null(second);
    assert_string_not_equal(first, second);
    for (int i = 0; i < count; i++)
        cJSON_Delete(together[i]);
}

static void all_many(struct engine *engine)
{
    check_many(engine, false);
    check_many(engine, true);
}

/* In an image that is symmetric about its diagonal most coefficients come in equal pairs, often at
 * the median too. A value equal to the median is not above it, so both bits of a pair are equal. */
static void all_pairs(struct engine *engine)
{
    static const char *const ops[] = {"[\"phash\"]"};
    for (int kind = PAIRED; kind < PAIRED + (test_quick() ? 8 : 64); kind++) {
        struct pixels picture = {32, 32, 1, kind};
        struct raster gray = raster_make(32, 32, 1);
        cJSON *values;
        for (uint32_t y = 0; y < 32; y++)
            for (uint32_t x = 0; x < 32; x++)
                *raster_at(&gray, x, y) = pixel_at(&picture, x, y, 0);
        run_job(engine, &picture, ops, 1, true, &values);
        compare_hash(values, "phash", reference_phash(&gray), "symmetric");
        uint64_t hash =
            strtoull(cJSON_GetStringValue(cJSON_GetObjectItem(values, "phash")), NULL, 16);
        for (int i = 0; i < 64; i++)
            assert_int_equal(hash >> (63 - i) & 1, hash >> (63 - (i % 8 * 8 + i / 8)) & 1);
        cJSON_Delete(values);
        raster_clear(&gray);
    }
}

/* ---- plans ---- */

struct shape {
    const char *ops;
    uint32_t channels;
    bool no_picture;
    const char *passes;
    size_t output_bytes, scratch_bytes; /* for 100 x 10 pixels */
};

/* Images of 100 x 10 have rows of 128, 320 or 416 bytes. 32 x 10 gray is packed as 48 x 16. To
 * resize along rows of 100 with 24 weights the CPU needs (128 + 24) * 16 * 4 bytes. The weights
 * down the columns of 32 results take 32 * (4 + 12 * 4) bytes, rounded up. */
#define ALONG 9728
#define DOWN  1792
static const struct shape shapes[] = {
    {"[\"phash\"]", 1, true, "resample x|resample y|phash", 8, 768 + 1024 + ALONG + DOWN},
    {"[\"phash\"]", 3, true, "grayscale|resample x|resample y|phash", 8,
     1280 + 768 + 1024 + ALONG + DOWN},
    {"[\"phash\"]", 3, false, "grayscale|resample x|resample y|phash", 8,
     1280 + 768 + 1024 + ALONG + DOWN},
    {"[\"phash\",\"sobel\"]", 3, true, "grayscale|resample x|resample y|phash", 8,
     1280 + 768 + 1024 + ALONG + DOWN},
    /* The output is the image, then the hash. The hash has its own gray image. */
    {"[\"invert\",\"phash\",\"invert\"]", 3, false,
     "table|grayscale|resample x|resample y|phash|table", 3328 + 8,
     3328 + 1280 + 768 + 1024 + ALONG + DOWN},
    {"[\"phash\",\"phash\"]", 1, false, "resample x|resample y|phash|resample x|resample y|phash",
     16, 768 + 2048 + ALONG + DOWN},
    {"[{\"op\":\"crop\",\"width\":32,\"height\":10,\"x\":1,\"y\":0},\"phash\"]", 1, false,
     "orient|resample y|phash", 8, 512 + 1024 + DOWN},
};

TEST(test_plans)
{
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        const struct shape *shape = &shapes[i];
        struct plan plan;
        test_plan(&plan, SOURCE(100, 10, shape->channels),
                  &(struct plan_target){.no_picture = shape->no_picture}, shape->ops);
        assert_string_equal(pass_names(&plan, '|'), shape->passes);
        if (plan.output_bytes != shape->output_bytes ||
            plan.scratch_bytes != shape->scratch_bytes)
            fail_msg("%s: %zu and %zu bytes instead of %zu and %zu", shape->ops,
                     plan.output_bytes, plan.scratch_bytes, shape->output_bytes,
                     shape->scratch_bytes);
        plan_clear(&plan);
    }
}

/* phash of a JPEG decodes all colours and makes gray itself. After grayscale it uses the Y channel
 * alone. */
TEST(test_decoding)
{
    struct plan_source source = {.width = 4000, .height = 3000, .channels = 3, .orientation = 1};
    struct plan_target target = {.ops = test_ops("[\"phash\"," TO_32 "]")};
    assert_int_equal(plan_decode_as(&target, 1), DECODE_COLOUR);
    assert_int_equal(plan_eighths(&source, target.ops), DECODE_EIGHTHS);
    assert_true(op_list_gives_values(target.ops));
    op_list_free(target.ops);
    target.ops = test_ops("[\"grayscale\",\"phash\"]");
    assert_int_equal(plan_decode_as(&target, 1), DECODE_LUMA);
    op_list_free(target.ops);
}

TEST(test_parameters)
{
    static const struct test_refusal refusal = {"[{'op':'phash','size':8}]", "it has none"};
    check_refused(&refusal, 1);
}

ON_BOTH(phash)
ON_BOTH(known)
ON_BOTH(flat)
ON_BOTH(many)
ON_BOTH(pairs)

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
