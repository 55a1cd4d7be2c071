/*
 * otsu.cu - computes Otsu's threshold on the device: one block with a thread per value.
 *
 * The means of the classes depend on each other, rounding by rounding, so a single thread computes
 * them. The block computes shares and reciprocals before that, and variances afterwards.
 */
#include <cuda_runtime.h>

#include "gpu/ops/launch.cuh"
#include "gpu/ops/otsu.h"

/* ---- kernels ---- */

/* a / b, correctly rounded, from the correctly rounded 1 / b, in two steps (P. Markstein,
 * Computation of Elementary Functions on the IBM RISC System/6000 Processor, 1990). It takes a
 * fourth of the time of a division. No operand is near overflow or underflow. */
static __device__ __forceinline__ double divide(double a, double b, double one_over_b)
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
#pragma unroll 8
        for (int k = 0; k < HISTOGRAM_BINS; k++)
            q1[k] = q += share[k];
    }
    __syncthreads();
    bool parted = otsu_parted(q1[i]);
    over_q1[i] = parted ? 1.0 / q1[i] : 0.0; /* 0: not a valid threshold */
    __syncthreads();
    if (i == 0) {
        double q = 0, mu = 0;
#pragma unroll 8
        for (int k = 0; k < HISTOGRAM_BINS; k++) {
            mu *= q;
            q = q1[k];
            double next = divide(mu + part[k], q, over_q1[k]);
            mu = over_q1[k] > 0 ? next : mu;
            mu1[k] = mu;
        }
    }
    __syncthreads();
    sigma[i] = parted ? otsu_sigma(q1[i], mu1[i], (double)moment * scale) : 0.0;
    best[i] = i;
    /* The largest variance; the first of equal ones. */
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

/* ---- launchers ---- */

static int otsu_make_cuda(struct gray_table *work, uint32_t pixels, struct CUstream_st *stream)
{
    return launch_kernel(otsu_kernel, 1, HISTOGRAM_BINS, 0, stream, work, pixels);
}

PASS_LAUNCHER(otsu_cuda)
{
    return gray_table_run_cuda(pass, from, to, work, otsu_make_cuda, stream);
}
