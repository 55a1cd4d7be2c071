/*
 * colour.cu - converts pixels to sRGB (colour.h): four pixels per thread, which are whole words.
 *
 * The tables take up to 670 KB and stay in the L2 cache. Neighbouring pixels of photographs read
 * the same nodes of the grid, which are then in the L1 cache.
 */
#include "gpu/ops/colour.h"
#include "gpu/ops/launch.cuh"

#define THREADS 256
#define THREAD_PIXELS 4

struct colour_args : pass_images {
    const uint8_t *tables;
    int row_threads; /* per row */
    int threads;     /* for the image */
};

struct by_matrix {
    SIMT void convert(const uint8_t *tables, const uint8_t *from, uint8_t *to)
    {
        colour_by_matrix(reinterpret_cast<const struct colour_matrix *>(tables), from, to);
    }
};
struct by_cube {
    SIMT void convert(const uint8_t *tables, const uint8_t *from, uint8_t *to)
    {
        colour_by_cube(reinterpret_cast<const struct colour_cube *>(tables), from, to);
    }
};
struct by_inks {
    SIMT void convert(const uint8_t *tables, const uint8_t *from, uint8_t *to)
    {
        colour_by_inks(reinterpret_cast<const struct colour_inks *>(tables), from, to);
    }
};
struct by_product {
    SIMT void convert(const uint8_t *, const uint8_t *from, uint8_t *to)
    {
        colour_by_product(from, to);
    }
};

template <typename By, int FROM, int TO>
static __global__ void __launch_bounds__(THREADS) colour_kernel(const colour_args a)
{
    await_kernel_before();
    int item = blockIdx.x * THREADS + threadIdx.x;
    if (item >= a.threads)
        return;
    int y = item / a.row_threads, x = (item - y * a.row_threads) * THREAD_PIXELS;
    const uint8_t *source = a.from + (size_t)y * a.from_stride;
    uint8_t *row = a.to + (size_t)y * a.to_stride;
    uint32_t words[FROM];
    unrolled_for (int k = 0; k < FROM; k++)
        words[k] = row_get<uint32_t>(source, x * FROM + 4 * k, a.width * FROM);
    uint8_t result[THREAD_PIXELS * TO];
    unrolled_for (int p = 0; p < THREAD_PIXELS; p++) {
        uint8_t pixel[FROM];
        unrolled_for (int c = 0; c < FROM; c++)
            pixel[c] = (uint8_t)(words[(p * FROM + c) / 4] >> ((p * FROM + c) % 4 * 8));
        By::convert(a.tables, pixel, result + p * TO);
        if (TO == 4)
            result[p * TO + 3] = pixel[FROM - 1];
    }
    unrolled_for (int k = 0; k < TO; k++)
        row_put<uint32_t>(row, x * TO + 4 * k, a.width * TO,
                            (uint32_t)result[4 * k] | (uint32_t)result[4 * k + 1] << 8 |
                                (uint32_t)result[4 * k + 2] << 16 |
                                (uint32_t)result[4 * k + 3] << 24);
}

template <typename By, int FROM, int TO>
static cudaError_t launch_colour(const struct pass *pass, const struct image *from,
                                 const struct image *to, cudaStream_t stream)
{
    colour_args args = pass_args<colour_args>(from, to);
    args.tables = pass->constants;
    args.row_threads = (args.width + THREAD_PIXELS - 1) / THREAD_PIXELS;
    args.threads = args.row_threads * args.height;
    unsigned blocks = (unsigned)(args.threads + THREADS - 1) / THREADS;
    return launch_kernel(colour_kernel<By, FROM, TO>, blocks, THREADS, 0, stream, args);
}

PASS_LAUNCHER(colour_cuda)
{
    const struct colour_pass *params = reinterpret_cast<const struct colour_pass *>(pass->params);
    bool alpha = from->channels == 4;
    switch (params->kind) {
    case COLOUR_MATRIX:
        return alpha ? launch_colour<by_matrix, 4, 4>(pass, from, to, stream)
                     : launch_colour<by_matrix, 3, 3>(pass, from, to, stream);
    case COLOUR_CUBE:
        return alpha ? launch_colour<by_cube, 4, 4>(pass, from, to, stream)
                     : launch_colour<by_cube, 3, 3>(pass, from, to, stream);
    case COLOUR_INKS: return launch_colour<by_inks, 4, 3>(pass, from, to, stream);
    default: return launch_colour<by_product, 4, 3>(pass, from, to, stream);
    }
}
