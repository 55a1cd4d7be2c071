/*
 * test_avif_header.c - files with the boxes of codecs/avif/header.c around images that libaom has
 * coded: libavif reads them in its strict mode, and a walk through the boxes checks what libavif
 * does not.
 */
#include "codecs/avif/header.h"
#include "tests/fixtures/codec_rig.h"

#ifdef GPUIMGD_AVIF

#include "tests/fixtures/avif_rig.h"
#include "tests/fixtures/camera.h"

/* A file of libavif and the coded image in it. */
struct coded_image {
    struct picture_file file;
    struct avif_coded coded;
    const uint8_t *obus;
    size_t bytes;
};

/* Without metadata, the coded image is all of libavif's box mdat, the last one. */
static struct coded_image code(uint32_t width, uint32_t height, uint32_t channels)
{
    struct coded_image result = {.coded = {width, height, channels, {0}}};
    struct image image = rig_picture(width, height, 3, 7);
    avifEncoder *encoder = avifEncoderCreate();
    encoder->minQuantizer = encoder->maxQuantizer = 20;
    encoder->speed = AVIF_SPEED_FASTEST;
    avifPixelFormat format = channels == 1 ? AVIF_PIXEL_FORMAT_YUV400 : AVIF_PIXEL_FORMAT_YUV420;
    result.file = avif_write_planes(encoder, avif_planes(&image, format));
    free(image.pixels);
    uint8_t *config = memmem(result.file.bytes, result.file.length, "av1C", 4);
    uint8_t *media = memmem(result.file.bytes, result.file.length, "mdat", 4);
    assert_true(config != NULL && media != NULL);
    memcpy(result.coded.av1c, config + 4, sizeof result.coded.av1c);
    result.obus = media + 4;
    result.bytes = (size_t)(result.file.bytes + result.file.length - result.obus);
    return result;
}

/* Makes a file, and checks that the prelude stays inside its memory. */
static struct picture_file wrap(const struct coded_image *image,
                                const struct encode_request *request)
{
    enum { guard = 64 };
    size_t metadata = request->icc_bytes + request->exif_bytes + request->xmp_bytes;
    size_t bytes = avif_prelude_bytes(metadata);
    struct avif_prelude *prelude = malloc(bytes + guard);
    assert_non_null(prelude);
    memset(prelude, 0xA5, bytes + guard);
    avif_prelude_make(request, &image->coded, prelude);
    for (size_t i = 0; i < guard; i++)
        assert_int_equal(((uint8_t *)prelude)[bytes + i], 0xA5);
    struct picture_file file = {.length = prelude->bytes + image->bytes};
    file.bytes = malloc(file.length);
    assert_non_null(file.bytes);
    memcpy(file.bytes, prelude->file, prelude->bytes);
    memcpy(file.bytes + prelude->bytes, image->obus, image->bytes);
    avif_prelude_end(prelude, (uint32_t)image->bytes, file.bytes);
    free(prelude);
    return file;
}

/* ---- as libavif reads it ---- */

static void expect_same_planes(const avifImage *read, const avifImage *wanted)
{
    uint32_t half_width = (wanted->width + 1) / 2, half_height = (wanted->height + 1) / 2;
    assert_int_equal(read->width, wanted->width);
    assert_int_equal(read->height, wanted->height);
    assert_int_equal(read->depth, 8);
    assert_int_equal(read->yuvFormat, wanted->yuvFormat);
    assert_int_equal(read->yuvRange, AVIF_RANGE_FULL);
    assert_int_equal(read->matrixCoefficients, AVIF_MATRIX_COEFFICIENTS_BT601);
    assert_null(read->alphaPlane);
    for (int c = 0; c < (wanted->yuvFormat == AVIF_PIXEL_FORMAT_YUV400 ? 1 : 3); c++)
        for (uint32_t y = 0; y < (c == 0 ? wanted->height : half_height); y++)
            assert_memory_equal(read->yuvPlanes[c] + (size_t)y * read->yuvRowBytes[c],
                                wanted->yuvPlanes[c] + (size_t)y * wanted->yuvRowBytes[c],
                                c == 0 ? wanted->width : half_width);
}

static void expect_data(const avifRWData *read, const uint8_t *wanted, size_t bytes)
{
    assert_int_equal(read->size, wanted ? bytes : 0);
    if (wanted)
        assert_memory_equal(read->data, wanted, bytes);
}

/* With a profile for the pixels, primaries and transfer are unspecified. */
static void expect_as_libavif(const struct picture_file *file, const struct coded_image *image,
                              const struct encode_request *request, bool has_profile)
{
    avifImage *read = avif_read(file, AVIF_STRICT_ENABLED),
              *wanted = avif_read(&image->file, AVIF_STRICT_ENABLED);
    expect_same_planes(read, wanted);
    assert_int_equal(read->colorPrimaries,
                     has_profile ? AVIF_COLOR_PRIMARIES_UNSPECIFIED : AVIF_COLOR_PRIMARIES_BT709);
    assert_int_equal(read->transferCharacteristics, has_profile
                                                        ? AVIF_TRANSFER_CHARACTERISTICS_UNSPECIFIED
                                                        : AVIF_TRANSFER_CHARACTERISTICS_SRGB);
    expect_data(&read->icc, has_profile ? request->icc : NULL, request->icc_bytes);
    expect_data(&read->exif, request->exif, request->exif_bytes);
    expect_data(&read->xmp, request->xmp, request->xmp_bytes);
    avifImageDestroy(read);
    avifImageDestroy(wanted);
}

/* Every combination of metadata, of even and odd sizes. */
TEST(test_metadata)
{
    static const uint32_t sides[][2] = {{1, 1}, {2, 3}, {61, 47}, {256, 64}};
    struct picture_file icc = picture_icc(3001, "RGB "), exif = camera_exif(true, 6, 40, 30, 1);
    struct picture_file xmp = camera_xmp(6, true);
    for (size_t i = 0; i < COUNT_OF(sides) * 2; i++) {
        uint32_t channels = i % 2 ? 3 : 1;
        struct coded_image image = code(sides[i / 2][0], sides[i / 2][1], channels);
        for (unsigned kinds = 0; kinds < 8; kinds++) {
            struct encode_request request = {.icc = kinds & 1 ? icc.bytes : NULL,
                                             .icc_bytes = icc.length,
                                             .exif = kinds & 2 ? exif.bytes : NULL,
                                             .exif_bytes = exif.length,
                                             .xmp = kinds & 4 ? xmp.bytes : NULL,
                                             .xmp_bytes = xmp.length};
            struct picture_file file = wrap(&image, &request);
            expect_as_libavif(&file, &image, &request, channels > 1 && request.icc);
            picture_free(&file);
        }
        picture_free(&image.file);
    }
    picture_free(&icc);
    picture_free(&exif);
    picture_free(&xmp);
}

/* The largest metadata that a job can keep. */
TEST(test_large_metadata)
{
    struct coded_image image = code(40, 30, 3);
    struct picture_file icc = picture_icc(ICC_BYTES_MAX, "RGB ");
    struct picture_file exif = picture_garbage(EXIF_KEPT_BYTES_MAX, 1);
    struct picture_file xmp = picture_garbage(XMP_BYTES_MAX, 2);
    memcpy(exif.bytes, "II*\0\x08\0\0\0\0\0\0\0\0\0", 14); /* libavif looks for the header */
    struct encode_request request = {.icc = icc.bytes,
                                     .icc_bytes = icc.length,
                                     .exif = exif.bytes,
                                     .exif_bytes = exif.length,
                                     .xmp = xmp.bytes,
                                     .xmp_bytes = xmp.length,
                                     .orientation = 5};
    struct picture_file file = wrap(&image, &request);
    expect_as_libavif(&file, &image, &request, true);
    picture_free(&file);
    picture_free(&xmp);
    picture_free(&exif);
    picture_free(&icc);
    picture_free(&image.file);
}

/* Profiles that are for other colours are left out. */
TEST(test_wrong_profiles)
{
    struct picture_file gray = picture_icc(500, "GRAY"), cmyk = picture_icc(500, "CMYK");
    struct coded_image image = code(40, 30, 3);
    for (int i = 0; i < 2; i++) {
        struct encode_request request = {.icc = (i ? &cmyk : &gray)->bytes, .icc_bytes = 500};
        struct picture_file file = wrap(&image, &request);
        expect_as_libavif(&file, &image, &request, false);
        picture_free(&file);
    }
    picture_free(&image.file);
    picture_free(&gray);
    picture_free(&cmyk);
}

/* irot and imir are those into which libavif translates an orientation of EXIF. */
TEST(test_orientation)
{
    struct coded_image image = code(61, 47, 3);
    for (int orientation = 0; orientation <= ORIENTATION_MAX; orientation++) {
        struct picture_file exif =
            picture_exif((uint16_t)(orientation ? orientation : 1), false, true);
        struct encode_request request = {.orientation = orientation};
        struct picture_file file = wrap(&image, &request);
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
    picture_free(&image.file);
}

/* ---- as the standards say ---- */

/* A box: its contents, from after its type on. */
struct box {
    const uint8_t *at;
    size_t bytes;
};

static uint32_t number(const uint8_t *at, unsigned bytes)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

/* Writes the types of the boxes in order, such as "ftyp meta mdat". They must fill the space. */
static const char *types_in(struct box space, char *text)
{
    size_t at = 0;
    char *end = text;
    while (at < space.bytes) {
        assert_true(space.bytes - at >= 8);
        uint32_t bytes = number(space.at + at, 4);
        assert_true(bytes >= 8 && bytes <= space.bytes - at);
        end += sprintf(end, "%s%.4s", at > 0 ? " " : "", (const char *)space.at + at + 4);
        at += bytes;
    }
    return text;
}

/* The `index`th box of this type in a space whose boxes types_in has checked. */
static struct box find(struct box space, const char *type, unsigned index)
{
    for (size_t at = 0; at < space.bytes; at += number(space.at + at, 4))
        if (memcmp(space.at + at + 4, type, 4) == 0 && index-- == 0)
            return (struct box){space.at + at + 8, number(space.at + at, 4) - 8};
    fail_msg("there is no box %s", type);
    return (struct box){0};
}

/* Without the first bytes: version and flags of a full box, or more. */
static struct box after(struct box box, size_t bytes)
{
    assert_true(box.bytes >= bytes);
    return (struct box){box.at + bytes, box.bytes - bytes};
}

/* Descriptive properties come before transformations, which are essential, as is av1C: ISO/IEC
 * 23008-12, 6.5.1, and AV1 Image File Format, 2.1. */
static void expect_associations(struct box iprp, const char *properties)
{
    struct box ipma = after(find(iprp, "ipma", 0), 4);
    const char *type = properties;
    assert_int_equal(number(ipma.at, 4), 1);
    assert_int_equal(number(ipma.at + 4, 2), 1);
    assert_int_equal(ipma.bytes, 7 + ipma.at[6]);
    assert_int_equal(ipma.at[6], (strlen(properties) + 1) / 5);
    for (unsigned i = 0; i < ipma.at[6]; i++, type += 5) {
        bool essential = strncmp(type, "av1C", 4) == 0 || strncmp(type, "irot", 4) == 0 ||
                         strncmp(type, "imir", 4) == 0;
        assert_int_equal(ipma.at[7 + i], (essential ? 0x80 : 0) + i + 1);
    }
}

/* The items lie in mdat one after the other and fill it, the image last. `bytes`: of EXIF, of XMP
 * and of the image. */
static void expect_items(const struct picture_file *file, struct box meta, struct box mdat,
                         const size_t bytes[3])
{
    static const char *const types[] = {"Exif", "mime", "av01"};
    struct box iloc = after(find(meta, "iloc", 0), 4), iinf = after(find(meta, "iinf", 0), 4);
    unsigned count = (bytes[0] > 0) + (bytes[1] > 0) + 1, entry = 0;
    size_t expected = (size_t)(mdat.at - file->bytes);
    assert_int_equal(number(iloc.at, 4), 0x44000000 + count);
    assert_int_equal(iloc.bytes, 4 + 14 * count);
    assert_int_equal(number(iinf.at, 2), count);
    for (unsigned i = 0; i < 3; i++) {
        if (bytes[i] == 0)
            continue;
        entry = i == 2 ? 0 : entry + 1;
        const uint8_t *place = iloc.at + 4 + 14 * entry;
        struct box infe = find(after(iinf, 2), "infe", entry);
        assert_int_equal(number(place, 2), number(infe.at + 4, 2));
        assert_memory_equal(infe.at + 8, types[i], 4);
        assert_int_equal(number(place + 2, 4), 1);
        assert_int_equal(number(place + 6, 4), expected);
        assert_int_equal(number(place + 10, 4), bytes[i]);
        expected += bytes[i];
    }
    assert_int_equal(expected, file->length);
}

static void expect_references(struct box meta, unsigned count)
{
    struct box iref = count > 0 ? after(find(meta, "iref", 0), 4) : (struct box){0};
    for (unsigned i = 0; i < count; i++) {
        struct box cdsc = find(iref, "cdsc", i);
        assert_int_equal(cdsc.bytes, 6);
        assert_int_not_equal(number(cdsc.at, 2), 1);
        assert_int_equal(number(cdsc.at + 2, 4), 0x10001);
    }
}

TEST(test_boxes)
{
    char text[256], wanted[256];
    struct coded_image image = code(61, 47, 3);
    struct picture_file icc = picture_icc(500, "RGB "), exif = picture_exif(6, false, true);
    for (unsigned i = 0; i < 16; i++) {
        struct encode_request request = {.exif = i & 1 ? exif.bytes : NULL,
                                         .exif_bytes = exif.length,
                                         .xmp = i & 2 ? (const uint8_t *)"<x/>" : NULL,
                                         .xmp_bytes = 4,
                                         .icc = i & 4 ? icc.bytes : NULL,
                                         .icc_bytes = icc.length,
                                         .orientation = i & 8 ? 7 : 0};
        struct picture_file file = wrap(&image, &request);
        struct box all = {file.bytes, file.length};
        assert_string_equal(types_in(all, text), "ftyp meta mdat");
        struct box meta = after(find(all, "meta", 0), 4);
        snprintf(wanted, sizeof wanted, "hdlr pitm iloc iinf %siprp", i & 3 ? "iref " : "");
        assert_string_equal(types_in(meta, text), wanted);
        assert_memory_equal(find(meta, "hdlr", 0).at + 8, "pict", 4);
        assert_int_equal(number(find(meta, "pitm", 0).at + 4, 2), 1);
        struct box iprp = find(meta, "iprp", 0);
        assert_string_equal(types_in(iprp, text), "ipco ipma");
        snprintf(wanted, sizeof wanted, "ispe pixi av1C %scolr%s", i & 4 ? "colr " : "",
                 i & 8 ? " irot imir" : "");
        assert_string_equal(types_in(find(iprp, "ipco", 0), text), wanted);
        expect_associations(iprp, wanted);
        expect_references(meta, (i & 1) + (i >> 1 & 1));
        expect_items(&file, meta, find(all, "mdat", 0),
                     (size_t[]){i & 1 ? exif.length + 4 : 0, i & 2 ? 4 : 0, image.bytes});
        picture_free(&file);
    }
    picture_free(&exif);
    picture_free(&icc);
    picture_free(&image.file);
}

/* The Baseline Profile is only for AV1 levels up to 5.1. */
TEST(test_brands)
{
    struct coded_image image = code(9, 7, 1);
    for (uint8_t level = 0; level < 32; level++) {
        image.coded.av1c[1] = level;
        struct picture_file file = wrap(&image, &(struct encode_request){0});
        struct box ftyp = find((struct box){file.bytes, file.length}, "ftyp", 0);
        assert_memory_equal(ftyp.at, "avif\0\0\0\0avifmif1miafMA1B", ftyp.bytes);
        assert_int_equal(ftyp.bytes, level <= 13 ? 24 : 20);
        picture_free(&file);
    }
    picture_free(&image.file);
}

/* Only the two lengths depend on the size of the coded image. */
TEST(test_lengths)
{
    struct coded_image image = code(9, 7, 3);
    struct picture_file exif = picture_exif(1, false, true);
    struct encode_request request = {.exif = exif.bytes, .exif_bytes = exif.length};
    struct avif_prelude *prelude = malloc(avif_prelude_bytes(exif.length));
    assert_non_null(prelude);
    avif_prelude_make(&request, &image.coded, prelude);
    struct picture_file file = {.bytes = malloc(prelude->bytes), .length = prelude->bytes};
    memcpy(file.bytes, prelude->file, prelude->bytes);
    avif_prelude_end(prelude, 0x12345678, file.bytes);
    assert_int_equal(number(file.bytes + prelude->image_length_at, 4), 0x12345678);
    assert_int_equal(number(file.bytes + prelude->media_at, 4), 8 + 4 + exif.length + 0x12345678);
    memcpy(file.bytes + prelude->image_length_at, prelude->file + prelude->image_length_at, 4);
    memcpy(file.bytes + prelude->media_at, prelude->file + prelude->media_at, 4);
    assert_memory_equal(file.bytes, prelude->file, prelude->bytes);
    picture_free(&file);
    free(prelude);
    picture_free(&exif);
    picture_free(&image.file);
}

#else

TEST(test_nothing)
{
    skip();
}

#endif

TEST_MAIN(.name = "avif_header", .each_setup = rig_setup, .each_teardown = rig_teardown)
