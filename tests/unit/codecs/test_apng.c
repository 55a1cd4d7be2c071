/* Tests of animated PNGs. The frames are composed in floating point from the definition;
 * tests/peers/check_gif.py compares with Pillow. */
#include "tests/fixtures/codec_rig.h"

#include "codecs/animation.h"
#include "codecs/strip.h"
#include "tests/fixtures/apng_file.h"

enum { FRAMES = 9, RGBA = 4 };

static struct codec_animation animation;
static struct image canvas;

static enum status play_from(const struct picture_file *file)
{
    rig.error = (struct error){0};
    if (codec_animation_open(&animation, file->bytes, file->length, &rig.limits, &rig.error) !=
        STATUS_OK)
        return rig.error.status;
    uint32_t width = animation.info.width, height = animation.info.height;
    canvas =
        (struct image){calloc(RGBA, (size_t)width * height), width, height, RGBA, RGBA * width};
    assert_non_null(canvas.pixels);
    return STATUS_OK;
}

static void end_play(void)
{
    free(canvas.pixels);
    canvas.pixels = NULL;
    codec_animation_close(&animation);
}

/* Transparent pixels have no colour. */
static void expect_canvas(const double *wanted, uint32_t frame)
{
    size_t count = (size_t)canvas.width * canvas.height;
    for (size_t i = 0; i < count; i++)
        for (int c = 0; c < RGBA; c++) {
            int found = canvas.pixels[RGBA * i + 3] > 0 ? canvas.pixels[RGBA * i + c] : 0;
            int want = wanted[RGBA * i + 3] > 0 ? (int)wanted[RGBA * i + c] : 0;
            if (found != want)
                fail_msg("frame %u, pixel %zu, channel %d: %d; expected %d", frame, i, c, found,
                         want);
        }
}

static bool is_opaque(const double *pixels, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pixels[RGBA * i + 3] < 255)
            return false;
    return true;
}

/* Plays all frames; each must be the one of the reference. */
static void expect_frames(const struct apng_file *apng)
{
    struct picture_file file = apng_write(apng);
    bool all_opaque = true;
    assert_int_equal(play_from(&file), STATUS_OK);
    assert_int_equal(animation.info.frames, apng->count);
    assert_false(animation.info.ends_early);
    assert_int_equal(animation.info.frames_apart, apng->hidden != NULL);
    size_t count = (size_t)canvas.width * canvas.height;
    double *wanted = calloc(2 * RGBA * count, sizeof *wanted);
    for (uint32_t i = 0; i < apng->count; i++) {
        apng_draw(apng, i, wanted, wanted + RGBA * count);
        if (codec_animation_next(&animation, &canvas, &rig.error) != STATUS_OK)
            fail_msg("%s", rig.error.text);
        expect_canvas(wanted, i);
        all_opaque &= is_opaque(wanted, count);
    }
    assert_true(all_opaque || animation.info.may_have_alpha);
    assert_int_equal(animation.plays, apng->plays);
    free(wanted);
    end_play();
    picture_free(&file);
}

/* ---- frames ---- */

static const struct {
    int colour_type, bit_depth;
    bool transparent;
} kinds[] = {{0, 1, false},  {0, 2, false},  {0, 4, false},  {0, 8, false},
             {0, 16, false}, {2, 8, false},  {2, 16, false}, {3, 1, false},
             {3, 2, true},   {3, 4, true},   {3, 8, false},  {3, 8, true},
             {4, 8, false},  {4, 16, false}, {6, 8, false},  {6, 16, false}};

/* A part of the canvas, or all of it. */
static struct apng_part random_part(const struct picture_png *all, uint32_t *random)
{
    struct apng_part part = {.image = *all,
                             .disposal = picture_random(random) % 3,
                             .blend = picture_random(random) % 2,
                             .delay = 1};
    part.image.seed = picture_random(random);
    if (picture_random(random) % 4 == 0)
        return part;
    part.image.width = 1 + picture_random(random) % all->width;
    part.image.height = 1 + picture_random(random) % all->height;
    part.x = picture_random(random) % (all->width - part.image.width + 1);
    part.y = picture_random(random) % (all->height - part.image.height + 1);
    return part;
}

static void expect_random(const struct picture_png *all, uint32_t *random)
{
    struct apng_part frames[FRAMES];
    const struct picture_png hidden = *all;
    struct apng_file apng = {.frames = frames, .count = FRAMES, .plays = *random % 5};
    for (int i = 0; i < FRAMES; i++)
        frames[i] = random_part(all, random);
    apng.pieces = picture_random(random) % 8;
    if (picture_random(random) % 2)
        apng.hidden = &hidden;
    else
        frames[0].image = *all, frames[0].x = frames[0].y = 0;
    expect_frames(&apng);
}

/* All disposals and blends, parts of the canvas, and widths around 32 bytes. */
TEST(test_kinds_and_sizes)
{
    static const uint32_t sides[][2] = {{1, 1},  {1, 9},  {7, 1},  {8, 8},   {31, 5},
                                        {32, 3}, {33, 4}, {11, 7}, {64, 17}, {129, 33}};
    uint32_t random = 7, rounds = 3;
    for (size_t kind = 0; kind < COUNT_OF(kinds); kind++)
        for (size_t i = 0; i < COUNT_OF(sides) * rounds; i++)
            expect_random(&(struct picture_png){.width = sides[i / rounds][0],
                                                .height = sides[i / rounds][1],
                                                .colour_type = kinds[kind].colour_type,
                                                .bit_depth = kinds[kind].bit_depth,
                                                .transparent = kinds[kind].transparent,
                                                .interlaced = i % 2 != 0,
                                                .seed = (uint32_t)i},
                          &random);
}

/* Each disposal before each blend, after a frame with a half-transparent ramp. */
TEST(test_each_disposal_and_blend)
{
    for (int i = 0; i < 3 * 3 * 2 * 2; i++) {
        const struct picture_png all = {.width = 21, .height = 17, .colour_type = 6},
                                 part = {.width = 13, .height = 9, .colour_type = 6, .seed = 3},
                                 last = {.width = 9, .height = 12, .colour_type = 6, .seed = 5};
        const struct apng_part frames[] = {
            {.image = all, .disposal = (uint8_t)(i % 3)},
            {.image = part, .x = 5, .y = 4, .disposal = (uint8_t)(i / 3 % 3), .blend = i / 9 % 2},
            {.image = last, .x = 11, .y = 2, .disposal = 2, .blend = i / 18},
            {.image = part, .x = 2, .y = 7, .blend = 1}};
        expect_frames(&(struct apng_file){.frames = frames, .count = 4, .plays = 3});
    }
}

/* A transparent colour is that of the first frame's first pixel. */
TEST(test_transparent_colours)
{
    for (int i = 0; i < 8; i++) {
        const struct picture_png image = {.width = 19,
                                          .height = 8,
                                          .colour_type = i % 2 ? 2 : 0,
                                          .bit_depth = i / 2 % 2 ? 16
                                                       : i % 2   ? 8
                                                                 : 2,
                                          .transparent = true,
                                          .interlaced = i / 4};
        const struct apng_part frames[] = {
            {.image = image, .disposal = 1}, {.image = image, .blend = 1}, {.image = image}};
        expect_frames(&(struct apng_file){.frames = frames, .count = 3});
    }
}

static bool may_have_alpha(const struct apng_part *frames, uint32_t count,
                           const struct picture_png *hidden)
{
    struct apng_file apng = {.frames = frames, .count = count, .hidden = hidden};
    struct picture_file file = apng_write(&apng);
    rig.limits.finds_alpha = true;
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    picture_free(&file);
    return rig.info.may_have_alpha;
}

TEST(test_alpha_of_frames)
{
    const struct picture_png all = {.width = 20, .height = 10, .colour_type = 2},
                             part = {.width = 19, .height = 10, .colour_type = 2},
                             clear = {.width = 20, .height = 10, .colour_type = 6};
    assert_false(
        may_have_alpha((struct apng_part[]){{.image = all}, {.image = part, .x = 1}}, 2, NULL));
    assert_false(may_have_alpha((struct apng_part[]){{.image = all, .disposal = 1}, {.image = all}},
                                2, NULL));
    assert_false(may_have_alpha((struct apng_part[]){{.image = all},
                                                     {.image = part, .disposal = 2},
                                                     {.image = part, .x = 1}},
                                3, NULL));
    assert_true(may_have_alpha((struct apng_part[]){{.image = all, .disposal = 1}, {.image = part}},
                               2, NULL));
    assert_true(may_have_alpha((struct apng_part[]){{.image = all, .disposal = 2}, {.image = part}},
                               2, NULL));
    assert_true(may_have_alpha((struct apng_part[]){{.image = part}, {.image = all}}, 2, &all));
    assert_false(may_have_alpha((struct apng_part[]){{.image = all}, {.image = part}}, 2, &all));
    assert_true(may_have_alpha((struct apng_part[]){{.image = clear}, {.image = clear}}, 2, NULL));
}

TEST(test_delays)
{
    static const uint32_t delays[][3] = {
        {0, 100, 0},  {0, 0, 0},    {7, 0, 70},  {1, 30, 33},          {1, 40, 25},
        {1, 3000, 0}, {1, 2000, 1}, {2, 3, 667}, {65535, 1, 65535000}, {1, 65535, 0}};
    const struct picture_png image = {.width = 3, .height = 2, .colour_type = 2};
    struct apng_part frames[COUNT_OF(delays)];
    for (size_t i = 0; i < COUNT_OF(delays); i++)
        frames[i] = (struct apng_part){
            .image = image, .delay = (uint16_t)delays[i][0], .delay_unit = (uint16_t)delays[i][1]};
    struct apng_file apng = {.frames = frames, .count = COUNT_OF(delays), .plays = 2147483647};
    struct picture_file file = apng_write(&apng);
    assert_int_equal(play_from(&file), STATUS_OK);
    for (size_t i = 0; i < COUNT_OF(delays); i++) {
        assert_int_equal(codec_animation_next(&animation, &canvas, &rig.error), STATUS_OK);
        assert_int_equal(animation.delay_ms, delays[i][2]);
    }
    assert_int_equal(animation.plays, 2147483647);
    end_play();
    picture_free(&file);
}

/* Other chunks may be between those of a frame. */
TEST(test_other_chunks)
{
    const struct picture_png image = {.width = 40, .height = 31, .colour_type = 3};
    const struct apng_part frames[] = {{.image = image}, {.image = image, .blend = 1}};
    struct apng_file apng = {.frames = frames, .count = 2, .pieces = 3};
    struct picture_file file = apng_write(&apng);
    picture_png_insert(&file, "fdAT", "teXt", "x", 1);
    picture_png_insert(&file, "IEND", "fuNy", "x", 1);
    assert_int_equal(play_from(&file), STATUS_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(codec_animation_next(&animation, &canvas, &rig.error), STATUS_OK);
    end_play();
    picture_free(&file);
}

/* An animation of one frame is a still image, unless this has another one. */
TEST(test_one_frame)
{
    static const struct picture_png image = {.width = 21, .height = 9, .colour_type = 2};
    static const struct picture_png hidden = {
        .width = 21, .height = 9, .colour_type = 2, .seed = 4};
    static const struct apng_part frame = {.image = image};
    for (int i = 0; i < 2; i++) {
        const struct apng_file apng = {
            .frames = &frame, .count = 1, .plays = 1, .hidden = i ? &hidden : NULL};
        struct picture_file file = apng_write(&apng);
        assert_int_equal(strip_probe(rig.context, file.bytes, file.length, &rig.limits, 9,
                                     &rig.info, &rig.error),
                         STATUS_OK);
        assert_int_equal(rig.info.strip, i);
        assert_int_equal(rig.info.width, 21);
        assert_int_equal(codec_is_animation(&rig.info), i);
        uint8_t pixels[21 * 9 * 3], *wanted;
        const struct image strip = {pixels, 21, 9, 3, 21 * 3};
        const struct decode_request request = {.as = DECODE_COLOUR};
        assert_int_equal(strip_decode(rig.context, file.bytes, file.length, &rig.info, &request,
                                      &rig.limits, &strip, &rig.error),
                         STATUS_OK);
        wanted = picture_png_expected(&image, &(uint32_t){0});
        assert_memory_equal(pixels, wanted, sizeof pixels);
        free(wanted);
        if (i == 1)
            expect_frames(&apng);
        picture_free(&file);
    }
}

/* A strip of a file with 16 bits per sample has 8. */
TEST(test_strip_of_frames)
{
    const struct picture_png image = {.width = 9, .height = 7, .colour_type = 2, .bit_depth = 16};
    const struct apng_part frames[] = {{.image = image}, {.image = image}, {.image = image}};
    struct apng_file apng = {.frames = frames, .count = 3};
    struct picture_file file = apng_write(&apng);
    assert_int_equal(
        strip_probe(rig.context, file.bytes, file.length, &rig.limits, 2, &rig.info, &rig.error),
        STATUS_OK);
    assert_int_equal(rig.info.width, 18);
    assert_int_equal(rig.info.channels, 3);
    assert_false(rig.info.deep);
    picture_free(&file);
}

/* ---- damage ---- */

static struct picture_file small_file(bool has_hidden)
{
    static const struct picture_png all = {.width = 14, .height = 9, .colour_type = 6};
    static const struct picture_png part = {.width = 5, .height = 6, .colour_type = 6, .seed = 2};
    static const struct apng_part frames[] = {{.image = all},
                                              {.image = part, .x = 9, .y = 3, .blend = 1},
                                              {.image = part, .x = 1, .y = 2}};
    struct apng_file apng = {frames, 3, .hidden = has_hidden ? &all : NULL, .pieces = 2};
    return apng_write(&apng);
}

/* Returns the offset of chunk `number` of a type. */
static size_t find(const struct picture_file *file, const char *type, int number)
{
    for (size_t at = 8;; at += 12 + ((size_t)file->bytes[at + 2] << 8 | file->bytes[at + 3])) {
        assert_true(at + 12 <= file->length);
        if (memcmp(file->bytes + at + 4, type, 4) == 0 && number-- == 0)
            return at;
    }
}

/* All frames are refused with a message; if the limits are lenient, `left` of them are read, or the
 * still image. */
static void expect_damage_once(struct picture_file file, uint32_t left, const char *part)
{
    rig.limits.lenient = false;
    assert_int_equal(play_from(&file), STATUS_DECODE_FAILED);
    if (!strstr(rig.error.text, part))
        fail_msg("%s; expected \"%s\"", rig.error.text, part);
    end_play();
    rig.limits.lenient = true;
    assert_int_equal(play_from(&file), STATUS_OK);
    assert_int_equal(animation.info.frames, left > 0 ? left : 1);
    for (uint32_t i = 0; i < left && codec_is_animation(&animation.info); i++)
        if (codec_animation_next(&animation, &canvas, &rig.error) != STATUS_OK)
            fail_msg("%s", rig.error.text);
    end_play();
    picture_free(&file);
}

/* Changes a number in the data of a chunk. */
static void expect_damage(const char *type, int number, size_t at, int bytes, uint32_t value,
                          uint32_t left, const char *part)
{
    struct picture_file file = small_file(false);
    uint8_t *data = file.bytes + find(&file, type, number) + 8 + at;
    for (int i = 0; i < bytes; i++)
        data[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
    picture_png_fix_crcs(&file);
    expect_damage_once(file, left, part);
}

TEST(test_damaged_controls)
{
    expect_damage("fcTL", 0, 0, 4, 1, 0,
                  "frame 0 of the PNG is missing or damaged: a chunk fcTL has the sequence number "
                  "1; it must be 0; lenient takes the default image");
    expect_damage("fcTL", 1, 0, 4, 0, 1, "number 0; it must be 1");
    expect_damage("fdAT", 1, 0, 4, 2, 1, "a chunk fdAT has the sequence number 2; it must be 3");
    expect_damage("fdAT", 0, 0, 4, 0xFFFFFFFF, 1, "number 4294967295; it must be 2");
    expect_damage("fcTL", 1, 4, 4, 0, 1, "0 x 6 pixels at 9, 3 are not on its canvas of 14 x 9");
    expect_damage("fcTL", 1, 8, 4, 0, 1, "5 x 0 pixels");
    expect_damage("fcTL", 1, 4, 4, 6, 1, "6 x 6 pixels at 9, 3 are not on its canvas");
    expect_damage("fcTL", 1, 4, 4, 0xFFFFFFFF, 1, "4294967295 x 6 pixels");
    expect_damage("fcTL", 1, 12, 4, 10, 1, "5 x 6 pixels at 10, 3");
    expect_damage("fcTL", 1, 12, 4, 0xFFFFFFFF, 1, "5 x 6 pixels at 4294967295, 3");
    expect_damage("fcTL", 2, 16, 4, 4, 2, "frame 2 of the PNG is missing or damaged: 5 x 6 pixels");
    expect_damage("fcTL", 0, 4, 4, 13, 0, "it is also the default image, but has 13 x 9 pixels");
    expect_damage("fcTL", 1, 24, 1, 3, 1, "dispose_op is 3 and blend_op is 1; they must be");
    expect_damage("fcTL", 2, 25, 1, 2, 2, "dispose_op is 0 and blend_op is 2");
    expect_damage("acTL", 0, 0, 4, 4, 3,
                  "frame 3 of the PNG is missing or damaged: num_frames of acTL is 4;");
    expect_damage("acTL", 0, 0, 4, 65536, 3, "num_frames of acTL is 65536;");
    expect_damage("acTL", 0, 0, 4, 2, 2,
                  "frame 2 of the PNG is missing or damaged: num_frames of acTL is only 2;");
}

/* Inserts a chunk before another one. */
static void expect_insert(bool has_hidden, const char *before, const char *type, const char *data,
                          size_t bytes, uint32_t left, const char *part)
{
    struct picture_file file = small_file(has_hidden);
    picture_png_insert(&file, before, type, data, bytes);
    expect_damage_once(file, left, part);
}

TEST(test_damaged_order)
{
    static const char control[APNG_CONTROL_BYTES] = "\0\0\0\0\0\0\0\016\0\0\0\011";
    expect_insert(false, "fcTL", "fcTL", "short", 5, 0,
                  "a chunk fcTL has 5 bytes; it must have 26; lenient takes the default image");
    expect_insert(false, "IDAT", "fcTL", control, sizeof control, 0, "no data follows its fcTL");
    expect_insert(false, "IDAT", "fdAT", "\0\0\0\1", 4, 0,
                  "a chunk fdAT follows its fcTL; it must "
                  "be IDAT");
    expect_insert(false, "acTL", "fdAT", "\0\0\0\0", 4, 0, "a chunk fdAT has no fcTL before it");
    expect_insert(false, "fdAT", "fdAT", "\0\0", 2, 1,
                  "a chunk fdAT has 2 bytes; it must have at least 4; lenient takes the frames "
                  "before it");
    expect_insert(false, "fdAT", "IDAT", "", 0, 1,
                  "a chunk IDAT follows its fcTL; it must be fdAT");
    expect_insert(true, "IDAT", "fdAT", "\0\0\0\0", 4, 0, "a chunk fdAT has no fcTL before it");
    expect_insert(true, "fcTL", "fdAT", "\0\0\0\0", 4, 0, "a chunk fdAT has no fcTL before it");
    struct picture_file file = small_file(false);
    picture_png_insert(&file, "IDAT", "tEXt", "a\0b", 3);
    picture_png_insert(&file, "tEXt", "IDAT", "", 0);
    expect_damage_once(file, 0, "an IDAT follows another chunk than the IDAT before it");
    file = make_png(.width = 9, .height = 5, .colour_type = 2);
    apng_announce(&file, 3, 0);
    expect_damage_once(file, 0,
                       "frame 0 of the PNG is missing or damaged: num_frames of acTL is 3");
}

/* The CRC of a chunk is wrong, and its data is not. Only the CRCs of other chunks do not matter to
 * lenient limits. */
TEST(test_damaged_crcs)
{
    static const struct {
        const char *type;
        int number;
        uint32_t left;
    } cases[] = {{"fcTL", 1, 1}, {"fdAT", 0, 1}, {"fcTL", 2, 2}, {"teXt", 0, 3}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char part[64];
        struct picture_file file = small_file(false);
        picture_png_insert(&file, "fdAT", "teXt", "x", 1);
        uint8_t *chunk = file.bytes + find(&file, cases[i].type, cases[i].number);
        chunk[8 + ((size_t)chunk[2] << 8 | chunk[3])] ^= 1;
        snprintf(part, sizeof part, "the CRC of a chunk %s is wrong", cases[i].type);
        expect_damage_once(file, cases[i].left, part);
    }
}

/* Damage after the data of a frame is that of the next one. */
TEST(test_damage_after_a_frame)
{
    struct picture_file file = small_file(false);
    picture_png_insert(&file, "IEND", "teXt", "x", 1);
    struct picture_file cut = picture_cut(&file, file.length - 14); /* in teXt */
    picture_free(&file);
    expect_damage_once(cut, 3, "frame 3 of the PNG is missing or damaged: the file ends");
}

/* The compressed pixels of a frame are damaged, or too few. */
TEST(test_damaged_pixels)
{
    for (int i = 0; i < 2; i++) {
        struct picture_file file = small_file(i != 0);
        uint8_t *data = file.bytes + find(&file, "fdAT", i == 0 ? 1 : 2) + 12;
        memset(data, 0xFF, 12);
        picture_png_fix_crcs(&file);
        for (int lenient = 0; lenient < 2; lenient++) {
            rig.limits.lenient = lenient;
            assert_int_equal(play_from(&file), STATUS_OK);
            uint32_t frame = i == 0 ? 1 : 0;
            for (uint32_t k = 0; k < frame; k++)
                assert_int_equal(codec_animation_next(&animation, &canvas, &rig.error), STATUS_OK);
            assert_int_equal(codec_animation_next(&animation, &canvas, &rig.error),
                             STATUS_DECODE_FAILED);
            assert_non_null(strstr(rig.error.text, i == 0 ? "frame 1: the PNG" : "frame 0: the"));
            end_play();
        }
        picture_free(&file);
    }
}

/* A file that ends early has the frames that are complete. */
TEST(test_truncated)
{
    for (int hidden = 0; hidden < 2; hidden++) {
        struct picture_file file = small_file(hidden != 0);
        size_t first = find(&file, "IDAT", 0) + 8;
        uint32_t frames = 0;
        for (size_t length = first; length < file.length; length++) {
            struct picture_file cut = picture_cut(&file, length);
            rig.limits.lenient = false;
            assert_int_equal(play_from(&cut), STATUS_DECODE_FAILED);
            assert_non_null(strstr(rig.error.text, "the file ends (at byte"));
            end_play();
            rig.limits.lenient = true;
            assert_int_equal(play_from(&cut), STATUS_OK);
            assert_in_range(animation.info.frames, 1, 3);
            frames = animation.info.frames;
            for (uint32_t i = 0; i + 1 < frames; i++)
                assert_int_equal(codec_animation_next(&animation, &canvas, &rig.error), STATUS_OK);
            end_play();
            picture_free(&cut);
        }
        assert_int_equal(frames, 3);
        picture_free(&file);
    }
}

TEST(test_flipped_bits)
{
    struct picture_file file = small_file(false);
    rig.limits.pixels_max = 100000;
    for (size_t bit = 8 * 8; bit < file.length * 8; bit++) {
        struct picture_file copy = picture_cut(&file, file.length);
        copy.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (bit % 3 != 0)
            picture_png_fix_crcs(&copy);
        rig.limits.lenient = bit % 2 != 0;
        if (play_from(&copy) == STATUS_OK && codec_is_animation(&animation.info))
            while (animation.next < animation.info.frames &&
                   codec_animation_next(&animation, &canvas, &rig.error) == STATUS_OK)
                ;
        end_play();
        picture_free(&copy);
    }
    picture_free(&file);
}

/* ---- limits ---- */

/* The memory of a frame is known after the header: its file is not larger than its data. */
TEST(test_limits_of_frames)
{
    enum { side = 300 };
    const struct picture_png image = {
        .width = side, .height = side, .colour_type = 6, .bit_depth = 16, .level = 1};
    const struct apng_part frames[] = {{.image = image}, {.image = image}};
    struct apng_file apng = {.frames = frames, .count = 2, .pieces = 400};
    struct picture_file file = apng_write(&apng);
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    size_t still = rig.info.codec_bytes;
    rig.limits.finds_alpha = true;
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    assert_in_range(rig.info.codec_bytes, still + 100000, still + file.length);
    rig.limits.side_max = side - 1;
    rig_reads(&file, STATUS_IMAGE_TOO_LARGE, NULL);
    rig.limits.side_max = side;
    rig.limits.deadline_ns = 1;
    assert_int_equal(play_from(&file), STATUS_DECODE_LIMIT);
    end_play();
    rig.limits.deadline_ns = 0;
    assert_int_equal(play_from(&file), STATUS_OK);
    animation.limits.deadline_ns = 1;
    assert_int_equal(codec_animation_next(&animation, &canvas, &rig.error), STATUS_DECODE_LIMIT);
    end_play();
    picture_free(&file);
}

/* Each frame has its own deadline, also while its chunks are searched. */
TEST(test_deadline_of_a_frame)
{
    enum { side = 700, check_bytes = 256 * 1024 };
    const struct picture_png image = {
        .width = side, .height = side, .colour_type = 6, .bit_depth = 16, .level = 1};
    const struct apng_part frames[] = {{.image = image}, {.image = image}};
    struct picture_file file = apng_write(&(struct apng_file){.frames = frames, .count = 2});
    assert_true(file.length > 2 * check_bytes);
    assert_int_equal(play_from(&file), STATUS_OK);
    assert_int_equal(codec_animation_next(&animation, &canvas, &rig.error), STATUS_OK);
    animation.limits.deadline_ns = 1;
    assert_int_equal(codec_animation_next(&animation, &canvas, &rig.error), STATUS_DECODE_LIMIT);
    assert_string_equal(rig.error.text, "the deadline for decoding passed in frame 1 of the PNG");
    end_play();
    picture_free(&file);
}

TEST_MAIN(.name = "apng", .each_setup = rig_setup, .each_teardown = rig_teardown)
