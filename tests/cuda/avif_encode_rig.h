/*
 * avif_encode_rig.h - encodes batches of images with the AV1 encoder of devices, and compares the
 * files with those of the host, byte by byte.
 *
 * The images of a batch, their files and their work memory lie in one block of device memory with
 * guard bytes between them. After a launch the block may differ only where the encoder may write.
 */
#pragma once

#include <cuda_runtime.h>

#include "gpu/avif/encode.h"
#include "tests/cuda/arena.h"
#include "tests/fixtures/drawing.h"
#include "tests/fixtures/picture.h"

enum { AVIF_BATCH_MAX = 512 };

struct avif_case {
    uint32_t width, height, channels;
    struct avif_encode_options options;
    enum drawing_kind kind;
    uint32_t seed;
    size_t header_bytes, trailer_bytes;
    bool patches;     /* the header has two lengths, at 4 and 8 */
    bool may_decline; /* noise */

    /* Of the batch. */
    struct image image; /* on the host */
    struct picture_file reference;
    size_t pixels_at, work_at, work_bytes, file_at, capacity, header_at;
};

static struct {
    struct avif_case cases[AVIF_BATCH_MAX];
    struct avif_encode_image images[AVIF_BATCH_MAX];
    size_t count, headers_bytes, lengths_at, description_at, description_bytes;
    struct avif_encode_batch batch;
    struct arena arena;
    uint8_t *headers; /* pinned */
    cudaStream_t stream;
    size_t equal, declined, different;
} avif;

/* ---- references ---- */

static void put_big_endian(uint8_t *at, size_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* The file that the host's encoder gives, with a header and a trailer of certain bytes. */
static void make_avif_reference(struct avif_case *self)
{
    const struct image *image = &self->image;
    size_t room = 4 * avif_encode_capacity(image->width, image->height, image->channels), bytes;
    size_t work_bytes =
        avif_encode_work_bytes(image->width, image->height, image->channels, self->options.effort);
    void *work = aligned_alloc(BUFFER_ALIGN, work_bytes);
    uint8_t *file = malloc(room + self->header_bytes + self->trailer_bytes);
    assert_non_null(work);
    assert_non_null(file);
    memset(file, 'h', self->header_bytes);
    assert_int_equal(avif_encode_pixels(image, &self->options, NULL, NULL, work,
                                        file + self->header_bytes, room, &bytes),
                     STATUS_OK);
    if (self->patches) {
        put_big_endian(file + 4, bytes);
        put_big_endian(file + 8, self->header_bytes - 8 + bytes);
    }
    memset(file + self->header_bytes + bytes, 't', self->trailer_bytes);
    self->reference = (struct picture_file){file, self->header_bytes + bytes + self->trailer_bytes};
    free(work);
}

/* ---- batches ---- */

static void add_avif_case(const struct avif_case *case_of)
{
    assert_true(avif.count < AVIF_BATCH_MAX);
    struct avif_case *self = &avif.cases[avif.count++];
    *self = *case_of;
    self->image = drawing_make(self->kind, self->width, self->height, self->channels, self->seed);
    make_avif_reference(self);
}
#define add_avif(...) add_avif_case(&(struct avif_case){__VA_ARGS__})

static void take_avif_memory(struct avif_case *self)
{
    self->header_at = avif.headers_bytes;
    avif.headers_bytes += buffer_align(self->header_bytes + self->trailer_bytes);
    self->capacity = avif_device_capacity(self->width, self->height, self->channels,
                                          self->header_bytes, self->trailer_bytes);
    self->work_bytes =
        avif_device_work_bytes(self->width, self->height, self->channels, self->options.quality);
    assert_true(self->capacity > 0 && self->work_bytes > 0);
    self->pixels_at = arena_take(&avif.arena, self->image.stride * self->image.height);
    self->work_at = arena_take(&avif.arena, self->work_bytes);
    self->file_at = arena_take(&avif.arena, self->capacity);
}

static void fill_avif_image(size_t i)
{
    const struct avif_case *self = &avif.cases[i];
    uint8_t *device = avif.arena.device;
    avif.images[i] = (struct avif_encode_image){
        .source = self->image,
        .options = self->options,
        .header = avif.headers + self->header_at,
        .header_bytes = self->header_bytes,
        .trailer_bytes = self->trailer_bytes,
        .image_length_at = self->patches ? 4 : 0,
        .media_at = self->patches ? 8 : 0,
        .work = device + self->work_at,
        .file = device + self->file_at,
        .capacity = self->capacity,
        .file_bytes = (uint32_t *)(void *)(device + avif.lengths_at) + i,
    };
    avif.images[i].source.pixels = device + self->pixels_at;
    memset(avif.headers + self->header_at, 'h', self->header_bytes);
    memset(avif.headers + self->header_at + self->header_bytes, 't', self->trailer_bytes);
}

static void open_avif_batch(void)
{
    avif.headers_bytes = BUFFER_ALIGN;
    avif.arena = (struct arena){.bytes = ARENA_GUARD};
    for (size_t i = 0; i < avif.count; i++)
        take_avif_memory(&avif.cases[i]);
    check(cudaHostAlloc((void **)&avif.headers, avif.headers_bytes, cudaHostAllocPortable));
    avif.lengths_at = arena_take(&avif.arena, avif.count * sizeof(uint32_t));
    avif.description_bytes = sizeof(struct avif_encode_batch); /* not yet known */
    for (size_t i = 0; i < avif.count; i++)
        fill_avif_image(i);
    avif.description_bytes =
        avif_encode_describe(avif.images, (uint32_t)avif.count, NULL, 0, &avif.batch);
    assert_true(avif.description_bytes < SIZE_MAX);
    avif.description_at = arena_take(&avif.arena, avif.description_bytes);
    arena_open(&avif.arena);
    for (size_t i = 0; i < avif.count; i++) {
        const struct avif_case *self = &avif.cases[i];
        fill_avif_image(i);
        memcpy(avif.arena.before + self->pixels_at, self->image.pixels,
               self->image.stride * self->image.height);
        /* No file may depend on it. */
        memset(avif.arena.before + self->work_at, (int)(i * 0x95 + avif.equal), self->work_bytes);
    }
    assert_int_equal(avif_encode_describe(avif.images, (uint32_t)avif.count,
                                          avif.arena.before + avif.description_at,
                                          avif.description_bytes, &avif.batch),
                     avif.description_bytes);
    arena_upload(&avif.arena, avif.stream);
}

static void compare_avif_case(size_t i)
{
    const struct avif_case *self = &avif.cases[i];
    const struct picture_file *want = &self->reference;
    const uint8_t *got = avif.arena.after + self->file_at;
    uint32_t length;
    memcpy(&length, avif.arena.after + avif.lengths_at + i * sizeof length, sizeof length);
    size_t same = 0;
    while (same < length && same < want->length && got[same] == want->bytes[same])
        same++;
    if (length == 0 && self->may_decline) {
        avif.declined++;
    } else if (length == want->length && same == length) {
        avif.equal++;
    } else {
        avif.different++;
        fprintf(stderr,
                "%s %u x %u x %u, quality %d, effort %d, seed %u: %u bytes, not %zu; the first %zu "
                "are the same\n",
                drawing_names[self->kind], self->width, self->height, self->channels,
                self->options.quality, self->options.effort, self->seed, length, want->length,
                same);
    }
}

/* Encodes the cases that have been added, and removes them. */
static void run_avif_batch(void)
{
    if (avif.count == 0)
        return;
    open_avif_batch();
    check((cudaError_t)avif_encode_launch(&avif.batch, avif.arena.device + avif.description_at,
                                          avif.stream));
    arena_download(&avif.arena, avif.stream);
    for (size_t i = 0; i < avif.count; i++)
        compare_avif_case(i);
    for (size_t i = 0; i < avif.count; i++) {
        struct avif_case *self = &avif.cases[i];
        arena_allow(&avif.arena, self->file_at, self->capacity);
        arena_allow(&avif.arena, self->work_at, self->work_bytes);
        free(self->image.pixels);
        picture_free(&self->reference);
    }
    arena_allow(&avif.arena, avif.description_at, avif.description_bytes);
    arena_allow(&avif.arena, avif.lengths_at, avif.count * sizeof(uint32_t));
    arena_check_rest(&avif.arena);
    check(cudaFreeHost(avif.headers));
    arena_close(&avif.arena);
    avif.count = 0;
}

static void expect_all_equal(void)
{
    run_avif_batch();
    if (avif.different > 0)
        fail_msg("%zu files differ", avif.different);
}
