/*
 * plan.h - plans how a job is computed: turns its operations into passes over buffers, whose sizes
 * are known exactly.
 *
 * A worker builds the plan as soon as it has read the header of the input. After that the plan is
 * read-only. Both engines (gpu/engine/engine.h) run the same plan. One source image feeds up to
 * JOB_OUTPUTS_MAX variants, one per output. A variant is computed by a chain of passes; a pass is
 * one kernel. Adjacent operations become one pass if the result is the same to the bit. If the
 * chains of several variants start with the same passes, these run only once (share.c). The image
 * and the values of each variant have their own places in the output buffer. A variant without
 * passes is the source itself, or a rectangle of it: nothing is computed or copied. If only
 * one of the source and the result is on a device, or a device encodes a rectangle of its source, a
 * pass copies the image.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/image.h"
#include "conf/format.h"
#include "conf/status.h"
#include "conf/text_style.h"
#include "conf/trim.h"

#ifdef __cplusplus
extern "C" {
#endif

struct op_item;
struct pass;   /* gpu/plan/pass.h: one kernel with its parameters and geometry */
struct colour; /* gpu/colour/conversion.h: the tables of a profile */

/* A codec that runs on devices; DEVICE_CODEC_NONE: the host decodes, or encodes. */
enum device_codec {
    DEVICE_CODEC_NONE,
    DEVICE_CODEC_JPEG,
    DEVICE_CODEC_PNG,
    DEVICE_CODEC_WEBP, /* only encodes */
    DEVICE_CODEC_AVIF, /* only encodes */
    DEVICE_CODECS
};

/* A file that a device decodes. */
struct plan_file {
    enum device_codec codec;
    size_t bytes;       /* 0: the host decodes, and there is no such file */
    size_t work_bytes;  /* device memory that only the decoder needs */
    size_t frame_bytes; /* size of its struct jpeg_frame or png_frame, the parsed headers */
    size_t prepared_bytes; /* host memory for jpeg_decode_prepare; 0: the codec prepares nothing */
};

/* How a device encodes an output: as a sequential JPEG, a PNG, a lossy WebP, or an AVIF. */
struct plan_encoder {
    enum device_codec codec;
    size_t header_bytes; /* memory for its struct jpeg_prelude, png_prelude, webp_prelude or
                            avif_prelude: the bytes before the compressed data (and of a WebP after
                            it), and what the encoder must know about them */
    int quality;         /* JPEG: 1 to 100; WebP: 0 to 100; AVIF: 1 to 99 */
    int quality_min, ssim; /* JPEG: the lowest quality from quality_min to `quality` whose file has
                              this similarity is used (codecs/ssim_search.h); 0: `quality` */
    uint32_t bytes_max; /* WebP: the quality is lowered until the file has at most so many bytes; 0:
                           any number */
    uint8_t h, v;        /* JPEG: the sampling factors of Y: see gpu/jpeg/encode.h; gray: 1 and 1 */
    /* Set for an image: */
    size_t capacity;          /* of the file, at the variant's offset in the output buffer */
    size_t work_bytes;        /* device memory of the encoder */
    size_t header_at;         /* of the header, in the input buffer */
    size_t image_at, work_at; /* of the image and of the encoder's memory, in the scratch buffer */
};

/* The image that the codec will decode. */
struct plan_source {
    uint32_t width, height, channels; /* full size; channels is 1 with DECODE_LUMA, and those of a
                                         deep image with DECODE_DEEP */
    bool ycc;                         /* DECODE_YCC: the 3 channels are Y, Cb and Cr */
    bool cmyk;                        /* DECODE_CMYK: the 4 channels are C, M, Y and K */
    const uint8_t *icc;               /* the file's ICC profile; borrowed, and read only by
                                         plan_build */
    size_t icc_bytes;                 /* 0: none */
    struct plan_file file;
    bool unread;                      /* it is not decoded: no variant needs an image or values */
    uint32_t eighths;                 /* decoded at M/8 with this M (plan_eighths); 0: in full */
    struct trim_part part;            /* that all variants see, of the image before it is turned;
                                          width 0: all of it. Only of an image decoded in full */
    int orientation;                  /* EXIF 1..8, applied before all operations; 1: none */
    uint8_t background[3];            /* RGB, for flattening alpha */
};

/* Names an image in a job. Exactly one member is set. The text belongs to the job's operations,
 * and its syntax is not checked here. */
struct op_place {
    const char *path, *key;
};

/* A text to draw. */
struct plan_text {
    const char *text;
    struct text_style style;
};

/* The argument of plan_overlays.find: which overlay an operation needs. */
struct plan_overlay_request {
    unsigned number; /* plan_target.number */
    int position;    /* of the operation in the target's ops */
    struct op_place place;
    const struct plan_text *text; /* NULL: the overlay is the image at `place` */
    uint32_t width; /* the overlay is resized to this width, as by resize_exact, with its aspect
                       ratio; 0: it is not resized */
};

struct plan_overlay {
    struct image image; /* RGBA; borrowed until the plan's constants are put */
    bool gray;          /* R = G = B in each pixel whose alpha is not 0 */
};

/* How operations get the images that they lay over others. plan_build calls `find`. Its error fails
 * only the target; out_of_memory, over_budget and timeout fail the whole plan. */
struct plan_overlays {
    enum status (*find)(void *context, const struct plan_overlay_request *request,
                        struct plan_overlay *overlay, struct error *error);
    void *context;
};

/* How a result becomes a tensor, an array of numbers in C order. */
struct plan_tensor {
    bool wanted; /* otherwise the result is an image */
    enum tensor_type type;
    enum tensor_layout layout;
    bool rgb;                              /* gray is repeated to three channels */
    const struct normalization *normalize; /* borrowed by plan_build; type is not TENSOR_U8 */
};

/* One requested output. */
struct plan_target {
    const struct op_item *ops; /* gpu/plan/op_list.h; borrowed */
    bool opaque;     /* the output format has no alpha: flatten over the background at the end */
    bool gray;       /* the output is gray, as if its last operation were grayscale */
    bool deep;       /* the output is deep (codecs/image.h); its operations all have OP_DEEP */
    bool no_picture; /* only the values are wanted */
    struct plan_tensor tensor;
    uint32_t side_max; /* longest side in the output format; 0: only plan_limits apply */
    struct plan_encoder encoder; /* how a device encodes the output, as far as that is known before
                                    its size */
    /* Sets the capacity and work_bytes of the encoder for an image. false: the device cannot encode
     * it, so the host does. NULL: the host encodes. */
    bool (*measure_encoder)(struct plan_encoder *encoder, uint32_t width, uint32_t height,
                            uint32_t channels);
    const struct plan_overlays *overlays; /* NULL: operations with an overlay fail with bad_op */
    unsigned number; /* of the output, from 1, for messages; 0: the only one */
    struct error *error; /* Receives bad_op, image_too_large and errors of overlays; the plan is
                            then built without this variant. NULL: these errors fail the whole
                            plan. */
};

struct plan_limits {
    uint64_t pixels_max; /* of each output */
    uint32_t side_max;
};

/* One output: its passes, and where its result is. */
struct plan_variant {
    struct pass *passes;
    uint32_t pass_count;
    uint32_t early, joint; /* The engine first runs the first `early` passes of all variants, then
                              the next `joint` passes of all variants, together, and then the
                              others: see enum plan_phase in pass.h. */
    uint32_t width, height, channels; /* of the result; rows are image_stride() apart */
    bool is_source;                   /* no pass writes an image: the result is the source, or a
                                         rectangle of it */
    uint32_t x, y;                    /* position of this rectangle; otherwise 0 */
    bool no_picture;                  /* only values are wanted; an image stays in the scratch
                                         buffer */
    size_t tensor_bytes;              /* the result is a tensor of this size; 0: an image */
    size_t offset;                    /* of the result in the output buffer; BUFFER_ALIGN bytes
                                         before a tensor are free for a header */
    struct plan_encoder encoder; /* with a codec, the result is a file instead of an image; none
                                    if the target has none, or its device cannot encode it */
};

/* Whether a device encodes the variant. */
static inline bool plan_is_encoded(const struct plan_variant *variant)
{
    return variant->encoder.codec != DEVICE_CODEC_NONE;
}

/* Written by the device's codecs, at report_at in the output buffer. Must be zero before the
 * run. */
struct plan_report {
    uint32_t declined;                    /* the reason, or 0: the file was decoded */
    uint32_t file_bytes[JOB_OUTPUTS_MAX]; /* of each variant's file; 0: larger than its capacity */
    uint32_t quality[JOB_OUTPUTS_MAX];    /* of each variant with bytes_max, which may be exceeded,
                                             or with ssim */
    uint32_t ssim[JOB_OUTPUTS_MAX]; /* of each variant with ssim: the similarity of its file */
};

/*
 * The plan of a job. It has three buffers: input, output and scratch.
 *
 * If a device decodes, the input buffer has the file and its frame, and the decoded
 * image is in the scratch buffer. If a device encodes, the variant's image is in the scratch
 * buffer, too. The codec's kernels write the report and the files over the bus, directly to the end
 * of the host's output buffer, because the sizes of files are not known before. These written_bytes
 * do not exist in the device's output buffer.
 */
struct plan {
    struct plan_source source;
    struct plan_variant variants[JOB_OUTPUTS_MAX];
    uint32_t variant_count;
    struct colour *colours[2]; /* tables of the source's profile that passes use, by enum
                                  colour_intent; freed with the passes; NULL: none */
    size_t input_bytes;   /* pinned: the decoded image or the file, the constants, and the headers
                             of the files that a device encodes; 0: no pixel is needed */
    size_t frame_at;      /* offset of the frame in the input buffer */
    size_t prepared_at;   /* likewise: of the room of prepared_bytes */
    size_t host_end;      /* likewise: the end of both, which only the host reads */
    size_t report_at;     /* offset of the report in the output buffer */
    size_t written_bytes; /* size of the end of the output buffer, which kernels write over the bus;
                             0: the device's codec is not used */
    size_t source_at;     /* if a device decodes: offset of the image in the scratch buffer */
    size_t decoder_at;    /* likewise: offset of the decoder's work space */
    struct image_part needed; /* The part of the decoded image that influences a result: a device
                                 may leave the other pixels undefined. Width 0: no pixel does. */
    size_t constants_at;  /* offset in the input buffer of the passes' tables and overlays */
    size_t constants_bytes;
    size_t overlays_bytes; /* the part of constants_bytes that is pixels of overlays */
    size_t output_bytes;  /* pinned: values, and all results except the source */
    size_t scratch_bytes; /* images between passes, and work space; on the device, or in host memory
                             with the CPU engine */
    size_t device_bytes;  /* all memory on a device: input, downloaded output and scratch */
    bool idle;            /* neither passes nor a codec of a device: the engine need not run */
};

/* Chooses how to decode a YCbCr source. A variant needs only the Y channel if its first operation,
 * other than those that only move pixels, makes gray with the default weights. A gray target makes
 * gray after its operations. DECODE_YCC serves both kinds of variants. */
enum decode_as plan_decode_as(const struct plan_target *targets, size_t count);

/* Chooses the scale M/8 at which to decode the source of a job with one output. Returns 1, 2 or
 * 4 if the first operation (or the first after operations with OP_ANY_SCALE) is a reduction
 * that allows it, else 8. source: full size, with its orientation. */
uint32_t plan_eighths(const struct plan_source *source, const struct op_item *ops);

/* Builds the plan. *plan is overwritten; call plan_clear after success and after an error. Errors
 * of a target: bad_op (a parameter does not fit this image), bad_job (the numbers of a tensor's
 * normalization do not), image_too_large (its result). Errors
 * of the whole plan: over_budget (tables or overlays), out_of_memory. */
enum status plan_build(struct plan *plan, const struct plan_source *source,
                       const struct plan_target *targets, size_t count,
                       const struct plan_limits *limits, struct error *error) MUST_CHECK;
void plan_clear(struct plan *plan); /* idempotent */
/* Heap memory of the passes and their tables, in bytes. */
size_t plan_bytes(const struct plan *plan);
/* Frees the passes and keeps the sizes. plan_build with the same source and targets builds them
 * again. */
void plan_drop_passes(struct plan *plan);

/* Writes the tables and the overlays of all passes to the input buffer. Call it once per input
 * buffer, on any thread, before the plan runs. The maximum of 64 MiB of tables takes about half a
 * second. */
void plan_put_constants(const struct plan *plan, uint8_t *input);

/* The image of a variant, in the buffers of the plan. */
struct image plan_result(const struct plan *plan, size_t variant, uint8_t *input, uint8_t *output);
/* The tensor of a variant, of tensor_bytes. The BUFFER_ALIGN bytes before it may be overwritten. */
uint8_t *plan_tensor(const struct plan *plan, size_t variant, uint8_t *output);
/* The file of a variant that a device has encoded. *bytes: its size; 0: the file would have been
 * larger than its capacity, and the host must encode the image. */
const uint8_t *plan_encoded(const struct plan *plan, size_t variant, const uint8_t *output,
                            size_t *bytes);
const struct plan_report *plan_report(const struct plan *plan, const uint8_t *output);
/* The decoded image: smaller than the image in the file if decoded at M/8. at: the input buffer; if
 * a device decodes, scratch + source_at. */
struct image plan_input(const struct plan *plan, uint8_t *at);

#ifdef __cplusplus
}
#endif
