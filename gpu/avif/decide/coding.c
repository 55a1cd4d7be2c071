#include "gpu/avif/decide/coding.h"

#include <string.h>

#include "gpu/avif/frame/activity.h"
#include "gpu/avif/decide/choose_levels.h"
#include "gpu/avif/predict/predict.h"
#include "gpu/avif/transform/levels.h"

void avif_gather_coding(const struct avif_coding *coding, int plane, int x, int y, int size,
                        struct avif_edges *edges)
{
    const struct avif_frame *frame = &coding->encoder->frame;
    int shift = plane > 0;
    struct avif_neighbours decoded =
        avif_neighbours_of(coding->tile, shift, coding->x >> shift, coding->y >> shift,
                           coding->size - shift, x, y, size);
    avif_gather_edges(&coding->encoder->reconstruction[plane], x, y, size, decoded,
                      8 * frame->cells_x >> shift, 8 * frame->cells_y >> shift, edges);
}

bool avif_smooth_neighbour(const struct avif_coding *coding, bool chroma)
{
    const struct avif_encoder *encoder = coding->encoder;
    bool smooth = false;
    if (coding->y > coding->tile->top) {
        const struct avif_block *above = avif_block_at(encoder, coding->x, coding->y - 1);
        smooth |= avif_is_smooth(chroma ? above->uv_mode : above->mode);
    }
    if (coding->x > coding->tile->left) {
        const struct avif_block *left = avif_block_at(encoder, coding->x - 1, coding->y);
        smooth |= avif_is_smooth(chroma ? left->uv_mode : left->mode);
    }
    return smooth;
}

void avif_transform_at(const struct avif_coding *coding, int plane, int x, int y, int size,
                       int type, const uint8_t *prediction, struct avif_coefficients *to)
{
    const struct avif_plane *source = &coding->encoder->source[plane];
    coding->encoder->kernels->transform(avif_sample_at(source, x, y), source->stride, prediction,
                                        (size_t)1 << size, size, type, to);
}

/* Returns the quantiser of the levels of a transform. */
static const struct avif_quantiser *quantiser_of(const struct avif_encoder *encoder, int plane,
                                                 int x, int y, int size)
{
    if (plane > 0)
        return &encoder->frame.quantiser;
    return &encoder->quantisers[avif_activity(&encoder->source[0], x, y, size)];
}

int avif_code_transform(struct avif_coding *coding, int plane, int x, int y, int size, int type,
                        const struct avif_trial *trial, int16_t *levels)
{
    const struct avif_encoder *encoder = coding->encoder;
    const struct avif_plane *to = &encoder->reconstruction[plane];
    uint8_t *at = avif_sample_at(to, x, y);
    size_t side = (size_t)1 << size;
    int16_t columns[COEFFICIENTS_MAX] __attribute__((aligned(AVIF_KERNEL_ALIGN)));
    int rows;
    for (size_t row = 0; row < side; row++)
        memcpy(at + row * to->stride, trial->prediction + row * side, side);
    int end = avif_choose_levels(encoder->kernels, &trial->coefficients, size,
                                 quantiser_of(encoder, plane, x, y, size), levels, columns, &rows);
    if (end > 0)
        encoder->kernels->inverse(columns, size, type, rows, at, to->stride);
    coding->any |= end > 0;
    avif_set_context(encoder, plane, x, y, size, avif_context_of(levels, size, end));
    return end;
}
