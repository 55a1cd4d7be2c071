/*
 * resample.cuh - what the kernels for weighted means along rows and along columns share: weights
 * as bytes, and sums of their products.
 *
 * Each pass is a banded matrix product: tiles in shared memory, register tiles, vector loads. The
 * tensor cores (mma.cuh) multiply bytes, so a weight is split into three signed bytes, its digits:
 * weight = d0 + 2^8 d1 + 2^16 d2. Three products with the same pixels have sums of 32 bits, which
 * are joined at the end. Sums that wrap around equal those of the CPU engine modulo 2^32.
 *
 * The sum over the source runs in chunks of 32 pixels. The order of the pixels within a chunk is
 * free, as long as the weights have the same order. It is chosen so that few instructions sort the
 * channels.
 */
#pragma once

#include "gpu/ops/mma.cuh"
#include "gpu/ops/resample.h"

#define WARP    32
#define WARPS   8
#define THREADS (WARPS * WARP)
/* Pixels of the source per product. */
#define CHUNK  32
#define DIGITS 3
#define HALF   (1 << (RESAMPLE_BITS - 1))

struct resample_args : pass_images {
    int from_width, from_height;
    const int32_t *first, *weights;
    int taps;  /* weights per pixel of the result */
    int reach; /* the most of them that are not padding */
    int premultiply, divide;
    int strip; /* tiles, per block along rows, and per warp along columns */
    /* Of resample_x_kernel: */
    int step_bits; /* log2 of the distance of two chunks in pixels */
    int chunks;    /* the most chunks of a tile */
    int steps;     /* for which shared memory has room */
    int groups;    /* of rows, per block */
};

SIMT uint32_t premultiply_pixel(uint32_t pixel)
{
    uint32_t alpha = pixel >> 24;
    return resample_premultiply(pixel & 255u, alpha) |
           resample_premultiply(pixel >> 8 & 255u, alpha) << 8 |
           resample_premultiply(pixel >> 16 & 255u, alpha) << 16 | alpha << 24;
}

SIMT uint32_t divide_pixel(uint32_t pixel)
{
    uint32_t alpha = pixel >> 24;
    return resample_divide(pixel & 255u, alpha) | resample_divide(pixel >> 8 & 255u, alpha) << 8 |
           resample_divide(pixel >> 16 & 255u, alpha) << 16 | alpha << 24;
}

/* The warp of this lane in the block. The compiler then knows that all lanes have the same number,
 * and that they stay together where a condition depends on it. */
SIMT int warp_index()
{
    return __shfl_sync(~0u, (int)(threadIdx.x / WARP), 0);
}

/* Keeps the compiler from computing the value again at each use, with values that it then reads
 * again: with few registers left it does so even in inner loops. */
SIMT uint32_t keep(uint32_t value)
{
    asm("" : "+r"(value));
    return value;
}

/* ---- weights ---- */

/* The weights of an output. `taps` is 0 for outputs that do not exist. */
struct band {
    const int32_t *weights;
    int first, taps;
};

SIMT int band_first(const resample_args &a, int outputs, int output)
{
    return output < outputs ? __ldg(a.first + output) : 0;
}

/* first: of band_first. */
SIMT band band_of(const resample_args &a, int outputs, int output, int first)
{
    if (output >= outputs)
        return {a.weights, 0, 0};
    return {a.weights + (size_t)output * a.taps, first, a.taps};
}

/* The pixel after the last one that has a weight for the outputs up to `last`. */
SIMT int band_end(const resample_args &a, int last, int outputs, int pixels)
{
    return min(__ldg(a.first + min(last, outputs - 1)) + a.reach, pixels);
}

/* The digits of a weight, in the lower three bytes. */
SIMT uint32_t digits_of(const band &band, int pixel)
{
    int t = pixel - band.first;
    uint32_t weight = (unsigned)t < (unsigned)band.taps ? (uint32_t)__ldg(band.weights + t) : 0;
    /* A digit plus 128 is a byte of the weight plus 128 in each byte. */
    return (weight + 0x808080u) ^ 0x808080u;
}

/* The digits of four weights: those of `pixel`, the next one, and of both GAP pixels later. */
template <int GAP> SIMT uint3 digits_of_four(const band &band, int pixel)
{
    uint32_t a = digits_of(band, pixel), b = digits_of(band, pixel + 1);
    uint32_t c = digits_of(band, pixel + GAP), d = digits_of(band, pixel + GAP + 1);
    uint32_t ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(c, d, 0x5140);
    return make_uint3(__byte_perm(ab, cd, 0x5410), __byte_perm(ab, cd, 0x7632),
                      __byte_perm(__byte_perm(a, b, 0x0062), __byte_perm(c, d, 0x0062), 0x5410));
}

/* Sums of products with the three digits, of one register tile. Those with the first digit begin
 * with HALF. */
typedef int32_t digit_sums[DIGITS][4];

SIMT void sums_clear(digit_sums &sums)
{
    unrolled_for (int d = 0; d < DIGITS; d++)
        unrolled_for (int i = 0; i < 4; i++)
            sums[d][i] = d == 0 ? HALF : 0;
}

/* A pixel of the result, which may still be outside of 0..255. */
SIMT int32_t sums_join(const digit_sums &sums, int i)
{
    uint32_t sum =
        (uint32_t)sums[0][i] + ((uint32_t)sums[1][i] << 8) + ((uint32_t)sums[2][i] << 16);
    return (int32_t)sum >> RESAMPLE_BITS;
}

/* Transposes a matrix of 4 x 4 bytes. */
SIMT void transpose(const uint32_t (&from)[4], uint32_t (&to)[4])
{
    uint32_t a = __byte_perm(from[0], from[1], 0x5140), b = __byte_perm(from[2], from[3], 0x5140);
    uint32_t c = __byte_perm(from[0], from[1], 0x7362), d = __byte_perm(from[2], from[3], 0x7362);
    to[0] = __byte_perm(a, b, 0x5410);
    to[1] = __byte_perm(a, b, 0x7632);
    to[2] = __byte_perm(c, d, 0x5410);
    to[3] = __byte_perm(c, d, 0x7632);
}

/* ---- launchers ---- */

static inline const struct resample *resample_of(const struct pass_call &call)
{
    return reinterpret_cast<const struct resample *>(call.pass->params);
}

/* The arguments for a pass whose tables have one entry per `outputs`. */
static inline resample_args resample_args_of(const struct pass_call &call, uint32_t outputs)
{
    const struct resample *resample = resample_of(call);
    resample_args args = pass_args<resample_args>(&call.from, &call.to);
    args.from += (size_t)resample->skip * call.from.stride;
    args.from_width = (int)call.from.width;
    args.from_height = (int)call.from.height;
    args.first = reinterpret_cast<const int32_t *>(call.pass->constants);
    args.weights = args.first + outputs;
    args.taps = (int)resample->taps;
    args.reach = (int)resample->reach;
    args.premultiply = resample->premultiply;
    args.divide = resample->divide;
    return args;
}

/* The blocks that the device runs at the same time. resident: those of a multiprocessor. */
static inline unsigned launch_places(unsigned resident)
{
    return resident * (unsigned)multiprocessors();
}

/* The part of these places that a pass gets of a launch, by its part of the work. */
static inline unsigned launch_share(unsigned places, double own, double all)
{
    unsigned share = (unsigned)(places * own / all);
    return share > 0 ? share : 1;
}

/* How long a launch takes, in the unit of `length`, the time of a block. */
static inline double launch_time(unsigned blocks, unsigned places, double length)
{
    return (double)((blocks + places - 1) / places) * length;
}
