/* selftest.h - tests the codec libraries and every GPU stream before the daemon reports READY. */
#pragma once

#include "daemon/selfcheck/test_image.h"

/* Encodes an image in each format, decodes it and compares the pixels. It finds libraries that are
 * broken or do not match the headers of the build. false: error has the reason. */
bool selftest_codecs(struct error *error) MUST_CHECK;

/* Processes the test image on every stream and compares each result with the CPU engine's. false:
 * error has the reason. */
bool selftest_run(struct engine *engine, const struct test_image *test_image,
                  struct error *error) MUST_CHECK;
