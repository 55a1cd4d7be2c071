/*
 * test_formats.c - jobs that convert between formats. WebP files are read back by libwebp alone.
 * Where a library is missing, the jobs must fail and name it.
 */
#include "tests/fixtures/heif_file.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

static const uint8_t canvas[] = "RIFF\x18\0\0\0WEBPVP8L\x0C\0\0\0\x2F\xFE\xBF\xFF\x0F\0\0\0";

/* 2 x 1 pixels: red and white. */
static const uint8_t bitmap[] =
    "BM\0\0\0\0\0\0\0\0\x1A\0\0\0\x0C\0\0\0\2\0\1\0\1\0\x18\0\0\0\xFF\xFF\xFF\xFF\0\0";

static void fill(void)
{
    put_png("alpha.png", .width = 61, .height = 47, .colour_type = 6, .orientation = 6);
    put_png("gray.png", .width = 61, .height = 47, .colour_type = 0);
    put_png("wide.png", .width = 16384, .height = 1, .colour_type = 2);
    world_put(w, "huge.webp", canvas, sizeof canvas - 1);
    world_put(w, "broken.webp", canvas, 21);
    world_put(w, "two.bmp", bitmap, sizeof bitmap - 1);
    world_put(w, "broken.bmp", bitmap, sizeof bitmap - 4);
    world_put(w, "broken.tif", "II*\0\xFF\0\0\0\0\0", 10);
    world_put_picture(w, "p.heic", heif_sample(false));
    world_put_picture(w, "alpha.heic", heif_sample(true));
    world_put(w, "broken.heic",
              "\0\0\0\x14"
              "ftypheic\0\0\0\0mif1\0\0\0\x08meta",
              28);
    world_put(w, "broken.avif", "\0\0\0\x14" "ftypavif\0\0\0\0avif\0\0\0\x08meta", 28);
}

static const struct world_options options = {.photo = {"p.jpg", 160, 120}, .fill = fill,
                                             .start = true};

static void fails(const char *job, const char *code, const char *part)
{
    cJSON *result = check_answer(w, "%s", job);
    assert_string_equal(json_text(result, "error.code"), code);
    if (!strstr(json_text(result, "error.message"), part))
        fail_msg("%s; expected \"%s\"", json_text(result, "error.message"), part);
    cJSON_Delete(result);
}

static struct picture_file out_file(const char *name)
{
    return picture_load(out_path(name));
}

#if defined GPUIMGD_WEBP

#include <webp/decode.h>

static void expect_webp(const char *name, int width, int height, bool alpha)
{
    struct picture_file file = out_file(name);
    WebPBitstreamFeatures features;
    assert_int_equal(WebPGetFeatures(file.bytes, file.length, &features), VP8_STATUS_OK);
    assert_int_equal(features.width, width);
    assert_int_equal(features.height, height);
    assert_int_equal(features.has_alpha, alpha);
    picture_free(&file);
}

TEST(test_webp)
{
    check_done(check_answer(w, "{'input':'p.jpg','output':'p.webp','ops':[{'op':'resize',"
                               "'width':80}]}"));
    expect_webp("p.webp", 80, 60, false);
    check_done(check_answer(w, "{'input':'alpha.png','output':{'path':'a.webp','lossless':true,"
                               "'effort':6},'orient':false}"));
    expect_webp("a.webp", 61, 47, true);
    uint8_t *pixels = picture_pixels(61, 47, 4, 0);
    struct picture_file file = out_file("a.webp");
    int width, height;
    uint8_t *found = WebPDecodeRGBA(file.bytes, file.length, &width, &height);
    assert_memory_equal(found, pixels, 61 * 47 * 4);
    WebPFree(found);
    free(pixels);
    world_put_picture(w, "a.webp", file);
    /* back: the same pixels in a PNG, and without alpha in a JPEG */
    check_done(check_answer(w, "{'input':'a.webp','outputs':[{'output':'a.png'},"
                               "{'output':'a.jpg'},{'output':{'path':'g.webp','quality':50},"
                               "'ops':['grayscale']}]}"));
    struct picture_file png = out_file("a.png");
    assert_true(png.length > 1000);
    picture_free(&png);
    expect_webp("g.webp", 61, 47, false);
}

/* The suffix and the key `format` select it, and its own defaults apply. */
TEST(test_defaults)
{
    check_done(check_answer(w, "{'input':'p.jpg','outputs':["
                               "{'output':{'path':'1','format':'webp'}},"
                               "{'output':{'path':'2.webp','quality':80,'effort':2}},"
                               "{'output':{'path':'3.webp','quality':85}}]}"));
    struct picture_file one = out_file("1"), two = out_file("2.webp"), three = out_file("3.webp");
    assert_int_equal(one.length, two.length);
    assert_memory_equal(one.bytes, two.bytes, one.length);
    assert_int_not_equal(three.length, two.length);
    picture_free(&one);
    picture_free(&two);
    picture_free(&three);
}

TEST(test_webp_refused)
{
    fails("{'input':'huge.webp','output':'x.png'}", "image_too_large", "16383 x 16383");
    fails("{'input':'broken.webp','output':'x.png'}", "decode_failed", "the WebP's data ends");
    fails("{'input':'wide.png','output':'x.webp'}", "image_too_large",
          "the result is 16384 x 1 pixels; the output format allows 16383 per side");
    fails("{'input':'p.jpg','output':{'path':'x.webp','effort':7}}", "bad_job", "0 to 6");
    fails("{'input':'p.jpg','output':{'path':'x.webp','progressive':true}}", "bad_job",
          "output.progressive is a key of jpeg");
    fails("{'input':'p.jpg','output':{'path':'x.webp','lossless':true,'max_bytes':9000}}",
          "bad_job", "output.lossless is true, but max_bytes is 9000, which lowers the quality of "
          "a lossy file; omit one of the two");
    check_done(check_answer(w, "{'input':'p.jpg','output':'in.webp'}"));
    world_put_picture(w, "in.webp", out_file("in.webp"));
    fails("{'input':'in.webp','outputs':[{'output':{'path':'x','lossless':true,'max_bytes':9}}]}",
          "bad_job", "outputs[0].output.lossless is true, but max_bytes is 9"); /* by the input */
    check_done(check_answer(w, "{'input':'p.jpg','outputs':["
                               "{'output':{'path':'1.webp','lossless':true,'max_bytes':0}},"
                               "{'output':{'path':'2.webp','lossless':false,'max_bytes':9000}}]}"));
}

#else

TEST(test_webp_missing)
{
    fails("{'input':'p.jpg','output':'x.webp'}", "unsupported_format",
          "output is to be a WebP, but this gpuimgd was built without libwebp (WEBP=no)");
    fails("{'input':'huge.webp','output':'x.png'}", "unsupported_format",
          "the input is a WebP, but this gpuimgd was built without libwebp (WEBP=no)");
}

#endif

#ifdef GPUIMGD_JXL

TEST(test_jxl)
{
    check_done(check_answer(w, "{'input':'alpha.png','output':{'path':'a.jxl','lossless':true}}"));
    world_put_picture(w, "a.jxl", out_file("a.jxl"));
    check_done(check_answer(w, "{'input':'a.jxl','output':'a.png'}"));
    check_done(check_answer(w, "{'input':'alpha.png','output':'b.png'}"));
    struct raster one = world_load_out(w, "a.png"), other = world_load_out(w, "b.png");
    assert_int_equal(one.channels, 4);
    char where[128];
    assert_int_equal(raster_differ(&one, &other, 0, where, sizeof where), 0);
    raster_clear(&one);
    raster_clear(&other);
    cJSON *result = check_answer(w, "{'input':'p.jpg','output':{'path':'small.jxl','effort':2,"
                                    "'quality':90,'max_bytes':2500}}");
    struct picture_file small = out_file("small.jxl");
    assert_in_range(small.length, 1000, 2500);
    assert_in_range(json_number(result, "outputs.0.quality"), 1, 89);
    picture_free(&small);
    check_done(result);
    fails("{'input':'p.jpg','output':{'path':'x.jxl','lossless':true,'max_bytes':9999}}", "bad_job",
          "output.lossless is true, but max_bytes is 9999");
}

/* Recompresses IN.jpg to IN.jxl and back, beside an output of its pixels. */
static void recompress(const char *in, struct picture_file jpeg)
{
    world_put(w, text_of("%s.jpg", in), jpeg.bytes, jpeg.length);
    cJSON *result = check_answer(w,
                                 "{'input':'%s.jpg','outputs':[{'output':{'path':'%s.jxl',"
                                 "'recompress':true}},{'output':'%s.png','ops':['invert']}]}",
                                 in, in, in);
    assert_int_equal(json_number(result, "outputs.0.width"), json_number(result, "input.width"));
    assert_int_equal(json_number(result, "outputs.0.height"), json_number(result, "input.height"));
    check_done(result);
    struct picture_file jxl = out_file(text_of("%s.jxl", in));
    assert_memory_equal(jxl.bytes, "\0\0\0\fJXL \r\n\x87\n", 12);
    world_put_picture(w, text_of("%s.jxl", in), jxl);
    check_done(check_answer(w,
                            "{'input':'%s.jxl','output':{'path':'%s-back.jpg',"
                            "'recompress':true}}",
                            in, in));
    struct picture_file back = out_file(text_of("%s-back.jpg", in));
    assert_int_equal(back.length, jpeg.length);
    assert_memory_equal(back.bytes, jpeg.bytes, jpeg.length);
    picture_free(&back);
    picture_free(&jpeg);
}

TEST(test_recompress)
{
    struct picture_file tail = make_jpeg(.width = 61, .height = 47, .orientation = 6);
    picture_insert(&tail, tail.length, "trailing bytes", 14);
    recompress("tail", tail);
    recompress("large", make_jpeg(.width = 2300, .height = 1740, .progressive = true));
    recompress("wide", make_jpeg(.width = 16384, .height = 2));
    recompress("odd", make_jpeg(.width = 1, .height = 333, .colour = PICTURE_GRAY));
    put_jpeg("cmyk.jpg", .width = 61, .height = 47, .colour = PICTURE_CMYK);
    fails("{'input':'cmyk.jpg','output':{'path':'x.jxl','recompress':true}}", "unsupported_format",
          "the JPEG is CMYK, which libjxl cannot recompress");
    fails("{'input':'large.jpg','output':{'path':'x.jxl','recompress':true,'effort':6},"
          "'timeout_s':0.3}",
          "timeout", "the job exceeded its timeout_s of 0.3 s");
    /* The output has the other format, unless it names one. */
    cJSON *result =
        check_answer(w, "{'input':'odd.jpg','output':{'path':'odd','recompress':true}}");
    check_has(result, "{'status':'done','outputs.0.format':'jxl'}");
    cJSON_Delete(result);
    fails("{'input':'a.gif','frames':'all','output':{'path':'%n.jxl','recompress':true}}",
          "bad_job", "output.recompress is true, but frames is \"all\", and a frame is no file");
}

/* Memory is reserved for the sides that libjxl pads. */
TEST(test_thin_jxl)
{
    put_jpeg("row.jpg", .width = 16384, .height = 1);
    put_jpeg("column.jpg", .width = 1, .height = 16384);
    check_done(check_answer(w, "{'input':'row.jpg','output':'row.jxl'}"));
    check_done(check_answer(w, "{'input':'column.jpg','output':{'path':'column.jxl','effort':6}}"));
}

#ifdef GPUIMGD_AVIF

/* libjxl leaves a codec process with a larger heap. libaom then needs more of the stack. */
TEST(test_a_process_of_two_libraries)
{
    put_jpeg("two.jpg", .width = 1600, .height = 1200);
    for (int i = 0; i < 3; i++)
        check_done(check_answer(w, "{'input':'two.jpg','output':{'path':'%d.jxl','effort':1}}", i));
    for (int i = 0; i < 3; i++)
        check_done(check_answer(w, "{'input':'p.jpg','output':{'path':'%d.avif','effort':4}}", i));
}

#endif

TEST(test_recompress_refused)
{
    check_done(check_answer(w, "{'input':'gray.png','output':'pixels.jxl'}"));
    world_put_picture(w, "pixels.jxl", out_file("pixels.jxl"));
    fails("{'input':'pixels.jxl','output':{'path':'x.jpg','recompress':true}}", "encode_failed",
          "the JPEG XL was not made from a JPEG by recompress");
    fails("{'input':'gray.png','output':{'path':'x.jxl','recompress':true}}", "bad_job",
          "output.recompress makes a JPEG XL of a JPEG, or a JPEG of a JPEG XL; the input is a "
          "PNG, the output a JPEG XL");
    fails("{'input':'p.jpg','output':{'path':'x.jpg','recompress':true}}", "bad_job",
          "the input is a JPEG, the output a JPEG");
    fails("{'input':'p.jpg','output':{'path':'x.jxl','recompress':true},'ops':['invert']}",
          "bad_job", "output.recompress is true, which changes no pixel; omit its operations");
    fails("{'input':'p.jpg','output':{'path':'x.jxl','recompress':true,'quality':80}}", "bad_job",
          "output.recompress is true, which changes no pixel; omit quality");
    fails("{'input':'p.jpg','output':{'path':'x.jxl','recompress':true,'metadata':['exif']}}",
          "bad_job", "output.recompress is true, which keeps all metadata; omit metadata");
    fails("{'input':'gray.png','output':{'path':'x.png','recompress':true}}", "bad_job",
          "output.recompress is a key of jpeg and jxl");
}

#endif

#if defined GPUIMGD_AVIF && defined GPUIMGD_WEBP

TEST(test_avif)
{
    check_done(check_answer(w, "{'input':'alpha.png','output':'a.avif'}"));
    world_put_picture(w, "a.avif", out_file("a.avif"));
    check_done(check_answer(w, "{'input':'a.avif','output':'b.webp'}"));
    expect_webp("b.webp", 47, 61, true); /* the orientation was applied to the first output */
    check_done(check_answer(w, "{'input':'gray.png','output':{'path':'g.avif','quality':90,"
                               "'effort':2}}"));
    world_put_picture(w, "g.avif", out_file("g.avif"));
    check_done(check_answer(w, "{'input':'g.avif','output':'g.png','ops':['invert']}"));
}

/* gpuimgd's own encoder at every effort, also for an alpha that is opaque, and a limit of bytes. */
TEST(test_avif_own)
{
    check_done(check_answer(w,
                            "{'input':'p.jpg','outputs':[{'output':{'path':'1.avif','effort':1}},"
                            "{'output':{'path':'2.avif','effort':2},'ops':['grayscale']},"
                            "{'output':{'path':'3.avif','effort':3},'ops':[{'op':'pad',"
                            "'left':3,'color':[9,9,9,255]}]}]}"));
    for (int effort = 1; effort <= 3; effort++) {
        const char *name = text_of("%d.avif", effort);
        world_put_picture(w, name, out_file(name));
        cJSON *result = check_answer(w, "{'input':'%s','output':'%d.png'}", name, effort);
        assert_int_equal(json_number(result, "input.width"), effort == 3 ? 163 : 160);
        check_done(result);
    }
    cJSON *result = check_answer(w, "{'input':'p.jpg','output':{'path':'small.avif','effort':2,"
                                    "'quality':90,'max_bytes':2000}}");
    struct picture_file small = out_file("small.avif");
    assert_in_range(small.length, 1000, 2000);
    assert_in_range(json_number(result, "outputs.0.quality"), 1, 89);
    assert_string_equal(json_text(result, "outputs.0.encoder"), "cpu");
    picture_free(&small);
    check_done(result);
}

TEST(test_avif_refused)
{
    fails("{'input':'broken.avif','output':'x.png'}", "decode_failed",
          "the AVIF cannot be decoded");
    fails("{'input':'p.jpg','output':{'path':'x.avif','lossless':true}}", "bad_job",
          "output.lossless is a key of webp");
}

#elif !defined GPUIMGD_AVIF

TEST(test_avif_missing)
{
    check_done(check_answer(w, "{'input':'p.jpg','output':'x.avif'}"));
    struct picture_file file = out_file("x.avif");
    assert_memory_equal(file.bytes + 4, "ftypavif", 8);
    picture_free(&file);
    fails("{'input':'p.jpg','output':{'path':'x.avif','quality':100}}", "unsupported_format",
          "alpha, quality 100 and efforts except 1 to 3 of AVIFs need libavif, but this gpuimgd "
          "was built without libavif (AVIF=no)");
    fails("{'input':'alpha.png','output':'x.avif'}", "unsupported_format", "need libavif");
    fails("{'input':'broken.avif','output':'x.png'}", "unsupported_format",
          "the input is an AVIF, but this gpuimgd was built without libavif (AVIF=no)");
}

#endif

/* Formats that are only read. */
TEST(test_bmp)
{
    cJSON *result = check_answer(w, "{'input':'two.bmp','output':'two'}");
    assert_string_equal(json_text(result, "input.format"), "bmp");
    assert_string_equal(json_text(result, "outputs.0.format"), "png");
    check_done(result);
    struct raster two = world_load_out(w, "two");
    assert_int_equal(two.width, 2);
    assert_int_equal(two.channels, 3);
    assert_memory_equal(two.pixels, "\xFF\0\0\xFF\xFF\xFF", 6);
    raster_clear(&two);
    fails("{'input':'broken.bmp','output':'x.png'}", "decode_failed", "the BMP is truncated");
    fails("{'input':'p.jpg','output':'x.bmp'}", "bad_job", ".bmp");
}

TEST(test_tiff)
{
#ifdef GPUIMGD_TIFF
    fails("{'input':'broken.tif','output':'x.png'}", "decode_failed",
          "the TIFF has no directory at byte 255");
#else
    fails("{'input':'broken.tif','output':'x.png'}", "unsupported_format",
          "the input is a TIFF, but this gpuimgd was built without libtiff (TIFF=no)");
#endif
}

/* A format that is only read is none for an output. */
TEST(test_heic_is_not_written)
{
    fails("{'input':'p.jpg','output':{'path':'x','format':'heic'}}", "bad_job",
          "output.format is \"heic\"; it must be \"jpeg\", \"png\"");
    fails("{'input':'p.jpg','output':'x.HEIC'}", "bad_job",
          "output \"x.HEIC\" ends in .HEIC, which is not an output format; use the suffix .jpg");
}

#ifdef GPUIMGD_HEIF

/* Decodes with libjpeg and libpng, and compares a pixel. */
static void expect_output(const char *name, bool png, const int pixel[4])
{
    struct picture_file file = out_file(name);
    struct raster raster = raster_decode(file.bytes, file.length, RASTER_COLOUR);
    assert_int_equal(raster.png, png);
    assert_int_equal(raster.width, 64);
    assert_int_equal(raster.height, 64);
    const uint8_t *found = raster_at(&raster, 12, 48);
    for (uint32_t c = 0; c < raster.channels; c++)
        assert_in_range(found[c], pixel[c] < 25 ? 0 : pixel[c] - 25, pixel[c] + 25);
    raster_clear(&raster);
    picture_free(&file);
}

/* Without a format, an output becomes a JPEG, with alpha a PNG. */
TEST(test_heic)
{
    static const int colour[4] = {48, 192, 128}, alpha[4] = {200, 90, 192, 255};
    cJSON *result = check_answer(w, "{'input':'p.heic','outputs':[{'output':'h.png'},"
                                    "{'output':'h'},{'output':'h.avif','ops':['grayscale']}]}");
    assert_string_equal(json_text(result, "input.format"), "heic");
    assert_string_equal(json_text(result, "outputs.1.format"), "jpeg");
    check_done(result);
    expect_output("h.png", true, colour);
    expect_output("h", false, colour);
    result = check_answer(w, "{'input':'alpha.heic','output':'a'}");
    assert_string_equal(json_text(result, "outputs.0.format"), "png");
    check_done(result);
    expect_output("a", true, alpha);
    fails("{'input':'broken.heic','output':'x.png'}", "decode_failed",
          "the HEIC cannot be decoded: it has no complete box \"meta\"");
}

#else

TEST(test_heic_missing)
{
    fails("{'input':'p.heic','output':'x.png'}", "unsupported_format",
          "the input is a HEIC, but this gpuimgd was built without libheif (HEIF=no)");
}

#endif

int main(void)
{
    world_options = &options;
    return run_all(.name = "formats", .setup = open_world, .teardown = close_world);
}
