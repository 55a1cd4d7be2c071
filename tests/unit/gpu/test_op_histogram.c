/* Tests of histogram and stats on both engines, and of the values that a plan returns. */
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

static void check_histogram(struct engine *engine, const struct values_case *c)
{
    struct values_run run;
    unsigned counts[256];
    values_begin(&run, engine, c);
    const cJSON *rows = cJSON_GetObjectItem(run.values, "histogram");
    bool gray = strstr(c->ops, "true") != NULL;
    int planes = gray ? 1 : (int)c->channels;
    assert_int_equal(cJSON_GetArraySize(rows), planes);
    for (int plane = 0; plane < planes; plane++) {
        values_count(&run.run.input, gray ? -1 : plane, counts);
        compare_counts(cJSON_GetArrayItem(rows, plane), counts, run.run.what);
    }
    if (!c->no_picture)
        assert_ptr_equal(run.run.result.pixels, run.run.input.pixels);
    values_end(&run);
}

static void all_histogram(struct engine *engine)
{
    values_for_all(engine, "[\"histogram\"]", check_histogram);
    values_for_all(engine, "[{\"op\":\"histogram\",\"gray\":true}]", check_histogram);
    values_for_all(engine, "[{\"op\":\"histogram\",\"gray\":false}]", check_histogram);
}

/* More pixels of one value than 16 bits hold, in every table. */
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
#endif
}

/* ---- stats ---- */

static double number_at(const cJSON *values, const char *name, int channel)
{
    const cJSON *list = cJSON_GetObjectItem(cJSON_GetObjectItem(values, "stats"), name);
    return cJSON_GetNumberValue(cJSON_GetArrayItem(list, channel));
}

static void check_stats(struct engine *engine, const struct values_case *c)
{
    struct values_run run;
    values_begin(&run, engine, c);
    for (int channel = 0; channel < (int)c->channels; channel++) {
        unsigned long long sum = 0;
        unsigned min = 255, max = 0;
        for (uint32_t y = 0; y < c->height; y++) {
            for (uint32_t x = 0; x < c->width; x++) {
                unsigned value = values_at(&run.run.input, x, y, channel);
                sum += value;
                min = value < min ? value : min;
                max = value > max ? value : max;
            }
        }
        double mean = (double)sum / ((double)c->width * c->height);
        double got_mean = number_at(run.values, "mean", channel);
        double got_min = number_at(run.values, "min", channel);
        double got_max = number_at(run.values, "max", channel);
        if (got_mean != mean || got_min != min || got_max != max)
            fail_msg("%s: channel %d: %.17g, %g, %g instead of %.17g, %u, %u", run.run.what,
                     channel, got_mean, got_min, got_max, mean, min, max);
    }
    values_end(&run);
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

/* The values are of the image at that point of the chain; the image itself is unchanged. */
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
    test_same(a.run.result, b.run.result, with.ops);
    assert_int_equal(cJSON_GetArraySize(a.values), 4);
    assert_int_equal(cJSON_GetArraySize(b.values), 0);
    for (int channel = 0; channel < 3; channel++) {
        values_count(&a.run.input, channel, counts);
        compare_counts(cJSON_GetArrayItem(cJSON_GetObjectItem(a.values, "histogram"), channel),
                       counts, "the first");
    }
    values_count(&a.run.input, -1, counts);
    compare_counts(cJSON_GetObjectItem(a.values, "histogram_2")->child, counts, "the second");
    values_count(&b.run.result, 0, counts);
    compare_counts(cJSON_GetObjectItem(a.values, "histogram_3")->child, counts, "the third");
    values_end(&a);
    values_end(&b);
}

TEST(test_plans)
{
    static const char chain[] = "['grayscale','sobel','stats','sobel']";
    struct plan plan;
    test_plan(&plan, SOURCE(100, 10, 3), &(struct plan_target){.no_picture = true}, chain);
    /* The last operation has no reader; its input stays on the device. */
    assert_int_equal(plan.variants[0].pass_count, 2);
    assert_true(plan_has_values(&plan, 0));
    assert_int_equal(plan.output_bytes, 16);
    assert_int_equal(plan.scratch_bytes, 1280 + 512);
    plan_clear(&plan);
    test_plan(&plan, SOURCE(100, 10, 3), NULL, chain);
    assert_int_equal(plan.output_bytes, 1280 + 16);
    assert_int_equal(plan.variants[0].passes[1].to_place.offset,
                     plan.variants[0].passes[2].from_place.offset);
    plan_clear(&plan);

    static const struct {
        const char *ops;
        bool values;
    } rows[] = {
        {"['histogram']", true}, {"['sobel','stats']", true}, {"['otsu']", true},
        {"[]", false},           {"['sobel']", false},        {"['equalize']", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct op_item *ops = test_ops(rows[i].ops);
        assert_int_equal(op_list_gives_values(ops), rows[i].values);
        op_list_free(ops);
    }
    assert_false(op_list_gives_values(NULL));
}

TEST(test_parameters)
{
    static const struct test_refusal refusals[] = {
        {"[{'op':'histogram','gray':1}]",
         "ops[0] histogram: gray is a number; it must be true or false"},
        {"[{'op':'histogram','bins':16}]", "there is no parameter \"bins\""},
        {"[{'op':'stats','gray':true}]", "there is no parameter \"gray\""},
    };
    check_refused(refusals, COUNT_OF(refusals));
}

ON_BOTH(histogram)
ON_BOTH(many)
ON_BOTH(stats)
ON_BOTH(chains)

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
