/* Tests of the PNG codec against known pixels and libpng's simplified API, and with broken
 * files. */
#include "tests/fixtures/codec_rig.h"

#include <png.h>

static void expect_right_pixels(const struct picture_png *options, const struct picture_file *file)
{
    rig_reads(file, STATUS_OK, NULL);
    uint32_t channels;
    uint8_t *wanted = picture_png_expected(options, &channels);
    assert_int_equal(rig.info.width, options->width);
    assert_int_equal(rig.info.height, options->height);
    assert_int_equal(rig.info.channels, channels);
    assert_int_equal(rig.info.progressive, options->interlaced);
    assert_false(rig.info.ycc);
    rig_expect_pixels(&rig, wanted, channels);
    free(wanted);
}

/* All pairs of colour type and bit depth of the standard. */
static const struct {
    int colour_type, bit_depth;
} types[] = {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {2, 8}, {2, 16}, {3, 1},
             {3, 2}, {3, 4}, {3, 8}, {4, 8}, {4, 16}, {6, 8}, {6, 16}};
enum { type_count = COUNT_OF(types) };

TEST(test_every_type_and_size)
{
    static const uint32_t sides[][2] = {{1, 1},   {1, 21},  {21, 1},  {2, 3},   {5, 7},   {15, 17},
                                        {16, 16}, {17, 15}, {33, 31}, {64, 64}, {131, 77}};
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (int t = 0; t < type_count; t++)
            for (int variant = 0; variant < 4; variant++) {
                struct picture_png options = {.width = sides[i][0],
                                              .height = sides[i][1],
                                              .colour_type = types[t].colour_type,
                                              .bit_depth = types[t].bit_depth,
                                              .interlaced = variant % 2 != 0,
                                              .transparent = variant / 2 != 0,
                                              .seed = (uint32_t)i};
                if (options.transparent && (options.colour_type & PNG_COLOR_MASK_ALPHA) != 0)
                    continue;
                struct picture_file file = picture_png(&options);
                expect_right_pixels(&options, &file);
                picture_free(&file);
            }
}

/* Packed pixels from libpng's simplified reader. It does not convert 8-bit files that have no
 * gamma. */
static uint8_t *read_simply(const struct picture_file *file, uint32_t *channels)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    assert_true(png_image_begin_read_from_memory(&image, file->bytes, file->length));
    *channels = PNG_IMAGE_PIXEL_CHANNELS(image.format);
    uint8_t *pixels = malloc(PNG_IMAGE_SIZE(image));
    assert_non_null(pixels);
    assert_true(png_image_finish_read(&image, NULL, pixels, 0, NULL));
    png_image_free(&image);
    return pixels;
}

TEST(test_like_the_simple_reader)
{
    static const int colour_types[] = {0, 2, 6};
    for (int i = 0; i < 6; i++) {
        struct picture_file file = make_png(.width = 201, .height = 99,
                                            .colour_type = colour_types[i / 2],
                                            .interlaced = i % 2 != 0);
        rig_reads(&file, STATUS_OK, NULL);
        uint32_t channels;
        uint8_t *wanted = read_simply(&file, &channels);
        rig_expect_pixels(&rig, wanted, channels);
        free(wanted);
        picture_free(&file);
    }
}

TEST(test_gray_request)
{
    struct picture_file file = make_png(.width = 20, .height = 10, .colour_type = 0);
    assert_int_equal(rig_decode(&rig, &file, DECODE_LUMA), STATUS_OK);
    assert_int_equal(rig.image.channels, 1);
    picture_free(&file);
}

/* ---- limits and statuses ---- */

TEST(test_size_limits)
{
    struct picture_file file = make_png(.width = 40, .height = 30, .colour_type = 2);
    rig.limits.pixels_max = 40 * 30;
    rig.limits.side_max = 40;
    rig_reads(&file, STATUS_OK, NULL);
    rig.limits.pixels_max = 40 * 30 - 1;
    rig_reads(&file, STATUS_IMAGE_TOO_LARGE, "the PNG is 40 x 30 pixels; at most 1199 pixels");
    rig.limits.pixels_max = 40 * 30;
    rig.limits.side_max = 39;
    rig_reads(&file, STATUS_IMAGE_TOO_LARGE, "39 per side");
    picture_free(&file);
    rig.limits.side_max = SIDE_DEFAULT;
    rig.limits.pixels_max = PIXELS_DEFAULT;
    rig_reads_once(picture_png_huge(50000, 50000), STATUS_IMAGE_TOO_LARGE, "50000 x 50000");
    file = picture_png_huge(0xFFFFFFFF, 0xFFFFFFFF); /* more than libpng accepts */
    rig_reads(&file, STATUS_IMAGE_TOO_LARGE, "4294967295 x 4294967295");
    picture_free(&file);
    rig_reads_once(picture_png_huge(0, 10), STATUS_DECODE_FAILED, NULL);
}

/* libpng reads ancillary chunks before IHDR, so the size is not where it usually is. */
TEST(test_size_after_a_chunk)
{
    struct picture_file file = make_png(.width = 40, .height = 30, .colour_type = 2);
    picture_png_insert(&file, "IHDR", "teXt", "a\0b", 3);
    rig_reads(&file, STATUS_OK, NULL);
    rig.limits.pixels_max = 40 * 30 - 1;
    rig_reads(&file, STATUS_IMAGE_TOO_LARGE, "the PNG is 40 x 30 pixels; at most 1199 pixels");
    picture_free(&file);
}

/* A chunk that would inflate to megabytes is dropped; the image is read with normal memory. */
TEST(test_bombs)
{
    struct picture_png options = {.width = 8, .height = 8, .colour_type = 2};
    struct picture_file file = picture_png_ztxt_bomb();
    expect_right_pixels(&options, &file);
    picture_free(&file);
    file = picture_png_iccp_bomb();
    expect_right_pixels(&options, &file);
    assert_null(rig.info.icc);
    picture_free(&file);
}

TEST(test_crc_errors)
{
    static const char *const chunks[] = {"IHDR", "tEXt", "tRNS", "IDAT", "zzZz", "IEND"};
    struct picture_png options = {.width = 30, .height = 20, .colour_type = 0, .transparent = true};
    struct picture_file file = picture_png(&options);
    picture_png_insert(&file, "IDAT", "tEXt", "Comment\0hello", 13);
    picture_png_insert(&file, "IEND", "zzZz", "what is this", 12);
    expect_right_pixels(&options, &file);
    for (size_t i = 0; i < COUNT_OF(chunks); i++) {
        struct picture_file bad = picture_cut(&file, file.length);
        picture_png_break_crc(&bad, chunks[i]);
        rig_reads(&bad, STATUS_DECODE_FAILED, "CRC");
        picture_free(&bad);
    }
    picture_free(&file);
}

/* A lenient decode drops ancillary chunks with a wrong CRC; the file's pixels are right. */
TEST(test_lenient_crc)
{
    static const char *const chunks[] = {"tEXt", "gAMA", "iCCP", "eXIf", "pHYs", "zzZz", "IEND"};
    static const char *const critical[] = {"IHDR", "PLTE", "IDAT"};
    struct picture_file icc = picture_icc(500, "RGB "), exif = picture_exif(6, false, true);
    struct picture_png options = {.width = 30, .height = 20, .colour_type = 3, .icc = icc.bytes,
                                  .icc_bytes = icc.length};
    struct picture_file file = picture_png(&options);
    picture_png_insert(&file, "IDAT", "tEXt", "", 0);
    picture_png_insert(&file, "IDAT", "gAMA", "\0\1\2\3", 4);
    picture_png_insert(&file, "IDAT", "eXIf", exif.bytes, exif.length);
    picture_png_insert(&file, "IDAT", "pHYs", "\0\0\0\1\0\0\0\1\1", 9);
    picture_png_insert(&file, "IEND", "zzZz", "what is this", 12);
    for (size_t i = 0; i < COUNT_OF(chunks); i++) {
        struct picture_file bad = picture_cut(&file, file.length);
        picture_png_break_crc(&bad, chunks[i]);
        rig.limits.lenient = false;
        rig_reads(&bad, STATUS_DECODE_FAILED, "CRC");
        rig.limits.lenient = true;
        expect_right_pixels(&options, &bad);
        assert_int_equal(rig.info.orientation, strcmp(chunks[i], "eXIf") == 0 ? 1 : 6);
        assert_int_equal(rig.info.icc_bytes, strcmp(chunks[i], "iCCP") == 0 ? 0 : icc.length);
        picture_free(&bad);
    }
    for (size_t i = 0; i < COUNT_OF(critical); i++) {
        struct picture_file bad = picture_cut(&file, file.length);
        picture_png_break_crc(&bad, critical[i]);
        rig_reads(&bad, STATUS_DECODE_FAILED, "CRC");
        picture_free(&bad);
    }
    picture_free(&file);
    picture_free(&icc);
    picture_free(&exif);
}

/* The same for files that end after their pixels. */
TEST(test_lenient_end)
{
    for (int i = 0; i < 4; i++) {
        struct picture_png options = {.width = 30, .height = 20, .colour_type = 2,
                                      .interlaced = i % 2, .transparent = i / 2};
        struct picture_file file = picture_png(&options);
        for (size_t cut = 1; cut <= 16; cut++) {
            struct picture_file part = picture_cut(&file, file.length - cut);
            rig.limits.lenient = false;
            rig_reads(&part, STATUS_DECODE_FAILED, NULL);
            if (cut <= 12)
                assert_non_null(strstr(rig.error.text, ": it has no complete IEND chunk"));
            rig.limits.lenient = true;
            if (cut <= 12)
                expect_right_pixels(&options, &part);
            else /* the CRC of the last IDAT */
                rig_reads(&part, STATUS_DECODE_FAILED, NULL);
            picture_free(&part);
        }
        picture_free(&file);
    }
    /* A wrong checksum of the pixels stays an error. */
    struct picture_file file = make_png(.width = 30, .height = 20, .colour_type = 2);
    file.bytes[file.length - 12 - 4 - 2] ^= 1;
    picture_png_fix_crcs(&file);
    rig_reads(&file, STATUS_DECODE_FAILED, NULL);
    picture_free(&file);
}

/* tRNS belongs after PLTE. libpng drops the transparency of others. */
/* libpng 1.6.48 lets a tRNS count that stands before a PLTE; libpng 1.6.39 does not. */
static void expect_right_colours(const struct picture_png *options,
                                 const struct picture_file *file, const uint8_t transparent[3])
{
    uint32_t channels;
    uint8_t *wanted = picture_png_expected(options, &channels);
    rig_reads(file, STATUS_OK, NULL);
    if (rig.info.channels == channels) {
        rig_expect_pixels(&rig, wanted, channels);
        free(wanted);
        return;
    }
    assert_int_equal(channels, 3);
    assert_int_equal(rig.info.channels, 4);
    for (uint32_t y = 0; y < rig.image.height; y++)
        for (uint32_t x = 0; x < rig.image.width; x++) {
            const uint8_t *pixel = rig.image.pixels + y * rig.image.stride + 4 * x;
            assert_memory_equal(pixel, wanted + ((size_t)y * rig.image.width + x) * 3, 3);
            assert_int_equal(pixel[3], memcmp(pixel, transparent, 3) == 0 ? 0 : 255);
        }
    free(wanted);
}

TEST(test_transparency_before_the_palette)
{
    static const uint8_t palette[] = {1, 2, 3, 4, 5, 6}, transparent[] = {0, 1, 0, 2, 0, 3};
    static const uint8_t colour[] = {1, 2, 3};
    for (int type = 0; type <= 6; type++) {
        if (type == 1 || type == 5)
            continue;
        struct picture_png options = {.width = 30, .height = 20, .colour_type = type};
        struct picture_file file = picture_png(&options);
        const char *before = type == 3 ? "PLTE" : "IDAT";
        picture_png_insert(&file, before, "tRNS", transparent, type == 0 ? 2 : 6);
        if (type != 3)
            picture_png_insert(&file, "IDAT", "PLTE", palette, sizeof palette);
        enum status status = rig_decode(&rig, &file, DECODE_COLOUR);
        if (type == 2 || type == 6)
            expect_right_colours(&options, &file, colour);
        else
            assert_true(status == STATUS_OK || status == STATUS_DECODE_FAILED);
        picture_free(&file);
    }
}

/* Bytes after IEND are ignored, and an APNG file gives its first frame. */
TEST(test_extra_bytes)
{
    static const uint8_t control[8] = {0, 0, 0, 2, 0, 0, 0, 0};
    struct picture_png options = {.width = 30, .height = 20, .colour_type = 6};
    struct picture_file file = picture_png(&options);
    picture_png_insert(&file, "IDAT", "acTL", control, sizeof control);
    picture_png_insert(&file, "IEND", "fdAT", "\0\0\0\1 not deflate", 16);
    picture_insert(&file, file.length, "trailing", 8);
    expect_right_pixels(&options, &file);
    picture_free(&file);
}

TEST(test_unknown_critical_chunk)
{
    struct picture_file file = make_png(.width = 8, .height = 8);
    picture_png_insert(&file, "IDAT", "ZZZZ", "critical", 8);
    rig_reads(&file, STATUS_DECODE_FAILED, NULL);
    picture_free(&file);
}

TEST(test_gamma_is_ignored)
{
    static const uint8_t linear[4] = {0, 1, 0x86, 0xA0}; /* 1.0 */
    struct picture_png options = {.width = 30, .height = 20, .colour_type = 2, .bit_depth = 16};
    struct picture_file file = picture_png(&options);
    picture_png_insert(&file, "IDAT", "gAMA", linear, sizeof linear);
    expect_right_pixels(&options, &file);
    picture_free(&file);
}

/* ---- truncated and corrupt files ---- */

static const struct picture_png kinds[] = {
    {.width = 60, .height = 45, .colour_type = 2, .orientation = 5},
    {.width = 60, .height = 45, .colour_type = 2, .interlaced = true},
    {.width = 60, .height = 45, .colour_type = 0, .bit_depth = 1, .transparent = true},
    {.width = 60, .height = 45, .colour_type = 3, .bit_depth = 4, .transparent = true},
    {.width = 60, .height = 45, .colour_type = 6, .bit_depth = 16, .interlaced = true},
};
enum { kind_count = COUNT_OF(kinds) };

TEST(test_truncated)
{
    for (int k = 0; k < kind_count; k++) {
        struct picture_file file = picture_png(&kinds[k]);
        for (size_t length = 0; length < file.length;
             length += length < 200 || length + 50 > file.length ? 1 : 61) {
            rig_reads_once(picture_cut(&file, length),
                            length < 8 ? STATUS_UNSUPPORTED_FORMAT : STATUS_DECODE_FAILED, NULL);
        }
        expect_right_pixels(&kinds[k], &file);
        picture_free(&file);
    }
}

TEST(test_truncated_names_the_row)
{
    struct picture_png options = {.width = 300, .height = 400, .colour_type = 2};
    for (int i = 0; i < 2; i++, options.interlaced = true) {
        struct picture_file file = picture_png(&options);
        rig_reads_once(picture_cut_at(&file, 0.9), STATUS_DECODE_FAILED,
                        i == 0 ? " of 400 rows (" : " rows of pass 7 of 7 (");
        rig_reads_once(picture_cut(&file, 30), STATUS_DECODE_FAILED, "in its header (at byte 30)");
        rig_reads_once(picture_cut(&file, file.length - 5), STATUS_DECODE_FAILED,
                        "400 of 400 rows");
        picture_free(&file);
    }
}

/* Too few rows in an otherwise valid stream. */
TEST(test_too_few_rows)
{
    struct picture_file file = make_png(.width = 30, .height = 20, .colour_type = 2);
    file.bytes[8 + 8 + 7] = 21; /* the height in IHDR */
    picture_png_fix_crcs(&file);
    rig_reads(&file, STATUS_DECODE_FAILED, NULL);
    picture_free(&file);
}

TEST(test_flipped_bytes)
{
    uint32_t random = 20240608;
    uint64_t end = clock_now_ns() + 3000000000u;
    rig.limits.side_max = 128;
    struct picture_file icc = picture_icc(400, "RGB ");
    for (int k = 0; k < kind_count; k++) {
        struct picture_png options = kinds[k];
        if (k == 0) {
            options.icc = icc.bytes;
            options.icc_bytes = icc.length;
        }
        struct picture_file file = picture_png(&options);
        for (int i = 0; i < 400 && clock_now_ns() < end; i++) {
            size_t to = i % 2 != 0 ? file.length : 200; /* headers more often */
            struct picture_file bad = picture_damage(&file, 8, to, &random);
            if (i % 8 != 0)
                picture_png_fix_crcs(&bad);
            (void)!rig_decode(&rig, &bad, DECODE_COLOUR);
            picture_free(&bad);
        }
        picture_free(&file);
    }
    picture_free(&icc);
}

TEST(test_deadline)
{
    struct picture_file file = make_png(.width = 1000, .height = 1000, .colour_type = 2,
                                        .level = 1);
    rig.limits.deadline_ns = clock_now_ns() + 1000000;
    rig_reads(&file, STATUS_DECODE_LIMIT, "the deadline for decoding passed");
    rig.limits.deadline_ns = 1;
    rig_reads(&file, STATUS_DECODE_LIMIT, "before its start");
    rig.limits.deadline_ns = clock_now_ns() + 600000000000u;
    rig_reads(&file, STATUS_OK, NULL);
    picture_free(&file);
}

/* ---- encode ---- */

TEST(test_encode)
{
    static const uint32_t sides[][2] = {{1, 1}, {1, 19}, {19, 1}, {16, 16}, {61, 47}, {300, 200}};
    static const uint32_t channels[] = {1, 3, 4};
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (int c = 0; c < 3; c++)
            for (int level = 0; level <= 9; level += level == 0 ? 1 : 2) {
                struct image image = rig_picture(sides[i][0], sides[i][1], channels[c], 7);
                struct picture_file file = rig_encode_as(&image, "png",
                                                         .encoder.compression = level);
                uint8_t *wanted = picture_pixels(sides[i][0], sides[i][1], channels[c], 7);
                rig_reads(&file, STATUS_OK, NULL);
                rig_expect_pixels(&rig, wanted, channels[c]);
                uint32_t simple_channels;
                uint8_t *simple = read_simply(&file, &simple_channels);
                assert_int_equal(simple_channels, channels[c]);
                assert_memory_equal(simple, wanted,
                                    (size_t)sides[i][0] * sides[i][1] * channels[c]);
                free(simple);
                free(wanted);
                free(image.pixels);
                picture_free(&file);
            }
}

TEST(test_profile)
{
    static const size_t sizes[] = {400, 3000, 200000};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct picture_file icc = picture_icc(sizes[i], "RGB ");
        memset(icc.bytes + 128, 0, 4); /* no tags */
        for (uint32_t channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1) {
            struct image image = rig_picture(16, 16, channels, 1);
            struct picture_file file = rig_encode_as(&image, "png", .encoder.compression = 3,
                                                     .icc = icc.bytes, .icc_bytes = icc.length);
            rig_reads(&file, STATUS_OK, NULL);
            assert_int_equal(rig.info.icc_bytes, channels >= 3 ? icc.length : 0);
            if (channels >= 3)
                assert_memory_equal(rig.info.icc, icc.bytes, icc.length);
            picture_free(&file);
            free(image.pixels);
        }
        picture_free(&icc);
    }
}

/* A gray file may have a profile for gray. In a file with colours it is ignored. A broken one is
 * dropped; the image is read. */
TEST(test_profile_dropped)
{
    static const uint8_t broken[] = "name\0\0this is not deflated";
    struct picture_file icc = picture_icc(500, "GRAY");
    struct picture_png options = {
        .width = 16, .height = 16, .icc = icc.bytes, .icc_bytes = icc.length};
    struct picture_file gray = picture_png(&options);
    expect_right_pixels(&options, &gray);
    assert_int_equal(rig.info.icc_bytes, icc.length);

    const uint8_t *chunk = memmem(gray.bytes, gray.length, "iCCP", 4);
    assert_non_null(chunk);
    size_t chunk_bytes = (size_t)chunk[-2] << 8 | chunk[-1];
    options = (struct picture_png){.width = 16, .height = 16, .colour_type = 2};
    for (int i = 0; i < 2; i++) {
        struct picture_file file = picture_png(&options);
        if (i == 0)
            picture_png_insert(&file, "IDAT", "iCCP", chunk + 4, chunk_bytes);
        else
            picture_png_insert(&file, "IDAT", "iCCP", broken, sizeof broken);
        expect_right_pixels(&options, &file);
        assert_null(rig.info.icc);
        picture_free(&file);
    }
    picture_free(&gray);
    picture_free(&icc);
}

/* If libpng refuses the profile, the image is written without it. Frees the profile. */
static void expect_no_profile(struct picture_file icc)
{
    struct image image = rig_picture(16, 16, 3, 1);
    struct picture_file file = rig_encode_as(&image, "png", .encoder.compression = 3,
                                             .icc = icc.bytes, .icc_bytes = icc.length);
    rig_reads(&file, STATUS_OK, NULL);
    assert_null(rig.info.icc);
    picture_free(&file);
    picture_free(&icc);
    free(image.pixels);
}

TEST(test_encode_bad_profile)
{
    struct picture_file icc = picture_icc(1000, "RGB ");
    icc.bytes[3]++; /* a wrong length */
    expect_no_profile(icc);
    icc = picture_icc(1002, "RGB ");
    icc.bytes[8] = 4; /* from this version on, the length must be a multiple of 4 */
    expect_no_profile(icc);
    icc = picture_icc(1000, "RGB ");
    icc.bytes[36]++; /* the signature is wrong */
    expect_no_profile(icc);
}

/* The chunk acTL announces the frames of an APNG. */
TEST(test_frames)
{
    static const struct {
        const char *before, *chunk;
        size_t bytes;
        uint32_t frames;
    } cases[] = {{"IDAT", "\0\0\0\7\0\0\0\0", 8, 7},
                 {"IDAT", "\0\0\0\1\0\0\0\0", 8, 1},
                 {"IDAT", "\0\0\0\0\0\0\0\0", 8, 1},
                 {"IDAT", "\0\0\0\7\0\0\0", 7, 1},
                 {"IEND", "\0\0\0\7\0\0\0\0", 8, 1}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct picture_file file = make_png(.width = 9, .height = 5, .colour_type = 2);
        picture_png_insert(&file, cases[i].before, "acTL", cases[i].chunk, cases[i].bytes);
        rig_reads(&file, STATUS_OK, NULL);
        assert_int_equal(rig.info.frames, cases[i].frames);
        picture_free(&file);
    }
    struct picture_file file = make_png(.width = 9, .height = 5, .colour_type = 2);
    picture_png_insert(&file, "IDAT", "acTL", "\0\1\0\1\0\0\0\0", 8);
    rig_reads_once(file, STATUS_DECODE_LIMIT, "the PNG has more than 65536 frames");
}

TEST_MAIN(.name = "png", .each_setup = rig_setup, .each_teardown = rig_teardown)
