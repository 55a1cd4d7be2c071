/*
 * codec.h - decodes image files in memory to pixels, and encodes pixels to image files.
 *
 * Each format of conf/formats.def has a codec (jpeg/, png/ and others). All functions run on a
 * worker thread, unless a comment says otherwise, with the codec_context of that worker; workers
 * share no state. The caller owns pixels and file bytes. On failure a function sets `error` and
 * frees all objects of libraries; a part of the destination may be written.
 */
#pragma once

#include "codecs/image.h"
#include "conf/format.h"
#include "conf/status.h"

struct jpeg_frame;    /* codecs/jpeg/frame.h */
struct codec_context; /* state of the codecs of a worker, used again for each job */

/* Tells a codec whether somebody still waits for its result. While a codec process works,
 * the worker calls is_gone about every 50 ms. true: the job was cancelled. */
struct codec_caller {
    bool (*is_gone)(const struct codec_caller *caller);
};

/* Limits from the configuration. Each job has a copy, which a reload does not change. */
struct codec_limits {
    uint64_t pixels_max;
    uint32_t side_max;
    uint32_t jpeg_scans_max;
    uint32_t jpeg_warnings_max;
    bool lenient;            /* accept a truncated or corrupt JPEG, a PNG without its end or with
                                damaged ancillary chunks, and image_info.ends_early */
    unsigned metadata;       /* METADATA_EXIF, METADATA_XMP, METADATA_COPYRIGHT: what a probe
                                copies, besides the ICC profile */
    bool keeps_orientation;  /* outputs are not made upright, so they need an orientation in EXIF: a
                                probe adds it to the EXIF that it copies, if it is missing there */
    uint32_t page;           /* the frame of an animation, or the page, to read, from 0. If the file
                                does not have it, a probe succeeds, and of its results only
                                image_info.frames counts */
    bool finds_alpha;        /* a probe sets image_info.may_have_alpha */
    uint64_t deadline_ns;    /* CLOCK_MONOTONIC; 0 = none. Checked every few rows and every
                                CODEC_BYTES_PER_CHECK bytes of the file, header included */
    const struct codec_caller *caller; /* optional */
};

enum density_unit { DENSITY_NONE, DENSITY_INCH, DENSITY_CM, DENSITY_METRE };

/* Pixels per unit, for prints. */
struct image_density {
    uint32_t x, y;
    enum density_unit unit; /* DENSITY_NONE: unknown */
};

/* The contents of a file's header. */
struct image_info {
    const struct format *format;
    uint32_t width, height;  /* as stored, before EXIF orientation */
    uint32_t frames;         /* frames of an animation, or pages; 1 or more */
    uint32_t strip;          /* frames side by side in the image, whose sides are `width` and
                                `height`; 0: the image is one frame (strip.h) */
    uint32_t channels;       /* of a decode as DECODE_COLOUR: 1 gray, 3 RGB, 4 RGBA */
    bool frames_apart;       /* the image that a decode gives is none of the frames; only set if
                                limits.finds_alpha */
    bool may_have_alpha;     /* some frame may have transparent pixels */
    bool ends_early;         /* an animation is truncated or damaged after the last of `frames`,
                                which may be incomplete. Its other frames can be read */
    bool ycc;                /* the file is YCbCr and allows DECODE_LUMA and DECODE_YCC */
    bool cmyk;               /* the file is CMYK or YCCK and allows DECODE_CMYK */
    bool deep;               /* the file has more than 8 bits and allows DECODE_DEEP */
    bool scales;             /* decode_request.eighths may be 1, 2 or 4 */
    bool progressive;        /* or interlaced */
    bool gain_map;           /* the file has one, which no output gets (gain_map.h) */
    int orientation;         /* EXIF 1..8; 1 if it is missing or invalid */
    size_t codec_bytes;      /* upper bound on the codec's own memory for a decode: the coefficients
                                of a progressive JPEG that libjpeg decodes, otherwise a few rows
                                and a window of some 100 KiB */
    struct image_density density; /* as stored, before EXIF orientation */
    /* Metadata, or NULL; owned by this struct. The sizes stay after image_info_drop_metadata. */
    uint8_t *icc;            /* ICC profile for the file's colours; NULL also if it is damaged */
    size_t icc_bytes;
    uint8_t *exif;           /* EXIF data from its TIFF header on, without thumbnails */
    size_t exif_bytes;       /* at most EXIF_KEPT_BYTES_MAX */
    uint16_t exif_space;     /* the tag ColorSpace of `exif`; 0: there is none */
    uint8_t *xmp;            /* the main XMP packet: text without zero bytes */
    size_t xmp_bytes;        /* at most XMP_BYTES_MAX */
    /* For METADATA_COPYRIGHT: EXIF with only artist and copyright, XMP with only creator, rights,
     * credit and terms. */
    uint8_t *notice_exif;
    size_t notice_exif_bytes;
    uint8_t *notice_xmp;
    size_t notice_xmp_bytes;
};

struct decode_request {
    enum decode_as as; /* DECODE_LUMA needs info.ycc or channels == 1; DECODE_YCC needs info.ycc;
                          DECODE_CMYK needs info.cmyk; DECODE_DEEP needs info.deep */
    uint32_t eighths;  /* decodes to eighths/8 of the size, as djpeg -scale does (image_scaled in
                          image.h). 0 or 8: full size. 1, 2 and 4 need info.scales */
};

struct encode_request {
    const struct format *format;
    struct encoder_settings encoder;
    bool keeps_alpha; /* for a frame of an AVIF sequence: the alpha of an opaque image with 4
                         channels is a second AVIF, after that of the colours */
    bool bilevel; /* the image is gray, and its pixels are 0 or 255: a PNG has 1 bit per pixel */
    /* Metadata to write, or NULL; in the form of struct image_info. */
    const uint8_t *icc; /* RGB profile; written only with 3 or 4 channels */
    size_t icc_bytes;
    const uint8_t *exif;
    size_t exif_bytes;
    const uint8_t *xmp;
    size_t xmp_bytes;
    struct image_density density; /* written to JPEG and PNG, which have a place for it */
    int orientation; /* of pixels that are not upright: 2 to 8. 0 or 1: they are. AVIF and JPEG XL
                        use it; other formats have the orientation in EXIF */
    uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0 = none */
    const struct codec_caller *caller; /* optional */
    size_t memory_max; /* the memory for this encode, if it was asked for as if all pixels were
                          opaque; an encode that needs more is over_budget. 0: enough for any */
    unsigned restart_interval; /* for the self-test: MCUs (blocks of all components) between two
                                  restart markers of a JPEG. 0: no restart markers */
};

/* The destination of encoded bytes, owned by the caller. The encoder fills `buffer`, and calls
 * flush(sink, used) when it is full and once at the end. If flush does not return STATUS_OK, it
 * sets `error`, and the encode fails with that status. */
struct codec_sink {
    uint8_t *buffer;
    size_t capacity; /* of buffer, at least 4096 bytes */
    uint64_t total; /* bytes flushed so far, counted by the encoder */
    enum status (*flush)(struct codec_sink *sink, size_t used, struct error *error);
};

struct codec_context *codec_context_create(void);           /* NULL: out of memory */
void codec_context_destroy(struct codec_context *context); /* takes NULL */

/* Returns the format of the file, by its content; NULL if no codec reads it. */
const struct format *codec_sniff(const uint8_t *bytes, size_t length);

/* Returns why this program cannot read (writes: cannot write) files of the format, as the end of a
 * sentence: usually, a library was missing when it was built. NULL: it can. The format must be one
 * that is written, to be asked about writing. Any thread. */
const char *codec_refusal(const struct format *format, bool writes);

/* Whether it is certain that this program cannot read the format. false also if no codec process
 * can be started now to ask its libraries. Any thread. */
bool codec_lacks(const struct format *format);

/* Finds the format and reads the header, with orientation and metadata. Checks sides and pixels
 * against the limits before it allocates memory of that size. The caller must call image_info_clear
 * in every case. Errors: unsupported_format, image_too_large, decode_failed, decode_limit,
 * out_of_memory. */
enum status codec_probe(struct codec_context *context, const uint8_t *bytes, size_t length,
                        const struct codec_limits *limits, struct image_info *info,
                        struct error *error) MUST_CHECK;
void image_info_clear(struct image_info *info);
/* Frees the metadata but keeps its sizes, for codec_read_metadata. */
void image_info_drop_metadata(struct image_info *info);
/* Frees the ICC profile and clears its size, so that it is not read again. */
void image_info_clear_icc(struct image_info *info);
/* Reads metadata that image_info_drop_metadata has freed, from the same file and with the same
 * limits->metadata. Does nothing if the file has no metadata or all of it is in memory. Errors:
 * those of codec_probe, and internal if the metadata has changed. */
enum status codec_read_metadata(struct codec_context *context, const uint8_t *bytes, size_t length,
                                const struct codec_limits *limits, struct image_info *info,
                                struct error *error) MUST_CHECK;
/* Size of these kinds of metadata (METADATA_ICC and so on), in bytes. */
size_t image_info_metadata_bytes(const struct image_info *info, unsigned kinds);
/* Whether the ICC profile is in memory, and is for RGB or CMYK. */
bool image_info_icc_is_rgb(const struct image_info *info);
bool image_info_icc_is_cmyk(const struct image_info *info);

/* How an output differs from its input. */
struct metadata_fit {
    bool upright;           /* the orientation was applied to the pixels */
    int orientation;        /* if not upright: the orientation of the pixels, 1 to 8; 0: the one in
                               EXIF. An AVIF may have another orientation than its EXIF */
    bool in_srgb;           /* the pixels were converted to sRGB */
    uint32_t width, height; /* of the output */
};
/* Changes EXIF and XMP in memory to describe an output: the orientation becomes 1 if it was
 * applied. Tags of pixel dimensions and the colour space are changed, if there are any. May be
 * called again for the next output of the same input. */
void image_info_fit_metadata(struct image_info *info, const struct metadata_fit *fit);

/* Reads what a GPU needs to decode the file. false: GPUs do not decode such files, or the file is
 * damaged, and *frame is undefined. codec_decode then decodes the file or reports the damage. */
bool codec_read_frame(struct codec_context *context, const uint8_t *bytes, size_t length,
                      const struct image_info *info, const struct codec_limits *limits,
                      struct jpeg_frame *frame) MUST_CHECK;

/* The channels of the file's image if it is decoded as `as`. */
static inline uint32_t codec_channels(const struct image_info *info, enum decode_as as)
{
    return as == DECODE_LUMA   ? 1
           : as == DECODE_CMYK ? 4
           : as == DECODE_DEEP ? 2 * info->channels
                               : info->channels;
}

/* Decodes the file into dst. The sides of dst must be those of info, scaled by the request, and its
 * channels those of codec_channels. On success every pixel of dst is written, but not the padding
 * of rows. Errors: decode_failed, decode_limit (scans, chunks, deadline), out_of_memory. */
enum status codec_decode(struct codec_context *context, const uint8_t *bytes, size_t length,
                         const struct image_info *info, const struct decode_request *request,
                         const struct codec_limits *limits, const struct image *dst,
                         struct error *error) MUST_CHECK;

/* Measures a text as codec_probe reads a header, and draws it as RGBA as codec_decode decodes a
 * file. bytes: a struct text_style, then the text. Errors: bad_op if this program cannot draw texts
 * or no font has a character, image_too_large, decode_failed, decode_limit, out_of_memory. */
enum status codec_measure_text(struct codec_context *context, const uint8_t *bytes, size_t length,
                               const struct codec_limits *limits, struct image_info *info,
                               struct error *error) MUST_CHECK;
enum status codec_draw_text(struct codec_context *context, const uint8_t *bytes, size_t length,
                            const struct image_info *info, const struct codec_limits *limits,
                            const struct image *dst, struct error *error) MUST_CHECK;

/* Estimates the largest size of an encoded image in bytes. Only a JPEG of noise can exceed it. */
size_t codec_encoded_bytes(const struct format *format, uint32_t width, uint32_t height,
                           uint32_t channels, const struct encoder_settings *settings,
                           size_t metadata_bytes);
/* Returns the memory that the encoder needs besides src and the sink, in bytes; 0: only a few
 * rows. */
size_t codec_encoder_bytes(const struct format *format, uint32_t width, uint32_t height,
                           uint32_t channels, const struct encoder_settings *settings,
                           size_t metadata_bytes);
/* The channels to ask codec_encoder_bytes for, if the image has alpha but is opaque. */
uint32_t codec_opaque_channels(const struct format *format, uint32_t channels);

/* The most memory, in bytes, that codec_decode needs for a file of the own encoder with these
 * settings or a lower quality: an upper bound of info->codec_bytes, without the file's length and
 * metadata. Of a format with a quality. */
size_t codec_decoder_bytes(const struct format *format, uint32_t width, uint32_t height,
                           uint32_t channels, const struct encoder_settings *settings);

/* The longest time, in ns, for which an encoder runs without checking the deadline. It was measured
 * for the slowest images, and is multiplied for slower and shared processors. 0: some
 * milliseconds. */
uint64_t codec_encoder_blind_ns(const struct format *format, uint32_t width, uint32_t height,
                                uint32_t channels, const struct encoder_settings *settings);

/* The memory that codec_recompress needs for a file with this header and this length. */
size_t codec_recompress_bytes(const struct image_info *info, size_t length);
/* Makes the file of the other format, and checks that it gives back a JPEG byte for byte. Uses only
 * the effort, the deadline and the caller of the request. Errors: encode_failed if the JPEG is not
 * of a usual kind, or the JPEG XL not made of a JPEG; those of codec_encode. */
enum status codec_recompress(struct codec_context *context, const uint8_t *bytes, size_t length,
                             const struct image_info *info, const struct encode_request *request,
                             struct codec_sink *sink, struct error *error) MUST_CHECK;

/* Encodes src, which is gray or RGB, or RGBA if the format holds alpha; deep only if the format has
 * the parameter depth. The format is no tensor.
 * Errors: encode_failed, over_budget, out_of_memory, timeout, or the status of flush. */
enum status codec_encode(struct codec_context *context, const struct image *src,
                         const struct encode_request *request, struct codec_sink *sink,
                         struct error *error) MUST_CHECK;
