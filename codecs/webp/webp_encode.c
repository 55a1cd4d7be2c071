/*
 * webp_encode.c - writes WebPs with libwebp.
 *
 * libwebp calls on_bytes with the parts of its file in order, after it has encoded the whole image.
 * If there is metadata, libwebp's headers are replaced by those of header.h.
 */
#ifdef GPUIMGD_WEBP

#include <string.h>

#include <webp/encode.h>

#include "codecs/webp/header.h"
#include "codecs/webp/webp_chunks.h"
#include "codecs/webp/webp_impl.h"

/* Writes the file to the sink. libwebp calls on_bytes with the parts of its file in order, after it
 * has encoded the whole image. If there is metadata, libwebp's headers are replaced by new ones
 * with a VP8X and an ICCP chunk, and EXIF and XMP are added at the end (RFC 9649, section 2.7). */
struct writer {
    const struct encode_request *request;
    struct webp_out out;
    struct webp_metadata metadata;
    bool extends; /* there is metadata; otherwise libwebp's file is written unchanged */
    uint8_t head[RIFF_BYTES + VP8X_BYTES]; /* the first bytes of libwebp's file */
    size_t head_bytes;                     /* of `head`, received so far */
};

/* Whether libwebp's file has alpha; libwebp leaves out an alpha that is opaque. In a lossless file
 * without VP8X, the flag is in the header of the VP8L data. */
static bool has_alpha(const struct writer *writer)
{
    enum { flags_at = RIFF_BYTES + CHUNK_BYTES, lossless_flags_at = flags_at + 4 };
    const uint8_t *type = writer->head + RIFF_BYTES;
    if (memcmp(type, "VP8X", 4) == 0)
        return (writer->head[flags_at] & FLAG_ALPHA) != 0;
    return memcmp(type, "VP8L", 4) == 0 && (writer->head[lossless_flags_at] & 0x10) != 0;
}

/* Writes the new headers, and the part of writer->head that is no header. */
static bool put_head(struct writer *writer, const WebPPicture *picture)
{
    bool extended = memcmp(writer->head + RIFF_BYTES, "VP8X", 4) == 0;
    size_t replaced = RIFF_BYTES + (extended ? VP8X_BYTES : 0);
    const struct webp_canvas canvas = {.width = (uint32_t)picture->width,
                                       .height = (uint32_t)picture->height,
                                       .has_alpha = has_alpha(writer),
                                       .image_bytes = CHUNK_BYTES + codec_le32(writer->head + 4) -
                                                      (uint32_t)replaced};
    return webp_put_header(&writer->out, &writer->metadata, &canvas) &&
           webp_put(&writer->out, writer->head + replaced, writer->head_bytes - replaced);
}

/* Called by libwebp with the next bytes of its file. Returns 0 to end the encode. */
static int on_bytes(const uint8_t *bytes, size_t count, const WebPPicture *picture)
{
    struct writer *writer = picture->custom_ptr;
    size_t room = sizeof writer->head - writer->head_bytes, part = count < room ? count : room;
    if (!writer->extends)
        return webp_put(&writer->out, bytes, count);
    if (part > 0) {
        memcpy(writer->head + writer->head_bytes, bytes, part);
        writer->head_bytes += part;
        if (writer->head_bytes < sizeof writer->head)
            return 1;
        if (!put_head(writer, picture))
            return 0;
    }
    return webp_put(&writer->out, bytes + part, count - part);
}

/* Writes what is still missing after the encode. `head` may be incomplete if the file is tiny. */
static bool put_end(struct writer *writer, const WebPPicture *picture)
{
    bool is_short = writer->extends && writer->head_bytes < sizeof writer->head;
    return (!is_short || put_head(writer, picture)) &&
           webp_put_trailer(&writer->out, &writer->metadata) && webp_put_end(&writer->out);
}

static int on_progress(int percent, const WebPPicture *picture)
{
    struct writer *writer = picture->custom_ptr;
    if (!codec_late(writer->request->deadline_ns))
        return 1;
    error_set(writer->out.error, STATUS_TIMEOUT, "the deadline for encoding passed after %d%%",
              percent);
    return 0;
}

/* Gives gray pixels to libwebp, which has no function for them. */
static bool import_gray(WebPPicture *picture, const struct image *src)
{
    picture->use_argb = 1;
    if (!WebPPictureAlloc(picture))
        return false;
    for (uint32_t y = 0; y < src->height; y++) {
        const uint8_t *from = src->pixels + y * src->stride;
        uint32_t *to = picture->argb + (size_t)y * (size_t)picture->argb_stride;
        for (uint32_t x = 0; x < src->width; x++)
            to[x] = 0xFF000000u | from[x] * 0x010101u;
    }
    return true;
}

static bool import_pixels(WebPPicture *picture, const struct image *src)
{
    int stride = (int)src->stride;
    if (src->channels == 1)
        return import_gray(picture, src);
    return src->channels == 4 ? WebPPictureImportRGBA(picture, src->pixels, stride)
                              : WebPPictureImportRGB(picture, src->pixels, stride);
}

static enum status refuse_encode(const WebPPicture *picture, struct error *error)
{
    WebPEncodingError code = picture->error_code;
    if (error->status != STATUS_OK) /* set by the sink or by on_progress */
        return error->status;
    /* libwebp 1.2 gives no code if an allocation for alpha fails. */
    if (code == VP8_ENC_ERROR_OUT_OF_MEMORY || code == VP8_ENC_ERROR_BITSTREAM_OUT_OF_MEMORY ||
        code == VP8_ENC_OK)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to write a WebP of %d x %d pixels",
                         picture->width, picture->height);
    if (code == VP8_ENC_ERROR_BAD_DIMENSION)
        return error_set(error, STATUS_ENCODE_FAILED,
                         "the image is %d x %d pixels; a WebP has at most %d per side",
                         picture->width, picture->height, WEBP_MAX_DIMENSION);
    return error_set(error, STATUS_ENCODE_FAILED, "the WebP cannot be written: error %d of libwebp",
                     code);
}

/* Sets the quality and the effort. For a lossless file, libwebp's `quality` is an effort as well;
 * the table has its value for each effort of an encoder. */
static void set_effort(WebPConfig *config, const struct encoder_settings *settings)
{
    static const float searches[] = {0, 20, 25, 50, 75, 90, 100};
    config->method = settings->effort;
    config->quality = settings->lossless ? searches[settings->effort] : (float)settings->quality;
    config->lossless = settings->lossless;
    config->exact = settings->lossless; /* keeps the colours of transparent pixels */
}

/* Measured for images of noise, which need the most memory. From effort 3 on, the lossy encoder has
 * the symbols of the whole image in memory. The lossless encoder, which also encodes alpha, has
 * copies of the pixels, tables for its search, and two sets of histograms of tiles. */
size_t webp_encoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                          const struct encoder_settings *settings)
{
    enum {
        fixed_bytes = 2 << 20,
        block = 16,
        high_quality = 90,
        tiles_max = 2600,
        histogram_bytes = 2 * 8700
    };
    size_t pixels = (width + block - 1ull) / block * block * (height + (size_t)block);
    int effort = settings->effort, tile_bits = effort < 5 ? 2 * (7 - effort) : 4;
    size_t lossy = effort < 3 ? 8 : settings->quality > high_quality ? 32 : 20;
    size_t lossless = effort == 0 ? 28 : effort < 6 ? 40 : 56, tiles = (pixels >> tile_bits) + 1;
    size_t bytes = settings->lossless || channels == 1 ? 4 : channels == 4 ? 3 : 2;
    if (settings->lossless)
        bytes += lossless;
    else
        bytes += channels == 4 && lossless > lossy ? lossless : lossy;
    if (!settings->lossless && channels != 4)
        tiles = 0;
    return fixed_bytes + pixels * bytes + (tiles < tiles_max ? tiles : tiles_max) * histogram_bytes;
}

/* Measured with libwebp 1.2.4, which does not call on_progress while it encodes alpha. For alpha,
 * the highest effort tries all filters. */
uint64_t webp_encoder_blind_ns(uint32_t channels, const struct encoder_settings *settings)
{
    static const uint64_t lossless[] = {15, 30, 50, 80, 100, 400, 650},
                          alpha[] = {60, 100, 100, 100, 110, 270, 10000};
    enum { lossy = 70 };
    return settings->lossless ? lossless[settings->effort]
           : channels == 4    ? alpha[settings->effort]
                              : lossy;
}

enum status webp_encode(void *state, const struct image *src, const struct encode_request *request,
                        struct codec_sink *sink, struct error *error)
{
    WebPConfig config;
    WebPPicture picture;
    struct writer writer = {.request = request,
                            .out = {.sink = sink, .error = error},
                            .metadata = webp_metadata_of(request, src->channels)};
    (void)state;
    writer.extends = webp_metadata_bytes(&writer.metadata) > 0;
    if (!WebPConfigInit(&config) || !WebPPictureInit(&picture))
        return error_set(error, STATUS_INTERNAL, "libwebp %#x refuses calls for version %#x",
                         WebPGetEncoderVersion(), WEBP_ENCODER_ABI_VERSION);
    /* libwebp 1.2 does not notice some failed allocations, and then writes a broken file. */
    if (!codec_has_memory(
            webp_encoder_bytes(src->width, src->height, src->channels, &request->encoder)))
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to write a WebP of %u x %u pixels",
                         src->width, src->height);
    set_effort(&config, &request->encoder);
    picture.width = (int)src->width;
    picture.height = (int)src->height;
    picture.use_argb = request->encoder.lossless;
    picture.writer = on_bytes;
    picture.progress_hook = on_progress;
    picture.custom_ptr = &writer;
    if (!import_pixels(&picture, src) || !WebPEncode(&config, &picture) ||
        !put_end(&writer, &picture))
        refuse_encode(&picture, error);
    WebPPictureFree(&picture);
    return error->status;
}

/* The largest size of a file: noise at quality 100 takes 2.7 bytes per pixel of whole blocks, and
 * alpha that cannot be compressed one more. */
size_t webp_encoded_bytes(uint32_t width, uint32_t height, uint32_t channels,
                          const struct encoder_settings *settings)
{
    enum { block = 16 };
    size_t pixels = (width + block - 1ull) / block * block * ((height + block - 1) / block * block);
    if (settings->lossless)
        return pixels * channels + pixels / 4;
    return pixels * 3 + (channels == 4 ? pixels : 0);
}

int webp_library_version(void)
{
    return WebPGetEncoderVersion();
}

#endif
