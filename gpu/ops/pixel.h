/*
 * pixel.h - writes per-pixel arithmetic once for both engines.
 *
 * PIXEL marks a function that both the C compiler and nvcc compile. It uses integers, or floats
 * whose every step is exact or correctly rounded, so that the results are bit-identical.
 */
#ifndef GPUIMGD_GPU_OPS_PIXEL_H
#define GPUIMGD_GPU_OPS_PIXEL_H

#include <stdint.h>

#ifdef __CUDACC__
#define PIXEL static __host__ __device__ __forceinline__
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

#endif
