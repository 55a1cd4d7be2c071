/*
 * Tests of the BMP reader with files that the test writes. The expected pixels are computed here;
 * Pillow reads those that it can, too. Jason Summers's BMP Suite has public files of the same
 * kinds.
 */
#include "tests/fixtures/codec_rig.h"

#include <math.h>

#include "tests/fixtures/picture_impl.h"
#include "tests/fixtures/pillow.h"

/* A file to write. 0 is the usual value of a member. */
struct bmp {
    uint32_t width;
    int32_t height;        /* negative: from top to bottom */
    unsigned bits, header; /* header: size of the second header, 0: 40 */
    unsigned compression;
    uint32_t masks[4]; /* with compression 3 and 6 */
    unsigned colours;  /* of the palette; 0: all */
    unsigned gap;      /* bytes before the pixels */
    const void *data;  /* compressed data */
    size_t data_bytes;
    const struct picture_file *icc;
    uint32_t seed;
};

/* Appends a little-endian number. The file has room for it. */
static void put(struct picture_file *file, uint32_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        file->bytes[file->length++] = (uint8_t)(value >> 8 * i);
}

static void put_bytes(struct picture_file *file, const void *bytes, size_t count)
{
    memcpy(file->bytes + file->length, bytes, count);
    file->length += count;
}

static uint32_t rows_of(const struct bmp *bmp)
{
    return (uint32_t)(bmp->height < 0 ? -bmp->height : bmp->height);
}

static unsigned header_of(const struct bmp *bmp)
{
    return bmp->header ? bmp->header : 40;
}

static unsigned colours_of(const struct bmp *bmp)
{
    return bmp->bits > 8 ? 0 : bmp->colours ? bmp->colours : 1u << bmp->bits;
}

/* A channel of a colour of the palette. */
static uint8_t colour(unsigned index, unsigned channel)
{
    return (uint8_t)((index + 1) * (37 + 50 * channel));
}

/* The pixel as a number of the file; an index is one of the palette. */
static uint32_t pixel(const struct bmp *bmp, uint32_t x, uint32_t y)
{
    uint32_t high = picture_sample(bmp->seed, bmp->width, rows_of(bmp), x, y, 0);
    uint32_t low = picture_sample(bmp->seed, bmp->width, rows_of(bmp), x, y, 1);
    uint32_t value = high << 16 | low;
    return bmp->bits > 8 ? (bmp->bits == 32 ? value : value >> (32 - bmp->bits))
                         : (value >> 16) % colours_of(bmp);
}

static bool has_masks(const struct bmp *bmp)
{
    return bmp->compression == 3 || bmp->compression == 6;
}

static void put_header(struct picture_file *file, const struct bmp *bmp, size_t pixels_at)
{
    unsigned size = header_of(bmp);
    put_bytes(file, "BM", 2);
    put(file, 0xFFFFFFFF, 4); /* the size of the file, which readers ignore */
    put(file, 0, 4);
    put(file, (uint32_t)pixels_at, 4);
    put(file, size, 4);
    put(file, bmp->width, size == 12 ? 2 : 4);
    put(file, (uint32_t)bmp->height, size == 12 ? 2 : 4);
    put(file, 1, 2);
    put(file, bmp->bits, 2);
    uint32_t rest[27] = {bmp->compression,
                         0,
                         2835,
                         5670,
                         bmp->colours,
                         0,
                         bmp->masks[0],
                         bmp->masks[1],
                         bmp->masks[2],
                         bmp->masks[3]};
    if (bmp->icc) {
        rest[10] = 0x4D424544; /* 'MBED' */
        rest[24] = (uint32_t)pixels_at - 14 - (uint32_t)bmp->icc->length;
        rest[25] = (uint32_t)bmp->icc->length;
    }
    for (unsigned i = 0; 16 + 4 * i < size; i++)
        put(file, rest[i], 4);
    for (unsigned i = 0; size == 40 && has_masks(bmp) && i < (bmp->compression == 6 ? 4 : 3); i++)
        put(file, bmp->masks[i], 4);
}

static void put_pixels(struct picture_file *file, const struct bmp *bmp)
{
    for (uint32_t row = 0; row < rows_of(bmp); row++) {
        size_t start = file->length;
        uint32_t y = bmp->height < 0 ? row : rows_of(bmp) - 1 - row, bits = 0, used = 0;
        for (uint32_t x = 0; x < bmp->width; x++) {
            if (bmp->bits > 8) {
                put(file, pixel(bmp, x, y), bmp->bits / 8);
                continue;
            }
            bits = bits << bmp->bits | pixel(bmp, x, y);
            used += bmp->bits;
            if (used == 8 || x + 1 == bmp->width) {
                put(file, bits << (8 - used), 1);
                bits = used = 0;
            }
        }
        while ((file->length - start) % 4 != 0)
            put(file, 0, 1);
    }
}

static struct picture_file bmp_file(const struct bmp *bmp)
{
    size_t pixels = bmp->data ? bmp->data_bytes
                              : (size_t)rows_of(bmp) * ((size_t)bmp->width * bmp->bits / 8 + 8);
    struct picture_file file = {picture_allocate(pixels + 8192), 0};
    unsigned size = header_of(bmp), entry = size == 12 ? 3 : 4;
    size_t masks = size == 40 && has_masks(bmp) ? (bmp->compression == 6 ? 16 : 12) : 0;
    size_t icc = bmp->icc ? bmp->icc->length : 0;
    put_header(&file, bmp, 14 + size + masks + colours_of(bmp) * entry + icc + bmp->gap);
    for (unsigned i = 0; i < colours_of(bmp); i++) {
        for (int c = 2; c >= 0; c--)
            put(&file, colour(i, (unsigned)c), 1);
        put(&file, 0xAA, entry - 3);
    }
    for (unsigned i = 0; i < bmp->gap; i++)
        put(&file, 0x55, 1);
    if (bmp->icc)
        put_bytes(&file, bmp->icc->bytes, bmp->icc->length);
    if (bmp->data)
        put_bytes(&file, bmp->data, bmp->data_bytes);
    else
        put_pixels(&file, bmp);
    return file;
}
#define make_bmp(...) bmp_file(&(struct bmp){__VA_ARGS__})

/* ---- expected pixels ---- */

static uint8_t masked(uint32_t value, uint32_t mask)
{
    uint32_t most = mask, shift = 0;
    if (mask == 0)
        return 0;
    for (; most % 2 == 0; most /= 2)
        shift++;
    return (uint8_t)floor(((value & mask) >> shift) * 255.0 / most + 0.5);
}

static void mask_of(const struct bmp *bmp, uint32_t masks[4])
{
    static const uint32_t of16[4] = {0x7C00, 0x3E0, 0x1F}, of32[4] = {0xFF0000, 0xFF00, 0xFF};
    memcpy(masks, has_masks(bmp) ? bmp->masks : bmp->bits == 16 ? of16 : of32, 4 * sizeof *masks);
}

/* indices: of RLE, from the first row on; NULL: the pixels are those of `pixel`. */
static void expect_bmp(const struct bmp *bmp, const uint8_t *indices)
{
    uint32_t masks[4], height = rows_of(bmp);
    mask_of(bmp, masks);
    uint32_t channels = bmp->bits > 8 && masks[3] ? 4 : 3;
    uint8_t *wanted = malloc((size_t)bmp->width * height * channels), *to = wanted;
    assert_non_null(wanted);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < bmp->width; x++)
            for (uint32_t c = 0; c < channels; c++)
                *to++ = bmp->bits > 8
                            ? masked(pixel(bmp, x, y), masks[c])
                            : colour(indices ? indices[y * bmp->width + x] : pixel(bmp, x, y), c);
    assert_int_equal(rig.info.width, bmp->width);
    assert_int_equal(rig.info.height, height);
    assert_int_equal(rig.info.channels, channels);
    rig_expect_pixels(&rig, wanted, channels);
    free(wanted);
}

static void check_bmp(const struct bmp *bmp)
{
    struct picture_file file = bmp_file(bmp);
    rig_reads(&file, STATUS_OK, NULL);
    expect_bmp(bmp, NULL);
    picture_free(&file);
}

/* ---- kinds ---- */

static const struct bmp kinds[] = {
    {.bits = 1},
    {.bits = 1, .header = 12},
    {.bits = 2},
    {.bits = 4},
    {.bits = 4, .colours = 5},
    {.bits = 8},
    {.bits = 8, .header = 12},
    {.bits = 8, .header = 16},
    {.bits = 8, .header = 64},
    {.bits = 8, .header = 108, .gap = 77},
    {.bits = 8, .header = 124, .colours = 200},
    {.bits = 24},
    {.bits = 24, .header = 12},
    {.bits = 24, .header = 64},
    {.bits = 16},
    {.bits = 32},
    {.bits = 32, .header = 124},
    {.bits = 16, .compression = 3, .masks = {0xF800, 0x7E0, 0x1F}},
    {.bits = 16, .compression = 3, .masks = {0x3, 0x1C, 0x8000}},
    {.bits = 16, .compression = 3, .masks = {0xFF00, 0xFF, 0}},
    {.bits = 16, .compression = 6, .masks = {0xF00, 0xF0, 0xF, 0xF000}},
    {.bits = 32, .compression = 3, .masks = {0xFF, 0xFF00, 0xFF0000}},
    {.bits = 32, .compression = 3, .masks = {0xFFC00000, 0x3FF000, 0xFFF}},
    {.bits = 32, .compression = 3, .header = 52, .masks = {0x3FFFFFFF, 0x80000000, 0x40000000}},
    {.bits = 32, .compression = 3, .header = 56, .masks = {0xFF0000, 0xFF00, 0xFF, 0xFF000000}},
    {.bits = 32, .compression = 3, .header = 108, .masks = {0xFF0000, 0xFF00, 0xFF, 0xFF000000}},
    {.bits = 32, .compression = 3, .header = 124, .masks = {0xFF000000, 0xFF0000, 0xFF00, 0xFF}},
    {.bits = 32, .compression = 6, .masks = {0xFF, 0xFF00, 0xFF0000, 0xFF000000}},
    {.bits = 32,
     .compression = 3,
     .header = 124,
     .masks = {0x3FF, 0xFFC00, 0x3FF00000, 0xC0000000}},
};

TEST(test_kinds)
{
    static const int32_t sides[][2] = {{1, 1}, {1, 19}, {19, 1}, {33, 17}, {8, 8}, {61, 47}};
    for (size_t i = 0; i < COUNT_OF(kinds) * COUNT_OF(sides); i++) {
        struct bmp bmp = kinds[i / COUNT_OF(sides)];
        bmp.width = (uint32_t)sides[i % COUNT_OF(sides)][0];
        bmp.height = sides[i % COUNT_OF(sides)][1];
        bmp.seed = (uint32_t)i + 1;
        check_bmp(&bmp);
        bmp.height = -bmp.height;
        if (bmp.header != 12)
            check_bmp(&bmp);
    }
}

TEST(test_bands)
{
    check_bmp(&(struct bmp){.width = 1100, .height = 701, .bits = 24});
    rig.limits.side_max = SIDE_CEILING;
    check_bmp(&(struct bmp){.width = SIDE_CEILING, .height = 33, .bits = 4});
}

/* Pillow rounds 5 and 6 bits down, and so differs by 1. */
TEST(test_as_pillow)
{
    struct pillow pillow;
    if (!pillow_open(&pillow))
        skip(); /* there is no Python with Pillow here */
    for (int pass = 0; pass < 2; pass++) {
        unsigned number = 0, equal = 0;
        for (size_t i = 0; i < COUNT_OF(kinds); i++) {
            struct bmp bmp = kinds[i];
            bmp.width = 37;
            bmp.height = i % 2 && bmp.header != 12 ? -23 : 23;
            struct picture_file file = bmp_file(&bmp);
            rig_reads(&file, STATUS_OK, NULL);
            uint32_t channels = rig.info.channels;
            if (pass == 0)
                pillow_add(&pillow, &file, channels == 4 ? "RGBA" : "RGB");
            else {
                struct picture_file pixels = pillow_pixels(&pillow, number++);
                if (pixels.length > 0 && bmp.bits != 16)
                    rig_expect_pixels(&rig, pixels.bytes, channels);
                equal += pixels.length > 0;
                picture_free(&pixels);
            }
            picture_free(&file);
        }
        if (pass == 0)
            pillow_read(&pillow);
        else
            assert_true(equal >= 14);
    }
    pillow_close(&pillow);
}

/* ---- RLE ---- */

#define DATA(text) .data = text, .data_bytes = sizeof(text) - 1

TEST(test_rle)
{
    static const struct {
        struct bmp bmp;
        const char *rows; /* indices from the first row on, as digits */
    } rows[] = {
        {{.width = 5,
          .height = 3,
          .bits = 8,
          .compression = 1,
          DATA("\5\1\0\0\2\3\0\3\4\5\6\0\0\0\5\7\0\1")},
         "777773345611111"},
        /* a delta, an end of row and the end of the image leave 0 */
        {{.width = 5, .height = 3, .bits = 8, .compression = 1, DATA("\2\1\0\2\1\1\2\7\0\1")},
         "000000007711000"},
        /* runs beyond the right side are cut */
        {{.width = 5,
          .height = 3,
          .bits = 8,
          .compression = 1,
          DATA("\x20\1\0\0\2\2\0\4\1\2\3\4\0\0\0\1")},
         "000002212311111"},
        /* complete without an end */
        {{.width = 2, .height = 1, .bits = 8, .compression = 1, DATA("\2\6")}, "66"},
        {{.width = 5,
          .height = 3,
          .bits = 4,
          .compression = 2,
          DATA("\5\x12\0\0\0\5\x34\x56\x70\0\0\0\1\x90\0\2\1\0\3\x87\0\1")},
         "908783456712121"},
        {{.width = 3, .height = 2, .bits = 4, .compression = 2, DATA("\3\x11\0\0\0\3\x12\x30\0\1")},
         "123111"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint8_t indices[15];
        for (size_t k = 0; k < strlen(rows[i].rows); k++)
            indices[k] = (uint8_t)(rows[i].rows[k] - '0');
        struct picture_file file = bmp_file(&rows[i].bmp);
        rig_reads(&file, STATUS_OK, NULL);
        expect_bmp(&rows[i].bmp, indices);
        picture_free(&file);
    }
}

TEST(test_rle_truncated)
{
    static const char *const data[] = {"\2\1", "\5\1\0\0\2", "\5\1\0\0\0\4\1\2", "\5\1\0\2\1",
                                       "\5\1\0"};
    static const size_t bytes[] = {2, 5, 8, 5, 3};
    for (size_t i = 0; i < COUNT_OF(data); i++) {
        struct bmp bmp = {.width = 5,
                          .height = 3,
                          .bits = 8,
                          .compression = 1,
                          .data = data[i],
                          .data_bytes = bytes[i]};
        rig_reads_once(bmp_file(&bmp), STATUS_DECODE_FAILED,
                       "the BMP is truncated: its compressed data ends in row");
    }
    /* Runs that never end a row must not write past the image. */
    uint8_t many[4000];
    for (size_t i = 0; i < sizeof many; i++)
        many[i] = i % 4 == 0 ? 255 : 0;
    struct bmp bmp = {.width = 5,
                      .height = 3,
                      .bits = 8,
                      .compression = 1,
                      .data = many,
                      .data_bytes = sizeof many};
    rig_reads_once(bmp_file(&bmp), STATUS_OK, NULL);
}

/* ---- metadata ---- */

TEST(test_metadata)
{
    struct picture_file icc = picture_icc(144, "RGB ");
    struct picture_file file =
        make_bmp(.width = 9, .height = 7, .bits = 24, .header = 124, .icc = &icc);
    rig_reads(&file, STATUS_OK, NULL);
    assert_int_equal(rig.info.icc_bytes, icc.length);
    assert_memory_equal(rig.info.icc, icc.bytes, icc.length);
    assert_int_equal(rig.info.density.unit, DENSITY_METRE);
    assert_int_equal(rig.info.density.x, 2835);
    assert_int_equal(rig.info.density.y, 5670);
    /* A profile beyond the file is left out. */
    file.bytes[14 + 116 + 3] = 0;
    file.bytes[14 + 112 + 2] = 1;
    rig_reads_once(file, STATUS_OK, NULL);
    assert_null(rig.info.icc);
    picture_free(&icc);
}

/* ---- refusals ---- */

TEST(test_refused)
{
    static const struct {
        struct bmp bmp;
        enum status status;
        const char *message;
    } rows[] = {
        {{.width = 9, .height = 7, .bits = 24, .compression = 4},
         STATUS_UNSUPPORTED_FORMAT,
         "the BMP has compression 4 (JPEG) and 24 bits per pixel"},
        {{.width = 9, .height = 7, .bits = 24, .compression = 5},
         STATUS_UNSUPPORTED_FORMAT,
         "compression 5 (PNG)"},
        {{.width = 9, .height = 7, .bits = 1, .header = 64, .compression = 3},
         STATUS_UNSUPPORTED_FORMAT,
         "compression 3 (Huffman)"},
        {{.width = 9, .height = 7, .bits = 24, .header = 64, .compression = 4},
         STATUS_UNSUPPORTED_FORMAT,
         "compression 4 (RLE of 24 bits)"},
        {{.width = 9, .height = 7, .bits = 24, .compression = 11},
         STATUS_UNSUPPORTED_FORMAT,
         "compression 11 (unknown)"},
        {{.width = 9, .height = 7, .bits = 8, .compression = 2},
         STATUS_UNSUPPORTED_FORMAT,
         "compression 2 (RLE of 4 bits) and 8 bits per pixel"},
        {{.width = 9, .height = -7, .bits = 8, .compression = 1},
         STATUS_DECODE_FAILED,
         "is compressed (RLE) from top to bottom"},
        {{.width = 9, .height = 7, .bits = 24, .header = 100},
         STATUS_UNSUPPORTED_FORMAT,
         "the BMP has a second header of 100 bytes; it must have 12, 16 to 64, 108 or 124"},
        {{.width = 9, .height = 7, .bits = 16, .compression = 3, .masks = {0xF0F0, 0xF00, 0xF}},
         STATUS_UNSUPPORTED_FORMAT,
         "the mask 0x0000F0F0, whose bits are not contiguous"},
        {{.width = 0x80000000, .height = 7, .bits = 24, DATA("x")},
         STATUS_DECODE_FAILED,
         "the BMP is -2147483648 x 7 pixels"},
        {{.width = 9, .height = 0, .bits = 24}, STATUS_DECODE_FAILED, "the BMP is 9 x 0 pixels"},
        {{.width = 9, .height = INT32_MIN, .bits = 24, DATA("x")},
         STATUS_IMAGE_TOO_LARGE,
         "the BMP is 9 x 2147483648 pixels; a side has at most 65500"},
        {{.width = 65000, .height = 7, .bits = 24, DATA("x")},
         STATUS_DECODE_FAILED,
         "the BMP is truncated: it has 55 bytes, but its 65000 x 7 pixels need 1365054"},
        {{.width = 60000, .height = 60000, .bits = 8, .compression = 1, DATA("\0\1")},
         STATUS_IMAGE_TOO_LARGE,
         "60000"},
    };
    rig.limits.side_max = SIDE_CEILING;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        rig_reads_once(bmp_file(&rows[i].bmp), rows[i].status, rows[i].message);
    struct picture_file file = make_bmp(.width = 9, .height = 7, .bits = 24);
    file.bytes[26] = 3;
    rig_reads(&file, STATUS_DECODE_FAILED, "the BMP has 3 planes; it must have 1");
    file.bytes[26] = 1;
    file.bytes[10] = 20;
    rig_reads_once(file, STATUS_DECODE_FAILED, "the BMP's pixels begin at byte 20, in its headers");
}

/* Offsets and palettes that some writers get wrong. */
TEST(test_odd_headers)
{
    struct bmp bmp = {.width = 9, .height = 7, .bits = 8};
    struct picture_file file = bmp_file(&bmp);
    memset(file.bytes + 10, 0, 4); /* no offset: the pixels follow the palette */
    rig_reads(&file, STATUS_OK, NULL);
    expect_bmp(&bmp, NULL);
    memset(file.bytes + 46, 0x7F, 4); /* more colours than can be */
    rig_reads(&file, STATUS_OK, NULL);
    expect_bmp(&bmp, NULL);
    picture_free(&file);
    bmp.bits = 24;
    file = bmp_file(&bmp);
    file.length -= 1; /* padding of the last row */
    rig_reads(&file, STATUS_OK, NULL);
    expect_bmp(&bmp, NULL);
    file.length -= 1;
    rig_reads_once(file, STATUS_DECODE_FAILED, "truncated");
}

/* ---- damaged files ---- */

TEST(test_truncated)
{
    static const uint8_t rle[] = "\3\1\0\3\4\5\6\0\0\1";
    const struct bmp bmps[] = {{.width = 9,
                                .height = 7,
                                .bits = 32,
                                .compression = 3,
                                .header = 124,
                                .masks = {0xFF, 0xFF00, 0xFF0000, 0xFF000000}},
                               {.width = 9,
                                .height = 7,
                                .bits = 8,
                                .compression = 1,
                                .data = rle,
                                .data_bytes = sizeof rle - 1},
                               {.width = 9, .height = 7, .bits = 4, .header = 12}};
    for (size_t i = 0; i < COUNT_OF(bmps); i++) {
        struct picture_file file = bmp_file(&bmps[i]);
        for (size_t length = 0; length < file.length; length++) {
            struct picture_file cut = picture_cut(&file, length);
            enum status status = rig_decode(&rig, &cut, DECODE_COLOUR);
            assert_true(status == STATUS_DECODE_FAILED || status == STATUS_UNSUPPORTED_FORMAT ||
                        (status == STATUS_OK && length + 3 >= file.length));
            picture_free(&cut);
        }
        picture_free(&file);
    }
}

TEST(test_flipped_bytes)
{
    uint32_t random = 20240608;
    uint64_t end = clock_now_ns() + 2000000000u;
    rig.limits.side_max = 256;
    for (unsigned i = 0; i < 1000 && clock_now_ns() < end; i++) {
        struct bmp bmp = kinds[i % COUNT_OF(kinds)];
        bmp.width = bmp.height = 13;
        struct picture_file file = bmp_file(&bmp);
        struct picture_file bad = picture_damage(&file, 10, 60, &random);
        (void)!rig_decode(&rig, &bad, DECODE_COLOUR);
        picture_free(&bad);
        picture_free(&file);
    }
}

TEST(test_sniff)
{
    struct picture_file file = make_bmp(.width = 9, .height = 7, .bits = 24);
    assert_ptr_equal(codec_sniff(file.bytes, file.length), &formats[FORMAT_bmp]);
    picture_free(&file);
    assert_null(codec_sniff((const uint8_t *)"BM is the start of a text", 25));
}

TEST_MAIN(.name = "bmp", .each_setup = rig_setup, .each_teardown = rig_teardown)
