/*
 * resample_x.cu - weighted means along rows, on the device (resample.cuh).
 *
 * A warp computes 16 rows of a strip, which is several tiles of 8 outputs. It reads the chunks of
 * the strip from left to right, through a ring in shared memory. Each chunk is sorted by channel
 * once, and then multiplied for all tiles that have weights for it. These products are the steps
 * of the strip. They are a list in shared memory, and the weights have the same order.
 *
 * If two outputs are at least one pixel of the source apart, no more than two tiles have weights on
 * both sides of a boundary between chunks. If they are nearer, chunks overlap by half, so that each
 * tile needs one chunk.
 *
 * If columns are resized next, the result is packed (resample.h).
 *
 * Blocks of the same rows follow each other, for all images of a launch: several results of one
 * source read it from the L2 cache.
 */
#include <math.h>

#include <cuda_pipeline.h>

#include "gpu/ops/resample_sort.cuh"

#define ROWS    RESAMPLE_PACKED_ROWS
#define OUTPUTS RESAMPLE_PACKED_PIXELS
/* That a multiprocessor runs at the same time, if their registers and memory allow it. */
#define BLOCKS 2
/* The most tiles per block. */
#define STRIP 32
/* Chunks in the ring. Those of gray are small. */
template <int C> constexpr int RING = C == 1 ? 8 : 4;

/* Bytes that a lane copies at once. */
#define PIECE 16

template <int C> using x_chunk = uint8_t[ROWS][CHUNK * C];
typedef uint2 x_weights[DIGITS][WARP];

/* A step: its chunk, its tile in the strip, whether it is the last one of the tile, and whether it
 * is the first one of the chunk. STEP_LOADS alone ends the list. */
typedef uint32_t x_step;
enum { STEP_LAST = 1, STEP_LOADS = 2, STEP_ODD = 4, STEP_TILE_AT = 2, STEP_CHUNK_AT = 16 };

SIMT int x_step_tile(x_step step)
{
    return (int)(step % (1u << STEP_CHUNK_AT) >> STEP_TILE_AT);
}

/* Shared memory of a block. */
template <int C> struct x_memory {
    alignas(16) x_chunk<C> ring[WARPS][RING<C>];
    alignas(8) uint8_t stage[C == 3 ? WARPS : 1][ROWS][OUTPUTS * C];
    struct {
        int from, to; /* the first and the last chunk */
    } tiles[STRIP];
    int first[STRIP * OUTPUTS]; /* of band_first */
    int steps;
    alignas(8) uint8_t slots[]; /* the weights of the steps, if there is room, and the steps */
};

/* The part of the result that a warp computes. */
struct x_walk {
    int tile0, tiles; /* of the strip */
    int start;        /* the first pixel of the source */
    int chunks;       /* of the strip */
    int inner;        /* of them, those that end before the row ends */
    int y0, lane, warp;
};

SIMT int x_tile_end(const resample_args &a, int tile)
{
    return band_end(a, tile * OUTPUTS + OUTPUTS - 1, a.width, a.from_width);
}

SIMT int x_first_chunk(const resample_args &a, const x_walk &walk, int tile)
{
    return (__ldg(a.first + tile * OUTPUTS) - walk.start) >> a.step_bits;
}

SIMT int x_last_chunk(const resample_args &a, const x_walk &walk, int tile)
{
    int step = 1 << a.step_bits;
    return step < CHUNK ? x_first_chunk(a, walk, tile)
                        : (x_tile_end(a, tile) - 1 - walk.start) >> a.step_bits;
}

SIMT x_walk x_walk_of(const resample_args &a)
{
    x_walk walk;
    walk.lane = threadIdx.x % WARP;
    walk.warp = warp_index();
    walk.y0 = (blockIdx.z * a.groups * WARPS + walk.warp) * ROWS;
    walk.tile0 = blockIdx.x * a.strip;
    walk.tiles = min(a.strip, (a.width + OUTPUTS - 1) / OUTPUTS - walk.tile0);
    walk.start = __ldg(a.first + walk.tile0 * OUTPUTS) >> a.step_bits << a.step_bits;
    walk.chunks = x_last_chunk(a, walk, walk.tile0 + walk.tiles - 1) + 1;
    walk.inner = min(walk.chunks, ((a.from_width - CHUNK - walk.start) >> a.step_bits) + 1);
    return walk;
}

/* Where piece j of a lane is in its row, in chunk 0. */
template <int C> SIMT int x_piece_offset(const x_walk &walk, int j)
{
    constexpr uint32_t across = CHUNK * C / PIECE;
    return walk.start * C + (int)((walk.lane + j * WARP) % across) * PIECE;
}

/* Where a lane copies C pieces of each chunk from and the first one to, and reads its pixels. */
template <int C> struct x_pieces {
    uint32_t from[C]; /* offset in the image, in chunk 0 */
    uint32_t to, at;  /* offsets in the ring of the block, in chunk 0 */
};

template <int C> SIMT x_pieces<C> x_pieces_of(const resample_args &a, const x_walk &walk)
{
    constexpr uint32_t across = CHUNK * C / PIECE, pixels = C == 4 ? 0 : 8 * C;
    uint32_t own = walk.warp * RING<C> * sizeof(x_chunk<C>);
    x_pieces<C> pieces;
    unrolled_for (int j = 0; j < C; j++) {
        int y = min(walk.y0 + (int)((walk.lane + j * WARP) / across), a.height - 1);
        pieces.from[j] = (uint32_t)((size_t)y * a.from_stride) + x_piece_offset<C>(walk, j);
    }
    /* In odd rows, the halves of RGBA are swapped, against bank conflicts. */
    int first = C == 4 ? walk.lane ^ (walk.lane / across & 1) * 4 : walk.lane;
    pieces.to = keep(own + first * PIECE);
    pieces.at = keep(own + walk.lane / 4 * (CHUNK * C) + walk.lane % 4 * pixels);
    return pieces;
}

/* Starts copying a piece to shared memory. The L2 cache loads 128 bytes at once: the row's next
 * chunk follows soon. */
SIMT void x_copy(uint8_t *to, const uint8_t *from)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "n"(PIECE)
                 : "memory");
#else
    __pipeline_memcpy_async(to, from, PIECE);
#endif
}

/* Starts loading a chunk, if the strip has it. */
template <int C>
SIMT void x_send(x_memory<C> &memory, const resample_args &a, const x_walk &walk,
                 const x_pieces<C> &pieces, uint32_t chunk)
{
    uint32_t offset = (chunk * C) << a.step_bits;
    const uint8_t *from = a.from + offset;
    uint8_t *to = memory.ring[0][0][0] + pieces.to + chunk % RING<C> * sizeof(x_chunk<C>);
    if ((int)chunk < walk.inner) {
        unrolled_for (int j = 0; j < C; j++)
            x_copy(to + j * WARP * PIECE, from + pieces.from[j]);
    } else if ((int)chunk < walk.chunks) {
        unrolled_for (int j = 0; j < C; j++)
            if ((int)offset + x_piece_offset<C>(walk, j) < a.from_width * C)
                x_copy(to + j * WARP * PIECE, from + pieces.from[j]);
    }
    __pipeline_commit();
}

/* ---- steps ---- */

/* Pixel `lane` of a chunk and register `high` of its weights: the first of the four pixels. */
template <int C> SIMT int x_pixel(int lane, int high)
{
    int t = lane % 4;
    return C == 4 ? t * 4 + high * 16 : C == 3 ? t * 8 + high * 2 : t * 8 + high * 4;
}

/* The lane's weights of a step, from the table. */
template <int C>
SIMT void x_digits(uint2 (&weights)[DIGITS], const x_memory<C> &memory, const resample_args &a,
                   const x_walk &walk, x_step step)
{
    constexpr int gap = C == 3 ? 4 : 2;
    int output = x_step_tile(step) * OUTPUTS + walk.lane / 4;
    int pixel = walk.start + ((int)(step >> STEP_CHUNK_AT) << a.step_bits);
    band band = band_of(a, a.width, walk.tile0 * OUTPUTS + output, memory.first[output]);
    uint3 low = digits_of_four<gap>(band, pixel + x_pixel<C>(walk.lane, 0));
    uint3 high = digits_of_four<gap>(band, pixel + x_pixel<C>(walk.lane, 1));
    weights[0] = make_uint2(low.x, high.x);
    weights[1] = make_uint2(low.y, high.y);
    weights[2] = make_uint2(low.z, high.z);
}

/* How many steps are before the step of this chunk and tile. Steps are in the order of chunks, and
 * those of a chunk in the order of tiles. */
template <int C> SIMT int x_steps_before(const x_memory<C> &memory, int tiles, int chunk, int tile)
{
    int before = 0;
    for (int k = 0; k < tiles; k++) {
        auto own = memory.tiles[k];
        before += max(min(chunk + (k < tile), own.to + 1) - own.from, 0);
    }
    return before;
}

template <int C> SIMT x_weights *x_weights_of(x_memory<C> &memory)
{
    return reinterpret_cast<x_weights *>(memory.slots);
}

template <int C, bool STORED> SIMT x_step *x_steps_of(x_memory<C> &memory, const resample_args &a)
{
    return reinterpret_cast<x_step *>(memory.slots + (STORED ? a.steps * sizeof(x_weights) : 0));
}

/* Fills in the steps and, if there is room, their weights. */
template <int C, bool STORED>
SIMT void x_prepare(x_memory<C> &memory, const resample_args &a, const x_walk &walk)
{
    x_step *steps = x_steps_of<C, STORED>(memory, a);
    if ((int)threadIdx.x < walk.tiles) {
        int tile = walk.tile0 + threadIdx.x;
        memory.tiles[threadIdx.x] = {x_first_chunk(a, walk, tile), x_last_chunk(a, walk, tile)};
    }
    for (int i = threadIdx.x; i < walk.tiles * OUTPUTS; i += THREADS)
        memory.first[i] = band_first(a, a.width, walk.tile0 * OUTPUTS + i);
    __syncthreads();
    for (int i = threadIdx.x; i < walk.tiles * a.chunks; i += THREADS) {
        int tile = i / a.chunks, chunk = memory.tiles[tile].from + i % a.chunks;
        int last = memory.tiles[tile].to;
        if (chunk > last)
            continue;
        int at = x_steps_before(memory, walk.tiles, chunk, tile);
        steps[at] = (uint32_t)chunk << STEP_CHUNK_AT | (uint32_t)tile << STEP_TILE_AT |
                    (chunk == last ? STEP_LAST : 0) |
                    (tile == 0 || memory.tiles[tile - 1].to < chunk ? STEP_LOADS : 0);
        if (tile == walk.tiles - 1 && chunk == last) {
            memory.steps = at + 1;
            steps[at + 1] = STEP_LOADS;
        }
    }
    __syncthreads();
    if constexpr (STORED) {
#pragma unroll 4
        for (int i = walk.warp; i < memory.steps; i += WARPS) {
            uint2 weights[DIGITS];
            x_digits<C>(weights, memory, a, walk, steps[i]);
            unrolled_for (int d = 0; d < DIGITS; d++)
                x_weights_of(memory)[i][d][walk.lane] = weights[d];
        }
        __syncthreads();
    }
}

/* ---- pixels ---- */

template <int C>
SIMT void x_load(x_raw<C> &raw, const x_memory<C> &memory, const x_pieces<C> &pieces,
                 uint32_t chunk, int lane)
{
    const uint8_t *at = memory.ring[0][0][0] + pieces.at + chunk % RING<C> * sizeof(x_chunk<C>);
    unrolled_for (int h = 0; h < 2; h++) {
        const uint8_t *row = at + h * 8 * CHUNK * C;
        if constexpr (C == 4) {
            unrolled_for (int q = 0; q < 2; q++)
                *reinterpret_cast<uint4 *>(raw[h] + 4 * q) =
                    piece_at(row + ((q ^ (lane / 4 & 1)) * 4 + lane % 4) * 16);
        } else {
            unrolled_for (int i = 0; i < C; i++) {
                uint2 piece = reinterpret_cast<const uint2 *>(row)[i];
                raw[h][2 * i] = piece.x;
                raw[h][2 * i + 1] = piece.y;
            }
        }
    }
}

/* What a lane has of a tile: two neighbouring outputs of rows lane / 4 and lane / 4 + 8. Packed: a
 * word per channel, with a byte per row of both outputs. Otherwise: two words per row. */
typedef uint32_t x_outputs[4];

template <int C, bool PACKED>
SIMT void x_pack(x_outputs &outputs, const digit_sums (&sums)[C], int divide)
{
    if constexpr (PACKED) {
        unrolled_for (int c = 0; c < C; c++)
            outputs[c] = pack_bytes(sums_join(sums[c], 0), sums_join(sums[c], 2),
                                    sums_join(sums[c], 1), sums_join(sums[c], 3));
    }
    unrolled_for (int i = 0; i < 4 && !PACKED; i += 2) {
        if constexpr (C == 1) {
            outputs[i] = pack_bytes(sums_join(sums[0], i), sums_join(sums[0], i + 1), 0, 0);
        } else if constexpr (C == 3) {
            outputs[i] = pack_bytes(sums_join(sums[0], i), sums_join(sums[1], i),
                                    sums_join(sums[2], i), sums_join(sums[0], i + 1));
            outputs[i + 1] = pack_bytes(sums_join(sums[1], i + 1), sums_join(sums[2], i + 1), 0, 0);
        } else {
            unrolled_for (int k = 0; k < 2; k++) {
                outputs[i + k] = pack_bytes(sums_join(sums[0], i + k), sums_join(sums[1], i + k),
                                            sums_join(sums[2], i + k), sums_join(sums[3], i + k));
                if (divide)
                    outputs[i + k] = divide_pixel(outputs[i + k]);
            }
        }
    }
}

/* Adds the products of a step to the sums of its tile. */
template <int C>
SIMT void x_add(digit_sums (&sums)[C], const uint32_t (&planes)[C][4],
                const uint2 (&weights)[DIGITS])
{
    unrolled_for (int d = 0; d < DIGITS; d++)
        unrolled_for (int c = 0; c < C; c++)
            mma_pixels(sums[c][d], planes[c], weights[d]);
}

/* Takes the outputs of a tile, and clears its sums. */
template <int C, bool PACKED>
SIMT void x_take(x_outputs &outputs, digit_sums (&sums)[C], int divide)
{
    x_pack<C, PACKED>(outputs, sums, divide);
    unrolled_for (int c = 0; c < C; c++)
        sums_clear(sums[c]);
}

/* Where a lane writes a tile. Packed: a pixel of four rows. Otherwise: 2 or 8 bytes of two rows, 8
 * rows apart. */
template <int C> struct x_target {
    uint32_t to; /* offset in the result, of tile 0 of the strip */
    /* Not packed: */
    int row;
    int left;         /* bytes of the row from there on; negative: this lane writes nothing */
    uint32_t put, at; /* C = 3: offsets in `stage`, where the tile is sorted by rows */
};

template <int C, bool PACKED>
SIMT x_target<C> x_target_of(const resample_args &a, const x_walk &walk)
{
    constexpr int bytes = C == 1 ? 2 : 8, across = OUTPUTS * C / bytes, tile = OUTPUTS * C;
    x_target<C> target = {};
    if constexpr (PACKED) {
        int pixel = walk.lane % 4 * 2 + walk.lane / 4 % 2;
        target.to = keep((uint32_t)(walk.y0 / 4 + walk.lane / 8) * (uint32_t)a.to_stride +
                         (uint32_t)(walk.tile0 * (OUTPUTS * C * 4) + pixel * 4));
    } else {
        int row = walk.lane / across, offset = walk.tile0 * tile + walk.lane % across * bytes;
        uint32_t own = C == 3 ? walk.warp * sizeof(uint8_t[ROWS][tile]) : 0;
        target.row = walk.y0 + row;
        target.to = keep((uint32_t)((size_t)target.row * a.to_stride) + offset);
        target.left = row < ROWS / 2 ? a.width * C - offset : 0;
        target.put = keep(own + walk.lane / 4 * tile + walk.lane % 4 * (2 * C));
        target.at = keep(own + walk.lane * bytes);
    }
    return target;
}

/* Writes a packed tile. Lanes of rows 2 q and 2 q + 1 exchange outputs: each then has one pixel of
 * both rows and of those 8 rows later. */
template <int C>
SIMT void x_finish_packed(const resample_args &a, const x_target<C> &target,
                          const x_outputs &outputs, int lane, int tile)
{
    uint32_t *to = &word_at(a.to + (target.to + (uint32_t)(tile * (OUTPUTS * C * 4))));
    uint32_t order = lane / 4 % 2 == 0 ? 0x5140 : 0x3726;
    unrolled_for (int c = 0; c < C; c++)
        to[c * OUTPUTS] = __byte_perm(outputs[c], __shfl_xor_sync(~0u, outputs[c], 4), order);
}

/* Writes a tile of the strip. */
template <int C>
SIMT void x_finish(x_memory<C> &memory, const resample_args &a, const x_target<C> &target,
                   const x_outputs &outputs, int tile)
{
    int offset = tile * (OUTPUTS * C);
    uint8_t *to = a.to + (target.to + (uint32_t)offset);
    uint8_t *stage = memory.stage[0][0];
    if constexpr (C == 3) {
        __syncwarp(); /* the tile before is written */
        unrolled_for (int h = 0; h < 2; h++) {
            uint16_t *put =
                reinterpret_cast<uint16_t *>(stage + target.put + h * 8 * (OUTPUTS * C));
            put[0] = (uint16_t)outputs[2 * h];
            put[1] = (uint16_t)(outputs[2 * h] >> 16);
            put[2] = (uint16_t)outputs[2 * h + 1];
        }
        __syncwarp();
    }
    unrolled_for (int h = 0; h < 2; h++) {
        if (target.row + 8 * h >= a.height || offset >= target.left)
            return;
        if constexpr (C == 1)
            *reinterpret_cast<uint16_t *>(to) = (uint16_t)outputs[2 * h];
        else if constexpr (C == 3)
            *reinterpret_cast<uint2 *>(to) =
                *reinterpret_cast<const uint2 *>(stage + target.at + h * 8 * (OUTPUTS * C));
        else
            *reinterpret_cast<uint2 *>(to) = make_uint2(outputs[2 * h], outputs[2 * h + 1]);
        to += 8 * a.to_stride;
    }
}

/* Starts loading the first chunks of the warp's rows. */
template <int C>
SIMT void x_begin(x_memory<C> &memory, const resample_args &a, const x_walk &walk,
                  const x_pieces<C> &pieces)
{
    unrolled_for (uint32_t chunk = 0; chunk < RING<C> - 1; chunk++)
        x_send<C>(memory, a, walk, pieces, chunk);
}

/* Computes the warp's rows, after x_begin. */
template <int C, bool STORED, bool PACKED>
SIMT void x_compute(x_memory<C> &memory, const resample_args &a, const x_walk &walk,
                    const x_pieces<C> &pieces)
{
    constexpr uint32_t ahead = RING<C> - 1;
    x_target<C> target = x_target_of<C, PACKED>(a, walk);
    const x_step *steps = x_steps_of<C, STORED>(memory, a);
    digit_sums even[C], odd[C]; /* of even and of odd tiles */
    unrolled_for (int c = 0; c < C; c++) {
        sums_clear(even[c]);
        sums_clear(odd[c]);
    }
    const uint2 *stored = &x_weights_of(memory)[0][0][walk.lane];
    x_step next = *steps;
    uint2 weights[DIGITS]; /* of `next`: loaded as soon as those of the step before are used */
    auto load = [&](x_step step) {
        if constexpr (STORED) {
            unrolled_for (int d = 0; d < DIGITS; d++)
                weights[d] = stored[d * WARP];
            stored += DIGITS * WARP;
        } else {
            x_digits<C>(weights, memory, a, walk, step);
        }
    };
    load(next);
    for (int chunk = 0; chunk < walk.chunks; chunk++) { /* each has a step */
        x_raw<C> raw;
        uint32_t planes[C][4];
        __pipeline_wait_prior(ahead - 1);
        __syncwarp(); /* all lanes have the chunk, and have read the one before */
        x_load<C>(raw, memory, pieces, (uint32_t)chunk, walk.lane);
        x_send<C>(memory, a, walk, pieces, (uint32_t)chunk + ahead);
        x_sort<C>(raw, planes, a.premultiply);
        do {
            x_step step = next;
            x_outputs outputs = {};
            next = *++steps;
            if (step & STEP_ODD) {
                x_add<C>(odd, planes, weights);
                load(next);
                if (step & STEP_LAST)
                    x_take<C, PACKED>(outputs, odd, a.divide);
            } else {
                x_add<C>(even, planes, weights);
                load(next);
                if (step & STEP_LAST)
                    x_take<C, PACKED>(outputs, even, a.divide);
            }
            if (!(step & STEP_LAST))
                continue;
            if constexpr (PACKED)
                x_finish_packed<C>(a, target, outputs, walk.lane, x_step_tile(step));
            else
                x_finish<C>(memory, a, target, outputs, x_step_tile(step));
        } while (!(next & STEP_LOADS));
    }
}

/* A block computes `groups` times ROWS x WARPS rows. STORED: the weights are in shared memory. */
template <int C, int N, bool STORED, bool PACKED>
static __global__ void __launch_bounds__(THREADS, C == 4 ? 1 : BLOCKS)
    resample_x_kernel(const __grid_constant__ several<resample_args, N> all)
{
    await_kernel_before();
    unsigned image = N == 1 ? 0 : blockIdx.y;
    if (N > 1 && (blockIdx.x >= all.across[image] || blockIdx.z >= all.down[image]))
        return;
    const resample_args &a = all.of[image];
    x_memory<C> &memory = *static_cast<x_memory<C> *>(dynamic_shared());
    x_walk walk = x_walk_of(a);
    x_pieces<C> pieces = x_pieces_of<C>(a, walk);
    x_begin<C>(memory, a, walk, pieces);
    x_prepare<C, STORED>(memory, a, walk);
    for (int group = 0; walk.y0 < a.height; group++) {
        if (group > 0) {
            __syncwarp(); /* all lanes have read the last chunk */
            pieces = x_pieces_of<C>(a, walk);
            x_begin<C>(memory, a, walk, pieces);
        }
        x_compute<C, STORED, PACKED>(memory, a, walk, pieces);
        if (group + 1 == a.groups)
            return;
        walk.y0 += ROWS * WARPS;
    }
}

/* ---- launching ---- */

/* Shared memory of a block, with room for so many steps and for one after them, which is loaded but
 * not used. */
static size_t x_memory_bytes(uint32_t channels, int steps, bool stored)
{
    size_t own = channels == 1   ? sizeof(x_memory<1>)
                 : channels == 3 ? sizeof(x_memory<3>)
                                 : sizeof(x_memory<4>);
    return own + (size_t)(steps + 1) * (sizeof(x_step) + (stored ? sizeof(x_weights) : 0));
}

/* What the width of strips depends on. It is queried once per launch, because a launch has up to
 * PASSES_SHARED_MAX images, and the search below many steps for each. */
struct x_device {
    size_t memory; /* shared memory of a multiprocessor */
    size_t most;   /* shared memory that a block can have */
    unsigned places;
};

static x_device x_device_now()
{
    return {(size_t)device_attribute<cudaDevAttrMaxSharedMemoryPerMultiprocessor>(),
            (size_t)device_attribute<cudaDevAttrMaxSharedMemoryPerBlockOptin>(),
            launch_places(BLOCKS)};
}

/* Blocks of a strip, from top to bottom. */
static unsigned x_layers(int height, int groups)
{
    int rows = ROWS * WARPS * groups;
    return (unsigned)((height + rows - 1) / rows);
}

/* The most tiles of a strip, each of up to `chunks` steps. Two blocks of a multiprocessor share its
 * memory, unless the weights of a tile do not fit then. */
static int x_strip_most(const x_device &device, uint32_t channels, int chunks)
{
    constexpr size_t reserved = 1024; /* per block, by the driver */
    constexpr int unstored = 8;
    size_t most = device.most, half = device.memory / 2;
    half = half > reserved ? half - reserved : 0;
    int strip = STRIP;
    if (x_memory_bytes(channels, chunks, true) > half)
        half = most;
    bool stored = x_memory_bytes(channels, chunks, true) <= most;
    if (!stored)
        strip = unstored;
    while (strip > 1 && x_memory_bytes(channels, strip * chunks, stored) > (stored ? half : most))
        strip--;
    return strip;
}

/* How long a group of rows takes, in the time of a chunk without products. span: pixels of a
 * tile. */
static double x_group_time(const resample_args &a, int tiles, double scale, int span, double *steps)
{
    constexpr double per_tile = 0.7, per_step = 0.8;
    double step = scale * OUTPUTS / (1 << a.step_bits);
    *steps = a.chunks == 1 ? tiles : tiles * (1 + (span - 1.0) / CHUNK);
    return a.chunks + (tiles - 1) * step + per_tile * tiles + per_step * *steps;
}

/* Chooses the tiles per strip and the groups of rows per block with which a launch ends first.
 * Narrow strips read more pixels twice. To start takes a block longer than a few groups. blocks:
 * that run at the same time, of this pass. */
static void x_choose(resample_args *a, const x_device &device, double scale, int span,
                     uint32_t channels, unsigned blocks)
{
    constexpr int more = 16; /* strips, than needed */
    constexpr double start = 10, prepared = 0.3, restart = 6;
    int tiles = (a->width + OUTPUTS - 1) / OUTPUTS;
    int most = min(x_strip_most(device, channels, a->chunks), tiles);
    int fewest = (tiles + most - 1) / most;
    double least = INFINITY, steps;
    for (int strips = fewest; strips <= min(fewest + more, tiles); strips++) {
        int strip = (tiles + strips - 1) / strips;
        double group = restart + x_group_time(*a, strip, scale, span, &steps);
        for (int groups = 1; groups <= 8; groups += groups < 4 ? 1 : 2) {
            unsigned own = (unsigned)strips * x_layers(a->height, groups);
            double time = launch_time(own, blocks, start + prepared * steps + groups * group);
            if (time >= least)
                continue;
            least = time;
            a->strip = strip;
            a->groups = groups;
        }
    }
}

/* Returns the pixels of a tile. */
static int x_describe(const struct pass_call &call, resample_args *args)
{
    double scale = resample_of(call)->scale;
    *args = resample_args_of(call, call.to.width);
    if (resample_of(call)->packed)
        args->to_stride = resample_packed_stride(call.to.width, call.to.channels);
    /* The first pixels of outputs are rounded, so their distance may be one larger. */
    int span = (int)ceil(scale * (OUTPUTS - 1)) + 1 + args->reach;
    args->step_bits = scale >= 1 ? 5 : 4;
    args->chunks = scale >= 1 ? (span + CHUNK - 2) / CHUNK + 1 : 1;
    return span;
}

/* How long the pass takes in all. */
static double x_work(const struct pass_call &call)
{
    resample_args args;
    double steps;
    int span = x_describe(call, &args), tiles = (args.width + OUTPUTS - 1) / OUTPUTS;
    return args.height * x_group_time(args, tiles, resample_of(call)->scale, span, &steps);
}

/* An image of a launch, and what was chosen for it. Images of equal sizes need one search. */
struct x_chosen {
    resample_args args;
    double scale;
    unsigned blocks;
};

static bool x_is_like(const x_chosen &last, const resample_args &args, double scale,
                      unsigned blocks)
{
    return last.args.width == args.width && last.args.height == args.height &&
           last.args.reach == args.reach && last.scale == scale && last.blocks == blocks;
}

/* blocks: that run at the same time, of this pass. last: what was chosen for the image before; its
 * args.width is 0 for the first image. */
static dim3 describe_x(const struct pass_call &call, const x_device &device, unsigned blocks,
                       x_chosen *last, resample_args *args)
{
    double scale = resample_of(call)->scale;
    int span = x_describe(call, args);
    if (x_is_like(*last, *args, scale, blocks)) {
        args->strip = last->args.strip;
        args->groups = last->args.groups;
    } else {
        x_choose(args, device, scale, span, call.from.channels, blocks);
        *last = {*args, scale, blocks};
    }
    unsigned tiles = (unsigned)(args->width + OUTPUTS - 1) / OUTPUTS;
    return dim3((tiles + (unsigned)args->strip - 1) / (unsigned)args->strip,
                x_layers(args->height, args->groups));
}

template <int C, int N, bool STORED, bool PACKED>
static cudaError_t launch_x(const several<resample_args, N> &all, dim3 grid, const x_device &device,
                            cudaStream_t stream)
{
    auto kernel = resample_x_kernel<C, N, STORED, PACKED>;
    /* The most that any launch takes, because other threads launch this kernel, too. */
    cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              (int)device.most);
    return status == cudaSuccess
               ? launch_kernel(kernel, dim3(grid.x, grid.z, grid.y), THREADS,
                               x_memory_bytes(C, all.of[0].steps, STORED), stream, all)
               : cudaGetLastError();
}

/* If shared memory has no room for the weights of one of the images, none are stored. */
template <int C, bool PACKED, int N>
static cudaError_t launch_x(several<resample_args, N> &all, dim3 grid, const x_device &device,
                            cudaStream_t stream)
{
    int steps = 0;
    for (const resample_args &own : all.of)
        steps = max(steps, own.strip * own.chunks);
    for (resample_args &own : all.of)
        own.steps = steps;
    return x_memory_bytes(C, steps, true) <= device.most
               ? launch_x<C, N, true, PACKED>(all, grid, device, stream)
               : launch_x<C, N, false, PACKED>(all, grid, device, stream);
}

template <bool PACKED>
static cudaError_t launch_all(const struct pass_call *calls, uint32_t count, cudaStream_t stream)
{
    x_device device = x_device_now();
    x_chosen last = {};
    double work = 0;
    for (uint32_t i = 0; i < count && PACKED; i++)
        work += x_work(calls[i]);
    auto describe = [&](const struct pass_call &call, resample_args *args) {
        unsigned own = PACKED ? launch_share(device.places, x_work(call), work) : device.places;
        return describe_x(call, device, own, &last, args);
    };
    return launch_several<resample_args, PACKED>(calls, count, describe, [&](auto &all, dim3 grid) {
        return by_channels(calls[0].from.channels,
                           [&](auto c) { return launch_x<c, PACKED>(all, grid, device, stream); });
    });
}

PASS_LAUNCHER_MANY(resample_x_cuda)
{
    return resample_of(calls[0])->packed ? launch_all<true>(calls, count, stream)
                                         : launch_all<false>(calls, count, stream);
}
