/*
 * test_png_encode.c - the PNG encoder of devices compared with that of the CPU, byte by byte.
 *
 * The images of a batch, their files and their work memory lie in one block of device memory with
 * guard bytes between them. After a launch the block may differ only where the encoder may write.
 * On the stand-in the kernels run on the host, and a part of the cases is enough.
 */
#include <cuda_runtime.h>

#include "gpu/png/encode_crc.h"
#include "gpu/png/encode_filter.h"
#include "gpu/png/encode_tokens.h"
#include "tests/cuda/arena.h"
#include "tests/fixtures/codec_rig.h"
#include "tests/fixtures/gpu/gpu_run.h"
#include "tests/fixtures/picture.h"
#include "tests/fixtures/test.h"

#ifdef CUDART_VERSION
#define ON_DEVICE true
#else
#define ON_DEVICE false /* the stand-in's cuda_runtime.h */
#endif

#define BATCH_MAX 512

enum pattern {
    NOISE,
    FEW,
    GRADIENT,
    FLAT,
    EDGES,
    SCENE,
    RUNS,
    SHORT_RUNS,
    MIXED,
    FIBONACCI,
    HELD,
    PATTERNS
};

struct spec {
    uint32_t width, height, channels;
    enum pattern pattern;
    size_t icc_bytes, xmp_bytes;
};

static cudaStream_t stream;
static bool no_device, full; /* full: all cases, on a device */

/* ---- pixels ---- */

/* What the next byte of a row depends on. */
struct brush {
    uint32_t random, left;
    uint8_t value;
};

static uint8_t run_byte(struct brush *brush, uint32_t longest, uint32_t values)
{
    if (brush->left-- == 0) {
        brush->value = (uint8_t)(picture_random(&brush->random) % values);
        brush->left = picture_random(&brush->random) % longest;
    }
    return brush->value;
}

/* Byte x of row y. */
static uint8_t sample(const struct spec *spec, size_t x, uint32_t y, struct brush *brush)
{
    switch (spec->pattern) {
    case NOISE:
        return (uint8_t)picture_random(&brush->random);
    case FEW:
        return (uint8_t)(picture_random(&brush->random) % 3 * 20);
    case GRADIENT:
        return (uint8_t)(x * 3 / spec->channels + y * 5);
    case EDGES:
        return (x * 7 + y * 3) % 41 < 3 ? (uint8_t)picture_random(&brush->random) : 0;
    case RUNS:
        return run_byte(brush, 1200, 200);
    case SHORT_RUNS:
        return (uint8_t)(x / 5 % 2 * 255);
    case MIXED: /* noise, flat rows, and rows with a few bytes */
        return y / 40 % 3 == 0                  ? (uint8_t)picture_random(&brush->random)
               : y / 40 % 3 == 1 || x % 900 > 5 ? (uint8_t)(y / 40)
                                                : (uint8_t)picture_random(&brush->random);
    default:
        return 7;
    }
}

/* Counts of the bytes of a column, which has no filter, like those of Fibonacci, with 1 for the end
 * of the block: codes of 14 bits are too short for them. */
static void fill_fibonacci(const struct image *image)
{
    uint32_t y = 0, counts[2] = {1, 2};
    for (uint8_t value = 1; y < image->height; value++) {
        for (uint32_t i = 0; i < counts[0] && y < image->height; i++)
            image->pixels[y++ * image->stride] = value;
        uint32_t sum = counts[0] + counts[1];
        counts[0] = counts[1];
        counts[1] = sum;
    }
}

/* A first tile of 16,383 tokens, as long as there are so many rows: in a column, a byte other than
 * 0 makes two tokens, and the 16,449 repeats after these bytes make 64. Rows from the second tile
 * on have literals, but for two rows of one match that complete the 16,384 tokens of a block. */
static void fill_held(const struct image *image)
{
    enum { literal_rows = 8159, tile_rows = 16384, joined_rows = tile_rows + 2 };
    for (uint32_t y = 0; y < image->height; y++) {
        bool is_zero = (y >= literal_rows && y < tile_rows) || image->height == joined_rows;
        image->pixels[y * image->stride] =
            y < literal_rows || !is_zero ? (uint8_t)(1 + y % 200) : 0;
    }
}

/* The bytes after each row are noise, which must not change the file. free(image.pixels) */
static struct image make_image(const struct spec *spec)
{
    struct brush brush = {.random = spec->width * 65537 + spec->height * 257 + spec->pattern + 1};
    size_t row = (size_t)spec->width * spec->channels;
    struct image image = {NULL, spec->width, spec->height, spec->channels,
                          image_stride(spec->width, spec->channels) +
                              brush.random % 3 * STRIDE_ALIGN};
    image.pixels = malloc(image.stride * image.height);
    for (uint32_t y = 0; y < image.height; y++)
        for (size_t x = 0; x < image.stride; x++)
            image.pixels[y * image.stride + x] =
                x < row ? sample(spec, x, y, &brush) : (uint8_t)(x * 31 + y);
    if (spec->pattern == SCENE)
        picture_fill(image.pixels, image.stride, image.width, image.height, image.channels,
                     brush.random);
    if (spec->pattern == FIBONACCI)
        fill_fibonacci(&image);
    if (spec->pattern == HELD)
        fill_held(&image);
    return image;
}

/* ---- batches ---- */

struct encoded {
    struct image image;            /* on the host */
    struct picture_file reference; /* of the CPU */
    size_t header_at, header_bytes, capacity, pixels_at, work_at, file_at, work_bytes;
};

static struct {
    const struct spec *specs;
    size_t count, description_at, description_bytes, lengths_at;
    struct encoded encoded[BATCH_MAX];
    struct png_encode_image images[BATCH_MAX];
    struct arena arena;
    uint8_t *headers; /* pinned */
    size_t headers_bytes;
    struct png_encode_batch batch;
} run;

static struct picture_file encode_on_cpu(const struct spec *spec, const struct image *image)
{
    struct picture_file icc = {NULL, 0};
    uint8_t *xmp = spec->xmp_bytes > 0 ? malloc(spec->xmp_bytes) : NULL;
    if (xmp != NULL)
        memset(xmp, 'x', spec->xmp_bytes);
    if (spec->icc_bytes > 0)
        icc = picture_icc(spec->icc_bytes, "RGB ");
    struct picture_file file = rig_encode_as(
        image, "png", .encoder.compression = 1 + (int)(spec->width % 3), .icc = icc.bytes,
        .icc_bytes = icc.length, .xmp = xmp, .xmp_bytes = spec->xmp_bytes);
    if (spec->icc_bytes > 0)
        picture_free(&icc);
    free(xmp);
    return file;
}

/* The bytes before the first IDAT chunk. */
static size_t header_bytes_of(const struct picture_file *file)
{
    size_t at = 8;
    while (memcmp(file->bytes + at + 4, "IDAT", 4) != 0) {
        const uint8_t *chunk = file->bytes + at;
        at += 12 + ((size_t)chunk[0] << 24 | chunk[1] << 16 | chunk[2] << 8 | chunk[3]);
    }
    return at;
}

/* Makes the image and takes its parts of the device memory. */
static void prepare(const struct spec *spec, struct encoded *encoded)
{
    struct arena *arena = &run.arena;
    memset(encoded, 0, sizeof *encoded);
    encoded->image = make_image(spec);
    encoded->reference = encode_on_cpu(spec, &encoded->image);
    encoded->header_bytes = header_bytes_of(&encoded->reference);
    encoded->header_at = run.headers_bytes;
    run.headers_bytes += buffer_align(encoded->header_bytes);
    encoded->capacity =
        png_encode_capacity(spec->width, spec->height, spec->channels, encoded->header_bytes);
    encoded->work_bytes = png_encode_work_bytes(spec->width, spec->height, spec->channels);
    assert_true(encoded->reference.length <= encoded->capacity);
    encoded->pixels_at = arena_take(arena, encoded->image.stride * encoded->image.height);
    encoded->work_at = arena_take(arena, encoded->work_bytes);
    encoded->file_at = arena_take(arena, encoded->capacity);
}

/* The addresses are those in the block of device memory if that is allocated. */
static void fill_image(size_t i)
{
    const struct encoded *encoded = &run.encoded[i];
    uint8_t *device = run.arena.device;
    run.images[i] = (struct png_encode_image){
        .source = encoded->image,
        .header = run.headers + encoded->header_at,
        .header_bytes = encoded->header_bytes,
        .work = device + encoded->work_at,
        .file = device + encoded->file_at,
        .capacity = encoded->capacity,
        .file_bytes = (uint32_t *)(device + run.lengths_at) + i,
    };
    run.images[i].source.pixels = device + encoded->pixels_at;
    memcpy(run.headers + encoded->header_at, encoded->reference.bytes, encoded->header_bytes);
    if (run.arena.before)
        memcpy(run.arena.before + encoded->pixels_at, encoded->image.pixels,
               encoded->image.stride * encoded->image.height);
}

static void expect_file(size_t i)
{
    const struct spec *spec = &run.specs[i];
    const struct encoded *encoded = &run.encoded[i];
    const struct picture_file *want = &encoded->reference;
    const uint8_t *file = run.arena.after + encoded->file_at;
    uint32_t length = ((const uint32_t *)(run.arena.after + run.lengths_at))[i];
    size_t same = 0;
    while (same < length && same < want->length && file[same] == want->bytes[same])
        same++;
    if (same < want->length || length != want->length)
        fail_msg("%u x %u x %u, pattern %d: %u bytes, the CPU has %zu; the first %zu are the same "
                 "(header %zu)",
                 spec->width, spec->height, spec->channels, (int)spec->pattern, length,
                 want->length, same, encoded->header_bytes);
    arena_allow(&run.arena, encoded->file_at, length);
    arena_allow(&run.arena, encoded->work_at, encoded->work_bytes);
}

static void expect_rest_untouched(void)
{
    arena_allow(&run.arena, run.description_at, run.description_bytes);
    arena_allow(&run.arena, run.lengths_at, run.count * sizeof(uint32_t));
    arena_check_rest(&run.arena);
}

/* Encodes the images in one launch, `launches` times, and compares the files. */
static void encode(const struct spec *specs, size_t count, int launches)
{
    assert_true(count <= BATCH_MAX);
    run.specs = specs;
    run.count = count;
    run.headers_bytes = 0;
    run.arena = (struct arena){.bytes = ARENA_GUARD};
    for (size_t i = 0; i < count; i++)
        prepare(&specs[i], &run.encoded[i]);
    check(cudaHostAlloc((void **)&run.headers, run.headers_bytes, cudaHostAllocPortable));
    run.lengths_at = arena_take(&run.arena, count * sizeof(uint32_t));
    for (size_t i = 0; i < count; i++)
        fill_image(i);
    run.description_bytes = png_encode_describe(run.images, (uint32_t)count, NULL, 0, &run.batch);
    run.description_at = arena_take(&run.arena, run.description_bytes);
    arena_open(&run.arena);
    for (size_t i = 0; i < count; i++)
        fill_image(i);
    assert_int_equal(png_encode_describe(run.images, (uint32_t)count,
                                         run.arena.before + run.description_at,
                                         run.description_bytes, &run.batch),
                     run.description_bytes);
    arena_upload(&run.arena, stream);
    for (int i = 0; i < launches; i++)
        check((cudaError_t)png_encode_launch(&run.batch, run.arena.device + run.description_at,
                                             stream));
    arena_download(&run.arena, stream);
    for (size_t i = 0; i < count; i++)
        expect_file(i);
    expect_rest_untouched();
    for (size_t i = 0; i < count; i++) {
        free(run.encoded[i].image.pixels);
        picture_free(&run.encoded[i].reference);
    }
    check(cudaFreeHost(run.headers));
    arena_close(&run.arena);
}

/* ---- lists of images ---- */

static struct spec list[BATCH_MAX];
static size_t listed;

static void flush(void)
{
    if (listed > 0)
        encode(list, listed, 1);
    listed = 0;
}

static struct spec *add(uint32_t width, uint32_t height, uint32_t channels, enum pattern pattern)
{
    if (listed == BATCH_MAX)
        flush();
    list[listed] =
        (struct spec){.width = width, .height = height, .channels = channels, .pattern = pattern};
    return &list[listed++];
}

static void need_device(void)
{
    if (no_device) {
        print_message("no CUDA device\n");
        skip();
    }
    listed = 0;
}

static const uint32_t channel_counts[] = {1, 3, 4};

/* ---- tests ---- */

TEST(small_images)
{
    need_device();
    uint32_t number = 0, most = full ? 70 : 35;
    for (uint32_t width = 1; width <= most; width++)
        for (int c = 0; c < 3; c++, number++)
            add(width, 1 + number % 11, channel_counts[c], (enum pattern)(number % PATTERNS));
    for (uint32_t height = 1; height < 30; height += full ? 1 : 9)
        for (int c = 0; c < 3; c++, number++)
            add(1, height * height, channel_counts[c], (enum pattern)(number % PATTERNS));
    flush();
}

/* On the host, each pattern with one number of channels. */
TEST(every_pattern)
{
    need_device();
    static const uint32_t sizes[][2] = {{150, 130}, {1000, 40}, {33, 700}, {16384, 9}};
    for (size_t size = 0; size < (full ? COUNT_OF(sizes) : 1); size++)
        for (int pattern = 0; pattern < PATTERNS; pattern++)
            for (int c = 0; c < 3; c++)
                if (full || (pattern + c) % 3 == 0)
                    add(sizes[size][0], sizes[size][1], channel_counts[c], (enum pattern)pattern);
    flush();
}

/* Tiles of one row, of a row and a byte, and of a part of a row. */
TEST(rows_around_a_tile)
{
    need_device();
    static const uint32_t widths[][2] = {{32767, 1}, {32768, 1}, {16383, 1}, {8191, 4},
                                         {8192, 4},  {10922, 3}, {10923, 3}, {65500, 1},
                                         {65500, 4}, {16384, 3}, {21845, 3}, {10923, 4}};
    static const enum pattern patterns[] = {NOISE, RUNS, SCENE, FLAT, SHORT_RUNS};
    for (size_t i = 0; i < COUNT_OF(widths); i++)
        for (size_t pattern = 0; pattern < COUNT_OF(patterns); pattern++)
            if (full || (i + pattern) % COUNT_OF(patterns) == 0)
                add(widths[i][0], full ? 5 : 2, widths[i][1], patterns[pattern]);
    flush();
}

/* Blocks of several tiles, of groups of tiles, and stored ones at any bit. */
TEST(blocks_of_every_kind)
{
    need_device();
    add(333, full ? 900 : 250, 3, MIXED);
    add(777, full ? 900 : 250, 1, MIXED);
    add(500, 300, 1, FLAT);
    add(400, 300, 1, SHORT_RUNS);
    if (full) {
        add(3000, 3000, 1, FLAT);
        add(1000, 1500, 4, FLAT);
        add(2000, 3000, 1, EDGES);
        add(3000, 3000, 3, RUNS);
    }
    flush();
}

/* Streams of a whole chunk, and of one byte more or less. */
TEST(whole_chunks)
{
    need_device();
    for (uint32_t width = 8180; width < 8196; width += width == 8188 ? 1 : full ? 1 : 9)
        add(width, 8, 1, NOISE);
    size_t whole = 0;
    for (size_t i = 0; i < listed; i++) {
        struct image image = make_image(&list[i]);
        struct picture_file file = encode_on_cpu(&list[i], &image);
        const uint8_t *chunk = file.bytes + header_bytes_of(&file);
        whole +=
            memcmp(chunk, "\0\1\0\0", 4) == 0 && memcmp(chunk + 12 + 65536 + 4, "IEND", 4) == 0;
        picture_free(&file);
        free(image.pixels);
    }
    assert_true(whole > 0);
    flush();
}

/* Blocks that are as long as they can be, and codes that must be made shorter. */
TEST(limits_of_blocks_and_codes)
{
    need_device();
    for (uint32_t rows = 16385; rows <= 16387; rows++)
        add(1, rows, 1, HELD);
    add(1, 65500, 1, HELD);
    add(1, 16384, 1, FIBONACCI);
    add(1, 12000, 1, FIBONACCI);
    flush();
}

TEST(long_headers)
{
    need_device();
    add(50, 40, 3, SCENE)->icc_bytes = 132;
    add(50, 40, 3, SCENE)->xmp_bytes = 65536 - 100;
    add(50, 40, 4, SCENE)->xmp_bytes = 65537;
    add(50, 40, 1, NOISE)->xmp_bytes = 200001;
    add(50, 40, 1, NOISE);
    flush();
}

TEST(a_description_can_be_launched_again)
{
    need_device();
    for (int c = 0; c < 3; c++)
        add(123, 45, channel_counts[c], c == 0 ? NOISE : SCENE);
    encode(list, listed, 3);
}

static bool is_refused(const struct png_encode_image *image)
{
    struct png_encode_batch batch;
    return png_encode_describe(image, 1, NULL, 0, &batch) == SIZE_MAX;
}

TEST(other_images_are_refused)
{
    uint8_t *aligned = (uint8_t *)4096;
    const struct png_encode_image good = {
        {aligned, 10, 10, 3, 32},          aligned,         4, aligned, aligned,
        png_encode_capacity(10, 10, 3, 4), (uint32_t *)4096};
    assert_false(is_refused(&good));
    static const uint32_t bad[][3] = {{10, 10, 2}, {10, 10, 5}, {0, 10, 3},
                                      {10, 0, 3},  {11, 10, 3}, {10, 65501, 3}};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct png_encode_image image = good;
        image.source.width = bad[i][0];
        image.source.height = bad[i][1];
        image.source.channels = bad[i][2];
        image.capacity = 1 << 20;
        assert_true(is_refused(&image));
    }
    struct png_encode_image image = good;
    image.source.pixels++;
    assert_true(is_refused(&image));
    image = good;
    image.file++;
    assert_true(is_refused(&image));
    image = good;
    image.work += 16;
    assert_true(is_refused(&image));
    image = good;
    image.header++;
    assert_true(is_refused(&image));
    image = good;
    image.capacity--;
    assert_true(is_refused(&image));
    image = good;
    image.source.stride++;
    assert_true(is_refused(&image));
}

/* Whether a byte of each word has the value that the definition gives. */
static void check_four(const uint8_t bytes[4], const uint8_t left[4], const uint8_t up[4],
                       const uint8_t corner[4])
{
    struct neighbours of;
    memcpy(&of.bytes, bytes, 4);
    memcpy(&of.left, left, 4);
    memcpy(&of.up, up, 4);
    memcpy(&of.corner, corner, 4);
    for (int filter = 0; filter < PNG_FILTERS; filter++) {
        uint32_t word = residuals4(filter, &of), cost = 0;
        for (int i = 0; i < 4; i++) {
            uint8_t residual = png_residual(filter, bytes[i], left[i], up[i], corner[i]);
            assert_int_equal(word >> 8 * i & 255, residual);
            for (int size = abs((int8_t)residual); size > 0; size /= 2)
                cost++;
        }
        assert_int_equal(cost4(word), cost);
    }
}

TEST(filters_of_four_bytes)
{
    uint32_t random = 7;
    uint8_t bytes[4][4];
    for (int round = 0; round < 200000; round++) {
        uint32_t mask = round % 3 == 0 ? 0xFF : round % 3 == 1 ? 0x81 : 0x03;
        for (int i = 0; i < 16; i++)
            bytes[i / 4][i % 4] = (uint8_t)(picture_random(&random) & mask);
        check_four(bytes[0], bytes[1], bytes[2], bytes[3]);
    }
}

TEST(powers_of_checksums)
{
    const uint32_t x = CRC_ONE >> 1;
    uint32_t power = CRC_ONE;
    for (uint32_t bytes = 0; bytes < 5000; bytes++) {
        assert_int_equal(crc_power(bytes), power);
        for (int bit = 0; bit < 8; bit++)
            power = crc_multiply(power, x);
    }
}

TEST(lengths_of_matches)
{
    for (uint32_t length = 3; length <= PNG_MATCH_MAX; length++) {
        uint32_t bits, value, want_bits, want_value;
        assert_int_equal(length_symbol(length, &bits, &value),
                         png_length_symbol(length, &want_bits, &want_value));
        assert_int_equal(bits, want_bits);
        assert_int_equal(value, want_value);
    }
}

/* Files of up to 4 GiB, and memory for any row. */
TEST(sizes)
{
    assert_int_equal(png_encode_capacity(65500, 65500, 3, 33), 0);
    assert_int_equal(png_encode_capacity(100, 100, 3, SIZE_MAX), 0);
    assert_int_equal(png_encode_capacity(UINT32_MAX, UINT32_MAX, 4, 0), 0);
    assert_true(png_encode_capacity(65500, 65500, 1, 33) > 0);
    for (int c = 0; c < 3; c++) {
        size_t pixels = (size_t)1000 * 1000 * channel_counts[c];
        size_t work = png_encode_work_bytes(1000, 1000, channel_counts[c]);
        assert_true(work < pixels * 5 / 2);
        for (uint32_t width = 8000; width <= 65500; width += 7) {
            work = png_encode_work_bytes(width, 100, channel_counts[c]);
            assert_true(work < (size_t)width * 100 * channel_counts[c] * 5 / 2);
        }
        assert_true(png_encode_capacity(1000, 1000, channel_counts[c], 100) < pixels * 102 / 100);
    }
}

static int setup(void **state)
{
    int devices = 0;
    full = ON_DEVICE && !test_quick();
    no_device = cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0;
    if (!no_device)
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return rig_setup(state);
}

static int teardown(void **state)
{
    if (!no_device)
        check(cudaStreamDestroy(stream));
    return rig_teardown(state);
}

TEST_MAIN(.name = "png_encode", .setup = setup, .teardown = teardown)
