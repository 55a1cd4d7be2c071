/*
 * jpeg_encode.c - how fast a device encodes JPEG files, with pixels in device memory.
 *
 *     jpeg_encode FOLDER [brief]     brief: large gray images only, no copies
 *
 * The images are edges of the folder's photographs (gray), and the photographs (RGB to 4:2:0), both
 * mirrored to fill the sizes below. Every file is compared with libjpeg's. "device": the files stay
 * in device memory. "stores": the kernels write the files to pinned host memory, two streams in
 * turn. "copies": the files are copied to pinned memory by a second stream, once their lengths are
 * known, while the next batch is encoded.
 */
#include <cuda_runtime.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jpeglib.h>

#include "gpu/jpeg/encode.h"

#define SOURCES_MAX 6
#define BATCH_MAX 1024
#define ROUNDS 11
#define QUALITY 85

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t status_ = (cudaError_t)(call);                                                 \
        if (status_ != cudaSuccess) {                                                              \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status_));                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct source {
    struct image image; /* on the host */
    unsigned char *file;
    unsigned long length;
    size_t header_bytes;
    uint8_t *header; /* pinned */
    uint16_t quant[2][64];
};

/* A described batch with its own memory; its pixels belong to the set. */
struct bench_batch {
    struct jpeg_encode_image images[BATCH_MAX];
    struct jpeg_encode_batch batch;
    uint8_t *description, *work, *files;
    uint32_t *lengths, *host_lengths;
    size_t capacities[BATCH_MAX], file_bytes;
    cudaStream_t stream;
    cudaEvent_t encoded, copied;
};

static struct source sources[SOURCES_MAX];
static int source_count, pixel_count;
static uint8_t *pixels[2 * BATCH_MAX]; /* in device memory, of source i % source_count */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

/* ---- images ---- */

static bool decode(const char *path, int channels, struct image *image)
{
    struct jpeg_decompress_struct reader;
    struct jpeg_error_mgr errors;
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    reader.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&reader);
    jpeg_stdio_src(&reader, file);
    jpeg_read_header(&reader, TRUE);
    reader.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&reader);
    image->width = reader.output_width;
    image->height = reader.output_height;
    image->channels = (uint32_t)channels;
    image->stride = image_stride(image->width, image->channels);
    image->pixels = malloc(image->stride * image->height);
    while (reader.output_scanline < reader.output_height) {
        JSAMPROW row = image->pixels + reader.output_scanline * image->stride;
        jpeg_read_scanlines(&reader, &row, 1);
    }
    jpeg_finish_decompress(&reader);
    jpeg_destroy_decompress(&reader);
    fclose(file);
    return true;
}

static uint32_t mirrored(uint32_t x, uint32_t side)
{
    uint32_t at = x % (2 * side);
    return at < side ? at : 2 * side - 1 - at;
}

static struct image fill(const struct image *from, uint32_t width, uint32_t height)
{
    struct image to = {NULL, width, height, from->channels, image_stride(width, from->channels)};
    to.pixels = calloc(to.stride, height);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            memcpy(to.pixels + y * to.stride + (size_t)x * to.channels,
                   from->pixels + mirrored(y, from->height) * from->stride +
                       (size_t)mirrored(x, from->width) * to.channels, to.channels);
    return to;
}

/* Half of the sum of the absolute Sobel gradients. */
static struct image edges(const struct image *from)
{
    struct image to = *from;
    to.pixels = calloc(to.stride, to.height);
    for (uint32_t y = 1; y + 1 < from->height; y++)
        for (uint32_t x = 1; x + 1 < from->width; x++) {
            const uint8_t *a = from->pixels + (y - 1) * from->stride + x, *b = a + from->stride;
            const uint8_t *c = b + from->stride;
            int gx = a[1] + 2 * b[1] + c[1] - a[-1] - 2 * b[-1] - c[-1];
            int gy = c[-1] + 2 * c[0] + c[1] - a[-1] - 2 * a[0] - a[1];
            int value = (abs(gx) + abs(gy)) / 2;
            to.pixels[y * to.stride + x] = (uint8_t)(value > 255 ? 255 : value);
        }
    return to;
}

static void encode_reference(struct source *source)
{
    struct jpeg_compress_struct writer;
    struct jpeg_error_mgr errors;
    const struct image *image = &source->image;
    writer.err = jpeg_std_error(&errors);
    jpeg_create_compress(&writer);
    source->file = NULL;
    jpeg_mem_dest(&writer, &source->file, &source->length);
    writer.image_width = image->width;
    writer.image_height = image->height;
    writer.input_components = (int)image->channels;
    writer.in_color_space = image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&writer);
    jpeg_set_quality(&writer, QUALITY, TRUE);
    writer.dct_method = JDCT_ISLOW;
    jpeg_start_compress(&writer, TRUE);
    while (writer.next_scanline < image->height) {
        JSAMPROW row = image->pixels + writer.next_scanline * image->stride;
        jpeg_write_scanlines(&writer, &row, 1);
    }
    jpeg_finish_compress(&writer);
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < 64 && writer.quant_tbl_ptrs[t]; i++)
            source->quant[t][i] = writer.quant_tbl_ptrs[t]->quantval[i];
    jpeg_destroy_compress(&writer);
    size_t at = 2;
    int marker;
    do {
        marker = source->file[at + 1];
        at += 2 + (size_t)(source->file[at + 2] << 8 | source->file[at + 3]);
    } while (marker != 0xDA);
    source->header_bytes = at;
    CHECK(cudaHostAlloc((void **)&source->header, at, cudaHostAllocPortable));
    memcpy(source->header, source->file, at);
}

/* Reads up to SOURCES_MAX photographs. */
static void load(const char *folder, int channels, uint32_t width, uint32_t height, int batch)
{
    struct dirent **names;
    int count = scandir(folder, &names, NULL, alphasort);
    source_count = 0;
    for (int i = 0; i < count && source_count < SOURCES_MAX; i++) {
        char path[4096];
        struct image photograph;
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (!strstr(names[i]->d_name, ".jp") || !decode(path, channels, &photograph))
            continue;
        struct source *source = &sources[source_count++];
        if (channels == 1) {
            struct image of = edges(&photograph);
            source->image = fill(&of, width, height);
            free(of.pixels);
        } else {
            source->image = fill(&photograph, width, height);
        }
        free(photograph.pixels);
        encode_reference(source);
    }
    double bits = 0;
    for (int i = 0; i < source_count; i++)
        bits += 8.0 * (double)sources[i].length / width / height / source_count;
    printf("%s %u x %u, quality %d, %d images, %.2f bits per pixel\n",
           channels == 1 ? "gray edges" : "RGB to 4:2:0", width, height, QUALITY, source_count,
           bits);
    pixel_count = 2 * batch;
    for (int i = 0; i < pixel_count; i++) {
        const struct image *image = &sources[i % source_count].image;
        CHECK(cudaMalloc((void **)&pixels[i], image->stride * height));
        CHECK(cudaMemcpy(pixels[i], image->pixels, image->stride * height,
                         cudaMemcpyHostToDevice));
    }
}

static void unload(void)
{
    for (int i = 0; i < pixel_count; i++)
        CHECK(cudaFree(pixels[i]));
    for (int i = 0; i < source_count; i++) {
        free(sources[i].image.pixels);
        free(sources[i].file);
        CHECK(cudaFreeHost(sources[i].header));
    }
}

/* ---- batches ---- */

static void batch_open(struct bench_batch *b, int first, int count, bool on_host)
{
    uint8_t *description;
    size_t bytes, work = 0;
    b->file_bytes = 0;
    CHECK(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&b->encoded, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&b->copied, cudaEventDisableTiming));
    CHECK(cudaMalloc((void **)&b->lengths, BATCH_MAX * 4));
    CHECK(cudaHostAlloc((void **)&b->host_lengths, BATCH_MAX * 4, cudaHostAllocPortable));
    for (int i = 0; i < count; i++) {
        const struct source *s = &sources[(first + i) % source_count];
        const struct image *image = &s->image;
        uint32_t h = image->channels == 1 ? 1 : 2;
        b->capacities[i] = buffer_align(s->length + s->length / 4);
        b->file_bytes += b->capacities[i];
        work += buffer_align(jpeg_encode_work_bytes(image->width, image->height, image->channels, h,
                                                    h, b->capacities[i]));
    }
    CHECK(cudaMalloc((void **)&b->work, work));
    CHECK(on_host ? cudaHostAlloc((void **)&b->files, b->file_bytes, cudaHostAllocPortable)
                  : cudaMalloc((void **)&b->files, b->file_bytes));
    uint8_t *next_work = b->work, *next_file = b->files;
    for (int i = 0; i < count; i++) {
        const struct source *s = &sources[(first + i) % source_count];
        struct jpeg_encode_image *image = &b->images[i];
        memset(image, 0, sizeof *image);
        image->source = s->image;
        image->source.pixels = pixels[first + i];
        image->h = image->v = s->image.channels == 1 ? 1 : 2;
        image->quant = s->quant[0];
        image->header = s->header;
        image->header_bytes = s->header_bytes;
        image->work = next_work;
        image->file = next_file;
        image->capacity = b->capacities[i];
        image->file_bytes = (on_host ? b->host_lengths : b->lengths) + i;
        next_work += buffer_align(jpeg_encode_work_bytes(
            s->image.width, s->image.height, s->image.channels, image->h, image->v,
            b->capacities[i]));
        next_file += b->capacities[i];
    }
    bytes = jpeg_encode_describe(b->images, (uint32_t)count, NULL, 0, &b->batch);
    CHECK(cudaMalloc((void **)&b->description, bytes));
    description = malloc(bytes);
    jpeg_encode_describe(b->images, (uint32_t)count, description, bytes, &b->batch);
    CHECK(cudaMemcpy(b->description, description, bytes, cudaMemcpyHostToDevice));
    free(description);
}

static void batch_close(struct bench_batch *b, bool on_host)
{
    CHECK(cudaFree(b->lengths));
    CHECK(cudaFreeHost(b->host_lengths));
    CHECK(cudaFree(b->work));
    CHECK(cudaFree(b->description));
    CHECK(on_host ? cudaFreeHost(b->files) : cudaFree(b->files));
    CHECK(cudaStreamDestroy(b->stream));
    CHECK(cudaEventDestroy(b->encoded));
    CHECK(cudaEventDestroy(b->copied));
}

static void launch(struct bench_batch *b)
{
    CHECK(jpeg_encode_launch(&b->batch, b->description, b->stream));
}

static void compare(const struct bench_batch *b, int first, const uint8_t *files,
                    const uint32_t *lengths, const char *how)
{
    const uint8_t *file = files;
    uint32_t count = b->batch.image_count, same = 0;
    for (uint32_t i = 0; i < count; file += b->capacities[i++]) {
        const struct source *s = &sources[(first + (int)i) % source_count];
        same += lengths[i] == s->length && memcmp(file, s->file, s->length) == 0;
    }
    if (same != count)
        printf("%s: only %u of %u files equal libjpeg's\n", how, same, count);
}

/* ---- measurements: gigapixels per second ---- */

static double gigapixels(int count)
{
    return 1e-9 * sources[0].image.width * sources[0].image.height * count;
}

static double on_device(int count)
{
    static struct bench_batch b;
    double times[ROUNDS];
    cudaEvent_t start, end;
    int repeats = count >= 64 ? 2 : count >= 8 ? 8 : 40;
    batch_open(&b, 0, count, false);
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    for (int round = -1; round < ROUNDS; round++) {
        float ms;
        CHECK(cudaEventRecord(start, b.stream));
        for (int i = 0; i < repeats; i++)
            launch(&b);
        CHECK(cudaEventRecord(end, b.stream));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaEventElapsedTime(&ms, start, end));
        if (round >= 0)
            times[round] = ms * 1e-3 / repeats;
    }
    uint8_t *files = malloc(b.file_bytes);
    CHECK(cudaMemcpy(files, b.files, b.file_bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(b.host_lengths, b.lengths, (size_t)count * 4, cudaMemcpyDeviceToHost));
    compare(&b, 0, files, b.host_lengths, "device");
    free(files);
    batch_close(&b, false);
    return gigapixels(count) / median(times, ROUNDS);
}

/* Two batches in turn. alone: the median time of one, from launch to synchronisation. */
static double with_stores(int count, double *alone)
{
    static struct bench_batch b[2];
    double times[ROUNDS], lone[ROUNDS];
    int turns = count >= 64 ? 6 : count >= 8 ? 20 : 100;
    for (int i = 0; i < 2; i++) {
        batch_open(&b[i], i * count, count, true);
        memset(b[i].files, 0x77, b[i].file_bytes);
    }
    for (int round = -1; round < ROUNDS; round++) {
        double start = seconds();
        for (int i = 0; i < turns; i++) {
            CHECK(cudaStreamSynchronize(b[i % 2].stream));
            launch(&b[i % 2]);
        }
        CHECK(cudaStreamSynchronize(b[0].stream));
        CHECK(cudaStreamSynchronize(b[1].stream));
        double end = seconds();
        launch(&b[0]);
        CHECK(cudaStreamSynchronize(b[0].stream));
        if (round >= 0) {
            times[round] = (end - start) / turns;
            lone[round] = seconds() - end;
        }
    }
    for (int i = 0; i < 2; i++) {
        compare(&b[i], i * count, b[i].files, b[i].host_lengths, "stores");
        batch_close(&b[i], true);
    }
    *alone = median(lone, ROUNDS);
    return gigapixels(count) / median(times, ROUNDS);
}

static void start_turn(struct bench_batch *b, int count)
{
    CHECK(cudaStreamWaitEvent(b->stream, b->copied, 0));
    launch(b);
    CHECK(cudaMemcpyAsync(b->host_lengths, b->lengths, (size_t)count * 4, cudaMemcpyDeviceToHost,
                          b->stream));
    CHECK(cudaEventRecord(b->encoded, b->stream));
}

static void copy_files(struct bench_batch *b, int count, uint8_t *to, cudaStream_t stream)
{
    CHECK(cudaEventSynchronize(b->encoded));
    const uint8_t *file = b->files;
    for (int i = 0; i < count; i++) {
        CHECK(cudaMemcpyAsync(to, file, b->host_lengths[i], cudaMemcpyDeviceToHost, stream));
        file += b->capacities[i];
        to += b->capacities[i];
    }
    CHECK(cudaEventRecord(b->copied, stream));
}

static double with_copies(int count)
{
    static struct bench_batch b[2];
    uint8_t *files[2];
    double times[ROUNDS];
    cudaStream_t copier;
    int turns = count >= 64 ? 6 : count >= 8 ? 20 : 100;
    CHECK(cudaStreamCreateWithFlags(&copier, cudaStreamNonBlocking));
    for (int i = 0; i < 2; i++) {
        batch_open(&b[i], i * count, count, false);
        CHECK(cudaHostAlloc((void **)&files[i], b[i].file_bytes, cudaHostAllocPortable));
        CHECK(cudaEventRecord(b[i].copied, copier));
    }
    for (int round = -1; round < ROUNDS; round++) {
        double start = seconds();
        start_turn(&b[0], count);
        for (int i = 0; i < turns; i++) {
            if (i + 1 < turns)
                start_turn(&b[(i + 1) % 2], count);
            copy_files(&b[i % 2], count, files[i % 2], copier);
        }
        CHECK(cudaStreamSynchronize(copier));
        if (round >= 0)
            times[round] = (seconds() - start) / turns;
    }
    for (int i = 0; i < 2; i++) {
        compare(&b[i], i * count, files[i], b[i].host_lengths, "copies");
        CHECK(cudaFreeHost(files[i]));
        batch_close(&b[i], false);
    }
    CHECK(cudaStreamDestroy(copier));
    return gigapixels(count) / median(times, ROUNDS);
}

static void measure(const char *folder, int channels, uint32_t width, uint32_t height, bool brief)
{
    const bool small = width < 1000;
    const int counts[] = {1, small ? 64 : 8, small ? 1024 : 64};
    load(folder, channels, width, height, counts[2]);
    printf("  batch   device   stores   copies GP/s    stores, one batch alone\n");
    for (int i = brief ? 1 : 0; i < 3; i++) {
        double alone = 0, device = on_device(counts[i]);
        double stores = with_stores(counts[i], &alone);
        double copies = brief ? 0 : with_copies(counts[i]);
        printf("  %5d %8.0f %8.0f %8.0f %17.0f us\n", counts[i], device, stores, copies,
               alone * 1e6);
        fflush(stdout);
    }
    unload();
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: jpeg_encode FOLDER [brief]\n");
        return 2;
    }
    bool brief = argc > 2;
    CHECK(cudaSetDeviceFlags(cudaDeviceScheduleSpin));
    measure(argv[1], 1, 5120, 2880, brief);
    if (brief)
        return 0;
    measure(argv[1], 1, 2560, 1600, false);
    measure(argv[1], 1, 256, 256, false);
    measure(argv[1], 3, 5120, 2880, false);
    return 0;
}
