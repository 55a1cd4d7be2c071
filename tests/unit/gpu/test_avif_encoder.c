/*
 * Tests of the AV1 still-picture encoder, with libavif's decoder as the reference: without filters,
 * a decoder's samples must be exactly those that the encoder has reconstructed.
 */
#include "tests/fixtures/test.h"

#ifdef GPUIMGD_AVIF

#include <math.h>

#include "gpu/avif/encode_impl.h"
#include "gpu/avif/kernels/import.h"
#include "gpu/avif/kernels/kernels.h"
#include "tests/fixtures/avif_rig.h"
#include "tests/fixtures/gpu/gpu_run.h"

/* ---- images ---- */

enum pattern { NOISE, CHECKERS, GRADIENT, SCREEN, WAVES, PIXELS, SPARSE, PATTERNS };

static uint32_t random_state;
static uint32_t random_word(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

static int pattern_sample(enum pattern pattern, uint32_t x, uint32_t y, uint32_t channel)
{
    switch (pattern) {
    case NOISE:
        return (int)(random_word() & 255);
    case CHECKERS:
        return (x / 3 + y / 3) % 2 ? 255 : 0;
    case GRADIENT:
        return (int)(x * 2 + y + channel * 40) & 255;
    case SCREEN:
        return (x / 8) % 5 == 0 || (y / 16) % 3 == 0 ? 20 : (x * 7 + y * 13) / 32 % 4 ? 240 : 90;
    case WAVES:
        return 128 + (int)(x * x / 5 + y * y) / 9 % 100 - 50 + (int)(random_word() % 5);
    case PIXELS: {
        uint32_t colour = (x / 3 * 7 + y / 5 * 11 + x / 16 * (y / 16)) % 11;
        return (int)(colour * 53 + channel * (colour % 3) * 31 + 9) & 255;
    }
    default:
        return random_word() % 17 ? 100 : (int)(random_word() & 1) * 255;
    }
}

/* A call of the encoder, with its memory. */
struct call {
    struct image image;
    struct avif_encode_options options;
    void *work;
    uint8_t *obus;
    size_t capacity, bytes;
};

static void make_image(struct image *image, enum pattern pattern)
{
    image->stride = image_stride(image->width, image->channels);
    image->pixels = test_malloc(image->stride * image->height);
    random_state = image->width * 977 + image->height * 31 + image->channels + 1;
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++)
            for (uint32_t c = 0; c < image->channels; c++)
                image->pixels[y * image->stride + x * image->channels + c] =
                    (uint8_t)pattern_sample(pattern, x, y, c);
}

static void make_call(struct call *call, uint32_t width, uint32_t height, uint32_t channels,
                      enum pattern pattern)
{
    call->image = (struct image){.width = width, .height = height, .channels = channels};
    make_image(&call->image, pattern);
    size_t bytes = avif_encode_work_bytes(width, height, channels, call->options.effort);
    assert_int_not_equal(bytes, 0);
    call->work = aligned_alloc(BUFFER_ALIGN, bytes);
    assert_non_null(call->work);
    memset(call->work, 0xA5, bytes); /* memory of earlier calls must not matter */
    call->capacity = 4 * avif_encode_capacity(width, height, channels);
    call->obus = test_malloc(call->capacity);
}

static void free_call(struct call *call)
{
    test_free(call->image.pixels);
    test_free(call->obus);
    free(call->work);
}

static enum status encode(struct call *call)
{
    return avif_encode_pixels(&call->image, &call->options, NULL, NULL, call->work, call->obus,
                              call->capacity, &call->bytes);
}

/* Cells of random colours, as in pixel art. */
static void draw_cells(struct image *image, uint32_t side)
{
    uint32_t across = image->width / side, colours[32 * 32];
    random_state = 7;
    for (uint32_t i = 0; i < across * (image->height / side); i++)
        colours[i] = random_word();
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++)
            for (uint32_t c = 0; c < 3; c++)
                image->pixels[y * image->stride + 3 * x + c] =
                    (uint8_t)(colours[y / side * across + x / side] >> 8 * c);
}

/* ---- the reference ---- */

/* Boxes, in the least number that libavif reads. */
struct boxes {
    uint8_t *bytes;
    size_t count;
};

static void put(struct boxes *to, uint32_t value, int bytes)
{
    while (bytes-- > 0)
        to->bytes[to->count++] = (uint8_t)(value >> 8 * bytes);
}

static void put_text(struct boxes *to, const char *text)
{
    memcpy(to->bytes + to->count, text, strlen(text));
    to->count += strlen(text);
}

static size_t begin(struct boxes *to, const char *type)
{
    size_t at = to->count;
    put(to, 0, 4);
    put_text(to, type);
    return at;
}

static void end(struct boxes *to, size_t at)
{
    struct boxes size = {to->bytes, at};
    put(&size, (uint32_t)(to->count - at), 4);
}

static void put_properties(struct boxes *to, const struct call *call)
{
    uint8_t av1c[4];
    avif_encode_config(call->image.width, call->image.height, call->image.channels, av1c);
    size_t iprp = begin(to, "iprp"), ipco = begin(to, "ipco"), ispe = begin(to, "ispe");
    put(to, 0, 4);
    put(to, call->image.width, 4);
    put(to, call->image.height, 4);
    end(to, ispe);
    size_t config = begin(to, "av1C");
    for (int i = 0; i < 4; i++)
        put(to, av1c[i], 1);
    end(to, config);
    end(to, ipco);
    size_t ipma = begin(to, "ipma");
    put(to, 0, 4);
    put(to, 1, 4);
    put(to, 1, 2);
    put(to, 0x020182, 3);
    end(to, ipma);
    end(to, iprp);
}

/* Returns the offset at which the file's data begins is written. */
static size_t put_items(struct boxes *to, const struct call *call)
{
    size_t hdlr = begin(to, "hdlr");
    put(to, 0, 8 - 4);
    put(to, 0, 4);
    put_text(to, "pict");
    for (int i = 0; i < 3; i++)
        put(to, 0, 4);
    put(to, 0, 1);
    end(to, hdlr);
    size_t pitm = begin(to, "pitm");
    put(to, 0, 4);
    put(to, 1, 2);
    end(to, pitm);
    size_t iloc = begin(to, "iloc");
    put(to, 0, 4);
    put(to, 0x4400, 2);
    put(to, 1, 2);
    put(to, 1, 2);
    put(to, 0, 2);
    put(to, 1, 2);
    size_t offset_at = to->count;
    put(to, 0, 4);
    put(to, (uint32_t)call->bytes, 4);
    end(to, iloc);
    size_t iinf = begin(to, "iinf");
    put(to, 0, 4);
    put(to, 1, 2);
    size_t infe = begin(to, "infe");
    put(to, 0x02000000, 4);
    put(to, 1, 2);
    put(to, 0, 2);
    put_text(to, "av01");
    put(to, 0, 1);
    end(to, infe);
    end(to, iinf);
    return offset_at;
}

/* Returns a file with the OBUs of the call. */
static struct boxes file_of(const struct call *call)
{
    struct boxes file = {test_malloc(1024 + call->bytes), 0};
    size_t ftyp = begin(&file, "ftyp");
    put_text(&file, "avif");
    put(&file, 0, 4);
    put_text(&file, "avifmif1miaf");
    end(&file, ftyp);
    size_t meta = begin(&file, "meta");
    put(&file, 0, 4);
    size_t offset_at = put_items(&file, call);
    put_properties(&file, call);
    end(&file, meta);
    size_t mdat = begin(&file, "mdat");
    struct boxes offset = {file.bytes, offset_at};
    put(&offset, (uint32_t)file.count, 4);
    memcpy(file.bytes + file.count, call->obus, call->bytes);
    file.count += call->bytes;
    end(&file, mdat);
    return file;
}

static avifImage *decode(const struct call *call)
{
    struct boxes file = file_of(call);
    /* The file has no box pixi. */
    avifImage *image =
        avif_read(&(struct picture_file){file.bytes, file.count}, AVIF_STRICT_DISABLED);
    test_free(file.bytes);
    return image;
}

/* ---- reconstruction ---- */

static void expect_plane(const struct call *call, const avifImage *image, int plane,
                         const struct avif_plane *expected)
{
    uint32_t width = plane ? (image->width + 1) / 2 : image->width;
    uint32_t height = plane ? (image->height + 1) / 2 : image->height;
    for (uint32_t y = 0; y < height; y++) {
        const uint8_t *row = image->yuvPlanes[plane] + (size_t)y * image->yuvRowBytes[plane];
        if (memcmp(row, expected->samples + y * expected->stride, width) != 0)
            fail_msg("row %u of plane %d differs: %u x %u, %u channels, quality %d, effort %d", y,
                     plane, call->image.width, call->image.height, call->image.channels,
                     call->options.quality, call->options.effort);
    }
}

static void expect_reconstruction(struct call *call)
{
    struct avif_frame frame;
    struct avif_plane planes[PLANES];
    assert_int_equal(encode(call), STATUS_OK);
    avifImage *image = decode(call);
    assert_int_equal(image->width, call->image.width);
    assert_int_equal(image->height, call->image.height);
    assert_int_equal(image->yuvFormat, call->image.channels == 1 ? AVIF_PIXEL_FORMAT_YUV400
                                                                 : AVIF_PIXEL_FORMAT_YUV420);
    assert_int_equal(image->yuvRange, AVIF_RANGE_FULL);
    assert_int_equal(image->matrixCoefficients, AVIF_MATRIX_COEFFICIENTS_BT601);
    assert_int_equal(image->colorPrimaries, AVIF_COLOR_PRIMARIES_BT709);
    assert_int_equal(image->transferCharacteristics, AVIF_TRANSFER_CHARACTERISTICS_SRGB);
    assert_true(avif_frame_set(&frame, call->image.width, call->image.height, call->image.channels,
                               &call->options));
    avif_reconstruction(&frame, call->work, planes);
    for (int i = 0; i < frame.planes; i++)
        expect_plane(call, image, i, &planes[i]);
    avifImageDestroy(image);
}

static void expect_exact(uint32_t width, uint32_t height, uint32_t channels, enum pattern pattern,
                         int quality, int effort)
{
    struct call call = {.options = {.quality = quality, .effort = effort, .unfiltered = true}};
    make_call(&call, width, height, channels, pattern);
    expect_reconstruction(&call);
    free_call(&call);
}

TEST(a_decoder_gives_the_reconstruction_at_small_sizes)
{
    static const int qualities[] = {1, 20, 45, 60, 75, 90, 99};
    for (uint32_t i = 0; i < 400; i++)
        expect_exact(1 + i * 7 % 67, 1 + i * 13 % 71, i % 5 ? 3 : 1, (enum pattern)(i % PATTERNS),
                     qualities[i % COUNT_OF(qualities)], (int)(i % (AVIF_EFFORT_MAX + 1)));
}

TEST(a_decoder_gives_the_reconstruction_at_the_edges_of_superblocks)
{
    static const uint32_t sides[] = {63, 64, 65, 96, 127, 129, 136, 191, 200};
    for (uint32_t i = 0; i < COUNT_OF(sides) * COUNT_OF(sides); i++)
        expect_exact(sides[i % COUNT_OF(sides)], sides[i / COUNT_OF(sides)], i % 7 ? 4 : 1,
                     (enum pattern)(i % PATTERNS), (int)(5 + i * 11 % 95),
                     (int)(i % (AVIF_EFFORT_MAX + 1)));
}

TEST(a_decoder_gives_the_reconstruction_of_several_tiles)
{
    expect_exact(4097, 20, 3, WAVES, 60, 1);
    expect_exact(8260, 70, 1, SCREEN, 80, 0);
}

/* ---- palettes ---- */

/* Whether the frame header allows palettes: its second bit. */
static bool allows_palettes(const struct call *call)
{
    enum { frame_obu = 6 << 3 | 2 };
    size_t at = 2 + call->obus[1]; /* after the sequence header, which has less than 128 bytes */
    assert_int_equal(call->obus[at], frame_obu);
    do
        at++;
    while (call->obus[at] & 128);
    return call->obus[at + 1] >> 6 & 1;
}

/* Draws letters of up to `colours` colours on a ground of their own, cells of 16 x 16. */
static void draw_letters(struct image *image, uint32_t colours)
{
    random_state = 77 * colours;
    uint32_t palette[16];
    for (uint32_t i = 0; i < 16; i++)
        palette[i] = i == 0 ? 0xF0F0F0 : random_word() & 0x9F9F9F;
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++) {
            uint32_t glyph = (x / 16 * 7 + y / 16 * 5) * 2654435761u,
                     at = x % 16 / 2 + y % 16 / 4 * 8;
            uint32_t colour = glyph >> at % 31 & 1 ? 1 + glyph / 64 % (colours - 1) : 0;
            for (uint32_t c = 0; c < image->channels; c++)
                image->pixels[y * image->stride + x * image->channels + c] =
                    (uint8_t)(palette[colour] >> 8 * c);
        }
}

TEST(letters_have_palettes_and_are_exact)
{
    for (uint32_t i = 0; i < 60; i++) {
        struct call call = {.options = {.quality = (int)(15 + i * 13 % 85), .unfiltered = true}};
        call.options.effort = 1 + (int)(i % 2);
        make_call(&call, 100 + i * 7 % 150, 90 + i * 11 % 120, i % 5 ? 3 + i % 2 : 1, GRADIENT);
        draw_letters(&call.image, 2 + i % 14);
        expect_reconstruction(&call);
        assert_true(allows_palettes(&call));
        free_call(&call);
    }
}

TEST(palettes_make_letters_much_smaller)
{
    size_t bytes[2] = {0, 0};
    for (int effort = 0; effort < 2; effort++)
        for (uint32_t colours = 2; colours < 16; colours++) {
            struct call call = {.options = {.quality = 80, .effort = effort}};
            make_call(&call, 320, 240, 3, GRADIENT);
            draw_letters(&call.image, colours);
            assert_int_equal(encode(&call), STATUS_OK);
            assert_int_equal(allows_palettes(&call), effort > 0);
            bytes[effort] += call.bytes;
            free_call(&call);
        }
    assert_in_range(bytes[1], 1, bytes[0] / 3);
}

/* Gradients, noise, and large areas of one colour. */
TEST(other_images_have_no_palettes)
{
    static const enum pattern patterns[] = {NOISE, GRADIENT, WAVES};
    for (uint32_t i = 0; i <= COUNT_OF(patterns); i++) {
        struct call call = {.options = {.quality = 80, .effort = 1}};
        make_call(&call, 256, 256, 3, patterns[i % COUNT_OF(patterns)]);
        if (i == COUNT_OF(patterns))
            draw_cells(&call.image, 32);
        assert_int_equal(encode(&call), STATUS_OK);
        assert_false(allows_palettes(&call));
        free_call(&call);
    }
}

/* ---- kernels ---- */

TEST(kernels_with_avx2_give_the_same_bytes)
{
    const struct avif_kernels *kernels = avif_kernels_avx2();
    if (!kernels)
        skip();
    for (uint32_t i = 0; i < 240; i++) {
        struct call call = {.options = {.quality = (int)(1 + i * 17 % 99), .effort = (int)(i % 3)}};
        make_call(&call, 1 + i * 29 % 150, 1 + i * 41 % 140, i % 5 ? 3 : 1,
                  (enum pattern)(i % PATTERNS));
        uint8_t *plain = test_malloc(call.capacity);
        size_t bytes;
        assert_int_equal(avif_encode_with(&avif_kernels_plain, &call.image, &call.options, NULL,
                                          NULL, call.work, plain, call.capacity, &bytes),
                         STATUS_OK);
        assert_int_equal(avif_encode_with(kernels, &call.image, &call.options, NULL, NULL,
                                          call.work, call.obus, call.capacity, &call.bytes),
                         STATUS_OK);
        assert_int_equal(call.bytes, bytes);
        assert_memory_equal(call.obus, plain, bytes);
        test_free(plain);
        free_call(&call);
    }
}

/* ---- quality ---- */

static double psnr_of(const avifImage *image, const avifImage *source)
{
    double sum = 0;
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++) {
            int difference = image->yuvPlanes[0][y * image->yuvRowBytes[0] + x] -
                             source->yuvPlanes[0][y * source->yuvRowBytes[0] + x];
            sum += difference * difference;
        }
    return 10 * log10(255. * 255 * image->width * image->height / sum);
}

/* As codecs/confined/avif/avif_encode.c encodes at effort 1. */
static avifImage *recode_with_libavif(avifImage *source, int quality, size_t *bytes)
{
    avifEncoder *encoder = avifEncoderCreate();
    avifRWData file = AVIF_DATA_EMPTY;
    avifImage *image = avifImageCreateEmpty();
    avifDecoder *decoder = avifDecoderCreate();
    encoder->maxThreads = 1;
    encoder->speed = 9;
    encoder->minQuantizer = encoder->maxQuantizer = ((100 - quality) * 63 + 50) / 100;
    assert_int_equal(avifEncoderWrite(encoder, source, &file), AVIF_RESULT_OK);
    assert_int_equal(avifDecoderReadMemory(decoder, image, file.data, file.size), AVIF_RESULT_OK);
    *bytes = file.size;
    avifRWDataFree(&file);
    avifDecoderDestroy(decoder);
    avifEncoderDestroy(encoder);
    return image;
}

/* A scene with edges, textures and gradients. */
static void draw_scene(struct image *image)
{
    random_state = 7;
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++) {
            double dx = x - 150., dy = y - 110., away = sqrt(dx * dx + dy * dy);
            double value = 110 + 60 * sin(x / 23.) * cos(y / 31.) + (away < 70 ? 50 : 0);
            value += x > 200 ? 14 * sin(x * .9 + y * .4) : 0;
            for (uint32_t c = 0; c < 3; c++) {
                double noisy = value + c * 12. * sin(y / 40.) + (double)(random_word() % 7) - 3;
                image->pixels[y * image->stride + 3 * x + c] = (uint8_t)(noisy < 0     ? 0
                                                                         : noisy > 255 ? 255
                                                                                       : noisy);
            }
        }
}

TEST(qualities_are_those_of_libaom_in_smaller_files)
{
    static const int qualities[] = {20, 40, 60, 80, 95};
    double last = 0;
    for (size_t i = 0; i < COUNT_OF(qualities); i++) {
        struct call call = {.options = {.quality = qualities[i], .effort = AVIF_EFFORT_DEFAULT}};
        make_call(&call, 320, 240, 3, GRADIENT);
        draw_scene(&call.image);
        assert_int_equal(encode(&call), STATUS_OK);
        size_t bytes;
        avifImage *decoded = decode(&call),
                  *source = avif_planes(&call.image, AVIF_PIXEL_FORMAT_YUV420);
        avifImage *other = recode_with_libavif(source, qualities[i], &bytes);
        double own = psnr_of(decoded, source), theirs = psnr_of(other, source);
        if (fabs(own - theirs) > 1.5 || own <= last || call.bytes >= bytes)
            fail_msg("quality %d: %.2f dB after %.2f dB, libaom: %.2f dB; %zu bytes, libaom: %zu",
                     qualities[i], own, last, theirs, call.bytes, bytes);
        last = own;
        avifImageDestroy(decoded);
        avifImageDestroy(source);
        avifImageDestroy(other);
        free_call(&call);
    }
}

/* The planes are reconstructed well at every effort, so that sizes can be compared. */
TEST(higher_efforts_code_flat_cells_in_as_few_bytes)
{
    enum { width = 256, height = 192, quality = 75 };
    double least = 49; /* dB; for cells of 8 */
    for (uint32_t side = 8; side <= 32; side *= 2, least += 2) {
        size_t fastest = 0;
        for (int effort = 0; effort <= AVIF_EFFORT_MAX; effort++) {
            struct call call = {.options = {.quality = quality, .effort = effort}};
            make_call(&call, width, height, 3, GRADIENT);
            draw_cells(&call.image, side);
            assert_int_equal(encode(&call), STATUS_OK);
            avifImage *decoded = decode(&call);
            avifImage *source = avif_planes(&call.image, AVIF_PIXEL_FORMAT_YUV420);
            double psnr = psnr_of(decoded, source);
            fastest = effort ? fastest : call.bytes;
            if (call.bytes > fastest + fastest / 33 || psnr < least)
                fail_msg("cells of %u, effort %d: %zu bytes, %.2f dB; effort 0: %zu", side, effort,
                         call.bytes, psnr, fastest);
            avifImageDestroy(decoded);
            avifImageDestroy(source);
            free_call(&call);
        }
    }
}

/* ---- import ---- */

TEST(samples_differ_from_those_of_libavif_by_one_at_most)
{
    for (uint32_t i = 0; i < 12; i++) {
        struct image image = {.width = 1 + i * 5, .height = 40 - 3 * i, .channels = 3 + i % 2};
        make_image(&image, i % 3 ? NOISE : GRADIENT);
        struct avif_encoder encoder = {.frame = {.planes = PLANES, .superblocks_y = 1},
                                       .kernels = &avif_kernels_plain};
        uint8_t samples[PLANES][64 * 64];
        for (int k = 0; k < PLANES; k++)
            encoder.source[k] = (struct avif_plane){samples[k], 64u >> (k > 0)};
        avif_import(&image, &encoder);
        avifImage *expected = avif_planes(&image, AVIF_PIXEL_FORMAT_YUV420);
        for (uint32_t k = 0; k < PLANES; k++)
            for (uint32_t at = 0; at < (64 * 64u >> (k ? 2 : 0)); at++) {
                /* The last samples are repeated. */
                uint32_t y = at / (64u >> (k > 0)), x = at % (64u >> (k > 0));
                uint32_t width = k ? (image.width + 1) / 2 : image.width;
                uint32_t height = k ? (image.height + 1) / 2 : image.height;
                y = y < height ? y : height - 1;
                x = x < width ? x : width - 1;
                int value = expected->yuvPlanes[k][y * expected->yuvRowBytes[k] + x];
                assert_in_range(samples[k][at] - value + 1, 0, 2);
            }
        avifImageDestroy(expected);
        test_free(image.pixels);
    }
}

/* ---- limits ---- */

TEST(av1c_has_the_level_of_the_size)
{
    static const struct {
        uint32_t width, height, channels;
        uint8_t level, flags;
    } rows[] = {
        {16, 16, 3, 0, 0x0C},       {512, 288, 1, 0, 0x1C},    {512, 289, 3, 1, 0x0C},
        {640, 480, 3, 4, 0x0C},     {15, 400, 3, 31, 0x0C},    {2048, 16, 3, 0, 0x0C},
        {16, 1153, 3, 1, 0x0C},     {1920, 1080, 4, 8, 0x0C},  {4000, 2228, 3, 12, 0x0C},
        {4097, 16, 3, 4, 0x0C},     {8192, 4352, 3, 16, 0x0C}, {16384, 2176, 3, 16, 0x0C},
        {16385, 2000, 3, 31, 0x0C}, {6000, 8705, 3, 31, 0x0C},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint8_t av1c[4];
        avif_encode_config(rows[i].width, rows[i].height, rows[i].channels, av1c);
        assert_int_equal(av1c[0], 0x81);
        assert_int_equal(av1c[1], rows[i].level);
        assert_int_equal(av1c[2], rows[i].flags);
        assert_int_equal(av1c[3], 0);
    }
}

TEST(tiles_are_within_the_limits)
{
    const struct avif_encode_options options = {.quality = 50};
    for (uint32_t width = 1; width <= SIDE_CEILING; width += 1237)
        for (uint32_t height = 1; height <= SIDE_CEILING; height += 1453) {
            struct avif_frame frame;
            if (!avif_frame_set(&frame, width, height, 3, &options))
                continue;
            const struct avif_tiles *tiles = &frame.tiles;
            assert_in_range(tiles->width, 1, 4096 / 64);
            assert_in_range(tiles->width * tiles->height, 1, 4096 * 2304 / 64 / 64);
            assert_in_range(tiles->columns, 1, 64);
            assert_in_range(tiles->rows, 1, 64);
            assert_true(tiles->width * tiles->columns * 64 >= (int)width);
            assert_true(tiles->height * tiles->rows * 64 >= (int)height);
            assert_true(tiles->width * (tiles->columns - 1) * 64 < (int)width);
            assert_true(tiles->height * (tiles->rows - 1) * 64 < (int)height);
        }
    assert_int_equal(avif_encode_work_bytes(0, 1, 3, 0), 0);
    assert_int_equal(avif_encode_work_bytes(1, SIDE_CEILING + 1, 3, 0), 0);
}

/* Encodes with a capacity. Returns whether the output fits in it. */
static bool fits(struct call *call, size_t capacity)
{
    call->capacity = capacity;
    memset(call->obus + capacity, 0x5A, 64);
    enum status status = encode(call);
    for (int i = 0; i < 64; i++)
        assert_int_equal(call->obus[capacity + i], 0x5A);
    if (status != STATUS_OK) {
        assert_int_equal(status, STATUS_ENCODE_FAILED);
        assert_int_equal(call->bytes, 0);
    }
    return status == STATUS_OK;
}

/* Noise, and an image with four tiles, at any capacity. */
TEST(an_output_that_is_too_long_is_refused)
{
    for (int i = 0; i < 2; i++) {
        struct call call = {.options = {.quality = 90}};
        make_call(&call, i ? 8260 : 200, i ? 8 : 50, i ? 1 : 3, i ? GRADIENT : NOISE);
        assert_int_equal(encode(&call), STATUS_OK);
        size_t needed = call.bytes, step = needed / (test_quick() ? 100 : 500) + 1;
        /* The length of the frame's header is not yet known when tiles are written. */
        for (size_t capacity = 0; capacity < needed - 6; capacity += step)
            assert_false(fits(&call, capacity));
        assert_true(fits(&call, needed + 6));
        assert_int_equal(call.bytes, needed);
        free_call(&call);
    }
}

TEST(sides_that_are_too_long_are_refused)
{
    struct call call = {.options = {.quality = 50}, .capacity = 1000};
    uint8_t obus[1000];
    call.image = (struct image){.width = SIDE_CEILING + 1, .height = 1, .channels = 3};
    call.obus = obus;
    assert_int_equal(encode(&call), STATUS_ENCODE_FAILED);
    assert_int_equal(call.bytes, 0);
}

static bool stops_at_the_third(void *context)
{
    return ++*(int *)context == 3;
}

TEST(the_caller_can_stop_the_encoder)
{
    struct call call = {.options = {.quality = 50}};
    int calls = 0;
    make_call(&call, 64, 64 * 5, 1, GRADIENT);
    assert_int_equal(avif_encode_pixels(&call.image, &call.options, stops_at_the_third, &calls,
                                        call.work, call.obus, call.capacity, &call.bytes),
                     STATUS_CANCELLED);
    assert_int_equal(calls, 3);
    assert_int_equal(call.bytes, 0);
    free_call(&call);
}

#else

TEST(the_encoder)
{
    skip(); /* the reference is libavif */
}

#endif

TEST_MAIN()
