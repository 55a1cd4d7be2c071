/*
 * jpeg_decode.c - measures the decoder of sequential JPEG files on a device.
 *
 *     jpeg_decode FOLDER [brief]
 *
 * FOLDER has photographs. The program decodes batches of them, one image of 50 MP, and 256 x 256
 * images made from them, to Y and to RGB: kernels alone, and with uploads overlapped on 4 streams.
 * Every result is compared with libjpeg-turbo's. MP are those of the full images.
 */
#include <dirent.h>
#include <time.h>

#include "gpu/jpeg/decode_impl.h"
#include "tests/cuda/jpeg_decode_rig.h"

#define PHOTOS_MAX 64
#define RUNS 11
#define STREAMS 4
#define SMALL_SIDE 256
#define SMALL_COUNT 512

static struct rig_file photos[PHOTOS_MAX];
static size_t photo_count;

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

static bool read_file(const char *path, struct rig_file *file)
{
    FILE *from = fopen(path, "rb");
    struct jpeg_frame frame;
    if (!from)
        return false;
    fseek(from, 0, SEEK_END);
    file->length = (unsigned long)ftell(from);
    rewind(from);
    file->bytes = malloc(file->length);
    bool read = fread(file->bytes, 1, file->length, from) == file->length;
    fclose(from);
    return read && rig_frame(file->bytes, file->length, &frame) &&
           jpeg_decode_work_bytes(&frame, file->length, DECODE_COLOUR, 8) > 0;
}

static void read_photos(const char *folder)
{
    struct dirent **names = NULL;
    int count = scandir(folder, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        size_t length = strlen(path);
        if (length > 4 && strcmp(path + length - 4, ".jpg") == 0 && photo_count < PHOTOS_MAX &&
            read_file(path, &photos[photo_count]))
            photo_count++;
    }
}

/* An image of copies of a photograph, or of a part of it. */
static struct rig_file remake(const struct rig_file *photo, uint32_t from_x, uint32_t from_y,
                              uint32_t width, uint32_t height, int quality)
{
    struct jpeg_frame frame;
    struct jpeg_compress_struct writer;
    struct rig_errors errors;
    struct rig_file file = {NULL, 0};
    if (!rig_frame(photo->bytes, photo->length, &frame))
        abort();
    size_t stride = 3 * (size_t)frame.width;
    uint8_t *pixels = malloc(stride * frame.height), *row = malloc(3 * (size_t)width);
    rig_decode(photo->bytes, photo->length, JCS_YCbCr, 8, pixels, stride);
    rig_errors_begin(&errors);
    writer.err = &errors.manager;
    jpeg_create_compress(&writer);
    jpeg_mem_dest(&writer, &file.bytes, &file.length);
    writer.image_width = width;
    writer.image_height = height;
    writer.input_components = 3;
    writer.in_color_space = JCS_YCbCr;
    jpeg_set_defaults(&writer);
    jpeg_set_quality(&writer, quality, TRUE);
    jpeg_start_compress(&writer, TRUE);
    for (uint32_t y = 0; y < height; y++) {
        const uint8_t *from = pixels + (from_y + y) % frame.height * stride;
        for (uint32_t x = 0; x < width; x++)
            memcpy(row + 3 * x, from + 3 * ((from_x + x) % frame.width), 3);
        jpeg_write_scanlines(&writer, &row, 1);
    }
    jpeg_finish_compress(&writer);
    jpeg_destroy_compress(&writer);
    free(pixels);
    free(row);
    return file;
}

static void set_images(struct rig_image *images, const struct rig_file *files, size_t file_count,
                       size_t first, size_t count, enum decode_as as, uint32_t eighths)
{
    memset(images, 0, count * sizeof *images);
    for (size_t i = 0; i < count; i++) {
        const struct rig_file *file = &files[(first + i) % file_count];
        images[i].bytes = file->bytes;
        images[i].length = file->length;
        images[i].as = as;
        images[i].eighths = eighths;
        if (!rig_frame(file->bytes, file->length, &images[i].frame))
            abort();
    }
}

static double megapixels(const struct rig_image *images, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)images[i].frame.width * images[i].frame.height * 1e-6;
    return sum;
}

static void verify(struct rig_batch *batch, size_t distinct, cudaStream_t stream)
{
    size_t declined = 0, wrong = 0;
    bool intact = rig_fetch(batch, stream);
    for (size_t i = 0; i < batch->count; i++) {
        const struct rig_image *image = &batch->images[i];
        long warnings;
        declined += image->verdict != JPEG_DECODE_DONE;
        if (image->verdict)
            printf("  declined: image %zu, %u x %u: verdict %u\n", i, image->frame.width,
                   image->frame.height, image->verdict);
        if (i < distinct)
            wrong += rig_differences(batch, image, &warnings) > 0;
    }
    if (declined || wrong || !intact)
        printf("  WRONG: %zu of %zu declined, %zu of %zu differ, memory %s\n", declined,
               batch->count, wrong, distinct, intact ? "intact" : "OVERWRITTEN");
}

static float timed(struct rig_batch *batch, cudaEvent_t *events, cudaStream_t stream,
                   float *stages)
{
    struct decode_args args = decode_args_of(&batch->batch, batch->description);
    float all = 0;
    CHECK_CUDA(cudaEventRecord(events[0], stream));
    if (!stages) {
        CHECK_CUDA(jpeg_decode_launch(&batch->batch, batch->description, stream));
        CHECK_CUDA(cudaEventRecord(events[4], stream));
    } else {
        CHECK_CUDA(decode_launch_stream(&batch->batch, &args, stream));
        CHECK_CUDA(cudaEventRecord(events[1], stream));
        CHECK_CUDA(decode_launch_huffman(&batch->batch, &args, stream));
        CHECK_CUDA(cudaEventRecord(events[2], stream));
        CHECK_CUDA(decode_launch_blocks(&batch->batch, &args, stream));
        CHECK_CUDA(cudaEventRecord(events[3], stream));
        if (batch->batch.bands)
            CHECK_CUDA(decode_launch_colour(&batch->batch, &args, stream));
        CHECK_CUDA(cudaEventRecord(events[4], stream));
    }
    CHECK_CUDA(cudaStreamSynchronize(stream));
    for (int i = 0; stages && i < 4; i++)
        CHECK_CUDA(cudaEventElapsedTime(&stages[i], events[i], events[i + 1]));
    CHECK_CUDA(cudaEventElapsedTime(&all, events[0], events[4]));
    return all;
}

/* Kernels alone. */
static void measure(const char *name, struct rig_image *images, size_t count, size_t distinct)
{
    struct rig_batch batch;
    cudaStream_t stream;
    cudaEvent_t events[5];
    double all[RUNS], parts[4][RUNS];
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < 5; i++)
        CHECK_CUDA(cudaEventCreate(&events[i]));
    rig_begin(&batch, images, count, stream);
    rig_launch(&batch, stream);
    verify(&batch, distinct, stream);
    for (int run = 0; run < RUNS; run++) {
        float stages[4];
        all[run] = timed(&batch, events, stream, NULL);
        timed(&batch, events, stream, stages);
        for (int i = 0; i < 4; i++)
            parts[i][run] = stages[i];
    }
    double mp = megapixels(images, count), ms = median(all, RUNS);
    printf("%-22s %4zu %8.1f MP %9.1f us %7.1f GP/s %9.0f images/s | stream %.0f huffman %.0f "
           "blocks %.0f colour %.0f us\n",
           name, count, mp, ms * 1e3, mp / ms, (double)count / ms * 1e3,
           median(parts[0], RUNS) * 1e3, median(parts[1], RUNS) * 1e3,
           median(parts[2], RUNS) * 1e3, median(parts[3], RUNS) * 1e3);
    fflush(stdout);
    rig_end(&batch);
    for (int i = 0; i < 5; i++)
        CHECK_CUDA(cudaEventDestroy(events[i]));
    CHECK_CUDA(cudaStreamDestroy(stream));
}

/* Files uploaded from pinned memory, on STREAMS streams. */
static void measure_uploads(const char *name, struct rig_image *images, size_t count)
{
    struct rig_batch batches[STREAMS];
    cudaStream_t streams[STREAMS];
    double times[RUNS];
    size_t part = count / STREAMS;
    for (int i = 0; i < STREAMS; i++) {
        CHECK_CUDA(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        rig_begin(&batches[i], images + (size_t)i * part, part, streams[i]);
    }
    for (int run = 0; run < RUNS; run++) {
        double start = now_ms();
        for (int i = 0; i < 2 * STREAMS; i++)
            rig_launch(&batches[i % STREAMS], streams[i % STREAMS]);
        for (int i = 0; i < STREAMS; i++)
            CHECK_CUDA(cudaStreamSynchronize(streams[i]));
        times[run] = now_ms() - start;
    }
    double mp = 2 * megapixels(images, part * STREAMS), ms = median(times, RUNS);
    printf("%-22s %4zu, uploads on %d streams %9.1f us %7.1f GP/s %9.0f images/s\n", name, count,
           STREAMS, ms * 1e3 / 2, mp / ms, 2e3 * (double)(part * STREAMS) / ms);
    fflush(stdout);
    for (int i = 0; i < STREAMS; i++) {
        rig_end(&batches[i]);
        CHECK_CUDA(cudaStreamDestroy(streams[i]));
    }
}

/* Images in which decoders fall into step late: flat, and noise. */
static void measure_slow(void)
{
    static struct rig_image image[1];
    for (int pattern = 1; pattern <= 5; pattern += 4) {
        struct rig_encoding as = {.width = 4096, .height = 4096, .channels = 3, .h = 2, .v = 2,
                                  .quality = 95, .pattern = pattern, .seed = 7};
        struct rig_file file = rig_encode(&as);
        set_images(image, &file, 1, 0, 1, DECODE_LUMA, 8);
        measure(pattern == 1 ? "noise" : "flat", image, 1, 1);
        free(file.bytes);
    }
}

static void measure_all(enum decode_as as, const struct rig_file *large,
                        const struct rig_file *small, bool brief)
{
    static struct rig_image images[2 * SMALL_COUNT];
    const char *name = as == DECODE_LUMA ? "photographs, Y" : "photographs, RGB";
    static const size_t counts[] = {1, 4, 15, 60};
    for (size_t i = brief ? 3 : 0; i < 4; i++) {
        set_images(images, photos, photo_count, 0, counts[i], as, 8);
        measure(name, images, counts[i], counts[i] < photo_count ? counts[i] : photo_count);
    }
    if (!brief)
        measure_uploads(name, images, 60);
    set_images(images, large, 1, 0, 1, as, 8);
    measure("one of 50 MP", images, 1, 1);
    set_images(images, small, SMALL_COUNT, 0, 2 * SMALL_COUNT, as, 8);
    measure("256 x 256", images, 2 * SMALL_COUNT, brief ? 16 : SMALL_COUNT);
    if (!brief)
        measure_uploads("256 x 256", images, 2 * SMALL_COUNT);
    if (brief || as != DECODE_LUMA)
        return;
    for (uint32_t eighths = 4; eighths > 0; eighths /= 2) {
        set_images(images, photos, photo_count, 0, 60, as, eighths);
        measure(eighths == 4 ? "Y 4/8" : eighths == 2 ? "Y 2/8" : "Y 1/8", images, 60,
                photo_count);
    }
}

int main(int argc, char **argv)
{
    static struct rig_file small[SMALL_COUNT];
    bool brief = argc > 2;
    if (argc < 2)
        return 2;
    read_photos(argv[1]);
    if (photo_count == 0) {
        fprintf(stderr, "%s has no photographs that the device decodes\n", argv[1]);
        return 1;
    }
    double bits = 0, mp = 0;
    for (size_t i = 0; i < photo_count; i++) {
        struct jpeg_frame frame;
        if (!rig_frame(photos[i].bytes, photos[i].length, &frame))
            return 1;
        bits += 8.0 * (double)photos[i].length;
        mp += (double)frame.width * frame.height * 1e-6;
    }
    struct rig_file large = remake(&photos[0], 0, 0, 8688, 5792, 88);
    size_t small_bytes = 0;
    for (size_t i = 0; i < SMALL_COUNT; i++) {
        if (i < 32)
            small[i] = remake(&photos[i % photo_count], 64 * (uint32_t)i, 48 * (uint32_t)i,
                              SMALL_SIDE, SMALL_SIDE, 90);
        else
            small[i] = small[i % 32];
        small_bytes += small[i].length;
    }
    printf("%zu photographs, %.1f MP, %.2f bits per pixel; 256 x 256: %.1f KB; 50 MP: %.2f bits\n",
           photo_count, mp, bits / mp * 1e-6, (double)small_bytes / SMALL_COUNT * 1e-3,
           (double)large.length * 8 / 8688 / 5792);
    measure_all(DECODE_LUMA, &large, small, brief);
    measure_all(DECODE_COLOUR, &large, small, brief);
    if (!brief)
        measure_slow();
    return 0;
}
