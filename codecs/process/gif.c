/* gif.c - the GIF codec: giflib reads the files in the codec process (codecs/confined/gif.c). */
#include "codecs/process/transfer.h"

static bool gif_sniff(const uint8_t *bytes, size_t length)
{
    return codec_has_bytes(bytes, length, 0, "GIF87a", 6) ||
           codec_has_bytes(bytes, length, 0, "GIF89a", 6);
}

#ifdef GPUIMGD_GIF

static const char *gif_refusal(bool writes)
{
    return codec_process_refusal(FORMAT_gif, writes, "this giflib has no decoder");
}

const struct codec codec_gif = {
    .sniff = gif_sniff,
    .refusal = gif_refusal,
    .probe = codec_process_probe,
    .decode = codec_process_decode,
    .next_frame = codec_process_next_frame,
};

#else

static const char *gif_refusal(bool writes)
{
    (void)writes;
    return "this gpuimgd was built without giflib (GIF=no)";
}

const struct codec codec_gif = {.sniff = gif_sniff, .refusal = gif_refusal};

#endif
