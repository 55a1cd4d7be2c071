/* stats.h - sum, least and greatest value of each channel. */
#ifndef GPUIMGD_GPU_OPS_STATS_H
#define GPUIMGD_GPU_OPS_STATS_H

#include <stdint.h>

#include "gpu/plan/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the pass leaves, one a channel. All zero is the right beginning. */
struct stats_channel {
    uint64_t sum;
    uint32_t max;
    uint32_t room; /* 255 - min */
};

extern const struct pass_type pass_stats;

pass_cuda stats_cuda;

#ifdef __cplusplus
}
#endif
#endif
