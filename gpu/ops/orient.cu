/*
 * orient.cu - the eight EXIF orientations, a tile of 64 x 64 pixels of the result a block.
 *
 * The part of the source that a tile needs is read with 16-byte loads, from the aligned address
 * before it on, into shared memory; the result is gathered from there byte by byte and written 4
 * bytes a lane. Rows in shared memory are padded to an odd number of words, so that reading down
 * a column touches many banks.
 */
#include <cuda_runtime.h>

#include "gpu/ops/orient.h"

#define TILE 64
#define THREADS 256
/* Bytes that an unaligned start can push a row beyond its own length. */
#define SKEW 16

/* ---- kernels ---- */

struct orient_args {
    const uint8_t *from;
    uint8_t *to;
    size_t from_stride, to_stride;
    int from_width, from_height, width, height; /* width, height: of the result */
    int tiles_across;
    int swap, flip_x, flip_y;
};

template <int C>
static __global__ void __launch_bounds__(THREADS) orient_kernel(orient_args a)
{
    constexpr int pitch = TILE * C + SKEW + 4;
    __shared__ alignas(16) uint8_t tile[TILE * pitch];
    int tile_y = blockIdx.x / a.tiles_across, tile_x = blockIdx.x - tile_y * a.tiles_across;
    int x0 = tile_x * TILE, y0 = tile_y * TILE;
    int x_count = min(TILE, a.width - x0), y_count = min(TILE, a.height - y0);

    /* The rectangle of the source: columns follow y of the result where the sides change. */
    int across0 = a.swap ? y0 : x0, across = a.swap ? y_count : x_count;
    int down0 = a.swap ? x0 : y0, down = a.swap ? x_count : y_count;
    int source_x0 = a.flip_x ? a.from_width - across0 - across : across0;
    int source_y0 = a.flip_y ? a.from_height - down0 - down : down0;
    int skew = source_x0 * C % 16, pieces = (skew + across * C + 15) / 16;
    const uint8_t *source = a.from + (size_t)source_y0 * a.from_stride + (source_x0 * C - skew);

    for (int i = threadIdx.x; i < down * pieces; i += THREADS) {
        int row = i / pieces, piece = i - row * pieces;
        uint4 four = __ldg(reinterpret_cast<const uint4 *>(source + row * a.from_stride) + piece);
        uint32_t *place = reinterpret_cast<uint32_t *>(tile + row * pitch + piece * 16);
        place[0] = four.x;
        place[1] = four.y;
        place[2] = four.z;
        place[3] = four.w;
    }
    __syncthreads();

    /* A step to the right in the result is step_x bytes in the tile; one down is step_y. */
    int step_across = a.flip_x ? -C : C, step_down = a.flip_y ? -pitch : pitch;
    int step_x = a.swap ? step_down : step_across, step_y = a.swap ? step_across : step_down;
    int origin = skew + (a.flip_x ? (across - 1) * C : 0) + (a.flip_y ? (down - 1) * pitch : 0);
    int row_bytes = x_count * C;
    constexpr int words = TILE * C / 4;
    for (int i = threadIdx.x; i < y_count * words; i += THREADS) {
        int y = i / words, offset = (i - y * words) * 4;
        if (offset >= row_bytes)
            continue;
        uint32_t word = 0;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int byte = min(offset + k, row_bytes - 1), x = byte / C, channel = byte - x * C;
            word |= (uint32_t)tile[origin + y * step_y + x * step_x + channel] << (8 * k);
        }
        *reinterpret_cast<uint32_t *>(a.to + (size_t)(y0 + y) * a.to_stride + x0 * C + offset) =
            word;
    }
}

/* ---- launchers ---- */

extern "C" int orient_cuda(const struct pass *pass, const struct image *from,
                           const struct image *to, uint8_t *work, struct CUstream_st *stream)
{
    const struct orient *orient = reinterpret_cast<const struct orient *>(pass->params);
    orient_args args = {from->pixels,       to->pixels,        from->stride,
                        to->stride,         (int)from->width,  (int)from->height,
                        (int)to->width,     (int)to->height,   (int)((to->width + TILE - 1) / TILE),
                        orient->swap,       orient->flip_x,    orient->flip_y};
    unsigned blocks = (unsigned)args.tiles_across * ((to->height + TILE - 1) / TILE);
    (void)work;
    if (from->channels == 1)
        orient_kernel<1><<<blocks, THREADS, 0, stream>>>(args);
    else if (from->channels == 3)
        orient_kernel<3><<<blocks, THREADS, 0, stream>>>(args);
    else
        orient_kernel<4><<<blocks, THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}
