/*
 * cuda_batch.c - enqueues a batch of tasks on its stream, and measures its copies and kernels.
 *
 * First all tasks are uploaded, then all are decoded, then all passes run, then all are encoded,
 * then all are downloaded. The scans of progressive JPEGs are decoded before that, in a batch of
 * their own. Events between these parts measure how long each part takes. If a CUDA call for one
 * task fails, only that task fails; if one for all fails, all tasks fail. A sticky error
 * (cuda_is_sticky) ends the whole batch.
 */
#include "gpu/cuda/device.h"

#include <string.h>

#include "conf/clock.h"
#include "gpu/cuda/try.h"

/* ---- enqueueing ---- */

/* Kernels write the rest of the output buffer themselves. */
static size_t downloaded_bytes(const struct plan *plan)
{
    return plan->output_bytes - plan->written_bytes;
}

/* One copy is enough, because all results of a task are adjacent. */
static cudaError_t copy_out(struct cuda_slot *slot, struct engine_task *task)
{
    size_t bytes = downloaded_bytes(task->plan);
    if (bytes == 0)
        return cudaSuccess;
    return cuda_note_task(
        slot, task,
        CUDA_TRY(cudaMemcpyAsync(task->memory->output, cuda_buffers(task).output, bytes,
                                 cudaMemcpyDeviceToHost, slot->stream)));
}

/* Returns cudaSuccess or a sticky error, like most functions here. */
static cudaError_t copy_all_out(struct cuda_slot *slot)
{
    cudaError_t result = cudaSuccess;
    list_each(node, &slot->tasks)
        if (cuda_task(node)->error.status == STATUS_OK && result == cudaSuccess)
            result = copy_out(slot, cuda_task(node));
    return result;
}

/* If an event cannot be recorded, the batch runs without being measured. */
static cudaError_t note_event(struct cuda_slot *slot, cudaError_t result)
{
    slot->measured = slot->measured && result == cudaSuccess;
    return cuda_is_sticky(result) ? result : cudaSuccess;
}

static cudaError_t record(struct cuda_slot *slot, cudaEvent_t event)
{
    if (!slot->measured)
        return cudaSuccess;
    return note_event(slot, CUDA_TRY(cudaEventRecord(event, slot->stream)));
}

/* If the device cannot be selected, all tasks fail. */
static cudaError_t choose_device(struct cuda_slot *slot)
{
    cudaError_t result = CUDA_TRY(cudaSetDevice(slot->device->ordinal));
    if (result == cudaSuccess || cuda_is_sticky(result))
        return result;
    slot->measured = false;
    return cuda_note_tasks(slot, result);
}

/* ---- kernels ---- */

/* A task, and the position of its next pass in a phase of its plan. */
struct plan_cursor {
    struct engine_task *task;
    struct pass_buffers buffers;
    enum plan_phase phase;
    uint32_t end_variant; /* the passes of variants before this one */
    uint32_t at_variant, at_pass;
};

/* Returns the cursor's next pass, but skips passes that do nothing (pass.h). NULL: no pass is
 * left. */
static const struct pass *next_pass(struct plan_cursor *cursor)
{
    const struct plan *plan = cursor->task->plan;
    for (; cursor->at_variant < cursor->end_variant; cursor->at_variant++) {
        const struct plan_variant *variant = &plan->variants[cursor->at_variant];
        uint32_t begin = phase_begin(variant, cursor->phase);
        if (cursor->at_pass < begin)
            cursor->at_pass = begin;
        for (; cursor->at_pass < phase_end(variant, cursor->phase); cursor->at_pass++)
            if (pass_runs(&variant->passes[cursor->at_pass]))
                return &variant->passes[cursor->at_pass];
        cursor->at_pass = 0;
    }
    return NULL;
}

/* Prepares the launch of `planned`, which next_pass returned, and advances the cursor past it.
 * If the pass has constants, *bound receives a copy of it. *bound must stay valid until the
 * launch. */
static struct pass_call take_pass(struct plan_cursor *cursor, const struct pass *planned,
                                  struct pass *bound)
{
    const struct pass_buffers *buffers = &cursor->buffers;
    struct pass_call call;
    call.pass = pass_bind(planned, cursor->task->plan, buffers, bound);
    call.from = pass_from(call.pass, buffers);
    call.to = pass_to(call.pass, buffers);
    call.work = pass_address(buffers, call.pass->work_place);
    cursor->at_pass++;
    return call;
}

static cudaError_t launch_pass(struct cuda_slot *slot, struct engine_task *task,
                               const struct pass_call *call)
{
    cudaError_t result = (cudaError_t)pass_launch(call, slot->stream);
    return cuda_note_task(slot, task, cuda_try(result, call->pass->type->name));
}

/* Whether the pass may share a launch with passes of other tasks. Most passes of large images may
 * not: they gain nothing from it. The blocks of joint passes run long, so that many of the device's
 * places are free at the end of a launch, unless further images fill them. */
static bool can_share(const struct pass *pass)
{
    uint64_t from = (uint64_t)pass->from.width * pass->from.height;
    uint64_t to = (uint64_t)pass->to.width * pass->to.height;
    return pass->type->cpu_joint ||
           (pass->type->cuda_many && from <= PASS_SHARED_PIXELS && to <= PASS_SHARED_PIXELS);
}

/* Whether two passes may share the same launch. */
static bool is_alike(const struct pass *a, const struct pass *b)
{
    return a->type == b->type && a->from.channels == b->from.channels &&
           a->to.channels == b->to.channels &&
           memcmp(a->params, b->params, a->type->shared_params) == 0;
}

/* Launches the task's passes up to the first pass that can share a launch. */
static cudaError_t launch_own(struct cuda_slot *slot, struct plan_cursor *cursor)
{
    const struct pass *planned;
    while (cursor->task->error.status == STATUS_OK && (planned = next_pass(cursor)) &&
           !can_share(planned)) {
        struct pass bound;
        struct pass_call call = take_pass(cursor, planned, &bound);
        cudaError_t result = launch_pass(slot, cursor->task, &call);
        if (result != cudaSuccess)
            return result;
    }
    return cudaSuccess;
}

static bool is_unfinished(struct plan_cursor *cursor)
{
    return cursor->task->error.status == STATUS_OK && next_pass(cursor);
}

/* The cursors whose passes share a launch. */
struct shared_cursors {
    struct plan_cursor *of[PASSES_SHARED_MAX];
    uint32_t count;
};

/* Makes one launch for the next pass of the first cursor, which is unfinished, and for passes like
 * it that are next for other cursors: those of its task, and of other tasks as long as all results
 * together have at most PASSES_SHARED_BYTES. If the launch fails, launches each of these passes
 * alone. *shared receives these cursors. */
static cudaError_t launch_shared(struct cuda_slot *slot, struct plan_cursor *cursors,
                                 uint32_t count, struct shared_cursors *shared)
{
    struct pass_call calls[PASSES_SHARED_MAX];
    struct pass bound[PASSES_SHARED_MAX];
    const struct pass *first = next_pass(&cursors[0]);
    size_t bytes = 0; /* of the results */
    shared->count = 0;
    for (uint32_t i = 0; i < count && shared->count < PASSES_SHARED_MAX; i++) {
        const struct pass *planned = next_pass(&cursors[i]);
        if (cursors[i].task->error.status != STATUS_OK || !planned || !is_alike(first, planned))
            continue;
        size_t own = planned->to_bytes;
        if (cursors[i].task != cursors[0].task &&
            (!can_share(planned) || bytes + own > PASSES_SHARED_BYTES))
            continue;
        bytes += own;
        uint32_t at = shared->count++;
        shared->of[at] = &cursors[i];
        calls[at] = take_pass(&cursors[i], planned, &bound[at]);
    }
    if (shared->count == 1)
        return launch_pass(slot, shared->of[0]->task, &calls[0]);
    cudaError_t result =
        cuda_try((cudaError_t)first->type->cuda_many(calls, shared->count, slot->stream),
                 first->type->name);
    if (result == cudaSuccess || cuda_is_sticky(result))
        return result;
    result = cudaSuccess;
    for (uint32_t i = 0; i < shared->count && result == cudaSuccess; i++)
        result = launch_pass(slot, shared->of[i]->task, &calls[i]);
    return result;
}

/* Launches the passes of all cursors. */
static cudaError_t launch_cursors(struct cuda_slot *slot, struct plan_cursor *cursors,
                                  uint32_t count)
{
    struct shared_cursors shared;
    cudaError_t result = cudaSuccess;
    for (uint32_t i = 0; i < count && result == cudaSuccess; i++)
        result = launch_own(slot, &cursors[i]);
    for (uint32_t first = 0; first < count && result == cudaSuccess;) {
        if (!is_unfinished(&cursors[first])) {
            first++;
            continue;
        }
        result = launch_shared(slot, cursors + first, count - first, &shared);
        for (uint32_t i = 0; i < shared.count && result == cudaSuccess; i++)
            result = launch_own(slot, shared.of[i]);
    }
    return result;
}

/* The largest number of cursors at a time. */
#define CURSORS_MAX BATCH_TASKS_MAX

/* Launches the passes of a phase of all tasks. A cursor takes one variant of a task in the joint
 * phase, and all variants in the others. */
static cudaError_t launch_phase(struct cuda_slot *slot, enum plan_phase phase)
{
    struct plan_cursor cursors[CURSORS_MAX];
    uint32_t count = 0;
    cudaError_t result = cudaSuccess;
    list_each (node, &slot->tasks) {
        struct engine_task *task = cuda_task(node);
        uint32_t variants = task->plan->variant_count, step = phase == PHASE_JOINT ? 1 : variants;
        for (uint32_t v = 0; v < variants && result == cudaSuccess; v += step) {
            struct plan_cursor cursor = {task, cuda_buffers(task), phase, v + step, v, 0};
            if (!next_pass(&cursor))
                continue;
            cursors[count++] = cursor;
            if (count < CURSORS_MAX)
                continue;
            result = launch_cursors(slot, cursors, count);
            count = 0;
        }
    }
    return result ? result : launch_cursors(slot, cursors, count);
}

/* Launches the passes of all tasks. */
static cudaError_t launch_all(struct cuda_slot *slot)
{
    cudaError_t result = launch_phase(slot, PHASE_EARLY);
    result = result ? result : launch_phase(slot, PHASE_JOINT);
    return result ? result : launch_phase(slot, PHASE_REST);
}

/* ---- the whole batch ---- */

/* Calls a function of cuda_codec.c if the batch uses the codec. Any error fails all tasks, because
 * they share the launches. */
static cudaError_t run_codec(struct cuda_slot *slot, cudaError_t (*codec)(struct cuda_slot *slot))
{
    return slot->has_codec ? cuda_note_tasks(slot, codec(slot)) : cudaSuccess;
}

static bool decodes(const struct plan *plan)
{
    return plan->source.file.bytes > 0;
}

static size_t encoded_bytes(const struct plan *plan)
{
    size_t bytes = 0;
    for (size_t i = 0; i < plan->variant_count; i++)
        if (plan_is_encoded(&plan->variants[i]))
            bytes += plan->variants[i].encoder.capacity;
    return bytes;
}

static void note_bytes(struct cuda_slot *slot)
{
    slot->has_codec = slot->has_downloads = false;
    slot->encoders = 0;
    slot->upload_bytes = slot->upload_ns = slot->scans_at_ns = 0;
    list_each(node, &slot->tasks)
    {
        const struct engine_task *task = cuda_task(node);
        const struct plan *plan = task->plan;
        slot->encoders |= task->encoders;
        slot->has_codec |= decodes(plan) || task->images > 0;
        slot->has_downloads |= downloaded_bytes(plan) > 0;
        slot->upload_bytes += plan->input_bytes;
    }
}

/* Records an event between the passes and the codec, if the batch uses the codec. */
static cudaError_t record_codec(struct cuda_slot *slot, cudaEvent_t event)
{
    return slot->has_codec ? record(slot, event) : cudaSuccess;
}

cudaError_t cuda_batch_long(struct cuda_slot *slot)
{
    return run_codec(slot, cuda_codec_long);
}

cudaError_t cuda_batch_begin(struct cuda_slot *slot)
{
    slot->measured = true;
    note_bytes(slot);
    cudaError_t result = choose_device(slot);
    if (result == cudaSuccess && slot->measured)
        result = note_event(slot, cuda_clock_start(slot->device, slot));
    result = result ? result : record(slot, slot->start);
    result = result ? result : run_codec(slot, cuda_codec_describe);
    result = result ? result : cuda_upload(slot);
    result = result ? result : record(slot, slot->copied_in);
    return result ? result : cuda_batch_long(slot);
}

cudaError_t cuda_batch_continue(struct cuda_slot *slot)
{
    cudaError_t result = run_codec(slot, cuda_codec_decode);
    result = result ? result : record_codec(slot, slot->decoded);
    result = result ? result : launch_all(slot);
    result = result ? result : record_codec(slot, slot->passed);
    result = result ? result : run_codec(slot, cuda_codec_encode);
    result = result ? result : record(slot, slot->computed);
    if (result != cudaSuccess || !slot->has_downloads)
        return result;
    result = copy_all_out(slot);
    return result ? result : record(slot, slot->copied_out);
}

/* ---- measuring ---- */

enum { H2D, DECODE, KERNEL, ENCODE, D2H, PARTS };

/* One part of a batch. Its time is divided among the tasks in proportion to their bytes. */
struct part {
    uint64_t began_ns; /* CLOCK_MONOTONIC */
    uint64_t took_ns;
    uint64_t shared_ns; /* of took_ns: given to tasks already */
    double bytes;       /* of all tasks */
    double byte_ns;     /* its time per byte; 0: it has no bytes */
};

/* The bytes by which a task's share of each part is computed. A progressive file was uploaded for
 * its scans. */
void cuda_batch_prepare(struct engine_task *task)
{
    const struct plan *plan = task->plan;
    double *bytes = task->part_bytes;
    static_assert(PARTS == sizeof task->part_bytes / sizeof *bytes, "one for each part");
    bytes[H2D] = (double)(cuda_is_progressive(task) ? 0 : plan->input_bytes);
    bytes[DECODE] = (double)(decodes(plan) ? plan->source.file.bytes : 0);
    bytes[KERNEL] = (double)plan->device_bytes;
    bytes[ENCODE] = (double)encoded_bytes(plan);
    bytes[D2H] = (double)plan->output_bytes; /* an upper bound: files may be shorter */
}

static bool elapsed_ns(cudaEvent_t from, cudaEvent_t to, uint64_t *ns)
{
    float ms = 0;
    if (cudaEventElapsedTime(&ms, from, to) == cudaSuccess) {
        *ns = (uint64_t)((double)ms * 1e6 + 0.5);
        return true;
    }
    (void)cudaGetLastError();
    return false;
}

/* Adds the batch's intervals to the device's activity. The time in which a copy waits for another
 * batch's copy counts as copying. That is correct, because activity counts overlapping intervals
 * once. */
static void add_activity(struct cuda_device *device, const struct part *parts, double start_s)
{
    static const enum activity_kind kinds[PARTS] = {ACTIVITY_H2D, ACTIVITY_KERNEL, ACTIVITY_KERNEL,
                                                    ACTIVITY_KERNEL, ACTIVITY_D2H};
    double at_s = start_s;
    for (int i = 0; i < PARTS; i++) {
        double end_s = at_s + (double)parts[i].took_ns * 1e-9;
        activity_add(&device->base.activity, kinds[i], at_s, end_s);
        at_s = end_s;
    }
    activity_add(&device->base.activity, ACTIVITY_ANY, start_s, at_s);
}

/* Sets the task's duration and start in each part. Within a part, the shares of the tasks follow
 * each other. placed: part.began_ns is known; otherwise the starts stay 0. A task whose scans were
 * decoded has a start and a duration already. */
static void give_share(struct engine_task *task, struct part *parts, bool placed)
{
    double *ms[PARTS] = {&task->h2d_ms, &task->decode_ms, &task->kernel_ms, &task->encode_ms,
                         &task->d2h_ms};
    uint64_t *at_ns[PARTS] = {&task->started_ns, &task->decode_at_ns, &task->kernel_at_ns,
                              &task->encode_at_ns, &task->d2h_at_ns};
    for (int i = 0; i < PARTS; i++) {
        struct part *part = &parts[i];
        uint64_t share_ns = (uint64_t)(task->part_bytes[i] * part->byte_ns);
        *ms[i] += (double)share_ns * 1e-6;
        if (placed && *at_ns[i] == 0)
            *at_ns[i] = part->began_ns + part->shared_ns;
        part->shared_ns += share_ns;
    }
    task->kernel_ms += task->decode_ms + task->encode_ms;
}

/* Divides the parts' times among the tasks that have no error. placed: as for give_share. */
static void share_out(struct cuda_slot *slot, struct part *parts, bool placed)
{
    list_each (node, &slot->tasks) {
        const struct engine_task *task = cuda_task(node);
        for (int i = 0; i < PARTS && task->error.status == STATUS_OK; i++)
            parts[i].bytes += task->part_bytes[i];
    }
    for (int i = 0; i < PARTS; i++)
        if (parts[i].bytes > 0)
            parts[i].byte_ns = (double)parts[i].took_ns / parts[i].bytes;
    list_each(node, &slot->tasks)
        if (cuda_task(node)->error.status == STATUS_OK)
            give_share(cuda_task(node), parts, placed);
}

/* Sets part.took_ns of all parts from the slot's events. false: an event's time is not known. */
static bool measure(const struct cuda_slot *slot, struct part *parts)
{
    bool codec = slot->has_codec;
    cudaEvent_t decoded = codec ? slot->decoded : slot->copied_in;
    cudaEvent_t passed = codec ? slot->passed : slot->computed;
    return elapsed_ns(slot->start, slot->copied_in, &parts[H2D].took_ns) &&
           (!codec || elapsed_ns(slot->copied_in, decoded, &parts[DECODE].took_ns)) &&
           elapsed_ns(decoded, passed, &parts[KERNEL].took_ns) &&
           (!codec || elapsed_ns(passed, slot->computed, &parts[ENCODE].took_ns)) &&
           (!slot->has_downloads ||
            elapsed_ns(slot->computed, slot->copied_out, &parts[D2H].took_ns));
}

static void take_times(struct cuda_slot *slot, struct part *parts)
{
    struct cuda_device *device = slot->device;
    double start_s;
    if (!measure(slot, parts))
        return;
    bool placed = cuda_clock_time(device, slot, slot->start, &start_s);
    if (placed) {
        uint64_t took_ns = 0;
        for (int i = 0; i < PARTS; i++)
            took_ns += parts[i].took_ns;
        uint64_t at_ns = cuda_clock_host_ns(device, slot, start_s,
                                            start_s + (double)took_ns * 1e-9);
        for (int i = 0; i < PARTS; at_ns += parts[i++].took_ns)
            parts[i].began_ns = at_ns;
        add_activity(device, parts, start_s);
    }
    share_out(slot, parts, placed);
}

void cuda_batch_take_times(struct cuda_slot *slot)
{
    struct part parts[PARTS] = {};
    if (slot->measured)
        take_times(slot, parts);
    activity_count(&slot->device->base.activity, (uint64_t)parts[H2D].bytes,
                   (uint64_t)parts[D2H].bytes, slot->tasks.length);
}

/* ---- measuring scans ---- */

/* Finds out when the upload of the batch began and ended. Once is enough. */
static void place_scans(struct cuda_slot *slot)
{
    uint64_t took_ns;
    double start_s;
    if (slot->scans_at_ns > 0 || !slot->measured ||
        !elapsed_ns(slot->start, slot->copied_in, &took_ns) ||
        !cuda_clock_time(slot->device, slot, slot->start, &start_s))
        return;
    slot->upload_ns = took_ns;
    slot->scans_at_ns =
        took_ns + cuda_clock_host_ns(slot->device, slot, start_s, start_s + (double)took_ns * 1e-9);
}

void cuda_batch_take_scans(struct cuda_slot *slot, struct engine_task *task, uint64_t now_ns)
{
    place_scans(slot);
    if (slot->scans_at_ns == 0)
        return;
    double share = (double)task->plan->input_bytes / (double)slot->upload_bytes;
    task->started_ns = slot->scans_at_ns - slot->upload_ns;
    task->h2d_ms = share * (double)slot->upload_ns * 1e-6;
    task->decode_at_ns = slot->scans_at_ns;
    task->decode_ms = clock_ms(slot->scans_at_ns, now_ns);
}

void cuda_batch_end_scans(struct cuda_slot *slot, uint64_t now_ns)
{
    struct activity *activity = &slot->device->base.activity;
    double start_s;
    place_scans(slot);
    if (slot->scans_at_ns > 0 && cuda_clock_time(slot->device, slot, slot->start, &start_s)) {
        double uploaded_s = start_s + (double)slot->upload_ns * 1e-9;
        double end_s = uploaded_s + clock_ms(slot->scans_at_ns, now_ns) * 1e-3;
        activity_add(activity, ACTIVITY_H2D, start_s, uploaded_s);
        activity_add(activity, ACTIVITY_KERNEL, uploaded_s, end_s);
        activity_add(activity, ACTIVITY_ANY, start_s, end_s);
    }
    activity_count(activity, slot->upload_bytes, 0, 0);
}
