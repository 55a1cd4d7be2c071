/*
 * exif_copy.c - copies EXIF data for outputs: the tags that describe the photograph, in new TIFF
 * data.
 *
 * Only tags of the tables below are copied, and only the bytes of their values, so that nothing
 * else of the input is published: no thumbnail, wherever it is, and no bytes between the values.
 * MakerNote is not copied: it holds previews and serial numbers, and its offsets would break.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/codec_impl.h"
#include "codecs/tiff.h"

/* The directories of a copy, in their order. */
enum ifd { IFD_MAIN, IFD_EXIF, IFD_GPS, IFD_INTEROP, IFD_COUNT };

/* EXIF 3.0, sections 4.6.5 to 4.6.8, without MakerNote (0x927C), strips and thumbnails. In IFD 0
 * also Rating and the texts that Windows adds (0x9C9B to 0x9C9F). Ascending. */
struct tags {
    uint16_t first, last;
};
static const struct tags main_tags[] = {
    {0x0100, 0x0101}, {0x010E, 0x0110}, {0x0112, 0x0112}, {0x011A, 0x011B}, {0x0128, 0x0128},
    {0x012D, 0x012D}, {0x0131, 0x0132}, {0x013B, 0x013B}, {0x013E, 0x013F}, {0x0211, 0x0214},
    {0x4746, 0x4746}, {0x4749, 0x4749}, {0x8298, 0x8298}, {0x9C9B, 0x9C9F}, {0, 0}};
static const struct tags exif_tags[] = {
    {0x829A, 0x829A}, {0x829D, 0x829D}, {0x8822, 0x8822}, {0x8824, 0x8824}, {0x8827, 0x8828},
    {0x8830, 0x8835}, {0x9000, 0x9000}, {0x9003, 0x9004}, {0x9010, 0x9012}, {0x9101, 0x9102},
    {0x9201, 0x920A}, {0x9214, 0x9214}, {0x9286, 0x9286}, {0x9290, 0x9292}, {0x9400, 0x9405},
    {0xA000, 0xA004}, {0xA20B, 0xA20C}, {0xA20E, 0xA210}, {0xA214, 0xA215}, {0xA217, 0xA217},
    {0xA300, 0xA302}, {0xA401, 0xA40C}, {0xA420, 0xA420}, {0xA430, 0xA43C}, {0xA460, 0xA462},
    {0xA500, 0xA500}, {0, 0}};
static const struct tags notice_tags[] = {
    {TAG_ARTIST, TAG_ARTIST}, {TAG_COPYRIGHT, TAG_COPYRIGHT}, {0, 0}};
static const struct tags gps_tags[] = {{0x0000, 0x001F}, {0, 0}};
static const struct tags interop_tags[] = {{0x0001, 0x0002}, {0x1000, 0x1002}, {0, 0}};

/* More than the tags of a table, with two pointers to other directories. */
#define ENTRIES_MAX 128

struct entry {
    uint16_t tag, type;
    uint32_t count;
    size_t at, bytes; /* of its values in the source; 0: they are invalid */
    enum ifd child;   /* IFD_MAIN: none */
};

struct copy {
    struct tiff from;
    struct {
        struct entry entries[ENTRIES_MAX]; /* by ascending tag */
        unsigned count;
        size_t at; /* in the copy; 0: there are no entries */
    } ifds[IFD_COUNT];
    size_t length;
};

/* ---- choose --------------------------------------------------------------------------------- */

static bool is_listed(const struct tags *tags, unsigned tag)
{
    for (; tags->last != 0; tags++)
        if (tag >= tags->first && tag <= tags->last)
            return true;
    return false;
}

/* Values are at even offsets: TIFF 6.0, section 2. */
static size_t outside_bytes(const struct entry *entry)
{
    return entry->bytes > 4 ? entry->bytes + entry->bytes % 2 : 0;
}

static size_t directory_bytes(unsigned count)
{
    return 2 + (size_t)count * TIFF_ENTRY_BYTES + 4;
}

/* A value with a JPEG in it is an image, whatever its tag says. */
static bool is_image(const uint8_t *bytes, size_t length)
{
    return memmem(bytes, length, "\xFF\xD8\xFF", 3) != NULL;
}

/* Of two entries with a tag, the first counts. */
static void add_entry(struct copy *copy, enum ifd ifd, struct entry entry)
{
    struct entry *entries = copy->ifds[ifd].entries;
    unsigned at = 0, *count = &copy->ifds[ifd].count;
    while (at < *count && entries[at].tag < entry.tag)
        at++;
    if (*count == ENTRIES_MAX || (at < *count && entries[at].tag == entry.tag))
        return;
    memmove(entries + at + 1, entries + at, (*count - at) * sizeof *entries);
    entries[at] = entry;
    (*count)++;
}

static void add_entries(struct copy *copy, enum ifd ifd, size_t directory_at,
                        const struct tags *tags)
{
    const struct tiff *tiff = &copy->from;
    struct tiff_directory directory = tiff_directory_at(tiff, directory_at);
    for (uint32_t i = 0; i < directory.count; i++) {
        size_t at = directory.at + (size_t)i * TIFF_ENTRY_BYTES;
        struct entry entry = {.tag = (uint16_t)tiff_number(tiff, at, 2),
                              .type = (uint16_t)tiff_number(tiff, at + 2, 2),
                              .count = tiff_number(tiff, at + 4, 4)};
        if (!is_listed(tags, entry.tag))
            continue;
        entry.at = tiff_values(tiff, at, &entry.bytes);
        entry.bytes = entry.at != 0 ? entry.bytes : 0;
        add_entry(copy, ifd, entry);
    }
}

/* Also removes invalid values. Called after the entries were chosen, so that thousands of entries
 * with one long value take no longer. */
static void remove_images(struct copy *copy)
{
    for (int i = 0; i < IFD_COUNT; i++) {
        struct entry *entries = copy->ifds[i].entries;
        unsigned kept = 0;
        for (unsigned k = 0; k < copy->ifds[i].count; k++)
            if (entries[k].at != 0 &&
                !is_image(copy->from.bytes + entries[k].at, entries[k].bytes))
                entries[kept++] = entries[k];
        copy->ifds[i].count = kept;
    }
}

/* Sets the offsets of the directories, and the length. */
static void place(struct copy *copy)
{
    copy->length = TIFF_HEADER_BYTES;
    for (int i = 0; i < IFD_COUNT; i++) {
        unsigned count = copy->ifds[i].count;
        if (count == 0)
            continue;
        copy->ifds[i].at = copy->length;
        copy->length += directory_bytes(count);
        for (unsigned k = 0; k < count; k++)
            copy->length += outside_bytes(&copy->ifds[i].entries[k]);
    }
}

/* Removes the longest values until the copy fits the segment of a JPEG: entries may share a value.
 * Leaves room for the pointers to directories, and for directories with only a pointer. */
static void remove_longest(struct copy *copy)
{
    const size_t pointers_bytes = (IFD_COUNT - 1) * directory_bytes(1);
    for (place(copy); copy->length > EXIF_KEPT_BYTES_MAX - pointers_bytes; place(copy)) {
        struct entry *longest = NULL;
        int ifd = IFD_MAIN;
        for (int i = 0; i < IFD_COUNT; i++)
            for (unsigned k = 0; k < copy->ifds[i].count; k++)
                if (!longest || copy->ifds[i].entries[k].bytes > longest->bytes) {
                    longest = &copy->ifds[i].entries[k];
                    ifd = i;
                }
        assert(longest); /* directories alone fit */
        unsigned after = --copy->ifds[ifd].count - (unsigned)(longest - copy->ifds[ifd].entries);
        memmove(longest, longest + 1, after * sizeof *longest);
    }
}

/* The entry of a directory that points to another one, if that has entries. */
static void add_child(struct copy *copy, enum ifd parent, enum tiff_tag tag, enum ifd child)
{
    if (copy->ifds[child].count > 0)
        add_entry(copy, parent, (struct entry){(uint16_t)tag, TIFF_LONG, 1, 0, 4, child});
}

static void choose_all(struct copy *copy)
{
    const struct tiff *tiff = &copy->from;
    struct tiff_directory main = tiff_first_directory(tiff);
    size_t exif_at = tiff_value(tiff, &main, TAG_EXIF_IFD);
    struct tiff_directory exif = tiff_directory_at(tiff, exif_at);
    add_entries(copy, IFD_MAIN, tiff_number(tiff, 4, 4), main_tags);
    add_entries(copy, IFD_EXIF, exif_at, exif_tags);
    add_entries(copy, IFD_GPS, tiff_value(tiff, &main, TAG_GPS_IFD), gps_tags);
    add_entries(copy, IFD_INTEROP, tiff_value(tiff, &exif, TAG_INTEROP_IFD), interop_tags);
}

static void choose_notice(struct copy *copy)
{
    add_entries(copy, IFD_MAIN, tiff_number(&copy->from, 4, 4), notice_tags);
}

/* After the entries were chosen. */
static void finish(struct copy *copy)
{
    remove_images(copy);
    remove_longest(copy);
    add_child(copy, IFD_EXIF, TAG_INTEROP_IFD, IFD_INTEROP);
    add_child(copy, IFD_MAIN, TAG_EXIF_IFD, IFD_EXIF);
    add_child(copy, IFD_MAIN, TAG_GPS_IFD, IFD_GPS);
    place(copy);
}

/* ---- write ---------------------------------------------------------------------------------- */

static void write_directory(const struct copy *copy, enum ifd ifd, uint8_t *to)
{
    const struct entry *entries = copy->ifds[ifd].entries;
    unsigned count = copy->ifds[ifd].count;
    bool little = copy->from.little;
    size_t at = copy->ifds[ifd].at, values_at = at + directory_bytes(count);
    tiff_write(to + at, count, 2, little);
    at += 2;
    for (unsigned i = 0; i < count; i++, at += TIFF_ENTRY_BYTES) {
        const struct entry *entry = &entries[i];
        const uint8_t *values = copy->from.bytes + entry->at;
        tiff_write(to + at, entry->tag, 2, little);
        tiff_write(to + at + 2, entry->type, 2, little);
        tiff_write(to + at + 4, entry->count, 4, little);
        if (entry->child != IFD_MAIN)
            tiff_write(to + at + 8, (uint32_t)copy->ifds[entry->child].at, 4, little);
        else if (entry->bytes <= 4)
            memcpy(to + at + 8, values, entry->bytes);
        else {
            tiff_write(to + at + 8, (uint32_t)values_at, 4, little);
            memcpy(to + values_at, values, entry->bytes);
            values_at += outside_bytes(entry);
        }
    }
}

static bool copy_chosen(const uint8_t *blob, size_t bytes, void choose(struct copy *copy),
                        uint8_t **to, size_t *to_bytes)
{
    struct copy copy = {.length = 0};
    if (!tiff_open(&copy.from, blob, bytes))
        return true;
    choose(&copy);
    finish(&copy);
    assert(copy.length <= EXIF_KEPT_BYTES_MAX);
    if (copy.ifds[IFD_MAIN].count == 0)
        return true;
    *to = calloc(1, copy.length);
    if (!*to)
        return false;
    *to_bytes = copy.length;
    memcpy(*to, copy.from.bytes, 4);
    tiff_write(*to + 4, TIFF_HEADER_BYTES, 4, copy.from.little);
    for (int i = 0; i < IFD_COUNT; i++)
        if (copy.ifds[i].count > 0)
            write_directory(&copy, (enum ifd)i, *to);
    return true;
}

bool exif_copy(const uint8_t *blob, size_t bytes, uint8_t **to, size_t *to_bytes)
{
    return copy_chosen(blob, bytes, choose_all, to, to_bytes);
}

bool exif_notice(const uint8_t *blob, size_t bytes, uint8_t **to, size_t *to_bytes)
{
    return copy_chosen(blob, bytes, choose_notice, to, to_bytes);
}
