/*
 * jpeg_progressive_rig.h - decodes batches of progressive JPEGs on the device and compares their
 * coefficients with libjpeg-turbo's. test_jpeg_decode.c tests the samples of coefficients.
 */
#pragma once

#include <assert.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime.h>
#include <jpeglib.h>

#include "codecs/codec.h"
#include "codecs/jpeg/zigzag.h"
#include "gpu/jpeg/coefficients.h"
#include "gpu/jpeg/progressive.h"

#define RIG_GUARD 256
#define RIG_FILL 0xA5

/* ---- the reference ---- */

struct rig_errors {
    struct jpeg_error_mgr base;
    jmp_buf jump;
};

static void rig_fail(j_common_ptr common)
{
    longjmp(((struct rig_errors *)common->err)->jump, 1);
}

static void rig_be_silent(j_common_ptr common)
{
    (void)common;
}

static struct jpeg_error_mgr *rig_set_errors(struct rig_errors *errors)
{
    jpeg_std_error(&errors->base);
    errors->base.error_exit = rig_fail;
    errors->base.output_message = rig_be_silent;
    return &errors->base;
}

/* libjpeg-turbo's coefficients of a component in zigzag order, block by block. */
struct rig_reference {
    int16_t *values[JPEG_COMPONENTS_MAX];
    uint32_t across[JPEG_COMPONENTS_MAX], down[JPEG_COMPONENTS_MAX];
};

static const uint8_t rig_zigzag[64] = JPEG_NATURAL_OF_ZIGZAG;

static void rig_take_component(j_decompress_ptr reader, jvirt_barray_ptr array, int component,
                               struct rig_reference *reference)
{
    const jpeg_component_info *info = &reader->comp_info[component];
    uint32_t across = info->width_in_blocks, down = info->height_in_blocks;
    int16_t *to = malloc((size_t)across * down * 64 * sizeof *to);
    reference->values[component] = to;
    reference->across[component] = across;
    reference->down[component] = down;
    for (uint32_t y = 0; y < down; y++) {
        JBLOCKARRAY row = reader->mem->access_virt_barray((j_common_ptr)reader, array, y, 1, FALSE);
        for (uint32_t x = 0; x < across; x++)
            for (int k = 0; k < 64; k++)
                *to++ = row[0][x][rig_zigzag[k]];
    }
}

static void rig_free_reference(struct rig_reference *reference)
{
    for (int i = 0; i < JPEG_COMPONENTS_MAX; i++)
        free(reference->values[i]);
    memset(reference, 0, sizeof *reference);
}

/* Returns false if libjpeg-turbo reports an error or a warning. */
static bool rig_read_reference(const uint8_t *bytes, size_t length,
                               struct rig_reference *reference)
{
    struct jpeg_decompress_struct reader;
    struct rig_errors errors;
    memset(reference, 0, sizeof *reference);
    reader.err = rig_set_errors(&errors);
    bool right = false;
    jpeg_create_decompress(&reader);
    if (!setjmp(errors.jump)) {
        jpeg_mem_src(&reader, bytes, length);
        jpeg_read_header(&reader, TRUE);
        jvirt_barray_ptr *arrays = jpeg_read_coefficients(&reader);
        if (reader.num_components <= JPEG_COMPONENTS_MAX)
            for (int i = 0; i < reader.num_components; i++)
                rig_take_component(&reader, arrays[i], i, reference);
        jpeg_finish_decompress(&reader);
        right = errors.base.num_warnings == 0;
    }
    jpeg_destroy_decompress(&reader);
    return right;
}

/* ---- batches ---- */

/* A file of a batch. The caller sets the first members. */
struct rig_file {
    const uint8_t *bytes;
    size_t length;
    bool luma_only;
    /* results */
    struct jpeg_frame frame;
    bool taken; /* by the host part */
    size_t work_bytes;
    uint32_t verdict, ended, plane_count;
    struct jpeg_plane planes[JPEG_COMPONENTS_MAX];
    uint8_t *file, *work; /* on the device */
};

static void rig_check(int status, const char *what)
{
    if (status != 0) {
        fprintf(stderr, "%s: CUDA error %d, %s\n", what, status,
                cudaGetErrorString((cudaError_t)status));
        abort();
    }
}

static uint8_t *rig_malloc(size_t bytes)
{
    void *memory = NULL;
    rig_check(cudaMalloc(&memory, bytes), "cudaMalloc");
    return memory;
}

/* The stream of all calls that name none. */
static cudaStream_t rig_stream(void)
{
    static cudaStream_t stream;
    if (stream == NULL)
        rig_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    return stream;
}

static void rig_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaStream_t stream = rig_stream();
    rig_check(cudaMemcpyAsync(to, from, bytes, kind, stream), "cudaMemcpyAsync");
    rig_check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

static size_t rig_round(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Everything of a batch on the device: one allocation, with guards around each part. */
struct rig_batch {
    struct rig_file *files; /* of the caller */
    uint32_t count, taken;
    struct jpeg_progressive_image *images;
    struct rig_file **of_image;
    struct jpeg_progressive_batch batch;
    uint8_t *memory, *host; /* the same bytes on the device and on the host */
    size_t bytes, descriptor_bytes;
    uint8_t *descriptors, *verdicts; /* on the device; verdicts: and then the words `ended` */
};

static void rig_read_frames(struct codec_context *context, struct rig_batch *batch)
{
    static const struct codec_limits limits = {.jpeg_scans_max = 100};
    const struct image_info jpeg = {.format = &formats[FORMAT_jpeg]};
    batch->taken = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct rig_file *file = &batch->files[i];
        file->taken = codec_read_frame(context, file->bytes, file->length, &jpeg, &limits,
                                       &file->frame);
        if (file->taken)
            file->work_bytes = jpeg_progressive_work_bytes(&file->frame, (uint32_t)file->length,
                                                           file->luma_only);
        file->taken &= file->work_bytes > 0;
        batch->taken += file->taken;
    }
}

/* Returns the offset of a part with guards. */
static size_t rig_part(size_t *at, size_t bytes)
{
    size_t start = *at + RIG_GUARD;
    *at = start + rig_round(bytes) + RIG_GUARD;
    return start;
}

static void rig_place(struct rig_batch *batch, uint8_t *base)
{
    size_t at = 0;
    uint32_t image = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct rig_file *file = &batch->files[i];
        if (!file->taken)
            continue;
        file->file = base + rig_part(&at, file->length);
        file->work = base + rig_part(&at, file->work_bytes);
        batch->of_image[image] = file;
        batch->images[image++] = (struct jpeg_progressive_image){
            &file->frame, file->file, (uint32_t)file->length, file->luma_only, file->work,
            NULL,         NULL};
    }
    batch->descriptors = base + rig_part(&at, batch->descriptor_bytes);
    batch->verdicts = base + rig_part(&at, 2 * batch->taken * sizeof(uint32_t));
    for (uint32_t i = 0; i < batch->taken; i++) {
        batch->images[i].verdict = (uint32_t *)(void *)batch->verdicts + i;
        batch->images[i].ended = batch->images[i].verdict + batch->taken;
    }
    batch->bytes = at;
}

/* Reads the frames and fills the batch's memory on the host: files, descriptors, guards. */
static void rig_open_batch(struct codec_context *context, struct rig_batch *batch,
                           struct rig_file *files, uint32_t count)
{
    memset(batch, 0, sizeof *batch);
    batch->files = files;
    batch->count = count;
    rig_read_frames(context, batch);
    batch->images = calloc(batch->taken + 1, sizeof *batch->images);
    batch->of_image = calloc(batch->taken + 1, sizeof *batch->of_image);
    if (batch->taken == 0)
        return;
    rig_place(batch, NULL);
    batch->descriptor_bytes =
        jpeg_progressive_describe(batch->images, batch->taken, NULL, 0, &batch->batch);
    rig_place(batch, NULL);
    batch->memory = rig_malloc(batch->bytes);
    rig_place(batch, batch->memory);
    batch->host = malloc(batch->bytes);
    memset(batch->host, RIG_FILL, batch->bytes);
    size_t bytes = jpeg_progressive_describe(
        batch->images, batch->taken, batch->host + (batch->descriptors - batch->memory),
        batch->descriptor_bytes, &batch->batch);
    assert(bytes == batch->descriptor_bytes);
    (void)bytes;
    for (uint32_t i = 0; i < batch->taken; i++) {
        struct rig_file *file = batch->of_image[i];
        memcpy(batch->host + (file->file - batch->memory), file->bytes, file->length);
        file->plane_count = jpeg_progressive_planes(&file->frame, file->luma_only, file->work,
                                                    file->planes);
    }
}

static void rig_upload(struct rig_batch *batch)
{
    rig_copy(batch->memory, batch->host, batch->bytes, cudaMemcpyHostToDevice);
}

static void rig_launch(struct rig_batch *batch, cudaStream_t stream)
{
    rig_check(jpeg_progressive_decode(&batch->batch, batch->descriptors, stream),
              "jpeg_progressive_decode");
    rig_check(jpeg_progressive_complete(&batch->batch, batch->descriptors, stream),
              "jpeg_progressive_complete");
}

static void rig_download(struct rig_batch *batch)
{
    rig_copy(batch->host, batch->memory, batch->bytes, cudaMemcpyDeviceToHost);
    const uint8_t *verdicts = batch->host + (batch->verdicts - batch->memory);
    for (uint32_t i = 0; i < batch->taken; i++) {
        memcpy(&batch->of_image[i]->verdict, verdicts + 4 * i, sizeof(uint32_t));
        memcpy(&batch->of_image[i]->ended, verdicts + 4 * (batch->taken + i), sizeof(uint32_t));
    }
}

static const uint8_t *rig_host(const struct rig_batch *batch, const void *device)
{
    return batch->host + ((const uint8_t *)device - batch->memory);
}

static bool rig_is_fill(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != RIG_FILL)
            return false;
    return true;
}

static bool rig_guards_hold(const struct rig_batch *batch, const void *device, size_t bytes)
{
    const uint8_t *at = rig_host(batch, device);
    return rig_is_fill(at - RIG_GUARD, RIG_GUARD) &&
           rig_is_fill(at + bytes, rig_round(bytes) - bytes + RIG_GUARD);
}

/* Whether nothing was written outside of the parts. */
static bool rig_all_guards_hold(const struct rig_batch *batch)
{
    bool hold = true;
    for (uint32_t i = 0; i < batch->taken; i++) {
        const struct rig_file *file = batch->of_image[i];
        hold &= rig_guards_hold(batch, file->file, file->length) &&
                memcmp(rig_host(batch, file->file), file->bytes, file->length) == 0 &&
                rig_guards_hold(batch, file->work, file->work_bytes);
    }
    return hold && rig_guards_hold(batch, batch->verdicts, 2 * batch->taken * sizeof(uint32_t));
}

static bool rig_coefficients_equal(const struct rig_batch *batch, const struct rig_file *file,
                                   const struct rig_reference *reference)
{
    for (uint32_t c = 0; c < file->plane_count; c++) {
        const struct jpeg_plane *plane = &file->planes[c];
        const int16_t *values = (const int16_t *)(const void *)rig_host(batch, plane->values);
        if (plane->across != reference->across[c] || plane->down != reference->down[c])
            return false;
        for (uint32_t block = 0; block < plane->across * plane->down; block++)
            for (uint32_t k = 0; k < 64; k++)
                if (values[jpeg_coefficient(block, k)] !=
                    reference->values[c][(size_t)block * 64 + k])
                    return false;
    }
    return true;
}

static void rig_close_batch(struct rig_batch *batch)
{
    if (batch->memory)
        rig_check(cudaFree(batch->memory), "cudaFree");
    free(batch->host);
    free(batch->images);
    free(batch->of_image);
}
