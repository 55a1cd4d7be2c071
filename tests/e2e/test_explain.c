/*
 * test_explain.c - gpuimgd --explain: the plan of a job, without Redis and without a trace.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fixtures/apng_file.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

static void put_images(void)
{
    put_jpeg("cat.jpg", .width = 640, .height = 427, .orientation = 6);
    put_jpeg("cmyk.jpg", .width = 61, .height = 47, .colour = PICTURE_CMYK);
    put_jpeg("large.jpg", .width = 2000, .height = 1500);
    static const char gif[] = "GIF89a\x88\x13\xa0\x0f\0\0\0" /* 5000 x 4000, two empty frames */
                              ",\0\0\0\0\0\0\0\0\0\2\0,\0\0\0\0\0\0\0\0\0\2\0;";
    world_put(w, "large.gif", gif, sizeof gif - 1);
    const struct picture_png rgb = {.width = 20, .height = 10, .colour_type = 2};
    const struct apng_part frames[] = {{.image = rgb, .disposal = 1}, {.image = rgb}};
    const struct apng_file apng = {.frames = frames, .count = 2};
    world_put_picture(w, "apng.png", apng_write(&apng));
    const struct picture_png wide = {.width = 20, .height = 10, .colour_type = 2, .bit_depth = 16};
    const struct apng_part deep[] = {{.image = wide}, {.image = wide}};
    world_put_picture(w, "deep.png", apng_write(&(struct apng_file){.frames = deep, .count = 2}));
    struct picture_file bare = picture_png(&rgb);
    apng_announce(&bare, 3, 0);
    world_put_picture(w, "bare.png", bare);
    put_png("glass.png", .width = 100, .height = 10, .colour_type = 6);
}

/* Runs a shell command with $job as the job's file and $in and $out as the folders. */
static int run(const char *command, char **out, char **err)
{
    struct process process;
    const char *line = text_of("job=%s/job.json in=--input_root=%s out=--output_root=%s; %s",
                               w->folder, w->in, w->out, command);
    const char *args[] = {"-c", line, NULL};
    struct process_options options = {
        .program = "/bin/sh", .args = args, .folder = w->folder, .name = "explain"};
    assert_true(process_start(&process, &options));
    int status = process_wait(&process, 20);
    *out = process_out(&process);
    *err = process_log(&process);
    process_clear(&process);
    return status;
}

/* Writes the job's file; quotes as in world_push. */
static void put_job(const char *job)
{
    char path[128], json[2000];
    snprintf(path, sizeof path, "%s/job.json", w->folder);
    snprintf(json, sizeof json, "%s", job);
    for (char *at = json; *at; at++)
        if (*at == '\'')
            *at = '"';
    assert_true(text_file_write(path, json, strlen(json)));
}

/* Explains a job and returns the output. The exit status must be `status`, and the log must contain
 * `said`. */
static char *explain(const char *job, int status, const char *said)
{
    char *out, *err;
    put_job(job);
    int got = run("exec \"$GPUIMGD\" $in $out --explain $job", &out, &err);
    if (got != status || !strstr(err, said))
        fail_msg("%s: exit status %d, output \"%s\", error \"%s\"", job, got, out, err);
    free(err);
    return out;
}

/* The texts (ended by NULL) must occur in this order, and no other pass. */
static void check_lines(char *out, ...)
{
    const char *at = out, *text;
    size_t passes = 0, wanted = 0;
    va_list texts;
    va_start(texts, out);
    while ((text = va_arg(texts, const char *))) {
        const char *found = strstr(at, text);
        if (!found)
            fail_msg("no \"%s\" in the rest of\n%s", text, out);
        at = found + strlen(text);
        wanted += strncmp(text, "pass ", 5) == 0;
    }
    va_end(texts);
    for (at = out; (at = strstr(at, "\n  pass ")); at++)
        passes++;
    if (passes != wanted)
        fail_msg("%zu passes instead of %zu in\n%s", passes, wanted, out);
    free(out);
}

TEST(test_luma)
{
    check_lines(explain("{'input':'cat.jpg','output':'e.png','ops':['grayscale','sobel']}\n", 0,
                        ""),
                "input    cat.jpg: jpeg, 640 x 427 x 3, EXIF orientation 6, ",
                "decode   luma, the Y channel alone: 640 x 427 x 1, 273280 bytes\n",
                "output   e.png: png, 427 x 640 x 1\n", "pass 1  orient ",
                "640 x 427 x 1 ->", "427 x 640 x 1  reads 273280 of input, ",
                "writes 286720 of scratch",
                "pass 2  sobel ", "reads 286720 of scratch, writes 286720 of results\n",
                "input 273280, results 286720\n", "scratch  286720 bytes", "device ", NULL);
}

TEST(test_colour)
{
    check_lines(explain("{'input':'cat.jpg','orient':false,'outputs':[{'output':'e.png','ops':"
                        "['sobel']},{'output':'same.jpg'}]}", 0, ""),
                "EXIF orientation 6 (ignored)",
                "decode   Y, Cb and Cr, for gray and for colours: 640 x 427 x 3, 819840 bytes\n",
                "output   e.png: png, 640 x 427 x 1\n", "pass 1  sobel ", "works in 1920\n",
                "output   same.jpg: jpeg, 640 x 427 x 3\n", "pass 1  ycc to rgb ",
                "reads 819840 of input, writes 819840 of results\n",
                "pinned   1913344 bytes: input 819840, results 1093248\n", NULL);
    check_lines(explain("{'input':'cat.jpg','orient':false,'output':'same.jpg'}", 0, ""),
                "decode   colour: 640 x 427 x 3, 819840 bytes\n",
                "output   same.jpg: jpeg, 640 x 427 x 3\n", "no pass", NULL);
    check_lines(explain("{'input':'cat.jpg','orient':false,'output':'same.jpg','trim':{}}", 0, ""),
                ", planned as if it had no borders to trim, ", "no pass", NULL);
}

/* Passes beside the chain, and one pass that computes the hashes of all outputs. */
TEST(test_aside)
{
    check_lines(explain("{'input':'glass.png','outputs':[{'ops':['phash']},{'output':'o.png','ops':"
                        "['flip','phash']}]}",
                        0, ""),
                "pass 1  grayscale ", "reads 4160 of input, writes 1280 of scratch\n",
                "pass 2  resample x ", "32 x 10 x 1  reads 1280 of scratch, writes 320 of scratch",
                "pass 3  resample y ", "32 x 32 x 1  reads 320 of scratch, writes 1024 of scratch",
                "pass 4  phash ", "done by the last phash\n", "pass 1  orient ",
                "reads 4160 of input, writes 4160 of results\n", "pass 2  grayscale ",
                "reads 4160 of results, ", "pass 3  resample x ", "pass 4  resample y ",
                "pass 5  phash ", "32 x 64 x 1  reads 2048 of scratch, values in 16\n", "pinned ",
                NULL);
}

/* The outputs begin with the same passes, which run once. The first image is that of the second
 * output, too, and the oriented one that of the third. */
TEST(test_shared)
{
    char *out, *err;
    check_lines(
        explain("{'input':'cat.jpg','outputs':[{'output':'a.jpg','ops':['sobel']},"
                "{'output':'b.png','ops':['sobel']},"
                "{'output':'c.png','ops':['grayscale','phash']}]}",
                0, ""),
        "output   a.jpg: ", "pass 1  orient ", "reads 273280 of input, writes 286720 of results\n",
        "pass 2  sobel ", "reads 286720 of results, writes 286720 of results\n",
        "output   b.png: ", "pass 1  orient ", "427 x 640 x 1  done for an earlier output\n",
        "pass 2  sobel ", "427 x 640 x 1  done for an earlier output\n",
        "output   c.png: ", "pass 1  orient ", "done for an earlier output\n",
        "pass 2  resample x ", "pass 3  resample y ", "pass 4  phash ", NULL);
    assert_int_equal(run("exec \"$GPUIMGD\" $in $out --explain $job --json", &out, &err), 0);
    cJSON *json = cJSON_ParseWithOpts(out, NULL, true);
    assert_null(json_at(json, "outputs.0.passes.1.shared"));
    assert_true(cJSON_IsTrue(json_at(json, "outputs.1.passes.1.shared")));
    assert_null(json_at(json, "outputs.1.passes.1.reads"));
    assert_true(cJSON_IsTrue(json_at(json, "outputs.2.passes.0.shared")));
    cJSON_Delete(json);
    free(out);
    free(err);
}

TEST(test_decoded_smaller)
{
    check_lines(explain("{'input':'cat.jpg','output':'s.png','ops':[{'op':'resize','width':100}]}",
                        0, ""),
                "decode   colour, at 4/8: 320 x 214 x 3, 205440 bytes\n",
                "output   s.png: png, 100 x 150 x 3\n", "pass 1  orient ", "pass 2  resample x ",
                "pass 3  resample y ", NULL);
    check_lines(explain("{'input':'cat.jpg','outputs':[{'output':'s.png','ops':[{'op':'resize',"
                        "'width':100,'fast_shrink':true}]}]}", 0, ""),
                "decode   colour: 640 x 427 x 3, ", "output   s.png: png, 100 x 150 x 3\n",
                "pass 1  orient ", "pass 2  resample x ", "pass 3  resample y ", NULL);
}

/* Fused operations are one pass, and the printed sizes are those of the buffers. */
TEST(test_fused)
{
    check_lines(explain("{'input':'glass.png','output':'o.jpg','ops':['invert',{'op':'gamma',"
                        "'gamma':2},{'op':'color_matrix','matrix':[[0,1,0,0],[0,0,1,0],[1,0,0,0]]"
                        "},'levels','invert']}", 0, ""),
                "input    glass.png: png, 100 x 10 x 4, ",
                "decode   colour: 100 x 10 x 4, 4160 bytes\n",
                "output   o.jpg: jpeg, 100 x 10 x 3\n", "pass 1  table+matrix+table ",
                "reads 4160 of input, writes 4160 of scratch\n", "pass 2  flatten ",
                "reads 4160 of scratch, writes 3200 of results\n",
                "pinned   7680 bytes: input 4160, results 3200\n", "scratch  4352 bytes",
                "device   12032 bytes", NULL);
    check_lines(explain("{'input':'glass.png','output':'o.png','ops':['invert',{'op':'gamma',"
                        "'gamma':2},'unsharp']}", 0, ""),
                "pass 1  table+unsharp ", "reads 4160 of input, writes 4160 of results, works in ",
                "pinned   8704 bytes: input 4160, results 4160\n", NULL);
    check_lines(explain("{'input':'glass.png','output':'o.png','ops':['grayscale','invert',"
                        "'gaussian']}", 0, ""),
                "pass 1  gray+table+gaussian ",
                "100 x 10 x 4 ->     100 x 10 x 1  reads 4160 of input, writes 1280 of results, "
                "works in 976\n", NULL);
}

/* A cropped rectangle is read in place, by a pass or by the encoder. */
TEST(test_cropped)
{
    check_lines(explain("{'input':'glass.png','outputs':[{'output':'a.png','ops':[{'op':'crop',"
                        "'x':3,'y':2,'width':50,'height':7}]},{'output':'b.png','ops':['rotate',"
                        "{'op':'crop','x':1,'y':60,'width':9,'height':40}]}]}", 0, ""),
                "output   a.png: png, 50 x 7 x 4\n",
                "no pass: the result is the decoded image (from column 3 and row 2 of 100 x 10)\n",
                "output   b.png: png, 9 x 40 x 4\n", "pass 1  orient ", "40 x 9 x 4 ->",
                "reads 1440 of input (from column 60 and row 0 of 100 x 10), writes 2560 of "
                "results\n", NULL);
}

TEST(test_standard_input)
{
    char *out, *err;
    int status = run("printf '{\"input\":\"glass.png\",\"output\":\"o.png\",\"ops\":[]}' |"
                     " \"$GPUIMGD\" $in --explain -", &out, &err);
    assert_int_equal(status, 0);
    free(err);
    check_lines(out, "output   o.png: png, 100 x 10 x 4\n", "no pass", "no engine is needed\n",
                NULL);
}

TEST(test_what_would_fail)
{
    check_lines(explain("{'input':'glass.png','outputs':[{'output':'a.png','ops':['edges']},"
                        "{'output':'b.png','ops':['invert']}]}", 1, "unknown_op"),
                "output   a.png: unknown_op: outputs[0].ops[0]: ", "output   b.png: png",
                "pass 1  table ", NULL);
    static const struct {
        const char *job, *said;
    } rows[] = {
        {"{'input'", "bad_json"},
        {"{'input':'glass.png'}", "bad_job"},
        {"{'input':'glass.png','output':'o.png','ops':['edges']}", "unknown_op"},
        {"{'input':'glass.png','output':'o.png','ops':['gamma']}", "bad_op"},
        {"{'input':'none.png','output':'o.png'}", "input_missing"},
        {"{'input':'../glass.png','output':'o.png'}", "path_refused"},
        {"{'input':{'key':'gpuimgd:img:1'},'output':'o.png'}",
         "only files below input_root and URLs"},
        {"{'input':'bare.png','frames':'all','output':'%n.png'}",
         "frame 0 of the PNG is missing or damaged: num_frames of acTL is 3"},
        {"{'input':'apng.png','frames':'refuse','output':'o.webp'}", "frames is \"refuse\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *out = explain(rows[i].job, 1, rows[i].said);
        assert_string_equal(out, "");
        free(out);
    }
}

#ifdef GPUIMGD_JXL

/* Nothing is decoded, so no memory is for pixels. */
TEST(test_recompress)
{
    char *out, *err;
    check_lines(explain("{'input':'cat.jpg','output':{'path':'c','recompress':true}}", 0, ""),
                "decode   none: the file is recompressed\n",
                "output   c: jxl, 640 x 427 x 3, "
                "recompress true\n",
                "no pass: the file is recompressed, with all of its metadata\n",
                "pinned   0 bytes: input 0, results 0; no engine is needed\n", NULL);
    assert_int_equal(run("exec \"$GPUIMGD\" $in $out --explain $job --json", &out, &err), 0);
    cJSON *json = cJSON_ParseWithOpts(out, NULL, true);
    check_has(json, "{'decode':{'as':'none'},'memory.pinned':0}");
    cJSON_Delete(json);
    free(out);
    free(err);
    check_lines(explain("{'input':'cmyk.jpg','output':{'path':'c.jxl','recompress':true}}", 1,
                        "the JPEG is CMYK, which libjxl cannot recompress"),
                NULL);
}

/* The memory of the codec alone is more than its part of host_bytes. */
TEST(test_memory_that_is_lacking)
{
    char *out, *err;
    put_job("{'input':'large.jpg','output':'l.jxl'}");
    assert_int_equal(run("exec \"$GPUIMGD\" $in $out --host_bytes=1G --explain $job", &out, &err),
                     0);
    free(out);
    free(err);
    assert_int_equal(run("exec \"$GPUIMGD\" $in $out --host_bytes=256M --explain $job", &out, &err),
                     1);
    assert_non_null(strstr(err, "over_budget: decoding and encoding need "));
    assert_non_null(
        strstr(err, "100663296 bytes, three eighths of host_bytes: set host_bytes to "));
    free(out);
    free(err);
    assert_int_equal(run("exec \"$GPUIMGD\" $in $out --pinned_bytes=1M --explain $job", &out, &err),
                     1);
    assert_non_null(strstr(err, "bytes of pinned memory; pinned_bytes allows 1048576 in all"));
    free(out);
    free(err);
}

#endif

#ifdef GPUIMGD_GIF

/* The canvas of an animation takes a part of host_bytes for each worker. The message says how much
 * would be enough. */
TEST(test_memory_of_an_animation)
{
    char *out, *err;
    const char *command = "exec \"$GPUIMGD\" $in $out --workers=4 --host_bytes=%gM --explain $job";
    put_job("{'input':'large.gif','frames':'all','output':'o.webp','ops':[{'op':'resize',"
            "'width':9}]}");
    assert_int_equal(run(text_of(command, 1024.0), &out, &err), 1);
    const char *wanted = strstr(err, "140000256 bytes for its file and canvas; the limit is "
                                     "67108864, a quarter of host_bytes divided by 4 workers: set "
                                     "host_bytes to ");
    assert_non_null(wanted);
    double mib = strtod(strstr(wanted, "host_bytes to ") + 14, NULL);
    assert_in_range(mib, 2100, 2200);
    free(out);
    free(err);
    assert_int_equal(run(text_of(command, mib), &out, &err), 0);
    free(out);
    free(err);
}

#endif

TEST(test_apng)
{
    check_lines(explain("{'input':'apng.png','frames':'all','output':'%n.png'}", 0, ""),
                "input    apng.png: png, 20 x 10 x 3, one of 2 frames, ", ": png, 20 x 10 x 3",
                NULL);
    /* A frame has 8 bits per sample, even if the file and the output have 16. */
    check_lines(explain("{'input':'deep.png','frames':'all',"
                        "'output':{'path':'%n.png','depth':16}}", 0, ""),
                "decode   colour: 20 x 10 x 3, 640 bytes", "pass 1  widen", NULL);
}

/* The parameters that the job gives; as JSON, all those of the format. */
#if defined GPUIMGD_GIF && defined GPUIMGD_WEBP && defined GPUIMGD_AVIF

#include "tests/fixtures/gif_file.h"

/* An AVIF has room for fewer frames than a WebP. */
TEST(test_many_frames)
{
    struct apng_part *dots = calloc(10001, sizeof *dots);
    assert_non_null(dots);
    for (size_t i = 0; i < 10001; i++)
        dots[i].image = (struct picture_png){.width = 1, .height = 1};
    world_put_picture(w, "dots.png",
                      apng_write(&(struct apng_file){.frames = dots, .count = 10001}));
    free(dots);
    check_lines(explain("{'input':'dots.png','frames':'all','output':'c.webp'}", 0, ""),
                "input    dots.png: png, 1 x 1 x 3, one of 10001 frames, ", NULL);
    free(explain("{'input':'dots.png','frames':'all','output':'c.avif'}", 1,
                 "an AVIF has at most 10000 images, but the animation has 10001 frames"));
    char path[4096];
    snprintf(path, sizeof path, "%s/dots.png", w->in);
    assert_int_equal(unlink(path), 0);
}

/* The first frame is opaque, but a later one is not: all frames of an AVIF have alpha. */
TEST(test_animation)
{
    static const struct gif_frame frames[] = {{.width = 40, .height = 30},
                                              {.width = 9, .height = 9, .disposal = 2},
                                              {.width = 5, .height = 5}};
    const struct gif_file gif = {.width = 40, .height = 30, .frames = frames, .count = 3};
    char *out, *err;
    world_put_picture(w, "late.gif", gif_write(&gif));
    check_lines(explain("{'input':'late.gif','frames':'all','output':'c.webp'}", 0, ""),
                "input    late.gif: gif, 40 x 30 x 3, page 0 of 0 to 2, ",
                "output   c.webp: webp, 40 x 30 x 3", NULL);
    check_lines(explain("{'input':'late.gif','frames':'all','output':'c.avif'}", 0, ""),
                "input    late.gif: gif, 40 x 30 x 4, page 0 of 0 to 2, ",
                "output   c.avif: avif, 40 x 30 x 4", NULL);
    assert_int_equal(run("exec \"$GPUIMGD\" $in $out --explain $job --json", &out, &err), 0);
    cJSON *json = cJSON_ParseWithOpts(out, NULL, true);
    check_has(json, "{'inputs.frames':'late.gif','inputs.count':3,'input.frames':3}");
    cJSON_Delete(json);
    free(out);
    free(err);
    put_job("{'input':'late.gif','frames':{'strip':2},'output':'c.png'}");
    assert_int_equal(run("exec \"$GPUIMGD\" $in $out --explain $job --json", &out, &err), 0);
    json = cJSON_ParseWithOpts(out, NULL, true);
    check_has(json, "{'input.frames':3,'input.strip':2,'input.width':80}");
    cJSON_Delete(json);
    free(out);
    free(err);
    assert_int_equal(unlink(in_path("late.gif")), 0);
}

#endif

TEST(test_parameters)
{
    char *out, *err;
    check_lines(explain("{'input':'cat.jpg','orient':false,'outputs':[{'output':{'path':'a.jpg',"
                        "'subsampling':'gray','max_bytes':20000}},{'output':{'path':'b.jpg',"
                        "'quality':50,'optimize':true,'progressive':false}}]}", 0, ""),
                "output   a.jpg: jpeg, 640 x 427 x 1, subsampling gray, max_bytes 20000\n",
                "pass 1  ", "output   b.jpg: jpeg, 640 x 427 x 3, quality 50, progressive false, "
                "optimize true\n", "pass 1  ", NULL);
    assert_int_equal(run("exec \"$GPUIMGD\" $in $out --explain $job --json", &out, &err), 0);
    cJSON *json = cJSON_ParseWithOpts(out, NULL, true);
    check_has(json, "{'outputs.0.parameters.quality':85,'outputs.0.parameters.subsampling':'gray',"
                    "'outputs.0.parameters.max_bytes':20000,"
                    "'outputs.0.parameters.compression':null,'outputs.0.channels':1,"
                    "'outputs.1.parameters.subsampling':'420',"
                    "'outputs.1.parameters.quality':50}");
    assert_true(cJSON_IsTrue(json_at(json, "outputs.1.parameters.optimize")));
    assert_true(cJSON_IsFalse(json_at(json, "outputs.1.parameters.progressive")));
    cJSON_Delete(json);
    free(out);
    free(err);
    check_lines(explain("{'input':'cat.jpg','orient':false,'output':{'path':'a.jpg',"
                        "'quality':{'ssim':0.98,'max':90}}}",
                        0, ""),
                ", quality 1 to 90 for an SSIM of 0.98\n", "no pass", NULL);
    assert_int_equal(run("exec \"$GPUIMGD\" $in $out --explain $job --json", &out, &err), 0);
    json = cJSON_ParseWithOpts(out, NULL, true);
    check_has(json, "{'outputs.0.parameters.quality.ssim':0.98,"
                    "'outputs.0.parameters.quality.min':1,'outputs.0.parameters.quality.max':90}");
    cJSON_Delete(json);
    free(out);
    free(err);
    check_lines(explain("{'input':'cat.jpg','orient':false,'output':{'path':'a','format':["
                        "'jpg','jpeg'],'quality':{'ssim':0.9}}}",
                        0, ""),
                "output   a: jpeg (the smallest), 640 x 427 x 3, quality 1 to 100 for an SSIM of "
                "0.9\n",
                "no pass", NULL);
    assert_int_equal(run("exec \"$GPUIMGD\" $in $out --explain $job --json", &out, &err), 0);
    json = cJSON_ParseWithOpts(out, NULL, true);
    check_has(json, "{'outputs.0.format.0':'jpeg','outputs.0.format.1':null,"
                    "'outputs.0.parameters.quality.ssim':0.9}");
    cJSON_Delete(json);
    free(out);
    free(err);
    check_lines(explain("{'input':'cat.jpg','orient':false,'output':{'path':'a.png',"
                        "'colors':16}}",
                        0, ""),
                "output   a.png: png, 640 x 427 x 3, colors 16\n", NULL);
    check_lines(explain("{'input':'cat.jpg','output':{'path':'a.jpg','subsampling':'gray'},"
                        "'orient':false}", 0, ""),
                "decode   luma", "640 x 427 x 1, subsampling gray\n", "no pass", NULL);
}

/* A job with many images is explained for the first that exists. */
TEST(test_list_of_inputs)
{
    check_lines(explain("{'inputs':['none.jpg',{'key':'gpuimgd:img:a'},'glass.png','cat.jpg'],"
                        "'outputs':[{'output':'e/%p-%n.png','ops':['grayscale']},{'output':"
                        "{'path':'o.tar','format':'webp'}}]}",
                        0, ""),
                "inputs   list of 4; the plan is that of image 2, the first that exists\n",
                "input    glass.png: png, 100 x 10 x 4, ",
                "output   e/%p-%n.png: png, 100 x 10 x 1", "pass 1  grayscale",
                "output   o.tar: webp, 100 x 10 x 4\n", NULL);
    free(explain("{'inputs':['none.jpg',{'key':'gpuimgd:img:a'}],'output':'%p'}", 1,
                 "none of the 2 inputs"));
    free(explain("{'inputs':['cat.jpg'],'output':'x.png'}", 1, "names one file for 1 images"));
}

TEST(test_folder_of_inputs)
{
    char *out, *err;
    const char *folder = text_of("%s/shots", w->in);
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(run("cd \"${in#*=}\" && cp cat.jpg shots/b.jpg && cp glass.png shots/a.png && "
                         "cp cat.jpg shots/a.txt && mkdir shots/0.jpg && cp cat.jpg .gpuimgd.jpg",
                         &out, &err),
                     0);
    free(out);
    free(err);
    check_lines(explain("{'input':'cat.jpg','frames':'all','output':'c.webp'}", 0, ""),
                "inputs   frames of cat.jpg: the plan is that of the first\n",
                "input    cat.jpg: jpeg, ", "output   c.webp: webp, ", "pass 1  orient", NULL);
    check_lines(explain("{'inputs':{'folder':'shots'},'output':'%p.jpg'}", 0, ""),
                "inputs   folder shots: 2 images; the plan is that of the first\n",
                "input    shots/a.png: png, ", "output   %p.jpg: jpeg, 100 x 10 x 3\n",
                "pass 1  flatten", NULL);
    check_lines(
        explain("{'inputs':{'folder':'shots','pattern':['*.txt','b*']},'output':'%p.png'}", 0, ""),
        "inputs   folder shots: 2 images;", "input    shots/a.txt: jpeg, ", "pass 1  orient", NULL);
    assert_int_equal(run("exec \"$GPUIMGD\" $in $out --explain $job --json", &out, &err), 0);
    cJSON *json = cJSON_ParseWithOpts(out, NULL, true);
    check_has(json, "{'inputs.folder':'shots','inputs.count':2,'inputs.image':0,'input.path':"
                    "'shots/a.txt','outputs.0.path':'%%p.png'}");
    cJSON_Delete(json);
    free(out);
    free(err);
    free(explain("{'inputs':{'folder':'shots','pattern':'*.gif'},'output':'%p.png'}", 1,
                 "\"shots\" has no file that matches"));
    free(explain("{'inputs':{'folder':'none'},'output':'%p.png'}", 1, "\"none\" cannot be read"));
    free(explain("{'inputs':['.gpuimgd.jpg'],'output':'%p/a.png'}", 1,
                 "is in .gpuimgd, the folder for temporary files"));
    assert_int_equal(run("cd \"${in#*=}\" && rm -r shots .gpuimgd.jpg", &out, &err), 0);
    free(out);
    free(err);
}

/* What a daemon would find in the archive's first image, and what it would refuse. */
TEST(test_archive_of_inputs)
{
    char *out, *err;
    assert_int_equal(
        run("cd \"${in#*=}\" && mkdir d && cp glass.png d/b.png && cp cat.jpg d/c.jpg && "
            "echo x > d/a.txt && tar -cf shard.tar d/a.txt d/b.png d/c.jpg && "
            "tar -czf shard.tgz d/c.jpg && head -c 3000 shard.tar > cut.tar && rm -r d",
            &out, &err),
        0);
    free(out);
    free(err);
    check_lines(explain("{'inputs':{'archive':'shard.tar'},'output':'o/%p.jpg'}", 0, ""),
                "inputs   archive shard.tar: a tar; the plan is that of its first image\n",
                "input    d/b.png: png, ", "output   o/%p.jpg: jpeg, 100 x 10 x 3\n",
                "pass 1  flatten", NULL);
    check_lines(explain("{'inputs':{'archive':'shard.tgz'},'output':'o.tar'}", 0, ""),
                "input    d/c.jpg: jpeg, ", "pass 1  orient", NULL);
    check_lines(
        explain("{'inputs':{'archive':'shard.tar','pattern':'*.jpg'},'output':'o.tar'}", 0, ""),
        "input    d/c.jpg: jpeg, ", "pass 1  orient", NULL);
    assert_int_equal(run("exec \"$GPUIMGD\" $in $out --explain $job --json", &out, &err), 0);
    cJSON *json = cJSON_ParseWithOpts(out, NULL, true);
    check_has(json, "{'inputs.archive':{'path':'shard.tar','format':'tar'},'inputs.image':0,"
                    "'input.path':'d/c.jpg','outputs.0.path':'o.tar'}");
    cJSON_Delete(json);
    free(out);
    free(err);
    static const char *const bad[][2] = {
        {"{'inputs':{'archive':'none.tar'},'output':'o.tar'}",
         "input_missing: the input \"none.tar\" does not exist"},
        {"{'inputs':{'archive':'cat.jpg'},'output':'o.tar'}", "bad_archive"},
        {"{'inputs':{'archive':'cut.tar','pattern':'*.jpg'},'output':'o.tar'}", "bad_archive"},
        {"{'inputs':{'archive':'shard.tar','pattern':'*.gif'},'output':'o.tar'}",
         "no member of the archive \"shard.tar\" matches the pattern"},
        {"{'inputs':{'archive':'shard.tar'},'output':'.gpuimgd/%p.png'}", ".gpuimgd"},
        {"{'inputs':{'archive':'shard.tar'},'output':'o.tar','ops':['sobell']}", "unknown_op"},
        {"{'inputs':{'archive':'shard.tar','pattern':'*.txt'},'output':'o.tar'}",
         "unsupported_format"},
        {"{'inputs':{'archive':'shard.tar'},'output':'o.tar','ops':"
         "[{'op':'crop','width':5000,'height':5}]}",
         "bad_op"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        free(explain(bad[i][0], 1, bad[i][1]));
    assert_int_equal(run("cd \"${in#*=}\" && rm shard.tar shard.tgz cut.tar", &out, &err), 0);
    free(out);
    free(err);
}

/* An archive elsewhere is not read. */
TEST(test_archive_in_redis)
{
    char *out, *err;
    const char *job = "{'inputs':{'archive':{'key':'gpuimgd:img:a'}},'output':'o.tar'}";
    check_lines(explain(job, 0, ""), "inputs   archive gpuimgd:img:a: not read; the job is valid\n",
                NULL);
    assert_int_equal(run("exec \"$GPUIMGD\" $in $out --explain $job --json", &out, &err), 0);
    assert_string_equal(out, "{\"inputs\":{\"archive\":{\"key\":\"gpuimgd:img:a\"}}}\n");
    free(out);
    free(err);
}

/* With --json the same is one line, even for a job that would fail. */
TEST(test_json)
{
    char *out, *err;
    free(explain("{'input':'cat.jpg','outputs':[{'output':'e.png','ops':['grayscale','sobel']},"
                 "{'output':{'key':'gpuimgd:img:x','format':'png'},'ops':['edges']}]}", 1,
                 "unknown_op"));
    assert_int_equal(run("exec \"$GPUIMGD\" $in $out --explain $job --json", &out, &err), 1);
    cJSON *json = cJSON_ParseWithOpts(out, NULL, true);
    assert_string_equal(strchr(out, '\n'), "\n");
    check_has(json, "{'input.format':'jpeg','input.orientation':6,'input.width':640,"
                    "'decode.as':'luma','decode.bytes':273280,'outputs.0.path':'e.png',"
                    "'outputs.0.height':640}");
    assert_int_equal(cJSON_GetArraySize(json_at(json, "outputs.0.passes")), 2);
    check_has(json, "{'outputs.0.passes.1.name':'sobel',"
                    "'outputs.0.passes.1.reads.buffer':'scratch',"
                    "'outputs.0.passes.0.reads.bytes':273280,"
                    "'outputs.0.passes.1.writes.bytes':286720,'outputs.1.key':'gpuimgd:img:x',"
                    "'outputs.1.error.code':'unknown_op'}");
    assert_int_equal(cJSON_GetArraySize(json_at(json, "outputs.1.error")), 3); /* as in a result */
    check_has(json, "{'memory.scratch':286720,'memory.input':273280}");
    assert_int_equal(json_number(json, "memory.pinned"), 560128); /* each in multiples of 256 */
    assert_null(json_at(json, "error"));
    cJSON_Delete(json);
    free(out);
    free(err);
    free(explain("{'input':'none.png','output':'o.png'}", 1, "input_missing"));
    assert_int_equal(run("exec \"$GPUIMGD\" --json $in $out --explain $job", &out, &err), 1);
    json = cJSON_ParseWithOpts(out, NULL, true);
    check_has(json, "{'error.code':'input_missing','error.retryable':false}");
    assert_true(*json_text(json, "input.path"));
    assert_int_equal(cJSON_GetArraySize(json), 2);
    cJSON_Delete(json);
    free(out);
    free(err);
}

/* Names in a job are untrusted. */
TEST(test_names_that_a_terminal_obeys)
{
    char *out, *err;
    free(explain("{'input':'glass.png','output':'\342\200\256gnp.o'}", 0, ""));
    assert_int_equal(run("exec \"$GPUIMGD\" $in $out --explain $job", &out, &err), 0);
    assert_non_null(strstr(out, "output   ???gnp.o: "));
    free(out);
    free(err);
    assert_int_equal(run("exec \"$GPUIMGD\" $in $out --json --explain $job", &out, &err), 0);
    assert_non_null(strstr(out, "\"path\":\"\\u202egnp.o\""));
    free(out);
    free(err);
}

TEST(test_usage)
{
    static const struct {
        const char *command;
        int status;
        const char *said;
    } rows[] = {
        {"\"$GPUIMGD\" --explain", 64, "--explain"},
        {"\"$GPUIMGD\" $in --explain /does/not/exist.json", 1, "/does/not/exist.json"},
        {"\"$GPUIMGD\" --input_root=/does/not/exist --explain $job", 1, "input_root"},
        {"head -c 70000 /dev/zero | \"$GPUIMGD\" $in --explain -", 1, "more than 65536 bytes"},
        {"\"$GPUIMGD\" $in --explain $job >/dev/full", 1, "cannot be printed"},
        {"\"$GPUIMGD\" $in --json", 64, "requires --explain"},
        {"\"$GPUIMGD\" -h | grep -e --explain >&2", 0, "--explain JOBFILE"},
    };
    free(explain("{'input':'glass.png','output':'o.png'}", 0, ""));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *out, *err;
        int status = run(rows[i].command, &out, &err);
        if (status != rows[i].status || !strstr(err, rows[i].said))
            fail_msg("%s: exit status %d, error \"%s\"", rows[i].command, status, err);
        free(out);
        free(err);
    }
}

/* None of the tests above wrote a file. */
TEST(test_nothing_was_written)
{
    assert_int_equal(text_file_count(w->out, ""), 0);
    assert_int_equal(text_file_count(w->in, ""), 8);
}

WORLD_MAIN(ONE_WORLD, .servers = WORLD_NO_REDIS, .fill = put_images)
