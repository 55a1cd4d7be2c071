/*
 * launch.cuh - launches the kernels of passes, and has what their kernels share: access to rows,
 * and launches for several images.
 *
 * The start of a kernel overlaps the end of the previous one. From compute capability 9.0 on, a
 * kernel can start while the last blocks of the previous kernel in the stream still run
 * (programmatic dependent launch). Its blocks take free places on the multiprocessors, and wait
 * there until all previous writes are visible. If only one stream is busy, this saves 1 to 1.5 of
 * the 3 us that it costs to start and end a kernel.
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

/* Every kernel must call this before it accesses global memory. It waits until all earlier kernels
 * have ended, and then allows the blocks of the next kernel to start. So a kernel overlaps only the
 * one directly before it. */
SIMT void await_kernel_before()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= EARLY_START_ARCH
    asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Returns an attribute of the current device. It is queried only once per device. 0: the query
 * failed; the launch will then report the error. */
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

/* As await_kernel_before, but the blocks of the next kernel start only after this kernel has
 * ended. */
SIMT void await_kernel_before_alone()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= EARLY_START_ARCH
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Whether the code that the current device runs contains the wait of await_kernel_before. The
 * device runs the latest compiled architecture that it supports, from machine code or from PTX. */
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

/* Launches a kernel that begins with await_kernel_before. shared: bytes of dynamic shared memory.
 * Returns an error, and clears it, so that cudaGetLastError does not report it again. */
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

/* The dynamic shared memory of the block of threads, aligned to 16. */
SIMT void *dynamic_shared()
{
#ifdef SIMT_HOST
    return simt_dynamic_shared();
#else
    extern __shared__ uint4 shared[];
    return shared;
#endif
}

/* A piece (16 bytes), and a word, at an aligned address. */
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
 * For rows that start at aligned addresses; load.cuh is for others. Unit: uint32_t or uint4.
 * offset: from the start of the row, in bytes, a multiple of the unit's size. row_bytes: of the
 * row's pixels.
 */

/* Whether the unit contains a byte of the row: only then may it be read or written. */
template <typename Unit> SIMT bool row_holds(int offset, int row_bytes)
{
    static_assert(STRIDE_ALIGN % sizeof(Unit) == 0, "a unit must end within the padding");
    return (unsigned)offset < (unsigned)row_bytes; /* false, too, for negative offsets */
}

/* Loads a unit of the input, which nothing writes while the kernel runs; 0 if it contains no byte
 * of the row. Its bytes outside of the row are undefined. */
template <typename Unit> SIMT Unit row_get(const uint8_t *row, int offset, int row_bytes)
{
    Unit unit = {};
    if (row_holds<Unit>(offset, row_bytes))
        unit = __ldg(reinterpret_cast<const Unit *>(row + offset));
    return unit;
}

/* Stores a unit, if it contains a byte of the row. */
template <typename Unit> SIMT void row_put(uint8_t *row, int offset, int row_bytes, Unit unit)
{
    if (row_holds<Unit>(offset, row_bytes))
        *reinterpret_cast<Unit *>(row + offset) = unit;
}

/* The images of a pass, as arguments of its kernels. The args structs derive from this. */
struct pass_images {
    const uint8_t *from;
    uint8_t *to;
    size_t from_stride, to_stride;
    int width, height; /* of the result */
};

/* Returns args with the images; all other members are zero. */
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

/* The heads of the definitions of a pass_cuda and of a pass_cuda_many (pass.h). */
#define PASS_LAUNCHER(name)                                                                        \
    extern "C" int name([[maybe_unused]] const struct pass *pass, const struct image *from,        \
                        [[maybe_unused]] const struct image *to, [[maybe_unused]] uint8_t *work,   \
                        struct CUstream_st *stream)

#define PASS_LAUNCHER_MANY(name)                                                                   \
    extern "C" int name(const struct pass_call *calls, uint32_t count, struct CUstream_st *stream)

/*
 * ---- passes of several small images in one launch ----
 *
 * The grid has a layer of blocks per image, in z. All layers are as large as the largest image
 * needs. Kernels are also compiled for N = 1, one image, because that code is faster.
 */

template <typename Args, int N> struct several {
    Args of[N];
    unsigned across[N], down[N]; /* blocks of each image */
};

/* The arguments for the image of this block. */
template <typename Args, int N> SIMT const Args &several_own(const several<Args, N> &all)
{
    return all.of[N == 1 ? 0 : blockIdx.z];
}

/* Whether this block is not needed for its image, and must return. */
template <typename Args, int N> SIMT bool several_skips(const several<Args, N> &all)
{
    return N > 1 && (blockIdx.x >= all.across[blockIdx.z] || blockIdx.y >= all.down[blockIdx.z]);
}

/* Makes one launch for up to N images. */
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

/* Launches a kernel for several images. describe(call, args) fills the Args of an image, and
 * returns its number of blocks in x and y. launch(several<Args, N>, grid) launches the kernel for
 * this N. SHARED false: each image gets a launch of its own. The kernel then need not be compiled
 * for several images, which saves compile time for rare kernels. */
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
