/*
 * tiff.h - reads the directories of TIFF data, the format of EXIF (TIFF 6.0, section 2).
 *
 * All offsets are checked. No function follows a chain of directories, so hostile data whose
 * directories point to each other cannot make it run for long. A general EXIF parser can be made
 * to: libexif 0.6.24 takes 48 s for 2.4 KB. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* TIFF data has a header and directories; a directory consists of entries. */
#define TIFF_HEADER_BYTES 8
#define TIFF_ENTRY_BYTES  12

enum tiff_type {
    TIFF_ASCII = 2,
    TIFF_SHORT = 3,
    TIFF_LONG = 4,
    TIFF_RATIONAL = 5,
    TIFF_SSHORT = 8,
    TIFF_SLONG = 9,
    TIFF_UTF8 = 129 /* EXIF 3.0 */
};

/* TIFF 6.0 and EXIF 2.32. */
enum tiff_tag {
    TAG_IMAGE_WIDTH = 0x0100,
    TAG_IMAGE_LENGTH = 0x0101,
    TAG_STRIP_OFFSETS = 0x0111,
    TAG_ORIENTATION = 0x0112,
    TAG_STRIP_BYTES = 0x0117,
    TAG_X_RESOLUTION = 0x011A,
    TAG_Y_RESOLUTION = 0x011B,
    TAG_RESOLUTION_UNIT = 0x0128,
    TAG_ARTIST = 0x013B,
    TAG_TILE_OFFSETS = 0x0144,
    TAG_TILE_BYTES = 0x0145,
    TAG_SUB_IFDS = 0x014A,
    TAG_THUMBNAIL = 0x0201,
    TAG_THUMBNAIL_BYTES = 0x0202,
    TAG_COPYRIGHT = 0x8298,
    TAG_EXIF_IFD = 0x8769,
    TAG_GPS_IFD = 0x8825,
    TAG_MAKER_NOTE = 0x927C,
    TAG_COLOUR_SPACE = 0xA001,
    TAG_PIXEL_WIDTH = 0xA002,
    TAG_PIXEL_HEIGHT = 0xA003,
    TAG_INTEROP_IFD = 0xA005
};

struct tiff {
    const uint8_t *bytes;
    size_t length;
    bool little; /* little-endian */
};

struct tiff_directory {
    size_t at;      /* offset of its first entry */
    uint32_t count; /* number of entries, without those outside the data */
};

/* Reads or writes a number of 2 or 4 bytes. `at` must be inside the data. */
uint32_t tiff_number(const struct tiff *tiff, size_t at, unsigned bytes);
void tiff_write(uint8_t *to, uint32_t value, unsigned bytes, bool little);

/* Opens EXIF data of at most EXIF_BYTES_MAX. It begins with the TIFF header, or with "Exif\0\0"
 * before it, as in a JPEG's APP1. Returns false if it is not TIFF. */
bool tiff_open(struct tiff *tiff, const uint8_t *blob, size_t bytes);
/* The directory at an offset, which is empty if the offset is invalid. */
struct tiff_directory tiff_directory_at(const struct tiff *tiff, size_t at);
struct tiff_directory tiff_first_directory(const struct tiff *tiff);
/* Returns the offset of the first entry with the tag; 0: there is none. */
size_t tiff_find(const struct tiff *tiff, const struct tiff_directory *directory,
                 enum tiff_tag tag);
/* The size of an entry's value in bytes if that is one SHORT or one LONG; 0: it is not. */
unsigned tiff_value_bytes(const struct tiff *tiff, size_t entry);
/* The value of the tag if it is one SHORT or one LONG; 0: there is no such tag. */
uint32_t tiff_value(const struct tiff *tiff, const struct tiff_directory *directory,
                    enum tiff_tag tag);
/* The size of one value of a type in bytes; 0: the type is unknown. */
unsigned tiff_type_bytes(unsigned type);
/* Returns the offset of an entry's values, which are in the entry or elsewhere in the data, and
 * sets *bytes. 0: the type is unknown, there are no values, or they are outside the data. */
size_t tiff_values(const struct tiff *tiff, size_t entry, size_t *bytes);
