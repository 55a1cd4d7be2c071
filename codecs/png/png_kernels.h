/*
 * png_kernels.h - the loops of the PNG writer over all bytes, in plain C, with AVX2 and with
 * AVX-512. The reader uses the checksums.
 *
 * All give the same results: those of png_tiles.h. Each thread may call them.
 */
#pragma once

#include "codecs/png/png_block.h"

/* Bytes before and after rows and tiles that the loops may read, and after their outputs also
 * write. They have any value, but for those before a row: see png_choose_fn. */
#define PNG_PAD 128

/* Returns the filter of a row. Before both rows are `channels` zero bytes. above: zero bytes for
 * the first row. */
typedef int png_choose_fn(const uint8_t *row, const uint8_t *above, size_t bytes,
                          uint32_t channels);
/* Filters such a row. */
typedef void png_filter_fn(int filter, const uint8_t *row, const uint8_t *above, size_t bytes,
                           uint32_t channels, uint8_t *to);
/* Sets the tokens of a tile: a literal's byte, or 256 and the length of a match. bytes[-1] is the
 * byte before the tile. Returns their number. *repeats: of the bytes */
typedef size_t png_tokens_fn(const uint8_t *bytes, size_t count, uint32_t run_min, uint16_t *tokens,
                             uint32_t *repeats);
/* As adler32 and crc32 of zlib. */
typedef uint32_t png_sum_fn(uint32_t sum, const uint8_t *bytes, size_t count);

struct png_kernels {
    png_choose_fn *choose;
    png_filter_fn *filter;
    png_tokens_fn *tokens;
    png_put_fn *put;
    png_sum_fn *adler, *crc;
};

extern const struct png_kernels png_kernels_plain;
/* NULL: this processor has no AVX2, or the program is not for x86-64. */
const struct png_kernels *png_kernels_avx2(void);
/* NULL: it has no AVX-512 with permutations of bytes (VBMI), either. */
const struct png_kernels *png_kernels_avx512(void);
const struct png_kernels *png_kernels_fastest(void);
#ifdef __x86_64__
png_put_fn png_put_avx512;
#endif
