/*
 * avif.c - the AVIF codec of the daemon, which runs libavif in another process.
 *
 * That codec process is gpuimgd-codec (codecs/process/process.h). This file recognises an AVIF,
 * asks the process to read, decode or encode it, and copies files and pixels to and from the
 * process. Before a task, the pipeline reserves info->codec_bytes or encoder_bytes for it. These
 * are also the limits of the process's memory, so a task cannot use more than was reserved.
 */
#include <stdlib.h>
#include <string.h>

#include "codecs/codec_impl.h"

#define BRANDS_BYTES_MAX 1024

static bool is_brand(const uint8_t *brand)
{
    return memcmp(brand, "avif", 4) == 0 || memcmp(brand, "avis", 4) == 0;
}

/* An AVIF begins with a box "ftyp", which has a major brand, a version, and compatible brands
 * (ISO/IEC 14496-12). One of the brands is "avif" or "avis". */
static bool avif_sniff(const uint8_t *bytes, size_t length)
{
    enum { major_at = 8, compatible_at = 16 };
    if (!codec_has_bytes(bytes, length, 4, "ftyp", 4) || length < compatible_at)
        return false;
    size_t end = codec_u32(bytes);
    end = end < length ? end : length;
    end = end < BRANDS_BYTES_MAX ? end : BRANDS_BYTES_MAX;
    for (size_t at = compatible_at; at + 4 <= end; at += 4)
        if (is_brand(bytes + at))
            return true;
    return is_brand(bytes + major_at);
}

#ifndef GPUIMGD_AVIF

static const char *avif_refusal(bool writes)
{
    (void)writes;
    return "this gpuimgd was built without libavif (AVIF=no)";
}

const struct codec codec_avif = {.sniff = avif_sniff, .state_bytes = 1, .refusal = avif_refusal};

#else

#include "codecs/process/process.h"

/* The metadata exists this many times while libavif encodes: in the region, in the image, in
 * libavif's copy of the image, in its items, in the file, and once more in the old buffer of the
 * file while that grows. */
#define METADATA_COPIES 6
/* A probe gets this much of a file at first: the header of most files, or a whole small file. */
#define HEAD_BYTES (64 * KIB)

static const char *avif_refusal(bool writes)
{
    return codec_process_refusal(writes);
}

static void avif_close(void *state)
{
    codec_process_close(state);
}

static size_t round_up(size_t bytes)
{
    enum { page = 4096 };
    return (bytes + page - 1) / page * page;
}

/* ---- probe ---- */

/* Copies the bytes of the file that libavif reads next. */
static enum status put_part(struct codec_process *process, const struct codec_task *task,
                            const uint8_t *bytes, size_t length, uint64_t *left,
                            const struct codec_reply *reply, struct error *error)
{
    if (reply->at > length || reply->bytes > length - reply->at || reply->bytes > *left)
        return codec_process_distrust(process, task, error);
    *left -= reply->bytes;
    return codec_process_put(process, reply->at, bytes + reply->at, reply->bytes, error);
}

static enum status ask_for_header(struct codec_process *process, const struct codec_task *task,
                                  const uint8_t *bytes, size_t length, struct codec_call *call,
                                  struct codec_reply *reply, struct error *error)
{
    uint64_t left = 4 * AVIF_KEPT_BYTES_MAX; /* it reads up to three times, and ahead */
    enum status status =
        codec_process_put(process, 0, bytes, (size_t)call->ready_bytes, error);
    while (status == STATUS_OK) {
        status = codec_process_ask(process, task, call, reply, error);
        if (status != STATUS_OK || reply->kind == CODEC_DONE)
            break;
        status = put_part(process, task, bytes, length, &left, reply, error);
        call->kind = CODEC_GO_ON;
    }
    return status;
}

static enum status keep_metadata(const uint8_t *bytes, const struct codec_reply *reply,
                                 const struct codec_limits *limits, struct image_info *info,
                                 struct error *error)
{
    const uint8_t *exif = bytes + reply->icc_bytes, *xmp = exif + reply->exif_bytes;
    if ((reply->icc_bytes > 0 && !codec_keep_icc(bytes, reply->icc_bytes, info)) ||
        (reply->exif_bytes > 0 && !codec_keep_exif(limits, exif, reply->exif_bytes, info)) ||
        (reply->xmp_bytes > 0 && !codec_keep_xmp(limits, xmp, reply->xmp_bytes, info)))
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the metadata of an AVIF");
    codec_fit_icc(info, reply->is_gray);
    return STATUS_OK;
}

static enum status read_metadata(struct codec_process *process, const struct codec_call *call,
                                 const struct codec_reply *reply,
                                 const struct codec_limits *limits, struct image_info *info,
                                 struct error *error)
{
    size_t bytes = reply->icc_bytes + reply->exif_bytes + reply->xmp_bytes;
    uint8_t *metadata = bytes > 0 ? malloc(bytes) : NULL;
    if (bytes == 0)
        return STATUS_OK;
    if (!metadata)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the metadata of an AVIF");
    if (codec_process_get(process, call->results_at, metadata, bytes, error) == STATUS_OK)
        keep_metadata(metadata, reply, limits, info, error);
    free(metadata);
    return error->status;
}

/* Whether the values are possible. If not, hostile code runs in the codec process. */
static bool is_header(const struct codec_reply *reply)
{
    return (reply->channels == 1 || reply->channels == 3 || reply->channels == 4) &&
           reply->orientation >= 1 && reply->orientation <= ORIENTATION_MAX &&
           reply->icc_bytes <= AVIF_METADATA_BYTES_MAX &&
           reply->exif_bytes <= AVIF_METADATA_BYTES_MAX &&
           reply->xmp_bytes <= AVIF_METADATA_BYTES_MAX &&
           reply->icc_bytes + reply->exif_bytes + reply->xmp_bytes <= AVIF_METADATA_BYTES_MAX &&
           reply->decode_bytes <= SIZE_MAX / 4;
}

static size_t decode_region(size_t length)
{
    return CODEC_WINDOW_BYTES + round_up(length);
}

static enum status take_header(const struct codec_reply *reply, size_t length,
                               const struct codec_limits *limits, struct image_info *info,
                               struct error *error)
{
    if (codec_check_size("AVIF", reply->width, reply->height, limits, error) != STATUS_OK)
        return error->status;
    if (reply->width == 0 || reply->height == 0)
        return error_set(error, STATUS_DECODE_FAILED, "the AVIF is %u x %u pixels", reply->width,
                         reply->height);
    info->width = reply->width;
    info->height = reply->height;
    info->channels = reply->channels;
    info->orientation = (int)reply->orientation;
    info->codec_bytes = decode_region(length) + (size_t)reply->decode_bytes;
    return STATUS_OK;
}

static enum status probe(struct codec_process *process, const struct codec_task *task,
                         const uint8_t *bytes, size_t length, const struct codec_limits *limits,
                         struct image_info *info, struct error *error)
{
    struct codec_reply reply;
    /* EXIF is always read: it may have the density. A copyright notice may be in EXIF or in XMP. */
    bool wants_xmp = limits->metadata & (METADATA_XMP | METADATA_COPYRIGHT);
    struct codec_call call = {.kind = CODEC_PROBE,
                              .metadata = METADATA_EXIF | (wants_xmp ? METADATA_XMP : 0),
                              .region_bytes = task->region_bytes, .file_bytes = length,
                              .ready_bytes = length < HEAD_BYTES ? length : HEAD_BYTES,
                              .results_at = round_up(length)};
    if (ask_for_header(process, task, bytes, length, &call, &reply, error) != STATUS_OK)
        return error->status;
    if (!is_header(&reply))
        return codec_process_distrust(process, task, error);
    if (take_header(&reply, length, limits, info, error) != STATUS_OK)
        return error->status;
    if (read_metadata(process, &call, &reply, limits, info, error) == STATUS_OK &&
        !codec_keep_orientation(limits, info))
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the metadata of an AVIF");
    return error->status;
}

static enum status avif_probe(void *state, const uint8_t *bytes, size_t length,
                              const struct codec_limits *limits, struct image_info *info,
                              struct error *error)
{
    struct codec_task task = {.kind = CODEC_PROBE, .noun = "AVIF",
                              .region_bytes = round_up(length) + AVIF_METADATA_BYTES_MAX,
                              .work_bytes = CODEC_PROBE_BYTES, .deadline_ns = limits->deadline_ns,
                              .caller = limits->caller};
    do {
        if (codec_process_begin(state, &task, error) == STATUS_OK)
            probe(state, &task, bytes, length, limits, info, error);
        codec_process_end(state);
    } while (codec_process_take_retry(state, error));
    return error->status;
}

/* ---- decode ---- */

/* A view of `count` rows of an image, from `row` on. */
static struct image rows_of(const struct image *image, uint32_t row, uint32_t count)
{
    struct image rows = *image;
    rows.pixels += row * image->stride;
    rows.height = count;
    return rows;
}

/* Whether the reply can be about the rows from `row` on. If not, hostile code runs in the codec
 * process. */
static bool is_next_rows(const struct codec_reply *reply, const struct image *image, uint32_t row)
{
    uint64_t bytes = (uint64_t)reply->rows * image->width * image->channels;
    return reply->rows > 0 && reply->rows <= image->height - row && bytes <= CODEC_WINDOW_BYTES &&
           reply->at <= CODEC_WINDOW_BYTES - bytes;
}

static enum status decode(struct codec_process *process, const struct codec_task *task,
                          const uint8_t *bytes, size_t length, const struct image *dst,
                          struct error *error)
{
    struct codec_reply reply;
    struct codec_call call = {.kind = CODEC_DECODE, .region_bytes = task->region_bytes,
                              .file_bytes = length, .ready_bytes = length, .width = dst->width,
                              .height = dst->height, .channels = dst->channels};
    enum status status = codec_process_put(process, CODEC_WINDOW_BYTES, bytes, length, error);
    for (uint32_t row = 0; row < dst->height && status == STATUS_OK; row += reply.rows) {
        status = codec_process_ask(process, task, &call, &reply, error);
        if (status != STATUS_OK)
            break;
        bool is_last = reply.rows == dst->height - row;
        if (!is_next_rows(&reply, dst, row) || is_last != (reply.kind == CODEC_DONE))
            return codec_process_distrust(process, task, error);
        struct image rows = rows_of(dst, row, reply.rows);
        status = codec_process_get_image(process, reply.at, &rows, error);
        call.kind = CODEC_GO_ON;
    }
    return status;
}

static enum status avif_decode(void *state, const uint8_t *bytes, size_t length,
                               const struct image_info *info, const struct decode_request *request,
                               const struct codec_limits *limits, const struct image *dst,
                               struct error *error)
{
    size_t region = decode_region(length);
    struct codec_task task = {.kind = CODEC_DECODE, .noun = "AVIF", .region_bytes = region,
                              .work_bytes = info->codec_bytes - region,
                              .deadline_ns = limits->deadline_ns, .caller = limits->caller};
    (void)request; /* the file alone determines the channels */
    do {
        if (codec_process_begin(state, &task, error) == STATUS_OK)
            decode(state, &task, bytes, length, dst, error);
        codec_process_end(state);
    } while (codec_process_take_retry(state, error));
    return error->status;
}

/* ---- encode ---- */

/* Measured with libaom 3.6 for an image of noise with quality 100; other images need a fifth less.
 * libaom adds a border to each frame. */
static size_t avif_encoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                                 const struct encoder_settings *settings)
{
    enum { fixed_bytes = 4 << 20, border = 160, high_effort = 5 };
    size_t pixel_bytes = settings->effort < high_effort ? 26 : 40;
    (void)channels;
    return CODEC_WINDOW_BYTES + fixed_bytes +
           ((size_t)width + border) * (height + (size_t)border) * pixel_bytes;
}

static enum status put_metadata(struct codec_process *process, uint64_t at,
                                const struct codec_call *call,
                                const struct encode_request *request, struct error *error)
{
    if (codec_process_put(process, at, request->icc, call->icc_bytes, error) != STATUS_OK)
        return error->status;
    at += call->icc_bytes;
    if (codec_process_put(process, at, request->exif, call->exif_bytes, error) != STATUS_OK)
        return error->status;
    return codec_process_put(process, at + call->exif_bytes, request->xmp, call->xmp_bytes, error);
}

/* Copies a part of the file from the window to the sink. */
static enum status take_part(struct codec_process *process, uint64_t bytes,
                             struct codec_sink *sink, size_t *used, struct error *error)
{
    uint8_t buffer[16 * KIB];
    for (uint64_t at = 0; at < bytes;) {
        size_t count = bytes - at < sizeof buffer ? (size_t)(bytes - at) : sizeof buffer;
        if (codec_process_get(process, at, buffer, count, error) != STATUS_OK ||
            !codec_put(sink, used, buffer, count, "AVIF", error))
            return error->status;
        at += count;
    }
    return STATUS_OK;
}

/* Copies the next rows of the image to the window. */
static enum status put_rows(struct codec_process *process, const struct codec_task *task,
                            const struct image *src, uint32_t *row,
                            const struct codec_reply *reply, struct error *error)
{
    if (reply->at != 0 || !is_next_rows(reply, src, *row))
        return codec_process_distrust(process, task, error);
    struct image rows = rows_of(src, *row, reply->rows);
    *row += reply->rows;
    return codec_process_put_image(process, 0, &rows, error);
}

static enum status encode(struct codec_process *process, const struct codec_task *task,
                          const struct image *src, struct codec_call *call,
                          struct codec_sink *sink, struct error *error)
{
    struct codec_reply reply;
    size_t used = 0;
    uint32_t row = 0;
    for (;; call->kind = CODEC_GO_ON) {
        if (codec_process_ask(process, task, call, &reply, error) != STATUS_OK)
            return error->status;
        if (reply.kind == CODEC_DONE)
            break;
        if (reply.kind == CODEC_PART && (reply.bytes == 0 || reply.bytes > CODEC_WINDOW_BYTES))
            return codec_process_distrust(process, task, error);
        if ((reply.kind == CODEC_ROWS ? put_rows(process, task, src, &row, &reply, error)
                                      : take_part(process, reply.bytes, sink, &used, error)) !=
            STATUS_OK)
            return error->status;
    }
    bool put = codec_put_end(sink, &used, "AVIF", error);
    return put ? STATUS_OK : error->status;
}

static struct codec_call encode_call(const struct image *src, const struct encode_request *request)
{
    bool profile = request->icc && src->channels >= 3 &&
                   codec_icc_is_rgb(request->icc, request->icc_bytes);
    return (struct codec_call){
        .kind = CODEC_ENCODE,
        .width = src->width,
        .height = src->height,
        .channels = src->channels,
        .orientation = request->orientation > 1 ? (uint32_t)request->orientation : 1,
        .quality = request->encoder.quality,
        .effort = request->encoder.effort,
        .icc_bytes = profile ? request->icc_bytes : 0,
        .exif_bytes = request->exif ? request->exif_bytes : 0,
        .xmp_bytes = request->xmp ? request->xmp_bytes : 0,
    };
}

static enum status avif_encode(void *state, const struct image *src,
                               const struct encode_request *request, struct codec_sink *sink,
                               struct error *error)
{
    struct codec_call call = encode_call(src, request);
    size_t metadata = call.icc_bytes + call.exif_bytes + call.xmp_bytes;
    size_t most = METADATA_COPIES * metadata +
                  avif_encoder_bytes(src->width, src->height, src->channels, &request->encoder);
    call.region_bytes = CODEC_WINDOW_BYTES + metadata;
    struct codec_task task = {.kind = CODEC_ENCODE, .noun = "AVIF",
                              .region_bytes = call.region_bytes,
                              .work_bytes = most - call.region_bytes,
                              .deadline_ns = request->deadline_ns, .caller = request->caller};
    do {
        call.kind = CODEC_ENCODE;
        if (codec_process_begin(state, &task, error) == STATUS_OK &&
            put_metadata(state, CODEC_WINDOW_BYTES, &call, request, error) == STATUS_OK)
            encode(state, &task, src, &call, sink, error);
        codec_process_end(state);
    } while (sink->total == 0 && codec_process_take_retry(state, error));
    return error->status;
}

/* The largest size of a file: that of an image of noise with quality 100 and incompressible
 * alpha. */
static size_t avif_encoded_bytes(uint32_t width, uint32_t height, uint32_t channels,
                                 const struct encoder_settings *settings)
{
    enum { block = 8 };
    (void)settings;
    size_t pixels = (width + block - 1ull) / block * block * ((height + block - 1) / block * block);
    return pixels * 5 / 2 + (channels == 4 ? pixels * 3 / 2 : 0);
}

const struct codec codec_avif = {
    .sniff = avif_sniff,
    .state_bytes = sizeof(struct codec_process),
    .refusal = avif_refusal,
    .probe = avif_probe,
    .decode = avif_decode,
    .encode = avif_encode,
    .encoded_bytes = avif_encoded_bytes,
    .encoder_bytes = avif_encoder_bytes,
    .metadata_copies = METADATA_COPIES,
    .close = avif_close,
};

#endif
