#include "tests/bench/png_reading.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <png.h>

#include "tests/fixtures/measure.h"

#define ROUNDS_MAX 31

static const struct decoder {
    const char *name;
    png_decode *decode;
} decoders[] = {
    {"codecs/png", decode_codec},
    {"libpng", decode_libpng},
#ifdef HAVE_SPNG
    {"libspng", decode_spng},
#endif
    {"zlib alone", decode_zlib},
#ifdef HAVE_LIBDEFLATE
    {"libdeflate alone", decode_libdeflate},
#endif
};
#define DECODERS (sizeof decoders / sizeof *decoders)

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    if (!memory)
        exit(1);
    return memory;
}

/* The green samples are gray enough; the red ones become alpha. */
static void convert(const struct picture *from, uint32_t channels, struct picture *to)
{
    static const uint8_t source[5][4] = {[1] = {1}, [3] = {0, 1, 2}, [4] = {0, 1, 2, 0}};
    size_t pixels = (size_t)from->raster.width * from->raster.height;
    *to = *from;
    to->raster.channels = to->image.channels = channels;
    to->image.stride = image_stride(from->image.width, channels);
    to->raster.pixels = allocate(pixels * channels);
    to->image.pixels = allocate(to->image.stride * to->image.height);
    for (size_t i = 0; i < pixels; i++)
        for (uint32_t c = 0; c < channels; c++)
            to->raster.pixels[i * channels + c] =
                from->raster.pixels[i * from->raster.channels +
                                    (from->raster.channels == 1 ? 0 : source[channels][c])];
    for (uint32_t y = 0; y < to->image.height; y++)
        memcpy(to->image.pixels + y * to->image.stride,
               to->raster.pixels + (size_t)y * to->image.width * channels,
               (size_t)to->image.width * channels);
}

static void encode(struct picture *picture, bool by_codec)
{
    const struct bytes *png =
        by_codec ? encode_codec(picture, &(struct png_settings){.level = -1})
                 : encode_libpng(picture, &(struct png_settings){6, PNG_ALL_FILTERS, 1});
    picture->png = (struct bytes){allocate(png->used), png->used, png->used};
    memcpy(picture->png.at, png->at, png->used);
    picture_take_apart(picture);
}

static void release(struct picture *picture)
{
    free(picture->png.at);
    free(picture->filtered.at);
    free(picture->compressed.at);
    free(picture->raster.pixels);
    free(picture->image.pixels);
}

/* Times all decoders in turns. */
static void report(const char *name, struct picture *pictures, size_t count, unsigned rounds)
{
    static double times[DECODERS][ROUNDS_MAX];
    double pixels = 0;
    for (size_t i = 0; i < count; i++)
        pixels += (double)pictures[i].image.width * pictures[i].image.height;
    for (unsigned r = 0; r < rounds; r++)
        for (size_t d = 0; d < DECODERS; d++) {
            double start = clock_s(CLOCK_THREAD_CPUTIME_ID);
            for (size_t i = 0; i < count; i++)
                decoders[d].decode(&pictures[i]);
            times[d][r] = (clock_s(CLOCK_THREAD_CPUTIME_ID) - start) / pixels * 1e9;
        }
    printf("%-24s", name);
    for (size_t d = 0; d < DECODERS; d++)
        printf(" %16.2f", median(times[d], rounds));
    printf(" %7.2f\n", median(times[1], rounds) / median(times[0], rounds));
}

static void each_writer(const struct set *set, uint32_t channels, const char *name, unsigned rounds,
                        reading_row *row)
{
    static const char *const writers[] = {"libpng", "codec"};
    for (int by_codec = 0; by_codec < 2; by_codec++) {
        struct picture pictures[PICTURES_MAX];
        char label[64];
        for (size_t i = 0; i < set->count; i++) {
            convert(&set->pictures[i], channels, &pictures[i]);
            encode(&pictures[i], by_codec != 0);
        }
        snprintf(label, sizeof label, "%s, by %s", name, writers[by_codec]);
        row(label, pictures, set->count, rounds);
        for (size_t i = 0; i < set->count; i++)
            release(&pictures[i]);
    }
}

void reading_each(const struct set *photographs, const struct set *edges, unsigned rounds,
                  reading_row *row)
{
    each_writer(photographs, 3, "RGB photographs", rounds, row);
    each_writer(photographs, 4, "RGBA photographs", rounds, row);
    each_writer(photographs, 1, "gray photographs", rounds, row);
    each_writer(edges, 1, "edges", rounds, row);
}

void reading_compare(const struct set *photographs, const struct set *edges, unsigned rounds)
{
    printf("%-24s", "ms per MP of CPU");
    for (size_t d = 0; d < DECODERS; d++)
        printf(" %16s", decoders[d].name);
    printf(" %7s\n", "ratio");
    reading_each(photographs, edges, rounds, report);
}
