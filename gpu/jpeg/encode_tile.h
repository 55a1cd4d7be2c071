/*
 * encode_tile.h - joins the Huffman-coded bits of the blocks of a tile, and writes them to the
 * tile's cells (encode_impl.h).
 */
#pragma once

#include "gpu/jpeg/encode_block.h"

/* Size of the window in shared memory in which bits are joined, in words per block of the tile:
 * enough for 3 and 2 bits per sample. A tile with more bits needs several windows, one after the
 * other. */
#define GRAY_JOINED 6
#define COLOUR_JOINED 4

struct encode_args {
    struct encode_descriptor *images;
    const struct encode_chunk *chunks;
    const uint32_t *codes; /* two sets of CODES_WORDS */
    int chunk_count;       /* of all kinds; used by write_tiles */
    int write_units;       /* tiles or pieces of headers per warp of write_tiles: 1, 2, 4 or 8 */
};

/* The column and the row of a unit. */
struct unit_position {
    int x, y;
};

SIMT struct unit_position position_of(const struct encode_descriptor *image, uint32_t unit)
{
    struct unit_position position = {0, (int)unit};
    if (image->row_units == 1)
        return position;
    /* The reciprocal is rounded up, so the product is exact or 1 too large. */
    position.y = (int)multiply_high(unit, image->row_reciprocal);
    position.x = (int)(unit - (uint32_t)position.y * image->row_units);
    if (position.x < 0) {
        position.x += (int)image->row_units;
        position.y--;
    }
    return position;
}

SIMT int min_int(int a, int b) { return a < b ? a : b; }

/* ---- joining the bits of a tile's blocks ---- */

/* Shared memory with which the threads join bits: see encode_tile. */
struct join_state {
    uint32_t runs[8];
    uint32_t first_cell;
};

/* The coded bits of a block: a column of words (encode_block.h), the number of bits, and their
 * position in the tile. */
struct block_bits {
    int column;
    uint32_t bits, offset;
};

/* Adds the block's bits to the window, as far as they belong there. The window starts at word
 * `base` of the tile; it has `count` words, and then the first word of the next window. */
SIMT void join_block(const struct block_bits *block, const uint32_t *words, int threads, int base,
                     int count, uint32_t *window)
{
    int shift = (int)(block->offset & 31), used = (int)(block->bits + 31) / 32;
    int spanned = ((int)block->bits + shift + 31) / 32;
    int to = (int)(block->offset / 32) - base, from = block->column;
    uint32_t previous = 0;
    for (int i = 0; i < spanned; i++, to++, from += threads) {
        uint32_t word = i < used ? words[from] : 0;
        if (to >= 0 && to <= count)
            atomic_or(&window[to], funnel_right(word, previous, (uint32_t)shift));
        previous = word;
    }
}

/* The same if the window holds the whole tile. Atomics are needed only for the first and the last
 * word, which other blocks may share. */
SIMT void join_short_block(const struct block_bits *block, const uint32_t *words, int threads,
                           uint32_t *window)
{
    uint32_t shift = block->offset & 31;
    int used = (int)(block->bits + 31) / 32, spanned = (int)(block->bits + shift + 31) / 32;
    int to = (int)(block->offset / 32), from = block->column;
    uint32_t previous = words[from];
    atomic_or(&window[to], previous >> shift);
    for (int i = 1; i < spanned - 1; i++) {
        from += threads;
        to++;
        uint32_t word = words[from];
        window[to] = funnel_right(word, previous, shift);
        previous = word;
    }
    if (spanned > 1) {
        uint32_t word = spanned <= used ? words[from + threads] : 0;
        atomic_or(&window[to + 1], funnel_right(word, previous, shift));
    }
}

/* Counts the runs of eight 1-bits that start in a word, in runs[position of the first bit % 8]. The
 * runs at one of the 8 positions become bytes 0xFF of the file. */
SIMT void count_runs(uint32_t word, uint32_t next, uint32_t *runs)
{
    uint32_t pair = word & funnel_left(next, word, 1), next_pair = next & next << 1;
    uint32_t four = pair & funnel_left(next_pair, pair, 2), next_four = next_pair & next_pair << 2;
    uint32_t eight = four & funnel_left(next_four, four, 4);
    while (eight) {
        int position = leading_zeros(eight);
        atomic_add(&runs[position & 7], 1);
        eight &= ~(0x80000000u >> position);
    }
}

/* Writes the joined words of a window to `cells`, and what place_tiles needs to *tile and `runs`.
 * If cells is NULL, the file does not fit its capacity, and its bits are not needed. */
SIMT void store_window(const uint32_t *window, int base, int count, uint32_t bits, uint32_t *cells,
                       uint32_t *runs, struct encode_tile *tile)
{
    int last = (int)(bits + 31) / 32 - 1;
    uint32_t end = bits & 31;
    for (int i = thread_index(); i < count; i += block_threads()) {
        uint32_t word = window[i];
        if (cells)
            cells[base + i] = word;
        count_runs(word, window[i + 1], runs);
        if (base + i == 0)
            tile->head = (uint8_t)(word >> 24 | (bits < 8 ? 0xFFu >> bits : 0));
        if (base + i == last) {
            uint32_t previous = i > 0 ? window[i - 1] : base > 0 && cells ? cells[base - 1] : 0;
            tile->tail = (uint8_t)(end ? funnel_right(word, previous, 32 - end) : word);
        }
    }
}

/* Joins the bits of all blocks of the tile, takes cells and writes the bits there. window: `joined`
 * words and one more. */
SIMT void join_tile(const struct block_bits *block, const uint32_t *words, int threads,
                    uint32_t bits, uint32_t *window, int joined, struct join_state *state,
                    struct encode_descriptor *image, int tile_index)
{
    int tile_words = (int)(bits + 31) / 32, thread = thread_index();
    uint32_t needed = (uint32_t)(tile_words + CELL_WORDS - 1) / CELL_WORDS, taken = 0;
    struct encode_tile *tile = image->tiles + tile_index;
    if (thread == 0)
        taken = atomic_add(&image->cells_used, needed);
    if (thread < 8)
        state->runs[thread] = 0;
    for (int base = 0; base < tile_words; base += joined) {
        int count = min_int(tile_words - base, joined);
        for (int i = thread; i <= count; i += threads)
            window[i] = 0;
        block_barrier();
        if (block->bits > 0 && tile_words <= joined)
            join_short_block(block, words, threads, window);
        else if (block->bits > 0)
            join_block(block, words, threads, base, count, window);
        if (thread == 0 && base == 0)
            state->first_cell = taken;
        block_barrier();
        uint32_t first_cell = state->first_cell;
        bool fits = first_cell + needed <= image->cell_count;
        store_window(window, base, count, bits,
                     fits ? image->cells + (size_t)first_cell * CELL_WORDS : NULL, state->runs,
                     tile);
        block_barrier();
    }
    if (thread == 0) {
        tile->bits = bits;
        tile->first_cell = taken;
    }
    if (thread < 8)
        tile->runs[thread] = (uint16_t)state->runs[thread];
}

/* Sets block->offset: the position of the block's bits in the tile. lengths: shared memory with a
 * word per block. Returns the number of bits of the tile. All threads of the block call it. */
SIMT uint32_t place_block(struct block_bits *block, uint32_t *lengths, uint32_t *sums)
{
    int thread = thread_index();
    uint32_t total;
    lengths[block->column] = block->bits;
    block_barrier();
    uint32_t offset = block_scan(lengths[thread], &total, sums);
    lengths[thread] = offset;
    block_barrier();
    block->offset = lengths[block->column];
    block_barrier();
    return total;
}

/* Finds the image and the tile of this block of threads. NULL: the block has no tile. */
SIMT struct encode_descriptor *find_tile(const struct encode_args *args, int *tile)
{
    struct encode_chunk chunk = args->chunks[block_index() / CHUNK_UNITS];
    struct encode_descriptor *image = args->images + chunk.image;
    *tile = (int)chunk.first + block_index() % CHUNK_UNITS;
    return *tile < (int)image->tile_count ? image : NULL;
}

/* Copies the Huffman codes and the factors for quantising to shared memory. sets: 1 for gray, else
 * 2. */
SIMT void load_tables(const struct encode_args *args, const struct encode_descriptor *image,
                      int sets, uint32_t *codes, words4 *reciprocals)
{
    for (int i = thread_index(); i < sets * CODES_WORDS; i += block_threads())
        codes[i] = args->codes[i];
    for (int i = thread_index(); i < sets * DCT_AREA; i += block_threads())
        ((float *)reciprocals)[i] = image->reciprocals[i / DCT_AREA][i % DCT_AREA];
}
