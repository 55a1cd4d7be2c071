/*
 * shim.h - what a case and the library that it preloads into a daemon share: a page of memory.
 *
 * The case makes the file that $GPUIMGD_SHIM_PAGE names; the library maps it as it is loaded.
 */
#ifndef GPUIMGD_TESTS_FAULTS_SHIM_H
#define GPUIMGD_TESTS_FAULTS_SHIM_H

#include <stdatomic.h>

struct shim_page {
    atomic_uint met;    /* calls of that kind, while armed */
    atomic_uint faults; /* such of them as were made to fail */
    /* shim_memory alone: */
    atomic_uint from;   /* the first call to fail, counted from arming; 0: none will */
    atomic_uint times;  /* how many from there on */
    atomic_int live;    /* what is allocated and not yet freed, by whomever */
};

#endif
