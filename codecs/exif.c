/*
 * exif.c - reads and changes a few tags of EXIF data, in place.
 *
 * It reads IFD 0, the Exif IFD that it points to, and IFD 1 with the thumbnail: three directories
 * at most, so that data whose directories point at each other takes no longer. A general EXIF
 * parser is a risk: libexif 0.6.24 takes 48 s for a blob of 2.4 KB.
 */
#include "codecs/codec_impl.h"

#include <string.h>

/* TIFF 6.0, section 2: a header of 8 bytes, then directories of 12-byte entries. */
#define TIFF_HEADER_BYTES 8
#define TIFF_ENTRY_BYTES  12
#define TIFF_TYPE_SHORT   3
#define TIFF_TYPE_LONG    4

/* TIFF 6.0 and EXIF 2.32. */
enum {
    TAG_IMAGE_WIDTH = 0x0100,
    TAG_IMAGE_LENGTH = 0x0101,
    TAG_ORIENTATION = 0x0112,
    TAG_THUMBNAIL_AT = 0x0201,
    TAG_THUMBNAIL_BYTES = 0x0202,
    TAG_EXIF_IFD = 0x8769,
    TAG_COLOUR_SPACE = 0xA001,
    TAG_PIXEL_WIDTH = 0xA002,
    TAG_PIXEL_HEIGHT = 0xA003
};

/* The TIFF data, with checked bounds. */
struct tiff {
    const uint8_t *bytes;
    size_t length;
    bool little; /* little-endian */
};

static uint32_t number(const uint8_t *at, unsigned bytes, bool little)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint32_t)at[i] << 8 * (little ? i : bytes - 1 - i);
    return value;
}

static bool open_tiff(struct tiff *tiff, const uint8_t *blob, size_t bytes)
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

/* A directory: its entries that are inside the data. */
struct directory {
    size_t at;      /* of its first entry */
    uint32_t count; /* entries, without those outside the data */
    size_t next_at; /* of the offset of the next directory; 0: outside the data */
};

static struct directory open_directory(const struct tiff *tiff, size_t at)
{
    struct directory directory = {0};
    if (at < TIFF_HEADER_BYTES || at > tiff->length - 2)
        return directory;
    uint32_t count = number(tiff->bytes + at, 2, tiff->little);
    size_t fit = (tiff->length - at - 2) / TIFF_ENTRY_BYTES;
    directory.at = at + 2;
    directory.count = count < fit ? count : (uint32_t)fit;
    size_t end = directory.at + (size_t)directory.count * TIFF_ENTRY_BYTES;
    if (directory.count == count && tiff->length - end >= 4)
        directory.next_at = end;
    return directory;
}

static struct directory first_directory(const struct tiff *tiff)
{
    return open_directory(tiff, number(tiff->bytes + 4, 4, tiff->little));
}

/* Returns the offset of the first entry with the tag; 0: there is none. */
static size_t find_entry(const struct tiff *tiff, const struct directory *directory, unsigned tag)
{
    for (uint32_t i = 0; i < directory->count; i++) {
        size_t at = directory->at + (size_t)i * TIFF_ENTRY_BYTES;
        if (number(tiff->bytes + at, 2, tiff->little) == tag)
            return at;
    }
    return 0;
}

/* The bytes of an entry's value if it is one SHORT or one LONG; 0: it is not. */
static unsigned value_bytes(const struct tiff *tiff, size_t entry)
{
    const uint8_t *at = tiff->bytes + entry;
    uint32_t type = number(at + 2, 2, tiff->little);
    if (entry == 0 || number(at + 4, 4, tiff->little) != 1)
        return 0;
    return type == TIFF_TYPE_SHORT ? 2 : type == TIFF_TYPE_LONG ? 4 : 0;
}

/* 0: there is no such tag. */
static uint32_t read_value(const struct tiff *tiff, const struct directory *directory, unsigned tag)
{
    size_t entry = find_entry(tiff, directory, tag);
    unsigned bytes = value_bytes(tiff, entry);
    return bytes > 0 ? number(tiff->bytes + entry + 8, bytes, tiff->little) : 0;
}

int exif_orientation(const uint8_t *blob, size_t bytes)
{
    struct tiff tiff;
    if (!open_tiff(&tiff, blob, bytes))
        return 1;
    struct directory directory = first_directory(&tiff);
    size_t entry = find_entry(&tiff, &directory, TAG_ORIENTATION);
    uint32_t value = value_bytes(&tiff, entry) == 2 ? number(tiff.bytes + entry + 8, 2, tiff.little)
                                                    : 0;
    return value >= 1 && value <= ORIENTATION_MAX ? (int)value : 1;
}

/* ---- changes -------------------------------------------------------------------------------- */

static void write_number(uint8_t *to, uint32_t value, unsigned bytes, bool little)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * (little ? i : bytes - 1 - i));
}

/* Changes the value of a tag that exists. data: the bytes of `tiff`. */
static void set_value(uint8_t *data, const struct tiff *tiff, const struct directory *directory,
                      unsigned tag, uint32_t value)
{
    size_t entry = find_entry(tiff, directory, tag);
    unsigned bytes = value_bytes(tiff, entry);
    if (bytes > 0)
        write_number(data + entry + 8, value, bytes, tiff->little);
}

/* The Exif IFD, to which IFD 0 points. */
static struct directory exif_directory(const struct tiff *tiff, const struct directory *main)
{
    return open_directory(tiff, read_value(tiff, main, TAG_EXIF_IFD));
}

uint16_t exif_colour_space(const uint8_t *data, size_t bytes)
{
    struct tiff tiff;
    if (!open_tiff(&tiff, data, bytes))
        return 0;
    struct directory main = first_directory(&tiff), exif = exif_directory(&tiff, &main);
    return (uint16_t)read_value(&tiff, &exif, TAG_COLOUR_SPACE);
}

void exif_fit(uint8_t *data, size_t bytes, uint16_t space, const struct metadata_fit *fit)
{
    enum { srgb = 1 };
    struct tiff tiff;
    if (!open_tiff(&tiff, data, bytes))
        return;
    struct directory main = first_directory(&tiff), exif = exif_directory(&tiff, &main);
    if (fit->upright)
        set_value(data, &tiff, &main, TAG_ORIENTATION, 1);
    set_value(data, &tiff, &main, TAG_IMAGE_WIDTH, fit->width);
    set_value(data, &tiff, &main, TAG_IMAGE_LENGTH, fit->height);
    set_value(data, &tiff, &exif, TAG_PIXEL_WIDTH, fit->width);
    set_value(data, &tiff, &exif, TAG_PIXEL_HEIGHT, fit->height);
    if (space != 0)
        set_value(data, &tiff, &exif, TAG_COLOUR_SPACE, fit->in_srgb ? srgb : space);
}

size_t exif_drop_thumbnail(uint8_t *data, size_t bytes)
{
    struct tiff tiff;
    if (!open_tiff(&tiff, data, bytes) || tiff.bytes != data)
        return 0;
    struct directory main = first_directory(&tiff);
    if (main.next_at == 0)
        return bytes;
    struct directory second =
        open_directory(&tiff, number(data + main.next_at, 4, tiff.little));
    size_t at = read_value(&tiff, &second, TAG_THUMBNAIL_AT);
    size_t length = read_value(&tiff, &second, TAG_THUMBNAIL_BYTES);
    write_number(data + main.next_at, 0, 4, tiff.little);
    if (at < main.next_at + 4 || at > bytes || length > bytes - at)
        return bytes;
    memset(data + at, 0, length);
    return at + length == bytes ? at : bytes;
}
