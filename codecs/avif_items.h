/*
 * avif_items.h - measures the boxes of an AVIF file, before libavif reads them.
 *
 * libavif makes entries for what the boxes name: up to 4 KiB for an empty box of 8 bytes, and 2 KiB
 * for an item, which a box iref names with 2 bytes. It also searches all items for each further
 * name. So a small file could demand much memory and time.
 *
 * The box iloc gives the extents of each item: parts of the file, or of the box idat. libavif
 * copies an item with several extents into one buffer. Extents may overlap, so a small file could
 * demand a large buffer. In usual files they do not overlap. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "conf/status.h"

/* Items and extents in iloc: an extent may need no byte of the file. Usual files have a few per AV1
 * stream. */
#define AVIF_EXTENTS_MAX 4096

/* *joined: bytes that libavif copies to join items, at most the file's length. Error: decode_limit
 * for more of it, of extents, or of entries, whose memory AVIF_ENTRIES_BYTES_MAX limits. Boxes that
 * libavif refuses are skipped. */
enum status avif_measure_items(const uint8_t *bytes, size_t length, uint64_t *joined,
                               struct error *error) MUST_CHECK;
