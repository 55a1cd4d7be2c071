/*
 * workers.h - a thread pool that reads, decodes, computes and encodes images.
 *
 * A task has a priority in this pool, which depends on its stage, and the rank of its job
 * (conf/rank.h), which depends on the priority that a client gave to the job. Workers run the tasks
 * of the highest priority first, but a task of an urgent job overtakes those of less urgent jobs.
 *
 * Finished tasks form a list. The first one wakes the loop (waker.h), and the loop takes the whole
 * list and calls `done` for each task. While tasks finish often, those marked `patient` do not wake
 * the loop, which takes the list every 2 ms. A few idle workers are woken at a time, and each wakes
 * others if more tasks wait. While many tasks wait that are `brief`, a worker takes several at
 * once.
 *
 * A worker that hangs in a task is given up (workers_give_up): a new thread replaces it, and the
 * old thread ends if its task ever returns. There are at most twice as many threads as the option
 * workers. If more hang, they are not replaced, and work again when their tasks return.
 *
 * Call the functions on the loop thread, unless a comment says otherwise.
 */
#pragma once

#include <stdatomic.h>

#include <uv.h>

#include "codecs/codec.h"
#include "conf/list.h"
#include "conf/rank.h"

#define WORKERS_PRIORITIES 4

struct worker;
union device_frame;

/* Buffers that a worker owns and uses for all its tasks. */
struct worker_tools {
    struct codec_context *codec;
    uint8_t *sink; /* SINK_BYTES, for encoded files; also holds the head of an input file */
    const void *head_of; /* the job whose input's head is in sink; NULL: none. At the beginning of a
                            task it is set to NULL */
    union device_frame *frame;
    uint32_t number; /* of the worker, from 0; a thread that replaces another gets a new number */
    struct worker *worker; /* for workers_hand_on */
    int to_close;          /* a descriptor, or -1; use worker_close_later */
};

struct worker_task {
    struct list_node node;
    uint32_t priority; /* 0 .. 3; 3 runs first */
    /* The rank of the job. For a task of no job, all zero: workers_submit sets the next rank of the
     * least urgent jobs. */
    struct rank rank;
    void (*run)(struct worker_task *task, struct worker_tools *); /* on a worker */
    void (*done)(struct worker_task *task);                       /* on the loop */
    bool patient; /* `run` sets it if `done` may be called up to 2 ms later */
    bool yields;  /* the same, but only while many other tasks wait: then the workers do not lack
                     the tasks that `done` would submit */
    bool brief;   /* set before it is submitted, if it needs about 0.1 ms or less: a worker may take
                     it together with others */
    bool waiting; /* this and the next member: only for workers.c */
    struct worker *_Atomic worker;
};

struct workers;

/* Starts `count` threads, or fewer if the system allows no more. NULL: out of memory, threads or
 * file descriptors. */
struct workers *workers_create(uv_loop_t *loop, uint32_t count);
/* Sets a function that is called after each batch of calls of `done`. At first there is none. */
void workers_on_collected(struct workers *workers, void (*collected)(void *context), void *context);
/* The CPU time that other threads have used which workers must leave a CPU. Called on the loop. */
typedef uint64_t workers_others(const void *context);
/* Lets threads pause for which the host has no CPU while others are busy: the loop thread and
 * Redis, for which `most` threads pause at most, and the threads of `others` (NULL: there are
 * none). While the loop needs a share S of a CPU and the others a share O, S x `most` + O threads,
 * rounded, begin no task. The shares are measured while tasks finish, every 100 ms. At first no
 * thread pauses. */
void workers_leave_cpus(struct workers *workers, uint32_t most, workers_others *others,
                        const void *context);
/* Any thread. The caller owns the task and keeps it valid until `done` is called, the task is
 * withdrawn, or `run` has called workers_hand_on. */
void workers_submit(struct workers *workers, struct worker_task *task);
/* The same for all tasks of a list of worker_task.node, which is empty afterwards. Takes the lock
 * only once. */
void workers_submit_all(struct workers *workers, struct list *tasks);

/* For task->run, at its end, if another thread continues with the task: the worker forgets the
 * task, and `done` is not called. Call it before you tell the other thread, which may submit or
 * free the task at once; do not use the task afterwards. */
void workers_hand_on(struct worker_tools *tools, struct worker_task *task);

/* For task->run: closes the descriptor after the task, so that the result of the task does not wait
 * for a long close(). The descriptor must be of a file whose close() cannot hang: a worker that
 * hangs after its task is never replaced. A descriptor of an earlier call is closed now. -1: only
 * closes that one. */
void worker_close_later(struct worker_tools *tools, int descriptor);

/* Calls `done` for all finished tasks now. */
void workers_collect(struct workers *workers);

/* Cancels a task that no worker has started; `done` is not called. false: a worker has started the
 * task, or starts it soon (`brief`), or it does not wait. Any thread. */
bool workers_withdraw(struct workers *workers, struct worker_task *task);

/* Gives up the worker that hangs in this task, and replaces it by a new thread, unless as many
 * threads as `count` of workers_create are given up and have not returned. If the old thread
 * returns, the loop still calls task->done. Does nothing if no worker runs the task. */
void workers_give_up(struct workers *workers, struct worker_task *task);
/* The threads that were given up since the start. */
uint32_t workers_given_up(const struct workers *workers);
/* The threads that were given up and have not returned from their task. */
uint32_t workers_away(struct workers *workers);

struct workers_usage {
    uint32_t threads, busy; /* at this moment, without threads that were given up */
    double busy_s; /* time in tasks since the start; of a hanging thread until it was given up */
};
struct workers_usage workers_usage(struct workers *workers);
/* The number of threads that stay idle when each waiting task has got one; a thread that pauses
 * does not count. Any thread. */
uint32_t workers_spare(struct workers *workers);

/* Waits until all threads have ended all tasks, also those that wait, and have stopped; except
 * threads that were given up. Then run the loop once more to close the handles, and call
 * workers_destroy. */
void workers_stop(struct workers *workers);
void workers_destroy(struct workers *workers); /* takes NULL */
