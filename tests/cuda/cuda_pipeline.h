/* cuda_pipeline.h - asynchronous copies to shared memory: on the host, they are made at once. */
#pragma once

#include <string.h>

static inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
static inline void __pipeline_commit()
{
}
static inline void __pipeline_wait_prior(int)
{
}
