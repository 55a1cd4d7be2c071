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

static enum status encode_pixel(struct codec_context *context, const struct encode_request *request,
                                uint32_t channels, uint8_t *to, size_t capacity, size_t *bytes,
                                struct error *error)
{
    uint8_t pixels[STRIDE_ALIGN] = {0};
    struct image pixel = {pixels, 1, 1, channels, sizeof pixels};
    struct pixel_sink sink = {.bytes = to, .capacity = capacity};
    sink.sink =
        (struct codec_sink){.buffer = sink.buffer, .capacity = sizeof sink.buffer, .flush = keep};
    enum status status = codec_encode(context, &pixel, request, &sink.sink, error);
    *bytes = sink.sink.total < capacity ? (size_t)sink.sink.total : capacity;
    return status;
}

/* Padding is zero, because `find` compares all bytes. */
static void set_key(struct codec_pixel_key *key, const struct encode_request *request,
                    uint32_t channels, size_t capacity)
{
    memset(key, 0, sizeof *key);
    key->format = request->format;
    key->encoder = request->encoder;
    key->density.x = request->density.x;
    key->density.y = request->density.y;
    key->density.unit = request->density.unit;
    key->channels = channels;
    key->restart_interval = request->restart_interval;
    key->orientation = request->orientation;
    key->bilevel = request->bilevel;
    key->icc_bytes = request->icc ? request->icc_bytes : 0;
    key->capacity = capacity;
}

static const struct codec_pixel *find(struct codec_pixels *pixels,
                                      const struct codec_pixel_key *key, const uint8_t *icc)
{
    for (size_t i = 0; i < CODEC_PIXELS_KEPT; i++) {
        size_t which = (pixels->last + i) % CODEC_PIXELS_KEPT;
        const struct codec_pixel *pixel = &pixels->of[which];
        if (memcmp(&pixel->key, key, sizeof *key) != 0 ||
            (key->icc_bytes > 0 && memcmp(pixel->icc, icc, key->icc_bytes) != 0))
            continue;
        pixels->last = which;
        return pixel;
    }
    return NULL;
}

static void keep_pixel(struct codec_pixels *pixels, const struct codec_pixel_key *key,
                       const uint8_t *icc, const uint8_t *file, size_t bytes)
{
    size_t which = (pixels->last + 1) % CODEC_PIXELS_KEPT;
    struct codec_pixel *pixel = &pixels->of[which];
    if (bytes > sizeof pixel->file)
        return;
    pixels->last = which;
    memcpy(&pixel->key, key, sizeof *key); /* with its padding */
    pixel->bytes = bytes;
    memcpy(pixel->file, file, bytes);
    if (key->icc_bytes > 0)
        memcpy(pixel->icc, icc, key->icc_bytes);
}

enum status codec_encode_pixel(struct codec_context *context, const struct encode_request *request,
                               uint32_t channels, uint8_t *to, size_t capacity, struct error *error)
{
    struct codec_pixels *pixels = codec_pixels_of(context);
    struct codec_pixel_key key;
    size_t bytes = 0;
    set_key(&key, request, channels, capacity);
    bool may_keep =
        codec_metadata_bytes(request) == key.icc_bytes && key.icc_bytes <= CODEC_PIXEL_ICC_BYTES;
    const struct codec_pixel *known = may_keep ? find(pixels, &key, request->icc) : NULL;
    if (known) {
        memcpy(to, known->file, known->bytes);
        return STATUS_OK;
    }
    enum status status = encode_pixel(context, request, channels, to, capacity, &bytes, error);
    if (status == STATUS_OK && may_keep)
        keep_pixel(pixels, &key, request->icc, to, bytes);
    return status;
}
