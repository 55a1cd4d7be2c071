/* Tests of plan.c, op.c and op_list.c: refusals and their messages, chains, fusion, and buffers. */
#include <malloc.h>

#include "tests/fixtures/gpu/both_engines.h"

#include "gpu/plan/pass.h"

/* ---- refused operations ---- */

struct refusal {
    const char *ops;
    enum status status;
    const char *text; /* a part of the message */
};

static const struct refusal refusals[] = {
    {"[\"Sobel\"]", STATUS_UNKNOWN_OP,
     "ops[0]: no operation is named \"Sobel\"; did you mean \"sobel\"?"},
    {"[\"\"]", STATUS_UNKNOWN_OP, "named \"\""},
    {"[\"grayscale\",{\"op\":\"frobnicate\"}]", STATUS_UNKNOWN_OP,
     "ops[1]: no operation is named \"frobnicate\"; it must be grayscale, sobel, "},
    {"[{\"op\":\"blur\"}]", STATUS_UNKNOWN_OP,
     "ops[0]: no operation is named \"blur\"; did you mean \"gaussian\"?"},
    {"[\"Smart-Crop\"]", STATUS_UNKNOWN_OP,
     "did you mean \"resize\" with \"fit\": \"cover\" and \"gravity\": \"attention\"?"},
    {"[\"thumbnail\"]", STATUS_UNKNOWN_OP, "did you mean \"resize\"?"},
    {"[\"strip\"]", STATUS_UNKNOWN_OP,
     "named \"strip\"; the key metadata of an output selects what it keeps"},
    {"[\"grayscale\",{\"op\":\"sobel\",\"magnitude\":\"l3\"}]", STATUS_BAD_OP,
     "ops[1] sobel: magnitude is \"l3\"; it must be half, l1 or l2"},
    {"[{\"op\":\"sobel\",\"magnitude\":2}]", STATUS_BAD_OP, "magnitude is a number; it must be"},
    {"[{\"op\":\"sobel\",\"border\":\"wrap\"}]", STATUS_BAD_OP,
     "border is \"wrap\"; it must be reflect101, replicate or zero"},
    {"[{\"op\":\"sobel\",\"border\":null}]", STATUS_BAD_OP, "border is null"},
    {"[{\"op\":\"sobel\",\"kernel\":3}]", STATUS_BAD_OP,
     "ops[0] sobel: there is no parameter \"kernel\"; there is magnitude or border"},
    {"[{\"op\":\"sobel\",\"Magnitude\":\"l1\"}]", STATUS_BAD_OP,
     "no parameter \"Magnitude\"; did you mean \"magnitude\"?"},
    {"[{\"op\":\"grayscale\",\"weights\":1}]", STATUS_BAD_OP,
     "weights is a number; it must be an array of 3 integers"},
    {"[{\"op\":\"grayscale\",\"weights\":[1,2]}]", STATUS_BAD_OP, "weights has 2 items"},
    {"[{\"op\":\"grayscale\",\"weights\":[1,2,3,4]}]", STATUS_BAD_OP, "weights has 4 items"},
    {"[{\"op\":\"grayscale\",\"weights\":[1,2,\"3\"]}]", STATUS_BAD_OP,
     "weights[2] is a string; it must be an integer"},
    {"[{\"op\":\"grayscale\",\"weights\":[0.5,0,65535.5]}]", STATUS_BAD_OP,
     "weights[0] is 0.5; it must be an integer of 0 to 65536"},
    {"[{\"op\":\"grayscale\",\"weights\":[-1,1,65536]}]", STATUS_BAD_OP, "weights[0] is -1"},
    {"[{\"op\":\"grayscale\",\"weights\":[0,65537,0]}]", STATUS_BAD_OP, "weights[1] is 65537"},
    {"[{\"op\":\"grayscale\",\"weights\":[0,0,1e300]}]", STATUS_BAD_OP, "weights[2] is 1e+300"},
    {"[{\"op\":\"grayscale\",\"weights\":[1,1,1]}]", STATUS_BAD_OP,
     "weights sum to 3; they must sum to 65536"},
};

TEST(test_refused_operations)
{
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        const struct refusal *refusal = &refusals[i];
        struct error error = {0};
        struct op_item *ops;
        enum status status = test_parse(&ops, refusal->ops, 3, &error);
        if (status != refusal->status || !strstr(error.text, refusal->text))
            fail_msg("%s: %s \"%s\" instead of %s \"%s\"", refusal->ops, status_name(status),
                     error.text, status_name(refusal->status), refusal->text);
        op_list_free(ops);
    }
}

TEST(test_places_in_messages)
{
    struct error one = {0}, many = {0};
    static const char ops[] = "[\"sobel\",{\"op\":\"sobel\",\"x\":1}]";
    struct op_item *before;
    assert_int_equal(test_parse(&before, ops, -1, &one), STATUS_BAD_OP);
    op_list_free(before);
    assert_int_equal(strncmp(one.text, "ops[1] sobel: ", 14), 0);
    assert_int_equal(test_parse(&before, ops, 2, &many), STATUS_BAD_OP);
    op_list_free(before);
    assert_int_equal(strncmp(many.text, "outputs[2].ops[1] sobel: ", 25), 0);
}

TEST(test_accepted_operations)
{
    static const char *const accepted[] = {
        "[]", "[\"grayscale\"]", "[\"sobel\"]", "[{\"op\":\"sobel\"}]",
        "[{\"op\":\"grayscale\",\"weights\":[65536,0,0]},\"sobel\"]",
        "[{\"magnitude\":\"l2\",\"op\":\"sobel\",\"border\":\"zero\"}]"};
    for (size_t i = 0; i < COUNT_OF(accepted); i++) {
        struct op_item *ops = test_ops(accepted[i]);
        assert_true(!ops == (i == 0));
        op_list_free(ops);
    }
    struct error error = {0};
    struct op_item *none;
    assert_int_equal(op_list_parse(&none, NULL, -1, &error), STATUS_OK);
    assert_null(none);
}

/* ---- chains ---- */

struct shape {
    const char *ops;
    uint32_t channels;
    int orientation;
    bool opaque;
    const char *passes; /* names separated by blanks */
    uint32_t result_channels;
};

#define MATRIX "{\"op\":\"color_matrix\",\"matrix\":[[0,1,0,0],[0,0,1,0],[1,0,0,8]]}"

static const struct shape shapes[] = {
    {"[]", 3, 1, false, "", 3},
    {"[]", 4, 1, false, "", 4},
    {"[]", 4, 1, true, "flatten", 3},
    {"[]", 3, 1, true, "", 3},
    {"[]", 4, 6, true, "orient flatten", 3},
    {"[]", 1, 8, false, "orient", 1},
    {"[]", 3, 0, false, "", 3},
    {"[\"grayscale\"]", 1, 1, false, "", 1},
    {"[\"grayscale\"]", 3, 1, false, "grayscale", 1},
    {"[\"grayscale\"]", 4, 1, true, "grayscale", 1},
    {"[\"grayscale\",\"grayscale\"]", 3, 1, false, "grayscale", 1},
    {"[\"sobel\"]", 1, 1, false, "sobel", 1},
    {"[\"sobel\"]", 4, 1, false, "sobel", 1},
    {"[\"grayscale\",\"sobel\"]", 3, 1, false, "sobel", 1},
    {"[\"grayscale\",\"sobel\"]", 3, 3, false, "orient sobel", 1},
    {"[\"grayscale\",\"sobel\",\"grayscale\",\"sobel\"]", 3, 1, false, "sobel sobel", 1},
    {"[\"invert\"]", 3, 1, false, "table", 3},
    {"[\"invert\"]", 4, 1, true, "table flatten", 3},
    {"[\"invert\",\"invert\"]", 3, 1, false, "", 3},
    {"[\"levels\",{\"op\":\"gamma\",\"gamma\":1}]", 4, 1, false, "", 4},
    {"[\"invert\",{\"op\":\"gamma\",\"gamma\":2},\"invert\"]", 4, 1, false, "table", 4},
    {"[\"grayscale\",\"invert\"]", 3, 1, false, "gray+table", 1},
    {"[\"grayscale\",\"invert\",\"invert\"]", 3, 1, false, "grayscale", 1},
    {"[\"invert\",\"grayscale\"]", 3, 1, false, "table+gray", 1},
    {"[\"invert\",\"threshold\",\"invert\"]", 3, 6, false, "orient table+gray+table", 1},
    {"[\"threshold\"]", 1, 1, false, "table", 1},
    {"[\"threshold\"]", 4, 1, true, "gray+table", 1},
    {"[\"threshold\",\"sobel\"]", 3, 1, false, "table+sobel", 1},
    {"[\"grayscale\",\"invert\",\"sobel\"]", 4, 1, false, "table+sobel", 1},
    {"[\"invert\",\"sobel\"]", 1, 1, false, "table+sobel", 1},
    {"[\"invert\",\"sobel\"]", 3, 1, false, "table+gray sobel", 1},
    {"[\"invert\",\"threshold\",\"sobel\"]", 3, 1, false, "table+gray+table sobel", 1},
    {"[\"sobel\",\"invert\",\"sobel\"]", 3, 1, false, "sobel table+sobel", 1},
    {"[\"sobel\",\"invert\"]", 3, 1, false, "sobel table", 1},
    {"[\"invert\",\"gaussian\"]", 3, 1, false, "table+gaussian", 3},
    {"[\"invert\",\"gaussian\"]", 4, 1, true, "table+gaussian flatten", 3},
    {"[\"invert\",{\"op\":\"gaussian\",\"sigma\":0.1}]", 3, 1, false, "table", 3},
    {"[\"invert\",\"unsharp\",\"invert\"]", 1, 6, false, "orient table+unsharp table", 1},
    {"[\"invert\",{\"op\":\"gamma\",\"gamma\":2},\"median\",\"invert\",\"median\"]", 3, 1, false,
     "table+median table+median", 3},
    {"[\"invert\",\"invert\",\"median\"]", 3, 1, false, "median", 3},
    {"[\"invert\",{\"op\":\"convolve\",\"kernel\":[[1,2,1]]}]", 4, 1, false, "table+convolve", 4},
    {"[\"threshold\",\"median\"]", 1, 1, false, "table+median", 1},
    {"[\"threshold\",\"median\"]", 3, 1, false, "gray+table+median", 1},
    {"[" MATRIX ",\"invert\",\"median\"]", 3, 1, false, "matrix+table median", 3},
    {"[\"grayscale\",\"gaussian\"]", 3, 1, false, "gray+gaussian", 1},
    {"[\"grayscale\",\"gaussian\"]", 1, 1, false, "gaussian", 1},
    {"[\"grayscale\",\"gaussian\",\"invert\"]", 4, 1, true, "gray+gaussian table", 1},
    {"[\"grayscale\",{\"op\":\"gaussian\",\"sigma\":0.1}]", 3, 1, false, "grayscale", 1},
    {"[\"grayscale\",\"invert\",\"unsharp\",\"invert\",\"unsharp\"]", 3, 6, false,
     "orient gray+table+unsharp table+unsharp", 1},
    {"[\"grayscale\",\"invert\",\"invert\",\"median\"]", 4, 1, false, "gray+median", 1},
    {"[\"invert\",\"grayscale\",\"median\"]", 3, 1, false, "table+gray median", 1},
    {"[\"invert\",\"threshold\",\"median\"]", 3, 1, false, "table+gray+table median", 1},
    {"[" MATRIX ",\"grayscale\",\"median\"]", 3, 1, false, "matrix gray+median", 1},
    {"[\"grayscale\"," MATRIX ",\"median\"]", 3, 1, false, "grayscale tint median", 3},
    {"[\"grayscale\",\"stats\",\"median\"]", 3, 1, false, "grayscale stats median", 1},
    {"[\"grayscale\",{\"op\":\"convolve\",\"kernel\":[[1,2,1]]}]", 4, 1, false, "gray+convolve",
     1},
    {"[{\"op\":\"crop\",\"x\":1,\"y\":0,\"width\":50,\"height\":30},\"grayscale\",\"median\","
     "{\"op\":\"resize\",\"width\":70,\"height\":40,\"fit\":\"exact\",\"filter\":\"nearest\"}]",
     3, 1, false, "orient gray+median pick", 1},
    {"[\"invert\",\"stats\",\"median\"]", 3, 1, false, "table stats median", 3},
    {"[{\"op\":\"crop\",\"width\":70,\"height\":30},\"invert\",\"median\","
     "{\"op\":\"resize\",\"width\":70,\"height\":40,\"fit\":\"exact\",\"filter\":\"nearest\"}]",
     3, 1, false, "table+median pick", 3},
    {"[\"invert\",\"canny\"]", 1, 1, false, "table+canny", 1},
    {"[\"invert\",\"canny\"]", 3, 1, false, "table+gray canny", 1},
    {"[\"grayscale\",\"invert\",\"canny\"]", 3, 1, false, "table+canny", 1},
    {"[\"canny\"]", 4, 1, true, "canny", 1},
    {"[\"grayscale\",\"canny\"]", 3, 1, false, "canny", 1},
    {"[\"grayscale\",\"invert\",\"grayscale\",\"canny\"]", 4, 6, false, "orient table+canny", 1},
    {"[\"canny\",\"invert\",\"canny\"]", 1, 1, false, "canny table+canny", 1},
    {"[" MATRIX "]", 3, 1, false, "matrix", 3},
    {"[" MATRIX "]", 4, 1, true, "matrix flatten", 3},
    {"[" MATRIX "]", 1, 1, false, "tint", 3},
    {"[\"invert\"," MATRIX ",\"invert\"]", 4, 1, false, "table+matrix+table", 4},
    {"[\"invert\"," MATRIX "," MATRIX ",\"invert\"]", 3, 1, false,
     "table+matrix matrix+table", 3},
    {"[" MATRIX ",\"grayscale\",\"invert\"]", 3, 1, false, "matrix gray+table", 1},
    {"[\"grayscale\",\"invert\"," MATRIX ",\"invert\"]", 3, 1, false, "gray+table tint", 3},
    {"[\"invert\"," MATRIX ",\"invert\"]", 1, 1, false, "tint", 3},
    {"[\"invert\"," MATRIX ",\"threshold\"]", 1, 1, false, "tint gray+table", 1},
};

TEST(test_chains_and_fusion)
{
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        const struct shape *shape = &shapes[i];
        struct plan plan;
        test_plan(&plan, SOURCE(70, 40, shape->channels, .orientation = shape->orientation),
                  &(struct plan_target){.opaque = shape->opaque}, shape->ops);
        const struct plan_variant *variant = &plan.variants[0];
        const char *names = pass_names(&plan, ' ');
        if (strcmp(names, shape->passes) != 0)
            fail_msg("%s of %u channels: \"%s\" instead of \"%s\"", shape->ops, shape->channels,
                     names, shape->passes);
        bool turned = shape->orientation >= 5;
        assert_int_equal(variant->width, turned ? 40 : 70);
        assert_int_equal(variant->height, turned ? 70 : 40);
        assert_int_equal(variant->channels, shape->result_channels);
        assert_int_equal(variant->is_source, *shape->passes == '\0');
        assert_int_equal(plan.idle, *shape->passes == '\0');
        plan_clear(&plan);
        plan_clear(&plan);
    }
}

/* For 100 x 10 pixels: rows take 320 bytes, or 128 in gray. */
TEST(test_bytes)
{
    static const struct {
        const char *ops;
        uint32_t passes;
        size_t output, scratch;
        size_t first_work; /* of the first pass */
    } rows[] = {
        {"['grayscale']", 1, 1280, 0, 0},
        /* two images between the passes, and three rows of gray */
        {"['sobel','sobel','sobel']", 3, 1280, 1280 + 1280 + 512, 3 * 128},
        /* any number of point operations: one pass, no buffer between */
        {"['invert',{'op':'gamma','gamma':2}," MATRIX ",'levels',{'op':'gamma','gamma':3}]", 1,
         3200, 0, 0},
        /* The table before a neighbourhood is applied into extra rows: five for a gaussian of 5,
         * one of zeros, and the gaussian's sums. A median applies it in its own rows. */
        {"['invert','gaussian']", 1, 3200, 2560, 6 * 320 + (100 + 4) * 3 * 2},
        {"['invert','median']", 1, 3200, 2304, (4 + 3) * 320},
        {"['median']", 1, 3200, 2304, (4 + 3) * 320},
        /* gray between the passes, not colour */
        {"['invert','sobel']", 2, 1280, 1280, 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct plan plan;
        test_plan(&plan, SOURCE(100, 10, 3), NULL, rows[i].ops);
        const struct plan_variant *variant = &plan.variants[0];
        if (variant->pass_count != rows[i].passes || plan.output_bytes != rows[i].output ||
            plan.scratch_bytes != rows[i].scratch ||
            variant->passes[0].work_bytes != rows[i].first_work)
            fail_msg("%s: %u passes, %zu + %zu bytes, work %zu", rows[i].ops, variant->pass_count,
                     plan.output_bytes, plan.scratch_bytes, variant->passes[0].work_bytes);
        assert_int_equal(plan.input_bytes, 3200);
        assert_int_equal(plan.device_bytes, 3328 + (rows[i].output == 1280 ? 1280 : 3328) +
                         rows[i].scratch);
        plan_clear(&plan);
    }
}

/* If a pass makes gray on the way, its source has three channels and all other rows have one. */
TEST(test_bytes_of_gray)
{
    static const struct {
        const char *ops;
        size_t work_bytes;
    } grays[] = {
        {"['grayscale','gaussian']", 6 * 128 + (100 + 4) * 2},
        {"['grayscale','invert','gaussian']", 6 * 128 + (100 + 4) * 2},
        {"['grayscale',{'op':'median','size':5}]", (6 + 5) * 128},
        {"['grayscale',{'op':'convolve','kernel':[[1],[2],[1]]}]", 4 * 128},
        {"['canny']", 4 * 128 + 3 * 224 + 50 * 5 * 4},
    };
    for (size_t i = 0; i < COUNT_OF(grays); i++) {
        struct plan plan;
        test_plan(&plan, SOURCE(100, 10, 3), NULL, grays[i].ops);
        assert_int_equal(plan.variants[0].pass_count, 1);
        assert_int_equal(plan.variants[0].passes[0].from.channels, 3);
        assert_int_equal(plan.variants[0].passes[0].to.channels, 1);
        assert_int_equal(plan.variants[0].passes[0].work_bytes, grays[i].work_bytes);
        assert_int_equal(plan.output_bytes, 128 * 10);
        assert_int_equal(plan.scratch_bytes, (grays[i].work_bytes + 255) / 256 * 256);
        plan_clear(&plan);
    }
}

TEST(test_limits_of_results)
{
    static const struct {
        struct plan_limits limits;
        enum status status;
        const char *text;
    } rows[] = {
        {{.pixels_max = 5000, .side_max = 100}, STATUS_OK, ""},
        {{.pixels_max = 4999, .side_max = 100}, STATUS_IMAGE_TOO_LARGE, ""},
        {{.pixels_max = 5000, .side_max = 99}, STATUS_IMAGE_TOO_LARGE, "99"},
    };
    struct plan_target target = {.ops = test_ops("['sobel']")};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct plan plan;
        struct error error = {0};
        assert_int_equal(plan_build(&plan, SOURCE(100, 50, 3, .orientation = 6), &target, 1,
                                    &rows[i].limits, &error), rows[i].status);
        assert_non_null(strstr(error.text, rows[i].text));
        plan_clear(&plan);
    }
    op_list_free(target.ops);
}

/* What one variant takes of a YCbCr source, and what serves it together with a variant that takes
 * gray and one that takes colours. */
TEST(test_decode_as)
{
    static const struct {
        const char *ops;
        bool luma;
    } rows[] = {
        {"[\"grayscale\"]", true},
        {"[\"sobel\"]", true},
        {"[{\"op\":\"grayscale\",\"weights\":[19595,38470,7471]}]", true},
        {"[{\"op\":\"grayscale\",\"weights\":[65536,0,0]}]", false},
        {"[\"transpose\",\"rotate\",\"flip\",\"sobel\"]", true},
        {"[{\"op\":\"crop\",\"width\":3,\"height\":3},\"otsu\"]", true},
        {"[\"flip\",\"invert\",\"sobel\"]", false},
        {"[\"stats\",\"grayscale\"]", false},
        {"[{\"op\":\"histogram\",\"gray\":true}]", false},
        {"[{\"op\":\"resize\",\"width\":3},\"grayscale\"]", false},
        {"[\"rotate\"]", false},
        {"[]", false},
        {NULL, false},
    };
    struct op_item *gray = test_ops("[\"grayscale\"]");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct op_item *ops = rows[i].ops ? test_ops(rows[i].ops) : NULL;
        struct plan_target beside[3] = {{.ops = ops}, {.ops = gray}, {.ops = NULL}};
        struct plan_target swapped[2] = {beside[2], beside[0]};
        enum decode_as alone = rows[i].luma ? DECODE_LUMA : DECODE_COLOUR;
        if (plan_decode_as(beside, 1) != alone)
            fail_msg("%s is taken for the other kind", rows[i].ops);
        assert_int_equal(plan_decode_as(beside, 2), rows[i].luma ? DECODE_LUMA : DECODE_YCC);
        assert_int_equal(plan_decode_as(swapped, 2), rows[i].luma ? DECODE_YCC : DECODE_COLOUR);
        assert_int_equal(plan_decode_as(beside, 3), DECODE_YCC);
        op_list_free(ops);
    }
    assert_int_equal(plan_decode_as(NULL, 0), DECODE_COLOUR);
    /* A gray output makes gray at the end. */
    struct op_item *moves = test_ops("[\"flip\",\"rotate\"]"), *invert = test_ops("[\"invert\"]");
    assert_int_equal(plan_decode_as(&(struct plan_target){.gray = true}, 1), DECODE_LUMA);
    assert_int_equal(plan_decode_as(&(struct plan_target){.ops = moves, .gray = true}, 1),
                     DECODE_LUMA);
    assert_int_equal(plan_decode_as(&(struct plan_target){.ops = invert, .gray = true}, 1),
                     DECODE_COLOUR);
    op_list_free(moves);
    op_list_free(invert);
    op_list_free(gray);
}

/* ---- several results of one image ---- */

#define VARIANTS 5

static void all_variants(struct engine *engine)
{
    static const char *const ops[VARIANTS] = {
        "['sobel','sobel']", "[]", "['grayscale']", "[{'op':'sobel','magnitude':'l2'}]", "[]"};
    struct plan plan;
    struct error error = {0};
    struct engine_memory memory;
    struct plan_source source = {.width = 123, .height = 45, .channels = 4};
    struct plan_target targets[VARIANTS];
    memcpy(source.background, test_background, sizeof(test_background));
    for (size_t v = 0; v < VARIANTS; v++)
        targets[v] = (struct plan_target){.ops = test_ops(ops[v]), .opaque = v == 4};
    assert_int_equal(plan_build(&plan, &source, targets, VARIANTS, &test_limits, &error),
                     STATUS_OK);
    assert_true(plan.variants[1].is_source);
    test_reserve(engine, &plan, &memory);
    test_fill(plan_input(&plan, memory.input), 9);
    test_carry_out(engine, &plan, &memory, "together");
    for (size_t v = 0; v < VARIANTS; v++) {
        struct gpu_run alone;
        gpu_run_open(&alone, engine, &source, &targets[v], ops[v]);
        test_fill(alone.input, 9);
        gpu_run_finish(&alone);
        struct image together = plan_result(&plan, v, memory.input, memory.output);
        test_same(together, alone.result, alone.what);
        if (!plan.variants[v].is_source) {
            assert_int_equal(plan.variants[v].offset % BUFFER_ALIGN, 0);
            assert_true(plan.variants[v].offset + together.stride * together.height <=
                        plan.output_bytes);
        }
        gpu_run_close(&alone);
        op_list_free(targets[v].ops);
    }
    engine_release(engine, &memory);
    plan_clear(&plan);
}

ON_BOTH(variants)

/* The resizes at the start of several outputs have results of their own, which together are at most
 * as large as the source. */
TEST(test_joint_passes)
{
    static const struct {
        const char *ops[4];
        uint32_t joint[4];
    } rows[] = {
        {{"[{'op':'resize','width':40}]", "[{'op':'resize','width':8},'invert']",
          "[{'op':'resize','width':20},{'op':'resize','width':5}]", "['invert']"},
         {2, 2, 4, 0}},
        {{"[{'op':'resize','width':900},'invert']", "[{'op':'resize','width':800},'invert']",
          "[{'op':'resize','width':10}]", "['sobel']"},
         {0, 0, 0, 0}},
        {{"[{'op':'resize','width':500}]", "[{'op':'resize','width':900}]",
          "[{'op':'resize','width':10}]", "['invert',{'op':'resize','width':9}]"},
         {2, 0, 2, 0}},
        {{"['sobel']", "[{'op':'resize','width':9}]", "['invert']", "['sobel']"}, {0, 0, 0, 0}},
    };
    struct plan_source source = {.width = 960, .height = 640, .channels = 3, .orientation = 1};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct plan_target targets[4];
        struct error error = {0};
        struct plan plan;
        for (size_t v = 0; v < 4; v++)
            targets[v] = (struct plan_target){.ops = test_ops(rows[i].ops[v])};
        assert_int_equal(plan_build(&plan, &source, targets, 4, &test_limits, &error), STATUS_OK);
        for (size_t v = 0; v < 4; v++) {
            if (plan.variants[v].joint != rows[i].joint[v])
                fail_msg("row %zu: %u joint passes of output %zu", i, plan.variants[v].joint, v);
            op_list_free(targets[v].ops);
        }
        plan_clear(&plan);
    }
}

/* If a job has several outputs, the errors name the output. A target with its own error does not
 * prevent the plan of the others. */
TEST(test_a_bad_variant)
{
    struct plan plan;
    struct error error = {0};
    struct plan_source source = {.width = 9, .height = 9, .channels = 3, .orientation = 1};
    struct op_item *bad;
    assert_int_equal(test_parse(&bad,
                                "[{'op':'resize','width':4},"
                                "{'op':'crop','width':5,'height':1}]",
                                4, &error),
                     STATUS_OK);
    struct plan_target targets[2] = {{.ops = test_ops("[\"sobel\"]"), .number = 3},
                                     {.ops = bad, .number = 5}};
    assert_int_equal(plan_build(&plan, &source, targets, 2, &test_limits, &error), STATUS_BAD_OP);
    assert_int_equal(strncmp(error.text, "outputs[4].ops[1] crop", 22), 0);
    plan_clear(&plan);

    struct error none = {0}, own = {0};
    struct plan_target three[3] = {targets[1], targets[0], {.ops = NULL, .opaque = true}};
    three[0].error = &own;
    assert_int_equal(plan_build(&plan, &source, three, 3, &test_limits, &none), STATUS_OK);
    assert_int_equal(own.status, STATUS_BAD_OP);
    assert_string_equal(own.text, error.text);
    assert_int_equal(none.status, STATUS_OK);
    assert_int_equal(plan.variants[0].pass_count, 0);
    assert_int_equal(plan.variants[1].pass_count, 1);
    assert_int_equal(plan.variants[1].offset, 0);
    assert_int_equal(plan.output_bytes, 32 * 9);
    assert_true(plan.variants[2].is_source);
    assert_int_equal(plan.input_bytes, 32 * 9); /* without the tables of the resize */
    plan_clear(&plan);

    /* If all targets fail, the plan is idle. */
    struct plan_limits small = {.pixels_max = 80, .side_max = 100};
    three[0] = (struct plan_target){.ops = NULL, .error = &own};
    own = (struct error){0};
    assert_int_equal(plan_build(&plan, &source, three, 1, &small, &none), STATUS_OK);
    assert_int_equal(own.status, STATUS_IMAGE_TOO_LARGE);
    assert_true(plan.idle);
    plan_clear(&plan);
    op_list_free(targets[0].ops);
    op_list_free(targets[1].ops);
}

/* The plan counts its tables. They are computed at their final place, which need not be zeroed. */
TEST(test_constants)
{
    struct plan plan;
    struct error error = {0};
    struct plan_target target = {.ops = test_ops(
        "[{\"op\":\"resize\",\"width\":50,\"height\":10,\"fit\":\"exact\"},\"phash\","
        "{\"op\":\"resize\",\"width\":9,\"filter\":\"nearest\"}]")};
    struct mallinfo2 before = mallinfo2();
    assert_int_equal(plan_build(&plan, SOURCE(100, 40, 3), &target, 1, &test_limits, &error),
                     STATUS_OK);
    assert_true(plan.constants_bytes > 4096);
    assert_true(mallinfo2().uordblks - before.uordblks <= plan_bytes(&plan) + 64);
    assert_int_equal(plan.input_bytes, plan.constants_at + plan.constants_bytes);
    uint8_t *a = malloc(plan.input_bytes), *b = malloc(plan.input_bytes);
    memset(a, 0, plan.input_bytes);
    memset(b, 0xEE, plan.input_bytes);
    plan_put_constants(&plan, a);
    plan_put_constants(&plan, b);
    assert_memory_equal(a + plan.constants_at, b + plan.constants_at, plan.constants_bytes);
    for (size_t i = 0; i < plan.constants_at; i++)
        assert_int_equal(b[i], 0xEE);
    size_t written = 0;
    for (size_t i = 0; i < plan.constants_bytes; i++)
        written += a[plan.constants_at + i] != 0;
    assert_true(written > plan.constants_bytes / 4);
    free(a);
    free(b);
    plan_clear(&plan);
    op_list_free(target.ops);
}

/* Takes images of at most 20 pixels per row. */
static bool measure_narrow(struct plan_encoder *encoder, uint32_t width, uint32_t height,
                           uint32_t channels)
{
    encoder->capacity = (size_t)width * height * channels;
    return width <= 20;
}

/* If the device cannot encode an image, the plan is the one without an encoder. */
TEST(test_an_image_that_a_device_cannot_encode)
{
    const struct plan_target target = {.encoder = {.codec = DEVICE_CODEC_PNG, .header_bytes = 40},
                                       .measure_encoder = measure_narrow};
    for (uint32_t width = 20; width <= 21; width++) {
        struct plan plan;
        struct error error = {0};
        bool encoded = width == 20;
        assert_int_equal(plan_build(&plan, SOURCE(width, 9, 3), &target, 1, &test_limits, &error),
                         STATUS_OK);
        assert_int_equal(plan_is_encoded(&plan.variants[0]), encoded);
        assert_int_equal(plan.variants[0].pass_count, encoded); /* the copy to the device */
        assert_int_equal(plan.variants[0].is_source, !encoded);
        assert_int_equal(plan.variants[0].encoder.capacity, encoded ? 20 * 9 * 3 : 0);
        assert_int_equal(plan.idle, !encoded);
        assert_int_equal(plan.written_bytes > 0, encoded);
        plan_clear(&plan);
    }
}

/* ---- the needed part of the source ---- */

#define RESIZE(w, h)     "{'op':'resize','width':" #w ",'height':" #h ",'fit':'exact'}"
#define CROP(x, y, w, h) "{'op':'crop','x':" #x ",'y':" #y ",'width':" #w ",'height':" #h "}"

/* Of a source of 400 x 300 that a device decodes. The filter lanczos3 weights the pixels whose
 * centres are less than 3 times the reduction away: with 4/3, less than 4 pixels. */
static const struct {
    const char *ops[2]; /* of each output */
    struct image_part needed;
} needed_parts[] = {
    {{"[]"}, {0, 0, 400, 300}},
    {{"['sobel']"}, {0, 0, 400, 300}},
    {{"[" CROP(10, 20, 50, 40) "]"}, {10, 20, 50, 40}},
    {{"[" CROP(10, 20, 50, 40) ",'sobel'," CROP(0, 0, 1, 1) "]"}, {10, 20, 50, 40}},
    /* Column 100 is at 134, and column 199 at 266; row 67 is at 90, and row 156 at 208 2/3. */
    {{"[" RESIZE(300, 225) "," CROP(100, 67, 100, 90) "]"}, {130, 86, 140, 127}},
    {{"[" RESIZE(300, 225) "," CROP(0, 0, 1, 1) "]"}, {0, 0, 5, 5}},
    {{"[" RESIZE(300, 225) "," CROP(299, 224, 1, 1) "]"}, {395, 295, 5, 5}},
    {{"[" RESIZE(300, 225) "," CROP(100, 67, 100, 90) ",{'op':'flip','axis':'vertical'}]"},
     {130, 86, 140, 127}},
    {{"[" CROP(64, 40, 300, 225) "," RESIZE(225, 169) "," CROP(0, 0, 1, 1) "]"}, {64, 40, 5, 5}},
    /* The resize cannot read rows at any address, so the first crop is copied. */
    {{"[" CROP(50, 40, 300, 225) "," RESIZE(225, 169) "," CROP(0, 0, 1, 1) "]"},
     {50, 40, 300, 225}},
    {{"[{'op':'resize','width':100,'height':100,'fit':'cover'}]"}, {50, 0, 300, 300}},
    {{"[{'op':'resize','width':100,'height':100,'fit':'cover','gravity':'attention'}]"},
     {0, 0, 400, 300}},
    /* Only the columns are resized. */
    {{"[" RESIZE(400, 150) "," CROP(0, 0, 100, 50) "]"}, {0, 0, 400, 300}},
    {{"['stats'," RESIZE(300, 225) "," CROP(0, 0, 1, 1) "]"}, {0, 0, 400, 300}},
    {{"['phash'," CROP(0, 0, 1, 1) "]"}, {0, 0, 400, 300}},
    {{"[" CROP(10, 20, 50, 40) ",'phash','histogram']"}, {10, 20, 50, 40}},
    {{"[" CROP(0, 10, 10, 10) "]", "[" CROP(100, 0, 20, 15) "]"}, {0, 0, 120, 20}},
    {{"[" CROP(0, 10, 10, 10) "]", "['sobel']"}, {0, 0, 400, 300}},
    {{"[" RESIZE(300, 225) "," CROP(0, 0, 1, 1) "]", "[" CROP(0, 0, 1, 1) "]"}, {0, 0, 400, 300}},
};

static void check_needed(struct plan_source source, const char *const ops[2],
                         struct image_part needed)
{
    struct plan plan;
    struct error error = {0};
    struct plan_target targets[2] = {{.ops = test_ops(ops[0])}, {.ops = NULL}};
    source.width = 400;
    source.height = 300;
    source.channels = 3;
    source.file = (struct plan_file){DEVICE_CODEC_JPEG, 999, 300, 100, 0};
    targets[1].ops = ops[1] ? test_ops(ops[1]) : NULL;
    assert_int_equal(plan_build(&plan, &source, targets, ops[1] ? 2 : 1, &test_limits, &error),
                     STATUS_OK);
    struct image_part got = plan.needed;
    if (memcmp(&got, &needed, sizeof(got)) != 0)
        fail_msg("%s: %u x %u at %u, %u instead of %u x %u at %u, %u", ops[0], got.width,
                 got.height, got.x, got.y, needed.width, needed.height, needed.x, needed.y);
    plan_clear(&plan);
    for (size_t v = 0; v < 2; v++)
        op_list_free((struct op_item *)targets[v].ops);
}

TEST(test_the_needed_part)
{
    static const char *const none[2] = {"[]"};
    static const char *const crop[2] = {"[" CROP(5, 6, 7, 8) "]"};
    static const char *const resize[2] = {"[" RESIZE(50, 50) "," CROP(0, 0, 20, 20) "]"};
    const struct plan_source trimmed = {.part = {40, 30, 200, 100}};
    for (size_t i = 0; i < COUNT_OF(needed_parts); i++)
        check_needed((struct plan_source){0}, needed_parts[i].ops, needed_parts[i].needed);
    check_needed(trimmed, none, (struct image_part){40, 30, 200, 100});
    check_needed(trimmed, crop, (struct image_part){45, 36, 7, 8});
    check_needed((struct plan_source){.orientation = 6}, resize,
                 (struct image_part){0, 0, 400, 300});
    /* Decoded at half of its size, 200 x 150: 4 columns become one, and 3 rows. */
    check_needed((struct plan_source){.eighths = 4}, resize, (struct image_part){0, 0, 90, 68});
}

/* A device encodes the source itself, and a crop. */
TEST(test_the_needed_part_of_a_source_that_is_encoded)
{
    struct plan plan;
    struct error error = {0};
    struct plan_target targets[2] = {{.ops = test_ops("[" CROP(0, 0, 7, 8) "]")}, {.ops = NULL}};
    struct plan_source source = {.width = 20, .height = 90, .channels = 3};
    source.file = (struct plan_file){DEVICE_CODEC_JPEG, 999, 300, 100, 0};
    targets[1].encoder = (struct plan_encoder){.codec = DEVICE_CODEC_PNG, .header_bytes = 40};
    targets[1].measure_encoder = measure_narrow;
    assert_int_equal(plan_build(&plan, &source, targets, 2, &test_limits, &error), STATUS_OK);
    assert_int_equal(plan.variants[1].pass_count, 0);
    assert_int_equal(plan.needed.width, 20);
    assert_int_equal(plan.needed.height, 90);
    plan_clear(&plan);
    op_list_free((struct op_item *)targets[0].ops);
}

/* The decoder's memory is used again for everything but the decoded image. */
TEST(test_the_memory_of_a_decoder)
{
    static const size_t decoders[] = {300, 1 << 20};
    for (size_t i = 0; i < COUNT_OF(decoders); i++) {
        struct plan plan;
        struct error error = {0};
        struct plan_target target = {
            .ops = test_ops("[{'op':'gaussian','sigma':2},'grayscale','sobel']"),
            .encoder = {.codec = DEVICE_CODEC_PNG, .header_bytes = 40, .work_bytes = 5000},
            .measure_encoder = measure_narrow};
        struct plan_source source = {.width = 20,
                                     .height = 90,
                                     .channels = 3,
                                     .orientation = 1,
                                     .eighths = 8,
                                     .file = {DEVICE_CODEC_JPEG, 999, decoders[i], 100}};
        assert_int_equal(plan_build(&plan, &source, &target, 1, &test_limits, &error), STATUS_OK);
        size_t image = buffer_align(image_bytes(20, 90, 3)), gray = image_bytes(20, 90, 1);
        const struct plan_encoder *encoder = &plan.variants[0].encoder;
        assert_int_equal(plan.source_at, 0);
        assert_int_equal(plan.decoder_at, image);
        assert_true(encoder->image_at >= image && encoder->work_at >= encoder->image_at + gray);
        if (i == 0)
            assert_int_equal(plan.scratch_bytes, encoder->work_at + buffer_align(5000));
        else
            assert_int_equal(plan.scratch_bytes, image + (1 << 20));
        plan_clear(&plan);
        op_list_free(target.ops);
    }
}

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
