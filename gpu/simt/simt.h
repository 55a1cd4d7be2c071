/*
 * simt.h - the subset of CUDA C in which the kernels of the codecs are written.
 *
 * nvcc compiles the kernels for the device. A C compiler compiles the same files for the host,
 * where tests/cuda/simt.c runs each thread of a block as a coroutine, so that tests run the kernels
 * without a GPU. Kernel files must be valid C11 and valid C++, without templates and references: a
 * function that is always inlined, with constant arguments, replaces a template.
 *
 * A kernel takes one struct by value:
 *
 *     KERNEL(count_zeros, 256, 4, struct count_args) { ... args.bytes[thread_index()] ... }
 *     status = LAUNCH(count_zeros, 256, blocks, 0, stream, args);
 *
 * All lanes of a warp call the warp_ functions together, and all threads of a block call the
 * block_ functions together.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WARP_LANES 32

#ifdef __CUDACC__

#include "gpu/ops/launch.cuh"

/* A function that kernels call. The host compiles it as well, so that tests can call it. */
#define DEVICE static __host__ __device__ __forceinline__
/* A function that uses threads, warps or blocks: only kernels call it. */
#define SIMT static __device__ __forceinline__
#define SHARED __shared__
#define CONSTANT static __device__ const
/* Host compilers do not know these pragmas. */
#ifdef __CUDA_ARCH__
#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")
#else
#define UNROLL
#define NO_UNROLL
#endif

/* Defines a kernel. threads: the most threads of a block; blocks: the least number of blocks that
 * must be resident on a multiprocessor; type: the struct of the arguments. */
#define KERNEL(name, threads, blocks, type)                                                        \
    static __device__ __forceinline__ void name##_body(const type &args);                          \
    static __global__ void __launch_bounds__(threads, blocks)                                      \
        name(const __grid_constant__ type args)                                                    \
    {                                                                                              \
        await_kernel_before();                                                                     \
        name##_body(args);                                                                         \
    }                                                                                              \
    static __device__ __forceinline__ void name##_body(const type &args)
/* Defines a kernel that runs for long. The blocks of the next kernel of the stream start only after
 * it has ended (gpu/ops/launch.cuh). Otherwise they would wait on the multiprocessors, and take the
 * place of other streams' blocks. */
#define LONG_KERNEL(name, threads, blocks, type)                                                   \
    static __device__ __forceinline__ void name##_body(const type &args);                          \
    static __global__ void __launch_bounds__(threads, blocks)                                      \
        name(const __grid_constant__ type args)                                                    \
    {                                                                                              \
        await_kernel_before_alone();                                                               \
        name##_body(args);                                                                         \
    }                                                                                              \
    static __device__ __forceinline__ void name##_body(const type &args)
/* shared: bytes of dynamic shared memory. Returns a cudaError_t. `blocks` may be a dim3. */
#define LAUNCH(name, threads, blocks, shared, stream, args)                                        \
    launch_kernel(name, dim3(blocks), dim3(threads), shared, stream, args)
/* Allows the kernel more than 48 KiB of dynamic shared memory. Call it before the first launch on a
 * device. */
#define ALLOW_SHARED(name, bytes)                                                                  \
    cudaFuncSetAttribute(name, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(bytes))

typedef uint2 words2;
typedef uint4 words4;

extern __shared__ __align__(16) unsigned char simt_dynamic_shared[];
#define DYNAMIC_SHARED() simt_dynamic_shared

SIMT int thread_index(void) { return (int)threadIdx.x; }
SIMT int block_threads(void) { return (int)blockDim.x; }
SIMT int block_index(void) { return (int)blockIdx.x; }
SIMT int block_row(void) { return (int)blockIdx.y; }
SIMT void block_barrier(void) { __syncthreads(); }
/* Barriers that return whether any thread's flag is set, and how many are. */
SIMT bool block_any(bool flag) { return __syncthreads_or(flag); }
SIMT int block_count(bool flag) { return __syncthreads_count(flag); }

SIMT int lane_index(void) { return (int)(threadIdx.x & 31u); }
SIMT void warp_barrier(void) { __syncwarp(); }
SIMT uint32_t warp_ballot(bool flag) { return __ballot_sync(~0u, flag); }
SIMT bool warp_any(bool flag) { return __any_sync(~0u, flag); }
/* The condition of a loop that all lanes of a warp run together, until no lane goes on. Otherwise
 * lanes that have diverged in the loop may stay apart until its end. The body of the loop must not
 * call warp_ functions: on the host, each lane runs the loop alone. */
SIMT bool warp_goes_on(bool flag)
{
    return __any_sync(~0u, flag);
}
SIMT uint32_t warp_read(uint32_t value, int lane) { return __shfl_sync(~0u, value, lane); }
/* Return the value of the lane whose index is lower (warp_read_up) or higher (warp_read_down) by
 * `by`; if there is no such lane, the lane's own value. */
SIMT uint32_t warp_read_up(uint32_t value, int by) { return __shfl_up_sync(~0u, value, by); }
SIMT uint32_t warp_read_down(uint32_t value, int by) { return __shfl_down_sync(~0u, value, by); }
SIMT uint32_t warp_read_xor(uint32_t value, int mask) { return __shfl_xor_sync(~0u, value, mask); }
/* Returns the bits of the lanes that have the same value. */
SIMT uint32_t warp_match(uint32_t value)
{
    return __match_any_sync(~0u, value);
}

/* The atomic functions return the previous value. */
SIMT uint32_t atomic_add(uint32_t *at, uint32_t value) { return atomicAdd(at, value); }
SIMT uint32_t atomic_or(uint32_t *at, uint32_t value) { return atomicOr(at, value); }
SIMT uint32_t atomic_xor(uint32_t *at, uint32_t value)
{
    return atomicXor(at, value);
}
SIMT uint32_t atomic_min(uint32_t *at, uint32_t value) { return atomicMin(at, value); }
SIMT uint32_t atomic_max(uint32_t *at, uint32_t value) { return atomicMax(at, value); }

/* Exchange between blocks of threads. `publish` writes a value after the thread's earlier writes; a
 * block that reads the value with `poll` sees these, too. A loop that polls must call `relax`. It
 * may wait only for blocks that have already started, for example those with lower indices: other
 * blocks may start only after the waiting one has ended. */
SIMT void publish(uint64_t *at, uint64_t value)
{
    __threadfence();
    *(volatile unsigned long long *)at = value;
}
SIMT uint64_t poll(const uint64_t *at)
{
    uint64_t value = *(const volatile unsigned long long *)at;
    __threadfence();
    return value;
}
SIMT void publish_word(uint32_t *at, uint32_t value)
{
    __threadfence();
    *(volatile unsigned *)at = value;
}
SIMT uint32_t poll_word(const uint32_t *at)
{
    uint32_t value = *(const volatile unsigned *)at;
    __threadfence();
    return value;
}
SIMT void relax(void) { __nanosleep(20); }
/* Other blocks see the thread's earlier writes before its later ones. */
SIMT void fence_device(void)
{
    __threadfence();
}
/* Writes a value to pinned memory that the host polls. Kernels that are launched after the host has
 * seen the value see all writes that this thread has seen. */
SIMT void publish_to_host(uint32_t *at, uint32_t value)
{
    __threadfence_system();
    *(volatile unsigned *)at = value;
}
/* As poll_word, but without its guarantee about earlier writes, and faster. */
SIMT uint32_t peek_word(const uint32_t *at)
{
    return *(const volatile unsigned *)at;
}
/* As publish and poll, for a word that has all that the reader needs: nothing is guaranteed about
 * earlier writes. */
SIMT void publish_alone(uint64_t *at, uint64_t value)
{
    *(volatile unsigned long long *)at = value;
}
SIMT uint64_t poll_alone(const uint64_t *at)
{
    return *(const volatile unsigned long long *)at;
}

/* Loads of memory that nobody writes while the kernel runs. The address is a multiple of the
 * size. */
SIMT uint32_t load_word(const void *at) { return __ldg((const uint32_t *)at); }
SIMT words2 load_words2(const void *at) { return __ldg((const uint2 *)at); }
SIMT words4 load_words4(const void *at) { return __ldg((const uint4 *)at); }
/* Loads 8 aligned bytes that another block has written while the kernel runs, after a `poll` has
 * shown that they are written. Bypasses the multiprocessor's cache, which may have an older
 * value. */
SIMT words2 load_fresh(const void *at) { return __ldcg((const uint2 *)at); }
/* Loads a word that others may write after the last such load of this kernel, but before the kernel
 * ends. */
SIMT uint32_t load_reused(const uint32_t *at)
{
    uint32_t value;
    asm("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(at)));
    return value;
}
/* Loads 16 aligned bytes of the host's memory. Ignores copies in caches, which may be old. */
SIMT words4 load_host4(const void *at) { return __ldcv((const uint4 *)at); }

#else

#include "gpu/simt/simt_host.h"

#endif

/* ---- arithmetic: the same results on device and host ---- */

/* The bits in reverse order. */
DEVICE uint32_t reverse_bits(uint32_t x)
{
#ifdef __CUDA_ARCH__
    return __brev(x);
#else
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0F0F0F0F) | (x & 0x0F0F0F0F) << 4;
    return __builtin_bswap32(x);
#endif
}

/* Number of leading zeros, 32 for 0. */
DEVICE int leading_zeros(uint32_t x)
{
#ifdef __CUDA_ARCH__
    return __clz((int)x);
#else
    return x ? __builtin_clz(x) : 32;
#endif
}

/* Position of the most significant 1, -1 for 0. */
DEVICE int highest_bit(uint32_t x)
{
#ifdef __CUDA_ARCH__
    int position;
    asm("bfind.u32 %0, %1;" : "=r"(position) : "r"(x));
    return position;
#else
    return x ? 31 - __builtin_clz(x) : -1;
#endif
}

/* Position of the least significant 1, -1 for 0. */
DEVICE int lowest_bit(uint32_t x)
{
#ifdef __CUDA_ARCH__
    return __ffs((int)x) - 1;
#else
    return x ? __builtin_ctz(x) : -1;
#endif
}

DEVICE int count_bits(uint32_t x)
{
#ifdef __CUDA_ARCH__
    return __popc(x);
#else
    return __builtin_popcount(x);
#endif
}

/* Shifts the 64 bits high:low left (right) by shift % 32, and returns the upper (lower) word. */
DEVICE uint32_t funnel_left(uint32_t low, uint32_t high, uint32_t shift)
{
#ifdef __CUDA_ARCH__
    return __funnelshift_l(low, high, shift);
#else
    shift &= 31;
    return shift ? high << shift | low >> (32 - shift) : high;
#endif
}

DEVICE uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t shift)
{
#ifdef __CUDA_ARCH__
    return __funnelshift_r(low, high, shift);
#else
    shift &= 31;
    return shift ? high << (32 - shift) | low >> shift : low;
#endif
}

/* Shifts by any number of bits: 0 if shift >= 32. */
DEVICE uint32_t shift_left(uint32_t x, uint32_t shift)
{
#ifdef __CUDA_ARCH__
    uint32_t result;
    asm("shl.b32 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(shift));
    return result;
#else
    return shift < 32 ? x << shift : 0;
#endif
}

DEVICE uint32_t shift_right(uint32_t x, uint32_t shift)
{
#ifdef __CUDA_ARCH__
    uint32_t result;
    asm("shr.u32 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(shift));
    return result;
#else
    return shift < 32 ? x >> shift : 0;
#endif
}

DEVICE uint32_t multiply_high(uint32_t a, uint32_t b)
{
#ifdef __CUDA_ARCH__
    return __umulhi(a, b);
#else
    return (uint32_t)((uint64_t)a * b >> 32);
#endif
}

DEVICE uint32_t swap_bytes(uint32_t x)
{
#ifdef __CUDA_ARCH__
    return __byte_perm(x, 0, 0x0123);
#else
    return __builtin_bswap32(x);
#endif
}

/* Returns sum plus the products of the four bytes of a (unsigned) and those of b (signed). */
DEVICE int dot_bytes(uint32_t a, uint32_t b, int sum)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 610
    int result;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
#else
    for (int i = 0; i < 4; i++)
        sum += (int)(a >> 8 * i & 255) * (int8_t)(b >> 8 * i & 255);
    return sum;
#endif
}

DEVICE float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

DEVICE uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* a * b + c, rounded once. */
DEVICE float multiply_add(float a, float b, float c)
{
#ifdef __CUDA_ARCH__
    return __fmaf_rn(a, b, c);
#else
    return __builtin_fmaf(a, b, c);
#endif
}

/* Returns sum plus the products of the four bytes of a and those of b, all unsigned. */
DEVICE uint32_t dot_unsigned(uint32_t a, uint32_t b, uint32_t sum)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 610
    return __dp4a(a, b, sum);
#else
    for (int i = 0; i < 4; i++)
        sum += (a >> 8 * i & 255) * (b >> 8 * i & 255);
    return sum;
#endif
}

/* Adds the squares of the differences of the four bytes of a and b, all unsigned. */
DEVICE uint32_t add_squares(uint32_t a, uint32_t b, uint32_t sum)
{
#ifdef __CUDA_ARCH__
    uint32_t differences = __vabsdiffu4(a, b);
    return dot_unsigned(differences, differences, sum);
#else
    for (int i = 0; i < 4; i++) {
        int difference = (int)(a >> 8 * i & 255) - (int)(b >> 8 * i & 255);
        sum += (uint32_t)(difference * difference);
    }
    return sum;
#endif
}

/* Returns the bytes of high:low that the four nibbles of `selector` name, from the lowest on. Each
 * nibble is 0 to 7. */
DEVICE uint32_t select_bytes(uint32_t low, uint32_t high, uint32_t selector)
{
#ifdef __CUDA_ARCH__
    uint32_t result;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selector));
    return result;
#else
    uint64_t both = (uint64_t)high << 32 | low;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++)
        result |= (uint32_t)(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return result;
#endif
}

/* Adds the signed 16-bit halves of a and b, and limits the sums to 0 to 255. */
DEVICE uint32_t add_clip_halves(uint32_t a, uint32_t b)
{
#ifdef __CUDA_ARCH__
    return __viaddmin_s16x2_relu(a, b, 0x00FF00FFu);
#else
    int low = (int16_t)a + (int16_t)b, high = (int16_t)(a >> 16) + (int16_t)(b >> 16);
    low = low < 0 ? 0 : low > 255 ? 255 : low;
    high = high < 0 ? 0 : high > 255 ? 255 : high;
    return (uint32_t)low | (uint32_t)high << 16;
#endif
}

/* ---- reductions and scans ---- */

/* Return the sum, the least and the most of the values of all lanes, and the bits that any of them
 * has. */
SIMT uint32_t warp_sum(uint32_t value)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_add_sync(~0u, value);
#else
    for (int mask = WARP_LANES / 2; mask > 0; mask /= 2)
        value += warp_read_xor(value, mask);
    return value;
#endif
}

SIMT uint32_t warp_min(uint32_t value)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_min_sync(~0u, value);
#else
    for (int mask = WARP_LANES / 2; mask > 0; mask /= 2) {
        uint32_t other = warp_read_xor(value, mask);
        value = other < value ? other : value;
    }
    return value;
#endif
}

SIMT uint32_t warp_max(uint32_t value) { return ~warp_min(~value); }
SIMT uint32_t warp_or(uint32_t value)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_or_sync(~0u, value);
#else
    for (int mask = WARP_LANES / 2; mask > 0; mask /= 2)
        value |= warp_read_xor(value, mask);
    return value;
#endif
}

/* Returns the sum of the values of all lower lanes. *total: the sum of all lanes. */
SIMT uint32_t warp_scan(uint32_t value, uint32_t *total)
{
    uint32_t sum = value;
    UNROLL
    for (int by = 1; by < WARP_LANES; by *= 2) {
        uint32_t below = warp_read_up(sum, by);
        if (lane_index() >= by)
            sum += below;
    }
    *total = warp_read(sum, WARP_LANES - 1);
    return sum - value;
}

/* Returns the sum of the values of all lower threads of the block. *total: the sum of all threads.
 * The size of the block is a multiple of WARP_LANES. sums: WARP_LANES words of shared memory, which
 * may be used again only after another barrier. */
SIMT uint32_t block_scan(uint32_t value, uint32_t *total, uint32_t *sums)
{
    int lane = lane_index(), warp = thread_index() / WARP_LANES;
    int warps = block_threads() / WARP_LANES;
    uint32_t of_warp, all;
    uint32_t below = warp_scan(value, &of_warp);
    block_barrier();
    if (lane == 0)
        sums[warp] = of_warp;
    block_barrier();
    uint32_t before = warp_scan(lane < warps ? sums[lane] : 0, &all);
    *total = all;
    return warp_read(before, warp) + below;
}
