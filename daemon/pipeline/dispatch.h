/*
 * dispatch.h - decides for each job whether the cores or a device decode its file.
 *
 * A JPEG or PNG goes to the place that ends it first. A place's time is a reference time, from
 * figures of one host, times its slowdown:
 * - a device: its latency for the file alone, and the work of the files of this kind that it has;
 * - the cores: the decode of the file, and of a file like it for each that they have, divided among
 *   them. While tasks wait for a worker, it counts three times: cores that decode do not read and
 *   write.
 *
 * A slowdown is a moving average of measured / reference, per place and kind of file. Jobs on a
 * device that are late increase it before they end. It decreases while the device has no such jobs,
 * so that a device that was slow once is tried again.
 *
 * The cores get the job anyway if all devices stall or are out of service, and if the best device
 * has no memory for it. They do not get it if the heap has no room for its decoder: the heap is a
 * part of admission.h's lane, and if the lane has no room for a job, all later jobs wait, too.
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
    DISPATCH_PNG,
    DISPATCH_OTHER, /* only the cores decode it */
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
    uint64_t began_ns;    /* on the device */
    int64_t reference_ns; /* that a reference device needs, with the backlog at began_ns */
};

struct dispatch_rate {
    double slowdown; /* measured / reference */
    bool is_measured; /* else it is a guess */
    uint64_t set_ns;  /* when it was measured, or last decreased; 0: never */
};

/* The jobs of one kind on a device. */
struct dispatch_backlog {
    int64_t jobs, bytes, work_ns; /* sent there and not returned; bytes: of device memory; work: of
                                     a reference device */
    uint64_t running;      /* jobs that it has begun, and the sums of their times: */
    uint64_t began_sum_ns; /* may wrap around */
    int64_t reference_sum_ns;
    struct dispatch_rate rate;
};

struct dispatch_device {
    int64_t room_bytes, bytes; /* memory, and what jobs sent there need */
    struct dispatch_backlog backlog[DISPATCH_KINDS];
    uint64_t moved_ns; /* when a job ended, or began on the idle device */
};

struct dispatch {
    pthread_mutex_t lock; /* guards all members below */
    uint32_t workers, device_count;
    int64_t jobs, on_cores; /* all jobs that have not ended, and those that cores decode */
    int64_t heap_bytes, heap_room_bytes; /* of decoders on cores, until they end; the limit */
    struct dispatch_rate decode[DISPATCH_KINDS];
    struct dispatch_device devices[DEVICES_MAX];
};

/* heap_room_bytes: for decoders on cores. room_bytes: memory of each device. With the CPU engine
 * there is no device: nothing is charged, and all other calls do nothing. */
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

/* Jobs on devices that the daemon may hold beyond `inflight`: progressive JPEGs, as far as memory
 * and speed allow, PNGs, a few others, and all of a device that has stalled, so that other jobs go
 * on. */
size_t dispatch_ahead(struct dispatch *dispatch, uint64_t now_ns);
/* Whether no job is charged. Asserts that the loads are then 0. */
bool dispatch_is_idle(struct dispatch *dispatch);
