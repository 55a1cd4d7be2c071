/*
 * disk.h - whether outputs can be written, and what becomes of that.
 *
 * A worker that cannot write an output tries output_root itself (disk_try). If that fails too, the
 * disk is at fault and not the job: the loop calls disk_fail, fetches nothing, and has
 * a worker try output_root again until a file can be written there. So the state
 * is that of output_root alone: a folder below it on another filesystem can fail by itself, which
 * is an error of the jobs that write there. Loop thread only, unless a function says otherwise.
 */
#ifndef GPUIMGD_DAEMON_PIPELINE_DISK_H
#define GPUIMGD_DAEMON_PIPELINE_DISK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "conf/status.h"
#include "daemon/files/files.h"
#include "daemon/pipeline/workers.h"

struct disk_parts {
    uv_loop_t *loop;
    struct files *files;
    struct workers *workers;
    const char *output_root;
    void (*changed)(void *context); /* it fails from now on, or works again */
    void *context;
};

struct disk {
    struct disk_parts parts; /* borrowed */
    _Atomic uint64_t tries;
    _Atomic uint32_t outputs; /* that are being written now */
    _Atomic uint64_t written; /* bytes that they have written */
    _Atomic uint64_t wanted;  /* bytes that must fit for it to work: the most that did not */
    uv_timer_t timer;        /* until the next try */
    struct worker_task task;
    bool trying;             /* the task is out: what follows is its worker's */
    struct error found;

    bool failed;
    struct error error;      /* while failed: why, by the last try */
    double delay_s;          /* before the next try */
    uint64_t failed_ns, worked_ns; /* since when */
};

void disk_open(struct disk *disk, const struct disk_parts *parts);
/* Closes its handle; the loop must run once more. */
void disk_close(struct disk *disk);

/* Whether a write that failed with this errno says something of the disk. */
bool disk_may_be_why(int reason);
/* On a worker: an output is begun; so many bytes more of it are on the disk, from a buffer of
 * SINK_BYTES; all of it is in its place or gone. */
void disk_begin_output(struct disk *disk);
void disk_add_bytes(struct disk *disk, uint64_t bytes);
void disk_end_output(struct disk *disk, uint64_t bytes);
/* On a worker: an output could not be written, and its part is still on the disk. There was room
 * for no more than all outputs have at this moment. Those that fail because of it give room back,
 * so more than that must fit. */
void disk_lack_room(struct disk *disk);
/* On a worker, whose sink is the buffer: whether as many bytes as are wanted, at least SINK_BYTES
 * and at most DISK_TRY_BYTES_MAX, can be written and synced below output_root; then none are wanted
 * any more. false with a sentence. */
bool disk_try(struct disk *disk, uint8_t *buffer, struct error *error) MUST_CHECK;

/* That has failed. */
void disk_fail(struct disk *disk, const struct error *error);
/* Has a worker try, for there is something odd about output_root. */
void disk_suspect(struct disk *disk);

#endif
