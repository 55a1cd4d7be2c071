/*
 * avif_items.h - measures the items of an AVIF file, before libavif reads them.
 *
 * libavif has an entry of some hundred bytes for each item that a box names, and searches all of
 * them for each further name. The box iloc gives the extents of each item: parts of the file, or of
 * the box idat. libavif copies an item with several extents into one buffer. Extents may overlap,
 * so a small file could demand a large buffer. In usual files they do not overlap. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "conf/status.h"

/* Items and extents in iloc: an extent may need no byte of the file. Usual files have a few per AV1
 * stream. */
#define AVIF_EXTENTS_MAX 4096
/* All boxes iinf, iref and ipma, which name items. For 256 AV1 streams they have about 12 KiB. */
#define AVIF_NAMES_BYTES_MAX (64 * 1024)

/* *joined: bytes that libavif copies to join items, at most the file's length. Error: decode_limit
 * for more of anything. Boxes that libavif refuses are skipped. */
enum status avif_measure_items(const uint8_t *bytes, size_t length, uint64_t *joined,
                               struct error *error) MUST_CHECK;
