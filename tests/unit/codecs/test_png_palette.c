/* Tests of PNGs with a palette or with few bits per pixel, which libpng reads. */
#include "tests/fixtures/palette_file.h"

/* ---- few colours ---- */

/* The first pixels have all of the colours, the others any of them. */
static void fill_from(const struct image *image, const uint32_t *colours, uint32_t count,
                      uint32_t *random)
{
    for (size_t i = 0; i < palette_image_pixels(image); i++)
        palette_image_put(image, i, colours[i < count ? i : picture_random(random) % count]);
}

/* `count` different colours; half of those of RGBA have an alpha. */
static void make_colours(uint32_t channels, uint32_t count, uint32_t *random, uint32_t *colours)
{
    bool seen[256] = {false};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = picture_random(random) % 256;
        while (seen[first])
            first = (first + 1) % 256;
        seen[first] = true;
        uint32_t alpha = channels < 4 || i % 2 == 0 ? 255 : i % 3 == 0 ? 0 : 1 + i % 254;
        colours[i] = first << 24 | (picture_random(random) % 65536) << 8 | alpha;
    }
}

static int depth_of(uint32_t count)
{
    return count <= 2 ? 1 : count <= 4 ? 2 : count <= 16 ? 4 : 8;
}

/* Compares each pixel, and checks the order of the palette. */
static void expect_exact(const struct image *image, const struct picture_file *file, uint32_t count)
{
    struct palette_file read = palette_file_read(file);
    int with_alpha = 0;
    for (size_t i = 0; i < palette_image_pixels(image); i++)
        if (palette_file_rgba(&read, i) != palette_image_rgba(image, i))
            fail_msg("%u x %u x %u, %u colours: pixel %zu is %08X, not %08X", image->width,
                     image->height, image->channels, count, i, palette_file_rgba(&read, i),
                     palette_image_rgba(image, i));
    if (read.type == PNG_COLOR_TYPE_PALETTE) {
        assert_int_equal(read.colours, count);
        assert_int_equal(read.depth, depth_of(count));
        struct palette_file entries = read;
        uint8_t all[256];
        entries.samples = all;
        for (int i = 0; i < 256; i++)
            all[i] = (uint8_t)i;
        for (size_t i = 0; i < count; i++) {
            with_alpha += (palette_file_rgba(&entries, i) & 255) < 255;
            assert_true(i == 0 || palette_comes_before(palette_file_rgba(&entries, i - 1),
                                                       palette_file_rgba(&entries, i)));
        }
        assert_int_equal(read.alphas, with_alpha);
    }
    free(read.samples);
}

static void check_exact(uint32_t width, uint32_t height, uint32_t channels, uint32_t count,
                        uint32_t seed)
{
    uint32_t colours[256], random = seed * 2654435761u + 1;
    struct image image = palette_image(width, height, channels);
    if (count > palette_image_pixels(&image))
        count = (uint32_t)palette_image_pixels(&image);
    make_colours(channels, count, &random, colours);
    fill_from(&image, colours, count, &random);
    int limits[] = {count < 2 ? 2 : (int)count, 256};
    for (int i = 0; i < 2; i++) {
        struct picture_file file = palette_encode(&image, limits[i], (int)(seed + i) % 10);
        expect_exact(&image, &file, count);
        picture_free(&file);
    }
    free(image.pixels);
}

static const uint32_t channel_counts[] = {1, 3, 4};

TEST(test_few_colours)
{
    static const uint32_t sides[][2] = {{1, 1}, {1, 90}, {90, 1}, {20, 20}, {61, 47}};
    static const uint32_t counts[] = {1, 2, 3, 4, 5, 15, 16, 17, 64, 255, 256};
    for (size_t i = 0; i < COUNT_OF(sides) * COUNT_OF(counts); i++)
        for (int c = 0; c < 3; c++)
            check_exact(sides[i % COUNT_OF(sides)][0], sides[i % COUNT_OF(sides)][1],
                        channel_counts[c], counts[i / COUNT_OF(sides)], (uint32_t)i + 1);
}

/* Every number of pixels in the last byte of a row, at every depth. */
TEST(test_widths)
{
    static const uint32_t counts[] = {2, 4, 16, 17};
    for (uint32_t width = 1; width <= 17; width++)
        for (size_t i = 0; i < COUNT_OF(counts); i++)
            check_exact(width, 19, channel_counts[(width + i) % 3], counts[i], width);
    check_exact(16384, 2, 3, 2, 1);
    check_exact(16384, 3, 4, 200, 1);
    check_exact(65500, 1, 1, 3, 1);
}

/* Gray stays gray if that takes no more bits than a palette. */
TEST(test_gray)
{
    static const struct {
        uint8_t values[20];
        uint32_t count;
        int type, depth;
    } rows[] = {
        {{0, 255}, 2, PNG_COLOR_TYPE_GRAY, 1},
        {{255}, 1, PNG_COLOR_TYPE_GRAY, 1},
        {{0, 85}, 2, PNG_COLOR_TYPE_PALETTE, 1},
        {{0, 85, 170}, 3, PNG_COLOR_TYPE_GRAY, 2},
        {{0, 85, 170, 255}, 4, PNG_COLOR_TYPE_GRAY, 2},
        {{0, 85, 171, 255}, 4, PNG_COLOR_TYPE_PALETTE, 2},
        {{0, 17, 34, 51, 255}, 5, PNG_COLOR_TYPE_GRAY, 4},
        {{1, 17, 34, 51, 255}, 5, PNG_COLOR_TYPE_PALETTE, 4},
        {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 16, PNG_COLOR_TYPE_PALETTE, 4},
        {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, 17, PNG_COLOR_TYPE_GRAY, 8},
    };
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        uint32_t colours[20], random = 9;
        struct image image = palette_image(23, 9, 1);
        for (uint32_t i = 0; i < rows[r].count; i++)
            colours[i] = (uint32_t)rows[r].values[i] << 24;
        fill_from(&image, colours, rows[r].count, &random);
        struct picture_file file = palette_encode(&image, 256, 3);
        struct palette_file read = palette_file_read(&file);
        assert_int_equal(read.type, rows[r].type);
        assert_int_equal(read.depth, rows[r].depth);
        expect_exact(&image, &file, rows[r].count);
        free(read.samples);
        picture_free(&file);
        free(image.pixels);
    }
}

/* A gray image that needs 8 bits is written as without a palette. */
TEST(test_gray_of_many_values)
{
    struct image image = rig_picture(200, 100, 1, 3);
    for (int level = 0; level <= 6; level += 3) {
        struct picture_file file = palette_encode(&image, 256, level);
        struct picture_file plain = palette_encode(&image, 0, level);
        assert_int_equal(file.length, plain.length);
        assert_memory_equal(file.bytes, plain.bytes, plain.length);
        picture_free(&plain);
        picture_free(&file);
    }
    free(image.pixels);
}

/* ---- two values ---- */

static void check_bilevel(uint32_t width, uint32_t height, int level, uint32_t seed)
{
    uint32_t random = seed * 2654435761u + 1, colours[] = {0, 0xFFFFFFFF};
    struct image image = palette_image(width, height, 1);
    for (size_t i = 0; i < palette_image_pixels(&image); i++)
        palette_image_put(&image, i, colours[picture_random(&random) >> 4 & 1]);
    struct picture_file file =
        rig_encode_as(&image, "png", .bilevel = true, .encoder.compression = level);
    struct palette_file read = palette_file_read(&file);
    assert_int_equal(read.type, PNG_COLOR_TYPE_GRAY);
    assert_int_equal(read.depth, 1);
    free(read.samples);
    expect_exact(&image, &file, 2);
    if (width <= 16384) {
        rig_reads(&file, STATUS_OK, NULL);
        assert_int_equal(rig.info.channels, 1);
    }
    /* `colors` finds the same. */
    struct picture_file other = palette_encode(&image, 2, level);
    assert_int_equal(other.length, file.length);
    assert_memory_equal(other.bytes, file.bytes, file.length);
    picture_free(&other);
    picture_free(&file);
    free(image.pixels);
}

TEST(test_bilevel)
{
    for (uint32_t width = 1; width <= 70; width += width < 18 ? 1 : 13)
        for (int level = 0; level <= 9; level += 1 + level / 4)
            check_bilevel(width, 1 + width % 5, level, width);
    check_bilevel(16384, 9, 3, 1);
    check_bilevel(1, 3000, 3, 2);
    check_bilevel(65500, 2, 3, 3);
}

/* ---- metadata, memory and failures ---- */

static struct image noise(uint32_t width, uint32_t height, uint32_t channels)
{
    struct image image = palette_image(width, height, channels);
    uint32_t random = 77;
    for (size_t i = 0; i < palette_image_pixels(&image); i++)
        palette_image_put(&image, i, picture_random(&random));
    return image;
}

/* A palette is RGB, so the profile of RGB stays. Gray never has one. */
TEST(test_profile)
{
    struct picture_file icc = picture_icc(400, "RGB ");
    memset(icc.bytes + 128, 0, 4); /* no tags */
    for (int c = 0; c < 3; c++) {
        struct image image = noise(30, 20, channel_counts[c]);
        struct picture_file file = rig_encode_as(
            &image, "png", .encoder = {.colors = 5, .compression = 3}, .icc = icc.bytes,
            .icc_bytes = icc.length, .density = {300, 300, DENSITY_INCH});
        rig_reads(&file, STATUS_OK, NULL);
        assert_int_equal(rig.info.icc_bytes, image.channels == 1 ? 0 : icc.length);
        assert_int_equal(rig.info.density.x, 11811);
        picture_free(&file);
        free(image.pixels);
    }
    picture_free(&icc);
}

/* Noise of few colours, which no coder compresses. */
TEST(test_bound)
{
    static const uint32_t sides[][2] = {{1, 1}, {1, 5000}, {5000, 1}, {300, 200}};
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (int colours = 2; colours <= 256; colours *= 2) {
            const struct encoder_settings settings = {.colors = colours, .compression = 1};
            struct image image = noise(sides[i][0], sides[i][1], 4);
            struct picture_file file = palette_encode(&image, colours, 1);
            assert_true(file.length <= codec_encoded_bytes(format_by_name("png"), image.width,
                                                           image.height, 4, &settings, 0));
            picture_free(&file);
            free(image.pixels);
        }
}

TEST(test_memory)
{
    struct encoder_settings settings = {.colors = 256};
    const struct format *png = format_by_name("png");
    size_t small = codec_encoder_bytes(png, 16, 16, 4, &settings, 0);
    size_t large = codec_encoder_bytes(png, 16384, 16384, 4, &settings, 0);
    assert_in_range(small, 1000, 64 * KIB);
    assert_in_range(large, 2 * MIB, 3 * MIB);
    settings.colors = 0;
    assert_int_equal(codec_encoder_bytes(png, 16384, 16384, 4, &settings, 0), 0);
}

TEST(test_failures)
{
    struct image image = noise(2500, 1000, 3);
    struct encode_request request = {.format = format_by_name("png"),
                                     .encoder = {.colors = 256, .compression = 6}};
    struct rig_sink sink = {.bytes_max = 20000, .silent = true};
    assert_int_equal(rig_encode_into(&rig, &image, &request, 4096, &sink), STATUS_WRITE_FAILED);
    assert_non_null(strstr(rig.error.text, "the PNG could not be written after"));
    picture_free(&sink.file);
    static const char *const texts[] = {"before its start", "before the palette was found"};
    for (int i = 0; i < 2; i++) {
        sink = (struct rig_sink){.bytes_max = 0};
        request.deadline_ns = i == 0 ? 1 : clock_now_ns() + 4000000;
        assert_int_equal(rig_encode_into(&rig, &image, &request, 4096, &sink), STATUS_TIMEOUT);
        assert_non_null(strstr(rig.error.text, texts[i]));
        picture_free(&sink.file);
    }
    free(image.pixels);
}

TEST_MAIN(.name = "png_palette", .each_setup = rig_setup, .each_teardown = rig_teardown)
