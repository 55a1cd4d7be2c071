/* test_pixel.c - a context that keeps the last file of one pixel gives the files of a new one. */
#include "codecs/pixel.h"
#include "tests/fixtures/codec_rig.h"

#define CAPACITY 7000

/* Compares the files of the rig's context, which has encoded others before, and of a new context.
 */
static void check(const struct encode_request *request, uint32_t channels, size_t capacity)
{
    static uint8_t used[CAPACITY], fresh[CAPACITY];
    struct codec_context *context = codec_context_create();
    memset(used, 0xA5, sizeof used);
    memset(fresh, 0xA5, sizeof fresh);
    assert_int_equal(codec_encode_pixel(rig.context, request, channels, used, capacity, &rig.error),
                     STATUS_OK);
    assert_int_equal(codec_encode_pixel(context, request, channels, fresh, capacity, &rig.error),
                     STATUS_OK);
    assert_memory_equal(used, fresh, sizeof used);
    codec_context_destroy(context);
}

/* Requests that differ in one thing each, in an order in which each follows each. */
TEST(test_each_setting_counts)
{
    struct encode_request requests[11];
    struct picture_file icc = picture_icc(400, "RGB "), other = picture_icc(400, "RGB ");
    struct picture_file long_icc = picture_icc(4000, "RGB ");
    other.bytes[other.length - 1] ^= 1;
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        requests[i] =
            (struct encode_request){.format = format_by_name("jpeg"), .encoder = encoder_defaults};
    requests[1].encoder.quality = 60;
    requests[2].encoder.subsampling = SUBSAMPLING_444;
    requests[3].density = (struct image_density){300, 300, DENSITY_INCH};
    requests[4].density = (struct image_density){300, 200, DENSITY_INCH};
    requests[5].restart_interval = 1;
    requests[6].icc = icc.bytes;
    requests[6].icc_bytes = icc.length;
    requests[7].format = format_by_name("png");
    requests[8].exif = icc.bytes; /* any bytes */
    requests[8].exif_bytes = 100;
    requests[9].icc = other.bytes;
    requests[9].icc_bytes = other.length;
    requests[10].icc = long_icc.bytes;
    requests[10].icc_bytes = long_icc.length;
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        for (size_t j = 0; j < COUNT_OF(requests); j++) {
            check(&requests[i], 3, CAPACITY);
            check(&requests[j], 3, CAPACITY);
        }
    picture_free(&icc);
    picture_free(&other);
    picture_free(&long_icc);
}

TEST(test_two_are_kept)
{
    static uint8_t file[CAPACITY];
    const struct codec_pixels *pixels = codec_pixels_of(rig.context);
    struct picture_file icc = picture_icc(3144, "RGB ");
    const struct encode_request plain = {.format = format_by_name("jpeg"),
                                         .encoder = encoder_defaults};
    struct encode_request coloured = plain;
    coloured.icc = icc.bytes;
    coloured.icc_bytes = icc.length;
    for (int i = 0; i < 3; i++) {
        const struct encode_request *request = i % 2 ? &coloured : &plain;
        assert_int_equal(codec_encode_pixel(rig.context, request, 3, file, CAPACITY, &rig.error),
                         STATUS_OK);
        assert_int_equal(pixels->of[pixels->last].key.icc_bytes, request->icc_bytes);
        assert_memory_equal(pixels->of[pixels->last].file, file, pixels->of[pixels->last].bytes);
    }
    assert_true(pixels->of[0].bytes > 0 && pixels->of[1].bytes > 0);
    assert_int_not_equal(pixels->of[0].key.icc_bytes, pixels->of[1].key.icc_bytes);
    picture_free(&icc);
}

TEST(test_channels_and_capacity_count)
{
    const struct encode_request request = {.format = format_by_name("jpeg"),
                                           .encoder = encoder_defaults};
    static const size_t capacities[] = {CAPACITY, 100, 640, 100};
    for (size_t i = 0; i < COUNT_OF(capacities); i++)
        for (uint32_t channels = 1; channels <= 3; channels += 2) {
            check(&request, channels, capacities[i]);
            check(&request, channels, capacities[i]);
        }
}

TEST_MAIN(.name = "pixel", .each_setup = rig_setup, .each_teardown = rig_teardown)
