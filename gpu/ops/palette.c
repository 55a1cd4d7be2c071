/* palette.c - the operation palette, and its CPU loop. */
#include "gpu/ops/palette.h"

#include <stdlib.h>
#include <string.h>

#include "codecs/median_cut.h"
#include "gpu/plan/op.h"

/* ---- the CPU loop ---- */

PIXEL void count_row(const uint8_t *row, uint32_t width, struct palette_cell *cells,
                     uint32_t channels)
{
    for (uint32_t x = 0; x < width; x++) {
        const uint8_t *pixel = row + (size_t)x * channels;
        uint32_t red = pixel[0], green = pixel[channels > 1], blue = pixel[channels > 1 ? 2 : 0];
        if (channels == 4 && pixel[3] < PALETTE_ALPHA)
            continue;
        struct palette_cell *cell = &cells[palette_cell_of(red, green, blue)];
        cell->pixels++;
        cell->sums[0] += palette_offset(red);
        cell->sums[1] += palette_offset(green);
        cell->sums[2] += palette_offset(blue);
    }
}

PASS_LOOP(palette_cpu)
{
    struct palette_cell *cells = (struct palette_cell *)work;
    memset(cells, 0, PALETTE_CELLS * sizeof(*cells));
    for (uint32_t y = 0; y < from->height && !pass_is_late_at(pass, y); y++)
        BY_CHANNELS(from->channels, count_row, from->pixels + y * from->stride, from->width, cells);
}

pass_cuda palette_cuda;

static const struct pass_type pass_palette = {"palette", palette_cpu, PASS_CUDA(palette_cuda)};

/* ---- the colours ---- */

struct entry {
    uint64_t pixels;
    uint8_t rgb[3];
};

static uint32_t colour_of_cell(uint32_t number, int channel)
{
    return number >> (2 - channel) * PALETTE_BITS << PALETTE_LOW_BITS & 0xFF;
}

/* Lists the cells with pixels. The position of a cell is its centre in half units. */
static uint32_t list_cells(const struct palette_cell *cells, struct median_cut_cell *list)
{
    uint32_t count = 0;
    for (uint32_t number = 0; number < PALETTE_CELLS; number++) {
        if (cells[number].pixels == 0)
            continue;
        struct median_cut_cell *own = &list[count++];
        *own = (struct median_cut_cell){.pixels = cells[number].pixels, .number = number};
        for (int channel = 0; channel < 3; channel++)
            own->at[channel] =
                (uint16_t)(2 * colour_of_cell(number, channel) + (1u << PALETTE_LOW_BITS) - 1);
        own->at[CUT_ALPHA] = MEDIAN_CUT_UNITS;
    }
    return count;
}

/* The mean colour of the pixels of a box. */
static struct entry entry_of(const struct median_cut_box *box, const struct median_cut_cell *list,
                             const struct palette_cell *cells)
{
    struct entry entry = {.pixels = 0};
    uint64_t sums[3] = {0};
    for (uint32_t i = box->first; i < box->first + box->count; i++) {
        const struct palette_cell *cell = &cells[list[i].number];
        entry.pixels += cell->pixels;
        for (int channel = 0; channel < 3; channel++)
            sums[channel] += (uint64_t)colour_of_cell(list[i].number, channel) * cell->pixels +
                             cell->sums[channel];
    }
    for (int channel = 0; channel < 3; channel++)
        entry.rgb[channel] = (uint8_t)((sums[channel] + entry.pixels / 2) / entry.pixels);
    return entry;
}

/* The most frequent colour first. */
static int compare(const void *a, const void *b)
{
    const struct entry *first = a, *second = b;
    if (first->pixels != second->pixels)
        return first->pixels < second->pixels ? 1 : -1;
    return memcmp(first->rgb, second->rgb, sizeof(first->rgb));
}

static cJSON *entry_text(const struct entry *entry, uint64_t pixels)
{
    const int rgb[3] = {entry->rgb[0], entry->rgb[1], entry->rgb[2]};
    cJSON *object = cJSON_CreateObject(), *colour = cJSON_CreateIntArray(rgb, 3);
    if (object && colour && cJSON_AddItemToObject(object, "color", colour)) {
        if (cJSON_AddNumberToObject(object, "share", (double)entry->pixels / (double)pixels))
            return object;
    } else {
        cJSON_Delete(colour); /* uncovered: memory */
    }
    cJSON_Delete(object); /* uncovered: memory */
    return NULL;
}

static cJSON *entries_text(const struct entry *entries, uint32_t count)
{
    uint64_t pixels = 0;
    cJSON *list = cJSON_CreateArray();
    for (uint32_t i = 0; i < count; i++)
        pixels += entries[i].pixels;
    for (uint32_t i = 0; list && i < count; i++)
        cJSON_AddItemToArray(list, entry_text(&entries[i], pixels));
    if (cJSON_GetArraySize(list) == (int)count)
        return list;
    cJSON_Delete(list); /* uncovered: memory */
    return NULL;
}

/* The list of cells needs at most as much memory as the pass, and plan_values_bytes reserves three
 * times the memory of the pass. */
static_assert(sizeof(struct median_cut_cell) <= sizeof(struct palette_cell),
              "the list of cells must fit the memory that is reserved for values");

static cJSON *palette_values(const struct pass *pass, const uint8_t *work)
{
    const struct palette *own = (const struct palette *)pass->params;
    const struct palette_cell *cells = (const struct palette_cell *)work;
    struct median_cut_box boxes[PALETTE_COLOURS_MAX];
    struct entry entries[PALETTE_COLOURS_MAX];
    struct median_cut_cell *list = malloc(PALETTE_CELLS * sizeof(*list));
    if (!list) /* uncovered: memory */
        return NULL;
    uint32_t count = list_cells(cells, list);
    if (count > 0)
        count = median_cut(list, count, boxes, own->colours, 0);
    for (uint32_t i = 0; i < count; i++)
        entries[i] = entry_of(&boxes[i], list, cells);
    free(list);
    qsort(entries, count, sizeof(*entries), compare);
    return entries_text(entries, count);
}

/* ---- the operation ---- */

struct params {
    int colors;
};

static const struct op_param palette_params[] = {{OP_INTEGER(struct params, colors), .min = 1,
                                                  .max = PALETTE_COLOURS_MAX, .standard = 6,
                                                  .help = "The most colours that are returned"}};

static enum status palette_step(const void *params, struct chain *chain)
{
    const struct params *own = params;
    const struct palette palette = {.colours = (uint32_t)own->colors};
    uint64_t pixels = (uint64_t)chain->shape.width * chain->shape.height;
    if (pixels > PALETTE_PIXELS_MAX)
        return op_refuse(chain->item, chain->error,
                         ": the image has %llu pixels; at most %u are allowed; resize it before",
                         (unsigned long long)pixels, PALETTE_PIXELS_MAX);
    chain_look(chain, &pass_palette, &palette, sizeof(palette),
               PALETTE_CELLS * sizeof(struct palette_cell), palette_values);
    return STATUS_OK;
}

const struct op op_palette = {
    .name = "palette",
    .help = "Returns the dominant colours, each as `color` and `share`, the most frequent first",
    .definition = "The pixels are counted in cells of 16 x 16 x 16 colours. Cells are divided into "
                  "boxes by the median cut that is defined for `colors` of a PNG; each box is a "
                  "colour, the mean of its pixels, rounded half up. `share` is its part of the "
                  "counted pixels. Of equally frequent colours, the one with less red is first, "
                  "then green, then blue. There are fewer colours than `colors` if the image has "
                  "fewer cells. Gray counts as R = G = B. Of an image with alpha, pixels with an "
                  "alpha below 128 are not counted, and the others count with their colour, not "
                  "flattened; if none is counted, the list is empty. The image is not changed.",
    .flags = OP_VALUES,
    OP_PARAMS(struct params, palette_params),
    .step = palette_step,
};
