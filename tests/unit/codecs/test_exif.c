/* Tests of the EXIF orientation: both byte orders, both formats, and broken blobs. */
#include "tests/fixtures/codec_rig.h"

#include "codecs/codec_impl.h"

TEST(test_blob)
{
    for (int i = 0; i < 4; i++)
        for (int orientation = 0; orientation <= 10; orientation++) {
            struct picture_file exif = picture_exif(orientation, i % 2 != 0, i / 2 != 0);
            int wanted = orientation >= 1 && orientation <= 8 ? orientation : 1;
            assert_int_equal(exif_orientation(exif.bytes, exif.length), wanted);
            picture_free(&exif);
        }
    struct picture_file exif = picture_exif(0x0601, true, false);
    assert_int_equal(exif_orientation(exif.bytes, exif.length), 1);
    picture_free(&exif);
}

/* Pillow and libvips rotate by the first value of these types. A copy for an output that is upright
 * must not rotate it again. */
TEST(test_types)
{
    static const struct {
        uint8_t type, count;
        uint8_t value[4];
        int orientation;
    } rows[] = {{3, 1, {0, 6, 0, 0}, 6},  {4, 1, {0, 0, 0, 6}, 6}, {8, 1, {0, 6, 0, 0}, 6},
                {9, 1, {0, 0, 0, 6}, 6},  {3, 2, {0, 6, 0, 3}, 6}, {1, 1, {6, 6, 6, 6}, 1},
                {2, 2, {'6', 0, 0, 0}, 1}, {6, 1, {6, 0, 0, 6}, 1}, {7, 4, {0, 6, 0, 6}, 1},
                {3, 0, {0, 6, 0, 6}, 1},  {4, 1, {0, 6, 0, 0}, 1}, {4, 1, {0, 1, 0, 6}, 1},
                {9, 1, {255, 255, 255, 255}, 1}, {11, 1, {0, 0, 0, 6}, 1}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint8_t blob[26] = "MM\0*\0\0\0\10\0\1\1\22";
        const struct metadata_fit upright = {.upright = true, .width = 1, .height = 1};
        const struct metadata_fit turned = {.orientation = 5, .width = 1, .height = 1};
        uint8_t *copy = NULL;
        size_t bytes = 0;
        blob[13] = rows[i].type;
        blob[17] = rows[i].count;
        memcpy(blob + 18, rows[i].value, 4);
        assert_int_equal(exif_orientation(blob, sizeof blob), rows[i].orientation);
        assert_true(exif_copy(blob, sizeof blob, 1, &copy, &bytes));
        assert_int_equal(exif_orientation(copy, bytes), rows[i].orientation);
        exif_fit(copy, bytes, 0, &upright);
        assert_int_equal(exif_orientation(copy, bytes), 1);
        free(copy);
        copy = NULL; /* pixels with another orientation need a tag that is read */
        assert_true(exif_copy(blob, sizeof blob, 5, &copy, &bytes));
        exif_fit(copy, bytes, 0, &turned);
        assert_int_equal(exif_orientation(copy, bytes), 5);
        free(copy);
    }
}

TEST(test_broken_blob)
{
    struct picture_file exif = picture_exif(6, true, false);
    for (size_t length = 0; length < exif.length; length++) {
        struct picture_file part = picture_cut(&exif, length);
        int orientation = exif_orientation(part.bytes, part.length);
        assert_true(orientation == 1 || orientation == 6);
        picture_free(&part);
    }
    for (size_t at = 0; at < exif.length; at++)
        for (int value = 0; value < 256; value += 5) {
            struct picture_file bad = picture_cut(&exif, exif.length);
            bad.bytes[at] = (uint8_t)value;
            assert_in_range(exif_orientation(bad.bytes, bad.length), 1, 8);
            picture_free(&bad);
        }
    picture_free(&exif);
    for (uint32_t seed = 0; seed < 200; seed++) {
        struct picture_file garbage = picture_garbage(300, seed);
        memcpy(garbage.bytes, seed % 2 != 0 ? "II*\0\10\0\0\0" : "MM\0*\0\0\0\10", 8);
        assert_in_range(exif_orientation(garbage.bytes, garbage.length), 1, 8);
        picture_free(&garbage);
    }
}

/* Directories that point at each other: a reader that follows every pointer takes very long. */
TEST(test_circles)
{
    enum { ENTRIES = 5000, ENTRY = 12 };
    uint8_t *blob = calloc(1, 10 + ENTRIES * ENTRY);
    assert_non_null(blob);
    memcpy(blob, "II*\0\10\0\0\0", 8);
    blob[8] = ENTRIES & 255;
    blob[9] = ENTRIES >> 8;
    for (size_t i = 0; i + 1 < ENTRIES; i++) /* Exif and GPS directories, both at 8 */
        memcpy(blob + 10 + ENTRY * i, i % 2 ? "\x69\x87\4\0\1\0\0\0\10\0\0\0"
                                           : "\x25\x88\4\0\1\0\0\0\10\0\0\0", ENTRY);
    memcpy(blob + 10 + ENTRY * (ENTRIES - 1), "\x12\1\3\0\1\0\0\0\6\0\0\0", ENTRY);
    uint64_t begin = clock_thread_cpu_ns();
    assert_int_equal(exif_orientation(blob, 10 + ENTRIES * ENTRY), 6);
    assert_true(clock_thread_cpu_ns() - begin < 1000000000u);
    free(blob);
}

TEST(test_size_of_blob)
{
    for (size_t more = 0; more < 2; more++) {
        struct picture_file exif = picture_exif(6, false, false);
        struct picture_file tail = picture_garbage(EXIF_BYTES_MAX + more - exif.length, 1);
        picture_insert(&exif, exif.length, tail.bytes, tail.length);
        assert_int_equal(exif_orientation(exif.bytes, exif.length), more == 0 ? 6 : 1);
        picture_free(&tail);
        picture_free(&exif);
    }
}

static void expect_in_file(struct picture_file file, int orientation)
{
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    assert_int_equal(rig.info.orientation, orientation);
    picture_free(&file);
}

TEST(test_in_files)
{
    for (int orientation = 0; orientation <= 9; orientation++) {
        int wanted = orientation >= 1 && orientation <= 8 ? orientation : 1;
        struct picture_jpeg jpeg = {.width = 16, .height = 8, .orientation = orientation};
        expect_in_file(picture_jpeg(&jpeg), wanted);
        struct picture_png png = {.width = 16, .height = 8, .orientation = orientation};
        expect_in_file(picture_png(&png), wanted);
        png.orientation = 0;
        struct picture_file file = picture_png(&png); /* and after the pixels */
        struct picture_file exif = picture_exif(orientation, false, true);
        picture_png_insert(&file, "IEND", "eXIf", exif.bytes, exif.length);
        picture_free(&exif);
        expect_in_file(file, wanted);
    }
}

TEST(test_behind_the_end)
{
    struct picture_file file = make_png(.width = 16, .height = 8);
    struct picture_file other = make_png(.width = 16, .height = 8, .orientation = 6);
    picture_insert(&file, file.length, other.bytes + 8, other.length - 8);
    picture_free(&other);
    expect_in_file(file, 1);
}

/* Many files have another APP1 segment (XMP) first. */
TEST(test_behind_xmp)
{
    static const char xmp[] = "\xFF\xE1\0\x22http://ns.adobe.com/xap/1.0/\0abc";
    struct picture_file file = make_jpeg(.width = 16, .height = 8, .orientation = 3);
    picture_insert(&file, picture_jpeg_marker(&file, 0xE1), xmp, 2 + 0x22);
    expect_in_file(file, 3);
}

TEST(test_broken_in_files)
{
    static const uint8_t broken[] = "Exif\0\0II*\0\377\377\377\377";
    struct picture_jpeg jpeg = {
        .width = 16, .height = 8, .exif = broken, .exif_bytes = sizeof broken - 1};
    expect_in_file(picture_jpeg(&jpeg), 1);
    struct picture_file file = make_png(.width = 16, .height = 8);
    picture_png_insert(&file, "IDAT", "eXIf", broken, sizeof broken - 1);
    expect_in_file(file, 1);
}

TEST_MAIN(.name = "exif", .each_setup = rig_setup, .each_teardown = rig_teardown)
