#include "gpu/avif/entropy/code.h"

#ifdef __x86_64__

#include <emmintrin.h>

/* Adapts eight entries of a CDF after a symbol; `symbol` is its index among them. */
static inline __m128i adapt_eight(__m128i cdf, int symbol, __m128i rate)
{
    const __m128i order = _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7);
    __m128i below = _mm_cmpgt_epi16(_mm_set1_epi16((int16_t)symbol), order);
    /* 32768 less an entry, or the entry; the difference has the opposite sign below the symbol. */
    __m128i rest = _mm_sub_epi16(_mm_set1_epi16(INT16_MIN), cdf);
    rest = _mm_or_si128(_mm_and_si128(below, cdf), _mm_andnot_si128(below, rest));
    __m128i change = _mm_srl_epi16(rest, rate);
    return _mm_add_epi16(cdf, _mm_sub_epi16(_mm_xor_si128(change, below), below));
}

/* As avif_adapt. Entries of padding stay 32768. */
static inline void adapt(uint16_t *cdf, int symbols, int symbol)
{
    uint16_t *counter = cdf + avif_cdf_entries(symbols) - 1, count = *counter;
    __m128i rate = _mm_cvtsi32_si128(3 + (count > 15) + (count > 31) +
                                     avif_min(highest_bit((uint32_t)symbols), 2));
    __m128i *first = (__m128i *)cdf;
    if (symbols <= 4) {
        _mm_storel_epi64(first, adapt_eight(_mm_loadl_epi64(first), symbol, rate));
    } else {
        _mm_storeu_si128(first, adapt_eight(_mm_loadu_si128(first), symbol, rate));
        if (symbols > 8)
            _mm_storeu_si128(first + 1, adapt_eight(_mm_loadu_si128(first + 1), symbol - 8, rate));
    }
    *counter = (uint16_t)(count + (count < CDF_COUNT_MAX));
}

#else

static inline void adapt(uint16_t *cdf, int symbols, int symbol)
{
    avif_adapt(cdf, symbols, symbol);
}

#endif

void avif_code_tokens(struct avif_range_coder *to, struct avif_cdfs *cdfs, const avif_token *tokens,
                      size_t count)
{
    struct avif_range_coder coder = *to;
    for (size_t i = 0; i < count; i++) {
        avif_token token = tokens[i];
        int symbols = (int)(token >> TOKEN_SYMBOLS & 31), symbol = (int)(token >> TOKEN_SYMBOL);
        uint16_t *cdf = (uint16_t *)cdfs + (token & 0xFFFF);
        if (symbols > 1) {
            avif_put_symbol(&coder, cdf, symbols, symbol);
            adapt(cdf, symbols, symbol);
        } else if (symbols == 1) {
            avif_put_edge_split(&coder, cdf, symbol);
        } else {
            avif_put_literal(&coder, token & 0xFFFF, symbol);
        }
    }
    *to = coder;
}
