/*
 * exif_copy.c - copies EXIF data for outputs: writes new TIFF data with the tags that describe the
 * photograph.
 *
 * Nothing else of an input may be published, above all no thumbnail, which may show what was
 * cropped from the image. So only tags of the tables below are copied, and only the bytes of their
 * values. A hostile file may have values that overlap a thumbnail or a value that is not copied;
 * they are left out. MakerNote is not copied: it has previews and serial numbers, and its offsets
 * would break.
 *
 * In this file, an IFD (image file directory) is a directory of TIFF data (tiff.h). IFD 0 is the
 * first one. A secret is a range of bytes that must not be published.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/codec_impl.h"
#include "codecs/tiff.h"

/* The directories of a copy, in their order. IFD_MAIN is IFD 0. */
enum ifd { IFD_MAIN, IFD_EXIF, IFD_GPS, IFD_INTEROP, IFD_COUNT };

/* The tags to copy, in ascending order: those of EXIF 3.0, sections 4.6.5 to 4.6.8, without
 * MakerNote (0x927C), strips of images and thumbnails. In IFD 0 also Rating (0x4746, 0x4749) and
 * the texts that Windows adds (0x9C9B to 0x9C9F). */
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

/* The tags of IFD_MAIN and IFD_EXIF whose values are text. */
static const struct tags text_tags[] = {
    {0x010E, 0x0110}, {0x0131, 0x0132}, {0x013B, 0x013B}, {0x8298, 0x8298}, {0x8824, 0x8824},
    {0x9003, 0x9004}, {0x9010, 0x9012}, {0x9290, 0x9292}, {0xA004, 0xA004}, {0xA420, 0xA420},
    {0xA430, 0xA431}, {0xA433, 0xA43C}, {0, 0}};

/* The most entries of a directory: all tags of a table, and two pointers to other directories. */
#define ENTRIES_MAX 128
/* The most secrets and the most directories, which limit the time that a copy takes. Photographs
 * have fewer: a directory for a thumbnail, and an EXIF directory of 40 entries. If there are more,
 * nothing is copied. */
#define RANGES_MAX  1024
#define VISITED_MAX 12

/* An entry of the copy. */
struct entry {
    uint16_t tag, type;
    uint32_t count;
    size_t at, bytes; /* offset and size of its values in the source; 0: they are invalid */
    enum ifd child;   /* the directory to which it points; IFD_MAIN: it is no pointer */
};

/* A range of bytes of the source. */
struct range {
    size_t from, to;
};

struct copy {
    struct tiff from;                /* the source */
    struct range secret[RANGES_MAX]; /* values that overlap these are not copied */
    size_t secrets;              /* number of secrets; more than RANGES_MAX: nothing is copied */
    size_t visited[VISITED_MAX]; /* offsets of the directories that were searched for secrets */
    unsigned visits;
    int orientation; /* 2 to 8: the copy gets a tag with it */
    struct {
        struct entry entries[ENTRIES_MAX]; /* by ascending tag */
        unsigned count;
        size_t at; /* offset in the copy; 0: there are no entries */
    } ifds[IFD_COUNT];
    size_t length; /* of the copy */
};

/* ---- choose --------------------------------------------------------------------------------- */

static bool is_listed(const struct tags *tags, unsigned tag)
{
    for (; tags->last != 0; tags++)
        if (tag >= tags->first && tag <= tags->last)
            return true;
    return false;
}

/* The bytes of an entry's values outside the entry. They begin at an even offset: TIFF 6.0,
 * section 2. */
static size_t outside_bytes(const struct entry *entry)
{
    return entry->bytes > 4 ? entry->bytes + entry->bytes % 2 : 0;
}

static size_t directory_bytes(unsigned count)
{
    return 2 + (size_t)count * TIFF_ENTRY_BYTES + 4;
}

/* Whether a value contains the first bytes of an image file. */
static bool has_image(const uint8_t *bytes, size_t length)
{
    static const struct {
        const char *text;
        size_t bytes;
    } signs[] = {{"\xFF\xD8\xFF", 3}, {"\x89PNG", 4},  {"WEBPVP8", 7}, {"GIF87a", 6},
                 {"GIF89a", 6},       {"II*\0", 4},     {"MM\0*", 4},   {"\r\n\x87\n", 4}};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (memmem(bytes, length, signs[i].text, signs[i].bytes) != NULL)
            return true;
    const uint8_t *box = memmem(bytes, length, "ftyp", 4); /* after a size below 64 KiB */
    return box != NULL && box - bytes >= 4 && box[-4] == 0 && box[-3] == 0;
}

/* ---- secrets -------------------------------------------------------------------------------- */

/* Adds a range of the source. It may end outside the source, and is then cut. */
static void add_secret(struct copy *copy, size_t at, size_t bytes)
{
    size_t length = copy->from.length;
    if (at >= length || bytes == 0 || copy->secrets > RANGES_MAX)
        return;
    if (copy->secrets < RANGES_MAX)
        copy->secret[copy->secrets] =
            (struct range){at, bytes < length - at ? at + bytes : length};
    copy->secrets++;
}

static bool is_secret(const struct copy *copy, size_t at, size_t bytes)
{
    for (size_t i = 0; i < copy->secrets; i++)
        if (at < copy->secret[i].to && copy->secret[i].from < at + bytes)
            return true;
    return false;
}

/* The number with this index among the values of an entry, if they are SHORT or LONG; 0: there is
 * no such number. */
static uint32_t number_of(const struct tiff *tiff, size_t entry, size_t number)
{
    size_t bytes, at = entry != 0 ? tiff_values(tiff, entry, &bytes) : 0;
    unsigned type = at != 0 ? tiff_number(tiff, entry + 2, 2) : 0;
    unsigned size = type == TIFF_SHORT ? 2 : type == TIFF_LONG ? 4 : 0;
    return size == 0 || number >= bytes / size ? 0 : tiff_number(tiff, at + number * size, size);
}

/* Adds the images of a directory as secrets: one tag has their offsets, another one their lengths.
 * If a length is missing, the image may go to the end. */
static void add_images(struct copy *copy, const struct tiff_directory *directory,
                       enum tiff_tag offsets, enum tiff_tag lengths)
{
    size_t at = tiff_find(&copy->from, directory, offsets);
    size_t length_at = tiff_find(&copy->from, directory, lengths);
    uint32_t offset;
    for (size_t i = 0; i <= RANGES_MAX && (offset = number_of(&copy->from, at, i)) != 0; i++) {
        uint32_t bytes = number_of(&copy->from, length_at, i);
        add_secret(copy, offset, bytes > 0 ? bytes : copy->from.length);
    }
}

/* Adds the images and the MakerNote of a directory as secrets. Returns false if the directory was
 * visited before, is empty, or is one too many. */
static bool visit(struct copy *copy, size_t at)
{
    const struct tiff *tiff = &copy->from;
    struct tiff_directory directory = tiff_directory_at(tiff, at);
    size_t bytes;
    for (unsigned i = 0; i < copy->visits; i++)
        if (copy->visited[i] == at)
            return false;
    if (copy->visits == VISITED_MAX && directory.count > 0)
        copy->secrets = RANGES_MAX + 1;
    if (copy->visits == VISITED_MAX || directory.count == 0)
        return false;
    copy->visited[copy->visits++] = at;
    add_images(copy, &directory, TAG_THUMBNAIL, TAG_THUMBNAIL_BYTES);
    add_images(copy, &directory, TAG_STRIP_OFFSETS, TAG_STRIP_BYTES);
    add_images(copy, &directory, TAG_TILE_OFFSETS, TAG_TILE_BYTES);
    size_t note = tiff_find(tiff, &directory, TAG_MAKER_NOTE);
    size_t note_at = note != 0 ? tiff_values(tiff, note, &bytes) : 0;
    if (note_at != 0)
        add_secret(copy, note_at, bytes);
    return true;
}

/* Visits a directory that is not copied. Its bytes and its values are marked as secret. */
static bool visit_dropped(struct copy *copy, size_t at)
{
    const struct tiff *tiff = &copy->from;
    struct tiff_directory directory = tiff_directory_at(tiff, at);
    if (!visit(copy, at))
        return false;
    add_secret(copy, at, directory_bytes(directory.count));
    for (uint32_t i = 0; i < directory.count && copy->secrets <= RANGES_MAX; i++) {
        size_t bytes, values = tiff_values(tiff, directory.at + i * TIFF_ENTRY_BYTES, &bytes);
        if (values != 0 && bytes > 4)
            add_secret(copy, values, bytes);
    }
    return true;
}

/* Visits IFD 0, the directories of thumbnails that follow it in a chain, and those in its tag
 * SubIFDs. */
static void visit_images(struct copy *copy)
{
    const struct tiff *tiff = &copy->from;
    struct tiff_directory main = tiff_first_directory(tiff), directory = main;
    size_t subs = tiff_find(tiff, &main, TAG_SUB_IFDS), at = tiff_number(tiff, 4, 4);
    uint32_t sub;
    for (bool more = visit(copy, at); more; more = visit_dropped(copy, at)) {
        directory = tiff_directory_at(tiff, at);
        size_t next_at = directory.at + (size_t)directory.count * TIFF_ENTRY_BYTES;
        at = next_at + 4 <= tiff->length ? tiff_number(tiff, next_at, 4) : 0;
    }
    for (size_t i = 0; i <= VISITED_MAX && (sub = number_of(tiff, subs, i)) != 0; i++)
        visit_dropped(copy, sub);
}

/* ---- entries -------------------------------------------------------------------------------- */

/* Adds an entry, unless there is one with the same tag: the first of two counts. */
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

/* Whether the value of an entry may be copied. */
static bool is_published(const struct copy *copy, enum ifd ifd, const struct entry *entry)
{
    bool is_text = ifd <= IFD_EXIF && is_listed(text_tags, entry->tag);
    return entry->at != 0 && copy->secrets <= RANGES_MAX &&
           (!is_text || entry->type == TIFF_ASCII || entry->type == TIFF_UTF8) &&
           (entry->bytes <= 4 || !is_secret(copy, entry->at, entry->bytes)) &&
           !has_image(copy->from.bytes + entry->at, entry->bytes);
}

/* Removes entries whose values are invalid or must not be published. Called after add_entries has
 * dropped repeated tags: otherwise thousands of entries could let the same long value be searched
 * again and again. */
static void remove_secrets(struct copy *copy)
{
    for (int i = 0; i < IFD_COUNT; i++) {
        struct entry *entries = copy->ifds[i].entries;
        unsigned kept = 0;
        for (unsigned k = 0; k < copy->ifds[i].count; k++)
            if (is_published(copy, (enum ifd)i, &entries[k]))
                entries[kept++] = entries[k];
        copy->ifds[i].count = kept;
    }
}

/* Sets the offsets of the directories in the copy, and the length of the copy. */
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

/* Removes the longest values until the copy fits a segment of a JPEG. The copy may be longer than
 * the source, because entries of the source may share a value. Leaves enough bytes for what
 * finish() adds then: pointers to directories, directories with only a pointer, and the
 * orientation. */
static void remove_longest(struct copy *copy)
{
    const size_t added_bytes = (IFD_COUNT - 1) * directory_bytes(1) +
                               (copy->orientation > 1 ? TIFF_ENTRY_BYTES : 0);
    for (place(copy); copy->length > EXIF_KEPT_BYTES_MAX - added_bytes; place(copy)) {
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

/* Adds to a directory the entry that points to another one, if that has entries. */
static void add_child(struct copy *copy, enum ifd parent, enum tiff_tag tag, enum ifd child)
{
    if (copy->ifds[child].count > 0)
        add_entry(copy, parent, (struct entry){(uint16_t)tag, TIFF_LONG, 1, 0, 4, child});
}

/* Adds the orientation if it is missing. Replaces one with a type that exif_fit cannot change. */
static void set_orientation(struct copy *copy)
{
    const struct entry own = {.tag = TAG_ORIENTATION, .type = TIFF_SHORT, .count = 1, .bytes = 2};
    struct entry *entries = copy->ifds[IFD_MAIN].entries;
    for (unsigned i = 0; i < copy->ifds[IFD_MAIN].count; i++)
        if (entries[i].tag == TAG_ORIENTATION && !exif_is_orientation(entries[i].type))
            entries[i] = own;
    add_entry(copy, IFD_MAIN, own);
}

/* The offsets of the directories in the source. 0: there is none, or it was visited as another
 * one. */
struct places {
    size_t exif, gps, interop;
};

static struct places visit_all(struct copy *copy, bool visit_one(struct copy *copy, size_t at))
{
    const struct tiff *tiff = &copy->from;
    struct tiff_directory main = tiff_first_directory(tiff);
    struct places at = {.exif = tiff_value(tiff, &main, TAG_EXIF_IFD),
                        .gps = tiff_value(tiff, &main, TAG_GPS_IFD)};
    visit_images(copy);
    at.exif = visit_one(copy, at.exif) ? at.exif : 0;
    struct tiff_directory exif = tiff_directory_at(tiff, at.exif);
    at.gps = visit_one(copy, at.gps) ? at.gps : 0;
    at.interop = tiff_value(tiff, &exif, TAG_INTEROP_IFD);
    at.interop = visit_one(copy, at.interop) ? at.interop : 0;
    return at;
}

static void choose_all(struct copy *copy)
{
    struct places at = visit_all(copy, visit);
    add_entries(copy, IFD_MAIN, tiff_number(&copy->from, 4, 4), main_tags);
    add_entries(copy, IFD_EXIF, at.exif, exif_tags);
    add_entries(copy, IFD_GPS, at.gps, gps_tags);
    add_entries(copy, IFD_INTEROP, at.interop, interop_tags);
}

static void choose_notice(struct copy *copy)
{
    visit_all(copy, visit_dropped);
    add_entries(copy, IFD_MAIN, tiff_number(&copy->from, 4, 4), notice_tags);
}

/* Call it after the entries were chosen: removes some, adds pointers, and sets all offsets. */
static void finish(struct copy *copy)
{
    remove_secrets(copy);
    remove_longest(copy);
    if (copy->orientation > 1)
        set_orientation(copy);
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
        else if (entry->at == 0)
            tiff_write(to + at + 8, (uint32_t)copy->orientation, 2, little);
        else if (entry->bytes <= 4)
            memcpy(to + at + 8, values, entry->bytes);
        else {
            tiff_write(to + at + 8, (uint32_t)values_at, 4, little);
            memcpy(to + values_at, values, entry->bytes);
            values_at += outside_bytes(entry);
        }
    }
}

static bool copy_chosen(const uint8_t *blob, size_t bytes, int orientation,
                        void choose(struct copy *copy), uint8_t **to, size_t *to_bytes)
{
    struct copy copy = {.orientation = orientation};
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

bool exif_copy(const uint8_t *blob, size_t bytes, int orientation, uint8_t **to, size_t *to_bytes)
{
    static const uint8_t empty[] = "II*\0\x08\0\0\0\0\0\0\0\0";
    if (!blob) {
        blob = empty;
        bytes = sizeof empty;
    }
    return copy_chosen(blob, bytes, orientation, choose_all, to, to_bytes);
}

bool exif_notice(const uint8_t *blob, size_t bytes, uint8_t **to, size_t *to_bytes)
{
    return copy_chosen(blob, bytes, 1, choose_notice, to, to_bytes);
}
