#include "daemon/device_codecs.h"

#include "codecs/avif/header.h"
#include "codecs/jpeg/header.h"
#include "codecs/png/header.h"
#include "codecs/webp/header.h"
#include "conf/options.h"
#include "gpu/avif/device/codec_memory.h"
#include "gpu/avif/encode.h"
#include "gpu/jpeg/codec_memory.h"
#include "gpu/jpeg/decode.h"
#include "gpu/plan/op_list.h"
#include "gpu/png/codec_memory.h"
#include "gpu/webp/codec_memory.h"

/* ---- JPEG ---- */

static size_t read_jpeg(struct codec_context *codec, const struct device_input *input, void *frame)
{
    if (!codec_read_frame(codec, input->bytes, input->length, input->info, input->limits, frame))
        return 0;
    return jpeg_decoder_bytes(frame, input->file_bytes, input->decode->as, input->decode->eighths);
}

static bool is_of_jpeg(const void *frame, const struct image_info *info)
{
    const struct jpeg_frame *jpeg = frame;
    return jpeg->width == info->width && jpeg->height == info->height &&
           jpeg->component_count == info->channels && jpeg->progressive == info->progressive;
}

/* Sequential files with the standard Huffman tables, which are not encoded again to reach a
 * size. */
static bool writes_jpeg(const struct encoder_settings *settings, const struct op_item *ops)
{
    (void)ops;
    return !settings->progressive && !settings->optimize && settings->max_bytes == 0;
}

static enum status make_jpeg(struct codec_context *codec, const struct encode_request *request,
                             uint32_t width, uint32_t height, uint32_t channels, void *to,
                             struct error *error)
{
    return jpeg_prelude_make(codec, request, width, height, channels, to, error);
}

/* ---- PNG ---- */

static size_t read_png(struct codec_context *codec, const struct device_input *input, void *frame)
{
    (void)codec;
    return png_read_frame(input->bytes, input->length, frame)
               ? png_decoder_bytes(frame, input->file_bytes)
               : 0;
}

static bool is_of_png(const void *frame, const struct image_info *info)
{
    const struct png_frame *png = frame;
    return png->width == info->width && png->height == info->height &&
           png->channels == info->channels;
}

/* Files of the own encoder with 8 bits per sample. */
static bool writes_png(const struct encoder_settings *settings, const struct op_item *ops)
{
    return png_is_for_devices(settings) && !op_list_is_bilevel(ops);
}

static enum status make_png(struct codec_context *codec, const struct encode_request *request,
                            uint32_t width, uint32_t height, uint32_t channels, void *to,
                            struct error *error)
{
    return png_prelude_make(codec, request, width, height, channels, to, error);
}

/* ---- WebP ---- */

static bool writes_webp(const struct encoder_settings *settings, const struct op_item *ops)
{
    (void)ops;
    return webp_is_for_devices(settings) && settings->ssim == 0;
}

static enum status make_webp(struct codec_context *codec, const struct encode_request *request,
                             uint32_t width, uint32_t height, uint32_t channels, void *to,
                             struct error *error)
{
    (void)codec, (void)error;
    webp_prelude_make(request, width, height, channels, to);
    return STATUS_OK;
}

/* ---- AVIF ---- */

/* Files of the own encoder's fastest effort, which are not encoded again to reach a size or a
 * similarity. */
static bool writes_avif(const struct encoder_settings *settings, const struct op_item *ops)
{
    (void)ops;
    return avif_is_own(settings) && avif_own_effort(settings) == AVIF_DEVICE_EFFORT &&
           settings->max_bytes == 0 && settings->ssim == 0;
}

static enum status make_avif(struct codec_context *codec, const struct encode_request *request,
                             uint32_t width, uint32_t height, uint32_t channels, void *to,
                             struct error *error)
{
    struct avif_coded coded = {width, height, channels, {0}};
    (void)codec, (void)error;
    avif_encode_config(width, height, channels, coded.av1c);
    avif_prelude_make(request, &coded, to);
    return STATUS_OK;
}

/* ---- the table ---- */

const struct device_codec_row device_codecs[DEVICE_CODECS] = {
    [DEVICE_CODEC_JPEG] = {.format = FORMAT_jpeg,
                           .name = "JPEG",
                           .library = "libjpeg",
                           .option = offsetof(struct options, jpeg),
                           .frame_bytes = sizeof(struct jpeg_frame),
                           .prepared_bytes = JPEG_DECODE_PREPARED_BYTES,
                           .read_frame = read_jpeg,
                           .is_of_image = is_of_jpeg,
                           .writes = writes_jpeg,
                           .prelude_bytes = jpeg_prelude_bytes,
                           .make_prelude = make_jpeg,
                           .measure = jpeg_measure_encoder},
    [DEVICE_CODEC_PNG] = {.format = FORMAT_png,
                          .name = "PNG",
                          .library = "libpng",
                          .option = offsetof(struct options, png),
                          .frame_bytes = sizeof(struct png_frame),
                          .read_frame = read_png,
                          .is_of_image = is_of_png,
                          .writes = writes_png,
                          .prelude_bytes = png_prelude_bytes,
                          .make_prelude = make_png,
                          .measure = png_measure_encoder},
    [DEVICE_CODEC_WEBP] = {.format = FORMAT_webp,
                           .name = "WebP",
                           .library = "libwebp",
                           .version = webp_library_version,
                           .option = offsetof(struct options, webp),
                           .writes = writes_webp,
                           .prelude_bytes = webp_prelude_bytes,
                           .make_prelude = make_webp,
                           .measure = webp_measure_encoder},
    [DEVICE_CODEC_AVIF] = {.format = FORMAT_avif,
                           .name = "AVIF",
                           .library = "gpuimgd's encoder",
                           .option = offsetof(struct options, avif),
                           .writes = writes_avif,
                           .prelude_bytes = avif_prelude_bytes,
                           .make_prelude = make_avif,
                           .measure = avif_measure_encoder},
};

enum device_codec device_codec_of(const struct format *format)
{
    for (enum device_codec codec = DEVICE_CODEC_NONE + 1; codec < DEVICE_CODECS; codec++)
        if (format == &formats[device_codecs[codec].format])
            return codec;
    return DEVICE_CODEC_NONE;
}

const char *device_codec_option(const struct options *options, enum device_codec codec)
{
    return *(char *const *)((const char *)options + device_codecs[codec].option);
}

struct plan_encoder device_codec_encoder(enum device_codec codec,
                                         const struct encoder_settings *settings,
                                         size_t metadata_bytes)
{
    struct jpeg_sampling sampling = jpeg_sampling_of(settings->subsampling);
    return (struct plan_encoder){.codec = codec,
                                 .header_bytes = device_codecs[codec].prelude_bytes(metadata_bytes),
                                 .quality = settings->quality,
                                 .quality_min = settings->quality_min,
                                 .ssim = settings->ssim,
                                 .bytes_max = (uint32_t)settings->max_bytes,
                                 .h = sampling.h,
                                 .v = sampling.v};
}
