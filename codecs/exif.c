/* exif.c - reads a few tags of EXIF data, and changes them in place. */
#include "codecs/codec_impl.h"
#include "codecs/tiff.h"

bool exif_is_orientation(unsigned type)
{
    return type == TIFF_SHORT || type == TIFF_SSHORT || type == TIFF_LONG || type == TIFF_SLONG;
}

/* Returns the offset of the orientation and sets its size; 0: there is none. EXIF demands one value
 * of type SHORT. Pillow and libvips accept integers of 2 or 4 bytes and use the first one, and so
 * does this function. */
static size_t orientation_at(const struct tiff *tiff, unsigned *bytes)
{
    struct tiff_directory directory = tiff_first_directory(tiff);
    size_t entry = tiff_find(tiff, &directory, TAG_ORIENTATION), values_bytes;
    if (entry == 0)
        return 0;
    unsigned type = tiff_number(tiff, entry + 2, 2);
    if (!exif_is_orientation(type))
        return 0;
    *bytes = type == TIFF_SHORT || type == TIFF_SSHORT ? 2 : 4;
    return tiff_values(tiff, entry, &values_bytes);
}

int exif_orientation(const uint8_t *blob, size_t bytes)
{
    struct tiff tiff;
    unsigned own_bytes;
    if (!tiff_open(&tiff, blob, bytes))
        return 1;
    size_t at = orientation_at(&tiff, &own_bytes);
    uint32_t value = at != 0 ? tiff_number(&tiff, at, own_bytes) : 1;
    return value >= 1 && value <= ORIENTATION_MAX ? (int)value : 1;
}

/* The value of a tag of type RATIONAL, rounded; 0: there is no such tag. */
static uint32_t read_rational(const struct tiff *tiff, const struct tiff_directory *directory,
                              enum tiff_tag tag)
{
    size_t entry = tiff_find(tiff, directory, tag), bytes;
    if (entry == 0 || tiff_number(tiff, entry + 2, 2) != TIFF_RATIONAL)
        return 0;
    size_t at = tiff_values(tiff, entry, &bytes);
    uint64_t over = at != 0 ? tiff_number(tiff, at, 4) : 0;
    uint64_t under = at != 0 ? tiff_number(tiff, at + 4, 4) : 0;
    return under > 0 ? (uint32_t)((over + under / 2) / under) : 0;
}

struct image_density exif_density(const uint8_t *blob, size_t bytes)
{
    enum { cm = 3 };
    struct tiff tiff;
    struct image_density density = {0};
    if (!tiff_open(&tiff, blob, bytes))
        return density;
    struct tiff_directory main = tiff_first_directory(&tiff);
    density.x = read_rational(&tiff, &main, TAG_X_RESOLUTION);
    density.y = read_rational(&tiff, &main, TAG_Y_RESOLUTION);
    if (density.x > 0 && density.y > 0)
        density.unit = tiff_value(&tiff, &main, TAG_RESOLUTION_UNIT) == cm ? DENSITY_CM
                                                                           : DENSITY_INCH;
    return density;
}

/* The directory of EXIF ("Exif IFD"), to which the first directory points. */
static struct tiff_directory exif_directory(const struct tiff *tiff,
                                            const struct tiff_directory *main)
{
    return tiff_directory_at(tiff, tiff_value(tiff, main, TAG_EXIF_IFD));
}

uint16_t exif_colour_space(const uint8_t *data, size_t bytes)
{
    struct tiff tiff;
    if (!tiff_open(&tiff, data, bytes))
        return 0;
    struct tiff_directory main = tiff_first_directory(&tiff), exif = exif_directory(&tiff, &main);
    return (uint16_t)tiff_value(&tiff, &exif, TAG_COLOUR_SPACE);
}

/* Changes the value of a tag if it exists. data: the bytes of `tiff`, but not const. */
static void set_value(uint8_t *data, const struct tiff *tiff,
                      const struct tiff_directory *directory, enum tiff_tag tag, uint32_t value)
{
    size_t entry = tiff_find(tiff, directory, tag);
    unsigned bytes = tiff_value_bytes(tiff, entry);
    if (bytes > 0)
        tiff_write(data + entry + 8, value, bytes, tiff->little);
}

void exif_fit(uint8_t *data, size_t bytes, uint16_t space, const struct metadata_fit *fit)
{
    enum { srgb = 1 };
    struct tiff tiff;
    if (!tiff_open(&tiff, data, bytes))
        return;
    struct tiff_directory main = tiff_first_directory(&tiff), exif = exif_directory(&tiff, &main);
    unsigned own_bytes;
    bool changes = fit->upright || fit->orientation > 0;
    size_t at = changes ? orientation_at(&tiff, &own_bytes) : 0;
    if (at != 0)
        tiff_write(data + at, fit->upright ? 1 : (uint32_t)fit->orientation, own_bytes,
                   tiff.little);
    set_value(data, &tiff, &main, TAG_IMAGE_WIDTH, fit->width);
    set_value(data, &tiff, &main, TAG_IMAGE_LENGTH, fit->height);
    set_value(data, &tiff, &exif, TAG_PIXEL_WIDTH, fit->width);
    set_value(data, &tiff, &exif, TAG_PIXEL_HEIGHT, fit->height);
    if (space != 0)
        set_value(data, &tiff, &exif, TAG_COLOUR_SPACE, fit->in_srgb ? srgb : space);
}
