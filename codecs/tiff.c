#include "codecs/tiff.h"

#include <string.h>

#include "conf/limits.h"

static uint32_t number_at(const uint8_t *at, unsigned bytes, bool little)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint32_t)at[i] << 8 * (little ? i : bytes - 1 - i);
    return value;
}

uint32_t tiff_number(const struct tiff *tiff, size_t at, unsigned bytes)
{
    return number_at(tiff->bytes + at, bytes, tiff->little);
}

void tiff_write(uint8_t *to, uint32_t value, unsigned bytes, bool little)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * (little ? i : bytes - 1 - i));
}

bool tiff_open(struct tiff *tiff, const uint8_t *blob, size_t bytes)
{
    if (bytes >= 6 && memcmp(blob, "Exif\0\0", 6) == 0) {
        blob += 6;
        bytes -= 6;
    }
    if (bytes < TIFF_HEADER_BYTES + 2 || bytes > EXIF_BYTES_MAX)
        return false;
    *tiff = (struct tiff){blob, bytes, memcmp(blob, "II*\0", 4) == 0};
    return tiff->little || memcmp(blob, "MM\0*", 4) == 0;
}

struct tiff_directory tiff_directory_at(const struct tiff *tiff, size_t at)
{
    struct tiff_directory directory = {0};
    if (at < TIFF_HEADER_BYTES || at > tiff->length - 2)
        return directory;
    uint32_t count = tiff_number(tiff, at, 2);
    size_t fit = (tiff->length - at - 2) / TIFF_ENTRY_BYTES;
    directory.at = at + 2;
    directory.count = count < fit ? count : (uint32_t)fit;
    return directory;
}

struct tiff_directory tiff_first_directory(const struct tiff *tiff)
{
    return tiff_directory_at(tiff, tiff_number(tiff, 4, 4));
}

size_t tiff_find(const struct tiff *tiff, const struct tiff_directory *directory,
                 enum tiff_tag tag)
{
    for (uint32_t i = 0; i < directory->count; i++) {
        size_t at = directory->at + (size_t)i * TIFF_ENTRY_BYTES;
        if (tiff_number(tiff, at, 2) == (uint32_t)tag)
            return at;
    }
    return 0;
}

unsigned tiff_value_bytes(const struct tiff *tiff, size_t entry)
{
    if (entry == 0 || tiff_number(tiff, entry + 4, 4) != 1)
        return 0;
    uint32_t type = tiff_number(tiff, entry + 2, 2);
    return type == TIFF_SHORT ? 2 : type == TIFF_LONG ? 4 : 0;
}

uint32_t tiff_value(const struct tiff *tiff, const struct tiff_directory *directory,
                    enum tiff_tag tag)
{
    size_t entry = tiff_find(tiff, directory, tag);
    unsigned bytes = tiff_value_bytes(tiff, entry);
    return bytes > 0 ? tiff_number(tiff, entry + 8, bytes) : 0;
}

/* The table is in TIFF 6.0, section 2. Type 129 is UTF-8, which EXIF 3.0 adds. */
unsigned tiff_type_bytes(unsigned type)
{
    static const uint8_t bytes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8};
    return type < sizeof bytes ? bytes[type] : type == 129;
}

size_t tiff_values(const struct tiff *tiff, size_t entry, size_t *bytes)
{
    size_t count = tiff_number(tiff, entry + 4, 4);
    *bytes = count * tiff_type_bytes(tiff_number(tiff, entry + 2, 2));
    size_t at = *bytes <= 4 ? entry + 8 : tiff_number(tiff, entry + 8, 4);
    return *bytes > 0 && at <= tiff->length && *bytes <= tiff->length - at ? at : 0;
}
