/*
 * encode_blocks.cu - stage B of the AV1 encoder: the kernel that reconstructs the blocks.
 *
 * A block of threads has a row of superblocks. Its first warp has the upper 32 rows of samples, and
 * all blocks of 64 x 64; its second warp has the lower 32 rows. A block needs only the blocks above
 * it and to its left, since the modes are DC, V and H: so each warp goes on as soon as the strip
 * above has reconstructed what it needs.
 */
#include "gpu/avif/device/strip_levels.h"
#include "gpu/avif/device/warp.h"
#include "gpu/avif/predict/cfl.h"
#include "gpu/avif/predict/modes.h"

#define STRIP_SIZE    5
#define STRIP         (1 << STRIP_SIZE)
#define STRIP_THREADS (STRIPS * WARP_LANES)
/* Blocks of threads on a multiprocessor, whose shared memory they fill, and of a device with 132
 * multiprocessors. */
#define STRIP_BLOCKS_EACH 8
#define STRIP_BLOCKS      (132 * STRIP_BLOCKS_EACH)

struct strip_shared {
    struct avif_encoder encoder; /* of the image, and its quantisers */
    struct strip_quantiser quantiser;
    struct strip_scans scans;
    struct strip_work work[STRIPS];
    uint32_t task;
} __attribute__((aligned(16)));

/* What the threads know of their row. */
struct coding {
    struct strip_shared *shared;
    struct strip_work *work; /* of the warp */
    const struct avif_encoder *encoder;
    struct strip_order order;
    int right, bottom; /* of the frame's cells */
};

/* A block that a warp reconstructs, and the results. */
struct coded {
    int x, y, size, mode, type, activity;
    int ends[PLANES];
    int uv_mode, alphas[2];
};

/* The lane's part of a block of a plane: of `plane`, or if there are two parts, of the next one. */
SIMT struct strip_block block_at(const struct coding *coding, const struct coded *coded, int plane,
                                 int parts)
{
    int shift = plane > 0, size = coded->size - shift, own = plane + strip_part(size, parts);
    const struct avif_plane *source = &coding->encoder->source[own];
    const struct avif_plane *to = &coding->encoder->reconstruction[own];
    struct strip_block block = {avif_sample_at(source, coded->x >> shift, coded->y >> shift),
                                avif_sample_at(to, coded->x >> shift, coded->y >> shift),
                                source->stride,
                                size,
                                parts,
                                coding->work->above + strip_part(size, parts) * 32,
                                1,
                                0};
    return block;
}

/* The samples around a block. Beyond the frame, the last ones are repeated. */
struct strip_edges {
    bool has_above, has_left;
    int last_x, last_y;
};

SIMT struct strip_edges edges_of(const struct coding *coding, const struct coded *coded, int shift)
{
    struct strip_edges to = {coded->y > 0, coded->x > 0, ((coding->right - coded->x) >> shift) - 1,
                             ((coding->bottom - coded->y) >> shift) - 1};
    return to;
}

SIMT int sample_above(const struct strip_edges *edges, const struct strip_block *block, int x)
{
    const uint8_t *row = block->to - block->stride;
    return edges->has_above  ? row[avif_min(x, edges->last_x)]
           : edges->has_left ? *(block->to - 1)
                             : 127;
}

SIMT int sample_left(const struct strip_edges *edges, const struct strip_block *block, int y)
{
    const uint8_t *column = block->to - 1;
    return edges->has_left    ? column[(size_t)avif_min(y, edges->last_y) * block->stride]
           : edges->has_above ? *(block->to - block->stride)
                              : 129;
}

/* As avif_dc. sum: of all samples */
SIMT int dc_of(const struct strip_edges *edges, int size, int sum)
{
    int side = 1 << size;
    if (!edges->has_above && !edges->has_left)
        return 128;
    return edges->has_above && edges->has_left ? (sum + side) >> (size + 1)
                                               : (sum + side / 2) >> size;
}

/* Predicts a block of one plane. Chroma has the mode DC. */
SIMT void predict(const struct coding *coding, const struct coded *coded, int plane,
                  struct strip_block *block)
{
    struct strip_edges edges = edges_of(coding, coded, plane > 0);
    struct strip_work *work = coding->work;
    int size = block->size, side = 1 << size, mode = plane > 0 ? DC_PRED : coded->mode, sum = 0;
    for (int i = lane_index(); i < side; i += WARP_LANES) {
        int above = sample_above(&edges, block, i), left = sample_left(&edges, block, i);
        work->above[i] = (uint8_t)above;
        work->left[i] = (uint8_t)left;
        sum += (edges.has_above ? above : 0) + (edges.has_left ? left : 0);
    }
    if (warp_any(mode == DC_PRED)) {
        int dc = dc_of(&edges, size, (int)warp_sum((uint32_t)sum));
        for (int i = lane_index(); i < side; i += WARP_LANES)
            work->above[i] = (uint8_t)dc;
    }
    if (mode == H_PRED) {
        block->predicted = work->left;
        block->across = 0;
        block->down = 1;
    }
}

/* ---- levels ---- */

/* Codes the differences of blocks and their predictions. type: of a block of luma */
SIMT void code_parts(const struct coding *coding, struct coded *coded, int plane, int type,
                     const struct strip_block *block)
{
    struct strip_share share = strip_share_of(block->size, block->parts);
    int shift = plane > 0, units = block->size - 2, own = plane + share.part;
    bool identity = warp_any(type == IDENTITY);
    if (identity)
        strip_forward_identity(coding->work, block);
    else
        (void)strip_forward(coding->work, block);
    struct strip_levels made =
        strip_quantise(coding->work, &coding->order, &coding->shared->quantiser,
                       plane == 0 ? coded->activity : STRIP_CHROMA, block->size, block->parts,
                       avif_levels_of(coding->encoder, own, coded->x, coded->y));
    int rows =
        (int)warp_read((uint32_t)made.rows, strip_part(block->size, block->parts) * share.lanes);
    if (!warp_any(made.end > 0))
        strip_predict(block);
    else if (identity)
        strip_inverse_identity(coding->work, block);
    else
        strip_inverse(coding->work, block, rows);
    for (int i = share.lane; i < 1 << 2 * units; i += share.lanes)
        *avif_context_at(coding->encoder, own, (coded->x >> shift) + (i & ((1 << units) - 1)) * 4,
                         (coded->y >> shift) + (i >> units) * 4) = made.context;
    int first = (int)warp_read((uint32_t)made.end, 0);
    int last = (int)warp_read((uint32_t)made.end, WARP_LANES - share.lanes);
    if (plane == 0)
        coded->ends[0] = first;
    if (plane == 1)
        coded->ends[1] = first;
    if (plane + block->parts - 1 == 2)
        coded->ends[2] = last;
    warp_barrier();
}

/* ---- chroma ---- */

/* Sums over a chroma block of 8 times the luma of each sample, as avif_cfl_luma has it; `planes`:
 * of the source of U and V. */
struct luma_sums {
    int luma, squares, planes[2], products[2];
};

/* The luma of a block, which has one transform, so that its luma is reconstructed as a whole. */
SIMT int luma_at(const struct coding *coding, const struct coded *coded, int x, int y)
{
    const struct avif_plane *luma = &coding->encoder->reconstruction[0];
    const uint8_t *at = avif_sample_at(luma, coded->x + 2 * x, coded->y + 2 * y);
    uint32_t two = *(const uint16_t *)(const void *)at;
    uint32_t below = *(const uint16_t *)(const void *)(at + luma->stride);
    return 2 * (int)((two & 255) + (two >> 8) + (below & 255) + (below >> 8));
}

SIMT struct luma_sums sum_luma(const struct coding *coding, const struct coded *coded)
{
    struct luma_sums sums = {0, 0, {0, 0}, {0, 0}};
    int size = coded->size - 1, side = 1 << size;
    for (int i = lane_index(); i < side * side; i += WARP_LANES) {
        int x = i & (side - 1), y = i >> size, luma = luma_at(coding, coded, x, y);
        sums.luma += luma;
        sums.squares += luma * luma;
        UNROLL
        for (int k = 0; k < 2; k++) {
            int value = *avif_sample_at(&coding->encoder->source[1 + k], coded->x / 2 + x,
                                        coded->y / 2 + y);
            sums.planes[k] += value;
            sums.products[k] += luma * value;
        }
    }
    sums.luma = (int)warp_sum((uint32_t)sums.luma);
    sums.squares = (int)warp_sum((uint32_t)sums.squares);
    UNROLL
    for (int k = 0; k < 2; k++) {
        sums.planes[k] = (int)warp_sum((uint32_t)sums.planes[k]);
        sums.products[k] = (int)warp_sum((uint32_t)sums.products[k]);
    }
    return sums;
}

/* As make_fit of chroma.c, and the decision. dc: of both planes. The sums fit in 32 bits, and so do
 * those of the differences from the means, which follow from them. */
SIMT void choose_chroma(const struct coding *coding, struct coded *coded,
                        const struct luma_sums *sums, const int dc[2], int mean)
{
    const struct avif_quantiser *quantiser = &coding->shared->quantiser.of;
    int count = 1 << 2 * (coded->size - 1), products[2], bits = BITS_CFL;
    int square = (int)((uint32_t)sums->squares - 2u * (uint32_t)mean * (uint32_t)sums->luma +
                       (uint32_t)(count * mean) * (uint32_t)mean);
    UNROLL
    for (int i = 0; i < 2; i++)
        products[i] = (int)((uint32_t)sums->products[i] - (uint32_t)dc[i] * (uint32_t)sums->luma -
                            (uint32_t)mean * (uint32_t)(sums->planes[i] - count * dc[i]));
    /* As avif_cfl_alpha: 16 lanes for each plane compare with 1 to 16 times the square. */
    int own = lane_index() < 16 ? products[0] : products[1];
    int64_t scaled = 64 * (int64_t)avif_abs(own) + square / 2, gain = 0;
    uint32_t reached =
        warp_ballot(square > 0 && scaled >= (int64_t)square * (lane_index() % 16 + 1));
    UNROLL
    for (int i = 0; i < 2; i++) {
        int alpha = count_bits(reached >> 16 * i & 0xFFFF);
        alpha = products[i] < 0 ? -alpha : alpha;
        gain += avif_cfl_gain(alpha, products[i], square);
        bits += alpha != 0 ? BITS_CFL_ALPHA : 0;
        coded->alphas[i] = alpha;
    }
    bool fits = gain > avif_cost_of(quantiser, bits) - avif_cost_of(quantiser, BITS_CHROMA_MODE);
    coded->uv_mode = fits ? CFL_PRED : DC_PRED;
    coded->alphas[0] = fits ? coded->alphas[0] : 0;
    coded->alphas[1] = fits ? coded->alphas[1] : 0;
}

/* Predicts a block of both planes, by DC or from luma. */
SIMT void predict_both(const struct coding *coding, struct coded *coded, struct strip_block *block)
{
    struct strip_edges edges = edges_of(coding, coded, 1);
    struct luma_sums sums = sum_luma(coding, coded);
    int size = block->size, side = 1 << size, own = lane_index() / 16, at = lane_index() % 16;
    int sum = 0, dc[2];
    struct strip_block plane = *block;
    plane.to =
        avif_sample_at(&coding->encoder->reconstruction[1 + own], coded->x / 2, coded->y / 2);
    if (at < side)
        sum = (edges.has_above ? sample_above(&edges, &plane, at) : 0) +
              (edges.has_left ? sample_left(&edges, &plane, at) : 0);
    dc[0] = dc_of(&edges, size, (int)warp_sum(own == 0 ? (uint32_t)sum : 0));
    dc[1] = dc_of(&edges, size, (int)warp_sum(own == 1 ? (uint32_t)sum : 0));
    int mean = (sums.luma + (1 << (2 * size) >> 1)) >> (2 * size);
    choose_chroma(coding, coded, &sums, dc, mean);
    if (warp_any(coded->uv_mode == DC_PRED)) {
        coding->work->above[lane_index()] = (uint8_t)dc[0];
        coding->work->above[32 + lane_index()] = (uint8_t)dc[1];
        return;
    }
    uint8_t *to = coding->work->from_luma;
    for (int i = lane_index(); i < side * side; i += WARP_LANES) {
        int luma = luma_at(coding, coded, i & (side - 1), i >> size) - mean;
        to[i] = (uint8_t)avif_clip(dc[0] + avif_cfl_part(coded->alphas[0], luma));
        to[side * side + i] = (uint8_t)avif_clip(dc[1] + avif_cfl_part(coded->alphas[1], luma));
    }
    block->predicted = to + strip_part(size, 2) * side * side;
    block->down = side;
}

/* ---- blocks ---- */

SIMT void put_block(const struct coding *coding, const struct coded *coded, int size)
{
    struct avif_block block;
    int cells = size - 3;
    memset(&block, 0, sizeof block);
    block.size = block.transform_size = (uint8_t)size;
    block.mode = (uint8_t)coded->mode;
    block.uv_mode = (uint8_t)coded->uv_mode;
    block.cfl[0] = (int8_t)coded->alphas[0];
    block.cfl[1] = (int8_t)coded->alphas[1];
    block.types[0] = (uint8_t)coded->type;
    block.ends[0] = (uint16_t)coded->ends[0];
    block.ends[4] = (uint16_t)coded->ends[1];
    block.ends[5] = (uint16_t)coded->ends[2];
    block.skip = (coded->ends[0] | coded->ends[1] | coded->ends[2]) == 0;
    for (int i = lane_index(); i < 1 << 2 * cells; i += WARP_LANES) {
        int x = coded->x + (i & ((1 << cells) - 1)) * 8, y = coded->y + (i >> cells) * 8;
        if (x < coding->right && y < coding->bottom)
            *avif_block_at(coding->encoder, x, y) = block;
    }
}

/* choice: as load_choice */
SIMT void code_block(const struct coding *coding, int x, int y, int size, uint32_t choice)
{
    struct coded coded = {x,
                          y,
                          size,
                          (int)(choice & 255),
                          (int)(choice >> 8 & 255),
                          (int)(choice >> 16 & 255),
                          {0, 0, 0},
                          DC_PRED,
                          {0, 0}};
    int parts = size < SUPERBLOCK_SIZE ? 2 : 1, planes = coding->encoder->frame.planes;
    warp_barrier(); /* others have written the edges */
    /* Luma, then both chroma planes at once or one after the other: so the code of a transform is
     * there only once. */
    NO_UNROLL
    for (int plane = 0; warp_any(plane < planes); plane += plane > 0 ? parts : 1) {
        struct strip_block block = block_at(coding, &coded, plane, plane > 0 ? parts : 1);
        if (warp_any(plane > 0 && parts == 2))
            predict_both(coding, &coded, &block);
        else
            predict(coding, &coded, plane, &block);
        code_parts(coding, &coded, plane, plane == 0 ? coded.type : DCT_DCT, &block);
    }
    put_block(coding, &coded, size);
}

/* Choices of stage A on 32 columns of a strip: those of its blocks by size, the largest one first,
 * then by rows; and that of a block of 64 x 64 which begins there. A lane has one. */
#define CHOICE_WHOLE 21
#define CHOICE_SPLIT (1u << 24)

/* Bits 0 to 7: the mode; 8 to 15: the type; 16 to 23: the activity; CHOICE_SPLIT */
SIMT uint32_t load_choice(const struct coding *coding, int left, int top)
{
    int lane = lane_index(), size = 6, i = 0;
    if (lane < CHOICE_WHOLE) {
        size = lane < 1 ? 5 : lane < 5 ? 4 : 3;
        i = lane - (lane < 1 ? 0 : lane < 5 ? 1 : 5);
    }
    int across = size < STRIP_SIZE ? STRIP_SIZE - size : 0;
    int x = left + ((i & ((1 << across) - 1)) << size), y = top + (i >> across << size);
    const struct avif_choice *choice = avif_choice_at(coding->encoder, x, y, size);
    return choice->modes[0] | (uint32_t)choice->type << 8 | (uint32_t)choice->activity << 16 |
           (choice->split ? CHOICE_SPLIT : 0);
}

/* The lane that has the choice of the block of a size around a cell of 32 x 32 samples in Morton
 * order. */
SIMT int choice_lane(uint32_t cell, int size)
{
    int column = (int)((cell & 1) | (cell >> 1 & 2)),
        row = (int)((cell >> 1 & 1) | (cell >> 2 & 2));
    return size == 5 ? 0 : size == 4 ? 1 + row / 2 * 2 + column / 2 : 5 + row * 4 + column;
}

/* The size of the block that begins at a cell, down the partition. */
SIMT int size_at(uint32_t choices, uint32_t cell)
{
    int size = STRIP_SIZE;
    NO_UNROLL
    while (warp_any(size > 3 && ((cell & ((1u << 2 * (size - 3)) - 1)) != 0 ||
                                 warp_read(choices, choice_lane(cell, size)) & CHOICE_SPLIT)))
        size--;
    return size;
}

/* Waits until the strip of a word is reconstructed up to a column. */
SIMT void await(const uint32_t *progress, uint32_t count)
{
    if (lane_index() == 0) {
        while (peek_word(progress) < count)
            relax();
        fence_device();
    }
    warp_barrier();
}

/* Shows to other warps that the strip is reconstructed up to a column. */
SIMT void announce(uint32_t *progress, uint32_t count)
{
    warp_barrier(); /* publish_word is a fence for what other lanes have written, too */
    if (lane_index() == 0)
        publish_word(progress, count);
}

/* Codes 32 columns of a strip, or 64 if a block of 64 x 64 begins there. */
SIMT void code_columns(const struct coding *coding, int left, int top, uint32_t choices,
                       bool is_whole)
{
    NO_UNROLL
    for (uint32_t cell = 0; cell < 16;) {
        int x = left + (int)((cell & 1) | (cell >> 1 & 2)) * 8;
        int y = top + (int)((cell >> 1 & 1) | (cell >> 2 & 2)) * 8;
        bool inside = x < coding->right && y < coding->bottom;
        int size = is_whole ? SUPERBLOCK_SIZE : size_at(choices, cell);
        size = inside ? size : 3;
        uint32_t choice = warp_read(choices, is_whole ? CHOICE_WHOLE : choice_lane(cell, size));
        if (warp_any(inside))
            code_block(coding, x, y, size, choice);
        cell += 1u << 2 * (size - 3);
    }
}

/* Codes a strip. progress: its word, which those of the strips above and below surround */
SIMT void code_strip(const struct coding *coding, int strip, int row, uint32_t *progress)
{
    uint32_t count = (uint32_t)coding->encoder->frame.superblocks_x * STRIPS;
    NO_UNROLL
    for (uint32_t i = 0; i < count;) {
        int x = (int)i * STRIP, y = row * SUPERBLOCK + strip * STRIP;
        uint32_t choices = load_choice(coding, x, y);
        bool is_whole = !(warp_read(choices, CHOICE_WHOLE) & CHOICE_SPLIT);
        uint32_t next = i + (is_whole ? STRIPS : 1);
        if (strip > 0 || row > 0)
            await(progress - 1, next);
        if (strip == 0 && is_whole)
            await(progress + 1, i);
        if (strip == 0 || !is_whole)
            code_columns(coding, x, y, choices, is_whole);
        announce(progress, next);
        i = next;
    }
}

/* By all threads of a block. */
SIMT void copy_encoder(const struct avif_encoder *from, struct avif_encoder *to)
{
    const uint32_t *words = (const uint32_t *)(const void *)from;
    for (size_t i = (size_t)thread_index(); i < sizeof *from / sizeof *words; i += STRIP_THREADS)
        ((uint32_t *)(void *)to)[i] = words[i];
}

/* Blocks of threads take rows: the top rows of all images, then the second ones. So a row waits
 * only for rows that have been taken. */
LONG_KERNEL(code_blocks, STRIP_THREADS, STRIP_BLOCKS_EACH, struct avif_args)
{
    struct strip_shared *shared = (struct strip_shared *)(void *)DYNAMIC_SHARED();
    struct coding coding;
    int strip = thread_index() / WARP_LANES;
    coding.shared = shared;
    coding.work = &shared->work[strip];
    coding.encoder = &shared->encoder;
    coding.order.common = args.common;
    coding.order.scans = &shared->scans;
    strip_set_scans(args.common, STRIP_THREADS, &shared->scans);
    NO_UNROLL
    for (;;) {
        block_barrier();
        if (thread_index() == 0)
            shared->task = atomic_add(&args.common->rows_taken, 1);
        block_barrier();
        uint32_t task = shared->task, row = task / args.image_count;
        if (row >= args.rows_max)
            break;
        struct avif_descriptor *image = args.images + task % args.image_count;
        if (row >= (uint32_t)image->encoder.frame.superblocks_y)
            continue;
        copy_encoder(&image->encoder, &shared->encoder);
        strip_set_quantiser(&image->encoder.frame.quantiser, image->quantisers, STRIP_THREADS,
                            &shared->quantiser);
        block_barrier();
        coding.right = 8 * image->encoder.frame.cells_x;
        coding.bottom = 8 * image->encoder.frame.cells_y;
        code_strip(&coding, strip, (int)row, &image->progress[row * STRIPS + (uint32_t)strip]);
    }
}

int avif_launch_blocks(const struct avif_encode_batch *batch, void *description,
                       struct CUstream_st *stream)
{
    struct avif_args args = avif_args_of(batch, description);
    uint32_t rows = batch->rows_max * batch->image_count;
    size_t bytes = sizeof(struct strip_shared);
    int status = ALLOW_SHARED(code_blocks, bytes);
    if (status == 0)
        status = LAUNCH(code_blocks, STRIP_THREADS, rows < STRIP_BLOCKS ? rows : STRIP_BLOCKS,
                        bytes, stream, args);
    return status;
}
