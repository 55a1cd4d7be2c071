/* Tests of the walk through a WebP's chunks: libwebp must read the chunks that were counted. */
#include "tests/fixtures/codec_rig.h"

#ifdef GPUIMGD_WEBP

#include <webp/encode.h>

#include "codecs/codec_impl.h"
#include "tests/fixtures/camera.h"

enum { WIDTH = 40, HEIGHT = 24, FLAG_ANIMATION = 2, FLAG_XMP = 4, FLAG_EXIF = 8, FLAG_ICC = 32 };

/* ---- files from chunks ---- */

static void append(struct picture_file *file, const void *bytes, size_t length)
{
    picture_insert(file, file->length, bytes, length);
}

static void append_le(struct picture_file *file, size_t value, int bytes)
{
    for (int i = 0; i < bytes; i++, value >>= 8)
        append(file, &(uint8_t){(uint8_t)value}, 1);
}

static void append_chunk(struct picture_file *file, const char *type,
                         const struct picture_file *data)
{
    append(file, type, 4);
    append_le(file, data->length, 4);
    append(file, data->bytes, data->length);
    append(file, "", data->length % 2);
}

/* Frees the contents. */
static struct picture_file riff(struct picture_file contents)
{
    struct picture_file file = picture_empty();
    append(&file, "RIFF", 4);
    append_le(&file, 4 + contents.length, 4);
    append(&file, "WEBP", 4);
    append(&file, contents.bytes, contents.length);
    picture_free(&contents);
    return file;
}

static void append_vp8x(struct picture_file *file, unsigned flags)
{
    uint8_t data[10] = {(uint8_t)flags, 0, 0, 0, WIDTH - 1, 0, 0, HEIGHT - 1, 0, 0};
    append_chunk(file, "VP8X", &(struct picture_file){data, sizeof data});
}

/* An animation of one frame with these bytes after the frame's header, which are freed. */
static struct picture_file animation_of(struct picture_file image)
{
    uint8_t header[16] = {0, 0, 0, 0, 0, 0, WIDTH - 1, 0, 0, HEIGHT - 1, 0, 0, 100};
    struct picture_file file = picture_empty(), frame = {NULL, 0};
    append(&frame, header, sizeof header);
    append(&frame, image.bytes, image.length);
    append_vp8x(&file, FLAG_ANIMATION);
    append_chunk(&file, "ANIM", &(struct picture_file){(uint8_t[6]){0}, 6});
    append_chunk(&file, "ANMF", &frame);
    picture_free(&frame);
    picture_free(&image);
    return riff(file);
}

/* The data of the first chunk of a file that libwebp encodes: VP8 or VP8L. */
static struct picture_file stream(bool lossless)
{
    enum { data_at = 20 };
    uint8_t *bytes, *pixels = picture_pixels(WIDTH, HEIGHT, 3, 1);
    size_t length = lossless ? WebPEncodeLosslessRGB(pixels, WIDTH, HEIGHT, 3 * WIDTH, &bytes)
                             : WebPEncodeRGB(pixels, WIDTH, HEIGHT, 3 * WIDTH, 75, &bytes);
    assert_true(length > data_at);
    size_t count = bytes[16] | (size_t)bytes[17] << 8 | (size_t)bytes[18] << 16;
    struct picture_file data = picture_cut(&(struct picture_file){bytes + data_at, count}, count);
    WebPFree(bytes);
    free(pixels);
    return data;
}

static struct picture_file chunk(const char *type, const struct picture_file *data)
{
    struct picture_file file = picture_empty();
    append_chunk(&file, type, data);
    return file;
}

/* ---- what hides from the count ---- */

/* A lossless stream whose chunk does not come first, or that has no chunk. */
static struct picture_file hidden(int how, const struct picture_file *vp8l)
{
    static const char *const before[] = {"RIFF", "XXXX", "EXIF", "VP8X", "\xFF\0\n\""};
    struct picture_file file = {NULL, 0}, empty = {NULL, 0};
    if (how == 0)
        return riff(chunk("VP8L", vp8l));
    if (how == 1)
        return picture_cut(vp8l, vp8l->length);
    if (how == 2) /* a container without its name and length */
        append(&file, "WEBP", 4);
    else
        append_chunk(&file, before[how - 3], &empty);
    append_chunk(&file, "VP8L", vp8l);
    return file;
}

/* Their first four bytes. NULL: those of the stream. */
static const char *const names[] = {"RIFF", NULL, "WEBP", "RIFF", "XXXX", "EXIF", "VP8X", "???\""};

static void expect_refused(struct picture_file file, const char *where, int i, const char *types)
{
    char wanted[100];
    int begin = snprintf(wanted, sizeof wanted, "the first chunk of the WebP%s is \"", where);
    if (names[i])
        snprintf(wanted + begin, sizeof wanted - (size_t)begin, "%s\"; it must be %s", names[i],
                 types);
    rig_reads_once(file, STATUS_DECODE_FAILED, wanted);
}

TEST(test_frame_begins_with_its_image)
{
    struct picture_file vp8l = stream(true);
    for (int i = 0; i < (int)COUNT_OF(names); i++)
        expect_refused(animation_of(hidden(i, &vp8l)), "'s frame 0", i,
                       "\"ALPH\", \"VP8 \" or \"VP8L\"");
    rig_reads_once(animation_of(chunk("VP8L", &vp8l)), STATUS_OK, NULL);
    picture_free(&vp8l);
}

TEST(test_file_begins_with_its_image)
{
    struct picture_file vp8l = stream(true), vp8 = stream(false);
    for (int i = 0; i < (int)COUNT_OF(names); i++)
        if (!names[i] || strcmp(names[i], "VP8X") != 0) /* libwebp refuses its size */
            expect_refused(riff(hidden(i, &vp8l)), "", i, "\"VP8 \", \"VP8L\" or \"VP8X\"");
    struct picture_file alph = chunk("ALPH", &(struct picture_file){(uint8_t[2]){0}, 2});
    append_chunk(&alph, "VP8 ", &vp8);
    rig_reads_once(riff(alph), STATUS_DECODE_FAILED, "the first chunk of the WebP is \"ALPH\"");
    rig_reads_once(riff(chunk("VP8L", &vp8l)), STATUS_OK, NULL);
    rig_reads_once(riff(chunk("VP8 ", &vp8)), STATUS_OK, NULL);
    picture_free(&vp8l);
    picture_free(&vp8);
}

/* Chunks of unknown types between VP8X and the image, with odd sizes, are skipped by both. */
TEST(test_unknown_chunks)
{
    struct picture_file vp8l = stream(true);
    rig_reads_once(riff(chunk("VP8L", &vp8l)), STATUS_OK, NULL);
    size_t bytes = rig.info.codec_bytes;
    for (size_t odd = 0; odd < 4; odd++) {
        struct picture_file file = picture_empty(), data = picture_garbage(9 + odd, 1);
        memcpy(data.bytes, "VP8L\1\0\0\0", 8); /* no chunk: data of one */
        append_vp8x(&file, 0);
        append_chunk(&file, "XXXX", &data);
        append_chunk(&file, "RIFF", &data);
        append_chunk(&file, "VP8L", &vp8l);
        append_chunk(&file, "VP8L", &data);
        rig_reads_once(riff(file), STATUS_OK, NULL);
        assert_int_equal(rig.info.codec_bytes, bytes);
        picture_free(&data);
    }
    picture_free(&vp8l);
}

/* ---- metadata ---- */

static struct picture_file with_all(unsigned flags, bool has_vp8x)
{
    struct picture_file file = {NULL, 0}, vp8l = stream(true), icc = picture_icc(144, "RGB "),
                        exif = camera_exif(true, 6, WIDTH, HEIGHT, 0), xmp = camera_xmp(6, true);
    if (has_vp8x) {
        append_vp8x(&file, flags);
        append_chunk(&file, "ICCP", &icc);
    }
    append_chunk(&file, "VP8L", &vp8l);
    append_chunk(&file, "EXIF", &exif);
    append_chunk(&file, "XMP ", &xmp);
    picture_free(&vp8l);
    picture_free(&icc);
    picture_free(&exif);
    picture_free(&xmp);
    return riff(file);
}

/* libwebp's demuxer, and with it Pillow, and libvips ignore metadata without its flag. */
TEST(test_metadata_needs_its_flag)
{
    static const unsigned all = FLAG_ICC | FLAG_EXIF | FLAG_XMP;
    rig.limits.metadata = METADATA_ALL;
    for (unsigned flags = 0; flags < 256; flags++) {
        if ((flags & ~all) != 0)
            continue;
        rig_reads_once(with_all(flags, true), STATUS_OK, NULL);
        assert_int_equal(rig.info.icc != NULL, (flags & FLAG_ICC) != 0);
        assert_int_equal(rig.info.exif != NULL, (flags & FLAG_EXIF) != 0);
        assert_int_equal(rig.info.xmp != NULL, (flags & FLAG_XMP) != 0);
        assert_int_equal(rig.info.orientation, flags & FLAG_EXIF ? 6 : 1);
        image_info_clear(&rig.info);
    }
    rig_reads_once(with_all(0, false), STATUS_OK, NULL);
    assert_int_equal(rig.info.orientation, 1);
    assert_null(rig.info.exif);
    assert_null(rig.info.xmp);
}

#else

TEST(test_without_libwebp)
{
    assert_non_null(codec_refusal(format_by_name("webp"), false));
}

#endif

TEST_MAIN(.name = "webp_chunks", .each_setup = rig_setup, .each_teardown = rig_teardown)
