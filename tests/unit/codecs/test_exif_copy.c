/* Tests of the EXIF data that outputs keep, with a reader and a writer of their own. */
#include "tests/fixtures/codec_rig.h"

#include "codecs/codec_impl.h"
#include "tests/fixtures/camera.h"

/* ---- TIFF data ---- */

struct data {
    struct picture_file file;
    bool big;
};

static void put_at(struct data *data, size_t at, uint32_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        data->file.bytes[at + (size_t)i] =
            (uint8_t)(value >> 8 * (data->big ? bytes - 1 - i : i));
}

static uint32_t get_at(const struct data *data, size_t at, int bytes)
{
    uint32_t value = 0;
    assert_true(at + (size_t)bytes <= data->file.length);
    for (int i = 0; i < bytes; i++)
        value |= (uint32_t)data->file.bytes[at + (size_t)i]
                 << 8 * (data->big ? bytes - 1 - i : i);
    return value;
}

/* Appends bytes (NULL: zeros) and returns their offset. */
static size_t append(struct data *data, const void *bytes, size_t count)
{
    size_t at = data->file.length;
    uint8_t *zeros = calloc(1, count + 1);
    picture_insert(&data->file, at, bytes ? bytes : zeros, count);
    free(zeros);
    return at;
}

static struct data begin(bool big)
{
    struct data data = {{NULL, 0}, big};
    append(&data, big ? "MM\0*\0\0\0\0" : "II*\0\0\0\0\0", 8);
    return data;
}

/* An entry's value is a number, or with is_at the offset of `count` values. */
struct entry {
    unsigned tag, type, count;
    size_t value;
};

/* Appends a directory, and returns its offset. */
static size_t directory(struct data *data, const struct entry *entries, size_t next)
{
    unsigned count = 0;
    while (entries[count].type != 0)
        count++;
    size_t at = append(data, NULL, 2 + 12 * count + 4), to = at + 2;
    put_at(data, at, count, 2);
    for (unsigned i = 0; i < count; i++, to += 12) {
        int bytes = entries[i].count == 1 && entries[i].type == 3 ? 2 : 4;
        put_at(data, to, entries[i].tag, 2);
        put_at(data, to + 2, entries[i].type, 2);
        put_at(data, to + 4, entries[i].count, 4);
        put_at(data, to + 8, (uint32_t)entries[i].value, bytes);
    }
    put_at(data, to, (uint32_t)next, 4);
    return at;
}
#define DIRECTORY(data, next, ...) directory(data, (struct entry[]){__VA_ARGS__, {0}}, next)

/* Returns the offset of an entry of the directory; 0: there is none. */
static size_t find(const struct data *data, size_t at, unsigned tag)
{
    unsigned count = at == 0 ? 0 : get_at(data, at, 2);
    for (unsigned i = 0; i < count; i++)
        if (get_at(data, at + 2 + 12 * i, 2) == tag)
            return at + 2 + 12 * i;
    return 0;
}

static uint32_t value(const struct data *data, size_t at, unsigned tag)
{
    size_t entry = find(data, at, tag);
    return entry == 0 ? 0 : get_at(data, entry + 8, get_at(data, entry + 2, 2) == 3 ? 2 : 4);
}

/* Copies, and frees the source. */
static struct data copy(struct data from)
{
    struct data to = {{NULL, 0}, from.big};
    assert_true(exif_copy(from.file.bytes, from.file.length, 1, &to.file.bytes, &to.file.length));
    picture_free(&from.file);
    if (to.file.bytes) { /* the directories end in order */
        assert_memory_equal(to.file.bytes, from.big ? "MM\0*" : "II*\0", 4);
        assert_int_equal(get_at(&to, 4, 4), 8);
    }
    return to;
}

static bool has(const struct data *data, const char *text)
{
    return memmem(data->file.bytes, data->file.length, text, strlen(text)) != NULL;
}

/* ---- thumbnails ---- */

static const char jpeg[] = "\xFF\xD8\xFF\xE0 THUMBNAIL as a JPEG, uncropped \xFF\xD9";
static const char strip[] = "THUMBNAIL as a strip of pixels, uncropped";
enum { JPEG_BYTES = sizeof jpeg - 1, STRIP_BYTES = sizeof strip - 1 };

static void expect_orientation_alone(struct data from)
{
    struct data to = copy(from);
    assert_int_equal(to.file.length, 8 + 2 + 12 + 4);
    assert_int_equal(value(&to, 8, 0x0112), 6);
    assert_int_equal(get_at(&to, 8 + 2 + 12, 4), 0); /* no IFD 1 */
    picture_free(&to.file);
}

/* Where a thumbnail is and how it is stored does not matter. */
TEST(test_thumbnails)
{
    for (int i = 0; i < 16; i++) {
        struct data data = begin(i % 2);
        bool before = i / 2 % 2, is_strip = i / 4 % 2, is_overlong = i / 8;
        const char *image = is_strip ? strip : jpeg;
        size_t bytes = is_strip ? STRIP_BYTES : JPEG_BYTES;
        size_t at = before ? append(&data, image, bytes) : 8 + 18 + 66;
        size_t long_by = is_overlong ? 5000 : 0, ifd0_at = data.file.length;
        put_at(&data, 4, (uint32_t)ifd0_at, 4);
        DIRECTORY(&data, ifd0_at + 18, {0x0112, 3, 1, 6});
        DIRECTORY(&data, 0, {0x0100, 3, 1, 20}, {0x0103, 3, 1, is_strip ? 1 : 6},
                  {is_strip ? 0x0111 : 0x0201, 4, 1, at},
                  {is_strip ? 0x0117 : 0x0202, 4, 1, bytes + long_by}, {0x010E, 2, 5, at});
        if (!before)
            append(&data, image, bytes);
        expect_orientation_alone(data);
    }
}

/* In IFD 0, in the Exif IFD, in further directories, and in values of other tags. */
TEST(test_images_elsewhere)
{
    for (int i = 0; i < 12; i++) {
        struct data data = begin(i % 2);
        size_t at = append(&data, jpeg, JPEG_BYTES + 1), exif = 0, sub = 0;
        sub = DIRECTORY(&data, 0, {0x0201, 4, 1, at}, {0x0202, 4, 1, JPEG_BYTES});
        exif = DIRECTORY(&data, sub, {0x0201, 4, 1, at}, {0x0202, 4, 1, JPEG_BYTES},
                         {0x927C, 7, JPEG_BYTES, at}, {0x9286, 7, JPEG_BYTES, at});
        size_t ifd0 = data.file.length;
        struct entry others[] = {{0x0111, 4, 1, at},          /* strips */
                                 {0x014A, 4, 1, sub},         /* SubIFDs */
                                 {0x8649, 7, JPEG_BYTES, at}, /* Photoshop's resources */
                                 {0x010E, 2, JPEG_BYTES, at}, /* a text */
                                 {0xC634, 1, JPEG_BYTES, at}, /* private data of DNG */
                                 {0x02BC, 1, JPEG_BYTES, at}}; /* XMP */
        put_at(&data, 4, (uint32_t)ifd0, 4);
        DIRECTORY(&data, sub, {0x0112, 3, 1, 6}, others[i / 2], {0x8769, 4, 1, exif});
        expect_orientation_alone(data);
    }
}

/* A value that overlaps a thumbnail, MakerNote or a value of IFD 1 is a part of it. */
TEST(test_overlaps)
{
    for (int i = 0; i < 10; i++) {
        struct data data = begin(i % 2);
        size_t at = append(&data, strip, STRIP_BYTES + 1), exif, ifd1;
        size_t numbers = append(&data, NULL, 8);
        put_at(&data, numbers, (uint32_t)at, 4); /* of two strips */
        put_at(&data, numbers + 4, (uint32_t)at + 10, 4);
        struct entry rows[][2] = {{{0x0201, 4, 1, at}, {0x0202, 4, 1, STRIP_BYTES}},
                                  {{0x0111, 4, 1, at}, {0x0117, 4, 1, STRIP_BYTES}},
                                  {{0x0111, 4, 2, numbers}, {0x0117, 3, 2, 0x00140014}},
                                  {{0x010E, 2, STRIP_BYTES, at}, {0x0103, 3, 1, 6}},
                                  {{0x0201, 4, 1, at}, {0x0103, 3, 1, 6}}};
        ifd1 = DIRECTORY(&data, 0, rows[i / 2][0], rows[i / 2][1]);
        exif = DIRECTORY(&data, 0, {0x9286, 7, 20, at + 5}, {0xA302, 7, 8, at + 9},
                         {0xA431, 2, 6, at + 20});
        put_at(&data, 4, (uint32_t)data.file.length, 4);
        DIRECTORY(&data, ifd1, {0x0112, 3, 1, 6}, {0x010E, 2, 20, at + 3}, {0x8769, 4, 1, exif},
                  {0x8298, 2, STRIP_BYTES, at});
        struct picture_file words = {NULL, 0};
        assert_true(exif_notice(data.file.bytes, data.file.length, &words.bytes, &words.length));
        assert_null(words.bytes);
        expect_orientation_alone(data);
    }
}

/* The Exif IFD is no IFD 1, a note of a camera is no text, and texts have the type of a text. */
TEST(test_other_overlaps)
{
    struct data data = begin(true);
    size_t at = append(&data, strip, STRIP_BYTES + 1);
    size_t ifd1 = DIRECTORY(&data, 0, {0x9286, 7, STRIP_BYTES, at}, {0x9003, 2, 2, 0x41000000});
    put_at(&data, 4, (uint32_t)data.file.length, 4);
    DIRECTORY(&data, ifd1, {0x0112, 3, 1, 6}, {0x8769, 4, 1, ifd1});
    expect_orientation_alone(data);
    data = begin(false);
    at = append(&data, strip, STRIP_BYTES + 1);
    size_t exif = DIRECTORY(&data, 0, {0x927C, 7, STRIP_BYTES, at}, {0x9286, 7, 9, at + 1});
    put_at(&data, 4, (uint32_t)data.file.length, 4);
    DIRECTORY(&data, 0, {0x0112, 3, 1, 6}, {0x010E, 2, 9, at}, {0x8769, 4, 1, exif});
    expect_orientation_alone(data);
    data = begin(false);
    at = append(&data, strip, STRIP_BYTES + 1);
    put_at(&data, 4, (uint32_t)data.file.length, 4);
    DIRECTORY(&data, 0, {0x0112, 3, 1, 6}, {0x010E, 7, 9, at}, {0x013B, 1, 9, at},
              {0x8298, 12, 2, at});
    expect_orientation_alone(data);
}

/* A copyright that is a value of GPS. */
TEST(test_notice_of_gps)
{
    struct data data = begin(true);
    struct picture_file words = {NULL, 0};
    size_t at = append(&data, "48N 11E 520m", 13);
    size_t gps = DIRECTORY(&data, 0, {1, 2, 2, 0x4E000000}, {0x1D, 2, 13, at});
    put_at(&data, 4, (uint32_t)data.file.length, 4);
    DIRECTORY(&data, 0, {0x013B, 2, 8, at + 4}, {0x8298, 2, 13, at}, {0x8825, 4, 1, gps});
    assert_true(exif_notice(data.file.bytes, data.file.length, &words.bytes, &words.length));
    assert_null(words.bytes);
    picture_free(&data.file);
}

/* Images of other formats in values. */
TEST(test_image_signatures)
{
    static const char images[][16] = {"a\x89PNG\r\n\x1A\n", "RIFF\1\1\0\0WEBPVP8", "GIF89a\1\1",
                                      "\0\0\0\x20""ftypavif", "bMM\0*\0\0\0\x08", "II*\0\x08"};
    for (size_t i = 0; i < COUNT_OF(images); i++) {
        struct data data = begin(i % 2);
        size_t at = append(&data, images[i], 16);
        size_t exif = DIRECTORY(&data, 0, {0x9286, 7, 16, at});
        put_at(&data, 4, (uint32_t)data.file.length, 4);
        DIRECTORY(&data, 0, {0x0112, 3, 1, 6}, {0x010E, 2, 16, at}, {0x8769, 4, 1, exif});
        expect_orientation_alone(data);
    }
}

/* Bytes between directories and values, and those of a short value's field. */
TEST(test_gaps)
{
    struct data data = begin(true);
    append(&data, "SECRET", 6);
    size_t make = append(&data, "Camera\0SECRET", 13);
    put_at(&data, 4, (uint32_t)data.file.length, 4);
    DIRECTORY(&data, 0, {0x010F, 2, 7, make}, {0x0112, 3, 1, 6}, {0x0131, 2, 2, 0x41005345});
    append(&data, "SECRET", 6);
    struct data to = copy(data);
    assert_false(has(&to, "SECRET"));
    assert_false(has(&to, "SE"));
    assert_true(has(&to, "Camera"));
    assert_int_equal(value(&to, 8, 0x0131), 0x41000000);
    picture_free(&to.file);
}

/* ---- what stays ---- */

TEST(test_all_directories)
{
    for (int big = 0; big < 2; big++) {
        struct data data = begin(big);
        size_t maker = append(&data, NULL, 35000), ifd0, exif, gps, interop;
        size_t make = append(&data, "A camera", 9);
        size_t where = append(&data, "latitude 12345 678 90123", 24);
        interop = DIRECTORY(&data, 0, {1, 2, 4, 0x52393800}, {0x1000, 2, 4, 0x31323300});
        gps = DIRECTORY(&data, 0, {1, 2, 2, 0x4E000000}, {2, 5, 3, where}, {0xFF00, 3, 1, 1});
        /* Not in the order of their tags, and one twice. */
        exif = DIRECTORY(&data, 0, {0xA002, 4, 1, 4000}, {0x927C, 7, 35000, maker},
                         {0x9003, 2, 9, make}, {0xA005, 4, 1, interop}, {0xA002, 4, 1, 9});
        ifd0 = DIRECTORY(&data, 0, {0x8769, 4, 1, exif}, {0x8825, 4, 1, gps},
                         {0x010F, 2, 9, make}, {0x0112, 3, 1, 6});
        put_at(&data, 4, (uint32_t)ifd0, 4);
        struct data to = copy(data);
        assert_true(to.file.length < 300);
        assert_int_equal(get_at(&to, 8, 2), 4);
        for (unsigned i = 1; i < 4; i++) /* ascending tags */
            assert_true(get_at(&to, 8 + 2 + 12 * i, 2) > get_at(&to, 8 + 2 + 12 * (i - 1), 2));
        make = value(&to, 8, 0x010F);
        assert_memory_equal(to.file.bytes + make, "A camera", 9);
        exif = value(&to, 8, 0x8769);
        assert_int_equal(value(&to, exif, 0xA002), 4000);
        assert_int_equal(find(&to, exif, 0x927C), 0);
        assert_int_equal(get_at(&to, exif, 2), 3);
        interop = value(&to, exif, 0xA005);
        assert_int_equal(value(&to, interop, 1), 0x52393800);
        assert_int_equal(get_at(&to, interop, 2), 2);
        gps = value(&to, 8, 0x8825);
        assert_memory_equal(to.file.bytes + value(&to, gps, 2), "latitude 12345 678 90123", 24);
        assert_int_equal(get_at(&to, gps, 2), 2);
        struct picture_file again = {NULL, 0};
        assert_true(exif_copy(to.file.bytes, to.file.length, 1, &again.bytes, &again.length));
        assert_int_equal(again.length, to.file.length);
        assert_memory_equal(again.bytes, to.file.bytes, again.length);
        picture_free(&again);
        picture_free(&to.file);
    }
}

/* Values that many entries share would make a copy of megabytes. The longest are left out. */
TEST(test_shared_values)
{
    enum { shared = 40000 };
    struct data data = begin(false);
    size_t at = append(&data, NULL, shared);
    put_at(&data, 4, (uint32_t)data.file.length, 4);
    DIRECTORY(&data, 0, {0x010E, 2, shared, at}, {0x010F, 2, shared, at},
              {0x0110, 2, shared - 1, at}, {0x0112, 3, 1, 3}, {0x0131, 2, 20000, at});
    struct data to = copy(data);
    assert_int_equal(to.file.length, 8 + 2 + 3 * 12 + 4 + shared + 20000);
    assert_int_not_equal(find(&to, 8, 0x0110), 0);
    assert_int_equal(value(&to, 8, 0x0112), 3);
    assert_int_not_equal(find(&to, 8, 0x0131), 0);
    picture_free(&to.file);
}

/* A directory of which only a pointer stays takes room as well. */
TEST(test_pointers_alone)
{
    for (unsigned bytes = 65400; bytes < 65560; bytes++) {
        struct data data = begin(true);
        size_t at = append(&data, NULL, bytes), interop, exif;
        interop = DIRECTORY(&data, 0, {2, 7, bytes, at});
        exif = DIRECTORY(&data, 0, {0xA005, 4, 1, interop});
        put_at(&data, 4, (uint32_t)DIRECTORY(&data, 0, {0x8769, 4, 1, exif}), 4);
        struct data to = copy(data);
        assert_true(to.file.length <= EXIF_KEPT_BYTES_MAX);
        assert_true(bytes > 65400 || to.file.length > bytes);
        picture_free(&to.file);
    }
}

/* Thousands of entries with one long value. */
TEST(test_many_entries)
{
    enum { count = 60000, shared = 60000 };
    struct data data = begin(true);
    size_t at = append(&data, NULL, shared), table = append(&data, NULL, 2 + 12 * count + 4);
    put_at(&data, 4, (uint32_t)table, 4);
    put_at(&data, table, count, 2);
    for (unsigned i = 0; i < count; i++) {
        put_at(&data, table + 2 + 12 * i, i % 2 ? 0x010E : i % 0x9000, 2);
        put_at(&data, table + 4 + 12 * i, 2, 2);
        put_at(&data, table + 6 + 12 * i, shared, 4);
        put_at(&data, table + 10 + 12 * i, (uint32_t)at, 4);
    }
    uint64_t start = clock_thread_cpu_ns();
    struct data to = copy(data);
    assert_true(clock_thread_cpu_ns() - start < 500000000u);
    assert_in_range(to.file.length, shared, EXIF_KEPT_BYTES_MAX);
    picture_free(&to.file);
}

/* Directories that point at each other or outside, and values without a valid type or place. */
TEST(test_hostile)
{
    struct data data = begin(false);
    put_at(&data, 4, 8, 4);
    DIRECTORY(&data, 8, {0x8769, 4, 1, 8}, {0x8825, 4, 1, 8}, {0xA005, 4, 1, 8},
              {0x0112, 3, 1, 6});
    expect_orientation_alone(data);
    data = begin(true);
    put_at(&data, 4, 8, 4);
    DIRECTORY(&data, 0, {0x0112, 3, 1, 6}, {0x010E, 2, 0xFFFFFFFF, 0}, {0x010F, 2, 8, 0xFFFFFFFF},
              {0x0110, 99, 1, 0}, {0x0131, 2, 0, 0}, {0x013B, 12, 0x20000000, 8},
              {0x8298, 13, 1, 8}, {0x8769, 4, 1, 0xFFFFFFF0}, {0x8825, 4, 2, 8});
    expect_orientation_alone(data);
    for (size_t length = 0; length < 12; length++) {
        struct data small = begin(true);
        append(&small, NULL, 4);
        small.file.length = length;
        struct data to = copy(small);
        assert_null(to.file.bytes);
    }
}

/* ---- the notice and the density ---- */

TEST(test_notice)
{
    struct data data = begin(true), to = {{NULL, 0}, true};
    size_t who = append(&data, "Ann Artist", 11), what = append(&data, "(c) 2024 Ann", 13);
    size_t gps = DIRECTORY(&data, 0, {1, 2, 2, 0x4E000000});
    size_t exif = DIRECTORY(&data, 0, {0xA431, 2, 4, 0x34373131});
    put_at(&data, 4, (uint32_t)data.file.length, 4);
    DIRECTORY(&data, 0, {0x010F, 2, 4, 0x41424300}, {0x0112, 3, 1, 6}, {0x013B, 2, 11, who},
              {0x8298, 2, 13, what}, {0x8769, 4, 1, exif}, {0x8825, 4, 1, gps});
    assert_true(exif_notice(data.file.bytes, data.file.length, &to.file.bytes, &to.file.length));
    assert_int_equal(get_at(&to, 8, 2), 2);
    assert_memory_equal(to.file.bytes + value(&to, 8, 0x013B), "Ann Artist", 11);
    assert_memory_equal(to.file.bytes + value(&to, 8, 0x8298), "(c) 2024 Ann", 13);
    assert_int_equal(to.file.length, 8 + 2 + 24 + 4 + 12 + 14);
    picture_free(&data.file);
    picture_free(&to.file);
    data = begin(false);
    put_at(&data, 4, 8, 4);
    DIRECTORY(&data, 0, {0x0112, 3, 1, 6});
    assert_true(exif_notice(data.file.bytes, data.file.length, &to.file.bytes, &to.file.length));
    assert_null(to.file.bytes);
    picture_free(&data.file);
}

TEST(test_density)
{
    static const struct {
        uint32_t over, under, unit, type;
        struct image_density wanted;
    } rows[] = {{300, 1, 2, 5, {300, 72, DENSITY_INCH}},   {300, 1, 3, 5, {300, 72, DENSITY_CM}},
                {5999, 20, 0, 5, {300, 72, DENSITY_INCH}}, {1, 3, 2, 5, {0, 72, DENSITY_NONE}},
                {300, 0, 2, 5, {0, 72, DENSITY_NONE}},     {300, 1, 2, 4, {0, 72, DENSITY_NONE}},
                {0xFFFFFFFF, 1, 2, 5, {0xFFFFFFFF, 72, DENSITY_INCH}}};
    for (size_t i = 0; i < 2 * COUNT_OF(rows); i++) {
        struct data data = begin(i % 2);
        size_t x = append(&data, NULL, 8), y = append(&data, NULL, 8);
        put_at(&data, x, rows[i / 2].over, 4);
        put_at(&data, x + 4, rows[i / 2].under, 4);
        put_at(&data, y, 72, 4);
        put_at(&data, y + 4, 1, 4);
        put_at(&data, 4, (uint32_t)data.file.length, 4);
        DIRECTORY(&data, 0, {0x011A, rows[i / 2].type, 1, x}, {0x011B, 5, 1, y},
                  {0x0128, 3, 1, rows[i / 2].unit});
        struct image_density got = exif_density(data.file.bytes, data.file.length);
        assert_int_equal(got.unit, rows[i / 2].wanted.unit);
        assert_int_equal(got.x, rows[i / 2].wanted.x);
        assert_int_equal(got.y, 72);
        picture_free(&data.file);
    }
}

TEST(test_convert_density)
{
    struct image_density to;
    for (uint32_t dpi = 1; dpi <= 65535; dpi++) {
        struct image_density from = {dpi, 72, DENSITY_INCH}, metre;
        assert_true(codec_convert_density(&from, DENSITY_METRE, UINT32_MAX, &metre));
        assert_true(codec_convert_density(&metre, DENSITY_INCH, UINT16_MAX, &to));
        assert_int_equal(to.x, dpi);
        assert_int_equal(to.y, 72);
        assert_int_equal(metre.y, 2835);
    }
    assert_true(codec_convert_density(&(struct image_density){118, 118, DENSITY_CM}, DENSITY_INCH,
                                      UINT16_MAX, &to));
    assert_int_equal(to.x, 300);
    assert_false(codec_convert_density(&(struct image_density){1, 1, DENSITY_METRE}, DENSITY_INCH,
                                       UINT16_MAX, &to));
    assert_false(codec_convert_density(&(struct image_density){65536, 1, DENSITY_INCH},
                                       DENSITY_INCH, UINT16_MAX, &to));
    assert_false(codec_convert_density(&(struct image_density){1, 1, DENSITY_NONE}, DENSITY_INCH,
                                       UINT16_MAX, &to));
    assert_false(codec_convert_density(&(struct image_density){UINT32_MAX, UINT32_MAX,
                                                               DENSITY_INCH},
                                       DENSITY_METRE, UINT32_MAX, &to));
}

TEST_MAIN(.name = "exif_copy", .each_setup = rig_setup, .each_teardown = rig_teardown)
