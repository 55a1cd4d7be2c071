/*
 * encode.cu - the kernels that encode a batch of images as lossy WebP files.
 *
 * 1. import: converts the pixels to planes of luma and chroma. A warp has two macroblocks.
 * 2. analyse: computes the alpha of each macroblock, and counts the alphas of the image.
 * 3. choose_segments: a warp per image groups the alphas into segments, and chooses quantisers.
 * 4. choose_modes: chooses the modes of each macroblock and computes its levels. A warp has a row
 *    of macroblocks, of luma or of chroma. It waits for the samples that it needs of the row above.
 *
 * encode_tokens.cu and encode_code.cu have the kernels that write the file.
 */
#include "gpu/webp/analysis.h"
#include "gpu/webp/chroma.h"
#include "gpu/webp/import.h"
#include "gpu/webp/luma.h"
#include "gpu/webp/segments.h"

#define MODE_THREADS (MODE_WARPS * WARP_LANES)
/* Blocks of threads that a device of 132 multiprocessors runs at once, or four times as many. Each
 * does several tasks. */
#define IMPORT_BLOCKS  528
#define ANALYSE_BLOCKS 4224
#define MODE_BLOCKS    792

struct webp_encode_args {
    struct webp_encode_descriptor *images;
    struct webp_encode_common *common;
    uint32_t image_count, rows_max;
    uint32_t import_blocks, analyse_blocks; /* of threads per image */
    uint32_t mode_blocks;
};

/* ---- planes ---- */

KERNEL(import, IMPORT_THREADS, 4, struct webp_encode_args)
{
    SHARED struct import_shared shared;
    struct webp_encode_descriptor *image = args.images + block_row();
    copy_tables(&shared, args.common);
    if (block_index() == 0) {
        if (thread_index() < 256)
            image->alpha_counts[thread_index()] = 0;
        if (thread_index() == 0)
            image->uv_alpha_sum = image->declined = 0;
        if (thread_index() == 0 && block_row() == 0)
            args.common->rows_taken = 0;
    }
    block_barrier();
    uint32_t across = (image->columns + 1) / 2, count = across * image->rows;
    uint32_t warp = (uint32_t)(block_index() * IMPORT_WARPS + thread_index() / WARP_LANES);
    for (uint32_t i = warp; i < count; i += args.import_blocks * IMPORT_WARPS)
        import_macroblocks(&shared, image, i % across * 2, i / across);
}

/* ---- analysis ---- */

KERNEL(analyse, ANALYSE_THREADS, 8, struct webp_encode_args)
{
    SHARED struct analyse_shared shared[ANALYSE_WARPS];
    struct webp_encode_descriptor *image = args.images + block_row();
    uint32_t warp = (uint32_t)(block_index() * ANALYSE_WARPS + thread_index() / WARP_LANES);
    uint32_t count = image->columns * image->rows, sum = 0;
    for (uint32_t i = 2 * warp; i < count; i += 2 * args.analyse_blocks * ANALYSE_WARPS)
        sum += analyse_macroblocks(&shared[thread_index() / WARP_LANES], image, i);
    if (lane_index() == 0 && sum > 0)
        atomic_add(&image->uv_alpha_sum, sum);
}

/* ---- segments ---- */

KERNEL(choose_segments, WARP_LANES, 1, struct webp_encode_args)
{
    SHARED struct webp_frame frame;
    SHARED uint32_t map[WEBP_SEGMENTS];
    const struct webp_encode_descriptor *image = args.images + block_index();
    struct clusters clusters;
    uint32_t counts[LANE_ALPHAS];
    int lane = lane_index();
    UNROLL
    for (int i = 0; i < LANE_ALPHAS; i++)
        counts[i] = image->alpha_counts[lane * LANE_ALPHAS + i];
    find_clusters(&clusters, counts);
    if (lane < WEBP_SEGMENTS)
        set_quant(&frame.segments[lane], &clusters, image->quants);
    warp_barrier();
    if (lane == 0)
        set_frame(&frame, &clusters, image->uv_alpha_sum, image->columns * image->rows, map);
    warp_barrier();
    if (lane < WEBP_SEGMENTS)
        set_segment(&frame.segments[lane], &frame);
    UNROLL
    for (int i = 0; i < LANE_ALPHAS; i++) {
        int alpha = lane * LANE_ALPHAS + i;
        frame.segment_of[alpha] = (uint8_t)map[cluster_of(&clusters, alpha)];
    }
    warp_barrier();
    for (uint32_t i = (uint32_t)lane; i < sizeof frame / sizeof(uint32_t); i += WARP_LANES)
        ((uint32_t *)(void *)image->frame)[i] = ((const uint32_t *)(const void *)&frame)[i];
}

/* ---- modes ---- */

/* A task is the luma or the chroma of a row. Warps take tasks in this order: the luma of the top
 * rows of all images, their chroma, then the second rows. So a row waits only for rows that have
 * been taken. */
LONG_KERNEL(choose_modes, MODE_THREADS, 6, struct webp_encode_args)
{
    SHARED struct mode_shared shared;
    uint32_t warp = (uint32_t)(thread_index() / WARP_LANES);
    for (int i = thread_index(); i < WEBP_MODES * WEBP_MODES * WEBP_MODES; i += MODE_THREADS)
        shared.costs[i] = mode_costs[i];
    block_barrier();
    struct mode_row row;
    row.factors = lane_factors_of(lane_index());
    NO_UNROLL
    for (;;) {
        uint32_t task = lane_index() == 0 ? atomic_add(&args.common->rows_taken, 1) : 0;
        task = warp_read(task, 0);
        row.y = task / (2 * args.image_count);
        if (row.y >= args.rows_max)
            break;
        row.image = args.images + task % args.image_count;
        row.frame = row.image->frame;
        row.header_bits_max = (uint32_t)row.frame->header_bits_max;
        if (row.y >= row.image->rows)
            continue;
        if (task / args.image_count % 2 == 0)
            code_luma_row(&shared, warp, &row);
        else
            code_chroma_row((struct chroma_shared *)(void *)shared.warps[warp], &row);
    }
}

/* ---- launch ---- */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* needed: blocks that an image can use; all: of the batch. */
static uint32_t blocks_of_image(uint32_t needed, uint32_t all, uint32_t count)
{
    return least(needed, all > count ? all / count : 1);
}

static struct webp_encode_args args_of(const struct webp_encode_batch *batch, void *description)
{
    uint8_t *start = (uint8_t *)description;
    uint32_t count = batch->image_count;
    uint32_t import_warps = divide_up(batch->columns_max, 2) * batch->rows_max;
    uint32_t analyse_warps = divide_up(batch->macroblocks_max, 2);
    struct webp_encode_args args;
    args.common = (struct webp_encode_common *)start;
    args.images = (struct webp_encode_descriptor *)(start + batch->images_at);
    args.image_count = count;
    args.rows_max = batch->rows_max;
    args.import_blocks =
        blocks_of_image(divide_up(import_warps, IMPORT_WARPS), IMPORT_BLOCKS, count);
    args.analyse_blocks =
        blocks_of_image(divide_up(analyse_warps, ANALYSE_WARPS), ANALYSE_BLOCKS, count);
    args.mode_blocks = least(divide_up(2 * count * batch->rows_max, MODE_WARPS), MODE_BLOCKS);
    return args;
}

int webp_encode_launch(const struct webp_encode_batch *batch, void *description,
                       struct CUstream_st *stream)
{
    struct webp_encode_args args = args_of(batch, description);
    uint32_t count = args.image_count;
    int status = LAUNCH(import, IMPORT_THREADS, dim3(args.import_blocks, count), 0, stream, args);
    if (status == 0)
        status =
            LAUNCH(analyse, ANALYSE_THREADS, dim3(args.analyse_blocks, count), 0, stream, args);
    if (status == 0)
        status = LAUNCH(choose_segments, WARP_LANES, count, 0, stream, args);
    if (status == 0)
        status = LAUNCH(choose_modes, MODE_THREADS, args.mode_blocks, 0, stream, args);
    if (status == 0)
        status = webp_launch_tokens(batch, description, stream);
    if (status == 0)
        status = webp_launch_code(batch, description, stream);
    return status;
}
