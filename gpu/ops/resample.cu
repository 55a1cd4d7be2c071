/*
 * resample.cu - the passes of resample.h on the device: weighted means along rows or columns, and
 * sampling of the nearest pixel.
 *
 * Along rows, several lanes (`split`) share a pixel of the result if it has many weights, so that a
 * warp always reads neighbouring pixels. With split = 32 a warp computes one pixel of each row,
 * with split = 1 it computes 32. The weights are in shared memory and are used by eight warps with
 * four rows each. Along columns, a lane computes 4 bytes of a row, and all lanes of a warp use the
 * same weights.
 */
#include "gpu/ops/launch.cuh"
#include "gpu/ops/resample.h"

#define WARP 32
#define WARPS 8
#define THREADS (WARPS * WARP)
/* Rows per warp of resample_x_kernel, with the same weights. */
#define ROWS 4
#define X_WEIGHTS 4096

#define Y_WORDS 64
#define Y_ROWS 4
#define Y_WEIGHTS 512

#define HALF (1 << (RESAMPLE_BITS - 1))

struct resample_args : pass_images {
    int from_width, from_height;
    const int32_t *first, *weights;
    int taps;       /* weights per pixel of the result */
    int split_bits; /* log2 of the number of lanes per pixel of the result */
    int chunk;      /* weights per pixel of the result in shared memory at a time */
    int premultiply, divide;
};

SIMT uint32_t premultiply_pixel(uint32_t pixel)
{
    uint32_t alpha = pixel >> 24;
    return resample_premultiply(pixel & 255u, alpha) |
           resample_premultiply(pixel >> 8 & 255u, alpha) << 8 |
           resample_premultiply(pixel >> 16 & 255u, alpha) << 16 | alpha << 24;
}

SIMT uint32_t divide_pixel(uint32_t pixel)
{
    uint32_t alpha = pixel >> 24;
    return resample_divide(pixel & 255u, alpha) | resample_divide(pixel >> 8 & 255u, alpha) << 8 |
           resample_divide(pixel >> 16 & 255u, alpha) << 16 | alpha << 24;
}

template <int C>
SIMT void add_pixel(int32_t *sums, const uint8_t *pixel, int32_t weight, int premultiply)
{
    if constexpr (C == 4) {
        uint32_t word = __ldg(&word_at(pixel));
        if (premultiply)
            word = premultiply_pixel(word);
        unrolled_for (int c = 0; c < 4; c++)
            sums[c] += (int32_t)(word >> (8 * c) & 255u) * weight;
    } else {
        unrolled_for (int c = 0; c < C; c++)
            sums[c] += (int32_t)__ldg(pixel + c) * weight;
    }
}

template <int C> SIMT void store_pixel(uint8_t *to, const int32_t *sums, int divide)
{
    if constexpr (C == 4) {
        uint32_t word = resample_clip(sums[0]) | resample_clip(sums[1]) << 8 |
                        resample_clip(sums[2]) << 16 | resample_clip(sums[3]) << 24;
        word_at(to) = divide ? divide_pixel(word) : word;
    } else {
        unrolled_for (int c = 0; c < C; c++)
            to[c] = (uint8_t)resample_clip(sums[c]);
    }
}

/* Loads the weights t0..t0 + count - 1 of each of the block's outputs (pixels of a row of the
 * result) to shared memory. There the outputs are `pitch` words apart. */
SIMT void load_weights(int32_t *shared, const resample_args &a, int x0, int outputs, int t0,
                       int count, int pitch)
{
    for (int i = threadIdx.x; i < outputs * count; i += THREADS) {
        int output = i / count, t = i - output * count;
        if (x0 + output < a.width)
            shared[output * pitch + t] = __ldg(a.weights + (size_t)(x0 + output) * a.taps + t0 + t);
    }
}

template <int C, int N>
static __global__ void __launch_bounds__(THREADS)
    resample_x_kernel(const __grid_constant__ several<resample_args, N> all)
{
    await_kernel_before();
    if (several_skips(all))
        return;
    const resample_args &a = several_own(all);
    __shared__ int32_t shared[X_WEIGHTS + WARP];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int split = 1 << a.split_bits, outputs = WARP >> a.split_bits;
    int x0 = blockIdx.x * outputs, output = lane >> a.split_bits, part = lane & (split - 1);
    int x = min(x0 + output, a.width - 1), y0 = (blockIdx.y * WARPS + warp) * ROWS;
    int first = a.first[x], pitch = a.chunk | 1; /* odd, so that 32 outputs use 32 banks */
    const int32_t *own = shared + (x - x0) * pitch;
    const uint8_t *rows[ROWS];
    int32_t sums[ROWS][C];
    unrolled_for (int r = 0; r < ROWS; r++) {
        rows[r] = a.from + (size_t)min(y0 + r, a.height - 1) * a.from_stride;
        unrolled_for (int c = 0; c < C; c++)
            sums[r][c] = 0;
    }
    for (int t0 = 0; t0 < a.taps; t0 += a.chunk) {
        int count = min(a.chunk, a.taps - t0);
        if (t0 > 0)
            __syncthreads(); /* until all warps have used the previous weights */
        load_weights(shared, a, x0, outputs, t0, count, pitch);
        __syncthreads();
        /* Unrolled so that many loads are in flight: on an H200 their latency is the limit, and not
         * the arithmetic. */
#pragma unroll 4
        for (int t = part; t < count; t += split) {
            int32_t weight = own[t];
            /* Weights of 0 may belong to pixels beyond the row. */
            size_t at = (size_t)min(first + t0 + t, a.from_width - 1) * C;
            unrolled_for (int r = 0; r < ROWS; r++)
                add_pixel<C>(sums[r], rows[r] + at, weight, a.premultiply);
        }
    }
    unrolled_for (int r = 0; r < ROWS; r++) {
        unrolled_for (int c = 0; c < C; c++) {
            for (int distance = split / 2; distance > 0; distance /= 2)
                sums[r][c] += __shfl_xor_sync(0xFFFFFFFFu, sums[r][c], distance);
            sums[r][c] += HALF;
        }
        if (part == 0 && x0 + output < a.width && y0 + r < a.height)
            store_pixel<C>(a.to + (size_t)(y0 + r) * a.to_stride + (size_t)x * C, sums[r],
                           a.divide);
    }
}

/* from_width and width are in words, of which the last one may end in the padding. */
template <int N>
static __global__ void __launch_bounds__(Y_WORDS *Y_ROWS)
    resample_y_kernel(const __grid_constant__ several<resample_args, N> all)
{
    await_kernel_before();
    if (several_skips(all))
        return;
    const resample_args &a = several_own(all);
    __shared__ int32_t shared[Y_ROWS][Y_WEIGHTS];
    int word_x = blockIdx.x * Y_WORDS + threadIdx.x;
    int y = blockIdx.y * Y_ROWS + threadIdx.y, row_y = min(y, a.height - 1);
    int first = a.first[row_y];
    const int32_t *weights = a.weights + (size_t)row_y * a.taps;
    const uint8_t *column = a.from + (size_t)min(word_x, a.width - 1) * 4;
    int32_t sums[4] = {HALF, HALF, HALF, HALF};
    for (int t0 = 0; t0 < a.taps; t0 += Y_WEIGHTS) {
        int count = min(Y_WEIGHTS, a.taps - t0);
        if (t0 > 0)
            __syncthreads();
        for (int t = threadIdx.x; t < count; t += Y_WORDS)
            shared[threadIdx.y][t] = __ldg(weights + t0 + t);
        __syncthreads();
#pragma unroll 8
        for (int t = 0; t < count; t++) {
            size_t row = (size_t)min(first + t0 + t, a.from_height - 1);
            add_pixel<4>(sums, column + row * a.from_stride, shared[threadIdx.y][t], a.premultiply);
        }
    }
    if (word_x < a.width && y < a.height)
        store_pixel<4>(a.to + (size_t)y * a.to_stride + (size_t)word_x * 4, sums, a.divide);
}

/* first: columns; weights: rows. */
template <int C>
static __global__ void __launch_bounds__(Y_WORDS *Y_ROWS) pick_kernel(resample_args a)
{
    await_kernel_before();
    int offset = (blockIdx.x * Y_WORDS + threadIdx.x) * 4;
    int y = blockIdx.y * Y_ROWS + threadIdx.y;
    if (!row_holds<uint32_t>(offset, a.width * C) || y >= a.height)
        return;
    const uint8_t *row = a.from + (size_t)__ldg(a.weights + y) * a.from_stride;
    uint32_t word = 0;
    if constexpr (C == 4) {
        word = __ldg(&word_at(row) + __ldg(a.first + offset / 4));
    } else {
        unrolled_for (int k = 0; k < 4; k++) {
            int byte = min(offset + k, a.width * C - 1), x = byte / C;
            word |= (uint32_t)__ldg(row + (size_t)__ldg(a.first + x) * C + (byte - x * C))
                    << (8 * k);
        }
    }
    word_at(a.to + (size_t)y * a.to_stride + offset) = word;
}

/* The arguments of all passes in this file. The pass that picks nearest pixels has no struct
 * resample, so pass->params is not used here. */
static resample_args images_of(const struct pass *pass, const struct image *from,
                               const struct image *to)
{
    resample_args args = pass_args<resample_args>(from, to);
    args.from_width = (int)from->width;
    args.from_height = (int)from->height;
    args.first = reinterpret_cast<const int32_t *>(pass->constants);
    return args;
}

static resample_args args_of(const struct pass_call &call)
{
    const struct resample *resample =
        reinterpret_cast<const struct resample *>(call.pass->params);
    resample_args args = images_of(call.pass, &call.from, &call.to);
    args.from += (size_t)resample->skip * call.from.stride;
    args.taps = (int)resample->taps;
    args.premultiply = resample->premultiply;
    args.divide = resample->divide;
    return args;
}

static dim3 describe_x(const struct pass_call &call, resample_args *args)
{
    *args = args_of(call);
    args->weights = args->first + call.to.width;
    /* Lanes per output: at most the distance in pixels between two outputs, so that a warp reads
     * pixels without gaps. At most half of the weights, so that each lane adds several. */
    while (args->split_bits < 5 &&
           (2 << args->split_bits) * args->width <= args->from_width &&
           (4 << args->split_bits) <= args->taps)
        args->split_bits++;
    int outputs = WARP >> args->split_bits;
    args->chunk = min(args->taps, X_WEIGHTS / outputs);
    return dim3((unsigned)((args->width + outputs - 1) / outputs),
                (unsigned)((args->height + WARPS * ROWS - 1) / (WARPS * ROWS)));
}

template <int N>
static cudaError_t launch_x(const several<resample_args, N> &all, dim3 grid, uint32_t channels,
                            cudaStream_t stream)
{
    return by_channels(channels, [&](auto c) {
        return launch_kernel(resample_x_kernel<c, N>, grid, THREADS, 0, stream, all);
    });
}

PASS_LAUNCHER_MANY(resample_x_cuda)
{
    return launch_several<resample_args>(calls, count, describe_x, [&](const auto &all, dim3 grid) {
        return launch_x(all, grid, calls[0].from.channels, stream);
    });
}

static dim3 word_blocks(const struct image *to)
{
    unsigned words = (to->width * to->channels + 3) / 4;
    return dim3((words + Y_WORDS - 1) / Y_WORDS, (to->height + Y_ROWS - 1) / Y_ROWS);
}

static dim3 describe_y(const struct pass_call &call, resample_args *args)
{
    *args = args_of(call);
    args->weights = args->first + call.to.height;
    args->width = (int)((call.to.width * call.to.channels + 3) / 4);
    return word_blocks(&call.to);
}

template <int N>
static cudaError_t launch_y(const several<resample_args, N> &all, dim3 grid, cudaStream_t stream)
{
    return launch_kernel(resample_y_kernel<N>, grid, dim3(Y_WORDS, Y_ROWS), 0, stream, all);
}

PASS_LAUNCHER_MANY(resample_y_cuda)
{
    return launch_several<resample_args>(
        calls, count, describe_y,
        [&](const auto &all, dim3 grid) { return launch_y(all, grid, stream); });
}

PASS_LAUNCHER(pick_cuda)
{
    resample_args args = images_of(pass, from, to);
    dim3 threads(Y_WORDS, Y_ROWS), blocks = word_blocks(to);
    args.weights = args.first + to->width;
    return by_channels(from->channels, [&](auto c) {
        return launch_kernel(pick_kernel<c>, blocks, threads, 0, stream, args);
    });
}
