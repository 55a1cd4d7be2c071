/* thumbhash.cu - the pass of thumbhash.h on the device: copies a small image without the padding of
 * its rows, one byte per thread. The host computes the hash from the copy. */
#include "gpu/ops/launch.cuh"
#include "gpu/ops/thumbhash.h"

#define THREADS 128

struct thumbhash_args : pass_images {
    unsigned row_bytes;
};

static __global__ void __launch_bounds__(THREADS) thumbhash_kernel(thumbhash_args a, uint8_t *work)
{
    await_kernel_before();
    unsigned x = blockIdx.x * THREADS + threadIdx.x, y = blockIdx.y;
    if (x < a.row_bytes)
        work[(size_t)y * a.row_bytes + x] = a.from[y * a.from_stride + x];
}

PASS_LAUNCHER(thumbhash_cuda)
{
    thumbhash_args args = pass_args<thumbhash_args>(from, from);
    args.row_bytes = from->width * from->channels;
    dim3 grid((args.row_bytes + THREADS - 1) / THREADS, from->height);
    return launch_kernel(thumbhash_kernel, grid, THREADS, 0, stream, args, work);
}
