/* table.c - the list of operations, in the order of the manual. */
#include "gpu/plan/op.h"

#define TABLE(X)                                                                                   \
    X(grayscale)                                                                                   \
    X(sobel)                                                                                       \
    X(canny)                                                                                       \
    X(resize)                                                                                      \
    X(crop)                                                                                        \
    X(pad)                                                                                         \
    X(rotate)                                                                                      \
    X(flip)                                                                                        \
    X(transpose)                                                                                   \
    X(invert)                                                                                      \
    X(gamma)                                                                                       \
    X(levels)                                                                                      \
    X(threshold)                                                                                   \
    X(color_matrix)                                                                                \
    X(to_srgb)                                                                                     \
    X(gaussian)                                                                                    \
    X(unsharp)                                                                                     \
    X(convolve)                                                                                    \
    X(median)                                                                                      \
    X(composite)                                                                                   \
    X(text)                                                                                        \
    X(equalize)                                                                                    \
    X(otsu)                                                                                        \
    X(histogram)                                                                                   \
    X(stats)                                                                                       \
    X(palette)                                                                                     \
    X(phash)                                                                                       \
    X(blurhash)                                                                                    \
    X(thumbhash)

#define X(name) extern const struct op op_##name;
TABLE(X)
#undef X

const struct op *const op_table[] = {
#define X(name) &op_##name,
    TABLE(X)
#undef X
};
const size_t op_count = sizeof(op_table) / sizeof(op_table[0]);
