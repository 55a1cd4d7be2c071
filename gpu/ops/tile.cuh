/*
 * tile.cuh - how a block of threads loads a tile of an image into shared memory, and writes its
 * result: for kernels that compute a pixel from its neighbours.
 *
 * A block computes 128 columns and some rows of the result. For its neighbours, the tile has 16
 * more columns on either side, and some more rows above and below (the halo). The tile is stored as
 * planes, one per channel: a word then has four pixels of one channel. Lanes load 16 adjacent bytes
 * each, and sort them by channel with byte permutations. A row of a plane has 40 words, and lanes
 * read adjacent words, so their reads use all 32 banks. Results are stored in the planes,
 * interleaved again, and written with 16 bytes per lane. Alpha has no plane: it is copied from the
 * source when the result is written.
 *
 * The prologue (prologue.h) is applied to pixels before they are stored in the planes. If it makes
 * gray, there is one plane, and the result has one channel.
 *
 * If the tile extends beyond the left or the right side of the image, the columns outside are made
 * from the loaded rows. Rows above and below the image are loaded from the rows that the border
 * names.
 */
#pragma once

#include "gpu/ops/rows.cuh"

#define TILE_WIDTH 128
#define TILE_MARGIN 16
#define TILE_PITCH (TILE_MARGIN + TILE_WIDTH + TILE_MARGIN)

struct tile_args : pass_images {
    int tiles_across;
    enum border border;
};

static inline tile_args tile_args_of(const struct image *from, const struct image *to,
                                     enum border border)
{
    tile_args args = pass_args<tile_args>(from, to);
    args.tiles_across = (args.width + TILE_WIDTH - 1) / TILE_WIDTH;
    args.border = border;
    return args;
}

static inline unsigned tile_blocks(const tile_args &args, int rows)
{
    return (unsigned)args.tiles_across * (unsigned)((args.height + rows - 1) / rows);
}

/* The prologue for which a kernel is compiled: none, a table, or gray. Whether a table follows the
 * gray is decided when the kernel runs: all threads take the same branch, and fewer kernels must be
 * compiled. */
enum tile_form { TILE_PLAIN, TILE_TABLE, TILE_GRAY };

/* The prologue, as an argument of a kernel. */
template <tile_form F> struct tile_prologue : table_argument<F != TILE_PLAIN> {};

template <> struct tile_prologue<TILE_GRAY> : table_argument<true> {
    gray_words gray;
    bool looks_up;
};

#define TILE_TABLE_BYTES(form) TABLE_BYTES((form) != TILE_PLAIN)

template <tile_form F>
static inline tile_prologue<F> tile_prologue_of(const struct prologue *prologue)
{
    tile_prologue<F> given;
    static_cast<table_argument<F != TILE_PLAIN> &>(given) =
        table_argument_of<F != TILE_PLAIN>(prologue);
    if constexpr (F == TILE_GRAY) {
        given.gray = gray_words_of(&prologue->gray);
        given.looks_up = prologue->looks_up;
    }
    return given;
}

/* Calls launch(channels of the source, form), with both as compile-time constants. */
template <typename Launch>
static cudaError_t tile_by_form(uint32_t channels, const struct prologue *prologue,
                                const Launch &launch)
{
    std::integral_constant<tile_form, TILE_PLAIN> plain;
    std::integral_constant<tile_form, TILE_TABLE> table;
    std::integral_constant<tile_form, TILE_GRAY> gray;
    if (prologue->makes_gray)
        return channels == 3 ? launch(std::integral_constant<int, 3>(), gray)
                             : launch(std::integral_constant<int, 4>(), gray);
    return by_channels(
        channels, [&](auto c) { return prologue->looks_up ? launch(c, table) : launch(c, plain); });
}

/* The shared memory of a block: ROWS rows of each plane, including the halo. C: channels of the
 * source; F: the prologue. */
template <int C, tile_form F, int WARPS, int ROWS> struct tile_memory {
    static constexpr int planes = C == 1 || F == TILE_GRAY ? 1 : 3;
    alignas(16) uint8_t plane[planes][ROWS][TILE_PITCH];
    alignas(16) uint8_t stage[C == 3 ? WARPS : 1][C == 3 ? WARP * 48 : 16];
};

/* Loads 16 bytes of row y, which may be outside of the image. Bytes outside of the row are
 * undefined. */
SIMT uint4 tile_piece(const tile_args &a, int y, int offset, int row_bytes)
{
    int row = border_inside(y, a.height, a.border);
    if (row < 0)
        return make_uint4(0, 0, 0, 0);
    return row_get<uint4>(a.from + (size_t)row * a.from_stride, offset, row_bytes);
}

/* The tile_sort functions sort four pixels into one word per colour; the tile_mix functions do the
 * reverse. */
SIMT void tile_sort_rgb(uint32_t a, uint32_t b, uint32_t c, uint32_t *red, uint32_t *green,
                        uint32_t *blue)
{
    *red = __byte_perm(__byte_perm(a, b, 0x0630), c, 0x5210);
    *green = __byte_perm(__byte_perm(a, b, 0x0741), c, 0x6210);
    *blue = __byte_perm(__byte_perm(a, b, 0x0052), c, 0x7410);
}

SIMT void tile_mix_rgb(uint32_t red, uint32_t green, uint32_t blue, uint32_t *a, uint32_t *b,
                       uint32_t *c)
{
    *a = __byte_perm(__byte_perm(red, green, 0x1040), blue, 0x3410);
    *b = __byte_perm(__byte_perm(green, red, 0x2601), blue, 0x3250);
    *c = __byte_perm(__byte_perm(red, green, 0x0730), blue, 0x7216);
}

SIMT void tile_sort_rgba(uint4 p, uint32_t *red, uint32_t *green, uint32_t *blue)
{
    uint32_t first = __byte_perm(p.x, p.y, 0x5140), second = __byte_perm(p.z, p.w, 0x5140);
    *red = __byte_perm(first, second, 0x5410);
    *green = __byte_perm(first, second, 0x7632);
    *blue = __byte_perm(__byte_perm(p.x, p.y, 0x0062), __byte_perm(p.z, p.w, 0x0062), 0x5410);
}

SIMT uint4 tile_mix_rgba(uint32_t red, uint32_t green, uint32_t blue, uint4 alpha)
{
    uint32_t first = __byte_perm(red, green, 0x5140), second = __byte_perm(red, green, 0x7362);
    return make_uint4(__byte_perm(__byte_perm(first, blue, 0x0410), alpha.x, 0x7210),
                      __byte_perm(__byte_perm(first, blue, 0x0532), alpha.y, 0x7210),
                      __byte_perm(__byte_perm(second, blue, 0x0610), alpha.z, 0x7210),
                      __byte_perm(__byte_perm(second, blue, 0x0732), alpha.w, 0x7210));
}

/* How the pieces (16 bytes) of a tile are divided among the warps of a block, in rounds. In a
 * round, a warp loads a group of `group` rows, with `loads` pieces per lane; some lanes may have
 * fewer. All warps together load `step` rows per round. With one channel, a group has only one
 * piece per lane, so a round has several groups per warp. */
template <int C, int WARPS, int ROWS> struct tile_share {
    static constexpr int pieces = TILE_PITCH * C / 16; /* per row: 10, 30, 40 */
    static constexpr int group = C == 4 ? 4 : 3;
    static constexpr int rounds = (ROWS + group * WARPS - 1) / (group * WARPS);
    static constexpr int loads = C == 1 ? (rounds < 4 ? rounds : 4) : C == 3 ? 3 : 5;
    static constexpr int step = group * WARPS * (C == 1 ? loads : 1);

    /* The row, within the round, of the lane's load j, and the piece within the row. `step`: the
     * lane has no such load. */
    SIMT int row(int lane, int warp, int j)
    {
        int i = C == 1 ? lane : lane + j * WARP;
        int within = i / pieces, before = C == 1 ? (j * WARPS + warp) * group : warp * group;
        return group * pieces % WARP == 0 || within < group ? before + within : step;
    }
    SIMT int piece(int lane, int j)
    {
        return (C == 1 ? lane : lane + j * WARP) % pieces;
    }
};

/* Loads the pieces of the round that starts in row `first` of the tile. INSIDE: the whole tile is
 * inside of the image, so that only the number of rows must be checked. */
template <int C, int WARPS, int ROWS, bool INSIDE>
SIMT void tile_take(const tile_args &a, int x0, int top, int first, int rows, uint4 *held)
{
    using share = tile_share<C, WARPS, ROWS>;
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, left = (x0 - TILE_MARGIN) * C;
    const uint8_t *base = a.from + (ptrdiff_t)(top + first) * (ptrdiff_t)a.from_stride + left;
    unrolled_for (int j = 0; j < share::loads; j++) {
        int row = share::row(lane, warp, j), piece = share::piece(lane, j);
        held[j] = make_uint4(0, 0, 0, 0);
        if (row == share::step || first + row >= rows)
            continue;
        if constexpr (INSIDE)
            held[j] = __ldg(&piece_at(base + row * (int)a.from_stride + piece * 16));
        else
            held[j] = tile_piece(a, top + first + row, left + piece * 16, a.width * C);
    }
}

/* Whether row y has pixels: with BORDER_ZERO, rows outside of the image are zeros, and the prologue
 * must not change them. Columns outside of the image are undefined until tile_make_sides is
 * called. */
#define TILE_HAS_ROW(a, y) ((a).border != BORDER_ZERO || ((y) >= 0 && (y) < (a).height))

/* Looks up, in the table, the pieces that tile_take has loaded for the round that starts in row
 * `first`. */
template <int C, int WARPS, int ROWS, bool INSIDE>
SIMT void tile_look_up(const tile_args &a, int top, int first, int rows, const uint8_t *table,
                       uint4 *held)
{
    using share = tile_share<C, WARPS, ROWS>;
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    unrolled_for (int j = 0; j < share::loads; j++) {
        int row = share::row(lane, warp, j), y = top + first + row;
        if (row == share::step || first + row >= rows)
            continue;
        if (INSIDE || TILE_HAS_ROW(a, y))
            held[j] = look_up_four<C == 4>(held[j], table);
    }
}

/* Convert 16 RGB pixels, or four RGBA pixels, to gray, and look them up if there is a table. */
SIMT uint4 tile_gray_rgb(const row_part<3> &part, const tile_prologue<TILE_GRAY> &given,
                         const uint8_t *table)
{
    uint4 gray = gray_lane_rgb(part, given.gray);
    return given.looks_up ? look_up_four<false>(gray, table) : gray;
}

SIMT uint32_t tile_gray_rgba(const uint4 &four, const tile_prologue<TILE_GRAY> &given,
                             const uint8_t *table)
{
    uint32_t gray = gray_four_rgba(four, given.gray);
    return given.looks_up ? look_up<false>(gray, table) : gray;
}

/* Loads an RGB tile. Each warp loads three rows at a time, while the next three are in flight; 30
 * lanes have 48 bytes each. */
template <int WARPS, int ROWS, bool INSIDE, tile_form F>
SIMT void tile_load_rgb(tile_memory<3, F, WARPS, ROWS> &memory, const tile_args &a, int x0, int top,
                        int rows, const tile_prologue<F> &given, const uint8_t *table)
{
    using share = tile_share<3, WARPS, ROWS>;
    constexpr int groups = TILE_PITCH / 16;
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    uint4 *stage = reinterpret_cast<uint4 *>(memory.stage[warp]);
    uint4 held[share::loads];
    tile_take<3, WARPS, ROWS, INSIDE>(a, x0, top, 0, rows, held);
    for (int first = 0; first < rows; first += share::step) {
        if constexpr (F == TILE_TABLE)
            tile_look_up<3, WARPS, ROWS, INSIDE>(a, top, first, rows, table, held);
        __syncwarp();
        unrolled_for (int j = 0; j < share::loads; j++)
            stage[lane + j * WARP] = held[j];
        tile_take<3, WARPS, ROWS, INSIDE>(a, x0, top, first + share::step, rows, held);
        __syncwarp();
        int row = first + warp * share::group + lane / groups, group = lane % groups;
        if (lane >= share::group * groups || row >= rows)
            continue;
        uint4 u = stage[lane * 3], v = stage[lane * 3 + 1], w = stage[lane * 3 + 2];
        if constexpr (F == TILE_GRAY) {
            uint4 gray = make_uint4(0, 0, 0, 0);
            if (INSIDE || TILE_HAS_ROW(a, top + row))
                gray = tile_gray_rgb({{u, v, w}}, given, table);
            piece_at(&memory.plane[0][row][group * 16]) = gray;
        } else {
            uint4 red, green, blue;
            tile_sort_rgb(u.x, u.y, u.z, &red.x, &green.x, &blue.x);
            tile_sort_rgb(u.w, v.x, v.y, &red.y, &green.y, &blue.y);
            tile_sort_rgb(v.z, v.w, w.x, &red.z, &green.z, &blue.z);
            tile_sort_rgb(w.y, w.z, w.w, &red.w, &green.w, &blue.w);
            piece_at(&memory.plane[0][row][group * 16]) = red;
            piece_at(&memory.plane[1][row][group * 16]) = green;
            piece_at(&memory.plane[2][row][group * 16]) = blue;
        }
    }
}

/* For sources with one or four channels: stores the pieces that tile_take has loaded for the round
 * that starts in row `first` in the planes. */
template <int C, int WARPS, int ROWS, bool INSIDE, tile_form F>
SIMT void tile_place(tile_memory<C, F, WARPS, ROWS> &memory, const tile_args &a, int top, int first,
                     int rows, const tile_prologue<F> &given, const uint8_t *table,
                     const uint4 *held)
{
    using share = tile_share<C, WARPS, ROWS>;
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    unrolled_for (int j = 0; j < share::loads; j++) {
        int within = share::row(lane, warp, j), row = first + within;
        int piece = share::piece(lane, j);
        if (within == share::step || row >= rows)
            continue;
        if constexpr (C == 1) {
            piece_at(&memory.plane[0][row][piece * 16]) = held[j];
        } else if constexpr (F == TILE_GRAY) {
            /* Zeros outside of the image must stay zeros: flattened, they would be the
             * background. */
            word_at(&memory.plane[0][row][piece * 4]) =
                INSIDE || TILE_HAS_ROW(a, top + row) ? tile_gray_rgba(held[j], given, table) : 0;
        } else {
            uint32_t red, green, blue;
            tile_sort_rgba(held[j], &red, &green, &blue);
            word_at(&memory.plane[0][row][piece * 4]) = red;
            word_at(&memory.plane[1][row][piece * 4]) = green;
            word_at(&memory.plane[2][row][piece * 4]) = blue;
        }
    }
}

template <int C, int WARPS, int ROWS, bool INSIDE, tile_form F>
SIMT void tile_fill(tile_memory<C, F, WARPS, ROWS> &memory, const tile_args &a, int x0, int top,
                    int rows, const tile_prologue<F> &given, const uint8_t *table)
{
    if constexpr (C == 3) {
        tile_load_rgb<WARPS, ROWS, INSIDE, F>(memory, a, x0, top, rows, given, table);
    } else {
        for (int first = 0; first < rows; first += tile_share<C, WARPS, ROWS>::step) {
            uint4 held[tile_share<C, WARPS, ROWS>::loads];
            tile_take<C, WARPS, ROWS, INSIDE>(a, x0, top, first, rows, held);
            if constexpr (F == TILE_TABLE)
                tile_look_up<C, WARPS, ROWS, INSIDE>(a, top, first, rows, table, held);
            tile_place<C, WARPS, ROWS, INSIDE, F>(memory, a, top, first, rows, given, table, held);
        }
    }
}

/* Makes `across` columns outside of the image on either side, as far as the tile extends there.
 * `across` is less than the tile's margin, so the columns that they mirror or repeat are in the
 * tile. */
template <int C, tile_form F, int WARPS, int ROWS>
static __device__ void tile_make_sides(tile_memory<C, F, WARPS, ROWS> &memory, const tile_args &a,
                                       int x0, int rows, int across)
{
    for (int i = threadIdx.x; i < rows * 2 * across; i += WARPS * WARP) {
        int row = i / (2 * across), k = i - row * 2 * across;
        int x = k < across ? -1 - k : a.width + k - across;
        if (x < x0 - TILE_MARGIN || x >= x0 + TILE_WIDTH + TILE_MARGIN)
            continue;
        int inside = border_inside(x, a.width, a.border);
        unrolled_for (int c = 0; c < memory.planes; c++) {
            uint8_t *pixels = memory.plane[c][row];
            pixels[x - x0 + TILE_MARGIN] = inside < 0 ? 0 : pixels[inside - x0 + TILE_MARGIN];
        }
    }
}

template <tile_form F> SIMT bool tile_looks_up(const tile_prologue<F> &given)
{
    if constexpr (F == TILE_GRAY)
        return given.looks_up;
    return F == TILE_TABLE;
}

/* Fills `rows` rows of the planes, from row `top` of the image on. table: shared memory for the
 * prologue's table. All threads must call it, and may read the planes afterwards. */
template <int C, tile_form F, int WARPS, int ROWS>
SIMT void tile_load(tile_memory<C, F, WARPS, ROWS> &memory, const tile_args &a, int x0, int top,
                    int rows, int across, const tile_prologue<F> &given, uint8_t *table)
{
    if constexpr (F != TILE_PLAIN) {
        if (tile_looks_up(given)) {
            tables_copy<1, WARPS>(table, given.pieces, threadIdx.x / WARP, threadIdx.x % WARP);
            __syncthreads();
        }
    }
    bool inside = top >= 0 && top + rows <= a.height && x0 >= TILE_MARGIN &&
                  x0 + TILE_WIDTH + TILE_MARGIN <= a.width;
    if (inside)
        tile_fill<C, WARPS, ROWS, true, F>(memory, a, x0, top, rows, given, table);
    else
        tile_fill<C, WARPS, ROWS, false, F>(memory, a, x0, top, rows, given, table);
    __syncthreads();
    if (x0 == 0 || a.width - x0 < TILE_WIDTH + across) {
        tile_make_sides(memory, a, x0, rows, across);
        __syncthreads();
    }
}

/* Stores COUNT words, each with four pixels of the result: those of the rows from y0 + row on, at
 * column x0 + 4 lane. With one plane, they are written to the result. Colours are stored in their
 * plane, whose rows no thread may need any more, until tile_store writes them. */
template <int C, tile_form F, int WARPS, int ROWS, int COUNT>
SIMT void tile_put(tile_memory<C, F, WARPS, ROWS> &memory, const tile_args &a, int x0, int y0,
                   int row, int channel, int lane, const uint32_t (&results)[COUNT])
{
    if constexpr (tile_memory<C, F, WARPS, ROWS>::planes == 1) {
        int x = x0 + lane * 4, left = a.height - y0 - row;
        uint8_t *to = a.to + (size_t)(y0 + row) * a.to_stride;
        unrolled_for (int j = 0; j < COUNT; j++) {
            if (j < left)
                row_put(to, x, a.width, results[j]);
            to += a.to_stride;
        }
    } else {
        uint32_t *to =
            reinterpret_cast<uint32_t *>(&memory.plane[channel][row][TILE_MARGIN + lane * 4]);
        unrolled_for (int j = 0; j < COUNT; j++)
            to[j * (TILE_PITCH / 4)] = results[j];
    }
}

/* Writes `rows` rows of colours from the planes to the result; with one plane, does nothing. All
 * threads must call it. */
template <int C, tile_form F, int WARPS, int ROWS>
SIMT void tile_store(tile_memory<C, F, WARPS, ROWS> &memory, const tile_args &a, int x0, int y0,
                     int rows)
{
    if constexpr (tile_memory<C, F, WARPS, ROWS>::planes == 1)
        return;
    __syncthreads();
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    if constexpr (C == 3) {
        constexpr int groups = TILE_WIDTH / 16, pieces = TILE_WIDTH * 3 / 16;
        uint4 *stage = reinterpret_cast<uint4 *>(memory.stage[warp]);
        for (int first = warp * 4; first < rows; first += WARPS * 4) {
            int row = first + lane / groups, at = TILE_MARGIN + lane % groups * 16;
            __syncwarp();
            if (row < rows) {
                uint4 red = piece_at(&memory.plane[0][row][at]);
                uint4 green = piece_at(&memory.plane[1][row][at]);
                uint4 blue = piece_at(&memory.plane[2][row][at]);
                uint4 u, v, w;
                tile_mix_rgb(red.x, green.x, blue.x, &u.x, &u.y, &u.z);
                tile_mix_rgb(red.y, green.y, blue.y, &u.w, &v.x, &v.y);
                tile_mix_rgb(red.z, green.z, blue.z, &v.z, &v.w, &w.x);
                tile_mix_rgb(red.w, green.w, blue.w, &w.y, &w.z, &w.w);
                stage[lane * 3] = u;
                stage[lane * 3 + 1] = v;
                stage[lane * 3 + 2] = w;
            }
            __syncwarp();
            unrolled_for (int j = 0; j < 3; j++) {
                int piece = lane + j * WARP, line = first + piece / pieces;
                int offset = x0 * 3 + piece % pieces * 16;
                if (line < rows)
                    row_put(a.to + (size_t)(y0 + line) * a.to_stride, offset, a.width * 3,
                            stage[piece]);
            }
        }
    } else {
        for (int row = warp; row < rows; row += WARPS) {
            int offset = (x0 + lane * 4) * 4, at = TILE_MARGIN + lane * 4;
            uint4 source = row_get<uint4>(a.from + (size_t)(y0 + row) * a.from_stride, offset,
                                          a.width * 4);
            row_put(a.to + (size_t)(y0 + row) * a.to_stride, offset, a.width * 4,
                    tile_mix_rgba(word_at(&memory.plane[0][row][at]),
                                  word_at(&memory.plane[1][row][at]),
                                  word_at(&memory.plane[2][row][at]), source));
        }
    }
}
