/* Tests that libpng reads the files of the PNG encoder, with all of their chunks, and warns of
 * nothing. tests/peers/check_png.py gives them to other readers. */
#include <setjmp.h>
#include <sys/syscall.h>

#include <png.h>

#include "tests/fixtures/codec_rig.h"
#include "tests/fixtures/profile.h"

/* A file that libpng reads, and its first warning or error. */
struct reading {
    const struct picture_file *file;
    size_t at;
    jmp_buf jump;
    char complaint[200];
    const struct image *source;
    uint8_t *row;
};

static void on_warning(png_structp png, png_const_charp message)
{
    struct reading *reading = png_get_error_ptr(png);
    if (!*reading->complaint)
        snprintf(reading->complaint, sizeof reading->complaint, "%s", message);
}

static _Noreturn void on_error(png_structp png, png_const_charp message)
{
    on_warning(png, message);
    longjmp(((struct reading *)png_get_error_ptr(png))->jump, 1);
}

static void read_bytes(png_structp png, png_bytep to, size_t count)
{
    struct reading *reading = png_get_io_ptr(png);
    if (count > reading->file->length - reading->at)
        png_error(png, "the file is too short");
    memcpy(to, reading->file->bytes + reading->at, count);
    reading->at += count;
}

static void read_rows(struct reading *reading, png_structp png)
{
    size_t row_bytes = (size_t)reading->source->width * reading->source->channels;
    for (uint32_t y = 0; y < reading->source->height; y++) {
        png_read_row(png, reading->row, NULL);
        if (memcmp(reading->row, reading->source->pixels + y * reading->source->stride,
                   row_bytes) != 0)
            png_error(png, "other pixels");
    }
}

/* Fails unless libpng reads the whole file, its own kinds of chunks as well, and gives the source's
 * pixels. */
static void expect_no_complaint(const struct picture_file *file, const struct image *source,
                                unsigned kept)
{
    struct reading reading = {.file = file, .source = source};
    reading.row = malloc((size_t)source->width * source->channels);
    assert_non_null(reading.row);
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reading, on_error, on_warning);
    png_infop info = png_create_info_struct(png);
    if (setjmp(reading.jump) == 0) {
        png_set_read_fn(png, &reading, read_bytes);
        png_set_crc_action(png, PNG_CRC_WARN_USE, PNG_CRC_WARN_USE);
        png_read_info(png, info);
        if (png_get_valid(png, info, kept) != kept)
            png_error(png, "metadata are missing");
        read_rows(&reading, png);
        png_read_end(png, info);
        if (reading.at != file->length)
            png_error(png, "bytes after the end");
    }
    if (*reading.complaint)
        fail_msg("%u x %u, %u channels: %s", source->width, source->height, source->channels,
                 reading.complaint);
    png_destroy_read_struct(&png, &info, NULL);
    free(reading.row);
}

static struct image make_image(const uint32_t size[2], uint32_t channels, int kind)
{
    struct image image = rig_picture(size[0], size[1], channels, 3);
    uint32_t random = 11;
    for (uint32_t y = 0; kind > 0 && y < image.height; y++)
        for (size_t x = 0; x < (size_t)image.width * channels; x++)
            image.pixels[y * image.stride + x] =
                kind == 1 ? 200 : (uint8_t)(picture_random(&random) >> 8);
    return image;
}

static const uint32_t sizes[][2] = {{1, 1},   {1, 300}, {300, 1},  {2, 3},
                                    {33, 31}, {64, 64}, {131, 77}, {400, 300}};
static const uint32_t channel_counts[] = {1, 3, 4};
enum { kinds = 3, levels = 10 };

TEST(test_pixels)
{
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (size_t c = 0; c < COUNT_OF(channel_counts); c++)
            for (int n = 0; n < kinds * levels; n++) {
                struct image image = make_image(sizes[i], channel_counts[c], n % kinds);
                struct picture_file file =
                    rig_encode_as(&image, "png", .encoder.compression = n / kinds);
                expect_no_complaint(&file, &image, 0);
                picture_free(&file);
                free(image.pixels);
            }
}

TEST(test_metadata)
{
    static const char xmp[] = "<x:xmpmeta xmlns:x='adobe:ns:meta/'>\xC3\xA9</x:xmpmeta>";
    static const uint32_t size[2] = {70, 50};
    struct picture_file icc = profile_of_matrix(&profile_p3), gray = profile_of_gray(2.2);
    struct picture_file exif = picture_exif(6, false, true);
    for (size_t c = 0; c < COUNT_OF(channel_counts); c++)
        for (int level = 0; level < levels; level++) {
            const struct picture_file *profile = level % 4 == 3 ? &gray : &icc;
            struct image image = make_image(size, channel_counts[c], 0);
            struct picture_file file =
                rig_encode_as(&image, "png", .encoder.compression = level, .icc = profile->bytes,
                              .icc_bytes = profile->length, .exif = exif.bytes,
                              .exif_bytes = exif.length, .xmp = (const uint8_t *)xmp,
                              .xmp_bytes = sizeof xmp - 1, .density = {300, 300, DENSITY_INCH});
            unsigned kept = PNG_INFO_pHYs | PNG_INFO_eXIf;
            if (channel_counts[c] >= 3 && profile == &icc)
                kept |= PNG_INFO_iCCP;
            expect_no_complaint(&file, &image, kept);
            picture_free(&file);
            free(image.pixels);
        }
    picture_free(&icc);
    picture_free(&gray);
    picture_free(&exif);
}

static uint64_t calls; /* of the clock; 0: the real clock */

/* Replaces the C library's function: a clock of which each call takes a second. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (clock != CLOCK_MONOTONIC || calls == 0)
        return (int)syscall(SYS_clock_gettime, clock, time);
    *time = (struct timespec){.tv_sec = (time_t)calls++};
    return 0;
}

/* Of which one may take zlib 150 ms. */
TEST(test_deadline_in_wide_rows)
{
    static const uint32_t size[2] = {16384, 16};
    struct image image = make_image(size, 4, 1);
    for (int level = 3; level <= 9; level += 6) {
        struct rig_sink sink = {.bytes_max = 0};
        struct encode_request request = {.format = format_by_name("png"),
                                         .encoder.compression = level,
                                         .deadline_ns = 9 * NS_PER_S};
        calls = 1;
        enum status status = rig_encode_into(&rig, &image, &request, 4096, &sink);
        assert_in_range(calls, 9, 12);
        calls = 0;
        assert_int_equal(status, STATUS_TIMEOUT);
        picture_free(&sink.file);
    }
    free(image.pixels);
}

TEST_MAIN(.name = "png files", .each_setup = rig_setup, .each_teardown = rig_teardown)
