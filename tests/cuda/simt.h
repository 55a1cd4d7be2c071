/*
 * simt.h - runs kernels on the host, with a coroutine per thread of a block (simt.c).
 *
 * gpu/simt/simt_host.h declares the rest: it is the interface of kernels in C.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

struct simt_shape {
    unsigned x, y, z;
};

/* As simt_launch, with up to three dimensions of blocks and of threads. */
int simt_launch_shape(void (*kernel)(const void *args), const void *args, size_t args_bytes,
                      struct simt_shape blocks, struct simt_shape threads, size_t shared,
                      struct CUstream_st *stream);

/* From the next kernel on, the threads of a block run in a random order between barriers. seed 0:
 * in a fixed order, the default. */
void simt_shuffle(uint32_t seed);

/* The running thread and its block, and the number of blocks. */
struct simt_shape simt_thread(void);
struct simt_shape simt_block(void);
struct simt_shape simt_blocks(void);
unsigned char *simt_dynamic_shared(void);

void block_barrier(void);
int lane_index(void);
void warp_barrier(void);
uint32_t warp_ballot(bool flag);
uint32_t warp_read(uint32_t value, int lane);

#ifdef __cplusplus
}
#endif
