/* heic.c - the HEIC codec: recognizes files. libheif reads them in the codec process
 * (codecs/confined/heif/). */
#include "codecs/process/transfer.h"

#define BRANDS_BYTES_MAX 1024

/* Brands of images that are coded with HEVC, and mif1 and msf1, which leave open how. */
static bool is_brand(const uint8_t *brand)
{
    static const char brands[][5] = {"heic", "heix", "heim", "heis", "mif1", "msf1"};
    for (size_t i = 0; i < sizeof brands / sizeof *brands; i++)
        if (memcmp(brand, brands[i], 4) == 0)
            return true;
    return false;
}

/* A HEIC begins with a box "ftyp" like that of an AVIF. A file that also has a brand of AVIF is
 * one, because its row in conf/formats.def is before this one's. */
static bool heic_sniff(const uint8_t *bytes, size_t length)
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

#ifdef GPUIMGD_HEIF

static const char *heic_refusal(bool writes)
{
    return codec_process_refusal(FORMAT_heic, writes,
                                 "this libheif has no HEVC decoder; install its plugin libde265");
}

const struct codec codec_heic = {
    .sniff = heic_sniff,
    .refusal = heic_refusal,
    .probe = codec_process_probe,
    .decode = codec_process_decode,
};

#else

static const char *heic_refusal(bool writes)
{
    (void)writes;
    return "this gpuimgd was built without libheif (HEIF=no)";
}

const struct codec codec_heic = {.sniff = heic_sniff, .refusal = heic_refusal};

#endif
