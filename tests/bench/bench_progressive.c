/*
 * bench_progressive - compares the row decoder of progressive JPEGs with libjpeg on one core.
 *
 *     bench_progressive [--rounds 9] [--eighths 8] FILE...
 *
 * Decodes each file to Y and to RGB, in turns: by the codec, and by the same codec with libjpeg
 * decoding the scans. Inverse DCT, upsampling and colours are libjpeg's in both cases. Prints the
 * medians of the CPU time of a decode. The samples must be equal. Files that are no progressive
 * JPEGs in colour are skipped. A file that the row decoder leaves to libjpeg is an error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/jpeg/state.h"
#include "tests/fixtures/arguments.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/picture.h"

#define ROUNDS_MAX 101

enum { LIBJPEG, ROWS, CONTESTANTS };
enum { LUMA, COLOUR, TARGETS };

static const struct codec_limits limits = {
    .pixels_max = PIXELS_DEFAULT, .side_max = SIDE_DEFAULT, .jpeg_scans_max = JPEG_SCANS_DEFAULT,
    .jpeg_warnings_max = JPEG_WARNINGS_MAX, .kept_bytes_max = 1024 * MIB};

static struct {
    unsigned rounds, eighths;
    struct codec_context *context;
    struct jpeg_state states[CONTESTANTS];
    double sums[TARGETS][CONTESTANTS], megapixels;
} bench = {.rounds = 9, .eighths = DECODE_EIGHTHS, .states = {[LIBJPEG] = {.by_libjpeg = true}}};

static _Noreturn void stop(const char *name, const char *why)
{
    fprintf(stderr, "bench_progressive: %s: %s\n", name, why);
    exit(1);
}

static double decode(const char *name, const struct picture_file *file,
                     const struct image_info *info, int contestant, const struct image *image)
{
    struct error error = {0};
    struct decode_request request = {image->channels == 1 ? DECODE_LUMA : DECODE_COLOUR,
                                     bench.eighths};
    double start = clock_s(CLOCK_THREAD_CPUTIME_ID);
    codec_jpeg.decode(&bench.states[contestant], file->bytes, file->length, info, &request, &limits,
                      image, &error);
    double seconds = clock_s(CLOCK_THREAD_CPUTIME_ID) - start;
    if (error.status != STATUS_OK)
        stop(name, error.text);
    if (contestant == ROWS && bench.states[ROWS].row_decoder == NULL)
        stop(name, "the row decoder leaves the file to libjpeg");
    return seconds;
}

/* Prints the times and their ratio. */
static void print_times(const double seconds[CONTESTANTS])
{
    printf(" %8.2f | %8.2f | %5.2f |", 1e3 * seconds[LIBJPEG], 1e3 * seconds[ROWS],
           seconds[LIBJPEG] / seconds[ROWS]);
}

static void compare(const char *name, const struct picture_file *file,
                    const struct image_info *info, int target)
{
    double seconds[CONTESTANTS][ROUNDS_MAX], medians[CONTESTANTS];
    struct image images[CONTESTANTS];
    for (int i = 0; i < CONTESTANTS; i++) {
        struct image *image = &images[i];
        image->width = image_scaled(info->width, bench.eighths);
        image->height = image_scaled(info->height, bench.eighths);
        image->channels = target == LUMA ? 1 : info->channels;
        image->stride = image_stride(image->width, image->channels);
        image->pixels = calloc(image->height, image->stride);
        if (image->pixels == NULL)
            stop(name, "there is not enough memory");
        decode(name, file, info, i, image); /* warms up */
    }
    if (memcmp(images[0].pixels, images[1].pixels, images[0].stride * images[0].height) != 0)
        stop(name, "the samples differ");
    for (unsigned round = 0; round < bench.rounds; round++)
        for (int turn = 0; turn < CONTESTANTS; turn++) {
            int i = (int)(round + (unsigned)turn) % CONTESTANTS;
            seconds[i][round] = decode(name, file, info, i, &images[i]);
        }
    for (int i = 0; i < CONTESTANTS; i++) {
        medians[i] = median(seconds[i], bench.rounds);
        bench.sums[target][i] += medians[i];
        free(images[i].pixels);
    }
    print_times(medians);
}

static void compare_file(const char *path)
{
    struct picture_file file = picture_load(path);
    struct image_info info;
    struct error error = {0};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (codec_probe(bench.context, file.bytes, file.length, &limits, &info, &error) != STATUS_OK)
        stop(name, error.text);
    if (info.format == &formats[FORMAT_jpeg] && info.progressive && info.ycc) {
        double megapixels = 1e-6 * info.width * info.height;
        bench.megapixels += megapixels;
        printf("| %s | %.1f |", name, megapixels);
        compare(name, &file, &info, LUMA);
        compare(name, &file, &info, COLOUR);
        printf("\n");
    }
    image_info_clear(&info);
    picture_free(&file);
}

int main(int argc, char **argv)
{
    const struct argument options[] = {
        {"rounds", .number = &bench.rounds}, {"eighths", .number = &bench.eighths}, {.name = NULL}};
    int first = arguments_read(argc, argv, options);
    if (first < 0 || first == argc || bench.rounds < 1 || bench.rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_progressive [--rounds 1..%d] [--eighths 1|2|4|8] FILE...\n",
                ROUNDS_MAX);
        return 64;
    }
    bench.context = codec_context_create();
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("| file | MP | Y: libjpeg, ms | by rows, ms | ratio | RGB: libjpeg, ms | by rows, ms | "
           "ratio |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (int i = first; i < argc; i++)
        compare_file(argv[i]);
    printf("| sum | %.1f |", bench.megapixels);
    print_times(bench.sums[LUMA]);
    print_times(bench.sums[COLOUR]);
    printf("\n| MP/s | |");
    for (int target = 0; target < TARGETS; target++)
        printf(" %.0f | %.0f | |", bench.megapixels / bench.sums[target][LIBJPEG],
               bench.megapixels / bench.sums[target][ROWS]);
    printf("\n");
    for (int i = 0; i < CONTESTANTS; i++)
        codec_jpeg.close(&bench.states[i]);
    codec_context_destroy(bench.context);
    return 0;
}
