/*
 * decode_blocks.cu - turns the Huffman-coded data of an image into samples: the third stage of the
 * JPEG decoder (decode_impl.h defines pieces, tiles and segments).
 *
 * A block of threads decodes a tile. First, each thread decodes pieces of the data to dequantised
 * AC coefficients and DC differences in shared memory. Each table lookup depends on the one before
 * it, so many threads with short pieces matter more than the number of instructions. Then the
 * differences of the DC coefficients are added up: a prefix sum over the blocks of the tile, plus
 * the sums of the tiles before it (decoupled look-back: Merrill and Garland 2016). Last, each
 * thread computes the inverse DCT of one block. If only a part of the image is needed, the first
 * threads do that for the blocks of the needed MCUs, and the warps after them do nothing.
 *
 * Time is bound by the latency of the lookups, and by 18 instructions per sample of the inverse
 * DCT.
 */
#include "codecs/jpeg/zigzag.h"
#include "gpu/jpeg/coefficients.h"
#include "gpu/jpeg/decode_pixels.h"
#include "gpu/jpeg/idct.h"

#define THREADS DECODE_TILE_BLOCKS
/* The tile's coefficients in shared memory: coefficient k of block b, in zigzag order, is number
 * THREADS * k + b. */
#define COEFFICIENT_WORDS (32 * THREADS)

/* The inverse DCT leaves out coefficients that are 0 in all blocks of a warp: those from this one
 * on, in zigzag order. The others are in the upper left 4 x 4. */
#define SPARSE_COUNT 10

/* The word that a tile publishes for the tiles after it: the sums of the DC differences of Y, Cb
 * and Cr, 20 bits each, and in the upper two bits what the sums cover (0: not published yet). 20
 * bits are enough while all DC coefficients are within +-DECODE_RANGE_MAX. The tile with the
 * first one outside still gets correct sums, finds it, and declines the image. */
#define SUM_BITS 20
#define SUM_OF_TILE    (1ull << 62) /* the blocks of the tile */
#define SUM_OF_SEGMENT (2ull << 62) /* all blocks of the segment up to the end of the tile */

DEVICE uint64_t pack_sums(uint32_t y, uint32_t cb, uint32_t cr)
{
    uint64_t mask = (1u << SUM_BITS) - 1;
    return (y & mask) | (cb & mask) << SUM_BITS | (cr & mask) << 2 * SUM_BITS;
}

DEVICE uint32_t unpack_sum(uint64_t sums, uint32_t component)
{
    uint32_t sum = (uint32_t)(sums >> component * SUM_BITS) << (32 - SUM_BITS);
    return (uint32_t)((int32_t)sum >> (32 - SUM_BITS));
}

/* ---- coefficients ---- */

/* A thread index that stays negative when steps are added. */
#define NOT_NEEDED (-(1 << 24))

/* The tile that a block of threads decodes. */
struct tile {
    const struct decode_descriptor *image;
    uint32_t index;      /* in the image */
    uint32_t data_bytes; /* decode_run.data_bytes */
    uint32_t first_mcu, mcus;
    uint32_t luma, blocks;                  /* per MCU: blocks of Y, and all blocks */
    bool colour;                            /* Cb and Cr are needed */
    const uint32_t *words, *longs; /* the data; lookup tables: see decode_tables.h */
    /* In shared memory: */
    int16_t *coefficients;
    uint32_t *single;       /* lookup tables */
    uint16_t *quant;        /* per component, in zigzag order; 1 for DC */
    uint32_t *extents;      /* per thread: the index of the last AC coefficient of its block that
                               is not 0, in zigzag order; 0: there is none */
};

/* The block whose symbols a thread decodes. */
struct block_place {
    int32_t mcu;     /* relative to the tile: negative before the tile */
    uint32_t block;  /* in the MCU */
    uint32_t lookup; /* offset of the component's lookup tables */
    uint32_t quant;  /* offset of the component's quantisers */
    int32_t thread;  /* that transforms the block; negative: none does */
};

/* The threads are ordered by component: first those for the blocks of Y, then those for Cb, then
 * those for Cr. */
DEVICE void find_block(const struct tile *tile, struct block_place *to)
{
    bool chroma = to->block >= tile->luma;
    int32_t block = (int32_t)to->block;
    to->lookup = chroma ? 2 * DECODE_LOOKUP : 0;
    to->quant = chroma ? 64 * (to->block - tile->luma + 1) : 0;
    to->thread = chroma ? (int32_t)tile->mcus * block + to->mcu
                        : to->mcu * (int32_t)tile->luma + block;
    if (to->mcu < 0 || (chroma && !tile->colour))
        to->thread = NOT_NEEDED;
}

DEVICE void go_to_next_block(const struct tile *tile, struct block_place *place)
{
    bool ends = ++place->block == tile->blocks;
    place->block = ends ? 0 : place->block;
    place->mcu += ends;
    find_block(tile, place);
}

/* A coefficient that write_coefficients has decoded and not stored yet. */
struct held_value {
    int32_t value, quant;
    int32_t at; /* in tile.coefficients; negative: there is none */
};

/* Returns an unsigned number that is above 2 * DECODE_RANGE_MAX if the value is an AC coefficient
 * out of range. */
SIMT uint32_t store_value(const struct tile *tile, const struct held_value *held)
{
    int32_t value = held->value * held->quant;
    if (held->at >= 0)
        tile->coefficients[held->at] = (int16_t)value;
    return held->at >= THREADS ? (uint32_t)(value + DECODE_RANGE_MAX) : 0;
}

/* The words that a piece needs: its bits; before them, up to 31 of its first word; after them, up
 * to 30 of a symbol that began in it, or LATE_BITS of its segment; and 32 bits that a lookup reads
 * from its last bit on. */
#define PIECE_WORDS ((31 + DECODE_PIECE_BITS + 30 + LATE_BITS + 31 + 31) / 32)

/* A piece, as a thread decodes it. */
struct piece {
    uint32_t at, end;     /* the symbols that start at the bits from `at` to `end` - 1 */
    uint32_t index;       /* of the first coefficient in its block */
    uint32_t blocks_left; /* blocks to decode, at most */
    struct block_place place;
    uint32_t words[PIECE_WORDS]; /* from the one with bit `at` on */
};

/* Finds a piece, and loads its words. It ends at the end of the tile. */
SIMT void find_piece(const struct tile *tile, uint32_t number, struct piece *to)
{
    const struct decode_descriptor *image = tile->image;
    uint32_t pieces = 1u << image->pieces_at;
    uint32_t sub_index = number >> image->pieces_at, part = number & (pieces - 1);
    uint32_t record = image->records[number], next = image->records[number + 1];
    uint32_t block = image->sub_blocks[sub_index] + (record >> RECORD_COUNT_AT);
    struct decode_sub sub = sub_of(image, tile->data_bytes, sub_index);
    int32_t length = walked_bits(&sub);
    int32_t from = (int32_t)part * DECODE_PIECE_BITS, then = from + DECODE_PIECE_BITS;
    bool exists = part == 0 || from < length;
    to->end = sub.end;
    if (!sub.last || (part + 1 < pieces && then < length))
        to->end = sub.start + (uint32_t)then + (next & 63);
    to->at = exists ? sub.start + (uint32_t)from + (record & 63) : to->end;
    UNROLL
    for (uint32_t i = 0; i < PIECE_WORDS; i++)
        to->words[i] = tile->words[(to->at >> 5) + i];
    uint32_t mcu = block / tile->blocks;
    uint32_t end_mcu = (sub.segment + 1) * image->segment_mcus;
    uint32_t tile_end = tile->first_mcu + tile->mcus;
    if (image->segments == 1 || end_mcu > tile_end)
        end_mcu = tile_end;
    if (mcu >= end_mcu)
        to->at = to->end;
    to->index = record >> RECORD_INDEX_AT & 63;
    to->blocks_left = end_mcu * tile->blocks - block;
    to->place.mcu = (int32_t)mcu - (int32_t)tile->first_mcu;
    to->place.block = block - mcu * tile->blocks;
    find_block(tile, &to->place);
}

/* Decodes a piece. Blocks before the tile are decoded, but not stored. Returns whether an AC
 * coefficient that was stored is out of range.
 *
 * Each symbol waits for the lookup of the one before it. Nothing else should wait: the words are
 * in registers, and a value is stored while the next symbol is looked up. */
SIMT bool write_piece(const struct tile *tile, struct piece *piece)
{
    struct block_place place = piece->place;
    struct held_value held = {0, 0, NOT_NEEDED};
    uint32_t *words = piece->words, most = 0, last = 0;
    uint32_t at = piece->at, index = piece->index;
    uint32_t base = place.lookup + (index ? DECODE_LOOKUP : 0);
    NO_UNROLL
    while (at < piece->end) {
        uint32_t bits = funnel_left(words[1], words[0], at);
        uint32_t entry = tile->single[base + (bits >> (32 - DECODE_LOOKUP_BITS))];
        uint32_t stored = store_value(tile, &held);
        most = stored > most ? stored : most;
        if ((int32_t)entry < 0)
            entry = tile->longs[(entry & 0xFFFF) +
                                (bits << DECODE_LOOKUP_BITS >> (entry >> ENTRY_CODE_AT & 31))];
        uint32_t then = add_bits(entry, at);
        if ((at ^ then) & 32) {
            UNROLL
            for (int i = 0; i + 1 < PIECE_WORDS; i++)
                words[i] = words[i + 1];
        }
        at = then;
        index = add_growth(entry, index);
        base = place.lookup + DECODE_LOOKUP;
        uint32_t size = entry >> ENTRY_SIZE_AT & 15, k = (index - 1) & 63;
        uint32_t value_bits = bits << (entry >> ENTRY_CODE_AT & 31);
        held.value = (int32_t)funnel_left(value_bits, 0, size);
        if ((int32_t)value_bits >= 0)
            held.value += (int32_t)(~0u << size) + 1;
        held.quant = tile->quant[place.quant + k];
        held.at = size > 0 ? (int32_t)(THREADS * k) + place.thread : NOT_NEEDED;
        last = held.at >= 0 ? k : last;
        if (index >= 64) {
            if (last > 0)
                atomic_max(&tile->extents[place.thread], last);
            last = 0;
            if (--piece->blocks_left == 0)
                break;
            index = 0;
            go_to_next_block(tile, &place);
            base = place.lookup;
        }
    }
    uint32_t stored = store_value(tile, &held);
    if (last > 0)
        atomic_max(&tile->extents[place.thread], last);
    return (stored > most ? stored : most) > 2 * DECODE_RANGE_MAX;
}

/* ---- DC ---- */

/* Returns the sums of the segment up to the start of the tile. Finds the nearest earlier tile that
 * has published SUM_OF_SEGMENT, the sums up to its end, and adds the sums of the tiles between. All
 * lanes of one warp call this function. */
SIMT uint64_t sums_before(const struct decode_descriptor *image, uint32_t tile)
{
    uint32_t y = 0, cb = 0, cr = 0;
    for (int32_t last = (int32_t)tile - 1;; last -= WARP_LANES) {
        int32_t other = last - lane_index();
        uint64_t sums = SUM_OF_SEGMENT;
        if (other >= 0)
            while ((sums = poll_alone(&image->tile_sums[other])) >> 62 == 0)
                relax();
        uint32_t ends = warp_ballot(sums >> 62 == SUM_OF_SEGMENT >> 62);
        int nearest = ends ? lowest_bit(ends) : WARP_LANES - 1;
        bool counts = lane_index() <= nearest;
        y += warp_sum(counts ? unpack_sum(sums, 0) : 0);
        cb += warp_sum(counts ? unpack_sum(sums, 1) : 0);
        cr += warp_sum(counts ? unpack_sum(sums, 2) : 0);
        if (ends)
            return pack_sums(y, cb, cr);
    }
}

/* The first MCU of the segment to which `mcu` belongs. */
DEVICE uint32_t segment_start(const struct decode_descriptor *image, uint32_t mcu)
{
    return image->segments == 1 ? 0 : mcu / image->segment_mcus * image->segment_mcus;
}

/* Publishes the sums of the tile. prefix[t] is the sum of the DC differences of the threads 0 to
 * t - 1. Returns the sums of the segment up to the start of the tile; 0 if a segment starts there.
 * All lanes of one warp call it. */
SIMT uint64_t publish_sums(const struct tile *tile, const uint32_t *prefix)
{
    const struct decode_descriptor *image = tile->image;
    uint32_t start = segment_start(image, tile->first_mcu + tile->mcus - 1);
    uint32_t own = start > tile->first_mcu ? start - tile->first_mcu : 0;
    uint32_t luma = tile->luma, mcus = tile->mcus, cb_at = luma * mcus, cr_at = cb_at + mcus;
    uint64_t sums = pack_sums(prefix[cb_at] - prefix[own * luma],
                              tile->colour ? prefix[cr_at] - prefix[cb_at + own] : 0,
                              tile->colour ? prefix[cr_at + mcus] - prefix[cr_at + own] : 0);
    bool known = start >= tile->first_mcu;
    if (lane_index() == 0)
        publish_alone(&image->tile_sums[tile->index],
                      sums | (known ? SUM_OF_SEGMENT : SUM_OF_TILE));
    if (segment_start(image, tile->first_mcu) == tile->first_mcu)
        return 0;
    uint64_t base = sums_before(image, tile->index);
    if (lane_index() == 0 && !known)
        publish_alone(&image->tile_sums[tile->index],
                pack_sums(unpack_sum(base, 0) + unpack_sum(sums, 0),
                          unpack_sum(base, 1) + unpack_sum(sums, 1),
                          unpack_sum(base, 2) + unpack_sum(sums, 2)) |
                    SUM_OF_SEGMENT);
    return base;
}

/* The block that a thread transforms. */
struct own_block {
    uint32_t number;           /* in the tile; that of the thread, unless blocks are gathered */
    uint32_t component, first; /* first: the first thread of the component */
    uint32_t mcu;              /* its number in the image */
    uint32_t of_mcu;           /* its number among the component's blocks of the MCU */
    bool exists;               /* false: there are fewer blocks than threads */
};

DEVICE struct own_block own_block_of(const struct tile *tile, uint32_t thread)
{
    struct own_block own;
    own.number = thread;
    uint32_t cb_at = tile->mcus * tile->luma, cr_at = cb_at + tile->mcus;
    uint32_t chroma_end = tile->colour ? cr_at + tile->mcus : cb_at;
    own.exists = thread < chroma_end;
    own.component = thread < cb_at ? 0 : thread < cr_at ? 1 : 2;
    own.first = thread < cb_at ? 0 : thread < cr_at ? cb_at : cr_at;
    own.of_mcu = own.component ? 0 : thread & (tile->luma - 1u); /* luma is 1, 2 or 4 */
    own.mcu = tile->first_mcu + ((thread - own.first) >> (own.component ? 0 : tile->luma >> 1));
    return own;
}

/* Adds up the DC differences of the tile and of the tiles before it. Returns the DC coefficient of
 * the thread's block. All threads of the block call it. */
SIMT uint32_t sum_differences(const struct tile *tile, const struct own_block *own)
{
    SHARED uint32_t sums[THREADS / WARP_LANES], prefix[THREADS + 1];
    SHARED uint64_t before;
    uint32_t thread = (uint32_t)thread_index(), warp = thread / WARP_LANES, of_warp;
    uint32_t difference = (uint32_t)(int32_t)tile->coefficients[thread];
    uint32_t sum = warp_scan(difference, &of_warp);
    if (lane_index() == 0)
        sums[warp] = of_warp;
    block_barrier();
    UNROLL
    for (uint32_t i = 0; i < THREADS / WARP_LANES; i++)
        sum += i < warp ? sums[i] : 0;
    prefix[thread] = sum;
    if (thread == THREADS - 1)
        prefix[THREADS] = sum + difference;
    block_barrier();
    if (thread < WARP_LANES) {
        uint64_t of_tiles = publish_sums(tile, prefix);
        if (thread == 0)
            before = of_tiles;
    }
    block_barrier();
    uint32_t start = segment_start(tile->image, own->mcu);
    uint32_t of_mcu = own->component ? 1 : tile->luma; /* threads per MCU */
    if (!own->exists)
        return 0;
    if (start >= tile->first_mcu)
        return sum + difference - prefix[own->first + (start - tile->first_mcu) * of_mcu];
    return sum + difference - prefix[own->first] + unpack_sum(before, own->component);
}

/* ---- the blocks that are needed ---- */

/* Where an MCU is among those that are needed. */
struct needed_place {
    uint32_t before; /* the number of needed MCUs before it */
    bool is_needed;
};

/* mcu: from `row` and `column` on, at most end_mcu. A row is added at a time, because few tiles
 * have many rows. */
DEVICE struct needed_place needed_place_of(const struct decode_descriptor *image, uint32_t row,
                                           uint32_t column, uint32_t mcu)
{
    const struct image_part *needed = &image->needed_mcus;
    for (column += mcu; column >= image->width_mcus; column -= image->width_mcus)
        row++;
    uint32_t across = column > needed->x ? column - needed->x : 0;
    struct needed_place place = {0, row >= needed->y && column - needed->x < needed->width};
    if (row >= needed->y)
        place.before =
            (row - needed->y) * needed->width + (across < needed->width ? across : needed->width);
    return place;
}

/* Gives the needed blocks of the tile to its first threads, in the same order. *own: the thread's
 * block; *dc: its DC coefficient, which is within +-DECODE_RANGE_MAX unless the image is declined.
 * All threads of the block call it. */
SIMT void gather_needed(const struct tile *tile, struct own_block *own, uint32_t *dc)
{
    SHARED uint32_t gathered[THREADS];
    const struct decode_descriptor *image = tile->image;
    uint32_t thread = (uint32_t)thread_index(), row = tile->first_mcu / image->width_mcus;
    uint32_t column = tile->first_mcu - row * image->width_mcus;
    uint32_t first = needed_place_of(image, row, column, 0).before;
    uint32_t count = needed_place_of(image, row, column, tile->mcus).before - first;
    struct needed_place place = needed_place_of(image, row, column, own->mcu - tile->first_mcu);
    uint32_t mcu = place.before - first;
    if (own->exists && place.is_needed)
        gathered[own->component ? (tile->luma + own->component - 1) * count + mcu
                                : mcu * tile->luma + own->of_mcu] = thread | *dc << 16;
    block_barrier();
    own->exists = thread < count * (tile->luma + (tile->colour ? 2 : 0));
    if (own->exists) {
        *own = own_block_of(tile, gathered[thread] & 0xFFFF);
        *dc = (uint32_t)((int32_t)gathered[thread] >> 16);
    }
}

/* ---- samples ---- */

/* Stores the samples of a block at (x, y), without the rows below the plane. side: of the block. */
SIMT void store_rows(const struct decode_plane *plane, uint32_t x, uint32_t y, uint32_t side,
                     const uint32_t *rows)
{
    if (x >= plane->store_width || y >= plane->store_height)
        return;
    size_t pitch = plane->pitch; /* a copy, because the stores might change what they point to */
    uint8_t *to = plane->samples + y * pitch + x;
    uint32_t count = plane->store_height - y < side ? plane->store_height - y : side;
    if (side == 8) {
        UNROLL
        for (uint32_t row = 0; row < 8; row++, to += pitch) {
            words2 two = {rows[2 * row], rows[2 * row + 1]};
            if (row < count)
                *(words2 *)to = two;
        }
        return;
    }
    UNROLL
    for (uint32_t row = 0; row < 4; row++, to += pitch) {
        if (row >= count)
            break;
        if (side == 4)
            *(uint32_t *)to = rows[row];
        else if (side == 2)
            *(uint16_t *)to = (uint16_t)rows[row & 1];
        else
            *to = (uint8_t)rows[0];
    }
}

/* Computes the inverse DCT of dequantised coefficients in natural order. false: a sample is
 * outside of the range that idct.h allows; the verdict is JPEG_DECODE_RANGE. */
SIMT bool block_samples(uint32_t *x, uint32_t side, uint32_t *rows)
{
    if (side == 8)
        return idct8(x, rows);
    if (side == 4)
        return idct4(x, rows);
    if (side == 2)
        return idct2(x, rows);
    rows[0] = idct1(x[0]);
    return true;
}

DEVICE bool is_outside(uint32_t value) { return value + DECODE_RANGE_MAX > 2 * DECODE_RANGE_MAX; }

/* Finds the tile of this block of threads. false: the image is declined. A tile that finds an error
 * sets image->verdict but not run->verdict: all tiles of the image must run, because each waits for
 * the sums of the tiles before it. */
SIMT bool open_tile(const struct decode_args *args, struct tile *tile)
{
    uint32_t *shared = (uint32_t *)DYNAMIC_SHARED();
    uint32_t index = find_image(args->starts[DECODE_TILES], args->image_count,
                                (uint32_t)block_index());
    const struct decode_descriptor *image = &args->images[index];
    if (image->run->verdict != JPEG_DECODE_DONE)
        return false;
    tile->image = image;
    tile->index = (uint32_t)block_index() - args->starts[DECODE_TILES][index];
    tile->data_bytes = image->run->data_bytes;
    tile->first_mcu = tile->index * image->tile_mcus;
    tile->mcus = image->end_mcu - tile->first_mcu;
    tile->mcus = tile->mcus < image->tile_mcus ? tile->mcus : image->tile_mcus;
    tile->luma = image->luma;
    tile->blocks = image->blocks;
    tile->colour = image->components > 1;
    tile->words = image->words;
    tile->longs = image->tables + 2 * DECODE_SINGLE_WORDS;
    tile->coefficients = (int16_t *)shared;
    tile->single = shared + COEFFICIENT_WORDS;
    tile->extents = shared + COEFFICIENT_WORDS + DECODE_SINGLE_WORDS;
    tile->quant = (uint16_t *)(tile->extents + THREADS);
    return true;
}

/* Loads the tile's tables into shared memory, and clears its coefficients. */
SIMT void load_tile(const struct tile *tile)
{
    enum { rounds = DECODE_SINGLE_WORDS / 4 / THREADS };
    const struct decode_descriptor *image = tile->image;
    uint32_t thread = (uint32_t)thread_index();
    words4 *single = (words4 *)tile->single, *coefficients = (words4 *)tile->coefficients;
    const uint32_t *tables = image->tables;
    words4 loaded[rounds], zero = {0, 0, 0, 0};
    int count = tile->luma == tile->blocks ? rounds / 2 : rounds;
    UNROLL
    for (int i = 0; i < rounds; i++)
        loaded[i] = i < count ? load_words4(tables + 4 * ((uint32_t)i * THREADS + thread)) : zero;
    UNROLL
    for (int i = 0; i < COEFFICIENT_WORDS / 4 / THREADS; i++)
        coefficients[i * THREADS + (int)thread] = zero;
    tile->extents[thread] = 0;
    if (thread < JPEG_COMPONENTS_MAX * 64)
        tile->quant[thread] = thread % 64 ? image->quant[thread / 64][thread % 64] : 1;
    UNROLL
    for (int i = 0; i < rounds; i++)
        single[i * THREADS + (int)thread] = loaded[i];
}

/* Computes the inverse DCT of a block of the tile. dc: its dequantised DC coefficient. count: all
 * coefficients from this one on, in zigzag order, are 0; a constant, so that the arithmetic with
 * zeros is left out. */
SIMT bool transform_block(const struct tile *tile, uint32_t number, uint32_t dc, int count,
                          uint32_t side, uint32_t *rows)
{
    const int zigzag[64] = JPEG_ZIGZAG_OF_NATURAL;
    uint32_t x[64];
    x[0] = dc;
    UNROLL
    for (int i = 1; i < 64; i++)
        x[i] = zigzag[i] < count
                   ? (uint32_t)(int32_t)tile->coefficients[THREADS * zigzag[i] + (int)number]
                   : 0;
    return block_samples(x, side, rows);
}

/* As transform_block. Leaves out what is 0 in all blocks of the warp. All lanes call it, also those
 * without a needed block: `own` is then another one. */
SIMT bool transform_blocks(const struct tile *tile, const struct own_block *own, uint32_t dc,
                           uint32_t side, uint32_t *rows)
{
    uint32_t number = own->number, extent = warp_max(own->exists ? tile->extents[number] : 0);
    if (warp_any(side != 8) || extent >= SPARSE_COUNT)
        return transform_block(tile, number, dc, 64, side, rows);
    return extent > 0 ? transform_block(tile, number, dc, SPARSE_COUNT, 8, rows)
                      : transform_block(tile, number, dc, 1, 8, rows);
}

DEVICE void split_word(uint32_t word, int32_t *to)
{
    UNROLL
    for (int i = 0; i < 4; i++)
        to[i] = (int8_t)((word ^ 0x80808080u) >> 8 * i);
}

/* Exchanges the samples of the tile's blocks, and writes its pixels: each warp a row of each MCU,
 * each lane 8 pixels. The samples replace the coefficients in shared memory. All threads of the
 * block call it. rows: the samples of the thread's block. */
SIMT void write_pixels(const struct tile *tile, const struct own_block *own, const uint32_t *rows)
{
    const struct decode_descriptor *image = tile->image;
    words2 *samples = (words2 *)tile->coefficients;
    const struct image_part *needed = &image->needed_mcus;
    struct image to = image->image;
    uint32_t mcus = tile->mcus, across = image->width_mcus;
    uint32_t row = (uint32_t)thread_index() / WARP_LANES;
    block_barrier();
    UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        words2 two = {rows[2 * i], rows[2 * i + 1]};
        if (own->exists)
            samples[(3 * i + own->component) * mcus + own->mcu - tile->first_mcu] = two;
    }
    block_barrier();
    uint32_t first_row = tile->first_mcu / across;
    uint32_t first_column = tile->first_mcu - first_row * across;
    for (uint32_t i = (uint32_t)lane_index(); i < mcus; i += WARP_LANES) {
        uint32_t y = 8 * first_row + row, column = first_column + i;
        for (; column >= across; column -= across)
            y += 8;
        if (column - needed->x >= needed->width || y < 8 * needed->y)
            continue;
        words2 luma = samples[3 * row * mcus + i];
        words2 blue = samples[(3 * row + 1) * mcus + i], red = samples[(3 * row + 2) * mcus + i];
        int32_t cb[8], cr[8];
        struct colours colours;
        split_word(blue.x, cb);
        split_word(blue.y, cb + 4);
        split_word(red.x, cr);
        split_word(red.y, cr + 4);
        convert(luma, cb, cr, image->rgb, &colours);
        if (8 * column < to.width && y < to.height)
            store_pixels(&colours, to.pixels + y * to.stride + 24 * column, to.width - 8 * column);
    }
}

/* Decodes the tiles of sequential files: one block of threads per tile. */
LONG_KERNEL(write_blocks, THREADS, 4, struct decode_args)
{
    struct tile tile;
    uint32_t thread = (uint32_t)thread_index(), rows[16];
    if (!open_tile(&args, &tile))
        return;
    const struct decode_descriptor *image = tile.image;
    uint32_t number = image->tile_pieces[tile.index], end = image->tile_pieces[tile.index + 1];
    struct piece piece = {0};
    bool outside = false;
    number = (number > 0 ? number - 1 : 0) + thread;
    if (number < end)
        find_piece(&tile, number, &piece); /* before load_tile, to load at the same time */
    load_tile(&tile);
    block_barrier();
    while (number < end) {
        outside |= write_piece(&tile, &piece);
        number += THREADS;
        if (number < end)
            find_piece(&tile, number, &piece);
    }
    block_barrier();
    struct own_block own = own_block_of(&tile, thread);
    uint32_t dc = sum_differences(&tile, &own);
    outside |= is_outside(dc);
    dc *= own.exists ? image->quant[own.component][0] : 0u;
    outside |= is_outside(dc);
    if (image->gathers)
        gather_needed(&tile, &own, &dc);
    uint32_t side = own.exists ? image->side[own.component] : image->side[0];
    if (warp_any(own.exists))
        outside |= !transform_blocks(&tile, &own, dc, side, rows);
    if (outside)
        *image->verdict = JPEG_DECODE_RANGE;
    if (image->fused) {
        write_pixels(&tile, &own, rows);
        return;
    }
    if (!own.exists)
        return;
    uint32_t row = own.mcu / image->width_mcus, column = own.mcu - row * image->width_mcus;
    if (own.component == 0) {
        column = column * image->h + (image->h == 2 ? own.of_mcu & 1 : 0);
        row = row * image->v + (image->h == 2 ? own.of_mcu >> 1 : own.of_mcu);
    }
    store_rows(&image->planes[own.component], column * side, row * side, side, rows);
}

/* ---- coefficients as input ---- */

/* Transforms the coefficients of progressive files: one warp per group (coefficients.h). */
KERNEL(transform_groups, THREADS, 2, struct decode_args)
{
    const int zigzag[64] = JPEG_ZIGZAG_OF_NATURAL;
    uint32_t index =
        find_image(args.starts[DECODE_GROUP_SETS], args.image_count, (uint32_t)block_index());
    const struct decode_descriptor *image = &args.images[index];
    uint32_t group =
        ((uint32_t)block_index() - args.starts[DECODE_GROUP_SETS][index]) * (THREADS / WARP_LANES) +
        (uint32_t)thread_index() / WARP_LANES;
    uint32_t component = 0, x[64], rows[16];
    if (image->run->verdict != JPEG_DECODE_DONE)
        return;
    for (; component < image->components; component++) {
        uint32_t groups =
            (image->component_blocks[component] + JPEG_GROUP_BLOCKS - 1) / JPEG_GROUP_BLOCKS;
        if (group < groups)
            break;
        group -= groups;
    }
    uint32_t block = group * JPEG_GROUP_BLOCKS + (uint32_t)lane_index();
    if (component == image->components || block >= image->component_blocks[component])
        return;
    const int16_t *values = image->coefficients[component] + (size_t)group * JPEG_GROUP;
    bool outside = false;
    UNROLL
    for (int i = 0; i < 64; i++) {
        int32_t value = values[zigzag[i] * JPEG_GROUP_BLOCKS + lane_index()];
        x[i] = (uint32_t)(value * image->quant[component][zigzag[i]]);
        outside |= is_outside(x[i]);
    }
    uint32_t side = image->side[component];
    outside |= !block_samples(x, side, rows);
    if (outside)
        *image->verdict = JPEG_DECODE_RANGE;
    uint32_t row = block / image->across[component], column = block % image->across[component];
    store_rows(&image->planes[component], column * side, row * side, side, rows);
}

int decode_launch_blocks(const struct jpeg_decode_batch *batch, const struct decode_args *args,
                         struct CUstream_st *stream)
{
    enum {
        shared = (COEFFICIENT_WORDS + DECODE_SINGLE_WORDS + THREADS) * sizeof(uint32_t) +
                 JPEG_COMPONENTS_MAX * 64 * sizeof(uint16_t)
    };
    int status = (int)ALLOW_SHARED(write_blocks, shared);
    if (status == 0 && batch->tiles > 0)
        status = (int)LAUNCH(write_blocks, THREADS, batch->tiles, shared, stream, *args);
    if (status == 0 && batch->group_sets > 0)
        status = (int)LAUNCH(transform_groups, THREADS, batch->group_sets, 0, stream, *args);
    return status;
}
