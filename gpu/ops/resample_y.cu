/*
 * resample_y.cu - weighted means along columns, on the device (resample.cuh).
 *
 * A warp computes 16 rows of 32 bytes, one or several times with the same weights. Its columns are
 * bytes, for any number of channels. A lane loads words of four successive rows, and
 * transposes them to four columns.
 */
#include <math.h>

#include "gpu/ops/resample.cuh"

#define Y_WARPS 8
#define ROWS    16
#define BYTES   32
/* Chunks whose weights are in shared memory at a time. */
#define CHUNKS 16
/* That a multiprocessor runs at the same time. */
#define BLOCKS 2

/* The weights of a tile for CHUNKS chunks. */
struct y_memory {
    uint4 weights[CHUNKS][DIGITS][WARP];
};

/* What a lane loads next: words of a chunk of rows, from this byte of the row on. */
struct y_place {
    int x, chunk;
};

/* Loads a chunk of which the lane has rows from row0 on, and moves to the next one. Rows beyond the
 * image have weights of 0, and words at the right end may be padding. */
SIMT void y_load(uint32_t (&words)[8], const resample_args &a, y_place &place, int row0, int chunks)
{
    uint32_t x = (uint32_t)min(place.x, (a.width - 1) / 4 * 4), stride = (uint32_t)a.from_stride;
    row0 += place.chunk * CHUNK;
    if (++place.chunk == chunks)
        place = {place.x + Y_WARPS * BYTES, 0};
    unrolled_for (int i = 0; i < 8; i++) {
        int row = min(row0 + i % 4 + i / 4 * 16, a.from_height - 1);
        words[i] = __ldg(&word_at(a.from + ((uint32_t)row * stride + x)));
    }
}

/* Adds a chunk to the sums of four columns. */
SIMT void y_add(digit_sums (&sums)[4], const uint32_t (&words)[8], const uint4 (*weights)[WARP],
                int lane, int premultiply)
{
    uint32_t rows[2][4], columns[2][4];
    unrolled_for (int i = 0; i < 8; i++)
        rows[i / 4][i % 4] = words[i];
    if (premultiply)
        unrolled_for (int i = 0; i < 8; i++)
            rows[i / 4][i % 4] = premultiply_pixel(words[i]);
    transpose(rows[0], columns[0]);
    transpose(rows[1], columns[1]);
    unrolled_for (int d = 0; d < DIGITS; d++) {
        uint4 own = weights[d][lane];
        unrolled_for (int j = 0; j < 4; j++)
            mma_weights(sums[j][d], own, columns[0][j], columns[1][j]);
    }
}

/* Fills in the weights of rows y0 to y0 + 15 of the result, from this pixel of the source on. */
SIMT void y_prepare(y_memory &memory, const resample_args &a, int y0, int start, int chunks)
{
    int lane = threadIdx.x % WARP;
#pragma unroll 2
    for (int i = threadIdx.x / WARP; i < chunks * 4; i += Y_WARPS) {
        int chunk = i / 4, r = i % 4;
        band band = band_of(a, a.height, y0 + lane / 4 + r % 2 * 8);
        uint3 digits = digits_of_four<2>(band, start + chunk * CHUNK + lane % 4 * 4 + r / 2 * 16);
        uint32_t *to = reinterpret_cast<uint32_t *>(&memory.weights[chunk][0][lane]) + r;
        to[0] = digits.x;
        to[WARP * 4] = digits.y;
        to[WARP * 8] = digits.z;
    }
}

/* Writes 8 bytes of rows lane / 4 and lane / 4 + 8. */
SIMT void y_finish(const resample_args &a, const digit_sums (&sums)[4], int x, int y)
{
    uint32_t words[4];
    unrolled_for (int i = 0; i < 4; i++)
        words[i] = pack_bytes(sums_join(sums[0], i), sums_join(sums[1], i), sums_join(sums[2], i),
                              sums_join(sums[3], i));
    if (a.divide)
        unrolled_for (int i = 0; i < 4; i++)
            words[i] = divide_pixel(words[i]);
    unrolled_for (int h = 0; h < 2; h++)
        if (y + 8 * h < a.height)
            row_put(a.to + (size_t)(y + 8 * h) * a.to_stride, x, a.width,
                    make_uint2(words[2 * h], words[2 * h + 1]));
}

/* width: of a row, in bytes. */
template <int N>
static __global__ void __launch_bounds__((Y_WARPS * WARP), BLOCKS)
    resample_y_kernel(const __grid_constant__ several<resample_args, N> all)
{
    await_kernel_before();
    if (several_skips(all))
        return;
    const resample_args &a = several_own(all);
    __shared__ y_memory memory;
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int x0 = (blockIdx.x * a.strip * Y_WARPS + warp) * BYTES, y0 = blockIdx.y * ROWS;
    int start = __ldg(a.first + y0);
    int end = band_end(a, y0 + ROWS - 1, a.height, a.from_height);
    int chunks = (end - start + CHUNK - 1) / CHUNK;
    /* With more than one tile, all chunks of a tile are in the first part. */
    int tiles = chunks > CHUNKS ? 1 : min(a.strip, (a.width - x0 - 1) / (Y_WARPS * BYTES) + 1);
    digit_sums sums[4];
    uint32_t words[2][8];
    unrolled_for (int j = 0; j < 4; j++)
        sums_clear(sums[j]);
    for (int chunk0 = 0; chunk0 < chunks; chunk0 += CHUNKS) {
        int count = min(chunks - chunk0, CHUNKS), row0 = start + chunk0 * CHUNK + lane % 4 * 4;
        y_place place = {x0 + lane / 4 * 4, 0};
        y_load(words[0], a, place, row0, count);
        y_load(words[1], a, place, row0, count);
        __syncthreads();
        y_prepare(memory, a, y0, start + chunk0 * CHUNK, count);
        __syncthreads();
        int x = x0, chunk = 0;
        for (int left = tiles * count; left > 0; left -= 2) {
            unrolled_for (int k = 0; k < 2; k++) {
                if (k < left) {
                    y_add(sums, words[k], memory.weights[chunk], lane, a.premultiply);
                    chunk++;
                }
                if (k + 2 < left)
                    y_load(words[k], a, place, row0, count);
                if (chunk == count && chunk0 + count == chunks) {
                    y_finish(a, sums, x + lane % 4 * 8, y0 + lane / 4);
                    unrolled_for (int j = 0; j < 4; j++)
                        sums_clear(sums[j]);
                    x += Y_WARPS * BYTES;
                    chunk = 0;
                }
            }
        }
    }
}

/* The tiles per warp with which a launch ends first. layers: blocks per column of tiles. A block
 * takes about as long to start as for six chunks. */
static int y_strip(const resample_args &a, unsigned places, double scale, unsigned layers)
{
    constexpr double start = 6;
    int chunks = ((int)ceil(scale * (ROWS - 1)) + a.reach + CHUNK) / CHUNK, best = 1;
    unsigned columns = (unsigned)(a.width + Y_WARPS * BYTES - 1) / (Y_WARPS * BYTES);
    double least = INFINITY;
    for (unsigned strip = 1; strip <= columns && chunks <= CHUNKS; strip++) {
        unsigned blocks = (columns + strip - 1) / strip * layers;
        double time = launch_time(blocks, places, start + strip * (chunks + 1));
        best = time < least ? (int)strip : best;
        least = time < least ? time : least;
    }
    return best;
}

/* images: of the launch. */
static dim3 describe_y(const struct pass_call &call, unsigned places, unsigned images,
                       resample_args *args)
{
    *args = resample_args_of(call, call.to.height);
    args->width = (int)(call.to.width * call.to.channels);
    unsigned down = (unsigned)(args->height + ROWS - 1) / ROWS;
    args->strip = y_strip(*args, places, resample_of(call)->scale, down * images);
    unsigned bytes = (unsigned)args->strip * Y_WARPS * BYTES;
    return dim3(((unsigned)args->width + bytes - 1) / bytes, down);
}

template <int N>
static cudaError_t launch_y(const several<resample_args, N> &all, dim3 grid, cudaStream_t stream)
{
    return launch_kernel(resample_y_kernel<N>, grid, (Y_WARPS * WARP), 0, stream, all);
}

PASS_LAUNCHER_MANY(resample_y_cuda)
{
    unsigned places = launch_places(BLOCKS);
    auto describe = [&](const struct pass_call &call, resample_args *args) {
        return describe_y(call, places, count, args);
    };
    return launch_several<resample_args>(calls, count, describe, [&](const auto &all, dim3 grid) {
        return launch_y(all, grid, stream);
    });
}
