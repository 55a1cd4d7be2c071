/* encode.c - writes the description from which the kernels encode a batch of images. */
#include "gpu/jpeg/encode_impl.h"

#include <assert.h>
#include <string.h>

#include "codecs/jpeg/frame.h"
#include "gpu/jpeg/encode_quality.h"
#include "gpu/jpeg/quant.h"

/* Returns the kind (JPEG_ENCODE_KINDS) of such images; -1: the device cannot encode them. */
static int kind_of(uint32_t channels, uint32_t h, uint32_t v)
{
    if (channels == 1)
        return h == 1 && v == 1 ? 0 : -1;
    if (channels != 3 || v > h || h > 2 || v < 1)
        return -1;
    return h == 1 ? 1 : v == 1 ? 2 : 3;
}

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* The counts that follow from the sides and the sampling of an image. A unit is a block of a gray
 * image, or an MCU. */
struct extent {
    uint64_t row_units, units, tiles, blocks_per_unit;
};

static struct extent extent_of(uint32_t width, uint32_t height, uint32_t channels, uint32_t h,
                               uint32_t v)
{
    struct extent extent;
    extent.row_units = divide_up(width, (uint64_t)DCT_SIDE * h);
    extent.units = extent.row_units * divide_up(height, (uint64_t)DCT_SIDE * v);
    extent.tiles = divide_up(extent.units, channels == 1 ? GRAY_TILE_BLOCKS : COLOUR_TILE_MCUS);
    extent.blocks_per_unit = channels == 1 ? 1 : h * v + 2;
    return extent;
}

static struct extent extent_of_image(const struct jpeg_encode_image *image)
{
    return extent_of(image->source.width, image->source.height, image->source.channels, image->h,
                     image->v);
}

size_t jpeg_encode_capacity_max(uint32_t width, uint32_t height, uint32_t channels, uint32_t h,
                                uint32_t v, size_t header_bytes)
{
    struct extent extent = extent_of(width, height, channels, h, v);
    size_t words = (size_t)(extent.units * extent.blocks_per_unit) * BLOCK_WORDS_MAX;
    /* In the worst case each byte is 0xFF, which is followed by a zero. Two bytes end the file. */
    return header_bytes + words * sizeof(uint32_t) * 2 + 2;
}

static uint32_t capped(size_t capacity)
{
    return capacity < JPEG_ENCODE_FILE_MAX ? (uint32_t)capacity : JPEG_ENCODE_FILE_MAX;
}

/* Returns the number of cells (encode_impl.h) for the bits of all tiles. More are never needed than
 * the worst image takes, or than the bits of a file of `capacity` bytes take. Each tile may have
 * one cell that is not full. */
static uint32_t cell_count(const struct extent *extent, size_t capacity)
{
    uint64_t words = extent->units * extent->blocks_per_unit * BLOCK_WORDS_MAX;
    uint64_t worst = words / CELL_WORDS + extent->tiles;
    uint64_t useful = capped(capacity) / CELL_BYTES + extent->tiles;
    return (uint32_t)(worst < useful ? worst : useful);
}

/* ---- work memory: tiles, placements, cells ---- */

struct work_layout {
    size_t placements_at, cells_at, bytes;
};

static struct work_layout work_layout(const struct extent *extent, size_t capacity)
{
    struct work_layout layout;
    layout.placements_at = buffer_align(extent->tiles * sizeof(struct encode_tile));
    layout.cells_at =
        layout.placements_at + buffer_align(extent->tiles * sizeof(struct encode_placement));
    layout.bytes = layout.cells_at + (size_t)cell_count(extent, capacity) * CELL_BYTES;
    return layout;
}

size_t jpeg_encode_work_bytes(uint32_t width, uint32_t height, uint32_t channels, uint32_t h,
                              uint32_t v, size_t capacity)
{
    struct extent extent = extent_of(width, height, channels, h, v);
    return work_layout(&extent, capacity).bytes;
}

/* ---- description: codes, descriptors, chunks ---- */

/* Number of pieces of the header after the first one, which is written together with a tile. */
static uint64_t more_pieces(size_t header_bytes)
{
    return header_bytes > 0 ? divide_up(header_bytes, HEADER_PIECE_BYTES) - 1 : 0;
}

static uint64_t chunk_count(const struct extent *extent, size_t header_bytes)
{
    return divide_up(extent->tiles + more_pieces(header_bytes), CHUNK_UNITS);
}

/* Whether all quantisers are 1 to 255: then no coefficient, and no difference of DC, is too large
 * for the Huffman codes of baseline files. */
static bool has_baseline_tables(const struct jpeg_encode_image *image)
{
    int count = image->source.channels == 1 ? DCT_AREA : 2 * DCT_AREA;
    bool outside = false;
    for (int i = 0; i < count; i++)
        outside |= image->quant[i] < 1 || image->quant[i] > 255;
    return !outside;
}

static bool has_valid_search(const struct jpeg_encode_image *image)
{
    return image->ssim == 0 ||
           (image->ssim > 0 && image->ssim < SSIM_ONE && image->quality_min >= QUALITY_LOWEST &&
            image->quality_min <= image->quality_max && image->quality_max <= QUALITY_HIGHEST);
}

static bool is_valid(const struct jpeg_encode_image *image)
{
    const struct image *source = &image->source;
    return source->width >= 1 && source->width <= SIDE_CEILING && source->height >= 1 &&
           source->height <= SIDE_CEILING && kind_of(source->channels, image->h, image->v) >= 0 &&
           source->stride % STRIDE_ALIGN == 0 && source->stride <= UINT32_MAX / DCT_SIDE &&
           source->stride >= (size_t)source->width * source->channels &&
           (uintptr_t)source->pixels % JPEG_ENCODE_ALIGN == 0 &&
           (uintptr_t)image->file % JPEG_ENCODE_ALIGN == 0 &&
           (uintptr_t)image->work % BUFFER_ALIGN == 0 &&
           (uintptr_t)image->header % sizeof(uint32_t) == 0 &&
           image->header_bytes <= ENCODE_HEADER_MAX && has_baseline_tables(image) &&
           has_valid_search(image);
}

/* Adds the searches to *batch. end: of the rest of the description. Returns the new end. */
static size_t lay_out_searches(const struct jpeg_encode_image *images, uint32_t count, size_t end,
                               struct jpeg_encode_batch *batch)
{
    uint64_t searches = 0, chunks = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (images[i].ssim == 0)
            continue;
        uint32_t trials = encode_search_trials(&images[i]);
        searches++;
        chunks += encode_search_describe(&images[i], 0, 0, NULL, NULL);
        batch->search_trials = trials > batch->search_trials ? trials : batch->search_trials;
    }
    if (searches == 0)
        return end;
    if (chunks * CHUNK_UNITS > INT32_MAX)
        return SIZE_MAX;
    batch->search_chunks = (uint32_t)chunks;
    batch->searches_at = divide_up(end, JPEG_ENCODE_ALIGN) * JPEG_ENCODE_ALIGN;
    batch->search_chunks_at = batch->searches_at + searches * sizeof(struct encode_search);
    return batch->search_chunks_at + (size_t)chunks * sizeof(struct encode_chunk);
}

/* Fills *batch. Returns the size of the description, or SIZE_MAX as jpeg_encode_describe. */
static size_t lay_out(const struct jpeg_encode_image *images, uint32_t count,
                      struct jpeg_encode_batch *batch)
{
    uint64_t of_kind[JPEG_ENCODE_KINDS] = {0}, chunks = 0;
    memset(batch, 0, sizeof *batch);
    for (uint32_t i = 0; i < count; i++) {
        const struct jpeg_encode_image *image = &images[i];
        if (!image->is_checked && !is_valid(image))
            return SIZE_MAX;
        struct extent extent = extent_of_image(image);
        of_kind[kind_of(image->source.channels, image->h, image->v)] +=
            chunk_count(&extent, image->header_bytes);
        if (extent.tiles > batch->tiles_max)
            batch->tiles_max = (uint32_t)extent.tiles;
    }
    for (int kind = 0; kind < JPEG_ENCODE_KINDS; kind++) {
        chunks += of_kind[kind];
        batch->chunks[kind + 1] = (uint32_t)chunks;
    }
    batch->image_count = count;
    batch->chunks_at = CODES_BYTES + count * sizeof(struct encode_descriptor);
    if (count > INT32_MAX || chunks * CHUNK_UNITS > INT32_MAX)
        return SIZE_MAX;
    return lay_out_searches(images, count,
                            batch->chunks_at + (size_t)chunks * sizeof(struct encode_chunk), batch);
}

/* ---- Huffman codes ---- */

static void fill_codes(const struct jpeg_huffman *table, uint32_t *codes)
{
    uint32_t code = 0, index = 0;
    for (uint32_t length = 1; length <= 16; length++, code <<= 1)
        for (int i = 0; i < table->counts[length - 1]; i++, code++, index++) {
            uint32_t symbol = table->symbols[index], bits = symbol & 15;
            codes[symbol] = code << bits << 5 | (length + bits);
        }
}

static void write_codes(uint32_t *codes)
{
    memset(codes, 0, CODES_BYTES);
    for (int set = 0; set < 2; set++) {
        fill_codes(&jpeg_standard_tables[2 * set], codes + set * CODES_WORDS + CODES_DC);
        fill_codes(&jpeg_standard_tables[2 * set + 1], codes + set * CODES_WORDS + CODES_AC);
    }
}

/* ---- descriptors ---- */

static void write_reciprocals(const uint16_t *quant, float reciprocals[DCT_AREA])
{
    for (int row = 0; row < DCT_SIDE; row++)
        for (int column = 0; column < DCT_SIDE; column++)
            reciprocals[DCT_SIDE * column + row] = quant_reciprocal(quant[DCT_SIDE * row + column]);
}

/* before: the image whose descriptor is before `to`, or NULL. Usually its factors are the same. */
static void write_factors(const struct jpeg_encode_image *image,
                          const struct jpeg_encode_image *before, struct encode_descriptor *to)
{
    int tables = image->source.channels > 1 ? 2 : 1;
    size_t bytes = (size_t)tables * DCT_AREA * sizeof *image->quant;
    if (before && before->source.channels == image->source.channels &&
        memcmp(before->quant, image->quant, bytes) == 0) {
        memcpy(to->reciprocals, to[-1].reciprocals, sizeof to->reciprocals);
        return;
    }
    for (int i = 0; i < tables; i++)
        write_reciprocals(image->quant + i * DCT_AREA, to->reciprocals[i]);
}

static void write_descriptor(const struct jpeg_encode_image *image,
                             const struct jpeg_encode_image *before, const struct extent *extent,
                             struct encode_descriptor *to)
{
    struct work_layout layout = work_layout(extent, image->capacity);
    memset(to, 0, sizeof *to);
    to->pixels = image->source.pixels;
    to->file = image->file;
    to->file_bytes = image->file_bytes;
    to->header = image->header;
    to->tiles = (struct encode_tile *)image->work;
    to->placements = (struct encode_placement *)(image->work + layout.placements_at);
    to->cells = (uint32_t *)(image->work + layout.cells_at);
    to->cell_count = cell_count(extent, image->capacity);
    to->stride = (uint32_t)image->source.stride;
    to->width = image->source.width;
    to->height = image->source.height;
    to->row_units = (uint32_t)extent->row_units;
    to->row_reciprocal = (uint32_t)divide_up(1ull << 32, extent->row_units); /* unused for 1 */
    to->unit_count = (uint32_t)extent->units;
    to->tile_count = (uint32_t)extent->tiles;
    to->header_bytes = (uint32_t)image->header_bytes;
    to->more_pieces = (uint32_t)more_pieces(image->header_bytes);
    to->capacity = capped(image->capacity);
    write_factors(image, before, to);
}

/* The parts of the description that are written next. */
struct writer {
    struct encode_descriptor *descriptors;
    struct encode_chunk *chunk, *search_chunk;
    struct encode_search *searches;
    uint32_t index, search_index; /* of the next descriptor, and of the next search */
};

/* Writes the search of the image, if it has one. */
static void write_search(const struct jpeg_encode_image *image, struct writer *to)
{
    if (image->ssim == 0)
        return;
    to->search_chunk += encode_search_describe(image, to->index, to->search_index,
                                               &to->searches[to->search_index], to->search_chunk);
    to->search_index++;
}

/* Writes the descriptor, the chunks and the search of an image. before: as for write_factors. */
static void describe_image(const struct jpeg_encode_image *image,
                           const struct jpeg_encode_image *before, struct writer *to)
{
    struct extent extent = extent_of_image(image);
    uint32_t chunks = (uint32_t)chunk_count(&extent, image->header_bytes);
    write_descriptor(image, before, &extent, &to->descriptors[to->index]);
    for (uint32_t i = 0; i < chunks; i++)
        *to->chunk++ = (struct encode_chunk){to->index, i * CHUNK_UNITS};
    write_search(image, to);
    to->index++;
}

size_t jpeg_encode_describe(const struct jpeg_encode_image *images, uint32_t count,
                            void *description, size_t bytes, struct jpeg_encode_batch *batch)
{
    size_t needed = lay_out(images, count, batch);
    if (needed > bytes)
        return needed;
    uint8_t *start = description;
    struct writer to = {
        .descriptors = (struct encode_descriptor *)(start + CODES_BYTES),
        .chunk = (struct encode_chunk *)(start + batch->chunks_at),
        .searches = (struct encode_search *)(start + batch->searches_at),
        .search_chunk = (struct encode_chunk *)(start + batch->search_chunks_at),
    };
    const struct jpeg_encode_image *before = NULL;
    write_codes((uint32_t *)start);
    for (int kind = 0; kind < JPEG_ENCODE_KINDS; kind++)
        for (uint32_t i = 0; i < count; i++) {
            const struct jpeg_encode_image *image = &images[i];
            if (kind_of(image->source.channels, image->h, image->v) != kind)
                continue;
            describe_image(image, before, &to);
            before = image;
        }
    return needed;
}
