/*
 * cuda_codec.c - enqueues the decoders and encoders of files for the tasks of a batch.
 *
 * One launch decodes or encodes all images of a format. It reads a description of its images,
 * which this file writes to the slot's pinned memory, and which upload.c copies to the device. The
 * kernels write encoded files, and whether they decoded an image, directly to the tasks' output
 * buffers in pinned host memory.
 */
#include "gpu/cuda/device.h"

#include <assert.h>

#include "codecs/avif/frame.h"
#include "codecs/webp/frame.h"
#include "gpu/cuda/try.h"
#include "gpu/jpeg/codec_memory.h"
#include "gpu/jpeg/coefficients.h"
#include "gpu/plan/pass.h"
#include "gpu/png/codec_memory.h"

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

/* Call it after one of the ..._describe functions has returned `bytes`, to advance codec->next
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

/* ---- the decoders ---- */

static enum device_codec decoder_of(const struct engine_task *task)
{
    return task->plan->source.file.codec;
}

static struct png_decode_image png_source(const struct engine_task *task)
{
    const struct plan *plan = task->plan;
    struct pass_buffers buffers = cuda_buffers(task);
    struct plan_report *report = (struct plan_report *)(task->memory->output + plan->report_at);
    return (struct png_decode_image){
        .frame = (const struct png_frame *)(task->memory->input + plan->frame_at),
        .file = buffers.input,
        .file_bytes = (uint32_t)plan->source.file.bytes,
        .image = plan_input(plan, buffers.scratch + plan->source_at),
        .work = buffers.scratch + plan->decoder_at,
        .verdict = &report->declined,
    };
}

/* The arguments for decoding the task's JPEG. */
static struct jpeg_decode_image jpeg_source(const struct engine_task *task)
{
    const struct plan *plan = task->plan;
    struct pass_buffers buffers = cuda_buffers(task);
    struct plan_report *report = (struct plan_report *)(task->memory->output + plan->report_at);
    return (struct jpeg_decode_image){
        .frame = (const struct jpeg_frame *)(task->memory->input + plan->frame_at),
        .file = buffers.input,
        .file_bytes = (uint32_t)plan->source.file.bytes,
        .as = plan->source.ycc             ? DECODE_YCC
              : plan->source.channels == 1 ? DECODE_LUMA
                                           : DECODE_COLOUR,
        .eighths = plan->source.eighths,
        .image = plan_input(plan, buffers.scratch + plan->source_at),
        .needed = plan->needed,
        .work = buffers.scratch + plan->decoder_at,
        .verdict = &report->declined,
        .prepared = task->prepared,
    };
}

/* The planes of coefficients of a progressive file. */
struct planes {
    struct jpeg_plane of[JPEG_COMPONENTS_MAX];
};

/* Makes *image the second stage of a progressive file, which reads the coefficients in *planes.
 * scans: the first stage. */
static void read_coefficients(struct jpeg_decode_image *image,
                              const struct jpeg_progressive_image *scans, struct planes *planes)
{
    (void)jpeg_progressive_planes(scans->frame, scans->luma_only, scans->work, planes->of);
    image->coefficients = planes->of;
    image->coefficients_verdict = scans->verdict;
}

bool cuda_codec_is_progressive(const struct engine_task *task)
{
    const uint8_t *frame = task->memory->input + task->plan->frame_at;
    return decoder_of(task) == DEVICE_CODEC_JPEG && ((const struct jpeg_frame *)frame)->progressive;
}

static cudaError_t describe_progressive(struct cuda_codec *codec,
                                        const struct jpeg_progressive_image *images, uint32_t count)
{
    return keep(
        codec, jpeg_progressive_describe(images, count, codec->next, room_of(codec), &codec->scans),
        &codec->scans_at);
}

/* Describes the first stage of progressive files. */
static cudaError_t describe_scans(struct cuda_slot *slot)
{
    struct cuda_codec *codec = &slot->codec;
    struct jpeg_progressive_image images[SCANS_TASKS_MAX];
    uint32_t count = 0;
    list_each (node, &slot->tasks) {
        struct engine_task *task = cuda_task(node);
        struct jpeg_decode_image image = jpeg_source(task);
        if (task->error.status != STATUS_OK)
            continue;
        images[count] = jpeg_scans_of(&image, task->scans_at);
        images[count].ended = &codec->ended[count];
        codec->ended[count] = 0;
        codec->images[count++] = task;
    }
    codec->image_count = codec->images_left = count;
    return count > 0 ? describe_progressive(codec, images, count) : cudaSuccess;
}

/* A PNG is alone in its batch. */
static cudaError_t describe_png(struct cuda_slot *slot)
{
    struct cuda_codec *codec = &slot->codec;
    const struct engine_task *task = cuda_task(list_first(&slot->tasks));
    if (task->error.status != STATUS_OK)
        return cudaSuccess;
    struct png_decode_image image = png_source(task);
    return keep(codec,
                png_decode_describe(&image, 1, codec->next, room_of(codec), &codec->png_decoder),
                &codec->png_decoder_at);
}

/* Describes the decoder of JPEGs, for progressive ones only their second stage. */
static cudaError_t describe_jpegs(struct cuda_slot *slot)
{
    struct cuda_codec *codec = &slot->codec;
    struct jpeg_decode_image images[BATCH_TASKS_MAX];
    struct jpeg_progressive_image scans[BATCH_TASKS_MAX];
    struct planes planes[BATCH_TASKS_MAX];
    cudaError_t result = cudaSuccess;
    uint32_t count = 0, progressive = 0;
    list_each(node, &slot->tasks)
    {
        const struct engine_task *task = cuda_task(node);
        if (task->error.status != STATUS_OK || decoder_of(task) != DEVICE_CODEC_JPEG)
            continue;
        images[count] = jpeg_source(task);
        if (images[count].frame->progressive) {
            scans[progressive] = jpeg_scans_of(&images[count], task->scans_at);
            read_coefficients(&images[count], &scans[progressive], &planes[progressive]);
            progressive++;
        }
        count++;
    }
    if (progressive > 0)
        result = describe_progressive(codec, scans, progressive);
    if (result != cudaSuccess || count == 0)
        return result;
    return keep(codec, jpeg_decode_describe(images, count, codec->next, room_of(codec),
                                            &codec->decoder), &codec->decoder_at);
}

static cudaError_t describe_decoders(struct cuda_slot *slot)
{
    if (slot->queue == QUEUE_SCANS)
        return describe_scans(slot);
    return slot->queue == QUEUE_PNG ? describe_png(slot) : describe_jpegs(slot);
}

/* ---- the encoders ---- */

/* The images of a format that a device encodes. */
struct encode_images {
    uint32_t count;
    union {
        struct jpeg_encode_image jpeg[BATCH_IMAGES_MAX];
        struct png_encode_image png[BATCH_IMAGES_MAX];
        struct webp_encode_image webp[BATCH_IMAGES_MAX];
        struct avif_encode_image avif[BATCH_IMAGES_MAX];
    } of;
};

/* The arguments that all encoders share, for the variant `index` of the task's plan. */
struct encode_result {
    const struct plan_encoder *encoder;
    struct image source;
    const void *prelude; /* on the host */
    uint8_t *bytes;      /* the same memory on the device */
    uint8_t *file, *work;
    uint32_t *file_bytes, *quality, *ssim;
    bool is_checked; /* cuda_codec_measure has described the image */
};

static struct encode_result result_of(const struct engine_task *task, size_t index)
{
    struct pass_buffers buffers = cuda_buffers(task);
    const struct plan *plan = task->plan;
    const struct plan_variant *variant = &plan->variants[index];
    const struct plan_encoder *encoder = &variant->encoder;
    struct pass_shape shape = {variant->width, variant->height, variant->channels};
    struct plan_report *report = (struct plan_report *)(task->memory->output + plan->report_at);
    return (struct encode_result){
        .encoder = encoder,
        .source = pass_view(buffers.scratch + encoder->image_at, shape),
        .prelude = task->memory->input + encoder->header_at,
        .bytes = buffers.input + encoder->header_at,
        .file = task->memory->output + variant->offset,
        .work = buffers.scratch + encoder->work_at,
        .file_bytes = &report->file_bytes[index],
        .quality = &report->quality[index],
        .ssim = &report->ssim[index],
        .is_checked = task->description_bytes > 0,
    };
}

static void add_jpeg(const struct encode_result *result, struct encode_images *images)
{
    const struct jpeg_prelude *prelude = result->prelude;
    uint8_t *header = result->bytes + offsetof(struct jpeg_prelude, header);
    images->of.jpeg[images->count++] = (struct jpeg_encode_image){
        .source = result->source,
        .h = result->encoder->h,
        .v = result->encoder->v,
        .quant = prelude->quant[0],
        .header = header,
        .header_bytes = prelude->header_bytes,
        .file = result->file,
        .capacity = result->encoder->capacity,
        .is_checked = result->is_checked,
        .file_bytes = result->file_bytes,
        .work = result->work,
        .ssim = result->encoder->ssim,
        .quality_min = result->encoder->quality_min,
        .quality_max = result->encoder->quality,
        .header_quants = {header + prelude->quant_at[0], header + prelude->quant_at[1]},
        .found_quality = result->quality,
        .found_ssim = result->ssim,
    };
}

static size_t describe_jpeg_files(const struct encode_images *images, void *to, size_t bytes,
                                  struct cuda_encoder *encoder)
{
    return jpeg_encode_describe(images->of.jpeg, images->count, to, bytes, &encoder->batch.jpeg);
}

static int launch_jpegs(const struct cuda_encoder *encoder, cudaStream_t stream)
{
    return jpeg_encode_launch(&encoder->batch.jpeg, encoder->at, stream);
}

static void add_png(const struct encode_result *result, struct encode_images *images)
{
    const struct png_prelude *prelude = result->prelude;
    images->of.png[images->count++] = (struct png_encode_image){
        .source = result->source,
        .header = result->bytes + offsetof(struct png_prelude, header),
        .header_bytes = prelude->header_bytes,
        .file = result->file,
        .capacity = result->encoder->capacity,
        .file_bytes = result->file_bytes,
        .work = result->work,
    };
}

static size_t describe_pngs(const struct encode_images *images, void *to, size_t bytes,
                            struct cuda_encoder *encoder)
{
    return png_encode_describe(images->of.png, images->count, to, bytes, &encoder->batch.png);
}

static int launch_pngs(const struct cuda_encoder *encoder, cudaStream_t stream)
{
    return png_encode_launch(&encoder->batch.png, encoder->at, stream);
}

static void add_webp(const struct encode_result *result, struct encode_images *images)
{
    const struct webp_prelude *prelude = result->prelude;
    images->of.webp[images->count++] = (struct webp_encode_image){
        .source = result->source,
        .quality = result->encoder->quality,
        .bytes_max = result->encoder->bytes_max,
        .found_quality = result->quality,
        .header = result->bytes + offsetof(struct webp_prelude, bytes),
        .header_bytes = prelude->header_bytes,
        .trailer_bytes = prelude->trailer_bytes,
        .file = result->file,
        .capacity = result->encoder->capacity,
        .file_bytes = result->file_bytes,
        .work = result->work,
    };
}

static size_t describe_webps(const struct encode_images *images, void *to, size_t bytes,
                             struct cuda_encoder *encoder)
{
    return webp_encode_describe(images->of.webp, images->count, to, bytes, &encoder->batch.webp);
}

static int launch_webps(const struct cuda_encoder *encoder, cudaStream_t stream)
{
    return webp_encode_launch(&encoder->batch.webp, encoder->at, stream);
}

static int search_webps(const struct cuda_encoder *encoder, cudaStream_t stream)
{
    return webp_encode_search(&encoder->batch.webp, encoder->at, stream);
}

static void add_avif(const struct encode_result *result, struct encode_images *images)
{
    const struct avif_prelude *prelude = result->prelude;
    images->of.avif[images->count++] = (struct avif_encode_image){
        .source = result->source,
        .options = {.quality = result->encoder->quality, .effort = AVIF_DEVICE_EFFORT},
        .header = result->bytes + offsetof(struct avif_prelude, file),
        .header_bytes = prelude->bytes,
        .image_length_at = prelude->image_length_at,
        .media_at = prelude->media_at,
        .work = result->work,
        .file = result->file,
        .capacity = result->encoder->capacity,
        .file_bytes = result->file_bytes,
    };
}

static size_t describe_avifs(const struct encode_images *images, void *to, size_t bytes,
                             struct cuda_encoder *encoder)
{
    return avif_encode_describe(images->of.avif, images->count, to, bytes, &encoder->batch.avif);
}

static int launch_avifs(const struct cuda_encoder *encoder, cudaStream_t stream)
{
    return avif_encode_launch(&encoder->batch.avif, encoder->at, stream);
}

/* How the images of a format are encoded. Those with bytes_max are encoded several times, and apart
 * from others. */
struct encoder_calls {
    enum device_codec codec;
    bool has_bytes_max;
    void (*add)(const struct encode_result *result, struct encode_images *images);
    /* As jpeg_encode_describe. */
    size_t (*describe)(const struct encode_images *images, void *to, size_t bytes,
                       struct cuda_encoder *encoder);
    int (*launch)(const struct cuda_encoder *encoder, cudaStream_t stream);
};

static const struct encoder_calls encoder_calls[CUDA_ENCODERS] = {
    {DEVICE_CODEC_JPEG, false, add_jpeg, describe_jpeg_files, launch_jpegs},
    {DEVICE_CODEC_PNG, false, add_png, describe_pngs, launch_pngs},
    {DEVICE_CODEC_WEBP, false, add_webp, describe_webps, launch_webps},
    {DEVICE_CODEC_WEBP, true, add_webp, describe_webps, search_webps},
    [CUDA_ENCODER_AVIF] = {DEVICE_CODEC_AVIF, false, add_avif, describe_avifs, launch_avifs},
};

/* Adds the images of the task that are encoded by these calls. */
static void add_images(const struct engine_task *task, const struct encoder_calls *calls,
                       struct encode_images *images)
{
    for (size_t v = 0; v < task->plan->variant_count; v++) {
        const struct plan_encoder *encoder = &task->plan->variants[v].encoder;
        struct encode_result result;
        if (encoder->codec != calls->codec || calls->has_bytes_max != (encoder->bytes_max > 0))
            continue;
        result = result_of(task, v);
        calls->add(&result, images);
    }
}

bool cuda_codec_has_avif(const struct engine_task *task)
{
    return task->encoders >> CUDA_ENCODER_AVIF & 1;
}

static cudaError_t describe_encoder(struct cuda_slot *slot, size_t which)
{
    struct cuda_codec *codec = &slot->codec;
    struct cuda_encoder *encoder = &codec->encoders[which];
    struct encode_images images;
    images.count = 0;
    list_each (node, &slot->tasks) {
        const struct engine_task *task = cuda_task(node);
        if (task->encoders >> which & 1 && task->error.status == STATUS_OK)
            add_images(task, &encoder_calls[which], &images);
    }
    if (images.count == 0)
        return cudaSuccess;
    return keep(codec, encoder_calls[which].describe(&images, codec->next, room_of(codec), encoder),
                &encoder->at);
}

/* ---- loading what will be read ---- */

/* Most passes have no more parameters. */
#define PASS_PREFETCH_BYTES 64

static void prefetch(const void *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += CUDA_PREFETCH_BYTES)
        __builtin_prefetch((const char *)from + at);
}

void cuda_codec_prefetch_plan(const struct engine_task *task)
{
    const struct plan *plan = task->plan;
    prefetch(plan, offsetof(struct plan, variants) + sizeof plan->variants[0]);
    prefetch(&plan->variant_count, sizeof *plan - offsetof(struct plan, variant_count));
    prefetch(task->memory, sizeof *task->memory);
}

void cuda_codec_prefetch_frame(const struct engine_task *task)
{
    const struct plan *plan = task->plan;
    const struct jpeg_frame *frame =
        (const struct jpeg_frame *)(task->memory->input + plan->frame_at);
    if (decoder_of(task) == DEVICE_CODEC_JPEG) {
        size_t scan_end = offsetof(struct jpeg_frame, scans) + sizeof frame->scans[0];
        prefetch(frame, task->prepared ? offsetof(struct jpeg_frame, components) : scan_end);
        if (task->prepared)
            prefetch(task->prepared, JPEG_DECODE_PREPARED_BYTES);
        if (task->has_own_tables)
            prefetch(frame->huffman, JPEG_TABLES_MAX * sizeof frame->huffman[0]);
    }
    if (plan->variant_count > 0 && plan->variants[0].encoder.codec == DEVICE_CODEC_JPEG)
        prefetch(task->memory->input + plan->variants[0].encoder.header_at,
                 sizeof(struct jpeg_prelude));
    if (plan->variant_count > 0 && plan->variants[0].pass_count > 0)
        prefetch(plan->variants[0].passes, offsetof(struct pass, params) + PASS_PREFETCH_BYTES);
}

/* ---- the launches ---- */

void cuda_codec_forget(struct cuda_slot *slot)
{
    struct cuda_codec *codec = &slot->codec;
    codec->scans_at = codec->decoder_at = codec->png_decoder_at = NULL;
    codec->long_parts = codec->image_count = codec->images_left = 0;
    for (size_t i = 0; i < CUDA_ENCODERS; i++)
        codec->encoders[i].at = NULL;
}

cudaError_t cuda_codec_describe(struct cuda_slot *slot)
{
    struct cuda_codec *codec = &slot->codec;
    codec->next = codec->host;
    cuda_codec_forget(slot);
    cudaError_t result = describe_decoders(slot);
    for (size_t i = 0; i < CUDA_ENCODERS && slot->queue != QUEUE_SCANS; i++)
        if (slot->encoders >> i & 1)
            result = result ? result : describe_encoder(slot, i);
    if (result == cudaSuccess)
        codec->long_parts = codec->png_decoder_at ? 2 : codec->image_count > 0 ? 1 : 0;
    else
        cuda_codec_forget(slot);
    return result;
}

/* A PNG is inflated, then its rows are decoded. */
cudaError_t cuda_codec_long(struct cuda_slot *slot)
{
    struct cuda_codec *codec = &slot->codec;
    const struct png_decode_batch *png = &codec->png_decoder;
    int result = 0;
    if (codec->long_parts == 0)
        return cudaSuccess;
    codec->long_parts--;
    if (slot->queue == QUEUE_SCANS)
        result = jpeg_progressive_decode(&codec->scans, codec->scans_at, slot->stream);
    else if (codec->long_parts > 0)
        result = png_decode_inflate(png, codec->png_decoder_at, slot->stream);
    else
        result = png_decode_rows(png, codec->png_decoder_at, slot->stream);
    if (result != 0)
        codec->image_count = codec->images_left = 0; /* no image will report its end */
    return cuda_try((cudaError_t)result, "decode for long");
}

static bool has_ended(const struct cuda_codec *codec, uint32_t image)
{
    return __atomic_load_n(&codec->ended[image], __ATOMIC_ACQUIRE) != 0;
}

bool cuda_codec_all_ended(const struct cuda_slot *slot)
{
    bool all = true;
    for (uint32_t i = 0; i < slot->codec.image_count; i++)
        all &= has_ended(&slot->codec, i);
    return all;
}

struct engine_task *cuda_codec_take_ended(struct cuda_slot *slot)
{
    struct cuda_codec *codec = &slot->codec;
    for (uint32_t i = 0; i < codec->image_count; i++) {
        struct engine_task *task = codec->images[i];
        if (!task || !has_ended(codec, i))
            continue;
        codec->images[i] = NULL;
        codec->images_left--;
        return task;
    }
    return NULL;
}

cudaError_t cuda_codec_decode(struct cuda_slot *slot)
{
    const struct cuda_codec *codec = &slot->codec;
    int result = 0;
    if (codec->scans_at)
        result = jpeg_progressive_complete(&codec->scans, codec->scans_at, slot->stream);
    if (codec->decoder_at && result == 0)
        result = jpeg_decode_launch(&codec->decoder, codec->decoder_at, slot->stream);
    return cuda_try((cudaError_t)result, "decode");
}

cudaError_t cuda_codec_encode(struct cuda_slot *slot)
{
    int result = 0;
    for (size_t i = 0; i < CUDA_ENCODERS && result == 0; i++) {
        const struct cuda_encoder *encoder = &slot->codec.encoders[i];
        if (encoder->at)
            result = encoder_calls[i].launch(encoder, slot->stream);
    }
    return cuda_try((cudaError_t)result, "encode");
}

/* ---- the size of the descriptions ----------------------------------------------------------- */

static size_t decoder_bytes(struct engine_task *task)
{
    if (decoder_of(task) == DEVICE_CODEC_PNG) {
        struct png_decode_image image = png_source(task);
        struct png_decode_batch batch;
        return buffer_align(png_decode_describe(&image, 1, NULL, 0, &batch));
    }
    if (decoder_of(task) == DEVICE_CODEC_JPEG) {
        struct jpeg_decode_image image = jpeg_source(task);
        struct jpeg_progressive_image scans;
        struct jpeg_progressive_batch scans_batch;
        struct jpeg_decode_batch batch;
        if (!image.frame->progressive && task->plan->source.file.prepared_bytes > 0) {
            jpeg_decode_prepare(&image, task->memory->input + task->plan->prepared_at);
            task->prepared = task->memory->input + task->plan->prepared_at;
        } else if (image.frame->progressive) {
            task->scans_at = jpeg_scans_at(&image);
            scans = jpeg_scans_of(&image, task->scans_at);
            task->scans_bytes =
                buffer_align(jpeg_progressive_describe(&scans, 1, NULL, 0, &scans_batch));
        }
        return task->scans_bytes + buffer_align(jpeg_decode_describe(&image, 1, NULL, 0, &batch));
    }
    return 0;
}

/* Counts the images that the encoder has, too. */
static size_t encoder_bytes(struct engine_task *task, size_t which)
{
    struct encode_images images;
    struct cuda_encoder encoder;
    images.count = 0;
    add_images(task, &encoder_calls[which], &images);
    task->images += images.count;
    task->encoders |= (uint32_t)(images.count > 0) << which;
    return images.count > 0 ? encoder_calls[which].describe(&images, NULL, 0, &encoder) : 0;
}

/* The description of a launch for several tasks is at most the sum of their separate descriptions,
 * because it has the fixed parts and the alignment gaps only once. */
void cuda_codec_measure(struct engine_task *task)
{
    const struct jpeg_frame *frame =
        (const struct jpeg_frame *)(task->memory->input + task->plan->frame_at);
    task->scans_at = task->scans_bytes = 0;
    task->images = task->encoders = 0;
    task->prepared = NULL;
    task->has_own_tables = decoder_of(task) == DEVICE_CODEC_JPEG && !frame->has_standard_tables;
    size_t sum = decoder_bytes(task);
    for (size_t i = 0; i < CUDA_ENCODERS && sum < SIZE_MAX; i++) {
        size_t bytes = encoder_bytes(task, i);
        sum = bytes == SIZE_MAX ? SIZE_MAX : sum + buffer_align(bytes);
    }
    task->description_bytes = sum;
}
