/*
 * test_device_png.c - jobs whose PNGs are decoded and encoded on a device give the same files as
 * jobs on the CPU, byte for byte. A file that the device declines is decoded on the host.
 */
#include <unistd.h>

#include "tests/fixtures/gpu/device_daemon.h"
#include "tests/fixtures/gpu/gpu_run.h"
#include "tests/fixtures/text_file.h"

struct input {
    const char *name;
    const char *decoder; /* with png = cuda */
    struct picture_png kind;
};

static const struct input inputs[] = {
    {"gray.png", "cuda:0", {.width = 131, .height = 77}},
    {"rgb.png", "cuda:0", {.width = 90, .height = 65, .colour_type = 2}},
    {"rgba.png", "cuda:0", {.width = 61, .height = 83, .colour_type = 6, .level = 1}},
    {"turned.png", "cuda:0", {.width = 70, .height = 44, .colour_type = 2, .orientation = 6}},
    {"tall.png", "cuda:0", {.width = 17, .height = 300, .colour_type = 2, .level = 9}},
    {"palette.png", "cpu", {.width = 40, .height = 40, .colour_type = 3}},
    {"gray_alpha.png", "cpu", {.width = 40, .height = 40, .colour_type = 4}},
    {"deep.png", "cpu", {.width = 40, .height = 40, .colour_type = 2, .bit_depth = 16}},
    {"clear.png", "cpu", {.width = 40, .height = 40, .colour_type = 2, .transparent = true}},
    {"interlaced.png", "cpu", {.width = 40, .height = 40, .colour_type = 2, .interlaced = true}},
    {"bits.png", "cpu", {.width = 40, .height = 40, .bit_depth = 1}},
};

static const char *const chains[] = {
    "[]",
    "['sobel']",
    "['grayscale',{'op':'gaussian','sigma':1.5}]",
    "[{'op':'resize','width':24}]",
    "[{'op':'crop','x':3,'y':2,'width':13,'height':17}]",
    "[{'op':'flip','axis':'horizontal'},{'op':'rotate','angle':90}]",
};

static void fill(void)
{
    for (size_t i = 0; i < COUNT_OF(inputs); i++)
        world_put_picture(w, inputs[i].name, picture_png(&inputs[i].kind));
}

static struct process *start_on_device(const char *png)
{
    const char *const options[] = {text_of("--png=%s", png), NULL};
    return device_daemon_start(options);
}

/* Runs every chain on every input, into PNGs and a JPEG. forced: the place of each decoder is
 * known. */
static void run_all_jobs(const char *engine, bool forced)
{
    bool on_cpu = strcmp(engine, "cpu") == 0;
    for (size_t i = 0; i < COUNT_OF(inputs); i++)
        for (size_t c = 0; c < COUNT_OF(chains); c++) {
            cJSON *result = check_answer(
                w,
                "{'input':'%s','outputs':["
                "{'output':{'path':'%s-%zu-%zu.png','compression':%zu},'ops':%s},"
                "{'output':'%s-%zu-%zu.jpg','ops':%s}]}",
                inputs[i].name, engine, i, c, 1 + c % 3, chains[c], engine, i, c, chains[c]);
            assert_string_equal(json_text(result, "error.message"), "");
            if (forced)
                assert_string_equal(json_text(result, "decoder"),
                                    on_cpu ? "cpu" : inputs[i].decoder);
            for (int o = 0; o < 2; o++)
                assert_string_equal(json_text(result, text_of("outputs.%d.encoder", o)),
                                    on_cpu ? "cpu" : "cuda:0");
            cJSON_Delete(result);
        }
}

static void compare_engines(const char *png)
{
    struct process *daemon = start_on_device(png);
    run_all_jobs("cuda", strcmp(png, "cuda") == 0);
    check_stop(daemon);
    daemon = device_daemon_start_cpu();
    run_all_jobs("cpu", true);
    check_stop(daemon);
    for (size_t i = 0; i < COUNT_OF(inputs); i++)
        for (size_t c = 0; c < COUNT_OF(chains); c++) {
            device_daemon_compare(text_of("cuda-%zu-%zu.png", i, c),
                                  text_of("cpu-%zu-%zu.png", i, c));
            device_daemon_compare(text_of("cuda-%zu-%zu.jpg", i, c),
                                  text_of("cpu-%zu-%zu.jpg", i, c));
        }
}

TEST(files_equal_those_of_the_cpu)
{
    compare_engines("cuda");
}

/* Measured times decide where each file is decoded. */
TEST(files_do_not_depend_on_the_choice)
{
    compare_engines("auto");
}

/* Which outputs a device writes: those of the own encoder. */
TEST(parameters_choose_the_encoder)
{
    struct process *daemon = start_on_device("cuda");
    for (int level = 0; level <= 9; level++) {
        cJSON *result =
            check_answer(w, "{'input':'rgb.png','output':{'path':'level-%d.png','compression':%d}}",
                         level, level);
        assert_string_equal(json_text(result, "outputs.0.encoder"),
                            level >= 1 && level <= 3 ? "cuda:0" : "cpu");
        cJSON_Delete(result);
    }
    check_stop(daemon);
}

TEST(the_codecs_of_the_host_are_an_option)
{
    struct process *daemon = start_on_device("cpu");
    cJSON *result = check_answer(w, "{'input':'rgb.png','output':'host.png','ops':['sobel']}");
    assert_string_equal(json_text(result, "decoder"), "cpu");
    assert_string_equal(json_text(result, "outputs.0.encoder"), "cpu");
    assert_string_equal(json_text(result, "engine"), "cuda:0");
    cJSON_Delete(result);
    check_stop(daemon);
}

/* The codecs are tested with as little memory as the options allow. */
TEST(the_least_memory_is_enough)
{
    const char *const options[] = {"--png=cuda", "--pinned_bytes=1M", "--device_bytes=2M", NULL};
    struct process *daemon = device_daemon_start(options);
    cJSON *result = check_answer(w, "{'input':'rgb.png','output':'least.png','ops':['sobel']}");
    assert_string_equal(json_text(result, "decoder"), "cuda:0");
    assert_string_equal(json_text(result, "outputs.0.encoder"), "cuda:0");
    cJSON_Delete(result);
    check_stop(daemon);
}

static void run_camera_jobs(const char *engine)
{
    static const char *const metadata[] = {"'none'", "['icc']", "['exif','xmp']",
                                           "['icc','exif','xmp']"};
    bool on_cpu = strcmp(engine, "cpu") == 0;
    for (size_t i = 0; i < COUNT_OF(metadata); i++) {
        cJSON *result =
            check_answer(w,
                         "{'input':'camera.jpg','outputs':["
                         "{'output':{'path':'%s-m%zu.png','metadata':%s},'ops':['to_srgb']},"
                         "{'output':{'path':'%s-n%zu.png','metadata':%s},'ops':['transpose']},"
                         "{'output':{'path':'%s-o%zu.png','metadata':%s},'ops':['sobel']}]}",
                         engine, i, metadata[i], engine, i, metadata[i], engine, i, metadata[i]);
        assert_string_equal(json_text(result, "error.message"), "");
        for (int o = 0; o < 3; o++)
            assert_string_equal(json_text(result, text_of("outputs.%d.encoder", o)),
                                on_cpu ? "cpu" : "cuda:0");
        cJSON_Delete(result);
    }
}

TEST(metadata_equals_that_of_the_cpu)
{
    device_daemon_put_camera("camera.jpg", true);
    struct process *daemon = start_on_device("cuda");
    run_camera_jobs("cuda");
    check_stop(daemon);
    daemon = device_daemon_start_cpu();
    run_camera_jobs("cpu");
    check_stop(daemon);
    for (size_t i = 0; i < 4; i++)
        for (const char *output = "mno"; *output; output++)
            device_daemon_compare(text_of("cuda-%c%zu.png", *output, i),
                                  text_of("cpu-%c%zu.png", *output, i));
}

/* Pushes the same random jobs for each engine: PNGs and JPEGs in, PNGs out. Returns how many were
 * done; a crop may be larger than its image. */
static unsigned run_random_jobs(const char *engine, unsigned count)
{
    uint32_t state = 7;
    unsigned done = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct input *input = &inputs[test_random(&state) / 8 % COUNT_OF(inputs)];
        cJSON *result = check_answer(w, "{'input':'%s','output':'%s-r%u.png','ops':[%s]}",
                                     i % 4 ? input->name : "photo.jpg", engine, i,
                                     device_daemon_draw_chain(&state));
        done += strcmp(json_text(result, "status"), "done") == 0;
        cJSON_Delete(result);
    }
    return done;
}

TEST(random_chains_equal_those_of_the_cpu)
{
    unsigned count = test_quick() ? 20 : world_has_cuda() ? 1000 : 60;
    put_jpeg("photo.jpg", .width = 120, .height = 90);
    struct process *daemon = start_on_device("cuda");
    unsigned done = run_random_jobs("cuda", count);
    check_stop(daemon);
    daemon = device_daemon_start_cpu();
    assert_int_equal(run_random_jobs("cpu", count), done);
    check_stop(daemon);
    assert_true(done > count / 2);
    for (unsigned i = 0; i < count; i++)
        if (access(out_path(text_of("cuda-r%u.png", i)), F_OK) == 0)
            device_daemon_compare(text_of("cuda-r%u.png", i), text_of("cpu-r%u.png", i));
}

/* Damage of each kind: a CRC, the zlib stream, and a file that ends early. */
static void put_damaged(void)
{
    static const struct picture_png kind = {.width = 90, .height = 70, .colour_type = 2};
    struct picture_file file = picture_png(&kind);
    struct picture_file cut = picture_cut(&file, file.length - 100);
    picture_png_break_crc(&file, "IDAT");
    world_put_picture(w, "crc.png", file);
    world_put_picture(w, "cut.png", cut);
    file = picture_png(&kind);
    memset(file.bytes + file.length / 2, 0x55, 40);
    picture_png_fix_crcs(&file);
    world_put_picture(w, "stream.png", file);
}

static void take_messages(char *messages[3])
{
    static const char *const names[] = {"crc.png", "cut.png", "stream.png"};
    for (int i = 0; i < 3; i++) {
        cJSON *result =
            check_answer(w, "{'input':'%s','output':'d.png','ops':['sobel']}", names[i]);
        messages[i] = strdup(json_text(result, "error.message"));
        assert_string_equal(json_text(result, "status"), "failed");
        cJSON_Delete(result);
    }
}

TEST(a_damaged_file_fails_as_on_the_cpu)
{
    char *device[3], *cpu[3];
    put_damaged();
    struct process *daemon = start_on_device("cuda");
    take_messages(device);
    check_done(check_answer(w, "{'input':'rgb.png','output':'next.png','ops':['sobel']}"));
    check_stop(daemon);
    daemon = device_daemon_start_cpu();
    take_messages(cpu);
    check_stop(daemon);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(device[i], cpu[i]);
        free(device[i]);
        free(cpu[i]);
    }
}

WORLD_MAIN(ONE_WORLD, .fill = fill)
