/* fuzz_avif.c - any bytes as an AVIF file. */
#include <string.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    decode_check(bytes, length);
    return 0;
}

#ifdef GPUIMGD_AVIF

#include <avif/avif.h>

#include "tests/fixtures/avif_boxes.h"

struct kind {
    const char *name;
    avifPixelFormat format;
    uint32_t depth;
    bool alpha, tagged;
    int images; /* 1, 2: a sequence, -2: a grid */
};

static avifImage *image_of(const struct kind *kind)
{
    uint32_t side = kind->images < 0 ? 64 : 9;
    avifImage *image = avifImageCreate(side, side, (int)kind->depth, kind->format);
    avifRGBImage rgb;
    FUZZ_MUST(image != NULL);
    avifRGBImageSetDefaults(&rgb, image);
    rgb.depth = 8;
    rgb.format = kind->alpha ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
    rgb.rowBytes = side * (kind->alpha ? 4 : 3);
    rgb.pixels = picture_pixels(side, side, kind->alpha ? 4 : 3, 1);
    FUZZ_MUST(avifImageRGBToYUV(image, &rgb) == AVIF_RESULT_OK);
    free(rgb.pixels);
    if (kind->tagged) {
        struct picture_file icc = picture_icc(144, "RGB "), exif = picture_exif(6, false, true);
        (void)avifImageSetProfileICC(image, icc.bytes, icc.length);
        (void)avifImageSetMetadataExif(image, exif.bytes, exif.length);
        (void)avifImageSetMetadataXMP(image, (const uint8_t *)"<x:xmpmeta/>", 12);
        picture_free(&icc);
        picture_free(&exif);
    }
    return image;
}

static struct picture_file file_of(const struct kind *kind)
{
    avifEncoder *encoder = avifEncoderCreate();
    avifImage *image = image_of(kind);
    const avifImage *const cells[] = {image, image};
    avifRWData out = AVIF_DATA_EMPTY;
    avifResult result = AVIF_RESULT_OK;
    encoder->speed = AVIF_SPEED_FASTEST;
    if (kind->images < 0)
        result = avifEncoderAddImageGrid(encoder, 2, 1, cells, AVIF_ADD_IMAGE_FLAG_SINGLE);
    for (int i = 0; i < kind->images && result == AVIF_RESULT_OK; i++)
        result = avifEncoderAddImage(encoder, image, 1,
                                     kind->images == 1 ? AVIF_ADD_IMAGE_FLAG_SINGLE
                                                       : AVIF_ADD_IMAGE_FLAG_NONE);
    FUZZ_MUST(result == AVIF_RESULT_OK && avifEncoderFinish(encoder, &out) == AVIF_RESULT_OK);
    struct picture_file whole = {out.data, out.size}, file = picture_cut(&whole, out.size);
    avifRWDataFree(&out);
    avifImageDestroy(image);
    avifEncoderDestroy(encoder);
    return file;
}

void fuzz_seeds(fuzz_give *give, void *context)
{
    static const struct kind kinds[] = {
        {"420.avif", AVIF_PIXEL_FORMAT_YUV420, 8, false, false, 1},
        {"444-tagged.avif", AVIF_PIXEL_FORMAT_YUV444, 8, false, true, 1},
        {"422-deep-alpha.avif", AVIF_PIXEL_FORMAT_YUV422, 10, true, false, 1},
        {"gray.avif", AVIF_PIXEL_FORMAT_YUV400, 8, false, false, 1},
        {"gray-deep.avif", AVIF_PIXEL_FORMAT_YUV400, 12, false, false, 1},
        {"sequence.avif", AVIF_PIXEL_FORMAT_YUV420, 8, true, false, 2},
        {"grid.avif", AVIF_PIXEL_FORMAT_YUV420, 8, true, false, -2},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        fuzz_give_file(give, context, kinds[i].name, file_of(&kinds[i]));
    static const struct {
        const char *name;
        struct avif_pieces pieces;
    } located[] = {
        {"pieces.avif", {2, false, false}},
        {"pieces-idat.avif", {3, false, true}},
        {"overlap.avif", {30, true, false}},
        {"overlap-idat.avif", {2, true, true}},
    };
    for (size_t i = 0; i < sizeof located / sizeof located[0]; i++) {
        struct picture_file file = file_of(&kinds[0]);
        avif_put_in_pieces(&file, &located[i].pieces);
        fuzz_give_file(give, context, located[i].name, file);
    }
    for (size_t i = 0; i < avif_entries_length; i++) {
        struct picture_file file = file_of(&kinds[0]);
        avif_append(&file, &avif_entries[i], 20);
        fuzz_give_file(give, context, avif_entries[i].name, file);
    }
}

#else

void fuzz_seeds(fuzz_give *give, void *context)
{
    give(context, "header.avif", "\0\0\0\x20" "ftypavif\0\0\0\0avif", 20);
}

#endif
