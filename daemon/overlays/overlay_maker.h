/*
 * overlay_maker.h - makes overlays for the cache: reads, decodes, orients and resizes images.
 *
 * It runs on the worker that plans a job. Its files, buffers and results are in the pool of input
 * files. A large decoder's memory is reserved in the caller's lane. Nothing waits for memory: if
 * there is no room now, `lack` is set and the caller tries again later.
 */
#pragma once

#include "codecs/codec.h"
#include "daemon/files/files.h"
#include "daemon/overlays/overlays.h"

struct admission;

/* What a read lacks, which others may give back. */
enum lack {
    LACKS_NOTHING,
    LACKS_FILES, /* room in the pool of input files */
    LACKS_LANE   /* heap for a decoder, in the lane of admission.h */
};

/* The usual settled_s: Linux counts file times in steps of up to 10 ms, some filesystems in steps
 * of 2 s. */
#define OVERLAY_SETTLED_S 2

struct overlay_maker {
    struct overlays *overlays;
    const struct files *files;
    struct codec_context *codec;
    const struct codec_limits *limits; /* deadline_ns is that of all decodes together */
    uint64_t bytes_max;                /* of a file */
    uint64_t settled_s; /* A file that changed later than this ago may change again within the
                           resolution of its times: no other job uses its overlay. */
    /* admission_lend and admission_end_loan, for a decoder. NULL: its memory is not bounded. */
    bool (*lend)(struct admission *admission, size_t bytes, bool *exhausted);
    void (*end_loan)(struct admission *admission, size_t bytes);
    struct admission *admission;
    size_t held;    /* bytes of the pool that the job holds; the maker counts its own */
    /* Whether `held` counts this overlay already. NULL: it counts none. */
    bool (*holds)(const void *holder, const struct overlay *overlay);
    const void *holder;
    enum lack lack; /* set if a function failed for lack of room now */
};

/* Takes a block of the pool. false: error is set, and perhaps `lack`. */
bool overlay_maker_take(struct overlay_maker *maker, size_t bytes, struct pool_block *block,
                        struct error *error);

/* All return a reference of the caller's, or NULL with an error: those of an input, and
 * over_budget. width: to which the image is resized; 0: its own size. */

/* From a file below input_root. */
struct overlay *overlay_from_path(struct overlay_maker *maker, const char *path, uint32_t width,
                                  struct error *error);
/* From the value of a key, in its own size. The bytes stay the caller's. */
struct overlay *overlay_from_key(struct overlay_maker *maker, const char *key, const uint8_t *bytes,
                                 uint64_t length, struct error *error);
/* From a text, which a codec process draws. Errors: bad_op if this program or its host cannot draw
 * it, image_too_large, and those of an input. */
struct overlay *overlay_from_text(struct overlay_maker *maker, const struct plan_text *text,
                                  struct error *error);
/* From an overlay of its own size. */
struct overlay *overlay_resized(struct overlay_maker *maker, struct overlay *whole, uint32_t width,
                                struct error *error);
