/* fuzz_tiff.c - any bytes as a TIFF. */
#include <string.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    decode_check(bytes, length);
    return 0;
}

#ifdef GPUIMGD_TIFF

#include <tiffio.h>

#include "tests/fixtures/tiff_file.h"

void fuzz_seeds(fuzz_give *give, void *context)
{
    struct picture_file icc = picture_icc(144, "RGB ");
    static const struct {
        const char *name, *mode;
        struct tiff_page page;
    } seeds[] = {
        {"rgb.tif", "wl", {.photometric = PHOTOMETRIC_RGB, .artist = "Ada"}},
        {"planes.tif", "wb", {.photometric = PHOTOMETRIC_RGB, .planar = true, .bits = 16}},
        {"big.tif",
         "w8",
         {.photometric = PHOTOMETRIC_MINISBLACK,
          .extra = 2,
          .predictor = true,
          .compression = COMPRESSION_LZW}},
        {"tiles.tif",
         "wl",
         {.photometric = PHOTOMETRIC_SEPARATED,
          .tile = 16,
          .compression = COMPRESSION_ADOBE_DEFLATE}},
        {"palette.tif",
         "wl",
         {.photometric = PHOTOMETRIC_PALETTE, .bits = 4, .compression = COMPRESSION_PACKBITS}},
        {"g4.tif", "wl", {.bits = 1, .reversed = true, .compression = COMPRESSION_CCITTFAX4}},
        {"g3.tif", "wb", {.bits = 1, .compression = COMPRESSION_CCITTFAX3}},
        {"jpeg.tif",
         "wl",
         {.photometric = PHOTOMETRIC_YCBCR,
          .ycc_columns = 2,
          .ycc_rows = 2,
          .rows = 16,
          .compression = COMPRESSION_JPEG}},
        {"ycc.tif",
         "wl",
         {.photometric = PHOTOMETRIC_YCBCR, .ycc_columns = 2, .ycc_rows = 2, .rows = 8}},
    };
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        struct tiff_page pages[] = {seeds[i].page, seeds[i].page};
        pages[0].width = pages[1].height = 19;
        pages[0].height = pages[1].width = 13;
        pages[0].icc = i % 3 == 0 ? &icc : NULL;
        fuzz_give_file(give, context, seeds[i].name, tiff_file(seeds[i].mode, pages, 1 + i % 2));
    }
    picture_free(&icc);
}

#else

void fuzz_seeds(fuzz_give *give, void *context)
{
    give(context, "header.tif", "II*\0\x08\0\0\0\0\0", 10);
}

#endif
