/*
 * Conversion of Y, Cb and Cr to RGB and to Y alone: all 2^24 colours against libjpeg's tables, and
 * the passes that chains get.
 */
#include "tests/fixtures/gpu/both_engines.h"

#include "gpu/plan/pass.h"
#include "tests/fixtures/reference.h"

#define SIDE 4096 /* SIDE * SIDE = 2^24 */
#define SIDE_QUICK 512

/* ---- every colour ---- */

/* Pixel `i` of the image. The quick test takes every 64th colour, at varying offsets. */
static void colour_at(uint32_t i, uint32_t side, uint8_t ycc[3])
{
    uint32_t colour = side == SIDE ? i : i * 64 + i % 64;
    ycc[0] = (uint8_t)(colour >> 16);
    ycc[1] = (uint8_t)(colour >> 8);
    ycc[2] = (uint8_t)colour;
}

static void fill_colours(struct image image)
{
    for (uint32_t y = 0; y < image.height; y++)
        for (uint32_t x = 0; x < image.width; x++)
            colour_at(y * image.width + x, image.width, image.pixels + y * image.stride + 3 * x);
}

static void check_colours(struct image rgb, struct image luma)
{
    for (uint32_t y = 0; y < rgb.height; y++)
        for (uint32_t x = 0; x < rgb.width; x++) {
            const uint8_t *got = rgb.pixels + y * rgb.stride + 3 * x;
            uint8_t ycc[3], wanted[3];
            colour_at(y * rgb.width + x, rgb.width, ycc);
            reference_ycc_pixel(ycc, wanted);
            if (memcmp(got, wanted, 3) != 0)
                fail_msg("Y, Cb, Cr %u, %u, %u is %u, %u, %u instead of %u, %u, %u", ycc[0],
                         ycc[1], ycc[2], got[0], got[1], got[2], wanted[0], wanted[1], wanted[2]);
            if (luma.pixels[y * luma.stride + x] != ycc[0])
                fail_msg("Y %u is %u", ycc[0], luma.pixels[y * luma.stride + x]);
        }
}

static void all_colours(struct engine *engine)
{
    uint32_t side = test_quick() ? SIDE_QUICK : SIDE;
    struct plan_target targets[2] = {{.ops = NULL}, {.ops = test_ops("['grayscale']")}};
    struct plan plan;
    struct error error = {0};
    struct engine_memory memory;
    assert_int_equal(plan_build(&plan, SOURCE(side, side, 3, .ycc = true), targets, 2,
                                &test_limits, &error), STATUS_OK);
    test_reserve(engine, &plan, &memory);
    fill_colours(plan_input(&plan, memory.input));
    test_carry_out(engine, &plan, &memory, "colours and gray of YCbCr");
    check_colours(plan_result(&plan, 0, memory.input, memory.output),
                  plan_result(&plan, 1, memory.input, memory.output));
    engine_release(engine, &memory);
    plan_clear(&plan);
    op_list_free(targets[1].ops);
}

ON_BOTH(colours)

/* ---- plans ---- */

#define WEIGHTS "{\"op\":\"grayscale\",\"weights\":[65536,0,0]}"
#define CROP(x) "{\"op\":\"crop\",\"x\":" #x ",\"y\":0,\"width\":20,\"height\":10}"
#define MATRIX "{\"op\":\"color_matrix\",\"matrix\":[[0,1,0,0],[0,0,1,0],[1,0,0,8]]}"

static const struct {
    const char *ops;
    int orientation;
    const char *passes; /* names separated by commas */
    uint32_t channels;
    size_t scratch;
} shapes[] = {
    /* 70 x 40: rows of 224 bytes in colour and 96 in gray; turned, 128 and 64. */
    {"[]", 1, "ycc to rgb", 3, 0},
    {"[]", 6, "orient,ycc to rgb", 3, 70 * 128},
    {"[\"flip\",\"flip\"]", 1, "ycc to rgb", 3, 0},
    {"[\"invert\"]", 1, "ycc to rgb+table", 3, 0},
    {"[\"invert\",\"invert\"]", 1, "ycc to rgb", 3, 0},
    {"[" MATRIX "]", 1, "ycc to rgb,matrix", 3, 40 * 224},
    {"[" WEIGHTS "]", 1, "ycc to rgb,grayscale", 1, 40 * 224},
    {"[\"invert\",\"grayscale\"]", 1, "ycc to rgb+table,grayscale", 1, 40 * 224},
    {"[\"stats\",\"grayscale\"]", 1, "ycc to rgb,stats,grayscale", 1, 40 * 224},
    {"[" MATRIX ",\"rotate\"]", 1, "ycc to rgb,matrix,orient", 3, 2 * 40 * 224},
    {"[" CROP(32) "]", 1, "ycc to rgb", 3, 0},
    {"[" CROP(1) "]", 1, "orient,ycc to rgb", 3, 10 * 64 + 128},
    {"[\"grayscale\"]", 1, "grayscale", 1, 0},
    {"[\"sobel\"]", 1, "sobel", 1, 3 * 96 + 224},
    {"[\"rotate\",\"sobel\"]", 1, "orient,sobel", 1, 70 * 128 + 3 * 64 + 64},
    {"[\"sobel\"]", 8, "orient,sobel", 1, 70 * 128 + 3 * 64 + 64},
    {"[" CROP(32) ",\"threshold\"]", 1, "gray+table", 1, 0},
    {"[\"threshold\",\"invert\"]", 1, "gray+table", 1, 0},
    {"[\"grayscale\"," WEIGHTS "]", 1, "grayscale", 1, 0},
    {"[\"grayscale\"," MATRIX "]", 1, "grayscale,tint", 3, 40 * 96},
};

TEST(test_passes)
{
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        struct plan plan;
        test_plan(&plan, SOURCE(70, 40, 3, .ycc = true, .orientation = shapes[i].orientation),
                  NULL, shapes[i].ops);
        if (strcmp(pass_names(&plan, ','), shapes[i].passes) != 0)
            fail_msg("%s: \"%s\" instead of \"%s\"", shapes[i].ops, pass_names(&plan, ','),
                     shapes[i].passes);
        if (plan.scratch_bytes != shapes[i].scratch)
            fail_msg("%s: %zu bytes of scratch", shapes[i].ops, plan.scratch_bytes);
        assert_int_equal(plan.variants[0].channels, shapes[i].channels);
        assert_int_equal(plan.input_bytes, 40 * 224);
        assert_false(plan.variants[0].is_source);
        plan_clear(&plan);
    }
}

/* If only values are wanted, colours are converted only for operations that read them. */
TEST(test_values_alone)
{
    static const char *const passes[][2] = {{"['stats','invert']", "ycc to rgb,stats"},
                                            {"['otsu']", "otsu"}};
    for (size_t i = 0; i < 2; i++) {
        struct plan plan;
        test_plan(&plan, SOURCE(70, 40, 3, .ycc = true),
                  &(struct plan_target){.no_picture = true}, passes[i][0]);
        assert_string_equal(pass_names(&plan, ','), passes[i][1]);
        plan_clear(&plan);
    }
}

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
