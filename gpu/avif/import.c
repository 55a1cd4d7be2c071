/* import.c - fills the planes of the source with the samples of an image. */
#include "gpu/avif/import.h"

#include <string.h>

#include "gpu/avif/encode_impl.h"

static void import_luma(const struct image *source, uint32_t y, uint8_t *to)
{
    const uint8_t *pixel = source->pixels + (size_t)y * source->stride;
    if (source->channels == 1) {
        memcpy(to, pixel, source->width);
        return;
    }
    for (uint32_t x = 0; x < source->width; x++, pixel += source->channels)
        to[x] = (uint8_t)avif_luma(pixel[0], pixel[1], pixel[2]);
}

static void import_chroma(const struct image *source, uint32_t y, uint8_t *u, uint8_t *v)
{
    uint32_t lower = 2 * y + 1 < source->height ? 2 * y + 1 : 2 * y;
    const uint8_t *first = source->pixels + (size_t)(2 * y) * source->stride;
    const uint8_t *second = source->pixels + (size_t)lower * source->stride;
    uint32_t step = source->channels;
    for (uint32_t x = 0; x < (source->width + 1) / 2; x++, first += 2 * step, second += 2 * step) {
        uint32_t right = 2 * x + 1 < source->width ? step : 0;
        int sums[3];
        for (int i = 0; i < 3; i++)
            sums[i] = first[i] + first[i + right] + second[i] + second[i + right];
        u[x] = (uint8_t)avif_cb(sums[0], sums[1], sums[2]);
        v[x] = (uint8_t)avif_cr(sums[0], sums[1], sums[2]);
    }
}

/* Repeats the last column and row to the ends of the superblocks. */
static void extend(const struct avif_plane *plane, size_t width, size_t height, size_t rows)
{
    for (size_t y = 0; y < height; y++) {
        uint8_t *row = plane->samples + y * plane->stride;
        memset(row + width, row[width - 1], plane->stride - width);
    }
    const uint8_t *last = plane->samples + (height - 1) * plane->stride;
    for (size_t y = height; y < rows; y++)
        memcpy(plane->samples + y * plane->stride, last, plane->stride);
}

void avif_import(const struct image *source, struct avif_encoder *encoder)
{
    const struct avif_plane *planes = encoder->source;
    size_t rows = (size_t)encoder->frame.superblocks_y * SUPERBLOCK;
    for (uint32_t y = 0; y < source->height; y++)
        import_luma(source, y, planes[0].samples + y * planes[0].stride);
    extend(&planes[0], source->width, source->height, rows);
    if (encoder->frame.planes == 1)
        return;
    uint32_t width = (source->width + 1) / 2, height = (source->height + 1) / 2;
    for (uint32_t y = 0; y < height; y++)
        import_chroma(source, y, planes[1].samples + y * planes[1].stride,
                      planes[2].samples + y * planes[2].stride);
    for (int i = 1; i < PLANES; i++)
        extend(&planes[i], width, height, rows / 2);
}
