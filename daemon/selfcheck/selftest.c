#include "daemon/selfcheck/selftest.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/engine/task_wait.h"

/* Odd sides, so that the image ends within a block of 8 x 8 pixels. */
#define TRIAL_WIDTH    83
#define TRIAL_HEIGHT   61
#define TRIAL_CHANNELS 4
#define TRIAL_BYTES    (TRIAL_WIDTH * TRIAL_HEIGHT * TRIAL_CHANNELS)
/* The largest difference of a sample that is allowed after a lossy format with quality 100.
 * libjpeg-turbo has at most 2. */
#define TRIAL_LOSS_MAX 8

/* If the program has only PTX (portable code) for a device, the driver compiles the kernels at the
 * first start, which takes 30 s on a fast core. gpuimgd.service allows 180 s for a start. */
#define TIMEOUT_S   120
#define TASKS_MAX   (DEVICES_MAX * STREAMS_CEILING)

/* The test of one format. */
struct trial {
    struct codec_context *context;
    const struct format *format;
    uint8_t file[2 * TRIAL_BYTES];
    uint8_t drawn[TRIAL_BYTES], decoded[TRIAL_BYTES];
};

static struct image trial_image(uint8_t *pixels, uint32_t channels)
{
    return (struct image){.pixels = pixels, .width = TRIAL_WIDTH, .height = TRIAL_HEIGHT,
                          .channels = channels, .stride = (size_t)TRIAL_WIDTH * channels};
}

static void draw(const struct image *image)
{
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++)
            for (uint32_t c = 0; c < image->channels; c++)
                image->pixels[y * image->stride + x * image->channels + c] =
                    (uint8_t)(40 + x + (c + 1) * y / 2);
}

static bool is_near(const struct trial *trial, const struct image *image)
{
    int limit = trial->format->lossless ? 0 : TRIAL_LOSS_MAX;
    for (size_t i = 0; i < image->stride * image->height; i++)
        if (abs(trial->drawn[i] - trial->decoded[i]) > limit)
            return false;
    return true;
}

static const struct codec_limits limits = {
    .pixels_max = PIXELS_DEFAULT, .side_max = SIDE_DEFAULT, .jpeg_scans_max = JPEG_SCANS_DEFAULT};

/* compression: of a PNG. */
static bool round_trip(struct trial *trial, uint32_t channels, int compression, struct error *error)
{
    struct image drawn = trial_image(trial->drawn, channels);
    struct image decoded = trial_image(trial->decoded, channels);
    struct encode_request encode = {.format = trial->format,
                                    .encoder = {.quality = 100, .compression = compression}};
    struct decode_request decode = {0};
    struct image_info info = {0};
    struct codec_sink sink = {trial->file, sizeof trial->file, .flush = test_image_flush};
    draw(&drawn);
    bool ok = codec_encode(trial->context, &drawn, &encode, &sink, error) == STATUS_OK &&
              codec_probe(trial->context, trial->file, sink.total, &limits, &info, error) ==
                  STATUS_OK;
    if (ok && (info.width != drawn.width || info.height != drawn.height ||
               info.channels != channels))
        ok = error_refuse(error, "the decoded image is %u x %u x %u", info.width, info.height,
                          info.channels);
    ok = ok && codec_decode(trial->context, trial->file, sink.total, &info, &decode, &limits,
                            &decoded, error) == STATUS_OK;
    if (ok && !is_near(trial, &drawn))
        ok = error_refuse(error, "the decoded image has wrong pixels");
    image_info_clear(&info);
    return ok;
}

/* Reads a PNG with a palette, of 2 x 2 pixels. libpng reads it; most others are read without it. */
static bool read_palette(struct trial *trial, struct error *error)
{
    static const uint8_t file[] = {
        0x89, 'P',  'N',  'G',  '\r', '\n', 0x1A, '\n', 0,   0,   0,   13,   'I',  'H',  'D',  'R',
        0,    0,    0,    2,    0,    0,    0,    2,    8,   3,   0,   0,    0,    0x45, 0x68, 0xFD,
        0x16, 0,    0,    0,    9,    'P',  'L',  'T',  'E', 1,   2,   3,    200,  100,  50,   255,
        0,    128,  0x7F, 0xDE, 0x2A, 0xD0, 0,    0,    0,   17,  'I', 'D',  'A',  'T',  0x78, 1,
        1,    6,    0,    0xF9, 0xFF, 0,    0,    1,    0,   2,   0,   0,    0x0E, 0,    4,    0x53,
        0xCF, 0x51, 0x58, 0,    0,    0,    0,    'I',  'E', 'N', 'D', 0xAE, 0x42, 0x60, 0x82};
    static const uint8_t expected[] = {1, 2, 3, 200, 100, 50, 255, 0, 128, 1, 2, 3};
    struct image image = {
        .pixels = trial->decoded, .width = 2, .height = 2, .channels = 3, .stride = 6};
    struct decode_request decode = {0};
    struct image_info info = {0};
    bool ok = codec_probe(trial->context, file, sizeof file, &limits, &info, error) == STATUS_OK &&
              codec_decode(trial->context, file, sizeof file, &info, &decode, &limits, &image,
                           error) == STATUS_OK;
    if (ok && memcmp(trial->decoded, expected, sizeof expected) != 0)
        ok = error_refuse(error, "the decoded image has wrong pixels");
    image_info_clear(&info);
    return ok;
}

/* PNGs of compression 1 are written and read without libpng and zlib, those of 6 are written by
 * them. */
static bool check_format(struct trial *trial, const struct format *format, struct error *error)
{
    bool is_png = format == &formats[FORMAT_png];
    trial->format = format;
    return (!format->gray || round_trip(trial, 1, 1, error)) && round_trip(trial, 3, 1, error) &&
           (!format->alpha || round_trip(trial, 4, 1, error)) &&
           (!is_png || (round_trip(trial, 3, 6, error) && read_palette(trial, error)));
}

bool selftest_codecs(struct error *error)
{
    struct trial *trial = calloc(1, sizeof *trial);
    struct error why = {0};
    const struct format *format = formats;
    bool ok = trial && (trial->context = codec_context_create()) != NULL;
    if (!ok)
        error_set(&why, STATUS_OUT_OF_MEMORY, "no memory");
    for (; ok && format < formats + FORMAT_COUNT; format += ok) {
        if (!codec_refusal(format, false) && !codec_refusal(format, true))
            ok = check_format(trial, format, &why);
    }
    if (why.status == STATUS_OUT_OF_MEMORY) /* uncovered: memory (tests/coverage/reasons.txt) */
        error_set(error, why.status, "self-test of the codecs: %s", why.text);
    else if (!ok)
        error_set(error, STATUS_INTERNAL,
                  "the self-test of %s failed: %s; install the libraries with which gpuimgd was "
                  "built, or build it again",
                  format->name, why.text);
    if (trial)
        codec_context_destroy(trial->context);
    free(trial);
    return ok;
}

struct selftest {
    struct engine *engine;
    const struct test_image *test_image;
    struct error *error;
    struct codec_context *codec;
    struct task_wait wait;
    struct run {
        struct selftest *test;
        struct engine_memory memory;
        struct engine_task task;
    } runs[TASKS_MAX];
    uint32_t run_count;
};

static bool wrong(struct selftest *test, const char *what)
{
    return error_fail(test->error, STATUS_GPU_FAILED, "self-test: %s", what);
}

static void on_done(struct engine_task *task)
{
    task_wait_ended(&container_of(task, struct run, task)->test->wait);
}

/* Starts the test image once. false: the pools have no memory left, or the codec has failed. */
static bool start(struct selftest *test, struct run *run, struct error *error)
{
    struct engine *engine = test->engine;
    const struct plan *plan = test_image_plan(test->test_image);
    enum engine_reserved reserved = engine_reserve(engine, plan, &run->memory, error);
    if (reserved == ENGINE_WAIT)
        error_set(error, STATUS_OUT_OF_MEMORY, "the memory pools have no room for the test image");
    if (reserved != ENGINE_RESERVED)
        return false;
    if (!test_image_decode(test->test_image, test->codec, &run->memory, error)) {
        engine_release(engine, &run->memory); /* uncovered: selftest */
        return false;
    }
    run->test = test;
    run->task = (struct engine_task){.plan = plan, .memory = &run->memory, .alone = true,
                                     .done = on_done};
    if (engine_is_synchronous(engine)) {
        engine_run(engine, &run->task);
        on_done(&run->task);
    } else {
        engine_submit(engine, &run->task);
    }
    return true;
}

static bool check(struct selftest *test, const struct run *run)
{
    struct error error = {0};
    if (run->task.error.status != STATUS_OK) /* uncovered: selftest */
        return wrong(test, run->task.error.text);
    return test_image_compare(test->test_image, test->codec, &run->memory, &error) ||
           wrong(test, error.text); /* uncovered: selftest */
}

/* Runs the test image as often as the engine has streams, all at once, because the engine gives
 * each run a stream of its own. *ended: all runs have ended. */
static bool run_all(struct selftest *test, bool *ended)
{
    struct error error = {0};
    uint32_t streams = engine_slots(test->engine);
    uint32_t wanted = streams == 0 ? 1 : streams < TASKS_MAX ? streams : TASKS_MAX;
    while (test->run_count < wanted && start(test, &test->runs[test->run_count], &error))
        test->run_count++;
    bool ok = test->run_count > 0 || wrong(test, error.text);
    *ended = task_wait_for(&test->wait, test->run_count, TIMEOUT_S);
    if (!*ended) /* uncovered: selftest */
        return wrong(test, "the engine did not answer within 120 s");
    for (uint32_t i = 0; ok && i < test->run_count; i++)
        ok = check(test, &test->runs[i]);
    for (uint32_t i = 0; i < test->run_count; i++)
        engine_release(test->engine, &test->runs[i].memory);
    return ok;
}

bool selftest_run(struct engine *engine, const struct test_image *test_image, struct error *error)
{
    struct selftest *test = calloc(1, sizeof *test);
    bool ended = true;
    if (!test) /* uncovered: selftest */
        return error_fail(error, STATUS_OUT_OF_MEMORY, "self-test: no memory");
    test->engine = engine;
    test->test_image = test_image;
    test->error = error;
    task_wait_open(&test->wait);
    test->codec = codec_context_create();
    bool ok = test->codec ? run_all(test, &ended) : wrong(test, "no memory");
    codec_context_destroy(test->codec);
    if (!ended) /* uncovered: selftest */
        return ok; /* without free(test): the device may still write to it */
    task_wait_close(&test->wait);
    free(test);
    return ok;
}
