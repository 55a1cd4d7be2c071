/*
 * webp_decode.c - reads WebPs with libwebp.
 *
 * Files are given to libwebp in pieces, and the deadline is checked before each piece. A page of an
 * animation is what a browser shows after its frame: the frames are drawn on a canvas that is
 * transparent at first, with the bits of libwebp's WebPAnimDecoder.
 */
#ifdef GPUIMGD_WEBP

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <webp/decode.h>

#include "codecs/animation.h"
#include "codecs/webp/vp8l.h"
#include "codecs/webp/webp_blend.h"
#include "codecs/webp/webp_impl.h"
#include "codecs/webp/webp_parts.h"

/* Pixels between two checks of the deadline, on average over the file. */
#define PIXELS_PER_CHECK (1u << 20)

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

/* ---- the page ---- */

/* The size of an image. */
struct area {
    uint32_t width, height;
};

/* What a page needs of the frames before it. */
struct page {
    struct area canvas;
    uint32_t first;     /* the first frame to be drawn, on a transparent canvas */
    bool opaque;        /* all of the page is */
    size_t codec_bytes; /* to draw one of the frames */
};

/* Returns the number of groups of Huffman codes in the image or its alpha (vp8l.h). libwebp reads a
 * lossless image beyond the end of its chunk, to the end of the bytes that it is given. */
static size_t count_groups(const struct webp_image *image, struct area area, uint64_t deadline_ns)
{
    enum { vp8l_header = 5, alph_header = 1, method_mask = 3, compressed = 1 };
    size_t vp8l_bytes = image->vp8l ? (size_t)(image->bytes + image->length - image->vp8l) : 0;
    if (vp8l_bytes > vp8l_header)
        return vp8l_groups(image->vp8l + vp8l_header, vp8l_bytes - vp8l_header, area.width,
                           area.height, deadline_ns);
    if (image->alph && image->alph_bytes > alph_header &&
        (image->alph[0] & method_mask) == compressed)
        return vp8l_groups(image->alph + alph_header, image->alph_bytes - alph_header, area.width,
                           area.height, deadline_ns);
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

/* libwebp's encoder makes at most a group for each of its tiles. */
size_t webp_decoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                          const struct encoder_settings *settings)
{
    enum { lossy = 1, tiles_max = 2600 };
    const WebPBitstreamFeatures frame = {
        .width = (int)width, .height = (int)height, .has_alpha = channels == 4, .format = lossy};
    int effort = settings->effort, tile_bits = effort < 5 ? 2 * (7 - effort) : 4;
    size_t tiles = ((size_t)width * height >> tile_bits) + 1;
    return decoder_bytes(&frame, tiles < tiles_max ? tiles : tiles_max);
}

static struct area area_of(const WebPBitstreamFeatures *features)
{
    return (struct area){(uint32_t)features->width, (uint32_t)features->height};
}

/* Whether the frame fills its canvas. If not, the image has transparent pixels around the frame. */
static bool fills(struct area area, struct area canvas)
{
    return area.width == canvas.width && area.height == canvas.height;
}

/* Adds a frame to the plan. Before it, `page` describes the canvas on which it is drawn, and then
 * its page. next: the same for the next frame. */
static void plan_frame(const struct webp_frame *frame, const WebPBitstreamFeatures *features,
                       uint32_t number, size_t bytes, struct page *page, struct page *next)
{
    struct area area = area_of(features);
    bool is_all = fills(area, page->canvas), is_opaque = !features->has_alpha;
    bool replaces = is_opaque || frame->overwrites;
    if (is_all && replaces)
        page->first = number;
    if (page->first == number)
        page->codec_bytes = 0;
    page->codec_bytes = bytes > page->codec_bytes ? bytes : page->codec_bytes;
    page->opaque = is_all && replaces ? is_opaque : page->opaque && (is_opaque || !replaces);
    *next = *page;
    if (!frame->clears)
        return;
    next->opaque = false;
    if (is_all || page->first == number)
        next->first = number + 1;
}

/* Finds the next frame and reads its features. */
static enum status read_frame(const struct webp_file *file, struct area canvas, size_t *at,
                              uint32_t number, uint64_t deadline_ns, struct webp_frame *frame,
                              WebPBitstreamFeatures *features, struct error *error)
{
    char where[32];
    if (webp_find_frame(file, at, number, deadline_ns, frame, error) != STATUS_OK)
        return error->status;
    if (codec_late(deadline_ns))
        return error_set(error, STATUS_DECODE_LIMIT,
                         "the deadline for decoding passed in frame %u of the WebP", number);
    VP8StatusCode code = WebPGetFeatures(frame->image.bytes, frame->image.length, features);
    snprintf(where, sizeof where, "in frame %u", number);
    if (code != VP8_STATUS_OK)
        return refuse(code, where, error);
    if (frame->x + (uint32_t)features->width > canvas.width ||
        frame->y + (uint32_t)features->height > canvas.height)
        return error_set(error, STATUS_DECODE_FAILED, "frame %u of the WebP is not on its canvas",
                         number);
    return STATUS_OK;
}

static enum status plan_frames(const struct webp_file *file, const struct codec_limits *limits,
                               struct page *page, struct error *error)
{
    struct webp_frame frame;
    WebPBitstreamFeatures features;
    struct page next = *page;
    size_t at = file->frames_at;
    for (uint32_t i = 0; i < file->frames && i <= limits->page; i++) {
        if (read_frame(file, page->canvas, &at, i, limits->deadline_ns, &frame, &features, error) !=
            STATUS_OK)
            return error->status;
        size_t groups = count_groups(&frame.image, area_of(&features), limits->deadline_ns);
        size_t blended = i > 0 && features.has_alpha && !frame.overwrites
                             ? webp_blend_bytes(area_of(&features).width, area_of(&features).height)
                             : 0;
        *page = next;
        plan_frame(&frame, &features, i, decoder_bytes(&features, groups) + blended, page, &next);
    }
    return STATUS_OK;
}

/* Reads the size of the canvas (the whole image of an animation), and plans the page. */
static enum status plan_page(const struct webp_file *file, const struct codec_limits *limits,
                             struct page *page, struct error *error)
{
    WebPBitstreamFeatures canvas;
    VP8StatusCode code = WebPGetFeatures(file->image.bytes, file->image.length, &canvas);
    if (code != VP8_STATUS_OK)
        return refuse(code, "in its header", error);
    *page = (struct page){.canvas = area_of(&canvas)};
    if (file->frames > 0)
        return plan_frames(file, limits, page, error);
    if (canvas.has_animation)
        return error_set(error, STATUS_DECODE_FAILED,
                         "the WebP's data ends before its first frame is complete");
    size_t groups = count_groups(&file->image, page->canvas, limits->deadline_ns);
    page->opaque = !canvas.has_alpha;
    page->codec_bytes = decoder_bytes(&canvas, groups);
    return STATUS_OK;
}

/* Whether a frame may have transparent pixels. A damaged one is reported when it is reached. */
static bool may_have_alpha(const struct webp_file *file, struct area canvas, uint64_t deadline_ns)
{
    struct webp_frame frame;
    WebPBitstreamFeatures features;
    struct page page, next = {.canvas = canvas};
    struct error ignored = {0};
    size_t at = file->frames_at;
    for (uint32_t i = 0; i < file->frames; i++) {
        if (read_frame(file, canvas, &at, i, deadline_ns, &frame, &features, &ignored) != STATUS_OK)
            return true;
        page = next;
        plan_frame(&frame, &features, i, 0, &page, &next);
        if (!page.opaque)
            return true;
    }
    return false;
}

/* ---- probe ---- */

static enum status read_metadata(const struct webp_file *file, const struct codec_limits *limits,
                                 struct image_info *info, struct error *error)
{
    if (file->exif)
        info->orientation = exif_orientation(file->exif, file->exif_bytes);
    if ((file->icc && !codec_keep_icc(file->icc, file->icc_bytes, info)) ||
        (file->exif && !codec_keep_exif(limits, file->exif, file->exif_bytes, info)) ||
        (file->xmp && !codec_keep_xmp(limits, file->xmp, file->xmp_bytes, info)))
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the metadata of a WebP");
    codec_fit_icc(info, false); /* the format has no gray */
    return STATUS_OK;
}

enum status webp_probe(void *state, const uint8_t *bytes, size_t length,
                       const struct codec_limits *limits, struct image_info *info,
                       struct error *error)
{
    struct webp_file file;
    struct page page;
    (void)state;
    if (webp_find_parts(bytes, length, limits->deadline_ns, &file, error) != STATUS_OK ||
        plan_page(&file, limits, &page, error) != STATUS_OK ||
        codec_check_size("WebP", page.canvas.width, page.canvas.height, limits, error) != STATUS_OK)
        return error->status;
    info->width = page.canvas.width;
    info->height = page.canvas.height;
    info->channels = page.opaque ? 3 : 4;
    info->frames = file.frames > 0 ? file.frames : 1;
    info->ends_early = file.frames > 0 && file.ends_early;
    info->may_have_alpha =
        limits->finds_alpha && may_have_alpha(&file, page.canvas, limits->deadline_ns);
    info->codec_bytes = page.codec_bytes;
    if (codec_late(limits->deadline_ns)) /* then count_groups may have returned 0 */
        return error_set(error, STATUS_DECODE_LIMIT,
                         "the deadline for decoding passed in its header");
    return read_metadata(&file, limits, info, error);
}

/* ---- decode ---- */

static enum status decode_pieces(WebPIDecoder *decoder, const struct webp_image *image,
                                 const struct image *dst, uint64_t deadline_ns, struct error *error)
{
    uint64_t pixels = (uint64_t)dst->width * dst->height;
    size_t piece = image->length / (size_t)(pixels / PIXELS_PER_CHECK + 1) + 1, at = 0;
    VP8StatusCode code = VP8_STATUS_SUSPENDED;
    if (piece > CODEC_BYTES_PER_CHECK)
        piece = CODEC_BYTES_PER_CHECK;
    while (code == VP8_STATUS_SUSPENDED && at < image->length) {
        size_t left = image->length - at;
        at += left < piece ? left : piece;
        if (codec_late(deadline_ns))
            return error_set(error, STATUS_DECODE_LIMIT,
                             "the deadline for decoding passed before byte %zu of the WebP", at);
        code = WebPIUpdate(decoder, image->bytes, at);
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

static enum status decode_once(const struct webp_image *image, const struct image *dst,
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
    enum status status = decode_pieces(decoder, image, dst, deadline_ns, error);
    WebPIDelete(decoder);
    return status;
}

static enum status decode_image(const struct webp_image *image, const struct image_info *info,
                                const struct image *dst, uint64_t deadline_ns, struct error *error)
{
    /* If an allocation for lossless pixels or for alpha fails, libwebp before 1.4.0 may free a
     * pointer that it has not set (VP8LHuffmanTablesAllocate). */
    if ((image->vp8l || image->alph) && !codec_has_memory(info->codec_bytes))
        return refuse(VP8_STATUS_OUT_OF_MEMORY, "", error);
    enum status status = decode_once(image, dst, deadline_ns, error);
    /* libwebp also reports corrupt data if an allocation for alpha has failed, so try once more. */
    if (status == STATUS_DECODE_FAILED && image->alph) {
        *error = (struct error){0};
        status = decode_once(image, dst, deadline_ns, error);
    }
    return status;
}

/* A rectangle of dst. */
static struct image view_of(const struct image *dst, uint32_t x, uint32_t y, struct area area)
{
    struct image view = *dst;
    view.width = area.width;
    view.height = area.height;
    view.pixels += y * dst->stride + (size_t)x * dst->channels;
    return view;
}

/* Makes an image transparent black, as WebPAnimDecoder does. */
static void clear(const struct image *image)
{
    for (uint32_t y = 0; y < image->height; y++)
        memset(image->pixels + y * image->stride, 0, (size_t)image->width * image->channels);
}

/* Decodes a frame with alpha and lays it over the canvas. cleared: the place of the frame before it
 * if that was cleared; all other pixels of the canvas count as drawn. */
static enum status blend_frame(const struct webp_image *image, const struct image_info *info,
                               const struct image *place, const struct image *cleared,
                               uint64_t deadline_ns, struct error *error)
{
    struct image over = {malloc(webp_blend_bytes(place->width, place->height)), place->width,
                         place->height, 4, image_stride(place->width, 4)};
    if (!over.pixels)
        return refuse(VP8_STATUS_OUT_OF_MEMORY, "", error);
    struct image_info rest = *info; /* without the memory that is allocated now */
    rest.codec_bytes -= webp_blend_bytes(place->width, place->height);
    enum status status = decode_image(image, &rest, &over, deadline_ns, error);
    if (status == STATUS_OK)
        webp_blend(&over, place, cleared);
    free(over.pixels);
    return status;
}

static enum status draw_frames(const struct webp_file *file, const struct page *page,
                               const struct image_info *info, const struct codec_limits *limits,
                               const struct image *dst, struct error *error)
{
    struct webp_frame frame;
    WebPBitstreamFeatures features;
    struct image cleared = {.pixels = NULL};
    size_t at = file->frames_at;
    for (uint32_t i = 0; i <= limits->page; i++) {
        if (read_frame(file, page->canvas, &at, i, limits->deadline_ns, &frame, &features, error) !=
            STATUS_OK)
            return error->status;
        if (i < page->first)
            continue;
        struct image place = view_of(dst, frame.x, frame.y, area_of(&features));
        bool is_shown = i == limits->page || !frame.clears;
        bool blends = i > page->first && features.has_alpha && !frame.overwrites;
        if (i == page->first && !fills(area_of(&features), page->canvas))
            clear(dst);
        enum status status =
            !is_shown ? STATUS_OK
            : blends ? blend_frame(&frame.image, info, &place, &cleared, limits->deadline_ns, error)
                     : decode_image(&frame.image, info, &place, limits->deadline_ns, error);
        if (status != STATUS_OK)
            return status;
        cleared = (struct image){.pixels = NULL};
        if (!is_shown) {
            clear(&place);
            cleared = place;
        }
    }
    return STATUS_OK;
}

enum status webp_decode(void *state, const uint8_t *bytes, size_t length,
                        const struct image_info *info, const struct decode_request *request,
                        const struct codec_limits *limits, const struct image *dst,
                        struct error *error)
{
    struct webp_file file;
    struct page page;
    (void)state, (void)request; /* the file alone determines the channels */
    if (webp_find_parts(bytes, length, limits->deadline_ns, &file, error) != STATUS_OK ||
        plan_page(&file, limits, &page, error) != STATUS_OK)
        return error->status;
    if (page.canvas.width != dst->width || page.canvas.height != dst->height ||
        (page.opaque ? 3 : 4) != dst->channels)
        return error_set(error, STATUS_INTERNAL, /* uncovered: net */
                         "the WebP is no longer the probed file (%u x %u pixels)", dst->width,
                         dst->height);
    return file.frames > 0 ? draw_frames(&file, &page, info, limits, dst, error)
                           : decode_image(&file.image, info, dst, limits->deadline_ns, error);
}

/* ---- all frames ---- */

/* Draws a frame over the canvas. A frame that resets it is a key frame of libwebp. info: with the
 * memory that this frame needs. */
static enum status draw_next(struct codec_animation *animation, const struct image_info *info,
                             const struct webp_frame *frame, const WebPBitstreamFeatures *features,
                             const struct image *canvas, struct error *error)
{
    struct webp_state *state = &animation->webp;
    struct area area = area_of(features), all = {canvas->width, canvas->height};
    struct image last =
        view_of(canvas, state->x, state->y, (struct area){state->width, state->height});
    struct image cleared = {.pixels = NULL};
    bool is_key = animation->next == 0 || (state->clears && state->resets) ||
                  (fills(area, all) && (!features->has_alpha || frame->overwrites));
    if (state->clears) {
        clear(&last);
        cleared = last;
    }
    if (is_key)
        clear(canvas);
    struct image place = view_of(canvas, frame->x, frame->y, area);
    *state =
        (struct webp_state){state->file, state->at,   frame->x,      frame->y,
                            area.width,  area.height, frame->clears, is_key || fills(area, all)};
    uint64_t deadline_ns = animation->limits.deadline_ns;
    return !is_key && features->has_alpha && !frame->overwrites
               ? blend_frame(&frame->image, info, &place, &cleared, deadline_ns, error)
               : decode_image(&frame->image, info, &place, deadline_ns, error);
}

enum status webp_next_frame(void *unused, struct codec_animation *animation,
                            const struct image *canvas, struct error *error)
{
    struct webp_state *state = &animation->webp;
    uint64_t deadline_ns = animation->limits.deadline_ns;
    struct area area = {canvas->width, canvas->height};
    struct webp_frame frame;
    WebPBitstreamFeatures features;
    (void)unused;
    if (animation->next == 0) {
        if (webp_find_parts(animation->bytes, animation->length, deadline_ns, &state->file,
                            error) != STATUS_OK)
            return error->status;
        state->at = state->file.frames_at;
        animation->plays = state->file.plays;
    }
    if (read_frame(&state->file, area, &state->at, animation->next, deadline_ns, &frame, &features,
                   error) != STATUS_OK)
        return error->status;
    size_t groups = count_groups(&frame.image, area_of(&features), deadline_ns);
    size_t needed = decoder_bytes(&features, groups) + image_bytes(area.width, area.height, 4);
    if (needed > codec_animation_bytes(&animation->info))
        return error_set(error, STATUS_DECODE_LIMIT,
                         "frame %u of the WebP needs %zu bytes of memory; at most %zu are allowed",
                         animation->next, needed, codec_animation_bytes(&animation->info));
    animation->delay_ms = frame.delay_ms;
    struct image_info info = animation->info;
    info.codec_bytes = needed;
    return draw_next(animation, &info, &frame, &features, canvas, error);
}

#endif
