/* histogram.c - the operation histogram, and its CPU loops. */
#include "gpu/ops/histogram.h"

#include <stdio.h>
#include <string.h>

#include "gpu/plan/op.h"

/* Pixels that are converted to gray at a time, so that they are still in the L1 cache when
 * counted. */
#define PIECE 1024

/* Counts into four tables in turn, because two successive increments of the same counter take ten
 * times as long. */
static void count_row(const uint8_t *row, size_t width, uint32_t tables[4][HISTOGRAM_BINS])
{
    size_t x = 0;
    for (; x + 4 <= width; x += 4) {
        tables[0][row[x]]++;
        tables[1][row[x + 1]]++;
        tables[2][row[x + 2]]++;
        tables[3][row[x + 3]]++;
    }
    for (; x < width; x++)
        tables[0][row[x]]++;
}

static void count_row_colour(const uint8_t *row, size_t width, size_t channels,
                             uint32_t tables[4][HISTOGRAM_BINS])
{
    for (size_t x = 0; x < width; x++)
        for (size_t c = 0; c < channels; c++)
            tables[c][row[x * channels + c]]++;
}

static void count_row_gray(const uint8_t *row, uint32_t width, uint32_t channels,
                           const struct grayscale *gray, uint8_t *keep,
                           uint32_t tables[4][HISTOGRAM_BINS])
{
    uint8_t piece[PIECE];
    for (uint32_t x = 0; x < width; x += PIECE) {
        uint32_t length = width - x < PIECE ? width - x : PIECE;
        uint8_t *to = keep ? keep + x : piece;
        grayscale_row(row + (size_t)x * channels, to, length, channels, gray);
        count_row(to, length, tables);
    }
}

void histogram_count(const struct image *from, const struct histogram *histogram,
                     const struct image *gray, uint32_t *counts)
{
    uint32_t tables[4][HISTOGRAM_BINS];
    memset(tables, 0, sizeof(tables));
    for (uint32_t y = 0; y < from->height; y++) {
        const uint8_t *row = from->pixels + y * from->stride;
        if (from->channels == 1)
            count_row(row, from->width, tables);
        else if (histogram->of_gray)
            count_row_gray(row, from->width, from->channels, &histogram->gray,
                           gray ? gray->pixels + y * gray->stride : NULL, tables);
        else
            count_row_colour(row, from->width, from->channels, tables);
    }
    if (histogram_planes(histogram, from->channels) == 1)
        for (size_t i = 0; i < HISTOGRAM_BINS; i++)
            counts[i] = tables[0][i] + tables[1][i] + tables[2][i] + tables[3][i];
    else
        memcpy(counts, tables, from->channels * sizeof(tables[0]));
}

PASS_LOOP(histogram_cpu)
{
    histogram_count(from, (const struct histogram *)pass->params, NULL, (uint32_t *)work);
}

pass_cuda histogram_cuda;

static const struct pass_type pass_histogram = {"histogram", histogram_cpu,
                                                PASS_CUDA(histogram_cuda)};

static cJSON *counts_text(const uint32_t *counts)
{
    char text[HISTOGRAM_BINS * 11 + 3];
    size_t length = 0;
    for (size_t i = 0; i < HISTOGRAM_BINS; i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%c%u", i ? ',' : '[',
                                   counts[i]);
    text[length] = ']';
    text[length + 1] = '\0';
    return cJSON_CreateRaw(text);
}

static cJSON *histogram_values(const struct pass *pass, const uint8_t *work)
{
    uint32_t planes = histogram_planes((const struct histogram *)pass->params, pass->from.channels);
    cJSON *list = cJSON_CreateArray();
    for (uint32_t plane = 0; list && plane < planes; plane++)
        cJSON_AddItemToArray(list, counts_text((const uint32_t *)work + plane * HISTOGRAM_BINS));
    if (cJSON_GetArraySize(list) == (int)planes)
        return list;
    cJSON_Delete(list); /* uncovered: memory */
    return NULL;
}

struct params {
    bool gray;
};

static const struct op_param histogram_params[] = {
    {OP_BOOLEAN(struct params, gray),
     .help = "true counts the gray of a colour image, with the default weights"}};

static enum status histogram_step(const void *params, struct chain *chain)
{
    const struct params *own = params;
    struct histogram histogram = {.of_gray = own->gray,
                                  .gray = grayscale_default(chain->background)};
    size_t bytes = histogram_planes(&histogram, chain->shape.channels) * HISTOGRAM_BINS *
                   sizeof(uint32_t);
    chain_look(chain, &pass_histogram, &histogram, sizeof(histogram), bytes, histogram_values);
    return STATUS_OK;
}

const struct op op_histogram = {
    .name = "histogram",
    .help = "Returns an array per channel with the counts of the values 0 to 255",
    .definition = "The image is not changed.",
    .flags = OP_VALUES,
    OP_PARAMS(struct params, histogram_params),
    .step = histogram_step,
};
