/* Tests of AVIF sequences: written ones against libavif, and the frames that are read of them. */
#include "tests/fixtures/avif_rig.h"
#include "tests/fixtures/codec_rig.h"

#ifdef GPUIMGD_AVIF

#include "codecs/animation.h"
#include "codecs/movie.h"
#include "tests/fixtures/movie_file.h"

enum { FRAMES = 4, WIDTH = 37, HEIGHT = 21 };
static const uint32_t delays[FRAMES] = {0, 40, 16777215, UINT32_MAX};

/* An image of noise. alpha: 4 channels; is_opaque: all of them are 255. */
static struct picture_file encode(uint32_t width, uint32_t height, bool alpha, bool is_opaque,
                                  int effort, uint32_t seed)
{
    struct image image = rig_picture(width, height, alpha ? 4 : 3, seed);
    for (uint32_t y = 0; y < height && alpha; y++)
        for (uint32_t x = 0; x < width; x++)
            image.pixels[y * image.stride + 4 * x + 3] = is_opaque ? 255 : (uint8_t)(x * 9);
    struct picture_file file = rig_encode_as(&image, "avif", .encoder.quality = 70,
                                             .encoder.effort = effort, .keeps_alpha = true);
    free(image.pixels);
    return file;
}

/* Compares the frames with those of the stills. */
static void expect_frames(const struct picture_file *movie, const struct movie_part *frames,
                          bool alpha)
{
    avifDecoder *decoder = avifDecoderCreate();
    assert_int_equal(avifDecoderSetIOMemory(decoder, movie->bytes, movie->length), AVIF_RESULT_OK);
    assert_int_equal(avifDecoderParse(decoder), AVIF_RESULT_OK);
    assert_int_equal(decoder->imageCount, FRAMES);
    assert_int_equal(decoder->timescale, 1000);
    assert_int_equal(decoder->alphaPresent, alpha);
    for (int i = 0; i < FRAMES; i++) {
        assert_int_equal(avifDecoderNextImage(decoder), AVIF_RESULT_OK);
        assert_true(avifDecoderIsKeyframe(decoder, (uint32_t)i));
        assert_int_equal(decoder->imageTiming.durationInTimescales, delays[i] ? delays[i] : 1);
        avifImage *still = avif_read(&frames[i].file, AVIF_STRICT_ENABLED);
        assert_int_equal(decoder->image->alphaPlane != NULL, alpha);
        uint8_t *found = avif_pixels(decoder->image, AVIF_RGB_FORMAT_RGBA);
        uint8_t *wanted = avif_pixels(still, AVIF_RGB_FORMAT_RGBA);
        assert_memory_equal(found, wanted, (size_t)still->width * still->height * 4);
        free(found);
        free(wanted);
        avifImageDestroy(still);
    }
#if AVIF_VERSION_MAJOR >= 1
    assert_int_equal(decoder->repetitionCount, 2);
#endif
    avifDecoderDestroy(decoder);
}

/* Of the own encoder and of libaom; without alpha, and with frames that are opaque and not. */
TEST(test_movies_as_libavif_reads_them)
{
    for (int run = 0; run < 8; run++) {
        bool alpha = run & 1, is_small = run & 2;
        int effort = avif_both_efforts[run >> 2];
        uint32_t width = is_small ? 1 : WIDTH, height = is_small ? 1 : HEIGHT, plays;
        struct movie_part frames[FRAMES] = {0};
        for (uint32_t i = 0; i < FRAMES; i++)
            frames[i] = (struct movie_part){.file = encode(width, height, alpha, i % 2, effort, i),
                                            .delay_ms = delays[i]};
        struct picture_file movie = movie_join("avif", frames, FRAMES, width, height, 3, run & 4);
        assert_memory_equal(movie.bytes + 4, "ftypavis", 8);
        expect_frames(&movie, frames, alpha);
        /* our own reader */
        assert_int_equal(rig_expect_frames(&movie, FRAMES, &plays), UINT32_MAX);
        assert_int_equal(plays, 3);
        /* a reader without sequences */
        memcpy(movie.bytes + 8, "avif", 4);
        memcpy(movie.bytes + 16, "free", 4);
        avifImage *first = avif_read(&movie, AVIF_STRICT_ENABLED);
        assert_int_equal(first->width, width);
        assert_int_equal(first->alphaPlane != NULL, alpha);
        avifImageDestroy(first);
        picture_free(&movie);
        for (int i = 0; i < FRAMES; i++)
            picture_free(&frames[i].file);
    }
}

static struct picture_file short_movie(uint32_t plays, const struct picture_file *icc)
{
    struct image image = rig_picture(16, 8, 3, 5);
    struct picture_file file =
        rig_encode_as(&image, "avif", .encoder.quality = 50, .encoder.effort = 1,
                      .icc = icc ? icc->bytes : NULL, .icc_bytes = icc ? icc->length : 0);
    struct movie_part frames[2] = {{file, 10, 0}, {file, 20, 0}};
    struct picture_file movie = movie_join("avif", frames, 2, 16, 8, plays, true);
    assert_in_range(frames[0].most, 1, 32 * KIB);
    picture_free(&file);
    free(image.pixels);
    return movie;
}

TEST(test_number_of_plays)
{
    static const uint32_t all[] = {0, 1, 2, 65536, UINT32_MAX};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        uint32_t plays;
        struct picture_file movie = short_movie(all[i], NULL);
        assert_int_equal(rig_expect_frames(&movie, 2, &plays), 20);
        assert_int_equal(plays, all[i]);
        picture_free(&movie);
    }
    uint32_t plays; /* libavif 0.11 says nothing, so it is shown for ever */
    struct picture_file theirs = make_avif(.width = 30, .height = 20, .frames = 2);
    rig_expect_frames(&theirs, 2, &plays);
    assert_int_equal(plays, 0);
    picture_free(&theirs);
}

TEST(test_profile_of_a_movie)
{
    struct picture_file icc = picture_icc(600, "RGB "), movie = short_movie(0, &icc);
    rig_reads(&movie, STATUS_OK, NULL);
    assert_int_equal(rig.info.icc_bytes, icc.length);
    assert_memory_equal(rig.info.icc, icc.bytes, icc.length);
    picture_free(&icc);
    picture_free(&movie);
}

/* Frames of gpuimgd's encoder and of libaom, whose levels differ for such sizes. */
TEST(test_levels_of_frames)
{
    static const int orders[2][2] = {{0, 1}, {1, 0}};
    for (int i = 0; i < 2; i++) {
        struct movie_part frames[2] = {{.delay_ms = 30}, {.delay_ms = 40}};
        uint32_t plays;
        for (int k = 0; k < 2; k++)
            frames[k].file = encode(12, 12, false, false, avif_both_efforts[orders[i][k]], 9);
        struct picture_file movie = movie_join("avif", frames, 2, 12, 12, 0, true);
        assert_int_equal(rig_expect_frames(&movie, 2, &plays), 40);
        avifImageDestroy(avif_read(&movie, AVIF_STRICT_ENABLED));
        picture_free(&movie);
        for (int k = 0; k < 2; k++)
            picture_free(&frames[k].file);
    }
}

static enum status swallow(void *context, const uint8_t *bytes, size_t length, struct error *error)
{
    (void)context, (void)bytes, (void)length, (void)error;
    return STATUS_OK;
}

/* A frame comes from the codec process, which hostile code may run. */
TEST(test_damaged_frames)
{
    struct picture_file file = encode(16, 8, true, true, 0, 3);
    uint32_t random = 5;
    int refused = 0;
    for (size_t i = 0; i < 4 * file.length; i++) {
        struct movie movie = {.format = &formats[FORMAT_avif]};
        struct error error = {0};
        uint8_t *head;
        size_t bytes;
        struct picture_file damaged = i < file.length
                                          ? picture_cut(&file, i)
                                          : picture_damage(&file, 0, file.length / 2, &random);
        const struct movie_frame frame = {.bytes = damaged.bytes,
                                          .length = damaged.length,
                                          .width = 16,
                                          .height = 8,
                                          .frames = 2};
        enum status status = movie_add(&movie, &frame, swallow, NULL, &error);
        assert_true(status == STATUS_OK || status == STATUS_ENCODE_FAILED);
        refused += status != STATUS_OK;
        if (status == STATUS_OK) {
            assert_int_equal(movie_head(&movie, &head, &bytes, &error), STATUS_OK);
            free(head);
        }
        movie_clear(&movie);
        picture_free(&damaged);
    }
    assert_true(refused > (int)file.length / 2);
    picture_free(&file);
}

/* Plays a file that may be damaged. Returns the frames that were read. */
static uint32_t play(const struct picture_file *file)
{
    struct codec_animation animation;
    struct error error = {0};
    uint32_t frames = 0;
    if (codec_animation_open(&animation, file->bytes, file->length, &rig.limits, &error) ==
            STATUS_OK &&
        codec_is_animation(&animation.info)) {
        uint32_t width = animation.info.width, height = animation.info.height;
        struct image canvas = {calloc(4, (size_t)width * height), width, height, 4,
                               4 * (size_t)width};
        while (frames < animation.info.frames &&
               codec_animation_next(&animation, &canvas, &error) == STATUS_OK)
            frames++;
        free(canvas.pixels);
    }
    codec_animation_close(&animation);
    return frames;
}

TEST(test_damaged_movies)
{
    struct picture_file movie = short_movie(2, NULL);
    uint32_t random = 11;
    rig.limits.pixels_max = 1 << 16;
    assert_int_equal(play(&movie), 2);
    for (double part = 0.05; part < 1; part += 0.1) {
        struct picture_file cut = picture_cut_at(&movie, part);
        assert_true(play(&cut) < 2);
        picture_free(&cut);
    }
    for (int i = 0; i < 30; i++) {
        struct picture_file damaged = picture_damage(&movie, 30, movie.length, &random);
        assert_true(play(&damaged) <= 10000);
        picture_free(&damaged);
    }
    /* a table of delays that claims four milliards of rows */
    uint8_t *times = memmem(movie.bytes, movie.length, "stts", 4);
    assert_non_null(times);
    memset(times + 8, 0xFF, 4);
    assert_int_equal(play(&movie), 0);
    picture_free(&movie);
}

#else

TEST(test_movies_as_libavif_reads_them)
{
    skip();
}

#endif

TEST_MAIN(.name = "avif_movie", .each_setup = rig_setup, .each_teardown = rig_teardown)
