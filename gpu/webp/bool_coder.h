/*
 * bool_coder.h - the boolean coder of VP8 (RFC 6386, section 7), for many chunks of tokens at a
 * time.
 *
 * The coder has a range and a number. A token divides the range, adds to the number, and then both
 * are shifted so that the range is 128 to 255 again. The additions and shifts depend on the range
 * only, so that a chunk of tokens can be coded alone as soon as the range at its start is known;
 * the numbers are added afterwards. So a first kernel maps each range that a chunk may start with
 * to the range at its end, and a second one follows the range from chunk to chunk. A chunk may
 * start with few ranges, because it begins after a token that leaves few.
 *
 * While ranges are mapped, they are called states. An index is a range less 128. Ranges are float
 * numbers: then the shift is a change of the exponent.
 */
#pragma once

#include "gpu/simt/simt.h"
#include "gpu/webp/tokens.h"

/* Of the coder before the first token. */
#define RANGE_START 255
#define RANGE_LEAST 128

/* ---- steps ---- */

/* The exponent of 128 to 255. */
#define RANGE_EXPONENT 134

/* A token that does nothing. */
#define TOKEN_NONE 0x200u
#define STEPS      (TOKEN_NONE + 1)

/* A token makes a range the integer part of range * scale + offset, and then shifts it. Scale and
 * offset are floats whose lower 16 bits are 0. */
struct range_steps {
    uint32_t of[STEPS]; /* of each token: scale in the upper half, offset in the lower one */
    uint32_t exponent; /* the bits of RANGE_EXPONENT; not a constant, so that shift_range is one
                          instruction */
};

/* A token that is 0 leaves the range 1 + (range - 1) * p / 256, rounded down. One that is 1 leaves
 * the rest of the range. */
DEVICE uint32_t step_of(uint32_t token)
{
    int p = (int)(token & 255);
    int scale = token & TOKEN_BIT ? 256 - p : p, offset = token & TOKEN_BIT ? p - 1 : 256 - p;
    if (token == TOKEN_NONE) {
        scale = 256;
        offset = 0;
    }
    return bits_of_float((float)scale / 256) | bits_of_float((float)offset / 256) >> 16;
}

/* Makes the steps: a block of threads. */
SIMT void make_steps(struct range_steps *steps)
{
    for (uint32_t i = (uint32_t)thread_index(); i < STEPS; i += (uint32_t)block_threads())
        steps->of[i] = step_of(i);
    if (thread_index() == 0)
        steps->exponent = (uint32_t)RANGE_EXPONENT << 23;
    block_barrier();
}

/* The integer part of a number of 1 to 255, plus 2^23. */
#define WHOLE_BASE 8388608.0f
DEVICE float whole_of(float number)
{
#ifdef __CUDA_ARCH__
    return __fadd_rd(number, WHOLE_BASE);
#else
    return (float)(int)number + WHOLE_BASE;
#endif
}

/* Returns the range after a token plus WHOLE_BASE, before it is shifted. */
DEVICE float divide_range(float range, uint32_t step)
{
    float scale = float_of_bits(step & 0xFFFF0000), offset = float_of_bits(step << 16);
    return whole_of(multiply_add(range, scale, offset));
}

DEVICE float shift_range(float range, uint32_t exponent)
{
    return float_of_bits((bits_of_float(range) & 0x7FFFFF) | exponent);
}

DEVICE float next_range(float range, uint32_t step, uint32_t exponent)
{
    return shift_range(divide_range(range, step) - WHOLE_BASE, exponent);
}

/* ---- reading tokens ---- */

/* Reads the tokens of a chunk, 8 at a time. */
struct token_reader {
    const uint16_t *tokens;
    uint32_t at, first, end; /* at: of the next 8 */
    words4 ahead[2];
};

SIMT struct token_reader token_reader_of(const uint16_t *tokens, uint32_t first, uint32_t end)
{
    struct token_reader reader;
    reader.tokens = tokens;
    reader.at = first / UNIT_TOKENS * UNIT_TOKENS;
    reader.first = first;
    reader.end = end;
    reader.ahead[0] = reader.ahead[1] = load_words4(tokens + reader.at);
    if (reader.at + UNIT_TOKENS < end)
        reader.ahead[1] = load_words4(tokens + reader.at + UNIT_TOKENS);
    return reader;
}

/* Replaces tokens outside of the chunk by TOKEN_NONE. pair: two tokens; at: number of the first */
DEVICE uint32_t mask_pair(uint32_t pair, uint32_t at, uint32_t first, uint32_t end)
{
    if (at < first || at >= end)
        pair = (pair & 0xFFFF0000) | TOKEN_NONE;
    if (at + 1 < first || at + 1 >= end)
        pair = (pair & 0xFFFF) | TOKEN_NONE << 16;
    return pair;
}

/* Returns the next 8 tokens. */
SIMT words4 next_tokens(struct token_reader *reader)
{
    words4 unit = reader->ahead[0];
    uint32_t at = reader->at;
    reader->at += UNIT_TOKENS;
    reader->ahead[0] = reader->ahead[1];
    if (reader->at + UNIT_TOKENS < reader->end)
        reader->ahead[1] = load_words4(reader->tokens + reader->at + UNIT_TOKENS);
    if (at < reader->first || reader->at > reader->end) {
        unit.x = mask_pair(unit.x, at, reader->first, reader->end);
        unit.y = mask_pair(unit.y, at + 2, reader->first, reader->end);
        unit.z = mask_pair(unit.z, at + 4, reader->first, reader->end);
        unit.w = mask_pair(unit.w, at + 6, reader->first, reader->end);
    }
    return unit;
}

DEVICE uint32_t token_in(const words4 *unit, int index)
{
    uint32_t pair = index < 2 ? unit->x : index < 4 ? unit->y : index < 6 ? unit->z : unit->w;
    return index % 2 ? pair >> 16 : pair & 0xFFFF;
}

/* ---- chunks ---- */

/* States that a lane follows at a time. The number of different ones soon falls, because the range
 * is rounded. */
#define STATES_MAX 32

/* A lane's chunk. */
struct chunk_lane {
    uint32_t first, end;    /* tokens */
    uint32_t least, states; /* it may start with the ranges from `least` on, `states` of them; they
                               are not shifted yet */
};

/* The range after a token, if it was `range` before; it is not shifted. */
DEVICE uint32_t divided(uint32_t range, uint32_t token)
{
    uint32_t zero = 1 + ((range - 1) * (token & 255) >> 8);
    return token & TOKEN_BIT ? range - zero : zero;
}

/* Windows that are read at a time. */
#define WINDOWS 8

/* Chunks of less than WEBP_CHUNK_TOKENS_MAX tokens begin in this part of the window, if one of its
 * tokens leaves at most STATES_MAX states. So their lengths differ less. */
#define NEAR_WINDOW 128

/* Returns the number of the token of the chunk's window that leaves the fewest states. unit: 8
 * tokens of the window, of each lane */
SIMT uint32_t best_start(words4 unit, uint32_t chunk_tokens)
{
    uint32_t at = (uint32_t)lane_index() * UNIT_TOKENS, best = UINT32_MAX;
    UNROLL
    for (int i = 0; i < UNIT_TOKENS; i++) {
        uint32_t token = token_in(&unit, i), p = token & 255;
        uint32_t key = (token & TOKEN_BIT ? 256 - p : p) << 8 | (at + (uint32_t)i);
        best = key < best ? key : best;
    }
    uint32_t near = warp_min(at < NEAR_WINDOW ? best : UINT32_MAX), all = warp_min(best);
    /* The ranges differ by less than 128, and after the token by less than 128 * p / 256. */
    bool is_near = chunk_tokens < WEBP_CHUNK_TOKENS_MAX && near >> 8 < 2 * STATES_MAX - 1;
    return (is_near ? near : all) & 255;
}

/* Finds the chunks of a task of `size` chunks. A lane without a chunk has no tokens. */
SIMT struct chunk_lane find_chunks(const struct webp_partition *partition, uint32_t first,
                                   uint32_t size, uint32_t chunk_tokens)
{
    struct chunk_lane of = {0, 0, RANGE_START, 1};
    uint32_t count = partition->chunk_count, last = first + size;
    last = last < count ? last : count - 1;
    uint32_t lane = (uint32_t)lane_index();
    const uint16_t *own = partition->tokens + lane * UNIT_TOKENS;
    for (uint32_t base = first > 0 ? first : 1; base <= last; base += WINDOWS) {
        words4 units[WINDOWS];
        UNROLL
        for (uint32_t i = 0; i < WINDOWS; i++) {
            uint32_t chunk = base + i < last ? base + i : last;
            units[i] = load_words4(own + chunk * chunk_tokens);
        }
        UNROLL
        for (uint32_t i = 0; i < WINDOWS; i++) {
            uint32_t chunk = base + i < last ? base + i : last;
            uint32_t start = chunk * chunk_tokens + best_start(units[i], chunk_tokens) + 1;
            of.first = chunk - first == lane ? start : of.first;
            of.end = chunk - first == lane + 1 ? start : of.end;
        }
    }
    if (first + lane >= count || lane >= size)
        of.first = of.end = 0;
    else if (first + lane == count - 1)
        of.end = partition->token_count;
    if (of.first > 0) {
        uint32_t token = partition->tokens[of.first - 1];
        of.least = divided(RANGE_LEAST, token);
        of.states = divided(RANGE_START, token) - of.least + 1;
    }
    return of;
}

/* ---- maps ---- */

/* States are compared after so many units of tokens, if there are 32, 16 and 8 of them. */
#define UNITS_OF_32 4
#define UNITS_OF_16 8
#define UNITS_OF_8  16

/* A column per lane of a warp. Ranges are numbered from 0 on. */
struct map_columns {
    uint8_t states[STATES_MAX][WARP_LANES];    /* of each range at the start: its state */
    uint8_t renamed[STATES_MAX][WARP_LANES];   /* of each state: its number among different ones */
    uint8_t ranges[STATES_MAX][WARP_LANES];    /* of each state */
    uint8_t of_range[WEBP_RANGES][WARP_LANES]; /* the state with this range */
};

/* What a warp needs to map the chunks of its lanes. */
struct map_lane {
    struct map_columns *columns;
    const struct range_steps *steps;
    struct token_reader reader;
};

DEVICE float range_of_index(uint32_t index)
{
    return float_of_bits(index << 16 | (uint32_t)RANGE_EXPONENT << 23);
}
DEVICE uint32_t index_of_range(float range)
{
    return bits_of_float(range) >> 16 & 127;
}
/* Of a range that is not shifted yet. */
DEVICE uint32_t index_of_state(uint32_t range)
{
    return (range << (leading_zeros(range) - 24)) - RANGE_LEAST;
}

/* Whether a lane has tokens left. */
SIMT bool any_tokens(const struct map_lane *lane)
{
    return warp_any(lane->reader.at < lane->reader.end);
}

/* Advances states by some units of tokens. count: a constant */
SIMT void advance_states(struct map_lane *lane, float *states, int count, int units)
{
    const uint32_t *steps = lane->steps->of, exponent = lane->steps->exponent;
    NO_UNROLL
    for (int i = 0; i < units; i++) {
        words4 unit = next_tokens(&lane->reader);
        UNROLL
        for (int j = 0; j < UNIT_TOKENS; j++) {
            uint32_t step = steps[token_in(&unit, j)];
            UNROLL
            for (int k = 0; k < count; k++)
                states[k] = next_range(states[k], step, exponent);
        }
    }
}

/* Numbers the different states, and sets columns->renamed and columns->ranges. Returns how many
 * there are. count: a constant */
SIMT uint32_t number_states(struct map_columns *columns, const float *states, int count)
{
    int lane = lane_index();
    uint32_t found = 0;
    UNROLL
    for (int i = 0; i < count; i++)
        columns->of_range[index_of_range(states[i])][lane] = (uint8_t)i;
    UNROLL
    for (int i = count - 1; i >= 0; i--) {
        uint32_t index = index_of_range(states[i]), number = columns->of_range[index][lane];
        if (number == (uint32_t)i) {
            number = found++ | 128;
            columns->of_range[index][lane] = (uint8_t)number;
            columns->ranges[number & 127][lane] = (uint8_t)index;
        }
        columns->renamed[i][lane] = number & 127;
    }
    return found;
}

/* Advances `count` states until no lane has more than count / 2 different ones, which become its
 * states. Returns false if the chunks of all lanes end before. units: of tokens, after which states
 * are compared; count: a constant */
SIMT bool merge_states(struct map_lane *lane, float *states, int count, int units)
{
    struct map_columns *columns = lane->columns;
    int column = lane_index();
    uint32_t found;
    do {
        advance_states(lane, states, count, units);
        if (!any_tokens(lane))
            return false;
        found = number_states(columns, states, count);
    } while (warp_any(found > (uint32_t)count / 2));
    for (int i = 0; i < STATES_MAX; i++)
        columns->states[i][column] = columns->renamed[columns->states[i][column]][column];
    UNROLL
    for (int i = 0; i < count / 2; i++)
        states[i] = range_of_index(columns->ranges[(uint32_t)i < found ? i : 0][column]);
    return true;
}

/* Finds the ranges at the ends of the chunks of all lanes, for up to STATES_MAX ranges at their
 * starts, whose indices are in columns->ranges. Replaces these. */
SIMT void map_states(struct map_lane *lane)
{
    struct map_columns *columns = lane->columns;
    int column = lane_index(), count = STATES_MAX;
    float states[STATES_MAX];
    UNROLL
    for (int i = 0; i < STATES_MAX; i++) {
        states[i] = range_of_index(columns->ranges[i][column]);
        columns->states[i][column] = (uint8_t)i;
    }
    if (merge_states(lane, states, 32, UNITS_OF_32)) {
        count = 16;
        if (merge_states(lane, states, 16, UNITS_OF_16)) {
            count = 8;
            if (merge_states(lane, states, 8, UNITS_OF_8)) {
                count = 4;
                while (any_tokens(lane))
                    advance_states(lane, states, 4, UNITS_OF_8);
            }
        }
    }
    UNROLL
    for (int i = 0; i < STATES_MAX; i++)
        if (i < count)
            columns->renamed[i][column] = (uint8_t)index_of_range(states[i]);
    for (int i = 0; i < STATES_MAX; i++)
        columns->ranges[i][column] = columns->renamed[columns->states[i][column]][column];
}

/* Finds the range at the end of a chunk for all ranges at its start: a warp, 4 ranges per lane.
 * Most chunks of the header of the frame need that. map: of the chunk */
SIMT void map_all_states(const uint16_t *tokens, uint32_t first, uint32_t end,
                         const struct range_steps *steps, uint32_t *map)
{
    struct map_lane lane = {NULL, steps, token_reader_of(tokens, first, end)};
    uint32_t word = 0;
    float states[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        states[i] = range_of_index((uint32_t)(lane_index() * 4 + i));
    while (lane.reader.at < end)
        advance_states(&lane, states, 4, 1);
    UNROLL
    for (int i = 0; i < 4; i++)
        word |= index_of_range(states[i]) << 8 * i;
    map[lane_index()] = word;
}

/* Finds the ranges at the end of the lane's chunk for those at its start: STATES_MAX at most.
 * count: of these; 0: the lane has no chunk. map: of the chunk */
SIMT void map_few_states(const struct chunk_lane *chunk, uint32_t count, const uint16_t *tokens,
                         const struct range_steps *steps, struct map_columns *columns, uint8_t *map)
{
    int column = lane_index();
    uint32_t first = count > 0 ? chunk->first : 0, end = count > 0 ? chunk->end : 0;
    struct map_lane lane = {columns, steps, token_reader_of(tokens, first, end)};
    for (uint32_t i = 0; i < STATES_MAX; i++) {
        uint32_t state = i < count ? i : 0;
        columns->ranges[i][column] = (uint8_t)index_of_state(chunk->least + state);
    }
    map_states(&lane);
    for (uint32_t i = 0; i < count; i++)
        map[index_of_state(chunk->least + i)] = columns->ranges[i][column];
}

/* Finds the ranges at the ends of the chunks of a task for those at their starts: a warp. size: of
 * the task; maps: of the chunks */
SIMT void map_chunks(const struct chunk_lane *chunk, uint32_t size, const uint16_t *tokens,
                     const struct range_steps *steps, struct map_columns *columns, uint8_t *maps)
{
    int lane = lane_index();
    bool has_many = chunk->states > STATES_MAX || (size == 1 && lane == 0);
    uint32_t many = warp_ballot(has_many);
    uint32_t count = has_many || chunk->end == 0 ? 0 : chunk->states;
    if (warp_any(count > 0))
        map_few_states(chunk, count, tokens, steps, columns, maps + lane * WEBP_RANGES);
    for (; many; many &= many - 1) {
        int own = lowest_bit(many);
        map_all_states(tokens, warp_read(chunk->first, own), warp_read(chunk->end, own), steps,
                       (uint32_t *)(maps + own * WEBP_RANGES));
    }
}

/* Ranges of chunks that a warp reads at a time. */
#define CHAIN_AHEAD 4

/* What a block of threads shares while it follows the ranges of a partition. */
struct chain_shared {
    uint32_t maps[WARP_LANES][WARP_LANES]; /* of the chunks of each warp together */
    uint32_t starts[WARP_LANES];           /* range at the start of each warp's chunks */
};

/* Loads the ranges of some chunks, 4 per lane; of chunks beyond `end`, those that change nothing.
 */
SIMT void load_maps(const struct webp_partition *partition, uint32_t first, uint32_t end,
                    uint32_t words[CHAIN_AHEAD])
{
    const uint32_t *maps = (const uint32_t *)partition->ranges;
    uint32_t lane = (uint32_t)lane_index();
    UNROLL
    for (uint32_t i = 0; i < CHAIN_AHEAD; i++)
        words[i] = first + i < end ? maps[(size_t)(first + i) * WARP_LANES + lane]
                                   : 0x03020100 + lane * 0x04040404;
}

/* Looks a range up. word: of each lane, 4 ranges at the ends of a chunk */
SIMT uint32_t range_after(uint32_t word, uint32_t range)
{
    return warp_read(word, (int)(range / 4 % WARP_LANES)) >> 8 * (range % 4) & 127;
}

/* Finds the ranges after chunks [first, end) for each one before. Returns 4 per lane. */
SIMT uint32_t join_maps(const struct webp_partition *partition, uint32_t first, uint32_t end)
{
    uint32_t all = 0x03020100 + (uint32_t)lane_index() * 0x04040404, words[CHAIN_AHEAD];
    for (; first < end; first += CHAIN_AHEAD) {
        load_maps(partition, first, end, words);
        UNROLL
        for (int i = 0; i < CHAIN_AHEAD; i++) {
            uint32_t next = range_after(words[i], all & 127);
            next |= range_after(words[i], all >> 8 & 127) << 8;
            next |= range_after(words[i], all >> 16 & 127) << 16;
            all = next | range_after(words[i], all >> 24) << 24;
        }
    }
    return all;
}

/* Sets the range at the start of chunks [first, end). range: at the first */
SIMT void follow_range(struct webp_partition *partition, uint32_t first, uint32_t end,
                       uint32_t range)
{
    uint32_t words[CHAIN_AHEAD], lane = (uint32_t)lane_index();
    for (; first < end; first += CHAIN_AHEAD) {
        uint32_t own = 0;
        load_maps(partition, first, end, words);
        UNROLL
        for (uint32_t i = 0; i < CHAIN_AHEAD; i++) {
            own = i == lane ? range : own;
            range = range_after(words[i], range);
        }
        if (lane < CHAIN_AHEAD && first + lane < end)
            partition->chunks[first + lane].start_range = RANGE_LEAST + own;
    }
}

/* Follows the range from chunk to chunk: a block of threads. Each warp has some of them: first for
 * any range at their start, then for the one that the warps before lead to. */
SIMT void chain_chunks(struct webp_partition *partition, struct chain_shared *shared)
{
    uint32_t count = partition->chunk_count, warps = (uint32_t)(block_threads() / WARP_LANES);
    uint32_t warp = (uint32_t)(thread_index() / WARP_LANES), each = (count + warps - 1) / warps;
    uint32_t first = warp * each < count ? warp * each : count;
    uint32_t end = first + each < count ? first + each : count;
    shared->maps[warp][lane_index()] = join_maps(partition, first, end);
    block_barrier();
    if (thread_index() == 0) {
        uint32_t range = RANGE_START - RANGE_LEAST;
        for (uint32_t i = 0; i < warps; i++) {
            shared->starts[i] = range;
            range = shared->maps[i][range / 4] >> 8 * (range % 4) & 127;
        }
    }
    block_barrier();
    follow_range(partition, first, end, shared->starts[warp]);
}

/* ---- code ---- */

/* Adds 1 to a number of which words[index] is the lowest word. */
DEVICE void carry_into(uint32_t *words, int index)
{
    while (index >= 0 && ++words[index] == 0)
        index--;
}

/* The code of a chunk. */
struct chunk_code {
    uint32_t *words;
    uint64_t number; /* what is not in words[] yet: its low `bits` bits, and a carry */
    int bits, count; /* count: of words */
};

DEVICE void put_code_word(struct chunk_code *code)
{
    code->bits -= 32;
    uint64_t word = code->number >> code->bits;
    code->number &= ((uint64_t)1 << code->bits) - 1;
    if (word >> 32)
        carry_into(code->words, code->count - 1);
    code->words[code->count++] = (uint32_t)word;
}

/* Some tokens' number, and its shift. */
struct code_part {
    uint32_t number;
    int shift;
};

/* Adds a token. Returns the next range. */
DEVICE float code_token(struct code_part *part, float range, uint32_t token,
                        const struct range_steps *steps)
{
    float whole = divide_range(range, steps->of[token]), divided = whole - WHOLE_BASE;
    int shift = RANGE_EXPONENT - (int)(bits_of_float(divided) >> 23);
    /* range - divided: the range has its integer part in bits 16 to 22, and `whole` in the lowest
     * bits. */
    uint32_t subtracted = (bits_of_float(range) >> 16) - bits_of_float(whole) +
                          (0x4B000000u + RANGE_LEAST - (RANGE_EXPONENT << 7));
    part->number = (part->number + (token & TOKEN_BIT ? subtracted : 0)) << shift;
    part->shift += shift;
    return shift_range(divided, steps->exponent);
}

/* Codes the lane's chunk. */
SIMT void code_chunk(struct webp_partition *partition, uint32_t index, uint32_t end,
                     const struct range_steps *steps)
{
    struct webp_chunk *chunk = partition->chunks + index;
    struct token_reader reader = token_reader_of(partition->tokens, chunk->first, end);
    struct chunk_code code = {partition->code + WEBP_CHUNK_WORD(chunk->first, index), 0, 8, 0};
    float range = (float)chunk->start_range;
    while (reader.at < end) {
        words4 unit = next_tokens(&reader);
        struct code_part part = {0, 0};
        UNROLL
        for (int i = 0; i < UNIT_TOKENS; i++) {
            range = code_token(&part, range, token_in(&unit, i), steps);
            /* 3 tokens have 8 + 3 * 7 bits at most. */
            if (i % 3 < 2 && i < UNIT_TOKENS - 1)
                continue;
            code.number = (code.number << part.shift) + part.number;
            code.bits += part.shift;
            part.number = 0;
            part.shift = 0;
            if (code.bits >= 40)
                put_code_word(&code);
        }
    }
    chunk->end_range = RANGE_LEAST + index_of_range(range);
    chunk->bits = (uint32_t)(code.count * 32 + code.bits - 8);
    if (code.number >> code.bits)
        carry_into(code.words, code.count - 1);
    code.number <<= 64 - code.bits;
    code.words[code.count] = (uint32_t)(code.number >> 32);
    code.words[code.count + 1] = (uint32_t)code.number;
}

/* ---- links ---- */

DEVICE uint32_t *code_of(const struct webp_partition *partition, uint32_t chunk)
{
    return partition->code + WEBP_CHUNK_WORD(partition->chunks[chunk].first, chunk);
}

/* Adds the bits of all chunks up: a block of threads. Sets the position of each chunk. */
SIMT uint32_t place_chunks(struct webp_partition *partition, uint32_t *sums)
{
    uint32_t count = partition->chunk_count, before = 0, total;
    for (uint32_t first = 0; first < count; first += (uint32_t)block_threads()) {
        uint32_t i = first + (uint32_t)thread_index();
        uint32_t at = before + block_scan(i < count ? partition->chunks[i].bits : 0, &total, sums);
        if (i < count)
            partition->chunks[i].at = at;
        before += total; /* less than 2^24 */
        if (before > INT32_MAX)
            before = INT32_MAX; /* more than a file has room for */
    }
    return before;
}

/* Adds the upper 8 bits of a chunk's code to the code of the chunk before. */
SIMT void add_top(const struct webp_partition *partition, uint32_t index)
{
    uint32_t *words = code_of(partition, index - 1);
    uint32_t end = partition->chunks[index - 1].bits + 7; /* position of the lowest bit */
    int word = (int)(end / 32);
    uint64_t sum = ((uint64_t)partition->chunks[index].top << (31 - end % 32)) + words[word];
    words[word] = (uint32_t)sum;
    if (sum >> 32 == 0)
        return;
    sum = (uint64_t)words[word - 1] + (sum >> 32);
    words[word - 1] = (uint32_t)sum;
    if (sum >> 32)
        carry_into(words, word - 2);
}

/* Adds the codes of all chunks: a block of threads. A carry may reach the upper 8 bits of the chunk
 * before. So this repeats until the upper 8 bits of all chunks are 0. */
SIMT void add_chunks(struct webp_partition *partition)
{
    uint32_t count = partition->chunk_count;
    for (bool any = true; any;) {
        any = false;
        for (uint32_t i = (uint32_t)thread_index() + 1; i < count; i += (uint32_t)block_threads()) {
            uint32_t *words = code_of(partition, i);
            partition->chunks[i].top = words[0] >> 24;
            any |= words[0] >> 24 != 0;
            words[0] &= 0xFFFFFF;
        }
        any = block_any(any);
        for (uint32_t i = (uint32_t)thread_index() + 1; any && i < count;
             i += (uint32_t)block_threads())
            if (partition->chunks[i].top > 0)
                add_top(partition, i);
        block_barrier();
    }
}

/* Sets the size of a partition: a thread. Like libwebp, ends it with tokens that are 0 and have the
 * probability 128, until all bits of the chunks are written. bits: of the chunks */
SIMT void end_partition(struct webp_partition *partition, uint32_t bits)
{
    uint32_t count = partition->chunk_count;
    uint32_t range = count > 0 ? partition->chunks[count - 1].end_range : RANGE_START;
    int written = bits > 0 ? (int)((bits - 1) / 8) : 0;
    int zeros = 9 - ((int)bits - 8 - 8 * written);
    for (; zeros > 0; zeros--) {
        range = divided(range, 128);
        int shift = leading_zeros(range) - 24;
        range <<= shift;
        bits += (uint32_t)shift;
    }
    partition->bit_count = bits;
    partition->byte_count = (bits - 1) / 8 + 1;
}
