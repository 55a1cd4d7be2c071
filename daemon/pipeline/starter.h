/*
 * starter.h - starts what was submitted to a CUDA engine, each time before the loop waits.
 *
 * So tasks that come in one turn of the loop, from several workers, share a stream. Where small
 * ones may wait for more company than that (option batch_delay_us), a timer of the kernel's ends
 * it: the loop's own count in milliseconds. Loop thread only.
 */
#ifndef GPUIMGD_DAEMON_PIPELINE_STARTER_H
#define GPUIMGD_DAEMON_PIPELINE_STARTER_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "conf/status.h"
#include "gpu/engine/engine.h"

struct starter {
    struct engine *engine;
    uv_prepare_t prepare;
    uv_poll_t poll;
    int fd;            /* the timer; -1: none */
    uint64_t armed_ns; /* CLOCK_MONOTONIC; 0: not */
};

/* engine: asynchronous. delays: tasks may wait for company. false with a sentence in error:
 * there is no timer to be had. The handles are the loop's to close. */
bool starter_open(struct starter *starter, uv_loop_t *loop, struct engine *engine, bool delays,
                  struct error *error) MUST_CHECK;
/* When the handles are closed. Idempotent; of one that was never opened fd is -1. */
void starter_close(struct starter *starter);

#endif
