/*
 * pad.cu - adds a border of one colour around an image, on the device (pad.h).
 *
 * If the result has the channels of the source, a thread stores 16 bytes of a row: from the source,
 * from the colour, or, at the two edges of the source, from both. If gray becomes RGB, or alpha is
 * added, a thread stores one pixel.
 */
#include "gpu/ops/load.cuh"
#include "gpu/ops/pad.h"

#define THREADS 256

struct pad_args : pass_images {
    int from_height;
    int top;
    int start, end; /* where the source lies in a row of the result, in the units of `across` */
    int across;     /* bytes per row, in pieces of 16; for convert_kernel: pixels per row */
    int items;
    int skew; /* remainder modulo 16 of the source address of a 16-byte piece */
    uint8_t fill[4];
};

/* The 16 bytes at `offset` of a row of the colour. Arrays have constant indices only, so that they
 * are registers. */
template <int C> SIMT uint4 fill_16(const pad_args &a, int offset)
{
    int phase = C == 3 ? offset % 3 : 0;
    uint32_t f0 = a.fill[0], f1 = a.fill[1], f2 = a.fill[2], words[4];
    uint32_t cycle[4] = {phase == 0 ? f0 : phase == 1 ? f1 : f2,
                         phase == 0 ? f1 : phase == 1 ? f2 : f0,
                         phase == 0 ? f2 : phase == 1 ? f0 : f1, a.fill[3]};
    unrolled_for (int w = 0; w < 4; w++) {
        words[w] = 0;
        unrolled_for (int b = 0; b < 4; b++)
            words[w] |= cycle[(4 * w + b) % C] << (8 * b);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

/* The word at `offset` of a row: bytes start..end - 1 of the row are those of `inner`, the others
 * those of `outer`. */
SIMT uint32_t select_word(uint32_t inner, uint32_t outer, int offset, int start, int end)
{
    uint32_t mask = 0;
    unrolled_for (int b = 0; b < 4; b++)
        mask |= offset + b >= start && offset + b < end ? 0xFFu << (8 * b) : 0u;
    return (inner & mask) | (outer & ~mask);
}

template <int C> static __global__ void __launch_bounds__(THREADS) pad_kernel(pad_args a)
{
    await_kernel_before();
    int item = blockIdx.x * THREADS + threadIdx.x;
    if (item >= a.items)
        return;
    int y = item / a.across, offset = (item - y * a.across) * 16, source_y = y - a.top;
    bool inside = source_y >= 0 && source_y < a.from_height && offset < a.end &&
                  offset + 16 > a.start;
    bool whole = inside && offset >= a.start && offset + 16 <= a.end;
    uint4 piece = make_uint4(0, 0, 0, 0);
    if (inside)
        piece = load_16<true>(a.from + (size_t)source_y * a.from_stride, offset - a.start,
                              a.end - a.start, a.skew);
    if (!whole) {
        uint4 fill = fill_16<C>(a, offset);
        int end = inside ? a.end : a.start; /* not inside: all bytes are of the colour */
        piece.x = select_word(piece.x, fill.x, offset, a.start, end);
        piece.y = select_word(piece.y, fill.y, offset + 4, a.start, end);
        piece.z = select_word(piece.z, fill.z, offset + 8, a.start, end);
        piece.w = select_word(piece.w, fill.w, offset + 12, a.start, end);
    }
    row_put(a.to + (size_t)y * a.to_stride, offset, a.width * C, piece);
}

template <int FROM, int TO>
static __global__ void __launch_bounds__(THREADS) convert_kernel(pad_args a)
{
    await_kernel_before();
    int item = blockIdx.x * THREADS + threadIdx.x;
    if (item >= a.items)
        return;
    int y = item / a.across, x = item - y * a.across, source_y = y - a.top;
    bool inside = source_y >= 0 && source_y < a.from_height && x >= a.start && x < a.end;
    uint8_t pixel[4] = {a.fill[0], a.fill[1], a.fill[2], a.fill[3]};
    if (inside) {
        const uint8_t *from = a.from + (size_t)source_y * a.from_stride +
                              (size_t)(x - a.start) * FROM;
        unrolled_for (int c = 0; c < 3; c++)
            pixel[c] = __ldg(from + (FROM == 1 ? 0 : c));
        pixel[3] = 255;
    }
    uint8_t *to = a.to + (size_t)y * a.to_stride + (size_t)x * TO;
    unrolled_for (int c = 0; c < TO; c++)
        to[c] = pixel[c];
}

static unsigned blocks_of(const pad_args &args)
{
    return (unsigned)((args.items + THREADS - 1) / THREADS);
}

PASS_LAUNCHER(pad_cuda)
{
    const struct pad *pad = reinterpret_cast<const struct pad *>(pass->params);
    bool converts = from->channels != to->channels;
    int unit = converts ? 1 : (int)to->channels;
    pad_args args = pass_args<pad_args>(from, to);
    args.from_height = (int)from->height;
    args.top = (int)pad->top;
    args.start = (int)pad->left * unit;
    args.end = args.start + (int)from->width * unit;
    args.across = converts ? args.width : (args.width * unit + 15) / 16;
    args.items = args.across * args.height;
    args.skew = (int)(((uintptr_t)from->pixels - (unsigned)args.start) % 16);
    memcpy(args.fill, pad->fill, sizeof(args.fill));
    if (converts) {
        auto kernel = from->channels == 3 ? convert_kernel<3, 4>
                      : to->channels == 3 ? convert_kernel<1, 3>
                                          : convert_kernel<1, 4>;
        return launch_kernel(kernel, blocks_of(args), THREADS, 0, stream, args);
    }
    return by_channels(to->channels, [&](auto c) {
        return launch_kernel(pad_kernel<c>, blocks_of(args), THREADS, 0, stream, args);
    });
}
