/*
 * Tests of thumbhash on both engines: against a reference that follows the published algorithm in
 * long double, and against hashes of the published JavaScript code.
 */
#include "tests/fixtures/gpu/values_run.h"

#include <math.h>

/* ---- the reference ---- */

/* A plane's DCT: its constant, and the other terms from left to right, row by row. */
struct terms {
    long double constant, scale, of[40];
    int count;
};

static long double product_sum(const long double *plane, int w, int h, int cx, int cy)
{
    const long double pi = acosl(-1);
    long double sum = 0;
    for (int x = 0; x < w; x++)
        for (int y = 0; y < h; y++)
            sum += plane[y * w + x] * cosl(pi / w * cx * (x + 0.5L)) *
                   cosl(pi / h * cy * (y + 0.5L));
    return sum / w / h;
}

static struct terms transform(const long double *plane, int w, int h, int nx, int ny)
{
    struct terms terms = {.constant = product_sum(plane, w, h, 0, 0)};
    for (int cy = 0; cy < ny; cy++)
        for (int cx = cy == 0; cx * ny < nx * (ny - cy); cx++) {
            long double term = product_sum(plane, w, h, cx, cy);
            term = fabsl(term) < 1e-12L ? 0 : term;
            terms.of[terms.count++] = term;
            terms.scale = fmaxl(terms.scale, fabsl(term));
        }
    for (int i = 0; i < terms.count && terms.scale > 0; i++)
        terms.of[i] = 0.5L + terms.of[i] / terms.scale / 2;
    return terms;
}

static unsigned nearest(long double value)
{
    return (unsigned)floorl(value + 0.5L);
}

static int components(int limit, int side, int longest)
{
    int n = (int)nearest((long double)limit * side / longest);
    return n > 1 ? n : 1;
}

/* The bits are collected from the lowest of the first byte on. */
struct bits {
    uint8_t bytes[32];
    unsigned count;
};

static void put(struct bits *bits, unsigned value, unsigned count)
{
    assert_true(value < 1u << count);
    for (unsigned i = 0; i < count; i++, bits->count++)
        bits->bytes[bits->count / 8] |= (uint8_t)((value >> i & 1) << bits->count % 8);
}

static void put_terms(struct bits *bits, const struct terms *terms)
{
    for (int i = 0; i < terms->count; i++)
        put(bits, nearest(15 * terms->of[i]), 4);
}

/* planes: L, P, Q and A of the published algorithm. */
static void to_planes(const struct image *image, long double *planes[4], bool *has_alpha)
{
    size_t pixels = (size_t)image->width * image->height;
    long double mean[3] = {0, 0, 0}, alphas = 0, rgb[3];
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < pixels; i++) {
            const uint8_t *at = image->pixels + i / image->width * image->stride +
                                i % image->width * image->channels;
            long double alpha = image->channels == 4 ? at[3] / 255.0L : 1;
            for (int c = 0; c < 3; c++) {
                long double value = at[image->channels == 1 ? 0 : c] / 255.0L;
                if (round == 0)
                    mean[c] += alpha * value;
                else
                    rgb[c] = mean[c] * (1 - alpha) + alpha * value;
            }
            alphas += round == 0 ? alpha : 0;
            if (round == 0)
                continue;
            planes[0][i] = (rgb[0] + rgb[1] + rgb[2]) / 3;
            planes[1][i] = (rgb[0] + rgb[1]) / 2 - rgb[2];
            planes[2][i] = rgb[0] - rgb[1];
            planes[3][i] = alpha;
        }
        for (int c = 0; c < 3 && round == 0 && alphas > 0; c++)
            mean[c] /= alphas;
    }
    *has_alpha = alphas < pixels - 1e-9L;
}

static struct bits reference_hash(const struct image *image)
{
    int w = (int)image->width, h = (int)image->height, longest = w > h ? w : h;
    long double *planes[4];
    struct bits bits = {.count = 0};
    struct terms terms[4];
    bool alpha;
    for (int p = 0; p < 4; p++)
        assert_non_null(planes[p] = calloc((size_t)w * (size_t)h, sizeof(long double)));
    to_planes(image, planes, &alpha);
    int lx = components(alpha ? 5 : 7, w, longest), ly = components(alpha ? 5 : 7, h, longest);
    for (int p = 0; p < 4; p++) {
        int side = p == 3 ? 5 : 3;
        terms[p] = transform(planes[p], w, h, p == 0 && lx > 3 ? lx : side,
                             p == 0 && ly > 3 ? ly : side);
        free(planes[p]);
    }
    put(&bits, nearest(63 * terms[0].constant), 6);
    put(&bits, nearest(31.5L + 31.5L * terms[1].constant), 6);
    put(&bits, nearest(31.5L + 31.5L * terms[2].constant), 6);
    put(&bits, nearest(31 * terms[0].scale), 5);
    put(&bits, alpha, 1);
    put(&bits, (unsigned)(w > h ? ly : lx), 3);
    put(&bits, nearest(63 * terms[1].scale), 6);
    put(&bits, nearest(63 * terms[2].scale), 6);
    put(&bits, w > h, 1);
    if (alpha) {
        put(&bits, nearest(15 * terms[3].constant), 4);
        put(&bits, nearest(15 * terms[3].scale), 4);
    }
    for (int p = 0; p < (alpha ? 4 : 3); p++)
        put_terms(&bits, &terms[p]);
    return bits;
}

static void compare(const cJSON *values, const struct bits *want, const char *what)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *got = cJSON_GetStringValue(cJSON_GetObjectItem(values, "thumbhash"));
    size_t bytes = (want->count + 7) / 8, length = (bytes + 2) / 3 * 4;
    char text[64] = "";
    for (size_t i = 0; i < length; i++) {
        unsigned digit = 0;
        for (size_t bit = i * 6; bit < i * 6 + 6; bit++)
            digit = digit * 2 + (want->bytes[bit / 8] >> (7 - bit % 8) & 1);
        text[i] = i * 6 < bytes * 8 ? digits[digit] : '=';
    }
    if (!got || strcmp(got, text) != 0)
        fail_msg("%s: %s instead of %s", what, got ? got : "nothing", text);
}

/* ---- all sizes, channels and fills ---- */

/* A larger image is resized first: the pixels that are hashed are those of a separate resize. */
static void check_thumbhash(struct engine *engine, const struct values_case *c)
{
    struct gpu_run small;
    struct values_run run;
    values_begin(&run, engine, c);
    gpu_run_open(&small, cpu, SOURCE(c->width, c->height, c->channels), NULL,
                 "[{'op':'resize','width':100,'height':100,'fast_shrink':false}]");
    memcpy(small.input.pixels, run.run.input.pixels, small.input.stride * small.input.height);
    gpu_run_finish(&small);
    struct bits want = reference_hash(&small.result);
    compare(run.values, &want, run.run.what);
    if (!c->no_picture)
        assert_ptr_equal(run.run.result.pixels, run.run.input.pixels);
    gpu_run_close(&small);
    values_end(&run);
}

static void all_sizes(struct engine *engine)
{
    static const uint32_t own[][2] = {{100, 100}, {100, 37}, {99, 101}, {101, 100}, {8, 64}};
    values_for_all(engine, "[\"thumbhash\"]", check_thumbhash);
    for (size_t i = 0; i < COUNT_OF(own); i++) {
        each_channels(channels) {
            struct values_case c = {.width = own[i][0], .height = own[i][1], .channels = channels,
                                    .ops = "[\"thumbhash\"]", .no_picture = i % 2};
            check_thumbhash(engine, &c);
        }
    }
}

/* ---- published hashes ---- */

static uint8_t pixel_at(int kind, int64_t x, int64_t y, int64_t c)
{
    int64_t value = kind == 0   ? (x * x * 3 + y * y * 5 + x * y * (c + 1)) / 97 + 40 * c
                    : kind == 1 ? (x * 255 / 63 * 3 + y * 255 / 40 * 2) / 5 + c
                                : (x * 2654435761 + y * 40503 * 7 + c * 977) >> 5;
    return (uint8_t)value;
}

/* Of RGBA images of 64 x 41, with alpha 255 in the first two, by rgbaToThumbHash. */
static void all_known(struct engine *engine)
{
    static const char *const known[] = {
        "nKYNJIJweHdjeXiYh3fg4UtP7Q==",
        "4PcRBIBwd3dyeHiHh3fw8A8P/w==",
        "H+eBA4AHZ3cIuninB7mXgHd3R5l4d2A=",
    };
    for (int kind = 0; kind < (int)COUNT_OF(known); kind++) {
        struct gpu_run run;
        gpu_run_open(&run, engine, SOURCE(64, 41, 4), NULL, "['thumbhash']");
        for (uint32_t y = 0; y < 41; y++)
            for (uint32_t x = 0; x < 64 * 4; x++)
                run.input.pixels[y * run.input.stride + x] =
                    x % 4 == 3 && kind < 2 ? 255 : pixel_at(kind, x / 4, y, x % 4);
        gpu_run_finish(&run);
        cJSON *values = plan_values(&run.plan, 0, run.memory.output);
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(values, "thumbhash")),
                            known[kind]);
        cJSON_Delete(values);
        gpu_run_close(&run);
    }
}

/* ---- plans ---- */

struct shape {
    const char *ops;
    uint32_t width, channels;
    const char *passes;
    size_t output_bytes; /* for images of 40 rows */
};

static const struct shape shapes[] = {
    {"['thumbhash']", 90, 3, "thumbhash", 90 * 40 * 3},
    {"['thumbhash']", 200, 4, "resample x|resample y|thumbhash", 100 * 20 * 4},
    /* The image after the hash is the one before it. */
    {"['thumbhash','invert']", 200, 1, "resample x|resample y|thumbhash|table", 224 * 40 + 2000},
    {"['invert','thumbhash','phash','thumbhash','invert']", 90, 1,
     "table|thumbhash|resample x|resample y|phash|thumbhash|table", 96 * 40 + 7200},
};

TEST(test_plans)
{
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        const struct shape *shape = &shapes[i];
        struct plan plan;
        test_plan(&plan, SOURCE(shape->width, 40, shape->channels), NULL, shape->ops);
        assert_string_equal(pass_names(&plan, '|'), shape->passes);
        assert_true(plan.output_bytes >= shape->output_bytes);
        assert_true(plan.output_bytes < shape->output_bytes + 1024);
        plan_clear(&plan);
    }
}

TEST(test_parameters)
{
    static const struct test_refusal refusal = {"[{'op':'thumbhash','size':8}]", "it has none"};
    check_refused(&refusal, 1);
}

ON_BOTH(sizes)
ON_BOTH(known)

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
