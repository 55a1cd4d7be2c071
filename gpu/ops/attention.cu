/*
 * attention.cu - the pass of attention.h: three launches add up the energy of lines, choose the
 * window, and copy it.
 *
 * In the first launch, each block adds up the energy of 32 columns and 64 rows in shared memory. In
 * the second, one block sums the lines and compares all places of the window.
 */
#include "gpu/ops/attention.h"
#include "gpu/ops/launch.cuh"

#define COLUMNS 32
#define THREAD_ROWS 8
#define ROWS 64
#define CHOOSERS 1024
#define COPIERS 128
#define COPIED 4 /* bytes per thread */

struct attention_args : pass_images {
    struct grayscale gray;
    bool down;
    unsigned long long *sums;
};

template <int C> SIMT uint8_t gray_at(const attention_args &a, int x, int y)
{
    const uint8_t *pixel = a.from + (size_t)y * a.from_stride + (size_t)x * C;
    if constexpr (C == 1) {
        return pixel[0];
    } else {
        uint32_t rgb[3];
        unrolled_for (int c = 0; c < 3; c++)
            rgb[c] = C == 4 ? flatten_byte(pixel[c], pixel[C - 1], a.gray.background[c]) : pixel[c];
        return (uint8_t)grayscale_rgb(rgb[0], rgb[1], rgb[2], a.gray.r, a.gray.g, a.gray.b);
    }
}

template <int C> SIMT uint32_t energy_at(const attention_args &a, int x, int y)
{
    uint8_t rows[3][3];
    unrolled_for (int j = 0; j < 3; j++)
        unrolled_for (int i = 0; i < 3; i++)
            rows[j][i] = gray_at<C>(a, sobel_inside(x + i - 1, a.width, BORDER_REFLECT101),
                                    sobel_inside(y + j - 1, a.height, BORDER_REFLECT101));
    return attention_energy(rows[0], rows[1], rows[2], 0, 1, 2);
}

/* a.width, a.height: of the source. */
template <int C>
static __global__ void __launch_bounds__(COLUMNS *THREAD_ROWS)
    energy_kernel(const __grid_constant__ attention_args a)
{
    await_kernel_before();
    __shared__ unsigned lines[ROWS > COLUMNS ? ROWS : COLUMNS];
    int x = blockIdx.x * COLUMNS + threadIdx.x, first = blockIdx.y * ROWS;
    int number = threadIdx.y * COLUMNS + threadIdx.x, count = a.down ? ROWS : COLUMNS;
    if (number < count)
        lines[number] = 0;
    __syncthreads();
    for (int row = threadIdx.y; row < ROWS; row += THREAD_ROWS)
        if (x < a.width && first + row < a.height)
            atomicAdd(&lines[a.down ? row : threadIdx.x], energy_at<C>(a, x, first + row));
    __syncthreads();
    int line = (a.down ? first : (int)(blockIdx.x * COLUMNS)) + number;
    if (number < count && line < (a.down ? a.height : a.width))
        atomicAdd(&a.sums[line], (unsigned long long)lines[number]);
}

/* Replaces each line's sum by the sum of all lines before it. Each thread has a part of the
 * lines. */
SIMT void sum_lines(uint64_t *sums, uint32_t length, uint64_t (*parts)[CHOOSERS])
{
    uint32_t share = (length + CHOOSERS - 1) / CHOOSERS, i = threadIdx.x;
    uint32_t first = min(i * share, length), end = min(first + share, length);
    uint64_t total = 0;
    int side = 0;
    for (uint32_t k = first; k < end; k++)
        total += sums[k];
    parts[0][i] = total;
    __syncthreads();
    for (uint32_t step = 1; step < CHOOSERS; step *= 2) {
        parts[1 - side][i] = parts[side][i] + (i >= step ? parts[side][i - step] : 0);
        side = 1 - side;
        __syncthreads();
    }
    uint64_t before = parts[side][i] - total;
    for (uint32_t k = first; k < end; k++) {
        uint64_t own = sums[k];
        sums[k] = before;
        before += own;
    }
    if (i == CHOOSERS - 1)
        sums[length] = parts[side][i];
    __syncthreads();
}

static __global__ void __launch_bounds__(CHOOSERS)
    choose_kernel(struct attention_work *work, uint32_t length, uint32_t window)
{
    await_kernel_before();
    __shared__ uint64_t parts[2][CHOOSERS];
    __shared__ struct attention_place places[CHOOSERS];
    uint32_t i = threadIdx.x, room = length - window;
    sum_lines(work->sums, length, parts);
    struct attention_place best = {0, 0};
    for (uint32_t start = i; start <= room; start += CHOOSERS) {
        struct attention_place place = {work->sums[start + window] - work->sums[start], start};
        if (start == i || attention_better(&place, &best, room))
            best = place;
    }
    places[i] = best;
    for (uint32_t step = CHOOSERS / 2; step > 0; step /= 2) {
        __syncthreads();
        if (i < step && i + step <= room && attention_better(&places[i + step], &places[i], room))
            places[i] = places[i + step];
    }
    if (i == 0)
        work->start = places[0].start;
}

static __global__ void __launch_bounds__(COPIERS)
    copy_kernel(pass_images a, bool down, unsigned channels, const struct attention_work *work)
{
    await_kernel_before();
    unsigned row_bytes = a.width * channels, y = blockIdx.y;
    const uint8_t *from = a.from + work->start * (down ? a.from_stride : channels) +
                          y * a.from_stride;
    for (unsigned i = 0; i < COPIED; i++) {
        unsigned x = (blockIdx.x * COPIED + i) * COPIERS + threadIdx.x;
        if (x < row_bytes)
            a.to[y * a.to_stride + x] = from[x];
    }
}

PASS_LAUNCHER(attention_cuda)
{
    const struct attention *own = reinterpret_cast<const struct attention *>(pass->params);
    struct attention_work *out = reinterpret_cast<struct attention_work *>(work);
    attention_args args = pass_args<attention_args>(from, from);
    args.gray = own->gray;
    args.down = own->down;
    args.sums = reinterpret_cast<unsigned long long *>(out->sums);
    cudaError_t error = cudaMemsetAsync(work, 0, pass->work_bytes, stream);
    if (error != cudaSuccess)
        return error;
    dim3 tiles((from->width + COLUMNS - 1) / COLUMNS, (from->height + ROWS - 1) / ROWS);
    error = by_channels(from->channels, [&](auto c) {
        return launch_kernel(energy_kernel<c>, tiles, dim3(COLUMNS, THREAD_ROWS), 0, stream, args);
    });
    if (error == cudaSuccess)
        error = launch_kernel(choose_kernel, 1, CHOOSERS, 0, stream, out,
                              own->down ? from->height : from->width,
                              own->down ? to->height : to->width);
    if (error != cudaSuccess)
        return error;
    dim3 blocks((to->width * to->channels + COPIERS * COPIED - 1) / (COPIERS * COPIED), to->height);
    return launch_kernel(copy_kernel, blocks, COPIERS, 0, stream, pass_args<pass_images>(from, to),
                         own->down, to->channels, out);
}
