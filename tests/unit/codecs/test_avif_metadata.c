/* Tests of the metadata and the orientation of AVIFs, with libavif as the reference. */
#include "tests/fixtures/codec_rig.h"

#ifdef GPUIMGD_AVIF

#include "tests/fixtures/avif_rig.h"
#include "tests/fixtures/camera.h"

/* The encoder writes irot and imir as libavif translates the orientation of EXIF. */
TEST(test_orientation_written)
{
    struct image image = rig_picture(40, 30, 3, 1);
    for (int i = 0; i < 2 * (ORIENTATION_MAX + 1); i++) {
        int orientation = i / 2;
        struct picture_file exif =
            picture_exif((uint16_t)(orientation ? orientation : 1), false, true);
        struct picture_file file =
            rig_encode_as(&image, "avif", .encoder.quality = 60,
                          .encoder.effort = avif_both_efforts[i % 2], .orientation = orientation);
        avifImage *read = avif_read(&file, AVIF_STRICT_ENABLED), *wanted = avifImageCreateEmpty();
        (void)avifImageSetMetadataExif(wanted, exif.bytes, exif.length);
        assert_int_equal(read->transformFlags, wanted->transformFlags);
        assert_int_equal(read->irot.angle, wanted->irot.angle);
        assert_memory_equal(&read->imir, &wanted->imir, sizeof read->imir);
        assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
        assert_int_equal(rig.info.orientation, orientation ? orientation : 1);
        avifImageDestroy(read);
        avifImageDestroy(wanted);
        picture_free(&file);
        picture_free(&exif);
    }
    free(image.pixels);
}

/* An output that is not upright says so in its EXIF, with any EXIF in the AVIF. */
TEST(test_orientation_kept)
{
    static const char *const names[] = {
        "jpeg",
        "png",
        "avif",
#ifdef GPUIMGD_WEBP
        "webp",
#endif
    };
    struct picture_file with = camera_exif(true, 1, 9, 7, 0);
    struct picture_file without = picture_cut(&with, with.length);
    uint8_t *tag = memmem(without.bytes, without.length, "\1\x12\0\3", 4);
    assert_non_null(tag);
    tag[1] = 0x13;
    const struct picture_file *exifs[] = {&with, &without, NULL};
    for (size_t i = 0; i < COUNT_OF(names) * 3; i++) {
        struct picture_file file =
            make_avif(.width = 9, .height = 7, .angle = 2, .exif = exifs[i % 3]);
        rig.limits.metadata = METADATA_EXIF;
        rig.limits.keeps_orientation = true;
        rig_reads(&file, STATUS_OK, NULL);
        assert_int_equal(rig.info.orientation, 8);
        const struct metadata_fit fit = {.orientation = 8, .width = 9, .height = 7};
        image_info_fit_metadata(&rig.info, &fit);
        struct picture_file made = rig_encode_as(
            &rig.image, names[i / 3], .encoder = encoder_defaults, .exif = rig.info.exif,
            .exif_bytes = rig.info.exif_bytes, .orientation = 8);
        rig_reads_once(made, STATUS_OK, NULL);
        assert_int_equal(rig.info.orientation, 8);
        picture_free(&file);
    }
    picture_free(&without);
    picture_free(&with);
}

/* No EXIF is made for upright outputs, or if they keep none. */
TEST(test_orientation_not_kept)
{
    for (int i = 0; i < 4; i++) {
        rig.limits.metadata = i == 0 ? METADATA_XMP : METADATA_EXIF;
        rig.limits.keeps_orientation = i != 1;
        rig_reads_once(make_avif(.width = 9, .height = 7, .angle = i == 2 ? 0 : 2), STATUS_OK,
                       NULL);
        assert_int_equal(rig.info.exif != NULL, i == 3);
    }
}

TEST(test_profile)
{
    struct picture_file icc = picture_icc(3000, "RGB "), gray = picture_icc(500, "GRAY");
    for (size_t i = 0; i < 3 * AVIF_BOTH; i++) {
        uint32_t channels = (uint32_t[]){1, 3, 4}[i / 2];
        int effort = avif_both_efforts[i % 2];
        struct image image = rig_picture(40, 30, channels, 1);
        struct picture_file file =
            rig_encode_as(&image, "avif", .encoder.quality = 60, .encoder.effort = effort,
                          .icc = icc.bytes, .icc_bytes = icc.length);
        avif_expect_as_libavif(&file);
        assert_int_equal(rig.info.icc_bytes, channels >= 3 ? icc.length : 0);
        if (channels >= 3)
            assert_memory_equal(rig.info.icc, icc.bytes, icc.length);
        picture_free(&file);
        file = rig_encode_as(&image, "avif", .encoder.quality = 60, .encoder.effort = effort,
                             .icc = gray.bytes, .icc_bytes = gray.length);
        avif_expect_as_libavif(&file);
        assert_null(rig.info.icc);
        picture_free(&file);
        free(image.pixels);
    }
    picture_free(&gray);
    picture_free(&icc);
}

/* Profiles are read; damaged ones, and those for gray in a file with colours, are dropped. */
TEST(test_profile_read)
{
    static const avifPixelFormat layouts[] = {AVIF_PIXEL_FORMAT_YUV444, AVIF_PIXEL_FORMAT_YUV400};
    for (int i = 0; i < 10; i++) {
        bool damaged = i / 2 >= 2;
        struct picture_file icc =
            picture_icc(i / 2 == 4 ? ICC_BYTES_MAX + 4 : 500, i / 2 == 0 ? "GRAY" : "RGB ");
        icc.bytes[3] += i / 2 == 2;  /* a wrong size field */
        icc.bytes[36] += i / 2 == 3; /* the signature is wrong */
        struct picture_file file =
            make_avif(.width = 9, .height = 7, .icc = &icc, .format = layouts[i % 2]);
        avif_expect_as_libavif(&file);
        bool kept = !damaged && i != 0;
        assert_int_equal(rig.info.icc_bytes, kept ? icc.length : 0);
        if (kept)
            assert_memory_equal(rig.info.icc, icc.bytes, icc.length);
        picture_free(&file);
        picture_free(&icc);
    }
}

/* Metadata of many megabytes is left out, EXIF last. */
TEST(test_large_metadata)
{
    enum { large = 13 << 20 };
    rig.limits.metadata = METADATA_ALL;
    for (int i = 0; i < 4; i++) {
        struct picture_file exif = camera_exif(true, 6, 9, 7, i % 2 ? large : 0);
        struct picture_file xmp = picture_garbage(i / 2 ? large : 100, 1);
        memset(xmp.bytes, 'x', xmp.length);
        struct picture_file file = make_avif(.width = 9, .height = 7, .exif = &exif, .xmp = &xmp);
        avif_expect_as_libavif(&file);
        assert_int_equal(rig.info.exif != NULL, i % 2 == 0);
        assert_int_equal(rig.info.xmp_bytes, i == 0 ? 100 : 0);
        picture_free(&file);
        picture_free(&exif);
        picture_free(&xmp);
    }
    struct picture_file icc = picture_icc(large, "RGB ");
    rig_reads_once(make_avif(.width = 9, .height = 7, .icc = &icc), STATUS_DECODE_LIMIT,
                   "the AVIF's header has more than 10485760 bytes of boxes and metadata");
    picture_free(&icc);
}

/* As libavif reads it. EXIF does not change irot and imir. */
TEST(test_metadata)
{
    struct picture_file exif = camera_exif(true, 6, 40, 30, 1), xmp = camera_xmp(6, true);
    for (int i = 0; i < 24; i++) {
        bool has_exif = i / 3 % 2, has_xmp = i / 6 % 2;
        struct image image = rig_picture(40, 30, (uint32_t[]){1, 3, 4}[i % 3], 1);
        struct picture_file file = rig_encode_as(
            &image, "avif", .encoder.quality = 60, .encoder.effort = avif_both_efforts[i / 12],
            .exif = has_exif ? exif.bytes : NULL, .exif_bytes = exif.length,
            .xmp = has_xmp ? xmp.bytes : NULL, .xmp_bytes = xmp.length);
        avifImage *read = avif_read(&file, AVIF_STRICT_ENABLED);
        assert_int_equal(read->transformFlags, AVIF_TRANSFORM_NONE);
        assert_int_equal(read->exif.size, has_exif ? exif.length : 0);
        assert_int_equal(read->xmp.size, has_xmp ? xmp.length : 0);
        if (has_exif)
            assert_memory_equal(read->exif.data, exif.bytes, exif.length);
        if (has_xmp)
            assert_memory_equal(read->xmp.data, xmp.bytes, xmp.length);
        avif_expect_as_libavif(&file);
        assert_int_equal(rig.info.orientation, 1);
        avifImageDestroy(read);
        picture_free(&file);
        free(image.pixels);
    }
    picture_free(&exif);
    picture_free(&xmp);
}

#else

TEST(test_nothing)
{
    skip();
}

#endif

TEST_MAIN(.name = "avif_metadata", .each_setup = rig_setup, .each_teardown = rig_teardown)
