#include "tests/bench/jpeg_photos.h"

#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jpeglib.h>

#include "codecs/ssim_quality.h"

#define PHOTOS_MAX 256

double bench_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int bench_cores(void)
{
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

/* ---- files ---- */

static bool read_frame(struct photo *photo)
{
    static const struct codec_limits limits = {.pixels_max = UINT32_MAX,
                                               .side_max = SIDE_CEILING,
                                               .jpeg_scans_max = 100,
                                               .jpeg_warnings_max = 100};
    static struct codec_context *context;
    struct image_info info = {0};
    struct error error = {0};
    bool taken = false;
    if (!context)
        context = codec_context_create();
    photo->frame = malloc(sizeof *photo->frame);
    if (codec_probe(context, photo->bytes, photo->length, &limits, &info, &error) == STATUS_OK &&
        codec_read_frame(context, photo->bytes, photo->length, &info, &limits, photo->frame)) {
        photo->width = info.width;
        photo->height = info.height;
        photo->channels = info.channels;
        taken = true;
    }
    image_info_clear(&info);
    return taken;
}

static void add(struct photos *photos, uint8_t *bytes, size_t length, int progressive)
{
    struct photo photo = {.bytes = bytes, .length = length};
    if (photos->count < PHOTOS_MAX && read_frame(&photo) &&
        (progressive < 0 || photo.frame->progressive == progressive)) {
        photos->list[photos->count++] = photo;
    } else {
        free(photo.frame);
        free(bytes);
    }
}

static struct photos found;
static bool find_progressive;

static int visit(const char *path, const struct stat *stat, int type, struct FTW *at)
{
    (void)at;
    const char *suffix = strrchr(path, '.');
    if (type != FTW_F || !suffix || (strcmp(suffix, ".jpg") != 0 && strcmp(suffix, ".jpeg") != 0))
        return 0;
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc((size_t)stat->st_size + 1);
    size_t length = file ? fread(bytes, 1, (size_t)stat->st_size, file) : 0;
    if (file)
        fclose(file);
    add(&found, bytes, length, find_progressive);
    return 0;
}

struct photos photos_read(const char *folder, bool progressive)
{
    found = (struct photos){calloc(PHOTOS_MAX, sizeof(struct photo)), 0};
    find_progressive = progressive;
    if (nftw(folder, visit, 16, 0) != 0) {
        fprintf(stderr, "%s cannot be read\n", folder);
        exit(2);
    }
    return found;
}

void photos_free(struct photos *photos)
{
    for (size_t i = 0; i < photos->count; i++) {
        free(photos->list[i].bytes);
        free(photos->list[i].frame);
        free(photos->list[i].result);
    }
    free(photos->list);
}

double photos_megapixels(const struct photos *photos)
{
    double sum = 0;
    for (size_t i = 0; i < photos->count; i++)
        sum += 1e-6 * photos->list[i].width * photos->list[i].height;
    return sum;
}

double photos_megabytes(const struct photos *photos)
{
    double sum = 0;
    for (size_t i = 0; i < photos->count; i++)
        sum += 1e-6 * (double)photos->list[i].length;
    return sum;
}

/* ---- libjpeg-turbo ---- */

static struct image decode(const struct photo *photo, enum decode_as as, uint32_t eighths)
{
    struct jpeg_decompress_struct reader;
    struct jpeg_error_mgr errors;
    struct image image = {.channels = as == DECODE_LUMA || photo->channels == 1 ? 1 : 3};
    reader.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&reader);
    jpeg_mem_src(&reader, photo->bytes, photo->length);
    jpeg_read_header(&reader, TRUE);
    reader.out_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    reader.dct_method = JDCT_ISLOW;
    reader.scale_num = eighths;
    reader.scale_denom = DECODE_EIGHTHS;
    jpeg_start_decompress(&reader);
    image.width = reader.output_width;
    image.height = reader.output_height;
    image.stride = image_stride(image.width, image.channels);
    image.pixels = calloc(image.height, image.stride);
    while (reader.output_scanline < image.height) {
        JSAMPROW row = image.pixels + reader.output_scanline * image.stride;
        jpeg_read_scanlines(&reader, &row, 1);
    }
    jpeg_finish_decompress(&reader);
    jpeg_destroy_decompress(&reader);
    return image;
}

static uint8_t *encode(const struct image *image, int quality, size_t *length)
{
    struct jpeg_compress_struct writer;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long count = 0;
    writer.err = jpeg_std_error(&errors);
    jpeg_create_compress(&writer);
    jpeg_mem_dest(&writer, &bytes, &count);
    writer.image_width = image->width;
    writer.image_height = image->height;
    writer.input_components = (int)image->channels;
    writer.in_color_space = image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&writer);
    jpeg_set_quality(&writer, quality, TRUE);
    writer.dct_method = JDCT_ISLOW;
    jpeg_start_compress(&writer, TRUE);
    while (writer.next_scanline < image->height) {
        JSAMPROW row = image->pixels + writer.next_scanline * image->stride;
        jpeg_write_scanlines(&writer, &row, 1);
    }
    jpeg_finish_compress(&writer);
    jpeg_destroy_compress(&writer);
    *length = count;
    return bytes;
}

static uint32_t reflected(int64_t at, uint32_t side)
{
    if (side == 1)
        return 0;
    return (uint32_t)(at < 0 ? -at : at >= side ? 2 * (int64_t)side - 2 - at : at);
}

static void sobel_row(const uint8_t *a, const uint8_t *m, const uint8_t *b, uint32_t width,
                      uint8_t *to)
{
    for (uint32_t x = 0; x < width; x++) {
        uint32_t l = x > 0 ? x - 1 : reflected(-1, width);
        uint32_t r = x + 1 < width ? x + 1 : reflected(width, width);
        int gx = a[l] + 2 * m[l] + b[l] - a[r] - 2 * m[r] - b[r];
        int gy = a[l] + 2 * a[x] + a[r] - b[l] - 2 * b[x] - b[r];
        int length = (abs(gx) + abs(gy)) >> 1;
        to[x] = (uint8_t)(length > 255 ? 255 : length);
    }
}

static void sobel(struct image *image)
{
    uint8_t *to = calloc(image->height, image->stride);
    for (uint32_t y = 0; y < image->height; y++)
        sobel_row(image->pixels + reflected((int64_t)y - 1, image->height) * image->stride,
                  image->pixels + y * image->stride,
                  image->pixels + reflected((int64_t)y + 1, image->height) * image->stride,
                  image->width, to + y * image->stride);
    free(image->pixels);
    image->pixels = to;
}

struct image photo_image(const struct photo *photo, const struct jpeg_work *work)
{
    struct image image = {.width = image_scaled(photo->width, work->eighths),
                          .height = image_scaled(photo->height, work->eighths),
                          .channels = work->as == DECODE_LUMA ? 1 : photo->channels};
    image.stride = image_stride(image.width, image.channels);
    return image;
}

bool photo_equals(const struct photo *photo, const struct image *size, const uint8_t *rows)
{
    for (uint32_t y = 0; y < size->height; y++)
        if (memcmp(rows + y * size->stride, photo->result + y * size->stride,
                   (size_t)size->width * size->channels) != 0)
            return false;
    return true;
}

/* ---- work on all cores ---- */

/* Returns the quality of the work's file of the image. */
static int quality_of_work(const struct image *image, const struct jpeg_work *work)
{
    struct encode_request request = {.format = &formats[FORMAT_jpeg], .encoder = encoder_defaults};
    struct codec_context *context;
    struct ssim_trial result = {.quality = JPEG_QUALITY};
    struct error error = {0};
    uint8_t buffer[4096];
    if (work->ssim == 0)
        return JPEG_QUALITY;
    request.encoder.quality = QUALITY_HIGHEST;
    request.encoder.quality_min = QUALITY_LOWEST;
    request.encoder.ssim = work->ssim;
    context = codec_context_create();
    if (codec_find_ssim(context, image, &request, buffer, sizeof buffer, &result, &error) !=
        STATUS_OK)
        fprintf(stderr, "%s\n", error.text);
    codec_context_destroy(context);
    return result.quality;
}

struct turn {
    struct photos *photos;
    const struct jpeg_work *work;
    size_t tasks;
    atomic_size_t next;
};

static void *work_thread(void *argument)
{
    struct turn *turn = argument;
    const struct jpeg_work *work = turn->work;
    for (size_t i; (i = atomic_fetch_add(&turn->next, 1)) < turn->tasks;) {
        struct photo *photo = &turn->photos->list[i % turn->photos->count];
        struct image image = decode(photo, work->as, work->eighths);
        uint8_t *result = image.pixels;
        size_t bytes = image.stride * image.height;
        if (work->steps & STEP_SOBEL) {
            sobel(&image);
            result = image.pixels;
        }
        if (work->steps & STEP_ENCODE) {
            result = encode(&image, quality_of_work(&image, work), &bytes);
            free(image.pixels);
        }
        if (i < turn->photos->count) {
            photo->result = result;
            photo->result_bytes = bytes;
        } else {
            free(result);
        }
    }
    return NULL;
}

double photos_work(struct photos *photos, const struct jpeg_work *work, int repeats)
{
    struct turn turn = {photos, work, photos->count * (size_t)repeats, 0};
    pthread_t threads[256];
    int count = bench_cores() < 256 ? bench_cores() : 256;
    for (size_t i = 0; i < photos->count; i++)
        free(photos->list[i].result);
    double start = bench_seconds();
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, work_thread, &turn);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return bench_seconds() - start;
}

/* ---- files made from photographs ---- */

static uint32_t mirrored(uint32_t x, uint32_t side)
{
    uint32_t at = x % (2 * side);
    return at < side ? at : 2 * side - 1 - at;
}

struct photos photos_make(const struct photos *from, size_t count, uint32_t width, uint32_t height,
                          int quality)
{
    struct photos made = {calloc(PHOTOS_MAX, sizeof(struct photo)), 0};
    struct image part = {NULL, width, height, 3, image_stride(width, 3)};
    part.pixels = calloc(height, part.stride);
    for (size_t i = 0; i < count; i++) {
        struct image image = decode(&from->list[i % from->count], DECODE_COLOUR, DECODE_EIGHTHS);
        for (uint32_t y = 0; y < height; y++)
            for (uint32_t x = 0; x < width; x++)
                for (uint32_t c = 0; c < 3; c++)
                    part.pixels[y * part.stride + x * 3 + c] =
                        image.pixels[mirrored(y + image.height / 3, image.height) * image.stride +
                                     mirrored(x + image.width / 3, image.width) * image.channels +
                                     c % image.channels];
        size_t length;
        uint8_t *bytes = encode(&part, quality, &length);
        add(&made, bytes, length, -1);
        free(image.pixels);
    }
    free(part.pixels);
    return made;
}
