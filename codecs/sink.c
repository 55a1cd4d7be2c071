/* sink.c - collects bytes in the buffer of a struct codec_sink, for codecs whose libraries have no
 * output buffer: WebP and AVIF. png/ and jpeg/ have their own code for this. */
#include <string.h>

#include "codecs/codec_impl.h"

static bool flush(struct codec_sink *sink, size_t *used, const char *what, struct error *error)
{
    enum status status = sink->flush(sink, *used, error);
    if (status != STATUS_OK) {
        error_set(error, status, "the %s could not be written after %llu bytes", what,
                  (unsigned long long)sink->total);
        return false;
    }
    sink->total += *used;
    *used = 0;
    return true;
}

bool codec_put(struct codec_sink *sink, size_t *used, const void *bytes, size_t count,
               const char *what, struct error *error)
{
    const uint8_t *from = bytes;
    while (count > 0) {
        size_t room = sink->capacity - *used, part = room < count ? room : count;
        memcpy(sink->buffer + *used, from, part);
        *used += part;
        from += part;
        count -= part;
        if (*used == sink->capacity && !flush(sink, used, what, error))
            return false;
    }
    return true;
}

bool codec_put_end(struct codec_sink *sink, size_t *used, const char *what, struct error *error)
{
    return *used == 0 || flush(sink, used, what, error);
}
