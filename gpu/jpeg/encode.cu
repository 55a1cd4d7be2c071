/*
 * encode.cu - the kernels that encode a batch of images as JPEG files.
 *
 * 1. encode_gray, encode_444, encode_422, encode_420: a block of threads encodes a tile
 *    (encode_impl.h), one thread per 8 x 8 block: DCT, quantisation, Huffman codes. The bits of the
 *    tile's blocks are joined in shared memory and written to cells of the work memory.
 *    Coefficients never leave shared memory. These kernels take nine tenths of the time. They are
 *    bound by instructions: about 40 per pixel of gray, and 84 per pixel of RGB to 4:2:0.
 * 2. place_tiles: a block of threads per image adds up the bits and the stuffed bytes of its tiles.
 *    This gives each tile's position in the file, and the length of the file. If the file exceeds
 *    its capacity, it is not written.
 * 3. write_tiles: a warp per 1 to 8 tiles shifts the bits to bytes, inserts a zero after each byte
 *    0xFF and writes the bytes to the file, in lines of 128 bytes. It is bound by stores to shared
 *    memory, or by PCIe if the file is in host memory.
 */
#include "gpu/jpeg/encode_colour.h"
#include "gpu/jpeg/encode_gray.h"
#include "gpu/jpeg/encode_quality.h"

#define PLACE_THREADS_MAX 1024
#define WRITE_THREADS 128
#define WRITE_WARPS (WRITE_THREADS / WARP_LANES)
/* Bytes of a tile that a warp writes at a time. */
#define WRITE_BYTES 512

#define LINE_BYTES 128
/* Size of the staging memory of a warp, in words4: it has an incomplete line, and WRITE_BYTES
 * bytes, which double if each is 0xFF and followed by a zero. */
#define WRITE_STAGED ((LINE_BYTES + 2 * WRITE_BYTES) / 16)
/* If this many warps remain, each warp writes several tiles, so that fewer lines are incomplete. */
#ifndef WRITE_WARPS_MIN
#define WRITE_WARPS_MIN 4096
#endif

/* Resident blocks of threads per multiprocessor; this limits the registers of a thread. */
#ifndef GRAY_RESIDENT
#define GRAY_RESIDENT 6
#endif
#ifndef COLOUR_RESIDENT
#define COLOUR_RESIDENT 4
#endif

/* ---- tiles ---- */

KERNEL(encode_gray, GRAY_THREADS, GRAY_RESIDENT, struct encode_args)
{
    SHARED uint32_t words[DCT_AREA * GRAY_THREADS];
    SHARED union {
        struct gray_blocks blocks;
        uint32_t window[GRAY_THREADS * GRAY_JOINED + 1];
    } stage;
    SHARED uint32_t codes[CODES_WORDS];
    SHARED words4 reciprocals[DCT_AREA / 4];
    SHARED int dc[GRAY_THREADS + 1]; /* first, that of the block before the tile */
    SHARED uint32_t sums[WARP_LANES];
    SHARED struct join_state join;
    int tile, thread = thread_index();
    struct encode_descriptor *image = find_tile(&args, &tile);
    if (!image)
        return;
    int first = tile * GRAY_TILE_BLOCKS, valid = (int)image->unit_count - first;
    int sum = thread < WARP_LANES ? sum_before_tile(image, tile) : 0;
    uint32_t samples[16];
    if (thread < valid)
        load_gray_block(image, position_of(image, (uint32_t)(first + thread)), samples);
    load_tables(&args, image, 1, codes, reciprocals);
    block_barrier();
    struct nonzeros nonzeros = {0, 0};
    if (thread < valid)
        nonzeros = transform_block(samples, reciprocals, words + thread, GRAY_THREADS,
                                   &dc[thread + 1]);
    if (thread == 0)
        dc[0] = tile > 0 ? dc_of_sum(sum, (const float *)reciprocals) : 0;
    stage.blocks.high[thread] = nonzeros.high;
    stage.blocks.low[thread] = nonzeros.low;
    stage.blocks.keys[thread] =
        (uint32_t)(count_bits(nonzeros.high) + count_bits(nonzeros.low)) * GRAY_WARPS +
        (uint32_t)(thread / WARP_LANES);
    block_barrier();
    struct block_bits block = {choose_block(&stage.blocks), 0, 0};
    nonzeros.high = stage.blocks.high[block.column];
    nonzeros.low = stage.blocks.low[block.column];
    if (block.column < valid)
        block.bits = encode_block(nonzeros, dc[block.column + 1] - dc[block.column], words,
                                  block.column, GRAY_THREADS, codes);
    uint32_t bits = place_block(&block, stage.blocks.lengths, sums);
    join_tile(&block, words, GRAY_THREADS, bits, stage.window, GRAY_THREADS * GRAY_JOINED, &join,
              image, tile);
}

KERNEL(encode_444, COLOUR_THREADS(1, 1), 7, struct encode_args)
{
    SHARED words4 words[COLOUR_SHARED(1, 1) / sizeof(words4)];
    SHARED struct colour_state state;
    encode_colour(&args, 1, 1, (uint32_t *)words, &state);
}

KERNEL(encode_422, COLOUR_THREADS(2, 1), 5, struct encode_args)
{
    SHARED words4 words[COLOUR_SHARED(2, 1) / sizeof(words4)];
    SHARED struct colour_state state;
    encode_colour(&args, 2, 1, (uint32_t *)words, &state);
}

KERNEL(encode_420, COLOUR_THREADS(2, 2), COLOUR_RESIDENT, struct encode_args)
{
    SHARED struct colour_state state;
    encode_colour(&args, 2, 2, (uint32_t *)DYNAMIC_SHARED(), &state);
}

/* ---- positions in the file ---- */

/* Number of bytes of the file that start in the tile, with the stuffed ones. phase: the number of
 * bits of the byte in which the tile starts that belong to the tile before. next: the first 8 bits
 * of the next tile, which complete the last byte. */
SIMT uint32_t file_bytes_of(const struct encode_tile *tile, uint32_t phase, uint32_t next)
{
    uint32_t end = phase + tile->bits;
    uint32_t bytes = (end + 7) / 8 - (phase + 7) / 8, partial = end & 7;
    uint32_t stuffed = tile->runs[(8 - phase) & 7];
    if (partial && bytes > 0) {
        uint32_t own = tile->tail & ((1u << partial) - 1);
        stuffed += (own << (8 - partial) | next >> partial) == 0xFF;
    }
    return bytes + stuffed;
}

KERNEL(place_tiles, PLACE_THREADS_MAX, 1, struct encode_args)
{
    SHARED uint32_t sums[WARP_LANES];
    struct encode_descriptor *image = args.images + block_index();
    const struct encode_tile *tiles = image->tiles;
    struct encode_placement *placements = image->placements;
    int count = (int)image->tile_count;
    int share = (count + block_threads() - 1) / block_threads();
    int first = min_int(thread_index() * share, count), end = min_int(first + share, count);
    uint32_t used = image->cells_used, bits = 0, bytes = 0, total;
    for (int i = first; i < end; i++)
        bits += tiles[i].bits;
    uint32_t at = block_scan(bits, &total, sums); /* may wrap: only its last 3 bits are used */
    for (int i = first; i < end; i++) {
        uint32_t next = i + 1 < count ? tiles[i + 1].head : 0xFF;
        placements[i].phase = at & 7;
        placements[i].offset = file_bytes_of(&tiles[i], at & 7, next);
        bytes += placements[i].offset;
        at += tiles[i].bits;
    }
    uint32_t offset = image->header_bytes + block_scan(bytes, &total, sums);
    for (int i = first; i < end; i++) {
        uint32_t length = placements[i].offset;
        placements[i].offset = offset;
        offset += length;
    }
    if (thread_index() == 0) {
        uint32_t length = image->header_bytes + total + 2;
        bool fits = used <= image->cell_count && length <= image->capacity;
        image->fits = fits;
        *image->file_bytes = fits ? length : 0;
        image->cells_used = 0;
    }
}

/* ---- the file ---- */

/* The bits of a tile, from which a warp makes bytes. */
struct tile_reader {
    const uint32_t *words;
    uint32_t bits, shift; /* shift: how many bits complete the last byte of the tile before */
    uint32_t next;        /* the first 8 bits of the next tile, in the upper byte */
};

/* Reads the words k to k + 4. The bits after the tile's last one are those of the next tile.
 * inside: all bits belong to the tile. */
SIMT void read_words(const struct tile_reader *reader, int k, bool inside, uint32_t words[5])
{
    int count = (int)(reader->bits + 31) / 32, end = (int)(reader->bits / 32);
    uint32_t used = reader->bits & 31;
    if (inside) {
        words4 four = load_words4(reader->words + k);
        words[0] = four.x;
        words[1] = four.y;
        words[2] = four.z;
        words[3] = four.w;
        words[4] = load_word(reader->words + k + 4);
        return;
    }
    UNROLL
    for (int i = 0; i < 5; i++) {
        words[i] = k + i < count ? load_word(reader->words + k + i) : 0;
        if (k + i == end)
            words[i] |= reader->next >> used;
        else if (k + i == end + 1 && used > 24)
            words[i] |= reader->next << (32 - used);
    }
}

/* Returns bit 7 of each byte that is 0xFF, among the first `valid` bytes of the word; the first
 * byte is the most significant. */
SIMT uint32_t stuffed_bytes(uint32_t word, int valid)
{
    uint32_t found = ((word & 0x7F7F7F7Fu) + 0x01010101u) & word & 0x80808080u;
    if (valid < 4)
        found &= valid > 0 ? ~0u << 8 * (4 - valid) : 0;
    return found;
}

/* The bytes of the file that a warp has made and not written yet. Lines are written as a whole,
 * because PCIe transfers whole lines. Only the first and the last line of a warp may be
 * incomplete. */
struct file_writer {
    words4 *staged;    /* WRITE_STAGED elements in shared memory */
    uint8_t *line;     /* the address in the file of staged[0], a multiple of LINE_BYTES */
    int start, filled; /* the bytes from `start` to `filled` are the warp's own */
};

/* Writes the staged bytes [from, end). */
SIMT void write_range(const struct file_writer *writer, int from, int end)
{
    const uint8_t *bytes = (const uint8_t *)writer->staged;
    int lane = lane_index(), first = (from + 15) / 16, last = end / 16;
    for (int i = first + lane; i < last; i += WARP_LANES)
        ((words4 *)writer->line)[i] = writer->staged[i];
    if (from + lane < min_int(first * 16, end))
        writer->line[from + lane] = bytes[from + lane];
    if (last >= first && last * 16 + lane < end)
        writer->line[last * 16 + lane] = bytes[last * 16 + lane];
}

/* Writes the whole lines, and moves the rest to the front. */
SIMT void write_lines(struct file_writer *writer)
{
    int lane = lane_index(), lines = writer->filled / LINE_BYTES;
    bool carries = lane < LINE_BYTES / 16 && lines > 0;
    words4 carried = {0, 0, 0, 0};
    warp_barrier();
    if (lines > 0)
        write_range(writer, writer->start, lines * LINE_BYTES);
    if (carries)
        carried = writer->staged[lines * (LINE_BYTES / 16) + lane];
    warp_barrier();
    if (carries)
        writer->staged[lane] = carried;
    warp_barrier();
    writer->line += lines * LINE_BYTES;
    writer->filled -= lines * LINE_BYTES;
    writer->start = lines > 0 ? 0 : writer->start;
}

/* Clears the staging memory after the bytes that are not written yet. */
SIMT void clear_staged(const struct file_writer *writer)
{
    const words4 zero = {0, 0, 0, 0};
    int lane = lane_index(), first = (writer->filled + 15) / 16;
    for (int i = first + lane; i < WRITE_STAGED; i += WARP_LANES)
        writer->staged[i] = zero;
    if (writer->filled + lane < first * 16)
        ((uint8_t *)writer->staged)[writer->filled + lane] = 0;
}

/* Makes the next bytes of the tile, at most WRITE_BYTES, from byte `base` on, and stages them.
 * left: the bytes of the tile from `base` on. */
SIMT void stage_bytes(const struct tile_reader *reader, int base, int left,
                      struct file_writer *writer)
{
    int lane = lane_index(), valid = left - lane * 16;
    uint32_t words[5], found[4], stuffed;
    bool inside = base / 4 + WRITE_BYTES / 4 + 4 <= (int)reader->bits / 32;
    read_words(reader, base / 4 + lane * 4, inside, words);
    UNROLL
    for (int i = 0; i < 4; i++) {
        words[i] = funnel_left(words[i + 1], words[i], reader->shift);
        found[i] = stuffed_bytes(words[i], valid - 4 * i);
    }
    clear_staged(writer);
    uint32_t before = warp_scan((uint32_t)count_bits(found[0] | found[1] >> 1 | found[2] >> 2 |
                                                     found[3] >> 3), &stuffed);
    warp_barrier();
    int at = writer->filled + lane * 16 + (int)before;
    UNROLL
    for (int i = 0; i < 16; i++) {
        uint32_t byte = words[i / 4] >> (24 - i % 4 * 8) & 0xFF;
        ((uint8_t *)writer->staged)[at++] = (uint8_t)byte;
        at += byte == 0xFF; /* the zero after it is there */
    }
    writer->filled += min_int(left, WRITE_BYTES) + (int)stuffed;
}

SIMT void write_tile(const struct encode_descriptor *image, int tile, struct file_writer *writer)
{
    const struct encode_tile *of = image->tiles + tile;
    uint32_t phase = image->placements[tile].phase;
    bool last = tile + 1 == (int)image->tile_count;
    struct tile_reader reader = {image->cells + (size_t)of->first_cell * CELL_WORDS, of->bits,
                                 (8 - phase) & 7, (last ? 0xFFu : of[1].head) << 24};
    int bytes = (int)((phase + reader.bits + 7) / 8 - (phase + 7) / 8);
    for (int base = 0; base < bytes; base += WRITE_BYTES) {
        stage_bytes(&reader, base, bytes - base, writer);
        write_lines(writer);
    }
}

/* Writes tiles [tile, end), and EOI after the last one of the image. */
SIMT void write_run(const struct encode_descriptor *image, int tile, int end, words4 *staged)
{
    uint8_t *to = image->file + image->placements[tile].offset;
    int start = (int)((uintptr_t)to % LINE_BYTES);
    struct file_writer writer = {staged, to - start, start, start};
    for (; tile < end; tile++)
        write_tile(image, tile, &writer);
    if (end == (int)image->tile_count) {
        if (lane_index() < 2)
            ((uint8_t *)staged)[writer.filled + lane_index()] = lane_index() == 0 ? 0xFF : 0xD9;
        writer.filled += 2;
        warp_barrier();
    }
    write_range(&writer, writer.start, writer.filled);
}

/* Copies a piece of the header to the file. The header may be in host memory, so each lane starts
 * all of its loads before it needs the first. */
SIMT void write_header_piece(const struct encode_descriptor *image, int piece)
{
    int at = piece * HEADER_PIECE_BYTES;
    int bytes = min_int((int)image->header_bytes - at, HEADER_PIECE_BYTES), words = bytes / 4;
    const uint8_t *from = image->header + at;
    uint8_t *to = image->file + at;
    for (int i = lane_index(); i < words; i += WARP_LANES)
        ((uint32_t *)to)[i] = load_word(from + i * 4);
    if (lane_index() < bytes % 4)
        to[words * 4 + lane_index()] = from[words * 4 + lane_index()];
}

KERNEL(write_tiles, WRITE_THREADS, 1, struct encode_args)
{
    SHARED words4 staged[WRITE_WARPS][WRITE_STAGED];
    int warp = thread_index() / WARP_LANES;
    int index = (block_index() * WRITE_WARPS + warp) * args.write_units;
    if (index / CHUNK_UNITS >= args.chunk_count)
        return;
    struct encode_chunk chunk = args.chunks[index / CHUNK_UNITS];
    const struct encode_descriptor *image = args.images + chunk.image;
    int unit = (int)chunk.first + index % CHUNK_UNITS, end = unit + args.write_units;
    int tiles = (int)image->tile_count, pieces_end = tiles + (int)image->more_pieces;
    if (!image->fits)
        return;
    if (unit < tiles)
        write_run(image, unit, min_int(end, tiles), staged[warp]);
    /* The first tile's warp writes the first piece of the header. Other pieces are units of their
     * own, after the last tile. */
    if (unit == 0)
        write_header_piece(image, 0);
    for (int i = unit < tiles ? tiles : unit; i < min_int(end, pieces_end); i++)
        write_header_piece(image, i - tiles + 1);
}

/* ---- launch ---- */

static int launch_kind(int kind, const struct encode_args *batch_args,
                       const struct jpeg_encode_batch *batch, struct CUstream_st *stream)
{
    struct encode_args args = *batch_args;
    uint32_t blocks = (batch->chunks[kind + 1] - batch->chunks[kind]) * CHUNK_UNITS;
    args.chunks += batch->chunks[kind];
    if (blocks == 0)
        return 0;
    switch (kind) {
    case 0:
        return LAUNCH(encode_gray, GRAY_THREADS, blocks, 0, stream, args);
    case 1:
        return LAUNCH(encode_444, COLOUR_THREADS(1, 1), blocks, 0, stream, args);
    case 2:
        return LAUNCH(encode_422, COLOUR_THREADS(2, 1), blocks, 0, stream, args);
    default: {
        int status = ALLOW_SHARED(encode_420, COLOUR_SHARED(2, 2));
        return status ? status
                      : LAUNCH(encode_420, COLOUR_THREADS(2, 2), blocks, COLOUR_SHARED(2, 2),
                               stream, args);
    }
    }
}

int jpeg_encode_launch(const struct jpeg_encode_batch *batch, void *description,
                       struct CUstream_st *stream)
{
    uint8_t *start = (uint8_t *)description;
    struct encode_args args;
    args.codes = (const uint32_t *)start;
    args.images = (struct encode_descriptor *)(start + CODES_BYTES);
    args.chunks = (const struct encode_chunk *)(start + batch->chunks_at);
    args.chunk_count = (int)batch->chunks[JPEG_ENCODE_KINDS];
    args.write_units = 1;
    int status = encode_search_launch(batch, start, stream);
    for (int kind = 0; kind < JPEG_ENCODE_KINDS && status == 0; kind++)
        status = launch_kind(kind, &args, batch, stream);
    if (status)
        return status;
    uint32_t half = (batch->tiles_max / 2 + WARP_LANES - 1) / WARP_LANES * WARP_LANES;
    uint32_t threads = half < WARP_LANES          ? WARP_LANES
                       : half > PLACE_THREADS_MAX ? PLACE_THREADS_MAX
                                                  : half;
    status = LAUNCH(place_tiles, threads, batch->image_count, 0, stream, args);
    if (status)
        return status;
    uint32_t units = batch->chunks[JPEG_ENCODE_KINDS] * CHUNK_UNITS;
    while (args.write_units < CHUNK_UNITS &&
           units / (2 * (uint32_t)args.write_units) >= WRITE_WARPS_MIN)
        args.write_units *= 2;
    uint32_t warps = units / (uint32_t)args.write_units;
    return LAUNCH(write_tiles, WRITE_THREADS, (warps + WRITE_WARPS - 1) / WRITE_WARPS, 0, stream,
                  args);
}
