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

/* Measured with libjxl 0.7 for images of noise; photographs need 42 bytes per pixel at a usual
 * quality. */
static size_t jxl_encoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                                const struct encoder_settings *settings)
{
    enum { fixed_bytes = 16 << 20, quality_lossless = 100 };
    bool lossless = settings->lossless || settings->quality >= quality_lossless;
    size_t pixel_bytes = lossless ? 28 + 17 * channels : 42 + 9 * channels;
    if (!lossless && channels == 4)
        pixel_bytes += 12;
    return CODEC_WINDOW_BYTES + fixed_bytes + (size_t)width * height * pixel_bytes;
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
    .encode = jxl_encode,
    .encoded_bytes = jxl_encoded_bytes,
    .encoder_bytes = jxl_encoder_bytes,
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
