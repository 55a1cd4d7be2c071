/* colour.c - chooses the passes of to_srgb, and has their CPU loops. */
#include "gpu/ops/colour.h"

#include <string.h>

#include "gpu/colour/conversion.h"
#include "gpu/colour/icc.h"
#include "gpu/ops/point.h"
#include "gpu/plan/op.h"

/* ---- CPU loops ---- */

#define EACH_PIXEL(convert, from_channels, to_channels)                                            \
    for (uint32_t y = 0; y < to->height && !pass_is_late_at(pass, y); y++) {                       \
        const uint8_t *source = from->pixels + y * from->stride;                                   \
        uint8_t *row = to->pixels + y * to->stride;                                                \
        for (size_t x = 0; x < to->width; x++, source += (from_channels), row += (to_channels)) {  \
            convert;                                                                               \
            if ((to_channels) == 4)                                                                \
                row[3] = source[3];                                                                \
        }                                                                                          \
    }

PASS_LOOP(colour_matrix_cpu)
{
    const struct colour_matrix *tables = (const struct colour_matrix *)pass->constants;
    if (to->channels == 3)
        EACH_PIXEL(colour_by_matrix(tables, source, row), 3, 3)
    else
        EACH_PIXEL(colour_by_matrix(tables, source, row), 4, 4)
}

PASS_LOOP(colour_cube_cpu)
{
    const struct colour_cube *tables = (const struct colour_cube *)pass->constants;
    if (to->channels == 3)
        EACH_PIXEL(colour_by_cube(tables, source, row), 3, 3)
    else
        EACH_PIXEL(colour_by_cube(tables, source, row), 4, 4)
}

PASS_LOOP(colour_inks_cpu)
{
    const struct colour_inks *tables = (const struct colour_inks *)pass->constants;
    EACH_PIXEL(colour_by_inks(tables, source, row), 4, 3)
}

PASS_LOOP(colour_product_cpu)
{
    EACH_PIXEL(colour_by_product(source, row), 4, 3)
}

pass_cuda colour_cuda;

/* All types have the same launcher: the periodic check of a device must run every launcher, but it
 * converts only one profile. */
static const struct pass_type types[] = {
    [COLOUR_MATRIX] = {"matrix to srgb", colour_matrix_cpu, PASS_CUDA(colour_cuda)},
    [COLOUR_CUBE] = {"cube to srgb", colour_cube_cpu, PASS_CUDA(colour_cuda)},
    [COLOUR_INKS] = {"cmyk to srgb", colour_inks_cpu, PASS_CUDA(colour_cuda)},
    [COLOUR_PRODUCT] = {"cmyk to rgb", colour_product_cpu, PASS_CUDA(colour_cuda)},
};

/* ---- chains ---- */

static void fill(const struct pass *pass, uint8_t *constants)
{
    const struct colour_pass *own = (const struct colour_pass *)pass->params;
    memcpy(constants, own->tables, pass->constants_bytes);
}

/* Appends a pass that converts the image: CMYK to RGB, all else with the same channels. */
static struct pass *add_pass(struct chain *chain, enum colour_kind kind, const void *tables)
{
    struct colour_pass params = {.tables = tables, .kind = kind};
    struct pass_shape to = chain->shape;
    if (kind == COLOUR_INKS || kind == COLOUR_PRODUCT)
        to.channels = 3;
    return chain_add(chain, &types[kind], to, &params, sizeof(params));
}

/* Makes the table for a gray image with a profile for RGB: gray counts as R = G = B. The result is
 * the green of the converted colour; red and blue are the same if the profile's white is
 * neutral. */
static void gray_table(const struct colour *colour, uint8_t table[256])
{
    for (int v = 0; v < 256; v++) {
        uint8_t rgb[3] = {(uint8_t)v, (uint8_t)v, (uint8_t)v};
        if (colour->kind == COLOUR_MATRIX)
            colour_by_matrix(colour->tables, rgb, rgb);
        else if (colour->kind == COLOUR_CUBE)
            colour_by_cube(colour->tables, rgb, rgb);
        table[v] = rgb[1];
    }
}

/* Appends the conversion with the tables of a profile; for gray images it is a table of point.h. */
static enum status add_tables(struct chain *chain, const struct colour *colour)
{
    uint8_t table[256];
    if (colour->kind == COLOUR_SAME)
        return STATUS_OK;
    if (colour->kind == COLOUR_GRAY) {
        point_add_table(chain, colour->gray);
    } else if (chain->shape.channels == 1) {
        gray_table(colour, table);
        point_add_table(chain, table);
    } else {
        struct pass *pass = add_pass(chain, colour->kind, colour->tables);
        return chain_constants(chain, pass, colour->tables_bytes, fill);
    }
    return STATUS_OK;
}

/* Converts the current image from the profile of its source. A profile that is damaged, or that is
 * for another kind of colours than the image's, is ignored, as by browsers and libvips. For a
 * profile that gpuimgd cannot use, the operation fails with bad_op. */
static enum status convert_to_srgb(struct chain *chain, enum colour_intent intent)
{
    const struct plan_source *source = &chain->plan->source;
    struct error error = {0};
    enum icc_space space = source->icc_bytes > 0 ? icc_space(source->icc, source->icc_bytes)
                                                 : ICC_SPACE_NONE;
    if (chain->in_srgb || space == ICC_SPACE_NONE || space == ICC_SPACE_OTHER ||
        (space == ICC_SPACE_CMYK) != source->cmyk || source->cmyk != chain->cmyk)
        return STATUS_OK;
    struct colour **colour = &chain->plan->colours[intent];
    enum status status =
        *colour ? STATUS_OK : colour_take(source->icc, source->icc_bytes, intent, colour, &error);
    if (status == STATUS_DECODE_FAILED)
        return STATUS_OK;
    if (status == STATUS_UNSUPPORTED_FORMAT)
        return op_refuse(chain->item, chain->error, ": the input's ICC profile cannot be used: %s",
                         error.text);
    if (status)
        return error_set(chain->error, status, "%s", error.text);
    chain->in_srgb = true;
    chain->cmyk = false;
    return add_tables(chain, *colour);
}

void step_product(struct chain *chain)
{
    assert(chain->shape.channels == 4);
    chain->cmyk = false;
    add_pass(chain, COLOUR_PRODUCT, NULL);
}

/* ---- the operation ---- */

struct to_srgb {
    int intent;
};

static const struct op_param to_srgb_params[] = {
    {OP_WORD(struct to_srgb, intent), .words = COLOUR_INTENT_WORDS,
     .help = "Which tables of the profile are used, if it has several: relative keeps the colours "
             "that sRGB has, perceptual compresses all of them"}};

static enum status to_srgb_step(const void *params, struct chain *chain)
{
    const struct to_srgb *own = params;
    return convert_to_srgb(chain, (enum colour_intent)own->intent);
}

const struct op op_to_srgb = {
    .name = "to_srgb",
    .help = "Converts from the input's ICC profile to sRGB, as lcms2",
    .definition =
        "Without a profile, with a profile of sRGB, with a damaged one, or with one for other "
        "colours than the image's, pixels stay, as in browsers and libvips. The output has no "
        "profile, which means sRGB. Black becomes black (black point compensation), alpha stays. "
        "Colour pixels of a YCbCr JPEG become RGB first. The profile of a CMYK JPEG is applied "
        "before the first operation that does more than move pixels; without to_srgb, each of its "
        "colours is C K / 255, rounded. The conversion is a pass of its own, but for gray it is a "
        "table.\n\n"
        "A profile with a curve and a colorant per channel: linear light L = round(16384 "
        "curve(v / 255)) of each colour, a matrix M = round(16384 m) to linear sRGB, with m the "
        "inverse of sRGB's colorants times those of the profile, then sRGB's curve of (M L + 8192) "
        ">> 14, clamped to 0..16384, round half up. Gray with a curve: sRGB's curve of the gray "
        "curve, in double, as a table. Other profiles need lcms2: its curves and its grid of "
        "33 x 33 x 33 nodes (CMYK: 17 per axis) with 16 bits, between which distances in 1/32768 "
        "and tetrahedra interpolate (cyan: linearly between two of them). Sums are rounded to 16 "
        "bits, then x becomes (65281 x + 2^23) >> 24. The result differs from lcms2's 8-bit result "
        "by at most 1.",
    .flags = OP_POINT | OP_ANY_SCALE | OP_TO_SRGB,
    OP_PARAMS(struct to_srgb, to_srgb_params),
    .step = to_srgb_step,
};
