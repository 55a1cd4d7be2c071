/* thumbhash.cu - the pass of thumbhash.h on the device: copies small images without the padding of
 * their rows, one byte per thread. The host computes the hashes from the copies. */
#include "gpu/ops/launch.cuh"
#include "gpu/ops/thumbhash.h"

#define THREADS 128

/* a.width: in bytes. */
template <int N>
static __global__ void __launch_bounds__(THREADS)
    thumbhash_kernel(const __grid_constant__ several<pass_images, N> all)
{
    await_kernel_before();
    if (several_skips(all))
        return;
    const pass_images &a = several_own(all);
    unsigned x = blockIdx.x * THREADS + threadIdx.x, y = blockIdx.y;
    if (x < (unsigned)a.width)
        a.to[y * a.to_stride + x] = a.from[y * a.from_stride + x];
}

static dim3 describe(const struct pass_call &call, pass_images *args)
{
    *args = pass_args<pass_images>(&call.from, &call.from);
    args->width = (int)(call.from.width * call.from.channels);
    args->to = call.work;
    args->to_stride = (size_t)args->width;
    return dim3(((unsigned)args->width + THREADS - 1) / THREADS, call.from.height);
}

PASS_LAUNCHER_MANY(thumbhash_cuda)
{
    return launch_several<pass_images>(calls, count, describe, [&](const auto &all, dim3 grid) {
        constexpr int n = sizeof(all.of) / sizeof(all.of[0]);
        return launch_kernel(thumbhash_kernel<n>, grid, THREADS, 0, stream, all);
    });
}
