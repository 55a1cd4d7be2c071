/*
 * flatten.cu - flattens RGBA over a background to RGB: 4 bytes read and 3 written per pixel.
 *
 * As in point.cu, each warp processes 512 pixels. A lane converts 4 pixels to 3 words and
 * exchanges them through shared memory, so that each lane again writes 16 bytes. The stride of 3
 * words touches every bank once.
 */
#include "gpu/ops/launch.cuh"
#include "gpu/ops/rows.cuh"

#define WARPS 8

/* ---- kernels ---- */

/* Flattens one pixel to 0x00BBGGRR. */
static __device__ __forceinline__ uint32_t flatten_pixel(uint32_t pixel, uint3 under)
{
    uint32_t alpha = pixel >> 24;
    return flatten_byte(pixel & 255u, alpha, under.x) |
           flatten_byte(pixel >> 8 & 255u, alpha, under.y) << 8 |
           flatten_byte(pixel >> 16 & 255u, alpha, under.z) << 16;
}

static __global__ void __launch_bounds__(WARPS *WARP)
    flatten_kernel(row_stretches a, uint3 under)
{
    await_kernel_before();
    __shared__ alignas(16) uint32_t stage[WARPS][WARP_PIXELS * 3 / 4];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int item = blockIdx.x * WARPS + warp;
    if (item >= a.stretch_count)
        return; /* the whole warp returns */
    int y = item / a.stretches, x0 = (item - y * a.stretches) * WARP_PIXELS;

    row_part<4> part;
    row_load<4>(&part, a.from + (size_t)y * a.from_stride, x0, a.width, lane);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        uint32_t p0 = flatten_pixel(part.words[j].x, under);
        uint32_t p1 = flatten_pixel(part.words[j].y, under);
        uint32_t p2 = flatten_pixel(part.words[j].z, under);
        uint32_t p3 = flatten_pixel(part.words[j].w, under);
        uint32_t *place = &stage[warp][(lane + j * WARP) * 3];
        place[0] = p0 | p1 << 24;
        place[1] = p1 >> 8 | p2 << 16;
        place[2] = p2 >> 16 | p3 << 8;
    }
    __syncwarp();
    uint8_t *row = a.to + (size_t)y * a.to_stride;
#pragma unroll
    for (int j = 0; j < 3; j++) {
        int piece = lane + j * WARP, offset = x0 * 3 + piece * 16;
        if (offset < a.width * 3)
            *reinterpret_cast<uint4 *>(row + offset) =
                reinterpret_cast<const uint4 *>(stage[warp])[piece];
    }
}

/* ---- launchers ---- */

PASS_LAUNCHER(flatten_cuda)
{
    const struct flatten *flatten = reinterpret_cast<const struct flatten *>(pass->params);
    const uint8_t *under = flatten->background;
    row_stretches args = row_stretches_of<>(from, to);
    return launch_kernel(flatten_kernel, stretch_blocks(args, WARPS), WARPS * WARP, 0, stream, args,
                         make_uint3(under[0], under[1], under[2]));
}
