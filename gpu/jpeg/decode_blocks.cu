/*
 * decode_blocks.cu - turns the Huffman-coded data of an image into samples: the third stage of the
 * JPEG decoder (decode_impl.h defines pieces, tiles and segments).
 *
 * A block of threads decodes a tile. First, each thread decodes pieces of the data to dequantised
 * AC coefficients and DC differences in shared memory. Each table lookup depends on the one before
 * it, so many threads with short pieces matter more than the number of instructions. Then the
 * differences of the DC coefficients are added up: a prefix sum over the blocks of the tile, plus
 * the sums of the tiles before it (decoupled look-back: Merrill and Garland 2016). Last, each
 * thread computes the inverse DCT of one block.
 *
 * Time is bound by the latency of the lookups, and by 18 instructions per sample of the inverse
 * DCT.
 */
#include "codecs/jpeg/zigzag.h"
#include "gpu/jpeg/coefficients.h"
#include "gpu/jpeg/decode_device.h"
#include "gpu/jpeg/idct.h"

#define THREADS DECODE_TILE_BLOCKS
/* The tile's coefficients in shared memory: the coefficients 2 i and 2 i + 1 of block b, in zigzag
 * order, are word THREADS * i + b. */
#define COEFFICIENT_WORDS (32 * THREADS)

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

/* How the blocks at one position in their MCUs are decoded. */
struct block_kind {
    uint32_t lookup; /* offset of the component's lookup tables */
    uint32_t quant;  /* offset of the component's quantisers */
    int32_t first;   /* the thread that transforms this block of the tile's first MCU; NOT_NEEDED:
                        no thread does */
    int32_t step;    /* from that thread to the one for the next MCU */
};
#define KINDS_MAX 6
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
    const uint32_t *words, *single, *longs; /* the data; lookup tables: see decode_tables.h */
    const uint16_t *quant;    /* per component, in zigzag order; 1 for DC */
    const struct block_kind *kinds;
    int16_t *coefficients;
};

/* block: its position in the MCU. The threads are ordered by component: first those for the blocks
 * of Y, then those for Cb, then those for Cr. */
DEVICE struct block_kind kind_of(const struct tile *tile, uint32_t block)
{
    uint32_t component = block < tile->luma ? 0 : block - tile->luma + 1;
    struct block_kind kind;
    kind.lookup = component ? 2 * DECODE_LOOKUP : 0;
    kind.quant = 64 * component;
    kind.first = (int32_t)(component ? tile->mcus * block : block);
    kind.step = component ? 1 : (int32_t)tile->luma;
    if (component && !tile->colour) {
        kind.first = NOT_NEEDED;
        kind.step = 0;
    }
    return kind;
}

/* Decodes the symbols that start at the bits from `at` to `end` - 1, but at most blocks_left
 * blocks. index, mcu, block: of the first coefficient; mcu is relative to the tile, so that it is
 * negative before the tile. Returns whether an AC coefficient that was stored is out of range. */
SIMT bool write_coefficients(const struct tile *tile, uint32_t at, uint32_t end, uint32_t index,
                             int32_t mcu, uint32_t block, uint32_t blocks_left)
{
    const uint32_t *words = tile->words;
    uint32_t next = at >> 5, high = words[next], low = words[next + 1];
    struct block_kind kind = tile->kinds[block];
    uint32_t base = kind.lookup + (index ? DECODE_LOOKUP : 0);
    int32_t thread = mcu < 0 ? NOT_NEEDED : kind.first + mcu * kind.step;
    bool outside = false;
    next += 2;
    NO_UNROLL
    while (at < end) {
        uint32_t bits = funnel_left(low, high, at);
        uint32_t entry = tile->single[base + (bits >> (32 - DECODE_LOOKUP_BITS))];
        if ((int32_t)entry < 0)
            entry = tile->longs[(entry & 0xFFFF) +
                                (bits << DECODE_LOOKUP_BITS >> (entry >> ENTRY_CODE_AT & 31))];
        uint32_t then = at + (entry & 31);
        if ((at ^ then) & 32) {
            high = low;
            low = words[next++];
        }
        at = then;
        index += entry >> ENTRY_GROWTH_AT & ENTRY_GROWTH_MASK;
        base = kind.lookup + DECODE_LOOKUP;
        uint32_t size = entry >> ENTRY_SIZE_AT & 15;
        if (size > 0 && thread >= 0) {
            uint32_t value_bits = bits << (entry >> ENTRY_CODE_AT & 31), k = (index - 1) & 63;
            int32_t value = (int32_t)(value_bits >> (32 - size));
            if ((int32_t)value_bits >= 0)
                value -= (1 << size) - 1;
            value *= tile->quant[kind.quant + k];
            outside |= (uint32_t)(value + DECODE_RANGE_MAX) > 2 * DECODE_RANGE_MAX && k > 0;
            tile->coefficients[2 * (THREADS * (k >> 1) + (uint32_t)thread) + (k & 1)] =
                (int16_t)value;
        }
        if (index >= 64) {
            if (--blocks_left == 0)
                break;
            index = 0;
            block++;
            if (block == tile->blocks) {
                block = 0;
                mcu++;
            }
            kind = tile->kinds[block];
            base = kind.lookup;
            thread = mcu < 0 ? NOT_NEEDED : kind.first + mcu * kind.step;
        }
    }
    return outside;
}

/* Decodes a piece. Blocks before the tile are decoded, but not stored. Decoding stops at the end
 * of the tile. Returns whether an AC coefficient that was stored is out of range. */
SIMT bool write_piece(const struct tile *tile, uint32_t piece)
{
    const struct decode_descriptor *image = tile->image;
    uint32_t sub_index = piece / DECODE_PIECES, part = piece % DECODE_PIECES;
    uint32_t record = image->records[piece];
    struct decode_sub sub = sub_of(image, tile->data_bytes, sub_index);
    int32_t length = walked_bits(&sub);
    int32_t from = (int32_t)part * DECODE_PIECE_BITS, to = from + DECODE_PIECE_BITS;
    if (part > 0 && from >= length)
        return false;
    uint32_t at = sub.start + (uint32_t)from + (record & 63), end = sub.end;
    if (!sub.last || (part + 1 < DECODE_PIECES && to < length))
        end = sub.start + (uint32_t)to + (image->records[piece + 1] & 63);
    uint32_t block = image->sub_blocks[sub_index] + (record >> RECORD_COUNT_AT);
    uint32_t mcu = block / image->blocks, of_mcu = block - mcu * image->blocks;
    uint32_t end_mcu = (sub.segment + 1) * image->segment_mcus;
    uint32_t tile_end = tile->first_mcu + tile->mcus;
    if (image->segments == 1 || end_mcu > tile_end)
        end_mcu = tile_end;
    if (mcu >= end_mcu)
        return false;
    return write_coefficients(tile, at, end, record >> RECORD_INDEX_AT & 63,
                              (int32_t)mcu - (int32_t)tile->first_mcu, of_mcu,
                              end_mcu * image->blocks - block);
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
            while ((sums = poll(&image->tile_sums[other])) >> 62 == 0)
                relax();
        uint32_t ends = warp_ballot(sums >> 62 == SUM_OF_SEGMENT >> 62);
        int nearest = ends ? lowest_bit(ends) : WARP_LANES - 1;
        bool counts = lane_index() <= nearest;
        uint32_t of_y, of_cb, of_cr;
        (void)warp_scan(counts ? unpack_sum(sums, 0) : 0, &of_y);
        (void)warp_scan(counts ? unpack_sum(sums, 1) : 0, &of_cb);
        (void)warp_scan(counts ? unpack_sum(sums, 2) : 0, &of_cr);
        y += of_y;
        cb += of_cb;
        cr += of_cr;
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
        publish(&image->tile_sums[tile->index], sums | (known ? SUM_OF_SEGMENT : SUM_OF_TILE));
    if (segment_start(image, tile->first_mcu) == tile->first_mcu)
        return 0;
    uint64_t base = sums_before(image, tile->index);
    if (lane_index() == 0 && !known)
        publish(&image->tile_sums[tile->index],
                pack_sums(unpack_sum(base, 0) + unpack_sum(sums, 0),
                          unpack_sum(base, 1) + unpack_sum(sums, 1),
                          unpack_sum(base, 2) + unpack_sum(sums, 2)) |
                    SUM_OF_SEGMENT);
    return base;
}

/* The block that a thread transforms. */
struct own_block {
    uint32_t component, mcu; /* mcu: its number in the image */
    uint32_t of_mcu;         /* its number among the component's blocks of the MCU */
    bool exists;             /* false: the tile has fewer blocks than threads */
};

DEVICE struct own_block own_block_of(const struct tile *tile, uint32_t thread)
{
    struct own_block own;
    uint32_t luma_threads = tile->mcus * tile->luma, of_chroma = thread - luma_threads;
    own.component = thread < luma_threads ? 0 : of_chroma / tile->mcus + 1;
    own.exists = own.component < (tile->colour ? 3u : 1u);
    if (own.component > 0) {
        own.mcu = tile->first_mcu + of_chroma % tile->mcus;
        own.of_mcu = 0;
    } else {
        own.mcu = tile->first_mcu + thread / tile->luma;
        own.of_mcu = thread % tile->luma;
    }
    return own;
}

/* Adds up the DC differences of the tile and of the tiles before it. Returns the DC coefficient of
 * the thread's block. All threads of the block call it. */
SIMT uint32_t sum_differences(const struct tile *tile, const struct own_block *own)
{
    SHARED uint32_t sums[WARP_LANES], prefix[THREADS + 1];
    SHARED uint64_t before;
    uint32_t thread = (uint32_t)thread_index(), total;
    uint32_t difference = (uint32_t)(int32_t)tile->coefficients[2 * thread];
    uint32_t sum = block_scan(difference, &total, sums);
    prefix[thread] = sum;
    if (thread == THREADS - 1)
        prefix[THREADS] = total;
    block_barrier();
    if (thread < WARP_LANES) {
        uint64_t of_tiles = publish_sums(tile, prefix);
        if (thread == 0)
            before = of_tiles;
    }
    block_barrier();
    uint32_t start = segment_start(tile->image, own->mcu);
    uint32_t of_mcu = own->component ? 1 : tile->luma; /* threads per MCU */
    uint32_t first = thread - (own->mcu - tile->first_mcu) * of_mcu - own->of_mcu;
    if (!own->exists)
        return 0;
    if (start >= tile->first_mcu)
        return sum + difference - prefix[first + (start - tile->first_mcu) * of_mcu];
    return sum + difference - prefix[first] + unpack_sum(before, own->component);
}

/* ---- samples ---- */

/* Stores the samples of a block at (x, y), without the rows below the plane. side: of the block. */
SIMT void store_rows(const struct decode_plane *plane, uint32_t x, uint32_t y, uint32_t side,
                     const uint32_t *rows)
{
    if (x >= plane->store_width || y >= plane->store_height)
        return;
    uint8_t *to = plane->samples + (size_t)y * plane->pitch + x;
    uint32_t count = plane->store_height - y < side ? plane->store_height - y : side;
    UNROLL
    for (uint32_t row = 0; row < 8; row++, to += plane->pitch) {
        if (row >= count)
            break;
        if (side == 8) {
            words2 two = {rows[2 * row], rows[2 * row + 1]};
            *(words2 *)to = two;
        } else if (side == 4) {
            *(uint32_t *)to = rows[row & 3];
        } else if (side == 2) {
            *(uint16_t *)to = (uint16_t)rows[row & 1];
        } else {
            *to = (uint8_t)rows[0];
        }
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

/* Finds the tile of this block of threads, and loads its tables into shared memory. false: the
 * image is declined. A tile that finds an error sets image->verdict but not run->verdict: all tiles
 * of the image must run, because each waits for the sums of the tiles before it. */
SIMT bool open_tile(const struct decode_args *args, struct tile *tile)
{
    SHARED uint16_t quant[JPEG_COMPONENTS_MAX * 64];
    SHARED struct block_kind kinds[KINDS_MAX];
    uint32_t thread = (uint32_t)thread_index();
    uint32_t *coefficients = (uint32_t *)DYNAMIC_SHARED();
    uint32_t *single = coefficients + COEFFICIENT_WORDS;
    uint32_t index = find_image(args->starts[DECODE_TILES], args->image_count,
                                (uint32_t)block_index());
    const struct decode_descriptor *image = &args->images[index];
    if (image->run->verdict != JPEG_DECODE_DONE)
        return false;
    tile->image = image;
    tile->index = (uint32_t)block_index() - args->starts[DECODE_TILES][index];
    tile->data_bytes = image->run->data_bytes;
    tile->first_mcu = tile->index * image->tile_mcus;
    tile->mcus = image->mcus - tile->first_mcu;
    tile->mcus = tile->mcus < image->tile_mcus ? tile->mcus : image->tile_mcus;
    tile->luma = image->luma;
    tile->blocks = image->blocks;
    tile->colour = image->components > 1;
    tile->words = image->words;
    tile->single = single;
    tile->longs = image->tables + 2 * DECODE_SINGLE_WORDS;
    tile->quant = quant;
    tile->kinds = kinds;
    tile->coefficients = (int16_t *)coefficients;
    for (uint32_t i = 4 * thread; i < COEFFICIENT_WORDS; i += 4 * THREADS) {
        words4 zero = {0, 0, 0, 0};
        *(words4 *)(coefficients + i) = zero;
    }
    uint32_t words = tile->luma == tile->blocks ? DECODE_SINGLE_WORDS / 2 : DECODE_SINGLE_WORDS;
    for (uint32_t i = 4 * thread; i < words; i += 4 * THREADS)
        *(words4 *)(single + i) = load_words4(image->tables + i);
    if (thread < tile->blocks)
        kinds[thread] = kind_of(tile, thread);
    if (thread < JPEG_COMPONENTS_MAX * 64)
        quant[thread] = thread % 64 ? image->quant[thread / 64][thread % 64] : 1;
    block_barrier();
    return true;
}

/* Decodes the tiles of sequential files: one block of threads per tile. */
KERNEL(write_blocks, THREADS, 3, struct decode_args)
{
    const int zigzag[64] = JPEG_ZIGZAG_OF_NATURAL;
    struct tile tile;
    uint32_t thread = (uint32_t)thread_index(), x[64], rows[16];
    if (!open_tile(&args, &tile))
        return;
    const struct decode_descriptor *image = tile.image;
    bool outside = false;
    uint32_t piece = image->tile_pieces[tile.index], end = image->tile_pieces[tile.index + 1];
    for (piece = (piece > 0 ? piece - 1 : 0) + thread; piece < end; piece += THREADS)
        outside |= write_piece(&tile, piece);
    block_barrier();
    struct own_block own = own_block_of(&tile, thread);
    uint32_t dc = sum_differences(&tile, &own);
    outside |= is_outside(dc);
    x[0] = dc * (own.exists ? image->quant[own.component][0] : 0u);
    outside |= is_outside(x[0]);
    if (outside)
        *image->verdict = JPEG_DECODE_RANGE;
    if (!own.exists)
        return;
    UNROLL
    for (int i = 1; i < 64; i++) {
        uint32_t word =
            ((const uint32_t *)tile.coefficients)[THREADS * (zigzag[i] >> 1) + (int)thread];
        x[i] = zigzag[i] & 1 ? shift_signed(word, 16) : (uint32_t)(int32_t)(int16_t)word;
    }
    uint32_t side = image->side[own.component];
    if (!block_samples(x, side, rows))
        *image->verdict = JPEG_DECODE_RANGE;
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
    enum { shared = (COEFFICIENT_WORDS + DECODE_SINGLE_WORDS) * sizeof(uint32_t) };
    int status = (int)ALLOW_SHARED(write_blocks, shared);
    if (status == 0 && batch->tiles > 0)
        status = (int)LAUNCH(write_blocks, THREADS, batch->tiles, shared, stream, *args);
    if (status == 0 && batch->group_sets > 0)
        status = (int)LAUNCH(transform_groups, THREADS, batch->group_sets, 0, stream, *args);
    return status;
}
