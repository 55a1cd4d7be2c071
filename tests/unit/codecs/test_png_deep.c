/* Tests of PNGs that keep 16 bits per sample: read against known samples, and written files against
 * libpng's own reader. */
#include "tests/fixtures/codec_rig.h"

#include <endian.h>
#include <png.h>

static const uint32_t sides[][2] = {{1, 1},   {1, 21},  {21, 1},  {5, 7},
                                    {15, 17}, {33, 31}, {131, 77}};

/* ---- reading ---- */

static void expect_deep(const struct picture_png *options)
{
    struct picture_file file = picture_png(options);
    uint32_t samples;
    uint16_t *wanted = picture_png_deep(options, &samples);
    assert_int_equal(rig_decode(&rig, &file, DECODE_DEEP), STATUS_OK);
    assert_true(rig.info.deep);
    assert_int_equal(rig.info.channels, samples);
    rig_expect_pixels(&rig, (const uint8_t *)wanted, samples * 2);
    free(wanted);
    picture_free(&file);
}

TEST(test_every_deep_type_and_size)
{
    static const int types[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_GRAY_ALPHA,
                                PNG_COLOR_TYPE_RGB_ALPHA};
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (size_t t = 0; t < COUNT_OF(types); t++)
            for (int variant = 0; variant < 4; variant++)
                if (variant / 2 == 0 || (types[t] & PNG_COLOR_MASK_ALPHA) == 0)
                    expect_deep(&(struct picture_png){.width = sides[i][0],
                                                      .height = sides[i][1],
                                                      .colour_type = types[t],
                                                      .bit_depth = 16,
                                                      .interlaced = variant % 2 != 0,
                                                      .transparent = variant / 2 != 0,
                                                      .seed = (uint32_t)i});
}

TEST(test_other_depths_are_not_deep)
{
    static const int depths[] = {1, 2, 4, 8};
    for (size_t i = 0; i < COUNT_OF(depths); i++) {
        struct picture_file file = make_png(.width = 9, .height = 5, .bit_depth = depths[i]);
        assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
        assert_false(rig.info.deep);
        picture_free(&file);
    }
}

TEST(test_broken_deep_file)
{
    struct picture_file file =
        make_png(.width = 90, .height = 70, .colour_type = PNG_COLOR_TYPE_RGB, .bit_depth = 16);
    struct picture_file part = picture_cut(&file, file.length / 2);
    assert_int_equal(rig_decode(&rig, &part, DECODE_DEEP), STATUS_DECODE_FAILED);
    assert_non_null(strstr(rig.error.text, "of 70 rows"));
    picture_free(&part);
    picture_free(&file);
}

/* ---- writing ---- */

struct read_file {
    const struct picture_file *file;
    size_t at;
};

static void read_bytes(png_structp png, png_bytep to, size_t count)
{
    struct read_file *read = png_get_io_ptr(png);
    if (count > read->file->length - read->at)
        png_error(png, "the file is too short");
    memcpy(to, read->file->bytes + read->at, count);
    read->at += count;
}

static void on_error(png_structp png, png_const_charp message)
{
    (void)png;
    fail_msg("libpng: %s", message);
}

/* Compares a file with an image, by libpng alone. */
static void expect_file(const struct picture_file *file, const struct image *image, bool has_icc)
{
    static const int types[] = {
        [1] = PNG_COLOR_TYPE_GRAY, [3] = PNG_COLOR_TYPE_RGB, [4] = PNG_COLOR_TYPE_RGB_ALPHA};
    uint32_t samples = image_samples(image->channels);
    struct read_file read = {.file = file};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, on_error, NULL);
    png_infop info = png_create_info_struct(png);
    uint16_t *row = malloc((size_t)image->width * samples * sizeof *row);
    assert_non_null(row);
    png_set_read_fn(png, &read, read_bytes);
    png_read_info(png, info);
    assert_int_equal(png_get_bit_depth(png, info), 16);
    assert_int_equal(png_get_color_type(png, info), types[samples]);
    assert_int_equal(png_get_image_width(png, info), image->width);
    assert_int_equal(png_get_image_height(png, info), image->height);
    assert_int_equal(png_get_valid(png, info, PNG_INFO_iCCP) != 0, has_icc);
    for (uint32_t y = 0; y < image->height; y++) {
        const uint16_t *wanted = (const uint16_t *)(void *)(image->pixels + y * image->stride);
        png_read_row(png, (png_bytep)row, NULL);
        for (uint32_t i = 0; i < image->width * samples; i++)
            if (be16toh(row[i]) != wanted[i])
                fail_msg("row %u, sample %u is %u, not %u", y, i, be16toh(row[i]), wanted[i]);
    }
    png_read_end(png, NULL);
    png_destroy_read_struct(&png, &info, NULL);
    free(row);
}

/* The own encoder writes levels 1 to 3, libpng the others. */
TEST(test_deep_files)
{
    static const int levels[] = {0, 1, 3, 7};
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (uint32_t channels = 2; channels <= 8; channels += channels == 2 ? 4 : 2)
            for (size_t level = 0; level < COUNT_OF(levels); level++) {
                struct image image = rig_picture(sides[i][0], sides[i][1], channels, (uint32_t)i);
                struct encoder_settings settings = {.compression = levels[level], .depth = 16};
                struct picture_file file = rig_encode_as(&image, "png", .encoder = settings);
                assert_true(file.length <= codec_encoded_bytes(&formats[FORMAT_png], image.width,
                                                               image.height, channels, &settings,
                                                               0));
                expect_file(&file, &image, false);
                picture_free(&file);
                free(image.pixels);
            }
}

TEST(test_deep_profile)
{
    for (uint32_t channels = 2; channels <= 8; channels += channels == 2 ? 4 : 2) {
        struct image image = rig_picture(20, 10, channels, 1);
        struct picture_file icc = picture_icc(400, "RGB ");
        struct picture_file file = rig_encode_as(&image, "png", .encoder.compression = 3,
                                                 .icc = icc.bytes, .icc_bytes = icc.length);
        expect_file(&file, &image, channels > 2);
        picture_free(&icc);
        picture_free(&file);
        free(image.pixels);
    }
}

TEST_MAIN(.each_setup = rig_setup, .each_teardown = rig_teardown)
