/*
 * rates.h - computes rates per second from two successive snapshots of a daemon's counters.
 *
 * One thread.
 */
#ifndef GPUIMGD_QUEUE_CTL_SCREEN_RATES_H
#define GPUIMGD_QUEUE_CTL_SCREEN_RATES_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/limits.h"
#include "queue/ctl/screen/overview.h"

/* One daemon has at most DEVICES_MAX. The sum over all daemons keeps this many for its mean. */
#define RATES_DEVICES 256
#define RATES_STAGES 4 /* read, decode, gpu and encode: rates_stages */

extern const char *const rates_stages[RATES_STAGES];

/* A GPU's activity since the last snapshot. */
struct rates_device {
    char name[16];
    double busy;    /* share of the time in which it copied or computed, 0 to 1 */
    double overlap; /* (upload + kernel + download time) / busy time, 1 to 3; 0: idle */
};

struct rates {
    bool known;
    double images_s, pixels_s, bytes_in_s, bytes_out_s; /* per second */
    /* Since the last snapshot: time in each stage, and jobs that passed it. */
    double stage_ms[RATES_STAGES], stage_jobs[RATES_STAGES];
    struct rates_device devices[RATES_DEVICES];
    size_t device_count;
};

struct rates_memory;

struct rates_memory *rates_create(void);
void rates_destroy(struct rates_memory *memory);

/* Computes the rates of a new snapshot and forgets daemons that are gone. Returns false if out of
 * memory. */
bool rates_update(struct rates_memory *memory, const struct overview *overview);
/* The rates of a daemon by its index in the last overview. Valid until the next rates_update. */
const struct rates *rates_of(const struct rates_memory *memory, size_t daemon);
/* The mean over all devices. The result has no name. */
struct rates_device rates_all_devices(const struct rates *rates);
/* The sum over all daemons. */
struct rates rates_sum(const struct rates_memory *memory);

#endif
