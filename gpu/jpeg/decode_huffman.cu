/*
 * decode_huffman.cu - finds the state of the Huffman decoder at every piece of the data.
 *
 * The state before a subsequence depends on all data before it. But a decoder that starts at a
 * wrong position, or with a wrong state, usually falls into step with the right one after some
 * symbols (Klein and Wiseman 2003; Weissenberger and Schmidt, arXiv 2111.09219). So each thread
 * decodes its subsequence from a guess, which comes from decoding some words before it, and all
 * decode again whose guess differs from the state after the subsequence before, until none does.
 * Such rounds are repeated within a span, whose first subsequences overlap the span before. `mend`
 * does the same across spans. Only lengths of symbols matter, so a lookup covers several symbols.
 *
 * As all states before are right, a subsequence's last decoding is that of a sequential decoder. It
 * counts blocks, and finds bad codes and ends that are too early or too late.
 *
 * Bound: instructions issued, about 20 per lookup of 1.7 symbols, 2.5 times each.
 */
#include "gpu/jpeg/decode_device.h"

#define MEND_THREADS 256
/* How often the first subsequences of spans are decoded again. In data that repeats every few bits,
 * as flat images have, decoders may never fall into step. The right state then moves on by one
 * subsequence in each round of `synchronise`, about 3 us, and by one span in each round of `mend`,
 * about 1 ms. A flat image of 40 megapixels needs 40 of these. */
#define MEND_ROUNDS_MAX 48

/* ---- walking over symbols ---- */

struct tables {
    const uint32_t *single, *group, *longs;
};

/* What is walked over. */
struct data {
    const uint32_t *words;
    struct tables tables;
    uint32_t luma, blocks; /* per MCU */
};

struct walk {
    uint32_t at;           /* bit position in the words */
    uint32_t index, block; /* next coefficient; block of the MCU */
    uint32_t count;        /* blocks completed */
    uint32_t bad;
};

#define NO_PIECES (~0u)

/* Walks to the first symbol that starts at `end` or later. A group of symbols may lead beyond that
 * symbol. Symbols that start at single_from or later are taken one by one. Records the states
 * before the pieces from `piece` on, a position, or none if it is NO_PIECES. */
DEVICE void walk_to(struct walk *walk, const struct data *data, uint32_t end, uint32_t single_from,
                    uint32_t piece, uint32_t *records)
{
    const uint32_t *words = data->words;
    struct tables tables = data->tables;
    uint32_t luma = data->luma, blocks = data->blocks;
    uint32_t at = walk->at, index = walk->index, block = walk->block;
    uint32_t next = at >> 5, high = words[next], low = words[next + 1];
    uint32_t component = block >= luma ? 2 * DECODE_LOOKUP : 0;
    uint32_t base = component + (index ? DECODE_LOOKUP : 0);
    next += 2;
    NO_UNROLL
    while (at < end) {
        if (at >= piece) {
            *records++ = record_of(at - piece, index, walk->count);
            piece += DECODE_PIECE_BITS;
        }
        uint32_t bits = funnel_left(low, high, at);
        uint32_t slot = base + (bits >> (32 - DECODE_LOOKUP_BITS));
        uint32_t entry = tables.group[slot];
        if ((int32_t)entry < 0 || index + (entry >> ENTRY_CODE_AT & 63) >= 64 ||
            at >= single_from) {
            entry = tables.single[slot];
            if ((int32_t)entry < 0)
                entry = tables.longs[(entry & 0xFFFF) + (bits << DECODE_LOOKUP_BITS >>
                                                         (entry >> ENTRY_CODE_AT & 31))];
        }
        uint32_t then = at + entry_bits(entry);
        if ((at ^ then) & 32) {
            high = low;
            low = words[next++];
        }
        at = then;
        index += entry_growth(entry);
        base = component + DECODE_LOOKUP;
        if (index >= 64) {
            walk->bad |= !ended_well(index);
            index = 0;
            walk->count++;
            block = block + 1 == blocks ? 0 : block + 1;
            component = block >= luma ? 2 * DECODE_LOOKUP : 0;
            base = component;
        }
    }
    /* The last piece may have no symbol of its own. */
    if (piece < end)
        *records = record_of(at - piece, index, walk->count);
    walk->at = at;
    walk->index = index;
    walk->block = block;
}

/* From where on symbols are taken one by one, so that the first symbol at `end` or later is found,
 * as by any decoder that is in step. */
DEVICE uint32_t single_before(uint32_t end)
{
    return end >= DECODE_LOOKUP_BITS ? end - DECODE_LOOKUP_BITS + 1 : 0;
}

DEVICE uint32_t state_of(const struct walk *walk, uint32_t boundary)
{
    return (walk->at - boundary) | walk->index << STATE_INDEX_AT | walk->block << STATE_BLOCK_AT;
}

/* The state after the last subsequence of a segment. The walk is at the first symbol that starts in
 * its last LATE_BITS bits, or at its end. The last block must end there; what follows it may be
 * padding, and is tried only because the block may not be complete. */
DEVICE uint32_t finish_segment(struct walk *walk, const struct data *data, uint32_t end)
{
    uint32_t late = walk->index == 0, bad = walk->bad;
    if (walk->at > end) {
        /* The last symbol is incomplete. */
        walk->count -= late;
        late = 0;
    }
    for (int i = 0; i < LATE_BITS && walk->at < end; i++) {
        struct walk tried = *walk;
        tried.bad = 0;
        walk_to(&tried, data, walk->at + 1, 0, NO_PIECES, NULL);
        if (tried.bad || tried.at > end)
            break;
        late += tried.count - walk->count;
        *walk = tried;
    }
    return (bad ? STATE_BAD : 0) | (walk->count & 1023) << STATE_COUNT_AT | late << STATE_LATE_AT;
}

/* Decodes a subsequence from the state `entry`. sub: positions relative to the words. Returns the
 * state after it. records: DECODE_PIECES words, or NULL. */
DEVICE uint32_t walk_sub(const struct decode_sub *sub, uint32_t entry, const struct data *data,
                         uint32_t *records)
{
    struct walk walk = {sub->start + (entry & 31), entry >> STATE_INDEX_AT & 63,
                        entry >> STATE_BLOCK_AT & 7, 0, 0};
    int32_t length = walked_bits(sub);
    uint32_t end = sub->start + (uint32_t)(length > 0 ? length : 0);
    /* The first piece has a record even if it has no symbol before `end`. */
    if (records)
        *records++ = record_of(entry & 31, walk.index, 0);
    walk_to(&walk, data, end, single_before(end),
            records ? sub->start + DECODE_PIECE_BITS : NO_PIECES, records);
    if (sub->last)
        return finish_segment(&walk, data, sub->end);
    return state_of(&walk, sub->end) | (walk.bad ? STATE_BAD : 0) | walk.count << STATE_COUNT_AT;
}

/* ---- synchronise ---- */

DEVICE size_t tables_bytes(void) { return 2 * DECODE_SINGLE_WORDS * sizeof(uint32_t); }

/* Copies the tables to shared memory, except for second lookups, which are rare. */
SIMT struct tables load_tables(const struct decode_descriptor *image, uint32_t *shared)
{
    const uint32_t *set = image->tables;
    bool gray = image->luma == image->blocks;
    uint32_t words = gray ? DECODE_SINGLE_WORDS / 2 : DECODE_SINGLE_WORDS;
    for (uint32_t i = 4 * (uint32_t)thread_index(); i < words; i += 4 * (uint32_t)block_threads()) {
        *(words4 *)(shared + i) = load_words4(set + i);
        *(words4 *)(shared + DECODE_SINGLE_WORDS + i) = load_words4(set + DECODE_SINGLE_WORDS + i);
    }
    struct tables tables = {shared, shared + DECODE_SINGLE_WORDS, set + 2 * DECODE_SINGLE_WORDS};
    return tables;
}

/* The subsequence's place: of an image with several segments, notes it, if `own`. */
SIMT struct decode_sub place_sub(const struct decode_descriptor *image, uint32_t data_bytes,
                                 uint32_t i, bool own)
{
    if (image->segments == 1)
        return sub_at(i * DECODE_SUB_BITS, 0, 0, data_bytes * 8);
    uint32_t first = 0, count = image->segments; /* the last segment with segment_subs <= i */
    while (count > 1) {
        uint32_t half = count / 2;
        if (image->segment_subs[first + half] <= i) {
            first += half;
            count -= half;
        } else {
            count = half;
        }
    }
    uint32_t from = image->segment_at[first] * 8;
    uint32_t start = from + (i - image->segment_subs[first]) * DECODE_SUB_BITS;
    if (own) {
        image->sub_places[2 * i] = start;
        image->sub_places[2 * i + 1] = first;
    }
    return sub_at(start, first, from, image->segment_at[first + 1] * 8);
}

/* Counts of threads whose flag is set before this one, and in all. */
SIMT uint32_t list_slot(bool flag, uint32_t *count)
{
    uint32_t mask = warp_ballot(flag), slot = 0;
    if (lane_index() == 0 && mask)
        slot = atomic_add(count, (uint32_t)count_bits(mask));
    return warp_read(slot, 0) + (uint32_t)count_bits(mask & ((1u << lane_index()) - 1));
}

/* Bytes of dynamic shared memory of `synchronise`. */
static size_t span_shared(uint32_t threads)
{
    return tables_bytes() + (size_t)threads * (5 + DECODE_SUB_WORDS) * sizeof(uint32_t) +
           (DECODE_WARM_UP_WORDS + 8) * sizeof(uint32_t);
}

/* A span, as the threads of its block see it. */
struct span {
    const struct decode_descriptor *image;
    uint32_t index, own_subs; /* of the span: its number, its subsequences at most */
    uint32_t subs, data_bytes; /* of the image */
    struct data data; /* its words: from that at bit `origin` of the image's */
    uint32_t origin;
    /* The thread's subsequence: it is decoded if `active`, and part of the span if `own`. */
    int32_t sub_index;
    bool active, own;
    /* In shared memory, for each thread: the state after its subsequence, the state to start again
     * with, the threads whose subsequences are decoded again, and where they start and end. */
    uint32_t *states, *entries, *list, *starts, *ends;
    uint32_t *words; /* data.words */
};
#define ENDS_SEGMENT 0x80000000u

/* Returns false if there is no such span. */
SIMT bool open_span(const struct decode_args *args, struct span *span)
{
    uint32_t *shared = (uint32_t *)DYNAMIC_SHARED(), threads = args->span_threads;
    uint32_t image = find_image(args->starts[DECODE_SPANS], args->image_count,
                                (uint32_t)block_index());
    span->image = &args->images[image];
    span->index = (uint32_t)block_index() - args->starts[DECODE_SPANS][image];
    span->own_subs = threads - DECODE_HALO;
    span->subs = span->image->run->subs;
    span->data_bytes = span->image->run->data_bytes;
    if (is_declined(span->image) || span->index * span->own_subs >= span->subs)
        return false;
    span->data.luma = span->image->luma;
    span->data.blocks = span->image->blocks;
    span->sub_index =
        (int32_t)(span->index * span->own_subs) + thread_index() - (int32_t)DECODE_HALO;
    span->active = span->sub_index >= 0 && span->sub_index < (int32_t)span->subs;
    span->own = span->active && thread_index() >= DECODE_HALO;
    span->states = shared + 2 * DECODE_SINGLE_WORDS;
    span->list = span->states + threads;
    span->entries = span->list + threads;
    span->starts = span->entries + threads;
    span->ends = span->starts + threads;
    span->words = span->ends + threads;
    span->data.words = span->words;
    span->data.tables = load_tables(span->image, shared);
    return true;
}

/* Copies the words of the threads' subsequences, and those before the first one that the warm-up
 * needs, to shared memory. */
SIMT void load_span(struct span *span, const struct decode_sub *sub)
{
    SHARED uint32_t first_bit, last_bit;
    uint32_t thread = (uint32_t)thread_index(), threads = (uint32_t)block_threads();
    if (thread == 0)
        first_bit = last_bit = 0;
    block_barrier();
    if (span->active && (thread == 0 || span->sub_index == 0))
        first_bit = sub->start;
    if (span->active && (thread == threads - 1 || span->sub_index == (int32_t)span->subs - 1))
        last_bit = sub->end;
    block_barrier();
    uint32_t first = first_bit / 32 > DECODE_WARM_UP_WORDS ? first_bit / 32 - DECODE_WARM_UP_WORDS
                                                           : 0;
    uint32_t end = last_bit / 32 + 3;
    span->origin = first * 32;
    for (uint32_t i = thread; first + i < end; i += threads)
        span->words[i] = span->image->words[first + i];
    block_barrier();
}

/* Guesses the state before the subsequence from the bits before it. It is right if the segment
 * starts there, or in the warm-up. Positions are relative to the span's words. */
SIMT uint32_t guess_entry(const struct span *span, const struct decode_sub *sub)
{
    uint32_t segment_start =
        span->image->segments == 1 ? 0 : span->image->segment_at[sub->segment] * 8;
    uint32_t before = sub->start + span->origin - segment_start;
    before = before < DECODE_WARM_UP_WORDS * 32 ? before : DECODE_WARM_UP_WORDS * 32;
    struct walk walk = {sub->start - before, 0, 0, 0, 0};
    walk_to(&walk, &span->data, sub->start, single_before(sub->start), NO_PIECES, NULL);
    return state_of(&walk, sub->start);
}

/* Decodes the subsequence of a thread, and notes the state after it. */
SIMT void decode_sub_of(const struct span *span, uint32_t thread, const struct decode_sub *sub,
                        uint32_t entry)
{
    uint32_t sub_index = span->index * span->own_subs + thread - DECODE_HALO;
    span->states[thread] =
        walk_sub(sub, entry, &span->data,
                 thread >= DECODE_HALO ? span->image->records + DECODE_PIECES * sub_index : NULL);
}

/* Lets all threads decode again whose entry is not the state after the subsequence before, until
 * there is none. Then all are in step, as the first one is not decoded again: after as many rounds
 * as there are threads at the latest. Returns the entry of the thread. */
SIMT uint32_t run_rounds(const struct span *span, bool first, uint32_t entry)
{
    SHARED uint32_t listed;
    uint32_t thread = (uint32_t)thread_index();
    for (int round = 0; round <= block_threads(); round++) {
        block_barrier();
        if (thread == 0)
            listed = 0;
        uint32_t before = entry;
        if (span->active && !first && thread > 0)
            before = span->states[thread - 1] & STATE_MASK;
        bool differs = before != entry;
        block_barrier();
        uint32_t slot = list_slot(differs, &listed);
        if (differs) {
            entry = span->entries[thread] = before;
            span->list[slot] = thread;
        }
        block_barrier();
        uint32_t count = listed;
        if (count == 0)
            break;
        if (thread < count) {
            uint32_t of = span->list[thread];
            struct decode_sub again = {span->starts[of], span->ends[of] & ~ENDS_SEGMENT, 0, 0,
                                       false, (span->ends[of] & ENDS_SEGMENT) != 0};
            decode_sub_of(span, of, &again, span->entries[of]);
        }
    }
    block_barrier();
    return entry;
}

/* Stores the threads' states, and the span's for `mend`. */
SIMT void close_span(const struct span *span, bool first, uint32_t entry)
{
    SHARED uint32_t segment_starts, sums[WARP_LANES]; /* the last thread at a segment's start */
    const struct decode_descriptor *image = span->image;
    uint32_t thread = (uint32_t)thread_index(), total;
    if (thread == 0)
        segment_starts = 0;
    block_barrier();
    if (span->own) {
        image->sub_states[span->sub_index] = span->states[thread];
        if (first)
            atomic_max(&segment_starts, thread);
    }
    if (thread == DECODE_HALO)
        image->span_entries[span->index] = first ? 0 : 1 + entry;
    block_barrier();
    bool counts = span->own && thread >= segment_starts;
    (void)block_scan(counts ? state_count(span->states[thread]) : 0, &total, sums);
    if (thread == 0) {
        image->span_counts[2 * span->index] = total;
        image->span_counts[2 * span->index + 1] = segment_starts > 0;
    }
}

/* One block per span. Each thread has a subsequence; the first DECODE_HALO ones are before it. */
KERNEL(synchronise, DECODE_SPAN_THREADS_MAX, 1, struct decode_args)
{
    struct span span;
    struct decode_sub sub = {0, 0, 0, 0, true, true};
    uint32_t thread = (uint32_t)thread_index(), entry = 0;
    if (!open_span(&args, &span))
        return;
    if (span.active)
        sub = place_sub(span.image, span.data_bytes, (uint32_t)span.sub_index, span.own);
    load_span(&span, &sub);
    sub.start -= span.origin;
    sub.end -= span.origin;
    if (span.active) {
        entry = sub.first ? 0 : guess_entry(&span, &sub);
        span.starts[thread] = sub.start;
        span.ends[thread] = sub.end | (sub.last ? ENDS_SEGMENT : 0);
        decode_sub_of(&span, thread, &sub, entry);
    }
    entry = run_rounds(&span, sub.first, entry);
    close_span(&span, sub.first, entry);
}

/* ---- mend ---- */

/* Decodes the first subsequences of a span again until the states agree with the old ones. */
SIMT void mend_span(const struct decode_descriptor *image, const struct data *data, uint32_t span,
                    uint32_t own_subs, uint32_t entry)
{
    uint32_t data_bytes = image->run->data_bytes;
    uint32_t first = span * own_subs, end = first + own_subs;
    uint32_t subs = image->run->subs, delta = 0;
    end = end < subs ? end : subs;
    image->span_entries[span] = 1 + entry;
    for (uint32_t i = first; i < end; i++) {
        struct decode_sub sub = sub_of(image, data_bytes, i);
        if (sub.first)
            break;
        uint32_t before = image->sub_states[i];
        uint32_t state = walk_sub(&sub, entry, data, image->records + DECODE_PIECES * i);
        image->sub_states[i] = state;
        delta += state_count(state) - state_count(before);
        entry = state & STATE_MASK;
        if (entry == (before & STATE_MASK))
            break;
    }
    if (!image->span_counts[2 * span + 1])
        image->span_counts[2 * span] += delta;
}

/* One block per image: brings the spans in step, and sums up their blocks. */
KERNEL(mend, MEND_THREADS, 1, struct decode_args)
{
    SHARED uint32_t sums[WARP_LANES], starts[MEND_THREADS], counts[MEND_THREADS];
    const struct decode_descriptor *image = &args.images[block_index()];
    uint32_t own_subs = args.span_threads - DECODE_HALO, thread = (uint32_t)thread_index();
    uint32_t subs = image->run->subs;
    uint32_t spans = (subs + own_subs - 1) / own_subs;
    if (image->run->verdict != JPEG_DECODE_DONE)
        return;
    struct data data = {image->words, {NULL, NULL, NULL}, image->luma, image->blocks};
    for (int round = 0;; round++) {
        bool differs = false;
        for (uint32_t span = 1 + thread; span < spans; span += MEND_THREADS) {
            uint32_t entry = image->span_entries[span];
            differs |= entry != 0 &&
                       entry - 1 != (image->sub_states[span * own_subs - 1] & STATE_MASK);
        }
        if (!block_any(differs))
            break;
        if (round == 0) {
            data.tables = load_tables(image, (uint32_t *)DYNAMIC_SHARED());
            block_barrier();
        }
        if (round == MEND_ROUNDS_MAX) {
            if (thread == 0)
                decline(image, JPEG_DECODE_NOT_IN_STEP);
            return;
        }
        for (uint32_t span = 1 + thread; span < spans; span += MEND_THREADS) {
            uint32_t entry = image->span_entries[span];
            uint32_t state = image->sub_states[span * own_subs - 1] & STATE_MASK;
            if (entry != 0 && entry - 1 != state)
                mend_span(image, &data, span, own_subs, state);
        }
    }
    /* Blocks of the segment before each span: a sum that starts again at segments. */
    uint32_t carry = 0;
    for (uint32_t first = 0; first < spans; first += MEND_THREADS) {
        uint32_t span = first + thread, total;
        bool active = span < spans;
        uint32_t count = active ? image->span_counts[2 * span] : 0;
        bool starts_here = active && image->span_counts[2 * span + 1] != 0;
        uint32_t before = block_scan(count, &total, sums);
        /* The last span before this one in which a segment starts. */
        starts[thread] = starts_here ? thread + 1 : 0;
        counts[thread] = before;
        block_barrier();
        for (uint32_t by = 1; by < MEND_THREADS; by *= 2) {
            uint32_t other = thread >= by ? starts[thread - by] : 0;
            block_barrier();
            starts[thread] = starts[thread] > other ? starts[thread] : other;
            block_barrier();
        }
        uint32_t from = thread > 0 ? starts[thread - 1] : 0;
        uint32_t blocks = from ? before - counts[from - 1] : before + carry;
        if (active)
            image->span_blocks[span] = blocks;
        uint32_t last = starts[MEND_THREADS - 1];
        carry = last ? total - counts[last - 1] : total + carry;
        block_barrier();
    }
}

/* ---- number ---- */

/* Whether the block of the segment that is its last one ends in its last 8 bits. */
SIMT enum jpeg_decode_verdict check_segment(uint32_t state, uint32_t before, uint32_t wanted)
{
    uint32_t after = before + state_count(state);
    if (after < wanted)
        return JPEG_DECODE_EARLY_END;
    /* If the segment has less than 8 bits, its start counts as an end in the last 8 bits. */
    return (int32_t)(after - state_late(state)) < (int32_t)wanted ? JPEG_DECODE_DONE
                                                                  : JPEG_DECODE_BYTES_LEFT;
}

/* The pieces of a subsequence that have a record: the last subsequence of a segment is shorter. */
SIMT uint32_t pieces_in(const struct decode_sub *sub)
{
    int32_t pieces = (walked_bits(sub) + DECODE_PIECE_BITS - 1) / DECODE_PIECE_BITS;
    return pieces < 1 ? 1 : pieces < DECODE_PIECES ? (uint32_t)pieces : DECODE_PIECES;
}

/* Notes which piece is the first to start in each tile from the one after `block` to that of
 * `block_after`: block numbers before and after the subsequence, which has `pieces`. */
SIMT void start_tiles(const struct decode_descriptor *image, uint32_t sub, uint32_t pieces,
                      uint32_t block, uint32_t block_after)
{
    uint32_t tile_blocks = image->tile_mcus * image->blocks;
    uint32_t tile = block / tile_blocks + 1;
    NO_UNROLL
    for (; tile < image->tiles && tile * tile_blocks <= block_after; tile++) {
        uint32_t piece = 1;
        while (piece < pieces &&
               block + (image->records[DECODE_PIECES * sub + piece] >> RECORD_COUNT_AT) <
                   tile * tile_blocks)
            piece++;
        image->tile_pieces[tile] = DECODE_PIECES * sub + piece;
    }
}

/* One block per span: numbers the blocks, and checks the segments. */
KERNEL(number_blocks, DECODE_SPAN_THREADS_MAX, 1, struct decode_args)
{
    SHARED uint32_t sums[WARP_LANES], counts[DECODE_SPAN_THREADS_MAX];
    uint32_t index = find_image(args.starts[DECODE_SPANS], args.image_count,
                                (uint32_t)block_index());
    const struct decode_descriptor *image = &args.images[index];
    uint32_t span = (uint32_t)block_index() - args.starts[DECODE_SPANS][index];
    uint32_t own_subs = args.span_threads - DECODE_HALO, thread = (uint32_t)thread_index();
    uint32_t subs = image->run->subs, sub_index = span * own_subs + thread, total;
    if (is_declined(image) || span * own_subs >= subs)
        return;
    bool active = thread < own_subs && sub_index < subs;
    uint32_t state = active ? image->sub_states[sub_index] : 0;
    counts[thread] = block_scan(state_count(state), &total, sums);
    block_barrier();
    if (!active)
        return;
    struct decode_sub sub = sub_of(image, image->run->data_bytes, sub_index);
    uint32_t first = image->segments == 1 ? 0 : image->segment_subs[sub.segment];
    uint32_t before = first >= span * own_subs
                          ? counts[thread] - counts[first - span * own_subs]
                          : counts[thread] + image->span_blocks[span];
    uint32_t mcus_before = sub.segment * image->segment_mcus;
    uint32_t mcus = image->mcus - mcus_before;
    mcus = mcus < image->segment_mcus ? mcus : image->segment_mcus;
    uint32_t wanted = mcus * image->blocks, block = mcus_before * image->blocks + before;
    enum jpeg_decode_verdict found = state & STATE_BAD ? JPEG_DECODE_BAD_CODE
                                : sub.last        ? check_segment(state, before, wanted)
                                : before + state_count(state) > wanted ? JPEG_DECODE_BYTES_LEFT
                                                                       : JPEG_DECODE_DONE;
    if (found != JPEG_DECODE_DONE) {
        decline(image, found);
        return;
    }
    image->sub_blocks[sub_index] = block;
    start_tiles(image, sub_index, pieces_in(&sub), block,
                sub.last ? (mcus_before + mcus) * image->blocks : block + state_count(state));
    if (sub_index == 0)
        image->tile_pieces[0] = 0;
    if (sub_index == subs - 1)
        image->tile_pieces[image->tiles] = DECODE_PIECES * subs;
}

int decode_launch_huffman(const struct jpeg_decode_batch *batch, const struct decode_args *args,
                          struct CUstream_st *stream)
{
    uint32_t threads = batch->span_threads;
    int status = (int)ALLOW_SHARED(synchronise, span_shared(threads));
    if (status == 0)
        status = (int)LAUNCH(synchronise, threads, batch->spans, span_shared(threads), stream,
                             *args);
    if (status == 0)
        status = (int)LAUNCH(mend, MEND_THREADS, batch->image_count, tables_bytes(), stream, *args);
    if (status == 0)
        status = (int)LAUNCH(number_blocks, threads, batch->spans, 0, stream, *args);
    return status;
}
