/*
 * composite.cu - lays an overlay over an image (composite.h): one thread per pixel of the result.
 *
 * The threads of a warp have adjacent pixels, so their accesses to single bytes share cache lines.
 * Memory limits this pass, and few jobs have it, so larger accesses are not worth their code.
 */
#include "gpu/ops/composite.h"
#include "gpu/ops/launch.cuh"

#define BLOCK_WIDTH 64
#define BLOCK_HEIGHT 4
#define GRID_DOWN_MAX 65535u

struct composite_args : pass_images {
    struct composite composite;
    const uint8_t *overlay;
};

template <int C, int TO>
SIMT void put_pixel(const composite_args &a, uint32_t x, uint32_t y)
{
    const struct composite &own = a.composite;
    const uint8_t *under = a.from + y * a.from_stride + (size_t)x * C;
    uint8_t *to = a.to + y * a.to_stride + (size_t)x * TO;
    uint32_t in_x = x - own.left, in_y = y - own.top; /* before the region they wrap: too large */
    if (in_x < own.width && in_y < own.height) {
        size_t at = (size_t)(in_y % own.down) * own.across + in_x % own.across;
        composite_pixel(under, a.overlay + at * COMPOSITE_PIXEL, to, C, TO);
        return;
    }
    unrolled_for (int c = 0; c < TO; c++)
        to[c] = under[C == 1 ? 0 : c];
}

template <int C, int TO>
static __global__ void __launch_bounds__(BLOCK_WIDTH *BLOCK_HEIGHT)
    composite_kernel(const __grid_constant__ composite_args a)
{
    await_kernel_before();
    uint32_t x = blockIdx.x * BLOCK_WIDTH + threadIdx.x, rows = gridDim.y * BLOCK_HEIGHT;
    if (x >= (uint32_t)a.width)
        return;
    for (uint32_t y = blockIdx.y * BLOCK_HEIGHT + threadIdx.y; y < (uint32_t)a.height; y += rows)
        put_pixel<C, TO>(a, x, y);
}

PASS_LAUNCHER(composite_cuda)
{
    composite_args args = pass_args<composite_args>(from, to);
    memcpy(&args.composite, pass->params, sizeof(args.composite));
    args.overlay = pass->constants;
    uint32_t down = (to->height + BLOCK_HEIGHT - 1) / BLOCK_HEIGHT;
    dim3 blocks((to->width + BLOCK_WIDTH - 1) / BLOCK_WIDTH,
                down < GRID_DOWN_MAX ? down : GRID_DOWN_MAX);
    dim3 threads(BLOCK_WIDTH, BLOCK_HEIGHT);
    if (from->channels == 1 && to->channels == 3)
        return launch_kernel(composite_kernel<1, 3>, blocks, threads, 0, stream, args);
    return by_channels(from->channels, [&](auto c) {
        return launch_kernel(composite_kernel<c, c>, blocks, threads, 0, stream, args);
    });
}
