/* avif_items.c - reads the boxes of ISO/IEC 14496-12 that name items. */
#include "codecs/avif_items.h"

#include <stdbool.h>
#include <string.h>

#define DEPTH_MAX 5 /* moov, trak, meta, iprp, ipma */
#define FLAGS_BYTES 4 /* version and flags of a full box */

/* A part of the file that is read from its start. */
struct reader {
    const uint8_t *at, *end;
};

struct items {
    size_t extents, names_bytes;
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
    return items->extents > AVIF_EXTENTS_MAX || items->names_bytes > AVIF_NAMES_BYTES_MAX ||
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

static void read_boxes(struct reader reader, int depth, struct items *items)
{
    uint8_t type[4];
    struct reader content;
    uint64_t flags;
    while (!is_over(items) && take_box(&reader, type, &content))
        if (is_type(type, "iloc"))
            read_iloc(content, items);
        else if (is_type(type, "iinf") || is_type(type, "iref") || is_type(type, "ipma"))
            items->names_bytes += (size_t)(content.end - content.at);
        else if (depth < DEPTH_MAX &&
                 (is_type(type, "moov") || is_type(type, "trak") || is_type(type, "iprp") ||
                  (is_type(type, "meta") && take(&content, FLAGS_BYTES, &flags))))
            read_boxes(content, depth + 1, items);
}

enum status avif_measure_items(const uint8_t *bytes, size_t length, uint64_t *joined,
                               struct error *error)
{
    struct items items = {.joined_max = length};
    read_boxes((struct reader){bytes, bytes + length}, 1, &items);
    *joined = items.joined;
    if (items.names_bytes > AVIF_NAMES_BYTES_MAX)
        return error_set(error, STATUS_DECODE_LIMIT,
                         "the AVIF names items in more than %d bytes of boxes, the maximum",
                         AVIF_NAMES_BYTES_MAX);
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
