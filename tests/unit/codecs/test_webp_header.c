/* test_webp_header.c - the prelude of a WebP has the bytes around the VP8 chunk of a whole file. */
#include "codecs/webp/header.h"
#include "tests/fixtures/codec_rig.h"

#ifdef GPUIMGD_WEBP

static uint32_t le32(const uint8_t *at)
{
    return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

/* Compares with a file of libwebp: the size in its RIFF header is 0 in the prelude. */
static void compare(struct picture_file *file, const struct webp_prelude *prelude)
{
    size_t begin = 12, end;
    while (memcmp(file->bytes + begin, "VP8 ", 4) != 0)
        begin += 8 + (le32(file->bytes + begin + 4) + 1) / 2 * 2;
    end = begin + 8 + (le32(file->bytes + begin + 4) + 1) / 2 * 2;
    memset(file->bytes + 4, 0, 4);
    assert_int_equal(prelude->header_bytes, begin);
    assert_int_equal(prelude->trailer_bytes, file->length - end);
    assert_memory_equal(prelude->bytes, file->bytes, begin);
    assert_memory_equal(prelude->bytes + begin, file->bytes + end, file->length - end);
}

static void check(const struct encode_request *request, uint32_t width, uint32_t height,
                  uint32_t channels)
{
    size_t metadata = request->icc_bytes + request->exif_bytes + request->xmp_bytes;
    size_t bytes = webp_prelude_bytes(metadata), guard = 64;
    struct webp_prelude *prelude = malloc(bytes + guard);
    struct image image = rig_picture(width, height, channels, 3);
    memset((uint8_t *)prelude, 0xA5, bytes + guard);
    for (uint32_t i = 0; channels == 4 && i < height * (uint32_t)image.stride; i++)
        image.pixels[i] |= i % 4 == 3 ? 0xFF : 0; /* opaque */
    struct picture_file file = rig_encode(&rig, &image, request);
    webp_prelude_make(request, width, height, channels, prelude);
    compare(&file, prelude);
    for (size_t i = 0; i < guard; i++)
        assert_int_equal(((uint8_t *)prelude)[bytes + i], 0xA5);
    picture_free(&file);
    free(image.pixels);
    free(prelude);
}

/* Every combination of metadata, of even and odd sizes. */
TEST(test_preludes)
{
    static const size_t sizes[] = {1, 400, 70001, 1000000};
    static const uint32_t sides[][2] = {{1, 1}, {17, 300}, {16383, 16}};
    struct picture_file noise = picture_garbage(1000000, 5);
    for (size_t size = 0; size < COUNT_OF(sizes); size++) {
        struct picture_file icc = picture_icc(sizes[size] > 132 ? sizes[size] : 132, "RGB ");
        for (unsigned kinds = 0; kinds < 8; kinds++)
            for (uint32_t channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1) {
                struct encode_request request = {.format = format_by_name("webp"),
                                                 .encoder = {.quality = 30, .effort = 2}};
                if (kinds & 1) {
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
                }
                check(&request, sides[kinds % 3][0], sides[kinds % 3][1], channels);
            }
        picture_free(&icc);
    }
    picture_free(&noise);
}

/* A profile of other colours is not written. */
TEST(test_a_profile_for_gray)
{
    struct picture_file icc = picture_icc(500, "GRAY");
    struct encode_request request = {.format = format_by_name("webp"),
                                     .icc = icc.bytes,
                                     .icc_bytes = icc.length,
                                     .encoder = {.quality = 30, .effort = 2}};
    for (int exif = 0; exif < 2; exif++) {
        check(&request, 20, 10, 3);
        request.exif = icc.bytes;
        request.exif_bytes = 7;
    }
    picture_free(&icc);
}

TEST(test_the_version_of_the_library)
{
    assert_true(webp_library_version() >= 0x000600);
}

#else

TEST(test_the_version_of_the_library)
{
    assert_int_equal(webp_library_version(), 0);
}

#endif

/* Which files devices write. */
TEST(test_for_devices)
{
    for (int effort = 0; effort <= 6; effort++) {
        struct encoder_settings settings = {.effort = effort, .quality = 80};
        assert_int_equal(webp_is_for_devices(&settings), effort == 2);
        settings = (struct encoder_settings){.effort = effort, .lossless = 1};
        assert_false(webp_is_for_devices(&settings));
    }
}

TEST_MAIN(.name = "webp header", .each_setup = rig_setup, .each_teardown = rig_teardown)
