/*
 * launch.h - puts a pass on a stream of the stand-in; every launcher of gpu/ops is this one.
 *
 * launchers.inc, made by the Makefile from the sources in gpu/ops, has their names.
 */
#pragma once

#include "gpu/plan/pass.h"

pass_cuda cuda_launch;
pass_cuda_many cuda_launch_many;
