/* clock.h - the one clock that deadlines and durations are measured with. */
#ifndef GPUIMGD_CONF_CLOCK_H
#define GPUIMGD_CONF_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_S  1000000000ull
#define NS_PER_MS 1000000.0

/* CLOCK_MONOTONIC in nanoseconds. */
static inline uint64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* What the calling thread has used up, user and system time. */
static inline uint64_t clock_thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_after_s(uint64_t from_ns, double seconds)
{
    return from_ns + (uint64_t)(seconds * 1e9);
}

static inline double clock_ms(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / NS_PER_MS : 0;
}

#endif
