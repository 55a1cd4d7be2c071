/*
 * avif_encode.c - writes AVIFs: chooses between gpuimgd's own encoder (gpu/avif/), which runs here,
 * and libaom, which runs in the codec process (libaom_encode.c).
 */
#include <assert.h>
#include <stdlib.h>

#include "codecs/avif/avif_impl.h"
#include "codecs/avif/header.h"
#include "codecs/pixel.h"
#include "gpu/avif/encode.h"

static_assert(AVIF_OWN_EFFORT_MAX - AVIF_OWN_EFFORT_MIN == AVIF_EFFORT_MAX,
              "the own encoder must have as many efforts as jobs can name");

/* The largest size of a file: that of an image of noise with quality 100 and incompressible
 * alpha. */
size_t avif_encoded_bytes(uint32_t width, uint32_t height, uint32_t channels,
                          const struct encoder_settings *settings)
{
    enum { block = 8, headers = 512 };
    (void)settings;
    size_t pixels = (width + block - 1ull) / block * block * ((height + block - 1) / block * block);
    return headers + pixels * 5 / 2 + (channels == 4 ? pixels * 3 / 2 : 0);
}

/* At least the estimate of the codec process, for 4:2:0 with 8 bits and one or two streams. */
size_t avif_decoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                          const struct encoder_settings *settings)
{
    enum { block = 128, fixed_bytes = 12 << 20 };
    (void)settings;
    size_t padded = (width / block + 2ull) * (height / block + 2ull) * block * block;
    return fixed_bytes + padded * (channels == 4 ? 11 : 7) / 2;
}

/* ---- choice ---- */

static bool may_be_own(uint32_t width, uint32_t height, uint32_t channels,
                       const struct encoder_settings *settings)
{
    return avif_is_own(settings) &&
           avif_encode_work_bytes(width, height, channels, avif_own_effort(settings)) > 0;
}

static bool is_opaque(const struct image *image)
{
    for (uint32_t y = 0; y < image->height && image->channels == 4; y++) {
        const uint8_t *row = image->pixels + y * image->stride;
        uint8_t least = UINT8_MAX;
        for (uint32_t x = 0; x < image->width; x++)
            least = row[4 * x + 3] < least ? row[4 * x + 3] : least;
        if (least < UINT8_MAX)
            return false;
    }
    return true;
}

/* ---- own encoder ---- */

/* The memory of an encode. */
struct own_memory {
    size_t work_bytes, obus_bytes;
};

static struct own_memory own_memory_of(uint32_t width, uint32_t height, uint32_t channels,
                                       const struct encoder_settings *settings)
{
    return (struct own_memory){
        .work_bytes = buffer_align(
            avif_encode_work_bytes(width, height, channels, avif_own_effort(settings))),
        .obus_bytes = buffer_align(avif_encoded_bytes(width, height, 1, settings)),
    };
}

static bool is_stopped(void *context)
{
    const struct encode_request *request = context;
    return codec_late(request->deadline_ns) ||
           (request->caller && request->caller->is_gone(request->caller));
}

static enum status refuse(enum status status, const struct image *src,
                          const struct encode_request *request, struct error *error)
{
    if (status != STATUS_CANCELLED) /* uncovered: promise (tests/coverage/reasons.txt) */
        return error_set(error, STATUS_ENCODE_FAILED,
                         "the AVIF of %u x %u pixels has more bytes than gpuimgd's encoder "
                         "expects; use effort %d, which is libaom's",
                         src->width, src->height, AVIF_OWN_EFFORT_MIN - 1);
    if (codec_late(request->deadline_ns))
        return error_set(error, STATUS_TIMEOUT,
                         "the deadline for encoding passed amid an AVIF of %u x %u pixels",
                         src->width, src->height);
    return error_set(error, STATUS_CANCELLED, "the job ended amid an AVIF of %u x %u pixels",
                     src->width, src->height);
}

static enum status put_file(const struct image *src, const struct encode_request *request,
                            const uint8_t *obus, size_t bytes, struct avif_prelude *prelude,
                            struct codec_sink *sink, struct error *error)
{
    struct avif_coded coded = {src->width, src->height, src->channels, {0}};
    size_t used = 0;
    avif_encode_config(src->width, src->height, src->channels, coded.av1c);
    avif_prelude_make(request, &coded, prelude);
    avif_prelude_end(prelude, (uint32_t)bytes, prelude->file);
    bool put = codec_put(sink, &used, prelude->file, prelude->bytes, "AVIF", error) &&
               codec_put(sink, &used, obus, bytes, "AVIF", error) &&
               codec_put_end(sink, &used, "AVIF", error);
    return put ? STATUS_OK : error->status;
}

static enum status own_encode(const struct image *src, const struct encode_request *request,
                              struct codec_sink *sink, struct error *error)
{
    const struct avif_encode_options options = {.quality = request->encoder.quality,
                                                .effort = avif_own_effort(&request->encoder)};
    struct own_memory memory =
        own_memory_of(src->width, src->height, src->channels, &request->encoder);
    uint8_t *block = aligned_alloc(BUFFER_ALIGN, memory.work_bytes + memory.obus_bytes);
    struct avif_prelude *prelude = malloc(avif_prelude_bytes(codec_metadata_bytes(request)));
    size_t bytes = 0;
    if (!block || !prelude) { /* uncovered: memory */
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory to write an AVIF of %u x %u pixels",
                  src->width, src->height);
    } else {
        uint8_t *obus = block + memory.work_bytes;
        enum status status =
            avif_encode_pixels(src, &options, is_stopped, (void *)(uintptr_t)request, block, obus,
                               memory.obus_bytes, &bytes);
        if (status != STATUS_OK)
            refuse(status, src, request, error);
        else
            put_file(src, request, obus, bytes, prelude, sink, error);
    }
    free(prelude);
    free(block);
    return error->status;
}

/* ---- both ---- */

/* An image with alpha may be opaque or not. */
size_t avif_encoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                          const struct encoder_settings *settings)
{
    size_t libaom = libaom_encoder_bytes(width, height, channels, settings);
    if (!may_be_own(width, height, channels, settings))
        return libaom;
    struct own_memory memory = own_memory_of(width, height, channels, settings);
    size_t own = memory.work_bytes + memory.obus_bytes + avif_prelude_bytes(0);
    return channels == 4 && libaom > own ? libaom : own;
}

/* Whether libaom may have the memory that it needs. */
static bool check_memory(const struct image *src, const struct encode_request *request,
                         struct error *error)
{
    size_t need = codec_encoder_bytes(request->format, src->width, src->height, src->channels,
                                      &request->encoder, codec_metadata_bytes(request));
    if (request->memory_max == 0 || need <= request->memory_max)
        return true;
    error_set(error, STATUS_OVER_BUDGET,
              "an AVIF of %u x %u pixels that are not all opaque needs %zu bytes; the limit is %zu "
              "bytes, three eighths of host_bytes less what the job needs besides",
              src->width, src->height, need, request->memory_max);
    return false;
}

enum status avif_encode(void *state, const struct image *src, const struct encode_request *request,
                        struct codec_sink *sink, struct error *error)
{
    bool needs_alpha = request->keeps_alpha && src->channels == 4;
    bool own = may_be_own(src->width, src->height, src->channels, &request->encoder) &&
               !needs_alpha && is_opaque(src);
    if (own)
        return own_encode(src, request, sink, error);
    return check_memory(src, request, error) ? libaom_encode(state, src, request, sink, error)
                                             : error->status;
}
