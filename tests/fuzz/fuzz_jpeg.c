/* fuzz_jpeg.c - any bytes as a JPEG file. Progressive files are also decoded by libjpeg alone. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "codecs/jpeg/jpeg_state.h"
#include "tests/fixtures/progressive.h"

enum { pixels_max = 40000 };

/* Decodes, and returns the pixels. */
static uint8_t *pixels_of(struct jpeg_state *state, const uint8_t *bytes, size_t length,
                          const struct image_info *info, const struct decode_request *request,
                          const struct codec_limits *limits, struct error *error)
{
    struct image image = {.width = image_scaled(info->width, request->eighths),
                          .height = image_scaled(info->height, request->eighths),
                          .channels = request->as == DECODE_LUMA ? 1 : info->channels};
    image.stride = image_stride(image.width, image.channels);
    image.pixels = calloc(image.height, image.stride);
    FUZZ_MUST(image.pixels != NULL);
    codec_jpeg.decode(state, bytes, length, info, request, limits, &image, error);
    if (error->status != STATUS_OK)
        memset(image.pixels, 0, image.height * image.stride);
    return image.pixels;
}

/* Checks that the row decoder does not change a result. */
static void check_rows(const uint8_t *bytes, size_t length)
{
    static struct jpeg_state ours, libjpeg = {.by_libjpeg = true};
    struct codec_limits limits = {.pixels_max = pixels_max, .side_max = pixels_max,
                                  .jpeg_scans_max = JPEG_SCANS_DEFAULT,
                                  .jpeg_warnings_max = JPEG_WARNINGS_MAX,
                                  .lenient = length % 4 == 0};
    struct image_info info;
    struct error error = {0}, our_error = {0}, other_error = {0};
    enum status status = codec_probe(fuzz_codec(), bytes, length, &limits, &info, &error);
    struct decode_request request = {.as = (enum decode_as)(length % 3),
                                     .eighths = 1u << length / 3 % 4};
    if (status == STATUS_OK && info.progressive && info.format == &formats[FORMAT_jpeg]) {
        if (!info.ycc)
            request.as = DECODE_COLOUR;
        uint8_t *a = pixels_of(&ours, bytes, length, &info, &request, &limits, &our_error);
        /* Only libjpeg finds damage in scans that the request does not need. */
        limits.lenient |= our_error.status == STATUS_OK && ours.by_rows &&
                          (request.as == DECODE_LUMA || request.eighths == 1);
        uint8_t *b = pixels_of(&libjpeg, bytes, length, &info, &request, &limits, &other_error);
        uint32_t channels = request.as == DECODE_LUMA ? 1 : info.channels;
        size_t stride = image_stride(image_scaled(info.width, request.eighths), channels);
        FUZZ_MUST(our_error.status == other_error.status);
        FUZZ_MUST(strcmp(our_error.text, other_error.text) == 0);
        FUZZ_MUST(memcmp(a, b, stride * image_scaled(info.height, request.eighths)) == 0);
        free(a);
        free(b);
    }
    image_info_clear(&info);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    decode_check(bytes, length);
    check_rows(bytes, length);
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
        {.width = 33, .height = 40, .progressive = true, .restart_rows = 1},
        {.width = 17, .height = 9, .progressive = true, .colour = PICTURE_GRAY},
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
    for (unsigned script = 1; script <= PROGRESSIVE_GRAY_SCRIPTS; script++) {
        bool colour = script <= PROGRESSIVE_COLOUR_SCRIPTS;
        char name[32];
        snprintf(name, sizeof name, "script-%u.jpg", script);
        fuzz_give_file(give, context, name,
                       progressive_make(&(struct progressive_options){
                           .width = 30, .height = 20, .quality = 80, .h = colour ? 2 : 0, .v = 1,
                           .script = script, .restart = script % 2,
                           .pattern = PROGRESSIVE_SMOOTH}));
    }
    picture_free(&icc);
}
