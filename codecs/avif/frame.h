/*
 * frame.h - the contents of AVIF headers, for encoders of the image, also on GPUs (gpu/avif/).
 *
 * The struct has no pointers, so it can be copied to a GPU.
 */
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define AVIF_DEVICE static __host__ __device__ inline
#else
#define AVIF_DEVICE static inline __attribute__((unused))
#endif

/* An AVIF up to its coded image, which ends the file. codecs/avif/header.c fills it in. Two lengths
 * are missing, because they depend on the size of the coded image: avif_prelude_end. */
struct avif_prelude {
    uint32_t bytes;           /* the file up to the coded image */
    uint32_t image_length_at; /* offset of the length of the coded image in the box iloc */
    uint32_t media_at;        /* offset of the box mdat, which begins with its size */
    uint8_t file[];
};

AVIF_DEVICE void avif_put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Sets the two lengths for a coded image of so many bytes, in a copy of prelude->file. */
AVIF_DEVICE void avif_prelude_end(const struct avif_prelude *prelude, uint32_t image_bytes,
                                  uint8_t *file)
{
    avif_put_u32(file + prelude->image_length_at, image_bytes);
    avif_put_u32(file + prelude->media_at, prelude->bytes - prelude->media_at + image_bytes);
}
