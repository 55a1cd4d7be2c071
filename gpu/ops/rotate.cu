/* rotate.cu - rotation by any angle (rotate.h) on the device: one thread per pixel of the
 * result. */
#include "gpu/ops/launch.cuh"
#include "gpu/ops/rotate.h"

/* The tile of the result that a block computes. Its pixels are sampled from neighbourhoods of 4 x 4
 * pixels of the source, which share lines of the cache if the tile is compact. */
#define BLOCK_X 32
#define BLOCK_Y 8

struct rotate_args : pass_images {
    int from_width, from_height;
    int tiles_across;
    struct rotate rotate;
};

template <int C>
static __global__ void __launch_bounds__(BLOCK_X *BLOCK_Y)
    rotate_kernel(const __grid_constant__ rotate_args a)
{
    await_kernel_before();
    int tile_y = blockIdx.x / a.tiles_across, tile_x = blockIdx.x - tile_y * a.tiles_across;
    int x = tile_x * BLOCK_X + threadIdx.x, y = tile_y * BLOCK_Y + threadIdx.y;
    if (x >= a.width || y >= a.height)
        return;
    uint8_t pixel[4];
    struct rotate_place place;
    if (rotate_locate(a.rotate.matrix, x, y, a.from_width, a.from_height, &place)) {
        rotate_pixel(a.from, a.from_stride, a.from_width, a.from_height, &place, pixel, C);
    } else {
        unrolled_for (int c = 0; c < C; c++)
            pixel[c] = a.rotate.fill[c];
    }
    uint8_t *to = a.to + (size_t)y * a.to_stride + (size_t)x * C;
    unrolled_for (int c = 0; c < C; c++)
        to[c] = pixel[c];
}

PASS_LAUNCHER(rotate_cuda)
{
    rotate_args args = pass_args<rotate_args>(from, to);
    args.from_width = (int)from->width;
    args.from_height = (int)from->height;
    args.tiles_across = (args.width + BLOCK_X - 1) / BLOCK_X;
    memcpy(&args.rotate, pass->params, sizeof(args.rotate));
    unsigned blocks = (unsigned)(args.tiles_across * ((args.height + BLOCK_Y - 1) / BLOCK_Y));
    return by_channels(to->channels, [&](auto c) {
        return launch_kernel(rotate_kernel<c>, blocks, dim3(BLOCK_X, BLOCK_Y), 0, stream, args);
    });
}
