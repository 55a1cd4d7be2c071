#include "tests/tools/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

static void fail(const char *what)
{
    fprintf(stderr, "picture: %s\n", what);
    abort();
}

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes > 0 ? bytes : 1);
    if (memory == NULL)
        fail("out of memory");
    return memory;
}

/* ---- files ---- */

void picture_free(struct picture_file *file)
{
    free(file->bytes);
    file->bytes = NULL;
    file->length = 0;
}

void picture_save(const struct picture_file *file, const char *path)
{
    FILE *out = fopen(path, "wb");
    if (out == NULL || fwrite(file->bytes, 1, file->length, out) != file->length ||
        fclose(out) != 0)
        fail(path);
}

struct picture_file picture_load(const char *path)
{
    FILE *in = fopen(path, "rb");
    if (in == NULL || fseek(in, 0, SEEK_END) != 0)
        fail(path);
    long length = ftell(in);
    rewind(in);
    if (length < 0)
        fail(path);
    struct picture_file file = {allocate((size_t)length), (size_t)length};
    if (fread(file.bytes, 1, file.length, in) != file.length)
        fail(path);
    fclose(in);
    return file;
}

static void append(struct picture_file *file, const void *bytes, size_t length)
{
    if (length == 0)
        return;
    file->bytes = realloc(file->bytes, file->length + length);
    if (file->bytes == NULL)
        fail("out of memory");
    memcpy(file->bytes + file->length, bytes, length);
    file->length += length;
}

void picture_insert(struct picture_file *file, size_t at, const void *bytes, size_t length)
{
    struct picture_file whole = {NULL, 0};
    append(&whole, file->bytes, at);
    append(&whole, bytes, length);
    append(&whole, file->bytes + at, file->length - at);
    picture_free(file);
    *file = whole;
}

struct picture_file picture_cut(const struct picture_file *file, size_t length)
{
    struct picture_file part = {allocate(length), length};
    memcpy(part.bytes, file->bytes, length);
    return part;
}

struct picture_file picture_cut_at(const struct picture_file *file, double part)
{
    return picture_cut(file, (size_t)((double)file->length * part));
}

static uint32_t get32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void put32(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 24);
    at[1] = (uint8_t)(value >> 16);
    at[2] = (uint8_t)(value >> 8);
    at[3] = (uint8_t)value;
}

/* ---- pixels ---- */

uint32_t picture_random(uint32_t *state)
{
    uint32_t x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

static uint32_t noise(uint32_t seed, uint32_t x, uint32_t y, uint32_t c)
{
    uint32_t h = seed * 0x9E3779B1u ^ x * 0x85EBCA77u ^ y * 0xC2B2AE3Du ^ c * 0x27D4EB2Fu;
    h ^= h >> 15;
    h *= 0x2C1B3C6Du;
    h ^= h >> 12;
    return h;
}

uint16_t picture_sample(uint32_t seed, uint32_t width, uint32_t height, uint32_t x, uint32_t y,
                        uint32_t c)
{
    uint32_t across = (uint32_t)((uint64_t)x * 65535 / (width > 1 ? width - 1 : 1));
    uint32_t down = (uint32_t)((uint64_t)y * 65535 / (height > 1 ? height - 1 : 1));
    if (c == 3) /* opaque on the left, a ramp, transparent on the right */
        return (uint16_t)(across < 20000 ? 65535 : across > 45000 ? 0 : 65535 - down);
    uint32_t value = c == 0 ? across : c == 1 ? down : (across + down) / 2;
    int64_t dx = (int64_t)across - 32768 - (int64_t)(seed % 7) * 1000, dy = (int64_t)down - 30000;
    if (dx * dx + dy * dy < 15000ll * 15000) /* a disc in other colours */
        value = 65535 - value;
    if (across > 40000 && across < 60000 && down > 50000 && down < 60000) /* a box */
        value = c == 0 ? 60000 : 4000;
    uint32_t grain = noise(seed, x, y, c) & 0x1FFF;
    value = value + grain > 4096 ? value + grain - 4096 : 0;
    return (uint16_t)(value > 65535 ? 65535 : value);
}

void picture_fill(uint8_t *pixels, size_t stride, uint32_t width, uint32_t height,
                  uint32_t channels, uint32_t seed)
{
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < channels; c++)
                pixels[y * stride + (size_t)x * channels + c] =
                    (uint8_t)(picture_sample(seed, width, height, x, y, c) >> 8);
}

uint8_t *picture_pixels(uint32_t width, uint32_t height, uint32_t channels, uint32_t seed)
{
    size_t row = (size_t)width * channels;
    uint8_t *pixels = allocate(row * height);
    picture_fill(pixels, row, width, height, channels, seed);
    return pixels;
}

/* ---- profiles and EXIF ---- */

struct picture_file picture_icc(size_t bytes, const char *space)
{
    struct picture_file file = {allocate(bytes), bytes};
    uint32_t random = 12345;
    for (size_t i = 0; i < bytes; i++)
        file.bytes[i] = i < 132 ? 0 : (uint8_t)picture_random(&random);
    put32(file.bytes, (uint32_t)bytes);
    file.bytes[8] = 2; /* version 2 */
    memcpy(file.bytes + 12, "mntr", 4);
    memcpy(file.bytes + 16, space, 4);
    memcpy(file.bytes + 20, "XYZ ", 4);
    memcpy(file.bytes + 36, "acsp", 4);
    put32(file.bytes + 68, 0xF6D6); /* D50, which the standard demands */
    put32(file.bytes + 72, 0x10000);
    put32(file.bytes + 76, 0xD32D);
    return file;
}

struct picture_file picture_exif(int orientation, bool header, bool big_endian)
{
    static const uint8_t little[] = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 0x01, 3,
                                     0,   1,   0,  0, 0, 0, 0, 0, 0, 0, 0,    0,    0};
    static const uint8_t big[] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0,
                                  3,   0,   0, 0,  1, 0, 0, 0, 0, 0, 0,    0,    0};
    struct picture_file file = {NULL, 0};
    if (header)
        append(&file, "Exif\0\0", 6);
    size_t start = file.length;
    append(&file, big_endian ? big : little, sizeof little);
    file.bytes[start + 18] = (uint8_t)(big_endian ? orientation >> 8 : orientation);
    file.bytes[start + 19] = (uint8_t)(big_endian ? orientation : orientation >> 8);
    return file;
}

/* ---- JPEG ---- */

/* One scan for the DC of each component, then single coefficients at falling precision: valid
 * scans without end, of which the first `count` are taken. */
static jpeg_scan_info *many_scans(int count)
{
    enum { bits = 5 };
    jpeg_scan_info *scans = allocate((size_t)count * sizeof *scans);
    int made = 0;
    for (int component = 0; component < 3 && made < count; component++)
        scans[made++] = (jpeg_scan_info){1, {component}, 0, 0, 0, bits};
    for (int k = 0; k < 64; k++)
        for (int low = bits; low >= 0; low--)
            for (int component = 0; component < 3; component++) {
                if ((k == 0 && low == bits) || made == count)
                    continue;
                scans[made++] =
                    (jpeg_scan_info){1, {component}, k, k, low == bits ? 0 : low + 1, low};
            }
    if (made != count)
        fail("a JPEG with so many scans cannot be made");
    return scans;
}

static void set_colour(struct jpeg_compress_struct *cinfo, const struct picture_jpeg *options)
{
    static const struct {
        int components;
        J_COLOR_SPACE in, stored;
    } spaces[] = {
        [PICTURE_YCBCR] = {3, JCS_RGB, JCS_YCbCr},
        [PICTURE_GRAY] = {1, JCS_GRAYSCALE, JCS_GRAYSCALE},
        [PICTURE_RGB] = {3, JCS_RGB, JCS_RGB},
        [PICTURE_CMYK] = {4, JCS_CMYK, JCS_CMYK},
        [PICTURE_YCCK] = {4, JCS_CMYK, JCS_YCCK},
        [PICTURE_TWO] = {2, JCS_UNKNOWN, JCS_UNKNOWN},
    };
    cinfo->input_components = spaces[options->colour].components;
    cinfo->in_color_space = spaces[options->colour].in;
    jpeg_set_defaults(cinfo);
    jpeg_set_colorspace(cinfo, spaces[options->colour].stored);
    if (options->colour == PICTURE_YCBCR || options->colour == PICTURE_YCCK) {
        int subsampling = options->subsampling != 0 ? options->subsampling : 420;
        cinfo->comp_info[0].h_samp_factor = subsampling == 444 ? 1 : 2;
        cinfo->comp_info[0].v_samp_factor = subsampling == 420 ? 2 : 1;
        if (options->colour == PICTURE_YCCK) {
            cinfo->comp_info[3].h_samp_factor = cinfo->comp_info[0].h_samp_factor;
            cinfo->comp_info[3].v_samp_factor = cinfo->comp_info[0].v_samp_factor;
        }
    }
}

static void write_exif(struct jpeg_compress_struct *cinfo, const struct picture_jpeg *options)
{
    if (options->exif != NULL) {
        jpeg_write_marker(cinfo, JPEG_APP0 + 1, options->exif, (unsigned)options->exif_bytes);
    } else if (options->orientation != 0) {
        struct picture_file exif = picture_exif(options->orientation, true, false);
        jpeg_write_marker(cinfo, JPEG_APP0 + 1, exif.bytes, (unsigned)exif.length);
        picture_free(&exif);
    }
}

struct picture_file picture_jpeg(const struct picture_jpeg *options)
{
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors; /* libjpeg's own error_exit prints and exits: good enough */
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_compress(&cinfo);
    unsigned char *bytes = NULL;
    unsigned long length = 0;
    jpeg_mem_dest(&cinfo, &bytes, &length);
    cinfo.image_width = options->width;
    cinfo.image_height = options->height;
    set_colour(&cinfo, options);
    jpeg_set_quality(&cinfo, options->quality != 0 ? options->quality : 85, TRUE);
    cinfo.arith_code = options->arithmetic;
    cinfo.restart_in_rows = options->restart_rows;
    jpeg_scan_info *scans = NULL;
    if (options->scans > 0) {
        scans = many_scans(options->scans);
        cinfo.scan_info = scans;
        cinfo.num_scans = options->scans;
    } else if (options->separate) {
        scans = allocate(4 * sizeof *scans);
        for (int i = 0; i < cinfo.num_components; i++)
            scans[i] = (jpeg_scan_info){1, {i}, 0, 63, 0, 0};
        cinfo.scan_info = scans;
        cinfo.num_scans = cinfo.num_components;
    } else if (options->progressive) {
        jpeg_simple_progression(&cinfo);
    }
    jpeg_start_compress(&cinfo, TRUE);
    write_exif(&cinfo, options);
    if (options->icc != NULL)
        jpeg_write_icc_profile(&cinfo, options->icc, (unsigned)options->icc_bytes);
    uint8_t *pixels = picture_pixels(options->width, options->height,
                                     (uint32_t)cinfo.input_components, options->seed);
    size_t row = (size_t)options->width * (size_t)cinfo.input_components;
    while (cinfo.next_scanline < cinfo.image_height) {
        JSAMPROW at = pixels + cinfo.next_scanline * row;
        jpeg_write_scanlines(&cinfo, &at, 1);
    }
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    free(pixels);
    free(scans);
    return (struct picture_file){bytes, length};
}

size_t picture_jpeg_marker(const struct picture_file *file, int code)
{
    size_t at = 2;
    while (at + 4 <= file->length && file->bytes[at] == 0xFF) {
        if (file->bytes[at + 1] == code)
            return at;
        at += 2 + ((size_t)file->bytes[at + 2] << 8 | file->bytes[at + 3]);
    }
    fail("the JPEG has no such marker");
    return 0;
}

static uint8_t *jpeg_frame(struct picture_file *file)
{
    for (size_t at = 2; at + 9 < file->length;) {
        int code = file->bytes[at + 1];
        if (code >= 0xC0 && code <= 0xCF && code != 0xC4 && code != 0xC8 && code != 0xCC)
            return file->bytes + at;
        at += 2 + ((size_t)file->bytes[at + 2] << 8 | file->bytes[at + 3]);
    }
    fail("the JPEG has no frame header");
    return NULL;
}

void picture_jpeg_set_size(struct picture_file *file, uint32_t width, uint32_t height)
{
    uint8_t *frame = jpeg_frame(file);
    frame[5] = (uint8_t)(height >> 8);
    frame[6] = (uint8_t)height;
    frame[7] = (uint8_t)(width >> 8);
    frame[8] = (uint8_t)width;
}

void picture_jpeg_set_precision(struct picture_file *file, int bits)
{
    jpeg_frame(file)[4] = (uint8_t)bits;
}

struct picture_file picture_jpeg_huge(uint32_t width, uint32_t height)
{
    struct picture_file file = picture_jpeg(&(struct picture_jpeg){.width = 16, .height = 16});
    picture_jpeg_set_size(&file, width, height);
    return file;
}

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
    append(png_get_io_ptr(png), bytes, length);
}

static void png_no_flush(png_structp png)
{
    (void)png;
}

static void png_fail(png_structp png, png_const_charp message)
{
    (void)png;
    fail(message);
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
    uint8_t *pixels = allocate(row_bytes * options->height);
    png_bytepp rows = allocate(options->height * sizeof *rows);
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
    uint8_t *pixels = allocate((size_t)options->width * options->height * *channels);
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
    for (size_t at = from; at + 12 <= file->length; at += 12 + (size_t)get32(file->bytes + at))
        if (memcmp(file->bytes + at + 4, type, 4) == 0)
            return at;
    return 0;
}

static size_t png_must_find(const struct picture_file *file, const char *type)
{
    size_t at = png_find(file, type, 8);
    if (at == 0)
        fail("the PNG has no such chunk");
    return at;
}

void picture_png_break_crc(struct picture_file *file, const char *type)
{
    size_t at = png_must_find(file, type);
    file->bytes[at + 8 + get32(file->bytes + at)] ^= 0x10;
}

void picture_png_fix_crcs(struct picture_file *file)
{
    for (size_t at = 8; at + 12 <= file->length;) {
        size_t count = get32(file->bytes + at);
        if (count > file->length - at - 12)
            return;
        put32(file->bytes + at + 8 + count, crc_of(file->bytes + at + 4, 4 + count));
        at += 12 + count;
    }
}

void picture_png_insert(struct picture_file *file, const char *before, const char *type,
                        const void *data, size_t length)
{
    struct picture_file chunk = {NULL, 0};
    uint8_t number[4];
    put32(number, (uint32_t)length);
    append(&chunk, number, 4);
    append(&chunk, type, 4);
    append(&chunk, data, length);
    put32(number, crc_of(chunk.bytes + 4, length + 4));
    append(&chunk, number, 4);
    picture_insert(file, png_must_find(file, before), chunk.bytes, chunk.length);
    picture_free(&chunk);
}

struct picture_file picture_png_huge(uint32_t width, uint32_t height)
{
    struct picture_file file =
        picture_png(&(struct picture_png){.width = 64, .height = 64, .colour_type = 2});
    uint8_t *header = file.bytes + 8;
    put32(header + 8, width);
    put32(header + 12, height);
    put32(header + 8 + 13, crc_of(header + 4, 4 + 13));
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
    for (size_t at = 8; (at = png_find(&file, "IDAT", at)) != 0; at += 12 + get32(file.bytes + at))
        append(&stream, file.bytes + at + 8, get32(file.bytes + at));
    picture_free(&file);
    return stream;
}

static struct picture_file png_bomb(const char *type, const uint8_t *row, uint32_t length)
{
    struct picture_file stream = deflated(row, length), data = {NULL, 0};
    append(&data, "Comment\0\0", 9); /* keyword or profile name, compression method */
    append(&data, stream.bytes, stream.length);
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
    uint8_t *row = allocate(length);
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

/* ---- no pictures at all ---- */

struct picture_file picture_garbage(size_t length, uint32_t seed)
{
    struct picture_file file = {allocate(length), length};
    uint32_t random = seed * 2 + 1;
    for (size_t i = 0; i < length; i++)
        file.bytes[i] = (uint8_t)(picture_random(&random) >> 8);
    return file;
}

struct picture_file picture_text(void)
{
    struct picture_file file = {NULL, 0};
    static const char text[] = "This is a text and no picture.\n";
    append(&file, text, sizeof text - 1);
    return file;
}

struct picture_file picture_empty(void)
{
    return (struct picture_file){allocate(0), 0};
}
