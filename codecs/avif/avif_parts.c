#include "codecs/avif/avif_parts.h"

#include <stdlib.h>
#include <string.h>

#include "codecs/codec_impl.h"

/* The most bytes of a box meta: an ICC profile and some hundred bytes. */
#define META_BYTES_MAX (CODEC_METADATA_BYTES_MAX + 64 * KIB)

enum { BOX_BYTES = 8, FULL_BYTES = 4 };

/* Bytes that are read from their beginning on. */
struct span {
    const uint8_t *at;
    size_t left;
};

/* Reads a number. Returns 0 if the bytes end before. */
static uint64_t take(struct span *span, unsigned bytes)
{
    uint64_t value = 0;
    if (bytes > span->left) {
        span->left = 0;
        return 0;
    }
    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | span->at[i];
    span->at += bytes;
    span->left -= bytes;
    return value;
}

/* Reads a box, with its header. false: there is none, or it is longer than the bytes. */
static bool take_box(struct span *span, struct span *box)
{
    if (span->left < BOX_BYTES)
        return false;
    size_t bytes = codec_u32(span->at);
    if (bytes < BOX_BYTES || bytes > span->left)
        return false;
    *box = (struct span){span->at, bytes};
    span->at += bytes;
    span->left -= bytes;
    return true;
}

static bool is_type(struct span box, const char *type)
{
    return memcmp(box.at + 4, type, 4) == 0;
}

/* The content of the first box of the type, without the first `skipped` bytes; else nothing. */
static struct span find(struct span in, const char *type, size_t skipped)
{
    struct span box, found = {0};
    skipped += BOX_BYTES;
    while (take_box(&in, &box) && !found.at)
        if (is_type(box, type) && box.left >= skipped)
            found = (struct span){box.at + skipped, box.left - skipped};
    return found;
}

/* ---- items ---------------------------------------------------------------------------------- */

/* Returns the item whose reference of type auxl leads to the image; 0: there is none. */
static uint64_t alpha_of(struct span meta, uint64_t image)
{
    struct span reference = find(find(meta, "iref", FULL_BYTES), "auxl", 0);
    uint64_t from = take(&reference, 2), count = take(&reference, 2), to = take(&reference, 2);
    return count == 1 && to == image ? from : 0;
}

/* Finds where the item is in its file. false: not in one piece. */
static bool locate(struct span meta, uint64_t wanted, size_t *at, size_t *bytes)
{
    enum { constructed_in = 1 };
    struct span iloc = find(meta, "iloc", 0);
    uint64_t version = take(&iloc, 4) >> 24, sizes = take(&iloc, 2), count = take(&iloc, 2);
    unsigned offset_bytes = sizes >> 12 & 15, length_bytes = sizes >> 8 & 15;
    unsigned base_bytes = sizes >> 4 & 15;
    for (uint64_t i = 0; i < count && iloc.left > 0 && version <= constructed_in; i++) {
        uint64_t item = take(&iloc, 2);
        uint64_t place = take(&iloc, version == constructed_in ? 4 : 2); /* 0: in this file */
        uint64_t base = take(&iloc, base_bytes), extents = take(&iloc, 2);
        if (extents != 1)
            return false;
        *at = base + take(&iloc, offset_bytes);
        *bytes = take(&iloc, length_bytes);
        if (item == wanted)
            return place == 0 && *bytes > 0;
    }
    return false;
}

/* Gives the box of a property, by its number from 1 on. */
static bool property(struct span meta, uint64_t number, struct span *box)
{
    struct span all = find(find(meta, "iprp", 0), "ipco", 0);
    for (uint64_t i = 1; take_box(&all, box); i++)
        if (i == number)
            return true;
    return false;
}

static bool add_colours(struct avif_parts *parts, struct span box, struct error *error)
{
    uint8_t *grown = realloc(parts->colours, parts->colours_bytes + box.left);
    if (!grown) /* uncovered: memory (tests/coverage/reasons.txt) */
        return error_fail(error, STATUS_OUT_OF_MEMORY, "no memory for the colours of a frame");
    memcpy(grown + parts->colours_bytes, box.at, box.left);
    parts->colours = grown;
    parts->colours_bytes += box.left;
    return true;
}

static bool keep(struct avif_parts *parts, enum avif_plane plane, struct span box,
                 struct error *error)
{
    if (is_type(box, "colr") && plane == AVIF_COLOURS)
        return add_colours(parts, box, error);
    if (is_type(box, "av1C") && box.left >= BOX_BYTES + AV1C_BYTES)
        memcpy(parts->planes[plane].av1c, box.at + BOX_BYTES, AV1C_BYTES);
    return true;
}

/* Reads the properties of the item that a frame needs. */
static bool read_properties(struct span meta, uint64_t wanted, enum avif_plane plane,
                            struct avif_parts *parts, struct error *error)
{
    struct span ipma = find(find(meta, "iprp", 0), "ipma", 0), box;
    uint64_t head = take(&ipma, 4), count = take(&ipma, 4);
    unsigned item_bytes = head >> 24 > 0 ? 4 : 2, number_bytes = head & 1 ? 2 : 1;
    for (uint64_t i = 0; i < count && ipma.left > 0; i++) {
        uint64_t item = take(&ipma, item_bytes), numbers = take(&ipma, 1);
        while (numbers-- > 0) {
            uint64_t number = take(&ipma, number_bytes) & ((1u << (8 * number_bytes - 1)) - 1);
            if (item == wanted && property(meta, number, &box) && !keep(parts, plane, box, error))
                return false;
        }
    }
    return true;
}

/* Reads an item. start: of its file. */
static bool read_item(struct span meta, uint64_t item, enum avif_plane plane, size_t start,
                      struct avif_parts *parts, struct error *error)
{
    if (!locate(meta, item, &parts->planes[plane].at, &parts->planes[plane].bytes))
        return false;
    parts->planes[plane].at += start;
    return read_properties(meta, item, plane, parts, error);
}

/* plane: what the primary image is. */
static bool read_meta(struct span meta, enum avif_plane plane, size_t start,
                      struct avif_parts *parts, struct error *error)
{
    struct span pitm = find(meta, "pitm", FULL_BYTES);
    uint64_t image = take(&pitm, 2), alpha = alpha_of(meta, image);
    return read_item(meta, image, plane, start, parts, error) &&
           (alpha == 0 || plane == AVIF_ALPHA ||
            read_item(meta, alpha, AVIF_ALPHA, start, parts, error));
}

/* ---- the file ------------------------------------------------------------------------------- */

static bool load_meta(const struct movie_frame *frame, size_t at, size_t bytes, size_t start,
                      enum avif_plane plane, struct avif_parts *parts, struct error *error)
{
    size_t head = BOX_BYTES + FULL_BYTES;
    if (bytes < head || bytes > META_BYTES_MAX)
        return false;
    uint8_t *meta = malloc(bytes);
    if (!meta) /* uncovered: memory */
        return error_fail(error, STATUS_OUT_OF_MEMORY, "no memory for the header of a frame");
    bool ok = movie_get(frame, at, meta, bytes, error) == STATUS_OK &&
              read_meta((struct span){meta + head, bytes - head}, plane, start, parts, error);
    free(meta);
    return ok;
}

static bool are_inside(const struct movie_frame *frame, const struct avif_parts *parts)
{
    for (int i = 0; i < AVIF_PLANES; i++)
        if (parts->planes[i].at > frame->length ||
            parts->planes[i].bytes > frame->length - parts->planes[i].at)
            return false;
    return parts->planes[AVIF_COLOURS].bytes > 0;
}

enum status avif_find_parts(const struct movie_frame *frame, struct avif_parts *parts,
                            struct error *error)
{
    uint8_t box[BOX_BYTES];
    size_t start = 0, bytes;
    int files = 0;
    bool ok = true;
    *parts = (struct avif_parts){0};
    for (size_t at = 0; ok && frame->length - at >= sizeof box; at += bytes) {
        if (movie_get(frame, at, box, sizeof box, error) != STATUS_OK)
            return error->status;
        bytes = codec_u32(box);
        ok = bytes >= sizeof box && bytes <= frame->length - at;
        if (ok && memcmp(box + 4, "ftyp", 4) == 0) {
            start = at;
            ok = files++ < AVIF_PLANES;
        }
        if (ok && memcmp(box + 4, "meta", 4) == 0)
            ok = load_meta(frame, at, bytes, start, files > 1 ? AVIF_ALPHA : AVIF_COLOURS, parts,
                           error);
    }
    if (error->status == STATUS_OK && (!ok || !are_inside(frame, parts)))
        return error_set(error, STATUS_ENCODE_FAILED, "the file of a frame is no usual AVIF");
    return error->status;
}
