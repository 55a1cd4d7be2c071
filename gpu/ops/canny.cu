/*
 * canny.cu - finds Canny edges (canny.h) in three launches: marks within tiles, connections across
 * the sides of tiles, result.
 *
 * In the first launch, each block of threads processes a tile of 128 x 32 pixels in shared memory:
 * gray (with a halo of two pixels), then gradients (with a halo of one), then marks. The tile's 64
 * x 16 blocks of 2 x 2 pixels are the nodes of a graph. Connected nodes are joined to sets; those
 * with a strong pixel are also joined with node 0, which is no block. The kernel writes 255 for
 * pixels that are known to be edges, 1 for other marked pixels, and for each marked node the root
 * of its set. The second launch joins nodes across the sides of tiles. The third decides the pixels
 * that are still 1: a pixel is an edge if its node is in the set of node 0. The result does not
 * depend on the order of joins.
 */
#include "gpu/ops/canny.h"
#include "gpu/ops/tile.cuh"

#define WARPS 8
#define THREADS (WARPS * WARP)
#define BLOCK_ROWS 32
#define NODES_ACROSS (TILE_WIDTH / 2)
#define NODES_DOWN (BLOCK_ROWS / 2)
#define NODES (NODES_ACROSS * NODES_DOWN)
/* Gradients have four more columns on either side of the tile, so that they are whole words. */
#define GRADIENT_MARGIN 4
#define GRADIENT_PITCH (GRADIENT_MARGIN + TILE_WIDTH + GRADIENT_MARGIN)
#define GRADIENT_WORDS (GRADIENT_PITCH / 4)
#define PIECE 16
/* Resident blocks per multiprocessor for colour images, which limits the registers of a thread.
 * Loading colours needs the most registers, but the rest of the kernel waits for shared memory and
 * is faster with more warps. More blocks are not possible because of the shared memory, and before
 * compute capability 8.0 because of 1024 threads per multiprocessor. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define BLOCKS_OF_COLOUR 4
#else
#define BLOCKS_OF_COLOUR 6
#endif

/* A mask has a bit for each of a node's four pixels that is marked: bits 0 and 1 are the upper row,
 * bits 2 and 3 the lower row. */
#define LEFT 5u
#define RIGHT 10u
#define TOP 3u
#define BOTTOM 12u

struct canny_args {
    tile_args tile;
    uint32_t *labels;
    int low, high;
    int across, down; /* in blocks of 2 x 2 */
};

template <int C, tile_form F> struct canny_memory {
    tile_memory<C, F, WARPS, BLOCK_ROWS + 4> gray;
    alignas(8) uint16_t gradient[BLOCK_ROWS + 2][GRADIENT_PITCH];
    alignas(16) uint8_t marks[BLOCK_ROWS][TILE_WIDTH];
    uint32_t labels[1 + NODES];
    uint8_t masks[NODES];
};

/*
 * ---- disjoint sets that many threads join concurrently, in shared or global memory ----
 *
 * The label of a node is a node of the same set, with the same or a smaller number. The label of a
 * root is the root itself. To join two sets, the larger root gets the smaller one as its label, by
 * compare-and-swap. So the root of a set is its smallest node, for any order of joins. A search
 * also shortens the path that it follows (path halving: J. Jaiganesh, M. Burtscher, A
 * High-Performance Connected Components Implementation for GPUs, 2018). Labels that a search
 * replaces are never those of roots, and the new label is in the same set. If a thread reads an old
 * label, it only needs more steps. Node 0 is always a root; its label is never read.
 */

/* The labels of a tile, in shared memory; every access is atomic. */
struct shared_labels {
    uint32_t *at;

    __device__ __forceinline__ uint32_t load(uint32_t node) const
    {
        return atomicOr(at + node, 0u);
    }
    __device__ __forceinline__ void store(uint32_t node, uint32_t label) const
    {
        atomicExch(at + node, label);
    }
};

/* The labels of the image, in global memory. Accesses are volatile, so that they bypass the L1
 * cache. */
struct global_labels {
    uint32_t *at;

    __device__ __forceinline__ uint32_t load(uint32_t node) const
    {
        return *reinterpret_cast<volatile uint32_t *>(at + node);
    }
    __device__ __forceinline__ void store(uint32_t node, uint32_t label) const
    {
        *reinterpret_cast<volatile uint32_t *>(at + node) = label;
    }
};

template <class Labels> SIMT uint32_t union_find(const Labels &labels, uint32_t node)
{
    while (node != 0) {
        uint32_t parent = labels.load(node);
        if (parent == node || parent == 0)
            return parent;
        uint32_t next = labels.load(parent);
        if (next == parent)
            return parent;
        labels.store(node, next);
        node = next;
    }
    return 0;
}

template <class Labels> SIMT void union_join(const Labels &labels, uint32_t a, uint32_t b)
{
    a = union_find(labels, a);
    b = union_find(labels, b);
    while (a != b) {
        uint32_t high = max(a, b), low = min(a, b);
        uint32_t label = atomicCAS(labels.at + high, high, low);
        if (label == high)
            return;
        a = union_find(labels, label); /* another thread has given `high` a smaller label */
        b = low;
    }
}

/* ---- kernels ---- */

/* Computes the gradients of four pixels of the middle of three rows. gray: the first of them in the
 * upper row. */
SIMT void gradient_four(const uint8_t *gray, uint16_t *four)
{
    int smooth[6], step[6]; /* per column -1..4: a + 2 m + b, a - b */
    unrolled_for (int i = 0; i < 6; i++) {
        const uint8_t *column = gray - 1 + i;
        int a = column[0], m = column[TILE_PITCH], b = column[2 * TILE_PITCH];
        smooth[i] = a + 2 * m + b;
        step[i] = a - b;
    }
    unrolled_for (int k = 0; k < 4; k++)
        four[k] = canny_gradient(smooth[k] - smooth[k + 2],
                                 step[k] + 2 * step[k + 1] + step[k + 2]);
}

/* Computes the gradients of the tile, from one row above it on. Gradients outside of the image are
 * 0. */
template <int C, tile_form F>
SIMT void make_gradients(canny_memory<C, F> &memory, const tile_args &a, int x0, int y0)
{
    for (int i = threadIdx.x; i < (BLOCK_ROWS + 2) * GRADIENT_WORDS; i += THREADS) {
        int row = i / GRADIENT_WORDS, column = (i - row * GRADIENT_WORDS) * 4;
        int x = x0 - GRADIENT_MARGIN + column, y = y0 - 1 + row;
        uint16_t four[4] = {0, 0, 0, 0};
        if (x >= 0 && x < a.width && y >= 0 && y < a.height) {
            gradient_four(&memory.gray.plane[0][row][TILE_MARGIN - GRADIENT_MARGIN + column], four);
            unrolled_for (int k = 1; k < 4; k++)
                four[k] = x + k < a.width ? four[k] : 0;
        }
        *reinterpret_cast<uint2 *>(&memory.gradient[row][column]) =
            make_uint2(four[0] | (uint32_t)four[1] << 16, four[2] | (uint32_t)four[3] << 16);
    }
}

template <int C, tile_form F> SIMT void make_marks(canny_memory<C, F> &memory, int low, int high)
{
    for (int i = threadIdx.x; i < BLOCK_ROWS * TILE_WIDTH; i += THREADS) {
        int row = i / TILE_WIDTH, column = i - row * TILE_WIDTH;
        const uint16_t *own = &memory.gradient[row + 1][GRADIENT_MARGIN + column];
        int gradient = *own, sector = gradient & CANNY_SECTOR_MASK;
        uint8_t mark = CANNY_NONE;
        if (canny_length(gradient) > low) {
            int after = sector == CANNY_ACROSS    ? 1
                        : sector == CANNY_DOWN    ? GRADIENT_PITCH
                        : sector == CANNY_FALLING ? GRADIENT_PITCH + 1
                                                  : GRADIENT_PITCH - 1;
            mark = canny_mark(gradient, own[-after], own[after], low, high);
        }
        memory.marks[row][column] = mark;
    }
}

SIMT uint32_t mask_of_pairs(uint32_t top, uint32_t bottom)
{
    uint32_t above = (top | top >> 1) & 0x0101u, below = (bottom | bottom >> 1) & 0x0101u;
    return (above | above >> 7 | below << 2 | below >> 5) & 15u;
}

/* Joins a node with those of its neighbours to the west, north-west, north and north-east whose
 * marked pixels touch its own. across: nodes per row. The mask of a missing neighbour is 0. */
template <class Labels>
SIMT void join_before(const Labels &labels, uint32_t node, uint32_t across, uint32_t mask,
                      uint32_t west, uint32_t north_west, uint32_t north, uint32_t north_east)
{
    if ((mask & LEFT) && (west & RIGHT))
        union_join(labels, node, node - 1);
    if ((mask & TOP) && (north & BOTTOM))
        union_join(labels, node, node - across);
    if ((mask & TOP & LEFT) && (north_west & BOTTOM & RIGHT))
        union_join(labels, node, node - across - 1);
    if ((mask & TOP & RIGHT) && (north_east & BOTTOM & LEFT))
        union_join(labels, node, node - across + 1);
}

/* The two marks of a node in its row 0 or 1. */
template <int C, tile_form F>
SIMT uint16_t *node_pair(canny_memory<C, F> &memory, int node, int row)
{
    int y = node / NODES_ACROSS, x = node - y * NODES_ACROSS;
    return reinterpret_cast<uint16_t *>(&memory.marks[y * 2 + row][x * 2]);
}

/* Joins all nodes of the tile. They are numbered from 1, row by row. */
template <int C, tile_form F> SIMT void join_tile(canny_memory<C, F> &memory)
{
    shared_labels labels = {memory.labels};
    for (int n = threadIdx.x; n < NODES; n += THREADS) {
        uint32_t top = *node_pair(memory, n, 0), bottom = *node_pair(memory, n, 1);
        bool strong = ((top | bottom) & CANNY_STRONG * 0x0101u) != 0;
        memory.masks[n] = (uint8_t)mask_of_pairs(top, bottom);
        memory.labels[1 + n] = strong ? 0 : 1 + (uint32_t)n;
    }
    __syncthreads();
    for (int n = threadIdx.x; n < NODES; n += THREADS) {
        int x = n % NODES_ACROSS;
        bool has_west = x > 0, has_north = n >= NODES_ACROSS, has_east = x < NODES_ACROSS - 1;
        const uint8_t *mask = memory.masks + n;
        if (*mask == 0)
            continue;
        join_before(labels, 1 + (uint32_t)n, NODES_ACROSS, *mask, has_west ? mask[-1] : 0,
                    has_west && has_north ? mask[-NODES_ACROSS - 1] : 0,
                    has_north ? mask[-NODES_ACROSS] : 0,
                    has_east && has_north ? mask[-NODES_ACROSS + 1] : 0);
    }
    __syncthreads();
}

/* Writes the root of each marked node, as a node of the image, and sets the marks that are known to
 * be edges to 255. */
template <int C, tile_form F>
SIMT void label_tile(canny_memory<C, F> &memory, const canny_args &a, int x0, int y0)
{
    shared_labels labels = {memory.labels};
    for (int n = threadIdx.x; n < NODES; n += THREADS) {
        if (memory.masks[n] == 0)
            continue;
        uint32_t root = union_find(labels, 1 + (uint32_t)n), label = 0;
        if (root != 0) {
            int y = (int)(root - 1) / NODES_ACROSS, x = (int)(root - 1) % NODES_ACROSS;
            label = 1 + (uint32_t)(y0 / 2 + y) * a.across + x0 / 2 + x;
        } else {
            for (int row = 0; row < 2; row++) {
                uint16_t *pair = node_pair(memory, n, row);
                *pair = (uint16_t)(((*pair | *pair >> 1) & 0x0101u) * CANNY_EDGE);
            }
        }
        int y = n / NODES_ACROSS, x = n - y * NODES_ACROSS;
        a.labels[1 + (uint32_t)(y0 / 2 + y) * a.across + x0 / 2 + x] = label;
    }
}

template <int C, tile_form F>
static __global__ void __launch_bounds__(THREADS, F == TILE_GRAY ? BLOCKS_OF_COLOUR : 0)
    canny_tile_kernel(canny_args a, const __grid_constant__ tile_prologue<F> given)
{
    await_kernel_before();
    __shared__ canny_memory<C, F> memory;
    __shared__ alignas(16) uint8_t table[TILE_TABLE_BYTES(F)];
    int tile_y = blockIdx.x / a.tile.tiles_across;
    int x0 = (blockIdx.x - tile_y * a.tile.tiles_across) * TILE_WIDTH, y0 = tile_y * BLOCK_ROWS;
    int rows = min(BLOCK_ROWS, a.tile.height - y0);
    tile_load(memory.gray, a.tile, x0, y0 - 2, rows + 4, 2, given, table);
    make_gradients(memory, a.tile, x0, y0);
    __syncthreads();
    make_marks(memory, a.low, a.high);
    __syncthreads();
    join_tile(memory);
    label_tile(memory, a, x0, y0);
    __syncthreads();
    for (int i = threadIdx.x; i < rows * (TILE_WIDTH / PIECE); i += THREADS) {
        int row = i / (TILE_WIDTH / PIECE), column = i % (TILE_WIDTH / PIECE) * PIECE;
        row_put(a.tile.to + (size_t)(y0 + row) * a.tile.to_stride, x0 + column, a.tile.width,
                piece_at(&memory.marks[row][column]));
    }
}

/* The mask of a node of the image; 0: the node is outside of the image. The byte after a row of odd
 * length is 0, because the first launch has written whole pieces of 16 bytes. */
SIMT uint32_t mask_at(const canny_args &a, int x, int y)
{
    if (x < 0 || x >= a.across || y < 0)
        return 0;
    const uint8_t *top = a.tile.to + (size_t)y * 2 * a.tile.to_stride + x * 2;
    const uint8_t *bottom = top + a.tile.to_stride;
    bool cut = y * 2 + 1 >= a.tile.height;
    return mask_of_pairs(*reinterpret_cast<const uint16_t *>(top),
                         cut ? 0 : *reinterpret_cast<const uint16_t *>(bottom));
}

/* Joins nodes across the sides of tiles. The first `below` threads process the nodes below
 * horizontal sides, row by row. The other threads process the nodes beside vertical sides, column
 * by column. Some connections at the corners of tiles are visited twice. */
static __global__ void __launch_bounds__(THREADS) canny_sides_kernel(canny_args a, int below,
                                                                     int count)
{
    await_kernel_before();
    global_labels labels = {a.labels};
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count)
        return;
    bool is_below = i < below;
    int line = is_below ? i / a.across : (i - below) / a.down;
    int x = is_below ? i - line * a.across : (line + 1) * NODES_ACROSS;
    int y = is_below ? (line + 1) * NODES_DOWN : i - below - line * a.down;
    uint32_t node = 1 + (uint32_t)y * a.across + x;
    uint32_t mask = mask_at(a, x, y), west = mask_at(a, x - 1, y);
    uint32_t north_west = mask_at(a, x - 1, y - 1), north = mask_at(a, x, y - 1);
    if (is_below) {
        join_before(labels, node, a.across, mask, 0, north_west, north, mask_at(a, x + 1, y - 1));
    } else {
        join_before(labels, node, a.across, mask, west, north_west, 0, 0);
        join_before(labels, node - 1, a.across, west, 0, 0, 0, north);
    }
}

/* Decides the pixels of a node that are still 1: returns them as 255 or 0. four: its pixels. */
SIMT uint32_t settle_block(const canny_args &a, uint32_t four, uint32_t node)
{
    global_labels labels = {a.labels};
    bool open = four != 0 && (four & 0x80808080u) == 0;
    return !open ? four : union_find(labels, node) == 0 ? four * CANNY_EDGE : 0;
}

/* Each thread has a piece of 16 pixels of two rows: eight nodes. */
static __global__ void __launch_bounds__(THREADS) canny_settle_kernel(canny_args a, int pieces,
                                                                      int count)
{
    await_kernel_before();
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count)
        return;
    int y = i / pieces, piece = i - y * pieces;
    bool cut = y * 2 + 1 >= a.tile.height;
    uint4 *top = reinterpret_cast<uint4 *>(a.tile.to + (size_t)y * 2 * a.tile.to_stride) + piece;
    uint4 *bottom =
        reinterpret_cast<uint4 *>(a.tile.to + ((size_t)y * 2 + 1) * a.tile.to_stride) + piece;
    uint4 upper = *top, lower = cut ? make_uint4(0, 0, 0, 0) : *bottom;
    uint32_t u[4] = {upper.x, upper.y, upper.z, upper.w};
    uint32_t v[4] = {lower.x, lower.y, lower.z, lower.w};
    uint32_t node = 1 + (uint32_t)y * a.across + piece * (PIECE / 2);
    uint32_t changed = 0;
    unrolled_for (int k = 0; k < 4; k++) {
        uint32_t first = __byte_perm(u[k], v[k], 0x5410), second = __byte_perm(u[k], v[k], 0x7632);
        uint32_t one = settle_block(a, first, node + 2 * k);
        uint32_t two = settle_block(a, second, node + 2 * k + 1);
        changed |= (one ^ first) | (two ^ second);
        u[k] = __byte_perm(one, two, 0x5410);
        v[k] = __byte_perm(one, two, 0x7632);
    }
    if (changed) {
        *top = make_uint4(u[0], u[1], u[2], u[3]);
        if (!cut)
            *bottom = make_uint4(v[0], v[1], v[2], v[3]);
    }
}

/* ---- launchers ---- */

static unsigned blocks_of(int count)
{
    return ((unsigned)count + THREADS - 1) / THREADS;
}

template <int C, tile_form F>
static cudaError_t launch_tiles(const canny_args &args, const struct prologue *prologue,
                                cudaStream_t stream)
{
    return launch_kernel(canny_tile_kernel<C, F>, tile_blocks(args.tile, BLOCK_ROWS), THREADS, 0,
                         stream, args, tile_prologue_of<F>(prologue));
}

PASS_LAUNCHER(canny_cuda)
{
    const struct canny *canny = reinterpret_cast<const struct canny *>(pass->params);
    canny_args args;
    args.tile = tile_args_of(from, to, BORDER_REPLICATE);
    args.labels = reinterpret_cast<uint32_t *>(work);
    args.low = canny->low;
    args.high = canny->high;
    args.across = (int)canny_blocks(from->width);
    args.down = (int)canny_blocks(from->height);
    auto launch = from->channels == 3         ? launch_tiles<3, TILE_GRAY>
                  : from->channels == 4       ? launch_tiles<4, TILE_GRAY>
                  : canny->prologue.looks_up  ? launch_tiles<1, TILE_TABLE>
                                              : launch_tiles<1, TILE_PLAIN>;
    cudaError_t result = launch(args, &canny->prologue, stream);
    int below = (args.down - 1) / NODES_DOWN * args.across;
    int beside = (args.across - 1) / NODES_ACROSS * args.down;
    if (result == cudaSuccess && below + beside > 0)
        result = launch_kernel(canny_sides_kernel, blocks_of(below + beside), THREADS, 0, stream,
                               args, below, below + beside);
    if (result != cudaSuccess)
        return result;
    int pieces = (args.tile.width + PIECE - 1) / PIECE;
    return launch_kernel(canny_settle_kernel, blocks_of(pieces * args.down), THREADS, 0, stream,
                         args, pieces, pieces * args.down);
}
