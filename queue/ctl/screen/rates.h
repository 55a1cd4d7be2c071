/* rates.h - computes rates per second from the counters that daemons publish. One thread. */
#pragma once

#include "queue/ctl/screen/overview.h"

/* The most devices in the sum over all daemons. One daemon has at most DEVICES_MAX. */
#define RATES_DEVICES 256
#define RATES_STAGES  4

/* "read", "decode", "gpu" and "encode", as in the statistics. */
extern const char *const rates_stages[RATES_STAGES];

/* Indexes of rates.of. RATES_IMAGES to RATES_ENCODE_DEVICE are per second; DECODE and ENCODE are
 * pixels that workers (HOST) and devices decoded and encoded. The others are since the last
 * snapshot: for each stage the time in ms of all jobs, and the number of jobs that passed it. */
enum rates_counter {
    RATES_IMAGES, RATES_PIXELS, RATES_BYTES_IN, RATES_BYTES_OUT,
    RATES_DECODE_HOST, RATES_DECODE_DEVICE, RATES_ENCODE_HOST, RATES_ENCODE_DEVICE,
    RATES_STAGE_MS,
    RATES_STAGE_JOBS = RATES_STAGE_MS + RATES_STAGES,
    RATES_COUNTERS = RATES_STAGE_JOBS + RATES_STAGES
};

/* A GPU's activity since the last snapshot. */
struct rates_device {
    char name[16];
    double busy;    /* share of the time in which it copied or computed, 0 to 1 */
    double overlap; /* (upload + kernel + download time) / busy time, 1 to 3; 0: idle */
};

struct rates {
    bool known; /* there are two snapshots */
    double of[RATES_COUNTERS];
    struct rates_device devices[RATES_DEVICES];
    size_t device_count;
};

/* Computes the rates since the last snapshot, and forgets daemons that are gone. Returns false if
 * memory is short. */
bool rates_update(const struct overview *overview);
/* The rates of a daemon by its index in the last overview. Valid until the next rates_update. */
const struct rates *rates_of(size_t daemon);
/* The mean over all devices. The result has no name. */
struct rates_device rates_all_devices(const struct rates *rates);
/* The sum over all daemons. */
struct rates rates_sum(void);
