/*
 * gpu_check.h - the test_image through the whole path again and again while the daemon runs.
 *
 * Loop thread only. Every so often it takes a little memory on each device, a worker decodes the
 * test_image, each device computes it beside the jobs, and a worker compares and encodes what came
 * of it. A device that gives another bit than the CPU engine is condemned: the engine's fault says
 * so, and its jobs go back uncharged. A check is no job: it waits for nobody's place, and finding
 * no room it leaves its turn out.
 */
#ifndef GPUIMGD_DAEMON_SELFCHECK_GPU_CHECK_H
#define GPUIMGD_DAEMON_SELFCHECK_GPU_CHECK_H

#include <stdbool.h>

#include <uv.h>

#include "daemon/pipeline/workers.h"
#include "daemon/selfcheck/test_image.h"

struct gpu_check;

/* For an asynchronous engine. NULL when memory is short. It rests until gpu_check_set_interval. */
struct gpu_check *gpu_check_create(uv_loop_t *loop, struct engine *engine, struct workers *workers,
                                   const struct test_image *test_image);
/* Seconds from one end to the next beginning; 0: no further one. Takes NULL. */
void gpu_check_set_interval(struct gpu_check *check, double interval_s);
/* Whether a worker or a device has it; it must not be destroyed then. */
bool gpu_check_is_running(const struct gpu_check *check);
/* Turns of devices that were answered since the start, and those of them that found something. */
struct gpu_check_counts {
    uint64_t runs, failures;
};
struct gpu_check_counts gpu_check_counts(const struct gpu_check *check); /* takes NULL */
/* Whoever closes the loop's handles has closed its timer by then. Takes NULL. */
void gpu_check_destroy(struct gpu_check *check);

#endif
