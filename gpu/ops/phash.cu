/*
 * phash.cu - perceptual hashes (phash.h) on the device, one image per warp.
 *
 * A hash has one bit for each of the 8 x 8 values W X W^T: X is the image, of 32 x 32 pixels, and W
 * the first eight rows of a DCT. The bit says whether the value is above the median.
 *
 * A warp is arranged as 4 x 8 lanes. In the first product (W X), lane (r, c) computes rows r and
 * r + 4, columns 4 c to 4 c + 3, which are one word of the image. In the second product it computes
 * the values (r, c) and (r + 4, c). In shared memory, the rows of weights and of sums are 36 words
 * apart, so that 16-byte reads of four or eight rows use different banks. One launch processes all
 * images of a job, and of the jobs that are launched together with it.
 */
#include "gpu/ops/launch.cuh"
#include "gpu/ops/phash.h"

#define WARP 32
#define WARPS 4 /* images per block */
#define ALL 0xFFFFFFFFu
#define TILE_ROWS 4
#define TILE_COLUMNS 8
#define PITCH (PHASH_SIDE + 4)
#define QUADS (PHASH_SIDE / 4) /* of values per row */

static_assert(TILE_ROWS * 2 == PHASH_KEPT && TILE_COLUMNS == PHASH_KEPT && QUADS == TILE_COLUMNS,
              "a lane has two rows and a word of each");

/* The images of a job (pass.h: stacked passes), 1,024 bytes each, one after the other, and where
 * their hashes are stored. */
struct phash_stack {
    const uint4 *pictures;
    const int4 *weights;
    uint64_t *hashes;
    int count;
};

struct phash_stacks {
    struct phash_stack of[PASSES_SHARED_MAX];
};

struct phash_shared {
    alignas(16) int32_t weights[PHASH_KEPT][PITCH];
    alignas(16) uint32_t pixels[WARPS][PHASH_SIDE][QUADS];
    alignas(16) int32_t sums[WARPS][PHASH_KEPT][PITCH];
    alignas(16) int64_t values[WARPS][PHASH_VALUES];
    int64_t middles[WARPS][2];
};

SIMT int4 quad_at(const int32_t *row, int quad)
{
    return reinterpret_cast<const int4 *>(row)[quad];
}

SIMT void add_word(int4 *sums, uint32_t word, int32_t weight)
{
    sums->x += (int32_t)(word & 255u) * weight;
    sums->y += (int32_t)(word >> 8 & 255u) * weight;
    sums->z += (int32_t)(word >> 16 & 255u) * weight;
    sums->w += (int32_t)(word >> 24) * weight;
}

SIMT int64_t dot(const int4 &a, const int4 &b)
{
    return (int64_t)a.x * b.x + (int64_t)a.y * b.y + (int64_t)a.z * b.z + (int64_t)a.w * b.w;
}

SIMT void first_product(struct phash_shared *s, int warp, int r, int c)
{
    int4 low = make_int4(0, 0, 0, 0), high = low;
    unrolled_for (int quad = 0; quad < QUADS; quad++) {
        const uint32_t(*rows)[QUADS] = &s->pixels[warp][quad * 4];
        int4 a = quad_at(s->weights[r], quad), b = quad_at(s->weights[r + TILE_ROWS], quad);
        add_word(&low, rows[0][c], a.x);
        add_word(&high, rows[0][c], b.x);
        add_word(&low, rows[1][c], a.y);
        add_word(&high, rows[1][c], b.y);
        add_word(&low, rows[2][c], a.z);
        add_word(&high, rows[2][c], b.z);
        add_word(&low, rows[3][c], a.w);
        add_word(&high, rows[3][c], b.w);
    }
    reinterpret_cast<int4 *>(s->sums[warp][r])[c] = low;
    reinterpret_cast<int4 *>(s->sums[warp][r + TILE_ROWS])[c] = high;
}

/* Computes the lane's two values, and stores them also where the other lanes can read them. */
SIMT void second_product(struct phash_shared *s, int warp, int r, int c, int64_t *low,
                         int64_t *high)
{
    *low = *high = 0;
    unrolled_for (int quad = 0; quad < QUADS; quad++) {
        int4 weights = quad_at(s->weights[c], quad);
        *low += dot(quad_at(s->sums[warp][r], quad), weights);
        *high += dot(quad_at(s->sums[warp][r + TILE_ROWS], quad), weights);
    }
    s->values[warp][r * PHASH_KEPT + c] = *low;
    s->values[warp][(r + TILE_ROWS) * PHASH_KEPT + c] = *high;
}

SIMT void say_middles(struct phash_shared *s, int warp, int lane, int64_t low, int64_t high)
{
    int ranks[2] = {0, 0};
#pragma unroll 8
    for (int i = 0; i < PHASH_VALUES; i++) {
        int64_t value = s->values[warp][i];
        ranks[0] += phash_before(value, i, low, lane);
        ranks[1] += phash_before(value, i, high, lane + WARP);
    }
    int first = ranks[0] - PHASH_MIDDLE, second = ranks[1] - PHASH_MIDDLE;
    if (first == 0 || first == 1)
        s->middles[warp][first] = low;
    if (second == 0 || second == 1)
        s->middles[warp][second] = high;
}

/* The grid has one row of blocks per job. */
static __global__ void __launch_bounds__(WARPS *WARP)
    phash_kernel(const __grid_constant__ phash_stacks stacks)
{
    await_kernel_before();
    __shared__ struct phash_shared s;
    const struct phash_stack &stack = stacks.of[blockIdx.y];
    int count = stack.count;
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int picture = blockIdx.x * WARPS + warp, r = lane / TILE_COLUMNS, c = lane % TILE_COLUMNS;
    if (threadIdx.x < PHASH_KEPT * QUADS)
        reinterpret_cast<int4 *>(s.weights[threadIdx.x / QUADS])[threadIdx.x % QUADS] =
            __ldg(stack.weights + threadIdx.x);
    if (picture < count) {
        constexpr int pieces = PHASH_SIDE * PHASH_SIDE / (int)sizeof(uint4);
        const uint4 *from = stack.pictures + (size_t)picture * pieces;
        uint4 *to = reinterpret_cast<uint4 *>(s.pixels[warp]);
        unrolled_for (int i = 0; i < pieces; i += WARP)
            to[i + lane] = __ldg(from + i + lane);
    }
    __syncthreads();
    if (picture >= count)
        return; /* the whole warp returns, and no barrier across warps follows */
    int64_t low, high;
    first_product(&s, warp, r, c);
    __syncwarp();
    second_product(&s, warp, r, c, &low, &high);
    __syncwarp();
    say_middles(&s, warp, lane, low, high);
    __syncwarp();
    int64_t middles = s.middles[warp][0] + s.middles[warp][1];
    uint32_t upper = __brev(__ballot_sync(ALL, 2 * low > middles));
    uint32_t lower = __brev(__ballot_sync(ALL, 2 * high > middles));
    if (lane == 0)
        stack.hashes[picture] = (uint64_t)upper << 32 | lower;
}

PASS_LAUNCHER_MANY(phash_cuda)
{
    struct phash_stacks stacks = {};
    int most = 0;
    assert(count <= PASSES_SHARED_MAX);
    for (uint32_t i = 0; i < count; i++) {
        const struct image *from = &calls[i].from;
        assert(from->stride == PHASH_SIDE);
        stacks.of[i] = {reinterpret_cast<const uint4 *>(from->pixels),
                        reinterpret_cast<const int4 *>(calls[i].pass->constants),
                        reinterpret_cast<uint64_t *>(calls[i].work),
                        (int)from->height / PHASH_SIDE};
        most = max(most, stacks.of[i].count);
    }
    dim3 grid((unsigned)(most + WARPS - 1) / WARPS, count);
    return launch_kernel(phash_kernel, grid, WARPS * WARP, 0, stream, stacks);
}
