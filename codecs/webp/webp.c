/* webp.c - the WebP codec. */
#include "codecs/webp/header.h"
#include "codecs/webp/webp_impl.h"

static bool webp_sniff(const uint8_t *bytes, size_t length)
{
    return codec_has_bytes(bytes, length, 0, "RIFF", 4) &&
           codec_has_bytes(bytes, length, 8, "WEBP", 4);
}

#ifdef GPUIMGD_WEBP

const struct codec codec_webp = {
    .sniff = webp_sniff,

    .probe = webp_probe,
    .decode = webp_decode,
    .next_frame = webp_next_frame,
    .encode = webp_encode,
    .encoded_bytes = webp_encoded_bytes,
    .encoder_bytes = webp_encoder_bytes,
    .decoder_bytes = webp_decoder_bytes,
    .encoder_blind_ns = webp_encoder_blind_ns,
};

#else

static const char *webp_refusal(bool writes)
{
    (void)writes;
    return "this gpuimgd was built without libwebp (WEBP=no)";
}

const struct codec codec_webp = {.sniff = webp_sniff, .refusal = webp_refusal};

int webp_library_version(void)
{
    return 0;
}

#endif
