/*
 * bench_npp.cu - times NPP's counterparts of bench_gpu's loads, if the CUDA toolkit has NPP.
 *
 * Images and sizes are the same, but results differ in places: NPP's Sobel computes one direction
 * of two, its resize has other filters, and its rotation allows any angle. Each row is the
 * call that a user of NPP would choose for the work.
 */
#include "tests/bench/bench_device.h"

#ifndef GPUIMGD_NPP
extern "C" double bench_npp_s(const char *name, const struct plan *plan)
{
    (void)name, (void)plan;
    return 0;
}
#else

#include <nppi.h>
#include <stdio.h>
#include <string.h>

#include "gpu/cuda/try.h"
#include "gpu/engine/engine.h"
#include "gpu/plan/pass.h"

/* The arguments of the calls below. */
struct npp {
    NppStreamContext context;
    const Npp8u *from;
    Npp8u *to;
    int from_step, to_step, channels;
    NppiSize from_size, to_size;
    Npp8u *buffer;  /* scratch memory of NPP */
    Npp8u *table;   /* 256 bytes */
    Npp32s *kernel; /* ones, 15 x 15 */
    Npp32s *counts;
    Npp64f *means;
};

typedef NppStatus npp_call(const npp &n);
typedef size_t npp_room(const npp &n);

/* NPP's function for images with this number of channels. */
#define BY_CHANNELS(n, name, four)                                                                 \
    ((n).channels == 1 ? name##_C1R_Ctx : (n).channels == 3 ? name##_C3R_Ctx : name##_##four##_Ctx)
#define FROM_TO n.from, n.from_step, n.to, n.to_step
/* Arguments of neighbourhood filters: the whole image, with its edge replicated. */
#define AROUND n.from, n.from_step, n.from_size, {0, 0}, n.to, n.to_step, n.from_size

static const NppiBorderType edge = NPP_BORDER_REPLICATE;

static NppStatus transpose(const npp &n)
{
    return BY_CHANNELS(n, nppiTranspose_8u, C4R)(FROM_TO, n.from_size, n.context);
}

/* Rotates by 90 degrees around the corner (0, 0), then shifts the image down into the output. */
static NppStatus rotate(const npp &n)
{
    NppiRect whole = {0, 0, n.from_size.width, n.from_size.height};
    NppiRect turned = {0, 0, n.to_size.width, n.to_size.height};
    double down = n.from_size.width - 1;
    return BY_CHANNELS(n, nppiRotate_8u, C4R)(n.from, n.from_size, n.from_step, whole, n.to,
                                              n.to_step, turned, 90, 0, down, NPPI_INTER_NN,
                                              n.context);
}

static NppStatus mirror(const npp &n, NppiAxis axis)
{
    return BY_CHANNELS(n, nppiMirror_8u, C4R)(FROM_TO, n.from_size, axis, n.context);
}

static NppStatus grayscale(const npp &n)
{
    return nppiRGBToGray_8u_C3C1R_Ctx(FROM_TO, n.from_size, n.context);
}

static NppStatus sobel_horizontal(const npp &n)
{
    return nppiFilterSobelHorizBorder_8u_C1R_Ctx(AROUND, edge, n.context);
}

static NppStatus invert(const npp &n)
{
    return nppiNot_8u_C1R_Ctx(FROM_TO, n.from_size, n.context);
}

static NppStatus table(const npp &n)
{
    const Npp8u *tables[3] = {n.table, n.table, n.table};
    return nppiLUTPalette_8u_C3R_Ctx(FROM_TO, n.from_size, tables, 8, n.context);
}

static NppStatus matrix(const npp &n)
{
    static const Npp32f sepia[3][4] = {
        {0.393f, 0.769f, 0.189f, 0}, {0.349f, 0.686f, 0.168f, 0}, {0.272f, 0.534f, 0.131f, 0}};
    return BY_CHANNELS(n, nppiColorTwist32f_8u, AC4R)(FROM_TO, n.from_size, sepia, n.context);
}

static NppStatus gaussian(const npp &n, NppiMaskSize size)
{
    return BY_CHANNELS(n, nppiFilterGaussBorder_8u, AC4R)(AROUND, size, edge, n.context);
}

static NppStatus convolve(const npp &n, int side)
{
    NppiPoint middle = {side / 2, side / 2};
    return BY_CHANNELS(n, nppiFilterBorder_8u, C4R)(AROUND, n.kernel, {side, side}, middle,
                                                    side * side, edge, n.context);
}

static NppStatus median(const npp &n, int side)
{
    return nppiFilterMedianBorder_8u_C3R_Ctx(AROUND, {side, side}, {side / 2, side / 2}, n.buffer,
                                             edge, n.context);
}

static NppStatus unsharp(const npp &n)
{
    return nppiFilterUnsharpBorder_8u_C3R_Ctx(n.from, n.from_step, {0, 0}, n.to, n.to_step,
                                              n.from_size, 2, 1.1f, 1, 0, edge, n.buffer,
                                              n.context);
}

/* Supersampling, which reads every pixel, makes images smaller; Lanczos makes them larger. */
static NppStatus resize(const npp &n)
{
    NppiRect whole = {0, 0, n.from_size.width, n.from_size.height};
    NppiRect result = {0, 0, n.to_size.width, n.to_size.height};
    int filter = n.to_size.width < n.from_size.width ? NPPI_INTER_SUPER : NPPI_INTER_LANCZOS;
    return BY_CHANNELS(n, nppiResize_8u, C4R)(n.from, n.from_step, n.from_size, whole, n.to,
                                              n.to_step, n.to_size, result, filter, n.context);
}

static int levels[3] = {257, 257, 257};

static NppStatus histogram(const npp &n)
{
    Npp32s *counts[3] = {n.counts, n.counts + 256, n.counts + 512};
    Npp32s low[3] = {0, 0, 0}, high[3] = {256, 256, 256};
    return n.channels == 1
               ? nppiHistogramEven_8u_C1R_Ctx(n.from, n.from_step, n.from_size, n.counts, 257, 0,
                                              256, n.buffer, n.context)
               : nppiHistogramEven_8u_C3R_Ctx(n.from, n.from_step, n.from_size, counts, levels,
                                              low, high, n.buffer, n.context);
}

static NppStatus mean(const npp &n)
{
    return BY_CHANNELS(n, nppiMean_8u, AC4R)(n.from, n.from_step, n.from_size, n.buffer, n.means,
                                             n.context);
}

static NppStatus canny(const npp &n)
{
    return nppiFilterCannyBorder_8u_C1R_Ctx(AROUND, NPP_FILTER_SOBEL, NPP_MASK_SIZE_3_X_3, 50, 150,
                                            nppiNormL1, edge, n.buffer, n.context);
}

/* Defines a function that asks NPP for the size of a buffer. */
#define ROOM(name, type, call)                                                                     \
    static size_t name(const npp &n)                                                               \
    {                                                                                              \
        type bytes = 0;                                                                            \
        (void)n, (void)(call);                                                                     \
        return (size_t)bytes;                                                                      \
    }
ROOM(room_canny, int, nppiFilterCannyBorderGetBufferSize(n.from_size, &bytes))
ROOM(room_histogram, size_t,
     n.channels == 1
         ? nppiHistogramEvenGetBufferSize_8u_C1R_Ctx(n.from_size, 257, &bytes, n.context)
         : nppiHistogramEvenGetBufferSize_8u_C3R_Ctx(n.from_size, levels, &bytes, n.context))
ROOM(room_mean, size_t,
     BY_CHANNELS(n, nppiMeanGetBufferHostSize_8u, AC4R)(n.from_size, &bytes, n.context))
ROOM(room_median, Npp32u,
     nppiFilterMedianBorderGetBufferSize_8u_C3R_Ctx(n.from_size, {5, 5}, &bytes, edge, n.context))
ROOM(room_unsharp, int, nppiFilterUnsharpGetBufferSize_8u_C3R(2, 1.1f, &bytes))

/* Matched by the start of the load's name; a longer name comes before its own prefix. */
static const struct {
    const char *name;
    npp_call *call;
    npp_room *room;
} calls[] = {
    {"sobel, gray", sobel_horizontal, NULL},
    {"grayscale, RGB", grayscale, NULL},
    {"transpose", transpose, NULL},
    {"rotate 180", [](const npp &n) { return mirror(n, NPP_BOTH_AXIS); }, NULL},
    {"rotate 90", rotate, NULL},
    {"flip h", [](const npp &n) { return mirror(n, NPP_VERTICAL_AXIS); }, NULL},
    {"flip v", [](const npp &n) { return mirror(n, NPP_HORIZONTAL_AXIS); }, NULL},
    {"invert, gray", invert, NULL},
    {"gamma, RGB", table, NULL},
    {"matrix", matrix, NULL},
    {"gaussian 5", [](const npp &n) { return gaussian(n, NPP_MASK_SIZE_5_X_5); }, NULL},
    {"gaussian 9", [](const npp &n) { return gaussian(n, NPP_MASK_SIZE_9_X_9); }, NULL},
    {"unsharp 5", unsharp, room_unsharp},
    {"convolve 3", [](const npp &n) { return convolve(n, 3); }, NULL},
    {"convolve 15", [](const npp &n) { return convolve(n, 15); }, NULL},
    {"median 3", [](const npp &n) { return median(n, 3); }, room_median},
    {"median 5", [](const npp &n) { return median(n, 5); }, room_median},
    {"canny, gray", canny, room_canny},
    {"512", resize, NULL},
    {"half", resize, NULL},
    {"1.5 times", resize, NULL},
    {"histogram, gray", histogram, room_histogram},
    {"histogram, RGB>Y", NULL, NULL},
    {"histogram, RGB", histogram, room_histogram},
    {"stats", mean, room_mean},
};

static NppStreamContext context_of(cudaStream_t stream)
{
    NppStreamContext c;
    cudaDeviceProp device;
    memset(&c, 0, sizeof(c));
    memset(&device, 0, sizeof(device));
    (void)cudaGetDevice(&c.nCudaDeviceId);
    (void)cudaGetDeviceProperties(&device, c.nCudaDeviceId);
    c.hStream = stream;
    c.nMultiProcessorCount = device.multiProcessorCount;
    c.nMaxThreadsPerMultiProcessor = device.maxThreadsPerMultiProcessor;
    c.nMaxThreadsPerBlock = device.maxThreadsPerBlock;
    c.nSharedMemPerBlock = device.sharedMemPerBlock;
    c.nCudaDevAttrComputeCapabilityMajor = device.major;
    c.nCudaDevAttrComputeCapabilityMinor = device.minor;
    return c;
}

struct npp_load {
    npp_call *call;
    npp n;
};

static int launch_npp(const struct plan *plan, uint8_t *base, void *context, cudaStream_t stream)
{
    npp_load *load = static_cast<npp_load *>(context);
    npp &n = load->n;
    n.from = base;
    n.to = base + buffer_align(plan->input_bytes);
    n.context.hStream = stream;
    NppStatus status = load->call(n);
    if (status != NPP_SUCCESS)
        fprintf(stderr, "bench_gpu: NPP says %d\n", (int)status);
    return status == NPP_SUCCESS ? 0 : -1;
}

static npp npp_of(const struct plan *plan)
{
    npp n;
    const struct plan_variant *result = &plan->variants[0];
    memset(&n, 0, sizeof(n));
    n.context = context_of(NULL);
    n.channels = (int)plan->source.channels;
    n.from_size = {(int)plan->source.width, (int)plan->source.height};
    n.to_size = {(int)result->width, (int)result->height};
    n.from_step = (int)image_stride(plan->source.width, plan->source.channels);
    n.to_step = (int)image_stride(result->width, result->channels);
    return n;
}

/* Holds kernel, counts, means and table, in this order. */
#define SMALL_BYTES 8192

extern "C" double bench_npp_s(const char *name, const struct plan *plan)
{
    npp_load load = {NULL, npp_of(plan)};
    npp_room *room = NULL;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (strncmp(name, calls[i].name, strlen(calls[i].name)) == 0) {
            load.call = calls[i].call;
            room = calls[i].room;
            break;
        }
    }
    if (!load.call)
        return 0;
    Npp32s ones[15 * 15];
    for (int i = 0; i < 15 * 15; i++)
        ones[i] = 1;
    uint8_t *small = NULL;
    double s = 0;
    if (CUDA_TRY(cudaMalloc(&load.n.buffer, room ? room(load.n) : 1)) == cudaSuccess &&
        CUDA_TRY(cudaMalloc(&small, SMALL_BYTES)) == cudaSuccess &&
        CUDA_TRY(cudaMemset(small, 7, SMALL_BYTES)) == cudaSuccess &&
        CUDA_TRY(cudaMemcpy(small, ones, sizeof(ones), cudaMemcpyHostToDevice)) == cudaSuccess) {
        load.n.kernel = reinterpret_cast<Npp32s *>(small);
        load.n.counts = reinterpret_cast<Npp32s *>(small + 1024);
        load.n.means = reinterpret_cast<Npp64f *>(small + 5120);
        load.n.table = small + 6144;
        s = bench_rounds_s(plan, NULL, false, launch_npp, &load);
    }
    (void)cudaFree(load.n.buffer);
    (void)cudaFree(small);
    return s > 0 ? s : 0;
}

#endif
