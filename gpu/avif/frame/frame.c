/* frame.c - what follows from the size of an image and from its options, before its pixels. */
#include "gpu/avif/frame/encoder.h"

#include <assert.h>

#include "conf/limits.h"
#include "gpu/avif/frame/quantiser.h"

/* Limits of the bitstream, in superblocks (AV1 5.9.15). */
enum {
    TILE_WIDTH_MAX = 4096 / SUPERBLOCK,
    TILE_AREA_MAX = 4096 * 2304 / (SUPERBLOCK * SUPERBLOCK),
    TILES_MAX = 64
};

enum { ALL_TYPES = (1 << TRANSFORM_TYPES) - 1 };

/* Efforts 0 to AVIF_EFFORT_MAX. Against libaom 3.6 at speed 9, files of equal PSNR are smaller by
 * about 16, 24 and 25% (36 photographs), and by 52, 84 and 84% (drawn screenshots): palettes help
 * there. Effort 0 has none, so that kernels need not know them. Its three modes predict gradients
 * badly, so it keeps the levels of low frequencies: without them, smooth areas differ from the
 * source even if the image is seen at a quarter of its size, and SSIMULACRA2 falls. Its other
 * constants fit its own choices best. */
static const struct avif_tools efforts[AVIF_EFFORT_MAX + 1] = {
    {.decides_early = true,
     .types = 1 << DCT_DCT | 1 << IDENTITY,
     .candidates = 1,
     .rounding_dc = 50,
     .rounding = 48,
     .lambda_satd = 1500,
     .lowering = 75,
     .keeps_low = true,
     .luma_bits = 72,
     .by_contrast = true,
     .deblocking = 80,
     .cdef_primary = 88,
     .cdef_secondary = 110,
     .cdef_damping = 4},
    {.smooth = true,
     .diagonals = true,
     .split_transforms = true,
     .palettes = true,
     .by_satd = true,
     .types = ALL_TYPES,
     .candidates = 4,
     .rounding_dc = 45,
     .rounding = 45,
     .lambda_satd = 500,
     .lowering = 50,
     .luma_bits = 100,
     .deblocking = 100,
     .cdef_primary = 100,
     .cdef_secondary = 100,
     .cdef_damping = 3},
    {.smooth = true,
     .diagonals = true,
     .split_transforms = true,
     .palettes = true,
     .types = ALL_TYPES,
     .candidates = 4,
     .rounding_dc = 45,
     .rounding = 45,
     .lambda_satd = 500,
     .lowering = 50,
     .luma_bits = 100,
     .deblocking = 100,
     .cdef_primary = 100,
     .cdef_secondary = 100,
     .cdef_damping = 3},
};

/* ---- tiles ---- */

/* The smallest k with unit << k >= size. */
static int log2_covering(int unit, int size)
{
    int k = 0;
    while (unit << k < size)
        k++;
    return k;
}

static int divide_up(int a, int b)
{
    return (a + b - 1) / b;
}

/* As few uniformly spaced tiles as the limits allow. Returns false if there would be too many. */
static bool set_tiles(struct avif_frame *frame)
{
    struct avif_tiles *tiles = &frame->tiles;
    int across = frame->superblocks_x, down = frame->superblocks_y;
    tiles->columns_log2_min = log2_covering(TILE_WIDTH_MAX, across);
    tiles->columns_log2_max = log2_covering(1, avif_min(across, TILES_MAX));
    tiles->rows_log2_max = log2_covering(1, avif_min(down, TILES_MAX));
    int least = log2_covering(TILE_AREA_MAX, across * down);
    least = avif_max(least, tiles->columns_log2_min);
    tiles->columns_log2 = tiles->columns_log2_min;
    tiles->rows_log2_min = tiles->rows_log2 = avif_max(least - tiles->columns_log2, 0);
    tiles->width = divide_up(across, 1 << tiles->columns_log2);
    tiles->height = divide_up(down, 1 << tiles->rows_log2);
    /* Rounded up, the sides may have a larger product than the limit. */
    while (tiles->width * tiles->height > TILE_AREA_MAX && tiles->height > 1)
        tiles->height = divide_up(down, 1 << ++tiles->rows_log2);
    tiles->columns = divide_up(across, tiles->width);
    tiles->rows = divide_up(down, tiles->height);
    return tiles->rows_log2 <= tiles->rows_log2_max;
}

/* ---- strengths ---- */

/* Returns the error from which on it does not pay to lower a level: the least error for which the
 * squares of error and error + step differ by the cost of the bits. */
static int lowered_below(int64_t cost, int step)
{
    int64_t excess = cost - (int64_t)step * step, twice = 2 * step;
    return (int)(excess < 0 ? -(-excess / twice) : (excess + twice - 1) / twice);
}

static void set_lowered(const struct avif_tools *tools, struct avif_quantiser *to)
{
    static const int saved[LOWER_CLASSES] = {88, 64, 48, 32, 24, 14};
    for (int i = 0; i < 2; i++)
        for (int group = 0; group < LOWER_CLASSES; group++)
            to->lowered[i][group] =
                lowered_below(avif_cost_of(to, saved[group]) * tools->lowering / 100, to->steps[i]);
}

static void set_quantiser(int index, const struct avif_tools *tools, struct avif_quantiser *to)
{
    /* Per cent of a step, and thousandths of a squared step per bit. */
    enum { round_cost = 40, lambda = 90 };
    int step = avif_ac_steps[index];
    to->index = index;
    to->steps[0] = avif_dc_steps[index];
    to->steps[1] = step;
    to->inverse[0] = (uint32_t)((((uint64_t)1 << 32) + to->steps[0] - 1) / to->steps[0]);
    to->inverse[1] = (uint32_t)((((uint64_t)1 << 32) + step - 1) / step);
    to->rounding[0] = to->steps[0] * tools->rounding_dc / 100;
    to->rounding[1] = step * tools->rounding / 100;
    to->cost_rounding = step * round_cost / 100;
    to->lambda = ((int64_t)step * step * lambda << COST_BITS) / (1000 * 16);
    to->keeps_low = tools->keeps_low;
    set_lowered(tools, to);
    to->lambda_satd = (int)(((int64_t)step * tools->lambda_satd << COST_BITS) / (1000 * 16));
}

void avif_set_quantisers(const struct avif_frame *frame, struct avif_quantiser to[ACTIVITIES])
{
    /* Per cent of the usual cost: about 2^(activity / 4), and that to the power of 1.2. */
    static const int costs[2][ACTIVITIES] = {
        {74, 88, 105, 125, 149, 177, 210, 250, 297, 354},
        {69, 85, 106, 130, 161, 198, 243, 300, 369, 455},
    };
    const int *of = costs[frame->tools.by_contrast];
    for (int i = 0; i < ACTIVITIES; i++) {
        to[i] = frame->quantiser;
        to[i].lambda = to[i].lambda * of[i] * frame->tools.luma_bits / (100 * 100);
        set_lowered(&frame->tools, &to[i]);
    }
}

/* As libaom's fast levels for still pictures: all grow with the step. */
static void set_filters(const struct avif_frame *frame, struct avif_filters *to)
{
    const struct avif_tools *tools = &frame->tools;
    int step = frame->quantiser.steps[1], deblocked = step * tools->deblocking / 100;
    int eighth = step * tools->cdef_secondary / 800;
    int64_t level = (((int64_t)deblocked * 20723 + 1015158 + (1 << 17)) >> 18) - 4;
    to->deblocking = level < 0 ? 0 : level > 63 ? 63 : (int)level;
    to->cdef_primary = avif_min(15, step * tools->cdef_primary / 3200);
    to->cdef_secondary = eighth > 40 ? 2 : eighth > 12 ? 1 : 0;
}

/* ---- frame ---- */

bool avif_frame_set(struct avif_frame *frame, uint32_t width, uint32_t height, uint32_t channels,
                    const struct avif_encode_options *options)
{
    assert(options->quality >= 1 && options->quality <= 99);
    assert(options->effort >= 0 && options->effort <= AVIF_EFFORT_MAX);
    if (width < 1 || height < 1 || width > SIDE_CEILING || height > SIDE_CEILING)
        return false;
    *frame = (struct avif_frame){.width = width, .height = height};
    frame->planes = channels == 1 ? 1 : PLANES;
    frame->cells_x = (int)(width + 7) / 8;
    frame->cells_y = (int)(height + 7) / 8;
    frame->superblocks_x = divide_up((int)width, SUPERBLOCK);
    frame->superblocks_y = divide_up((int)height, SUPERBLOCK);
    frame->tools = efforts[options->effort];
    set_quantiser(avif_quantiser_index(options->quality), &frame->tools, &frame->quantiser);
    frame->filters.cdef_damping = frame->tools.cdef_damping;
    if (!options->unfiltered)
        set_filters(frame, &frame->filters);
    return set_tiles(frame);
}

int avif_level(const struct avif_frame *frame)
{
    enum { any = 31, side_min = 16, cropped_tile_min = 8 };
    /* AV1 annex A.3, without rates. */
    static const struct {
        int level;
        uint32_t area, width, height;
        int tiles, columns;
    } levels[] = {
        {0, 147456, 2048, 1152, 8, 4},        {1, 278784, 2816, 1584, 8, 4},
        {4, 665856, 4352, 2448, 16, 6},       {5, 1065024, 5504, 3096, 16, 6},
        {8, 2359296, 6144, 3456, 32, 8},      {12, 8912896, 8192, 4352, 64, 8},
        {16, 35651584, 16384, 8704, 128, 16},
    };
    const struct avif_tiles *tiles = &frame->tiles;
    uint32_t last_x = frame->width - (uint32_t)((tiles->columns - 1) * tiles->width * SUPERBLOCK);
    uint32_t last_y = frame->height - (uint32_t)((tiles->rows - 1) * tiles->height * SUPERBLOCK);
    if (frame->width < side_min || frame->height < side_min || last_x < cropped_tile_min ||
        last_y < cropped_tile_min)
        return any;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if ((uint64_t)frame->width * frame->height <= levels[i].area &&
            frame->width <= levels[i].width && frame->height <= levels[i].height &&
            tiles->columns * tiles->rows <= levels[i].tiles && tiles->columns <= levels[i].columns)
            return levels[i].level;
    return any;
}
