/*
 * deep.cu - the passes of deep.h on the device. A thread computes a pixel, or of a conversion a
 * sample; neighbouring threads have neighbouring columns of the result.
 */
#include "gpu/ops/deep.h"
#include "gpu/ops/launch.cuh"
#include "gpu/ops/orient.h"
#include "gpu/ops/pad.h"
#include "gpu/ops/resample.h"

#define ACROSS 32
#define DOWN   8

struct deep_args : pass_images {
    int from_width, from_height;
    const int32_t *table;
    int taps, skip;
    int left, top;
    uint16_t fill[4];
    bool swap, flip_x, flip_y, premultiply, divide, widens;
};

struct position {
    int x, y;
};

SIMT position own_position()
{
    return {(int)(blockIdx.x * ACROSS + threadIdx.x), (int)(blockIdx.y * DOWN + threadIdx.y)};
}

SIMT const uint16_t *from_row(const deep_args &a, int y)
{
    return reinterpret_cast<const uint16_t *>(a.from + (size_t)y * a.from_stride);
}

SIMT uint16_t *to_row(const deep_args &a, int y)
{
    return reinterpret_cast<uint16_t *>(a.to + (size_t)y * a.to_stride);
}

template <int C> SIMT void copy_pixel(const uint16_t *from, uint16_t *to)
{
    unrolled_for (int c = 0; c < C; c++)
        to[c] = from[c];
}

/* x and a.width count samples. */
static __global__ void __launch_bounds__(ACROSS *DOWN) deep_convert_kernel(deep_args a)
{
    await_kernel_before();
    position at = own_position();
    if (at.x >= a.width || at.y >= a.height)
        return;
    if (a.widens)
        to_row(a, at.y)[at.x] =
            (uint16_t)deep_widen(a.from[(size_t)at.y * a.from_stride + (size_t)at.x]);
    else
        a.to[(size_t)at.y * a.to_stride + (size_t)at.x] =
            (uint8_t)deep_narrow(from_row(a, at.y)[at.x]);
}

template <int C>
static __global__ void __launch_bounds__(ACROSS *DOWN) deep_orient_kernel(deep_args a)
{
    await_kernel_before();
    position at = own_position();
    if (at.x >= a.width || at.y >= a.height)
        return;
    int column = a.swap ? at.y : at.x, row = a.swap ? at.x : at.y;
    column = a.flip_x ? a.from_width - 1 - column : column;
    row = a.flip_y ? a.from_height - 1 - row : row;
    copy_pixel<C>(from_row(a, row) + (size_t)column * C, to_row(a, at.y) + (size_t)at.x * C);
}

template <int FROM, int TO>
static __global__ void __launch_bounds__(ACROSS *DOWN) deep_pad_kernel(deep_args a)
{
    await_kernel_before();
    position at = own_position();
    if (at.x >= a.width || at.y >= a.height)
        return;
    int column = at.x - a.left, row = at.y - a.top;
    uint16_t pixel[4] = {a.fill[0], a.fill[1], a.fill[2], a.fill[3]};
    if (column >= 0 && column < a.from_width && row >= 0 && row < a.from_height) {
        const uint16_t *source = from_row(a, row) + (size_t)column * FROM;
        unrolled_for (int c = 0; c < 4; c++)
            pixel[c] = c < FROM ? source[c] : c == 3 ? (uint16_t)DEEP_MAX : source[0];
    }
    copy_pixel<TO>(pixel, to_row(a, at.y) + (size_t)at.x * TO);
}

template <int C>
static __global__ void __launch_bounds__(ACROSS *DOWN) deep_pick_kernel(deep_args a)
{
    await_kernel_before();
    position at = own_position();
    if (at.x >= a.width || at.y >= a.height)
        return;
    int column = a.table[at.x], row = a.table[a.width + at.y];
    copy_pixel<C>(from_row(a, row) + (size_t)column * C, to_row(a, at.y) + (size_t)at.x * C);
}

/* Adds a pixel times its weight, after a multiplication by alpha. */
template <int C>
SIMT void add_pixel(const deep_args &a, const uint16_t *pixel, int32_t weight, int64_t (&sums)[C])
{
    unrolled_for (int c = 0; c < C; c++) {
        uint32_t value = pixel[c];
        if (C == 4 && c < 3 && a.premultiply)
            value = deep_premultiply(value, pixel[C - 1]);
        sums[c] += (int64_t)weight * (int64_t)value;
    }
}

template <int C> SIMT void put_sums(const deep_args &a, const int64_t (&sums)[C], uint16_t *to)
{
    uint16_t pixel[C];
    unrolled_for (int c = 0; c < C; c++)
        pixel[c] = deep_clip(sums[c]);
    if constexpr (C == 4)
        if (a.divide)
            unrolled_for (int c = 0; c < 3; c++)
                pixel[c] = (uint16_t)deep_divide(pixel[c], pixel[3]);
    copy_pixel<C>(pixel, to);
}

/* The weights of pixel `index` of the result, and their number without padding. */
struct tap_list {
    const int32_t *weights;
    int first, count;
};

SIMT tap_list taps_of(const deep_args &a, int index, int outputs, int length)
{
    int first = a.table[index];
    return {a.table + outputs + (size_t)index * a.taps, first, min(a.taps, length - first)};
}

template <int C> static __global__ void __launch_bounds__(ACROSS *DOWN) deep_x_kernel(deep_args a)
{
    await_kernel_before();
    position at = own_position();
    if (at.x >= a.width || at.y >= a.height)
        return;
    tap_list taps = taps_of(a, at.x, a.width, a.from_width);
    const uint16_t *pixel = from_row(a, at.y + a.skip) + (size_t)taps.first * C;
    int64_t sums[C] = {};
    for (int t = 0; t < taps.count; t++, pixel += C)
        add_pixel<C>(a, pixel, taps.weights[t], sums);
    put_sums<C>(a, sums, to_row(a, at.y) + (size_t)at.x * C);
}

template <int C> static __global__ void __launch_bounds__(ACROSS *DOWN) deep_y_kernel(deep_args a)
{
    await_kernel_before();
    position at = own_position();
    if (at.x >= a.width || at.y >= a.height)
        return;
    tap_list taps = taps_of(a, at.y, a.height, a.from_height);
    int64_t sums[C] = {};
    for (int t = 0; t < taps.count; t++)
        add_pixel<C>(a, from_row(a, taps.first + t) + (size_t)at.x * C, taps.weights[t], sums);
    put_sums<C>(a, sums, to_row(a, at.y) + (size_t)at.x * C);
}

/* ---- launchers ---- */

static deep_args args_of(const struct image *from, const struct image *to)
{
    deep_args args = pass_args<deep_args>(from, to);
    args.from_width = (int)from->width;
    args.from_height = (int)from->height;
    return args;
}

static cudaError_t launch(void (*kernel)(deep_args), const deep_args &args, cudaStream_t stream)
{
    dim3 blocks((unsigned)(args.width + ACROSS - 1) / ACROSS,
                (unsigned)(args.height + DOWN - 1) / DOWN);
    return launch_kernel(kernel, blocks, dim3(ACROSS, DOWN), 0, stream, args);
}

PASS_LAUNCHER(deep_convert_cuda)
{
    deep_args args = args_of(from, to);
    args.width *= (int)image_samples(to->channels);
    args.widens = image_is_deep(to->channels);
    return launch(deep_convert_kernel, args, stream);
}

PASS_LAUNCHER(deep_orient_cuda)
{
    const struct orient *orient = reinterpret_cast<const struct orient *>(pass->params);
    deep_args args = args_of(from, to);
    args.swap = orient->swap;
    args.flip_x = orient->flip_x;
    args.flip_y = orient->flip_y;
    return by_channels(image_samples(to->channels),
                       [&](auto c) { return launch(deep_orient_kernel<c>, args, stream); });
}

PASS_LAUNCHER(deep_pad_cuda)
{
    const struct pad *pad = reinterpret_cast<const struct pad *>(pass->params);
    uint32_t own = image_samples(from->channels), samples = image_samples(to->channels);
    deep_args args = args_of(from, to);
    args.left = (int)pad->left;
    args.top = (int)pad->top;
    for (int c = 0; c < 4; c++)
        args.fill[c] = (uint16_t)deep_widen(pad->fill[c]);
    if (own == samples)
        return by_channels(samples,
                           [&](auto c) { return launch(deep_pad_kernel<c, c>, args, stream); });
    return launch(own == 3       ? deep_pad_kernel<3, 4>
                  : samples == 3 ? deep_pad_kernel<1, 3>
                                 : deep_pad_kernel<1, 4>,
                  args, stream);
}

/* The arguments of a pass with tables. */
static deep_args table_args(const struct pass *pass, const struct image *from,
                            const struct image *to)
{
    deep_args args = args_of(from, to);
    args.table = reinterpret_cast<const int32_t *>(pass->constants);
    return args;
}

static deep_args resample_args(const struct pass *pass, const struct image *from,
                               const struct image *to)
{
    const struct resample *resample = reinterpret_cast<const struct resample *>(pass->params);
    deep_args args = table_args(pass, from, to);
    args.taps = (int)resample->taps;
    args.skip = (int)resample->skip;
    args.premultiply = resample->premultiply;
    args.divide = resample->divide;
    return args;
}

PASS_LAUNCHER(deep_pick_cuda)
{
    deep_args args = table_args(pass, from, to);
    return by_channels(image_samples(to->channels),
                       [&](auto c) { return launch(deep_pick_kernel<c>, args, stream); });
}

PASS_LAUNCHER(deep_x_cuda)
{
    deep_args args = resample_args(pass, from, to);
    return by_channels(image_samples(to->channels),
                       [&](auto c) { return launch(deep_x_kernel<c>, args, stream); });
}

PASS_LAUNCHER(deep_y_cuda)
{
    deep_args args = resample_args(pass, from, to);
    return by_channels(image_samples(to->channels),
                       [&](auto c) { return launch(deep_y_kernel<c>, args, stream); });
}
