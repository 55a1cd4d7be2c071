/* Tests of PNGs with a palette or with few bits per pixel: libpng reads them, and a slow and simple
 * median cut after the definition in png_palette.h gives the same pixels. */
#include "tests/fixtures/codec_rig.h"

#include <arpa/inet.h>
#include <png.h>
#include <zlib.h>

#include "codecs/png/png_palette.h"

/* ---- reading with libpng ---- */

struct png_file {
    int type, depth, colours, alphas;
    png_color colour[256];
    png_byte alpha[256];
    uint32_t width, height;
    uint8_t *samples; /* of the file, a byte per pixel */
};

struct reader {
    const uint8_t *bytes;
    size_t left;
};

static void read_some(png_structp png, png_bytep to, size_t count)
{
    struct reader *reader = png_get_io_ptr(png);
    assert_true(count <= reader->left);
    memcpy(to, reader->bytes, count);
    reader->bytes += count;
    reader->left -= count;
}

static void fail_read(png_structp png, png_const_charp message)
{
    (void)png;
    fail_msg("libpng: %s", message);
}

/* Reads a gray file or one with a palette. free(samples) */
static struct png_file read_file(const struct picture_file *file)
{
    struct png_file read = {.samples = NULL};
    struct reader reader = {file->bytes, file->length};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, fail_read, fail_read);
    png_infop info = png_create_info_struct(png);
    png_set_read_fn(png, &reader, read_some);
    png_read_info(png, info);
    png_get_IHDR(png, info, &read.width, &read.height, &read.depth, &read.type, NULL, NULL, NULL);
    png_colorp colours = NULL;
    png_bytep alphas = NULL;
    png_get_PLTE(png, info, &colours, &read.colours);
    png_get_tRNS(png, info, &alphas, &read.alphas, NULL);
    memset(read.alpha, 255, sizeof read.alpha);
    if (colours != NULL)
        memcpy(read.colour, colours, (size_t)read.colours * sizeof *colours);
    if (alphas != NULL)
        memcpy(read.alpha, alphas, (size_t)read.alphas);
    png_set_packing(png);
    assert_true(read.type == PNG_COLOR_TYPE_GRAY || read.type == PNG_COLOR_TYPE_PALETTE);
    read.samples = malloc((size_t)read.width * read.height);
    assert_non_null(read.samples);
    for (uint32_t y = 0; y < read.height; y++)
        png_read_row(png, read.samples + (size_t)y * read.width, NULL);
    png_read_end(png, info);
    assert_int_equal(reader.left, 0);
    png_destroy_read_struct(&png, &info, NULL);
    return read;
}

/* The pixel as red, green, blue and alpha, the highest byte first. */
static uint32_t rgba_at(const struct image *image, size_t at)
{
    size_t x = at % image->width, y = at / image->width;
    const uint8_t *pixel = image->pixels + y * image->stride + x * image->channels;
    uint32_t rgb = image->channels == 1
                       ? pixel[0] * 0x010101u
                       : (uint32_t)pixel[0] << 16 | (uint32_t)pixel[1] << 8 | pixel[2];
    return rgb << 8 | (image->channels == 4 ? pixel[3] : 255);
}

static uint32_t read_rgba(const struct png_file *file, size_t at)
{
    uint32_t sample = file->samples[at];
    if (file->type == PNG_COLOR_TYPE_GRAY)
        return sample * 255 / ((1u << file->depth) - 1) * 0x01010100u | 255;
    assert_true(sample < (uint32_t)file->colours);
    const png_color *colour = &file->colour[sample];
    return (uint32_t)colour->red << 24 | (uint32_t)colour->green << 16 |
           (uint32_t)colour->blue << 8 | file->alpha[sample];
}

/* ---- images ---- */

static struct image make_image(uint32_t width, uint32_t height, uint32_t channels)
{
    size_t row = (size_t)width * channels;
    struct image image = {
        .width = width, .height = height, .channels = channels, .stride = row + 3};
    image.pixels = malloc(image.stride * (height - 1) + row); /* so that sanitizers see overruns */
    assert_non_null(image.pixels);
    return image;
}

static size_t pixels_of(const struct image *image)
{
    return (size_t)image->width * image->height;
}

static void put(const struct image *image, size_t at, uint32_t rgba)
{
    size_t x = at % image->width, y = at / image->width;
    uint8_t *pixel = image->pixels + y * image->stride + x * image->channels;
    for (uint32_t c = 0; c < image->channels; c++)
        pixel[c] = (uint8_t)(rgba >> (24 - 8 * c));
}

/* The first pixels have all of the colours, the others any of them. */
static void fill_from(const struct image *image, const uint32_t *colours, uint32_t count,
                      uint32_t *random)
{
    for (size_t i = 0; i < pixels_of(image); i++)
        put(image, i, colours[i < count ? i : picture_random(random) % count]);
}

/* `count` different colours; half of those of RGBA have an alpha. */
static void make_colours(uint32_t channels, uint32_t count, uint32_t *random, uint32_t *colours)
{
    bool seen[256] = {false};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = picture_random(random) % 256;
        while (seen[first])
            first = (first + 1) % 256;
        seen[first] = true;
        uint32_t alpha = channels < 4 || i % 2 == 0 ? 255 : i % 3 == 0 ? 0 : 1 + i % 254;
        colours[i] = first << 24 | (picture_random(random) % 65536) << 8 | alpha;
    }
}

static struct picture_file encode_with(const struct image *image, int colours, int level)
{
    return rig_encode_as(image, "png", .encoder = {.colors = colours, .compression = level});
}

/* ---- few colours ---- */

static int depth_of(uint32_t count)
{
    return count <= 2 ? 1 : count <= 4 ? 2 : count <= 16 ? 4 : 8;
}

static bool comes_before(uint32_t a, uint32_t b)
{
    bool opaque_a = (a & 255) == 255, opaque_b = (b & 255) == 255;
    return opaque_a != opaque_b ? opaque_b : a < b;
}

/* Compares each pixel, and checks the order of the palette. */
static void expect_exact(const struct image *image, const struct picture_file *file, uint32_t count)
{
    struct png_file read = read_file(file);
    int with_alpha = 0;
    for (size_t i = 0; i < pixels_of(image); i++)
        if (read_rgba(&read, i) != rgba_at(image, i))
            fail_msg("%u x %u x %u, %u colours: pixel %zu is %08X, not %08X", image->width,
                     image->height, image->channels, count, i, read_rgba(&read, i),
                     rgba_at(image, i));
    if (read.type == PNG_COLOR_TYPE_PALETTE) {
        assert_int_equal(read.colours, count);
        assert_int_equal(read.depth, depth_of(count));
        struct png_file entries = read;
        uint8_t all[256];
        entries.samples = all;
        for (int i = 0; i < 256; i++)
            all[i] = (uint8_t)i;
        for (size_t i = 0; i < count; i++) {
            with_alpha += (read_rgba(&entries, i) & 255) < 255;
            assert_true(i == 0 || comes_before(read_rgba(&entries, i - 1), read_rgba(&entries, i)));
        }
        assert_int_equal(read.alphas, with_alpha);
    }
    free(read.samples);
}

static void check_exact(uint32_t width, uint32_t height, uint32_t channels, uint32_t count,
                        uint32_t seed)
{
    uint32_t colours[256], random = seed * 2654435761u + 1;
    struct image image = make_image(width, height, channels);
    if (count > pixels_of(&image))
        count = (uint32_t)pixels_of(&image);
    make_colours(channels, count, &random, colours);
    fill_from(&image, colours, count, &random);
    int limits[] = {count < 2 ? 2 : (int)count, 256};
    for (int i = 0; i < 2; i++) {
        struct picture_file file = encode_with(&image, limits[i], (int)(seed + i) % 10);
        expect_exact(&image, &file, count);
        picture_free(&file);
    }
    free(image.pixels);
}

static const uint32_t channel_counts[] = {1, 3, 4};

TEST(test_few_colours)
{
    static const uint32_t sides[][2] = {{1, 1}, {1, 90}, {90, 1}, {20, 20}, {61, 47}};
    static const uint32_t counts[] = {1, 2, 3, 4, 5, 15, 16, 17, 64, 255, 256};
    for (size_t i = 0; i < COUNT_OF(sides) * COUNT_OF(counts); i++)
        for (int c = 0; c < 3; c++)
            check_exact(sides[i % COUNT_OF(sides)][0], sides[i % COUNT_OF(sides)][1],
                        channel_counts[c], counts[i / COUNT_OF(sides)], (uint32_t)i + 1);
}

/* Every number of pixels in the last byte of a row, at every depth. */
TEST(test_widths)
{
    static const uint32_t counts[] = {2, 4, 16, 17};
    for (uint32_t width = 1; width <= 17; width++)
        for (size_t i = 0; i < COUNT_OF(counts); i++)
            check_exact(width, 19, channel_counts[(width + i) % 3], counts[i], width);
    check_exact(16384, 2, 3, 2, 1);
    check_exact(16384, 3, 4, 200, 1);
    check_exact(65500, 1, 1, 3, 1);
}

/* Gray stays gray if that takes no more bits than a palette. */
TEST(test_gray)
{
    static const struct {
        uint8_t values[20];
        uint32_t count;
        int type, depth;
    } rows[] = {
        {{0, 255}, 2, PNG_COLOR_TYPE_GRAY, 1},
        {{255}, 1, PNG_COLOR_TYPE_GRAY, 1},
        {{0, 85}, 2, PNG_COLOR_TYPE_PALETTE, 1},
        {{0, 85, 170}, 3, PNG_COLOR_TYPE_GRAY, 2},
        {{0, 85, 170, 255}, 4, PNG_COLOR_TYPE_GRAY, 2},
        {{0, 85, 171, 255}, 4, PNG_COLOR_TYPE_PALETTE, 2},
        {{0, 17, 34, 51, 255}, 5, PNG_COLOR_TYPE_GRAY, 4},
        {{1, 17, 34, 51, 255}, 5, PNG_COLOR_TYPE_PALETTE, 4},
        {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 16, PNG_COLOR_TYPE_PALETTE, 4},
        {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, 17, PNG_COLOR_TYPE_GRAY, 8},
    };
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        uint32_t colours[20], random = 9;
        struct image image = make_image(23, 9, 1);
        for (uint32_t i = 0; i < rows[r].count; i++)
            colours[i] = (uint32_t)rows[r].values[i] << 24;
        fill_from(&image, colours, rows[r].count, &random);
        struct picture_file file = encode_with(&image, 256, 3);
        struct png_file read = read_file(&file);
        assert_int_equal(read.type, rows[r].type);
        assert_int_equal(read.depth, rows[r].depth);
        expect_exact(&image, &file, rows[r].count);
        free(read.samples);
        picture_free(&file);
        free(image.pixels);
    }
}

/* A gray image that needs 8 bits is written as without a palette. */
TEST(test_gray_of_many_values)
{
    struct image image = rig_picture(200, 100, 1, 3);
    for (int level = 0; level <= 6; level += 3) {
        struct picture_file file = encode_with(&image, 256, level);
        struct picture_file plain = encode_with(&image, 0, level);
        assert_int_equal(file.length, plain.length);
        assert_memory_equal(file.bytes, plain.bytes, plain.length);
        picture_free(&plain);
        picture_free(&file);
    }
    free(image.pixels);
}

/* ---- the median cut, a step at a time ---- */

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
        slow->keys[i] = slow_key(rgba_at(slow->image, i), slow->shift, at);
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
    return first == second ? 0 : comes_before(first, second) ? -1 : 1;
}

static void slow_entries(struct slow *slow)
{
    int64_t sums[256][5] = {{0}};
    for (size_t i = 0; i < slow->pixels; i++) {
        uint32_t rgba = rgba_at(slow->image, i);
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
    struct slow slow = {.image = image, .pixels = pixels_of(image)};
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
        slow_find(&slow, rgba_at(image, i)); /* sets its position */
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
        wanted[i] =
            is_exact ? rgba_at(image, i) : slow.entries[slow_find(&slow, rgba_at(image, i))->box];
    free(slow.cell);
    free(slow.keys);
    return wanted;
}

/* Compares with the slow median cut. */
static void check_reduced(const struct image *image, int colours, const char *what)
{
    int count;
    uint32_t *wanted = slow_reduce(image, colours, &count);
    struct picture_file file = encode_with(image, colours, 1);
    struct png_file read = read_file(&file);
    if (read.type == PNG_COLOR_TYPE_PALETTE && read.colours != count)
        fail_msg("%s, %d colours: %d entries, not %d", what, colours, read.colours, count);
    for (size_t i = 0; i < pixels_of(image); i++)
        if (read_rgba(&read, i) != wanted[i])
            fail_msg("%s, %u x %u x %u, %d colours: pixel %zu, %08X, is %08X, not %08X", what,
                     image->width, image->height, image->channels, colours, i, rgba_at(image, i),
                     read_rgba(&read, i), wanted[i]);
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
    struct image image = make_image(width, height, channels);
    uint32_t random = 77 + (uint32_t)kind;
    for (size_t i = 0; i < pixels_of(&image); i++)
        put(&image, i, pixel_of(kind, i, &random));
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
    struct image image = make_kind(400, 300, 4, NOISE), turned = make_image(300, 400, 4);
    for (size_t i = 0; i < pixels_of(&image); i++)
        put(&turned, pixels_of(&image) - 1 - i, rgba_at(&image, i));
    struct picture_file file = encode_with(&image, 64, 1), other = encode_with(&turned, 64, 1);
    struct png_file read = read_file(&file), back = read_file(&other);
    for (size_t i = 0; i < pixels_of(&image); i++)
        assert_int_equal(read_rgba(&read, i), read_rgba(&back, pixels_of(&image) - 1 - i));
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
    struct picture_file file = encode_with(&image, 3, 3);
    struct png_file read = read_file(&file);
    for (size_t i = 0; i < pixels_of(&image); i++) {
        uint32_t alpha = rgba_at(&image, i) & 255, now = read_rgba(&read, i) & 255;
        assert_int_equal(alpha == 255, now == 255);
        if (alpha == 0)
            assert_int_equal(read_rgba(&read, i), 0);
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
        struct picture_file file = encode_with(&image, 100, 3);
        struct png_file read = read_file(&file);
        uint32_t crc = 0;
        for (size_t i = 0; i < pixels_of(&image); i++) {
            uint32_t rgba = htonl(read_rgba(&read, i));
            crc = (uint32_t)crc32(crc, (const uint8_t *)&rgba, sizeof rgba);
        }
        assert_int_equal(crc, crcs[c]);
        free(read.samples);
        picture_free(&file);
        free(image.pixels);
    }
}

/* ---- two values ---- */

static void check_bilevel(uint32_t width, uint32_t height, int level, uint32_t seed)
{
    uint32_t random = seed * 2654435761u + 1, colours[] = {0, 0xFFFFFFFF};
    struct image image = make_image(width, height, 1);
    for (size_t i = 0; i < pixels_of(&image); i++)
        put(&image, i, colours[picture_random(&random) >> 4 & 1]);
    struct picture_file file =
        rig_encode_as(&image, "png", .bilevel = true, .encoder.compression = level);
    struct png_file read = read_file(&file);
    assert_int_equal(read.type, PNG_COLOR_TYPE_GRAY);
    assert_int_equal(read.depth, 1);
    free(read.samples);
    expect_exact(&image, &file, 2);
    if (width <= 16384) {
        rig_reads(&file, STATUS_OK, NULL);
        assert_int_equal(rig.info.channels, 1);
    }
    /* `colors` finds the same. */
    struct picture_file other = encode_with(&image, 2, level);
    assert_int_equal(other.length, file.length);
    assert_memory_equal(other.bytes, file.bytes, file.length);
    picture_free(&other);
    picture_free(&file);
    free(image.pixels);
}

TEST(test_bilevel)
{
    for (uint32_t width = 1; width <= 70; width += width < 18 ? 1 : 13)
        for (int level = 0; level <= 9; level += 1 + level / 4)
            check_bilevel(width, 1 + width % 5, level, width);
    check_bilevel(16384, 9, 3, 1);
    check_bilevel(1, 3000, 3, 2);
    check_bilevel(65500, 2, 3, 3);
}

/* ---- metadata, memory and failures ---- */

/* A palette is RGB, so the profile of RGB stays. Gray never has one. */
TEST(test_profile)
{
    struct picture_file icc = picture_icc(400, "RGB ");
    memset(icc.bytes + 128, 0, 4); /* no tags */
    for (int c = 0; c < 3; c++) {
        struct image image = make_kind(30, 20, channel_counts[c], NOISE);
        struct picture_file file = rig_encode_as(
            &image, "png", .encoder = {.colors = 5, .compression = 3}, .icc = icc.bytes,
            .icc_bytes = icc.length, .density = {300, 300, DENSITY_INCH});
        rig_reads(&file, STATUS_OK, NULL);
        assert_int_equal(rig.info.icc_bytes, image.channels == 1 ? 0 : icc.length);
        assert_int_equal(rig.info.density.x, 11811);
        picture_free(&file);
        free(image.pixels);
    }
    picture_free(&icc);
}

/* Noise of few colours, which no coder compresses. */
TEST(test_bound)
{
    static const uint32_t sides[][2] = {{1, 1}, {1, 5000}, {5000, 1}, {300, 200}};
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (int colours = 2; colours <= 256; colours *= 2) {
            const struct encoder_settings settings = {.colors = colours, .compression = 1};
            struct image image = make_kind(sides[i][0], sides[i][1], 4, NOISE);
            struct picture_file file = encode_with(&image, colours, 1);
            assert_true(file.length <= codec_encoded_bytes(format_by_name("png"), image.width,
                                                           image.height, 4, &settings, 0));
            picture_free(&file);
            free(image.pixels);
        }
}

TEST(test_memory)
{
    struct encoder_settings settings = {.colors = 256};
    const struct format *png = format_by_name("png");
    size_t small = codec_encoder_bytes(png, 16, 16, 4, &settings, 0);
    size_t large = codec_encoder_bytes(png, 16384, 16384, 4, &settings, 0);
    assert_in_range(small, 1000, 64 * KIB);
    assert_in_range(large, 2 * MIB, 3 * MIB);
    settings.colors = 0;
    assert_int_equal(codec_encoder_bytes(png, 16384, 16384, 4, &settings, 0), 0);
}

TEST(test_failures)
{
    struct image image = make_kind(2500, 1000, 3, NOISE);
    struct encode_request request = {.format = format_by_name("png"),
                                     .encoder = {.colors = 256, .compression = 6}};
    struct rig_sink sink = {.bytes_max = 20000, .silent = true};
    assert_int_equal(rig_encode_into(&rig, &image, &request, 4096, &sink), STATUS_WRITE_FAILED);
    assert_non_null(strstr(rig.error.text, "the PNG could not be written after"));
    picture_free(&sink.file);
    static const char *const texts[] = {"before its start", "before the palette was found"};
    for (int i = 0; i < 2; i++) {
        sink = (struct rig_sink){.bytes_max = 0};
        request.deadline_ns = i == 0 ? 1 : clock_now_ns() + 4000000;
        assert_int_equal(rig_encode_into(&rig, &image, &request, 4096, &sink), STATUS_TIMEOUT);
        assert_non_null(strstr(rig.error.text, texts[i]));
        picture_free(&sink.file);
    }
    free(image.pixels);
}

TEST_MAIN(.name = "png_palette", .each_setup = rig_setup, .each_teardown = rig_teardown)
