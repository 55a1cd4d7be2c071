/*
 * png_put_avx512.c - writes tokens with AVX-512 (png_kernels.h): its permutations of bytes look up
 * the codes of 64 literals at once.
 */
#include "codecs/png/png_kernels.h"

#ifdef __x86_64__

#include <immintrin.h>

#define AVX512        __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,bmi,bmi2")))
#define AVX512_ALWAYS AVX512 static inline __attribute__((always_inline))

enum { group = 64, quad = 4, quads = group / quad };

/* The codes of all literals. */
struct literals {
    __m512i low[4], high[4], lengths[4]; /* low and high bytes of their bits */
};

/* Four tokens each: their bits, and the number of bits in the lowest byte. */
struct codes {
    uint64_t bits[quads], lengths[quads];
};

AVX512_ALWAYS struct literals load_literals(const struct png_block *block)
{
    uint8_t low[256], high[256];
    struct literals literals;
    for (int i = 0; i < 256; i += 16) {
        __m512i bits = _mm512_loadu_si512(block->token_bits + i);
        _mm_storeu_si128((__m128i *)(low + i), _mm512_cvtepi32_epi8(bits));
        _mm_storeu_si128((__m128i *)(high + i), _mm512_cvtepi32_epi8(_mm512_srli_epi32(bits, 8)));
    }
    for (int i = 0; i < 4; i++) {
        literals.low[i] = _mm512_loadu_si512(low + i * 64);
        literals.high[i] = _mm512_loadu_si512(high + i * 64);
        literals.lengths[i] = _mm512_loadu_si512(block->token_lengths + i * 64);
    }
    return literals;
}

AVX512_ALWAYS __m512i look_up(__m512i bytes, __mmask64 upper, const __m512i table[4])
{
    return _mm512_mask_blend_epi8(upper, _mm512_permutex2var_epi8(table[0], bytes, table[1]),
                                  _mm512_permutex2var_epi8(table[2], bytes, table[3]));
}

/* Joins the codes of neighbours: first two, then four. */
AVX512_ALWAYS void join(__m512i bits, __m512i lengths, uint64_t *to_bits, uint64_t *to_lengths)
{
    enum { and_or = 0xEA }; /* (a & b) | c */
    const __m512i ones = _mm512_set1_epi16(1), low16 = _mm512_set1_epi32(0xFFFF),
                  low32 = _mm512_set1_epi64(0xFFFFFFFF);
    __m512i second =
        _mm512_sllv_epi32(_mm512_srli_epi32(bits, 16), _mm512_and_si512(lengths, low16));
    bits = _mm512_ternarylogic_epi32(bits, low16, second, and_or);
    lengths = _mm512_madd_epi16(lengths, ones);
    second = _mm512_sllv_epi64(_mm512_srli_epi64(bits, 32), _mm512_and_si512(lengths, low32));
    _mm512_storeu_si512(to_bits, _mm512_ternarylogic_epi64(bits, low32, second, and_or));
    _mm512_storeu_si512(to_lengths, _mm512_add_epi64(lengths, _mm512_srli_epi64(lengths, 32)));
}

/* Sets the codes of `group` tokens as if all were literals. Returns which are matches. The halves
 * of the codes are those of the lower and upper 8 tokens of each 16. */
AVX512_ALWAYS uint64_t code_group(const struct literals *literals, const uint16_t *tokens,
                                  struct codes *codes)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i first = _mm512_loadu_si512(tokens), rest = _mm512_loadu_si512(tokens + 32);
    __m512i bytes = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(first)),
                                       _mm512_cvtepi16_epi8(rest), 1);
    const __m512i most = _mm512_set1_epi16(255);
    uint64_t matches =
        (uint64_t)_mm512_cmpgt_epi16_mask(rest, most) << 32 | _mm512_cmpgt_epi16_mask(first, most);
    __mmask64 upper = _mm512_movepi8_mask(bytes);
    __m512i low = look_up(bytes, upper, literals->low);
    __m512i high = look_up(bytes, upper, literals->high);
    __m512i lengths = look_up(bytes, upper, literals->lengths);
    join(_mm512_unpacklo_epi8(low, high), _mm512_unpacklo_epi8(lengths, zero), codes->bits,
         codes->lengths);
    join(_mm512_unpackhi_epi8(low, high), _mm512_unpackhi_epi8(lengths, zero),
         codes->bits + quads / 2, codes->lengths + quads / 2);
    return matches;
}

/* Where the codes of a quad of a group are. */
AVX512_ALWAYS unsigned place_of(unsigned at)
{
    return (at >> 1 & 1) * quads / 2 + (at >> 2) * 2 + (at & 1);
}

/* Sets the codes of quads that have matches. Returns false if one has more bits than fit. */
AVX512_ALWAYS bool code_matches(const struct png_block *block, const uint16_t *tokens,
                                uint64_t matches, struct codes *codes)
{
    unsigned most = 0;
    while (matches != 0) {
        unsigned at = (unsigned)__builtin_ctzll(matches) / quad, length = 0;
        uint64_t bits = 0;
#pragma GCC unroll 4
        for (unsigned i = 0; i < quad; i++) {
            unsigned token = tokens[at * quad + i];
            bits |= (uint64_t)block->token_bits[token] << (length & 63);
            length += block->token_lengths[token];
        }
        codes->bits[place_of(at)] = bits;
        codes->lengths[place_of(at)] = length;
        most = length > most ? length : most;
        matches &= ~(0xFull << at * quad);
    }
    return most <= 56;
}

/* Whether correcting the codes of matches takes longer than the literals gain. */
static bool has_many_matches(const struct png_block *block, size_t count)
{
    enum { literals_per_match = 24 };
    uint32_t matches = 0;
    for (int token = 256; token < PNG_TOKENS; token++)
        matches += block->counts[0][token];
    return matches * literals_per_match > count;
}

AVX512 static void put_any(const struct png_block *block, const uint16_t *tokens, size_t count,
                           struct png_bits *bits)
{
    png_put_any(block, tokens, count, bits);
}

AVX512 static void put_groups(const struct png_block *block, const uint16_t *tokens, size_t count,
                              struct png_bits *to)
{
    const struct literals literals = load_literals(block);
    struct codes codes;
    struct png_bits bits = *to; /* in registers */
    for (size_t at = 0; at < count; at += group) {
        uint64_t matches = code_group(&literals, tokens + at, &codes);
        if (!code_matches(block, tokens + at, matches, &codes)) {
            *to = bits;
            put_any(block, tokens + at, group, to);
            bits = *to;
            continue;
        }
#pragma GCC unroll 16
        for (unsigned i = 0; i < quads; i++)
            png_bits_add(&bits, codes.bits[place_of(i)], (uint8_t)codes.lengths[place_of(i)]);
    }
    *to = bits;
}

void png_put_avx512(const struct png_block *block, const uint16_t *tokens, size_t count,
                    struct png_bits *bits)
{
    size_t grouped = has_many_matches(block, count) ? 0 : count / group * group;
    if (grouped > 0)
        put_groups(block, tokens, grouped, bits);
    put_any(block, tokens + grouped, count - grouped, bits);
}

#endif
