/*
 * codec_impl.h - what a codec is inside codecs/: a row of the table, and what all rows share.
 *
 * A new format is one file with its `const struct codec` and one line in codec.c. The functions of
 * a row get the worker's state of that format, a block of state_bytes that was zero when it was
 * new, and otherwise the arguments of their counterparts in codec.h. Library objects live no
 * longer than a call: what libjpeg keeps from one image to the next (quantisation and Huffman
 * tables) would let a file without tables decode with those of another user's file, and creating
 * an object costs a microsecond.
 */
#ifndef GPUIMGD_CODECS_CODEC_IMPL_H
#define GPUIMGD_CODECS_CODEC_IMPL_H

#include "codecs/codec.h"

/* Rows between two looks at the clock: some microseconds of work for small rows, a millisecond
 * for rows of SIDE_CEILING. */
#define CODEC_ROWS_PER_CHECK 16
/* Bytes of a file between two looks at the clock: some milliseconds where they are nothing but the
 * smallest segments or chunks, of which a file may be full before and behind its pixels. */
#define CODEC_BYTES_PER_CHECK (256 * KIB)

struct codec {
    const char *name;            /* in jobs and results */
    const char *const *suffixes; /* with the dot, lower case, NULL-terminated */
    bool lossless;               /* pixels come back as they were */
    const char *magic;           /* the first bytes of every file */
    size_t magic_bytes;
    bool has_alpha;
    size_t state_bytes;
    enum status (*probe)(void *state, const uint8_t *bytes, size_t length,
                         const struct codec_limits *limits, struct image_info *info,
                         struct error *error);
    enum status (*decode)(void *state, const uint8_t *bytes, size_t length,
                          const struct image_info *info, const struct decode_request *request,
                          const struct codec_limits *limits, const struct image *dst,
                          struct error *error);
    enum status (*encode)(void *state, const struct image *src,
                          const struct encode_request *request, struct codec_sink *sink,
                          struct error *error);
    size_t (*encoded_bytes)(uint32_t width, uint32_t height, uint32_t channels, int quality);
    void (*close)(void *state); /* frees what the state keeps; NULL: nothing */
};

extern const struct codec codec_jpeg;
extern const struct codec codec_png;

/* Whether CLOCK_MONOTONIC is past a deadline; 0 is never past. */
bool codec_late(uint64_t deadline_ns);

/* Sides and pixels against the limits; `what` is the name for people, such as "JPEG". */
enum status codec_check_size(const char *what, uint32_t width, uint32_t height,
                             const struct codec_limits *limits, struct error *error) MUST_CHECK;

/* What a file is that no codec reads, with its article; NULL if it is not known (foreign.c). */
const char *codec_foreign_name(const uint8_t *bytes, size_t length);

/* Whether these are an ICC profile for RGB data: size field, signature and colour space. Only
 * such are copied to outputs. */
bool codec_icc_is_rgb(const uint8_t *icc, size_t bytes);

#endif
