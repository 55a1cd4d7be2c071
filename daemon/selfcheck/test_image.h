/*
 * test_image.h - a test image: its file, the plan that it goes through, with a pass of every kernel
 * family, and what must come of it.
 *
 * Made once, by the codecs and the CPU engine, and not changed after that, so that any thread may
 * compare with it. The whole path of a job is decode, an engine at work on the plan, compare.
 */
#ifndef GPUIMGD_DAEMON_SELFCHECK_TEST_IMAGE_H
#define GPUIMGD_DAEMON_SELFCHECK_TEST_IMAGE_H

#include <stdbool.h>

#include "codecs/codec.h"
#include "conf/status.h"
#include "gpu/engine/engine.h"

struct test_image;

/* NULL with a sentence in error: the codecs do not give back what went in, or no memory. */
struct test_image *test_image_create(struct error *error);
void test_image_destroy(struct test_image *test_image); /* takes NULL */

const struct plan *test_image_plan(const struct test_image *test_image);
/* Decodes the file into memory that was reserved for the plan. false: gpu_failed or the codec's
 * error. */
bool test_image_decode(const struct test_image *test_image, struct codec_context *codec,
                       const struct engine_memory *memory, struct error *error) MUST_CHECK;
/* Compares the pixels and values that an engine left in memory, and the file that the first chain's
 * pixels are encoded into. false: they differ, or the encoder fails. */
bool test_image_compare(const struct test_image *test_image, struct codec_context *codec,
                        const struct engine_memory *memory, struct error *error) MUST_CHECK;

#endif
