/*
 * decode_huffman.cu - finds the state of the Huffman decoder at the start of every piece of the
 * data: the second stage of the JPEG decoder (decode_impl.h defines pieces, subsequences and
 * spans).
 *
 * The state before a subsequence depends on all data before it. But a decoder that starts with a
 * wrong state usually synchronises after some symbols: from then on it finds the right symbols
 * (Klein and Wiseman 2003; Weissenberger and Schmidt, arXiv 2111.09219). So each thread first
 * guesses the state before its subsequence, by decoding some words before it, and decodes the
 * subsequence. If its guess differs from the state that the thread before it has found, it decodes
 * again from that state. This is repeated until no guess differs: the kernel `synchronise` does it
 * within a span, and the kernel `mend` from span to span. Both need only the lengths of symbols, so
 * that a lookup can cover several symbols.
 *
 * In the end all states are right: each subsequence has been decoded as a sequential decoder does.
 * The kernel `number_blocks` then numbers the blocks, and checks for bad codes and for segments
 * that end too early or too late.
 *
 * Most of the time, warps wait. A lookup takes some 40 instructions, and 100 cycles if no other
 * warp runs. All threads of a block wait for the few that need the most rounds. So it matters how
 * many blocks of threads fit into shared memory, and how many rounds there are: in files with 5
 * bits per pixel, each symbol is decoded 2.4 times.
 */
#include "gpu/jpeg/decode_device.h"

#define MEND_THREADS 256
/* Rounds of `mend`, at most; if they are not enough, the image is declined. Decoders may never
 * synchronise in data that repeats every few bits, as that of flat images does. Each round of
 * `synchronise` (about 3 us) then corrects only one subsequence, and each round of `mend` (about
 * 1 ms) one span. A flat image of 40 megapixels needs 40 rounds of `mend`, and 57 in a batch with
 * longer subsequences, which has shorter spans. */
#define MEND_ROUNDS_MAX 64

/* ---- walking over symbols ---- */

/* The lookup tables: see decode_tables.h. */
struct tables {
    const uint32_t *single, *multi, *longs;
};

/* The data to decode. */
struct data {
    const uint32_t *words;
    struct tables tables;
    uint32_t luma, blocks; /* per MCU */
};

/* A decoder that skips values: it only follows the symbols. */
struct walk {
    uint32_t at;           /* position of the next symbol in the words, in bits */
    uint32_t index, block; /* of the next coefficient, in its block; of that block, in its MCU */
    uint32_t count;        /* blocks completed */
    uint32_t bad;          /* whether a block has ended badly */
};

#define NO_PIECES (~0u)

/* Walks to the first symbol that starts at `end` or later. Symbols that start at single_from or
 * later are looked up one by one: a lookup of several symbols could pass the symbol at `end`.
 * records: receives a record for each piece that starts at `piece` or later, unless piece is
 * NO_PIECES. keeps_records: a constant; false: there are none. */
DEVICE void walk_to(struct walk *walk, const struct data *data, uint32_t end, uint32_t single_from,
                    uint32_t piece, uint32_t *records, bool keeps_records)
{
    struct tables tables = data->tables;
    uint32_t luma = data->luma, blocks = data->blocks;
    uint32_t at = walk->at, index = walk->index, block = walk->block;
    uint32_t counted = walk->count << RECORD_COUNT_AT, record = 0;
    const uint32_t *next = data->words + (at >> 5) + 2;
    uint32_t high = next[-2], low = next[-1], ahead = next[0];
    uint32_t component = block >= luma ? 2 * DECODE_LOOKUP : 0;
    uint32_t base = component + (index ? DECODE_LOOKUP : 0), least = ~0u;
    NO_UNROLL
    while (at < end) {
        if (keeps_records && at >= piece) {
            records[record++] = record_of(at - piece, index, counted);
            piece += DECODE_PIECE_BITS;
        }
        uint32_t bits = funnel_left(low, high, at);
        uint32_t key = base + (bits >> (32 - DECODE_LOOKUP_BITS));
        int32_t least_limit = (int32_t)(index << ENTRY_LIMIT_AT);
        uint32_t entry = tables.multi[key];
        if ((int32_t)entry < least_limit || at >= single_from) {
            if ((int32_t)entry >= 0)
                entry = tables.single[key];
            if ((int32_t)entry < 0)
                entry = tables.longs[(entry & 0xFFFF) + (bits << DECODE_LOOKUP_BITS >>
                                                         (entry >> ENTRY_CODE_AT & 31))];
        }
        uint32_t then = add_bits(entry, at);
        uint32_t crosses = (at ^ then) & 32; /* into the next word */
        high = crosses ? low : high;
        low = crosses ? ahead : low;
        next = crosses ? next + 1 : next;
        ahead = *next; /* long before it is needed */
        at = then;
        index = add_growth(entry, index);
        base = component + DECODE_LOOKUP;
        if (index >= 64) {
            uint32_t how = ending(index);
            least = how < least ? how : least;
            index = 0;
            counted += 1u << RECORD_COUNT_AT;
            block = block + 1 == blocks ? 0 : block + 1;
            component = block >= luma ? 2 * DECODE_LOOKUP : 0;
            base = component;
        }
    }
    /* No symbol starts in the last piece. */
    if (keeps_records && piece < end)
        records[record] = record_of(at - piece, index, counted);
    walk->at = at;
    walk->index = index;
    walk->block = block;
    walk->count = counted >> RECORD_COUNT_AT;
    walk->bad |= least < ENDED_WELL;
}

/* The argument single_from of walk_to with which a walk stops exactly at the first symbol at `end`
 * or later. */
DEVICE uint32_t single_before(uint32_t end)
{
    return end >= DECODE_LOOKUP_BITS ? end - DECODE_LOOKUP_BITS + 1 : 0;
}

/* The state (decode_device.h) of a walk that has passed the end of a subsequence, `boundary`. */
DEVICE uint32_t state_of(const struct walk *walk, uint32_t boundary)
{
    return (walk->at - boundary) | walk->index << STATE_INDEX_AT | walk->block << STATE_BLOCK_AT;
}

/* Returns the state after the last subsequence of a segment that ends at `end`. The walk has
 * reached the last LATE_BITS bits of the segment. The last block ends in these bits, and the rest
 * is padding. Where it ends is not known here, so all further symbols are tried, and the blocks
 * that they complete are counted as late; check_segment then compares the count with the number of
 * blocks. */
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
        walk_to(&tried, data, walk->at + 1, 0, 0, NULL, false);
        if (tried.bad || tried.at > end)
            break;
        late += tried.count - walk->count;
        *walk = tried;
    }
    return (bad ? STATE_BAD : 0) | (walk->count & STATE_COUNT_MASK) << STATE_COUNT_AT |
           late << STATE_LATE_AT;
}

/* Walks over a subsequence from the state `entry`. The positions in *sub are relative to
 * data->words. Returns the state after the subsequence. records: receives a word per piece;
 * NULL: none. */
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
            records ? sub->start + DECODE_PIECE_BITS : NO_PIECES, records, true);
    if (sub->last)
        return finish_segment(&walk, data, sub->end);
    return state_of(&walk, sub->end) | (walk.bad ? STATE_BAD : 0) | walk.count << STATE_COUNT_AT;
}

/* ---- synchronise ---- */

DEVICE size_t tables_bytes(void)
{
    return DECODE_SINGLE_WORDS * sizeof(uint32_t);
}

/* Copies the tables `multi` to shared memory. The others are used for the last symbols of a
 * subsequence and for rare ones; they stay in global memory, so that more blocks of threads fit on
 * a multiprocessor. */
SIMT struct tables load_tables(const struct decode_descriptor *image, uint32_t *shared)
{
    const uint32_t *set = image->tables;
    bool gray = image->luma == image->blocks;
    uint32_t words = gray ? DECODE_SINGLE_WORDS / 2 : DECODE_SINGLE_WORDS;
    for (uint32_t i = 4 * (uint32_t)thread_index(); i < words; i += 4 * (uint32_t)block_threads())
        *(words4 *)(shared + i) = load_words4(set + DECODE_SINGLE_WORDS + i);
    struct tables tables = {set, shared, set + 2 * DECODE_SINGLE_WORDS};
    return tables;
}

/* Returns the position of subsequence i. own: if the image has several segments, also writes it to
 * sub_places. */
SIMT struct decode_sub place_sub(const struct decode_descriptor *image, uint32_t data_bytes,
                                 uint32_t i, bool own)
{
    uint32_t sub_bits = image->sub_words * 32;
    if (image->segments == 1)
        return sub_at(i * sub_bits, sub_bits, 0, 0, data_bytes * 8);
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
    uint32_t start = from + (i - image->segment_subs[first]) * sub_bits;
    if (own) {
        image->sub_places[2 * i] = start;
        image->sub_places[2 * i + 1] = first;
    }
    return sub_at(start, sub_bits, first, from, image->segment_at[first + 1] * 8);
}

/* Gives each thread of the block whose flag is set a different number from 0 on. *count, which must
 * be 0 before, becomes the number of these threads. */
SIMT uint32_t list_place(bool flag, uint32_t *count)
{
    uint32_t mask = warp_ballot(flag), first = 0;
    if (lane_index() == 0 && mask)
        first = atomic_add(count, (uint32_t)count_bits(mask));
    return warp_read(first, 0) + (uint32_t)count_bits(mask & ((1u << lane_index()) - 1));
}

/* The span that a block of threads decodes. */
struct span {
    const struct decode_descriptor *image;
    uint32_t index, own_subs;  /* its number in the image; its subsequences, at most */
    uint32_t halo;             /* decode_args.halo */
    uint32_t subs, data_bytes; /* decode_run.subs and data_bytes of the image */
    struct data data;          /* a part of the image's words, in shared memory */
    uint32_t origin;           /* where this part starts in the image's words, in bits */
    /* The thread's subsequence. `active`: it exists; `own`: it is in the span, not in the halo. */
    int32_t sub_index;
    bool active, own;
    /* Arrays in shared memory, with an element per thread: the state after its subsequence; the
     * state from which it decodes again; the start and the end of its subsequence. `list` has the
     * threads whose subsequences must be decoded again. */
    uint32_t *states, *entries, *list, *starts, *ends;
    uint32_t *words; /* data.words, to write them */
};
/* A flag in span.ends: the subsequence is the last of its segment. */
#define ENDS_SEGMENT 0x80000000u

/* Finds the span of this block of threads. false: the image is declined, or has fewer spans than
 * were launched. */
SIMT bool open_span(const struct decode_args *args, struct span *span)
{
    uint32_t *shared = (uint32_t *)DYNAMIC_SHARED(), threads = args->span_threads;
    uint32_t image = find_image(args->starts[DECODE_SPANS], args->image_count,
                                (uint32_t)block_index());
    span->image = &args->images[image];
    span->index = (uint32_t)block_index() - args->starts[DECODE_SPANS][image];
    span->halo = args->halo;
    span->own_subs = threads - span->halo;
    span->subs = span->image->run->subs;
    span->data_bytes = span->image->run->data_bytes;
    if (is_declined(span->image) || span->index * span->own_subs >= span->subs)
        return false;
    span->data.luma = span->image->luma;
    span->data.blocks = span->image->blocks;
    span->sub_index =
        (int32_t)(span->index * span->own_subs) + thread_index() - (int32_t)span->halo;
    span->active = span->sub_index >= 0 && span->sub_index < (int32_t)span->subs;
    span->own = span->active && thread_index() >= (int32_t)span->halo;
    span->words = shared + DECODE_SINGLE_WORDS;
    span->states = span->words + DECODE_SPAN_WORDS(threads, span->image->sub_words);
    span->list = span->states + threads;
    span->entries = span->list + threads;
    span->starts = span->entries + threads;
    span->ends = span->starts + threads;
    span->data.words = span->words;
    span->data.tables = load_tables(span->image, shared);
    return true;
}

/* Copies the words of the threads' subsequences to shared memory, and the words before them that
 * guess_entry reads. */
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
    uint32_t end = last_bit / 32 + 4;
    span->origin = first * 32;
    for (uint32_t i = thread; first + i < end; i += threads)
        span->words[i] = span->image->words[first + i];
    block_barrier();
}

/* Guesses the state before the subsequence by decoding the DECODE_WARM_UP_WORDS words before it, or
 * from the start of the segment if that is nearer: the guess is then right. Positions in *sub are
 * relative to the span's words. */
SIMT uint32_t guess_entry(const struct span *span, const struct decode_sub *sub)
{
    uint32_t segment_start =
        span->image->segments == 1 ? 0 : span->image->segment_at[sub->segment] * 8;
    uint32_t before = sub->start + span->origin - segment_start;
    before = before < DECODE_WARM_UP_WORDS * 32 ? before : DECODE_WARM_UP_WORDS * 32;
    struct walk walk = {sub->start - before, 0, 0, 0, 0};
    walk_to(&walk, &span->data, sub->start, single_before(sub->start), 0, NULL, false);
    return state_of(&walk, sub->start);
}

/* Decodes the subsequence of thread `thread` from the state `entry`. Writes its records, and the
 * state after it. */
SIMT void decode_sub_of(const struct span *span, uint32_t thread, const struct decode_sub *sub,
                        uint32_t entry)
{
    uint32_t sub_index = span->index * span->own_subs + thread - span->halo;
    span->states[thread] = walk_sub(
        sub, entry, &span->data,
        thread >= span->halo ? span->image->records + (sub_index << span->image->pieces_at) : NULL);
}

/* Decodes again all subsequences whose entry (the state from which they were decoded) differs from
 * the state after the subsequence before, until there is none. The first threads of the block do
 * the work, whichever subsequences are listed. The rounds end, because each makes at least one more
 * subsequence final, from the first on. first: the thread's subsequence starts a segment, so its
 * entry is right. Returns the thread's last entry. */
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
        uint32_t place = list_place(differs, &listed);
        if (differs) {
            entry = span->entries[thread] = before;
            span->list[place] = thread;
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

/* Stores the threads' states, and what `mend` needs of the span. */
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
    if (thread == span->halo)
        image->span_entries[span->index] = first ? 0 : 1 + entry;
    block_barrier();
    bool counts = span->own && thread >= segment_starts;
    (void)block_scan(counts ? state_count(span->states[thread]) : 0, &total, sums);
    if (thread == 0) {
        image->span_counts[2 * span->index] = total;
        image->span_counts[2 * span->index + 1] = segment_starts > 0;
    }
}

/* One block of threads per span, one thread per subsequence. The first threads, the halo, decode
 * subsequences of the span before. */
LONG_KERNEL(synchronise, DECODE_SPAN_THREADS_MAX, 1, struct decode_args)
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

/* Decodes the first subsequences of a span again, from the state `entry`, until the state after one
 * is the same as before. */
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
        uint32_t state = walk_sub(&sub, entry, data, image->records + (i << image->pieces_at));
        image->sub_states[i] = state;
        delta += state_count(state) - state_count(before);
        entry = state & STATE_MASK;
        if (entry == (before & STATE_MASK))
            break;
    }
    if (!image->span_counts[2 * span + 1])
        image->span_counts[2 * span] += delta;
}

/* One block of threads per image: corrects the spans whose first state was wrong, and adds up the
 * blocks before each span. */
KERNEL(mend, MEND_THREADS, 1, struct decode_args)
{
    SHARED uint32_t sums[WARP_LANES], starts[MEND_THREADS], counts[MEND_THREADS];
    const struct decode_descriptor *image = &args.images[block_index()];
    uint32_t own_subs = args.span_threads - args.halo, thread = (uint32_t)thread_index();
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
                decline(image, JPEG_DECODE_NOT_SYNCHRONISED);
            return;
        }
        for (uint32_t span = 1 + thread; span < spans; span += MEND_THREADS) {
            uint32_t entry = image->span_entries[span];
            uint32_t state = image->sub_states[span * own_subs - 1] & STATE_MASK;
            if (entry != 0 && entry - 1 != state)
                mend_span(image, &data, span, own_subs, state);
        }
    }
    /* The blocks before each span since the start of its segment: a prefix sum that starts at 0
     * again in each segment. */
    uint32_t carry = 0;
    for (uint32_t first = 0; first < spans; first += MEND_THREADS) {
        uint32_t span = first + thread, total;
        bool active = span < spans;
        uint32_t count = active ? image->span_counts[2 * span] : 0;
        bool starts_here = active && image->span_counts[2 * span + 1] != 0;
        uint32_t before = block_scan(count, &total, sums);
        /* By a maximum scan: 1 + the last thread up to this one in whose span a segment starts. */
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

/* Checks that a segment ends with its last block. state: after its last subsequence; before: blocks
 * of the segment before that subsequence; wanted: blocks of the segment. */
SIMT enum jpeg_decode_verdict check_segment(uint32_t state, uint32_t before, uint32_t wanted)
{
    uint32_t after = before + state_count(state);
    if (after < wanted)
        return JPEG_DECODE_EARLY_END;
    /* The difference can be negative: in a segment of less than 8 bits, the start counts as
     * late. */
    return (int32_t)(after - state_late(state)) < (int32_t)wanted ? JPEG_DECODE_DONE
                                                                  : JPEG_DECODE_BYTES_LEFT;
}

/* Number of pieces of a subsequence that have a record: fewer than others have in the last
 * subsequence of a segment. */
SIMT uint32_t pieces_in(const struct decode_sub *sub, int32_t most)
{
    int32_t pieces = (walked_bits(sub) + DECODE_PIECE_BITS - 1) / DECODE_PIECE_BITS;
    return (uint32_t)(pieces < 1 ? 1 : pieces < most ? pieces : most);
}

/* Sets tile_pieces of each tile that starts in a subsequence. pieces: the number of pieces of the
 * subsequence. block, block_after: the numbers of the first block of the subsequence and of the
 * first block after it. */
SIMT void start_tiles(const struct decode_descriptor *image, uint32_t sub, uint32_t pieces,
                      uint32_t block, uint32_t block_after)
{
    uint32_t tile_blocks = image->tile_mcus * image->blocks;
    uint32_t tile = block / tile_blocks + 1, first = sub << image->pieces_at;
    NO_UNROLL
    for (; tile < image->tiles && tile * tile_blocks <= block_after; tile++) {
        uint32_t piece = 1;
        while (piece < pieces &&
               block + (image->records[first + piece] >> RECORD_COUNT_AT) <
                   tile * tile_blocks)
            piece++;
        image->tile_pieces[tile] = first + piece;
    }
}

/* One block of threads per span: numbers the blocks, and checks the segments. */
KERNEL(number_blocks, DECODE_SPAN_THREADS_MAX, 1, struct decode_args)
{
    SHARED uint32_t sums[WARP_LANES], counts[DECODE_SPAN_THREADS_MAX];
    uint32_t index = find_image(args.starts[DECODE_SPANS], args.image_count,
                                (uint32_t)block_index());
    const struct decode_descriptor *image = &args.images[index];
    uint32_t span = (uint32_t)block_index() - args.starts[DECODE_SPANS][index];
    uint32_t own_subs = args.span_threads - args.halo, thread = (uint32_t)thread_index();
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
    start_tiles(image, sub_index, pieces_in(&sub, 1 << image->pieces_at), block,
                sub.last ? (mcus_before + mcus) * image->blocks : block + state_count(state));
    if (sub_index == 0)
        image->tile_pieces[0] = 0;
    if (sub_index == subs - 1)
        image->tile_pieces[image->tiles] = subs << image->pieces_at;
}

int decode_launch_huffman(const struct jpeg_decode_batch *batch, const struct decode_args *args,
                          struct CUstream_st *stream)
{
    uint32_t threads = batch->span_threads;
    size_t shared = DECODE_SPAN_BYTES((size_t)threads, batch->sub_words);
    int status = (int)ALLOW_SHARED(synchronise, DECODE_SPAN_BYTES_MAX);
    if (status == 0)
        status = (int)LAUNCH(synchronise, threads, batch->spans, shared, stream, *args);
    if (status == 0)
        status = (int)LAUNCH(mend, MEND_THREADS, batch->image_count, tables_bytes(), stream, *args);
    if (status == 0)
        status = (int)LAUNCH(number_blocks, threads, batch->spans, 0, stream, *args);
    return status;
}
