/*
 * palette.h - palettes (AV1 5.11.46 to 5.11.50): a block is predicted from up to 8 colours and an
 * index for each sample.
 */
#pragma once

#include "gpu/avif/frame/encoder.h"

enum { PALETTE_COLOURS_MAX = 8, PALETTE_CONTEXTS = 5 };
enum { PALETTE_LUMA, PALETTE_CHROMA, PALETTES };

struct avif_palette {
    uint8_t count; /* 0: none; or 2 to PALETTE_COLOURS_MAX */
    /* Of luma; or of U and V. Those of luma and U ascend. */
    uint8_t colours[2][PALETTE_COLOURS_MAX];
};

/* The palettes of the block that stages B and C have in work. */
struct avif_palette_block {
    struct avif_palette of[PALETTES];
    uint8_t maps[PALETTES][64 * 64]; /* indices, row after row */
};

/* Returns the context of an index, and its rank in the order that the indices to the left and above
 * give. The position must not be (0, 0). */
DEVICE int avif_palette_context(const uint8_t *map, int side, int x, int y, int *rank)
{
    const uint8_t *at = map + y * side + x;
    int order[3], ordered = 1, context = 0;
    if (x == 0 || y == 0) {
        order[0] = x > 0 ? at[-1] : at[-side];
    } else {
        int left = at[-1], above = at[-side], corner = at[-side - 1];
        bool swap = left == above ? false : above == corner || (left != corner && above < left);
        order[0] = swap ? above : left;
        order[1] = swap ? left : above;
        order[2] = corner;
        if (left == above) {
            order[1] = corner;
            context = left == corner ? 4 : 3;
            ordered = left == corner ? 1 : 2;
        } else {
            context = left == corner || above == corner ? 2 : 1;
            ordered = context == 2 ? 2 : 3;
        }
    }
    int index = *at, passed = 0;
    for (int i = 0; i < ordered; i++) {
        if (order[i] == index) {
            *rank = i;
            return context;
        }
        passed += order[i] < index;
    }
    *rank = ordered + index - passed;
    return context;
}
