/*
 * encode_tokens.cu - stages C and D of the AV1 encoder: the kernels that write the file.
 *
 * 1. count_tokens: a warp counts the tokens of a superblock. A lane has two cells of 8 x 8, in
 *    Morton order: the blocks that begin there.
 * 2. place_tokens: a block of threads per image finds where the tokens of each lane begin.
 * 3. write_tokens: as count_tokens.
 * 4. adapt_tokens: a block of threads per image adapts the contexts, and replaces the tokens by
 * their probabilities. Each warp has some of the contexts.
 * 5. follow_ranges: a warp per image follows the range of the coder from token to token.
 * 6. code_tokens: a block of threads per image adds up the code. A thread has some of the tokens.
 * 7. write_file: a block of threads per image writes the file.
 */
#include "gpu/avif/device/device.h"
#include "gpu/avif/entropy/range_coder.h"
#include "gpu/avif/entropy/tokeniser.h"
#include "gpu/avif/device/warp.h"

#define TOKEN_THREADS 128
#define TOKEN_WARPS   (TOKEN_THREADS / WARP_LANES)
#define PLACE_THREADS 256
#define ADAPT_THREADS 512
#define ADAPT_WARPS   (ADAPT_THREADS / WARP_LANES)
/* Resident blocks of threads per multiprocessor, which has room for 1024 threads before compute
 * capability 8.0. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define ADAPT_RESIDENT 2
#else
#define ADAPT_RESIDENT 3
#endif
#define CODE_THREADS  128
#define FILE_THREADS  256

/* ---- tokens ---- */

/* Tokenises the block that begins at a cell, if one does, with the partitions that begin there. */
SIMT void tokenise_cell(struct avif_tokeniser *to, int left, int top, uint32_t cell)
{
    int x = 0, y = 0;
    for (int i = 0; i < 3; i++) {
        x |= (int)(cell >> 2 * i & 1) << (3 + i);
        y |= (int)(cell >> (2 * i + 1) & 1) << (3 + i);
    }
    if (left + x >= to->tile.right || top + y >= to->tile.bottom)
        return;
    int size = avif_block_at(to->encoder, left + x, top + y)->size;
    if (((x | y) & ((1 << size) - 1)) != 0)
        return;
    for (int above = SUPERBLOCK_SIZE; above >= size; above--)
        if (((x | y) & ((1 << above) - 1)) == 0)
            avif_tokenise_partition(to, left + x, top + y, above, above > size);
    avif_tokenise_modes(to, left + x, top + y);
    avif_tokenise_transforms(to, left + x, top + y);
}

/* Tokenises the cells of a lane. */
SIMT void tokenise_lane(struct avif_tokeniser *to, int superblock)
{
    int across = to->encoder->frame.superblocks_x;
    int left = superblock % across * SUPERBLOCK, top = superblock / across * SUPERBLOCK;
    for (uint32_t i = 0; i < CELLS / WARP_LANES; i++)
        tokenise_cell(to, left, top, (uint32_t)lane_index() * (CELLS / WARP_LANES) + i);
}

SIMT void begin_tokens(struct avif_tokeniser *to, const struct avif_descriptor *image)
{
    to->encoder = &image->encoder;
    to->tile.left = to->tile.top = 0;
    to->tile.right = 8 * image->encoder.frame.cells_x;
    to->tile.bottom = 8 * image->encoder.frame.cells_y;
    to->tokens = image->tokens;
    to->count = to->room = 0;
}

SIMT int superblocks_of(const struct avif_descriptor *image)
{
    return image->encoder.frame.superblocks_x * image->encoder.frame.superblocks_y;
}

KERNEL(count_tokens, TOKEN_THREADS, 2, struct avif_args)
{
    struct avif_descriptor *image = args.images + block_row();
    int superblock = block_index() * TOKEN_WARPS + thread_index() / WARP_LANES;
    struct avif_tokeniser tokeniser;
    if (superblock >= superblocks_of(image))
        return;
    begin_tokens(&tokeniser, image);
    tokenise_lane(&tokeniser, superblock);
    image->token_counts[superblock * WARP_LANES + lane_index()] = tokeniser.count;
}

KERNEL(place_tokens, PLACE_THREADS, 1, struct avif_args)
{
    SHARED uint32_t sums[WARP_LANES];
    struct avif_descriptor *image = args.images + block_index();
    uint32_t lanes = (uint32_t)superblocks_of(image) * WARP_LANES, all = 0, total;
    for (uint32_t first = 0; first < lanes; first += PLACE_THREADS) {
        uint32_t i = first + (uint32_t)thread_index();
        uint32_t count = i < lanes ? image->token_counts[i] : 0;
        uint32_t before = block_scan(count, &total, sums);
        if (i < lanes)
            image->token_counts[i] = all + before;
        all += total;
    }
    if (thread_index() == 0)
        image->token_count = all;
}

KERNEL(write_tokens, TOKEN_THREADS, 2, struct avif_args)
{
    struct avif_descriptor *image = args.images + block_row();
    int superblock = block_index() * TOKEN_WARPS + thread_index() / WARP_LANES;
    struct avif_tokeniser tokeniser;
    if (superblock >= superblocks_of(image) || image->token_count > image->token_room)
        return;
    begin_tokens(&tokeniser, image);
    tokeniser.count = image->token_counts[superblock * WARP_LANES + lane_index()];
    tokeniser.room = image->token_room;
    tokenise_lane(&tokeniser, superblock);
}

/* ---- code ---- */

/* A token that has its probabilities replaces the token in memory. Bits 0 to 9 and 10 to 19: the
 * probabilities that the symbol is higher than the one before it, and than itself, divided by 64;
 * 20 to 24: how many symbols are left, with this one; 25: it is the first one. Literal bits: 0 to
 * 15 the bits, 16 to 20 their number; and bit 31. */
#define READY_LEFT    20
#define READY_FIRST   (1u << 25)
#define READY_LITERAL (1u << 31)

/* above, below: entries of the CDF before the symbol and of it */
SIMT uint32_t make_ready(uint32_t above, uint32_t below, int left, bool is_first)
{
    return (32768 - above) >> 6 | (32768 - below) >> 6 << 10 | (uint32_t)left << READY_LEFT |
           (is_first ? READY_FIRST : 0);
}

/* The flag of an edge, as avif_put_edge_split codes it. Entry i of the CDF is in lane i. */
SIMT uint32_t ready_edge_split(uint32_t entry, int flag)
{
    uint32_t counted = flag == SPLIT_OR_HORZ ? 0x2DC : 0x17A, before = warp_read_up(entry, 1);
    int lane = lane_index();
    bool counts = lane < 10 && (counted >> lane & 1);
    int part = counts ? (int)((lane < 9 ? entry : 32768u) - before) : 0;
    return make_ready(32768u - (uint32_t)warp_total(part, WARP_LANES), 32768, 1, false);
}

/* A single bit, as most literals are, becomes one of two symbols of the same probability. */
SIMT uint32_t ready_literal(avif_token token)
{
    uint32_t bits = token >> TOKEN_SYMBOL, value = token & 0xFFFF;
    if (bits == 1)
        return value ? make_ready(16384, 32768, 1, false) : make_ready(0, 16384, 2, true);
    return READY_LITERAL | bits << 16 | value;
}

/* Adapts a context to a token. Returns the ready token. */
SIMT uint32_t adapt(uint16_t *cdfs, avif_token token)
{
    int symbols = (int)(token >> TOKEN_SYMBOLS & 31), symbol = (int)(token >> TOKEN_SYMBOL);
    int lane = lane_index(), last = avif_cdf_entries(symbols == 1 ? 10 : symbols) - 1;
    uint16_t *cdf = cdfs + (token & 0xFFFF);
    uint32_t entry = lane <= last ? cdf[lane] : 0;
    if (symbols == 1)
        return ready_edge_split(entry, symbol);
    uint32_t above = warp_read(entry, symbol > 0 ? symbol - 1 : 0),
             below = warp_read(entry, symbol);
    uint32_t count = warp_read(entry, last);
    int rate = 3 + (count > 15) + (count > 31) + avif_min(highest_bit((uint32_t)symbols), 2);
    if (lane < symbols - 1)
        cdf[lane] =
            (uint16_t)(lane < symbol ? entry - (entry >> rate) : entry + ((32768 - entry) >> rate));
    else if (lane == last)
        cdf[last] = (uint16_t)(count + (count < CDF_COUNT_MAX));
    warp_barrier();
    return make_ready(symbol > 0 ? above : 0, symbol < symbols - 1 ? below : 32768,
                      symbols - symbol, symbol == 0);
}

/* Each warp adapts its own contexts, at its own pace. */
KERNEL(adapt_tokens, ADAPT_THREADS, ADAPT_RESIDENT, struct avif_args)
{
    SHARED struct avif_cdfs cdfs;
    struct avif_descriptor *image = args.images + block_index();
    uint32_t count = image->token_count, lane = (uint32_t)lane_index();
    uint32_t warp = (uint32_t)(thread_index() / WARP_LANES);
    if (count > image->token_room)
        return;
    if (thread_index() == 0)
        avif_init_cdfs(&cdfs, image->encoder.frame.quantiser.index);
    block_barrier();
    avif_token next = lane < count ? image->tokens[lane] : 0;
    for (uint32_t at = lane; at < count + lane; at += WARP_LANES) {
        avif_token token = at < count ? next : 0;
        uint32_t symbols = token >> TOKEN_SYMBOLS & 31, ready = 0;
        next = at + WARP_LANES < count ? image->tokens[at + WARP_LANES] : 0;
        bool is_own = symbols > 0 && (token & 0xFFFF) / 4 % ADAPT_WARPS == warp;
        for (uint32_t own = warp_ballot(is_own); own != 0; own &= own - 1) {
            int from = lowest_bit(own);
            uint32_t made = adapt((uint16_t *)&cdfs, warp_read(token, from));
            ready = lane == (uint32_t)from ? made : ready;
        }
        if (symbols == 0 && at / WARP_LANES % ADAPT_WARPS == warp && at < count) {
            is_own = true;
            ready = ready_literal(token);
        }
        if (is_own)
            image->ready[at] = ready;
    }
}

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

/* Follows the range through the tokens of the lanes, one after the other. Returns the range before
 * the lane's own token. All lanes do the same, so that each has its range without an exchange. */
SIMT uint32_t follow_lanes(uint32_t *range, uint32_t ready)
{
    uint32_t own = 0;
    if (warp_any(ready & READY_LITERAL)) {
        NO_UNROLL
        for (int i = 0; i < WARP_LANES; i++) {
            own = lane_index() == i ? *range : own;
            (void)follow(range, warp_read(ready, i));
        }
        return own;
    }
    /* Without branches, so that only what depends on the range waits for the token before. */
    UNROLL
    for (int i = 0; i < WARP_LANES; i++) {
        own = lane_index() == i ? *range : own;
        (void)follow_symbol(range, warp_read(ready, i));
    }
    return own;
}

/* Replaces the ready tokens by their steps: in `tokens` the lower 32 bits of `added`, in `ready`
 * the upper ones and the shift. The range of each token depends on the one before, but all else can
 * be done afterwards, in any order: a lane has every 32nd token. */
KERNEL(follow_ranges, WARP_LANES, 8, struct avif_args)
{
    struct avif_descriptor *image = args.images + block_index();
    uint32_t count = image->token_count, range = 32768, bits = 0;
    uint32_t lane = (uint32_t)lane_index();
    if (count > image->token_room)
        return;
    uint32_t next = lane < count ? image->ready[lane] : READY_LITERAL;
    NO_UNROLL
    for (uint32_t begin = 0; begin < count; begin += WARP_LANES) {
        uint32_t at = begin + lane, ready = next;
        next = at + WARP_LANES < count ? image->ready[at + WARP_LANES] : READY_LITERAL;
        if (begin % SEGMENT_TOKENS == 0 && lane == 0)
            image->segments[begin / SEGMENT_TOKENS].bits = bits;
        uint32_t own = follow_lanes(&range, ready);
        struct step step = follow(&own, ready);
        if (at < count) {
            image->tokens[at] = (uint32_t)step.added;
            image->ready[at] = (uint32_t)(step.added >> 32) << 8 | step.shift;
        }
        bits += (uint32_t)warp_total((int)step.shift, WARP_LANES);
    }
    if (lane == 0) {
        image->code_bits = bits;
        image->code_bytes = (bits + 1 + 7) / 8;
    }
}

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
    uint32_t begin = number * SEGMENT_TOKENS, end = begin + SEGMENT_TOKENS;
    uint32_t at = segment->bits / 16, bits = segment->bits % 16;
    uint64_t low = 0; /* CARRY_ROOM + bits bits, and a carry of 2 at most */
    segment->carry = 0;
    end = end < image->token_count ? end : image->token_count;
    NO_UNROLL
    for (uint32_t i = begin; i < end; i++) {
        uint32_t rest = image->ready[i], shift = rest & 255;
        low = (low << shift) + ((uint64_t)(rest >> 8) << 32 | image->tokens[i]);
        for (bits += shift; bits >= 16; bits -= 16, at++) {
            uint32_t left = CARRY_ROOM + bits - 16, digit = (uint32_t)(low >> left);
            low &= ((uint64_t)1 << left) - 1;
            set_digit(image->code, at, digit & 0xFFFF);
            if (digit >> 16)
                carry_to(image, segment, at, digit >> 16);
        }
    }
    low <<= 32 - CARRY_ROOM - bits;
    if (low >> 32)
        carry_to(image, segment, at, (uint32_t)(low >> 32));
    segment->tail = (uint32_t)low;
}

/* Adds what segments have in common. One thread. */
SIMT void join_segments(struct avif_descriptor *image, uint32_t segments)
{
    uint8_t *code = image->code;
    uint32_t bits = image->code_bits, at = bits / 16, bit = 0x80000000u >> bits % 16;
    for (uint32_t i = 0; i < segments; i++) {
        const struct avif_segment *segment = &image->segments[i];
        uint32_t end = (i + 1 < segments ? segment[1].bits : bits) / 16;
        (void)add_to_digit(code, 0, segment->bits / 16 - 1, segment->carry);
        (void)add_to_digit(code, 0, end + 1, segment->tail & 0xFFFF);
        (void)add_to_digit(code, 0, end, segment->tail >> 16);
    }
    /* As avif_end_range: rounds up to the bit after the last one that was shifted out, and sets
     * it. */
    uint32_t last = digit_at(code, at) << 16 | digit_at(code, at + 1);
    if ((last & (bit - 1)) != 0 && last + bit < last)
        (void)add_to_digit(code, 0, at - 1, 1);
    last = (last + ((last & (bit - 1)) != 0 ? bit : 0)) & ~(bit - 1);
    last |= bit;
    set_digit(code, at, last >> 16);
    set_digit(code, at + 1, last & 0xFFFF);
}

KERNEL(code_tokens, CODE_THREADS, 8, struct avif_args)
{
    struct avif_descriptor *image = args.images + block_index();
    uint32_t count = image->token_count, thread = (uint32_t)thread_index();
    if (count > image->token_room || image->code_bytes > image->code_room)
        return;
    uint32_t segments = (count + SEGMENT_TOKENS - 1) / SEGMENT_TOKENS;
    /* The digits after those of all segments. */
    uint32_t end = image->code_bits / 16 + 2;
    for (uint32_t i = thread; i < end; i += CODE_THREADS)
        set_digit(image->code, i, 0);
    block_barrier();
    for (uint32_t i = thread; i < segments; i += CODE_THREADS)
        code_segment(image, i);
    block_barrier();
    if (thread == 0)
        join_segments(image, segments);
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

int avif_launch_tokens(const struct avif_encode_batch *batch, void *description,
                       struct CUstream_st *stream)
{
    struct avif_args args = avif_args_of(batch, description);
    uint32_t count = args.image_count;
    uint32_t blocks = (batch->superblocks_max + TOKEN_WARPS - 1) / TOKEN_WARPS;
    int status = LAUNCH(count_tokens, TOKEN_THREADS, dim3(blocks, count), 0, stream, args);
    if (status == 0)
        status = LAUNCH(place_tokens, PLACE_THREADS, count, 0, stream, args);
    if (status == 0)
        status = LAUNCH(write_tokens, TOKEN_THREADS, dim3(blocks, count), 0, stream, args);
    if (status == 0)
        status = LAUNCH(adapt_tokens, ADAPT_THREADS, count, 0, stream, args);
    if (status == 0)
        status = LAUNCH(follow_ranges, WARP_LANES, count, 0, stream, args);
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
    return status;
}
