/*
 * test_device_codec.c - jobs whose JPEGs are decoded and encoded on a device give the same files as
 * jobs on the CPU, byte for byte. A file that the device declines is decoded on the host.
 */
#include <unistd.h>

#include "tests/fixtures/gpu/device_daemon.h"
#include "tests/fixtures/gpu/gpu_run.h"
#include "tests/fixtures/shard.h"
#include "tests/fixtures/text_file.h"

struct input {
    const char *name;
    const char *decoder; /* with jpeg = cuda */
    struct picture_jpeg kind;
};

static const struct input inputs[] = {
    {"420.jpg", "cuda:0", {.width = 131, .height = 77}},
    {"422.jpg", "cuda:0", {.width = 64, .height = 65, .subsampling = 422, .quality = 50}},
    {"444.jpg", "cuda:0", {.width = 33, .height = 90, .subsampling = 444, .quality = 97}},
    {"gray.jpg", "cuda:0", {.width = 50, .height = 41, .colour = PICTURE_GRAY}},
    {"restart.jpg", "cuda:0", {.width = 120, .height = 130, .restart_rows = 2}},
    {"turned.jpg", "cuda:0", {.width = 70, .height = 44, .orientation = 6}},
    {"progressive.jpg", "cuda:0", {.width = 99, .height = 60, .progressive = true}},
    {"cmyk.jpg", "cpu", {.width = 40, .height = 40, .colour = PICTURE_CMYK}},
    {"separate.jpg", "cpu", {.width = 40, .height = 40, .separate = true}},
    /* Larger than INPUT_HEAD_BYTES, so that a device's file is read into pinned memory. */
    {"large.jpg", "cuda:0", {.width = 300, .height = 200, .subsampling = 444, .quality = 100}},
    {"large_icc.jpg", "cuda:0", {.width = 301, .height = 203, .subsampling = 444, .quality = 100}},
    {"long_header.jpg", "cuda:0", {.width = 90, .height = 70}},
    {"large_progressive.jpg", "cuda:0",
     {.width = 300, .height = 200, .subsampling = 444, .quality = 100, .progressive = true}},
    {"large_cmyk.jpg", "cpu", {.width = 200, .height = 180, .quality = 100,
                               .colour = PICTURE_CMYK}},
};

/* The profile of an input: larger than METADATA_KEPT_BYTES, or than INPUT_HEAD_BYTES. */
static size_t icc_bytes(const char *name)
{
    return strcmp(name, "large_icc.jpg") == 0     ? 20000
           : strcmp(name, "long_header.jpg") == 0 ? 80000
                                                  : 0;
}

static const char *const chains[] = {
    "[]",
    "['sobel']",
    "['grayscale',{'op':'gaussian','sigma':1.5},'sobel']",
    "[{'op':'resize','width':24}]",
    "[{'op':'resize','width':9,'fast_shrink':true}]",
    "[{'op':'crop','x':3,'y':2,'width':21,'height':17}]",
    "[{'op':'flip','axis':'horizontal'},{'op':'rotate','angle':90}]",
    "['grayscale','histogram']",
};

/* A damaged file of the kind that the device decodes. */
static void put_damaged(const char *name)
{
    struct picture_file file = picture_jpeg(&(struct picture_jpeg){.width = 90, .height = 90});
    size_t data = picture_jpeg_marker(&file, 0xDA) + 200;
    memset(file.bytes + data, 0x00, 20);
    world_put_picture(w, name, file);
}

static void put_truncated(const char *name)
{
    struct picture_file file =
        make_jpeg(.width = 300, .height = 250, .quality = 100, .subsampling = 444);
    struct picture_file cut = picture_cut(&file, file.length - 100);
    assert_true(cut.length > INPUT_HEAD_BYTES);
    world_put_picture(w, name, cut);
    picture_free(&file);
}

/* A progressive file with codes that do not exist in the scan of Cr. */
static void put_damaged_chroma(const char *name)
{
    struct picture_file file =
        picture_jpeg(&(struct picture_jpeg){.width = 90, .height = 90, .progressive = true});
    static const uint8_t header[] = {0xFF, 0xDA, 0, 8, 1, 3}; /* length, components, the third */
    uint8_t *scan = memmem(file.bytes, file.length, header, sizeof header);
    assert_non_null(scan);
    memset(scan + 2 + header[3] + 8, 0xFE, 20);
    world_put_picture(w, name, file);
}

/* A photograph with a gain map after it, which an index in the header (MPF) places. The gain map
 * starts after the first 8 KiB, but in the head of 64 KiB; zeros make the file larger than that. */
static void put_gain_map(const char *name)
{
    enum { header_bytes = 4, tiff_at = 2 + header_bytes + 4 };
    static const char map[] = "\xFF\xD8 urn:com:apple:photo:2020:aux:hdrgainmap";
    static const unsigned char zeros[64 << 10];
    uint8_t segment[header_bytes + 4 + 26 + 2 * 16] = "\xFF\xE2\0\x40MPF\0II*\0\x08\0\0\0\x01\0"
                                                      "\x02\xB0\x07\0\x20\0\0\0\x1A\0\0\0";
    struct picture_file file = make_jpeg(.width = 200, .height = 160, .quality = 95);
    uint32_t offset = (uint32_t)(file.length + sizeof segment - tiff_at);
    uint32_t entry[4] = {0, sizeof map, offset, 0};
    memcpy(segment + sizeof segment - sizeof entry, entry, sizeof entry);
    assert_true(file.length > INPUT_HEAD_FIRST_BYTES && file.length < INPUT_HEAD_BYTES / 2);
    picture_insert(&file, 2, segment, sizeof segment);
    picture_insert(&file, file.length, map, sizeof map);
    picture_insert(&file, file.length, zeros, sizeof zeros);
    world_put_picture(w, name, file);
}

static void put_input(const struct input *input)
{
    struct picture_jpeg kind = input->kind;
    struct picture_file icc = {0};
    bool is_large = strncmp(input->name, "la", 2) == 0;
    if (icc_bytes(input->name) > 0) {
        icc = picture_icc(icc_bytes(input->name), "RGB ");
        kind.icc = icc.bytes;
        kind.icc_bytes = icc.length;
    }
    struct picture_file file = picture_jpeg(&kind);
    assert_int_equal(is_large, file.length - icc.length > INPUT_HEAD_BYTES);
    world_put_picture(w, input->name, file);
    picture_free(&icc);
}

static void fill(void)
{
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        put_input(&inputs[i]);
    put_damaged("damaged.jpg");
    put_truncated("truncated.jpg");
    put_damaged_chroma("damaged_chroma.jpg");
}

/* device_bytes NULL: the default. */
static struct process *start_with_memory(const char *jpeg, const char *device_bytes)
{
    const char *const options[] = {text_of("--jpeg=%s", jpeg),
                                   device_bytes ? text_of("--device_bytes=%s", device_bytes) : NULL,
                                   NULL};
    return device_daemon_start(options);
}

static struct process *start_on_device(const char *jpeg)
{
    return start_with_memory(jpeg, NULL);
}

/* Runs every chain on every input, into JPEGs and PNGs named after the engine. forced: the place of
 * each decoder is known. */
static void run_all_jobs(const char *engine, bool forced)
{
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        for (size_t c = 0; c < sizeof chains / sizeof *chains; c++) {
            bool on_cpu = strcmp(engine, "cpu") == 0;
            cJSON *result = check_answer(
                w, "{'input':'%s','outputs':["
                   "{'output':{'path':'%s-%zu-%zu.jpg','quality':%zu},'ops':%s},"
                   "{'output':'%s-%zu-%zu.png','ops':%s}]}",
                inputs[i].name, engine, i, c, 5 + 13 * c, chains[c], engine, i, c, chains[c]);
            assert_string_equal(json_text(result, "error.message"), "");
            if (forced)
                assert_string_equal(json_text(result, "decoder"),
                                    on_cpu ? "cpu" : inputs[i].decoder);
            assert_string_equal(json_text(result, "outputs.0.encoder"), on_cpu ? "cpu" : "cuda:0");
            assert_string_equal(json_text(result, "outputs.1.encoder"), on_cpu ? "cpu" : "cuda:0");
            cJSON_Delete(result);
        }
}

/* Checks the counts of images by the place of their codecs, after all jobs. */
static void check_places(struct process *daemon)
{
    size_t chain_count = sizeof chains / sizeof *chains, decoded[2] = {0, 0};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        decoded[strcmp(inputs[i].decoder, "cpu") != 0] += chain_count;
    device_daemon_check_stats(daemon, "decode_host", decoded[0]);
    device_daemon_check_stats(daemon, "decode_device", decoded[1]);
    device_daemon_check_stats(daemon, "encode_host", 0);
    device_daemon_check_stats(daemon, "encode_device", 2 * (decoded[0] + decoded[1]));
}

/* Runs all jobs on a device with this value of the option jpeg, and on the CPU. */
static void compare_engines(const char *jpeg)
{
    bool forced = strcmp(jpeg, "cuda") == 0;
    struct process *daemon = start_on_device(jpeg);
    run_all_jobs("cuda", forced);
    check_stop(daemon);
    if (forced)
        check_places(daemon);
    daemon = device_daemon_start_cpu();
    run_all_jobs("cpu", true);
    check_stop(daemon);
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        for (size_t c = 0; c < sizeof chains / sizeof *chains; c++) {
            device_daemon_compare(text_of("cuda-%zu-%zu.jpg", i, c),
                                  text_of("cpu-%zu-%zu.jpg", i, c));
            device_daemon_compare(text_of("cuda-%zu-%zu.png", i, c),
                                  text_of("cpu-%zu-%zu.png", i, c));
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

/* Operations that need a part of the source: the decoder leaves out the rest. */
static const char *const parts[] = {
    "[{'op':'resize','width':64,'height':64,'fit':'outside'},"
    "{'op':'crop','width':40,'height':40,'gravity':'center'}]",
    "[{'op':'resize','width':120,'height':100,'fit':'exact'},"
    "{'op':'crop','width':11,'height':9,'gravity':'southeast'},'sobel']",
    "[{'op':'resize','width':9,'height':9,'fit':'exact'},"
    "{'op':'crop','x':0,'y':6,'width':2,'height':1}]", /* decoded at a fraction of the size */
    "[{'op':'resize','width':16,'height':24,'fit':'cover'}]",
    "[{'op':'crop','x':19,'y':22,'width':5,'height':17}]",
};

/* Runs the jobs on a device, and then on the cores. */
static void run_on_both(void (*run)(const char *engine))
{
    struct process *daemon = start_on_device("cuda");
    run("cuda");
    check_stop(daemon);
    daemon = device_daemon_start_cpu();
    run("cpu");
    check_stop(daemon);
}

static void run_parts(const char *engine)
{
    for (size_t i = 0; i < COUNT_OF(inputs); i++)
        for (size_t p = 0; p < COUNT_OF(parts); p++)
            check_done(check_answer(w, "{'input':'%s','output':'%s-p%zu-%zu.png','ops':%s}",
                                    inputs[i].name, engine, i, p, parts[p]));
}

TEST(parts_equal_those_of_the_cpu)
{
    run_on_both(run_parts);
    for (size_t i = 0; i < COUNT_OF(inputs); i++)
        for (size_t p = 0; p < COUNT_OF(parts); p++)
            device_daemon_compare(text_of("cuda-p%zu-%zu.png", i, p),
                                  text_of("cpu-p%zu-%zu.png", i, p));
}

enum { COPIES = 4 };

/* A tar with copies of all inputs. */
static void put_tar(void)
{
    static struct shard_member members[COPIES * COUNT_OF(inputs)];
    struct picture_file files[COUNT_OF(inputs)];
    for (size_t i = 0; i < COUNT_OF(members); i++) {
        size_t input = i % COUNT_OF(inputs);
        if (i == input)
            files[i] = picture_load(in_path(inputs[i].name));
        members[i] = (struct shard_member){text_of("%zu/%s", i, inputs[input].name),
                                           files[input].bytes, files[input].length};
    }
    struct picture_file tar = shard_make(members, COUNT_OF(members));
    picture_save(&tar, in_path("all.tar"));
    picture_free(&tar);
    for (size_t i = 0; i < COUNT_OF(inputs); i++)
        picture_free(&files[i]);
}

/* Small members are read at once, and of large ones first the head. */
TEST(members_of_a_tar_equal_those_of_the_cpu)
{
    static const char *const engines[] = {"cuda", "auto", "cpu"};
    put_tar();
    for (size_t i = 0; i < COUNT_OF(engines); i++) {
        bool on_cpu = strcmp(engines[i], "cpu") == 0;
        struct process *daemon = on_cpu ? device_daemon_start_cpu() : start_on_device(engines[i]);
        check_done(check_answer(w,
                                "{'inputs':{'archive':'all.tar'},'outputs':["
                                "{'output':'%s-sobel.tar','ops':['sobel']},"
                                "{'output':'%s-small.tar','ops':[{'op':'resize','width':24}]}]}",
                                engines[i], engines[i]));
        check_stop(daemon);
    }
    for (size_t i = 0; i < 2; i++) {
        device_daemon_compare(text_of("%s-sobel.tar", engines[i]), "cpu-sobel.tar");
        device_daemon_compare(text_of("%s-small.tar", engines[i]), "cpu-small.tar");
    }
}

/* A file of 9 MiB, most of them zeros after its end. */
static void put_nine_mib(const char *name)
{
    static const unsigned char zeros[MIB];
    struct picture_file file =
        make_jpeg(.width = 900, .height = 600, .quality = 100, .subsampling = 444);
    assert_true(file.length > MIB); /* more than one piece */
    while (file.length < 9 * MIB)
        picture_insert(&file, file.length, zeros, sizeof zeros);
    world_put_picture(w, name, file);
}

static void run_nine_mib(const char *engine, const char *decoder)
{
    cJSON *result = check_answer(
        w, "{'input':'nine.jpg','output':'%s-nine.jpg','ops':['sobel']}", engine);
    assert_string_equal(json_text(result, "error.message"), "");
    assert_string_equal(json_text(result, "decoder"), decoder);
    cJSON_Delete(result);
}

/* Several workers read such a file if a device decodes it. */
TEST(a_file_of_many_pieces_equals_that_of_the_cpu)
{
    put_nine_mib("nine.jpg");
    struct process *daemon = start_on_device("cuda");
    for (int i = 0; i < 3; i++)
        run_nine_mib("cuda", "cuda:0");
    check_stop(daemon);
    daemon = device_daemon_start_cpu();
    run_nine_mib("cpu", "cpu");
    check_stop(daemon);
    device_daemon_compare("cuda-nine.jpg", "cpu-nine.jpg");
}

static void run_camera_jobs(const char *engine)
{
    static const char *const metadata[] = {"'none'", "['icc']", "['exif','xmp']",
                                           "['icc','exif','xmp']"};
    for (size_t i = 0; i < 8; i++) {
        cJSON *result = check_answer(
            w, "{'input':'%s.jpg','outputs':["
               "{'output':{'path':'%s-m%zu.jpg','metadata':%s},'ops':['to_srgb']},"
               "{'output':{'path':'%s-n%zu.jpg','metadata':%s},'ops':['transpose']},"
               "{'output':{'path':'%s-o%zu.jpg','metadata':%s},'ops':['to_srgb','sobel']}]}",
            i % 2 ? "large-camera" : "camera", engine, i, metadata[i / 2], engine, i,
            metadata[i / 2], engine, i, metadata[i / 2]);
        assert_string_equal(json_text(result, "error.message"), "");
        bool on_cpu = strcmp(engine, "cpu") == 0;
        assert_string_equal(json_text(result, "outputs.0.encoder"), on_cpu ? "cpu" : "cuda:0");
        assert_string_equal(json_text(result, "outputs.2.encoder"), on_cpu ? "cpu" : "cuda:0");
        cJSON_Delete(result);
    }
}

TEST(metadata_equals_that_of_the_cpu)
{
    device_daemon_put_camera("camera.jpg", false);
    device_daemon_put_camera("large-camera.jpg", true);
    run_on_both(run_camera_jobs);
    for (size_t i = 0; i < 8; i++)
        for (const char *output = "mno"; *output; output++)
            device_daemon_compare(text_of("cuda-%c%zu.jpg", *output, i),
                                  text_of("cpu-%c%zu.jpg", *output, i));
}

/* Pushes the same random jobs for each engine: JPEGs of all kinds in, JPEGs out. Returns how many
 * were done; a crop may be larger than its image. */
static unsigned run_random_jobs(const char *engine, unsigned count)
{
    static const char *const samplings[] = {"420", "422", "444", "gray"};
    uint32_t state = 1;
    unsigned done = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct input *input =
            &inputs[test_random(&state) / 8 % (sizeof inputs / sizeof *inputs)];
        unsigned quality = 1 + test_random(&state) / 8 % 100;
        cJSON *result = check_answer(
            w,
            "{'input':'%s','output':{'path':'%s-r%u.jpg','quality':%u,'subsampling':'%s'},"
            "'ops':[%s]}",
            input->name, engine, i, quality, samplings[i % 4], device_daemon_draw_chain(&state));
        done += strcmp(json_text(result, "status"), "done") == 0;
        cJSON_Delete(result);
    }
    return done;
}

TEST(random_chains_equal_those_of_the_cpu)
{
    unsigned count = test_quick() ? 20 : world_has_cuda() ? 1000 : 60;
    struct process *daemon = start_on_device("cuda");
    unsigned done = run_random_jobs("cuda", count);
    check_stop(daemon);
    daemon = device_daemon_start_cpu();
    assert_int_equal(run_random_jobs("cpu", count), done);
    check_stop(daemon);
    assert_true(done > count / 2);
    for (unsigned i = 0; i < count; i++)
        if (access(out_path(text_of("cuda-r%u.jpg", i)), F_OK) == 0)
            device_daemon_compare(text_of("cuda-r%u.jpg", i), text_of("cpu-r%u.jpg", i));
}

static void check_gain_map(const char *engine)
{
    cJSON *result = check_answer(w, "{'input':'gain.jpg','output':'%s-gain.jpg'}", engine);
    bool on_cpu = strcmp(engine, "cpu") == 0;
    assert_string_equal(json_text(result, "decoder"), on_cpu ? "cpu" : "cuda:0");
    assert_true(cJSON_IsTrue(json_at(result, "input.gain_map")));
    cJSON_Delete(result);
}

TEST(a_gain_map_behind_the_photograph_is_seen)
{
    put_gain_map("gain.jpg");
    run_on_both(check_gain_map);
    device_daemon_compare("cuda-gain.jpg", "cpu-gain.jpg");
}

static char *message_of(const char *input)
{
    cJSON *result = check_answer(w, "{'input':'%s','output':'d.jpg','ops':['sobel']}", input);
    char *message = strdup(json_text(result, "error.message"));
    assert_string_equal(json_text(result, "status"), "failed");
    cJSON_Delete(result);
    return message;
}

TEST(a_damaged_file_fails_as_on_the_cpu)
{
    struct process *daemon = start_on_device("cuda");
    char *small = message_of("damaged.jpg"), *large = message_of("truncated.jpg");
    check_done(check_answer(w, "{'input':'420.jpg','output':'next.jpg','ops':['sobel']}"));
    check_stop(daemon);
    daemon = device_daemon_start_cpu();
    char *small_on_cpu = message_of("damaged.jpg"), *large_on_cpu = message_of("truncated.jpg");
    assert_string_equal(small, small_on_cpu);
    assert_string_equal(large, large_on_cpu);
    check_stop(daemon);
    free(small);
    free(large);
    free(small_on_cpu);
    free(large_on_cpu);
}

static char *gray_message_of(const char *input, const char *engine)
{
    cJSON *result =
        check_answer(w,
                     "{'input':'%s','outputs':[{'output':'%s-gray.png','ops':['grayscale']},"
                     "{'output':'%s-part.png','ops':[{'op':'crop','width':999,'height':999}]}]}",
                     input, engine, engine);
    char *message = strdup(json_text(result, "outputs.0.error.message"));
    cJSON_Delete(result);
    return message;
}

/* Of two outputs, the one that needs colours fails before the file is decoded. */
TEST(a_failed_output_hides_no_damage)
{
    struct process *daemon = start_on_device("cuda");
    char *on_device = gray_message_of("damaged_chroma.jpg", "cuda");
    check_stop(daemon);
    daemon = device_daemon_start_cpu();
    char *on_cpu = gray_message_of("damaged_chroma.jpg", "cpu");
    check_stop(daemon);
    assert_non_null(strstr(on_device, "in scan 3: Corrupt JPEG data"));
    assert_string_equal(on_device, on_cpu);
    free(on_device);
    free(on_cpu);
}

TEST(the_codecs_of_the_host_are_an_option)
{
    struct process *daemon = start_on_device("cpu");
    cJSON *result = check_answer(w, "{'input':'420.jpg','output':'host.jpg','ops':['sobel']}");
    assert_string_equal(json_text(result, "decoder"), "cpu");
    assert_string_equal(json_text(result, "outputs.0.encoder"), "cpu");
    assert_string_equal(json_text(result, "engine"), "cuda:0");
    cJSON_Delete(result);
    check_stop(daemon);
}

/* Where each kind of JPEG is encoded, with the same bytes on the CPU. */
TEST(parameters_choose_the_encoder)
{
    static const struct {
        const char *parameters, *encoder;
    } rows[] = {
        {"'subsampling':'420'", "cuda:0"},
        {"'subsampling':'422'", "cuda:0"},
        {"'subsampling':'444'", "cuda:0"},
        {"'subsampling':'444','quality':97", "cuda:0"},
        {"'subsampling':'gray'", "cuda:0"},
        {"'optimize':true", "cpu"},
        {"'optimize':false", "cuda:0"},
        {"'progressive':true,'subsampling':'422'", "cpu"},
        {"'max_bytes':2000", "cpu"},
        {"'max_bytes':0", "cuda:0"},
        {"'quality':{'ssim':0.97}", "cuda:0"},
        {"'quality':{'ssim':0.97},'max_bytes':900", "cpu"},
        {"'max_bytes':2500,'subsampling':'gray','optimize':true", "cpu"},
    };
    static const char *const names[] = {"420.jpg", "cmyk.jpg", "gray.jpg", "turned.jpg"};
    enum { row_count = sizeof rows / sizeof *rows, name_count = sizeof names / sizeof *names };
    for (int on_cpu = 0; on_cpu < 2; on_cpu++) {
        const char *engine = on_cpu ? "cpu" : "cuda";
        struct process *daemon = on_cpu ? device_daemon_start_cpu() : start_on_device("cuda");
        for (size_t i = 0; i < row_count * name_count; i++) {
            size_t row = i / name_count;
            cJSON *result = check_answer(
                w, "{'input':'%s','outputs':[{'output':{'path':'%s-o%zu.jpg',%s}},"
                   "{'output':{'path':'%s-b%zu.jpg',%s},'ops':['invert','median']}]}",
                names[i % name_count], engine, i, rows[row].parameters, engine, i,
                rows[row].parameters);
            assert_string_equal(json_text(result, "error.message"), "");
            for (int o = 0; o < 2; o++)
                assert_string_equal(json_text(result, text_of("outputs.%d.encoder", o)),
                                    on_cpu ? "cpu" : rows[row].encoder);
            cJSON_Delete(result);
        }
        check_stop(daemon);
    }
    for (size_t i = 0; i < row_count * name_count; i++) {
        device_daemon_compare(text_of("cuda-o%zu.jpg", i), text_of("cpu-o%zu.jpg", i));
        device_daemon_compare(text_of("cuda-b%zu.jpg", i), text_of("cpu-b%zu.jpg", i));
    }
}

/* Jobs of given similarities: a target and bounds that a quality reaches, that none does, and that
 * each does; and several images in one batch. */
static const char *const similar_jobs[] = {
    "'outputs':[{'output':{'path':'%s-s0.jpg','quality':{'ssim':0.98}}}]",
    "'outputs':[{'output':{'path':'%s-s1.jpg','quality':{'ssim':0.999,'max':60}},'ops':['invert']}"
    "]",
    "'outputs':[{'output':{'path':'%s-s2.jpg','quality':{'ssim':0.5,'min':40,'max':90}},"
    "'ops':['sobel']}]",
    "'outputs':[{'output':{'path':'%s-s3.jpg','quality':{'ssim':0.95},'subsampling':'444'},"
    "'ops':[{'op':'resize','width':90}]}]",
};
static const char *const similar_inputs[] = {"420.jpg", "gray.jpg", "large_icc.jpg", "camera.jpg"};

/* *texts: the quality and the similarity of each job. */
static void run_similar(const char *engine, const char *encoder,
                        char texts[COUNT_OF(similar_jobs) * COUNT_OF(similar_inputs)][64])
{
    for (size_t i = 0; i < COUNT_OF(similar_jobs) * COUNT_OF(similar_inputs); i++)
        world_push(w, "{'id':'%zu','input':'%s',%s}", i, similar_inputs[i / COUNT_OF(similar_jobs)],
                   text_of(similar_jobs[i % COUNT_OF(similar_jobs)], text_of("%s%zu", engine, i)));
    for (size_t i = 0; i < COUNT_OF(similar_jobs) * COUNT_OF(similar_inputs); i++) {
        cJSON *result = check_next(w);
        assert_string_equal(json_text(result, "error.message"), "");
        assert_string_equal(json_text(result, "outputs.0.encoder"), encoder);
        snprintf(texts[atoi(json_text(result, "id"))], sizeof *texts, "quality %g, ssim %.6f",
                 json_number(result, "outputs.0.quality"), json_number(result, "outputs.0.ssim"));
        cJSON_Delete(result);
    }
}

TEST(similar_files_equal_those_of_the_cpu)
{
    enum { jobs = COUNT_OF(similar_jobs) * COUNT_OF(similar_inputs) };
    static char texts[2][jobs][64];
    device_daemon_put_camera("camera.jpg", false);
    struct process *daemon = start_on_device("auto");
    run_similar("cuda", "cuda:0", texts[0]);
    check_stop(daemon);
    daemon = device_daemon_start_cpu();
    run_similar("cpu", "cpu", texts[1]);
    check_stop(daemon);
    for (size_t i = 0; i < jobs; i++) {
        assert_string_equal(texts[0][i], texts[1][i]);
        device_daemon_compare(text_of("cuda%zu-s%zu.jpg", i, i % COUNT_OF(similar_jobs)),
                              text_of("cpu%zu-s%zu.jpg", i, i % COUNT_OF(similar_jobs)));
    }
}

/* The negative of 2400 x 1800 pixels needs 25.9 MB of device memory without codecs, and more with
 * them. The others need less. */
static const struct photo_job {
    const char *input, *ops;
} photo_jobs[] = {
    {"photo.jpg", "['sobel']"},
    {"photo.jpg", "['invert']"},
    {"photo.jpg", "[{'op':'resize','width':128}]"},
    {"progressive-photo.jpg", "['invert']"},
};
#define PHOTO_JOBS (sizeof photo_jobs / sizeof *photo_jobs)

/* Pushes each job `times` times at once. `decoders`: of each job; NULL: not checked. */
static void run_photos(const char *engine, unsigned times, const char *const *decoders)
{
    for (unsigned i = 0; i < times * PHOTO_JOBS; i++)
        world_push(w, "{'id':'%u','input':'%s','output':'%s-p%u.jpg','ops':%s}", i,
                   photo_jobs[i % PHOTO_JOBS].input, engine, i, photo_jobs[i % PHOTO_JOBS].ops);
    for (unsigned i = 0; i < times * PHOTO_JOBS; i++) {
        cJSON *result = check_next(w);
        assert_string_equal(json_text(result, "error.message"), "");
        assert_string_equal(json_text(result, "status"), "done");
        unsigned job = (unsigned)atoi(json_text(result, "id")) % PHOTO_JOBS;
        if (decoders && strcmp(json_text(result, "decoder"), decoders[job]) != 0)
            fail_msg("job %u was decoded on %s", job, json_text(result, "decoder"));
        cJSON_Delete(result);
    }
}

/* With little device memory, fewer jobs run at a time, and the host has the codecs of those that
 * never fit. */
TEST(a_small_device_runs_photographs)
{
    static const struct {
        uint32_t device_kib;
        const char *decoders[PHOTO_JOBS];
    } rows[] = {
        {96 * 1024, {"cuda:0", "cuda:0", "cuda:0", "cuda:0"}},
        {26 * 1024, {"cuda:0", "cpu", "cuda:0", "cpu"}},
    };
    /* A quick run has a quarter of the pixels and of the memory: under ThreadSanitizer, the
     * stand-in takes about four seconds per megapixel. */
    uint32_t less = test_quick() ? 2 : 1;
    struct picture_jpeg photo = {.width = 2400 / less, .height = 1800 / less};
    world_put_picture(w, "photo.jpg", picture_jpeg(&photo));
    photo.progressive = true;
    world_put_picture(w, "progressive-photo.jpg", picture_jpeg(&photo));
    struct process *daemon = device_daemon_start_cpu();
    run_photos("cpu", 1, NULL);
    check_stop(daemon);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        daemon = start_with_memory("cuda", text_of("%uK", rows[i].device_kib / (less * less)));
        run_photos("cuda", 2, rows[i].decoders);
        check_stop(daemon);
        for (unsigned j = 0; j < 2 * PHOTO_JOBS; j++)
            device_daemon_compare(text_of("cuda-p%u.jpg", j),
                                  text_of("cpu-p%zu.jpg", j % PHOTO_JOBS));
    }
}

/* Progressive files among others. The device declines the damaged one. */
static const struct photo_job many_jobs[] = {
    {"progressive.jpg", "['sobel']"},
    {"large_progressive.jpg", "['invert']"},
    {"420.jpg", "['sobel']"},
    {"damaged-progressive.jpg", "['invert']"},
    {"progressive.jpg", "[{'op':'resize','width':24}]"},
    {"many.png", "['sobel']"},
};
#define MANY_JOBS COUNT_OF(many_jobs)

/* Pushes all jobs `times` times at once. *statuses: of each job; they are set or compared. */
static void run_many(const char *engine, unsigned times, char statuses[MANY_JOBS][32])
{
    for (unsigned i = 0; i < times * MANY_JOBS; i++)
        world_push(w, "{'id':'%u','input':'%s','output':'%s-m%u.jpg','ops':%s}", i,
                   many_jobs[i % MANY_JOBS].input, engine, i, many_jobs[i % MANY_JOBS].ops);
    for (unsigned i = 0; i < times * MANY_JOBS; i++) {
        cJSON *result = check_next(w);
        unsigned job = (unsigned)atoi(json_text(result, "id")) % MANY_JOBS;
        if (!*statuses[job])
            snprintf(statuses[job], sizeof statuses[job], "%s", json_text(result, "status"));
        assert_string_equal(json_text(result, "status"), statuses[job]);
        cJSON_Delete(result);
    }
}

/* Many progressive files are decoded at once, or a few of them if the memory is small. */
TEST(many_progressive_files_run_beside_others)
{
    static const char *const memories[] = {NULL, "2M"};
    char statuses[MANY_JOBS][32] = {""};
    unsigned times = test_quick() ? 2 : 6;
    struct picture_file file = make_jpeg(.width = 99, .height = 60, .progressive = true);
    memset(file.bytes + file.length - 200, 0x5A, 100);
    world_put_picture(w, "damaged-progressive.jpg", file);
    world_put_picture(w, "many.png", make_png(.width = 61, .height = 50, .colour_type = 2));
    struct process *daemon = device_daemon_start_cpu();
    run_many("cpu", 1, statuses);
    check_stop(daemon);
    for (size_t i = 0; i < COUNT_OF(memories); i++) {
        daemon = start_with_memory("cuda", memories[i]);
        run_many("cuda", times, statuses);
        check_stop(daemon);
        for (unsigned j = 0; j < times * MANY_JOBS; j++)
            if (strcmp(statuses[j % MANY_JOBS], "done") == 0)
                device_daemon_compare(text_of("cuda-m%u.jpg", j),
                                      text_of("cpu-m%zu.jpg", j % MANY_JOBS));
    }
}

WORLD_MAIN(ONE_WORLD, .fill = fill)
