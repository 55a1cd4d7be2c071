/*
 * tiff_decode.c - reads the pixels of a TIFF (tiff_impl.h).
 *
 * Each row is read as packed samples: of each pixel its colours, then its alpha, with 8 bits, or
 * with 16 for a deep image. Then its colours are converted. Strips are decompressed row by row. So
 * a file may have the whole image in one strip, and a decode holds a few rows. Each plane of such a
 * file is read with a TIFF of its own. Tiles, and strips of YCbCr in blocks, are decompressed as a
 * whole: a band of rows.
 */
#ifdef GPUIMGD_TIFF

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/confined/tiff/tiff_impl.h"

/* Bytes after a row, which the loop for odd numbers of bits reads. */
#define SLACK    8
#define USED_MAX 5 /* CMYK and alpha */

struct reader {
    struct confined_source *source;
    struct tiff_numbers numbers;
    uint64_t directory; /* of the page */
    uint64_t block_max; /* the largest block of memory of libtiff: a table of tiles, a copy of the
                           file, or a strip of WebP */
    struct tiff_layout layout;
    unsigned used;               /* samples that are read of a pixel */
    unsigned sample_bytes;       /* of a packed sample: 1, or 2 for a deep image */
    TIFF *tiffs[USED_MAX];       /* by plane; only the first one unless strips are in planes */
    uint8_t *raw;                /* a decompressed row, tile or strip */
    uint8_t *band;               /* packed samples */
    uint32_t band_from, band_to; /* its rows */
    uint8_t *scaled;             /* samples of other than 8 and 16 bits as 8 bits */
    uint8_t map[3][256];         /* the palette */
    TIFFYCbCrToRGB *ycc;
    struct codec_reply *reply;
};

/* ---- samples -------------------------------------------------------------------------------- */

/* Rounds to nearest, as libpng's png_set_scale_16. */
static uint8_t scale(unsigned value, unsigned most)
{
    return (uint8_t)((value * 255 + most / 2) / most);
}

/* The sample `index` of a row. */
static unsigned bits_at(const uint8_t *row, size_t index, unsigned bits)
{
    size_t at = index * bits;
    const uint8_t *bytes = row + at / 8;
    uint32_t three = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
    return three >> (24 - at % 8 - bits) & ((1u << bits) - 1);
}

/* As take_sample, for a deep image. */
static void take_deep(const struct reader *reader, const uint8_t *row, unsigned first,
                      unsigned step, uint32_t count, uint16_t *to)
{
    unsigned bits = reader->layout.bits, used = reader->used, most = (1u << bits) - 1;
    const uint16_t *wide = (const uint16_t *)row;
    for (uint32_t i = 0; i < count; i++) {
        size_t index = (size_t)i * step + first;
        to[(size_t)i * used] =
            bits == 16 ? wide[index]
                       : (uint16_t)((bits_at(row, index, bits) * 65535 + most / 2) / most);
    }
}

/* Takes the sample `first` of each of `count` pixels of a row, which has `step` samples per
 * pixel. */
static void take_sample(const struct reader *reader, const uint8_t *row, unsigned first,
                        unsigned step, uint32_t count, uint8_t *to)
{
    unsigned bits = reader->layout.bits, used = reader->used;
    if (reader->sample_bytes == 2) {
        take_deep(reader, row, first, step, count, (uint16_t *)(void *)to);
    } else if (bits == 8) {
        for (uint32_t i = 0; i < count; i++)
            to[(size_t)i * used] = row[(size_t)i * step + first];
    } else if (bits == 16) {
        const uint16_t *wide = (const uint16_t *)row;
        for (uint32_t i = 0; i < count; i++)
            to[(size_t)i * used] = scale(wide[(size_t)i * step + first], 65535);
    } else {
        for (uint32_t i = 0; i < count; i++)
            to[(size_t)i * used] = reader->scaled[bits_at(row, (size_t)i * step + first, bits)];
    }
}

/* The index of a used sample in the file. */
static unsigned sample_of(const struct reader *reader, unsigned index)
{
    return index < reader->layout.colours ? index : reader->layout.alpha;
}

/* Packs the samples of a row whose samples are together. */
static void pack_row(const struct reader *reader, const uint8_t *row, uint32_t count, uint8_t *to)
{
    if (reader->layout.bits == 8 && reader->used == reader->layout.samples) {
        memcpy(to, row, (size_t)count * reader->used);
        return;
    }
    for (unsigned i = 0; i < reader->used; i++)
        take_sample(reader, row, sample_of(reader, i), reader->layout.samples, count,
                    to + (size_t)i * reader->sample_bytes);
}

/* ---- YCbCr ---------------------------------------------------------------------------------- */

static void ycc_to_rgb(const struct reader *reader, uint8_t y, uint8_t cb, uint8_t cr, uint8_t *to)
{
    uint32_t rgb[3];
    TIFFYCbCrtoRGB(reader->ycc, y, cb, cr, &rgb[0], &rgb[1], &rgb[2]);
    for (int i = 0; i < 3; i++)
        to[i] = (uint8_t)rgb[i];
}

/* Converts blocks of `columns` x `rows` pixels, each with its Ys, a Cb and a Cr. bytes: of the
 * decompressed tile or strip. */
static void unpack_blocks(const struct reader *reader, uint32_t x, uint32_t width, uint32_t height,
                          uint64_t bytes)
{
    const struct tiff_layout *layout = &reader->layout;
    unsigned columns = layout->ycc_columns, rows = layout->ycc_rows;
    size_t block = columns * rows + 2;
    size_t per_row = (layout->tile_width + columns - 1) / columns;
    for (uint32_t j = 0; j < height; j++)
        for (uint32_t i = 0; i < width; i++) {
            size_t at = (j / rows * per_row + i / columns) * block;
            if (at + block > bytes)
                return;
            const uint8_t *from = reader->raw + at;
            ycc_to_rgb(reader, from[j % rows * columns + i % columns], from[block - 2],
                       from[block - 1], reader->band + ((size_t)j * layout->width + x + i) * 3);
        }
}

static bool is_usual(const float *numbers, int count)
{
    for (int i = 0; i < count; i++)
        if (!isfinite(numbers[i]))
            return false;
    return true;
}

/* The tables of libtiff, as for its own RGBA images. */
static bool prepare_ycc(struct reader *reader)
{
    float *luma = NULL, *range = NULL;
    size_t bytes = sizeof *reader->ycc + sizeof(long) + 4 * 256 * sizeof(TIFFRGBValue) +
                   2 * 256 * sizeof(int) + 3 * 256 * sizeof(int32_t);
    if (reader->layout.photometric != PHOTOMETRIC_YCBCR)
        return true;
    (void)TIFFGetFieldDefaulted(reader->tiffs[0], TIFFTAG_YCBCRCOEFFICIENTS, &luma);
    (void)TIFFGetFieldDefaulted(reader->tiffs[0], TIFFTAG_REFERENCEBLACKWHITE, &range);
    if (!luma || !range || !is_usual(luma, 3) || !is_usual(range, 6) || luma[1] == 0) {
        confined_fail(reader->reply, STATUS_DECODE_FAILED,
                      "the TIFF's coefficients of YCbCr are no numbers");
        return false;
    }
    reader->ycc = malloc(bytes);
    return reader->ycc && TIFFYCbCrToRGBInit(reader->ycc, luma, range) == 0;
}

/* ---- bands ---------------------------------------------------------------------------------- */

/* Sets the error: that the file is truncated, if it ends before a tile or strip, else libtiff's. */
static bool fail(const struct reader *reader, TIFF *tiff)
{
    uint64_t size = reader->source->size;
    for (uint32_t i = 0; i < reader->layout.tiles; i++) {
        uint64_t at = TIFFGetStrileOffset(tiff, i), bytes = TIFFGetStrileByteCount(tiff, i);
        if (at <= size && bytes <= size - at)
            continue;
        confined_fail(reader->reply, STATUS_DECODE_FAILED,
                      "the TIFF is truncated: %s %u has %llu bytes from byte %llu on, but the file "
                      "has %llu bytes",
                      reader->layout.is_tiled ? "tile" : "strip", i, (unsigned long long)bytes,
                      (unsigned long long)at, (unsigned long long)size);
        return false;
    }
    tiff_fail(reader->reply, "cannot be decoded");
    return false;
}

/* Reads a tile, or a strip whose index is `tile`. */
static bool read_tile(struct reader *reader, uint32_t tile)
{
    const struct tiff_layout *layout = &reader->layout;
    tmsize_t most = (tmsize_t)layout->tile_bytes, got;
    got = layout->is_tiled ? TIFFReadEncodedTile(reader->tiffs[0], tile, reader->raw, most)
                           : TIFFReadEncodedStrip(reader->tiffs[0], tile, reader->raw, most);
    if (got >= 0 && !tiff_has_failed()) {
        if (got < most) /* the last strip */
            memset(reader->raw + got, 0, (size_t)(most - got));
        return true;
    }
    return fail(reader, reader->tiffs[0]);
}

/* Puts `width` x `height` pixels of the tile that was read into the band, from column x on. */
static void unpack_tile(const struct reader *reader, uint32_t x, uint32_t width, uint32_t height,
                        unsigned plane)
{
    const struct tiff_layout *layout = &reader->layout;
    for (uint32_t y = 0; y < height; y++) {
        const uint8_t *row = reader->raw + y * layout->row_bytes;
        uint8_t *to =
            reader->band + ((size_t)y * layout->width + x) * reader->used * reader->sample_bytes;
        if (layout->is_planar)
            take_sample(reader, row, 0, 1, width, to + (size_t)plane * reader->sample_bytes);
        else
            pack_row(reader, row, width, to);
    }
}

/* Reads the tiles, or the strip, that begin in row `from`. */
static bool read_band(struct reader *reader, uint32_t from)
{
    const struct tiff_layout *layout = &reader->layout;
    uint32_t height = layout->height - from;
    height = height < layout->tile_height ? height : layout->tile_height;
    unsigned planes = layout->is_planar ? reader->used : 1;
    for (uint32_t x = 0; x < layout->width; x += layout->tile_width)
        for (unsigned plane = 0; plane < planes; plane++) {
            uint16_t sample = (uint16_t)sample_of(reader, plane);
            uint32_t width = layout->width - x;
            width = width < layout->tile_width ? width : layout->tile_width;
            uint32_t tile = layout->is_tiled ? TIFFComputeTile(reader->tiffs[0], x, from, 0, sample)
                                             : TIFFComputeStrip(reader->tiffs[0], from, sample);
            if (!read_tile(reader, tile))
                return false;
            if (tiff_is_packed_ycc(layout))
                unpack_blocks(reader, x, width, height, layout->tile_bytes);
            else
                unpack_tile(reader, x, width, height, plane);
        }
    reader->band_from = from;
    reader->band_to = from + height;
    return true;
}

/* Reads a row of strips. */
static bool read_row(struct reader *reader, uint32_t y)
{
    const struct tiff_layout *layout = &reader->layout;
    unsigned planes = layout->is_planar ? reader->used : 1;
    for (unsigned plane = 0; plane < planes; plane++) {
        uint16_t sample = (uint16_t)(layout->is_planar ? sample_of(reader, plane) : 0);
        if (TIFFReadScanline(reader->tiffs[plane], reader->raw, y, sample) != 1 ||
            tiff_has_failed())
            return fail(reader, reader->tiffs[plane]);
        if (layout->is_planar)
            take_sample(reader, reader->raw, 0, 1, layout->width,
                        reader->band + (size_t)plane * reader->sample_bytes);
        else
            pack_row(reader, reader->raw, layout->width, reader->band);
    }
    return true;
}

/* Returns the packed samples of a row. NULL: the reply has the error. */
static const uint8_t *packed_row(struct reader *reader, uint32_t y)
{
    const struct tiff_layout *layout = &reader->layout;
    if (!layout->is_tiled && !tiff_is_packed_ycc(layout))
        return read_row(reader, y) ? reader->band : NULL;
    if (y >= reader->band_to && !read_band(reader, y))
        return NULL;
    return reader->band +
           (size_t)(y - reader->band_from) * layout->width * reader->used * reader->sample_bytes;
}

/* ---- colours -------------------------------------------------------------------------------- */

/* Returns ink * black / 255, rounded, as for JPEGs. Both are 255 for no ink. */
static uint8_t ink_product(unsigned ink, unsigned black)
{
    return (uint8_t)((ink * black + 127) / 255);
}

static void convert_cmyk(const uint8_t *from, uint8_t *to, bool as_it_is)
{
    for (int i = 0; i < 3; i++)
        to[i] = as_it_is ? (uint8_t)(255 - from[i]) : ink_product(255u - from[i], 255u - from[3]);
    if (as_it_is)
        to[3] = (uint8_t)(255 - from[3]);
}

/* Divides by alpha, as Pillow: rounded down, and 0 where alpha is 0. */
static void unassociate(uint8_t *pixel)
{
    unsigned alpha = pixel[3];
    for (int i = 0; i < 3 && alpha != 255; i++) {
        unsigned value = alpha > 0 ? pixel[i] * 255u / alpha : 0;
        pixel[i] = (uint8_t)(value < 255 ? value : 255);
    }
}

/* Converts the colours of a pixel to RGB. */
static void convert_colours(const struct reader *reader, const uint8_t *from, uint8_t *to,
                            bool as_cmyk)
{
    switch (reader->layout.photometric) {
    case PHOTOMETRIC_PALETTE:
        for (int i = 0; i < 3; i++)
            to[i] = reader->map[i][from[0]];
        break;
    case PHOTOMETRIC_SEPARATED:
        convert_cmyk(from, to, as_cmyk);
        break;
    case PHOTOMETRIC_YCBCR:
        if (tiff_is_packed_ycc(&reader->layout))
            memcpy(to, from, 3);
        else
            ycc_to_rgb(reader, from[0], from[1], from[2], to);
        break;
    case PHOTOMETRIC_RGB:
        memcpy(to, from, 3);
        break;
    default:
        memset(to, reader->layout.photometric == PHOTOMETRIC_MINISWHITE ? 255 - from[0] : from[0],
               3);
    }
}

/* As unassociate. */
static void unassociate_deep(uint16_t *pixel)
{
    unsigned alpha = pixel[3];
    for (int i = 0; i < 3 && alpha != 65535; i++) {
        unsigned value = alpha > 0 ? pixel[i] * 65535u / alpha : 0;
        pixel[i] = (uint16_t)(value < 65535 ? value : 65535);
    }
}

/* samples: of a pixel of the result */
static void convert_deep_row(const struct reader *reader, const uint16_t *from, unsigned samples,
                             uint16_t *to)
{
    const struct tiff_layout *layout = &reader->layout;
    unsigned flip = layout->photometric == PHOTOMETRIC_MINISWHITE ? 65535 : 0;
    for (uint32_t x = 0; x < layout->width; x++, from += reader->used, to += samples) {
        for (unsigned i = 0; i < samples && i < 3; i++)
            to[i] = (uint16_t)(from[layout->colours == 3 ? i : 0] ^ flip);
        if (layout->alpha > 0)
            to[3] = from[layout->colours];
        if (layout->is_associated)
            unassociate_deep(to);
    }
}

static void convert_row(const struct reader *reader, const uint8_t *from, unsigned channels,
                        uint8_t *to)
{
    const struct tiff_layout *layout = &reader->layout;
    size_t count = (size_t)layout->width * reader->used;
    if (channels == 1 && layout->photometric == PHOTOMETRIC_MINISWHITE)
        for (size_t i = 0; i < count; i++)
            to[i] = (uint8_t)(255 - from[i]);
    else if (channels == 1 || (layout->photometric == PHOTOMETRIC_RGB && channels == reader->used &&
                               !layout->is_associated))
        memcpy(to, from, count);
    else
        for (uint32_t x = 0; x < layout->width; x++, from += reader->used, to += channels) {
            convert_colours(reader, from, to, channels == 4 && tiff_is_cmyk(layout));
            if (layout->alpha > 0)
                to[3] = from[layout->colours];
            if (layout->is_associated)
                unassociate(to);
        }
}

/* ---- prepare -------------------------------------------------------------------------------- */

/* Reads the palette. Its values have 16 bits, but some writers fill in 8 bits, as libtiff
 * assumes if there is none above 255. */
static bool read_palette(struct reader *reader)
{
    uint16_t *map[3] = {NULL};
    unsigned count = 1u << reader->layout.bits, most = 0;
    if (reader->layout.photometric != PHOTOMETRIC_PALETTE)
        return true;
    if (!TIFFGetField(reader->tiffs[0], TIFFTAG_COLORMAP, &map[0], &map[1], &map[2])) {
        confined_fail(reader->reply, STATUS_DECODE_FAILED, "the TIFF has no palette");
        return false;
    }
    for (unsigned i = 0; i < 3 * count; i++)
        most = map[i % 3][i / 3] > most ? map[i % 3][i / 3] : most;
    for (unsigned i = 0; i < 3 * count; i++)
        reader->map[i % 3][i / 3] = (uint8_t)(map[i % 3][i / 3] >> (most > 255 ? 8 : 0));
    return true;
}

/* Samples of a palette are indices, and are not scaled. */
static bool prepare_scale(struct reader *reader)
{
    unsigned bits = reader->layout.bits, count = 1u << bits;
    if (bits == 8 || bits == 16)
        return true;
    reader->scaled = malloc(count);
    bool is_index = reader->layout.photometric == PHOTOMETRIC_PALETTE;
    for (unsigned i = 0; reader->scaled && i < count; i++)
        reader->scaled[i] = is_index ? (uint8_t)i : scale(i, count - 1);
    return reader->scaled != NULL;
}

static bool prepare(struct reader *reader)
{
    const struct tiff_layout *layout = &reader->layout;
    bool is_band = layout->is_tiled || tiff_is_packed_ycc(layout);
    uint64_t rows = is_band ? layout->tile_height : 1;
    reader->used = tiff_used_samples(layout);
    /* At least a pixel more: libtiff writes whole rows, also of wide tiles. */
    reader->raw = calloc(1, (is_band ? layout->tile_bytes : layout->row_bytes) + SLACK);
    reader->band = calloc(rows, (size_t)layout->width * reader->used * reader->sample_bytes);
    bool is_ready = reader->raw && reader->band && read_palette(reader) && prepare_scale(reader) &&
                    prepare_ycc(reader);
    if (!is_ready && reader->reply->status == STATUS_OK)
        confined_fail(reader->reply, STATUS_OUT_OF_MEMORY, "no memory to decode a TIFF");
    return is_ready;
}

/* ---- decode --------------------------------------------------------------------------------- */

static TIFF *open_page(struct reader *reader)
{
    return tiff_open_directory(reader->source, reader->directory, reader->block_max, true,
                               reader->reply);
}

static bool read_layout(struct reader *reader, unsigned plane, struct tiff_layout *layout)
{
    return tiff_read_layout(reader->tiffs[plane], &reader->numbers, reader->directory, layout,
                            reader->reply);
}

/* Opens the file again for each further plane of strips. */
static bool open_planes(struct reader *reader)
{
    const struct tiff_layout *layout = &reader->layout;
    unsigned count = layout->is_planar && !layout->is_tiled ? tiff_used_samples(layout) : 1;
    for (unsigned i = 1; i < count; i++) {
        struct tiff_layout again;
        reader->tiffs[i] = open_page(reader);
        if (!reader->tiffs[i] || !read_layout(reader, i, &again))
            return false;
    }
    return true;
}

static void send_rows(struct reader *reader, const struct codec_call *call, uint8_t *window)
{
    size_t row_bytes = (size_t)call->width * call->channels;
    uint32_t most = confined_band_rows(call->width, call->channels), filled = 0;
    for (uint32_t y = 0; y < call->height; y++) {
        const uint8_t *row = packed_row(reader, y);
        if (!row)
            return;
        uint8_t *to = window + filled++ * row_bytes;
        if (reader->sample_bytes == 2)
            convert_deep_row(reader, (const uint16_t *)(const void *)row, call->channels / 2,
                             (uint16_t *)(void *)to);
        else
            convert_row(reader, row, call->channels, to);
        bool is_last = y + 1 == call->height;
        if (filled == most || is_last) {
            confined_offer(reader->reply, filled, 0, is_last);
            filled = 0;
        }
    }
}

static void decode(struct reader *reader, const struct codec_call *call, uint8_t *window)
{
    const struct tiff_layout *layout = &reader->layout;
    if (!read_layout(reader, 0, &reader->layout))
        return;
    bool as_cmyk = tiff_is_cmyk(layout) && call->channels == 4;
    bool is_deep = tiff_is_deep(layout) && call->channels == 2u * layout->channels;
    reader->sample_bytes = is_deep ? 2 : 1;
    if (layout->width != call->width || layout->height != call->height ||
        (layout->channels != call->channels && !as_cmyk && !is_deep)) {
        confined_fail(reader->reply, STATUS_DECODE_FAILED,
                      "the TIFF is not that of its header (%u x %u, %u channels)", call->width,
                      call->height, call->channels);
        return;
    }
    if (open_planes(reader) && prepare(reader))
        send_rows(reader, call, window);
}

void tiff_decode(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    struct confined_source source = confined_open(call, region, UINT64_MAX);
    struct reader reader = {.source = &source, .reply = reply};
    reader.block_max =
        TIFF_BLOCK_BYTES_MAX + call->file_bytes + 4 * (uint64_t)call->width * call->height;
    if (tiff_open_numbers(&source, &reader.numbers))
        reader.directory = tiff_find_page(&reader.numbers, call->page, reply);
    if (reader.directory > 0)
        reader.tiffs[0] = open_page(&reader);
    else if (reply->status == STATUS_OK)
        confined_fail(reply, STATUS_DECODE_FAILED, "the TIFF has no page %u", call->page);
    if (reader.tiffs[0])
        decode(&reader, call, region);
    for (int i = 0; i < USED_MAX; i++)
        if (reader.tiffs[i])
            TIFFClose(reader.tiffs[i]);
    free(reader.raw);
    free(reader.band);
    free(reader.scaled);
    free(reader.ycc);
}

#endif
