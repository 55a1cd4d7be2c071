/* chain.c - appends passes to a chain, and removes them. */
#include "gpu/plan/chain.h"

#include <string.h>

#include "gpu/plan/op.h"
#include "gpu/plan/plan.h"

struct pass *chain_last(const struct chain *chain, const struct pass_type *type)
{
    if (chain->count == chain->first || chain_is_cropped(chain))
        return NULL;
    struct pass *last = &chain->passes[chain->count - 1];
    return last->type == type ? last : NULL;
}

void chain_drop(struct chain *chain)
{
    assert(chain->count > chain->first);
    const struct pass *last = &chain->passes[--chain->count];
    if (last->constants_bytes > 0 &&
        buffer_align(chain->plan->constants_bytes) ==
            buffer_align(last->constants_at + last->constants_bytes)) {
        chain->plan->constants_bytes = last->constants_at;
        if (last->alone)
            chain->plan->overlays_bytes -= last->constants_bytes;
    }
    chain->shape = last->from;
    chain->window = last->window;
}

bool chain_is_cropped(const struct chain *chain)
{
    return chain->shape.width != chain->window.width || chain->shape.height != chain->window.height;
}

/* Whether each row of the current image starts at an aligned address, as most kernels require
 * (pass.h), but none of deep images. Rows are STRIDE_ALIGNed, so only the position of the window in
 * them matters. */
static bool window_is_aligned(const struct chain *chain)
{
    uint32_t channels = chain->shape.channels;
    return image_is_deep(channels) || (size_t)chain->window.x * channels % STRIDE_ALIGN == 0;
}

struct pass *chain_append(struct chain *chain, const struct pass_type *type, struct pass_shape to,
                          const void *params, size_t params_bytes)
{
    assert(params_bytes <= PASS_PARAMS_BYTES_MAX);
    assert(chain->count < chain->capacity);
    struct pass *pass = &chain->passes[chain->count++];
    memset(pass, 0, sizeof(*pass));
    pass->type = type;
    pass->from = chain->shape;
    pass->window = chain->window;
    pass->reads = (struct image_part){0, 0, pass->from.width, pass->from.height};
    pass->to = to;
    pass->to_bytes = pass_shape_bytes(to);
    pass->aside = chain->aside;
    memcpy(pass->params, params, params_bytes);
    chain->shape = to;
    chain->window = pass_window_whole(to);
    return pass;
}

struct pass *chain_add(struct chain *chain, const struct pass_type *type, struct pass_shape to,
                       const void *params, size_t params_bytes)
{
    if (!window_is_aligned(chain))
        step_copy(chain);
    return chain_append(chain, type, to, params, params_bytes);
}

static void take_constants(struct plan *plan, struct pass *pass, size_t bytes, pass_fill *fill)
{
    pass->constants_at = buffer_align(plan->constants_bytes);
    pass->constants_bytes = bytes;
    pass->fill = fill;
    plan->constants_bytes = pass->constants_at + bytes;
}

/* The pixels of overlays are a part of constants_bytes, but have a limit of their own, so they are
 * subtracted. */
enum status chain_constants(struct chain *chain, struct pass *pass, size_t bytes, pass_fill *fill)
{
    struct plan *plan = chain->plan;
    if (buffer_align(plan->constants_bytes) - plan->overlays_bytes + bytes >
        PLAN_CONSTANTS_BYTES_MAX)
        return error_set(chain->error, STATUS_OVER_BUDGET,
                         "the job's operations need more than %llu bytes of tables, the maximum",
                         PLAN_CONSTANTS_BYTES_MAX);
    take_constants(plan, pass, bytes, fill);
    return STATUS_OK;
}

enum status chain_overlay(struct chain *chain, struct pass *pass, size_t bytes, pass_fill *fill)
{
    struct plan *plan = chain->plan;
    size_t taken = buffer_align(bytes);
    if (plan->overlays_bytes + taken > PLAN_OVERLAYS_BYTES_MAX)
        return error_set(chain->error, STATUS_OVER_BUDGET,
                         "the job's overlays cover more than %llu pixels, the maximum",
                         PLAN_OVERLAYS_BYTES_MAX / CHANNELS_MAX);
    take_constants(plan, pass, taken, fill);
    pass->alone = true; /* the same overlay may have another address */
    plan->overlays_bytes += taken;
    return STATUS_OK;
}

/* chain->overlays is NULL if the caller of plan_build provides no overlays. */
enum status chain_find_overlay(const struct chain *chain, struct plan_overlay_request request,
                               struct plan_overlay *overlay)
{
    const struct op_item *item = chain->item;
    const struct plan_overlays *overlays = chain->overlays;
    request.number = (unsigned)(item->output + 1);
    request.position = item->position;
    if (!overlays)
        return op_refuse(item, chain->error, ": an overlay cannot be read here");
    return overlays->find(overlays->context, &request, overlay, chain->error);
}

enum status chain_check_size(const struct chain *chain, uint64_t width, uint64_t height)
{
    const struct plan_limits *limits = chain->limits;
    if (width > limits->side_max || height > limits->side_max)
        return error_set(chain->error, STATUS_IMAGE_TOO_LARGE,
                         "the result is %llu x %llu pixels; a side may have at most %u",
                         (unsigned long long)width, (unsigned long long)height, limits->side_max);
    if (width * height > limits->pixels_max)
        return error_set(chain->error, STATUS_IMAGE_TOO_LARGE,
                         "the result has %llu pixels; at most %llu are allowed",
                         (unsigned long long)(width * height),
                         (unsigned long long)limits->pixels_max);
    return STATUS_OK;
}

struct pass *chain_look(struct chain *chain, const struct pass_type *type, const void *params,
                        size_t params_bytes, size_t work_bytes, pass_values *values)
{
    struct pass *pass = chain_add(chain, type, chain->shape, params, params_bytes);
    chain->window = pass->window; /* the next pass reads the same image */
    pass->work_bytes = work_bytes;
    pass->values = values;
    pass->looks = true;
    return pass;
}

void chain_leave(struct chain *chain)
{
    assert(!chain->aside);
    chain->aside = true;
    chain->first = chain->count;
    chain->left_shape = chain->shape;
    chain->left_window = chain->window;
}

struct pass *chain_look_aside(struct chain *chain, const struct pass_type *type, size_t work_bytes,
                              pass_values *values)
{
    assert(chain->aside);
    struct pass *pass = chain_look(chain, type, "", 0, work_bytes, values);
    chain->aside = false;
    chain->first = chain->count;
    chain->shape = chain->left_shape;
    chain->window = chain->left_window;
    return pass;
}

struct pass *chain_look_stacked(struct chain *chain, const struct pass_type *type,
                                size_t work_bytes, pass_values *values)
{
    assert(chain->count > chain->first);
    struct pass *pass = chain_look_aside(chain, type, work_bytes, values);
    assert(pass_shape_bytes(pass->from) % BUFFER_ALIGN == 0);
    pass->stacked = true;
    return pass;
}
