#include "queue/ctl/rates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/ctl/show.h"

const char *const rates_stages[RATES_STAGES] = {"read", "decode", "gpu", "encode"};

/* One daemon as it was last seen. */
struct counts {
    char instance[INSTANCE_BYTES_MAX];
    double up_s, images, pixels, bytes_in, bytes_out;
    double stage_ms[RATES_STAGES], stage_jobs[RATES_STAGES];
    struct rates rates;
};

struct rates_memory {
    struct counts *daemons;
    size_t count;
};

struct rates_memory *rates_create(void)
{
    return calloc(1, sizeof(struct rates_memory));
}

void rates_destroy(struct rates_memory *memory)
{
    if (memory)
        free(memory->daemons);
    free(memory);
}

static void read_counts(struct counts *counts, const struct overview_daemon *daemon)
{
    const cJSON *stages = cJSON_GetObjectItemCaseSensitive(daemon->stats, "stages");
    snprintf(counts->instance, sizeof counts->instance, "%s", daemon->instance);
    counts->up_s = show_number(daemon->stats, "up_s");
    counts->images = show_number(daemon->stats, "images");
    counts->pixels = show_number(daemon->stats, "pixels");
    counts->bytes_in = show_number(daemon->stats, "bytes_in");
    counts->bytes_out = show_number(daemon->stats, "bytes_out");
    for (size_t i = 0; i < RATES_STAGES; i++) {
        const cJSON *stage = cJSON_GetObjectItemCaseSensitive(stages, rates_stages[i]);
        counts->stage_ms[i] = show_number(stage, "ms");
        counts->stage_jobs[i] = show_number(stage, "jobs");
    }
}

static void compare(struct counts *now, const struct counts *before)
{
    double seconds = now->up_s - before->up_s;
    if (seconds <= 0) { /* nothing new was published */
        *now = *before;
        return;
    }
    now->rates = (struct rates){
        .known = true,
        .images_s = (now->images - before->images) / seconds,
        .pixels_s = (now->pixels - before->pixels) / seconds,
        .bytes_in_s = (now->bytes_in - before->bytes_in) / seconds,
        .bytes_out_s = (now->bytes_out - before->bytes_out) / seconds,
    };
    for (size_t i = 0; i < RATES_STAGES; i++) {
        now->rates.stage_ms[i] = now->stage_ms[i] - before->stage_ms[i];
        now->rates.stage_jobs[i] = now->stage_jobs[i] - before->stage_jobs[i];
    }
}

bool rates_update(struct rates_memory *memory, const struct overview *overview)
{
    struct counts *fresh = calloc(overview->daemon_count + 1, sizeof *fresh);
    if (!fresh)
        return false;
    for (size_t i = 0; i < overview->daemon_count; i++) {
        read_counts(&fresh[i], &overview->daemons[i]);
        for (size_t j = 0; j < memory->count; j++)
            if (strcmp(memory->daemons[j].instance, fresh[i].instance) == 0)
                compare(&fresh[i], &memory->daemons[j]);
    }
    free(memory->daemons);
    memory->daemons = fresh;
    memory->count = overview->daemon_count;
    return true;
}

const struct rates *rates_of(const struct rates_memory *memory, size_t daemon)
{
    return &memory->daemons[daemon].rates;
}

struct rates rates_sum(const struct rates_memory *memory)
{
    struct rates sum = {0};
    for (size_t i = 0; i < memory->count; i++) {
        const struct rates *rates = &memory->daemons[i].rates;
        sum.known |= rates->known;
        sum.images_s += rates->images_s;
        sum.pixels_s += rates->pixels_s;
        sum.bytes_in_s += rates->bytes_in_s;
        sum.bytes_out_s += rates->bytes_out_s;
        for (size_t stage = 0; stage < RATES_STAGES; stage++) {
            sum.stage_ms[stage] += rates->stage_ms[stage];
            sum.stage_jobs[stage] += rates->stage_jobs[stage];
        }
    }
    return sum;
}
