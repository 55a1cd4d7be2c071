/*
 * frame_source.h - gives the frames of an animation as PNGs that are not compressed.
 *
 * The frames are composed one after the other on one canvas. Each is then an image like the member
 * of an archive: any worker reads it, while the next one is composed. An image that is no animation
 * is given as its own file.
 */
#pragma once

#include "codecs/animation.h"
#include "gpu/engine/pool.h"

struct frame_source {
    struct codec_animation animation;
    bool is_open, has_frame; /* the canvas has a frame that was not given */
    bool keeps_alpha;        /* all frames have alpha if one may have it, or none has it */
    struct pool *pool;       /* borrowed */
    struct pool_block block; /* the file, then the canvas, then a copy of it without alpha */
    size_t file_bytes;
};

/* Whether all images of a file with this header can be read, and written to an AVIF sequence if
 * there is one: then keeps_alpha is true. false: *error is set. */
bool frame_source_takes(const struct image_info *info, const struct codec_limits *limits,
                        bool keeps_alpha, struct error *error);
/* Makes the header of an animation that of an image that frame_source_give gives. keeps_alpha: as
 * in the source. Of other files, it changes nothing. */
void frame_source_describe(struct image_info *info, bool keeps_alpha);
/* The block for the file, the canvas, and its copy without alpha. */
size_t frame_source_canvas_bytes(const struct image_info *info, size_t file_bytes);
/* Takes a block of the pool, and reserves heap of the codec until the source is closed. false:
 * there is no room now, or *error is set. */
typedef bool frame_room_fn(void *context, size_t bytes, size_t heap_bytes, struct pool_block *block,
                           struct error *error);
/* Reads the file, whose descriptor is borrowed. false: as frame_room_fn; the next call goes on.
 * Call frame_source_close in any case. Errors: also those of codec_animation_open, and bad_job for
 * a file with several images that are not composed. */
bool frame_source_open(struct frame_source *source, int fd, size_t file_bytes,
                       const struct codec_limits *limits, frame_room_fn *room, void *context,
                       struct error *error);
/* Composes the next frame, unless one waits. */
enum status frame_source_compose(struct frame_source *source, uint64_t deadline_ns,
                                 struct error *error) MUST_CHECK;
/* Room for the frame as a file. */
size_t frame_source_bytes(const struct frame_source *source);
/* Writes the frame to a block of frame_source_bytes. Returns its bytes; 0: *error is set. */
size_t frame_source_give(struct frame_source *source, uint8_t *to, struct error *error);
void frame_source_close(struct frame_source *source); /* idempotent */
