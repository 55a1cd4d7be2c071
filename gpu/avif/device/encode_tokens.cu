/*
 * encode_tokens.cu - stage C of the AV1 encoder: the kernels that turn blocks into tokens.
 *
 * 1. count_tokens: a block of threads counts the tokens of a superblock. A thread has a plane of
 *    the block that begins at a cell of 8 x 8, if one does.
 * 2. place_tokens: a block of threads per image finds where the tokens of each thread begin.
 * 3. write_tokens: as count_tokens.
 */
#include "gpu/avif/device/device.h"
#include "gpu/avif/entropy/tokeniser.h"

#define TOKEN_THREADS TOKEN_PARTS
#define PLACE_THREADS 256

/* Tokenises a plane of the block that begins at a cell, if one does; with luma, the partitions that
 * begin there, and its modes. */
SIMT void tokenise_cell(struct avif_tokeniser *to, int left, int top, uint32_t cell, int plane)
{
    int x = 0, y = 0;
    for (int i = 0; i < 3; i++) {
        x |= (int)(cell >> 2 * i & 1) << (3 + i);
        y |= (int)(cell >> (2 * i + 1) & 1) << (3 + i);
    }
    if (left + x >= to->tile.right || top + y >= to->tile.bottom)
        return;
    int size = avif_block_at(to->encoder, left + x, top + y)->size;
    if (((x | y) & ((1 << size) - 1)) != 0)
        return;
    if (plane == 0) {
        for (int above = SUPERBLOCK_SIZE; above >= size; above--)
            if (((x | y) & ((1 << above) - 1)) == 0)
                avif_tokenise_partition(to, left + x, top + y, above, above > size);
        avif_tokenise_modes(to, left + x, top + y);
    }
    if (plane < to->encoder->frame.planes)
        avif_tokenise_plane(to, left + x, top + y, plane);
}

/* Cells in Morton order; warps have one plane. */
SIMT void tokenise_part(struct avif_tokeniser *to, int superblock)
{
    int across = to->encoder->frame.superblocks_x;
    tokenise_cell(to, superblock % across * SUPERBLOCK, superblock / across * SUPERBLOCK,
                  (uint32_t)thread_index() % CELLS, thread_index() / CELLS);
}

/* The thread's place in token_counts: by cells, then by planes. */
SIMT int part_index(int superblock)
{
    return superblock * TOKEN_PARTS + thread_index() % CELLS * PLANES + thread_index() / CELLS;
}

SIMT void begin_tokens(struct avif_tokeniser *to, const struct avif_descriptor *image)
{
    to->encoder = &image->encoder;
    to->tile.left = to->tile.top = 0;
    to->tile.right = 8 * image->encoder.frame.cells_x;
    to->tile.bottom = 8 * image->encoder.frame.cells_y;
    to->tokens = image->tokens;
    to->count = to->room = 0;
}

SIMT int superblocks_of(const struct avif_descriptor *image)
{
    return image->encoder.frame.superblocks_x * image->encoder.frame.superblocks_y;
}

KERNEL(count_tokens, TOKEN_THREADS, 4, struct avif_args)
{
    struct avif_descriptor *image = args.images + block_row();
    int superblock = block_index();
    struct avif_tokeniser tokeniser;
    if (superblock >= superblocks_of(image))
        return;
    begin_tokens(&tokeniser, image);
    tokenise_part(&tokeniser, superblock);
    image->token_counts[part_index(superblock)] = tokeniser.count;
}

KERNEL(place_tokens, PLACE_THREADS, 1, struct avif_args)
{
    SHARED uint32_t sums[WARP_LANES];
    struct avif_descriptor *image = args.images + block_index();
    uint32_t parts = (uint32_t)superblocks_of(image) * TOKEN_PARTS, all = 0, total;
    for (uint32_t first = 0; first < parts; first += PLACE_THREADS) {
        uint32_t i = first + (uint32_t)thread_index();
        uint32_t count = i < parts ? image->token_counts[i] : 0;
        uint32_t before = block_scan(count, &total, sums);
        if (i < parts)
            image->token_counts[i] = all + before;
        all += total;
    }
    if (thread_index() == 0)
        image->token_count = all;
}

KERNEL(write_tokens, TOKEN_THREADS, 4, struct avif_args)
{
    struct avif_descriptor *image = args.images + block_row();
    int superblock = block_index();
    struct avif_tokeniser tokeniser;
    if (superblock >= superblocks_of(image) || image->token_count > image->token_room)
        return;
    begin_tokens(&tokeniser, image);
    tokeniser.count = image->token_counts[part_index(superblock)];
    tokeniser.room = image->token_room;
    tokenise_part(&tokeniser, superblock);
}

int avif_launch_tokens(const struct avif_encode_batch *batch, void *description,
                       struct CUstream_st *stream)
{
    struct avif_args args = avif_args_of(batch, description);
    uint32_t count = args.image_count, blocks = batch->superblocks_max;
    int status = LAUNCH(count_tokens, TOKEN_THREADS, dim3(blocks, count), 0, stream, args);
    if (status == 0)
        status = LAUNCH(place_tokens, PLACE_THREADS, count, 0, stream, args);
    if (status == 0)
        status = LAUNCH(write_tokens, TOKEN_THREADS, dim3(blocks, count), 0, stream, args);
    return status;
}
