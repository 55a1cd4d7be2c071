/*
 * resample_y.cu - weighted means along columns, on the device (resample.cuh).
 *
 * A warp computes 16 rows of 32 bytes. Its columns are bytes, whatever the number of channels. A
 * lane loads words of four successive rows, and transposes them to four columns.
 */
#include "gpu/ops/resample.cuh"

#define ROWS  16
#define BYTES 32
/* Chunks whose weights are in shared memory at a time. */
#define CHUNKS 16

/* The weights of a tile for CHUNKS chunks. */
struct y_memory {
    uint4 weights[CHUNKS][DIGITS][WARP];
};

/* Loads the lane's words of a chunk of rows, of which those beyond the image have weights of 0. */
SIMT void y_load(uint32_t (&words)[8], const resample_args &a, const uint8_t *column, int row0)
{
    unrolled_for (int i = 0; i < 8; i++) {
        int row = min(row0 + i % 4 + i / 4 * 16, a.from_height - 1);
        words[i] = __ldg(&word_at(column + (size_t)row * a.from_stride));
    }
}

/* Adds a chunk to the sums of four columns. */
SIMT void y_add(digit_sums (&sums)[4], const uint32_t (&words)[8], const uint4 (*weights)[WARP],
                int lane, int premultiply)
{
    uint32_t columns[2][4];
    unrolled_for (int h = 0; h < 2; h++) {
        uint32_t rows[4];
        unrolled_for (int i = 0; i < 4; i++)
            rows[i] = premultiply ? premultiply_pixel(words[4 * h + i]) : words[4 * h + i];
        transpose(rows, columns[h]);
    }
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
    for (int i = threadIdx.x / WARP; i < chunks * 4; i += WARPS) {
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
    unrolled_for (int h = 0; h < 2; h++) {
        uint32_t words[2];
        unrolled_for (int k = 0; k < 2; k++) {
            int i = 2 * h + k;
            words[k] = pack_bytes(sums_join(sums[0], i), sums_join(sums[1], i),
                                  sums_join(sums[2], i), sums_join(sums[3], i));
            if (a.divide)
                words[k] = divide_pixel(words[k]);
        }
        if (y + 8 * h < a.height)
            row_put(a.to + (size_t)(y + 8 * h) * a.to_stride, x, a.width,
                    make_uint2(words[0], words[1]));
    }
}

/* width: of a row, in bytes. */
template <int N>
static __global__ void __launch_bounds__(THREADS, 2)
    resample_y_kernel(const __grid_constant__ several<resample_args, N> all)
{
    await_kernel_before();
    if (several_skips(all))
        return;
    const resample_args &a = several_own(all);
    __shared__ y_memory memory;
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int x0 = (blockIdx.x * WARPS + warp) * BYTES, y0 = blockIdx.y * ROWS;
    int start = __ldg(a.first + y0), row0 = start + lane % 4 * 4;
    int end = band_end(a, y0 + ROWS - 1, a.height, a.from_height);
    int chunks = (end - start + CHUNK - 1) / CHUNK;
    /* Words at the right end may be padding. */
    const uint8_t *column = a.from + min(x0 + lane / 4 * 4, (a.width - 1) / 4 * 4);
    digit_sums sums[4];
    uint32_t words[2][8];
    unrolled_for (int j = 0; j < 4; j++)
        sums_clear(sums[j]);
    for (int chunk0 = 0; chunk0 < chunks; chunk0 += CHUNKS) {
        int count = min(chunks - chunk0, CHUNKS), row = row0 + chunk0 * CHUNK;
        y_load(words[0], a, column, row);
        y_load(words[1], a, column, row + CHUNK);
        __syncthreads();
        y_prepare(memory, a, y0, start + chunk0 * CHUNK, count);
        __syncthreads();
        for (int chunk = 0; chunk < count; chunk += 2) {
            unrolled_for (int k = 0; k < 2; k++) {
                if (chunk + k < count)
                    y_add(sums, words[k], memory.weights[chunk + k], lane, a.premultiply);
                if (chunk + k + 2 < count)
                    y_load(words[k], a, column, row + (chunk + k + 2) * CHUNK);
            }
        }
    }
    y_finish(a, sums, x0 + lane % 4 * 8, y0 + lane / 4);
}

static dim3 describe_y(const struct pass_call &call, resample_args *args)
{
    constexpr int bytes = WARPS * BYTES;
    *args = resample_args_of(call, call.to.height);
    args->width = (int)(call.to.width * call.to.channels);
    return dim3((unsigned)(args->width + bytes - 1) / bytes,
                (unsigned)(args->height + ROWS - 1) / ROWS);
}

template <int N>
static cudaError_t launch_y(const several<resample_args, N> &all, dim3 grid, cudaStream_t stream)
{
    return launch_kernel(resample_y_kernel<N>, grid, THREADS, 0, stream, all);
}

PASS_LAUNCHER_MANY(resample_y_cuda)
{
    return launch_several<resample_args>(calls, count, describe_y, [&](const auto &all, dim3 grid) {
        return launch_y(all, grid, stream);
    });
}
