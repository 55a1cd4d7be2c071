/*
 * analyse.c - stage A: chooses the partition of a superblock and the candidates of its blocks.
 *
 * The predictions are from the proxy, so that blocks do not depend on each other.
 */
#include <string.h>

#include "gpu/avif/decide/decide.h"
#include "gpu/avif/decide/palettes.h"
#include "gpu/avif/kernels/kernels.h"
#include "gpu/avif/predict/modes.h"
#include "gpu/avif/transform/levels.h"

/* A superblock that is analysed. */
struct analysis {
    const struct avif_encoder *encoder;
    const struct avif_bounds *tile;
};

/* A block whose modes are compared. */
struct search {
    const struct analysis *analysis;
    const struct avif_edges *edges;
    const uint8_t *source;
    int size;
    struct avif_choice *best; /* sorted by cost */
    int costs[CANDIDATES_MAX];
    int kept; /* at most so many */
};

static void gather(const struct analysis *a, int block_x, int block_y, int block_size, int x, int y,
                   int size, struct avif_edges *edges)
{
    const struct avif_frame *frame = &a->encoder->frame;
    struct avif_neighbours decoded =
        avif_neighbours_of(a->tile, 0, block_x, block_y, block_size, x, y, size);
    avif_gather_edges(&a->encoder->proxy, x, y, size, decoded, 8 * frame->cells_x,
                      8 * frame->cells_y, edges);
}

/* Inserts a mode into the candidates, after those that cost the same. */
static void keep(struct search *search, int cost, int mode, int delta)
{
    struct avif_choice *best = search->best;
    int at = best->count < search->kept ? best->count++ : search->kept;
    if (at == search->kept && cost >= search->costs[at - 1])
        return;
    at = at == search->kept ? at - 1 : at;
    for (; at > 0 && cost < search->costs[at - 1]; at--) {
        search->costs[at] = search->costs[at - 1];
        best->modes[at] = best->modes[at - 1];
        best->deltas[at] = best->deltas[at - 1];
    }
    search->costs[at] = cost;
    best->modes[at] = (uint8_t)mode;
    best->deltas[at] = (int8_t)delta;
}

static int try_mode(struct search *search, int mode, int delta)
{
    const struct avif_encoder *encoder = search->analysis->encoder;
    const struct avif_kernels *kernels = encoder->kernels;
    uint8_t prediction[64 * 64] __attribute__((aligned(AVIF_KERNEL_ALIGN)));
    size_t stride = (size_t)1 << search->size;
    kernels->predict(search->edges, search->size, mode, delta, false, prediction, stride);
    int cost =
        kernels->satd(search->source, encoder->source[0].stride, prediction, stride, search->size);
    cost += (int)(((int64_t)encoder->frame.quantiser.lambda_satd * avif_mode_bits(mode, delta)) >>
                  COST_BITS);
    keep(search, cost, mode, delta);
    return cost;
}

/* Whether all samples of the block are equal. */
static bool is_flat(const struct search *search)
{
    size_t stride = search->analysis->encoder->source[0].stride, side = (size_t)1 << search->size;
    for (size_t y = 0; y < side; y++)
        for (size_t x = 0; x < side; x++)
            if (search->source[y * stride + x] != search->source[0])
                return false;
    return true;
}

/* Compares the modes, and the angles next to the best of the eight directions. Flat
 * blocks have only the first three: SATD would overrate directions of slightly better colours. */
static void try_modes(struct search *search)
{
    const struct avif_tools *tools = &search->analysis->encoder->frame.tools;
    int costs[D67_PRED + 1], best = V_PRED;
    (void)try_mode(search, DC_PRED, 0);
    costs[V_PRED] = try_mode(search, V_PRED, 0);
    costs[H_PRED] = try_mode(search, H_PRED, 0);
    if (is_flat(search))
        return;
    if (tools->smooth)
        (void)try_mode(search, SMOOTH_PRED, 0);
    if (!tools->diagonals || search->size > 5)
        return;
    for (int mode = D45_PRED; mode <= D67_PRED; mode++)
        costs[mode] = try_mode(search, mode, 0);
    for (int mode = H_PRED; mode <= D67_PRED; mode++)
        best = costs[mode] < costs[best] ? mode : best;
    int less = try_mode(search, best, -2), more = try_mode(search, best, 2);
    int sign = less < more ? -1 : 1;
    (void)try_mode(search, best, sign);
    (void)try_mode(search, best, 3 * sign);
}

/* Returns the cost of the levels of a transform block, which is predicted from `edges`. */
static int64_t cost_of(const struct analysis *a, const struct avif_edges *edges, int x, int y,
                       int size, int mode, int delta, int type)
{
    const struct avif_kernels *kernels = a->encoder->kernels;
    const struct avif_plane *source = &a->encoder->source[0];
    struct avif_coefficients coefficients;
    uint8_t prediction[64 * 64] __attribute__((aligned(AVIF_KERNEL_ALIGN)));
    size_t stride = (size_t)1 << size;
    kernels->predict(edges, size, mode, delta, false, prediction, stride);
    kernels->transform(avif_sample_at(source, x, y), source->stride, prediction, stride, size, type,
                       &coefficients);
    return kernels->cost(&coefficients, size, &a->encoder->frame.quantiser);
}

/* Returns the cost of four transforms with the block's best mode. */
static int64_t cost_split(const struct analysis *a, const struct avif_choice *choice, int x, int y,
                          int size)
{
    int half = 1 << (size - 1);
    int64_t cost = avif_cost_of(&a->encoder->frame.quantiser, BITS_TRANSFORM_SPLIT);
    for (int i = 0; i < 4; i++) {
        struct avif_edges edges;
        int left = x + (i & 1) * half, top = y + (i >> 1) * half;
        gather(a, x, y, size, left, top, size - 1, &edges);
        cost +=
            cost_of(a, &edges, left, top, size - 1, choice->modes[0], choice->deltas[0], DCT_DCT);
    }
    return cost;
}

/* Returns the cost of a block's chroma, predicted as DC from the source around it. */
static int64_t cost_chroma(const struct analysis *a, int x, int y, int size)
{
    const struct avif_encoder *encoder = a->encoder;
    const struct avif_frame *frame = &encoder->frame;
    int left = x / 2, top = y / 2, bits = size - 1;
    int64_t cost = 0;
    for (int i = 1; i < frame->planes; i++) {
        const struct avif_plane *source = &encoder->source[i];
        struct avif_edges edges;
        struct avif_coefficients coefficients;
        uint8_t prediction[32 * 32] __attribute__((aligned(AVIF_KERNEL_ALIGN)));
        size_t stride = (size_t)1 << bits;
        struct avif_neighbours decoded =
            avif_neighbours_of(a->tile, 1, left, top, bits, left, top, bits);
        avif_gather_edges(source, left, top, bits, decoded, 4 * frame->cells_x, 4 * frame->cells_y,
                          &edges);
        encoder->kernels->predict(&edges, bits, DC_PRED, 0, false, prediction, stride);
        encoder->kernels->transform(avif_sample_at(source, left, top), source->stride, prediction,
                                    stride, bits, DCT_DCT, &coefficients);
        cost += encoder->kernels->cost(&coefficients, bits, &frame->quantiser);
    }
    return cost;
}

/* Chooses the candidates of a block. Returns the cost of the best one. */
static int64_t analyse_block(const struct analysis *a, struct avif_choice *choice, int x, int y,
                             int size)
{
    const struct avif_frame *frame = &a->encoder->frame;
    const struct avif_plane *source = &a->encoder->source[0];
    struct avif_edges edges;
    gather(a, x, y, size, x, y, size, &edges);
    struct search search = {.analysis = a, .edges = &edges, .size = size, .best = choice};
    search.source = avif_sample_at(source, x, y);
    search.kept = frame->tools.candidates;
    try_modes(&search);
    int mode = choice->modes[0], delta = choice->deltas[0];
    int64_t cost = cost_of(a, &edges, x, y, size, mode, delta, DCT_DCT);
    if (frame->tools.decides_early && size <= 4) {
        int64_t other = cost_of(a, &edges, x, y, size, mode, delta, IDENTITY) +
                        avif_cost_of(&frame->quantiser, BITS_TRANSFORM_TYPE);
        choice->type = other < cost ? IDENTITY : DCT_DCT;
        cost = other < cost ? other : cost;
    }
    if (frame->tools.split_transforms) {
        int64_t split = cost_split(a, choice, x, y, size);
        choice->split_transform = split < cost;
        cost = split < cost ? split : cost;
    }
    int bits = avif_mode_bits(mode, delta) + (size == 3 ? BITS_PARTITION_8 : BITS_PARTITION);
    cost += avif_cost_of(&frame->quantiser, bits);
    if (frame->palettes) {
        struct avif_palette_block *palettes = a->encoder->palettes;
        int64_t palette_bits,
            other = avif_find_palette(a->encoder, PALETTE_LUMA, x, y, size, palettes->of,
                                      palettes->maps[PALETTE_LUMA], &palette_bits);
        choice->palette = other < cost;
        choice->split_transform &= !choice->palette;
        cost = choice->palette ? other : cost;
    }
    return cost;
}

/* Whether four blocks save chroma more than they cost luma. A block whose luma has four transforms
 * would code chroma in one, at a high price if its quarters have different colours. */
static bool chroma_splits(const struct analysis *a, int x, int y, int size, int64_t luma_cost)
{
    const struct avif_frame *frame = &a->encoder->frame;
    int half = 1 << (size - 1);
    int64_t parts = 0;
    for (int i = 0; i < 4; i++) {
        int left = x + (i & 1) * half, top = y + (i >> 1) * half;
        if (left < 8 * frame->cells_x && top < 8 * frame->cells_y)
            parts += cost_chroma(a, left, top, size - 1);
    }
    return parts + luma_cost < cost_chroma(a, x, y, size);
}

/* Returns the least cost of the block and all blocks in it. */
static int64_t analyse(const struct analysis *a, int x, int y, int size)
{
    const struct avif_frame *frame = &a->encoder->frame;
    int half = 1 << (size - 1), right = 8 * frame->cells_x, bottom = 8 * frame->cells_y;
    if (x >= right || y >= bottom)
        return 0;
    struct avif_choice *choice = avif_choice_at(a->encoder, x, y, size);
    bool whole = x + half < right && y + half < bottom;
    int64_t cost = whole ? analyse_block(a, choice, x, y, size) : INT64_MAX;
    if (size == BLOCK_SIZE_MIN)
        return cost;
    int64_t split = avif_cost_of(&frame->quantiser, size == 4 ? BITS_PARTITION_16 : BITS_PARTITION);
    for (int i = 0; i < 4; i++)
        split += analyse(a, x + (i & 1) * half, y + (i >> 1) * half, size - 1);
    choice->split =
        split <= cost || (choice->split_transform && chroma_splits(a, x, y, size, split - cost));
    return choice->split ? split : cost;
}

void avif_analyse(struct avif_encoder *encoder, const struct avif_bounds *tile, int x, int y)
{
    struct analysis a = {encoder, tile};
    memset(avif_choice_at(encoder, x, y, SUPERBLOCK_SIZE), 0, CHOICES * sizeof(struct avif_choice));
    (void)analyse(&a, x, y, SUPERBLOCK_SIZE);
}
