/*
 * pixel.h - per-pixel arithmetic, written once for both engines, and the borders of images.
 *
 * PIXEL marks a function that both the C compiler and nvcc compile. It uses integers, or floats
 * whose every step is exact or correctly rounded, so that the results are bit-identical. SIMT
 * marks a function of kernels alone, and unrolled_for a loop whose variables stay in registers.
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

/* Compiles a loop for three instruction sets; the loader chooses one at start. Sanitized builds do
 * without, because the resolvers run before the sanitizer's runtime is ready. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__) &&     \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VECTOR_CLONES                                                                              \
    __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define VECTOR_CLONES
#endif

/* Calls a function whose last parameter is the number of channels with a compile-time constant, for
 * speed: 1, 3 or 4. */
#define BY_CHANNELS(channels, function, ...)                                                       \
    ((channels) == 1   ? function(__VA_ARGS__, 1)                                                  \
     : (channels) == 3 ? function(__VA_ARGS__, 3)                                                  \
                       : function(__VA_ARGS__, 4))

/* What is outside an image: pixels inside it, for neighbourhood operations. reflect101 mirrors
 * without repeating the outermost pixel (OpenCV's default), repeatedly if the neighbourhood is
 * larger than the image. A side of one pixel reflects onto itself. */
enum border { BORDER_REFLECT101, BORDER_REPLICATE, BORDER_ZERO };
/* The names in jobs. */
#define BORDER_WORDS ((const char *const[]){"reflect101", "replicate", "zero", NULL})

/* Maps any index to 0..size-1. Returns -1 for an index outside the image with BORDER_ZERO. */
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
