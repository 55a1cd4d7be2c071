#include "tests/tools/raster.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>
#include <setjmp.h>

#include "tests/tools/text_file.h"

struct raster raster_make(uint32_t width, uint32_t height, uint32_t channels)
{
    struct raster raster = {.width = width, .height = height, .channels = channels};
    raster.pixels = calloc((size_t)width * height, channels);
    if (!raster.pixels)
        abort();
    return raster;
}

struct raster raster_copy(const struct raster *raster)
{
    struct raster copy = raster_make(raster->width, raster->height, raster->channels);
    memcpy(copy.pixels, raster->pixels, (size_t)raster->width * raster->height * raster->channels);
    return copy;
}

void raster_clear(struct raster *raster)
{
    free(raster->pixels);
    memset(raster, 0, sizeof *raster);
}

uint8_t *raster_at(const struct raster *raster, uint32_t x, uint32_t y)
{
    return raster->pixels + ((size_t)y * raster->width + x) * raster->channels;
}

size_t raster_differ(const struct raster *a, const struct raster *b, int limit, char *where,
                     size_t where_size)
{
    size_t count = 0, row = (size_t)a->width * a->channels;
    where[0] = '\0';
    if (!a->pixels || !b->pixels || a->width != b->width || a->height != b->height ||
        a->channels != b->channels) {
        snprintf(where, where_size, "%ux%ux%u%s against %ux%ux%u%s", a->width, a->height,
                 a->channels, a->pixels ? "" : " (unreadable)", b->width, b->height, b->channels,
                 b->pixels ? "" : " (unreadable)");
        return SIZE_MAX;
    }
    for (size_t i = 0; i < row * a->height; i++) {
        if (abs(a->pixels[i] - b->pixels[i]) <= limit)
            continue;
        if (count++ == 0)
            snprintf(where, where_size, "x %zu y %zu channel %zu: %u against %u",
                     i % row / a->channels, i / row, i % a->channels, a->pixels[i], b->pixels[i]);
    }
    return count;
}

/* ---- JPEG ------------------------------------------------------------------------------------- */

struct jpeg_failure {
    struct jpeg_error_mgr base;
    jmp_buf back;
};

static void jpeg_fail(j_common_ptr jpeg)
{
    longjmp(((struct jpeg_failure *)jpeg->err)->back, 1);
}

static void jpeg_quiet(j_common_ptr jpeg)
{
    (void)jpeg;
}

/* Reads one row; CMYK becomes RGB, R = C * K / 255, of inverted inks (which Adobe writes). */
static void jpeg_row(struct jpeg_decompress_struct *jpeg, uint8_t *to, uint8_t *cmyk)
{
    bool inked = jpeg->out_color_space == JCS_CMYK;
    JSAMPROW row = inked ? cmyk : to;
    jpeg_read_scanlines(jpeg, &row, 1);
    for (uint32_t x = 0; inked && x < jpeg->output_width; x++) {
        const uint8_t *ink = cmyk + x * 4;
        uint32_t flip = jpeg->saw_Adobe_marker ? 0 : 255;
        for (int c = 0; c < 3; c++)
            to[x * 3 + (uint32_t)c] = (uint8_t)(((ink[c] ^ flip) * (ink[3] ^ flip) + 127) / 255);
    }
}

static void jpeg_decode(const uint8_t *bytes, size_t length, enum raster_as as,
                        struct raster *raster, uint8_t **cmyk)
{
    struct jpeg_decompress_struct jpeg;
    struct jpeg_failure failure;
    JOCTET *icc = NULL;
    unsigned icc_bytes = 0;
    jpeg.err = jpeg_std_error(&failure.base);
    failure.base.error_exit = jpeg_fail;
    failure.base.output_message = jpeg_quiet;
    jpeg_create_decompress(&jpeg);
    if (setjmp(failure.back)) {
        raster_clear(raster);
    } else {
        jpeg_mem_src(&jpeg, bytes, length);
        jpeg_save_markers(&jpeg, JPEG_APP0 + 2, 0xffff);
        jpeg_read_header(&jpeg, TRUE);
        if (jpeg_read_icc_profile(&jpeg, &icc, &icc_bytes))
            free(icc);
        if (jpeg.num_components == 4)
            jpeg.out_color_space = JCS_CMYK;
        else if (jpeg.jpeg_color_space == JCS_GRAYSCALE ||
                 (as == RASTER_LUMA && jpeg.jpeg_color_space == JCS_YCbCr))
            jpeg.out_color_space = JCS_GRAYSCALE;
        else
            jpeg.out_color_space = JCS_RGB;
        jpeg_start_decompress(&jpeg);
        *raster = raster_make(jpeg.output_width, jpeg.output_height,
                              jpeg.out_color_space == JCS_GRAYSCALE ? 1 : 3);
        raster->icc_bytes = icc_bytes;
        raster->progressive = jpeg.progressive_mode;
        *cmyk = malloc((size_t)jpeg.output_width * 4);
        while (jpeg.output_scanline < jpeg.output_height)
            jpeg_row(&jpeg, raster_at(raster, 0, jpeg.output_scanline), *cmyk);
        jpeg_finish_decompress(&jpeg);
    }
    jpeg_destroy_decompress(&jpeg);
}

static size_t exif_segment(uint8_t *to, int orientation)
{
    static const uint8_t head[] = {'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8,
                                   0, 1, 0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0};
    memcpy(to, head, sizeof head);
    to[25] = (uint8_t)orientation;
    return sizeof head;
}

uint8_t *raster_to_jpeg(const struct raster *raster, const struct raster_jpeg *how, size_t *length)
{
    static const J_COLOR_SPACE spaces[] = {[1] = JCS_GRAYSCALE, [3] = JCS_RGB, [4] = JCS_CMYK};
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long size = 0;
    uint8_t exif[64];
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &bytes, &size);
    jpeg.image_width = raster->width;
    jpeg.image_height = raster->height;
    jpeg.input_components = (int)raster->channels;
    jpeg.in_color_space = spaces[raster->channels];
    jpeg_set_defaults(&jpeg);
    if (how->rgb)
        jpeg_set_colorspace(&jpeg, JCS_RGB);
    jpeg_set_quality(&jpeg, how->quality ? how->quality : 90, TRUE);
    if (how->sampling && raster->channels == 3)
        jpeg.comp_info[0].h_samp_factor = jpeg.comp_info[0].v_samp_factor = how->sampling;
    if (how->progressive)
        jpeg_simple_progression(&jpeg);
    jpeg.restart_in_rows = how->restart;
    jpeg_start_compress(&jpeg, TRUE);
    if (how->orientation)
        jpeg_write_marker(&jpeg, JPEG_APP0 + 1, exif,
                          (unsigned)exif_segment(exif, how->orientation));
    if (how->icc)
        jpeg_write_icc_profile(&jpeg, how->icc, (unsigned)how->icc_bytes);
    while (jpeg.next_scanline < jpeg.image_height) {
        JSAMPROW row = raster_at(raster, 0, jpeg.next_scanline);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    *length = size;
    return bytes;
}

/* ---- PNG -------------------------------------------------------------------------------------- */

struct span {
    uint8_t *bytes;
    size_t length, at;
};

static void png_take(png_structp png, png_bytep to, size_t count)
{
    struct span *span = png_get_io_ptr(png);
    if (count > span->length - span->at)
        png_error(png, "truncated");
    memcpy(to, span->bytes + span->at, count);
    span->at += count;
}

static void png_give(png_structp png, png_bytep from, size_t count)
{
    struct span *span = png_get_io_ptr(png);
    uint8_t *longer = realloc(span->bytes, span->length + count);
    if (!longer)
        abort();
    memcpy(longer + span->length, from, count);
    span->bytes = longer;
    span->length += count;
}

static void png_rest(png_structp png)
{
    (void)png;
}

static void png_quiet(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void png_rows(const struct raster *raster, png_bytep *rows)
{
    for (uint32_t y = 0; y < raster->height; y++)
        rows[y] = raster_at(raster, 0, y);
}

static void png_decode(const uint8_t *bytes, size_t length, struct raster *raster,
                       png_bytep **rows)
{
    struct span span = {(uint8_t *)bytes, length, 0};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, png_quiet);
    png_infop info = png_create_info_struct(png);
    png_charp name;
    png_bytep profile;
    png_uint_32 profile_bytes = 0;
    int method;
    if (setjmp(png_jmpbuf(png))) {
        raster_clear(raster);
        png_destroy_read_struct(&png, &info, NULL);
        return;
    }
    png_set_read_fn(png, &span, png_take);
    png_read_info(png, info);
    if (png_get_iCCP(png, info, &name, &method, &profile, &profile_bytes))
        raster->icc_bytes = profile_bytes;
    int type = png_get_color_type(png, info);
    bool alpha = (type & PNG_COLOR_MASK_ALPHA) || png_get_valid(png, info, PNG_INFO_tRNS);
    png_set_expand(png);
    png_set_scale_16(png);
    if (alpha)
        png_set_gray_to_rgb(png);
    raster->progressive = png_set_interlace_handling(png) > 1;
    png_read_update_info(png, info);
    struct raster made = raster_make(png_get_image_width(png, info),
                                     png_get_image_height(png, info), png_get_channels(png, info));
    made.icc_bytes = raster->icc_bytes;
    made.progressive = raster->progressive;
    made.png = true;
    *raster = made;
    *rows = calloc(made.height, sizeof **rows);
    png_rows(raster, *rows);
    png_read_image(png, *rows);
    png_read_end(png, NULL);
    png_destroy_read_struct(&png, &info, NULL);
}

static void write_palette(png_structp png, png_infop info)
{
    png_color colours[256];
    for (int i = 0; i < 256; i++)
        colours[i] = (png_color){(png_byte)i, (png_byte)(255 - i), (png_byte)(i / 2)};
    png_set_PLTE(png, info, colours, 256);
}

/* Rows as the file has them: two bytes a sample, or gray and alpha alone. */
static struct raster png_samples(const struct raster *raster, const struct raster_png *how)
{
    if (how->sixteen) {
        struct raster wide = raster_make(raster->width, raster->height, raster->channels * 2);
        size_t samples = (size_t)raster->width * raster->height * raster->channels;
        for (size_t i = 0; i < samples; i++) {
            wide.pixels[2 * i] = raster->pixels[i];
            wide.pixels[2 * i + 1] = (uint8_t)(i * 37 + raster->pixels[i]);
        }
        return wide;
    }
    if (how->gray_alpha) {
        struct raster two = raster_make(raster->width, raster->height, 2);
        for (size_t i = 0; i < (size_t)raster->width * raster->height; i++) {
            two.pixels[2 * i] = raster->pixels[4 * i];
            two.pixels[2 * i + 1] = raster->pixels[4 * i + 3];
        }
        return two;
    }
    return raster_copy(raster);
}

uint8_t *raster_to_png(const struct raster *raster, const struct raster_png *how, size_t *length)
{
    static const int types[] = {[1] = PNG_COLOR_TYPE_GRAY, [3] = PNG_COLOR_TYPE_RGB,
                                [4] = PNG_COLOR_TYPE_RGB_ALPHA};
    struct span span = {NULL, 0, 0};
    struct raster samples = png_samples(raster, how);
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_bytep *rows = calloc(raster->height, sizeof *rows);
    int type = how->palette ? PNG_COLOR_TYPE_PALETTE
               : how->gray_alpha ? PNG_COLOR_TYPE_GRAY_ALPHA : types[raster->channels];
    if (!rows || setjmp(png_jmpbuf(png)))
        abort();
    png_set_write_fn(png, &span, png_give, png_rest);
    png_set_compression_level(png, how->level ? how->level : 1);
    png_set_IHDR(png, info, raster->width, raster->height, how->sixteen ? 16 : 8, type,
                 how->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (how->palette)
        write_palette(png, info);
    if (how->icc)
        png_set_iCCP(png, info, "test", PNG_COMPRESSION_TYPE_BASE, how->icc,
                     (png_uint_32)how->icc_bytes);
    png_rows(&samples, rows);
    png_set_rows(png, info, rows);
    png_write_png(png, info, PNG_TRANSFORM_IDENTITY, NULL);
    png_destroy_write_struct(&png, &info);
    free(rows);
    raster_clear(&samples);
    *length = span.length;
    return span.bytes;
}

/* ---- both ------------------------------------------------------------------------------------- */

struct raster raster_decode(const uint8_t *bytes, size_t length, enum raster_as as)
{
    struct raster raster = {0};
    if (length > 8 && !png_sig_cmp(bytes, 0, 8)) {
        png_bytep *rows = NULL;
        png_decode(bytes, length, &raster, &rows);
        free(rows);
    } else if (length > 2 && bytes[0] == 0xff && bytes[1] == 0xd8) {
        uint8_t *cmyk = NULL;
        jpeg_decode(bytes, length, as, &raster, &cmyk);
        free(cmyk);
    }
    return raster;
}

struct raster raster_load(const char *path, enum raster_as as)
{
    size_t length = 0;
    unsigned char *bytes = text_file_bytes(path, &length);
    struct raster raster = {0};
    if (bytes)
        raster = raster_decode(bytes, length, as);
    free(bytes);
    return raster;
}

struct raster raster_scene(uint32_t width, uint32_t height, uint32_t channels, uint32_t seed)
{
    struct raster raster = raster_make(width, height, channels);
    uint32_t noise = seed * 2654435761u + 1;
    double turn = seed % 97 * 0.1, cx = width * 0.4, cy = height * 0.55;
    double size = width < height ? width : height;
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            double dx = x - cx, dy = y - cy, far = sqrt(dx * dx + dy * dy);
            double wave = sin(far / (3 + seed % 7) + turn) * 30;
            uint8_t *p = raster_at(&raster, x, y);
            noise = noise * 1664525u + 1013904223u;
            for (uint32_t c = 0; c < channels; c++) {
                double v = 60.0 + 120.0 * (c == 1 ? y : x) / (c == 1 ? height : width) + wave;
                if (far < size * 0.3)
                    v += c == 2 ? 70 : -40;
                if ((x / 8 + y / 12) % 11 == 0)
                    v = 255 - v;
                v += (double)(noise >> 28) - 8;
                p[c] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
            }
            if (channels == 4)
                p[3] = (uint8_t)((x * 7 + y * 3 + (noise >> 30)) % 256);
        }
    }
    return raster;
}
