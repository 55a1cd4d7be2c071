/* Tests of the colours of a PNG with a palette: a slow and simple median cut after the definition
 * in png_palette.h gives the same pixels. */
#include "tests/fixtures/palette_file.h"

#include <arpa/inet.h>
#include <zlib.h>

static const uint32_t channel_counts[] = {1, 3, 4};

struct slow_cell {
    uint32_t key;
    int box;
    int64_t pixels, at[4];
};

struct slow {
    const struct image *image;
    size_t pixels;
    int shift, boxes;
    size_t cells;
    struct slow_cell *cell;
    uint32_t *keys;
    uint32_t entries[256]; /* red in the highest byte */
    int64_t at[256][4];
};

/* A different number for each cell, and the centre of the cell in half units. */
static uint32_t slow_key(uint32_t rgba, int shift, int64_t at[4])
{
    int64_t side = (int64_t)1 << shift, alpha = rgba & 255, key = 0;
    bool is_clear = alpha == 0 && shift > 0;
    int64_t low = alpha == 0 || alpha == 255 ? alpha : alpha / side * side;
    at[3] = alpha == 255 ? 510 : alpha == 0 ? 0 : 2 * low + side - 1;
    for (int c = 0; c < 3; c++) {
        int64_t value = (rgba >> (24 - 8 * c) & 255) / side * side;
        at[c] = ((2 * value + side - 1) * at[3] + 255) / 510;
        key = key * 256 + (is_clear ? 0 : value);
    }
    /* alpha as a cell: 0, 255, and the others one higher, which is at most 255 with a side of 1 */
    int64_t of_alpha = alpha == 0 ? 0 : alpha == 255 ? 1 : 2 + low / side;
    return (uint32_t)(key * 256 + of_alpha);
}

static int compare_keys(const void *a, const void *b)
{
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
    return (first > second) - (first < second);
}

static void slow_list_cells(struct slow *slow)
{
    int64_t at[4];
    for (size_t i = 0; i < slow->pixels; i++)
        slow->keys[i] = slow_key(palette_image_rgba(slow->image, i), slow->shift, at);
    qsort(slow->keys, slow->pixels, sizeof *slow->keys, compare_keys);
    slow->cells = 0;
    for (size_t i = 0; i < slow->pixels; i++) {
        if (i == 0 || slow->keys[i] != slow->keys[i - 1])
            slow->cell[slow->cells++] = (struct slow_cell){.key = slow->keys[i]};
        slow->cell[slow->cells - 1].pixels++;
    }
}

static struct slow_cell *slow_find(const struct slow *slow, uint32_t rgba)
{
    int64_t at[4];
    uint32_t key = slow_key(rgba, slow->shift, at);
    struct slow_cell *cell = bsearch(&key, slow->cell, slow->cells, sizeof *cell, compare_keys);
    assert_non_null(cell);
    memcpy(cell->at, at, sizeof at);
    return cell;
}

/* 0: transparent, 2: opaque. */
static int kind_of(const struct slow_cell *cell)
{
    return cell->at[3] == 0 ? 0 : cell->at[3] == 510 ? 2 : 1;
}

static int64_t slow_spread(const struct slow *slow, int box, int axis)
{
    int64_t pixels = 0, sum = 0, spread = 0;
    for (size_t i = 0; i < slow->cells; i++)
        if (slow->cell[i].box == box) {
            pixels += slow->cell[i].pixels;
            sum += slow->cell[i].pixels * slow->cell[i].at[axis];
        }
    for (size_t i = 0; i < slow->cells; i++)
        if (slow->cell[i].box == box) {
            int64_t off = slow->cell[i].at[axis] - sum / pixels;
            spread += slow->cell[i].pixels * off * off;
        }
    return spread;
}

static int64_t slow_median(const struct slow *slow, int box, int axis)
{
    int64_t all = 0, highest = 0;
    for (size_t i = 0; i < slow->cells; i++)
        if (slow->cell[i].box == box) {
            all += slow->cell[i].pixels;
            if (slow->cell[i].at[axis] > highest)
                highest = slow->cell[i].at[axis];
        }
    int64_t below = 0, lower = -1;
    for (int64_t x = 0;; x++) {
        int64_t here = 0;
        for (size_t i = 0; i < slow->cells; i++)
            if (slow->cell[i].box == box && slow->cell[i].at[axis] == x)
                here += slow->cell[i].pixels;
        below += here;
        if (2 * below >= all)
            return x < highest ? x : lower;
        if (here > 0)
            lower = x;
    }
}

/* The spread and the axis of each box, measured when it was made. */
struct slow_box {
    int64_t spread, limit;
    int axis;
};

static struct slow_box slow_measure(const struct slow *slow, int box)
{
    struct slow_box measured = {.limit = -1};
    bool kinds[3] = {false};
    for (size_t i = 0; i < slow->cells; i++)
        if (slow->cell[i].box == box)
            kinds[kind_of(&slow->cell[i])] = true;
    if (kinds[0] + kinds[1] + kinds[2] > 1)
        return (struct slow_box){INT64_MAX, kinds[0] ? 0 : 509, 3};
    for (int axis = 0; axis < 4; axis++) {
        int64_t spread = slow_spread(slow, box, axis);
        if (spread > measured.spread) {
            measured.spread = spread;
            measured.axis = axis;
        }
    }
    return measured;
}

static void slow_cut(struct slow *slow, int colours)
{
    struct slow_box boxes[256];
    slow->boxes = 1;
    boxes[0] = slow_measure(slow, 0);
    while (slow->boxes < colours) {
        int widest = 0;
        for (int i = 1; i < slow->boxes; i++)
            if (boxes[i].spread > boxes[widest].spread)
                widest = i;
        struct slow_box box = boxes[widest];
        if (box.spread == 0)
            return;
        int64_t limit = box.limit >= 0 ? box.limit : slow_median(slow, widest, box.axis);
        for (size_t i = 0; i < slow->cells; i++)
            if (slow->cell[i].box == widest && slow->cell[i].at[box.axis] > limit)
                slow->cell[i].box = slow->boxes;
        boxes[slow->boxes] = slow_measure(slow, slow->boxes);
        slow->boxes++;
        boxes[widest] = slow_measure(slow, widest);
    }
}

static int compare_entries(const void *a, const void *b)
{
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
    return first == second ? 0 : palette_comes_before(first, second) ? -1 : 1;
}

static void slow_entries(struct slow *slow)
{
    int64_t sums[256][5] = {{0}};
    for (size_t i = 0; i < slow->pixels; i++) {
        uint32_t rgba = palette_image_rgba(slow->image, i);
        int64_t *sum = sums[slow_find(slow, rgba)->box], alpha = rgba & 255;
        for (int c = 0; c < 3; c++)
            sum[c] += (int64_t)(rgba >> (24 - 8 * c) & 255) * alpha;
        sum[3] += alpha;
        sum[4]++;
    }
    for (int box = 0; box < slow->boxes; box++) {
        const int64_t *sum = sums[box];
        uint32_t rgba = 0;
        for (int c = 0; c < 3; c++)
            rgba = rgba << 8 | (uint32_t)(sum[3] > 0 ? (2 * sum[c] + sum[3]) / (2 * sum[3]) : 0);
        slow->entries[box] = rgba << 8 | (uint32_t)((2 * sum[3] + sum[4]) / (2 * sum[4]));
    }
    qsort(slow->entries, (size_t)slow->boxes, sizeof *slow->entries, compare_entries);
    for (int i = 0; i < slow->boxes; i++)
        slow_key(slow->entries[i], 0, slow->at[i]);
}

static int slow_nearest(const struct slow *slow, const struct slow_cell *cell)
{
    int64_t least = INT64_MAX;
    int best = -1;
    for (int wants_opaque = kind_of(cell) == 2; best < 0; wants_opaque = 0)
        for (int i = 0; i < slow->boxes; i++) {
            int64_t distance = 0, alpha = cell->at[3] - slow->at[i][3];
            for (int c = 0; c < 3; c++) {
                int64_t off = cell->at[c] - slow->at[i][c];
                distance += off * off + (off - alpha) * (off - alpha);
            }
            if (distance < least && (!wants_opaque || slow->at[i][3] == 510)) {
                least = distance;
                best = i;
            }
        }
    return best;
}

/* Returns the wanted pixels as red, green, blue and alpha, which the caller frees. */
static uint32_t *slow_reduce(const struct image *image, int colours, int *count)
{
    struct slow slow = {.image = image, .pixels = palette_image_pixels(image)};
    slow.cell = calloc(slow.pixels, sizeof *slow.cell);
    slow.keys = calloc(slow.pixels, sizeof *slow.keys);
    uint32_t *wanted = malloc(slow.pixels * sizeof *wanted);
    assert_true(slow.cell != NULL && slow.keys != NULL && wanted != NULL);
    slow_list_cells(&slow);
    while (slow.cells > 65536) {
        slow.shift++;
        slow_list_cells(&slow);
    }
    for (size_t i = 0; i < slow.pixels; i++)
        slow_find(&slow, palette_image_rgba(image, i)); /* sets its position */
    bool is_exact = slow.shift == 0 && slow.cells <= (size_t)colours;
    *count = (int)slow.cells;
    if (!is_exact) {
        slow_cut(&slow, colours);
        slow_entries(&slow);
        for (size_t i = 0; i < slow.cells; i++)
            slow.cell[i].box = slow_nearest(&slow, &slow.cell[i]);
        *count = slow.boxes;
    }
    for (size_t i = 0; i < slow.pixels; i++)
        wanted[i] = is_exact ? palette_image_rgba(image, i)
                             : slow.entries[slow_find(&slow, palette_image_rgba(image, i))->box];
    free(slow.cell);
    free(slow.keys);
    return wanted;
}

/* Compares with the slow median cut. */
static void check_reduced(const struct image *image, int colours, const char *what)
{
    int count;
    uint32_t *wanted = slow_reduce(image, colours, &count);
    struct picture_file file = palette_encode(image, colours, 1);
    struct palette_file read = palette_file_read(&file);
    if (read.type == PNG_COLOR_TYPE_PALETTE && read.colours != count)
        fail_msg("%s, %d colours: %d entries, not %d", what, colours, read.colours, count);
    for (size_t i = 0; i < palette_image_pixels(image); i++)
        if (palette_file_rgba(&read, i) != wanted[i])
            fail_msg("%s, %u x %u x %u, %d colours: pixel %zu, %08X, is %08X, not %08X", what,
                     image->width, image->height, image->channels, colours, i,
                     palette_image_rgba(image, i), palette_file_rgba(&read, i), wanted[i]);
    free(read.samples);
    picture_free(&file);
    free(wanted);
}

enum kind { NOISE, SCENE, RAMP, SPREAD_OUT, MOSTLY_FLAT, ALPHAS, KINDS };

static uint32_t pixel_of(enum kind kind, size_t at, uint32_t *random)
{
    uint32_t any = picture_random(random), step = (uint32_t)at % 300;
    switch (kind) {
    case RAMP:
        return step * 217 / 256 << 24 | step * 80 / 100 << 16 | (step / 2) << 8 | (255 - step / 3);
    case SPREAD_OUT: /* many equal values: ties */
        return (any & 0xC0C0C000) | (any & 1 ? 255 : 128);
    case MOSTLY_FLAT:
        return any % 8 != 0 ? 0xFFFFFFFF : any | (any >> 8 & 1 ? 255 : 0);
    case ALPHAS:
        return any % 4 == 0   ? any & 0xFFFFFF00 /* transparent, of many colours */
               : any % 4 == 1 ? 0x10203000 | (any >> 8 & 255)
                              : any | 255;
    default:
        return any;
    }
}

static struct image make_kind(uint32_t width, uint32_t height, uint32_t channels, enum kind kind)
{
    if (kind == SCENE)
        return rig_picture(width, height, channels, 3);
    struct image image = palette_image(width, height, channels);
    uint32_t random = 77 + (uint32_t)kind;
    for (size_t i = 0; i < palette_image_pixels(&image); i++)
        palette_image_put(&image, i, pixel_of(kind, i, &random));
    return image;
}

TEST(test_median_cut)
{
    static const char *const names[KINDS] = {"noise",  "scene",       "ramp",
                                             "spread", "mostly flat", "alphas"};
    static const int colours[] = {2, 3, 4, 5, 16, 17, 100, 255};
    for (int kind = 0; kind < KINDS; kind++)
        for (int c = 0; c < 3; c++) {
            struct image image = make_kind(45, 37, channel_counts[c], (enum kind)kind);
            for (size_t i = 0; i < COUNT_OF(colours); i++)
                check_reduced(&image, colours[i], names[kind]);
            free(image.pixels);
        }
}

/* Images of more than 65536 colours, which are counted in larger cells. */
TEST(test_larger_cells)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int c = 1; c < 3; c++) {
            if (kind != NOISE && kind != MOSTLY_FLAT && kind != ALPHAS)
                continue;
            struct image image =
                make_kind(kind == MOSTLY_FLAT ? 900 : 300, 240, channel_counts[c], kind);
            check_reduced(&image, kind == NOISE ? 9 : 20, "cells");
            free(image.pixels);
        }
}

/* The cells do not depend on the order of the pixels, nor on the random hash. */
TEST(test_order_does_not_matter)
{
    struct image image = make_kind(400, 300, 4, NOISE), turned = palette_image(300, 400, 4);
    for (size_t i = 0; i < palette_image_pixels(&image); i++)
        palette_image_put(&turned, palette_image_pixels(&image) - 1 - i,
                          palette_image_rgba(&image, i));
    struct picture_file file = palette_encode(&image, 64, 1),
                        other = palette_encode(&turned, 64, 1);
    struct palette_file read = palette_file_read(&file), back = palette_file_read(&other);
    for (size_t i = 0; i < palette_image_pixels(&image); i++)
        assert_int_equal(palette_file_rgba(&read, i),
                         palette_file_rgba(&back, palette_image_pixels(&image) - 1 - i));
    free(read.samples);
    free(back.samples);
    picture_free(&file);
    picture_free(&other);
    free(image.pixels);
    free(turned.pixels);
}

/* Opaque pixels stay opaque and transparent ones transparent. */
TEST(test_alpha_is_kept)
{
    struct image image = make_kind(200, 100, 4, ALPHAS);
    struct picture_file file = palette_encode(&image, 3, 3);
    struct palette_file read = palette_file_read(&file);
    for (size_t i = 0; i < palette_image_pixels(&image); i++) {
        uint32_t alpha = palette_image_rgba(&image, i) & 255,
                 now = palette_file_rgba(&read, i) & 255;
        assert_int_equal(alpha == 255, now == 255);
        if (alpha == 0)
            assert_int_equal(palette_file_rgba(&read, i), 0);
    }
    free(read.samples);
    picture_free(&file);
    free(image.pixels);
}

/* The same on every machine. */
TEST(test_same_as_ever)
{
    static const uint32_t crcs[3] = {0x699D8B10, 0xCDE378AF, 0xEEBAAD9F};
    for (int c = 0; c < 3; c++) {
        struct image image = make_kind(300, 240, channel_counts[c], SCENE);
        struct picture_file file = palette_encode(&image, 100, 3);
        struct palette_file read = palette_file_read(&file);
        uint32_t crc = 0;
        for (size_t i = 0; i < palette_image_pixels(&image); i++) {
            uint32_t rgba = htonl(palette_file_rgba(&read, i));
            crc = (uint32_t)crc32(crc, (const uint8_t *)&rgba, sizeof rgba);
        }
        assert_int_equal(crc, crcs[c]);
        free(read.samples);
        picture_free(&file);
        free(image.pixels);
    }
}

TEST_MAIN(.name = "median_cut", .each_setup = rig_setup, .each_teardown = rig_teardown)
