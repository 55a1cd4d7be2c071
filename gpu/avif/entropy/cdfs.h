/*
 * cdfs.h - the probabilities of symbols, and how they adapt (AV1 8.2.6, 8.3).
 *
 * A context of up to 4, 8 or 16 symbols has so many entries: first 32768 times the probabilities
 * that the symbol is at most 0, 1 and so on, but the last, then 32768 as padding. The last entry
 * counts the symbols, up to 32.
 */
#pragma once

#include <string.h>

#include "gpu/avif/entropy/cdf_coefficients.h"
#include "gpu/avif/entropy/cdf_modes.h"
#include "gpu/avif/frame/encoder.h"

/* Contexts, each with the number of its symbols. The order is that of the tables. */
struct avif_cdfs {
    uint16_t y_mode[5][5][16];         /* 13 */
    uint16_t uv_mode[13][16];          /* 13 */
    uint16_t uv_mode_cfl[13][16];      /* 14 */
    uint16_t partition[3][4][16];      /* 10; of sizes 4 to 6 */
    uint16_t cfl_alpha[6][16];         /* 16 */
    uint16_t angle[8][8];              /* 7 */
    uint16_t transform_type[2][13][8]; /* 7; of sizes 2 and 3 */
    uint16_t transform_type_16[13][8]; /* 5 */
    uint16_t cfl_sign[8];              /* 8 */
    uint16_t partition_8[4][4];        /* 4 */
    uint16_t depth_8[3][4];            /* 2 */
    uint16_t depth[3][3][4];           /* 3; of sizes 4 to 6 */
    uint16_t skip[3][4];               /* 2 */
    /* Of coefficients. Plane types: 0 luma, 1 chroma. Sizes: of the transform, from 2 on. */
    uint16_t end_256[2][16];        /* 9 */
    uint16_t end_1024[2][16];       /* 11 */
    uint16_t end_16[2][8];          /* 5 */
    uint16_t end_64[2][8];          /* 7 */
    uint16_t base[5][2][42][4];     /* 4 */
    uint16_t range[4][2][21][4];    /* 4 */
    uint16_t base_last[5][2][4][4]; /* 3 */
    uint16_t end_extra[5][2][9][4]; /* 2 */
    uint16_t zero[5][13][4];        /* 2 */
    uint16_t dc_sign[2][3][4];      /* 2 */
};

enum { CDF_ENTRIES = sizeof(struct avif_cdfs) / sizeof(uint16_t), CDF_COUNT_MAX = 32 };

DEVICE int avif_cdf_entries(int symbols)
{
    return symbols <= 4 ? 4 : symbols <= 8 ? 8 : 16;
}

/* Runs of contexts with the same number of symbols, in the order of the struct. */
struct avif_cdf_run {
    uint8_t symbols;
    uint16_t contexts;
};
CONSTANT struct avif_cdf_run avif_mode_runs[] = {{13, 25}, {13, 13}, {14, 13}, {10, 12}, {16, 6},
                                                 {7, 8},   {7, 26},  {5, 13},  {8, 1},   {4, 4},
                                                 {2, 3},   {3, 9},   {2, 3}};
CONSTANT struct avif_cdf_run avif_coefficient_runs[] = {
    {9, 2}, {11, 2}, {5, 2}, {7, 2}, {4, 420}, {4, 168}, {3, 40}, {2, 90}, {2, 65}, {2, 6}};

/* Copies runs of contexts from a table. Returns the end of the entries. Of each run, only the
 * contexts first, first + step and so on are copied, so that threads can share the work. */
LOOKUP uint16_t *avif_init_cdf_runs(uint16_t *to, const struct avif_cdf_run *runs, int count,
                                    const uint16_t *from, int first, int step)
{
    for (int i = 0; i < count; i++) {
        int values = runs[i].symbols - 1, entries = avif_cdf_entries(runs[i].symbols);
        for (int k = first; k < runs[i].contexts; k += step)
            for (int at = 0; at < entries; at++)
                to[k * entries + at] = at < values        ? from[k * values + at]
                                       : at < entries - 1 ? 32768
                                                          : 0;
        from += runs[i].contexts * values;
        to += runs[i].contexts * entries;
    }
    return to;
}

/* first, step: as avif_init_cdf_runs */
LOOKUP void avif_init_cdfs(struct avif_cdfs *cdfs, int quantiser_index, int first, int step)
{
    int range = quantiser_index <= 20    ? 0
                : quantiser_index <= 60  ? 1
                : quantiser_index <= 120 ? 2
                                         : 3;
    uint16_t *to = (uint16_t *)cdfs;
    to = avif_init_cdf_runs(to, avif_mode_runs, sizeof avif_mode_runs / sizeof *avif_mode_runs,
                            avif_cdf_modes, first, step);
    (void)avif_init_cdf_runs(to, avif_coefficient_runs,
                             sizeof avif_coefficient_runs / sizeof *avif_coefficient_runs,
                             avif_cdf_coefficients[range], first, step);
}

/* Adapts a context to a symbol. */
DEVICE void avif_adapt(uint16_t *cdf, int symbols, int symbol)
{
    uint16_t *counter = cdf + avif_cdf_entries(symbols) - 1;
    int rate = 3 + (*counter > 15) + (*counter > 31) + avif_min(highest_bit((uint32_t)symbols), 2);
    for (int i = 0; i < symbols - 1; i++)
        cdf[i] = (uint16_t)(i < symbol ? cdf[i] - (cdf[i] >> rate)
                                       : cdf[i] + ((32768 - cdf[i]) >> rate));
    *counter = (uint16_t)(*counter + (*counter < CDF_COUNT_MAX));
}
