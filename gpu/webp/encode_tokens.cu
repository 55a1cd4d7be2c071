/*
 * encode_tokens.cu - the kernels that write the tokens of the images of a batch.
 *
 * 1. count_tokens: a block of threads counts the tokens of a group of macroblocks.
 * 2. choose_tokens: a block of threads per image chooses its probabilities, writes the header of
 *    its frame, and finds the positions of the tokens of each group.
 * 3. write_tokens: a block of threads writes the tokens of a group, of both partitions.
 */
#include "gpu/webp/header.h"
#include "gpu/webp/statistics.h"

#define GROUP_THREADS 512
#define GROUP_WARPS   (GROUP_THREADS / WARP_LANES)
/* Macroblocks of a warp. */
#define WARP_BLOCKS    (WEBP_GROUP / GROUP_WARPS)
#define CHOOSE_THREADS 1024

struct webp_token_args {
    struct webp_encode_common *common;
    struct webp_encode_descriptor *images;
    const struct webp_part *groups;
    struct webp_part *tasks;
    uint32_t chunk_tokens;
};

SIMT uint32_t macroblocks_of(const struct webp_encode_descriptor *image)
{
    return image->columns * image->rows;
}

/* Number of macroblocks of a group. */
SIMT uint32_t group_size(const struct webp_encode_descriptor *image, uint32_t group)
{
    uint32_t rest = macroblocks_of(image) - group * WEBP_GROUP;
    return rest < WEBP_GROUP ? rest : WEBP_GROUP;
}

/* ---- counts ---- */

KERNEL(count_tokens, GROUP_THREADS, 2, struct webp_token_args)
{
    SHARED struct record_tables tables;
    SHARED struct record_stage stages[GROUP_WARPS];
    SHARED uint32_t coefficients, modes, skipped, skipped_tokens;
    struct webp_part part = args.groups[block_index()];
    const struct webp_encode_descriptor *image = args.images + part.image;
    uint32_t thread = (uint32_t)thread_index(), size = group_size(image, part.first / WEBP_GROUP);
    struct webp_group_counts *to = image->groups + part.first / WEBP_GROUP;
    if (block_index() == 0 && thread == 0)
        args.common->task_count = args.common->piece_count = 0;
    if (image->declined)
        return;
    if (thread == 0)
        coefficients = modes = skipped = skipped_tokens = 0;
    make_record_tables(&tables);
    for (uint32_t i = thread / WARP_LANES; i < size; i += GROUP_WARPS) {
        uint32_t counts =
            count_macroblock(&tables, &stages[thread / WARP_LANES], image, part.first + i);
        if (lane_index() > 0)
            continue;
        image->token_counts[part.first + i] = counts;
        (void)atomic_add(&coefficients, token_count_of(counts));
        if (counts & COUNT_SKIPPED) {
            (void)atomic_add(&skipped, 1);
            (void)atomic_add(&skipped_tokens, token_count_of(counts));
        }
    }
    if (thread < size)
        (void)atomic_add(&modes, mode_tokens(image, part.first + thread));
    block_barrier();
    if (thread < CELLS)
        count_tokens_of_cell(&tables, thread, to->of + thread * CELL_PROBABILITIES);
    if (thread > 0)
        return;
    to->coefficients = coefficients;
    to->modes = modes;
    to->skipped = skipped;
    to->skipped_tokens = skipped_tokens;
}

/* ---- probabilities and positions ---- */

SIMT void choose_skip(struct webp_encode_descriptor *image, uint32_t groups, uint32_t *sums)
{
    uint32_t skipped = 0, all;
    for (uint32_t i = (uint32_t)thread_index(); i < groups; i += (uint32_t)block_threads())
        skipped += image->groups[i].skipped;
    (void)block_scan(skipped, &all, sums);
    if (thread_index() > 0)
        return;
    uint32_t macroblocks = macroblocks_of(image);
    image->skip_probability = (uint32_t)((uint64_t)(macroblocks - all) * 255 / macroblocks);
    image->uses_skip = image->frame->uses_statistics && image->skip_probability < 250;
}

/* Sets the positions of the groups' tokens, those of the modes from *modes on. Adds up all
 * tokens. */
SIMT void place_groups(const struct webp_encode_descriptor *image, uint32_t groups, uint32_t *sums,
                       uint32_t *modes, uint32_t *coefficients)
{
    uint32_t uses_skip = image->uses_skip, total;
    for (uint32_t first = 0; first < groups; first += (uint32_t)block_threads()) {
        uint32_t i = first + (uint32_t)thread_index(), own_modes = 0, own = 0;
        struct webp_group_counts *group = image->groups + i;
        if (i < groups) {
            own_modes = group->modes + (uses_skip ? group_size(image, i) : 0);
            own = group->coefficients - (uses_skip ? group->skipped_tokens : 0);
        }
        uint32_t modes_at = *modes + block_scan(own_modes, &total, sums);
        *modes += total;
        uint32_t at = *coefficients + block_scan(own, &total, sums);
        *coefficients += total; /* less than 2^29 */
        if (*coefficients > INT32_MAX)
            *coefficients = INT32_MAX; /* more than there is room for */
        if (i < groups) {
            group->modes = modes_at;
            group->coefficients = at;
        }
    }
}

/* Every chunk has a whole window of tokens. */
SIMT void set_token_count(struct webp_partition *partition, uint32_t tokens, uint32_t chunk_tokens)
{
    uint32_t least = WEBP_CHUNK_WINDOW + 1;
    partition->token_count = tokens;
    partition->chunk_count = tokens < least ? tokens > 0 : (tokens - least) / chunk_tokens + 1;
}

/* head: of the chunks, those that are a task each */
SIMT uint32_t task_count(const struct webp_partition *partition, uint32_t head)
{
    uint32_t chunks = partition->chunk_count;
    if (chunks <= head)
        return chunks;
    return head + (chunks - head + WEBP_TASK_CHUNKS - 1) / WEBP_TASK_CHUNKS;
}

/* Lists the tasks of an image, from number `first` on. head: of task_count, for the modes */
SIMT void list_tasks(struct webp_part *tasks, uint32_t image,
                     const struct webp_encode_descriptor *descriptor, uint32_t head)
{
    uint32_t modes = task_count(&descriptor->modes, head);
    uint32_t all = modes + task_count(&descriptor->coefficients, 0);
    for (uint32_t i = (uint32_t)thread_index(); i < all; i += (uint32_t)block_threads()) {
        uint32_t first = i < head ? i : head + (i - head) * WEBP_TASK_CHUNKS;
        tasks[i].image = image;
        tasks[i].first = i < modes ? first | WEBP_PART_MODES : (i - modes) * WEBP_TASK_CHUNKS;
    }
}

KERNEL(choose_tokens, CHOOSE_THREADS, 1, struct webp_token_args)
{
    SHARED struct counter_sums counters;
    SHARED uint32_t sums[WARP_LANES], header_tokens, tasks_at;
    struct webp_encode_descriptor *image = args.images + block_index();
    uint32_t groups = (macroblocks_of(image) + WEBP_GROUP - 1) / WEBP_GROUP;
    uint32_t modes, coefficients = 0, thread = (uint32_t)thread_index();
    uint32_t head = WEBP_HEAD_TOKENS / args.chunk_tokens;
    if (image->declined) {
        if (thread == 0) {
            set_token_count(&image->modes, 0, args.chunk_tokens);
            set_token_count(&image->coefficients, 0, args.chunk_tokens);
        }
        return;
    }
    /* A lane of the last warp puts the header while others choose. */
    if (thread == CHOOSE_THREADS - 1)
        header_tokens = put_frame_header(image->frame, image->modes.tokens);
    choose_skip(image, groups, sums);
    choose_probabilities(image, groups, &counters);
    modes = header_tokens + put_probabilities(image, image->modes.tokens + header_tokens, sums);
    place_groups(image, groups, sums, &modes, &coefficients);
    if (thread == 0) {
        image->declined = coefficients > image->coefficients.token_room;
        set_token_count(&image->modes, image->declined ? 0 : modes, args.chunk_tokens);
        set_token_count(&image->coefficients, image->declined ? 0 : coefficients,
                        args.chunk_tokens);
        tasks_at = atomic_add(&args.common->task_count, task_count(&image->modes, head) +
                                                            task_count(&image->coefficients, 0));
    }
    block_barrier();
    list_tasks(args.tasks + tasks_at, (uint32_t)block_index(), image, head);
}

/* ---- tokens ---- */

/* Writes the tokens of the levels of a group. positions: of each macroblock's first token, and
 * after the last */
SIMT void write_levels(const struct webp_encode_descriptor *image, uint32_t first, uint32_t size,
                       const struct token_tables *tables, struct token_stage *stage,
                       const uint32_t *positions)
{
    uint32_t i = (uint32_t)(thread_index() / WARP_LANES) * WARP_BLOCKS;
    uint32_t end = i + WARP_BLOCKS < size ? i + WARP_BLOCKS : size;
    if (i >= size)
        return;
    struct token_writer writer =
        token_writer_at(stage, tables, image->coefficients.tokens, positions[i]);
    for (; i < end; i++)
        if (positions[i] < positions[i + 1])
            put_macroblock(&writer, image, first + i,
                           record_count_of(image->token_counts[first + i]));
    flush_tokens(&writer, true);
}

/* Writes the tokens of the modes of a group. at: the first; sums: of block_scan */
SIMT void write_modes(const struct webp_encode_descriptor *image, uint32_t first, uint32_t size,
                      uint32_t at, uint32_t *sums)
{
    uint32_t thread = (uint32_t)thread_index(), total, i = thread / MODE_QUARTERS;
    int quarter = (int)(thread % MODE_QUARTERS);
    struct mode_writer counter = {NULL, 0}, writer = {image->modes.tokens + at, 0};
    if (i < size)
        put_modes(&counter, image, first + i, quarter);
    writer.to += block_scan(counter.count, &total, sums);
    if (i < size)
        put_modes(&writer, image, first + i, quarter);
}

KERNEL(write_tokens, GROUP_THREADS, 2, struct webp_token_args)
{
    SHARED struct token_stage stages[GROUP_WARPS];
    SHARED struct token_tables tables;
    SHARED uint32_t positions[WEBP_GROUP + 1], sums[WARP_LANES];
    struct webp_part part = args.groups[block_index()];
    const struct webp_encode_descriptor *image = args.images + part.image;
    const struct webp_group_counts *group = image->groups + part.first / WEBP_GROUP;
    uint32_t thread = (uint32_t)thread_index(), size = group_size(image, part.first / WEBP_GROUP);
    uint32_t own = 0, total;
    if (image->declined)
        return;
    if (thread < size) {
        uint32_t counts = image->token_counts[part.first + thread];
        own = counts & COUNT_SKIPPED && image->uses_skip ? 0 : token_count_of(counts);
    }
    uint32_t at = group->coefficients + block_scan(own, &total, sums);
    if (thread <= WEBP_GROUP)
        positions[thread] = at;
    make_token_tables(&tables, image->probabilities);
    write_levels(image, part.first, size, &tables, &stages[thread / WARP_LANES], positions);
    write_modes(image, part.first, size, group->modes, sums);
}

/* ---- launch ---- */

int webp_launch_tokens(const struct webp_encode_batch *batch, void *description,
                       struct CUstream_st *stream)
{
    uint8_t *start = (uint8_t *)description;
    struct webp_token_args args;
    args.common = (struct webp_encode_common *)start;
    args.images = (struct webp_encode_descriptor *)(start + batch->images_at);
    args.groups = (const struct webp_part *)(start + batch->groups_at);
    args.tasks = (struct webp_part *)(start + batch->tasks_at);
    args.chunk_tokens = batch->chunk_tokens;
    int status = LAUNCH(count_tokens, GROUP_THREADS, batch->group_count, 0, stream, args);
    if (status == 0)
        status = LAUNCH(choose_tokens, CHOOSE_THREADS, batch->image_count, 0, stream, args);
    if (status == 0)
        status = LAUNCH(write_tokens, GROUP_THREADS, batch->group_count, 0, stream, args);
    return status;
}
