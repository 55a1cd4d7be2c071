/*
 * hand_over.h - takes engine tasks from the threads of devices to the loop.
 *
 * A device's thread puts each task into a list. One wake-up of the loop serves all tasks of the
 * list.
 */
#pragma once

#include <pthread.h>

#include "conf/list.h"
#include "daemon/pipeline/waker.h"
#include "gpu/engine/engine.h"

struct hand_over {
    pthread_mutex_t lock; /* guards `tasks` */
    struct list tasks;
    struct waker waker;
    void (*take)(struct engine_task *task); /* on the loop */
};

/* false: out of file descriptors; then do not call the other functions. */
bool hand_over_open(struct hand_over *hand_over, uv_loop_t *loop,
                    void (*take)(struct engine_task *task));
/* Any thread. The task has ended. */
void hand_over_put(struct hand_over *hand_over, struct engine_task *task);
/* On the loop, after the last hand_over_put. Run the loop once more, then call
 * hand_over_destroy. */
void hand_over_close(struct hand_over *hand_over);
void hand_over_destroy(struct hand_over *hand_over);
