/* composite.c - the operation composite: where the overlay is, which part of it is stored, and the
 * CPU loop. */
#include "gpu/ops/composite.h"

#include <math.h>
#include <string.h>

#include "gpu/ops/gravity.h"
#include "gpu/plan/op.h"

struct params {
    struct op_place input;
    int gravity, x, y;
    double opacity, scale;
    bool tile;
};

/* The parameters of the pass: those of the kernel, and those with which composite_fill writes its
 * constants. */
struct composite_pass {
    struct composite composite;
    struct image overlay;     /* RGBA, the whole overlay; its owner keeps it until plan_clear */
    uint32_t first_x, first_y; /* the pixel of the overlay at the region's corner */
    uint32_t opacity;         /* 0 to 65536 */
};

static_assert(sizeof(struct composite_pass) <= PASS_PARAMS_BYTES_MAX, "a pass must hold them");

/* ---- the CPU loop ---- */

/* Lays `count` pixels of the overlay over the base. */
PIXEL void composite_run(const uint8_t *restrict under, const uint8_t *restrict over,
                         uint8_t *restrict to, uint32_t count, uint32_t channels,
                         uint32_t to_channels)
{
    for (size_t x = 0; x < count; x++)
        composite_pixel(under + x * channels, over + x * COMPOSITE_PIXEL, to + x * to_channels,
                        channels, to_channels);
}

VECTOR_CLONES
static void composite_pixels(const uint8_t *restrict under, const uint8_t *restrict over,
                             uint8_t *restrict to, uint32_t count, uint32_t channels,
                             uint32_t to_channels)
{
    if (channels == 1 && to_channels == 3)
        composite_run(under, over, to, count, 1, 3);
    else if (channels == 1)
        composite_run(under, over, to, count, 1, 1);
    else if (channels == 3)
        composite_run(under, over, to, count, 3, 3);
    else
        composite_run(under, over, to, count, 4, 4);
}

/* Copies pixels that the overlay does not cover. */
static void copy_pixels(const uint8_t *from, uint8_t *to, uint32_t count, uint32_t channels,
                        uint32_t to_channels)
{
    if (channels == to_channels) {
        memcpy(to, from, (size_t)count * channels);
        return;
    }
    for (size_t x = 0; x < count; x++)
        memset(to + x * to_channels, from[x], to_channels);
}

/* Computes a row of which the overlay covers a part. over: the row of the overlay's stored part. */
static void composite_row(const struct composite *own, const uint8_t *from, const uint8_t *over,
                          const struct image *base, const struct image *to, uint8_t *row)
{
    uint32_t c = base->channels, d = to->channels, end = own->left + own->width;
    copy_pixels(from, row, own->left, c, d);
    for (uint32_t x = 0; x < own->width; x += own->across) {
        uint32_t count = own->width - x < own->across ? own->width - x : own->across;
        size_t at = own->left + x;
        composite_pixels(from + at * c, over, row + at * d, count, c, d);
    }
    copy_pixels(from + (size_t)end * c, row + (size_t)end * d, base->width - end, c, d);
}

PASS_LOOP(composite_cpu)
{
    const struct composite *own = (const struct composite *)pass->params;
    for (uint32_t y = 0; y < to->height && !pass_is_late_at(pass, y); y++) {
        const uint8_t *source = from->pixels + y * from->stride;
        uint8_t *row = to->pixels + y * to->stride;
        uint32_t in_y = y - own->top; /* wraps above the region, so that it exceeds the height */
        if (in_y >= own->height) {
            copy_pixels(source, row, to->width, from->channels, to->channels);
            continue;
        }
        size_t at = (size_t)(in_y % own->down) * own->across;
        composite_row(own, source, pass->constants + at * COMPOSITE_PIXEL, from, to, row);
    }
}

/* ---- the stored part of the overlay ---- */

static void composite_fill(const struct pass *pass, uint8_t *constants)
{
    const struct composite_pass *own = (const struct composite_pass *)pass->params;
    const struct image *overlay = &own->overlay;
    uint32_t across = own->composite.across, down = own->composite.down;
    for (uint32_t y = 0; y < down; y++) {
        const uint8_t *row =
            overlay->pixels + (size_t)((own->first_y + y) % overlay->height) * overlay->stride;
        uint8_t *to = constants + (size_t)y * across * COMPOSITE_PIXEL;
        uint32_t before = overlay->width - own->first_x; /* columns before the overlay repeats */
        before = before < across ? before : across;
        memcpy(to, row + (size_t)own->first_x * COMPOSITE_PIXEL, (size_t)before * COMPOSITE_PIXEL);
        memcpy(to + (size_t)before * COMPOSITE_PIXEL, row,
               (size_t)(across - before) * COMPOSITE_PIXEL);
        for (uint32_t x = 0; x < across; x++)
            to[x * COMPOSITE_PIXEL + 3] =
                (uint8_t)composite_alpha(to[x * COMPOSITE_PIXEL + 3], own->opacity);
    }
}

/* ---- the operation ---- */

pass_cuda_many composite_cuda;

static const struct pass_type type = {"composite", composite_cpu,
                                      PASS_CUDA_MANY(composite_cuda, 0)};

static const struct op_param composite_params[] = {
    {OP_PLACE(struct params, input), .need = OP_REQUIRED,
     .help = "The overlay: a path below `input_root`, or an object with `path` or `key`, as the "
             "`input` of a job. EXIF orientation is applied"},
    {OP_WORD(struct params, gravity), .words = GRAVITY_WORDS,
     .help = "The part of the image where the overlay is; northwest if only `x` or `y` is given"},
    {OP_INTEGER(struct params, x), .need = OP_OPTIONAL, .min = -SIDE_CEILING, .max = SIDE_CEILING,
     .help = "Distance in pixels from the side or corner that `gravity` names, inwards; from the "
             "middle to the right"},
    {OP_INTEGER(struct params, y), .need = OP_OPTIONAL, .min = -SIDE_CEILING, .max = SIDE_CEILING,
     .help = "The same for rows; from the middle downwards. Parts outside the image are cut off"},
    {OP_NUMBER(struct params, opacity), .standard = 1, .min = 0, .max = 1,
     .help = "A factor for the overlay's alpha"},
    {OP_NUMBER(struct params, scale), .need = OP_OPTIONAL, .min = 0.0001, .max = 1,
     .help = "Resizes the overlay to this part of the image's width. By default it keeps its size"},
    {OP_BOOLEAN(struct params, tile), .help = "Repeats the overlay over the whole image"}};

int composite_gravity(const struct op_item *item, int gravity)
{
    bool is_moved = op_given(item, "x") || op_given(item, "y");
    return is_moved && !op_given(item, "gravity") ? GRAVITY_NORTHWEST : gravity;
}

static enum status composite_check(const struct op_item *item, void *params, struct error *error)
{
    struct params *own = params;
    (void)error;
    own->gravity = composite_gravity(item, own->gravity);
    return STATUS_OK;
}

/* Whether the distance x from this gravity counts to the left. */
static bool is_east(enum gravity g)
{
    return g == GRAVITY_NORTHEAST || g == GRAVITY_EAST || g == GRAVITY_SOUTHEAST;
}

/* Whether the distance y counts upwards. */
static bool is_south(enum gravity g)
{
    return g == GRAVITY_SOUTHEAST || g == GRAVITY_SOUTH || g == GRAVITY_SOUTHWEST;
}

/* Where the overlay is, along one axis. */
struct span {
    uint32_t at, length;    /* the covered region of the base; length 0: nothing is visible */
    uint32_t stored, first; /* number of pixels of the overlay that are stored, and their first */
};

/* start: the position of the overlay's first pixel in the base; side: the overlay's size. */
static struct span span_of(int64_t start, uint32_t side, uint32_t base, bool tile)
{
    if (tile) {
        int64_t first = -start % side;
        return (struct span){.length = base, .stored = side < base ? side : base,
                             .first = (uint32_t)(first < 0 ? first + side : first)};
    }
    int64_t from = start > 0 ? start : 0, end = start + side < base ? start + side : base;
    if (from >= end)
        return (struct span){0};
    uint32_t length = (uint32_t)(end - from);
    return (struct span){.at = (uint32_t)from, .length = length, .stored = length,
                         .first = (uint32_t)(from - start)};
}

enum status composite_lay(const struct composite_spot *own, const struct plan_overlay *overlay,
                          struct chain *chain)
{
    struct pass_shape to = chain->shape;
    int64_t x, y;
    gravity_offset((enum gravity)own->gravity, to.width, to.height, overlay->image.width,
                   overlay->image.height, &x, &y);
    x += is_east((enum gravity)own->gravity) ? -own->x : own->x;
    y += is_south((enum gravity)own->gravity) ? -own->y : own->y;
    struct span across = span_of(x, overlay->image.width, to.width, own->tile);
    struct span down = span_of(y, overlay->image.height, to.height, own->tile);
    uint32_t opacity = (uint32_t)rint(own->opacity * (1 << COMPOSITE_OPACITY_BITS));
    if (across.length == 0 || down.length == 0 || opacity == 0)
        return STATUS_OK;
    struct composite_pass pass = {
        .composite = {across.at, down.at, across.length, down.length, across.stored, down.stored},
        .overlay = overlay->image, .first_x = across.first, .first_y = down.first,
        .opacity = opacity};
    if (to.channels == 1 && !overlay->gray)
        to.channels = 3;
    struct pass *added = chain_add(chain, &type, to, &pass, sizeof(pass));
    return chain_overlay(chain, added, (size_t)across.stored * down.stored * COMPOSITE_PIXEL,
                         composite_fill);
}

static enum status composite_step(const void *params, struct chain *chain)
{
    const struct params *own = params;
    const struct composite_spot spot = {own->gravity, own->x, own->y, own->opacity, own->tile};
    struct plan_overlay overlay;
    uint32_t width = 0;
    if (op_given(chain->item, "scale")) {
        width = (uint32_t)floor(own->scale * chain->shape.width + 0.5);
        width = width > 0 ? width : 1;
    }
    const struct plan_overlay_request request = {.place = own->input, .width = width};
    enum status status = chain_find_overlay(chain, request, &overlay);
    return status ? status : composite_lay(&spot, &overlay, chain);
}

const struct op op_composite = {
    .name = "composite",
    .help = "Lays another image over the image: a watermark",
    .definition =
        "With `scale`, the overlay is resized as by `resize` with lanczos3: to the width s = "
        "floor(scale w + 1/2), at least 1, and the height max(1, floor(h s / w' + 1/2)), with "
        "the image's width w and the overlay's own width w' and height h. In the middle of a "
        "side of W pixels, an overlay of w' starts at floor((W - w') / 2). The overlay's alpha "
        "a becomes (a rint(65536 opacity) + 32768) >> 16; without an alpha channel, a is 255. "
        "On gray and RGB, each byte is v (255 - a) + o a, divided by 255 and rounded half up: "
        "Pillow's `Image.paste` with the alpha as the mask. On RGBA the result equals Pillow's "
        "`Image.alpha_composite`: with the image's alpha b and t = 255 a + b (255 - a), the "
        "overlay's weight is k = floor(255 * 255 * 128 a / t), the image's is 32640 - k, the "
        "sum x of both products plus 16384 gives ((x >> 8) + x) >> 15, and the alpha is t / "
        "255, rounded half up; where a is 0, the pixel is kept. An overlay is gray if R = G = B "
        "in each of its pixels whose alpha is not 0. Under any other overlay, gray becomes RGB "
        "first. An overlay that is outside the image, or whose opacity rounds to 0, changes "
        "nothing.",
    .flags = OP_LAYS,
    OP_PARAMS(struct params, composite_params),
    .check = composite_check,
    .step = composite_step,
};
