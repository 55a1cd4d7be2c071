/*
 * Tests of the TIFF codec with files that the test writes with libtiff. The expected pixels are
 * computed here from the samples; those of JPEG and YCbCr by libtiff's own RGBA images.
 */
#include "tests/fixtures/codec_rig.h"

#ifdef GPUIMGD_TIFF

#include <math.h>
#include <tiffio.h>

#include "tests/fixtures/picture_impl.h"
#include "tests/fixtures/tiff_file.h"

/* ---- expected pixels ---- */

static uint8_t scaled(unsigned value, unsigned bits)
{
    return (uint8_t)floor(value * 255.0 / ((1u << bits) - 1) + 0.5);
}

static bool is_gray(const struct tiff_page *page)
{
    return page->photometric <= PHOTOMETRIC_MINISBLACK;
}

static uint32_t channels_of(const struct tiff_page *page)
{
    bool has_alpha = page->extra > 1 ||
                     (page->photometric == PHOTOMETRIC_RGB && page->samples == 4 && !page->extra);
    return has_alpha ? 4 : is_gray(page) ? 1 : 3;
}

/* Pillow's division by alpha. */
static void unassociate(uint8_t *rgba)
{
    for (int c = 0; c < 3; c++)
        rgba[c] = rgba[3] == 0 ? 0 : (uint8_t)fmin(255, floor(rgba[c] * 255.0 / rgba[3]));
}

static void expected_pixel(const struct tiff_page *page, uint32_t x, uint32_t y, uint8_t *to)
{
    unsigned bits = tiff_page_bits(page), colours = 1;
    uint8_t samples[6];
    uint16_t rgb[3];
    for (unsigned s = 0; s < 6; s++)
        samples[s] = scaled(tiff_page_sample(page, x, y, s), bits);
    switch (page->photometric) {
    case PHOTOMETRIC_RGB:
        memcpy(to, samples, 3);
        colours = 3;
        break;
    case PHOTOMETRIC_PALETTE:
        tiff_palette_colour(tiff_page_sample(page, x, y, 0), rgb);
        for (int c = 0; c < 3; c++)
            to[c] = (uint8_t)(rgb[c] / 256);
        break;
    case PHOTOMETRIC_SEPARATED:
        for (int c = 0; c < 3; c++)
            to[c] = (uint8_t)floor((255 - samples[c]) * (255.0 - samples[3]) / 255 + 0.5);
        colours = 4;
        break;
    default:
        memset(to, page->photometric == PHOTOMETRIC_MINISWHITE ? 255 - samples[0] : samples[0], 3);
    }
    if (channels_of(page) == 4) {
        to[3] = samples[colours];
        if (page->extra == 1 + EXTRASAMPLE_ASSOCALPHA)
            unassociate(to);
    }
}

static void expect_page(const struct tiff_page *page)
{
    uint32_t channels = channels_of(page);
    uint8_t *wanted = malloc((size_t)page->width * page->height * channels + 4), *to = wanted;
    assert_non_null(wanted);
    for (uint32_t y = 0; y < page->height; y++)
        for (uint32_t x = 0; x < page->width; x++, to += channels) {
            uint8_t pixel[4];
            expected_pixel(page, x, y, pixel);
            memcpy(to, pixel, channels);
        }
    assert_int_equal(rig.info.width, page->width);
    assert_int_equal(rig.info.height, page->height);
    assert_int_equal(rig.info.channels, channels);
    rig_expect_pixels(&rig, wanted, channels);
    free(wanted);
}

/* A pixel of the deep image of a page, with 16 bits per sample. */
static void deep_pixel(const struct tiff_page *page, uint32_t x, uint32_t y, uint16_t *to)
{
    unsigned most = (1u << tiff_page_bits(page)) - 1, colours = is_gray(page) ? 1 : 3;
    for (unsigned c = 0; c < 3; c++) {
        unsigned value = tiff_page_sample(page, x, y, colours == 1 ? 0 : c);
        value = page->photometric == PHOTOMETRIC_MINISWHITE ? most - value : value;
        to[c] = (uint16_t)floor(value * 65535.0 / most + 0.5);
    }
    to[3] = (uint16_t)floor(tiff_page_sample(page, x, y, colours) * 65535.0 / most + 0.5);
    for (int c = 0; c < 3 && page->extra == 1 + EXTRASAMPLE_ASSOCALPHA; c++)
        to[c] = to[3] == 0 ? 0 : (uint16_t)fmin(65535, floor(to[c] * 65535.0 / to[3]));
}

static void expect_deep(const struct picture_file *file, const struct tiff_page *page)
{
    uint32_t samples = channels_of(page);
    uint16_t *wanted = malloc(((size_t)page->width * page->height * samples + 4) * sizeof *wanted);
    uint16_t *to = wanted;
    assert_non_null(wanted);
    for (uint32_t y = 0; y < page->height; y++)
        for (uint32_t x = 0; x < page->width; x++, to += samples) {
            uint16_t pixel[4];
            deep_pixel(page, x, y, pixel);
            memcpy(to, pixel, samples * sizeof *pixel);
        }
    assert_int_equal(rig_decode(&rig, file, DECODE_DEEP), STATUS_OK);
    rig_expect_pixels(&rig, (const uint8_t *)wanted, samples * 2);
    free(wanted);
}

static void check_page(const char *mode, const struct tiff_page *page)
{
    struct picture_file file = tiff_file(mode, page, 1);
    rig_reads(&file, STATUS_OK, NULL);
    expect_page(page);
    bool is_deep =
        tiff_page_bits(page) > 8 && (is_gray(page) || page->photometric == PHOTOMETRIC_RGB);
    assert_int_equal(rig.info.deep, is_deep);
    if (is_deep)
        expect_deep(&file, page);
    picture_free(&file);
}

/* A file in memory, for libtiff's RGBA images. */
static const struct picture_file *rgba_file;
static size_t rgba_at;

static tmsize_t on_read(thandle_t handle, void *to, tmsize_t count)
{
    size_t left = rgba_file->length - rgba_at, bytes = (size_t)count < left ? (size_t)count : left;
    memcpy(to, rgba_file->bytes + rgba_at, bytes);
    rgba_at += bytes;
    return (tmsize_t)bytes;
}

static tmsize_t on_write(thandle_t handle, void *from, tmsize_t count)
{
    return 0;
}

static toff_t on_seek(thandle_t handle, toff_t offset, int whence)
{
    size_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? rgba_at : rgba_file->length;
    rgba_at = base + offset;
    rgba_at = rgba_at < rgba_file->length ? rgba_at : rgba_file->length;
    return rgba_at;
}

static int on_close(thandle_t handle)
{
    return 0;
}

static toff_t on_size(thandle_t handle)
{
    return rgba_file->length;
}

/* Compares with the RGB of TIFFReadRGBAImage. */
static void expect_as_libtiff(const struct picture_file *file)
{
    rgba_file = file;
    rgba_at = 0;
    rig_reads(file, STATUS_OK, NULL);
    TIFF *tiff = TIFFClientOpen("test", "rm", &rgba_at, on_read, on_write, on_seek, on_close,
                                on_size, NULL, NULL);
    uint32_t width = rig.info.width, height = rig.info.height, channels = rig.info.channels;
    uint32_t *raster = malloc((size_t)width * height * sizeof *raster);
    uint8_t *wanted = malloc((size_t)width * height * channels), *to = wanted;
    assert_true(tiff && raster && wanted);
    assert_int_equal(TIFFReadRGBAImageOriented(tiff, width, height, raster, ORIENTATION_TOPLEFT, 1),
                     1);
    for (size_t i = 0; i < (size_t)width * height; i++) {
        uint8_t rgba[] = {(uint8_t)TIFFGetR(raster[i]), (uint8_t)TIFFGetG(raster[i]),
                          (uint8_t)TIFFGetB(raster[i]), (uint8_t)TIFFGetA(raster[i])};
        to = mempcpy(to, rgba, channels);
    }
    rig_expect_pixels(&rig, wanted, channels);
    free(wanted);
    free(raster);
    TIFFClose(tiff);
}

/* ---- kinds ---- */

static const struct tiff_page kinds[] = {
    {.bits = 1},
    {.bits = 1, .photometric = PHOTOMETRIC_MINISBLACK},
    {.bits = 2, .photometric = PHOTOMETRIC_MINISBLACK},
    {.bits = 4},
    {.bits = 8},
    {.bits = 8, .photometric = PHOTOMETRIC_MINISBLACK, .extra = 1 + EXTRASAMPLE_UNASSALPHA},
    {.bits = 8, .photometric = PHOTOMETRIC_MINISBLACK, .extra = 1 + EXTRASAMPLE_ASSOCALPHA},
    {.bits = 10, .photometric = PHOTOMETRIC_MINISBLACK},
    {.bits = 12, .photometric = PHOTOMETRIC_RGB},
    {.bits = 16, .photometric = PHOTOMETRIC_MINISBLACK},
    {.bits = 16},
    {.bits = 16, .photometric = PHOTOMETRIC_MINISBLACK, .extra = 1 + EXTRASAMPLE_UNASSALPHA},
    {.bits = 1, .photometric = PHOTOMETRIC_PALETTE},
    {.bits = 2, .photometric = PHOTOMETRIC_PALETTE},
    {.bits = 4, .photometric = PHOTOMETRIC_PALETTE},
    {.bits = 8, .photometric = PHOTOMETRIC_PALETTE},
    {.bits = 8, .photometric = PHOTOMETRIC_PALETTE, .extra = 1 + EXTRASAMPLE_UNASSALPHA},
    {.bits = 8, .photometric = PHOTOMETRIC_RGB},
    {.bits = 4, .photometric = PHOTOMETRIC_RGB},
    {.bits = 8, .photometric = PHOTOMETRIC_RGB, .samples = 4},
    {.bits = 8, .photometric = PHOTOMETRIC_RGB, .extra = 1 + EXTRASAMPLE_UNSPECIFIED},
    {.bits = 8, .photometric = PHOTOMETRIC_RGB, .extra = 1 + EXTRASAMPLE_UNASSALPHA},
    {.bits = 8, .photometric = PHOTOMETRIC_RGB, .extra = 1 + EXTRASAMPLE_ASSOCALPHA},
    {.bits = 16, .photometric = PHOTOMETRIC_RGB},
    {.bits = 16, .photometric = PHOTOMETRIC_RGB, .extra = 1 + EXTRASAMPLE_UNASSALPHA},
    {.bits = 16, .photometric = PHOTOMETRIC_RGB, .extra = 1 + EXTRASAMPLE_ASSOCALPHA},
    {.bits = 8, .photometric = PHOTOMETRIC_SEPARATED},
    {.bits = 8, .photometric = PHOTOMETRIC_SEPARATED, .extra = 1 + EXTRASAMPLE_UNASSALPHA},
    {.bits = 16, .photometric = PHOTOMETRIC_SEPARATED},
};

static const unsigned compressions[] = {
    COMPRESSION_NONE,    COMPRESSION_LZW,  COMPRESSION_ADOBE_DEFLATE, COMPRESSION_PACKBITS,
    COMPRESSION_DEFLATE, COMPRESSION_ZSTD, COMPRESSION_LZMA};

/* The compression with this number, or Deflate if libtiff does not have it. LZMA, which takes a
 * dictionary of megabytes for each strip, is rare. */
static unsigned compression_at(unsigned number)
{
    unsigned one = compressions[number % (COUNT_OF(compressions) - (number % 16 != 0))];
    return TIFFIsCODECConfigured((uint16_t)one) ? one : COMPRESSION_ADOBE_DEFLATE;
}

static bool has_predictor(const struct tiff_page *page)
{
    return (page->compression == COMPRESSION_LZW ||
            page->compression == COMPRESSION_ADOBE_DEFLATE) &&
           (page->bits == 8 || page->bits == 16);
}

TEST(test_kinds)
{
    static const uint32_t sides[][2] = {{1, 1}, {1, 19}, {19, 1}, {16, 16}, {33, 17}, {61, 47}};
    static const char *const modes[] = {"wl", "wb", "w8", "wb8"};
    unsigned number = 0;
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        for (size_t j = 0; j < COUNT_OF(sides); j++)
            for (int storage = 0; storage < 5; storage++, number++) {
                struct tiff_page page = kinds[i];
                page.width = sides[j][0];
                page.height = sides[j][1];
                page.planar = storage == 1 || storage == 3;
                page.tile = storage == 2 || storage == 3 ? 16 : 0;
                page.rows = storage == 4 ? 1000 : 0;
                page.compression = compression_at(number);
                page.predictor = number % 3 == 0 && has_predictor(&page);
                page.reversed = number % 5 == 0;
                page.seed = number + 1;
                check_page(modes[number / 7 % COUNT_OF(modes)], &page);
            }
}

TEST(test_fax)
{
    static const unsigned faxes[] = {COMPRESSION_CCITTRLE, COMPRESSION_CCITTFAX3,
                                     COMPRESSION_CCITTFAX4};
    for (unsigned i = 0; i < 4 * COUNT_OF(faxes); i++) {
        struct tiff_page page = {.width = i % 3 ? 200 : 37,
                                 .height = 41,
                                 .bits = 1,
                                 .compression = faxes[i / 4],
                                 .reversed = i & 1,
                                 .photometric = i & 2 ? PHOTOMETRIC_MINISBLACK : -1,
                                 .seed = i + 1};
        struct picture_file file = tiff_file(i & 1 ? "wb" : "wl", &page, 1);
        rig_reads(&file, STATUS_OK, NULL);
        page.photometric = page.photometric < 0 ? PHOTOMETRIC_MINISWHITE : page.photometric;
        expect_page(&page);
        picture_free(&file);
    }
}

TEST(test_missing_photometric)
{
    struct tiff_page page = {.width = 20, .height = 9, .photometric = -1};
    struct picture_file file = tiff_file("w", &page, 1);
    page.photometric = PHOTOMETRIC_MINISBLACK;
    rig_reads(&file, STATUS_OK, NULL);
    expect_page(&page);
    picture_free(&file);
    page = (struct tiff_page){.width = 20, .height = 9, .photometric = -1, .samples = 3};
    file = tiff_file("w", &page, 1);
    page.photometric = PHOTOMETRIC_RGB;
    rig_reads_once(file, STATUS_OK, NULL);
    expect_page(&page);
}

/* The image passes through the window in several bands. */
TEST(test_bands)
{
    check_page("w", &(struct tiff_page){.width = 1100,
                                        .height = 701,
                                        .photometric = PHOTOMETRIC_RGB,
                                        .rows = 1000,
                                        .compression = COMPRESSION_LZW});
    check_page("w", &(struct tiff_page){.width = 1100,
                                        .height = 701,
                                        .photometric = PHOTOMETRIC_RGB,
                                        .tile = 208,
                                        .planar = true});
    rig.limits.side_max = SIDE_CEILING;
    check_page("w", &(struct tiff_page){.width = SIDE_CEILING,
                                        .height = 11,
                                        .photometric = PHOTOMETRIC_RGB,
                                        .samples = 4});
}

/* JPEG with all kinds of subsampling, gray and RGB; in tiles and strips. */
TEST(test_jpeg)
{
    for (unsigned i = 0; i < 24; i++) {
        static const unsigned columns[] = {1, 2, 2, 4}, rows[] = {1, 1, 2, 1};
        int photometric = i / 8 == 0   ? PHOTOMETRIC_YCBCR
                          : i / 8 == 1 ? PHOTOMETRIC_MINISBLACK
                                       : PHOTOMETRIC_RGB;
        struct picture_file file =
            make_tiff(.width = 61, .height = 75, .compression = COMPRESSION_JPEG,
                      .photometric = photometric, .ycc_columns = columns[i % 4],
                      .ycc_rows = rows[i % 4], .tile = i & 4 ? 32 : 0, .rows = 16, .seed = i + 1);
        expect_as_libtiff(&file);
        picture_free(&file);
    }
}

/* Compares YCbCr in blocks, of which each has the Cb and Cr of its first pixel, with libtiff's
 * conversion of single pixels. (Its RGBA images lack the last bytes of some strips.) */
static void expect_blocks(const struct tiff_page *page)
{
    float luma[] = {0.299f, 0.587f, 0.114f}, range[] = {0, 255, 128, 255, 128, 255};
    TIFFYCbCrToRGB *tables = malloc(65536);
    uint8_t *wanted = malloc((size_t)page->width * page->height * 3), *to = wanted;
    assert_true(tables && wanted && TIFFYCbCrToRGBInit(tables, luma, range) == 0);
    unsigned columns = page->ycc_columns ? page->ycc_columns : 1;
    unsigned rows = page->ycc_rows ? page->ycc_rows : 1;
    for (uint32_t y = 0; y < page->height; y++)
        for (uint32_t x = 0; x < page->width; x++) {
            uint32_t rgb[3], i = x / columns * columns, j = y / rows * rows;
            TIFFYCbCrtoRGB(tables, tiff_page_sample(page, x, y, 0),
                           (int32_t)tiff_page_sample(page, i, j, 1),
                           (int32_t)tiff_page_sample(page, i, j, 2), &rgb[0], &rgb[1], &rgb[2]);
            for (int c = 0; c < 3; c++)
                *to++ = (uint8_t)rgb[c];
        }
    rig_expect_pixels(&rig, wanted, 3);
    free(wanted);
    free(tables);
}

TEST(test_ycc)
{
    static const unsigned sizes[] = {1, 2, 4};
    for (unsigned i = 0; i < 9; i++)
        for (unsigned width = 16; width <= 20; width++) {
            struct tiff_page page = {.width = width,
                                     .height = 21,
                                     .photometric = PHOTOMETRIC_YCBCR,
                                     .ycc_columns = sizes[i % 3],
                                     .ycc_rows = sizes[i / 3],
                                     .rows = 8,
                                     .seed = i + width,
                                     .compression = width % 2 ? COMPRESSION_LZW : 0};
            struct picture_file file = tiff_file("w", &page, 1);
            rig_reads(&file, STATUS_OK, NULL);
            expect_blocks(&page);
            if (width == 16 && sizes[i % 3] >= sizes[i / 3])
                expect_as_libtiff(&file);
            picture_free(&file);
        }
    struct tiff_page planes = {
        .width = 19, .height = 9, .planar = true, .photometric = PHOTOMETRIC_YCBCR};
    rig_reads_once(tiff_file("w", &planes, 1), STATUS_OK, NULL);
    expect_blocks(&planes);
}

TEST(test_webp)
{
    if (!TIFFIsCODECConfigured(COMPRESSION_WEBP))
        skip(); /* this libtiff has no WebP */
    check_page("w", &(struct tiff_page){.width = 61,
                                        .height = 47,
                                        .photometric = PHOTOMETRIC_RGB,
                                        .compression = COMPRESSION_WEBP,
                                        .rows = 100});
    check_page("w", &(struct tiff_page){.width = 61,
                                        .height = 47,
                                        .photometric = PHOTOMETRIC_RGB,
                                        .compression = COMPRESSION_WEBP,
                                        .tile = 32});
}

/* CMYK as it is, which the daemon converts by a profile. 255 is no ink. */
TEST(test_cmyk)
{
    struct tiff_page page = {.width = 33, .height = 17, .photometric = PHOTOMETRIC_SEPARATED};
    struct picture_file icc = picture_icc(144, "CMYK");
    page.icc = &icc;
    struct picture_file file = tiff_file("w", &page, 1);
    assert_int_equal(rig_decode(&rig, &file, DECODE_CMYK), STATUS_OK);
    assert_true(rig.info.cmyk);
    assert_true(image_info_icc_is_cmyk(&rig.info));
    for (uint32_t y = 0; y < page.height; y++)
        for (uint32_t x = 0; x < page.width; x++)
            for (unsigned s = 0; s < 4; s++)
                assert_int_equal(rig.image.pixels[y * rig.image.stride + 4 * x + s],
                                 255 - tiff_page_sample(&page, x, y, s));
    picture_free(&file);
    picture_free(&icc);
}

/* ---- pages ---- */

static const struct tiff_page book[] = {
    {.width = 30, .height = 20, .seed = 1},
    {.width = 15, .height = 10, .seed = 2, .kind = FILETYPE_REDUCEDIMAGE},
    {.width = 21, .height = 33, .seed = 3, .photometric = PHOTOMETRIC_RGB},
    {.width = 21, .height = 33, .seed = 4, .bits = 1, .kind = FILETYPE_MASK},
    {.width = 5, .height = 7, .seed = 5, .kind = FILETYPE_PAGE},
};

TEST(test_pages)
{
    static const int full[] = {0, 2, 4};
    for (int big = 0; big < 2; big++) {
        struct picture_file file = tiff_file(big ? "w8" : "wb", book, COUNT_OF(book));
        for (uint32_t i = 0; i < COUNT_OF(full); i++) {
            rig.limits.page = i;
            rig_reads(&file, STATUS_OK, NULL);
            assert_int_equal(rig.info.frames, 3);
            expect_page(&book[full[i]]);
        }
        rig.limits.page = 3;
        assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
        assert_int_equal(rig.info.frames, 3); /* the caller says which pages there are */
        picture_free(&file);
    }
}

/* If no page has the full size, all of them count. */
TEST(test_reduced_pages)
{
    const struct tiff_page pages[] = {book[1], book[1]};
    struct picture_file file = tiff_file("w", pages, 2);
    rig.limits.page = 1;
    rig_reads(&file, STATUS_OK, NULL);
    assert_int_equal(rig.info.frames, 2);
    expect_page(&pages[1]);
    picture_free(&file);
}

/* A TIFF of one strip with the bytes of a JPEG of 400 x 300 pixels in 4:2:0. */
static struct picture_file wrapped_jpeg(const struct picture_file *jpeg)
{
    enum { count = 10, base = 8 + 2 + 12 * count + 4, bits_bytes = 6 };
    const uint32_t entries[count][4] = {
        {TIFFTAG_IMAGEWIDTH, TIFF_SHORT, 1, 400},
        {TIFFTAG_IMAGELENGTH, TIFF_SHORT, 1, 300},
        {TIFFTAG_BITSPERSAMPLE, TIFF_SHORT, 3, base},
        {TIFFTAG_COMPRESSION, TIFF_SHORT, 1, COMPRESSION_JPEG},
        {TIFFTAG_PHOTOMETRIC, TIFF_SHORT, 1, PHOTOMETRIC_YCBCR},
        {TIFFTAG_STRIPOFFSETS, TIFF_LONG, 1, base + bits_bytes},
        {TIFFTAG_SAMPLESPERPIXEL, TIFF_SHORT, 1, 3},
        {TIFFTAG_ROWSPERSTRIP, TIFF_SHORT, 1, 300},
        {TIFFTAG_STRIPBYTECOUNTS, TIFF_LONG, 1, (uint32_t)jpeg->length},
        {TIFFTAG_YCBCRSUBSAMPLING, TIFF_SHORT, 2, 2 | 2 << 16}};
    uint8_t head[base + bits_bytes] = {'I', 'I', '*', 0, 8, 0, 0, 0, count};
    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; k < 4; k++)
            tiff_put_le(head + 10 + 12 * i + (k < 2 ? 2 * k : 4 * k - 4), entries[i][k],
                        k < 2 ? 2 : 4);
    for (unsigned i = 0; i < 3; i++)
        tiff_put_le(head + base + 2 * i, 8, 2);
    struct picture_file file = {NULL, 0};
    picture_append(&file, head, sizeof head);
    picture_append(&file, jpeg->bytes, jpeg->length);
    return file;
}

/* libjpeg holds all coefficients of a JPEG with several scans, so their memory is reserved. */
TEST(test_jpeg_scans)
{
    size_t least = 0;
    for (int i = 0; i < 3; i++) {
        struct picture_file jpeg =
            make_jpeg(.width = 400, .height = 300, .progressive = i == 1, .separate = i == 2);
        struct picture_file file = wrapped_jpeg(&jpeg);
        expect_as_libtiff(&file);
        size_t bytes = rig.info.codec_bytes - file.length;
        least = i == 0 ? bytes : least;
        assert_true(i == 0 || bytes > least + 400 * 300 * 3 * 2);
        picture_free(&file);
        picture_free(&jpeg);
    }
}

/* A chain of directories that returns to itself, or that ends beyond the file. */
TEST(test_cycles)
{
    struct picture_file file = tiff_file("wl", book, 3);
    uint32_t first = tiff_get_le(file.bytes + 4, 4);
    uint8_t *last = file.bytes + first;
    while (tiff_get_le(last + 2 + 12 * tiff_get_le(last, 2), 4) != 0)
        last = file.bytes + tiff_get_le(last + 2 + 12 * tiff_get_le(last, 2), 4);
    const uint32_t nexts[] = {first,     (uint32_t)(last - file.bytes), (uint32_t)file.length, 1, 7,
                              0xFFFFFFFF};
    for (size_t i = 0; i < COUNT_OF(nexts); i++) {
        tiff_put_le(last + 2 + 12 * tiff_get_le(last, 2), nexts[i], 4);
        rig_reads(&file, STATUS_OK, NULL);
        assert_int_equal(rig.info.frames, 2);
        expect_page(&book[0]);
    }
    tiff_put_le(file.bytes + 4, (uint32_t)file.length, 4);
    rig_reads_once(file, STATUS_DECODE_FAILED, "the TIFF has no directory at byte");
}

/* A chain of as many directories as a file may have, and of one more. */
TEST(test_long_chain)
{
    struct tiff_page page = {.width = 3, .height = 3};
    struct picture_file file = tiff_file("wl", &page, 1);
    uint8_t *first = file.bytes + tiff_get_le(file.bytes + 4, 4);
    size_t bytes = 2 + 12 * tiff_get_le(first, 2) + 4, count = FRAMES_MAX;
    struct picture_file chain = {picture_allocate(file.length + count * bytes), file.length};
    memcpy(chain.bytes, file.bytes, file.length);
    tiff_put_le(chain.bytes + (first - file.bytes) + bytes - 4, (uint32_t)file.length, 4);
    for (size_t i = 0; i < count; i++, chain.length += bytes) {
        memcpy(chain.bytes + chain.length, first, bytes);
        tiff_put_le(chain.bytes + chain.length + bytes - 4, (uint32_t)(chain.length + bytes), 4);
    }
    rig_reads(&chain, STATUS_DECODE_LIMIT, "the TIFF has more than 65536 pages");
    tiff_put_le(chain.bytes + chain.length - bytes - 4, 0, 4); /* without the last one */
    rig.limits.page = FRAMES_MAX - 1;
    rig_reads(&chain, STATUS_OK, NULL);
    assert_int_equal(rig.info.frames, FRAMES_MAX);
    expect_page(&page);
    picture_free(&file);
    picture_free(&chain);
}

TEST(test_flipped_bytes)
{
    uint32_t random = 20240608;
    uint64_t end = clock_now_ns() + 3000000000u;
    struct picture_file files[] = {
        tiff_file("wl", book, COUNT_OF(book)),
        make_tiff(.width = 61, .height = 47, .tile = 32, .compression = COMPRESSION_JPEG,
                  .photometric = PHOTOMETRIC_YCBCR, .ycc_columns = 2, .ycc_rows = 2),
        make_tiff(.width = 61, .height = 47, .bits = 1, .compression = COMPRESSION_CCITTFAX4),
        make_tiff(.width = 61, .height = 47, .photometric = PHOTOMETRIC_YCBCR, .ycc_columns = 2,
                  .ycc_rows = 2, .rows = 8, .compression = COMPRESSION_LZW)};
    rig.limits.side_max = 256;
    for (unsigned i = 0; i < 1000 && clock_now_ns() < end; i++) {
        const struct picture_file *file = &files[i % COUNT_OF(files)];
        size_t from = i % 2 != 0 || file->length < 400 ? 4 : file->length - 400;
        struct picture_file bad = picture_damage(file, from, file->length, &random);
        (void)!rig_decode(&rig, &bad, DECODE_COLOUR);
        assert_true(rig.error.status == STATUS_OK || rig.error.text[0] != '\0');
        picture_free(&bad);
    }
    for (size_t i = 0; i < COUNT_OF(files); i++)
        picture_free(&files[i]);
}

#else

TEST(test_refused)
{
    struct picture_file file = {(uint8_t *)(uintptr_t) "II*\0\x08\0\0\0\0\0", 10};
    assert_int_equal(rig_probe(&rig, &file), STATUS_UNSUPPORTED_FORMAT);
    assert_string_equal(rig.error.text, "the input is a TIFF, but this gpuimgd was built without "
                                        "libtiff (TIFF=no)");
}

#endif

TEST_MAIN(.name = "tiff", .each_setup = rig_setup, .each_teardown = rig_teardown)
