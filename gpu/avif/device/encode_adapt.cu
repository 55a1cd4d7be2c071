/*
 * encode_adapt.cu - the kernel of the AV1 encoder that adapts the probabilities: stage D, first
 * part.
 *
 * A block of threads has an image. It sorts some thousand tokens at a time by their contexts. Then
 * some lanes adapt a context to its tokens, which become ready tokens.
 */
#include "gpu/avif/device/ready.h"
#include "gpu/avif/device/warp.h"

#define ADAPT_THREADS  256
#define ADAPT_WARPS    (ADAPT_THREADS / WARP_LANES)
#define ADAPT_RESIDENT 4

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

struct adapt_shared {
    struct avif_cdfs cdfs;
    uint32_t tokens[CHUNK_TOKENS]; /* then ready tokens */
    /* The tokens of each slot, in their order: their places in `tokens`, and from bit 12 on their
     * symbols. */
    uint16_t order[CHUNK_TOKENS];
    /* Of each warp: how many of its tokens have a slot; then where in `order` they begin. */
    uint16_t places[ADAPT_WARPS][SLOTS];
    uint32_t sums[WARP_LANES];
    uint32_t sorted;       /* tokens in `order` */
    uint32_t groups_taken; /* of slots, by warps */
} __attribute__((aligned(16)));

/* Counts the tokens of the warp by their slots. `ranks`: of the lane's tokens, among those of the
 * warp with their slots. Literals become ready. */
SIMT void count_slots(struct adapt_shared *shared, const uint32_t tokens[CHUNK_EACH],
                      uint32_t ranks[CHUNK_EACH])
{
    int warp = thread_index() / WARP_LANES, lane = lane_index();
    uint16_t *counts = shared->places[warp];
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

/* Replaces the counts by places: first those of the lowest slot, by warps. */
SIMT void place_slots(struct adapt_shared *shared)
{
    uint32_t sum = 0, total;
    int first = thread_index() * SLOTS_EACH;
    for (int slot = first; slot < avif_min(first + SLOTS_EACH, SLOTS); slot++)
        for (int warp = 0; warp < ADAPT_WARPS; warp++)
            sum += shared->places[warp][slot];
    uint32_t at = block_scan(sum, &total, shared->sums);
    for (int slot = first; slot < avif_min(first + SLOTS_EACH, SLOTS); slot++)
        for (int warp = 0; warp < ADAPT_WARPS; warp++) {
            uint32_t count = shared->places[warp][slot];
            shared->places[warp][slot] = (uint16_t)at;
            at += count;
        }
    if (thread_index() == 0)
        shared->sorted = total;
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

/* Adapts contexts of up to 4 symbols, 4 lanes each, to the tokens in `order` from `at` to `end`. A
 * lane has an entry of the CDF; the last one writes the ready tokens. */
SIMT void adapt_fours(struct adapt_shared *shared, uint16_t *cdf, int symbols, uint32_t at,
                      uint32_t end)
{
    int first = lane_index() & -SLOT_ENTRIES, lane = lane_index() - first;
    int count = at < end ? cdf[3] : 0;
    int entry = lane < 3 && at < end ? cdf[lane] : 32768;
    int rate = rate_of(count, symbols), round = (1 << rate) - 1, step = 32768 >> rate;
    uint32_t next = at < end ? shared->order[at] : 0, steps = warp_max(end - at);
    bool has_tokens = at < end;
    NO_UNROLL
    for (uint32_t i = 0; i < steps; i++) {
        uint32_t place = next % CHUNK_TOKENS, part = (uint32_t)(32768 - entry) >> 6;
        int symbol = (int)(next / CHUNK_TOKENS);
        bool is_own = at < end;
        if (++at < end)
            next = shared->order[at];
        uint32_t above = warp_read(part, first + avif_max(symbol - 1, 0));
        uint32_t below = warp_read(part, first + symbol);
        if (!is_own)
            continue;
        /* entry + ((32768 - entry) >> rate), or entry - (entry >> rate) */
        entry -= symbol > lane ? entry >> rate : ((entry + round) >> rate) - step;
        if (lane == 3)
            shared->tokens[place] =
                make_ready(symbol > 0 ? above : 512, below, symbols - symbol, symbol == 0);
        if (count < CDF_COUNT_MAX) {
            count++;
            rate = rate_of(count, symbols);
            round = (1 << rate) - 1;
            step = 32768 >> rate;
        }
    }
    if (has_tokens)
        cdf[lane] = (uint16_t)(lane < 3 ? entry : count);
}

/* Adapts any context. Entries of padding stay 32768. One thread. */
SIMT void adapt_any(struct adapt_shared *shared, uint16_t *cdf, uint32_t at, uint32_t end)
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
        NO_UNROLL
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

/* Adapts the contexts to the sorted tokens. Warps take groups of slots, the last ones first: those
 * of coefficients, which have most tokens. */
SIMT void adapt_slots(struct adapt_shared *shared)
{
    const int each = WARP_LANES / SLOT_ENTRIES, groups = (SLOTS + each - 1) / each;
    NO_UNROLL
    for (;;) {
        uint32_t taken = lane_index() == 0 ? atomic_add(&shared->groups_taken, 1) : 0;
        int group = groups - 1 - (int)warp_read(taken, 0);
        if (group < 0)
            break;
        int slot = avif_min(group * each + lane_index() / SLOT_ENTRIES, SLOTS - 1);
        uint16_t *cdf = (uint16_t *)&shared->cdfs + slot * SLOT_ENTRIES;
        uint32_t at = shared->places[0][slot];
        uint32_t end = slot + 1 < SLOTS ? shared->places[0][slot + 1] : shared->sorted;
        if (!warp_any(at < end))
            continue;
        uint32_t token = at < end ? shared->tokens[shared->order[at] % CHUNK_TOKENS] : 0;
        int symbols = (int)(token >> TOKEN_SYMBOLS & 31);
        bool is_small = symbols >= 2 && symbols <= 4;
        warp_barrier(); /* the tokens are read */
        adapt_fours(shared, cdf, symbols, at, is_small ? end : at);
        if (!is_small && at < end && lane_index() % SLOT_ENTRIES == 0)
            adapt_any(shared, cdf, at, end);
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
    const struct avif_cdfs *cdfs =
        &args.common->cdfs[avif_cdf_set(image->encoder.frame.quantiser.index)];
    for (int i = thread_index(); i < CDF_ENTRIES / 2; i += ADAPT_THREADS)
        ((uint32_t *)(void *)&shared->cdfs)[i] = ((const uint32_t *)(const void *)cdfs)[i];
    NO_UNROLL
    for (uint32_t chunk = 0; chunk < count; chunk += CHUNK_TOKENS) {
        UNROLL
        for (int i = 0; i < CHUNK_EACH; i++) {
            uint32_t at = chunk + (uint32_t)(own + i * WARP_LANES);
            tokens[i] = at < count ? image->tokens[at] : 0;
        }
        uint32_t *places = (uint32_t *)(void *)shared->places;
        for (int i = thread_index(); i < ADAPT_WARPS * SLOTS / 2; i += ADAPT_THREADS)
            places[i] = 0;
        if (thread_index() == 0)
            shared->groups_taken = 0;
        block_barrier();
        count_slots(shared, tokens, ranks);
        block_barrier();
        place_slots(shared);
        block_barrier();
        UNROLL
        for (int i = 0; i < CHUNK_EACH; i++)
            if (tokens[i] >> TOKEN_SYMBOLS & 31)
                shared->order[shared->places[thread_index() / WARP_LANES]
                                            [(tokens[i] & 0xFFFF) / SLOT_ENTRIES] +
                              ranks[i]] = (uint16_t)((uint32_t)(own + i * WARP_LANES) |
                                                     (tokens[i] >> TOKEN_SYMBOL) * CHUNK_TOKENS);
        block_barrier();
        adapt_slots(shared);
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
