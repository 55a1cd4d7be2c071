#include "daemon/telemetry/trace.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "conf/log.h"
#include "daemon/telemetry/chrome.h"
#include "daemon/telemetry/timeline.h"

/* The trace thread looks for jobs at this interval. Waking it for each job would take longer. */
#define LOOK_NS 50000000
/* Room for the jobs of one interval, at 40,000 jobs per second. The ring takes about 1 MiB. */
#define RING_JOBS 2048

static_assert((RING_JOBS & (RING_JOBS - 1)) == 0, "positions wrap around");

struct trace {
    struct trace_config config;
    struct chrome *chrome;     /* NULL: option trace is "" */
    struct timeline *timeline; /* NULL: option timeline is "" */
    pthread_t thread;
    atomic_bool stopping, draw;  /* read by the trace thread every LOOK_NS */
    uint64_t missed;             /* jobs that found the ring full; loop thread only */
    _Atomic uint64_t put, taken; /* jobs that the loop has written, and the thread has read */
    struct trace_job ring[RING_JOBS];
};

/* ---- the trace thread ----------------------------------------------------------------------- */

static void take_jobs(struct trace *trace)
{
    uint64_t at = atomic_load_explicit(&trace->taken, memory_order_relaxed);
    uint64_t end = atomic_load_explicit(&trace->put, memory_order_acquire);
    for (; at < end; at++) {
        const struct trace_job *job = &trace->ring[at % RING_JOBS];
        if (trace->chrome)
            chrome_add(trace->chrome, job);
        if (trace->timeline)
            timeline_add(trace->timeline, job);
        atomic_store_explicit(&trace->taken, at + 1, memory_order_release);
    }
}

static void *trace_main(void *argument)
{
    struct trace *trace = argument;
    for (bool on = true; on;) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        on = !atomic_load(&trace->stopping);
        bool draw = atomic_exchange(&trace->draw, false);
        take_jobs(trace);
        if (trace->chrome)
            chrome_flush(trace->chrome);
        if (trace->timeline && (draw || !on))
            timeline_draw(trace->timeline);
    }
    return NULL;
}

/* ---- the loop thread ------------------------------------------------------------------------ */

void trace_put(struct trace *trace, const struct trace_job *job)
{
    uint64_t at = atomic_load_explicit(&trace->put, memory_order_relaxed);
    if (at - atomic_load_explicit(&trace->taken, memory_order_acquire) == RING_JOBS) {
        trace->missed++;
        return;
    }
    trace->ring[at % RING_JOBS] = *job;
    atomic_store_explicit(&trace->put, at + 1, memory_order_release);
}

void trace_draw(struct trace *trace)
{
    if (trace)
        atomic_store(&trace->draw, true);
}

static void trace_free(struct trace *trace)
{
    chrome_close(trace->chrome, trace->missed);
    free(trace->timeline);
    free(trace);
}

enum status trace_open(const struct trace_config *config, struct trace **result,
                       struct error *error)
{
    enum status status = STATUS_OK;
    struct trace *trace = calloc(1, sizeof *trace);
    if (!trace)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the trace");
    trace->config = *config;
    if (*config->chrome)
        status = chrome_open(&trace->config, &trace->chrome, error);
    if (status == STATUS_OK && *config->timeline)
        status = timeline_open(&trace->config, &trace->timeline, error);
    if (status == STATUS_OK && pthread_create(&trace->thread, NULL, trace_main, trace) != 0)
        status = error_set(error, STATUS_OUT_OF_MEMORY, "no thread for the trace");
    if (status != STATUS_OK) {
        trace_free(trace);
        return status;
    }
    *result = trace;
    return STATUS_OK;
}

void trace_close(struct trace *trace)
{
    if (!trace)
        return;
    atomic_store(&trace->stopping, true);
    pthread_join(trace->thread, NULL);
    if (trace->missed > 0)
        log_warning("trace: %" PRIu64 " jobs are missing, because the disk was too slow",
                    trace->missed);
    trace_free(trace);
}
