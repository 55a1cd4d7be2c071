/*
 * prologue.h - what a pass does to each pixel that it loads, before its own work: make gray, look
 * the pixel up in a table, or both in this order.
 *
 * Passes that compute a pixel from several neighbours, for example sobel, can have a prologue.
 * point_lift (point.h) turns a pass for grayscale or for tables into the prologue of the next pass,
 * so that the image is not written and read again between them. With BORDER_ZERO, the zeros outside
 * of the image do not go through the prologue. Alpha is copied from the source, unless gray is
 * made.
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

/* Initializes the pass types of an operation, an array [makes_gray][looks_up], which differ only in
 * their names: "gray+table+sobel". The last argument is PASS_CUDA or PASS_CUDA_MANY. */
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
