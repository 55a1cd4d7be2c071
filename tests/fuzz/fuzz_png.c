/*
 * fuzz_png.c - any bytes as a PNG file.
 *
 * Most mutations of a PNG fail at a CRC, so seven of eight mutated files get correct CRCs.
 */
#include <string.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    decode_check(bytes, length);
    return 0;
}

/* From libFuzzer; missing when a corpus is replayed, because nothing is mutated then. */
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *bytes, size_t length, size_t length_max);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t length, size_t length_max, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t length, size_t length_max, unsigned seed)
{
    struct picture_file file = {bytes, LLVMFuzzerMutate(bytes, length, length_max)};
    if (seed % 8 != 0)
        picture_png_fix_crcs(&file);
    return file.length;
}

void fuzz_seeds(fuzz_give *give, void *context)
{
    struct picture_file icc = picture_icc(144, "RGB ");
    const struct picture_png kinds[] = {
        {.width = 9, .height = 7, .colour_type = 0, .bit_depth = 1},
        {.width = 9, .height = 7, .colour_type = 0, .bit_depth = 2, .transparent = true},
        {.width = 9, .height = 7, .colour_type = 0, .bit_depth = 4, .interlaced = true},
        {.width = 9, .height = 7, .colour_type = 0},
        {.width = 9, .height = 7, .colour_type = 0, .bit_depth = 16, .transparent = true},
        {.width = 9, .height = 7, .colour_type = 2, .orientation = 5},
        {.width = 9, .height = 7, .colour_type = 2, .transparent = true, .interlaced = true},
        {.width = 9, .height = 7, .colour_type = 2, .bit_depth = 16},
        {.width = 9, .height = 7, .colour_type = 3, .bit_depth = 1, .transparent = true},
        {.width = 9, .height = 7, .colour_type = 3, .bit_depth = 4, .interlaced = true},
        {.width = 9, .height = 7, .colour_type = 3, .bit_depth = 8, .transparent = true},
        {.width = 9, .height = 7, .colour_type = 4},
        {.width = 9, .height = 7, .colour_type = 4, .bit_depth = 16, .interlaced = true},
        {.width = 9, .height = 7, .colour_type = 6, .level = 9},
        {.width = 9, .height = 7, .colour_type = 6, .bit_depth = 16, .interlaced = true},
        {.width = 1, .height = 1, .colour_type = 6},
        {.width = 9, .height = 7, .colour_type = 2, .icc = icc.bytes, .icc_bytes = icc.length},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, "kind-%02zu.png", i);
        fuzz_give_file(give, context, name, picture_png(&kinds[i]));
    }
    picture_free(&icc);
}
