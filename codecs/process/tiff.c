/* tiff.c - the TIFF codec: libtiff reads TIFFs in a codec process (codecs/confined/tiff/). */
#include "codecs/process/transfer.h"

/* BigTIFF has a plus sign instead of the asterisk. */
static bool tiff_sniff(const uint8_t *bytes, size_t length)
{
    return codec_has_bytes(bytes, length, 0, "II*\0", 4) ||
           codec_has_bytes(bytes, length, 0, "MM\0*", 4) ||
           codec_has_bytes(bytes, length, 0, "II+\0", 4) ||
           codec_has_bytes(bytes, length, 0, "MM\0+", 4);
}

#ifdef GPUIMGD_TIFF

static const char *tiff_refusal(bool writes)
{
    return codec_process_refusal(FORMAT_tiff, writes, "it is not written");
}

const struct codec codec_tiff = {.sniff = tiff_sniff,
                                 .refusal = tiff_refusal,
                                 .probe = codec_process_probe,
                                 .decode = codec_process_decode};

#else

static const char *tiff_refusal(bool writes)
{
    (void)writes;
    return "this gpuimgd was built without libtiff (TIFF=no)";
}

const struct codec codec_tiff = {.sniff = tiff_sniff, .refusal = tiff_refusal};

#endif
