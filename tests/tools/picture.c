#include "tests/tools/picture_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

_Noreturn void picture_fail(const char *what)
{
    fprintf(stderr, "picture: %s\n", what);
    abort();
}

void *picture_allocate(size_t bytes)
{
    void *memory = malloc(bytes > 0 ? bytes : 1);
    if (memory == NULL)
        picture_fail("out of memory");
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
        picture_fail(path);
}

struct picture_file picture_load(const char *path)
{
    FILE *in = fopen(path, "rb");
    if (in == NULL || fseek(in, 0, SEEK_END) != 0)
        picture_fail(path);
    long length = ftell(in);
    rewind(in);
    if (length < 0)
        picture_fail(path);
    struct picture_file file = {picture_allocate((size_t)length), (size_t)length};
    if (fread(file.bytes, 1, file.length, in) != file.length)
        picture_fail(path);
    fclose(in);
    return file;
}

void picture_append(struct picture_file *file, const void *bytes, size_t length)
{
    if (length == 0)
        return;
    file->bytes = realloc(file->bytes, file->length + length);
    if (file->bytes == NULL)
        picture_fail("out of memory");
    memcpy(file->bytes + file->length, bytes, length);
    file->length += length;
}

void picture_insert(struct picture_file *file, size_t at, const void *bytes, size_t length)
{
    struct picture_file whole = {NULL, 0};
    picture_append(&whole, file->bytes, at);
    picture_append(&whole, bytes, length);
    picture_append(&whole, file->bytes + at, file->length - at);
    picture_free(file);
    *file = whole;
}

struct picture_file picture_cut(const struct picture_file *file, size_t length)
{
    struct picture_file part = {picture_allocate(length), length};
    memcpy(part.bytes, file->bytes, length);
    return part;
}

struct picture_file picture_cut_at(const struct picture_file *file, double part)
{
    return picture_cut(file, (size_t)((double)file->length * part));
}

uint32_t picture_get32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

void picture_put32(uint8_t *at, uint32_t value)
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
    uint8_t *pixels = picture_allocate(row * height);
    picture_fill(pixels, row, width, height, channels, seed);
    return pixels;
}

/* ---- profiles and EXIF ---- */

struct picture_file picture_icc(size_t bytes, const char *space)
{
    struct picture_file file = {picture_allocate(bytes), bytes};
    uint32_t random = 12345;
    for (size_t i = 0; i < bytes; i++)
        file.bytes[i] = i < 132 ? 0 : (uint8_t)picture_random(&random);
    picture_put32(file.bytes, (uint32_t)bytes);
    file.bytes[8] = 2; /* version 2 */
    memcpy(file.bytes + 12, "mntr", 4);
    memcpy(file.bytes + 16, space, 4);
    memcpy(file.bytes + 20, "XYZ ", 4);
    memcpy(file.bytes + 36, "acsp", 4);
    picture_put32(file.bytes + 68, 0xF6D6); /* D50, which the standard demands */
    picture_put32(file.bytes + 72, 0x10000);
    picture_put32(file.bytes + 76, 0xD32D);
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
        picture_append(&file, "Exif\0\0", 6);
    size_t start = file.length;
    picture_append(&file, big_endian ? big : little, sizeof little);
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
    jpeg_scan_info *scans = picture_allocate((size_t)count * sizeof *scans);
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
        picture_fail("a JPEG with so many scans cannot be made");
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
        scans = picture_allocate(4 * sizeof *scans);
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
    picture_fail("the JPEG has no such marker");
}

static uint8_t *jpeg_frame(struct picture_file *file)
{
    for (size_t at = 2; at + 9 < file->length;) {
        int code = file->bytes[at + 1];
        if (code >= 0xC0 && code <= 0xCF && code != 0xC4 && code != 0xC8 && code != 0xCC)
            return file->bytes + at;
        at += 2 + ((size_t)file->bytes[at + 2] << 8 | file->bytes[at + 3]);
    }
    picture_fail("the JPEG has no frame header");
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

/* ---- no pictures at all ---- */

struct picture_file picture_garbage(size_t length, uint32_t seed)
{
    struct picture_file file = {picture_allocate(length), length};
    uint32_t random = seed * 2 + 1;
    for (size_t i = 0; i < length; i++)
        file.bytes[i] = (uint8_t)(picture_random(&random) >> 8);
    return file;
}

struct picture_file picture_text(void)
{
    struct picture_file file = {NULL, 0};
    static const char text[] = "This is a text and no picture.\n";
    picture_append(&file, text, sizeof text - 1);
    return file;
}

struct picture_file picture_empty(void)
{
    return (struct picture_file){picture_allocate(0), 0};
}
