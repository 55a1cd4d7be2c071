/*
 * gpu_check.h - checks every GPU with a test image at intervals while jobs run.
 *
 * A worker decodes the test image, each device with free memory processes it beside the jobs, and a
 * worker compares the result with the CPU engine's. A device that gives a different bit leaves
 * service, and the others continue. Its checks go on; the first that it passes puts it back. If no
 * other device is in service, the engine has a fault: the daemon ends, and its jobs are given back
 * without a charge. Loop thread only.
 */
#pragma once

#include <uv.h>

#include "daemon/selfcheck/test_image.h"
#include "daemon/workers/workers.h"

struct gpu_check;

/* For asynchronous engines only. The first check is scheduled by gpu_check_set_interval. The
 * arguments are borrowed. NULL: out of memory. */
struct gpu_check *gpu_check_create(uv_loop_t *loop, struct engine *engine, struct workers *workers,
                                   const struct test_image *test_image);
/* Sets the pause between two checks, in seconds; 0: no further checks. Takes NULL. */
void gpu_check_set_interval(struct gpu_check *check, double interval_s);
/* Returns true while a worker or a device uses the check: it must not be destroyed. Takes NULL. */
bool gpu_check_is_running(const struct gpu_check *check);
/* Counts since the start, per check and device. */
struct gpu_check_counts {
    uint64_t runs, failures;
};
struct gpu_check_counts gpu_check_counts(const struct gpu_check *check); /* takes NULL */
/* The timer must already be closed, with all handles of the loop. Takes NULL. */
void gpu_check_destroy(struct gpu_check *check);
