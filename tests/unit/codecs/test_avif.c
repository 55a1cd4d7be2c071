/* Tests of the AVIF codec against libavif's own conversions, with files that the test writes. */
#include "tests/fixtures/codec_rig.h"

#ifdef GPUIMGD_AVIF

#include "codecs/confined/confine.h"
#include "tests/fixtures/avif_boxes.h"
#include "tests/fixtures/avif_rig.h"
#include "tests/fixtures/gpu/gpu_run.h"

/* The largest difference between the decoded image and the scene. */
static int largest_error(uint32_t channels, uint32_t compared, uint32_t seed)
{
    const struct image *image = &rig.image;
    uint8_t *wanted = picture_pixels(image->width, image->height, channels, seed);
    int most = 0;
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++)
            for (uint32_t c = 0; c < compared; c++) {
                int error = abs(image->pixels[y * image->stride + x * image->channels + c] -
                                wanted[((size_t)y * image->width + x) * channels + c]);
                most = error > most ? error : most;
            }
    free(wanted);
    return most;
}

/* ---- decode ---- */

TEST(test_decode)
{
    static const uint32_t sides[][2] = {{1, 1}, {1, 19}, {19, 1}, {61, 47}, {130, 129}};
    static const avifPixelFormat kinds[] = {AVIF_PIXEL_FORMAT_YUV444, AVIF_PIXEL_FORMAT_YUV422,
                                            AVIF_PIXEL_FORMAT_YUV420, AVIF_PIXEL_FORMAT_YUV400};
    for (size_t i = 0; i < COUNT_OF(sides) * COUNT_OF(kinds); i++)
        for (int variant = 0; variant < 8; variant++) {
            struct avif_options options = {.width = sides[i / 4][0],
                                           .height = sides[i / 4][1],
                                           .format = kinds[i % 4],
                                           .alpha = variant & 1,
                                           .limited = variant & 2,
                                           .depth = variant & 4 ? 10 : 8,
                                           .quantizer = 20};
            struct picture_file file = avif_write(&options);
            avif_expect_as_libavif(&file);
            picture_free(&file);
        }
}

/* Images that pass through the window in several bands. */
TEST(test_bands)
{
    static const avifPixelFormat kinds[] = {AVIF_PIXEL_FORMAT_YUV444, AVIF_PIXEL_FORMAT_YUV422,
                                            AVIF_PIXEL_FORMAT_YUV420, AVIF_PIXEL_FORMAT_YUV400};
    static const avifCleanApertureBox clap = {601, 1, 851, 1, 0, 1, 0, 1}; /* from 150, 125 */
    static const avifCropRect part = {150, 125, 601, 851};
    for (int i = 0; i < 24; i += test_quick() ? 5 : 1) {
        bool cut = i / 12;
        struct picture_file file =
            make_avif(.width = 901, .height = 1101, .format = kinds[i % 4], .alpha = i % 3 == 1,
                      .depth = i / 4 % 3 == 2 ? 10 : 8, .quantizer = 30,
                      .clap = cut ? &clap : NULL);
        avif_expect_part(&file, cut ? &part : NULL);
        picture_free(&file);
    }
    for (int i = 0; i < 2; i++) {
        struct picture_file wide = make_avif(.width = 65500, .height = 35, .alpha = i,
                                             .format = AVIF_PIXEL_FORMAT_YUV420, .quantizer = 50);
        rig.limits.side_max = SIDE_CEILING;
        avif_expect_as_libavif(&wide);
        picture_free(&wide);
    }
}

/* Without loss in the AV1 coder, only the conversions round; libavif 1.2 rounds 12 bits more. */
TEST(test_depths)
{
    for (uint32_t depth = 8; depth <= 12; depth += 2)
        for (int alpha = 0; alpha < 2; alpha++) {
            int rounding = AVIF_VERSION >= 1000000 && depth == 12 ? 3 : 2;
            struct picture_file file = make_avif(.width = 70, .height = 50, .depth = depth,
                                                 .alpha = alpha);
            avif_expect_as_libavif(&file);
            assert_true(largest_error(alpha ? 4 : 3, alpha ? 4 : 3, 3) <= rounding);
            picture_free(&file);
        }
}

TEST(test_premultiplied)
{
    struct picture_file file = make_avif(.width = 70, .height = 50, .alpha = true,
                                         .premultiplied = true);
    avif_expect_as_libavif(&file);
    picture_free(&file);
}

TEST(test_grids_and_sequences)
{
    struct picture_file file = make_avif(.width = 128, .height = 64, .grid = true);
    rig_reads(&file, STATUS_OK, NULL);
    assert_int_equal(rig.info.width, 256);
    avif_expect_as_libavif(&file);
    picture_free(&file);
    file = make_avif(.width = 70, .height = 50, .frames = 2);
    rig_reads(&file, STATUS_OK, NULL);
    assert_int_equal(rig.info.frames, 2);
    assert_true(largest_error(3, 3, 3) <= 2); /* the first image */
    for (rig.limits.page = 0; rig.limits.page < 2; rig.limits.page++)
        avif_expect_as_libavif(&file);
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK); /* the pipeline refuses the page */
    assert_int_equal(rig.info.frames, 2);
    /* after the version, the number of entries and that of the first chunk: images of a chunk */
    uint8_t *stsc = memmem(file.bytes, file.length, "stsc", 4);
    assert_non_null(stsc);
    memcpy(stsc + 16, "\0\0\x27\x11", 4);
    rig_reads(&file, STATUS_DECODE_LIMIT, "the AVIF has more than 10000 images");
    picture_free(&file);
}

/* irot turns anticlockwise, then imir mirrors. Each row has the corners of the result, numbered in
 * the source from its top left one clockwise, from the result's top left one clockwise. */
static void corners_of(int orientation, int corners[4])
{
    static const int table[9][4] = {{0}, {0, 1, 2, 3}, {1, 0, 3, 2}, {2, 3, 0, 1}, {3, 2, 1, 0},
                                    {0, 3, 2, 1}, {3, 0, 1, 2}, {2, 1, 0, 3}, {1, 2, 3, 0}};
    memcpy(corners, table[orientation], sizeof table[0]);
}

TEST(test_orientation)
{
    struct picture_file exif = picture_exif(6, false, true);
    for (int angle = 0; angle <= 4; angle++)
        for (int axis = 0; axis <= 2; axis++) {
            int wanted[4] = {0, 1, 2, 3}, found[4];
            for (int turns = angle ? angle - 1 : 0; turns > 0; turns--) {
                int first = wanted[0];
                memmove(wanted, wanted + 1, 3 * sizeof *wanted);
                wanted[3] = first;
            }
            if (axis) { /* 1: top and bottom, 2: left and right are exchanged */
                int swap[4] = {wanted[axis == 1 ? 3 : 1], wanted[axis == 1 ? 2 : 0],
                               wanted[axis == 1 ? 1 : 3], wanted[axis == 1 ? 0 : 2]};
                memcpy(wanted, swap, sizeof wanted);
            }
            struct picture_file file = make_avif(.width = 9, .height = 7, .angle = angle,
                                                 .axis = axis);
            assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
            corners_of(rig.info.orientation, found);
            assert_memory_equal(found, wanted, sizeof wanted);
            picture_free(&file);
        }
    /* EXIF's own does not count: ISO/IEC 23000-22, 7.3.10.1. */
    struct picture_file file = make_avif(.width = 9, .height = 7, .exif = &exif);
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    assert_int_equal(rig.info.orientation, 1);
    picture_free(&file);
    picture_free(&exif);
}

/* clap gives the sides, and the offset of its centre from that of the image, as fractions. */
TEST(test_clap)
{
    static const struct {
        avifCleanApertureBox clap;
        avifCropRect part; /* of 67 x 46 pixels; 0: all, because the box is wrong */
    } rows[] = {
        {{20, 1, 12, 1, 1, 2, 0, 1}, {24, 17, 20, 12}},
        {{41, 1, 30, 1, 0, 1, 0, 1}, {13, 8, 41, 30}}, /* odd, but chroma is not cut in halves */
        {{40, 2, 24, 2, (uint32_t)-47, 2, (uint32_t)-17, 1}, {0, 0, 20, 12}},
        {{20, 1, 12, 1, 47, 2, 17, 1}, {47, 34, 20, 12}},
        {{67, 1, 46, 1, 0, 1, 0, 1}, {0, 0, 67, 46}},
        {{1, 1, 1, 1, 0, 1, 1, 2}, {33, 23, 1, 1}},
        {{20, 1, 12, 1, 0, 1, 0, 1}, {0}},            /* between two pixels */
        {{20, 1, 12, 1, 49, 2, 17, 1}, {0}},          /* beyond the right side */
        {{20, 1, 12, 1, (uint32_t)-49, 2, 0, 1}, {0}},
        {{69, 1, 12, 1, 0, 1, 0, 1}, {0}},
        {{0, 1, 12, 1, 1, 2, 0, 1}, {0}},
        {{(uint32_t)-21, 1, 12, 1, 0, 1, 0, 1}, {0}},
        {{20, 0, 12, 1, 1, 2, 0, 1}, {0}},
        {{20, 3, 12, 1, 1, 2, 0, 1}, {0}},
        {{20, 1, 12, 1, 1, 0, 0, 0}, {0}},
        {{20, 1, 12, 1, 0x80000000, 1, 0x7FFFFFFF, 1}, {0}},
    };
    static const avifPixelFormat kinds[] = {AVIF_PIXEL_FORMAT_YUV444, AVIF_PIXEL_FORMAT_YUV420,
                                            AVIF_PIXEL_FORMAT_YUV400};
    for (size_t i = 0; i < COUNT_OF(rows) * COUNT_OF(kinds) * 2; i++) {
        size_t row = i / 6;
        struct picture_file file =
            make_avif(.width = 67, .height = 46, .format = kinds[i % 3], .alpha = i / 3 % 2,
                      .quantizer = 20, .clap = &rows[row].clap);
        avif_expect_part(&file, rows[row].part.width > 0 ? &rows[row].part : NULL);
        picture_free(&file);
    }
}

/* ---- encode ---- */

TEST(test_encode)
{
    static const uint32_t sides[][2] = {{1, 1}, {1, 19}, {61, 47}, {300, 200}, {16384, 1}};
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (uint32_t channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1)
            for (int effort = 0; effort <= 6; effort += 3) {
                struct image image = rig_picture(sides[i][0], sides[i][1], channels, 7);
                struct picture_file file = rig_encode_as(
                    &image, "avif", .encoder = {.quality = 100, .effort = effort});
                avif_expect_as_libavif(&file);
                /* Gray and alpha are not converted. */
                if (channels == 1)
                    assert_int_equal(largest_error(1, 1, 7), 0);
                for (uint32_t y = 0; rig.info.channels == 4 && y < image.height; y++)
                    for (uint32_t x = 0; x < image.width; x++)
                        assert_int_equal(rig.image.pixels[y * rig.image.stride + 4 * x + 3],
                                         image.pixels[y * image.stride + 4 * x + 3]);
                free(image.pixels);
                picture_free(&file);
            }
}

/* The file that libavif writes from its own conversion of the whole image. */
static struct picture_file libavif_file(const struct image *image, int effort)
{
    avifImage *planes = avif_planes(image, AVIF_PIXEL_FORMAT_YUV420);
    avifEncoder *encoder = avifEncoderCreate();
    encoder->minQuantizer = encoder->maxQuantizer = AVIF_QUANTIZER_LOSSLESS;
    encoder->minQuantizerAlpha = encoder->maxQuantizerAlpha = AVIF_QUANTIZER_LOSSLESS;
    encoder->speed = AVIF_SPEED_FASTEST - effort;
    encoder->codecChoice = AVIF_CODEC_CHOICE_AOM;
    return avif_write_planes(encoder, planes);
}

/* An encode in several bands gives libavif's own file. */
TEST(test_encode_bands)
{
    static const uint32_t sides[][2] = {{901, 701}, {700, 1100}, {65500, 17}};
    for (size_t i = 0; i < COUNT_OF(sides) * 2; i++) {
        struct image image = rig_picture(sides[i / 2][0], sides[i / 2][1], i % 2 ? 4 : 3, 7);
        struct picture_file wanted = libavif_file(&image, 0);
        struct picture_file file = rig_encode_as(&image, "avif",
                                                 .encoder = {.quality = 100, .effort = 0});
        assert_int_equal(file.length, wanted.length);
        assert_memory_equal(file.bytes, wanted.bytes, wanted.length);
        free(image.pixels);
        picture_free(&file);
        picture_free(&wanted);
    }
    struct image gray = rig_picture(1501, 1100, 1, 7); /* more than a window */
    struct picture_file file = rig_encode_as(&gray, "avif", .encoder = {.quality = 100});
    rig.limits.pixels_max = PIXELS_CEILING;
    avif_expect_as_libavif(&file);
    assert_int_equal(largest_error(1, 1, 7), 0);
    free(gray.pixels);
    picture_free(&file);
}

TEST(test_quality)
{
    struct image image = rig_picture(200, 150, 3, 5);
    for (size_t i = 0; i < AVIF_BOTH; i++) {
        size_t before = 0;
        for (int quality = 1; quality <= 100; quality += 33) {
            struct picture_file file = rig_encode_as(&image, "avif", .encoder.quality = quality,
                                                     .encoder.effort = avif_both_efforts[i]);
            assert_true(file.length > before);
            before = file.length;
            picture_free(&file);
        }
    }
    free(image.pixels);
}

/* ---- limits, truncated and corrupt files ---- */

TEST(test_size_limits)
{
    struct picture_file file = make_avif(.width = 40, .height = 30);
    rig.limits.pixels_max = 40 * 30;
    rig.limits.side_max = 40;
    rig_reads(&file, STATUS_OK, NULL);
    rig.limits.pixels_max = 40 * 30 - 1;
    rig_reads(&file, STATUS_IMAGE_TOO_LARGE, "the AVIF is 40 x 30 pixels; at most 1199 pixels");
    rig.limits.pixels_max = 40 * 30;
    rig.limits.side_max = 39;
    rig_reads(&file, STATUS_IMAGE_TOO_LARGE, "39 per side");
    picture_free(&file);
}

/* Sets the sides in the box ispe. */
static struct picture_file sized(uint32_t width, uint32_t height)
{
    struct picture_file file = make_avif(.width = 40, .height = 30);
    uint8_t *box = memmem(file.bytes, file.length, "ispe", 4);
    assert_non_null(box);
    for (int i = 0; i < 4; i++) {
        box[8 + i] = (uint8_t)(width >> (24 - 8 * i));
        box[12 + i] = (uint8_t)(height >> (24 - 8 * i));
    }
    return file;
}

/* Images of few colours, such as screenshots, for which libaom has other tools. */
static void expect_drawings(void)
{
    struct image image = rig_picture(640, 480, 3, 7);
    for (uint32_t y = 0; y < image.height; y++)
        for (uint32_t i = 0; i < 3 * image.width; i++) {
            uint32_t state = i / 9 * 0x9E3779B1u ^ y / 5 * 0x85EBCA77u ^ 1;
            image.pixels[y * image.stride + i] = picture_random(&state) >> 20 & 1 ? 240 : 20;
        }
    for (int effort = 0; effort <= 6; effort++) {
        struct picture_file file =
            rig_encode_as(&image, "avif", .encoder = {.quality = 60, .effort = effort});
        picture_free(&file);
    }
    free(image.pixels);
}

/* Honest images need less than the limit of the process, and that less than a host of 8 GB has for
 * codecs: three eighths of an eighth. */
TEST(test_memory)
{
    if (CONFINE_WITHOUT_LIMITS)
        skip();
    static const avifPixelFormat kinds[] = {AVIF_PIXEL_FORMAT_YUV444, AVIF_PIXEL_FORMAT_YUV420,
                                            AVIF_PIXEL_FORMAT_YUV400};
    for (int i = 0; i < 12; i++) {
        struct picture_file file = make_avif(.width = 1100, .height = 900, .format = kinds[i % 3],
                                             .depth = i / 3 % 2 ? 12 : 8, .alpha = i / 6,
                                             .quantizer = 10);
        rig_reads(&file, STATUS_OK, NULL);
        picture_free(&file);
    }
    for (int effort = 0; effort <= 6; effort += 2) {
        struct image image = rig_picture(350, 200, 4, 7);
        struct picture_file noise = picture_garbage(image.stride * image.height, 1);
        memcpy(image.pixels, noise.bytes, noise.length);
        struct picture_file file = rig_encode_as(&image, "avif", .encoder = {.quality = 100,
                                                                             .effort = effort});
        picture_free(&file);
        picture_free(&noise);
        free(image.pixels);
    }
    expect_drawings();
    const struct encoder_settings slow = {.quality = 60, .effort = 6}, usual = {.quality = 60,
                                                                                .effort = 1};
    const struct format *avif = format_by_name("avif");
    struct picture_file large = sized(6000, 4000);
    assert_int_equal(rig_probe(&rig, &large), STATUS_OK);
    assert_true(rig.info.codec_bytes < 8 * GIB / 8 * 3 / 8);
    assert_true(codec_encoder_bytes(avif, 4000, 3000, 3, &usual, 0) < 8 * GIB / 8 * 3 / 8);
    assert_true(codec_encoder_bytes(avif, 4000, 3000, 3, &slow, 0) < 2 * GIB * 3 / 8);
    picture_free(&large);
}

TEST(test_wrong_sizes)
{
    static const uint32_t huge[][2] = {{60000, 60000}, {0xFFFFFFFF, 0xFFFFFFFF}, {16384, 16385}};
    for (size_t i = 0; i < COUNT_OF(huge); i++)
        rig_reads_once(sized(huge[i][0], huge[i][1]), STATUS_IMAGE_TOO_LARGE, NULL);
    rig_reads_once(sized(0, 30), STATUS_DECODE_FAILED, NULL);
    /* Other sizes than that of the AV1 data: libavif scales, or fails. */
    struct picture_file file = sized(39, 31);
    enum status status = rig_decode(&rig, &file, DECODE_COLOUR);
    assert_true(status == STATUS_OK || status == STATUS_DECODE_FAILED);
    picture_free(&file);
}

static void put_in_pieces(unsigned count, bool same, bool idat)
{
    struct picture_file file = make_avif(.width = 40, .height = 30);
    avif_put_in_pieces(&file, &(struct avif_pieces){count, same, idat});
    avif_expect_as_libavif(&file);
    picture_free(&file);
}

/* libavif joins the extents of an item. */
TEST(test_extents)
{
    for (int idat = 0; idat < 2; idat++) {
        put_in_pieces(1, false, idat);
        put_in_pieces(2, false, idat);
        put_in_pieces(100, false, idat);
    }
}

TEST(test_brands)
{
    struct picture_file file = make_avif(.width = 9, .height = 7);
    assert_ptr_equal(codec_sniff(file.bytes, file.length), format_by_name("avif"));
    memcpy(file.bytes + 8, "mif1", 4); /* a compatible brand follows */
    assert_ptr_equal(codec_sniff(file.bytes, file.length), format_by_name("avif"));
    rig_reads(&file, STATUS_OK, NULL);
    for (size_t length = 0; length < 12; length++)
        assert_null(codec_sniff(file.bytes, length));
    picture_free(&file);
    struct picture_file heic = {(uint8_t *)(uintptr_t) "\0\0\0\x18" "ftypmif1\0\0\0\0mif1heic", 24};
    assert_string_equal(codec_sniff(heic.bytes, heic.length)->name, "heic");
}

TEST(test_truncated_box)
{
    struct picture_file file = make_avif(.width = 40, .height = 30);
    avif_pad_box(&file, "ipma", 1); /* its parent is too short then */
    rig_reads(&file, STATUS_DECODE_FAILED, "Child box too large");
    picture_free(&file);
}

TEST(test_truncated)
{
    struct picture_file file = make_avif(.width = 61, .height = 47, .alpha = true);
    for (size_t length = 0; length < file.length;
         length += length < 100 || length + 20 > file.length ? 1 : 37) {
        struct picture_file cut = picture_cut(&file, length);
        enum status status = rig_decode(&rig, &cut, DECODE_COLOUR);
        assert_true(status == STATUS_DECODE_FAILED || status == STATUS_UNSUPPORTED_FORMAT);
        picture_free(&cut);
    }
    avif_expect_as_libavif(&file);
    picture_free(&file);
}

TEST(test_flipped_bytes)
{
    uint32_t random = 20240608;
    uint64_t end = clock_now_ns() + 3000000000u;
    struct picture_file files[] = {make_avif(.width = 61, .height = 47),
                                   make_avif(.width = 128, .height = 64, .grid = true),
                                   make_avif(.width = 61, .height = 47, .frames = 2)};
    rig.limits.side_max = 256;
    for (int i = 0; i < 1000 && clock_now_ns() < end; i++) {
        const struct picture_file *file = &files[i % 3];
        size_t to = i % 2 != 0 ? file->length : 300; /* headers more often */
        struct picture_file bad = picture_damage(file, 16, to, &random);
        (void)!rig_decode(&rig, &bad, DECODE_COLOUR);
        picture_free(&bad);
    }
    for (size_t i = 0; i < COUNT_OF(files); i++)
        picture_free(&files[i]);
}

/* Decodes with a deadline in 1 ms. On a busy machine it may pass before libavif starts. */
static void decode_late(const struct picture_file *file, struct error *error)
{
    struct decode_request whole = {.as = DECODE_COLOUR};
    for (int tries = 0; tries == 0 || (tries < 1000 && strstr(error->text, "before its start"));
         tries++) {
        *error = (struct error){0};
        rig.limits.deadline_ns = clock_now_ns() + 1000000;
        assert_int_equal(codec_decode(rig.context, file->bytes, file->length, &rig.info, &whole,
                                      &rig.limits, &rig.image, error), STATUS_DECODE_LIMIT);
    }
}

/* libavif cannot be interrupted: the deadline counts after it. It takes longer than 1 ms. */
TEST(test_deadlines)
{
    struct image image = rig_picture(1200, 800, 3, 5);
    struct picture_file file = rig_encode_as(&image, "avif", .encoder.quality = 60);
    struct error error;
    rig_reads(&file, STATUS_OK, NULL);
    decode_late(&file, &error);
    assert_string_equal(error.text, "the deadline for decoding passed while libavif ran");
    struct encode_request request = {.format = format_by_name("avif"), .encoder.quality = 60,
                                     .deadline_ns = clock_now_ns() + 1000000};
    struct rig_sink sink = {.bytes_max = 0};
    assert_int_equal(rig_encode_into(&rig, &image, &request, 65536, &sink), STATUS_TIMEOUT);
    assert_int_equal(sink.file.length, 0);
    picture_free(&sink.file);
    picture_free(&file);
    free(image.pixels);
}

#else

TEST(test_refused)
{
    struct picture_file file = {(uint8_t *)(uintptr_t) "\0\0\0\x20" "ftypavif\0\0\0\0avif", 20};
    assert_int_equal(rig_probe(&rig, &file), STATUS_UNSUPPORTED_FORMAT);
    assert_string_equal(rig.error.text, "the input is an AVIF, but this gpuimgd was built without "
                                        "libavif (AVIF=no)");
}

#endif

TEST_MAIN(.name = "avif", .each_setup = rig_setup, .each_teardown = rig_teardown)
