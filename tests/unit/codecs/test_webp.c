/* Tests of the WebP codec against libwebp's simple API, its mux and its animation decoder. */
#include "tests/fixtures/codec_rig.h"

#ifdef GPUIMGD_WEBP

#include <webp/decode.h>
#include <webp/demux.h>
#include <webp/encode.h>
#include <webp/mux.h>

#include "codecs/codec_impl.h"
#include "codecs/webp/vp8l.h"
#include "tests/fixtures/camera.h"

static const uint32_t sides[][2] = {{1, 1},   {1, 19},  {19, 1},   {2, 3},    {16, 16},
                                    {17, 15}, {61, 47}, {130, 90}, {16383, 1}, {1, 16383}};

static bool image_is_long(const uint32_t side[2])
{
    return side[0] > 1000 || side[1] > 1000;
}

/* Takes the bytes of a libwebp file. */
static struct picture_file taken(uint8_t *bytes, size_t length)
{
    struct picture_file whole = {bytes, length}, file = picture_cut(&whole, length);
    assert_true(length > 0);
    WebPFree(bytes);
    return file;
}

static struct picture_file lossy_file(uint32_t width, uint32_t height, uint32_t channels,
                                      float quality)
{
    uint8_t *bytes, *pixels = picture_pixels(width, height, channels, 3);
    int across = (int)width, down = (int)height, stride = (int)(width * channels);
    size_t length = channels == 4 ? WebPEncodeRGBA(pixels, across, down, stride, quality, &bytes)
                                  : WebPEncodeRGB(pixels, across, down, stride, quality, &bytes);
    free(pixels);
    return taken(bytes, length);
}

static struct picture_file lossless_file(uint32_t width, uint32_t height, uint32_t channels)
{
    uint8_t *bytes, *pixels = picture_pixels(width, height, channels, 3);
    int across = (int)width, down = (int)height, stride = (int)(width * channels);
    size_t length = channels == 4 ? WebPEncodeLosslessRGBA(pixels, across, down, stride, &bytes)
                                  : WebPEncodeLosslessRGB(pixels, across, down, stride, &bytes);
    free(pixels);
    return taken(bytes, length);
}

/* Compares with libwebp's decoder of whole files. */
static void expect_as_libwebp(const struct picture_file *file)
{
    int width, height;
    WebPBitstreamFeatures features;
    assert_int_equal(WebPGetFeatures(file->bytes, file->length, &features), VP8_STATUS_OK);
    uint32_t channels = features.has_alpha ? 4 : 3;
    uint8_t *wanted = channels == 4 ? WebPDecodeRGBA(file->bytes, file->length, &width, &height)
                                    : WebPDecodeRGB(file->bytes, file->length, &width, &height);
    assert_non_null(wanted);
    rig_reads(file, STATUS_OK, NULL);
    assert_int_equal(rig.info.width, width);
    assert_int_equal(rig.info.height, height);
    rig_expect_pixels(&rig, wanted, channels);
    WebPFree(wanted);
}

/* ---- decode ---- */

TEST(test_decode)
{
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (uint32_t channels = 3; channels <= 4; channels++) {
            struct picture_file lossy = lossy_file(sides[i][0], sides[i][1], channels, 75);
            struct picture_file lossless = lossless_file(sides[i][0], sides[i][1], channels);
            expect_as_libwebp(&lossy);
            expect_as_libwebp(&lossless);
            picture_free(&lossy);
            picture_free(&lossless);
        }
}

/* A file of megabytes is decoded in many pieces. */
TEST(test_many_pieces)
{
    struct picture_file files[] = {lossy_file(1500, 1200, 4, 100), lossless_file(900, 700, 3)};
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        assert_true(files[i].length > CODEC_BYTES_PER_CHECK);
        expect_as_libwebp(&files[i]);
        picture_free(&files[i]);
    }
}

/* ---- encode ---- */

/* The pixels as libwebp's encoder takes them: 3 channels for gray. */
static uint8_t *as_colours(const struct image *image)
{
    uint32_t channels = image->channels == 1 ? 3 : image->channels;
    uint8_t *packed = malloc((size_t)image->width * image->height * channels);
    assert_non_null(packed);
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t i = 0; i < image->width * channels; i++)
            packed[(size_t)y * image->width * channels + i] =
                image->pixels[y * image->stride + (image->channels == 1 ? i / 3 : i)];
    return packed;
}

TEST(test_encode_lossless)
{
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (uint32_t channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1)
            for (int effort = 0; effort <= 6; effort += image_is_long(sides[i]) ? 7 : 3) {
                struct image image = rig_picture(sides[i][0], sides[i][1], channels, 7);
                uint8_t *wanted = as_colours(&image);
                struct picture_file file = rig_encode_as(
                    &image, "webp", .encoder = {.lossless = 1, .effort = effort});
                int width, height;
                uint8_t *plain = channels == 4
                                     ? WebPDecodeRGBA(file.bytes, file.length, &width, &height)
                                     : WebPDecodeRGB(file.bytes, file.length, &width, &height);
                assert_non_null(plain);
                assert_memory_equal(plain, wanted, (size_t)image.width * image.height *
                                                       (channels == 1 ? 3 : channels));
                rig_reads(&file, STATUS_OK, NULL);
                if (rig.info.channels == (channels == 4 ? 4 : 3)) /* not if alpha is opaque */
                    rig_expect_pixels(&rig, wanted, rig.info.channels);
                else
                    assert_true(channels == 4 && (image.width == 1 || image.height == 1));
                WebPFree(plain);
                free(wanted);
                free(image.pixels);
                picture_free(&file);
            }
}

/* The colours of transparent pixels are kept too. */
TEST(test_lossless_keeps_transparent_colours)
{
    struct image image = rig_picture(40, 30, 4, 7);
    for (uint32_t y = 0; y < image.height; y++)
        for (uint32_t x = 0; x < image.width; x++)
            image.pixels[y * image.stride + 4 * x + 3] = x % 3 == 0 ? 0 : 200;
    struct picture_file file = rig_encode_as(&image, "webp", .encoder = {.lossless = 1});
    uint8_t *wanted = as_colours(&image);
    rig_reads(&file, STATUS_OK, NULL);
    rig_expect_pixels(&rig, wanted, 4);
    free(wanted);
    free(image.pixels);
    picture_free(&file);
}

/* The bytes are those of libwebp's simple API, whose method is 4; gray ones those of its RGB. */
TEST(test_encode_lossy)
{
    static const int qualities[] = {1, 50, 80, 100};
    for (size_t i = 0; i < COUNT_OF(sides) * COUNT_OF(qualities); i++)
        for (uint32_t channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1) {
            const uint32_t *side = sides[i % COUNT_OF(sides)];
            int quality = qualities[i / COUNT_OF(sides)];
            if (image_is_long(side) && quality != 80)
                continue;
            struct image image = rig_picture(side[0], side[1], channels, 7);
            uint8_t *pixels = as_colours(&image), *bytes;
            int width = (int)side[0], height = (int)side[1];
            size_t length = channels == 4 ? WebPEncodeRGBA(pixels, width, height, 4 * width,
                                                           (float)quality, &bytes)
                                          : WebPEncodeRGB(pixels, width, height, 3 * width,
                                                          (float)quality, &bytes);
            struct picture_file file = rig_encode_as(
                &image, "webp", .encoder = {.quality = quality, .effort = 4});
            assert_int_equal(file.length, length);
            assert_memory_equal(file.bytes, bytes, length);
            WebPFree(bytes);
            free(pixels);
            free(image.pixels);
            picture_free(&file);
        }
}

TEST(test_too_wide)
{
    struct image image = rig_picture(16384, 1, 3, 5);
    struct encode_request request = {.format = format_by_name("webp"), .encoder.quality = 80};
    struct rig_sink sink = {.bytes_max = 0};
    assert_int_equal(rig_encode_into(&rig, &image, &request, 65536, &sink), STATUS_ENCODE_FAILED);
    assert_non_null(strstr(rig.error.text, "16384 x 1 pixels; a WebP has at most 16383"));
    picture_free(&sink.file);
    free(image.pixels);
}

/* ---- metadata ---- */

static struct picture_file with_chunk(const struct picture_file *file, const char *type,
                                      const struct picture_file *data)
{
    WebPData whole = {file->bytes, file->length}, chunk = {data->bytes, data->length}, out;
    WebPMux *mux = WebPMuxCreate(&whole, 1);
    assert_non_null(mux);
    assert_int_equal(WebPMuxSetChunk(mux, type, &chunk, 1), WEBP_MUX_OK);
    assert_int_equal(WebPMuxAssemble(mux, &out), WEBP_MUX_OK);
    WebPMuxDelete(mux);
    return taken((uint8_t *)(uintptr_t)out.bytes, out.size);
}

static void add_chunk(struct picture_file *file, const char *type,
                      const struct picture_file *data)
{
    struct picture_file before = *file;
    *file = with_chunk(&before, type, data);
    picture_free(&before);
}

/* The files are those that libwebp's mux makes from plain ones. */
TEST(test_metadata)
{
    for (int i = 0; i < 96; i++) {
        uint32_t channels = (uint32_t[]){1, 3, 4}[i % 3], side = i / 6 % 2 ? 1 : 40;
        struct picture_file icc = picture_icc(i % 2 ? 401 : 3000, "RGB ");
        struct picture_file exif = camera_exif(i % 2, 6, 40, 40, i % 2), xmp = camera_xmp(6, i % 2);
        bool has_icc = i / 12 % 2, has_exif = i / 24 % 2, has_xmp = i / 48;
        struct image image = rig_picture(side, side, channels, 1);
        struct encoder_settings settings = {.quality = 80, .lossless = i / 3 % 2};
        struct picture_file file = rig_encode_as(
            &image, "webp", .encoder = settings, .icc = has_icc ? icc.bytes : NULL,
            .icc_bytes = icc.length, .exif = has_exif ? exif.bytes : NULL,
            .exif_bytes = exif.length, .xmp = has_xmp ? xmp.bytes : NULL,
            .xmp_bytes = xmp.length);
        struct picture_file wanted = rig_encode_as(&image, "webp", .encoder = settings);
        if (has_icc && channels >= 3)
            add_chunk(&wanted, "ICCP", &icc);
        if (has_exif)
            add_chunk(&wanted, "EXIF", &exif);
        if (has_xmp)
            add_chunk(&wanted, "XMP ", &xmp);
        assert_int_equal(file.length, wanted.length);
        assert_memory_equal(file.bytes, wanted.bytes, wanted.length);
        expect_as_libwebp(&file);
        assert_int_equal(rig.info.icc_bytes, has_icc && channels >= 3 ? icc.length : 0);
        if (has_icc && channels >= 3)
            assert_memory_equal(rig.info.icc, icc.bytes, icc.length);
        assert_int_equal(rig.info.orientation, has_exif ? 6 : 1);
        picture_free(&wanted);
        picture_free(&file);
        picture_free(&icc);
        picture_free(&exif);
        picture_free(&xmp);
        free(image.pixels);
    }
}

/* Profiles that are not RGB are not written. Those for gray, and damaged ones, are dropped. */
TEST(test_other_profiles)
{
    struct picture_file gray = picture_icc(500, "GRAY"), plain = lossy_file(9, 7, 3, 75);
    struct picture_file file = with_chunk(&plain, "ICCP", &gray);
    expect_as_libwebp(&file);
    assert_null(rig.info.icc);
    assert_int_equal(rig.info.icc_bytes, 0);
    picture_free(&file);
    for (int i = 0; i < 3; i++) {
        struct picture_file icc = picture_icc(i == 2 ? ICC_BYTES_MAX + 4 : 500, "RGB ");
        icc.bytes[3] += i == 0; /* a wrong size field */
        icc.bytes[36] += i == 1; /* the signature is wrong */
        file = with_chunk(&plain, "ICCP", &icc);
        expect_as_libwebp(&file);
        assert_null(rig.info.icc);
        assert_int_equal(rig.info.icc_bytes, 0);
        picture_free(&file);
        picture_free(&icc);
    }
    struct image image = rig_picture(9, 7, 3, 1);
    file = rig_encode_as(&image, "webp", .encoder.quality = 75, .icc = gray.bytes,
                         .icc_bytes = gray.length);
    rig_reads(&file, STATUS_OK, NULL);
    assert_null(rig.info.icc);
    picture_free(&file);
    picture_free(&gray);
    picture_free(&plain);
    free(image.pixels);
}

/* Of two chunks of a type, the first counts. */
TEST(test_second_chunk)
{
    struct picture_file exif[] = {camera_exif(true, 6, 9, 7, 0), camera_exif(true, 3, 9, 7, 0)};
    struct picture_file plain = lossless_file(9, 7, 3), file = with_chunk(&plain, "EXIF", &exif[0]);
    struct picture_file other = with_chunk(&plain, "EXIF", &exif[1]);
    size_t bytes = 8 + exif[1].length + exif[1].length % 2;
    picture_insert(&file, file.length, other.bytes + other.length - bytes, bytes);
    for (int i = 0; i < 4; i++)
        file.bytes[4 + i] = (uint8_t)((file.length - 8) >> 8 * i);
    expect_as_libwebp(&file);
    assert_int_equal(rig.info.orientation, 6);
    picture_free(&file);
    picture_free(&other);
    picture_free(&plain);
    picture_free(&exif[0]);
    picture_free(&exif[1]);
}

TEST(test_orientation)
{
    static const uint8_t exif[] = {'M', 'M', 0, '*', 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3,
                                   0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0};
    struct picture_file data = {(uint8_t *)(uintptr_t)exif, sizeof exif};
    struct picture_file plain = lossless_file(9, 7, 4), file = with_chunk(&plain, "EXIF", &data);
    expect_as_libwebp(&file);
    assert_int_equal(rig.info.orientation, 6);
    assert_int_equal(rig_probe(&rig, &plain), STATUS_OK);
    assert_int_equal(rig.info.orientation, 1);
    picture_free(&file);
    picture_free(&plain);
}

/* ---- animations ---- */

/* An animation of two frames, the first of which is at an offset on a canvas of 64 x 48. */
static struct picture_file animation(const struct picture_file *frame, int x, int y)
{
    WebPMux *mux = WebPMuxNew();
    WebPMuxAnimParams params = {.bgcolor = 0xFF00FF00};
    WebPData out;
    WebPMuxFrameInfo info = {.bitstream = {frame->bytes, frame->length}, .x_offset = x,
                             .y_offset = y, .duration = 100, .id = WEBP_CHUNK_ANMF};
    WebPBitstreamFeatures features;
    assert_int_equal(WebPGetFeatures(frame->bytes, frame->length, &features), VP8_STATUS_OK);
    bool wide = features.width > 64;
    assert_int_equal(WebPMuxSetAnimationParams(mux, &params), WEBP_MUX_OK);
    assert_int_equal(WebPMuxPushFrame(mux, &info, 1), WEBP_MUX_OK);
    info.x_offset = info.y_offset = 0;
    assert_int_equal(WebPMuxPushFrame(mux, &info, 1), WEBP_MUX_OK);
    if (!wide)
        assert_int_equal(WebPMuxSetCanvasSize(mux, 64, 48), WEBP_MUX_OK);
    assert_int_equal(WebPMuxAssemble(mux, &out), WEBP_MUX_OK);
    WebPMuxDelete(mux);
    return taken((uint8_t *)(uintptr_t)out.bytes, out.size);
}

static void expect_first_frame(const struct picture_file *file)
{
    WebPData data = {file->bytes, file->length};
    WebPAnimDecoder *decoder = WebPAnimDecoderNew(&data, NULL);
    uint8_t *canvas;
    int time;
    assert_non_null(decoder);
    assert_true(WebPAnimDecoderGetNext(decoder, &canvas, &time));
    rig_reads(file, STATUS_OK, NULL);
    assert_int_equal(rig.info.width, 64);
    assert_int_equal(rig.info.height, 48);
    if (rig.info.channels == 4) {
        rig_expect_pixels(&rig, canvas, 4);
    } else {
        for (size_t i = 0; i < 64 * 48; i++) {
            assert_int_equal(canvas[4 * i + 3], 255);
            memmove(canvas + 3 * i, canvas + 4 * i, 3);
        }
        rig_expect_pixels(&rig, canvas, 3);
    }
    WebPAnimDecoderDelete(decoder);
}

TEST(test_animation)
{
    for (int i = 0; i < 8; i++) {
        uint32_t width = i % 2 ? 64 : 31, height = i % 2 ? 48 : 17, channels = 3 + i / 2 % 2;
        struct picture_file frame = i / 4 ? lossless_file(width, height, channels)
                                          : lossy_file(width, height, channels, 80);
        struct picture_file file = animation(&frame, i % 2 ? 0 : 6, i % 2 ? 0 : 10);
        expect_first_frame(&file);
        assert_int_equal(rig.info.channels, i % 2 ? channels : 4);
        for (size_t length = 0; length < file.length; length += length < 200 ? 1 : 57) {
            struct picture_file cut = picture_cut(&file, length);
            (void)!rig_decode(&rig, &cut, DECODE_COLOUR);
            picture_free(&cut);
        }
        picture_free(&file);
        picture_free(&frame);
    }
}

/* A file with frames whose header does not announce them: its canvas would keep other bytes. */
TEST(test_frames_without_the_flag)
{
    struct picture_file frame = lossless_file(31, 17, 3), file = animation(&frame, 6, 10);
    file.bytes[20] &= (uint8_t)~2;
    rig_reads(&file, STATUS_DECODE_FAILED, NULL);
    picture_insert(&file, file.length, "\0\0\0\0\0\0\0\0", 8);
    rig_reads(&file, STATUS_DECODE_FAILED, NULL);
    picture_free(&file);
    picture_free(&frame);
}

/* ---- limits, truncated and corrupt files ---- */

TEST(test_size_limits)
{
    struct picture_file file = lossy_file(40, 30, 3, 75);
    rig.limits.pixels_max = 40 * 30;
    rig.limits.side_max = 40;
    rig_reads(&file, STATUS_OK, NULL);
    rig.limits.pixels_max = 40 * 30 - 1;
    rig_reads(&file, STATUS_IMAGE_TOO_LARGE, "the WebP is 40 x 30 pixels; at most 1199 pixels");
    rig.limits.pixels_max = 40 * 30;
    rig.limits.side_max = 39;
    rig_reads(&file, STATUS_IMAGE_TOO_LARGE, "39 per side");
    picture_free(&file);
}

/* Headers that promise many pixels. */
TEST(test_huge)
{
    static const uint8_t canvas[] =
        "RIFF\x16\0\0\0WEBPVP8X\x0A\0\0\0\x02\0\0\0\xFF\x7F\0\xFF\x7F\0";
    static const uint8_t lossless[] =
        "RIFF\x18\0\0\0WEBPVP8L\x0C\0\0\0\x2F\xFE\xBF\xFF\x0F\0\0\0";
    struct picture_file files[] = {{(uint8_t *)(uintptr_t)canvas, sizeof canvas - 1},
                                   {(uint8_t *)(uintptr_t)lossless, sizeof lossless - 1}};
    assert_int_not_equal(rig_probe(&rig, &files[0]), STATUS_OK);
    rig_reads(&files[1], STATUS_IMAGE_TOO_LARGE, "the WebP is 16383 x 16383 pixels");
}

TEST(test_truncated)
{
    struct picture_file files[] = {lossy_file(61, 47, 3, 75), lossy_file(61, 47, 4, 75),
                                   lossless_file(61, 47, 3), lossless_file(61, 47, 4)};
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        for (size_t length = 0; length < files[i].length;
             length += length < 100 || length + 20 > files[i].length ? 1 : 37) {
            struct picture_file cut = picture_cut(&files[i], length);
            enum status status = rig_decode(&rig, &cut, DECODE_COLOUR);
            if (status == STATUS_OK) /* the last bytes may be padding */
                assert_true(length + 4 > files[i].length);
            else
                assert_int_equal(status, length < 12 ? STATUS_UNSUPPORTED_FORMAT
                                                     : STATUS_DECODE_FAILED);
            picture_free(&cut);
        }
        rig_reads_once(picture_cut(&files[i], files[i].length * 3 / 4), STATUS_DECODE_FAILED,
                       "the WebP's data ends after ");
        expect_as_libwebp(&files[i]);
        picture_free(&files[i]);
    }
}

TEST(test_flipped_bytes)
{
    uint32_t random = 20240608;
    uint64_t end = clock_now_ns() + 3000000000u;
    struct picture_file files[] = {lossy_file(61, 47, 3, 75), lossy_file(61, 47, 4, 75),
                                   lossless_file(61, 47, 3), lossless_file(61, 47, 4)};
    rig.limits.side_max = 128;
    for (int i = 0; i < 2000 && clock_now_ns() < end; i++) {
        const struct picture_file *file = &files[i % 4];
        size_t to = i % 2 != 0 ? file->length : 60; /* headers more often */
        struct picture_file bad = picture_damage(file, 12, to, &random);
        (void)!rig_decode(&rig, &bad, DECODE_COLOUR);
        picture_free(&bad);
    }
    for (size_t i = 0; i < COUNT_OF(files); i++)
        picture_free(&files[i]);
}

TEST(test_deadlines)
{
    struct picture_file file = lossless_file(1500, 1500, 3);
    rig.limits.deadline_ns = clock_now_ns() + 2000000;
    rig_reads(&file, STATUS_DECODE_LIMIT, "the deadline for decoding passed");
    rig.limits.deadline_ns = clock_now_ns() + 600000000000u;
    expect_as_libwebp(&file);
    picture_free(&file);
    struct image image = rig_picture(1500, 1500, 3, 5);
    for (int lossless = 0; lossless < 2; lossless++) {
        struct encode_request request = {.format = format_by_name("webp"),
                                         .encoder = {.quality = 80, .lossless = lossless},
                                         .deadline_ns = clock_now_ns() + 2000000};
        struct rig_sink sink = {.bytes_max = 0};
        assert_int_equal(rig_encode_into(&rig, &image, &request, 65536, &sink), STATUS_TIMEOUT);
        picture_free(&sink.file);
    }
    free(image.pixels);
}

/* ---- the tables of a lossless image ---- */

struct bits {
    uint8_t bytes[1 << 20];
    size_t count;
};

static void put_bits(struct bits *bits, unsigned value, unsigned count)
{
    for (unsigned i = 0; i < count; i++, bits->count++)
        bits->bytes[bits->count / 8] |= (uint8_t)((value >> i & 1) << bits->count % 8);
}

/* A code of 256 symbols with 8 bits each: code lengths by a code of one symbol. */
static void put_flat_code(struct bits *bits, unsigned alphabet)
{
    put_bits(bits, 0, 1);
    put_bits(bits, 12 - 4, 4);       /* code lengths up to that of symbol 8 */
    for (int i = 0; i < 11; i++)
        put_bits(bits, 0, 3);        /* 17, 18, 0 to 5, 16, 6, 7 */
    put_bits(bits, 1, 3);            /* 8 */
    put_bits(bits, alphabet > 256, 1); /* a maximum */
    if (alphabet > 256) {
        put_bits(bits, 3, 3); /* 8 bits */
        put_bits(bits, 256 - 2, 8);
    }
}

static void put_single_code(struct bits *bits)
{
    put_bits(bits, 1 | 0 << 1 | 0 << 2 | 0 << 3, 4); /* simple, one symbol, of 1 bit: 0 */
}

static unsigned reversed(unsigned value)
{
    unsigned out = 0;
    for (int i = 0; i < 8; i++)
        out |= (value >> i & 1) << (7 - i);
    return out;
}

/* A header with an image of groups: block i belongs to group i % groups. */
static size_t groups_of(uint32_t width, uint32_t height, unsigned groups, unsigned step)
{
    static struct bits bits;
    memset(&bits, 0, sizeof bits);
    put_bits(&bits, 1 | 2 << 1, 3); /* subtract green */
    put_bits(&bits, 0, 1);          /* no other transform */
    put_bits(&bits, 0, 1);          /* no colour cache */
    put_bits(&bits, 1, 1);          /* groups */
    put_bits(&bits, 0, 3);          /* blocks of 4 x 4 */
    put_bits(&bits, 0, 1);          /* no colour cache */
    put_flat_code(&bits, 280);
    put_flat_code(&bits, 256);
    for (int i = 0; i < 3; i++)
        put_single_code(&bits);
    for (uint32_t i = 0; i < (width + 3) / 4 * ((height + 3) / 4); i++) {
        unsigned group = i % groups * step;
        put_bits(&bits, reversed(group & 0xFF), 8);
        put_bits(&bits, reversed(group >> 8), 8);
    }
    assert_int_equal(vp8l_groups(bits.bytes, bits.count / 8, width, height, 0), 0); /* cut */
    return vp8l_groups(bits.bytes, bits.count / 8 + 8, width, height, 0);
}

TEST(test_groups)
{
    assert_int_equal(groups_of(64, 64, 1, 1), 1);
    assert_int_equal(groups_of(64, 64, 200, 1), 200);
    assert_int_equal(groups_of(63, 61, 7, 100), 601); /* libwebp has tables for unused numbers */
    assert_int_equal(groups_of(400, 200, 3000, 1), 3000);
    assert_int_equal(groups_of(400, 200, 64, 1000), 64);
    assert_int_equal(groups_of(1000, 1000, 60000, 1), 60000);
    for (int i = 0; i < 6; i++) { /* a file of libwebp: it has at most 2600 */
        struct picture_file file = lossless_file(1u << (2 * i), 300, 3);
        size_t groups = vp8l_groups(file.bytes + 25, file.length - 25, 1u << (2 * i), 300, 0);
        assert_in_range(groups, 1, 2600);
        picture_free(&file);
    }
}

TEST(test_memory_of_groups)
{
    struct picture_file file = lossless_file(800, 600, 3);
    size_t groups = vp8l_groups(file.bytes + 25, file.length - 25, 800, 600, 0);
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    assert_true(rig.info.codec_bytes > groups * VP8L_GROUP_BYTES + 800 * 600 * 4);
    assert_true(rig.info.codec_bytes < groups * VP8L_GROUP_BYTES + MIB + 800 * 600 * 6);
    picture_free(&file);
}

/* A file whose alpha, or whose frame, needs many groups, after chunks that need none. libwebp reads
 * the last alpha before the pixels. */
TEST(test_memory_of_hidden_groups)
{
    static const uint8_t alph[] = {'A', 'L', 'P', 'H', 2, 0, 0, 0, 0, 0};
    struct picture_file plain = lossless_file(400, 300, 3), frame = animation(&plain, 0, 0);
    assert_int_equal(rig_probe(&rig, &plain), STATUS_OK);
    size_t bytes = rig.info.codec_bytes;
    uint8_t decoy[8 + 16] = {'V', 'P', '8', 'L', 16, 0, 0, 0, 0x2F};
    picture_insert(&frame, 30, decoy, sizeof decoy);
    frame.bytes[4] = (uint8_t)(frame.length - 8);
    frame.bytes[5] = (uint8_t)((frame.length - 8) >> 8);
    frame.bytes[6] = (uint8_t)((frame.length - 8) >> 16);
    assert_int_equal(rig_probe(&rig, &frame), STATUS_OK);
    assert_int_equal(rig.info.width, 400);
    assert_int_equal(rig.info.codec_bytes, bytes);
    picture_free(&frame);
    struct picture_file alpha = lossy_file(400, 300, 4, 75);
    assert_int_equal(rig_probe(&rig, &alpha), STATUS_OK);
    bytes = rig.info.codec_bytes;
    picture_insert(&alpha, 30, alph, sizeof alph);
    alpha.bytes[4] = (uint8_t)(alpha.length - 8);
    alpha.bytes[5] = (uint8_t)((alpha.length - 8) >> 8);
    expect_as_libwebp(&alpha);
    assert_int_equal(rig.info.codec_bytes, bytes);
    picture_free(&alpha);
    picture_free(&plain);
}

/* libwebp may crash if it gets no memory for lossless pixels or alpha, so the codec asks first.
 * Sanitizers end the process if more memory is asked for than there can be. */
TEST(test_memory_is_asked_for)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    struct picture_file files[] = {lossless_file(40, 30, 3), lossy_file(40, 30, 4, 75)};
    struct decode_request request = {0};
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        rig_reads(&files[i], STATUS_OK, NULL);
        rig.info.codec_bytes = PTRDIFF_MAX;
        assert_int_equal(codec_decode(rig.context, files[i].bytes, files[i].length, &rig.info,
                                      &request, &rig.limits, &rig.image, &rig.error),
                         STATUS_OUT_OF_MEMORY);
        assert_string_equal(rig.error.text, "no memory to decode a WebP");
        picture_free(&files[i]);
    }
}

#else

TEST(test_refused)
{
    struct picture_file file = {(uint8_t *)(uintptr_t) "RIFF\x24\0\0\0WEBPVP8 ", 16};
    assert_int_equal(rig_probe(&rig, &file), STATUS_UNSUPPORTED_FORMAT);
    assert_string_equal(rig.error.text, "the input is a WebP, but this gpuimgd was built without "
                                        "libwebp (WEBP=no)");
}

#endif

TEST_MAIN(.name = "webp", .each_setup = rig_setup, .each_teardown = rig_teardown)
