/*
 * simt_host.h - the definitions of simt.h for a C compiler, to run kernels in tests on the host.
 *
 * tests/cuda/simt.c implements the functions. simt_launch runs the blocks one after the other, in
 * the order of their indices. The threads of a block are coroutines, which switch at barriers and
 * at warp functions. A process runs one kernel at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEVICE static inline __attribute__((always_inline, unused))
#define SIMT     static inline __attribute__((unused))
#define CONSTANT static const
/* simt_launch fills this section with 0xA5. AddressSanitizer guards variables outside of it. */
#ifdef __SANITIZE_ADDRESS__
#define SHARED static
#else
#define SHARED static __attribute__((section("simt_shared")))
#endif
#define UNROLL
#define NO_UNROLL

#define KERNEL(name, threads, blocks, type)                                                        \
    static void name##_body(const type args);                                                      \
    static void name(const void *args) { name##_body(*(const type *)args); }                       \
    static void name##_body(const type args)
#define LONG_KERNEL KERNEL
#define LAUNCH(name, threads, blocks, shared, stream, args)                                        \
    simt_launch(name, &(args), sizeof(args), simt_grid_of(blocks), threads, shared, stream)
#define ALLOW_SHARED(name, bytes) ((void)(bytes), 0)
#define DYNAMIC_SHARED() simt_dynamic_shared()

typedef struct { uint32_t x, y; } __attribute__((aligned(8))) words2;
typedef struct { uint32_t x, y, z, w; } __attribute__((aligned(16))) words4;
/* A grid of x times y blocks. */
typedef struct { unsigned x, y; } simt_grid;
#define dim3(x, y) ((simt_grid){x, y})
#define simt_grid_of(blocks)                                                                       \
    _Generic((blocks), simt_grid: simt_as_grid, default: simt_as_row)(blocks)
static inline simt_grid simt_as_grid(simt_grid grid) { return grid; }
static inline simt_grid simt_as_row(unsigned blocks) { return (simt_grid){blocks, 1}; }

struct CUstream_st;

/* Enqueues the kernel on a stream of the stand-in CUDA runtime; stream NULL: runs it at once.
 * Copies args. Returns a cudaError_t. Aborts if the threads of a block wait for each other
 * forever. */
int simt_launch(void (*kernel)(const void *args), const void *args, size_t args_bytes,
                simt_grid grid, unsigned threads, size_t shared, struct CUstream_st *stream);
unsigned char *simt_dynamic_shared(void); /* filled with 0xA5 before each block */

int thread_index(void);
int block_threads(void);
int block_index(void);
int block_row(void);
void block_barrier(void);
int block_count(bool flag);
int lane_index(void);
void warp_barrier(void);
uint32_t warp_ballot(bool flag);
uint32_t warp_read(uint32_t value, int lane);
void relax(void);

SIMT bool block_any(bool flag) { return block_count(flag) > 0; }
SIMT bool warp_any(bool flag) { return warp_ballot(flag) != 0; }
/* Lanes run one after the other until the next barrier, so each has a loop of its own. */
SIMT bool warp_goes_on(bool flag)
{
    return flag;
}
SIMT uint32_t warp_read_up(uint32_t value, int by)
{
    int lane = lane_index();
    return warp_read(value, lane >= by ? lane - by : lane);
}
SIMT uint32_t warp_read_down(uint32_t value, int by)
{
    int lane = lane_index();
    return warp_read(value, lane + by < 32 ? lane + by : lane);
}
SIMT uint32_t warp_read_xor(uint32_t value, int mask)
{
    return warp_read(value, lane_index() ^ mask);
}
SIMT uint32_t warp_match(uint32_t value)
{
    uint32_t same = 0;
    for (int i = 0; i < WARP_LANES; i++)
        same |= (uint32_t)(warp_read(value, i) == value) << i;
    return same;
}

SIMT uint32_t atomic_add(uint32_t *at, uint32_t value)
{
    uint32_t before = *at;
    *at += value;
    return before;
}
SIMT uint32_t atomic_or(uint32_t *at, uint32_t value)
{
    uint32_t before = *at;
    *at |= value;
    return before;
}
SIMT uint32_t atomic_xor(uint32_t *at, uint32_t value)
{
    uint32_t before = *at;
    *at ^= value;
    return before;
}
SIMT uint32_t atomic_min(uint32_t *at, uint32_t value)
{
    uint32_t before = *at;
    *at = value < before ? value : before;
    return before;
}
SIMT uint32_t atomic_max(uint32_t *at, uint32_t value)
{
    uint32_t before = *at;
    *at = value > before ? value : before;
    return before;
}

SIMT void publish(uint64_t *at, uint64_t value) { *at = value; }
SIMT uint64_t poll(const uint64_t *at) { return *(const volatile uint64_t *)at; }
SIMT void publish_word(uint32_t *at, uint32_t value) { *at = value; }
SIMT uint32_t poll_word(const uint32_t *at) { return *(const volatile uint32_t *)at; }
SIMT void fence_device(void)
{
}
/* Optional: a test's function that is called before each publish_to_host, and may wait. */
extern void (*simt_publishes)(void);
SIMT void publish_to_host(uint32_t *at, uint32_t value)
{
    if (simt_publishes)
        simt_publishes();
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}
SIMT uint32_t peek_word(const uint32_t *at)
{
    return *(const volatile uint32_t *)at;
}
SIMT void publish_alone(uint64_t *at, uint64_t value)
{
    *at = value;
}
SIMT uint64_t poll_alone(const uint64_t *at)
{
    return *(const volatile uint64_t *)at;
}

SIMT uint32_t load_word(const void *at) { return *(const uint32_t *)at; }
SIMT words2 load_words2(const void *at) { return *(const words2 *)at; }
SIMT words4 load_words4(const void *at) { return *(const words4 *)at; }
SIMT words2 load_fresh(const void *at) { return *(const words2 *)at; }
SIMT uint32_t load_reused(const uint32_t *at)
{
    return *at;
}
SIMT words4 load_host4(const void *at) { return *(const words4 *)at; }
