/*
 * encode_code.h - a warp makes the code of a block, and its header: the results of png_make_code,
 * but most of the work is done by all lanes. A single lane would take longer than all other kernels
 * of a small image.
 */
#pragma once

#include "gpu/png/encode_filter.h"
#include "gpu/png/encode_impl.h"
#include "gpu/simt/simt.h"

/* Symbols, and the positions of code lengths in a header, per lane. */
#define LANE_SYMBOLS  ((PNG_SYMBOLS + 2 + WARP_LANES - 1) / WARP_LANES)
#define CODE_SYMBOLS  (LANE_SYMBOLS * WARP_LANES)
#define LENGTHS_LIMIT 7 /* bits of the codes of code lengths */
/* No block has so many tokens that a Huffman tree could be as deep. */
#define DEPTHS WARP_LANES

struct code_shared {
    uint32_t keys[CODE_SYMBOLS], sorted[CODE_SYMBOLS], work[CODE_SYMBOLS];
    uint32_t inner[DEPTHS];                    /* inner nodes of each depth */
    uint32_t of_length[PNG_CODE_BITS_MAX + 1]; /* codes of each length */
    uint32_t length_counts[WARP_LANES], length_codes[WARP_LANES];
    uint32_t header[PNG_HEADER_WORDS];
    uint32_t run_begins[CODE_SYMBOLS / 32 + 1]; /* a bit per code length in the header */
    uint8_t lengths[CODE_SYMBOLS], own_lengths[WARP_LANES];
};

/* ---- keys ---- */

SIMT uint32_t lanes_below(void)
{
    return (1u << lane_index()) - 1;
}

/* Sets keys[] to the keys of the symbols with these counts; a lane has symbol 32 * i + lane.
 * Returns their number. */
SIMT int make_keys(struct code_shared *shared, const uint32_t counts[LANE_SYMBOLS])
{
    int n = 0;
    UNROLL
    for (int i = 0; i < LANE_SYMBOLS; i++) {
        uint32_t used = warp_ballot(counts[i] > 0);
        if (counts[i] > 0)
            shared->keys[n + count_bits(used & lanes_below())] =
                PNG_KEY(counts[i], i * WARP_LANES + lane_index());
        n += count_bits(used);
    }
    warp_barrier();
    return n;
}

/* Sorts n keys into sorted[]. The place of a key is the number of lower keys. */
SIMT void sort_keys(struct code_shared *shared, int n)
{
    uint32_t own[LANE_SYMBOLS], place[LANE_SYMBOLS];
    UNROLL
    for (int i = 0; i < LANE_SYMBOLS; i++) {
        int at = i * WARP_LANES + lane_index();
        own[i] = at < n ? shared->keys[at] : 0;
        place[i] = 0;
    }
    for (int j = 0; j < n; j++) {
        uint32_t key = shared->keys[j];
        UNROLL
        for (int i = 0; i < LANE_SYMBOLS; i++)
            place[i] += key < own[i];
    }
    UNROLL
    for (int i = 0; i < LANE_SYMBOLS; i++)
        if (i * WARP_LANES + lane_index() < n)
            shared->sorted[place[i]] = own[i];
    warp_barrier();
}

/* ---- lengths of codes ---- */

/* The first half of png_tree_depths: replaces the sorted counts in `work` by the parents of the
 * inner nodes, 0 to n - 2. Node n - 2 is the root. The next two inner nodes without a
 * parent and the next two leaves are in registers, so that a count has been loaded when it is
 * compared. No branch depends on the counts. */
SIMT void join_nodes(uint32_t *work, int n)
{
    const uint32_t none = ~0u;
    int node = 0, leaf = 2;
    uint32_t node_count = work[0] + work[1], node_after = none;
    uint32_t leaf_count = n > 2 ? work[2] : none, leaf_after = n > 3 ? work[3] : none;
    work[0] = node_count;
    for (int next = 1; next < n - 1; next++) {
        uint32_t sum = 0;
        UNROLL
        for (int child = 0; child < 2; child++) {
            bool is_node = node_count < leaf_count;
            int load = is_node ? node + 2 : leaf + 2, end = is_node ? next : n;
            uint32_t loaded = load < end ? work[load] : none;
            sum += is_node ? node_count : leaf_count;
            if (is_node)
                work[node] = (uint32_t)next;
            node += is_node;
            leaf += !is_node;
            node_count = is_node ? node_after : node_count;
            node_after = is_node ? loaded : node_after;
            leaf_count = is_node ? leaf_count : leaf_after;
            leaf_after = is_node ? leaf_after : loaded;
        }
        work[next] = sum;
        node_count = node == next ? sum : node_count;
        node_after = node + 1 == next ? sum : node_after;
    }
}

/* Sets inner[] from the parents: the number of nodes of each depth. */
SIMT void count_depths(struct code_shared *shared, int n)
{
    int lane = lane_index();
    uint32_t nodes[LANE_SYMBOLS]; /* the distance from an ancestor, times 512, and its index */
    bool climbs = true;
    shared->inner[lane] = 0;
    UNROLL
    for (int i = 0; i < LANE_SYMBOLS; i++) {
        int node = i * WARP_LANES + lane;
        nodes[i] = node < n - 2 ? 512 + shared->work[node] : (uint32_t)(n - 2);
    }
    while (climbs) {
        climbs = false;
        warp_barrier();
        UNROLL
        for (int i = 0; i < LANE_SYMBOLS; i++)
            if (i * WARP_LANES + lane < n - 1)
                shared->work[i * WARP_LANES + lane] = nodes[i];
        warp_barrier();
        UNROLL
        for (int i = 0; i < LANE_SYMBOLS; i++) {
            uint32_t ancestor = shared->work[nodes[i] & 511];
            nodes[i] = (nodes[i] & ~511u) + ancestor;
            climbs |= (nodes[i] & 511) != (uint32_t)(n - 2);
        }
        climbs = warp_any(climbs);
    }
    UNROLL
    for (int i = 0; i < LANE_SYMBOLS; i++)
        if (i * WARP_LANES + lane < n - 1)
            atomic_add(&shared->inner[nodes[i] >> 9], 1);
    warp_barrier();
}

/* Sets of_length[] for the n sorted keys: png_count_lengths. */
SIMT void count_lengths(struct code_shared *shared, int n, int limit)
{
    int lane = lane_index();
    for (int i = lane; i < n; i += WARP_LANES)
        shared->work[i] = PNG_KEY_COUNT(shared->sorted[i]);
    if (lane <= PNG_CODE_BITS_MAX)
        shared->of_length[lane] = 0;
    warp_barrier();
    if (lane == 0)
        join_nodes(shared->work, n);
    warp_barrier();
    count_depths(shared, n);
    uint32_t leaves = (lane == 0 ? 1 : 2 * shared->inner[lane - 1]) - shared->inner[lane];
    if (leaves > 0)
        atomic_add(&shared->of_length[lane < limit ? lane : limit], leaves);
    bool deep = warp_any(leaves > 0 && lane > limit);
    warp_barrier();
    if (deep && lane == 0)
        png_mend_lengths(shared->of_length, limit);
    warp_barrier();
}

/* Sets the lengths of the sorted keys' symbols: png_code_lengths. */
SIMT void set_lengths(struct code_shared *shared, int n, int limit, uint8_t *lengths)
{
    uint32_t longer[PNG_CODE_BITS_MAX]; /* how many codes have more than i bits */
    uint32_t sum = 0;
    count_lengths(shared, n, limit);
    UNROLL
    for (int i = PNG_CODE_BITS_MAX - 1; i >= 0; i--)
        longer[i] = sum = sum + shared->of_length[i + 1];
    for (int at = lane_index(); at < n; at += WARP_LANES) {
        uint32_t length = 0;
        UNROLL
        for (int i = 0; i < PNG_CODE_BITS_MAX; i++)
            length += (uint32_t)at < longer[i];
        lengths[PNG_KEY_SYMBOL(shared->sorted[at])] = (uint8_t)length;
    }
    warp_barrier();
}

/* ---- codes ---- */

/* The first code of each length. */
struct next_codes {
    uint32_t of[PNG_CODE_BITS_MAX + 1];
};

SIMT struct next_codes first_codes(const struct code_shared *shared)
{
    struct next_codes next;
    next.of[0] = 0;
    UNROLL
    for (int length = 1; length <= PNG_CODE_BITS_MAX; length++)
        next.of[length] =
            2 * (next.of[length - 1] + (length > 1 ? shared->of_length[length - 1] : 0));
    return next;
}

/* As png_assign_codes for 32 symbols: takes the length of the lane's symbol, and returns its code.
 */
SIMT uint32_t take_codes(struct next_codes *next, uint32_t length)
{
    uint32_t code = 0;
    UNROLL
    for (uint32_t i = 1; i <= PNG_CODE_BITS_MAX; i++) {
        uint32_t same = warp_ballot(length == i);
        if (length == i)
            code = next->of[i] + (uint32_t)count_bits(same & lanes_below());
        next->of[i] += (uint32_t)count_bits(same);
    }
    return length > 0 ? PNG_CODE(code, length) : 0;
}

/* ---- header: png_put_header ---- */

/* Adds bits to the header. */
SIMT void put_header_bits(struct code_shared *shared, uint32_t at, uint32_t value, uint32_t count)
{
    uint32_t shift = at & 31, *word = &shared->header[at >> 5];
    atomic_or(word, value << shift);
    if (shift + count > 32)
        atomic_or(word + 1, value >> (32 - shift));
}

/* The order in which a header has the lengths of the codes of lengths. */
CONSTANT uint8_t length_order[PNG_LENGTH_CODES] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                   11, 4,  12, 3, 13, 2, 14, 1, 15};

/* The tokens of successive equal code lengths, as png_length_tokens makes them. */
struct length_run {
    uint32_t length, literals, symbol, full, most, rest, count;
};

SIMT struct length_run length_run_of(uint32_t length, uint32_t run)
{
    struct length_run of;
    uint32_t first = length > 0; /* other lengths than 0 begin with one without a repetition */
    of.length = length;
    run -= first;
    of.most = length > 0 ? 6 : 138;
    of.full = run / of.most;
    of.rest = run % of.most;
    of.symbol = length > 0 ? 16 : of.rest >= 11 ? 18 : 17; /* of the rest */
    of.literals = first;
    if (of.rest < 3) {
        of.literals += of.rest;
        of.rest = 0;
    }
    of.count = of.literals + of.full + (of.rest > 0);
    return of;
}

/* Token i of a run: a symbol, and in bits 8 and up the value of its extra bits. */
SIMT uint32_t length_token(const struct length_run *of, uint32_t i)
{
    uint32_t first = of->length > 0;
    if (i < first)
        return of->length;
    i -= first;
    if (i < of->full)
        return of->length > 0 ? 16 | (6 - 3) << 8 : 18 | (138 - 11) << 8;
    if (of->rest > 0 && i == of->full)
        return of->symbol | (of->rest - (of->symbol == 18 ? 11 : 3)) << 8;
    return of->length;
}

/* Marks where runs of equal lengths begin among `total` of them. */
SIMT void mark_length_runs(struct code_shared *shared, int total)
{
    int lane = lane_index();
    for (int i = 0; i < CODE_SYMBOLS / 32; i++) {
        int at = i * 32 + lane;
        uint32_t begins = warp_ballot(
            at == total ||
            (at < total && (at == 0 || shared->lengths[at] != shared->lengths[at - 1])));
        if (lane == 0)
            shared->run_begins[i] = begins;
    }
    if (lane == 0)
        shared->run_begins[CODE_SYMBOLS / 32] = 1; /* if `total` is as large */
    warp_barrier();
}

SIMT uint32_t length_run_bytes(const struct code_shared *shared, int at)
{
    int word = (at + 1) / 32;
    uint32_t begins = shared->run_begins[word] >> (at + 1) % 32 << (at + 1) % 32;
    while (begins == 0)
        begins = shared->run_begins[++word];
    return (uint32_t)(word * 32 + lowest_bit(begins) - at);
}

/* Sets work[] to the tokens of `total` lengths, and length_counts[]. Returns their number. */
SIMT int find_length_tokens(struct code_shared *shared, int total)
{
    int lane = lane_index();
    uint32_t own = 0, all;
    mark_length_runs(shared, total);
    shared->length_counts[lane] = 0;
    NO_UNROLL
    for (int at = lane * LANE_SYMBOLS; at < (lane + 1) * LANE_SYMBOLS && at < total; at++)
        if (shared->run_begins[at / 32] >> at % 32 & 1)
            own += length_run_of(shared->lengths[at], length_run_bytes(shared, at)).count;
    uint32_t to = warp_scan(own, &all);
    warp_barrier();
    NO_UNROLL
    for (int at = lane * LANE_SYMBOLS; at < (lane + 1) * LANE_SYMBOLS && at < total; at++)
        if (shared->run_begins[at / 32] >> at % 32 & 1) {
            struct length_run run =
                length_run_of(shared->lengths[at], length_run_bytes(shared, at));
            for (uint32_t i = 0; i < run.count; i++) {
                uint32_t token = length_token(&run, i);
                shared->work[to++] = token;
                atomic_add(&shared->length_counts[token & 255], 1);
            }
        }
    warp_barrier();
    return (int)all;
}

/* Sets own_lengths[] and length_codes[] from length_counts[]: the code of the code lengths. */
SIMT void make_length_code(struct code_shared *shared)
{
    int lane = lane_index();
    uint32_t count = shared->length_counts[lane], key = PNG_KEY(count, lane), place = 0;
    for (int i = 0; i < PNG_LENGTH_CODES; i++) {
        uint32_t other = warp_read(key, i);
        place += PNG_KEY_COUNT(other) > 0 && other < key;
    }
    int n = count_bits(warp_ballot(count > 0));
    if (count > 0)
        shared->sorted[place] = key;
    shared->own_lengths[lane] = 0;
    warp_barrier();
    set_lengths(shared, n, LENGTHS_LIMIT, shared->own_lengths);
    struct next_codes next = first_codes(shared);
    shared->length_codes[lane] = take_codes(&next, shared->own_lengths[lane]);
    warp_barrier();
}

SIMT uint32_t length_extra_bits(uint32_t symbol)
{
    return symbol < 16 ? 0 : symbol == 16 ? 2 : symbol == 17 ? 3 : 7;
}

/* Writes tokens of code lengths into the header from bit `at` on. Returns the end. */
SIMT uint32_t put_length_tokens(struct code_shared *shared, const uint32_t *tokens, int count,
                                uint32_t at)
{
    int first = lane_index() * LANE_SYMBOLS;
    uint32_t bits = 0, all;
    NO_UNROLL
    for (int i = first; i < first + LANE_SYMBOLS && i < count; i++) {
        uint32_t symbol = tokens[i] & 255;
        bits += PNG_CODE_COUNT(shared->length_codes[symbol]) + length_extra_bits(symbol);
    }
    uint32_t to = at + warp_scan(bits, &all);
    NO_UNROLL
    for (int i = first; i < first + LANE_SYMBOLS && i < count; i++) {
        uint32_t symbol = tokens[i] & 255, code = shared->length_codes[symbol];
        uint32_t length = PNG_CODE_COUNT(code), extra = length_extra_bits(symbol);
        put_header_bits(shared, to, PNG_CODE_BITS(code) | tokens[i] >> 8 << length, length + extra);
        to += length + extra;
    }
    return at + all;
}

/* Makes the header for lengths[], which has PNG_SYMBOLS lengths and zeros. Returns its bits.
 * Changes sorted[], work[] and of_length[]. */
SIMT uint32_t make_header(struct code_shared *shared, bool last)
{
    int lane = lane_index(), used = PNG_END_OF_BLOCK + 1;
    for (int at = used + lane; at < PNG_SYMBOLS; at += WARP_LANES)
        used = shared->lengths[at] > 0 ? at + 1 : used;
    UNROLL
    for (int by = WARP_LANES / 2; by > 0; by /= 2) {
        int other = (int)warp_read_xor((uint32_t)used, by);
        used = other > used ? other : used;
    }
    for (int i = lane; i < PNG_HEADER_WORDS; i += WARP_LANES)
        shared->header[i] = 0;
    warp_barrier();
    if (lane < 2)
        shared->lengths[used + lane] = 1; /* the distances */
    warp_barrier();
    int count = find_length_tokens(shared, used + 2);
    if (lane < 2)
        shared->lengths[used + lane] = 0;
    /* The code of the lengths needs work[]. */
    for (int i = lane; i < count; i += WARP_LANES)
        shared->keys[i] = shared->work[i];
    make_length_code(shared);
    uint32_t length = lane < PNG_LENGTH_CODES ? shared->own_lengths[length_order[lane]] : 0;
    int sent = highest_bit(warp_ballot(length > 0)) + 1;
    sent = sent > 4 ? sent : 4;
    const uint32_t fixed_bits = 3 + 5 + 5 + 4;
    if (lane == 0)
        put_header_bits(shared, 0,
                        (uint32_t)last | 2 << 1 | (uint32_t)(used - 257) << 3 | 1 << 8 |
                            (uint32_t)(sent - 4) << 13,
                        fixed_bits);
    if (lane < sent)
        put_header_bits(shared, fixed_bits + 3 * (uint32_t)lane, length, 3);
    uint32_t end = put_length_tokens(shared, shared->keys, count, fixed_bits + 3 * (uint32_t)sent);
    warp_barrier();
    return end;
}

/* ---- the code of a block ---- */

/* Sums over the symbols of a block. */
struct code_sums {
    uint32_t own, fixed, extra, matches;
};

SIMT struct code_sums sum_codes(const struct code_shared *shared,
                                const uint32_t counts[LANE_SYMBOLS])
{
    struct code_sums sums = {0, 0, 0, 0};
    UNROLL
    for (int i = 0; i < LANE_SYMBOLS; i++) {
        uint32_t symbol = (uint32_t)(i * WARP_LANES + lane_index());
        sums.own += counts[i] * shared->lengths[symbol];
        sums.fixed += counts[i] * png_fixed_length(symbol);
        if (symbol > PNG_END_OF_BLOCK) {
            sums.extra += counts[i] * png_length_bits(symbol - 257);
            sums.matches += counts[i];
        }
    }
    sums.own = warp_sum(sums.own);
    sums.fixed = warp_sum(sums.fixed);
    sums.extra = warp_sum(sums.extra);
    sums.matches = warp_sum(sums.matches);
    return sums;
}

/* Makes the code of a block: png_make_code. counts: of symbol 32 * i + lane, 0 from PNG_SYMBOLS on.
 * Leaves in lengths[] the lengths of the codes. */
SIMT void make_code(struct code_shared *shared, const uint32_t counts[LANE_SYMBOLS], bool last,
                    struct png_code *code)
{
    int lane = lane_index(), n = make_keys(shared, counts);
    for (int i = lane; i < CODE_SYMBOLS; i += WARP_LANES)
        shared->lengths[i] = 0;
    sort_keys(shared, n);
    set_lengths(shared, n, PNG_CODE_BITS_MAX, shared->lengths);
    struct next_codes next = first_codes(shared);
    struct code_sums sums = sum_codes(shared, counts);
    warp_barrier();
    uint32_t header_bits = make_header(shared, last);
    uint32_t own = header_bits + sums.own + sums.matches, fixed = 3 + sums.fixed + sums.matches * 5;
    bool is_fixed = fixed <= own;
    NO_UNROLL
    for (int i = 0; i < LANE_SYMBOLS; i++) {
        uint32_t symbol = (uint32_t)(i * WARP_LANES + lane);
        uint32_t of = take_codes(&next, shared->lengths[symbol]);
        if (symbol >= PNG_SYMBOLS)
            continue;
        code->codes[symbol] = is_fixed ? png_fixed_code(symbol) : of;
        if (is_fixed)
            shared->lengths[symbol] = (uint8_t)png_fixed_length(symbol);
    }
    for (int i = lane; i < PNG_HEADER_WORDS; i += WARP_LANES)
        code->header[i] = is_fixed ? (i == 0 ? (uint32_t)last | 1 << 1 : 0) : shared->header[i];
    if (lane == 0) {
        code->header_bits = is_fixed ? 3 : header_bits;
        code->distance_bits = is_fixed ? 5 : 1;
        code->bits = (is_fixed ? fixed : own) + sums.extra;
    }
    warp_barrier();
}
