#include "tests/bench/png_curve.h"

#include <stdlib.h>

#include <png.h>
#include <zlib.h>

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

/* ---- measuring ---- */

#ifdef HAVE_LIBDEFLATE
/* Returns the CPU seconds and sets *bytes to the size. */
static double time_libdeflate(const struct picture *from, int filter, int level, double *bytes)
{
    struct picture picture = *from;
    picture.png = *encode_libpng(&picture, 1, filter, Z_DEFAULT_STRATEGY);
    picture_take_apart(&picture);
    double start = thread_cpu_s();
    *bytes = (double)encode_libdeflate(&picture, level > 0 ? level : 1)->used;
    double seconds = thread_cpu_s() - start;
    free(picture.filtered.at);
    free(picture.compressed.at);
    return seconds;
}
#endif

static double time_zlib(const struct picture *picture, int filter, int level, int strategy,
                        double *bytes)
{
    double start = thread_cpu_s();
    *bytes = (double)encode_libpng(picture, level, filter, strategy)->used;
    return thread_cpu_s() - start;
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

void curve_measure(struct curve *curve, const struct set *set)
{
    curve->set = set;
    for (size_t f = 0; f < FILTERS; f++)
        for (size_t t = 0; t < STRATEGIES; t++)
            for (int level = 0; level < LEVELS; level++)
                curve->points[f][t][level] = measure(set, filters[f], t, level);
}

/* ---- as a table ---- */

/* Returns true if no other point is both smaller and faster. */
static bool is_best(const struct curve *curve, const struct point *point)
{
    const struct point *all = &curve->points[0][0][0];
    for (size_t i = 0; i < (size_t)FILTERS * STRATEGIES * LEVELS; i++)
        if (all[i].seconds < point->seconds && all[i].bytes < point->bytes)
            return false;
    return true;
}

void curve_print(const struct curve *curve)
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

void curve_write_points(const struct curve *curve, FILE *file)
{
    for (size_t f = 0; f < FILTERS; f++)
        for (size_t t = 0; t < STRATEGIES; t++)
            for (int level = 0; level < LEVELS; level++)
                fprintf(file, "%s\t%s\t%s\t%d\t%.4f\t%.4f\n", curve->set->name,
                        filter_names[f], strategies[t].name, level,
                        curve->points[f][t][level].seconds * 1e3,
                        curve->points[f][t][level].bytes);
}
