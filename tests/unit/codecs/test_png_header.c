/* test_png_header.c - the prelude of a PNG has the bytes before the pixels of a whole file. */
#include "codecs/png/header.h"
#include "tests/fixtures/codec_rig.h"

/* The bytes of a file before its first IDAT chunk. */
static size_t header_bytes(const struct picture_file *file)
{
    size_t at = 8;
    while (memcmp(file->bytes + at + 4, "IDAT", 4) != 0) {
        const uint8_t *chunk = file->bytes + at;
        at += 12 + ((size_t)chunk[0] << 24 | chunk[1] << 16 | chunk[2] << 8 | chunk[3]);
    }
    return at;
}

static void check(const struct encode_request *request, uint32_t width, uint32_t height,
                  uint32_t channels)
{
    size_t metadata = request->icc_bytes + request->exif_bytes + request->xmp_bytes;
    size_t bytes = png_prelude_bytes(metadata), guard = 64;
    struct png_prelude *prelude = malloc(bytes + guard);
    struct image image = rig_picture(width, height, channels, 3);
    memset((uint8_t *)prelude + bytes, 0xA5, guard);
    struct picture_file file = rig_encode(&rig, &image, request);
    assert_int_equal(
        png_prelude_make(rig.context, request, width, height, channels, prelude, &rig.error),
        STATUS_OK);
    assert_int_equal(prelude->header_bytes, header_bytes(&file));
    assert_memory_equal(prelude->header, file.bytes, prelude->header_bytes);
    for (size_t i = 0; i < guard; i++)
        assert_int_equal(((uint8_t *)prelude)[bytes + i], 0xA5);
    picture_free(&file);
    free(image.pixels);
    free(prelude);
}

/* Every combination of metadata, with profiles that cannot be compressed, also large ones. */
TEST(test_preludes)
{
    static const size_t sizes[] = {0, 400, 70000, 1000000};
    static const uint32_t sides[][2] = {{1, 1}, {17, 300}, {300, 17}};
    struct picture_file noise = picture_garbage(1000000, 5);
    for (size_t size = 0; size < COUNT_OF(sizes); size++) {
        struct picture_file icc = picture_icc(sizes[size] > 132 ? sizes[size] : 132, "RGB ");
        memcpy(icc.bytes + 128 + 4, noise.bytes, icc.length - 132);
        for (unsigned kinds = 0; kinds < 8; kinds++)
            for (uint32_t channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1) {
                struct encode_request request = {.format = format_by_name("png"),
                                                 .encoder.compression = 1 + (int)(kinds % 3)};
                if (kinds & 1 && sizes[size] > 0) {
                    request.icc = icc.bytes;
                    request.icc_bytes = icc.length;
                }
                if (kinds & 2) {
                    request.exif = noise.bytes;
                    request.exif_bytes = sizes[size];
                }
                if (kinds & 4) {
                    request.xmp = noise.bytes;
                    request.xmp_bytes = sizes[size];
                    request.density = (struct image_density){300, 300, DENSITY_INCH};
                }
                check(&request, sides[kinds % 3][0], sides[kinds % 3][1], channels);
            }
        picture_free(&icc);
    }
    picture_free(&noise);
}

/* Which files devices write. */
TEST(test_for_devices)
{
    for (int compression = 0; compression <= 9; compression++) {
        struct encoder_settings settings = {.compression = compression};
        assert_int_equal(png_is_for_devices(&settings), compression >= 1 && compression <= 3);
        settings.colors = 16;
        assert_false(png_is_for_devices(&settings));
    }
}

TEST_MAIN(.name = "png header", .each_setup = rig_setup, .each_teardown = rig_teardown)
