#include "codecs/pixel.h"

#include <string.h>

/* A sink that keeps the first bytes of the file, and drops the last ones if they do not fit: those
 * of the pixel. */
struct pixel_sink {
    struct codec_sink sink; /* first, because keep() casts its pointer to struct pixel_sink */
    uint8_t *bytes;
    size_t capacity;
    uint8_t buffer[4096];
};

static enum status keep(struct codec_sink *sink, size_t used, struct error *error)
{
    struct pixel_sink *pixel = (struct pixel_sink *)sink;
    size_t at = (size_t)sink->total < pixel->capacity ? (size_t)sink->total : pixel->capacity;
    size_t room = pixel->capacity - at;
    (void)error;
    memcpy(pixel->bytes + at, pixel->buffer, used < room ? used : room);
    return STATUS_OK;
}

size_t codec_metadata_bytes(const struct encode_request *request)
{
    return (request->icc ? request->icc_bytes : 0) + (request->exif ? request->exif_bytes : 0) +
           (request->xmp ? request->xmp_bytes : 0);
}

enum status codec_encode_pixel(struct codec_context *context, const struct encode_request *request,
                               uint32_t channels, uint8_t *to, size_t capacity, struct error *error)
{
    uint8_t pixels[STRIDE_ALIGN] = {0};
    struct image pixel = {pixels, 1, 1, channels, sizeof pixels};
    struct pixel_sink sink = {.bytes = to, .capacity = capacity};
    sink.sink =
        (struct codec_sink){.buffer = sink.buffer, .capacity = sizeof sink.buffer, .flush = keep};
    return codec_encode(context, &pixel, request, &sink.sink, error);
}
