/* codec.c - finds the codec of a format and calls its functions (codec.h). */
#include "codecs/codec_impl.h"

#include <assert.h>
#include <stdlib.h>

#include "codecs/animation.h"
#include "codecs/gain_map.h"
#include "codecs/pixel.h"
#include "codecs/process/transfer.h"

static const struct codec *const codecs[FORMAT_COUNT] = {
#define FORMAT(name, ...) &codec_##name,
#include "conf/formats.def"
};

struct codec_context {
    void *state[FORMAT_COUNT];
    struct codec_process process; /* of all formats with a library */
    struct codec_pixels pixels;
};

struct codec_context *codec_context_create(void)
{
    struct codec_context *context = calloc(1, sizeof *context);
    if (context == NULL) /* uncovered: memory (tests/coverage/reasons.txt) */
        return NULL;
    for (int i = 0; i < FORMAT_COUNT; i++) {
        size_t bytes = codecs[i]->state_bytes;
        context->state[i] = calloc(1, bytes > 0 ? bytes : 1);
        if (context->state[i] == NULL) { /* uncovered: memory */
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
    for (int i = 0; i < FORMAT_COUNT; i++)
        free(context->state[i]);
    codec_process_close(&context->process);
    free(context);
}

struct codec_pixels *codec_pixels_of(struct codec_context *context)
{
    return &context->pixels;
}

static const struct codec *codec_of(const struct format *format)
{
    return codecs[format - formats];
}

static void *state_of(struct codec_context *context, const struct format *format)
{
    return format->library ? &context->process : context->state[format - formats];
}

const struct format *codec_sniff(const uint8_t *bytes, size_t length)
{
    for (int i = 0; i < FORMAT_COUNT; i++)
        if (codecs[i]->sniff(bytes, length))
            return &formats[i];
    return NULL;
}

const char *codec_refusal(const struct format *format, bool writes)
{
    const struct codec *codec = codec_of(format);
    return codec->refusal ? codec->refusal(writes) : NULL;
}

bool codec_lacks(const struct format *format)
{
    return codec_refusal(format, false) && (!format->library || codec_process_is_known());
}

static enum status refuse_foreign(const uint8_t *bytes, size_t length, struct error *error)
{
    char known[FORMAT_LIST_BYTES];
    if (length == 0)
        return error_set(error, STATUS_UNSUPPORTED_FORMAT, "the input is empty (0 bytes)");
    const char *name = codec_foreign_name(bytes, length);
    if (name != NULL)
        return error_set(error, STATUS_UNSUPPORTED_FORMAT, "the input is %s; gpuimgd reads %s",
                         name, format_list(FORMAT_TITLES, FORMATS_READ, "%s", " and ", known));
    return error_set(error, STATUS_UNSUPPORTED_FORMAT, "the input's %zu bytes are neither %s",
                     length, format_list(FORMAT_NOUNS, FORMATS_READ, "%s", " nor ", known));
}

enum status codec_probe(struct codec_context *context, const uint8_t *bytes, size_t length,
                        const struct codec_limits *limits, struct image_info *info,
                        struct error *error)
{
    *info = (struct image_info){.orientation = 1, .frames = 1};
    const struct format *format = codec_sniff(bytes, length);
    if (format == NULL)
        return refuse_foreign(bytes, length, error);
    info->format = format;
    const char *refusal = codec_refusal(format, false);
    if (refusal)
        return error_set(error, STATUS_UNSUPPORTED_FORMAT, "the input is %s, but %s", format->noun,
                         refusal);
    info->gain_map = gain_map_is_in(bytes, length);
    enum status status =
        codec_of(format)->probe(state_of(context, format), bytes, length, limits, info, error);
    if (status == STATUS_OK && info->frames > FRAMES_MAX)
        status = error_set(error, STATUS_DECODE_LIMIT, "the %s has more than %d %ss",
                           format_title(format), FRAMES_MAX, format_part(format));
    return status;
}

/* Moves one kind of metadata from the second probe of a file to the info of the first one, unless
 * it is there. false: its size differs from the first probe. */
static bool take(uint8_t **from, size_t from_bytes, uint8_t **to, size_t to_bytes)
{
    if (to_bytes == 0 || *to)
        return true;
    *to = *from;
    *from = NULL;
    return from_bytes == to_bytes;
}

enum status codec_read_metadata(struct codec_context *context, const uint8_t *bytes, size_t length,
                                const struct codec_limits *limits, struct image_info *info,
                                struct error *error)
{
    struct image_info again;
    if ((info->icc || info->icc_bytes == 0) && (info->exif || info->exif_bytes == 0) &&
        (info->xmp || info->xmp_bytes == 0) &&
        (info->notice_exif || info->notice_exif_bytes == 0) &&
        (info->notice_xmp || info->notice_xmp_bytes == 0))
        return STATUS_OK;
    enum status status = codec_probe(context, bytes, length, limits, &again, error);
    if (status == STATUS_OK &&
        !(take(&again.icc, again.icc_bytes, &info->icc, info->icc_bytes) &&
          take(&again.exif, again.exif_bytes, &info->exif, info->exif_bytes) &&
          take(&again.xmp, again.xmp_bytes, &info->xmp, info->xmp_bytes) &&
          take(&again.notice_exif, again.notice_exif_bytes, &info->notice_exif,
               info->notice_exif_bytes) &&
          take(&again.notice_xmp, again.notice_xmp_bytes, &info->notice_xmp,
               info->notice_xmp_bytes)))
        status = error_set(error, STATUS_INTERNAL,
                           "the metadata has %zu bytes, but had %zu when it was probed",
                           image_info_metadata_bytes(&again, METADATA_ALL),
                           image_info_metadata_bytes(info, METADATA_ALL));
    image_info_clear(&again);
    if (status != STATUS_OK)
        image_info_drop_metadata(info);
    return status;
}

bool codec_read_frame(struct codec_context *context, const uint8_t *bytes, size_t length,
                      const struct image_info *info, const struct codec_limits *limits,
                      struct jpeg_frame *frame)
{
    const struct codec *codec = codec_of(info->format);
    return codec->frame != NULL &&
           codec->frame(state_of(context, info->format), bytes, length, limits, frame);
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
    assert(dst->channels == codec_channels(info, request->as));
    assert(request->as != DECODE_CMYK || info->cmyk);
    assert(request->as != DECODE_DEEP || info->deep);
    assert(request->as != DECODE_YCC || info->ycc);
    assert(request->as != DECODE_LUMA || info->ycc || info->channels == 1);
    assert(dst->stride >= (size_t)dst->width * dst->channels);
    if (codec_late(limits->deadline_ns))
        return error_set(error, STATUS_DECODE_LIMIT,
                         "the deadline for decoding passed before its start");
    return codec_of(info->format)->decode(state_of(context, info->format), bytes, length, info,
                                          request, limits, dst, error);
}

enum status codec_measure_text(struct codec_context *context, const uint8_t *bytes, size_t length,
                               const struct codec_limits *limits, struct image_info *info,
                               struct error *error)
{
    const char *refusal = codec_text_refusal();
    *info = (struct image_info){.orientation = 1, .frames = 1, .format = &codec_text_format};
    if (refusal)
        return error_set(error, STATUS_BAD_OP, "%s", refusal);
    return codec_process_probe(&context->process, bytes, length, limits, info, error);
}

enum status codec_draw_text(struct codec_context *context, const uint8_t *bytes, size_t length,
                            const struct image_info *info, const struct codec_limits *limits,
                            const struct image *dst, struct error *error)
{
    const struct decode_request request = {.as = DECODE_COLOUR};
    return codec_process_decode(&context->process, bytes, length, info, &request, limits, dst,
                                error);
}

bool codec_composes(const struct format *format)
{
    return codec_of(format)->next_frame != NULL;
}

enum status codec_next_frame(struct codec_context *context, struct codec_animation *animation,
                             const struct image *canvas, struct error *error)
{
    const struct format *format = animation->info.format;
    return codec_of(format)->next_frame(state_of(context, format), animation, canvas, error);
}

void codec_context_leave(struct codec_context *context)
{
    codec_process_leave(&context->process);
}

size_t codec_encoded_bytes(const struct format *format, uint32_t width, uint32_t height,
                           uint32_t channels, const struct encoder_settings *settings,
                           size_t metadata_bytes)
{
    enum { header_bytes = 4096 };
    /* Metadata may take a little more than its size: a JPEG splits a profile into segments of
     * 64 KiB, a PNG deflates it. header_bytes allow for the headers of chunks and boxes. */
    size_t bytes = header_bytes + metadata_bytes + metadata_bytes / 1024 +
                   codec_of(format)->encoded_bytes(width, height, channels, settings);
    size_t most = settings->max_bytes > 0 ? (size_t)settings->max_bytes : SIZE_MAX;
    return bytes < most ? bytes : most;
}

size_t codec_encoder_bytes(const struct format *format, uint32_t width, uint32_t height,
                           uint32_t channels, const struct encoder_settings *settings,
                           size_t metadata_bytes)
{
    const struct codec *codec = codec_of(format);
    size_t bytes = codec->metadata_copies * metadata_bytes;
    return bytes +
           (codec->encoder_bytes ? codec->encoder_bytes(width, height, channels, settings) : 0);
}

size_t codec_decoder_bytes(const struct format *format, uint32_t width, uint32_t height,
                           uint32_t channels, const struct encoder_settings *settings)
{
    enum { page = 4096 };
    size_t region = format->library ? CODEC_WINDOW_BYTES + page : 0;
    return region + codec_of(format)->decoder_bytes(width, height, channels, settings);
}

uint32_t codec_opaque_channels(const struct format *format, uint32_t channels)
{
    return channels == 4 && codec_of(format)->drops_opaque_alpha ? 3 : channels;
}

uint64_t codec_encoder_blind_ns(const struct format *format, uint32_t width, uint32_t height,
                                uint32_t channels, const struct encoder_settings *settings)
{
    enum { slower = 4 }; /* old processors, and two threads that share one */
    const struct codec *codec = codec_of(format);
    uint64_t pixels = (uint64_t)width * height;
    return codec->encoder_blind_ns ? slower * pixels * codec->encoder_blind_ns(channels, settings)
                                   : 0;
}

enum status codec_encode(struct codec_context *context, const struct image *src,
                         const struct encode_request *request, struct codec_sink *sink,
                         struct error *error)
{
    const struct format *format = request->format;
    uint32_t samples = image_samples(src->channels);
    assert(samples == 1 || samples == 3 || (samples == 4 && format->alpha));
    assert(!image_is_deep(src->channels) || format->parameters & TAKES(depth));
    assert(sink->capacity >= 4096);
    sink->total = 0;
    if (codec_late(request->deadline_ns))
        return error_set(error, STATUS_TIMEOUT,
                         "the deadline for encoding passed before its start");
    return codec_of(format)->encode(state_of(context, format), src, request, sink, error);
}

/* Measured with libjxl 0.7 as the growth of the address space: 56 bytes per pixel with sides that
 * are multiples of 64, and some copies of the file, in the region and in buffers that grow. */
static size_t recompress_work_bytes(const struct image_info *info, size_t length)
{
    enum { fixed_bytes = 16 << 20, pixel_bytes = 64, copies = 6, unit = 64 };
    size_t across = (info->width + unit - 1) / unit, down = (info->height + unit - 1) / unit;
    return fixed_bytes + across * down * unit * unit * pixel_bytes + copies * length;
}

size_t codec_recompress_bytes(const struct image_info *info, size_t length)
{
    return CODEC_WINDOW_BYTES + length + recompress_work_bytes(info, length);
}

enum status codec_recompress(struct codec_context *context, const uint8_t *bytes, size_t length,
                             const struct image_info *info, const struct encode_request *request,
                             struct codec_sink *sink, struct error *error)
{
    assert(format_recompressed(info->format) == request->format);
    assert(sink->capacity >= 4096);
    sink->total = 0;
    if (codec_late(request->deadline_ns))
        return error_set(error, STATUS_TIMEOUT,
                         "the deadline for encoding passed before its start");
    return codec_process_recompress(&context->process, bytes, length, request,
                                    recompress_work_bytes(info, length), sink, error);
}
