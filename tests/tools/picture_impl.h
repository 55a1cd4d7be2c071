/*
 * picture_impl.h - what picture.c and picture_png.c share.
 */
#ifndef GPUIMGD_TESTS_TOOLS_PICTURE_IMPL_H
#define GPUIMGD_TESTS_TOOLS_PICTURE_IMPL_H

#include "tests/tools/picture.h"

/* Prints and aborts. */
_Noreturn void picture_fail(const char *what);
/* malloc that does not fail and never gives NULL. */
void *picture_allocate(size_t bytes);
void picture_append(struct picture_file *file, const void *bytes, size_t length);
/* Big-endian numbers. */
uint32_t picture_get32(const uint8_t *at);
void picture_put32(uint8_t *at, uint32_t value);

#endif
