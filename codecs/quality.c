#include "codecs/quality.h"

#include <assert.h>

static enum status discard(struct codec_sink *sink, size_t used, struct error *error)
{
    (void)sink, (void)used, (void)error; /* codec_encode counts the bytes in sink->total */
    return STATUS_OK;
}

enum status codec_find_quality(struct codec_context *context, const struct image *src,
                               const struct encode_request *request, uint8_t *buffer,
                               size_t capacity, int *quality, struct error *error)
{
    struct quality_search search = {.bytes_max = (uint64_t)request->encoder.max_bytes,
                                    .more = request->format->library != NULL};
    struct codec_sink sink = {.buffer = buffer, .capacity = capacity, .flush = discard};
    struct encode_request trial = *request;
    assert(request->encoder.max_bytes > 0 && request->format->parameters & TAKES(quality));
    do {
        enum status status = codec_encode(context, src, &trial, &sink, error);
        if (status != STATUS_OK)
            return status;
        quality_search_add(&search, trial.encoder.quality, sink.total);
        trial.encoder.quality = quality_search_next(&search);
    } while (trial.encoder.quality > 0);
    *quality = search.fits.quality;
    if (search.fits.quality > 0)
        return STATUS_OK;
    size_t metadata = (request->icc ? request->icc_bytes : 0) +
                      (request->exif ? request->exif_bytes : 0) +
                      (request->xmp ? request->xmp_bytes : 0);
    return error_set(error, STATUS_ENCODE_FAILED,
                     "the %s has %llu bytes at quality %d, the lowest, with %zu bytes of metadata, "
                     "but max_bytes is %d; raise max_bytes, keep less metadata, or make the image "
                     "smaller", format_title(request->format),
                     (unsigned long long)search.above.bytes, search.above.quality, metadata,
                     request->encoder.max_bytes);
}
