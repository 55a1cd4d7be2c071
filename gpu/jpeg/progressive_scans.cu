/*
 * progressive_scans.cu - decodes the scans of progressive JPEGs, one warp per scan.
 *
 * A scan is a sequence of symbols, each of which starts where the one before it ends. All lanes of
 * the warp therefore decode the same symbols and keep the same state. The lanes share the rest of
 * the work: a symbol is kept as a token (its bits and the position of its coefficient), and the
 * lanes later extract and store one token's value each.
 *
 * A refinement scan must know which coefficients are nonzero so far. It reads this from a mask of
 * 64 bits per block, which all scans of a component share: each scan only sets bits of its band. A
 * refinement follows the scans that it continues at a distance of some blocks: each scan publishes
 * its progress. Blocks take scans in the order of the batch, in which a scan comes after the scans
 * that it continues, so a block only waits for scans that other blocks have begun. The
 * corrections of nonzero coefficients are kept as bits; progressive.cu adds them later.
 *
 * Every reader stays within its scan, every symbol advances by one coefficient at least, and each
 * group of 32 blocks checks that the scan has not ended. So every loop ends.
 *
 * The bound is the latency of the instructions from one symbol to the next, about 50 per symbol.
 * Throughput comes from the number of scans in flight: some thousands fit an H200.
 */
#include "gpu/jpeg/coefficients.h"
#include "gpu/jpeg/progressive_bits.h"
#include "gpu/jpeg/progressive_impl.h"
#include "gpu/jpeg/simt.h"

#define GROUP JPEG_GROUP_BLOCKS
#define TOKENS 128
/* A scan publishes its progress after each of these. */
#define PUBLISHED_BLOCKS 128
#define DC_TABLES JPEG_COMPONENTS_MAX

/* The shared memory of a warp. */
struct warp_memory {
    uint32_t lookup[DC_TABLES * DC_LOOKUP_WORDS]; /* an AC scan has one table of LOOKUP_WORDS */
    struct code_ends ends[DC_TABLES];
    uint32_t masks[2 * GROUP]; /* coefficients that the scan has made nonzero in the group */
    words2 tokens[TOKENS];     /* x: the bits from the start of the code; y: 64 * block + index of
                                  the coefficient */
};

/* A scan with what the inner loops use of its descriptor. */
struct scan_job {
    const struct progressive_scan *scan;
    const struct progressive_component *component; /* of an AC scan */
    const struct jpeg_huffman *table;              /* of an AC scan */
    uint32_t *progress;                            /* of all scans of the image */
    struct warp_memory *memory;
    uint32_t blocks, first, last, low;
    uint32_t end_bit;
};

/* The state of a decoder between two blocks. */
struct scan_state {
    struct reader reader;
    uint32_t entry;  /* of the next symbol */
    uint32_t run;    /* blocks left in the end-of-band run */
    uint32_t tokens;
    uint32_t segment;
    uint32_t verdict;
};

SIMT uint32_t look_up(const struct warp_memory *memory, uint32_t bits)
{
    return memory->lookup[bits >> (32 - LOOKUP_BITS)];
}

SIMT uint32_t full_entry(const struct scan_job *job, const int kind, uint32_t entry, uint32_t bits)
{
    if (!entry_is_long(entry))
        return entry;
    return find_entry(job->table, &job->memory->ends[0], kind, (int)job->low, bits,
                      LOOKUP_BITS + 1);
}

SIMT void publish_progress(const struct scan_job *job, uint32_t value)
{
    warp_barrier();
    if (lane_index() == 0)
        publish_word(job->progress + job->scan->index, value);
}

/* ---- segments between restart markers ---- */

SIMT void begin_segment(const struct scan_job *job, struct scan_state *state)
{
    reader_seek(&state->reader, job->scan->segments[state->segment] * 8);
}

/* Checks that the segment has no more than the bits that fill its last byte. */
SIMT uint32_t end_segment(const struct scan_job *job, const struct scan_state *state)
{
    uint32_t end = job->scan->segments[state->segment + 1];
    if (state->run > 0)
        return JPEG_SCANS_RUN;
    return (reader_position(&state->reader) + 7) / 8 == end ? JPEG_SCANS_COMPLETE
                                                            : JPEG_SCANS_LENGTH;
}

/* ---- tokens ---- */

SIMT void add_token(const struct scan_job *job, struct scan_state *state, uint32_t bits,
                    uint32_t at)
{
    words2 token;
    token.x = bits;
    token.y = at;
    job->memory->tokens[state->tokens++] = token;
}

/* Stores the values of all tokens, and sets the bits of their coefficients in the masks. */
SIMT void flush_tokens(const struct scan_job *job, struct scan_state *state, const int kind)
{
    struct warp_memory *memory = job->memory;
    warp_barrier();
    for (uint32_t i = (uint32_t)lane_index(); i < state->tokens; i += WARP_LANES) {
        uint32_t bits = memory->tokens[i].x, at = memory->tokens[i].y;
        uint32_t entry = full_entry(job, kind, look_up(memory, bits), bits);
        uint32_t size = kind == AC_FIRST ? entry_size(entry) : (entry & ENTRY_NONZERO) != 0;
        if (size == 0 || entry_is_invalid(entry) || at / JPEG_BLOCK >= job->blocks)
            continue;
        uint32_t extra = bits << (entry_bits(entry) - size);
        int value = extend_value(extra, size) * (1 << job->low);
        job->component->values[jpeg_coefficient(at / JPEG_BLOCK, at % JPEG_BLOCK)] =
            (int16_t)value;
        atomic_or(&memory->masks[at / 32 % (2 * GROUP)], 1u << at % 32);
    }
    warp_barrier();
    state->tokens = 0;
}

/* Merges the masks of the group into those of the component, and clears them. */
SIMT void merge_masks(const struct scan_job *job, uint32_t block)
{
    uint32_t *own = &job->memory->masks[2 * lane_index()];
    for (uint32_t i = 0; i < 2; i++) {
        if (own[i] && block < job->blocks)
            atomic_or(&job->component->masks[2 * block + i], own[i]);
        own[i] = 0;
    }
    warp_barrier();
}

/* ---- blocks ---- */

/* Returns the blocks of an end-of-band run after the present one. bits: after the code. */
DEVICE uint32_t run_after(uint32_t bits, uint32_t run)
{
    return (1u << run) - 1 + shift_right(bits, 32 - run);
}

/* Decodes a block of a first scan. `at` is the position of the last coefficient that has been
 * passed, as in tokens. */
SIMT void decode_first_block(const struct scan_job *job, struct scan_state *state, uint32_t block)
{
    struct reader *reader = &state->reader;
    uint32_t entry = state->entry;
    uint32_t at = block * JPEG_BLOCK + job->first - 1, last = block * JPEG_BLOCK + job->last;
    while (at < last) {
        while ((int32_t)entry >= 0) {
            uint32_t bits = reader->high;
            reader_drop(reader, entry);
            uint32_t next = look_up(job->memory, reader->high);
            at += entry_advance(entry);
            add_token(job, state, bits, at);
            entry = next;
            if (at < last && (int32_t)entry >= 0) {
                bits = reader->high;
                reader_drop(reader, entry);
                next = look_up(job->memory, reader->high);
                at += entry_advance(entry);
                add_token(job, state, bits, at);
                entry = next;
            }
            reader_fill(reader);
            if (at >= last)
                break;
        }
        if (at >= last)
            break;
        uint32_t bits = reader->high;
        entry = full_entry(job, AC_FIRST, entry, bits);
        if (entry_is_invalid(entry))
            state->verdict = JPEG_SCANS_CODE;
        uint32_t used = entry_bits(entry), size = entry_size(entry), run = entry >> 20 & 15;
        at += entry_advance(entry);
        reader_drop(reader, used);
        reader_fill(reader);
        entry = look_up(job->memory, reader->high);
        if (size == 0 && run < 15) {
            state->run = run_after(bits << (used - run), run);
            at = last;
            break;
        }
        add_token(job, state, bits, at);
    }
    if (at > last)
        state->verdict = JPEG_SCANS_INDEX;
    state->entry = entry;
}

/* Returns the position of the zero in `nonzero` that has `run` zeros below it, at most 63. */
SIMT uint32_t find_zero(uint64_t nonzero, uint32_t run)
{
    uint32_t low = ~(uint32_t)nonzero, high = ~(uint32_t)(nonzero >> 32);
    uint32_t of_low = (uint32_t)count_bits(low);
    uint32_t zeros = run < of_low ? low : high, base = run < of_low ? 0 : 32;
    NO_UNROLL
    for (uint32_t i = run < of_low ? run : run - of_low; i > 0; i--)
        zeros &= zeros - 1;
    return zeros ? base + (uint32_t)lowest_bit(zeros) : 63;
}

/* Appends the correction bits that follow a symbol, at most 63, and looks up the next symbol.
 * used: bits of the symbol. */
SIMT uint64_t take_corrections(const struct scan_job *job, struct scan_state *state, uint32_t used,
                               uint32_t count, uint64_t corrections)
{
    struct reader *reader = &state->reader;
    if (used + count < 32) {
        uint32_t bits = funnel_left(reader->middle, reader->high, used);
        reader_drop(reader, used + count);
        state->entry = look_up(job->memory, reader->high);
        corrections = corrections << count | shift_right(bits, 32 - count);
        reader_fill(reader);
        return corrections;
    }
    reader_drop(reader, used);
    reader_fill(reader);
    corrections = corrections << count | reader_take(reader, (int)count);
    state->entry = look_up(job->memory, reader->high);
    return corrections;
}

/* Decodes a block of a refinement scan. nonzero: the coefficients of the band that are nonzero.
 * Returns the correction bits. */
SIMT uint64_t decode_refined_block(const struct scan_job *job, struct scan_state *state,
                                   uint32_t block, uint64_t nonzero)
{
    struct reader *reader = &state->reader;
    uint64_t corrections = 0;
    uint32_t at = block * JPEG_BLOCK + job->first - 1, last = block * JPEG_BLOCK + job->last;
    uint64_t rest = nonzero >> job->first; /* bit 0: the coefficient at + 1 */
    while (at < last) {
        uint32_t entry = state->entry;
        while ((int32_t)entry >= 0 && !((uint32_t)rest & entry >> 16)) {
            uint32_t bits = reader->high, advance = entry_advance(entry);
            reader_drop(reader, entry);
            uint32_t next = look_up(job->memory, reader->high);
            at += advance;
            rest >>= advance;
            add_token(job, state, bits, at);
            entry = next;
            if (at < last && (int32_t)entry >= 0 && !((uint32_t)rest & entry >> 16)) {
                bits = reader->high;
                advance = entry_advance(entry);
                reader_drop(reader, entry);
                next = look_up(job->memory, reader->high);
                at += advance;
                rest >>= advance;
                add_token(job, state, bits, at);
                entry = next;
            }
            reader_fill(reader);
            if (at >= last)
                break;
        }
        state->entry = entry;
        if (at >= last)
            break;
        uint32_t bits = reader->high;
        entry = full_entry(job, AC_REFINE, entry, bits);
        if (entry_is_invalid(entry))
            state->verdict = JPEG_SCANS_CODE;
        uint32_t used = entry_bits(entry), run = entry_advance(entry) - 1;
        if (run < 15 && !(entry & ENTRY_NONZERO)) {
            state->run = run_after(bits << (used - run), run);
            uint32_t count = (uint32_t)count_bits((uint32_t)rest) +
                             (uint32_t)count_bits((uint32_t)(rest >> 32));
            return take_corrections(job, state, used, count, corrections);
        }
        uint32_t zero = find_zero(rest, run);
        at += zero + 1;
        if (entry & ENTRY_NONZERO)
            add_token(job, state, bits, at);
        corrections = take_corrections(job, state, used, zero - run, corrections);
        rest = rest >> zero >> 1;
    }
    if (at > last)
        state->verdict = JPEG_SCANS_INDEX;
    return corrections;
}

/* Reads the correction bits of `count` blocks of an end-of-band run, from `block` on. Each lane
 * gets those of its block of the group. */
SIMT uint64_t decode_run(const struct scan_job *job, struct scan_state *state, uint32_t block,
                         uint32_t count, uint64_t nonzero)
{
    struct reader *reader = &state->reader;
    uint32_t lane = (uint32_t)lane_index(), from = block % GROUP, total;
    uint32_t own = 0;
    if (lane >= from && lane < from + count)
        own = (uint32_t)count_bits((uint32_t)nonzero) +
              (uint32_t)count_bits((uint32_t)(nonzero >> 32));
    if (!warp_any(own > 0))
        return 0;
    uint32_t before = warp_scan(own, &total), position = reader_position(reader);
    uint64_t corrections = own ? bits_at(reader, position + before, (int)own) : 0;
    if (total < 32) {
        reader_drop(reader, total);
        reader_fill(reader);
    } else {
        reader_seek(reader, position + total);
    }
    state->entry = look_up(job->memory, reader->high);
    return corrections;
}

/* ---- progress of other scans ---- */

/* Waits until the scans that this one continues have completed `blocks` blocks. Returns the number
 * of blocks that they all have completed, or PROGRESS_FAILED. */
SIMT uint32_t await_progress(const struct scan_job *job, uint32_t blocks)
{
    int lane = lane_index();
    bool mine = job->scan->predecessors >> lane & 1;
    for (;;) {
        uint32_t complete = mine ? poll_word(job->progress + lane) : PROGRESS_FAILED - 1;
        if (warp_any(complete == PROGRESS_FAILED))
            return PROGRESS_FAILED;
        for (int by = 1; by < WARP_LANES; by *= 2)
            complete = min_word(complete, warp_read_xor(complete, by));
        warp_barrier();
        if (complete >= blocks)
            return complete;
        relax();
    }
}

/* The coefficients of the scan's band that are nonzero in a block. */
SIMT uint64_t load_mask(const struct scan_job *job, uint32_t block)
{
    uint64_t band = ~(uint64_t)0 << job->first & ~(uint64_t)0 >> (63 - job->last);
    if (block >= job->blocks)
        return 0;
    words2 mask = load_fresh(job->component->masks + 2 * block);
    return ((uint64_t)mask.y << 32 | mask.x) & band;
}

/* ---- scans ---- */

/* Decodes the blocks from `block` to `stop` of one group and of one segment. Returns the
 * corrections of the lane's block, if it is one of these. */
SIMT uint64_t decode_blocks(const struct scan_job *job, struct scan_state *state, const int kind,
                            uint32_t block, uint32_t stop, uint64_t nonzero)
{
    uint64_t own = 0;
    while (block < stop) {
        if (state->run > 0) {
            uint32_t count = min_word(state->run, stop - block);
            if (kind == AC_REFINE)
                own |= decode_run(job, state, block, count, nonzero);
            state->run -= count;
            block += count;
            continue;
        }
        if (kind == AC_REFINE) {
            int lane = (int)(block % GROUP);
            uint64_t mask = (uint64_t)warp_read((uint32_t)(nonzero >> 32), lane) << 32 |
                            warp_read((uint32_t)nonzero, lane);
            uint64_t corrections = decode_refined_block(job, state, block, mask);
            if (lane_index() == lane)
                own = corrections;
        } else {
            decode_first_block(job, state, block);
        }
        block++;
        if (state->tokens > TOKENS - JPEG_BLOCK)
            flush_tokens(job, state, kind);
    }
    return own;
}

/* Decodes an AC scan. Returns a verdict. */
SIMT uint32_t decode_ac(const struct scan_job *job, const int kind)
{
    struct scan_state state;
    uint32_t lane = (uint32_t)lane_index(), block = 0, complete = 0;
    uint32_t segment_end = min_word(job->scan->interval, job->blocks);
    uint64_t following = 0;
    memset(&state, 0, sizeof state);
    state.reader.words = job->scan->words;
    state.reader.limit = job->scan->word_limit;
    begin_segment(job, &state);
    state.entry = look_up(job->memory, state.reader.high);
    for (uint32_t base = 0; base < job->blocks; base += GROUP) {
        uint32_t end = min_word(base + GROUP, job->blocks);
        uint64_t nonzero = following, corrections = 0;
        if (kind == AC_REFINE) {
            uint32_t needed = min_word(end + GROUP, job->blocks);
            if (complete < needed)
                complete = await_progress(job, needed);
            if (complete == PROGRESS_FAILED)
                return JPEG_SCANS_STOPPED;
            if (base == 0)
                nonzero = load_mask(job, lane);
            following = load_mask(job, base + GROUP + lane);
        }
        while (block < end) {
            uint32_t stop = min_word(end, segment_end);
            corrections |= decode_blocks(job, &state, kind, block, stop, nonzero);
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
        flush_tokens(job, &state, kind);
        merge_masks(job, base + lane);
        if (kind == AC_REFINE && base + lane < job->blocks)
            job->scan->corrections[base + lane] = corrections;
        if (state.verdict == JPEG_SCANS_COMPLETE && reader_position(&state.reader) > job->end_bit)
            state.verdict = JPEG_SCANS_LENGTH;
        if (state.verdict != JPEG_SCANS_COMPLETE)
            return state.verdict;
        if (end % PUBLISHED_BLOCKS == 0 || end == job->blocks)
            publish_progress(job, end);
    }
    return JPEG_SCANS_COMPLETE;
}

/* Decodes the next DC difference. component: index in the scan. */
SIMT int decode_difference(const struct scan_job *job, struct scan_state *state,
                           const struct jpeg_huffman *table, int component)
{
    struct warp_memory *memory = job->memory;
    uint32_t bits = state->reader.high;
    uint32_t entry = memory->lookup[component * DC_LOOKUP_WORDS + (bits >> (32 - DC_LOOKUP_BITS))];
    if (entry_is_long(entry))
        entry = find_entry(table, &memory->ends[component], DC_FIRST, 0, bits, DC_LOOKUP_BITS + 1);
    if (entry_is_invalid(entry))
        state->verdict = JPEG_SCANS_CODE;
    reader_drop(&state->reader, entry);
    reader_fill(&state->reader);
    uint32_t size = entry_size(entry);
    return size ? extend_value(bits << (entry_bits(entry) - size), size) : 0;
}

/* A component in a DC scan. */
struct dc_component {
    const struct progressive_component *to;
    const struct jpeg_huffman *table;
    uint32_t h, v; /* blocks of an MCU; 0: not in the scan */
    int value;     /* the last one */
};

SIMT void decode_dc_blocks(const struct scan_job *job, struct scan_state *state, int index,
                           struct dc_component *component, uint32_t mcu_x, uint32_t mcu_y)
{
    const struct progressive_component *to = component->to;
    for (uint32_t y = mcu_y * component->v; y < (mcu_y + 1) * component->v; y++)
        for (uint32_t x = mcu_x * component->h; x < (mcu_x + 1) * component->h; x++) {
            component->value += decode_difference(job, state, component->table, index);
            int value = component->value * (1 << job->low);
            if (value != (int16_t)value) {
                state->verdict = JPEG_SCANS_VALUE;
                component->value = 0;
            }
            if (lane_index() == 0 && to->stored && x < to->across && y < to->down)
                to->values[jpeg_coefficient(y * to->across + x, 0)] = (int16_t)value;
        }
}

/* Decodes a first DC scan. Returns a verdict. */
SIMT uint32_t decode_dc(const struct scan_job *job, const struct progressive_image *image,
                        const struct jpeg_huffman *tables)
{
    const struct progressive_scan *scan = job->scan;
    struct dc_component components[JPEG_COMPONENTS_MAX];
    struct scan_state state;
    memset(components, 0, sizeof components);
    memset(&state, 0, sizeof state);
    UNROLL
    for (int i = 0; i < JPEG_COMPONENTS_MAX; i++)
        if (i < scan->component_count) {
            const struct progressive_component *to = &image->components[scan->components[i]];
            components[i].to = to;
            components[i].table = tables + scan->tables[i];
            components[i].h = scan->component_count == 1 ? 1 : to->h;
            components[i].v = scan->component_count == 1 ? 1 : to->v;
        }
    state.reader.words = scan->words;
    state.reader.limit = scan->word_limit;
    begin_segment(job, &state);
    uint32_t x = 0, y = 0, left = scan->interval;
    for (uint32_t mcu = 0; mcu < scan->mcus; mcu++) {
        UNROLL
        for (int i = 0; i < JPEG_COMPONENTS_MAX; i++)
            decode_dc_blocks(job, &state, i, &components[i], x, y);
        if (state.verdict == JPEG_SCANS_COMPLETE && reader_position(&state.reader) > job->end_bit)
            state.verdict = JPEG_SCANS_LENGTH;
        if (state.verdict != JPEG_SCANS_COMPLETE)
            return state.verdict;
        if (++x == scan->mcus_across) {
            x = 0;
            y++;
        }
        if (--left > 0 && mcu + 1 < scan->mcus)
            continue;
        uint32_t verdict = end_segment(job, &state);
        if (verdict != JPEG_SCANS_COMPLETE)
            return verdict;
        left = scan->interval;
        state.segment++;
        if (mcu + 1 < scan->mcus) {
            begin_segment(job, &state);
            components[0].value = components[1].value = components[2].value = 0;
        }
    }
    return JPEG_SCANS_COMPLETE;
}

/* Checks the length of each segment of a DC refinement, which has one bit per block. Returns a
 * verdict. progressive.cu adds the bits. */
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

KERNEL(decode_scans, WARP_LANES, 16, struct progressive_args)
{
    SHARED struct warp_memory memory;
    uint32_t ticket = lane_index() == 0 ? atomic_add(&args.header->ticket, 1) : 0;
    ticket = warp_read(ticket, 0);
    if (ticket >= args.scan_count)
        return;
    struct scan_job job;
    job.scan = args.scans + ticket;
    const struct progressive_image *image = args.images + job.scan->image;
    job.component = &image->components[job.scan->components[0]];
    job.table = args.tables + job.scan->tables[0];
    job.progress = image->progress;
    job.memory = &memory;
    job.blocks = job.component->blocks;
    job.first = job.scan->first;
    job.last = job.scan->last;
    job.low = job.scan->low;
    uint32_t verdict = poll_word(image->verdict);
    if (verdict == JPEG_SCANS_COMPLETE) {
        job.end_bit = job.scan->segments[job.scan->segment_count] * 8;
        verdict = decode_scan(&job, image, args.tables);
    }
    if (verdict == JPEG_SCANS_COMPLETE)
        return;
    if (lane_index() == 0)
        atomic_max(image->verdict, verdict);
    publish_progress(&job, PROGRESS_FAILED);
}

int progressive_decode_scans(const struct progressive_args *args, struct CUstream_st *stream)
{
    return LAUNCH(decode_scans, WARP_LANES, args->scan_count, 0, stream, *args);
}
