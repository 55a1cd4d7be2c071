/*
 * sha1.h - the name by which Redis knows a script. Not for anything that must be secure.
 */
#ifndef GPUIMGD_QUEUE_SHA1_H
#define GPUIMGD_QUEUE_SHA1_H

#include <stddef.h>

/* 40 lower-case hexadecimal digits and a NUL (FIPS 180-4). */
void sha1_hex(const void *data, size_t length, char hex[41]);

#endif
