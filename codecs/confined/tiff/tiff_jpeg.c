/* tiff_jpeg.c - looks into JPEG data of a TIFF, for the memory of a decode (tiff_impl.h). */
#ifdef GPUIMGD_TIFF

#include "codecs/confined/tiff/tiff_impl.h"

enum { SOF0 = 0xC0, SOF2 = 0xC2, SOI = 0xD8, SOS = 0xDA };

/* Whether the first scan of a JPEG is the only one: sequential, and with all components. */
static bool has_one_scan(const uint8_t *bytes, size_t length)
{
    unsigned components = 0;
    for (size_t at = 0; at + 1 < length && bytes[at] == 0xFF;) {
        unsigned marker = bytes[at + 1];
        at += 2;
        if (marker == SOI)
            continue;
        size_t segment = at + 2 <= length ? (size_t)bytes[at] << 8 | bytes[at + 1] : 0;
        if (segment < 8 || segment > length - at)
            return false;
        if (marker >= SOF0 && marker < SOF2)
            components = bytes[at + 7];
        else if (marker == SOF2 || marker == SOS)
            return marker == SOS && components > 0 && bytes[at + 2] == components;
        at += segment;
    }
    return false;
}

bool tiff_has_scans(TIFF *tiff, const struct tiff_numbers *numbers)
{
    enum { head_bytes = 16384 };
    uint64_t bytes = TIFFGetStrileByteCount(tiff, 0);
    size_t head = bytes < head_bytes ? (size_t)bytes : head_bytes;
    const uint8_t *data = tiff_bytes_at(numbers, TIFFGetStrileOffset(tiff, 0), head);
    return !data || !has_one_scan(data, head);
}

#endif
