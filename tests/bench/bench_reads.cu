/*
 * bench_reads.cu - what reads of a table of 4 KiB cost, in constant memory, in shared memory and by
 * __ldg, by the pattern of the addresses.
 *
 * Constant memory gives a warp one word at a time, and shared memory one word per bank. The lanes
 * of a warp read different words of the tables of resize and of the point operations.
 */
#include "tests/bench/bench_device.h"

#include <stdio.h>

#include <algorithm>

#include "gpu/cuda/try.h"
#include "gpu/ops/launch.cuh"

#define WORDS   1024
#define WARP    32
#define THREADS 256
#define READS   4096
#define BLOCKS  4 /* per multiprocessor */

#define OR_FAIL(call)                                                                              \
    do {                                                                                           \
        if (CUDA_TRY(call) != cudaSuccess)                                                         \
            return -1;                                                                             \
    } while (0)

enum memory { CONSTANT, SHARED, GLOBAL, MEMORIES };
/* The same word per block, or per warp; successive words for the lanes of a warp; any words. */
enum pattern { BLOCK, WARPS, LANES, ANY, PATTERNS };

static __constant__ uint32_t constant_table[WORDS];

/* Each read is at a random place. Only its seed depends on the pattern, so that all kernels have
 * the same instructions between reads. */
template <int MEMORY, int PATTERN>
static __global__ void __launch_bounds__(THREADS) read_kernel(const uint32_t *table, uint32_t *out)
{
    __shared__ uint32_t shared_table[WORDS];
    for (int i = threadIdx.x; i < WORDS; i += THREADS)
        shared_table[i] = table[i];
    __syncthreads();
    uint32_t thread = blockIdx.x * THREADS + threadIdx.x;
    uint32_t state = PATTERN == BLOCK ? blockIdx.x : PATTERN == ANY ? thread : thread / WARP;
    uint32_t lane = PATTERN == LANES ? threadIdx.x % WARP : 0, sum = 0;
    state *= 2654435761u;
#pragma unroll 8
    for (int i = 0; i < READS; i++) {
        state = state * 1664525u + 1013904223u;
        uint32_t at = ((state >> 20) + lane) % WORDS;
        sum += MEMORY == CONSTANT ? constant_table[at]
               : MEMORY == SHARED ? shared_table[at]
                                  : __ldg(table + at);
    }
    out[thread] = sum;
}

struct reads {
    uint32_t *table, *out;
    cudaEvent_t start, end;
    int blocks;
};

/* Billions of reads per second, of all lanes. */
template <int MEMORY, int PATTERN> static double rate_of(const reads &r)
{
    float best_ms = 1e9f;
    for (int round = 0; round < 5; round++) {
        float ms = 0;
        OR_FAIL(cudaEventRecord(r.start, 0));
        read_kernel<MEMORY, PATTERN><<<r.blocks, THREADS>>>(r.table, r.out);
        OR_FAIL(cudaGetLastError());
        OR_FAIL(cudaEventRecord(r.end, 0));
        OR_FAIL(cudaEventSynchronize(r.end));
        OR_FAIL(cudaEventElapsedTime(&ms, r.start, r.end));
        best_ms = std::min(best_ms, ms);
    }
    return (double)r.blocks * THREADS * READS / ((double)best_ms * 1e6);
}

template <int MEMORY> static int print_row(const reads &r, const char *name)
{
    double rates[PATTERNS] = {rate_of<MEMORY, BLOCK>(r), rate_of<MEMORY, WARPS>(r),
                              rate_of<MEMORY, LANES>(r), rate_of<MEMORY, ANY>(r)};
    printf("%-10s", name);
    for (double rate : rates)
        printf(" %10.0f", rate);
    printf("\n");
    return *std::min_element(rates, rates + PATTERNS) < 0 ? -1 : 0;
}

extern "C" int bench_reads(void)
{
    reads r = {};
    r.blocks = BLOCKS * multiprocessors();
    OR_FAIL(cudaMalloc(&r.table, WORDS * sizeof(uint32_t)));
    OR_FAIL(cudaMalloc(&r.out, (size_t)r.blocks * THREADS * sizeof(uint32_t)));
    OR_FAIL(cudaMemset(r.table, 1, WORDS * sizeof(uint32_t)));
    OR_FAIL(cudaEventCreate(&r.start));
    OR_FAIL(cudaEventCreate(&r.end));
    printf("\nreads of a table of %d words, billions per second\n%-10s %10s %10s %10s %10s\n",
           WORDS, "same word:", "per block", "per warp", "successive", "any");
    if (print_row<CONSTANT>(r, "constant") < 0 || print_row<SHARED>(r, "shared") < 0 ||
        print_row<GLOBAL>(r, "__ldg") < 0)
        return -1;
    (void)cudaEventDestroy(r.start);
    (void)cudaEventDestroy(r.end);
    (void)cudaFree(r.table);
    (void)cudaFree(r.out);
    return 0;
}
