/* bench_cub.cu - times cub::DeviceHistogram on the same images, to compare `histogram` with it. */
#include "tests/bench/bench_device.h"

#include <cub/device/device_histogram.cuh>

/* All versions of CUB have the call with plain arrays for several channels; some deprecate it. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#pragma nv_diag_suppress 1444

#include "gpu/cuda/try.h"
#include "gpu/plan/pass.h"

struct cub_run {
    void *temporary;
    size_t temporary_bytes;
    int *counts;
};

template <int C>
static cudaError_t cub_histogram(const struct plan *plan, uint8_t *base, cub_run *run,
                                 cudaStream_t stream)
{
    struct image image = plan_input(plan, base);
    int *counts[C], levels[C], lower[C], upper[C];
    for (int c = 0; c < C; c++) {
        counts[c] = run->counts + c * 256;
        levels[c] = 257;
        lower[c] = 0;
        upper[c] = 256;
    }
    if constexpr (C == 1)
        return cub::DeviceHistogram::HistogramEven(
            run->temporary, run->temporary_bytes, (const uint8_t *)image.pixels, counts[0],
            levels[0], lower[0], upper[0], (int)image.width, (int)image.height, image.stride,
            stream);
    else
        return cub::DeviceHistogram::MultiHistogramEven<C, C>(
            run->temporary, run->temporary_bytes, (const uint8_t *)image.pixels, counts, levels,
            lower, upper, (int)image.width, (int)image.height, image.stride, stream);
}

static int launch_cub(const struct plan *plan, uint8_t *base, void *context, cudaStream_t stream)
{
    cub_run *run = (cub_run *)context;
    cudaError_t result = plan->source.channels == 1 ? cub_histogram<1>(plan, base, run, stream)
                                                    : cub_histogram<3>(plan, base, run, stream);
    return CUDA_TRY(result) == cudaSuccess ? 0 : -1;
}

extern "C" double bench_cub_s(const struct plan *plan, const uint8_t *pixels)
{
    cub_run run = {NULL, 0, NULL};
    double s = -1;
    /* The first call only sets temporary_bytes. */
    if (launch_cub(plan, NULL, &run, 0) == 0 &&
        CUDA_TRY(cudaMalloc(&run.temporary, run.temporary_bytes)) == cudaSuccess &&
        CUDA_TRY(cudaMalloc(&run.counts, 3 * 256 * sizeof(int))) == cudaSuccess)
        s = bench_rounds_s(plan, pixels, false, launch_cub, &run);
    (void)cudaFree(run.temporary);
    (void)cudaFree(run.counts);
    return s;
}
