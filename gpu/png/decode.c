/* decode.c - writes the descriptors from which the decoder's kernels decode a batch of PNGs. */
#include "gpu/png/decode.h"

#include <assert.h>
#include <string.h>

#include "gpu/png/decode_impl.h"

/* Length, type and CRC of a chunk. */
#define CHUNK_OVERHEAD 12
/* A batch has about this many blocks of threads for work that is divided evenly, and each image has
 * at most that many of them. */
#define BLOCKS_OF_BATCH 2048
#define BLOCKS_OF_IMAGE 256

static_assert(PNG_DECODE_FILE_BYTES_MAX <= UINT32_MAX / 8 - 65536,
              "bit positions must fit into 32 bits");
static_assert(PNG_DECODE_ROW_BYTES_MAX <= UINT32_MAX - BLOCKS_OF_IMAGE * PNG_ADLER_BYTES,
              "offsets of filtered rows must not wrap around");
static_assert(
    BLOCKS_OF_IMAGE <= UINT32_MAX / 65521 / 32,
    "the sums of Adler-32, to which each of at most 32 warps adds once, must not overflow");

static uint32_t divide_up(uint64_t a, uint32_t b)
{
    return (uint32_t)((a + b - 1) / b);
}

static uint64_t stream_bytes(const struct png_frame *frame)
{
    return ((uint64_t)frame->width * frame->channels + 1) * frame->height;
}

static bool takes(const struct png_frame *frame, size_t file_bytes)
{
    return (frame->channels == 1 || frame->channels == 3 || frame->channels == 4) &&
           frame->width > 0 && frame->height > 0 && frame->width <= SIDE_CEILING &&
           frame->height <= SIDE_CEILING && stream_bytes(frame) <= PNG_DECODE_ROW_BYTES_MAX &&
           file_bytes <= PNG_DECODE_FILE_BYTES_MAX && file_bytes >= CHUNK_OVERHEAD &&
           frame->idat_at >= CHUNK_OVERHEAD && frame->idat_at <= file_bytes - CHUNK_OVERHEAD;
}

/* Returns the next `bytes` of the work memory; NULL if work is NULL, to compute only *used. */
static void *take(uint8_t *work, size_t *used, size_t bytes)
{
    void *at = work ? work + *used : NULL;
    *used += buffer_align(bytes);
    return at;
}

/* Lays out the work memory of an image, and sets the members that depend only on the frame. Returns
 * the size of the work memory. work: NULL to compute only the size. */
static size_t lay_out(struct png_descriptor *to, const struct png_frame *frame, size_t file_bytes,
                      uint8_t *work)
{
    size_t used = 0, data_bytes = file_bytes - frame->idat_at;
    memset(to, 0, sizeof *to);
    to->file_bytes = (uint32_t)file_bytes;
    to->idat_at = frame->idat_at;
    to->row_bytes = frame->width * frame->channels;
    to->stream_bytes = (uint32_t)stream_bytes(frame);
    to->chunks_max = PNG_CHUNKS_LEAST + (uint32_t)data_bytes / PNG_BYTES_PER_CHUNK;
    to->blocks_max = PNG_BLOCKS_LEAST + to->stream_bytes / PNG_BYTES_PER_BLOCK;
    to->idat_bytes_max =
        to->stream_bytes > PNG_CHUNK_BYTES_MAX ? to->stream_bytes : PNG_CHUNK_BYTES_MAX;
    to->run = take(work, &used, sizeof *to->run);
    to->chunks = take(work, &used, sizeof *to->chunks * to->chunks_max);
    to->zlib = take(work, &used, data_bytes);
    to->stream = take(work, &used, (size_t)to->stream_bytes + PNG_STREAM_MARGIN);
    return used;
}

size_t png_decode_work_bytes(const struct png_frame *frame, size_t file_bytes)
{
    struct png_descriptor unused;
    return takes(frame, file_bytes) ? lay_out(&unused, frame, file_bytes, NULL) : 0;
}

/* The blocks of threads per image for `units` of the largest image. */
static uint32_t blocks_for(uint32_t units, size_t count)
{
    uint32_t blocks = divide_up(BLOCKS_OF_BATCH, (uint32_t)count);
    blocks = blocks < BLOCKS_OF_IMAGE ? blocks : BLOCKS_OF_IMAGE;
    return units < blocks ? units : blocks;
}

size_t png_decode_describe(const struct png_decode_image *images, size_t count, void *descriptors,
                           size_t bytes, struct png_decode_batch *batch)
{
    struct png_descriptor *all = descriptors;
    size_t needed = buffer_align(sizeof *all * count);
    uint32_t slices = 1, pieces = 1, rows = 1;
    assert(count > 0 && count <= PNG_DECODE_IMAGES_MAX);
    if (needed > bytes)
        return needed;
    for (size_t i = 0; i < count; i++) {
        const struct png_decode_image *image = &images[i];
        const struct png_frame *frame = image->frame;
        assert(takes(frame, image->file_bytes));
        assert(image->image.width == frame->width && image->image.height == frame->height);
        assert(image->image.channels == frame->channels);
        lay_out(&all[i], frame, image->file_bytes, image->work);
        all[i].file = image->file;
        all[i].image = image->image;
        all[i].verdict = image->verdict;
        uint32_t own = divide_up(all[i].file_bytes - all[i].idat_at, PNG_SLICE_BYTES);
        slices = own > slices ? own : slices;
        own = divide_up(all[i].stream_bytes, PNG_ADLER_BYTES);
        pieces = own > pieces ? own : pieces;
        rows = frame->height > rows ? frame->height : rows;
    }
    batch->image_count = (uint32_t)count;
    batch->slice_blocks = blocks_for(slices, count);
    batch->adler_blocks = blocks_for(pieces, count);
    batch->rows_max = rows;
    return needed;
}
