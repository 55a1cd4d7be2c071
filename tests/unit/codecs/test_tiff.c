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

static void check_page(const char *mode, const struct tiff_page *page)
{
    struct picture_file file = tiff_file(mode, page, 1);
    rig_reads(&file, STATUS_OK, NULL);
    expect_page(page);
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

static uint32_t get_le(const uint8_t *at, unsigned bytes)
{
    return at[0] | (uint32_t)at[1] << 8 |
           (bytes == 4 ? (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24 : 0);
}

static void put_le(uint8_t *at, uint32_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

/* The place of an entry of the first directory of a little-endian file. */
static uint8_t *entry_of(const struct picture_file *file, unsigned tag)
{
    uint8_t *at = file->bytes + get_le(file->bytes + 4, 4);
    for (unsigned i = 0; i < get_le(at, 2); i++)
        if (get_le(at + 2 + 12 * i, 2) == tag)
            return at + 2 + 12 * i;
    fail_msg("there is no tag %u", tag);
    return NULL;
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
            put_le(head + 10 + 12 * i + (k < 2 ? 2 * k : 4 * k - 4), entries[i][k], k < 2 ? 2 : 4);
    for (unsigned i = 0; i < 3; i++)
        put_le(head + base + 2 * i, 8, 2);
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
    uint32_t first = get_le(file.bytes + 4, 4);
    uint8_t *last = file.bytes + first;
    while (get_le(last + 2 + 12 * get_le(last, 2), 4) != 0)
        last = file.bytes + get_le(last + 2 + 12 * get_le(last, 2), 4);
    const uint32_t nexts[] = {first,     (uint32_t)(last - file.bytes), (uint32_t)file.length, 1, 7,
                              0xFFFFFFFF};
    for (size_t i = 0; i < COUNT_OF(nexts); i++) {
        put_le(last + 2 + 12 * get_le(last, 2), nexts[i], 4);
        rig_reads(&file, STATUS_OK, NULL);
        assert_int_equal(rig.info.frames, 2);
        expect_page(&book[0]);
    }
    put_le(file.bytes + 4, (uint32_t)file.length, 4);
    rig_reads_once(file, STATUS_DECODE_FAILED, "the TIFF has no directory at byte");
}

/* A chain of as many directories as a file may have, and of one more. */
TEST(test_long_chain)
{
    struct tiff_page page = {.width = 3, .height = 3};
    struct picture_file file = tiff_file("wl", &page, 1);
    uint8_t *first = file.bytes + get_le(file.bytes + 4, 4);
    size_t bytes = 2 + 12 * get_le(first, 2) + 4, count = FRAMES_MAX;
    struct picture_file chain = {picture_allocate(file.length + count * bytes), file.length};
    memcpy(chain.bytes, file.bytes, file.length);
    put_le(chain.bytes + (first - file.bytes) + bytes - 4, (uint32_t)file.length, 4);
    for (size_t i = 0; i < count; i++, chain.length += bytes) {
        memcpy(chain.bytes + chain.length, first, bytes);
        put_le(chain.bytes + chain.length + bytes - 4, (uint32_t)(chain.length + bytes), 4);
    }
    rig_reads(&chain, STATUS_DECODE_LIMIT, "the TIFF has more than 65536 pages");
    put_le(chain.bytes + chain.length - bytes - 4, 0, 4); /* without the last one */
    rig.limits.page = FRAMES_MAX - 1;
    rig_reads(&chain, STATUS_OK, NULL);
    assert_int_equal(rig.info.frames, FRAMES_MAX);
    expect_page(&page);
    picture_free(&file);
    picture_free(&chain);
}

/* ---- metadata ---- */

TEST(test_orientation)
{
    for (unsigned i = 1; i <= 8; i++) {
        struct picture_file file = make_tiff(.width = 9, .height = 7, .orientation = i);
        rig_reads(&file, STATUS_OK, NULL);
        assert_int_equal(rig.info.orientation, i);
        assert_int_equal(rig.info.width, 9);
        picture_free(&file);
    }
}

TEST(test_density)
{
    static const struct {
        unsigned unit;
        float density;
        enum density_unit wanted;
    } rows[] = {{RESUNIT_INCH, 300, DENSITY_INCH},
                {RESUNIT_CENTIMETER, 118, DENSITY_CM},
                {RESUNIT_NONE, 1, DENSITY_NONE},
                {0, 72, DENSITY_INCH},
                {0, 0, DENSITY_NONE}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct picture_file file =
            make_tiff(.width = 9, .height = 7, .unit = rows[i].unit, .density = rows[i].density);
        rig_reads(&file, STATUS_OK, NULL);
        assert_int_equal(rig.info.density.unit, rows[i].wanted);
        if (rows[i].wanted != DENSITY_NONE)
            assert_int_equal(rig.info.density.x, (int)rows[i].density);
        picture_free(&file);
    }
}

TEST(test_metadata)
{
    static const char packet[] = "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"></x:xmpmeta>";
    struct picture_file icc = picture_icc(144, "RGB "),
                        xmp = {(uint8_t *)(uintptr_t)packet, sizeof packet - 1};
    rig.limits.metadata = METADATA_ALL;
    for (int big = 0; big < 2; big++) {
        struct tiff_page page = {.width = 9,
                                 .height = 7,
                                 .photometric = PHOTOMETRIC_RGB,
                                 .orientation = 6,
                                 .icc = &icc,
                                 .xmp = &xmp,
                                 .artist = "Ada Lovelace"};
        struct picture_file file = tiff_file(big ? "wb8" : "wl", &page, 1);
        rig_reads(&file, STATUS_OK, NULL);
        assert_int_equal(rig.info.icc_bytes, icc.length);
        assert_memory_equal(rig.info.icc, icc.bytes, icc.length);
        assert_true(rig.info.xmp_bytes > 0);
        assert_non_null(memmem(rig.info.exif, rig.info.exif_bytes, "Ada Lovelace", 12));
        assert_non_null(
            memmem(rig.info.notice_exif, rig.info.notice_exif_bytes, "Ada Lovelace", 12));
        picture_free(&file);
    }
    picture_free(&icc);
}

/* A directory of EXIF: its sensitivity. */
TEST(test_exif_directory)
{
    static const char exif[] = "\1\0\x27\x88\3\0\1\0\0\0\x90\1\0\0\0\0\0\0";
    struct picture_file file = tiff_file("wl", &(struct tiff_page){.width = 9, .height = 7}, 1);
    picture_append(&file, "", file.length % 2);
    uint8_t *entry = entry_of(&file, TIFFTAG_PLANARCONFIG);
    put_le(entry, TIFFTAG_EXIFIFD, 2);
    put_le(entry + 2, TIFF_LONG, 2);
    put_le(entry + 8, (uint32_t)file.length, 4);
    picture_append(&file, exif, sizeof exif - 1);
    rig.limits.metadata = METADATA_ALL;
    rig_reads(&file, STATUS_OK, NULL);
    assert_non_null(memmem(rig.info.exif, rig.info.exif_bytes, exif + 2, 10));
    /* A directory that points to itself. */
    put_le(file.bytes + file.length - 16, 0xA005, 2);
    put_le(file.bytes + file.length - 14, TIFF_LONG, 2);
    put_le(file.bytes + file.length - 8, (uint32_t)file.length - 18, 4);
    rig_reads_once(file, STATUS_OK, NULL);
}

/* IPTC in Photoshop's resources, or in a tag of its own. */
TEST(test_iptc)
{
    static const char resources[] = "8BIM\4\4\0\0\0\0\0\x11\x1C\2\x50\0\x0C"
                                    "Ada Lovelace";
    for (int i = 0; i < 2; i++) {
        size_t skipped = i ? 12 : 0;
        struct picture_file blob = {(uint8_t *)(uintptr_t)resources + skipped,
                                    sizeof resources - 1 - skipped};
        struct picture_file file =
            tiff_file("wl", &(struct tiff_page){.width = 9, .height = 7, .photoshop = &blob}, 1);
        if (i)
            put_le(entry_of(&file, TIFFTAG_PHOTOSHOP), TIFFTAG_RICHTIFFIPTC, 2);
        rig.limits.metadata = METADATA_COPYRIGHT;
        rig_reads(&file, STATUS_OK, NULL);
        assert_non_null(memmem(rig.info.notice_xmp, rig.info.notice_xmp_bytes, "Ada Lovelace", 12));
        picture_free(&file);
    }
}

/* ---- refusals ---- */

TEST(test_refused)
{
    static const struct {
        unsigned tag, value;
        const char *message;
    } rows[] = {
        {TIFFTAG_COMPRESSION, 6, "the TIFF's compression is 6 (old-style JPEG)"},
        {TIFFTAG_COMPRESSION, 34887, "the TIFF's compression is 34887 (LERC)"},
        {TIFFTAG_COMPRESSION, 4711, "the TIFF's compression is 4711 (unknown)"},
        {TIFFTAG_PHOTOMETRIC, 8, "is 8 (CIE L*a*b*); it must be gray, a palette, RGB, CMYK"},
        {TIFFTAG_PHOTOMETRIC, 32803, "is 32803 (a colour filter array of a camera)"},
        {TIFFTAG_PHOTOMETRIC, 4, "is 4 (a transparency mask)"},
        {TIFFTAG_BITSPERSAMPLE, 32, "the TIFF has 32 bits per sample; it must have 1 to 16"},
        {TIFFTAG_BITSPERSAMPLE, 64, "the TIFF has 64 bits per sample"},
    };
    struct picture_file file =
        make_tiff(.width = 9, .height = 7, .photometric = PHOTOMETRIC_MINISBLACK);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint8_t *value = entry_of(&file, rows[i].tag) + 8, kept[2];
        memcpy(kept, value, 2);
        put_le(value, rows[i].value, 2);
        rig_reads(&file, STATUS_UNSUPPORTED_FORMAT, rows[i].message);
        memcpy(value, kept, 2);
    }
    /* The tag for the planar configuration becomes that of the sample format. */
    uint8_t *entry = entry_of(&file, TIFFTAG_PLANARCONFIG);
    put_le(entry, TIFFTAG_SAMPLEFORMAT, 2);
    put_le(entry + 8, SAMPLEFORMAT_IEEEFP, 2);
    rig_reads(&file, STATUS_UNSUPPORTED_FORMAT, "is 3 (floating point); it must be 1 (unsigned");
    put_le(entry + 8, SAMPLEFORMAT_INT, 2);
    rig_reads(&file, STATUS_UNSUPPORTED_FORMAT, "is 2 (signed integers)");
    picture_free(&file);
}

/* Sizes that a header of some hundred bytes can claim. */
TEST(test_limits)
{
    struct picture_file file =
        make_tiff(.width = 64, .height = 64, .tile = 16, .compression = COMPRESSION_ADOBE_DEFLATE);
    uint8_t *width = entry_of(&file, TIFFTAG_IMAGEWIDTH),
            *tile = entry_of(&file, TIFFTAG_TILEWIDTH);
    uint8_t *length = entry_of(&file, TIFFTAG_TILELENGTH);
    put_le(tile + 8, 32768, 2);
    put_le(length + 8, 32768, 2);
    rig_reads(&file, STATUS_DECODE_LIMIT, "the TIFF's tiles of 32768 x 32768 pixels have");
    put_le(tile + 8, 1, 2);
    put_le(length + 8, 1, 2);
    put_le(width + 2, TIFF_LONG, 2);
    put_le(width + 8, 60000, 4);
    rig.limits.side_max = SIDE_CEILING;
    rig_reads(&file, STATUS_DECODE_LIMIT, "the TIFF has 3840000 tiles; at most 1048576");
    put_le(width + 8, 65501, 4);
    rig_reads(&file, STATUS_IMAGE_TOO_LARGE, "the TIFF is 65501 x 64 pixels; a side has at most");
    put_le(width + 8, 0, 4);
    rig_reads(&file, STATUS_DECODE_FAILED, NULL);
    picture_free(&file);
    file = make_tiff(.width = 64, .height = 64);
    put_le(entry_of(&file, TIFFTAG_SAMPLESPERPIXEL) + 8, 65535, 2);
    (void)rig_decode(&rig, &file, DECODE_COLOUR);
    assert_int_not_equal(rig.error.status, STATUS_OK);
    picture_free(&file);
    file = make_tiff(.width = 64, .height = 64);
    put_le(entry_of(&file, TIFFTAG_IMAGELENGTH) + 8, 40000, 2);
    rig.limits.side_max = 20000;
    rig_reads_once(file, STATUS_IMAGE_TOO_LARGE, "40000");
}

/* Tags that share a large value, which libtiff would copy for each of them. */
TEST(test_large_tags)
{
    static const uint8_t zeros[2 * MIB];
    struct picture_file file = make_tiff(.width = 9, .height = 7, .artist = "Ada Lovelace");
    static const unsigned tags[] = {TIFFTAG_ARTIST, TIFFTAG_PLANARCONFIG};
    for (size_t i = 0; i < COUNT_OF(tags); i++) {
        uint8_t *entry = entry_of(&file, tags[i]);
        put_le(entry, 40000 + (unsigned)i, 2);
        put_le(entry + 2, TIFF_UNDEFINED, 2);
        put_le(entry + 4, sizeof zeros, 4);
        put_le(entry + 8, 8, 4);
    }
    picture_append(&file, zeros, sizeof zeros);
    rig_reads_once(file, STATUS_DECODE_LIMIT, "the tags of the TIFF have values of 41");
}

/* ---- damaged files ---- */

TEST(test_truncated_strip)
{
    struct picture_file file = make_tiff(.width = 64, .height = 64, .rows = 64);
    uint8_t *offset = entry_of(&file, TIFFTAG_STRIPOFFSETS) + 8;
    put_le(offset, (uint32_t)file.length - 96, 4);
    char wanted[120];
    snprintf(wanted, sizeof wanted,
             "the TIFF is truncated: strip 0 has 4096 bytes from byte %zu on, "
             "but the file has %zu bytes",
             file.length - 96, file.length);
    rig_reads_once(file, STATUS_DECODE_FAILED, wanted);
}

TEST(test_truncated)
{
    const struct tiff_page pages[] = {
        {.width = 31, .height = 21, .photometric = PHOTOMETRIC_RGB, .planar = true},
        {.width = 40, .height = 21, .tile = 16, .compression = COMPRESSION_LZW},
        {.width = 31, .height = 21, .compression = COMPRESSION_ADOBE_DEFLATE}};
    for (size_t i = 0; i < COUNT_OF(pages); i++) {
        struct picture_file file = tiff_file("w", &pages[i], 1);
        for (size_t length = 0; length < file.length;
             length += length < 20 || length + 200 > file.length ? 1 : 61) {
            struct picture_file cut = picture_cut(&file, length);
            enum status status = rig_decode(&rig, &cut, DECODE_COLOUR);
            /* The last bytes are values of tags that are not needed. */
            assert_true(status == STATUS_DECODE_FAILED || status == STATUS_UNSUPPORTED_FORMAT ||
                        (status == STATUS_OK && length + 24 > file.length));
            picture_free(&cut);
        }
        picture_free(&file);
    }
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
