/*
 * neighbours.h - runs an operation on neighbourhoods on an engine and holds it to a reference that
 * knows one pixel of one channel at a time.
 *
 * Alpha must come out as it went in; nothing behind the result may be written.
 */
#ifndef GPUIMGD_TESTS_NEIGHBOURS_H
#define GPUIMGD_TESTS_NEIGHBOURS_H

#include "tests/unit/gpu/behind.h"
#include "tests/unit/gpu/both_engines.h"

#include "gpu/plan/plan.h"

struct channel {
    struct image image;
    int channel;
};

/* The result at (x, y) of the channel. */
typedef int neighbours_reference(const struct channel *in, int x, int y, const void *recipe);

/* The pixel at any place: by the border's rule where that is outside. */
static inline int channel_at(const struct channel *in, int x, int y, const char *border)
{
    int place[2] = {x, y}, size[2] = {(int)in->image.width, (int)in->image.height};
    for (int i = 0; i < 2; i++) {
        if (place[i] >= 0 && place[i] < size[i])
            continue;
        if (strcmp(border, "zero") == 0)
            return 0;
        if (strcmp(border, "replicate") == 0 || size[i] == 1) {
            place[i] = place[i] < 0 ? 0 : size[i] - 1;
            continue;
        }
        /* Reflections have a period of 2 size - 2. */
        int period = 2 * size[i] - 2, folded = (place[i] % period + period) % period;
        place[i] = folded < size[i] ? folded : period - folded;
    }
    return in->image.pixels[(size_t)place[1] * in->image.stride +
                            (size_t)place[0] * in->image.channels + (size_t)in->channel];
}

static inline void neighbours_compare(struct image in, struct image out,
                                      neighbours_reference *reference, const void *recipe,
                                      const char *what)
{
    for (int y = 0; y < (int)in.height; y++) {
        for (int x = 0; x < (int)in.width; x++) {
            for (int c = 0; c < (int)in.channels; c++) {
                struct channel channel = {in, c};
                int want = c == 3 ? channel_at(&channel, x, y, "zero")
                                  : reference(&channel, x, y, recipe);
                channel.image = out;
                int got = channel_at(&channel, x, y, "zero");
                if (got != want)
                    fail_msg("%s, %u x %u x %u: (%d, %d), channel %d: %d instead of %d", what,
                             in.width, in.height, in.channels, x, y, c, got, want);
            }
        }
    }
}

/* An operation that a test carries out on many sizes. */
struct neighbours_op {
    const char *ops; /* with those before it */
    neighbours_reference *reference;
    const void *recipe;
    struct behind behind;
};

/* How the names of passes of so many channels begin. */
static inline const char *neighbours_prefix(struct behind behind, uint32_t channels)
{
    if (behind.gray && channels != 1)
        return behind.table ? "gray+table+" : "gray+";
    return behind.table ? "table+" : "";
}

static inline void neighbours_check(struct engine *engine, uint32_t width, uint32_t height,
                                    uint32_t channels, const struct neighbours_op *op)
{
    const char *ops = op->ops;
    struct plan_source source = {.width = width, .height = height, .channels = channels,
                                 .orientation = 1};
    struct plan_target target = {.ops = test_ops(ops)};
    struct plan plan;
    struct error error = {0};
    struct engine_memory memory;
    memcpy(source.background, behind_under, sizeof(behind_under));
    if (plan_build(&plan, &source, &target, 1, &test_limits, &error) != STATUS_OK)
        fail_msg("%s: %s", ops, error.text);
    test_reserve(engine, &plan, &memory);
    struct image input = plan_input(&plan, memory.input);
    test_fill(input, width * 31 + height * 7 + channels);
    test_carry_out(engine, &plan, &memory, ops);
    struct image result = plan_result(&plan, 0, memory.input, memory.output);
    assert_int_equal(result.width, width);
    assert_int_equal(result.height, height);
    assert_int_equal(result.channels, op->behind.gray ? 1 : channels);
    if (op->behind.gray || op->behind.table)
        behind_is_fused(&plan, neighbours_prefix(op->behind, channels), ops);
    struct raster found = behind_raster(op->behind, input);
    struct image in = {.pixels = found.pixels, .width = width, .height = height,
                       .channels = found.channels, .stride = (size_t)width * found.channels};
    neighbours_compare(in, result, op->reference, op->recipe, ops);
    raster_clear(&found);
    engine_release(engine, &memory);
    plan_clear(&plan);
    cJSON_Delete((cJSON *)target.ops);
}

/* CUDA tiles are 128 columns with 16 more on either side, and 32, 40, 48 or 64 rows; strips are 256
 * columns, and 8 rows where the image is small. */
static const uint32_t neighbours_sizes[][2] = {
    {1, 1},    {1, 2},    {2, 1},    {2, 2},   {3, 3},    {1, 70},   {70, 1},  {5, 4},
    {15, 13},  {16, 16},  {17, 31},  {33, 32}, {31, 33},  {112, 49}, {113, 7}, {127, 48},
    {128, 64}, {129, 65}, {130, 63}, {143, 5}, {144, 96}, {145, 9},  {255, 3}, {256, 97},
    {257, 2},  {300, 66}, {3, 200},  {258, 17}, {511, 9},  {513, 27}, {260, 41},
};
static const uint32_t neighbours_large[][2] = {{16384, 2}, {2, 16384}, {700, 300}};

static inline void neighbours_sweep_op(struct engine *engine, const struct neighbours_op *op,
                                       size_t step, bool with_large)
{
    if (test_quick())
        step *= 5;
#ifdef __SANITIZE_ADDRESS__
    step *= 2;
    with_large = false;
#endif
    static size_t start;
    for (uint32_t channels = 1; channels <= 4; channels++) {
        if (channels == 2 || (channels == 1 && op->behind.gray))
            continue;
        for (size_t i = start++ % step; i < sizeof(neighbours_sizes) / sizeof(*neighbours_sizes);
             i += step)
            neighbours_check(engine, neighbours_sizes[i][0], neighbours_sizes[i][1], channels, op);
        for (size_t i = 0; with_large && !test_quick() && i < 3; i++)
            neighbours_check(engine, neighbours_large[i][0], neighbours_large[i][1], channels, op);
    }
}

/* The operation behind others, in one pass with them. */
static inline void neighbours_sweep_behind(struct engine *engine, struct behind behind,
                                           const char *ops, neighbours_reference *reference,
                                           const void *recipe, size_t step, bool with_large)
{
    char text[8000];
    behind_ops(behind, ops, text, sizeof(text));
    neighbours_sweep_op(engine, &(struct neighbours_op){text, reference, recipe, behind}, step,
                        with_large);
}

static inline void neighbours_sweep(struct engine *engine, const char *ops,
                                    neighbours_reference *reference, const void *recipe,
                                    size_t step, bool with_large)
{
    neighbours_sweep_behind(engine, behind_nothing, ops, reference, recipe, step,
                            with_large);
}

struct neighbours_refusal {
    const char *op, *text; /* the text is a part of the message */
};

static inline void neighbours_refused(const struct neighbours_refusal *refusals, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct error error = {0};
        cJSON *ops = test_ops(refusals[i].op);
        enum status status = plan_check_ops(ops, -1, &error);
        if (status != STATUS_BAD_OP || !strstr(error.text, refusals[i].text))
            fail_msg("%s: %s \"%s\" instead of \"%s\"", refusals[i].op, status_name(status),
                     error.text, refusals[i].text);
        cJSON_Delete(ops);
    }
}

#endif
