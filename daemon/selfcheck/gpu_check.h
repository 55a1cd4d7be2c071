/*
 * gpu_check.h - checks every GPU with a test image at intervals while jobs run.
 *
 * A worker decodes the test image, each device with free memory processes it between the jobs, and
 * a worker compares the results with that of the CPU engine. If a bit differs, the device is taken
 * out of service: it gets no more jobs. It is still checked, and is put back into service when it
 * passes a check. If no device is left in service, the daemon exits; its jobs go back to Redis and
 * lose no attempt. Loop thread only.
 */
#pragma once

#include <uv.h>

#include "daemon/selfcheck/test_image.h"
#include "daemon/workers/workers.h"

struct gpu_check;

/* Only for CUDA engines, which run tasks asynchronously. Without gpu_check_set_interval, there are
 * no checks. The arguments are borrowed. NULL: out of memory. */
struct gpu_check *gpu_check_create(uv_loop_t *loop, struct engine *engine, struct workers *workers,
                                   const struct test_image *test_image);
/* Sets the pause between two checks, in seconds; 0: no further checks. Takes NULL. */
void gpu_check_set_interval(struct gpu_check *check, double interval_s);
/* Whether a worker or a device uses the check, so that it must not be destroyed. Takes NULL. */
bool gpu_check_is_running(const struct gpu_check *check);
/* Counts since the start. A check of two devices counts twice. */
struct gpu_check_counts {
    uint64_t runs, failures;
};
struct gpu_check_counts gpu_check_counts(const struct gpu_check *check); /* takes NULL */
/* Call it after all handles of the loop are closed. Takes NULL. */
void gpu_check_destroy(struct gpu_check *check);
