/*
 * workers.h - the threads that read, decode, compute and encode.
 *
 * The loop puts tasks in, a worker carries one out, and the loop gets it back: finished tasks
 * gather under a lock, a waker wakes the loop once, and the loop takes the whole list. Where
 * a task says that its news can wait, and there is more to do, several wake the loop at once.
 * Of waiting tasks the one with the highest priority is next, so that work close to its end goes
 * first. A worker that does not come back is given up (workers_give_up): a new thread takes its
 * place, and the old one ends itself if it ever returns.
 */
#ifndef GPUIMGD_DAEMON_PIPELINE_WORKERS_H
#define GPUIMGD_DAEMON_PIPELINE_WORKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "codecs/codec.h"
#include "conf/list.h"

#define WORKERS_PRIORITIES 4

/* What a worker owns and reuses from task to task. */
struct worker_tools {
    struct codec_context *codec;
    uint8_t *sink; /* SINK_BYTES */
    uint32_t number; /* the worker's: from 0; a replacement has one of its own */
};

struct worker;

struct worker_task {
    struct list_node node;
    uint32_t priority;                                            /* 0 .. 3, 3 first */
    void (*run)(struct worker_task *task, struct worker_tools *); /* on a worker */
    void (*done)(struct worker_task *task);                       /* on the loop */
    bool patient; /* set by run, for each time: done has no hurry (workers_collect) */
    struct worker *worker;                                        /* who has it; workers' */
};

struct workers;

/* Starts count threads. NULL: no memory, threads or file descriptors. */
struct workers *workers_create(uv_loop_t *loop, uint32_t count);
void workers_submit(struct workers *workers, struct worker_task *task);

/* Calls done of what has ended. To be called now and then, every 100 ms or so: for patient tasks
 * behind which all workers are at long ones the loop is not woken. */
void workers_collect(struct workers *workers);

/* Takes a task that no worker has begun back; false if it is too late. */
bool workers_withdraw(struct workers *workers, struct worker_task *task);

/* Gives up on the worker that is stuck in this task: it is replaced by a new thread. task->done
 * still comes on the loop, whenever the old thread returns. false: no thread could be started. */
bool workers_give_up(struct workers *workers, struct worker_task *task);
/* Threads given up so far. */
uint32_t workers_given_up(const struct workers *workers);

/* Threads there are, those with a task now, and the time that all had one since the start, that
 * of threads given up until then included. */
struct workers_usage {
    uint32_t threads, busy;
    double busy_s;
};
struct workers_usage workers_usage(struct workers *workers);

/* Ends idle threads and waits for busy ones; given-up threads are left behind. The loop must run
 * once more (uv_run) for its handle to close; then workers_destroy. */
void workers_stop(struct workers *workers);
void workers_destroy(struct workers *workers);

#endif
