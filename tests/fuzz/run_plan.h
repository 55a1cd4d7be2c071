/*
 * run_plan.h - plans that were built from hostile jobs: held to their layout, and carried out in
 * buffers of exactly the promised sizes.
 */
#ifndef GPUIMGD_TESTS_FUZZ_RUN_PLAN_H
#define GPUIMGD_TESTS_FUZZ_RUN_PLAN_H

#include "gpu/plan/plan.h"

/* Every pass stays inside the buffers, reads nothing that it writes, and gives an image within
 * the limits. */
void run_plan_check_layout(const struct plan *plan, const struct plan_limits *limits);
/* By the CPU engine, twice over memory that held different bytes: the results must be the same. */
void run_plan_twice(const struct plan *plan);

#endif
