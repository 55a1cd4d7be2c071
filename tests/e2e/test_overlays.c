/*
 * test_overlays.c - jobs with the operations composite and text: overlays from files, keys and
 * texts, their errors, and files that change. The pixels are computed here from the decoded files.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codecs/codec.h"
#include "conf/text_style.h"
#include "tests/fixtures/reference.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

#define LOGO .width = 60, .height = 40, .colour_type = 6, .seed = 3

static void put_inputs(void)
{
    put_jpeg("gray.jpg", .width = 97, .height = 61, .colour = PICTURE_GRAY);
    put_png("rgb.png", .width = 97, .height = 61, .colour_type = 2);
    put_png("logo.png", LOGO);
    put_png("gray-logo.png", .width = 31, .height = 17, .colour_type = 4);
    put_png("turned.png", .width = 60, .height = 40, .colour_type = 6, .orientation = 6);
    put_jpeg("opaque.jpg", .width = 33, .height = 20);
    world_put(w, "broken.png", "\x89PNG\r\n\x1a\n broken", 15);
    world_put(w, "text.txt", "no image", 8);
    assert_int_equal(mkdir(in_path("folder"), 0755), 0);
    assert_int_equal(mkfifo(in_path("pipe"), 0644), 0);
    assert_int_equal(symlink("logo.png", in_path("link.png")), 0);
}

/* ---- the reference: an opaque base ---- */

static uint8_t blend(uint32_t under, uint32_t over, uint32_t alpha)
{
    return (uint8_t)((2 * (under * (255 - alpha) + over * alpha) + 255) / 510);
}

/* Lays `over` on `base` and frees both. Repeats it if `tile`. */
static struct raster lay(struct raster base, struct raster over, int left, int top, bool tile)
{
    bool colours = over.channels == 3; /* the test's RGBA images have colours, too */
    colours |= over.channels == 4 && memcmp(over.pixels, over.pixels + 1, 2) != 0;
    struct raster to = raster_make(base.width, base.height, colours ? 3 : base.channels);
    for (uint32_t y = 0; y < to.height; y++)
        for (uint32_t x = 0; x < to.width; x++) {
            int64_t ox = (int64_t)x - left, oy = (int64_t)y - top;
            bool inside = ox >= 0 && oy >= 0 && ox < over.width && oy < over.height;
            ox = (ox % over.width + over.width) % over.width;
            oy = (oy % over.height + over.height) % over.height;
            const uint8_t *o = raster_at(&over, (uint32_t)ox, (uint32_t)oy);
            uint32_t alpha = over.channels == 4 ? o[3] : 255;
            for (uint32_t c = 0; c < to.channels; c++) {
                uint8_t under = raster_at(&base, x, y)[base.channels == 1 ? 0 : c];
                raster_at(&to, x, y)[c] =
                    inside || tile ? blend(under, o[over.channels == 1 ? 0 : c], alpha) : under;
            }
        }
    raster_clear(&base);
    raster_clear(&over);
    return to;
}

static struct raster load(const char *name)
{
    struct raster raster = world_load_in(w, name, RASTER_COLOUR);
    assert_non_null(raster.pixels);
    return raster;
}

/* ---- places ---- */

TEST(test_places)
{
    need_engine();
    static const struct {
        const char *base, *overlay, *more;
        int left, top;
        bool tile;
    } cases[] = {
        {"rgb.png", "logo.png", "", 18, 10, false},
        {"rgb.png", "logo.png", ",'gravity':'southeast','x':5,'y':-4", 32, 25, false},
        {"rgb.png", "logo.png", ",'x':-20,'y':30", -20, 30, false},
        {"rgb.png", "logo.png", ",'x':0,'y':1,'tile':true", 0, 1, true},
        {"gray.jpg", "logo.png", ",'gravity':'north'", 18, 0, false},
        {"gray.jpg", "opaque.jpg", ",'gravity':'west'", 0, 20, false},
        {"rgb.png", "gray-logo.png", ",'gravity':'northeast'", 66, 0, false},
        {"rgb.png", "opaque.jpg", ",'tile':true,'gravity':'northwest','x':7", 7, 0, true},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        check_done(check_answer(w, "{'input':'%s','output':'o%zu.png','ops':[{'op':'composite',"
                                "'input':'%s'%s}]}", cases[i].base, i, cases[i].overlay,
                                cases[i].more));
        check_output(w, text_of("o%zu.png", i), lay(load(cases[i].base), load(cases[i].overlay),
                     cases[i].left, cases[i].top, cases[i].tile), 0);
    }
}

/* Gray under a gray overlay stays gray. */
TEST(test_gray)
{
    need_engine();
    cJSON *result = check_answer(w, "{'input':'gray.jpg','output':'g.png','ops':[{'op':'composite',"
                                 "'input':'gray-logo.png','x':3,'y':4}]}");
    check_done(result);
    struct raster got = world_load_out(w, "g.png");
    assert_int_equal(got.channels, 1);
    struct raster want = lay(load("gray.jpg"), load("gray-logo.png"), 3, 4, false);
    struct raster gray = raster_make(want.width, want.height, 1);
    for (uint32_t y = 0; y < want.height; y++)
        for (uint32_t x = 0; x < want.width; x++)
            *raster_at(&gray, x, y) = *raster_at(&want, x, y);
    raster_clear(&want);
    check_pixels("gray", got, gray, 0);
}

/* The size of a scaled overlay and its pixels are those of resize. */
TEST(test_scale)
{
    need_engine();
    check_done(check_answer(w, "{'input':'logo.png','output':'small.png','ops':[{'op':'resize',"
                            "'width':24,'height':16,'fit':'exact'}]}"));
    struct raster small = world_load_out(w, "small.png");
    check_done(check_answer(w, "{'input':'rgb.png','output':'s.png','ops':[{'op':'composite',"
                            "'input':'logo.png','scale':0.25,'gravity':'southwest'}]}"));
    check_output(w, "s.png", lay(load("rgb.png"), small, 0, 61 - 16, false), 0);
}

TEST(test_orientation)
{
    need_engine();
    struct raster stored = load("turned.png"), turned = reference_orient(&stored, 6);
    raster_clear(&stored);
    check_done(check_answer(w, "{'input':'rgb.png','output':'t.png','ops':[{'op':'composite',"
                            "'input':'turned.png','x':0,'y':0}]}"));
    check_output(w, "t.png", lay(load("rgb.png"), turned, 0, 0, false), 0);
}

/* ---- keys ---- */

TEST(test_keys)
{
    need_engine();
    world_set_picture(w, "gpuimgd:img:logo", make_png(LOGO));
    world_set_picture(w, "gpuimgd:img:base", make_png(.width = 97, .height = 61, .colour_type = 2));
    cJSON *result = check_answer(
        w, "{'input':{'key':'gpuimgd:img:base'},'outputs':[{'output':'k0.png','ops':[{"
        "'op':'composite','input':{'key':'gpuimgd:img:logo'},'x':1,'y':2}]},"
        "{'output':'k1.png','ops':[{'op':'composite','input':{'key':'gpuimgd:img:logo'},"
        "'scale':0.25,'x':0,'y':0},{'op':'composite','input':'opaque.jpg','x':40,'y':0}]},"
        "{'output':'k2.png','ops':[{'op':'composite','input':{'key':'gpuimgd:img:none'}}]},"
        "{'output':'k3.png'}]}");
    assert_string_equal(json_text(result, "outputs.2.error.code"), "input_missing");
    assert_string_equal(json_text(result, "outputs.2.error.message"),
                        "outputs[2].ops[0].input: key \"gpuimgd:img:none\" does not exist");
    check_has(result, "{'outputs.0.error':null,'outputs.1.error':null,'outputs.3.error':null}");
    cJSON_Delete(result);
    check_output(w, "k0.png", lay(load("rgb.png"), load("logo.png"), 1, 2, false), 0);
    check_done(check_answer(w, "{'input':'logo.png','output':'small.png','ops':[{'op':'resize',"
                            "'width':24,'height':16,'fit':'exact'}]}"));
    struct raster one = lay(load("rgb.png"), world_load_out(w, "small.png"), 0, 0, false);
    check_output(w, "k1.png", lay(one, load("opaque.jpg"), 40, 0, false), 0);

    /* New bytes under the same key are another overlay. */
    world_set_picture(w, "gpuimgd:img:logo", make_png(.width = 31, .height = 17, .colour_type = 4));
    check_done(check_answer(w, "{'input':'rgb.png','output':'k4.png','ops':[{'op':'composite',"
                            "'input':{'key':'gpuimgd:img:logo'},'x':1,'y':2}]}"));
    check_output(w, "k4.png", lay(load("rgb.png"), load("gray-logo.png"), 1, 2, false), 0);
    check_failed(check_answer(w, "{'input':'rgb.png','output':'k5.png','ops':[{'op':'composite',"
                              "'input':{'key':'gpuimgd:img:none'}}]}"),
                 "input_missing", "ops[0].input: key \"gpuimgd:img:none\" does not exist", NULL);
}

/* ---- texts ---- */

/* A text as a codec process of this program draws it. Skips the test if it cannot. */
static struct raster draw(const char *text, struct text_style style)
{
    uint8_t bytes[sizeof style + TEXT_BYTES_MAX];
    size_t length = strlen(text);
    const struct codec_limits limits = {.pixels_max = PIXELS_DEFAULT, .side_max = SIDE_DEFAULT};
    struct codec_context *context = codec_context_create();
    struct raster raster = {0};
    struct image_info info;
    struct error error = {0};
    memcpy(bytes, &style, sizeof style);
    memcpy(bytes + sizeof style, text, length);
    length += sizeof style;
    enum status status = codec_measure_text(context, bytes, length, &limits, &info, &error);
    if (status == STATUS_OK) {
        raster = raster_make(info.width, info.height, 4);
        struct image image = {raster.pixels, info.width, info.height, 4, (size_t)info.width * 4};
        status = codec_draw_text(context, bytes, length, &info, &limits, &image, &error);
    }
    codec_context_destroy(context);
    if (status != STATUS_OK && !strstr(error.text, "no font is installed") &&
        !strstr(error.text, "without Pango"))
        fail_msg("%s", error.text);
    if (status != STATUS_OK)
        skip(); /* there is no Pango here, or there are no fonts */
    return raster;
}

TEST(test_text)
{
    need_engine();
    struct raster text =
        draw("Hi \u00a9",
             (struct text_style){.font = "Sans Bold", .size = 20, .rgba = {200, 30, 90, 255}});
    int left = 97 - (int)text.width - 5, top = 61 - (int)text.height - 2;
    static const char op[] = "{'op':'text','text':'Hi \u00a9','font':'Sans Bold','size':20,"
                             "'color':[200,30,90],'gravity':'southeast','x':5,'y':2}";
    cJSON *result = check_answer(w,
                                 "{'input':'rgb.png','outputs':[{'output':'t0.png','ops':[%s]},"
                                 "{'output':'t1.png','ops':['invert',%s]}]}",
                                 op, op);
    check_done(result);
    struct raster want = lay(load("rgb.png"), raster_copy(&text), left, top, false);
    check_output(w, "t0.png", want, 0);
    struct raster base = load("rgb.png");
    for (size_t i = 0; i < (size_t)base.width * base.height * 3; i++)
        base.pixels[i] = 255 - base.pixels[i];
    check_output(w, "t1.png", lay(base, text, left, top, false), 0);

    /* Black on gray stays gray. The text is larger than the image. */
    text = draw("abcdefgh\n12",
                (struct text_style){.font = "Sans", .size = 40, .rgba = {0, 0, 0, 255}});
    check_done(check_answer(w, "{'input':'gray.jpg','output':'t2.png','ops':[{'op':'text',"
                               "'text':'abcdefgh\\n12','size':40,'x':-7,'y':3}]}"));
    check_output(w, "t2.png", lay(load("gray.jpg"), text, -7, 3, false), 0);
}

TEST(test_bad_texts)
{
    static const struct {
        const char *params, *code, *text;
    } cases[] = {
        {"'text':''", "bad_op", "ops[0] text: text has 0 bytes; it must have 1 to 4096"},
        {"'text':'a\\u0007'", "bad_op",
         "ops[0] text: text has the control character U+0007; it must have no others than line "
         "feeds and tabs"},
        {"'text':'a','font':'Sans 12'", "bad_op", "ops[0] text: font ends with the size \"12\""},
        {"'text':'a','size':2001", "bad_op",
         "ops[0] text: size is 2001; it must be an integer of 1 to 2000"},
        {"'text':'a\\udbff\\udffd'", "bad_op",
         "ops[0].text \"a\U0010fffd\": no installed font has the "
         "character U+10FFFD"},
        {"'text':'WWWWWWWWWWWWWWWWWWWW','size':2000", "image_too_large", "ops[0].text \"WWWW"},
        {"'text':'a\\u0085'", "bad_op", "ops[0] text: text has the control character U+0085"},
        {"'text':'a\\u0000'", "bad_json", "\\u0000 is not allowed"},
        {"'text':'a\xff'", "bad_json", "not valid UTF-8"},
    };
    need_engine();
    struct raster drawn = draw("a", (struct text_style){.font = "Sans", .size = 9});
    raster_clear(&drawn);
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        check_failed(check_answer(w,
                                  "{'input':'rgb.png','output':'b.png','ops':[{'op':'text',%s}]}",
                                  cases[i].params),
                     cases[i].code, cases[i].text, NULL);
}

/* ---- errors ---- */

TEST(test_errors)
{
    need_engine();
    static const struct {
        const char *input, *code, *text;
    } cases[] = {
        {"'none.png'", "input_missing", "outputs[1].ops[1].input: the input \"none.png\" does not"},
        {"'folder'", "path_refused", "the input \"folder\" is not a regular file"},
        {"'pipe'", "path_refused", "the input \"pipe\" is not a regular file"},
        {"'link.png'", "path_refused", "is a symbolic link or leaves its root"},
        {"'../logo.png'", "path_refused", "outputs[1].ops[1].input \"../logo.png\" has a part"},
        {"{'key':'other:img:a'}", "path_refused", "it must begin with \"gpuimgd:img:\""},
        {"'text.txt'", "unsupported_format", "outputs[1].ops[1].input \"text.txt\": "},
        {"'broken.png'", "decode_failed", "outputs[1].ops[1].input \"broken.png\": "},
        {"{'key':'gpuimgd:img:out'}", "bad_job", "are both the key \"gpuimgd:img:out\""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        cJSON *result = check_answer(
            w, "{'input':'rgb.png','outputs':[{'output':'e%zu.png','ops':['invert']},"
            "{'output':{'key':'gpuimgd:img:out','format':'png'},'ops':['invert',{'op':'composite',"
            "'input':%s}]}]}", i, cases[i].input);
        assert_string_equal(json_text(result, "outputs.1.error.code"), cases[i].code);
        if (!strstr(json_text(result, "outputs.1.error.message"), cases[i].text))
            fail_msg("%s: %s", cases[i].input, json_text(result, "outputs.1.error.message"));
        assert_null(json_at(result, "outputs.0.error"));
        cJSON_Delete(result);
    }
    check_failed(check_answer(w, "{'input':'rgb.png','output':'e.png','ops':[{'op':'composite',"
                              "'input':'broken.png'}]}"),
                 "decode_failed", "ops[0].input \"broken.png\": ", NULL);
}

/* ---- changes ---- */

TEST(test_changed)
{
    need_engine();
    for (uint32_t i = 0; i < 6; i++) {
        if (i == 3) /* the first three are read within 2 s of the change, the others are kept */
            process_sleep(2.5);
        struct picture_png how = {.width = 40, .height = 30, .colour_type = 6, .seed = i % 4 + 9};
        if (i != 4) /* the file of the job before, from the cache */
            world_put_picture(w, "changing.png", picture_png(&how));
        check_done(check_answer(w, "{'input':'rgb.png','output':'c.png','ops':[{'op':'composite',"
                                "'input':'changing.png'},{'op':'composite','x':3,"
                                "'input':'changing.png','tile':true,'opacity':0}]}"));
        check_output(w, "c.png", lay(load("rgb.png"), load("changing.png"), 28, 15, false), 0);
    }
}

/* ---- many ---- */

/* 16 outputs, each with 32 overlays of their own. */
TEST(test_many)
{
    need_engine();
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    fprintf(out, "{\"input\":\"rgb.png\",\"outputs\":[");
    for (int o = 0; o < JOB_OUTPUTS_MAX; o++) {
        fprintf(out, "%s{\"output\":\"m%d.png\",\"ops\":[", o ? "," : "", o);
        for (int i = 0; i < JOB_OPS_MAX; i++) {
            put_png(text_of("many/%d.png", o * JOB_OPS_MAX + i), .width = 4, .height = 3,
                    .colour_type = 6, .seed = (uint32_t)(o * JOB_OPS_MAX + i));
            fprintf(out, "%s{\"op\":\"composite\",\"input\":\"many/%d.png\",\"x\":%d,\"y\":%d}",
                    i ? "," : "", o * JOB_OPS_MAX + i, i * 3 - 2, o * 2);
        }
        fprintf(out, "]}");
    }
    fprintf(out, "]}");
    fclose(out);
    world_push_bytes(w, text, length);
    free(text);
    check_done(check_next(w));
    for (int o = 0; o < JOB_OUTPUTS_MAX; o += 5) {
        struct raster want = load("rgb.png");
        for (int i = 0; i < JOB_OPS_MAX; i++)
            want = lay(want, load(text_of("many/%d.png", o * JOB_OPS_MAX + i)), i * 3 - 2, o * 2,
                       false);
        check_output(w, text_of("m%d.png", o), want, 0);
    }
}

/* Jobs wait for the memory of the overlays that other jobs hold. */
TEST(test_little_memory)
{
    enum { jobs = 24, keys = 6, side = 200 };
    need_engine();
    for (int k = 0; k < keys; k++)
        world_set_picture(w, text_of("little:img:%d", k), make_png(.width = side, .height = side,
                                                      .colour_type = 6, .seed = (uint32_t)k));
    strcpy(w->ns, "little");
    struct process *daemon = start_ready(1, "--host_bytes=2M", "--input_bytes_max=512K",
                                         "--workers=4", "--inflight=16");
    for (int j = 0; j < jobs; j++)
        world_push(w, "{'input':'rgb.png','output':'l%d.png','ops':["
                   "{'op':'composite','input':{'key':'little:img:%d'}},"
                   "{'op':'composite','input':{'key':'little:img:%d'}}]}", j, j % keys,
                   (j + 1) % keys);
    for (int j = 0; j < jobs; j++)
        check_done(check_next(w));
    check_stop(daemon);
    strcpy(w->ns, "gpuimgd");
}

/* An overlay of 4 MB and an input of 4.3 MB fit into the 8 MiB of the file pool, but only if the
 * memory in which the overlay was decoded leaves no gap below it. */
TEST(test_beside_input)
{
    static const char *const inputs[] = {"{'key':'beside:img:in'}", "'padded.jpg'"};
    need_engine();
    world_set_picture(w, "beside:img:wide", make_jpeg(.width = 1100, .height = 900, .quality = 1));
    world_set_picture(w, "beside:img:noise", make_png(.width = 40, .height = 30, .colour_type = 6));
    world_set_picture(w, "beside:img:in", picture_padded(4300000));
    world_put_picture(w, "padded.jpg", picture_padded(4300000));
    strcpy(w->ns, "beside");
    struct process *daemon = start_ready(1, "--host_bytes=16M", "--input_bytes_max=6M",
                                         "--workers=2", "--inflight=4");
    for (size_t i = 0; i < 2 * COUNT_OF(inputs); i++)
        check_done(check_answer(w, "{'input':%s,'output':'b%zu.png','ops':["
                                "{'op':'composite','input':{'key':'beside:img:%s'}},"
                                "{'op':'composite','input':{'key':'beside:img:%s'}}]}",
                                inputs[i / 2], i, i % 2 ? "wide" : "noise",
                                i % 2 ? "noise" : "wide"));
    check_stop(daemon);
    strcpy(w->ns, "gpuimgd");
}

/* Large inputs from keys wait for the room that overlays hold. Meanwhile a job that holds an
 * overlay waits for the budget of large keys, which these inputs have used up. */
TEST(test_large_keys)
{
    enum { jobs = 24, input_bytes = 5400 * 1024 };
    need_engine();
    world_set_picture(w, "large:img:wide", make_jpeg(.width = 1100, .height = 900, .quality = 1));
    world_set_picture(w, "large:img:noise",
                      make_png(.width = 300, .height = 300, .colour_type = 6));
    world_set_picture(w, "large:img:in", picture_padded(input_bytes));
    strcpy(w->ns, "large");
    struct process *daemon = start_ready(1, "--host_bytes=16M", "--input_bytes_max=6M",
                                         "--workers=4", "--inflight=16");
    for (int j = 0; j < jobs; j++)
        if (j % 4 == 0)
            world_push(w, "{'input':'rgb.png','output':'g%d.png','ops':["
                       "{'op':'composite','input':{'key':'large:img:wide'}},"
                       "{'op':'composite','input':{'key':'large:img:noise'}}]}", j);
        else
            world_push(w, "{'input':{'key':'large:img:in'},'output':'g%d.png'}", j);
    for (int j = 0; j < jobs; j++)
        check_done(check_next(w));
    check_stop(daemon);
    strcpy(w->ns, "gpuimgd");
}

/* The overlay of 4 MB is in the 7 MiB of the file pool, but cannot be resized there. The job must
 * not wait for the memory that it holds itself. */
TEST(test_own_memory)
{
    need_engine();
    put_jpeg("wide.jpg", .width = 1100, .height = 900, .quality = 1);
    process_sleep(2.5); /* a file that was changed within 2 s is read for each use */
    strcpy(w->ns, "own");
    struct process *daemon = start_ready(1, "--host_bytes=14M", "--input_bytes_max=6M");
    check_failed(check_answer(w, "{'input':'rgb.png','output':'w.png','ops':[{'op':'composite',"
                                 "'input':'wide.jpg'},{'op':'composite','input':'wide.jpg',"
                                 "'scale':0.5}]}"),
                 "over_budget", "do not fit into half of host_bytes", NULL);
    check_stop(daemon);
    strcpy(w->ns, "gpuimgd");
}

/* Fonts are mapped files, for which no memory is reserved. */
TEST(test_text_in_little_memory)
{
    static const char job[] =
        "{'input':'rgb.png','output':'t.png','ops':[{'op':'text','text':'a'}]}";
    need_engine();
    struct raster drawn = draw("a", (struct text_style){.font = "Sans", .size = 9});
    raster_clear(&drawn);
    strcpy(w->ns, "little");
    struct process *daemon = start_ready(1, "--host_bytes=92M", "--input_bytes_max=6M");
    check_done(check_answer(w, "%s", job));
    check_stop(daemon);
    daemon = start_ready(1, "--host_bytes=64M", "--input_bytes_max=6M");
    check_failed(check_answer(w, "%s", job), "over_budget",
                 "measuring the text needs 33554432 bytes; the limit is three eighths of "
                 "host_bytes: set it to 86M or more",
                 NULL);
    check_stop(daemon);
    strcpy(w->ns, "gpuimgd");
}

ENGINES_MAIN(.fill = put_inputs)
