/*
 * codec_impl.h - the interface that each codec implements, and the helpers that codecs share.
 *
 * A new format is one row in conf/formats.def and one file here that defines its codec_NAME. The
 * functions of a codec get the worker's state of that format, a block of state_bytes that was zero
 * when it was new, and otherwise the arguments of their counterparts in codec.h. Library objects
 * live no longer than a call: what libjpeg keeps from one image to the next (quantisation and
 * Huffman tables) would let a file without tables decode with those of another user's file, and
 * creating an object costs a microsecond.
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
    size_t state_bytes;
    /* Whether the file has this format, by its first bytes and, in a container such as RIFF, by
     * its first chunks. */
    bool (*sniff)(const uint8_t *bytes, size_t length);
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
    size_t (*encoded_bytes)(uint32_t width, uint32_t height, uint32_t channels,
                            const struct encoder_settings *settings);
    /* Memory of an encoder that holds the whole image; NULL: it holds a few rows. */
    size_t (*encoder_bytes)(uint32_t width, uint32_t height, uint32_t channels,
                            const struct encoder_settings *settings);
    void (*close)(void *state); /* frees what the state keeps; NULL: nothing */
};

#define FORMAT(name, ...) extern const struct codec codec_##name;
#include "conf/formats.def"

/* Whether the file has these bytes at this place. */
bool codec_has_bytes(const uint8_t *file, size_t length, size_t at, const char *bytes,
                     size_t count);

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
