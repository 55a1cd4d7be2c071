/* Tests which images a device encodes as AVIF, and their memory. */
#include "gpu/avif/device/codec_memory.h"

#include "gpu/avif/encode.h"
#include "tests/fixtures/test.h"

static bool is_for_device(uint32_t width, uint32_t height, uint32_t channels)
{
    struct plan_encoder encoder = {.codec = DEVICE_CODEC_AVIF, .header_bytes = 100};
    bool takes = avif_measure_encoder(&encoder, width, height, channels);
    assert_int_equal(encoder.capacity > 0 && encoder.work_bytes > 0, takes);
    return takes;
}

/* A device could encode them, but it takes as long as a core for the whole image. */
TEST(images_of_more_than_two_megapixels_stay_on_the_cores)
{
    enum { side = 2048, rows = (2 << 20) / side };
    for (uint32_t channels = 1; channels <= 3; channels += 2) {
        assert_true(is_for_device(side, rows, channels));
        assert_true(is_for_device(rows, side, channels));
        assert_true(avif_device_capacity(side, rows + 1, channels, 100, 0) > 0);
        assert_false(is_for_device(side, rows + 1, channels));
        assert_false(is_for_device(rows + 1, side, channels));
    }
}

TEST(images_with_alpha_or_several_tiles_stay_on_the_cores)
{
    assert_true(is_for_device(16, 16, 3));
    assert_false(is_for_device(16, 16, 4));
    assert_true(is_for_device(4096, 16, 3));
    assert_false(is_for_device(4097, 16, 3));
}

TEST_MAIN(.name = "avif_memory")
