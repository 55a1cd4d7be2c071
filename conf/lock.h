/* lock.h - mutexes that many threads hold often, each for less than a microsecond. */
#pragma once

#include <pthread.h>

/* Initializes a mutex. A thread that finds it locked spins for a moment before it sleeps: to sleep
 * and to be woken takes ten times as long as the work under the lock. */
static inline void lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}
