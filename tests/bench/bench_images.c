/*
 * bench_images - how many small JPEGs an engine takes in a second, as the pipeline feeds it.
 *
 *     bench_images [--work edges|tensor|thumbnail] [--folder F] [--width 256] [--height 256]
 *                  [--bytes 10000] [--threads N] [--window 1024] [--streams N]
 *                  [--seconds 3]
 *
 * A thread pool (daemon/workers) reads the header of a file in memory, plans, reserves memory, puts
 * file and headers there and submits the task to the engine. When the device has ended it, a worker
 * copies the result out, compares it with the first one of the same file, and starts the next image
 * in its place. `window` images are in flight. There are no jobs, no Redis and no files.
 *
 * The files are drawn, with at most `bytes` bytes, or the JPEGs of a folder. The work is edges
 * (grayscale and sobel, to a JPEG), a tensor of 224 x 224 (f16), or a thumbnail of that size (a
 * JPEG). For each step the table has the mean time that a worker takes for an image; waits for
 * locks are included. The last lines are the CPU time of the device's thread and its batches.
 *
 * In a build without CUDA, the device computes nothing (tests/cuda/idle_runtime.c), so all results
 * are wrong: only the times of the host's part count.
 */
#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/clock.h"
#include "daemon/device_codecs.h"
#include "daemon/workers/workers.h"
#include "gpu/engine/engine.h"
#include "gpu/plan/op_list.h"
#include "tests/fixtures/arguments.h"
#include "tests/fixtures/drawing.h"
#include "tests/fixtures/picture.h"
#include "tests/fixtures/text_file.h"

#define FILES_MAX  64
#define WINDOW_MAX 16384
#define THREADS_MAX 256
#define COMPARED    16
#define WARM_UP_S  1.0

struct work {
    const char *name, *ops;
    bool luma, tensor;
};

static const struct work works[] = {
    {"edges", "[\"grayscale\",\"sobel\"]", true, false},
    {"tensor", "[{\"op\":\"resize\",\"width\":224,\"height\":224,\"fit\":\"cover\"}]", false, true},
    {"thumbnail", "[{\"op\":\"resize\",\"width\":224,\"height\":224,\"fit\":\"cover\"}]", false,
     false},
};

enum step { PROBE, FRAME, PLAN, RESERVE, COPY, HEADERS, SUBMIT, DEVICE, RESULT, RELEASE, STEPS };
static const char *const step_names[STEPS] = {"read the header",  "read the frame",
                                              "plan",             "reserve memory",
                                              "copy the file",    "put frame and headers",
                                              "submit",           "wait for the device",
                                              "take the result",  "release memory"};

struct source {
    struct picture_file file;
    uint8_t *result; /* of the first image */
    size_t result_bytes;
    pthread_mutex_t lock;
};

/* An image in flight. */
struct place {
    struct worker_task worker_task;
    struct engine_task task;
    struct engine_memory memory;
    struct plan plan;
    struct image_info info;
    struct source *source;
    bool in_flight;
    uint64_t submitted_ns;
    uint32_t next;
};

/* Of a worker. */
struct tally {
    _Alignas(64) uint64_t at_ns; /* when the last step ended */
    uint64_t took_ns[STEPS];
    uint64_t images;
};

static struct bench {
    const char *work_name, *folder;
    const struct work *work;
    unsigned width, height, bytes, threads, window, streams;
    double seconds;
    struct engine *engine;
    struct workers *workers;
    struct op_item *ops;
    struct source sources[FILES_MAX];
    uint32_t source_count;
    struct place *places;
    struct list ended; /* only the device's thread uses it */
    struct tally tallies[THREADS_MAX];
    atomic_bool stopping;
    atomic_uint running, wrong, declined, refused;
} bench = {.work_name = "edges", .width = 256, .height = 256,
           .bytes = 10000, .window = 1024, .seconds = 3};

static const struct codec_limits limits = {.pixels_max = PIXELS_DEFAULT,
                                           .side_max = SIDE_DEFAULT,
                                           .jpeg_scans_max = JPEG_SCANS_DEFAULT};
static const struct plan_limits plan_limits = {PIXELS_DEFAULT, SIDE_DEFAULT};

static void check(bool good, const char *what, const struct error *error)
{
    if (good)
        return;
    fprintf(stderr, "bench_images: %s%s%s\n", what, error ? ": " : "", error ? error->text : "");
    exit(1);
}

/* ---- files ----------------------------------------------------------------------------------- */

struct memory_sink {
    struct codec_sink sink;
    size_t used;
};

static enum status keep_bytes(struct codec_sink *sink, size_t used, struct error *error)
{
    (void)error;
    container_of(sink, struct memory_sink, sink)->used = used;
    return STATUS_OK;
}

/* Encodes the drawing with the highest quality that gives at most bench.bytes. */
static struct picture_file encode_drawing(const struct image *image)
{
    struct codec_context *context = codec_context_create();
    struct encode_request request = {.format = &formats[FORMAT_jpeg], .encoder = encoder_defaults};
    size_t room = (size_t)image->width * image->height * 4 + 65536;
    struct memory_sink sink = {{.buffer = malloc(room), .capacity = room, .flush = keep_bytes}, 0};
    struct error error = {0};
    int low = 1, high = 100;
    while (low < high) {
        int middle = request.encoder.quality = (low + high + 1) / 2;
        check(codec_encode(context, image, &request, &sink.sink, &error) == STATUS_OK, "encode",
              &error);
        low = sink.used <= bench.bytes ? middle : low;
        high = sink.used <= bench.bytes ? high : middle - 1;
    }
    request.encoder.quality = low;
    check(codec_encode(context, image, &request, &sink.sink, &error) == STATUS_OK, "encode",
          &error);
    codec_context_destroy(context);
    return (struct picture_file){sink.sink.buffer, sink.used};
}

static void draw_files(void)
{
    for (uint32_t i = 0; i < FILES_MAX; i++) {
        struct image image = drawing_make(DRAWING_PHOTOGRAPH, bench.width, bench.height, 3, i + 1);
        bench.sources[i].file = encode_drawing(&image);
        free(image.pixels);
    }
    bench.source_count = FILES_MAX;
}

static void read_folder(void)
{
    DIR *folder = opendir(bench.folder);
    check(folder, "the folder cannot be read", NULL);
    for (struct dirent *entry; (entry = readdir(folder)) && bench.source_count < FILES_MAX;)
        if (strstr(entry->d_name, ".jpg"))
            bench.sources[bench.source_count++].file =
                picture_load(text_of("%s/%s", bench.folder, entry->d_name));
    closedir(folder);
    check(bench.source_count > 0, "the folder has no .jpg", NULL);
}

/* ---- the steps of an image ------------------------------------------------------------------- */

static void end_step(const struct worker_tools *tools, enum step step)
{
    struct tally *tally = &bench.tallies[tools->number];
    uint64_t now_ns = clock_now_ns();
    tally->took_ns[step] += now_ns - tally->at_ns;
    tally->at_ns = now_ns;
}

static struct device_input device_input(const struct place *place,
                                        const struct decode_request *decode)
{
    const struct picture_file *file = &place->source->file;
    return (struct device_input){file->bytes, file->length, file->length, &place->info, &limits,
                                 decode};
}

static void plan_image(struct place *place, const struct decode_request *decode, size_t work_bytes)
{
    struct error error = {0};
    struct plan_source source = {.width = place->info.width, .height = place->info.height,
                                 .orientation = 1, .eighths = decode->eighths,
                                 .channels = codec_channels(&place->info, decode->as),
                                 .file = {DEVICE_CODEC_JPEG, place->source->file.length, work_bytes,
                                          sizeof(struct jpeg_frame)}};
    static const struct normalization normalize = {
        true, 3, 3, {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
    struct plan_target target = {.ops = bench.ops, .opaque = true};
    if (bench.work->tensor)
        target.tensor = (struct plan_tensor){true, TENSOR_F16, TENSOR_CHW, true, &normalize};
    else
        target.encoder = device_codec_encoder(DEVICE_CODEC_JPEG, &encoder_defaults, 0);
    target.measure_encoder = device_codecs[DEVICE_CODEC_JPEG].measure;
    check(plan_build(&place->plan, &source, &target, 1, &plan_limits, &error) == STATUS_OK, "plan",
          &error);
}

static struct decode_request choose_decode(const struct place *place)
{
    struct plan_source source = {.width = place->info.width, .height = place->info.height,
                                 .orientation = 1};
    return (struct decode_request){bench.work->luma ? DECODE_LUMA : DECODE_COLOUR,
                                   plan_eighths(&source, bench.ops)};
}

static void put_headers(struct place *place, struct worker_tools *tools,
                        const struct decode_request *decode)
{
    const struct plan *plan = &place->plan;
    const struct plan_variant *variant = &plan->variants[0];
    const struct device_codec_row *jpeg = &device_codecs[DEVICE_CODEC_JPEG];
    struct device_input input = device_input(place, decode);
    struct error error = {0};
    input.bytes = place->memory.input;
    check(jpeg->read_frame(tools->codec, &input, place->memory.input + plan->frame_at) > 0,
          "the file is not for devices", NULL);
    plan_put_constants(plan, place->memory.input);
    memset(place->memory.output + plan->report_at, 0, sizeof(struct plan_report));
    if (bench.work->tensor)
        return;
    struct encode_request request = {.format = &formats[FORMAT_jpeg], .encoder = encoder_defaults};
    check(jpeg->make_prelude(tools->codec, &request, variant->width, variant->height,
                             variant->channels, place->memory.input + variant->encoder.header_at,
                             &error) == STATUS_OK, "header", &error);
}

static void on_done(struct engine_task *task);

/* The worker must not use the place after it has been submitted. */
static void start_image(struct place *place, struct worker_tools *tools)
{
    const struct device_codec_row *jpeg = &device_codecs[DEVICE_CODEC_JPEG];
    struct error error = {0};
    place->source = &bench.sources[place->next++ % bench.source_count];
    const struct picture_file *file = &place->source->file;
    bench.tallies[tools->number].at_ns = clock_now_ns();
    check(codec_probe(tools->codec, file->bytes, file->length, &limits, &place->info, &error) ==
              STATUS_OK, "probe", &error);
    end_step(tools, PROBE);
    struct decode_request decode = choose_decode(place);
    struct device_input input = device_input(place, &decode);
    size_t work_bytes = jpeg->read_frame(tools->codec, &input, tools->frame);
    check(work_bytes > 0, "the file is not for devices", NULL);
    end_step(tools, FRAME);
    plan_image(place, &decode, work_bytes);
    end_step(tools, PLAN);
    enum engine_reserved reserved;
    while ((reserved = engine_reserve(bench.engine, &place->plan, &place->memory, &error)) ==
           ENGINE_WAIT)
        atomic_fetch_add(&bench.refused, 1);
    check(reserved == ENGINE_RESERVED, "reserve", &error);
    end_step(tools, RESERVE);
    memcpy(place->memory.input, file->bytes, file->length);
    end_step(tools, COPY);
    put_headers(place, tools, &decode);
    end_step(tools, HEADERS);
    place->task = (struct engine_task){.plan = &place->plan, .memory = &place->memory,
                                       .rank = place->worker_task.rank, .done = on_done};
    place->in_flight = true;
    workers_hand_on(tools, &place->worker_task);
    bench.tallies[tools->number].images++;
    place->submitted_ns = clock_now_ns();
    engine_submit(bench.engine, &place->task);
    end_step(tools, SUBMIT);
}

static const uint8_t *result_of(const struct place *place, size_t *bytes)
{
    const struct plan *plan = &place->plan;
    if (!bench.work->tensor)
        return plan_encoded(plan, 0, place->memory.output, bytes);
    *bytes = plan->variants[0].tensor_bytes;
    return plan_tensor(plan, 0, place->memory.output);
}

/* Copies the result to the worker's buffer. Compares one of COMPARED with the first result of the
 * same file. */
static void take_result(struct place *place, struct worker_tools *tools)
{
    struct source *source = place->source;
    size_t bytes;
    const uint8_t *result = result_of(place, &bytes);
    check(place->task.error.status == STATUS_OK, "the device", &place->task.error);
    if (plan_report(&place->plan, place->memory.output)->declined != 0)
        atomic_fetch_add(&bench.declined, 1);
    memcpy(tools->sink, result, bytes);
    if (bench.tallies[tools->number].images % COMPARED != 0)
        return;
    pthread_mutex_lock(&source->lock);
    if (!source->result) {
        source->result_bytes = bytes;
        source->result = memcpy(malloc(bytes + 1), result, bytes);
    }
    pthread_mutex_unlock(&source->lock);
    if (bytes == 0 || bytes != source->result_bytes ||
        memcmp(tools->sink, source->result, bytes) != 0)
        atomic_fetch_add(&bench.wrong, 1);
}

static void end_image(struct place *place, struct worker_tools *tools)
{
    bench.tallies[tools->number].at_ns = place->submitted_ns;
    end_step(tools, DEVICE);
    take_result(place, tools);
    end_step(tools, RESULT);
    engine_release(bench.engine, &place->memory);
    plan_clear(&place->plan);
    image_info_clear(&place->info);
    end_step(tools, RELEASE);
    place->in_flight = false;
}

static void on_run(struct worker_task *worker_task, struct worker_tools *tools)
{
    struct place *place = container_of(worker_task, struct place, worker_task);
    if (place->in_flight)
        end_image(place, tools);
    if (atomic_load(&bench.stopping))
        atomic_fetch_sub(&bench.running, 1);
    else
        start_image(place, tools);
}

static void on_collected(struct worker_task *worker_task)
{
    (void)worker_task;
}

static void on_done(struct engine_task *task)
{
    struct place *place = container_of(task, struct place, task);
    list_push(&bench.ended, &place->worker_task.node);
    if (!task->more)
        workers_submit_all(bench.workers, &bench.ended);
}

/* ---- figures --------------------------------------------------------------------------------- */

struct figures {
    uint64_t now_ns, took_ns[STEPS], images;
    double device_s, process_s; /* CPU time */
    struct engine_activity activity;
};

/* CPU seconds of the threads with this name. */
static double thread_cpu_s(const char *name)
{
    double seconds = 0;
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        unsigned long user = 0, system = 0;
        if (entry->d_name[0] == '.')
            continue;
        char *text = text_file_read(text_of("/proc/self/task/%s/stat", entry->d_name));
        const char *after = strrchr(text, ')'), *first = strchr(text, '(');
        if (first && after && strncmp(first + 1, name, strlen(name)) == 0 &&
            sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                   &system) == 2)
            seconds += (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
        free(text);
    }
    closedir(folder);
    return seconds;
}

/* The tallies change meanwhile: a few images more or less do not matter. */
static struct figures take_figures(void)
{
    struct figures figures = {.now_ns = clock_now_ns(), .device_s = thread_cpu_s("device")};
    struct timespec cpu;
    for (unsigned i = 0; i < bench.threads; i++) {
        for (int step = 0; step < STEPS; step++)
            figures.took_ns[step] += bench.tallies[i].took_ns[step];
        figures.images += bench.tallies[i].images;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    figures.process_s = (double)cpu.tv_sec + (double)cpu.tv_nsec * 1e-9;
    for (uint32_t d = 0; d < engine_devices(bench.engine); d++)
        engine_take_activity(bench.engine, d, &figures.activity);
    return figures;
}

static void print_figures(const struct figures *from, const struct figures *to)
{
    double seconds = (double)(to->now_ns - from->now_ns) / NS_PER_S, sum = 0;
    double images = (double)(to->images - from->images);
    const struct engine_activity *activity = &to->activity;
    printf("%s, window %u, %u threads, %zu bytes: %.0f images/s; %.1f us of CPU per image\n",
           bench.work->name, bench.window, bench.threads, bench.sources[0].file.length,
           images / seconds, (to->process_s - from->process_s) / images * 1e6);
    for (int step = 0; step < STEPS; step++) {
        double us = (double)(to->took_ns[step] - from->took_ns[step]) / images * 1e-3;
        sum += step == DEVICE ? 0 : us;
        printf("  %-22s %8.2f us\n", step_names[step], us);
    }
    printf("  all but the wait       %8.2f us\n", sum);
    if (activity->turns == 0)
        return;
    printf("  device's thread        %8.2f us, %.0f%% busy; %.1f images in a batch, %.1f us per "
           "batch\n", (to->device_s - from->device_s) / images * 1e6,
           (to->device_s - from->device_s) / seconds * 100,
           (double)activity->tasks / (double)activity->turns,
           (to->device_s - from->device_s) / (double)activity->turns * 1e6);
    printf("  device: any %.0f%%, kernels %.0f%%, uploads %.0f%%, downloads %.0f%%\n",
           activity->any_s / seconds * 100, activity->kernel_s / seconds * 100,
           activity->h2d_s / seconds * 100, activity->d2h_s / seconds * 100);
}

/* ---- main ------------------------------------------------------------------------------------ */

static void open_engine(void)
{
    struct engine_config config = {
        .kind = "cuda", .devices = "0", .streams = bench.streams, .pinned_bytes = 8 * GIB};
    struct error error = {0};
    check(engine_open(&config, &bench.engine, &error) == STATUS_OK, "the engine", &error);
    check(engine_prepare_codecs(bench.engine), "no codecs", NULL);
    printf("%s\n", engine_description(bench.engine));
    list_init(&bench.ended);
}

static void run(uv_loop_t *loop)
{
    bench.workers = workers_create(loop, bench.threads);
    bench.places = calloc(bench.window, sizeof *bench.places);
    check(bench.workers && bench.places, "no memory", NULL);
    atomic_store(&bench.running, bench.window);
    for (unsigned i = 0; i < bench.window; i++) {
        struct place *place = &bench.places[i];
        place->next = i;
        place->worker_task = (struct worker_task){.priority = 2, .rank = {1, 4}, .run = on_run,
                                                  .done = on_collected};
        workers_submit(bench.workers, &place->worker_task);
    }
    usleep((useconds_t)(WARM_UP_S * 1e6));
    struct figures from = take_figures();
    usleep((useconds_t)(bench.seconds * 1e6));
    struct figures to = take_figures();
    atomic_store(&bench.stopping, true);
    while (atomic_load(&bench.running) > 0)
        usleep(1000);
    print_figures(&from, &to);
    workers_stop(bench.workers);
    uv_run(loop, UV_RUN_NOWAIT);
    workers_destroy(bench.workers);
    free(bench.places);
}

static void close_all(void)
{
    engine_close(bench.engine);
    op_list_free(bench.ops);
    for (uint32_t i = 0; i < bench.source_count; i++) {
        picture_free(&bench.sources[i].file);
        free(bench.sources[i].result);
    }
}

static bool take_arguments(int argc, char **argv)
{
    bench.threads = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    const struct argument options[] = {
        {"work", .text = &bench.work_name},     {"folder", .text = &bench.folder},
        {"width", .number = &bench.width},      {"height", .number = &bench.height},
        {"bytes", .number = &bench.bytes},      {"threads", .number = &bench.threads},
        {"window", .number = &bench.window},    {"streams", .number = &bench.streams},
        {"seconds", .seconds = &bench.seconds}, {.name = NULL}};
    if (arguments_read(argc, argv, options) != argc)
        return false;
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        if (strcmp(works[i].name, bench.work_name) == 0)
            bench.work = &works[i];
    return bench.work && bench.window > 0 && bench.window <= WINDOW_MAX && bench.threads > 0 &&
           bench.threads <= THREADS_MAX && bench.width > 0 && bench.height > 0 && bench.seconds > 0;
}

int main(int argc, char **argv)
{
    struct error error = {0};
    uv_loop_t loop;
    if (!take_arguments(argc, argv)) {
        fprintf(stderr,
                "usage: bench_images [--work edges|tensor|thumbnail] [--folder F] "
                "[--width W] [--height H] [--bytes N] [--threads N] [--window 1-%d] "
                "[--streams N] [--seconds S]\n",
                WINDOW_MAX);
        return 64;
    }
    cJSON *ops = cJSON_Parse(bench.work->ops);
    check(op_list_parse(&bench.ops, ops, -1, &error) == STATUS_OK, "operations", &error);
    cJSON_Delete(ops);
    if (bench.folder)
        read_folder();
    else
        draw_files();
    for (uint32_t i = 0; i < FILES_MAX; i++)
        pthread_mutex_init(&bench.sources[i].lock, NULL);
    open_engine();
    check(uv_loop_init(&loop) == 0, "no loop", NULL);
    run(&loop);
    uv_loop_close(&loop);
    printf("  %u wrong, %u declined, %u waits for memory\n", atomic_load(&bench.wrong),
           atomic_load(&bench.declined), atomic_load(&bench.refused));
    close_all();
    return atomic_load(&bench.wrong) + atomic_load(&bench.declined) > 0;
}
