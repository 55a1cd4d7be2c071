/*
 * Tests of the TIFF codec with metadata, and with files that are refused or damaged. The test
 * writes them with libtiff.
 */
#include "tests/fixtures/codec_rig.h"

#ifdef GPUIMGD_TIFF

#include <math.h>
#include <tiffio.h>

#include "tests/fixtures/picture_impl.h"
#include "tests/fixtures/tiff_file.h"

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
    uint8_t *entry = tiff_entry_of(&file, TIFFTAG_PLANARCONFIG);
    tiff_put_le(entry, TIFFTAG_EXIFIFD, 2);
    tiff_put_le(entry + 2, TIFF_LONG, 2);
    tiff_put_le(entry + 8, (uint32_t)file.length, 4);
    picture_append(&file, exif, sizeof exif - 1);
    rig.limits.metadata = METADATA_ALL;
    rig_reads(&file, STATUS_OK, NULL);
    assert_non_null(memmem(rig.info.exif, rig.info.exif_bytes, exif + 2, 10));
    /* A directory that points to itself. */
    tiff_put_le(file.bytes + file.length - 16, 0xA005, 2);
    tiff_put_le(file.bytes + file.length - 14, TIFF_LONG, 2);
    tiff_put_le(file.bytes + file.length - 8, (uint32_t)file.length - 18, 4);
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
            tiff_put_le(tiff_entry_of(&file, TIFFTAG_PHOTOSHOP), TIFFTAG_RICHTIFFIPTC, 2);
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
        uint8_t *value = tiff_entry_of(&file, rows[i].tag) + 8, kept[2];
        memcpy(kept, value, 2);
        tiff_put_le(value, rows[i].value, 2);
        rig_reads(&file, STATUS_UNSUPPORTED_FORMAT, rows[i].message);
        memcpy(value, kept, 2);
    }
    /* The tag for the planar configuration becomes that of the sample format. */
    uint8_t *entry = tiff_entry_of(&file, TIFFTAG_PLANARCONFIG);
    tiff_put_le(entry, TIFFTAG_SAMPLEFORMAT, 2);
    tiff_put_le(entry + 8, SAMPLEFORMAT_IEEEFP, 2);
    rig_reads(&file, STATUS_UNSUPPORTED_FORMAT, "is 3 (floating point); it must be 1 (unsigned");
    tiff_put_le(entry + 8, SAMPLEFORMAT_INT, 2);
    rig_reads(&file, STATUS_UNSUPPORTED_FORMAT, "is 2 (signed integers)");
    picture_free(&file);
}

/* Sizes that a header of some hundred bytes can claim. */
TEST(test_limits)
{
    struct picture_file file =
        make_tiff(.width = 64, .height = 64, .tile = 16, .compression = COMPRESSION_ADOBE_DEFLATE);
    uint8_t *width = tiff_entry_of(&file, TIFFTAG_IMAGEWIDTH),
            *tile = tiff_entry_of(&file, TIFFTAG_TILEWIDTH);
    uint8_t *length = tiff_entry_of(&file, TIFFTAG_TILELENGTH);
    tiff_put_le(tile + 8, 32768, 2);
    tiff_put_le(length + 8, 32768, 2);
    rig_reads(&file, STATUS_DECODE_LIMIT, "the TIFF's tiles of 32768 x 32768 pixels have");
    tiff_put_le(tile + 8, 1, 2);
    tiff_put_le(length + 8, 1, 2);
    tiff_put_le(width + 2, TIFF_LONG, 2);
    tiff_put_le(width + 8, 60000, 4);
    rig.limits.side_max = SIDE_CEILING;
    rig_reads(&file, STATUS_DECODE_LIMIT, "the TIFF has 3840000 tiles; at most 1048576");
    tiff_put_le(width + 8, 65501, 4);
    rig_reads(&file, STATUS_IMAGE_TOO_LARGE, "the TIFF is 65501 x 64 pixels; a side has at most");
    tiff_put_le(width + 8, 0, 4);
    rig_reads(&file, STATUS_DECODE_FAILED, NULL);
    picture_free(&file);
    file = make_tiff(.width = 64, .height = 64);
    tiff_put_le(tiff_entry_of(&file, TIFFTAG_SAMPLESPERPIXEL) + 8, 65535, 2);
    (void)rig_decode(&rig, &file, DECODE_COLOUR);
    assert_int_not_equal(rig.error.status, STATUS_OK);
    picture_free(&file);
    file = make_tiff(.width = 64, .height = 64);
    tiff_put_le(tiff_entry_of(&file, TIFFTAG_IMAGELENGTH) + 8, 40000, 2);
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
        uint8_t *entry = tiff_entry_of(&file, tags[i]);
        tiff_put_le(entry, 40000 + (unsigned)i, 2);
        tiff_put_le(entry + 2, TIFF_UNDEFINED, 2);
        tiff_put_le(entry + 4, sizeof zeros, 4);
        tiff_put_le(entry + 8, 8, 4);
    }
    picture_append(&file, zeros, sizeof zeros);
    rig_reads_once(file, STATUS_DECODE_LIMIT, "the tags of the TIFF have values of 41");
}

/* ---- damaged files ---- */

TEST(test_truncated_strip)
{
    struct picture_file file = make_tiff(.width = 64, .height = 64, .rows = 64);
    uint8_t *offset = tiff_entry_of(&file, TIFFTAG_STRIPOFFSETS) + 8;
    tiff_put_le(offset, (uint32_t)file.length - 96, 4);
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

#else

TEST(test_without_tiff)
{
    skip();
}

#endif

TEST_MAIN(.name = "tiff_files", .each_setup = rig_setup, .each_teardown = rig_teardown)
