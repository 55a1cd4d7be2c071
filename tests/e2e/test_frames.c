/*
 * test_frames.c - inputs with several images: jobs that name a frame of an animation, or refuse
 * animations, and gain maps.
 */
#include <unistd.h>

#include "tests/fixtures/apng_file.h"
#include "tests/fixtures/heif_file.h"
#include "tests/fixtures/jxl_file.h"
#include "tests/fixtures/gpu/gpu_run.h"
#include "tests/fixtures/test_world.h"

/* Three frames, one that ends in the second of them, and one without frames. */
static void put_apng(void)
{
    const struct picture_png all = {.width = 20, .height = 10, .colour_type = 2},
                             part = {.width = 9, .height = 8, .colour_type = 2, .seed = 4};
    const struct apng_part frames[] = {
        {.image = all, .delay = 1, .delay_unit = 10},
        {.image = part, .x = 11, .disposal = 1, .delay = 2, .delay_unit = 10},
        {.image = part, .y = 2, .delay = 3, .delay_unit = 10}};
    const struct apng_file apng = {.frames = frames, .count = 3, .plays = 5};
    struct picture_file file = apng_write(&apng);
    world_put(w, "early.png", file.bytes, file.length - 20);
    world_put_picture(w, "apng.png", file);
    file = picture_png(&all);
    apng_announce(&file, 3, 0);
    world_put_picture(w, "bare.png", file);
}

static void fails(const char *job, const char *code, const char *part)
{
    cJSON *result = check_answer(w, "%s", job);
    assert_string_equal(json_text(result, "error.code"), code);
    if (!strstr(json_text(result, "error.message"), part))
        fail_msg("%s; expected \"%s\"", json_text(result, "error.message"), part);
    cJSON_Delete(result);
}

/* Two pages of one pixel, with the values 10 and 20, and between them a thumbnail. */
static void put_tiff(void)
{
    enum { pages = 3, entries = 10, page_bytes = 2 + 12 * entries + 4, pixels_at = 8, at = 12 };
    static const uint16_t tags[entries] = {254, 256, 257, 258, 259, 262, 273, 277, 278, 279};
    uint8_t file[at + pages * page_bytes] = {'I', 'I', '*', 0, at, 0, 0, 0, 10, 99, 20};
    for (unsigned page = 0; page < pages; page++) {
        uint8_t *to = file + at + page * page_bytes;
        const uint8_t values[entries] = {page == 1, 1, 1, 8, 1, 1, (uint8_t)(pixels_at + page),
                                         1,         1, 1};
        *to = entries;
        for (unsigned i = 0; i < entries; i++) {
            const uint8_t entry[12] = {(uint8_t)tags[i], (uint8_t)(tags[i] >> 8), 4, 0, 1, 0, 0, 0,
                                       values[i]};
            memcpy(to + 2 + 12 * i, entry, sizeof entry);
        }
        unsigned next = page + 1 < pages ? at + (page + 1) * page_bytes : 0;
        to[page_bytes - 4] = (uint8_t)next;
        to[page_bytes - 3] = (uint8_t)(next >> 8);
    }
    world_put(w, "pages.tif", file, sizeof file);
}

#if defined GPUIMGD_TIFF

TEST(test_tiff)
{
    for (int page = 0; page < 2; page++) {
        cJSON *result = check_answer(w, "{'input':'pages.tif','ops':['stats'],'page':%d}", page);
        check_has(result, "{'status':'done','input.frames':2,'input.format':'tiff'}");
        assert_true(json_number(result, "outputs.0.values.stats.mean.0") == 10 + 10 * page);
        cJSON_Delete(result);
    }
    fails("{'input':'pages.tif','page':2,'output':'x.png'}", "bad_job",
          "page is 2, but the input is a TIFF with 2 pages; page must be 0 to 1");
}

#endif

#if defined GPUIMGD_GIF

#include "tests/fixtures/gif_file.h"

static void put_gif(void)
{
    static const struct gif_frame frames[] = {
        {.width = 40, .height = 30, .seed = 1},
        {.x = 5, .y = 5, .width = 20, .height = 20, .seed = 2, .disposal = 2, .delay = 1},
        {.x = 9, .y = 9, .width = 9, .height = 9, .seed = 3, .delay = 2}};
    struct gif_file gif = {.width = 40, .height = 30, .frames = frames, .count = 3};
    struct picture_file file = gif_write(&gif);
    world_put(w, "cut.gif", file.bytes, file.length / 4);
    world_put(w, "late.gif", file.bytes, file.length - 10);
    world_put_picture(w, "a.gif", file);
    gif.count = 2;
    file = gif_write(&gif);
    world_put(w, "early.gif", file.bytes, file.length - 1); /* ends between two frames */
    picture_free(&file);
    gif.count = 1;
    file = gif_write(&gif);
    world_put(w, "first.gif", file.bytes, file.length - 1);
    picture_free(&file);
    static const char bomb[] = "GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\2\0;";
    world_put(w, "bomb.gif", bomb, sizeof bomb - 1);
}

/* A GIF becomes a PNG if the job names no format. */
TEST(test_gif)
{
    static const int channels[] = {3, 3, 4};
    for (int i = 0; i < 3; i++) {
        cJSON *result = check_answer(w, "{'input':'a.gif','output':{'path':'%d'},'page':%d}", i, i);
        check_message(result);
        check_has(result, "{'status':'done','input.format':'gif','input.frames':3,"
                          "'outputs.0.format':'png','outputs.0.width':40}");
        cJSON_Delete(result);
        char name[12];
        snprintf(name, sizeof name, "%d", i);
        struct picture_file png = picture_load(out_path(name));
        assert_int_equal(png.bytes[25], channels[i] == 4 ? 6 : 2); /* the colour type */
        picture_free(&png);
    }
    fails("{'input':'a.gif','page':3,'output':'x.png'}", "bad_job",
          "page is 3, but the input is a GIF with 3 frames; page must be 0 to 2");
    fails("{'input':'a.gif','frames':'refuse','output':'x.png'}", "bad_job", "3 frames");
    fails("{'input':'cut.gif','output':'x.png'}", "decode_failed",
          "the GIF's data ends in frame 0");
    fails("{'input':'bomb.gif','output':'x.png'}", "image_too_large", "65535 x 65535 pixels");
    fails("{'input':'a.gif','output':'x.gif'}", "bad_job", "gif");
}

#ifdef GPUIMGD_WEBP

/* What a movie has, by its chunks. */
struct movie {
    uint32_t width, height, plays, frames, delays; /* delays: their sum, in ms */
    bool is_animation, has_alpha;
};

static uint32_t number(const uint8_t *at, int bytes)
{
    uint32_t value = 0;
    while (bytes-- > 0)
        value = value << 8 | at[bytes];
    return value;
}

static struct movie read_movie(const char *name)
{
    struct movie movie = {0};
    struct picture_file file = picture_load(out_path(name));
    assert_int_equal(number(file.bytes + 4, 4) + 8, file.length);
    for (size_t at = 12; at < file.length;) {
        const uint8_t *chunk = file.bytes + at, *data = chunk + 8;
        if (memcmp(chunk, "VP8X", 4) == 0) {
            movie.is_animation = data[0] & 2;
            movie.has_alpha = data[0] & 16;
            movie.width = 1 + number(data + 4, 3);
            movie.height = 1 + number(data + 7, 3);
        }
        if (memcmp(chunk, "ANIM", 4) == 0)
            movie.plays = number(data + 4, 2);
        movie.frames += memcmp(chunk, "ANMF", 4) == 0;
        movie.delays += memcmp(chunk, "ANMF", 4) == 0 ? number(data + 12, 3) : 0;
        at += 8 + number(chunk + 4, 4) + number(chunk + 4, 1) % 2;
    }
    picture_free(&file);
    return movie;
}

static void expect_movie(const char *name, const struct movie *wanted)
{
    struct movie found = read_movie(name);
    assert_int_equal(found.width, wanted->width);
    assert_int_equal(found.height, wanted->height);
    assert_int_equal(found.plays, wanted->plays);
    assert_int_equal(found.frames, wanted->frames);
    assert_int_equal(found.delays, wanted->delays);
    assert_int_equal(found.is_animation, wanted->is_animation);
    assert_int_equal(found.has_alpha, wanted->has_alpha);
}

TEST(test_apng_to_webp)
{
    cJSON *result = check_answer(w, "{'input':'apng.png','frames':'all','outputs':["
                                    "{'output':'n.webp'},{'output':'n/%%n.png'}]}");
    check_has(result, "{'status':'done','input.format':'png','input.frames':3,"
                      "'outputs.0.images':3,'outputs.0.width':20,'outputs.0.height':10}");
    cJSON_Delete(result);
    expect_movie("n.webp", &(struct movie){20, 10, 5, 3, 600, true, true});
    struct picture_file last = picture_load(out_path("n/000002.png"));
    assert_int_equal(last.bytes[25], 6); /* the second frame's place is transparent */
    picture_free(&last);
}

TEST(test_gif_to_webp)
{
    cJSON *result = check_answer(w, "{'input':'a.gif','frames':'all','output':'a.webp'}");
    check_has(result, "{'status':'done','input.format':'gif','input.frames':3,'images.count':3,"
                      "'images.done':3,'outputs.0.format':'webp','outputs.0.images':3,"
                      "'outputs.0.width':40,'outputs.0.height':30}");
    cJSON_Delete(result);
    expect_movie("a.webp", &(struct movie){40, 30, 1, 3, 30, true, true});
    /* again from the WebP, which another program may have written to input_root */
    world_put_picture(w, "b.webp", picture_load(out_path("a.webp")));
    result = check_answer(w, "{'input':'b.webp','frames':'all','outputs':[{'output':'s.webp',"
                             "'ops':[{'op':'resize','width':20}]},{'output':'s.tar'},"
                             "{'output':'s/%%n.png'},{'ops':['grayscale','stats']}]}");
    check_has(result, "{'status':'done','outputs.0.images':3,'outputs.1.images':3,"
                      "'outputs.2.images':3,'images.values.2.image':2}");
    cJSON_Delete(result);
    expect_movie("s.webp", &(struct movie){20, 15, 1, 3, 30, true, true});
    struct picture_file last = picture_load(out_path("s/000002.png"));
    picture_free(&last);
}

#ifdef GPUIMGD_AVIF

/* A sequence, and what its own reader gives of it. The first two frames are opaque. */
TEST(test_gif_to_avif)
{
    cJSON *result = check_answer(w, "{'input':'a.gif','frames':'all','outputs':["
                                    "{'output':{'path':'a.avif','effort':1}},"
                                    "{'output':{'path':'b.avif','effort':0,'max_bytes':4000},"
                                    "'ops':[{'op':'resize','width':21},'grayscale']}]}");
    check_has(result, "{'status':'done','outputs.0.format':'avif','outputs.0.images':3,"
                      "'outputs.0.width':40,'outputs.0.height':30,'outputs.1.width':21}");
    cJSON_Delete(result);
    world_put_picture(w, "s.avif", picture_load(out_path("a.avif")));
    world_put_picture(w, "t.avif", picture_load(out_path("b.avif")));
    for (int i = 0; i < 2; i++) {
        result = check_answer(w, "{'input':'%s','frames':'all','output':'%c.webp'}",
                              i == 0 ? "s.avif" : "t.avif", 'v' + i);
        check_has(result, "{'status':'done','input.format':'avif','input.frames':3,"
                          "'outputs.0.images':3}");
        cJSON_Delete(result);
    }
    expect_movie("v.webp", &(struct movie){40, 30, 1, 3, 1 + 10 + 20, true, true});
    expect_movie("w.webp", &(struct movie){21, 16, 1, 3, 1 + 10 + 20, true, false});
    check_done(check_answer(w, "{'input':'p.jpg','frames':'all','output':'still.avif'}"));
    result = check_answer(w, "{'input':'s.avif','page':2,'ops':['stats']}");
    check_has(result, "{'input.frames':3}");
    cJSON_Delete(result);
}

#endif

#if defined GPUIMGD_GIF && defined GPUIMGD_JXL

/* The codec of an animation has its memory until the last frame. A job that needs more than the
 * rest waits, but the frames must not wait for it. */
TEST(test_a_large_job_beside_an_animation)
{
    enum { frames = 30, side = 900 };
    struct gif_frame all[frames];
    for (int i = 0; i < frames; i++)
        all[i] = (struct gif_frame){.width = side, .height = side, .seed = 1 + i % 3, .delay = 1};
    struct gif_file gif = {.width = side, .height = side, .frames = all};
    gif.count = test_quick() ? 5 : frames;
    world_put_picture(w, "long.movie", gif_write(&gif));
    put_png("large.png", .width = 640, .height = 640, .colour_type = 2, .level = 1);
    const struct picture_png still = {.width = side, .height = side, .colour_type = 2};
    const struct apng_part frame = {.image = still};
    const struct apng_file apng = {.frames = &frame, .count = 1, .hidden = &still};
    world_put_picture(w, "one.png", apng_write(&apng));
    strcpy(w->ns, "lane");
    struct process *daemon = start_ready(1, "--host_bytes=288M");
    world_push(w, "{'input':'long.movie','frames':'all','output':'long.webp',"
                  "'ops':[{'op':'resize','width':200}]}");
    usleep(150000);
    world_push(w, "{'input':'large.png','output':{'path':'large.jxl','lossless':true}}");
    for (int i = 0; i < 2; i++) {
        cJSON *result = check_next(w);
        check_has(result, "{'status':'done','attempt':1}");
        cJSON_Delete(result);
    }
    /* Nor may a frame wait for its own animation. */
    fails("{'input':'long.movie','frames':'all','output':{'path':'%n.jxl','lossless':true}}",
          "over_budget", "encoding a frame needs");
    fails("{'input':'one.png','frames':'all','output':{'path':'%n.jxl','lossless':true}}",
          "over_budget", "encoding a frame needs");
    check_stop(daemon);
    strcpy(w->ns, "gpuimgd");
}

#endif

#ifdef GPUIMGD_JXL

TEST(test_jxl_to_webp)
{
    world_put_picture(w, "m.jxl", make_jxl(.width = 31, .height = 20, .frames = 4, .loops = 2));
    cJSON *result = check_answer(w, "{'input':'m.jxl','frames':'all','output':'m.webp'}");
    check_has(result, "{'status':'done','input.format':'jxl','input.frames':4,"
                      "'outputs.0.images':4}");
    cJSON_Delete(result);
    expect_movie("m.webp", &(struct movie){31, 20, 2, 4, 400, true, false});
}

#endif

/* Frames of 40 x 30 pixels side by side. Only the last one is not opaque. */
TEST(test_strip)
{
    cJSON *result = check_answer(w, "{'input':'a.gif','frames':{'strip':2},'outputs':["
                                    "{'output':'s2.png'},{'output':'s2.jpg','ops':["
                                    "{'op':'resize','height':15},'stats']}]}");
    check_has(result, "{'status':'done','input.frames':3,'input.width':80,'outputs.0.width':80,"
                      "'outputs.0.height':30,'outputs.1.width':40,'outputs.1.height':15}");
    cJSON_Delete(result);
    struct picture_file png = picture_load(out_path("s2.png"));
    assert_int_equal(png.bytes[25], 6); /* RGBA */
    picture_free(&png);
    result = check_answer(w, "{'inputs':['a.gif','p.jpg'],'frames':{'strip':9},"
                             "'output':'s9/%%p.webp'}");
    check_has(result, "{'status':'done','images.done':2}");
    cJSON_Delete(result);
    result = check_answer(w, "{'input':'apng.png','frames':{'strip':3},'output':'s3.png'}");
    check_has(result, "{'status':'done','input.width':60,'outputs.0.height':10}");
    cJSON_Delete(result);
#ifdef GPUIMGD_TIFF
    fails("{'input':'pages.tif','frames':{'strip':3},'output':'x.png'}", "bad_job",
          "frames is {\"strip\":3}, but of a TIFF with 2 pages only one can be read");
#endif
    fails("{'input':'late.gif','frames':{'strip':3},'output':'x.png'}", "decode_failed",
          "the GIF is truncated or damaged: after the first 3 of its frames");
}

/* The bytes of a key are stored on the disk first, as those of an archive. */
TEST(test_gif_of_a_key)
{
    check_done(check_answer(w, "{'input':'a.gif','frames':'all','output':'p.webp'}"));
    struct picture_file gif = picture_load(in_path("a.gif"));
    freeReplyObject(redis_command(w->client, "SET gpuimgd:img:gif %b", gif.bytes, gif.length));
    check_done(check_answer(w, "{'input':{'key':'gpuimgd:img:gif'},'frames':'all',"
                               "'output':'k.webp'}"));
    struct picture_file one = picture_load(out_path("p.webp")),
                        two = picture_load(out_path("k.webp"));
    assert_int_equal(one.length, two.length);
    assert_memory_equal(one.bytes, two.bytes, one.length);
    picture_free(&gif);
    picture_free(&one);
    picture_free(&two);
}

/* An image with one frame gives one image, and a WebP without animation. */
TEST(test_all_frames_of_one)
{
    cJSON *result = check_answer(w, "{'input':'p.jpg','frames':'all','output':'still.webp'}");
    check_has(result, "{'status':'done','images.count':1,'outputs.0.images':1}");
    cJSON_Delete(result);
    assert_int_equal(read_movie("still.webp").frames, 0);
}

/* A file that is damaged in the middle gives no movie, and neither do frames of different sizes. */
TEST(test_damaged_animation)
{
    fails("{'input':'late.gif','frames':'all','output':'late.webp'}", "decode_failed",
          "the GIF is truncated or damaged: after the first 3 of its frames");
    assert_int_equal(access(out_path("late.webp"), F_OK), -1);
    fails("{'input':'bare.png','frames':'all','output':'x.webp'}", "decode_failed",
          "frame 0 of the PNG is missing or damaged: num_frames of acTL is 3");
#ifdef GPUIMGD_TIFF
    fails("{'input':'pages.tif','frames':'all','output':'x.webp'}", "bad_job",
          "but of a TIFF with 2 pages only one can be read, which page names");
#endif
    fails("{'input':'a.gif','frames':'all','output':'x.webp','ops':[{'op':'rotate','angle':400}]}",
          "bad_op", "angle");
}

/* More frames than a worker reads ahead. */
TEST(test_long_animation)
{
    enum { count = 1000 };
    static struct gif_frame frames[count];
    for (int i = 0; i < count; i++)
        frames[i] = (struct gif_frame){.width = 16, .height = 12, .seed = (uint32_t)i, .delay = 3};
    struct gif_file gif = {.width = 16, .height = 12, .frames = frames, .count = count, .loops = 6};
    world_put_picture(w, "long.movie", gif_write(&gif));
    check_done(check_answer(w, "{'input':'long.movie','frames':'all','output':{'path':'long.webp',"
                               "'lossless':true,'effort':0}}"));
    expect_movie("long.webp", &(struct movie){16, 12, 6, count, 30 * count, true, false});
}

#endif

TEST(test_gifs_of_a_folder)
{
    cJSON *result = check_answer(w, "{'inputs':{'folder':'.','pattern':['a.gif','cut.gif']},"
                                    "'output':'all/%%p.jpg'}");
    check_has(result, "{'status':'done','images.count':2,'images.done':1}");
    cJSON_Delete(result);
}

#else

static void put_gif(void)
{
    static const char head[] = "GIF89a\1\0\1\0\0\0\0";
    world_put(w, "a.gif", head, sizeof head - 1);
}

TEST(test_gif_missing)
{
    fails("{'input':'a.gif','output':'x.png'}", "unsupported_format",
          "the input is a GIF, but this gpuimgd was built without giflib (GIF=no)");
    /* By default, a folder has only images that are read. */
    world_put(w, "folder/a.gif", "GIF89a", 6);
    world_put_picture(w, "folder/b.png", make_png(.width = 9, .height = 7, .colour_type = 2));
    check_done(check_answer(w, "{'inputs':{'folder':'folder'},'output':'f/%%n.jpg'}"));
}

#endif

#if defined GPUIMGD_WEBP

#include <webp/encode.h>

enum { SIDE = 16, FRAMES = 3 };

static void put_number(struct picture_file *file, size_t value, int bytes)
{
    for (; bytes > 0; bytes--, value >>= 8)
        picture_insert(file, file->length, &(uint8_t){(uint8_t)value}, 1);
}

static void put_chunk(struct picture_file *file, const char *type, size_t bytes)
{
    picture_insert(file, file->length, type, 4);
    put_number(file, bytes, 4);
}

/* A frame of one colour that fills the canvas. */
static void put_frame(struct picture_file *file, uint8_t colour)
{
    enum { riff_bytes = 12, head_bytes = 16 };
    uint8_t pixels[SIDE * SIDE * 3], *bytes;
    memset(pixels, colour, sizeof pixels);
    size_t length = WebPEncodeLosslessRGB(pixels, SIDE, SIDE, SIDE * 3, &bytes) - riff_bytes;
    put_chunk(file, "ANMF", head_bytes + length);
    put_number(file, 0, 6);
    put_number(file, SIDE - 1, 3);
    put_number(file, SIDE - 1, 3);
    put_number(file, 100, 4);
    picture_insert(file, file->length, bytes + riff_bytes, length);
    WebPFree(bytes);
}

/* The frames have the gray values 10, 20 and 30. */
static struct picture_file animation(void)
{
    struct picture_file file = {NULL, 0};
    picture_insert(&file, 0, "WEBP", 4);
    put_chunk(&file, "VP8X", 10);
    put_number(&file, 2, 4);
    put_number(&file, SIDE - 1, 3);
    put_number(&file, SIDE - 1, 3);
    put_chunk(&file, "ANIM", 6);
    put_number(&file, 0, 6);
    for (uint8_t i = 1; i <= FRAMES; i++)
        put_frame(&file, 10 * i);
    struct picture_file riff = {NULL, 0};
    put_chunk(&riff, "RIFF", file.length);
    picture_insert(&riff, riff.length, file.bytes, file.length);
    picture_free(&file);
    return riff;
}

static void fill(void)
{
    put_apng();
    put_gif();
    put_tiff();
    world_put_picture(w, "a.webp", animation());
}

/* The mean of a page, which `stats` gives. */
static void expect_mean(const char *keys, double mean)
{
    cJSON *result = check_answer(w, "{'input':'a.webp','ops':['grayscale','stats']%s}", keys);
    check_has(result, "{'status':'done','input.frames':3,'input.format':'webp'}");
    assert_true(json_number(result, "outputs.0.values.stats.mean.0") == mean);
    cJSON_Delete(result);
}

TEST(test_pages)
{
    expect_mean("", 10);
    expect_mean(",'page':0,'frames':'first'", 10);
    expect_mean(",'page':1", 20);
    expect_mean(",'page':2", 30);
    fails("{'input':'a.webp','page':3,'output':'x.png'}", "bad_job",
          "page is 3, but the input is a WebP with 3 frames; page must be 0 to 2");
    fails("{'input':'a.webp','frames':'refuse','output':'x.png'}", "bad_job",
          "the input is a WebP with 3 frames, and the job's frames is \"refuse\"");
}

/* The keys apply to each image of a list. */
TEST(test_pages_of_a_list)
{
    cJSON *result = check_answer(w, "{'inputs':['a.webp','apng.png'],'page':2,"
                                    "'ops':['grayscale','stats']}");
    check_has(result, "{'status':'done','images.done':1,'images.failed':1,"
                      "'images.values.0.values.stats.mean.0':30,"
                      "'images.errors.0.error.code':'bad_job'}");
    cJSON_Delete(result);
    fails("{'inputs':['a.webp','apng.png'],'frames':'refuse','output':'%n.png'}", "bad_job",
          "frames");
}

#ifdef GPUIMGD_GIF

/* Frames are missing at the end of each file. */
static void put_early(void)
{
    struct picture_file file = animation();
    size_t last = 0;
    for (size_t at = 0; at + 4 < file.length; at++)
        last = memcmp(file.bytes + at, "ANMF", 4) == 0 ? at : last;
    world_put(w, "early.webp", file.bytes, last);
    picture_free(&file);
#ifdef GPUIMGD_JXL
    file = make_jxl(.width = 31, .height = 20, .frames = 4);
    world_put(w, "early.jxl", file.bytes, file.length - file.length / 9);
    picture_free(&file);
#endif
#ifdef GPUIMGD_AVIF
    check_done(check_answer(w, "{'input':'a.gif','frames':'all','output':'whole.avif'}"));
    file = picture_load(out_path("whole.avif"));
    world_put(w, "early.avif", file.bytes, file.length - 9);
    picture_free(&file);
#endif
}

/* A truncated animation has no silent loss of frames; but each frame that is there can be read. */
TEST(test_truncated_animations)
{
    static const char *const names[] = {
        "early.gif",  "first.gif", "early.webp", "early.png",
#ifdef GPUIMGD_JXL
        "early.jxl",
#endif
#ifdef GPUIMGD_AVIF
        "early.avif",
#endif
    };
    static const char *const words[] = {"'all'", "{'strip':4}", "'refuse'"};
    put_early();
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        /* the last box of these must be complete */
        bool is_box = strstr(names[i], "avif") || strstr(names[i], "jxl");
        bool is_png = strstr(names[i], "png");
        for (size_t k = 0; k < COUNT_OF(words); k++) {
            char job[128];
            snprintf(job, sizeof job, "{'input':'%s','frames':%s,'output':'x.webp'}", names[i],
                     words[k]);
            bool has_one = strcmp(names[i], "first.gif") == 0;
            if (k == 2 && has_one) { /* no second frame is known */
                check_done(check_answer(w, "%s", job));
                continue;
            }
            bool refuses = k == 2 && !is_box;
            fails(job, refuses ? "bad_job" : "decode_failed",
                  refuses  ? "the job's frames is"
                  : is_png ? "frame 2 of the PNG is missing or damaged: the file ends"
                  : is_box ? "truncated"
                           : "is truncated or damaged: after the first");
        }
        if (!is_box && !is_png)
            check_done(check_answer(w, "{'input':'%s','output':'x.png'}", names[i]));
    }
    strcpy(w->ns, "lenient");
    struct process *daemon = start_ready(1, "--lenient=yes");
    for (int i = 0; i < 4; i++)
        check_done(
            check_answer(w, "{'input':'%s','frames':'all','output':'%d.webp'}", names[i], i));
    assert_int_equal(read_movie("0.webp").frames, 2);
    assert_int_equal(read_movie("1.webp").frames, 0);
    assert_int_equal(read_movie("2.webp").frames, 2);
    assert_int_equal(read_movie("3.webp").frames, 2);
    check_stop(daemon);
    strcpy(w->ns, "gpuimgd");
}

#endif

#else

static void fill(void)
{
    put_apng();
    put_gif();
    put_tiff();
}

#endif

TEST(test_apng)
{
    cJSON *result = check_answer(w, "{'input':'apng.png','output':'first.png'}");
    check_message(result);
    check_has(result, "{'status':'done','input.frames':3}");
    cJSON_Delete(result);
    fails("{'input':'apng.png','page':1,'output':'x.png'}", "bad_job",
          "page is 1, but of a PNG with 3 frames only one is read; page must be 0");
    fails("{'input':'apng.png','frames':'refuse','output':'x.png'}", "bad_job",
          "a PNG with 3 frames");
}

#ifdef GPUIMGD_JXL

TEST(test_jxl)
{
    world_put_picture(w, "a.jxl", make_jxl(.width = 40, .height = 30, .frames = 12));
    cJSON *result = check_answer(w, "{'input':'a.jxl','output':'jxl.png'}");
    check_has(result, "{'status':'done','input.frames':12}");
    cJSON_Delete(result);
    fails("{'input':'a.jxl','frames':'refuse','output':'x.png'}", "bad_job",
          "the input is a JPEG XL with 12 frames, and the job's frames is \"refuse\"");
    fails("{'input':'a.jxl','page':1,'output':'x.png'}", "bad_job",
          "page is 1, but of a JPEG XL with 12 frames only one is read; page must be 0");
}

#endif

#ifdef GPUIMGD_HEIF

TEST(test_heic)
{
    struct picture_file image = heif_sample(false);
    struct heif_file options = {.width = 64, .height = 64, .images = {&image}, .others = 2};
    world_put_picture(w, "a.heic", heif_build(&options));
    picture_free(&image);
    fails("{'input':'a.heic','frames':'refuse','output':'x.png'}", "bad_job",
          "the input is a HEIC with 3 images, and the job's frames is \"refuse\"");
}

#endif

TEST(test_one_page)
{
    cJSON *result = check_answer(w, "{'input':'p.jpg','output':'p.png','frames':'refuse'}");
    check_has(result, "{'status':'done'}");
    assert_null(json_at(result, "input.frames"));
    assert_null(json_at(result, "input.gain_map"));
    cJSON_Delete(result);
    fails("{'input':'p.jpg','page':1,'output':'x.png'}", "bad_job",
          "page is 1, but the input is a JPEG with 1 frame; page must be 0");
}

TEST(test_gain_map)
{
    static const char segment[] = "\xFF\xE2\x00\x22urn:iso:std:iso:ts:21496:-1\0\0\0";
    struct picture_file file = make_jpeg(.width = 24, .height = 16);
    picture_insert(&file, 2, segment, sizeof segment - 1);
    world_put_picture(w, "hdr.jpg", file);
    cJSON *result = check_answer(w, "{'input':'hdr.jpg','output':'hdr.png'}");
    check_has(result, "{'status':'done','input.gain_map':true}");
    cJSON_Delete(result);
}

static const struct world_options options = {
    .photo = {"p.jpg", 160, 120}, .fill = fill, .start = true};

int main(void)
{
    world_options = &options;
    return run_all(.name = "frames", .setup = open_world, .teardown = close_world);
}
