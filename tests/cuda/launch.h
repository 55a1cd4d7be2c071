/*
 * launch.h - enqueues a pass on a stream of the stand-in runtime, for every launcher of gpu/ops.
 *
 * The Makefile lists the launchers of gpu/ops in launchers.inc.
 */
#pragma once

#include "gpu/plan/pass.h"

pass_cuda cuda_launch;
pass_cuda_many cuda_launch_many;

/* In programs that are linked with these launchers. NULL: the launchers are those of gpu/ops. */
extern const char launchers_run_cpu_passes[] __attribute__((weak));
