/*
 * fuzz_png_writer.c - any bytes as the pixels of an image for the own PNG encoder: libpng and zlib
 * read the file, and the plain kernels write the same one as the fast kernels. A palette is exact
 * if it can be, and takes the memory that is reserved for it.
 *
 * The first bytes are the width, the height, the channels and how the others become pixels.
 */
#include <string.h>

#include "codecs/png/png_palette.h"
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

static uint32_t rgba_at(const struct image *image, uint32_t x, uint32_t y)
{
    const uint8_t *pixel = image->pixels + y * image->stride + (size_t)x * image->channels;
    uint32_t c = image->channels;
    uint8_t rgba[4] = {pixel[0], pixel[c > 1], pixel[c > 1 ? 2 : 0], c == 4 ? pixel[3] : 255};
    uint32_t colour;
    memcpy(&colour, rgba, sizeof colour);
    return colour;
}

static int compare_colours(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(uint32_t));
}

static size_t count_colours(const struct image *image)
{
    size_t pixels = (size_t)image->width * image->height, count = 0;
    uint32_t *list = malloc(pixels * sizeof *list);
    FUZZ_MUST(list != NULL);
    for (size_t i = 0; i < pixels; i++)
        list[i] = rgba_at(image, (uint32_t)(i % image->width), (uint32_t)(i / image->width));
    qsort(list, pixels, sizeof *list, compare_colours);
    for (size_t i = 0; i < pixels; i++)
        count += i == 0 || list[i] != list[i - 1];
    free(list);
    return count;
}

static void check_palette(const struct image *image, uint32_t colours)
{
    uint8_t *indices = malloc(image->width);
    memory_peak_start();
    struct png_palette *palette = png_palette_create(image->width, image->height);
    FUZZ_MUST(palette != NULL && indices != NULL);
    const struct png_palette_entries *entries = png_palette_find(palette, image, colours, 0);
    FUZZ_MUST(memory_peak_end() <= png_palette_bytes(image->width, image->height));
    FUZZ_MUST(entries->count >= 1 && entries->count <= colours);
    size_t count = count_colours(image);
    bool is_exact = count <= colours;
    FUZZ_MUST(!is_exact || entries->count == count);
    for (uint32_t y = 0; y < image->height; y++) {
        png_palette_map(palette, image->pixels + y * image->stride, image->width, image->channels,
                        indices);
        for (uint32_t x = 0; x < image->width; x++) {
            uint32_t colour = rgba_at(image, x, y);
            FUZZ_MUST(indices[x] < entries->count);
            FUZZ_MUST(!is_exact || memcmp(&colour, entries->rgba[indices[x]], 4) == 0);
        }
    }
    png_palette_destroy(palette);
    free(indices);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    if (length < header_bytes)
        return 0;
    struct recipe recipe = read_recipe(bytes);
    struct image image = make_image(&recipe, bytes + header_bytes, length - header_bytes);
    struct picture_file plain = png_rig_write(&image, &png_kernels_plain);
    const struct png_kernels *fast_ones[] = {png_kernels_avx2(), png_kernels_avx512()};
    for (int i = 0; i < 2; i++) {
        if (fast_ones[i] == NULL)
            continue;
        struct picture_file fast = png_rig_write(&image, fast_ones[i]);
        FUZZ_MUST(plain.length == fast.length && memcmp(plain.bytes, fast.bytes, fast.length) == 0);
        picture_free(&fast);
    }
    FUZZ_MUST(png_rig_fault(&plain, &image) == NULL);
    picture_free(&plain);
    check_palette(&image, 2 + bytes[0] % (PNG_COLOURS_MAX - 1));
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
