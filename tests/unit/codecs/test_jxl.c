/* Tests of the JPEG XL decoder against the pixels of files that libjxl writes. */
#include "codecs/animation.h"
#include "tests/fixtures/codec_rig.h"

#ifdef GPUIMGD_JXL

#include <math.h>

#include "tests/fixtures/camera.h"
#include "tests/fixtures/jxl_file.h"
#include "tests/fixtures/profile.h"

/* Compares the decoded file with the pixels that were stored without loss. */
static void expect_stored(const struct jxl_file *options)
{
    struct picture_file file = jxl_file(options);
    uint32_t channels;
    uint8_t *expected = jxl_expected(options, &channels);
    rig_reads(&file, STATUS_OK, NULL);
    rig_expect_pixels(&rig, expected, channels);
    free(expected);
    picture_free(&file);
}
#define expect_made(...) expect_stored(&(struct jxl_file){__VA_ARGS__})

TEST(test_decode)
{
    static const uint32_t sides[][2] = {{1, 1}, {1, 19}, {19, 1}, {61, 47}, {300, 129}};
    static const uint32_t depths[] = {8, 10, 12, 16, 32};
    for (size_t i = 0; i < COUNT_OF(sides) * COUNT_OF(depths); i++)
        for (uint32_t channels = 1; channels <= 4; channels++) {
            bool is_float = depths[i % 5] == 32;
            if (is_float && channels % 2 == 0) /* libjxl 0.7 writes other samples */
                continue;
            expect_made(.width = sides[i / 5][0], .height = sides[i / 5][1], .channels = channels,
                        .depth = depths[i % 5], .seed = (uint32_t)i,
                        .responsive = i % 2 && !is_float);
        }
}

/* Images that pass through the window in several bands. */
TEST(test_bands)
{
    rig.limits.side_max = SIDE_CEILING;
    expect_made(.width = 901, .height = 1101, .channels = 4, .effort = 1);
    expect_made(.width = 1501, .height = 1100, .channels = 1, .effort = 1);
    expect_made(.width = 65500, .height = 17, .effort = 1);
}

/* With a distance, pixels are XYB, and converted back to sRGB. */
TEST(test_lossy)
{
    for (uint32_t channels = 1; channels <= 4; channels++)
        for (int i = 0; i < 8; i++) {
            struct jxl_file options = {.width = 130,
                                       .height = 70,
                                       .channels = channels,
                                       .depth = i & 1 ? 16 : 8,
                                       .quality = 1,
                                       .modular = i & 2,
                                       .linear = i & 4};
            struct picture_file file = jxl_file(&options);
            rig_reads(&file, STATUS_OK, NULL);
            struct image wanted = {.width = 130, .height = 70};
            wanted.pixels = jxl_expected(&options, &wanted.channels);
            wanted.stride = wanted.width * wanted.channels;
            /* libjxl does not keep the colours of pixels that alpha hides. */
            assert_true(options.linear || channels == 4 || rig_mean_error(&rig, &wanted) < 4);
            assert_null(rig.info.icc); /* it is sRGB */
            free(wanted.pixels);
            picture_free(&file);
        }
}

static int srgb_of(double light)
{
    double colour = light <= 0.0031308 ? 12.92 * light : 1.055 * pow(light, 1 / 2.4) - 0.055;
    return (int)(colour * 255 + 0.5);
}

/* Linear light becomes sRGB if it is stored as XYB; else its profile describes it. */
TEST(test_linear)
{
    struct jxl_file options = {.width = 64, .height = 64, .depth = 32, .linear = true};
    expect_stored(&options);
    assert_true(rig.info.icc_bytes > 0);
    options.quality = 1;
    struct picture_file file = jxl_file(&options);
    rig_reads(&file, STATUS_OK, NULL);
    assert_null(rig.info.icc);
    uint16_t *samples = jxl_samples(&options);
    int sum = 0;
    for (uint32_t i = 0; i < 64 * 64 * 3; i++) {
        int got = rig.image.pixels[i / 192 * rig.image.stride + i % 192];
        sum += abs(got - srgb_of(samples[i] / 65535.0));
    }
    assert_in_range(sum, 0, 64 * 64 * 3 * 2);
    free(samples);
    picture_free(&file);
}

TEST(test_premultiplied)
{
    struct jxl_file options = {.width = 40, .height = 30, .channels = 4};
    uint16_t *samples = jxl_samples(&options);
    options.premultiplied = true;
    struct picture_file file = jxl_file(&options);
    rig_reads(&file, STATUS_OK, NULL);
    for (uint32_t i = 0; i < 40 * 30; i++) {
        const uint8_t *got = rig.image.pixels + i / 40 * rig.image.stride + i % 40 * 4;
        int alpha = samples[4 * i + 3];
        assert_int_equal(got[3], alpha);
        for (int c = 0; c < 3 && alpha > 0; c++) {
            int wanted = (samples[4 * i + (uint32_t)c] * 255 + alpha / 2) / alpha;
            assert_int_equal(got[c], wanted < 255 ? wanted : 255);
        }
    }
    free(samples);
    picture_free(&file);
}

/* Linear light is divided by alpha before it becomes sRGB. */
TEST(test_premultiplied_light)
{
    struct jxl_file options = {
        .width = 64, .height = 64, .channels = 4, .depth = 16, .linear = true, .quality = 1};
    uint16_t *samples = jxl_samples(&options);
    options.premultiplied = true;
    struct picture_file file = jxl_file(&options);
    rig_reads(&file, STATUS_OK, NULL);
    assert_null(rig.info.icc);
    int sum = 0, count = 0;
    for (uint32_t i = 0; i < 64 * 64; i++) {
        const uint8_t *got = rig.image.pixels + i / 64 * rig.image.stride + i % 64 * 4;
        const uint16_t *sample = samples + 4 * i;
        for (int c = 0; c < 3 && sample[3] > 8192; c++, count++) {
            double light = (double)sample[c] / sample[3];
            sum += abs(got[c] - srgb_of(light < 1 ? light : 1));
        }
    }
    assert_in_range(count, 64 * 64, 64 * 64 * 3);
    assert_in_range(sum, 0, count * 2);
    free(samples);
    picture_free(&file);
}

TEST(test_other_channels)
{
    expect_made(.width = 40, .height = 30, .extra = true);
    expect_made(.width = 40, .height = 30, .channels = 2, .extra = true);
    rig_reads_once(make_jxl(.width = 40, .height = 30, .black = true), STATUS_UNSUPPORTED_FORMAT,
                   "the JPEG XL is CMYK, which is not read; convert it to RGB");
}

/* The last layer covers the others. */
TEST(test_layers)
{
    struct jxl_file options = {.width = 900, .height = 700, .layers = 3, .quality = 3};
    struct picture_file file = jxl_file(&options);
    options.seed = 2;
    struct image wanted = {.width = 900, .height = 700};
    wanted.pixels = jxl_expected(&options, &wanted.channels);
    wanted.stride = wanted.width * wanted.channels;
    rig_reads(&file, STATUS_OK, NULL);
    assert_int_equal(rig.info.frames, 1);
    assert_true(rig_mean_error(&rig, &wanted) < 6);
    free(wanted.pixels);
    picture_free(&file);
}

TEST(test_animation)
{
    struct picture_file xmp = camera_xmp(1, true);
    rig.limits.metadata = METADATA_XMP;
    expect_made(.width = 40, .height = 30, .frames = 3);
    assert_int_equal(rig.info.frames, 3);
    expect_made(.width = 300, .height = 200, .channels = 4, .frames = 12, .xmp = &xmp);
    assert_int_equal(rig.info.frames, 12);
    assert_true(rig.info.xmp_bytes > 0);
    picture_free(&xmp);
}

/* Compares a frame with the pixels that were written. */
static void expect_frame(const struct jxl_file *options, const struct image *canvas)
{
    uint32_t channels;
    uint8_t *wanted = jxl_expected(options, &channels);
    for (size_t i = 0; i < (size_t)canvas->width * canvas->height; i++) {
        const uint8_t *found = canvas->pixels + 4 * i, *pixel = wanted + channels * i;
        for (unsigned c = 0; c < 3; c++)
            assert_int_equal(found[c], channels == 1 ? *pixel : pixel[c]);
        assert_int_equal(found[3], channels == 4 ? pixel[3] : 255);
    }
    free(wanted);
}

/* Plays a file. Returns the number of frames that could be read. */
static uint32_t play(const struct picture_file *file, struct jxl_file options)
{
    struct codec_animation animation;
    struct error error = {0};
    struct image canvas = {calloc(4, (size_t)options.width * options.height), options.width,
                           options.height, 4, 4 * (size_t)options.width};
    uint32_t frames = 0;
    bool is_open = codec_animation_open(&animation, file->bytes, file->length, &rig.limits,
                                        &error) == STATUS_OK;
    for (; is_open && frames < (uint32_t)options.frames &&
           codec_animation_next(&animation, &canvas, &error) == STATUS_OK;
         frames++, options.seed++) {
        expect_frame(&options, &canvas);
        assert_int_equal(animation.delay_ms, 100);
        assert_int_equal(animation.plays, options.loops);
    }
    codec_animation_close(&animation);
    free(canvas.pixels);
    return frames;
}

TEST(test_frames_of_animations)
{
    static const struct jxl_file all[] = {
        {.width = 1, .height = 1, .frames = 2, .loops = 1},
        {.width = 41, .height = 27, .frames = 5},
        {.width = 300, .height = 200, .channels = 4, .frames = 3, .loops = 7},
        {.width = 33, .height = 20, .channels = 1, .frames = 3, .loops = 2},
        {.width = 33, .height = 20, .channels = 2, .frames = 3},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct picture_file file = jxl_file(&all[i]);
        assert_int_equal(play(&file, all[i]), all[i].frames);
        assert_false(rig_probe(&rig, &file) != STATUS_OK || rig.info.ends_early);
        for (int part = 2; part < 10; part++) {
            struct picture_file cut = picture_cut(&file, file.length - 1 - file.length / part);
            assert_in_range(play(&cut, all[i]), 0, all[i].frames - 1);
            enum status status = rig_probe(&rig, &cut);
            assert_true(status != STATUS_OK ||
                        (rig.info.ends_early && rig.info.frames <= (uint32_t)all[i].frames));
            picture_free(&cut);
        }
        picture_free(&file);
    }
}

/* A frame that is shown for no time is a layer of the next one. */
TEST(test_layers_of_frames)
{
    struct picture_file file = make_jxl(.width = 40, .height = 30, .frames = 8, .layers = 3);
    rig_reads(&file, STATUS_OK, NULL);
    assert_int_equal(rig.info.frames, 3); /* the third one has two layers */
    rig.limits.page = 3;
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK); /* the caller says which pages there are */
    assert_int_equal(rig.info.frames, 3);
    picture_free(&file);
}

TEST(test_orientation)
{
    struct picture_file exif = picture_exif(6, false, true);
    for (int orientation = 1; orientation <= 8; orientation++) {
        expect_made(.width = 9, .height = 7, .orientation = orientation);
        assert_int_equal(rig.info.orientation, orientation);
    }
    expect_made(.width = 9, .height = 7, .exif = &exif); /* EXIF's own does not count */
    assert_int_equal(rig.info.orientation, 1);
    picture_free(&exif);
}

TEST(test_metadata_read)
{
    struct picture_file exif = camera_exif(true, 1, 9, 7, 1), xmp = camera_xmp(1, true);
    for (int i = 0; i < 16; i++) {
        rig.limits.metadata = i & 8 ? 0 : METADATA_ALL;
        expect_made(.width = 9, .height = 7, .exif = i & 1 ? &exif : NULL,
                    .xmp = i & 2 ? &xmp : NULL, .packed = i & 4);
        assert_int_equal(rig.info.xmp_bytes, i & 2 && !(i & 8) ? xmp.length : 0);
        if (rig.info.xmp)
            assert_memory_equal(rig.info.xmp, xmp.bytes, xmp.length);
        assert_int_equal(rig.info.exif != NULL, i & 1 && !(i & 8));
    }
    picture_free(&exif);
    picture_free(&xmp);
}

/* Boxes that are too large are left out, also if they are small before they are unpacked. */
TEST(test_large_metadata)
{
    enum { large = 13 << 20 };
    rig.limits.metadata = METADATA_ALL;
    for (int i = 0; i < 2; i++) {
        struct picture_file exif = camera_exif(true, 6, 9, 7, large);
        struct picture_file xmp = picture_garbage(large, 1);
        memset(xmp.bytes, 'x', xmp.length);
        memset(exif.bytes + exif.length - large, 0, large);
        expect_made(.width = 9, .height = 7, .exif = &exif, .xmp = &xmp, .packed = i);
        assert_null(rig.info.exif);
        assert_null(rig.info.xmp);
        picture_free(&exif);
        picture_free(&xmp);
    }
}

TEST(test_profile_read)
{
    struct picture_file p3 = profile_of_matrix(&profile_p3), gray = profile_of_gray(1.8);
    expect_made(.width = 9, .height = 7, .icc = &p3);
    assert_true(rig.info.icc_bytes > 0);
    assert_memory_equal(rig.info.icc, p3.bytes, p3.length);
    expect_made(.width = 9, .height = 7, .channels = 1, .icc = &gray);
    assert_true(rig.info.icc_bytes > 0);
    picture_free(&gray);
    picture_free(&p3);
}

#else

TEST(test_refused)
{
    struct picture_file file = {(uint8_t *)(uintptr_t) "\xFF\x0A\0\0", 4};
    assert_int_equal(rig_probe(&rig, &file), STATUS_UNSUPPORTED_FORMAT);
    assert_string_equal(rig.error.text, "the input is a JPEG XL, but this gpuimgd was built "
                                        "without libjxl (JXL=no)");
}

#endif

TEST_MAIN(.name = "jxl", .each_setup = rig_setup, .each_teardown = rig_teardown)
