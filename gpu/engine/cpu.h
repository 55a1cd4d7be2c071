/* cpu.h - lets a pass on the CPU engine stop early after its task's deadline. */
#ifndef GPUIMGD_GPU_ENGINE_CPU_H
#define GPUIMGD_GPU_ENGINE_CPU_H

#include "gpu/plan/pass.h"

/* Whether the deadline of the pass's task is over. */
bool pass_is_late(const struct pass *pass);

/* Number of rows between two reads of the clock. */
#define PASS_ROWS_PER_LOOK 16

/* As pass_is_late, for a pass that calls it before each row y. Reads the clock only every
 * PASS_ROWS_PER_LOOK rows. */
static inline bool pass_is_late_at(const struct pass *pass, uint32_t y)
{
    return y % PASS_ROWS_PER_LOOK == 0 && pass_is_late(pass);
}

#endif
