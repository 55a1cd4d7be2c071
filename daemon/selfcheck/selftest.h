/*
 * selftest.h - what is tried before the daemon says READY: the codecs, with the libraries that it
 * runs with, and the test_image through the whole path on every stream.
 *
 * Run on the loop thread.
 */
#ifndef GPUIMGD_DAEMON_SELFCHECK_SELFTEST_H
#define GPUIMGD_DAEMON_SELFCHECK_SELFTEST_H

#include <stdbool.h>

#include <uv.h>

#include "daemon/selfcheck/test_image.h"

/* Encodes an image in each format, decodes it and compares. false with a sentence in error: a
 * library is another one than gpuimgd was built for, or broken; or out_of_memory. */
bool selftest_codecs(struct error *error) MUST_CHECK;

/* Reserve, decode, run, compare with the CPU engine, encode.
 * false with a sentence in error: a codec or the engine gives wrong pixels, or none. The loop is
 * run meanwhile; the engine's wake must end in engine_reap. */
bool selftest_run(uv_loop_t *loop, struct engine *engine, const struct test_image *test_image,
                  struct error *error) MUST_CHECK;

#endif
