/*
 * disk.h - detects that output_root cannot be written, and waits until it can be written again.
 *
 * If a worker cannot write an output, it writes a small test file to output_root. If that fails
 * too, the disk is at fault and not the job: fetching stops, and a worker repeats the test until it
 * succeeds. If the small file fits and only the output does not, the job waits, and the others go
 * on. If a folder below output_root is on another filesystem that fails, the jobs that write there
 * fail.
 */
#pragma once

#include <stdatomic.h>
#include <uv.h>

#include "conf/status.h"
#include "daemon/workers/workers.h"

struct pipeline;

enum disk_verdict {
    DISK_WORKS,
    DISK_LACKS_ROOM, /* for the outputs that failed; a small file fits */
    DISK_FAILS
};

/* Whether output_root can be written. */
struct disk {
    struct pipeline *pipeline;
    _Atomic uint64_t tries;
    _Atomic int64_t occupied; /* bytes, by outputs that workers write at this moment */
    _Atomic uint64_t wanted;  /* the most bytes that did not fit, since that much fitted */
    uv_timer_t timer;        /* until the next try */
    struct worker_task task;
    bool trying;             /* the task is submitted; its worker owns `found` */
    struct error found;

    bool failed;
    bool changed;            /* `failed` was set or reset since the last pump of the pipeline */
    struct error error;      /* while failed: the error of the last try */
    double delay_s;          /* before the next try */
    uint64_t failed_ns, worked_ns; /* time of the last change to failed, and to working */
};

void disk_open(struct pipeline *pipeline);

/* Whether this errno of a write can mean that the disk is at fault. Any thread. */
bool disk_may_be_why(int reason);
/* Whether this errno means that the disk, or a quota, has no room. Any thread. */
bool disk_is_full(int reason);
/* On a worker: changes the room that current outputs occupy: the bytes of their writes, and
 * SINK_BYTES each for a part of the next one. */
void disk_occupy(struct disk *disk, int64_t bytes);
/* On a worker: an output could not be written. Sets `wanted` to the room that all current outputs
 * occupy, at least: outputs that fail now free that much room. bytes: of this output, if it is not
 * among these. */
void disk_lack_room(struct disk *disk, uint64_t bytes);
/* On a worker, after a write has failed and its partial file is gone: writes and syncs a small file
 * below output_root, and deletes it. is_full: the disk had no room; if it has `wanted` bytes now,
 * the job itself has failed, and `wanted` is reset. buffer: the worker's sink, overwritten. error:
 * set if DISK_FAILS. */
enum disk_verdict disk_try(struct disk *disk, bool is_full, uint8_t *buffer,
                           struct error *error) MUST_CHECK;

/* On the loop: stops fetching until outputs can be written. false: the disk had failed already. */
bool disk_fail(struct disk *disk, const struct error *error);
/* On the loop: tries on a worker whether output_root can be written, unless a try is running or it
 * cannot. */
void disk_suspect(struct disk *disk);
