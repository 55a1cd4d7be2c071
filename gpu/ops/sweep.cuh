/*
 * sweep.cuh - a grid that fills the device once and walks over all rows.
 *
 * For kernels whose blocks gather something: the fewer blocks, the fewer atomics on the result.
 */
#ifndef GPUIMGD_GPU_OPS_SWEEP_CUH
#define GPUIMGD_GPU_OPS_SWEEP_CUH

#include "gpu/ops/rows.cuh"

#define SWEEP_WARPS 16
#define SWEEP_THREADS (SWEEP_WARPS * WARP)

/* Stretches are numbered row by row; warp w of all takes w, w + warps, and so on. */
struct sweep {
    int stretches; /* a row */
    int count;     /* of the image */
    unsigned blocks;
};

/* blocks_an_sm: as many as can be there at once. */
static inline cudaError_t sweep_of(const struct image *from, int blocks_an_sm,
                                   struct sweep *sweep)
{
    int device = 0, sms = 1;
    cudaError_t result = cudaGetDevice(&device);
    if (result == cudaSuccess)
        result = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    sweep->stretches = (int)((from->width + WARP_PIXELS - 1) / WARP_PIXELS);
    sweep->count = sweep->stretches * (int)from->height;
    int all = (sweep->count + SWEEP_WARPS - 1) / SWEEP_WARPS;
    int fill = sms * blocks_an_sm;
    sweep->blocks = (unsigned)(fill < all ? fill : all);
    return result;
}

/* The first pixel of the four in word m (0..3) of a lane's gray: RGBA is loaded so that a lane
 * has four times four pixels, else sixteen in a row. */
template <int C> static __device__ __forceinline__ int gray_word_x(int x0, int lane, int m)
{
    return C == 4 ? x0 + (lane + m * WARP) * 4 : x0 + lane * LANE_PIXELS + m * 4;
}

/* A lane's sixteen pixels as gray. stage: as row_turn_rgb, not used but for three channels. */
template <int C>
static __device__ __forceinline__ uint4 gray_lane(row_part<C> *part, uint8_t *stage, int lane,
                                                  const gray_words &gray)
{
    if constexpr (C == 1) {
        return part->words[0];
    } else if constexpr (C == 3) {
        row_turn_rgb(part, stage, lane);
        return gray_lane_rgb(*part, gray);
    } else {
        return make_uint4(
            gray_four_rgba(part->words[0], gray), gray_four_rgba(part->words[1], gray),
            gray_four_rgba(part->words[2], gray), gray_four_rgba(part->words[3], gray));
    }
}

#endif
