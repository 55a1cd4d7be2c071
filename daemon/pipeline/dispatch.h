/*
 * dispatch.h - decides for each job whether the cores or a device decode its file: where it ends
 * soonest.
 *
 * The decision compares predicted ends, in nanoseconds from now:
 *
 *   cores:  backlog / workers + decode + rest
 *   device: min(latency * max(1, demand), latency + backlog)
 *           + latency * max(0, bytes / room - 1) + late + rest
 *
 * backlog: the predicted work of all jobs that were sent there and have not ended. decode, rest:
 *     time of a worker for the decode, and for reading, copying, encoding and writing.
 * latency: time of an image alone on the device. A progressive file takes long, because each of its
 *     scans is serial, but hundreds run side by side.
 * demand: the sum of work / latency over these jobs. Below 1, the device runs all of them at full
 *     speed; above 1, they share it. No job waits longer than for all work before it.
 * bytes / room: the device memory that these jobs need, and that the device has. Jobs beyond it
 *     wait for a round of others.
 * late: time since the device should have ended all of its jobs, and since it last ended one.
 *
 * Cores that decode do not read and write files meanwhile. While they are busy, they get JPEGs only
 * if all of them together are faster than the devices that could begin one.
 *
 * Each prediction is a reference time, from figures of one host, times a measured slowdown:
 * - of a core, for each kind of file and for the rest;
 * - of a device's latency, from images that were alone on it, or faster than predicted;
 * - of a device's work, from the time in which it ended some number of jobs. The time bounds the
 *   work from above. It is the work if the jobs took longer than alone, because then they waited
 *   for each other.
 * The first latency of a device is also the guess for its other slowdowns. A slowdown that was not
 * measured for a while decreases, until the place is tried again.
 *
 * No I/O, no clock: callers pass CLOCK_MONOTONIC. Any thread. A charge belongs to its job.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/limits.h"

enum dispatch_kind {
    DISPATCH_SEQUENTIAL,  /* JPEG */
    DISPATCH_PROGRESSIVE, /* JPEG */
    DISPATCH_OTHER,       /* only the cores decode it */
    DISPATCH_KINDS
};

enum dispatch_rule { DISPATCH_SOONEST, DISPATCH_TO_CORES, DISPATCH_TO_DEVICE };

struct dispatch_request {
    enum dispatch_kind kind;
    enum dispatch_rule rule;
    uint64_t pixels, file_bytes; /* of the file */
    uint64_t device_bytes;       /* device memory if a device decodes it, about */
    uint32_t out_of_service;     /* a bit per device: 1 << index */
};

enum dispatch_state {
    DISPATCH_NONE,
    DISPATCH_SENT,    /* to the cores or to a device, which has not begun */
    DISPATCH_RUNS,    /* the device has it */
    DISPATCH_RETURNED /* the device has ended; a worker writes the result */
};

/* What a job adds to the loads. All zero: nothing. */
struct dispatch_charge {
    enum dispatch_state state;
    bool on_device;
    uint32_t device; /* if on_device */
    struct dispatch_request request;
    int64_t core_ns;                         /* of workers */
    int64_t work_ns, latency_ns, demand_ppm; /* of the device */
    bool alone;                              /* the device had no other job when it began */
    uint64_t began_ns, starts;               /* time, and the device's `starts`, when it began */
};

struct dispatch_load {
    int64_t work_ns, demand_ppm, bytes, jobs;
    int64_t of[DISPATCH_KINDS]; /* jobs of each kind */
};

/* Jobs that a device ended, to measure its work. */
struct dispatch_window {
    int64_t elapsed_ns;  /* time in which the device had a job */
    double work_ns;      /* predicted, of the ended jobs */
    int64_t took_ns[DISPATCH_KINDS], alone_ns[DISPATCH_KINDS]; /* measured; predicted, if alone */
    int64_t jobs, jobs_wanted;
};

struct dispatch_rate {
    double slowdown; /* measured / reference */
    bool measured;   /* else a guess */
    uint64_t set_ns; /* when it was measured or guessed, or decreased; 0: at the start */
};

struct dispatch_device {
    int64_t room_bytes;
    struct dispatch_load sent, running; /* all of its jobs, and those that it has begun */
    struct dispatch_rate latency[DISPATCH_KINDS], work[DISPATCH_KINDS];
    int64_t tried[DISPATCH_KINDS]; /* jobs that ended, since the start */
    uint64_t starts;  /* jobs that began, since the start */
    uint64_t ends_ns; /* the predicted end of the running jobs */
    uint64_t ended_ns; /* when a job ended, or began on the idle device */
    uint64_t seen_ns; /* end of window.elapsed_ns */
    struct dispatch_window window;
};

struct dispatch {
    pthread_mutex_t lock; /* guards all members below */
    uint32_t workers, device_count;
    int64_t core_ns, jobs;
    struct dispatch_rate decode[DISPATCH_KINDS], rest[2]; /* rest: decoded on cores, on a device */
    struct dispatch_device devices[DEVICES_MAX];
};

/* Without devices, nothing is charged. */
void dispatch_open(struct dispatch *dispatch, uint32_t workers, uint32_t device_count,
                   const size_t *room_bytes);
void dispatch_close(struct dispatch *dispatch); /* asserts that no charge is left */

/* Chooses charge->on_device and charge->device, and charges the job. A previous charge of the job
 * ends; nothing is learned from it. */
void dispatch_choose(struct dispatch *dispatch, const struct dispatch_request *request,
                     uint64_t now_ns, struct dispatch_charge *charge);
/* The job goes to this device instead of charge->device. */
void dispatch_move(struct dispatch *dispatch, struct dispatch_charge *charge, uint32_t device);
/* The device gets the job, and returns it. learns: it did all of the work. Neither does anything
 * for a job of the cores. */
void dispatch_start(struct dispatch *dispatch, struct dispatch_charge *charge, uint64_t now_ns);
void dispatch_return(struct dispatch *dispatch, struct dispatch_charge *charge, uint64_t now_ns,
                     bool learns);
/* The job has ended, at any point. decode_ms, rest_ms: times of workers; negative: nothing is
 * learned. Idempotent. */
void dispatch_end(struct dispatch *dispatch, struct dispatch_charge *charge, double decode_ms,
                  double rest_ms, uint64_t now_ns);

/* Jobs on devices that the daemon may hold beyond `inflight`: progressive files, a few others, and
 * all of a device that has stalled, so that other jobs go on. */
size_t dispatch_ahead(struct dispatch *dispatch, uint64_t now_ns);
/* Whether no job is charged. Asserts that the loads are then 0. */
bool dispatch_is_idle(struct dispatch *dispatch);
