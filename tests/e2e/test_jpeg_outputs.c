/*
 * test_jpeg_outputs.c - the parameters of JPEG outputs: subsampling, Huffman tables, and a limit of
 * the file's size.
 */
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

static void put_images(void)
{
    put_jpeg("photo.jpg", .width = 401, .height = 299, .subsampling = 444, .quality = 98);
    put_jpeg("cmyk.jpg", .width = 301, .height = 200, .colour = PICTURE_CMYK, .quality = 98);
    put_jpeg("ycck.jpg", .width = 200, .height = 301, .colour = PICTURE_YCCK, .progressive = true);
    put_jpeg("progressive.jpg", .width = 300, .height = 200, .progressive = true, .quality = 95);
    put_jpeg("gray.jpg", .width = 400, .height = 300, .colour = PICTURE_GRAY, .quality = 99);
    put_png("glass.png", .width = 300, .height = 200, .colour_type = 6);
}

static unsigned char *read_out(const char *name, size_t *length)
{
    unsigned char *bytes = text_file_bytes(out_path(name), length);
    if (!bytes)
        fail_msg("%s does not exist", name);
    return bytes;
}

static void compare(const char *name_a, const char *name_b)
{
    size_t length_a, length_b;
    unsigned char *a = read_out(name_a, &length_a), *b = read_out(name_b, &length_b);
    if (length_a != length_b || memcmp(a, b, length_a) != 0)
        fail_msg("%s (%zu bytes) and %s (%zu bytes) differ", name_a, length_a, name_b, length_b);
    free(a);
    free(b);
}

/* The sampling factors of each component in the frame header: "22 11 11". */
static const char *factors(const char *name)
{
    struct picture_file file = picture_load(out_path(name));
    size_t at = picture_jpeg_marker(&file, 0xC0);
    const char *text = "";
    assert_true(at + 10 < file.length);
    for (int i = 0; i < file.bytes[at + 9]; i++)
        text = text_of("%s%s%02x", text, i ? " " : "", file.bytes[at + 11 + 3 * i]);
    picture_free(&file);
    return text;
}

TEST(test_subsampling)
{
    static const struct {
        const char *word, *factors;
    } rows[] = {{"420", "22 11 11"}, {"422", "21 11 11"}, {"444", "11 11 11"}, {"gray", "11"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *name = text_of("%s.jpg", rows[i].word);
        check_done(check_answer(w, "{'input':'photo.jpg','output':{'path':'%s','subsampling':'%s'"
                                   "}}", name, rows[i].word));
        assert_string_equal(factors(name), rows[i].factors);
    }
    check_done(check_answer(w, "{'input':'photo.jpg','output':'default.jpg'}"));
    compare("default.jpg", "420.jpg");
    /* The colours of 4:4:4 are nearer to those of the input. */
    check_output_near(w, "444.jpg", world_load_in(w, "photo.jpg", RASTER_COLOUR), 29);
    check_done(check_answer(w, "{'input':'gray.jpg','output':{'path':'g.jpg','subsampling':'444'"
                               "}}"));
    assert_string_equal(factors("g.jpg"), "11");
}

/* Gray is the Y channel of a JPEG, and what the operation grayscale makes of other images. */
TEST(test_gray)
{
    size_t length;
    struct raster luma = world_load_in(w, "photo.jpg", RASTER_LUMA);
    uint8_t *expected = raster_to_jpeg(&luma, 85, &length);
    check_done(check_answer(w, "{'input':'photo.jpg','output':{'path':'y.jpg','subsampling':'gray'"
                               "}}"));
    size_t got_length;
    unsigned char *got = read_out("y.jpg", &got_length);
    assert_int_equal(got_length, length);
    assert_memory_equal(got, expected, length);
    free(got);
    free(expected);
    raster_clear(&luma);
    static const char *const rows[][2] = {
        {"photo.jpg", ""}, {"photo.jpg", "'invert'"}, {"photo.jpg", "'flip',{'op':'crop','width':9,"
                                                       "'height':7,'x':3,'y':5}"},
        {"glass.png", ""}, {"glass.png", "{'op':'resize','width':55}"}, {"cmyk.jpg", "'sobel'"},
        {"cmyk.jpg", ""},  {"glass.png", "{'op':'crop','width':9,'height':7,'x':3,'y':5}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *comma = *rows[i][1] ? "," : "";
        check_done(check_answer(
            w, "{'input':'%s','background':[9,80,200],'outputs':[{'output':{'path':'a.jpg',"
               "'subsampling':'gray'},'ops':[%s]},{'output':'b.jpg','ops':[%s%s'grayscale']}]}",
            rows[i][0], rows[i][1], rows[i][1], comma));
        compare("a.jpg", "b.jpg");
    }
}

TEST(test_optimize)
{
    size_t plain, optimized;
    check_done(check_answer(w, "{'input':'photo.jpg','outputs':[{'output':'p.jpg'},"
                               "{'output':{'path':'o.jpg','optimize':true}}]}"));
    free(read_out("p.jpg", &plain));
    free(read_out("o.jpg", &optimized));
    assert_true(optimized < plain);
    struct raster pixels = world_load_out(w, "p.jpg");
    check_output(w, "o.jpg", pixels, 0);
}

/* ---- a limit of the size -------------------------------------------------------------------- */

/* Runs a job with the limit, and one with the quality that its result names: the files must be the
 * same, and have at most, and nearly, the limit. */
static void check_size(const char *input, const char *more, unsigned max_bytes)
{
    cJSON *result = check_answer(w, "{'input':'%s','output':{'path':'s.jpg','max_bytes':%u%s}}",
                                 input, max_bytes, more);
    assert_string_equal(json_text(result, "error.message"), "");
    double quality = json_number(result, "outputs.0.quality");
    double bytes = json_number(result, "outputs.0.bytes");
    if (bytes > max_bytes || (bytes < 0.7 * max_bytes && quality < 85))
        fail_msg("%s%s: %.0f bytes with quality %.0f for at most %u", input, more, bytes, quality,
                 max_bytes);
    check_done(result);
    result = check_answer(w, "{'input':'%s','output':{'path':'q.jpg','quality':%.0f%s}}", input,
                          quality, more);
    assert_null(json_at(result, "outputs.0.quality"));
    check_done(result);
    compare("s.jpg", "q.jpg");
}

TEST(test_max_bytes)
{
    static const char *const inputs[] = {"photo.jpg", "cmyk.jpg", "ycck.jpg", "progressive.jpg",
                                         "gray.jpg", "glass.png"};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        for (unsigned kib = 6; kib <= 12; kib += 3)
            check_size(inputs[i], "", kib * 1024);
    check_size("photo.jpg", ",'progressive':true", 8000);
    check_size("photo.jpg", ",'optimize':true,'subsampling':'444'", 9000);
    check_size("photo.jpg", ",'subsampling':'gray'", 7000);
    check_size("photo.jpg", "", 2147483647);
}

/* The job's quality is the highest one, and a file that fits with it is not searched. */
TEST(test_max_bytes_with_a_quality)
{
    cJSON *result = check_answer(w, "{'input':'photo.jpg','output':{'path':'s.jpg','quality':40,"
                                    "'max_bytes':1000000}}");
    check_has(result, "{'outputs.0.quality':40}");
    check_done(result);
    check_done(check_answer(w, "{'input':'photo.jpg','output':{'path':'q.jpg','quality':40}}"));
    compare("s.jpg", "q.jpg");
}

TEST(test_max_bytes_too_low)
{
    cJSON *result = check_answer(w, "{'input':'photo.jpg','output':{'path':'none.jpg',"
                                    "'max_bytes':700}}");
    assert_null(json_at(result, "outputs.0.quality"));
    check_failed(result, "encode_failed", "bytes at quality 1, the lowest, with 0 bytes of "
                 "metadata, but max_bytes is 700; raise max_bytes, keep less metadata, or", NULL);
    assert_null(text_file_bytes(out_path("none.jpg"), &(size_t){0}));
    /* The other outputs are written. */
    result = check_answer(w, "{'input':'photo.jpg','outputs':[{'output':{'path':'none.jpg',"
                             "'max_bytes':700}},{'output':{'path':'some.jpg','max_bytes':9000}}]}");
    assert_true(json_number(result, "outputs.1.bytes") <= 9000);
    check_failed(result, "encode_failed", "700", NULL);
}

/* To a key, whose memory is reserved for at most this size. */
TEST(test_max_bytes_of_a_key)
{
    cJSON *result = check_answer(w, "{'input':'photo.jpg','outputs':[{'output':{"
                                    "'key':'gpuimgd:img:k','format':'jpeg','max_bytes':9000}},"
                                    "{'output':{'path':'k.jpg','max_bytes':9000}}]}");
    assert_true(json_number(result, "outputs.0.bytes") == json_number(result, "outputs.1.bytes"));
    assert_true(json_number(result, "outputs.0.quality") > 0);
    check_done(result);
}

static size_t count_starts(const char *path)
{
    size_t length = 0;
    free(text_file_bytes(path, &length));
    return length;
}

/* JPEGs need no codec process: if it cannot start, no job with JPEGs tries to start it. */
TEST(test_no_codec_process)
{
    char *starts = text_keep(strdup(text_of("%s/starts", w->folder)));
    char *program = text_keep(strdup(text_of("%s/codec", w->folder)));
    char *before = text_keep(strdup(getenv("GPUIMGD_CODEC")));
    const char *script = text_of("#!/bin/sh\nprintf x >> %s\nexit 1\n", starts);
    assert_true(text_file_write(program, script, strlen(script)));
    assert_int_equal(chmod(program, 0755), 0);
    check_stop(&w->daemons[0]);
    setenv("GPUIMGD_CODEC", program, 1);
    struct process *daemon = start_ready(0);
    setenv("GPUIMGD_CODEC", before, 1);
    size_t count = count_starts(starts); /* 0: this build has no codecs in processes */
    if (count == 0)
        skip();
    for (int i = 0; i < 3; i++)
        check_done(check_answer(w,
                                "{'inputs':['photo.jpg','gray.jpg'],'output':'t%d.tar',"
                                "'ops':['sobel']}",
                                i));
    check_done(check_answer(w, "{'input':'photo.jpg','output':'t.jpg'}"));
    assert_int_equal(count_starts(starts), count);
    check_stop(daemon);
}

WORLD_MAIN(ONE_WORLD, .fill = put_images, .start = true)
