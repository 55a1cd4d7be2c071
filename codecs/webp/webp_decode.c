/*
 * webp_decode.c - reads WebPs with libwebp.
 *
 * Files are given to libwebp in pieces, and the deadline is checked before each piece. The
 * container (RFC 9649) is parsed here and not by libwebpdemux, which would allocate memory for
 * every frame of an animation.
 */
#ifdef GPUIMGD_WEBP

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <webp/decode.h>

#include "codecs/webp/vp8l.h"
#include "codecs/webp/webp_chunks.h"
#include "codecs/webp/webp_impl.h"

/* Chunks between two checks of the deadline: they take a millisecond. */
#define CHUNKS_PER_CHECK (1u << 16)
/* Pixels between two checks of the deadline, on average over the file. */
#define PIXELS_PER_CHECK (1u << 20)

/* The parts of a file. Of an animation, only the first frame is decoded. */
struct webp_parts {
    const uint8_t *image; /* what libwebp decodes: the whole file, or the first frame */
    size_t image_bytes;
    unsigned flags; /* of the VP8X chunk; 0: there is none. Metadata that the flags do not
                       announce is ignored, as in libwebp's demuxer */
    bool animated;
    uint32_t x, y; /* position of the frame on the canvas */
    const uint8_t *icc, *exif, *xmp;
    size_t icc_bytes, exif_bytes, xmp_bytes;
    const uint8_t *vp8l, *alph; /* data of the chunks with lossless pixels, and with alpha */
    size_t alph_bytes;
    bool has_pixels; /* a chunk with pixels was found; libwebp reads no alpha after it */
};

/* ---- the container ---- */

/* Of several chunks of a type, the first counts. */
static void take(const uint8_t **data, size_t *bytes, const uint8_t *found, size_t found_bytes)
{
    if (*data)
        return;
    *data = found;
    *bytes = found_bytes;
}

static void take_chunk(struct webp_parts *parts, const uint8_t *type, size_t bytes)
{
    const uint8_t *data = type + CHUNK_BYTES;
    if (memcmp(type, "ICCP", 4) == 0 && parts->flags & FLAG_ICC) {
        take(&parts->icc, &parts->icc_bytes, data, bytes);
    } else if (memcmp(type, "EXIF", 4) == 0 && parts->flags & FLAG_EXIF) {
        take(&parts->exif, &parts->exif_bytes, data, bytes);
    } else if (memcmp(type, "XMP ", 4) == 0 && parts->flags & FLAG_XMP) {
        take(&parts->xmp, &parts->xmp_bytes, data, bytes);
    } else if (memcmp(type, "ALPH", 4) == 0 && !parts->has_pixels) {
        parts->alph = data; /* of several, libwebp reads the last one */
        parts->alph_bytes = bytes;
    } else if (memcmp(type, "VP8L", 4) == 0 && !parts->has_pixels) {
        parts->has_pixels = true;
        parts->vp8l = data;
    } else if (memcmp(type, "VP8 ", 4) == 0) {
        parts->has_pixels = true;
    }
}

/* Calls take_chunk for each chunk of a file or frame, and finds the first frame of an animation.
 * The last chunk of a truncated file has fewer bytes than its size. */
static enum status walk(const uint8_t *bytes, size_t end, const struct codec_limits *limits,
                        struct webp_parts *parts, struct error *error)
{
    size_t at = 0;
    for (uint32_t chunks = 1; at < end && end - at >= CHUNK_BYTES; chunks++) {
        size_t data = codec_le32(bytes + at + 4), left = end - at - CHUNK_BYTES;
        bool is_frame = memcmp(bytes + at, "ANMF", 4) == 0;
        data = data < left ? data : left;
        if (is_frame && data >= ANMF_BYTES && parts->flags & FLAG_ANIMATION && !parts->animated) {
            const uint8_t *frame = bytes + at + CHUNK_BYTES;
            parts->animated = true;
            parts->x = 2 * codec_le24(frame);
            parts->y = 2 * codec_le24(frame + 3);
            parts->image = frame + ANMF_BYTES;
            parts->image_bytes = data - ANMF_BYTES;
        }
        take_chunk(parts, bytes + at, data);
        at += CHUNK_BYTES + data + data % 2;
        if (chunks % CHUNKS_PER_CHECK == 0 && codec_late(limits->deadline_ns))
            return error_set(error, STATUS_DECODE_LIMIT,
                             "the deadline for decoding passed in its header");
    }
    return STATUS_OK;
}

/* Refuses an image that does not begin with a chunk of one of three types. libwebp would also
 * decode an image without chunks, and a frame that is a whole file. But in these, take_chunk would
 * not find the VP8L data, which decides how much memory libwebp needs. */
static enum status check_first(const uint8_t *at, size_t length, const char types[3][5],
                               const char *what, struct error *error)
{
    char first[5] = "";
    if (length < 4)
        return STATUS_OK; /* libwebp reports the end of the data */
    for (int i = 0; i < 3; i++)
        if (memcmp(at, types[i], 4) == 0)
            return STATUS_OK;
    for (int i = 0; i < 4; i++)
        first[i] = at[i] >= ' ' && at[i] <= '~' ? (char)at[i] : '?';
    return error_set(error, STATUS_DECODE_FAILED,
                     "the first chunk of the WebP%s is \"%s\"; it must be \"%s\", \"%s\" or \"%s\"",
                     what, first, types[0], types[1], types[2]);
}

static enum status find_parts(const uint8_t *bytes, size_t length,
                              const struct codec_limits *limits, struct webp_parts *parts,
                              struct error *error)
{
    static const char first_types[3][5] = {"VP8 ", "VP8L", "VP8X"};
    static const char frame_types[3][5] = {"ALPH", "VP8 ", "VP8L"};
    size_t end = (size_t)codec_le32(bytes + 4) + CHUNK_BYTES;
    *parts = (struct webp_parts){.image = bytes, .image_bytes = length};
    end = end < length ? end : length;
    if (check_first(bytes + RIFF_BYTES, length - RIFF_BYTES, first_types, "", error) != STATUS_OK)
        return error->status;
    if (codec_has_bytes(bytes, end, RIFF_BYTES, "VP8X", 4) && end > RIFF_BYTES + CHUNK_BYTES)
        parts->flags = bytes[RIFF_BYTES + CHUNK_BYTES];
    enum status status = STATUS_OK;
    if (end > RIFF_BYTES)
        status = walk(bytes + RIFF_BYTES, end - RIFF_BYTES, limits, parts, error);
    if (status != STATUS_OK || !parts->animated)
        return status;
    parts->vp8l = parts->alph = NULL; /* those found so far are not in the frame */
    parts->has_pixels = false;
    parts->flags = 0; /* chunks of metadata in a frame are ignored */
    if (check_first(parts->image, parts->image_bytes, frame_types, "'s first frame", error) !=
        STATUS_OK)
        return error->status;
    return walk(parts->image, parts->image_bytes, limits, parts, error);
}

/* ---- errors ---- */

static enum status refuse(VP8StatusCode code, const char *where, struct error *error)
{
    switch (code) {
    case VP8_STATUS_OUT_OF_MEMORY:
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to decode a WebP");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        return error_set(error, STATUS_UNSUPPORTED_FORMAT,
                         "the WebP uses a feature that libwebp does not read, %s", where);
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA:
        return error_set(error, STATUS_DECODE_FAILED, "the WebP's data ends %s", where);
    default:
        return error_set(error, STATUS_DECODE_FAILED,
                         "the WebP cannot be decoded, %s: its data is corrupt", where);
    }
}

static enum status refuse_rows(VP8StatusCode code, const WebPIDecoder *decoder, uint32_t rows,
                               struct error *error)
{
    char where[64];
    int done = 0;
    (void)WebPIDecGetRGB(decoder, &done, NULL, NULL, NULL);
    snprintf(where, sizeof where, "after %d of %u rows", done, rows);
    return refuse(code, where, error);
}

/* ---- probe ---- */

/* Returns the number of groups of Huffman codes in the image or its alpha (vp8l.h). libwebp reads a
 * lossless image beyond the end of its chunk, to the end of the bytes that it is given. */
static size_t count_groups(const struct webp_parts *parts, const WebPBitstreamFeatures *frame,
                           uint64_t deadline_ns)
{
    enum { vp8l_header = 5, alph_header = 1, method_mask = 3, compressed = 1 };
    uint32_t width = (uint32_t)frame->width, height = (uint32_t)frame->height;
    size_t vp8l_bytes = parts->vp8l ? (size_t)(parts->image + parts->image_bytes - parts->vp8l) : 0;
    if (vp8l_bytes > vp8l_header)
        return vp8l_groups(parts->vp8l + vp8l_header, vp8l_bytes - vp8l_header, width, height,
                           deadline_ns);
    if (parts->alph && parts->alph_bytes > alph_header &&
        (parts->alph[0] & method_mask) == compressed)
        return vp8l_groups(parts->alph + alph_header, parts->alph_bytes - alph_header, width,
                           height, deadline_ns);
    return 0;
}

/* Returns an upper bound on the memory that libwebp needs for a decode. It always needs some rows.
 * A lossless image is in memory as a whole before its colours are converted, and so is the
 * compressed alpha of a lossy image. Their transforms need a pixel per block of at least 4 x 4,
 * each group of Huffman codes needs tables, and each number of a group an entry in a table. */
static size_t decoder_bytes(const WebPBitstreamFeatures *frame, size_t groups)
{
    enum { fixed_bytes = 128 * 1024, column_bytes = 256, pixel_bytes = 5, lossless = 2 };
    size_t width = (size_t)frame->width, pixels = width * (size_t)frame->height;
    size_t bytes = fixed_bytes + width * column_bytes;
    if (frame->format == lossless || frame->has_alpha)
        bytes += pixels * pixel_bytes + groups * VP8L_GROUP_BYTES + VP8L_NUMBERS_BYTES;
    return frame->format != lossless && frame->has_alpha ? bytes + pixels : bytes;
}

/* Reads the size of the canvas (the whole image of an animation), and the features of the image or
 * of the first frame. */
static enum status read_features(const uint8_t *bytes, size_t length,
                                 const struct webp_parts *parts, WebPBitstreamFeatures *canvas,
                                 WebPBitstreamFeatures *frame, struct error *error)
{
    VP8StatusCode code = WebPGetFeatures(bytes, length, canvas);
    if (code != VP8_STATUS_OK)
        return refuse(code, "in its header", error);
    *frame = *canvas;
    if (!canvas->has_animation && !parts->animated)
        return STATUS_OK;
    if (!parts->animated)
        return error_set(error, STATUS_DECODE_FAILED,
                         "the WebP's data ends before its first frame is complete");
    code = WebPGetFeatures(parts->image, parts->image_bytes, frame);
    if (code != VP8_STATUS_OK)
        return refuse(code, "in its first frame", error);
    if (parts->x + (uint32_t)frame->width > (uint32_t)canvas->width ||
        parts->y + (uint32_t)frame->height > (uint32_t)canvas->height)
        return error_set(error, STATUS_DECODE_FAILED,
                         "the first frame of the WebP is not on its canvas");
    return STATUS_OK;
}

static enum status read_metadata(const struct webp_parts *parts, const struct codec_limits *limits,
                                 struct image_info *info, struct error *error)
{
    if (parts->exif)
        info->orientation = exif_orientation(parts->exif, parts->exif_bytes);
    if ((parts->icc && !codec_keep_icc(parts->icc, parts->icc_bytes, info)) ||
        (parts->exif && !codec_keep_exif(limits, parts->exif, parts->exif_bytes, info)) ||
        (parts->xmp && !codec_keep_xmp(limits, parts->xmp, parts->xmp_bytes, info)))
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the metadata of a WebP");
    codec_fit_icc(info, false); /* the format has no gray */
    return STATUS_OK;
}

/* Whether the frame fills its canvas. If not, the image has transparent pixels around the frame. */
static bool fills_canvas(const WebPBitstreamFeatures *canvas, const WebPBitstreamFeatures *frame)
{
    return frame->width == canvas->width && frame->height == canvas->height;
}

enum status webp_probe(void *state, const uint8_t *bytes, size_t length,
                       const struct codec_limits *limits, struct image_info *info,
                       struct error *error)
{
    struct webp_parts parts;
    WebPBitstreamFeatures canvas, frame;
    (void)state;
    if (find_parts(bytes, length, limits, &parts, error) != STATUS_OK ||
        read_features(bytes, length, &parts, &canvas, &frame, error) != STATUS_OK ||
        codec_check_size("WebP", (uint32_t)canvas.width, (uint32_t)canvas.height, limits, error) !=
            STATUS_OK)
        return error->status;
    info->width = (uint32_t)canvas.width;
    info->height = (uint32_t)canvas.height;
    info->channels = frame.has_alpha || !fills_canvas(&canvas, &frame) ? 4 : 3;
    info->codec_bytes = decoder_bytes(&frame, count_groups(&parts, &frame, limits->deadline_ns));
    if (codec_late(limits->deadline_ns)) /* then count_groups may have returned 0 */
        return error_set(error, STATUS_DECODE_LIMIT,
                         "the deadline for decoding passed in its header");
    return read_metadata(&parts, limits, info, error);
}

/* ---- decode ---- */

static enum status decode_pieces(WebPIDecoder *decoder, const struct webp_parts *parts,
                                 const struct image *dst, uint64_t deadline_ns, struct error *error)
{
    uint64_t pixels = (uint64_t)dst->width * dst->height;
    size_t piece = parts->image_bytes / (size_t)(pixels / PIXELS_PER_CHECK + 1) + 1, at = 0;
    VP8StatusCode code = VP8_STATUS_SUSPENDED;
    if (piece > CODEC_BYTES_PER_CHECK)
        piece = CODEC_BYTES_PER_CHECK;
    while (code == VP8_STATUS_SUSPENDED && at < parts->image_bytes) {
        size_t left = parts->image_bytes - at;
        at += left < piece ? left : piece;
        if (codec_late(deadline_ns))
            return error_set(error, STATUS_DECODE_LIMIT,
                             "the deadline for decoding passed before byte %zu of the WebP", at);
        code = WebPIUpdate(decoder, parts->image, at);
    }
    int width = 0, height = 0;
    if (code != VP8_STATUS_OK)
        return refuse_rows(code, decoder, dst->height, error);
    (void)WebPIDecGetRGB(decoder, NULL, &width, &height, NULL);
    if ((uint32_t)width != dst->width || (uint32_t)height != dst->height)
        /* uncovered: net (tests/coverage/reasons.txt) */
        return error_set(error, STATUS_DECODE_FAILED,
                         "the WebP's image is %d x %d pixels; its header says %u x %u", width,
                         height, dst->width, dst->height);
    return STATUS_OK;
}

/* Returns the part of dst that the frame fills. If there are pixels around it, makes them
 * transparent black, as WebPAnimDecoder does. */
static struct image place_frame(const struct image *dst, const struct webp_parts *parts,
                                const WebPBitstreamFeatures *frame)
{
    struct image place = *dst;
    place.width = (uint32_t)frame->width;
    place.height = (uint32_t)frame->height;
    place.pixels += parts->y * dst->stride + (size_t)parts->x * dst->channels;
    if (place.width != dst->width || place.height != dst->height)
        for (uint32_t y = 0; y < dst->height; y++)
            memset(dst->pixels + y * dst->stride, 0, (size_t)dst->width * dst->channels);
    return place;
}

static enum status decode_image(const struct webp_parts *parts, const struct image *dst,
                                uint64_t deadline_ns, struct error *error)
{
    WebPDecBuffer buffer;
    if (!WebPInitDecBuffer(&buffer))
        return error_set(error, STATUS_INTERNAL, "libwebp %#x refuses calls for version %#x",
                         WebPGetDecoderVersion(), WEBP_DECODER_ABI_VERSION);
    buffer.colorspace = dst->channels == 4 ? MODE_RGBA : MODE_RGB;
    buffer.is_external_memory = 1;
    buffer.u.RGBA = (WebPRGBABuffer){.rgba = dst->pixels,
                                     .stride = (int)dst->stride,
                                     .size = dst->stride * (dst->height - 1) +
                                             (size_t)dst->width * dst->channels};
    WebPIDecoder *decoder = WebPINewDecoder(&buffer);
    if (!decoder)
        return refuse(VP8_STATUS_OUT_OF_MEMORY, "", error);
    enum status status = decode_pieces(decoder, parts, dst, deadline_ns, error);
    WebPIDelete(decoder);
    return status;
}

enum status webp_decode(void *state, const uint8_t *bytes, size_t length,
                        const struct image_info *info, const struct decode_request *request,
                        const struct codec_limits *limits, const struct image *dst,
                        struct error *error)
{
    struct webp_parts parts;
    WebPBitstreamFeatures canvas, frame;
    (void)state, (void)request; /* the file alone determines the channels */
    if (find_parts(bytes, length, limits, &parts, error) != STATUS_OK ||
        read_features(bytes, length, &parts, &canvas, &frame, error) != STATUS_OK)
        return error->status;
    if ((uint32_t)canvas.width != dst->width || (uint32_t)canvas.height != dst->height)
        return error_set(error, STATUS_INTERNAL, /* uncovered: net */
                         "the WebP is no longer the probed file (%u x %u pixels)", dst->width,
                         dst->height);
    /* If an allocation for lossless pixels or for alpha fails, libwebp before 1.4.0 may free a
     * pointer that it has not set (VP8LHuffmanTablesAllocate). */
    if ((parts.vp8l || parts.alph) && !codec_has_memory(info->codec_bytes))
        return refuse(VP8_STATUS_OUT_OF_MEMORY, "", error);
    struct image place = place_frame(dst, &parts, &frame);
    enum status status = decode_image(&parts, &place, limits->deadline_ns, error);
    /* libwebp also reports corrupt data if an allocation for alpha has failed, so try once more. */
    if (status == STATUS_DECODE_FAILED && parts.alph) {
        *error = (struct error){0};
        status = decode_image(&parts, &place, limits->deadline_ns, error);
    }
    return status;
}

#endif
