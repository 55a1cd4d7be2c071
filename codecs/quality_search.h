/*
 * quality_search.h - searches the quality at which a file has at most a given number of bytes, for
 * CPUs and GPUs.
 *
 * The search encodes the image with several qualities and counts the bytes. It works for every
 * codec whose encoder has a quality, because files grow with the quality. The next quality to try
 * is estimated from the sizes so far and a typical curve of sizes. All arithmetic is in integers,
 * so that all hosts and devices find the same quality.
 *
 * The result is the highest quality that fits, or a file of at least QUALITY_NEAR_PERCENT of the
 * limit, except for a few images whose sizes differ much from the typical curve.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define QUALITY_DEVICE static __host__ __device__ inline
#else
#define QUALITY_DEVICE static inline __attribute__((unused))
#endif

/* The most encodes of a search. The caller then encodes the image once more, to write the file. */
#define QUALITY_TRIALS_MAX 5
/* The same for codecs whose sizes differ much from the typical curve: AVIF. The typical curve is
 * then only followed as far as the trials that are left suffice to halve what is left: the result
 * is always the highest quality that fits, or near the limit. */
#define QUALITY_TRIALS_MORE 8
/* A file of at least this share of the limit ends the search: more bytes gain almost nothing. */
#define QUALITY_NEAR_PERCENT 98

#define QUALITY_LOWEST  1
#define QUALITY_HIGHEST 100
/* Logarithms are to the base 2, in units of 1/1024. */
#define QUALITY_LOG_ONE 1024

struct quality_trial {
    int quality; /* 0: there is no such trial */
    uint64_t bytes;
};

/* At first, all members but bytes_max and `more` are zero. */
struct quality_search {
    uint64_t bytes_max;
    bool more;                   /* up to QUALITY_TRIALS_MORE trials */
    int count;                   /* of trials so far */
    struct quality_trial fits;   /* the largest file so far that is not too large */
    struct quality_trial above;  /* the smallest file so far that is too large */
    struct quality_trial before; /* the smallest but one that is too large */
};

/* The value of the typical curve of sizes at a quality, interpolated between two points: the
 * logarithm of (size / size at quality 85). The points are near the medians of 93 images as JPEG,
 * progressive JPEG and WebP. */
QUALITY_DEVICE int quality_typical(int quality)
{
    const int16_t points[][2] = {{QUALITY_LOWEST, -2800},
                                 {5, -2400},
                                 {10, -2080},
                                 {20, -1680},
                                 {30, -1390},
                                 {50, -970},
                                 {70, -560},
                                 {80, -240},
                                 {85, 0},
                                 {90, 360},
                                 {95, 940},
                                 {QUALITY_HIGHEST, 2100}};
    int low = 0;
    while (points[low + 1][0] < quality)
        low++;
    return points[low][1] + (points[low + 1][1] - points[low][1]) * (quality - points[low][0]) /
                                (points[low + 1][0] - points[low][0]);
}

/* Returns the highest quality from `least` to `most` whose value on the typical curve is at most
 * `size`; `least` if there is none. */
QUALITY_DEVICE int quality_of(int64_t size, int least, int most)
{
    while (most > least && quality_typical(most) > size)
        most--;
    return most;
}

/* The logarithm of a number, rounded down. Each squaring gives one more bit of its fraction. */
QUALITY_DEVICE int64_t quality_log(uint64_t number)
{
    int whole = 63;
    while (whole > 0 && number >> whole == 0)
        whole--;
    int result = whole;
    uint64_t rest = whole > 31 ? number >> (whole - 31) : number << (31 - whole); /* 1 is 2^31 */
    for (int bit = QUALITY_LOG_ONE; bit > 1; bit /= 2) {
        rest = rest * rest >> 31;
        bool carry = rest >> 32 != 0;
        rest >>= carry;
        result = 2 * result + carry;
    }
    return result;
}

/* The next quality while no file was small enough. It follows the typical curve down from the last
 * trial to the limit, and after each trial that was too large, beyond the limit. With two trials,
 * the curve is first made as steep as it is between them. */
QUALITY_DEVICE int quality_extrapolate(const struct quality_search *search)
{
    const int quarters[QUALITY_TRIALS_MORE] = {4, 5, 8, 8, 8, 8, 8, 8}; /* 4: just to the limit */
    int64_t size = quality_log(search->above.bytes), from = quality_typical(search->above.quality);
    int64_t rest = (size - quality_log(search->bytes_max)) * quarters[search->count - 1] / 4;
    if (search->before.quality > 0) {
        int64_t run = quality_typical(search->before.quality) - from;
        int64_t rise = quality_log(search->before.bytes) - size;
        rise = rise < run / 4 ? run / 4 : rise > 2 * run ? 2 * run : rise;
        rest = rest * run / rise;
    }
    return quality_of(from - rest, QUALITY_LOWEST, search->above.quality - 1);
}

/* The next quality between a file that fits and one that is too large: the typical curve is
 * stretched so that it goes through both. If the file that fits is far below the limit, the last
 * trial aims a tenth lower, so that it probably fits. */
QUALITY_DEVICE int quality_interpolate(const struct quality_search *search)
{
    const struct quality_trial *low = &search->fits, *high = &search->above;
    int64_t low_size = quality_log(low->bytes), from = quality_typical(low->quality);
    int64_t rise = quality_log(high->bytes) - low_size, run = quality_typical(high->quality) - from;
    int64_t way = (quality_log(search->bytes_max) - low_size) * run / (rise > 0 ? rise : 1);
    bool last = search->count == QUALITY_TRIALS_MAX - 1 && !search->more;
    if (last && low->bytes * 10 < search->bytes_max * 9)
        way = way * 9 / 10;
    return quality_of(from + way, low->quality + 1, high->quality - 1);
}

/* Moves a quality to where the trials that are left, this one included, still suffice to find the
 * highest that fits: n trials for 2^n - 1 qualities. */
QUALITY_DEVICE int quality_bound(const struct quality_search *search, int quality)
{
    int half = 1 << (QUALITY_TRIALS_MORE - search->count - 1);
    if (quality > search->fits.quality + half)
        quality = search->fits.quality + half;
    return quality < search->above.quality - half ? search->above.quality - half : quality;
}

/* Adds the size of the file at a quality. The first trial must have the highest quality that is
 * allowed, all others the one that quality_search_next has returned. */
QUALITY_DEVICE void quality_search_add(struct quality_search *search, int quality, uint64_t bytes)
{
    struct quality_trial trial;
    trial.quality = quality;
    trial.bytes = bytes;
    search->count++;
    if (bytes <= search->bytes_max) {
        search->fits = trial;
        return;
    }
    search->before = search->above;
    search->above = trial;
}

/* After a trial: returns the quality to try next. 0: the search has ended, and search->fits has the
 * result. If its quality is 0, the file is too large even at the lowest quality: search->above. */
QUALITY_DEVICE int quality_search_next(const struct quality_search *search)
{
    const struct quality_trial *fits = &search->fits, *above = &search->above;
    if (above->quality == 0 || above->quality == fits->quality + 1 ||
        search->count == (search->more ? QUALITY_TRIALS_MORE : QUALITY_TRIALS_MAX))
        return 0;
    bool is_near = fits->bytes * 100 >= search->bytes_max * QUALITY_NEAR_PERCENT;
    if (fits->quality > 0 && is_near)
        return 0;
    if (search->more)
        return quality_bound(search, fits->quality > 0 ? quality_interpolate(search)
                                                       : quality_extrapolate(search));
    if (fits->quality > 0)
        return quality_interpolate(search);
    if (search->count == QUALITY_TRIALS_MAX - 1)
        return QUALITY_LOWEST;
    return quality_extrapolate(search);
}
