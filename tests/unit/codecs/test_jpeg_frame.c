/* Tests of the JPEG headers that a device decoder gets, and of files that it does not decode. The
 * scans of a progressive file are compared with those of libjpeg's default script. */
#include "tests/fixtures/codec_rig.h"

#include "codecs/jpeg/jpeg_state.h"

static struct jpeg_frame frame;

static bool read_file(const struct picture_file *file)
{
    static const struct image_info jpeg = {.format = &formats[FORMAT_jpeg]};
    return codec_read_frame(rig.context, file->bytes, file->length, &jpeg, &rig.limits,
                            &frame);
}

static bool read_picture(const struct picture_jpeg *options)
{
    struct picture_file file = picture_jpeg(options);
    bool known = read_file(&file);
    picture_free(&file);
    return known;
}

TEST(sequential_files_have_one_scan_to_the_end)
{
    struct picture_file file = make_jpeg(.width = 149, .height = 83, .subsampling = 422,
                                         .restart_rows = 2);
    size_t header = picture_jpeg_marker(&file, 0xDA), at = header + 2 + file.bytes[header + 3];
    assert_true(read_file(&file));
    assert_int_equal(frame.width, 149);
    assert_int_equal(frame.height, 83);
    assert_int_equal(frame.component_count, 3);
    assert_int_equal(frame.components[0].h * 10 + frame.components[0].v, 21);
    assert_int_equal(frame.components[1].h * 10 + frame.components[2].v, 11);
    assert_int_equal(frame.scan_count, 1);
    assert_int_equal(frame.scans[0].at, at);
    assert_int_equal(frame.scans[0].bytes, file.length - at);
    assert_int_equal(frame.scans[0].restart_interval, 20); /* 2 rows of 10 MCUs */
    assert_int_equal(frame.scans[0].last, 63);
    assert_int_equal(frame.huffman_count, 4); /* DC and AC of luma and of chroma */
    picture_free(&file);
}

TEST(standard_tables_are_recognized)
{
    assert_true(read_picture(&(struct picture_jpeg){.width = 40, .height = 30}));
    assert_true(frame.has_standard_tables);
    for (uint32_t i = 0; i < 4; i++)
        assert_memory_equal(&frame.huffman[i], &jpeg_standard_tables[i], sizeof frame.huffman[i]);
    assert_true(
        read_picture(&(struct picture_jpeg){.width = 40, .height = 30, .colour = PICTURE_GRAY}));
    assert_true(frame.has_standard_tables);
    assert_true(read_picture(&(struct picture_jpeg){.width = 8, .height = 8, .progressive = true}));
    assert_false(frame.has_standard_tables);
    struct picture_file file = make_jpeg(.width = 40, .height = 30);
    file.bytes[picture_jpeg_marker(&file, 0xC4) + 5] ^= 1; /* the first counts of a table */
    file.bytes[picture_jpeg_marker(&file, 0xC4) + 6] ^= 1;
    assert_false(read_file(&file) && frame.has_standard_tables);
    picture_free(&file);
}

TEST(sequential_files_with_another_scan_header_are_left_to_libjpeg)
{
    struct picture_file file = make_jpeg(.width = 40, .height = 30);
    size_t header = picture_jpeg_marker(&file, 0xDA), end = header + 2 + file.bytes[header + 3];
    file.bytes[end - 2] = 62;
    assert_false(read_file(&file));
    picture_free(&file);
}

TEST(scans_of_a_progressive_file_end_at_a_marker)
{
    static const struct { int count, component, first, last, high, low; } script[] = {
        {3, 0, 0, 0, 0, 1}, {1, 0, 1, 5, 0, 2},  {1, 2, 1, 63, 0, 1}, {1, 1, 1, 63, 0, 1},
        {1, 0, 6, 63, 0, 2}, {1, 0, 1, 63, 2, 1}, {3, 0, 0, 0, 1, 0},  {1, 2, 1, 63, 1, 0},
        {1, 1, 1, 63, 1, 0}, {1, 0, 1, 63, 1, 0}};
    struct picture_file file = make_jpeg(.width = 149, .height = 83, .progressive = true,
                                         .subsampling = 420);
    assert_true(read_file(&file));
    assert_true(frame.progressive);
    assert_int_equal(frame.scan_count, sizeof script / sizeof *script);
    for (uint32_t i = 0; i < frame.scan_count; i++) {
        const struct jpeg_scan *scan = &frame.scans[i];
        assert_int_equal(scan->component_count, script[i].count);
        assert_int_equal(scan->components[0], script[i].component);
        assert_int_equal(scan->first, script[i].first);
        assert_int_equal(scan->last, script[i].last);
        assert_int_equal(scan->high, script[i].high);
        assert_int_equal(scan->low, script[i].low);
        assert_int_equal(file.bytes[scan->at + scan->bytes], 0xFF);
        assert_int_not_equal(file.bytes[scan->at + scan->bytes + 1], 0);
    }
    picture_free(&file);
}

TEST(other_kinds_and_broken_files_have_no_frame)
{
    struct picture_jpeg usual = {.width = 40, .height = 30};
    assert_true(read_picture(&usual));
    usual.arithmetic = true;
    assert_false(read_picture(&usual));
    usual.arithmetic = false;
    usual.separate = true;
    assert_false(read_picture(&usual));
    usual.separate = false;
    for (usual.colour = PICTURE_RGB; usual.colour <= PICTURE_TWO; usual.colour++)
        assert_false(read_picture(&usual));
    usual = (struct picture_jpeg){.width = 40, .height = 30, .progressive = true};
    struct picture_file file = picture_jpeg(&usual);
    assert_true(read_file(&file));
    file.length -= 2; /* the end marker */
    assert_false(read_file(&file));
    file.length += 2;
    file.bytes[0] = 0;
    assert_false(read_file(&file));
    picture_free(&file);
}

/* libjpeg refuses a Huffman table with a code that is all ones. */
TEST(tables_with_a_code_of_ones_are_left_to_libjpeg)
{
    for (int progressive = 0; progressive < 2; progressive++) {
        struct picture_file file =
            make_jpeg(.width = 40, .height = 30, .progressive = progressive != 0);
        uint8_t *counts = file.bytes + picture_jpeg_marker(&file, 0xC4) + 5;
        size_t symbols = 0;
        for (int i = 0; i < 16; i++)
            symbols += counts[i];
        assert_in_range(symbols, 2, 16);
        /* As many codes as before: one of each length, then two of the greatest length. */
        memset(counts, 0, 16);
        memset(counts, 1, symbols);
        assert_true(read_file(&file));
        counts[symbols - 2] = 2;
        counts[symbols - 1] = 0;
        assert_false(read_file(&file));
        rig_reads_once(file, STATUS_DECODE_FAILED, "Huffman");
    }
}

/* Inserts `count` segments without contents between the first two scans. */
static struct picture_file with_segments(const char *segment, size_t bytes, size_t count)
{
    struct picture_file file = make_jpeg(.width = 40, .height = 30, .progressive = true);
    char *all = malloc(count * bytes);
    assert_true(all && read_file(&file));
    for (size_t i = 0; i < count; i++)
        memcpy(all + i * bytes, segment, bytes);
    picture_insert(&file, frame.scans[0].at + frame.scans[0].bytes, all, count * bytes);
    free(all);
    return file;
}

/* A device would decode these files: it does not read the segments. */
TEST(files_beyond_the_limits_of_libjpeg_are_left_to_it)
{
    static const char comment[] = "\xFF\xFE\0\2";
    static const char jfif_7[] = "\xFF\xE0\0\20JFIF\0\7\0\0\0\1\0\1\0\0";
    struct picture_file file = with_segments(comment, sizeof comment - 1, JPEG_SEGMENTS_MAX);
    assert_true(read_file(&file));
    rig_reads_once(file, STATUS_OK, NULL);
    file = with_segments(comment, sizeof comment - 1, JPEG_SEGMENTS_MAX + 1);
    assert_false(read_file(&file));
    rig_reads_once(file, STATUS_DECODE_LIMIT, "more than 4096 APPn");
    file = with_segments(jfif_7, sizeof jfif_7 - 1, rig.limits.jpeg_warnings_max + 1);
    assert_false(read_file(&file));
    rig_reads_once(file, STATUS_DECODE_LIMIT, "warnings");
    file = make_jpeg(.width = 40, .height = 30, .progressive = true);
    assert_true(read_file(&file));
    rig.limits.jpeg_scans_max = frame.scan_count - 1;
    assert_false(read_file(&file));
    rig_reads_once(file, STATUS_DECODE_LIMIT, "more than 9 scans");
}

/* The headers end with the SOS segment. */
TEST(the_beginning_of_a_sequential_file_has_headers)
{
    struct picture_file icc = picture_icc(3000, "RGB ");
    struct picture_file file = make_jpeg(.width = 40, .height = 30, .restart_rows = 1,
                                         .orientation = 3, .icc = icc.bytes,
                                         .icc_bytes = icc.length);
    size_t header = picture_jpeg_marker(&file, 0xDA), end = header + 2 + file.bytes[header + 3];
    for (size_t length = 0; length < end; length++) {
        struct picture_file cut = picture_cut(&file, length); /* a sanitizer finds other reads */
        assert_int_equal(jpeg_header_bytes(cut.bytes, cut.length), 0);
        picture_free(&cut);
    }
    for (size_t length = end; length <= file.length; length++)
        assert_int_equal(jpeg_header_bytes(file.bytes, length), end);
    assert_true(read_file(&file));
    assert_int_equal(frame.scans[0].at, end);
    picture_free(&file);
    picture_free(&icc);
}

static void check_has_no_headers(struct picture_file file)
{
    assert_int_equal(jpeg_header_bytes(file.bytes, file.length), 0);
    picture_free(&file);
}

TEST(headers_of_other_files_are_left_to_libjpeg)
{
    static const uint8_t fill[] = {0xFF}, restart[] = {0xFF, 0xD0}, empty[] = {0xFF, 0xFE, 0, 1};
    static const struct { const uint8_t *bytes; size_t length; } odd[] = {
        {fill, sizeof fill}, {restart, sizeof restart}, {empty, sizeof empty}, {empty + 2, 1}};
    check_has_no_headers(make_jpeg(.width = 40, .height = 30, .progressive = true));
    check_has_no_headers(make_jpeg(.width = 40, .height = 30, .arithmetic = true));
    check_has_no_headers(make_png(.width = 40, .height = 30, .colour_type = 2));
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct picture_file file = make_jpeg(.width = 40, .height = 30);
        picture_insert(&file, picture_jpeg_marker(&file, 0xDB), odd[i].bytes, odd[i].length);
        check_has_no_headers(file);
    }
}

/* ---- the header of the file before ---- */

/* Probes a file and reads its frame with a context that has read others, and with a new one. */
static void check_as_first(const struct picture_file *file)
{
    struct jpeg_frame first;
    struct codec_context *used = rig.context;
    assert_int_equal(rig_probe(&rig, file), STATUS_OK);
    struct image_info info = rig.info;
    rig.info.icc = rig.info.exif = rig.info.xmp = NULL;
    bool reads = read_file(file) && read_file(file); /* as for the plan, and for the device */
    first = frame;
    rig.context = codec_context_create();
    assert_non_null(rig.context);
    assert_int_equal(rig_probe(&rig, file), STATUS_OK);
    assert_int_equal(read_file(file), reads);
    codec_context_destroy(rig.context);
    rig.context = used;
    assert_int_equal(info.width, rig.info.width);
    assert_int_equal(info.height, rig.info.height);
    assert_int_equal(info.channels, rig.info.channels);
    assert_int_equal(info.orientation, rig.info.orientation);
    assert_int_equal(info.frames, rig.info.frames);
    assert_int_equal(info.codec_bytes, rig.info.codec_bytes);
    assert_int_equal(info.icc_bytes, rig.info.icc_bytes);
    assert_true((info.icc != NULL) == (rig.info.icc != NULL));
    if (info.icc)
        assert_memory_equal(info.icc, rig.info.icc, info.icc_bytes);
    assert_int_equal(info.density.x, rig.info.density.x);
    assert_true(info.format == rig.info.format && info.ycc == rig.info.ycc &&
                info.scales == rig.info.scales && info.progressive == rig.info.progressive);
    image_info_clear(&info);
    if (!reads)
        return;
    assert_memory_equal(&first, &frame, offsetof(struct jpeg_frame, scans));
    assert_memory_equal(first.scans, frame.scans, frame.scan_count * sizeof *frame.scans);
    assert_int_equal(first.huffman_count, frame.huffman_count);
    assert_memory_equal(first.huffman, frame.huffman,
                        frame.huffman_count * sizeof *frame.huffman);
}

TEST(a_header_is_read_as_if_no_file_had_been_before)
{
    struct picture_file icc = picture_icc(300, "RGB "), other = picture_icc(300, "RGB ");
    struct picture_file long_icc = picture_icc(5000, "RGB "), parts = picture_icc(70000, "RGB ");
    struct picture_file gray = picture_icc(300, "GRAY");
    other.bytes[other.length - 1] ^= 1;
    struct picture_file files[] = {
        make_jpeg(.width = 40, .height = 30),
        make_jpeg(.width = 40, .height = 30, .icc = other.bytes, .icc_bytes = other.length),
        make_jpeg(.width = 40, .height = 30, .icc = long_icc.bytes, .icc_bytes = long_icc.length),
        make_jpeg(.width = 40, .height = 30, .icc = parts.bytes, .icc_bytes = parts.length),
        make_jpeg(.width = 40, .height = 30, .icc = gray.bytes, .icc_bytes = gray.length),
        make_jpeg(.width = 40, .height = 30, .icc = icc.bytes, .icc_bytes = icc.length,
                  .orientation = 6),
        make_jpeg(.width = 40, .height = 30, .colour = PICTURE_GRAY),
        make_jpeg(.width = 41, .height = 30),
        make_jpeg(.width = 40, .height = 30, .subsampling = 444, .quality = 99),
        make_jpeg(.width = 40, .height = 30, .restart_rows = 1),
        make_jpeg(.width = 40, .height = 30, .orientation = 6),
        make_jpeg(.width = 40, .height = 30, .icc = icc.bytes, .icc_bytes = icc.length),
        make_jpeg(.width = 40, .height = 30, .progressive = true),
        make_jpeg(.width = 40, .height = 30, .arithmetic = true)};
    for (size_t i = 0; i < COUNT_OF(files); i++)
        for (size_t j = 0; j < COUNT_OF(files); j++) {
            struct picture_file longer = picture_cut(&files[i], files[i].length);
            check_as_first(&files[i]);
            check_as_first(&files[j]);
            picture_insert(&longer, longer.length - 2, (const uint8_t *)"abc", 3);
            check_as_first(&longer); /* other compressed data after the same header */
            picture_free(&longer);
        }
    for (size_t i = 0; i < COUNT_OF(files); i++)
        picture_free(&files[i]);
    picture_free(&icc);
    picture_free(&other);
    picture_free(&long_icc);
    picture_free(&parts);
    picture_free(&gray);
}

/* A cut header, a changed byte of it, and a lower limit. */
TEST(a_known_header_hides_nothing)
{
    struct picture_file file = make_jpeg(.width = 40, .height = 30);
    size_t end = jpeg_header_bytes(file.bytes, file.length);
    size_t frame_at = picture_jpeg_marker(&file, 0xC0);
    check_as_first(&file);
    struct picture_file cut = picture_cut(&file, end - 1);
    assert_false(read_file(&cut));
    assert_int_not_equal(rig_probe(&rig, &cut), STATUS_OK);
    picture_free(&cut);
    check_as_first(&file);
    file.bytes[frame_at + 6] = 31; /* the height */
    check_as_first(&file);
    assert_int_equal(frame.height, 31);
    rig.limits.pixels_max = 40 * 31 - 1;
    assert_int_equal(rig_probe(&rig, &file), STATUS_IMAGE_TOO_LARGE);
    assert_int_equal(rig.info.width, 40);
    assert_int_equal(rig.info.height, 31);
    picture_free(&file);
}

/* Probes a file with a state of its own, and reads its frame. */
static void know(struct jpeg_state *state, const struct picture_file *file)
{
    struct image_info info = {.format = &formats[FORMAT_jpeg]};
    struct error error = {0};
    assert_int_equal(jpeg_probe(state, file->bytes, file->length, &rig.limits, &info, &error),
                     STATUS_OK);
    image_info_clear(&info);
    assert_true(jpeg_read_frame(state, file->bytes, file->length, &rig.limits, &frame));
}

static bool is_known(struct jpeg_state *state, const struct picture_file *file)
{
    const struct jpeg_known_header *known = jpeg_find_known(state, file->bytes, file->length);
    return known && known->has_frame;
}

/* A third header replaces the one of the two that was not used last. */
TEST(two_headers_are_known)
{
    static struct jpeg_state reader;
    struct picture_file icc = picture_icc(3144, "RGB ");
    struct picture_file plain = make_jpeg(.width = 40, .height = 30), third,
                        coloured = make_jpeg(.width = 40, .height = 30, .icc = icc.bytes,
                                             .icc_bytes = icc.length);
    third = make_jpeg(.width = 41, .height = 30);
    assert_false(is_known(&reader, &plain));
    know(&reader, &plain);
    know(&reader, &coloured);
    assert_true(is_known(&reader, &coloured));
    assert_true(is_known(&reader, &plain));
    know(&reader, &third);
    assert_false(is_known(&reader, &coloured));
    assert_true(is_known(&reader, &plain));
    assert_true(is_known(&reader, &third));
    picture_free(&icc);
    picture_free(&plain);
    picture_free(&coloured);
    picture_free(&third);
}

TEST_MAIN(.setup = rig_setup, .teardown = rig_teardown)
