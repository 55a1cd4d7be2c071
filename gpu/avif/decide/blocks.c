/* blocks.c - stage B: decides on the mode of a block by its real edges, and reconstructs it. */
#include "gpu/avif/decide/coding.h"

#include <string.h>

#include "gpu/avif/decide/decide.h"
#include "gpu/avif/decide/palettes.h"
#include "gpu/avif/predict/modes.h"
#include "gpu/avif/transform/levels.h"
#include "gpu/avif/transform/transform.h"

/* Transforms with each type that is searched. Leaves the best one in *trial, and returns its cost;
 * spare: another trial's coefficients, for the work */
static int64_t choose_type(const struct avif_coding *coding, int mode, int x, int y, int size,
                           struct avif_trial *trial, struct avif_coefficients *spare, int *type)
{
    const struct avif_encoder *encoder = coding->encoder;
    const struct avif_quantiser *quantiser = &encoder->frame.quantiser;
    unsigned types = size <= 4 ? encoder->frame.tools.types : 1 << DCT_DCT;
    *type = types >> avif_mode_type(mode) & 1 ? avif_mode_type(mode) : DCT_DCT;
    avif_transform_at(coding, 0, x, y, size, *type, trial->prediction, &trial->coefficients);
    int64_t least = encoder->kernels->cost(&trial->coefficients, size, quantiser);
    int usual = *type;
    for (int other = 0; other < TRANSFORM_TYPES; other++) {
        if (other == usual || !(types >> other & 1))
            continue;
        avif_transform_at(coding, 0, x, y, size, other, trial->prediction, spare);
        int64_t cost = encoder->kernels->cost(spare, size, quantiser) +
                       avif_cost_of(quantiser, BITS_TRANSFORM_TYPE);
        if (cost < least) {
            least = cost;
            *type = other;
            trial->coefficients = *spare;
        }
    }
    return least;
}

/* Returns the index of the candidate whose SATD is the least. */
static int choose_by_satd(const struct avif_coding *coding, const struct avif_choice *choice,
                          const struct avif_edges *edges, bool smooth, uint8_t *prediction)
{
    const struct avif_encoder *encoder = coding->encoder;
    const struct avif_plane *source = &encoder->source[0];
    size_t side = (size_t)1 << coding->size;
    int best = 0, least = INT32_MAX;
    for (int i = 0; choice->count > 1 && i < choice->count; i++) {
        int mode = choice->modes[i], delta = choice->deltas[i];
        encoder->kernels->predict(edges, coding->size, mode, delta, smooth, prediction, side);
        int cost = encoder->kernels->satd(avif_sample_at(source, coding->x, coding->y),
                                          source->stride, prediction, side, coding->size);
        cost +=
            (int)(((int64_t)encoder->frame.quantiser.lambda_satd * avif_mode_bits(mode, delta)) >>
                  COST_BITS);
        if (cost < least) {
            least = cost;
            best = i;
        }
    }
    return best;
}

/* Takes the mode and the type that stage A has chosen. */
static void take_choice(struct avif_coding *coding, const struct avif_choice *choice,
                        const struct avif_edges *edges, bool smooth, struct avif_trial *trial)
{
    coding->block->mode = choice->modes[0];
    coding->block->delta = choice->deltas[0];
    coding->block->types[0] = choice->type;
    coding->encoder->kernels->predict(edges, coding->size, choice->modes[0], choice->deltas[0],
                                      smooth, trial->prediction, (size_t)1 << coding->size);
    avif_transform_at(coding, 0, coding->x, coding->y, coding->size, choice->type,
                      trial->prediction, &trial->coefficients);
}

/* Chooses the mode, and the type of the whole block's transform. Returns the trial of it: one of
 * two. */
static const struct avif_trial *choose_mode(struct avif_coding *coding,
                                            const struct avif_choice *choice, bool smooth,
                                            struct avif_trial trials[2])
{
    const struct avif_encoder *encoder = coding->encoder;
    struct avif_edges edges;
    struct avif_coefficients spare;
    int first = 0, end = choice->count, current = 0;
    int64_t least = INT64_MAX;
    avif_gather_coding(coding, 0, coding->x, coding->y, coding->size, &edges);
    if (encoder->frame.tools.decides_early) {
        take_choice(coding, choice, &edges, smooth, &trials[0]);
        return &trials[0];
    }
    if (encoder->frame.tools.by_satd) {
        first = choose_by_satd(coding, choice, &edges, smooth, trials[0].prediction);
        end = first + 1;
    }
    for (int i = first; i < end; i++) {
        int mode = choice->modes[i], delta = choice->deltas[i], type;
        encoder->kernels->predict(&edges, coding->size, mode, delta, smooth,
                                  trials[current].prediction, (size_t)1 << coding->size);
        int64_t cost = choose_type(coding, mode, coding->x, coding->y, coding->size,
                                   &trials[current], &spare, &type);
        cost += avif_cost_of(&encoder->frame.quantiser, avif_mode_bits(mode, delta));
        if (cost < least) {
            least = cost;
            coding->block->mode = (uint8_t)mode;
            coding->block->delta = (int8_t)delta;
            coding->block->types[0] = (uint8_t)type;
            current ^= 1;
        }
    }
    return &trials[current ^ 1];
}

static void code_split(struct avif_coding *coding, bool smooth, struct avif_trial *trial,
                       int16_t *levels)
{
    const struct avif_encoder *encoder = coding->encoder;
    struct avif_block *block = coding->block;
    int size = coding->size - 1, side = 1 << size;
    for (int i = 0; i < 4; i++) {
        struct avif_edges edges;
        struct avif_coefficients spare;
        int x = coding->x + (i & 1) * side, y = coding->y + (i >> 1) * side, type;
        if (x >= 8 * encoder->frame.cells_x || y >= 8 * encoder->frame.cells_y)
            continue;
        avif_gather_coding(coding, 0, x, y, size, &edges);
        encoder->kernels->predict(&edges, size, block->mode, block->delta, smooth,
                                  trial->prediction, (size_t)side);
        (void)choose_type(coding, block->mode, x, y, size, trial, &spare, &type);
        block->types[i] = (uint8_t)type;
        block->ends[i] = (uint16_t)avif_code_transform(coding, 0, x, y, size, type, trial,
                                                       levels + i * side * side);
    }
}

/* Predicts the block from the palette that stage A has found. */
static const struct avif_trial *take_palette(struct avif_coding *coding,
                                             struct avif_trial trials[2])
{
    struct avif_palette_block *palettes = coding->encoder->palettes;
    uint8_t *map = palettes->maps[PALETTE_LUMA];
    int64_t bits;
    int type;
    (void)avif_find_palette(coding->encoder, PALETTE_LUMA, coding->x, coding->y, coding->size,
                            palettes->of, map, &bits);
    avif_predict_palette(palettes->of[PALETTE_LUMA].colours[0], map, coding->size,
                         trials[0].prediction);
    (void)choose_type(coding, DC_PRED, coding->x, coding->y, coding->size, &trials[0],
                      &trials[1].coefficients, &type);
    coding->block->mode = DC_PRED;
    coding->block->types[0] = (uint8_t)type;
    return &trials[0];
}

static void code_luma(struct avif_coding *coding)
{
    const struct avif_choice *choice =
        avif_choice_at(coding->encoder, coding->x, coding->y, coding->size);
    int16_t *levels = avif_levels_of(coding->encoder, 0, coding->x, coding->y);
    struct avif_block *block = coding->block;
    struct avif_trial trials[2];
    bool smooth = avif_smooth_neighbour(coding, false);
    memset(coding->encoder->palettes->of, 0, sizeof coding->encoder->palettes->of);
    const struct avif_trial *best = choice->palette ? take_palette(coding, trials)
                                                    : choose_mode(coding, choice, smooth, trials);
    block->transform_size = (uint8_t)(coding->size - choice->split_transform);
    if (choice->split_transform)
        code_split(coding, smooth, &trials[0], levels);
    else
        block->ends[0] = (uint16_t)avif_code_transform(coding, 0, coding->x, coding->y,
                                                       coding->size, block->types[0], best, levels);
}

void avif_code_block(struct avif_encoder *encoder, const struct avif_bounds *tile, int x, int y,
                     int size)
{
    struct avif_block block = {.size = (uint8_t)size};
    struct avif_coding coding = {encoder, tile, x, y, size, &block, false};
    code_luma(&coding);
    if (encoder->frame.planes > 1)
        avif_code_chroma(&coding);
    block.skip = !coding.any;
    int right = avif_min(x + (1 << size), 8 * encoder->frame.cells_x);
    int bottom = avif_min(y + (1 << size), 8 * encoder->frame.cells_y);
    for (int top = y; top < bottom; top += 8)
        for (int left = x; left < right; left += 8)
            *avif_block_at(encoder, left, top) = block;
}
