/*
 * point.cu - the passes of point.h on the device: each byte is looked up in a table, or the
 * channels of each pixel are mixed.
 *
 * The tables are copied to shared memory (rows.cuh) while the first pixels are loaded.
 *
 * At 4 TB/s a multiprocessor reads and writes 17 bytes per cycle. If each byte is looked up once,
 * it needs 9 lookups per cycle. Shared memory serves 16 lookups per cycle for random pixels, and 32
 * for similar neighbours, as in photographs. Only RGB with a table, a matrix and another table
 * would be limited by shared memory: it needs 13 to 17 lookups per cycle, and its pixels also pass
 * through shared memory. It has a kernel of its own, wide_kernel.
 */
#include "gpu/ops/point.h"
#include "gpu/ops/rows.cuh"

#define WARPS 8
#define THREADS (WARPS * WARP)
/* 16-byte pieces that a thread of table_kernel loads before it uses them. */
#define PIECES 4

struct point_tables {
    uint4 pieces[POINT_TABLES * 16];
};

/* Looks up each byte in one table, except alpha if ALPHA. A block processes THREADS * PIECES pieces
 * of one row. */
template <bool ALPHA>
static __global__ void __launch_bounds__(THREADS)
    table_kernel(const uint8_t *__restrict__ from, size_t from_stride, uint8_t *__restrict__ to,
                 size_t to_stride, int row_pieces, int row_blocks,
                 const __grid_constant__ point_tables tables)
{
    await_kernel_before();
    __shared__ alignas(16) uint8_t table[256];
    int y = blockIdx.x / row_blocks, block = blockIdx.x - y * row_blocks;
    int first = block * (THREADS * PIECES) + threadIdx.x;
    const uint4 *source = reinterpret_cast<const uint4 *>(from + (size_t)y * from_stride);
    uint4 *row = reinterpret_cast<uint4 *>(to + (size_t)y * to_stride);
    uint4 held[PIECES];
    unrolled_for (int j = 0; j < PIECES; j++)
        if (first + j * THREADS < row_pieces)
            held[j] = __ldg(source + first + j * THREADS);
    tables_copy<1, WARPS>(table, tables.pieces, threadIdx.x / WARP, threadIdx.x % WARP);
    __syncthreads();
    unrolled_for (int j = 0; j < PIECES; j++)
        if (first + j * THREADS < row_pieces)
            row[first + j * THREADS] = look_up_four<ALPHA>(held[j], table);
}

struct point_args : row_stretches {
    int32_t matrix[3][4];
    gray_words gray;
    point_tables tables;
};

/* Multiplies four RGB pixels, which are three words, by the matrix. */
SIMT void mix_four_rgb(uint32_t *words, const int32_t (&m)[3][4])
{
    uint32_t bytes[12], sums[12];
    unrolled_for (int k = 0; k < 12; k++)
        bytes[k] = words[k / 4] >> (k % 4 * 8) & 255u;
    unrolled_for (int k = 0; k < 12; k++) {
        const uint32_t *pixel = bytes + k / 3 * 3;
        const int32_t *row = m[k % 3];
        sums[k] = (uint32_t)point_sum((int32_t)pixel[0], (int32_t)pixel[1], (int32_t)pixel[2],
                                      row[0], row[1], row[2], row[3]);
    }
    unrolled_for (int k = 0; k < 12; k += 4)
        words[k / 4] = gray_pack(sums[k], sums[k + 1], sums[k + 2], sums[k + 3]);
}

/* Looks up single bytes and not words, because the sums need single bytes anyway. */
template <bool BEFORE, bool AFTER>
SIMT uint32_t mix_rgba(uint32_t pixel, const point_args &a, const uint8_t (*tables)[256])
{
    uint32_t colours[3], sums[3];
    unrolled_for (int k = 0; k < 3; k++) {
        colours[k] = pixel >> (8 * k) & 255u;
        if (BEFORE)
            colours[k] = tables[POINT_BEFORE][colours[k]];
    }
    unrolled_for (int k = 0; k < 3; k++) {
        const int32_t *row = a.matrix[k];
        sums[k] = (uint32_t)point_sum((int32_t)colours[0], (int32_t)colours[1],
                                      (int32_t)colours[2], row[0], row[1], row[2], row[3]);
        if (AFTER)
            sums[k] = tables[POINT_AFTER][sums[k] >> 16];
    }
    /* Without a table, the bytes of the result are in bits 16 to 23 of the sums. */
    return __byte_perm(__byte_perm(sums[0], sums[1], AFTER ? 0x0040 : 0x0062),
                       __byte_perm(sums[2], pixel, AFTER ? 0x0070 : 0x0072), 0x5410);
}

template <int C, bool BEFORE, bool AFTER>
SIMT void gray_stretch(row_part<C> *part, const point_args &a, uint8_t *row, int x0, int lane,
                       uint8_t *stage, const uint8_t (*tables)[256])
{
    if constexpr (BEFORE) {
        unrolled_for (int j = 0; j < C; j++)
            part->words[j] = look_up_four<C == 4>(part->words[j], tables[POINT_BEFORE]);
    }
    if constexpr (C == 4) {
        unrolled_for (int j = 0; j < 4; j++) {
            uint32_t word = gray_four_rgba(part->words[j], a.gray);
            row_put(row, x0 + (lane + j * WARP) * 4, a.width,
                    AFTER ? look_up<false>(word, tables[POINT_AFTER]) : word);
        }
    } else {
        row_turn_rgb(part, stage, lane);
        uint4 pixels = gray_lane_rgb(*part, a.gray);
        row_put(row, x0 + lane * LANE_PIXELS, a.width,
                AFTER ? look_up_four<false>(pixels, tables[POINT_AFTER]) : pixels);
    }
}

template <int C, bool BEFORE, bool AFTER>
SIMT void matrix_stretch(row_part<C> *part, const point_args &a, uint8_t *row, int x0, int lane,
                         uint8_t *stage, const uint8_t (*tables)[256])
{
    uint4 *w = part->words;
    if constexpr (C == 4) {
        unrolled_for (int j = 0; j < 4; j++) {
            w[j] = make_uint4(mix_rgba<BEFORE, AFTER>(w[j].x, a, tables),
                              mix_rgba<BEFORE, AFTER>(w[j].y, a, tables),
                              mix_rgba<BEFORE, AFTER>(w[j].z, a, tables),
                              mix_rgba<BEFORE, AFTER>(w[j].w, a, tables));
            row_put(row, (x0 + (lane + j * WARP) * 4) * 4, a.width * 4, w[j]);
        }
    } else {
        if constexpr (BEFORE) {
            unrolled_for (int j = 0; j < 3; j++)
                w[j] = look_up_four<false>(w[j], tables[POINT_BEFORE]);
        }
        row_turn_rgb(part, stage, lane);
        unrolled_for (int k = 0; k < 12; k += 3)
            mix_four_rgb(reinterpret_cast<uint32_t *>(w) + k, a.matrix);
        row_turn_rgb(part, stage, lane, true);
        unrolled_for (int j = 0; j < 3; j++)
            row_put(row, x0 * 3 + (lane + j * WARP) * 16, a.width * 3,
                    AFTER ? look_up_four<false>(w[j], tables[POINT_AFTER]) : w[j]);
    }
}

template <int C, bool GRAY, bool BEFORE, bool AFTER>
static __global__ void __launch_bounds__(THREADS) mix_kernel(const __grid_constant__ point_args a)
{
    await_kernel_before();
    __shared__ alignas(16) uint8_t tables[2][256];
    __shared__ alignas(16) uint8_t stage[C == 3 ? WARPS : 1][C == 3 ? WARP_PIXELS * 3 : 16];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int item = blockIdx.x * WARPS + warp;
    int y = item / a.stretches, x0 = (item - y * a.stretches) * WARP_PIXELS;
    bool any = item < a.stretch_count;
    uint8_t *row = a.to + (size_t)y * a.to_stride;
    row_part<C> part;
    if (any)
        row_load<C>(&part, a.from + (size_t)y * a.from_stride, x0, a.width, lane);
    if constexpr (BEFORE || AFTER) {
        tables_copy<2, WARPS>(tables[0], a.tables.pieces, warp, lane);
        __syncthreads();
    }
    if (!any)
        return; /* for all lanes of the warp; no barrier of the block follows */
    if constexpr (GRAY)
        gray_stretch<C, BEFORE, AFTER>(&part, a, row, x0, lane, stage[C == 3 ? warp : 0], tables);
    else
        matrix_stretch<C, BEFORE, AFTER>(&part, a, row, x0, lane, stage[C == 3 ? warp : 0], tables);
}

/*
 * ---- RGB through a table, a matrix and a table ----
 *
 * There are six lookups per pixel, and the pixels also pass through shared memory. With a table of
 * 256 bytes for all lanes, the lookups of a warp would take up to two cycles. Each lane therefore
 * has its own two tables, with one entry per word, and all entries of a lane are in one bank. The
 * lookups of a warp then take one cycle for any pixels. The tables of all lanes take 64 KiB. A
 * block fills them once and then processes many stretches of the image.
 */
#define WIDE_WARPS 16
#define WIDE_THREADS (WIDE_WARPS * WARP)
#define WIDE_BLOCKS 2 /* per multiprocessor */
#define WIDE_TABLE (256 * WARP * 4)

struct wide_memory {
    uint8_t before[WIDE_TABLE], after[WIDE_TABLE];
    uint8_t stage[WIDE_WARPS][WARP_PIXELS * 3];
};

SIMT void wide_make(uint8_t *wide, const uint8_t *table)
{
    uint4 *pieces = reinterpret_cast<uint4 *>(wide);
    for (int i = threadIdx.x; i < WIDE_TABLE / 16; i += WIDE_THREADS) {
        uint32_t value = table[i / (WARP / 4)];
        pieces[i] = make_uint4(value, value, value, value);
    }
}

/* Looks up the byte that starts at bit `bit` of `word`. own: 4 times the lane. */
SIMT uint32_t wide_look_up(const uint8_t *wide, uint32_t word, int bit, uint32_t own)
{
    uint32_t row = (bit < 7 ? word << (7 - bit) : word >> (bit - 7)) & 255u << 7;
    return word_at(wide + (row | own));
}

SIMT void wide_mix_four(uint32_t *words, const point_args &a, const wide_memory &memory,
                        uint32_t own)
{
    uint32_t bytes[12], mixed[12];
    unrolled_for (int k = 0; k < 12; k++)
        bytes[k] = wide_look_up(memory.before, words[k / 4], k % 4 * 8, own);
    unrolled_for (int k = 0; k < 12; k++) {
        const uint32_t *pixel = bytes + k / 3 * 3;
        const int32_t *row = a.matrix[k % 3];
        int32_t sum = point_sum((int32_t)pixel[0], (int32_t)pixel[1], (int32_t)pixel[2], row[0],
                                row[1], row[2], row[3]);
        mixed[k] = wide_look_up(memory.after, (uint32_t)sum, 16, own);
    }
    unrolled_for (int k = 0; k < 12; k += 4)
        words[k / 4] = word_of(mixed[k], mixed[k + 1], mixed[k + 2], mixed[k + 3]);
}

static __global__ void __launch_bounds__(WIDE_THREADS, WIDE_BLOCKS)
    wide_kernel(const __grid_constant__ point_args a)
{
    await_kernel_before();
    wide_memory &memory = *static_cast<wide_memory *>(dynamic_shared());
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, step = gridDim.x * WIDE_WARPS;
    int item = blockIdx.x * WIDE_WARPS + warp;
    sweep_place at = sweep_begin(item, step, a.stretches);
    row_part<3> part, next;
    if (item < a.stretch_count)
        row_load<3>(&next, a.from + (size_t)at.y * a.from_stride, at.x0, a.width, lane);
    const uint8_t *tables = reinterpret_cast<const uint8_t *>(a.tables.pieces);
    wide_make(memory.before, tables + POINT_BEFORE * 256);
    wide_make(memory.after, tables + POINT_AFTER * 256);
    __syncthreads();
    uint32_t *words = reinterpret_cast<uint32_t *>(part.words);
    uint8_t *stage = memory.stage[warp];
    for (; item < a.stretch_count; item += step) {
        int y = at.y, x0 = at.x0;
        part = next;
        sweep_next(&at);
        if (item + step < a.stretch_count)
            row_load<3>(&next, a.from + (size_t)at.y * a.from_stride, at.x0, a.width, lane);
        row_turn_rgb(&part, stage, lane);
        unrolled_for (int k = 0; k < 12; k += 3)
            wide_mix_four(words + k, a, memory, lane * 4u);
        row_turn_rgb(&part, stage, lane, true);
        row_store(a.to + (size_t)y * a.to_stride, part, x0, a.width, lane);
    }
}

/* Gray to RGB: one lookup per pixel in each of three tables. */
static __global__ void __launch_bounds__(THREADS) tint_kernel(const __grid_constant__ point_args a)
{
    await_kernel_before();
    __shared__ alignas(16) uint8_t tables[POINT_TABLES][256];
    __shared__ uint32_t colours[256];
    __shared__ alignas(16) uint8_t stage[WARPS][WARP_PIXELS * 3];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int item = blockIdx.x * WARPS + warp;
    int y = item / a.stretches, x0 = (item - y * a.stretches) * WARP_PIXELS;
    bool any = item < a.stretch_count;
    row_part<1> gray = {};
    if (any)
        row_load<1>(&gray, a.from + (size_t)y * a.from_stride, x0, a.width, lane);
    tables_copy<POINT_TABLES, WARPS>(tables[0], a.tables.pieces, warp, lane);
    __syncthreads();
    for (int v = threadIdx.x; v < 256; v += THREADS)
        colours[v] = tables[0][v] | (uint32_t)tables[1][v] << 8 | (uint32_t)tables[2][v] << 16;
    __syncthreads();
    if (!any)
        return; /* the whole warp returns */
    row_part<3> part;
    uint32_t *words = reinterpret_cast<uint32_t *>(part.words);
    const uint32_t four[4] = {gray.words[0].x, gray.words[0].y, gray.words[0].z, gray.words[0].w};
    unrolled_for (int k = 0; k < 4; k++) {
        uint32_t p0 = colours[four[k] & 255u], p1 = colours[four[k] >> 8 & 255u];
        uint32_t p2 = colours[four[k] >> 16 & 255u], p3 = colours[four[k] >> 24];
        words[3 * k + 0] = p0 | p1 << 24;
        words[3 * k + 1] = p1 >> 8 | p2 << 16;
        words[3 * k + 2] = p2 >> 16 | p3 << 8;
    }
    row_turn_rgb(&part, stage[warp], lane, true);
    row_store(a.to + (size_t)y * a.to_stride, part, x0, a.width, lane);
}

/*
 * ---- flattening RGBA to RGB ----
 *
 * A lane converts 4 pixels to 3 words. The lanes exchange the words through shared memory, so that
 * each lane writes 16 bytes at once. There the words of neighbouring lanes are 3 apart, so each
 * lane of a warp writes to another bank.
 */

/* Flattens one pixel to 0x00BBGGRR. */
SIMT uint32_t flatten_pixel(uint32_t pixel, uint3 under)
{
    uint32_t alpha = pixel >> 24;
    return flatten_byte(pixel & 255u, alpha, under.x) |
           flatten_byte(pixel >> 8 & 255u, alpha, under.y) << 8 |
           flatten_byte(pixel >> 16 & 255u, alpha, under.z) << 16;
}

static __global__ void __launch_bounds__(WARPS *WARP) flatten_kernel(row_stretches a, uint3 under)
{
    await_kernel_before();
    __shared__ alignas(16) uint32_t stage[WARPS][WARP_PIXELS * 3 / 4];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int item = blockIdx.x * WARPS + warp;
    if (item >= a.stretch_count)
        return; /* the whole warp returns */
    int y = item / a.stretches, x0 = (item - y * a.stretches) * WARP_PIXELS;
    row_part<4> part;
    row_load<4>(&part, a.from + (size_t)y * a.from_stride, x0, a.width, lane);
    unrolled_for (int j = 0; j < 4; j++) {
        uint32_t p0 = flatten_pixel(part.words[j].x, under);
        uint32_t p1 = flatten_pixel(part.words[j].y, under);
        uint32_t p2 = flatten_pixel(part.words[j].z, under);
        uint32_t p3 = flatten_pixel(part.words[j].w, under);
        uint32_t *place = &stage[warp][(lane + j * WARP) * 3];
        place[0] = p0 | p1 << 24;
        place[1] = p1 >> 8 | p2 << 16;
        place[2] = p2 >> 16 | p3 << 8;
    }
    __syncwarp();
    uint8_t *row = a.to + (size_t)y * a.to_stride;
    unrolled_for (int j = 0; j < 3; j++) {
        int piece = lane + j * WARP;
        row_put(row, x0 * 3 + piece * 16, a.width * 3,
                reinterpret_cast<const uint4 *>(stage[warp])[piece]);
    }
}

/* ---- launchers ---- */

/* If the source and the result have the same stride, and no more padding than a row needs, they are
 * processed as one long row. The padding is then written too, which is allowed. */
static cudaError_t launch_table(const struct image *from, const struct image *to,
                                const point_tables &tables, cudaStream_t stream)
{
    size_t row_bytes = (size_t)from->width * from->channels;
    unsigned rows = from->height;
    if (from->stride == to->stride && from->stride == image_stride(from->width, from->channels)) {
        row_bytes = from->stride * rows;
        rows = 1;
    }
    int pieces = (int)((row_bytes + 15) / 16);
    int row_blocks = (pieces + THREADS * PIECES - 1) / (THREADS * PIECES);
    unsigned blocks = (unsigned)row_blocks * rows;
    auto kernel = from->channels == 4 ? table_kernel<true> : table_kernel<false>;
    return launch_kernel(kernel, blocks, THREADS, 0, stream, from->pixels, from->stride, to->pixels,
                         to->stride, pieces, row_blocks, tables);
}

/* Whether the device has enough shared memory for wide_kernel. Before compute capability 8.0 it
 * does not, and mix_kernel is used. */
static bool wide_fits()
{
    constexpr int bytes = sizeof(wide_memory);
    bool fits = device_attribute<cudaDevAttrMaxSharedMemoryPerBlockOptin>() >= bytes &&
                cudaFuncSetAttribute(wide_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     bytes) == cudaSuccess;
    (void)cudaGetLastError();
    return fits;
}

template <int C, bool GRAY>
static cudaError_t launch_mix(const point_args &args, unsigned blocks, const struct point *point,
                              cudaStream_t stream)
{
    auto kernel = point->before ? point->after ? mix_kernel<C, GRAY, true, true>
                                               : mix_kernel<C, GRAY, true, false>
                  : point->after ? mix_kernel<C, GRAY, false, true>
                                 : mix_kernel<C, GRAY, false, false>;
    return launch_kernel(kernel, blocks, THREADS, 0, stream, args);
}

PASS_LAUNCHER(grayscale_cuda)
{
    point_args args = row_stretches_of<point_args>(from, to);
    args.gray = gray_words_of(reinterpret_cast<const struct grayscale *>(pass->params));
    auto kernel = from->channels == 3 ? mix_kernel<3, true, false, false>
                                      : mix_kernel<4, true, false, false>;
    return launch_kernel(kernel, stretch_blocks(args, WARPS), THREADS, 0, stream, args);
}

PASS_LAUNCHER(point_cuda)
{
    const struct point *point = reinterpret_cast<const struct point *>(pass->params);
    point_args args = row_stretches_of<point_args>(from, to);
    memcpy(&args.tables, point->tables, sizeof(args.tables));
    if (point->mix == POINT_TABLE)
        return launch_table(from, to, args.tables, stream);
    args.gray = gray_words_of(&point->gray);
    memcpy(args.matrix, point->matrix, sizeof(args.matrix));
    unsigned blocks = stretch_blocks(args, WARPS);
    if (point->mix == POINT_TINT)
        return launch_kernel(tint_kernel, blocks, THREADS, 0, stream, args);
    if (from->channels == 3 && point->mix != POINT_GRAY && point->before && point->after &&
        wide_fits())
        return launch_kernel(wide_kernel, sweep_blocks(args, WIDE_WARPS, WIDE_BLOCKS),
                             WIDE_THREADS, sizeof(wide_memory), stream, args);
    if (from->channels == 3)
        return point->mix == POINT_GRAY ? launch_mix<3, true>(args, blocks, point, stream)
                                        : launch_mix<3, false>(args, blocks, point, stream);
    return point->mix == POINT_GRAY ? launch_mix<4, true>(args, blocks, point, stream)
                                    : launch_mix<4, false>(args, blocks, point, stream);
}

PASS_LAUNCHER(flatten_cuda)
{
    const struct flatten *flatten = reinterpret_cast<const struct flatten *>(pass->params);
    const uint8_t *under = flatten->background;
    row_stretches args = row_stretches_of<>(from, to);
    return launch_kernel(flatten_kernel, stretch_blocks(args, WARPS), WARPS * WARP, 0, stream, args,
                         make_uint3(under[0], under[1], under[2]));
}
