/*
 * writer.c - encodes images in a codec process (process.h): copies metadata and pixels to the
 * process, and the file from it.
 */
#include "codecs/process/transfer.h"

/* A file of more than this many times what is estimated, and a mebibyte, comes from hostile code in
 * the process. It could otherwise fill the disk. A JPEG of noise is half as large again as its JPEG
 * XL. */
#define SPARE_TIMES        2
#define RECOMPRESSED_TIMES 4

static enum status put_metadata(struct codec_process *process, uint64_t at,
                                const struct codec_call *call, const struct encode_request *request,
                                struct error *error)
{
    if (codec_process_put(process, at, request->icc, call->icc_bytes, error) != STATUS_OK)
        return error->status;
    at += call->icc_bytes;
    if (codec_process_put(process, at, request->exif, call->exif_bytes, error) != STATUS_OK)
        return error->status;
    return codec_process_put(process, at + call->exif_bytes, request->xmp, call->xmp_bytes, error);
}

/* Copies a part of the file from the window to the sink. */
static enum status take_part(struct codec_process *process, const struct codec_task *task,
                             uint64_t bytes, struct codec_sink *sink, size_t *used,
                             struct error *error)
{
    uint8_t buffer[16 * KIB];
    for (uint64_t at = 0; at < bytes;) {
        size_t count = bytes - at < sizeof buffer ? (size_t)(bytes - at) : sizeof buffer;
        if (codec_process_get(process, at, buffer, count, error) != STATUS_OK ||
            !codec_put(sink, used, buffer, count, format_title(task->format), error))
            return error->status;
        at += count;
    }
    return STATUS_OK;
}

/* Copies the next rows of the image to the window. */
static enum status put_rows(struct codec_process *process, const struct codec_task *task,
                            const struct image *src, uint32_t *row, const struct codec_reply *reply,
                            struct error *error)
{
    if (reply->at != 0 || !codec_is_next_rows(reply, src, *row))
        return codec_process_distrust(process, task, error);
    struct image rows = codec_rows_of(src, *row, reply->rows);
    *row += reply->rows;
    return codec_process_put_image(process, 0, &rows, error);
}

/* src: NULL: the process needs no pixels. most: bytes of any file that the library could write. */
static enum status encode(struct codec_process *process, const struct codec_task *task,
                          const struct image *src, uint64_t most, struct codec_call *call,
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
        if (reply.kind == CODEC_PART &&
            (reply.bytes == 0 || reply.bytes > CODEC_WINDOW_BYTES || reply.bytes > most))
            return codec_process_distrust(process, task, error);
        most -= reply.kind == CODEC_PART ? reply.bytes : 0;
        if ((reply.kind == CODEC_ROWS
                 ? put_rows(process, task, src, &row, &reply, error)
                 : take_part(process, task, reply.bytes, sink, &used, error)) != STATUS_OK)
            return error->status;
    }
    if (sink->total + used == 0 || (src && row != src->height))
        return codec_process_distrust(process, task, error);
    bool put = codec_put_end(sink, &used, format_title(task->format), error);
    return put ? STATUS_OK : error->status;
}

static struct codec_call encode_call(const struct image *src, const struct encode_request *request)
{
    bool profile =
        request->icc && src->channels >= 3 && codec_icc_is_rgb(request->icc, request->icc_bytes);
    return (struct codec_call){
        .kind = CODEC_ENCODE,
        .format = (uint32_t)(request->format - formats),
        .width = src->width,
        .height = src->height,
        .channels = src->channels,
        .orientation = request->orientation > 1 ? (uint32_t)request->orientation : 1,
        .quality = request->encoder.quality,
        .effort = request->encoder.effort,
        .lossless = request->encoder.lossless,
        .keeps_alpha = request->keeps_alpha,
        .icc_bytes = profile ? request->icc_bytes : 0,
        .exif_bytes = request->exif ? request->exif_bytes : 0,
        .xmp_bytes = request->xmp ? request->xmp_bytes : 0,
    };
}

enum status codec_process_encode(struct codec_process *process, const struct image *src,
                                 const struct encode_request *request, size_t encoder_bytes,
                                 size_t metadata_copies, struct codec_sink *sink,
                                 struct error *error)
{
    struct codec_call call = encode_call(src, request);
    size_t metadata = call.icc_bytes + call.exif_bytes + call.xmp_bytes;
    struct encoder_settings settings = request->encoder;
    settings.max_bytes = 0; /* the caller compares */
    uint64_t most =
        SPARE_TIMES * (uint64_t)codec_encoded_bytes(request->format, src->width, src->height,
                                                    src->channels, &settings, metadata);
    call.region_bytes = CODEC_WINDOW_BYTES + metadata;
    struct codec_task task = {.kind = CODEC_ENCODE,
                              .format = request->format,
                              .region_bytes = call.region_bytes,
                              .work_bytes =
                                  metadata_copies * metadata + encoder_bytes - call.region_bytes,
                              .deadline_ns = request->deadline_ns,
                              .caller = request->caller};
    do {
        call.kind = CODEC_ENCODE;
        if (codec_process_begin(process, &task, error) == STATUS_OK &&
            put_metadata(process, CODEC_WINDOW_BYTES, &call, request, error) == STATUS_OK)
            encode(process, &task, src, most + MIB, &call, sink, error);
        codec_process_end(process);
    } while (sink->total == 0 && codec_process_take_retry(process, error));
    return error->status;
}

enum status codec_process_recompress(struct codec_process *process, const uint8_t *bytes,
                                     size_t length, const struct encode_request *request,
                                     size_t work_bytes, struct codec_sink *sink,
                                     struct error *error)
{
    struct codec_call call = {.format = FORMAT_jxl,
                              .region_bytes = CODEC_WINDOW_BYTES + length,
                              .file_bytes = length,
                              .ready_bytes = length,
                              .effort = request->encoder.effort};
    struct codec_task task = {.kind = CODEC_RECOMPRESS,
                              .format = &formats[FORMAT_jxl],
                              .region_bytes = call.region_bytes,
                              .work_bytes = work_bytes,
                              .deadline_ns = request->deadline_ns,
                              .caller = request->caller};
    do {
        call.kind = CODEC_RECOMPRESS;
        if (codec_process_begin(process, &task, error) == STATUS_OK &&
            codec_process_put(process, CODEC_WINDOW_BYTES, bytes, length, error) == STATUS_OK)
            encode(process, &task, NULL, RECOMPRESSED_TIMES * length + MIB, &call, sink, error);
        codec_process_end(process);
    } while (sink->total == 0 && codec_process_take_retry(process, error));
    return error->status;
}
