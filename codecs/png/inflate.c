/*
 * inflate.c - inflates a zlib stream in pieces (inflate.h).
 *
 * An entry of a table describes the code that the next bits begin with:
 *     bits 0 to 5    its bits, and the extra bits of a length or distance
 *     bits 6 and 7   IS_LITERAL, IS_SPECIAL
 *     literals       bits 8 and 9: how many, 1 or 2; bits 16 to 31: their bytes
 *     lengths        bits 8 to 11: the code's own bits; bits 16 to 31: the base
 *     special        END, or LINK: bits 8 to 11: bits of the linked table; bits 16 to 31: its
 *                    place; otherwise no code begins with these bits
 * Photographs are mostly literals of four to six bits, so two of them in one entry halve the chain
 * of dependent loads, which bounds the speed.
 *
 * Bits are read eight bytes at a time. `in` then advances by the bytes that fit whole, so bits of
 * the buffer above bit_count may be set: they are those that the next read sets again.
 */
#include "codecs/png/inflate.h"

#include <string.h>

#define CODE_BITS_MAX    15
#define LITERAL_SYMBOLS  286
#define DISTANCE_SYMBOLS 30
#define LENGTH_SYMBOLS   19 /* of the code for the lengths of codes */
/* The fixed codes also have codes for two symbols that must not occur. */
#define FIXED_LITERALS   288
#define FIXED_DISTANCES  32
#define LENGTH_CODE_BITS 7
#define FIRST_LENGTH     257
#define END_OF_BLOCK     256

/* A stream may fill the tables this often, and once more per so many bytes of its output. The
 * blocks of encoders have more bytes. */
#define TABLES_LEAST       1024
#define TABLE_OUTPUT_BYTES 256

#define IS_LITERAL 0x40u
#define IS_SPECIAL 0x80u
#define END        0x1000u
#define LINK       0x2000u
#define ONE        0x100u
#define TWO        0x200u

/* What a table has for each of its symbols, and how large it may be. */
struct alphabet {
    unsigned (*entry)(unsigned symbol);
    unsigned root_bits, entries;
    bool has_literals;
    bool may_lack; /* a code with one symbol of one bit, or without symbols */
};

static inline uint64_t load64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

/* ---- tables ---- */

static unsigned literal_entry(unsigned symbol)
{
    static const uint16_t base[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                    31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    if (symbol < END_OF_BLOCK)
        return symbol << 16 | ONE | IS_LITERAL;
    if (symbol == END_OF_BLOCK)
        return END | IS_SPECIAL;
    if (symbol >= LITERAL_SYMBOLS)
        return IS_SPECIAL;
    unsigned length = symbol - FIRST_LENGTH;
    unsigned extra = length < 8 || length == 28 ? 0 : length / 4 - 1;
    return (unsigned)base[length] << 16 | extra;
}

static unsigned distance_entry(unsigned symbol)
{
    if (symbol >= DISTANCE_SYMBOLS)
        return IS_SPECIAL;
    unsigned extra = symbol < 4 ? 0 : symbol / 2 - 1;
    unsigned base = symbol < 4 ? symbol + 1 : ((2 + symbol % 2) << extra) + 1;
    return base << 16 | extra;
}

static unsigned length_entry(unsigned symbol)
{
    return symbol << 16;
}

static const struct alphabet literal_alphabet = {literal_entry, INFLATE_LITERAL_BITS,
                                                 INFLATE_LITERAL_ENTRIES, true, true},
                             distance_alphabet = {distance_entry, INFLATE_DISTANCE_BITS,
                                                  INFLATE_DISTANCE_ENTRIES, false, true},
                             length_alphabet = {length_entry, LENGTH_CODE_BITS,
                                                1 << LENGTH_CODE_BITS, false, false};

/* The entry of a code of `bits` bits: without its first bits if a link has used them. */
static uint32_t make_entry(const struct alphabet *alphabet, unsigned symbol, unsigned bits)
{
    unsigned entry = alphabet->entry(symbol);
    return (entry & (IS_LITERAL | IS_SPECIAL)) != 0 ? entry + bits : entry + (bits << 8 | bits);
}

/* A code while its table is filled: `next` is the code of *symbol. */
struct code {
    uint16_t counts[CODE_BITS_MAX + 1]; /* of codes of each length */
    uint16_t sorted[FIXED_LITERALS];
    const uint16_t *symbol;
    unsigned next, longest;
};

/* Sorts the symbols by the length of their codes. Returns false if zlib refuses the code: too many
 * symbols, or too few. */
static bool sort_symbols(const struct alphabet *alphabet, const uint8_t *lengths, unsigned symbols,
                         struct code *code)
{
    uint16_t starts[CODE_BITS_MAX + 2] = {0};
    memset(code->counts, 0, sizeof code->counts);
    for (unsigned i = 0; i < symbols; i++)
        code->counts[lengths[i]]++;
    int left = 1;
    code->counts[0] = 0;
    code->next = code->longest = 0;
    code->symbol = code->sorted;
    for (unsigned bits = 1; bits <= CODE_BITS_MAX; bits++) {
        left = 2 * left - code->counts[bits];
        if (left < 0)
            return false;
        code->longest = code->counts[bits] > 0 ? bits : code->longest;
        starts[bits + 1] = (uint16_t)(starts[bits] + code->counts[bits]);
    }
    for (unsigned i = 0; i < symbols; i++)
        if (lengths[i] != 0)
            code->sorted[starts[lengths[i]]++] = (uint16_t)i;
    return left == 0 || (alphabet->may_lack && code->longest <= 1);
}

/* The next code of `bits` bits. The first bit of a code is the lowest bit. */
static unsigned next_code(unsigned code, unsigned bits)
{
    unsigned bit = 1u << (bits - 1);
    while ((code & bit) != 0)
        bit >>= 1;
    return bit != 0 ? (code & (bit - 1)) | bit : 0;
}

/* The bits of the smallest table for the rest of the codes that begin like one of `bits` bits. */
static unsigned link_bits(const uint16_t counts[CODE_BITS_MAX + 1], unsigned root_bits,
                          unsigned bits, unsigned longest, unsigned placed)
{
    unsigned more = bits - root_bits;
    int left = (1 << more) - (counts[bits] - (int)placed);
    while (left > 0 && root_bits + more < longest) {
        more++;
        left = 2 * left - counts[root_bits + more];
    }
    return more;
}

/* The literals whose codes fit the first part of a table, in the order of their codes. */
struct literals {
    unsigned count, ends[INFLATE_LITERAL_BITS + 1]; /* ends: of those of each length */
    uint16_t codes[END_OF_BLOCK];
    uint8_t bytes[END_OF_BLOCK];
};

static void add_literal(struct literals *literals, unsigned symbol, unsigned code)
{
    if (symbol >= END_OF_BLOCK)
        return;
    literals->codes[literals->count] = (uint16_t)code;
    literals->bytes[literals->count++] = (uint8_t)symbol;
}

/* Sets the entries of two literals whose codes have `bits` bits together. */
static void pair_literals(uint32_t *table, const struct literals *literals, unsigned bits)
{
    for (unsigned first = 1, second = bits - 1; first < bits; first++, second--)
        for (unsigned i = literals->ends[first - 1]; i < literals->ends[first]; i++) {
            uint32_t *to = table + literals->codes[i];
            uint32_t entry = (uint32_t)literals->bytes[i] << 16 | TWO | IS_LITERAL | bits;
            for (unsigned k = literals->ends[second - 1]; k < literals->ends[second]; k++)
                to[literals->codes[k] << first] = entry | (uint32_t)literals->bytes[k] << 24;
        }
}

/* Fills the first part of a table. Its first 2^bits entries are made from those of the shorter
 * codes, which they repeat, and then have the codes of `bits` bits. */
static void fill_root(uint32_t *table, const struct alphabet *alphabet, struct code *code)
{
    struct literals literals;
    const uint16_t *symbol = code->symbol;
    unsigned next = code->next;
    literals.count = literals.ends[0] = 0;
    table[0] = IS_SPECIAL;
    for (unsigned bits = 1; bits <= alphabet->root_bits; bits++) {
        memcpy(table + (1u << (bits - 1)), table, sizeof *table << (bits - 1));
        for (unsigned n = code->counts[bits]; n > 0; n--, next = next_code(next, bits)) {
            if (alphabet->has_literals)
                add_literal(&literals, *symbol, next);
            table[next] = make_entry(alphabet, *symbol++, bits);
        }
        if (alphabet->has_literals) {
            literals.ends[bits] = literals.count;
            pair_literals(table, &literals, bits);
        }
    }
    code->symbol = symbol;
    code->next = next;
}

/* Fills the smaller tables. Returns false if there is no room. */
static bool fill_links(uint32_t *table, const struct alphabet *alphabet, struct code *code)
{
    unsigned root = alphabet->root_bits, root_size = 1u << root, used = root_size;
    unsigned prefix = root_size, place = 0, width = 0; /* prefix: that of the linked table */
    for (unsigned bits = root + 1; bits <= code->longest; bits++)
        for (unsigned n = 0; n < code->counts[bits]; n++) {
            if ((code->next & (root_size - 1)) != prefix) {
                prefix = code->next & (root_size - 1);
                width = link_bits(code->counts, root, bits, code->longest, n);
                place = used;
                used += 1u << width;
                if (used > alphabet->entries)
                    return false; /* uncovered: net (tests/coverage/reasons.txt) */
                table[prefix] = place << 16 | width << 8 | LINK | IS_SPECIAL | root;
            }
            uint32_t entry = make_entry(alphabet, *code->symbol++, bits - root);
            for (unsigned i = code->next >> root; i < 1u << width; i += 1u << (bits - root))
                table[place + i] = entry;
            code->next = next_code(code->next, bits);
        }
    return true;
}

/* Fills a table. Returns false if zlib refuses the code. */
static bool fill_table(uint32_t *table, const struct alphabet *alphabet, const uint8_t *lengths,
                       unsigned symbols)
{
    struct code code;
    if (!sort_symbols(alphabet, lengths, symbols, &code))
        return false;
    fill_root(table, alphabet, &code);
    return fill_links(table, alphabet, &code);
}

/* ---- bits ---- */

/* The state of inflate_run in registers. */
struct cursor {
    const uint8_t *in;
    uint64_t bits;
    unsigned count;
};

static inline __attribute__((always_inline)) void refill(struct cursor *at)
{
    at->bits |= load64(at->in) << at->count;
    at->in += (63 - at->count) >> 3;
    at->count |= 56;
}

static inline __attribute__((always_inline)) void use(struct cursor *at, unsigned bits)
{
    at->bits >>= bits;
    at->count -= bits;
}

static inline unsigned take(struct cursor *at, unsigned bits)
{
    unsigned value = (unsigned)(at->bits & ((1u << bits) - 1));
    use(at, bits);
    return value;
}

static struct cursor cursor_of(const struct inflate *inflate)
{
    return (struct cursor){inflate->in, inflate->bits, inflate->bit_count};
}

/* Gives whole bytes back to the input. */
static void keep_cursor(struct inflate *inflate, const struct cursor *at)
{
    inflate->in = at->in - at->count / 8;
    inflate->bit_count = at->count % 8;
    inflate->bits = at->bits & ((1u << inflate->bit_count) - 1);
}

/* Drops the rest of a byte. */
static void align(struct inflate *inflate)
{
    inflate->bits = 0;
    inflate->bit_count = 0;
}

static bool has_input(const struct inflate *inflate, ptrdiff_t bytes)
{
    return inflate->in_end - inflate->in >= bytes;
}

/* ---- headers ---- */

/* The functions for stages return INFLATE_FULL if the next stage can go on. */

static enum inflate_result read_header(struct inflate *inflate)
{
    enum { deflate = 8, window_bits_max = 15, has_dictionary = 0x20 };
    if (!has_input(inflate, 2))
        return inflate->in_is_last ? INFLATE_BAD : INFLATE_HUNGRY;
    unsigned method = inflate->in[0], flags = inflate->in[1], window_bits = (method >> 4) + 8;
    if ((method << 8 | flags) % 31 != 0 || (method & 15) != deflate ||
        window_bits > window_bits_max || (flags & has_dictionary) != 0 ||
        (window_bits < window_bits_max && inflate->output_bytes > 1u << window_bits))
        return INFLATE_BAD;
    inflate->in += 2;
    inflate->stage = INFLATE_AT_BLOCK;
    return INFLATE_FULL;
}

/* Whether the tables may be filled once more. Filling them takes as long as inflating some KiB, and
 * a hostile stream can have a block per ten bytes; zlib is faster then. */
static bool may_fill_tables(struct inflate *inflate)
{
    if (inflate->tables_left == 0)
        return false;
    inflate->tables_left--;
    return true;
}

static bool set_fixed_codes(struct inflate *inflate)
{
    uint8_t lengths[FIXED_LITERALS];
    if (inflate->has_fixed_codes)
        return true;
    if (!may_fill_tables(inflate))
        return false;
    memset(lengths, 8, 144);
    memset(lengths + 144, 9, 112);
    memset(lengths + 256, 7, 24);
    memset(lengths + 280, 8, 8);
    fill_table(inflate->literals, &literal_alphabet, lengths, FIXED_LITERALS);
    memset(lengths, 5, FIXED_DISTANCES);
    fill_table(inflate->distances, &distance_alphabet, lengths, FIXED_DISTANCES);
    inflate->has_fixed_codes = true;
    return true;
}

/* Reads the lengths of the codes of both tables, which are one list. */
static bool read_lengths(struct cursor *at, const uint32_t *table, uint8_t *lengths, unsigned count)
{
    for (unsigned i = 0; i < count;) {
        refill(at);
        uint32_t entry = table[at->bits & ((1u << LENGTH_CODE_BITS) - 1)];
        unsigned symbol = entry >> 16, times = 1, value = symbol;
        use(at, entry & 63);
        if (symbol == 16) {
            times = 3 + take(at, 2);
            if (i == 0)
                return false;
            value = lengths[i - 1];
        } else if (symbol > 16) {
            times = symbol == 17 ? 3 + take(at, 3) : 11 + take(at, 7);
            value = 0;
        }
        if (times > count - i)
            return false;
        memset(lengths + i, (int)value, times);
        i += times;
    }
    return true;
}

static bool read_codes(struct inflate *inflate, struct cursor *at)
{
    static const uint8_t order[LENGTH_SYMBOLS] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                  11, 4,  12, 3, 13, 2, 14, 1, 15};
    uint8_t lengths[LITERAL_SYMBOLS + DISTANCE_SYMBOLS] = {0};
    uint32_t table[1 << LENGTH_CODE_BITS];
    unsigned literals = 257 + take(at, 5), distances = 1 + take(at, 5), count = 4 + take(at, 4);
    if (literals > LITERAL_SYMBOLS || distances > DISTANCE_SYMBOLS || !may_fill_tables(inflate))
        return false;
    for (unsigned i = 0; i < count; i++) {
        refill(at);
        lengths[order[i]] = (uint8_t)take(at, 3);
    }
    if (!fill_table(table, &length_alphabet, lengths, LENGTH_SYMBOLS) ||
        !read_lengths(at, table, lengths, literals + distances) || lengths[END_OF_BLOCK] == 0)
        return false;
    inflate->has_fixed_codes = false;
    if (!fill_table(inflate->literals, &literal_alphabet, lengths, literals) ||
        !fill_table(inflate->distances, &distance_alphabet, lengths + literals, distances))
        return false;
    return true;
}

static enum inflate_result read_stored(struct inflate *inflate)
{
    align(inflate);
    if (!has_input(inflate, 4))
        return INFLATE_BAD;
    const uint8_t *in = inflate->in;
    inflate->stored = in[0] | (size_t)in[1] << 8;
    if (inflate->stored != ((in[2] | (size_t)in[3] << 8) ^ 0xFFFF))
        return INFLATE_BAD;
    inflate->in += 4;
    inflate->stage = INFLATE_IN_STORED;
    return INFLATE_FULL;
}

static enum inflate_result read_block(struct inflate *inflate)
{
    enum { stored, fixed, dynamic };
    if (inflate->block_is_last) {
        align(inflate);
        inflate->stage = INFLATE_AT_CHECKSUM;
        return INFLATE_FULL;
    }
    if (!has_input(inflate, INFLATE_INPUT_MIN) && !inflate->in_is_last)
        return INFLATE_HUNGRY;
    if (!has_input(inflate, 1))
        return INFLATE_BAD;
    struct cursor at = cursor_of(inflate);
    refill(&at);
    inflate->block_is_last = take(&at, 1) != 0;
    unsigned type = take(&at, 2);
    if (type > dynamic || (type == dynamic && !read_codes(inflate, &at)))
        return INFLATE_BAD;
    keep_cursor(inflate, &at);
    if (inflate->in > inflate->in_end)
        return INFLATE_BAD;
    if (type == stored)
        return read_stored(inflate);
    if (type == fixed && !set_fixed_codes(inflate))
        return INFLATE_BAD;
    inflate->stage = INFLATE_IN_CODES;
    return INFLATE_FULL;
}

static enum inflate_result read_checksum(struct inflate *inflate)
{
    if (!has_input(inflate, 4))
        return inflate->in_is_last ? INFLATE_BAD : INFLATE_HUNGRY;
    const uint8_t *in = inflate->in;
    inflate->checksum =
        (uint32_t)in[0] << 24 | (uint32_t)in[1] << 16 | (uint32_t)in[2] << 8 | in[3];
    inflate->in += 4;
    inflate->stage = INFLATE_AT_END;
    return INFLATE_ENDED;
}

/* ---- blocks ---- */

static enum inflate_result copy_stored(struct inflate *inflate, uint8_t **out, const uint8_t *limit)
{
    size_t count = inflate->stored, room = (size_t)(limit - *out),
           input = (size_t)(inflate->in_end - inflate->in);
    count = count < room ? count : room;
    count = count < input ? count : input;
    memcpy(*out, inflate->in, count);
    *out += count;
    inflate->in += count;
    inflate->stored -= count;
    if (inflate->stored == 0)
        inflate->stage = INFLATE_AT_BLOCK;
    else if (*out < limit)
        return inflate->in_is_last ? INFLATE_BAD : INFLATE_HUNGRY;
    return INFLATE_FULL;
}

/* Writes up to INFLATE_SLACK bytes after the match. */
static inline __attribute__((always_inline)) uint8_t *copy_match(uint8_t *to, size_t distance,
                                                                 size_t length)
{
    enum { word = 8, words = 16 };
    uint8_t *end = to + length;
    const uint8_t *from = to - distance;
    if (distance >= words) {
        do {
            memcpy(to, from, words);
            to += words;
            from += words;
        } while (to < end);
    } else if (distance >= word) {
        do {
            memcpy(to, from, word);
            to += word;
            from += word;
        } while (to < end);
    } else if (distance == 1) {
        memset(to, *from, (length + word - 1) / word * word);
    } else { /* each step completes `distance` bytes, and the next one overwrites the rest */
        do {
            memmove(to, from, word);
            from += distance;
        } while ((to += distance) < end);
    }
    return end;
}

static inline __attribute__((always_inline)) unsigned value_of(uint64_t bits, uint32_t entry)
{
    uint64_t code = bits & ((1ull << (entry & 63)) - 1);
    return (entry >> 16) + (unsigned)(code >> (entry >> 8 & 15));
}

static inline __attribute__((always_inline)) uint32_t
follow_link(struct cursor *at, const uint32_t *table, uint32_t entry)
{
    use(at, entry & 63);
    return table[(entry >> 16) + (at->bits & ((1u << (entry >> 8 & 15)) - 1))];
}

static inline __attribute__((always_inline)) uint8_t *put_literals(struct cursor *at, uint8_t *out,
                                                                   uint32_t entry)
{
    out[0] = (uint8_t)(entry >> 16);
    out[1] = (uint8_t)(entry >> 24);
    use(at, entry & 63);
    return out + (entry >> 8 & 3);
}

/* Decodes symbols of a block. A turn has at most 4 entries of literals, which have 48 bits. So have
 * the codes and extra bits of a match. Beyond the last input there are zeros, which may be read. */
static inline __attribute__((always_inline)) enum inflate_result
decode_block(struct inflate *inflate, const uint8_t *window, uint8_t **out_at, const uint8_t *limit)
{
    enum {
        literal_mask = (1 << INFLATE_LITERAL_BITS) - 1,
        distance_mask = (1 << INFLATE_DISTANCE_BITS) - 1,
        turn_bytes = 32,
        zeros = 8
    };
    const uint32_t *literals = inflate->literals, *distances = inflate->distances;
    const uint8_t *safe =
        inflate->in_is_last ? inflate->in_end + zeros : inflate->in_end - turn_bytes;
    struct cursor at = cursor_of(inflate);
    uint8_t *out = *out_at;
    enum inflate_result result = INFLATE_FULL;
    while (out < limit && at.in < safe) {
        refill(&at);
        uint32_t entry = literals[at.bits & literal_mask];
        for (int i = 0; i < 3 && (entry & IS_LITERAL) != 0; i++) {
            out = put_literals(&at, out, entry);
            entry = literals[at.bits & literal_mask];
        }
        if ((entry & IS_LITERAL) != 0) {
            out = put_literals(&at, out, entry);
            continue;
        }
        refill(&at);
        if (__builtin_expect((entry & IS_SPECIAL) != 0, 0)) {
            if ((entry & LINK) != 0)
                entry = follow_link(&at, literals, entry);
            if ((entry & IS_LITERAL) != 0) {
                out = put_literals(&at, out, entry);
                continue;
            }
            if ((entry & IS_SPECIAL) != 0) {
                use(&at, entry & 63);
                result = (entry & END) != 0 ? INFLATE_FULL : INFLATE_BAD;
                inflate->stage = INFLATE_AT_BLOCK;
                break;
            }
        }
        size_t length = value_of(at.bits, entry);
        use(&at, entry & 63);
        entry = distances[at.bits & distance_mask];
        if (__builtin_expect((entry & LINK) != 0 && (entry & IS_SPECIAL) != 0, 0))
            entry = follow_link(&at, distances, entry);
        size_t distance = value_of(at.bits, entry);
        use(&at, entry & 63);
        if ((entry & IS_SPECIAL) != 0 || distance > (size_t)(out - window)) {
            result = INFLATE_BAD;
            break;
        }
        out = copy_match(out, distance, length);
    }
    *out_at = out;
    keep_cursor(inflate, &at);
    if (result == INFLATE_FULL && inflate->stage == INFLATE_IN_CODES && out < limit)
        return inflate->in_is_last ? INFLATE_BAD : INFLATE_HUNGRY;
    return result;
}

#if defined(__x86_64__)
/* BMI2 shifts by a variable number of bits in one step. Without the alignment, the place of the
 * function costs up to 5% (Zen 4). */
__attribute__((target("bmi2"), aligned(64))) static enum inflate_result
decode_block_bmi2(struct inflate *inflate, const uint8_t *window, uint8_t **out,
                  const uint8_t *limit)
{
    return decode_block(inflate, window, out, limit);
}
#endif

static enum inflate_result decode_block_any(struct inflate *inflate, const uint8_t *window,
                                            uint8_t **out, const uint8_t *limit)
{
#if defined(__x86_64__)
    if (inflate->has_bmi2)
        return decode_block_bmi2(inflate, window, out, limit);
#endif
    return decode_block(inflate, window, out, limit); /* uncovered: machine */
}

void inflate_open(struct inflate *inflate, uint64_t output_bytes)
{
    inflate->in = inflate->in_end = NULL;
    inflate->in_is_last = inflate->block_is_last = inflate->has_fixed_codes = false;
    inflate->stage = INFLATE_AT_HEADER;
    inflate->output_bytes = output_bytes;
    inflate->tables_left = TABLES_LEAST + output_bytes / TABLE_OUTPUT_BYTES;
    inflate->has_bmi2 = false;
#if defined(__x86_64__)
    inflate->has_bmi2 = __builtin_cpu_supports("bmi2");
#endif
    align(inflate);
}

enum inflate_result inflate_run(struct inflate *inflate, const uint8_t *window, uint8_t **out,
                                const uint8_t *limit)
{
    enum inflate_result result = INFLATE_FULL;
    while (result == INFLATE_FULL && *out < limit)
        switch (inflate->stage) {
        case INFLATE_AT_HEADER:
            result = read_header(inflate);
            break;
        case INFLATE_AT_BLOCK:
            result = read_block(inflate);
            break;
        case INFLATE_IN_STORED:
        case INFLATE_IN_CODES:
            result = inflate->stage == INFLATE_IN_STORED
                         ? copy_stored(inflate, out, limit)
                         : decode_block_any(inflate, window, out, limit);
            break;
        case INFLATE_AT_CHECKSUM:
            return read_checksum(inflate);
        case INFLATE_AT_END:
            return INFLATE_ENDED;
        }
    return result;
}
