/* Tests of unfilter.h against the definition of the filters in the PNG specification (9.2), on all
 * filters and pairs of filters, and widths around those of registers. */
#include "codecs/png/unfilter.h"
#include "tests/fixtures/picture.h"
#include "tests/fixtures/test.h"

enum { guard = 64, fill = 0xA5 };

static int paeth_predictor(int a, int b, int c)
{
    int p = a + b - c, pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);
    if (pa <= pb && pa <= pc)
        return a;
    return pb <= pc ? b : c;
}

/* Filters pixels: the inverse of what is tested. */
static void filter_row(uint8_t filter, const uint8_t *row, const uint8_t *above, uint8_t *to,
                       size_t row_bytes, size_t pixel_bytes)
{
    *to++ = filter;
    for (size_t i = 0; i < row_bytes; i++) {
        int a = i >= pixel_bytes ? row[i - pixel_bytes] : 0, b = above ? above[i] : 0;
        int c = i >= pixel_bytes && above ? above[i - pixel_bytes] : 0;
        int predicted[FILTERS] = {0, a, b, (a + b) / 2, paeth_predictor(a, b, c)};
        to[i] = (uint8_t)(row[i] - predicted[filter]);
    }
}

struct rows {
    size_t width, height, pixel_bytes, row_bytes, stride;
    uint8_t *pixels, *filtered; /* exact blocks, but for UNFILTER_SLACK, for sanitizers */
};

/* Smooth parts and noise, and samples that are equal: ties between the predictors. */
static struct rows make_rows(size_t width, size_t height, size_t pixel_bytes,
                             const uint8_t *filters, uint32_t *random)
{
    struct rows rows = {width, height, pixel_bytes, width * pixel_bytes, 0, NULL, NULL};
    rows.stride = rows.row_bytes + guard;
    rows.pixels = malloc(rows.row_bytes * height);
    rows.filtered = malloc((rows.row_bytes + 1) * height + UNFILTER_SLACK);
    assert_non_null(rows.pixels);
    assert_non_null(rows.filtered);
    for (size_t i = 0; i < rows.row_bytes * height; i++) {
        uint32_t next = picture_random(random) >> 8;
        rows.pixels[i] = (uint8_t)(i / 50 % 3 == 0 ? next : i / 50 % 3 == 1 ? next % 3 : i * 3);
    }
    for (size_t y = 0; y < height; y++) {
        const uint8_t *row = rows.pixels + y * rows.row_bytes;
        filter_row(filters[y % FILTERS], row, y > 0 ? row - rows.row_bytes : NULL,
                   rows.filtered + y * (rows.row_bytes + 1), rows.row_bytes, pixel_bytes);
    }
    return rows;
}

typedef void unfilter_fn(enum unfilter filter, const uint8_t *filtered, const uint8_t *above,
                         uint8_t *row, size_t row_bytes, unsigned pixel_bytes);

/* single: unfilters each row by this function; NULL: all together. */
static void expect_pixels(const struct rows *rows, unfilter_fn *single)
{
    size_t bytes = rows->stride * rows->height;
    uint8_t *block = malloc(guard + bytes), *zeros = calloc(1, rows->row_bytes),
            *to = block + guard;
    assert_non_null(block);
    assert_non_null(zeros);
    memset(block, fill, guard + bytes);
    if (!single)
        unfilter_rows(rows->filtered, zeros, to, rows->stride, rows->row_bytes,
                      (unsigned)rows->pixel_bytes, rows->height);
    for (size_t y = 0; single && y < rows->height; y++) {
        const uint8_t *row = rows->filtered + y * (rows->row_bytes + 1);
        single(row[0], row + 1, y > 0 ? to + (y - 1) * rows->stride : zeros, to + y * rows->stride,
               rows->row_bytes, (unsigned)rows->pixel_bytes);
    }
    for (size_t y = 0; y < rows->height; y++) {
        if (memcmp(to + y * rows->stride, rows->pixels + y * rows->row_bytes, rows->row_bytes) != 0)
            fail_msg("row %zu of %zu x %zu, %zu bytes per pixel, filter %u", y, rows->width,
                     rows->height, rows->pixel_bytes, rows->filtered[y * (rows->row_bytes + 1)]);
        for (size_t i = rows->row_bytes; i < rows->stride; i++)
            assert_int_equal(to[y * rows->stride + i], fill);
    }
    for (size_t i = 0; i < guard; i++)
        assert_int_equal(block[i], fill);
    free(block);
    free(zeros);
}

static void check(size_t width, size_t height, const uint8_t filters[FILTERS], uint32_t *random)
{
    static const size_t pixel_bytes[] = {1, 3, 4};
    for (size_t i = 0; i < COUNT_OF(pixel_bytes); i++) {
        struct rows rows = make_rows(width, height, pixel_bytes[i], filters, random);
        expect_pixels(&rows, unfilter_row_plain);
        expect_pixels(&rows, unfilter_row);
        expect_pixels(&rows, NULL);
        free(rows.pixels);
        free(rows.filtered);
    }
}

static const size_t widths[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 15,  16, 17,
                                18, 21, 22, 23, 31, 32, 33, 47, 48, 49, 63, 64, 65, 100, 257};

TEST(test_each_filter)
{
    uint32_t random = 1;
    for (uint8_t filter = 0; filter < FILTERS; filter++)
        for (size_t i = 0; i < COUNT_OF(widths); i++) {
            const uint8_t filters[FILTERS] = {filter, filter, filter, filter, filter};
            check(widths[i], 1, filters, &random);
            check(widths[i], 5, filters, &random);
            check(widths[i], 21, filters, &random);
        }
}

/* Rows together have any filters. */
TEST(test_mixed_filters)
{
    uint32_t random = 2;
    for (size_t n = 0; n < 625; n++) {
        const uint8_t filters[FILTERS] = {n % 5, n / 5 % 5, n / 25 % 5, n / 125 % 5,
                                          (n + n / 5) % 5};
        check(widths[n % COUNT_OF(widths)], 4 + n % 16, filters, &random);
    }
}

TEST(test_long_sides)
{
    static const uint8_t filters[FILTERS] = {4, 3, 1, 4, 2}, paeth[FILTERS] = {4, 4, 4, 4, 4};
    uint32_t random = 3;
    check(16384, 13, filters, &random);
    check(16384, 8, paeth, &random);
    check(1, 16384, filters, &random);
    check(1, 16384, paeth, &random);
}

TEST_MAIN(.name = "unfilter")
