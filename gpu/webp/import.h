/*
 * import.h - converts the pixels of an image to planes of luma and chroma, as libwebp does.
 *
 * Luma is a weighted sum. A chroma sample is that of the mean of 2 x 2 pixels, in linear light. The
 * planes have whole macroblocks: beyond the image they repeat the last samples.
 *
 * A warp converts two macroblocks side by side, a lane 8 x 2 pixels of them.
 */
#pragma once

#include "gpu/simt/simt.h"
#include "gpu/webp/encode_impl.h"

#define IMPORT_THREADS 256
#define IMPORT_WARPS   (IMPORT_THREADS / WARP_LANES)

/* The tables of struct webp_encode_common, a copy per lane: so no two lanes access the same bank of
 * the memory. Entry i of a lane is at [i][lane]. gamma: 512 times the sample, plus 64 to round;
 * from bit GAMMA_BITS the difference of the next sample. */
#define GAMMA_BITS 18
struct import_shared {
    uint32_t linear[256][WARP_LANES], gamma[32][WARP_LANES];
};

SIMT void copy_tables(struct import_shared *shared, const struct webp_encode_common *common)
{
    for (int i = thread_index(); i < 256 * WARP_LANES; i += IMPORT_THREADS)
        (&shared->linear[0][0])[i] = load_word(&common->linear[i / WARP_LANES]);
    for (int i = thread_index(); i < 32 * WARP_LANES; i += IMPORT_THREADS) {
        uint32_t sample = load_word(&common->gamma[i / WARP_LANES]);
        uint32_t next = load_word(&common->gamma[i / WARP_LANES + 1]);
        (&shared->gamma[0][0])[i] = (sample * 512 + 64) | (next - sample) << GAMMA_BITS;
    }
}

/* Pixels are words: red in the lowest byte, then green, blue, and alpha if there is any. */

/* Returns the luma of the pixel in the third byte. */
DEVICE uint32_t luma_of(uint32_t pixel)
{
    /* 16839 R + 33059 G + 6420 B: the upper bytes of the factors, and the lower ones. */
    uint32_t high = dot_unsigned(pixel, 0x00198141, 0);
    return high * 256 + dot_unsigned(pixel, 0x001423C7, (1 << 15) + (16 << 16));
}

/* Adds the linear values of the pixel's red, green and blue. */
SIMT void add_linear(const struct import_shared *shared, uint32_t pixel, uint32_t sums[3])
{
    /* Byte offsets in the table, of the lane's copy. */
    uint32_t lane = (uint32_t)lane_index() * 4, mask = 255 * WARP_LANES * 4;
    uint32_t red = (pixel << 7 & mask) | lane, green = (pixel >> 1 & mask) | lane;
    uint32_t blue = (pixel >> 9 & mask) | lane;
    const uint8_t *table = (const uint8_t *)shared->linear;
    sums[0] += *(const uint32_t *)(const void *)(table + red);
    sums[1] += *(const uint32_t *)(const void *)(table + green);
    sums[2] += *(const uint32_t *)(const void *)(table + blue);
}

DEVICE uint32_t clip_chroma(int sum)
{
    int sample = (sum + (1 << 17) + (128 << 18)) >> 18;
    return (uint32_t)(sample < 0 ? 0 : sample > 255 ? 255 : sample);
}

/* sums: of the linear values of four pixels. Adds the samples to *u and *v at bit `shift`. */
SIMT void add_chroma(const struct import_shared *shared, const uint32_t sums[3], int shift,
                     uint32_t *u, uint32_t *v)
{
    int mean[3];
    const uint8_t *table = (const uint8_t *)shared->gamma;
    UNROLL
    for (int i = 0; i < 3; i++) {
        uint32_t at = (sums[i] >> 2 & 31 * WARP_LANES * 4) | (uint32_t)lane_index() * 4;
        uint32_t entry = *(const uint32_t *)(const void *)(table + at);
        uint32_t base = entry & ((1u << GAMMA_BITS) - 1);
        mean[i] = (int)((base + (entry >> GAMMA_BITS) * (sums[i] & 511)) >> 7);
    }
    *u |= clip_chroma(-9719 * mean[0] - 19081 * mean[1] + 28800 * mean[2]) << shift;
    *v |= clip_chroma(28800 * mean[0] - 24116 * mean[1] - 4684 * mean[2]) << shift;
}

DEVICE uint32_t load_pixel(const struct webp_encode_descriptor *image, uint32_t x, uint32_t y)
{
    x = x < image->width ? x : image->width - 1;
    y = y < image->height ? y : image->height - 1;
    const uint8_t *pixel = image->pixels + (size_t)y * image->stride + (size_t)x * image->channels;
    if (image->channels == 1)
        return pixel[0] * 0x010101u | 0xFF000000u;
    uint32_t alpha = image->channels == 4 ? pixel[3] : 255;
    return pixel[0] | (uint32_t)pixel[1] << 8 | (uint32_t)pixel[2] << 16 | alpha << 24;
}

/* Loads 8 pixels of a row, all within the image. x is a multiple of 8. channels: a constant. */
SIMT void load_pixels(const struct webp_encode_descriptor *image, uint32_t x, uint32_t y,
                      uint32_t channels, uint32_t pixels[8])
{
    const uint8_t *row = image->pixels + (size_t)y * image->stride + (size_t)x * channels;
    if (channels == 4) {
        words4 first = load_words4(row), second = load_words4(row + 16);
        pixels[0] = first.x, pixels[1] = first.y, pixels[2] = first.z, pixels[3] = first.w;
        pixels[4] = second.x, pixels[5] = second.y, pixels[6] = second.z, pixels[7] = second.w;
    } else if (channels == 3) {
        words2 words[3] = {load_words2(row), load_words2(row + 8), load_words2(row + 16)};
        uint32_t all[6] = {words[0].x, words[0].y, words[1].x, words[1].y, words[2].x, words[2].y};
        UNROLL
        for (int i = 0; i < 2; i++) {
            pixels[4 * i] = all[3 * i] | 0xFF000000u;
            pixels[4 * i + 1] = select_bytes(all[3 * i], all[3 * i + 1], 0x6543) | 0xFF000000u;
            pixels[4 * i + 2] = select_bytes(all[3 * i + 1], all[3 * i + 2], 0x5432) | 0xFF000000u;
            pixels[4 * i + 3] = all[3 * i + 2] >> 8 | 0xFF000000u;
        }
    } else {
        words2 words = load_words2(row);
        UNROLL
        for (int i = 0; i < 4; i++) {
            pixels[i] = (words.x >> 8 * i & 255) * 0x010101u | 0xFF000000u;
            pixels[4 + i] = (words.y >> 8 * i & 255) * 0x010101u | 0xFF000000u;
        }
    }
}

/* The samples of 8 x 2 pixels. */
struct imported {
    uint32_t luma[2][2]; /* [row] */
    uint32_t u, v;
    uint32_t alpha; /* of all pixels, combined by &, in the highest byte */
};

SIMT void convert(const struct import_shared *shared, const struct webp_encode_descriptor *image,
                  uint32_t x, uint32_t y, uint32_t channels, struct imported *to)
{
    uint32_t pixels[2][8];
    load_pixels(image, x, y, channels, pixels[0]);
    load_pixels(image, x, y + 1, channels, pixels[1]);
    UNROLL
    for (int i = 0; i < 4; i++) {
        uint32_t sums[3] = {0, 0, 0};
        UNROLL
        for (int k = 0; k < 4; k++) {
            uint32_t pixel = pixels[k / 2][2 * i + k % 2];
            to->alpha &= pixel;
            add_linear(shared, pixel, sums);
        }
        add_chroma(shared, sums, 8 * i, &to->u, &to->v);
    }
    UNROLL
    for (int i = 0; i < 2; i++)
        UNROLL
    for (int k = 0; k < 2; k++) {
        const uint32_t *four = pixels[i] + 4 * k;
        uint32_t left = select_bytes(luma_of(four[0]), luma_of(four[1]), 0x0062);
        uint32_t right = select_bytes(luma_of(four[2]), luma_of(four[3]), 0x0062);
        to->luma[i][k] = select_bytes(left, right, 0x5410);
    }
}

/* As convert, at the edges: some of the pixels are beyond the image. The chroma samples there
 * repeat the last one, which itself may be that of a single column or row. */
SIMT void convert_edge(const struct import_shared *shared,
                       const struct webp_encode_descriptor *image, uint32_t x, uint32_t y,
                       struct imported *to)
{
    uint32_t last_x = (image->width - 1) / 2, last_y = (image->height - 1) / 2;
    uint32_t from_y = y / 2 < last_y ? y / 2 : last_y;
    NO_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t sums[3] = {0, 0, 0};
        uint32_t from_x = x / 2 + i < last_x ? x / 2 + i : last_x;
        UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            uint32_t pixel = load_pixel(image, x + 2 * i + k % 2, y + k / 2);
            uint32_t luma = (luma_of(pixel) >> 16) << (16 * (i % 2) + 8 * (k % 2));
            to->luma[k / 2][0] |= i < 2 ? luma : 0;
            to->luma[k / 2][1] |= i < 2 ? 0 : luma;
            to->alpha &= pixel;
            add_linear(shared, load_pixel(image, 2 * from_x + k % 2, 2 * from_y + k / 2), sums);
        }
        add_chroma(shared, sums, (int)(8 * i), &to->u, &to->v);
    }
}

DEVICE void store_words2(void *at, uint32_t x, uint32_t y)
{
    words2 words = {x, y};
    *(words2 *)at = words;
}

/* Converts the macroblocks at column `column` and column + 1, which may not exist, of a row of
 * macroblocks. Sets their alphas to 1 if a pixel is not opaque, else 0. */
SIMT void import_macroblocks(const struct import_shared *shared,
                             struct webp_encode_descriptor *image, uint32_t column, uint32_t row)
{
    uint32_t lane = (uint32_t)lane_index();
    uint32_t x = 16 * column + lane % 4 * 8, y = 16 * row + lane / 4 * 2;
    struct imported to = {{{0, 0}, {0, 0}}, 0, 0, ~0u};
    bool exists = x < 16 * image->columns;
    if (exists && (x + 8 > image->width || y + 2 > image->height))
        convert_edge(shared, image, x, y, &to);
    else if (exists && image->channels == 1)
        convert(shared, image, x, y, 1, &to);
    else if (exists && image->channels == 3)
        convert(shared, image, x, y, 3, &to);
    else if (exists)
        convert(shared, image, x, y, 4, &to);
    uint32_t translucent = warp_ballot(to.alpha < 0xFF000000u);
    if (!exists)
        return;
    size_t stride = 16 * (size_t)image->columns, at = y * stride + x,
           chroma_at = y / 2 * (stride / 2) + x / 2;
    store_words2(image->y + at, to.luma[0][0], to.luma[0][1]);
    store_words2(image->y + at + stride, to.luma[1][0], to.luma[1][1]);
    *(uint32_t *)(image->u + chroma_at) = to.u;
    *(uint32_t *)(image->v + chroma_at) = to.v;
    uint32_t own_lanes = lane % 4 < 2 ? 0x33333333u : 0xCCCCCCCCu;
    if (lane == 0 || lane == 2)
        image->alphas[(size_t)row * image->columns + x / 16] = (translucent & own_lanes) != 0;
}
