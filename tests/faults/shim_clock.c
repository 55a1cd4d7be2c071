/*
 * shim_clock.c - preloaded into redis-server: lets a test step the server's clock.
 *
 * $GPUIMGD_CLOCK names a file with one int64_t: the milliseconds to add to the time of day. The
 * monotonic clock is not changed.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *step_ms;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("GPUIMGD_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *page = fd >= 0 ? mmap(NULL, sizeof *step_ms, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (page == MAP_FAILED)
        _exit(99);
    close(fd);
    step_ms = page;
}

static int64_t now_ns(void)
{
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec + (step_ms ? *step_ms * 1000000 : 0);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, time);
    int64_t ns = now_ns();
    *time = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    int64_t ns = now_ns();
    (void)zone;
    *time = (struct timeval){.tv_sec = ns / 1000000000, .tv_usec = ns % 1000000000 / 1000};
    return 0;
}

time_t time(time_t *at)
{
    time_t seconds = (time_t)(now_ns() / 1000000000);
    if (at)
        *at = seconds;
    return seconds;
}
