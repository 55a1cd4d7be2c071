/*
 * animation.h - the frames of an animation, composed one after the other on one canvas.
 *
 * Each frame costs only its own pixels, while codec_decode with limits.page draws all frames before
 * the page again. An animation has a codec context of its own, and with it a codec process. Any
 * thread, one at a time; the process ends with the thread that has given the first frame.
 */
#pragma once

#include "codecs/codec.h"
#include "codecs/process/process.h"
#include "codecs/png/apng.h"
#include "codecs/webp/webp_parts.h"

struct codec_animation {
    struct codec_context *context;
    const uint8_t *bytes; /* of the file; borrowed */
    size_t length;
    struct codec_limits limits; /* deadline_ns: of the next frame */
    struct image_info info;     /* of the first frame */
    uint32_t next;              /* the number of the next frame */
    uint32_t delay_ms;          /* how long the last frame is shown */
    uint32_t plays;             /* how often the animation is shown; 0: for ever */
    struct codec_task task;     /* of a codec process */
    struct webp_state webp;
    struct apng_state apng;
};

/* Reads the header of a file; bytes are borrowed until the close. Call codec_animation_close in any
 * case. Errors: those of codec_probe. A file with one frame, or of a format whose frames are not
 * composed, has no animation: see codec_is_animation. */
enum status codec_animation_open(struct codec_animation *animation, const uint8_t *bytes,
                                 size_t length, const struct codec_limits *limits,
                                 struct error *error) MUST_CHECK;
/* Whether the file has all frames of its animation, or the limits are lenient. Else *error is
 * decode_failed. */
bool codec_has_all_frames(const struct image_info *info, const struct codec_limits *limits,
                          struct error *error) MUST_CHECK;
/* Whether a file with this header has frames that codec_animation_next gives. */
bool codec_is_animation(const struct image_info *info);
/* Memory that the codec and its process need for frames besides the file and the canvas. info: of
 * the first frame. */
size_t codec_animation_bytes(const struct image_info *info);
/* Draws the next frame. canvas: RGBA with the sides of info; at first all 0, and for each frame
 * with the pixels of the one before. Errors: those of codec_decode. */
enum status codec_animation_next(struct codec_animation *animation, const struct image *canvas,
                                 struct error *error) MUST_CHECK;
/* Idempotent. Does not wait for the codec's process. */
void codec_animation_close(struct codec_animation *animation);
