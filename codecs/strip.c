#include "codecs/strip.h"

#include <stdlib.h>
#include <string.h>

#include "codecs/animation.h"
#include "codecs/codec_impl.h"

enum { RGBA = 4 };

static size_t canvas_bytes(const struct image_info *info, uint32_t width)
{
    return (size_t)width * info->height * RGBA;
}

/* Reads the header of a strip wider than SIDE_CEILING, too. */
static enum status check_size(const struct image_info *info, uint32_t count,
                              const struct codec_limits *limits, struct error *error)
{
    uint64_t width = (uint64_t)info->width * count, pixels = width * info->height;
    if (width <= limits->side_max && pixels <= limits->pixels_max)
        return STATUS_OK;
    return error_set(error, STATUS_IMAGE_TOO_LARGE,
                     "a strip of %u frames of the %s is %llu x %u pixels; at most %llu pixels and "
                     "%u per side are allowed: choose fewer frames",
                     count, format_title(info->format), (unsigned long long)width, info->height,
                     (unsigned long long)limits->pixels_max, limits->side_max);
}

enum status strip_probe(struct codec_context *context, const uint8_t *bytes, size_t length,
                        const struct codec_limits *limits, uint32_t count, struct image_info *info,
                        struct error *error)
{
    struct codec_limits own = *limits;
    own.finds_alpha |= count > 0;
    if (codec_probe(context, bytes, length, &own, info, error) != STATUS_OK)
        return error->status;
    if (count > 0 && !codec_has_all_frames(info, limits, error))
        return error->status;
    count = count < info->frames ? count : info->frames;
    if (count == 0 || !codec_is_animation(info))
        return STATUS_OK;
    if (check_size(info, count, limits, error) != STATUS_OK)
        return error->status;
    if (info->channels == 1) /* frames are composed as RGBA */
        image_info_clear_icc(info);
    info->codec_bytes = codec_animation_bytes(info) + canvas_bytes(info, info->width);
    info->strip = count;
    info->width *= count;
    info->channels = info->may_have_alpha ? 4 : 3;
    info->deep = false;
    info->orientation = 1; /* that of a frame does not fit the strip */
    return STATUS_OK;
}

/* ---- decode --------------------------------------------------------------------------------- */

/* The frame in a place of the strip. */
static uint32_t frame_at(const struct image_info *info, uint32_t place)
{
    uint64_t spaces = info->strip > 1 ? info->strip - 1 : 1;
    return (uint32_t)((place * (uint64_t)(info->frames - 1) + spaces / 2) / spaces);
}

static void put_frame(const struct image *canvas, uint32_t place, const struct image *dst)
{
    for (uint32_t y = 0; y < canvas->height; y++) {
        const uint8_t *from = canvas->pixels + y * canvas->stride;
        uint8_t *to = dst->pixels + y * dst->stride + (size_t)place * canvas->width * dst->channels;
        if (dst->channels == RGBA)
            memcpy(to, from, (size_t)canvas->width * RGBA);
        else
            for (uint32_t x = 0; x < canvas->width; x++)
                memcpy(to + 3 * (size_t)x, from + RGBA * (size_t)x, 3);
    }
}

static enum status draw(struct codec_animation *animation, const struct image_info *info,
                        const struct image *canvas, const struct image *dst, struct error *error)
{
    for (uint32_t place = 0; place < info->strip; place++) {
        while (animation->next <= frame_at(info, place))
            if (codec_animation_next(animation, canvas, error) != STATUS_OK)
                return error->status;
        put_frame(canvas, place, dst);
    }
    return STATUS_OK;
}

/* Whether a codec process says the same of the file again. */
static bool is_same(const struct image_info *frame, const struct image_info *strip,
                    struct error *error)
{
    if (frame->width == strip->width / strip->strip && frame->height == strip->height &&
        frame->frames == strip->frames)
        return true;
    return error_fail(error, STATUS_DECODE_FAILED, /* uncovered: promise */
                      "the frames of the %s are not those of its header",
                      format_title(strip->format));
}

static enum status decode(const uint8_t *bytes, size_t length, const struct image_info *info,
                          const struct codec_limits *limits, const struct image *dst,
                          struct error *error)
{
    struct codec_limits own = *limits;
    struct codec_animation animation;
    struct image canvas = {.width = info->width / info->strip,
                           .height = info->height,
                           .channels = RGBA,
                           .stride = (size_t)info->width / info->strip * RGBA};
    own.metadata = 0;
    if (codec_animation_open(&animation, bytes, length, &own, error) == STATUS_OK &&
        is_same(&animation.info, info, error)) {
        canvas.pixels = calloc(1, canvas_bytes(info, canvas.width));
        if (canvas.pixels)
            draw(&animation, info, &canvas, dst, error);
        else /* uncovered: memory (tests/coverage/reasons.txt) */
            error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a frame");
    }
    codec_animation_close(&animation);
    free(canvas.pixels);
    return error->status;
}

enum status strip_decode(struct codec_context *context, const uint8_t *bytes, size_t length,
                         const struct image_info *info, const struct decode_request *request,
                         const struct codec_limits *limits, const struct image *dst,
                         struct error *error)
{
    return info->strip > 0
               ? decode(bytes, length, info, limits, dst, error)
               : codec_decode(context, bytes, length, info, request, limits, dst, error);
}
