/*
 * test_device_webp.c - jobs whose WebPs are encoded on a device give the same files as jobs on the
 * CPU, byte for byte. What the device does not write is encoded on the host.
 */
#include <unistd.h>

#include "tests/fixtures/gpu/device_daemon.h"
#include "tests/fixtures/gpu/gpu_run.h"
#include "tests/fixtures/text_file.h"

#ifdef GPUIMGD_WEBP

static const char *const inputs[] = {"rgb.jpg", "gray.jpg", "rgb.png", "turned.png"};

static const char *const chains[] = {
    "[]",
    "['sobel']",
    "['grayscale',{'op':'gaussian','sigma':1.5}]",
    "[{'op':'resize','width':24}]",
    "[{'op':'crop','x':3,'y':2,'width':13,'height':17}]",
    "[{'op':'flip','axis':'horizontal'},{'op':'rotate','angle':90}]",
};

static const int qualities[] = {80, 1, 50, 75, 98, 99, 100};

static void fill(void)
{
    struct picture_png rgb = {.width = 90, .height = 65, .colour_type = 2};
    struct picture_png rgba = {.width = 61, .height = 83, .colour_type = 6, .level = 1};
    struct picture_png turned = {.width = 70, .height = 44, .colour_type = 2, .orientation = 6};
    put_jpeg("rgb.jpg", .width = 131, .height = 77);
    put_jpeg("gray.jpg", .width = 61, .height = 47, .colour = PICTURE_GRAY);
    world_put_picture(w, "rgb.png", picture_png(&rgb));
    world_put_picture(w, "rgba.png", picture_png(&rgba));
    world_put_picture(w, "turned.png", picture_png(&turned));
}

static struct process *start_on_device(const char *webp)
{
    const char *const options[] = {text_of("--webp=%s", webp), NULL};
    return device_daemon_start(options);
}

static void expect_encoders(const cJSON *result, size_t outputs, const char *encoder)
{
    assert_string_equal(json_text(result, "error.message"), "");
    for (size_t o = 0; o < outputs; o++)
        assert_string_equal(json_text(result, text_of("outputs.%zu.encoder", o)), encoder);
}

/* Runs every chain on every input, into two WebPs and a JPEG. */
static void run_all_jobs(const char *engine)
{
    for (size_t i = 0; i < COUNT_OF(inputs); i++)
        for (size_t c = 0; c < COUNT_OF(chains); c++) {
            cJSON *result = check_answer(
                w,
                "{'input':'%s','outputs':["
                "{'output':'%s-a-%zu-%zu.webp','ops':%s},"
                "{'output':{'path':'%s-b-%zu-%zu.webp','quality':%d},'ops':%s},"
                "{'output':'%s-%zu-%zu.jpg','ops':%s}]}",
                inputs[i], engine, i, c, chains[c], engine, i, c,
                qualities[(i + c) % COUNT_OF(qualities)], chains[c], engine, i, c, chains[c]);
            expect_encoders(result, 3, strcmp(engine, "cpu") == 0 ? "cpu" : "cuda:0");
            cJSON_Delete(result);
        }
}

/* Files of limited sizes. The smallest ones need a lower quality than there is, which the host
 * says. Returns a text of all results. */
static const char *run_limited_jobs(const char *engine)
{
    const char *all = "";
    for (unsigned i = 0; i < 24; i++) {
        unsigned most = i < 3 ? 60 + i : 150 + i * i * 12;
        cJSON *result =
            check_answer(w,
                         "{'input':'%s','outputs':["
                         "{'output':{'path':'%s-l%u.webp','max_bytes':%u,'quality':%u},'ops':%s},"
                         "{'output':'%s-k%u.webp','ops':%s}]}",
                         inputs[i % COUNT_OF(inputs)], engine, i, most, 100 - i % 5 * 7,
                         chains[i % COUNT_OF(chains)], engine, i, chains[i % COUNT_OF(chains)]);
        all = text_of("%s%u: %s, %s, quality %g; ", all, i, json_text(result, "status"),
                      json_text(result, "outputs.0.error.message"),
                      json_number(result, "outputs.0.quality"));
        if (strcmp(json_text(result, "status"), "done") == 0)
            expect_encoders(result, 2, strcmp(engine, "cpu") == 0 ? "cpu" : "cuda:0");
        cJSON_Delete(result);
    }
    return all;
}

static void run_camera_jobs(const char *engine)
{
    static const char *const metadata[] = {"'none'", "['icc']", "['exif','xmp']",
                                           "['icc','exif','xmp']"};
    for (size_t i = 0; i < COUNT_OF(metadata); i++) {
        cJSON *result =
            check_answer(w,
                         "{'input':'camera.jpg','outputs':["
                         "{'output':{'path':'%s-m%zu.webp','metadata':%s},'ops':['to_srgb']},"
                         "{'output':{'path':'%s-n%zu.webp','metadata':%s},'ops':['transpose']},"
                         "{'output':{'path':'%s-o%zu.webp','metadata':%s},'ops':['sobel']}]}",
                         engine, i, metadata[i], engine, i, metadata[i], engine, i, metadata[i]);
        expect_encoders(result, 3, strcmp(engine, "cpu") == 0 ? "cpu" : "cuda:0");
        cJSON_Delete(result);
    }
}

static unsigned count_random(void)
{
    return world_has_cuda() ? 1000 : test_quick() ? 20 : 60;
}

/* Pushes the same random jobs for each engine. Returns how many were done; a crop may be larger
 * than its image. */
static unsigned run_random_jobs(const char *engine)
{
    uint32_t state = 11;
    unsigned done = 0;
    for (unsigned i = 0; i < count_random(); i++) {
        const char *input = inputs[test_random(&state) / 8 % COUNT_OF(inputs)];
        unsigned quality = 1 + test_random(&state) / 8 % 100;
        cJSON *result = check_answer(
            w,
            "{'input':'%s','outputs':[{'output':{'path':'%s-r%u.webp','quality':%u},'ops':[%s]}]}",
            i % 5 ? input : "rgba.png", engine, i, quality, device_daemon_draw_chain(&state));
        done += strcmp(json_text(result, "status"), "done") == 0;
        cJSON_Delete(result);
    }
    return done;
}

/* Noise of the highest quality has more bytes than its memory on the device: the device declines
 * it, and all codecs of the job run on the host. */
static void run_noise_job(const char *engine)
{
    static const char chain[] = "{'op':'unsharp','sigma':0.5,'amount':10},"
                                "{'op':'unsharp','sigma':0.5,'amount':10}";
    cJSON *result = check_answer(w,
                                 "{'input':'noise.jpg','outputs':["
                                 "{'output':{'path':'%s-noise.webp','quality':100},'ops':[%s]},"
                                 "{'output':'%s-noise.jpg'}]}",
                                 engine, chain, engine);
    expect_encoders(result, 2, "cpu");
    assert_true(json_number(result, "outputs.0.bytes") > 400 * 300);
    cJSON_Delete(result);
}

/* What the jobs gave on the device [0] and on the CPU [1]. */
static struct {
    char *limited;
    unsigned random; /* done */
} gave[2];

/* Runs all jobs with one daemon for the device and one for the CPU, at the first call. The daemon
 * tests its encoder at start, which takes long without a device. */
static void run_on_both(void)
{
    static const char *const engines[] = {"cuda", "cpu"};
    if (gave[0].limited)
        return;
    put_jpeg("noise.jpg", .width = 400, .height = 300, .quality = 100, .subsampling = 444);
    device_daemon_put_camera("camera.jpg", true);
    for (int i = 0; i < 2; i++) {
        struct process *daemon = i == 0 ? start_on_device("cuda") : device_daemon_start_cpu();
        run_all_jobs(engines[i]);
        run_noise_job(engines[i]);
        run_camera_jobs(engines[i]);
        gave[i].random = run_random_jobs(engines[i]);
        gave[i].limited = strdup(run_limited_jobs(engines[i]));
        check_stop(daemon);
    }
}

/* The files "cuda-NAME" and "cpu-NAME" must be equal. */
static void compare(const char *name)
{
    device_daemon_compare(text_of("cuda-%s", name), text_of("cpu-%s", name));
}

TEST(files_equal_those_of_the_cpu)
{
    run_on_both();
    for (size_t i = 0; i < COUNT_OF(inputs); i++)
        for (size_t c = 0; c < COUNT_OF(chains); c++)
            for (const char *kind = "ab"; *kind; kind++)
                compare(text_of("%c-%zu-%zu.webp", *kind, i, c));
}

TEST(noise_is_encoded_on_the_host)
{
    run_on_both();
    compare("noise.webp");
}

TEST(limited_files_equal_those_of_the_cpu)
{
    run_on_both();
    assert_string_equal(gave[0].limited, gave[1].limited);
    unsigned done = 0;
    for (unsigned i = 0; i < 24; i++) {
        compare(text_of("k%u.webp", i));
        if (access(out_path(text_of("cpu-l%u.webp", i)), F_OK) != 0)
            continue;
        compare(text_of("l%u.webp", i));
        done++;
    }
    assert_true(done >= 16 && done <= 23);
}

TEST(metadata_equals_that_of_the_cpu)
{
    run_on_both();
    for (size_t i = 0; i < 4; i++)
        for (const char *output = "mno"; *output; output++)
            compare(text_of("%c%zu.webp", *output, i));
}

TEST(random_chains_equal_those_of_the_cpu)
{
    run_on_both();
    assert_int_equal(gave[0].random, gave[1].random);
    assert_true(gave[0].random > count_random() / 2);
    for (unsigned i = 0; i < count_random(); i++)
        if (access(out_path(text_of("cuda-r%u.webp", i)), F_OK) == 0)
            compare(text_of("r%u.webp", i));
}

/* Which outputs a device writes. An image with alpha is its, if it is flattened. */
TEST(parameters_choose_the_encoder)
{
    static const struct {
        const char *input, *output, *ops, *encoder;
    } rows[] = {
        {"rgb.jpg", "'effort':2", "[]", "cuda:0"},
        {"rgb.jpg", "'effort':1", "[]", "cpu"},
        {"rgb.jpg", "'effort':3", "[]", "cpu"},
        {"rgb.jpg", "'lossless':true", "[]", "cpu"},
        {"rgb.jpg", "'max_bytes':2000", "[]", "cuda:0"},
        {"rgb.jpg", "'quality':{'ssim':0.97}", "[]", "cpu"},
        {"rgba.png", "'quality':70", "['sobel']", "cuda:0"},
        {"rgba.png", "'quality':70", "['invert']", "cpu"},
    };
    struct process *daemon = start_on_device("auto");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        cJSON *result = check_answer(
            w, "{'input':'%s','outputs':[{'output':{'path':'p%zu.webp',%s},'ops':%s}]}",
            rows[i].input, i, rows[i].output, rows[i].ops);
        expect_encoders(result, 1, rows[i].encoder);
        cJSON_Delete(result);
    }
    check_stop(daemon);
}

TEST(the_encoder_of_the_host_is_an_option)
{
    struct process *daemon = start_on_device("cpu");
    cJSON *result = check_answer(w, "{'input':'rgb.png','output':'host.webp','ops':['sobel']}");
    expect_encoders(result, 1, "cpu");
    assert_string_equal(json_text(result, "engine"), "cuda:0");
    cJSON_Delete(result);
    check_stop(daemon);
}

/* The encoder is tested with as little memory as the options allow, but for its largest image. */
TEST(the_least_memory_is_enough)
{
    const char *const options[] = {"--webp=auto", "--pinned_bytes=1M", "--device_bytes=2M", NULL};
    struct process *daemon = device_daemon_start(options);
    cJSON *result = check_answer(w, "{'input':'rgb.png','output':'least.webp','ops':['sobel']}");
    expect_encoders(result, 1, "cuda:0");
    cJSON_Delete(result);
    check_stop(daemon);
}

WORLD_MAIN(ONE_WORLD, .fill = fill)

#else

TEST(webp)
{
    skip();
}

TEST_MAIN(.name = "device webp")

#endif
