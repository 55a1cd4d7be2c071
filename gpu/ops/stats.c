/* stats.c - the operation stats, and its CPU loops. */
#include "gpu/ops/stats.h"

#include <string.h>

#include "gpu/ops/pixel.h"
#include "gpu/plan/op.h"

/* Measures one channel of a row. The sum fits in 32 bits: 65,500 times 255 is 17 million. */
PIXEL void stats_row(const uint8_t *row, size_t width, struct stats_channel *channel, size_t step)
{
    uint32_t sum = 0;
    uint8_t low = 255, high = 0;
    for (size_t x = 0; x < width; x++) {
        uint8_t value = row[x * step];
        sum += value;
        low = value < low ? value : low;
        high = value > high ? value : high;
    }
    channel->sum += sum;
    channel->max = high > channel->max ? high : channel->max;
    channel->room = 255u - low > channel->room ? 255u - low : channel->room;
}

VECTOR_CLONES
static void measure_row(const uint8_t *row, size_t width, struct stats_channel *channel,
                        size_t step)
{
    BY_CHANNELS(step, stats_row, row, width, channel);
}

PASS_LOOP(stats_cpu)
{
    struct stats_channel *channels = (struct stats_channel *)work;
    memset(channels, 0, from->channels * sizeof(*channels));
    for (uint32_t y = 0; y < from->height; y++)
        for (uint32_t c = 0; c < from->channels; c++)
            measure_row(from->pixels + y * from->stride + c, from->width, &channels[c],
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
