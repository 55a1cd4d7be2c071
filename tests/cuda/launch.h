/*
 * launch.h - enqueues a pass on a stream of the stand-in runtime, for every launcher of gpu/ops.
 *
 * The Makefile lists the launchers of gpu/ops in launchers.inc.
 */
#pragma once

#include "gpu/plan/pass.h"

pass_cuda cuda_launch;
pass_cuda_many cuda_launch_many;
