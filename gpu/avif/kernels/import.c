/* import.c - fills the planes of the source with the samples of an image. */
#include "gpu/avif/kernels/import.h"

#include <string.h>

#include "codecs/image.h"
#include "gpu/avif/kernels/kernels.h"

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

static void import_gray(const struct image *source, const struct avif_plane *plane)
{
    for (size_t y = 0; y < source->height; y++)
        memcpy(plane->samples + y * plane->stride, source->pixels + y * source->stride,
               source->width);
}

/* The planes have an even number of rows, so that the last pair of rows may be one twice. */
static void import_colour(const struct image *source, const struct avif_encoder *encoder)
{
    const struct avif_plane *planes = encoder->source;
    for (size_t y = 0; y < source->height; y += 2) {
        const uint8_t *first = source->pixels + y * source->stride;
        const uint8_t *const rows[] = {first,
                                       y + 1 < source->height ? first + source->stride : first};
        uint8_t *luma = planes[0].samples + y * planes[0].stride;
        uint8_t *const lumas[] = {luma, luma + planes[0].stride};
        encoder->kernels->import(rows, source->width, source->channels, lumas,
                                 planes[1].samples + y / 2 * planes[1].stride,
                                 planes[2].samples + y / 2 * planes[2].stride);
    }
}

void avif_import(const struct image *source, struct avif_encoder *encoder)
{
    size_t rows = (size_t)encoder->frame.superblocks_y * SUPERBLOCK;
    if (encoder->frame.planes == 1)
        import_gray(source, &encoder->source[0]);
    else
        import_colour(source, encoder);
    extend(&encoder->source[0], source->width, source->height, rows);
    for (int i = 1; i < encoder->frame.planes; i++)
        extend(&encoder->source[i], (source->width + 1) / 2, (source->height + 1) / 2, rows / 2);
}
