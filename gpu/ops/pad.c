/* pad.c - the operation pad: how it appends its pass, and the CPU loop. */
#include "gpu/ops/pad.h"

#include <string.h>

#include "gpu/ops/deep.h"
#include "gpu/plan/op.h"

/* ---- the pass ---- */

PIXEL void fill_run(uint8_t *to, uint32_t count, const uint8_t *fill, uint32_t channels)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t c = 0; c < channels; c++)
            to[(size_t)i * channels + c] = fill[c];
}

static void fill_pixels(uint8_t *to, uint32_t count, const uint8_t *fill, uint32_t channels)
{
    if (channels == 1)
        memset(to, fill[0], count);
    else
        BY_CHANNELS(channels, fill_run, to, count, fill);
}

/* Converts gray or RGB to RGB or RGBA. */
PIXEL void convert_run(const uint8_t *restrict from, uint8_t *restrict to, size_t count,
                       size_t from_channels, size_t channels)
{
    size_t step = from_channels == 3;
    for (size_t i = 0; i < count; i++) {
        for (size_t c = 0; c < 3; c++)
            to[i * channels + c] = from[i * from_channels + c * step];
        if (channels == 4)
            to[i * channels + 3] = 255;
    }
}

VECTOR_CLONES
static void convert_pixels(const uint8_t *from, uint8_t *to, size_t count, size_t from_channels,
                           size_t channels)
{
    if (from_channels == channels)
        memcpy(to, from, count * channels);
    else if (from_channels == 3)
        convert_run(from, to, count, 3, 4);
    else if (channels == 3)
        convert_run(from, to, count, 1, 3);
    else
        convert_run(from, to, count, 1, 4);
}

PASS_LOOP(pad_cpu)
{
    const struct pad *pad = (const struct pad *)pass->params;
    uint32_t channels = to->channels, right = pad->left + from->width;
    for (uint32_t y = 0; y < to->height; y++) {
        uint8_t *row = to->pixels + (size_t)y * to->stride;
        if (y < pad->top || y - pad->top >= from->height) {
            fill_pixels(row, to->width, pad->fill, channels);
            continue;
        }
        fill_pixels(row, pad->left, pad->fill, channels);
        convert_pixels(from->pixels + (size_t)(y - pad->top) * from->stride,
                       row + (size_t)pad->left * channels, from->width, from->channels, channels);
        fill_pixels(row + (size_t)right * channels, to->width - right, pad->fill, channels);
    }
}

pass_cuda pad_cuda;

static const struct pass_type pass_pad = {"pad", pad_cpu, PASS_CUDA(pad_cuda)};

/* ---- functions of pad.h, for other operations, too ---- */

struct pad_fill pad_fill_of(const struct chain *chain, const struct op_color *color)
{
    const uint8_t *background = chain->background;
    struct pad_fill fill = {{background[0], background[1], background[2], 255}, 3};
    if (color->given)
        memcpy(fill.pixel, color->rgba, sizeof(fill.pixel));
    bool gray = fill.pixel[0] == fill.pixel[1] && fill.pixel[1] == fill.pixel[2];
    uint32_t samples = image_samples(chain->shape.channels);
    if (samples == 4 || fill.pixel[3] != 255)
        fill.channels = 4;
    else if (samples == 1 && gray)
        fill.channels = 1;
    return fill;
}

/* Sets the channels of `to`. */
static void append(struct chain *chain, uint64_t left, uint64_t top, struct pass_shape to,
                   const struct pad_fill *fill)
{
    struct pad pad = {.left = (uint32_t)left, .top = (uint32_t)top};
    struct pass_shape from = chain->shape;
    bool is_deep = image_is_deep(from.channels);
    to.channels = is_deep ? 2 * fill->channels : fill->channels;
    memcpy(pad.fill, fill->pixel, sizeof(pad.fill));
    if (to.width != from.width || to.height != from.height || to.channels != from.channels)
        chain_append(chain, is_deep ? &pass_deep_pad : &pass_pad, to, &pad, sizeof(pad));
}

enum status pad_around(struct chain *chain, uint64_t left, uint64_t top, uint64_t width,
                       uint64_t height, const struct pad_fill *fill)
{
    enum status status = chain_check_size(chain, width, height);
    assert(left + chain->shape.width <= width && top + chain->shape.height <= height);
    if (!status)
        append(chain, left, top,
               (struct pass_shape){.width = (uint32_t)width, .height = (uint32_t)height}, fill);
    return status;
}

void pad_convert(struct chain *chain, const struct pad_fill *fill)
{
    append(chain, 0, 0, chain->shape, fill);
}

/* ---- the operation ---- */

struct params {
    int width, height; /* 0: not given */
    int gravity;
    int left, top, right, bottom;
    struct op_color color;
};

static const struct op_param pad_params[] = {
    {OP_INTEGER(struct params, width), .need = OP_OPTIONAL, .min = 1, .max = SIDE_CEILING,
     .help = "The width of the result, at least the image's; by default the image's"},
    {OP_INTEGER(struct params, height), .need = OP_OPTIONAL, .min = 1, .max = SIDE_CEILING,
     .help = "The height of the result, at least the image's; by default the image's"},
    {OP_WORD(struct params, gravity), .words = GRAVITY_WORDS,
     .help = "The place of the image in a result of this size"},
    {OP_INTEGER(struct params, left), .need = OP_OPTIONAL, .max = SIDE_CEILING,
     .help = "Columns before the image. The four sides are by default 0 and not allowed with "
             "`width`, `height` and `gravity`"},
    {OP_INTEGER(struct params, top), .need = OP_OPTIONAL, .max = SIDE_CEILING},
    {OP_INTEGER(struct params, right), .need = OP_OPTIONAL, .max = SIDE_CEILING},
    {OP_INTEGER(struct params, bottom), .need = OP_OPTIONAL, .max = SIDE_CEILING},
    {OP_COLOR(struct params, color), .need = OP_OPTIONAL,
     .help = "By default the job's `background`"}};

/* Returns the first of these parameters that the job gives; NULL: it gives none. */
static const char *given_of(const struct op_item *item, const char *const *names)
{
    while (*names && !op_given(item, *names))
        names++;
    return *names;
}

static enum status pad_check(const struct op_item *item, void *params, struct error *error)
{
    (void)params;
    const char *size = given_of(item, (const char *const[]){"width", "height", NULL});
    const char *side =
        given_of(item, (const char *const[]){"left", "top", "right", "bottom", NULL});
    const char *other = size ? size : op_given(item, "gravity") ? "gravity" : NULL;
    if (side && other)
        return op_refuse(item, error, " has %s and %s; give the size of the result, or the sides",
                         other, side);
    if (!size && !side)
        return op_refuse(item, error, " needs width or height, or left, top, right or bottom");
    return STATUS_OK;
}

static enum status too_small(const struct chain *chain, const char *name, int given, int64_t side)
{
    return op_refuse(chain->item, chain->error,
                     ": %s is %d; it must be at least %d, because the image is %u x %u at this "
                     "operation",
                     name, given, (int)side, chain->shape.width, chain->shape.height);
}

static enum status pad_step(const void *params, struct chain *chain)
{
    const struct params *own = params;
    struct pad_fill fill = pad_fill_of(chain, &own->color);
    int64_t across = chain->shape.width, down = chain->shape.height;
    int64_t left = own->left, top = own->top;
    int64_t width = left + across + own->right, height = top + down + own->bottom;
    if (own->width || own->height) {
        width = own->width ? own->width : across;
        height = own->height ? own->height : down;
        if (width < across)
            return too_small(chain, "width", own->width, across);
        if (height < down)
            return too_small(chain, "height", own->height, down);
        gravity_offset((enum gravity)own->gravity, width, height, across, down, &left, &top);
    }
    return pad_around(chain, (uint64_t)left, (uint64_t)top, (uint64_t)width, (uint64_t)height,
                      &fill);
}

const struct op op_pad = {
    .name = "pad",
    .help = "Adds a border in one colour around the image",
    .definition = "The image is at column `left` and row `top` of the result, or at a side or "
                  "corner of a result of `width` x `height`. In the middle of a side it starts at "
                  "floor((side - length) / 2). All other pixels have the colour. The result is "
                  "RGBA if the image has alpha or the colour's alpha is below 255. A gray image "
                  "with a gray, opaque colour stays gray. All other results are RGB. As Pillow's "
                  "`ImageOps.expand` and `Image.paste`.",
    .flags = OP_DEEP,
    OP_PARAMS(struct params, pad_params),
    .check = pad_check,
    .step = pad_step,
};
