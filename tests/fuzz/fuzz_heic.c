/* fuzz_heic.c - any bytes as a HEIC file. */
#include "tests/fuzz/fuzz.h"

#include "tests/fixtures/heif_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    decode_check(bytes, length);
    return 0;
}

void fuzz_seeds(fuzz_give *give, void *context)
{
    struct picture_file image = heif_sample(false);
    const struct heif_file kinds[] = {
        {.width = 64, .height = 64},
        {.width = 64, .height = 64, .alpha = &image, .premultiplied = true},
        {.width = 100, .height = 90, .columns = 2, .rows = 2, .cell_width = 64, .cell_height = 64},
        {.width = 64,
         .height = 64,
         .brands = "mif1",
         .properties = "\0\0\0\x09"
                       "irot\1"
                       "\0\0\0\x09"
                       "imir\1",
         .properties_bytes = 18},
    };
    static const char *const names[] = {"built.heic", "built-alpha.heic", "built-grid.heic",
                                        "built-turned.heic"};
    fuzz_give_file(give, context, "alpha.heic", heif_sample(true));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct heif_file options = kinds[i];
        options.images[0] = &image;
        fuzz_give_file(give, context, names[i], heif_build(&options));
    }
    fuzz_give_file(give, context, "colour.heic", image);
}
