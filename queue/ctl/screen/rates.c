#include "queue/ctl/screen/rates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/ctl/show.h"

const char *const rates_stages[RATES_STAGES] = {"read", "decode", "gpu", "encode"};

/* The counters and rates of one daemon at the last snapshot. */
struct counts {
    char instance[INSTANCE_BYTES_MAX];
    double up_s, of[RATES_COUNTERS];
    struct { char name[16]; double busy_s, parts_s; } devices[DEVICES_MAX];
    size_t device_count;
    struct rates rates;
};

static struct counts *daemons;
static size_t daemon_count;

static void read_devices(struct counts *counts, const cJSON *list)
{
    const cJSON *device;
    cJSON_ArrayForEach(device, list)
    {
        if (counts->device_count == DEVICES_MAX) /* uncovered: screen */
            break;
        size_t at = counts->device_count++;
        show_word(device, "name", counts->devices[at].name, sizeof counts->devices[at].name);
        counts->devices[at].busy_s = show_number(device, "busy_s");
        counts->devices[at].parts_s = show_number(device, "up_s") +
                                      show_number(device, "kernel_s") +
                                      show_number(device, "down_s");
    }
}

static double codec_pixels(const cJSON *stats, const char *codec, const char *place)
{
    const cJSON *places = cJSON_GetObjectItemCaseSensitive(stats, codec);
    return show_number(cJSON_GetObjectItemCaseSensitive(places, place), "pixels");
}

static void read_counts(struct counts *counts, const struct overview_daemon *daemon)
{
    static const char *const names[] = {"images", "pixels", "bytes_in", "bytes_out"};
    const cJSON *stages = cJSON_GetObjectItemCaseSensitive(daemon->stats, "stages");
    snprintf(counts->instance, sizeof counts->instance, "%s", daemon->instance);
    counts->up_s = show_number(daemon->stats, "up_s");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        counts->of[i] = show_number(daemon->stats, names[i]);
    counts->of[RATES_DECODE_HOST] = codec_pixels(daemon->stats, "decoded", "host");
    counts->of[RATES_DECODE_DEVICE] = codec_pixels(daemon->stats, "decoded", "device");
    counts->of[RATES_ENCODE_HOST] = codec_pixels(daemon->stats, "encoded", "host");
    counts->of[RATES_ENCODE_DEVICE] = codec_pixels(daemon->stats, "encoded", "device");
    for (size_t i = 0; i < RATES_STAGES; i++) {
        const cJSON *stage = cJSON_GetObjectItemCaseSensitive(stages, rates_stages[i]);
        counts->of[RATES_STAGE_MS + i] = show_number(stage, "ms");
        counts->of[RATES_STAGE_JOBS + i] = show_number(stage, "jobs");
    }
    read_devices(counts, cJSON_GetObjectItemCaseSensitive(daemon->stats, "devices"));
}

static double clamp(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

static void compare_devices(struct counts *now, const struct counts *before, double seconds)
{
    struct rates *rates = &now->rates;
    for (size_t i = 0; i < now->device_count && i < before->device_count; i++) {
        struct rates_device *device = &rates->devices[rates->device_count++];
        double busy_s = now->devices[i].busy_s - before->devices[i].busy_s;
        double parts_s = now->devices[i].parts_s - before->devices[i].parts_s;
        memcpy(device->name, now->devices[i].name, sizeof device->name);
        device->busy = clamp(busy_s / seconds, 0, 1);
        device->overlap = busy_s > 0 ? clamp(parts_s / busy_s, 1, 3) : 0;
    }
}

struct rates_device rates_all_devices(const struct rates *rates)
{
    struct rates_device all = {.busy = 0};
    for (size_t i = 0; i < rates->device_count; i++) {
        all.busy += rates->devices[i].busy;
        all.overlap += rates->devices[i].overlap * rates->devices[i].busy;
    }
    all.overlap = all.busy > 0 ? all.overlap / all.busy : 0;
    if (rates->device_count > 0)
        all.busy /= (double)rates->device_count;
    return all;
}

static void compare(struct counts *now, const struct counts *before)
{
    double seconds = now->up_s - before->up_s;
    if (seconds <= 0) { /* the daemon has published nothing new: keep its last rates */
        *now = *before;
        return;
    }
    now->rates = (struct rates){.known = true};
    for (size_t i = 0; i < RATES_COUNTERS; i++)
        now->rates.of[i] = (now->of[i] - before->of[i]) / (i < RATES_STAGE_MS ? seconds : 1);
    compare_devices(now, before, seconds);
}

bool rates_update(const struct overview *overview)
{
    struct counts *fresh = calloc(overview->daemon_count + 1, sizeof *fresh);
    if (!fresh) /* uncovered: gone */
        return false;
    for (size_t i = 0; i < overview->daemon_count; i++) {
        read_counts(&fresh[i], &overview->daemons[i]);
        for (size_t j = 0; j < daemon_count; j++)
            if (strcmp(daemons[j].instance, fresh[i].instance) == 0)
                compare(&fresh[i], &daemons[j]);
    }
    free(daemons);
    daemons = fresh;
    daemon_count = overview->daemon_count;
    return true;
}

const struct rates *rates_of(size_t daemon)
{
    return &daemons[daemon].rates;
}

struct rates rates_sum(void)
{
    struct rates sum = {0};
    for (size_t i = 0; i < daemon_count; i++) {
        const struct rates *rates = &daemons[i].rates;
        sum.known |= rates->known;
        for (size_t c = 0; c < RATES_COUNTERS; c++)
            sum.of[c] += rates->of[c];
        for (size_t d = 0; d < rates->device_count && sum.device_count < RATES_DEVICES; d++)
            sum.devices[sum.device_count++] = rates->devices[d];
    }
    return sum;
}
