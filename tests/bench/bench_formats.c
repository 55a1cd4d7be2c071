/*
 * bench_formats - times the codecs on files, for formats.py and avif.py.
 *
 *     bench_formats --format F [--quality N] [--effort N] [--lossless 1] [--rounds 3] FILE...
 *     bench_formats --each [--decoded FOLDER] ... FILE...
 *
 * Encodes each image with the settings, and decodes the result. Prints a line of JSON with sums
 * over the files: pixels, bytes, the fastest round's CPU seconds, and the PSNR over all samples.
 * --each: prints a line for each file, with the PSNR and SSIM of luma; --decoded writes its pixels
 * to the folder as 0.ppm, 1.ppm and so on.
 */
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/codec.h"
#include "tests/bench/luma.h"
#include "tests/fixtures/arguments.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/picture.h"

static const struct codec_limits limits = {.pixels_max = PIXELS_CEILING,
                                           .side_max = SIDE_CEILING,
                                           .jpeg_scans_max = JPEG_SCANS_DEFAULT,
                                           .jpeg_warnings_max = JPEG_WARNINGS_MAX};

struct sums {
    double pixels, bytes, encode_s, decode_s, samples, squares;
};

static bool prints_each;
static const char *decoded_folder;

struct memory_sink {
    struct codec_sink sink;
    struct picture_file file;
};

static enum status keep(struct codec_sink *sink, size_t used, struct error *error)
{
    struct memory_sink *self = (struct memory_sink *)sink;
    (void)error;
    memcpy(self->file.bytes + self->file.length, sink->buffer, used);
    self->file.length += used;
    return STATUS_OK;
}

static _Noreturn void stop(const char *what, const struct error *error)
{
    fprintf(stderr, "bench_formats: %s: %s\n", what, error->text);
    exit(1);
}

/* Decodes, and returns CPU seconds. The caller frees the pixels. */
static double decode(struct codec_context *context, const struct picture_file *file,
                     const char *name, struct image *image)
{
    struct error error = {0};
    struct image_info info;
    struct decode_request request = {0};
    double start = cpu_with_children_s();
    if (codec_probe(context, file->bytes, file->length, &limits, &info, &error) != STATUS_OK)
        stop(name, &error);
    double probed = cpu_with_children_s() - start;
    *image = (struct image){.width = info.width, .height = info.height,
                            .channels = info.channels,
                            .stride = image_stride(info.width, info.channels)};
    image->pixels = malloc(image->stride * image->height);
    if (!image->pixels)
        exit(1);
    memset(image->pixels, 0, image->stride * image->height); /* no page faults in the figure */
    start = cpu_with_children_s();
    if (codec_decode(context, file->bytes, file->length, &info, &request, &limits, image, &error) !=
        STATUS_OK)
        stop(name, &error);
    image_info_clear(&info);
    return probed + cpu_with_children_s() - start;
}

static double encode(struct codec_context *context, const struct image *image,
                     const struct encode_request *request, struct picture_file *file)
{
    static uint8_t buffer[SINK_BYTES];
    struct error error = {0};
    struct memory_sink sink = {.sink = {.buffer = buffer, .capacity = sizeof buffer,
                                        .flush = keep}};
    sink.file.bytes = malloc(2 * codec_encoded_bytes(request->format, image->width, image->height,
                                                     image->channels, &request->encoder, 0));
    double start = cpu_with_children_s();
    if (!sink.file.bytes ||
        codec_encode(context, image, request, &sink.sink, &error) != STATUS_OK)
        stop(request->format->name, &error);
    *file = sink.file;
    return cpu_with_children_s() - start;
}

static void compare(const struct image *a, const struct image *b, struct sums *sums)
{
    size_t row = (size_t)a->width * a->channels;
    if (a->channels != b->channels)
        return;
    for (uint32_t y = 0; y < a->height; y++)
        for (size_t i = 0; i < row; i++) {
            double difference = a->pixels[y * a->stride + i] - b->pixels[y * b->stride + i];
            sums->squares += difference * difference;
        }
    sums->samples += (double)row * a->height;
}

/* Writes the colours of an image as a PPM. */
static void save_pixels(const struct image *image, int number)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.ppm", decoded_folder, number);
    FILE *file = fopen(path, "wb");
    if (!file) {
        fprintf(stderr, "bench_formats: %s cannot be written\n", path);
        exit(1);
    }
    fprintf(file, "P6\n%u %u\n255\n", image->width, image->height);
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++) {
            const uint8_t *pixel = image->pixels + y * image->stride + (size_t)x * image->channels;
            for (int c = 0; c < 3; c++)
                putc(pixel[image->channels == 1 ? 0 : c], file);
        }
    fclose(file);
}

static void print_one(const struct image *image, const struct image *back, size_t bytes,
                      double encode_s, double decode_s)
{
    static int number;
    printf("{\"pixels\":%.0f,\"bytes\":%zu,\"encode_s\":%.5f,\"decode_s\":%.5f,"
           "\"psnr_y\":%.4f,\"ssim\":%.6f}\n",
           (double)image->width * image->height, bytes, encode_s, decode_s, luma_psnr(image, back),
           luma_ssim(image, back));
    if (decoded_folder)
        save_pixels(back, number);
    number++;
}

static void add_file(struct codec_context *context, const char *name,
                     const struct encode_request *request, unsigned rounds, struct sums *sums)
{
    struct picture_file source = picture_load(name), file = {NULL, 0};
    struct image image, back = {.pixels = NULL};
    double encode_s = HUGE_VAL, decode_s = HUGE_VAL;
    decode(context, &source, name, &image);
    for (unsigned i = 0; i < rounds; i++) {
        picture_free(&file);
        free(back.pixels);
        encode_s = fmin(encode_s, encode(context, &image, request, &file));
        decode_s = fmin(decode_s, decode(context, &file, name, &back));
    }
    compare(&image, &back, sums);
    sums->pixels += (double)image.width * image.height;
    sums->bytes += (double)file.length;
    sums->encode_s += encode_s;
    sums->decode_s += decode_s;
    if (prints_each)
        print_one(&image, &back, file.length, encode_s, decode_s);
    picture_free(&source);
    picture_free(&file);
    free(image.pixels);
    free(back.pixels);
}

int main(int argc, char **argv)
{
    const char *name = "webp";
    unsigned quality = 0, effort = 99, lossless = 0, rounds = 3;
    const struct argument options[] = {{"format", .text = &name},
                                       {"quality", .number = &quality},
                                       {"effort", .number = &effort},
                                       {"lossless", .number = &lossless},
                                       {"rounds", .number = &rounds},
                                       {"each", .flag = &prints_each},
                                       {"decoded", .text = &decoded_folder},
                                       {.name = NULL}};
    int first = arguments_read(argc, argv, options);
    mallopt(M_MMAP_THRESHOLD, HEAP_BLOCK_BYTES); /* as in the daemon */
    mallopt(M_TRIM_THRESHOLD, HEAP_KEPT_BYTES);
    struct encode_request request = {.format = format_by_name(name)};
    struct codec_context *context = codec_context_create();
    struct sums sums = {0};
    if (!request.format || !context)
        return 1;
    for (unsigned i = 0; i < PARAMETER_COUNT; i++)
        *encoder_setting(&request.encoder, i) = format_default(request.format, i);
    request.encoder.quality = quality ? (int)quality : request.encoder.quality;
    request.encoder.effort = effort <= 6 ? (int)effort : request.encoder.effort;
    request.encoder.lossless = lossless != 0;
    for (int i = first; i < argc; i++)
        add_file(context, argv[i], &request, rounds, &sums);
    codec_context_destroy(context);
    if (prints_each)
        return 0;
    double error = sums.samples > 0 ? sums.squares / sums.samples : 0;
    printf("{\"pixels\":%.0f,\"bytes\":%.0f,\"encode_s\":%.4f,\"decode_s\":%.4f,\"psnr\":%.2f}\n",
           sums.pixels, sums.bytes, sums.encode_s, sums.decode_s,
           error > 0 ? 10 * log10(255 * 255 / error) : 99.0);
    return 0;
}
