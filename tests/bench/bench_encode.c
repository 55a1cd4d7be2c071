/*
 * bench_encode - compares the cost and the size of JPEGs with other parameters to those of a plain
 * JPEG, on one core.
 *
 *     bench_encode [--rounds 5] FILE...
 *
 * Decodes each file to RGB and encodes it in turns with each set of parameters. max_bytes is half
 * the size of the plain file. Prints the sums of the medians of CPU time, of the bytes, and of the
 * encodes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/quality.h"
#include "tests/fixtures/arguments.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/picture.h"

#define ROUNDS_MAX 101
#define PARTS 2 /* the plain file has so many times max_bytes */

static const struct set {
    const char *name;
    struct encoder_settings settings; /* max_bytes 1: the plain file's size / PARTS */
} sets[] = {
    {"plain, 4:2:0", {.quality = 85}},
    {"4:2:2", {.quality = 85, .subsampling = SUBSAMPLING_422}},
    {"4:4:4", {.quality = 85, .subsampling = SUBSAMPLING_444}},
    {"gray", {.quality = 85, .subsampling = SUBSAMPLING_GRAY}},
    {"optimize", {.quality = 85, .optimize = 1}},
    {"progressive", {.quality = 85, .progressive = 1}},
    {"max_bytes", {.quality = 85, .max_bytes = 1}},
    {"max_bytes, optimize", {.quality = 85, .optimize = 1, .max_bytes = 1}},
};
#define SETS (sizeof sets / sizeof *sets)

static const struct codec_limits limits = {
    .pixels_max = PIXELS_CEILING, .side_max = SIDE_CEILING, .jpeg_scans_max = JPEG_SCANS_DEFAULT,
    .jpeg_warnings_max = JPEG_WARNINGS_MAX};

static struct {
    unsigned rounds;
    struct codec_context *context;
    double seconds[SETS], bytes[SETS], part[SETS], least[SETS], megapixels; /* part: of max_bytes */
    size_t count;
    uint8_t buffer[SINK_BYTES];
} bench = {.rounds = 5};

static _Noreturn void stop(const char *name, const char *why)
{
    fprintf(stderr, "bench_encode: %s: %s\n", name, why);
    exit(1);
}

static enum status discard(struct codec_sink *sink, size_t used, struct error *error)
{
    (void)sink, (void)used, (void)error;
    return STATUS_OK;
}

/* Encodes as the daemon does. Returns the bytes of the file. */
static uint64_t encode(const char *name, const struct image *image, struct encode_request request)
{
    struct error error = {0};
    struct codec_sink sink = {bench.buffer, sizeof bench.buffer, .flush = discard};
    enum status status = STATUS_OK;
    if (request.encoder.max_bytes > 0)
        status = codec_find_quality(bench.context, image, &request, bench.buffer,
                                    sizeof bench.buffer, &request.encoder.quality, &error);
    if (status == STATUS_OK)
        status = codec_encode(bench.context, image, &request, &sink, &error);
    if (status != STATUS_OK)
        stop(name, error.text);
    return sink.total;
}

static void measure(const char *name, const struct image *image)
{
    double seconds[SETS][ROUNDS_MAX];
    uint64_t bytes[SETS];
    for (unsigned round = 0; round < bench.rounds; round++)
        for (size_t s = 0; s < SETS; s++) {
            struct encode_request request = {.format = &formats[FORMAT_jpeg],
                                             .encoder = sets[s].settings};
            if (request.encoder.max_bytes > 0)
                request.encoder.max_bytes = (int)(bytes[0] / PARTS);
            double start = clock_s(CLOCK_THREAD_CPUTIME_ID);
            bytes[s] = encode(name, image, request);
            seconds[s][round] = clock_s(CLOCK_THREAD_CPUTIME_ID) - start;
        }
    for (size_t s = 0; s < SETS; s++) {
        double part = (double)bytes[s] * PARTS / (double)bytes[0];
        bench.seconds[s] += median(seconds[s], bench.rounds);
        bench.bytes[s] += (double)bytes[s];
        bench.part[s] += part;
        bench.least[s] = bench.count == 0 || part < bench.least[s] ? part : bench.least[s];
    }
    bench.count++;
}

static void measure_file(const char *path)
{
    struct picture_file file = picture_load(path);
    struct image_info info;
    struct error error = {0};
    struct decode_request request = {.as = DECODE_COLOUR};
    if (codec_probe(bench.context, file.bytes, file.length, &limits, &info, &error) != STATUS_OK)
        stop(path, error.text);
    struct image image = {NULL, info.width, info.height, info.channels,
                          image_stride(info.width, info.channels)};
    image.pixels = malloc(image.stride * image.height);
    if (image.pixels == NULL)
        stop(path, "there is not enough memory");
    if (codec_decode(bench.context, file.bytes, file.length, &info, &request, &limits, &image,
                     &error) != STATUS_OK)
        stop(path, error.text);
    if (image.channels == 3) {
        bench.megapixels += 1e-6 * image.width * image.height;
        measure(path, &image);
    }
    free(image.pixels);
    image_info_clear(&info);
    picture_free(&file);
}

int main(int argc, char **argv)
{
    const struct argument options[] = {{"rounds", .number = &bench.rounds}, {.name = NULL}};
    int first = arguments_read(argc, argv, options);
    if (first < 0 || first == argc || bench.rounds < 1 || bench.rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_encode [--rounds 1..%d] FILE...\n", ROUNDS_MAX);
        return 64;
    }
    bench.context = codec_context_create();
    for (int i = first; i < argc; i++)
        measure_file(argv[i]);
    printf("%zu images, %.1f MP\n\n"
           "| output | MP/s | time | bytes | of max_bytes, mean and least |\n"
           "| --- | --- | --- | --- | --- |\n", bench.count, bench.megapixels);
    for (size_t s = 0; s < SETS && bench.count > 0; s++) {
        printf("| %s | %.0f | %.2f | %.3f |", sets[s].name, bench.megapixels / bench.seconds[s],
               bench.seconds[s] / bench.seconds[0], bench.bytes[s] / bench.bytes[0]);
        if (sets[s].settings.max_bytes > 0)
            printf(" %.3f, %.3f |\n", bench.part[s] / (double)bench.count, bench.least[s]);
        else
            printf(" |\n");
    }
    codec_context_destroy(bench.context);
    return 0;
}
