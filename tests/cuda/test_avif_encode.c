/*
 * test_avif_encode.c - the AV1 encoder of devices gives the files of the host, byte by byte.
 *
 * Without a GPU, the kernels run on the host, so the images are small.
 */
#include "tests/cuda/avif_encode_rig.h"

#ifndef CUDART_VERSION
#include "tests/cuda/simt.h"
#endif

static bool no_device;

static int open_stream(void **state)
{
    int devices = 0;
    no_device = cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0;
    if (!no_device)
        check(cudaStreamCreateWithFlags(&avif.stream, cudaStreamNonBlocking));
    return 0;
}

static int close_stream(void **state)
{
    if (!no_device)
        check(cudaStreamDestroy(avif.stream));
    return 0;
}

static void need_device(void)
{
    if (no_device) {
        print_message("no CUDA device\n");
        skip();
    }
}

TEST(small_images)
{
    need_device();
    for (uint32_t i = 0; i < 60; i++)
        add_avif(.width = 1 + i * 7 % 37, .height = 1 + i * 11 % 41,
                 .channels = i % 3 ? 3 : 1 + i % 2 * 3,
                 .options = {.quality = (int)(1 + i * 23 % 99)},
                 .kind = (enum drawing_kind)(i % DRAWING_KINDS), .seed = i, .may_decline = true,
                 .header_bytes = i % 4 * 12, .trailer_bytes = i % 5, .patches = i % 4 > 0);
    expect_all_equal();
}

TEST(images_of_several_superblocks)
{
    need_device();
    for (uint32_t i = 0; i < 8; i++)
        add_avif(.width = 60 + i * 37, .height = 200 - i * 17, .channels = i % 4 ? 3 : 1,
                 .options = {.quality = (int)(10 + i * 12)},
                 .kind = (enum drawing_kind)(i % DRAWING_KINDS), .seed = i, .may_decline = true);
    expect_all_equal();
}

#ifdef CUDART_VERSION
/* In batches, which have more rows of superblocks than the device runs at once. */
TEST(many_images)
{
    need_device();
    add_avif(.width = 1501, .height = 1099, .channels = 3, .options = {.quality = 50},
             .kind = (enum drawing_kind)1, .seed = 7);
    add_avif(.width = 65, .height = 4001, .channels = 3, .options = {.quality = 70},
             .kind = (enum drawing_kind)2, .seed = 8, .may_decline = true);
    for (uint32_t i = 0; i < 600; i++) {
        add_avif(.width = 1 + i * 131 % 411, .height = 1 + i * 177 % 397,
                 .channels = i % 5 ? 3 + i % 2 : 1, .options = {.quality = (int)(1 + i * 37 % 99)},
                 .may_decline = true, .kind = (enum drawing_kind)(i % DRAWING_KINDS), .seed = i);
        if (i % 200 == 199)
            expect_all_equal();
    }
}
#else
TEST(any_order_of_threads)
{
    for (uint32_t seed = 1; seed < 3; seed++) {
        simt_shuffle(seed * 77);
        for (uint32_t i = 0; i < 3; i++)
            add_avif(.width = 70 + i * 9, .height = 66, .channels = 3, .options = {.quality = 70},
                     .seed = seed, .may_decline = true,
                     .kind = (enum drawing_kind)(i % DRAWING_KINDS));
        expect_all_equal();
    }
    simt_shuffle(0);
}
#endif

TEST(what_devices_do_not_take)
{
    struct avif_encode_batch batch;
    struct avif_encode_image image = {
        .source = {.width = 8, .height = 8, .channels = 3, .stride = 32},
        .options = {.quality = 50}};
    assert_int_equal(avif_device_capacity(4097, 16, 3, 0, 0), 0);
    assert_int_equal(avif_device_work_bytes(4097, 16, 3, 60), 0);
    assert_int_equal(avif_device_work_bytes(3200, 3200, 3, 60), 0);
    assert_int_equal(avif_device_capacity(16, 16, 3, SIZE_MAX, 0), 0);
    assert_true(avif_device_work_bytes(4096, 2304, 1, 60) > 0);
    image.capacity = avif_device_capacity(8, 8, 3, 0, 0);
    assert_true(avif_encode_describe(&image, 1, NULL, 0, &batch) < SIZE_MAX);
    image.options.quality = 100;
    assert_int_equal(avif_encode_describe(&image, 1, NULL, 0, &batch), SIZE_MAX);
    image.options.quality = 50;
    image.source.channels = 2;
    assert_int_equal(avif_encode_describe(&image, 1, NULL, 0, &batch), SIZE_MAX);
    image.source.channels = 3;
    image.options.effort = 1;
    assert_int_equal(avif_encode_describe(&image, 1, NULL, 0, &batch), SIZE_MAX);
    image.options.effort = AVIF_DEVICE_EFFORT;
    image.media_at = 4;
    assert_int_equal(avif_encode_describe(&image, 1, NULL, 0, &batch), SIZE_MAX);
}

TEST_MAIN(.setup = open_stream, .teardown = close_stream)
