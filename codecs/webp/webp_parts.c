/* webp_parts.c - see webp_parts.h. */
#ifdef GPUIMGD_WEBP

#include "codecs/webp/webp_parts.h"

#include <stdio.h>

#include "codecs/codec_impl.h"
#include "codecs/webp/webp_chunks.h"

/* Chunks between two checks of the deadline: they take a millisecond. */
#define CHUNKS_PER_CHECK (1u << 16)

/* A chunk, or its first bytes at the end of a truncated file. */
struct chunk {
    const uint8_t *type, *data;
    size_t bytes;
};

/* Chunks one after the other. */
struct chunks {
    const uint8_t *bytes;
    size_t at, end;
    uint64_t deadline_ns;
    uint32_t count;
    bool late;
    bool is_cut; /* the last chunk is not complete */
};

/* false: there is no more chunk, or the deadline has passed. */
static bool next_chunk(struct chunks *chunks, struct chunk *chunk)
{
    if (chunks->at >= chunks->end || chunks->end - chunks->at < CHUNK_BYTES)
        return false;
    chunks->late = ++chunks->count % CHUNKS_PER_CHECK == 0 && codec_late(chunks->deadline_ns);
    if (chunks->late)
        return false;
    const uint8_t *type = chunks->bytes + chunks->at;
    size_t bytes = codec_le32(type + 4), left = chunks->end - chunks->at - CHUNK_BYTES;
    chunks->is_cut = bytes > left;
    bytes = bytes < left ? bytes : left;
    *chunk = (struct chunk){type, type + CHUNK_BYTES, bytes};
    chunks->at += CHUNK_BYTES + bytes + bytes % 2;
    return true;
}

static bool is_type(const struct chunk *chunk, const char *type)
{
    return memcmp(chunk->type, type, 4) == 0;
}

static enum status check_time(const struct chunks *chunks, struct error *error)
{
    return !chunks->late ? STATUS_OK
                         : error_set(error, STATUS_DECODE_LIMIT,
                                     "the deadline for decoding passed in its header");
}

/* Of several chunks of a type, the first counts. */
static void take(const uint8_t **data, size_t *bytes, const struct chunk *found)
{
    if (*data)
        return;
    *data = found->data;
    *bytes = found->bytes;
}

static void take_metadata(struct webp_file *file, const struct chunk *chunk)
{
    if (is_type(chunk, "ICCP") && file->flags & FLAG_ICC)
        take(&file->icc, &file->icc_bytes, chunk);
    else if (is_type(chunk, "EXIF") && file->flags & FLAG_EXIF)
        take(&file->exif, &file->exif_bytes, chunk);
    else if (is_type(chunk, "XMP ") && file->flags & FLAG_XMP)
        take(&file->xmp, &file->xmp_bytes, chunk);
}

static void take_pixels(struct webp_image *image, const struct chunk *chunk)
{
    if (is_type(chunk, "ALPH") && !image->has_pixels) {
        image->alph = chunk->data; /* of several, libwebp reads the last one */
        image->alph_bytes = chunk->bytes;
    } else if (is_type(chunk, "VP8L") && !image->has_pixels) {
        image->has_pixels = true;
        image->vp8l = chunk->data;
    } else if (is_type(chunk, "VP8 ")) {
        image->has_pixels = true;
    }
}

static bool is_frame(const struct chunk *chunk)
{
    return is_type(chunk, "ANMF") && chunk->bytes >= ANMF_BYTES;
}

/* Refuses an image that does not begin with a chunk of one of three types. libwebp would also
 * decode an image without chunks, and a frame that is a whole file. But in these, take_pixels would
 * not find the VP8L data, which decides how much memory libwebp needs. */
static enum status check_first(const uint8_t *at, size_t length, const char types[3][5],
                               const char *what, struct error *error)
{
    char first[5] = "";
    if (length < 4)
        return STATUS_OK; /* libwebp reports the end of the data */
    for (int i = 0; i < 3; i++)
        if (memcmp(at, types[i], 4) == 0)
            return STATUS_OK;
    for (int i = 0; i < 4; i++)
        first[i] = at[i] >= ' ' && at[i] <= '~' ? (char)at[i] : '?';
    return error_set(error, STATUS_DECODE_FAILED,
                     "the first chunk of the WebP%s is \"%s\"; it must be \"%s\", \"%s\" or \"%s\"",
                     what, first, types[0], types[1], types[2]);
}

enum status webp_find_parts(const uint8_t *bytes, size_t length, uint64_t deadline_ns,
                            struct webp_file *file, struct error *error)
{
    static const char types[3][5] = {"VP8 ", "VP8L", "VP8X"};
    size_t end = (size_t)codec_le32(bytes + 4) + CHUNK_BYTES;
    struct chunks chunks = {.bytes = bytes,
                            .at = RIFF_BYTES,
                            .end = end < length ? end : length,
                            .deadline_ns = deadline_ns};
    struct chunk chunk;
    *file = (struct webp_file){bytes, chunks.end, .image = {.bytes = bytes, .length = length}};
    if (check_first(bytes + RIFF_BYTES, length - RIFF_BYTES, types, "", error) != STATUS_OK)
        return error->status;
    if (codec_has_bytes(bytes, chunks.end, RIFF_BYTES, "VP8X", 4) &&
        chunks.end > RIFF_BYTES + CHUNK_BYTES)
        file->flags = bytes[RIFF_BYTES + CHUNK_BYTES];
    while (next_chunk(&chunks, &chunk)) {
        take_metadata(file, &chunk);
        take_pixels(&file->image, &chunk);
        if (is_type(&chunk, "ANIM") && chunk.bytes >= ANIM_BYTES)
            file->plays = chunk.data[4] | (uint32_t)chunk.data[5] << 8;
        if (!is_frame(&chunk) || !(file->flags & FLAG_ANIMATION))
            continue;
        if (file->frames++ == 0)
            file->frames_at = (size_t)(chunk.type - bytes);
    }
    file->ends_early = end > length || chunks.is_cut;
    return check_time(&chunks, error);
}

/* Reads the head of a frame, and finds its parts. Metadata in a frame is ignored. */
static enum status open_frame(const struct chunk *chunk, uint32_t number, uint64_t deadline_ns,
                              struct webp_frame *frame, struct error *error)
{
    static const char types[3][5] = {"ALPH", "VP8 ", "VP8L"};
    enum { flags_at = 15, overwrites = 2, clears = 1 };
    const uint8_t *head = chunk->data, *image = head + ANMF_BYTES;
    size_t length = chunk->bytes - ANMF_BYTES;
    struct chunks chunks = {.bytes = image, .end = length, .deadline_ns = deadline_ns};
    struct chunk part;
    *frame = (struct webp_frame){.image = {.bytes = image, .length = length},
                                 .x = 2 * codec_le24(head),
                                 .y = 2 * codec_le24(head + 3),
                                 .delay_ms = codec_le24(head + 12),
                                 .overwrites = head[flags_at] & overwrites,
                                 .clears = head[flags_at] & clears};
    char what[32];
    snprintf(what, sizeof what, "'s frame %u", number);
    if (check_first(image, length, types, what, error) != STATUS_OK)
        return error->status;
    while (next_chunk(&chunks, &part))
        take_pixels(&frame->image, &part);
    return check_time(&chunks, error);
}

enum status webp_find_frame(const struct webp_file *file, size_t *at, uint32_t number,
                            uint64_t deadline_ns, struct webp_frame *frame, struct error *error)
{
    struct chunks chunks = {
        .bytes = file->bytes, .at = *at, .end = file->end, .deadline_ns = deadline_ns};
    struct chunk chunk;
    while (next_chunk(&chunks, &chunk)) {
        *at = chunks.at;
        if (is_frame(&chunk))
            return open_frame(&chunk, number, deadline_ns, frame, error);
    }
    if (check_time(&chunks, error) != STATUS_OK)
        return error->status;
    return error_set(error, STATUS_INTERNAL, /* uncovered: net (tests/coverage/reasons.txt) */
                     "the WebP no longer has a frame %u", number);
}

#endif
