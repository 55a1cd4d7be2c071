/* heif_boxes.c - reads the boxes of a HEIF file (heif_boxes.h). */
#ifdef GPUIMGD_HEIF

#include "codecs/confined/heif/heif_boxes.h"

#include <string.h>

/* A part of the file, or the content of a box. Reads beyond its end give zeros. */
struct span {
    const uint8_t *at, *end;
};

static uint32_t take(struct span *span, unsigned bytes)
{
    uint32_t value = 0;
    if ((size_t)(span->end - span->at) < bytes) {
        span->at = span->end;
        return 0;
    }
    for (; bytes > 0; bytes--)
        value = value << 8 | *span->at++;
    return value;
}

/* Takes the next box off a span. false: there is none. */
static bool take_box(struct span *span, char type[5], struct span *content)
{
    enum { header = 8, large_header = 16 };
    size_t left = (size_t)(span->end - span->at), used = header;
    if (left < header)
        return false;
    struct span box = *span;
    uint64_t bytes = take(&box, 4);
    memcpy(type, box.at, 4);
    type[4] = '\0';
    box.at += 4;
    if (bytes == 1 && left >= large_header) {
        bytes = (uint64_t)take(&box, 4) << 32;
        bytes |= take(&box, 4);
        used = large_header;
    } else if (bytes == 0)
        bytes = left;
    if (bytes < used || bytes > left)
        return false;
    *content = (struct span){box.at, span->at + bytes};
    span->at += bytes;
    return true;
}

/* Finds the box in which box `index` (from 0) of this type is. */
static bool find_box(struct span span, const char *wanted, unsigned index, struct span *content)
{
    char type[5];
    while (take_box(&span, type, content))
        if (strcmp(type, wanted) == 0 && index-- == 0)
            return true;
    return false;
}

static void add_needed(struct heif_layout *layout, uint64_t at, uint64_t bytes)
{
    if (layout->needed_count < HEIF_PARTS_MAX)
        layout->needed[layout->needed_count++] = (struct heif_part){at, bytes};
}

/* Finds the content of the first box of a type in a part of the file. */
static bool enter_box(struct confined_source *source, const char *type, struct heif_part *part)
{
    enum { short_header = 8, long_header = 16 };
    for (uint64_t at = part->at, end = at + part->bytes; at < end;) {
        size_t count = long_header;
        const uint8_t *bytes = confined_read(source, at, &count);
        if (!bytes || count < short_header)
            return false;
        struct span head = {bytes, bytes + count};
        uint64_t length = take(&head, 4), header = short_header;
        bool is_type = memcmp(head.at, type, 4) == 0;
        head.at += 4;
        if (length == 1) {
            length = (uint64_t)take(&head, 4) << 32;
            length |= take(&head, 4);
            header = long_header;
        } else if (length == 0)
            length = end - at;
        if (length < header || length > end - at)
            return false;
        *part = (struct heif_part){at + header, length - header};
        if (is_type)
            return true;
        at += length;
    }
    return false;
}

/* Finds the content of the box "meta" of the file, without its version. */
static bool find_meta(struct confined_source *source, struct heif_layout *layout, struct span *meta)
{
    enum { version_bytes = 4 };
    struct heif_part part = {0, source->size};
    if (!enter_box(source, "meta", &part))
        return false;
    add_needed(layout, part.at, part.bytes);
    size_t count = (size_t)part.bytes;
    const uint8_t *bytes = confined_read(source, part.at, &count);
    if (!bytes || count < version_bytes)
        return false;
    *meta = (struct span){bytes + version_bytes, bytes + count};
    return true;
}

/* ---- the primary item ----------------------------------------------------------------------- */

static bool find_primary(struct span meta, uint32_t *id)
{
    struct span box;
    if (!find_box(meta, "pitm", 0, &box))
        return false;
    *id = take(&box, 4) >> 24 == 0 ? take(&box, 2) : take(&box, 4);
    return true;
}

struct item {
    uint32_t id;
    char type[5];
    bool is_hidden;
};

/* Takes the next item off the content of "iinf", which begins with the items. false: no more. */
static bool take_item(struct span *items, struct item *item)
{
    enum { protection = 2 };
    struct span box;
    char name[5];
    while (take_box(items, name, &box)) {
        uint32_t version_and_flags = take(&box, 4), version = version_and_flags >> 24;
        if (version < 2)
            continue;
        item->id = take(&box, version == 2 ? 2 : 4);
        item->is_hidden = version_and_flags & 1;
        take(&box, protection);
        if (box.end - box.at < 4)
            continue;
        memcpy(item->type, box.at, 4);
        item->type[4] = '\0';
        return true;
    }
    return false;
}

static bool find_items(struct span meta, struct span *items)
{
    bool found = find_box(meta, "iinf", 0, items);
    if (found)
        take(items, take(items, 4) >> 24 == 0 ? 2 : 4);
    return found;
}

static bool find_type(struct span meta, uint32_t wanted, char type[5])
{
    struct span items;
    struct item item;
    bool found = find_items(meta, &items);
    do
        found = found && take_item(&items, &item);
    while (found && item.id != wanted);
    if (found)
        memcpy(type, item.type, sizeof item.type);
    return found;
}

/* ---- the data of items ---------------------------------------------------------------------- */

static uint64_t take_wide(struct span *span, unsigned bytes)
{
    uint64_t high = bytes > 4 ? take(span, bytes - 4) : 0;
    return high << 32 | take(span, bytes > 4 ? 4 : bytes);
}

/* Items that are not coded images. */
struct described {
    uint32_t ids[HEIF_PARTS_MAX];
    unsigned count;
};

static struct described find_described(struct span meta)
{
    struct described found = {.count = 0};
    struct span items;
    struct item item;
    bool more = find_items(meta, &items);
    while (more && found.count < HEIF_PARTS_MAX && (more = take_item(&items, &item)))
        if (strcmp(item.type, "Exif") == 0 || strcmp(item.type, "mime") == 0 ||
            strcmp(item.type, "grid") == 0)
            found.ids[found.count++] = item.id;
    return found;
}

static bool is_among(const struct described *items, uint32_t id)
{
    unsigned i = 0;
    while (i < items->count && items->ids[i] != id)
        i++;
    return i < items->count;
}

/* Notes where the data of items is that are not coded images, if it is not in "meta". */
static void find_needed(struct span meta, struct heif_layout *layout)
{
    enum { number_max = 8 };
    struct span iloc;
    if (!find_box(meta, "iloc", 0, &iloc))
        return;
    const struct described wanted = find_described(meta);
    unsigned version = take(&iloc, 4) >> 24, sizes = take(&iloc, 2);
    unsigned offset = sizes >> 12 & 15, length = sizes >> 8 & 15, base = sizes >> 4 & 15;
    unsigned index = version > 0 ? sizes & 15 : 0;
    if (offset > number_max || length > number_max || base > number_max || index > number_max)
        return;
    take(&iloc, version < 2 ? 2 : 4);
    while (iloc.at < iloc.end) {
        uint32_t id = take(&iloc, version < 2 ? 2 : 4);
        unsigned method = version > 0 ? take(&iloc, 2) & 15 : 0;
        take(&iloc, 2);
        uint64_t start = take_wide(&iloc, base);
        bool is_wanted = method == 0 && is_among(&wanted, id);
        for (unsigned extents = take(&iloc, 2); extents > 0 && iloc.at < iloc.end; extents--) {
            take_wide(&iloc, index);
            uint64_t at = start + take_wide(&iloc, offset), bytes = take_wide(&iloc, length);
            if (is_wanted)
                add_needed(layout, at, bytes);
        }
    }
}

/* ---- several images ------------------------------------------------------------------------- */

/* The items that belong to others. Files have no larger ids than these, or nearly never; items with
 * such count as images for themselves. */
#define IDS 65536
static uint8_t parts[IDS / 8];

static bool is_part(uint32_t id)
{
    return id < IDS && parts[id / 8] >> id % 8 & 1;
}

static void mark_part(uint32_t id)
{
    if (id < IDS)
        parts[id / 8] |= (uint8_t)(1u << id % 8);
}

/* Marks the cells of grids and other sources of derived images, thumbnails, and auxiliary images
 * such as alpha. */
static void mark_parts(struct span meta)
{
    struct span iref, box;
    char type[5];
    memset(parts, 0, sizeof parts);
    if (!find_box(meta, "iref", 0, &iref))
        return;
    unsigned id_bytes = take(&iref, 4) >> 24 == 0 ? 2 : 4;
    while (take_box(&iref, type, &box)) {
        bool is_derived = strcmp(type, "dimg") == 0;
        uint32_t from = take(&box, id_bytes), count = take(&box, 2);
        if (strcmp(type, "thmb") == 0 || strcmp(type, "auxl") == 0)
            mark_part(from);
        for (; is_derived && count > 0 && box.at < box.end; count--)
            mark_part(take(&box, id_bytes));
    }
}

static bool is_image(const char *type)
{
    static const char types[][5] = {"hvc1", "av01", "avc1", "jpeg", "grid", "iovl", "iden"};
    bool is = false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        is |= strcmp(type, types[i]) == 0;
    return is;
}

static uint32_t count_images(struct span meta, uint32_t primary)
{
    struct span items;
    struct item item;
    uint32_t count = 1;
    mark_parts(meta);
    for (bool more = find_items(meta, &items); more && (more = take_item(&items, &item));)
        count += item.id != primary && is_image(item.type) && !item.is_hidden && !is_part(item.id);
    return count;
}

/* The images of a sequence: the samples of the first track. */
static uint32_t count_samples(struct confined_source *source)
{
    static const char path[][5] = {"moov", "trak", "mdia", "minf", "stbl", "stsz"};
    enum { stsz_bytes = 12 };
    struct heif_part part = {0, source->size};
    size_t count = stsz_bytes;
    for (size_t i = 0; i < sizeof path / sizeof *path; i++)
        if (!enter_box(source, path[i], &part))
            return 0;
    const uint8_t *bytes = confined_read(source, part.at, &count);
    if (!bytes || count < stsz_bytes || part.bytes < stsz_bytes)
        return 0;
    struct span stsz = {bytes + 8, bytes + count}; /* after the version, and a size for all */
    return take(&stsz, 4);
}

/* ---- properties ----------------------------------------------------------------------------- */

#define ASSOCIATIONS_MAX 255

/* The properties of an item: their indices among the boxes of "ipco", from 1, in their order. */
struct associations {
    unsigned indices[ASSOCIATIONS_MAX], count;
};

static void find_associations(struct span iprp, uint32_t id, struct associations *found)
{
    struct span box;
    for (unsigned i = 0; find_box(iprp, "ipma", i, &box); i++) {
        uint32_t version = take(&box, 4), entries = take(&box, 4);
        bool is_wide = version & 1;
        for (; entries > 0 && box.at < box.end; entries--) {
            bool is_ours = take(&box, version >> 24 == 0 ? 2 : 4) == id;
            unsigned count = take(&box, 1);
            for (; count > 0; count--) {
                unsigned index = is_wide ? take(&box, 2) & 0x7FFF : take(&box, 1) & 0x7F;
                if (is_ours && found->count < ASSOCIATIONS_MAX)
                    found->indices[found->count++] = index;
            }
        }
    }
}

static struct heif_sides read_sides(struct span ispe)
{
    take(&ispe, 4);
    uint32_t width = take(&ispe, 4);
    return (struct heif_sides){width, take(&ispe, 4)};
}

/* A turn after a mirror is the opposite turn before it. */
static void add_turns(struct heif_layout *layout, unsigned turns)
{
    layout->turns += layout->mirror == CONFINED_PLAIN ? turns : 4 - turns;
}

/* Two mirrors are a half turn, or nothing. */
static void add_mirror(struct heif_layout *layout, enum confined_mirror mirror)
{
    if (layout->mirror == CONFINED_PLAIN) {
        layout->mirror = mirror;
        return;
    }
    layout->turns += layout->mirror == mirror ? 0 : 2;
    layout->mirror = CONFINED_PLAIN;
}

/* false: the image is cropped after it is turned. */
static bool add_property(struct heif_layout *layout, const char *type, struct span box)
{
    if (strcmp(type, "irot") == 0)
        add_turns(layout, take(&box, 1) & 3);
    else if (strcmp(type, "imir") == 0)
        add_mirror(layout, take(&box, 1) & 1 ? CONFINED_LEFT_RIGHT : CONFINED_TOP_BOTTOM);
    else if (strcmp(type, "clap") == 0) {
        struct confined_aperture aperture;
        uint32_t *pairs[] = {aperture.width, aperture.height, aperture.x, aperture.y};
        for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
            pairs[i][0] = take(&box, 4);
            pairs[i][1] = take(&box, 4);
        }
        if (layout->turns % 4 != 0 || layout->mirror != CONFINED_PLAIN)
            return false;
        layout->crop = confined_crop(layout->sides.width, layout->sides.height, &aperture);
    }
    return true;
}

/* Finds property `index` of the file, from 1. */
static bool find_property(struct span ipco, unsigned index, char type[5], struct span *box)
{
    bool found = index > 0;
    for (; found && index > 0; index--)
        found = take_box(&ipco, type, box);
    return found;
}

/* false: as for add_property. */
static bool read_primary(struct span iprp, struct span ipco, uint32_t id,
                         struct heif_layout *layout)
{
    struct associations own = {.count = 0};
    struct span box;
    char type[5];
    bool ok = true;
    find_associations(iprp, id, &own);
    for (unsigned i = 0; i < own.count; i++)
        if (find_property(ipco, own.indices[i], type, &box) && strcmp(type, "ispe") == 0)
            layout->sides = read_sides(box);
    layout->crop = (struct confined_rect){0, 0, layout->sides.width, layout->sides.height};
    for (unsigned i = 0; i < own.count && ok; i++)
        if (find_property(ipco, own.indices[i], type, &box))
            ok = add_property(layout, type, box);
    return ok;
}

/* Whatever image they belong to, the properties of all images give the most chroma, bits and, for a
 * grid, the sides of its tiles. */
static void read_all(struct span ipco, struct heif_layout *layout)
{
    enum { chroma_at = 16, sample_bits = 8 };
    const struct heif_sides *sides = &layout->sides;
    struct span box;
    char type[5];
    uint64_t most = 0;
    layout->tile = *sides;
    while (take_box(&ipco, type, &box)) {
        if (strcmp(type, "ispe") == 0) {
            struct heif_sides other = read_sides(box);
            uint64_t area = (uint64_t)other.width * other.height;
            bool is_whole = other.width == sides->width && other.height == sides->height;
            if (area > most && !is_whole && strcmp(layout->type, "grid") == 0) {
                most = area;
                layout->tile = other;
            }
        } else if (strcmp(type, "hvcC") == 0 && box.end - box.at > chroma_at + 2) {
            unsigned chroma = box.at[chroma_at] & 3;
            unsigned luma = (box.at[chroma_at + 1] & 7) + sample_bits;
            unsigned other = (box.at[chroma_at + 2] & 7) + sample_bits;
            unsigned depth = luma > other ? luma : other;
            layout->chroma = chroma > layout->chroma ? chroma : layout->chroma;
            layout->depth = depth > layout->depth ? depth : layout->depth;
        }
    }
}

static struct heif_problem damaged(const char *text)
{
    return (struct heif_problem){STATUS_DECODE_FAILED, text};
}

struct heif_problem heif_read_layout(struct confined_source *source, struct heif_layout *layout)
{
    struct span meta, iprp, ipco;
    uint32_t id;
    *layout = (struct heif_layout){.depth = 8, .images = 1};
    if (!find_meta(source, layout, &meta))
        return damaged("it has no complete box \"meta\"");
    if (!find_primary(meta, &id) || !find_type(meta, id, layout->type))
        return damaged("it has no primary image");
    find_needed(meta, layout);
    if (!find_box(meta, "iprp", 0, &iprp) || !find_box(iprp, "ipco", 0, &ipco))
        return damaged("it has no properties of images");
    if (!read_primary(iprp, ipco, id, layout))
        return (struct heif_problem){STATUS_UNSUPPORTED_FORMAT,
                                     "its image is cropped after it is turned"};
    read_all(ipco, layout);
    uint32_t images = count_images(meta, id), samples = count_samples(source);
    layout->images = images > samples ? images : samples;
    return (struct heif_problem){STATUS_OK, NULL};
}

#endif
