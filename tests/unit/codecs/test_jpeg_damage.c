/* Tests of the JPEG decoder at its limits, and with truncated and corrupt files. */
#include "tests/fixtures/jpeg_tools.h"

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
    } rows[] = {{1000, STATUS_OK},
                {JPEG_SEGMENTS_MAX + 1, STATUS_DECODE_LIMIT},
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
    } rows[] = {{1, 2, 2, 2, true},  {1, 2, 1, 2, false},      {0, 2, 2, 2, false},
                {1, 2, 3, 2, false}, {1, 3, 2, 3, false},      {1, 2, 2, 3, false},
                {1, 0, 2, 0, false}, {255, 255, 1, 255, false}};
    struct picture_file icc = picture_icc(70000, "RGB ");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct picture_file file =
            make_jpeg(.width = 9, .height = 7, .icc = icc.bytes, .icc_bytes = icc.length);
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
    static const struct picture_jpeg kinds[] = {{.width = 60, .height = 45},
                                                {.width = 60, .height = 45, .subsampling = 444},
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
    if (!jpeg_tools_have("djpeg"))
        skip();
    for (int k = 0; k < kind_count; k++) {
        struct picture_file file = picture_jpeg(&kinds[k]);
        struct picture_file part = picture_cut_at(&file, 0.8);
        rig.limits.lenient = true;
        jpeg_tools_compare(&part, DECODE_COLOUR);
        if (rig.info.ycc)
            jpeg_tools_compare_ycc(&part);
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

TEST_MAIN(.name = "jpeg_damage", .each_setup = rig_setup, .each_teardown = rig_teardown)
