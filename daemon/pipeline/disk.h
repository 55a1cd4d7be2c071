/*
 * disk.h - detects that output_root cannot be written, and waits until it can be written again.
 *
 * If a worker cannot write an output, it writes a test file to output_root (disk_try). If that
 * fails too, the disk is at fault and not the job: the loop calls disk_fail and stops fetching. A
 * worker then repeats the test until it succeeds. The test covers only output_root: if a folder
 * below it is on another filesystem that fails, the jobs that write there fail. Loop thread only,
 * unless a function says otherwise.
 */
#ifndef GPUIMGD_DAEMON_PIPELINE_DISK_H
#define GPUIMGD_DAEMON_PIPELINE_DISK_H


#include <uv.h>

#include "conf/status.h"
#include "daemon/pipeline/workers.h"

struct pipeline;

struct disk {
    struct pipeline *pipeline;
    _Atomic uint64_t tries;
    _Atomic uint32_t outputs; /* outputs that workers write at this moment */
    _Atomic uint64_t written; /* bytes that these outputs occupy */
    _Atomic uint64_t wanted;  /* bytes that must fit before the disk counts as working again */
    uv_timer_t timer;        /* until the next try */
    struct worker_task task;
    bool trying;             /* the task is submitted; its worker owns `found` */
    struct error found;

    bool failed;
    struct error error;      /* while failed: the error of the last try */
    double delay_s;          /* before the next try */
    uint64_t failed_ns, worked_ns; /* time of the last change to failed, and to working */
};

void disk_open(struct pipeline *pipeline);

/* Whether this errno of a write can mean that the disk is at fault. Any thread. */
bool disk_may_be_why(int reason);
/* On a worker: counts an output from its start to its rename or removal. disk_add_bytes adds the
 * bytes of one write; disk_end_output gets their sum. */
void disk_begin_output(struct disk *disk);
void disk_add_bytes(struct disk *disk, uint64_t bytes);
void disk_end_output(struct disk *disk, uint64_t bytes);
/* On a worker: an output could not be written, and its partial file still exists. Sets `wanted` to
 * the room that all current outputs occupy, at least: outputs that fail now free that much room. */
void disk_lack_room(struct disk *disk);
/* On a worker: writes and syncs a file below output_root, and deletes it. Its size is `wanted`, at
 * least SINK_BYTES and at most DISK_TRY_BYTES_MAX. Success resets `wanted`. buffer: the worker's
 * sink, overwritten. */
bool disk_try(struct disk *disk, uint8_t *buffer, struct error *error) MUST_CHECK;

/* Reports that disk_try has failed with this error. Idempotent. */
void disk_fail(struct disk *disk, const struct error *error);
/* Tries the disk on a worker, unless it has failed already or a try is running. */
void disk_suspect(struct disk *disk);

#endif
