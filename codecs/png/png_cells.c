#include "codecs/png/png_cells.h"

#include <string.h>

#include "codecs/codec_impl.h"
#include "conf/clock.h"

/* At most half of the slots are used. */
static uint32_t bits_of(uint64_t pixels)
{
    uint32_t bits = 1;
    while (1u << bits < 2 * png_cells_max(pixels))
        bits++;
    return bits;
}

size_t png_cells_bytes(uint64_t pixels)
{
    return sizeof(struct png_cell) << bits_of(pixels);
}

struct png_cells png_cells_make(uint64_t pixels, struct png_cell *slots, struct png_cell *list)
{
    return (struct png_cells){.slots = slots,
                              .list = list,
                              .bits = bits_of(pixels),
                              .multiplier = (uint32_t)clock_now_ns() | 1};
}

/* Doubles the side of the cells. */
static void merge(struct png_cells *cells)
{
    size_t slots = (size_t)1 << cells->bits;
    uint32_t count = 0;
    for (size_t i = 0; i < slots; i++)
        if (cells->slots[i].value != 0)
            cells->list[count++] = cells->slots[i];
    memset(cells->slots, 0, slots * sizeof *cells->slots);
    cells->shift++;
    cells->used = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t cell = png_cell_of(cells->list[i].colour, cells->shift);
        struct png_cell *slot = png_cells_find(cells, cell);
        cells->used += slot->value == 0;
        slot->colour = cell;
        slot->value += cells->list[i].value;
    }
}

static void add(struct png_cells *cells, uint32_t colour, uint32_t pixels)
{
    uint32_t cell = png_cell_of(colour, cells->shift);
    struct png_cell *slot = png_cells_find(cells, cell);
    while (slot->value == 0 && cells->used == PNG_CELLS_MAX) {
        merge(cells);
        cell = png_cell_of(colour, cells->shift);
        slot = png_cells_find(cells, cell);
    }
    cells->used += slot->value == 0;
    slot->colour = cell;
    slot->value += pixels;
}

bool png_cells_count(struct png_cells *cells, const struct image *image, uint64_t deadline_ns)
{
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *row = image->pixels + y * image->stride;
        uint32_t first = png_colour_at(row, 0, image->channels), run = 0;
        for (uint32_t x = 0; x < image->width; x++) {
            uint32_t colour = png_colour_at(row, x, image->channels);
            if (png_cell_of(colour, cells->shift) != png_cell_of(first, cells->shift)) {
                add(cells, first, run);
                first = colour;
                run = 0;
            }
            run++;
        }
        add(cells, first, run);
        if (codec_late(deadline_ns))
            return false;
    }
    return true;
}
