/* bmp.c - the BMP codec: a codec process reads BMPs (codecs/confined/bmp.c). */
#include "codecs/process/transfer.h"

/* A BMP begins with "BM", but so may a text. So the size of the second header, at byte 14, is
 * checked as well: it is at most 255, and so are the sizes of all versions. */
static bool bmp_sniff(const uint8_t *bytes, size_t length)
{
    enum { size_at = 14, size_least = 12 };
    return codec_has_bytes(bytes, length, 0, "BM", 2) &&
           codec_has_bytes(bytes, length, size_at + 1, "\0\0\0", 3) && bytes[size_at] >= size_least;
}

static const char *bmp_refusal(bool writes)
{
    return codec_process_refusal(FORMAT_bmp, writes, "it is not written");
}

const struct codec codec_bmp = {.sniff = bmp_sniff,
                                .refusal = bmp_refusal,
                                .probe = codec_process_probe,
                                .decode = codec_process_decode};
