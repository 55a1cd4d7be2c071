/* Tests of the JPEG XL codec: against the pixels of files that libjxl writes, and against djxl. */
#include "codecs/animation.h"
#include "tests/fixtures/codec_rig.h"

#ifdef GPUIMGD_JXL

#include <jxl/decode.h>
#include <math.h>

#include "codecs/confined/confine.h"
#include "codecs/quality.h"
#include "tests/fixtures/camera.h"
#include "tests/fixtures/jxl_file.h"
#include "tests/fixtures/profile.h"
#include "tests/fixtures/text_file.h"

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

/* The mean difference between the decoded image and an image of the same size. */
static double mean_error(const struct image *wanted)
{
    const struct image *image = &rig.image;
    uint64_t sum = 0, count = (uint64_t)image->width * image->channels;
    assert_int_equal(image->channels, wanted->channels);
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t i = 0; i < count; i++)
            sum += (uint64_t)abs(image->pixels[y * image->stride + i] -
                                 wanted->pixels[y * wanted->stride + i]);
    return (double)sum / (double)(count * image->height);
}

/* ---- decode ---- */

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
            assert_true(options.linear || channels == 4 || mean_error(&wanted) < 4);
            assert_null(rig.info.icc); /* it is sRGB */
            free(wanted.pixels);
            picture_free(&file);
        }
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
        double light = samples[i] / 65535.0;
        double wanted = light <= 0.0031308 ? 12.92 * light : 1.055 * pow(light, 1 / 2.4) - 0.055;
        int got = rig.image.pixels[i / 192 * rig.image.stride + i % 192];
        sum += abs(got - (int)(wanted * 255 + 0.5));
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
    assert_true(mean_error(&wanted) < 6);
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

/* ---- encode ---- */

/* What djxl makes of the file: a PNM or PAM, whose pixels begin at *at. */
static struct picture_file run_djxl(const struct picture_file *file, const char *suffix, size_t *at)
{
    char name[] = "/tmp/gpuimgd-test-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    close(fd);
    picture_save(file, name);
    const char *made = text_of("%s.%s", name, suffix);
    assert_int_equal(system(text_of("djxl %s %s.%s >/dev/null 2>&1", name, name, suffix)), 0);
    struct picture_file pnm = picture_load(made);
    unlink(made);
    unlink(name);
    const char *end = suffix[2] == 'm' && suffix[1] == 'a' ? "ENDHDR\n" : "\n255\n";
    const uint8_t *header_end = memmem(pnm.bytes, pnm.length, end, strlen(end));
    assert_non_null(header_end);
    *at = (size_t)(header_end - pnm.bytes) + strlen(end);
    return pnm;
}

static bool have_djxl(void)
{
    if (system("command -v djxl >/dev/null 2>&1") == 0)
        return true;
    print_message("skipped: there is no djxl here\n");
    return false;
}

/* Compares what djxl reads with the image. */
static void expect_as_djxl(const struct picture_file *file, const struct image *image)
{
    static const char *const suffixes[] = {NULL, "pgm", NULL, "ppm", "pam"};
    size_t at, row = (size_t)image->width * image->channels;
    struct picture_file pnm = run_djxl(file, suffixes[image->channels], &at);
    assert_int_equal(pnm.length - at, row * image->height);
    for (uint32_t y = 0; y < image->height; y++)
        assert_memory_equal(pnm.bytes + at + y * row, image->pixels + y * image->stride, row);
    picture_free(&pnm);
}

TEST(test_encode_lossless)
{
    static const uint32_t sides[][2] = {{1, 1}, {1, 19}, {61, 47}, {300, 200}, {16384, 1}};
    bool has_djxl = have_djxl();
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (uint32_t channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1)
            for (int effort = 0; effort <= 6; effort += 3) {
                struct image image = rig_picture(sides[i][0], sides[i][1], channels, 7);
                struct picture_file file =
                    rig_encode_as(&image, "jxl",
                                  .encoder = {.quality = effort == 3 ? 100 : 50,
                                              .lossless = effort != 3,
                                              .effort = effort});
                rig_reads(&file, STATUS_OK, NULL);
                assert_int_equal(rig.info.channels, channels);
                for (uint32_t y = 0; y < image.height; y++)
                    assert_memory_equal(rig.image.pixels + y * rig.image.stride,
                                        image.pixels + y * image.stride,
                                        (size_t)image.width * channels);
                if (has_djxl && effort == 3)
                    expect_as_djxl(&file, &image);
                free(image.pixels);
                picture_free(&file);
            }
}

/* What gpuimgd and djxl read of a lossy file is the same, and near the image. */
TEST(test_encode_lossy)
{
    bool has_djxl = have_djxl();
    for (uint32_t channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1)
        for (int effort = 0; effort <= 6; effort += 6) {
            struct image image = rig_picture(601, 401, channels, 7);
            struct picture_file file =
                rig_encode_as(&image, "jxl", .encoder = {.quality = 95, .effort = effort});
            rig_reads(&file, STATUS_OK, NULL);
            assert_true(channels == 4 || mean_error(&image) < 8); /* it has noise */
            if (has_djxl)
                expect_as_djxl(&file, &rig.image);
            free(image.pixels);
            picture_free(&file);
        }
}

TEST(test_quality)
{
    struct image image = rig_picture(200, 150, 3, 5);
    size_t before = 0;
    for (int quality = 1; quality <= 100; quality += 11) {
        struct picture_file file =
            rig_encode_as(&image, "jxl", .encoder.quality = quality, .encoder.effort = 4);
        assert_true(file.length > before);
        before = file.length;
        picture_free(&file);
    }
    free(image.pixels);
}

/* cjxl has the same formula: at 90, its distance is 1. */
TEST(test_quality_is_that_of_cjxl)
{
    struct image image = rig_picture(200, 150, 3, 5);
    char name[] = "/tmp/gpuimgd-test-XXXXXX";
    if (system("command -v cjxl >/dev/null 2>&1") != 0) {
        print_message("skipped: there is no cjxl here\n");
        skip();
    }
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    dprintf(fd, "P6\n200 150\n255\n");
    for (uint32_t y = 0; y < image.height; y++)
        assert_int_equal(write(fd, image.pixels + y * image.stride, 600), 600);
    close(fd);
    static const int qualities[] = {30, 60, 90};
    for (size_t i = 0; i < COUNT_OF(qualities); i++) {
        struct picture_file file =
            rig_encode_as(&image, "jxl", .encoder = {.quality = qualities[i], .effort = 4});
        const char *made = text_of("%s.jxl", name);
        assert_int_equal(system(text_of("cjxl -q %d -e 5 --patches=0 --dots=0 %s %s.jxl "
                                        ">/dev/null 2>&1",
                                        qualities[i], name, name)),
                         0);
        struct picture_file other = picture_load(made);
        assert_in_range(file.length, other.length * 97 / 100, other.length * 103 / 100);
        unlink(made);
        picture_free(&other);
        picture_free(&file);
    }
    unlink(name);
    free(image.pixels);
}

TEST(test_max_bytes)
{
    struct image image = rig_picture(300, 200, 3, 5);
    uint8_t buffer[4096];
    for (int most = 3000; most <= 24000; most *= 2) {
        struct encode_request request = {
            .format = format_by_name("jxl"),
            .encoder = {.quality = 100, .effort = 3, .max_bytes = most}};
        int quality = 0;
        assert_int_equal(codec_find_quality(rig.context, &image, &request, buffer, sizeof buffer,
                                            &quality, &rig.error),
                         STATUS_OK);
        request.encoder.quality = quality;
        struct picture_file file = rig_encode(&rig, &image, &request);
        assert_in_range(file.length, 1, most);
        request.encoder.quality = quality + 1;
        struct picture_file larger = rig_encode(&rig, &image, &request);
        assert_true(quality == 100 || larger.length > (size_t)most ||
                    file.length * 100 >= (size_t)most * 98);
        picture_free(&larger);
        picture_free(&file);
    }
    free(image.pixels);
}

/* Orientation, EXIF and XMP as libjxl reads them, and as gpuimgd does. */
TEST(test_metadata_written)
{
    struct picture_file exif = camera_exif(true, 6, 40, 30, 1), xmp = camera_xmp(6, true);
    rig.limits.metadata = METADATA_ALL;
    for (int i = 0; i <= 8; i++) {
        struct image image = rig_picture(40, 30, (uint32_t[]){1, 3, 4}[i % 3], 1);
        bool has_exif = i & 1, has_xmp = i & 2;
        struct picture_file file = rig_encode_as(
            &image, "jxl", .encoder.quality = 80, .exif = has_exif ? exif.bytes : NULL,
            .exif_bytes = exif.length, .xmp = has_xmp ? xmp.bytes : NULL, .xmp_bytes = xmp.length,
            .orientation = i);
        JxlDecoder *decoder = JxlDecoderCreate(NULL);
        JxlBasicInfo info;
        assert_int_equal(JxlDecoderSubscribeEvents(decoder, JXL_DEC_BASIC_INFO), 0);
        assert_int_equal(JxlDecoderSetKeepOrientation(decoder, JXL_TRUE), 0);
        assert_int_equal(JxlDecoderSetInput(decoder, file.bytes, file.length), 0);
        assert_int_equal(JxlDecoderProcessInput(decoder), JXL_DEC_BASIC_INFO);
        assert_int_equal(JxlDecoderGetBasicInfo(decoder, &info), 0);
        assert_int_equal(info.orientation, i ? i : 1);
        JxlDecoderDestroy(decoder);
        if (has_exif) {
            uint8_t *box = memmem(file.bytes, file.length, "Exif\0\0\0", 8);
            assert_non_null(box);
            assert_memory_equal(box + 8, exif.bytes, exif.length);
        }
        if (has_xmp)
            assert_non_null(memmem(file.bytes, file.length, xmp.bytes, xmp.length));
        rig_reads(&file, STATUS_OK, NULL);
        assert_int_equal(rig.info.orientation, i ? i : 1);
        assert_int_equal(rig.info.xmp_bytes, has_xmp ? xmp.length : 0);
        assert_int_equal(rig.info.exif != NULL, has_exif);
        picture_free(&file);
        free(image.pixels);
    }
    picture_free(&exif);
    picture_free(&xmp);
}

TEST(test_profile_written)
{
    struct picture_file p3 = profile_of_matrix(&profile_p3), gray = profile_of_gray(1.8);
    struct picture_file bad = picture_icc(3000, "RGB ");
    for (int i = 0; i < 6; i++) {
        uint32_t channels = (uint32_t[]){1, 3, 4}[i / 2];
        struct image image = rig_picture(40, 30, channels, 1);
        struct encode_request request = {.format = format_by_name("jxl"),
                                         .encoder = {.quality = 95, .lossless = i % 2},
                                         .icc = p3.bytes,
                                         .icc_bytes = p3.length};
        struct picture_file file = rig_encode(&rig, &image, &request);
        rig_reads(&file, STATUS_OK, NULL);
        assert_int_equal(rig.info.icc_bytes > 0, channels >= 3);
        if (channels >= 3 && i % 2)
            assert_memory_equal(rig.info.icc, p3.bytes, p3.length);
        picture_free(&file);
        request.icc = gray.bytes;
        request.icc_bytes = gray.length;
        rig_reads_once(rig_encode(&rig, &image, &request), STATUS_OK, NULL);
        assert_null(rig.info.icc);
        request.icc = bad.bytes;
        request.icc_bytes = bad.length;
        rig_reads_once(rig_encode(&rig, &image, &request), STATUS_OK, NULL);
        assert_null(rig.info.icc); /* libjxl cannot read it */
        free(image.pixels);
    }
    picture_free(&bad);
    picture_free(&gray);
    picture_free(&p3);
}

/* ---- limits, truncated and corrupt files ---- */

TEST(test_size_limits)
{
    struct picture_file file = make_jxl(.width = 40, .height = 30);
    rig.limits.pixels_max = 40 * 30;
    rig.limits.side_max = 40;
    rig_reads(&file, STATUS_OK, NULL);
    rig.limits.pixels_max = 40 * 30 - 1;
    rig_reads(&file, STATUS_IMAGE_TOO_LARGE, "the JPEG XL is 40 x 30 pixels; at most 1199 pixels");
    rig.limits.pixels_max = 40 * 30;
    rig.limits.side_max = 39;
    rig_reads(&file, STATUS_IMAGE_TOO_LARGE, "39 per side");
    picture_free(&file);
}

/* Images of all kinds need less than the limit of the process, also noise. */
TEST(test_memory)
{
    if (CONFINE_WITHOUT_LIMITS)
        skip();
    static const struct jxl_file kinds[] = {
        {.quality = 5},
        {.channels = 1, .quality = 5},
        {.channels = 4, .quality = 5, .frames = 2},
        {.modular = true, .responsive = true, .depth = 16},
        {.channels = 4, .modular = true, .responsive = true, .frames = 2},
    };
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct jxl_file options = kinds[i];
        options.width = 1200;
        options.height = 800;
        options.effort = 1;
        struct picture_file file = jxl_file(&options);
        rig_reads(&file, STATUS_OK, NULL);
        picture_free(&file);
    }
    for (int i = 0; i < 4; i++) {
        struct image image = rig_picture(900, 700, i & 1 ? 4 : 3, 7);
        struct picture_file noise = picture_garbage(image.stride * image.height, 1);
        memcpy(image.pixels, noise.bytes, noise.length);
        struct picture_file file = rig_encode_as(
            &image, "jxl", .encoder = {.quality = i & 2 ? 99 : 100, .effort = i & 2 ? 4 : 0});
        picture_free(&file);
        picture_free(&noise);
        free(image.pixels);
    }
    const struct format *jxl = format_by_name("jxl");
    const struct encoder_settings usual = {.quality = 90, .effort = 4};
    assert_true(codec_encoder_bytes(jxl, 4000, 3000, 3, &usual, 0) < 2 * GIB * 3 / 8 + 128 * MIB);
}

/* A decode that reaches its limit says so, although libjxl crashes then. */
TEST(test_memory_limit)
{
    struct picture_file file =
        make_jxl(.width = 2000, .height = 1500, .layers = 2, .quality = 30, .effort = 1);
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    size_t honest = rig.info.codec_bytes;
    assert_true(honest > 2000u * 1500 * 30);
    rig.info.codec_bytes = honest / 10;
    struct decode_request whole = {.as = DECODE_COLOUR};
    struct image image = rig_picture(2000, 1500, 3, 1);
    enum status status = codec_decode(rig.context, file.bytes, file.length, &rig.info, &whole,
                                      &rig.limits, &image, &rig.error);
    assert_int_equal(status, CONFINE_WITHOUT_LIMITS ? STATUS_OK : STATUS_DECODE_LIMIT);
    if (status != STATUS_OK)
        assert_non_null(strstr(rig.error.text, "libjxl needs more memory to decode the JPEG XL"));
    free(image.pixels);
    picture_free(&file);
}

TEST(test_sniffed)
{
    struct picture_file file = make_jxl(.width = 9, .height = 7);
    assert_ptr_equal(codec_sniff(file.bytes, file.length), format_by_name("jxl"));
    assert_null(codec_sniff(file.bytes, 1));
    picture_free(&file);
    struct picture_file xmp = camera_xmp(1, true);
    file = make_jxl(.width = 9, .height = 7, .xmp = &xmp);
    for (size_t length = 0; length < 12; length++)
        assert_null(codec_sniff(file.bytes, length));
    assert_ptr_equal(codec_sniff(file.bytes, 12), format_by_name("jxl"));
    picture_free(&file);
    picture_free(&xmp);
}

static void expect_prefixes_fail(const struct picture_file *file)
{
    for (size_t length = 12; length < file->length; length++) {
        struct picture_file cut = picture_cut(file, length);
        assert_int_equal(rig_decode(&rig, &cut, DECODE_COLOUR), STATUS_DECODE_FAILED);
        assert_non_null(strstr(rig.error.text, "the JPEG XL"));
        picture_free(&cut);
    }
}

TEST(test_truncated)
{
    struct picture_file xmp = camera_xmp(1, true), jpeg = make_jpeg(.width = 24, .height = 16);
    struct picture_file files[] = {
        make_jxl(.width = 20, .height = 16),
        make_jxl(.width = 20, .height = 16, .quality = 10, .channels = 4),
        make_jxl(.width = 20, .height = 16, .xmp = &xmp, .packed = true), jxl_of_jpeg(&jpeg)};
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        rig_reads(&files[i], STATUS_OK, NULL);
        expect_prefixes_fail(&files[i]);
        picture_free(&files[i]);
    }
    picture_free(&jpeg);
    picture_free(&xmp);
}

TEST(test_flipped_bytes)
{
    uint32_t random = 20261127;
    uint64_t end = clock_now_ns() + 3000000000u;
    struct picture_file xmp = camera_xmp(1, true);
    struct picture_file files[] = {make_jxl(.width = 61, .height = 47, .xmp = &xmp, .packed = true),
                                   make_jxl(.width = 128, .height = 64, .quality = 10),
                                   make_jxl(.width = 61, .height = 47, .channels = 4, .frames = 2)};
    rig.limits.side_max = 256;
    rig.limits.metadata = METADATA_ALL;
    for (int i = 0; i < 1000 && clock_now_ns() < end; i++) {
        const struct picture_file *file = &files[i % 3];
        size_t to = i % 2 != 0 ? file->length : 100; /* headers more often */
        struct picture_file bad = picture_damage(file, 2, to, &random);
        (void)!rig_decode(&rig, &bad, DECODE_COLOUR);
        picture_free(&bad);
    }
    rig_reads(&files[1], STATUS_OK, NULL);
    for (size_t i = 0; i < COUNT_OF(files); i++)
        picture_free(&files[i]);
    picture_free(&xmp);
}

static void put_box(struct picture_file *file, const char *type, uint32_t bytes)
{
    uint8_t head[8] = {(uint8_t)(bytes >> 24), (uint8_t)(bytes >> 16), (uint8_t)(bytes >> 8),
                       (uint8_t)bytes};
    memcpy(head + 4, type, 4);
    picture_insert(file, 32, head, sizeof head);
}

/* Boxes that other writers make: of no bytes, to the end of the file, and too many. */
TEST(test_boxes)
{
    struct picture_file xmp = camera_xmp(1, true);
    struct picture_file file = make_jxl(.width = 9, .height = 7, .xmp = &xmp);
    put_box(&file, "free", 8);
    put_box(&file, "Exif", 8);
    rig_reads(&file, STATUS_OK, NULL);
    uint8_t *box = memmem(file.bytes, file.length, "jxlc", 4);
    bool is_last = box && box[-1] + 256u * box[-2] == file.length - (size_t)(box - 4 - file.bytes);
    if (is_last) {
        memset(box - 4, 0, 4); /* to the end */
        rig_reads(&file, STATUS_OK, NULL);
    }
    put_box(&file, "jumb", 7);
    rig_reads(&file, STATUS_DECODE_FAILED, NULL);
    picture_free(&file);
    file = make_jxl(.width = 9, .height = 7, .xmp = &xmp);
    for (int i = 0; i < 4096; i++)
        put_box(&file, "free", 8);
    rig_reads_once(file, STATUS_DECODE_LIMIT, "the JPEG XL has more than 4096 boxes");
    picture_free(&xmp);
}

/* Bytes after the image are ignored, in a container as after a codestream. */
TEST(test_trailing_bytes)
{
    struct picture_file xmp = camera_xmp(1, true), jpeg = make_jpeg(.width = 24, .height = 16);
    struct picture_file files[] = {make_jxl(.width = 9, .height = 7, .xmp = &xmp),
                                   make_jxl(.width = 9, .height = 7), jxl_of_jpeg(&jpeg)};
    static const char *const tails[] = {"TRAIL\n", "\n", "a longer tail without boxes"};
    rig.limits.metadata = METADATA_XMP;
    for (size_t i = 0; i < COUNT_OF(files) * COUNT_OF(tails); i++) {
        struct picture_file *file = &files[i / COUNT_OF(tails)];
        size_t length = file->length;
        const char *tail = tails[i % COUNT_OF(tails)];
        picture_insert(file, length, tail, strlen(tail));
        rig_reads(file, STATUS_OK, NULL);
        assert_int_equal(rig.info.xmp_bytes > 0, i < COUNT_OF(tails));
        file->length = length;
    }
    for (size_t i = 0; i < COUNT_OF(files); i++)
        picture_free(&files[i]);
    picture_free(&xmp);
    picture_free(&jpeg);
}

/* libjxl cannot be interrupted: the deadline counts after it. It takes longer than 1 ms. */
TEST(test_deadlines)
{
    struct image image = rig_picture(1200, 800, 3, 5);
    struct encode_request request = {.format = format_by_name("jxl"),
                                     .encoder = {.quality = 90, .effort = 6},
                                     .deadline_ns = clock_now_ns() + 1000000};
    struct rig_sink sink = {.bytes_max = 0};
    assert_int_equal(rig_encode_into(&rig, &image, &request, 65536, &sink), STATUS_TIMEOUT);
    assert_int_equal(sink.file.length, 0);
    picture_free(&sink.file);
    free(image.pixels);
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
