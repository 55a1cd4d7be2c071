/* tiff_layout.c - says how the pixels of a TIFF are stored, and refuses what is not read. */
#ifdef GPUIMGD_TIFF

#include "codecs/confined/tiff/tiff_impl.h"

#define SAMPLES_MAX 64
/* Tiles and strips, with which 50 megapixels in tiles of 16 x 16 in four planes fit. */
#define TILES_MAX (1u << 20)
/* A decoded tile of 4,096 x 4,096 pixels with four channels of 16 bits. */
#define TILE_BYTES_MAX (128 * MIB)

/* A value of a tag and its name. */
struct name {
    uint16_t value;
    const char *name;
};

static const char *name_of(const struct name *names, uint16_t value)
{
    for (; names->name; names++)
        if (names->value == value)
            return names->name;
    return "unknown";
}

static bool refuse(struct codec_reply *reply, const char *what, unsigned value, const char *name,
                   const char *wanted)
{
    confined_fail(reply, STATUS_UNSUPPORTED_FORMAT, "the TIFF's %s is %u (%s); it must be %s", what,
                  value, name, wanted);
    return false;
}

/* ---- compression ---------------------------------------------------------------------------- */

static bool check_compression(uint16_t compression, struct codec_reply *reply)
{
    static const uint16_t read[] = {
        COMPRESSION_NONE,          COMPRESSION_CCITTRLE, COMPRESSION_CCITTFAX3,
        COMPRESSION_CCITTFAX4,     COMPRESSION_LZW,      COMPRESSION_JPEG,
        COMPRESSION_ADOBE_DEFLATE, COMPRESSION_DEFLATE,  COMPRESSION_PACKBITS,
        COMPRESSION_LZMA,          COMPRESSION_ZSTD,     COMPRESSION_WEBP};
    static const struct name others[] = {{COMPRESSION_OJPEG, "old-style JPEG"},
                                         {COMPRESSION_CCITTRLEW, "CCITT in words"},
                                         {COMPRESSION_NEXT, "NeXT"},
                                         {COMPRESSION_THUNDERSCAN, "ThunderScan"},
                                         {COMPRESSION_PIXARLOG, "Pixar's logarithms"},
                                         {COMPRESSION_JBIG, "JBIG"},
                                         {COMPRESSION_SGILOG, "LogLuv"},
                                         {COMPRESSION_SGILOG24, "LogLuv of 24 bits"},
                                         {COMPRESSION_JP2000, "JPEG 2000"},
                                         {33003, "JPEG 2000 of Aperio"},
                                         {33005, "JPEG 2000 of Aperio"},
                                         {34892, "lossy JPEG of DNG"},
                                         {COMPRESSION_LERC, "LERC"},
                                         {50002, "JPEG XL"},
                                         {52546, "JPEG XL"},
                                         {0, NULL}};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (compression == read[i] && TIFFIsCODECConfigured(compression))
            return true;
        else if (compression == read[i])
            return refuse(reply, "compression", compression, "which this libtiff does not have",
                          "another one");
    return refuse(reply, "compression", compression, name_of(others, compression),
                  "none, LZW, Deflate, PackBits, JPEG, CCITT, LZMA, Zstandard or WebP");
}

/* ---- colours -------------------------------------------------------------------------------- */

/* The photometric interpretation, which some writers omit: guessed as by libtiff. */
static uint16_t photometric_of(TIFF *tiff, const struct tiff_layout *layout, uint16_t extras)
{
    uint16_t value;
    if (TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &value))
        return value;
    bool is_fax = layout->compression == COMPRESSION_CCITTRLE ||
                  layout->compression == COMPRESSION_CCITTFAX3 ||
                  layout->compression == COMPRESSION_CCITTFAX4;
    return layout->samples - extras >= 3 ? PHOTOMETRIC_RGB
           : is_fax                      ? PHOTOMETRIC_MINISWHITE
                                         : PHOTOMETRIC_MINISBLACK;
}

/* Sets the number of colours by the photometric interpretation. */
static bool read_colours(TIFF *tiff, struct tiff_layout *layout, struct codec_reply *reply)
{
    static const struct name others[] = {{PHOTOMETRIC_MASK, "a transparency mask"},
                                         {PHOTOMETRIC_CIELAB, "CIE L*a*b*"},
                                         {PHOTOMETRIC_ICCLAB, "ICC L*a*b*"},
                                         {PHOTOMETRIC_ITULAB, "ITU L*a*b*"},
                                         {PHOTOMETRIC_LOGL, "LogL"},
                                         {PHOTOMETRIC_LOGLUV, "LogLuv"},
                                         {32803, "a colour filter array of a camera"},
                                         {34892, "linear raw data of a camera"},
                                         {51177, "a depth map"},
                                         {0, NULL}};
    uint16_t ink_set = INKSET_CMYK;
    switch (layout->photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
    case PHOTOMETRIC_PALETTE:
        layout->colours = 1;
        return true;
    case PHOTOMETRIC_RGB:
    case PHOTOMETRIC_YCBCR:
        layout->colours = 3;
        return true;
    case PHOTOMETRIC_SEPARATED:
        (void)TIFFGetField(tiff, TIFFTAG_INKSET, &ink_set);
        layout->colours = 4;
        return ink_set == INKSET_CMYK || refuse(reply, "ink set", ink_set, "not CMYK", "1 (CMYK)");
    default:
        return refuse(reply, "photometric interpretation", layout->photometric,
                      name_of(others, layout->photometric), "gray, a palette, RGB, CMYK or YCbCr");
    }
}

/* Finds the alpha among the samples after the colours. A fourth sample of RGB without a meaning is
 * taken as alpha that is not associated, as by Pillow; one that is said to be unspecified is not
 * alpha. */
static bool read_alpha(struct tiff_layout *layout, const uint16_t *types, uint16_t extras,
                       struct codec_reply *reply)
{
    if (layout->samples < layout->colours) {
        confined_fail(reply, STATUS_DECODE_FAILED,
                      "the TIFF has %u samples per pixel, but its colours need %u", layout->samples,
                      layout->colours);
        return false;
    }
    if (extras == 0 && layout->photometric == PHOTOMETRIC_RGB && layout->samples == 4)
        layout->alpha = 3;
    for (uint16_t i = 0; i < extras && layout->alpha == 0; i++) {
        unsigned index = (unsigned)layout->samples - extras + i;
        if (index >= layout->colours && types[i] != EXTRASAMPLE_UNSPECIFIED) {
            layout->alpha = (uint16_t)index;
            layout->is_associated = types[i] == EXTRASAMPLE_ASSOCALPHA && layout->colours < 4;
        }
    }
    return true;
}

static bool check_samples(TIFF *tiff, struct tiff_layout *layout, struct codec_reply *reply)
{
    static const struct name kinds[] = {{SAMPLEFORMAT_INT, "signed integers"},
                                        {SAMPLEFORMAT_IEEEFP, "floating point"},
                                        {SAMPLEFORMAT_COMPLEXINT, "complex integers"},
                                        {SAMPLEFORMAT_COMPLEXIEEEFP, "complex numbers"},
                                        {0, NULL}};
    enum { bits_max = 16, palette_bits_max = 8 };
    uint16_t format = SAMPLEFORMAT_UINT;
    (void)TIFFGetField(tiff, TIFFTAG_SAMPLEFORMAT, &format);
    if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID)
        return refuse(reply, "sample format", format, name_of(kinds, format),
                      "1 (unsigned integers)");
    bool is_byte = layout->compression == COMPRESSION_JPEG ||
                   layout->compression == COMPRESSION_WEBP ||
                   layout->photometric == PHOTOMETRIC_YCBCR;
    unsigned most = layout->photometric == PHOTOMETRIC_PALETTE ? palette_bits_max : bits_max;
    if (layout->bits == 0 || layout->bits > most || (is_byte && layout->bits != 8)) {
        confined_fail(reply, STATUS_UNSUPPORTED_FORMAT,
                      "the TIFF has %u bits per sample; it must have %s%u", layout->bits,
                      is_byte ? "" : "1 to ", is_byte ? 8 : most);
        return false;
    }
    if (layout->samples > SAMPLES_MAX) {
        confined_fail(reply, STATUS_DECODE_LIMIT, "the TIFF has %u samples per pixel; at most %d",
                      layout->samples, SAMPLES_MAX);
        return false;
    }
    return true;
}

/* YCbCr: libtiff's JPEG decoder converts to RGB. Otherwise its data is blocks of 1 x 1 to 4 x 4
 * pixels, or three planes. */
static bool read_ycc(TIFF *tiff, struct tiff_layout *layout, struct codec_reply *reply)
{
    layout->ycc_columns = layout->ycc_rows = 1;
    if (layout->photometric != PHOTOMETRIC_YCBCR)
        return true;
    if (layout->samples != 3)
        return refuse(reply, "number of samples of YCbCr", layout->samples, "with alpha", "3");
    if (layout->compression == COMPRESSION_JPEG && !layout->is_planar) {
        layout->photometric = PHOTOMETRIC_RGB;
        return TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB) == 1;
    }
    (void)TIFFGetFieldDefaulted(tiff, TIFFTAG_YCBCRSUBSAMPLING, &layout->ycc_columns,
                                &layout->ycc_rows);
    unsigned columns = layout->ycc_columns, rows = layout->ycc_rows;
    if ((columns == 1 || columns == 2 || columns == 4) && (rows == 1 || rows == 2 || rows == 4) &&
        !(layout->is_planar && columns * rows > 1))
        return true;
    confined_fail(
        reply, STATUS_UNSUPPORTED_FORMAT,
        "the TIFF's YCbCr has blocks of %u x %u pixels%s; in one plane it must be 1, 2 or "
        "4, in three planes 1",
        columns, rows, layout->is_planar ? " in planes" : "");
    return false;
}

/* ---- geometry ------------------------------------------------------------------------------- */

static bool read_tiles(TIFF *tiff, struct tiff_layout *layout, struct codec_reply *reply)
{
    layout->is_tiled = TIFFIsTiled(tiff) != 0;
    if (layout->is_tiled) {
        (void)TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &layout->tile_width);
        (void)TIFFGetField(tiff, TIFFTAG_TILELENGTH, &layout->tile_height);
        layout->tiles = TIFFNumberOfTiles(tiff);
        layout->tile_bytes = TIFFTileSize64(tiff);
        layout->row_bytes = TIFFTileRowSize64(tiff);
    } else {
        (void)TIFFGetFieldDefaulted(tiff, TIFFTAG_ROWSPERSTRIP, &layout->tile_height);
        if (layout->tile_height > layout->height)
            layout->tile_height = layout->height;
        layout->tile_width = layout->width;
        layout->tiles = TIFFNumberOfStrips(tiff);
        layout->tile_bytes = TIFFStripSize64(tiff);
        layout->row_bytes = TIFFScanlineSize64(tiff);
    }
    if (layout->tiles == 0 || layout->tile_bytes == 0 || layout->row_bytes == 0 ||
        layout->tile_width == 0 || layout->tile_height == 0) {
        tiff_fail(reply, "has tiles or strips without pixels");
        return false;
    }
    const char *noun = layout->is_tiled ? "tiles" : "strips";
    if (layout->tiles > TILES_MAX)
        confined_fail(reply, STATUS_DECODE_LIMIT, "the TIFF has %u %s; at most %u", layout->tiles,
                      noun, TILES_MAX);
    else if (layout->is_tiled && layout->tile_bytes > TILE_BYTES_MAX)
        confined_fail(reply, STATUS_DECODE_LIMIT,
                      "the TIFF's tiles of %u x %u pixels have %llu bytes; at most %llu",
                      layout->tile_width, layout->tile_height,
                      (unsigned long long)layout->tile_bytes, TILE_BYTES_MAX);
    return reply->status == STATUS_OK;
}

static bool read_sides(TIFF *tiff, struct tiff_layout *layout, struct codec_reply *reply)
{
    (void)TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &layout->width);
    (void)TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &layout->height);
    if (layout->width == 0 || layout->height == 0)
        confined_fail(reply, STATUS_DECODE_FAILED, "the TIFF is %u x %u pixels", layout->width,
                      layout->height);
    else if (layout->width > SIDE_CEILING || layout->height > SIDE_CEILING)
        confined_fail(reply, STATUS_IMAGE_TOO_LARGE,
                      "the TIFF is %u x %u pixels; a side has at "
                      "most %d",
                      layout->width, layout->height, SIDE_CEILING);
    return reply->status == STATUS_OK;
}

bool tiff_read_layout(TIFF *tiff, const struct tiff_numbers *numbers, uint64_t directory,
                      struct tiff_layout *layout, struct codec_reply *reply)
{
    uint16_t planar = PLANARCONFIG_CONTIG, order = FILLORDER_MSB2LSB, extras = 0, *types = NULL;
    *layout = (struct tiff_layout){.bits = 1, .samples = 1, .compression = COMPRESSION_NONE};
    (void)TIFFGetFieldDefaulted(tiff, TIFFTAG_BITSPERSAMPLE, &layout->bits);
    (void)TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &layout->samples);
    (void)TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &layout->compression);
    (void)TIFFGetFieldDefaulted(tiff, TIFFTAG_PLANARCONFIG, &planar);
    (void)TIFFGetFieldDefaulted(tiff, TIFFTAG_FILLORDER, &order);
    /* If the tag is missing, libtiff says that all samples after the first colours are unspecified.
     */
    if (tiff_has_tag(numbers, directory, TIFFTAG_EXTRASAMPLES))
        (void)TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &extras, &types);
    if (extras > layout->samples)
        extras = layout->samples;
    layout->photometric = photometric_of(tiff, layout, extras);
    layout->is_planar = planar == PLANARCONFIG_SEPARATE && layout->samples > 1;
    layout->has_reversed_bits = order == FILLORDER_LSB2MSB;
    if (!read_sides(tiff, layout, reply) || !check_compression(layout->compression, reply) ||
        !read_colours(tiff, layout, reply) || !check_samples(tiff, layout, reply) ||
        !read_alpha(layout, types, extras, reply) || !read_ycc(tiff, layout, reply) ||
        !read_tiles(tiff, layout, reply))
        return false;
    bool is_gray = layout->colours == 1 && layout->photometric != PHOTOMETRIC_PALETTE;
    layout->channels = layout->alpha > 0 ? 4 : is_gray ? 1 : 3;
    return true;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* What the decompressor of an open file holds, in libtiff or in another library. */
static uint64_t codec_bytes(const struct tiff_layout *layout, bool has_scans)
{
    uint64_t pixels = (uint64_t)layout->tile_width * layout->tile_height;
    switch (layout->compression) {
    case COMPRESSION_JPEG: /* all coefficients, or some rows */
        pixels += 64 * (uint64_t)(layout->tile_width + layout->tile_height);
        return (has_scans ? pixels * layout->samples * 2 : 0) + layout->row_bytes * 64 + MIB;
    case COMPRESSION_WEBP: /* the pixels in libwebp, and those of libtiff; tables of lossless files
                            */
        return pixels * 16 + 20 * MIB;
    case COMPRESSION_LZMA: /* a dictionary of 64 MiB: that of `xz -9` */
        return 66 * MIB;
    case COMPRESSION_ZSTD: /* a window of 8 MiB: that of `zstd -19` */
        return 10 * MIB;
    default:
        return MIB / 2 + 16 * (uint64_t)layout->tile_width; /* runs of two rows of CCITT */
    }
}

/* The files that tiff_decode.c opens: one per plane of strips. For each, libtiff has a table with
 * the offset and the size of all tiles, which are copied while they are read. The
 * values of tags are not included: tiff_tags_bytes. */
uint64_t tiff_decode_bytes(const struct tiff_layout *layout, uint64_t file_bytes, bool has_scans)
{
    enum { table_bytes = 40, row_slack = 64 };
    unsigned used = tiff_used_samples(layout);
    uint64_t files = layout->is_planar && !layout->is_tiled ? used : 1;
    uint64_t rows = layout->is_tiled || tiff_is_packed_ycc(layout) ? layout->tile_height : 1;
    uint64_t raw =
        layout->is_tiled || tiff_is_packed_ycc(layout) ? layout->tile_bytes : layout->row_bytes;
    uint64_t copied = layout->has_reversed_bits ? file_bytes : 0;
    return files * (layout->tiles * (uint64_t)table_bytes + codec_bytes(layout, has_scans) +
                    copied + 2 * layout->row_bytes + MIB) +
           raw + rows * layout->width * used * (tiff_is_deep(layout) ? 2 : 1) + row_slack + MIB;
}

#endif
