/* Tests of the row decoder of progressive JPEGs: it gives the samples of libjpeg, and damaged files
 * end as libjpeg alone ends them. */
#include "tests/fixtures/codec_rig.h"
#include "tests/fixtures/progressive.h"

#include "codecs/jpeg/row_decoder.h"

enum { sides = 65, sides_quick = 20 };

static struct jpeg_state ours, libjpeg;
static uint32_t random_state;

static int setup(void **state)
{
    random_state = 7;
    rig_open(&rig);
    libjpeg.by_libjpeg = true;
    return 0;
}

static int teardown(void **state)
{
    rig_close(&rig);
    return 0;
}

static bool is_quick(void)
{
    const char *value = getenv("GPUIMGD_TEST_QUICK");
    return value != NULL && *value == '1';
}

/* ---- decodes ---- */

struct result {
    enum status status;
    struct error error;
    struct image image;
    bool by_rows;
};

static void free_result(struct result *result)
{
    free(result->image.pixels);
}

/* The info must be that of the file. */
static struct result decode(struct jpeg_state *state, const struct picture_file *file,
                            const struct image_info *info, struct decode_request request)
{
    struct result result = {0};
    struct image *image = &result.image;
    struct picture_file copy = picture_cut(file, file->length); /* a sanitizer finds other reads */
    image->width = image_scaled(info->width, request.eighths);
    image->height = image_scaled(info->height, request.eighths);
    image->channels = request.as == DECODE_LUMA ? 1 : info->channels;
    image->stride = image_stride(image->width, image->channels);
    image->pixels = calloc(image->height, image->stride);
    assert_non_null(image->pixels);
    result.status = codec_jpeg.decode(state, copy.bytes, copy.length, info, &request, &rig.limits,
                                      image, &result.error);
    result.by_rows = state->row_decoder != NULL;
    assert_int_equal(result.status, result.error.status);
    picture_free(&copy);
    return result;
}

static void expect_equal(const struct image *a, const struct image *b)
{
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->height, b->height);
    assert_memory_equal(a->pixels, b->pixels, a->stride * a->height);
}

/* Whether libjpeg, through its usual functions, decodes the file without a warning to the pixels of
 * the result. */
static bool libjpeg_agrees(const struct picture_file *file, struct decode_request request,
                           const struct image *image)
{
    struct jpeg_decompress_struct reader;
    struct jpeg_error_mgr errors;
    uint8_t *row = calloc(1, image->stride);
    JSAMPROW rows[1] = {row};
    bool equal = true;
    reader.err = jpeg_std_error(&errors); /* exits on an error: the codec did not fail */
    jpeg_create_decompress(&reader);
    jpeg_mem_src(&reader, file->bytes, file->length);
    jpeg_read_header(&reader, TRUE);
    reader.scale_num = request.eighths;
    reader.scale_denom = DECODE_EIGHTHS;
    reader.out_color_space = image->channels == 1          ? JCS_GRAYSCALE
                             : request.as == DECODE_YCC ? JCS_YCbCr
                                                        : JCS_RGB;
    jpeg_start_decompress(&reader);
    assert_int_equal(reader.output_width, image->width);
    assert_int_equal(reader.output_height, image->height);
    while (reader.output_scanline < reader.output_height) {
        const uint8_t *ours_at = image->pixels + reader.output_scanline * image->stride;
        jpeg_read_scanlines(&reader, rows, 1);
        equal &= memcmp(ours_at, row, (size_t)image->width * image->channels) == 0;
    }
    jpeg_finish_decompress(&reader);
    equal &= errors.num_warnings == 0;
    jpeg_destroy_decompress(&reader);
    free(row);
    return equal;
}

static struct decode_request draw_request(const struct image_info *info)
{
    static const uint32_t eighths[] = {8, 8, 8, 4, 2, 1};
    return (struct decode_request){
        .as = info->ycc ? (enum decode_as)(picture_random(&random_state) % 3) : DECODE_COLOUR,
        .eighths = eighths[picture_random(&random_state) % COUNT_OF(eighths)],
    };
}

/* Decodes an intact file, which must be decoded by rows, and by libjpeg within the codec. */
static void check_intact(const struct progressive_options *options)
{
    struct picture_file file = progressive_make(options);
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    struct decode_request request = draw_request(&rig.info);
    struct result result = decode(&ours, &file, &rig.info, request);
    struct result other = decode(&libjpeg, &file, &rig.info, request);
    if (!result.by_rows || !libjpeg_agrees(&file, request, &result.image))
        fail_msg("%u x %u, quality %d, %d x %d, restart %u, script %u, pattern %d, seed %u, as %d, "
                 "%u/8: %s", options->width, options->height, options->quality, options->h,
                 options->v, options->restart, options->script, (int)options->pattern,
                 options->seed, (int)request.as, request.eighths,
                 result.by_rows ? "different" : "not by rows");
    assert_int_equal(other.status, STATUS_OK);
    assert_false(other.by_rows);
    expect_equal(&result.image, &other.image);
    free_result(&result);
    free_result(&other);
    picture_free(&file);
}

/* ---- intact files ---- */

TEST(all_sizes_give_the_librarys_samples)
{
    uint32_t side_max = is_quick() ? sides_quick : sides;
    for (uint32_t width = 1; width <= side_max; width++)
        for (uint32_t height = 1; height <= side_max; height++) {
            struct progressive_options options;
            progressive_draw(&options, &random_state);
            options.width = width;
            options.height = height;
            check_intact(&options);
        }
}

TEST(all_scripts_and_samplings_give_the_librarys_samples)
{
    static const unsigned restarts[] = {0, 1, 7};
    for (int h = 0; h <= 2; h++)
        for (int v = h > 0; v <= (h > 0 ? 2 : 0); v++)
            for (size_t r = 0; r < COUNT_OF(restarts); r++)
                for (unsigned script = 0;
                     script <= (h ? PROGRESSIVE_COLOUR_SCRIPTS : PROGRESSIVE_GRAY_SCRIPTS);
                     script++)
                    for (int pattern = 0; pattern < PROGRESSIVE_PATTERNS; pattern++)
                        check_intact(&(struct progressive_options){
                            .width = 75, .height = 43, .quality = 95, .h = h, .v = v,
                            .restart = restarts[r], .script = script,
                            .pattern = (enum progressive_pattern)pattern, .seed = 5});
}

/* More than 32,767 equal blocks, which is the longest run. */
TEST(long_runs_end_in_the_right_block)
{
    for (unsigned script = 0; script <= PROGRESSIVE_GRAY_SCRIPTS; script++)
        check_intact(&(struct progressive_options){
            .width = 2040, .height = 1200, .quality = 50, .pattern = PROGRESSIVE_CORNERS,
            .script = script, .restart = script % 2 ? 38000 : 0});
}

/* A gray image whose component has sampling factors of 2: rows of MCUs have two rows of blocks. */
TEST(gray_with_sampling_factors)
{
    struct picture_file file = progressive_make(&(struct progressive_options){
        .width = 45, .height = 51, .quality = 90, .pattern = PROGRESSIVE_SMOOTH, .restart = 5});
    file.bytes[picture_jpeg_marker(&file, 0xC2) + 11] = 0x22;
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    struct decode_request request = {.eighths = DECODE_EIGHTHS};
    struct result result = decode(&ours, &file, &rig.info, request);
    assert_true(result.by_rows && libjpeg_agrees(&file, request, &result.image));
    free_result(&result);
    picture_free(&file);
}

TEST(coefficients_of_the_image_are_not_in_memory)
{
    struct picture_file file = make_jpeg(.width = 1600, .height = 1200, .progressive = true);
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    rig.info.codec_bytes = 0;
    struct decode_request request = {.eighths = DECODE_EIGHTHS};
    struct result result = decode(&ours, &file, &rig.info, request);
    assert_true(result.status == STATUS_OK && result.by_rows);
    struct result other = decode(&libjpeg, &file, &rig.info, request);
    assert_int_equal(other.status, STATUS_DECODE_LIMIT);
    free_result(&result);
    free_result(&other);
    picture_free(&file);
}

/* ---- other files ---- */

static size_t by_rows_count, libjpeg_count, failed_count;

static bool is_part(struct decode_request request)
{
    return request.as == DECODE_LUMA || request.eighths == 1;
}

/* Decodes a file of any kind as the codec does, and by libjpeg alone: the results must be equal.
 * Only libjpeg finds damage in scans that the request does not need; its pixels are the same. */
static void check_any(const struct picture_file *file)
{
    if (rig_probe(&rig, file) != STATUS_OK)
        return;
    struct decode_request request = draw_request(&rig.info);
    struct result result = decode(&ours, file, &rig.info, request);
    struct result other = decode(&libjpeg, file, &rig.info, request);
    if (result.by_rows && other.status == STATUS_DECODE_FAILED && is_part(request)) {
        bool lenient = rig.limits.lenient;
        free_result(&other);
        rig.limits.lenient = true;
        other = decode(&libjpeg, file, &rig.info, request);
        rig.limits.lenient = lenient;
    }
    assert_int_equal(result.status, other.status);
    assert_string_equal(result.error.text, other.error.text);
    if (result.status == STATUS_OK) {
        expect_equal(&result.image, &other.image);
        if (result.by_rows && request.as != DECODE_LUMA && request.eighths == DECODE_EIGHTHS)
            assert_true(libjpeg_agrees(file, request, &result.image));
    }
    by_rows_count += result.by_rows;
    libjpeg_count += result.status == STATUS_OK && !result.by_rows;
    failed_count += result.status != STATUS_OK;
    free_result(&result);
    free_result(&other);
}

static void begin_counts(void)
{
    by_rows_count = libjpeg_count = failed_count = 0;
}

TEST(damaged_files_end_as_libjpeg_ends_them)
{
    begin_counts();
    for (int i = is_quick() ? 600 : 6000; i > 0; i--) {
        struct progressive_options options;
        progressive_draw(&options, &random_state);
        struct picture_file file = progressive_make(&options);
        progressive_damage(&file, &random_state);
        rig.limits.lenient = i % 2 != 0;
        check_any(&file);
        picture_free(&file);
    }
    print_message("# %zu by rows, %zu by libjpeg, %zu failed\n", by_rows_count, libjpeg_count,
                  failed_count);
    assert_true(by_rows_count > 0 && libjpeg_count > 0 && failed_count > 0);
}

/* Each bit of the entropy-coded data and of the headers between the scans. */
TEST(flipped_bits)
{
    struct picture_file file = progressive_make(&(struct progressive_options){
        .width = 20, .height = 12, .quality = 70, .h = 2, .v = 2, .restart = 2,
        .pattern = PROGRESSIVE_SMOOTH, .seed = 3});
    begin_counts();
    for (size_t bit = 8 * picture_jpeg_marker(&file, 0xDA); bit < 8 * file.length; bit++) {
        if (is_quick() && bit % 7 != 0)
            continue;
        file.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        rig.limits.lenient = bit % 3 != 0;
        check_any(&file);
        file.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_true(by_rows_count > 0 && libjpeg_count > 0 && failed_count > 0);
    picture_free(&file);
}

TEST(truncated_files)
{
    struct picture_file file = progressive_make(&(struct progressive_options){
        .width = 30, .height = 30, .quality = 60, .h = 2, .v = 1, .restart = 3,
        .pattern = PROGRESSIVE_SMOOTH});
    begin_counts();
    for (size_t full = file.length; file.length > full / 2; file.length--) {
        rig.limits.lenient = file.length % 2 == 0;
        check_any(&file);
    }
    assert_int_equal(by_rows_count, 1); /* the whole file */
    assert_true(libjpeg_count > 0 && failed_count > 0);
    picture_free(&file);
}

/* Bytes before a marker only cause a warning. The codec accepts a few warnings. */
TEST(bytes_between_scans_are_left_to_libjpeg)
{
    struct picture_file file = progressive_make(&(struct progressive_options){
        .width = 30, .height = 30, .quality = 60});
    size_t at = picture_jpeg_marker(&file, 0xDA) + 2;
    while (file.bytes[at] != 0xFF || file.bytes[at + 1] == 0)
        at++;
    picture_insert(&file, at, "\1\2\3\4\5\6\7\1\2\3\4\5\6\7\1\2\3\4\5\6\7", 21);
    begin_counts();
    check_any(&file);
    rig.limits.jpeg_warnings_max = 0;
    check_any(&file);
    assert_true(by_rows_count == 0 && libjpeg_count == 1 && failed_count == 1);
    picture_free(&file);
}

TEST(unusual_files_are_left_to_libjpeg)
{
    const struct picture_jpeg kinds[] = {
        {.width = 40, .height = 30, .progressive = true, .colour = PICTURE_RGB},
        {.width = 40, .height = 30, .progressive = true, .colour = PICTURE_CMYK},
        {.width = 40, .height = 30, .progressive = true, .arithmetic = true},
        {.width = 40, .height = 30, .scans = 33},
        {.width = 40, .height = 30, .scans = 5}, /* incomplete: libjpeg smooths blocks */
    };
    begin_counts();
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct picture_file file = picture_jpeg(&kinds[i]);
        check_any(&file);
        picture_free(&file);
    }
    assert_true(by_rows_count == 0 && libjpeg_count == COUNT_OF(kinds) && failed_count == 0);
}

TEST(a_late_decode_stops)
{
    struct picture_file file = make_jpeg(.width = 64, .height = 2000, .progressive = true);
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    rig.limits.deadline_ns = 1;
    struct result result =
        decode(&ours, &file, &rig.info, (struct decode_request){.eighths = DECODE_EIGHTHS});
    assert_int_equal(result.status, STATUS_DECODE_LIMIT);
    assert_non_null(strstr(result.error.text, "deadline"));
    free_result(&result);
    picture_free(&file);
}

TEST_MAIN(.each_setup = setup, .each_teardown = teardown)
