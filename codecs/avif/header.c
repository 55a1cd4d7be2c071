#include "codecs/avif/header.h"

#include <assert.h>
#include <string.h>

#include "codecs/codec_impl.h"
#include "codecs/pixel.h"

/* All boxes without metadata, with every property: less than 500 bytes. */
#define BOXES_BYTES_MAX 768

/* The ids of the items. An item that is missing leaves a gap. */
enum item { ITEM_IMAGE = 1, ITEM_EXIF, ITEM_XMP, ITEM_END };

#define IMAGE_NAME "av01"
#define XMP_TYPE   "application/rdf+xml"
/* EXIF begins with the offset of its TIFF header, which is 0: ISO/IEC 23008-12, A.2.1. */
#define EXIF_OFFSET_BYTES 4

#define PROPERTIES_MAX 8
#define ESSENTIAL      0x80 /* a reader that does not know this property must not show the image */

struct writer {
    uint8_t *file;
    size_t length;
    const uint8_t *data[ITEM_END]; /* of the items but the image; NULL: there is no such item */
    size_t data_bytes[ITEM_END];
    size_t offset_at[ITEM_END]; /* where an item's offset in the file is to be written */
    uint8_t properties[PROPERTIES_MAX];
    unsigned property_count;
};

/* ---- bytes and boxes ---- */

static void put(struct writer *writer, const void *bytes, size_t count)
{
    memcpy(writer->file + writer->length, bytes, count);
    writer->length += count;
}

static void put_number(struct writer *writer, uint32_t value, unsigned bytes)
{
    for (unsigned i = bytes; i-- > 0;)
        writer->file[writer->length++] = (uint8_t)(value >> 8 * i);
}

static size_t begin_box(struct writer *writer, const char *type)
{
    size_t at = writer->length;
    put_number(writer, 0, 4);
    put(writer, type, 4);
    return at;
}

/* A box with a version and flags: ISO/IEC 14496-12, 4.2. */
static size_t begin_full_box(struct writer *writer, const char *type, uint32_t version,
                             uint32_t flags)
{
    size_t at = begin_box(writer, type);
    put_number(writer, version << 24 | flags, 4);
    return at;
}

static void end_box(struct writer *writer, size_t at)
{
    avif_put_u32(writer->file + at, (uint32_t)(writer->length - at));
}

/* ---- items ---- */

static bool has_item(const struct writer *writer, enum item item)
{
    return item == ITEM_IMAGE || writer->data[item] != NULL;
}

static unsigned count_items(const struct writer *writer)
{
    unsigned count = 0;
    for (enum item item = ITEM_IMAGE; item < ITEM_END; item++)
        count += has_item(writer, item);
    return count;
}

/* Where the items are: version 0 with offsets and lengths of 4 bytes. The image comes first, so
 * that its length is at a fixed offset. */
static void put_locations(struct writer *writer, struct avif_prelude *to)
{
    size_t box = begin_full_box(writer, "iloc", 0, 0);
    put_number(writer, 0x4400, 2);
    put_number(writer, count_items(writer), 2);
    for (enum item item = ITEM_IMAGE; item < ITEM_END; item++) {
        if (!has_item(writer, item))
            continue;
        put_number(writer, item, 2);
        put_number(writer, 0, 2); /* in this file */
        put_number(writer, 1, 2); /* extent */
        writer->offset_at[item] = writer->length;
        put_number(writer, 0, 4);
        if (item == ITEM_IMAGE)
            to->image_length_at = (uint32_t)writer->length;
        put_number(writer, (uint32_t)writer->data_bytes[item], 4);
    }
    end_box(writer, box);
}

static void put_infos(struct writer *writer)
{
    static const struct {
        const char *type, *name, *content;
    } rows[ITEM_END] = {[ITEM_IMAGE] = {IMAGE_NAME, "Color", NULL},
                        [ITEM_EXIF] = {"Exif", "Exif", NULL},
                        [ITEM_XMP] = {"mime", "XMP", XMP_TYPE}};
    size_t box = begin_full_box(writer, "iinf", 0, 0);
    put_number(writer, count_items(writer), 2);
    for (enum item item = ITEM_IMAGE; item < ITEM_END; item++) {
        if (!has_item(writer, item))
            continue;
        size_t entry = begin_full_box(writer, "infe", 2, 0);
        put_number(writer, item, 2);
        put_number(writer, 0, 2); /* not protected */
        put(writer, rows[item].type, 4);
        put(writer, rows[item].name, strlen(rows[item].name) + 1);
        if (rows[item].content)
            put(writer, rows[item].content, strlen(rows[item].content) + 1);
        end_box(writer, entry);
    }
    end_box(writer, box);
}

/* EXIF and XMP describe the image: ISO/IEC 23008-12, A.2 and A.3. */
static void put_references(struct writer *writer)
{
    if (count_items(writer) == 1)
        return;
    size_t box = begin_full_box(writer, "iref", 0, 0);
    for (enum item item = ITEM_IMAGE + 1; item < ITEM_END; item++) {
        if (!has_item(writer, item))
            continue;
        size_t reference = begin_box(writer, "cdsc");
        put_number(writer, item, 2);
        put_number(writer, 1, 2);
        put_number(writer, ITEM_IMAGE, 2);
        end_box(writer, reference);
    }
    end_box(writer, box);
}

/* ---- properties ---- */

/* Ends the box of a property, and adds the property to those of the image. */
static void end_property(struct writer *writer, size_t at, uint8_t essential)
{
    end_box(writer, at);
    assert(writer->property_count < PROPERTIES_MAX);
    writer->property_count++;
    writer->properties[writer->property_count - 1] = (uint8_t)(essential | writer->property_count);
}

/* The sides, the depth of the channels, and how the image is coded. */
static void put_format(struct writer *writer, const struct avif_coded *coded)
{
    uint32_t channels = coded->channels == 1 ? 1 : 3;
    size_t box = begin_full_box(writer, "ispe", 0, 0);
    put_number(writer, coded->width, 4);
    put_number(writer, coded->height, 4);
    end_property(writer, box, 0);
    box = begin_full_box(writer, "pixi", 0, 0);
    put_number(writer, channels, 1);
    for (uint32_t i = 0; i < channels; i++)
        put_number(writer, 8, 1);
    end_property(writer, box, 0);
    box = begin_box(writer, "av1C");
    put(writer, coded->av1c, sizeof coded->av1c);
    end_property(writer, box, ESSENTIAL);
}

/* sRGB, or a profile. The second box then only says how YCbCr becomes RGB, so that primaries and
 * transfer are unspecified (ISO/IEC 23091-2). */
static void put_colours(struct writer *writer, const uint8_t *icc, size_t icc_bytes)
{
    enum { bt709 = 1, unspecified = 2, srgb = 13, bt601 = 6, full_range = 0x80 };
    size_t box;
    if (icc) {
        box = begin_box(writer, "colr");
        put(writer, "prof", 4);
        put(writer, icc, icc_bytes);
        end_property(writer, box, 0);
    }
    box = begin_box(writer, "colr");
    put(writer, "nclx", 4);
    put_number(writer, icc ? unspecified : bt709, 2);
    put_number(writer, icc ? unspecified : srgb, 2);
    put_number(writer, bt601, 2);
    put_number(writer, full_range, 1);
    end_property(writer, box, 0);
}

/* Readers turn the image (quarter turns anticlockwise), then mirror it (axis 0: top and bottom are
 * exchanged, 1: left and right). */
static void put_orientation(struct writer *writer, int orientation)
{
    enum { none, top_bottom, left_right };
    static const uint8_t rows[ORIENTATION_MAX + 1][2] = {
        [2] = {0, left_right}, [3] = {2, none},       [4] = {0, top_bottom}, [5] = {1, top_bottom},
        [6] = {3, none},       [7] = {3, top_bottom}, [8] = {1, none},
    };
    const uint8_t *row = rows[orientation];
    if (row[0] != 0) {
        size_t box = begin_box(writer, "irot");
        put_number(writer, row[0], 1);
        end_property(writer, box, ESSENTIAL);
    }
    if (row[1] != none) {
        size_t box = begin_box(writer, "imir");
        put_number(writer, row[1] - top_bottom, 1);
        end_property(writer, box, ESSENTIAL);
    }
}

static void put_properties(struct writer *writer, const struct encode_request *request,
                           const struct avif_coded *coded)
{
    bool profile =
        request->icc && coded->channels > 1 && codec_icc_is_rgb(request->icc, request->icc_bytes);
    size_t box = begin_box(writer, "iprp"), container = begin_box(writer, "ipco");
    put_format(writer, coded);
    put_colours(writer, profile ? request->icc : NULL, request->icc_bytes);
    put_orientation(writer, request->orientation);
    end_box(writer, container);
    size_t association = begin_full_box(writer, "ipma", 0, 0);
    put_number(writer, 1, 4); /* item */
    put_number(writer, ITEM_IMAGE, 2);
    put_number(writer, writer->property_count, 1);
    put(writer, writer->properties, writer->property_count);
    end_box(writer, association);
    end_box(writer, box);
}

/* ---- the file ---- */

/* MA1B, the Baseline Profile of AVIF, allows AV1 levels up to 5.1. */
static void put_type(struct writer *writer, const struct avif_coded *coded)
{
    enum { level_mask = 0x1F, level_5_1 = 13 };
    bool baseline = (coded->av1c[1] & level_mask) <= level_5_1;
    size_t box = begin_box(writer, "ftyp");
    put(writer, "avif", 4);
    put_number(writer, 0, 4);
    put(writer, "avifmif1miafMA1B", baseline ? 16 : 12);
    end_box(writer, box);
}

static void put_meta(struct writer *writer, const struct encode_request *request,
                     const struct avif_coded *coded, struct avif_prelude *to)
{
    size_t meta = begin_full_box(writer, "meta", 0, 0);
    size_t box = begin_full_box(writer, "hdlr", 0, 0);
    put(writer, "\0\0\0\0pict\0\0\0\0\0\0\0\0\0\0\0\0", 21); /* without a name */
    end_box(writer, box);
    box = begin_full_box(writer, "pitm", 0, 0);
    put_number(writer, ITEM_IMAGE, 2);
    end_box(writer, box);
    put_locations(writer, to);
    put_infos(writer);
    put_references(writer);
    put_properties(writer, request, coded);
    end_box(writer, meta);
}

static void put_media(struct writer *writer, struct avif_prelude *to)
{
    to->media_at = (uint32_t)begin_box(writer, "mdat");
    for (enum item item = ITEM_IMAGE + 1; item < ITEM_END; item++) {
        if (!has_item(writer, item))
            continue;
        avif_put_u32(writer->file + writer->offset_at[item], (uint32_t)writer->length);
        if (item == ITEM_EXIF)
            put_number(writer, 0, EXIF_OFFSET_BYTES);
        size_t head = item == ITEM_EXIF ? EXIF_OFFSET_BYTES : 0;
        put(writer, writer->data[item], writer->data_bytes[item] - head);
    }
    avif_put_u32(writer->file + writer->offset_at[ITEM_IMAGE], (uint32_t)writer->length);
}

bool avif_is_own(const struct encoder_settings *settings)
{
    return settings->effort >= AVIF_OWN_EFFORT_MIN && settings->effort <= AVIF_OWN_EFFORT_MAX &&
           settings->quality <= AVIF_OWN_QUALITY_MAX;
}

size_t avif_prelude_bytes(size_t metadata_bytes)
{
    return sizeof(struct avif_prelude) + BOXES_BYTES_MAX + metadata_bytes;
}

void avif_prelude_make(const struct encode_request *request, const struct avif_coded *coded,
                       struct avif_prelude *to)
{
    struct writer writer = {.file = to->file};
    if (request->exif) {
        writer.data[ITEM_EXIF] = request->exif;
        writer.data_bytes[ITEM_EXIF] = EXIF_OFFSET_BYTES + request->exif_bytes;
    }
    if (request->xmp) {
        writer.data[ITEM_XMP] = request->xmp;
        writer.data_bytes[ITEM_XMP] = request->xmp_bytes;
    }
    assert(request->orientation >= 0 && request->orientation <= ORIENTATION_MAX);
    put_type(&writer, coded);
    put_meta(&writer, request, coded, to);
    put_media(&writer, to);
    to->bytes = (uint32_t)writer.length;
    assert(sizeof *to + writer.length <= avif_prelude_bytes(codec_metadata_bytes(request)));
}
