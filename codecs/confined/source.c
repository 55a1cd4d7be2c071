/* source.c - reads the file of a call (confined.h). */
#include "codecs/confined/confined.h"

struct confined_source confined_open(const struct codec_call *call, const uint8_t *region,
                                     uint64_t read_max)
{
    return (struct confined_source){.bytes = region +
                                             (call->kind == CODEC_PROBE ? 0 : CODEC_WINDOW_BYTES),
                                    .size = call->file_bytes,
                                    .ready = call->ready_bytes,
                                    .left = read_max,
                                    .ahead = CODEC_KEPT_BYTES_MAX};
}

/* Lets the daemon copy a part of the file, up to the end of the page: a header may have many small
 * boxes, and each question costs two changes of the process. */
static void fetch_part(struct confined_source *source, uint64_t at, size_t bytes)
{
    enum { page = 4096 };
    if (at >= source->from && at + bytes <= source->to)
        return;
    uint64_t end = (at + bytes + page - 1) / page * page;
    end = end < source->size ? end : source->size;
    if (end - (at + bytes) > source->ahead)
        end = at + bytes;
    source->ahead -= end - (at + bytes);
    confined_ask(&(struct codec_reply){.kind = CODEC_NEEDS, .at = at, .bytes = end - at});
    source->from = at;
    source->to = end;
}

const uint8_t *confined_read(struct confined_source *source, uint64_t at, size_t *bytes)
{
    if (at > source->size)
        return NULL;
    if (*bytes > source->size - at)
        *bytes = (size_t)(source->size - at);
    if (*bytes > source->left) {
        source->is_over = true;
        return NULL;
    }
    source->left -= *bytes;
    if (at + *bytes > source->ready)
        fetch_part(source, at, *bytes);
    return source->bytes + at;
}
