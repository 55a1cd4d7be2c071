/*
 * trace_job.h - the record of a job for the options trace and timeline: when it was in each stage.
 *
 * A record consists of slices. A slice is a span of time in which a worker, a stream of a device,
 * or nobody worked on the job. The thread that owns the job at that time (a worker or the loop)
 * adds the slice, so no lock is needed. All times are CLOCK_MONOTONIC in nanoseconds.
 */
#pragma once

#include <stdint.h>

#include "queue/job/job.h"
#include "queue/job/client_labels.h"

/* Enough for a usual job: five stages, of which the one on a device has five slices, a wait before
 * each stage, and a read that is repeated because it found no memory. */
#define TRACE_SLICES_MAX 20

enum trace_what {
    TRACE_READ, TRACE_DECODE,
    TRACE_H2D, TRACE_DEVICE_DECODE, TRACE_KERNEL, TRACE_DEVICE_ENCODE, TRACE_D2H,
    TRACE_ENCODE,
    TRACE_WAIT,  /* for a worker, a stream or the loop */
    TRACE_ADMIT, /* for memory */
    TRACE_ACK,   /* for Redis */
    TRACE_WHATS
};
extern const char *const trace_names[TRACE_WHATS];

/* The track of a slice says who worked on the job: a worker, a stream of a device, or nobody
 * (TRACE_OF_JOB: the job waited). The streams for progressive JPEGs have the highest numbers of
 * their device. The timeline has no rows for them. */
#define TRACE_OF_JOB              0
#define TRACE_ON_WORKER(number)   (uint16_t)(1 + (number))
#define TRACE_ON_STREAM(device, stream) (uint16_t)(0x8000 | (device) << 8 | (stream))
#define TRACE_IS_STREAM(track)    (((track) & 0x8000) != 0)
#define TRACE_DEVICE(track)       ((track) >> 8 & 0x7f)
#define TRACE_STREAM(track)       ((track) & 0xff)
#define TRACE_WORKER(track)       ((track) - 1)

struct trace_slice {
    uint64_t begin_ns, end_ns;
    uint16_t track;
    uint8_t what; /* enum trace_what */
};

/* The load of the daemon at one moment. at_ns 0: no sample. */
struct trace_sample {
    uint64_t at_ns, pinned_bytes;
    uint32_t inflight;
};

struct trace_job {
    uint64_t number;
    uint32_t shard, shards; /* its shard, and how many there are */
    uint32_t attempt, width, height;
    struct trace_context context; /* of the client's trace */
    const char *end; /* outcome: "done" or an error code; a string literal */
    uint64_t begin_ns, end_ns;
    struct trace_sample samples[2]; /* at admission and at the end */
    uint32_t count, left_out;       /* slices recorded, and slices for which there was no room */
    struct trace_slice slices[TRACE_SLICES_MAX];
};

/* The number of the job, with its shard if there are several: job_name_text in queue/job/job.h. */
const char *trace_job_name(const struct trace_job *job, char text[JOB_NAME_BYTES]);
void trace_job_add(struct trace_job *job, enum trace_what what, uint16_t track,
                   uint64_t begin_ns, uint64_t end_ns);
