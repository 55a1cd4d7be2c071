/*
 * progressive_scans.cu - decodes the scans of progressive JPEGs, one warp per scan.
 *
 * A scan is a sequence of symbols, and each symbol starts where the previous one ends. All lanes of
 * the warp therefore decode the same symbols and keep the same state. They share only the rest of
 * the work: a symbol is kept as a token (its bits and the position of its coefficient), and later
 * each lane extracts and stores the value of another token.
 *
 * A refinement scan must know which coefficients are nonzero already. It reads this from a mask of
 * 64 bits per block, in which each scan of the component sets bits. All scans run at the same time:
 * each publishes its progress, and a refinement scan stays some blocks after the scans that it
 * refines. A warp takes the next scan of the batch when it starts. A scan comes after the scans
 * that it refines, so a warp waits only for scans that other warps have begun. The scan's bits for
 * coefficients that were nonzero before are kept as correction bits; the kernel complete_blocks
 * (progressive.cu) adds them to the coefficients.
 *
 * Every symbol advances by at least one coefficient, and after each group of 32 blocks the warp
 * checks that it has not passed the end of the scan. So every loop ends, and no reader leaves the
 * memory of its image.
 *
 * Time is bound by the latency of the instructions from one symbol to the next, about 50.
 * Throughput comes from the number of scans in flight: some thousands fit an H200.
 */
#include "gpu/jpeg/progressive_blocks.h"
#include "gpu/jpeg/progressive_end.h"

/* A scan publishes its progress after this many blocks. */
#define PUBLISHED_BLOCKS 128

/* ---- segments between restart markers ---- */

SIMT void begin_segment(const struct scan_job *job, struct scan_state *state)
{
    reader_seek(&state->reader, job->scan->segments[state->segment] * 8);
}

/* Checks that the segment ends here, but for the bits that fill its last byte. Returns a
 * verdict. */
SIMT uint32_t end_segment(const struct scan_job *job, const struct scan_state *state)
{
    uint32_t end = job->scan->segments[state->segment + 1];
    if (state->run > 0)
        return JPEG_SCANS_RUN;
    return (reader_position(&state->reader) + 7) / 8 == end ? JPEG_SCANS_COMPLETE
                                                            : JPEG_SCANS_LENGTH;
}

/* ---- progress of other scans ---- */

SIMT void publish_progress(const struct scan_job *job, uint32_t value)
{
    warp_barrier();
    if (lane_index() == 0)
        publish_word(job->progress + job->scan->index, value);
}

/* Waits until the scans that this scan refines have completed `blocks` blocks. Returns the number
 * of blocks that all of them have completed; PROGRESS_FAILED: one has failed. */
SIMT uint32_t await_progress(const struct scan_job *job, uint32_t blocks)
{
    int lane = lane_index();
    bool mine = job->scan->predecessors >> lane & 1;
    for (;;) {
        uint32_t complete = mine ? peek_word(job->progress + lane) : PROGRESS_FAILED - 1;
        if (warp_any(complete == PROGRESS_FAILED))
            return PROGRESS_FAILED;
        complete = warp_min(complete);
        if (complete >= blocks) {
            /* Now the masks of these blocks are seen, too. */
            if (mine)
                (void)poll_word(job->progress + lane);
            warp_barrier();
            return complete;
        }
        relax();
    }
}

/* Whether the image needs no more scans, because one has failed. progressive.c puts the image's
 * verdict after the progress of its scans. */
SIMT bool is_stopped(const struct scan_job *job)
{
    return warp_any(peek_word(job->progress + JPEG_FRAME_SCANS_MAX) != JPEG_SCANS_COMPLETE);
}

/* Which coefficients of a block are nonzero. */
SIMT words2 load_mask(const struct scan_job *job, uint32_t block)
{
    words2 mask;
    mask.x = mask.y = 0;
    if (block < job->blocks)
        mask = load_fresh(job->masks + 2 * block);
    return mask;
}

/* The same for the coefficients of the scan. */
DEVICE struct refined refined_of(const struct scan_job *job, words2 mask)
{
    uint64_t end = (uint64_t)1 << (job->last - job->first + 1);
    struct refined refined;
    uint64_t nonzero = (((uint64_t)mask.y << 32 | mask.x) >> job->first) & (end - 1);
    refined.nonzero = (uint32_t)count_bits((uint32_t)nonzero) +
                      (uint32_t)count_bits((uint32_t)(nonzero >> 32));
    refined.low = (uint32_t)(nonzero | end);
    refined.high = (uint32_t)((nonzero | end) >> 32);
    return refined;
}

/* ---- scans ---- */

/* Decodes the blocks `block` to `stop` - 1, which are in one group and in one segment. own: of the
 * lane's block of the group. Returns the correction bits of the lane's block, if it was decoded. */
SIMT uint64_t decode_blocks(const struct scan_job *job, struct scan_state *state, const int kind,
                            uint32_t block, uint32_t stop, struct refined own)
{
    uint64_t corrections = 0;
    while (block < stop) {
        if (state->run > 0) {
            uint32_t count = min_word(state->run, stop - block);
            if (kind == AC_REFINE)
                corrections |= decode_run(job, state, block, count, own.nonzero);
            state->run -= count;
            block += count;
            continue;
        }
        if (kind == AC_REFINE) {
            int lane = (int)(block % GROUP);
            struct refined rest;
            rest.low = warp_read(own.low, lane);
            rest.high = warp_read(own.high, lane);
            rest.nonzero = warp_read(own.nonzero, lane);
            uint64_t of_block = decode_refined_block(job, state, block, rest);
            if (lane_index() == lane)
                corrections = of_block;
        } else {
            decode_first_block(job, state, block);
        }
        block++;
        if (state->tokens > TOKENS - JPEG_BLOCK)
            flush_tokens(job, state, kind, block - 1 - (block - 1) % GROUP);
    }
    return corrections;
}

/* Decodes an AC scan. Returns a verdict. */
SIMT uint32_t decode_ac(const struct scan_job *job, const int kind)
{
    struct scan_state state;
    uint32_t lane = (uint32_t)lane_index(), block = 0, complete = 0;
    uint32_t segment_end = min_word(job->scan->interval, job->blocks);
    words2 mask, following; /* of the lane's block in the group and in the next one */
    memset(&state, 0, sizeof state);
    memset(&following, 0, sizeof following);
    state.reader.words = job->scan->words;
    begin_segment(job, &state);
    state.entry = look_up(job->memory, state.reader.high);
    for (uint32_t base = 0; base < job->blocks; base += GROUP) {
        uint32_t end = min_word(base + GROUP, job->blocks);
        struct refined own;
        uint64_t corrections = 0;
        mask = following;
        if (kind == AC_REFINE) {
            uint32_t needed = min_word(end + GROUP, job->blocks);
            if (complete < needed)
                complete = await_progress(job, needed);
            if (complete == PROGRESS_FAILED)
                return JPEG_SCANS_STOPPED;
            if (base == 0)
                mask = load_mask(job, lane);
            following = load_mask(job, base + GROUP + lane);
        }
        own = refined_of(job, mask);
        while (block < end) {
            uint32_t stop = min_word(end, segment_end);
            corrections |= decode_blocks(job, &state, kind, block, stop, own);
            block = stop;
            if (block < segment_end)
                continue;
            uint32_t verdict = end_segment(job, &state);
            if (verdict != JPEG_SCANS_COMPLETE)
                return state.verdict ? state.verdict : verdict;
            segment_end = min_word(segment_end + job->scan->interval, job->blocks);
            state.segment++;
            if (block < job->blocks) {
                begin_segment(job, &state);
                state.entry = look_up(job->memory, state.reader.high);
            }
        }
        flush_tokens(job, &state, kind, base);
        merge_masks(job, base + lane);
        if (kind == AC_REFINE && base + lane < job->blocks)
            job->scan->corrections[base + lane] = corrections;
        if (state.verdict == JPEG_SCANS_COMPLETE && reader_position(&state.reader) > job->end_bit)
            state.verdict = JPEG_SCANS_LENGTH;
        if (state.verdict != JPEG_SCANS_COMPLETE)
            return state.verdict;
        if (end % PUBLISHED_BLOCKS == 0 || end == job->blocks) {
            publish_progress(job, end);
            if (is_stopped(job))
                return JPEG_SCANS_STOPPED;
        }
    }
    return JPEG_SCANS_COMPLETE;
}

/* ---- DC scans ---- */

/* Fills warp_memory.mcu. Its word for each block of an MCU has the index of its component in the
 * scan (byte 0), and the column and the row of the block among those of its component (bytes 1 and
 * 2). Returns the number of blocks. */
SIMT uint32_t lay_out_mcu(const struct scan_job *job, const struct progressive_image *image)
{
    const struct progressive_scan *scan = job->scan;
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < scan->component_count; i++) {
        const struct progressive_component *component = &image->components[scan->components[i]];
        uint32_t h = scan->component_count == 1 ? 1 : component->h;
        uint32_t v = scan->component_count == 1 ? 1 : component->v;
        for (uint32_t j = 0; j < h * v; j++, blocks++)
            if (lane_index() == 0)
                job->memory->mcu[blocks] = i | j % h << 8 | j / h << 16;
    }
    warp_barrier();
    return blocks;
}

SIMT uint32_t look_up_dc(const struct warp_memory *memory, uint32_t component, uint32_t bits)
{
    uint32_t index = component * DC_LOOKUP_WORDS + (bits >> (32 - DC_LOOKUP_BITS));
    return *(const volatile uint32_t *)&memory->lookup[index];
}

/* Keeps the next `count` symbols as tokens. The first one belongs to block `block` of an MCU, which
 * has `blocks` blocks. */
SIMT void collect_dc(const struct scan_job *job, struct scan_state *state,
                     const struct jpeg_huffman *tables, uint32_t count, uint32_t block,
                     uint32_t blocks)
{
    struct warp_memory *memory = job->memory;
    struct reader *reader = &state->reader;
    uint32_t component = memory->mcu[block] & 255;
    uint32_t entry = look_up_dc(memory, component, reader->high);
    block = block + 1 == blocks ? 0 : block + 1;
    uint32_t following = memory->mcu[block] & 255;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t next = look_up_dc(memory, following,
                                   funnel_left(reader->low, reader->high, entry));
        block = block + 1 == blocks ? 0 : block + 1;
        uint32_t after = memory->mcu[block] & 255;
        memory->tokens[i].x = reader->high;
        if (entry_is_long(entry)) {
            entry = find_entry(tables + job->scan->tables[component], &memory->ends[component],
                               DC_FIRST, 0, reader->high, DC_LOOKUP_BITS + 1);
            reader_drop(reader, entry_bits(entry));
            next = look_up_dc(memory, following, reader->high);
        } else {
            reader_shift(reader, entry);
            reader->spare = dot_bytes(entry, 0xFF, reader->spare); /* subtracts the bits */
            reader_fill(reader);
        }
        component = following;
        following = after;
        entry = next;
    }
    warp_barrier();
}

/* Returns the DC difference of a token. bits: of the token. */
SIMT int decode_difference(const struct scan_job *job, struct scan_state *state,
                           const struct jpeg_huffman *tables, uint32_t component, uint32_t bits)
{
    struct warp_memory *memory = job->memory;
    uint32_t entry =
        memory->lookup[component * DC_LOOKUP_WORDS + (bits >> (32 - DC_LOOKUP_BITS))];
    if (entry_is_long(entry))
        entry = find_entry(tables + job->scan->tables[component], &memory->ends[component],
                           DC_FIRST, 0, bits, DC_LOOKUP_BITS + 1);
    if (entry & ENTRY_INVALID)
        state->verdict = JPEG_SCANS_CODE;
    uint32_t size = entry_size(entry);
    return size ? extend_value(bits << (entry_bits(entry) - size), size) : 0;
}

/* Stores a DC coefficient. place: the block's word of warp_memory.mcu. */
SIMT void store_dc(const struct scan_job *job, const struct progressive_image *image, int value,
                   uint32_t mcu, uint32_t place)
{
    const struct progressive_scan *scan = job->scan;
    const struct progressive_component *to = &image->components[scan->components[place & 255]];
    uint32_t h = scan->component_count == 1 ? 1 : to->h, v = scan->component_count == 1 ? 1 : to->v;
    uint32_t x = mcu % scan->mcus_across * h + (place >> 8 & 255);
    uint32_t y = mcu / scan->mcus_across * v + (place >> 16);
    if (to->stored && x < to->across && y < to->down)
        to->values[jpeg_coefficient(y * to->across + x, 0)] = (int16_t)value;
}

/* Adds up the differences of `count` tokens, and stores the DC coefficients. first: the number of
 * the first token in the segment. values: the last value of each component, before and after the
 * call. */
SIMT void store_dc_tokens(const struct scan_job *job, struct scan_state *state,
                          const struct progressive_image *image,
                          const struct jpeg_huffman *tables, uint32_t count, uint32_t first,
                          uint32_t blocks, int *values)
{
    struct warp_memory *memory = job->memory;
    for (uint32_t base = 0; base < count; base += WARP_LANES) {
        uint32_t i = base + (uint32_t)lane_index(), place = 0, total;
        int difference = 0, value = 0;
        bool active = i < count;
        if (active) {
            place = memory->mcu[(first + i) % blocks];
            difference = decode_difference(job, state, tables, place & 255, memory->tokens[i].x);
        }
        UNROLL
        for (uint32_t c = 0; c < JPEG_COMPONENTS_MAX; c++) {
            if (c >= job->scan->component_count)
                continue;
            bool own = active && (place & 255) == c;
            uint32_t before = warp_scan(own ? (uint32_t)difference : 0, &total);
            if (own)
                value = (int)((uint32_t)values[c] + before) + difference;
            values[c] = (int)((uint32_t)values[c] + total);
        }
        int scaled = (int)((uint32_t)value << job->low);
        if (scaled != (int16_t)scaled || scaled >> job->low != value)
            state->verdict = JPEG_SCANS_VALUE;
        uint32_t mcu = state->segment * job->scan->interval + (first + i) / blocks;
        if (active)
            store_dc(job, image, scaled, mcu, place);
    }
    warp_barrier();
}

/* Decodes a DC_FIRST scan. Returns a verdict. */
SIMT uint32_t decode_dc(const struct scan_job *job, const struct progressive_image *image,
                        const struct jpeg_huffman *tables)
{
    const struct progressive_scan *scan = job->scan;
    struct scan_state state;
    memset(&state, 0, sizeof state);
    state.reader.words = scan->words;
    uint32_t blocks = lay_out_mcu(job, image);
    for (; state.segment < scan->segment_count; state.segment++) {
        int values[JPEG_COMPONENTS_MAX] = {0, 0, 0};
        uint32_t mcus = min_word(scan->interval, scan->mcus - state.segment * scan->interval);
        begin_segment(job, &state);
        for (uint32_t done = 0; done < mcus * blocks; done += TOKENS) {
            uint32_t count = min_word(TOKENS, mcus * blocks - done);
            collect_dc(job, &state, tables, count, done % blocks, blocks);
            store_dc_tokens(job, &state, image, tables, count, done, blocks, values);
            if (warp_any(state.verdict != JPEG_SCANS_COMPLETE))
                return warp_any(state.verdict == JPEG_SCANS_CODE) ? JPEG_SCANS_CODE
                                                                  : JPEG_SCANS_VALUE;
            if (reader_position(&state.reader) > job->end_bit)
                return JPEG_SCANS_LENGTH;
        }
        uint32_t verdict = end_segment(job, &state);
        if (verdict != JPEG_SCANS_COMPLETE)
            return verdict;
    }
    return JPEG_SCANS_COMPLETE;
}

/* Checks the length of each segment of a DC_REFINE scan, which has one bit per block; the kernel
 * complete_blocks adds the bits. Returns a verdict. */
SIMT uint32_t check_dc_refinement(const struct progressive_scan *scan,
                                  const struct progressive_image *image)
{
    uint32_t blocks = scan->component_count == 1, wrong = 0;
    for (int i = 0; scan->component_count > 1 && i < scan->component_count; i++)
        blocks += (uint32_t)image->components[scan->components[i]].h *
                  image->components[scan->components[i]].v;
    for (uint32_t i = (uint32_t)lane_index(); i < scan->segment_count; i += WARP_LANES) {
        uint32_t mcus = min_word(scan->interval, scan->mcus - i * scan->interval);
        wrong |= (mcus * blocks + 7) / 8 != scan->segments[i + 1] - scan->segments[i];
    }
    return warp_any(wrong) ? JPEG_SCANS_LENGTH : JPEG_SCANS_COMPLETE;
}

SIMT void build_tables(const struct scan_job *job, const struct jpeg_huffman *tables)
{
    const struct progressive_scan *scan = job->scan;
    struct warp_memory *memory = job->memory;
    memory->masks[2 * lane_index()] = memory->masks[2 * lane_index() + 1] = 0;
    if (scan->kind == AC_FIRST || scan->kind == AC_REFINE)
        build_table(job->table, scan->kind, scan->low, memory->lookup, LOOKUP_BITS,
                    &memory->ends[0]);
    for (int i = 0; scan->kind == DC_FIRST && i < scan->component_count; i++)
        build_table(tables + scan->tables[i], DC_FIRST, 0, memory->lookup + i * DC_LOOKUP_WORDS,
                    DC_LOOKUP_BITS, &memory->ends[i]);
}

SIMT uint32_t decode_scan(const struct scan_job *job, const struct progressive_image *image,
                          const struct jpeg_huffman *tables)
{
    if (job->scan->kind == DC_REFINE)
        return check_dc_refinement(job->scan, image);
    build_tables(job, tables);
    if (job->scan->kind == DC_FIRST)
        return decode_dc(job, image, tables);
    if (job->scan->kind == AC_FIRST)
        return decode_ac(job, AC_FIRST);
    return decode_ac(job, AC_REFINE);
}

/* One warp per scan. */
LONG_KERNEL(decode_scans, WARP_LANES, 16, struct progressive_args)
{
    SHARED struct warp_memory memory;
    uint32_t ticket = lane_index() == 0 ? atomic_add(&args.header->ticket, 1) : 0;
    ticket = warp_read(ticket, 0);
    if (ticket >= args.scan_count)
        return;
    struct scan_job job;
    job.scan = args.scans + ticket;
    const struct progressive_image *image = args.images + job.scan->image;
    const struct progressive_component *component = &image->components[job.scan->components[0]];
    job.table = args.tables + job.scan->tables[0];
    job.progress = image->progress;
    job.memory = &memory;
    job.values = component->values;
    job.masks = component->masks;
    job.blocks = component->blocks;
    job.first = job.scan->first;
    job.last = job.scan->last;
    job.low = job.scan->low;
    uint32_t verdict = poll_word(image->verdict);
    if (verdict == JPEG_SCANS_COMPLETE) {
        job.end_bit = job.scan->segments[job.scan->segment_count] * 8;
        verdict = decode_scan(&job, image, args.tables);
    }
    if (verdict != JPEG_SCANS_COMPLETE) {
        if (lane_index() == 0)
            atomic_max(image->verdict, verdict);
        publish_progress(&job, PROGRESS_FAILED);
    }
    end_scan(image);
}

int progressive_decode_scans(const struct progressive_args *args, struct CUstream_st *stream)
{
    return LAUNCH(decode_scans, WARP_LANES, args->scan_count, 0, stream, *args);
}
