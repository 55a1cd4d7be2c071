/* flatten.h - RGBA over an opaque background: (c a + background (255 - a)) / 255, round half up. */
#ifndef GPUIMGD_GPU_OPS_FLATTEN_H
#define GPUIMGD_GPU_OPS_FLATTEN_H

#include <stdint.h>

#include "gpu/ops/pixel.h"
#include "gpu/plan/pass.h"

struct flatten {
    uint8_t background[3];
};

/* x / 255 is (x + 1 + (x >> 8)) >> 8 for all x < 65,535; x here is at most 65,152. */
PIXEL uint32_t flatten_byte(uint32_t value, uint32_t alpha, uint32_t background)
{
    uint32_t x = value * alpha + background * (255u - alpha) + 127u;
    return (x + 1u + (x >> 8)) >> 8;
}

extern const struct pass_type pass_flatten;

#endif
