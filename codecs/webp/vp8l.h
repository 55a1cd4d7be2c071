/*
 * vp8l.h - finds out how much memory libwebp needs for the tables of a lossless WebP image (VP8L).
 *
 * The memory depends on the number of groups of Huffman codes, which is in the header of the
 * compressed data. Usual images have fewer than 3,000 groups, but a hostile file of 200 KB may have
 * 65,536, for which libwebp allocates 1.3 GB. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory of libwebp per group: a struct, and the largest tables (a colour cache of 11 bits). */
#define VP8L_GROUP_BYTES (5004 * 4 + 640)

/* A table that libwebp allocates besides, if some numbers of groups are not used. */
#define VP8L_NUMBERS_BYTES (65536 * 4)

/* Returns an upper bound on the number of groups. 0: libwebp refuses the stream before it allocates
 * groups, or the deadline has passed. The stream is either a VP8L chunk without its header of 5
 * bytes, and all bytes up to the end of the file or frame, or a compressed ALPH chunk without its
 * first byte. */
size_t vp8l_groups(const uint8_t *stream, size_t length, uint32_t width, uint32_t height,
                   uint64_t deadline_ns);
