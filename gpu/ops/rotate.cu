/*
 * rotate.cu - rotation by any angle (rotate.h) on the device: one thread per pixel of the result.
 *
 * Inside of the image, a thread loads the 4 x 4 pixels as words. The differences between pixels are
 * integers, which doubles hold exactly, so they are computed as integers: fewer operations in
 * double precision give the same bits.
 */
#include "gpu/ops/launch.cuh"
#include "gpu/ops/rotate.h"

/* The tile of the result that a block computes. Its pixels are sampled from neighbourhoods of 4 x 4
 * pixels of the source, which share lines of the cache if the tile is compact. */
#define BLOCK_X 32
#define BLOCK_Y 8

struct rotate_args : pass_images {
    int from_width, from_height;
    int tiles_across;
    struct rotate rotate;
};

/* The value as a double, for -4096 to 4096. The sum is exact, and takes a fourth of the time of a
 * conversion. */
SIMT double whole_double(int value)
{
#ifdef SIMT_HOST
    return (double)value;
#else
    return __hiloint2double(0x43300000, value + 4096) - (4503599627370496.0 + 4096.0);
#endif
}

/* ROTATE_CUBIC of four bytes. */
SIMT double mix_bytes(int v1, int v2, int v3, int v4, double d)
{
    double first = whole_double(v3 - v1), second = whole_double(2 * (v1 - v2) + v3 - v4);
    double third = whole_double(v2 - v1 - v3 + v4);
    return whole_double(v2) + d * (first + d * (second + d * third));
}

SIMT int byte_of(uint32_t word, int i)
{
    return (int)(word >> 8 * i & 255u);
}

/* Loads four adjacent pixels of a row, from column x on. */
template <int C> SIMT void load_four(const uint8_t *row, int x, int row_bytes, uint32_t (&words)[C])
{
    uint32_t loaded[C + 1];
    int at = x * C, start = at & ~3;
    unrolled_for (int i = 0; i < (C == 4 ? C : C + 1); i++)
        loaded[i] = row_get<uint32_t>(row, start + 4 * i, row_bytes);
    unrolled_for (int i = 0; i < C; i++)
        words[i] = C == 4 ? loaded[i] : __funnelshift_r(loaded[i], loaded[i + 1], (at & 3) * 8);
}

/* Interpolates along a row, for each channel. */
template <int C> SIMT void mix_row(const uint32_t (&words)[C], double d, double (&to)[C])
{
    int p[4][C]; /* column, channel */
    unrolled_for (int i = 0; i < 4 * C; i++)
        p[i / C][i % C] = byte_of(words[i / 4], i % 4);
    unrolled_for (int k = 0; k < 4 && C == 4; k++)
        unrolled_for (int c = 0; c < 3 && C == 4; c++)
            p[k][c] = (int)resample_premultiply((uint32_t)p[k][c], (uint32_t)p[k][C - 1]);
    unrolled_for (int c = 0; c < C; c++)
        to[c] = mix_bytes(p[0][c], p[1][c], p[2][c], p[3][c], d);
}

/* As rotate_pixel, if all 4 x 4 pixels are inside of the image. */
template <int C>
SIMT void rotate_inner(const rotate_args &a, const rotate_place &place, uint8_t *to)
{
    double v[4][C]; /* row, channel */
    uint32_t result[4];
    unrolled_for (int r = 0; r < 4; r++) {
        uint32_t words[C];
        load_four<C>(a.from + (size_t)(place.y + r) * a.from_stride, place.x, a.from_width * C,
                     words);
        mix_row<C>(words, place.dx, v[r]);
    }
    unrolled_for (int c = 0; c < C; c++)
        result[c] = rotate_clamp((int)ROTATE_CUBIC(v[0][c], v[1][c], v[2][c], v[3][c], place.dy));
    if (C == 4)
        rotate_divide(result);
    unrolled_for (int c = 0; c < C; c++)
        to[c] = (uint8_t)result[c];
}

template <int C>
static __global__ void __launch_bounds__(BLOCK_X *BLOCK_Y)
    rotate_kernel(const __grid_constant__ rotate_args a)
{
    await_kernel_before();
    int tile_y = blockIdx.x / a.tiles_across, tile_x = blockIdx.x - tile_y * a.tiles_across;
    int x = tile_x * BLOCK_X + threadIdx.x, y = tile_y * BLOCK_Y + threadIdx.y;
    if (x >= a.width || y >= a.height)
        return;
    uint8_t pixel[4];
    struct rotate_place place;
    if (rotate_locate(a.rotate.matrix, x, y, a.from_width, a.from_height, &place)) {
        if (place.x >= 0 && place.x + 3 < a.from_width && place.y >= 0 &&
            place.y + 3 < a.from_height)
            rotate_inner<C>(a, place, pixel);
        else
            rotate_pixel(a.from, a.from_stride, a.from_width, a.from_height, &place, pixel, C);
    } else {
        unrolled_for (int c = 0; c < C; c++)
            pixel[c] = a.rotate.fill[c];
    }
    uint8_t *to = a.to + (size_t)y * a.to_stride + (size_t)x * C;
    unrolled_for (int c = 0; c < C; c++)
        to[c] = pixel[c];
}

PASS_LAUNCHER(rotate_cuda)
{
    rotate_args args = pass_args<rotate_args>(from, to);
    args.from_width = (int)from->width;
    args.from_height = (int)from->height;
    args.tiles_across = (args.width + BLOCK_X - 1) / BLOCK_X;
    memcpy(&args.rotate, pass->params, sizeof(args.rotate));
    unsigned blocks = (unsigned)(args.tiles_across * ((args.height + BLOCK_Y - 1) / BLOCK_Y));
    return by_channels(to->channels, [&](auto c) {
        return launch_kernel(rotate_kernel<c>, blocks, dim3(BLOCK_X, BLOCK_Y), 0, stream, args);
    });
}
