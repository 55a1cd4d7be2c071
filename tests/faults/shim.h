/*
 * shim.h - the memory page shared by a fault case and the library that it preloads into a daemon.
 *
 * The case creates the file $GPUIMGD_SHIM_PAGE; the library maps it when it is loaded.
 */
#ifndef GPUIMGD_TESTS_FAULTS_SHIM_H
#define GPUIMGD_TESTS_FAULTS_SHIM_H

#include <stdatomic.h>

struct shim_page {
    atomic_uint met;    /* matching calls while armed */
    atomic_uint faults; /* matching calls that failed */
    /* shim_memory alone: */
    atomic_uint from;   /* number of the first call to fail, counted from arming; 0: none */
    atomic_uint times;  /* number of calls to fail from there on */
    atomic_int live;    /* allocations not freed yet, of all callers */
};

#endif
