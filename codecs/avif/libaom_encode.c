/*
 * libaom_encode.c - writes AVIFs with libavif and libaom in the codec process
 * (codecs/process/process.h): copies metadata and pixels to the process, and the file from it.
 */
#ifdef GPUIMGD_AVIF

#include "codecs/avif/avif_impl.h"

/* Measured with libaom 3.6 for an image of noise with quality 100; other images need a fifth less.
 * libaom adds a border to each frame. */
size_t libaom_encoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                            const struct encoder_settings *settings)
{
    enum { fixed_bytes = 4 << 20, border = 160, high_effort = 4 };
    size_t pixel_bytes = settings->effort < high_effort ? 26 : 40;
    (void)channels;
    return CODEC_WINDOW_BYTES + fixed_bytes +
           ((size_t)width + border) * (height + (size_t)border) * pixel_bytes;
}

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
static enum status take_part(struct codec_process *process, uint64_t bytes, struct codec_sink *sink,
                             size_t *used, struct error *error)
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
                            const struct image *src, uint32_t *row, const struct codec_reply *reply,
                            struct error *error)
{
    if (reply->at != 0 || !avif_is_next_rows(reply, src, *row))
        return codec_process_distrust(process, task, error);
    struct image rows = avif_rows_of(src, *row, reply->rows);
    *row += reply->rows;
    return codec_process_put_image(process, 0, &rows, error);
}

static enum status encode(struct codec_process *process, const struct codec_task *task,
                          const struct image *src, struct codec_call *call, struct codec_sink *sink,
                          struct error *error)
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
        if ((reply.kind == CODEC_ROWS
                 ? put_rows(process, task, src, &row, &reply, error)
                 : take_part(process, reply.bytes, sink, &used, error)) != STATUS_OK)
            return error->status;
    }
    bool put = codec_put_end(sink, &used, "AVIF", error);
    return put ? STATUS_OK : error->status;
}

static struct codec_call encode_call(const struct image *src, const struct encode_request *request)
{
    bool profile =
        request->icc && src->channels >= 3 && codec_icc_is_rgb(request->icc, request->icc_bytes);
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

enum status libaom_encode(void *state, const struct image *src,
                          const struct encode_request *request, struct codec_sink *sink,
                          struct error *error)
{
    struct codec_call call = encode_call(src, request);
    size_t metadata = call.icc_bytes + call.exif_bytes + call.xmp_bytes;
    size_t most = AVIF_METADATA_COPIES * metadata +
                  libaom_encoder_bytes(src->width, src->height, src->channels, &request->encoder);
    call.region_bytes = CODEC_WINDOW_BYTES + metadata;
    struct codec_task task = {.kind = CODEC_ENCODE,
                              .noun = "AVIF",
                              .region_bytes = call.region_bytes,
                              .work_bytes = most - call.region_bytes,
                              .deadline_ns = request->deadline_ns,
                              .caller = request->caller};
    do {
        call.kind = CODEC_ENCODE;
        if (codec_process_begin(state, &task, error) == STATUS_OK &&
            put_metadata(state, CODEC_WINDOW_BYTES, &call, request, error) == STATUS_OK)
            encode(state, &task, src, &call, sink, error);
        codec_process_end(state);
    } while (sink->total == 0 && codec_process_take_retry(state, error));
    return error->status;
}

#endif
