/* test_op_histogram.c - histogram and stats on both engines, and how values leave a plan. */
#include "tests/fixtures/gpu/values_run.h"

#include "gpu/plan/pass.h"

/* ---- histogram ---- */

static void compare_counts(const cJSON *row, const unsigned counts[256], const char *what)
{
    assert_non_null(row);
    cJSON *numbers = cJSON_Parse(row->valuestring);
    assert_int_equal(cJSON_GetArraySize(numbers), 256);
    int i = 0;
    const cJSON *number;
    cJSON_ArrayForEach(number, numbers)
    {
        if (number->valuedouble != counts[i])
            fail_msg("%s: %.0f of value %d instead of %u", what, number->valuedouble, i,
                     counts[i]);
        i++;
    }
    cJSON_Delete(numbers);
}

static void check_histogram(struct engine *engine, struct values_case *c)
{
    struct values_run run;
    unsigned counts[256];
    values_begin(&run, engine, c);
    const cJSON *rows = cJSON_GetObjectItem(run.values, "histogram");
    bool gray = strstr(c->ops, "true") != NULL;
    int planes = gray ? 1 : (int)c->channels;
    assert_int_equal(cJSON_GetArraySize(rows), planes);
    for (int plane = 0; plane < planes; plane++) {
        values_count(&run.input, gray ? -1 : plane, counts);
        compare_counts(cJSON_GetArrayItem(rows, plane), counts, c->what);
    }
    if (!c->no_picture)
        assert_ptr_equal(run.picture.pixels, run.input.pixels);
    values_end(&run, engine);
}

static void all_histogram(struct engine *engine)
{
    values_for_all(engine, "[\"histogram\"]", check_histogram);
    values_for_all(engine, "[{\"op\":\"histogram\",\"gray\":true}]", check_histogram);
    values_for_all(engine, "[{\"op\":\"histogram\",\"gray\":false}]", check_histogram);
}

/* More pixels of one value than half a word holds, in every table. */
static void all_many(struct engine *engine)
{
#ifndef __SANITIZE_ADDRESS__
    static const uint32_t channels[] = {1, 3, 4};
    for (int i = 0; i < 3 && !test_quick(); i++) {
        struct values_case c = {.width = 7000, .height = 4000, .channels = channels[i],
                                .fill = FILL_WHITE, .ops = "[\"histogram\"]"};
        check_histogram(engine, &c);
        c.ops = "[{\"op\":\"histogram\",\"gray\":true}]";
        check_histogram(engine, &c);
    }
#else
#endif
}

/* ---- stats ---- */

static double number_at(const cJSON *values, const char *name, int channel)
{
    const cJSON *list = cJSON_GetObjectItem(cJSON_GetObjectItem(values, "stats"), name);
    return cJSON_GetNumberValue(cJSON_GetArrayItem(list, channel));
}

static void check_stats(struct engine *engine, struct values_case *c)
{
    struct values_run run;
    values_begin(&run, engine, c);
    for (int channel = 0; channel < (int)c->channels; channel++) {
        unsigned long long sum = 0;
        unsigned min = 255, max = 0;
        for (uint32_t y = 0; y < c->height; y++) {
            for (uint32_t x = 0; x < c->width; x++) {
                unsigned value = values_at(&run.input, x, y, channel);
                sum += value;
                min = value < min ? value : min;
                max = value > max ? value : max;
            }
        }
        double mean = (double)sum / ((double)c->width * c->height);
        if (number_at(run.values, "mean", channel) != mean ||
            number_at(run.values, "min", channel) != min ||
            number_at(run.values, "max", channel) != max)
            fail_msg("%s: channel %d: %.17g, %g, %g instead of %.17g, %u, %u", c->what, channel,
                     number_at(run.values, "mean", channel),
                     number_at(run.values, "min", channel),
                     number_at(run.values, "max", channel), mean, min, max);
    }
    values_end(&run, engine);
}

static void all_stats(struct engine *engine)
{
    values_for_all(engine, "[\"stats\"]", check_stats);
#ifndef __SANITIZE_ADDRESS__
    struct values_case c = {.width = 16384, .height = 2000, .channels = 1, .fill = FILL_WHITE,
                            .ops = "[\"stats\"]"};
    if (!test_quick())
        check_stats(engine, &c);
#endif
}

/* ---- chains ---- */

/* Values of what a chain has made so far; the picture goes on as if they were not there. */
static void all_chains(struct engine *engine)
{
    struct values_case with = {.width = 523, .height = 37, .channels = 3,
                               .ops = "[\"histogram\",\"grayscale\",\"histogram\",\"sobel\","
                                      "\"stats\",\"sobel\",\"histogram\"]"};
    struct values_case without = {.width = 523, .height = 37, .channels = 3,
                                  .ops = "[\"grayscale\",\"sobel\",\"sobel\"]"};
    struct values_run a, b;
    unsigned counts[256];
    values_begin(&a, engine, &with);
    values_begin(&b, engine, &without);
    assert_int_equal(a.picture.height, b.picture.height);
    for (uint32_t y = 0; y < a.picture.height; y++)
        assert_memory_equal(a.picture.pixels + y * a.picture.stride,
                            b.picture.pixels + y * b.picture.stride, a.picture.width);
    assert_int_equal(cJSON_GetArraySize(a.values), 4);
    assert_int_equal(cJSON_GetArraySize(b.values), 0);
    for (int channel = 0; channel < 3; channel++) {
        values_count(&a.input, channel, counts);
        compare_counts(cJSON_GetArrayItem(cJSON_GetObjectItem(a.values, "histogram"), channel),
                       counts, "the first");
    }
    values_count(&a.input, -1, counts);
    compare_counts(cJSON_GetObjectItem(a.values, "histogram_2")->child, counts, "the second");
    values_count(&b.picture, 0, counts);
    compare_counts(cJSON_GetObjectItem(a.values, "histogram_3")->child, counts, "the third");
    values_end(&a, engine);
    values_end(&b, engine);
}

TEST(test_plans)
{
    struct plan plan;
    struct error error = {0};
    struct plan_source source = {.width = 100, .height = 10, .channels = 3, .orientation = 1};
    struct plan_target target = {
        .ops = test_ops("[\"grayscale\",\"sobel\",\"stats\",\"sobel\"]"), .no_picture = true};
    assert_int_equal(plan_build(&plan, &source, &target, 1, &test_limits, &error), STATUS_OK);
    /* The last step is for nothing; the picture before it stays on the device. */
    assert_int_equal(plan.variants[0].pass_count, 2);
    assert_true(plan_has_values(&plan, 0));
    assert_int_equal(plan.output_bytes, 16);
    assert_int_equal(plan.scratch_bytes, 1280 + 512);
    plan_clear(&plan);
    target.no_picture = false;
    assert_int_equal(plan_build(&plan, &source, &target, 1, &test_limits, &error), STATUS_OK);
    assert_int_equal(plan.output_bytes, 1280 + 16);
    assert_int_equal(plan.variants[0].passes[1].to_place.offset,
                     plan.variants[0].passes[2].from_place.offset);
    plan_clear(&plan);
    cJSON_Delete((cJSON *)target.ops);

    static const char *const with[] = {"[\"histogram\"]", "[\"sobel\",\"stats\"]", "[\"otsu\"]"};
    static const char *const without[] = {"[]", "[\"sobel\"]", "[\"equalize\"]", "[\"nothing\"]"};
    for (int i = 0; i < 3; i++) {
        cJSON *ops = test_ops(with[i]);
        assert_true(plan_gives_values(ops));
        cJSON_Delete(ops);
    }
    for (int i = 0; i < 4; i++) {
        cJSON *ops = test_ops(without[i]);
        assert_false(plan_gives_values(ops));
        cJSON_Delete(ops);
    }
    assert_false(plan_gives_values(NULL));
}

TEST(test_parameters)
{
    values_refused("[{\"op\":\"histogram\",\"gray\":1}]",
                   "ops[0] histogram: gray is a number; it must be true or false");
    values_refused("[{\"op\":\"histogram\",\"bins\":16}]", "there is no parameter \"bins\"");
    values_refused("[{\"op\":\"stats\",\"gray\":true}]", "there is no parameter \"gray\"");
}

ON_BOTH(histogram)
ON_BOTH(many)
ON_BOTH(stats)
ON_BOTH(chains)

int main(void)
{
    return run_all(.setup = engines_open, .teardown = engines_close);
}
