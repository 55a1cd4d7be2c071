/* fuzz_webp.c - any bytes as a WebP file. */
#include <string.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    decode_check(bytes, length);
    return 0;
}

#ifdef GPUIMGD_WEBP

#include <webp/encode.h>

enum { width = 9, height = 7, riff_bytes = 12, chunk_bytes = 8 };

static void put_le(uint8_t *at, size_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static void append_chunk(struct picture_file *file, const char *type, const void *data,
                         size_t bytes)
{
    uint8_t head[chunk_bytes];
    memcpy(head, type, 4);
    put_le(head + 4, bytes, 4);
    picture_insert(file, file->length, head, sizeof head);
    picture_insert(file, file->length, data, bytes);
    if (bytes % 2 != 0)
        picture_insert(file, file->length, "", 1);
    put_le(file->bytes + 4, file->length - 8, 4);
}

/* A container with the flags of VP8X, and the chunks of `plain` in a frame if it is animated. */
static struct picture_file extended(const struct picture_file *plain, int flags, bool animated)
{
    struct picture_file file = picture_cut(plain, riff_bytes);
    struct picture_file icc = picture_icc(144, "RGB "), exif = picture_exif(6, false, true);
    uint8_t vp8x[10] = {(uint8_t)flags, 0, 0, 0, width - 1 + 4 * animated, 0, 0,
                        height - 1 + 4 * animated, 0, 0};
    uint8_t frame[16 + 4096] = {1, 0, 0, 1, 0, 0, width - 1, 0, 0, height - 1, 0, 0, 100};
    const uint8_t *image = plain->bytes + riff_bytes;
    size_t bytes = plain->length - riff_bytes;
    FUZZ_MUST(bytes <= sizeof frame - 16);
    append_chunk(&file, "VP8X", vp8x, sizeof vp8x);
    append_chunk(&file, "ICCP", icc.bytes, icc.length);
    if (animated) {
        memcpy(frame + 16, image, bytes);
        append_chunk(&file, "ANIM", "\xFF\xFF\xFF\xFF\0\0", 6);
        append_chunk(&file, "ANMF", frame, 16 + bytes);
    } else {
        picture_insert(&file, file.length, image, bytes);
    }
    append_chunk(&file, "EXIF", exif.bytes, exif.length);
    append_chunk(&file, "XMP ", "<x:xmpmeta/>", 12);
    picture_free(&icc);
    picture_free(&exif);
    return file;
}

static struct picture_file plain_file(uint32_t channels, bool lossless)
{
    uint8_t *pixels = picture_pixels(width, height, channels, 1), *bytes = NULL;
    int stride = (int)channels * width;
    size_t length = lossless
        ? (channels == 4 ? WebPEncodeLosslessRGBA(pixels, width, height, stride, &bytes)
                         : WebPEncodeLosslessRGB(pixels, width, height, stride, &bytes))
        : (channels == 4 ? WebPEncodeRGBA(pixels, width, height, stride, 75, &bytes)
                         : WebPEncodeRGB(pixels, width, height, stride, 75, &bytes));
    struct picture_file whole = {bytes, length}, file = picture_cut(&whole, length);
    FUZZ_MUST(length > 0);
    WebPFree(bytes);
    free(pixels);
    return file;
}

void fuzz_seeds(fuzz_give *give, void *context)
{
    enum { tagged = 0x2C, animated = 0x02 };
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"lossy", "lossy-alpha", "lossless", "lossless-alpha"};
        struct picture_file plain = plain_file(3 + i % 2, i / 2);
        char name[40];
        snprintf(name, sizeof name, "%s.webp", names[i]);
        if (i != 1) {
            fuzz_give_file(give, context, "extended.webp", extended(&plain, tagged, false));
            fuzz_give_file(give, context, "animated.webp",
                           extended(&plain, tagged | animated, true));
        }
        fuzz_give_file(give, context, name, plain);
    }
}

#else

void fuzz_seeds(fuzz_give *give, void *context)
{
    give(context, "header.webp", "RIFF\x24\0\0\0WEBPVP8 ", 16);
}

#endif
