#include "gpu/engine/task_wait.h"

#include <errno.h>

#include "conf/clock.h"

void task_wait_open(struct task_wait *wait)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&wait->reached, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&wait->lock, NULL);
    wait->ended = wait->wanted = 0;
}

void task_wait_close(struct task_wait *wait)
{
    pthread_mutex_lock(&wait->lock); /* waits until the last task_wait_ended has unlocked it */
    pthread_mutex_unlock(&wait->lock);
    pthread_cond_destroy(&wait->reached);
    pthread_mutex_destroy(&wait->lock);
}

void task_wait_ended(struct task_wait *wait)
{
    pthread_mutex_lock(&wait->lock);
    if (++wait->ended == wait->wanted)
        pthread_cond_signal(&wait->reached);
    pthread_mutex_unlock(&wait->lock);
}

bool task_wait_for(struct task_wait *wait, size_t count, double timeout_s)
{
    uint64_t until_ns = clock_after_s(clock_now_ns(), timeout_s);
    struct timespec until = {(time_t)(until_ns / NS_PER_S), (long)(until_ns % NS_PER_S)};
    int waited = 0;
    pthread_mutex_lock(&wait->lock);
    wait->wanted = count;
    while (wait->ended < count && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&wait->reached, &wait->lock, &until);
    bool ended = wait->ended >= count;
    pthread_mutex_unlock(&wait->lock);
    return ended;
}
