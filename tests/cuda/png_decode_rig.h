/*
 * png_decode_rig.h - batches of PNG files for gpu/png/decode.h, on the host or on a device, and
 * libpng's pixels of them.
 */
#pragma once

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/png/png_state.h"
#include "gpu/png/decode.h"
#include "tests/fixtures/picture.h"

#define RIG_GUARD   256
#define RIG_PATTERN 0xA5

#define CHECK_CUDA(call)                                                                           \
    do {                                                                                           \
        int rig_status = (int)(call);                                                              \
        if (rig_status != 0) {                                                                     \
            fprintf(stderr, "%s:%d: %s: CUDA error %d\n", __FILE__, __LINE__, #call, rig_status);  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* An image of a batch. */
struct rig_image {
    struct picture_file file; /* not owned */
    struct png_frame frame;
    struct image image; /* pixels: in the device's buffer */
    size_t file_at, image_at, work_at, work_bytes;
    uint32_t verdict;
};

struct rig_batch {
    struct rig_image *images;
    size_t count, file_bytes, pixel_bytes, work_bytes, descriptor_bytes;
    uint8_t *files, *pixels, *work, *descriptors; /* device */
    uint8_t *host_files, *host_pixels, *host_work, *host_descriptors;
    uint32_t *verdicts, *host_verdicts;
    struct png_decode_batch batch;
};

static inline void *rig_device(size_t bytes)
{
    void *memory = NULL;
    CHECK_CUDA(cudaMalloc(&memory, bytes));
    return memory;
}

static inline uint8_t *rig_filled(size_t bytes)
{
    uint8_t *memory = malloc(bytes);
    memset(memory, RIG_PATTERN, bytes);
    return memory;
}

static inline void rig_upload(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    CHECK_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
}

static inline void rig_download(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    CHECK_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream));
}

/* Places the images in the buffers, with guards between them. */
static inline void rig_place(struct rig_batch *batch)
{
    batch->pixel_bytes = batch->work_bytes = RIG_GUARD;
    for (size_t i = 0; i < batch->count; i++) {
        struct rig_image *image = &batch->images[i];
        struct image *size = &image->image;
        size->width = image->frame.width;
        size->height = image->frame.height;
        size->channels = image->frame.channels;
        size->stride = image_stride(size->width, size->channels);
        image->file_at = batch->file_bytes;
        batch->file_bytes += buffer_align(image->file.length);
        image->image_at = batch->pixel_bytes;
        batch->pixel_bytes += buffer_align(size->stride * size->height) + RIG_GUARD;
        image->work_at = batch->work_bytes;
        image->work_bytes = png_decode_work_bytes(&image->frame, image->file.length);
        batch->work_bytes += image->work_bytes + RIG_GUARD;
    }
}

static inline void rig_describe(struct rig_batch *batch)
{
    struct png_decode_image *items = calloc(batch->count, sizeof *items);
    for (size_t i = 0; i < batch->count; i++) {
        struct rig_image *image = &batch->images[i];
        image->image.pixels = batch->pixels + image->image_at;
        items[i].frame = &image->frame;
        items[i].file = batch->files + image->file_at;
        items[i].file_bytes = (uint32_t)image->file.length;
        items[i].image = image->image;
        items[i].verdict = batch->verdicts + i;
        items[i].work = batch->work + image->work_at;
    }
    batch->descriptor_bytes = png_decode_describe(items, batch->count, NULL, 0, &batch->batch);
    batch->host_descriptors = aligned_alloc(256, batch->descriptor_bytes);
    batch->descriptors = rig_device(batch->descriptor_bytes);
    if (png_decode_describe(items, batch->count, batch->host_descriptors, batch->descriptor_bytes,
                            &batch->batch) != batch->descriptor_bytes)
        abort();
    free(items);
}

/* Allocates the memory of a batch, fills it with a pattern, and describes the batch. The images
 * have their file and frame. */
static inline void rig_begin(struct rig_batch *batch, struct rig_image *images, size_t count)
{
    memset(batch, 0, sizeof *batch);
    batch->images = images;
    batch->count = count;
    rig_place(batch);
    batch->files = rig_device(batch->file_bytes);
    batch->pixels = rig_device(batch->pixel_bytes);
    batch->work = rig_device(batch->work_bytes);
    batch->verdicts = rig_device(count * sizeof(uint32_t));
    batch->host_files = rig_filled(batch->file_bytes);
    batch->host_pixels = rig_filled(batch->pixel_bytes);
    batch->host_work = rig_filled(batch->work_bytes);
    batch->host_verdicts = (uint32_t *)(void *)rig_filled(count * sizeof(uint32_t));
    for (size_t i = 0; i < count; i++)
        memcpy(batch->host_files + images[i].file_at, images[i].file.bytes, images[i].file.length);
    rig_describe(batch);
}

/* Uploads everything, and launches. */
static inline void rig_launch(struct rig_batch *batch, cudaStream_t stream)
{
    rig_upload(batch->pixels, batch->host_pixels, batch->pixel_bytes, stream);
    rig_upload(batch->work, batch->host_work, batch->work_bytes, stream);
    rig_upload(batch->verdicts, batch->host_verdicts, batch->count * sizeof(uint32_t), stream);
    rig_upload(batch->files, batch->host_files, batch->file_bytes, stream);
    rig_upload(batch->descriptors, batch->host_descriptors, batch->descriptor_bytes, stream);
    CHECK_CUDA(png_decode_inflate(&batch->batch, batch->descriptors, stream));
    CHECK_CUDA(png_decode_rows(&batch->batch, batch->descriptors, stream));
}

static inline bool rig_is_pattern(const uint8_t *bytes, size_t from, size_t end)
{
    for (size_t i = from; i < end; i++)
        if (bytes[i] != RIG_PATTERN)
            return false;
    return true;
}

/* Downloads pixels and verdicts. Returns whether nothing was written outside images and work. */
static inline bool rig_fetch(struct rig_batch *batch, cudaStream_t stream)
{
    size_t pixels_end = 0, work_end = 0;
    bool intact = true;
    rig_download(batch->host_pixels, batch->pixels, batch->pixel_bytes, stream);
    rig_download(batch->host_work, batch->work, batch->work_bytes, stream);
    rig_download(batch->host_verdicts, batch->verdicts, batch->count * sizeof(uint32_t), stream);
    CHECK_CUDA(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < batch->count; i++) {
        struct rig_image *image = &batch->images[i];
        image->verdict = batch->host_verdicts[i];
        intact &= rig_is_pattern(batch->host_pixels, pixels_end, image->image_at) &&
                  rig_is_pattern(batch->host_work, work_end, image->work_at);
        pixels_end = image->image_at + image->image.stride * image->image.height;
        work_end = image->work_at + image->work_bytes;
    }
    return intact && rig_is_pattern(batch->host_pixels, pixels_end, batch->pixel_bytes) &&
           rig_is_pattern(batch->host_work, work_end, batch->work_bytes);
}

static inline void rig_end(struct rig_batch *batch)
{
    void *device[] = {batch->files, batch->pixels, batch->work, batch->descriptors,
                      batch->verdicts};
    void *host[] = {batch->host_files, batch->host_pixels, batch->host_work,
                    batch->host_descriptors, batch->host_verdicts};
    for (size_t i = 0; i < sizeof device / sizeof *device; i++)
        CHECK_CUDA(cudaFree(device[i]));
    for (size_t i = 0; i < sizeof host / sizeof *host; i++)
        free(host[i]);
}

/* Number of bytes that differ from libpng's pixels; SIZE_MAX if libpng refuses the file. */
static inline size_t rig_differences(const struct rig_batch *batch, const struct rig_image *image)
{
    static const struct codec_limits limits = {.side_max = SIDE_CEILING, .pixels_max = 1ull << 32};
    struct image wanted = image->image;
    struct png_state *state = calloc(1, sizeof *state);
    struct error error = {0};
    size_t row = (size_t)wanted.width * wanted.channels, wrong = 0;
    wanted.pixels = calloc(wanted.height, wanted.stride);
    if (png_decode_by_libpng(state, image->file.bytes, image->file.length, NULL, NULL, &limits,
                             &wanted, &error) != STATUS_OK)
        wrong = SIZE_MAX;
    for (uint32_t y = 0; wrong != SIZE_MAX && y < wanted.height; y++) {
        const uint8_t *ours = batch->host_pixels + image->image_at + y * wanted.stride;
        const uint8_t *theirs = wanted.pixels + y * wanted.stride;
        for (size_t x = 0; memcmp(ours, theirs, row) != 0 && x < row; x++)
            wrong += ours[x] != theirs[x];
    }
    free(wanted.pixels);
    free(state);
    return wrong;
}
