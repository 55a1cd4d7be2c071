#include "codecs/quality.h"

#include <assert.h>

/* Logarithms are to the base 2, in units of 1/1024. */
#define LOG_ONE 1024
#define QUALITY_LOWEST 1
#define QUALITY_HIGHEST 100

/* Points of the typical curve of sizes: the logarithm of (size / size at quality 85). They are near
 * the medians of 93 images as JPEG, progressive JPEG and WebP. */
static const struct point {
    int quality, size;
} points[] = {{QUALITY_LOWEST, -2800}, {5, -2400}, {10, -2080}, {20, -1680},
              {30, -1390}, {50, -970}, {70, -560}, {80, -240},
              {85, 0}, {90, 360}, {95, 940}, {QUALITY_HIGHEST, 2100}};

/* The value of the typical curve at a quality, interpolated between two points. */
static int typical(int quality)
{
    const struct point *low = points;
    while (low[1].quality < quality)
        low++;
    return low->size + (low[1].size - low->size) * (quality - low->quality) /
                           (low[1].quality - low->quality);
}

/* Returns the highest quality from `least` to `most` whose value on the typical curve is at most
 * `size`; `least` if there is none. */
static int quality_of(int64_t size, int least, int most)
{
    while (most > least && typical(most) > size)
        most--;
    return most;
}

/* The logarithm of a number, rounded down. Each squaring gives one more bit of its fraction. */
static int64_t log_of(uint64_t number)
{
    int whole = 63 - __builtin_clzll(number | 1), result = whole;
    uint64_t rest = whole > 31 ? number >> (whole - 31) : number << (31 - whole); /* 1 is 2^31 */
    for (int bit = LOG_ONE; bit > 1; bit /= 2) {
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
static int extrapolate(const struct quality_search *search)
{
    static const int quarters[QUALITY_TRIALS_MAX] = {4, 5, 8, 8, 8}; /* 4: just to the limit */
    int64_t size = log_of(search->above.bytes), from = typical(search->above.quality);
    int64_t rest = (size - log_of(search->bytes_max)) * quarters[search->count - 1] / 4;
    if (search->before.quality > 0) {
        int64_t run = typical(search->before.quality) - from;
        int64_t rise = log_of(search->before.bytes) - size;
        rise = rise < run / 4 ? run / 4 : rise > 2 * run ? 2 * run : rise;
        rest = rest * run / rise;
    }
    return quality_of(from - rest, QUALITY_LOWEST, search->above.quality - 1);
}

/* The next quality between a file that fits and one that is too large: the typical curve is
 * stretched so that it goes through both. If the file that fits is far below the limit, the last
 * trial aims a tenth lower, so that it probably fits. */
static int interpolate(const struct quality_search *search)
{
    const struct quality_trial *low = &search->fits, *high = &search->above;
    int64_t low_size = log_of(low->bytes), from = typical(low->quality);
    int64_t rise = log_of(high->bytes) - low_size, run = typical(high->quality) - from;
    int64_t way = (log_of(search->bytes_max) - low_size) * run / (rise > 0 ? rise : 1);
    bool last = search->count == QUALITY_TRIALS_MAX - 1;
    if (last && low->bytes * 10 < search->bytes_max * 9)
        way = way * 9 / 10;
    return quality_of(from + way, low->quality + 1, high->quality - 1);
}

void quality_search_add(struct quality_search *search, int quality, uint64_t bytes)
{
    const struct quality_trial trial = {quality, bytes};
    search->count++;
    if (bytes <= search->bytes_max) {
        search->fits = trial;
        return;
    }
    search->before = search->above;
    search->above = trial;
}

int quality_search_next(const struct quality_search *search)
{
    const struct quality_trial *fits = &search->fits, *above = &search->above;
    assert(search->count > 0);
    if (above->quality == 0 || above->quality == fits->quality + 1 ||
        search->count == QUALITY_TRIALS_MAX)
        return 0;
    if (fits->quality > 0)
        return fits->bytes * 100 >= search->bytes_max * QUALITY_NEAR_PERCENT ? 0
                                                                            : interpolate(search);
    if (search->count == QUALITY_TRIALS_MAX - 1)
        return QUALITY_LOWEST;
    return extrapolate(search);
}

static enum status discard(struct codec_sink *sink, size_t used, struct error *error)
{
    (void)sink, (void)used, (void)error; /* codec_encode counts the bytes in sink->total */
    return STATUS_OK;
}

enum status codec_find_quality(struct codec_context *context, const struct image *src,
                               const struct encode_request *request, uint8_t *buffer,
                               size_t capacity, int *quality, struct error *error)
{
    struct quality_search search = {.bytes_max = (uint64_t)request->encoder.max_bytes};
    struct codec_sink sink = {.buffer = buffer, .capacity = capacity, .flush = discard};
    struct encode_request trial = *request;
    assert(request->encoder.max_bytes > 0 && request->format->parameters & TAKES(quality));
    do {
        enum status status = codec_encode(context, src, &trial, &sink, error);
        if (status != STATUS_OK)
            return status;
        quality_search_add(&search, trial.encoder.quality, sink.total);
        trial.encoder.quality = quality_search_next(&search);
    } while (trial.encoder.quality > 0);
    *quality = search.fits.quality;
    if (search.fits.quality > 0)
        return STATUS_OK;
    size_t metadata = (request->icc ? request->icc_bytes : 0) +
                      (request->exif ? request->exif_bytes : 0) +
                      (request->xmp ? request->xmp_bytes : 0);
    return error_set(error, STATUS_ENCODE_FAILED,
                     "the %s has %llu bytes at quality %d, the lowest, with %zu bytes of metadata, "
                     "but max_bytes is %d; raise max_bytes, keep less metadata, or make the image "
                     "smaller", format_title(request->format),
                     (unsigned long long)search.above.bytes, search.above.quality, metadata,
                     request->encoder.max_bytes);
}
