/*
 * gray_table.cu - the passes of gray_table.h (equalize and otsu) on the device, in three launches:
 * count the values, compute a table from the counts, look up each pixel in the table.
 *
 * One block computes the table, with a thread per value. For the lookups, shared memory holds 32
 * copies of the table, 8 KiB in all: one in each bank of the memory. Each lane reads its own copy,
 * and the 32 reads of a warp never conflict.
 */
#include "gpu/ops/gray_table.h"
#include "gpu/ops/rows.cuh"

static __global__ void __launch_bounds__(HISTOGRAM_BINS)
    equalize_kernel(struct gray_table *work, uint32_t pixels)
{
    await_kernel_before();
    __shared__ uint32_t sums[2][HISTOGRAM_BINS];
    __shared__ int first;
    __shared__ uint32_t first_count;
    int i = threadIdx.x, side = 0;
    uint32_t count = work->counts[i];
    sums[0][i] = count;
    __syncthreads();
    for (int step = 1; step < HISTOGRAM_BINS; step *= 2) {
        sums[1 - side][i] = sums[side][i] + (i >= step ? sums[side][i - step] : 0);
        side = 1 - side;
        __syncthreads();
    }
    uint32_t sum = sums[side][i];
    if (count > 0 && sum == count) {
        first = i;
        first_count = count;
    }
    __syncthreads();
    if (first_count == pixels || i <= first)
        work->table[i] = first_count == pixels && i == first ? (uint8_t)i : 0;
    else
        work->table[i] = equalize_entry(sum - first_count, equalize_scale(pixels - first_count));
}

/*
 * ---- otsu ----
 *
 * The mean of the class for each threshold is computed from the mean for the threshold before.
 * Another order would round differently, so a single thread computes all means. All threads compute
 * the shares and reciprocals that it needs, and afterwards the variances.
 */

/* The thread that computes alone loads this many values before it needs them: the compiler does not
 * move loads before the stores of earlier values. */
#define OTSU_AHEAD 8

/* a / b, correctly rounded, from the correctly rounded 1 / b, in two steps (P. Markstein,
 * Computation of Elementary Functions on the IBM RISC System/6000 Processor, 1990). This takes a
 * fourth of the time of a division. Operands must not be near overflow or underflow. */
SIMT double divide(double a, double b, double one_over_b)
{
    double q = a * one_over_b;
    q = __fma_rn(__fma_rn(-b, q, a), one_over_b, q);
    return __fma_rn(__fma_rn(-b, q, a), one_over_b, q);
}

static __global__ void __launch_bounds__(HISTOGRAM_BINS)
    otsu_kernel(struct gray_table *work, uint32_t pixels)
{
    await_kernel_before();
    __shared__ double share[HISTOGRAM_BINS], q1[HISTOGRAM_BINS], mu1[HISTOGRAM_BINS];
    __shared__ double over_q1[HISTOGRAM_BINS], part[HISTOGRAM_BINS]; /* part: of the moment */
    __shared__ double sigma[HISTOGRAM_BINS];
    __shared__ int best[HISTOGRAM_BINS];
    __shared__ unsigned long long moment;
    int i = threadIdx.x;
    uint32_t count = work->counts[i];
    double scale = 1.0 / (double)pixels;
    if (i == 0)
        moment = 0;
    share[i] = (double)count * scale;
    part[i] = (double)i * share[i];
    __syncthreads();
    atomicAdd(&moment, (unsigned long long)count * i);
    if (i == 0) {
        double q = 0;
        for (int k = 0; k < HISTOGRAM_BINS; k += OTSU_AHEAD) {
            double shares[OTSU_AHEAD];
            unrolled_for (int m = 0; m < OTSU_AHEAD; m++)
                shares[m] = share[k + m];
            unrolled_for (int m = 0; m < OTSU_AHEAD; m++)
                q1[k + m] = q += shares[m];
        }
    }
    __syncthreads();
    bool parted = otsu_parted(q1[i]);
    over_q1[i] = parted ? 1.0 / q1[i] : 0.0; /* 0: not a valid threshold */
    __syncthreads();
    if (i == 0) {
        double q = 0, mu = 0;
        for (int k = 0; k < HISTOGRAM_BINS; k += OTSU_AHEAD) {
            double sums[OTSU_AHEAD], parts[OTSU_AHEAD], overs[OTSU_AHEAD];
            unrolled_for (int m = 0; m < OTSU_AHEAD; m++) {
                sums[m] = q1[k + m];
                parts[m] = part[k + m];
                overs[m] = over_q1[k + m];
            }
            unrolled_for (int m = 0; m < OTSU_AHEAD; m++) {
                mu *= q;
                q = sums[m];
                double next = divide(mu + parts[m], q, overs[m]);
                mu = overs[m] > 0 ? next : mu;
                mu1[k + m] = mu;
            }
        }
    }
    __syncthreads();
    sigma[i] = parted ? otsu_sigma(q1[i], mu1[i], (double)moment * scale) : 0.0;
    best[i] = i;
    /* Find the largest variance, and the first threshold with it. */
    for (int step = HISTOGRAM_BINS / 2; step > 0; step /= 2) {
        __syncthreads();
        if (i < step) {
            double a = sigma[i], b = sigma[i + step];
            if (b > a || (b == a && best[i + step] < best[i])) {
                sigma[i] = b;
                best[i] = best[i + step];
            }
        }
    }
    __syncthreads();
    int threshold = sigma[0] > 0 ? best[0] : 0;
    work->table[i] = i > threshold ? 255 : 0;
    if (i == 0)
        work->threshold = (uint32_t)threshold;
}

/* ---- looking up ---- */

/* Each word of the table (four entries) is repeated 32 times, once per bank and lane. */
SIMT uint32_t bank_look_up(const uint8_t *own, uint32_t value)
{
    return own[(value & 252u) * WARP + (value & 3u)];
}

SIMT uint32_t bank_look_up_four(const uint8_t *own, uint32_t four)
{
    return bank_look_up(own, four & 255u) | bank_look_up(own, four >> 8 & 255u) << 8 |
           bank_look_up(own, four >> 16 & 255u) << 16 | bank_look_up(own, four >> 24) << 24;
}

/* `from` may be `to`: each lane overwrites only pixels that it has read. */
static __global__ void __launch_bounds__(SWEEP_THREADS)
    look_up_kernel(row_stretches a, const uint8_t *table)
{
    await_kernel_before();
    __shared__ uint32_t copies[HISTOGRAM_BINS / 4 * WARP];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (int i = threadIdx.x; i < HISTOGRAM_BINS / 4 * WARP; i += SWEEP_THREADS)
        copies[i] = reinterpret_cast<const uint32_t *>(table)[i / WARP];
    __syncthreads();
    const uint8_t *own = reinterpret_cast<const uint8_t *>(copies + lane);
    for (int item = blockIdx.x * SWEEP_WARPS + warp; item < a.stretch_count;
         item += gridDim.x * SWEEP_WARPS) {
        int y = item / a.stretches, x0 = (item - y * a.stretches) * WARP_PIXELS;
        int x = x0 + lane * LANE_PIXELS;
        if (!row_holds<uint4>(x, a.width))
            continue;
        uint4 pixels = piece_at(a.from + (size_t)y * a.from_stride + x);
        piece_at(a.to + (size_t)y * a.to_stride + x) =
            make_uint4(bank_look_up_four(own, pixels.x), bank_look_up_four(own, pixels.y),
                       bank_look_up_four(own, pixels.z), bank_look_up_four(own, pixels.w));
    }
}

/* ---- launchers ---- */

static cudaError_t launch(const struct pass *pass, const struct image *from,
                          const struct image *to, uint8_t *work,
                          void (*make)(struct gray_table *, uint32_t), cudaStream_t stream)
{
    struct gray_table *table = reinterpret_cast<struct gray_table *>(work);
    const struct histogram *histogram = reinterpret_cast<const struct histogram *>(pass->params);
    const struct image *gray = from->channels == 1 ? from : to;
    int result = histogram_count_cuda(from, histogram, to, table->counts, stream);
    if (result == cudaSuccess)
        result = launch_kernel(make, 1, HISTOGRAM_BINS, 0, stream, table,
                               from->width * from->height);
    if (result != cudaSuccess)
        return (cudaError_t)result;
    row_stretches args = row_stretches_of<>(gray, to);
    return launch_kernel(look_up_kernel, sweep_blocks(args, SWEEP_WARPS, 4), SWEEP_THREADS, 0,
                         stream, args, table->table);
}

PASS_LAUNCHER(equalize_cuda)
{
    return launch(pass, from, to, work, equalize_kernel, stream);
}

PASS_LAUNCHER(otsu_cuda)
{
    return launch(pass, from, to, work, otsu_kernel, stream);
}
