/*
 * dispatch.h - decides for each job whether the cores or a device decode its file.
 *
 * If all devices stall or are out of service, the cores get all jobs. Otherwise a JPEG goes to the
 * device that has the least work. A core gets it instead if the heap has room for its decoder, and
 * one of these holds:
 *
 * - The host has little to do, and a core decodes the file in less time than the device takes for
 *   it alone: a slow device, or a progressive file with few pixels and many scans.
 * - The device is fed: it has so many jobs of this kind that one more would only wait, or no memory
 *   for another one. Cores that decode do not read and write files meanwhile. They therefore help
 *   only if together they have a good part of the devices' rate (help_part in dispatch.c), and if
 *   an idle worker is left, or they are faster than the devices.
 *
 * The heap is a part of admission.h's lane. If the lane has no room for a job, all later jobs wait,
 * too, even if a device decodes them.
 *
 * The times and rates are measured for each kind of file:
 * - of a core, from its decodes; of a device alone, from images that were alone on it, or faster
 *   than predicted. Both are reference times, from figures of one host, times a measured slowdown.
 *   A slowdown above 1 decreases if it was not measured for a while, so that a place that was slow
 *   once is tried again;
 * - of a device's rate, while it is fed. A device with few jobs looks slower than it is; one that
 *   stays fed is always measured at its full rate.
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
    uint64_t heap_bytes;         /* of the decoder if a core decodes it */
    uint32_t out_of_service;     /* a bit per device: 1 << index */
    bool workers_busy;           /* more tasks wait than there are idle workers */
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
    uint64_t began_ns;
    bool alone; /* the device had few jobs when it began */
};

struct dispatch_load {
    int64_t work_ns, bytes, jobs; /* work: at the reference rate */
    int64_t of[DISPATCH_KINDS], pixels_of[DISPATCH_KINDS]; /* jobs and pixels of each kind */
};

/* Jobs that a device ended while it was fed. */
struct dispatch_window {
    uint64_t since_ns; /* 0: it was not fed */
    double pixels;
    int64_t jobs;
};

struct dispatch_rate {
    double slowdown; /* measured / reference */
    bool measured;   /* else a guess */
    uint64_t set_ns; /* when it was measured, or decreased; 0: at the start */
};

struct dispatch_device {
    int64_t room_bytes;
    struct dispatch_load sent; /* jobs that were sent there and have not returned */
    struct dispatch_rate latency[DISPATCH_KINDS];
    double rate[DISPATCH_KINDS]; /* pixels per nanosecond while it is fed; 0: not measured */
    struct dispatch_window window[DISPATCH_KINDS];
    int64_t ended[DISPATCH_KINDS];     /* jobs, since the start */
    uint64_t began_ns[DISPATCH_KINDS]; /* when it began its first job; 0: it has not */
    int64_t running;               /* jobs that it has begun */
    uint64_t moved_ns;             /* when a job ended, or began on the idle device */
    double takes_ns;               /* how long the slowest of its recent jobs took */
};

struct dispatch {
    pthread_mutex_t lock; /* guards all members below */
    uint32_t workers, device_count;
    int64_t jobs, on_cores; /* all jobs that have not ended, and those that cores decode */
    int64_t heap_bytes, heap_room_bytes; /* of decoders on cores, until they end; the limit */
    struct dispatch_rate decode[DISPATCH_KINDS];
    struct dispatch_device devices[DEVICES_MAX];
};

/* heap_room_bytes: for decoders on cores. room_bytes: memory of each device. If there is no device,
 * no job is charged. */
void dispatch_open(struct dispatch *dispatch, uint32_t workers, size_t heap_room_bytes,
                   uint32_t device_count, const size_t *room_bytes);
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
/* The file of a job on the cores is decoded: its heap is free. Idempotent. For other jobs it does
 * nothing. */
void dispatch_decoded(struct dispatch *dispatch, struct dispatch_charge *charge);
/* The job has ended, at any point. decode_ms: of a worker; negative: nothing is learned.
 * Idempotent. */
void dispatch_end(struct dispatch *dispatch, struct dispatch_charge *charge, double decode_ms,
                  uint64_t now_ns);

/* Jobs on devices that the daemon may hold beyond `inflight`: progressive files, a few others, and
 * all of a device that has stalled, so that other jobs go on. */
size_t dispatch_ahead(struct dispatch *dispatch, uint64_t now_ns);
/* Whether no job is charged. Asserts that the loads are then 0. */
bool dispatch_is_idle(struct dispatch *dispatch);
