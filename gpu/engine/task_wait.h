/*
 * task_wait.h - lets a thread wait until tasks of an asynchronous engine have ended.
 *
 * The `done` of each task calls task_wait_ended. A thread that has waited for a task then sees its
 * results. Any thread may wait, but only one at a time.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct task_wait {
    pthread_mutex_t lock; /* guards `ended` and `wanted` */
    pthread_cond_t reached;
    size_t ended;  /* tasks since task_wait_open */
    size_t wanted; /* number of ended tasks at which the waiting thread continues */
};

void task_wait_open(struct task_wait *wait);
/* Call it after the last call of task_wait_ended has begun. */
void task_wait_close(struct task_wait *wait);
void task_wait_ended(struct task_wait *wait);
/* Waits until `count` tasks have ended since task_wait_open. false: timeout_s has passed before. */
bool task_wait_for(struct task_wait *wait, size_t count, double timeout_s);
