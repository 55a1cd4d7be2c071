/* gain_map.c - finds gain maps (gain_map.h). */
#include "codecs/gain_map.h"

#include "codecs/codec_impl.h"
#include "codecs/tiff.h"

/* The segments of a JPEG: ISO/IEC 10918-1, table B.1. */
enum { MARKER_SOS = 0xDA, MARKER_APP1 = 0xE1, MARKER_APP2 = 0xE2, SEGMENTS_MAX = 256 };

/* The first bytes of a segment, with their final zero. */
static const char iso_name[] = "urn:iso:std:iso:ts:21496:-1";
static const char mpf_name[] = "MPF"; /* CIPA DC-007, "Multi-Picture Format" */
static const char xmp_name[] = "http://ns.adobe.com/xap/1.0/";

/* The namespace of the properties that describe a gain map, in the XMP of a file that has one. */
static const char hdrgm_uri[] = "http://ns.adobe.com/hdr-gain-map/1.0/";
/* What Apple calls such an image: in its XMP in a JPEG, in a property of its item in a HEIC. */
static const char apple_name[] = "urn:com:apple:photo:2020:aux:hdrgainmap";

/* An entry of a Multi-Picture index: attributes, size, offset from the TIFF header, and more. */
enum {
    MPF_ENTRIES = 0xB002,
    ENTRY_BYTES = 16,
    ENTRY_SIZE_AT = 4,
    ENTRY_OFFSET_AT = 8,
    IMAGES_MAX = 16
};

/* Bytes that are searched: at the start of a further image in a JPEG, and of a HEIC or AVIF. */
#define HEAD_BYTES (64 * KIB)

static bool has_text(const uint8_t *bytes, size_t length, const char *text)
{
    return memmem(bytes, length, text, strlen(text)) != NULL;
}

/* ---- JPEG ----------------------------------------------------------------------------------- */

struct segment {
    int marker;
    const uint8_t *bytes; /* after its length */
    size_t length;
};

/* Moves *at from the start of a segment to that of the next one. false: no segment is there, or it
 * is the first scan. */
static bool next_segment(const uint8_t *file, size_t length, size_t *at, struct segment *segment)
{
    while (*at + 4 <= length && file[*at] == 0xFF && file[*at + 1] == 0xFF)
        ++*at; /* markers may have any number of fill bytes before them */
    if (*at + 4 > length || file[*at] != 0xFF || file[*at + 1] == MARKER_SOS)
        return false;
    size_t bytes = (size_t)file[*at + 2] << 8 | file[*at + 3];
    if (bytes < 2 || bytes > length - *at - 2)
        return false;
    *segment = (struct segment){file[*at + 1], file + *at + 4, bytes - 2};
    *at += 2 + bytes;
    return true;
}

static bool is_named(const struct segment *segment, const char *name, size_t bytes)
{
    return codec_has_bytes(segment->bytes, segment->length, 0, name, bytes);
}

/* Whether an image after the first one says that it is a gain map. tiff: the index, which is in the
 * file and ends with its segment. */
static bool is_in_further_image(const struct tiff *tiff, const uint8_t *file, size_t length)
{
    struct tiff_directory directory = tiff_first_directory(tiff);
    size_t entry = tiff_find(tiff, &directory, (enum tiff_tag)MPF_ENTRIES), bytes = 0;
    size_t at = entry ? tiff_values(tiff, entry, &bytes) : 0;
    size_t base = (size_t)(tiff->bytes - file), count = bytes / ENTRY_BYTES;
    for (size_t i = 1; at > 0 && i < count && i < IMAGES_MAX; i++) {
        size_t image = at + i * ENTRY_BYTES;
        size_t offset = tiff_number(tiff, image + ENTRY_OFFSET_AT, 4);
        size_t size = tiff_number(tiff, image + ENTRY_SIZE_AT, 4);
        if (offset >= length - base)
            continue;
        size = size < length - base - offset ? size : length - base - offset;
        if (has_text(file + base + offset, size < HEAD_BYTES ? size : HEAD_BYTES, apple_name))
            return true;
    }
    return false;
}

static bool is_in_jpeg(const uint8_t *file, size_t length)
{
    struct segment segment;
    size_t at = 2;
    bool has_index = false; /* only the first one counts */
    for (size_t i = 0; i < SEGMENTS_MAX && next_segment(file, length, &at, &segment); i++) {
        struct tiff tiff;
        if (segment.marker == MARKER_APP1 && is_named(&segment, xmp_name, sizeof xmp_name) &&
            has_text(segment.bytes, segment.length, hdrgm_uri))
            return true;
        if (segment.marker != MARKER_APP2)
            continue;
        if (is_named(&segment, iso_name, sizeof iso_name))
            return true;
        bool is_index = !has_index && is_named(&segment, mpf_name, sizeof mpf_name);
        has_index |= is_index;
        if (is_index &&
            tiff_open(&tiff, segment.bytes + sizeof mpf_name, segment.length - sizeof mpf_name) &&
            is_in_further_image(&tiff, file, length))
            return true;
    }
    return false;
}

/* ---- HEIC and AVIF -------------------------------------------------------------------------- */

/* Whether the box "ftyp" at the start of the file has the brand "tmap", or the box "meta", which
 * usually follows it, has an item that Apple calls a gain map. */
static bool is_in_heif(const uint8_t *file, size_t length)
{
    enum { brands_at = 16 };
    size_t head = length < HEAD_BYTES ? length : HEAD_BYTES, end = codec_u32(file);
    for (size_t at = brands_at; at + 4 <= end && at + 4 <= head; at += 4)
        if (memcmp(file + at, "tmap", 4) == 0)
            return true;
    return has_text(file, head, apple_name);
}

bool gain_map_is_in(const uint8_t *file, size_t length)
{
    if (codec_has_bytes(file, length, 0, "\xFF\xD8\xFF", 3))
        return is_in_jpeg(file, length);
    return codec_has_bytes(file, length, 4, "ftyp", 4) && is_in_heif(file, length);
}
