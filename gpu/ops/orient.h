/* orient.h - mirrors images, and rotates them by multiples of 90 degrees. */
#pragma once

#include <stdint.h>

/* Maps a result pixel (x, y) to a source pixel. Without `swap`, the source column is x and the row
 * is y; with `swap`, the column is y and the row is x. flip_x counts source columns from the right.
 * flip_y counts source rows from the bottom. */
struct orient {
    uint8_t swap, flip_x, flip_y;
};

/*
 * The EXIF orientations (EXIF 2.32, tag 0x0112). For a source of w x h pixels, the result pixel
 * (x, y) comes from the source pixel:
 *
 *     2 (w-1-x, y)    3 (w-1-x, h-1-y)    4 (x, h-1-y)
 *     5 (y, x)        6 (y, h-1-x)        7 (w-1-y, h-1-x)    8 (w-1-y, x)
 */
enum orientation { MIRRORED = 2, TURNED_180, UPSIDE_DOWN, TRANSPOSED, TURNED_90, TURNED_270 = 8 };
