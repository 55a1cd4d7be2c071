/* codec.c - the table of formats, and what they have in common. */
#include "codecs/codec_impl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static const struct codec *const table[] = {&codec_jpeg, &codec_png};
static const char *const names[] = {"jpeg", "png", NULL};

enum { codec_count = sizeof table / sizeof table[0] };
static_assert(sizeof names / sizeof names[0] == codec_count + 1, "one name for each codec");

struct codec_context {
    void *state[codec_count];
};

struct codec_context *codec_context_create(void)
{
    struct codec_context *context = calloc(1, sizeof *context);
    if (context == NULL)
        return NULL;
    for (int i = 0; i < codec_count; i++) {
        context->state[i] = calloc(1, table[i]->state_bytes);
        if (context->state[i] == NULL) {
            codec_context_destroy(context);
            return NULL;
        }
    }
    return context;
}

void codec_context_destroy(struct codec_context *context)
{
    if (context == NULL)
        return;
    for (int i = 0; i < codec_count; i++) {
        if (context->state[i] != NULL && table[i]->close != NULL)
            table[i]->close(context->state[i]);
        free(context->state[i]);
    }
    free(context);
}

static void *state_of(struct codec_context *context, const struct codec *codec)
{
    for (int i = 0; i < codec_count; i++)
        if (table[i] == codec)
            return context->state[i];
    assert(!"a codec that is not in the table");
    return NULL;
}

/* ---- names ---- */

const struct codec *codec_sniff(const uint8_t *bytes, size_t length)
{
    for (int i = 0; i < codec_count; i++)
        if (length >= table[i]->magic_bytes &&
            memcmp(bytes, table[i]->magic, table[i]->magic_bytes) == 0)
            return table[i];
    return NULL;
}

const struct codec *codec_by_name(const char *name)
{
    for (int i = 0; i < codec_count; i++) {
        if (strcmp(table[i]->name, name) == 0)
            return table[i];
        for (const char *const *suffix = table[i]->suffixes; *suffix != NULL; suffix++)
            if (strcmp(*suffix + 1, name) == 0)
                return table[i];
    }
    return NULL;
}

const struct codec *codec_by_suffix(const char *path)
{
    size_t length = strlen(path);
    for (int i = 0; i < codec_count; i++)
        for (const char *const *suffix = table[i]->suffixes; *suffix != NULL; suffix++) {
            size_t count = strlen(*suffix);
            if (length >= count && strcasecmp(path + length - count, *suffix) == 0)
                return table[i];
        }
    return NULL;
}

const char *codec_name(const struct codec *codec)
{
    return codec->name;
}

bool codec_has_alpha(const struct codec *codec)
{
    return codec->has_alpha;
}

bool codec_is_lossless(const struct codec *codec)
{
    return codec->lossless;
}

const char *const *codec_names(void)
{
    return names;
}

/* ---- work ---- */

static enum status refuse_foreign(const uint8_t *bytes, size_t length, struct error *error)
{
    if (length == 0)
        return error_set(error, STATUS_UNSUPPORTED_FORMAT, "the input is empty (0 bytes)");
    const char *name = codec_foreign_name(bytes, length);
    if (name != NULL)
        return error_set(error, STATUS_UNSUPPORTED_FORMAT,
                         "the input is %s; gpuimgd reads JPEG and PNG", name);
    return error_set(error, STATUS_UNSUPPORTED_FORMAT,
                     "the input's %zu bytes are neither a JPEG nor a PNG", length);
}

enum status codec_probe(struct codec_context *context, const uint8_t *bytes, size_t length,
                        const struct codec_limits *limits, struct image_info *info,
                        struct error *error)
{
    *info = (struct image_info){.orientation = 1};
    const struct codec *codec = codec_sniff(bytes, length);
    if (codec == NULL)
        return refuse_foreign(bytes, length, error);
    info->codec = codec;
    return codec->probe(state_of(context, codec), bytes, length, limits, info, error);
}

void image_info_clear(struct image_info *info)
{
    free(info->icc);
    info->icc = NULL;
    info->icc_bytes = 0;
}

void image_info_drop_icc(struct image_info *info)
{
    free(info->icc);
    info->icc = NULL;
}

enum status codec_read_icc(struct codec_context *context, const uint8_t *bytes, size_t length,
                           const struct codec_limits *limits, struct image_info *info,
                           struct error *error)
{
    struct image_info again;
    if (info->icc || info->icc_bytes == 0)
        return STATUS_OK;
    enum status status = codec_probe(context, bytes, length, limits, &again, error);
    if (status == STATUS_OK && again.icc_bytes != info->icc_bytes)
        status = error_set(error, STATUS_INTERNAL,
                           "the colour profile has %zu bytes, but had %zu when it was probed",
                           again.icc_bytes, info->icc_bytes);
    if (status == STATUS_OK) {
        info->icc = again.icc;
        again.icc = NULL;
    }
    image_info_clear(&again);
    return status;
}

enum status codec_decode(struct codec_context *context, const uint8_t *bytes, size_t length,
                         const struct image_info *info, const struct decode_request *request,
                         const struct codec_limits *limits, const struct image *dst,
                         struct error *error)
{
    uint32_t eighths = request->eighths;
    assert(eighths == 0 || eighths == DECODE_EIGHTHS ||
           (info->scales && (eighths == 1 || eighths == 2 || eighths == 4)));
    assert(dst->width == image_scaled(info->width, eighths));
    assert(dst->height == image_scaled(info->height, eighths));
    assert(dst->channels == (request->as == DECODE_LUMA ? 1 : info->channels));
    assert(request->as == DECODE_COLOUR || info->ycc ||
           (request->as == DECODE_LUMA && info->channels == 1));
    assert(dst->stride >= (size_t)dst->width * dst->channels);
    if (codec_late(limits->deadline_ns))
        return error_set(error, STATUS_DECODE_LIMIT, "the time for decoding was over at its start");
    return info->codec->decode(state_of(context, info->codec), bytes, length, info, request,
                               limits, dst, error);
}

size_t codec_encoded_bytes(const struct codec *codec, uint32_t width, uint32_t height,
                           uint32_t channels, int quality, size_t icc_bytes)
{
    enum { header_bytes = 4096 };
    /* A profile lies in segments of 64 KiB, or is deflated. */
    size_t profile = channels >= 3 ? icc_bytes + icc_bytes / 1024 : 0;
    return header_bytes + profile + codec->encoded_bytes(width, height, channels, quality);
}

enum status codec_encode(struct codec_context *context, const struct image *src,
                         const struct encode_request *request, struct codec_sink *sink,
                         struct error *error)
{
    const struct codec *codec = request->codec;
    assert(src->channels == 1 || src->channels == 3 || (src->channels == 4 && codec->has_alpha));
    assert(sink->capacity >= 4096);
    sink->total = 0;
    if (codec_late(request->deadline_ns))
        return error_set(error, STATUS_TIMEOUT, "the time for encoding was over at its start");
    return codec->encode(state_of(context, codec), src, request, sink, error);
}

/* ---- what the rows share ---- */

bool codec_late(uint64_t deadline_ns)
{
    if (deadline_ns == 0)
        return false;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec >= deadline_ns;
}

enum status codec_check_size(const char *what, uint32_t width, uint32_t height,
                             const struct codec_limits *limits, struct error *error)
{
    uint64_t pixels = (uint64_t)width * height;
    if (width <= limits->side_max && height <= limits->side_max && pixels <= limits->pixels_max)
        return STATUS_OK;
    return error_set(error, STATUS_IMAGE_TOO_LARGE,
                     "the %s is %u x %u pixels; at most %llu pixels and %u a side are allowed",
                     what, width, height, (unsigned long long)limits->pixels_max,
                     limits->side_max);
}

/* ICC.1:2022, section 7.2: the header's size field, colour space and signature. */
bool codec_icc_is_rgb(const uint8_t *icc, size_t bytes)
{
    enum { header_bytes = 128, tag_count_bytes = 4, space_at = 16, signature_at = 36 };
    if (bytes < header_bytes + tag_count_bytes || bytes > ICC_BYTES_MAX)
        return false;
    uint64_t size = (uint32_t)icc[0] << 24 | (uint32_t)icc[1] << 16 | (uint32_t)icc[2] << 8 |
                    (uint32_t)icc[3];
    return size == bytes && memcmp(icc + space_at, "RGB ", 4) == 0 &&
           memcmp(icc + signature_at, "acsp", 4) == 0;
}
