/*
 * cuda_codec.c - enqueues the JPEG decoder and encoder for the tasks of a batch.
 *
 * One launch decodes or encodes the images of all tasks. It reads a description of its images,
 * which this file writes to the slot's pinned memory, and which upload.c copies to the device. The
 * kernels write encoded files, and whether they decoded an image, directly to the tasks' output
 * buffers in pinned host memory.
 */
#include "gpu/cuda/device.h"

#include <assert.h>

#include "gpu/cuda/try.h"
#include "gpu/jpeg/codec_memory.h"
#include "gpu/plan/pass.h"

cudaError_t cuda_codec_open(struct cuda_slot *slot, size_t bytes)
{
    struct cuda_codec *codec = &slot->codec;
    codec->bytes = bytes;
    cudaError_t result =
        CUDA_TRY(cudaHostAlloc((void **)&codec->host, bytes, cudaHostAllocPortable));
    if (result == cudaSuccess)
        result = CUDA_TRY(cudaMalloc((void **)&codec->device, bytes));
    return result;
}

void cuda_codec_close(struct cuda_slot *slot)
{
    if (slot->codec.host)
        (void)cudaFreeHost(slot->codec.host);
    if (slot->codec.device)
        (void)cudaFree(slot->codec.device);
    slot->codec = (struct cuda_codec){0};
}

static size_t room_of(const struct cuda_codec *codec)
{
    return codec->bytes - (size_t)(codec->next - codec->host);
}

/* Call it after one of the jpeg_..._describe functions has returned `bytes`, to advance codec->next
 * past the description. *at receives the description's address on the device. If `bytes` is more
 * than room_of, the function wrote nothing, and this is an error. */
static cudaError_t keep(struct cuda_codec *codec, size_t bytes, uint8_t **at)
{
    if (bytes > room_of(codec))
        return cudaErrorInvalidValue;
    *at = codec->device + (codec->next - codec->host);
    codec->next += buffer_align(bytes);
    return cudaSuccess;
}

/* ---- the decoder ---- */

/* The arguments for decoding the task's file. */
static struct jpeg_decode_image decode_image(const struct engine_task *task)
{
    const struct plan *plan = task->plan;
    struct pass_buffers buffers = cuda_buffers(task);
    struct plan_report *report = (struct plan_report *)(task->memory->output + plan->report_at);
    return (struct jpeg_decode_image){
        .frame = (const struct jpeg_frame *)(task->memory->input + plan->frame_at),
        .file = buffers.input,
        .file_bytes = (uint32_t)plan->source.file.bytes,
        .as = plan->source.ycc ? DECODE_YCC
              : plan->source.channels == 1 ? DECODE_LUMA : DECODE_COLOUR,
        .eighths = plan->source.eighths,
        .image = plan_input(plan, buffers.scratch + plan->source_at),
        .work = buffers.scratch + plan->codec_at,
        .verdict = &report->declined,
    };
}

/* Divides the memory of a progressive file between its two stages (codec_memory.h). *image becomes
 * the second stage, which reads the coefficients in *parts. Returns the first stage. */
static struct jpeg_progressive_image divide(struct jpeg_decode_image *image,
                                            struct jpeg_progressive_parts *parts)
{
    *parts = jpeg_progressive_divide(image->frame, image->file_bytes, image->as, image->eighths,
                                     image->work);
    image->coefficients = parts->planes;
    image->coefficients_verdict = parts->scans_verdict;
    return (struct jpeg_progressive_image){
        .frame = image->frame,
        .file = image->file,
        .file_bytes = image->file_bytes,
        .luma_only = parts->luma_only,
        .work = parts->scans_work,
        .verdict = parts->scans_verdict,
    };
}

/* Describes the first stage of a progressive file: its scans become coefficients. */
static cudaError_t describe_scans(struct cuda_codec *codec, struct jpeg_decode_image *image,
                                  struct jpeg_progressive_parts *parts)
{
    struct jpeg_progressive_image scans = divide(image, parts);
    return keep(codec,
                jpeg_progressive_describe(&scans, 1, codec->next, room_of(codec), &codec->scans),
                &codec->scans_at);
}

static cudaError_t describe_decoder(struct cuda_slot *slot)
{
    struct cuda_codec *codec = &slot->codec;
    struct jpeg_decode_image images[BATCH_TASKS_MAX];
    struct jpeg_progressive_parts parts;
    cudaError_t result = cudaSuccess;
    uint32_t count = 0;
    list_each(node, &slot->tasks)
    {
        const struct engine_task *task = cuda_task(node);
        if (task->error.status == STATUS_OK && task->plan->source.file.bytes > 0)
            images[count++] = decode_image(task);
    }
    if (count == 0)
        return cudaSuccess;
    if (slot->queue == QUEUE_PROGRESSIVE)
        result = describe_scans(codec, &images[0], &parts);
    if (result != cudaSuccess)
        return result;
    return keep(codec, jpeg_decode_describe(images, count, codec->next, room_of(codec),
                                            &codec->decoder), &codec->decoder_at);
}

/* ---- the encoder ---- */

/* The arguments for encoding the variant `index` of the task's plan. */
static struct jpeg_encode_image encode_image(const struct engine_task *task, size_t index)
{
    struct pass_buffers buffers = cuda_buffers(task);
    const struct plan *plan = task->plan;
    const struct plan_variant *variant = &plan->variants[index];
    const struct plan_encoder *encoder = &variant->encoder;
    const struct jpeg_prelude *prelude =
        (const struct jpeg_prelude *)(task->memory->input + encoder->header_at);
    struct plan_report *report = (struct plan_report *)(task->memory->output + plan->report_at);
    struct pass_shape shape = {variant->width, variant->height, variant->channels};
    return (struct jpeg_encode_image){
        .source = pass_view(buffers.scratch + encoder->image_at, shape),
        .h = encoder->h,
        .v = encoder->v,
        .quant = prelude->quant[0],
        .header = buffers.input + encoder->header_at + offsetof(struct jpeg_prelude, header),
        .header_bytes = prelude->header_bytes,
        .file = task->memory->output + variant->offset,
        .capacity = encoder->capacity,
        .file_bytes = &report->file_bytes[index],
        .work = buffers.scratch + encoder->work_at,
    };
}

/* Fills `images`, an array of JOB_OUTPUTS_MAX, with the images that the device encodes. Returns
 * their number. */
static uint32_t encode_images(const struct engine_task *task, struct jpeg_encode_image *images)
{
    uint32_t count = 0;
    for (size_t v = 0; v < task->plan->variant_count; v++)
        if (task->plan->variants[v].encoder.on_device)
            images[count++] = encode_image(task, v);
    return count;
}

uint32_t cuda_codec_images(const struct engine_task *task)
{
    uint32_t count = 0;
    for (size_t v = 0; v < task->plan->variant_count; v++)
        count += task->plan->variants[v].encoder.on_device;
    return count;
}

static cudaError_t describe_encoder(struct cuda_slot *slot)
{
    struct cuda_codec *codec = &slot->codec;
    struct jpeg_encode_image images[BATCH_IMAGES_MAX];
    uint32_t count = 0;
    list_each(node, &slot->tasks)
        if (cuda_task(node)->error.status == STATUS_OK)
            count += encode_images(cuda_task(node), images + count);
    if (count == 0)
        return cudaSuccess;
    return keep(codec, jpeg_encode_describe(images, count, codec->next, room_of(codec),
                                            &codec->encoder), &codec->encoder_at);
}

/* ---- the launches ---- */

cudaError_t cuda_codec_describe(struct cuda_slot *slot)
{
    struct cuda_codec *codec = &slot->codec;
    codec->next = codec->host;
    codec->scans_at = codec->decoder_at = codec->encoder_at = NULL;
    cudaError_t result = describe_decoder(slot);
    return result ? result : describe_encoder(slot);
}

cudaError_t cuda_codec_scans(struct cuda_slot *slot)
{
    const struct cuda_codec *codec = &slot->codec;
    int result = 0;
    if (codec->scans_at)
        result = jpeg_progressive_decode(&codec->scans, codec->scans_at, slot->stream);
    return cuda_try((cudaError_t)result, "decode scans");
}

cudaError_t cuda_codec_decode(struct cuda_slot *slot)
{
    const struct cuda_codec *codec = &slot->codec;
    int result = 0;
    if (codec->decoder_at)
        result = jpeg_decode_launch(&codec->decoder, codec->decoder_at, slot->stream);
    return cuda_try((cudaError_t)result, "decode");
}

cudaError_t cuda_codec_encode(struct cuda_slot *slot)
{
    const struct cuda_codec *codec = &slot->codec;
    int result = 0;
    if (codec->encoder_at)
        result = jpeg_encode_launch(&codec->encoder, codec->encoder_at, slot->stream);
    return cuda_try((cudaError_t)result, "encode");
}

/* ---- the size of the descriptions ----------------------------------------------------------- */

/* The description of a launch for several tasks is at most the sum of their separate descriptions,
 * because it has the fixed parts and the alignment gaps only once. */
size_t cuda_codec_description_bytes(const struct engine_task *task)
{
    struct jpeg_encode_image images[JOB_OUTPUTS_MAX];
    struct jpeg_encode_batch batch;
    size_t bytes = 0;
    if (task->plan->source.file.bytes > 0) {
        struct jpeg_decode_image image = decode_image(task);
        struct jpeg_progressive_parts parts;
        struct jpeg_progressive_image scans;
        struct jpeg_progressive_batch scans_batch;
        struct jpeg_decode_batch decode_batch;
        if (image.frame->progressive) {
            scans = divide(&image, &parts);
            bytes += buffer_align(jpeg_progressive_describe(&scans, 1, NULL, 0, &scans_batch));
        }
        bytes += buffer_align(jpeg_decode_describe(&image, 1, NULL, 0, &decode_batch));
    }
    uint32_t count = encode_images(task, images);
    size_t encoder_bytes = count > 0 ? jpeg_encode_describe(images, count, NULL, 0, &batch) : 0;
    return encoder_bytes == SIZE_MAX ? SIZE_MAX : bytes + buffer_align(encoder_bytes);
}
