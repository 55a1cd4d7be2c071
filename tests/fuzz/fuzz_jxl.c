/* fuzz_jxl.c - any bytes as a JPEG XL file. */
#include <string.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    decode_check(bytes, length);
    return 0;
}

#ifdef GPUIMGD_JXL

#include "tests/fixtures/jxl_file.h"

void fuzz_seeds(fuzz_give *give, void *context)
{
    struct picture_file exif = picture_exif(6, false, true);
    struct picture_file xmp = {(uint8_t *)(uintptr_t) "<x:xmpmeta/>", 12};
    struct picture_file jpeg = make_jpeg(.width = 17, .height = 9);
    const struct {
        const char *name;
        struct jxl_file file;
    } kinds[] = {
        {"lossless.jxl", {.width = 9, .height = 9}},
        {"lossy.jxl", {.width = 9, .height = 9, .quality = 10}},
        {"alpha.jxl", {.width = 9, .height = 9, .channels = 4, .quality = 10}},
        {"gray-alpha.jxl", {.width = 9, .height = 9, .channels = 2, .depth = 16}},
        {"gray.jxl", {.width = 9, .height = 9, .channels = 1, .depth = 10}},
        {"float.jxl", {.width = 9, .height = 9, .depth = 32, .linear = true}},
        {"squeezed.jxl", {.width = 9, .height = 9, .modular = true, .responsive = true}},
        {"animation.jxl", {.width = 9, .height = 9, .frames = 2, .channels = 4}},
        {"layers.jxl", {.width = 9, .height = 9, .layers = 2}},
        {"cmyk.jxl", {.width = 9, .height = 9, .black = true}},
        {"premultiplied.jxl", {.width = 9, .height = 9, .channels = 4, .premultiplied = true}},
        {"tagged.jxl", {.width = 9, .height = 9, .orientation = 6, .exif = &exif, .xmp = &xmp}},
        {"packed.jxl", {.width = 9, .height = 9, .packed = true, .exif = &exif, .xmp = &xmp}},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        fuzz_give_file(give, context, kinds[i].name, jxl_file(&kinds[i].file));
    fuzz_give_file(give, context, "of-jpeg.jxl", jxl_of_jpeg(&jpeg));
    picture_free(&jpeg);
    picture_free(&exif);
}

#else

void fuzz_seeds(fuzz_give *give, void *context)
{
    give(context, "header.jxl", "\xFF\x0A\0\0", 4);
}

#endif
