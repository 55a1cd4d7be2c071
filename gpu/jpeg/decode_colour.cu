/*
 * decode_colour.cu - upsamples Cb and Cr like libjpeg's jdsample.c, and converts to RGB like
 * jdcolor.c: the last stage of the JPEG decoder.
 *
 * A thread makes DECODE_COLOUR_PIXELS pixels of a row. Fancy upsampling is a triangle filter: in
 * each direction, 3/4 of the nearer sample and 1/4 of the farther one. Outside of a component, its
 * outermost samples are repeated.
 *
 * Time is bound by instructions, about 30 per pixel with 4:2:0.
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

DEVICE uint32_t limit_sample(int32_t value)
{
    return value < 0 ? 0 : value > 255 ? 255 : (uint32_t)value;
}

DEVICE void unpack_word(uint32_t word, uint32_t *to)
{
    UNROLL
    for (int i = 0; i < 4; i++)
        to[i] = word >> 8 * i & 255;
}

#define HALF (PIXELS / 2)
#define EDGES 2

/* Loads the samples from which PIXELS pixels are upsampled across: those in the columns column - 1
 * to column + HALF. Rows and columns outside of the component repeat its edges. */
SIMT void load_half(const struct decode_plane *plane, int32_t row, uint32_t column, uint32_t *to)
{
    uint32_t last = plane->width - 1;
    row = row < 0 ? 0 : row >= (int32_t)plane->height ? (int32_t)plane->height - 1 : row;
    const uint8_t *from = plane->samples + (size_t)row * plane->pitch;
    unpack_word(load_word(from + column), to + 1);
    to[0] = column > 0 ? from[column - 1] : to[1];
    if (column + HALF <= last) {
        to[HALF + 1] = from[column + HALF];
        return;
    }
    UNROLL
    for (uint32_t i = 0; i < HALF + EDGES; i++)
        if (column + i > last + 1)
            to[i] = from[last];
}

SIMT void load_full(const struct decode_plane *plane, int32_t row, uint32_t column, uint32_t *to)
{
    row = row < 0 ? 0 : row >= (int32_t)plane->height ? (int32_t)plane->height - 1 : row;
    words2 two = load_words2(plane->samples + (size_t)row * plane->pitch + column);
    unpack_word(two.x, to);
    unpack_word(two.y, to + 4);
}

/* Computes Cb or Cr of PIXELS pixels from (x, y) on. */
SIMT void upsample(const struct decode_descriptor *image, const struct decode_plane *plane,
                   uint32_t x, uint32_t y, uint32_t *to)
{
    int32_t row = (int32_t)(image->up_v ? y / 2 : y), other = row + (y & 1 ? 1 : -1);
    bool fancy = image->upsampling == UPSAMPLE_FANCY;
    if (!image->up_h) {
        uint32_t far[PIXELS], bias = 1 + (y & 1);
        load_full(plane, row, x, to);
        if (!fancy)
            return;
        load_full(plane, other, x, far);
        UNROLL
        for (int i = 0; i < PIXELS; i++)
            to[i] = (3 * to[i] + far[i] + bias) >> 2;
        return;
    }
    uint32_t near[HALF + EDGES], far[HALF + EDGES];
    uint32_t even = 1, odd = 2, shift = 2;
    load_half(plane, row, x / 2, near);
    if (fancy && image->up_v) {
        load_half(plane, other, x / 2, far);
        UNROLL
        for (int i = 0; i < HALF + EDGES; i++)
            near[i] = 3 * near[i] + far[i];
        even = 8;
        odd = 7;
        shift = 4;
    }
    UNROLL
    for (int i = 0; i < HALF; i++) {
        to[2 * i] = fancy ? (3 * near[i + 1] + near[i] + even) >> shift : near[i + 1];
        to[2 * i + 1] = fancy ? (3 * near[i + 1] + near[i + 2] + odd) >> shift : near[i + 1];
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
    uint32_t per_row = (image->image.width + PIXELS - 1) / PIXELS; /* threads */
    uint32_t at = ((uint32_t)block_index() - args.starts[DECODE_BANDS][index]) * THREADS +
                  (uint32_t)thread_index();
    uint32_t y = at / per_row, x = (at - y * per_row) * PIXELS;
    if (y >= image->image.height || image->run->verdict != JPEG_DECODE_DONE)
        return;
    uint32_t channels[3][PIXELS];
    load_full(&image->planes[0], (int32_t)y, x, channels[0]);
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
        UNROLL
        for (int i = 0; i < 3 * PIXELS; i += 8) {
            words2 two = {0, 0};
            UNROLL
            for (int j = 0; j < 4; j++) {
                two.x |= channels[(i + j) % 3][(i + j) / 3] << 8 * j;
                two.y |= channels[(i + j + 4) % 3][(i + j + 4) / 3] << 8 * j;
            }
            *(words2 *)(to + i) = two;
        }
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
