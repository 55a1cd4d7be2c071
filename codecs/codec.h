/*
 * codec.h - image files in memory to pixels and back.
 *
 * Each format of conf/formats.def has a codec here (jpeg.c, png.c). Everything here runs
 * on a worker thread with that worker's own codec_context; two workers share nothing. Pixels and
 * file bytes are always the caller's. A function that fails has said why in `error`, leaves no
 * library state behind, and may have written part of the destination.
 */
#ifndef GPUIMGD_CODECS_CODEC_H
#define GPUIMGD_CODECS_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/image.h"
#include "conf/format.h"
#include "conf/status.h"

struct codec_context; /* state that a worker keeps and reuses from job to job */

/* Bounds that the user may set; a copy travels with each job, so a reload never races. */
struct codec_limits {
    uint64_t pixels_max;
    uint32_t side_max;
    uint32_t jpeg_scans_max;
    uint32_t jpeg_warnings_max;
    size_t kept_bytes_max;   /* of memory that one decode may leave to the next one of the same
                                context; the kernel's clearing of new pages is what it saves */
    bool lenient;            /* keep the picture of a truncated or corrupt JPEG */
    uint64_t deadline_ns;    /* CLOCK_MONOTONIC; 0 = none. Checked every few rows, and KiB
                                of the file, from the header on */
};

/* What the header says; pixels are not touched. */
struct image_info {
    const struct format *format;
    uint32_t width, height;  /* as stored, before EXIF orientation */
    uint32_t channels;       /* of a colour decode: 1 gray, 3 RGB, 4 RGBA */
    bool ycc;                /* the file is YCbCr: it can be decoded as DECODE_LUMA and
                                DECODE_YCC, too */
    bool scales;             /* decode_request.eighths may be 1, 2 or 4 */
    bool progressive;        /* or interlaced */
    int orientation;         /* EXIF 1..8; 1 where there is none or it is broken */
    size_t codec_bytes;      /* memory that the library itself will take to decode, an upper
                                estimate: a progressive JPEG's coefficients, a few rows else */
    uint8_t *icc;            /* RGB ICC profile, malloc'd, or NULL; owned by this struct */
    size_t icc_bytes;        /* stays after image_info_drop_icc */
};

struct decode_request {
    enum decode_as as; /* DECODE_LUMA only where info.ycc or channels == 1, DECODE_YCC only where
                          info.ycc */
    uint32_t eighths; /* sides of image_scaled, as djpeg -scale M/8 gives; 0 or 8: in full. Others
                         only where info.scales. */
};

struct encode_request {
    const struct format *format;
    struct encoder_settings encoder;
    const uint8_t *icc; /* RGB profile or NULL; written only beside 3 or 4 channels */
    size_t icc_bytes;
    uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0 = none */
};

/* Where encoded bytes go: the encoder fills buffer[0..capacity) and calls flush(sink, used)
 * whenever it is full and once at the end. flush returns STATUS_OK or sets error and fails the
 * encode with that status. Caller-owned; capacity at least 4096. */
struct codec_sink {
    uint8_t *buffer;
    size_t capacity;
    uint64_t total; /* bytes flushed so far, kept by the encoder */
    enum status (*flush)(struct codec_sink *sink, size_t used, struct error *error);
};

/* NULL when memory is short. destroy takes NULL. */
struct codec_context *codec_context_create(void);
void codec_context_destroy(struct codec_context *context);

/* The format by the file's content; NULL if no codec reads it. */
const struct format *codec_sniff(const uint8_t *bytes, size_t length);

/* Reads the header: sniff, sides and pixels against the limits (before anything of that size is
 * allocated), orientation, profile. unsupported_format, image_too_large, decode_failed,
 * decode_limit. The caller calls image_info_clear in any case. */
enum status codec_probe(struct codec_context *context, const uint8_t *bytes, size_t length,
                        const struct codec_limits *limits, struct image_info *info,
                        struct error *error) MUST_CHECK;
void image_info_clear(struct image_info *info);
/* Frees the profile and keeps its size; codec_read_icc reads it again. */
void image_info_drop_icc(struct image_info *info);
/* Reads the profile that was dropped, from the same file. Does nothing if there is none, or if it
 * is there. Errors as codec_probe's. */
enum status codec_read_icc(struct codec_context *context, const uint8_t *bytes, size_t length,
                           const struct codec_limits *limits, struct image_info *info,
                           struct error *error) MUST_CHECK;

/* Decodes into dst, whose sides are info's, scaled as the request says, and whose channels are 1
 * of DECODE_LUMA, else info->channels. Every byte of every row (not the padding) is written on
 * success. decode_failed, decode_limit (scans, chunks, deadline), out_of_memory. */
enum status codec_decode(struct codec_context *context, const uint8_t *bytes, size_t length,
                         const struct image_info *info, const struct decode_request *request,
                         const struct codec_limits *limits, const struct image *dst,
                         struct error *error) MUST_CHECK;

/* About how many bytes a result of this size will have at most. Only a JPEG of noise can have
 * more. */
size_t codec_encoded_bytes(const struct format *format, uint32_t width, uint32_t height,
                           uint32_t channels, const struct encoder_settings *settings,
                           size_t icc_bytes);
/* Memory that the encoder itself takes, if that is more than a few rows; else 0. */
size_t codec_encoder_bytes(const struct format *format, uint32_t width, uint32_t height,
                           uint32_t channels, const struct encoder_settings *settings);

/* Encodes src (1 or 3 channels; 4 only if the format holds alpha). encode_failed, out_of_memory,
 * timeout, or what flush returned. */
enum status codec_encode(struct codec_context *context, const struct image *src,
                         const struct encode_request *request, struct codec_sink *sink,
                         struct error *error) MUST_CHECK;

#endif
