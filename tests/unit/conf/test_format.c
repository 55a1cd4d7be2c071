/* Tests of the table of formats: names, suffixes, encoder parameters, and lists in messages. */
#include "conf/format.h"
#include "tests/fixtures/test.h"

TEST(test_names)
{
    for (int i = 0; i < FORMAT_COUNT; i++) {
        assert_ptr_equal(format_by_name(formats[i].name), formats[i].becomes ? NULL : &formats[i]);
        assert_non_null(strchr(formats[i].noun, ' '));
        assert_non_null(formats[i].suffixes[0]);
    }
    assert_ptr_equal(format_by_name("jpeg"), &formats[FORMAT_jpeg]);
    assert_ptr_equal(format_by_name("jpg"), &formats[FORMAT_jpeg]);
    assert_ptr_equal(format_by_name("png"), &formats[FORMAT_png]);
    assert_null(format_by_name("JPEG"));
    assert_null(format_by_name(""));
    assert_null(format_by_name("jpegx"));
    assert_null(format_by_name(".jpg"));
    assert_string_equal(format_title(&formats[FORMAT_jpeg]), "JPEG");
    assert_true(formats[FORMAT_png].alpha);
    assert_false(formats[FORMAT_jpeg].alpha);
    assert_true(formats[FORMAT_png].lossless);
    assert_false(formats[FORMAT_jpeg].lossless);
}

TEST(test_formats_that_are_read)
{
    for (int i = 0; i < FORMAT_COUNT; i++) {
        assert_int_equal(format_reads_suffix(formats[i].suffixes[0]), !formats[i].tensor);
        assert_true(formats[i].reads || !formats[i].becomes);
    }
    assert_true(format_reads_path("a.b/c.JPG"));
    assert_false(format_reads_path("a.jpg/c"));
    assert_false(format_reads_suffix(""));
    assert_true(format_reads_suffix("APNG"));
    assert_ptr_equal(format_to_read("a/b.apng"), &formats[FORMAT_png]);
}

/* A format that is only read is none for an output, and an output that names none has another. */
TEST(test_formats_that_are_only_read)
{
    char list[FORMAT_LIST_BYTES], word[32];
    const char *near;
    for (int i = 0; i < FORMAT_COUNT; i++) {
        const struct format *format = &formats[i], *other = format_of_output(format, false);
        const char *suffix = format->suffixes[0];
        assert_ptr_equal(format_by_name(other->name), other);
        assert_true(format_of_output(format, true)->alpha || !format->becomes);
        if (!format->becomes) {
            assert_ptr_equal(other, format);
            assert_ptr_equal(format_of_output(format, true), format);
            assert_string_equal(format_output_suffix(suffix), suffix);
            continue;
        }
        assert_string_equal(format_output_suffix(suffix), other->suffixes[0]);
        assert_null(format_by_name(format->name));
        assert_null(format_by_suffix(suffix));
        snprintf(word, sizeof word, "a.%s", suffix);
        assert_string_equal(format_wrong_suffix(word, false, &near), word + 1);
        snprintf(word, sizeof word, "<%s>", format->name);
        assert_null(strstr(format_list(FORMAT_NAMES, 0, "<%s>", "", list), word));
        assert_non_null(strstr(format_list(FORMAT_NAMES, FORMATS_READ, "<%s>", "", list), word));
    }
    assert_string_equal(format_output_suffix("JPG"), "JPG");
    assert_string_equal(format_output_suffix("xyz"), "xyz");
    assert_string_equal(format_output_suffix("APNG"), "png");
    assert_null(format_by_name("apng"));
}

TEST(test_suffixes)
{
    static const struct {
        const char *path, *name, *wrong, *near;
    } cases[] = {
        {"a.jpg", "jpeg", NULL, NULL},
        {"a.jpeg", "jpeg", NULL, NULL},
        {"a.png", "png", NULL, NULL},
        {"x/y.z/B.JPG", "jpeg", NULL, NULL},
        {"b.JpEg", "jpeg", NULL, NULL},
        {"b.PNG", "png", NULL, NULL},
        {"a.png.jpg", "jpeg", NULL, NULL},
        {"a.gif", NULL, ".gif", NULL},
        {"jpg", NULL, NULL, NULL},
        {"a.jpg/b", NULL, NULL, NULL},
        {"", NULL, NULL, NULL},
        {"a.jpg.", NULL, NULL, NULL},
        {".png", "png", NULL, NULL},
        {"x/b.TIFF", NULL, ".TIFF", NULL},
        {"b.gif.png", "png", NULL, NULL},
        {"b.png.gif", NULL, ".gif", NULL},
        {"a.gif/b", NULL, NULL, NULL},
        {"cat.v2", NULL, NULL, NULL},
        {"cl.xyz", NULL, ".xyz", NULL},
        {"a.heic", NULL, ".heic", NULL},
        {"a.apng", NULL, ".apng", NULL},
        {"a.jp2", NULL, ".jp2", NULL},
        {"o.x.pgn", NULL, ".pgn", "png"},
        {"a.JGP", NULL, ".JGP", "jpg"},
        {"a.jpge", NULL, ".jpge", "jpg"},
        {"a.webpp", NULL, ".webpp", "webp"},
        {"a.wbp", NULL, ".wbp", "webp"},
        {"a.web", NULL, NULL, NULL},
        {"a.pn", NULL, NULL, NULL},
        {"a.orig", NULL, NULL, NULL},
        {"a.BAK", NULL, NULL, NULL},
        {"a.tmp", NULL, NULL, NULL},
        {"a.php", NULL, ".php", NULL},
        {"cat.2024", NULL, NULL, NULL},
        {"cat.small", NULL, NULL, NULL},
        {"cat.v10", NULL, NULL, NULL},
        {"cat.", NULL, NULL, NULL},
        {"..", NULL, NULL, NULL},
        {"a.j", NULL, NULL, NULL},
        {"a.b\xc3\xbc", NULL, NULL, NULL},
        {"a. png", NULL, NULL, NULL},
        {"a.mp4", NULL, ".mp4", NULL},
        {"a.png%00", NULL, NULL, NULL},
        {"a.longer_than_any", NULL, NULL, NULL},
        {"a.Npy", "npy", NULL, NULL},
        {"a.raw", "raw", NULL, NULL},
        {"a.npz", NULL, ".npz", "npy"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct format *format = format_of_path(cases[i].path);
        const char *near, *wrong = format_wrong_suffix(cases[i].path, false, &near);
        if (cases[i].name)
            assert_ptr_equal(format, format_by_name(cases[i].name));
        else
            assert_null(format);
        if (!wrong != !cases[i].wrong || (wrong && strcmp(wrong, cases[i].wrong) != 0) ||
            !near != !cases[i].near || (near && strcmp(near, cases[i].near) != 0))
            fail_msg("%s: %s, %s", cases[i].path, wrong ? wrong : "right", near ? near : "none");
    }
    assert_ptr_equal(format_by_suffix("JPG"), &formats[FORMAT_jpeg]);
    assert_null(format_by_suffix(".jpg"));
    assert_null(format_by_suffix(""));
}

TEST(test_suffixes_of_urls)
{
    /* The last part of a URL may be a program. */
    static const struct {
        const char *path, *wrong;
    } urls[] = {{"/put.php", NULL}, {"/put.aspx", NULL}, {"/john.doe", NULL},
                {"/a.xyz", NULL},   {"/a.pgn", ".pgn"},  {"/a.TIFF", ".TIFF"},
                {"/a.png", NULL},   {"/a.jpge", ".jpge"}};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        const char *near, *wrong = format_wrong_suffix(urls[i].path, true, &near);
        if (!wrong != !urls[i].wrong || (wrong && strcmp(wrong, urls[i].wrong) != 0))
            fail_msg("%s: %s", urls[i].path, wrong ? wrong : "right");
    }
}

TEST(test_parameters)
{
    struct encoder_settings settings = encoder_defaults;
    assert_int_equal(settings.quality, 85);
    assert_int_equal(settings.compression, 3);
    assert_int_equal(settings.progressive, 0);
    assert_int_equal(format_default(&formats[FORMAT_jpeg], PARAMETER_quality), 85);
    assert_int_equal(format_default(&formats[FORMAT_webp], PARAMETER_quality), 80);
    assert_int_equal(format_default(&formats[FORMAT_webp], PARAMETER_lossless), 0);
    for (unsigned i = 0; i < PARAMETER_COUNT; i++) {
        const struct parameter_row *row = &encoder_parameters[i];
        assert_int_equal(*encoder_setting(&settings, i), row->standard);
        assert_true(row->standard >= row->min || row->standard == 0);
        assert_true(row->standard <= row->max);
        *encoder_setting(&settings, i) = (int)i + 50;
    }
    assert_int_equal(settings.quality, 50 + PARAMETER_quality);
    assert_int_equal(settings.compression, 50 + PARAMETER_compression);
    assert_int_equal(settings.progressive, 50 + PARAMETER_progressive);
    assert_true(formats[FORMAT_jpeg].parameters & TAKES(quality));
    assert_true(formats[FORMAT_jpeg].parameters & TAKES(progressive));
    assert_false(formats[FORMAT_jpeg].parameters & TAKES(compression));
    assert_true(formats[FORMAT_png].parameters & TAKES(compression));
    assert_false(formats[FORMAT_png].parameters & TAKES(quality));
    assert_int_equal(format_default(&formats[FORMAT_png], PARAMETER_colors), 0);
}

/* The words end, and the first and last value have one. */
TEST(test_words)
{
    char text[PARAMETER_TEXT_BYTES];
    for (unsigned i = 0; i < PARAMETER_COUNT; i++) {
        const struct parameter_row *row = &encoder_parameters[i];
        int words = 0;
        while (row->words[words])
            words++;
        assert_int_equal(words, row->kind == PARAMETER_IS_WORD ? row->max + 1 : 0);
        assert_true(row->kind <= PARAMETER_IS_QUALITY || row->min == 0);
    }
    assert_string_equal(parameter_text(PARAMETER_subsampling, SUBSAMPLING_420, text), "420");
    assert_string_equal(parameter_text(PARAMETER_subsampling, SUBSAMPLING_422, text), "422");
    assert_string_equal(parameter_text(PARAMETER_subsampling, SUBSAMPLING_444, text), "444");
    assert_string_equal(parameter_text(PARAMETER_subsampling, SUBSAMPLING_GRAY, text), "gray");
    assert_string_equal(parameter_text(PARAMETER_type, TENSOR_U8, text), "u8");
    assert_string_equal(parameter_text(PARAMETER_type, TENSOR_F16, text), "f16");
    assert_string_equal(parameter_text(PARAMETER_type, TENSOR_F32, text), "f32");
    assert_string_equal(parameter_text(PARAMETER_layout, TENSOR_HWC, text), "hwc");
    assert_string_equal(parameter_text(PARAMETER_layout, TENSOR_CHW, text), "chw");
    assert_string_equal(parameter_text(PARAMETER_channels, TENSOR_AS_IMAGE, text), "image");
    assert_string_equal(parameter_text(PARAMETER_channels, TENSOR_GRAY, text), "gray");
    assert_string_equal(parameter_text(PARAMETER_channels, TENSOR_RGB, text), "rgb");
    assert_string_equal(parameter_text(PARAMETER_optimize, 1, text), "true");
    assert_string_equal(parameter_text(PARAMETER_optimize, 0, text), "false");
    assert_string_equal(parameter_text(PARAMETER_max_bytes, 2147483647, text), "2147483647");
}

TEST(test_lists)
{
    char text[FORMAT_LIST_BYTES];
    assert_string_equal(format_list(FORMAT_NAMES, 0, "<%s>", " or ", text),
                        "<jpeg>, <png>, <webp>, <avif>, <jxl>, <npy> or <raw>");
    assert_string_equal(format_list(FORMAT_TITLES, FORMATS_READ, "%s", " and ", text),
                        "JPEG, PNG, WebP, AVIF, JPEG XL, HEIC, GIF, TIFF and BMP");
    assert_string_equal(
        format_list(FORMAT_NOUNS, FORMATS_READ, "%s", " nor ", text),
        "a JPEG, a PNG, a WebP, an AVIF, a JPEG XL, a HEIC, a GIF, a TIFF nor a BMP");
    assert_string_equal(format_list(FORMAT_SUFFIXES, 0, ".%s", " or ", text),
                        ".jpg, .jpeg, .png, .webp, .avif, .jxl, .npy or .raw");
    assert_string_equal(format_list(FORMAT_SUFFIXES, FORMATS_READ, "%s", " or ", text),
                        "jpg, jpeg, png, apng, webp, avif, jxl, heic, heif, hif, gif, tif, tiff or "
                        "bmp");
    assert_string_equal(format_list(FORMAT_NAMES, TAKES(quality), "%s", " and ", text),
                        "jpeg, webp, avif and jxl");
    assert_string_equal(format_list(FORMAT_TITLES, TAKES(compression), "%s", " and ", text),
                        "PNG");
}

TEST_MAIN(.name = "format")
