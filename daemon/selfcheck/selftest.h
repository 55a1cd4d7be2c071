/* selftest.h - tests the codec libraries and every GPU stream before the daemon reports READY. */
#pragma once

#include "daemon/selfcheck/test_image.h"

/* Encodes an image in each format, decodes it and compares the pixels. This finds libraries that
 * are broken or are not those with whose headers the program was built. false: error has the
 * reason. */
bool selftest_codecs(struct error *error) MUST_CHECK;

/* Processes the test image on every stream of the engine (once on the CPU engine), and compares
 * each result with that of the CPU engine. false: error has the reason. */
bool selftest_run(struct engine *engine, const struct test_image *test_image,
                  struct error *error) MUST_CHECK;
