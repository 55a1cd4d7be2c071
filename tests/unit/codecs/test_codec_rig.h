/*
 * test_codec_rig.h - what the codec tests share: a context with limits, a destination between
 * guard bytes, a sink into memory, and the reference programs djpeg and cjpeg.
 */
#ifndef GPUIMGD_TESTS_UNIT_CODECS_TEST_CODEC_RIG_H
#define GPUIMGD_TESTS_UNIT_CODECS_TEST_CODEC_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "codecs/codec.h"
#include "tests/fixtures/picture.h"

#define UNUSED __attribute__((unused))

struct rig {
    struct codec_context *context;
    struct codec_limits limits;
    struct error error; /* of the last call */
    struct image_info info;
    struct image image;
    uint8_t *block; /* image.pixels between guards */
    size_t block_bytes;
};

enum { rig_guard = 256, rig_extra = 2 * STRIDE_ALIGN, rig_fill = 0xA5 };
/* Coefficients of small progressive JPEGs lie where others' have lain, those of larger ones not. */
enum { rig_kept = 64 * KIB };

static UNUSED void rig_open(struct rig *rig)
{
    *rig = (struct rig){
        .context = codec_context_create(),
        .limits = {.pixels_max = PIXELS_DEFAULT,
                   .side_max = SIDE_DEFAULT,
                   .jpeg_scans_max = JPEG_SCANS_DEFAULT,
                   .jpeg_warnings_max = JPEG_WARNINGS_MAX,
                   .kept_bytes_max = rig_kept},
    };
    assert_non_null(rig->context);
}

static UNUSED void rig_clear(struct rig *rig)
{
    image_info_clear(&rig->info);
    free(rig->block);
    rig->block = NULL;
}

static UNUSED void rig_close(struct rig *rig)
{
    rig_clear(rig);
    codec_context_destroy(rig->context);
}

static UNUSED enum status rig_probe(struct rig *rig, const struct picture_file *file)
{
    rig_clear(rig);
    rig->error = (struct error){0};
    /* A copy of its own size, so that a sanitizer sees a read behind it. */
    struct picture_file copy = picture_cut(file, file->length);
    enum status status = codec_probe(rig->context, copy.bytes, copy.length, &rig->limits,
                                     &rig->info, &rig->error);
    picture_free(&copy);
    assert_int_equal(status, rig->error.status);
    assert_true(status == STATUS_OK || rig->error.text[0] != '\0');
    return status;
}

static UNUSED void rig_check_guards(const struct rig *rig)
{
    for (int i = 0; i < rig_guard; i++) {
        assert_int_equal(rig->block[i], rig_fill);
        assert_int_equal(rig->block[rig->block_bytes - 1 - (size_t)i], rig_fill);
    }
    size_t row = (size_t)rig->image.width * rig->image.channels;
    for (uint32_t y = 0; y < rig->image.height; y++)
        for (size_t i = row; i < rig->image.stride; i++)
            assert_int_equal(rig->image.pixels[y * rig->image.stride + i], rig_fill);
}

/* Probes and decodes; checks that nothing outside of the rows was written. */
static UNUSED enum status rig_decode_scaled(struct rig *rig, const struct picture_file *file,
                                            enum decode_as as, uint32_t eighths)
{
    enum status status = rig_probe(rig, file);
    if (status != STATUS_OK)
        return status;
    struct image *image = &rig->image;
    image->width = image_scaled(rig->info.width, eighths);
    image->height = image_scaled(rig->info.height, eighths);
    image->channels = as == DECODE_LUMA ? 1 : rig->info.channels;
    image->stride = image_stride(image->width, image->channels) + rig_extra;
    rig->block_bytes = image->stride * image->height + 2 * rig_guard;
    rig->block = malloc(rig->block_bytes);
    assert_non_null(rig->block);
    memset(rig->block, rig_fill, rig->block_bytes);
    image->pixels = rig->block + rig_guard;
    struct decode_request request = {.as = as, .eighths = eighths};
    struct picture_file copy = picture_cut(file, file->length);
    status = codec_decode(rig->context, copy.bytes, copy.length, &rig->info, &request,
                          &rig->limits, image, &rig->error);
    picture_free(&copy);
    assert_int_equal(status, rig->error.status);
    assert_true(status == STATUS_OK || rig->error.text[0] != '\0');
    rig_check_guards(rig);
    return status;
}

static UNUSED enum status rig_decode(struct rig *rig, const struct picture_file *file,
                                     enum decode_as as)
{
    return rig_decode_scaled(rig, file, as, 0);
}

/* Compares the decoded rows to packed ones and names the first difference. */
static UNUSED void rig_expect_pixels(const struct rig *rig, const uint8_t *packed,
                                     uint32_t channels)
{
    assert_int_equal(rig->image.channels, channels);
    size_t row = (size_t)rig->image.width * channels;
    for (uint32_t y = 0; y < rig->image.height; y++)
        for (size_t i = 0; i < row; i++)
            if (rig->image.pixels[y * rig->image.stride + i] != packed[y * row + i])
                fail_msg("row %u, byte %zu is %d, not %d", y, i,
                         rig->image.pixels[y * rig->image.stride + i], packed[y * row + i]);
}

/* A picture in caller-owned rows with padding; free(image.pixels). */
static UNUSED struct image rig_picture(uint32_t width, uint32_t height, uint32_t channels,
                                       uint32_t seed)
{
    struct image image = {.width = width, .height = height, .channels = channels};
    image.stride = image_stride(width, channels) + STRIDE_ALIGN;
    image.pixels = malloc(image.stride * height);
    assert_non_null(image.pixels);
    memset(image.pixels, rig_fill, image.stride * height);
    picture_fill(image.pixels, image.stride, width, height, channels, seed);
    return image;
}

/* ---- a sink into memory ---- */

struct rig_sink {
    struct codec_sink sink; /* first, so that flush finds the rest */
    struct picture_file file;
    size_t bytes_max; /* fails beyond this many; 0 = never */
    bool silent;      /* fails without setting error */
};

static UNUSED enum status rig_flush(struct codec_sink *sink, size_t used, struct error *error)
{
    struct rig_sink *rig = (struct rig_sink *)sink;
    assert_true(used > 0 && used <= sink->capacity);
    assert_int_equal(sink->total, rig->file.length);
    if (rig->bytes_max > 0 && rig->file.length + used > rig->bytes_max)
        return rig->silent ? STATUS_WRITE_FAILED
                           : error_set(error, STATUS_OUT_OF_MEMORY, "the test's sink is full");
    picture_insert(&rig->file, rig->file.length, sink->buffer, used);
    return STATUS_OK;
}

/* Encodes through a buffer of the given size. sink->file is to be freed with picture_free. */
static UNUSED enum status rig_encode_into(struct rig *rig, const struct image *src,
                                          const struct encode_request *request, size_t capacity,
                                          struct rig_sink *sink)
{
    rig->error = (struct error){0};
    sink->sink = (struct codec_sink){
        .buffer = malloc(capacity), .capacity = capacity, .flush = rig_flush};
    assert_non_null(sink->sink.buffer);
    enum status status = codec_encode(rig->context, src, request, &sink->sink, &rig->error);
    free(sink->sink.buffer);
    assert_int_equal(status, rig->error.status);
    if (status == STATUS_OK)
        assert_int_equal(sink->sink.total, sink->file.length);
    else
        assert_true(rig->error.text[0] != '\0');
    return status;
}

static UNUSED struct picture_file rig_encode(struct rig *rig, const struct image *src,
                                             const struct encode_request *request)
{
    struct rig_sink sink = {.bytes_max = 0};
    enum status status = rig_encode_into(rig, src, request, 64 * 1024, &sink);
    if (status != STATUS_OK)
        fail_msg("%s: %s", status_name(status), rig->error.text);
    return sink.file;
}

static UNUSED uint64_t rig_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- reference programs ---- */

static UNUSED bool rig_have(const char *program)
{
    char command[128];
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", program);
    if (system(command) == 0)
        return true;
    print_message("skipped: there is no %s here\n", program);
    return false;
}

/* Runs `program options < in`; what it prints. Length 0 where it failed. */
static UNUSED struct picture_file rig_run(const char *program, const char *options,
                                          const struct picture_file *in)
{
    char name[] = "/tmp/gpuimgd-test-XXXXXX", command[512];
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, in->bytes, in->length), (ssize_t)in->length);
    close(fd);
    snprintf(command, sizeof command, "%s %s %s 2>/dev/null", program, options, name);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    struct picture_file out = picture_empty();
    uint8_t part[65536];
    for (size_t count; (count = fread(part, 1, sizeof part, pipe)) > 0;)
        picture_insert(&out, out.length, part, count);
    pclose(pipe);
    unlink(name);
    return out;
}

/* Offset of the pixels of a binary PNM with these properties. */
static UNUSED size_t rig_pnm_pixels(const struct picture_file *pnm, uint32_t width,
                                    uint32_t height, uint32_t channels)
{
    char header[64];
    int length = snprintf(header, sizeof header, "P%d\n%u %u\n255\n", channels == 1 ? 5 : 6, width,
                          height);
    assert_int_equal(pnm->length, (size_t)length + (size_t)width * height * channels);
    assert_memory_equal(pnm->bytes, header, (size_t)length);
    return (size_t)length;
}

#endif
