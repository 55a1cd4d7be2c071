/* Tests of inflate.h against zlib: streams of all settings of deflate, read in pieces
 * of many sizes, and damaged ones, which zlib must refuse if and only if inflate.h does. */
#include <zlib.h>

#include "codecs/png/inflate.h"
#include "tests/fixtures/inflated.h"
#include "tests/fixtures/picture_impl.h"
#include "tests/fixtures/test.h"

/* Small streams have small outputs, unless damage has made them long. */
enum { output_max = 120000, small_max = 10000 };

/* ---- data ---- */

enum kind { NOISE, PICTURE, FEW_VALUES, TEXT, ZEROS, KINDS };

static void fill(uint8_t *bytes, size_t count, enum kind kind, uint32_t random)
{
    static const char words[] = "the quick brown fox jumps over the lazy dog; ";
    for (size_t i = 0; i < count; i++) {
        uint32_t next = picture_random(&random);
        bytes[i] = kind == NOISE        ? (uint8_t)(next >> 16)
                   : kind == PICTURE    ? (uint8_t)((next >> 16 & 7) - (next >> 20 & 7))
                   : kind == FEW_VALUES ? (uint8_t)((next >> 16) % 100 == 0)
                   : kind == TEXT       ? (uint8_t)words[(i + i / 700) % (sizeof words - 1)]
                                        : 0;
    }
}

struct settings {
    int level, window_bits, memory, strategy;
};

static struct picture_file deflated(const uint8_t *bytes, size_t count, struct settings how)
{
    z_stream z = {.next_in = (Bytef *)bytes, .avail_in = (uInt)count};
    assert_int_equal(
        deflateInit2(&z, how.level, Z_DEFLATED, how.window_bits, how.memory, how.strategy), Z_OK);
    size_t room = deflateBound(&z, (uLong)count) + 64;
    struct picture_file stream = {picture_allocate(room), 0};
    z.next_out = stream.bytes;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    stream.length = z.total_out;
    deflateEnd(&z);
    return stream;
}

static bool expect_agreement(const struct picture_file *stream, size_t most, size_t input_piece,
                             size_t output_piece)
{
    bool accepted;
    const char *difference = inflated_difference(stream->bytes, stream->length, most, input_piece,
                                                 output_piece, &accepted);
    if (difference)
        fail_msg("%s: %zu bytes, pieces of %zu and %zu", difference, stream->length, input_piece,
                 output_piece);
    return accepted;
}

/* ---- valid streams ---- */

TEST(test_all_settings)
{
    static const size_t counts[] = {0, 1, 2, 300, 5000, 60000};
    static const int strategies[] = {Z_DEFAULT_STRATEGY, Z_FILTERED, Z_HUFFMAN_ONLY, Z_RLE,
                                     Z_FIXED};
    uint8_t *bytes = picture_allocate(output_max);
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t c = 0; c < COUNT_OF(counts); c++)
            for (int level = 0; level <= 9; level += level < 2 ? 1 : 4)
                for (size_t s = 0; s < COUNT_OF(strategies); s++) {
                    fill(bytes, counts[c], kind, 1);
                    struct picture_file stream =
                        deflated(bytes, counts[c],
                                 (struct settings){level, 15, 1 + (int)(c + s) % 9, strategies[s]});
                    assert_true(expect_agreement(&stream, output_max, 8192, 65536));
                    picture_free(&stream);
                }
    free(bytes);
}

/* Small pieces of a short stream, which take long, and large ones of a long stream. */
TEST(test_pieces)
{
    static const size_t pieces[] = {1, 2, 7, 100, 4095, 70000};
    enum { pairs = COUNT_OF(pieces) * COUNT_OF(pieces) };
    uint8_t *bytes = picture_allocate(output_max);
    for (int setting = 0; setting < KINDS * 4; setting++) {
        int kind = setting / 4, level = setting / 2 % 2 ? 0 : 6;
        bool is_short = setting % 2 != 0;
        size_t count = is_short ? 10000 : 100000;
        fill(bytes, count, kind, 3);
        struct picture_file stream =
            deflated(bytes, count, (struct settings){level, 15, 8, Z_DEFAULT_STRATEGY});
        for (size_t i = 0; i < pairs; i++) {
            size_t in = pieces[i / COUNT_OF(pieces)], out = pieces[i % COUNT_OF(pieces)];
            bool has_small = in < 100 || out < 100;
            if (in + out > 100 && has_small == is_short)
                assert_true(expect_agreement(&stream, output_max, in, out));
        }
        picture_free(&stream);
    }
    free(bytes);
}

/* A stream may say that its matches are short, if all of its output is shorter. */
TEST(test_small_windows)
{
    uint8_t *bytes = picture_allocate(output_max);
    fill(bytes, output_max, TEXT, 1);
    for (int bits = 9; bits < 15; bits++)
        for (int more = 0; more < 2; more++) {
            struct picture_file stream =
                deflated(bytes, (1u << bits) + (size_t)more,
                         (struct settings){9, bits, 8, Z_DEFAULT_STRATEGY});
            assert_int_equal(expect_agreement(&stream, output_max, 8192, 65536), more == 0);
            picture_free(&stream);
        }
    free(bytes);
}

/* ---- streams bit by bit ---- */

struct writer {
    struct picture_file file;
    unsigned bits, count;
};

static void put(struct writer *to, unsigned value, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        to->bits |= (value >> i & 1) << to->count;
        if (++to->count == 8) {
            uint8_t byte = (uint8_t)to->bits;
            picture_append(&to->file, &byte, 1);
            to->bits = to->count = 0;
        }
    }
}

/* The first bit of a code is its highest. */
static void put_code(struct writer *to, unsigned code, unsigned count)
{
    while (count-- > 0)
        put(to, code >> count & 1, 1);
}

static struct writer begin(void)
{
    struct writer to = {{NULL, 0}, 0, 0};
    put(&to, 0x78, 8);
    put(&to, 0x01, 8);
    return to;
}

static bool end(struct writer *to)
{
    if (to->count > 0)
        put(to, 0, 8 - to->count);
    put(to, 0, 16); /* a checksum, which is wrong */
    put(to, 0, 16);
    bool accepted;
    const char *difference =
        inflated_difference(to->file.bytes, to->file.length, small_max, 1000, 1000, &accepted);
    if (difference)
        fail_msg("%s", difference);
    picture_free(&to->file);
    return accepted;
}

/* Every code of the fixed ones, also those that must not occur. */
TEST(test_fixed_codes)
{
    for (unsigned symbol = 0; symbol < 288; symbol++)
        for (unsigned distance = 0; distance < 32; distance += symbol < 256 ? 32 : 1) {
            struct writer to = begin();
            put(&to, 1 | 1 << 1, 3);
            put_code(&to, 0x30 + 'a', 8);
            put_code(&to, 0x30 + 'b', 8);
            if (symbol < 144)
                put_code(&to, 0x30 + symbol, 8);
            else if (symbol < 256)
                put_code(&to, 0x190 + symbol - 144, 9);
            else if (symbol < 280)
                put_code(&to, symbol - 256, 7);
            else
                put_code(&to, 0xC0 + symbol - 280, 8);
            put(&to, 0, symbol >= 265 && symbol < 285 ? (symbol - 261) / 4 : 0);
            if (symbol > 256)
                put_code(&to, distance, 5);
            put(&to, 0, distance >= 4 && distance < 30 ? distance / 2 - 1 : 0);
            put_code(&to, 0, 7);
            end(&to);
        }
}

/* A block with the codes of these lengths, each of which is written in 4 bits, and no data. */
static void put_lengths(struct writer *to, const uint8_t *lengths, unsigned literals,
                        unsigned distances)
{
    put(to, 1 | 2 << 1, 3);
    put(to, literals - 257, 5);
    put(to, distances - 1, 5);
    put(to, 15, 4);
    for (unsigned i = 0; i < 19; i++)
        put(to, i < 3 ? 0 : 4, 3); /* the first three are for repetitions */
    for (unsigned i = 0; i < literals + distances; i++)
        put_code(to, lengths[i], 4);
}

/* Codes that are incomplete, too large, or of one symbol. In half of the blocks the first code ends
 * the block, so that only the codes decide. */
TEST(test_codes)
{
    uint32_t random = 5;
    for (int i = 0; i < 3000; i++) {
        uint8_t lengths[288 + 32] = {0};
        unsigned literals = 257 + picture_random(&random) % 32,
                 distances = 1 + picture_random(&random) % 32;
        unsigned used = 1 + picture_random(&random) % 6, most = 1 + picture_random(&random) % 4;
        for (unsigned n = 0; n < used; n++) {
            lengths[picture_random(&random) % 257] =
                (uint8_t)(picture_random(&random) % (most + 1));
            lengths[literals + picture_random(&random) % distances] =
                (uint8_t)(picture_random(&random) % (most + 1));
        }
        if (i % 2 != 0)
            lengths[256] = 1;
        else if (i % 8 != 0)
            lengths[256] = (uint8_t)(1 + picture_random(&random) % most);
        struct writer to = begin();
        put_lengths(&to, lengths, literals, distances);
        for (int n = 0; n < 4; n++)
            put(&to, i % 2 != 0 ? 0 : picture_random(&random) & 0xFFFF, 16);
        end(&to);
    }
}

/* Repeated lengths, which may go on beyond the last one. */
TEST(test_repeated_lengths)
{
    static const uint8_t bits[] = {2, 3, 7}; /* of the repetitions 16, 17 and 18 */
    uint32_t random = 23;
    for (int i = 0; i < 5000; i++) {
        struct writer to = begin();
        unsigned symbols = 258, left = symbols + (i % 4 == 0 ? picture_random(&random) % 3 : 0);
        put(&to, 1 | 2 << 1, 3);
        put(&to, 0, 5 + 5); /* 257 literals, 1 distance */
        put(&to, 15, 4);
        for (unsigned n = 0; n < 19; n++)
            put(&to, n == 17 || n < 3 || n == 3 ? (n < 3 ? 2 : 3) : 0, 3); /* of 16, 17, 18, 0, 1 */
        while (left > 0) {
            /* In the order of lengths and symbols: 16, 17, 18 have 2 bits, 0 and 1 have 3. */
            unsigned kind = picture_random(&random) % (i % 16 == 1 ? 5 : 3) + 16, times = 1;
            if (left < 20 && kind == 18)
                kind = 17;
            if (left < 6 || kind > 18)
                put_code(&to, left <= 2 ? 7 : 6, 3);
            else {
                unsigned extra = picture_random(&random) % (1u << bits[kind - 16]);
                times = (kind == 18 ? 11 : 3) + extra;
                if (times > left && i % 4 != 1) {
                    times = kind == 18 ? 11 : 3;
                    extra = 0;
                }
                put_code(&to, kind - 16, 2);
                put(&to, extra, bits[kind - 16]);
            }
            left -= times < left ? times : left;
        }
        put(&to, 0, 16);
        end(&to);
    }
}

/* ---- damage ---- */

TEST(test_damage)
{
    uint8_t bytes[3000];
    uint32_t random = 11;
    unsigned accepted = 0;
    for (int i = 0; i < 12000; i++) {
        static const int levels[] = {0, 1, 6, 9};
        size_t count = 1 + picture_random(&random) % sizeof bytes;
        fill(bytes, count, (enum kind)(i % KINDS), random);
        struct picture_file stream =
            deflated(bytes, count,
                     (struct settings){levels[i / KINDS % 4], 15, 1 + i % 9,
                                       i % 7 == 0 ? Z_FIXED : Z_DEFAULT_STRATEGY});
        size_t cut = i % 5 == 0 ? picture_random(&random) % stream.length : 0;
        for (unsigned n = picture_random(&random) % 4; n > 0; n--)
            stream.bytes[picture_random(&random) %
                         (n % 2 ? stream.length : 60 % stream.length + 1)] ^=
                (uint8_t)(1 << picture_random(&random) % 8);
        stream.length -= cut;
        accepted += expect_agreement(&stream, small_max, 1000, 100);
        picture_free(&stream);
    }
    assert_in_range(accepted, 1000, 11000);
}

TEST(test_noise_as_a_stream)
{
    uint32_t random = 17;
    for (int i = 0; i < 20000; i++) {
        uint8_t bytes[200] = {0x78, 0x01};
        fill(bytes + 2, sizeof bytes - 2, NOISE, random);
        bytes[2] = (uint8_t)((bytes[2] & ~7u) | (unsigned)(i % 8));
        picture_random(&random);
        struct picture_file stream = {bytes, sizeof bytes};
        expect_agreement(&stream, small_max, 10, 1000);
    }
}

TEST_MAIN(.name = "inflate")
