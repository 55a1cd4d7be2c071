/*
 * process.h - runs a library in a process of its own, which can be killed.
 *
 * libavif, libaom and dav1d cannot be interrupted, and a small file can make them use gigabytes. So
 * they run in gpuimgd-codec, a process without files and sockets (codecs/confined/confine.h) and
 * with a limit on its memory. It is started for the first task and serves the next ones. It is
 * killed when the deadline of a task passes or its job is cancelled, and replaced by the next task.
 * If it crashes, only its task fails.
 *
 * The region is shared memory for files and pixels. The daemon only copies from and to it with
 * system calls: a mapping would count twice in the resident memory, and a process that was taken
 * over could change bytes after they were checked.
 *
 * Each struct codec_process belongs to one thread. The kernel kills the process when that thread
 * ends.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "codecs/codec.h"
#include "codecs/process/protocol.h"

/* Zero: not started. */
struct codec_process {
    pid_t pid; /* 0: there is none */
    int socket, region;
    uint64_t base_bytes;   /* address space at its start; 0: it has no limit */
    uint64_t limit_bytes;  /* of its address space; 0: none is set yet */
    uint64_t region_bytes;
    bool reads, writes;
    bool is_busy; /* it has not ended its task */
    bool is_used; /* it has ended a task */
    bool retries; /* a used process lacked memory: see codec_process_retries */
};

/* A task. Errors name the `noun`: "AVIF". */
struct codec_task {
    enum codec_call_kind kind;
    const char *noun;
    uint64_t region_bytes; /* size of the region */
    uint64_t work_bytes;   /* memory of the process besides the region */
    uint64_t deadline_ns;  /* CLOCK_MONOTONIC; 0: none */
    const struct codec_caller *caller; /* NULL: nobody cancels it */
};

/* Starts the process, or replaces one that has ended, and sets the size of the region and the limit
 * of the memory. Errors: out_of_memory, internal. */
enum status codec_process_begin(struct codec_process *process, const struct codec_task *task,
                                struct error *error) MUST_CHECK;
/* Sends a call and waits for a reply. Errors: that of the process in CODEC_DONE. If the process is
 * late, cancelled, dead or out of memory: decode_limit, decode_failed, encode_failed, over_budget,
 * timeout, cancelled or out_of_memory. It was killed then. */
enum status codec_process_ask(struct codec_process *process, const struct codec_task *task,
                              const struct codec_call *call, struct codec_reply *reply,
                              struct error *error) MUST_CHECK;
/* Ends a task: the region shrinks. A process that has not ended it, because the daemon failed
 * meanwhile, is killed. Idempotent. */
void codec_process_end(struct codec_process *process);
/* After the end of a task. Free memory of earlier tasks counts in the limit of a process, so a task
 * that lacked memory is repeated by a new one. true: repeat it; the error is cleared. */
bool codec_process_retries(struct codec_process *process, struct error *error);
/* For a reply that the protocol does not allow: kills the process. Returns the status. */
enum status codec_process_distrust(struct codec_process *process, const struct codec_task *task,
                                   struct error *error);
/* Ends the process; takes one that was not started. */
void codec_process_close(struct codec_process *process);

/* Copies bytes to the region. Errors: out_of_memory. */
enum status codec_process_put(struct codec_process *process, uint64_t at, const void *bytes,
                              size_t count, struct error *error) MUST_CHECK;
/* Copies from it. Errors: internal. */
enum status codec_process_get(struct codec_process *process, uint64_t at, void *bytes,
                              size_t count, struct error *error) MUST_CHECK;
/* The same for an image, whose rows are packed in the region. */
enum status codec_process_put_image(struct codec_process *process, uint64_t at,
                                    const struct image *image, struct error *error) MUST_CHECK;
enum status codec_process_get_image(struct codec_process *process, uint64_t at,
                                    const struct image *image, struct error *error) MUST_CHECK;

/* Returns why tasks of this kind cannot run, as the end of a sentence, in a buffer of the thread.
 * NULL: they can. Starts a process at the first call. Any thread. */
const char *codec_process_refusal(bool writes);

/* Why a process was replaced. */
enum codec_process_end {
    CODEC_PROCESS_LATE,
    CODEC_PROCESS_CANCELLED,
    CODEC_PROCESS_CRASHED,
    CODEC_PROCESS_MEMORY, /* it reached its limit */
    CODEC_PROCESS_ENDS
};
extern const char *const codec_process_end_names[CODEC_PROCESS_ENDS];
/* Processes replaced since the start of the daemon. Any thread. */
uint64_t codec_process_replaced(enum codec_process_end why);
