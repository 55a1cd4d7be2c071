/*
 * canary.h - the specimen through the whole path again and again while the daemon runs.
 *
 * Loop thread only. Every so often it takes a little memory on each device, a worker decodes the
 * specimen, each device computes it beside the jobs, and a worker compares and encodes what came of
 * it. A device that gives another bit than the CPU engine is condemned: the engine's fault says so,
 * and its jobs go back uncharged. A canary is no job: it waits for nobody's place, and finding no
 * room it leaves its turn out.
 */
#ifndef GPUIMGD_DAEMON_SELFCHECK_CANARY_H
#define GPUIMGD_DAEMON_SELFCHECK_CANARY_H

#include <stdbool.h>

#include <uv.h>

#include "daemon/pipeline/workers.h"
#include "daemon/selfcheck/specimen.h"

struct canary;

/* For an asynchronous engine. NULL when memory is short. It rests until canary_set_interval. */
struct canary *canary_create(uv_loop_t *loop, struct engine *engine, struct workers *workers,
                             const struct specimen *specimen);
/* Seconds from one end to the next beginning; 0: no further one. Takes NULL. */
void canary_set_interval(struct canary *canary, double interval_s);
/* Whether a worker or a device has it; it must not be destroyed then. */
bool canary_is_out(const struct canary *canary);
/* Turns of devices that were answered since the start, and those of them that found something. */
struct canary_counts {
    uint64_t runs, failures;
};
struct canary_counts canary_counts(const struct canary *canary); /* takes NULL */
/* Whoever closes the loop's handles has closed its timer by then. Takes NULL. */
void canary_destroy(struct canary *canary);

#endif
