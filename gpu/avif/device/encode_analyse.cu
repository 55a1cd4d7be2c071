/*
 * encode_analyse.cu - the kernels of the AV1 encoder that need no reconstruction.
 *
 * 1. import_pixels: converts the pixels to planes of samples. A thread has 2 x 2 pixels.
 * 2. make_proxy: stage P. 8 lanes have a block of 8 x 8.
 * 3. analyse_8 to analyse_64: stage A, with the modes DC, V and H. 8 lanes have a block of 8 x 8; a
 * warp has a larger one.
 * 4. choose_partitions: a thread has a superblock.
 */
#include "gpu/avif/frame/activity.h"
#include "gpu/avif/device/group.h"
#include "gpu/avif/device/strip_levels.h"
#include "gpu/avif/kernels/import.h"
#include "gpu/avif/predict/modes.h"

#define IMPORT_THREADS  256
#define PROXY_THREADS   128
#define PROXY_GROUPS    (PROXY_THREADS / GROUP_LANES)
#define ANALYSE_THREADS 128
#define ANALYSE_WARPS   (ANALYSE_THREADS / WARP_LANES)
/* Blocks of threads per image of the first two kernels, at most. */
#define BLOCKS_MAX 512

/* ---- import ---- */

SIMT const uint8_t *pixel_at(const struct avif_descriptor *image, uint32_t x, uint32_t y)
{
    x = x < image->encoder.frame.width ? x : image->encoder.frame.width - 1;
    y = y < image->encoder.frame.height ? y : image->encoder.frame.height - 1;
    return image->pixels + (size_t)y * image->stride + (size_t)x * image->channels;
}

/* The luma of 2 x 2 samples. Beyond the image, the last ones are repeated. */
SIMT void import_luma(const struct avif_descriptor *image, uint32_t x, uint32_t y)
{
    const struct avif_plane *plane = &image->encoder.source[0];
    for (uint32_t i = 0; i < 4; i++) {
        const uint8_t *pixel = pixel_at(image, x + i % 2, y + i / 2);
        plane->samples[(size_t)(y + i / 2) * plane->stride + x + i % 2] =
            (uint8_t)(image->channels == 1 ? pixel[0] : avif_luma(pixel[0], pixel[1], pixel[2]));
    }
}

SIMT void import_chroma(const struct avif_descriptor *image, uint32_t x, uint32_t y)
{
    uint32_t last_x = (image->encoder.frame.width - 1) / 2;
    uint32_t last_y = (image->encoder.frame.height - 1) / 2;
    uint32_t from_x = 2 * (x < last_x ? x : last_x), from_y = 2 * (y < last_y ? y : last_y);
    const struct avif_plane *planes = image->encoder.source;
    int sums[3] = {0, 0, 0};
    for (uint32_t i = 0; i < 4; i++) {
        const uint8_t *pixel = pixel_at(image, from_x + i % 2, from_y + i / 2);
        for (int c = 0; c < 3; c++)
            sums[c] += pixel[c];
    }
    planes[1].samples[(size_t)y * planes[1].stride + x] =
        (uint8_t)avif_cb(sums[0], sums[1], sums[2]);
    planes[2].samples[(size_t)y * planes[2].stride + x] =
        (uint8_t)avif_cr(sums[0], sums[1], sums[2]);
}

KERNEL(import_pixels, IMPORT_THREADS, 4, struct avif_args)
{
    struct avif_descriptor *image = args.images + block_row();
    uint32_t across = (uint32_t)image->encoder.frame.superblocks_x * (SUPERBLOCK / 2);
    uint32_t down = (uint32_t)image->encoder.frame.superblocks_y * (SUPERBLOCK / 2);
    uint32_t thread = (uint32_t)(block_index() * IMPORT_THREADS + thread_index());
    if (thread == 0) {
        image->encoder.scans = &args.common->scans;
        image->token_count = image->code_bytes = 0;
        if (block_row() == 0)
            args.common->rows_taken = 0;
    }
    uint32_t strips = (uint32_t)image->encoder.frame.superblocks_y * STRIPS;
    for (uint32_t i = thread; i < strips; i += args.blocks * IMPORT_THREADS)
        image->progress[i] = 0;
    for (uint32_t i = thread; i < across * down; i += args.blocks * IMPORT_THREADS) {
        import_luma(image, i % across * 2, i / across * 2);
        if (image->encoder.frame.planes > 1)
            import_chroma(image, i % across, i / across);
    }
}

/* ---- proxy ---- */

SIMT void make_block(struct group_work *work, const struct avif_common *common,
                     const struct avif_encoder *encoder, int x, int y)
{
    const struct avif_plane *source = &encoder->source[0], *proxy = &encoder->proxy;
    const struct avif_quantiser *quantiser = &encoder->frame.quantiser;
    int lane = group_lane(), samples[8], v[8], levels[8], sum = 0;
    load_samples(avif_sample_at(source, x, y + lane), v);
    UNROLL
    for (int i = 0; i < 8; i++)
        sum += v[i];
    int mean = warp_total(sum, GROUP_LANES) >> 6;
    UNROLL
    for (int i = 0; i < 8; i++) {
        samples[i] = mean;
        v[i] -= mean;
    }
    group_transform(v);
    group_quantise(v, quantiser, levels);
    warp_barrier();
    UNROLL
    for (int i = 0; i < 8; i++) {
        work->values[8 * lane + i] = avif_abs(v[i]);
        work->levels[8 * lane + i] = levels[i];
    }
    warp_barrier();
    int kept = group_cut_tail(work, common->lane_positions[1], quantiser);
    UNROLL
    for (int i = 0; i < 8; i++) {
        int level = common->scans.ranks[1][8 * lane + i] > kept ? 0 : levels[i];
        level = avif_dequantise(level, quantiser->steps[lane > 0 || i > 0], 3);
        v[i] = v[i] < 0 ? -level : level;
    }
    group_inverse(v, samples);
    store_samples(avif_sample_at(proxy, x, y + lane), samples);
}

KERNEL(make_proxy, PROXY_THREADS, 4, struct avif_args)
{
    SHARED struct group_work work[PROXY_GROUPS];
    const struct avif_encoder *encoder = &args.images[block_row()].encoder;
    uint32_t across = (uint32_t)encoder->frame.superblocks_x * 8;
    uint32_t count = across * (uint32_t)encoder->frame.superblocks_y * 8;
    uint32_t group = (uint32_t)(thread_index() / GROUP_LANES);
    /* A superblock has a multiple of the groups of a warp. */
    for (uint32_t i = (uint32_t)block_index() * PROXY_GROUPS + group; i < count;
         i += args.blocks * PROXY_GROUPS)
        make_block(&work[group], args.common, encoder, (int)(i % across * 8),
                   (int)(i / across * 8));
}

/* ---- analysis ---- */

/* As analyse of analyse.c, but of all blocks of one size after those of the next smaller size. */
SIMT void choose_partition(const struct avif_encoder *encoder, int left, int top, int64_t *costs)
{
    const struct avif_frame *frame = &encoder->frame;
    for (int size = 4; size <= SUPERBLOCK_SIZE; size++)
        for (int y = top; y < top + SUPERBLOCK; y += 1 << size)
            for (int x = left; x < left + SUPERBLOCK; x += 1 << size) {
                int half = 1 << (size - 1), index = avif_choice_index(x, y, size);
                int64_t split =
                    avif_cost_of(&frame->quantiser, size == 4 ? BITS_PARTITION_16 : BITS_PARTITION);
                for (int i = 0; i < 4; i++)
                    split +=
                        costs[avif_choice_index(x + (i & 1) * half, y + (i >> 1) * half, size - 1)];
                bool splits = split <= costs[index];
                bool inside = x < 8 * frame->cells_x && y < 8 * frame->cells_y;
                avif_choice_at(encoder, x, y, size)->split = splits && inside;
                costs[index] = !inside ? 0 : splits ? split : costs[index];
            }
}

/* The cost of a block that is not coded whole, before those of its parts are known. */
SIMT int64_t cost_outside(const struct avif_frame *frame, int x, int y)
{
    return x >= 8 * frame->cells_x || y >= 8 * frame->cells_y ? 0 : INT64_MAX;
}

/* Whether the block is analysed: its centre is in the frame. */
SIMT bool is_whole(const struct avif_frame *frame, int x, int y, int size)
{
    int half = 1 << (size - 1);
    return x + half < 8 * frame->cells_x && y + half < 8 * frame->cells_y;
}

SIMT void store_choice(const struct avif_descriptor *image, int x, int y, int size,
                       const struct avif_choice *choice, int64_t cost)
{
    image->costs[avif_superblock_at(&image->encoder, x, y) * CHOICES +
                 (size_t)avif_choice_index(x, y, size)] = cost;
    *avif_choice_at(&image->encoder, x, y, size) = *choice;
}

/* ---- modes: DC, V and H only ---- */

/* As search_modes with these modes. sums: the SATDs */
SIMT void choose_plain(const struct avif_frame *frame, const int sums[3],
                       struct avif_choice *choice)
{
    int costs[3];
    memset(choice, 0, sizeof *choice);
    UNROLL
    for (int i = 0; i < 3; i++)
        costs[i] = sums[i] + (int)(((int64_t)frame->quantiser.lambda_satd * avif_mode_bits(i, 0)) >>
                                   COST_BITS);
    choice->count = 1;
    UNROLL
    for (int i = 0; i < 3; i++) {
        int place = 0;
        UNROLL
        for (int k = 0; k < 3; k++)
            place += costs[k] < costs[i] || (costs[k] == costs[i] && k < i);
        if (place == 0)
            choice->modes[0] = (uint8_t)i;
    }
}

/* Takes the identity transform if it costs less. Returns the cost of the one that is taken. */
SIMT int64_t take_type(const struct avif_frame *frame, int64_t cost, int64_t identity_cost,
                       struct avif_choice *choice)
{
    identity_cost += avif_cost_of(&frame->quantiser, BITS_TRANSFORM_TYPE);
    choice->type = identity_cost < cost ? IDENTITY : DCT_DCT;
    return identity_cost < cost ? identity_cost : cost;
}

/* The samples around a block of the proxy: above columns from x on, and left of row y. */
struct plain_edges {
    const struct avif_plane *proxy;
    bool has_above, has_left;
    int left, top, fill_above, fill_left, last_x, last_y; /* last: of the frame's cells */
};

SIMT struct plain_edges edges_of(const struct avif_encoder *encoder, int x, int y)
{
    struct plain_edges to;
    to.proxy = &encoder->proxy;
    to.has_above = y > 0;
    to.has_left = x > 0;
    to.left = x;
    to.top = y;
    to.last_x = 8 * encoder->frame.cells_x - 1;
    to.last_y = 8 * encoder->frame.cells_y - 1;
    to.fill_above = to.has_left ? *avif_sample_at(to.proxy, x - 1, y) : 127;
    to.fill_left = to.has_above ? *avif_sample_at(to.proxy, x, y - 1) : 129;
    return to;
}

/* Eight samples above, from x on. Cells are in the frame or not as a whole. */
SIMT void load_above(const struct plain_edges *edges, int x, int to[8])
{
    if (edges->has_above && x <= edges->last_x)
        load_samples(avif_sample_at(edges->proxy, x, edges->top - 1), to);
    else
        for (int i = 0; i < 8; i++)
            to[i] = edges->has_above ? *avif_sample_at(edges->proxy, edges->last_x, edges->top - 1)
                                     : edges->fill_above;
}

SIMT int load_left(const struct plain_edges *edges, int y)
{
    y = avif_min(y, edges->last_y);
    return edges->has_left ? *avif_sample_at(edges->proxy, edges->left - 1, y) : edges->fill_left;
}

/* The DC of a block. Each lane has the sums of its part of the samples above and to the left. */
SIMT int dc_of(const struct plain_edges *edges, int size, int above, int left, int lanes)
{
    int sum = warp_total((edges->has_above ? above : 0) + (edges->has_left ? left : 0), lanes);
    if (!edges->has_above && !edges->has_left)
        return 128;
    if (edges->has_above && edges->has_left)
        return (sum + (1 << size)) >> (size + 1);
    return (sum + (1 << size >> 1)) >> size;
}

/* Adds the SATDs of the three modes for 8 x 8 samples. A lane has a row. */
SIMT void add_plain(const int source[8], const int above[8], int left, int dc, int sums[3])
{
    int d[8];
    UNROLL
    for (int i = 0; i < 8; i++)
        d[i] = source[i] - dc;
    sums[0] += warp_hadamard(d);
    UNROLL
    for (int i = 0; i < 8; i++)
        d[i] = source[i] - above[i];
    sums[1] += warp_hadamard(d);
    UNROLL
    for (int i = 0; i < 8; i++)
        d[i] = source[i] - left;
    sums[2] += warp_hadamard(d);
}

/* As avif_cell_activity. A lane has a row. */
SIMT int activity_of(const int source[8])
{
    int sum = 0, squares = 0;
    UNROLL
    for (int i = 0; i < 8; i++) {
        sum += source[i];
        squares += source[i] * source[i];
    }
    return avif_activity_of(warp_total(sum, GROUP_LANES), warp_total(squares, GROUP_LANES));
}

/* Blocks of 8 x 8, one for 8 lanes. */
KERNEL(analyse_8, ANALYSE_THREADS, 8, struct avif_args)
{
    const struct avif_descriptor *image = args.images + block_row();
    const struct avif_encoder *encoder = &image->encoder;
    const struct avif_frame *frame = &encoder->frame;
    int across = frame->superblocks_x * 8, lane = group_lane(), source[8], above[8];
    int block = (block_index() * ANALYSE_THREADS + thread_index()) / GROUP_LANES;
    struct avif_choice choice;
    int sums[3] = {0, 0, 0};
    if (block >= across * frame->superblocks_y * 8)
        return;
    int x = block % across * 8, y = block / across * 8;
    struct plain_edges edges = edges_of(encoder, x, y);
    load_samples(avif_sample_at(&encoder->source[0], x, y + lane), source);
    load_above(&edges, x, above);
    int left = load_left(&edges, y + lane), own = 0;
    UNROLL
    for (int i = 0; i < 8; i++)
        own = lane == i ? above[i] : own;
    int dc = dc_of(&edges, 3, own, left, GROUP_LANES);
    int activity = activity_of(source);
    add_plain(source, above, left, dc, sums);
    choose_plain(frame, sums, &choice);
    UNROLL
    for (int i = 0; i < 8; i++)
        source[i] -= choice.modes[0] == DC_PRED ? dc : choice.modes[0] == V_PRED ? above[i] : left;
    int identity[8];
    UNROLL
    for (int i = 0; i < 8; i++)
        identity[i] = 8 * source[i];
    group_transform(source);
    int64_t cost = group_cost(source, &frame->quantiser);
    cost = take_type(frame, cost, group_cost(identity, &frame->quantiser), &choice);
    int bits = avif_mode_bits(choice.modes[0], 0) + BITS_PARTITION_8;
    cost += avif_cost_of(&frame->quantiser, bits);
    if (!is_whole(frame, x, y, 3)) {
        memset(&choice, 0, sizeof choice);
        cost = cost_outside(frame, x, y);
    }
    choice.activity = (uint8_t)activity;
    if (lane == 0)
        store_choice(image, x, y, 3, &choice, cost);
}

/* Predicts a block by its best mode. */
SIMT struct strip_block predict_plain(struct strip_work *work, const struct plain_edges *edges,
                                      const struct avif_plane *source, int size, int mode, int dc)
{
    bool by_rows = mode == H_PRED;
    struct strip_block block = {avif_sample_at(source, edges->left, edges->top),
                                NULL,
                                source->stride,
                                size,
                                1,
                                by_rows ? work->left : work->above,
                                !by_rows,
                                by_rows};
    warp_barrier();
    for (int i = lane_index(); i < 1 << size; i += WARP_LANES) {
        int value = dc;
        if (mode == V_PRED)
            value = edges->has_above
                        ? *avif_sample_at(edges->proxy, avif_min(edges->left + i, edges->last_x),
                                          edges->top - 1)
                        : edges->fill_above;
        if (by_rows)
            work->left[i] = (uint8_t)load_left(edges, edges->top + i);
        else
            work->above[i] = (uint8_t)value;
    }
    warp_barrier();
    return block;
}

/* The costs of the transform of a block, and if it may be the identity, of that. */
SIMT int64_t cost_block(struct strip_work *work, const struct avif_frame *frame,
                        const struct strip_block *block, int size, struct avif_choice *choice)
{
    warp_barrier();
    int64_t lost = strip_forward_size(work, block, size);
    lost = size == 6 ? warp_total_64(lost) : 0;
    int64_t cost = strip_cost(work, &frame->quantiser, size) + (lost > 0 ? lost : 0);
    if (size > 4)
        return cost;
    strip_forward_identity(work, block);
    return take_type(frame, cost, strip_cost(work, &frame->quantiser, size), choice);
}

/* As analyse_block with three modes. */
SIMT int64_t analyse_block(struct strip_work *work, const struct avif_encoder *encoder, int left,
                           int top, int size, struct avif_choice *choice)
{
    const struct avif_frame *frame = &encoder->frame;
    const struct avif_plane *plane = &encoder->source[0];
    struct plain_edges edges = edges_of(encoder, left, top);
    int side = 1 << size, across = side / 8, sums[3] = {0, 0, 0}, source[8], above[8];
    int group = lane_index() / GROUP_LANES, sum_above = 0, sum_left = 0;
    for (int i = lane_index(); i < side; i += WARP_LANES) {
        sum_left += load_left(&edges, top + i);
        sum_above += edges.has_above
                         ? *avif_sample_at(edges.proxy, avif_min(left + i, edges.last_x), top - 1)
                         : 0;
    }
    int dc = dc_of(&edges, size, sum_above, sum_left, WARP_LANES);
    for (int i = group; i < across * across; i += GROUPS) {
        int x = left + i % across * 8, y = top + i / across * 8 + group_lane();
        load_samples(avif_sample_at(plane, x, y), source);
        load_above(&edges, x, above);
        add_plain(source, above, load_left(&edges, y), dc, sums);
    }
    UNROLL
    for (int i = 0; i < 3; i++) {
        sums[i] += (int)warp_read_xor((uint32_t)sums[i], 8);
        sums[i] += (int)warp_read_xor((uint32_t)sums[i], 16);
    }
    choose_plain(frame, sums, choice);
    struct strip_block block = predict_plain(work, &edges, plane, size, choice->modes[0], dc);
    return cost_block(work, frame, &block, size, choice) +
           avif_cost_of(&frame->quantiser, avif_mode_bits(choice->modes[0], 0) + BITS_PARTITION);
}

/* As avif_activity, from the blocks of 8 x 8. */
SIMT int mean_activity(const struct avif_encoder *encoder, int x, int y, int size)
{
    int bits = size - 3, sum = 0;
    for (int i = lane_index(); i < 1 << 2 * bits; i += WARP_LANES)
        sum += avif_choice_at(encoder, x + (i & ((1 << bits) - 1)) * 8, y + (i >> bits) * 8, 3)
                   ->activity;
    return (warp_total(sum, WARP_LANES) + (1 << 2 * bits >> 1)) >> 2 * bits;
}

/* Blocks of a larger size, a warp for each. */
SIMT void analyse_size(const struct avif_args *args, int size)
{
    SHARED struct strip_work works[ANALYSE_WARPS];
    const struct avif_descriptor *image = args->images + block_row();
    const struct avif_frame *frame = &image->encoder.frame;
    struct avif_choice choice;
    int across = frame->superblocks_x << (SUPERBLOCK_SIZE - size);
    int warp = thread_index() / WARP_LANES, block = block_index() * ANALYSE_WARPS + warp;
    if (block >= across * (frame->superblocks_y << (SUPERBLOCK_SIZE - size)))
        return;
    int x = block % across << size, y = block / across << size;
    int64_t cost = cost_outside(frame, x, y);
    memset(&choice, 0, sizeof choice);
    if (is_whole(frame, x, y, size)) {
        cost = analyse_block(&works[warp], &image->encoder, x, y, size, &choice);
        choice.activity = (uint8_t)mean_activity(&image->encoder, x, y, size);
    }
    if (lane_index() == 0)
        store_choice(image, x, y, size, &choice, cost);
}
KERNEL(analyse_16, ANALYSE_THREADS, 4, struct avif_args)
{
    analyse_size(&args, 4);
}
KERNEL(analyse_32, ANALYSE_THREADS, 4, struct avif_args)
{
    analyse_size(&args, 5);
}
KERNEL(analyse_64, ANALYSE_THREADS, 4, struct avif_args)
{
    analyse_size(&args, 6);
}

/* ---- partition ---- */

KERNEL(choose_partitions, WARP_LANES, 8, struct avif_args)
{
    const struct avif_descriptor *image = args.images + block_row();
    int across = image->encoder.frame.superblocks_x;
    int superblock = block_index() * WARP_LANES + thread_index();
    if (superblock < across * image->encoder.frame.superblocks_y)
        choose_partition(&image->encoder, superblock % across * SUPERBLOCK,
                         superblock / across * SUPERBLOCK, image->costs + superblock * CHOICES);
}

/* ---- launch ---- */

static uint32_t blocks_for(uint32_t threads, uint32_t each)
{
    uint32_t blocks = (threads + each - 1) / each;
    return blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX;
}

int avif_launch_analysis(const struct avif_encode_batch *batch, void *description,
                         struct CUstream_st *stream)
{
    struct avif_args args = avif_args_of(batch, description);
    uint32_t superblocks = batch->superblocks_max, samples = superblocks * SUPERBLOCK * SUPERBLOCK;
    args.blocks = blocks_for(samples / 4, 4 * IMPORT_THREADS);
    int status =
        LAUNCH(import_pixels, IMPORT_THREADS, dim3(args.blocks, args.image_count), 0, stream, args);
    args.blocks = blocks_for(samples / 64, PROXY_GROUPS);
    if (status == 0)
        status =
            LAUNCH(make_proxy, PROXY_THREADS, dim3(args.blocks, args.image_count), 0, stream, args);
    if (status == 0)
        status =
            LAUNCH(analyse_8, ANALYSE_THREADS,
                   dim3((superblocks * 64 * GROUP_LANES + ANALYSE_THREADS - 1) / ANALYSE_THREADS,
                        args.image_count),
                   0, stream, args);
    uint32_t blocks = (superblocks * 16 + ANALYSE_WARPS - 1) / ANALYSE_WARPS;
    if (status == 0)
        status =
            LAUNCH(analyse_16, ANALYSE_THREADS, dim3(blocks, args.image_count), 0, stream, args);
    blocks = (superblocks * 4 + ANALYSE_WARPS - 1) / ANALYSE_WARPS;
    if (status == 0)
        status =
            LAUNCH(analyse_32, ANALYSE_THREADS, dim3(blocks, args.image_count), 0, stream, args);
    blocks = (superblocks + ANALYSE_WARPS - 1) / ANALYSE_WARPS;
    if (status == 0)
        status =
            LAUNCH(analyse_64, ANALYSE_THREADS, dim3(blocks, args.image_count), 0, stream, args);
    if (status == 0)
        status = LAUNCH(choose_partitions, WARP_LANES,
                        dim3((superblocks + WARP_LANES - 1) / WARP_LANES, args.image_count), 0,
                        stream, args);
    return status;
}
