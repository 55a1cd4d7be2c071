/* Tests of otsu and equalize on both engines, against OpenCV's definitions. */
#include "tests/fixtures/gpu/values_run.h"

#include <float.h>
#include <math.h>

/* ---- references, after OpenCV's getThreshVal_Otsu_8u and equalizeHist ---- */

static int reference_otsu(const unsigned counts[256], unsigned pixels)
{
    double mu = 0, scale = 1. / pixels, mu1 = 0, q1 = 0, max_sigma = 0;
    int best = 0;
    for (int i = 0; i < 256; i++)
        mu += i * (double)counts[i];
    mu *= scale;
    for (int i = 0; i < 256; i++) {
        double p = counts[i] * scale;
        mu1 *= q1;
        q1 += p;
        double q2 = 1. - q1;
        if (fmin(q1, q2) < FLT_EPSILON || fmax(q1, q2) > 1. - FLT_EPSILON)
            continue;
        mu1 = (mu1 + i * p) / q1;
        double mu2 = (mu - q1 * mu1) / q2;
        double sigma = q1 * q2 * (mu1 - mu2) * (mu1 - mu2);
        if (sigma > max_sigma) {
            max_sigma = sigma;
            best = i;
        }
    }
    return best;
}

static void reference_equalize(const unsigned counts[256], unsigned pixels, unsigned table[256])
{
    int i = 0, sum = 0;
    while (!counts[i])
        i++;
    table[i] = counts[i] == pixels ? (unsigned)i : 0;
    if (counts[i] == pixels)
        return;
    float scale = 255.f / (float)(int)(pixels - counts[i]);
    for (i++; i < 256; i++) {
        sum += (int)counts[i];
        long value = lrintf((float)sum * scale);
        table[i] = value > 255 ? 255 : (unsigned)value;
    }
}

/* ---- running them ---- */

static void compare_table(const struct gpu_run *run, const unsigned table[256])
{
    const struct image *got = &run->result;
    assert_int_equal(got->channels, 1);
    for (uint32_t y = 0; y < got->height; y++)
        for (uint32_t x = 0; x < got->width; x++)
            if (got->pixels[y * got->stride + x] != table[values_at(&run->input, x, y, -1)])
                fail_msg("%s: %u,%u: %u instead of %u", run->what, x, y,
                         got->pixels[y * got->stride + x],
                         table[values_at(&run->input, x, y, -1)]);
}

static void check_otsu(struct engine *engine, const struct values_case *c)
{
    struct values_run run;
    unsigned counts[256], table[256];
    values_begin(&run, engine, c);
    values_count(&run.run.input, -1, counts);
    int threshold = reference_otsu(counts, c->width * c->height);
    const cJSON *value = cJSON_GetObjectItem(run.values, "otsu");
    if (!cJSON_IsNumber(value) || value->valueint != threshold)
        fail_msg("%s: threshold %d instead of %d", run.run.what, value ? value->valueint : -1,
                 threshold);
    for (int i = 0; i < 256; i++)
        table[i] = i > threshold ? 255 : 0;
    if (!c->no_picture)
        compare_table(&run.run, table);
    values_end(&run);
}

static void check_equalize(struct engine *engine, const struct values_case *c)
{
    struct values_run run;
    unsigned counts[256], table[256];
    struct values_case with_picture = *c;
    with_picture.no_picture = false;
    values_begin(&run, engine, &with_picture);
    assert_int_equal(cJSON_GetArraySize(run.values), 0);
    values_count(&run.run.input, -1, counts);
    reference_equalize(counts, c->width * c->height, table);
    compare_table(&run.run, table);
    values_end(&run);
}

static void all_otsu(struct engine *engine)
{
    values_for_all(engine, "[\"otsu\"]", check_otsu);
    values_for_all(engine, "[\"grayscale\",\"otsu\"]", check_otsu);
}

static void all_equalize(struct engine *engine)
{
    values_for_all(engine, "[\"equalize\"]", check_equalize);
    values_for_all(engine, "[\"grayscale\",\"equalize\"]", check_equalize);
}

/* The sum of all values needs more than 32 bits. */
static void all_large(struct engine *engine)
{
#ifndef __SANITIZE_ADDRESS__
    struct values_case c = {.width = 16384, .height = 2200, .channels = 1, .fill = FILL_NOISE,
                            .ops = "[\"otsu\"]"};
    if (!test_quick())
        check_otsu(engine, &c);
#endif
}

TEST(test_parameters)
{
    static const struct test_refusal refusals[] = {
        {"[{'op':'otsu','threshold':1}]", "it has none"},
        {"[{'op':'equalize','gray':true}]", "it has none"},
    };
    check_refused(refusals, COUNT_OF(refusals));
}

/* Each is one pass, with any operation before it, and can use a JPEG's Y channel. */
TEST(test_fusion)
{
    static const char *const chains[] = {"['otsu']", "['grayscale','otsu']",
                                         "['grayscale','equalize']"};
    for (int i = 0; i < 3; i++) {
        struct plan plan;
        struct plan_target target = {.ops = test_ops(chains[i])};
        test_plan(&plan, SOURCE(9, 9, 3), NULL, chains[i]);
        assert_int_equal(plan.variants[0].pass_count, 1);
        assert_int_equal(plan.variants[0].channels, 1);
        assert_int_equal(plan_decode_as(&target, 1), DECODE_LUMA);
        plan_clear(&plan);
        op_list_free(target.ops);
    }
}

ON_BOTH(otsu)
ON_BOTH(equalize)
ON_BOTH(large)

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
