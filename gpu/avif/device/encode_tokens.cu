/*
 * encode_tokens.cu - stage C of the AV1 encoder: the kernels that turn blocks into tokens.
 *
 * 1. count_tokens: a warp counts the tokens of a superblock. A lane has two cells of 8 x 8, in
 *    Morton order: the blocks that begin there.
 * 2. place_tokens: a block of threads per image finds where the tokens of each lane begin.
 * 3. write_tokens: as count_tokens.
 */
#include "gpu/avif/device/device.h"
#include "gpu/avif/entropy/tokeniser.h"

#define TOKEN_THREADS 128
#define TOKEN_WARPS   (TOKEN_THREADS / WARP_LANES)
#define PLACE_THREADS 256

/* Tokenises the block that begins at a cell, if one does, with the partitions that begin there. */
SIMT void tokenise_cell(struct avif_tokeniser *to, int left, int top, uint32_t cell)
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
    for (int above = SUPERBLOCK_SIZE; above >= size; above--)
        if (((x | y) & ((1 << above) - 1)) == 0)
            avif_tokenise_partition(to, left + x, top + y, above, above > size);
    avif_tokenise_modes(to, left + x, top + y);
    avif_tokenise_transforms(to, left + x, top + y);
}

/* Tokenises the cells of a lane. */
SIMT void tokenise_lane(struct avif_tokeniser *to, int superblock)
{
    int across = to->encoder->frame.superblocks_x;
    int left = superblock % across * SUPERBLOCK, top = superblock / across * SUPERBLOCK;
    for (uint32_t i = 0; i < CELLS / WARP_LANES; i++)
        tokenise_cell(to, left, top, (uint32_t)lane_index() * (CELLS / WARP_LANES) + i);
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

KERNEL(count_tokens, TOKEN_THREADS, 2, struct avif_args)
{
    struct avif_descriptor *image = args.images + block_row();
    int superblock = block_index() * TOKEN_WARPS + thread_index() / WARP_LANES;
    struct avif_tokeniser tokeniser;
    if (superblock >= superblocks_of(image))
        return;
    begin_tokens(&tokeniser, image);
    tokenise_lane(&tokeniser, superblock);
    image->token_counts[superblock * WARP_LANES + lane_index()] = tokeniser.count;
}

KERNEL(place_tokens, PLACE_THREADS, 1, struct avif_args)
{
    SHARED uint32_t sums[WARP_LANES];
    struct avif_descriptor *image = args.images + block_index();
    uint32_t lanes = (uint32_t)superblocks_of(image) * WARP_LANES, all = 0, total;
    for (uint32_t first = 0; first < lanes; first += PLACE_THREADS) {
        uint32_t i = first + (uint32_t)thread_index();
        uint32_t count = i < lanes ? image->token_counts[i] : 0;
        uint32_t before = block_scan(count, &total, sums);
        if (i < lanes)
            image->token_counts[i] = all + before;
        all += total;
    }
    if (thread_index() == 0)
        image->token_count = all;
}

KERNEL(write_tokens, TOKEN_THREADS, 2, struct avif_args)
{
    struct avif_descriptor *image = args.images + block_row();
    int superblock = block_index() * TOKEN_WARPS + thread_index() / WARP_LANES;
    struct avif_tokeniser tokeniser;
    if (superblock >= superblocks_of(image) || image->token_count > image->token_room)
        return;
    begin_tokens(&tokeniser, image);
    tokeniser.count = image->token_counts[superblock * WARP_LANES + lane_index()];
    tokeniser.room = image->token_room;
    tokenise_lane(&tokeniser, superblock);
}

int avif_launch_tokens(const struct avif_encode_batch *batch, void *description,
                       struct CUstream_st *stream)
{
    struct avif_args args = avif_args_of(batch, description);
    uint32_t count = args.image_count;
    uint32_t blocks = (batch->superblocks_max + TOKEN_WARPS - 1) / TOKEN_WARPS;
    int status = LAUNCH(count_tokens, TOKEN_THREADS, dim3(blocks, count), 0, stream, args);
    if (status == 0)
        status = LAUNCH(place_tokens, PLACE_THREADS, count, 0, stream, args);
    if (status == 0)
        status = LAUNCH(write_tokens, TOKEN_THREADS, dim3(blocks, count), 0, stream, args);
    return status;
}
