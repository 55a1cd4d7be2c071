/*
 * finished_tasks.h - the tasks that workers have finished, until the loop takes them.
 *
 * The first finished task wakes the loop (waker.h), which takes all of them. While tasks finish
 * often, those that can wait do not wake it: it takes the tasks every 2 ms.
 *
 * Workers add tasks without a lock, and then look at the members that say whether the loop will
 * come. The loop writes these members before it takes the tasks. All accesses have one order
 * (memory_order_seq_cst), so either the loop takes a task, or its worker sees that it must wake the
 * loop.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include <uv.h>

#include "conf/list.h"
#include "conf/status.h"
#include "daemon/workers/waker.h"

struct finished_tasks {
    struct list_node *_Atomic last; /* linked by `next` to the one before it */
    _Atomic uint32_t count;         /* of the tasks, or a few more */
    _Atomic bool notified;          /* the loop was woken and will take them */
    _Atomic bool timer_runs;        /* the loop will take them when `timer` ends */
    struct waker waker;
    uv_timer_t timer;  /* this and the following members: only the loop thread uses them */
    uint64_t taken_ms; /* when the loop last took a task while `timer` did not run, by uv_now */
    waker_cb collect;
    void *context;
};

/* The loop calls `collect`, which must call finished_take. Returns 0 or a negative libuv error;
 * after an error, do not call finished_close. */
int finished_open(struct finished_tasks *finished, uv_loop_t *loop, waker_cb collect,
                  void *context);
/* Any thread. The loop may free the task at once. can_wait: for up to 2 ms. true: the caller must
 * call finished_wake. */
bool finished_add(struct finished_tasks *finished, struct list_node *task,
                  bool can_wait) MUST_CHECK;
/* Any thread, without a lock that the loop needs: the woken loop runs at once. */
void finished_wake(struct finished_tasks *finished);
/* On the loop. Moves the tasks to the end of the list, in the order in which they finished. false:
 * there was none. */
bool finished_take(struct finished_tasks *finished, struct list *tasks);
/* On the loop, after the last finished_wake. The loop must run once more to close the handles. */
void finished_close(struct finished_tasks *finished);
