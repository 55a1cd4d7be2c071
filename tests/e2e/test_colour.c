/*
 * test_colour.c - to_srgb and metadata, from push to output, on each engine. exiftool and lcms2 are
 * the independent readers; without them, a part of the tests is skipped.
 */
#include <stdio.h>
#include <unistd.h>

#include <jpeglib.h>

#include "tests/fixtures/camera.h"
#include "tests/fixtures/profile.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

/* ---- colours --------------------------------------------------------------------------------- */

/* Pixels of a JPEG as libjpeg gives them: for CMYK, inks as stored. */
static struct raster decode(const char *name, J_COLOR_SPACE space, uint32_t channels)
{
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    size_t length;
    unsigned char *bytes = text_file_bytes(in_path(name), &length);
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&jpeg);
    jpeg_mem_src(&jpeg, bytes, length);
    jpeg_read_header(&jpeg, TRUE);
    jpeg.out_color_space = space;
    jpeg_start_decompress(&jpeg);
    struct raster raster = raster_make(jpeg.output_width, jpeg.output_height, channels);
    while (jpeg.output_scanline < jpeg.output_height) {
        JSAMPROW row = raster_at(&raster, 0, jpeg.output_scanline);
        jpeg_read_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_decompress(&jpeg);
    jpeg_destroy_decompress(&jpeg);
    free(bytes);
    return raster;
}

/* Puts a JPEG with the profile, converts it, and compares the result with lcms2. */
static void check_conversion(const char *name, struct picture_file profile,
                             enum picture_colour colour)
{
    uint32_t channels = colour == PICTURE_GRAY ? 1 : colour == PICTURE_CMYK ? 4 : 3;
    put_jpeg(name, .width = 90, .height = 70, .colour = colour, .quality = 100,
             .icc = profile.bytes, .icc_bytes = profile.length);
    check_done(check_answer(w, "{'input':'%s','outputs':[{'output':'srgb.png','ops':['to_srgb']},"
                               "{'output':'turned.png','ops':['transpose','to_srgb']}]}", name));
    struct raster in = decode(name, channels == 1 ? JCS_GRAYSCALE : channels == 4 ? JCS_CMYK
                                                                                  : JCS_RGB,
                              channels);
    struct profile_conversion *lcms = profile_convert_open(&profile, channels);
    struct raster want = raster_make(in.width, in.height, channels == 1 ? 1 : 3);
    for (uint32_t y = 0; y < in.height; y++)
        for (uint32_t x = 0; x < in.width; x++) {
            uint8_t rgb[3];
            profile_convert(lcms, raster_at(&in, x, y), rgb, 1);
            memcpy(raster_at(&want, x, y), rgb, want.channels);
        }
    profile_convert_close(lcms);
    struct raster got = world_load_out(w, "srgb.png"), turned = world_load_out(w, "turned.png");
    char where[200];
    if (raster_differ(&got, &want, 1, where, sizeof where) > 0)
        fail_msg("%s: %s", name, where);
    assert_int_equal(got.icc_bytes, 0);
    for (uint32_t y = 0; y < in.height; y++)
        for (uint32_t x = 0; x < in.width; x++)
            assert_memory_equal(raster_at(&turned, y, x), raster_at(&got, x, y), got.channels);
    raster_clear(&in);
    raster_clear(&want);
    raster_clear(&got);
    raster_clear(&turned);
    picture_free(&profile);
}

TEST(test_profiles)
{
    need_engine();
    if (!profile_has_lcms)
        skip();
    struct picture_file adobe = profile_of_matrix(&profile_adobe);
    check_conversion("p3.jpg", profile_of_matrix(&profile_p3), PICTURE_YCBCR);
    check_conversion("gray.jpg", profile_of_gray(1.8), PICTURE_GRAY);
    check_conversion("table.jpg", profile_of_table(&adobe, 17), PICTURE_YCBCR);
    check_conversion("inks.jpg", profile_of_inks(), PICTURE_CMYK);
    picture_free(&adobe);
}

/* to_srgb changes no pixel of the file, and refuses nothing. */
static void check_unchanged(const char *name)
{
    char where[200];
    check_done(check_answer(w, "{'input':'%s','outputs':[{'output':'same.png'},"
                               "{'output':'converted.png','ops':['to_srgb']}]}", name));
    struct raster same = world_load_out(w, "same.png"), got = world_load_out(w, "converted.png");
    assert_int_equal(raster_differ(&got, &same, 0, where, sizeof where), 0);
    raster_clear(&same);
    raster_clear(&got);
}

/* A gray profile in a JPEG or a PNG with colours changes nothing. */
TEST(test_profile_of_other_colours)
{
    need_engine();
    struct picture_file gray = profile_of_gray(1.8);
    put_jpeg("other.jpg", .width = 90, .height = 70, .icc = gray.bytes, .icc_bytes = gray.length);
    check_unchanged("other.jpg");
    struct picture_file holder = make_png(.width = 9, .height = 7, .icc = gray.bytes,
                                          .icc_bytes = gray.length);
    struct picture_file png = make_png(.width = 90, .height = 70, .colour_type = 2);
    const uint8_t *chunk = memmem(holder.bytes, holder.length, "iCCP", 4);
    assert_non_null(chunk);
    picture_png_insert(&png, "IDAT", "iCCP", chunk + 4, (size_t)chunk[-2] << 8 | chunk[-1]);
    world_put_picture(w, "other.png", png);
    check_unchanged("other.png");
    picture_free(&holder);
    picture_free(&gray);
}

/* A profile that is installed on this host; 0 bytes: it is not. */
static struct picture_file installed(const char *path)
{
    struct picture_file file = {NULL, 0};
    if (access(path, R_OK) == 0)
        file.bytes = text_file_bytes(path, &file.length);
    return file;
}

TEST(test_installed_profiles)
{
    static const char *const names[] = {
        "colord/AdobeRGB1998.icc", "colord/ProPhotoRGB.icc", "colord/Rec709.icc",
        "colord/SwappedRedAndGreen.icc", "compatibleWithAdobeRGB1998.icc", "LStar-RGB.icc"};
    unsigned found = 0;
    need_engine();
    for (size_t i = 0; profile_has_lcms && i < COUNT_OF(names); i++) {
        struct picture_file file = installed(text_of("/usr/share/color/icc/%s", names[i]));
        found += file.length > 0;
        if (file.length > 0)
            check_conversion("installed.jpg", file, PICTURE_YCBCR);
    }
    if (found == 0)
        skip();
}

/* A damaged profile converts nothing; one with a valid header stays with other outputs. */
TEST(test_damaged_profile)
{
    need_engine();
    struct picture_file icc = profile_of_matrix(&profile_p3);
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "version.jpg" : "signature.jpg";
        icc.bytes[i == 0 ? 8 : 36] = 'x';
        put_jpeg(name, .width = 40, .height = 30, .icc = icc.bytes, .icc_bytes = icc.length);
        check_unchanged(name);
        check_done(check_answer(w, "{'input':'%s','output':'kept.jpg'}", name));
        assert_int_equal(icc_bytes_of("kept.jpg"), i == 0 ? icc.length : 0);
    }
    picture_free(&icc);
}

/* A profile for RGB in a CMYK JPEG: pixels are converted as without a profile, which the outputs do
 * not get either. */
TEST(test_rgb_profile_of_cmyk)
{
    need_engine();
    struct picture_file p3 = profile_of_matrix(&profile_p3);
    put_jpeg("cmyk.jpg", .width = 40, .height = 30, .colour = PICTURE_CMYK, .icc = p3.bytes,
             .icc_bytes = p3.length);
    check_unchanged("cmyk.jpg");
    check_done(check_answer(w, "{'input':'cmyk.jpg','output':'plain.jpg'}"));
    assert_int_equal(icc_bytes_of("plain.jpg"), 0);
    picture_free(&p3);
}

/* ---- metadata -------------------------------------------------------------------------------- */

static void put_camera(const char *name, bool png)
{
    struct picture_file p3 = profile_of_matrix(&profile_p3), xmp = camera_xmp(6, true);
    struct picture_file exif = camera_exif(true, 6, 80, 50, 0);
    struct picture_file file =
        png ? make_png(.width = 80, .height = 50, .colour_type = 2, .icc = p3.bytes,
                       .icc_bytes = p3.length)
            : make_jpeg(.width = 80, .height = 50, .icc = p3.bytes, .icc_bytes = p3.length);
    if (png)
        camera_put_in_png(&file, &exif, &xmp);
    else
        camera_put_in_jpeg(&file, &exif, &xmp);
    world_put_picture(w, name, file);
    picture_free(&p3);
    picture_free(&exif);
    picture_free(&xmp);
}

/* exiftool's values of an output, one per line. NULL: there is no exiftool. */
static char *exiftool(const char *name)
{
    static const char tags[] =
        "-s -S -n -f -IFD0:Orientation -ExifIFD:ExifImageWidth -ExifIFD:ExifImageHeight "
        "-ExifIFD:ColorSpace -IFD1:ThumbnailOffset -XMP-xmp:Rating -XMP-tiff:Orientation "
        "-ICC-header:ColorSpaceData";
    char *text = calloc(1, 1000);
    if (access("/usr/bin/exiftool", X_OK) != 0) {
        free(text);
        return NULL;
    }
    FILE *tool = popen(text_of("exiftool %s '%s'", tags, out_path(name)), "re");
    assert_non_null(tool);
    size_t length = fread(text, 1, 999, tool);
    pclose(tool);
    for (size_t i = 0; i < length; i++)
        text[i] = text[i] == '\n' ? ',' : text[i];
    return text;
}

static void check_tags(const char *name, const char *want)
{
    char *got = exiftool(name);
    if (got && strcmp(got, want) != 0)
        fail_msg("%s has the tags %s instead of %s", name, got, want);
    free(got);
}

/* The formats that this gpuimgd reads and writes. */
static const char *const suffixes[] = {"jpg", "png",
#ifdef GPUIMGD_WEBP
                                       "webp",
#endif
#ifdef GPUIMGD_AVIF
                                       "avif",
#endif
};

/* The camera's image in a format that only gpuimgd writes here: the pixels need the orientation. */
static void put_converted(const char *suffix)
{
    const char *name = text_of("camera.%s", suffix);
    check_done(check_answer(w, "{'input':'camera.jpg','orient':false,'output':{'path':'%s',"
                               "'metadata':['icc','exif','xmp']}}", name));
    check_tags(name, "6,80,50,65535,-,4,6,RGB,");
    world_put_picture(w, name, picture_load(out_path(name)));
}

/* Converts the camera's image with every kind of metadata. more: further keys of the outputs. Tags:
 * orientation, width, height, colour space, thumbnail; rating and orientation of XMP; colours of
 * the profile. */
static void check_kinds(const char *in, const char *out, const char *more)
{
    check_done(check_answer(
        w,
        "{'input':'camera.%s','outputs':[{'output':{'path':'default.%s'%s}},"
        "{'output':{'path':'none.%s','metadata':'none'%s}},"
        "{'output':{'path':'all.%s','metadata':['xmp','exif','icc']%s}},"
        "{'output':{'path':'exif.%s','metadata':['exif']%s},'ops':['transpose']},"
        "{'output':{'path':'srgb.%s','metadata':['icc','exif','xmp']%s},'ops':['to_srgb',"
        "{'op':'resize','width':20}]}]}",
        in, out, more, out, more, out, more, out, more, out, more));
    check_tags(text_of("default.%s", out), "-,-,-,-,-,-,-,RGB,");
    check_tags(text_of("none.%s", out), "-,-,-,-,-,-,-,-,");
    check_tags(text_of("all.%s", out), "1,50,80,65535,-,4,1,RGB,");
    check_tags(text_of("exif.%s", out), "1,80,50,65535,-,-,-,-,");
    check_tags(text_of("srgb.%s", out), "1,20,32,1,-,4,1,-,");
}

/* From each format to each format. */
TEST(test_metadata)
{
    enum { count = COUNT_OF(suffixes) };
    need_engine();
    put_camera("camera.jpg", false);
    put_camera("camera.png", true);
    for (int i = 2; i < count; i++)
        put_converted(suffixes[i]);
    for (int i = 0; i < count * count; i++) {
        const char *in = suffixes[i / count], *out = suffixes[i % count];
        check_kinds(in, out, "");
        if (strcmp(out, "avif") == 0)
            check_kinds(in, out, ",'effort':2"); /* of the own encoder */
        if (i % count >= 2)
            continue; /* libjpeg and libpng do not read it */
        assert_int_equal(icc_bytes_of(text_of("none.%s", out)), 0);
        assert_int_equal(icc_bytes_of(text_of("srgb.%s", out)), 0);
        assert_true(icc_bytes_of(text_of("all.%s", out)) > 0);
    }
}

/* The orientation is not applied, so it stays. */
TEST(test_metadata_without_orientation)
{
    need_engine();
    put_camera("camera.jpg", false);
    check_done(check_answer(w, "{'input':'camera.jpg','orient':false,'output':{'path':'as.jpg',"
                               "'metadata':['exif','xmp']}}"));
    check_tags("as.jpg", "6,80,50,65535,-,4,6,-,");
}

/* EXIF with an artist, a model and a place; XMP with a credit and a serial number. */
static void put_photograph(const char *name)
{
    static const char exif[] =
        "MM\0*\0\0\0\10\0\4\1\20\0\2\0\0\0\13\0\0\0\102\1\22\0\3\0\0\0\1\0\6\0\0"
        "\1\73\0\2\0\0\0\13\0\0\0\116\210\45\0\4\0\0\0\1\0\0\0\132\0\0\0\0"
        "\0\0\0\0SERIAL-CAM\0\0Ann Artist\0\0\0\1\0\1\0\2\0\0\0\2N\0\0\0\0\0\0\0";
    static const char xmp[] =
        "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:Description "
        "xmlns:p=\"http://ns.adobe.com/photoshop/1.0/\" p:Credit=\"Her agency\""
        " aux:SerialNumber=\"SERIAL-XMP\"/></x:xmpmeta>";
    struct picture_file file = make_jpeg(.width = 80, .height = 50);
    camera_put_in_jpeg(&file,
                       &(struct picture_file){(uint8_t *)(uintptr_t)exif, sizeof exif - 1},
                       &(struct picture_file){(uint8_t *)(uintptr_t)xmp, sizeof xmp - 1});
    world_put_picture(w, name, file);
}

static bool out_has(const char *name, const char *text)
{
    struct picture_file file = picture_load(out_path(name));
    bool has = memmem(file.bytes, file.length, text, strlen(text)) != NULL;
    picture_free(&file);
    return has;
}

TEST(test_copyright)
{
    need_engine();
    put_photograph("photograph.jpg");
    for (size_t i = 0; i < COUNT_OF(suffixes); i++) {
        const char *name = text_of("notice.%s", suffixes[i]);
        check_done(check_answer(w, "{'input':'photograph.jpg','outputs':[{'output':{'path':'%s',"
                                   "'metadata':['copyright']}},{'output':{'path':'all.%s',"
                                   "'metadata':['exif','xmp','copyright']}},"
                                   "{'output':'plain.%s'}]}", name, suffixes[i], suffixes[i]));
        assert_true(out_has(name, "Ann Artist"));
        assert_true(out_has(name, "Her agency"));
        assert_false(out_has(name, "SERIAL"));
        assert_true(out_has(text_of("all.%s", suffixes[i]), "SERIAL-CAM"));
        assert_true(out_has(text_of("all.%s", suffixes[i]), "SERIAL-XMP"));
        assert_false(out_has(text_of("plain.%s", suffixes[i]), "Ann Artist"));
    }
}

/* ---- density -------------------------------------------------------------------------------- */

/* In JFIF, whose segment is the first: unit, x, y. */
enum { JFIF_UNIT_AT = 13 };

static void check_jfif(const char *name, unsigned unit, unsigned x, unsigned y)
{
    struct picture_file file = picture_load(out_path(name));
    const uint8_t *at = file.bytes + JFIF_UNIT_AT;
    assert_int_equal(at[0], unit);
    assert_int_equal(at[1] << 8 | at[2], x);
    assert_int_equal(at[3] << 8 | at[4], y);
    picture_free(&file);
}

/* x and y: pixels per metre; 0: there is no pHYs. */
static void check_phys(const char *name, unsigned x, unsigned y)
{
    struct picture_file file = picture_load(out_path(name));
    const uint8_t *at = memmem(file.bytes, file.length, "pHYs", 4);
    assert_int_equal(at != NULL, x > 0);
    if (at) {
        assert_int_equal(at[4] << 24 | at[5] << 16 | at[6] << 8 | at[7], x);
        assert_int_equal(at[8] << 24 | at[9] << 16 | at[10] << 8 | at[11], y);
        assert_int_equal(at[12], 1);
    }
    picture_free(&file);
}

TEST(test_density)
{
    need_engine();
    for (int turned = 0; turned < 2; turned++) {
        struct picture_file file = make_jpeg(.width = 80, .height = 50);
        struct picture_file exif = picture_exif(turned ? 6 : 1, true, true);
        memcpy(file.bytes + JFIF_UNIT_AT, (const uint8_t[]){1, 300 >> 8, 300 & 255, 0, 150}, 5);
        /* After JFIF. */
        uint8_t head[] = {0xFF, 0xE1, 0, (uint8_t)(exif.length + 2)};
        picture_insert(&file, 20, exif.bytes, exif.length);
        picture_insert(&file, 20, head, sizeof head);
        picture_free(&exif);
        world_put_picture(w, "print.jpg", file);
        check_done(check_answer(
            w, "{'input':'print.jpg','outputs':[{'output':'same.jpg'},{'output':'same.png'},"
               "{'output':{'path':'none.jpg','metadata':'none'}},"
               "{'output':'small.jpg','ops':[{'op':'resize','width':20}]},"
               "{'output':'small.png','ops':[{'op':'resize','width':20}]},"
               "{'output':{'path':'wanted.jpg','metadata':['density']},'ops':[{'op':'resize',"
               "'width':20}]},{'output':{'path':'wanted.png','metadata':['density']},'ops':"
               "[{'op':'resize','width':20}]}]}"));
        unsigned x = turned ? 150 : 300, y = turned ? 300 : 150;
        unsigned x_metre = turned ? 5906 : 11811, y_metre = turned ? 11811 : 5906;
        check_jfif("same.jpg", 1, x, y);
        check_phys("same.png", x_metre, y_metre);
        check_jfif("none.jpg", 0, 1, 1);
        check_jfif("small.jpg", 0, 1, 1);
        check_phys("small.png", 0, 0);
        check_jfif("wanted.jpg", 1, x, y);
        check_phys("wanted.png", x_metre, y_metre);
    }
}

ENGINES_MAIN()
