/* plan.c - parses operations, builds chains of passes, and lays out buffers. */
#include "gpu/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/plan/op.h"
#include "gpu/plan/pass.h"

/* ---- checks without an image ---- */

static enum status check_list(const cJSON *ops, struct error *error)
{
    if (ops && !cJSON_IsArray(ops))
        return error_set(error, STATUS_BAD_OP, "ops must be an array of operations");
    int count = cJSON_GetArraySize(ops);
    if (count > JOB_OPS_MAX)
        return error_set(error, STATUS_BAD_OP, "ops has %d operations; at most %d are allowed",
                         count, JOB_OPS_MAX);
    return STATUS_OK;
}

enum status plan_check_ops(const cJSON *ops, int index, struct error *error)
{
    struct op_parsed parsed;
    enum status status = check_list(ops, error);
    int position = 0;
    const cJSON *item = ops ? ops->child : NULL;
    for (; !status && item; item = item->next)
        status = op_parse(&parsed, item, index, position++, error);
    return status;
}

/* Whether these operations need only the Y channel. add_ops follows the same rule. */
static bool takes_luma(const cJSON *ops)
{
    struct op_parsed parsed;
    struct error ignored = {0};
    for (const cJSON *item = ops ? ops->child : NULL; item; item = item->next) {
        if (op_parse(&parsed, item, -1, 0, &ignored) != STATUS_OK)
            return false;
        if (!(parsed.op->flags & OP_MOVES))
            return op_starts_gray(&parsed);
    }
    return false;
}

enum decode_as plan_decode_as(const struct plan_target *targets, size_t count)
{
    size_t luma = 0;
    for (size_t i = 0; i < count; i++)
        luma += takes_luma(targets[i].ops);
    return luma == 0 ? DECODE_COLOUR : luma == count ? DECODE_LUMA : DECODE_YCC;
}

uint32_t plan_eighths(const struct plan_source *source, const cJSON *ops)
{
    struct op_parsed parsed;
    struct error ignored = {0};
    bool turned = source->orientation >= 5 && source->orientation <= ORIENTATION_MAX;
    for (const cJSON *item = ops ? ops->child : NULL; item; item = item->next) {
        if (op_parse(&parsed, item, -1, 0, &ignored) != STATUS_OK) /* uncovered: net */
            break;
        if (parsed.op->eighths)
            return parsed.op->eighths(parsed.params, turned ? source->height : source->width,
                                      turned ? source->width : source->height);
        if (!(parsed.op->flags & OP_ANY_SCALE))
            break;
    }
    return DECODE_EIGHTHS;
}

bool plan_gives_values(const cJSON *ops)
{
    for (const cJSON *item = ops ? ops->child : NULL; item; item = item->next) {
        struct op_parsed parsed;
        struct error ignored = {0};
        if (op_parse(&parsed, item, -1, 0, &ignored) == STATUS_OK && parsed.op->flags & OP_VALUES)
            return true;
    }
    return false;
}

/* ---- building ---- */

static struct pass_shape source_shape(const struct plan_source *source)
{
    return (struct pass_shape){image_scaled(source->width, source->eighths),
                               image_scaled(source->height, source->eighths), source->channels};
}

/* Sets the full sides of the oriented source. */
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

static enum status add_ops(struct chain *chain, const cJSON *ops, int output)
{
    enum status status = check_list(ops, chain->error);
    int position = 0;
    const cJSON *item = ops ? ops->child : NULL;
    for (; !status && item; item = item->next) {
        struct op_parsed parsed;
        status = op_parse(&parsed, item, output, position++, chain->error);
        if (!status && !(parsed.op->flags & OP_MOVES))
            leave_ycc(chain, op_starts_gray(&parsed));
        chain->item = &parsed.item;
        if (!status)
            status = parsed.op->step(parsed.params, chain);
        if (!status)
            status = chain_check_size(chain, chain->shape.width, chain->shape.height);
    }
    leave_ycc(chain, false);
    return status;
}

/* Number of passes that write images of the chain. */
static uint32_t writer_count(const struct pass *passes, uint32_t pass_count)
{
    uint32_t count = 0;
    for (uint32_t p = 0; p < pass_count; p++)
        count += !passes[p].looks && !passes[p].aside;
    return count;
}

/* For an output of values alone: drops the passes after the last one that computes values. */
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

/* Builds the chain: orientation, operations, and the flattening that the output format needs. */
static enum status build_variant(struct plan *plan, size_t index, const struct plan_target *target,
                                 const struct plan_limits *limits, struct error *error)
{
    const struct plan_source *source = &plan->source;
    struct plan_variant *variant = &plan->variants[index];
    /* An operation adds at most five passes: phash has copy, gray, two of a resize, and hash. The
     * copy of a crop is added before the next operation, or at the end. Three more passes may
     * surround them: orientation, YCbCr to RGB or gray, flattening. */
    uint32_t capacity = 5 * (uint32_t)cJSON_GetArraySize(target->ops) + 3;
    struct pass_shape shape = source_shape(source);

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
                          .window = pass_window_whole(shape),
                          .ycc = source->ycc,
                          .background = source->background};
    step_orient(&chain, source->orientation);
    set_sides(&chain, source);
    enum status status = chain_check_size(&chain, chain.shape.width, chain.shape.height);
    if (!status)
        status = add_ops(&chain, target->ops, (int)target->number - 1);
    if (status)
        return status;
    if (target->no_picture)
        drop_pictures(&chain);
    else if (target->opaque && chain.shape.channels == 4)
        step_flatten(&chain);
    /* A part of the source is read in place. Other results are stored whole, one after the
     * other. */
    if (!target->no_picture && writer_count(chain.passes, chain.count) > 0 &&
        chain_is_cropped(&chain))
        step_copy(&chain);

    variant->pass_count = chain.count;
    variant->width = chain.shape.width;
    variant->height = chain.shape.height;
    variant->channels = chain.shape.channels;
    variant->is_source = writer_count(chain.passes, chain.count) == 0;
    variant->no_picture = target->no_picture;
    variant->x = variant->is_source ? chain.window.x : 0;
    variant->y = variant->is_source ? chain.window.y : 0;
    shrink_passes(variant); /* chain.passes may be freed after this */
    return STATUS_OK;
}

/* The variant keeps its number, without passes, image or values. */
static void leave_out(struct plan_variant *variant)
{
    free(variant->passes);
    *variant = (struct plan_variant){.no_picture = true};
}

/* The scratch buffer has five slots. The writing passes of all variants use EVEN and ODD in turn,
 * one variant after the other. Passes on a branch use ASIDE in turn with the slot of EVEN and ODD
 * that is free. STACK holds the stacked images, and WORK the work space of passes. */
enum slot { SLOT_EVEN, SLOT_ODD, SLOT_ASIDE, SLOT_STACK, SLOT_WORK, SLOTS, SLOT_RESULT = SLOTS };

struct scratch {
    size_t bytes[SLOTS];
    uint32_t stacked, left;  /* images in the stack, and images not yet laid out */
    size_t stacked_values;   /* start of the stacked values in the output buffer */
};

static void grow_slot(struct scratch *scratch, enum slot slot, size_t bytes)
{
    if (slot != SLOT_RESULT && bytes > scratch->bytes[slot])
        scratch->bytes[slot] = bytes;
}

/* Chooses the slot that each pass writes, and grows the slots to their sizes. */
static void choose_slots(const struct plan_variant *variant, struct scratch *scratch)
{
    uint32_t writers = writer_count(variant->passes, variant->pass_count), written = 0, aside = 0;
    for (uint32_t p = 0; p < variant->pass_count; p++) {
        struct pass *pass = &variant->passes[p];
        size_t bytes = buffer_align(pass_shape_bytes(pass->to));
        if (!pass->values)
            grow_slot(scratch, SLOT_WORK, buffer_align(pass->work_bytes));
        if (pass->looks)
            continue;
        pass->slot = written % 2 ? SLOT_ODD : SLOT_EVEN;
        if (!pass->aside) {
            if (++written == writers && !variant->no_picture)
                pass->slot = SLOT_RESULT;
        } else if (pass[1].stacked) { /* a branch has another pass after this one */
            aside = 0;
            pass->slot = SLOT_STACK;
            bytes += scratch->bytes[SLOT_STACK];
            scratch->left = ++scratch->stacked;
        } else if (aside++ % 2) {
            pass->slot = SLOT_ASIDE;
        }
        grow_slot(scratch, pass->slot, bytes);
    }
}

/* Takes `bytes` of the output buffer and returns their offset. */
static size_t take_output(struct plan *plan, size_t bytes)
{
    size_t offset = buffer_align(plan->output_bytes);
    plan->output_bytes = offset + bytes;
    return offset;
}

static struct pass_place slot_place(const struct scratch *scratch, enum slot slot)
{
    struct pass_place place = {PASS_SCRATCH, 0};
    for (enum slot before = 0; before < slot; before++)
        place.offset += scratch->bytes[before];
    if (slot == SLOT_STACK)
        place.offset += scratch->bytes[slot] / scratch->stacked * (scratch->left - 1);
    return place;
}

/* The stack grows downwards, so that the last pass, which processes the whole stack, has its own
 * image and values at the start. */
static void lay_out_stacked(struct plan *plan, struct pass *pass, struct scratch *scratch)
{
    if (scratch->left == scratch->stacked)
        scratch->stacked_values = take_output(plan, scratch->stacked * pass->work_bytes);
    scratch->left--;
    pass->work_place.buffer = PASS_OUTPUT;
    pass->work_place.offset = scratch->stacked_values + scratch->left * pass->work_bytes;
    pass->deferred = scratch->left > 0;
    if (pass->deferred)
        return;
    pass->work_bytes *= scratch->stacked;
    pass->from.height *= scratch->stacked;
    pass->window = pass_window_whole(pass->from);
    pass->to = pass->from;
}

static void lay_out_variant(struct plan *plan, struct plan_variant *variant,
                            struct scratch *scratch)
{
    struct pass_place place = {PASS_INPUT, 0}, chain_place = place;
    if (!variant->is_source && !variant->no_picture)
        variant->offset = take_output(
            plan, image_bytes(variant->width, variant->height, variant->channels));
    for (uint32_t p = 0; p < variant->pass_count; p++) {
        struct pass *pass = &variant->passes[p];
        pass->from_place = place;
        if (!pass->looks)
            place = pass->slot == SLOT_RESULT ? (struct pass_place){PASS_OUTPUT, variant->offset}
                                              : slot_place(scratch, pass->slot);
        pass->to_place = place;
        pass->work_place = slot_place(scratch, SLOT_WORK);
        if (pass->stacked)
            lay_out_stacked(plan, pass, scratch);
        else if (pass->values)
            pass->work_place =
                (struct pass_place){PASS_OUTPUT, take_output(plan, pass->work_bytes)};
        if (pass->stacked)
            place = chain_place;
        if (!pass->aside)
            chain_place = place;
    }
}

static void lay_out(struct plan *plan)
{
    struct scratch scratch = {.stacked = 0};
    for (size_t v = 0; v < plan->variant_count; v++)
        choose_slots(&plan->variants[v], &scratch);
    for (size_t v = 0; v < plan->variant_count; v++)
        lay_out_variant(plan, &plan->variants[v], &scratch);
    if (plan->constants_bytes) {
        plan->constants_at = buffer_align(plan->input_bytes);
        plan->input_bytes = plan->constants_at + plan->constants_bytes;
    }
    plan->idle = plan->output_bytes == 0;
    plan->scratch_bytes = slot_place(&scratch, SLOTS).offset;
    if (!plan->idle)
        plan->device_bytes = buffer_align(plan->input_bytes) + buffer_align(plan->output_bytes) +
                             plan->scratch_bytes;
}

enum status plan_build(struct plan *plan, const struct plan_source *source,
                       const struct plan_target *targets, size_t count,
                       const struct plan_limits *limits, struct error *error)
{
    assert(count >= 1 && count <= JOB_OUTPUTS_MAX);
    assert(source->width >= 1 && source->width <= SIDE_CEILING);
    assert(source->height >= 1 && source->height <= SIDE_CEILING);
    assert(source->channels == 1 || source->channels == 3 || source->channels == 4);
    assert(!source->ycc || source->channels == 3);

    memset(plan, 0, sizeof(*plan));
    plan->source = *source;
    plan->variant_count = (uint32_t)count;
    plan->input_bytes = pass_shape_bytes(source_shape(source));
    for (size_t i = 0; i < count; i++) {
        struct error own = {0};
        size_t constants_bytes = plan->constants_bytes;
        enum status status = build_variant(plan, i, &targets[i], limits, &own);
        bool alone = status == STATUS_BAD_OP || status == STATUS_IMAGE_TOO_LARGE ||
                     status == STATUS_UNKNOWN_OP;
        if (status && !(alone && targets[i].error))
            return error_set(error, status, "%s", own.text);
        if (status) {
            *targets[i].error = own;
            leave_out(&plan->variants[i]);
            plan->constants_bytes = constants_bytes;
        }
    }
    lay_out(plan);
    return STATUS_OK;
}

void plan_drop_passes(struct plan *plan)
{
    for (size_t i = 0; i < JOB_OUTPUTS_MAX; i++) {
        free(plan->variants[i].passes);
        plan->variants[i].passes = NULL;
        plan->variants[i].pass_count = 0;
    }
}

void plan_clear(struct plan *plan)
{
    plan_drop_passes(plan);
    plan->constants_bytes = 0;
}

size_t plan_bytes(const struct plan *plan)
{
    size_t bytes = 0;
    for (uint32_t v = 0; v < plan->variant_count; v++)
        bytes += plan->variants[v].pass_count * sizeof(struct pass);
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
            if (pass->fill)
                pass->fill(pass, constants + pass->constants_at);
        }
    }
}

/* ---- views ---- */

struct image plan_input(const struct plan *plan, uint8_t *input)
{
    return pass_view(input, source_shape(&plan->source));
}

struct image plan_result(const struct plan *plan, size_t variant, uint8_t *input, uint8_t *output)
{
    assert(variant < plan->variant_count);
    const struct plan_variant *result = &plan->variants[variant];
    struct pass_shape shape = {result->width, result->height, result->channels};
    assert(!result->no_picture);
    struct pass_window window = {plan->source.width, plan->source.height, result->x, result->y};
    return result->is_source ? pass_view_window(input, shape, window)
                             : pass_view(output + result->offset, shape);
}

/* ---- values ---- */

bool plan_has_values(const struct plan *plan, size_t variant)
{
    return plan_values_bytes(plan, variant) > 0;
}

size_t plan_values_bytes(const struct plan *plan, size_t variant)
{
    /* A count of four bytes becomes at most eleven characters. Each pass has few nodes, names and
     * other numbers. */
    enum { text_per_byte = 3, pass_bytes = 2048 };
    assert(variant < plan->variant_count);
    const struct plan_variant *result = &plan->variants[variant];
    size_t bytes = 0;
    for (uint32_t p = 0; p < result->pass_count; p++)
        if (result->passes[p].values)
            bytes += pass_bytes + text_per_byte * result->passes[p].work_bytes;
    return bytes;
}

/* The pass's name, with a number if an earlier pass has the same name. */
static void values_name(const struct plan_variant *variant, uint32_t index, char *name, size_t size)
{
    const char *plain = variant->passes[index].type->name;
    unsigned number = 1;
    for (uint32_t p = 0; p < index; p++)
        number += variant->passes[p].values && strcmp(variant->passes[p].type->name, plain) == 0;
    snprintf(name, size, number > 1 ? "%s_%u" : "%s", plain, number);
}

cJSON *plan_values(const struct plan *plan, size_t variant, const uint8_t *output)
{
    assert(variant < plan->variant_count);
    const struct plan_variant *result = &plan->variants[variant];
    cJSON *values = cJSON_CreateObject();
    for (uint32_t p = 0; values && p < result->pass_count; p++) {
        const struct pass *pass = &result->passes[p];
        char name[40];
        if (!pass->values)
            continue;
        values_name(result, p, name, sizeof(name));
        cJSON *value = pass->values(pass, output + pass->work_place.offset);
        if (value && cJSON_AddItemToObject(values, name, value))
            continue;
        cJSON_Delete(value); /* uncovered: memory */
        cJSON_Delete(values);
        values = NULL;
    }
    return values;
}
