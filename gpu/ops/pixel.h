/*
 * pixel.h - what the CPU loops and the kernels of operations share: markers of functions, and the
 * values of pixels outside of an image.
 *
 * PIXEL marks a function that both the C compiler and nvcc compile. It computes with integers, or
 * with floats whose every step is exact or correctly rounded, so that both engines give the same
 * bits. SIMT marks a function that only kernels call, and unrolled_for a loop whose variables stay
 * in registers.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define PIXEL static __host__ __device__ __forceinline__
#define SIMT static __device__ __forceinline__
#define unrolled_for _Pragma("unroll") for
#else
#define PIXEL static inline __attribute__((always_inline))
#endif

/* Compiles a loop for three instruction sets, of which the dynamic loader chooses one at start.
 * Builds with sanitizers cannot use this, because the choice runs before the sanitizer is ready. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__) &&     \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VECTOR_CLONES                                                                              \
    __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define VECTOR_CLONES
#endif

/* Calls a function whose last parameter is the number of channels: 1, 3 or 4. The argument is a
 * compile-time constant, for speed. */
#define BY_CHANNELS(channels, function, ...)                                                       \
    ((channels) == 1   ? function(__VA_ARGS__, 1)                                                  \
     : (channels) == 3 ? function(__VA_ARGS__, 3)                                                  \
                       : function(__VA_ARGS__, 4))

/* Which values the pixels outside of an image have, for operations that read neighbours. reflect101
 * mirrors the image without repeating the outermost pixel (OpenCV's default), several times if the
 * neighbourhood is larger than the image. replicate repeats the outermost pixel. If a side has only
 * one pixel, both repeat it. */
enum border { BORDER_REFLECT101, BORDER_REPLICATE, BORDER_ZERO };
/* The values of the parameter `border` in jobs, in the order of the enum. */
#define BORDER_WORDS ((const char *const[]){"reflect101", "replicate", "zero", NULL})

/* Returns the index, 0 to size - 1, of the pixel whose value a pixel at `index` has. -1: the value
 * is 0. */
PIXEL int border_inside(int index, int size, enum border border)
{
    if (index >= 0 && index < size)
        return index;
    if (border == BORDER_ZERO)
        return -1;
    if (border == BORDER_REPLICATE || size == 1)
        return index < 0 ? 0 : size - 1;
    while (index < 0 || index >= size)
        index = index < 0 ? -index : 2 * size - 2 - index;
    return index;
}
