#include "daemon/selfcheck/codec_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/avif/header.h"
#include "codecs/codec.h"
#include "codecs/quality.h"
#include "codecs/ssim_quality.h"
#include "conf/log.h"
#include "daemon/device_codecs.h"
#include "daemon/selfcheck/test_image.h"
#include "gpu/avif/encode.h"
#include "gpu/engine/task_wait.h"

/* Odd sides, so that a JPEG ends within an MCU (its unit with all components), and Cb and Cr end
 * within a block of 8 x 8 samples. A PNG with colours has two tiles. */
#define SIDE_ACROSS    173
#define SIDE_DOWN      91
#define CHANNELS_MAX   4
#define FILE_BYTES     (5 * SIDE_ACROSS * SIDE_DOWN)
/* A WebP for which libwebp halves counters of its statistics. */
#define LARGE_ACROSS   640
#define LARGE_DOWN     352
#define ENCODED_BYTES  (LARGE_ACROSS * LARGE_DOWN)
#define TRIALS_AT_ONCE 16
#define TIMEOUT_S      30

static const struct codec_limits limits = {
    .pixels_max = PIXELS_DEFAULT, .side_max = SIDE_DEFAULT, .jpeg_scans_max = JPEG_SCANS_DEFAULT};

enum texture { MIXED, FLAT, SMOOTH, NOISE, GRAIN };

/* A generated file, and a job for it with two outputs: the decoded pixels, and a file of them in
 * the same format. If devices do not decode the format, there are pixels instead of the first
 * file. */
struct trial {
    struct plan plan;
    struct engine_memory memory;
    struct engine_task task;
    struct task_wait *wait;
    bool reserved;
    bool is_large;                   /* left out if the pools are smaller than it needs */
    enum texture texture;            /* of the pixels; only without a file */
    size_t file_bytes;               /* 0: there is none */
    struct encoder_settings encoder; /* of the second output */
    struct image_info info;
    struct decode_request decode;
    char what[80]; /* describes the file in a warning */
    uint8_t file[FILE_BYTES];
};

struct check {
    struct engine *engine;
    enum device_codec kind;
    struct task_wait wait;
    size_t submitted;
    struct codec_context *codec;
    bool decoder, encoder; /* all results so far equal those of the CPU */
    bool is_stuck,
        has_no_room; /* a trial could not be started; not for lack of memory, or for it */
    struct error *error;
    union device_frame frame;
    uint8_t drawn[SIDE_ACROSS * SIDE_DOWN * CHANNELS_MAX];
    uint8_t expected[SIDE_DOWN * (SIDE_ACROSS * CHANNELS_MAX + STRIDE_ALIGN)],
        encoded[ENCODED_BYTES];
    struct trial trials[TRIALS_AT_ONCE];
};

static const struct device_codec_row *row_of(const struct check *check)
{
    return &device_codecs[check->kind];
}

static const struct format *format_of(const struct check *check)
{
    return &formats[row_of(check)->format];
}

/* ---- the files ------------------------------------------------------------------------------ */

/* Returns a sample. random: 32 bits. */
static uint32_t sample(const struct image *image, uint32_t x, uint32_t y, uint32_t channel,
                       uint32_t random, enum texture texture)
{
    uint32_t smooth = x + y * channel, edge = (x / 9 + y / 7) % 2 * 90;
    switch (texture) {
    case FLAT:
        return 70 + 50 * channel;
    case SMOOTH:
        return smooth / 4;
    case NOISE:
        return random >> 24;
    case GRAIN: /* more of it below */
        return 100 + (random >> 24) * (16 + y / 16) / 256;
    default: /* smooth areas, edges and noise */
        return smooth + edge + (x > image->width / 2 ? random >> 26 : 0);
    }
}

static void draw(const struct image *image, enum texture texture)
{
    uint32_t random = 1;
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t i = 0; i < image->width * image->channels; i++) {
            random = random * 1664525u + 1013904223u;
            image->pixels[y * image->stride + i] = (uint8_t)sample(
                image, i / image->channels, y, i % image->channels, random, texture);
        }
}

/* Encodes a drawing as the file of the trial. */
static bool make_file(struct check *check, struct trial *trial, uint32_t channels,
                      const struct encode_request *request)
{
    struct image drawn = {check->drawn, SIDE_ACROSS, SIDE_DOWN, channels, SIDE_ACROSS * channels};
    struct codec_sink sink = {trial->file, sizeof trial->file, .flush = test_image_flush};
    draw(&drawn, MIXED);
    if (codec_encode(check->codec, &drawn, request, &sink, check->error) != STATUS_OK)
        return false;
    trial->file_bytes = sink.total;
    return codec_probe(check->codec, trial->file, trial->file_bytes, &limits, &trial->info,
                       check->error) == STATUS_OK;
}

/* Makes the trial of this number. All trials together have every combination of a subsampling, a
 * scale, and Y, RGB or YCbCr as the result. Qualities from 1 to 100, three restart intervals, and
 * the subsamplings of the second output alternate. Some second outputs have a similarity instead of
 * a quality. false: there is no such trial, or an error. */
static bool make_jpeg(struct check *check, struct trial *trial, unsigned number)
{
    static const enum subsampling samplings[] = {SUBSAMPLING_GRAY, SUBSAMPLING_444, SUBSAMPLING_422,
                                                 SUBSAMPLING_440, SUBSAMPLING_420};
    static const char *const names[] = {"gray", "4:4:4", "4:2:2", "4:4:0", "4:2:0"};
    static const enum subsampling encoded[] = {SUBSAMPLING_420, SUBSAMPLING_422, SUBSAMPLING_444};
    static const uint32_t scales[] = {8, 4, 2, 1};
    static const unsigned intervals[] = {0, 1, 7};
    enum { sampling_count = 5, scale_count = 4, as_count = 3, quality_step = 13 };
    enum { similar_step = 7, least_ssim = SSIM_ONE / 10 * 8, more_ssim = SSIM_ONE / 300 };
    if (number >= sampling_count * scale_count * as_count)
        return false;
    enum subsampling sampling = samplings[number % sampling_count];
    struct encode_request request = {
        .format = format_of(check),
        .restart_interval = intervals[number % 3],
        .encoder = {.quality = 1 + (int)(number * quality_step % 100), .subsampling = sampling}};
    trial->encoder = (struct encoder_settings){.quality = 100 - (int)(number * quality_step % 100),
                                               .subsampling = encoded[number % 3]};
    if (number % similar_step == 0) {
        trial->encoder.quality_min = 1;
        trial->encoder.ssim = least_ssim + (int)number * more_ssim;
    }
    trial->decode = (struct decode_request){.eighths = scales[number / sampling_count % 4],
                                            .as = (enum decode_as)(number / 20)};
    if (sampling == SUBSAMPLING_GRAY)
        trial->decode.as = DECODE_LUMA;
    snprintf(trial->what, sizeof trial->what, "%s, quality %d, restart interval %u, %u/8",
             names[number % sampling_count], request.encoder.quality, request.restart_interval,
             trial->decode.eighths);
    return make_file(check, trial, sampling == SUBSAMPLING_GRAY ? 1 : 3, &request);
}

/* As make_jpeg, with every combination of channels and a level: of the own encoder, which the
 * device also has, and of zlib. */
static bool make_png(struct check *check, struct trial *trial, unsigned number)
{
    static const uint32_t channels[] = {1, 3, 4};
    static const int levels[] = {0, 1, 6, 9};
    enum { channel_count = 3, level_count = 4 };
    if (number >= channel_count * level_count)
        return false;
    uint32_t count = channels[number % channel_count];
    struct encode_request request = {.format = format_of(check),
                                     .encoder.compression = levels[number / channel_count]};
    trial->encoder.compression = 1;
    trial->decode = (struct decode_request){.eighths = DECODE_EIGHTHS, .as = DECODE_COLOUR};
    snprintf(trial->what, sizeof trial->what, "%u channels, compression %d", count,
             request.encoder.compression);
    return make_file(check, trial, count, &request);
}

/* As make_jpeg, with every combination of a texture and a quality, and smaller images of every
 * texture. Flat images, and those of the highest quality, have one segment. Then come files of
 * limited sizes. The last trial is so large that libwebp halves counters of its statistics. */
static bool make_webp(struct check *check, struct trial *trial, unsigned number)
{
    static const char *const names[] = {"mixed", "flat", "smooth", "noise", "grain"};
    static const int qualities[] = {0, 50, 75, 80, 98, 99, 100};
    static const uint32_t sides[][2] = {{115, 51}, {16, 16}, {33, 64}, {1, 1}, {97, 7}, {49, 35}};
    enum {
        textures = 4,
        with_qualities = textures * 7,
        combinations = with_qualities + textures * 4,
        limited = combinations + 3,
        least_bytes = 300,
        more_bytes = 350
    };
    struct image_info *info = &trial->info;
    bool is_small = number >= with_qualities;
    unsigned size = is_small ? 1 + (number - with_qualities) / textures : 0;
    if (number > limited)
        return false;
    (void)check;
    *info = (struct image_info){
        .width = sides[size][0], .height = sides[size][1], .channels = number % 3 == 2 ? 1 : 3};
    trial->decode = (struct decode_request){.eighths = DECODE_EIGHTHS, .as = DECODE_COLOUR};
    trial->encoder.effort = 2;
    trial->encoder.quality = qualities[is_small ? number * 3 % 7 : number / textures];
    trial->texture = (enum texture)(number % textures);
    if (number == limited) {
        *info = (struct image_info){.width = LARGE_ACROSS, .height = LARGE_DOWN, .channels = 1};
        trial->is_large = true;
        trial->encoder.quality = 75;
        trial->texture = GRAIN;
    } else if (number >= combinations) {
        trial->encoder.quality = 100;
        trial->encoder.max_bytes = least_bytes + more_bytes * (int)(number - combinations);
        trial->texture = MIXED;
    }
    snprintf(trial->what, sizeof trial->what, "%s, %u x %u, %u channels, quality %d, max_bytes %d",
             names[trial->texture], info->width, info->height, info->channels,
             trial->encoder.quality, trial->encoder.max_bytes);
    return true;
}

/* As make_webp, with every combination of a texture and a quality, and images of several
 * superblocks, of one, and of parts of one. Noise of the highest qualities would be declined. */
static bool make_avif(struct check *check, struct trial *trial, unsigned number)
{
    static const char *const names[] = {"mixed", "flat", "smooth", "grain"};
    static const enum texture textures[] = {MIXED, FLAT, SMOOTH, GRAIN};
    static const int qualities[] = {60, 1, 35, 85, 99};
    static const uint32_t sides[][2] = {{131, 70}, {64, 64}, {173, 17}, {1, 1}, {33, 130}};
    enum { texture_count = 4, quality_count = 5, size_count = 5 };
    unsigned texture = number % texture_count, rest = number / texture_count;
    unsigned size = (rest + rest / quality_count) % size_count;
    if (number >= texture_count * quality_count * 2)
        return false;
    (void)check;
    trial->info = (struct image_info){
        .width = sides[size][0], .height = sides[size][1], .channels = number % 7 == 2 ? 1 : 3};
    trial->decode = (struct decode_request){.eighths = DECODE_EIGHTHS, .as = DECODE_COLOUR};
    trial->encoder.effort = AVIF_OWN_EFFORT_MIN + AVIF_DEVICE_EFFORT;
    trial->encoder.quality = qualities[rest % quality_count];
    trial->texture = textures[texture];
    snprintf(trial->what, sizeof trial->what, "%s, %u x %u, %u channels, quality %d",
             names[texture], trial->info.width, trial->info.height, trial->info.channels,
             trial->encoder.quality);
    return true;
}

static bool (*const makers[DEVICE_CODECS])(struct check *check, struct trial *trial,
                                           unsigned number) = {[DEVICE_CODEC_JPEG] = make_jpeg,
                                                               [DEVICE_CODEC_PNG] = make_png,
                                                               [DEVICE_CODEC_WEBP] = make_webp,
                                                               [DEVICE_CODEC_AVIF] = make_avif};

/* ---- one trial ------------------------------------------------------------------------------ */

static void on_done(struct engine_task *task)
{
    task_wait_ended(container_of(task, struct trial, task)->wait);
}

/* false: the device does not take the file. Without a file, *file is none. */
static bool read_frame(struct check *check, const struct trial *trial, struct plan_file *file)
{
    const struct device_input input = {.bytes = trial->file,
                                       .length = trial->file_bytes,
                                       .file_bytes = trial->file_bytes,
                                       .info = &trial->info,
                                       .limits = &limits,
                                       .decode = &trial->decode};
    *file = (struct plan_file){.codec = DEVICE_CODEC_NONE};
    if (trial->file_bytes == 0)
        return true;
    *file = (struct plan_file){.codec = check->kind,
                               .bytes = trial->file_bytes,
                               .work_bytes =
                                   row_of(check)->read_frame(check->codec, &input, &check->frame),
                               .frame_bytes = row_of(check)->frame_bytes,
                               .prepared_bytes = row_of(check)->prepared_bytes};
    return file->work_bytes > 0;
}

static bool plan_trial(struct check *check, struct trial *trial)
{
    bool opaque = !format_of(check)->alpha;
    struct plan_source source = {.width = trial->info.width,
                                 .height = trial->info.height,
                                 .channels = codec_channels(&trial->info, trial->decode.as),
                                 .orientation = 1,
                                 .ycc = trial->decode.as == DECODE_YCC,
                                 .eighths = trial->decode.eighths};
    struct plan_target targets[2] = {
        {.opaque = opaque},
        {.opaque = opaque,
         .encoder = device_codec_encoder(check->kind, &trial->encoder, 0),
         .measure_encoder = row_of(check)->measure}};
    struct plan_limits sizes = {PIXELS_DEFAULT, SIDE_DEFAULT};
    return read_frame(check, trial, &source.file) &&
           plan_build(&trial->plan, &source, targets, 2, &sizes, check->error) == STATUS_OK;
}

static struct encode_request second_output(const struct check *check, const struct trial *trial)
{
    return (struct encode_request){.format = format_of(check), .encoder = trial->encoder};
}

static bool put_prelude(struct check *check, const struct trial *trial)
{
    const struct plan_variant *variant = &trial->plan.variants[1];
    const struct encode_request request = second_output(check, trial);
    uint8_t *to = trial->memory.input + variant->encoder.header_at;
    return row_of(check)->make_prelude(check->codec, &request, variant->width, variant->height,
                                       variant->channels, to, check->error) == STATUS_OK;
}

enum started { STARTED, LEFT_OUT, NO_ROOM, NOT_STARTED };

/* Puts the file, or the pixels, into the input buffer. */
static void put_source(const struct check *check, const struct trial *trial, uint8_t *input)
{
    struct image pixels = plan_input(&trial->plan, input);
    if (trial->file_bytes == 0) {
        draw(&pixels, trial->texture);
        return;
    }
    memcpy(input, trial->file, trial->file_bytes);
    memcpy(input + trial->plan.frame_at, &check->frame, trial->plan.source.file.frame_bytes);
}

/* NO_ROOM: the pools have no memory for it now. NOT_STARTED: the error says why. */
static enum started start(struct check *check, struct trial *trial, uint32_t device)
{
    const struct plan *plan = &trial->plan;
    if (trial->is_large && !engine_fits(check->engine, plan))
        return LEFT_OUT;
    enum engine_reserved reserved =
        engine_reserve_on(check->engine, device, plan, &trial->memory, check->error);
    trial->reserved = reserved == ENGINE_RESERVED;
    if (reserved == ENGINE_WAIT || check->error->status == STATUS_OVER_BUDGET) {
        *check->error = (struct error){0};
        return NO_ROOM;
    }
    if (!trial->reserved)
        return NOT_STARTED;
    uint8_t *input = trial->memory.input;
    memset(trial->memory.output, 0xA5, plan->output_bytes);
    memset(trial->memory.output + plan->report_at, 0, sizeof(struct plan_report));
    put_source(check, trial, input);
    plan_put_constants(plan, input);
    if (!put_prelude(check, trial))
        return NOT_STARTED;
    trial->task = (struct engine_task){.plan = plan, .memory = &trial->memory, .done = on_done};
    trial->wait = &check->wait;
    check->submitted++;
    engine_submit(check->engine, &trial->task);
    return STARTED;
}

/* ---- comparing ------------------------------------------------------------------------------ */

/* With its version, if the results depend on it: "libwebp 1.5.0". */
static const char *name_library(const struct check *check, char text[32])
{
    const struct device_codec_row *row = row_of(check);
    int version = row->version ? row->version() : 0;
    snprintf(text, 32, row->version ? "%s %d.%d.%d" : "%s", row->library, version >> 16,
             version >> 8 & 0xFF, version & 0xFF);
    return text;
}

static void turn_off(const struct check *check, bool *codec, const char *device, const char *what,
                     const char *how)
{
    const char *verb = codec == &check->decoder ? "decode" : "encode";
    char library[32];
    if (*codec)
        log_warning("%s: the %s %sr %s (%s): %s %ss on the CPU instead", device,
                    row_of(check)->name, verb, how, what, name_library(check, library), verb);
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

/* Compares the decoded pixels with those of the CPU, and turns off the decoder if they differ.
 * *same: whether they are the same. false: the CPU's codec has failed. */
static bool compare_pixels(struct check *check, const struct trial *trial, const char *device,
                           const struct image *pixels, bool *same)
{
    struct decode_request request = {.eighths = trial->decode.eighths,
                                     .as = trial->decode.as == DECODE_LUMA ? DECODE_LUMA
                                                                           : DECODE_COLOUR};
    bool declined = plan_report(&trial->plan, trial->memory.output)->declined != 0;
    struct image expected = *pixels;
    expected.pixels = check->expected;
    if (codec_decode(check->codec, trial->file, trial->file_bytes, &trial->info, &request, &limits,
                     &expected, check->error) != STATUS_OK)
        return false;
    *same = !declined && same_pixels(pixels, &expected);
    if (!*same)
        turn_off(check, &check->decoder, device, trial->what,
                 declined ? "declines a file that it should decode" : "differs");
    return true;
}

/* Finds the quality of the encoded file, if it is not given. false: the CPU's codec has failed. */
static bool find_quality(struct check *check, const struct image *pixels,
                         struct encode_request *encode, struct ssim_trial *found)
{
    const struct encoder_settings *settings = &encode->encoder;
    enum status status = STATUS_OK;
    found->quality = settings->quality;
    if (settings->ssim > 0)
        status = codec_find_ssim(check->codec, pixels, encode, check->encoded,
                                 sizeof check->encoded, found, check->error);
    else if (settings->max_bytes > 0)
        status = codec_find_quality(check->codec, pixels, encode, check->encoded,
                                    sizeof check->encoded, &found->quality, check->error);
    encode->encoder.quality = found->quality;
    return status == STATUS_OK;
}

/* As compare_pixels, for the encoded file. */
static bool compare_file(struct check *check, const struct trial *trial, const char *device,
                         const struct image *pixels)
{
    struct encode_request encode = second_output(check, trial);
    struct codec_sink sink = {check->encoded, sizeof check->encoded, .flush = test_image_flush};
    const struct plan_report *report = plan_report(&trial->plan, trial->memory.output);
    struct ssim_trial found = {0};
    size_t bytes;
    const uint8_t *file = plan_encoded(&trial->plan, 1, trial->memory.output, &bytes);
    if (!find_quality(check, pixels, &encode, &found) ||
        codec_encode(check->codec, pixels, &encode, &sink, check->error) != STATUS_OK)
        return false;
    if (bytes != sink.total || memcmp(file, check->encoded, bytes) != 0 ||
        (int)report->ssim[1] != found.ssim)
        turn_off(check, &check->encoder, device, trial->what,
                 bytes == 0 ? "declines an image that it should encode" : "differs");
    return true;
}

/* Compares both outputs. If the decoder differs, the encoder got other pixels. */
static bool compare(struct check *check, const struct trial *trial, const char *device)
{
    const struct image pixels =
        plan_result(&trial->plan, 0, trial->memory.input, trial->memory.output);
    bool same = true;
    if (trial->file_bytes > 0 && !compare_pixels(check, trial, device, &pixels, &same))
        return false;
    return !same || compare_file(check, trial, device, &pixels);
}

/* ---- all trials ----------------------------------------------------------------------------- */

/* Waits for all trials. false: one has not ended in time, so the device may still write to the
 * memory of the trials. */
static bool all_ended(struct check *check)
{
    return task_wait_for(&check->wait, check->submitted, TIMEOUT_S) ||
           error_refuse(check->error, "the codecs of a device did not answer within %d s",
                        TIMEOUT_S);
}

/* Starts up to TRIALS_AT_ONCE trials together, as far as there is memory, from *number on, which it
 * increases. Returns how many there are to end. *more: whether there are further trials. */
static unsigned start_some(struct check *check, uint32_t device, unsigned *number, bool *more)
{
    enum started started = STARTED;
    unsigned count = 0;
    memset(check->trials, 0, sizeof check->trials);
    while (started <= LEFT_OUT && count < TRIALS_AT_ONCE &&
           (*more = makers[check->kind](check, &check->trials[count], *number))) {
        struct trial *trial = &check->trials[count++];
        started = plan_trial(check, trial) ? start(check, trial, device) : NOT_STARTED;
        *number += started <= LEFT_OUT;
    }
    check->is_stuck = started == NOT_STARTED;
    check->has_no_room = started == NO_ROOM && count == 1;
    return count;
}

/* Runs some trials, from *number on. *more: whether there are further trials. */
static bool run_some(struct check *check, uint32_t device, unsigned *number, bool *more)
{
    unsigned count = start_some(check, device, number, more);
    bool ok = !check->is_stuck && check->error->status == STATUS_OK;
    if (!all_ended(check))
        return false;
    for (unsigned i = 0; i < count; i++) {
        struct trial *trial = &check->trials[i];
        if (ok && trial->task.error.status != STATUS_OK)
            ok = error_refuse(check->error, "%s", trial->task.error.text);
        if (trial->reserved) {
            ok = ok && compare(check, trial, engine_name(check->engine, device));
            engine_release(check->engine, &trial->memory);
        }
        plan_clear(&trial->plan);
        image_info_clear(&trial->info);
    }
    *more = *more && !check->has_no_room;
    return ok;
}

static void enable(const struct check *check)
{
    struct engine_codecs codecs = engine_codecs(check->engine);
    codecs.decodes[check->kind] = check->decoder && row_of(check)->read_frame;
    codecs.encodes[check->kind] = check->encoder;
    engine_set_codecs(check->engine, codecs);
}

bool codec_check_run(struct engine *engine, enum device_codec codec, struct error *error)
{
    struct check *check = calloc(1, sizeof *check);
    bool ok = check && (check->codec = codec_context_create()) != NULL;
    if (check)
        task_wait_open(&check->wait);
    if (!ok)
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the test of the devices' codecs");
    if (ok) {
        check->engine = engine;
        check->kind = codec;
        check->error = error;
        check->decoder = check->encoder = true;
    }
    for (uint32_t d = 0; ok && !check->has_no_room && d < engine_devices(engine); d++) {
        bool more = true;
        for (unsigned number = 0; ok && more;)
            ok = run_some(check, d, &number, &more);
    }
    if (ok && check->has_no_room)
        log_warning("pinned_bytes or device_bytes has no room for the test of the %s codec of "
                    "devices: %s runs on the CPU instead",
                    row_of(check)->name, row_of(check)->library);
    else if (ok)
        enable(check);
    if (!check)
        return ok;
    codec_context_destroy(check->codec);
    if (!task_wait_for(&check->wait, check->submitted, 0))
        return ok; /* without free(check): the device may still write to it */
    task_wait_close(&check->wait);
    free(check);
    return ok;
}
