/*
 * vp8l.c - counts the groups of Huffman codes of a lossless WebP stream (RFC 9649, section 3).
 *
 * The header of the stream has small images: those of transforms, and one with a pixel per block of
 * the main image, which is the number of the block's group. To find the numbers that occur, these
 * images are decoded, but without keeping pixels: only a literal pixel can have a new number.
 * Copies and the colour cache repeat earlier pixels, so they are only counted.
 */
#include "codecs/webp/vp8l.h"

#include <string.h>

#include "codecs/codec_impl.h"

#define CODE_BITS_MAX  15
#define LENGTH_CODES   24
#define DISTANCE_CODES 40
#define CACHE_BITS_MAX 11
#define ALPHABET_MAX   (256 + LENGTH_CODES + (1 << CACHE_BITS_MAX))
#define GROUP_CODES    5
#define GROUPS_MAX     65536
/* If all numbers are below this, libwebp allocates groups for the unused numbers below the highest,
 * too. Otherwise it allocates only the groups that occur. */
#define GROUPS_NUMBERED  1000
#define PIXELS_PER_CHECK 4096

enum transform { PREDICTOR, CROSS_COLOUR, SUBTRACT_GREEN, COLOUR_INDEXING, TRANSFORM_COUNT };

/* A canonical Huffman code. */
struct code {
    uint16_t count[CODE_BITS_MAX + 1]; /* codes per length */
    uint16_t symbols[ALPHABET_MAX];    /* in the order of their codes */
    bool is_single;                    /* one symbol, of 0 bits */
};

struct reader {
    const uint8_t *bytes;
    size_t bit, bits; /* position of the next bit, and number of bits */
    bool failed;      /* the stream is invalid or has ended, or the deadline has passed */
    uint64_t deadline_ns;
    struct code codes[GROUP_CODES]; /* green and lengths, red, blue, alpha, distances */
    uint8_t seen[GROUPS_MAX / 8];   /* a bit per number of a group: a literal has it */
    size_t distinct, highest;       /* how many numbers were seen, and the highest one */
};

static unsigned read_bits(struct reader *r, unsigned count)
{
    unsigned value = 0;
    if (r->failed || count > r->bits - r->bit) {
        r->failed = true;
        return 0;
    }
    for (unsigned i = 0; i < count; i++, r->bit++)
        value |= (unsigned)(r->bytes[r->bit / 8] >> r->bit % 8 & 1) << i;
    return value;
}

/* ---- Huffman codes ---- */

/* Makes a code of the lengths of its symbols. Returns false if libwebp refuses the code: it must be
 * complete, or have one symbol. */
static bool build(struct code *code, const uint8_t *lengths, unsigned alphabet)
{
    unsigned next[CODE_BITS_MAX + 2] = {0}, used = 0;
    int left = 1;
    memset(code->count, 0, sizeof code->count);
    for (unsigned i = 0; i < alphabet; i++) {
        code->count[lengths[i]]++;
        used += lengths[i] != 0;
    }
    code->count[0] = 0;
    for (unsigned length = 1; length <= CODE_BITS_MAX; length++) {
        left = 2 * left - code->count[length];
        next[length + 1] = next[length] + code->count[length];
        if (left < 0)
            return false;
    }
    for (unsigned i = 0; i < alphabet; i++)
        if (lengths[i] != 0)
            code->symbols[next[lengths[i]]++] = (uint16_t)i;
    code->is_single = used == 1;
    return used == 1 || (used > 1 && left == 0);
}

static unsigned read_symbol(struct reader *r, const struct code *code)
{
    unsigned value = 0, first = 0, index = 0;
    if (code->is_single)
        return code->symbols[0];
    for (unsigned length = 1; length <= CODE_BITS_MAX && !r->failed; length++) {
        value |= read_bits(r, 1);
        unsigned count = code->count[length];
        if (value < first + count)
            return code->symbols[index + (value - first)];
        index += count;
        first = (first + count) << 1;
        value <<= 1;
    }
    r->failed = true;
    return 0;
}

/* Reads the lengths of the symbols of a code, which are compressed with a code of their own. */
static void read_lengths(struct reader *r, struct code *code, uint8_t *lengths, unsigned alphabet)
{
    static const uint8_t order[19] = {17, 18, 0, 1,  2,  3,  4,  5,  16, 6,
                                      7,  8,  9, 10, 11, 12, 13, 14, 15};
    uint8_t own[19] = {0};
    unsigned count = read_bits(r, 4) + 4, previous = 8;
    for (unsigned i = 0; i < count; i++)
        own[order[i]] = (uint8_t)read_bits(r, 3);
    r->failed |= !build(code, own, 19);
    unsigned left = alphabet;
    if (read_bits(r, 1)) {
        unsigned bits = 2 + 2 * read_bits(r, 3);
        left = 2 + read_bits(r, bits);
        r->failed |= left > alphabet;
    }
    for (unsigned at = 0; at < alphabet && left > 0 && !r->failed; left--) {
        unsigned symbol = read_symbol(r, code), times = 1, length = symbol;
        if (symbol == 16) {
            times = 3 + read_bits(r, 2);
            length = previous;
        } else if (symbol >= 17) {
            times = symbol == 17 ? 3 + read_bits(r, 3) : 11 + read_bits(r, 7);
            length = 0;
        } else if (symbol > 0) {
            previous = symbol;
        }
        if (times > alphabet - at) {
            r->failed = true;
            return;
        }
        memset(lengths + at, (int)length, times);
        at += times;
    }
}

static void read_code(struct reader *r, struct code *code, unsigned alphabet)
{
    uint8_t lengths[ALPHABET_MAX] = {0};
    if (read_bits(r, 1)) { /* a simple code, with one or two symbols */
        unsigned more = read_bits(r, 1), wide = read_bits(r, 1);
        lengths[read_bits(r, wide ? 8 : 1)] = 1;
        if (more)
            lengths[read_bits(r, 8)] = 1;
    } else {
        read_lengths(r, code, lengths, alphabet);
    }
    r->failed |= !r->failed && !build(code, lengths, alphabet);
}

/* ---- images ---- */

/* Reads a length or a distance, which is coded as a prefix with extra bits. */
static size_t read_number(struct reader *r, unsigned prefix)
{
    if (prefix < 4)
        return prefix + 1;
    unsigned bits = (prefix - 2) >> 1;
    size_t from = (size_t)(2 + prefix % 2) << bits;
    return from + read_bits(r, bits) + 1;
}

/* Notes that the number of a group occurs. */
static void see(struct reader *r, unsigned group)
{
    uint8_t bit = (uint8_t)(1u << group % 8);
    r->distinct += (r->seen[group / 8] & bit) == 0;
    r->seen[group / 8] |= bit;
    r->highest = group > r->highest ? group : r->highest;
}

/* Reads a literal, a copy or a cached colour. Returns its number of pixels. are_groups: the pixels
 * are numbers of groups. */
static size_t read_pixels(struct reader *r, bool are_groups)
{
    unsigned green = read_symbol(r, &r->codes[0]);
    if (green >= 256 + LENGTH_CODES)
        return 1; /* from the colour cache */
    if (green >= 256) {
        size_t length = read_number(r, green - 256);
        read_number(r, read_symbol(r, &r->codes[4]));
        return length;
    }
    unsigned red = read_symbol(r, &r->codes[1]);
    read_symbol(r, &r->codes[2]);
    read_symbol(r, &r->codes[3]);
    if (are_groups)
        see(r, red << 8 | green);
    return 1;
}

static unsigned read_cache_bits(struct reader *r)
{
    unsigned bits = read_bits(r, 1) ? read_bits(r, 4) : 0;
    r->failed |= bits > CACHE_BITS_MAX;
    return r->failed ? 0 : bits;
}

/* Reads an image of the header, which has only one group of codes. */
static void read_image(struct reader *r, size_t pixels, bool are_groups)
{
    unsigned cache_bits = read_cache_bits(r);
    unsigned green = 256 + LENGTH_CODES + (cache_bits > 0 ? 1u << cache_bits : 0);
    const unsigned alphabets[GROUP_CODES] = {green, 256, 256, 256, DISTANCE_CODES};
    for (int i = 0; i < GROUP_CODES && !r->failed; i++)
        read_code(r, &r->codes[i], alphabets[i]);
    for (size_t at = 0, symbols = 1; at < pixels && !r->failed; symbols++) {
        at += read_pixels(r, are_groups);
        if (symbols % PIXELS_PER_CHECK == 0 && codec_late(r->deadline_ns))
            r->failed = true;
    }
}

static size_t blocks(size_t side, unsigned bits)
{
    return (side + (1u << bits) - 1) >> bits;
}

/* Reads a transform. Returns the width of the image that is coded: with a palette of few colours,
 * several pixels share one. seen: bits of the transforms so far; each may occur once. */
static size_t read_transform(struct reader *r, size_t width, size_t height, unsigned *seen)
{
    enum transform type = read_bits(r, 2);
    r->failed |= (*seen & 1u << type) != 0;
    *seen |= 1u << type;
    if (type == SUBTRACT_GREEN || r->failed)
        return width;
    if (type == COLOUR_INDEXING) {
        unsigned colours = read_bits(r, 8) + 1;
        read_image(r, colours, false);
        return blocks(width, colours > 16 ? 0 : colours > 4 ? 1 : colours > 2 ? 2 : 3);
    }
    unsigned bits = read_bits(r, 3) + 2;
    read_image(r, blocks(width, bits) * blocks(height, bits), false);
    return width;
}

size_t vp8l_groups(const uint8_t *stream, size_t length, uint32_t width, uint32_t height,
                   uint64_t deadline_ns)
{
    struct reader r;
    unsigned transforms = 0;
    size_t across = width;
    memset(&r, 0, offsetof(struct reader, codes));
    memset(r.seen, 0, sizeof r.seen);
    r.distinct = r.highest = 0;
    r.bytes = stream;
    r.bits = 8 * length;
    r.deadline_ns = deadline_ns;
    while (read_bits(&r, 1))
        across = read_transform(&r, across, height, &transforms);
    (void)read_cache_bits(&r);
    if (r.failed || !read_bits(&r, 1))
        return r.failed ? 0 : 1;
    unsigned bits = read_bits(&r, 3) + 2;
    read_image(&r, blocks(across, bits) * blocks(height, bits), true);
    if (r.failed)
        return 0;
    see(&r, 0); /* a pixel may be taken from an unused entry of the colour cache, which is zero */
    return r.highest < GROUPS_NUMBERED ? r.highest + 1 : r.distinct;
}
