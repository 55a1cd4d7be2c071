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
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>
#include <zlib.h>
#ifdef HAVE_SPNG
#include <spng.h>
#endif

#include "conf/format.h"
#include "tests/bench/png_curve.h"
#include "tests/bench/png_library.h"
#include "tests/bench/png_picture.h"
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
    double cpu = thread_cpu_s(), wall = process_now();
    for (size_t i = 0; i < set->count; i++) {
        if (who->decodes)
            decode(who, &set->pictures[i]);
        else
            time.bytes += (double)encode(who, &set->pictures[i])->used;
    }
    time.cpu_s = thread_cpu_s() - cpu;
    time.wall_s = process_now() - wall;
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

/* ---- the curve ------------------------------------------------------------------------------ */

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
    bool curve = optind < argc && strcmp(argv[optind], "curve") == 0;
    library_open();
    sets_load(bench.sets, bench.folder, bench.count, curve ? 2 : 1);
    if (curve)
        measure_curve();
    else
        compare();
    return 0;
}
