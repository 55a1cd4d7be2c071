/*
 * test_device_avif.c - jobs whose AVIFs are encoded on a device give the same files as jobs on the
 * CPU, byte for byte. What the device does not write is encoded on the host.
 */
#include <unistd.h>

#include "tests/fixtures/gpu/device_daemon.h"
#include "tests/fixtures/gpu/gpu_run.h"
#include "tests/fixtures/movie_file.h"
#include "tests/fixtures/text_file.h"

#ifdef GPUIMGD_AVIF

static const char *const inputs[] = {"rgb.jpg", "gray.jpg", "rgb.png", "turned.png"};

static const char *const chains[] = {
    "[]",
    "['sobel']",
    "['grayscale',{'op':'gaussian','sigma':1.5}]",
    "[{'op':'resize','width':24}]",
    "[{'op':'crop','x':3,'y':2,'width':13,'height':17}]",
    "[{'op':'flip','axis':'horizontal'},{'op':'rotate','angle':90}]",
};

static const int qualities[] = {60, 1, 50, 75, 90, 99};

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

static struct process *start_on_device(const char *avif)
{
    const char *const options[] = {text_of("--avif=%s", avif), NULL};
    return device_daemon_start(options);
}

static void expect_encoders(const cJSON *result, size_t outputs, const char *encoder)
{
    assert_string_equal(json_text(result, "error.message"), "");
    for (size_t o = 0; o < outputs; o++)
        assert_string_equal(json_text(result, text_of("outputs.%zu.encoder", o)), encoder);
}

/* Runs every chain on every input, into two AVIFs and a JPEG. */
static void run_all_jobs(const char *engine)
{
    for (size_t i = 0; i < COUNT_OF(inputs); i++)
        for (size_t c = 0; c < COUNT_OF(chains); c++) {
            cJSON *result = check_answer(
                w,
                "{'input':'%s','outputs':["
                "{'output':{'path':'%s-a-%zu-%zu.avif','effort':1},'ops':%s},"
                "{'output':{'path':'%s-b-%zu-%zu.avif','quality':%d,'effort':1},'ops':%s},"
                "{'output':'%s-%zu-%zu.jpg','ops':%s}]}",
                inputs[i], engine, i, c, chains[c], engine, i, c,
                qualities[(i + c) % COUNT_OF(qualities)], chains[c], engine, i, c, chains[c]);
            expect_encoders(result, 3, strcmp(engine, "cpu") == 0 ? "cpu" : "cuda:0");
            cJSON_Delete(result);
        }
}

static void run_camera_jobs(const char *engine)
{
    static const char *const metadata[] = {"'none'", "['icc']", "['exif','xmp']",
                                           "['icc','exif','xmp']"};
    for (size_t i = 0; i < COUNT_OF(metadata); i++) {
        cJSON *result = check_answer(
            w,
            "{'input':'camera.jpg','outputs':["
            "{'output':{'path':'%s-m%zu.avif','effort':1,'metadata':%s},'ops':['to_srgb']},"
            "{'output':{'path':'%s-n%zu.avif','effort':1,'metadata':%s},'ops':['transpose']},"
            "{'output':{'path':'%s-o%zu.avif','effort':1,'metadata':%s},'ops':['sobel']}]}",
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
        unsigned quality = 1 + test_random(&state) / 8 % 99;
        cJSON *result = check_answer(
            w,
            "{'input':'%s','outputs':[{'output':{'path':'%s-r%u.avif','quality':%u,'effort':1},"
            "'ops':[%s]}]}",
            i % 5 ? input : "rgba.png", engine, i, quality, device_daemon_draw_chain(&state));
        done += strcmp(json_text(result, "status"), "done") == 0;
        cJSON_Delete(result);
    }
    return done;
}

enum { jobs_at_once = 24 };

/* Jobs that wait together, so that a device encodes several of their images in one batch. Their
 * inputs are the JPEGs, which no device declines. */
static void run_together(const char *engine)
{
    for (unsigned i = 0; i < jobs_at_once; i++)
        world_push(w,
                   "{'input':'%s','output':{'path':'%s-t%u.avif','effort':1,'quality':%u},"
                   "'ops':[{'op':'resize','width':%u}]}",
                   inputs[i % 2], engine, i, 20 + 3 * i, 20 + i);
    for (unsigned i = 0; i < jobs_at_once; i++) {
        cJSON *result = check_next(w);
        expect_encoders(result, 1, strcmp(engine, "cpu") == 0 ? "cpu" : "cuda:0");
        cJSON_Delete(result);
    }
}

#define NOISY "{'op':'unsharp','sigma':0.5,'amount':10},{'op':'unsharp','sigma':0.5,'amount':10}"

/* Noise of the highest quality has more bytes than its memory on the device: the device declines
 * it, and all codecs of the job run on the host. */
static void run_noise_job(const char *engine)
{
    cJSON *result =
        check_answer(w,
                     "{'input':'noise.jpg','outputs':["
                     "{'output':{'path':'%s-noise.avif','effort':1,'quality':99},'ops':[%s]},"
                     "{'output':'%s-noise.jpg'}]}",
                     engine, NOISY, engine);
    expect_encoders(result, 2, "cpu");
    assert_true(json_number(result, "outputs.0.bytes") > 400 * 300);
    cJSON_Delete(result);
}

/* Random jobs that were done on the device [0] and on the CPU [1]. */
static unsigned random_done[2];

/* Runs all jobs with one daemon for the device and one for the CPU, at the first call. The daemon
 * tests its encoder at start, which takes long without a device. */
static void run_on_both(void)
{
    static const char *const engines[] = {"cuda", "cpu"};
    if (random_done[0] > 0)
        return;
    put_jpeg("noise.jpg", .width = 400, .height = 300, .quality = 100, .subsampling = 444);
    device_daemon_put_camera("camera.jpg", true);
    for (int i = 0; i < 2; i++) {
        struct process *daemon = i == 0 ? start_on_device("cuda") : device_daemon_start_cpu();
        run_all_jobs(engines[i]);
        run_noise_job(engines[i]);
        run_camera_jobs(engines[i]);
        run_together(engines[i]);
        random_done[i] = run_random_jobs(engines[i]);
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
                compare(text_of("%c-%zu-%zu.avif", *kind, i, c));
}

TEST(batches_equal_files_of_the_cpu)
{
    run_on_both();
    for (unsigned i = 0; i < jobs_at_once; i++)
        compare(text_of("t%u.avif", i));
}

TEST(noise_is_encoded_on_the_host)
{
    run_on_both();
    compare("noise.avif");
}

TEST(metadata_equals_that_of_the_cpu)
{
    run_on_both();
    for (size_t i = 0; i < 4; i++)
        for (const char *output = "mno"; *output; output++)
            compare(text_of("%c%zu.avif", *output, i));
}

TEST(random_chains_equal_those_of_the_cpu)
{
    run_on_both();
    assert_int_equal(random_done[0], random_done[1]);
    assert_true(random_done[0] > count_random() / 2);
    for (unsigned i = 0; i < count_random(); i++)
        if (access(out_path(text_of("cuda-r%u.avif", i)), F_OK) == 0)
            compare(text_of("r%u.avif", i));
}

/* Which outputs a device writes. An image with alpha is its, if it is flattened. */
TEST(parameters_choose_the_encoder)
{
    static const struct {
        const char *input, *output, *ops, *encoder;
    } rows[] = {
        {"rgb.jpg", "'effort':1", "[]", "cuda:0"},
        {"rgb.jpg", "'effort':0", "[]", "cpu"},
        {"rgb.jpg", "'quality':60", "[]", "cpu"},
        {"rgb.jpg", "'effort':3", "[]", "cpu"},
        {"rgb.jpg", "'effort':4", "[]", "cpu"},
        {"rgb.jpg", "'effort':1,'quality':100", "[]", "cpu"},
        {"rgb.jpg", "'effort':1,'max_bytes':2000", "[]", "cpu"},
        {"rgba.png", "'effort':1", "['sobel']", "cuda:0"},
        {"rgba.png", "'effort':1", "['invert']", "cpu"},
    };
    struct process *daemon = start_on_device("auto");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        cJSON *result = check_answer(
            w, "{'input':'%s','outputs':[{'output':{'path':'p%zu.avif',%s},'ops':%s}]}",
            rows[i].input, i, rows[i].output, rows[i].ops);
        expect_encoders(result, 1, rows[i].encoder);
        cJSON_Delete(result);
    }
    check_stop(daemon);
}

TEST(the_encoder_of_the_host_is_an_option)
{
    struct process *daemon = start_on_device("cpu");
    cJSON *result = check_answer(
        w, "{'input':'rgb.png','output':{'path':'host.avif','effort':1},'ops':['sobel']}");
    expect_encoders(result, 1, "cpu");
    assert_string_equal(json_text(result, "engine"), "cuda:0");
    cJSON_Delete(result);
    check_stop(daemon);
}

/* Writes an animation of noise. */
static void put_noise(void)
{
    enum { frames = 2 };
    struct movie_part parts[frames] = {{.delay_ms = 40}, {.delay_ms = 50}};
    struct process *daemon = device_daemon_start_cpu();
    cJSON_Delete(
        check_answer(w, "{'input':'noise.jpg','output':{'path':'still.webp','lossless':true}}"));
    check_stop(daemon);
    for (int i = 0; i < frames; i++)
        parts[i].file.bytes = text_file_bytes(out_path("still.webp"), &parts[i].file.length);
    world_put_picture(w, "moving.webp", movie_join("webp", parts, frames, 400, 300, 0, false));
    for (int i = 0; i < frames; i++)
        free(parts[i].file.bytes);
}

/* A frame is nowhere but in memory when a device declines its AVIF. */
TEST(declined_frames_are_encoded_on_the_host)
{
    put_noise();
    struct process *daemon = start_on_device("cuda");
    cJSON *still = check_answer(w, "{'input':'noise.jpg','output':{'path':'n.avif',"
                                   "'effort':1,'quality':99},'ops':[" NOISY "]}");
    expect_encoders(still, 1, "cpu");
    cJSON_Delete(still);
    for (int run = 0; run < 2; run++) {
        cJSON *result = check_answer(w,
                                     "{'input':'moving.webp','frames':'all',"
                                     "'output':{'path':'%d.avif','effort':1,'quality':99},"
                                     "'ops':[" NOISY "]}",
                                     run);
        assert_string_equal(json_text(result, "error.message"), "");
        assert_string_equal(json_text(result, "status"), "done");
        cJSON_Delete(result);
        check_stop(daemon);
        daemon = run == 0 ? device_daemon_start_cpu() : daemon;
    }
    device_daemon_compare("0.avif", "1.avif");
}

/* The encoder is tested, and used, with little memory. */
TEST(little_memory_is_enough)
{
    const char *const options[] = {"--avif=auto", "--pinned_bytes=1M", "--device_bytes=4M", NULL};
    struct process *daemon = device_daemon_start(options);
    cJSON *result = check_answer(
        w, "{'input':'rgb.png','output':{'path':'least.avif','effort':1},'ops':['sobel']}");
    expect_encoders(result, 1, "cuda:0");
    cJSON_Delete(result);
    check_stop(daemon);
}

WORLD_MAIN(ONE_WORLD, .fill = fill)

#else

TEST(avif)
{
    skip();
}

TEST_MAIN(.name = "device avif")

#endif
