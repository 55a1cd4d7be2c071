#include "codecs/webp/header.h"

#include <assert.h>
#include <string.h>

#include "codecs/codec_impl.h"
#include "codecs/pixel.h"
#include "codecs/webp/webp_chunks.h"

/* The effort of the encoder of devices. */
#define DEVICE_EFFORT 2

static void put_le(uint8_t *at, uint32_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

bool webp_put(struct webp_out *out, const void *bytes, size_t count)
{
    return codec_put(out->sink, &out->used, bytes, count, "WebP", out->error);
}

bool webp_put_end(struct webp_out *out)
{
    return codec_put_end(out->sink, &out->used, "WebP", out->error);
}

/* ---- chunks ---- */

static uint32_t chunk_bytes(const uint8_t *data, size_t bytes)
{
    return data ? (uint32_t)(CHUNK_BYTES + bytes + bytes % 2) : 0;
}

static bool put_chunk(struct webp_out *out, const char *type, const uint8_t *data, size_t bytes)
{
    uint8_t head[CHUNK_BYTES];
    if (!data)
        return true;
    memcpy(head, type, 4);
    put_le(head + 4, (uint32_t)bytes, 4);
    return webp_put(out, head, sizeof head) && webp_put(out, data, bytes) &&
           webp_put(out, "", bytes % 2);
}

struct webp_metadata webp_metadata_of(const struct encode_request *request, uint32_t channels)
{
    bool profile =
        request->icc && channels >= 3 && codec_icc_is_rgb(request->icc, request->icc_bytes);
    return (struct webp_metadata){.icc = profile ? request->icc : NULL,
                                  .exif = request->exif,
                                  .xmp = request->xmp,
                                  .icc_bytes = request->icc_bytes,
                                  .exif_bytes = request->exif_bytes,
                                  .xmp_bytes = request->xmp_bytes};
}

uint32_t webp_metadata_bytes(const struct webp_metadata *metadata)
{
    return chunk_bytes(metadata->icc, metadata->icc_bytes) +
           chunk_bytes(metadata->exif, metadata->exif_bytes) +
           chunk_bytes(metadata->xmp, metadata->xmp_bytes);
}

bool webp_put_header(struct webp_out *out, const struct webp_metadata *metadata,
                     const struct webp_canvas *canvas)
{
    uint8_t head[RIFF_BYTES + VP8X_BYTES] = "RIFF\0\0\0\0WEBPVP8X", *vp8x = head + RIFF_BYTES;
    uint32_t more = webp_metadata_bytes(metadata);
    uint32_t head_bytes = RIFF_BYTES + (more > 0 ? VP8X_BYTES : 0);
    put_le(head + 4, head_bytes - CHUNK_BYTES + more + canvas->image_bytes, 4);
    put_le(vp8x + 4, VP8X_BYTES - CHUNK_BYTES, 4);
    vp8x[8] = (uint8_t)((metadata->icc ? FLAG_ICC : 0) | (canvas->has_alpha ? FLAG_ALPHA : 0) |
                        (metadata->exif ? FLAG_EXIF : 0) | (metadata->xmp ? FLAG_XMP : 0));
    put_le(vp8x + 12, canvas->width - 1, 3);
    put_le(vp8x + 15, canvas->height - 1, 3);
    return webp_put(out, head, head_bytes) &&
           put_chunk(out, "ICCP", metadata->icc, metadata->icc_bytes);
}

bool webp_put_trailer(struct webp_out *out, const struct webp_metadata *metadata)
{
    return put_chunk(out, "EXIF", metadata->exif, metadata->exif_bytes) &&
           put_chunk(out, "XMP ", metadata->xmp, metadata->xmp_bytes);
}

/* ---- preludes ---- */

bool webp_is_for_devices(const struct encoder_settings *settings)
{
    return !settings->lossless && settings->effort == DEVICE_EFFORT;
}

size_t webp_prelude_bytes(size_t metadata_bytes)
{
    enum { chunks = 3, padded_chunk = CHUNK_BYTES + 1 };
    return sizeof(struct webp_prelude) + RIFF_BYTES + VP8X_BYTES + chunks * padded_chunk +
           metadata_bytes;
}

void webp_prelude_make(const struct encode_request *request, uint32_t width, uint32_t height,
                       uint32_t channels, struct webp_prelude *to)
{
    const struct webp_canvas canvas = {.width = width, .height = height};
    struct webp_metadata metadata = webp_metadata_of(request, channels);
    struct error error = {0};
    struct codec_sink sink = {.buffer = to->bytes, .capacity = SIZE_MAX}; /* never flushed */
    struct webp_out out = {.sink = &sink, .error = &error};
    bool done = webp_put_header(&out, &metadata, &canvas);
    to->header_bytes = (uint32_t)out.used;
    done = done && webp_put_trailer(&out, &metadata);
    to->trailer_bytes = (uint32_t)out.used - to->header_bytes;
    memset(to->bytes + 4, 0, 4); /* the size of the file, which the device knows */
    assert(done && sizeof *to + out.used <= webp_prelude_bytes(codec_metadata_bytes(request)));
    (void)done;
}
