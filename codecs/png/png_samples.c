#include "codecs/png/png_samples.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* Samples with their memory. */
struct rows {
    struct png_samples samples; /* first, because users have a pointer to it */
    uint32_t width, channels, colours;
    struct png_palette *palette;        /* NULL: colours is 0 */
    uint8_t sample_of[PNG_COLOURS_MAX]; /* each entry */
    uint8_t *unpacked, *packed;
};

/* ---- memory ---- */

/* Of unpacked and of packed. */
static size_t row_bytes(uint32_t width)
{
    return buffer_align(width);
}

size_t png_samples_bytes(uint32_t width, uint32_t height, uint32_t colours)
{
    return buffer_align(sizeof(struct rows)) + 2 * row_bytes(width) +
           (colours > 0 ? png_palette_bytes(width, height) : 0);
}

struct png_samples *png_samples_create(uint32_t width, uint32_t height, uint32_t colours)
{
    size_t head = buffer_align(sizeof(struct rows));
    struct rows *rows = malloc(head + 2 * row_bytes(width));
    struct png_palette *palette = colours > 0 ? png_palette_create(width, height) : NULL;
    if (rows == NULL || (colours > 0 && palette == NULL)) {
        png_palette_destroy(palette);
        free(rows);
        return NULL;
    }
    *rows = (struct rows){.samples = {.is_gray = true, .depth = 1},
                          .width = width,
                          .colours = colours,
                          .palette = palette,
                          .unpacked = (uint8_t *)rows + head,
                          .packed = (uint8_t *)rows + head + row_bytes(width)};
    return &rows->samples;
}

void png_samples_destroy(struct png_samples *samples)
{
    if (samples != NULL)
        png_palette_destroy(((struct rows *)samples)->palette);
    free(samples);
}

/* ---- depth ---- */

static bool are_multiples(const struct png_palette_entries *entries, int step)
{
    for (uint32_t i = 0; i < entries->count; i++)
        if (entries->rgba[i][0] % step != 0)
            return false;
    return true;
}

static uint32_t gray_depth(const struct png_palette_entries *entries)
{
    return are_multiples(entries, 255)  ? 1
           : are_multiples(entries, 85) ? 2
           : are_multiples(entries, 17) ? 4
                                        : 8;
}

static uint32_t index_depth(uint32_t count)
{
    return count <= 2 ? 1 : count <= 4 ? 2 : count <= 16 ? 4 : 8;
}

static void choose_depth(struct rows *rows)
{
    struct png_samples *samples = &rows->samples;
    const struct png_palette_entries *entries = samples->entries;
    uint32_t of_gray = rows->channels == 1 ? gray_depth(entries) : UINT32_MAX;
    uint32_t of_index = index_depth(entries->count);
    samples->is_gray = of_gray <= of_index;
    samples->depth = samples->is_gray ? of_gray : of_index;
    uint32_t step = 255 / ((1u << samples->depth) - 1);
    for (uint32_t i = 0; i < entries->count; i++)
        rows->sample_of[i] = (uint8_t)(samples->is_gray ? entries->rgba[i][0] / step : i);
}

bool png_samples_find(struct png_samples *samples, const struct image *image, uint64_t deadline_ns)
{
    struct rows *rows = (struct rows *)samples;
    assert(image->width == rows->width && (rows->palette != NULL || image->channels == 1));
    rows->channels = image->channels;
    if (rows->palette != NULL) {
        samples->entries = png_palette_find(rows->palette, image, rows->colours, deadline_ns);
        if (samples->entries == NULL)
            return false;
        choose_depth(rows);
    }
    samples->row_bytes = ((size_t)rows->width * samples->depth + 7) / 8;
    return true;
}

/* ---- rows ---- */

/* Packs samples of 1 bit. Only the lowest bit of `from` counts, so 255 is 1. The product moves bit
 * 8i of the eight bytes to bit 63 - i: the first pixel is the highest bit. */
static void pack_1(const uint8_t *from, size_t count, uint8_t *to)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t eight;
        memcpy(&eight, from + 8 * i, sizeof eight);
        eight = le64toh(eight) & 0x0101010101010101;
        to[i] = (uint8_t)(eight * 0x8040201008040201 >> 56);
    }
}

static void pack_2(const uint8_t *from, size_t count, uint8_t *to)
{
    for (size_t i = 0; i < count; i++, from += 4)
        to[i] = (uint8_t)(from[0] << 6 | from[1] << 4 | from[2] << 2 | from[3]);
}

static void pack_4(const uint8_t *from, size_t count, uint8_t *to)
{
    for (size_t i = 0; i < count; i++, from += 2)
        to[i] = (uint8_t)(from[0] << 4 | from[1]);
}

static void pack_bytes(const uint8_t *from, uint32_t depth, size_t count, uint8_t *to)
{
    if (depth == 1)
        pack_1(from, count, to);
    else if (depth == 2)
        pack_2(from, count, to);
    else
        pack_4(from, count, to);
}

/* Packs a row. The unused bits of the last byte are 0. */
static void pack(const uint8_t *from, uint32_t width, uint32_t depth, uint8_t *to)
{
    uint8_t rest[8] = {0};
    uint32_t per_byte = 8 / depth, whole = width / per_byte, left = width % per_byte;
    pack_bytes(from, depth, whole, to);
    if (left == 0)
        return;
    memcpy(rest, from + (size_t)whole * per_byte, left);
    pack_bytes(rest, depth, 1, to + whole);
}

const uint8_t *png_samples_row(struct png_samples *samples, const uint8_t *row)
{
    struct rows *rows = (struct rows *)samples;
    if (rows->palette != NULL) {
        png_palette_map(rows->palette, row, rows->width, rows->channels, rows->unpacked);
        for (uint32_t x = 0; x < rows->width && samples->is_gray; x++)
            rows->unpacked[x] = rows->sample_of[rows->unpacked[x]];
        row = rows->unpacked;
    }
    if (samples->depth == 8)
        return row;
    pack(row, rows->width, samples->depth, rows->packed);
    return rows->packed;
}
