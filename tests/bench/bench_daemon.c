/*
 * bench_daemon - the daemon end to end against the floor of its codecs, in one run.
 *
 *     bench_daemon --daemon PATH [--folder F] [--rounds 3] [--threads N] [--seconds 10]
 *                  [--engine cpu]
 *
 * The job is grayscale + sobel of every .jpg and .png below the folder (2 to 15 megapixels) to
 * JPEG of quality 85. The floor does that and nothing else, on as many threads as the daemon has
 * workers, with buffers that are reused: read the file, decode it straight with libjpeg-turbo or
 * libpng (a YCbCr JPEG to gray alone, as the daemon does), run the plan on the CPU engine of
 * gpu/, encode it straight with libjpeg-turbo into memory. It writes no file and knows no queue.
 * The daemon gets its jobs through a private Redis on a unix socket, reads and writes files (in
 * a temporary folder, without fsync) and posts results. Both take turns; the ratio is the median
 * over the pairs. Without a folder synthetic pictures are made: gradients, shapes and noise.
 */
#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <jpeglib.h>
#include <png.h>

#include "gpu/engine.h"
#include "tests/tools/text_file.h"
#include "tests/tools/world.h"

#define FILES_MAX 512
#define MP_MIN 2.0
#define MP_MAX 15.0
#define QUALITY 85
#define ROUNDS_MAX 32
#define JOBS_MAX 100000u

struct photo {
    char *name;                       /* below the folder */
    uint32_t width, height, channels; /* as decoded for this job */
    bool png;
    struct plan plan;
    size_t output_bytes;              /* of the floor's JPEG */
};

static struct bench {
    char folder[512];
    struct photo photos[FILES_MAX];
    size_t count;
    unsigned rounds, threads;
    double seconds;
    const char *engine_name;
    struct engine *engine;
    unsigned repeats;                 /* of the whole set a round */
    atomic_uint next;
    atomic_uint failed;
    struct world world;
} bench = {.rounds = 3, .seconds = 10, .engine_name = "cpu"};

struct turn {
    double wall_s, cpu_s;
};

/* ---- buffers of one thread ------------------------------------------------------------------- */

struct buffer {
    uint8_t *bytes;
    size_t capacity;
};

static uint8_t *buffer_need(struct buffer *buffer, size_t bytes)
{
    if (buffer->capacity < bytes) {
        free(buffer->bytes);
        buffer->capacity = (bytes + 4095) / 4096 * 4096;
        buffer->bytes = aligned_alloc(4096, buffer->capacity);
        if (!buffer->bytes)
            abort();
    }
    return buffer->bytes;
}

struct thread {
    pthread_t id;
    struct buffer file, input, output, scratch, encoded;
    struct jpeg_decompress_struct decoder;
    struct jpeg_compress_struct encoder;
    struct jpeg_error_mgr errors;
    size_t file_bytes;
};

static void thread_open(struct thread *thread)
{
    memset(thread, 0, sizeof *thread);
    thread->decoder.err = thread->encoder.err = jpeg_std_error(&thread->errors);
    jpeg_create_decompress(&thread->decoder);
    jpeg_create_compress(&thread->encoder);
}

static void thread_close(struct thread *thread)
{
    jpeg_destroy_decompress(&thread->decoder);
    jpeg_destroy_compress(&thread->encoder);
    free(thread->file.bytes);
    free(thread->input.bytes);
    free(thread->output.bytes);
    free(thread->scratch.bytes);
    free(thread->encoded.bytes);
}

/* ---- the floor's steps ----------------------------------------------------------------------- */

static bool read_file(struct thread *thread, const struct photo *photo)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", bench.folder, photo->name);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    setvbuf(file, NULL, _IONBF, 0);
    fseek(file, 0, SEEK_END);
    thread->file_bytes = (size_t)ftell(file);
    rewind(file);
    uint8_t *to = buffer_need(&thread->file, thread->file_bytes);
    bool ok = fread(to, 1, thread->file_bytes, file) == thread->file_bytes;
    fclose(file);
    return ok;
}

static void jpeg_head(struct thread *thread)
{
    jpeg_mem_src(&thread->decoder, thread->file.bytes, thread->file_bytes);
    jpeg_read_header(&thread->decoder, TRUE);
    bool gray = thread->decoder.jpeg_color_space == JCS_YCbCr ||
                thread->decoder.jpeg_color_space == JCS_GRAYSCALE;
    thread->decoder.out_color_space = gray ? JCS_GRAYSCALE : JCS_RGB;
}

static void jpeg_pixels(struct thread *thread, const struct image *to)
{
    jpeg_head(thread);
    jpeg_start_decompress(&thread->decoder);
    while (thread->decoder.output_scanline < thread->decoder.output_height) {
        JSAMPROW rows[8];
        unsigned at = thread->decoder.output_scanline;
        for (unsigned i = 0; i < 8; i++)
            rows[i] = to->pixels + (at + i < to->height ? at + i : to->height - 1) * to->stride;
        jpeg_read_scanlines(&thread->decoder, rows, 8);
    }
    jpeg_finish_decompress(&thread->decoder);
}

struct span {
    const uint8_t *bytes;
    size_t left;
};

static void png_take(png_structp png, png_bytep to, size_t count)
{
    struct span *span = png_get_io_ptr(png);
    if (count > span->left)
        png_error(png, "truncated");
    memcpy(to, span->bytes, count);
    span->bytes += count;
    span->left -= count;
}

static void png_quiet(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

/* With `to` NULL only the header is read, into photo. */
static bool png_pixels(struct thread *thread, struct photo *photo, const struct image *to)
{
    struct span span = {thread->file.bytes, thread->file_bytes};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, png_quiet);
    png_infop info = png_create_info_struct(png);
    if (setjmp(png_jmpbuf(png))) {
        png_destroy_read_struct(&png, &info, NULL);
        return false;
    }
    png_set_read_fn(png, &span, png_take);
    png_read_info(png, info);
    png_set_expand(png);
    png_set_scale_16(png);
    if (png_get_valid(png, info, PNG_INFO_tRNS) ||
        png_get_color_type(png, info) == PNG_COLOR_TYPE_GRAY_ALPHA)
        png_set_gray_to_rgb(png);
    int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (to) {
        for (int pass = 0; pass < passes; pass++)
            for (uint32_t y = 0; y < to->height; y++)
                png_read_row(png, to->pixels + y * to->stride, NULL);
        png_read_end(png, NULL);
    } else {
        photo->width = png_get_image_width(png, info);
        photo->height = png_get_image_height(png, info);
        photo->channels = png_get_channels(png, info);
    }
    png_destroy_read_struct(&png, &info, NULL);
    return true;
}

static size_t encode(struct thread *thread, const struct image *from)
{
    struct jpeg_compress_struct *jpeg = &thread->encoder;
    unsigned long size = thread->encoded.capacity;
    unsigned char *bytes = thread->encoded.bytes;
    jpeg_mem_dest(jpeg, &bytes, &size);
    jpeg->image_width = from->width;
    jpeg->image_height = from->height;
    jpeg->input_components = 1;
    jpeg->in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, QUALITY, TRUE);
    jpeg_start_compress(jpeg, TRUE);
    while (jpeg->next_scanline < jpeg->image_height) {
        JSAMPROW row = from->pixels + jpeg->next_scanline * from->stride;
        jpeg_write_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_compress(jpeg);
    if (bytes != thread->encoded.bytes) { /* it outgrew the buffer: never again */
        free(bytes);
        buffer_need(&thread->encoded, size * 2);
    }
    return size;
}

/* One picture, all the way. */
static bool floor_job(struct thread *thread, struct photo *photo)
{
    struct engine_memory memory = {
        .input = buffer_need(&thread->input, photo->plan.input_bytes),
        .output = buffer_need(&thread->output, photo->plan.output_bytes),
        .scratch = buffer_need(&thread->scratch, photo->plan.scratch_bytes + 1)};
    struct image input = plan_input(&photo->plan, memory.input);
    buffer_need(&thread->encoded, 1 << 22);
    if (!read_file(thread, photo))
        return false;
    if (!photo->png)
        jpeg_pixels(thread, &input);
    else if (!png_pixels(thread, photo, &input))
        return false;
    struct engine_task task = {.plan = &photo->plan, .memory = &memory};
    engine_run(bench.engine, &task);
    if (task.error.status != STATUS_OK)
        return false;
    struct image result = plan_result(&photo->plan, 0, memory.input, memory.output);
    size_t bytes = encode(thread, &result);
    photo->output_bytes = bytes;
    return true;
}

static void *floor_thread(void *argument)
{
    struct thread *thread = argument;
    unsigned total = (unsigned)bench.count * bench.repeats, at;
    while ((at = atomic_fetch_add(&bench.next, 1)) < total)
        if (!floor_job(thread, &bench.photos[at % bench.count]))
            atomic_fetch_add(&bench.failed, 1);
    return NULL;
}

static double own_cpu_s(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static struct turn floor_turn(struct thread *threads)
{
    struct turn turn = {process_now(), own_cpu_s()};
    atomic_store(&bench.next, 0);
    for (unsigned i = 0; i < bench.threads; i++)
        if (pthread_create(&threads[i].id, NULL, floor_thread, &threads[i]))
            abort();
    for (unsigned i = 0; i < bench.threads; i++)
        pthread_join(threads[i].id, NULL);
    return (struct turn){process_now() - turn.wall_s, own_cpu_s() - turn.cpu_s};
}

/* ---- the daemon ------------------------------------------------------------------------------ */

static char *job_text(const struct photo *photo, unsigned number)
{
    cJSON *job = cJSON_CreateObject(), *ops = cJSON_AddArrayToObject(job, "ops");
    char output[64];
    snprintf(output, sizeof output, "%u.jpg", number % 256);
    cJSON_AddStringToObject(job, "input", photo->name);
    cJSON_AddStringToObject(job, "output", output);
    cJSON_AddItemToArray(ops, cJSON_CreateString("grayscale"));
    cJSON_AddItemToArray(ops, cJSON_CreateString("sobel"));
    char *text = cJSON_PrintUnformatted(job);
    cJSON_Delete(job);
    return text;
}

static void take_result(const redisReply *reply)
{
    cJSON *result = cJSON_Parse(reply->str);
    if (strcmp(json_text(result, "status"), "done") != 0 &&
        atomic_fetch_add(&bench.failed, 1) < 3)
        printf("a job failed: %s\n", reply->str);
    cJSON_Delete(result);
}

static struct turn daemon_turn(struct process *daemon)
{
    redisContext *client = bench.world.client;
    unsigned total = (unsigned)bench.count * bench.repeats, got = 0;
    double cpu = process_cpu_s(daemon), start = process_now();
    for (unsigned i = 0; i < total; i++) {
        char *text = job_text(&bench.photos[i % bench.count], i);
        redisAppendCommand(client, "LPUSH gpuimgd:jobs %s", text);
        free(text);
    }
    for (unsigned i = 0; i < total; i++) {
        void *reply = NULL;
        if (redisGetReply(client, &reply) != REDIS_OK)
            abort();
        freeReplyObject(reply);
    }
    while (got < total) {
        redisReply *reply = redis_command(client, "BRPOP gpuimgd:results 30");
        if (reply->type != REDIS_REPLY_ARRAY) {
            printf("no result for 30 s\n");
            exit(1);
        }
        take_result(reply->element[1]);
        freeReplyObject(reply);
        process_mark(daemon); /* what it tells its service manager has to be read */
        got++;
    }
    return (struct turn){process_now() - start, process_cpu_s(daemon) - cpu};
}

/* ---- the set --------------------------------------------------------------------------------- */

static struct thread *finding; /* nftw passes no context */
static const cJSON *operations;

static bool read_head(struct photo *photo)
{
    if (!read_file(finding, photo))
        return false;
    if (photo->png)
        return png_pixels(finding, photo, NULL);
    jpeg_head(finding);
    photo->width = finding->decoder.image_width;
    photo->height = finding->decoder.image_height;
    photo->channels = finding->decoder.out_color_space == JCS_GRAYSCALE ? 1 : 3;
    bool usable = finding->decoder.num_components <= 3;
    jpeg_abort_decompress(&finding->decoder);
    return usable;
}

static int add_photo(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    const char *suffix = strrchr(path, '.');
    (void)st;
    (void)ftw;
    if (kind != FTW_F || !suffix || bench.count == FILES_MAX)
        return 0;
    bool png = !strcasecmp(suffix, ".png");
    if (!png && strcasecmp(suffix, ".jpg") && strcasecmp(suffix, ".jpeg"))
        return 0;
    struct photo *photo = &bench.photos[bench.count];
    struct plan_target target = {.ops = operations, .opaque = true};
    struct error error = {0};
    memset(photo, 0, sizeof *photo);
    photo->png = png;
    photo->name = strdup(path + strlen(bench.folder) + 1);
    bool usable = read_head(photo);
    double mp = (double)photo->width * photo->height / 1e6;
    if (!usable || mp < MP_MIN || mp > MP_MAX) {
        printf("skipped: %s (%s%.1f MP)\n", photo->name, usable ? "" : "cannot be read, ", mp);
        free(photo->name);
        return 0;
    }
    struct plan_source source = {.width = photo->width, .height = photo->height,
                                 .channels = photo->channels, .orientation = 1,
                                 .background = {255, 255, 255}};
    struct plan_limits limits = {100000000, 65500};
    if (plan_build(&photo->plan, &source, &target, 1, &limits, &error) != STATUS_OK) {
        printf("skipped: %s (%s)\n", photo->name, error.text);
        plan_clear(&photo->plan);
        free(photo->name);
        return 0;
    }
    bench.count++;
    return 0;
}

static void make_photos(void)
{
    static const uint32_t sides[][2] = {{2000, 1500}, {2560, 1600}, {3000, 2000}, {1920, 1280},
                                        {3264, 2448}, {4000, 3000}, {2400, 3200}, {3840, 2160}};
    printf("no folder given: synthetic pictures (gradients, shapes, noise)\n");
    for (uint32_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        char name[32];
        snprintf(name, sizeof name, "synthetic%u.jpg", i);
        world_put_picture(&bench.world, name,
                          picture_jpeg(&(struct picture_jpeg){.width = sides[i][0],
                                                              .height = sides[i][1],
                                                              .quality = 88, .seed = i + 1}));
    }
    snprintf(bench.folder, sizeof bench.folder, "%s", bench.world.in);
}

static double set_megapixels(void)
{
    double sum = 0;
    for (size_t i = 0; i < bench.count; i++)
        sum += (double)bench.photos[i].width * bench.photos[i].height / 1e6;
    return sum;
}

/* ---- the run --------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double d = *(const double *)a - *(const double *)b;
    return d < 0 ? -1 : d > 0;
}

static void show(const char *name, unsigned round, struct turn turn)
{
    double images = (double)bench.count * bench.repeats;
    printf("%-7s %u: %8.1f MP/s %8.2f images/s %8.4f CPU s/image %8.2f s wall\n", name, round + 1,
           set_megapixels() * bench.repeats / turn.wall_s, images / turn.wall_s,
           turn.cpu_s / images, turn.wall_s);
    fflush(stdout);
}

/* The same pixels at the same quality give the same number of bytes: both did the same work. */
static void compare_sizes(void)
{
    size_t equal = 0, compared = 0;
    for (size_t i = 0; i < bench.count && i < 256; i++) {
        char *path, name[32];
        size_t length = 0;
        snprintf(name, sizeof name, "%zu.jpg", i);
        path = world_out_path(&bench.world, name);
        unsigned char *bytes = text_file_bytes(path, &length);
        /* The last job with this number wrote the file. */
        unsigned total = (unsigned)bench.count * bench.repeats;
        unsigned last = (total - 1 - (unsigned)i) / 256 * 256 + (unsigned)i;
        compared++;
        equal += bytes && length == bench.photos[last % bench.count].output_bytes;
        free(bytes);
        free(path);
    }
    printf("outputs as long as the floor's: %zu of %zu\n", equal, compared);
}

static int run(struct process *daemon, struct thread *threads)
{
    double ratios[ROUNDS_MAX], costs[ROUNDS_MAX];
    bench.repeats = 1;
    struct turn floor = floor_turn(threads); /* warms caches and buffers, and sets the length */
    double repeats = bench.seconds / floor.wall_s + 1;
    bench.repeats = repeats * (double)bench.count < JOBS_MAX ? (unsigned)repeats
                                                             : JOBS_MAX / (unsigned)bench.count;
    printf("%zu files, %.1f MP, %u times a round, %u threads, engine %s\n", bench.count,
           set_megapixels(), bench.repeats, bench.threads, bench.engine_name);
    for (unsigned round = 0; round < bench.rounds; round++) {
        floor = floor_turn(threads);
        show("floor", round, floor);
        struct turn turn = daemon_turn(daemon);
        show("daemon", round, turn);
        ratios[round] = floor.wall_s / turn.wall_s;
        costs[round] = floor.cpu_s / turn.cpu_s;
    }
    compare_sizes();
    qsort(ratios, bench.rounds, sizeof *ratios, by_value);
    printf("daemon / floor: %.3f (median of %u pairs, %.3f to %.3f)\n", ratios[bench.rounds / 2],
           bench.rounds, ratios[0], ratios[bench.rounds - 1]);
    qsort(costs, bench.rounds, sizeof *costs, by_value);
    printf("in CPU time alone: %.3f (says more where other programs run beside)\n",
           costs[bench.rounds / 2]);
    if (bench.failed)
        printf("%u jobs failed\n", bench.failed);
    return bench.failed ? 1 : 0;
}

static int bench_all(void)
{
    struct thread finder, *threads = calloc(bench.threads, sizeof *threads);
    struct error error = {0};
    struct engine_config config = {.kind = "cpu", .devices = "all", .streams = 1,
                                   .pinned_bytes = 64 * MIB};
    char input[600], workers[64], engine[64];
    cJSON *ops = cJSON_Parse("[\"grayscale\",\"sobel\"]");
    int status = 1;
    operations = ops;
    finding = &finder;
    if (!threads || engine_open(&config, &bench.engine, &error) != STATUS_OK)
        abort();
    for (unsigned i = 0; i < bench.threads; i++)
        thread_open(&threads[i]);
    thread_open(&finder);
    if (!bench.folder[0])
        make_photos();
    nftw(bench.folder, add_photo, 16, FTW_PHYS);
    thread_close(&finder);
    snprintf(input, sizeof input, "--input_root=%s", bench.folder);
    snprintf(workers, sizeof workers, "--workers=%u", bench.threads);
    snprintf(engine, sizeof engine, "--engine=%s", bench.engine_name);
    if (bench.count == 0) {
        printf("no picture of %g to %g MP below %s\n", MP_MIN, MP_MAX, bench.folder);
    } else {
        struct process *daemon = world_start(&bench.world, 0, input, workers, engine,
                                             "--lease_s=30", "--renew_s=5", "--reap_s=10", NULL);
        if (world_ready(daemon)) {
            process_stop_listening(daemon);
            status = run(daemon, threads);
        }
        process_signal(daemon, SIGTERM);
        process_wait(daemon, 30);
    }
    for (unsigned i = 0; i < bench.threads; i++)
        thread_close(&threads[i]);
    for (size_t i = 0; i < bench.count; i++) {
        plan_clear(&bench.photos[i].plan);
        free(bench.photos[i].name);
    }
    free(threads);
    cJSON_Delete(ops);
    engine_close(bench.engine);
    return status;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"daemon", required_argument, NULL, 'd'},  {"folder", required_argument, NULL, 'f'},
        {"rounds", required_argument, NULL, 'r'},  {"threads", required_argument, NULL, 't'},
        {"seconds", required_argument, NULL, 's'}, {"engine", required_argument, NULL, 'e'},
        {NULL, 0, NULL, 0}};
    char folder[4096] = "";
    bench.threads = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'd': setenv("GPUIMGD", optarg, 1); break;
        case 'f':
            if (!realpath(optarg, folder) || strlen(folder) >= sizeof bench.folder) {
                fprintf(stderr, "bench_daemon: %s: %s\n", optarg, strerror(errno));
                return 64;
            }
            strcpy(bench.folder, folder);
            break;
        case 'r': bench.rounds = (unsigned)strtoul(optarg, NULL, 10); break;
        case 't': bench.threads = (unsigned)strtoul(optarg, NULL, 10); break;
        case 's': bench.seconds = strtod(optarg, NULL); break;
        case 'e': bench.engine_name = optarg; break;
        default: return 64;
        }
    }
    if (!getenv("GPUIMGD") || optind != argc || bench.rounds < 1 || bench.rounds > ROUNDS_MAX ||
        bench.threads < 1) {
        fprintf(stderr, "usage: bench_daemon --daemon PATH [--folder F] [--rounds N] "
                        "[--threads N] [--seconds S] [--engine cpu|cuda|auto]\n");
        return 64;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    world_open(&bench.world, redis_server_start("--appendonly", "no", NULL));
    int status = bench_all();
    world_close(&bench.world);
    return status;
}
