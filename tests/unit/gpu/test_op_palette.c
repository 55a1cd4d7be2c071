/* Tests of palette on both engines, against a median cut that moves single pixels between boxes. */
#include "tests/fixtures/gpu/values_run.h"

#include "gpu/plan/pass.h"

/* ---- the reference ---- */

struct sample {
    int rgb[3];
    int box;
};

struct slow {
    struct sample *of;
    int count, boxes;
};

struct colour {
    int rgb[3];
    long long pixels;
};

static struct slow slow_open(const struct image *image)
{
    struct slow slow = {.of = calloc((size_t)image->width * image->height, sizeof *slow.of),
                        .boxes = 1};
    assert_non_null(slow.of);
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++) {
            if (image->channels == 4 && values_at(image, x, y, 3) < 128)
                continue;
            for (int c = 0; c < 3; c++)
                slow.of[slow.count].rgb[c] =
                    (int)values_at(image, x, y, image->channels == 1 ? 0 : c);
            slow.count++;
        }
    return slow;
}

/* The centre of a pixel's cell, in half units. */
static int position(const struct sample *sample, int axis)
{
    return sample->rgb[axis] / 16 * 32 + 15;
}

static long long spread_of(const struct slow *slow, int box, int axis)
{
    long long sum = 0, count = 0, spread = 0;
    for (int i = 0; i < slow->count; i++)
        if (slow->of[i].box == box) {
            sum += position(&slow->of[i], axis);
            count++;
        }
    for (int i = 0; i < slow->count; i++)
        if (slow->of[i].box == box) {
            long long apart = position(&slow->of[i], axis) - sum / count;
            spread += apart * apart;
        }
    return spread;
}

static int compare_ints(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void split(struct slow *slow, int box, int axis)
{
    int *sorted = malloc((size_t)slow->count * sizeof *sorted), count = 0;
    assert_non_null(sorted);
    for (int i = 0; i < slow->count; i++)
        if (slow->of[i].box == box)
            sorted[count++] = position(&slow->of[i], axis);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_ints);
    int last = sorted[(count + 1) / 2 - 1];
    if (last == sorted[count - 1])
        last--; /* the last cells leave */
    free(sorted);
    for (int i = 0; i < slow->count; i++)
        if (slow->of[i].box == box && position(&slow->of[i], axis) > last)
            slow->of[i].box = slow->boxes;
    slow->boxes++;
}

static void divide(struct slow *slow, int colours)
{
    while (slow->boxes < colours) {
        long long widest = 0;
        int box = 0, axis = 0;
        for (int b = 0; b < slow->boxes; b++)
            for (int a = 0; a < 3; a++) {
                long long spread = spread_of(slow, b, a);
                if (spread > widest) {
                    widest = spread;
                    box = b;
                    axis = a;
                }
            }
        if (widest == 0)
            return;
        split(slow, box, axis);
    }
}

static int compare_colours(const void *a, const void *b)
{
    const struct colour *one = a, *two = b;
    for (int c = 0; c < 3 && one->pixels == two->pixels; c++)
        if (one->rgb[c] != two->rgb[c])
            return one->rgb[c] - two->rgb[c];
    return one->pixels > two->pixels ? -1 : one->pixels < two->pixels;
}

static int slow_colours(const struct slow *slow, struct colour *colours)
{
    int count = slow->count > 0 ? slow->boxes : 0;
    for (int b = 0; b < count; b++) {
        long long sums[3] = {0};
        colours[b] = (struct colour){.pixels = 0};
        for (int i = 0; i < slow->count; i++)
            for (int c = 0; c < 3 && slow->of[i].box == b; c++) {
                sums[c] += slow->of[i].rgb[c];
                colours[b].pixels += c == 0;
            }
        for (int c = 0; c < 3; c++)
            colours[b].rgb[c] = (int)((2 * sums[c] + colours[b].pixels) / (2 * colours[b].pixels));
    }
    qsort(colours, (size_t)count, sizeof *colours, compare_colours);
    return count;
}

/* ---- comparing ---- */

static void check_list(const cJSON *list, const struct colour *want, int count, long long pixels,
                       const char *what)
{
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != count)
        fail_msg("%s: %d colours instead of %d", what, cJSON_GetArraySize(list), count);
    for (int i = 0; i < count; i++) {
        const cJSON *entry = cJSON_GetArrayItem(list, i),
                    *rgb = cJSON_GetObjectItem(entry, "color");
        double share = cJSON_GetNumberValue(cJSON_GetObjectItem(entry, "share"));
        assert_int_equal(cJSON_GetArraySize(rgb), 3);
        for (int c = 0; c < 3; c++)
            if (cJSON_GetArrayItem(rgb, c)->valueint != want[i].rgb[c])
                fail_msg("%s: channel %d of colour %d is %d instead of %d", what, c, i,
                         cJSON_GetArrayItem(rgb, c)->valueint, want[i].rgb[c]);
        if (share != (double)want[i].pixels / (double)pixels)
            fail_msg("%s: colour %d has %g instead of %lld of %lld pixels", what, i, share,
                     want[i].pixels, pixels);
    }
}

static void check_palette(struct engine *engine, const struct values_case *c, int colours)
{
    struct values_run run;
    struct colour want[16];
    values_begin(&run, engine, c);
    struct slow slow = slow_open(&run.run.input);
    if (slow.count > 0)
        divide(&slow, colours);
    int count = slow_colours(&slow, want);
    check_list(cJSON_GetObjectItem(run.values, "palette"), want, count, slow.count, run.run.what);
    if (!c->no_picture)
        assert_ptr_equal(run.run.result.pixels, run.run.input.pixels);
    free(slow.of);
    values_end(&run);
}

/* Around the 16 pixels of a lane, the 512 of a warp, and 32 bytes. */
static const uint32_t sizes[][2] = {{1, 1},   {1, 70},  {70, 1},  {8, 8},   {10, 9},  {11, 7},
                                    {15, 5},  {16, 4},  {17, 3},  {31, 6},  {32, 11}, {33, 10},
                                    {511, 3}, {512, 2}, {513, 4}, {1030, 7}};

static void all_palette(struct engine *engine)
{
    static const int colours[] = {1, 2, 3, 7, 16};
    char ops[60];
    for (size_t i = 0; i < COUNT_OF(sizes); i += test_quick() ? 3 : 1)
        each_channels (channels) {
            for (enum fill fill = 0; fill < FILL_COUNT; fill++) {
                int most = colours[(i + fill) % COUNT_OF(colours)];
                snprintf(ops, sizeof ops, "[{\"op\":\"palette\",\"colors\":%d}]", most);
                struct values_case c = {.width = sizes[i][0],
                                        .height = sizes[i][1],
                                        .channels = channels,
                                        .fill = fill,
                                        .ops = ops,
                                        .no_picture = (i + channels) % 2 == 0};
                check_palette(engine, &c, most);
            }
        }
    struct values_case standard = {
        .width = 90, .height = 60, .channels = 3, .ops = "[\"palette\"]"};
    check_palette(engine, &standard, 6);
}

/* A part of an image, whose rows are not aligned, and what other operations make of it. */
static void all_chains(struct engine *engine)
{
    struct values_case part = {.width = 100,
                               .height = 40,
                               .channels = 3,
                               .ops = "[{\"op\":\"crop\",\"x\":7,\"y\":3,\"width\":50,"
                                      "\"height\":20},\"palette\",\"invert\",\"palette\"]"};
    struct values_run run;
    struct colour want[16];
    values_begin(&run, engine, &part);
    struct image seen = run.run.input;
    seen.pixels += 3 * seen.stride + 7 * 3;
    seen.width = 50;
    seen.height = 20;
    const char *const names[] = {"palette", "palette_2"};
    for (int i = 0; i < 2; i++) {
        struct slow slow = slow_open(i == 0 ? &seen : &run.run.result);
        divide(&slow, 6);
        int count = slow_colours(&slow, want);
        check_list(cJSON_GetObjectItem(run.values, names[i]), want, count, slow.count, names[i]);
        free(slow.of);
    }
    values_end(&run);
}

/* Colours that fill whole areas are returned as they are. */
static void all_exact(struct engine *engine)
{
    static const struct colour want[] = {
        {{255, 255, 255}, 600}, {{12, 34, 56}, 200}, {{0, 0, 0}, 100}, {{201, 99, 3}, 100}};
    struct gpu_run run;
    gpu_run_open(&run, engine, SOURCE(100, 10, 3), NULL, "[\"palette\"]");
    for (uint32_t x = 0, left = 0, i = 0; x < 100; x++, left--) {
        if (x == 0)
            left = 60;
        else if (left == 0)
            left = (uint32_t)want[++i].pixels / 10;
        for (uint32_t y = 0; y < 10; y++)
            for (int c = 0; c < 3; c++)
                run.input.pixels[y * run.input.stride + x * 3 + (uint32_t)c] =
                    (uint8_t)want[i].rgb[c];
    }
    gpu_run_finish(&run);
    cJSON *values = plan_values(&run.plan, 0, run.memory.output);
    check_list(cJSON_GetObjectItem(values, "palette"), want, 4, 1000, "four colours");
    cJSON_Delete(values);
    gpu_run_close(&run);
}

TEST(test_parameters)
{
    static const struct test_refusal refusals[] = {
        {"[{'op':'palette','colors':0}]", "colors is 0; it must be an integer of 1 to 16"},
        {"[{'op':'palette','colors':17}]", "colors is 17; it must be an integer of 1 to 16"},
    };
    check_refused(refusals, COUNT_OF(refusals));
}

/* 32 bits hold the sums of a cell of the largest image that is allowed. */
TEST(test_largest_image)
{
    static const struct plan_limits limits = {.pixels_max = 1u << 30, .side_max = 65500};
    struct op_item *ops = test_ops("['palette']");
    struct plan_target target = {.ops = ops, .no_picture = true};
    struct plan plan;
    struct error error = {0};
    assert_int_equal(plan_build(&plan, SOURCE(16383, 16384, 3), &target, 1, &limits, &error), 0);
    assert_int_equal(plan.output_bytes, 4096 * 16);
    plan_clear(&plan);
    check_misfit(SOURCE(16384, 16384, 3), &limits, "['palette']", STATUS_BAD_OP,
                 "palette: the image has 268435456 pixels; at most 268435455 are allowed");
    op_list_free(ops);
}

ON_BOTH(palette)
ON_BOTH(chains)
ON_BOTH(exact)

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
