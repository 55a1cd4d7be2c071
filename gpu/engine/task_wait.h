/*
 * task_wait.h - lets a thread wait until tasks of an asynchronous engine have ended.
 *
 * Each task's `done` calls task_wait_ended. The waiting thread then sees the results of the tasks
 * that it has waited for. Any thread, but only one may wait at a time.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct task_wait {
    pthread_mutex_t lock; /* guards the next two */
    pthread_cond_t reached;
    size_t ended;  /* tasks since task_wait_open */
    size_t wanted; /* number of ended tasks at which the waiting thread continues */
};

void task_wait_open(struct task_wait *wait);
/* No task may call task_wait_ended any more. */
void task_wait_close(struct task_wait *wait);
void task_wait_ended(struct task_wait *wait);
/* Waits until `count` tasks have ended since task_wait_open. false: timeout_s has passed. */
bool task_wait_for(struct task_wait *wait, size_t count, double timeout_s);
