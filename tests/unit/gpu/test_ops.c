/*
 * Tests of what the operations compute: both engines, byte for byte, against a reference that is
 * written here straight from the definitions, and shares no code with them.
 */
#include "tests/fixtures/gpu/both_engines.h"

#include <math.h>

#include "gpu/plan/plan.h"

/* ---- the reference: one pixel at a time, wide integers ---- */

struct picture {
    int width, height, channels;
    uint8_t *bytes; /* no padding */
};

struct recipe {
    int orientation;
    bool gray;
    long weights[3];
    int sobels;
    const char *magnitude, *border;
    bool opaque;
};

static const uint8_t under[3] = {200, 13, 101};

static struct picture picture_new(int width, int height, int channels)
{
    struct picture picture = {width, height, channels, NULL};
    picture.bytes = malloc((size_t)width * (size_t)height * (size_t)channels);
    assert_non_null(picture.bytes);
    return picture;
}

static int at(const struct picture *picture, int x, int y, int channel)
{
    return picture->bytes[((size_t)y * (size_t)picture->width + (size_t)x) *
                              (size_t)picture->channels + (size_t)channel];
}

static void put(struct picture *picture, int x, int y, int channel, int value)
{
    picture->bytes[((size_t)y * (size_t)picture->width + (size_t)x) * (size_t)picture->channels +
                   (size_t)channel] = (uint8_t)value;
}

static struct picture reference_orient(const struct picture *in, int orientation)
{
    int w = in->width, h = in->height;
    bool swap = orientation >= 5;
    struct picture out = picture_new(swap ? h : w, swap ? w : h, in->channels);
    for (int y = 0; y < out.height; y++) {
        for (int x = 0; x < out.width; x++) {
            int sx = x, sy = y;
            switch (orientation) {
            case 2: sx = w - 1 - x; break;
            case 3: sx = w - 1 - x, sy = h - 1 - y; break;
            case 4: sy = h - 1 - y; break;
            case 5: sx = y, sy = x; break;
            case 6: sx = y, sy = h - 1 - x; break;
            case 7: sx = w - 1 - y, sy = h - 1 - x; break;
            case 8: sx = w - 1 - y, sy = x; break;
            }
            for (int c = 0; c < in->channels; c++)
                put(&out, x, y, c, at(in, sx, sy, c));
        }
    }
    return out;
}

/* c a + b (255 - a) over 255, to the nearest integer; 255 is odd, so there are no halves. */
static int reference_over(int c, int a, int b)
{
    return (2 * (c * a + b * (255 - a)) + 255) / 510;
}

static struct picture reference_flatten(const struct picture *in)
{
    struct picture out = picture_new(in->width, in->height, 3);
    for (int y = 0; y < in->height; y++)
        for (int x = 0; x < in->width; x++)
            for (int c = 0; c < 3; c++)
                put(&out, x, y, c, reference_over(at(in, x, y, c), at(in, x, y, 3), under[c]));
    return out;
}

static struct picture reference_gray(const struct picture *in, const long *weights)
{
    struct picture out = picture_new(in->width, in->height, 1);
    for (int y = 0; y < in->height; y++) {
        for (int x = 0; x < in->width; x++) {
            if (in->channels == 1) {
                put(&out, x, y, 0, at(in, x, y, 0));
                continue;
            }
            int64_t sum = 32768;
            for (int c = 0; c < 3; c++) {
                int value = at(in, x, y, c);
                if (in->channels == 4)
                    value = reference_over(value, at(in, x, y, 3), under[c]);
                sum += (int64_t)weights[c] * value;
            }
            put(&out, x, y, 0, (int)(sum / 65536));
        }
    }
    return out;
}

static int reference_index(int i, int n, const char *border)
{
    if (n == 1)
        return 0;
    bool reflect = strcmp(border, "reflect101") == 0;
    if (i < 0)
        return reflect ? -i : 0;
    if (i > n - 1)
        return reflect ? 2 * (n - 1) - i : n - 1;
    return i;
}

static int reference_length(int gx, int gy, const char *magnitude)
{
    int length;
    if (strcmp(magnitude, "l2") == 0) {
        length = (int)sqrt((double)(gx * gx + gy * gy));
        while (length * length > gx * gx + gy * gy)
            length--;
        while ((length + 1) * (length + 1) <= gx * gx + gy * gy)
            length++;
    } else {
        length = abs(gx) + abs(gy);
        if (strcmp(magnitude, "half") == 0)
            length /= 2;
    }
    return length > 255 ? 255 : length;
}

static struct picture reference_sobel(const struct picture *in, const char *magnitude,
                                      const char *border)
{
    static const int kernel[3][3] = {{1, 0, -1}, {2, 0, -2}, {1, 0, -1}};
    struct picture out = picture_new(in->width, in->height, 1);
    for (int y = 0; y < in->height; y++) {
        for (int x = 0; x < in->width; x++) {
            int gx = 0, gy = 0;
            for (int dy = -1; dy <= 1; dy++) {
                for (int dx = -1; dx <= 1; dx++) {
                    int value = at(in, reference_index(x + dx, in->width, border),
                                   reference_index(y + dy, in->height, border), 0);
                    gx += kernel[dy + 1][dx + 1] * value;
                    gy += kernel[dx + 1][dy + 1] * value;
                }
            }
            bool frame = x == 0 || y == 0 || x == in->width - 1 || y == in->height - 1;
            bool zero = strcmp(border, "zero") == 0 && frame;
            put(&out, x, y, 0, zero ? 0 : reference_length(gx, gy, magnitude));
        }
    }
    return out;
}

static void replace(struct picture *picture, struct picture next)
{
    free(picture->bytes);
    *picture = next;
}

static struct picture reference(struct image image, const struct recipe *recipe)
{
    struct picture now = picture_new((int)image.width, (int)image.height, (int)image.channels);
    size_t row = (size_t)image.width * image.channels;
    for (uint32_t y = 0; y < image.height; y++)
        memcpy(now.bytes + y * row, image.pixels + y * image.stride, row);
    static const long usual[3] = {19595, 38470, 7471};
    const long *weights = recipe->weights[0] + recipe->weights[1] + recipe->weights[2] == 65536
                              ? recipe->weights
                              : usual;
    if (recipe->orientation > 1)
        replace(&now, reference_orient(&now, recipe->orientation));
    if (recipe->gray || recipe->sobels > 0)
        replace(&now, reference_gray(&now, weights));
    for (int i = 0; i < recipe->sobels; i++)
        replace(&now, reference_sobel(&now, recipe->magnitude, recipe->border));
    if (recipe->opaque && now.channels == 4)
        replace(&now, reference_flatten(&now));
    return now;
}

/* ---- running a recipe on an engine ---- */

static cJSON *recipe_ops(const struct recipe *recipe)
{
    char json[600];
    int length = snprintf(json, sizeof(json), "[");
    if (recipe->gray && recipe->weights[0] + recipe->weights[1] + recipe->weights[2] == 65536)
        length += snprintf(json + length, sizeof(json) - (size_t)length,
                           "{\"op\":\"grayscale\",\"weights\":[%ld,%ld,%ld]}", recipe->weights[0],
                           recipe->weights[1], recipe->weights[2]);
    else if (recipe->gray)
        length += snprintf(json + length, sizeof(json) - (size_t)length, "\"grayscale\"");
    for (int i = 0; i < recipe->sobels; i++)
        length += snprintf(json + length, sizeof(json) - (size_t)length,
                           "%s{\"op\":\"sobel\",\"magnitude\":\"%s\",\"border\":\"%s\"}",
                           i > 0 || recipe->gray ? "," : "", recipe->magnitude, recipe->border);
    snprintf(json + length, sizeof(json) - (size_t)length, "]");
    return test_ops(json);
}

static void compare(struct image got, const struct picture *want, const char *what)
{
    if ((int)got.width != want->width || (int)got.height != want->height ||
        (int)got.channels != want->channels)
        fail_msg("%s: %u x %u x %u instead of %d x %d x %d", what, got.width, got.height,
                 got.channels, want->width, want->height, want->channels);
    size_t row = (size_t)got.width * got.channels;
    for (uint32_t y = 0; y < got.height; y++) {
        const uint8_t *a = got.pixels + y * got.stride, *b = want->bytes + y * row;
        if (memcmp(a, b, row) == 0)
            continue;
        size_t x = 0;
        while (a[x] == b[x])
            x++;
        fail_msg("%s: row %u, byte %zu (column %zu): %u instead of %u", what, y, x,
                 x / got.channels, a[x], b[x]);
    }
}

static void check(struct engine *engine, uint32_t width, uint32_t height, uint32_t channels,
                  const struct recipe *recipe)
{
    struct plan_source source = {.width = width, .height = height, .channels = channels,
                                 .orientation = recipe->orientation,
                                 .background = {under[0], under[1], under[2]}};
    struct plan_target target = {.ops = recipe_ops(recipe), .opaque = recipe->opaque};
    struct plan plan;
    struct error error = {0};
    struct engine_memory memory;
    char what[300];
    snprintf(what, sizeof(what), "%ux%ux%u orientation %d gray %d sobel %d %s %s opaque %d",
             width, height, channels, recipe->orientation, recipe->gray, recipe->sobels,
             recipe->magnitude ? recipe->magnitude : "-", recipe->border ? recipe->border : "-",
             recipe->opaque);

    if (plan_build(&plan, &source, &target, 1, &test_limits, &error) != STATUS_OK)
        fail_msg("%s: %s", what, error.text);
    test_reserve(engine, &plan, &memory);
    struct image input = plan_input(&plan, memory.input);
    test_fill(input, width * 31 + height * 7 + channels);
    test_carry_out(engine, &plan, &memory, what);
    struct picture want = reference(input, recipe);
    compare(plan_result(&plan, 0, memory.input, memory.output), &want, what);
    free(want.bytes);
    engine_release(engine, &memory);
    plan_clear(&plan);
    cJSON_Delete((cJSON *)target.ops);
}

/* ---- the table ---- */

/* The CUDA tile is 512 pixels wide and advances 16 rows (14 in the first step); blocks of the
 * transpositions are 64 (CUDA) and 32 (CPU) a side. */
static const uint32_t sizes[][2] = {
    {1, 1},     {1, 2},    {2, 1},    {2, 2},    {3, 3},     {1, 37},   {37, 1},   {5, 4},
    {15, 13},   {16, 14},  {17, 15},  {31, 16},  {32, 17},   {33, 30},  {63, 31},  {64, 32},
    {65, 33},   {127, 62}, {128, 64}, {129, 65}, {511, 29},  {512, 46}, {513, 47}, {1023, 3},
    {1024, 63}, {1025, 7}, {300, 201}, {100, 515},
};
static const uint32_t large[][2] = {{16384, 3}, {3, 16384}, {1000, 700}};

static void for_all_sizes(struct engine *engine, const struct recipe *recipe, bool with_large)
{
#ifdef __SANITIZE_ADDRESS__
    size_t step = 2;
#else
    size_t step = test_quick() ? 5 : 1;
#endif
    for (uint32_t channels = 1; channels <= 4; channels++) {
        if (channels == 2)
            continue;
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i += step)
            check(engine, sizes[i][0], sizes[i][1], channels, recipe);
        if (!with_large || test_quick())
            continue;
        for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++)
            check(engine, large[i][0], large[i][1], channels, recipe);
    }
}

static void all_grayscale(struct engine *engine)
{
    for_all_sizes(engine, &(struct recipe){.orientation = 1, .gray = true}, true);
    for_all_sizes(engine, &(struct recipe){.orientation = 1, .gray = true,
                                           .weights = {65536, 0, 0}}, false);
    for_all_sizes(engine, &(struct recipe){.orientation = 1, .gray = true,
                                           .weights = {0, 1, 65535}}, false);
}

static void all_sobel(struct engine *engine)
{
    static const char *const magnitudes[] = {"half", "l1", "l2"};
    static const char *const borders[] = {"reflect101", "replicate", "zero"};
    for (int m = 0; m < 3; m++)
        for (int b = 0; b < 3; b++)
            for_all_sizes(engine, &(struct recipe){.orientation = 1, .sobels = 1,
                                                   .magnitude = magnitudes[m],
                                                   .border = borders[b]}, m == b);
    for_all_sizes(engine, &(struct recipe){.orientation = 1, .gray = true, .sobels = 1,
                                           .weights = {20000, 20000, 25536}, .magnitude = "half",
                                           .border = "reflect101"}, false);
    for_all_sizes(engine, &(struct recipe){.orientation = 1, .gray = true, .sobels = 3,
                                           .magnitude = "l1", .border = "replicate"}, false);
}

/* Wide and tall enough that a CUDA block walks down many steps. */
static void all_long(struct engine *engine)
{
#ifndef __SANITIZE_ADDRESS__
    for (uint32_t channels = 1; channels <= 4 && !test_quick(); channels++)
        if (channels != 2)
            check(engine, 16384, 900 + channels, channels,
                  &(struct recipe){.orientation = 1, .sobels = 1, .magnitude = "half",
                                   .border = "reflect101"});
#else
#endif
}

static void all_orientations(struct engine *engine)
{
    for (int orientation = 2; orientation <= 8; orientation++) {
        for_all_sizes(engine, &(struct recipe){.orientation = orientation}, orientation == 6);
        for_all_sizes(engine, &(struct recipe){.orientation = orientation, .sobels = 1,
                                               .magnitude = "half", .border = "reflect101",
                                               .opaque = true}, false);
    }
}

static void all_flatten(struct engine *engine)
{
    size_t count = sizeof(sizes) / sizeof(sizes[0]);
    struct recipe recipe = {.orientation = 1, .opaque = true};
    for (size_t i = 0; i < count; i++)
        check(engine, sizes[i][0], sizes[i][1], 4, &recipe);
    recipe.orientation = 7;
    for (size_t i = 0; i < count; i++)
        check(engine, sizes[i][0], sizes[i][1], 4, &recipe);
    /* Every pair of value and alpha. */
    check(engine, 700, 600, 4, &recipe);
}

ON_BOTH(grayscale)
ON_BOTH(sobel)
ON_BOTH(orientations)
ON_BOTH(flatten)
ON_BOTH(long)

int main(void)
{
    return run_all(.setup = engines_open, .teardown = engines_close);
}
