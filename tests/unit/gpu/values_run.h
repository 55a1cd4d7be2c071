/*
 * values_run.h - one image through operations that give values: the picture, and the values.
 *
 * Bytes behind the output buffer and the input itself are watched: a pass that only looks must
 * leave the picture alone.
 */
#ifndef GPUIMGD_TESTS_VALUES_RUN_H
#define GPUIMGD_TESTS_VALUES_RUN_H

#include "tests/unit/gpu/both_engines.h"

#include "gpu/plan/plan.h"

enum fill { FILL_NOISE, FILL_FLAT, FILL_BLACK, FILL_WHITE, FILL_TWO, FILL_RAMP, FILL_COUNT };

static const uint8_t values_under[3] = {200, 13, 101};

struct values_case {
    uint32_t width, height, channels;
    enum fill fill;
    const char *ops;
    bool no_picture;
    char what[200];
};

/* A run, and what it gave. input is the engine's own copy; both go with values_end. */
struct values_run {
    struct plan plan;
    struct engine_memory memory;
    struct image input, picture; /* picture: not where none was wanted */
    cJSON *values, *ops;
};

static inline void values_fill(struct image image, enum fill fill)
{
    test_fill(image, image.width * 31 + image.height * 7 + image.channels);
    size_t bytes = image.stride * image.height;
    for (size_t i = 0; i < bytes && fill != FILL_NOISE; i++)
        image.pixels[i] = fill == FILL_FLAT    ? 77
                          : fill == FILL_BLACK ? 0
                          : fill == FILL_WHITE ? 255
                          : fill == FILL_TWO   ? image.pixels[i] % 16 ? 90 : 91
                                               : (uint8_t)(i * 5 / (image.stride + 3) + i % 7);
}

static inline void values_begin(struct values_run *run, struct engine *engine,
                                struct values_case *c)
{
    struct plan_source source = {.width = c->width, .height = c->height, .channels = c->channels,
                                 .orientation = 1,
                                 .background = {values_under[0], values_under[1],
                                                values_under[2]}};
    struct error error = {0};
    snprintf(c->what, sizeof c->what, "%s of %ux%ux%u, fill %d", c->ops, c->width, c->height,
             c->channels, c->fill);
    memset(run, 0, sizeof *run);
    run->ops = test_ops(c->ops);
    struct plan_target target = {.ops = run->ops, .no_picture = c->no_picture};
    if (plan_build(&run->plan, &source, &target, 1, &test_limits, &error) != STATUS_OK)
        fail_msg("%s: %s", c->what, error.text);
    struct plan *plan = &run->plan;
    test_reserve(engine, plan, &run->memory);
    run->input = plan_input(plan, run->memory.input);
    values_fill(run->input, c->fill);
    size_t input_bytes = run->input.stride * run->input.height; /* the constants behind it aside */
    uint8_t *before = malloc(input_bytes);
    assert_non_null(before);
    memcpy(before, run->memory.input, input_bytes);

    test_carry_out(engine, plan, &run->memory, c->what);
    assert_memory_equal(before, run->memory.input, input_bytes);
    free(before);
    if (!c->no_picture)
        run->picture = plan_result(plan, 0, run->memory.input, run->memory.output);
    run->values = plan_values(plan, 0, run->memory.output);
    assert_non_null(run->values);
}

static inline void values_end(struct values_run *run, struct engine *engine)
{
    engine_release(engine, &run->memory);
    plan_clear(&run->plan);
    cJSON_Delete(run->values);
    cJSON_Delete(run->ops);
}

/* The value of one channel; channel -1: of gray with the usual weights, over the background. */
static inline unsigned values_at(const struct image *image, uint32_t x, uint32_t y, int channel)
{
    const uint8_t *pixel = image->pixels + y * image->stride + (size_t)x * image->channels;
    if (channel >= 0 || image->channels == 1)
        return pixel[channel > 0 ? channel : 0];
    unsigned rgb[3];
    for (int c = 0; c < 3; c++) {
        unsigned alpha = image->channels == 4 ? pixel[3] : 255;
        rgb[c] = (2 * (pixel[c] * alpha + values_under[c] * (255 - alpha)) + 255) / 510;
    }
    return (rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 32768) >> 16;
}

static inline void values_count(const struct image *image, int channel, unsigned counts[256])
{
    memset(counts, 0, 256 * sizeof counts[0]);
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++)
            counts[values_at(image, x, y, channel)]++;
}

/* Edges of the warp's 512 pixels, of 16 and of 4, of the CPU's 1024; many rows, one column. */
static const uint32_t values_sizes[][2] = {
    {1, 1},    {1, 2},     {2, 1},    {3, 3},    {4, 5},     {5, 4},      {1, 700},  {15, 13},
    {16, 14},  {17, 15},   {31, 16},  {33, 30},  {127, 62},  {511, 29},   {512, 46}, {513, 47},
    {1023, 3}, {1024, 63}, {1025, 7}, {300, 201}, {16384, 3}, {3, 16384}, {1000, 700},
};

/* Calls check for each size, number of channels and fill. */
static inline void values_for_all(struct engine *engine, const char *ops,
                                  void (*check)(struct engine *, struct values_case *))
{
    size_t count = sizeof values_sizes / sizeof values_sizes[0];
    size_t step = test_quick() ? 5 : 1;
    for (size_t i = 0; i < count; i += step) {
        for (uint32_t channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1) {
            for (enum fill fill = 0; fill < FILL_COUNT; fill++) {
                struct values_case c = {.width = values_sizes[i][0], .height = values_sizes[i][1],
                                        .channels = channels, .fill = fill, .ops = ops,
                                        .no_picture = (i + channels) % 2 == 0};
                if (c.width * c.height < 100000 || fill == FILL_NOISE || fill == FILL_FLAT)
                    check(engine, &c);
            }
        }
    }
}

/* What a plan says of operations with wrong parameters. */
static inline void values_refused(const char *json, const char *text)
{
    struct error error = {0};
    cJSON *ops = test_ops(json);
    assert_int_equal(plan_check_ops(ops, -1, &error), STATUS_BAD_OP);
    if (!strstr(error.text, text))
        fail_msg("%s: \"%s\" instead of \"%s\"", json, error.text, text);
    cJSON_Delete(ops);
}

#endif
