/*
 * test_webp_encode.c - the WebP encoder of devices compared with libwebp, byte by byte.
 *
 * On the stand-in the kernels run on the host, and a part of the cases is enough. More of them:
 * tests/tools/webp_device_main.c.
 */
#include "tests/fixtures/gpu/gpu_run.h"
#include "tests/fixtures/test.h"

#ifdef GPUIMGD_WEBP

#include "tests/cuda/webp_encode_rig.h"

#if !ON_DEVICE
#include "tests/cuda/simt.h"
#endif

static bool no_device, full; /* full: all cases, on a device */
static const uint32_t channel_counts[] = {1, 3, 4};

static void need_device(void)
{
    if (no_device) {
        print_message("no CUDA device\n");
        skip();
    }
    webp.count = webp.equal = webp.declined = webp.different = 0;
}

/* Runs the batch, and fails if any file since need_device() was not as expected. */
static void finish(int launches)
{
    run_batch(launches);
    if (webp.different > 0)
        fail_msg("%zu of %zu files differ; the last is %s", webp.different,
                 webp.different + webp.equal + webp.declined, webp.difference);
}

/* ---- equal files ---- */

TEST(one_image)
{
    need_device();
    add_case(64, 48, 3, 80, DRAWING_PHOTOGRAPH, 1)->expect = EQUAL;
    finish(1);
}

/* All sides of macroblocks, of their halves, and of partial ones. */
TEST(small_sizes)
{
    need_device();
    uint32_t number = 0;
    for (uint32_t width = 1; width <= 65; width++) {
        for (uint32_t height = 1; height <= 65; height++) {
            if (!full &&
                (width * 41 + height * 7) % 65 > (width % 16 < 2 && height % 16 < 2 ? 20 : 0))
                continue;
            number++;
            add_case(width, height, channel_counts[number % 3], (int)(number * 37 % 101),
                     (enum drawing_kind)(number % DRAWING_KINDS), number);
        }
    }
    finish(1);
}

TEST(every_quality)
{
    need_device();
    for (int quality = 0; quality <= 100; quality += full || quality > 94 ? 1 : 5)
        add_case(40, 33, 3, quality, DRAWING_PHOTOGRAPH, (uint32_t)quality);
    finish(1);
}

TEST(every_kind_of_image)
{
    need_device();
    static const int qualities[] = {80, 20, 96, 100};
    for (int kind = 0; kind < DRAWING_KINDS; kind++)
        for (int i = 0; i < (full ? 12 : 2); i++)
            add_case(full ? 333 : 70, full ? 250 : 66, channel_counts[(kind + i) % 3],
                     qualities[(kind + i) % 4], (enum drawing_kind)kind, (uint32_t)i);
    finish(1);
}

/* A file with one segment has default probabilities, and no map of segments. */
TEST(one_segment)
{
    need_device();
    add_case(1, 1, 3, 80, DRAWING_FLAT, 1);
    add_case(16, 16, 3, 50, DRAWING_NOISE, 2);
    add_case(80, 80, 3, 75, DRAWING_FLAT, 3);
    add_case(80, 64, 4, 0, DRAWING_FLAT, 4);
    add_case(100, 60, 3, 100, DRAWING_PHOTOGRAPH, 5);
    add_case(100, 60, 1, 100, DRAWING_SCREENSHOT, 6);
    finish(1);
}

/* In flat blocks at the left and the upper border, 16 x 16 prediction has its own rule. */
TEST(flat_borders)
{
    need_device();
    for (int quality = 10; quality <= 100; quality += full ? 5 : 45)
        add_case(96, 80, 3, quality, DRAWING_FRAME, (uint32_t)quality);
    finish(1);
}

/* Counters of tokens are halved when they reach 65,534: of the first image one, once; of the second
 * one four, up to three times. */
TEST(many_tokens)
{
    need_device();
    add_case(512, 512, 3, 85, DRAWING_PHOTOGRAPH, 1)->expect = EQUAL;
    add_case(900, 700, 3, 90, DRAWING_PHOTOGRAPH, 3)->expect = EQUAL;
    if (full) {
        add_case(1600, 1200, 3, 60, DRAWING_NOISE, 4);
        add_case(3000, 2000, 3, 80, DRAWING_PHOTOGRAPH, 7)->expect = EQUAL;
        add_case(3000, 2000, 3, 95, DRAWING_PHOTOGRAPH, 6);
        add_case(3000, 2000, 1, 30, DRAWING_MIXED, 5)->expect = EQUAL;
    }
    finish(1);
}

/* Large batches have longer chunks of tokens. */
TEST(long_chunks)
{
    need_device();
    for (webp.chunk_tokens = 512; webp.chunk_tokens <= 1024; webp.chunk_tokens *= 2) {
        add_case(200, 150, 3, 90, DRAWING_PHOTOGRAPH, 1)->expect = EQUAL;
        add_case(150, 130, 1, 60, DRAWING_SCREENSHOT, 2);
        add_case(300, 200, 4, 30, DRAWING_MIXED, 3);
        run_batch(1);
    }
    webp.chunk_tokens = 0;
    finish(1);
}

TEST(long_sides)
{
    need_device();
    add_case(full ? 16383 : 2500, full ? 17 : 5, 3, 60, DRAWING_MIXED, 1);
    add_case(full ? 33 : 5, full ? 16383 : 2500, 4, 85, DRAWING_PHOTOGRAPH, 2);
    if (full) {
        add_case(16383, 600, 3, 75, DRAWING_SCREENSHOT, 3);
        add_case(700, 16383, 1, 75, DRAWING_LINES, 4);
    }
    finish(1);
}

#if ON_DEVICE
/* From 8 megapixels on, the bits of the modes of a macroblock have a limit. The host would take
 * minutes. */
TEST(limit_of_mode_bits)
{
    need_device();
    if (!full)
        skip();
    add_case(3600, 2700, 3, 40, DRAWING_RINGS, 6);
    finish(1);
    add_case(4000, 3000, 3, 85, DRAWING_PHOTOGRAPH, 9); /* a first partition of 317 KB */
    finish(1);
    add_case(6000, 4000, 3, 70, DRAWING_PHOTOGRAPH, 8);
    finish(1);
    add_case(9000, 6000, 3, 60, DRAWING_MIXED, 10);
    finish(1);
    assert_true(webp.equal > 2);
}
#endif

TEST(metadata)
{
    need_device();
    static const size_t sizes[][2] = {{18, 0},   {18, 2},     {0, 30},
                                      {3162, 0}, {18, 70002}, {66000, 400}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct webp_case *self = add_case(50 + (uint32_t)i, 40, 3, 80, DRAWING_PHOTOGRAPH, 1);
        self->header_more = sizes[i][0];
        self->trailer_bytes = sizes[i][1];
        self->expect = EQUAL;
    }
    finish(1);
}

TEST(a_description_can_be_launched_again)
{
    need_device();
    add_case(90, 70, 3, 80, DRAWING_PHOTOGRAPH, 1)->expect = EQUAL;
    add_case(40, 50, 4, 70, DRAWING_SCREENSHOT, 2)->alpha = OPAQUE;
    add_case(30, 20, 4, 70, DRAWING_SCREENSHOT, 3)->alpha = TRANSPARENT;
    webp.cases[2].expect = DECLINED;
    finish(3);
}

/* Limits that the first quality keeps, that others do, and that none does; images without one. */
TEST(files_of_at_most_some_bytes)
{
    need_device();
    static const uint32_t limits[] = {0, 100000, 1500, 1000, 700, 400, 1};
    for (uint32_t i = 0; i < COUNT_OF(limits); i++) {
        add_case(60 + 7 * i, 50, 3, i % 2 ? 95 : 80, DRAWING_PHOTOGRAPH, i)->bytes_max = limits[i];
        struct webp_case *self = add_case(50, 30 + i, 1, 90, DRAWING_SCREENSHOT, i);
        self->bytes_max = limits[COUNT_OF(limits) - 1 - i];
        self->header_more = 10 * i;
    }
    struct webp_case *self = add_case(30, 30, 4, 90, DRAWING_SCREENSHOT, 3);
    self->alpha = TRANSPARENT;
    self->bytes_max = 1000;
    self->expect = DECLINED;
    finish(1);
    assert_int_equal(webp.declined, 1);
}

TEST(threads_in_any_order)
{
    need_device();
#if !ON_DEVICE
    for (uint32_t seed = 1; seed < 5; seed++) {
        simt_shuffle(seed * 77);
        for (uint32_t i = 0; i < 3; i++)
            add_case(20 + seed * 11, 3 + i * 29, 3, (int)(30 * seed - 20),
                     (enum drawing_kind)((seed + i * 4) % DRAWING_KINDS), seed);
        run_batch(1);
    }
    simt_shuffle(0);
#endif
    finish(1);
}

/* ---- declined images ---- */

TEST(transparent_images_are_declined)
{
    need_device();
    for (uint32_t i = 0; i < 6; i++) {
        struct webp_case *self = add_case(20 + i * 13, 50, 4, 80, DRAWING_PHOTOGRAPH, i + 1);
        self->alpha = i % 3 == 0 ? OPAQUE : i % 3 == 1 ? ONE_PIXEL : TRANSPARENT;
        self->expect = i % 3 == 0 ? EQUAL : DECLINED;
    }
    finish(1);
    assert_int_equal(webp.declined, 4);
}

/* Noise has more tokens, or a longer file, than there is room for. Its neighbours are encoded. */
TEST(long_files_are_declined)
{
    need_device();
    for (uint32_t i = 0; i < 5; i++)
        if (i % 2 == 0)
            add_case(60, 60, 3, 80, DRAWING_PHOTOGRAPH, i)->expect = EQUAL;
        else
            add_case(full ? 500 : 120, full ? 400 : 90, 3, 100, DRAWING_HARD, i);
    finish(1);
    assert_int_equal(webp.declined, 2);
}

static bool is_refused(const struct webp_encode_image *image)
{
    struct webp_encode_batch batch;
    return webp_encode_describe(image, 1, NULL, 0, &batch) == SIZE_MAX;
}

TEST(other_images_are_refused)
{
    uint8_t *aligned = (uint8_t *)4096;
    const struct webp_encode_image good = {.source = {aligned, 10, 10, 3, 32},
                                           .quality = 80,
                                           .header = aligned,
                                           .header_bytes = WEBP_RIFF_BYTES,
                                           .work = aligned,
                                           .file = aligned,
                                           .capacity = webp_encode_capacity(10, 10, 80, 12, 0),
                                           .file_bytes = (uint32_t *)aligned};
    assert_false(is_refused(&good));
    static const uint32_t bad[][3] = {{10, 10, 2}, {10, 10, 5}, {0, 10, 3},    {10, 0, 3},
                                      {11, 10, 3}, {0, 0, 1},   {10, 16384, 3}};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct webp_encode_image image = good;
        image.source.width = bad[i][0];
        image.source.height = bad[i][1];
        image.source.channels = bad[i][2];
        image.capacity = 1 << 24;
        assert_true(is_refused(&image));
    }
#define REFUSED(change)                                                                            \
    do {                                                                                           \
        struct webp_encode_image image = good;                                                     \
        change;                                                                                    \
        assert_true(is_refused(&image));                                                           \
    } while (0)
    REFUSED(image.source.pixels++);
    REFUSED(image.file++);
    REFUSED(image.work += 16);
    REFUSED(image.header++);
    REFUSED(image.capacity--);
    REFUSED(image.capacity = (size_t)INT32_MAX + 1);
    REFUSED(image.source.stride++);
    REFUSED(image.quality = 101);
    REFUSED(image.quality = -1);
    REFUSED(image.header_bytes = WEBP_RIFF_BYTES - 2);
#undef REFUSED
}

TEST(sizes)
{
    assert_int_equal(webp_encode_capacity(16384, 1, 80, 12, 0), 0);
    assert_int_equal(webp_encode_capacity(1, 16384, 80, 12, 0), 0);
    assert_int_equal(webp_encode_capacity(UINT32_MAX, UINT32_MAX, 80, 12, 0), 0);
    assert_int_equal(webp_encode_capacity(100, 100, 80, SIZE_MAX, 0), 0);
    assert_int_equal(webp_encode_capacity(100, 100, 80, 12, SIZE_MAX), 0);
    assert_int_equal(webp_encode_capacity(100, 100, 80, 12, INT32_MAX), 0);
    assert_true(webp_encode_capacity(16383, 100, 80, 12, 0) > 0);
    static const size_t bytes_per_pixel[][2] = {{75, 24}, {85, 36}, {95, 48}, {100, 84}};
    for (size_t i = 0; i < COUNT_OF(bytes_per_pixel); i++) {
        int quality = (int)bytes_per_pixel[i][0];
        size_t most = bytes_per_pixel[i][1];
        assert_true(webp_encode_work_bytes(512, 341, quality) < most * 512 * 341);
        assert_true(webp_encode_work_bytes(2560, 1600, quality) < most * 2560 * 1600);
    }
}

static int setup(void **state)
{
    int devices = 0;
    full = ON_DEVICE && !test_quick();
    no_device = cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0;
    if (!no_device)
        check(cudaStreamCreateWithFlags(&webp.stream, cudaStreamNonBlocking));
    return 0;
}

static int teardown(void **state)
{
    if (!no_device)
        check(cudaStreamDestroy(webp.stream));
    return 0;
}

TEST_MAIN(.name = "webp_encode", .setup = setup, .teardown = teardown)

#else

TEST(the_encoder)
{
    print_message("built without libwebp (WEBP=no)\n");
    skip();
}

TEST_MAIN(.name = "webp_encode")

#endif
