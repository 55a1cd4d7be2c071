/*
 * encode_tile.h - joins the bits of the blocks of a tile and writes them to the tile's slot.
 */
#pragma once

#include "gpu/jpeg/encode_block.h"

/* Words per block of a tile that are joined at a time: 3 and 2 bits per sample. */
#define GRAY_JOINED 6
#define COLOUR_JOINED 4

struct encode_args {
    struct encode_descriptor *images;
    const struct encode_chunk *chunks;
    const uint32_t *codes; /* two sets of CODES_WORDS */
    int chunk_count;       /* from `chunks`; of all kinds in write_tiles */
    int write_units;       /* units per warp of write_tiles: 1, 2, 4 or 8 */
};

/* The row and the column of a unit: a block or an MCU. */
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

/* What the threads share while they join bits. */
struct join_state {
    uint32_t runs[8];
    uint32_t slot;
};

/* The bits of a block, in a column of an array of words, and their position in the tile. */
struct block_bits {
    int column;
    uint32_t bits, offset;
};

/* Adds the block's words to the window, which has `count` words and one more from the next window
 * and starts at word `base` of the tile. */
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

/* The same if the window holds the whole tile. Only the first and the last word are shared with
 * other blocks. */
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

/* Counts the eight 1-bits in succession that start in a word, by the position of their first bit
 * modulo 8. Those at one of the 8 positions will be bytes 0xFF. */
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

/* Writes the joined words of a window to the slot, unless it is NULL: then the image does not fit
 * and its bits do not matter. Also writes what place_tiles needs. */
SIMT void store_window(const uint32_t *window, int base, int count, uint32_t bits, uint32_t *slot,
                       uint32_t *runs, struct encode_tile *tile)
{
    int last = (int)(bits + 31) / 32 - 1;
    uint32_t end = bits & 31;
    for (int i = thread_index(); i < count; i += block_threads()) {
        uint32_t word = window[i];
        if (slot)
            slot[base + i] = word;
        count_runs(word, window[i + 1], runs);
        if (base + i == 0)
            tile->head = (uint8_t)(word >> 24 | (bits < 8 ? 0xFFu >> bits : 0));
        if (base + i == last) {
            uint32_t previous = i > 0 ? window[i - 1] : base > 0 && slot ? slot[base - 1] : 0;
            tile->tail = (uint8_t)(end ? funnel_right(word, previous, 32 - end) : word);
        }
    }
}

/* Joins the bits of all blocks of the tile, takes a slot and writes them there. A dense tile takes
 * several windows. joined: the words that the window has, and one more. */
SIMT void join_tile(const struct block_bits *block, const uint32_t *words, int threads,
                    uint32_t bits, uint32_t *window, int joined, struct join_state *state,
                    struct encode_descriptor *image, int tile_index)
{
    int tile_words = (int)(bits + 31) / 32, thread = thread_index();
    uint32_t groups = (uint32_t)(tile_words + GROUP_WORDS - 1) / GROUP_WORDS, taken = 0;
    struct encode_tile *tile = image->tiles + tile_index;
    if (thread == 0)
        taken = atomic_add(&image->slots_used, groups);
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
            state->slot = taken;
        block_barrier();
        uint32_t slot = state->slot;
        bool fits = slot + groups <= image->slot_groups;
        store_window(window, base, count, bits,
                     fits ? image->slots + (size_t)slot * GROUP_WORDS : NULL,
                     state->runs, tile);
        block_barrier();
    }
    if (thread == 0) {
        tile->bits = bits;
        tile->slot = taken;
    }
    if (thread < 8)
        tile->runs[thread] = (uint16_t)state->runs[thread];
}

/* Finds the position of the bits in the tile. bits: of the block that the thread has encoded.
 * Returns the bits of the tile. */
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

/* Finds the image and the tile of this block of threads. Returns NULL if there is none. */
SIMT struct encode_descriptor *find_tile(const struct encode_args *args, int *tile)
{
    struct encode_chunk chunk = args->chunks[block_index() / CHUNK_UNITS];
    struct encode_descriptor *image = args->images + chunk.image;
    *tile = (int)chunk.first + block_index() % CHUNK_UNITS;
    return *tile < (int)image->tile_count ? image : NULL;
}

/* Copies the tables to shared memory. sets: 1 for gray, else 2. */
SIMT void load_tables(const struct encode_args *args, const struct encode_descriptor *image,
                      int sets, uint32_t *codes, words4 *reciprocals)
{
    for (int i = thread_index(); i < sets * CODES_WORDS; i += block_threads())
        codes[i] = args->codes[i];
    for (int i = thread_index(); i < sets * DCT_AREA; i += block_threads())
        ((float *)reciprocals)[i] = image->reciprocals[i / DCT_AREA][i % DCT_AREA];
}
