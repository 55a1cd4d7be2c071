/* Tests of the JPEG decoder against djpeg, bit for bit. */
#include "tests/fixtures/jpeg_tools.h"
#include "tests/fixtures/reference.h"
#include "tests/fixtures/text_file.h"

#include <jpeglib.h>

static void compare_options(const struct picture_jpeg *options)
{
    struct picture_file file = picture_jpeg(options);
    jpeg_tools_compare(&file, DECODE_COLOUR);
    bool ycc = options->colour == PICTURE_YCBCR;
    assert_int_equal(rig.info.ycc, ycc);
    assert_int_equal(rig.info.channels, options->colour == PICTURE_GRAY ? 1 : 3);
    assert_int_equal(rig.info.progressive, options->progressive);
    if (ycc || options->colour == PICTURE_GRAY)
        jpeg_tools_compare(&file, DECODE_LUMA);
    if (ycc)
        jpeg_tools_compare_ycc(&file);
    picture_free(&file);
}
#define compare_made(...) compare_options(&(struct picture_jpeg){__VA_ARGS__})

static const uint32_t sides[][2] = {{1, 1},   {1, 33},  {33, 1},  {7, 9},    {8, 8},
                                    {15, 17}, {16, 16}, {17, 15}, {127, 65}, {300, 211}};
static const int subsamplings[] = {444, 422, 420};

TEST(test_scales)
{
    static const int colours[] = {PICTURE_YCBCR, PICTURE_GRAY, PICTURE_RGB};
    if (!jpeg_tools_have("djpeg"))
        skip();
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (int s = 0; s < 9; s++)
            for (uint32_t eighths = 1; eighths <= 8; eighths *= 2) {
                struct picture_file file = make_jpeg(
                    .width = sides[i][0], .height = sides[i][1], .seed = (uint32_t)i,
                    .subsampling = subsamplings[s % 3], .colour = colours[s / 3],
                    .progressive = (i + (size_t)s) % 2 != 0);
                jpeg_tools_compare_scaled(&file, DECODE_COLOUR, eighths);
                assert_true(rig.info.scales);
                assert_int_equal(rig.info.width, sides[i][0]);
                if (colours[s / 3] != PICTURE_RGB)
                    jpeg_tools_compare_scaled(&file, DECODE_LUMA, eighths);
                picture_free(&file);
            }
}

TEST(test_sizes_and_subsamplings)
{
    if (!jpeg_tools_have("djpeg"))
        skip();
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (int s = 0; s < 3; s++)
            for (int progressive = 0; progressive < 2; progressive++)
                compare_made(.width = sides[i][0], .height = sides[i][1], .seed = (uint32_t)i,
                             .subsampling = subsamplings[s], .progressive = progressive != 0);
}

/* One block of 8 x 8 pixels per Cb (across) and Cr (down), lossless. */
static struct picture_file flat_blocks(uint8_t luma)
{
    enum { side = 256 * 8 };
    static uint8_t row[side * 3];
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct picture_file file = {NULL, 0};
    unsigned long length = 0;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &file.bytes, &length);
    jpeg.image_width = jpeg.image_height = side;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_YCbCr;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 100, TRUE);
    jpeg.comp_info[0].h_samp_factor = jpeg.comp_info[0].v_samp_factor = 1;
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < side) {
        JSAMPROW rows[1] = {row};
        for (int x = 0; x < side; x++) {
            row[3 * x] = luma;
            row[3 * x + 1] = (uint8_t)(x / 8);
            row[3 * x + 2] = (uint8_t)(jpeg.next_scanline / 8);
        }
        jpeg_write_scanlines(&jpeg, rows, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    file.length = length;
    return file;
}

/* The linked libjpeg converts colours, in vector code too, exactly as its tables do. */
TEST(test_ycc_of_libjpeg)
{
    static const uint8_t lumas[] = {0, 1, 16, 77, 128, 200, 254, 255};
    for (size_t i = 0; i < sizeof lumas; i++) {
        struct picture_file file = flat_blocks(lumas[i]);
        assert_int_equal(rig_decode_scaled(&rig, &file, DECODE_YCC, 1), STATUS_OK);
        for (int at = 0; at < 256 * 256; at++) {
            const uint8_t *ycc = rig.image.pixels + (at / 256) * (int)rig.image.stride +
                                 at % 256 * 3;
            assert_true(ycc[0] == lumas[i] && ycc[1] == at % 256 && ycc[2] == at / 256);
        }
        assert_int_equal(rig_decode_scaled(&rig, &file, DECODE_COLOUR, 1), STATUS_OK);
        for (int at = 0; at < 256 * 256; at++) {
            uint8_t ycc[3] = {lumas[i], (uint8_t)(at % 256), (uint8_t)(at / 256)}, wanted[3];
            reference_ycc_pixel(ycc, wanted);
            assert_memory_equal(rig.image.pixels + (at / 256) * (int)rig.image.stride +
                                    at % 256 * 3, wanted, 3);
        }
        free(file.bytes);
    }
}

TEST(test_colour_spaces)
{
    static const enum picture_colour colours[] = {PICTURE_GRAY, PICTURE_RGB, PICTURE_CMYK,
                                                  PICTURE_YCCK};
    if (!jpeg_tools_have("djpeg"))
        skip();
    for (size_t i = 0; i < COUNT_OF(colours); i++)
        for (int progressive = 0; progressive < 2; progressive++)
            compare_made(.width = 83, .height = 61, .colour = colours[i],
                         .progressive = progressive != 0);
}

TEST(test_kinds_of_coding)
{
    if (!jpeg_tools_have("djpeg"))
        skip();
    compare_made(.width = 90, .height = 70, .arithmetic = true);
    compare_made(.width = 90, .height = 70, .arithmetic = true, .progressive = true);
    compare_made(.width = 90, .height = 70, .restart_rows = 1);
    compare_made(.width = 90, .height = 70, .separate = true);
    compare_made(.width = 90, .height = 70, .quality = 1);
    compare_made(.width = 90, .height = 70, .quality = 100);
}

/* libjpeg reads a file in pieces. Skipped segments and entropy-coded data cross the border of two
 * pieces at every byte offset. */
TEST(test_across_pieces)
{
    enum { segment_bytes = 2 + 65535, segments = 4 };
    if (!jpeg_tools_have("djpeg"))
        skip();
    uint8_t *passed_over = calloc(segments, segment_bytes);
    assert_non_null(passed_over);
    for (size_t i = 0; i < segments; i++)
        memcpy(passed_over + i * segment_bytes, "\xFF\xE5\xFF\xFF", 4);
    for (size_t fill = 0; fill < 8; fill++) {
        struct picture_file file = make_jpeg(.width = 1000, .height = 800, .quality = 100,
                                             .progressive = fill % 2 != 0,
                                             .restart_rows = fill % 3 == 2 ? 1 : 0);
        picture_insert(&file, 2, passed_over, segments * segment_bytes);
        picture_insert(&file, 2, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", fill);
        assert_true(file.length > 2 * segments * segment_bytes);
        jpeg_tools_compare(&file, DECODE_COLOUR);
        picture_free(&file);
    }
    free(passed_over);
}

/* Rare samplings: chroma finer than luma, thirds, and a different one for each component. */
TEST(test_odd_samplings)
{
    static const char *const samplings[] = {"4x1",         "1x2",         "1x4",
                                            "2x2,2x1,1x2", "1x1,2x2,2x2", "2x1,2x2,1x1",
                                            "3x1",         "3x2,1x1,1x1"};
    if (!jpeg_tools_have("djpeg") || !jpeg_tools_have("cjpeg"))
        skip();
    struct picture_file pnm = picture_empty();
    uint8_t *pixels = picture_pixels(77, 55, 3, 1);
    picture_insert(&pnm, 0, "P6\n77 55\n255\n", 13);
    picture_insert(&pnm, pnm.length, pixels, 77 * 55 * 3);
    for (size_t i = 0; i < 2 * COUNT_OF(samplings); i++) {
        const char *options = text_of("%s -sample %s", i % 2 != 0 ? "-progressive" : "",
                                      samplings[i / 2]);
        struct picture_file file = jpeg_tools_run("cjpeg", options, &pnm);
        jpeg_tools_compare(&file, DECODE_COLOUR);
        jpeg_tools_compare(&file, DECODE_LUMA);
        jpeg_tools_compare_ycc(&file);
        picture_free(&file);
    }
    free(pixels);
    picture_free(&pnm);
}

/* C*K/255 rounded to nearest, from the inks that libjpeg decodes from a nearly lossless file. */
TEST(test_cmyk_arithmetic)
{
    struct picture_file file = make_jpeg(.width = 40, .height = 24, .colour = PICTURE_CMYK,
                                         .quality = 100, .seed = 3);
    assert_int_equal(rig_decode(&rig, &file, DECODE_COLOUR), STATUS_OK);
    uint8_t *inks = picture_pixels(40, 24, 4, 3);
    for (uint32_t y = 0; y < 24; y++)
        for (uint32_t x = 0; x < 40; x++)
            for (uint32_t c = 0; c < 3; c++) {
                const uint8_t *ink = inks + (y * 40 + x) * 4;
                int wanted = (int)(ink[c] * ink[3] / 255.0 + 0.5);
                int got = rig.image.pixels[y * rig.image.stride + x * 3 + c];
                assert_in_range(got + 4, wanted, wanted + 8); /* two lossy inks */
            }
    free(inks);
    picture_free(&file);
}

TEST_MAIN(.name = "jpeg", .each_setup = rig_setup, .each_teardown = rig_teardown)
