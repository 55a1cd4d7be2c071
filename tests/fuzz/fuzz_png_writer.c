/*
 * fuzz_png_writer.c - any bytes as the pixels of an image for the own PNG encoder: libpng and zlib
 * read the file, and the plain kernels write the same one as the fast kernels.
 *
 * The first bytes are the width, the height, the channels and how the others become pixels.
 */
#include <string.h>

#include "tests/fixtures/png_rig.h"
#include "tests/fuzz/fuzz.h"

enum { header_bytes = 6, pixels_max = 1 << 17 };

enum method {
    REPEAT,  /* the bytes again and again */
    STRETCH, /* each byte many times: runs */
    SUM,     /* sums of the bytes: smooth */
    METHODS
};

struct recipe {
    uint32_t width, height, channels, stretch;
    enum method method;
};

static struct recipe read_recipe(const uint8_t *bytes)
{
    static const uint32_t channels[] = {1, 3, 4};
    struct recipe recipe = {.width = 1 + bytes[0] + 256u * bytes[1],
                            .height = 1 + bytes[2],
                            .channels = channels[bytes[3] % 3],
                            .method = bytes[4] % METHODS,
                            .stretch = 1 + bytes[5] * (bytes[5] > 128 ? 64u : 1u)};
    while ((uint64_t)recipe.width * recipe.height * recipe.channels > pixels_max)
        recipe.height = (recipe.height + 1) / 2, recipe.width = (recipe.width + 1) / 2;
    return recipe;
}

/* Rows have no padding, so that a sanitizer sees accesses after them. */
static struct image make_image(const struct recipe *recipe, const uint8_t *bytes, size_t length)
{
    size_t row = (size_t)recipe->width * recipe->channels, count = row * recipe->height;
    struct image image = {.width = recipe->width,
                          .height = recipe->height,
                          .channels = recipe->channels,
                          .stride = row,
                          .pixels = malloc(count)};
    FUZZ_MUST(image.pixels != NULL);
    uint8_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = recipe->method == STRETCH ? i / recipe->stretch : i;
        uint8_t byte = length > 0 ? bytes[at % length] : 0;
        sum = (uint8_t)(sum + (byte & 15) - 7);
        image.pixels[i] = recipe->method == SUM ? sum : byte;
    }
    return image;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    if (length < header_bytes)
        return 0;
    struct recipe recipe = read_recipe(bytes);
    struct image image = make_image(&recipe, bytes + header_bytes, length - header_bytes);
    struct picture_file plain = png_rig_write(&image, &png_kernels_plain);
    struct picture_file fast = png_rig_write(&image, NULL);
    FUZZ_MUST(plain.length == fast.length && memcmp(plain.bytes, fast.bytes, fast.length) == 0);
    FUZZ_MUST(png_rig_fault(&fast, &image) == NULL);
    picture_free(&plain);
    picture_free(&fast);
    free(image.pixels);
    return 0;
}

void fuzz_seeds(fuzz_give *give, void *context)
{
    static const uint8_t recipes[][header_bytes] = {
        {0, 0, 0, 0, REPEAT, 0},    {99, 0, 50, 1, REPEAT, 0},   {99, 0, 50, 2, STRETCH, 20},
        {0, 2, 255, 1, STRETCH, 9}, {0, 64, 9, 2, STRETCH, 200}, {200, 1, 200, 1, SUM, 0},
        {255, 85, 3, 1, SUM, 0},    {0, 0, 255, 0, REPEAT, 0},   {31, 0, 40, 0, SUM, 0},
    };
    uint8_t seed[header_bytes + 400];
    uint32_t random = 9;
    for (size_t i = 0; i < sizeof recipes / sizeof recipes[0]; i++) {
        char name[32];
        memcpy(seed, recipes[i], header_bytes);
        for (size_t at = header_bytes; at < sizeof seed; at++)
            seed[at] = (uint8_t)picture_random(&random);
        snprintf(name, sizeof name, "recipe-%02zu", i);
        give(context, name, seed, sizeof seed);
    }
}
