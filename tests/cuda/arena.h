/*
 * arena.h - a block of device memory with guards, and its contents on the host before and after
 * kernels have run. For the tests of the encoders.
 */
#pragma once

#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/image.h"
#include "tests/fixtures/test.h"

#define ARENA_GUARD 256
#define ARENA_FILL  0xA5

struct arena {
    uint8_t *device, *before, *after;
    size_t bytes;
};

static inline void check(cudaError_t status)
{
    if (status != cudaSuccess)
        fail_msg("CUDA: %s", cudaGetErrorString(status));
}

static inline size_t arena_take(struct arena *arena, size_t bytes)
{
    size_t at = arena->bytes;
    arena->bytes += buffer_align(bytes + ARENA_GUARD);
    return at;
}

static inline void arena_open(struct arena *arena)
{
    check(cudaMalloc((void **)&arena->device, arena->bytes));
    arena->before = malloc(arena->bytes);
    arena->after = malloc(arena->bytes);
    memset(arena->before, ARENA_FILL, arena->bytes);
}

static inline void arena_upload(const struct arena *arena, cudaStream_t stream)
{
    check(cudaMemcpyAsync(arena->device, arena->before, arena->bytes, cudaMemcpyHostToDevice,
                          stream));
}

static inline void arena_download(const struct arena *arena, cudaStream_t stream)
{
    check(
        cudaMemcpyAsync(arena->after, arena->device, arena->bytes, cudaMemcpyDeviceToHost, stream));
    check(cudaStreamSynchronize(stream));
}

/* The encoder may write these bytes: the rest must equal the bytes before. */
static inline void arena_allow(struct arena *arena, size_t at, size_t bytes)
{
    memcpy(arena->after + at, arena->before + at, bytes);
}

/* No byte that is not allowed has changed. */
static inline void arena_check_rest(const struct arena *arena)
{
    if (memcmp(arena->before, arena->after, arena->bytes) == 0)
        return;
    for (size_t i = 0; i < arena->bytes; i++)
        if (arena->before[i] != arena->after[i])
            fail_msg("byte %zu of the device memory became %u", i, arena->after[i]);
}

static inline void arena_close(struct arena *arena)
{
    check(cudaFree(arena->device));
    free(arena->before);
    free(arena->after);
}
