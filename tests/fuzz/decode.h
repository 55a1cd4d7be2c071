/*
 * decode.h - any bytes through the codecs: decoded in each way that a job may ask for, encoded
 * again, and held to what codec.h promises. Shared by the targets of the two formats.
 */
#ifndef GPUIMGD_TESTS_FUZZ_DECODE_H
#define GPUIMGD_TESTS_FUZZ_DECODE_H

#include <stddef.h>
#include <stdint.h>

void decode_check(const uint8_t *bytes, size_t length);

#endif
