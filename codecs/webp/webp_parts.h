/*
 * webp_parts.h - finds the chunks of a WebP file or of a frame of an animation (RFC 9649).
 *
 * libwebpdemux is not used, because it would allocate memory for every frame of an animation. Any
 * thread.
 */
#pragma once

#include "codecs/codec.h"

/* A part of an image: the whole file, or a frame of an animation. The pointers are into the file.
 */
struct webp_image {
    const uint8_t *bytes; /* what libwebp decodes */
    size_t length;
    const uint8_t *vp8l, *alph; /* data of the chunks with lossless pixels, and with alpha */
    size_t alph_bytes;
    bool has_pixels; /* a chunk with pixels was found; libwebp reads no alpha after it */
};

/* A frame of an animation. */
struct webp_frame {
    struct webp_image image;
    uint32_t x, y;   /* on the canvas */
    bool overwrites; /* its pixels replace those of the canvas; otherwise they are laid over them */
    bool clears;     /* before the next frame, its rectangle becomes transparent */
    uint32_t delay_ms;
};

struct webp_file {
    const uint8_t *bytes;
    size_t end;              /* of the chunks */
    unsigned flags;          /* of the VP8X chunk; 0: there is none. Metadata that the flags do not
                                announce is ignored, as in libwebp's demuxer */
    struct webp_image image; /* of a file without frames */
    uint32_t frames;         /* 0: the file is not an animation, or has no whole head of a frame */
    size_t frames_at;        /* offset of the first frame */
    bool ends_early;         /* a chunk is not complete, or the file has fewer bytes than it says */
    uint32_t plays;          /* how often the animation is shown; 0: for ever */
    const uint8_t *icc, *exif, *xmp;
    size_t icc_bytes, exif_bytes, xmp_bytes;
};

/* What webp_next_frame keeps from one frame to the next. */
struct webp_state {
    struct webp_file file;
    size_t at;                    /* offset after the last frame */
    uint32_t x, y, width, height; /* of the last frame */
    bool clears;                  /* as struct webp_frame */
    bool resets;                  /* if it clears, all of the canvas is transparent */
};

/* Fills in `file`. Errors: decode_failed, decode_limit. */
enum status webp_find_parts(const uint8_t *bytes, size_t length, uint64_t deadline_ns,
                            struct webp_file *file, struct error *error) MUST_CHECK;
/* Finds the frame with this number, at the offset *at of the file or after it, and sets *at to the
 * end of the frame. The file must have the frame. Errors: decode_failed, decode_limit. */
enum status webp_find_frame(const struct webp_file *file, size_t *at, uint32_t number,
                            uint64_t deadline_ns, struct webp_frame *frame,
                            struct error *error) MUST_CHECK;
