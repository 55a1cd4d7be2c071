/*
 * workers.h - a thread pool that reads, decodes, computes and encodes.
 *
 * Workers run the submitted tasks, highest priority first, but a task overtakes those of jobs that
 * are less urgent (conf/rank.h), of any priority. Finished tasks are collected in a
 * list. A waker wakes the loop once, and the loop takes the whole list. If tasks finish often,
 * those marked `patient` wait up to 2 ms for others, and many share one wake-up. One idle worker is
 * woken at a time, and wakes the next one if more tasks wait. A worker that hangs is given up
 * (workers_give_up): a new thread replaces it, and the old thread ends if its task ever returns.
 * There are at most twice as many threads as workers. If more hang, they are not replaced, and work
 * again when they return.
 * Loop thread only, unless a function says otherwise.
 */
#pragma once

#include <uv.h>

#include "codecs/codec.h"
#include "codecs/jpeg/frame.h"
#include "conf/list.h"
#include "conf/rank.h"

#define WORKERS_PRIORITIES 4

struct worker;

/* Buffers that a worker owns and uses for all its tasks. */
struct worker_tools {
    struct codec_context *codec;
    uint8_t *sink; /* SINK_BYTES; also for the head of an input */
    struct jpeg_frame *frame;
    uint32_t number; /* of the worker, from 0; a replacement gets a new number */
    struct worker *worker; /* for workers_hand_on */
    int to_close;          /* a descriptor, or -1; use worker_close_later */
};

struct worker_task {
    struct list_node node;
    uint32_t priority;                                            /* 0 .. 3; 3 runs first */
    struct rank rank; /* of the job; all zero: it gets the next one of priority 0 */
    void (*run)(struct worker_task *task, struct worker_tools *); /* on a worker */
    void (*done)(struct worker_task *task);                       /* on the loop */
    bool patient; /* run sets it if done may be called 2 ms later */
    bool waiting; /* this and the next: private */
    struct worker *worker;
};

struct workers;

/* Starts `count` threads, or fewer if the system allows no more. NULL: out of memory, threads or
 * file descriptors. */
struct workers *workers_create(uv_loop_t *loop, uint32_t count);
/* Sets a function that is called after each batch of calls of `done`. At first there is none. */
void workers_on_collected(struct workers *workers, void (*collected)(void *context), void *context);
/* Any thread. The caller owns the task and keeps it valid until it is finished: until done is
 * called, it is withdrawn, or run has called workers_hand_on. */
void workers_submit(struct workers *workers, struct worker_task *task);

/* For task->run, at its end: the worker has nothing more to do with the task, and done is not
 * called. Another thread may submit the task again, or free it, as soon as it learns of this: tell
 * it after this call, and do not use the task then. */
void workers_hand_on(struct workers *workers, struct worker_tools *tools, struct worker_task *task);

/* For task->run: the worker closes the descriptor after the task, so that its result does not wait
 * for a long close(). That close must not hang, because the worker would not be replaced. An
 * earlier descriptor of the task is closed now; with -1, only that is done. */
void worker_close_later(struct worker_tools *tools, int descriptor);

/* Calls done for all finished tasks now. */
void workers_collect(struct workers *workers);

/* Cancels a task that no worker has started; done is not called. false: it is too late. Any
 * thread. */
bool workers_withdraw(struct workers *workers, struct worker_task *task);

/* Gives up the worker that hangs in this task, and replaces it by a new thread, unless as many
 * threads as `count` are away already. If the old thread returns, the loop still calls
 * task->done. */
void workers_give_up(struct workers *workers, struct worker_task *task);
uint32_t workers_given_up(const struct workers *workers); /* since the start */
/* Those that were given up and have not returned. */
uint32_t workers_away(struct workers *workers);

struct workers_usage {
    uint32_t threads, busy; /* now, without threads given up */
    double busy_s; /* of all threads since the start; of a given-up one until it was given up */
};
struct workers_usage workers_usage(struct workers *workers);
/* The idle threads that are left if each waiting task gets one. Any thread. */
uint32_t workers_spare(struct workers *workers);
/* Whether more tasks wait than threads are idle. Any thread. */
bool workers_are_busy(struct workers *workers);

/* Stops all threads after their current tasks; does not wait for threads given up. Run the loop
 * once more to close the waker, then call workers_destroy. */
void workers_stop(struct workers *workers);
void workers_destroy(struct workers *workers);
