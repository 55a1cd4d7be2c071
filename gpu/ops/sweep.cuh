/*
 * sweep.cuh - a grid that fills the device once and walks over all rows.
 *
 * It is meant for kernels whose blocks reduce values: fewer blocks need fewer atomics on the
 * result.
 */
#ifndef GPUIMGD_GPU_OPS_SWEEP_CUH
#define GPUIMGD_GPU_OPS_SWEEP_CUH

#include "gpu/ops/multiprocessors.cuh"
#include "gpu/ops/rows.cuh"

#define SWEEP_WARPS 16
#define SWEEP_THREADS (SWEEP_WARPS * WARP)

/* Warp w processes stretch w, w + the number of warps, and so on: sweep_place. warps: per block.
 * blocks_an_sm: resident blocks per multiprocessor. */
static inline unsigned sweep_blocks(const row_stretches &args, int warps, int blocks_an_sm)
{
    return min(stretch_blocks(args, warps), (unsigned)(multiprocessors() * blocks_an_sm));
}

/* The position of a warp. It advances by addition: a division costs about as much as counting 16
 * pixels. */
struct sweep_place {
    int y, x0;
    int rows_a_step, pixels_a_step; /* one step: down by rows, then right by pixels */
    int row_pixels;                 /* of all stretches of a row */
};

static __device__ __forceinline__ sweep_place sweep_begin(int item, int step, int stretches)
{
    sweep_place at;
    at.y = item / stretches;
    at.x0 = (item - at.y * stretches) * WARP_PIXELS;
    at.rows_a_step = step / stretches;
    at.pixels_a_step = (step - at.rows_a_step * stretches) * WARP_PIXELS;
    at.row_pixels = stretches * WARP_PIXELS;
    return at;
}

static __device__ __forceinline__ void sweep_next(sweep_place *at)
{
    at->y += at->rows_a_step;
    at->x0 += at->pixels_a_step;
    if (at->x0 >= at->row_pixels) {
        at->x0 -= at->row_pixels;
        at->y++;
    }
}

/* The first pixel of the four in word m (0..3) of a lane's gray. With RGBA a lane has four groups
 * of four pixels, otherwise sixteen adjacent pixels. */
template <int C> static __device__ __forceinline__ int gray_word_x(int x0, int lane, int m)
{
    return C == 4 ? x0 + (lane + m * WARP) * 4 : x0 + lane * LANE_PIXELS + m * 4;
}

/* Converts a lane's sixteen pixels to gray. stage: as for row_turn_rgb; used for three channels
 * only. */
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
