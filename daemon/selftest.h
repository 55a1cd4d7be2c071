/*
 * selftest.h - the specimen through the whole path on every stream, before the daemon says READY.
 *
 * Run on the loop thread: reserve, decode, run, compare with the CPU engine, encode.
 */
#ifndef GPUIMGD_DAEMON_SELFTEST_H
#define GPUIMGD_DAEMON_SELFTEST_H

#include <stdbool.h>

#include <uv.h>

#include "daemon/specimen.h"

/* false with a sentence in error: a codec or the engine gives wrong pixels, or none. The loop is
 * run meanwhile; the engine's wake must end in engine_reap. */
bool selftest_run(uv_loop_t *loop, struct engine *engine, const struct specimen *specimen,
                  struct error *error) MUST_CHECK;

#endif
