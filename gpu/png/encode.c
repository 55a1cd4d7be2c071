/* encode.c - writes the description from which the kernels encode a batch of images. */
#include "gpu/png/encode_impl.h"

#include <assert.h>
#include <string.h>

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static uint64_t align_up(uint64_t bytes)
{
    return divide_up(bytes, STRIDE_ALIGN) * STRIDE_ALIGN;
}

/* ---- sizes ---- */

/* The sizes that follow from the sides and the channels of an image. */
struct extent {
    uint64_t group_rows, row_bytes, tile_rows, row_tiles, tiles;
    uint64_t tile_stride, row_stride; /* row_stride: from a long row to the next */
    uint64_t memory_bytes;            /* of the filtered stream in memory */
    uint64_t zlib_bytes, pieces;      /* upper bounds of the zlib stream and of the IDAT chunks */
};

static struct extent extent_of(uint32_t width, uint32_t height, uint32_t channels)
{
    struct extent extent;
    extent.row_bytes = (uint64_t)width * channels + 1;
    extent.tile_rows = png_tile_rows(extent.row_bytes);
    extent.group_rows = extent.tile_rows > 1 ? GROUP_ROWS : 1;
    /* The first tile of a long row has two bytes more. */
    extent.row_tiles = divide_up(extent.row_bytes - 2, PNG_PIECE_BYTES);
    uint64_t rows = extent.tile_rows < height ? extent.tile_rows : height;
    extent.tiles = rows > 0 ? divide_up(height, rows) : extent.row_tiles * height;
    extent.tile_stride = align_up(rows > 0 ? rows * extent.row_bytes : PNG_TILE_BYTES);
    uint64_t pieces_before_last = rows > 0 ? 0 : extent.row_tiles - 1;
    extent.row_stride = pieces_before_last * PNG_TILE_BYTES +
                        align_up(extent.row_bytes - pieces_before_last * PNG_PIECE_BYTES);
    extent.memory_bytes = rows > 0 ? extent.tiles * extent.tile_stride : height * extent.row_stride;
    /* A block has fewer than 6 bytes besides those of the filtered stream: png_is_stored. */
    extent.zlib_bytes =
        ZLIB_HEAD_BITS / 8 + extent.row_bytes * height + 6 * extent.tiles + 1 + ADLER_BYTES;
    extent.pieces = divide_up(extent.zlib_bytes, PNG_CHUNK_BYTES);
    return extent;
}

static struct extent extent_of_image(const struct png_encode_image *image)
{
    return extent_of(image->source.width, image->source.height, image->source.channels);
}

size_t png_encode_capacity(uint32_t width, uint32_t height, uint32_t channels, size_t header_bytes)
{
    if (width > SIDE_CEILING || height > SIDE_CEILING)
        return 0;
    struct extent extent = extent_of(width, height, channels);
    uint64_t bytes = extent.zlib_bytes + extent.pieces * IDAT_BYTES_AROUND + IEND_BYTES;
    return header_bytes < UINT32_MAX && bytes + header_bytes <= UINT32_MAX ? bytes + header_bytes
                                                                           : 0;
}

/* ---- work memory ---- */

struct work_layout {
    size_t tiles_at, counts_at, codes_at, bits_at, bytes;
};

static struct work_layout work_layout(const struct extent *extent)
{
    /* Kernels read up to 32 bytes from an address within the zlib stream, and write three words at
     * its end. */
    enum { spare = 64 };
    struct work_layout layout;
    layout.tiles_at = buffer_align(extent->memory_bytes);
    layout.counts_at =
        layout.tiles_at + buffer_align(extent->tiles * sizeof(struct png_encode_tile));
    layout.codes_at =
        layout.counts_at + buffer_align(extent->tiles * sizeof(struct png_encode_counts));
    layout.bits_at = layout.codes_at + buffer_align(extent->tiles * sizeof(struct png_code));
    layout.bytes = layout.bits_at + buffer_align(extent->zlib_bytes + spare);
    return layout;
}

size_t png_encode_work_bytes(uint32_t width, uint32_t height, uint32_t channels)
{
    struct extent extent = extent_of(width, height, channels);
    return work_layout(&extent).bytes;
}

/* ---- description: powers, descriptors, chunks of rows, of tiles, of pieces ---- */

static uint32_t header_pieces(const struct png_encode_image *image)
{
    return (uint32_t)divide_up(image->header_bytes, HEADER_PIECE_BYTES);
}

static bool is_valid(const struct png_encode_image *image)
{
    const struct image *source = &image->source;
    if (source->width < 1 || source->width > SIDE_CEILING || source->height < 1 ||
        source->height > SIDE_CEILING ||
        (source->channels != 1 && source->channels != 3 && source->channels != 4))
        return false;
    size_t capacity =
        png_encode_capacity(source->width, source->height, source->channels, image->header_bytes);
    return capacity > 0 && capacity <= image->capacity && source->stride % STRIDE_ALIGN == 0 &&
           source->stride <= UINT32_MAX &&
           source->stride >= (size_t)source->width * source->channels &&
           (uintptr_t)source->pixels % PNG_ENCODE_ALIGN == 0 &&
           (uintptr_t)image->file % PNG_ENCODE_ALIGN == 0 &&
           (uintptr_t)image->work % BUFFER_ALIGN == 0 &&
           (uintptr_t)image->header % sizeof(uint32_t) == 0;
}

/* Fills *batch. Returns the size of the description, or SIZE_MAX as png_encode_describe. */
static size_t lay_out(const struct png_encode_image *images, uint32_t count,
                      struct png_encode_batch *batch)
{
    uint64_t rows = 0, tiles = 0, pieces = 0, tiles_max = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_valid(&images[i]))
            return SIZE_MAX;
        struct extent extent = extent_of_image(&images[i]);
        tiles_max = extent.tiles > tiles_max ? extent.tiles : tiles_max;
        rows += divide_up(images[i].source.height, CHUNK_GROUPS * extent.group_rows);
        tiles += divide_up(extent.tiles, CHUNK_TILES);
        pieces += divide_up(extent.pieces + header_pieces(&images[i]), CHUNK_PIECES);
    }
    if (count > INT32_MAX || rows * CHUNK_GROUPS >= INT32_MAX || tiles * CHUNK_TILES > INT32_MAX ||
        pieces * CHUNK_PIECES > INT32_MAX)
        return SIZE_MAX;
    batch->image_count = count;
    batch->tiles_max = (uint32_t)tiles_max;
    batch->row_chunks = (uint32_t)rows;
    batch->tile_chunks = (uint32_t)tiles;
    batch->piece_chunks = (uint32_t)pieces;
    batch->images_at = sizeof(struct png_encode_powers);
    batch->chunks_at = batch->images_at + count * sizeof(struct png_encode_descriptor);
    return batch->chunks_at + (rows + tiles + pieces) * sizeof(struct png_encode_chunk);
}

static void write_descriptor(const struct png_encode_image *image, struct png_encode_descriptor *to)
{
    struct extent extent = extent_of_image(image);
    struct work_layout layout = work_layout(&extent);
    *to = (struct png_encode_descriptor){
        .pixels = image->source.pixels,
        .header = image->header,
        .file = image->file,
        .file_bytes = image->file_bytes,
        .stream = image->work,
        .tiles = (struct png_encode_tile *)(image->work + layout.tiles_at),
        .counts = (struct png_encode_counts *)(image->work + layout.counts_at),
        .codes = (struct png_code *)(image->work + layout.codes_at),
        .bits = (uint32_t *)(image->work + layout.bits_at),
        .stream_bytes = extent.row_bytes * image->source.height,
        .stride = (uint32_t)image->source.stride,
        .width = image->source.width,
        .height = image->source.height,
        .channels = image->source.channels,
        .row_bytes = (uint32_t)extent.row_bytes,
        .group_rows = (uint32_t)extent.group_rows,
        .tile_rows = (uint32_t)extent.tile_rows,
        .row_tiles = (uint32_t)extent.row_tiles,
        .tile_count = (uint32_t)extent.tiles,
        .tile_stride = (uint32_t)extent.tile_stride,
        .row_stride = (uint32_t)extent.row_stride,
        .header_bytes = (uint32_t)image->header_bytes,
        .header_pieces = header_pieces(image),
    };
}

/* Writes the chunks of `count` tasks of an image. Returns the end of the chunks. */
static struct png_encode_chunk *write_chunks(struct png_encode_chunk *chunk, uint32_t image,
                                             uint64_t count, uint32_t per_chunk)
{
    for (uint64_t first = 0; first < count; first += per_chunk)
        *chunk++ = (struct png_encode_chunk){image, (uint32_t)first};
    return chunk;
}

size_t png_encode_describe(const struct png_encode_image *images, uint32_t count, void *description,
                           size_t bytes, struct png_encode_batch *batch)
{
    size_t needed = lay_out(images, count, batch);
    if (needed > bytes)
        return needed;
    uint8_t *start = description;
    struct png_encode_descriptor *descriptors =
        (struct png_encode_descriptor *)(start + batch->images_at);
    struct png_encode_chunk *rows = (struct png_encode_chunk *)(start + batch->chunks_at);
    struct png_encode_chunk *tiles = rows + batch->row_chunks;
    struct png_encode_chunk *pieces = tiles + batch->tile_chunks;
    memset(start, 0, batch->images_at); /* the kernels write these */
    for (uint32_t i = 0; i < count; i++) {
        struct extent extent = extent_of_image(&images[i]);
        write_descriptor(&images[i], &descriptors[i]);
        rows = write_chunks(rows, i, images[i].source.height,
                            (uint32_t)(CHUNK_GROUPS * extent.group_rows));
        tiles = write_chunks(tiles, i, extent.tiles, CHUNK_TILES);
        pieces =
            write_chunks(pieces, i, extent.pieces + descriptors[i].header_pieces, CHUNK_PIECES);
    }
    return needed;
}
