/*
 * fuzz.h - what a fuzz target is: a function that takes any bytes, and the seeds it starts from.
 *
 * A target is fuzz_NAME.c. It is linked twice: with libFuzzer (`make fuzz`, clang), and with
 * replay.c, which hands it its seeds and the files of corpus/NAME/ once, with any compiler. It
 * aborts where a promise is broken; memory errors are the sanitizers' to find.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "codecs/codec.h"
#include "tests/fixtures/picture.h"

/* libFuzzer's name for it. The bytes are the caller's, in a block of exactly this length. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* Hands one seed on; the bytes are read before it returns. */
typedef void fuzz_give(void *context, const char *name, const void *bytes, size_t length);
/* The target's seeds, made anew each time. Names are file names. */
void fuzz_seeds(fuzz_give *give, void *context);

/* A promise of the code under test. */
#define FUZZ_MUST(is)                                                                              \
    do {                                                                                           \
        if (!(is)) {                                                                               \
            fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #is);               \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* ---- shared by targets ---- */

/* Any bytes through the codecs: decoded in each way that a job may ask for, encoded again, and held
 * to what codec.h promises. */
void decode_check(const uint8_t *bytes, size_t length);

/* The targets' context; aborts if there is no memory for it. */
struct codec_context *fuzz_codec(void);
/* A broken file has a code that says so, and a sentence. */
void fuzz_check_error(enum status status, const struct error *error);

/* How much memory a call had at most, if a sanitizer's allocator can tell; else 0. One thread. */
void memory_peak_start(void);
/* Bytes above what was allocated at the start; ends the measurement. */
size_t memory_peak_end(void);

/* fuzz_give for a new file; frees it. */
void fuzz_give_file(fuzz_give *give, void *context, const char *name, struct picture_file file);
