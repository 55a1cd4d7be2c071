/*
 * trace.h - records when each job enters and leaves each stage, for the options trace and timeline.
 *
 * Each job has a record of its times (trace_job.h). When the job ends, the loop copies the record
 * into a ring buffer. A thread of its own, the trace thread, moves the records from there to a file
 * of Chrome trace events (chrome.h) and to the timeline (timeline.h), because writing files could
 * block the loop.
 *
 * All times are CLOCK_MONOTONIC in nanoseconds. Loop thread only.
 */
#pragma once

#include <stdint.h>

#include "conf/limits.h"
#include "conf/status.h"
#include "daemon/telemetry/trace_job.h"

#define TRACE_NAME_MAX 24

struct trace_config {
    const char *chrome;   /* path of the trace, or "" */
    const char *timeline; /* path of the SVG, or "" */
    uint64_t bytes_max;   /* size limit of the trace */
    uint64_t origin_ns;   /* time 0 of the trace */
    const char *daemon, *engine;
    uint32_t workers, devices, streams;      /* streams: maximum over the devices */
    char names[DEVICES_MAX][TRACE_NAME_MAX]; /* device names */
};

struct trace;

/* Creates the files and starts the thread. An existing trace is renamed to NAME.old. The strings of
 * the config must outlive the trace. Errors: write_failed, out_of_memory. */
enum status trace_open(const struct trace_config *config, struct trace **trace,
                       struct error *error) MUST_CHECK;
/* Records a job that has ended. If the ring is full, the job is dropped and counted. */
void trace_put(struct trace *trace, const struct trace_job *job);
/* Lets the trace thread draw the timeline soon. It is also drawn by trace_close. Takes NULL. */
void trace_draw(struct trace *trace);
/* Ends the thread, completes both files and logs how many jobs they have. Takes NULL. */
void trace_close(struct trace *trace);
