#include "codecs/png/png_palette.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/codec_impl.h"
#include "codecs/median_cut.h"
#include "codecs/png/png_cells.h"

static_assert(sizeof(struct median_cut_cell) >= sizeof(struct png_cell),
              "cells must fit the members");

/* Sums over the pixels of a box. */
struct sums {
    uint64_t pixels, colours[3], alpha; /* colours: times alpha */
};

struct png_palette {
    struct png_palette_entries entries;
    uint16_t at[PNG_COLOURS_MAX][CUT_AXES]; /* of the entries */
    struct png_cells cells;
    struct median_cut_cell *members;
    struct median_cut_box boxes[PNG_COLOURS_MAX];
    struct sums sums[PNG_COLOURS_MAX];
    uint8_t entry_of[PNG_COLOURS_MAX]; /* of each box */
    uint32_t count;                    /* of boxes */
};

/* ---- memory ---- */

size_t png_palette_bytes(uint32_t width, uint32_t height)
{
    uint64_t pixels = (uint64_t)width * height;
    return buffer_align(sizeof(struct png_palette)) + png_cells_bytes(pixels) +
           png_cells_max(pixels) * sizeof(struct median_cut_cell);
}

struct png_palette *png_palette_create(uint32_t width, uint32_t height)
{
    uint64_t pixels = (uint64_t)width * height;
    struct png_palette *palette = calloc(1, png_palette_bytes(width, height));
    if (palette == NULL)
        return NULL;
    uint8_t *slots = (uint8_t *)palette + buffer_align(sizeof *palette);
    palette->members = (struct median_cut_cell *)(slots + png_cells_bytes(pixels));
    /* There are no members yet while the cells are counted. */
    palette->cells =
        png_cells_make(pixels, (struct png_cell *)slots, (struct png_cell *)palette->members);
    return palette;
}

void png_palette_destroy(struct png_palette *palette)
{
    free(palette);
}

/* The cell that was found last, and its value. At first both are 0: no cell. */
struct lookup {
    uint32_t cell, value;
};

/* Returns the value of a colour's cell, less 1. */
static uint32_t number_of(const struct png_cells *cells, uint32_t colour, struct lookup *last)
{
    uint32_t cell = png_cell_of(colour, cells->shift);
    if (cell != last->cell || last->value == 0)
        *last = (struct lookup){cell, png_cells_find(cells, cell)->value};
    return last->value - 1;
}

static struct png_cell *cell_of(const struct png_palette *palette, uint32_t member)
{
    return &palette->cells.slots[palette->members[member].number];
}

/* ---- positions ---- */

static uint16_t product(uint32_t colour, uint32_t alpha)
{
    return (uint16_t)((colour * alpha + MEDIAN_CUT_UNITS / 2) / MEDIAN_CUT_UNITS);
}

/* The position of a cell; of a colour, if shift is 0. */
static void set_position(uint32_t colour, uint32_t shift, uint16_t at[CUT_AXES])
{
    uint32_t half = (1u << shift) - 1, alpha = colour >> 24, mask = 0xFFu << shift & 0xFF;
    alpha = alpha == 0 ? 0 : alpha == 255 ? MEDIAN_CUT_UNITS : 2 * (alpha & mask) + half;
    for (int axis = CUT_RED; axis <= CUT_BLUE; axis++)
        at[axis] = product(2 * (colour >> (8 * axis) & mask) + half, alpha);
    at[CUT_ALPHA] = (uint16_t)alpha;
}

/* ---- entries ---- */

/* Sorts numbers; qsort would allocate memory. */
static void sort(uint64_t *numbers, uint32_t count)
{
    static const uint32_t gaps[] = {57, 23, 10, 4, 1};
    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++)
        for (uint32_t i = gaps[g]; i < count; i++) {
            uint64_t number = numbers[i];
            uint32_t at = i;
            for (; at >= gaps[g] && numbers[at - gaps[g]] > number; at -= gaps[g])
                numbers[at] = numbers[at - gaps[g]];
            numbers[at] = number;
        }
}

/* Sets the entries and entry_of, from the colour of each box. */
static void set_entries(struct png_palette *palette, const uint32_t *colours, uint32_t count)
{
    struct png_palette_entries *entries = &palette->entries;
    uint64_t order[PNG_COLOURS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        uint64_t is_opaque = colours[i] >= PNG_OPAQUE;
        order[i] = is_opaque << 40 | (uint64_t)__builtin_bswap32(colours[i]) << 8 | i;
    }
    sort(order, count);
    entries->count = count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t box = order[i] & 0xFF, colour = colours[box];
        for (int channel = 0; channel < 4; channel++)
            entries->rgba[i][channel] = (uint8_t)(colour >> (8 * channel));
        entries->with_alpha += colour < PNG_OPAQUE;
        palette->entry_of[box] = (uint8_t)i;
        set_position(colour, 0, palette->at[i]);
    }
}

/* The colours of the image are the palette. */
static void take_all(struct png_palette *palette)
{
    uint32_t colours[PNG_COLOURS_MAX] = {0}, count = palette->cells.used;
    for (uint32_t i = 0; i < count; i++)
        colours[i] = cell_of(palette, i)->colour;
    set_entries(palette, colours, count);
    for (uint32_t i = 0; i < count; i++)
        cell_of(palette, i)->value = 1u + palette->entry_of[i];
}

static bool sum_pixels(struct png_palette *palette, const struct image *image, uint64_t deadline_ns)
{
    const struct png_cells *cells = &palette->cells;
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *row = image->pixels + y * image->stride;
        struct lookup last = {0};
        for (uint32_t x = 0; x < image->width; x++) {
            uint32_t colour = png_colour_at(row, x, image->channels), alpha = colour >> 24;
            struct sums *sums = &palette->sums[number_of(cells, colour, &last)];
            sums->pixels++;
            sums->alpha += alpha;
            for (int channel = 0; channel < 3; channel++)
                sums->colours[channel] += (colour >> (8 * channel) & 0xFF) * alpha;
        }
        if (codec_late(deadline_ns))
            return false;
    }
    return true;
}

static uint32_t mean_colour(const struct sums *sums)
{
    uint32_t colour = (uint32_t)((sums->alpha + sums->pixels / 2) / sums->pixels) << 24;
    for (int channel = 0; channel < 3 && sums->alpha > 0; channel++)
        colour |= (uint32_t)((sums->colours[channel] + sums->alpha / 2) / sums->alpha)
                  << (8 * channel);
    return colour;
}

static bool make_entries(struct png_palette *palette, const struct image *image,
                         uint64_t deadline_ns)
{
    uint32_t colours[PNG_COLOURS_MAX];
    for (uint32_t i = 0; i < palette->count; i++) {
        const struct median_cut_box *box = &palette->boxes[i];
        for (uint32_t m = box->first; m < box->first + box->count; m++)
            cell_of(palette, m)->value = 1 + i;
    }
    if (!sum_pixels(palette, image, deadline_ns))
        return false;
    for (uint32_t i = 0; i < palette->count; i++)
        colours[i] = mean_colour(&palette->sums[i]);
    set_entries(palette, colours, palette->count);
    return true;
}

/* ---- indices ---- */

static uint32_t distance(const uint16_t a[CUT_AXES], const uint16_t b[CUT_AXES])
{
    int alpha = a[CUT_ALPHA] - b[CUT_ALPHA], sum = 0;
    for (int axis = CUT_RED; axis <= CUT_BLUE; axis++) {
        int over_black = a[axis] - b[axis], over_white = over_black - alpha;
        sum += over_black * over_black + over_white * over_white;
    }
    return (uint32_t)sum;
}

/* A distance, and the entry that is so far away. */
#define FAR(distance, entry) ((distance) << 8 | (entry))

/* Entries in the order of their distance from one of them, each as FAR. */
struct neighbours {
    uint32_t own;
    uint64_t list[PNG_COLOURS_MAX];
};

static void find_neighbours(const struct png_palette *palette, uint32_t own,
                            struct neighbours *neighbours)
{
    uint32_t count = palette->entries.count;
    neighbours->own = own;
    for (uint32_t i = 0; i < count; i++)
        neighbours->list[i] = FAR(distance(palette->at[i], palette->at[own]), i);
    sort(neighbours->list, count);
}

/* Returns the nearest entry. An entry that is more than twice as far away from the box's own entry
 * as the cell is cannot be nearer to the cell; distances are squares. */
static uint32_t nearest(const struct png_palette *palette, const struct median_cut_cell *member,
                        const struct neighbours *neighbours)
{
    const struct png_palette_entries *entries = &palette->entries;
    bool is_opaque = member->at[CUT_ALPHA] == MEDIAN_CUT_UNITS;
    bool has_opaque = entries->with_alpha < entries->count;
    uint32_t first = is_opaque && has_opaque ? entries->with_alpha : 0, best = UINT32_MAX;
    uint32_t most = 4 * distance(member->at, palette->at[neighbours->own]);
    for (uint32_t i = 0; i < entries->count && neighbours->list[i] >> 8 <= most; i++) {
        uint32_t entry = (uint32_t)neighbours->list[i] & 0xFF;
        uint32_t far = FAR(distance(member->at, palette->at[entry]), entry);
        best = entry >= first && far < best ? far : best;
    }
    assert(best != UINT32_MAX); /* the own entry of an opaque cell is opaque, if any is */
    return best & 0xFF;
}

static bool choose_nearest(const struct png_palette *palette, uint64_t deadline_ns)
{
    enum { members_per_check = 1024 };
    struct neighbours neighbours;
    for (uint32_t b = 0; b < palette->count; b++) {
        const struct median_cut_box *box = &palette->boxes[b];
        find_neighbours(palette, palette->entry_of[b], &neighbours);
        for (uint32_t i = 0; i < box->count; i++) {
            uint32_t member = box->first + i;
            cell_of(palette, member)->value =
                1 + nearest(palette, &palette->members[member], &neighbours);
            if (i % members_per_check == 0 && codec_late(deadline_ns))
                return false;
        }
    }
    return true;
}

static bool reduce(struct png_palette *palette, const struct image *image, uint32_t colours,
                   uint64_t deadline_ns)
{
    palette->count =
        median_cut(palette->members, palette->cells.used, palette->boxes, colours, deadline_ns);
    return palette->count > 0 && make_entries(palette, image, deadline_ns) &&
           choose_nearest(palette, deadline_ns);
}

static void list_members(struct png_palette *palette)
{
    const struct png_cells *cells = &palette->cells;
    struct median_cut_cell *member = palette->members;
    for (size_t i = 0; i < (size_t)1 << cells->bits; i++)
        if (cells->slots[i].value != 0) {
            member->number = (uint32_t)i;
            member->pixels = cells->slots[i].value;
            set_position(cells->slots[i].colour, cells->shift, member->at);
            member++;
        }
}

const struct png_palette_entries *png_palette_find(struct png_palette *palette,
                                                   const struct image *image, uint32_t colours,
                                                   uint64_t deadline_ns)
{
    assert(colours >= 2 && colours <= PNG_COLOURS_MAX);
    if (!png_cells_count(&palette->cells, image, deadline_ns))
        return NULL;
    list_members(palette);
    if (palette->cells.shift == 0 && palette->cells.used <= colours)
        take_all(palette);
    else if (!reduce(palette, image, colours, deadline_ns))
        return NULL;
    return &palette->entries;
}

void png_palette_map(const struct png_palette *palette, const uint8_t *row, uint32_t width,
                     uint32_t channels, uint8_t *indices)
{
    struct lookup last = {0};
    for (uint32_t x = 0; x < width; x++)
        indices[x] = (uint8_t)number_of(&palette->cells, png_colour_at(row, x, channels), &last);
}
