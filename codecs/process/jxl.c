/* jxl.c - the JPEG XL codec. libjxl runs in the codec process (codecs/process/transfer.h). */
#include "codecs/process/transfer.h"

/* A file begins with the signature of a codestream, or with the box of a container. */
static bool jxl_sniff(const uint8_t *bytes, size_t length)
{
    return codec_has_bytes(bytes, length, 0, "\xFF\x0A", 2) ||
           codec_has_bytes(bytes, length, 0, "\0\0\0\fJXL \r\n\x87\n", 12);
}

#ifdef GPUIMGD_JXL

/* The metadata exists this many times while libjxl encodes: in the region, as a box, in libjxl's
 * copy of it, in the file, and twice while that grows. */
#define METADATA_COPIES 6

static const char *jxl_refusal(bool writes)
{
    return codec_process_refusal(FORMAT_jxl, writes, "libjxl does not work");
}

/* Noise that is stored without loss is an eighth larger than its pixels. */
static size_t jxl_encoded_bytes(uint32_t width, uint32_t height, uint32_t channels,
                                const struct encoder_settings *settings)
{
    (void)settings;
    return (size_t)width * height * channels / 4 * 5 + 4 * KIB;
}

/* The pixels of an image with sides that are multiples of 64, as libjxl pads it, or nearly. */
static size_t padded_pixels(uint32_t width, uint32_t height)
{
    return ((size_t)width + 63) / 64 * 64 * (((size_t)height + 63) / 64 * 64);
}

/* Measured with libjxl 0.7 for images of noise, as the growth of the address space; photographs
 * need 65 bytes per pixel of RGB at a usual quality. */
static size_t jxl_encoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                                const struct encoder_settings *settings)
{
    enum { fixed_bytes = 24 << 20, quality_lossless = 100 };
    bool lossless = settings->lossless || settings->quality >= quality_lossless;
    size_t pixel_bytes = lossless ? 28 + 17 * channels : 57 + 5 * channels;
    if (!lossless && channels == 4)
        pixel_bytes += 14;
    return CODEC_WINDOW_BYTES + fixed_bytes + padded_pixels(width, height) * pixel_bytes;
}

/* At least the estimate of the codec process, also for an image that is stored without loss. */
static size_t jxl_decoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                                const struct encoder_settings *settings)
{
    enum { fixed_bytes = 8 << 20, pixel_bytes = 34, alpha_bytes = 44 };
    (void)settings;
    return fixed_bytes + (size_t)width * height * (channels == 4 ? alpha_bytes : pixel_bytes);
}

static enum status jxl_encode(void *state, const struct image *src,
                              const struct encode_request *request, struct codec_sink *sink,
                              struct error *error)
{
    size_t bytes = jxl_encoder_bytes(src->width, src->height, src->channels, &request->encoder);
    return codec_process_encode(state, src, request, bytes, METADATA_COPIES, sink, error);
}

const struct codec codec_jxl = {
    .sniff = jxl_sniff,
    .refusal = jxl_refusal,
    .probe = codec_process_probe,
    .decode = codec_process_decode,
    .next_frame = codec_process_next_frame,
    .encode = jxl_encode,
    .encoded_bytes = jxl_encoded_bytes,
    .encoder_bytes = jxl_encoder_bytes,
    .decoder_bytes = jxl_decoder_bytes,
    .metadata_copies = METADATA_COPIES,
};

#else

static const char *jxl_refusal(bool writes)
{
    (void)writes;
    return "this gpuimgd was built without libjxl (JXL=no)";
}

const struct codec codec_jxl = {.sniff = jxl_sniff, .refusal = jxl_refusal};

#endif
