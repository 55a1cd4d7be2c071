/* Tests of gain maps: what is one, in JPEGs and in the boxes of AVIFs and HEICs, and what is not.
 */
#include "tests/fixtures/codec_rig.h"

#include "codecs/gain_map.h"

#define ISO_NAME   "urn:iso:std:iso:ts:21496:-1"
#define XMP_NAME   "http://ns.adobe.com/xap/1.0/"
#define HDRGM      "http://ns.adobe.com/hdr-gain-map/1.0/"
#define APPLE_NAME "urn:com:apple:photo:2020:aux:hdrgainmap"
#define PACKET(properties)                                                                         \
    "<x:xmpmeta xmlns:x='adobe:ns:meta/'><rdf:RDF "                                                \
    "xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'><rdf:Description "                    \
    "rdf:about=''" properties "/></rdf:RDF></x:xmpmeta>"

enum { APP1 = 0xE1, APP2 = 0xE2 };

static struct picture_file photo(void)
{
    return make_jpeg(.width = 24, .height = 16);
}

/* Inserts a segment after the first marker. */
static void put_segment(struct picture_file *file, int marker, const void *bytes, size_t length)
{
    uint8_t *segment = malloc(length + 4);
    segment[0] = 0xFF;
    segment[1] = (uint8_t)marker;
    segment[2] = (uint8_t)((length + 2) >> 8);
    segment[3] = (uint8_t)(length + 2);
    memcpy(segment + 4, bytes, length);
    picture_insert(file, 2, segment, length + 4);
    free(segment);
}

static bool has(const struct picture_file *file)
{
    return gain_map_is_in(file->bytes, file->length);
}

/* Whether a JPEG with this segment has a gain map. */
static bool has_with(int marker, const void *bytes, size_t length)
{
    struct picture_file file = photo();
    put_segment(&file, marker, bytes, length);
    bool found = has(&file);
    picture_free(&file);
    return found;
}
#define HAS_WITH(marker, text) has_with(marker, text, sizeof(text))

TEST(test_segments)
{
    struct picture_file plain = photo();
    assert_false(has(&plain));
    picture_free(&plain);
    assert_true(HAS_WITH(APP2, ISO_NAME "\0\0\0"));
    assert_false(HAS_WITH(APP1, ISO_NAME "\0\0\0"));
    assert_false(HAS_WITH(APP2, "urn:iso:std:iso:ts:21496:-2\0\0\0"));
    assert_false(has_with(APP2, ISO_NAME, sizeof ISO_NAME - 1)); /* without its final zero */
    assert_true(HAS_WITH(APP1, XMP_NAME "\0" PACKET(" xmlns:h='" HDRGM "' h:Version='1.0'")));
    assert_false(HAS_WITH(APP2, XMP_NAME "\0" PACKET(" xmlns:h='" HDRGM "' h:Version='1.0'")));
    assert_false(HAS_WITH(APP1, XMP_NAME "\0" PACKET(" xmlns:h='http://a/' h:Version='1.0'")));
}

/* Segments after the first scan belong to further images. */
TEST(test_after_the_scan)
{
    static const char segment[] = "\xFF\xE2\x00\x20" ISO_NAME "\0\0";
    struct picture_file file = photo();
    picture_insert(&file, file.length, segment, sizeof segment);
    assert_false(has(&file));
    picture_insert(&file, 2, segment, sizeof segment);
    assert_true(has(&file));
    picture_insert(&file, 2, "\xFF\xFF\xFF", 3); /* fill bytes */
    assert_true(has(&file));
    picture_free(&file);
}

/* ---- further images ---- */

static uint8_t *put(uint8_t *to, uint32_t value, unsigned bytes, bool big)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * (big ? bytes - 1 - i : i));
    return to + bytes;
}

/* An index of `count` images: its directory, and an entry for each image. All but the last one have
 * no size. */
enum { INDEX_ENTRIES_AT = 8 + 2 + 12 + 4, INDEX_BYTES_MAX = 4 + INDEX_ENTRIES_AT + 20 * 16 };

static size_t make_index(uint8_t index[INDEX_BYTES_MAX], bool big, uint32_t count, uint32_t offset,
                         uint32_t size)
{
    uint8_t *at = index;
    memset(index, 0, INDEX_BYTES_MAX);
    memcpy(at, "MPF", 4);
    memcpy(at + 4, big ? "MM\0*" : "II*\0", 4);
    at = put(at + 8, 8, 4, big); /* offset of the directory, which has one entry: */
    at = put(at, 1, 2, big);
    at = put(at, 0xB002, 2, big); /* MPEntry, UNDEFINED */
    at = put(at, 7, 2, big);
    at = put(at, count * 16, 4, big);
    at = put(at, INDEX_ENTRIES_AT, 4, big);
    at += 4 + (count - 1) * 16;
    put(put(at + 4, size, 4, big), offset, 4, big);
    return 4 + INDEX_ENTRIES_AT + count * 16;
}

/* A JPEG with an index, and after it the image that the index's last entry names. */
static struct picture_file make_pair(bool big, uint32_t count, const char *text)
{
    enum { tiff_at = 2 + 4 + 4 };
    uint8_t index[INDEX_BYTES_MAX];
    struct picture_file file = photo();
    size_t bytes = make_index(index, big, count, 0, 0);
    uint32_t offset = (uint32_t)(file.length + 4 + bytes - tiff_at);
    make_index(index, big, count, offset, (uint32_t)strlen(text));
    put_segment(&file, APP2, index, bytes);
    picture_insert(&file, file.length, text, strlen(text));
    return file;
}

TEST(test_further_images)
{
    static const char map[] = "\xFF\xD8\xFF\xE1.. apdi:AuxiliaryImageType=\"" APPLE_NAME "\" ..";
    for (int big = 0; big < 2; big++)
        for (uint32_t count = 1; count <= 20; count += count == 3 ? 12 : 1) {
            struct picture_file file = make_pair(big, count, map);
            assert_int_equal(has(&file), count > 1 && count <= 16); /* the first is the photo */
            picture_free(&file);
        }
    /* Only the first index counts, because many would take long. */
    uint8_t index[INDEX_BYTES_MAX];
    struct picture_file twice = make_pair(false, 2, map);
    put_segment(&twice, APP2, index, make_index(index, false, 1, 0, 0));
    assert_false(has(&twice));
    picture_free(&twice);
    struct picture_file stereo = make_pair(false, 2, "\xFF\xD8\xFF\xE1.. the other eye ..");
    assert_false(has(&stereo));
    picture_free(&stereo);
}

/* No byte after the end is read, wherever the file ends and whatever the index says. */
TEST(test_damage)
{
    struct picture_file file = make_pair(true, 2, "\xFF\xD8" APPLE_NAME);
    for (size_t length = 0; length < file.length; length++) {
        uint8_t *cut = malloc(length > 0 ? length : 1);
        memcpy(cut, file.bytes, length);
        assert_false(gain_map_is_in(cut, length));
        free(cut);
    }
    size_t end = 2 + 4 + 4 + INDEX_ENTRIES_AT + 2 * 16;
    for (size_t at = 2; at < end; at++)
        for (int bit = 0; bit < 8; bit++) {
            uint8_t *copy = malloc(file.length);
            memcpy(copy, file.bytes, file.length);
            copy[at] ^= (uint8_t)(1 << bit);
            (void)gain_map_is_in(copy, file.length);
            free(copy);
        }
    picture_free(&file);
}

/* ---- boxes ---- */

#define FTYP(brands)                                                                               \
    "\0\0\0\x1C"                                                                                   \
    "ftypavif\0\0\0\0" brands

TEST(test_boxes)
{
#define HAS(text) gain_map_is_in((const uint8_t *)(text), sizeof(text) - 1)
    assert_true(HAS(FTYP("mif1miaftmap") "...."));
    assert_false(HAS(FTYP("mif1miafmiaf") "tmap"));
    assert_false(HAS(FTYP("mif1miaf") "tma"));
    assert_false(HAS("\0\0\0\x1C"
                     "ftyptmap\0\0\0\0mif1miafmiaf")); /* a major brand is repeated */
    assert_true(HAS(FTYP("mif1miafmiaf") "meta....." APPLE_NAME));
    assert_false(HAS("GIF89a" APPLE_NAME ISO_NAME));
}

/* ---- what is made of it ---- */

TEST(test_metadata)
{
    static const char packet[] = XMP_NAME "\0" PACKET(
        " xmlns:h='" HDRGM "' h:Version='1.0' xmlns:d='http://purl.org/dc/elements/1.1/' "
        "d:source='a'");
    struct picture_file file = photo();
    put_segment(&file, APP1, packet, sizeof packet - 1);
    rig.limits.metadata = METADATA_XMP;
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    assert_true(rig.info.gain_map);
    const char *xmp = (const char *)rig.info.xmp;
    assert_non_null(memmem(xmp, rig.info.xmp_bytes, "d:source='a'", 12));
    assert_null(memmem(xmp, rig.info.xmp_bytes, "Version", 7));
    picture_free(&file);
}

/* Only the image after the first one tells whether it is a gain map. The codec keeps the header of
 * the file before, which is the same. */
TEST(test_equal_headers)
{
    char other[] = APPLE_NAME;
    other[0] = 'U';
    struct picture_file files[] = {make_pair(true, 2, APPLE_NAME), make_pair(true, 2, other)};
    size_t header = files[0].length - strlen(other);
    for (int i = 0; i < 4; i++) {
        const struct picture_file *file = &files[i % 2];
        assert_memory_equal(file->bytes, files[0].bytes, header);
        assert_int_equal(rig_probe(&rig, file), STATUS_OK);
        assert_int_equal(rig.info.gain_map, i % 2 == 0);
    }
    picture_free(&files[0]);
    picture_free(&files[1]);
}

TEST_MAIN(.name = "gain_map", .each_setup = rig_setup, .each_teardown = rig_teardown)
