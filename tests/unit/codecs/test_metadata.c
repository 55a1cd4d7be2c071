/* Tests of EXIF and XMP from an input to its outputs: what is kept, changed and left out. */
#include "tests/fixtures/codec_rig.h"

#ifdef GPUIMGD_WEBP
#include <webp/encode.h>
#include <webp/mux.h>
#endif
#ifdef GPUIMGD_AVIF
#include <avif/avif.h>
#endif

#include "codecs/codec_impl.h"
#include "tests/fixtures/camera.h"

static const struct metadata_fit turned = {.upright = true, .width = 400, .height = 300};

static void probe(const struct picture_file *file, unsigned metadata)
{
    rig.limits.metadata = metadata;
    assert_int_equal(rig_probe(&rig, file), STATUS_OK);
}

/* The EXIF data of the image that was probed last. */
static struct picture_file own_exif(void)
{
    return (struct picture_file){rig.info.exif, rig.info.exif_bytes};
}

/* ---- EXIF ---- */

TEST(test_fit)
{
    for (int big = 0; big < 2; big++) {
        struct picture_file exif = camera_exif(big, 6, 4000, 3000, 0);
        exif_fit(exif.bytes, exif.length, 65535, &turned);
        assert_int_equal(camera_value(&exif, CAMERA_ORIENTATION), 1);
        assert_int_equal(camera_value(&exif, CAMERA_WIDTH), 400);
        assert_int_equal(camera_value(&exif, CAMERA_HEIGHT), 300);
        assert_int_equal(camera_value(&exif, CAMERA_SPACE), 65535);
        /* The next output has its own size, is in sRGB, and the one after it is not. */
        struct metadata_fit other = {.in_srgb = true, .width = 65500, .height = 1};
        exif_fit(exif.bytes, exif.length, 65535, &other);
        assert_int_equal(camera_value(&exif, CAMERA_WIDTH), 65500);
        assert_int_equal(camera_value(&exif, CAMERA_SPACE), 1);
        exif_fit(exif.bytes, exif.length, 65535, &turned);
        assert_int_equal(camera_value(&exif, CAMERA_SPACE), 65535);
        picture_free(&exif);
    }
}

/* Without `upright`, the pixels still need the orientation. */
TEST(test_not_upright)
{
    struct picture_file exif = camera_exif(true, 8, 40, 30, 0);
    struct metadata_fit as_stored = {.width = 40, .height = 30};
    exif_fit(exif.bytes, exif.length, 0, &as_stored);
    assert_int_equal(camera_value(&exif, CAMERA_ORIENTATION), 8);
    assert_int_equal(exif_orientation(exif.bytes, exif.length), 8);
    picture_free(&exif);
}

/* Every value of every byte: no access outside the data, and no value outside its field. */
TEST(test_broken)
{
    struct picture_file exif = camera_exif(false, 6, 40, 30, 10);
    for (size_t at = 0; at < exif.length - CAMERA_THUMBNAIL_BYTES; at++)
        for (int value = 0; value < 256; value += 15) {
            struct picture_file bad = picture_cut(&exif, exif.length), copy = {NULL, 0};
            bad.bytes[at] = (uint8_t)value;
            assert_true(exif_copy(bad.bytes, bad.length, 1, &copy.bytes, &copy.length));
            exif_fit(bad.bytes, bad.length, exif_colour_space(bad.bytes, bad.length), &turned);
            exif_fit(copy.bytes, copy.length, 1, &turned);
            assert_in_range(exif_orientation(bad.bytes, bad.length), 1, 8);
            picture_free(&bad);
            picture_free(&copy);
        }
    for (size_t length = 0; length < exif.length; length += 3) {
        struct picture_file part = picture_cut(&exif, length), copy = {NULL, 0};
        assert_true(exif_copy(part.bytes, length, 6, &copy.bytes, &copy.length));
        exif_fit(part.bytes, length, 1, &turned);
        picture_free(&part);
        picture_free(&copy);
    }
    picture_free(&exif);
}

/* ---- files ---- */

#ifdef GPUIMGD_WEBP

static void set_chunk(WebPMux *mux, const char *type, const struct picture_file *data)
{
    if (data)
        assert_int_equal(WebPMuxSetChunk(mux, type, &(WebPData){data->bytes, data->length}, 1),
                         WEBP_MUX_OK);
}

/* By libwebp and its mux. */
static struct picture_file make_webp(const struct picture_file *exif,
                                     const struct picture_file *xmp)
{
    uint8_t *pixels = picture_pixels(24, 16, 3, 1);
    WebPData plain = {NULL, 0}, out;
    plain.size = WebPEncodeLosslessRGB(pixels, 24, 16, 3 * 24, (uint8_t **)&plain.bytes);
    WebPMux *mux = WebPMuxCreate(&plain, 1);
    set_chunk(mux, "EXIF", exif);
    set_chunk(mux, "XMP ", xmp);
    assert_int_equal(WebPMuxAssemble(mux, &out), WEBP_MUX_OK);
    struct picture_file file =
        picture_cut(&(struct picture_file){(uint8_t *)(uintptr_t)out.bytes, out.size}, out.size);
    WebPMuxDelete(mux);
    WebPDataClear(&plain);
    WebPDataClear(&out);
    free(pixels);
    return file;
}

#endif

#ifdef GPUIMGD_AVIF

/* By libavif, which copies the orientation of EXIF to irot and imir. */
static struct picture_file make_avif(const struct picture_file *exif,
                                     const struct picture_file *xmp)
{
    avifEncoder *encoder = avifEncoderCreate();
    avifImage *image = avifImageCreate(24, 16, 8, AVIF_PIXEL_FORMAT_YUV444);
    avifRWData out = AVIF_DATA_EMPTY;
    avifRGBImage rgb;
    avifRGBImageSetDefaults(&rgb, image);
    rgb.format = AVIF_RGB_FORMAT_RGB;
    rgb.rowBytes = 3 * 24;
    rgb.pixels = picture_pixels(24, 16, 3, 1);
    assert_int_equal(avifImageRGBToYUV(image, &rgb), AVIF_RESULT_OK);
    if (exif)
        (void)avifImageSetMetadataExif(image, exif->bytes, exif->length);
    if (xmp)
        (void)avifImageSetMetadataXMP(image, xmp->bytes, xmp->length);
    encoder->speed = AVIF_SPEED_FASTEST;
    assert_int_equal(avifEncoderWrite(encoder, image, &out), AVIF_RESULT_OK);
    struct picture_file file = picture_cut(&(struct picture_file){out.data, out.size}, out.size);
    avifRWDataFree(&out);
    avifImageDestroy(image);
    avifEncoderDestroy(encoder);
    free(rgb.pixels);
    return file;
}

#endif

/* Whether this program has the library of the format. */
static bool has(int format)
{
    return !codec_refusal(&formats[format], true) && !codec_refusal(&formats[format], false);
}

static struct picture_file make_file(int format, const struct picture_file *exif,
                                     const struct picture_file *xmp)
{
#ifdef GPUIMGD_WEBP
    if (format == FORMAT_webp)
        return make_webp(exif, xmp);
#endif
#ifdef GPUIMGD_AVIF
    if (format == FORMAT_avif)
        return make_avif(exif, xmp);
#endif
    struct picture_file file = format == FORMAT_jpeg
                                   ? make_jpeg(.width = 24, .height = 16)
                                   : make_png(.width = 24, .height = 16, .colour_type = 2);
    if (format == FORMAT_jpeg)
        camera_put_in_jpeg(&file, exif, xmp);
    else
        camera_put_in_png(&file, exif, xmp);
    return file;
}

/* With the metadata of the image that was probed last. */
static struct picture_file encode(const struct image *image, int format)
{
    return rig_encode_as(image, formats[format].name, .encoder = encoder_defaults,
                         .exif = rig.info.exif, .exif_bytes = rig.info.exif_bytes,
                         .xmp = rig.info.xmp, .xmp_bytes = rig.info.xmp_bytes);
}

/* From each format to each format. */
TEST(test_kept)
{
    struct picture_file exif = camera_exif(true, 6, 24, 16, 0), xmp = camera_xmp(6, false);
    struct image image = rig_picture(16, 24, 3, 1);
    for (int i = 0; i < FORMAT_COUNT * FORMAT_COUNT; i++) {
        int from = i / FORMAT_COUNT, to = i % FORMAT_COUNT;
        if (!has(from) || !has(to))
            continue;
        struct picture_file file = make_file(from, &exif, &xmp);
        probe(&file, METADATA_EXIF | METADATA_XMP);
        assert_int_equal(rig.info.orientation, 6);
        assert_int_equal(rig.info.exif_bytes, camera_exif_kept(0));
        assert_int_equal(rig.info.xmp_bytes, xmp.length);
        assert_memory_equal(rig.info.xmp, xmp.bytes, xmp.length);
        struct metadata_fit fit = {.upright = true, .in_srgb = true, .width = 16, .height = 24};
        image_info_fit_metadata(&rig.info, &fit);
        struct picture_file made = encode(&image, to);
        image_info_clear(&rig.info);
        rig.limits.metadata = METADATA_ALL;
        rig_reads(&made, STATUS_OK, NULL);
        struct picture_file own = own_exif();
        assert_int_equal(rig.info.orientation, 1);
        assert_int_equal(camera_value(&own, CAMERA_WIDTH), 16);
        assert_int_equal(camera_value(&own, CAMERA_HEIGHT), 24);
        assert_int_equal(camera_value(&own, CAMERA_SPACE), 1);
        assert_non_null(memmem(rig.info.xmp, rig.info.xmp_bytes, "tiff:Orientation=\"1\"", 20));
        picture_free(&made);
        picture_free(&file);
    }
    free(image.pixels);
    picture_free(&exif);
    picture_free(&xmp);
}

/* EXIF and XMP of an output say what its pixels need: an AVIF has irot, and EXIF may say 1. */
TEST(test_orientation_of_another_place)
{
    struct picture_file exif = camera_exif(true, 1, 24, 16, 0), xmp = camera_xmp(1, false);
    struct picture_file file = make_file(FORMAT_png, &exif, &xmp);
    probe(&file, METADATA_EXIF | METADATA_XMP);
    struct metadata_fit fit = {.upright = false, .orientation = 6, .width = 24, .height = 16};
    image_info_fit_metadata(&rig.info, &fit);
    struct picture_file own = own_exif();
    assert_int_equal(camera_value(&own, CAMERA_ORIENTATION), 6);
    assert_non_null(memmem(rig.info.xmp, rig.info.xmp_bytes, "tiff:Orientation=\"6\"", 20));
    fit.upright = true;
    image_info_fit_metadata(&rig.info, &fit);
    assert_int_equal(camera_value(&own, CAMERA_ORIENTATION), 1);
    picture_free(&file);
    picture_free(&exif);
    picture_free(&xmp);
}

TEST(test_not_wanted)
{
    struct picture_file exif = camera_exif(true, 6, 24, 16, 0), xmp = camera_xmp(6, false);
    for (int i = 0; i < 4 * FORMAT_COUNT; i++) {
        if (!has(i / 4))
            continue;
        struct picture_file file = make_file(i / 4, &exif, &xmp);
        probe(&file, (unsigned)(i % 4) << 1);
        assert_int_equal(rig.info.exif != NULL, i % 2);
        assert_int_equal(rig.info.xmp != NULL, i / 2 % 2);
        assert_int_equal(image_info_metadata_bytes(&rig.info, METADATA_EXIF) > 0, i % 2);
        picture_free(&file);
    }
    picture_free(&exif);
    picture_free(&xmp);
}

TEST(test_read_again)
{
    struct picture_file exif = camera_exif(false, 3, 24, 16, 0), xmp = camera_xmp(3, true);
    struct error error = {0};
    for (int i = 0; i < FORMAT_COUNT; i++) {
        if (!has(i))
            continue;
        struct picture_file file = make_file(i, &exif, &xmp), none = make_file(i, NULL, NULL);
        probe(&file, METADATA_ALL);
        size_t bytes = image_info_metadata_bytes(&rig.info, METADATA_ALL);
        image_info_drop_metadata(&rig.info);
        assert_null(rig.info.exif);
        assert_int_equal(image_info_metadata_bytes(&rig.info, METADATA_ALL), bytes);
        assert_int_equal(codec_read_metadata(rig.context, file.bytes, file.length, &rig.limits,
                                             &rig.info, &error), STATUS_OK);
        assert_memory_equal(rig.info.xmp, xmp.bytes, xmp.length);
        assert_int_equal(rig.info.exif_bytes, camera_exif_kept(0));
        image_info_drop_metadata(&rig.info);
        assert_int_equal(codec_read_metadata(rig.context, none.bytes, none.length, &rig.limits,
                                             &rig.info, &error), STATUS_INTERNAL);
        assert_null(rig.info.exif);
        error_clear(&error);
        picture_free(&file);
        picture_free(&none);
    }
    picture_free(&exif);
    picture_free(&xmp);
}

/* The largest packet fits one segment of a JPEG; a larger one, which the other formats can hold, is
 * left out, and of EXIF the longest value. Room for pointers to directories counts. */
TEST(test_limits)
{
    const size_t exif_most = EXIF_KEPT_BYTES_MAX - 1 - (2 * 18 + 6);
    struct image image = rig_picture(16, 24, 3, 1);
    for (size_t i = 0; i < 2 * FORMAT_COUNT; i++) {
        size_t more = i % 2;
        int format = (int)i / 2;
        if (!has(format))
            continue;
        size_t comment = exif_most - camera_exif_kept(6) + 6 + more;
        struct picture_file exif = camera_exif(true, 1, 9, 9, comment);
        struct picture_file xmp = picture_garbage(XMP_BYTES_MAX + more, 1);
        assert_int_equal(camera_exif_kept(comment), exif_most + 2 * more);
        memset(xmp.bytes, 'x', xmp.length);
        struct picture_file file =
            make_file(format == FORMAT_jpeg ? FORMAT_png : format, &exif, &xmp);
        probe(&file, METADATA_ALL);
        assert_int_equal(rig.info.exif_bytes, more == 0 ? exif_most : camera_exif_kept(0));
        assert_int_equal(rig.info.xmp_bytes, more == 0 ? XMP_BYTES_MAX : 0);
        if (more == 0) {
            struct picture_file made = encode(&image, format);
            image_info_clear(&rig.info);
            rig_reads(&made, STATUS_OK, NULL);
            assert_int_equal(rig.info.exif_bytes, exif_most);
            assert_int_equal(rig.info.xmp_bytes, XMP_BYTES_MAX);
            picture_free(&made);
        }
        image_info_clear(&rig.info);
        picture_free(&file);
        picture_free(&exif);
        picture_free(&xmp);
    }
    free(image.pixels);
}

/* ---- density ---- */

/* From JPEG and PNG to both. */
TEST(test_density)
{
    struct image image = rig_picture(16, 24, 3, 1);
    static const struct image_density densities[] = {
        {300, 150, DENSITY_INCH}, {118, 59, DENSITY_CM}, {11811, 5906, DENSITY_METRE}};
    for (size_t i = 0; i < 4 * COUNT_OF(densities); i++) {
        const char *first = i % 2 ? "png" : "jpeg", *second = i / 2 % 2 ? "png" : "jpeg";
        struct picture_file made = rig_encode_as(&image, first, .encoder = encoder_defaults,
                                                 .density = densities[i / 4]);
        rig_reads(&made, STATUS_OK, NULL);
        struct picture_file again = rig_encode_as(&image, second, .encoder = encoder_defaults,
                                                  .density = rig.info.density);
        picture_free(&made);
        rig_reads(&again, STATUS_OK, NULL);
        bool cm = rig.info.density.unit == DENSITY_CM, inch = rig.info.density.unit == DENSITY_INCH;
        uint32_t x = cm ? 118 : inch ? 300 : 11811, y = cm ? 59 : inch ? 150 : 5906;
        assert_in_range(rig.info.density.x, x == 11811 ? 11800 : x, x); /* 118 per cm */
        assert_in_range(rig.info.density.y, y == 5906 ? 5900 : y, y);
        assert_true(i / 2 % 2 || cm || inch);
        picture_free(&again);
    }
    struct picture_file none = rig_encode_as(&image, "png", .encoder = encoder_defaults);
    rig_reads_once(none, STATUS_OK, NULL);
    assert_int_equal(rig.info.density.unit, DENSITY_NONE);
    free(image.pixels);
}

/* ---- XMP ---- */

TEST(test_xmp_upright)
{
    for (int element = 0; element < 2; element++) {
        struct picture_file xmp = camera_xmp(8, element), want = camera_xmp(1, element);
        struct image_info info = {.xmp = xmp.bytes, .xmp_bytes = xmp.length};
        struct metadata_fit as_stored = {.upright = false};
        image_info_fit_metadata(&info, &as_stored);
        assert_memory_not_equal(xmp.bytes, want.bytes, xmp.length);
        image_info_fit_metadata(&info, &turned);
        assert_memory_equal(xmp.bytes, want.bytes, xmp.length);
        picture_free(&xmp);
        picture_free(&want);
    }
    /* Cut anywhere, and other texts: nothing else changes. */
    static const char other[] = "tiff:Orientation=\"12\" tiff:Orientation='9' tiff:Orientation";
    uint8_t copy[sizeof other];
    for (size_t length = 0; length <= sizeof other - 1; length++) {
        struct image_info info = {.xmp = copy, .xmp_bytes = length};
        memcpy(copy, other, sizeof other);
        image_info_fit_metadata(&info, &turned);
        assert_memory_equal(copy, other, sizeof other);
    }
}

/* A zero byte would end the text of a PNG. Compressed packets are not read. */
TEST(test_xmp_refused)
{
    struct picture_file xmp = camera_xmp(1, true);
    for (int i = 0; i < 3; i++) {
        struct picture_file file = make_file(FORMAT_png, NULL, &xmp);
        uint8_t *chunk = memmem(file.bytes, file.length, "XML:com.adobe.xmp", 17);
        if (i == 0)
            chunk[17 + 1] = 1; /* the compression flag */
        else if (i == 1)
            chunk[100] = 0;
        else
            memset(chunk + 17 + 3, 'l', 200); /* the language has no end, or ends in the packet */
        picture_png_fix_crcs(&file);
        probe(&file, METADATA_ALL);
        if (i < 2)
            assert_null(rig.info.xmp);
        picture_free(&file);
    }
    picture_free(&xmp);
}

/* Of several packets in a PNG, the first counts, also if nothing of it is kept. */
TEST(test_first_xmp)
{
    static const char head[] = "XML:com.adobe.xmp\0\0\0\0", broken[] = "<a>";
    struct picture_file one = camera_xmp(1, true), other = camera_xmp(8, true);
    for (int i = 0; i < 2; i++) {
        struct picture_file file = make_file(FORMAT_png, NULL, &other), chunk = picture_empty();
        picture_insert(&chunk, 0, head, sizeof head);
        picture_insert(&chunk, sizeof head, i == 0 ? one.bytes : (const uint8_t *)broken,
                       i == 0 ? one.length : sizeof broken - 1);
        picture_png_insert(&file, "iTXt", "iTXt", chunk.bytes, chunk.length);
        probe(&file, METADATA_ALL);
        assert_int_equal(rig.info.xmp_bytes, i == 0 ? one.length : 0);
        if (i == 0)
            assert_memory_equal(rig.info.xmp, one.bytes, one.length);
        picture_free(&chunk);
        picture_free(&file);
    }
    picture_free(&one);
    picture_free(&other);
}

TEST_MAIN(.name = "metadata", .each_setup = rig_setup, .each_teardown = rig_teardown)
