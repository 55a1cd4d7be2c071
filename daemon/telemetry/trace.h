/*
 * trace.h - what became of each job and when, for those who want to see it.
 *
 * A job carries its own record, and whoever has the job (a worker, the loop) writes the times of a
 * stage into it: there is nothing to lock. At the job's end the loop puts the record into a ring,
 * and a thread of the trace takes it from there into a file of Chrome trace events (chrome.h) and
 * to the timeline (timeline.h). All times are CLOCK_MONOTONIC in nanoseconds. All functions are
 * called on the loop, but for trace_job_add.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_TRACE_H
#define GPUIMGD_DAEMON_TELEMETRY_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/status.h"

/* A job has at most five stages and as many waits; reads that found no room come on top. */
#define TRACE_SLICES_MAX 16
#define TRACE_NAME_MAX 24

enum trace_what {
    TRACE_READ,
    TRACE_DECODE,
    TRACE_H2D,
    TRACE_KERNEL,
    TRACE_D2H,
    TRACE_ENCODE,
    TRACE_WAIT,  /* for a worker, a stream or the loop */
    TRACE_ADMIT, /* for memory */
    TRACE_ACK,   /* for Redis */
    TRACE_WHATS
};
extern const char *const trace_names[TRACE_WHATS];

/* Where it took place: with the job itself (it waited), on a worker, on a stream of a device. */
#define TRACE_OF_JOB              0
#define TRACE_ON_WORKER(number)   (uint16_t)(1 + (number))
#define TRACE_ON_STREAM(dev, slot) (uint16_t)(0x8000 | (dev) << 8 | (slot))
#define TRACE_IS_STREAM(track)    (((track) & 0x8000) != 0)
#define TRACE_DEVICE(track)       ((track) >> 8 & 0x7f)
#define TRACE_STREAM(track)       ((track) & 0xff)
#define TRACE_WORKER(track)       ((track) - 1)

struct trace_slice {
    uint64_t begin_ns, end_ns;
    uint16_t track;
    uint8_t what; /* enum trace_what */
};

/* What was so at one moment. at_ns 0: not known. */
struct trace_sample {
    uint64_t at_ns, pinned_bytes;
    uint32_t inflight;
};

struct trace_job {
    uint64_t number;
    uint32_t attempt, width, height;
    const char *end;        /* "done", an error's code, ...; static */
    uint64_t begin_ns, end_ns;
    struct trace_sample samples[2]; /* when it was admitted, and at its end */
    uint32_t count, left_out;       /* of the slices */
    struct trace_slice slices[TRACE_SLICES_MAX];
};

/* Whoever has the job. An end before its begin counts as the begin. */
void trace_job_add(struct trace_job *job, enum trace_what what, uint16_t track,
                   uint64_t begin_ns, uint64_t end_ns);

struct trace_config {
    const char *chrome;   /* a file, or "" */
    const char *timeline; /* a file, or "" */
    uint64_t bytes_max;   /* of the chrome file */
    uint64_t origin_ns;   /* which times are counted from */
    const char *daemon, *engine;
    uint32_t workers, devices, streams; /* streams: of the device with the most */
    char names[DEVICES_MAX][TRACE_NAME_MAX]; /* of the devices */
};

struct trace;

/* Makes the files and starts the thread; a file that is there becomes NAME.old. Texts of the config
 * must stay. write_failed (names option, path and cause), out_of_memory. */
enum status trace_open(const struct trace_config *config, struct trace **trace,
                       struct error *error) MUST_CHECK;
/* A job has ended. Where the thread does not keep up the job is left out and counted. */
void trace_put(struct trace *trace, const struct trace_job *job);
/* Asks for the timeline now, not only at the end. */
void trace_draw(struct trace *trace);
/* Ends both files and says in the log what is in them. Takes NULL. */
void trace_close(struct trace *trace);

#endif
