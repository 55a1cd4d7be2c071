/* Tests of codecs/png/frame.h: which PNGs have a frame for devices. */
#include <zlib.h>

#include "codecs/png/frame.h"
#include "conf/limits.h"
#include "tests/fixtures/picture.h"
#include "tests/fixtures/test.h"

enum { after_header = 33, overhead = 12 };

static void put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Corrects the CRC of the chunk at an offset. */
static void seal(struct picture_file *file, size_t at)
{
    const uint8_t *chunk = file->bytes + at;
    size_t count = (size_t)chunk[0] << 24 | chunk[1] << 16 | chunk[2] << 8 | chunk[3];
    put_u32(file->bytes + at + 8 + count, (uint32_t)crc32(0, chunk + 4, (uInt)(4 + count)));
}

/* Inserts a chunk of zeros after IHDR. */
static void insert(struct picture_file *file, const char *type, size_t count)
{
    file->bytes = realloc(file->bytes, file->length + overhead + count);
    uint8_t *at = file->bytes + after_header;
    memmove(at + overhead + count, at, file->length - after_header);
    memset(at, 0, overhead + count);
    put_u32(at, (uint32_t)count);
    memcpy(at + 4, type, 4);
    seal(file, after_header);
    file->length += overhead + count;
}

static bool has_frame(const struct picture_file *file)
{
    struct png_frame frame;
    return png_read_frame(file->bytes, file->length, &frame);
}

static bool has_frame_of(struct picture_png options)
{
    options.width = 20;
    options.height = 10;
    struct picture_file file = picture_png(&options);
    bool result = has_frame(&file);
    picture_free(&file);
    return result;
}

static struct picture_file plain(void)
{
    return picture_png(&(struct picture_png){.width = 20, .height = 10, .colour_type = 2});
}

TEST(usual_files_have_a_frame)
{
    static const uint32_t types[] = {0, 2, 3, 4, 6}, channels[] = {1, 3, 0, 0, 4};
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        struct png_frame frame;
        struct picture_file file = picture_png(&(struct picture_png){
            .width = 20, .height = 10, .colour_type = (int)types[i], .orientation = 6});
        bool has = png_read_frame(file.bytes, file.length, &frame);
        assert_int_equal(has, channels[i] > 0);
        if (has) {
            assert_int_equal(frame.width, 20);
            assert_int_equal(frame.height, 10);
            assert_int_equal(frame.channels, channels[i]);
            assert_memory_equal(file.bytes + frame.idat_at + 4, "IDAT", 4);
        }
        picture_free(&file);
    }
}

TEST(unusual_pixels_have_no_frame)
{
    assert_true(has_frame_of((struct picture_png){.colour_type = 2}));
    assert_false(has_frame_of((struct picture_png){.colour_type = 2, .bit_depth = 16}));
    assert_false(has_frame_of((struct picture_png){.colour_type = 0, .bit_depth = 4}));
    assert_false(has_frame_of((struct picture_png){.colour_type = 6, .interlaced = true}));
    assert_false(has_frame_of((struct picture_png){.colour_type = 2, .transparent = true}));
    assert_false(has_frame_of((struct picture_png){.colour_type = 0, .transparent = true}));
}

TEST(a_frame_needs_the_file_only_up_to_the_first_idat)
{
    struct picture_file file = plain();
    struct png_frame frame;
    assert_true(png_read_frame(file.bytes, file.length, &frame));
    size_t needed = frame.idat_at + 8;
    for (size_t length = 0; length <= file.length; length++) {
        uint8_t *exact = malloc(length + 1); /* for sanitizers */
        memcpy(exact + 1, file.bytes, length);
        assert_int_equal(png_read_frame(exact + 1, length, &frame), length >= needed);
        free(exact);
    }
    picture_free(&file);
}

TEST(damage_before_the_pixels_has_no_frame)
{
    struct picture_file file = plain();
    struct png_frame frame, other;
    insert(&file, "teSt", 5);
    assert_true(png_read_frame(file.bytes, file.length, &frame));
    for (size_t at = 0; at < frame.idat_at; at++)
        for (int bit = 0; bit < 8; bit++) {
            file.bytes[at] ^= (uint8_t)(1 << bit);
            assert_false(png_read_frame(file.bytes, file.length, &other));
            file.bytes[at] ^= (uint8_t)(1 << bit);
        }
    picture_free(&file);
}

TEST(only_chunks_that_libpng_skips_may_come_before_the_pixels)
{
    static const struct {
        const char *type;
        bool has_frame;
    } chunks[] = {{"teSt", true},
                  {"gAMA", true},
                  {"tESt", true},
                  {"tRNS", false},
                  {"PLTE", false},
                  {"IHDR", false},
                  {"IEND", false},
                  {"TeSt", false},
                  {"test", false},
                  {"t1St", false},
                  {"\xe1"
                   "eSt",
                   false}};
    for (size_t i = 0; i < COUNT_OF(chunks); i++) {
        struct picture_file file = plain();
        insert(&file, chunks[i].type, 6);
        if (has_frame(&file) != chunks[i].has_frame)
            fail_msg("%s", chunks[i].type);
        picture_free(&file);
    }
}

TEST(unusual_headers_have_no_frame)
{
    static const struct {
        size_t at;
        uint8_t value;
    } changes[] = {{16, 1}, {20, 1}, {25, 7}, {25, 255}, {26, 1}, {27, 1}, {28, 1}, {28, 2}};
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        struct picture_file file = plain();
        file.bytes[changes[i].at] = changes[i].value;
        seal(&file, 8);
        assert_false(has_frame(&file));
        picture_free(&file);
    }
    for (int side = 0; side < 2; side++)
        for (uint32_t more = 0; more < 2; more++) {
            struct picture_file file = plain();
            put_u32(file.bytes + 16 + 4 * side, SIDE_CEILING + more);
            seal(&file, 8);
            assert_int_equal(has_frame(&file), more == 0);
            put_u32(file.bytes + 16 + 4 * side, 0);
            seal(&file, 8);
            assert_false(has_frame(&file));
            picture_free(&file);
        }
}

TEST_MAIN()
