/*
 * encode_code.cu - the kernels that code the tokens of the images of a batch, and write the files.
 *
 * 1. map_ranges: maps the range at the start of each chunk of tokens to the one at its end
 *    (bool_coder.h). A lane has a chunk, or a warp a chunk with many ranges.
 * 2. chain_ranges: a block of threads per partition follows the range from chunk to chunk.
 * 3. code_chunks: a lane codes a chunk.
 * 4. link_chunks: a block of threads per image adds the codes of the chunks, and lists the pieces
 *    of its file.
 * 5. write_pieces: a block of threads writes a piece of the file.
 */
#include "gpu/webp/file.h"

#define CODE_THREADS 128
#define CODE_WARPS   (CODE_THREADS / WARP_LANES)
/* Of the kernels with a block per image: for small and for large images. */
#define IMAGE_THREADS     256
#define IMAGE_THREADS_MAX 1024
#define LARGE_MACROBLOCKS 4096
#define PIECE_THREADS     (WEBP_PIECE_BYTES / UNIT_BYTES)
/* Blocks take tasks and pieces in turn, so that a launch has no more blocks than the device can
 * run. */
#define BLOCKS_MAX 2112

struct webp_code_args {
    struct webp_encode_common *common;
    struct webp_encode_descriptor *images;
    struct webp_part *tasks, *pieces;
    uint32_t blocks, chunk_tokens;
};

SIMT struct webp_partition *partition_of(const struct webp_code_args *args, struct webp_part task)
{
    struct webp_encode_descriptor *image = args->images + task.image;
    return task.first & WEBP_PART_MODES ? &image->modes : &image->coefficients;
}

/* Whether a task is a chunk of the header of the frame. */
SIMT bool is_head(const struct webp_code_args *args, struct webp_part task)
{
    uint32_t first = task.first & ~WEBP_PART_MODES;
    return first != task.first && first < WEBP_HEAD_TOKENS / args->chunk_tokens;
}

/* Number of chunks that the warp of a task codes. That of the first task codes all chunks of the
 * header. */
SIMT uint32_t coded_chunks(const struct webp_code_args *args, struct webp_part task)
{
    if (!is_head(args, task))
        return WEBP_TASK_CHUNKS;
    return task.first == WEBP_PART_MODES ? WEBP_HEAD_TOKENS / args->chunk_tokens : 0;
}

KERNEL(map_ranges, CODE_THREADS, 4, struct webp_code_args)
{
    SHARED struct range_steps steps;
    SHARED struct map_columns columns[CODE_WARPS];
    make_steps(&steps);
    uint32_t count = args.common->task_count, warps = args.blocks * CODE_WARPS;
    for (uint32_t i = (uint32_t)(block_index() * CODE_WARPS + thread_index() / WARP_LANES);
         i < count; i += warps) {
        struct webp_part task = args.tasks[i];
        struct webp_partition *partition = partition_of(&args, task);
        uint32_t first = task.first & ~WEBP_PART_MODES, index = first + (uint32_t)lane_index();
        uint32_t size = is_head(&args, task) ? 1 : WEBP_TASK_CHUNKS;
        struct chunk_lane chunk = find_chunks(partition, first, size, args.chunk_tokens);
        if (chunk.end > 0)
            partition->chunks[index].first = chunk.first;
        map_chunks(&chunk, size, partition->tokens, &steps, &columns[thread_index() / WARP_LANES],
                   partition->ranges + (size_t)first * WEBP_RANGES);
    }
}

KERNEL(chain_ranges, IMAGE_THREADS_MAX, 1, struct webp_code_args)
{
    SHARED struct chain_shared shared;
    struct webp_encode_descriptor *image = args.images + block_index();
    chain_chunks(block_row() == 0 ? &image->modes : &image->coefficients, &shared);
}

KERNEL(code_chunks, CODE_THREADS, 4, struct webp_code_args)
{
    SHARED struct range_steps steps;
    make_steps(&steps);
    uint32_t count = args.common->task_count, warps = args.blocks * CODE_WARPS;
    for (uint32_t i = (uint32_t)(block_index() * CODE_WARPS + thread_index() / WARP_LANES);
         i < count; i += warps) {
        struct webp_part task = args.tasks[i];
        struct webp_partition *partition = partition_of(&args, task);
        uint32_t index = (task.first & ~WEBP_PART_MODES) + (uint32_t)lane_index();
        if (index >= partition->chunk_count || (uint32_t)lane_index() >= coded_chunks(&args, task))
            continue;
        uint32_t end = index + 1 < partition->chunk_count ? partition->chunks[index + 1].first
                                                          : partition->token_count;
        code_chunk(partition, index, end, &steps);
    }
}

KERNEL(link_chunks, IMAGE_THREADS_MAX, 1, struct webp_code_args)
{
    SHARED uint32_t sums[WARP_LANES], pieces_at;
    struct webp_encode_descriptor *image = args.images + block_index();
    uint32_t thread = (uint32_t)thread_index();
    uint32_t modes = place_chunks(&image->modes, sums);
    uint32_t coefficients = place_chunks(&image->coefficients, sums);
    add_chunks(&image->modes);
    add_chunks(&image->coefficients);
    if (thread == 0) {
        uint32_t bytes = 0;
        end_partition(&image->modes, modes);
        end_partition(&image->coefficients, coefficients);
        if (!image->declined && file_fits(image))
            bytes = file_layout_of(image).end;
        image->declined = bytes == 0;
        *image->file_bytes = bytes;
        sums[0] = (bytes + WEBP_PIECE_BYTES - 1) / WEBP_PIECE_BYTES;
        pieces_at = atomic_add(&args.common->piece_count, sums[0]);
    }
    block_barrier();
    for (uint32_t i = thread; i < sums[0]; i += (uint32_t)block_threads()) {
        args.pieces[pieces_at + i].image = (uint32_t)block_index();
        args.pieces[pieces_at + i].first = i;
    }
}

KERNEL(write_pieces, PIECE_THREADS, 4, struct webp_code_args)
{
    uint32_t count = args.common->piece_count;
    for (uint32_t i = (uint32_t)block_index(); i < count; i += args.blocks) {
        struct webp_part piece = args.pieces[i];
        const struct webp_encode_descriptor *image = args.images + piece.image;
        struct file_layout layout = file_layout_of(image);
        uint32_t at = piece.first * WEBP_PIECE_BYTES + (uint32_t)thread_index() * UNIT_BYTES;
        if (at < layout.end)
            write_unit(image, &layout, at);
    }
}

/* ---- launch ---- */

static uint32_t blocks_for(uint32_t count, uint32_t each)
{
    uint32_t blocks = (count + each - 1) / each;
    return blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX;
}

int webp_launch_code(const struct webp_encode_batch *batch, void *description,
                     struct CUstream_st *stream)
{
    uint8_t *start = (uint8_t *)description;
    struct webp_code_args args, pieces;
    args.common = (struct webp_encode_common *)start;
    args.images = (struct webp_encode_descriptor *)(start + batch->images_at);
    args.tasks = (struct webp_part *)(start + batch->tasks_at);
    args.pieces = (struct webp_part *)(start + batch->pieces_at);
    args.blocks = blocks_for(batch->task_room, CODE_WARPS);
    args.chunk_tokens = batch->chunk_tokens;
    pieces = args;
    pieces.blocks = blocks_for(batch->piece_room, 1);
    uint32_t threads =
        batch->macroblocks_max < LARGE_MACROBLOCKS ? IMAGE_THREADS : IMAGE_THREADS_MAX;
    int status = LAUNCH(map_ranges, CODE_THREADS, args.blocks, 0, stream, args);
    if (status == 0)
        status = LAUNCH(chain_ranges, threads, dim3(batch->image_count, 2), 0, stream, args);
    if (status == 0)
        status = LAUNCH(code_chunks, CODE_THREADS, args.blocks, 0, stream, args);
    if (status == 0)
        status = LAUNCH(link_chunks, threads, batch->image_count, 0, stream, args);
    if (status == 0)
        status = LAUNCH(write_pieces, PIECE_THREADS, pieces.blocks, 0, stream, pieces);
    return status;
}
