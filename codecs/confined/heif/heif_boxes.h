/* heif_boxes.h - reads from the boxes of a HEIF file what libheif does not tell: how its primary
 * image is to be shown, and what determines the memory for decoding it (ISO/IEC 23008-12). */
#pragma once

#include "codecs/confined/confined.h"
#include "codecs/confined/geometry.h"

struct heif_sides {
    uint32_t width, height;
};

/* A part of the file. */
struct heif_part {
    uint64_t at, bytes;
};
#define HEIF_PARTS_MAX 64

struct heif_layout {
    struct heif_part needed[HEIF_PARTS_MAX]; /* the box "meta", and the data of items that a probe
                                                reads: metadata, and descriptions of grids */
    unsigned needed_count;
    char type[5];            /* of the primary item: "hvc1", "grid" */
    struct heif_sides sides; /* of the primary item, before it is turned and cropped */
    struct heif_sides tile;  /* the largest image that is decoded at once, by an estimate */
    unsigned chroma, depth;  /* the most of all HEVC images: 0 is gray, 1 4:2:0, 2 4:2:2, 3 4:4:4;
                                bits per sample */
    unsigned turns;          /* quarter turns anticlockwise, to be applied before `mirror` */
    enum confined_mirror mirror;
    struct confined_rect crop; /* the part to show, before it is turned */
    uint32_t images;           /* images for themselves, or those of a sequence; at least 1 */
};

/* Why the boxes cannot be used. The text is the end of a sentence. */
struct heif_problem {
    enum status status; /* STATUS_OK: they can be */
    const char *text;
};

struct heif_problem heif_read_layout(struct confined_source *source, struct heif_layout *layout);
