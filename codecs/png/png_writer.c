#include "codecs/png/png_writer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/png/png_block.h"

#define CHUNK_HEAD_BYTES 8 /* length and type */
#define ZLIB_BYTES       6 /* two of header, Adler-32 */

struct png_writer {
    png_write_fn *write;
    void *context;
    const struct png_kernels *kernels;
    struct png_block block;
    uint32_t channels, rows_left;
    size_t row_bytes;
    uint8_t *row, *above; /* copies of two rows between zero bytes */
    uint8_t *tile;        /* the stream since the last end of a tile, or a row that is longer */
    size_t tile_bytes;
    uint32_t tile_rows, tile_rows_max; /* 0: a row is cut into several tiles */
    uint32_t tiles;                    /* of the stream so far */
    uint32_t adler;
    /* The block that further tiles may join. */
    uint16_t *tokens;
    size_t token_count;
    uint32_t block_bytes;
    uint8_t before; /* the byte of the stream before the block */
    /* The zlib stream from the last IDAT on, after CHUNK_HEAD_BYTES. */
    uint8_t *chunk;
    struct png_bits bits;
};

/* ---- chunks ---- */

static void put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
}

static size_t chunk_bytes(const struct png_writer *writer)
{
    return (size_t)(writer->bits.to - writer->chunk) - CHUNK_HEAD_BYTES;
}

/* Writes the first `count` bytes of the stream as a chunk. */
static void write_chunk(struct png_writer *writer, size_t count)
{
    uint8_t crc[4];
    put_u32(writer->chunk, (uint32_t)count);
    memcpy(writer->chunk + 4, "IDAT", 4);
    put_u32(crc, writer->kernels->crc(0, writer->chunk + 4, 4 + count));
    writer->write(writer->context, writer->chunk, CHUNK_HEAD_BYTES + count);
    writer->write(writer->context, crc, sizeof crc);
    uint8_t *first = writer->chunk + CHUNK_HEAD_BYTES;
    memmove(first, first + count, chunk_bytes(writer) - count);
    writer->bits.to -= count;
}

static void end_stream(struct png_writer *writer)
{
    png_bits_align(&writer->bits);
    put_u32(writer->bits.to, writer->adler);
    writer->bits.to += 4;
    for (size_t left; (left = chunk_bytes(writer)) > 0;)
        write_chunk(writer, left < PNG_CHUNK_BYTES ? left : PNG_CHUNK_BYTES);
}

/* ---- blocks and tiles ---- */

static void write_block(struct png_writer *writer, bool last)
{
    const struct png_tokens tokens = {writer->tokens, writer->token_count, writer->block_bytes,
                                      writer->before, last};
    png_block_write(&writer->block, &tokens, writer->kernels->put, &writer->bits);
    if (chunk_bytes(writer) >= PNG_CHUNK_BYTES)
        write_chunk(writer, PNG_CHUNK_BYTES);
    writer->token_count = 0;
    writer->block_bytes = 0;
}

/* Sets the tokens of a tile, and returns their number. */
static size_t find_tokens(const struct png_writer *writer, const uint8_t *bytes, size_t count,
                          uint16_t *to)
{
    png_tokens_fn *find = writer->kernels->tokens;
    uint32_t repeats, run_min = png_run_min(writer->channels, writer->row_bytes + 1);
    size_t tokens = find(bytes, count, run_min, to, &repeats);
    if (run_min == PNG_RUN_LEAST || !png_may_be_short((uint32_t)count, repeats))
        return tokens;
    size_t fewer = find(bytes, count, PNG_RUN_LEAST, to, &repeats);
    return png_prefers_short((uint32_t)tokens, (uint32_t)fewer)
               ? fewer
               : find(bytes, count, run_min, to, &repeats);
}

/* Adds a tile to the block, or to a new block if it cannot join. */
static void end_tile(struct png_writer *writer, const uint8_t *bytes, size_t count, bool last)
{
    uint16_t *to = writer->tokens + writer->token_count;
    size_t tokens = find_tokens(writer, bytes, count, to);
    writer->adler = writer->kernels->adler(writer->adler, bytes, count);
    if (writer->token_count > 0 && (writer->token_count + tokens > PNG_JOINED_TOKENS_MAX ||
                                    writer->tiles % PNG_GROUP_TILES == 0)) {
        write_block(writer, false);
        memmove(writer->tokens, to, tokens * sizeof *to);
    }
    if (writer->token_count == 0)
        writer->before = bytes[-1];
    writer->token_count += tokens;
    writer->block_bytes += (uint32_t)count;
    writer->tiles++;
    if (last || writer->token_count >= PNG_JOINED_TOKENS_MAX)
        write_block(writer, last);
}

/* Ends the tiles that a row completes. */
static void end_row(struct png_writer *writer, size_t row)
{
    bool last = writer->rows_left == 0;
    if (writer->tiles == 0)
        writer->tile[-1] = (uint8_t)~writer->tile[0]; /* so that the first byte is a literal */
    if (writer->tile_rows_max > 0) {
        if (++writer->tile_rows < writer->tile_rows_max && !last)
            return;
        end_tile(writer, writer->tile, writer->tile_bytes, last);
    } else {
        for (size_t at = 0, piece; at < row; at += piece) {
            piece = png_piece_bytes(row, at);
            end_tile(writer, writer->tile + at, piece, last && at + piece == row);
        }
    }
    writer->tile[-1] = writer->tile[writer->tile_bytes - 1];
    writer->tile_bytes = 0;
    writer->tile_rows = 0;
}

void png_writer_row(struct png_writer *writer, const uint8_t *pixels)
{
    assert(writer->rows_left > 0);
    const struct png_kernels *kernels = writer->kernels;
    uint8_t *row = writer->row, *to = writer->tile + writer->tile_bytes;
    memcpy(row, pixels, writer->row_bytes);
    bool is_column = writer->row_bytes == writer->channels;
    int filter =
        is_column ? 0 : kernels->choose(row, writer->above, writer->row_bytes, writer->channels);
    *to = (uint8_t)filter;
    kernels->filter(filter, row, writer->above, writer->row_bytes, writer->channels, to + 1);
    writer->row = writer->above;
    writer->above = row;
    writer->tile_bytes += writer->row_bytes + 1;
    writer->rows_left--;
    end_row(writer, writer->row_bytes + 1);
    if (writer->rows_left == 0)
        end_stream(writer);
}

/* ---- memory ---- */

static size_t align(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Sizes of the parts of a writer's memory. */
struct parts {
    size_t row, tile, tokens, chunk;
};

static struct parts parts_of(size_t row_bytes)
{
    size_t tile = row_bytes + 1 > PNG_TILE_BYTES ? row_bytes + 1 : PNG_TILE_BYTES;
    return (struct parts){
        .row = align(PNG_PAD + row_bytes + PNG_PAD),
        .tile = align(PNG_PAD + tile + PNG_PAD),
        .tokens = align((PNG_JOINED_TOKENS_MAX + PNG_TILE_BYTES) * sizeof(uint16_t) + PNG_PAD),
        .chunk = align(CHUNK_HEAD_BYTES + PNG_CHUNK_BYTES + PNG_BLOCK_BYTES_MAX + ZLIB_BYTES + 8)};
}

size_t png_writer_bytes(uint32_t width, uint32_t channels)
{
    struct parts parts = parts_of((size_t)width * channels);
    return align(sizeof(struct png_writer)) + 2 * parts.row + parts.tile + parts.tokens +
           parts.chunk;
}

struct png_writer *png_writer_open(uint32_t width, uint32_t height, uint32_t channels,
                                   const struct png_kernels *kernels, png_write_fn *write,
                                   void *context)
{
    struct png_writer *writer = calloc(1, png_writer_bytes(width, channels));
    if (writer == NULL)
        return NULL;
    writer->kernels = kernels != NULL ? kernels : png_kernels_fastest();
    writer->write = write;
    writer->context = context;
    writer->channels = channels;
    writer->rows_left = height;
    writer->row_bytes = (size_t)width * channels;
    writer->tile_rows_max = png_tile_rows(writer->row_bytes + 1);
    writer->adler = 1;
    struct parts parts = parts_of(writer->row_bytes);
    uint8_t *at = (uint8_t *)writer + align(sizeof *writer);
    writer->row = at + PNG_PAD;
    writer->above = at + parts.row + PNG_PAD;
    writer->tile = at + 2 * parts.row + PNG_PAD;
    writer->tokens = (uint16_t *)(at + 2 * parts.row + parts.tile);
    writer->chunk = at + 2 * parts.row + parts.tile + parts.tokens;
    writer->bits.to = writer->chunk + CHUNK_HEAD_BYTES;
    png_bits_put(&writer->bits, PNG_ZLIB_HEADER, 16);
    return writer;
}

void png_writer_close(struct png_writer *writer)
{
    free(writer);
}

/* A tile has fewer than 6 bytes besides those of the stream (png_is_stored), and more than half of
 * PNG_TILE_BYTES, but for the last one of the stream or of a long row. */
size_t png_writer_most(uint32_t width, uint32_t height, uint32_t channels)
{
    size_t row = (size_t)width * channels + 1, stream = row * height;
    size_t rows = png_tile_rows(row);
    size_t tiles = rows > 0 ? (height + rows - 1) / rows
                            : (row - 2 + PNG_PIECE_BYTES - 1) / PNG_PIECE_BYTES * height;
    stream += ZLIB_BYTES + 6 * tiles + 1;
    size_t chunks = (stream + PNG_CHUNK_BYTES - 1) / PNG_CHUNK_BYTES;
    return stream + chunks * (CHUNK_HEAD_BYTES + 4);
}
