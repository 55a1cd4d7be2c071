#include "codecs/animation.h"

#include "codecs/codec_impl.h"

enum status codec_animation_open(struct codec_animation *animation, const uint8_t *bytes,
                                 size_t length, const struct codec_limits *limits,
                                 struct error *error)
{
    *animation = (struct codec_animation){
        .context = codec_context_create(), .bytes = bytes, .length = length, .limits = *limits};
    if (!animation->context) /* uncovered: memory (tests/coverage/reasons.txt) */
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a codec");
    animation->limits.page = 0;
    animation->limits.finds_alpha = true;
    return codec_probe(animation->context, bytes, length, &animation->limits, &animation->info,
                       error);
}

bool codec_has_all_frames(const struct image_info *info, const struct codec_limits *limits,
                          struct error *error)
{
    return !info->ends_early || limits->lenient ||
           error_fail(error, STATUS_DECODE_FAILED,
                      "the %s is truncated or damaged: after the first %u of its frames, neither "
                      "another frame nor its end can be read; lenient takes those frames",
                      format_title(info->format), info->frames);
}

bool codec_is_animation(const struct image_info *info)
{
    return (info->frames > 1 || info->frames_apart) && codec_composes(info->format);
}

size_t codec_animation_bytes(const struct image_info *info)
{
    size_t canvas = (size_t)info->width * info->height * 4;
    /* In a GIF, two canvases. In a WebP, a lossless frame with its tables, and a copy over it. In a
     * PNG, a frame and what was under the frame before it. */
    return CODEC_LIBRARIES_BYTES + info->codec_bytes + 3 * canvas + 16 * MIB;
}

enum status codec_animation_next(struct codec_animation *animation, const struct image *canvas,
                                 struct error *error)
{
    const struct codec_caller *caller = animation->limits.caller;
    if (caller && caller->is_gone(caller))
        return error_set(error, STATUS_CANCELLED, "the job ended before frame %u of its input",
                         animation->next);
    enum status status = codec_next_frame(animation->context, animation, canvas, error);
    animation->next += status == STATUS_OK;
    return status;
}

void codec_animation_close(struct codec_animation *animation)
{
    if (!animation->context)
        return;
    codec_context_leave(animation->context);
    codec_context_destroy(animation->context);
    apng_clear(&animation->apng);
    image_info_clear(&animation->info);
    animation->context = NULL;
}
