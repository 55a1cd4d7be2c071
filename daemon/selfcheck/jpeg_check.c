#include "daemon/selfcheck/jpeg_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/codec.h"
#include "codecs/jpeg/header.h"
#include "conf/log.h"
#include "daemon/selfcheck/test_image.h"
#include "gpu/engine/task_wait.h"
#include "gpu/jpeg/codec_memory.h"

/* Odd sides, so that the image ends within an MCU (the unit of a JPEG with all components), and Cb
 * and Cr end within a block of 8 x 8 samples. */
#define SIDE_ACROSS 173
#define SIDE_DOWN   91
#define FILE_BYTES  (4 * SIDE_ACROSS * SIDE_DOWN)
#define TRIALS_AT_ONCE 16
#define TIMEOUT_S 30

static const struct codec_limits limits = {.pixels_max = PIXELS_DEFAULT, .side_max = SIDE_DEFAULT,
                                           .jpeg_scans_max = JPEG_SCANS_DEFAULT};

/* A generated file, and a job for it with two outputs: the decoded pixels, and a JPEG of them. */
struct trial {
    struct plan plan;
    struct engine_memory memory;
    struct engine_task task;
    struct task_wait *wait;
    bool reserved;
    size_t file_bytes;
    struct encoder_settings encoder; /* of the second output */
    struct image_info info;
    struct decode_request decode;
    char what[80]; /* describes the file in a warning */
    uint8_t file[FILE_BYTES];
};

struct check {
    struct engine *engine;
    struct task_wait wait;
    size_t submitted;
    struct codec_context *codec;
    struct engine_codecs equal; /* the decoder, the encoder: all results so far equal libjpeg's */
    struct error *error;
    struct jpeg_frame frame;
    uint8_t drawn[SIDE_ACROSS * SIDE_DOWN * 3];
    uint8_t expected[SIDE_DOWN * (SIDE_ACROSS * 3 + STRIDE_ALIGN)], encoded[FILE_BYTES];
    struct trial trials[TRIALS_AT_ONCE];
};

/* ---- the files ------------------------------------------------------------------------------ */

/* Smooth areas, edges and noise. */
static void draw(uint8_t *pixels)
{
    uint32_t state = 1;
    for (uint32_t i = 0; i < SIDE_ACROSS * SIDE_DOWN * 3; i++) {
        uint32_t x = i / 3 % SIDE_ACROSS, y = i / 3 / SIDE_ACROSS;
        state = state * 1664525u + 1013904223u;
        uint32_t noise = x > SIDE_ACROSS / 2 ? state >> 26 : 0, edge = (x / 9 + y / 7) % 2 * 90;
        pixels[i] = (uint8_t)(x + y * (i % 3) + noise + edge);
    }
}

/* Makes the trial of this number. All trials together have every combination of a subsampling, a
 * scale, and Y, RGB or YCbCr as the result. Qualities from 1 to 100, three restart intervals, and
 * the subsamplings of the second output alternate. false: there is no such trial, or an error. */
static bool make_trial(struct check *check, struct trial *trial, unsigned number)
{
    static const enum subsampling samplings[] = {SUBSAMPLING_GRAY, SUBSAMPLING_444,
                                                 SUBSAMPLING_422, SUBSAMPLING_440,
                                                 SUBSAMPLING_420};
    static const char *const names[] = {"gray", "4:4:4", "4:2:2", "4:4:0", "4:2:0"};
    static const enum subsampling encoded[] = {SUBSAMPLING_420, SUBSAMPLING_422, SUBSAMPLING_444};
    static const uint32_t scales[] = {8, 4, 2, 1};
    static const unsigned intervals[] = {0, 1, 7};
    enum { sampling_count = 5, scale_count = 4, as_count = 3, quality_step = 13 };
    if (number >= sampling_count * scale_count * as_count)
        return false;
    enum subsampling sampling = samplings[number % sampling_count];
    uint32_t channels = sampling == SUBSAMPLING_GRAY ? 1 : 3;
    struct image drawn = {check->drawn, SIDE_ACROSS, SIDE_DOWN, channels, SIDE_ACROSS * channels};
    struct encode_request request = {
        .format = &formats[FORMAT_jpeg],
        .restart_interval = intervals[number % 3],
        .encoder = {.quality = 1 + (int)(number * quality_step % 100), .subsampling = sampling}};
    struct codec_sink sink = {trial->file, sizeof trial->file, .flush = test_image_flush};
    if (codec_encode(check->codec, &drawn, &request, &sink, check->error) != STATUS_OK)
        return false;
    trial->file_bytes = sink.total;
    trial->encoder = (struct encoder_settings){
        .quality = 100 - (int)(number * quality_step % 100), .subsampling = encoded[number % 3]};
    trial->decode = (struct decode_request){.eighths = scales[number / sampling_count % 4],
                                            .as = (enum decode_as)(number / 20)};
    snprintf(trial->what, sizeof trial->what, "%s, quality %d, restart interval %u, %u/8",
             names[number % sampling_count], request.encoder.quality, request.restart_interval,
             trial->decode.eighths);
    return codec_probe(check->codec, trial->file, trial->file_bytes, &limits, &trial->info,
                       check->error) == STATUS_OK;
}

/* ---- one trial ------------------------------------------------------------------------------ */

static void on_done(struct engine_task *task)
{
    task_wait_ended(container_of(task, struct trial, task)->wait);
}

static bool plan_trial(struct check *check, struct trial *trial)
{
    bool luma = trial->decode.as == DECODE_LUMA || trial->info.channels == 1;
    if (luma || trial->info.channels == 1)
        trial->decode.as = DECODE_LUMA;
    struct plan_source source = {.width = trial->info.width, .height = trial->info.height,
                                 .channels = luma ? 1 : 3, .orientation = 1,
                                 .ycc = trial->decode.as == DECODE_YCC,
                                 .eighths = trial->decode.eighths,
                                 .file = {.bytes = trial->file_bytes,
                                          .frame_bytes = sizeof check->frame}};
    struct jpeg_sampling sampling = jpeg_sampling_of(trial->encoder.subsampling);
    struct plan_target targets[2] = {{.opaque = true}, {.opaque = true, .on_device = true,
                                                        .quality = trial->encoder.quality,
                                                        .h = sampling.h, .v = sampling.v,
                                                        .header_bytes = jpeg_prelude_bytes(0),
                                                        .encoder_bytes = jpeg_encoder_bytes}};
    struct plan_limits sizes = {PIXELS_DEFAULT, SIDE_DEFAULT};
    if (!codec_read_frame(check->codec, trial->file, trial->file_bytes, &trial->info, &limits,
                          &check->frame))
        return false;
    source.file.work_bytes = jpeg_decoder_bytes(&check->frame, trial->file_bytes, trial->decode.as,
                                                trial->decode.eighths);
    return source.file.work_bytes > 0 &&
           plan_build(&trial->plan, &source, targets, 2, &sizes, check->error) == STATUS_OK;
}

static struct encode_request second_output(const struct trial *trial)
{
    return (struct encode_request){.format = &formats[FORMAT_jpeg], .encoder = trial->encoder};
}

static bool start(struct check *check, struct trial *trial, uint32_t device)
{
    const struct plan_variant *variant = &trial->plan.variants[1];
    const struct encode_request request = second_output(trial);
    enum engine_reserved reserved =
        engine_reserve_on(check->engine, device, &trial->plan, &trial->memory, check->error);
    trial->reserved = reserved == ENGINE_RESERVED;
    if (reserved == ENGINE_WAIT)
        error_set(check->error, STATUS_OUT_OF_MEMORY,
                  "the memory pools have no room for the test of the JPEG codec");
    if (!trial->reserved)
        return false;
    uint8_t *input = trial->memory.input;
    memset(trial->memory.output, 0xA5, trial->plan.output_bytes);
    memset(trial->memory.output + trial->plan.report_at, 0, sizeof(struct plan_report));
    memcpy(input, trial->file, trial->file_bytes);
    memcpy(input + trial->plan.frame_at, &check->frame, sizeof check->frame);
    plan_put_constants(&trial->plan, input);
    if (jpeg_prelude_make(check->codec, &request, variant->width, variant->height,
                          variant->channels,
                          (struct jpeg_prelude *)(input + variant->encoder.header_at),
                          check->error) != STATUS_OK)
        return false;
    trial->task = (struct engine_task){.plan = &trial->plan, .memory = &trial->memory,
                                       .done = on_done};
    trial->wait = &check->wait;
    check->submitted++;
    engine_submit(check->engine, &trial->task);
    return true;
}

/* ---- comparing ------------------------------------------------------------------------------ */

static void turn_off(bool *codec, const char *name, const char *device, const char *what,
                     const char *how)
{
    if (*codec)
        log_warning("%s: the JPEG %s %s (%s): libjpeg %ss on the CPU instead", device, name, how,
                    what, strcmp(name, "decoder") == 0 ? "decode" : "encode");
    *codec = false;
}

static bool same_pixels(const struct image *a, const struct image *b)
{
    for (uint32_t y = 0; y < a->height; y++)
        if (memcmp(a->pixels + y * a->stride, b->pixels + y * b->stride,
                   (size_t)a->width * a->channels) != 0)
            return false;
    return true;
}

/* Compares both outputs with those of libjpeg, and turns off a codec whose output differs. false:
 * libjpeg has failed. */
static bool compare(struct check *check, struct trial *trial, const char *device)
{
    struct image got = plan_result(&trial->plan, 0, trial->memory.input, trial->memory.output);
    struct image expected = got;
    struct decode_request request = {.eighths = trial->decode.eighths,
                                     .as = got.channels == 1 ? DECODE_LUMA : DECODE_COLOUR};
    const struct encode_request encode = second_output(trial);
    struct codec_sink sink = {check->encoded, sizeof check->encoded, .flush = test_image_flush};
    size_t bytes;
    expected.pixels = check->expected;
    if (codec_decode(check->codec, trial->file, trial->file_bytes, &trial->info, &request, &limits,
                     &expected, check->error) != STATUS_OK ||
        codec_encode(check->codec, &expected, &encode, &sink, check->error) != STATUS_OK)
        return false;
    if (plan_report(&trial->plan, trial->memory.output)->declined != 0) {
        turn_off(&check->equal.jpeg_decoder, "decoder", device, trial->what,
                 "declines a file that it should decode");
        return true;
    }
    if (!same_pixels(&got, &expected)) {
        turn_off(&check->equal.jpeg_decoder, "decoder", device, trial->what, "differs");
        return true;
    }
    const uint8_t *file = plan_encoded(&trial->plan, 1, trial->memory.output, &bytes);
    if (bytes != sink.total || memcmp(file, check->encoded, bytes) != 0)
        turn_off(&check->equal.jpeg_encoder, "encoder", device, trial->what, "differs");
    return true;
}

/* ---- all trials ----------------------------------------------------------------------------- */

/* Waits for all trials. false: one has not ended in time, so the device may still write to the
 * memory of the trials. */
static bool all_ended(struct check *check)
{
    return task_wait_for(&check->wait, check->submitted, TIMEOUT_S) ||
           error_refuse(check->error, "the JPEG codec did not answer within %d s", TIMEOUT_S);
}

/* Runs up to TRIALS_AT_ONCE trials together, from *number on, which it increases. *more: whether
 * there are further trials. */
static bool run_some(struct check *check, uint32_t device, unsigned *number, bool *more)
{
    unsigned count = 0;
    bool ok = true;
    memset(check->trials, 0, sizeof check->trials);
    while (ok && count < TRIALS_AT_ONCE &&
           (*more = make_trial(check, &check->trials[count], *number))) {
        struct trial *trial = &check->trials[count++];
        ++*number;
        ok = plan_trial(check, trial) && start(check, trial, device);
    }
    ok = ok && check->error->status == STATUS_OK;
    if (!all_ended(check))
        return false;
    for (unsigned i = 0; i < count; i++) {
        struct trial *trial = &check->trials[i];
        if (ok && trial->task.error.status != STATUS_OK)
            ok = error_refuse(check->error, "%s", trial->task.error.text);
        ok = ok && compare(check, trial, engine_name(check->engine, device));
        if (trial->reserved)
            engine_release(check->engine, &trial->memory);
        plan_clear(&trial->plan);
        image_info_clear(&trial->info);
    }
    return ok;
}

bool jpeg_check_run(struct engine *engine, struct error *error)
{
    struct check *check = calloc(1, sizeof *check);
    bool ok = check && (check->codec = codec_context_create()) != NULL;
    if (check)
        task_wait_open(&check->wait);
    if (!ok)
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the test of the JPEG codec");
    if (ok) {
        check->engine = engine;
        check->error = error;
        check->equal = (struct engine_codecs){true, true};
        draw(check->drawn);
    }
    for (uint32_t d = 0; ok && d < engine_devices(engine); d++) {
        bool more = true;
        for (unsigned number = 0; ok && more;)
            ok = run_some(check, d, &number, &more);
    }
    if (ok)
        engine_set_codecs(engine, check->equal);
    if (!check)
        return ok;
    codec_context_destroy(check->codec);
    if (!task_wait_for(&check->wait, check->submitted, 0))
        return ok; /* without free(check): the device may still write to it */
    task_wait_close(&check->wait);
    free(check);
    return ok;
}
