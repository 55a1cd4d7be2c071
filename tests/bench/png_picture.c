#include "tests/bench/png_picture.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <zlib.h>

#include "conf/format.h"
#include "tests/fixtures/reference.h"

/* The arguments of nftw's callback. */
static struct {
    struct set *sets;
    size_t count;
    uint32_t part;
} load;

size_t picture_row_bytes(const struct picture *picture)
{
    return (size_t)picture->raster.width * picture->raster.channels;
}

static struct raster middle_of(const struct raster *from)
{
    uint32_t width = PICTURE_WIDTH_MAX / load.part, height = PICTURE_HEIGHT_MAX / load.part;
    if (width > from->width)
        width = from->width;
    if (height > from->height)
        height = from->height;
    struct raster to = raster_make(width, height, from->channels);
    for (uint32_t y = 0; y < height; y++)
        memcpy(raster_at(&to, 0, y),
               raster_at(from, (from->width - width) / 2, (from->height - height) / 2 + y),
               (size_t)width * from->channels);
    return to;
}

void picture_take_apart(struct picture *picture)
{
    const uint8_t *bytes = picture->png.at;
    bytes_reserve(&picture->compressed, picture->png.used);
    bytes_reserve(&picture->filtered, (picture_row_bytes(picture) + 1) * picture->raster.height);
    for (size_t at = 8; at + 12 <= picture->png.used;) {
        size_t count = (size_t)bytes[at] << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 |
                       bytes[at + 3];
        if (memcmp(bytes + at + 4, "IDAT", 4) == 0)
            bytes_append(&picture->compressed, bytes + at + 8, count);
        at += 12 + count;
    }
    uLongf length = picture->filtered.capacity;
    need(uncompress(picture->filtered.at, &length, picture->compressed.at,
                    picture->compressed.used) == Z_OK && length == picture->filtered.capacity,
         "splitting a PNG");
    picture->filtered.used = length;
}

static void add_picture(struct set *set, struct raster raster)
{
    struct picture *picture = &set->pictures[set->count++];
    size_t stride = image_stride(raster.width, raster.channels);
    *picture = (struct picture){.raster = raster,
                                .image = {.width = raster.width, .height = raster.height,
                                          .channels = raster.channels, .stride = stride}};
    picture->image.pixels = malloc(stride * raster.height);
    need(picture->image.pixels != NULL, "memory");
    for (uint32_t y = 0; y < raster.height; y++)
        memcpy(picture->image.pixels + y * stride, raster_at(&raster, 0, y),
               picture_row_bytes(picture));
    const struct bytes *png = encode_codec(picture, encoder_defaults.compression);
    bytes_reserve(&picture->png, png->used);
    bytes_append(&picture->png, png->at, png->used);
    picture_take_apart(picture);
    set->raw_bytes += (double)picture_row_bytes(picture) * raster.height;
}

static int add_file(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    const char *suffix = strrchr(path, '.');
    (void)st, (void)ftw;
    if (kind != FTW_F || !suffix || load.sets[SET_PHOTOGRAPHS].count == load.count ||
        (strcasecmp(suffix, ".jpg") && strcasecmp(suffix, ".jpeg")))
        return 0;
    struct raster colour = raster_load(path, RASTER_COLOUR), luma = raster_load(path, RASTER_LUMA);
    if (colour.pixels && colour.channels == 3 && luma.channels == 1 && colour.width >= 640) {
        struct raster small = middle_of(&luma);
        add_picture(&load.sets[SET_PHOTOGRAPHS], middle_of(&colour));
        add_picture(&load.sets[SET_EDGES],
                    reference_sobel(&small, REFERENCE_HALF, REFERENCE_REFLECT101));
        raster_clear(&small);
    }
    raster_clear(&colour);
    raster_clear(&luma);
    return 0;
}

void sets_load(struct set sets[SETS], const char *folder, size_t count, uint32_t part)
{
    sets[SET_PHOTOGRAPHS] = (struct set){.name = "photographs"};
    sets[SET_EDGES] = (struct set){.name = "edges"};
    load.sets = sets;
    load.count = count;
    load.part = part;
    nftw(folder, add_file, 16, FTW_PHYS);
    need(sets[SET_PHOTOGRAPHS].count > 0, "finding a photograph 640 pixels wide or more");
}
