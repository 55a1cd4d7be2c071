/* chroma.c - the chroma planes of a block in stage B. */
#include <string.h>

#include "gpu/avif/decide/coding.h"
#include "gpu/avif/decide/palettes.h"
#include "gpu/avif/predict/cfl.h"
#include "gpu/avif/predict/modes.h"
#include "gpu/avif/transform/levels.h"
#include "gpu/avif/transform/transform.h"

/* The best mode so far, and the one that is tried. */
struct chroma {
    struct avif_coding *coding;
    struct avif_edges edges[2];
    struct avif_trial trials[2][2]; /* [which][plane - 1] */
    int which;                      /* the trial that may be overwritten */
    int64_t least;
    int x, y, size;
    bool smooth;
};

static int type_of(int mode, int size)
{
    return size <= 4 ? avif_mode_type(mode) : DCT_DCT;
}

static void predict_both(struct chroma *chroma, int mode, int delta)
{
    for (int i = 0; i < 2; i++)
        chroma->coding->encoder->kernels->predict(
            &chroma->edges[i], chroma->size, mode, delta, chroma->smooth,
            chroma->trials[chroma->which][i].prediction, (size_t)1 << chroma->size);
}

/* Compares the predictions that are in the trial with the best mode so far. Returns whether they
 * are better. */
static bool compare(struct chroma *chroma, int mode, int delta, const int alphas[2], int bits)
{
    const struct avif_encoder *encoder = chroma->coding->encoder;
    struct avif_block *block = chroma->coding->block;
    int64_t cost = avif_cost_of(&encoder->frame.quantiser, bits);
    for (int i = 0; i < 2; i++) {
        struct avif_trial *trial = &chroma->trials[chroma->which][i];
        avif_transform_at(chroma->coding, i + 1, chroma->x, chroma->y, chroma->size,
                          type_of(mode, chroma->size), trial->prediction, &trial->coefficients);
        cost +=
            encoder->kernels->cost(&trial->coefficients, chroma->size, &encoder->frame.quantiser);
    }
    if (cost >= chroma->least)
        return false;
    chroma->least = cost;
    chroma->which ^= 1;
    block->uv_mode = (uint8_t)mode;
    block->uv_delta = (int8_t)delta;
    block->cfl[0] = (int8_t)alphas[0];
    block->cfl[1] = (int8_t)alphas[1];
    return true;
}

/* Chroma from luma with the alphas that fit best. */
struct fit {
    int16_t luma[32 * 32] __attribute__((aligned(AVIF_KERNEL_ALIGN)));
    int dc[2], alphas[2]; /* in eighths */
    int bits;
    int64_t gain; /* about, over DC */
};

static void fit_plane(const struct chroma *chroma, int plane, struct fit *fit)
{
    const struct avif_plane *source = &chroma->coding->encoder->source[plane + 1];
    const uint8_t *at = avif_sample_at(source, chroma->x, chroma->y);
    int side = 1 << chroma->size;
    int product = 0, square = 0; /* 256 times 2^22 at most */
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++) {
            int value = fit->luma[y * side + x];
            square += value * value;
            product += value * (at[(size_t)y * source->stride + (size_t)x] - fit->dc[plane]);
        }
    fit->alphas[plane] = avif_cfl_alpha(product, square);
    fit->gain += avif_cfl_gain(fit->alphas[plane], product, square);
}

/* dc: is set */
static void make_fit(const struct chroma *chroma, struct fit *fit)
{
    const struct avif_coding *coding = chroma->coding;
    const struct avif_frame *frame = &coding->encoder->frame;
    int transform_size = coding->block->transform_size;
    avif_cfl_luma(&coding->encoder->reconstruction[0], coding->x, coding->y, chroma->size,
                  avif_cfl_end(coding->x, coding->size, transform_size, 8 * frame->cells_x),
                  avif_cfl_end(coding->y, coding->size, transform_size, 8 * frame->cells_y),
                  fit->luma);
    fit->bits = BITS_CFL;
    fit->gain = 0;
    for (int i = 0; i < 2; i++) {
        fit_plane(chroma, i, fit);
        fit->bits += fit->alphas[i] ? BITS_CFL_ALPHA : 0;
    }
}

static void predict_fit(struct chroma *chroma, const struct fit *fit)
{
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 1 << (2 * chroma->size); k++)
            chroma->trials[chroma->which][i].prediction[k] =
                (uint8_t)avif_clip(fit->dc[i] + avif_cfl_part(fit->alphas[i], fit->luma[k]));
}

static void try_palette(struct chroma *chroma)
{
    static const int none[2] = {0, 0};
    const struct avif_coding *coding = chroma->coding;
    struct avif_palette_block *palettes = coding->encoder->palettes;
    struct avif_palette *palette = &palettes->of[PALETTE_CHROMA];
    uint8_t *map = palettes->maps[PALETTE_CHROMA];
    int64_t bits;
    if (avif_find_palette(coding->encoder, PALETTE_CHROMA, coding->x, coding->y, coding->size,
                          palette, map, &bits) == INT64_MAX)
        return;
    for (int i = 0; i < 2; i++)
        avif_predict_palette(palette->colours[i], map, chroma->size,
                             chroma->trials[chroma->which][i].prediction);
    if (!compare(chroma, DC_PRED, 0, none, (int)bits))
        palette->count = 0;
}

/* Takes chroma from luma if it gains more than its bits cost, else the DC prediction that is in the
 * trial. */
static void decide_early(struct chroma *chroma, struct fit *fit)
{
    const struct avif_encoder *encoder = chroma->coding->encoder;
    const struct avif_quantiser *quantiser = &encoder->frame.quantiser;
    struct avif_block *block = chroma->coding->block;
    block->uv_mode = DC_PRED;
    if (chroma->coding->size <= 5) {
        make_fit(chroma, fit);
        if (fit->gain >
            avif_cost_of(quantiser, fit->bits) - avif_cost_of(quantiser, BITS_CHROMA_MODE)) {
            predict_fit(chroma, fit);
            block->uv_mode = CFL_PRED;
            block->cfl[0] = (int8_t)fit->alphas[0];
            block->cfl[1] = (int8_t)fit->alphas[1];
        }
    }
    for (int i = 0; i < 2; i++) {
        struct avif_trial *trial = &chroma->trials[chroma->which][i];
        avif_transform_at(chroma->coding, i + 1, chroma->x, chroma->y, chroma->size, DCT_DCT,
                          trial->prediction, &trial->coefficients);
    }
    chroma->which ^= 1;
}

/* Compares DC, luma's mode, chroma from luma, and a palette. */
static void choose_mode(struct chroma *chroma, struct fit *fit)
{
    static const int none[2] = {0, 0};
    const struct avif_block *block = chroma->coding->block;
    (void)compare(chroma, DC_PRED, 0, none, BITS_CHROMA_MODE);
    if (block->mode != DC_PRED) {
        int angle = avif_is_directional(block->mode) ? BITS_CHROMA_ANGLE : 0;
        predict_both(chroma, block->mode, block->delta);
        (void)compare(chroma, block->mode, block->delta, none, BITS_CHROMA_MODE + angle);
    }
    if (chroma->coding->size <= 5) {
        make_fit(chroma, fit);
        if (fit->alphas[0] != 0 || fit->alphas[1] != 0) {
            predict_fit(chroma, fit);
            (void)compare(chroma, CFL_PRED, 0, fit->alphas, fit->bits);
        }
    }
    if (chroma->coding->encoder->frame.palettes)
        try_palette(chroma);
}

void avif_code_chroma(struct avif_coding *coding)
{
    struct avif_block *block = coding->block;
    struct chroma chroma = {.coding = coding, .least = INT64_MAX, .x = coding->x / 2};
    struct fit fit;
    chroma.y = coding->y / 2;
    chroma.size = coding->size - 1;
    chroma.smooth = avif_smooth_neighbour(coding, true);
    for (int i = 0; i < 2; i++)
        avif_gather_coding(coding, i + 1, chroma.x, chroma.y, chroma.size, &chroma.edges[i]);
    predict_both(&chroma, DC_PRED, 0);
    for (int i = 0; i < 2; i++)
        fit.dc[i] = chroma.trials[0][i].prediction[0];
    if (coding->encoder->frame.tools.decides_early)
        decide_early(&chroma, &fit);
    else
        choose_mode(&chroma, &fit);
    for (int i = 0; i < 2; i++) {
        int16_t *levels = avif_levels_of(coding->encoder, i + 1, coding->x, coding->y);
        block->ends[4 + i] = (uint16_t)avif_code_transform(
            coding, i + 1, chroma.x, chroma.y, chroma.size, type_of(block->uv_mode, chroma.size),
            &chroma.trials[chroma.which ^ 1][i], levels);
    }
}
