/* fuzz_jpeg.c - any bytes as a JPEG file. */
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    decode_check(bytes, length);
    return 0;
}

void fuzz_seeds(fuzz_give *give, void *context)
{
    struct picture_file icc = picture_icc(144, "RGB ");
    const struct picture_jpeg kinds[] = {
        {.width = 17, .height = 9},
        {.width = 17, .height = 9, .subsampling = 422},
        {.width = 17, .height = 9, .subsampling = 444, .quality = 30},
        {.width = 17, .height = 9, .colour = PICTURE_GRAY},
        {.width = 17, .height = 9, .colour = PICTURE_RGB},
        {.width = 17, .height = 9, .colour = PICTURE_CMYK},
        {.width = 17, .height = 9, .colour = PICTURE_YCCK},
        {.width = 17, .height = 9, .colour = PICTURE_TWO},
        {.width = 17, .height = 9, .progressive = true},
        {.width = 17, .height = 9, .progressive = true, .arithmetic = true},
        {.width = 17, .height = 9, .progressive = true, .scans = 30},
        {.width = 8, .height = 8, .scans = 120},
        {.width = 17, .height = 9, .separate = true},
        {.width = 17, .height = 9, .arithmetic = true},
        {.width = 17, .height = 40, .restart_rows = 1},
        {.width = 1, .height = 1},
        {.width = 17, .height = 9, .orientation = 7, .icc = icc.bytes, .icc_bytes = icc.length},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, "kind-%02zu.jpg", i);
        fuzz_give_file(give, context, name, picture_jpeg(&kinds[i]));
    }
    picture_free(&icc);
}
