/*
 * otsu.cu - Otsu's threshold on the device: one block, a thread a value.
 *
 * The classes' means follow from each other, rounding by rounding, so one thread goes through
 * them; shares before that and variances after it are the block's.
 */
#include <cuda_runtime.h>

#include "gpu/ops/otsu.h"

/* ---- kernels ---- */

static __global__ void __launch_bounds__(HISTOGRAM_BINS)
    otsu_kernel(struct gray_table *work, uint32_t pixels)
{
    __shared__ double share[HISTOGRAM_BINS], q1[HISTOGRAM_BINS], mu1[HISTOGRAM_BINS];
    __shared__ bool parted[HISTOGRAM_BINS];
    __shared__ double sigma[HISTOGRAM_BINS];
    __shared__ int best[HISTOGRAM_BINS];
    __shared__ unsigned long long moment;
    int i = threadIdx.x;
    uint32_t count = work->counts[i];
    double scale = 1.0 / (double)pixels;
    if (i == 0)
        moment = 0;
    share[i] = (double)count * scale;
    __syncthreads();
    atomicAdd(&moment, (unsigned long long)count * i);
    if (i == 0) {
        double q = 0, mu = 0;
        for (int k = 0; k < HISTOGRAM_BINS; k++) {
            parted[k] = otsu_next(&q, &mu, k, share[k]);
            q1[k] = q;
            mu1[k] = mu;
        }
    }
    __syncthreads();
    sigma[i] = parted[i] ? otsu_sigma(q1[i], mu1[i], (double)moment * scale) : 0.0;
    best[i] = i;
    /* The greatest; of equal ones the first. */
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
    otsu_kernel<<<1, HISTOGRAM_BINS, 0, stream>>>(work, pixels);
    return cudaGetLastError();
}

extern "C" int otsu_cuda(const struct pass *pass, const struct image *from,
                         const struct image *to, uint8_t *work, struct CUstream_st *stream)
{
    return gray_table_run_cuda(pass, from, to, work, otsu_make_cuda, stream);
}
