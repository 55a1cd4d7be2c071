#include "tests/tools/raster.h"

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

/* ---- JPEG ------------------------------------------------------------------------------------ */

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

uint8_t *raster_to_jpeg(const struct raster *raster, int quality, size_t *length)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long size = 0;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &bytes, &size);
    jpeg.image_width = raster->width;
    jpeg.image_height = raster->height;
    jpeg.input_components = (int)raster->channels;
    jpeg.in_color_space = raster->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, quality, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
        JSAMPROW row = raster_at(raster, 0, jpeg.next_scanline);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    *length = size;
    return bytes;
}

/* ---- PNG ------------------------------------------------------------------------------------- */

struct span {
    const uint8_t *bytes;
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

static void png_quiet(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void png_decode(const uint8_t *bytes, size_t length, struct raster *raster,
                       png_bytep **rows)
{
    struct span span = {bytes, length, 0};
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
    for (uint32_t y = 0; y < made.height; y++)
        (*rows)[y] = raster_at(raster, 0, y);
    png_read_image(png, *rows);
    png_read_end(png, NULL);
    png_destroy_read_struct(&png, &info, NULL);
}

/* ---- both ------------------------------------------------------------------------------------ */

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
