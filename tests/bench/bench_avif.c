/*
 * bench_avif - the AV1 encoder of a CUDA device beside the same one on all cores.
 *
 *     bench_avif [--folder F] [--rounds 5] [--quality 60] [--kernels]
 *     bench_avif [--folder F] --batch 300 [--streams 1] [--width 640] [--height 427]    one row
 *
 * The images are parts of the photographs (JPEG) below the folder, resized; without a folder, they
 * are drawn. They are in device memory, and so are the files. Every file is compared with that of
 * the cores; a difference or a declined image ends the program. A row is the median time of a
 * launch, or with several streams the mean time in which each of them encodes one batch. --kernels:
 * also the times of the kernels of a single stream, each alone on the device.
 */
#include <stdio.h>

#ifdef GPUIMGD_CUDA

#include <stdlib.h>

#include "gpu/avif/encode.h"
#include "tests/bench/batches.h"

_Static_assert(sizeof(struct avif_encode_batch) <= sizeof(union batch_state), "it is kept there");

static struct picture_file encode(const struct image *image, int quality)
{
    const struct avif_encode_options options = {.quality = quality, .effort = AVIF_DEVICE_EFFORT};
    size_t room = 4 * avif_encode_capacity(image->width, image->height, 3);
    size_t work_bytes = avif_encode_work_bytes(image->width, image->height, 3, options.effort);
    void *work = aligned_alloc(BUFFER_ALIGN, buffer_align(work_bytes));
    struct picture_file file = {malloc(room), 0};
    if (!work || !file.bytes ||
        avif_encode_pixels(image, &options, NULL, NULL, work, file.bytes, room, &file.length) !=
            STATUS_OK)
        abort();
    free(work);
    return file;
}

static size_t work_bytes(uint32_t width, uint32_t height)
{
    return avif_device_work_bytes(width, height, 3, 99); /* enough for any quality */
}

static size_t capacity(uint32_t width, uint32_t height)
{
    return avif_device_capacity(width, height, 3, 0, 0);
}

static size_t describe(const struct batch_image *images, uint32_t count, int quality,
                       void *description, size_t bytes, union batch_state *batch)
{
    struct avif_encode_image *all = calloc(count, sizeof *all);
    for (uint32_t i = 0; i < count; i++)
        all[i] = (struct avif_encode_image){
            .source = images[i].source,
            .options = {.quality = quality, .effort = AVIF_DEVICE_EFFORT},
            .work = images[i].work,
            .file = images[i].file,
            .capacity = images[i].capacity,
            .file_bytes = images[i].file_bytes};
    size_t needed = avif_encode_describe(all, count, description, bytes, (void *)batch);
    free(all);
    return needed;
}

static int launch(const union batch_state *batch, void *description, struct CUstream_st *stream)
{
    return avif_encode_launch((const void *)batch, description, stream);
}

int main(int argc, char **argv)
{
    const struct batch_encoder encoder = {.name = "bench_avif",
                                          .reference = "the cores",
                                          .quality = 60,
                                          .quality_max = 99,
                                          .encode = encode,
                                          .work_bytes = work_bytes,
                                          .capacity = capacity,
                                          .describe = describe,
                                          .launch = launch};
    /* The rows of 300 images in flight are one batch, and smaller ones in several streams. */
    const struct batch_row rows[] = {{640, 427, 1, 16},  {640, 427, 1, 64},   {640, 427, 2, 32},
                                     {640, 427, 1, 300}, {640, 427, 2, 150},  {640, 427, 3, 100},
                                     {640, 427, 5, 60},  {640, 427, 1, 900},  {1200, 800, 1, 64},
                                     {2560, 1600, 1, 1}, {2560, 1600, 1, 16}, {0}};
    return batches_measure(argc, argv, &encoder, rows);
}

#else

int main(void)
{
    fprintf(stderr, "bench_avif needs a build with CUDA\n");
    return 1;
}

#endif
