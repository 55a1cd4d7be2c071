/*
 * dispatch.h - decides for each job whether the cores or a device decode its file.
 *
 * A device decodes a sequential JPEG in a hundredth of a core's time. It takes about twice a core's
 * time for a progressive JPEG or a PNG, but decodes a hundred of them at once, or several. These
 * two are long files. So:
 *
 * - Sequential JPEGs go to a device.
 * - Long files go to the cores while there are fewer files than workers, counting until their jobs
 *   end what the cores decode and the long files of devices: so a few files take no longer than
 *   without a device. Otherwise they go to a device: a core that decodes does not read and write
 *   for it.
 * - Drawn PNGs of more than DRAWN_PIXELS go to the cores, which decode them ten times as fast as a
 *   device: that takes 0.2 s and more for one.
 * - The cores get what the device cannot have now: it has no memory for the file, has PNGS_MOST
 *   other PNGs, or stalls.
 *
 * A device stalls with a kind of file if those that it has are older, on average, than the ages in
 * dispatch.c. So a slow device gets few files.
 *
 * The cores do not get a file if the heap has no room for its decoder: the heap is a part of
 * admission.h's lane, and if the lane has no room for a job, all later jobs wait, too.
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
    DISPATCH_AVIF,  /* a sequential JPEG that devices encode as AVIF */
    DISPATCH_KINDS
};

enum dispatch_rule { DISPATCH_AUTO, DISPATCH_TO_CORES, DISPATCH_TO_DEVICE };

struct dispatch_request {
    enum dispatch_kind kind;
    enum dispatch_rule rule;
    uint64_t pixels, file_bytes; /* of the file */
    uint64_t device_bytes;       /* device memory if a device decodes it, about */
    uint64_t heap_bytes;         /* of the decoder if a core decodes it */
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
    uint64_t began_ns; /* on the device */
};

/* The jobs of one kind on a device. */
struct dispatch_backlog {
    int64_t jobs, bytes;   /* sent there and not returned; bytes: of device memory */
    uint64_t running;      /* jobs that it has begun, and the sums of their times: */
    uint64_t began_sum_ns; /* may wrap around */
    uint64_t limit_sum_ns;
};

struct dispatch_device {
    int64_t room_bytes, bytes; /* memory, and what jobs sent there need */
    struct dispatch_backlog backlog[DISPATCH_KINDS];
};

struct dispatch {
    pthread_mutex_t lock; /* guards all members below */
    uint32_t workers, device_count;
    int64_t jobs, on_cores; /* all jobs that have not ended, and those that cores decode */
    int64_t long_files;     /* those that cores decode, and the long ones of devices */
    int64_t heap_bytes, heap_room_bytes; /* of decoders on cores, until they end; the limit */
    struct dispatch_device devices[DEVICES_MAX];
};

/* heap_room_bytes: for decoders on cores. room_bytes: memory of each device. With the CPU engine
 * there is no device: nothing is charged, and all other calls do nothing. */
void dispatch_open(struct dispatch *dispatch, uint32_t workers, size_t heap_room_bytes,
                   uint32_t device_count, const size_t *room_bytes);
void dispatch_close(struct dispatch *dispatch); /* asserts that no charge is left */

/* Chooses charge->on_device and charge->device, and charges the job. A previous charge of the job
 * ends. */
void dispatch_choose(struct dispatch *dispatch, const struct dispatch_request *request,
                     uint64_t now_ns, struct dispatch_charge *charge);
/* The job goes to this device instead of charge->device. */
void dispatch_move(struct dispatch *dispatch, struct dispatch_charge *charge, uint32_t device);
/* The device decodes the file, but encodes no AVIF of it. */
void dispatch_forget_avif(struct dispatch *dispatch, struct dispatch_charge *charge);
/* The device gets the job, and returns `count` jobs. It returns hundreds at a time, so the lock is
 * taken once for all of them. Neither does anything for a job of the cores. */
void dispatch_start(struct dispatch *dispatch, struct dispatch_charge *charge, uint64_t now_ns);
void dispatch_return(struct dispatch *dispatch, struct dispatch_charge *const *charges,
                     size_t count);
/* The file of a job on the cores is decoded: its heap is free. Idempotent. For other jobs it does
 * nothing. */
void dispatch_decoded(struct dispatch *dispatch, struct dispatch_charge *charge);
/* The job has ended, at any point. Idempotent. */
void dispatch_end(struct dispatch *dispatch, struct dispatch_charge *charge);

/* Jobs on devices that the daemon may hold beyond `inflight`: progressive JPEGs and those for
 * AVIFs, as far as memory and speed allow, PNGs, a few others, and all of a device that stalls, so
 * that other jobs go on. */
size_t dispatch_ahead(struct dispatch *dispatch, uint64_t now_ns);
/* Whether no job is charged. Asserts that the loads are then 0. */
bool dispatch_is_idle(struct dispatch *dispatch);
