/*
 * test_image.h - a test image, operations on it that use every GPU kernel, and the expected result.
 *
 * test_image_create draws the image and computes the result with the CPU engine. A check of another
 * engine has three parts: test_image_decode, running the plan on that engine, and
 * test_image_compare. After test_image_create nothing changes, so all other functions may be called
 * on any thread.
 */
#pragma once

#include "codecs/codec.h"
#include "gpu/engine/engine.h"

struct test_image;

/* NULL: error has the reason. */
struct test_image *test_image_create(struct error *error);
void test_image_destroy(struct test_image *test_image); /* takes NULL */

const struct plan *test_image_plan(const struct test_image *test_image);
/* Decodes the image into memory that was reserved for the plan. false: error has the reason. */
bool test_image_decode(const struct test_image *test_image, struct codec_context *codec,
                       const struct engine_memory *memory, struct error *error) MUST_CHECK;
/* Compares the pixels and values that the engine has written to memory with the expected ones. Also
 * encodes the pixels of the first output and compares the file, as a test of the codec. false:
 * error has the reason. */
bool test_image_compare(const struct test_image *test_image, struct codec_context *codec,
                        const struct engine_memory *memory, struct error *error) MUST_CHECK;

/* A flush function for a struct codec_sink whose buffer holds the whole file. */
enum status test_image_flush(struct codec_sink *sink, size_t used, struct error *error);
