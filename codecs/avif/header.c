#include "codecs/avif/header.h"

#include <assert.h>

#include "codecs/avif/boxes.h"
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
    struct boxes out;
    const uint8_t *data[ITEM_END]; /* of the items but the image; NULL: there is no such item */
    size_t data_bytes[ITEM_END];
    size_t offset_at[ITEM_END]; /* where an item's offset in the file is to be written */
    uint8_t properties[PROPERTIES_MAX];
    unsigned property_count;
};

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
    size_t box = box_begin_full(&writer->out, "iloc", 0, 0);
    box_number(&writer->out, 0x4400, 2);
    box_number(&writer->out, count_items(writer), 2);
    for (enum item item = ITEM_IMAGE; item < ITEM_END; item++) {
        if (!has_item(writer, item))
            continue;
        box_number(&writer->out, item, 2);
        box_number(&writer->out, 0, 2); /* in this file */
        box_number(&writer->out, 1, 2); /* extent */
        writer->offset_at[item] = writer->out.length;
        box_number(&writer->out, 0, 4);
        if (item == ITEM_IMAGE)
            to->image_length_at = (uint32_t)writer->out.length;
        box_number(&writer->out, (uint32_t)writer->data_bytes[item], 4);
    }
    box_end(&writer->out, box);
}

static void put_infos(struct writer *writer)
{
    static const struct {
        const char *type, *name, *content;
    } rows[ITEM_END] = {[ITEM_IMAGE] = {IMAGE_NAME, "Color", NULL},
                        [ITEM_EXIF] = {"Exif", "Exif", NULL},
                        [ITEM_XMP] = {"mime", "XMP", XMP_TYPE}};
    size_t box = box_begin_full(&writer->out, "iinf", 0, 0);
    box_number(&writer->out, count_items(writer), 2);
    for (enum item item = ITEM_IMAGE; item < ITEM_END; item++) {
        if (!has_item(writer, item))
            continue;
        size_t entry = box_begin_full(&writer->out, "infe", 2, 0);
        box_number(&writer->out, item, 2);
        box_number(&writer->out, 0, 2); /* not protected */
        box_put(&writer->out, rows[item].type, 4);
        box_put(&writer->out, rows[item].name, strlen(rows[item].name) + 1);
        if (rows[item].content)
            box_put(&writer->out, rows[item].content, strlen(rows[item].content) + 1);
        box_end(&writer->out, entry);
    }
    box_end(&writer->out, box);
}

/* EXIF and XMP describe the image: ISO/IEC 23008-12, A.2 and A.3. */
static void put_references(struct writer *writer)
{
    if (count_items(writer) == 1)
        return;
    size_t box = box_begin_full(&writer->out, "iref", 0, 0);
    for (enum item item = ITEM_IMAGE + 1; item < ITEM_END; item++) {
        if (!has_item(writer, item))
            continue;
        size_t reference = box_begin(&writer->out, "cdsc");
        box_number(&writer->out, item, 2);
        box_number(&writer->out, 1, 2);
        box_number(&writer->out, ITEM_IMAGE, 2);
        box_end(&writer->out, reference);
    }
    box_end(&writer->out, box);
}

/* ---- properties ---- */

/* Ends the box of a property, and adds the property to those of the image. */
static void end_property(struct writer *writer, size_t at, uint8_t essential)
{
    box_end(&writer->out, at);
    assert(writer->property_count < PROPERTIES_MAX);
    writer->property_count++;
    writer->properties[writer->property_count - 1] = (uint8_t)(essential | writer->property_count);
}

/* The sides, the depth of the channels, and how the image is coded. */
static void put_format(struct writer *writer, const struct avif_coded *coded)
{
    uint32_t channels = coded->channels == 1 ? 1 : 3;
    size_t box = box_begin_full(&writer->out, "ispe", 0, 0);
    box_number(&writer->out, coded->width, 4);
    box_number(&writer->out, coded->height, 4);
    end_property(writer, box, 0);
    box = box_begin_full(&writer->out, "pixi", 0, 0);
    box_number(&writer->out, channels, 1);
    for (uint32_t i = 0; i < channels; i++)
        box_number(&writer->out, 8, 1);
    end_property(writer, box, 0);
    box = box_begin(&writer->out, "av1C");
    box_put(&writer->out, coded->av1c, sizeof coded->av1c);
    end_property(writer, box, ESSENTIAL);
}

/* sRGB, or a profile. The second box then only says how YCbCr becomes RGB, so that primaries and
 * transfer are unspecified (ISO/IEC 23091-2). */
static void put_colours(struct writer *writer, const uint8_t *icc, size_t icc_bytes)
{
    enum { bt709 = 1, unspecified = 2, srgb = 13, bt601 = 6, full_range = 0x80 };
    size_t box;
    if (icc) {
        box = box_begin(&writer->out, "colr");
        box_put(&writer->out, "prof", 4);
        box_put(&writer->out, icc, icc_bytes);
        end_property(writer, box, 0);
    }
    box = box_begin(&writer->out, "colr");
    box_put(&writer->out, "nclx", 4);
    box_number(&writer->out, icc ? unspecified : bt709, 2);
    box_number(&writer->out, icc ? unspecified : srgb, 2);
    box_number(&writer->out, bt601, 2);
    box_number(&writer->out, full_range, 1);
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
        size_t box = box_begin(&writer->out, "irot");
        box_number(&writer->out, row[0], 1);
        end_property(writer, box, ESSENTIAL);
    }
    if (row[1] != none) {
        size_t box = box_begin(&writer->out, "imir");
        box_number(&writer->out, row[1] - top_bottom, 1);
        end_property(writer, box, ESSENTIAL);
    }
}

static void put_properties(struct writer *writer, const struct encode_request *request,
                           const struct avif_coded *coded)
{
    bool profile =
        request->icc && coded->channels > 1 && codec_icc_is_rgb(request->icc, request->icc_bytes);
    size_t box = box_begin(&writer->out, "iprp"), container = box_begin(&writer->out, "ipco");
    put_format(writer, coded);
    put_colours(writer, profile ? request->icc : NULL, request->icc_bytes);
    put_orientation(writer, request->orientation);
    box_end(&writer->out, container);
    size_t association = box_begin_full(&writer->out, "ipma", 0, 0);
    box_number(&writer->out, 1, 4); /* item */
    box_number(&writer->out, ITEM_IMAGE, 2);
    box_number(&writer->out, writer->property_count, 1);
    box_put(&writer->out, writer->properties, writer->property_count);
    box_end(&writer->out, association);
    box_end(&writer->out, box);
}

/* ---- the file ---- */

/* MA1B, the Baseline Profile of AVIF, allows AV1 levels up to 5.1. */
static void put_type(struct writer *writer, const struct avif_coded *coded)
{
    enum { level_mask = 0x1F, level_5_1 = 13 };
    bool baseline = (coded->av1c[1] & level_mask) <= level_5_1;
    size_t box = box_begin(&writer->out, "ftyp");
    box_put(&writer->out, "avif", 4);
    box_number(&writer->out, 0, 4);
    box_put(&writer->out, "avifmif1miafMA1B", baseline ? 16 : 12);
    box_end(&writer->out, box);
}

static void put_meta(struct writer *writer, const struct encode_request *request,
                     const struct avif_coded *coded, struct avif_prelude *to)
{
    size_t meta = box_begin_full(&writer->out, "meta", 0, 0);
    size_t box = box_begin_full(&writer->out, "hdlr", 0, 0);
    box_put(&writer->out, "\0\0\0\0pict\0\0\0\0\0\0\0\0\0\0\0\0", 21); /* without a name */
    box_end(&writer->out, box);
    box = box_begin_full(&writer->out, "pitm", 0, 0);
    box_number(&writer->out, ITEM_IMAGE, 2);
    box_end(&writer->out, box);
    put_locations(writer, to);
    put_infos(writer);
    put_references(writer);
    put_properties(writer, request, coded);
    box_end(&writer->out, meta);
}

static void put_media(struct writer *writer, struct avif_prelude *to)
{
    to->media_at = (uint32_t)box_begin(&writer->out, "mdat");
    for (enum item item = ITEM_IMAGE + 1; item < ITEM_END; item++) {
        if (!has_item(writer, item))
            continue;
        avif_put_u32(writer->out.file + writer->offset_at[item], (uint32_t)writer->out.length);
        if (item == ITEM_EXIF)
            box_number(&writer->out, 0, EXIF_OFFSET_BYTES);
        size_t head = item == ITEM_EXIF ? EXIF_OFFSET_BYTES : 0;
        box_put(&writer->out, writer->data[item], writer->data_bytes[item] - head);
    }
    avif_put_u32(writer->out.file + writer->offset_at[ITEM_IMAGE], (uint32_t)writer->out.length);
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
    struct writer writer = {.out.file = to->file};
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
    to->bytes = (uint32_t)writer.out.length;
    assert(sizeof *to + writer.out.length <= avif_prelude_bytes(codec_metadata_bytes(request)));
}
