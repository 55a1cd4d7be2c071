/*
 * bench_png - PNG against what the libraries below it can do, and which settings are worth it.
 *
 *     bench_png --folder F [--rounds 5] [--count 6]        compare
 *     bench_png curve --folder F [--count 4] [--svg FILE]  every level, filter and strategy
 *
 * The pictures are the middles (at most 1600 x 1200, of the curve half of that) of the first
 * photographs below the folder, and the edges (sobel) of each. All work on memory, with buffers
 * that are reused, on one thread, and take turns; what is told is the median over the rounds, in
 * CPU time and wall time.
 *
 * The codec of codecs/ is set beside libpng with the same settings, libspng with the same settings
 * (where it is installed), and beside what is in any PNG: zlib's deflate and inflate of the same
 * filtered rows, and libdeflate's (where it is installed).
 */
#include <ftw.h>
#include <getopt.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <png.h>
#include <zlib.h>
#ifdef HAVE_SPNG
#include <spng.h>
#endif
#ifdef HAVE_LIBDEFLATE
#include <libdeflate.h>
#endif

#include "codecs/codec.h"
#include "queue/job.h"
#include "tests/tools/reference.h"

#define PICTURES_MAX 16
#define ROUNDS_MAX 31
#define WIDTH_MAX 1600
#define HEIGHT_MAX 1200

struct bytes {
    uint8_t *at;
    size_t used, capacity;
};

struct picture {
    struct raster raster;
    struct image image;      /* the same pixels as a job has them */
    struct bytes png;        /* as the codec writes it by default */
    struct bytes filtered;   /* its rows, as they are compressed */
    struct bytes compressed; /* its IDATs together */
};

/* One set is the photographs, the other their edges. */
struct set {
    const char *name;
    struct picture pictures[PICTURES_MAX];
    size_t count;
    double raw_bytes;
};

static struct bench {
    const char *folder, *svg;
    bool curve;
    unsigned rounds, count;
    struct set sets[2];
    struct codec_context *codec;
    struct bytes out;      /* what encoders write to */
    uint8_t *pixels, *sink;
    z_stream deflater, inflater;
#ifdef HAVE_LIBDEFLATE
    struct libdeflate_compressor *compressors[13];
    struct libdeflate_decompressor *decompressor;
#endif
} bench = {.rounds = 5, .count = 4};

static void need(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "bench_png: %s failed\n", what);
    exit(1);
}

static void append(struct bytes *to, const void *bytes, size_t count)
{
    need(to->used + count <= to->capacity, "the size of an output");
    memcpy(to->at + to->used, bytes, count);
    to->used += count;
}

static void reserve(struct bytes *bytes, size_t capacity)
{
    *bytes = (struct bytes){.at = malloc(capacity), .capacity = capacity};
    need(bytes->at != NULL, "memory");
}

static size_t row_bytes(const struct picture *picture)
{
    return (size_t)picture->raster.width * picture->raster.channels;
}

/* ---- encoding ------------------------------------------------------------------------------- */

static enum status keep(struct codec_sink *sink, size_t used, struct error *error)
{
    (void)error;
    append(&bench.out, sink->buffer, used);
    return STATUS_OK;
}

static void encode_codec(const struct picture *picture, int level)
{
    struct encode_request request = {.codec = codec_by_name("png"), .compression = level};
    struct codec_sink sink = {.buffer = bench.sink, .capacity = SINK_BYTES, .flush = keep};
    struct error error = {0};
    need(codec_encode(bench.codec, &picture->image, &request, &sink, &error) == STATUS_OK,
         "the codec");
}

static void libpng_write(png_structp png, png_bytep bytes, size_t count)
{
    append(png_get_io_ptr(png), bytes, count);
}

static void libpng_flush(png_structp png)
{
    (void)png;
}

/* strategy -1: libpng's own choice. */
static void encode_libpng(const struct picture *picture, int level, int filters, int strategy)
{
    static const int types[] = {0, PNG_COLOR_TYPE_GRAY, 0, PNG_COLOR_TYPE_RGB,
                                PNG_COLOR_TYPE_RGB_ALPHA};
    const struct image *image = &picture->image;
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    need(setjmp(png_jmpbuf(png)) == 0, "libpng");
    png_set_write_fn(png, &bench.out, libpng_write, libpng_flush);
    png_set_compression_level(png, level);
    if (strategy >= 0)
        png_set_compression_strategy(png, strategy);
    png_set_compression_buffer_size(png, 64 << 10);
    png_set_filter(png, PNG_FILTER_TYPE_BASE, filters);
    png_set_IHDR(png, info, image->width, image->height, 8, types[image->channels],
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (uint32_t y = 0; y < image->height; y++)
        png_write_row(png, image->pixels + y * image->stride);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
}

static void encode_zlib(const struct picture *picture, int level)
{
    z_stream *stream = &bench.deflater;
    deflateReset(stream);
    deflateParams(stream, level, Z_RLE);
    stream->next_in = picture->filtered.at;
    stream->avail_in = (uInt)picture->filtered.used;
    stream->next_out = bench.out.at;
    stream->avail_out = (uInt)bench.out.capacity;
    need(deflate(stream, Z_FINISH) == Z_STREAM_END, "deflate");
    bench.out.used = stream->total_out;
}

#ifdef HAVE_LIBDEFLATE
static void encode_libdeflate(const struct picture *picture, int level)
{
    bench.out.used = libdeflate_zlib_compress(bench.compressors[level], picture->filtered.at,
                                              picture->filtered.used, bench.out.at,
                                              bench.out.capacity);
    need(bench.out.used > 0, "libdeflate_zlib_compress");
}
#endif

#ifdef HAVE_SPNG
static int spng_keep(spng_ctx *context, void *user, void *from, size_t count)
{
    (void)context;
    append(user, from, count);
    return 0;
}

/* The rows are tight in the raster, as libspng wants them. */
static void encode_spng(const struct picture *picture, int level, int filters)
{
    static const uint8_t types[] = {0, SPNG_COLOR_TYPE_GRAYSCALE, 0, SPNG_COLOR_TYPE_TRUECOLOR,
                                    SPNG_COLOR_TYPE_TRUECOLOR_ALPHA};
    const struct raster *raster = &picture->raster;
    struct spng_ihdr header = {.width = raster->width, .height = raster->height, .bit_depth = 8,
                               .color_type = types[raster->channels]};
    spng_ctx *context = spng_ctx_new(SPNG_CTX_ENCODER);
    spng_set_png_stream(context, spng_keep, &bench.out);
    spng_set_ihdr(context, &header);
    spng_set_option(context, SPNG_IMG_COMPRESSION_LEVEL, level);
    spng_set_option(context, SPNG_IMG_COMPRESSION_STRATEGY, Z_RLE);
    spng_set_option(context, SPNG_FILTER_CHOICE, filters);
    need(spng_encode_image(context, raster->pixels, row_bytes(picture) * raster->height,
                           SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE) == 0, "libspng");
    spng_ctx_free(context);
}
#endif

/* ---- decoding ------------------------------------------------------------------------------- */

static void decode_codec(const struct picture *picture)
{
    struct codec_limits limits = {.pixels_max = PIXELS_DEFAULT, .side_max = SIDE_DEFAULT};
    struct decode_request request = {.as = DECODE_COLOUR};
    struct image_info info = {0};
    struct error error = {0};
    struct image image = picture->image;
    image.pixels = bench.pixels;
    need(codec_probe(bench.codec, picture->png.at, picture->png.used, &limits, &info, &error) ==
                 STATUS_OK &&
             codec_decode(bench.codec, picture->png.at, picture->png.used, &info, &request,
                          &limits, &image, &error) == STATUS_OK, "the codec");
    image_info_clear(&info);
}

struct reader {
    const struct bytes *from;
    size_t at;
};

static void libpng_read(png_structp png, png_bytep to, size_t count)
{
    struct reader *reader = png_get_io_ptr(png);
    memcpy(to, reader->from->at + reader->at, count);
    reader->at += count;
}

static void decode_libpng(const struct picture *picture)
{
    struct reader reader = {.from = &picture->png};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    need(setjmp(png_jmpbuf(png)) == 0, "libpng");
    png_set_read_fn(png, &reader, libpng_read);
    png_read_info(png, info);
    for (uint32_t y = 0; y < picture->image.height; y++)
        png_read_row(png, bench.pixels + y * picture->image.stride, NULL);
    png_read_end(png, NULL);
    png_destroy_read_struct(&png, &info, NULL);
}

static void decode_zlib(const struct picture *picture)
{
    z_stream *stream = &bench.inflater;
    inflateReset(stream);
    stream->next_in = picture->compressed.at;
    stream->avail_in = (uInt)picture->compressed.used;
    stream->next_out = bench.out.at;
    stream->avail_out = (uInt)bench.out.capacity;
    need(inflate(stream, Z_FINISH) == Z_STREAM_END, "inflate");
}

#ifdef HAVE_LIBDEFLATE
static void decode_libdeflate(const struct picture *picture)
{
    size_t got;
    need(libdeflate_zlib_decompress(bench.decompressor, picture->compressed.at,
                                    picture->compressed.used, bench.out.at, bench.out.capacity,
                                    &got) == LIBDEFLATE_SUCCESS, "libdeflate_zlib_decompress");
}
#endif

#ifdef HAVE_SPNG
static void decode_spng(const struct picture *picture)
{
    spng_ctx *context = spng_ctx_new(0);
    size_t size = row_bytes(picture) * picture->raster.height;
    spng_set_png_buffer(context, picture->png.at, picture->png.used);
    need(spng_decode_image(context, bench.pixels, size, SPNG_FMT_PNG, 0) == 0, "libspng");
    spng_ctx_free(context);
}
#endif

/* ---- pictures ------------------------------------------------------------------------------- */

static struct raster middle_of(const struct raster *from)
{
    uint32_t part = bench.curve ? 2 : 1;
    uint32_t width = from->width < WIDTH_MAX / part ? from->width : WIDTH_MAX / part;
    uint32_t height = from->height < HEIGHT_MAX / part ? from->height : HEIGHT_MAX / part;
    struct raster to = raster_make(width, height, from->channels);
    for (uint32_t y = 0; y < height; y++)
        memcpy(raster_at(&to, 0, y),
               raster_at(from, (from->width - width) / 2, (from->height - height) / 2 + y),
               (size_t)width * from->channels);
    return to;
}

/* The picture's own IDATs, which follow one another, and what is in them. */
static void take_apart(struct picture *picture)
{
    const uint8_t *bytes = picture->png.at;
    reserve(&picture->compressed, picture->png.used);
    reserve(&picture->filtered, (row_bytes(picture) + 1) * picture->raster.height);
    for (size_t at = 8; at + 12 <= picture->png.used;) {
        size_t count = (size_t)bytes[at] << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 |
                       bytes[at + 3];
        if (memcmp(bytes + at + 4, "IDAT", 4) == 0)
            append(&picture->compressed, bytes + at + 8, count);
        at += 12 + count;
    }
    uLongf length = picture->filtered.capacity;
    need(uncompress(picture->filtered.at, &length, picture->compressed.at,
                    picture->compressed.used) == Z_OK && length == picture->filtered.capacity,
         "taking a PNG apart");
    picture->filtered.used = length;
}

static void add_picture(struct set *set, struct raster raster)
{
    struct picture *picture = &set->pictures[set->count++];
    size_t stride = image_stride(raster.width, raster.channels);
    *picture = (struct picture){.raster = raster,
                                .image = {.width = raster.width, .height = raster.height,
                                          .channels = raster.channels, .stride = stride}};
    picture->image.pixels = malloc(stride * raster.height);
    need(picture->image.pixels != NULL, "memory");
    for (uint32_t y = 0; y < raster.height; y++)
        memcpy(picture->image.pixels + y * stride, raster_at(&raster, 0, y), row_bytes(picture));
    bench.out.used = 0;
    encode_codec(picture, JOB_COMPRESSION_DEFAULT);
    reserve(&picture->png, bench.out.used);
    append(&picture->png, bench.out.at, bench.out.used);
    take_apart(picture);
    set->raw_bytes += (double)row_bytes(picture) * raster.height;
}

static int add_file(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    const char *suffix = strrchr(path, '.');
    (void)st, (void)ftw;
    if (kind != FTW_F || !suffix || bench.sets[0].count == bench.count ||
        (strcasecmp(suffix, ".jpg") && strcasecmp(suffix, ".jpeg") && strcasecmp(suffix, ".png")))
        return 0;
    struct raster colour = raster_load(path, RASTER_COLOUR), luma = raster_load(path, RASTER_LUMA);
    if (colour.pixels && colour.channels == 3 && luma.channels == 1 && colour.width >= 640) {
        struct raster small = middle_of(&luma);
        add_picture(&bench.sets[0], middle_of(&colour));
        add_picture(&bench.sets[1],
                    reference_sobel(&small, REFERENCE_HALF, REFERENCE_REFLECT101));
        raster_clear(&small);
    }
    raster_clear(&colour);
    raster_clear(&luma);
    return 0;
}

/* ---- comparing ------------------------------------------------------------------------------ */

enum how { CODEC, LIBPNG, SUB3, SPNG, ZLIB, LIBDEFLATE };

struct contestant {
    const char *name;
    enum how how;
    bool decodes;
    int level; /* of libdeflate */
};

static const struct contestant contestants[] = {
    {"codecs/png.c", CODEC, false, 0},
    {"libpng alone, same settings", LIBPNG, false, 0},
    {"libpng: sub, zlib's level 3", SUB3, false, 0},
#ifdef HAVE_SPNG
    {"libspng, same settings", SPNG, false, 0},
#endif
    {"zlib: deflate of the same rows", ZLIB, false, 0},
#ifdef HAVE_LIBDEFLATE
    {"libdeflate 1 of the same rows", LIBDEFLATE, false, 1},
    {"libdeflate 2", LIBDEFLATE, false, 2},
    {"libdeflate 3", LIBDEFLATE, false, 3},
    {"libdeflate 4", LIBDEFLATE, false, 4},
    {"libdeflate 6", LIBDEFLATE, false, 6},
#endif
    {"codecs/png.c", CODEC, true, 0},
    {"libpng alone", LIBPNG, true, 0},
#ifdef HAVE_SPNG
    {"libspng", SPNG, true, 0},
#endif
    {"zlib: inflate alone", ZLIB, true, 0},
#ifdef HAVE_LIBDEFLATE
    {"libdeflate: inflate alone", LIBDEFLATE, true, 0},
#endif
};
#define CONTESTANTS (sizeof contestants / sizeof *contestants)

static void encode(const struct contestant *who, const struct picture *picture)
{
    if (who->how == CODEC)
        encode_codec(picture, JOB_COMPRESSION_DEFAULT);
    else if (who->how == LIBPNG)
        encode_libpng(picture, JOB_COMPRESSION_DEFAULT, PNG_FILTER_PAETH, Z_RLE);
    else if (who->how == SUB3)
        encode_libpng(picture, 3, PNG_FILTER_SUB, -1);
#ifdef HAVE_SPNG
    else if (who->how == SPNG)
        encode_spng(picture, JOB_COMPRESSION_DEFAULT, SPNG_FILTER_CHOICE_PAETH);
#endif
    else if (who->how == ZLIB)
        encode_zlib(picture, JOB_COMPRESSION_DEFAULT);
#ifdef HAVE_LIBDEFLATE
    else
        encode_libdeflate(picture, who->level);
#endif
}

static void decode(const struct contestant *who, const struct picture *picture)
{
    if (who->how == CODEC)
        decode_codec(picture);
    else if (who->how == LIBPNG)
        decode_libpng(picture);
#ifdef HAVE_SPNG
    else if (who->how == SPNG)
        decode_spng(picture);
#endif
    else if (who->how == ZLIB)
        decode_zlib(picture);
#ifdef HAVE_LIBDEFLATE
    else
        decode_libdeflate(picture);
#endif
}

static double clock_s(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

struct time {
    double cpu_s, wall_s, bytes;
};

static struct time turn(const struct contestant *who, const struct set *set)
{
    struct time time = {0};
    double cpu = clock_s(CLOCK_THREAD_CPUTIME_ID), wall = clock_s(CLOCK_MONOTONIC);
    for (size_t i = 0; i < set->count; i++) {
        bench.out.used = 0;
        if (who->decodes)
            decode(who, &set->pictures[i]);
        else
            encode(who, &set->pictures[i]);
        time.bytes += (double)bench.out.used;
    }
    time.cpu_s = clock_s(CLOCK_THREAD_CPUTIME_ID) - cpu;
    time.wall_s = clock_s(CLOCK_MONOTONIC) - wall;
    return time;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *values, unsigned count)
{
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

/* The ratio is of CPU time, libpng's over the contestant's, in the same round. */
static void report(const struct set *set, struct time times[CONTESTANTS][ROUNDS_MAX])
{
    size_t floor = 0;
    for (size_t c = 0; c < CONTESTANTS; c++) {
        double cpu[ROUNDS_MAX], wall[ROUNDS_MAX], ratio[ROUNDS_MAX];
        if (c == 0 || contestants[c].decodes != contestants[c - 1].decodes) {
            printf("\n%-9s %-32s %9s %9s %7s %10s\n", contestants[c].decodes ? "decode" : "encode",
                   set->name, "CPU MB/s", "wall MB/s", "ratio", "size");
            floor = c + 1;
        }
        for (unsigned r = 0; r < bench.rounds; r++) {
            cpu[r] = times[c][r].cpu_s;
            wall[r] = times[c][r].wall_s;
            ratio[r] = times[floor][r].cpu_s / times[c][r].cpu_s;
        }
        printf("%-9s %-32s %9.1f %9.1f %7.2f", "", contestants[c].name,
               set->raw_bytes / median(cpu, bench.rounds) / 1e6,
               set->raw_bytes / median(wall, bench.rounds) / 1e6, median(ratio, bench.rounds));
        if (contestants[c].decodes)
            printf("\n");
        else
            printf(" %9.1f%%\n", 100 * times[c][0].bytes / set->raw_bytes);
    }
}

static void compare(void)
{
    static struct time times[CONTESTANTS][ROUNDS_MAX];
    for (size_t s = 0; s < 2; s++) {
        for (unsigned r = 0; r < bench.rounds; r++)
            for (size_t c = 0; c < CONTESTANTS; c++)
                times[c][r] = turn(&contestants[c], &bench.sets[s]);
        report(&bench.sets[s], times);
    }
}

/* ---- the curve ------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    int filters;
} filters[] = {{"none", PNG_FILTER_NONE}, {"sub", PNG_FILTER_SUB},     {"up", PNG_FILTER_UP},
               {"avg", PNG_FILTER_AVG},   {"paeth", PNG_FILTER_PAETH}, {"all", PNG_ALL_FILTERS}};
#define BY_LIBDEFLATE (-2) /* no strategy of zlib's */
static const struct {
    const char *name;
    int strategy;
} strategies[] = {{"default", Z_DEFAULT_STRATEGY}, {"filtered", Z_FILTERED},
                  {"huffman", Z_HUFFMAN_ONLY},     {"rle", Z_RLE},
#ifdef HAVE_LIBDEFLATE
                  {"deflate*", BY_LIBDEFLATE}
#endif
};
#define FILTERS    6
#define STRATEGIES (sizeof strategies / sizeof *strategies)
#define LEVELS     10
#define PAETH      4 /* of filters */
#define RUNS       3 /* of strategies */

/* Seconds of CPU time a megapixel, and bytes a pixel. */
static struct point {
    double seconds, bytes;
} points[2][FILTERS][sizeof strategies / sizeof *strategies][LEVELS];

static double pixels_of(const struct set *set)
{
    double pixels = 0;
    for (size_t i = 0; i < set->count; i++)
        pixels += (double)set->pictures[i].image.width * set->pictures[i].image.height;
    return pixels;
}

/* Rows as libpng filters them, compressed by libdeflate; the filter's time is not in it. */
static void measure_libdeflate(size_t s, size_t f, size_t t, int level)
{
#ifdef HAVE_LIBDEFLATE
    const struct set *set = &bench.sets[s];
    double bytes = 0, seconds = 0;
    for (size_t i = 0; i < set->count; i++) {
        struct picture picture = set->pictures[i];
        bench.out.used = 0;
        encode_libpng(&picture, 1, filters[f].filters, Z_DEFAULT_STRATEGY);
        picture.png = bench.out;
        take_apart(&picture);
        double start = clock_s(CLOCK_THREAD_CPUTIME_ID);
        encode_libdeflate(&picture, level > 0 ? level : 1);
        seconds += clock_s(CLOCK_THREAD_CPUTIME_ID) - start;
        bytes += (double)bench.out.used;
        free(picture.filtered.at);
        free(picture.compressed.at);
    }
    points[s][f][t][level] = (struct point){seconds / pixels_of(set) * 1e6, bytes / pixels_of(set)};
#else
    (void)s, (void)f, (void)t, (void)level;
#endif
}

static void measure(size_t s, size_t f, size_t t, int level)
{
    const struct set *set = &bench.sets[s];
    struct point *point = &points[s][f][t][level];
    if (strategies[t].strategy == BY_LIBDEFLATE) {
        measure_libdeflate(s, f, t, level);
        return;
    }
    double bytes = 0, start = clock_s(CLOCK_THREAD_CPUTIME_ID);
    for (size_t i = 0; i < set->count; i++) {
        bench.out.used = 0;
        encode_libpng(&set->pictures[i], level, filters[f].filters, strategies[t].strategy);
        bytes += (double)bench.out.used;
    }
    point->seconds = (clock_s(CLOCK_THREAD_CPUTIME_ID) - start) / pixels_of(set) * 1e6;
    point->bytes = bytes / pixels_of(set);
}

/* Whether nothing else is both as small and as fast. */
static bool is_best(size_t s, const struct point *point)
{
    const struct point *all = &points[s][0][0][0];
    for (size_t i = 0; i < FILTERS * STRATEGIES * LEVELS; i++)
        if (all[i].seconds < point->seconds && all[i].bytes < point->bytes)
            return false;
    return true;
}

static void print_curve(size_t s)
{
    printf("\n%s: ms of CPU a megapixel, bytes a pixel; * where nothing is both faster and "
           "smaller\n%-6s %-9s", bench.sets[s].name, "filter", "strategy");
    for (int level = 0; level < LEVELS; level++)
        printf("%13d", level);
    printf("\n");
    for (size_t f = 0; f < FILTERS; f++) {
        for (size_t t = 0; t < STRATEGIES; t++) {
            printf("%-6s %-9s", filters[f].name, strategies[t].name);
            for (int level = 0; level < LEVELS; level++) {
                const struct point *point = &points[s][f][t][level];
                printf(" %6.1f %.2f%c", point->seconds * 1e3, point->bytes,
                       is_best(s, point) ? '*' : ' ');
            }
            printf("\n");
        }
    }
}

/* ---- as a picture --------------------------------------------------------------------------- */

#define PLOT_WIDTH  460
#define PLOT_HEIGHT 340
#define PLOT_TOP    70
#define MS_MAX      160.0

static const char *const colours[FILTERS] = {"#6b7785", "#2b6fc2", "#18804b",
                                             "#b08800", "#7c4dcb", "#c2366b"};

static double plot_x(size_t s, double seconds)
{
    double ms = seconds * 1e3 < MS_MAX ? seconds * 1e3 : MS_MAX;
    return 60 + (double)s * (PLOT_WIDTH + 70) + PLOT_WIDTH * ms / MS_MAX;
}

/* What is beside the axes is drawn at their ends. */
static const struct {
    double low, high;
} axes[2] = {{1.4, 2.2}, {0.64, 0.8}};

static double plot_y(double bytes, size_t s)
{
    double share = (bytes - axes[s].low) / (axes[s].high - axes[s].low);
    return PLOT_TOP + PLOT_HEIGHT * (1 - (share < 0 ? 0 : share > 1 ? 1 : share));
}

static void draw_set(FILE *file, size_t s)
{
    double left = plot_x(s, 0), high = axes[s].high;
    int bottom = PLOT_TOP + PLOT_HEIGHT;
    fprintf(file, "<text class=\"h\" x=\"%.0f\" y=\"%d\">%s</text>\n", left, PLOT_TOP - 14,
            bench.sets[s].name);
    for (int i = 0; i <= 8; i++) {
        double x = left + PLOT_WIDTH * i / 8.0, y = PLOT_TOP + PLOT_HEIGHT * i / 8.0;
        fprintf(file,
                "<path class=\"g\" d=\"M%.1f %dV%dM%.1f %.1fh%d\"/>"
                "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>"
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.3g</text>\n",
                x, PLOT_TOP, bottom, left, y, PLOT_WIDTH, x, bottom + 16, MS_MAX * i / 8,
                left - 6, y + 4, high - (high - axes[s].low) * i / 8);
    }
    for (size_t f = 0; f < FILTERS; f++) {
        fprintf(file, "<polyline stroke=\"%s\" points=\"", colours[f]);
        for (int level = 1; level < LEVELS; level++)
            fprintf(file, "%.1f,%.1f ", plot_x(s, points[s][f][f > 0][level].seconds),
                    plot_y(points[s][f][f > 0][level].bytes, s));
        fputs("\"/>\n", file);
        for (int level = 1; level < LEVELS; level++) {
            const struct point *point = &points[s][f][f > 0][level];
            fprintf(file,
                    "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"><title>%s, level %d: "
                    "%.1f ms a megapixel, %.3f bytes a pixel</title></circle>\n",
                    plot_x(s, point->seconds), plot_y(point->bytes, s), colours[f],
                    filters[f].name, level, point->seconds * 1e3, point->bytes);
        }
        const struct point *runs = &points[s][f][RUNS][1];
        double x = plot_x(s, runs->seconds), y = plot_y(runs->bytes, s);
        fprintf(file,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"9\" height=\"9\" style=\"fill:%s\"><title>"
                      "%s, runs alone: %.1f ms a megapixel, %.3f bytes a pixel</title></rect>\n",
                x - 4.5, y - 4.5, colours[f], filters[f].name, runs->seconds * 1e3, runs->bytes);
        if (f == PAETH)
            fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"11\" fill=\"none\" stroke=\"%s\" "
                          "stroke-width=\"2\"/>\n", x, y, colours[f]);
    }
}

static void draw_curve(void)
{
    FILE *file = fopen(bench.svg, "w");
    need(file != NULL, bench.svg);
    fputs("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1070 480\" width=\"1070\" "
          "height=\"480\">\n<style>text{font-family:system-ui,'DejaVu Sans',sans-serif;"
          "font-size:12px;fill:#1f2328}.h{font-size:15px;font-weight:600}.g{stroke:#d5dbe1}"
          "polyline{fill:none;stroke-width:1.5}rect{fill:#fff}"
          "@media (prefers-color-scheme:dark){text{fill:#e6edf3}.g{stroke:#2d343d}"
          "rect{fill:#0d1117}}</style>\n<rect width=\"1070\" height=\"480\"/>\n"
          "<text class=\"h\" x=\"60\" y=\"26\">PNG: bytes a pixel over ms of CPU a megapixel</text>"
          "<text x=\"560\" y=\"460\">lines: zlib's levels 1 to 9, from left to right; squares: "
          "runs alone; ring: the default</text>\n", file);
    for (size_t s = 0; s < 2; s++)
        draw_set(file, s);
    for (size_t f = 0; f < FILTERS; f++)
        fprintf(file, "<circle cx=\"%zu\" cy=\"456\" r=\"5\" fill=\"%s\"/><text x=\"%zu\" "
                      "y=\"460\">%s</text>\n", 66 + 80 * f, colours[f], 76 + 80 * f,
                filters[f].name);
    fputs("</svg>\n", file);
    need(fclose(file) == 0, bench.svg);
}

static void curve(void)
{
    for (size_t s = 0; s < 2; s++) {
        for (size_t f = 0; f < FILTERS; f++)
            for (size_t t = 0; t < STRATEGIES; t++)
                for (int level = 0; level < LEVELS; level++)
                    measure(s, f, t, level);
        print_curve(s);
        fflush(stdout);
    }
    if (bench.svg)
        draw_curve();
}

/* ---- main ----------------------------------------------------------------------------------- */

static void open_tools(void)
{
    size_t most = (size_t)WIDTH_MAX * HEIGHT_MAX * 4 + (1 << 20);
    bench.sets[0].name = "photographs";
    bench.sets[1].name = "edges";
    bench.codec = codec_context_create();
    bench.sink = malloc(SINK_BYTES);
    bench.pixels = malloc(most);
    reserve(&bench.out, most);
    need(bench.codec && bench.sink && bench.pixels && inflateInit(&bench.inflater) == Z_OK &&
             deflateInit2(&bench.deflater, JOB_COMPRESSION_DEFAULT, Z_DEFLATED, 15, 8, Z_RLE) ==
                 Z_OK, "memory");
#ifdef HAVE_LIBDEFLATE
    for (int level = 1; level <= 12; level++)
        bench.compressors[level] = libdeflate_alloc_compressor(level);
    bench.decompressor = libdeflate_alloc_decompressor();
#endif
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"folder", required_argument, NULL, 'f'},
                                            {"rounds", required_argument, NULL, 'r'},
                                            {"count", required_argument, NULL, 'c'},
                                            {"svg", required_argument, NULL, 's'},
                                            {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'f')
            bench.folder = optarg;
        else if (option == 'r')
            bench.rounds = (unsigned)atoi(optarg);
        else if (option == 'c')
            bench.count = (unsigned)atoi(optarg);
        else if (option == 's')
            bench.svg = optarg;
        else
            return 64;
    }
    if (!bench.folder || bench.rounds < 1 || bench.rounds > ROUNDS_MAX || bench.count < 1 ||
        bench.count > PICTURES_MAX) {
        fprintf(stderr, "bench_png [curve] --folder F [--rounds 1-%d] [--count 1-%d] "
                        "[--svg FILE]\n",
                ROUNDS_MAX, PICTURES_MAX);
        return 64;
    }
    bench.curve = optind < argc && strcmp(argv[optind], "curve") == 0;
    open_tools();
    nftw(bench.folder, add_file, 16, FTW_PHYS);
    need(bench.sets[0].count > 0, "finding a photograph 640 pixels wide or more");
    if (bench.curve)
        curve();
    else
        compare();
    return 0;
}
