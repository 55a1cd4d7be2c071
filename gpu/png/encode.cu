/*
 * encode.cu - the kernels that encode a batch of images as PNG files (codecs/png/png_tiles.h).
 *
 * 1. filter_rows: a warp filters a row, or a block of threads a long row.
 * 2. count_tiles: a block of threads counts the literals and the matches of a tile.
 * 3. code_blocks: a warp finds the tiles of a deflate block and makes its code.
 * 4. place_tiles: a block of threads per image adds up the bits of the blocks. This gives each
 *    tile's position in the zlib stream, and the length of the file.
 * 5. write_tiles: a block of threads writes the bits of a tile to the zlib stream.
 * 6. write_pieces: a block of threads copies an IDAT chunk to the file and computes its CRC. The
 *    file may be in host memory: it is written in whole units of 16 bytes.
 */
#include "gpu/png/encode_blocks.h"
#include "gpu/png/encode_count.h"
#include "gpu/png/encode_write.h"

#define CODE_THREADS      64
#define CODE_WARPS        (CODE_THREADS / WARP_LANES)
#define PLACE_THREADS_MAX 1024

struct png_encode_args {
    struct png_encode_descriptor *images;
    struct png_encode_powers *powers;
    const struct png_encode_chunk *rows, *tiles, *pieces;
};

/* ---- filters ---- */

/* The first block makes the powers, which write_pieces needs. */
KERNEL(filter_rows, FILTER_THREADS, 1, struct png_encode_args)
{
    if (block_index() == 0) {
        make_powers(args.powers);
        return;
    }
    uint32_t index = (uint32_t)block_index() - 1;
    struct png_encode_chunk chunk = args.rows[index / CHUNK_GROUPS];
    const struct png_encode_descriptor *image = args.images + chunk.image;
    uint32_t y = chunk.first + index % CHUNK_GROUPS * image->group_rows;
    if (image->group_rows > 1)
        y += (uint32_t)(thread_index() / WARP_LANES);
    if (y >= image->height)
        return;
    if (image->channels == 1)
        filter_row(image, y, 1);
    else if (image->channels == 3)
        filter_row(image, y, 3);
    else
        filter_row(image, y, 4);
}

/* ---- counts ---- */

/* Returns the image of tile number `index` of the batch, and the tile's number in it; NULL: there
 * is no such tile. */
SIMT struct png_encode_descriptor *find_tile(const struct png_encode_args *args, uint32_t index,
                                             uint32_t *tile)
{
    struct png_encode_chunk chunk = args->tiles[index / CHUNK_TILES];
    struct png_encode_descriptor *image = args->images + chunk.image;
    *tile = chunk.first + index % CHUNK_TILES;
    return *tile < image->tile_count ? image : NULL;
}

KERNEL(count_tiles, TILE_THREADS, 4, struct png_encode_args)
{
    SHARED struct count_shared shared;
    int thread = thread_index();
    uint32_t index;
    struct png_encode_descriptor *image = find_tile(&args, (uint32_t)block_index(), &index);
    if (!image)
        return;
    struct tile_bytes tile = tile_at(image, index);
    for (int i = thread; i < TILE_WARPS * WARP_COUNTS; i += TILE_THREADS)
        (&shared.counts[0][0])[i] = 0;
    if (thread < WARP_LANES)
        shared.lengths[thread] = 0;
    if (thread == 0)
        shared.adler1 = shared.adler2 = shared.repeats = shared.saved = shared.short_saved = 0;
    block_barrier();
    read_tile(&shared, &tile);
    scan_flags(&shared.flags, tile.count);
    uint32_t run_min = choose_matches(&shared, image, &tile);
    uint32_t *counts = image->counts[index].of, count = 0;
    for (int i = 0; i < TILE_WARPS; i++)
        count += shared.counts[i][thread];
    counts[thread] = count;
    if (thread < PNG_SYMBOLS + 2 - 256)
        counts[256 + thread] = thread > 0 ? shared.lengths[thread - 1] : 0;
    if (thread > 0)
        return;
    struct png_encode_tile *to = image->tiles + index;
    to->tokens = (uint32_t)tile.count - shared.saved;
    to->run_min = run_min;
    to->adler1 = shared.adler1 % ADLER_BASE;
    to->adler2 = shared.adler2 % ADLER_BASE;
}

/* ---- blocks ---- */

KERNEL(code_blocks, CODE_THREADS, 1, struct png_encode_args)
{
    SHARED struct code_shared shared[CODE_WARPS];
    struct code_shared *own = &shared[thread_index() / WARP_LANES];
    uint32_t head, end, counts[LANE_SYMBOLS];
    uint32_t index = (uint32_t)(block_index() * CODE_WARPS + thread_index() / WARP_LANES);
    struct png_encode_descriptor *image = find_tile(&args, index, &head);
    if (!image || !is_head(image, head, &end))
        return;
    add_counts(image, head, end, counts);
    make_code(own, counts, end == image->tile_count, image->codes + head);
    place_in_block(own, image->codes + head, image, head, end);
}

/* ---- positions in the zlib stream ---- */

KERNEL(place_tiles, PLACE_THREADS_MAX, 1, struct png_encode_args)
{
    SHARED struct span spans[WARP_LANES];
    SHARED uint32_t sums[WARP_LANES];
    struct png_encode_descriptor *image = args.images + block_index();
    uint32_t threads = (uint32_t)block_threads(), thread = (uint32_t)thread_index();
    uint32_t each = (image->tile_count + threads - 1) / threads, first = thread * each;
    first = first < image->tile_count ? first : image->tile_count;
    uint32_t end = first + each < image->tile_count ? first + each : image->tile_count;
    place_heads(image, first, end, spans);
    uint32_t adler = swap_bytes(adler_of_image(image, first, end, sums));
    block_barrier();
    place_others(image, first, end);
    uint32_t *last = image->bits + image->end_bit / 32;
    if (thread == 0)
        last[0] = last[1] = last[2] = 0;
    block_barrier();
    if (thread > 0)
        return;
    uint64_t at = (image->end_bit + 7) / 8;
    uint32_t shift = (uint32_t)(at % 4) * 8;
    image->bits[0] |= PNG_ZLIB_HEADER;
    image->bits[at / 4] |= adler << shift;
    if (shift > 0)
        image->bits[at / 4 + 1] |= adler >> (32 - shift);
    *image->file_bytes = image->header_bytes + (uint32_t)zlib_bytes(image) +
                         idat_count(image) * IDAT_BYTES_AROUND + IEND_BYTES;
}

/* ---- the zlib stream ---- */

KERNEL(write_tiles, TILE_THREADS, 4, struct png_encode_args)
{
    struct write_shared *shared = (struct write_shared *)DYNAMIC_SHARED();
    uint32_t index;
    struct png_encode_descriptor *image = find_tile(&args, (uint32_t)block_index(), &index);
    if (!image)
        return;
    struct tile_place of = tile_place_of(image, index);
    for (uint32_t i = (uint32_t)thread_index(); i * 32 < of.offset + of.bits; i += TILE_THREADS)
        shared->out[i] = 0;
    if (png_is_stored(of.head->block_bytes, of.head->block_bits))
        write_stored(shared, &of);
    else
        write_coded(shared, &of, image->codes + of.tile->head);
    block_barrier();
    copy_out(shared, &of);
}

/* ---- the file ---- */

KERNEL(write_pieces, CRC_THREADS, 4, struct png_encode_args)
{
    SHARED struct crc_shared shared;
    uint32_t index = (uint32_t)block_index();
    struct png_encode_chunk chunk = args.pieces[index / CHUNK_PIECES];
    const struct png_encode_descriptor *image = args.images + chunk.image;
    uint32_t piece = chunk.first + index % CHUNK_PIECES;
    if (piece < image->header_pieces) {
        write_header_piece(image, piece);
    } else if (piece - image->header_pieces < idat_count(image)) {
        struct file_piece of = file_piece_of(image, piece - image->header_pieces);
        write_piece(&of, &shared, args.powers);
    }
}

/* ---- launch ---- */

/* Most images have fewer tiles than that; a thread may have several. */
static uint32_t place_threads(const struct png_encode_batch *batch)
{
    uint32_t threads = (batch->tiles_max + WARP_LANES - 1) / WARP_LANES * WARP_LANES;
    return threads < PLACE_THREADS_MAX ? threads : PLACE_THREADS_MAX;
}

int png_encode_launch(const struct png_encode_batch *batch, void *description,
                      struct CUstream_st *stream)
{
    uint8_t *start = (uint8_t *)description;
    struct png_encode_args args;
    args.powers = (struct png_encode_powers *)start;
    args.images = (struct png_encode_descriptor *)(start + batch->images_at);
    args.rows = (const struct png_encode_chunk *)(start + batch->chunks_at);
    args.tiles = args.rows + batch->row_chunks;
    args.pieces = args.tiles + batch->tile_chunks;
    uint32_t groups = batch->row_chunks * CHUNK_GROUPS, tiles = batch->tile_chunks * CHUNK_TILES;
    int status = LAUNCH(filter_rows, FILTER_THREADS, 1 + groups, 0, stream, args);
    if (status == 0)
        status = LAUNCH(count_tiles, TILE_THREADS, tiles, 0, stream, args);
    if (status == 0)
        status = LAUNCH(code_blocks, CODE_THREADS, tiles / CODE_WARPS, 0, stream, args);
    if (status == 0)
        status = LAUNCH(place_tiles, place_threads(batch), batch->image_count, 0, stream, args);
    if (status == 0)
        status = ALLOW_SHARED(write_tiles, sizeof(struct write_shared));
    if (status == 0)
        status =
            LAUNCH(write_tiles, TILE_THREADS, tiles, sizeof(struct write_shared), stream, args);
    if (status == 0)
        status =
            LAUNCH(write_pieces, CRC_THREADS, batch->piece_chunks * CHUNK_PIECES, 0, stream, args);
    return status;
}
