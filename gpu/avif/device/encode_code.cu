/*
 * encode_code.cu - the kernels of the AV1 encoder that code ready tokens: stage D, second part.
 *
 * 1. follow_ranges: a warp has a segment of the tokens, and follows the range of the coder through
 *    it from all ranges that may precede it.
 * 2. code_tokens: a block of threads per image finds the range before each segment. Then a thread
 *    codes a segment, and the block joins them.
 * 3. write_file: a block of threads per image writes the file.
 */
#include "gpu/avif/device/ready.h"
#include "gpu/avif/device/warp.h"

#define RANGE_THREADS 128
#define RANGE_WARPS   (RANGE_THREADS / WARP_LANES)
#define CODE_THREADS  256
#define FILE_THREADS  256

/* ---- ranges ---- */

/* The bits that precede the digits of a coder, as in avif_range_coder. */
#define CARRY_ROOM 15

/* What a token does to the number that is coded: it is multiplied by 1 << shift, and then `added`
 * is added. */
struct step {
    uint64_t added;
    uint32_t shift;
};

/* As avif_put_interval. */
SIMT void narrow(uint32_t *range, uint32_t above, uint32_t below, struct step *step)
{
    uint32_t rest = above - below, shift = (uint32_t)leading_zeros(rest) - 16;
    step->added = (step->added + (*range - above)) << shift;
    step->shift += shift;
    *range = rest << shift;
}

SIMT struct step follow_symbol(uint32_t *range, uint32_t ready)
{
    struct step step = {0, 0};
    uint32_t part = *range >> 8, left = ready >> READY_LEFT & 31;
    uint32_t above = (part * (ready & 1023) >> 1) + 4 * left;
    uint32_t below = (part * (ready >> 10 & 1023) >> 1) + 4 * (left - 1);
    narrow(range, ready & READY_FIRST ? *range : above, below, &step);
    return step;
}

SIMT struct step follow_literal(uint32_t *range, uint32_t ready)
{
    struct step step = {0, 0};
    NO_UNROLL
    for (int bits = (int)(ready >> 16 & 31); bits-- > 0;) {
        uint32_t half = ((*range >> 8) * 256 >> 1) + 4;
        bool bit = ready >> bits & 1;
        narrow(range, bit ? half : *range, bit ? 0 : half, &step);
    }
    return step;
}

SIMT struct step follow(uint32_t *range, uint32_t ready)
{
    return ready & READY_LITERAL ? follow_literal(range, ready) : follow_symbol(range, ready);
}

/* A token that changes nothing. */
#define READY_NOTHING (READY_FIRST | 1u << READY_LEFT)

/* Ranges that a warp follows: number i is in lane i % WARP_LANES. */
enum { RANGES_EACH = SEGMENT_RANGES / WARP_LANES };

/* Shared memory of a warp. */
struct range_work {
    uint32_t bits[SEGMENT_RANGES];
    uint16_t ranges[SEGMENT_RANGES], numbers[SEGMENT_RANGES];
};

/* Ranges of a lane, and the bits of code since they began. */
struct ranges {
    uint32_t of[RANGES_EACH], bits[RANGES_EACH];
};

/* Follows `each` ranges of each lane through tokens. each: a constant */
SIMT void follow_many(struct ranges *ranges, int each, const uint32_t *tokens, uint32_t begin,
                      uint32_t end)
{
    uint32_t lane = (uint32_t)lane_index();
    uint32_t next = begin + lane < end ? tokens[begin + lane] : READY_NOTHING;
    NO_UNROLL
    for (uint32_t at = begin; at < end; at += WARP_LANES) {
        uint32_t ready = next, left = end - at;
        next = left > WARP_LANES + lane ? tokens[at + WARP_LANES + lane] : READY_NOTHING;
        bool has_literals = warp_any(ready & READY_LITERAL);
        int count = left < WARP_LANES ? (int)left : WARP_LANES;
        if (has_literals || count < WARP_LANES || each > 1) {
            NO_UNROLL
            for (int i = 0; i < count; i++) {
                uint32_t token = warp_read(ready, i);
                UNROLL
                for (int k = 0; k < each; k++)
                    ranges->bits[k] += follow(&ranges->of[k], token).shift;
            }
        } else {
            /* Without branches, so that only what depends on the range waits for the token
             * before. */
            UNROLL
            for (int i = 0; i < WARP_LANES; i++)
                ranges->bits[0] += follow_symbol(&ranges->of[0], warp_read(ready, i)).shift;
        }
    }
}

/* Where each range before a segment has led: the number of a range that is followed, and bits of
 * code before those of that range. */
struct origins {
    uint32_t numbers[RANGES_EACH], bits[RANGES_EACH];
};

/* Keeps one of equal ranges, and numbers the `count` ranges again. Returns how many are left. */
SIMT int merge_ranges(struct range_work *work, struct ranges *ranges, struct origins *origins,
                      int count)
{
    int lane = lane_index(), first[RANGES_EACH], kept = 0;
    bool leads[RANGES_EACH];
    warp_barrier();
    UNROLL
    for (int k = 0; k < RANGES_EACH; k++) {
        int own = k * WARP_LANES + lane;
        first[k] = own;
        if (own < count) {
            work->ranges[own] = (uint16_t)ranges->of[k];
            work->bits[own] = ranges->bits[k];
        }
    }
    warp_barrier();
    NO_UNROLL
    for (int i = count - 1; i >= 0; i--) {
        uint32_t range = work->ranges[i];
        UNROLL
        for (int k = 0; k < RANGES_EACH; k++)
            first[k] = range == ranges->of[k] ? i : first[k];
    }
    UNROLL
    for (int k = 0; k < RANGES_EACH; k++) {
        int own = k * WARP_LANES + lane;
        leads[k] = own < count && first[k] == own;
        uint32_t all = warp_ballot(leads[k]);
        if (leads[k])
            work->numbers[own] = (uint16_t)(kept + count_bits(all & ((1u << lane) - 1)));
        kept += count_bits(all);
    }
    warp_barrier();
    UNROLL
    for (int k = 0; k < RANGES_EACH; k++)
        if (k * WARP_LANES + lane < count)
            first[k] = work->numbers[first[k]];
    warp_barrier();
    UNROLL
    for (int k = 0; k < RANGES_EACH; k++)
        if (k * WARP_LANES + lane < count) {
            work->numbers[k * WARP_LANES + lane] = (uint16_t)first[k];
            if (leads[k])
                work->ranges[first[k]] = (uint16_t)ranges->of[k];
        }
    warp_barrier();
    UNROLL
    for (int k = 0; k < RANGES_EACH; k++) {
        int own = k * WARP_LANES + lane;
        origins->bits[k] += work->bits[origins->numbers[k]];
        origins->numbers[k] = work->numbers[origins->numbers[k]];
        ranges->of[k] = own < kept ? work->ranges[own] : 32768;
        ranges->bits[k] = 0;
    }
    return kept;
}

/* Whether what follows a token depends only on the bits from 8 on of the range before it. */
SIMT bool forgets_range(uint32_t ready)
{
    return !(ready & (READY_FIRST | READY_LITERAL));
}

/* Returns where a segment begins: at the first token from `at` on that forgets, or at `count`. */
SIMT uint32_t segment_begin(const uint32_t *tokens, uint32_t at, uint32_t count)
{
    uint32_t lane = (uint32_t)lane_index();
    if (at == 0)
        return 0;
    NO_UNROLL
    for (; at < count; at += WARP_LANES) {
        uint32_t forgets = warp_ballot(at + lane < count && forgets_range(tokens[at + lane]));
        if (forgets != 0)
            return at + (uint32_t)lowest_bit(forgets);
    }
    return count;
}

/* How many tokens of a segment are followed before ranges are merged for the first time, the second
 * and the third. Usually less than 64 are left after the first, and less than 32 after the second.
 */
enum { MERGE_FIRST = 48, MERGE_SECOND = 144, MERGE_THIRD = 320, MERGES = 4 };

SIMT void follow_part(struct ranges *ranges, int count, const uint32_t *tokens, uint32_t begin,
                      uint32_t end)
{
    if (count > 2 * WARP_LANES)
        follow_many(ranges, RANGES_EACH, tokens, begin, end);
    else if (count > WARP_LANES)
        follow_many(ranges, 2, tokens, begin, end);
    else
        follow_many(ranges, 1, tokens, begin, end);
}

SIMT void follow_segment(struct range_work *work, struct avif_descriptor *image, uint32_t number)
{
    const uint32_t *tokens = image->tokens;
    uint32_t begin = segment_begin(tokens, number * SEGMENT_TOKENS, image->token_count);
    uint32_t end = segment_begin(tokens, (number + 1) * SEGMENT_TOKENS, image->token_count);
    uint32_t stops[MERGES] = {begin + MERGE_FIRST, begin + MERGE_SECOND, begin + MERGE_THIRD, end};
    struct ranges ranges;
    struct origins origins;
    int lane = lane_index(), count = SEGMENT_RANGES;
    UNROLL
    for (int k = 0; k < RANGES_EACH; k++) {
        uint32_t own = (uint32_t)(k * WARP_LANES + lane);
        ranges.of[k] = (SEGMENT_RANGES + own) << 8;
        ranges.bits[k] = 0;
        origins.numbers[k] = own;
        origins.bits[k] = 0;
    }
    if (lane == 0)
        image->segments[number].begin = begin;
    NO_UNROLL
    for (int i = 0; i < MERGES; i++) {
        uint32_t stop = stops[i] < end ? stops[i] : end;
        follow_part(&ranges, count, tokens, begin, stop);
        count = merge_ranges(work, &ranges, &origins, count);
        begin = stop;
    }
    UNROLL
    for (int k = 0; k < RANGES_EACH; k++) {
        struct avif_passage *passage =
            &image->passages[number * SEGMENT_RANGES + (uint32_t)(k * WARP_LANES + lane)];
        passage->range = work->ranges[origins.numbers[k]];
        passage->bits = origins.bits[k];
    }
}

KERNEL(follow_ranges, RANGE_THREADS, 6, struct avif_args)
{
    SHARED struct range_work works[RANGE_WARPS];
    struct avif_descriptor *image = args.images + block_row();
    uint32_t count = image->token_count;
    uint32_t warp = (uint32_t)(thread_index() / WARP_LANES);
    if (count > image->token_room)
        return;
    uint32_t segments = (count + SEGMENT_TOKENS - 1) / SEGMENT_TOKENS;
    for (uint32_t i = (uint32_t)block_index() * RANGE_WARPS + warp; i < segments;
         i += args.blocks * RANGE_WARPS)
        follow_segment(&works[warp], image, i);
}

/* ---- code ---- */

/* The digits of the number that is coded: 16 bits each, the higher byte first. */
SIMT uint32_t digit_at(const uint8_t *code, uint32_t i)
{
    return (uint32_t)code[2 * i] << 8 | code[2 * i + 1];
}

SIMT void set_digit(uint8_t *code, uint32_t i, uint32_t digit)
{
    code[2 * i] = (uint8_t)(digit >> 8);
    code[2 * i + 1] = (uint8_t)digit;
}

/* Adds to a digit, and carries down to digit `first`. Returns what is carried further. */
SIMT uint32_t add_to_digit(uint8_t *code, uint32_t first, uint32_t i, uint32_t value)
{
    for (; value > 0 && i >= first && i != UINT32_MAX; i--) {
        value += digit_at(code, i);
        set_digit(code, i, value & 0xFFFF);
        value >>= 16;
    }
    return value;
}

/* Passages that are in shared memory at once. */
#define PASSAGES_MAX 16

/* Sets the range and the bits before each segment. */
SIMT void pass_segments(struct avif_descriptor *image, uint32_t segments,
                        struct avif_passage *passages)
{
    uint32_t range = 32768, bits = 0;
    for (uint32_t first = 0; first < segments; first += PASSAGES_MAX) {
        uint32_t end = first + PASSAGES_MAX < segments ? first + PASSAGES_MAX : segments;
        const struct avif_passage *from = image->passages + first * SEGMENT_RANGES;
        block_barrier();
        for (uint32_t i = (uint32_t)thread_index(); i < (end - first) * SEGMENT_RANGES;
             i += CODE_THREADS)
            passages[i] = from[i];
        block_barrier();
        if (thread_index() > 0)
            continue;
        for (uint32_t i = first; i < end; i++) {
            struct avif_segment *segment = &image->segments[i];
            uint32_t next = i + 1 < segments ? segment[1].begin : image->token_count;
            segment->range = range;
            segment->bits = bits;
            if (segment->begin == next)
                continue;
            const struct avif_passage *passage =
                &passages[(i - first) * SEGMENT_RANGES + (range >> 8) - SEGMENT_RANGES];
            range = passage->range;
            bits += passage->bits;
        }
    }
    if (thread_index() == 0) {
        image->segments[segments].begin = image->token_count;
        image->segments[segments].bits = bits;
        image->segments[segments].carry = 0;
        image->code_bytes = (bits + 1 + 7) / 8;
    }
    block_barrier();
}

/* Tokens that a thread loads at once. */
#define AHEAD 8

/* Carries into the digits of a segment before `at`, and from there into the segment. */
SIMT void carry_to(struct avif_descriptor *image, struct avif_segment *segment, uint32_t at,
                   uint32_t carry)
{
    uint32_t first = segment->bits / 16;
    segment->carry += at > first ? add_to_digit(image->code, first, at - 1, carry) : carry;
}

/* Codes a segment of the tokens. Writes its digits except the last ones, which it shares with other
 * segments: join_segments adds these. */
SIMT void code_segment(struct avif_descriptor *image, uint32_t number)
{
    struct avif_segment *segment = &image->segments[number];
    uint32_t end = segment[1].begin, range = segment->range;
    uint32_t at = segment->bits / 16, bits = segment->bits % 16;
    uint64_t low = 0; /* CARRY_ROOM + bits bits, and a carry of 2 at most */
    segment->carry = 0;
    NO_UNROLL
    for (uint32_t i = segment->begin; i < end; i += AHEAD) {
        uint32_t ready[AHEAD];
        UNROLL
        for (uint32_t k = 0; k < AHEAD; k++)
            ready[k] = i + k < end ? image->tokens[i + k] : READY_NOTHING;
        UNROLL
        for (uint32_t k = 0; k < AHEAD; k++) {
            struct step step = follow(&range, ready[k]);
            low = (low << step.shift) + step.added;
            for (bits += step.shift; bits >= 16; bits -= 16, at++) {
                uint32_t left = CARRY_ROOM + bits - 16, digit = (uint32_t)(low >> left);
                low &= ((uint64_t)1 << left) - 1;
                set_digit(image->code, at, digit & 0xFFFF);
                if (digit >> 16)
                    carry_to(image, segment, at, digit >> 16);
            }
        }
    }
    low <<= 32 - CARRY_ROOM - bits;
    if (low >> 32)
        carry_to(image, segment, at, (uint32_t)(low >> 32));
    segment->tail = (uint32_t)low;
}

/* Adds the tail of a segment, and the carry of the next one, to digits from `first` on. Returns
 * what is carried to the digit before. */
SIMT uint32_t join_segment(struct avif_descriptor *image, uint32_t number, uint32_t first)
{
    const struct avif_segment *segment = &image->segments[number];
    uint32_t end = segment[1].bits / 16;
    return add_to_digit(image->code, first, end + 1, segment->tail & 0xFFFF) +
           add_to_digit(image->code, first, end, segment->tail >> 16) +
           add_to_digit(image->code, first, end - 1, segment[1].carry);
}

/* Adds what segments have in common. */
SIMT void join_segments(struct avif_descriptor *image, uint32_t segments)
{
    bool is_short = false, carries = false;
    /* A segment has the digits from its second one on to the first one of the next segment, so that
     * threads can add to them at once. */
    for (uint32_t i = (uint32_t)thread_index(); i < segments; i += CODE_THREADS)
        is_short |= image->segments[i + 1].bits / 16 < image->segments[i].bits / 16 + 4;
    if (block_any(is_short)) {
        if (thread_index() == 0)
            for (uint32_t i = 0; i < segments; i++)
                (void)join_segment(image, i, 0);
        return;
    }
    for (uint32_t i = (uint32_t)thread_index(); i < segments; i += CODE_THREADS) {
        uint32_t carry = join_segment(image, i, image->segments[i].bits / 16 + 2);
        image->segments[i].tail = carry;
        carries |= carry > 0;
    }
    if (block_any(carries) && thread_index() == 0)
        for (uint32_t i = 0; i < segments; i++)
            (void)add_to_digit(image->code, 0, image->segments[i].bits / 16 + 1,
                               image->segments[i].tail);
}

/* As avif_end_range: rounds up to the bit after the last one that was shifted out, and sets it. One
 * thread. */
SIMT void end_code(uint8_t *code, uint32_t bits)
{
    uint32_t at = bits / 16, bit = 0x80000000u >> bits % 16;
    uint32_t last = digit_at(code, at) << 16 | digit_at(code, at + 1);
    if ((last & (bit - 1)) != 0 && last + bit < last)
        (void)add_to_digit(code, 0, at - 1, 1);
    last = (last + ((last & (bit - 1)) != 0 ? bit : 0)) & ~(bit - 1);
    last |= bit;
    set_digit(code, at, last >> 16);
    set_digit(code, at + 1, last & 0xFFFF);
}

KERNEL(code_tokens, CODE_THREADS, 4, struct avif_args)
{
    SHARED struct avif_passage passages[PASSAGES_MAX * SEGMENT_RANGES];
    struct avif_descriptor *image = args.images + block_index();
    uint32_t count = image->token_count, thread = (uint32_t)thread_index();
    if (count > image->token_room)
        return;
    uint32_t segments = (count + SEGMENT_TOKENS - 1) / SEGMENT_TOKENS;
    pass_segments(image, segments, passages);
    if (image->code_bytes > image->code_room)
        return;
    /* The digits after those of all segments. */
    uint32_t bits = image->segments[segments].bits, end = bits / 16 + 2;
    for (uint32_t i = thread; i < end; i += CODE_THREADS)
        set_digit(image->code, i, 0);
    block_barrier();
    for (uint32_t i = thread; i < segments; i += CODE_THREADS)
        code_segment(image, i);
    block_barrier();
    join_segments(image, segments);
    block_barrier();
    if (thread == 0)
        end_code(image->code, bits);
}

/* ---- file ---- */

SIMT void copy_bytes(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    for (uint32_t i = (uint32_t)thread_index(); i < bytes; i += FILE_THREADS)
        to[i] = from[i];
}

SIMT void put_number(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* The header of a frame OBU (frame_header.c). Returns its bytes. */
SIMT uint32_t put_frame_obu(uint32_t payload_bytes, uint8_t *to)
{
    uint32_t at = 0;
    to[at++] = 6 << 3 | 2;
    do {
        to[at++] = (uint8_t)((payload_bytes & 127) | (payload_bytes > 127 ? 128 : 0));
        payload_bytes >>= 7;
    } while (payload_bytes > 0);
    return at;
}

KERNEL(write_file, FILE_THREADS, 2, struct avif_args)
{
    SHARED uint8_t obu[8];
    SHARED uint32_t obu_bytes;
    struct avif_descriptor *image = args.images + block_index();
    uint32_t payload = image->frame_header_bytes + image->code_bytes;
    bool is_coded =
        image->token_count <= image->token_room && image->code_bytes <= image->code_room;
    if (thread_index() == 0)
        obu_bytes = is_coded ? put_frame_obu(payload, obu) : 0;
    block_barrier();
    uint32_t obus = image->sequence_bytes + obu_bytes + payload;
    uint64_t all = (uint64_t)image->header_bytes + obus + image->trailer_bytes;
    if (!is_coded || all > image->capacity) {
        if (thread_index() == 0)
            *image->file_bytes = 0;
        return;
    }
    uint8_t *to = image->file;
    copy_bytes(to, image->header, image->header_bytes);
    copy_bytes(to += image->header_bytes, image->sequence, image->sequence_bytes);
    copy_bytes(to += image->sequence_bytes, obu, obu_bytes);
    copy_bytes(to += obu_bytes, image->frame_header, image->frame_header_bytes);
    copy_bytes(to += image->frame_header_bytes, image->code, image->code_bytes);
    copy_bytes(to + image->code_bytes, image->header + image->header_bytes, image->trailer_bytes);
    block_barrier();
    if (thread_index() > 0)
        return;
    if (image->image_length_at > 0 || image->media_at > 0) {
        put_number(image->file + image->image_length_at, obus);
        put_number(image->file + image->media_at, image->header_bytes - image->media_at + obus);
    }
    *image->file_bytes = (uint32_t)all;
}

/* ---- launch ---- */

int avif_launch_code(const struct avif_encode_batch *batch, void *description,
                     struct CUstream_st *stream)
{
    struct avif_args args = avif_args_of(batch, description);
    uint32_t count = args.image_count;
    /* A warp has one segment if there is a token per sample, more than most photographs have. */
    const uint32_t tokens = SUPERBLOCK * SUPERBLOCK, each = RANGE_WARPS * SEGMENT_TOKENS;
    args.blocks = (batch->superblocks_max * tokens + each - 1) / each;
    int status = LAUNCH(follow_ranges, RANGE_THREADS, dim3(args.blocks, count), 0, stream, args);
    if (status == 0)
        status = LAUNCH(code_tokens, CODE_THREADS, count, 0, stream, args);
    if (status == 0)
        status = LAUNCH(write_file, FILE_THREADS, count, 0, stream, args);
    return status;
}

int avif_encode_launch(const struct avif_encode_batch *batch, void *description,
                       struct CUstream_st *stream)
{
    int status = avif_launch_analysis(batch, description, stream);
    if (status == 0)
        status = avif_launch_blocks(batch, description, stream);
    if (status == 0)
        status = avif_launch_tokens(batch, description, stream);
    if (status == 0)
        status = avif_launch_adaptation(batch, description, stream);
    if (status == 0)
        status = avif_launch_code(batch, description, stream);
    return status;
}
