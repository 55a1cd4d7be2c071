#include "codecs/ssim_compare.h"

#include <assert.h>
#include <string.h>

#include "codecs/codec_impl.h"

/* Strips between two checks of the deadline. */
#define STRIPS_PER_CHECK 64

/* The scratch memory: of a strip of SSIM_BLOCK rows, and the blocks of the strip before. */
struct strip {
    struct ssim_sums *blocks, *above;
    uint32_t *squares, *products; /* of each column */
    uint16_t *first, *second;
    uint8_t *one, *other; /* the luma of a row */
    size_t columns;
};

static size_t padded(uint32_t width)
{
    return (size_t)ssim_blocks(width) * SSIM_BLOCK;
}

size_t ssim_scratch_bytes(uint32_t width)
{
    size_t column = 2 * sizeof(struct ssim_sums) / SSIM_BLOCK +
                    2 * (sizeof(uint32_t) + sizeof(uint16_t) + sizeof(uint8_t));
    return padded(width) * column;
}

static struct strip place(void *scratch, uint32_t width)
{
    struct strip strip = {.columns = padded(width), .blocks = scratch};
    strip.above = strip.blocks + strip.columns / SSIM_BLOCK;
    strip.squares = (uint32_t *)(strip.above + strip.columns / SSIM_BLOCK);
    strip.products = strip.squares + strip.columns;
    strip.first = (uint16_t *)(strip.products + strip.columns);
    strip.second = strip.first + strip.columns;
    strip.one = (uint8_t *)(strip.second + strip.columns);
    strip.other = strip.one + strip.columns;
    return strip;
}

/* Writes the luma of a row of the extended image. background: under pixels with alpha. */
static void read_row(const struct image *image, uint32_t y, int background, size_t columns,
                     uint8_t *to)
{
    uint32_t last = image->height - 1;
    const uint8_t *row = image->pixels + (y < last ? y : last) * image->stride;
    if (image->channels == 1)
        memcpy(to, row, image->width);
    else if (image->channels == 3)
        for (size_t x = 0; x < image->width; x++)
            to[x] = (uint8_t)ssim_luma(row[3 * x], row[3 * x + 1], row[3 * x + 2]);
    else
        for (size_t x = 0; x < image->width; x++)
            to[x] = (uint8_t)ssim_over(ssim_luma(row[4 * x], row[4 * x + 1], row[4 * x + 2]),
                                       row[4 * x + 3], background);
    memset(to + image->width, to[image->width - 1], columns - image->width);
}

/* Adds a row to the sums of the columns. */
static void add_row(const struct strip *strip)
{
    const uint8_t *restrict one = strip->one, *restrict other = strip->other;
    uint16_t *restrict first = strip->first, *restrict second = strip->second;
    uint32_t *restrict squares = strip->squares, *restrict products = strip->products;
    for (size_t x = 0; x < strip->columns; x++) {
        uint32_t a = one[x], b = other[x];
        first[x] = (uint16_t)(first[x] + a);
        second[x] = (uint16_t)(second[x] + b);
        squares[x] += a * a + b * b;
        products[x] += a * b;
    }
}

static void sum_blocks(const struct strip *strip)
{
    for (size_t i = 0; i < strip->columns / SSIM_BLOCK; i++) {
        struct ssim_sums sums = {0};
        for (size_t x = i * SSIM_BLOCK; x < (i + 1) * SSIM_BLOCK; x++) {
            sums.first += strip->first[x];
            sums.second += strip->second[x];
            sums.squares += (int32_t)strip->squares[x];
            sums.products += (int32_t)strip->products[x];
        }
        strip->blocks[i] = sums;
    }
}

static void read_strip(const struct image *first, const struct image *second, uint32_t y,
                       int background, struct strip *strip)
{
    struct ssim_sums *above = strip->blocks;
    strip->blocks = strip->above;
    strip->above = above;
    /* the four arrays of sums follow each other */
    memset(strip->squares, 0, (size_t)(strip->one - (uint8_t *)strip->squares));
    for (uint32_t row = 0; row < SSIM_BLOCK; row++) {
        read_row(first, y + row, background, strip->columns, strip->one);
        read_row(second, y + row, background, strip->columns, strip->other);
        add_row(strip);
    }
    sum_blocks(strip);
}

static void add_block(struct ssim_sums *sums, const struct ssim_sums *block)
{
    sums->first += block->first;
    sums->second += block->second;
    sums->squares += block->squares;
    sums->products += block->products;
}

/* The sum of the similarities of the windows in a strip and the one above it. */
static int64_t sum_windows(const struct strip *strip)
{
    int64_t sum = 0;
    for (size_t i = 0; i + 1 < strip->columns / SSIM_BLOCK; i++) {
        struct ssim_sums window = strip->blocks[i];
        add_block(&window, &strip->blocks[i + 1]);
        add_block(&window, &strip->above[i]);
        add_block(&window, &strip->above[i + 1]);
        sum += ssim_window(&window);
    }
    return sum;
}

static int compare_over(const struct image *first, const struct image *second, int background,
                        void *scratch, uint64_t deadline_ns)
{
    struct strip strip = place(scratch, first->width);
    uint32_t strips = ssim_blocks(first->height);
    int64_t sum = 0;
    for (uint32_t i = 0; i < strips; i++) {
        if (i % STRIPS_PER_CHECK == 0 && codec_late(deadline_ns))
            return -1;
        read_strip(first, second, i * SSIM_BLOCK, background, &strip);
        sum += i > 0 ? sum_windows(&strip) : 0;
    }
    return ssim_mean(sum, (uint64_t)(strips - 1) * (strip.columns / SSIM_BLOCK - 1));
}

int ssim_compare(const struct image *first, const struct image *second, void *scratch,
                 uint64_t deadline_ns)
{
    assert(first->width == second->width && first->height == second->height);
    int white = compare_over(first, second, UINT8_MAX, scratch, deadline_ns);
    if ((first->channels != 4 && second->channels != 4) || white < 0)
        return white;
    int black = compare_over(first, second, 0, scratch, deadline_ns);
    return black < white ? black : white;
}
