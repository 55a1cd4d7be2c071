/* avif.c - the AVIF codec. */
#include "codecs/avif/avif_impl.h"

#define BRANDS_BYTES_MAX 1024

static bool is_brand(const uint8_t *brand)
{
    return memcmp(brand, "avif", 4) == 0 || memcmp(brand, "avis", 4) == 0;
}

/* An AVIF begins with a box "ftyp", which has a major brand, a version, and compatible brands
 * (ISO/IEC 14496-12). One of the brands is "avif" or "avis". */
static bool avif_sniff(const uint8_t *bytes, size_t length)
{
    enum { major_at = 8, compatible_at = 16 };
    if (!codec_has_bytes(bytes, length, 4, "ftyp", 4) || length < compatible_at)
        return false;
    size_t end = codec_u32(bytes);
    end = end < length ? end : length;
    end = end < BRANDS_BYTES_MAX ? end : BRANDS_BYTES_MAX;
    for (size_t at = compatible_at; at + 4 <= end; at += 4)
        if (is_brand(bytes + at))
            return true;
    return is_brand(bytes + major_at);
}

/* The own encoder is in every gpuimgd. */
static const char *avif_refusal(bool writes)
{
    return writes ? NULL : libavif_refusal(false);
}

const struct codec codec_avif = {
    .sniff = avif_sniff,
    .refusal = avif_refusal,
    .probe = codec_process_probe,
    .decode = codec_process_decode,
    .next_frame = codec_process_next_frame,
    .encode = avif_encode,
    .encoded_bytes = avif_encoded_bytes,
    .encoder_bytes = avif_encoder_bytes,
    .decoder_bytes = avif_decoder_bytes,
    .metadata_copies = AVIF_METADATA_COPIES,
    .drops_opaque_alpha = true,
};
