/*
 * codec_impl.h - the interface that each codec implements, and the helpers that codecs share.
 *
 * A new format is a row in conf/formats.def and a file in this folder that defines codec_NAME. The
 * functions of a codec have the arguments of their counterparts in codec.h, but a state instead of
 * the context: a block of state_bytes per worker and format, zero at first; or, if the format has a
 * `.library`, the worker's struct codec_process, which all such formats share.
 *
 * Objects of libraries live only for one call. libjpeg would otherwise keep quantisation and
 * Huffman tables for the next image, and a file without tables would be decoded with those of
 * another user's file. Creating an object costs a microsecond.
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
/* Bytes of a file between two checks of the deadline: at most some milliseconds of work, if a
 * hostile file is full of the smallest segments or chunks. */
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

struct codec_animation; /* codecs/animation.h */
/* Draws frame animation->next over the canvas, and sets animation->delay_ms and plays. */
typedef enum status codec_next_frame_fn(void *state, struct codec_animation *animation,
                                        const struct image *canvas, struct error *error);

typedef bool codec_frame_fn(void *state, const uint8_t *bytes, size_t length,
                            const struct codec_limits *limits, struct jpeg_frame *frame);

struct codec {
    size_t state_bytes; /* 0: the codec needs no state */
    /* Returns true if the file has this format, by its first bytes and, in a RIFF container, by its
     * first chunks. */
    bool (*sniff)(const uint8_t *bytes, size_t length);
    /* As codec_refusal. If the format cannot be read, the functions below are never called. The
     * pointer is NULL if this program can always read and write the format. */
    const char *(*refusal)(bool writes);
    codec_probe_fn *probe;
    codec_decode_fn *decode;
    codec_encode_fn *encode; /* NULL: the format is a tensor, see tensor.h */
    codec_frame_fn *frame; /* NULL: devices do not decode this format */
    codec_next_frame_fn *next_frame; /* NULL: frames of this format are not composed */
    size_t (*encoded_bytes)(uint32_t width, uint32_t height, uint32_t channels,
                            const struct encoder_settings *settings);
    /* NULL if the encoder needs memory for only a few rows. */
    size_t (*encoder_bytes)(uint32_t width, uint32_t height, uint32_t channels,
                            const struct encoder_settings *settings);
    /* As codec_decoder_bytes; of a format with a library, without its region. NULL: the format has
     * no quality, or is not written. */
    size_t (*decoder_bytes)(uint32_t width, uint32_t height, uint32_t channels,
                            const struct encoder_settings *settings);
    /* The longest time between two checks of the deadline, in ns per pixel, as measured for noise,
     * gradients and periodic images. NULL if it is only some milliseconds per image. */
    uint64_t (*encoder_blind_ns)(uint32_t channels, const struct encoder_settings *settings);
    size_t metadata_copies; /* copies of the metadata that the encoder has in memory at once */
    bool drops_opaque_alpha; /* an alpha that is opaque needs no memory of the encoder */
};

#define FORMAT(name, ...) extern const struct codec codec_##name;
#include "conf/formats.def"

/* For animation.c. The last one kills the context's codec process, without waiting for its end. */
bool codec_composes(const struct format *format);
enum status codec_next_frame(struct codec_context *context, struct codec_animation *animation,
                             const struct image *canvas, struct error *error) MUST_CHECK;
void codec_context_leave(struct codec_context *context);

/* Whether the file has these bytes at an offset. */
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

/* Reads a little-endian number of 3 bytes, or of 4 bytes. */
static inline uint32_t codec_le24(const uint8_t *at)
{
    return (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

static inline uint32_t codec_le32(const uint8_t *at)
{
    return (uint32_t)at[3] << 24 | codec_le24(at);
}

/* Writes bytes to the buffer of the sink, and flushes the buffer when it is full. Call
 * codec_put_end at the end. *used: the bytes in the buffer, at first 0. `what` names the format in
 * messages: "WebP". false: *error is set. */
bool codec_put(struct codec_sink *sink, size_t *used, const void *bytes, size_t count,
               const char *what, struct error *error) MUST_CHECK;
bool codec_put_end(struct codec_sink *sink, size_t *used, const char *what,
                   struct error *error) MUST_CHECK;

/* Whether this much memory can be allocated now. Call it before a function of a library that
 * crashes if an allocation fails. It may still fail if other threads take the memory meanwhile. */
bool codec_has_memory(size_t bytes);

/* Whether the deadline (CLOCK_MONOTONIC; 0: none) has passed. */
bool codec_late(uint64_t deadline_ns);

/* Checks the sides and the pixels of an image. `what` names the format in messages: "JPEG". */
enum status codec_check_size(const char *what, uint32_t width, uint32_t height,
                             const struct codec_limits *limits, struct error *error) MUST_CHECK;

/* Returns the name of the file's format, for a message, if no codec reads that format: "a GIF
 * image". NULL: the format is unknown. */
const char *codec_foreign_name(const uint8_t *bytes, size_t length);

/* Whether the bytes have a valid header of an ICC profile. */
bool codec_icc_is_valid(const uint8_t *icc, size_t bytes);
/* Whether the bytes have a valid header of an ICC profile for RGB. Only these are written to
 * outputs. */
bool codec_icc_is_rgb(const uint8_t *icc, size_t bytes);

/* Copies metadata, if its size is 1 to `most` bytes. Returns false if there is no memory. */
bool codec_keep(const uint8_t *bytes, size_t length, size_t most, uint8_t **to,
                size_t *to_length) MUST_CHECK;
/* Copies an ICC profile for any colours, unless it is damaged or too large. Returns false if there
 * is no memory. */
bool codec_keep_icc(const uint8_t *icc, size_t bytes, struct image_info *info) MUST_CHECK;
/* Frees an ICC profile that is for other colours than those of the file. A gray file may have one
 * for gray or for RGB. is_gray: the file has one colour channel, with or without alpha. */
void codec_fit_icc(struct image_info *info, bool is_gray);
/* Copy EXIF data and an XMP packet, without thumbnails, if limits->metadata asks for them. `blob`
 * has the form that exif_orientation describes. Return false if there is no memory. */
bool codec_keep_exif(const struct codec_limits *limits, const uint8_t *blob, size_t bytes,
                     struct image_info *info) MUST_CHECK;
bool codec_keep_xmp(const struct codec_limits *limits, const uint8_t *packet, size_t bytes,
                    struct image_info *info) MUST_CHECK;
/* Copies the copyright notice of Photoshop's resources in a JPEG, if XMP has none, as XMP. Returns
 * false if there is no memory. */
bool codec_keep_iptc(const struct codec_limits *limits, const uint8_t *resources, size_t bytes,
                     struct image_info *info) MUST_CHECK;
/* Creates EXIF data with only the orientation, if limits->keeps_orientation asks for it and the
 * file has no EXIF. Returns false if there is no memory. */
bool codec_keep_orientation(const struct codec_limits *limits,
                            struct image_info *info) MUST_CHECK;

/* Returns the orientation 1..8 (EXIF 2.32, tag 0x0112 of IFD 0). The blob begins with the TIFF
 * header, or with "Exif\0\0" before it, as in a JPEG's APP1. Returns 1 if the blob is invalid: an
 * image is not refused because of a hint. */
int exif_orientation(const uint8_t *blob, size_t bytes);
/* Copies the tags that describe the photograph into new TIFF data of at most EXIF_KEPT_BYTES_MAX,
 * which the caller frees. Thumbnails, MakerNote and all other bytes are not copied. `blob` has the
 * form that exif_orientation describes. *to stays NULL if the blob is not TIFF, has none of these
 * tags, or they are too large. If `orientation` is 2 to 8, the copy always has an orientation; the
 * blob may be NULL then. Returns false if there is no memory. */
bool exif_copy(const uint8_t *blob, size_t bytes, int orientation, uint8_t **to,
               size_t *to_bytes) MUST_CHECK;
/* Copies only the tags Artist and Copyright. Otherwise as exif_copy. */
bool exif_notice(const uint8_t *blob, size_t bytes, uint8_t **to, size_t *to_bytes) MUST_CHECK;
/* Whether exif_orientation reads an orientation of this type (enum tiff_type). */
bool exif_is_orientation(unsigned type);
/* Returns the resolution, rounded; DENSITY_NONE: there is none. */
struct image_density exif_density(const uint8_t *blob, size_t bytes);
/* Returns the tag ColorSpace; 0: there is none. */
uint16_t exif_colour_space(const uint8_t *tiff, size_t bytes);
/* For image_info_fit_metadata. space: the value of ColorSpace for an output that is not in sRGB. */
void exif_fit(uint8_t *tiff, size_t bytes, uint16_t space, const struct metadata_fit *fit);

/* Copies an XMP packet, which the caller frees, without xmp:Thumbnails, other images, and the
 * reference to an extended packet. *to stays NULL if the packet is not well-formed XML, has a
 * document type, more than XMP_PARTS_MAX parts or an entity in a namespace, or if the copy has more
 * than XMP_BYTES_MAX. Returns false if there is no memory. */
bool xmp_copy(const uint8_t *packet, size_t bytes, uint8_t **to, size_t *to_bytes) MUST_CHECK;

/* Create an XMP packet with only the creator, rights, credit, usage terms and web statement of an
 * XMP packet, or of the IPTC data in Photoshop's resources. *to stays NULL if there are none, or
 * they are too large. Return false if there is no memory. */
bool xmp_notice(const uint8_t *packet, size_t bytes, uint8_t **to, size_t *to_bytes) MUST_CHECK;
bool iptc_notice(const uint8_t *resources, size_t bytes, uint8_t **to,
                 size_t *to_bytes) MUST_CHECK;

/* Converts a density to pixels per `unit`. Returns false if a number is not 1 to `most`. */
bool codec_convert_density(const struct image_density *from, enum density_unit unit, uint32_t most,
                           struct image_density *to);
