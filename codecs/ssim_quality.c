#include "codecs/ssim_quality.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/codec_impl.h"
#include "codecs/ssim_compare.h"
#include "conf/list.h"

/* The memory of trials: a block with a file, its image and the scratch memory, and what the decoder
 * needs. */
struct memory {
    size_t file_bytes, image_bytes, scratch_bytes, decoder_bytes;
};

/* A file that is encoded, decoded and compared. */
struct trial {
    struct codec_context *context;
    const struct image *src;
    struct encode_request request;
    struct codec_sink sink;
    struct error *error;
    uint8_t *file; /* of memory.file_bytes; then the image, and the scratch memory */
    struct memory memory;
    size_t length; /* of the file */
    bool too_long; /* it did not fit, and trial->error says so */
};

/* The most channels of a decoded file. A JPEG is decoded to its Y. */
static uint32_t decoded_channels(const struct format *format, uint32_t channels)
{
    return format == &formats[FORMAT_jpeg] ? 1 : channels == 4 ? 4 : 3;
}

static struct memory memory_of(const struct format *format, uint32_t width, uint32_t height,
                               uint32_t channels, const struct encoder_settings *settings,
                               size_t metadata_bytes)
{
    struct encoder_settings any_size = *settings;
    any_size.max_bytes = 0;
    size_t file = buffer_align(
        codec_encoded_bytes(format, width, height, channels, &any_size, metadata_bytes));
    size_t decoder = codec_decoder_bytes(format, width, height, channels, settings);
    return (struct memory){
        .file_bytes = file,
        .image_bytes = buffer_align(image_bytes(width, height, decoded_channels(format, channels))),
        .scratch_bytes = buffer_align(ssim_scratch_bytes(width)),
        .decoder_bytes = decoder + (format->library ? file + metadata_bytes : 0),
    };
}

static size_t block_bytes(const struct memory *memory)
{
    return memory->file_bytes + memory->image_bytes + memory->scratch_bytes;
}

size_t codec_ssim_bytes(const struct format *format, uint32_t width, uint32_t height,
                        uint32_t channels, const struct encoder_settings *settings,
                        size_t metadata_bytes)
{
    enum { lossy = 99 }; /* quality 100 of AVIF and JPEG XL is another encoder */
    struct memory memory = memory_of(format, width, height, channels, settings, metadata_bytes);
    struct encoder_settings other = *settings;
    other.quality = settings->quality < lossy ? settings->quality : lossy;
    size_t best = codec_encoder_bytes(format, width, height, channels, settings, metadata_bytes);
    size_t rest = codec_encoder_bytes(format, width, height, channels, &other, metadata_bytes);
    size_t encoder = best > rest ? best : rest;
    return block_bytes(&memory) + (encoder > memory.decoder_bytes ? encoder : memory.decoder_bytes);
}

static enum status keep(struct codec_sink *sink, size_t used, struct error *error)
{
    struct trial *trial = container_of(sink, struct trial, sink);
    trial->too_long = used > trial->memory.file_bytes - trial->length;
    if (trial->too_long)
        return error_set(error, STATUS_ENCODE_FAILED, /* uncovered: promise */
                         "the %s has more than %zu bytes at quality %d, too many to compare it; "
                         "lower max of the quality",
                         format_title(trial->request.format), trial->memory.file_bytes,
                         trial->request.encoder.quality);
    memcpy(trial->file + trial->length, sink->buffer, used);
    trial->length += used;
    return STATUS_OK;
}

/* The error of a file that cannot be read: it is not the job's input. */
static enum status fail_reading(const struct trial *trial, const struct error *why)
{
    if (codec_late(trial->request.deadline_ns))
        return error_set(trial->error, STATUS_TIMEOUT,
                         "the deadline for encoding passed amid the search for a quality");
    if (why->status == STATUS_CANCELLED || why->status == STATUS_OUT_OF_MEMORY)
        return error_set(trial->error, why->status, "%s", why->text);
    return error_set(
        trial->error, STATUS_ENCODE_FAILED, "the %s of quality %d cannot be read to compare it: %s",
        format_title(trial->request.format), trial->request.encoder.quality, why->text);
}

/* Decodes the file. The image has the pixels after it in the block. */
static enum status read_file(struct trial *trial, struct image *image, struct error *why)
{
    const struct image *src = trial->src;
    const struct encode_request *request = &trial->request;
    const struct codec_limits limits = {.pixels_max = (uint64_t)src->width * src->height,
                                        .side_max =
                                            src->width > src->height ? src->width : src->height,
                                        .jpeg_scans_max = JPEG_SCANS_DEFAULT,
                                        .deadline_ns = request->deadline_ns,
                                        .caller = request->caller};
    struct image_info info;
    size_t most = trial->memory.decoder_bytes;
    if (codec_probe(trial->context, trial->file, trial->length, &limits, &info, why) == STATUS_OK) {
        bool is_jpeg = request->format == &formats[FORMAT_jpeg];
        const struct decode_request decode = {.as = is_jpeg ? DECODE_LUMA : DECODE_COLOUR};
        image->channels = codec_channels(&info, decode.as);
        image->stride = image_stride(info.width, image->channels);
        if (info.width != src->width || info.height != src->height || info.codec_bytes > most ||
            image->channels > decoded_channels(request->format, src->channels))
            error_set(why, STATUS_INTERNAL, /* uncovered: promise */
                      "it is %u x %u x %u and needs %zu bytes of memory; expected were %u x %u and "
                      "%zu",
                      info.width, info.height, image->channels, info.codec_bytes, src->width,
                      src->height, most);
        else
            (void)!codec_decode(trial->context, trial->file, trial->length, &info, &decode, &limits,
                                image, why); /* why has the status, too */
    }
    image_info_clear(&info);
    return why->status;
}

/* Encodes with a quality, and decodes and compares the file. */
static enum status try_quality(struct trial *trial, int quality, struct ssim_trial *result)
{
    const struct encode_request *request = &trial->request;
    const struct image *src = trial->src;
    struct error why = {0};
    struct image image = {.pixels = trial->file + trial->memory.file_bytes,
                          .width = src->width,
                          .height = src->height};
    trial->request.encoder.quality = quality;
    trial->length = 0;
    trial->too_long = false;
    if (request->caller && request->caller->is_gone(request->caller))
        return error_set(trial->error, STATUS_CANCELLED,
                         "the job ended amid the search for a quality");
    if (codec_encode(trial->context, src, request, &trial->sink, trial->error) != STATUS_OK)
        return trial->error->status;
    if (read_file(trial, &image, &why) != STATUS_OK)
        return fail_reading(trial, &why);
    *result = (struct ssim_trial){
        quality,
        ssim_compare(src, &image, image.pixels + trial->memory.image_bytes, request->deadline_ns)};
    return result->ssim < 0 ? fail_reading(trial, &why) : STATUS_OK;
}

/* The files of trials have no metadata that cannot change their pixels. */
static enum status begin(struct trial *trial, uint8_t *buffer, size_t capacity)
{
    struct encode_request *request = &trial->request;
    request->exif = request->xmp = NULL;
    request->exif_bytes = request->xmp_bytes = 0;
    request->orientation = 1;
    trial->sink = (struct codec_sink){.buffer = buffer, .capacity = capacity, .flush = keep};
    const struct image *src = trial->src;
    trial->memory = memory_of(request->format, src->width, src->height, src->channels,
                              &request->encoder, request->icc ? request->icc_bytes : 0);
    trial->file = aligned_alloc(BUFFER_ALIGN, block_bytes(&trial->memory));
    if (!trial->file) /* uncovered: memory */
        return error_set(trial->error, STATUS_OUT_OF_MEMORY, "no memory of %zu bytes to compare %s",
                         block_bytes(&trial->memory), request->format->noun);
    return STATUS_OK;
}

enum status codec_measure_ssim(struct codec_context *context, const struct image *src,
                               const struct encode_request *request, uint8_t *buffer,
                               size_t capacity, struct ssim_trial *found, struct error *error)
{
    struct trial trial = {.context = context, .src = src, .request = *request, .error = error};
    enum status status = begin(&trial, buffer, capacity);
    if (status == STATUS_OK)
        status = try_quality(&trial, request->encoder.quality, found);
    free(trial.file);
    return status;
}

enum status codec_find_ssim(struct codec_context *context, const struct image *src,
                            const struct encode_request *request, uint8_t *buffer, size_t capacity,
                            struct ssim_trial *found, struct error *error)
{
    const struct encoder_settings *settings = &request->encoder;
    struct ssim_search search = {
        .target = settings->ssim, .least = settings->quality_min, .most = settings->quality};
    struct trial trial = {.context = context, .src = src, .request = *request, .error = error};
    assert(search.target > 0 && search.target < SSIM_ONE && search.least <= search.most);
    enum status status = begin(&trial, buffer, capacity);
    for (int quality; status == STATUS_OK && (quality = ssim_search_next(&search)) > 0;) {
        status = try_quality(&trial, quality, found);
        if (status == STATUS_OK) {
            ssim_search_add(&search, quality, found->ssim);
        } else if (trial.too_long && quality > search.least) { /* uncovered: promise */
            *error = (struct error){0};
            status = STATUS_OK;
            ssim_search_exclude(&search, quality);
        }
    }
    *found = search.reaches.quality > 0 ? search.reaches : search.below;
    free(trial.file);
    return status;
}
