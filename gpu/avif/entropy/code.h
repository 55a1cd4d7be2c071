/* code.h - stage D: writes tokens with the range coder, and adapts their contexts. */
#pragma once

#include "gpu/avif/entropy/range_coder.h"

void avif_code_tokens(struct avif_range_coder *to, struct avif_cdfs *cdfs, const avif_token *tokens,
                      size_t count);
