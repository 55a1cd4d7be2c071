/*
 * test_trim.c - jobs that remove the borders of their input: the result is that of the same job for
 * an image that never had borders.
 */
#include "tests/fixtures/shard.h"
#include "tests/fixtures/test_world.h"

enum { LEFT = 37, TOP = 21, RIGHT = 8, BOTTOM = 50, WIDTH = 90, HEIGHT = 61 };

/* The whole picture: white, and in it another picture, whose first and last rows and columns are
 * far from white. */
static struct raster framed(uint32_t seed)
{
    struct raster raster = raster_make(LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM, 3);
    memset(raster.pixels, 255, (size_t)raster.width * raster.height * 3);
    uint8_t *inner = picture_pixels(WIDTH, HEIGHT, 3, seed);
    for (uint32_t y = 0; y < HEIGHT; y++)
        for (uint32_t x = 0; x < WIDTH; x++)
            for (uint32_t c = 0; c < 3; c++)
                raster_at(&raster, LEFT + x, TOP + y)[c] = inner[(y * WIDTH + x) * 3 + c] / 2;
    free(inner);
    return raster;
}

static struct picture_file framed_jpeg(uint32_t seed, int orientation)
{
    struct raster raster = framed(seed);
    struct picture_file file = {.bytes = NULL};
    file.bytes = raster_to_jpeg(&raster, 95, &file.length);
    raster_clear(&raster);
    if (orientation > 0) {
        struct picture_file exif = picture_exif(orientation, true, false);
        uint8_t head[4] = {0xFF, 0xE1, (uint8_t)((exif.length + 2) >> 8),
                           (uint8_t)(exif.length + 2)};
        picture_insert(&file, 2, exif.bytes, exif.length);
        picture_insert(&file, 2, head, sizeof head);
        picture_free(&exif);
    }
    return file;
}

/* ---- the reference ---- */

struct box {
    uint32_t x, y, width, height;
};

/* The pixels of the file that are upright at x, y. */
static struct raster upright(const struct raster *from, int orientation)
{
    bool turned = orientation >= 5;
    struct raster to = raster_make(turned ? from->height : from->width,
                                   turned ? from->width : from->height, from->channels);
    uint32_t right = from->width - 1, below = from->height - 1;
    for (uint32_t y = 0; y < to.height; y++)
        for (uint32_t x = 0; x < to.width; x++) {
            uint32_t u = turned ? y : x, v = turned ? x : y;
            bool mirrors = orientation == 2 || orientation == 3 || orientation >= 7;
            bool flips =
                orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
            memcpy(raster_at(&to, x, y),
                   raster_at(from, mirrors ? right - u : u, flips ? below - v : v), from->channels);
        }
    return to;
}

static struct box find(const struct raster *raster, int threshold)
{
    uint32_t left = raster->width, top = raster->height, right = 0, bottom = 0;
    const uint8_t *first = raster->pixels;
    for (uint32_t y = 0; y < raster->height; y++)
        for (uint32_t x = 0; x < raster->width; x++)
            for (uint32_t c = 0; c < raster->channels; c++) {
                if (abs(raster_at(raster, x, y)[c] - first[c]) <= threshold)
                    continue;
                left = x < left ? x : left;
                right = x >= right ? x + 1 : right;
                top = y < top ? y : top;
                bottom = y + 1;
            }
    return (struct box){left, top, right - left, bottom - top};
}

static struct raster cut(const struct raster *from, struct box box)
{
    struct raster to = raster_make(box.width, box.height, from->channels);
    for (uint32_t y = 0; y < box.height; y++)
        memcpy(raster_at(&to, 0, y), raster_at(from, box.x, box.y + y),
               (size_t)box.width * from->channels);
    return to;
}

static void check_trim(const cJSON *result, struct box box)
{
    check_has(result,
              "{'status':'done','input.trim.x':%u,'input.trim.y':%u,"
              "'input.trim.width':%u,'input.trim.height':%u}",
              box.x, box.y, box.width, box.height);
}

/* ---- one image ---- */

static void fill(void)
{
    for (int orientation = 0; orientation <= 8; orientation++)
        world_put_picture(w, text_of("o%d.jpg", orientation), framed_jpeg(5, orientation));
    for (uint32_t i = 0; i < 3; i++)
        world_put_picture(w, text_of("c/%u.jpg", i), framed_jpeg(i + 1, 0));
    struct raster flat = raster_make(40, 30, 3);
    struct picture_file file = {.bytes = NULL};
    memset(flat.pixels, 77, 40 * 30 * 3);
    file.bytes = raster_to_jpeg(&flat, 90, &file.length);
    raster_clear(&flat);
    world_put_picture(w, "flat.jpg", file);
    put_png("alpha.png", .width = 60, .height = 40, .colour_type = 6);
}

/* Also without `orient`: then the part is that of the image as it is in the file. */
TEST(test_orientations)
{
    for (int orientation = 0; orientation <= 8; orientation++)
        for (int orient = 0; orient < 2; orient++) {
            struct raster file =
                raster_load(in_path(text_of("o%d.jpg", orientation)), RASTER_COLOUR);
            struct raster seen = upright(&file, orient ? orientation : 1);
            struct box box = find(&seen, 80);
            assert_in_range(box.width, HEIGHT, WIDTH);
            cJSON *result = check_answer(w,
                                         "{'input':'o%d.jpg','orient':%s,'trim':"
                                         "{'threshold':80},'output':'o.png'}",
                                         orientation, orient ? "true" : "false");
            check_trim(result, box);
            check_has(result, "{'input.width':%u,'outputs.0.width':%u}", file.width, box.width);
            cJSON_Delete(result);
            check_output(w, "o.png", cut(&seen, box), 0);
            raster_clear(&seen);
            raster_clear(&file);
        }
}

/* The job runs as if its first operation cut the part out: also if the result needs more memory
 * than the input, and if a JPEG is decoded as gray. */
TEST(test_same_as_crop)
{
    static const char *const ops[] = {
        "'invert'",
        "{'op':'resize','width':900}",
        "{'op':'resize','width':20}",
        "'grayscale','sobel'",
        "'sobel','stats','palette','thumbhash'",
        "'transpose',{'op':'crop','x':3,'y':5,'width':70,'height':50},'gaussian'"};
    struct raster file = raster_load(in_path("o6.jpg"), RASTER_COLOUR);
    struct raster seen = upright(&file, 6);
    struct box box = find(&seen, 80);
    for (size_t i = 0; i < COUNT_OF(ops); i++) {
        cJSON *one = check_answer(w,
                                  "{'input':'o6.jpg','trim':{'threshold':80},"
                                  "'output':'one.png','ops':[%s]}",
                                  ops[i]);
        cJSON *other = check_answer(w,
                                    "{'input':'o6.jpg','output':'other.png','ops':[{'op':"
                                    "'crop','x':%u,'y':%u,'width':%u,'height':%u},%s]}",
                                    box.x, box.y, box.width, box.height, ops[i]);
        check_trim(one, box);
        check_has(other, "{'status':'done'}");
        const cJSON *values = json_at(one, "outputs.0.values");
        assert_int_equal(values != NULL, i == 4);
        assert_true(!values || cJSON_Compare(values, json_at(other, "outputs.0.values"), true));
        check_output(w, "one.png", raster_load(out_path("other.png"), RASTER_COLOUR), 0);
        cJSON_Delete(one);
        cJSON_Delete(other);
    }
    raster_clear(&seen);
    raster_clear(&file);
}

TEST(test_colour)
{
    cJSON *result = check_answer(w, "{'input':'o0.jpg','trim':{'color':[255,255,255],"
                                    "'threshold':80},'output':'w.png'}");
    check_has(result, "{'status':'done','input.trim.width':%d,'input.trim.height':%d}", WIDTH,
              HEIGHT);
    cJSON_Delete(result);
    result = check_answer(w, "{'input':'o0.jpg','trim':{'color':[0,0,255]},'output':'b.png'}");
    check_has(result, "{'status':'done','input.trim.x':0,'input.trim.width':%d}",
              LEFT + WIDTH + RIGHT);
    cJSON_Delete(result);
}

/* Nothing but border stays whole. */
TEST(test_flat)
{
    cJSON *result = check_answer(w, "{'input':'flat.jpg','trim':{},'output':'flat.png'}");
    check_trim(result, (struct box){0, 0, 40, 30});
    check_has(result, "{'outputs.0.width':40,'outputs.0.height':30}");
    cJSON_Delete(result);
    result = check_answer(w, "{'input':'flat.jpg','output':'flat.png'}");
    assert_null(json_at(result, "input.trim"));
    cJSON_Delete(result);
}

/* The input and an overlay are read from Redis; the overlay after the input was measured. */
TEST(test_keys)
{
    static const char *const names[] = {"o0.jpg", "alpha.png"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct picture_file file = picture_load(in_path(names[i]));
        freeReplyObject(
            redis_command(w->client, "SET gpuimgd:img:%s %b", names[i], file.bytes, file.length));
        picture_free(&file);
    }
    cJSON *result = check_answer(w, "{'input':{'key':'gpuimgd:img:o0.jpg'},'trim':"
                                    "{'threshold':80},'output':'key.png','ops':[{'op':"
                                    "'composite','input':{'key':'gpuimgd:img:alpha.png'}}]}");
    check_has(result, "{'status':'done','outputs.0.width':%d,'outputs.0.height':%d}", WIDTH,
              HEIGHT);
    cJSON_Delete(result);
}

/* ---- many images ---- */

static void check_sizes(const char *format)
{
    for (int i = 0; i < 3; i++) {
        struct raster raster = raster_load(out_path(text_of(format, i)), RASTER_COLOUR);
        assert_int_equal(raster.width, WIDTH);
        assert_int_equal(raster.height, HEIGHT);
        raster_clear(&raster);
    }
}

TEST(test_list)
{
    cJSON *result = check_answer(w, "{'inputs':['c/0.jpg','c/1.jpg','c/2.jpg'],'trim':"
                                    "{'threshold':80},'output':'list/%%p.png'}");
    check_has(result, "{'status':'done','images.done':3,'images.failed':0}");
    cJSON_Delete(result);
    check_sizes("list/c/%d.png");
}

TEST(test_shard)
{
    struct shard_member members[3], member;
    struct picture_file files[3];
    for (size_t i = 0; i < 3; i++) {
        files[i] = picture_load(in_path(text_of("c/%zu.jpg", i)));
        members[i] = (struct shard_member){text_of("%zu.jpg", i), files[i].bytes, files[i].length};
    }
    struct picture_file tar = shard_make(members, 3);
    picture_save(&tar, in_path("t.tar"));
    picture_free(&tar);
    cJSON *result = check_answer(w, "{'inputs':{'archive':'t.tar'},'trim':{'threshold':80},"
                                    "'output':{'path':'t.tar','format':'png'}}");
    check_has(result, "{'status':'done','images.done':3}");
    cJSON_Delete(result);
    tar = picture_load(out_path("t.tar"));
    size_t offset = 0;
    for (size_t i = 0; i < 3; i++) {
        assert_true(shard_next(&tar, &offset, &member));
        struct raster raster = raster_decode(member.bytes, member.length, RASTER_COLOUR);
        assert_int_equal(raster.width, WIDTH);
        assert_int_equal(raster.height, HEIGHT);
        raster_clear(&raster);
        picture_free(&files[i]);
    }
    picture_free(&tar);
}

/* ---- refusals ---- */

TEST(test_refused)
{
    check_failed(check_answer(w, "{'input':'o0.jpg','trim':{'threshold':80},'output':'x.png',"
                                 "'ops':[{'op':'crop','x':0,'y':0,'width':91,'height':9}]}"),
                 "bad_op", "90 x 61", NULL);
#ifdef GPUIMGD_JXL
    check_failed(check_answer(w, "{'input':'flat.jpg','trim':{},'output':"
                                 "{'path':'x.jxl','recompress':true}}"),
                 "bad_job", "recompress is true, which changes no pixel; omit trim", NULL);
#endif
    check_failed(check_answer(w, "{'input':'missing.jpg','trim':{},'output':'x.png'}"),
                 "input_missing", NULL);
    world_put(w, "broken.jpg", "\xFF\xD8\xFF\xE0", 4);
    check_failed(check_answer(w, "{'input':'broken.jpg','trim':{},'output':'x.png'}"),
                 "decode_failed", NULL);
}

WORLD_MAIN(ONE_WORLD, .fill = fill, .start = true)
