/*
 * test_image.h - a test image with a plan that runs every GPU kernel, and the expected result.
 *
 * The codecs and the CPU engine create the file and the result once. Nothing changes after that, so
 * all other functions may be called on any thread. A check has three steps: test_image_decode, the
 * plan on an engine, and test_image_compare.
 */
#pragma once

#include "codecs/codec.h"
#include "gpu/engine/engine.h"

struct test_image;

/* NULL: error has the reason. */
struct test_image *test_image_create(struct error *error);
void test_image_destroy(struct test_image *test_image); /* takes NULL */

const struct plan *test_image_plan(const struct test_image *test_image);
/* Decodes the file into memory that is reserved for the plan. false: error has gpu_failed or the
 * codec's error. */
bool test_image_decode(const struct test_image *test_image, struct codec_context *codec,
                       const struct engine_memory *memory, struct error *error) MUST_CHECK;
/* Compares the engine's pixels and values in memory with the expected ones. Then encodes the pixels
 * of the first chain and compares the file. false: error has the reason. */
bool test_image_compare(const struct test_image *test_image, struct codec_context *codec,
                        const struct engine_memory *memory, struct error *error) MUST_CHECK;

/* The flush of a codec_sink whose buffer must hold the whole file, of sink->total bytes. */
enum status test_image_flush(struct codec_sink *sink, size_t used, struct error *error);
