/*
 * sweep.cuh - a grid that fills the device once and walks over all rows.
 *
 * For kernels whose blocks gather something: the fewer blocks, the fewer atomics on the result.
 */
#ifndef GPUIMGD_GPU_OPS_SWEEP_CUH
#define GPUIMGD_GPU_OPS_SWEEP_CUH

#include "gpu/ops/multiprocessors.cuh"
#include "gpu/ops/rows.cuh"

#define SWEEP_WARPS 16
#define SWEEP_THREADS (SWEEP_WARPS * WARP)

/* Stretches are numbered row by row; warp w of all takes w, w + warps, and so on: sweep_place. */
struct sweep {
    int stretches; /* a row */
    int count;     /* of the image */
    unsigned blocks;
};

/* warps: of a block; blocks_an_sm: as many as can be there at once. */
static inline struct sweep sweep_of(const struct image *from, int warps, int blocks_an_sm)
{
    struct sweep sweep;
    sweep.stretches = (int)((from->width + WARP_PIXELS - 1) / WARP_PIXELS);
    sweep.count = sweep.stretches * (int)from->height;
    int all = (sweep.count + warps - 1) / warps;
    int fill = multiprocessors() * blocks_an_sm;
    sweep.blocks = (unsigned)(fill < all ? fill : all);
    return sweep;
}

/* Where a warp is. Steps are added, as dividing anew costs about as much as counting 16 pixels. */
struct sweep_place {
    int y, x0;
    int rows_a_step, pixels_a_step; /* on by so many rows, and then to the right */
    int row_pixels;                 /* of a row's stretches */
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
