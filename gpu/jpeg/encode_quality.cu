/*
 * encode_quality.cu - the kernel that finds the quality at which a file has a given similarity to
 * its image.
 *
 * One launch is one trial of all images whose searches have not ended. A thread codes a block of Y,
 * and decodes it; the block of threads sums up the similarities of the tile's windows. The last
 * tile of an image chooses the quality of the next trial. When the search ends, it writes the
 * tables of the quality that was found to the header of the file and to the encoder's descriptor.
 * The host does not take part: it enqueues as many launches as a search can need, and the later
 * ones have nothing left to do.
 */
#include "gpu/jpeg/encode_quality.h"
#include "gpu/jpeg/encode_colour.h"
#include "gpu/jpeg/encode_gray.h"
#include "gpu/jpeg/idct.h"
#include "gpu/jpeg/quant.h"

#define QUALITY_WARPS (QUALITY_THREADS / WARP_LANES)
#ifndef QUALITY_RESIDENT
#define QUALITY_RESIDENT 2
#endif

struct quality_args {
    struct encode_descriptor *images;
    struct encode_search *searches;
    const struct encode_chunk *chunks;
    uint32_t is_first; /* trial */
};

/* The quantisers of a trial, and their reciprocals. Those of column c and row r are at 8 * c + r.
 */
struct quality_tables {
    words4 quants[DCT_AREA / 4], reciprocals[DCT_AREA / 4];
};

/* A tile: its search, and the position of its first block. */
struct quality_tile {
    struct encode_search *search;
    const struct encode_descriptor *image;
    int x, y;    /* in tiles */
    int quality; /* of this trial */
};

/* false: there is no such tile, or the search of its image has ended. */
SIMT bool find_quality_tile(const struct quality_args *args, struct quality_tile *tile)
{
    struct encode_chunk chunk = args->chunks[block_index() / CHUNK_UNITS];
    uint32_t index = chunk.first + (uint32_t)block_index() % CHUNK_UNITS;
    tile->search = args->searches + chunk.image;
    tile->image = args->images + tile->search->image;
    tile->y = (int)(index / tile->search->tiles_across);
    tile->x = (int)(index % tile->search->tiles_across);
    tile->quality = args->is_first ? tile->search->first_quality : tile->search->quality;
    return index < tile->search->tile_count && tile->quality > 0;
}

SIMT void make_tables(int quality, struct quality_tables *tables)
{
    int i = thread_index();
    if (i >= DCT_AREA)
        return;
    uint32_t quant = quant_of(0, i % DCT_SIDE * DCT_SIDE + i / DCT_SIDE, quality);
    ((uint32_t *)tables->quants)[i] = quant;
    ((float *)tables->reciprocals)[i] = quant_reciprocal(quant);
}

/* Loads the Y of a block, as libjpeg extends the image. x, y: of its first sample. */
SIMT void load_luma(const struct encode_descriptor *image, bool is_gray, int x, int y,
                    uint32_t samples[16])
{
    struct unit_position block = {x / DCT_SIDE, y / DCT_SIDE};
    if (is_gray) {
        load_gray_block(image, block, samples);
        return;
    }
    UNROLL
    for (int i = 0; i < 16; i++) {
        uint32_t pixels[3];
        load_pixels(image, x + i % 2 * 4, y + i / 2, pixels);
        samples[i] = 0;
        UNROLL
        for (int k = 0; k < 4; k++)
            samples[i] |= (uint32_t)luma_of(byte_of(pixels, 3 * k), byte_of(pixels, 3 * k + 1),
                                            byte_of(pixels, 3 * k + 2))
                          << 8 * k;
    }
}

/* Codes a block and decodes it. false: versions of libjpeg decode it differently. Coefficients that
 * libjpeg has quantised are always within DECODE_RANGE_MAX: they differ from those of samples,
 * which are within 1,024, by at most half of a quantiser. */
SIMT bool code_block(const uint32_t samples[16], const struct quality_tables *tables,
                     uint32_t decoded[16])
{
    int rows[DCT_AREA];
    uint32_t coefficients[DCT_AREA];
    UNROLL
    for (int y = 0; y < DCT_SIDE; y++)
        dct_row(samples[2 * y], samples[2 * y + 1], rows + DCT_SIDE * y);
    UNROLL
    for (int x = 0; x < DCT_SIDE; x++) {
        int in[DCT_SIDE], out[DCT_SIDE];
        UNROLL
        for (int y = 0; y < DCT_SIDE; y++)
            in[y] = rows[DCT_SIDE * y + x];
        dct_column(in, x % 4 == 0, out);
        out[0] -= x == 0 ? DC_SHIFT : 0;
        UNROLL
        for (int half = 0; half < 2; half++) {
            words4 q = tables->quants[2 * x + half], f = tables->reciprocals[2 * x + half];
            const uint32_t quants[4] = {q.x, q.y, q.z, q.w}, factors[4] = {f.x, f.y, f.z, f.w};
            UNROLL
            for (int i = 0; i < 4; i++) {
                int y = 4 * half + i;
                int level = quantised(quantise(out[y], float_of_bits(factors[i])));
                coefficients[DCT_SIDE * y + x] = (uint32_t)level * quants[i];
            }
        }
    }
    return idct8(coefficients, decoded);
}

/* Replaces the decoded samples after the image by those of its last column and row. across, down:
 * the samples of the block in the image, at least one. */
SIMT void repeat_edges(int across, int down, uint32_t decoded[16])
{
    if (across < DCT_SIDE) {
        UNROLL
        for (int y = 0; y < DCT_SIDE; y++) {
            words2 row = {decoded[2 * y], decoded[2 * y + 1]};
            row = repeat_last(row, across);
            decoded[2 * y] = row.x;
            decoded[2 * y + 1] = row.y;
        }
    }
    UNROLL
    for (int y = 1; y < DCT_SIDE; y++)
        if (y >= down) {
            decoded[2 * y] = decoded[2 * y - 2];
            decoded[2 * y + 1] = decoded[2 * y - 1];
        }
}

/* Writes the sums of the block's cells, the blocks of the similarity. */
SIMT void sum_cells(const uint32_t samples[16], const uint32_t decoded[16], words4 *cells)
{
    UNROLL
    for (int cell = 0; cell < 4; cell++) {
        words4 sums = {0, 0, 0, 0};
        UNROLL
        for (int row = 0; row < SSIM_BLOCK; row++) {
            int at = 2 * (cell / 2 * SSIM_BLOCK + row) + cell % 2;
            uint32_t a = samples[at], b = decoded[at];
            sums.x = dot_unsigned(a, 0x01010101, sums.x);
            sums.y = dot_unsigned(b, 0x01010101, sums.y);
            sums.z = dot_unsigned(a, a, dot_unsigned(b, b, sums.z));
            sums.w = dot_unsigned(a, b, sums.w);
        }
        cells[cell / 2 * QUALITY_CELLS + cell % 2] = sums;
    }
}

/* Codes the thread's block of the tile. */
SIMT bool try_block(const struct quality_tile *tile, const struct quality_tables *tables,
                    words4 *cells)
{
    int column = thread_index() % QUALITY_SIDE, row = thread_index() / QUALITY_SIDE;
    int x = (tile->x * (QUALITY_SIDE - 1) + column) * DCT_SIDE;
    int y = (tile->y * (QUALITY_SIDE - 1) + row) * DCT_SIDE;
    int across = (int)tile->image->width - x, down = (int)tile->image->height - y;
    uint32_t samples[16], decoded[16];
    if (across <= 0 || down <= 0)
        return true;
    load_luma(tile->image, tile->search->tables == 1, x, y, samples);
    bool same = code_block(samples, tables, decoded);
    if (across < DCT_SIDE || down < DCT_SIDE)
        repeat_edges(across, down, decoded);
    sum_cells(samples, decoded, cells + (row * QUALITY_CELLS + column) * 2);
    return same;
}

SIMT void add_cell(struct ssim_sums *sums, const words4 *cell)
{
    words4 added = *cell;
    sums->first += (int32_t)added.x;
    sums->second += (int32_t)added.y;
    sums->squares += (int32_t)added.z;
    sums->products += (int32_t)added.w;
}

/* The number of the tile's windows along a side. index: of the tile; all: windows of the image. */
SIMT int own_windows(int index, int tiles, uint32_t all)
{
    return index + 1 < tiles ? QUALITY_WINDOWS : (int)all - index * QUALITY_WINDOWS;
}

/* The sum of the similarities of the thread's windows of the tile. */
SIMT int64_t sum_windows(const struct quality_tile *tile, const words4 *cells)
{
    const struct encode_search *search = tile->search;
    int tiles_across = (int)search->tiles_across;
    int across = own_windows(tile->x, tiles_across, search->windows_across);
    int down = own_windows(tile->y, (int)search->tile_count / tiles_across, search->windows_down);
    int64_t sum = 0;
    NO_UNROLL
    for (int i = thread_index(); i < down * QUALITY_CELLS; i += QUALITY_THREADS) {
        struct ssim_sums window = {0, 0, 0, 0};
        if (i % QUALITY_CELLS >= across)
            continue;
        add_cell(&window, &cells[i]);
        add_cell(&window, &cells[i + 1]);
        add_cell(&window, &cells[i + QUALITY_CELLS]);
        add_cell(&window, &cells[i + QUALITY_CELLS + 1]);
        sum += ssim_window(&window);
    }
    return sum;
}

/* Returns to all lanes the sum of their numbers. */
SIMT int64_t warp_sum_long(int64_t value)
{
    for (int mask = WARP_LANES / 2; mask > 0; mask /= 2) {
        uint32_t low = warp_read_xor((uint32_t)value, mask);
        uint32_t high = warp_read_xor((uint32_t)((uint64_t)value >> 32), mask);
        value += (int64_t)((uint64_t)high << 32 | low);
    }
    return value;
}

/* Adds the tile's part to the trial. Returns whether it was the last one. */
SIMT bool end_tile(struct encode_search *search, int64_t sum, bool is_unlike)
{
    uint32_t low = (uint32_t)sum, high = (uint32_t)((uint64_t)sum >> 32);
    uint32_t before = atomic_add(&search->sum_low, low);
    (void)atomic_add(&search->sum_high, high + (before + low < before));
    if (is_unlike)
        (void)atomic_or(&search->is_unlike, 1);
    fence_device();
    return atomic_add(&search->tiles_ended, 1) + 1 == search->tile_count;
}

/* Adds the trial to the search, and chooses the next quality. Returns the quality that was found;
 * 0: the search goes on, or the image is declined. */
SIMT int end_trial(const struct quality_tile *tile, bool is_first, struct encode_descriptor *image)
{
    struct encode_search *search = tile->search;
    struct ssim_search now = is_first ? search->start : search->now;
    uint64_t windows = (uint64_t)search->windows_across * search->windows_down;
    uint64_t sum = (uint64_t)peek_word(&search->sum_high) << 32 | peek_word(&search->sum_low);
    bool is_unlike = peek_word(&search->is_unlike) != 0;
    search->tiles_ended = search->sum_low = search->sum_high = search->is_unlike = 0;
    ssim_search_add(&now, tile->quality, ssim_mean((int64_t)sum, windows));
    search->now = now;
    search->quality = is_unlike ? 0 : ssim_search_next(&now);
    if (is_unlike)
        image->cells_used = CELLS_DECLINED;
    if (is_unlike || search->quality > 0)
        return 0;
    struct ssim_trial found = now.reaches.quality > 0 ? now.reaches : now.below;
    *search->found_quality = (uint32_t)found.quality;
    *search->found_ssim = (uint32_t)found.ssim;
    return found.quality;
}

/* Writes the tables of the quality for the encoder, and to the file's header. */
SIMT void write_tables(const struct encode_search *search, int quality,
                       struct encode_descriptor *image)
{
    for (int i = thread_index(); i < (int)search->tables * DCT_AREA; i += QUALITY_THREADS) {
        int table = i / DCT_AREA, at = i % DCT_AREA, x = at % DCT_SIDE, y = at / DCT_SIDE;
        uint32_t quant = quant_of(table, at, quality);
        search->quants[table][zigzag_of[at]] = (uint8_t)quant;
        image->reciprocals[table][DCT_SIDE * x + y] = quant_reciprocal(quant);
    }
}

KERNEL(try_quality, QUALITY_THREADS, QUALITY_RESIDENT, struct quality_args)
{
    SHARED words4 cells[QUALITY_CELLS * QUALITY_CELLS];
    SHARED struct quality_tables tables;
    SHARED int64_t sums[QUALITY_WARPS];
    SHARED int found;
    struct quality_tile tile;
    if (!find_quality_tile(&args, &tile))
        return;
    struct encode_descriptor *image = args.images + tile.search->image;
    make_tables(tile.quality, &tables);
    block_barrier();
    bool same = try_block(&tile, &tables, cells);
    bool is_unlike = block_any(!same);
    int64_t sum = warp_sum_long(sum_windows(&tile, cells));
    if (lane_index() == 0)
        sums[thread_index() / WARP_LANES] = sum;
    block_barrier();
    if (thread_index() == 0) {
        for (int i = 1; i < QUALITY_WARPS; i++)
            sum += sums[i];
        found = 0;
        if (end_tile(tile.search, sum, is_unlike))
            found = end_trial(&tile, args.is_first, image);
    }
    block_barrier();
    if (found > 0)
        write_tables(tile.search, found, image);
}

int encode_search_launch(const struct jpeg_encode_batch *batch, uint8_t *description,
                         struct CUstream_st *stream)
{
    struct quality_args args;
    args.images = (struct encode_descriptor *)(description + CODES_BYTES);
    args.searches = (struct encode_search *)(description + batch->searches_at);
    args.chunks = (const struct encode_chunk *)(description + batch->search_chunks_at);
    int status = 0;
    for (uint32_t i = 0; i < batch->search_trials && status == 0; i++) {
        args.is_first = i == 0;
        status = LAUNCH(try_quality, QUALITY_THREADS, batch->search_chunks * CHUNK_UNITS, 0, stream,
                        args);
    }
    return status;
}
