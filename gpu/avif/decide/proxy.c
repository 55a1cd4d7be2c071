/*
 * proxy.c - stage P: quantises the luma of the source in blocks of 8 x 8.
 *
 * The proxy resembles the reconstruction enough for predictions of stage A, but all of its blocks
 * are independent.
 */
#include <string.h>

#include "gpu/avif/decide/choose_levels.h"
#include "gpu/avif/decide/decide.h"

enum { SIZE = 3, SIDE = 1 << SIZE };

static void make_block(const struct avif_encoder *encoder, size_t at)
{
    const struct avif_kernels *kernels = encoder->kernels;
    const uint8_t *source = encoder->source[0].samples + at;
    size_t stride = encoder->proxy.stride;
    uint8_t *to = encoder->proxy.samples + at;
    struct avif_coefficients coefficients;
    int16_t levels[SIDE * SIDE] __attribute__((aligned(AVIF_KERNEL_ALIGN)));
    int16_t columns[SIDE * SIDE] __attribute__((aligned(AVIF_KERNEL_ALIGN)));
    int sum = 0, rows;
    for (int i = 0; i < SIDE * SIDE; i++)
        sum += source[(size_t)(i / SIDE) * stride + (size_t)(i % SIDE)];
    for (int y = 0; y < SIDE; y++)
        memset(to + (size_t)y * stride, sum >> (2 * SIZE), SIDE);
    kernels->transform(source, stride, to, stride, SIZE, DCT_DCT, &coefficients);
    if (avif_choose_levels(kernels, &coefficients, SIZE, &encoder->frame.quantiser, levels, columns,
                           &rows) > 0)
        kernels->inverse(columns, SIZE, DCT_DCT, rows, to, stride);
}

void avif_make_proxy(const struct avif_encoder *encoder, int left, int top, int right, int bottom)
{
    for (int y = top; y < bottom; y += SIDE)
        for (int x = left; x < right; x += SIDE)
            make_block(encoder, (size_t)y * encoder->proxy.stride + (size_t)x);
}
