/*
 * codec_impl.h - the interface that each codec implements, and the helpers that codecs share.
 *
 * A new format is one row in conf/formats.def and one file here that defines its codec_NAME. The
 * functions of a codec have the arguments of their counterparts in codec.h. Instead of the context
 * they get the worker's state for this format: a block of state_bytes, zero at first.
 *
 * Library objects live only for one call. libjpeg would keep quantisation and Huffman tables for
 * the next image, and a file without tables could use those of another user's file. Creating an
 * object costs a microsecond.
 */
#pragma once

#include <setjmp.h>
#include <string.h>

#include "codecs/codec.h"

/* Fails with a status and a message: sets state->error and jumps to the setjmp of state->jump. */
#define codec_fail(state, ...)                                                                     \
    (error_set((state)->error, __VA_ARGS__), longjmp((state)->jump, 1))

/* Rows between two checks of the deadline: at most a millisecond of work. */
#define CODEC_ROWS_PER_CHECK 16
/* Bytes of a file between two checks: some milliseconds if a hostile file is full of the smallest
 * segments or chunks. */
#define CODEC_BYTES_PER_CHECK (256 * KIB)

typedef enum status codec_probe_fn(void *state, const uint8_t *bytes, size_t length,
                                   const struct codec_limits *limits, struct image_info *info,
                                   struct error *error);
typedef enum status codec_decode_fn(void *state, const uint8_t *bytes, size_t length,
                                    const struct image_info *info,
                                    const struct decode_request *request,
                                    const struct codec_limits *limits, const struct image *dst,
                                    struct error *error);
typedef enum status codec_encode_fn(void *state, const struct image *src,
                                    const struct encode_request *request, struct codec_sink *sink,
                                    struct error *error);

typedef bool codec_frame_fn(void *state, const uint8_t *bytes, size_t length,
                            const struct codec_limits *limits, struct jpeg_frame *frame);

struct codec {
    size_t state_bytes;
    /* Returns true if the file has this format, by its first bytes and, in a RIFF container, by its
     * first chunks. */
    bool (*sniff)(const uint8_t *bytes, size_t length);
    /* Returns why this program cannot read (or write) the format, as the end of a sentence; NULL if
     * it can. NULL: it always can. If it cannot read, the functions below are never called. */
    const char *(*refusal)(bool writes);
    codec_probe_fn *probe;
    codec_decode_fn *decode;
    codec_encode_fn *encode;
    codec_frame_fn *frame; /* NULL: devices do not decode this format */
    size_t (*encoded_bytes)(uint32_t width, uint32_t height, uint32_t channels,
                            const struct encoder_settings *settings);
    /* NULL if the encoder holds only a few rows. */
    size_t (*encoder_bytes)(uint32_t width, uint32_t height, uint32_t channels,
                            const struct encoder_settings *settings);
    /* The longest time between two looks at the deadline, in ns per pixel, as measured for noise,
     * gradients and periodic images. NULL if it is short. */
    uint64_t (*encoder_blind_ns)(uint32_t channels, const struct encoder_settings *settings);
    size_t metadata_copies; /* that the encoder holds at once, besides the caller's */
    void (*close)(void *state); /* frees the contents of the state; NULL if there are none */
};

#define FORMAT(name, ...) extern const struct codec codec_##name;
#include "conf/formats.def"

static inline bool codec_has_bytes(const uint8_t *file, size_t length, size_t at, const char *bytes,
                                   size_t count)
{
    return length >= at + count && memcmp(file + at, bytes, count) == 0;
}

/* Reads a big-endian number. */
static inline uint32_t codec_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Reads a little-endian number of 3 or 4 bytes. */
static inline uint32_t codec_le24(const uint8_t *at)
{
    return (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

static inline uint32_t codec_le32(const uint8_t *at)
{
    return (uint32_t)at[3] << 24 | codec_le24(at);
}

/* Writes bytes through the buffer of the sink; codec_put_end flushes the rest. *used: bytes in the
 * buffer, at first 0. `what` names the format in messages: "WebP". false: *error is set. */
bool codec_put(struct codec_sink *sink, size_t *used, const void *bytes, size_t count,
               const char *what, struct error *error) MUST_CHECK;
bool codec_put_end(struct codec_sink *sink, size_t *used, const char *what,
                   struct error *error) MUST_CHECK;

/* Whether this much memory can be allocated now. For libraries that do not survive a failure: it is
 * rare then, unless other threads take the memory meanwhile. */
bool codec_has_memory(size_t bytes);

bool codec_late(uint64_t deadline_ns); /* CLOCK_MONOTONIC; 0 means no deadline */

/* `what` names the format in messages: "JPEG". */
enum status codec_check_size(const char *what, uint32_t width, uint32_t height,
                             const struct codec_limits *limits, struct error *error) MUST_CHECK;

/* Returns the name, with its article, of a format that no codec reads; NULL if it is unknown. */
const char *codec_foreign_name(const uint8_t *bytes, size_t length);

/* Returns true if the bytes have a valid header of an ICC profile. */
bool codec_icc_is_valid(const uint8_t *icc, size_t bytes);
/* The same, for RGB data. Others are not copied to outputs. */
bool codec_icc_is_rgb(const uint8_t *icc, size_t bytes);

/* Copies metadata, if its size is 1 to `most` bytes. Returns false if there is no memory. */
bool codec_keep(const uint8_t *bytes, size_t length, size_t most, uint8_t **to,
                size_t *to_length) MUST_CHECK;
/* Copies an ICC profile for any colours, unless it is damaged or too large. Returns false if there
 * is no memory. */
bool codec_keep_icc(const uint8_t *icc, size_t bytes, struct image_info *info) MUST_CHECK;
/* Drops an ICC profile for other colours than the file's: it does not apply to them. Gray pixels
 * may have one for RGB. is_gray: whether the file has one colour channel, with or without alpha. */
void codec_fit_icc(struct image_info *info, bool is_gray);
/* Copy EXIF data and an XMP packet without images, if limits->metadata has them. The blob is as for
 * exif_orientation. Return false if there is no memory. */
bool codec_keep_exif(const struct codec_limits *limits, const uint8_t *blob, size_t bytes,
                     struct image_info *info) MUST_CHECK;
bool codec_keep_xmp(const struct codec_limits *limits, const uint8_t *packet, size_t bytes,
                    struct image_info *info) MUST_CHECK;
/* The same for the notice in Photoshop's resources of a JPEG, if XMP has none. */
bool codec_keep_iptc(const struct codec_limits *limits, const uint8_t *resources, size_t bytes,
                     struct image_info *info) MUST_CHECK;
/* Makes EXIF data for the orientation, if limits->keeps_orientation asks for it and the file has no
 * EXIF. Returns false if there is no memory. */
bool codec_keep_orientation(const struct codec_limits *limits,
                            struct image_info *info) MUST_CHECK;

/* Returns the orientation 1..8 (EXIF 2.32, tag 0x0112 of IFD 0). The blob begins with the TIFF
 * header, or with "Exif\0\0" before it, as in a JPEG's APP1. Returns 1 if the blob is invalid: an
 * image is not refused because of a hint. */
int exif_orientation(const uint8_t *blob, size_t bytes);
/* Copies the tags that describe the photograph into new TIFF data of at most EXIF_KEPT_BYTES_MAX,
 * which the caller frees: no thumbnail, no MakerNote and no other bytes. The blob is as for
 * exif_orientation. *to stays NULL if it is not TIFF, has no such tags, or they are too large.
 * If the orientation of the pixels is 2 to 8, the data has a tag for it; the blob may be NULL then.
 * Returns false if there is no memory. */
bool exif_copy(const uint8_t *blob, size_t bytes, int orientation, uint8_t **to,
               size_t *to_bytes) MUST_CHECK;
/* The same with only the tags Artist and Copyright. */
bool exif_notice(const uint8_t *blob, size_t bytes, uint8_t **to, size_t *to_bytes) MUST_CHECK;
/* Whether exif_orientation reads values of this type. */
bool exif_is_orientation(unsigned type);
/* Returns the resolution, rounded; DENSITY_NONE: there is none. */
struct image_density exif_density(const uint8_t *blob, size_t bytes);
/* Returns the tag ColorSpace; 0: there is none. */
uint16_t exif_colour_space(const uint8_t *tiff, size_t bytes);
/* See image_info_fit_metadata. space: the tag of an output that is not in sRGB. */
void exif_fit(uint8_t *tiff, size_t bytes, uint16_t space, const struct metadata_fit *fit);

/* Copies an XMP packet, which the caller frees, without xmp:Thumbnails, other images and the name
 * of an extension. *to stays NULL if the packet is not well-formed XML without a document type, has
 * more than XMP_PARTS_MAX or a reference in a namespace, or has more than XMP_BYTES_MAX then.
 * Returns false if there is no memory. */
bool xmp_copy(const uint8_t *packet, size_t bytes, uint8_t **to, size_t *to_bytes) MUST_CHECK;

/* Makes an XMP packet of the creator, rights, credit, usage terms and web statement of another one,
 * or of IPTC in Photoshop's resources. *to stays NULL if there are none, or they are too large.
 * Return false if there is no memory. */
bool xmp_notice(const uint8_t *packet, size_t bytes, uint8_t **to, size_t *to_bytes) MUST_CHECK;
bool iptc_notice(const uint8_t *resources, size_t bytes, uint8_t **to,
                 size_t *to_bytes) MUST_CHECK;

/* Converts a density to pixels per inch or metre. Returns false if a number is not 1 to `most`. */
bool codec_convert_density(const struct image_density *from, enum density_unit unit, uint32_t most,
                           struct image_density *to);
