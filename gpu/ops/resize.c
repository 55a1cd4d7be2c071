/*
 * resize.c - the operation resize: the size of its result, and the tables of its passes.
 *
 * If a JPEG was decoded at M/8 of its size, sizes and positions are still computed for the full
 * image: struct chain_side (chain.h) has both sizes. The part of the decoded image that is resized
 * may then start and end at multiples of 1/8 pixel.
 */
#include "gpu/ops/resample.h"

#include <math.h>
#include <string.h>

#include "gpu/ops/attention.h"
#include "gpu/ops/axis.h"
#include "gpu/ops/deep.h"
#include "gpu/ops/gravity.h"
#include "gpu/ops/pad.h"
#include "gpu/ops/resample_strips.h"
#include "gpu/ops/weights_cache.h"
#include "gpu/plan/op.h"

enum resize_fit { FIT_INSIDE, FIT_COVER, FIT_EXACT, FIT_CONTAIN, FIT_OUTSIDE };
static const char *const fits[] = {"inside", "cover", "exact", "contain", "outside", NULL};

/* The values of the parameter gravity: those of crop, and attention, which depends on the
 * pixels. */
#define GRAVITY_ATTENTION GRAVITIES
static const char *const gravities[] = {GRAVITY_NAMES, "attention", NULL};

struct params {
    int width, height; /* 0: not given */
    int fit, filter;
    int gravity;     /* enum gravity, or GRAVITY_ATTENTION */
    double focus[2]; /* used if has_focus */
    bool has_focus;
    bool enlarge, fast_shrink;
    struct op_color color;
};

/* ---- geometry ---- */

/* The size of the result, and the rectangle of the source from which it is made. */
struct geometry {
    uint64_t width, height;
    uint64_t x, y, across, down;
};

/* a b / c, rounded half up, at least 1. */
static uint64_t part(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t whole = (2 * a * b + c) / (2 * c);
    return whole ? whole : 1;
}

/* inside, or outside: the source's ratio. */
static void fit_in_ratio(const struct params *own, struct geometry *g)
{
    uint64_t width = (uint64_t)own->width, height = (uint64_t)own->height;
    uint64_t across = width * g->down, down = height * g->across;
    bool by_width =
        own->fit == FIT_OUTSIDE ? across >= down : height == 0 || (width != 0 && across <= down);
    if (!own->enlarge && (by_width ? width > g->across : height > g->down))
        return;
    g->width = by_width ? width : part(g->across, height, g->down);
    g->height = by_width ? part(g->down, width, g->across) : height;
}

/* Returns where a part of `inner` of `outer` pixels starts, if its middle is as near as possible to
 * focus * outer. Rounds half down, so that a focus of 0.5 gives the same as gravity center. */
static uint64_t focus_start(double focus, uint64_t outer, uint64_t inner)
{
    double start = ceil(focus * (double)outer - (double)inner * 0.5 - 0.5);
    uint64_t room = outer - inner;
    return start < 0 ? 0 : start > (double)room ? room : (uint64_t)start;
}

/* Sets the position of the part in a source of width x height. For GRAVITY_ATTENTION, the position
 * is not known yet, and is set to the centre. */
static void place_part(const struct params *own, uint64_t width, uint64_t height,
                       struct geometry *g)
{
    enum gravity gravity = own->gravity == GRAVITY_ATTENTION ? GRAVITY_CENTER
                                                             : (enum gravity)own->gravity;
    int64_t x, y;
    gravity_offset(gravity, (int64_t)width, (int64_t)height, (int64_t)g->across, (int64_t)g->down,
                   &x, &y);
    g->x = own->has_focus ? focus_start(own->focus[0], width, g->across) : (uint64_t)x;
    g->y = own->has_focus ? focus_start(own->focus[1], height, g->down) : (uint64_t)y;
}

static void fit_cover(const struct params *own, struct geometry *g)
{
    uint64_t source_width = g->across, source_height = g->down;
    g->width = (uint64_t)own->width;
    g->height = (uint64_t)own->height;
    if (source_width * g->height > source_height * g->width)
        g->across = part(source_height, g->width, g->height);
    else
        g->down = part(source_width, g->height, g->width);
    place_part(own, source_width, source_height, g);
    if (!own->enlarge && (g->width > g->across || g->height > g->down)) {
        g->width = g->across;
        g->height = g->down;
    }
}

static struct geometry geometry_of(const struct params *own, uint32_t width, uint32_t height)
{
    struct geometry g = {.width = width, .height = height, .across = width, .down = height};
    if (own->fit == FIT_INSIDE || own->fit == FIT_CONTAIN || own->fit == FIT_OUTSIDE) {
        fit_in_ratio(own, &g);
    } else if (own->fit == FIT_COVER) {
        fit_cover(own, &g);
    } else {
        bool narrower = (uint32_t)own->width < width, lower = (uint32_t)own->height < height;
        g.width = narrower || own->enlarge ? (uint64_t)own->width : width;
        g.height = lower || own->enlarge ? (uint64_t)own->height : height;
    }
    return g;
}

/* op.eighths: the smallest M of 1, 2 and 4 with which an image decoded at M/8 is still at least
 * twice as wide and as high as the result. 8: there is none, or fast_shrink is off. width, height:
 * of the full image after its orientation. */
static uint32_t resize_eighths(const void *params, uint32_t width, uint32_t height)
{
    const struct params *own = params;
    struct geometry g = geometry_of(own, width, height);
    if (!own->fast_shrink || own->filter == FILTER_NEAREST)
        return DECODE_EIGHTHS;
    uint32_t eighths = 1;
    while (eighths < DECODE_EIGHTHS && (g.across * eighths < 2 * DECODE_EIGHTHS * g.width ||
                                        g.down * eighths < 2 * DECODE_EIGHTHS * g.height))
        eighths *= 2;
    return eighths;
}

/* ---- passes ---- */

/* The parameters of the passes: those of the kernel, and those from which the tables are
 * computed. */
struct resample_params {
    struct resample resample;
    struct axis axis;
};

struct pick_params {
    struct axis x, y;
};

static_assert(sizeof(struct resample_params) <= PASS_PARAMS_BYTES_MAX &&
              sizeof(struct pick_params) <= PASS_PARAMS_BYTES_MAX,
              "a pass must have room for its axes");

static void pick_fill(const struct pass *pass, uint8_t *constants)
{
    const struct pick_params *own = (const struct pick_params *)pass->params;
    int32_t *table = (int32_t *)constants;
    axis_pick(&own->x, table);
    axis_pick(&own->y, table + own->x.outputs);
}

static void resample_fill(const struct pass *pass, uint8_t *constants)
{
    const struct resample_params *own = (const struct resample_params *)pass->params;
    const struct axis *axis = &own->axis;
    const struct weights_key key = {.start = axis->start,
                                    .end = axis->end,
                                    .outputs = axis->outputs,
                                    .at = axis->at,
                                    .total = axis->total,
                                    .origin = axis->origin,
                                    .cut = axis->cut,
                                    .inputs = axis->inputs,
                                    .taps = own->resample.taps,
                                    .filter = axis->filter,
                                    .bits = own->resample.bits};
    if (weights_cache_get(&key, constants, pass->constants_bytes))
        return;
    axis_fill(axis, own->resample.taps, own->resample.bits, (int32_t *)constants);
    weights_cache_put(&key, constants, pass->constants_bytes);
}

static enum status add_pick(struct chain *chain, const struct axis *x, const struct axis *y)
{
    struct pass_shape to = {x->outputs, y->outputs, chain->shape.channels};
    size_t bytes = ((size_t)x->outputs + y->outputs) * sizeof(int32_t);
    struct pick_params params = {*x, *y};
    const struct pass_type *type =
        image_is_deep(chain->shape.channels) ? &pass_deep_pick : &pass_pick;
    struct pass *pass = chain_add(chain, type, to, &params, sizeof(params));
    return chain_constants(chain, pass, bytes, pick_fill);
}

/* The memory that the pass needs besides its images, and its type. */
static size_t resample_work_bytes(const struct resample *resample, struct pass_shape from,
                                  uint32_t outputs)
{
    if (image_is_deep(from.channels))
        return deep_work_bytes(from);
    return resample->down ? resample_strips_y_bytes(resample->reach, outputs)
                          : resample_x_work_bytes(resample, from, outputs);
}

static const struct pass_type *resample_type(bool is_deep, bool down)
{
    return is_deep ? (down ? &pass_deep_y : &pass_deep_x)
                   : (down ? &pass_resample_y : &pass_resample_x);
}

/* The part of the pass's input that has weights. skip: rows before it. */
static struct image_part weighted_part(const struct pass *pass, bool down, const struct axis *axis,
                                       uint32_t skip)
{
    struct axis used = *axis;
    axis_skip_unused(&used);
    uint32_t first = used.origin + used.cut - axis->cut;
    return down ? (struct image_part){0, first, pass->from.width, used.used}
                : (struct image_part){first, skip, used.used, pass->to.height};
}

static enum status add_resample(struct chain *chain, bool down, const struct axis *axis,
                                struct pass_shape to, struct resample *resample)
{
    struct pass_shape from = chain->shape;
    bool is_deep = image_is_deep(from.channels);
    resample->scale = axis_scale(axis);
    resample->down = down;
    resample->bits = is_deep ? DEEP_BITS : RESAMPLE_BITS;
    resample->reach = axis_reach(axis);
    resample->taps =
        (resample->reach + RESAMPLE_TAPS_STEP - 1) / RESAMPLE_TAPS_STEP * RESAMPLE_TAPS_STEP;
    size_t bytes = (size_t)axis->outputs * (1 + (size_t)resample->taps) * sizeof(int32_t);
    struct resample_params params = {*resample, *axis};
    struct pass *pass = chain_add(chain, resample_type(is_deep, down), to, &params, sizeof(params));
    pass->work_bytes = resample_work_bytes(resample, from, axis->outputs);
    pass->reads = weighted_part(pass, down, axis, resample->skip);
    size_t packed = resample_packed_bytes(to.width, to.height, to.channels);
    if (!resample->down && resample->packed && pass->to_bytes < packed)
        pass->to_bytes = packed;
    return chain_constants(chain, pass, bytes, resample_fill);
}

/* Whether the height is changed before the width: the rule of Image.resize in Pillow 12.2 and
 * 12.3. */
static bool is_very_tall(const struct axis *x, const struct axis *y)
{
    return y->inputs > (uint64_t)x->inputs * 100 && y->total < y->inputs;
}

static enum status add_columns_first(struct chain *chain, const struct axis *x,
                                     const struct axis *y)
{
    bool alpha = image_samples(chain->shape.channels) == 4;
    struct resample first = {.premultiply = alpha}, last = {.divide = alpha};
    struct pass_shape low = {chain->shape.width, y->outputs, chain->shape.channels};
    struct pass_shape to = {x->outputs, y->outputs, chain->shape.channels};
    enum status status = add_resample(chain, true, y, low, &first);
    return status ? status : add_resample(chain, false, x, to, &last);
}

/* Lets a pass along rows run together with the pass for the columns, which comes next. */
static void lead_columns(struct pass *pass, const struct axis *y)
{
    pass->leads = true;
    pass->work_bytes += resample_strips_y_bytes(axis_reach(y), y->outputs);
}

/* Appends the passes. The width is changed before the height, unless the image is very tall. A side
 * that does not change needs no pass. */
static enum status add_filtered(struct chain *chain, struct axis *x, struct axis *y)
{
    bool alpha = image_samples(chain->shape.channels) == 4, down = !axis_is_same(y);
    bool is_deep = image_is_deep(chain->shape.channels);
    /* resample_y cannot skip columns on the left, so resample_x does it, with weights of 1. */
    bool across = !axis_is_same(x) || x->origin != 0;
    enum status status = STATUS_OK;
    if (across && down && is_very_tall(x, y))
        return add_columns_first(chain, x, y);
    if (across) {
        /* The first pass computes only the rows that the second pass reads. */
        struct resample resample = {.packed = down && !is_deep,
                                    .skip = y->origin + y->cut,
                                    .premultiply = alpha,
                                    .divide = alpha && !down};
        struct pass_shape to = {x->outputs, y->used, chain->shape.channels};
        if (down && !is_deep)
            resample.ring = resample_strips_ring(axis_reach(y), x->outputs, to.channels);
        status = add_resample(chain, false, x, to, &resample);
        if (resample.ring > 0)
            lead_columns(&chain->passes[chain->count - 1], y);
        y->origin = 0;
    }
    if (down && !status) {
        struct resample resample = {
            .packed = across && !is_deep, .premultiply = alpha && !across, .divide = alpha};
        struct pass_shape to = {x->outputs, y->outputs, chain->shape.channels};
        status = add_resample(chain, true, y, to, &resample);
    }
    return status;
}

/* Only passes along rows and then down columns are changed, and only in a job with one output: in
 * others, several outputs may share the passes. */
bool resize_crop(struct chain *chain, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                 enum status *status)
{
    const struct pass *last = chain_last(chain, &pass_resample_y);
    if (!last || chain->count < chain->first + 2 || chain->plan->variant_count > 1)
        return false;
    const struct resample_params *down = (const struct resample_params *)last->params;
    const struct resample_params *across = (const struct resample_params *)last[-1].params;
    if (!down->resample.packed)
        return false;
    assert(last[-1].type == &pass_resample_x && across->resample.packed);
    struct axis columns = across->axis, rows = down->axis;
    rows.origin = across->resample.skip - rows.cut; /* as before add_filtered */
    axis_crop(&columns, x, width);
    axis_crop(&rows, y, height);
    axis_skip_unused(&rows);
    chain_drop(chain);
    chain_drop(chain);
    *status = add_filtered(chain, &columns, &rows);
    return true;
}

/* The axis for a part of the full image that starts at `at` and has `length` pixels. stored: the
 * size of the decoded image. */
static struct axis axis_of(const struct params *own, const struct chain_side *side,
                           uint32_t stored, uint64_t outputs, uint64_t at, uint64_t length)
{
    double unit = side->full ? side->eighths / (double)DECODE_EIGHTHS : 1.0;
    double margin = side->full ? side->margin : 0.0;
    double start = margin + (double)at * unit, end = margin + (double)(at + length) * unit;
    uint32_t origin = (uint32_t)floor(start), last = (uint32_t)ceil(end);
    assert(last <= stored && origin < last);
    (void)stored;
    return (struct axis){.outputs = (uint32_t)outputs, .total = (uint32_t)outputs,
                         .origin = origin, .inputs = last - origin, .used = last - origin,
                         .start = start - origin, .end = end - origin, .filter = own->filter};
}

/* ---- the operation ---- */

static const struct op_param resize_params[] = {
    {OP_INTEGER(struct params, width), .need = OP_OPTIONAL, .min = 1, .max = SIDE_CEILING,
     .help = "With `fit` inside, `width` or `height` alone is enough"},
    {OP_INTEGER(struct params, height), .need = OP_OPTIONAL, .min = 1, .max = SIDE_CEILING},
    {OP_WORD(struct params, fit), .words = fits,
     .help = "inside keeps the aspect ratio and fits the result into this size; cover cuts out a "
             "part of the source, by default its centre, in the target's ratio and resizes it; "
             "exact gives exactly this size; contain fits as inside and then pads to exactly this "
             "size; outside keeps the aspect ratio and makes no side shorter than this size"},
    {OP_WORD(struct params, gravity), .words = gravities,
     .help = "With `fit` cover: the side or corner of the source where the part is. With `fit` "
             "contain: the place of the resized image in the result. attention, for cover alone, "
             "chooses the part with the most edges and returns it as the value `attention`, "
             "[x,y,width,height] in pixels before the resize"},
    {OP_NUMBERS(struct params, focus), .need = OP_OPTIONAL, .max = 1, .columns = 2,
     .help = "With `fit` cover, instead of `gravity`: a point of the source, [0,0] its upper left "
             "corner and [1,1] its lower right one. The part's centre is as near to it as "
             "possible"},
    {OP_WORD(struct params, filter), .standard = FILTER_LANCZOS3,
     .words = (const char *const[]){"nearest", "box", "bilinear", "bicubic", "lanczos3", NULL}},
    {OP_BOOLEAN(struct params, enlarge), .need = OP_OPTIONAL,
     .help = "Whether the image may become larger; by default false with `fit` inside, else "
             "true"},
    {OP_BOOLEAN(struct params, fast_shrink), .standard = true,
     .help = "A JPEG may be decoded at a fraction of its size before a strong reduction. The "
             "pixels then differ from those after a full decode. Ignored if the job has "
             "`outputs`"},
    {OP_COLOR(struct params, color), .need = OP_OPTIONAL,
     .help = "With `fit` contain: the colour around the resized image; by default the job's "
             "`background`"}};

static enum status resize_check(const struct op_item *item, void *params, struct error *error)
{
    struct params *own = params;
    /* If a job asks for exact sides, enlarging is allowed by default. */
    if (!op_given(item, "enlarge"))
        own->enlarge = own->fit != FIT_INSIDE;
    if (own->width == 0 && own->height == 0)
        return op_refuse(item, error, " needs width, height or both");
    if (own->fit != FIT_INSIDE && (own->width == 0 || own->height == 0))
        return op_refuse(item, error, ": fit %s needs both width and height", fits[own->fit]);
    own->has_focus = op_given(item, "focus");
    if (own->has_focus && op_given(item, "gravity"))
        return op_refuse(item, error, " has focus and gravity; remove one of them");
    if (own->has_focus && own->fit != FIT_COVER)
        return op_refuse(item, error, ": focus needs fit cover; fit is %s", fits[own->fit]);
    if (own->gravity == GRAVITY_ATTENTION && own->fit != FIT_COVER)
        return op_refuse(item, error, ": gravity attention needs fit cover; fit is %s",
                         fits[own->fit]);
    if (own->gravity != GRAVITY_CENTER && own->fit != FIT_COVER && own->fit != FIT_CONTAIN)
        return op_refuse(item, error, ": gravity needs fit cover or contain; fit is %s",
                         fits[own->fit]);
    if (own->fit != FIT_CONTAIN && own->color.given)
        return op_refuse(item, error, ": color needs fit contain; fit is %s", fits[own->fit]);
    return STATUS_OK;
}

static struct geometry chain_geometry(const struct params *own, const struct chain *chain)
{
    return geometry_of(own, chain->across.full ? chain->across.full : chain->shape.width,
                       chain->down.full ? chain->down.full : chain->shape.height);
}

static enum status add_resize(const struct params *own, const struct geometry *g,
                              struct chain *chain)
{
    struct pass_shape shape = chain->shape;
    struct axis x = axis_of(own, &chain->across, shape.width, g->width, g->x, g->across);
    struct axis y = axis_of(own, &chain->down, shape.height, g->height, g->y, g->down);
    chain->across.full = chain->down.full = 0;
    if (axis_is_same(&x) && axis_is_same(&y) && x.inputs == shape.width && y.inputs == shape.height)
        return STATUS_OK;
    /* A crop alone needs no arithmetic. */
    if (own->filter == FILTER_NEAREST || (axis_is_same(&x) && axis_is_same(&y)))
        return add_pick(chain, &x, &y);
    return add_filtered(chain, &x, &y);
}

static enum status pad_to_size(const struct params *own, struct chain *chain)
{
    struct pad_fill fill = pad_fill_of(chain, &own->color);
    int64_t left, top;
    gravity_offset((enum gravity)own->gravity, own->width, own->height, chain->shape.width,
                   chain->shape.height, &left, &top);
    return pad_around(chain, (uint64_t)left, (uint64_t)top, (uint64_t)own->width,
                      (uint64_t)own->height, &fill);
}

static enum status check_whole(const struct chain *chain, const struct geometry *whole)
{
    const struct plan_limits *limits = chain->limits;
    if (whole->width <= limits->side_max && whole->height <= limits->side_max &&
        whole->width * whole->height <= limits->pixels_max)
        return STATUS_OK;
    return error_set(chain->error, STATUS_IMAGE_TOO_LARGE,
                     "gravity attention makes an image of %llu x %llu pixels before it cuts; a "
                     "side may have at most %u, and all at most %llu; use focus or another gravity",
                     (unsigned long long)whole->width, (unsigned long long)whole->height,
                     limits->side_max, (unsigned long long)limits->pixels_max);
}

/* Resizes the whole image by the factor that fit cover needs, and then cuts out a part of the
 * result's size (attention.h). The part cannot be cut out before: it depends on the pixels, but the
 * tables of a resize are computed before the pixels are known. */
static enum status add_attention(const struct params *own, const struct geometry *cover,
                                 struct chain *chain)
{
    struct geometry whole = {.across = chain->across.full ? chain->across.full : chain->shape.width,
                             .down = chain->down.full ? chain->down.full : chain->shape.height};
    bool down = cover->down < whole.down;
    struct attention attention = {
        .gray = grayscale_default(chain->background), .down = down,
        .full_width = (uint32_t)whole.across, .full_height = (uint32_t)whole.down,
        .full_window = (uint32_t)(down ? cover->down : cover->across)};
    uint64_t across = part(whole.across, cover->height, whole.down);
    uint64_t high = part(whole.down, cover->width, whole.across);
    whole.width = down || across < cover->width ? cover->width : across;
    whole.height = !down || high < cover->height ? cover->height : high;
    enum status status = check_whole(chain, &whole);
    if (status)
        return status;
    status = add_resize(own, &whole, chain);
    if (!status)
        attention_add(chain, (uint32_t)cover->width, (uint32_t)cover->height, &attention);
    return status;
}

static enum status resize_step(const void *params, struct chain *chain)
{
    const struct params *own = params;
    struct geometry g = chain_geometry(own, chain);
    enum status status = chain_check_size(chain, g.width, g.height);
    if (status)
        return status;
    if (own->gravity == GRAVITY_ATTENTION && image_is_deep(chain->shape.channels))
        return op_refuse(chain->item, chain->error,
                         ": gravity attention finds edges of 8 bits, which a depth of 16 excludes; "
                         "use focus or another gravity");
    if (own->gravity == GRAVITY_ATTENTION)
        return add_attention(own, &g, chain);
    status = add_resize(own, &g, chain);
    return status || own->fit != FIT_CONTAIN ? status : pad_to_size(own, chain);
}

static bool resize_gives(const void *params)
{
    return ((const struct params *)params)->gravity == GRAVITY_ATTENTION;
}

static enum status resize_as(struct chain *chain, const struct params *own)
{
    struct geometry g = chain_geometry(own, chain);
    assert(chain->across.full == 0 && chain->down.full == 0);
    return add_resize(own, &g, chain);
}

enum status resize_exact(struct chain *chain, uint32_t width, uint32_t height)
{
    return resize_as(chain, &(struct params){.width = (int)width, .height = (int)height,
                                             .fit = FIT_EXACT, .filter = FILTER_LANCZOS3,
                                             .enlarge = true});
}

enum status resize_within(struct chain *chain, uint32_t side)
{
    return resize_as(chain, &(struct params){.width = (int)side, .height = (int)side,
                                             .fit = FIT_INSIDE, .filter = FILTER_LANCZOS3});
}

const struct op op_resize = {
    .name = "resize",
    .help = "Changes the size, as Pillow's resize",
    .definition = "inside: the largest size with the source's ratio within the given size, each "
                  "side rounded half up and at least 1; without enlarge, a smaller source is not "
                  "changed. cover: a part of the source in the target's ratio is cut out (its size "
                  "rounded half up, the position of `gravity` down) and resized; without enlarge, "
                  "a part smaller than the target is the result. A part of n of N columns starts "
                  "at column focus N - n / 2, rounded half down and limited to 0..N - n; rows "
                  "alike. attention resizes the whole source first, to the side of the target "
                  "that is not cut and its own ratio (rounded half up), and then cuts out the "
                  "part with the largest sum of `sobel` with its defaults. Of equal sums, it "
                  "takes the part nearest to the centre, then the left or upper one. `attention` "
                  "is this part in pixels of the source: its start, rounded half up, and the size "
                  "that cover cuts out. exact, without enlarge: each side "
                  "is at most the source's. contain: as inside, but with enlarge by default, and "
                  "then as `pad` with this size, `gravity` and `color`. outside: the smallest size "
                  "with the source's ratio that covers the given size, each side rounded half up; "
                  "without enlarge, a smaller source is not changed. Rows are resized "
                  "first and then columns, with a rounding to bytes between them. Columns are "
                  "first if the source (for cover, its part) is more than 100 times as high as "
                  "wide and becomes lower. The pixels equal those of Pillow's `Image.resize` "
                  "without `reducing_gap` to the bit, for RGBA through its `RGBa` mode. Compared: "
                  "Pillow 9.4 to 12.3. Its versions before 12.2 always resize rows first, and "
                  "differ for these high sources. Pillow 13 often resizes columns first, and "
                  "differs by up to 14 units in tests. With a depth of 16, weights have 30 "
                  "fractional bits, the rounding is to 16 bits, and RGBA is premultiplied and "
                  "divided with rounding to nearest. `fast_shrink`: see above.",
    .flags = OP_DEEP,
    OP_PARAMS(struct params, resize_params),
    .check = resize_check,
    .gives = resize_gives,
    .step = resize_step,
    .eighths = resize_eighths,
};
