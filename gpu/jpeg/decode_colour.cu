/*
 * decode_colour.cu - upsamples Cb and Cr like libjpeg's jdsample.c, and converts to RGB like
 * jdcolor.c: the last stage of the JPEG decoder.
 *
 * A thread makes a run of DECODE_COLOUR_PIXELS pixels of a row, or such runs of two rows that have
 * the same nearest row of Cb and Cr. Fancy upsampling is a triangle filter: in each direction, 3/4
 * of the nearer sample and 1/4 of the farther one. Outside of a component, its outermost samples
 * are repeated.
 *
 * Time is bound by instructions: about 30 per pixel with 4:2:0.
 */
#include "gpu/jpeg/decode_pixels.h"

#define THREADS DECODE_COLOUR_THREADS
#define PIXELS DECODE_COLOUR_PIXELS
#define HALF    (PIXELS / 2)
/* Blocks of threads that must fit on a multiprocessor at the same time. At compute capability 7.5,
 * it has 1,024 threads. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define BLOCKS 4
#else
#define BLOCKS 5
#endif

/* ---- upsampling ---- */

/* The row, or the nearest row of the component. */
SIMT const uint8_t *row_of(const struct decode_plane *plane, int32_t row)
{
    row = row < 0 ? 0 : row >= (int32_t)plane->height ? (int32_t)plane->height - 1 : row;
    return plane->samples + (size_t)row * plane->pitch;
}

DEVICE void unpack_word(uint32_t word, int32_t *to)
{
    UNROLL
    for (int i = 0; i < 4; i++)
        to[i] = (int32_t)(word >> 8 * i & 255);
}

/* Samples minus SAMPLE_CENTRE. */
DEVICE void centre_words(words2 two, int32_t *to)
{
    UNROLL
    for (int i = 0; i < PIXELS; i++)
        to[i] = (int8_t)(((i < 4 ? two.x : two.y) ^ 0x80808080u) >> 8 * (i & 3));
}

/* The samples from which PIXELS pixels are upsampled across: of the columns before - 1 to
 * before + HALF, where `before` is the column of the first nearest sample. The low byte of `first`
 * has the first one. */
struct half_run {
    uint32_t first, then; /* 4 and 2 samples */
};

/* Columns outside of the component repeat its edges. column: a multiple of 4. */
SIMT struct half_run load_half(const struct decode_plane *plane, int32_t row, uint32_t column)
{
    const uint8_t *from = row_of(plane, row);
    uint32_t last = plane->width - 1, samples[HALF + 2];
    if (column > 0 && column + HALF <= last) {
        uint32_t word = load_word(from + column);
        struct half_run run = {word << 8 | load_word(from + column - 4) >> 24,
                               word >> 24 | load_word(from + column + 4) << 8};
        return run;
    }
    UNROLL
    for (uint32_t i = 0; i < HALF + 2; i++) {
        uint32_t at = column + i > 0 ? column + i - 1 : 0;
        samples[i] = from[at < last ? at : last];
    }
    struct half_run run = {samples[0] | samples[1] << 8 | samples[2] << 16 | samples[3] << 24,
                           samples[4] | samples[5] << 8};
    return run;
}

/* Without upsampling down: h2v1, or pixels that are repeated. */
SIMT void upsample_across(const struct decode_descriptor *image, const struct decode_plane *plane,
                          uint32_t x, uint32_t y, int32_t *to)
{
    struct half_run run = load_half(plane, (int32_t)(image->up_v ? y / 2 : y), x / 2);
    bool fancy = image->upsampling == UPSAMPLE_FANCY;
    int32_t samples[8];
    unpack_word(run.first, samples);
    unpack_word(run.then, samples + 4);
    UNROLL
    for (int i = 0; i < HALF; i++) {
        int32_t before = samples[i], own = samples[i + 1], after = samples[i + 2];
        to[2 * i] = (fancy ? (3 * own + before + 1) >> 2 : own) - SAMPLE_CENTRE;
        to[2 * i + 1] = (fancy ? (3 * own + after + 2) >> 2 : own) - SAMPLE_CENTRE;
    }
}

/* h1v2. */
SIMT void upsample_down(const struct decode_plane *plane, uint32_t x, uint32_t y, int32_t *to)
{
    int32_t row = (int32_t)(y / 2), other = row + (y & 1 ? 1 : -1), far[PIXELS];
    words2 two = load_words2(row_of(plane, row) + x);
    words2 two_far = load_words2(row_of(plane, other) + x);
    unpack_word(two.x, to);
    unpack_word(two.y, to + 4);
    unpack_word(two_far.x, far);
    unpack_word(two_far.y, far + 4);
    UNROLL
    for (int i = 0; i < PIXELS; i++)
        to[i] = ((3 * to[i] + far[i] + 1 + (int32_t)(y & 1)) >> 2) - SAMPLE_CENTRE;
}

/* Samples or sums of samples as halves of words: of the columns 0 and 2, 1 and 3, 4, and 5 of a
 * half_run. */
struct half_sums {
    uint32_t even, odd, fourth, fifth;
};

DEVICE struct half_sums split_run(struct half_run run)
{
    const uint32_t mask = 0x00FF00FF;
    struct half_sums sums = {run.first & mask, run.first >> 8 & mask, run.then & 255,
                             run.then >> 8 & 255};
    return sums;
}

/* The results of the filter, as halves of words: 0 to 255. */
DEVICE uint32_t filter_halves(uint32_t near, uint32_t far, uint32_t bias)
{
    return (3 * near + far + bias * 0x00010001u) >> 4 & 0x00FF00FF;
}

/* h2v2: the row `near` and, above or below it, the row `far`. */
DEVICE void filter_row(const struct half_sums *near, const struct half_sums *far, int32_t *to)
{
    uint32_t even = 3 * near->even + far->even, odd = 3 * near->odd + far->odd;
    uint32_t fourth = 3 * near->fourth + far->fourth, fifth = 3 * near->fifth + far->fifth;
    /* The sums of the columns 2 and 4, and 3 and 5. */
    uint32_t inner = select_bytes(even, fourth, 0x5432);
    uint32_t outer = select_bytes(odd, fifth, 0x5432);
    uint32_t pixels[4] = {filter_halves(odd, even, 8), filter_halves(odd, inner, 7),
                          filter_halves(inner, odd, 8), filter_halves(inner, outer, 7)};
    UNROLL
    for (int i = 0; i < 4; i++) {
        to[i] = (int32_t)(pixels[i] & 0xFFFF) - SAMPLE_CENTRE;
        to[i + 4] = (int32_t)(pixels[i] >> 16) - SAMPLE_CENTRE;
    }
}

/* h2v2: Cb or Cr of two rows of pixels, from (x, y) on. y is even. */
SIMT void upsample_both(const struct decode_plane *plane, uint32_t x, uint32_t y,
                        int32_t to[2][PIXELS])
{
    int32_t row = (int32_t)(y / 2);
    struct half_sums above = split_run(load_half(plane, row - 1, x / 2));
    struct half_sums near = split_run(load_half(plane, row, x / 2));
    struct half_sums below = split_run(load_half(plane, row + 1, x / 2));
    filter_row(&near, &above, to[0]);
    filter_row(&near, &below, to[1]);
}

/* Computes Cb or Cr, minus SAMPLE_CENTRE, of run_rows rows of PIXELS pixels from (x, y) on. */
SIMT void upsample(const struct decode_descriptor *image, const struct decode_plane *plane,
                   uint32_t x, uint32_t y, int32_t to[2][PIXELS])
{
    bool fancy = image->upsampling == UPSAMPLE_FANCY;
    if (image->run_rows == 2)
        upsample_both(plane, x, y, to);
    else if (image->up_h)
        upsample_across(image, plane, x, y, to[0]);
    else if (fancy)
        upsample_down(plane, x, y, to[0]);
    else
        centre_words(load_words2(row_of(plane, (int32_t)(image->up_v ? y / 2 : y)) + x), to[0]);
}

/* ---- colours ---- */

/* Makes the pixels of a row from x on. */
SIMT void make_pixels(const struct decode_descriptor *image, uint32_t x, uint32_t y,
                      const int32_t *cb, const int32_t *cr)
{
    words2 luma = load_words2(row_of(&image->planes[0], (int32_t)y) + x);
    struct colours colours;
    convert(luma, cb, cr, image->rgb, &colours);
    store_pixels(&colours, image->image.pixels + (size_t)y * image->image.stride + 3 * x,
                 image->image.width - x);
}

KERNEL(convert_colours, THREADS, BLOCKS, struct decode_args)
{
    uint32_t index = find_image(args.starts[DECODE_BANDS], args.image_count,
                                (uint32_t)block_index());
    const struct decode_descriptor *image = &args.images[index];
    uint32_t at = ((uint32_t)block_index() - args.starts[DECODE_BANDS][index]) * THREADS +
                  (uint32_t)thread_index();
    uint32_t row = at / image->runs_across, column = at - row * image->runs_across;
    uint32_t x = image->run_x + column * PIXELS, y = image->run_y + row * image->run_rows;
    if (y >= image->end_y || image->run->verdict != JPEG_DECODE_DONE)
        return;
    int32_t cb[2][PIXELS], cr[2][PIXELS];
    upsample(image, &image->planes[1], x, y, cb);
    upsample(image, &image->planes[2], x, y, cr);
    make_pixels(image, x, y, cb[0], cr[0]);
    if (image->run_rows == 2 && y + 1 < image->end_y)
        make_pixels(image, x, y + 1, cb[1], cr[1]);
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
