/*
 * encode_adapt.cu - the kernel of the AV1 encoder that adapts the probabilities: stage D, first
 * part.
 *
 * A block of threads has an image. It sorts some thousand tokens at a time by their contexts. Then
 * a warp or a thread adapts a context to its tokens, which become ready tokens.
 */
#include <assert.h>

#include "gpu/avif/device/ready.h"
#include "gpu/avif/device/warp.h"

#define ADAPT_THREADS  256
#define ADAPT_WARPS    (ADAPT_THREADS / WARP_LANES)
#define ADAPT_RESIDENT 3

/* A single bit, as most literals are, becomes one of two symbols of the same probability. */
SIMT uint32_t ready_literal(avif_token token)
{
    uint32_t bits = token >> TOKEN_SYMBOL, value = token & 0xFFFF;
    if (bits == 1)
        return value ? make_ready(256, 0, 1, false) : make_ready(512, 256, 2, true);
    return READY_LITERAL | bits << 16 | value;
}

/* Tokens that are sorted at once, and those of a thread and of a warp. */
#define CHUNK_TOKENS  4096
#define CHUNK_EACH    (CHUNK_TOKENS / ADAPT_THREADS)
#define CHUNK_OF_WARP (CHUNK_TOKENS / ADAPT_WARPS)
/* A context begins at a multiple of 4 entries, its slot. */
#define SLOT_ENTRIES 4
#define SLOTS        (CDF_ENTRIES / SLOT_ENTRIES)
#define SLOTS_EACH   ((SLOTS + ADAPT_THREADS - 1) / ADAPT_THREADS)
/* Warps adapt contexts that have so many tokens of a chunk, those with very many first; threads
 * adapt the others. */
#define LONG_TOKENS      12
#define VERY_LONG_TOKENS 192
#define LONG_SLOTS_MAX   (CHUNK_TOKENS / LONG_TOKENS)

/* How the entries of a context were before each of some tokens: by token, then by entry. */
struct adapt_history {
    uint16_t entries[WARP_LANES * 16];
};

struct adapt_shared {
    struct avif_cdfs cdfs;
    uint32_t tokens[CHUNK_TOKENS]; /* then ready tokens */
    /* The tokens of each slot, in their order: their places in `tokens`, and from bit 12 on their
     * symbols. */
    uint16_t order[CHUNK_TOKENS];
    uint16_t begins[SLOTS + 2]; /* of each slot in `order`, and the end */
    union {
        /* Of each warp: how many of its tokens have a slot; then where in `order` they begin. */
        uint16_t places[ADAPT_WARPS][SLOTS];
        struct adapt_history histories[ADAPT_WARPS];
    } of;
    uint16_t long_slots[LONG_SLOTS_MAX];
    uint32_t sums[WARP_LANES];
    uint32_t long_count, long_taken, groups_taken; /* by warps */
} __attribute__((aligned(16)));
static_assert(sizeof(struct adapt_shared) <= 64 << 10, "devices before 8.0 have no more");

/* Counts the tokens of the warp by their slots. `ranks`: of the lane's tokens, among those of the
 * warp with their slots. Literals become ready. */
SIMT void count_slots(struct adapt_shared *shared, const uint32_t tokens[CHUNK_EACH],
                      uint32_t ranks[CHUNK_EACH])
{
    int warp = thread_index() / WARP_LANES, lane = lane_index();
    uint16_t *counts = shared->of.places[warp];
    UNROLL
    for (int i = 0; i < CHUNK_EACH; i++) {
        uint32_t token = tokens[i], symbols = token >> TOKEN_SYMBOLS & 31;
        uint32_t slot = symbols > 0 ? (token & 0xFFFF) / SLOT_ENTRIES : SLOTS;
        uint32_t peers = warp_match(slot), below = peers & ((1u << lane) - 1);
        uint32_t before = symbols > 0 ? counts[slot] : 0;
        warp_barrier();
        if (symbols > 0 && below == 0)
            counts[slot] = (uint16_t)(before + (uint32_t)count_bits(peers));
        warp_barrier();
        ranks[i] = before + (uint32_t)count_bits(below);
        shared->tokens[warp * CHUNK_OF_WARP + i * WARP_LANES + lane] =
            symbols > 0 ? token : ready_literal(token);
    }
}

/* Replaces the counts by places: first those of the lowest slot, by warps. Lists the slots with
 * many tokens. */
SIMT void place_slots(struct adapt_shared *shared)
{
    uint32_t counts[SLOTS_EACH], sum = 0, total;
    int first = thread_index() * SLOTS_EACH;
    UNROLL
    for (int i = 0; i < SLOTS_EACH; i++) {
        counts[i] = 0;
        if (first + i < SLOTS)
            for (int warp = 0; warp < ADAPT_WARPS; warp++)
                counts[i] += shared->of.places[warp][first + i];
        sum += counts[i];
        if (counts[i] >= VERY_LONG_TOKENS)
            shared->long_slots[atomic_add(&shared->long_count, 1)] = (uint16_t)(first + i);
    }
    uint32_t at = block_scan(sum, &total, shared->sums);
    UNROLL
    for (int i = 0; i < SLOTS_EACH; i++) {
        if (counts[i] >= LONG_TOKENS && counts[i] < VERY_LONG_TOKENS)
            shared->long_slots[atomic_add(&shared->long_count, 1)] = (uint16_t)(first + i);
        if (first + i >= SLOTS)
            continue;
        shared->begins[first + i] = (uint16_t)at;
        if (counts[i] == 0)
            continue;
        for (int warp = 0; warp < ADAPT_WARPS; warp++) {
            uint32_t count = shared->of.places[warp][first + i];
            shared->of.places[warp][first + i] = (uint16_t)at;
            at += count;
        }
    }
    if (thread_index() == 0)
        shared->begins[SLOTS] = (uint16_t)total;
}

/* A flag of an edge, as avif_put_edge_split codes it. */
SIMT uint32_t ready_edge_split(const uint16_t *cdf, uint32_t flag)
{
    uint32_t counted = flag == SPLIT_OR_HORZ ? 0x2DC : 0x17A, sum = 0;
    NO_UNROLL
    for (int i = 1; i < 10; i++)
        if (counted >> i & 1)
            sum += (i < 9 ? cdf[i] : 32768u) - cdf[i - 1];
    return make_ready(sum >> 6, 0, 1, false);
}

SIMT int rate_of(int count, int symbols)
{
    return 3 + (count > 15) + (count > 31) + avif_min(highest_bit((uint32_t)symbols), 2);
}

/* The number of symbols of a partition. Some tokens of its context are flags of edges. */
#define FLAGGED_SYMBOLS 10

/* Adapts a context to the tokens in `order` from `at` to `end`, by a warp. A lane has an entry, and
 * a token whose probabilities it looks up when the entries have passed some tokens. Entries of
 * padding stay 32768. */
SIMT void adapt_long(struct adapt_shared *shared, uint16_t *cdf, int symbols, uint32_t at,
                     uint32_t end)
{
    uint16_t *history = shared->of.histories[thread_index() / WARP_LANES].entries;
    int lane = lane_index(), entries = avif_cdf_entries(symbols), count = cdf[entries - 1];
    int entry = lane < entries - 1 ? cdf[lane] : 32768;
    NO_UNROLL
    for (; at < end; at += WARP_LANES) {
        uint32_t own = at + (uint32_t)lane < end ? shared->order[at + (uint32_t)lane] : 0;
        uint32_t left = end - at;
        int symbol = (int)(own / CHUNK_TOKENS);
        if (count == CDF_COUNT_MAX && left >= WARP_LANES) {
            int rate = rate_of(count, symbols), round = (1 << rate) - 1, step = 32768 >> rate;
            UNROLL
            for (int i = 0; i < WARP_LANES; i++) {
                bool above = (int)warp_read((uint32_t)symbol, i) > lane;
                if (lane < entries)
                    history[i * entries + lane] = (uint16_t)entry;
                /* entry - (entry >> rate), or entry + ((32768 - entry) >> rate) */
                entry -= ((entry + (above ? 0 : round)) >> rate) - (above ? 0 : step);
            }
        } else {
            NO_UNROLL
            for (int i = 0; i < (int)left && i < WARP_LANES; i++) {
                int rate = rate_of(count, symbols);
                bool above = (int)warp_read((uint32_t)symbol, i) > lane;
                if (lane < entries)
                    history[i * entries + lane] = (uint16_t)entry;
                entry += above ? -(entry >> rate) : (32768 - entry) >> rate;
                count += count < CDF_COUNT_MAX;
            }
        }
        warp_barrier();
        if ((uint32_t)lane < left) {
            uint32_t above = symbol > 0 ? history[lane * entries + symbol - 1] : 0;
            uint32_t below = symbol < symbols - 1 ? history[lane * entries + symbol] : 32768;
            shared->tokens[own % CHUNK_TOKENS] = make_ready(
                (32768 - above) >> 6, (32768 - below) >> 6, symbols - symbol, symbol == 0);
        }
        warp_barrier();
    }
    if (lane < entries)
        cdf[lane] = (uint16_t)(lane < entries - 1 ? entry : count);
}

/* As adapt_long, by a thread. */
SIMT void adapt_short(struct adapt_shared *shared, uint16_t *cdf, uint32_t at, uint32_t end)
{
    NO_UNROLL
    for (; at < end; at++) {
        uint32_t *token = &shared->tokens[shared->order[at] % CHUNK_TOKENS];
        int symbols = (int)(*token >> TOKEN_SYMBOLS & 31), symbol = (int)(*token >> TOKEN_SYMBOL);
        if (symbols == 1) {
            *token = ready_edge_split(cdf, (uint32_t)symbol);
            continue;
        }
        int last = avif_cdf_entries(symbols) - 1, count = cdf[last];
        int rate = rate_of(count, symbols);
        uint32_t above = symbol > 0 ? cdf[symbol - 1] : 0;
        uint32_t below = symbol < symbols - 1 ? cdf[symbol] : 32768;
        *token =
            make_ready((32768 - above) >> 6, (32768 - below) >> 6, symbols - symbol, symbol == 0);
        /* Two entries at once. */
        uint32_t *pairs = (uint32_t *)(void *)cdf, kept = (0xFFFFu >> rate) * 0x10001;
        for (int i = 0; i <= last / 2; i++) {
            uint32_t pair = pairs[i];
            uint32_t lower = (2 * i < symbol ? 0xFFFFu : 0) | (2 * i + 1 < symbol ? ~0xFFFFu : 0);
            uint32_t rest = (pair & lower) | ((0x80008000u - pair) & ~lower);
            uint32_t change = rest >> rate & kept & (2 * i + 1 == last ? 0xFFFFu : ~0u);
            pairs[i] = pair - (change & lower) + (change & ~lower);
        }
        cdf[last] = (uint16_t)(count + (count < CDF_COUNT_MAX));
    }
}

SIMT uint16_t *cdf_of(struct adapt_shared *shared, uint32_t slot)
{
    return (uint16_t *)&shared->cdfs + slot * SLOT_ENTRIES;
}

/* The number of symbols of the context of a slot, which has tokens. */
SIMT int symbols_of(const struct adapt_shared *shared, uint32_t slot)
{
    uint32_t token = shared->tokens[shared->order[shared->begins[slot]] % CHUNK_TOKENS];
    int symbols = (int)(token >> TOKEN_SYMBOLS & 31);
    return symbols == 1 ? FLAGGED_SYMBOLS : symbols;
}

/* Returns the next number to all lanes. */
SIMT uint32_t take_next(uint32_t *taken)
{
    return warp_read(lane_index() == 0 ? atomic_add(taken, 1) : 0, 0);
}

SIMT void adapt_long_slots(struct adapt_shared *shared)
{
    NO_UNROLL
    for (;;) {
        uint32_t i = take_next(&shared->long_taken);
        if (i >= shared->long_count)
            break;
        uint32_t slot = shared->long_slots[i];
        int symbols = symbols_of(shared, slot);
        warp_barrier(); /* the token is read */
        if (symbols != FLAGGED_SYMBOLS)
            adapt_long(shared, cdf_of(shared, slot), symbols, shared->begins[slot],
                       shared->begins[slot + 1]);
        else if (lane_index() == 0)
            adapt_short(shared, cdf_of(shared, slot), shared->begins[slot],
                        shared->begins[slot + 1]);
    }
}

/* A thread has a slot. */
SIMT void adapt_short_slots(struct adapt_shared *shared)
{
    NO_UNROLL
    for (;;) {
        uint32_t slot = take_next(&shared->groups_taken) * WARP_LANES + (uint32_t)lane_index();
        if (!warp_any(slot < SLOTS))
            break;
        uint32_t count = slot < SLOTS ? shared->begins[slot + 1] - shared->begins[slot] : 0;
        if (count > 0 && count < LONG_TOKENS)
            adapt_short(shared, cdf_of(shared, slot), shared->begins[slot],
                        shared->begins[slot + 1]);
    }
}

KERNEL(adapt_tokens, ADAPT_THREADS, ADAPT_RESIDENT, struct avif_args)
{
    struct adapt_shared *shared = (struct adapt_shared *)(void *)DYNAMIC_SHARED();
    struct avif_descriptor *image = args.images + block_index();
    uint32_t count = image->token_count, tokens[CHUNK_EACH], ranks[CHUNK_EACH];
    int own = thread_index() / WARP_LANES * CHUNK_OF_WARP + lane_index();
    if (count > image->token_room)
        return;
    avif_init_cdfs(&shared->cdfs, image->encoder.frame.quantiser.index, thread_index(),
                   ADAPT_THREADS);
    NO_UNROLL
    for (uint32_t chunk = 0; chunk < count; chunk += CHUNK_TOKENS) {
        UNROLL
        for (int i = 0; i < CHUNK_EACH; i++) {
            uint32_t at = chunk + (uint32_t)(own + i * WARP_LANES);
            tokens[i] = at < count ? image->tokens[at] : 0;
        }
        uint32_t *places = (uint32_t *)(void *)shared->of.places;
        for (int i = thread_index(); i < ADAPT_WARPS * SLOTS / 2; i += ADAPT_THREADS)
            places[i] = 0;
        if (thread_index() == 0)
            shared->long_count = shared->long_taken = shared->groups_taken = 0;
        block_barrier();
        count_slots(shared, tokens, ranks);
        block_barrier();
        place_slots(shared);
        block_barrier();
        UNROLL
        for (int i = 0; i < CHUNK_EACH; i++)
            if (tokens[i] >> TOKEN_SYMBOLS & 31)
                shared->order[shared->of.places[thread_index() / WARP_LANES]
                                               [(tokens[i] & 0xFFFF) / SLOT_ENTRIES] +
                              ranks[i]] = (uint16_t)((uint32_t)(own + i * WARP_LANES) |
                                                     (tokens[i] >> TOKEN_SYMBOL) * CHUNK_TOKENS);
        block_barrier();
        adapt_long_slots(shared);
        adapt_short_slots(shared);
        block_barrier();
        UNROLL
        for (int i = 0; i < CHUNK_EACH; i++) {
            uint32_t at = chunk + (uint32_t)(own + i * WARP_LANES);
            if (at < count)
                image->tokens[at] = shared->tokens[own + i * WARP_LANES];
        }
    }
}

int avif_launch_adaptation(const struct avif_encode_batch *batch, void *description,
                           struct CUstream_st *stream)
{
    struct avif_args args = avif_args_of(batch, description);
    size_t bytes = sizeof(struct adapt_shared);
    int status = ALLOW_SHARED(adapt_tokens, bytes);
    if (status == 0)
        status = LAUNCH(adapt_tokens, ADAPT_THREADS, args.image_count, bytes, stream, args);
    return status;
}
