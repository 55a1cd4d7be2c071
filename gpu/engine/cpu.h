/* cpu.h - what the CPU engine offers to the passes that it runs: the deadline of their task. */
#ifndef GPUIMGD_GPU_ENGINE_CPU_H
#define GPUIMGD_GPU_ENGINE_CPU_H

#include "gpu/plan/pass.h"

/* Whether the deadline of the pass has passed. */
bool pass_is_late(const struct pass *pass);

/* Rows between two looks at the clock. */
#define PASS_ROWS_PER_LOOK 16

/* The same for a pass that asks before each row y. */
static inline bool pass_is_late_at(const struct pass *pass, uint32_t y)
{
    return y % PASS_ROWS_PER_LOOK == 0 && pass_is_late(pass);
}

#endif
