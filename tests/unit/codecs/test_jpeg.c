/* Tests of the JPEG codec against djpeg and cjpeg, bit for bit, and with broken files. */
#include "tests/fixtures/reference.h"
#include "tests/fixtures/codec_rig.h"
#include "tests/fixtures/text_file.h"

#include <jpeglib.h>

/* ---- djpeg and cjpeg ---- */

static bool have(const char *program)
{
    if (system(text_of("command -v %s >/dev/null 2>&1", program)) == 0)
        return true;
    print_message("skipped: there is no %s here\n", program);
    return false;
}

/* Runs `program options < in` and returns its output; length 0 if it failed. */
static struct picture_file run(const char *program, const char *options,
                               const struct picture_file *in)
{
    char name[] = "/tmp/gpuimgd-test-XXXXXX", command[512];
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, in->bytes, in->length), (ssize_t)in->length);
    close(fd);
    snprintf(command, sizeof command, "%s %s %s 2>/dev/null", program, options, name);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    struct picture_file out = picture_empty();
    uint8_t part[65536];
    for (size_t count; (count = fread(part, 1, sizeof part, pipe)) > 0;)
        picture_insert(&out, out.length, part, count);
    pclose(pipe);
    unlink(name);
    return out;
}

/* The header of a binary PNM; returns its length. */
static size_t pnm_header(char text[64], uint32_t width, uint32_t height, uint32_t channels)
{
    return (size_t)snprintf(text, 64, "P%d\n%u %u\n255\n", channels == 1 ? 5 : 6, width, height);
}

/* Decodes with the codec and with djpeg, and compares the pixels. */
static void compare_scaled(const struct picture_file *file, enum decode_as as, uint32_t eighths)
{
    assert_int_equal(rig_decode_scaled(&rig, file, as, eighths), STATUS_OK);
    uint32_t channels = rig.image.channels;
    const char *gray = as == DECODE_LUMA ? "-grayscale" : "";
    struct picture_file pnm = run("djpeg", text_of("-pnm -scale %u/8 %s", eighths, gray), file);
    char header[64];
    size_t at = pnm_header(header, rig.image.width, rig.image.height, channels);
    assert_int_equal(pnm.length,
                     at + (size_t)rig.image.width * rig.image.height * channels);
    assert_memory_equal(pnm.bytes, header, at);
    rig_expect_pixels(&rig, pnm.bytes + at, channels);
    picture_free(&pnm);
}

static void compare_with_djpeg(const struct picture_file *file, enum decode_as as)
{
    compare_scaled(file, as, DECODE_EIGHTHS);
}

/* Compares Y, Cb and Cr of a file. Y must equal the luma-only decode, and the conversion to RGB
 * must equal libjpeg's. */
static void compare_ycc(const struct picture_file *file)
{
    assert_int_equal(rig_decode(&rig, file, DECODE_COLOUR), STATUS_OK);
    struct rig rgb = rig, gray;
    rig.block = NULL; /* the copies keep their pixels */
    assert_int_equal(rig_decode(&rig, file, DECODE_LUMA), STATUS_OK);
    gray = rig;
    rig.block = NULL;
    assert_int_equal(rig_decode(&rig, file, DECODE_YCC), STATUS_OK);
    for (uint32_t y = 0; y < rig.image.height; y++)
        for (uint32_t x = 0; x < rig.image.width; x++) {
            const uint8_t *ycc = rig.image.pixels + y * rig.image.stride + x * 3;
            const uint8_t *wanted = rgb.image.pixels + y * rgb.image.stride + x * 3;
            uint8_t made[3];
            reference_ycc_pixel(ycc, made);
            assert_int_equal(ycc[0], gray.image.pixels[y * gray.image.stride + x]);
            if (memcmp(made, wanted, 3) != 0)
                fail_msg("(%u, %u): %d, %d, %d is %d, %d, %d, not %d, %d, %d", x, y, ycc[0],
                         ycc[1], ycc[2], wanted[0], wanted[1], wanted[2], made[0], made[1],
                         made[2]);
        }
    free(rgb.block);
    free(gray.block);
}

static void compare_options(const struct picture_jpeg *options)
{
    struct picture_file file = picture_jpeg(options);
    compare_with_djpeg(&file, DECODE_COLOUR);
    bool ycc = options->colour == PICTURE_YCBCR;
    assert_int_equal(rig.info.ycc, ycc);
    assert_int_equal(rig.info.channels, options->colour == PICTURE_GRAY ? 1 : 3);
    assert_int_equal(rig.info.progressive, options->progressive);
    if (ycc || options->colour == PICTURE_GRAY)
        compare_with_djpeg(&file, DECODE_LUMA);
    if (ycc)
        compare_ycc(&file);
    picture_free(&file);
}
#define compare_made(...) compare_options(&(struct picture_jpeg){__VA_ARGS__})

static const uint32_t sides[][2] = {{1, 1},   {1, 33},  {33, 1},  {7, 9},    {8, 8},
                                    {15, 17}, {16, 16}, {17, 15}, {127, 65}, {300, 211}};
static const int subsamplings[] = {444, 422, 420};

TEST(test_scales)
{
    static const int colours[] = {PICTURE_YCBCR, PICTURE_GRAY, PICTURE_RGB};
    if (!have("djpeg"))
        skip();
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (int s = 0; s < 9; s++)
            for (uint32_t eighths = 1; eighths <= 8; eighths *= 2) {
                struct picture_file file = make_jpeg(
                    .width = sides[i][0], .height = sides[i][1], .seed = (uint32_t)i,
                    .subsampling = subsamplings[s % 3], .colour = colours[s / 3],
                    .progressive = (i + (size_t)s) % 2 != 0);
                compare_scaled(&file, DECODE_COLOUR, eighths);
                assert_true(rig.info.scales);
                assert_int_equal(rig.info.width, sides[i][0]);
                if (colours[s / 3] != PICTURE_RGB)
                    compare_scaled(&file, DECODE_LUMA, eighths);
                picture_free(&file);
            }
}

TEST(test_sizes_and_subsamplings)
{
    if (!have("djpeg"))
        skip();
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (int s = 0; s < 3; s++)
            for (int progressive = 0; progressive < 2; progressive++)
                compare_made(.width = sides[i][0], .height = sides[i][1], .seed = (uint32_t)i,
                             .subsampling = subsamplings[s], .progressive = progressive != 0);
}

/* One block of 8 x 8 pixels per Cb (across) and Cr (down), lossless. */
static struct picture_file flat_blocks(uint8_t luma)
{
    enum { side = 256 * 8 };
    static uint8_t row[side * 3];
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct picture_file file = {NULL, 0};
    unsigned long length = 0;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &file.bytes, &length);
    jpeg.image_width = jpeg.image_height = side;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_YCbCr;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 100, TRUE);
    jpeg.comp_info[0].h_samp_factor = jpeg.comp_info[0].v_samp_factor = 1;
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < side) {
        JSAMPROW rows[1] = {row};
        for (int x = 0; x < side; x++) {
            row[3 * x] = luma;
            row[3 * x + 1] = (uint8_t)(x / 8);
            row[3 * x + 2] = (uint8_t)(jpeg.next_scanline / 8);
        }
        jpeg_write_scanlines(&jpeg, rows, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    file.length = length;
    return file;
}

/* The linked libjpeg converts colours, in vector code too, exactly as its tables do. */
TEST(test_ycc_of_libjpeg)
{
    static const uint8_t lumas[] = {0, 1, 16, 77, 128, 200, 254, 255};
    for (size_t i = 0; i < sizeof lumas; i++) {
        struct picture_file file = flat_blocks(lumas[i]);
        assert_int_equal(rig_decode_scaled(&rig, &file, DECODE_YCC, 1), STATUS_OK);
        for (int at = 0; at < 256 * 256; at++) {
            const uint8_t *ycc = rig.image.pixels + (at / 256) * (int)rig.image.stride +
                                 at % 256 * 3;
            assert_true(ycc[0] == lumas[i] && ycc[1] == at % 256 && ycc[2] == at / 256);
        }
        assert_int_equal(rig_decode_scaled(&rig, &file, DECODE_COLOUR, 1), STATUS_OK);
        for (int at = 0; at < 256 * 256; at++) {
            uint8_t ycc[3] = {lumas[i], (uint8_t)(at % 256), (uint8_t)(at / 256)}, wanted[3];
            reference_ycc_pixel(ycc, wanted);
            assert_memory_equal(rig.image.pixels + (at / 256) * (int)rig.image.stride +
                                    at % 256 * 3, wanted, 3);
        }
        free(file.bytes);
    }
}

TEST(test_colour_spaces)
{
    static const enum picture_colour colours[] = {PICTURE_GRAY, PICTURE_RGB, PICTURE_CMYK,
                                                  PICTURE_YCCK};
    if (!have("djpeg"))
        skip();
    for (size_t i = 0; i < COUNT_OF(colours); i++)
        for (int progressive = 0; progressive < 2; progressive++)
            compare_made(.width = 83, .height = 61, .colour = colours[i],
                         .progressive = progressive != 0);
}

TEST(test_kinds_of_coding)
{
    if (!have("djpeg"))
        skip();
    compare_made(.width = 90, .height = 70, .arithmetic = true);
    compare_made(.width = 90, .height = 70, .arithmetic = true, .progressive = true);
    compare_made(.width = 90, .height = 70, .restart_rows = 1);
    compare_made(.width = 90, .height = 70, .separate = true);
    compare_made(.width = 90, .height = 70, .quality = 1);
    compare_made(.width = 90, .height = 70, .quality = 100);
}

/* libjpeg reads a file in pieces. Skipped segments and entropy-coded data cross the border of two
 * pieces at every byte offset. */
TEST(test_across_pieces)
{
    enum { segment_bytes = 2 + 65535, segments = 4 };
    if (!have("djpeg"))
        skip();
    uint8_t *passed_over = calloc(segments, segment_bytes);
    assert_non_null(passed_over);
    for (size_t i = 0; i < segments; i++)
        memcpy(passed_over + i * segment_bytes, "\xFF\xE5\xFF\xFF", 4);
    for (size_t fill = 0; fill < 8; fill++) {
        struct picture_file file = make_jpeg(.width = 1000, .height = 800, .quality = 100,
                                             .progressive = fill % 2 != 0,
                                             .restart_rows = fill % 3 == 2 ? 1 : 0);
        picture_insert(&file, 2, passed_over, segments * segment_bytes);
        picture_insert(&file, 2, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", fill);
        assert_true(file.length > 2 * segments * segment_bytes);
        compare_with_djpeg(&file, DECODE_COLOUR);
        picture_free(&file);
    }
    free(passed_over);
}

/* Rare samplings: chroma finer than luma, thirds, and a different one for each component. */
TEST(test_odd_samplings)
{
    static const char *const samplings[] = {"4x1",         "1x2",         "1x4",
                                            "2x2,2x1,1x2", "1x1,2x2,2x2", "2x1,2x2,1x1",
                                            "3x1",         "3x2,1x1,1x1"};
    if (!have("djpeg") || !have("cjpeg"))
        skip();
    struct picture_file pnm = picture_empty();
    uint8_t *pixels = picture_pixels(77, 55, 3, 1);
    picture_insert(&pnm, 0, "P6\n77 55\n255\n", 13);
    picture_insert(&pnm, pnm.length, pixels, 77 * 55 * 3);
    for (size_t i = 0; i < 2 * COUNT_OF(samplings); i++) {
        const char *options = text_of("%s -sample %s", i % 2 != 0 ? "-progressive" : "",
                                      samplings[i / 2]);
        struct picture_file file = run("cjpeg", options, &pnm);
        compare_with_djpeg(&file, DECODE_COLOUR);
        compare_with_djpeg(&file, DECODE_LUMA);
        compare_ycc(&file);
        picture_free(&file);
    }
    free(pixels);
    picture_free(&pnm);
}

/* C*K/255 rounded to nearest, from the inks that libjpeg decodes from a nearly lossless file. */
TEST(test_cmyk_arithmetic)
{
    struct picture_file file = make_jpeg(.width = 40, .height = 24, .colour = PICTURE_CMYK,
                                         .quality = 100, .seed = 3);
    assert_int_equal(rig_decode(&rig, &file, DECODE_COLOUR), STATUS_OK);
    uint8_t *inks = picture_pixels(40, 24, 4, 3);
    for (uint32_t y = 0; y < 24; y++)
        for (uint32_t x = 0; x < 40; x++)
            for (uint32_t c = 0; c < 3; c++) {
                const uint8_t *ink = inks + (y * 40 + x) * 4;
                int wanted = (int)(ink[c] * ink[3] / 255.0 + 0.5);
                int got = rig.image.pixels[y * rig.image.stride + x * 3 + c];
                assert_in_range(got + 4, wanted, wanted + 8); /* two lossy inks */
            }
    free(inks);
    picture_free(&file);
}

/* ---- limits and statuses ---- */

TEST(test_size_limits)
{
    struct picture_file file = make_jpeg(.width = 40, .height = 30);
    rig.limits.pixels_max = 40 * 30;
    rig.limits.side_max = 40;
    rig_reads(&file, STATUS_OK, NULL);
    rig.limits.pixels_max = 40 * 30 - 1;
    rig_reads(&file, STATUS_IMAGE_TOO_LARGE, "the JPEG is 40 x 30 pixels; at most 1199 pixels");
    rig.limits.pixels_max = 40 * 30;
    rig.limits.side_max = 39;
    rig_reads(&file, STATUS_IMAGE_TOO_LARGE, "39 per side");
    picture_free(&file);
    rig_reads_once(picture_jpeg_huge(65500, 65500), STATUS_IMAGE_TOO_LARGE, "65500 x 65500");
}

TEST(test_scan_limit)
{
    struct picture_jpeg options = {.width = 32, .height = 32, .scans = 20};
    struct picture_file file = picture_jpeg(&options);
    rig.limits.jpeg_scans_max = 20;
    rig_reads(&file, STATUS_OK, NULL);
    rig.limits.jpeg_scans_max = 19;
    rig_reads(&file, STATUS_DECODE_LIMIT, "more than 19 scans");
    picture_free(&file);
    options.scans = 1000;
    file = picture_jpeg(&options);
    rig.limits.jpeg_scans_max = JPEG_SCANS_DEFAULT;
    rig_reads(&file, STATUS_DECODE_LIMIT, "more than 100 scans");
    picture_free(&file);
}

TEST(test_warning_limit)
{
    static const uint8_t noise_and_comment[] = {0x55, 0xFF, 0xFE, 0, 2};
    struct picture_file file = make_jpeg(.width = 32, .height = 32);
    rig.limits.jpeg_warnings_max = 5;
    size_t at = picture_jpeg_marker(&file, 0xDB);
    for (int i = 0; i < 5; i++)
        picture_insert(&file, at, noise_and_comment, sizeof noise_and_comment);
    rig_reads(&file, STATUS_OK, NULL);
    picture_insert(&file, at, noise_and_comment, sizeof noise_and_comment);
    rig_reads(&file, STATUS_DECODE_LIMIT, "more than 5 warnings");
    picture_free(&file);
}

/* Millions of empty segments. */
TEST(test_segment_limit)
{
    enum { SEGMENT = 4, MANY = 1000000 };
    uint8_t *segments = malloc((size_t)MANY * SEGMENT);
    assert_non_null(segments);
    for (size_t i = 0; i < MANY; i++)
        memcpy(segments + SEGMENT * i, "\xFF\xE1\0\2", SEGMENT);
    static const struct {
        size_t count;
        enum status status;
    } rows[] = {{1000, STATUS_OK}, {JPEG_SEGMENTS_MAX + 1, STATUS_DECODE_LIMIT},
                {MANY, STATUS_DECODE_LIMIT}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct picture_file file = make_jpeg(.width = 8, .height = 8);
        uint64_t begin = clock_thread_cpu_ns();
        picture_insert(&file, 2, segments, rows[i].count * SEGMENT);
        rig_reads(&file, rows[i].status, rows[i].status ? "more than 4096 APPn" : NULL);
        assert_true(clock_thread_cpu_ns() - begin < 5000000000u);
        picture_free(&file);
    }
    free(segments);
}

/* EXIF and the profile after 32 MiB of other segments with their markers. */
TEST(test_late_segments)
{
    enum { segment_bytes = 2 + 65535, many = 512 };
    struct picture_file icc = picture_icc(70000, "RGB ");
    uint8_t *segments = calloc(many, segment_bytes);
    assert_non_null(segments);
    for (size_t i = 0; i < many; i++)
        memcpy(segments + i * segment_bytes,
               i % 2 ? "\xFF\xE1\xFF\xFFhttp://ns.adobe.com/" : "\xFF\xE2\xFF\xFFMPF\0", 9);
    struct picture_file file = make_jpeg(.width = 9, .height = 7, .icc = icc.bytes,
                                         .icc_bytes = icc.length, .orientation = 6);
    picture_insert(&file, 2, segments, (size_t)many * segment_bytes);
    rig_reads(&file, STATUS_OK, NULL);
    assert_int_equal(rig.info.orientation, 6);
    assert_int_equal(rig.info.icc_bytes, icc.length);
    assert_memory_equal(rig.info.icc, icc.bytes, icc.length);
    free(segments);
    picture_free(&file);
    picture_free(&icc);
}

/* Parts of a profile in any order. Numbers that do not fit make it unusable, as in libjpeg. */
TEST(test_parts_of_a_profile)
{
    static const struct {
        uint8_t first, first_of, second, second_of;
        bool is_whole;
    } rows[] = {{1, 2, 2, 2, true}, {1, 2, 1, 2, false}, {0, 2, 2, 2, false}, {1, 2, 3, 2, false},
                {1, 3, 2, 3, false}, {1, 2, 2, 3, false}, {1, 0, 2, 0, false},
                {255, 255, 1, 255, false}};
    struct picture_file icc = picture_icc(70000, "RGB ");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct picture_file file = make_jpeg(.width = 9, .height = 7, .icc = icc.bytes,
                                             .icc_bytes = icc.length);
        uint8_t *first = memmem(file.bytes, file.length, "ICC_PROFILE", 12);
        uint8_t *second = memmem(first + 12, file.length - 100, "ICC_PROFILE", 12);
        assert_non_null(second);
        first[12] = rows[i].first;
        first[13] = rows[i].first_of;
        second[12] = rows[i].second;
        second[13] = rows[i].second_of;
        rig_reads(&file, STATUS_OK, NULL);
        assert_int_equal(rig.info.icc_bytes, rows[i].is_whole ? icc.length : 0);
        picture_free(&file);
    }
    picture_free(&icc);
}

/* All rows are there, but no end marker; or less. */
TEST(test_truncated_counts_rows)
{
    static const struct picture_jpeg kinds[] = {
        {.width = 60, .height = 45}, {.width = 60, .height = 45, .subsampling = 444},
        {.width = 60, .height = 45, .colour = PICTURE_GRAY},
        {.width = 60, .height = 45, .colour = PICTURE_CMYK},
        {.width = 60, .height = 45, .restart_rows = 1}};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct picture_file file = picture_jpeg(&kinds[i]);
        rig_reads_once(picture_cut(&file, file.length - 2), STATUS_DECODE_FAILED,
                       "ends after 45 of 45 rows (at byte ");
        assert_non_null(strstr(rig.error.text, "): it has no end marker"));
        rig_reads_once(picture_cut(&file, file.length - 40), STATUS_DECODE_FAILED,
                       i % 4 == 0 ? "ends after 32 of 45 rows" : "ends after 40 of 45 rows");
        assert_null(strstr(rig.error.text, "end marker"));
        rig.limits.lenient = true;
        rig_reads_once(picture_cut(&file, file.length - 2), STATUS_OK, NULL);
        rig.limits.lenient = false;
        picture_free(&file);
    }
    struct picture_file file = make_jpeg(.width = 60, .height = 45, .progressive = true);
    rig_reads_once(picture_cut(&file, file.length - 2), STATUS_DECODE_FAILED,
                   "ends after 45 of 45 rows (at byte ");
    assert_non_null(strstr(rig.error.text, "): it has no end marker"));
    picture_free(&file);
}

TEST(test_unsupported)
{
    struct picture_jpeg options = {.width = 32, .height = 32, .colour = PICTURE_TWO};
    rig_reads_once(picture_jpeg(&options), STATUS_UNSUPPORTED_FORMAT, "2 components");
    options.colour = PICTURE_YCBCR;
    struct picture_file file = picture_jpeg(&options);
    picture_jpeg_set_precision(&file, 12);
    rig_reads(&file, STATUS_UNSUPPORTED_FORMAT, "12");
    picture_jpeg_set_precision(&file, 8);
    rig_reads(&file, STATUS_OK, NULL);
    size_t frame = picture_jpeg_marker(&file, 0xC0);
    file.bytes[frame + 1] = 0xC5; /* hierarchical */
    rig_reads(&file, STATUS_UNSUPPORTED_FORMAT, NULL);
    file.bytes[frame + 1] = 0xC0;
    picture_jpeg_set_size(&file, 32, 0); /* a DNL marker would give the height later */
    rig_reads(&file, STATUS_DECODE_FAILED, NULL);
    picture_free(&file);
}

/* Tables of one file must not be used for the next. */
TEST(test_no_tables)
{
    struct picture_file good = make_jpeg(.width = 32, .height = 32);
    struct picture_file bad = picture_cut(&good, good.length);
    size_t table = picture_jpeg_marker(&bad, 0xDB);
    bad.bytes[table + 1] = 0xFE; /* turns the quantisation table into a comment */
    rig_reads(&good, STATUS_OK, NULL);
    rig_reads(&bad, STATUS_DECODE_FAILED, NULL);
    rig_reads(&good, STATUS_OK, NULL);
    picture_free(&good);
    picture_free(&bad);
}

/* ---- truncated and corrupt files ---- */

static const struct picture_jpeg kinds[] = {
    {.width = 60, .height = 45, .orientation = 6},
    {.width = 60, .height = 45, .progressive = true},
    {.width = 60, .height = 45, .colour = PICTURE_GRAY},
    {.width = 60, .height = 45, .colour = PICTURE_CMYK},
    {.width = 60, .height = 45, .arithmetic = true, .progressive = true},
    {.width = 60, .height = 45, .restart_rows = 1},
    {.width = 60, .height = 45, .separate = true},
};
enum { kind_count = COUNT_OF(kinds) };

TEST(test_truncated)
{
    for (int k = 0; k < kind_count; k++) {
        struct picture_file file = picture_jpeg(&kinds[k]);
        for (size_t length = 0; length < file.length; length += length < 700 ? 7 : 31) {
            rig_reads_once(picture_cut(&file, length),
                            length < 3 ? STATUS_UNSUPPORTED_FORMAT : STATUS_DECODE_FAILED, NULL);
        }
        for (size_t less = 1; less <= 4; less++) { /* all pixels, but no end marker */
            rig_reads_once(picture_cut(&file, file.length - less), STATUS_DECODE_FAILED, "ends");
        }
        rig_reads(&file, STATUS_OK, NULL);
        picture_free(&file);
    }
}

TEST(test_truncated_names_the_row)
{
    struct picture_file file = make_jpeg(.width = 300, .height = 400);
    rig_reads_once(picture_cut_at(&file, 0.7), STATUS_DECODE_FAILED, " of 400 rows (at byte ");
    rig_reads_once(picture_cut(&file, 100), STATUS_DECODE_FAILED, "in its header (at byte 100)");
    picture_free(&file);
}

TEST(test_lenient)
{
    if (!have("djpeg"))
        skip();
    for (int k = 0; k < kind_count; k++) {
        struct picture_file file = picture_jpeg(&kinds[k]);
        struct picture_file part = picture_cut_at(&file, 0.8);
        rig.limits.lenient = true;
        compare_with_djpeg(&part, DECODE_COLOUR);
        if (rig.info.ycc)
            compare_ycc(&part);
        rig.limits.lenient = false;
        rig_reads(&part, STATUS_DECODE_FAILED, NULL);
        picture_free(&part);
        part = picture_cut(&file, 50);
        rig.limits.lenient = true;
        rig_reads(&part, STATUS_DECODE_FAILED, NULL); /* there is no image to keep */
        picture_free(&part);
        picture_free(&file);
    }
}

TEST(test_corrupt_data)
{
    struct picture_file file = make_jpeg(.width = 200, .height = 160, .restart_rows = 1);
    size_t scan = picture_jpeg_marker(&file, 0xDA);
    for (size_t at = scan + 200; at < scan + 240; at += 2) {
        file.bytes[at] = 0xFF; /* an invalid code: more one bits than any code has */
        file.bytes[at + 1] = 0;
    }
    rig_reads(&file, STATUS_DECODE_FAILED, "Corrupt JPEG data");
    rig.limits.lenient = true;
    rig_reads(&file, STATUS_OK, NULL);
    picture_free(&file);
}

TEST(test_flipped_bytes)
{
    uint32_t random = 20240607;
    uint64_t end = clock_now_ns() + 3000000000u;
    rig.limits.side_max = 128; /* a corrupt header may have any size */
    for (int k = 0; k < kind_count; k++) {
        struct picture_file file = picture_jpeg(&kinds[k]);
        for (int i = 0; i < 250 && clock_now_ns() < end; i++) {
            struct picture_file bad = picture_damage(&file, 0, file.length, &random);
            rig.limits.lenient = i % 2 != 0;
            if (rig_probe(&rig, &bad) == STATUS_OK)
                (void)!rig_decode(&rig, &bad, rig.info.ycc ? i % 3 : DECODE_COLOUR);
            picture_free(&bad);
        }
        picture_free(&file);
    }
}

/* ---- deadline ---- */

TEST(test_deadline)
{
    struct picture_jpeg options = {.width = 1200, .height = 1200, .progressive = true};
    for (int i = 0; i < 2; i++, options.progressive = false) {
        struct picture_file file = picture_jpeg(&options);
        rig.limits.deadline_ns = clock_now_ns() + 1000000;
        enum status status = rig_probe(&rig, &file);
        if (status == STATUS_OK)
            rig_reads(&file, STATUS_DECODE_LIMIT, "the deadline for decoding passed");
        rig.limits.deadline_ns = 1;
        rig_reads(&file, STATUS_DECODE_LIMIT, "before its start");
        rig.limits.deadline_ns = clock_now_ns() + 600000000000u;
        rig_reads(&file, STATUS_OK, NULL);
        picture_free(&file);
    }
}

/* ---- encode ---- */

static struct picture_file pnm_of(const struct image *image)
{
    char header[64];
    struct picture_file pnm = picture_empty();
    picture_insert(&pnm, 0, header,
                   pnm_header(header, image->width, image->height, image->channels));
    for (uint32_t y = 0; y < image->height; y++)
        picture_insert(&pnm, pnm.length, image->pixels + y * image->stride,
                       (size_t)image->width * image->channels);
    return pnm;
}

TEST(test_encode_like_cjpeg)
{
    static const uint32_t sizes[][2] = {{1, 1}, {1, 19}, {19, 1}, {16, 16}, {61, 47}, {300, 200}};
    static const int qualities[] = {1, 50, 85, 100};
    if (!have("cjpeg"))
        skip();
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (int variant = 0; variant < 4; variant++) {
            struct image image =
                rig_picture(sizes[i][0], sizes[i][1], variant % 2 != 0 ? 3 : 1, (uint32_t)i);
            int quality = qualities[(i + (size_t)variant) % 4];
            bool progressive = variant / 2 != 0;
            struct picture_file ours = rig_encode_as(
                &image, "jpeg", .encoder = {.quality = quality, .progressive = progressive});
            struct picture_file pnm = pnm_of(&image);
            const char *options = text_of("-baseline -quality %d %s", quality,
                                          progressive ? "-progressive" : "");
            struct picture_file theirs = run("cjpeg", options, &pnm);
            assert_int_equal(ours.length, theirs.length);
            assert_memory_equal(ours.bytes, theirs.bytes, ours.length);
            if (have("djpeg"))
                compare_with_djpeg(&ours, false);
            picture_free(&ours);
            picture_free(&theirs);
            picture_free(&pnm);
            free(image.pixels);
        }
}

/* Every subsampling with each kind of Huffman tables, at sizes around an MCU. */
TEST(test_encode_parameters_like_cjpeg)
{
    static const uint32_t sizes[][2] = {{1, 1},  {1, 9},   {9, 1},   {8, 8},  {15, 17},
                                        {16, 8}, {17, 15}, {33, 16}, {61, 47}};
    static const char *const samplings[] = {[SUBSAMPLING_420] = "-sample 2x2",
                                            [SUBSAMPLING_422] = "-sample 2x1",
                                            [SUBSAMPLING_444] = "-sample 1x1",
                                            [SUBSAMPLING_GRAY] = "-grayscale"};
    static const char *const tables[] = {"", "-optimize", "-progressive", "-optimize -progressive"};
    if (!have("cjpeg"))
        skip();
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (unsigned s = 0; s < COUNT_OF(samplings); s++)
            for (unsigned t = 0; t < COUNT_OF(tables); t++) {
                uint32_t channels = (i + s + t) % 4 == 0 ? 1 : 3;
                int quality = 100 - (int)(i * 16 + s * 4 + t) % 100;
                struct image image = rig_picture(sizes[i][0], sizes[i][1], channels, (uint32_t)i);
                struct picture_file ours = rig_encode_as(
                    &image, "jpeg", .encoder = {.quality = quality, .subsampling = (int)s,
                                                .optimize = t % 2, .progressive = t / 2});
                struct picture_file pnm = pnm_of(&image);
                struct picture_file theirs =
                    run("cjpeg", text_of("-baseline -quality %d %s %s", quality, tables[t],
                                         channels == 1 ? "" : samplings[s]), &pnm);
                assert_int_equal(ours.length, theirs.length);
                assert_memory_equal(ours.bytes, theirs.bytes, ours.length);
                picture_free(&ours);
                picture_free(&theirs);
                picture_free(&pnm);
                free(image.pixels);
            }
}

/* The Huffman tables of a progressive image must not be used for the next image. */
TEST(test_encode_is_stateless)
{
    struct image image = rig_picture(50, 40, 3, 1);
    struct picture_file files[3];
    for (int i = 0; i < 3; i++)
        files[i] = rig_encode_as(&image, "jpeg",
                                 .encoder = {.quality = 80, .progressive = i == 1});
    assert_int_equal(files[0].length, files[2].length);
    assert_memory_equal(files[0].bytes, files[2].bytes, files[0].length);
    for (int i = 0; i < 3; i++)
        picture_free(&files[i]);
    free(image.pixels);
}

TEST(test_profile)
{
    static const size_t sizes[] = {132, 3144, 200000}; /* the last one takes several markers */
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct picture_file icc = picture_icc(sizes[i], "RGB ");
        struct picture_file file = make_jpeg(.width = 16, .height = 16, .icc = icc.bytes,
                                             .icc_bytes = icc.length);
        assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
        assert_int_equal(rig.info.icc_bytes, icc.length);
        assert_memory_equal(rig.info.icc, icc.bytes, icc.length);
        picture_free(&file);
        for (uint32_t channels = 1; channels <= 3; channels += 2) {
            struct image image = rig_picture(16, 16, channels, 1);
            file = rig_encode_as(&image, "jpeg", .encoder.quality = 80, .icc = icc.bytes,
                                 .icc_bytes = icc.length);
            assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
            assert_int_equal(rig.info.icc_bytes, channels == 3 ? icc.length : 0);
            picture_free(&file);
            free(image.pixels);
        }
        picture_free(&icc);
    }
}

/* A profile counts if it is for the file's colours. Gray may also have one for RGB. Only those for
 * RGB are written. */
TEST(test_profile_of_other_colours)
{
    static const char *const spaces[] = {"GRAY", "RGB ", "CMYK", "Lab "};
    static const struct {
        enum picture_colour colour;
        const char *kept; /* of `spaces` */
    } rows[] = {{PICTURE_GRAY, "yynn"}, {PICTURE_YCBCR, "nynn"}, {PICTURE_RGB, "nynn"},
                {PICTURE_CMYK, "nnyn"}, {PICTURE_YCCK, "nnyn"}};
    for (size_t i = 0; i < COUNT_OF(rows) * COUNT_OF(spaces); i++) {
        size_t row = i / COUNT_OF(spaces), space = i % COUNT_OF(spaces);
        struct picture_file icc = picture_icc(500, spaces[space]);
        struct picture_file file =
            make_jpeg(.width = 16, .height = 16, .icc = icc.bytes, .icc_bytes = icc.length,
                      .colour = rows[row].colour);
        bool kept = rows[row].kept[space] == 'y';
        rig_reads(&file, STATUS_OK, NULL);
        assert_int_equal(rig.info.icc_bytes, kept ? icc.length : 0);
        assert_int_equal(image_info_icc_is_rgb(&rig.info), kept && space == 1);
        assert_int_equal(image_info_icc_is_cmyk(&rig.info), kept && space == 2);
        picture_free(&file);
        picture_free(&icc);
    }
}

TEST(test_profile_damaged)
{
    for (int i = 0; i < 3; i++) {
        struct picture_file icc = picture_icc(i == 2 ? ICC_BYTES_MAX + 1 : 500, "RGB ");
        icc.bytes[3] += i == 0; /* a wrong size field */
        icc.bytes[36] += i == 1; /* the signature is wrong */
        struct picture_file file = make_jpeg(.width = 16, .height = 16, .icc = icc.bytes,
                                             .icc_bytes = icc.length);
        assert_int_equal(rig_decode(&rig, &file, DECODE_COLOUR), STATUS_OK);
        assert_null(rig.info.icc);
        assert_int_equal(rig.info.icc_bytes, 0);
        picture_free(&file);
        picture_free(&icc);
    }
}

TEST_MAIN(.name = "jpeg", .each_setup = rig_setup, .each_teardown = rig_teardown)
