/* Tests of the codec table and of all formats: sinks, deadlines, reuse after failures. */
#include "tests/fixtures/codec_rig.h"

static struct picture_file jpeg_file(uint32_t seed)
{
    return make_jpeg(.width = 70, .height = 50, .seed = seed);
}

static struct picture_file png_file(uint32_t seed)
{
    return make_png(.width = 70, .height = 50, .colour_type = 6, .seed = seed);
}

/* ---- the table ---- */

/* The first bytes of files of these formats, by their specifications. */
TEST(test_foreign_formats)
{
#define FOREIGN(name, text) {name, text, sizeof text - 1}
    static const struct {
        const char *name, *bytes;
        size_t length;
    } cases[] = {
        FOREIGN("a sequence of HEVC images", "\0\0\0\x18"
                                             "ftyphevc\0\0\0\0"),
        FOREIGN("a HEIF or AVIF image with a compact header (mif3)", "\0\0\0\x14"
                                                                     "ftypmif3"
                                                                     "avif\0\0\0\0"),
        FOREIGN("a video", "\0\0\0\x18"
                           "ftypmp42\0\0\0\0"),
        FOREIGN("a JPEG 2000 image", "\0\0\0\fjP  \r\n\x87\n"),
        FOREIGN("a JPEG 2000 image", "\xFF\x4F\xFF\x51\0\x2F"),
        FOREIGN("a Windows icon", "\0\0\1\0\1\0\x10\x10"),
        FOREIGN("a PNM image", "P6\n2 2\n255\n"),
        FOREIGN("a PDF document", "%PDF-1.7\n"),
        FOREIGN("an SVG image", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>"),
        FOREIGN("an SVG image", "\xEF\xBB\xBF<?xml version=\"1.0\"?>\n<!-- a -->\n<svg>"),
        FOREIGN("an HTML page", "\r\n <!DOCTYPE HTML><title>404</title>"),
        FOREIGN("an HTML page", "<html><body>"),
        FOREIGN("an XML document", "<?xml version=\"1.0\"?><Error/>"),
        FOREIGN("a JPEG in base64", "/9j/4AAQSkZJRg"),
        FOREIGN("a data URL", "data:image/jpeg;base64,"),
        FOREIGN("a NumPy array", "\x93NUMPY\1\0\x76\0{"),
        FOREIGN("a ZIP archive", "PK\3\4\x14"),
    };
#undef FOREIGN
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char wanted[160], known[FORMAT_LIST_BYTES];
        struct picture_file file = {(uint8_t *)(uintptr_t)cases[i].bytes, cases[i].length};
        snprintf(wanted, sizeof wanted, "the input is %s; gpuimgd reads %s", cases[i].name,
                 format_list(FORMAT_TITLES, FORMATS_READ, "%s", " and ", known));
        assert_int_equal(rig_probe(&rig, &file), STATUS_UNSUPPORTED_FORMAT);
        assert_string_equal(rig.error.text, wanted);
        while (file.length-- > 0) /* no byte after the end is read */
            assert_int_equal(rig_probe(&rig, &file), STATUS_UNSUPPORTED_FORMAT);
    }
}

/* Files that only resemble a known format. */
TEST(test_unknown_formats)
{
    static const char *const texts[] = {"BMW, a list of cars and their years", "P7", "P8\n2 2",
                                        "<p>", "a <svg> in a text", "RIFF____WAVEfmt ", "GIF9",
                                        "x"};
    char wanted[160], known[FORMAT_LIST_BYTES];
    struct picture_file empty = {(uint8_t *)(uintptr_t) "", 0};
    assert_int_equal(rig_probe(&rig, &empty), STATUS_UNSUPPORTED_FORMAT);
    assert_string_equal(rig.error.text, "the input is empty (0 bytes)");
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct picture_file file = {(uint8_t *)(uintptr_t)texts[i], strlen(texts[i])};
        assert_int_equal(rig_probe(&rig, &file), STATUS_UNSUPPORTED_FORMAT);
        snprintf(wanted, sizeof wanted, "the input's %zu bytes are neither %s", file.length,
                 format_list(FORMAT_NOUNS, FORMATS_READ, "%s", " nor ", known));
        assert_string_equal(rig.error.text, wanted);
    }
}

TEST(test_sniff)
{
    struct picture_file jpeg = jpeg_file(0), png = png_file(0);
    assert_ptr_equal(codec_sniff(jpeg.bytes, jpeg.length), format_by_name("jpeg"));
    assert_ptr_equal(codec_sniff(png.bytes, png.length), format_by_name("png"));
    assert_ptr_equal(codec_sniff(png.bytes, 8), format_by_name("png"));
    assert_null(codec_sniff(png.bytes, 7));
    assert_null(codec_sniff(jpeg.bytes, 2));
    assert_null(codec_sniff(jpeg.bytes, 0));
    picture_free(&jpeg);
    picture_free(&png);
}

TEST(test_no_picture)
{
    struct picture_file files[] = {picture_empty(), picture_text(), picture_garbage(5000, 1)};
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        assert_int_equal(rig_probe(&rig, &files[i]), STATUS_UNSUPPORTED_FORMAT);
        assert_null(rig.info.format);
        picture_free(&files[i]);
    }
    assert_non_null(strstr(rig.error.text, "5000 bytes"));
}

/* The magic bytes of a format, followed by random bytes. */
TEST(test_magic_and_garbage)
{
#define MAGIC(text) {(uint8_t *)(uintptr_t)text, sizeof text - 1}
    static const struct picture_file magic[] = {MAGIC("\xFF\xD8\xFF"),
                                                MAGIC("\x89PNG\r\n\x1A\n"),
                                                MAGIC("RIFF\xFF\xFF\0\0WEBP"),
                                                MAGIC("\0\0\0\x14"
                                                      "ftypavif\0\0\0\0avif"),
                                                MAGIC("II*\0"),
                                                MAGIC("MM\0+"),
                                                MAGIC("BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0")};
#undef MAGIC
    for (size_t m = 0; m < COUNT_OF(magic); m++)
        for (uint32_t seed = 0; seed < 100; seed++) {
            struct picture_file file = picture_garbage(seed * 20, seed);
            picture_insert(&file, 0, magic[m].bytes, magic[m].length);
            enum status status = rig_decode(&rig, &file, DECODE_COLOUR);
            assert_true(status == STATUS_DECODE_FAILED || status == STATUS_IMAGE_TOO_LARGE ||
                        status == STATUS_UNSUPPORTED_FORMAT || status == STATUS_DECODE_LIMIT);
            picture_free(&file);
        }
}

/* ---- deadlines ---- */

/* A file with a million minimal segments or chunks, before or after its pixels. Most of the time
 * passes while no rows are decoded. */
static struct picture_file file_of_parts(bool png, bool behind)
{
    enum { part_bytes_max = 12, parts = 1000000 };
    const char *part = png ? "\0\0\0\0tEXt\x96\x42\xC5\x85" : "\xFF\xE0\0\2";
    size_t part_bytes = png ? part_bytes_max : 4;
    struct picture_file file = png ? png_file(1) : jpeg_file(1);
    size_t before = png ? 8 + 25 : 2, after = file.length - (png ? 12 : 2);
    uint8_t *all = malloc(parts * part_bytes_max);
    assert_non_null(all);
    for (size_t i = 0; i < parts; i++)
        memcpy(all + i * part_bytes, part, part_bytes);
    picture_insert(&file, behind ? after : before, all, parts * part_bytes);
    free(all);
    return file;
}

TEST(test_deadline_between_parts)
{
    for (int png = 0; png < 2; png++) {
        struct picture_file file = file_of_parts(png, false);
        rig.limits.deadline_ns = 0;
        assert_int_equal(rig_decode(&rig, &file, DECODE_COLOUR), STATUS_OK);
        rig.limits.deadline_ns = 1;
        assert_int_equal(rig_probe(&rig, &file), STATUS_DECODE_LIMIT);
        assert_non_null(strstr(rig.error.text, "the deadline for decoding passed in its header"));
        picture_free(&file);
        file = file_of_parts(png, true);
        rig.limits.deadline_ns = 0;
        assert_int_equal(rig_decode(&rig, &file, DECODE_COLOUR), STATUS_OK);
        rig.limits.deadline_ns = clock_now_ns() + 1000000;
        assert_int_equal(rig_decode(&rig, &file, DECODE_COLOUR), STATUS_DECODE_LIMIT);
        picture_free(&file);
    }
}

/* ---- the context ---- */

/* After any failure the next image is decoded and encoded without error. */
TEST(test_reuse_after_failure)
{
    struct picture_file good[] = {jpeg_file(1), png_file(1)};
    struct picture_file bad[] = {picture_cut_at(&good[0], 0.6), picture_cut_at(&good[1], 0.6),
                                 picture_cut(&good[0], 40), picture_cut(&good[1], 40),
                                 picture_jpeg_huge(60000, 60000), picture_png_huge(60000, 60000)};
    for (size_t b = 0; b < COUNT_OF(bad); b++)
        for (int g = 0; g < 2; g++) {
            struct rig fresh;
            rig_open(&fresh);
            assert_int_equal(rig_decode(&fresh, &good[g], DECODE_COLOUR), STATUS_OK);
            assert_int_not_equal(rig_decode(&rig, &bad[b], DECODE_COLOUR), STATUS_OK);
            assert_int_equal(rig_decode(&rig, &good[g], DECODE_COLOUR), STATUS_OK);
            assert_int_equal(rig.block_bytes, fresh.block_bytes);
            assert_memory_equal(rig.block, fresh.block, rig.block_bytes);
            rig_close(&fresh);
        }
    for (size_t b = 0; b < COUNT_OF(bad); b++)
        picture_free(&bad[b]);
    picture_free(&good[0]);
    picture_free(&good[1]);
}

TEST(test_destroy_nothing)
{
    codec_context_destroy(NULL);
    struct image_info info = {0};
    image_info_clear(&info);
    image_info_clear(&info);
}

/* ---- sinks ---- */

static void check_sinks(struct image *image, const struct encode_request *request)
{
    struct picture_file whole = rig_encode(&rig, image, request);
    assert_true(whole.length > 10000);
    static const size_t capacities[] = {4096, 4097, 5000, 1 << 20};
    for (size_t i = 0; i < COUNT_OF(capacities); i++) {
        struct rig_sink sink = {.bytes_max = 0};
        assert_int_equal(rig_encode_into(&rig, image, request, capacities[i], &sink), STATUS_OK);
        assert_int_equal(sink.file.length, whole.length);
        assert_memory_equal(sink.file.bytes, whole.bytes, whole.length);
        picture_free(&sink.file);
    }
    /* a buffer that the file fills exactly */
    struct rig_sink exact = {.bytes_max = 0};
    assert_int_equal(rig_encode_into(&rig, image, request, whole.length, &exact), STATUS_OK);
    assert_int_equal(exact.file.length, whole.length);
    picture_free(&exact.file);
    for (size_t bytes = 1; bytes < whole.length; bytes += 3000)
        for (int silent = 0; silent < 2; silent++) {
            struct rig_sink sink = {.bytes_max = bytes, .silent = silent != 0};
            assert_int_equal(rig_encode_into(&rig, image, request, 4096, &sink),
                             silent != 0 ? STATUS_WRITE_FAILED : STATUS_OUT_OF_MEMORY);
            assert_int_equal(sink.sink.total, sink.file.length);
            picture_free(&sink.file);
        }
    struct picture_file again = rig_encode(&rig, image, request);
    assert_int_equal(again.length, whole.length);
    assert_memory_equal(again.bytes, whole.bytes, whole.length);
    picture_free(&again);
    picture_free(&whole);
}

TEST(test_sinks)
{
    struct image image = rig_picture(200, 150, 3, 5);
    struct encode_request request = {.format = format_by_name("jpeg"), .encoder.quality = 95};
    check_sinks(&image, &request);
    request.encoder.optimize = true;
    check_sinks(&image, &request);
    request.encoder.progressive = true;
    check_sinks(&image, &request);
    request.format = format_by_name("png");
    request.encoder.compression = 6;
    check_sinks(&image, &request);
    for (int i = FORMAT_png + 1; i < FORMAT_COUNT; i++) {
        request = (struct encode_request){.format = &formats[i], .encoder.quality = 95};
        if (!codec_refusal(request.format, true) && !request.format->tensor)
            check_sinks(&image, &request);
    }
    free(image.pixels);
}

TEST(test_encode_deadline)
{
    struct image image = rig_picture(1500, 1500, 3, 5);
    for (int variant = 0; variant < 4; variant++) {
        struct encode_request request = {.format = format_by_name(variant == 2 ? "png" : "jpeg"),
                                         .encoder = {.quality = 95,
                                                     .progressive = variant == 1,
                                                     .optimize = variant == 3,
                                                     .compression = 6}};
        for (int soon = 0; soon < 2; soon++) {
            request.deadline_ns = soon != 0 ? clock_now_ns() + 1000000 : 1;
            struct rig_sink sink = {.bytes_max = 0};
            assert_int_equal(rig_encode_into(&rig, &image, &request, 65536, &sink),
                             STATUS_TIMEOUT);
            picture_free(&sink.file);
        }
    }
    free(image.pixels);
}

/* A width that libjpeg does not accept, although JPEG's 16-bit field could hold it. */
TEST(test_encode_too_wide)
{
    struct image image = rig_picture(65501, 1, 1, 5);
    struct encode_request request = {.format = format_by_name("jpeg"), .encoder.quality = 85};
    struct rig_sink sink = {.bytes_max = 0};
    assert_int_equal(rig_encode_into(&rig, &image, &request, 65536, &sink), STATUS_ENCODE_FAILED);
    assert_non_null(strstr(rig.error.text, "65500"));
    picture_free(&sink.file);
    free(image.pixels);
}

/* Noise, which no coder compresses. The file must not be larger than the memory reserved for it. */
TEST(test_encoded_bytes)
{
    static const uint32_t sides[][2] = {{1, 1}, {17, 9}, {300, 200}, {1, 2000}, {2000, 1}};
    static const int qualities[] = {1, 85, 90, 100};
    uint32_t random = 7;
    for (size_t i = 0; i < 5 * 3; i++) {
        uint32_t channels = (uint32_t[]){1, 3, 4}[i % 3];
        struct image image = rig_picture(sides[i / 3][0], sides[i / 3][1], channels, 1);
        for (size_t at = 0; at < image.stride * image.height; at++)
            image.pixels[at] = (uint8_t)picture_random(&random);
        for (size_t q = 0; q < 4 * FORMAT_COUNT; q++) {
            const struct format *format = &formats[q / 4];
            if ((channels == 4 && !format->alpha) || codec_refusal(format, true) || format->tensor)
                continue;
            struct encode_request request = {.format = format,
                                             .encoder = {.quality = qualities[q % 4],
                                                        .subsampling = (int)(q + i) % 4,
                                                         .compression = (int)q % 4,
                                                         .lossless = q % 4 == 2}};
            struct picture_file file = rig_encode(&rig, &image, &request);
            size_t most = codec_encoded_bytes(format, image.width, image.height, channels,
                                              &request.encoder, 0);
            if (file.length == 0 || file.length > most)
                fail_msg("%s of %u x %u x %u at %d: %zu bytes, above %zu", format->name,
                         image.width, image.height, channels, qualities[q % 4], file.length, most);
            picture_free(&file);
        }
        free(image.pixels);
    }
}

/* The limit of a file is also one of the memory that is reserved for it. */
TEST(test_encoded_bytes_with_a_limit)
{
    const struct format *jpeg = format_by_name("jpeg");
    struct encoder_settings settings = {.quality = 85};
    size_t most = codec_encoded_bytes(jpeg, 500, 500, 3, &settings, 0);
    settings.max_bytes = 10000;
    assert_int_equal(codec_encoded_bytes(jpeg, 500, 500, 3, &settings, 0), 10000);
    settings.max_bytes = (int)most + 1;
    assert_int_equal(codec_encoded_bytes(jpeg, 500, 500, 3, &settings, 0), most);
}

/* The coefficients of the whole image: 64 of 2 bytes per block, in whole MCUs. */
TEST(test_encoder_bytes)
{
    static const struct {
        uint32_t width, height, channels;
        struct encoder_settings settings;
        size_t blocks;
    } rows[] = {
        {100, 100, 3, {.quality = 85}, 0},
        {100, 100, 3, {.quality = 85, .subsampling = SUBSAMPLING_444}, 0},
        {100, 100, 1, {.optimize = 1}, 13 * 13},
        {100, 100, 3, {.optimize = 1}, 7 * 7 * 6},
        {100, 100, 3, {.progressive = 1}, 7 * 7 * 6},
        {100, 100, 3, {.progressive = 1, .optimize = 1}, 7 * 7 * 6},
        {100, 100, 3, {.optimize = 1, .subsampling = SUBSAMPLING_422}, 7 * 13 * 4},
        {100, 100, 3, {.optimize = 1, .subsampling = SUBSAMPLING_444}, 13 * 13 * 3},
        {100, 100, 3, {.optimize = 1, .subsampling = SUBSAMPLING_GRAY}, 13 * 13},
        {1, 1, 3, {.optimize = 1}, 6},
        {65500, 65500, 3, {.optimize = 1, .subsampling = SUBSAMPLING_444}, 8188ull * 8188 * 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(codec_encoder_bytes(format_by_name("jpeg"), rows[i].width, rows[i].height,
                                             rows[i].channels, &rows[i].settings, 5000),
                         rows[i].blocks * 128);
}

/* A dropped profile is read again; a file without a profile still has none. */
TEST(test_profile_again)
{
    struct picture_file icc = picture_icc(70000, "RGB ");
    struct picture_file files[] = {
        make_png(.width = 9, .height = 7, .colour_type = 2, .icc = icc.bytes,
                 .icc_bytes = icc.length),
        make_jpeg(.width = 9, .height = 7, .icc = icc.bytes, .icc_bytes = icc.length),
        make_png(.width = 9, .height = 7, .colour_type = 2)};
    for (size_t i = 0; i < 3; i++) {
        struct error error = {0};
        assert_int_equal(rig_probe(&rig, &files[i]), STATUS_OK);
        size_t bytes = i < 2 ? icc.length : 0;
        assert_int_equal(rig.info.icc_bytes, bytes);
        image_info_drop_metadata(&rig.info);
        assert_null(rig.info.icc);
        assert_int_equal(rig.info.icc_bytes, bytes);
        for (int twice = 0; twice < 2; twice++)
            assert_int_equal(codec_read_metadata(rig.context, files[i].bytes, files[i].length,
                                            &rig.limits, &rig.info, &error), STATUS_OK);
        assert_true(!rig.info.icc == (bytes == 0));
        if (bytes)
            assert_memory_equal(rig.info.icc, icc.bytes, bytes);
    }
    /* A different file is an internal error. */
    struct error error = {0};
    rig.info.icc_bytes = 5;
    assert_int_equal(codec_read_metadata(rig.context, files[2].bytes, files[2].length, &rig.limits,
                                    &rig.info, &error), STATUS_INTERNAL);
    for (size_t i = 0; i < 3; i++)
        picture_free(&files[i]);
    picture_free(&icc);
}

TEST_MAIN(.name = "codec", .each_setup = rig_setup, .each_teardown = rig_teardown)
