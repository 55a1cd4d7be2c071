/*
 * jpeg_image.h - describes photographs to the decoders of a device, for the parts of bench_jpeg.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "gpu/jpeg/coefficients.h"
#include "gpu/jpeg/decode.h"
#include "gpu/jpeg/progressive.h"
#include "tests/bench/jpeg_photos.h"

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int status_ = (int)(call);                                                                 \
        if (status_ != 0) {                                                                        \
            fprintf(stderr, "%s: CUDA error %d\n", #call, status_);                                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Room for the descriptions of one launch. */
static inline size_t description_room(size_t images)
{
    return (64 << 10) + images * (32 << 10);
}

/* `needed`: what a describe function has returned. */
static inline void description_check(size_t needed, size_t images)
{
    if (needed <= description_room(images))
        return;
    fprintf(stderr, "the description of %zu images takes %zu bytes; there is room for %zu\n",
            images, needed, description_room(images));
    exit(1);
}

static inline size_t scans_work_bytes(const struct photo *photo, const struct jpeg_work *work)
{
    return jpeg_progressive_work_bytes(photo->frame, (uint32_t)photo->length,
                                       work->as == DECODE_LUMA);
}

/* The scans of a progressive photograph, to coefficients in `memory`. Sets the planes. */
static inline struct jpeg_progressive_image scans_of(const struct photo *photo,
                                                     const struct jpeg_work *work,
                                                     const uint8_t *file, uint8_t *memory,
                                                     uint32_t *verdict, struct jpeg_plane *planes)
{
    bool luma_only = work->as == DECODE_LUMA;
    jpeg_progressive_planes(photo->frame, luma_only, memory, planes);
    return (struct jpeg_progressive_image){.frame = photo->frame, .file = file,
                                           .file_bytes = (uint32_t)photo->length,
                                           .luma_only = luma_only, .work = memory,
                                           .verdict = verdict};
}

static inline size_t decode_work_bytes(const struct photo *photo, const struct jpeg_work *work)
{
    return jpeg_decode_work_bytes(photo->frame, photo->length, work->as, work->eighths);
}

/* The decode of a sequential photograph; the caller adds the coefficients of a progressive one. */
static inline struct jpeg_decode_image decode_of(const struct photo *photo,
                                                 const struct jpeg_work *work, const uint8_t *file,
                                                 const struct image *image, uint8_t *memory,
                                                 uint32_t *verdict)
{
    return (struct jpeg_decode_image){.frame = photo->frame, .file = file,
                                      .file_bytes = (uint32_t)photo->length, .as = work->as,
                                      .eighths = work->eighths, .image = *image,
                                      .verdict = verdict, .work = memory};
}
