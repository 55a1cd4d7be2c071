/*
 * cuda_host.h - the subset of CUDA C++ in which gpu/ops is written, for a host C++ compiler.
 *
 * cuda_runtime.h includes it in C++. Each thread of a block is a coroutine (simt.c). Blocks run one
 * after the other, so that shared memory is a static variable. It keeps what earlier blocks left.
 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <atomic> /* before the macro alignas */
#include <tuple>
#include <type_traits>

#include "tests/cuda/simt.h"

#define SIMT_HOST
#define __host__
#define __device__
#define __global__
#define __forceinline__ inline __attribute__((always_inline, unused))
#define __shared__      static
/* `static alignas(16)` is not C++, but `__shared__ alignas(16)` is CUDA C++. */
#define alignas(bytes) __attribute__((aligned(bytes)))
#define __grid_constant__
#define __launch_bounds__(...) __attribute__((unused))

/* ---- types ---- */

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z)
    {
    }
};
struct alignas(8) uint2 {
    uint32_t x, y;
};
struct uint3 {
    uint32_t x, y, z;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct alignas(16) int4 {
    int32_t x, y, z, w;
};

static inline uint2 make_uint2(uint32_t x, uint32_t y)
{
    return {x, y};
}
static inline uint3 make_uint3(uint32_t x, uint32_t y, uint32_t z)
{
    return {x, y, z};
}
static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    return {x, y, z, w};
}
static inline int4 make_int4(int32_t x, int32_t y, int32_t z, int32_t w)
{
    return {x, y, z, w};
}

template <typename A, typename B> constexpr std::common_type_t<A, B> min(A a, B b)
{
    std::common_type_t<A, B> first = a, second = b;
    return first < second ? first : second;
}
template <typename A, typename B> constexpr std::common_type_t<A, B> max(A a, B b)
{
    std::common_type_t<A, B> first = a, second = b;
    return first > second ? first : second;
}

/* ---- threads ---- */

#define threadIdx (simt_thread())
#define blockIdx  (simt_block())
#define gridDim   (simt_blocks())

static inline void __syncthreads()
{
    block_barrier();
}
static inline void __syncwarp()
{
    warp_barrier();
}
static inline uint32_t __ballot_sync(uint32_t, bool flag)
{
    return warp_ballot(flag);
}

template <typename T> static inline T __shfl_sync(uint32_t, T value, int lane)
{
    uint32_t words[sizeof(T) / 4];
    memcpy(words, &value, sizeof(T));
    for (uint32_t &word : words)
        word = warp_read(word, lane);
    memcpy(&value, words, sizeof(T));
    return value;
}
template <typename T> static inline T __shfl_xor_sync(uint32_t all, T value, int mask)
{
    return __shfl_sync(all, value, lane_index() ^ mask);
}

/* Threads switch only at barriers, so that these need no atomic instructions. */
template <typename T> static inline T atomicAdd(T *at, T value)
{
    T before = *at;
    *at += value;
    return before;
}
template <typename T> static inline T atomicMax(T *at, T value)
{
    T before = *at;
    *at = before > value ? before : value;
    return before;
}
static inline uint32_t atomicOr(uint32_t *at, uint32_t value)
{
    uint32_t before = *at;
    *at |= value;
    return before;
}
static inline uint32_t atomicExch(uint32_t *at, uint32_t value)
{
    uint32_t before = *at;
    *at = value;
    return before;
}
static inline uint32_t atomicCAS(uint32_t *at, uint32_t expected, uint32_t value)
{
    uint32_t before = *at;
    if (before == expected)
        *at = value;
    return before;
}

template <typename T> static inline T __ldg(const T *at)
{
    return *at;
}

/* ---- arithmetic ----
 *
 * HOST_CALL: not inlined, because the kernels have thousands of calls, and would compile for
 * minutes with sanitizers. */
#define HOST_CALL static __attribute__((noinline, unused))

HOST_CALL uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector)
{
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t pick = selector >> (4 * i), byte = (uint32_t)(bytes >> (pick % 8 * 8)) & 255u;
        if (pick & 8) /* the byte's sign */
            byte = byte & 128u ? 255u : 0u;
        result |= byte << (8 * i);
    }
    return result;
}
HOST_CALL uint32_t __dp4a(uint32_t a, uint32_t b, uint32_t sum)
{
    for (int i = 0; i < 32; i += 8)
        sum += (a >> i & 255u) * (b >> i & 255u);
    return sum;
}
HOST_CALL uint32_t __dp2a_lo(uint32_t a, uint32_t b, uint32_t sum)
{
    return sum + (a & 0xFFFFu) * (b & 255u) + (a >> 16) * (b >> 8 & 255u);
}
HOST_CALL uint32_t __dp2a_hi(uint32_t a, uint32_t b, uint32_t sum)
{
    return __dp2a_lo(a, b >> 16, sum);
}
HOST_CALL uint32_t __vmaxu2(uint32_t a, uint32_t b)
{
    return max(a & 0xFFFFu, b & 0xFFFFu) | max(a >> 16, b >> 16) << 16;
}
static inline uint32_t __brev(uint32_t x)
{
    uint32_t reversed = 0;
    for (int i = 0; i < 32; i++)
        reversed |= (x >> i & 1u) << (31 - i);
    return reversed;
}
HOST_CALL uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t shift)
{
    return (uint32_t)(((uint64_t)high << 32 | low) >> (shift & 31u));
}
static inline double __fma_rn(double a, double b, double c)
{
    return fma(a, b, c);
}

/* ---- tensor cores ---- */

typedef float simt_four __attribute__((vector_size(16)));

HOST_CALL void simt_put_four(simt_four *to, uint32_t word, bool is_signed)
{
    for (int i = 0; i < 4; i++, word >>= 8)
        (*to)[i] = is_signed ? (float)(int8_t)word : (float)(uint8_t)word;
}

/* The products of gpu/ops/mma.cuh, on the registers of all lanes. Only lanes of this warp run
 * between the two barriers, so all warps use the same memory. Sums of 32 products of bytes are
 * exact in float, and all processors multiply four floats at once. */
HOST_CALL void simt_mma(int32_t (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                        bool a_signed, bool b_signed)
{
    static simt_four rows[16][8], columns[8][8];
    int group = lane_index() / 4, own = lane_index() % 4;
    for (int r = 0; r < 4; r++)
        simt_put_four(&rows[group + r % 2 * 8][own + r / 2 * 4], a[r], a_signed);
    for (int r = 0; r < 2; r++)
        simt_put_four(&columns[group][own + r * 4], b[r], b_signed);
    warp_barrier();
    for (int r = 0; r < 4; r++) {
        const simt_four *row = rows[group + r / 2 * 8], *column = columns[own * 2 + r % 2];
        simt_four product = row[0] * column[0];
        for (int k = 1; k < 8; k++)
            product += row[k] * column[k];
        int32_t whole = (int32_t)(product[0] + product[1] + product[2] + product[3]);
        sum[r] = (int32_t)((uint32_t)sum[r] + (uint32_t)whole);
    }
    warp_barrier();
}

/* ---- launches ---- */

enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
struct cudaLaunchAttribute {
    enum cudaLaunchAttributeID id;
    struct {
        int programmaticStreamSerializationAllowed;
    } val;
};
struct cudaLaunchConfig_t {
    dim3 grid, block;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
template <typename Kernel>
static inline cudaError_t cudaFuncSetAttribute(Kernel *, cudaFuncAttribute, int)
{
    return cudaSuccess;
}

template <typename... P> struct host_launch {
    void (*kernel)(P...);
    std::tuple<P...> args;

    static void run(const void *launch)
    {
        const host_launch *own = static_cast<const host_launch *>(launch);
        std::apply(own->kernel, own->args);
    }
};

template <typename... P>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...),
                                             P... args)
{
    host_launch<P...> launch = {kernel, std::tuple<P...>(args...)};
    const dim3 &grid = config->grid, &block = config->block;
    return (cudaError_t)simt_launch_shape(host_launch<P...>::run, &launch, sizeof(launch),
                                          {grid.x, grid.y, grid.z}, {block.x, block.y, block.z},
                                          config->dynamicSmemBytes, config->stream);
}
