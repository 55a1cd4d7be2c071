/*
 * bench_png - compares PNG encoding and decoding with other libraries and other settings.
 *
 *     bench_png --folder F [--rounds 5] [--count 4]        compare
 *     bench_png read --folder F [--rounds 5] [--count 4]   ms per megapixel of reading
 *     bench_png device --folder F [--rounds 5] [--count 4] the codec of a CUDA device
 *     bench_png curve --folder F [--count 4] [--svg FILE]  every level, filter and strategy
 *
 * The images are the centres of the first photographs below the folder, and the edges (sobel) of
 * each. A centre has at most 1600 x 1200 pixels, for the curve half of either side. The photographs
 * are JPEGs in colour, 640 pixels wide or more. Everything runs in memory, on one thread, in turns,
 * with reused buffers. Figures are medians over the rounds, in CPU time and wall time.
 *
 * The codec of codecs/ is compared with libpng and libspng at their settings for its default level:
 * the Paeth filter, and a search for runs alone. It is also compared with the core of every PNG:
 * deflate and inflate of the same filtered rows, by zlib and libdeflate. libspng and libdeflate are
 * optional.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>
#include <zlib.h>
#ifdef HAVE_SPNG
#include <spng.h>
#endif

#include "conf/format.h"
#include "tests/bench/png_library.h"
#include "tests/bench/png_device.h"
#include "tests/bench/png_reading.h"
#include "tests/fixtures/arguments.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/process.h"

#define ROUNDS_MAX 31

static struct bench {
    const char *folder, *svg;
    unsigned rounds, count;
    struct set sets[SETS];
} bench = {.rounds = 5, .count = 4};

/* ---- comparison ----------------------------------------------------------------------------- */

/* Encodes or decodes. */
struct contestant {
    const char *name;
    png_encode *encode;
    struct png_settings settings;
    png_decode *decode;
};

static const struct contestant contestants[] = {
    {"codecs/png", encode_codec, .settings = {.level = -1}},
    {"libpng: Paeth, runs", encode_libpng, .settings = {-1, PNG_FILTER_PAETH, Z_RLE}},
    {"codecs/png, plain C", .encode = encode_plain},
    {"libpng: sub, zlib's level 3", encode_libpng, .settings = {3, PNG_FILTER_SUB, -1}},
#ifdef HAVE_SPNG
    {"libspng: Paeth, runs", encode_spng, .settings = {-1, SPNG_FILTER_CHOICE_PAETH, Z_RLE}},
#endif
    {"zlib: deflate of the same rows", encode_zlib, .settings = {.level = -1}},
#ifdef HAVE_LIBDEFLATE
    {"libdeflate 1 of the same rows", encode_libdeflate, .settings = {.level = 1}},
    {"libdeflate 2", encode_libdeflate, .settings = {.level = 2}},
    {"libdeflate 3", encode_libdeflate, .settings = {.level = 3}},
    {"libdeflate 4", encode_libdeflate, .settings = {.level = 4}},
    {"libdeflate 6", encode_libdeflate, .settings = {.level = 6}},
#endif
    {"codecs/png", .decode = decode_codec},
    {"libpng alone", .decode = decode_libpng},
#ifdef HAVE_SPNG
    {"libspng", .decode = decode_spng},
#endif
    {"zlib: inflate alone", .decode = decode_zlib},
#ifdef HAVE_LIBDEFLATE
    {"libdeflate: inflate alone", .decode = decode_libdeflate},
#endif
};
#define CONTESTANTS (sizeof contestants / sizeof *contestants)

struct time {
    double cpu_s, wall_s, bytes;
};

static struct time turn(const struct contestant *who, const struct set *set)
{
    struct time time = {0};
    double cpu = clock_s(CLOCK_THREAD_CPUTIME_ID), wall = process_now();
    for (size_t i = 0; i < set->count; i++) {
        if (who->decode)
            who->decode(&set->pictures[i]);
        else
            time.bytes += (double)who->encode(&set->pictures[i], &who->settings)->used;
    }
    time.cpu_s = clock_s(CLOCK_THREAD_CPUTIME_ID) - cpu;
    time.wall_s = process_now() - wall;
    return time;
}

/* The ratio is libpng's CPU time divided by the contestant's in the same round. */
static void report(const struct set *set, struct time times[CONTESTANTS][ROUNDS_MAX])
{
    size_t floor = 0;
    for (size_t c = 0; c < CONTESTANTS; c++) {
        double cpu[ROUNDS_MAX], wall[ROUNDS_MAX], ratio[ROUNDS_MAX];
        if (c == 0 || !contestants[c].decode != !contestants[c - 1].decode) {
            printf("\n%-9s %-32s %9s %9s %9s %7s %10s\n",
                   contestants[c].decode ? "decode" : "encode", set->name, "CPU MB/s", "wall MB/s",
                   "CPU ms/MP", "ratio", "size");
            floor = c + 1;
        }
        for (unsigned r = 0; r < bench.rounds; r++) {
            cpu[r] = times[c][r].cpu_s;
            wall[r] = times[c][r].wall_s;
            ratio[r] = times[floor][r].cpu_s / times[c][r].cpu_s;
        }
        printf("%-9s %-32s %9.1f %9.1f %9.2f %7.2f", "", contestants[c].name,
               set->raw_bytes / median(cpu, bench.rounds) / 1e6,
               set->raw_bytes / median(wall, bench.rounds) / 1e6,
               median(cpu, bench.rounds) * 1e3 / (set->pixels / 1e6), median(ratio, bench.rounds));
        if (contestants[c].decode)
            printf("\n");
        else
            printf(" %9.1f%%\n", 100 * times[c][0].bytes / set->raw_bytes);
    }
}

static void compare(void)
{
    static struct time times[CONTESTANTS][ROUNDS_MAX];
    for (size_t s = 0; s < SETS; s++) {
        for (unsigned r = 0; r < bench.rounds; r++)
            for (size_t c = 0; c < CONTESTANTS; c++)
                times[c][r] = turn(&contestants[c], &bench.sets[s]);
        report(&bench.sets[s], times);
    }
}

/* ---- the curve: time and size with every filter, strategy and level ------------------------- */

#define FILTERS 6
enum curve_strategy {
    STRATEGY_DEFAULT,
    STRATEGY_FILTERED,
    STRATEGY_HUFFMAN,
    STRATEGY_RLE,
#ifdef HAVE_LIBDEFLATE
    STRATEGY_LIBDEFLATE, /* libdeflate on rows that libpng filtered; filtering is not timed */
#endif
    STRATEGIES
};
#define LEVELS 10

struct point {
    double seconds; /* CPU time per megapixel */
    double bytes;   /* per pixel */
};

struct curve {
    const struct set *set;
    struct point points[FILTERS][STRATEGIES][LEVELS];
};

static const char *const filter_names[FILTERS] = {"none", "sub", "up", "avg", "paeth", "all"};
static const int filters[FILTERS] = {PNG_FILTER_NONE, PNG_FILTER_SUB,   PNG_FILTER_UP,
                                     PNG_FILTER_AVG,  PNG_FILTER_PAETH, PNG_ALL_FILTERS};
static const struct {
    const char *name;
    int zlib;
} strategies[STRATEGIES] = {
    [STRATEGY_DEFAULT] = {"default", Z_DEFAULT_STRATEGY},
    [STRATEGY_FILTERED] = {"filtered", Z_FILTERED},
    [STRATEGY_HUFFMAN] = {"huffman", Z_HUFFMAN_ONLY},
    [STRATEGY_RLE] = {"rle", Z_RLE},
#ifdef HAVE_LIBDEFLATE
    [STRATEGY_LIBDEFLATE] = {"deflate*", 0},
#endif
};

#ifdef HAVE_LIBDEFLATE
/* Returns the CPU seconds and sets *bytes to the size. */
static double time_libdeflate(const struct picture *from, int filter, int level, double *bytes)
{
    struct picture picture = *from;
    picture.png = *encode_libpng(&picture, &(struct png_settings){1, filter, Z_DEFAULT_STRATEGY});
    picture_take_apart(&picture);
    double start = clock_s(CLOCK_THREAD_CPUTIME_ID);
    struct png_settings settings = {.level = level > 0 ? level : 1};
    *bytes = (double)encode_libdeflate(&picture, &settings)->used;
    double seconds = clock_s(CLOCK_THREAD_CPUTIME_ID) - start;
    free(picture.filtered.at);
    free(picture.compressed.at);
    return seconds;
}
#endif

static double time_zlib(const struct picture *picture, int filter, int level, int strategy,
                        double *bytes)
{
    double start = clock_s(CLOCK_THREAD_CPUTIME_ID);
    *bytes = (double)encode_libpng(picture, &(struct png_settings){level, filter, strategy})->used;
    return clock_s(CLOCK_THREAD_CPUTIME_ID) - start;
}

static struct point measure(const struct set *set, int filter, size_t strategy, int level)
{
    double pixels = 0, seconds = 0, bytes = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct picture *picture = &set->pictures[i];
        double size = 0;
#ifdef HAVE_LIBDEFLATE
        if (strategy == STRATEGY_LIBDEFLATE)
            seconds += time_libdeflate(picture, filter, level, &size);
        else
#endif
            seconds += time_zlib(picture, filter, level, strategies[strategy].zlib, &size);
        bytes += size;
        pixels += (double)picture->image.width * picture->image.height;
    }
    return (struct point){seconds / pixels * 1e6, bytes / pixels};
}

static void curve_measure(struct curve *curve, const struct set *set)
{
    curve->set = set;
    for (size_t f = 0; f < FILTERS; f++)
        for (size_t t = 0; t < STRATEGIES; t++)
            for (int level = 0; level < LEVELS; level++)
                curve->points[f][t][level] = measure(set, filters[f], t, level);
}

/* Returns true if no other point is both smaller and faster. */
static bool is_best(const struct curve *curve, const struct point *point)
{
    const struct point *all = &curve->points[0][0][0];
    for (size_t i = 0; i < (size_t)FILTERS * STRATEGIES * LEVELS; i++)
        if (all[i].seconds < point->seconds && all[i].bytes < point->bytes)
            return false;
    return true;
}

static void curve_print(const struct curve *curve)
{
    printf("\n%s: ms of CPU per megapixel, bytes per pixel; * if nothing is both faster and "
           "smaller\n%-6s %-9s", curve->set->name, "filter", "strategy");
    for (int level = 0; level < LEVELS; level++)
        printf("%13d", level);
    printf("\n");
    for (size_t f = 0; f < FILTERS; f++) {
        for (size_t t = 0; t < STRATEGIES; t++) {
            printf("%-6s %-9s", filter_names[f], strategies[t].name);
            for (int level = 0; level < LEVELS; level++) {
                const struct point *point = &curve->points[f][t][level];
                printf(" %6.1f %.2f%c", point->seconds * 1e3, point->bytes,
                       is_best(curve, point) ? '*' : ' ');
            }
            printf("\n");
        }
    }
}

/* In the format that png_plot.py reads. */
static void curve_write_points(const struct curve *curve, FILE *file)
{
    for (size_t f = 0; f < FILTERS; f++)
        for (size_t t = 0; t < STRATEGIES; t++)
            for (int level = 0; level < LEVELS; level++)
                fprintf(file, "%s\t%s\t%s\t%d\t%.4f\t%.4f\n", curve->set->name,
                        filter_names[f], strategies[t].name, level,
                        curve->points[f][t][level].seconds * 1e3,
                        curve->points[f][t][level].bytes);
}

static void measure_curve(void)
{
    static struct curve curves[SETS];
    for (size_t s = 0; s < SETS; s++) {
        curve_measure(&curves[s], &bench.sets[s]);
        curve_print(&curves[s]);
        fflush(stdout);
    }
    if (!bench.svg)
        return;
    char command[4096];
    snprintf(command, sizeof command, "tests/bench/png_plot.py '%s'", bench.svg);
    FILE *plot = popen(command, "w");
    for (size_t s = 0; plot && s < SETS; s++)
        curve_write_points(&curves[s], plot);
    if (!plot || pclose(plot) != 0)
        exit(1);
}

/* ---- main ----------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    const struct argument options[] = {
        {"folder", .text = &bench.folder},  {"rounds", .number = &bench.rounds},
        {"count", .number = &bench.count}, {"svg", .text = &bench.svg}, {.name = NULL}};
    int first = arguments_read(argc, argv, options);
    if (first < 0 || !bench.folder || bench.rounds < 1 || bench.rounds > ROUNDS_MAX ||
        bench.count < 1 || bench.count > PICTURES_MAX) {
        fprintf(stderr,
                "bench_png [read|device|curve] --folder F [--rounds 1-%d] [--count 1-%d] "
                "[--svg FILE]\n",
                ROUNDS_MAX, PICTURES_MAX);
        return 64;
    }
    bool curve = first < argc && strcmp(argv[first], "curve") == 0;
    library_open();
    sets_load(bench.sets, bench.folder, bench.count, curve ? 2 : 1);
    if (curve)
        measure_curve();
    else if (first < argc && strcmp(argv[first], "device") == 0)
        device_compare(&bench.sets[SET_PHOTOGRAPHS], &bench.sets[SET_EDGES], bench.rounds);
    else if (first < argc && strcmp(argv[first], "read") == 0)
        reading_compare(&bench.sets[SET_PHOTOGRAPHS], &bench.sets[SET_EDGES], bench.rounds);
    else
        compare();
    return 0;
}
