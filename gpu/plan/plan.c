/* plan.c - builds chains of passes from operations. layout.c lays out the buffers. */
#include "gpu/plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/colour/conversion.h"
#include "gpu/plan/op.h"
#include "gpu/plan/pass.h"

#define PLAN_COLOURS (sizeof((struct plan){0}.colours) / sizeof(struct colour *))
static_assert(PLAN_COLOURS == COLOUR_PERCEPTUAL + 1, "one set of tables per intent");

/* ---- before the input is decoded ---- */

/* Whether the target's operations need only the Y channel. add_ops follows the same rule. */
static bool takes_luma(const struct plan_target *target)
{
    for (const struct op_item *item = target->ops; item; item = item->next)
        if (!op_moves(item))
            return op_starts_gray(item);
    return target->gray;
}

enum decode_as plan_decode_as(const struct plan_target *targets, size_t count)
{
    size_t luma = 0;
    for (size_t i = 0; i < count; i++)
        luma += takes_luma(&targets[i]);
    return luma == 0 ? DECODE_COLOUR : luma == count ? DECODE_LUMA : DECODE_YCC;
}

uint32_t plan_eighths(const struct plan_source *source, const struct op_item *ops)
{
    bool turned = source->orientation >= 5 && source->orientation <= ORIENTATION_MAX;
    while (ops && !ops->op->eighths && ops->op->flags & OP_ANY_SCALE)
        ops = ops->next;
    return ops && ops->op->eighths
               ? ops->op->eighths(ops->params, turned ? source->height : source->width,
                                  turned ? source->width : source->height)
               : DECODE_EIGHTHS;
}

/* ---- building ---- */

/* Tells the chain how a source that was decoded at M/8 relates to the image in the file. */
static void set_sides(struct chain *chain, const struct plan_source *source)
{
    int orientation = source->orientation;
    if (source->eighths == 0 || source->eighths == DECODE_EIGHTHS)
        return;
    bool turned = orientation >= 5 && orientation <= ORIENTATION_MAX;
    bool from_right = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
    bool from_below = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
    chain->across.full = turned ? source->height : source->width;
    chain->down.full = turned ? source->width : source->height;
    chain->across.eighths = chain->down.eighths = source->eighths;
    double unit = source->eighths / (double)DECODE_EIGHTHS;
    if (from_right)
        chain->across.margin = chain->shape.width - chain->across.full * unit;
    if (from_below)
        chain->down.margin = chain->shape.height - chain->down.full * unit;
}

/* If the chain is still Y, Cb and Cr, converts it to gray, which is Y, or to RGB. Passes that only
 * move pixels work on Y, Cb and Cr as they are. */
static void leave_ycc(struct chain *chain, bool for_gray)
{
    if (!chain->ycc)
        return;
    chain->ycc = false;
    if (for_gray)
        step_luma(chain);
    else
        step_rgb(chain);
}

static enum status run_step(struct chain *chain, const struct op_item *item)
{
    chain->item = item;
    return item->op->step(item->params, chain);
}

/* If the chain is still CMYK, converts it to sRGB if an operation will do that, or else to RGB. */
static enum status leave_cmyk(struct chain *chain, const struct op_item *ops)
{
    const struct op_item *item = op_find_flag(ops, OP_TO_SRGB);
    enum status status = chain->cmyk && item ? run_step(chain, item) : STATUS_OK;
    if (!status && chain->cmyk)
        step_product(chain);
    return status;
}

/* Gives the samples of the source the depth of the target. A source that is not deep becomes gray
 * or RGB before. */
static enum status set_depth(struct chain *chain, bool deep)
{
    bool is_deep = image_is_deep(chain->shape.channels);
    enum status status = STATUS_OK;
    if (is_deep && !deep)
        step_narrow(chain);
    if (is_deep || !deep)
        return STATUS_OK;
    leave_ycc(chain, false);
    status = leave_cmyk(chain, NULL);
    step_widen(chain);
    return status;
}

static enum status add_ops(struct chain *chain, const struct plan_target *target)
{
    enum status status = STATUS_OK;
    for (const struct op_item *item = target->ops; item && !status; item = item->next) {
        if (!op_moves(item)) {
            leave_ycc(chain, op_starts_gray(item));
            status = leave_cmyk(chain, target->ops);
        }
        if (!status)
            status = run_step(chain, item);
        if (!status)
            status = chain_check_size(chain, chain->shape.width, chain->shape.height);
    }
    leave_ycc(chain, target->gray);
    return status ? status : leave_cmyk(chain, target->ops);
}

/* For an output that has only values: drops the passes after the last one that computes values. */
static void drop_pictures(struct chain *chain)
{
    while (chain->count > chain->first && !chain->passes[chain->count - 1].values)
        chain_drop(chain);
}

/* Shrinks the array to its used size. */
static void shrink_passes(struct plan_variant *variant)
{
    size_t count = variant->pass_count > 0 ? variant->pass_count : 1;
    struct pass *passes = realloc(variant->passes, count * sizeof(*passes));
    variant->passes = passes ? passes : variant->passes;
}

/* Whether a copy must make the result an image of its own. If no pass writes an image, the source
 * is the result; it need not be copied if its encoder runs where the source is, on the host or on
 * the device. Only the host's encoders can read a rectangle of a larger image. */
static bool needs_copy(const struct chain *chain, bool encoded)
{
    bool cropped = chain_is_cropped(chain), source_on_device = chain->plan->source.file.bytes > 0;
    if (pass_writers(chain->passes, chain->count) > 0)
        return cropped;
    return source_on_device != encoded || (cropped && encoded);
}

static struct plan_encoder choose_encoder(const struct pass_shape *shape,
                                          const struct plan_target *target)
{
    struct plan_encoder encoder = target->encoder;
    if (encoder.codec != DEVICE_CODEC_NONE &&
        (image_is_deep(shape->channels) ||
         !target->measure_encoder(&encoder, shape->width, shape->height, shape->channels)))
        encoder = (struct plan_encoder){.codec = DEVICE_CODEC_NONE};
    return encoder;
}

static enum status check_format_side(const struct chain *chain, const struct plan_target *target)
{
    uint32_t width = chain->shape.width, height = chain->shape.height, most = target->side_max;
    if (target->no_picture || most == 0 || (width <= most && height <= most))
        return STATUS_OK;
    return error_set(chain->error, STATUS_IMAGE_TOO_LARGE,
                     "the result is %u x %u pixels; the output format allows %u per side, so use "
                     "another format, or resize", width, height, most);
}

/* The part of the source that variants see, and its place in the source. */
static struct pass_shape visible_part(const struct plan_source *source, struct pass_window *window)
{
    struct pass_shape shape = plan_source_shape(source);
    *window = pass_window_whole(shape);
    if (source->part.width > 0) {
        shape.width = source->part.width;
        shape.height = source->part.height;
        window->x = source->part.x;
        window->y = source->part.y;
    }
    return shape;
}

/* Builds the chain: orientation, operations, and the gray or flattening that the output needs. */
static enum status build_variant(struct plan *plan, size_t index, const struct plan_target *target,
                                 const struct plan_limits *limits, struct error *error)
{
    const struct plan_source *source = &plan->source;
    struct plan_variant *variant = &plan->variants[index];
    /* An operation adds at most five passes: phash adds a copy, grayscale, the two passes of a
     * resize, and the hash. A crop adds none, but it may need a copy, which the next operation
     * or step_copy adds later; that copy is one of the five of the crop. Seven more passes may be
     * added: a copy of a part of the source, another depth, orientation, YCbCr or CMYK to RGB or
     * gray, a copy before that, gray or flattening, and a tensor. */
    uint32_t capacity = 7;
    for (const struct op_item *item = target->ops; item; item = item->next)
        capacity += 5;
    struct pass_window window;
    struct pass_shape shape = visible_part(source, &window);
    variant->passes = malloc(capacity * sizeof(*variant->passes));
    if (!variant->passes)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a plan of %u passes",
                         capacity);
    struct chain chain = {.plan = plan,
                          .limits = limits,
                          .error = error,
                          .passes = variant->passes,
                          .capacity = capacity,
                          .shape = shape,
                          .window = window,
                          .ycc = source->ycc,
                          .cmyk = source->cmyk,
                          .background = source->background,
                          .overlays = target->overlays};
    enum status status = set_depth(&chain, target->deep);
    step_orient(&chain, source->orientation);
    set_sides(&chain, source);
    if (!status)
        status = chain_check_size(&chain, chain.shape.width, chain.shape.height);
    if (!status)
        status = add_ops(&chain, target);
    if (!status)
        status = check_format_side(&chain, target);
    if (status)
        return status;
    if (target->no_picture)
        drop_pictures(&chain);
    else if (target->gray)
        step_gray(&chain);
    else if (target->opaque && chain.shape.channels == 4)
        step_flatten(&chain);
    if (target->tensor.wanted)
        status = step_tensor(&chain, &target->tensor);
    if (status)
        return status;
    variant->encoder = choose_encoder(&chain.shape, target);
    if (!target->no_picture && needs_copy(&chain, plan_is_encoded(variant)))
        step_copy(&chain);

    variant->pass_count = chain.count;
    variant->width = chain.shape.width;
    variant->height = chain.shape.height;
    variant->channels = chain.shape.channels;
    variant->is_source = pass_writers(chain.passes, chain.count) == 0;
    variant->no_picture = target->no_picture;
    variant->tensor_bytes = target->tensor.wanted ? chain.passes[chain.count - 1].tensor_bytes : 0;
    variant->x = variant->is_source ? chain.window.x : 0;
    variant->y = variant->is_source ? chain.window.y : 0;
    shrink_passes(variant); /* chain.passes may be freed after this */
    return STATUS_OK;
}

/* Removes a variant that has failed. It keeps its number, but has no passes, image or values. */
static void leave_out(struct plan_variant *variant)
{
    free(variant->passes);
    *variant = (struct plan_variant){.no_picture = true};
}

/* Whether an error fails only the target in which it occurred, not the whole plan. */
static bool is_of_target(enum status status)
{
    return status != STATUS_OVER_BUDGET && status != STATUS_OUT_OF_MEMORY &&
           status != STATUS_TIMEOUT;
}

enum status plan_build(struct plan *plan, const struct plan_source *source,
                       const struct plan_target *targets, size_t count,
                       const struct plan_limits *limits, struct error *error)
{
    assert(count >= 1 && count <= JOB_OUTPUTS_MAX);
    assert(source->width >= 1 && source->width <= SIDE_CEILING);
    assert(source->height >= 1 && source->height <= SIDE_CEILING);
    uint32_t samples = image_samples(source->channels);
    assert(samples == 1 || samples == 3 || samples == 4);
    assert(!source->ycc || source->channels == 3);
    assert(!source->cmyk || source->channels == 4);
    assert(source->part.width == 0 || source->eighths == 0 || source->eighths == DECODE_EIGHTHS);
    assert(source->part.x + source->part.width <= source->width);
    assert(source->part.y + source->part.height <= source->height);

    memset(plan, 0, sizeof(*plan));
    plan->source = *source;
    plan->variant_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        struct error own = {0};
        size_t constants_bytes = plan->constants_bytes, overlays_bytes = plan->overlays_bytes;
        enum status status = build_variant(plan, i, &targets[i], limits, &own);
        if (status && !(is_of_target(status) && targets[i].error))
            return error_set(error, status, "%s", own.text);
        if (status) {
            *targets[i].error = own;
            leave_out(&plan->variants[i]);
            plan->constants_bytes = constants_bytes;
            plan->overlays_bytes = overlays_bytes;
        }
    }
    plan_share(plan);
    plan_lay_out(plan);
    return STATUS_OK;
}

void plan_drop_passes(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->variant_count; i++) {
        free(plan->variants[i].passes);
        plan->variants[i].passes = NULL;
        plan->variants[i].pass_count = 0;
    }
    for (size_t i = 0; i < PLAN_COLOURS; i++) {
        colour_release(plan->colours[i]);
        plan->colours[i] = NULL;
    }
}

void plan_clear(struct plan *plan)
{
    plan_drop_passes(plan);
    plan->constants_bytes = plan->overlays_bytes = 0;
}

size_t plan_bytes(const struct plan *plan)
{
    size_t bytes = 0;
    for (uint32_t v = 0; v < plan->variant_count; v++) {
        const struct plan_variant *variant = &plan->variants[v];
        bytes += variant->pass_count * sizeof(struct pass);
    }
    for (size_t i = 0; i < PLAN_COLOURS; i++)
        bytes += plan->colours[i] ? colour_bytes(plan->colours[i]) : 0;
    return bytes;
}

void plan_put_constants(const struct plan *plan, uint8_t *input)
{
    uint8_t *constants = input + plan->constants_at;
    if (plan->constants_bytes)
        memset(constants, 0, plan->constants_bytes);
    for (uint32_t v = 0; v < plan->variant_count; v++) {
        const struct plan_variant *variant = &plan->variants[v];
        for (uint32_t p = 0; p < variant->pass_count; p++) {
            const struct pass *pass = &variant->passes[p];
            if (pass->fill && !pass->same)
                pass->fill(pass, constants + pass->constants_at);
        }
    }
}

/* ---- views ---- */

struct image plan_input(const struct plan *plan, uint8_t *at)
{
    return pass_view(at, plan_source_shape(&plan->source));
}

struct image plan_result(const struct plan *plan, size_t variant, uint8_t *input, uint8_t *output)
{
    assert(variant < plan->variant_count);
    const struct plan_variant *result = &plan->variants[variant];
    struct pass_shape shape = {result->width, result->height, result->channels};
    assert(!result->no_picture && !plan_is_encoded(result) && result->tensor_bytes == 0);
    struct pass_window window = {plan->source.width, plan->source.height, result->x, result->y};
    return result->is_source ? pass_view_window(input, shape, window)
                             : pass_view(output + result->offset, shape);
}

uint8_t *plan_tensor(const struct plan *plan, size_t variant, uint8_t *output)
{
    assert(variant < plan->variant_count && plan->variants[variant].tensor_bytes > 0);
    return output + plan->variants[variant].offset;
}

const uint8_t *plan_encoded(const struct plan *plan, size_t variant, const uint8_t *output,
                            size_t *bytes)
{
    const struct plan_variant *result = &plan->variants[variant];
    assert(variant < plan->variant_count && plan_is_encoded(result));
    *bytes = plan_report(plan, output)->file_bytes[variant];
    return output + result->offset;
}

const struct plan_report *plan_report(const struct plan *plan, const uint8_t *output)
{
    return (const struct plan_report *)(output + plan->report_at);
}
