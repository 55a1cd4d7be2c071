/* Tests of contact strips, against the pages that a decode of one frame gives. */
#include "tests/fixtures/codec_rig.h"

#if defined GPUIMGD_GIF

#include "codecs/strip.h"
#include "tests/fixtures/gif_file.h"

enum { WIDTH = 21, HEIGHT = 13, FRAMES = 6 };

static struct picture_file make_gif(bool is_opaque)
{
    struct gif_frame frames[FRAMES] = {{.width = WIDTH, .height = HEIGHT, .seed = 9}};
    for (int i = 1; i < FRAMES; i++)
        frames[i] = (struct gif_frame){.x = (uint16_t)i,
                                       .y = 2,
                                       .width = 9,
                                       .height = 8,
                                       .seed = (uint32_t)i,
                                       .disposal = is_opaque ? 1 : 1 + i % 3};
    struct gif_file gif = {.width = WIDTH, .height = HEIGHT, .frames = frames, .count = FRAMES};
    return gif_write(&gif);
}

static struct image strip; /* of the last test; packed rows */

static enum status read_strip(const struct picture_file *file, uint32_t count)
{
    const struct decode_request request = {.as = DECODE_COLOUR};
    image_info_clear(&rig.info);
    rig.error = (struct error){0};
    free(strip.pixels);
    strip = (struct image){.pixels = NULL};
    if (strip_probe(rig.context, file->bytes, file->length, &rig.limits, count, &rig.info,
                    &rig.error) != STATUS_OK)
        return rig.error.status;
    strip = (struct image){.width = rig.info.width,
                           .height = rig.info.height,
                           .channels = rig.info.channels,
                           .stride = (size_t)rig.info.width * rig.info.channels};
    strip.pixels = malloc(strip.stride * strip.height);
    return strip_decode(rig.context, file->bytes, file->length, &rig.info, &request, &rig.limits,
                        &strip, &rig.error);
}

/* The frame as RGBA. */
static void expect_frame(const struct picture_file *file, uint32_t page, uint32_t place)
{
    rig.limits.page = page;
    rig_reads(file, STATUS_OK, NULL);
    assert_int_equal(rig.info.width * rig.info.height, WIDTH * HEIGHT);
    for (uint32_t y = 0; y < HEIGHT; y++)
        for (uint32_t x = 0; x < WIDTH; x++) {
            const uint8_t *frame = rig.image.pixels + y * rig.image.stride + x * rig.image.channels;
            const uint8_t *found =
                strip.pixels + (y * strip.width + place * WIDTH + x) * strip.channels;
            uint8_t alpha = rig.image.channels == 4 ? frame[3] : 255;
            assert_memory_equal(found, frame, 3);
            assert_int_equal(strip.channels == 4 ? found[3] : 255, alpha);
        }
    rig.limits.page = 0;
}

/* The status must be `wanted`, and the message must contain `part`. */
static void reads(const struct picture_file *file, uint32_t count, enum status wanted,
                  const char *part)
{
    assert_int_equal(read_strip(file, count), wanted);
    if (!strstr(rig.error.text, part))
        fail_msg("%s; expected \"%s\"", rig.error.text, part);
}

TEST(test_strips_are_pages)
{
    static const uint32_t counts[] = {2, 3, 4, 6, 7, 64};
    static const uint32_t frames[][FRAMES] = {{0, 5},
                                              {0, 3, 5},
                                              {0, 2, 3, 5},
                                              {0, 1, 2, 3, 4, 5},
                                              {0, 1, 2, 3, 4, 5},
                                              {0, 1, 2, 3, 4, 5}};
    for (int i = 0; i < 12; i++) {
        bool is_opaque = i % 2;
        struct picture_file file = make_gif(is_opaque);
        uint32_t count = counts[i / 2], places = count < FRAMES ? count : FRAMES;
        reads(&file, count, STATUS_OK, "");
        assert_int_equal(rig.info.strip, places);
        assert_int_equal(rig.info.frames, FRAMES);
        assert_int_equal(strip.width, places * WIDTH);
        assert_int_equal(strip.height, HEIGHT);
        assert_int_equal(strip.channels, is_opaque ? 3 : 4);
        for (uint32_t place = 0; place < places; place++)
            expect_frame(&file, frames[i / 2][place], place);
        picture_free(&file);
    }
}

/* One frame is no strip. */
TEST(test_images_without_strip)
{
    struct picture_file jpeg = make_jpeg(.width = 40, .height = 30);
    reads(&jpeg, 4, STATUS_OK, "");
    assert_int_equal(rig.info.strip, 0);
    assert_int_equal(rig.info.width, 40);
    struct picture_file apng = make_png(.width = 20, .height = 10, .colour_type = 2);
    picture_png_insert(&apng, "IDAT", "acTL", "\0\0\0\3\0\0\0\0", 8);
    reads(&apng, 4, STATUS_DECODE_FAILED, "frame 0 of the PNG is missing or damaged");
    picture_free(&jpeg);
    picture_free(&apng);
}

TEST(test_limits_of_strips)
{
    struct picture_file file = make_gif(true);
    rig.limits.side_max = 4 * WIDTH - 1;
    reads(&file, 4, STATUS_IMAGE_TOO_LARGE,
          "a strip of 4 frames of the GIF is 84 x 13 pixels; at most");
    rig.limits.side_max = 4 * WIDTH;
    reads(&file, 4, STATUS_OK, "");
    rig.limits.pixels_max = 4 * WIDTH * HEIGHT - 1;
    reads(&file, 4, STATUS_IMAGE_TOO_LARGE, "choose fewer frames");
    rig.limits.pixels_max = PIXELS_DEFAULT;
    rig.limits.deadline_ns = 1;
    reads(&file, 4, STATUS_DECODE_LIMIT, "");
    picture_free(&file);
}

TEST(test_damaged_strips)
{
    struct picture_file file = make_gif(false);
    uint32_t random = 3;
    for (double part = 0.1; part < 1; part += 0.08) {
        struct picture_file cut = picture_cut_at(&file, part);
        (void)!read_strip(&cut, 3);
        picture_free(&cut);
    }
    for (int i = 0; i < 40; i++) {
        struct picture_file damaged = picture_damage(&file, 6, file.length, &random);
        rig.limits.pixels_max = 1 << 20;
        (void)!read_strip(&damaged, 3);
        picture_free(&damaged);
    }
    reads(&file, 3, STATUS_OK, "");
    picture_free(&file);
}

#else

TEST(test_strips_are_pages)
{
    skip();
}

#endif

TEST_MAIN(.name = "strip", .each_setup = rig_setup, .each_teardown = rig_teardown)
