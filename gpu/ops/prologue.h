/*
 * prologue.h - what a pass on neighbourhoods makes of its pixels as it takes them in: gray, a lookup
 * in a table, or gray and then a lookup.
 *
 * So gray, and what acts on each channel alone, right before such a pass are no passes of their
 * own (point_lift). Only pixels of the source are taken in: the zeros that stand for pixels
 * outside stay zeros, and alpha, which such a pass copies from its source, stays what it is where
 * no gray is made.
 */
#ifndef GPUIMGD_GPU_OPS_PROLOGUE_H
#define GPUIMGD_GPU_OPS_PROLOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/ops/grayscale.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Neither of both: pixels are taken as they are. */
struct prologue {
    bool makes_gray; /* of 3 or 4 channels */
    bool looks_up;   /* what there then is */
    struct grayscale gray;
    uint8_t table[256];
};

/* The types of a pass, [makes_gray][looks_up], whose names say what it does first. */
#define PROLOGUE_FORMS(name, on_cpu, on_cuda)                                                      \
    {                                                                                              \
        {{name, on_cpu, PASS_CUDA(on_cuda)}, {"table+" name, on_cpu, PASS_CUDA(on_cuda)}},         \
        {                                                                                          \
            {"gray+" name, on_cpu, PASS_CUDA(on_cuda)},                                            \
            {"gray+table+" name, on_cpu, PASS_CUDA(on_cuda)}                                       \
        }                                                                                          \
    }

/* On the CPU: a row of `channels` channels. The rows do not overlap. */
void prologue_row(const struct prologue *prologue, const uint8_t *from, uint8_t *to, uint32_t width,
                  uint32_t channels);
/* Bytes of any channels. May work in place. */
void prologue_look_up(const uint8_t *from, uint8_t *to, size_t bytes, const uint8_t table[256]);

#ifdef __cplusplus
}
#endif
#endif
