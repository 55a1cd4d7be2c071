/* clock.h - the monotonic clock for deadlines and durations, and the time of day. Any thread. */
#pragma once

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

static inline double clock_now_s(void)
{
    return (double)clock_now_ns() / 1e9;
}

/* User and system CPU time of the calling thread. */
static inline uint64_t clock_thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static inline double clock_unix_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Writes the time of day in UTC: "2026-01-31T23:59:59Z". */
#define CLOCK_STAMP_BYTES 32
static inline void clock_stamp(char stamp[CLOCK_STAMP_BYTES])
{
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(stamp, CLOCK_STAMP_BYTES, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

static inline uint64_t clock_after_s(uint64_t from_ns, double seconds)
{
    return from_ns + (uint64_t)(seconds * 1e9);
}

static inline double clock_ms(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / NS_PER_MS : 0;
}
