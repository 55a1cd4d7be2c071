/*
 * gaussian.cu - the Gaussian blur and sharpening of gaussian.h on the device, in one launch.
 *
 * RGB images that are blurred with up to 5 x 5 weights, without a prologue, have a kernel of their
 * own: gaussian_strip.cuh. The kernel of this file loads a tile of the image and the pixels around
 * it to shared memory (tile.cuh).
 *
 * A lane computes four columns (one word) of several rows. One __dp4a multiplies the four bytes of
 * a word with four weights and adds the products. For each of the four pixels of a word, the
 * weights are stored shifted by the pixel's position, so that whole words are multiplied without
 * being unpacked. The horizontal sums (16 bits) of two rows are packed into a word, and one __dp2a
 * multiplies them with two vertical weights. For odd rows of the result, the vertical weights are
 * stored shifted by one. All intermediate values stay in registers. The weights are launch
 * arguments: they are in constant memory, which is fast because all lanes read the same address.
 */
#include "gpu/ops/gaussian_strip.cuh"
#include "gpu/ops/tile.cuh"

/* The weights of a kernel with radius R. A smaller radius has weights of 0 at the ends. */
template <int R> struct gaussian_args {
    static constexpr int words = (R + 3) / 4; /* that are read on either side of a word */
    bool sharpen;
    int amount256;
    uint32_t across[4][2 * words + 1];                  /* for each of the four pixels of a word */
    uint32_t down_even[R / 2 + 1], down_odd[R / 2 + 1]; /* four weights, for two pairs of rows */
};

/* Resident blocks per multiprocessor for gray with R = 2, which __launch_bounds__ asks for. Before
 * compute capability 8.0 a multiprocessor has only 1024 threads. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define GRAY_BLOCKS 8
#else
#define GRAY_BLOCKS 11
#endif

/* Rows of the result per lane, warps per block, and resident blocks per multiprocessor for
 * __launch_bounds__ (0: the compiler chooses). With R = 2, gray is fastest with many warps, and
 * colours are fastest with many registers. */
template <int C, int R> struct gaussian_shape {
    static constexpr int lane_rows = C == 1 && R == 2 ? 10 : R <= 4 ? 8 : 16;
    static constexpr int warps = R == 4 ? 8 : R <= 8 ? 4 : 3;
    static constexpr int blocks = R > 2 ? 0 : C == 1 ? GRAY_BLOCKS : 1;
    static constexpr int rows = lane_rows * warps;
};

template <int R>
SIMT void sum_across(const gaussian_args<R> &a, const uint8_t *word, uint32_t *sums)
{
    constexpr int side = gaussian_args<R>::words;
    uint32_t words[2 * side + 1];
    unrolled_for (int q = 0; q <= 2 * side; q++)
        words[q] = word_at(word + (q - side) * 4);
    unrolled_for (int k = 0; k < 4; k++) {
        sums[k] = 0;
        unrolled_for (int q = 0; q <= 2 * side; q++) {
            int first = (q - side) * 4 - k; /* from pixel k to the word's first byte */
            if (first + 3 >= -R && first <= R)
                sums[k] = __dp4a(words[q], a.across[k][q], sums[k]);
        }
    }
}

SIMT uint32_t sharpen_four(uint32_t source, uint32_t blurred, int amount256)
{
    uint32_t four = 0;
    unrolled_for (int k = 0; k < 4; k++)
        four |= (uint32_t)unsharp_byte((int)(source >> (8 * k) & 255u),
                                       (int)(blurred >> (8 * k) & 255u), amount256)
                << (8 * k);
    return four;
}

/* Computes lane_rows words of the result, one per row, from row `row` of the tile on. The plane is
 * the source: its row 0 is R rows above the tile. */
template <int C, int R>
SIMT void blur(const gaussian_args<R> &a, const uint8_t (*plane)[TILE_PITCH], int row, int at,
               uint32_t *result)
{
    constexpr int count = gaussian_shape<C, R>::lane_rows, pairs = count / 2 + R;
    uint32_t pair[pairs][4];
    unrolled_for (int i = 0; i < pairs; i++) {
        uint32_t even[4], odd[4];
        sum_across<R>(a, &plane[row + 2 * i][at], even);
        sum_across<R>(a, &plane[row + 2 * i + 1][at], odd);
        unrolled_for (int k = 0; k < 4; k++)
            pair[i][k] = __byte_perm(even[k], odd[k], 0x5410);
    }
    unrolled_for (int j = 0; j < count; j++) {
        uint32_t sums[4];
        unrolled_for (int k = 0; k < 4; k++) {
            sums[k] = 32768u;
            unrolled_for (int u = 0; u <= R; u++) {
                uint32_t weights = j % 2 ? a.down_odd[u / 2] : a.down_even[u / 2];
                sums[k] = u % 2 ? __dp2a_hi(pair[j / 2 + u][k], weights, sums[k])
                                : __dp2a_lo(pair[j / 2 + u][k], weights, sums[k]);
            }
        }
        result[j] = gray_pack(sums[0], sums[1], sums[2], sums[3]);
    }
    if (!a.sharpen)
        return;
    unrolled_for (int j = 0; j < count; j++)
        result[j] = sharpen_four(word_at(&plane[row + j + R][at]), result[j], a.amount256);
}

template <int C, int R, tile_form F, int N>
static __global__ void
    __launch_bounds__(gaussian_shape<C, R>::warps *WARP, gaussian_shape<C, R>::blocks)
    gaussian_kernel(const __grid_constant__ several<tile_args, N> all,
                    const __grid_constant__ gaussian_args<R> a,
                    const __grid_constant__ tile_prologue<F> given)
{
    await_kernel_before();
    if (several_skips(all))
        return;
    const tile_args &tile = several_own(all);
    using shape = gaussian_shape<C, R>;
    __shared__ tile_memory<C, F, shape::warps, shape::rows + 2 * R> memory;
    __shared__ alignas(16) uint8_t table[TILE_TABLE_BYTES(F)];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int tile_y = blockIdx.x / tile.tiles_across;
    int x0 = (blockIdx.x - tile_y * tile.tiles_across) * TILE_WIDTH, y0 = tile_y * shape::rows;
    int rows = min(shape::rows, tile.height - y0), row = warp * shape::lane_rows;
    tile_load(memory, tile, x0, y0 - R, rows + 2 * R, R, given, table);
#pragma unroll 1
    for (int c = 0; c < memory.planes; c++) {
        uint32_t result[shape::lane_rows];
        if (row < rows)
            blur<C, R>(a, memory.plane[c], row, TILE_MARGIN + lane * 4, result);
        if (memory.planes != 1)
            __syncthreads();
        if (row < rows)
            tile_put(memory, tile, x0, y0, row, c, lane, result);
    }
    tile_store(memory, tile, x0, y0, rows);
}

/* The weight at distance `tap` from the centre; 0 beyond the radius. */
static uint32_t weight_at(const struct gaussian *gaussian, int tap)
{
    bool inside = tap >= -gaussian->radius && tap <= gaussian->radius;
    return inside ? gaussian->weights[tap + gaussian->radius] : 0;
}

/* Sets the vertical weights. Rows are packed in pairs: the first row of a sum is the first of a
 * pair for an even row of the result (`even`), and the second of a pair for an odd row (`odd`). */
static void put_down(const struct gaussian *gaussian, int radius, uint32_t *even, uint32_t *odd)
{
    for (int tap = 0; tap <= 2 * radius + 1; tap++) {
        even[tap / 4] |= weight_at(gaussian, tap - radius) << (tap % 4 * 8);
        odd[tap / 4] |= weight_at(gaussian, tap - 1 - radius) << (tap % 4 * 8);
    }
}

template <int R> static gaussian_args<R> gaussian_args_of(const struct gaussian *gaussian)
{
    gaussian_args<R> args;
    memset(&args, 0, sizeof(args));
    args.sharpen = gaussian->sharpen;
    args.amount256 = gaussian->amount256;
    constexpr int side = gaussian_args<R>::words;
    for (int k = 0; k < 4; k++)
        for (int byte = 0; byte < (2 * side + 1) * 4; byte++)
            args.across[k][byte / 4] |= weight_at(gaussian, byte - side * 4 - k) << (byte % 4 * 8);
    put_down(gaussian, R, args.down_even, args.down_odd);
    return args;
}

template <int C, int R, tile_form F, int N>
static cudaError_t launch_form(const several<tile_args, N> &all, dim3 grid,
                               const gaussian_args<R> &args, const struct prologue *prologue,
                               cudaStream_t stream)
{
    return launch_kernel(gaussian_kernel<C, R, F, N>, grid, gaussian_shape<C, R>::warps * WARP, 0,
                         stream, all, args, tile_prologue_of<F>(prologue));
}

template <int R>
static cudaError_t launch(const struct gaussian *gaussian, const struct pass_call *calls,
                          uint32_t count, cudaStream_t stream)
{
    const gaussian_args<R> args = gaussian_args_of<R>(gaussian);
    const struct prologue *prologue = &gaussian->prologue;
    return tile_by_form(calls[0].from.channels, prologue, [&](auto c, auto form) {
        constexpr bool is_common = R <= 8 && c != 4 && form != TILE_TABLE;
        return launch_several<tile_args, is_common>(
            calls, count,
            [&](const struct pass_call &call, tile_args *tile) {
                *tile = tile_args_of(&call.from, &call.to, BORDER_REFLECT101);
                return dim3(tile_blocks(*tile, gaussian_shape<c, R>::rows));
            },
            [&](const auto &all, dim3 grid) {
                return launch_form<c, R, form>(all, grid, args, prologue, stream);
            });
    });
}

template <int N>
static cudaError_t launch_strips(const several<strip_args, N> &all, dim3 grid,
                                 const gaussian_strip_args &args, cudaStream_t stream)
{
    return launch_kernel(gaussian_strip_kernel<N>, grid, STRIP_WARPS * WARP, 0, stream, all, args);
}

static cudaError_t launch_strip(const struct gaussian *gaussian, const struct pass_call *calls,
                                uint32_t count, cudaStream_t stream)
{
    constexpr int radius = GAUSSIAN_STRIP_RADIUS;
    gaussian_strip_args args;
    memset(&args, 0, sizeof(args));
    for (int k = 0; k < 4; k++)
        for (int tap = 0; tap <= 2 * radius; tap++)
            args.across[k][(k + tap) / 4] |= weight_at(gaussian, tap - radius)
                                             << ((k + tap) % 4 * 8);
    put_down(gaussian, radius, args.down_even, args.down_odd);
    return launch_several<strip_args>(
        calls, count,
        [&](const struct pass_call &call, strip_args *strip) {
            *strip = strip_args_of(&call.from, &call.to, BORDER_REFLECT101, GAUSSIAN_STRIP_BLOCKS);
            return dim3(strip_blocks(*strip));
        },
        [&](const auto &all, dim3 grid) { return launch_strips(all, grid, args, stream); });
}

PASS_LAUNCHER_MANY(gaussian_cuda)
{
    const struct gaussian *gaussian =
        reinterpret_cast<const struct gaussian *>(calls[0].pass->params);
    const struct prologue *prologue = &gaussian->prologue;
    if (gaussian->radius <= GAUSSIAN_STRIP_RADIUS && calls[0].from.channels == 3 &&
        !gaussian->sharpen && !prologue->makes_gray && !prologue->looks_up)
        return launch_strip(gaussian, calls, count, stream);
    if (gaussian->radius <= 2)
        return launch<2>(gaussian, calls, count, stream);
    if (gaussian->radius <= 4)
        return launch<4>(gaussian, calls, count, stream);
    if (gaussian->radius <= 8)
        return launch<8>(gaussian, calls, count, stream);
    return launch<15>(gaussian, calls, count, stream);
}
