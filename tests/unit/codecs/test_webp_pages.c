/* Tests of the pages of WebP animations against libwebp's animation decoder. */
#include "tests/fixtures/codec_rig.h"

#ifdef GPUIMGD_WEBP

#include "tests/fixtures/movie_file.h"

#include <webp/demux.h>
#include <webp/encode.h>
#include <webp/mux.h>

enum { WIDTH = 24, HEIGHT = 16, FRAMES = 9 };

struct frame {
    uint32_t x, y, width, height, channels, seed;
    bool overwrites, clears, lossy;
};

static void push(WebPMux *mux, const struct frame *frame)
{
    uint8_t *pixels = picture_pixels(frame->width, frame->height, frame->channels, frame->seed);
    uint8_t *bytes;
    int width = (int)frame->width, height = (int)frame->height;
    int stride = (int)(frame->width * frame->channels);
    size_t length = frame->channels == 4
                        ? frame->lossy
                              ? WebPEncodeRGBA(pixels, width, height, stride, 70, &bytes)
                              : WebPEncodeLosslessRGBA(pixels, width, height, stride, &bytes)
                        : WebPEncodeLosslessRGB(pixels, width, height, stride, &bytes);
    assert_true(length > 0);
    WebPMuxFrameInfo info = {
        .bitstream = {bytes, length},
        .x_offset = (int)frame->x,
        .y_offset = (int)frame->y,
        .duration = 40,
        .id = WEBP_CHUNK_ANMF,
        .dispose_method = frame->clears ? WEBP_MUX_DISPOSE_BACKGROUND : WEBP_MUX_DISPOSE_NONE,
        .blend_method = frame->overwrites ? WEBP_MUX_NO_BLEND : WEBP_MUX_BLEND};
    assert_int_equal(WebPMuxPushFrame(mux, &info, 1), WEBP_MUX_OK);
    WebPFree(bytes);
    free(pixels);
}

static struct picture_file animation(const struct frame *frames, int count)
{
    WebPMux *mux = WebPMuxNew();
    WebPMuxAnimParams params = {.bgcolor = 0xFF00FF00, .loop_count = 7};
    WebPData out;
    assert_int_equal(WebPMuxSetAnimationParams(mux, &params), WEBP_MUX_OK);
    for (int i = 0; i < count; i++)
        push(mux, &frames[i]);
    assert_int_equal(WebPMuxSetCanvasSize(mux, WIDTH, HEIGHT), WEBP_MUX_OK);
    assert_int_equal(WebPMuxAssemble(mux, &out), WEBP_MUX_OK);
    WebPMuxDelete(mux);
    struct picture_file whole = {(uint8_t *)(uintptr_t)out.bytes, out.size};
    struct picture_file file = picture_cut(&whole, out.size);
    WebPDataClear(&out);
    return file;
}

/* Compares a page with the canvas of libwebp, which has four channels. */
static void expect_page(const struct picture_file *file, uint32_t page, int count, uint8_t *canvas)
{
    rig.limits.page = page;
    rig_reads(file, STATUS_OK, NULL);
    assert_int_equal(rig.info.frames, count);
    if (rig.info.channels == 4) {
        rig_expect_pixels(&rig, canvas, 4);
        return;
    }
    uint8_t packed[WIDTH * HEIGHT * 3];
    for (size_t i = 0; i < (size_t)WIDTH * HEIGHT; i++) {
        assert_int_equal(canvas[4 * i + 3], 255);
        memcpy(packed + 3 * i, canvas + 4 * i, 3);
    }
    rig_expect_pixels(&rig, packed, 3);
}

static void expect_pages(const struct picture_file *file, int count)
{
    WebPData data = {file->bytes, file->length};
    WebPAnimDecoder *decoder = WebPAnimDecoderNew(&data, NULL);
    uint8_t *canvas;
    int time;
    assert_non_null(decoder);
    for (int i = 0; i < count; i++) {
        assert_true(WebPAnimDecoderGetNext(decoder, &canvas, &time));
        expect_page(file, (uint32_t)i, count, canvas);
    }
    WebPAnimDecoderDelete(decoder);
    uint32_t plays;
    assert_int_equal(rig_expect_frames(file, (uint32_t)count, &plays), 40);
    assert_int_equal(plays, 7);
}

static struct frame random_frame(uint32_t *state)
{
    bool is_all = picture_random(state) % 3 == 0;
    struct frame frame = {.channels = 3 + picture_random(state) % 2,
                          .seed = picture_random(state),
                          .overwrites = picture_random(state) % 3 == 0,
                          .clears = picture_random(state) % 3 == 0,
                          .lossy = picture_random(state) % 3 == 0};
    frame.x = is_all ? 0 : picture_random(state) % (WIDTH / 2) / 2 * 2;
    frame.y = is_all ? 0 : picture_random(state) % (HEIGHT / 2) / 2 * 2;
    frame.width = is_all ? WIDTH : 1 + picture_random(state) % (WIDTH - frame.x);
    frame.height = is_all ? HEIGHT : 1 + picture_random(state) % (HEIGHT - frame.y);
    return frame;
}

TEST(test_pages_are_those_of_libwebp)
{
    uint32_t random = 20;
    for (int i = 0; i < 60; i++) {
        struct frame frames[FRAMES];
        for (int n = 0; n < FRAMES; n++)
            frames[n] = random_frame(&random);
        struct picture_file file = animation(frames, FRAMES);
        expect_pages(&file, FRAMES);
        picture_free(&file);
    }
}

/* Frames that let the page be without alpha, and one that does not. */
TEST(test_channels_of_pages)
{
    const struct frame opaque = {.width = WIDTH, .height = HEIGHT, .channels = 3, .seed = 1};
    const struct frame small = {.x = 2, .y = 2, .width = 5, .height = 5, .channels = 4, .seed = 2};
    struct frame frames[] = {small, opaque, small, small, opaque};
    static const uint32_t channels[] = {4, 3, 3, 4, 3};
    frames[2].clears = true;
    struct picture_file file = animation(frames, 5);
    for (uint32_t i = 0; i < 5; i++) {
        rig.limits.page = i;
        rig_reads(&file, STATUS_OK, NULL);
        assert_int_equal(rig.info.channels, channels[i]);
    }
    rig.limits.page = 5; /* the pipeline refuses it */
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    assert_int_equal(rig.info.frames, 5);
    picture_free(&file);
}

/* A frame that is on the disk is never in memory as a whole. */
TEST(test_movie_of_parts)
{
    struct movie_part frames[2] = {0};
    for (uint32_t i = 0; i < 2; i++) {
        struct image image = rig_picture(300, 200, 3, i);
        frames[i].file = rig_encode_as(&image, "webp", .encoder.lossless = true);
        assert_true(frames[i].file.length > 100000);
        free(image.pixels);
    }
    for (uint32_t count = 1; count <= 2; count++) {
        struct picture_file whole = movie_join("webp", frames, count, 300, 200, 0, false);
        struct picture_file parts = movie_join("webp", frames, count, 300, 200, 0, true);
        assert_int_equal(whole.length, parts.length);
        assert_memory_equal(whole.bytes, parts.bytes, whole.length);
        picture_free(&whole);
        picture_free(&parts);
    }
    for (int i = 0; i < 2; i++) {
        assert_in_range(frames[i].most, 1, 32 * KIB);
        picture_free(&frames[i].file);
    }
}

/* Frames without an image count, too: they fail when they are read. */
TEST(test_too_many_pages)
{
    static const uint8_t frame[8 + 16] = {'A', 'N', 'M', 'F', 16};
    struct frame frames[2] = {{.width = WIDTH, .height = HEIGHT, .channels = 3}};
    frames[1] = frames[0];
    struct picture_file file = animation(frames, 2);
    size_t length = file.length + (FRAMES_MAX - 1) * sizeof frame;
    file.bytes = realloc(file.bytes, length);
    assert_non_null(file.bytes);
    for (; file.length < length; file.length += sizeof frame)
        memcpy(file.bytes + file.length, frame, sizeof frame);
    for (int i = 0; i < 4; i++)
        file.bytes[4 + i] = (uint8_t)((length - 8) >> 8 * i);
    rig_reads(&file, STATUS_DECODE_LIMIT, "the WebP has more than 65536 frames");
    file.length -= sizeof frame;
    rig_reads(&file, STATUS_OK, NULL);
    assert_int_equal(rig.info.frames, FRAMES_MAX);
    picture_free(&file);
}

TEST(test_damaged_pages)
{
    uint32_t random = 7;
    struct frame frames[3];
    for (int i = 0; i < 3; i++)
        frames[i] = random_frame(&random);
    struct picture_file file = animation(frames, 3);
    rig.limits.page = 2;
    for (size_t length = 12; length <= file.length; length++) {
        struct picture_file cut = picture_cut(&file, length);
        enum status status = rig_probe(&rig, &cut);
        assert_true(status != STATUS_OK || rig.info.ends_early == (length < file.length));
        if (status == STATUS_OK && rig.info.frames == 3)
            (void)!rig_decode(&rig, &cut, DECODE_COLOUR);
        picture_free(&cut);
    }
    for (int i = 0; i < 300; i++) {
        struct picture_file damaged = picture_damage(&file, 30, file.length, &random);
        if (rig_probe(&rig, &damaged) == STATUS_OK && rig.info.frames == 3)
            (void)!rig_decode(&rig, &damaged, DECODE_COLOUR);
        picture_free(&damaged);
    }
    rig_reads(&file, STATUS_OK, NULL);
    picture_free(&file);
}

/* The format counts up to 65535; 0 is for ever. */
TEST(test_number_of_plays)
{
    static const uint32_t given[] = {0, 1, 65535, 65536, UINT32_MAX};
    static const uint32_t written[] = {0, 1, 65535, 65535, 65535};
    for (size_t i = 0; i < COUNT_OF(given); i++) {
        struct movie_part frames[2] = {{.delay_ms = 10}, {.delay_ms = 20}};
        uint32_t plays;
        for (int k = 0; k < 2; k++) {
            struct image image = rig_picture(20, 10, 3, (uint32_t)k);
            frames[k].file = rig_encode_as(&image, "webp", .encoder.lossless = 1);
            free(image.pixels);
        }
        struct picture_file movie = movie_join("webp", frames, 2, 20, 10, given[i], false);
        assert_int_equal(rig_expect_frames(&movie, 2, &plays), 20);
        assert_int_equal(plays, written[i]);
        picture_free(&movie);
        picture_free(&frames[0].file);
        picture_free(&frames[1].file);
    }
}

/* A frame that claims more bytes than the file has hides the frames after it. */
TEST(test_hidden_frames)
{
    uint32_t random = 9;
    struct frame frames[3];
    for (int i = 0; i < 3; i++)
        frames[i] = random_frame(&random);
    struct picture_file file = animation(frames, 3);
    uint8_t *first = memmem(file.bytes, file.length, "ANMF", 4);
    assert_non_null(first);
    first[6] = 1; /* 64 KiB more */
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    assert_int_equal(rig.info.frames, 1);
    assert_true(rig.info.ends_early);
    picture_free(&file);
}

#else

TEST(test_pages_are_those_of_libwebp)
{
    skip();
}

#endif

TEST_MAIN(.name = "webp_pages", .each_setup = rig_setup, .each_teardown = rig_teardown)
