/*
 * bench_webp - the WebP encoder of a CUDA device beside libwebp on all cores.
 *
 *     bench_webp [--folder F] [--rounds 5] [--quality 80] [--kernels]
 *     bench_webp [--folder F] --batch 256 [--streams 1] [--width 512] [--height 341]    one row
 *
 * As bench_avif, but the files are compared with libwebp's.
 */
#include <stdio.h>

#if defined(GPUIMGD_CUDA) && defined(GPUIMGD_WEBP)

#include <stdlib.h>
#include <webp/encode.h>

#include "codecs/quality_search.h"
#include "gpu/webp/encode.h"
#include "tests/bench/batches.h"

_Static_assert(sizeof(struct webp_encode_batch) <= sizeof(union batch_state), "it is kept there");

static struct picture_file encode(const struct image *image, int quality)
{
    WebPConfig config;
    WebPPicture picture;
    WebPMemoryWriter file;
    WebPMemoryWriterInit(&file);
    if (!WebPConfigInit(&config) || !WebPPictureInit(&picture))
        abort();
    config.method = 2;
    config.quality = (float)quality;
    picture.width = (int)image->width;
    picture.height = (int)image->height;
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = &file;
    if (!WebPPictureImportRGB(&picture, image->pixels, (int)image->stride) ||
        !WebPEncode(&config, &picture)) {
        fprintf(stderr, "libwebp refuses an image\n");
        exit(1);
    }
    WebPPictureFree(&picture);
    return (struct picture_file){file.mem, file.size};
}

/* Enough for any quality. */
static size_t capacity(uint32_t width, uint32_t height)
{
    return webp_encode_capacity(width, height, QUALITY_HIGHEST, WEBP_RIFF_BYTES, 0);
}

static size_t work_bytes(uint32_t width, uint32_t height)
{
    return webp_encode_work_bytes(width, height, QUALITY_HIGHEST);
}

static size_t describe(const struct batch_image *images, uint32_t count, int quality,
                       void *description, size_t bytes, union batch_state *batch)
{
    struct webp_encode_image *all = calloc(count, sizeof *all);
    for (uint32_t i = 0; i < count; i++)
        all[i] = (struct webp_encode_image){.source = images[i].source,
                                            .quality = quality,
                                            .header = images[i].header,
                                            .header_bytes = WEBP_RIFF_BYTES,
                                            .work = images[i].work,
                                            .file = images[i].file,
                                            .capacity = images[i].capacity,
                                            .file_bytes = images[i].file_bytes};
    size_t needed = webp_encode_describe(all, count, description, bytes, (void *)batch);
    free(all);
    return needed;
}

static int launch(const union batch_state *batch, void *description, struct CUstream_st *stream)
{
    return webp_encode_launch((const void *)batch, description, stream);
}

int main(int argc, char **argv)
{
    const struct batch_encoder encoder = {.name = "bench_webp",
                                          .reference = "libwebp",
                                          .quality = 80,
                                          .quality_max = 100,
                                          .header = "RIFF\0\0\0\0WEBP",
                                          .header_bytes = WEBP_RIFF_BYTES,
                                          .encode = encode,
                                          .work_bytes = work_bytes,
                                          .capacity = capacity,
                                          .describe = describe,
                                          .launch = launch};
    const struct batch_row rows[] = {{512, 341, 1, 16},
                                     {512, 341, 1, 64},
                                     {512, 341, 1, 256},
                                     {512, 341, 1, 512},
                                     {512, 341, 4, 128},
                                     {1200, 800, 1, 128},
                                     {1200, 800, 4, 32},
                                     {2560, 1600, 1, 1},
                                     {2560, 1600, 1, 8},
                                     {2560, 1600, 1, 32},
                                     {0}};
    return batches_measure(argc, argv, &encoder, rows);
}

#else

int main(void)
{
    fprintf(stderr, "bench_webp needs a build with CUDA and libwebp\n");
    return 1;
}

#endif
