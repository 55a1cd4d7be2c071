/*
 * composite.cu - lays overlays over images (composite.h): one thread per four pixels of a row.
 *
 * Four pixels are whole words for each number of channels, so a thread loads and stores words.
 * Most threads are outside of the overlay and only copy. Small images share launches.
 */
#include "gpu/ops/composite.h"
#include "gpu/ops/launch.cuh"

#define PIXELS        4 /* per thread */
#define BLOCK_WIDTH   32
#define BLOCK_HEIGHT  8
#define GRID_DOWN_MAX 65535u

struct composite_args : pass_images {
    struct composite composite;
    const uint32_t *overlay;
};

/* The bytes of the pixels of a thread. */
template <int C> union quad {
    uint32_t words[C];
    uint8_t bytes[PIXELS * C];
};

template <int C, int TO> SIMT void copy_quad(quad<TO> *to, const quad<C> &from)
{
    unrolled_for (int i = 0; i < PIXELS * TO; i++)
        to->bytes[i] = from.bytes[C == TO ? i : i / TO];
}

/* Lays the overlay over the pixels from x on that are in the region. in_y: the row in the
 * region. */
template <int C, int TO>
SIMT void cover_quad(const composite_args &a, quad<TO> *to, const quad<C> &from, uint32_t x,
                     uint32_t in_y)
{
    const struct composite &own = a.composite;
    int in_x = (int)(x - own.left), across = (int)own.across;
    const uint32_t *row = a.overlay + (size_t)(in_y % own.down) * own.across;
    int column = in_x < 0 ? in_x : (int)((uint32_t)in_x % own.across);
    unrolled_for (int i = 0; i < PIXELS; i++) {
        if (in_x + i >= 0 && in_x + i < (int)own.width) {
            quad<1> over;
            over.words[0] = __ldg(row + column);
            composite_pixel(from.bytes + i * C, over.bytes, to->bytes + i * TO, C, TO);
        }
        column = column + 1 == across ? 0 : column + 1;
    }
}

template <int C, int TO> SIMT void put_quad(const composite_args &a, uint32_t x, uint32_t y)
{
    const struct composite &own = a.composite;
    const uint8_t *row = a.from + y * a.from_stride;
    uint32_t in_y = y - own.top; /* before the region it wraps: too large */
    quad<C> from;
    quad<TO> to;
    unrolled_for (int i = 0; i < C; i++)
        from.words[i] = row_get<uint32_t>(row, (int)(x * C) + 4 * i, a.width * C);
    copy_quad<C, TO>(&to, from);
    if (in_y < own.height && x + PIXELS > own.left && x < own.left + own.width)
        cover_quad<C, TO>(a, &to, from, x, in_y);
    unrolled_for (int i = 0; i < TO; i++)
        row_put(a.to + y * a.to_stride, (int)(x * TO) + 4 * i, a.width * TO, to.words[i]);
}

template <int C, int TO, int N>
static __global__ void __launch_bounds__(BLOCK_WIDTH *BLOCK_HEIGHT)
    composite_kernel(const __grid_constant__ several<composite_args, N> all)
{
    await_kernel_before();
    if (several_skips(all))
        return;
    const composite_args &a = several_own(all);
    uint32_t down = N == 1 ? gridDim.y : all.down[blockIdx.z];
    uint32_t x = (blockIdx.x * BLOCK_WIDTH + threadIdx.x) * PIXELS, rows = down * BLOCK_HEIGHT;
    if (x >= (uint32_t)a.width)
        return;
    for (uint32_t y = blockIdx.y * BLOCK_HEIGHT + threadIdx.y; y < (uint32_t)a.height; y += rows)
        put_quad<C, TO>(a, x, y);
}

static dim3 describe(const struct pass_call &call, composite_args *args)
{
    *args = pass_args<composite_args>(&call.from, &call.to);
    memcpy(&args->composite, call.pass->params, sizeof(args->composite));
    args->overlay = reinterpret_cast<const uint32_t *>(call.pass->constants);
    const unsigned width = BLOCK_WIDTH * PIXELS;
    unsigned down = (call.to.height + BLOCK_HEIGHT - 1) / BLOCK_HEIGHT;
    return dim3((call.to.width + width - 1) / width, down < GRID_DOWN_MAX ? down : GRID_DOWN_MAX);
}

template <int C, int TO>
static cudaError_t launch_composite(const struct pass_call *calls, uint32_t count,
                                    cudaStream_t stream)
{
    return launch_several<composite_args>(calls, count, describe, [&](const auto &all, dim3 grid) {
        constexpr int n = sizeof(all.of) / sizeof(all.of[0]);
        return launch_kernel(composite_kernel<C, TO, n>, grid, dim3(BLOCK_WIDTH, BLOCK_HEIGHT), 0,
                             stream, all);
    });
}

PASS_LAUNCHER_MANY(composite_cuda)
{
    if (calls->from.channels == 1 && calls->to.channels == 3)
        return launch_composite<1, 3>(calls, count, stream);
    return by_channels(calls->from.channels,
                       [&](auto c) { return launch_composite<c, c>(calls, count, stream); });
}
