/*
 * attention.cu - the pass of attention.h: four launches clear the sums, add up the energy of lines,
 * choose the window, and copy it. Small images share launches.
 *
 * In the second launch, each block adds up the energy of 32 columns and 64 rows in shared memory.
 * In the third, one block sums the lines and compares all places of the window.
 */
#include "gpu/ops/attention.h"
#include "gpu/ops/launch.cuh"

#define COLUMNS 32
#define THREAD_ROWS 8
#define ROWS 64
#define CHOOSERS 1024
#define COPIERS 128
#define COPIED 4 /* bytes per thread */
#define CLEARERS    256

struct attention_args : pass_images {
    struct grayscale gray;
    bool down;
    unsigned long long *sums;
};

struct clear_args {
    unsigned long long *words;
    uint32_t count;
};

struct choose_args {
    struct attention_work *work;
    uint32_t length, window;
};

/* a.width: in bytes. step: the bytes from a line to the next. */
struct copy_args : pass_images {
    const struct attention_work *work;
    size_t step;
};

template <int N>
static __global__ void __launch_bounds__(CLEARERS)
    clear_kernel(const __grid_constant__ several<clear_args, N> all)
{
    await_kernel_before();
    const clear_args &a = several_own(all);
    uint32_t i = blockIdx.x * CLEARERS + threadIdx.x;
    if (i < a.count)
        a.words[i] = 0;
}

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
template <int C, int N>
static __global__ void __launch_bounds__(COLUMNS *THREAD_ROWS)
    energy_kernel(const __grid_constant__ several<attention_args, N> all)
{
    await_kernel_before();
    if (several_skips(all))
        return;
    const attention_args &a = several_own(all);
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

template <int N>
static __global__ void __launch_bounds__(CHOOSERS)
    choose_kernel(const __grid_constant__ several<choose_args, N> all)
{
    await_kernel_before();
    __shared__ uint64_t parts[2][CHOOSERS];
    __shared__ struct attention_place places[CHOOSERS];
    const choose_args &a = several_own(all);
    uint64_t *sums = a.work->sums;
    uint32_t i = threadIdx.x, room = a.length - a.window;
    sum_lines(sums, a.length, parts);
    struct attention_place best = {0, 0};
    for (uint32_t start = i; start <= room; start += CHOOSERS) {
        struct attention_place place = {sums[start + a.window] - sums[start], start};
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
        a.work->start = places[0].start;
}

template <int N>
static __global__ void __launch_bounds__(COPIERS)
    copy_kernel(const __grid_constant__ several<copy_args, N> all)
{
    await_kernel_before();
    if (several_skips(all))
        return;
    const copy_args &a = several_own(all);
    unsigned y = blockIdx.y;
    const uint8_t *from = a.from + a.work->start * a.step + y * a.from_stride;
    for (unsigned i = 0; i < COPIED; i++) {
        unsigned x = (blockIdx.x * COPIED + i) * COPIERS + threadIdx.x;
        if (x < (unsigned)a.width)
            a.to[y * a.to_stride + x] = from[x];
    }
}

/* ---- launches ---- */

static const struct attention *attention_of(const struct pass_call &call)
{
    return reinterpret_cast<const struct attention *>(call.pass->params);
}

static struct attention_work *work_of(const struct pass_call &call)
{
    return reinterpret_cast<struct attention_work *>(call.work);
}

static dim3 describe_clear(const struct pass_call &call, clear_args *args)
{
    uint32_t count = (uint32_t)(call.pass->work_bytes / sizeof(uint64_t));
    *args = {reinterpret_cast<unsigned long long *>(call.work), count};
    return dim3((count + CLEARERS - 1) / CLEARERS);
}

static dim3 describe_energy(const struct pass_call &call, attention_args *args)
{
    const struct image *from = &call.from;
    *args = pass_args<attention_args>(from, from);
    args->gray = attention_of(call)->gray;
    args->down = attention_of(call)->down;
    args->sums = reinterpret_cast<unsigned long long *>(work_of(call)->sums);
    return dim3((from->width + COLUMNS - 1) / COLUMNS, (from->height + ROWS - 1) / ROWS);
}

static dim3 describe_choice(const struct pass_call &call, choose_args *args)
{
    bool down = attention_of(call)->down;
    *args = {work_of(call), down ? call.from.height : call.from.width,
             down ? call.to.height : call.to.width};
    return dim3(1);
}

static dim3 describe_copy(const struct pass_call &call, copy_args *args)
{
    *args = pass_args<copy_args>(&call.from, &call.to);
    args->width = (int)(call.to.width * call.to.channels);
    args->work = work_of(call);
    args->step = attention_of(call)->down ? call.from.stride : call.from.channels;
    const unsigned bytes = COPIERS * COPIED;
    return dim3(((unsigned)args->width + bytes - 1) / bytes, call.to.height);
}

PASS_LAUNCHER_MANY(attention_cuda)
{
    cudaError_t error =
        launch_several<clear_args>(calls, count, describe_clear, [&](const auto &all, dim3 grid) {
            constexpr int n = sizeof(all.of) / sizeof(all.of[0]);
            return launch_kernel(clear_kernel<n>, grid, CLEARERS, 0, stream, all);
        });
    if (error == cudaSuccess)
        error = launch_several<attention_args>(
            calls, count, describe_energy, [&](const auto &all, dim3 grid) {
                constexpr int n = sizeof(all.of) / sizeof(all.of[0]);
                return by_channels(calls->from.channels, [&](auto c) {
                    return launch_kernel(energy_kernel<c, n>, grid, dim3(COLUMNS, THREAD_ROWS), 0,
                                         stream, all);
                });
            });
    if (error == cudaSuccess)
        error = launch_several<choose_args>(
            calls, count, describe_choice, [&](const auto &all, dim3 grid) {
                constexpr int n = sizeof(all.of) / sizeof(all.of[0]);
                return launch_kernel(choose_kernel<n>, grid, CHOOSERS, 0, stream, all);
            });
    if (error == cudaSuccess)
        error =
            launch_several<copy_args>(calls, count, describe_copy, [&](const auto &all, dim3 grid) {
                constexpr int n = sizeof(all.of) / sizeof(all.of[0]);
                return launch_kernel(copy_kernel<n>, grid, COPIERS, 0, stream, all);
            });
    return error;
}
