/* selftest.h - tests the codec libraries and every GPU stream before the daemon reports READY. Loop
 * thread only. */
#pragma once

#include <uv.h>

#include "daemon/selfcheck/test_image.h"

/* Encodes an image in each format, decodes it and compares the pixels. It finds libraries that are
 * broken or do not match the headers of the build. false: error has the reason. */
bool selftest_codecs(struct error *error) MUST_CHECK;

/* Processes the test image on every stream and compares each result with the CPU engine's. Runs the
 * loop meanwhile; the engine's `wake` must lead to engine_reap. false: error has the reason. */
bool selftest_run(uv_loop_t *loop, struct engine *engine, const struct test_image *test_image,
                  struct error *error) MUST_CHECK;
