/*
 * test_png_decode.c - the decoder of PNG files on a device, against libpng.
 *
 * Runs on the host's implementation of the kernels' subset of CUDA C, and on a device.
 */
#include "tests/cuda/png_decode_rig.h"
#include "tests/fixtures/gpu/gpu_run.h"
#include "tests/fixtures/png_rig.h"
#include "tests/fixtures/test.h"

#define BATCH_MAX 96

static cudaStream_t stream;

static int begin(void **state)
{
    int count = 0;
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0)
        return 0;
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return 0;
}

static void need_device(void)
{
    if (!stream) {
        print_message("no CUDA device\n");
        skip();
    }
}

/* ---- pixels ---- */

enum pattern { SCENE, PHOTOGRAPH, NOISE, DRAWING, FLAT, STRIPES, TEXTURE, PATTERNS };

static uint8_t sample(enum pattern pattern, uint32_t x, uint32_t y, uint32_t c, uint32_t random)
{
    switch (pattern) {
    case PHOTOGRAPH: /* slopes, with noise of some bits */
        return (uint8_t)((x * (2 + c) + y * 3) / 4 + (random >> 16) % 9 + (random >> 20) % 5);
    case NOISE:
        return (uint8_t)(random >> 16);
    case DRAWING:
        return x / 13 % 4 == 0 && y / 9 % 3 == 0 ? (uint8_t)(40 * c) : y % 31 == 5 ? 10 : 250;
    case STRIPES:
        return (uint8_t)(x % 7 * 30 + c);
    case TEXTURE: /* a tile of 40 x 25 pixels, some of which change */
        return (uint8_t)(random >> 16) % 64 == 0
                   ? (uint8_t)(random >> 8)
                   : (uint8_t)((x % 40 * 97 + y % 25 * 193 + c * 31) * 2654435761u >> 20);
    default:
        return 90;
    }
}

static struct image make_pixels(uint32_t width, uint32_t height, uint32_t channels,
                                enum pattern pattern)
{
    struct image image = {.width = width,
                          .height = height,
                          .channels = channels,
                          .stride = image_stride(width, channels)};
    uint32_t random = width * 131 + height * 7 + channels;
    image.pixels = calloc(height, image.stride);
    if (pattern == SCENE) {
        picture_fill(image.pixels, image.stride, width, height, channels, random);
        return image;
    }
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < channels; c++)
                image.pixels[y * image.stride + x * channels + c] =
                    sample(pattern, x, y, c, picture_random(&random));
    return image;
}

/* ---- files ---- */

struct encoding {
    int level, strategy, memory, filters;
};

static void append(png_structp png, png_bytep bytes, size_t count)
{
    struct picture_file *file = png_get_io_ptr(png);
    file->bytes = realloc(file->bytes, file->length + count);
    memcpy(file->bytes + file->length, bytes, count);
    file->length += count;
}

static void flush(png_structp png)
{
}

static struct picture_file write_png(const struct image *image, struct encoding as)
{
    static const int types[] = {0, 0, 0, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
    struct picture_file file = {NULL, 0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, &file, append, flush);
    png_set_compression_level(png, as.level);
    png_set_compression_strategy(png, as.strategy);
    png_set_compression_mem_level(png, as.memory ? as.memory : 8);
    png_set_filter(png, PNG_FILTER_TYPE_BASE, as.filters);
    png_set_IHDR(png, info, image->width, image->height, 8, types[image->channels],
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (uint32_t y = 0; y < image->height; y++)
        png_write_row(png, image->pixels + y * image->stride);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return file;
}

static void put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void add_chunk(struct picture_file *file, const char *type, const uint8_t *data,
                      size_t count)
{
    uint8_t *to = file->bytes + file->length;
    put_u32(to, (uint32_t)count);
    memcpy(to + 4, type, 4);
    if (count > 0)
        memcpy(to + 8, data, count);
    put_u32(to + 8 + count, (uint32_t)crc32(0, to + 4, (uInt)(4 + count)));
    file->length += PNG_CHUNK_OVERHEAD + count;
}

/* The file with its data in other IDAT chunks: of `size` bytes, after `empty` empty ones each.
 * Takes over the file. after: the type of a chunk after them, or NULL. */
static struct picture_file rechunk(struct picture_file file, size_t size, int empty,
                                   const char *after)
{
    struct png_frame frame;
    assert_true(png_read_frame(file.bytes, file.length, &frame));
    uint8_t *data = malloc(file.length);
    size_t count = 0;
    for (size_t at = frame.idat_at; memcmp(file.bytes + at + 4, "IDAT", 4) == 0;) {
        size_t bytes = codec_u32(file.bytes + at);
        memcpy(data + count, file.bytes + at + 8, bytes);
        count += bytes;
        at += PNG_CHUNK_OVERHEAD + bytes;
    }
    size_t chunks = (count / size + 2) * (size_t)(1 + empty) + 4;
    struct picture_file result = {malloc(frame.idat_at + count + chunks * PNG_CHUNK_OVERHEAD + 64),
                                  frame.idat_at};
    memcpy(result.bytes, file.bytes, frame.idat_at);
    for (size_t at = 0; at < count; at += size) {
        for (int i = 0; i < empty; i++)
            add_chunk(&result, "IDAT", NULL, 0);
        add_chunk(&result, "IDAT", data + at, count - at < size ? count - at : size);
    }
    if (after)
        add_chunk(&result, after, (const uint8_t *)"some data", 9);
    add_chunk(&result, "IEND", NULL, 0);
    free(data);
    picture_free(&file);
    return result;
}

/* ---- batches ---- */

static struct {
    struct rig_image images[BATCH_MAX];
    size_t count;
    size_t done, declined, refused; /* of the test so far; refused: by libpng, of `declined` */
} batch;

enum expectation { DECODED, DECODED_OR_DECLINED };

static void run_batch(enum expectation expected)
{
    struct rig_batch run;
    if (batch.count == 0)
        return;
    rig_begin(&run, batch.images, batch.count);
    rig_launch(&run, stream);
    bool intact = rig_fetch(&run, stream);
    for (size_t i = 0; i < batch.count; i++) {
        const struct rig_image *image = &batch.images[i];
        size_t wrong = rig_differences(&run, image);
        bool done = image->verdict == PNG_DECODE_DONE;
        batch.done += done;
        batch.declined += !done;
        batch.refused += !done && wrong == SIZE_MAX;
        if (done ? wrong > 0 : expected == DECODED)
            fail_msg("%u x %u, %u channels, %zu bytes: verdict %u, %zu bytes differ",
                     image->frame.width, image->frame.height, image->frame.channels,
                     image->file.length, image->verdict, wrong);
    }
    assert_true(intact);
    rig_end(&run);
    for (size_t i = 0; i < batch.count; i++)
        picture_free(&batch.images[i].file);
    batch.count = 0;
}

/* Damage can make the sides of a header huge. */
#define PIXELS_MAX (1u << 22)

/* Takes over the file. Returns false if it is not one for the device. */
static bool add_file(struct picture_file file, enum expectation expected)
{
    struct rig_image *image = &batch.images[batch.count];
    memset(image, 0, sizeof *image);
    if (!png_read_frame(file.bytes, file.length, &image->frame) ||
        (uint64_t)image->frame.width * image->frame.height > PIXELS_MAX ||
        png_decode_work_bytes(&image->frame, file.length) == 0) {
        picture_free(&file);
        return false;
    }
    image->file = file;
    if (++batch.count == BATCH_MAX)
        run_batch(expected);
    return true;
}

static void add(uint32_t width, uint32_t height, uint32_t channels, enum pattern pattern,
                struct encoding as)
{
    struct image image = make_pixels(width, height, channels, pattern);
    assert_true(add_file(write_png(&image, as), DECODED));
    free(image.pixels);
}

static const uint32_t all_channels[] = {1, 3, 4};
static const struct encoding usual = {6, Z_FILTERED, 8, PNG_ALL_FILTERS};

/* ---- tests ---- */

TEST(images_of_all_settings_equal_libpngs)
{
    static const int filters[] = {PNG_FILTER_NONE, PNG_FILTER_SUB,   PNG_FILTER_UP,
                                  PNG_FILTER_AVG,  PNG_FILTER_PAETH, PNG_ALL_FILTERS};
    static const int levels[] = {0, 1, 6, 9}, strategies[] = {Z_DEFAULT_STRATEGY, Z_FILTERED,
                                                              Z_HUFFMAN_ONLY, Z_RLE, Z_FIXED};
    need_device();
    uint32_t i = 0;
    for (size_t filter = 0; filter < COUNT_OF(filters); filter++)
        for (size_t level = 0; level < COUNT_OF(levels); level++)
            for (size_t s = 0; s < (level == 0 ? 1 : COUNT_OF(strategies)); s++, i++)
                add(50 + i % 41, 20 + i % 13, all_channels[i % 3], i % PATTERNS,
                    (struct encoding){levels[level], strategies[s], 8, filters[filter]});
    run_batch(DECODED);
}

TEST(images_of_all_sizes_equal_libpngs)
{
    need_device();
    uint32_t i = 0;
    for (uint32_t width = 1; width <= 40; width += width < 9 ? 1 : 5)
        for (uint32_t height = 1; height <= 40; height += height < 3 ? 1 : 12)
            for (size_t c = 0; c < 3; c++)
                add(width, height, all_channels[c], i++ % PATTERNS, usual);
    /* Around the padding of rows, and around the warps of a band. */
    for (size_t c = 0; c < 3; c++)
        for (int more = -1; more <= 1; more++) {
            add((uint32_t)(32 + more), 70, all_channels[c], PHOTOGRAPH, usual);
            add((uint32_t)(64 / all_channels[c]) + (uint32_t)(1 + more), 33, all_channels[c],
                PHOTOGRAPH, usual);
            add(9, (uint32_t)(256 + more), all_channels[c], PHOTOGRAPH, usual);
        }
    add(1, 1500, 3, PHOTOGRAPH, usual);
    add(5000, 1, 4, PHOTOGRAPH, usual);
    run_batch(DECODED);
}

TEST(images_of_many_windows_equal_libpngs)
{
    need_device();
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        struct image image =
            make_pixels(280, 310, all_channels[pattern % 3], (enum pattern)pattern);
        assert_true(add_file(write_png(&image, usual), DECODED));
        assert_true(add_file(
            write_png(&image, (struct encoding){9, Z_DEFAULT_STRATEGY, 9, PNG_FILTER_NONE}),
            DECODED));
        assert_true(
            add_file(write_png(&image, (struct encoding){1, Z_RLE, 8, PNG_FILTER_UP}), DECODED));
        assert_true(add_file(png_rig_write(&image, NULL), DECODED));
        free(image.pixels);
    }
    run_batch(DECODED);
}

TEST(flat_images_equal_libpngs)
{
    need_device();
    for (size_t c = 0; c < 3; c++) {
        struct image image = make_pixels(900, 400, all_channels[c], FLAT);
        assert_true(add_file(write_png(&image, usual), DECODED));
        assert_true(
            add_file(write_png(&image, (struct encoding){0, 0, 8, PNG_FILTER_NONE}), DECODED));
        assert_true(
            add_file(write_png(&image, (struct encoding){9, Z_FIXED, 8, PNG_FILTER_SUB}), DECODED));
        assert_true(add_file(png_rig_write(&image, NULL), DECODED));
        free(image.pixels);
    }
    run_batch(DECODED);
}

/* With little memory, zlib writes a block per 128 symbols, or some times as many. */
TEST(streams_of_small_blocks_are_decoded_and_of_very_small_ones_declined)
{
    need_device();
    struct image image = make_pixels(180, 150, 3, PHOTOGRAPH);
    for (int memory = 4; memory <= 6; memory++)
        assert_true(add_file(
            write_png(&image, (struct encoding){6, Z_FILTERED, memory, PNG_ALL_FILTERS}), DECODED));
    run_batch(DECODED);
    batch.declined = 0;
    assert_true(add_file(write_png(&image, (struct encoding){6, Z_FILTERED, 1, PNG_ALL_FILTERS}),
                         DECODED_OR_DECLINED));
    run_batch(DECODED_OR_DECLINED);
    assert_int_equal(batch.declined, 1);
    free(image.pixels);
}

/* Many chunks of few bytes would take long. */
TEST(files_of_very_small_chunks_are_declined)
{
    need_device();
    batch.declined = 0;
    struct image image = make_pixels(90, 40, 1, NOISE);
    assert_true(add_file(rechunk(write_png(&image, usual), 1, 0, NULL), DECODED_OR_DECLINED));
    run_batch(DECODED_OR_DECLINED);
    assert_int_equal(batch.declined, 1);
    free(image.pixels);
}

TEST(chunks_of_all_sizes_are_joined)
{
    static const size_t sizes[] = {1, 2, 3, 7, 100, 1000, 8192, 32768, 1 << 20};
    need_device();
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (int empty = 0; empty < 3; empty++) {
            uint32_t side = sizes[i] < 100 ? 9 : sizes[i] < 1000 ? 60 : 220;
            struct image image = make_pixels(side, side, 3, i % 2 ? PHOTOGRAPH : NOISE);
            const char *after = empty == 1 ? "teSt" : NULL;
            assert_true(
                add_file(rechunk(write_png(&image, usual), sizes[i], empty, after), DECODED));
            free(image.pixels);
        }
    run_batch(DECODED);
}

TEST(unusual_chunks_after_the_pixels_are_declined)
{
    static const char *const types[] = {"tRNS", "PLTE", "IDAT", "test", "te t", "IHDR"};
    need_device();
    batch.done = 0;
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        struct image image = make_pixels(13, 13, 3, SCENE);
        assert_true(
            add_file(rechunk(write_png(&image, usual), 50, 0, types[i]), DECODED_OR_DECLINED));
        free(image.pixels);
    }
    run_batch(DECODED_OR_DECLINED);
    assert_int_equal(batch.done, 0);
}

TEST(frames_out_of_range_need_no_work_memory)
{
    const struct png_frame frame = {100, 100, 3, 33};
    struct png_frame other = frame;
    assert_true(png_decode_work_bytes(&frame, 1000) > 100 * 301);
    assert_int_equal(png_decode_work_bytes(&frame, 40), 0);
    assert_int_equal(png_decode_work_bytes(&frame, (size_t)PNG_DECODE_FILE_BYTES_MAX + 1), 0);
    other.idat_at = 990;
    assert_int_equal(png_decode_work_bytes(&other, 1000), 0);
    other = frame;
    other.width = other.height = SIDE_CEILING;
    assert_int_equal(png_decode_work_bytes(&other, 1000), 0);
    other = (struct png_frame){16383, PNG_DECODE_ROW_BYTES_MAX / 16384, 1, 33};
    assert_true(png_decode_work_bytes(&other, 1000) > PNG_DECODE_ROW_BYTES_MAX);
    other.height++;
    assert_int_equal(png_decode_work_bytes(&other, 1000), 0);
}

/* ---- damage ---- */

static struct picture_file copy_of(const struct picture_file *file)
{
    struct picture_file copy = {malloc(file->length + 16), file->length};
    memcpy(copy.bytes, file->bytes, file->length);
    return copy;
}

/* Corrects the CRCs of all IDAT chunks, so that damage reaches the stream. */
static void seal(struct picture_file *file)
{
    for (size_t at = 33; at + PNG_CHUNK_OVERHEAD < file->length;) {
        size_t count = codec_u32(file->bytes + at);
        if (count > file->length - at - PNG_CHUNK_OVERHEAD)
            return;
        put_u32(file->bytes + at + 8 + count,
                (uint32_t)crc32(0, file->bytes + at + 4, (uInt)(4 + count)));
        at += PNG_CHUNK_OVERHEAD + count;
    }
}

static void expect_most_declined(void)
{
    run_batch(DECODED_OR_DECLINED);
    print_message("%zu decoded, %zu declined, of which libpng refuses %zu\n", batch.done,
                  batch.declined, batch.refused);
    assert_true(batch.declined > 0);
    batch.done = batch.declined = batch.refused = 0;
}

TEST(each_damaged_byte_is_declined_or_harmless)
{
    need_device();
    batch.done = batch.declined = batch.refused = 0;
    struct image image = make_pixels(11, 9, 3, TEXTURE);
    struct picture_file file = rechunk(write_png(&image, usual), 120, 0, "teSt");
    uint32_t random = 3;
    for (size_t at = 8; at < file.length; at++)
        for (int sealed = 0; sealed < 2; sealed++) {
            struct picture_file copy = copy_of(&file);
            copy.bytes[at] ^= (uint8_t)(1 + picture_random(&random) % 255);
            if (sealed)
                seal(&copy);
            add_file(copy, DECODED_OR_DECLINED);
        }
    expect_most_declined();
    for (size_t length = 0; length < file.length; length += 3) {
        struct picture_file copy = copy_of(&file);
        copy.length = length;
        add_file(copy, DECODED_OR_DECLINED);
    }
    run_batch(DECODED_OR_DECLINED);
    assert_int_equal(batch.done, 0);
    free(image.pixels);
    picture_free(&file);
}

/* Damage of the stream in files whose CRCs are right, also of stored and fixed blocks. */
TEST(damaged_streams_are_declined)
{
    static const struct encoding as[] = {{0, 0, 8, PNG_FILTER_NONE},
                                         {6, Z_FIXED, 8, PNG_FILTER_SUB},
                                         {6, Z_DEFAULT_STRATEGY, 8, PNG_FILTER_NONE},
                                         {9, Z_FILTERED, 1, PNG_ALL_FILTERS}};
    need_device();
    batch.done = batch.declined = batch.refused = 0;
    uint32_t random = 77;
    for (int i = 0; i < (test_quick() ? 40 : 300); i++) {
        struct image image = make_pixels(30 + (uint32_t)i % 50, 25, all_channels[i % 3],
                                         (enum pattern)(i / 4 % PATTERNS));
        struct picture_file file = write_png(&image, as[i % 4]);
        size_t at = 41 + picture_random(&random) % (file.length - 41 - 16);
        file.bytes[at] ^= (uint8_t)(1 << picture_random(&random) % 8);
        seal(&file);
        add_file(file, DECODED_OR_DECLINED);
        free(image.pixels);
    }
    expect_most_declined();
}

/* Random bits after the header of a fixed block, a run of tiny blocks, and zeros. */
TEST(hostile_streams_are_declined)
{
    enum { bytes = 20000 };
    need_device();
    batch.done = batch.declined = batch.refused = 0;
    uint32_t random = 5;
    for (int i = 0; i < 12; i++) {
        struct image image = make_pixels(200, 150, 3, FLAT);
        struct picture_file file = write_png(&image, usual);
        uint8_t *data = malloc(bytes);
        for (size_t k = 0; k < bytes; k++)
            data[k] = i % 4 == 0   ? (uint8_t)(picture_random(&random) >> 16)
                      : i % 4 == 1 ? 0
                      : i % 4 == 2 ? (uint8_t)(0x2A << i / 4)
                                   : (uint8_t)(i * 37);
        data[0] = 0x78;
        data[1] = 0x9C;
        if (i % 4 == 1) /* empty fixed blocks: 3 bits and an end of 7 bits */
            for (size_t k = 2; k + 5 <= bytes; k += 5)
                memcpy(data + k, "\x02\x08\x20\x80\x00", 5);
        data[2] = i % 4 == 0 ? (data[2] & 0xF8) | 2 : data[2];
        file.bytes = realloc(file.bytes, 33 + bytes + 64);
        file.length = 33;
        add_chunk(&file, "IDAT", data, bytes);
        add_chunk(&file, "IEND", NULL, 0);
        add_file(file, DECODED_OR_DECLINED);
        free(data);
        free(image.pixels);
    }
    expect_most_declined();
}

TEST_MAIN(.setup = begin)
