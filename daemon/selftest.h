/*
 * selftest.h - one image through the whole path, on every stream, compared with the CPU engine.
 *
 * Run on the loop thread before the daemon says READY: decode, reserve, run, encode.
 */
#ifndef GPUIMGD_DAEMON_SELFTEST_H
#define GPUIMGD_DAEMON_SELFTEST_H

#include <stdbool.h>

#include <uv.h>

#include "conf/status.h"
#include "gpu/engine.h"

/* false with a sentence in error: a codec or the engine gives wrong pixels, or none. The loop is
 * run meanwhile; the engine's wake must end in engine_reap. */
bool selftest_run(uv_loop_t *loop, struct engine *engine, struct error *error) MUST_CHECK;

#endif
