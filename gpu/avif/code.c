#include "gpu/avif/code.h"

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
            avif_adapt(cdf, symbols, symbol);
        } else if (symbols == 1) {
            avif_put_edge_split(&coder, cdf, symbol);
        } else {
            avif_put_literal(&coder, token & 0xFFFF, symbol);
        }
    }
    *to = coder;
}
