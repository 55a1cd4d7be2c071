/* Tests of the HEIC codec against libheif's own pixels, with files that the test writes with x265.
 */
#include "tests/fixtures/codec_rig.h"

#include "tests/fixtures/heif_file.h"

#ifdef GPUIMGD_HEIF

#include <libheif/heif.h>
#include <sys/resource.h>

#include "codecs/confined/confine.h"
#include "codecs/process/process.h"
#include "tests/fixtures/camera.h"
#include "tests/fixtures/process.h"
#include "tests/fixtures/reference.h"

/* ---- files ---------------------------------------------------------------------------------- */

#ifdef __SANITIZE_ADDRESS__

/* x265 does not free all of its memory. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libx265";
}

#endif

/* What x265 encodes: the scene's samples as Y, Cb and Cr. */
struct coded {
    uint32_t width, height;
    int depth, quality;      /* 0: 8 bits, quality 50 */
    enum heif_chroma chroma; /* 0: gray */
    uint32_t seed;
    bool lossless, alpha;
    const struct picture_file *icc, *exif, *xmp;
};

#define must(error) assert_int_equal((error).code, heif_error_Ok)

static void fill(struct heif_image *image, enum heif_channel channel, const struct coded *coded,
                 uint32_t sample)
{
    bool half_x = sample % 3 > 0 && coded->chroma != heif_chroma_444;
    bool half_y = half_x && coded->chroma == heif_chroma_420;
    uint32_t width = half_x ? (coded->width + 1) / 2 : coded->width;
    uint32_t height = half_y ? (coded->height + 1) / 2 : coded->height;
    int stride, depth = coded->depth ? coded->depth : 8;
    must(heif_image_add_plane(image, channel, (int)width, (int)height, depth));
    uint8_t *plane = heif_image_get_plane(image, channel, &stride);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            unsigned value = picture_sample(coded->seed + 1, width, height, x, y, sample);
            value >>= 16 - depth;
            if (depth > 8)
                ((uint16_t *)(void *)(plane + (size_t)y * (size_t)stride))[x] = (uint16_t)value;
            else
                plane[(size_t)y * (size_t)stride + x] = (uint8_t)value;
        }
}

static struct heif_image *image_of(const struct coded *coded)
{
    struct heif_image *image;
    bool gray = coded->chroma == heif_chroma_monochrome;
    must(heif_image_create((int)coded->width, (int)coded->height,
                           gray ? heif_colorspace_monochrome : heif_colorspace_YCbCr, coded->chroma,
                           &image));
    fill(image, heif_channel_Y, coded, 0);
    if (!gray) {
        fill(image, heif_channel_Cb, coded, 1);
        fill(image, heif_channel_Cr, coded, 2);
    }
    if (coded->alpha)
        fill(image, heif_channel_Alpha, coded, 3);
    if (coded->icc)
        must(
            heif_image_set_raw_color_profile(image, "prof", coded->icc->bytes, coded->icc->length));
    return image;
}

static struct heif_error keep(struct heif_context *context, const void *bytes, size_t count,
                              void *data)
{
    (void)context;
    struct picture_file whole = {(uint8_t *)(uintptr_t)bytes, count};
    *(struct picture_file *)data = picture_cut(&whole, count);
    return (struct heif_error){heif_error_Ok, heif_suberror_Unspecified, "ok"};
}

static struct picture_file coded_file(const struct coded *coded)
{
    static const char *const chromas[] = {"420", "420", "422", "444"};
    struct heif_context *context = heif_context_alloc();
    struct heif_image *image = image_of(coded);
    struct heif_image_handle *handle;
    struct heif_encoder *encoder;
    struct picture_file file = {0};
    struct heif_writer writer = {1, keep};
    if (heif_context_get_encoder_for_format(context, heif_compression_HEVC, &encoder).code !=
        heif_error_Ok) {
        print_message("libheif has no encoder of HEVC (x265)\n");
        skip();
    }
    must(heif_encoder_set_lossy_quality(encoder, coded->quality ? coded->quality : 50));
    must(heif_encoder_set_lossless(encoder, coded->lossless));
    must(heif_encoder_set_parameter_string(encoder, "chroma", chromas[coded->chroma]));
    must(heif_encoder_set_parameter_string(encoder, "preset", "ultrafast"));
    must(heif_context_encode_image(context, image, encoder, NULL, &handle));
    if (coded->exif)
        must(heif_context_add_exif_metadata(context, handle, coded->exif->bytes,
                                            (int)coded->exif->length));
    if (coded->xmp)
        must(heif_context_add_XMP_metadata(context, handle, coded->xmp->bytes,
                                           (int)coded->xmp->length));
    must(heif_context_write(context, &writer, &file));
    heif_image_handle_release(handle);
    heif_image_release(image);
    heif_encoder_release(encoder);
    heif_context_free(context);
    return file;
}
#define make_coded(...) coded_file(&(struct coded){__VA_ARGS__})
#define make_heif(...)  heif_build(&(struct heif_file){__VA_ARGS__})

/* ---- the reference -------------------------------------------------------------------------- */

/* One sample of libheif's pixels, rounded to 8 bits. */
static uint8_t rounded(const uint8_t *row, uint32_t i, int depth)
{
    unsigned most = (1u << depth) - 1;
    unsigned value = depth > 8 ? row[2 * i] | row[2 * i + 1] << 8 : row[i];
    return (uint8_t)((value * 510 + most) / (2 * most));
}

/* Decodes with libheif, which applies turns, mirrors and crops. */
static struct raster libheif_pixels(const struct picture_file *file, uint32_t channels)
{
    struct heif_context *context = heif_context_alloc();
    struct heif_image_handle *handle;
    struct heif_image *image;
    must(heif_context_read_from_memory_without_copy(context, file->bytes, file->length, NULL));
    must(heif_context_get_primary_image_handle(context, &handle));
    bool deep = heif_image_handle_get_luma_bits_per_pixel(handle) > 8;
    enum heif_chroma chroma =
        channels < 4 ? deep ? heif_chroma_interleaved_RRGGBB_LE : heif_chroma_interleaved_RGB
        : deep       ? heif_chroma_interleaved_RRGGBBAA_LE
                     : heif_chroma_interleaved_RGBA;
    enum heif_channel plane = heif_channel_interleaved;
    uint32_t samples = channels == 1 ? 3 : 1; /* gray is repeated */
    must(heif_decode_image(handle, &image, heif_colorspace_RGB, chroma, NULL));
    int stride, depth = heif_image_get_bits_per_pixel_range(image, plane);
    const uint8_t *pixels = heif_image_get_plane_readonly(image, plane, &stride);
    struct raster raster = raster_make((uint32_t)heif_image_get_width(image, plane),
                                       (uint32_t)heif_image_get_height(image, plane), channels);
    for (uint32_t y = 0; y < raster.height; y++)
        for (uint32_t i = 0; i < raster.width * channels; i++)
            raster.pixels[(size_t)y * raster.width * channels + i] =
                rounded(pixels + (size_t)y * (size_t)stride, samples * i, depth);
    heif_image_release(image);
    heif_image_handle_release(handle);
    heif_context_free(context);
    return raster;
}

/* The rig's image as it is shown. */
static struct raster shown(void)
{
    const struct image *image = &rig.image;
    struct raster stored = raster_make(image->width, image->height, image->channels);
    size_t row_bytes = (size_t)image->width * image->channels;
    for (uint32_t y = 0; y < image->height; y++)
        memcpy(stored.pixels + y * row_bytes, image->pixels + y * image->stride, row_bytes);
    struct raster raster = reference_orient(&stored, rig.info.orientation);
    raster_clear(&stored);
    return raster;
}

static void expect_as_libheif(const struct picture_file *file, uint32_t channels)
{
    char where[200] = "";
    rig_reads(file, STATUS_OK, NULL);
    assert_int_equal(rig.info.channels, channels);
    assert_int_equal(rig.info.frames, 1);
    struct raster wanted = libheif_pixels(file, channels), found = shown();
    size_t differing = raster_differ(&found, &wanted, 0, where, sizeof where);
    if (differing)
        fail_msg("%zu bytes differ: %s", differing, where);
    raster_clear(&wanted);
    raster_clear(&found);
}

static void expect_once(struct picture_file file, uint32_t channels)
{
    expect_as_libheif(&file, channels);
    picture_free(&file);
}

/* ---- pixels --------------------------------------------------------------------------------- */

static const enum heif_chroma chromas[] = {heif_chroma_monochrome, heif_chroma_420, heif_chroma_422,
                                           heif_chroma_444};

static uint32_t channels_of(enum heif_chroma chroma)
{
    return chroma == heif_chroma_monochrome ? 1 : 3;
}

TEST(test_decode)
{
    static const uint32_t sides[][2] = {{16, 16}, {62, 48}, {130, 130}, {64, 200}};
    for (size_t i = 0; i < COUNT_OF(sides) * COUNT_OF(chromas); i++) {
        enum heif_chroma chroma = chromas[i % 4];
        expect_once(make_coded(.width = sides[i / 4][0], .height = sides[i / 4][1],
                               .chroma = chroma, .seed = (uint32_t)i),
                    channels_of(chroma));
        assert_int_equal(rig.info.width, sides[i / 4][0]);
    }
}

/* Odd sides are coded as even ones, and cropped. */
TEST(test_odd_sides)
{
    static const uint32_t sides[][2] = {{17, 19}, {61, 48}, {62, 47}};
    for (size_t i = 0; i < COUNT_OF(sides); i++) {
        expect_once(
            make_coded(.width = sides[i][0], .height = sides[i][1], .chroma = heif_chroma_420), 3);
        assert_int_equal(rig.info.width, sides[i][0]);
        assert_int_equal(rig.info.height, sides[i][1]);
    }
}

TEST(test_many_bits)
{
    for (size_t i = 0; i < 2 * COUNT_OF(chromas); i++)
        expect_once(make_coded(.width = 62, .height = 48, .depth = i / 4 ? 12 : 10,
                               .chroma = chromas[i % 4], .quality = 90),
                    channels_of(chromas[i % 4]));
}

/* Lossless gray is the scene itself. */
TEST(test_lossless_gray)
{
    struct picture_file file = make_coded(.width = 64, .height = 48, .lossless = true);
    uint8_t *wanted = picture_pixels(64, 48, 1, 1);
    rig_reads(&file, STATUS_OK, NULL);
    rig_expect_pixels(&rig, wanted, 1);
    free(wanted);
    picture_free(&file);
}

TEST(test_alpha)
{
    for (size_t i = 1; i < COUNT_OF(chromas); i++)
        expect_once(make_coded(.width = 62, .height = 48, .chroma = chromas[i], .alpha = true), 4);
    expect_once(make_coded(.width = 62, .height = 48, .chroma = heif_chroma_420, .alpha = true,
                           .depth = 10),
                4);
}

/* Colours are divided by alpha. */
TEST(test_premultiplied)
{
    struct picture_file colours = make_coded(.width = 64, .height = 64, .chroma = heif_chroma_444);
    struct picture_file alpha = make_coded(.width = 64, .height = 64, .seed = 5);
    struct heif_file options = {.width = 64, .height = 64, .images = {&colours}, .alpha = &alpha};
    struct picture_file plain = heif_build(&options);
    options.premultiplied = true;
    struct picture_file file = heif_build(&options);
    struct raster wanted = libheif_pixels(&plain, 4);
    for (size_t i = 0; i < (size_t)64 * 64 * 4; i++) {
        double a = wanted.pixels[i | 3];
        double value = a > 0 ? wanted.pixels[i] * 255.0 / a + 0.5 : 0;
        if (i % 4 < 3)
            wanted.pixels[i] = (uint8_t)(value < 255 ? value : 255);
    }
    expect_as_libheif(&plain, 4);
    rig_reads(&file, STATUS_OK, NULL);
    rig_expect_pixels(&rig, wanted.pixels, 4);
    raster_clear(&wanted);
    picture_free(&plain);
    picture_free(&file);
    picture_free(&alpha);
    picture_free(&colours);
}

/* Gray of limited range: 16 is black, and 235 white. */
TEST(test_limited_gray)
{
    static const uint8_t box[] = "\0\0\0\x13"
                                 "colrnclx"
                                 "\0\1\0\1\0\1\0";
    struct picture_file image = make_coded(.width = 64, .height = 64);
    struct picture_file file = make_heif(.width = 64, .height = 64, .images = {&image},
                                         .properties = box, .properties_bytes = sizeof box - 1);
    struct raster wanted = libheif_pixels(&image, 1);
    for (size_t i = 0; i < (size_t)64 * 64; i++) {
        int value = ((wanted.pixels[i] - 16) * 510 + 219) / 438;
        wanted.pixels[i] = (uint8_t)(wanted.pixels[i] < 16 ? 0 : value > 255 ? 255 : value);
    }
    rig_reads(&file, STATUS_OK, NULL);
    rig_expect_pixels(&rig, wanted.pixels, 1);
    raster_clear(&wanted);
    picture_free(&file);
    picture_free(&image);
}

/* ---- boxes ---------------------------------------------------------------------------------- */

TEST(test_grid)
{
    static const struct heif_file grids[] = {
        {.columns = 3, .rows = 2, .width = 192, .height = 128},
        {.columns = 3, .rows = 2, .width = 130, .height = 70}, /* the last cells are cut */
        {.columns = 1, .rows = 1, .width = 64, .height = 64},
        {.columns = 10, .rows = 30, .width = 640, .height = 1920},
    };
    for (size_t i = 0; i < COUNT_OF(grids) * COUNT_OF(chromas); i++) {
        enum heif_chroma chroma = chromas[i % 4];
        struct picture_file one = make_coded(.width = 64, .height = 64, .chroma = chroma);
        struct picture_file two =
            make_coded(.width = 64, .height = 64, .chroma = chroma, .seed = 7);
        struct heif_file options = grids[i / 4];
        options.images[0] = &one;
        options.images[1] = &two;
        options.cell_width = options.cell_height = 64;
        expect_once(heif_build(&options), channels_of(chroma));
        assert_int_equal(rig.info.width, options.width);
        assert_int_equal(rig.info.height, options.height);
        picture_free(&one);
        picture_free(&two);
    }
}

TEST(test_grid_with_alpha)
{
    struct picture_file cell = make_coded(.width = 64, .height = 64, .chroma = heif_chroma_420);
    struct picture_file alpha = make_coded(.width = 128, .height = 128, .seed = 3);
    expect_once(make_heif(.columns = 2, .rows = 2, .width = 128, .height = 128, .images = {&cell},
                          .cell_width = 64, .cell_height = 64, .alpha = &alpha),
                4);
    picture_free(&alpha);
    picture_free(&cell);
}

/* A turn anticlockwise and a mirror, in either order, and two of each, as libheif applies them. */
TEST(test_orientation)
{
    struct picture_file image = make_coded(.width = 128, .height = 64, .chroma = heif_chroma_420);
    uint8_t boxes[4][9] = {"\0\0\0\x09"
                           "irot",
                           "\0\0\0\x09"
                           "imir",
                           "\0\0\0\x09"
                           "irot",
                           "\0\0\0\x09"
                           "imir"};
    unsigned seen = 0;
    for (int i = 0; i < 64; i++) {
        boxes[0][8] = i & 3;
        boxes[1][8] = i >> 2 & 1;
        boxes[2][8] = i >> 3 & 3;
        boxes[3][8] = i >> 5 & 1;
        for (size_t count = 1; count <= 4; count++)
            for (size_t first = 0; first + count <= 4; first++) {
                if (i % 9 != 0 && count != 2)
                    continue;
                expect_once(make_heif(.width = 128, .height = 64, .images = {&image},
                                      .properties = boxes[first], .properties_bytes = count * 9),
                            3);
                seen |= 1u << rig.info.orientation;
            }
    }
    assert_int_equal(seen, 0x1FE);
    picture_free(&image);
}

static void put32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

TEST(test_crop)
{
    static const uint32_t rows[][8] = {{20, 1, 12, 1, 0, 1, 0, 1},
                                       {41, 1, 29, 1, 1, 2, 1, 2},
                                       {40, 2, 24, 2, (uint32_t)-14, 1, 10, 1}};
    struct picture_file image = make_coded(.width = 128, .height = 64, .chroma = heif_chroma_420);
    uint8_t boxes[49] = "\0\0\0\x28"
                        "clap";
    memcpy(boxes + 40,
           "\0\0\0\x09"
           "irot"
           "\1",
           9);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t k = 0; k < 8; k++)
            put32(boxes + 8 + 4 * k, rows[i][k]);
        for (size_t bytes = 40; bytes <= 49; bytes += 9) {
            expect_once(make_heif(.width = 128, .height = 64, .images = {&image},
                                  .properties = boxes, .properties_bytes = bytes),
                        3);
            assert_int_equal(rig.info.width, rows[i][0] / rows[i][1]);
            assert_int_equal(rig.info.orientation, bytes > 40 ? 8 : 1);
        }
    }
    uint8_t wrong[49];
    memcpy(mempcpy(wrong, boxes + 40, 9), boxes, 40);
    rig_reads_once(make_heif(.width = 128, .height = 64, .images = {&image}, .properties = wrong,
                             .properties_bytes = 49),
                   STATUS_UNSUPPORTED_FORMAT, "its image is cropped after it is turned");
    /* Sides and positions whose products have more than 64 bits. */
    static const uint32_t huge[8] = {1u << 31, 1, 1u << 31, 1, 0, INT32_MAX, 0, INT32_MAX};
    for (size_t k = 0; k < 8; k++)
        put32(boxes + 8 + 4 * k, huge[k]);
    rig_reads_once(make_heif(.width = UINT32_MAX, .height = UINT32_MAX, .images = {&image},
                             .properties = boxes, .properties_bytes = 40),
                   STATUS_IMAGE_TOO_LARGE, "a side has at most 65500");
    picture_free(&image);
}

TEST(test_brands)
{
    static const struct {
        const char *brands, *format;
    } rows[] = {{"heic", "HEIC"},     {"heix", "HEIC"},     {"heimmif1", "HEIC"},
                {"heismif1", "HEIC"}, {"mif1", "HEIC"},     {"msf1heic", "HEIC"},
                {"mif1heic", "HEIC"}, {"mif1avif", "AVIF"}, {"heicmif1avif", "AVIF"},
                {"hevc", NULL},       {"isom", NULL}};
    struct picture_file image = make_coded(.width = 64, .height = 64, .chroma = heif_chroma_420);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct picture_file file =
            make_heif(.brands = rows[i].brands, .width = 64, .height = 64, .images = {&image});
        const struct format *format = codec_sniff(file.bytes, file.length);
        assert_string_equal(format ? format_title(format) : "",
                            rows[i].format ? rows[i].format : "");
        if (rows[i].format && strcmp(rows[i].format, "HEIC") == 0)
            expect_as_libheif(&file, 3);
        for (size_t length = 0; length < 12; length++)
            assert_null(codec_sniff(file.bytes, length));
        picture_free(&file);
    }
    picture_free(&image);
}

/* Only images for themselves count: no cells, alpha, thumbnails or hidden images. */
TEST(test_several_images)
{
    struct picture_file image = heif_sample(false);
    struct heif_file rows[] = {
        {.others = 2},
        {.others = 3, .hides_others = true},
        {.others = 3, .thumbnails = 2},
        {.columns = 2, .rows = 2, .cell_width = 64, .cell_height = 64},
        {.columns = 2, .rows = 2, .cell_width = 64, .cell_height = 64, .others = 1},
        {.alpha = &image},
        {.samples = 12},
        {.others = 2, .samples = 2},
        {.samples = FRAMES_MAX},
    };
    static const uint32_t frames[] = {3, 1, 2, 1, 2, 1, 12, 3, FRAMES_MAX};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        rows[i].width = rows[i].height = rows[i].columns ? 128 : 64;
        rows[i].images[0] = &image;
        struct picture_file file = heif_build(&rows[i]);
        rig_reads(&file, STATUS_OK, NULL);
        assert_int_equal(rig.info.frames, frames[i]);
        picture_free(&file);
    }
    rows[0] = (struct heif_file){.width = 64, .height = 64, .images = {&image}};
    rows[0].samples = FRAMES_MAX + 1;
    rig_reads_once(heif_build(&rows[0]), STATUS_DECODE_LIMIT,
                   "the HEIC has more than 65536 images");
    picture_free(&image);
}

/* Images of other kinds in a HEIF. */
TEST(test_other_types)
{
    static const char *const types[] = {"av01", "iden", "iovl", "jpeg", "unci", "j2k1", "vvc1"};
    struct picture_file image = make_coded(.width = 64, .height = 64, .chroma = heif_chroma_420);
    for (size_t i = 0; i < COUNT_OF(types); i++)
        rig_reads_once(make_heif(.type = types[i], .width = 64, .height = 64, .images = {&image}),
                       STATUS_UNSUPPORTED_FORMAT, NULL);
    rig_reads_once(make_heif(.type = "av01", .width = 64, .height = 64, .images = {&image}),
                   STATUS_UNSUPPORTED_FORMAT,
                   "the primary image of the HEIF is of the type \"av01\"; gpuimgd reads \"hvc1\"");
    picture_free(&image);
}

TEST(test_metadata)
{
    struct picture_file exif = camera_exif(true, 6, 40, 30, 1), xmp = camera_xmp(6, true);
    struct picture_file icc = picture_icc(600, "RGB ");
    rig.limits.metadata = METADATA_ALL;
    for (int i = 0; i < 8; i++) {
        struct picture_file file =
            make_coded(.width = 64, .height = 48, .chroma = heif_chroma_420,
                       .icc = i & 1 ? &icc : NULL, .exif = i & 2 ? &exif : NULL,
                       .xmp = i & 4 ? &xmp : NULL);
        expect_as_libheif(&file, 3);
        assert_int_equal(rig.info.orientation, 1); /* that of EXIF does not count */
        assert_int_equal(rig.info.icc_bytes, i & 1 ? icc.length : 0);
        if (i & 1)
            assert_memory_equal(rig.info.icc, icc.bytes, icc.length);
        assert_int_equal(rig.info.exif != NULL, (i & 2) != 0);
        assert_int_equal(rig.info.xmp != NULL, (i & 4) != 0);
        picture_free(&file);
    }
    picture_free(&icc);
    picture_free(&xmp);
    picture_free(&exif);
}

/* ---- damage --------------------------------------------------------------------------------- */

/* No beginning of a file is an image, and none stops the process. */
TEST(test_truncated)
{
    uint64_t replaced = codec_process_replaced(CODEC_REPLACED_CRASHED);
    struct picture_file whole =
        make_coded(.width = 64, .height = 64, .chroma = heif_chroma_420, .quality = 5);
    for (size_t length = 1; length < whole.length; length++) {
        struct picture_file file = picture_cut(&whole, length);
        if (rig_decode(&rig, &file, DECODE_COLOUR) == STATUS_OK)
            fail_msg("the first %zu of %zu bytes are an image", length, whole.length);
        assert_true(rig.error.status == STATUS_DECODE_FAILED ||
                    rig.error.status == STATUS_UNSUPPORTED_FORMAT ||
                    rig.error.status == STATUS_DECODE_LIMIT);
        picture_free(&file);
    }
    assert_int_equal(codec_process_replaced(CODEC_REPLACED_CRASHED), replaced);
    picture_free(&whole);
}

/* A wrong bit gives an error or an image. */
TEST(test_wrong_bits)
{
    struct picture_file cell =
        make_coded(.width = 64, .height = 64, .chroma = heif_chroma_420, .quality = 5);
    struct picture_file whole = make_heif(.columns = 2, .rows = 1, .width = 120, .height = 60,
                                          .images = {&cell}, .cell_width = 64, .cell_height = 64);
    unsigned images = 0;
    for (size_t at = 0; at < whole.length; at++) {
        struct picture_file file = picture_cut(&whole, whole.length);
        file.bytes[at] ^= (uint8_t)(1 << at % 8);
        rig.limits.deadline_ns = clock_after_s(clock_now_ns(), patience(2));
        enum status status = rig_decode(&rig, &file, DECODE_COLOUR);
        images += status == STATUS_OK;
        assert_true(status == STATUS_OK || status == STATUS_DECODE_FAILED ||
                    status == STATUS_DECODE_LIMIT || status == STATUS_UNSUPPORTED_FORMAT ||
                    status == STATUS_IMAGE_TOO_LARGE || status == STATUS_OUT_OF_MEMORY);
        picture_free(&file);
    }
    print_message("%u of %zu are images\n", images, whole.length);
    assert_in_range(images, whole.length / 4, whole.length - 1);
    rig.limits.deadline_ns = 0;
    expect_as_libheif(&whole, 3);
    picture_free(&whole);
    picture_free(&cell);
}

/* Pixels that a damaged stream leaves unset are not those of the image before. */
TEST(test_nothing_of_earlier_images)
{
    struct picture_file bright = make_coded(.width = 256, .height = 256, .chroma = heif_chroma_420,
                                            .seed = 9, .quality = 95);
    struct picture_file damaged =
        make_coded(.width = 256, .height = 256, .chroma = heif_chroma_420, .quality = 95);
    memset(damaged.bytes + damaged.length * 2 / 3, 0, damaged.length / 3);
    struct raster pixels[2];
    for (int i = 0; i < 2; i++) {
        codec_context_destroy(rig.context);
        rig.context = codec_context_create();
        for (int k = 0; k < 3 * i; k++)
            rig_reads(&bright, STATUS_OK, NULL);
        rig_reads(&damaged, STATUS_OK, NULL);
        pixels[i] = shown();
    }
    assert_memory_equal(pixels[0].pixels, pixels[1].pixels, (size_t)256 * 256 * 3);
    raster_clear(&pixels[0]);
    raster_clear(&pixels[1]);
    picture_free(&damaged);
    picture_free(&bright);
}

/* ---- limits --------------------------------------------------------------------------------- */

TEST(test_sides)
{
    struct picture_file image = make_coded(.width = 64, .height = 64, .chroma = heif_chroma_420);
    rig_reads_once(make_heif(.width = 20000, .height = 64, .images = {&image}),
                   STATUS_IMAGE_TOO_LARGE, NULL);
    rig_reads_once(make_heif(.width = 64, .height = 65, .images = {&image}), STATUS_DECODE_FAILED,
                   "the HEIC's pixels are not those of its header (64 x 65, 3 channels)");
    rig.limits.pixels_max = 3000;
    rig_reads(&image, STATUS_IMAGE_TOO_LARGE, NULL);
    picture_free(&image);
}

/* Resident memory of the only process that this thread has started. */
static size_t resident_bytes(void)
{
    FILE *children = fopen("/proc/thread-self/children", "r");
    int pid = 0;
    assert_true(children && fscanf(children, "%d", &pid) == 1);
    fclose(children);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *pages = fopen(path, "r");
    size_t resident = 0;
    assert_true(pages && fscanf(pages, "%*s %zu", &resident) == 1);
    fclose(pages);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* The memory that a probe names is enough, is not exceeded, and is returned. */
TEST(test_memory)
{
    if (CONFINE_WITHOUT_LIMITS)
        skip();
    static const struct coded rows[] = {
        {1600, 1200, .chroma = heif_chroma_420},
        {1600, 1200, .chroma = heif_chroma_444, .depth = 10},
        {1600, 1200, .chroma = heif_chroma_422, .depth = 12},
        {1600, 1200, .chroma = heif_chroma_420, .alpha = true},
        {1600, 1200, .chroma = heif_chroma_444, .alpha = true, .depth = 10},
        {1600, 1200, .chroma = heif_chroma_monochrome},
        {1600, 1200, .chroma = heif_chroma_420, .quality = 100},
        {5000, 64, .chroma = heif_chroma_444},
    };
    size_t most = 0;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct rusage usage;
        struct picture_file file = coded_file(&rows[i]);
        rig_reads(&file, STATUS_OK, NULL);
        size_t resident = resident_bytes();
        codec_context_destroy(rig.context);
        rig.context = codec_context_create();
        assert_int_equal(getrusage(RUSAGE_CHILDREN, &usage), 0);
        size_t peak = (size_t)usage.ru_maxrss * KIB;
        most = rig.info.codec_bytes > most ? rig.info.codec_bytes : most;
        print_message("row %zu: %zu MiB for %zu KiB; peak %zu MiB, %zu MiB stay resident\n", i,
                      rig.info.codec_bytes >> 20, file.length >> 10, peak >> 20, resident >> 20);
        assert_true(rig.info.codec_bytes <= 60ull * rows[i].width * rows[i].height + 20 * MIB);
        assert_true(resident <= CODEC_PROCESS_BYTES);
        assert_true(peak <= most + CODEC_PROCESS_BYTES);
        picture_free(&file);
    }
}

/* Adds to a number of the first bytes of a file. */
static void add_to(struct picture_file *file, size_t number, size_t more)
{
    uint8_t was[4];
    put32(was, (uint32_t)number);
    uint8_t *at = memmem(file->bytes, 400, was, 4);
    assert_non_null(at);
    put32(at, (uint32_t)(number + more));
}

/* A probe reads metadata behind many megabytes of coded data, and does not copy these. */
TEST(test_large_files)
{
    enum { hole = 12 << 20, offset_bytes = 4, header = 8 };
    struct picture_file exif = camera_exif(true, 1, 40, 30, 1);
    struct picture_file file =
        make_coded(.width = 64, .height = 64, .chroma = heif_chroma_420, .exif = &exif);
    uint8_t *media = memmem(file.bytes, file.length, "mdat", 4) - 4, *zeros = calloc(1, hole);
    uint8_t *tiff = memmem(file.bytes, file.length, exif.bytes, exif.length);
    assert_true(media && zeros && tiff);
    size_t image_at = (size_t)(media - file.bytes) + header;
    size_t exif_at = (size_t)(tiff - file.bytes) - offset_bytes;
    put32(media, (uint32_t)(file.length - image_at + header + hole));
    add_to(&file, exif_at, hole);            /* the offset of the EXIF */
    add_to(&file, exif_at - image_at, hole); /* the length of the image */
    picture_insert(&file, exif_at, zeros, hole);
    rig.limits.metadata = METADATA_EXIF;
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    assert_non_null(rig.info.exif);
    free(zeros);
    picture_free(&file);
    picture_free(&exif);
}

/* One process reads all formats with a library. */
#ifdef GPUIMGD_AVIF
TEST(test_one_process_for_all_formats)
{
    struct picture_file heic = make_coded(.width = 64, .height = 48, .chroma = heif_chroma_420);
    struct image image = rig_picture(64, 48, 3, 1);
    struct picture_file avif = rig_encode_as(&image, "avif", .encoder.quality = 60);
    char text[2][64];
    for (int i = 0; i < 2; i++) {
        rig_reads(i ? &avif : &heic, STATUS_OK, NULL);
        FILE *children = fopen("/proc/thread-self/children", "r");
        assert_true(children && fgets(text[i], sizeof text[i], children));
        fclose(children);
        assert_int_equal(strcspn(text[i], " "), strlen(text[i]) - 1); /* one child */
    }
    assert_string_equal(text[0], text[1]);
    free(image.pixels);
    picture_free(&avif);
    picture_free(&heic);
}
#endif

#else

TEST(test_without_heif)
{
    struct picture_file file =
        picture_cut(&(struct picture_file){(uint8_t *)(uintptr_t) "\0\0\0\x18"
                                                                  "ftypheic\0\0\0\0mif1heic",
                                           24},
                    24);
    rig_reads(&file, STATUS_UNSUPPORTED_FORMAT,
              "the input is a HEIC, but this gpuimgd was built without libheif (HEIF=no)");
    picture_free(&file);
}

#endif

TEST_MAIN(.name = "heic", .each_setup = rig_setup, .each_teardown = rig_teardown)
