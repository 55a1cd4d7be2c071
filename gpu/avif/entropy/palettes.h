/* palettes.h - stage C of palettes, for images that may have them (AV1 5.11.46, 5.11.49). */
#pragma once

#include "gpu/avif/entropy/tokeniser.h"
#include "gpu/avif/predict/palette.h"

/* Contexts, each with the number of its symbols; of square blocks, from size 3 on. */
struct avif_palette_cdfs {
    uint16_t has_luma[4][3][4];       /* 2 */
    uint16_t has_chroma[2][4];        /* 2 */
    uint16_t size[PALETTES][4][8];    /* 7 */
    uint16_t few[PALETTES][3][5][4];  /* 2, 3 and 4: as many as the palette has colours */
    uint16_t many[PALETTES][4][5][8]; /* 5 to 8 */
};

/* The contexts of palettes follow the others. */
struct avif_all_cdfs {
    struct avif_cdfs common;
    struct avif_palette_cdfs palettes;
};

void avif_init_palette_cdfs(struct avif_palette_cdfs *cdfs);

/* The palettes above and to the left of a block. */
struct avif_palette_neighbours {
    struct avif_palette (*above)[PALETTES]; /* by 8 columns of the tile */
    struct avif_palette left[8][PALETTES];  /* by 8 rows of the superblock */
};

/* Appends the tokens of the palettes and indices of a block, which follow those of its modes. */
void avif_tokenise_palettes(struct avif_tokeniser *to, struct avif_palette_neighbours *neighbours,
                            int x, int y);
