/*
 * test_avif_own.c - AVIFs of gpuimgd's own encoder: which images it gets, the files, how it stops,
 * and its memory. libavif in its strict mode is the reference, and libaom of the image quality.
 */
#include "codecs/avif/header.h"
#include "codecs/quality.h"
#include "tests/fixtures/codec_rig.h"
#include "tests/fixtures/text_file.h"

#ifdef GPUIMGD_AVIF

#include <malloc.h>
#include <math.h>

#include "gpu/avif/encode.h"
#include "tests/fixtures/avif_rig.h"

/* The efforts of the own encoder, and one of libaom. */
enum { libaom_effort = 0, first_effort = 1, last_effort = 3 };

/* The coded image that the own encoder makes, without the codec. */
static struct picture_file own_obus(const struct image *image,
                                    const struct encoder_settings *settings)
{
    int effort = settings->effort - AVIF_OWN_EFFORT_MIN;
    const struct avif_encode_options options = {.quality = settings->quality, .effort = effort};
    size_t bytes = avif_encode_work_bytes(image->width, image->height, image->channels, effort);
    size_t capacity = 2 * avif_encode_capacity(image->width, image->height, image->channels);
    struct picture_file obus = {.bytes = malloc(capacity)};
    void *work = aligned_alloc(BUFFER_ALIGN, buffer_align(bytes));
    assert_true(obus.bytes != NULL && work != NULL);
    assert_int_equal(
        avif_encode_pixels(image, &options, NULL, NULL, work, obus.bytes, capacity, &obus.length),
        STATUS_OK);
    free(work);
    return obus;
}

/* Whether the file ends with the coded image of the own encoder. */
static bool is_own(const struct picture_file *file, const struct image *image,
                   const struct encoder_settings *settings)
{
    struct picture_file obus = own_obus(image, settings);
    bool same = file->length > obus.length &&
                memcmp(file->bytes + file->length - obus.length, obus.bytes, obus.length) == 0;
    picture_free(&obus);
    return same;
}

/* The PSNR of the pixels against the source, in dB. */
static double psnr_of(const struct picture_file *file, const struct image *source)
{
    avifImage *image = avif_read(file, AVIF_STRICT_ENABLED);
    double squares = 0;
    assert_int_equal(image->width, source->width);
    assert_int_equal(image->height, source->height);
    uint8_t *pixels = avif_pixels(image, AVIF_RGB_FORMAT_RGB);
    for (uint32_t y = 0; y < source->height; y++)
        for (uint32_t x = 0; x < source->width; x++)
            for (uint32_t c = 0; c < 3; c++) {
                uint32_t from = source->channels == 1 ? 0 : c;
                double error = source->pixels[y * source->stride + x * source->channels + from] -
                               pixels[3 * ((size_t)y * source->width + x) + c];
                squares += error * error;
            }
    free(pixels);
    avifImageDestroy(image);
    double mean = squares / (3.0 * source->width * source->height);
    return mean > 0 ? 10 * log10(255 * 255 / mean) : 99;
}

/* The value of a lattice of random numbers, -128 to 127, at x, y. */
static int lattice(uint32_t x, uint32_t y, uint32_t seed)
{
    uint32_t state = (x * 0x9E3779B1u) ^ (y * 0x85EBCA77u) ^ (seed * 0xC2B2AE3Du) ^ 1;
    for (int i = 0; i < 4; i++)
        (void)picture_random(&state);
    return (int)(state >> 16 & 255) - 128;
}

/* An image with details of all sizes, as in photographs: sizes of files grow evenly with the
 * quality. */
static struct image texture(uint32_t width, uint32_t height)
{
    struct image image = rig_picture(width, height, 3, 7);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t i = 0; i < 3 * width; i++) {
            uint32_t x = i / 3;
            double value = 128;
            for (uint32_t step = 64; step >= 1; step /= 2) {
                uint32_t left = x / step, top = y / step, seed = 8 * step + i % 3;
                double a = (double)(x % step) / step, b = (double)(y % step) / step;
                value += sqrt(step / 64.0) * 0.4 *
                         ((1 - b) * ((1 - a) * lattice(left, top, seed) +
                                     a * lattice(left + 1, top, seed)) +
                          b * ((1 - a) * lattice(left, top + 1, seed) +
                               a * lattice(left + 1, top + 1, seed)));
            }
            image.pixels[y * image.stride + i] = (uint8_t)fmin(fmax(value, 0), 255);
        }
    return image;
}

/* A scene without alpha that is not opaque. */
static struct image scene(uint32_t width, uint32_t height, uint32_t channels)
{
    struct image image = rig_picture(width, height, channels, 7);
    for (uint32_t y = 0; y < height && channels == 4; y++)
        for (uint32_t x = 0; x < width; x++)
            image.pixels[y * image.stride + 4 * x + 3] = 255;
    return image;
}

/* ---- the choice ---- */

TEST(test_efforts)
{
    for (int effort = 0; effort <= 6; effort++)
        for (int quality = 98; quality <= 100; quality++) {
            struct encoder_settings settings = {.effort = effort, .quality = quality};
            assert_int_equal(avif_is_own(&settings),
                             effort >= first_effort && effort <= last_effort && quality < 100);
        }
}

/* The manual names the same efforts. */
TEST(test_manual)
{
    const char *text = text_of("In AVIF, %d to %d are gpuimgd's own encoder", AVIF_OWN_EFFORT_MIN,
                               AVIF_OWN_EFFORT_MAX);
    assert_non_null(strstr(encoder_parameters[PARAMETER_effort].help, text));
}

TEST(test_choice)
{
    for (int effort = 0; effort <= 6; effort++)
        for (uint32_t channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1) {
            struct encoder_settings settings = {.quality = 70, .effort = effort};
            struct image image = scene(61, 47, channels);
            struct picture_file file = rig_encode_as(&image, "avif", .encoder = settings);
            bool may = effort >= first_effort && effort <= last_effort;
            settings.effort = may ? effort : first_effort;
            assert_int_equal(is_own(&file, &image, &settings), may);
            picture_free(&file);
            free(image.pixels);
        }
}

/* Quality 100 keeps every pixel of gray; only libaom writes that. */
TEST(test_lossless)
{
    struct image image = scene(61, 47, 1);
    for (int effort = first_effort; effort <= last_effort; effort++) {
        struct picture_file file =
            rig_encode_as(&image, "avif", .encoder.quality = 100, .encoder.effort = effort);
        assert_true(psnr_of(&file, &image) == 99);
        picture_free(&file);
    }
    free(image.pixels);
}

/* An opaque alpha is left out; one pixel that is not opaque keeps it. */
TEST(test_alpha)
{
    static const uint32_t places[][2] = {{0, 0}, {60, 0}, {30, 20}, {0, 46}, {60, 46}};
    struct encoder_settings settings = {.quality = 70, .effort = first_effort};
    struct image rgba = scene(61, 47, 4), rgb = rig_picture(61, 47, 3, 7);
    struct picture_file opaque = rig_encode_as(&rgba, "avif", .encoder = settings);
    struct picture_file wanted = rig_encode_as(&rgb, "avif", .encoder = settings);
    assert_int_equal(opaque.length, wanted.length);
    assert_memory_equal(opaque.bytes, wanted.bytes, wanted.length);
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        uint8_t *alpha = rgba.pixels + places[i][1] * rgba.stride + 4 * places[i][0] + 3;
        *alpha = 254;
        struct picture_file file = rig_encode_as(&rgba, "avif", .encoder = settings);
        avifImage *image = avif_read(&file, AVIF_STRICT_ENABLED);
        assert_non_null(image->alphaPlane);
        assert_int_equal(image->alphaPlane[places[i][1] * image->alphaRowBytes + places[i][0]],
                         254);
        avifImageDestroy(image);
        picture_free(&file);
        *alpha = 255;
    }
    picture_free(&opaque);
    picture_free(&wanted);
    free(rgba.pixels);
    free(rgb.pixels);
}

/* With memory only for opaque pixels, others are refused before they are encoded. */
TEST(test_memory_of_alpha)
{
    const struct format *avif = format_by_name("avif");
    struct encode_request request = {.format = avif,
                                     .encoder = {.quality = 70, .effort = first_effort}};
    struct image rgba = scene(61, 47, 4);
    struct rig_sink sink = {.bytes_max = 0};
    request.memory_max =
        codec_encoder_bytes(avif, 61, 47, codec_opaque_channels(avif, 4), &request.encoder, 0);
    assert_true(request.memory_max < codec_encoder_bytes(avif, 61, 47, 4, &request.encoder, 0));
    assert_int_equal(rig_encode_into(&rig, &rgba, &request, 65536, &sink), STATUS_OK);
    picture_free(&sink.file);
    rgba.pixels[3] = 254;
    assert_int_equal(rig_encode_into(&rig, &rgba, &request, 65536, &sink), STATUS_OVER_BUDGET);
    assert_int_equal(sink.file.length, 0);
    picture_free(&sink.file);
    free(rgba.pixels);
}

/* ---- files ---- */

/* Each file has about the PSNR of libaom's at the same quality, in all of its pixels. */
TEST(test_pixels)
{
    enum { few = 1000 };
    const double enough = 26; /* dB, for an image of few pixels */
    static const uint32_t sides[][2] = {{1, 1},   {1, 19},  {19, 1},    {2, 3},
                                        {61, 47}, {64, 64}, {130, 129}, {301, 200}};
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (uint32_t channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1)
            for (int quality = 30; quality < 100; quality += 30) {
                struct image image = scene(sides[i][0], sides[i][1], channels);
                struct encode_request request = {
                    .format = format_by_name("avif"),
                    .encoder = {.quality = quality, .effort = first_effort + (int)(i % 3)}};
                struct picture_file file = rig_encode(&rig, &image, &request);
                request.encoder.effort = libaom_effort;
                struct picture_file other = rig_encode(&rig, &image, &request);
                double psnr = psnr_of(&file, &image), wanted = psnr_of(&other, &image);
                bool is_small = sides[i][0] * sides[i][1] < few;
                if (psnr < (fmin(wanted - 2.5, is_small ? enough : 99)))
                    fail_msg("%u x %u x %u, quality %d: %.1f dB, but %.1f with libaom", sides[i][0],
                             sides[i][1], channels, quality, psnr, wanted);
                rig_reads(&file, STATUS_OK, NULL);
                assert_int_equal(rig.info.channels, channels == 1 ? 1 : 3);
                picture_free(&file);
                picture_free(&other);
                free(image.pixels);
            }
}

/* The file has the same bytes each time, with any contents of the memory before and any sink. */
TEST(test_same_bytes)
{
    struct image image = scene(301, 200, 3);
    struct encode_request request = {.format = format_by_name("avif"),
                                     .encoder = {.quality = 60, .effort = last_effort}};
    struct picture_file first = rig_encode(&rig, &image, &request);
    for (int i = 0; i < 3; i++) {
        struct rig_sink sink = {.bytes_max = 0};
        assert_int_equal(rig_encode_into(&rig, &image, &request, i == 1 ? 4096 : 1000000, &sink),
                         STATUS_OK);
        assert_int_equal(sink.file.length, first.length);
        assert_memory_equal(sink.file.bytes, first.bytes, first.length);
        picture_free(&sink.file);
    }
    picture_free(&first);
    free(image.pixels);
}

static struct image noise(uint32_t width, uint32_t height, uint32_t channels)
{
    struct image image = rig_picture(width, height, channels, 7);
    struct picture_file bytes = picture_garbage(image.stride * height, 1);
    memcpy(image.pixels, bytes.bytes, bytes.length);
    picture_free(&bytes);
    for (uint32_t y = 0; y < height && channels == 4; y++)
        for (uint32_t x = 0; x < width; x++)
            image.pixels[y * image.stride + 4 * x + 3] = 255;
    return image;
}

/* Counts a file. The encoder still has all of its memory when the file begins. */
struct counting_sink {
    struct codec_sink sink;
    size_t heap_bytes;
};

static size_t heap_now(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static enum status count_heap(struct codec_sink *sink, size_t used, struct error *error)
{
    struct counting_sink *self = (struct counting_sink *)sink;
    (void)used, (void)error;
    self->heap_bytes = sink->total == 0 ? heap_now() : self->heap_bytes;
    return STATUS_OK;
}

/* Noise at the highest quality makes the largest files. They fit, and the encoder needs no more
 * memory than was reserved. */
TEST(test_memory)
{
    enum { heap_rounding = 8192 }; /* of malloc */
    static const uint32_t sides[][2] = {{1, 1}, {65, 63}, {500, 300}};
    uint8_t *buffer = malloc(65536);
    assert_non_null(buffer);
    for (size_t i = 0; i < COUNT_OF(sides) * 9; i++) {
        uint32_t channels = (uint32_t[]){1, 3, 4}[i % 3];
        struct image image = noise(sides[i / 9][0], sides[i / 9][1], channels);
        struct encode_request request = {
            .format = format_by_name("avif"),
            .encoder = {.quality = 99, .effort = first_effort + (int)i / 3 % 3}};
        struct counting_sink sink = {
            .sink = {.buffer = buffer, .capacity = 65536, .flush = count_heap}};
        size_t before = heap_now();
        assert_int_equal(codec_encode(rig.context, &image, &request, &sink.sink, &rig.error),
                         STATUS_OK);
        size_t most = codec_encoder_bytes(request.format, image.width, image.height, channels,
                                          &request.encoder, 0);
        assert_in_range(sink.heap_bytes, before, before + most + heap_rounding);
        assert_true(sink.sink.total <= codec_encoded_bytes(request.format, image.width,
                                                           image.height, channels, &request.encoder,
                                                           0));
        free(image.pixels);
    }
    free(buffer);
}

/* ---- how it ends ---- */

/* A caller that leaves when it is asked for the second time. */
struct leaver {
    struct codec_caller caller;
    int calls;
};

static bool leaves(const struct codec_caller *caller)
{
    struct leaver *self = (struct leaver *)(uintptr_t)caller;
    return ++self->calls >= 2;
}

TEST(test_cancelled)
{
    struct image image = scene(100, 500, 3);
    struct leaver leaver = {.caller.is_gone = leaves};
    struct encode_request request = {.format = format_by_name("avif"),
                                     .encoder = {.quality = 60, .effort = last_effort},
                                     .caller = &leaver.caller};
    struct rig_sink sink = {.bytes_max = 0};
    assert_int_equal(rig_encode_into(&rig, &image, &request, 65536, &sink), STATUS_CANCELLED);
    assert_string_equal(rig.error.text, "the job ended amid an AVIF of 100 x 500 pixels");
    assert_int_equal(leaver.calls, 2);
    assert_int_equal(sink.file.length, 0);
    picture_free(&sink.file);
    request.caller = NULL;
    assert_int_equal(rig_encode_into(&rig, &image, &request, 65536, &sink), STATUS_OK);
    picture_free(&sink.file);
    free(image.pixels);
}

/* On a busy machine, the deadline may pass before the start. */
TEST(test_deadline)
{
    struct image image = scene(2000, 1000, 3);
    struct encode_request request = {.format = format_by_name("avif"),
                                     .encoder = {.quality = 60, .effort = first_effort}};
    struct rig_sink sink = {.bytes_max = 0};
    for (int tries = 0; tries == 0 || (tries < 1000 && strstr(rig.error.text, "before its start"));
         tries++) {
        request.deadline_ns = clock_now_ns() + 1000000;
        assert_int_equal(rig_encode_into(&rig, &image, &request, 65536, &sink), STATUS_TIMEOUT);
        assert_int_equal(sink.file.length, 0);
        picture_free(&sink.file);
    }
    assert_string_equal(rig.error.text,
                        "the deadline for encoding passed amid an AVIF of 2000 x 1000 pixels");
    free(image.pixels);
}

/* A sink that fails ends the encode with its status. */
TEST(test_full_disk)
{
    struct image image = texture(301, 200);
    struct encode_request request = {.format = format_by_name("avif"),
                                     .encoder = {.quality = 95, .effort = first_effort}};
    struct rig_sink sink = {.bytes_max = 8192};
    assert_int_equal(rig_encode_into(&rig, &image, &request, 4096, &sink), STATUS_OUT_OF_MEMORY);
    assert_true(sink.file.length <= sink.bytes_max);
    picture_free(&sink.file);
    free(image.pixels);
}

/* ---- a size ---- */

/* The search finds a quality whose file fits and has almost the size, and at quality 100, which is
 * libaom's, goes on with the own encoder. */
TEST(test_max_bytes)
{
    static const int qualities[] = {60, 99, 100}, percents[] = {90, 60, 30, 15};
    uint8_t *buffer = malloc(4096);
    struct image image = texture(301, 200);
    assert_non_null(buffer);
    for (size_t i = 0; i < COUNT_OF(qualities) * COUNT_OF(percents); i++) {
        struct encode_request request = {
            .format = format_by_name("avif"),
            .encoder = {.quality = qualities[i / 4], .effort = first_effort + (int)(i % 3)}};
        struct picture_file largest = rig_encode(&rig, &image, &request);
        int quality = 0, most = (int)largest.length * percents[i % 4] / 100;
        request.encoder.max_bytes = most;
        assert_int_equal(
            codec_find_quality(rig.context, &image, &request, buffer, 4096, &quality, &rig.error),
            STATUS_OK);
        assert_in_range(quality, 1, qualities[i / 4] - 1);
        request.encoder.quality = quality;
        struct picture_file file = rig_encode(&rig, &image, &request);
        assert_in_range(file.length, most * 4 / 5, most);
        assert_true(is_own(&file, &image, &request.encoder));
        picture_free(&file);
        picture_free(&largest);
    }
    free(buffer);
    free(image.pixels);
}

#else

TEST(test_nothing)
{
    skip();
}

#endif

TEST_MAIN(.name = "avif_own", .each_setup = rig_setup, .each_teardown = rig_teardown)
