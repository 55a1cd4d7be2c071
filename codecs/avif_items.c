/* avif_items.c - reads the boxes of ISO/IEC 14496-12 for which libavif makes entries. */
#include "codecs/avif_items.h"

#include <stdbool.h>
#include <string.h>

#include "conf/limits.h"

#define DEPTH_MAX 6 /* moov, trak, mdia, minf, stbl, stsd */
#define FLAGS_BYTES 4 /* version and flags of a full box */

/* Upper bounds on the memory of libavif per entry. Its lists double, by a copy: that is up to three
 * times their bytes. Measured with libavif 0.11: 1.7 KiB, 3.1 KiB, 1.3 KiB, 145 and 28 bytes. */
enum {
    item_memory = 2048,
    track_memory = 4096,
    description_memory = 2048, /* of the samples of a track */
    property_memory = 256,     /* also for each item that has it */
    extent_memory = 32,
};
/* Per byte of a box of chunks, sizes or times of samples: 8 bytes per 4, three times. */
#define SAMPLES_MEMORY 6

/* A part of the file that is read from its start. */
struct reader {
    const uint8_t *at, *end;
};

struct items {
    size_t extents;
    uint64_t entries; /* memory for them */
    uint64_t joined;
    uint64_t joined_max;
};

/* An unsigned number of 0 to 8 bytes. false: the reader has fewer. */
static bool take(struct reader *reader, unsigned bytes, uint64_t *value)
{
    *value = 0;
    if ((size_t)(reader->end - reader->at) < bytes)
        return false;
    for (unsigned i = 0; i < bytes; i++)
        *value = *value << 8 | *reader->at++;
    return true;
}

static bool is_over(const struct items *items)
{
    return items->extents > AVIF_EXTENTS_MAX || items->entries > AVIF_ENTRIES_BYTES_MAX ||
           items->joined > items->joined_max;
}

/* ---- iloc ---- */

struct iloc {
    unsigned version, offset_bytes, length_bytes, base_bytes, index_bytes;
};

static bool take_iloc_header(struct reader *reader, struct iloc *iloc, uint64_t *count)
{
    uint64_t version, sizes;
    if (!take(reader, FLAGS_BYTES, &version) || !take(reader, 2, &sizes))
        return false;
    iloc->version = (unsigned)(version >> 24);
    iloc->offset_bytes = sizes >> 12 & 15;
    iloc->length_bytes = sizes >> 8 & 15;
    iloc->base_bytes = sizes >> 4 & 15;
    iloc->index_bytes = iloc->version == 1 || iloc->version == 2 ? sizes & 15 : 0;
    return iloc->version <= 2 && iloc->offset_bytes <= 8 && iloc->length_bytes <= 8 &&
           iloc->base_bytes <= 8 && iloc->index_bytes <= 8 &&
           take(reader, iloc->version < 2 ? 2 : 4, count);
}

/* false: the box ends too early, or the extents are over their limits. */
static bool take_extents(struct reader *reader, const struct iloc *iloc, uint64_t count,
                         struct items *items)
{
    uint64_t skipped, bytes, sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        items->extents++;
        items->entries += extent_memory;
        if (!take(reader, iloc->index_bytes, &skipped) ||
            !take(reader, iloc->offset_bytes, &skipped) ||
            !take(reader, iloc->length_bytes, &bytes) || is_over(items))
            return false;
        sum += bytes < items->joined_max ? bytes : items->joined_max + 1;
    }
    items->joined += count > 1 ? sum : 0;
    return !is_over(items);
}

static void read_iloc(struct reader reader, struct items *items)
{
    enum { id_bytes = 2, method_bytes = 2, source_bytes = 2, count_bytes = 2 };
    struct iloc iloc;
    uint64_t length, skipped, count;
    if (!take_iloc_header(&reader, &iloc, &length))
        return;
    for (uint64_t i = 0; i < length; i++) {
        items->extents++;
        items->entries += item_memory;
        if (!take(&reader, iloc.version < 2 ? id_bytes : 2 * id_bytes, &skipped) ||
            !take(&reader, iloc.version > 0 ? method_bytes : 0, &skipped) ||
            !take(&reader, source_bytes, &skipped) || !take(&reader, iloc.base_bytes, &skipped) ||
            !take(&reader, count_bytes, &count) ||
            !take_extents(&reader, &iloc, count, items))
            return;
    }
}

/* ---- boxes ---- */

/* Takes the next box: its type, and its content as a reader. */
static bool take_box(struct reader *reader, uint8_t type[4], struct reader *content)
{
    const uint8_t *start = reader->at;
    uint64_t bytes;
    if (!take(reader, 4, &bytes) || (size_t)(reader->end - reader->at) < 4)
        return false;
    memcpy(type, reader->at, 4);
    reader->at += 4;
    if (bytes == 1 && !take(reader, 8, &bytes))
        return false;
    if (bytes == 0)
        bytes = (uint64_t)(reader->end - start);
    if (bytes < (uint64_t)(reader->at - start) || bytes > (uint64_t)(reader->end - start))
        return false;
    *content = (struct reader){reader->at, start + bytes};
    reader->at = content->end;
    return true;
}

static bool is_type(const uint8_t type[4], const char *name)
{
    return memcmp(type, name, 4) == 0;
}

static size_t bytes_left(const struct reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

/* Counts the boxes in a box, after its first `head` bytes. */
static void count_boxes(struct reader reader, size_t head, unsigned memory, struct items *items)
{
    uint8_t type[4];
    struct reader content;
    reader.at += head < bytes_left(&reader) ? head : bytes_left(&reader);
    while (!is_over(items) && take_box(&reader, type, &content))
        items->entries += memory;
}

static void read_iinf(struct reader reader, struct items *items)
{
    unsigned count_bytes = reader.at < reader.end && reader.at[0] > 0 ? 4 : 2;
    count_boxes(reader, FLAGS_BYTES + count_bytes, item_memory, items);
}

/* Each box in it names an item, a number of others, and them. */
static void read_iref(struct reader reader, struct items *items)
{
    uint8_t type[4];
    struct reader content;
    uint64_t version;
    if (!take(&reader, FLAGS_BYTES, &version))
        return;
    while (!is_over(items) && take_box(&reader, type, &content))
        items->entries += bytes_left(&content) / (version >> 24 ? 4 : 2) * item_memory;
}

/* Each entry names an item, and its properties with one or two bytes each. */
static void read_ipma(struct reader reader, struct items *items)
{
    enum { entry_bytes = 3 }; /* at least */
    uint64_t flags, count;
    if (!take(&reader, FLAGS_BYTES, &flags) || !take(&reader, 4, &count))
        return;
    uint64_t most = bytes_left(&reader) / entry_bytes;
    items->entries += (count < most ? count : most) * item_memory;
    items->entries += bytes_left(&reader) * property_memory;
}

static void read_stsd(struct reader reader, struct items *items)
{
    enum { count_bytes = 4, sample_entry_bytes = 78 };
    uint8_t type[4];
    struct reader content;
    uint64_t head;
    if (!take(&reader, FLAGS_BYTES, &head) || !take(&reader, count_bytes, &head))
        return;
    while (!is_over(items) && take_box(&reader, type, &content)) {
        items->entries += description_memory;
        count_boxes(content, sample_entry_bytes, property_memory, items);
    }
}

static bool is_samples(const uint8_t type[4])
{
    static const char types[][5] = {"stco", "co64", "stsc", "stsz", "stss", "stts"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (is_type(type, types[i]))
            return true;
    return false;
}

/* Counts the entries of one box, except those of the boxes that enter_box finds. */
static void count_box(const uint8_t type[4], struct reader content, struct items *items)
{
    if (is_type(type, "iloc"))
        read_iloc(content, items);
    else if (is_type(type, "iinf"))
        read_iinf(content, items);
    else if (is_type(type, "iref"))
        read_iref(content, items);
    else if (is_type(type, "ipma"))
        read_ipma(content, items);
    else if (is_type(type, "ipco"))
        count_boxes(content, 0, property_memory, items);
    else if (is_type(type, "stsd"))
        read_stsd(content, items);
    else if (is_samples(type))
        items->entries += bytes_left(&content) * SAMPLES_MEMORY;
    else if (is_type(type, "trak"))
        items->entries += track_memory;
}

/* Whether the box has others, from content->at on. */
static bool enter_box(const uint8_t type[4], struct reader *content)
{
    static const char parents[][5] = {"moov", "trak", "mdia", "minf", "stbl", "iprp"};
    uint64_t flags;
    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++)
        if (is_type(type, parents[i]))
            return true;
    return is_type(type, "meta") && take(content, FLAGS_BYTES, &flags);
}

static void read_boxes(struct reader reader, int depth, struct items *items)
{
    uint8_t type[4];
    struct reader content;
    while (!is_over(items) && take_box(&reader, type, &content)) {
        count_box(type, content, items);
        if (depth < DEPTH_MAX && enter_box(type, &content))
            read_boxes(content, depth + 1, items);
    }
}

enum status avif_measure_items(const uint8_t *bytes, size_t length, uint64_t *joined,
                               struct error *error)
{
    struct items items = {.joined_max = length};
    read_boxes((struct reader){bytes, bytes + length}, 1, &items);
    *joined = items.joined;
    if (items.entries > AVIF_ENTRIES_BYTES_MAX)
        return error_set(error, STATUS_DECODE_LIMIT,
                         "the AVIF's items, properties and samples need more than %llu bytes of "
                         "memory, the maximum", AVIF_ENTRIES_BYTES_MAX);
    if (items.extents > AVIF_EXTENTS_MAX)
        return error_set(error, STATUS_DECODE_LIMIT,
                         "the AVIF has more than %d items and extents, the maximum",
                         AVIF_EXTENTS_MAX);
    if (items.joined > items.joined_max)
        return error_set(error, STATUS_DECODE_LIMIT,
                         "the AVIF's extents overlap: its joined items have more than the %zu "
                         "bytes of the file", length);
    return STATUS_OK;
}
