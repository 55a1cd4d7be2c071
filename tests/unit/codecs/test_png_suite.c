/*
 * Tests of the PNG reader with the kinds of files of PngSuite, which Willem van Schaik collected:
 * all types and sizes, ancillary chunks, cuts between IDAT chunks, and damaged headers. The test
 * makes the files; tests/tools/png_corpus reads a folder of real ones.
 */
#include "tests/fixtures/codec_rig.h"
#include "tests/fixtures/picture_impl.h"

/* Offsets in a file, and the bytes of a chunk besides its data. */
enum { DEPTH_AT = 24, COLOUR_AT = 25, CHUNK_BYTES = 12 };

/* All pairs of colour type and bit depth. */
static const struct {
    int colour_type, bit_depth;
} types[] = {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {2, 8}, {2, 16}, {3, 1},
             {3, 2}, {3, 4}, {3, 8}, {4, 8}, {4, 16}, {6, 8}, {6, 16}};

static void expect_pixels(const struct picture_png *options, const struct picture_file *file)
{
    uint32_t channels;
    uint8_t *wanted = picture_png_expected(options, &channels);
    rig_reads(file, STATUS_OK, NULL);
    assert_int_equal(rig.info.width, options->width);
    assert_int_equal(rig.info.height, options->height);
    assert_int_equal(rig.info.channels, channels);
    rig_expect_pixels(&rig, wanted, channels);
    free(wanted);
}

/* Interlaced images of few columns or rows have passes without pixels. */
TEST(test_small_sizes)
{
    for (uint32_t side = 1; side <= 40; side = side == 9 ? 32 : side + 1)
        for (size_t t = 0; t < COUNT_OF(types); t++)
            for (int i = 0; i < 6; i++) {
                struct picture_png options = {.width = i / 2 == 1 ? 3 : side,
                                              .height = i / 2 == 2 ? 2 : side,
                                              .colour_type = types[t].colour_type,
                                              .bit_depth = types[t].bit_depth,
                                              .interlaced = i % 2 != 0,
                                              .level = 1 + (int)side % 9,
                                              .seed = side};
                struct picture_file file = picture_png(&options);
                expect_pixels(&options, &file);
                picture_free(&file);
            }
}

/* ---- ancillary chunks ---- */

#define ANY          0x7F
#define OF(type)     (1u << (type))
#define DATA(string) string, sizeof(string) - 1

/* Valid chunks, with the colour types that may have them. The first ones come before PLTE. */
static const struct {
    const char *type, *data;
    size_t bytes;
    unsigned colour_types;
} chunks[] = {
    {"gAMA", DATA("\0\0\xB1\x8F"), ANY},
    {"gAMA", DATA("\0\x03\x0D\x40"), ANY},
    {"cHRM",
     DATA("\0\0\x7A\x26\0\0\x80\x84\0\0\xFA\0\0\0\x80\xE8\0\0\x75\x30\0\0\xEA\x60\0\0\x3A"
          "\x98\0\0\x17\x70"),
     ANY},
    {"sRGB", DATA("\0"), ANY},
    {"sBIT", DATA("\1"), OF(0)},
    {"sBIT", DATA("\1\2\3"), OF(2) | OF(3)},
    {"sBIT", DATA("\5\6"), OF(4)},
    {"sBIT", DATA("\5\6\5\6"), OF(6)},
    {"PLTE", DATA("\0\0\0\x80\x40\xC0\xFF\xFF\xFF"), OF(2) | OF(6)},
    {"bKGD", DATA("\0\1"), OF(0) | OF(4)},
    {"bKGD", DATA("\0\1\0\0\0\1"), OF(2) | OF(6)},
    {"bKGD", DATA("\1"), OF(3)},
    {"hIST", DATA("\0\1\0\1"), OF(3)},
    {"pHYs", DATA("\0\0\0\1\0\0\0\4\0"), ANY},
    {"pHYs", DATA("\0\0\3\xE8\0\0\3\xE8\1"), ANY},
    {"sPLT", DATA("six\0\x08\1\2\3\4\0\1\5\6\7\x08\0\2"), ANY},
    {"sPLT", DATA("ten\0\x10\0\1\0\2\0\3\0\4\0\1"), ANY},
    {"oFFs", DATA("\0\0\0\1\xFF\xFF\xFF\xFE\0"), ANY},
    {"sCAL",
     DATA("\1"
          "1.5\0"
          "2e-3"),
     ANY},
    {"sTER", DATA("\1"), ANY},
    {"tIME", DATA("\x07\xCF\x0C\x1F\x17\x3B\x3C"), ANY},
    {"tEXt", DATA("Title\0PngSuite"), ANY},
    {"zTXt", DATA("Disclaimer\0\0\x78\x9C\x4B\x04\0\0\x62\0\x62"), ANY},
    {"iTXt", DATA("Author\0\0\0fi\0Tekij\xC3\xA4\0Willem"), ANY},
    {"prVt", DATA("anything"), ANY},
};

TEST(test_chunks_change_no_pixel)
{
    for (size_t t = 0; t < COUNT_OF(types); t++)
        for (size_t c = 0; c < COUNT_OF(chunks); c++) {
            struct picture_png options = {.width = 32,
                                          .height = 32,
                                          .colour_type = types[t].colour_type,
                                          .bit_depth = types[t].bit_depth,
                                          .interlaced = c % 2 != 0};
            bool is_first =
                options.colour_type == 3 && memcmp(chunks[c].type, "PLTE", 4) != 0 && c < 8;
            if ((chunks[c].colour_types & OF(options.colour_type)) == 0)
                continue;
            struct picture_file file = picture_png(&options);
            picture_png_insert(&file, is_first ? "PLTE" : "IDAT", chunks[c].type, chunks[c].data,
                               chunks[c].bytes);
            expect_pixels(&options, &file);
            picture_free(&file);
        }
}

/* All of them in one file, and those after the pixels that may stand there. */
TEST(test_all_chunks_together)
{
    for (size_t t = 0; t < COUNT_OF(types); t++) {
        struct picture_png options = {.width = 32,
                                      .height = 32,
                                      .colour_type = types[t].colour_type,
                                      .bit_depth = types[t].bit_depth};
        struct picture_file file = picture_png(&options);
        for (size_t c = 0; c < COUNT_OF(chunks); c++) {
            bool is_first = options.colour_type == 3 && c < 8;
            if ((chunks[c].colour_types & OF(options.colour_type)) != 0)
                picture_png_insert(&file, is_first ? "PLTE" : "IDAT", chunks[c].type,
                                   chunks[c].data, chunks[c].bytes);
            if (c >= COUNT_OF(chunks) - 5)
                picture_png_insert(&file, "IEND", chunks[c].type, chunks[c].data, chunks[c].bytes);
        }
        expect_pixels(&options, &file);
        picture_free(&file);
    }
}

/* ---- IDAT chunks ---- */

/* Returns the file with at most `bytes` in each of its IDAT chunks. */
static struct picture_file cut_data(const struct picture_file *file, size_t bytes)
{
    struct picture_file cut = picture_cut(file, 8);
    for (size_t at = 8; at < file->length;) {
        const uint8_t *chunk = file->bytes + at;
        size_t count = picture_get32(chunk);
        bool is_data = memcmp(chunk + 4, "IDAT", 4) == 0;
        for (size_t from = 0; is_data && from < count; from += bytes) {
            uint8_t head[8] = {[4] = 'I', 'D', 'A', 'T'};
            size_t piece = bytes < count - from ? bytes : count - from;
            picture_put32(head, (uint32_t)piece);
            picture_append(&cut, head, sizeof head);
            picture_append(&cut, chunk + 8 + from, piece);
            picture_append(&cut, head, 4); /* picture_png_fix_crcs writes the CRC */
        }
        if (!is_data)
            picture_append(&cut, chunk, count + CHUNK_BYTES);
        at += count + CHUNK_BYTES;
    }
    picture_png_fix_crcs(&cut);
    return cut;
}

TEST(test_cuts)
{
    static const size_t bytes[] = {1, 2, 3, 4, 50};
    for (size_t t = 0; t < COUNT_OF(types); t++)
        for (size_t i = 0; i < 2 * COUNT_OF(bytes); i++) {
            struct picture_png options = {.width = 32,
                                          .height = 32,
                                          .colour_type = types[t].colour_type,
                                          .bit_depth = types[t].bit_depth,
                                          .interlaced = i % 2 != 0};
            struct picture_file file = picture_png(&options);
            struct picture_file cut = cut_data(&file, bytes[i / 2]);
            expect_pixels(&options, &cut);
            picture_free(&cut);
            picture_free(&file);
        }
}

/* ---- damage ---- */

TEST(test_damaged_signatures)
{
    static const struct {
        const char *bytes;
        size_t length;
    } signatures[] = {{DATA("\x88PNG\r\n\x1A\n")},
                      {DATA("\x89"
                            "ONG\r\n\x1A\n")},
                      {DATA("\x89PNG\x0C\n\x1A\n")},
                      {DATA("\x89PNG\r\n\x1A\x0B")},
                      {DATA("\x89PNG\n\x1A\n")},
                      {DATA("\x89PNG\r\r\x1A\r")},
                      {DATA("\x89PNG\r\n\x1A\r\n")}};
    for (size_t i = 0; i < COUNT_OF(signatures); i++) {
        struct picture_file file = make_png(.width = 32, .height = 32, .colour_type = 2), bad;
        bad = (struct picture_file){NULL, 0};
        picture_append(&bad, signatures[i].bytes, signatures[i].length);
        picture_append(&bad, file.bytes + 8, file.length - 8);
        rig_reads(&bad, STATUS_UNSUPPORTED_FORMAT, "neither a JPEG, a PNG");
        picture_free(&bad);
        picture_free(&file);
    }
}

/* Of all bit depths and colour types, only the pairs of the standard are read. */
TEST(test_damaged_headers)
{
    for (int colour_type = 0; colour_type < 256; colour_type += colour_type < 10 ? 1 : 41)
        for (int depth = 0; depth < 256; depth += depth < 20 ? 1 : 29) {
            struct picture_file file =
                make_png(.width = 8, .height = 8, .colour_type = 6, .bit_depth = 16);
            bool is_valid = false;
            for (size_t t = 0; t < COUNT_OF(types); t++)
                is_valid |= types[t].colour_type == colour_type && types[t].bit_depth == depth;
            file.bytes[COLOUR_AT] = (uint8_t)colour_type;
            file.bytes[DEPTH_AT] = (uint8_t)depth;
            if (colour_type == 3)
                picture_png_insert(&file, "IDAT", "PLTE", "abcdef", 6);
            picture_png_fix_crcs(&file);
            assert_int_equal(rig_probe(&rig, &file), is_valid ? STATUS_OK : STATUS_DECODE_FAILED);
            if (!is_valid)
                assert_non_null(strstr(rig.error.text, "in its header: Invalid IHDR data"));
            picture_free(&file);
        }
}

/* Compression and filter methods are 0, and there are two ways to interlace. */
TEST(test_unknown_methods)
{
    for (size_t at = COLOUR_AT + 1; at <= COLOUR_AT + 3; at++)
        for (int value = 0; value < 256; value += value < 3 ? 1 : 23) {
            struct picture_file file = make_png(.width = 1, .height = 1, .colour_type = 2);
            file.bytes[at] = (uint8_t)value;
            picture_png_fix_crcs(&file);
            bool is_valid = value == 0 || (at == COLOUR_AT + 3 && value == 1);
            rig_reads(&file, is_valid ? STATUS_OK : STATUS_DECODE_FAILED, NULL);
            picture_free(&file);
        }
}

TEST(test_no_data)
{
    struct picture_file file =
        make_png(.width = 32, .height = 32, .colour_type = 0, .bit_depth = 1);
    const uint8_t *data = memmem(file.bytes, file.length, "IDAT", 4);
    assert_non_null(data);
    size_t at = (size_t)(data - file.bytes) - 4, end = file.length - CHUNK_BYTES;
    memmove(file.bytes + at, file.bytes + end, CHUNK_BYTES);
    file.length = at + CHUNK_BYTES;
    rig_reads(&file, STATUS_DECODE_FAILED, "in its header");
    picture_free(&file);
}

TEST_MAIN(.name = "png suite", .each_setup = rig_setup, .each_teardown = rig_teardown)
