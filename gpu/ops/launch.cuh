/*
 * launch.cuh - launches kernels so that the start of each overlaps the end of the previous one.
 *
 * From compute capability 9.0, a kernel can start while the last blocks of the previous kernel in
 * the stream still run (programmatic dependent launch). Its blocks occupy free room on the
 * multiprocessors and wait until all previous writes are visible. For a stream alone on the
 * device, this saves 1 to 1.5 of the 3 us that starting and ending a kernel cost.
 */
#pragma once

#include <cuda_runtime.h>

#include <string.h>

#include <atomic>
#include <type_traits>

#include "conf/limits.h"
#include "gpu/ops/pixel.h"
#include "gpu/plan/pass.h"

#define EARLY_START_ARCH 900

/* Every kernel calls this first, before it accesses global memory. It lets the blocks of the next
 * kernel start only after the wait, when all earlier kernels have ended. A kernel therefore
 * overlaps only the kernel right before it. */
SIMT void await_kernel_before()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= EARLY_START_ARCH
    asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* An attribute of the current device, which is queried once per device. Returns 0 if the query
 * fails; the launch will then report the error. */
template <cudaDeviceAttr ATTRIBUTE> static int device_attribute()
{
    static std::atomic<int> known[DEVICES_MAX]; /* the value + 1; 0: not known */
    int device = 0, value = 0;
    if (cudaGetDevice(&device) != cudaSuccess)
        return 0;
    if (device < DEVICES_MAX && (value = known[device].load(std::memory_order_relaxed)) > 0)
        return value - 1;
    if (cudaDeviceGetAttribute(&value, ATTRIBUTE, device) != cudaSuccess)
        return 0;
    if (device < DEVICES_MAX)
        known[device].store(value + 1, std::memory_order_relaxed);
    return value;
}

static inline int multiprocessors()
{
    int count = device_attribute<cudaDevAttrMultiProcessorCount>();
    return count > 0 ? count : 1;
}

/* The same, but the blocks of the next kernel start only when this one has ended. */
SIMT void await_kernel_before_alone()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= EARLY_START_ARCH
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Whether the code for the current device contains this wait. The device runs the latest compiled
 * architecture that it supports, from binary or from PTX. */
static inline bool starts_early()
{
    static const int compiled[] = {__CUDA_ARCH_LIST__};
    int own = device_attribute<cudaDevAttrComputeCapabilityMajor>() * 100 +
              device_attribute<cudaDevAttrComputeCapabilityMinor>() * 10;
    for (int arch : compiled)
        if (arch >= EARLY_START_ARCH && arch <= own)
            return true;
    return false;
}

/* Launches a kernel that starts with await_kernel_before. `shared`: bytes of dynamic shared memory.
 * An error is returned and cleared, so that cudaGetLastError does not report it again. */
template <typename... P, typename... A>
static cudaError_t launch_kernel(void (*kernel)(P...), dim3 blocks, dim3 threads, size_t shared,
                                 cudaStream_t stream, const A &...args)
{
    cudaLaunchAttribute early;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {blocks, threads, shared, stream, &early, starts_early() ? 1u : 0u};
    cudaError_t status = cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...);
    return status == cudaSuccess ? status : cudaGetLastError();
}

/* The dynamic shared memory of the block, aligned to 16. */
SIMT void *dynamic_shared()
{
#ifdef SIMT_HOST
    return simt_dynamic_shared();
#else
    extern __shared__ uint4 shared[];
    return shared;
#endif
}

/* The 16 bytes, or the word, at an aligned address. */
SIMT uint4 &piece_at(void *at)
{
    return *static_cast<uint4 *>(at);
}

SIMT const uint4 &piece_at(const void *at)
{
    return *static_cast<const uint4 *>(at);
}

SIMT uint32_t &word_at(void *at)
{
    return *static_cast<uint32_t *>(at);
}

SIMT const uint32_t &word_at(const void *at)
{
    return *static_cast<const uint32_t *>(at);
}

/*
 * ---- access to the rows of an image, by the padding rule of codecs/image.h ----
 *
 * Unit: uint32_t or uint4. `offset` is in bytes from the first pixel of an aligned row, and a
 * multiple of the unit's size. row_bytes: of the row's pixels. load.cuh is for rectangles at any
 * address.
 */

/* Whether the unit holds a byte of the row: only then may it be read or written. */
template <typename Unit> SIMT bool row_holds(int offset, int row_bytes)
{
    static_assert(STRIDE_ALIGN % sizeof(Unit) == 0, "a unit must end within the padding");
    return (unsigned)offset < (unsigned)row_bytes; /* no unit before the row holds a byte of it */
}

/* A unit of the input, which nothing writes while the kernel runs; 0: the row does not hold it. The
 * unit's bytes outside the row are undefined. */
template <typename Unit> SIMT Unit row_get(const uint8_t *row, int offset, int row_bytes)
{
    Unit unit = {};
    if (row_holds<Unit>(offset, row_bytes))
        unit = __ldg(reinterpret_cast<const Unit *>(row + offset));
    return unit;
}

/* Does nothing if the row does not hold the unit. */
template <typename Unit> SIMT void row_put(uint8_t *row, int offset, int row_bytes, Unit unit)
{
    if (row_holds<Unit>(offset, row_bytes))
        *reinterpret_cast<Unit *>(row + offset) = unit;
}

/* The images of a pass, for its kernels; args structs derive from it. */
struct pass_images {
    const uint8_t *from;
    uint8_t *to;
    size_t from_stride, to_stride;
    int width, height; /* of the result */
};

/* Args with the images, and zero otherwise. */
template <typename Args>
static inline Args pass_args(const struct image *from, const struct image *to)
{
    Args args = {};
    args.from = from->pixels;
    args.to = to->pixels;
    args.from_stride = from->stride;
    args.to_stride = to->stride;
    args.width = (int)to->width;
    args.height = (int)to->height;
    return args;
}

/* Calls `launch` with the number of channels as a constant: 1, 3 or 4. */
template <typename Launch> static cudaError_t by_channels(uint32_t channels, const Launch &launch)
{
    return channels == 1   ? launch(std::integral_constant<int, 1>())
           : channels == 3 ? launch(std::integral_constant<int, 3>())
                           : launch(std::integral_constant<int, 4>());
}

/* The head of a pass's launcher, which gpu/ops/NAME.c declares as a pass_cuda. */
#define PASS_LAUNCHER(name)                                                                        \
    extern "C" int name([[maybe_unused]] const struct pass *pass, const struct image *from,        \
                        [[maybe_unused]] const struct image *to, [[maybe_unused]] uint8_t *work,   \
                        struct CUstream_st *stream)

#define PASS_LAUNCHER_MANY(name)                                                                   \
    extern "C" int name(const struct pass_call *calls, uint32_t count, struct CUstream_st *stream)

/*
 * ---- passes of several small images in one launch ----
 *
 * The grid has a layer of blocks per image, in z, which is large enough for every image. A kernel
 * with N = 1 is for one image: its code is that of a kernel whose argument is the Args.
 */

template <typename Args, int N> struct several {
    Args of[N];
    unsigned across[N], down[N]; /* blocks of each image */
};

/* The image of the block. */
template <typename Args, int N> SIMT const Args &several_own(const several<Args, N> &all)
{
    return all.of[N == 1 ? 0 : blockIdx.z];
}

/* Whether the block is outside of its image's blocks, and must return. */
template <typename Args, int N> SIMT bool several_skips(const several<Args, N> &all)
{
    return N > 1 && (blockIdx.x >= all.across[blockIdx.z] || blockIdx.y >= all.down[blockIdx.z]);
}

template <int N, typename Args, typename Describe, typename Launch>
static cudaError_t launch_group(const struct pass_call *calls, uint32_t count,
                                const Describe &describe, const Launch &launch)
{
    several<Args, N> all;
    dim3 grid(1, 1, count);
    static_assert(sizeof(all) <= 3584, "launch arguments are limited, and a kernel may have more");
    memset(&all, 0, sizeof(all));
    for (uint32_t i = 0; i < count; i++) {
        dim3 blocks = describe(calls[i], &all.of[i]);
        all.across[i] = blocks.x;
        all.down[i] = blocks.y;
        grid.x = grid.x > blocks.x ? grid.x : blocks.x;
        grid.y = grid.y > blocks.y ? grid.y : blocks.y;
    }
    return launch(all, grid);
}

/* describe(call, args) fills the Args of an image and returns its blocks, in x and y.
 * launch(several<Args, N>, grid) launches the kernel for this N. SHARED false: the kernel is only
 * compiled for one image, which saves time for rare kernels, and each image has its own launch. */
template <typename Args, bool SHARED = true, typename Describe, typename Launch>
static cudaError_t launch_several(const struct pass_call *calls, uint32_t count,
                                  const Describe &describe, const Launch &launch)
{
    assert(count >= 1 && count <= PASSES_SHARED_MAX);
    if constexpr (SHARED) {
        if (count > 1)
            return launch_group<PASSES_SHARED_MAX, Args>(calls, count, describe, launch);
    }
    cudaError_t result = cudaSuccess;
    for (uint32_t i = 0; i < count && result == cudaSuccess; i++)
        result = launch_group<1, Args>(&calls[i], 1, describe, launch);
    return result;
}
