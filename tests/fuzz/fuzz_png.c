/*
 * fuzz_png.c - any bytes as a PNG file. The reader gives what libpng alone gives.
 *
 * Most mutations of a PNG fail at a CRC, so seven of eight mutated files get correct CRCs.
 */
#include <string.h>

#include "codecs/png/png_state.h"
#include "tests/fixtures/apng_file.h"
#include "tests/fuzz/fuzz.h"

/* Small, as in decode.c. */
static const struct codec_limits limits = {.pixels_max = 400000, .side_max = 4000};

/* Decodes into a new block, which the caller frees. */
static struct image decode_as(codec_decode_fn *decode, const uint8_t *bytes, size_t length,
                              const struct codec_limits *with, const struct image_info *info,
                              struct error *error)
{
    static struct png_state state;
    struct decode_request request = {0};
    struct image image = {NULL, info->width, info->height, info->channels,
                          image_stride(info->width, info->channels)};
    image.pixels = calloc(image.height, image.stride);
    FUZZ_MUST(image.pixels != NULL);
    enum status status = decode(&state, bytes, length, info, &request, with, &image, error);
    FUZZ_MUST(status == error->status);
    return image;
}

static void compare_with_libpng(const uint8_t *bytes, size_t length)
{
    struct codec_limits with = limits;
    struct image_info info;
    struct error error = {0}, own_error = {0}, plain_error = {0};
    with.lenient = length % 4 == 0;
    enum status status = codec_probe(fuzz_codec(), bytes, length, &with, &info, &error);
    if (status == STATUS_OK && info.format == &formats[FORMAT_png]) {
        struct image own = decode_as(png_decode, bytes, length, &with, &info, &own_error);
        struct image plain =
            decode_as(png_decode_by_libpng, bytes, length, &with, &info, &plain_error);
        FUZZ_MUST(own_error.status == plain_error.status);
        FUZZ_MUST(strcmp(own_error.text, plain_error.text) == 0);
        FUZZ_MUST(own_error.status != STATUS_OK ||
                  memcmp(own.pixels, plain.pixels, own.stride * own.height) == 0);
        free(own.pixels);
        free(plain.pixels);
    }
    image_info_clear(&info);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    decode_check(bytes, length);
    compare_with_libpng(bytes, length);
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

/* Animations, whose default image is the first frame or none. */
static void give_animations(fuzz_give *give, void *context)
{
    static const int types[] = {0, 2, 3, 4, 6};
    for (int i = 0; i < 10; i++) {
        char name[32];
        struct picture_png all = {.width = 9,
                                  .height = 7,
                                  .colour_type = types[i % 5],
                                  .bit_depth = i == 1 || i == 8 ? 16 : 8,
                                  .transparent = i % 5 < 3 && i >= 5,
                                  .interlaced = i % 3 == 1},
                           part = all;
        part.width = 4;
        part.height = 5;
        part.seed = 3;
        const struct apng_part frames[] = {
            {.image = all, .disposal = 2, .delay = 1},
            {.image = part, .x = 5, .y = 1, .disposal = 1, .blend = 1, .delay = 7},
            {.image = part, .x = 2, .y = 2, .disposal = 2},
            {.image = part, .blend = 1}};
        struct apng_file apng = {.frames = frames,
                                 .count = 4,
                                 .plays = 2,
                                 .hidden = i >= 5 ? &all : NULL,
                                 .pieces = (uint32_t)i % 3};
        snprintf(name, sizeof name, "animation-%d.png", i);
        fuzz_give_file(give, context, name, apng_write(&apng));
    }
}

void fuzz_seeds(fuzz_give *give, void *context)
{
    give_animations(give, context);
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
