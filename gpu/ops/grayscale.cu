/*
 * grayscale.cu - converts colour to gray: 3 or 4 bytes read and 1 written per pixel.
 *
 * Each warp processes 512 pixels of one row. Warps are numbered through all rows, so that the grid
 * has one dimension, whose limit of 2^31 - 1 blocks no image reaches.
 */
#include "gpu/ops/launch.cuh"
#include "gpu/ops/rows.cuh"

#define WARPS 8

/* ---- kernels ---- */

template <int C>
static __global__ void __launch_bounds__(WARPS *WARP)
    grayscale_kernel(row_stretches a, gray_words gray)
{
    await_kernel_before();
    __shared__ alignas(16) uint8_t stage[C == 3 ? WARPS : 1][C == 3 ? WARP_PIXELS * 3 : 16];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int item = blockIdx.x * WARPS + warp;
    if (item >= a.stretch_count)
        return; /* the whole warp returns: the kernel has no barrier across warps */
    int y = item / a.stretches, x0 = (item - y * a.stretches) * WARP_PIXELS;
    const uint8_t *source = a.from + (size_t)y * a.from_stride;
    uint8_t *row = a.to + (size_t)y * a.to_stride;

    row_part<C> part;
    row_load<C>(&part, source, x0, a.width, lane);
    if constexpr (C == 3) {
        row_turn_rgb(&part, stage[warp], lane);
        uint4 pixels = gray_lane_rgb(part, gray);
        int x = x0 + lane * LANE_PIXELS;
        if (x < a.width)
            *reinterpret_cast<uint4 *>(row + x) = pixels;
    } else {
#pragma unroll
        for (int j = 0; j < C; j++) {
            int x = x0 + (lane + j * WARP) * 4;
            if (x < a.width)
                *reinterpret_cast<uint32_t *>(row + x) = gray_four_rgba(part.words[j], gray);
        }
    }
}

/* ---- launchers ---- */

PASS_LAUNCHER(grayscale_cuda)
{
    const struct grayscale *gray = reinterpret_cast<const struct grayscale *>(pass->params);
    row_stretches args = row_stretches_of<>(from, to);
    auto kernel = from->channels == 3 ? grayscale_kernel<3> : grayscale_kernel<4>;
    return launch_kernel(kernel, stretch_blocks(args, WARPS), WARPS * WARP, 0, stream, args,
                         gray_words_of(gray));
}
