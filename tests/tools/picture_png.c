/* picture_png.c - the PNG half of picture.h. */
#include "tests/tools/picture_impl.h"

#include <stdlib.h>
#include <string.h>

#include <png.h>

/* ---- PNG ---- */

enum { palette_entries_max = 256 };

static int png_depth(const struct picture_png *options)
{
    return options->bit_depth != 0 ? options->bit_depth : 8;
}

static uint32_t png_samples(const struct picture_png *options)
{
    switch (options->colour_type) {
    case PNG_COLOR_TYPE_RGB: return 3;
    case PNG_COLOR_TYPE_GRAY_ALPHA: return 2;
    case PNG_COLOR_TYPE_RGB_ALPHA: return 4;
    default: return 1;
    }
}

/* The stored sample, at the file's bit depth. */
static uint32_t png_sample(const struct picture_png *options, uint32_t x, uint32_t y, uint32_t c)
{
    if (options->colour_type == PNG_COLOR_TYPE_GRAY_ALPHA && c == 1)
        c = 3;
    uint32_t sample = picture_sample(options->seed, options->width, options->height, x, y, c);
    return sample >> (16 - png_depth(options));
}

static png_color palette_entry(uint32_t index)
{
    return (png_color){(png_byte)(index * 37 + 11), (png_byte)(255 - index),
                       (png_byte)(index * 91)};
}

static png_byte palette_alpha(uint32_t index)
{
    return (png_byte)(index * 53);
}

/* tRNS of a palette covers its first half only: the rest is opaque. */
static uint32_t palette_alphas(const struct picture_png *options)
{
    return ((1u << png_depth(options)) + 1) / 2;
}

static void set_transparency(png_structp png, png_infop info, const struct picture_png *options)
{
    if (options->colour_type == PNG_COLOR_TYPE_PALETTE) {
        png_byte alpha[palette_entries_max];
        for (uint32_t i = 0; i < palette_alphas(options); i++)
            alpha[i] = palette_alpha(i);
        png_set_tRNS(png, info, alpha, (int)palette_alphas(options), NULL);
        return;
    }
    /* The colour of the first pixel is the transparent one. */
    png_color_16 key = {0};
    key.gray = key.red = (png_uint_16)png_sample(options, 0, 0, 0);
    key.green = (png_uint_16)png_sample(options, 0, 0, 1);
    key.blue = (png_uint_16)png_sample(options, 0, 0, 2);
    png_set_tRNS(png, info, NULL, 0, &key);
}

static void png_append(png_structp png, png_bytep bytes, size_t length)
{
    picture_append(png_get_io_ptr(png), bytes, length);
}

static void png_no_flush(png_structp png)
{
    (void)png;
}

static void png_fail(png_structp png, png_const_charp message)
{
    (void)png;
    picture_fail(message);
}

static void png_ignore(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

/* Packs the samples of a row as the file has them. */
static void png_pack_row(const struct picture_png *options, uint32_t y, uint8_t *row)
{
    uint32_t samples = png_samples(options);
    int depth = png_depth(options);
    size_t at = 0;
    for (uint32_t x = 0; x < options->width; x++)
        for (uint32_t c = 0; c < samples; c++, at++) {
            uint32_t sample = png_sample(options, x, y, c);
            if (depth == 16) {
                row[2 * at] = (uint8_t)(sample >> 8);
                row[2 * at + 1] = (uint8_t)sample;
            } else if (depth == 8) {
                row[at] = (uint8_t)sample;
            } else {
                size_t bit = at * (size_t)depth;
                if (bit % 8 == 0)
                    row[bit / 8] = 0;
                row[bit / 8] |= (uint8_t)(sample << (8 - depth - (int)(bit % 8)));
            }
        }
}

static void png_set_extras(png_structp png, png_infop info, const struct picture_png *options)
{
    if (options->colour_type == PNG_COLOR_TYPE_PALETTE) {
        png_color palette[palette_entries_max];
        int entries = 1 << png_depth(options);
        for (int i = 0; i < entries; i++)
            palette[i] = palette_entry((uint32_t)i);
        png_set_PLTE(png, info, palette, entries);
    }
    if (options->transparent)
        set_transparency(png, info, options);
    if (options->icc != NULL)
        png_set_iCCP(png, info, "test", 0, options->icc, (png_uint_32)options->icc_bytes);
    if (options->orientation != 0) {
        struct picture_file exif = picture_exif(options->orientation, false, true);
        png_set_eXIf_1(png, info, (png_uint_32)exif.length, exif.bytes);
        picture_free(&exif);
    }
}

struct picture_file picture_png(const struct picture_png *options)
{
    struct picture_file file = {NULL, 0};
    png_structp png =
        png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, png_fail, png_ignore);
    png_infop info = png_create_info_struct(png);
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
    png_set_write_fn(png, &file, png_append, png_no_flush);
    png_set_compression_level(png, options->level != 0 ? options->level : 6);
    png_set_IHDR(png, info, options->width, options->height, png_depth(options),
                 options->colour_type,
                 options->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_extras(png, info, options);
    png_write_info(png, info);
    size_t row_bytes = png_get_rowbytes(png, info);
    uint8_t *pixels = picture_allocate(row_bytes * options->height);
    png_bytepp rows = picture_allocate(options->height * sizeof *rows);
    for (uint32_t y = 0; y < options->height; y++) {
        rows[y] = pixels + y * row_bytes;
        png_pack_row(options, y, rows[y]);
    }
    png_write_image(png, rows);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(rows);
    free(pixels);
    return file;
}

/* 16 bits to 8 rounds to nearest, fewer bits are stretched to the whole range. */
static uint8_t to_8_bits(uint32_t sample, int depth)
{
    if (depth == 16)
        return (uint8_t)((sample * 2 * 255 + 65535) / (2 * 65535));
    return (uint8_t)(sample * 255 / ((1u << depth) - 1));
}

static void expected_pixel(const struct picture_png *options, uint32_t x, uint32_t y,
                           uint8_t rgba[4])
{
    int depth = png_depth(options);
    uint32_t s[4] = {0};
    for (uint32_t c = 0; c < png_samples(options); c++)
        s[c] = png_sample(options, x, y, c);
    rgba[3] = 255;
    if (options->colour_type == PNG_COLOR_TYPE_PALETTE) {
        png_color colour = palette_entry(s[0]);
        rgba[0] = colour.red;
        rgba[1] = colour.green;
        rgba[2] = colour.blue;
        if (s[0] < palette_alphas(options))
            rgba[3] = palette_alpha(s[0]);
        return;
    }
    bool colour = (options->colour_type & PNG_COLOR_MASK_COLOR) != 0, key = true;
    for (uint32_t c = 0; c < 3; c++) {
        rgba[c] = to_8_bits(colour ? s[c] : s[0], depth);
        key = key && (colour || c == 0 ? s[c] == png_sample(options, 0, 0, c) : true);
    }
    if (options->colour_type & PNG_COLOR_MASK_ALPHA)
        rgba[3] = to_8_bits(s[colour ? 3 : 1], depth);
    else if (options->transparent && key)
        rgba[3] = 0;
}

uint8_t *picture_png_expected(const struct picture_png *options, uint32_t *channels)
{
    bool alpha = options->transparent || (options->colour_type & PNG_COLOR_MASK_ALPHA) != 0;
    bool colour = (options->colour_type & PNG_COLOR_MASK_COLOR) != 0;
    *channels = alpha ? 4 : colour ? 3 : 1;
    uint8_t *pixels = picture_allocate((size_t)options->width * options->height * *channels);
    uint8_t *at = pixels;
    for (uint32_t y = 0; y < options->height; y++)
        for (uint32_t x = 0; x < options->width; x++, at += *channels) {
            uint8_t rgba[4];
            expected_pixel(options, x, y, rgba);
            memcpy(at, rgba, *channels);
        }
    return pixels;
}

/* ---- broken PNG ---- */

static uint32_t crc_of(const uint8_t *bytes, size_t length)
{
    uint32_t crc = 0xFFFFFFFF;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0xEDB88320 & (0u - (crc & 1)));
    }
    return ~crc;
}

/* Offset of a chunk's length field; 0 where there is none. */
static size_t png_find(const struct picture_file *file, const char *type, size_t from)
{
    for (size_t at = from; at + 12 <= file->length;
         at += 12 + (size_t)picture_get32(file->bytes + at))
        if (memcmp(file->bytes + at + 4, type, 4) == 0)
            return at;
    return 0;
}

static size_t png_must_find(const struct picture_file *file, const char *type)
{
    size_t at = png_find(file, type, 8);
    if (at == 0)
        picture_fail("the PNG has no such chunk");
    return at;
}

void picture_png_break_crc(struct picture_file *file, const char *type)
{
    size_t at = png_must_find(file, type);
    file->bytes[at + 8 + picture_get32(file->bytes + at)] ^= 0x10;
}

void picture_png_fix_crcs(struct picture_file *file)
{
    for (size_t at = 8; at + 12 <= file->length;) {
        size_t count = picture_get32(file->bytes + at);
        if (count > file->length - at - 12)
            return;
        picture_put32(file->bytes + at + 8 + count, crc_of(file->bytes + at + 4, 4 + count));
        at += 12 + count;
    }
}

void picture_png_insert(struct picture_file *file, const char *before, const char *type,
                        const void *data, size_t length)
{
    struct picture_file chunk = {NULL, 0};
    uint8_t number[4];
    picture_put32(number, (uint32_t)length);
    picture_append(&chunk, number, 4);
    picture_append(&chunk, type, 4);
    picture_append(&chunk, data, length);
    picture_put32(number, crc_of(chunk.bytes + 4, length + 4));
    picture_append(&chunk, number, 4);
    picture_insert(file, png_must_find(file, before), chunk.bytes, chunk.length);
    picture_free(&chunk);
}

struct picture_file picture_png_huge(uint32_t width, uint32_t height)
{
    struct picture_file file =
        picture_png(&(struct picture_png){.width = 64, .height = 64, .colour_type = 2});
    uint8_t *header = file.bytes + 8;
    picture_put32(header + 8, width);
    picture_put32(header + 12, height);
    picture_put32(header + 8 + 13, crc_of(header + 4, 4 + 13));
    return file;
}

/* The zlib stream of one unfiltered gray row: a zero byte and then the row. Borrowed from a PNG,
 * so that no zlib is needed here. */
static struct picture_file deflated(const uint8_t *row, uint32_t length)
{
    struct picture_file file = {NULL, 0}, stream = {NULL, 0};
    png_structp png =
        png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, png_fail, png_ignore);
    png_infop info = png_create_info_struct(png);
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
    png_set_write_fn(png, &file, png_append, png_no_flush);
    png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_NONE);
    png_set_IHDR(png, info, length, 1, 8, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    png_write_row(png, row);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    for (size_t at = 8; (at = png_find(&file, "IDAT", at)) != 0;
         at += 12 + picture_get32(file.bytes + at))
        picture_append(&stream, file.bytes + at + 8, picture_get32(file.bytes + at));
    picture_free(&file);
    return stream;
}

static struct picture_file png_bomb(const char *type, const uint8_t *row, uint32_t length)
{
    struct picture_file stream = deflated(row, length), data = {NULL, 0};
    picture_append(&data, "Comment\0\0", 9); /* keyword or profile name, compression method */
    picture_append(&data, stream.bytes, stream.length);
    struct picture_file file =
        picture_png(&(struct picture_png){.width = 8, .height = 8, .colour_type = 2});
    picture_png_insert(&file, "IDAT", type, data.bytes, data.length);
    picture_free(&stream);
    picture_free(&data);
    return file;
}

struct picture_file picture_png_ztxt_bomb(void)
{
    uint32_t length = 16 << 20;
    uint8_t *row = picture_allocate(length);
    memset(row, 'a', length);
    struct picture_file file = png_bomb("zTXt", row, length);
    free(row);
    return file;
}

/* The zero that a stream starts with is the first byte of the profile's size, 0x00FFFFFC. */
struct picture_file picture_png_iccp_bomb(void)
{
    uint32_t length = 0x00FFFFFC;
    struct picture_file icc = picture_icc(length, "RGB ");
    memset(icc.bytes + 132, 0, length - 132);
    struct picture_file file = png_bomb("iCCP", icc.bytes + 1, length - 1);
    picture_free(&icc);
    return file;
}
