#include "daemon/sets/frame_source.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "codecs/avif/avif_movie.h"

/* ---- the file ------------------------------------------------------------------------------- */

static enum status read_file(int fd, uint8_t *to, size_t bytes, struct error *error)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t count = pread(fd, to + at, bytes - at, (off_t)at);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return error_set(error, STATUS_INPUT_UNREADABLE, "the input cannot be read: %s",
                             count < 0 ? strerror(errno) : "it has become shorter");
        at += (size_t)count;
    }
    return STATUS_OK;
}

static size_t pixels_of(const struct frame_source *source)
{
    return (size_t)source->animation.info.width * source->animation.info.height;
}

static uint8_t *canvas_of(const struct frame_source *source)
{
    return (uint8_t *)source->block.memory + buffer_align(source->file_bytes + 1);
}

size_t frame_source_canvas_bytes(const struct image_info *info, size_t file_bytes)
{
    return buffer_align(file_bytes + 1) + (size_t)info->width * info->height * 7;
}

/* The header is read from a first block with the file alone. */
static bool take_canvas(struct frame_source *source, frame_room_fn *room, void *context,
                        struct error *error)
{
    struct pool_block whole = {0};
    const struct image_info *info = &source->animation.info;
    size_t pixels = pixels_of(source), at = buffer_align(source->file_bytes + 1);
    if (!room(context, frame_source_canvas_bytes(info, source->file_bytes),
              codec_animation_bytes(info), &whole, error))
        return false;
    memcpy(whole.memory, source->block.memory, source->file_bytes);
    memset((uint8_t *)whole.memory + at, 0, pixels * 4);
    pool_give(source->pool, &source->block);
    source->block = whole;
    source->animation.bytes = whole.memory;
    return true;
}

bool frame_source_takes(const struct image_info *info, const struct codec_limits *limits,
                        bool keeps_alpha, struct error *error)
{
    if (info->frames > 1 && !codec_is_animation(info))
        error_set(error, STATUS_BAD_JOB,
                  "frames is \"all\", but of %s with %u %ss only one can be read%s",
                  info->format->noun, info->frames, format_part(info->format),
                  info->format->first_only ? "" : ", which page names");
    return error->status == STATUS_OK && codec_has_all_frames(info, limits, error) &&
           (!keeps_alpha || avif_movie_takes(info->frames, error));
}

void frame_source_describe(struct image_info *info, bool keeps_alpha)
{
    if (!codec_is_animation(info))
        return;
    if (info->channels == 1 || !image_info_icc_is_rgb(info))
        image_info_clear_icc(info);
    info->channels = info->channels == 4 || (keeps_alpha && info->may_have_alpha) ? 4 : 3;
    info->deep = false;
    info->orientation = 1;
}

static bool open_animation(struct frame_source *source, const struct codec_limits *limits,
                           struct error *error)
{
    return codec_animation_open(&source->animation, source->block.memory, source->file_bytes,
                                limits, error) == STATUS_OK &&
           frame_source_takes(&source->animation.info, limits, source->keeps_alpha, error);
}

bool frame_source_open(struct frame_source *source, int fd, size_t file_bytes,
                       const struct codec_limits *limits, frame_room_fn *room, void *context,
                       struct error *error)
{
    bool is_read =
        source->animation.context != NULL; /* by a call that found no room for a canvas */
    source->file_bytes = file_bytes;
    if (!is_read)
        is_read = room(context, file_bytes + 1, 0, &source->block, error) &&
                  read_file(fd, source->block.memory, file_bytes, error) == STATUS_OK &&
                  open_animation(source, limits, error);
    source->is_open = is_read && (!codec_is_animation(&source->animation.info) ||
                                  take_canvas(source, room, context, error));
    return source->is_open;
}

/* ---- frames --------------------------------------------------------------------------------- */

enum status frame_source_compose(struct frame_source *source, uint64_t deadline_ns,
                                 struct error *error)
{
    struct codec_animation *animation = &source->animation;
    const struct image canvas = {canvas_of(source), animation->info.width, animation->info.height,
                                 4, (size_t)animation->info.width * 4};
    animation->limits.deadline_ns = deadline_ns;
    if (!source->has_frame && codec_is_animation(&animation->info) &&
        codec_animation_next(animation, &canvas, error) != STATUS_OK)
        return error->status;
    source->has_frame = true;
    return STATUS_OK;
}

/* The frame, without alpha if it is opaque and need not be like the others. */
static struct image image_of(const struct frame_source *source)
{
    const struct image_info *info = &source->animation.info;
    size_t pixels = pixels_of(source);
    uint8_t *canvas = canvas_of(source), *to = canvas + pixels * 4, *opaque = to;
    bool keeps = source->keeps_alpha && source->animation.info.may_have_alpha;
    for (size_t i = 0; i < pixels; i++)
        if (keeps || canvas[4 * i + 3] != UINT8_MAX)
            return (struct image){canvas, info->width, info->height, 4, (size_t)info->width * 4};
    for (size_t i = 0; i < pixels; i++, to += 3)
        memcpy(to, canvas + 4 * i, 3);
    return (struct image){opaque, info->width, info->height, 3, (size_t)info->width * 3};
}

size_t frame_source_bytes(const struct frame_source *source)
{
    const struct image_info *info = &source->animation.info;
    const struct encoder_settings settings = {.compression = 0};
    if (!codec_is_animation(&source->animation.info))
        return source->file_bytes;
    return codec_encoded_bytes(&formats[FORMAT_png], info->width, info->height, 4, &settings,
                               info->icc_bytes) +
           4096;
}

static enum status fail_flush(struct codec_sink *sink, size_t used, struct error *error)
{
    if (used <= sink->capacity && sink->total == 0)
        return STATUS_OK; /* the only flush: the file is complete in the buffer */
    return error_set(error, STATUS_INTERNAL, "a frame has more bytes than its room");
}

size_t frame_source_give(struct frame_source *source, uint8_t *to, struct error *error)
{
    const struct image_info *info = &source->animation.info;
    source->has_frame = false;
    if (!codec_is_animation(&source->animation.info)) {
        memcpy(to, source->block.memory, source->file_bytes);
        return source->file_bytes;
    }
    struct image image = image_of(source);
    struct codec_sink sink = {
        .buffer = to, .capacity = frame_source_bytes(source), .flush = fail_flush};
    const struct encode_request request = {.format = &formats[FORMAT_png],
                                           .encoder = {.compression = 0},
                                           .icc = image_info_icc_is_rgb(info) ? info->icc : NULL,
                                           .icc_bytes = info->icc_bytes};
    enum status status = codec_encode(source->animation.context, &image, &request, &sink, error);
    return status == STATUS_OK ? (size_t)sink.total : 0;
}

void frame_source_close(struct frame_source *source)
{
    codec_animation_close(&source->animation);
    if (source->block.memory)
        pool_give(source->pool, &source->block);
    *source = (struct frame_source){.pool = source->pool, .keeps_alpha = source->keeps_alpha};
}
