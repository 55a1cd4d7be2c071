/*
 * vp8l.h - measures the tables that a lossless WebP image makes libwebp allocate, from its header.
 *
 * An image of 200 KB may demand 65536 groups of Huffman codes, for which libwebp allocates 1.3 GB.
 * Usual images have fewer than 3,000. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes per group: libwebp's largest tables (a colour cache of 11 bits), and their description. */
#define VP8L_GROUP_BYTES (5004 * 4 + 640)

/* libwebp's table of group numbers, if some are not used. */
#define VP8L_NUMBERS_BYTES (65536 * 4)

/* Returns an upper bound on the number of groups. The stream begins after the header of 5 bytes of
 * a VP8L chunk, and goes to the end of the file or frame. Or it is a compressed ALPH chunk after
 * its first byte. 0: libwebp refuses the stream before it allocates groups, or the deadline has
 * passed. */
size_t vp8l_groups(const uint8_t *stream, size_t length, uint32_t width, uint32_t height,
                   uint64_t deadline_ns);
