/*
 * bench_png - compares PNG encoding and decoding with other libraries and other settings.
 *
 *     bench_png --folder F [--rounds 5] [--count 4]        compare
 *     bench_png curve --folder F [--count 4] [--svg FILE]  every level, filter and strategy
 *
 * The images are the centres of the first photographs below the folder, and the edges (sobel) of
 * each. A centre has at most 1600 x 1200 pixels, for the curve half of either side. The photographs
 * are JPEGs in colour, 640 pixels wide or more. Everything runs in memory, on one thread, in turns,
 * with reused buffers. Figures are medians over the rounds, in CPU time and wall time.
 *
 * The codec of codecs/ is compared with libpng and libspng at the same settings. It is also
 * compared with the core of every PNG: deflate and inflate of the same filtered rows, by zlib and
 * libdeflate. libspng and libdeflate are optional.
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
#include "tests/bench/png_picture.h"
#include "tests/fixtures/arguments.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/process.h"

#define ROUNDS_MAX 31

static struct bench {
    const char *folder, *svg;
    unsigned rounds, count;
    struct set sets[SETS];
} bench = {.rounds = 5, .count = 4};

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

static const struct bytes *encode(const struct contestant *who, const struct picture *picture)
{
    switch (who->how) {
    case CODEC: return encode_codec(picture, encoder_defaults.compression);
    case LIBPNG:
        return encode_libpng(picture, encoder_defaults.compression, PNG_FILTER_PAETH, Z_RLE);
    case SUB3: return encode_libpng(picture, 3, PNG_FILTER_SUB, -1);
    case ZLIB: return encode_zlib(picture, encoder_defaults.compression);
#ifdef HAVE_SPNG
    case SPNG: return encode_spng(picture, encoder_defaults.compression, SPNG_FILTER_CHOICE_PAETH);
#endif
#ifdef HAVE_LIBDEFLATE
    case LIBDEFLATE: return encode_libdeflate(picture, who->level);
#endif
    default: abort();
    }
}

static void decode(const struct contestant *who, const struct picture *picture)
{
    switch (who->how) {
    case CODEC: decode_codec(picture); break;
    case LIBPNG: decode_libpng(picture); break;
    case ZLIB: decode_zlib(picture); break;
#ifdef HAVE_SPNG
    case SPNG: decode_spng(picture); break;
#endif
#ifdef HAVE_LIBDEFLATE
    case LIBDEFLATE: decode_libdeflate(picture); break;
#endif
    default: abort();
    }
}

struct time {
    double cpu_s, wall_s, bytes;
};

static struct time turn(const struct contestant *who, const struct set *set)
{
    struct time time = {0};
    double cpu = clock_s(CLOCK_THREAD_CPUTIME_ID), wall = process_now();
    for (size_t i = 0; i < set->count; i++) {
        if (who->decodes)
            decode(who, &set->pictures[i]);
        else
            time.bytes += (double)encode(who, &set->pictures[i])->used;
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
    picture.png = *encode_libpng(&picture, 1, filter, Z_DEFAULT_STRATEGY);
    picture_take_apart(&picture);
    double start = clock_s(CLOCK_THREAD_CPUTIME_ID);
    *bytes = (double)encode_libdeflate(&picture, level > 0 ? level : 1)->used;
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
    *bytes = (double)encode_libpng(picture, level, filter, strategy)->used;
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
        fprintf(stderr, "bench_png [curve] --folder F [--rounds 1-%d] [--count 1-%d] "
                        "[--svg FILE]\n",
                ROUNDS_MAX, PICTURES_MAX);
        return 64;
    }
    bool curve = first < argc && strcmp(argv[first], "curve") == 0;
    library_open();
    sets_load(bench.sets, bench.folder, bench.count, curve ? 2 : 1);
    if (curve)
        measure_curve();
    else
        compare();
    return 0;
}
