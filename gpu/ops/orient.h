/* orient.h - mirrors and rotations, which move each pixel to another place. */
#pragma once

#include <stdint.h>

/* Maps a result pixel (x, y) to a source pixel. Without `swap`, the source column is x and the row
 * is y; with `swap`, the column is y and the row is x. flip_x counts source columns from the right.
 * flip_y counts source rows from the bottom. */
struct orient {
    uint8_t swap, flip_x, flip_y;
};
