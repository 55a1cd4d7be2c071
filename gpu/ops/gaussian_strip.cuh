/*
 * gaussian_strip.cuh - Gaussian blur with up to five taps for RGB, one strip per warp.
 *
 * The arithmetic is that of gaussian.cu: horizontal sums of four taps per __dp4a, sums of two rows
 * per word, vertical sums of two taps per __dp2a. But each row is summed horizontally once; a tile
 * sums 12 rows for 8. Instructions per sample: 2 IDP.4A, 3 IDP.2A, 2.1 PRMT, and 2 more to load
 * and store.
 */
#ifndef GPUIMGD_GPU_OPS_GAUSSIAN_STRIP_CUH
#define GPUIMGD_GPU_OPS_GAUSSIAN_STRIP_CUH

#include "gpu/ops/gaussian.h"
#include "gpu/ops/launch.cuh"
#include "gpu/ops/strip.cuh"

#define GAUSSIAN_STRIP_RADIUS 2
#define GAUSSIAN_STRIP_BLOCKS 4 /* per multiprocessor, limited by registers */
#define STRIP_SAMPLES (STRIP_LANE * 3)

struct gaussian_strip_args {
    strip_args strip;
    uint32_t across[4][2];               /* five pixels, from each position in a word */
    uint32_t down_even[2], down_odd[2]; /* two pairs of rows per word */
};

static __device__ __forceinline__ void strip_sum_across(const gaussian_strip_args &a,
                                                        const uint8_t *row, int lane,
                                                        uint32_t (&sums)[STRIP_SAMPLES])
{
    uint32_t plane[3][3];
    strip_sort(row, lane, plane);
#pragma unroll
    for (int c = 0; c < 3; c++)
#pragma unroll
        for (int k = 0; k < STRIP_LANE; k++)
            sums[k * 3 + c] = __dp4a(plane[c][k / 4], a.across[k % 4][0],
                                     __dp4a(plane[c][k / 4 + 1], a.across[k % 4][1], 0u));
}

/* Computes the horizontal sums of two rows, 16 bits each. */
static __device__ __forceinline__ void strip_make_pair(const gaussian_strip_args &a,
                                                       const uint8_t (*rows)[STRIP_PITCH],
                                                       int lane, uint32_t (&pair)[STRIP_SAMPLES])
{
    uint32_t odd[STRIP_SAMPLES];
    strip_sum_across(a, rows[0], lane, pair);
    strip_sum_across(a, rows[1], lane, odd);
#pragma unroll
    for (int k = 0; k < STRIP_SAMPLES; k++)
        pair[k] = __byte_perm(pair[k], odd[k], 0x5410);
}

/* Computes a row of the result from three pairs of rows. */
static __device__ __forceinline__ void strip_sum_down(const uint32_t (&weights)[2],
                                                      const uint32_t (&first)[STRIP_SAMPLES],
                                                      const uint32_t (&second)[STRIP_SAMPLES],
                                                      const uint32_t (&third)[STRIP_SAMPLES],
                                                      uint32_t (&words)[STRIP_SAMPLES / 4])
{
#pragma unroll
    for (int q = 0; q < STRIP_SAMPLES / 4; q++) {
        uint32_t sums[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            uint32_t sum = __dp2a_lo(first[4 * q + k], weights[0], 32768u);
            sum = __dp2a_hi(second[4 * q + k], weights[0], sum);
            sums[k] = __dp2a_lo(third[4 * q + k], weights[1], sum);
        }
        words[q] = gray_pack(sums[0], sums[1], sums[2], sums[3]);
    }
}

/* Pair m holds rows y0 - 2 + 2 m and y0 - 1 + 2 m. Rows 2 q and 2 q + 1 of the result need pairs q,
 * q + 1 and q + 2. */
static __global__ void __launch_bounds__(STRIP_WARPS *WARP, GAUSSIAN_STRIP_BLOCKS)
    gaussian_strip_kernel(const __grid_constant__ gaussian_strip_args a)
{
    __shared__ strip_memory memories[STRIP_WARPS];
    constexpr int halo = GAUSSIAN_STRIP_RADIUS;
    strip_memory &memory = memories[threadIdx.x / WARP];
    const strip_walk walk = strip_walk_of(a.strip);
    await_kernel_before();
    if (walk.rows <= 0)
        return;
    uint32_t pair[3][STRIP_SAMPLES];
    strip_begin(memory, a.strip, walk, halo);
#pragma unroll
    for (int m = 0; m < 2; m++)
        strip_make_pair(a, strip_next(memory, a.strip, walk, halo, m), walk.lane, pair[m]);
    for (int q = 0;; q += 3) {
#pragma unroll
        for (int u = 0; u < 3; u++) { /* unrolled so that each pair stays in its registers */
            if (2 * (q + u) >= walk.rows)
                return;
            uint32_t words[2][STRIP_SAMPLES / 4];
            strip_make_pair(a, strip_next(memory, a.strip, walk, halo, q + u + 2), walk.lane,
                            pair[(u + 2) % 3]);
            strip_sum_down(a.down_even, pair[u], pair[(u + 1) % 3], pair[(u + 2) % 3], words[0]);
            strip_sum_down(a.down_odd, pair[u], pair[(u + 1) % 3], pair[(u + 2) % 3], words[1]);
            strip_store(memory, a.strip, walk, 2 * (q + u), words);
        }
    }
}

#endif
