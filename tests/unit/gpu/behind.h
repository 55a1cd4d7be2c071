/*
 * behind.h - an operation behind gray, a table, or gray and a table, which become a part of its
 * pass.
 *
 * The weights of the gray are not the default ones, and it has a background that is not black. The
 * table is steep, cut at both ends, and 0 is not 0 in it: pixels that are looked up twice, or not
 * at all, or that are looked up though nothing stands there, are seen.
 */
#ifndef GPUIMGD_TESTS_BEHIND_H
#define GPUIMGD_TESTS_BEHIND_H

#include "tests/unit/gpu/gpu_run.h"

#include "gpu/plan/pass.h"
#include "tests/fixtures/reference.h"

#define BEHIND_GRAY_OP "{\"op\":\"grayscale\",\"weights\":[10000,50000,5536]}"
#define BEHIND_TABLE_OP                                                                            \
    "{\"op\":\"levels\",\"in_black\":60,\"in_white\":180,\"out_black\":250,\"out_white\":3}"

static const uint8_t behind_under[3] = {200, 13, 101};

/* Both: the table is of gray. */
struct behind {
    bool gray, table;
};

static const struct behind behind_nothing = {false, false};

/* The list of one operation, with those before it. */
static inline void behind_ops(struct behind behind, const char *ops, char *text, size_t size)
{
    int length = snprintf(text, size, "[%s%s%s", behind.gray ? BEHIND_GRAY_OP "," : "",
                          behind.table ? BEHIND_TABLE_OP "," : "", ops + 1);
    assert_true(length > 0 && (size_t)length < size);
}

/* As README has it: 250 - 247 k / 120, round half up. */
static inline int behind_table_value(int v)
{
    int k = v < 60 ? 0 : v > 180 ? 120 : v - 60;
    return (2 * 250 * 120 - 2 * 247 * k + 120) / (2 * 120);
}

static inline struct raster raster_of(struct image image)
{
    struct raster raster = raster_make(image.width, image.height, image.channels);
    size_t row = (size_t)image.width * image.channels;
    for (uint32_t y = 0; y < image.height; y++)
        memcpy(raster.pixels + y * row, image.pixels + y * image.stride, row);
    return raster;
}

/* What the operation finds: alpha is as it was where there is no gray. */
static inline struct raster behind_raster(struct behind behind, struct image image)
{
    static const uint32_t weights[3] = {10000, 50000, 5536};
    struct raster raster = raster_of(image);
    if (behind.gray) {
        struct raster gray = reference_gray(&raster, weights, behind_under);
        raster_clear(&raster);
        raster = gray;
    }
    size_t bytes = (size_t)raster.width * raster.height * raster.channels;
    for (size_t i = 0; i < bytes && behind.table; i++)
        if (raster.channels != 4 || i % 4 != 3)
            raster.pixels[i] = (uint8_t)behind_table_value(raster.pixels[i]);
    return raster;
}

/* One pass, whose name is the operation's own with this before it. */
static inline void behind_is_fused(const struct plan *plan, const char *prefix, const char *what)
{
    const struct plan_variant *variant = &plan->variants[0];
    const char *name = variant->pass_count ? variant->passes[0].type->name : "(none)";
    size_t length = strlen(prefix);
    if (variant->pass_count != 1 || strncmp(name, prefix, length) != 0 ||
        strchr(name + length, '+'))
        fail_msg("%s: %u passes, the first of them %s", what, variant->pass_count, name);
}

#endif
