/*
 * fuzz.h - a fuzz target: a function that takes any bytes, and its seeds.
 *
 * A target is fuzz_NAME.c. It is linked twice: with libFuzzer (`make fuzz`, clang), and with
 * replay.c, which runs its seeds and the files of corpus/NAME/ once, with any compiler. It aborts
 * if a promise is broken; sanitizers find memory errors.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "codecs/codec.h"
#include "tests/fixtures/picture.h"

/* libFuzzer calls this function. The caller owns the bytes, in a block of exactly this length. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* Receives one seed; the bytes are read before it returns. */
typedef void fuzz_give(void *context, const char *name, const void *bytes, size_t length);
/* Generates the target's seeds. The names are file names. */
void fuzz_seeds(fuzz_give *give, void *context);

/* Aborts if the code under test breaks a promise. */
#define FUZZ_MUST(is)                                                                              \
    do {                                                                                           \
        if (!(is)) {                                                                               \
            fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #is);               \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* ---- shared by targets ---- */

/* Decodes the bytes in each way that a job may ask for, encodes the result, and checks the promises
 * of codec.h. */
void decode_check(const uint8_t *bytes, size_t length);

/* The codec context of all targets; aborts if there is no memory. */
struct codec_context *fuzz_codec(void);
/* Checks that the error of a broken file has an allowed code and a message. */
void fuzz_check_error(enum status status, const struct error *error);

/* Starts measuring the peak of allocated memory; 0 without a sanitizer's hooks. One thread only. */
void memory_peak_start(void);
/* Returns the peak above the start, in bytes, and ends the measurement. */
size_t memory_peak_end(void);

/* Gives a new file as a seed, and frees it. */
void fuzz_give_file(fuzz_give *give, void *context, const char *name, struct picture_file file);
