/*
 * prologue.h - the steps that a pass applies to each pixel that it loads, before its own work.
 *
 * Passes with a prologue compute a pixel from several neighbours, for example sobel. A prologue
 * makes gray, looks pixels up in a table, or does both in this order. point_lift moves grayscale
 * and operations on single channels into the prologue of the next pass, so that they need no passes
 * of their own. The prologue applies only to pixels of the source. Zeros outside the image stay
 * zeros. Alpha, which the pass copies from its source, is kept unless gray is made.
 */
#pragma once

#include "gpu/ops/grayscale.h"

/* If both are false, pixels are loaded unchanged. */
struct prologue {
    bool makes_gray; /* from 3 or 4 channels */
    bool looks_up;   /* in `table`, after making gray */
    struct grayscale gray;
    uint8_t table[256];
};

/* The pass types of an operation, [makes_gray][looks_up]. Their names start with the prologue. The
 * last arguments are PASS_CUDA or PASS_CUDA_MANY. */
#define PROLOGUE_FORMS(name, on_cpu, ...)                                                          \
    {                                                                                              \
        {{name, on_cpu, __VA_ARGS__}, {"table+" name, on_cpu, __VA_ARGS__}},                       \
        {                                                                                          \
            {"gray+" name, on_cpu, __VA_ARGS__}, {"gray+table+" name, on_cpu, __VA_ARGS__}         \
        }                                                                                          \
    }

static inline bool prologue_is_empty(const struct prologue *prologue)
{
    return !prologue->makes_gray && !prologue->looks_up;
}

/* Looks up bytes on the CPU, for any number of channels. May work in place. */
static inline void prologue_look_up(const uint8_t *from, uint8_t *to, size_t bytes,
                                    const uint8_t table[256])
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = table[from[i]];
}
