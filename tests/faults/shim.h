/*
 * shim.h - the memory page shared by a fault case and the library that it preloads into a daemon,
 * and functions of these libraries.
 *
 * The case creates the file $GPUIMGD_SHIM_PAGE; the library maps it when it is loaded.
 */
#pragma once

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct shim_page {
    atomic_uint met;    /* matching calls while armed */
    atomic_uint faults; /* matching calls that failed */
    /* shim_memory alone: */
    atomic_uint from;   /* number of the first call to fail, counted from arming; 0: none */
    atomic_uint times;  /* number of calls to fail from there on */
    atomic_int live;    /* allocations not freed yet, of all callers */
};

/* Ends the process if the page cannot be mapped. */
static inline struct shim_page *shim_map(void)
{
    const char *path = getenv("GPUIMGD_SHIM_PAGE");
    int fd = open(path ? path : "", O_RDWR | O_CLOEXEC);
    void *page = mmap(NULL, sizeof(struct shim_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || page == MAP_FAILED) {
        fprintf(stderr, "GPUIMGD_SHIM_PAGE: \"%s\" cannot be mapped\n", path ? path : "");
        _exit(99);
    }
    close(fd);
    return page;
}

static inline void shim_sleep(double seconds)
{
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0)
        continue;
}

/* Declares `next`: the next definition of a function, the C library's or a sanitizer's. */
#define SHIM_NEXT(type, name, ...)                                                                 \
    static type (*next)(__VA_ARGS__);                                                              \
    if (!next)                                                                                     \
        *(void **)&next = dlsym(RTLD_NEXT, name)
