/*
 * decode_inflate.cu - inflates the joined data of the IDAT chunks: the second stage of the PNG
 * decoder (decode_impl.h).
 *
 * A block of threads inflates an image. It reads the header of a block of deflate, builds the
 * tables of its codes, and decodes a window of its symbols after the other. The window's bits are
 * divided into segments, and each thread (`lane` in names) decodes one. Where the first symbol of a
 * segment starts is known only after the segments before it have been decoded. But a decoder that
 * starts at a wrong bit usually finds the right symbols after a few of them (Klein and Wiseman
 * 2003). So each lane first decodes from the start of its segment. Then a lane whose predecessor
 * has ended at another bit decodes again from there, until there is no such lane. In the end each
 * lane has decoded as a sequential decoder does.
 *
 * Lanes only count their bytes and matches at first. When all places are known, they decode once
 * more and write to the window of decode_window.h.
 */
#include <assert.h>

#include "gpu/png/decode_impl.h"
#include "gpu/png/decode_window.h"

/* A segment has an odd number of words, so that the lanes of a warp read different banks of shared
 * memory. It is shorter while few bits fill the window. */
#define SEGMENT_WORDS_MIN 3
#define SEGMENT_WORDS_MAX 9
/* The words of all segments, and those that the last symbols of the last segment reach into. */
#define INPUT_BITS  (INFLATE_THREADS * SEGMENT_WORDS_MAX * 32)
#define INPUT_WORDS (INPUT_BITS / 32 + 4)
/* Those that a thread loads. */
#define THREAD_WORDS ((INPUT_WORDS + INFLATE_THREADS - 1) / INFLATE_THREADS)
/* A lane stops when it may have more bytes after the next symbol. It has less than PIECES_MAX
 * pieces then: one per PIECE_BYTES, and one per match, which has at least 2 bits. */
#define LANE_BYTES_MAX (WINDOW_ENTRIES - 3)
/* Rounds of decoding again, at most. Then the lanes that are right are used: at least the first
 * ROUNDS_MAX. Decoders may never fall into step in data that repeats every few bits. */
#define ROUNDS_MAX 24
/* A stream may need this many rounds in all, and one more per so many bits and bytes of output;
 * others are declined, because they would take much longer than usual ones. */
#define ROUNDS_LEAST    4096
#define BITS_PER_ROUND  2048
#define BYTES_PER_ROUND 1024

/* Where and how a lane has stopped: the position of the bit, and one of these flags. */
#define EXIT_POSITION 0xFFFFu
#define EXIT_END      0x10000u /* after the end of the block */
#define EXIT_BAD      0x20000u /* at bits that are no code */
#define EXIT_FULL     0x40000u /* before the end of the segment, as it has too many bytes */
#define EXIT_STOPPED  (EXIT_END | EXIT_BAD | EXIT_FULL)

/* The header of the zlib stream. */
#define ZLIB_HEAD_BITS 16

#define NO_KEY 0xFFFFFFFFu /* odd: nothing is left to do */

static_assert(INPUT_BITS + 64 <= EXIT_POSITION, "positions in a window's bits fit an exit");

struct inflate_shared {
    struct window window; /* first, because of its alignment */
    struct inflate_codes codes;
    uint32_t words[INPUT_WORDS];
    uint32_t exits[INFLATE_THREADS];
    uint32_t sums[WARP_LANES], keys[3];
    /* Of the block's header, by thread 0: */
    uint32_t at, literals, distances, length_codes;
    bool is_good;
    uint32_t end, pieces; /* of the window */
};

/* The state of an image. All threads have the same values. */
struct inflation {
    struct inflate_shared *shared;
    const uint8_t *zlib;
    uint32_t zlib_bytes, out_bytes;
    uint32_t at;     /* position in the data, in bits */
    uint32_t origin; /* position of the first word in shared memory, in bits. Every window or block
                        starts with the words from `at` on. */
    uint32_t blocks_left, rounds_left;
    uint32_t window_bits; /* that may fill the next window */
    bool has_fixed_codes;
};

/* ---- input ---- */

/* Loads a thread's part of the words from in->at on. */
SIMT void fetch_input(const struct inflation *in, uint32_t words[THREAD_WORDS])
{
    uint32_t first = in->at / 32, end = (in->zlib_bytes + 3) / 4;
    UNROLL
    for (uint32_t i = 0; i < THREAD_WORDS; i++) {
        uint32_t word = i * INFLATE_THREADS + (uint32_t)thread_index();
        words[i] = 0;
        if (word < INPUT_WORDS && first + word < end)
            words[i] = load_word(in->zlib + 4 * (size_t)(first + word));
    }
}

/* Writes the words of fetch_input to shared memory. All threads call it together. */
SIMT void keep_input(struct inflation *in, const uint32_t words[THREAD_WORDS])
{
    in->origin = in->at / 32 * 32;
    block_barrier();
    UNROLL
    for (uint32_t i = 0; i < THREAD_WORDS; i++) {
        uint32_t word = i * INFLATE_THREADS + (uint32_t)thread_index();
        if (word < INPUT_WORDS)
            in->shared->words[word] = words[i];
    }
    block_barrier();
}

SIMT void load_input(struct inflation *in)
{
    uint32_t words[THREAD_WORDS];
    fetch_input(in, words);
    keep_input(in, words);
}

SIMT uint32_t input_byte(const struct inflation *in, uint32_t at)
{
    return load_word(in->zlib + at / 4 * 4) >> at % 4 * 8 & 255;
}

/* ---- symbols ---- */

/* A lane's work in a window. */
struct lane {
    uint32_t entry, end;    /* the first bit of its symbols, and the end of its segment */
    uint32_t exit;          /* where and how it has stopped */
    uint32_t bytes, pieces; /* of its symbols */
};

/* Where a lane writes. */
struct lane_output {
    uint16_t *entries;
    uint32_t *pieces;
    uint32_t bytes_before; /* the greatest distance of its first byte */
    uint32_t place;        /* the index of its first entry */
    bool is_bad;           /* a distance is too great */
};

/* The entry of a code with more bits than the table's index. */
DEVICE uint32_t long_entry(const struct inflate_codes *codes, uint32_t bits, bool is_distance)
{
    const struct code *code = is_distance ? &codes->distances : &codes->literals;
    return find_entry(codes, code, bits,
                      (DISTANCE_BITS < LITERAL_BITS ? DISTANCE_BITS : LITERAL_BITS) + 1,
                      CODE_BITS_MAX);
}

/* The flag of a lane's exit. flags: of its last entry; has_more: its segment is not at its end. */
SIMT uint32_t exit_flag(uint32_t flags, bool has_more)
{
    if (flags & ENTRY_END)
        return EXIT_END;
    return flags == 0 ? EXIT_BAD : has_more ? EXIT_FULL : 0;
}

/* Decodes the symbols from bit own->entry on and before own->end. Sets own->exit and, unless it
 * writes, own->bytes and own->pieces. All lanes of the warp call it together, also those that have
 * nothing to decode: not `runs`. Each decodes a code at a time, a distance like the other codes, so
 * that all of them do the same. writes: a constant; to: only then. */
SIMT void decode_segment(const struct inflate_shared *shared, bool runs, struct lane *own,
                         bool writes, struct lane_output *to)
{
    const struct inflate_codes *codes = &shared->codes;
    struct reader reader = reader_at(shared->words, runs ? own->entry : 0);
    /* The second literal of a pair could start at `end` or later. */
    uint32_t end = own->end, pairs_end = end - (LITERAL_BITS - 1), bytes = 0, pieces = 0;
    uint32_t length = 0;             /* of the match whose distance is next */
    uint32_t flags = ENTRY_LITERAL;  /* of the last entry */
    uint32_t limit = runs ? end : 0; /* where it stops */
    NO_UNROLL
    while (warp_goes_on(reader.at < limit)) {
        if (reader.at < limit) {
            uint32_t bits = reader_bits(&reader), ahead = reader_ahead(&reader);
            uint32_t entry =
                codes->tables[length != 0 ? DISTANCES_AT + low_bits(bits, DISTANCE_BITS)
                                          : low_bits(bits, LITERAL_BITS)];
            if (entry == 0)
                entry = long_entry(codes, bits, length != 0);
            bool is_pair = (entry & ENTRY_PAIR) != 0 && reader.at < pairs_end;
            uint32_t used = (entry & ENTRY_PAIR) != 0 && !is_pair ? entry >> 8 & 15 : entry & 31;
            uint32_t value = entry_value(entry, bits);
            if (writes && (entry & ENTRY_LITERAL) != 0) {
                to->entries[bytes] = (uint16_t)(entry >> 16 & 255);
                if (is_pair)
                    to->entries[bytes + 1] = (uint16_t)(entry >> 24);
            }
            if (writes && length != 0) {
                to->is_bad |= value > to->bytes_before + bytes;
                put_match(to->pieces + pieces, to->place + bytes, length, value);
            }
            bytes += (entry & ENTRY_LITERAL) != 0 ? 1u + is_pair : length;
            pieces += match_pieces(length);
            length = (entry & ENTRY_VALUE) != 0 && length == 0 ? value : 0;
            reader_move(&reader, used, ahead);
            flags = entry & (ENTRY_LITERAL | ENTRY_VALUE | ENTRY_END);
            bool has_space = bytes <= LANE_BYTES_MAX - MATCH_BYTES_MAX;
            limit = (flags & (ENTRY_LITERAL | ENTRY_VALUE)) == 0 ? 0
                    : length != 0                                ? ~0u
                    : has_space                                  ? end
                                                                 : 0;
        }
    }
    if (runs && !writes) {
        own->exit = reader.at | exit_flag(flags, reader.at < end);
        own->bytes = bytes;
        own->pieces = pieces;
    }
}

/* ---- the lanes of a window ---- */

/* Returns the lowest key of the block's threads: 2 * the first lane with `again`, or 2 * the first
 * lane with `stopped`, plus 1; NO_KEY if there is none. */
SIMT uint32_t lowest_key(struct inflate_shared *shared, uint32_t round, bool again, bool stopped)
{
    uint32_t base = (uint32_t)thread_index() / WARP_LANES * WARP_LANES;
    uint32_t lanes_again = warp_ballot(again), lanes_stopped = warp_ballot(stopped);
    if (lane_index() == 0) {
        uint32_t key = NO_KEY;
        if (lanes_stopped != 0)
            key = 2 * (base + (uint32_t)lowest_bit(lanes_stopped)) + 1;
        if (lanes_again != 0 && 2 * (base + (uint32_t)lowest_bit(lanes_again)) < key)
            key = 2 * (base + (uint32_t)lowest_bit(lanes_again));
        if (key != NO_KEY)
            atomic_min(&shared->keys[round % 3], key);
    }
    if (thread_index() == 0)
        shared->keys[(round + 1) % 3] = NO_KEY;
    block_barrier();
    return shared->keys[round % 3];
}

/* Whether the bytes of all lanes fill the window. */
SIMT bool fills_window(struct inflate_shared *shared, uint32_t bytes)
{
    uint32_t total;
    (void)block_scan(bytes, &total, shared->sums);
    return total >= WINDOW_ENTRIES;
}

/* Decodes all segments until no lane must decode again, or enough are right. Returns the number of
 * lanes that are right and not after the end of the block. active: the number of lanes. */
SIMT uint32_t synchronise(struct inflation *in, struct lane *own, uint32_t active)
{
    struct inflate_shared *shared = in->shared;
    uint32_t thread = (uint32_t)thread_index(), round = 0, key;
    bool is_active = thread < active, again = is_active;
    if (thread == 0)
        shared->keys[0] = NO_KEY;
    for (;; round++) {
        decode_segment(shared, again, own, false, NULL);
        if (again)
            shared->exits[thread] = own->exit;
        block_barrier();
        uint32_t before = is_active && thread > 0 ? shared->exits[thread - 1] : own->entry;
        again = (before & EXIT_STOPPED) == 0 && before != own->entry && is_active;
        key = lowest_key(shared, round, again, is_active && (own->exit & EXIT_STOPPED) != 0);
        if (key % 2 == 1 || round == ROUNDS_MAX ||
            (round > 0 && fills_window(shared, thread < key / 2 ? own->bytes : 0)))
            break;
        if (again)
            own->entry = before;
    }
    in->rounds_left -= round < in->rounds_left ? round : in->rounds_left;
    return key == NO_KEY ? active : key % 2 == 1 ? key / 2 + 1 : key / 2;
}

/* Expects of the next window what this one had. */
SIMT void expect_bits(struct inflation *in, uint32_t bits, bool is_full)
{
    /* More, because a window that is not full takes as long. */
    uint32_t expected = is_full ? bits + bits / 2 : 2 * in->window_bits;
    in->window_bits = expected < INPUT_BITS ? expected : INPUT_BITS;
}

SIMT uint32_t segment_bits(uint32_t window_bits)
{
    uint32_t words = window_bits / (32 * INFLATE_THREADS) | 1;
    return 32 * (words > SEGMENT_WORDS_MIN ? words : SEGMENT_WORDS_MIN);
}

/* Decodes the symbols of a window. Sets *ends if they end the block. */
SIMT enum png_decode_verdict inflate_window(struct inflation *in, bool *ends)
{
    struct inflate_shared *shared = in->shared;
    struct window *window = &shared->window;
    uint32_t thread = (uint32_t)thread_index(), first = in->at - in->origin, total;
    uint32_t segment = segment_bits(in->window_bits), active = INFLATE_THREADS;
    if (active > (INPUT_BITS - first) / segment)
        active = (INPUT_BITS - first) / segment;
    struct lane own = {first + thread * segment, first + (thread + 1) * segment, 0, 0, 0};
    uint32_t right = synchronise(in, &own, active);
    uint32_t bytes = thread < right ? own.bytes : 0, pieces = thread < right ? own.pieces : 0;
    uint32_t at = window->lead + block_scan(bytes, &total, shared->sums);
    uint32_t piece = block_scan(pieces, &total, shared->sums);
    uint32_t used = (uint32_t)block_count(thread < right && at + bytes <= WINDOW_ENTRIES &&
                                          piece + pieces <= PIECES_MAX);
    if (thread == used - 1) {
        shared->end = at + bytes;
        shared->pieces = piece + pieces;
    }
    uint32_t exit = shared->exits[used - 1];
    block_barrier();
    uint32_t end = shared->end;
    in->at = in->origin + (exit & EXIT_POSITION);
    *ends = (exit & EXIT_END) != 0;
    if (!*ends)
        expect_bits(in, (exit & EXIT_POSITION) - first, used < right);
    if ((exit & EXIT_BAD) != 0 || in->at > 8 * in->zlib_bytes ||
        end > in->out_bytes - window->base || in->rounds_left == 0)
        return PNG_DECODE_STREAM;
    uint32_t words[THREAD_WORDS];
    fetch_input(in, words);
    struct lane_output to = {window->entries + at, window->pieces + piece, window->base + at, at,
                             false};
    decode_segment(shared, thread < used, &own, true, &to);
    if (block_any(to.is_bad))
        return PNG_DECODE_STREAM;
    if (shared->pieces > 0)
        resolve_matches(window, shared->pieces);
    flush_window(window, end);
    keep_input(in, words);
    return PNG_DECODE_DONE;
}

/* ---- the headers of blocks ---- */

/* Thread 0: reads the numbers and the lengths of the lengths of a dynamic block's codes. */
SIMT void read_counts(struct inflate_shared *shared, struct reader *reader)
{
    static const uint8_t order[LENGTH_SYMBOLS] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                  11, 4,  12, 3, 13, 2, 14, 1, 15};
    shared->literals = 257 + reader_take(reader, 5);
    shared->distances = 1 + reader_take(reader, 5);
    uint32_t count = 4 + reader_take(reader, 4);
    for (uint32_t i = 0; i < count; i++)
        shared->codes.lengths[order[i]] = (uint8_t)reader_take(reader, 3);
    shared->is_good = shared->literals <= LITERAL_SYMBOLS && shared->distances <= DISTANCE_SYMBOLS;
}

/* Thread 0: reads the lengths of both codes, which are one list. table: of the lengths' code.
 * lengths: zeros at first. */
SIMT bool read_lengths(struct reader *reader, const uint32_t *table, uint8_t *lengths,
                       uint32_t count)
{
    uint32_t last = 0, i = 0;
    NO_UNROLL
    while (i < count) {
        uint32_t bits = reader_bits(reader), ahead = reader_ahead(reader);
        uint32_t entry = table[low_bits(bits, LENGTH_BITS)], symbol = entry >> 16;
        uint32_t times = (entry >> 12 & 15) + (low_bits(bits, entry & 31) >> (entry >> 8 & 15));
        reader_move(reader, entry & 31, ahead);
        if (symbol != REPEAT_LAST)
            last = symbol < REPEAT_LAST ? symbol : 0;
        else if (i == 0)
            return false;
        if (times > count - i)
            return false;
        if (last != 0) {
            NO_UNROLL
            for (uint32_t k = 0; k < times; k++)
                lengths[i + k] = (uint8_t)last;
        }
        i += times;
    }
    return true;
}

SIMT void clear_lengths(struct inflate_codes *codes)
{
    for (int i = thread_index(); i < FIXED_LITERALS + FIXED_DISTANCES; i += INFLATE_THREADS)
        codes->lengths[i] = 0;
    block_barrier();
}

/* Reads the codes of a dynamic block. Returns false if zlib refuses them. */
SIMT bool read_codes(struct inflation *in)
{
    struct inflate_shared *shared = in->shared;
    struct inflate_codes *codes = &shared->codes;
    uint32_t thread = (uint32_t)thread_index();
    clear_lengths(codes);
    if (thread == 0) {
        struct reader reader = reader_at(shared->words, in->at - in->origin);
        read_counts(shared, &reader);
        shared->at = reader.at;
    }
    block_barrier();
    if (!shared->is_good ||
        !make_code(codes, &codes->literals, codes->lengths, LENGTH_SYMBOLS, CODE_OF_LENGTHS))
        return false;
    for (uint32_t i = thread; i < 1 << LENGTH_BITS; i += INFLATE_THREADS)
        codes->tables[i] = find_entry(codes, &codes->literals, i, 1, LENGTH_BITS);
    clear_lengths(codes);
    if (thread == 0) {
        struct reader reader = reader_at(shared->words, shared->at);
        shared->is_good = read_lengths(&reader, codes->tables, codes->lengths,
                                       shared->literals + shared->distances) &&
                          codes->lengths[END_OF_BLOCK] != 0;
        shared->at = reader.at;
    }
    block_barrier();
    in->at = in->origin + shared->at;
    in->has_fixed_codes = false;
    if (!shared->is_good ||
        !make_code(codes, &codes->literals, codes->lengths, shared->literals, CODE_OF_LITERALS) ||
        !make_code(codes, &codes->distances, codes->lengths + shared->literals, shared->distances,
                   CODE_OF_DISTANCES))
        return false;
    fill_tables(codes);
    return true;
}

SIMT void set_fixed_codes(struct inflation *in)
{
    struct inflate_codes *codes = &in->shared->codes;
    if (in->has_fixed_codes)
        return;
    for (int i = thread_index(); i < FIXED_LITERALS + FIXED_DISTANCES; i += INFLATE_THREADS)
        codes->lengths[i] = (uint8_t)(i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : i < 288 ? 8 : 5);
    block_barrier();
    (void)make_code(codes, &codes->literals, codes->lengths, FIXED_LITERALS, CODE_OF_LITERALS);
    (void)make_code(codes, &codes->distances, codes->lengths + FIXED_LITERALS, FIXED_DISTANCES,
                    CODE_OF_DISTANCES);
    fill_tables(codes);
    in->has_fixed_codes = true;
}

/* ---- blocks ---- */

/* Copies a stored block, whose length is at the next byte. */
SIMT enum png_decode_verdict inflate_stored(struct inflation *in)
{
    struct window *window = &in->shared->window;
    uint32_t thread = (uint32_t)thread_index(), at = (in->at + 7) / 8;
    if (at + 4 > in->zlib_bytes)
        return PNG_DECODE_STREAM;
    uint32_t bytes = input_byte(in, at) | input_byte(in, at + 1) << 8;
    uint32_t inverse = input_byte(in, at + 2) | input_byte(in, at + 3) << 8;
    at += 4;
    if ((bytes ^ inverse) != 0xFFFF || bytes > in->zlib_bytes - at ||
        bytes > in->out_bytes - window->base - window->lead)
        return PNG_DECODE_STREAM;
    in->at = 8 * (at + bytes);
    while (bytes > 0) {
        uint32_t lead = window->lead, count = WINDOW_ENTRIES - lead;
        count = count < bytes ? count : bytes;
        for (uint32_t i = thread; i < count; i += INFLATE_THREADS)
            window->entries[lead + i] = (uint16_t)input_byte(in, at + i);
        block_barrier();
        flush_window(window, lead + count);
        at += count;
        bytes -= count;
    }
    load_input(in);
    return PNG_DECODE_DONE;
}

/* Inflates the next block of deflate. Sets *is_last. */
SIMT enum png_decode_verdict inflate_block(struct inflation *in, bool *is_last)
{
    enum { stored, fixed, dynamic };
    if (in->blocks_left-- == 0 || in->at > 8 * in->zlib_bytes)
        return PNG_DECODE_STREAM;
    struct reader reader = reader_at(in->shared->words, in->at - in->origin);
    uint32_t head = low_bits(reader_bits(&reader), 3), type = head >> 1;
    in->at += 3;
    *is_last = (head & 1) != 0;
    if (type == stored)
        return inflate_stored(in);
    if (type > dynamic || (type == dynamic && !read_codes(in)))
        return PNG_DECODE_STREAM;
    if (type == fixed)
        set_fixed_codes(in);
    for (bool ends = false; !ends;) {
        enum png_decode_verdict verdict = inflate_window(in, &ends);
        if (verdict != PNG_DECODE_DONE)
            return verdict;
    }
    return PNG_DECODE_DONE;
}

/* Whether zlib accepts the header of the stream, for `out_bytes` bytes. The device refuses windows
 * that are smaller than zlib's largest, unless they have all output. */
SIMT bool is_zlib_header(uint32_t method, uint32_t flags, uint32_t out_bytes)
{
    enum { deflate = 8, window_bits_max = 15, has_dictionary = 0x20 };
    uint32_t window_bits = (method >> 4) + 8;
    return (method << 8 | flags) % 31 == 0 && (method & 15) == deflate &&
           window_bits <= window_bits_max && (flags & has_dictionary) == 0 &&
           (window_bits == window_bits_max || out_bytes <= 1u << window_bits);
}

/* Writes the bytes that are left in the window, and reads the checksum, which must end the data. */
SIMT enum png_decode_verdict end_stream(struct inflation *in, struct png_run *run)
{
    struct window *window = &in->shared->window;
    uint32_t thread = (uint32_t)thread_index(), at = (in->at + 7) / 8;
    if (window->base + window->lead != in->out_bytes || at + 4 != in->zlib_bytes)
        return PNG_DECODE_STREAM;
    if (thread < window->lead)
        window->out[thread] = (uint8_t)window->entries[thread];
    if (thread == 0)
        run->adler = input_byte(in, at) << 24 | input_byte(in, at + 1) << 16 |
                     input_byte(in, at + 2) << 8 | input_byte(in, at + 3);
    return PNG_DECODE_DONE;
}

SIMT enum png_decode_verdict inflate_image(struct inflation *in, struct png_run *run)
{
    enum png_decode_verdict verdict = PNG_DECODE_DONE;
    if (in->zlib_bytes < 2 || !is_zlib_header(input_byte(in, 0), input_byte(in, 1), in->out_bytes))
        return PNG_DECODE_STREAM;
    load_input(in);
    for (bool is_last = false; verdict == PNG_DECODE_DONE && !is_last;)
        verdict = inflate_block(in, &is_last);
    return verdict == PNG_DECODE_DONE ? end_stream(in, run) : verdict;
}

LONG_KERNEL(inflate, INFLATE_THREADS, 5, struct png_args)
{
    SHARED struct inflate_shared shared;
    const struct png_descriptor *image = &args.images[block_index()];
    struct png_run *run = image->run;
    if (run->verdict != PNG_DECODE_DONE)
        return;
    struct inflation in;
    in.shared = &shared;
    in.zlib = image->zlib;
    in.zlib_bytes = run->zlib_bytes;
    in.out_bytes = image->stream_bytes;
    in.at = ZLIB_HEAD_BITS;
    in.origin = 0;
    in.blocks_left = image->blocks_max;
    in.window_bits = INPUT_BITS;
    in.has_fixed_codes = false;
    in.rounds_left =
        ROUNDS_LEAST + 8 * in.zlib_bytes / BITS_PER_ROUND + in.out_bytes / BYTES_PER_ROUND;
    if (thread_index() == 0) {
        shared.window.out = image->stream;
        shared.window.base = shared.window.lead = 0;
    }
    block_barrier();
    enum png_decode_verdict verdict = inflate_image(&in, run);
    block_barrier();
    if (thread_index() == 0)
        run->verdict = (uint32_t)verdict;
}

int png_decode_inflate(const struct png_decode_batch *batch, const void *descriptors,
                       struct CUstream_st *stream)
{
    struct png_args args = png_args_of(batch, descriptors);
    int status = png_launch_chunks(batch, &args, stream);
    if (status == 0)
        status = (int)LAUNCH(inflate, INFLATE_THREADS, batch->image_count, 0, stream, args);
    return status;
}
