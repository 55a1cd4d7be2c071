/* stats.c - the stats operation and its CPU loops. */
#include "gpu/ops/stats.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/ops/pixel.h"
#include "gpu/plan/op.h"

/* A row's sum fits in 32 bits: 65,500 times 255 is 17 million. */
PIXEL void stats_row(const uint8_t *row, size_t width, size_t step, uint32_t *sum, uint8_t *min,
                     uint8_t *max)
{
    uint32_t total = 0;
    uint8_t low = 255, high = 0;
    for (size_t x = 0; x < width; x++) {
        uint8_t value = row[x * step];
        total += value;
        low = value < low ? value : low;
        high = value > high ? value : high;
    }
    *sum = total;
    *min = low;
    *max = high;
}

/* A compile-time step allows faster loops. */
VECTOR_CLONES
static void measure_row(const uint8_t *row, size_t width, size_t step, uint32_t *sum, uint8_t *min,
                        uint8_t *max)
{
    if (step == 1)
        stats_row(row, width, 1, sum, min, max);
    else if (step == 3)
        stats_row(row, width, 3, sum, min, max);
    else
        stats_row(row, width, 4, sum, min, max);
}

static void stats_add(struct stats_channel *channel, const uint8_t *row, size_t width, size_t step)
{
    uint32_t sum;
    uint8_t min, max;
    measure_row(row, width, step, &sum, &min, &max);
    channel->sum += sum;
    if (max > channel->max)
        channel->max = max;
    if (255u - min > channel->room)
        channel->room = 255u - min;
}

PASS_LOOP(stats_cpu)
{
    struct stats_channel *channels = (struct stats_channel *)work;
    memset(channels, 0, from->channels * sizeof(*channels));
    for (uint32_t y = 0; y < from->height; y++)
        for (uint32_t c = 0; c < from->channels; c++)
            stats_add(&channels[c], from->pixels + y * from->stride + c, from->width,
                      from->channels);
}

pass_cuda stats_cuda;

static const struct pass_type pass_stats = {"stats", stats_cpu, PASS_CUDA(stats_cuda)};

static cJSON *add_list(cJSON *object, const char *name, const double *numbers, uint32_t count)
{
    cJSON *list = cJSON_CreateDoubleArray(numbers, (int)count);
    if (list && cJSON_AddItemToObject(object, name, list))
        return list;
    cJSON_Delete(list); /* uncovered: memory */
    return NULL;
}

static cJSON *stats_values(const struct pass *pass, const uint8_t *work)
{
    const struct stats_channel *channels = (const struct stats_channel *)work;
    double pixels = (double)pass->from.width * (double)pass->from.height;
    double mean[CHANNELS_MAX], min[CHANNELS_MAX], max[CHANNELS_MAX];
    uint32_t count = pass->from.channels;
    for (uint32_t c = 0; c < count; c++) {
        mean[c] = (double)channels[c].sum / pixels;
        min[c] = 255.0 - (double)channels[c].room;
        max[c] = (double)channels[c].max;
    }
    cJSON *object = cJSON_CreateObject();
    if (object && add_list(object, "mean", mean, count) && add_list(object, "min", min, count) &&
        add_list(object, "max", max, count))
        return object;
    cJSON_Delete(object); /* uncovered: memory */
    return NULL;
}

static enum status stats_step(const void *params, struct chain *chain)
{
    static const char nothing = 0;
    (void)params;
    chain_look(chain, &pass_stats, &nothing, 0,
               chain->shape.channels * sizeof(struct stats_channel), stats_values);
    return STATUS_OK;
}

const struct op op_stats = {
    .name = "stats",
    .help = "Returns `mean`, `min` and `max`, each with a number per channel",
    .definition = "mean = sum / pixels, both exact, divided in double. The image is not changed.",
    .flags = OP_VALUES,
    .step = stats_step,
};
