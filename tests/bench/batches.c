/* batches.c - batches of images in device memory, their encoding, and its times. */
#include "tests/bench/batches.h"

#include <cuda_runtime.h>
#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "tests/fixtures/arguments.h"
#include "tests/fixtures/drawing.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/process.h"

#define PHOTOGRAPHS_MAX 64
#define IMAGES_MAX      64 /* different ones of a size */
#define BATCH_MAX       1024
#define STREAMS_MAX     16
#define ROUNDS_MAX      31

static struct {
    const char *folder;
    unsigned rounds, quality;
    unsigned batch, streams, width, height; /* batch > 0: only this row */
    bool kernels;
    const struct batch_encoder *encoder;
    struct raster photographs[PHOTOGRAPHS_MAX];
    size_t photograph_count;
} bench = {.rounds = 5, .streams = 1};

static void check(int result)
{
    if (result == 0)
        return;
    fprintf(stderr, "CUDA: %s\n", cudaGetErrorString((cudaError_t)result));
    exit(1);
}

/* ---- images and the reference's files ------------------------------------------------------- */

static struct {
    struct image images[IMAGES_MAX];
    struct picture_file files[IMAGES_MAX];
    uint32_t width, height;
    size_t count, tasks;
    atomic_size_t next;
} set;

static int add_photograph(const char *path, const struct stat *stat, int type, struct FTW *at)
{
    const char *suffix = strrchr(path, '.');
    (void)stat, (void)at;
    if (type != FTW_F || !suffix || bench.photograph_count == PHOTOGRAPHS_MAX ||
        (strcasecmp(suffix, ".jpg") != 0 && strcasecmp(suffix, ".jpeg") != 0))
        return 0;
    struct raster raster = raster_load(path, RASTER_COLOUR);
    if (raster.pixels && raster.channels == 3)
        bench.photographs[bench.photograph_count++] = raster;
    else
        raster_clear(&raster);
    return 0;
}

static void *make_images(void *unused)
{
    (void)unused;
    for (size_t i; (i = atomic_fetch_add(&set.next, 1)) < set.count;)
        set.images[i] =
            bench.photograph_count == 0
                ? drawing_make(DRAWING_PHOTOGRAPH, set.width, set.height, 3, (uint32_t)i)
                : drawing_resize(&bench.photographs[i % bench.photograph_count], set.width,
                                 set.height, 3, (uint32_t)i + 1);
    return NULL;
}

/* The first files are kept. */
static void *make_files(void *unused)
{
    (void)unused;
    for (size_t i; (i = atomic_fetch_add(&set.next, 1)) < set.tasks;) {
        struct picture_file file =
            bench.encoder->encode(&set.images[i % set.count], (int)bench.quality);
        if (i < set.count)
            set.files[i] = file;
        else
            picture_free(&file);
    }
    return NULL;
}

static long cores(void)
{
    return sysconf(_SC_NPROCESSORS_ONLN);
}

/* Returns the seconds that it took. */
static double on_all_cores(void *(*run)(void *))
{
    pthread_t threads[256];
    long count = cores() < 256 ? cores() : 256;
    double start = process_now();
    atomic_store(&set.next, 0);
    for (long i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, run, NULL) != 0)
            abort();
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return process_now() - start;
}

static double gigapixels(size_t images)
{
    return 1e-9 * set.width * set.height * (double)images;
}

static void open_set(uint32_t width, uint32_t height)
{
    /* About as many pixels of each size. */
    size_t most = 64 * (size_t)640 * 480 / (width * (size_t)height) + 8;
    set.width = width;
    set.height = height;
    set.count = most < IMAGES_MAX ? most : IMAGES_MAX;
    set.tasks = set.count > 2 * (size_t)cores() ? set.count : 2 * (size_t)cores();
    on_all_cores(make_images);
    double seconds = on_all_cores(make_files);
    size_t bytes = 0, most_bytes = 0;
    for (size_t i = 0; i < set.count; i++) {
        size_t length = set.files[i].length;
        bytes += length;
        most_bytes = most_bytes < length ? length : most_bytes;
    }
    printf("%u x %u: %zu different images; a file has %zu bytes, at most %zu, %.2f bits per pixel\n"
           "  %s, %3ld cores %27.2f GP/s %9.0f images/s\n",
           width, height, set.count, bytes / set.count, most_bytes,
           (double)bytes * 8e-9 / gigapixels(set.count), bench.encoder->reference, cores(),
           gigapixels(set.tasks) / seconds, (double)set.tasks / seconds);
}

static void close_set(void)
{
    for (size_t i = 0; i < set.count; i++) {
        free(set.images[i].pixels);
        picture_free(&set.files[i]);
    }
    set.count = 0;
}

/* ---- batches in device memory --------------------------------------------------------------- */

struct flow {
    cudaStream_t stream;
    cudaEvent_t from, to;
    uint32_t count;
    size_t capacity, work_bytes;
    uint8_t *memory, *pixels, *work, *files, *header, *description;
    uint32_t *lengths;
    union batch_state batch;
};

static uint8_t *take(struct flow *flow, size_t *used, size_t bytes)
{
    uint8_t *at = flow->memory ? flow->memory + *used : NULL;
    *used += buffer_align(bytes);
    return at;
}

static size_t pixel_bytes(void)
{
    return buffer_align(image_stride(set.width, 3) * set.height);
}

/* Returns the bytes of device memory. With flow->memory NULL it only counts. */
static size_t lay_out(struct flow *flow, size_t description_bytes)
{
    size_t used = 0;
    flow->pixels = take(flow, &used, flow->count * pixel_bytes());
    flow->work = take(flow, &used, flow->count * flow->work_bytes);
    flow->files = take(flow, &used, flow->count * buffer_align(flow->capacity));
    flow->header = take(flow, &used, bench.encoder->header_bytes);
    flow->lengths = (uint32_t *)take(flow, &used, flow->count * sizeof(uint32_t));
    flow->description = take(flow, &used, description_bytes);
    return used;
}

static uint8_t *file_at(const struct flow *flow, uint32_t i)
{
    return flow->files + i * buffer_align(flow->capacity);
}

/* Rows without the padding that drawings may have. */
static void upload_pixels(struct flow *flow, uint32_t i)
{
    const struct image *image = &set.images[i % set.count];
    size_t stride = image_stride(set.width, 3);
    check(cudaMemcpy2D(flow->pixels + i * pixel_bytes(), stride, image->pixels, image->stride,
                       stride, set.height, cudaMemcpyHostToDevice));
}

static size_t describe(struct flow *flow, void *description, size_t room)
{
    static struct batch_image images[BATCH_MAX];
    for (uint32_t i = 0; i < flow->count; i++)
        images[i] = (struct batch_image){.source = {flow->pixels + i * pixel_bytes(), set.width,
                                                    set.height, 3, image_stride(set.width, 3)},
                                         .header = flow->header,
                                         .work = flow->work + i * flow->work_bytes,
                                         .file = file_at(flow, i),
                                         .capacity = flow->capacity,
                                         .file_bytes = flow->lengths + i};
    return bench.encoder->describe(images, flow->count, (int)bench.quality, description, room,
                                   &flow->batch);
}

static void launch(struct flow *flow)
{
    check(bench.encoder->launch(&flow->batch, flow->description, flow->stream));
}

static void open_flow(struct flow *flow, uint32_t count)
{
    *flow =
        (struct flow){.count = count,
                      .capacity = bench.encoder->capacity(set.width, set.height),
                      .work_bytes = buffer_align(bench.encoder->work_bytes(set.width, set.height))};
    check(cudaStreamCreateWithFlags(&flow->stream, cudaStreamNonBlocking));
    check(cudaEventCreate(&flow->from));
    check(cudaEventCreate(&flow->to));
    size_t bytes = describe(flow, NULL, 0);
    if (bytes == SIZE_MAX) {
        fprintf(stderr, "the encoder refuses a batch of %u images\n", count);
        exit(1);
    }
    check(cudaMalloc((void **)&flow->memory, lay_out(flow, bytes)));
    lay_out(flow, bytes);
    for (uint32_t i = 0; i < count; i++)
        upload_pixels(flow, i);
    if (bench.encoder->header)
        check(cudaMemcpy(flow->header, bench.encoder->header, bench.encoder->header_bytes,
                         cudaMemcpyHostToDevice));
    uint8_t *description = aligned_alloc(BUFFER_ALIGN, buffer_align(bytes));
    describe(flow, description, bytes);
    check(cudaMemcpy(flow->description, description, bytes, cudaMemcpyHostToDevice));
    free(description);
    launch(flow);
    check(cudaStreamSynchronize(flow->stream));
}

static void compare_files(const struct flow *flow)
{
    static uint32_t lengths[BATCH_MAX];
    uint8_t *got = malloc(flow->capacity);
    check(
        cudaMemcpy(lengths, flow->lengths, flow->count * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    for (uint32_t i = 0; i < flow->count; i++) {
        const struct picture_file *want = &set.files[i % set.count];
        check(cudaMemcpy(got, file_at(flow, i), lengths[i], cudaMemcpyDeviceToHost));
        if (lengths[i] != want->length || memcmp(got, want->bytes, want->length) != 0) {
            fprintf(stderr, "image %u of %u: the file has %u bytes, that of %s %zu\n", i,
                    flow->count, lengths[i], bench.encoder->reference, want->length);
            exit(1);
        }
    }
    free(got);
}

static void close_flow(struct flow *flow)
{
    check(cudaFree(flow->memory));
    check(cudaEventDestroy(flow->from));
    check(cudaEventDestroy(flow->to));
    check(cudaStreamDestroy(flow->stream));
}

/* ---- times of kernels ----------------------------------------------------------------------- */

#define KERNELS_MAX 32

/* The kernels of a launch in their order, with events before the first one and after each. */
static struct {
    bool records;
    size_t count;
    const void *functions[KERNELS_MAX];
    cudaEvent_t events[KERNELS_MAX + 1];
    double ms[KERNELS_MAX];
} kernels;

/* The linker lets all launches of kernels come here (--wrap). */
cudaError_t __real_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                       void **arguments);
cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                       void **arguments);
cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                       void **arguments)
{
    cudaError_t result = __real_cudaLaunchKernelExC(config, function, arguments);
    if (kernels.records && kernels.count < KERNELS_MAX) {
        kernels.functions[kernels.count++] = function;
        check(cudaEventRecord(kernels.events[kernels.count], config->stream));
    }
    return result;
}

/* Prints the name of a function in C that the compiler of C++ has decorated: _ZL12code_blocks... */
static void print_function(const void *function)
{
    const char *name = "?";
    check(cudaFuncGetName(&name, function));
    int length = (int)strlen(name);
    if (strncmp(name, "_ZL", 3) == 0 || strncmp(name, "_Z", 2) == 0) {
        char *end;
        length = (int)strtol(name + strcspn(name, "0123456789"), &end, 10);
        name = end;
    }
    printf("    %-20.*s", length, name);
}

/* Each kernel begins after the one before has ended. */
static void print_kernels(struct flow *flow)
{
    double all = 0;
    for (size_t i = 0; i <= KERNELS_MAX; i++)
        check(cudaEventCreate(&kernels.events[i]));
    memset(kernels.ms, 0, sizeof kernels.ms);
    for (unsigned r = 0; r < bench.rounds; r++) {
        kernels.count = 0;
        check(cudaEventRecord(kernels.events[0], flow->stream));
        kernels.records = true;
        launch(flow);
        kernels.records = false;
        check(cudaStreamSynchronize(flow->stream));
        for (size_t i = 0; i < kernels.count; i++) {
            float ms;
            check(cudaEventElapsedTime(&ms, kernels.events[i], kernels.events[i + 1]));
            kernels.ms[i] += (double)ms / bench.rounds;
            all += (double)ms / bench.rounds;
        }
    }
    for (size_t i = 0; i < kernels.count; i++) {
        print_function(kernels.functions[i]);
        printf("%9.3f ms %5.1f%%\n", kernels.ms[i], 100 * kernels.ms[i] / all);
    }
    for (size_t i = 0; i <= KERNELS_MAX; i++)
        check(cudaEventDestroy(kernels.events[i]));
}

/* ---- rows ----------------------------------------------------------------------------------- */

static double time_one_ms(struct flow *flow)
{
    double times[ROUNDS_MAX];
    for (unsigned r = 0; r < bench.rounds; r++) {
        float ms;
        check(cudaEventRecord(flow->from, flow->stream));
        launch(flow);
        check(cudaEventRecord(flow->to, flow->stream));
        check(cudaStreamSynchronize(flow->stream));
        check(cudaEventElapsedTime(&ms, flow->from, flow->to));
        times[r] = ms;
    }
    return median(times, bench.rounds);
}

static double time_all_ms(struct flow *flows, unsigned streams)
{
    double start = process_now();
    for (unsigned r = 0; r < bench.rounds; r++)
        for (unsigned s = 0; s < streams; s++)
            launch(&flows[s]);
    for (unsigned s = 0; s < streams; s++)
        check(cudaStreamSynchronize(flows[s].stream));
    return (process_now() - start) * 1e3 / bench.rounds;
}

static void measure(const struct batch_row *row)
{
    struct flow flows[STREAMS_MAX];
    unsigned streams = row->streams;
    for (unsigned s = 0; s < streams; s++)
        open_flow(&flows[s], row->images);
    double ms = streams == 1 ? time_one_ms(&flows[0]) : time_all_ms(flows, streams);
    for (unsigned s = 0; s < streams; s++)
        compare_files(&flows[s]);
    printf("  %2u stream%s x %4u images %10.3f ms %8.2f GP/s %9.0f images/s\n", streams,
           streams == 1 ? " " : "s", row->images, ms, gigapixels(streams * row->images) / ms * 1e3,
           streams * row->images / ms * 1e3);
    if (bench.kernels && streams == 1)
        print_kernels(&flows[0]);
    for (unsigned s = 0; s < streams; s++)
        close_flow(&flows[s]);
    fflush(stdout);
}

static void measure_all(const struct batch_row *rows)
{
    for (; rows->streams > 0; rows++) {
        if (set.count == 0 || rows->width != set.width || rows->height != set.height) {
            close_set();
            open_set(rows->width, rows->height);
        }
        measure(rows);
    }
    close_set();
}

static bool read_options(int argc, char **argv, const struct batch_row *rows)
{
    const struct argument options[] = {{"folder", .text = &bench.folder},
                                       {"rounds", .number = &bench.rounds},
                                       {"quality", .number = &bench.quality},
                                       {"batch", .number = &bench.batch},
                                       {"streams", .number = &bench.streams},
                                       {"width", .number = &bench.width},
                                       {"height", .number = &bench.height},
                                       {"kernels", .flag = &bench.kernels},
                                       {.name = NULL}};
    bench.quality = bench.encoder->quality;
    bench.width = rows->width;
    bench.height = rows->height;
    if (arguments_read(argc, argv, options) == argc && bench.rounds >= 1 &&
        bench.rounds <= ROUNDS_MAX && bench.quality >= 1 &&
        bench.quality <= bench.encoder->quality_max && bench.batch <= BATCH_MAX &&
        bench.streams >= 1 && bench.streams <= STREAMS_MAX && bench.width >= 1 && bench.height >= 1)
        return true;
    fprintf(stderr,
            "%s [--folder F] [--rounds 1-%d] [--quality 1-%u] [--kernels] "
            "[--batch 1-%d [--streams 1-%d] [--width N] [--height N]]\n",
            bench.encoder->name, ROUNDS_MAX, bench.encoder->quality_max, BATCH_MAX, STREAMS_MAX);
    return false;
}

static bool print_device(void)
{
    int count = 0;
    struct cudaDeviceProp device;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
        fprintf(stderr, "%s needs a CUDA device, and there is none\n", bench.encoder->name);
        return false;
    }
    check(cudaGetDeviceProperties(&device, 0));
    printf("%s, quality %u; all files equal those of %s\n", device.name, bench.quality,
           bench.encoder->reference);
    return true;
}

int batches_measure(int argc, char **argv, const struct batch_encoder *encoder,
                    const struct batch_row *rows)
{
    bench.encoder = encoder;
    if (!read_options(argc, argv, rows))
        return 64;
    /* Streams that share a hardware queue wait for each other's kernels. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    if (!print_device())
        return 1;
    if (bench.folder &&
        (nftw(bench.folder, add_photograph, 16, FTW_PHYS) != 0 || bench.photograph_count == 0)) {
        fprintf(stderr, "%s has no JPEG files in colour\n", bench.folder);
        return 1;
    }
    const struct batch_row one[] = {{bench.width, bench.height, bench.streams, bench.batch}, {0}};
    measure_all(bench.batch > 0 ? one : rows);
    for (size_t i = 0; i < bench.photograph_count; i++)
        raster_clear(&bench.photographs[i]);
    return 0;
}
