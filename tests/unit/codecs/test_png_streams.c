/*
 * Tests of PNG files with more data than their pixels. If all pixels are there, they are read as
 * libpng reads them; if pixels are missing or damaged, decoding fails.
 *
 * The test makes the streams from stored blocks (RFC 1950, RFC 1951), so that it can damage them.
 */
#include "tests/fixtures/codec_rig.h"

#include "tests/fixtures/picture_impl.h"
#include "tests/fixtures/raster.h"

enum { width = 20, height = 12, row_bytes = 1 + 3 * width, checksum_bytes = 4 };
enum { garbage_bytes = 70000 };

/* ---- streams ---- */

static uint32_t adler32_of(const uint8_t *bytes, size_t length)
{
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < length; i++) {
        a = (a + bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

/* A zlib stream of these bytes. If `ended` is false, no block is marked as the last one. */
static struct picture_file zlib_stream(const uint8_t *bytes, size_t length, bool ended)
{
    struct picture_file stream = {NULL, 0};
    uint8_t checksum[checksum_bytes];
    picture_append(&stream, "\x78\x01", 2);
    for (size_t at = 0; at < length;) {
        size_t count = length - at < 65535 ? length - at : 65535;
        bool last = ended && at + count == length;
        uint8_t head[5] = {last, (uint8_t)count, (uint8_t)(count >> 8), (uint8_t)~count,
                           (uint8_t)(~count >> 8)};
        picture_append(&stream, head, sizeof head);
        picture_append(&stream, bytes + at, count);
        at += count;
    }
    picture_put32(checksum, adler32_of(bytes, length));
    picture_append(&stream, checksum, sizeof checksum);
    return stream;
}

/* A stream of `rows` rows; the image has `height` rows. */
static struct picture_file stream_of(size_t rows, bool ended)
{
    uint8_t *pixels = picture_pixels(width, height, 3, 1);
    uint8_t *bytes = calloc(rows, row_bytes);
    assert_non_null(bytes);
    for (size_t y = 0; y < rows && y < height; y++)
        memcpy(bytes + y * row_bytes + 1, pixels + y * 3 * width, 3 * width);
    struct picture_file stream = zlib_stream(bytes, rows * row_bytes, ended);
    free(bytes);
    free(pixels);
    return stream;
}

/* ---- files ---- */

/* An RGB image without its data. */
static struct picture_file begin_file(void)
{
    struct picture_file file = make_png(.width = width, .height = height, .colour_type = 2,
                                        .seed = 1);
    const uint8_t *data = memmem(file.bytes, file.length, "IDAT", 4);
    const uint8_t *end = memmem(file.bytes, file.length, "IEND", 4);
    assert_true(data != NULL && end != NULL);
    size_t from = (size_t)(data - file.bytes) - 4, to = (size_t)(end - file.bytes) - 4;
    memmove(file.bytes + from, file.bytes + to, file.length - to);
    file.length -= to - from;
    return file;
}

static void add_data(struct picture_file *file, const uint8_t *bytes, size_t length)
{
    picture_png_insert(file, "IEND", "IDAT", bytes, length);
}

static void add_garbage(struct picture_file *file, size_t length)
{
    struct picture_file garbage = picture_garbage(length, 3);
    add_data(file, garbage.bytes, garbage.length);
    picture_free(&garbage);
}

/* The whole stream in one chunk, and `extra` bytes in the same chunk or in the next one. */
static struct picture_file file_with(size_t rows, size_t extra, bool together)
{
    struct picture_file file = begin_file(), stream = stream_of(rows, true);
    struct picture_file garbage = picture_garbage(extra, 2);
    if (together)
        picture_append(&stream, garbage.bytes, garbage.length);
    add_data(&file, stream.bytes, stream.length);
    if (!together)
        add_data(&file, garbage.bytes, garbage.length);
    picture_free(&garbage);
    picture_free(&stream);
    return file;
}

/* The checksum, or bytes in its place, has its own chunk: libpng reads it only after all rows. */
static struct picture_file file_with_checksum_apart(size_t rows, const char *instead, size_t length)
{
    struct picture_file file = begin_file(), stream = stream_of(rows, true);
    size_t whole = stream.length - checksum_bytes;
    add_data(&file, stream.bytes, whole);
    if (instead != NULL)
        add_data(&file, (const uint8_t *)instead, length);
    else
        add_data(&file, stream.bytes + whole, checksum_bytes);
    picture_free(&stream);
    return file;
}

/* ---- expectations ---- */

static void expect_as_libpng(const char *what, struct picture_file file)
{
    struct raster plain = raster_decode(file.bytes, file.length, RASTER_COLOUR);
    if (plain.pixels == NULL)
        fail_msg("%s: libpng does not read it either", what);
    enum status status = rig_decode(&rig, &file, DECODE_COLOUR);
    if (status != STATUS_OK)
        fail_msg("%s: %s: %s", what, status_name(status), rig.error.text);
    rig_expect_pixels(&rig, plain.pixels, plain.channels);
    raster_clear(&plain);
    picture_free(&file);
}

static void expect_picture(const char *what, struct picture_file file)
{
    uint8_t *pixels = picture_pixels(width, height, 3, 1);
    expect_as_libpng(what, file);
    rig_expect_pixels(&rig, pixels, 3);
    free(pixels);
}

static void expect_failure(const char *what, struct picture_file file)
{
    enum status status = rig_decode(&rig, &file, DECODE_COLOUR);
    if (status != STATUS_DECODE_FAILED)
        fail_msg("%s: %s", what, status_name(status));
    picture_free(&file);
}

TEST(test_data_behind_the_stream)
{
    expect_picture("nothing", file_with(height, 0, true));
    expect_picture("a byte", file_with(height, 1, true));
    expect_picture("many bytes", file_with(height, garbage_bytes, true));
    expect_picture("an empty chunk", file_with(height, 0, false));
    expect_picture("a chunk", file_with(height, 5, false));
    expect_picture("a large chunk", file_with(height, garbage_bytes, false));
    struct picture_file file = file_with(height, 5, false);
    add_garbage(&file, 9);
    add_garbage(&file, garbage_bytes);
    expect_picture("many chunks", file);
    file = file_with_checksum_apart(height, NULL, 0);
    add_garbage(&file, 9);
    expect_picture("a chunk after the checksum's own", file);
}

TEST(test_a_second_stream)
{
    struct picture_file file = file_with(height, 0, true), stream = stream_of(height, true);
    add_data(&file, stream.bytes, stream.length);
    expect_picture("a second stream", file);
    picture_free(&stream);
}

TEST(test_rows_behind_the_last)
{
    expect_picture("a row", file_with(height + 1, 0, true));
    expect_picture("many rows", file_with(height + 2000, 0, true));
    expect_picture("a row and bytes", file_with(height + 1, 5, true));
    expect_picture("a row, and the checksum apart",
                   file_with_checksum_apart(height + 1, NULL, 0));
}

TEST(test_chunks_out_of_place)
{
    struct picture_file file = file_with(height, 0, true);
    picture_png_insert(&file, "IEND", "tEXt", "Comment\0hello", 13);
    add_garbage(&file, 9);
    expect_picture("data after another chunk", file);
    file = file_with(height, 0, true);
    picture_png_insert(&file, "IEND", "gAMA", "\0\0\0\1", 4);
    picture_png_insert(&file, "IEND", "tRNS", "\0\0\0\0\0\0", 6);
    expect_picture("chunks that belong before the data", file);
    file = file_with(height, 0, true);
    file.bytes[file.length - 9] = 3; /* length of IEND */
    picture_append(&file, "endx", 4); /* the old CRC becomes data */
    file.length--;
    picture_png_fix_crcs(&file);
    expect_picture("an end with data", file);
}

/* All types of images, with the streams that libpng writes. */
TEST(test_every_type)
{
    static const int types[][2] = {{0, 1}, {0, 8}, {0, 16}, {2, 8}, {2, 16}, {3, 2},
                                   {3, 8}, {4, 8}, {4, 16}, {6, 8}, {6, 16}};
    for (size_t i = 0; i < COUNT_OF(types); i++)
        for (int interlaced = 0; interlaced < 2; interlaced++) {
            char what[64];
            struct picture_png options = {.width = 67, .height = 41, .colour_type = types[i][0],
                                          .bit_depth = types[i][1],
                                          .interlaced = interlaced != 0};
            struct picture_file file = picture_png(&options);
            uint32_t channels;
            uint8_t *wanted = picture_png_expected(&options, &channels);
            add_garbage(&file, 9);
            snprintf(what, sizeof what, "type %d of %d bits, %d", types[i][0], types[i][1],
                     interlaced);
            expect_as_libpng(what, file);
            rig_expect_pixels(&rig, wanted, channels);
            free(wanted);
        }
}

/* For a pixel beyond the end of the palette libpng gives black. */
TEST(test_palette_too_short)
{
    struct picture_file file = make_png(.width = 33, .height = 21, .colour_type = 3,
                                        .bit_depth = 4);
    const uint8_t *chunk = memmem(file.bytes, file.length, "PLTE", 4);
    assert_non_null(chunk);
    size_t at = (size_t)(chunk - file.bytes) - 4, cut = 3 * 9;
    assert_int_equal(file.bytes[at + 3], 3 * 16);
    file.bytes[at + 3] = (uint8_t)(3 * 16 - cut);
    size_t end = at + 8 + 3 * 16;
    memmove(file.bytes + end - cut, file.bytes + end, file.length - end);
    file.length -= cut;
    picture_png_fix_crcs(&file);
    expect_as_libpng("a palette of 7 colours", file);
}

TEST(test_stream_in_doubt)
{
    struct picture_file file = file_with(height, 0, true);
    const uint8_t *data = memmem(file.bytes, file.length, "IDAT", 4);
    assert_non_null(data);
    size_t at = (size_t)(data - file.bytes) + 4;
    file.bytes[at + 2 + 5 + 100]++; /* changes a pixel */
    picture_png_fix_crcs(&file);
    expect_failure("a pixel that contradicts the checksum", file);
    expect_failure("a wrong checksum", file_with_checksum_apart(height, "\1\2\3\4", 4));
    expect_failure("a wrong checksum after an extra row",
                   file_with_checksum_apart(height + 1, "\1\2\3\4", 4));
    expect_failure("no checksum", file_with_checksum_apart(height, "", 0));
    expect_failure("a missing row", file_with(height - 1, 0, true));
    expect_failure("a missing row, and bytes", file_with(height - 1, garbage_bytes, true));
    expect_failure("no row", file_with(0, 0, true));
}

/* All rows, then an invalid rest of the stream. */
TEST(test_stream_without_an_end)
{
    static const uint8_t wrong_block[] = {7, 0, 0, 0}, wrong_length[] = {1, 5, 0, 5, 0};
    static const struct {
        const char *what;
        const uint8_t *bytes;
        size_t length;
    } rests[] = {{"nothing", NULL, 0},
                 {"a block of an unknown type", wrong_block, sizeof wrong_block},
                 {"a block whose lengths differ", wrong_length, sizeof wrong_length}};
    for (size_t i = 0; i < COUNT_OF(rests); i++) {
        struct picture_file file = begin_file(), stream = stream_of(height, false);
        add_data(&file, stream.bytes, stream.length - checksum_bytes);
        if (rests[i].length > 0)
            add_data(&file, rests[i].bytes, rests[i].length);
        expect_failure(rests[i].what, file);
        picture_free(&stream);
    }
}

TEST_MAIN(.name = "png streams", .each_setup = rig_setup, .each_teardown = rig_teardown)
