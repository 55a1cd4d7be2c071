/*
 * rates.h - what a daemon does a second, from two of the counts that it publishes.
 */
#ifndef GPUIMGD_QUEUE_CTL_SCREEN_RATES_H
#define GPUIMGD_QUEUE_CTL_SCREEN_RATES_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/limits.h"
#include "queue/ctl/screen/overview.h"

/* Of one daemon DEVICES_MAX, of all together as many as matter to a mean. */
#define RATES_DEVICES 256
#define RATES_STAGES 4 /* those that do work, in the order of rates_stages */

extern const char *const rates_stages[RATES_STAGES];

/* What a GPU did since the last counts. */
struct rates_device {
    char name[16];
    double busy;    /* share of the time in which it copied or computed, 0 to 1 */
    double overlap; /* copies up, kernels and copies down over that: 1 to 3; 0: it did nothing */
};

struct rates {
    bool known;
    double images_s, pixels_s, bytes_in_s, bytes_out_s; /* a second */
    /* Since the last counts: time in each stage, and jobs that went through it. */
    double stage_ms[RATES_STAGES], stage_jobs[RATES_STAGES];
    struct rates_device devices[RATES_DEVICES];
    size_t device_count;
};

struct rates_memory;

struct rates_memory *rates_create(void);
void rates_destroy(struct rates_memory *memory);

/* Takes the counts in, forgets daemons that are gone. Then each daemon's rates, by its place in the
 * overview, until the next call. false: no memory. */
bool rates_update(struct rates_memory *memory, const struct overview *overview);
const struct rates *rates_of(const struct rates_memory *memory, size_t daemon);
/* Of all devices of a daemon together: the mean of the shares. No name. */
struct rates_device rates_all_devices(const struct rates *rates);
/* Of all daemons together. */
struct rates rates_sum(const struct rates_memory *memory);

#endif
