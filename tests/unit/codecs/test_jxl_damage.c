/* Tests of the JPEG XL decoder at its limits, and with truncated and corrupt files. */
#include "tests/fixtures/codec_rig.h"

#ifdef GPUIMGD_JXL

#include "codecs/confined/confine.h"
#include "tests/fixtures/camera.h"
#include "tests/fixtures/jxl_file.h"
#include "tests/fixtures/picture_impl.h"

TEST(test_size_limits)
{
    struct picture_file file = make_jxl(.width = 40, .height = 30);
    rig.limits.pixels_max = 40 * 30;
    rig.limits.side_max = 40;
    rig_reads(&file, STATUS_OK, NULL);
    rig.limits.pixels_max = 40 * 30 - 1;
    rig_reads(&file, STATUS_IMAGE_TOO_LARGE, "the JPEG XL is 40 x 30 pixels; at most 1199 pixels");
    rig.limits.pixels_max = 40 * 30;
    rig.limits.side_max = 39;
    rig_reads(&file, STATUS_IMAGE_TOO_LARGE, "39 per side");
    picture_free(&file);
}

/* Two sides of 30 bits: no number of 64 bits holds the memory that such an image would need. */
TEST(test_largest_header)
{
    static const uint8_t head[16] = {0xFF, 0x0A, 'N', 'G', 'f', 0xF0, '8', 0xBC, 0, 0, 0, 2};
    struct picture_file file = {0};
    picture_append(&file, head, sizeof head);
    rig_reads_once(file, STATUS_IMAGE_TOO_LARGE, "the JPEG XL is 756231519 x 504154346 pixels");
}

/* Images of all kinds need less than the limit of the process, also noise. */
TEST(test_memory)
{
    if (CONFINE_WITHOUT_LIMITS)
        skip();
    static const struct jxl_file kinds[] = {
        {.quality = 5},
        {.channels = 1, .quality = 5},
        {.channels = 4, .quality = 5, .frames = 2},
        {.modular = true, .responsive = true, .depth = 16},
        {.channels = 4, .modular = true, .responsive = true, .frames = 2},
    };
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct jxl_file options = kinds[i];
        options.width = 1200;
        options.height = 800;
        options.effort = 1;
        struct picture_file file = jxl_file(&options);
        rig_reads(&file, STATUS_OK, NULL);
        picture_free(&file);
    }
    for (int i = 0; i < 4; i++) {
        struct image image = rig_picture(900, 700, i & 1 ? 4 : 3, 7);
        struct picture_file noise = picture_garbage(image.stride * image.height, 1);
        memcpy(image.pixels, noise.bytes, noise.length);
        struct picture_file file = rig_encode_as(
            &image, "jxl", .encoder = {.quality = i & 2 ? 99 : 100, .effort = i & 2 ? 4 : 0});
        picture_free(&file);
        picture_free(&noise);
        free(image.pixels);
    }
    const struct format *jxl = format_by_name("jxl");
    const struct encoder_settings usual = {.quality = 90, .effort = 4};
    assert_true(codec_encoder_bytes(jxl, 4000, 3000, 3, &usual, 0) < 2 * GIB * 3 / 8 + 128 * MIB);
}

/* A decode that reaches its limit says so, although libjxl crashes then. */
TEST(test_memory_limit)
{
    struct picture_file file =
        make_jxl(.width = 2000, .height = 1500, .layers = 2, .quality = 30, .effort = 1);
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    size_t honest = rig.info.codec_bytes;
    assert_true(honest > 2000u * 1500 * 30);
    rig.info.codec_bytes = honest / 10;
    struct decode_request whole = {.as = DECODE_COLOUR};
    struct image image = rig_picture(2000, 1500, 3, 1);
    enum status status = codec_decode(rig.context, file.bytes, file.length, &rig.info, &whole,
                                      &rig.limits, &image, &rig.error);
    assert_int_equal(status, CONFINE_WITHOUT_LIMITS ? STATUS_OK : STATUS_DECODE_LIMIT);
    if (status != STATUS_OK)
        assert_non_null(strstr(rig.error.text, "libjxl needs more memory to decode the JPEG XL"));
    free(image.pixels);
    picture_free(&file);
}

TEST(test_sniffed)
{
    struct picture_file file = make_jxl(.width = 9, .height = 7);
    assert_ptr_equal(codec_sniff(file.bytes, file.length), format_by_name("jxl"));
    assert_null(codec_sniff(file.bytes, 1));
    picture_free(&file);
    struct picture_file xmp = camera_xmp(1, true);
    file = make_jxl(.width = 9, .height = 7, .xmp = &xmp);
    for (size_t length = 0; length < 12; length++)
        assert_null(codec_sniff(file.bytes, length));
    assert_ptr_equal(codec_sniff(file.bytes, 12), format_by_name("jxl"));
    picture_free(&file);
    picture_free(&xmp);
}

static void expect_prefixes_fail(const struct picture_file *file)
{
    for (size_t length = 12; length < file->length; length++) {
        struct picture_file cut = picture_cut(file, length);
        assert_int_equal(rig_decode(&rig, &cut, DECODE_COLOUR), STATUS_DECODE_FAILED);
        assert_non_null(strstr(rig.error.text, "the JPEG XL"));
        picture_free(&cut);
    }
}

TEST(test_truncated)
{
    struct picture_file xmp = camera_xmp(1, true), jpeg = make_jpeg(.width = 24, .height = 16);
    struct picture_file files[] = {
        make_jxl(.width = 20, .height = 16),
        make_jxl(.width = 20, .height = 16, .quality = 10, .channels = 4),
        make_jxl(.width = 20, .height = 16, .xmp = &xmp, .packed = true), jxl_of_jpeg(&jpeg)};
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        rig_reads(&files[i], STATUS_OK, NULL);
        expect_prefixes_fail(&files[i]);
        picture_free(&files[i]);
    }
    picture_free(&jpeg);
    picture_free(&xmp);
}

TEST(test_flipped_bytes)
{
    uint32_t random = 20261127;
    uint64_t end = clock_now_ns() + 3000000000u;
    struct picture_file xmp = camera_xmp(1, true);
    struct picture_file files[] = {make_jxl(.width = 61, .height = 47, .xmp = &xmp, .packed = true),
                                   make_jxl(.width = 128, .height = 64, .quality = 10),
                                   make_jxl(.width = 61, .height = 47, .channels = 4, .frames = 2)};
    rig.limits.side_max = 256;
    rig.limits.metadata = METADATA_ALL;
    for (int i = 0; i < 1000 && clock_now_ns() < end; i++) {
        const struct picture_file *file = &files[i % 3];
        size_t to = i % 2 != 0 ? file->length : 100; /* headers more often */
        struct picture_file bad = picture_damage(file, 2, to, &random);
        (void)!rig_decode(&rig, &bad, DECODE_COLOUR);
        picture_free(&bad);
    }
    rig_reads(&files[1], STATUS_OK, NULL);
    for (size_t i = 0; i < COUNT_OF(files); i++)
        picture_free(&files[i]);
    picture_free(&xmp);
}

static void put_box(struct picture_file *file, const char *type, uint32_t bytes)
{
    uint8_t head[8] = {(uint8_t)(bytes >> 24), (uint8_t)(bytes >> 16), (uint8_t)(bytes >> 8),
                       (uint8_t)bytes};
    memcpy(head + 4, type, 4);
    picture_insert(file, 32, head, sizeof head);
}

/* Boxes that other writers make: of no bytes, to the end of the file, and too many. */
TEST(test_boxes)
{
    struct picture_file xmp = camera_xmp(1, true);
    struct picture_file file = make_jxl(.width = 9, .height = 7, .xmp = &xmp);
    put_box(&file, "free", 8);
    put_box(&file, "Exif", 8);
    rig_reads(&file, STATUS_OK, NULL);
    uint8_t *box = memmem(file.bytes, file.length, "jxlc", 4);
    bool is_last = box && box[-1] + 256u * box[-2] == file.length - (size_t)(box - 4 - file.bytes);
    if (is_last) {
        memset(box - 4, 0, 4); /* to the end */
        rig_reads(&file, STATUS_OK, NULL);
    }
    put_box(&file, "jumb", 7);
    rig_reads(&file, STATUS_DECODE_FAILED, NULL);
    picture_free(&file);
    file = make_jxl(.width = 9, .height = 7, .xmp = &xmp);
    for (int i = 0; i < 4096; i++)
        put_box(&file, "free", 8);
    rig_reads_once(file, STATUS_DECODE_LIMIT, "the JPEG XL has more than 4096 boxes");
    picture_free(&xmp);
}

/* Bytes after the image are ignored, in a container as after a codestream. */
TEST(test_trailing_bytes)
{
    struct picture_file xmp = camera_xmp(1, true), jpeg = make_jpeg(.width = 24, .height = 16);
    struct picture_file files[] = {make_jxl(.width = 9, .height = 7, .xmp = &xmp),
                                   make_jxl(.width = 9, .height = 7), jxl_of_jpeg(&jpeg)};
    static const char *const tails[] = {"TRAIL\n", "\n", "a longer tail without boxes"};
    rig.limits.metadata = METADATA_XMP;
    for (size_t i = 0; i < COUNT_OF(files) * COUNT_OF(tails); i++) {
        struct picture_file *file = &files[i / COUNT_OF(tails)];
        size_t length = file->length;
        const char *tail = tails[i % COUNT_OF(tails)];
        picture_insert(file, length, tail, strlen(tail));
        rig_reads(file, STATUS_OK, NULL);
        assert_int_equal(rig.info.xmp_bytes > 0, i < COUNT_OF(tails));
        file->length = length;
    }
    for (size_t i = 0; i < COUNT_OF(files); i++)
        picture_free(&files[i]);
    picture_free(&xmp);
    picture_free(&jpeg);
}

/* libjxl cannot be interrupted: the deadline counts after it. It takes longer than 1 ms. */
TEST(test_deadlines)
{
    struct image image = rig_picture(1200, 800, 3, 5);
    struct encode_request request = {.format = format_by_name("jxl"),
                                     .encoder = {.quality = 90, .effort = 6},
                                     .deadline_ns = clock_now_ns() + 1000000};
    struct rig_sink sink = {.bytes_max = 0};
    assert_int_equal(rig_encode_into(&rig, &image, &request, 65536, &sink), STATUS_TIMEOUT);
    assert_int_equal(sink.file.length, 0);
    picture_free(&sink.file);
    free(image.pixels);
}

#else

TEST(test_without_jxl)
{
    skip();
}

#endif

TEST_MAIN(.name = "jxl_damage", .each_setup = rig_setup, .each_teardown = rig_teardown)
