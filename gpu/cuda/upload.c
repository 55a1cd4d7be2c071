/*
 * upload.c - uploads the inputs of a batch's tasks, and the descriptions of the codec's launches.
 *
 * If the batch uses the JPEG codec, one kernel copies all small pieces of memory
 * (gpu/jpeg/upload.h). The kernel needs pinned memory, which is certain only for tasks of the
 * codec. All other pieces are copied with cudaMemcpyAsync.
 */
#include "gpu/cuda/device.h"

#include "gpu/cuda/try.h"
#include "gpu/jpeg/upload.h"
#include "gpu/plan/pass.h"

/* The small pieces, and the task to which each belongs; NULL: all tasks. */
struct uploads {
    struct upload_piece pieces[UPLOAD_PIECES_MAX];
    struct engine_task *tasks[UPLOAD_PIECES_MAX];
    uint32_t count;
};

static_assert(BUFFER_ALIGN % UPLOAD_ALIGN == 0, "pieces must be aligned");

static cudaError_t copy_piece(struct cuda_slot *slot, struct engine_task *task, uint8_t *to,
                              const uint8_t *from, size_t bytes)
{
    cudaError_t result =
        CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, slot->stream));
    if (task)
        return cuda_note_task(slot, task, result);
    if (result != cudaSuccess)
        cuda_codec_forget(slot); /* the device still has the description of an earlier batch */
    return cuda_note_tasks(slot, result);
}

/* The largest piece that a kernel copies. A copy engine is faster than a kernel, and does not use
 * the multiprocessors. But progressive files are decoded far slower than they are copied, and in a
 * batch of many files the calls cost the thread more: a call takes as long as 100 KiB on the bus.
 * A kernel's reads slow down downloads: with them, 63,000 tensors per second instead of 85,000. */
static size_t small_bytes(const struct cuda_slot *slot, const struct engine_task *task)
{
    return slot->queue == QUEUE_SCANS ||
                   (task && slot->tasks.length > BATCH_TASKS_HEAVY && !slot->has_downloads)
               ? UPLOAD_PIECE_BYTES_MAX
               : 64 * KIB;
}

/* Copies all small pieces with one launch, and empties the list. If the launch fails, copies each
 * piece alone. */
static cudaError_t launch_copies(struct cuda_slot *slot, struct uploads *uploads)
{
    uint32_t count = uploads->count;
    uploads->count = 0;
    if (count == 0)
        return cudaSuccess;
    cudaError_t result =
        cuda_try((cudaError_t)upload_launch(uploads->pieces, count, slot->stream), "upload");
    if (result == cudaSuccess || cuda_is_sticky(result))
        return result;
    result = cudaSuccess;
    for (uint32_t i = 0; i < count && result == cudaSuccess; i++) {
        const struct upload_piece *piece = &uploads->pieces[i];
        result = copy_piece(slot, uploads->tasks[i], piece->to, piece->from, piece->bytes);
    }
    return result;
}

/* Copies a large piece, or adds a small one to the list, which is launched when it is full. */
static cudaError_t add_piece(struct cuda_slot *slot, struct uploads *uploads,
                             struct engine_task *task, uint8_t *to, const uint8_t *from,
                             size_t bytes)
{
    if (bytes == 0)
        return cudaSuccess;
    if (!slot->has_codec || bytes > small_bytes(slot, task))
        return copy_piece(slot, task, to, from, bytes);
    uploads->tasks[uploads->count] = task;
    uploads->pieces[uploads->count++] = (struct upload_piece){from, to, (uint32_t)bytes};
    return uploads->count < UPLOAD_PIECES_MAX ? cudaSuccess : launch_copies(slot, uploads);
}

/* The input buffer has the file and its frame (the parsed headers), or the decoded image; then the
 * constants, and the headers of the files that the device encodes. Only the host reads the frame,
 * which has 12 KiB. If the file is small, it is a piece of its own, so that the
 * frame is not uploaded. */
static cudaError_t add_input(struct cuda_slot *slot, struct uploads *uploads,
                             struct engine_task *task)
{
    const struct plan *plan = task->plan;
    const uint8_t *from = task->memory->input;
    uint8_t *to = cuda_buffers(task).input;
    size_t file = plan->source.file.bytes, rest = 0;
    cudaError_t result = cudaSuccess;
    if (file > 0 && file <= small_bytes(slot, task)) {
        result = add_piece(slot, uploads, task, to, from, file);
        rest = plan->host_end;
    }
    if (result != cudaSuccess || plan->input_bytes <= rest)
        return result;
    return add_piece(slot, uploads, task, to + rest, from + rest, plan->input_bytes - rest);
}

/* Whether the input was uploaded for the scans of a progressive file. */
static bool is_uploaded(const struct cuda_slot *slot, const struct engine_task *task)
{
    return slot->queue == QUEUE_CODEC && cuda_is_progressive(task);
}

cudaError_t cuda_upload(struct cuda_slot *slot)
{
    const struct cuda_codec *codec = &slot->codec;
    struct uploads uploads;
    cudaError_t result = cudaSuccess;
    uploads.count = 0;
    if (slot->has_codec)
        result = add_piece(slot, &uploads, NULL, codec->device, codec->host,
                           (size_t)(codec->next - codec->host));
    list_each(node, &slot->tasks)
        if (cuda_task(node)->error.status == STATUS_OK && result == cudaSuccess &&
            !is_uploaded(slot, cuda_task(node)))
            result = add_input(slot, &uploads, cuda_task(node));
    return result == cudaSuccess ? launch_copies(slot, &uploads) : result;
}
