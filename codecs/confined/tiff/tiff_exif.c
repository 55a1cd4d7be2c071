/*
 * tiff_exif.c - collects the metadata of a TIFF as EXIF data (tiff_impl.h).
 *
 * EXIF data is TIFF data, too, but that of a TIFF is spread over the file. So its entries are
 * copied to new TIFF data. The daemon chooses among them (codecs/exif_copy.c).
 */
#ifdef GPUIMGD_TIFF

#include <string.h>

#include "codecs/confined/tiff/tiff_impl.h"

enum { HEADER_BYTES = 8, ENTRY_BYTES = 12 };
/* The directories of EXIF data: the main one, that of EXIF or GPS, that of interoperability. */
enum { DEPTH_MAX = 2 };
enum { TYPE_IFD8 = 18, TYPE_UTF8 = 129, TAG_MAKER_NOTE = 0x927C, TAG_INTEROP = 0xA005 };

struct exif {
    const struct tiff_numbers *numbers;
    bool has_unit;
    uint8_t *to;
    size_t used, most;
};

static void put_number(const struct exif *exif, size_t at, uint32_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        exif->to[at + i] = (uint8_t)(value >> 8 * (exif->numbers->little ? i : bytes - 1 - i));
}

/* The size of a value. 0: the type is unknown in EXIF. */
static unsigned type_bytes(unsigned type)
{
    static const uint8_t bytes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8};
    return type < sizeof bytes ? bytes[type] : type == TYPE_UTF8;
}

/* Tags that point to pixels, or to data whose offsets would be wrong. */
static bool is_left_out(const struct exif *exif, unsigned tag)
{
    static const uint16_t tags[] = {TIFFTAG_STRIPOFFSETS,    TIFFTAG_STRIPBYTECOUNTS,
                                    TIFFTAG_TILEOFFSETS,     TIFFTAG_TILEBYTECOUNTS,
                                    TIFFTAG_SUBIFD,          TIFFTAG_JPEGIFOFFSET,
                                    TIFFTAG_JPEGIFBYTECOUNT, TAG_MAKER_NOTE};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (tag == tags[i])
            return true;
    return !exif->has_unit && (tag == TIFFTAG_XRESOLUTION || tag == TIFFTAG_YRESOLUTION);
}

/* The values of an entry. NULL: they are not in the file. */
static const uint8_t *values_of(const struct exif *exif, const struct tiff_entry *entry,
                                size_t bytes)
{
    unsigned inside = exif->numbers->big ? 8 : 4;
    return bytes <= inside
               ? entry->value
               : tiff_bytes_at(exif->numbers, tiff_number_at(exif->numbers, entry->value, inside),
                               bytes);
}

static size_t copy_directory(struct exif *exif, uint64_t from, int depth);

/* Copies a directory to which an entry points. Returns its new offset; 0: there is none. */
static size_t copy_child(struct exif *exif, const struct tiff_entry *entry, int depth)
{
    bool is_wide = entry->type == TYPE_IFD8 || entry->type == TIFF_LONG8;
    if (depth == DEPTH_MAX || entry->count != 1 || (is_wide && !exif->numbers->big))
        return 0;
    return copy_directory(exif, tiff_number_at(exif->numbers, entry->value, is_wide ? 8 : 4),
                          depth + 1);
}

static bool is_pointer(unsigned tag, int depth)
{
    return depth == 0 ? tag == TIFFTAG_EXIFIFD || tag == TIFFTAG_GPSIFD
                      : depth == 1 && tag == TAG_INTEROP;
}

/* Copies an entry to `at`. false: it is left out. */
static bool copy_entry(struct exif *exif, const struct tiff_entry *entry, int depth, size_t at)
{
    unsigned type = entry->type;
    uint64_t count = entry->count, bytes = count * type_bytes(type);
    size_t place = at + 8;
    if (is_pointer(entry->tag, depth)) {
        size_t child = copy_child(exif, entry, depth);
        put_number(exif, place, (uint32_t)child, 4);
        type = TIFF_LONG;
        count = 1;
        if (child == 0)
            return false;
    } else {
        if (count > EXIF_KEPT_BYTES_MAX || bytes == 0 || bytes > EXIF_KEPT_BYTES_MAX ||
            is_left_out(exif, entry->tag))
            return false;
        size_t outside = bytes > 4 ? (size_t)bytes + bytes % 2 : 0;
        const uint8_t *values = values_of(exif, entry, (size_t)bytes);
        if (!values || outside > exif->most - exif->used)
            return false;
        memset(exif->to + place, 0, 4);
        if (outside > 0) {
            put_number(exif, place, (uint32_t)exif->used, 4);
            place = exif->used;
            exif->used += outside;
            exif->to[exif->used - 1] = 0;
        }
        memcpy(exif->to + place, values, bytes);
    }
    put_number(exif, at, entry->tag, 2);
    put_number(exif, at + 2, type, 2);
    put_number(exif, at + 4, (uint32_t)count, 4);
    return true;
}

/* Returns the new offset of the directory; 0: it has no entries. */
static size_t copy_directory(struct exif *exif, uint64_t from, int depth)
{
    struct tiff_directory_view view;
    size_t start = exif->used;
    if (!tiff_view_directory(exif->numbers, from, TIFF_ENTRIES_MAX, &view))
        return 0;
    size_t bytes = 2 + (size_t)view.count * ENTRY_BYTES + 4;
    if (bytes > exif->most - exif->used)
        return 0;
    exif->used += bytes;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < view.count; i++) {
        struct tiff_entry entry = tiff_view_entry(exif->numbers, &view, i);
        kept += copy_entry(exif, &entry, depth, start + 2 + (size_t)kept * ENTRY_BYTES);
    }
    put_number(exif, start, kept, 2);
    put_number(exif, start + 2 + (size_t)kept * ENTRY_BYTES, 0, 4); /* no next directory */
    return kept > 0 ? start : 0;
}

size_t tiff_write_exif(const struct tiff_numbers *numbers, uint64_t directory, bool has_unit,
                       uint8_t *to, size_t most)
{
    struct exif exif = {.numbers = numbers,
                        .has_unit = has_unit,
                        .to = to,
                        .used = HEADER_BYTES,
                        .most = most < EXIF_BYTES_MAX ? most : EXIF_BYTES_MAX};
    if (exif.most < HEADER_BYTES || copy_directory(&exif, directory, 0) == 0)
        return 0;
    memcpy(to, numbers->little ? "II*\0" : "MM\0*", 4);
    put_number(&exif, 4, HEADER_BYTES, 4);
    return exif.used;
}

#endif
