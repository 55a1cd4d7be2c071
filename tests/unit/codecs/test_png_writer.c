/* Tests of the own PNG encoder: with libpng and zlib, which read its files, and with images whose
 * files must have certain sizes. */
#include "tests/fixtures/test.h"

#include <zlib.h>

#include "codecs/png/png_writer.h"
#include "tests/fixtures/codec_rig.h"
#include "tests/fixtures/png_rig.h"

/* ---- images ---- */

enum kind { NOISE, FEW, WALK, GRADIENT, RUNS, DRAWING, FLAT, SCENE, KINDS };

/* What the next byte of a picture depends on. */
struct brush {
    uint32_t random, amount, longest, left;
    uint8_t value;
};

static uint32_t below(struct brush *brush, uint32_t bound)
{
    return picture_random(&brush->random) % bound;
}

static uint8_t next_byte(struct brush *brush, enum kind kind, size_t x, uint32_t y)
{
    switch (kind) {
    case NOISE:
        return (uint8_t)picture_random(&brush->random);
    case FEW:
        return (uint8_t)(below(brush, brush->amount + 1) * 17);
    case WALK:
        return brush->value += (uint8_t)(below(brush, 2 * brush->amount + 1) - brush->amount);
    case GRADIENT:
        return (uint8_t)(x / brush->amount + y / 3);
    case RUNS:
        if (brush->left-- == 0) {
            brush->value = (uint8_t)below(brush, brush->amount + 1);
            brush->left = below(brush, brush->longest);
        }
        return brush->value;
    default:
        return brush->value;
    }
}

/* Rectangles over a flat image. */
static void draw(const struct image *image, struct brush *brush)
{
    size_t row = (size_t)image->width * image->channels;
    for (uint32_t i = 0; i < brush->amount * 3; i++) {
        size_t x = below(brush, (uint32_t)row), width = 1 + below(brush, (uint32_t)(row - x));
        uint32_t y = below(brush, image->height), height = 1 + below(brush, image->height - y);
        uint8_t value = (uint8_t)below(brush, 256);
        for (uint32_t line = y; line < y + height; line++)
            memset(image->pixels + line * image->stride + x, value, width);
    }
}

/* The rows have exactly their pixels and 5 guard bytes, so that a sanitizer sees wrong reads. */
static struct image make_image(uint32_t width, uint32_t height, uint32_t channels, enum kind kind,
                               uint32_t seed)
{
    size_t row = (size_t)width * channels;
    struct image image = {
        .width = width, .height = height, .channels = channels, .stride = row + 5};
    image.pixels = malloc(image.stride * (height - 1) + row);
    assert_non_null(image.pixels);
    struct brush brush = {.random = seed * 2654435761u + 1};
    brush.amount = 1 + below(&brush, 12);
    brush.longest = 1 + below(&brush, below(&brush, 2) != 0 ? 20 : 1500);
    brush.value = (uint8_t)below(&brush, 256);
    for (uint32_t y = 0; y < height; y++)
        for (size_t x = 0; x < row + (y + 1 < height ? 5 : 0); x++)
            image.pixels[y * image.stride + x] =
                x < row ? next_byte(&brush, kind, x, y) : (uint8_t)(0xA5 + y);
    if (kind == DRAWING)
        draw(&image, &brush);
    if (kind == SCENE)
        for (uint32_t y = 0; y < height; y++)
            for (size_t x = 0; x < row; x++)
                image.pixels[y * image.stride + x] =
                    (uint8_t)(picture_sample(seed, width, height, (uint32_t)(x / channels), y,
                                             (uint32_t)(x % channels)) >>
                              8);
    return image;
}

/* Writes with all kernels, and reads. Returns the file. */
static struct picture_file write_checked(const struct image *image)
{
    struct picture_file plain = png_rig_write(image, &png_kernels_plain);
    const char *fault = png_rig_fault(&plain, image);
    if (fault != NULL)
        fail_msg("%u x %u x %u: %s", image->width, image->height, image->channels, fault);
    const struct png_kernels *fast_ones[] = {png_kernels_avx2(), png_kernels_avx512()};
    for (int i = 0; i < 2; i++) {
        if (fast_ones[i] == NULL)
            continue;
        struct picture_file fast = png_rig_write(image, fast_ones[i]);
        if (fast.length != plain.length || memcmp(fast.bytes, plain.bytes, plain.length) != 0)
            fail_msg("%u x %u x %u: %s writes another file", image->width, image->height,
                     image->channels, i == 0 ? "AVX2" : "AVX-512");
        picture_free(&fast);
    }
    return plain;
}

static size_t checked_length(uint32_t width, uint32_t height, uint32_t channels, enum kind kind,
                             uint32_t seed)
{
    struct image image = make_image(width, height, channels, kind, seed);
    struct picture_file file = write_checked(&image);
    size_t length = file.length;
    picture_free(&file);
    free(image.pixels);
    return length;
}

/* ---- what is written ---- */

static const uint32_t channel_counts[] = {1, 3, 4};

TEST(test_widths)
{
    for (uint32_t width = 1; width <= 200; width += width < 80 ? 1 : 7)
        for (int c = 0; c < 3; c++)
            checked_length(width, 1 + width % 9, channel_counts[c], (enum kind)(width % KINDS),
                           width);
}

TEST(test_kinds)
{
    for (uint32_t seed = 1; seed <= 240; seed++) {
        uint32_t random = seed * 77777 + 1;
        uint32_t width = 1 + picture_random(&random) % (seed % 4 == 0 ? 700 : 90);
        uint32_t height = 1 + picture_random(&random) % (seed % 4 == 0 ? 200 : 60);
        checked_length(width, height, channel_counts[seed % 3], (enum kind)(seed / 3 % KINDS),
                       seed);
    }
}

/* Runs that cross rows and tiles, joined blocks, and blocks of every kind in one file. */
TEST(test_extremes)
{
    static const uint32_t sides[][2] = {{1, 1},     {1, 16384}, {16384, 1}, {16384, 9},
                                        {8191, 9},  {10922, 7}, {10923, 7}, {21845, 3},
                                        {32767, 3}, {32768, 3}, {65500, 2}, {500, 700}};
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (int kind = 0; kind < KINDS; kind++)
            checked_length(sides[i][0], sides[i][1], channel_counts[(i + (size_t)kind) % 3],
                           (enum kind)kind, 5);
}

/* Noise with flat parts: stored blocks at any bit, between others. */
TEST(test_mixed_blocks)
{
    for (uint32_t seed = 1; seed <= 6; seed++) {
        struct image image = make_image(333, 900, channel_counts[seed % 3], NOISE, seed);
        size_t row = image.width * (size_t)image.channels;
        uint32_t random = seed;
        for (uint32_t y = 0; y < image.height; y++)
            if (y / (70 + 20 * seed) % 2 == 1)
                memset(image.pixels + y * image.stride, (int)(y / 7), row);
            else if (y / 50 % 3 == 1)
                image.pixels[y * image.stride] = (uint8_t)picture_random(&random);
        struct picture_file file = write_checked(&image);
        picture_free(&file);
        free(image.pixels);
    }
}

/* Noise with short runs, which are matches of stored blocks, also at the ends of tiles. */
TEST(test_runs_in_stored_blocks)
{
    static const uint32_t sides[][2] = {{50000, 4}, {327, 400}};
    for (size_t i = 0; i < COUNT_OF(sides); i++) {
        struct image image = make_image(sides[i][0], sides[i][1], 1, NOISE, 3);
        size_t stream = ((size_t)image.width + 1) * image.height;
        for (uint32_t y = 0; y < image.height; y += image.width < 1000 ? 20 : 1) {
            uint8_t *row = image.pixels + y * image.stride;
            for (size_t x = 100; x + 12 < image.width; x += 8165)
                memset(row + x, row[x], 12);
        }
        struct picture_file file = write_checked(&image);
        assert_true(file.length > stream);
        picture_free(&file);
        free(image.pixels);
    }
}

/* ---- sizes ---- */

/* Stored blocks: 5 bytes for each. A tile has as many rows as fit 32 KiB, or a part of a row. */
TEST(test_size_of_noise)
{
    static const struct {
        uint32_t width, height, channels, tiles;
    } rows[] = {{100, 3, 1, 1},  {327, 400, 1, 5}, {200, 300, 3, 6},
                {999, 64, 4, 8}, {16380, 3, 4, 6}, {40000, 2, 3, 8}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t stream = ((size_t)rows[i].width * rows[i].channels + 1) * rows[i].height;
        size_t zlib = 2 + stream + 5 * rows[i].tiles + 4;
        size_t chunks = (zlib + PNG_CHUNK_BYTES - 1) / PNG_CHUNK_BYTES;
        assert_int_equal(checked_length(rows[i].width, rows[i].height, rows[i].channels, NOISE, 3),
                         33 + zlib + 12 * chunks + 12);
    }
}

/* The memory that is reserved for a file is an upper bound. */
TEST(test_bound)
{
    static const uint32_t sides[] = {1, 2, 30, 8191, 8192, 10923, 16384, 21845, 32768, 65500};
    const struct encoder_settings settings = {.compression = 3};
    for (size_t i = 0; i < COUNT_OF(sides) * COUNT_OF(sides) * 3; i++) {
        uint32_t width = sides[i % COUNT_OF(sides)], height = sides[i / COUNT_OF(sides) / 3];
        uint32_t channels = channel_counts[i / COUNT_OF(sides) % 3];
        assert_true(
            png_writer_most(width, height, channels) + 33 + 12 <=
            codec_encoded_bytes(format_by_name("png"), width, height, channels, &settings, 0));
    }
}

static void expect_no_larger(const struct image *image, const char *name)
{
    struct picture_file own = write_checked(image), zlib = png_rig_write_rle(image);
    if (own.length * 100 > zlib.length * 101)
        fail_msg("%s, %u x %u x %u: %zu bytes, zlib has %zu", name, image->width, image->height,
                 image->channels, own.length, zlib.length);
    picture_free(&own);
    picture_free(&zlib);
}

/* Images with little in them, for which the headers of blocks count. Random values of a small set
 * are left out: no filter suits them, and the choice among filters costs up to a tenth. */
TEST(test_no_larger_than_zlib)
{
    static const uint32_t sides[][2] = {{1000, 1000}, {1154, 866}, {4000, 600}, {16384, 200},
                                        {11000, 300}, {256, 256},  {1, 16000},  {2, 16000},
                                        {3, 9000},    {8, 9000},   {24, 3000}};
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (int c = 0; c < 3; c++) {
            struct image image = make_image(sides[i][0], sides[i][1], channel_counts[c], FLAT, 9);
            expect_no_larger(&image, "flat");
            free(image.pixels);
        }
    for (uint32_t width = 1; width <= 24; width += width < 8 ? 1 : 8)
        for (int i = 0; i < 3 * KINDS; i++) {
            struct image image =
                make_image(width, 3000, channel_counts[i % 3], (enum kind)(i / 3), width);
            if (i / 3 != FEW || width == 1)
                expect_no_larger(&image, "a column");
            free(image.pixels);
        }
}

/* ---- limits of the definition ---- */

/* A column has filter 0, and each row has two bytes of the stream: 0 and the pixel. */
static struct picture_file write_column(const uint8_t *pixels, uint32_t rows)
{
    struct image image = {(uint8_t *)pixels, 1, rows, 1, 1};
    return write_checked(&image);
}

/* The number of IDAT chunks that are full. */
static size_t full_chunks(const struct picture_file *file)
{
    size_t full = 0;
    for (size_t at = 8; at + 12 <= file->length;) {
        const uint8_t *chunk = file->bytes + at;
        size_t count = (size_t)chunk[0] << 24 | chunk[1] << 16 | chunk[2] << 8 | chunk[3];
        full += memcmp(chunk + 4, "IDAT", 4) == 0 && count == PNG_CHUNK_BYTES;
        at += 12 + count;
    }
    return full;
}

/* Two stored tiles of 32,760 bytes have 5 bytes more each, and the zlib stream has 6: a whole
 * chunk, and no other one. */
TEST(test_whole_chunk)
{
    for (uint32_t width = 8188; width <= 8190; width++) {
        struct image image = make_image(width, 8, 1, NOISE, 3);
        struct picture_file file = write_checked(&image);
        assert_int_equal(full_chunks(&file), width >= 8189);
        if (width == 8189)
            assert_int_equal(file.length, 33 + 12 + PNG_CHUNK_BYTES + 12);
        picture_free(&file);
        free(image.pixels);
    }
}

/* A tile of 16,383 tokens, after which come one token, two tokens, or a tile of literals alone: the
 * block takes the first only. */
TEST(test_full_block)
{
    enum { literal_rows = 8159, tile_rows = 16384, rows_max = 65500 };
    static uint8_t pixels[rows_max];
    for (int zeros = 0; zeros <= 2; zeros++) {
        for (uint32_t y = 0; y < rows_max; y++)
            pixels[y] =
                y >= literal_rows && y < tile_rows + (uint32_t)zeros ? 0 : (uint8_t)(1 + y % 200);
        for (uint32_t rows = tile_rows; rows <= tile_rows + 2; rows++) {
            struct picture_file file = write_column(pixels, rows);
            picture_free(&file);
        }
        struct picture_file file = write_column(pixels, rows_max);
        picture_free(&file);
    }
}

/* Counts like those of Fibonacci, with 1 for the end of the block, whose code would have more than
 * 14 bits. */
TEST(test_long_codes)
{
    enum { rows_max = 28000 };
    static uint8_t pixels[rows_max];
    uint32_t y = 0, counts[2] = {1, 2};
    for (uint8_t value = 1; y < rows_max; value++) {
        for (uint32_t i = 0; i < counts[0] && y < rows_max; i++)
            pixels[y++] = value;
        uint32_t sum = counts[0] + counts[1];
        counts[0] = counts[1];
        counts[1] = sum;
    }
    static const uint32_t rows[] = {1596, 2583, 4180, 6764, 10945, 16384, rows_max};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct picture_file file = write_column(pixels, rows[i]);
        picture_free(&file);
    }
}

/* ---- the definition ---- */

/* Files must not change without a reason: GPUs write the same ones. */
TEST(test_same_as_ever)
{
    static const uint32_t crcs[KINDS] = {0xBDD0F010, 0x0EA87C0C, 0x439F205A, 0xB034D5F5,
                                         0x09BEAE44, 0x545C6653, 0x4843C0DF, 0x02CA38EF};
    for (int kind = 0; kind < KINDS; kind++) {
        struct image image = make_image(300, 400, channel_counts[kind % 3], (enum kind)kind, 11);
        struct picture_file file = write_checked(&image);
        uint32_t crc = (uint32_t)crc32(0, file.bytes, (uInt)file.length);
        assert_int_equal(crc, crcs[kind]);
        picture_free(&file);
        free(image.pixels);
    }
}

/* The choice by the definition, a byte at a time. */
static int best_filter(const uint8_t *row, const uint8_t *above, size_t bytes, uint32_t channels)
{
    uint32_t costs[PNG_FILTERS] = {0};
    for (int filter = 0; filter < PNG_FILTERS; filter++)
        for (size_t i = 0; i < bytes; i++) {
            int residual = (int8_t)png_residual(filter, row[i], row[i - channels], above[i],
                                                above[i - channels]);
            for (int size = abs(residual); size > 0; size /= 2)
                costs[filter]++;
        }
    return png_best_filter(costs);
}

static void check_filters(const struct png_kernels *kernels, const uint8_t *row,
                          const uint8_t *above, size_t bytes, uint32_t channels)
{
    uint8_t to[1200 + PNG_PAD];
    assert_int_equal(kernels->choose(row, above, bytes, channels),
                     best_filter(row, above, bytes, channels));
    for (int filter = 0; filter < PNG_FILTERS; filter++) {
        kernels->filter(filter, row, above, bytes, channels, to);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(to[i], png_residual(filter, row[i], row[i - channels], above[i],
                                                 above[i - channels]));
    }
}

/* Rows of which each filter is the best: the sums of a part and of several parts. */
TEST(test_filters)
{
    enum { most = 1200 };
    static uint8_t rows[2][PNG_PAD + most + PNG_PAD];
    uint8_t *row = rows[0] + PNG_PAD, *above = rows[1] + PNG_PAD;
    uint32_t random = 5, seen = 0;
    for (int round = 0; round < 600; round++) {
        uint32_t channels = channel_counts[round % 3], kind = picture_random(&random) % 4;
        size_t bytes = 1 + picture_random(&random) % most;
        for (size_t i = 0; i < bytes; i++) {
            uint8_t noise = picture_random(&random) % 8;
            int left = row[i - channels], corner = above[i - channels];
            above[i] = (uint8_t)(round % 5 == 0 ? (int)picture_random(&random) : corner + noise);
            int like[] = {noise, left + noise, above[i] + noise, (left + above[i]) / 2 + noise};
            row[i] = (uint8_t)(round % 7 == 0 ? (int)picture_random(&random) : like[kind]);
        }
        seen |= 1u << best_filter(row, above, bytes, channels);
        check_filters(&png_kernels_plain, row, above, bytes, channels);
        if (png_kernels_avx2() != NULL)
            check_filters(png_kernels_avx2(), row, above, bytes, channels);
    }
    assert_int_equal(seen, 0x1F);
}

/* Runs of all lengths at all places, also across the 64 bytes that are done at a time, and at the
 * end of a tile. */
TEST(test_tokens)
{
    enum { most = 4000 };
    static const uint32_t run_mins[] = {PNG_RUN_LEAST, 5, 8};
    static uint8_t bytes[PNG_PAD + most + PNG_PAD];
    static uint16_t tokens[2][most + PNG_PAD];
    const struct png_kernels *fast = png_kernels_avx2();
    if (fast == NULL)
        skip();
    uint32_t random = 11;
    for (int round = 0; round < 2000; round++) {
        uint32_t longest = round % 10 == 0 ? 1200 : 2 + picture_random(&random) % 90, repeats[2];
        size_t count = 1 + (picture_random(&random) << 8 | picture_random(&random)) % most;
        for (size_t at = PNG_PAD - 1; at < sizeof bytes;) {
            size_t run = 1 + (picture_random(&random) << 8 | picture_random(&random)) % longest;
            run = picture_random(&random) % 3 == 0 ? run : 1;
            run = run < sizeof bytes - at ? run : sizeof bytes - at;
            memset(bytes + at, (int)(picture_random(&random) % 4), run);
            at += run;
        }
        uint32_t run_min = run_mins[round % 3];
        size_t expected =
            png_kernels_plain.tokens(bytes + PNG_PAD, count, run_min, tokens[0], &repeats[0]);
        assert_int_equal(fast->tokens(bytes + PNG_PAD, count, run_min, tokens[1], &repeats[1]),
                         expected);
        assert_int_equal(repeats[1], repeats[0]);
        assert_memory_equal(tokens[1], tokens[0], expected * sizeof *tokens[0]);
    }
}

TEST(test_checksums)
{
    const struct png_kernels *fast = png_kernels_avx2();
    if (fast == NULL)
        skip();
    uint32_t random = 3;
    static uint8_t bytes[40000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i < 20000 ? 255 : picture_random(&random));
    for (size_t count = 0; count < sizeof bytes - 16; count += count < 200 ? 1 : 97)
        for (size_t at = 0; at < 16; at += 5) {
            assert_int_equal(fast->crc(7, bytes + at, count),
                             png_kernels_plain.crc(7, bytes + at, count));
            assert_int_equal(fast->adler(0xFFF0FFF0, bytes + at, count),
                             png_kernels_plain.adler(0xFFF0FFF0, bytes + at, count));
        }
}

/* ---- through the codec ---- */

TEST(test_levels, .setup_func = rig_setup, .teardown_func = rig_teardown)
{
    struct image image = make_image(300, 200, 3, SCENE, 4);
    struct picture_file own = png_rig_write(&image, NULL);
    for (int level = 0; level <= 5; level++) {
        struct picture_file file = rig_encode_as(&image, "png", .encoder.compression = level);
        bool is_own = level >= 1 && level <= 3;
        assert_int_equal(is_own, file.length == own.length &&
                                     memcmp(file.bytes, own.bytes, own.length) == 0);
        picture_free(&file);
    }
    picture_free(&own);
    free(image.pixels);
}

TEST(test_failures, .setup_func = rig_setup, .teardown_func = rig_teardown)
{
    struct image image = make_image(900, 700, 3, NOISE, 4);
    struct encode_request request = {.format = format_by_name("png"), .encoder.compression = 2};
    struct rig_sink sink = {.bytes_max = 200000, .silent = true};
    assert_int_equal(rig_encode_into(&rig, &image, &request, 4096, &sink), STATUS_WRITE_FAILED);
    assert_non_null(strstr(rig.error.text, "the PNG could not be written after"));
    picture_free(&sink.file);
    sink = (struct rig_sink){.bytes_max = 0};
    request.deadline_ns = clock_now_ns() + 300000;
    assert_int_equal(rig_encode_into(&rig, &image, &request, 4096, &sink), STATUS_TIMEOUT);
    assert_non_null(strstr(rig.error.text, "the deadline for encoding passed"));
    picture_free(&sink.file);
    free(image.pixels);
}

TEST_MAIN(.name = "png_writer")
