/* Tests of the GIF codec with files of giflib's encoder. The pages are composed from the
 * definition; tests/peers/check_gif.py compares with other readers. */
#include "tests/fixtures/codec_rig.h"

#ifdef GPUIMGD_GIF

#include <signal.h>

#include "codecs/animation.h"
#include "tests/fixtures/gif_file.h"

enum { SIDE_MAX = 64, DISPOSALS = 8 };

/* A canvas of RGBA. Pixels that no frame has drawn are 0. */
struct canvas {
    uint32_t width, height;
    uint8_t pixels[SIDE_MAX * SIDE_MAX * 4];
};

static struct canvas canvas_of(const struct gif_file *gif)
{
    const struct gif_frame *first = &gif->frames[0];
    uint32_t right = first->x + first->width, bottom = first->y + first->height;
    return (struct canvas){.width = gif->width > right ? gif->width : right,
                           .height = gif->height > bottom ? gif->height : bottom};
}

static void draw(struct canvas *canvas, const struct gif_file *gif, const struct gif_frame *frame)
{
    for (uint32_t y = 0; y < frame->height && frame->y + y < canvas->height; y++)
        for (uint32_t x = 0; x < frame->width && frame->x + x < canvas->width; x++) {
            int index = gif_pixel(frame->seed, x, y);
            uint8_t *to = canvas->pixels + ((frame->y + y) * canvas->width + frame->x + x) * 4;
            if (index == frame->transparent - 1)
                continue;
            if (gif->no_palette && !frame->local)
                memcpy(to, (uint8_t[]){(uint8_t)index, (uint8_t)index, (uint8_t)index, 255}, 4);
            else
                gif_colour(index, frame->local, to);
        }
}

static void clear(struct canvas *canvas, const struct gif_frame *frame)
{
    for (uint32_t y = frame->y; y < (uint32_t)frame->y + frame->height && y < canvas->height; y++)
        for (uint32_t x = frame->x; x < (uint32_t)frame->x + frame->width && x < canvas->width; x++)
            memset(canvas->pixels + (y * canvas->width + x) * 4, 0, 4);
}

/* Compares the decoded page with the canvas. */
static void expect_page(const struct picture_file *file, const struct gif_file *gif, uint32_t page,
                        struct canvas *canvas)
{
    uint8_t packed[SIDE_MAX * SIDE_MAX * 3];
    size_t pixels = (size_t)canvas->width * canvas->height;
    rig.limits.page = page;
    rig_reads(file, STATUS_OK, NULL);
    assert_int_equal(rig.info.frames, gif->count);
    assert_int_equal(rig.info.width, canvas->width);
    assert_int_equal(rig.info.height, canvas->height);
    for (size_t i = 0; rig.info.channels == 3 && i < pixels; i++) {
        assert_int_equal(canvas->pixels[4 * i + 3], 255);
        memcpy(packed + 3 * i, canvas->pixels + 4 * i, 3);
    }
    rig_expect_pixels(&rig, rig.info.channels == 3 ? packed : canvas->pixels, rig.info.channels);
}

static void expect_pages(const struct gif_file *gif)
{
    struct picture_file file = gif_write(gif);
    struct canvas canvas = canvas_of(gif);
    for (int i = 0; i < gif->count; i++) {
        const struct gif_frame *frame = &gif->frames[i];
        struct canvas before = canvas;
        draw(&canvas, gif, frame);
        expect_page(&file, gif, (uint32_t)i, &canvas);
        if (frame->disposal == 2)
            clear(&canvas, frame);
        if (frame->disposal == 3 || frame->disposal == 4)
            canvas = before;
    }
    uint32_t plays, delay_ms = rig_expect_frames(&file, (uint32_t)gif->count, &plays);
    if (gif->count > 1) {
        assert_int_equal(delay_ms, 10 * gif->frames[gif->count - 1].delay);
        assert_int_equal(plays, gif->loops == 0 ? 1 : gif->loops == 1 ? 0 : gif->loops);
    }
    picture_free(&file);
}

static struct gif_frame random_frame(uint32_t *random, bool interlaced)
{
    bool is_all = picture_random(random) % 3 == 0;
    struct gif_frame frame = {.seed = picture_random(random),
                              .disposal = (int)(picture_random(random) % DISPOSALS),
                              .interlaced = interlaced,
                              .local = picture_random(random) % 2,
                              .delay = (int)(picture_random(random) % 9)};
    if (picture_random(random) % 2)
        frame.transparent = 1 + (int)(picture_random(random) % GIF_COLOURS);
    frame.x = is_all ? 0 : (uint16_t)(picture_random(random) % 40);
    frame.y = is_all ? 0 : (uint16_t)(picture_random(random) % 24);
    frame.width = is_all ? 31 : (uint16_t)(1 + picture_random(random) % 20);
    frame.height = is_all ? 19 : (uint16_t)(1 + picture_random(random) % 20);
    return frame;
}

/* All disposals, palettes, transparent colours, and frames in part beside the canvas. */
TEST(test_animations)
{
    uint32_t random = 5;
    for (int i = 0; i < 40; i++) {
        struct gif_frame frames[8];
        for (int n = 0; n < 8; n++)
            frames[n] = random_frame(&random, i % 2);
        if (i % 3) /* otherwise it may enlarge the canvas */
            frames[0] = (struct gif_frame){.width = 31, .height = 19, .seed = 1};
        expect_pages(&(struct gif_file){.width = 31,
                                        .height = 19,
                                        .frames = frames,
                                        .count = 8,
                                        .loops = i % 4,
                                        .comment = i % 5 == 0});
    }
}

TEST(test_sizes)
{
    static const uint16_t sides[][2] = {{1, 1}, {1, 9}, {9, 1}, {7, 8}, {64, 3}, {5, 64}, {40, 40}};
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (int interlaced = 0; interlaced < 2; interlaced++) {
            struct gif_frame frame = {.width = sides[i][0],
                                      .height = sides[i][1],
                                      .seed = (uint32_t)i,
                                      .interlaced = interlaced};
            expect_pages(&(struct gif_file){
                .width = frame.width, .height = frame.height, .frames = &frame, .count = 1});
            assert_int_equal(rig.info.channels, 3);
            /* without a palette, the indexes are gray, and without a screen, the frame is it */
            expect_pages(&(struct gif_file){.frames = &frame, .count = 1, .no_palette = true});
        }
}

/* Alpha only if a frame can leave transparent pixels. */
TEST(test_channels)
{
    const struct gif_frame all = {.width = 20, .height = 10, .seed = 1};
    const struct gif_frame part = {.x = 3, .y = 3, .width = 5, .height = 5, .transparent = 2};
    struct gif_frame frames[] = {part, all, part, part, part, all};
    static const uint32_t channels[] = {4, 3, 3, 3, 4, 3};
    frames[2].disposal = 3;
    frames[3].disposal = 2;
    struct gif_file gif = {.width = 20, .height = 10, .frames = frames, .count = 6};
    struct picture_file file = gif_write(&gif);
    for (uint32_t i = 0; i < 6; i++) {
        rig.limits.page = i;
        rig_reads(&file, STATUS_OK, NULL);
        assert_int_equal(rig.info.channels, channels[i]);
    }
    expect_pages(&gif);
    rig.limits.page = 6; /* the pipeline refuses it */
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    assert_int_equal(rig.info.frames, 6);
    picture_free(&file);
}

/* The probe sees only parts of a large file at a time, with many blocks between them. */
TEST(test_large_file)
{
    enum { count = 900 };
    static struct gif_frame frames[count];
    for (int i = 0; i < count; i++)
        frames[i] = (struct gif_frame){.width = 64, .height = 60, .seed = (uint32_t)i};
    struct gif_file gif = {.width = 64, .height = 60, .frames = frames, .count = count};
    struct picture_file file = gif_write(&gif);
    assert_true(file.length > 300000);
    struct canvas canvas = canvas_of(&gif);
    draw(&canvas, &gif, &frames[count - 1]);
    expect_page(&file, &gif, count - 1, &canvas);
    picture_free(&file);
}

/* ---- damage --------------------------------------------------------------------------------- */

static struct picture_file small_file(void)
{
    static const struct gif_frame frames[] = {
        {.width = 9, .height = 7, .seed = 3},
        {.x = 2, .y = 1, .width = 6, .height = 5, .seed = 4, .transparent = 3, .interlaced = true},
        {.x = 1, .width = 4, .height = 4, .seed = 5, .local = true, .disposal = 2, .delay = 7}};
    return gif_write(&(struct gif_file){
        .width = 9, .height = 7, .frames = frames, .count = 3, .loops = 1, .comment = true});
}

static void try_pages(const struct picture_file *file)
{
    for (rig.limits.page = 0; rig.limits.page < 3; rig.limits.page++)
        if (rig_probe(&rig, file) == STATUS_OK && rig.info.frames > rig.limits.page)
            (void)!rig_decode(&rig, file, DECODE_COLOUR);
}

TEST(test_prefixes)
{
    struct picture_file file = small_file();
    uint32_t frames = 0;
    for (size_t length = 6; length < file.length; length++) {
        struct picture_file cut = picture_cut(&file, length);
        rig.limits.page = 0;
        if (rig_probe(&rig, &cut) == STATUS_OK) {
            assert_true(rig.info.frames >= frames); /* more bytes, more frames */
            assert_true(rig.info.ends_early);       /* at least the trailer is missing */
            frames = rig.info.frames;
        } else {
            assert_int_equal(rig.error.status, STATUS_DECODE_FAILED);
            assert_int_equal(frames, 0);
        }
        try_pages(&cut);
        picture_free(&cut);
    }
    assert_int_equal(frames, 3);
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    assert_false(rig.info.ends_early);
    struct picture_file cut = picture_cut(&file, file.length - 1); /* only the trailer is missing */
    rig.limits.page = 2;
    rig_reads_once(cut, STATUS_OK, NULL);
    cut = picture_cut(&file, file.length - 4);
    rig_reads_once(cut, STATUS_DECODE_FAILED, "the GIF's data ends in frame 2");
    picture_free(&file);
}

/* All frames are read only of a complete file, or if the limits are lenient. */
TEST(test_truncated_animation)
{
    struct picture_file file = small_file(), cut = picture_cut(&file, file.length - 1);
    struct error error = {0};
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    assert_true(codec_has_all_frames(&rig.info, &rig.limits, &error));
    assert_int_equal(rig_probe(&rig, &cut), STATUS_OK);
    assert_false(codec_has_all_frames(&rig.info, &rig.limits, &error));
    assert_int_equal(error.status, STATUS_DECODE_FAILED);
    assert_non_null(strstr(error.text, "the GIF is truncated or damaged: after the first 3 of "));
    rig.limits.lenient = true;
    assert_true(codec_has_all_frames(&rig.info, &rig.limits, &error));
    picture_free(&cut);
    picture_free(&file);
}

TEST(test_flipped_bits)
{
    struct picture_file file = small_file();
    for (size_t bit = 6 * 8; bit < file.length * 8; bit++) {
        file.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        rig.limits.page = 2;
        rig.limits.pixels_max = 1000000;
        if (rig_probe(&rig, &file) == STATUS_OK && rig.info.frames > 2)
            (void)!rig_decode(&rig, &file, DECODE_COLOUR);
        file.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    rig_reads_once(file, STATUS_OK, NULL);
}

#define SCREEN(width, height) "GIF89a" width height "\0\0\0"

static void fails(const char *bytes, size_t length, enum status status, const char *part)
{
    struct picture_file file = {(uint8_t *)(uintptr_t)bytes, length};
    rig_reads(&file, status, part);
}
#define FAILS(bytes, status, part) fails(bytes, sizeof(bytes) - 1, status, part)

TEST(test_refused)
{
    FAILS("GIF89a\1", STATUS_DECODE_FAILED, "the GIF's data ends in the header, before frame 0");
    FAILS(SCREEN("\1\0", "\1\0") ";", STATUS_DECODE_FAILED,
          "the GIF's first frame is missing or damaged");
    FAILS(SCREEN("\1\0", "\1\0"), STATUS_DECODE_FAILED, "the GIF's data ends before frame 0");
    FAILS(SCREEN("\0\0", "\0\0") ",\0\0\0\0\0\0\0\0\0\2\0;", STATUS_DECODE_FAILED,
          "the GIF is 0 x 0 pixels");
    FAILS(SCREEN("\xff\xff", "\xff\xff") ",\0\0\0\0\xff\xff\xff\xff\0\2\0;", STATUS_IMAGE_TOO_LARGE,
          "the GIF is 65535 x 65535 pixels");
    FAILS(SCREEN("\1\0", "\1\0") ",\0\0\0\0\1\0\1\0\0\x0c\0;", STATUS_DECODE_FAILED,
          "before frame 0"); /* a code size of 12 */
    FAILS(SCREEN("\2\0", "\2\0") ",\0\0\0\0\2\0\2\0\0\2\0;", STATUS_DECODE_FAILED, "frame 0");
}

/* A frame of no pixels changes nothing. */
TEST(test_empty_frame)
{
    struct picture_file file = {NULL, 0};
    static const char bytes[] = SCREEN("\2\0", "\1\0") ",\0\0\0\0\0\0\0\0\0\2\0;";
    picture_insert(&file, 0, bytes, sizeof bytes - 1);
    rig_reads(&file, STATUS_OK, NULL);
    rig_expect_pixels(&rig, (const uint8_t[8]){0}, 4);
    picture_free(&file);
}

/* The newest child of this thread. */
static pid_t newest_child(void)
{
    FILE *children = fopen("/proc/thread-self/children", "r");
    int pid = 0;
    assert_non_null(children);
    while (fscanf(children, "%d", &pid) == 1)
        ;
    fclose(children);
    assert_true(pid > 0);
    return pid;
}

/* Even if the process of an animation does not react, its end is not awaited: it is stopped here.
 */
TEST(test_close_does_not_wait)
{
    static const struct gif_frame frames[] = {{.width = 9, .height = 7},
                                              {.width = 9, .height = 7, .seed = 1}};
    struct gif_file gif = {.width = 9, .height = 7, .frames = frames, .count = 2};
    struct picture_file file = gif_write(&gif);
    double ms = 1e9;
    for (int i = 0; i < 20 && ms >= 50; i++) {
        struct codec_animation animation;
        struct error error = {0};
        assert_int_equal(
            codec_animation_open(&animation, file.bytes, file.length, &rig.limits, &error),
            STATUS_OK);
        kill(newest_child(), SIGSTOP);
        uint64_t begin_ns = clock_now_ns();
        codec_animation_close(&animation);
        ms = clock_ms(begin_ns, clock_now_ns());
    }
    assert_true(ms < 50);
    rig_reads(&file, STATUS_OK, NULL);
    picture_free(&file);
}

TEST(test_frames_max)
{
    static const char frame[] = ",\0\0\0\0\0\0\0\0\0\2\0";
    struct picture_file file = {NULL, 0};
    size_t bytes = 13 + (FRAMES_MAX + 1) * (sizeof frame - 1);
    file.bytes = realloc(file.bytes, bytes);
    memcpy(file.bytes, SCREEN("\2\0", "\1\0"), 13);
    for (size_t i = 0; i <= FRAMES_MAX; i++)
        memcpy(file.bytes + 13 + i * (sizeof frame - 1), frame, sizeof frame - 1);
    file.length = bytes - (sizeof frame - 1);
    rig.limits.page = FRAMES_MAX - 1;
    rig_reads(&file, STATUS_OK, NULL);
    assert_int_equal(rig.info.frames, FRAMES_MAX);
    file.length = bytes;
    rig_reads(&file, STATUS_DECODE_LIMIT, "the GIF has more than 65536 frames");
    picture_free(&file);
}

#else

TEST(test_refused)
{
    struct picture_file file = {(uint8_t *)(uintptr_t) "GIF89a", 6};
    assert_int_equal(rig_probe(&rig, &file), STATUS_UNSUPPORTED_FORMAT);
    assert_string_equal(rig.error.text,
                        "the input is a GIF, but this gpuimgd was built without giflib (GIF=no)");
}

#endif

TEST_MAIN(.name = "gif", .each_setup = rig_setup, .each_teardown = rig_teardown)
