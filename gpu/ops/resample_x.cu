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
 * Blocks of the same rows follow each other, for all images of a launch: several results of one
 * source read it from the L2 cache.
 */
#include <math.h>

#include <cuda_pipeline.h>

#include "gpu/ops/resample.cuh"

#define ROWS    16
#define OUTPUTS 8
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

/* A step: its chunk, its tile in the strip, and whether it is the last one of the tile. */
typedef uint32_t x_step;
enum { STEP_LAST = 1, STEP_ODD = 2, STEP_TILE_AT = 1, STEP_CHUNK_AT = 16 };

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
    int steps;
    alignas(8) uint8_t slots[]; /* the weights of the steps, if there is room, and the steps */
};

/* The part of the result that a warp computes. */
struct x_walk {
    int tile0, tiles; /* of the strip */
    int start;        /* the first pixel of the source */
    uint32_t chunks;
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
    walk.warp = threadIdx.x / WARP;
    walk.y0 = (blockIdx.z * WARPS + walk.warp) * ROWS;
    walk.tile0 = blockIdx.x * a.strip;
    walk.tiles = min(a.strip, (a.width + OUTPUTS - 1) / OUTPUTS - walk.tile0);
    walk.start = __ldg(a.first + walk.tile0 * OUTPUTS) >> a.step_bits << a.step_bits;
    walk.chunks = x_last_chunk(a, walk, walk.tile0 + walk.tiles - 1) + 1;
    return walk;
}

/* Where a lane copies C pieces of each chunk from and the first one to, and reads its pixels. */
template <int C> struct x_pieces {
    uint32_t from[C]; /* offset in the image, in chunk 0 */
    int left[C];      /* bytes of the row from the piece on, in chunk 0 */
    uint32_t to, at;  /* offsets in the ring of the block, in chunk 0 */
};

template <int C> SIMT x_pieces<C> x_pieces_of(const resample_args &a, const x_walk &walk)
{
    constexpr uint32_t across = CHUNK * C / PIECE, pixels = C == 4 ? 0 : 8 * C;
    uint32_t own = walk.warp * RING<C> * sizeof(x_chunk<C>);
    x_pieces<C> pieces;
    unrolled_for (int j = 0; j < C; j++) {
        uint32_t i = walk.lane + j * WARP;
        int y = min(walk.y0 + (int)(i / across), a.height - 1);
        int offset = walk.start * C + (int)(i % across) * PIECE;
        pieces.from[j] = (uint32_t)((size_t)y * a.from_stride) + offset;
        pieces.left[j] = a.from_width * C - offset;
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
    int offset = (int)(chunk * C) << a.step_bits;
    uint8_t *to = memory.ring[0][0][0] + pieces.to + chunk % RING<C> * sizeof(x_chunk<C>);
    if (chunk < walk.chunks) {
        unrolled_for (int j = 0; j < C; j++)
            if (offset < pieces.left[j])
                x_copy(to + j * WARP * PIECE, a.from + pieces.from[j] + offset);
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
SIMT void x_digits(uint2 (&weights)[DIGITS], const resample_args &a, const x_walk &walk,
                   x_step step)
{
    constexpr int gap = C == 3 ? 4 : 2;
    int tile = walk.tile0 + x_step_tile(step);
    int pixel = walk.start + ((int)(step >> STEP_CHUNK_AT) << a.step_bits);
    band band = band_of(a, a.width, tile * OUTPUTS + walk.lane / 4);
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
    __syncthreads();
    for (int i = threadIdx.x; i < walk.tiles * a.chunks; i += THREADS) {
        int tile = i / a.chunks, chunk = memory.tiles[tile].from + i % a.chunks;
        int last = memory.tiles[tile].to;
        if (chunk > last)
            continue;
        int at = x_steps_before(memory, walk.tiles, chunk, tile);
        steps[at] = (uint32_t)chunk << STEP_CHUNK_AT | (uint32_t)tile << STEP_TILE_AT |
                    (chunk == last ? STEP_LAST : 0);
        if (tile == walk.tiles - 1 && chunk == last)
            memory.steps = at + 1;
    }
    __syncthreads();
    if constexpr (STORED) {
#pragma unroll 2
        for (int i = walk.warp; i < memory.steps; i += WARPS) {
            uint2 weights[DIGITS];
            x_digits<C>(weights, a, walk, steps[i]);
            unrolled_for (int d = 0; d < DIGITS; d++)
                x_weights_of(memory)[i][d][walk.lane] = weights[d];
        }
        __syncthreads();
    }
}

/* ---- pixels ---- */

/* Sorts 8 pixels of the lane by channel. Register 2 q + h has word q of row h. */
SIMT void x_sort_rgb(const uint8_t *at, uint32_t (&planes)[3][4], int h)
{
    const uint2 *pieces = reinterpret_cast<const uint2 *>(at);
    uint2 p = pieces[0], q = pieces[1], r = pieces[2];
    uint32_t a = __byte_perm(p.x, q.y, 0x6521), b = __byte_perm(p.y, r.x, 0x5410);
    planes[0][h] = __byte_perm(p.x, q.y, 0x7430);
    planes[1][h] = __byte_perm(a, b, 0x6240);
    planes[2][h] = __byte_perm(a, b, 0x7351);
    uint32_t c = __byte_perm(p.y, r.x, 0x7632), d = __byte_perm(q.x, r.y, 0x6521);
    planes[0][2 + h] = __byte_perm(c, d, 0x6240);
    planes[1][2 + h] = __byte_perm(c, d, 0x7351);
    planes[2][2 + h] = __byte_perm(q.x, r.y, 0x7430);
}

SIMT void x_sort_rgba(const uint8_t *row, int lane, uint32_t (&planes)[4][4], int h,
                      int premultiply)
{
    unrolled_for (int q = 0; q < 2; q++) {
        uint4 piece = piece_at(row + ((q ^ (lane / 4 & 1)) * 4 + lane % 4) * 16);
        uint32_t pixels[4] = {piece.x, piece.y, piece.z, piece.w}, channels[4];
        if (premultiply)
            unrolled_for (int i = 0; i < 4; i++)
                pixels[i] = premultiply_pixel(pixels[i]);
        transpose(pixels, channels);
        unrolled_for (int c = 0; c < 4; c++)
            planes[c][2 * q + h] = channels[c];
    }
}

/* Loads the lane's pixels of a chunk: 8 pixels of rows lane / 4 and lane / 4 + 8. */
template <int C>
SIMT void x_sort(const x_memory<C> &memory, uint32_t (&planes)[C][4], const x_pieces<C> &pieces,
                 uint32_t chunk, int lane, int premultiply)
{
    const uint8_t *at = memory.ring[0][0][0] + pieces.at + chunk % RING<C> * sizeof(x_chunk<C>);
    unrolled_for (int h = 0; h < 2; h++) {
        const uint8_t *row = at + h * 8 * CHUNK * C;
        if constexpr (C == 4) {
            x_sort_rgba(row, lane, planes, h, premultiply);
        } else if constexpr (C == 3) {
            x_sort_rgb(row, planes, h);
        } else {
            uint2 pixels = *reinterpret_cast<const uint2 *>(row);
            planes[0][h] = pixels.x;
            planes[0][2 + h] = pixels.y;
        }
    }
}

/* Two neighbouring outputs of rows lane / 4 and lane / 4 + 8, as bytes. */
typedef uint32_t x_pairs[2][2];

template <int C> SIMT void x_pack(x_pairs &pairs, const digit_sums (&sums)[C], int divide)
{
    unrolled_for (int h = 0; h < 2; h++) {
        int i = 2 * h;
        if constexpr (C == 1) {
            pairs[h][0] = pack_bytes(sums_join(sums[0], i), sums_join(sums[0], i + 1), 0, 0);
        } else if constexpr (C == 3) {
            pairs[h][0] = pack_bytes(sums_join(sums[0], i), sums_join(sums[1], i),
                                     sums_join(sums[2], i), sums_join(sums[0], i + 1));
            pairs[h][1] = pack_bytes(sums_join(sums[1], i + 1), sums_join(sums[2], i + 1), 0, 0);
        } else {
            unrolled_for (int k = 0; k < 2; k++) {
                pairs[h][k] = pack_bytes(sums_join(sums[0], i + k), sums_join(sums[1], i + k),
                                         sums_join(sums[2], i + k), sums_join(sums[3], i + k));
                if (divide)
                    pairs[h][k] = divide_pixel(pairs[h][k]);
            }
        }
    }
}

/* Adds a step to the sums of its tile. If it is the last one, returns the outputs and clears the
 * sums. */
template <int C>
SIMT void x_add(digit_sums (&sums)[C], const uint32_t (&planes)[C][4],
                const uint2 (&weights)[DIGITS], x_step step, int divide, x_pairs &pairs)
{
    unrolled_for (int c = 0; c < C; c++)
        unrolled_for (int d = 0; d < DIGITS; d++)
            mma_pixels(sums[c][d], planes[c], weights[d]);
    if (step & STEP_LAST) {
        x_pack<C>(pairs, sums, divide);
        unrolled_for (int c = 0; c < C; c++)
            sums_clear(sums[c]);
    }
}

/* Where a lane writes 2 or 8 bytes of a tile: of two rows, 8 rows apart. */
template <int C> struct x_target {
    int row;
    uint32_t to;      /* offset in the result, of tile 0 of the strip */
    int left;         /* bytes of the row from there on; negative: this lane writes nothing */
    uint32_t put, at; /* C = 3: offsets in `stage`, where the tile is sorted by rows */
};

template <int C> SIMT x_target<C> x_target_of(const resample_args &a, const x_walk &walk)
{
    constexpr int bytes = C == 1 ? 2 : 8, across = OUTPUTS * C / bytes, tile = OUTPUTS * C;
    x_target<C> target;
    int row = walk.lane / across, offset = walk.tile0 * tile + walk.lane % across * bytes;
    uint32_t own = C == 3 ? walk.warp * sizeof(uint8_t[ROWS][tile]) : 0;
    target.row = walk.y0 + row;
    target.to = keep((uint32_t)((size_t)target.row * a.to_stride) + offset);
    target.left = row < ROWS / 2 ? a.width * C - offset : 0;
    target.put = keep(own + walk.lane / 4 * tile + walk.lane % 4 * (2 * C));
    target.at = keep(own + walk.lane * bytes);
    return target;
}

/* Writes a tile of the strip. */
template <int C>
SIMT void x_finish(x_memory<C> &memory, const resample_args &a, const x_target<C> &target,
                   const x_pairs &pairs, int tile)
{
    int offset = tile * (OUTPUTS * C);
    uint8_t *to = a.to + (target.to + (uint32_t)offset);
    uint8_t *stage = memory.stage[0][0];
    if constexpr (C == 3) {
        __syncwarp(); /* the tile before is written */
        unrolled_for (int h = 0; h < 2; h++) {
            uint16_t *put =
                reinterpret_cast<uint16_t *>(stage + target.put + h * 8 * (OUTPUTS * C));
            put[0] = (uint16_t)pairs[h][0];
            put[1] = (uint16_t)(pairs[h][0] >> 16);
            put[2] = (uint16_t)pairs[h][1];
        }
        __syncwarp();
    }
    unrolled_for (int h = 0; h < 2; h++) {
        if (target.row + 8 * h >= a.height || offset >= target.left)
            return;
        if constexpr (C == 1)
            *reinterpret_cast<uint16_t *>(to) = (uint16_t)pairs[h][0];
        else if constexpr (C == 3)
            *reinterpret_cast<uint2 *>(to) =
                *reinterpret_cast<const uint2 *>(stage + target.at + h * 8 * (OUTPUTS * C));
        else
            *reinterpret_cast<uint2 *>(to) = make_uint2(pairs[h][0], pairs[h][1]);
        to += 8 * a.to_stride;
    }
}

/* STORED: the weights are in shared memory. */
template <int C, int N, bool STORED>
static __global__ void __launch_bounds__(THREADS, C == 4 ? 1 : BLOCKS)
    resample_x_kernel(const __grid_constant__ several<resample_args, N> all)
{
    await_kernel_before();
    unsigned image = N == 1 ? 0 : blockIdx.y;
    if (N > 1 && (blockIdx.x >= all.across[image] || blockIdx.z >= all.down[image]))
        return;
    const resample_args &a = all.of[image];
    constexpr uint32_t ahead = RING<C> - 1;
    x_memory<C> &memory = *static_cast<x_memory<C> *>(dynamic_shared());
    x_walk walk = x_walk_of(a);
    x_pieces<C> pieces = x_pieces_of<C>(a, walk);
    unrolled_for (uint32_t chunk = 0; chunk < ahead; chunk++)
        x_send<C>(memory, a, walk, pieces, chunk);
    x_prepare<C, STORED>(memory, a, walk);
    if (walk.y0 >= a.height)
        return;
    x_target<C> target = x_target_of<C>(a, walk);
    const x_step *steps = x_steps_of<C, STORED>(memory, a);
    uint32_t planes[C][4] = {}, loaded = ~0u;
    digit_sums even[C], odd[C]; /* of even and of odd tiles */
    unrolled_for (int c = 0; c < C; c++) {
        sums_clear(even[c]);
        sums_clear(odd[c]);
    }
    x_step next = steps[0];
    for (int i = 0, count = memory.steps; i < count; i++) {
        x_step step = next;
        x_pairs pairs = {};
        uint2 weights[DIGITS];
        if constexpr (STORED)
            unrolled_for (int d = 0; d < DIGITS; d++)
                weights[d] = x_weights_of(memory)[i][d][walk.lane];
        else
            x_digits<C>(weights, a, walk, step);
        if (step >> STEP_CHUNK_AT != loaded) {
            loaded++; /* each chunk of a strip has a step */
            __pipeline_wait_prior(ahead - 1);
            __syncwarp(); /* all lanes have the chunk, and have read the one before */
            x_send<C>(memory, a, walk, pieces, loaded + ahead);
            x_sort<C>(memory, planes, pieces, loaded, walk.lane, a.premultiply);
        }
        next = steps[i + 1]; /* undefined after the last one */
        if (step & STEP_ODD)
            x_add<C>(odd, planes, weights, step, a.divide, pairs);
        else
            x_add<C>(even, planes, weights, step, a.divide, pairs);
        if (step & STEP_LAST)
            x_finish<C>(memory, a, target, pairs, x_step_tile(step));
    }
}

/* ---- launching ---- */

/* Shared memory of a block, with room for so many steps and for a word after them. */
static size_t x_memory_bytes(uint32_t channels, int steps, bool stored)
{
    size_t own = channels == 1   ? sizeof(x_memory<1>)
                 : channels == 3 ? sizeof(x_memory<3>)
                                 : sizeof(x_memory<4>);
    return own + (size_t)steps * (sizeof(x_step) + (stored ? sizeof(x_weights) : 0)) +
           sizeof(x_step);
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

/* The tiles per strip with which a launch ends first. Narrow strips read more pixels twice, and
 * their blocks start more often, which takes about as long as ten chunks. layers: blocks per strip,
 * of all images. */
static int x_strip(const resample_args &a, const x_device &device, double scale, uint32_t channels,
                   unsigned layers)
{
    constexpr double start = 10;
    int tiles = (a.width + OUTPUTS - 1) / OUTPUTS, best = 1;
    double least = INFINITY, step = scale * OUTPUTS / (1 << a.step_bits);
    for (int strip = min(x_strip_most(device, channels, a.chunks), tiles); strip >= 1; strip--) {
        unsigned blocks = (unsigned)((tiles + strip - 1) / strip) * layers;
        double length = start + a.chunks + (strip - 1) * step + strip;
        double time = launch_time(blocks, device.places, length);
        best = time < least ? strip : best;
        least = time < least ? time : least;
    }
    int strips = (tiles + best - 1) / best;
    return (tiles + strips - 1) / strips;
}

/* images: of the launch. */
static dim3 describe_x(const struct pass_call &call, const x_device &device, unsigned images,
                       resample_args *args)
{
    double scale = resample_of(call)->scale;
    *args = resample_args_of(call, call.to.width);
    unsigned down = (unsigned)(args->height + ROWS * WARPS - 1) / (ROWS * WARPS);
    /* The first pixels of outputs are rounded, so their distance may be one larger. */
    int span = (int)ceil(scale * (OUTPUTS - 1)) + 1 + args->reach;
    args->step_bits = scale >= 1 ? 5 : 4;
    args->chunks = scale >= 1 ? (span + CHUNK - 2) / CHUNK + 1 : 1;
    args->strip = x_strip(*args, device, scale, call.from.channels, down * images);
    unsigned tiles = (unsigned)(args->width + OUTPUTS - 1) / OUTPUTS;
    return dim3((tiles + (unsigned)args->strip - 1) / (unsigned)args->strip, down);
}

template <int C, int N, bool STORED>
static cudaError_t launch_x(const several<resample_args, N> &all, dim3 grid,
                            const x_device &device, cudaStream_t stream)
{
    auto kernel = resample_x_kernel<C, N, STORED>;
    /* The most that any launch takes, because other threads launch this kernel, too. */
    cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              (int)device.most);
    return status == cudaSuccess
               ? launch_kernel(kernel, dim3(grid.x, grid.z, grid.y), THREADS,
                               x_memory_bytes(C, all.of[0].steps, STORED), stream, all)
               : cudaGetLastError();
}

/* If shared memory has no room for the weights of one of the images, none are stored. */
template <int C, int N>
static cudaError_t launch_x(several<resample_args, N> &all, dim3 grid, const x_device &device,
                            cudaStream_t stream)
{
    int steps = 0;
    for (const resample_args &own : all.of)
        steps = max(steps, own.strip * own.chunks);
    for (resample_args &own : all.of)
        own.steps = steps;
    return x_memory_bytes(C, steps, true) <= device.most
               ? launch_x<C, N, true>(all, grid, device, stream)
               : launch_x<C, N, false>(all, grid, device, stream);
}

PASS_LAUNCHER_MANY(resample_x_cuda)
{
    x_device device = x_device_now();
    auto describe = [&](const struct pass_call &call, resample_args *args) {
        return describe_x(call, device, count, args);
    };
    return launch_several<resample_args>(calls, count, describe, [&](auto &all, dim3 grid) {
        return by_channels(calls[0].from.channels,
                           [&](auto c) { return launch_x<c>(all, grid, device, stream); });
    });
}
