/*
 * behind_table.h - an operation behind a table that becomes a part of its pass.
 *
 * The table is steep, cut at both ends, and 0 is not 0 in it: pixels that are looked up twice, or
 * not at all, or that are looked up though nothing stands there, are seen.
 */
#ifndef GPUIMGD_TESTS_BEHIND_TABLE_H
#define GPUIMGD_TESTS_BEHIND_TABLE_H

#include "tests/unit/gpu_run.h"

#include "gpu/pass.h"

#define BEHIND_TABLE_OP                                                                            \
    "{\"op\":\"levels\",\"in_black\":60,\"in_white\":180,\"out_black\":250,\"out_white\":3}"

/* The list of one operation, with the table before it. */
static inline void behind_table_ops(const char *ops, char *text, size_t size)
{
    int length = snprintf(text, size, "[%s,%s", BEHIND_TABLE_OP, ops + 1);
    assert_true(length > 0 && (size_t)length < size);
}

/* As README has it: 250 - 247 k / 120, round half up. */
static inline int behind_table_value(int v)
{
    int k = v < 60 ? 0 : v > 180 ? 120 : v - 60;
    return (2 * 250 * 120 - 2 * 247 * k + 120) / (2 * 120);
}

/* What the operation finds: the colours looked up, alpha as it is. */
static inline void behind_table_apply(struct image image)
{
    size_t bytes = (size_t)image.width * image.channels;
    for (uint32_t y = 0; y < image.height; y++)
        for (size_t x = 0; x < bytes; x++)
            if (image.channels != 4 || x % 4 != 3)
                image.pixels[y * image.stride + x] =
                    (uint8_t)behind_table_value(image.pixels[y * image.stride + x]);
}

/* One pass, whose name says so. */
static inline void behind_table_is_fused(const struct plan *plan, const char *what)
{
    const struct plan_variant *variant = &plan->variants[0];
    if (variant->pass_count != 1 || strncmp(variant->passes[0].type->name, "table+", 6) != 0)
        fail_msg("%s: %u passes, the first of them %s", what, variant->pass_count,
                 variant->pass_count ? variant->passes[0].type->name : "(none)");
}

#endif
