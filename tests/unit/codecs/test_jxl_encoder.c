/* Tests of the JPEG XL encoder against djxl and cjxl. */
#include "tests/fixtures/codec_rig.h"

#ifdef GPUIMGD_JXL

#include <jxl/decode.h>

#include "codecs/quality.h"
#include "tests/fixtures/camera.h"
#include "tests/fixtures/profile.h"
#include "tests/fixtures/text_file.h"

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
            assert_true(channels == 4 || rig_mean_error(&rig, &image) < 8); /* it has noise */
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
    char name[] = "/tmp/gpuimgd-test-XXXXXX";
    if (system("command -v cjxl >/dev/null 2>&1") != 0) {
        print_message("skipped: there is no cjxl here\n");
        skip();
    }
    struct image image = rig_picture(200, 150, 3, 5);
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

#else

TEST(test_without_jxl)
{
    skip();
}

#endif

TEST_MAIN(.name = "jxl_encoder", .each_setup = rig_setup, .each_teardown = rig_teardown)
