/*
 * bench_webp - the WebP encoder of a CUDA device beside libwebp on all cores.
 *
 *     bench_webp device --folder F [--rounds 5] [--quality 80]
 *     bench_webp device --folder F --batch 256 [--width 512] [--height 341]    one row, to profile
 *
 * The images are parts of the photographs (JPEG) below the folder, resized. They are in device
 * memory, and so are the files. Every file is compared with libwebp's, which a difference or a
 * declined image ends. A row is the median time of a launch, or with several streams the mean time
 * in which each of them encodes one batch.
 */
#include <stdio.h>

#if defined(GPUIMGD_CUDA) && defined(GPUIMGD_WEBP)

#include <cuda_runtime.h>
#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <webp/encode.h>

#include "gpu/webp/encode.h"
#include "tests/fixtures/arguments.h"
#include "tests/fixtures/drawing.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/process.h"

#define PHOTOGRAPHS_MAX 32
#define IMAGES_MAX      64 /* different ones of a size */
#define BATCH_MAX       512
#define STREAMS_MAX     4
#define ROUNDS_MAX      31

static struct {
    const char *folder;
    unsigned rounds, quality;
    unsigned batch, width, height; /* batch > 0: only this row */
    struct raster photographs[PHOTOGRAPHS_MAX];
    size_t photograph_count;
} bench = {.rounds = 5, .quality = 80, .width = 512, .height = 341};

static void check(int result)
{
    if (result == 0)
        return;
    fprintf(stderr, "CUDA: %s\n", cudaGetErrorString((cudaError_t)result));
    exit(1);
}

/* ---- images and libwebp's files ------------------------------------------------------------- */

static struct {
    struct image images[IMAGES_MAX];
    WebPMemoryWriter files[IMAGES_MAX];
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

static void encode_with_libwebp(const struct image *image, WebPMemoryWriter *file)
{
    WebPConfig config;
    WebPPicture picture;
    WebPMemoryWriterInit(file);
    if (!WebPConfigInit(&config) || !WebPPictureInit(&picture))
        abort();
    config.method = 2;
    config.quality = (float)bench.quality;
    picture.width = (int)image->width;
    picture.height = (int)image->height;
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = file;
    if (!WebPPictureImportRGB(&picture, image->pixels, (int)image->stride) ||
        !WebPEncode(&config, &picture)) {
        fprintf(stderr, "libwebp refuses an image\n");
        exit(1);
    }
    WebPPictureFree(&picture);
}

static void *make_images(void *unused)
{
    (void)unused;
    for (size_t i; (i = atomic_fetch_add(&set.next, 1)) < set.count;)
        set.images[i] = drawing_resize(&bench.photographs[i % bench.photograph_count], set.width,
                                       set.height, 3, (uint32_t)i + 1);
    return NULL;
}

/* The first files are kept. */
static void *make_files(void *unused)
{
    (void)unused;
    for (size_t i; (i = atomic_fetch_add(&set.next, 1)) < set.tasks;) {
        WebPMemoryWriter file;
        encode_with_libwebp(&set.images[i % set.count], &file);
        if (i < set.count)
            set.files[i] = file;
        else
            WebPMemoryWriterClear(&file);
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

static void open_set(uint32_t width, uint32_t height, size_t count)
{
    set.width = width;
    set.height = height;
    set.count = count;
    set.tasks = count > 2 * (size_t)cores() ? count : 2 * (size_t)cores();
    on_all_cores(make_images);
    double seconds = on_all_cores(make_files);
    double bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += (double)set.files[i].size;
    printf("%u x %u, %.2f bits per pixel\n  libwebp, %3ld cores %27.2f GP/s %9.0f images/s\n",
           width, height, bytes * 8e-9 / gigapixels(count), cores(),
           gigapixels(set.tasks) / seconds, (double)set.tasks / seconds);
}

static void close_set(void)
{
    for (size_t i = 0; i < set.count; i++) {
        free(set.images[i].pixels);
        WebPMemoryWriterClear(&set.files[i]);
    }
}

/* ---- batches in device memory --------------------------------------------------------------- */

struct flow {
    cudaStream_t stream;
    cudaEvent_t from, to;
    uint32_t count;
    size_t capacity;
    uint8_t *memory, *pixels, *work, *files, *header, *description;
    uint32_t *lengths;
    struct webp_encode_batch batch;
};

static uint8_t *take(struct flow *flow, size_t *used, size_t bytes)
{
    uint8_t *at = flow->memory ? flow->memory + *used : NULL;
    *used += buffer_align(bytes);
    return at;
}

/* Returns the bytes of device memory. With flow->memory NULL it only counts. */
static size_t lay_out(struct flow *flow, size_t description_bytes)
{
    size_t used = 0, stride = image_stride(set.width, 3);
    flow->pixels = take(flow, &used, flow->count * buffer_align(stride * set.height));
    flow->work = take(flow, &used,
                      flow->count * buffer_align(webp_encode_work_bytes(set.width, set.height)));
    flow->files = take(flow, &used, flow->count * buffer_align(flow->capacity));
    flow->header = take(flow, &used, WEBP_RIFF_BYTES);
    flow->lengths = (uint32_t *)take(flow, &used, flow->count * sizeof(uint32_t));
    flow->description = take(flow, &used, description_bytes);
    return used;
}

static uint8_t *file_at(const struct flow *flow, uint32_t i)
{
    return flow->files + i * buffer_align(flow->capacity);
}

/* Rows without the padding that drawing_resize may add. */
static void upload_pixels(struct flow *flow, uint32_t i)
{
    const struct image *image = &set.images[i % set.count];
    size_t stride = image_stride(set.width, 3), bytes = buffer_align(stride * set.height);
    check(cudaMemcpy2D(flow->pixels + i * bytes, stride, image->pixels, image->stride, stride,
                       set.height, cudaMemcpyHostToDevice));
}

static size_t describe(struct flow *flow, void *description, size_t room)
{
    static struct webp_encode_image images[BATCH_MAX];
    size_t stride = image_stride(set.width, 3), bytes = buffer_align(stride * set.height);
    size_t work = buffer_align(webp_encode_work_bytes(set.width, set.height));
    for (uint32_t i = 0; i < flow->count; i++)
        images[i] = (struct webp_encode_image){
            .source = {flow->pixels + i * bytes, set.width, set.height, 3, stride},
            .quality = (int)bench.quality,
            .header = flow->header,
            .header_bytes = WEBP_RIFF_BYTES,
            .work = flow->work + i * work,
            .file = file_at(flow, i),
            .capacity = flow->capacity,
            .file_bytes = flow->lengths + i};
    return webp_encode_describe(images, flow->count, description, room, &flow->batch);
}

static void launch(struct flow *flow)
{
    check(webp_encode_launch(&flow->batch, flow->description, flow->stream));
}

static void open_flow(struct flow *flow, uint32_t count)
{
    *flow = (struct flow){.count = count};
    flow->capacity = webp_encode_capacity(set.width, set.height, WEBP_RIFF_BYTES, 0);
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
    check(cudaMemcpy(flow->header, "RIFF\0\0\0\0WEBP", WEBP_RIFF_BYTES, cudaMemcpyHostToDevice));
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
        const WebPMemoryWriter *want = &set.files[i % set.count];
        check(cudaMemcpy(got, file_at(flow, i), lengths[i], cudaMemcpyDeviceToHost));
        if (lengths[i] != want->size || memcmp(got, want->mem, want->size) != 0) {
            fprintf(stderr, "image %u of %u: the file has %u bytes, libwebp's %zu\n", i,
                    flow->count, lengths[i], want->size);
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

static void row(unsigned streams, uint32_t count)
{
    struct flow flows[STREAMS_MAX];
    for (unsigned s = 0; s < streams; s++)
        open_flow(&flows[s], count);
    double ms = streams == 1 ? time_one_ms(&flows[0]) : time_all_ms(flows, streams);
    for (unsigned s = 0; s < streams; s++) {
        compare_files(&flows[s]);
        close_flow(&flows[s]);
    }
    printf("  %u stream%s x %3u images %10.3f ms %8.2f GP/s %9.0f images/s\n", streams,
           streams == 1 ? " " : "s", count, ms, gigapixels(streams * count) / ms * 1e3,
           streams * count / ms * 1e3);
    fflush(stdout);
}

static void print_device(void)
{
    struct cudaDeviceProp device;
    check(cudaGetDeviceProperties(&device, 0));
    printf("%s, quality %u; all files equal libwebp's\n", device.name, bench.quality);
}

static void print_one_row(void)
{
    open_set(bench.width, bench.height, bench.batch < IMAGES_MAX ? bench.batch : IMAGES_MAX);
    row(1, bench.batch);
    close_set();
}

static void print_all_rows(void)
{
    open_set(512, 341, IMAGES_MAX);
    row(1, 16);
    row(1, 64);
    row(1, 256);
    row(1, 512);
    row(4, 128);
    close_set();
    open_set(1200, 800, IMAGES_MAX / 2);
    row(1, 128);
    row(4, 32);
    close_set();
    open_set(2560, 1600, IMAGES_MAX / 4);
    row(1, 1);
    row(1, 8);
    row(1, 32);
    close_set();
}

int main(int argc, char **argv)
{
    const struct argument options[] = {{"folder", .text = &bench.folder},
                                       {"rounds", .number = &bench.rounds},
                                       {"quality", .number = &bench.quality},
                                       {"batch", .number = &bench.batch},
                                       {"width", .number = &bench.width},
                                       {"height", .number = &bench.height},
                                       {.name = NULL}};
    int first = arguments_read(argc, argv, options);
    if (first < 0 || !bench.folder || bench.rounds < 1 || bench.rounds > ROUNDS_MAX ||
        bench.quality > 100 || bench.batch > BATCH_MAX ||
        (first < argc && strcmp(argv[first], "device") != 0)) {
        fprintf(stderr,
                "bench_webp device --folder F [--rounds 1-%d] [--quality 0-100] "
                "[--batch 1-%d [--width N] [--height N]]\n",
                ROUNDS_MAX, BATCH_MAX);
        return 64;
    }
    /* Streams that share a hardware queue wait for each other's kernels. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    if (nftw(bench.folder, add_photograph, 16, FTW_PHYS) != 0 || bench.photograph_count == 0) {
        fprintf(stderr, "%s has no JPEG files in colour\n", bench.folder);
        return 1;
    }
    print_device();
    if (bench.batch > 0)
        print_one_row();
    else
        print_all_rows();
    return 0;
}

#else

int main(void)
{
    fprintf(stderr, "bench_webp needs a build with CUDA and libwebp\n");
    return 1;
}

#endif
