/*
 * layout.c - gives every image, table and file of a plan its place in the buffers.
 *
 * The input buffer holds the decoded image, or the file and the frame for a device to decode, then
 * the constants and the headers of files that a device encodes. The output buffer holds values and
 * images to download, then what kernels write over the bus: the report and encoded files.
 *
 * Also finds the needed part of the source.
 */
#include "gpu/plan/pass.h"

/* The parts of the scratch buffer, in their order. A slot is one part; it is as large as the
 * largest thing that is ever put there. The passes of a chain write to EVEN and ODD in turn, and
 * the variants run one after the other. Passes on a branch write to ASIDE, and to that one of EVEN
 * and ODD that is free, in turn. KEPT has the results of passes that several variants share, and
 * JOINT those of joint passes. STACK has the stacked images (pass.h), and WORK the work space of
 * passes. SOURCE has the image that a device has decoded, FINAL the images that a device will
 * encode, and CODEC the work space of the encoders. The work space of the decoder is all memory
 * after SOURCE: the other parts are used when it has ended. SLOT_RESULT is not a part: the pass
 * writes a variant's result. */
enum slot {
    SLOT_SOURCE,
    SLOT_EVEN,
    SLOT_ODD,
    SLOT_ASIDE,
    SLOT_KEPT,
    SLOT_JOINT,
    SLOT_STACK,
    SLOT_WORK,
    SLOT_FINAL,
    SLOT_CODEC,
    SLOTS,
    SLOT_RESULT = SLOTS
};

struct scratch {
    size_t bytes[SLOTS];
    bool joint_in_source;    /* the joint passes write to SOURCE, which nothing reads any more */
    uint32_t stacked, left;  /* images in the stack, and images not yet laid out */
    size_t joint_work;       /* bytes of WORK for joint passes, which need it at the same time */
    size_t stacked_values;   /* start of the stacked values in the output buffer */
};

static void grow_slot(struct scratch *scratch, enum slot slot, size_t bytes)
{
    if (slot != SLOT_RESULT && bytes > scratch->bytes[slot])
        scratch->bytes[slot] = bytes;
}

/* Adds the pass's result to a slot in which all results stay. */
static void add_to_slot(struct scratch *scratch, enum slot slot, struct pass *pass)
{
    pass->slot = slot;
    pass->to_place.offset = scratch->bytes[slot]; /* until slot_place is known */
    scratch->bytes[slot] += buffer_align(pass->to_bytes);
}

/* Chooses the slot to which each pass writes, and makes the slots large enough. */
static void choose_slots(const struct plan_variant *variant, struct scratch *scratch)
{
    uint32_t written = 0, aside = 0;
    for (uint32_t p = 0; p < variant->pass_count; p++) {
        struct pass *pass = &variant->passes[p];
        size_t bytes = buffer_align(pass->to_bytes);
        bool joint = p >= variant->early && p - variant->early < variant->joint;
        if (pass->looks)
            aside = 0; /* a pass that looks may end a branch */
        else if (!pass->aside)
            written++;
        if (pass->same)
            continue;
        if (joint) {
            pass->work_place.offset = scratch->joint_work; /* until slot_place is known */
            scratch->joint_work += buffer_align(pass->work_bytes);
            grow_slot(scratch, SLOT_WORK, scratch->joint_work);
        } else if (!pass->values) {
            grow_slot(scratch, SLOT_WORK, buffer_align(pass->work_bytes));
        }
        if (pass->looks)
            continue;
        if (pass->result_of) {
            pass->slot = SLOT_RESULT;
        } else if (joint) {
            add_to_slot(scratch, SLOT_JOINT, pass);
        } else if (pass->kept) {
            add_to_slot(scratch, SLOT_KEPT, pass);
        } else if (pass->aside && pass[1].stacked) { /* a branch ends with one that looks */
            pass->slot = SLOT_STACK;
            grow_slot(scratch, SLOT_STACK, bytes + scratch->bytes[SLOT_STACK]);
            scratch->left = ++scratch->stacked;
        } else {
            bool even = written % 2 == (pass->aside ? 0 : 1);
            pass->slot = pass->aside && aside++ % 2 ? SLOT_ASIDE : even ? SLOT_EVEN : SLOT_ODD;
            grow_slot(scratch, pass->slot, bytes);
        }
    }
}

/* Whether no pass after the early ones reads the source, nor an encoder. */
static bool leaves_source(const struct plan *plan)
{
    for (size_t v = 0; v < plan->variant_count; v++)
        if (plan->variants[v].early == 0 &&
            (plan->variants[v].pass_count > 0 || plan->variants[v].is_source))
            return false;
    return true;
}

/* Takes `bytes` at the end of a buffer of *used bytes, and returns their offset. */
static size_t take(size_t *used, size_t bytes)
{
    size_t offset = buffer_align(*used);
    *used = offset + bytes;
    return offset;
}

/* The bytes that all encoders take in FINAL and CODEC. They run at the same time, so they do not
 * share memory. */
struct encoder_room {
    size_t final_bytes, work_bytes;
};

/* The variant, itself or an earlier one, whose result is also that of variant v. NULL: no pass
 * writes v's result. */
static const struct plan_variant *result_owner(const struct plan *plan, size_t v)
{
    const struct plan_variant *variant = &plan->variants[v];
    const struct pass *last = pass_last_writer(variant->passes, variant->pass_count);
    if (!last || variant->no_picture)
        return NULL;
    last = last->same ? last->same : last;
    return &plan->variants[last->result_of - 1];
}

static void add_encoder(const struct plan *plan, size_t v, struct encoder_room *room)
{
    const struct plan_variant *variant = &plan->variants[v];
    size_t image = image_bytes(variant->width, variant->height, variant->channels);
    if (result_owner(plan, v) == variant)
        room->final_bytes += buffer_align(image);
    room->work_bytes += buffer_align(variant->encoder.work_bytes);
}

static size_t source_bytes(const struct plan *plan)
{
    return pass_shape_bytes(plan_source_shape(&plan->source));
}

/* Grows the slots for the source and the encoders. */
static void measure_codecs(const struct plan *plan, struct scratch *scratch)
{
    const struct plan_file *file = &plan->source.file;
    struct encoder_room room = {0, 0};
    if (file->bytes > 0)
        grow_slot(scratch, SLOT_SOURCE, buffer_align(source_bytes(plan)));
    for (size_t v = 0; v < plan->variant_count; v++)
        if (plan_is_encoded(&plan->variants[v]))
            add_encoder(plan, v, &room);
    grow_slot(scratch, SLOT_FINAL, room.final_bytes);
    grow_slot(scratch, SLOT_CODEC, room.work_bytes);
}

static struct pass_place slot_place(const struct scratch *scratch, enum slot slot)
{
    struct pass_place place = {PASS_SCRATCH, 0};
    if (slot == SLOT_JOINT && scratch->joint_in_source)
        slot = SLOT_SOURCE;
    for (enum slot before = 0; before < slot; before++)
        if (before != SLOT_JOINT || !scratch->joint_in_source)
            place.offset += scratch->bytes[before];
    if (slot == SLOT_STACK)
        place.offset += scratch->bytes[slot] / scratch->stacked * (scratch->left - 1);
    return place;
}

/* Gives a stacked pass its memory. The first one gets the end of the stack, and the last one its
 * start, because the last one processes the whole stack. */
static void lay_out_stacked(struct plan *plan, struct pass *pass, struct scratch *scratch)
{
    if (scratch->left == scratch->stacked)
        scratch->stacked_values = take(&plan->output_bytes, scratch->stacked * pass->work_bytes);
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

/* Gives a variant that a device encodes its image, its work space and its header. */
static void lay_out_encoder(struct plan *plan, size_t v, const struct scratch *scratch,
                            struct encoder_room *room)
{
    const struct plan_variant *owner = result_owner(plan, v);
    struct plan_encoder *encoder = &plan->variants[v].encoder;
    size_t final_at = slot_place(scratch, SLOT_FINAL).offset;
    encoder->image_at = !owner                        ? plan->source_at
                        : owner == &plan->variants[v] ? final_at + room->final_bytes
                                                      : owner->encoder.image_at;
    encoder->work_at = slot_place(scratch, SLOT_CODEC).offset + room->work_bytes;
    encoder->header_at = take(&plan->input_bytes, encoder->header_bytes);
    add_encoder(plan, v, room);
}

/* Takes memory for a result, and before a tensor BUFFER_ALIGN bytes for its header. */
static size_t take_result(size_t *used, const struct plan_variant *variant)
{
    if (variant->tensor_bytes == 0)
        return take(used, image_bytes(variant->width, variant->height, variant->channels));
    take(used, BUFFER_ALIGN);
    return take(used, variant->tensor_bytes);
}

/* Gives the variant's image its place, which is the owner's if variants share it. */
static void lay_out_result(struct plan *plan, size_t v, const struct scratch *scratch,
                           struct encoder_room *room)
{
    struct plan_variant *variant = &plan->variants[v];
    const struct plan_variant *owner = result_owner(plan, v);
    if (plan_is_encoded(variant))
        lay_out_encoder(plan, v, scratch, room);
    else if (owner == variant)
        variant->offset = take_result(&plan->output_bytes, variant);
    else if (owner)
        variant->offset = owner->offset;
}

static struct pass_place result_place(const struct plan_variant *variant)
{
    return plan_is_encoded(variant) ? (struct pass_place){PASS_SCRATCH, variant->encoder.image_at}
                                    : (struct pass_place){PASS_OUTPUT, variant->offset};
}

/* Gives a pass that runs the places of its result and its work space. from: of the image that it
 * reads. */
static void lay_out_pass(struct plan *plan, struct pass *pass, struct pass_place from,
                         struct scratch *scratch)
{
    size_t offset = pass->to_place.offset, work_at = pass->work_place.offset;
    pass->from_place = pass->to_place = from;
    if (!pass->looks && pass->result_of) {
        pass->to_place = result_place(&plan->variants[pass->result_of - 1]);
    } else if (!pass->looks) {
        pass->to_place = slot_place(scratch, pass->slot);
        if (pass->slot == SLOT_KEPT || pass->slot == SLOT_JOINT)
            pass->to_place.offset += offset;
    }
    pass->work_place = slot_place(scratch, SLOT_WORK);
    pass->work_place.offset += work_at;
    if (pass->stacked)
        lay_out_stacked(plan, pass, scratch);
    else if (pass->values)
        pass->work_place =
            (struct pass_place){PASS_OUTPUT, take(&plan->output_bytes, pass->work_bytes)};
}

/* Adds a part of the window to the needed part of the source. */
static void need(struct plan *plan, const struct pass_window *window, struct image_part part)
{
    struct image_part *all = &plan->needed;
    uint32_t left = window->x + part.x, right = left + part.width;
    uint32_t top = window->y + part.y, bottom = top + part.height;
    if (all->width > 0) {
        left = left < all->x ? left : all->x;
        top = top < all->y ? top : all->y;
        right = right > all->x + all->width ? right : all->x + all->width;
        bottom = bottom > all->y + all->height ? bottom : all->y + all->height;
    }
    *all = (struct image_part){left, top, right - left, bottom - top};
}

static struct image_part whole_part(struct pass_shape shape)
{
    return (struct image_part){0, 0, shape.width, shape.height};
}

/* Adds what the variant's passes read of the source, or the source that is its result. If the first
 * pass only computes values, or begins a branch, later passes read the same image or a part of it.
 */
static void need_source(struct plan *plan, const struct plan_variant *variant)
{
    const struct pass *first = variant->passes;
    struct pass_shape shape = plan_source_shape(&plan->source);
    struct pass_window window = pass_window_whole(shape);
    if (variant->pass_count > 0)
        need(plan, &first->window,
             first->looks || first->aside ? whole_part(first->from) : first->reads);
    else if (!variant->no_picture)
        need(plan, &window, whole_part(shape));
}

static void lay_out_variant(struct plan *plan, struct plan_variant *variant,
                            struct scratch *scratch)
{
    struct pass_place place = {PASS_INPUT, 0};
    if (plan->source.file.bytes > 0)
        place = (struct pass_place){PASS_SCRATCH, plan->source_at};
    struct pass_place chain_place = place;
    for (uint32_t p = 0; p < variant->pass_count; p++) {
        struct pass *pass = &variant->passes[p];
        if (pass->same) {
            pass->from_place = pass->same->from_place;
            pass->to_place = pass->same->to_place;
            pass->work_place = pass->same->work_place;
        } else {
            lay_out_pass(plan, pass, place, scratch);
        }
        place = pass->to_place;
        if (pass->aside && pass->looks) /* the end of a branch */
            place = chain_place;
        if (!pass->aside)
            chain_place = place;
    }
}

/* Puts the report and the files at the end of the output buffer, after the part that is
 * downloaded. */
static void lay_out_files(struct plan *plan)
{
    bool used = plan->source.file.bytes > 0;
    size_t downloaded = plan->output_bytes;
    for (size_t v = 0; v < plan->variant_count; v++)
        used |= plan_is_encoded(&plan->variants[v]);
    if (!used)
        return;
    plan->report_at = take(&plan->output_bytes, sizeof(struct plan_report));
    for (size_t v = 0; v < plan->variant_count; v++)
        if (plan_is_encoded(&plan->variants[v]))
            plan->variants[v].offset =
                take(&plan->output_bytes, plan->variants[v].encoder.capacity);
    plan->written_bytes = plan->output_bytes - downloaded;
}

static void lay_out_frame(struct plan *plan)
{
    plan->frame_at = take(&plan->input_bytes, plan->source.file.frame_bytes);
    plan->prepared_at = take(&plan->input_bytes, plan->source.file.prepared_bytes);
    plan->host_end = buffer_align(plan->input_bytes);
}

void plan_lay_out(struct plan *plan)
{
    struct scratch scratch = {.stacked = 0};
    struct encoder_room room = {0, 0};
    for (size_t v = 0; v < plan->variant_count; v++)
        choose_slots(&plan->variants[v], &scratch);
    scratch.joint_in_source = plan->source.file.bytes > 0 && leaves_source(plan);
    if (scratch.joint_in_source)
        grow_slot(&scratch, SLOT_SOURCE, scratch.bytes[SLOT_JOINT]);
    measure_codecs(plan, &scratch);
    plan->source_at = slot_place(&scratch, SLOT_SOURCE).offset;
    plan->decoder_at = slot_place(&scratch, SLOT_SOURCE + 1).offset;
    plan->input_bytes = plan->source.file.bytes;
    if (plan->input_bytes > 0)
        lay_out_frame(plan);
    else
        plan->input_bytes = plan->source.unread ? 0 : source_bytes(plan);
    if (plan->constants_bytes > 0)
        plan->constants_at = take(&plan->input_bytes, plan->constants_bytes);
    for (size_t v = 0; v < plan->variant_count; v++)
        lay_out_result(plan, v, &scratch, &room);
    for (size_t v = 0; v < plan->variant_count; v++) {
        need_source(plan, &plan->variants[v]);
        lay_out_variant(plan, &plan->variants[v], &scratch);
    }
    lay_out_files(plan);
    plan->idle = plan->output_bytes == 0;
    plan->scratch_bytes = slot_place(&scratch, SLOTS).offset;
    size_t decoder_end = plan->decoder_at + buffer_align(plan->source.file.work_bytes);
    if (decoder_end > plan->scratch_bytes)
        plan->scratch_bytes = decoder_end;
    if (!plan->idle)
        plan->device_bytes = buffer_align(plan->input_bytes) + plan->scratch_bytes +
                             buffer_align(plan->output_bytes - plan->written_bytes);
}
