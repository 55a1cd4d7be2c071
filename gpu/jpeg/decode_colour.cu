/*
 * decode_colour.cu - upsamples Cb and Cr as jdsample.c, and converts to RGB as jdcolor.c.
 *
 * A thread makes some pixels of a row. The triangle filters take 3/4 of the nearer and 1/4 of the
 * farther sample in each direction. Beyond its edges a component repeats its outermost samples.
 *
 * Bound: instructions, about 40 per pixel with 4:2:0.
 */
#include "gpu/jpeg/decode_device.h"

#define THREADS DECODE_COLOUR_THREADS
#define PIXELS DECODE_COLOUR_PIXELS
/* FIX(x) of jdcolor.c: x * 2^16, rounded. */
#define SCALE_BITS 16
#define CR_TO_R 91881
#define CB_TO_B 116130
#define CR_TO_G 46802
#define CB_TO_G 22554

DEVICE int32_t clamp_index(int32_t i, uint32_t count)
{
    return i < 0 ? 0 : i >= (int32_t)count ? (int32_t)count - 1 : i;
}

DEVICE uint32_t limit_sample(int32_t value)
{
    return value < 0 ? 0 : value > 255 ? 255 : (uint32_t)value;
}

/* The component's samples for PIXELS pixels from (x, y) on. */
SIMT void upsample(const struct decode_descriptor *image, const struct decode_plane *plane,
                   uint32_t x, uint32_t y, uint32_t *to)
{
    uint32_t row = image->up_v ? y / 2 : y, column = image->up_h ? x / 2 : x;
    const uint8_t *near = plane->samples + (size_t)row * plane->pitch;
    if (image->upsampling != UPSAMPLE_FANCY) {
        UNROLL
        for (int i = 0; i < PIXELS; i++)
            to[i] = near[column + (uint32_t)(image->up_h ? i / 2 : i)];
        return;
    }
    int32_t far_row = clamp_index((int32_t)row + (y & 1 ? 1 : -1), plane->height);
    const uint8_t *far = plane->samples + (size_t)far_row * plane->pitch;
    if (!image->up_h) {
        uint32_t bias = 1 + (y & 1);
        UNROLL
        for (uint32_t i = 0; i < PIXELS; i++)
            to[i] = (3u * near[column + i] + far[column + i] + bias) >> 2;
        return;
    }
    uint32_t sums[PIXELS / 2 + 2];
    UNROLL
    for (int i = 0; i < PIXELS / 2 + 2; i++) {
        int32_t at = clamp_index((int32_t)column + i - 1, plane->width);
        sums[i] = image->up_v ? 3u * near[at] + far[at] : near[at];
    }
    uint32_t even = image->up_v ? 8 : 1, odd = image->up_v ? 7 : 2, shift = image->up_v ? 4 : 2;
    UNROLL
    for (int i = 0; i < PIXELS / 2; i++) {
        to[2 * i] = (3 * sums[i + 1] + sums[i] + even) >> shift;
        to[2 * i + 1] = (3 * sums[i + 1] + sums[i + 2] + odd) >> shift;
    }
}

/* Replaces Y, Cb and Cr by R, G and B. */
DEVICE void convert(uint32_t *y, uint32_t *cb, uint32_t *cr)
{
    int32_t half = 1 << (SCALE_BITS - 1), u = (int32_t)*cb - 128, v = (int32_t)*cr - 128;
    int32_t luma = (int32_t)*y;
    *y = limit_sample(luma + ((CR_TO_R * v + half) >> SCALE_BITS));
    *cb = limit_sample(luma + ((half - CB_TO_G * u - CR_TO_G * v) >> SCALE_BITS));
    *cr = limit_sample(luma + ((CB_TO_B * u + half) >> SCALE_BITS));
}

KERNEL(convert_colours, THREADS, 4, struct decode_args)
{
    uint32_t index = find_image(args.starts[DECODE_BANDS], args.image_count,
                                (uint32_t)block_index());
    const struct decode_descriptor *image = &args.images[index];
    uint32_t groups = (image->image.width + PIXELS - 1) / PIXELS;
    uint32_t at = ((uint32_t)block_index() - args.starts[DECODE_BANDS][index]) * THREADS +
                  (uint32_t)thread_index();
    uint32_t y = at / groups, x = (at - y * groups) * PIXELS;
    if (y >= image->image.height || image->run->verdict != JPEG_DECODE_DONE)
        return;
    uint32_t channels[3][PIXELS];
    uint32_t four = *(const uint32_t *)(image->planes[0].samples +
                                        (size_t)y * image->planes[0].pitch + x);
    UNROLL
    for (int i = 0; i < PIXELS; i++)
        channels[0][i] = four >> 8 * i & 255;
    upsample(image, &image->planes[1], x, y, channels[1]);
    upsample(image, &image->planes[2], x, y, channels[2]);
    if (image->rgb) {
        UNROLL
        for (int i = 0; i < PIXELS; i++)
            convert(&channels[0][i], &channels[1][i], &channels[2][i]);
    }
    uint8_t *to = image->image.pixels + (size_t)y * image->image.stride + 3 * x;
    uint32_t left = image->image.width - x;
    if (left >= PIXELS) {
        uint32_t words[3] = {0, 0, 0};
        UNROLL
        for (int i = 0; i < 3 * PIXELS; i++)
            words[i / 4] |= channels[i % 3][i / 3] << 8 * (i % 4);
        UNROLL
        for (int i = 0; i < 3; i++)
            ((uint32_t *)to)[i] = words[i];
        return;
    }
    UNROLL
    for (int i = 0; i < 3 * PIXELS; i++)
        if (i < 3 * (int)left)
            to[i] = (uint8_t)channels[i % 3][i / 3];
}

int decode_launch_colour(const struct jpeg_decode_batch *batch, const struct decode_args *args,
                         struct CUstream_st *stream)
{
    return (int)LAUNCH(convert_colours, THREADS, batch->bands, 0, stream, *args);
}

int jpeg_decode_launch(const struct jpeg_decode_batch *batch, const void *descriptors,
                  struct CUstream_st *stream)
{
    struct decode_args args = decode_args_of(batch, descriptors);
    int status = decode_launch_stream(batch, &args, stream);
    if (status == 0 && batch->chunks > 0)
        status = decode_launch_huffman(batch, &args, stream);
    if (status == 0)
        status = decode_launch_blocks(batch, &args, stream);
    if (status == 0 && batch->bands > 0)
        status = decode_launch_colour(batch, &args, stream);
    return status;
}
