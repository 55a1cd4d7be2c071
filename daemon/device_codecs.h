/*
 * device_codecs.h - the codecs that devices have besides the host's, one row per enum device_codec.
 *
 * A row has what the daemon must know to decode or encode an image on a device: the headers, which
 * the host reads and writes, and the memory. The kernels are in gpu/jpeg/, gpu/png/ and others. Any
 * thread; functions with a codec context, on its thread.
 */
#pragma once

#include "codecs/codec.h"
#include "codecs/jpeg/frame.h"
#include "codecs/png/frame.h"
#include "gpu/plan/plan.h"

struct op_item;
struct options;

/* The parsed headers of a file that a device decodes. */
union device_frame {
    struct jpeg_frame jpeg;
    struct png_frame png;
};

/* A file that a device may decode. */
struct device_input {
    const uint8_t *bytes; /* the first `length` of the file */
    size_t length, file_bytes;
    const struct image_info *info;
    const struct codec_limits *limits;
    const struct decode_request *decode;
};

struct device_codec_row {
    enum format_id format;
    const char *name, *library; /* for messages: of the format, and of the host's codec */
    int (*version)(void);       /* of the library: 0x010203 for 1.2.3. NULL: not in messages */
    size_t option;              /* offset in struct options of the option that turns it off */

    /* The decoder. Devices do not decode WebPs and AVIFs, and have no functions for it. */
    size_t frame_bytes; /* of its member of union device_frame */
    size_t prepared_bytes; /* plan_file.prepared_bytes */
    /* Reads the frame. Returns the device memory that the decoder needs besides the file and the
     * image; 0: devices do not decode the file, and the frame is undefined. */
    size_t (*read_frame)(struct codec_context *codec, const struct device_input *input,
                         void *frame);
    /* Whether the frame is of an image like this one. */
    bool (*is_of_image)(const void *frame, const struct image_info *info);

    /* The encoder. */
    bool (*writes)(const struct encoder_settings *settings, const struct op_item *ops);
    /* The largest size of a prelude, the bytes of the file that the host writes. metadata_bytes:
     * the size of ICC profile, EXIF and XMP together. */
    size_t (*prelude_bytes)(size_t metadata_bytes);
    /* Makes the prelude. `to` has prelude_bytes. Errors: those of codec_encode. */
    enum status (*make_prelude)(struct codec_context *codec, const struct encode_request *request,
                                uint32_t width, uint32_t height, uint32_t channels, void *to,
                                struct error *error) MUST_CHECK;
    bool (*measure)(struct plan_encoder *encoder, uint32_t width, uint32_t height,
                    uint32_t channels); /* plan_target.measure_encoder */
};

/* The row of DEVICE_CODEC_NONE is empty. */
extern const struct device_codec_row device_codecs[DEVICE_CODECS];

/* The codec of a format; DEVICE_CODEC_NONE: devices have none. */
enum device_codec device_codec_of(const struct format *format);
/* The value of the codec's option: "auto", "cuda" or "cpu". */
const char *device_codec_option(const struct options *options, enum device_codec codec);
/* How a device encodes an image with these settings, as far as that is known before its size. */
struct plan_encoder device_codec_encoder(enum device_codec codec,
                                         const struct encoder_settings *settings,
                                         size_t metadata_bytes);
