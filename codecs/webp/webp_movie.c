#include "codecs/webp/webp_movie.h"

#include <string.h>

#include "codecs/codec_impl.h"
#include "codecs/webp/webp_chunks.h"

enum { OVERWRITES = 2, HEAD_BYTES = WEBP_MOVIE_HEAD_BYTES };
_Static_assert(RIFF_BYTES + VP8X_BYTES == WEBP_MOVIE_HEAD_BYTES, "RIFF and VP8X");

static void put_le(uint8_t *at, uint32_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

/* Bytes of a frame that are read at once. */
#define PIECE_BYTES (32 * KIB)

/* The chunks of a file that a frame keeps, which follow each other; and its profile. */
struct part {
    size_t at, bytes; /* with the headers of the chunks; 0: there is none */
};
struct parts {
    struct part image, icc;
};

static bool is_image(const uint8_t *chunk)
{
    return memcmp(chunk, "ALPH", 4) == 0 || memcmp(chunk, "VP8 ", 4) == 0 ||
           memcmp(chunk, "VP8L", 4) == 0;
}

static enum status get(const struct webp_movie_frame *frame, size_t at, uint8_t *to, size_t bytes,
                       struct error *error)
{
    if (!frame->bytes)
        return frame->read(frame->source, at, to, bytes, error);
    memcpy(to, frame->bytes + at, bytes);
    return STATUS_OK;
}

static enum status find_parts(const struct webp_movie_frame *frame, struct parts *parts,
                              struct error *error)
{
    uint8_t chunk[CHUNK_BYTES];
    *parts = (struct parts){0};
    for (size_t at = RIFF_BYTES; at + CHUNK_BYTES <= frame->length;) {
        if (get(frame, at, chunk, sizeof chunk, error) != STATUS_OK)
            return error->status;
        size_t bytes = CHUNK_BYTES + (size_t)codec_le32(chunk + 4);
        bytes += bytes % 2;
        if (bytes > frame->length - at)
            break;
        if (is_image(chunk)) {
            parts->image.at = parts->image.bytes > 0 ? parts->image.at : at;
            parts->image.bytes = at + bytes - parts->image.at;
        } else if (memcmp(chunk, "ICCP", 4) == 0) {
            parts->icc = (struct part){at, bytes};
        }
        at += bytes;
    }
    return STATUS_OK;
}

static enum status put(struct webp_movie *movie, const uint8_t *bytes, size_t length,
                       webp_movie_write_fn *write, void *context, struct error *error)
{
    movie->bytes += length;
    return length > 0 ? write(context, bytes, length, error) : STATUS_OK;
}

/* Writes a part of the frame's file, which may be as large as the memory of the host. */
static enum status put_part(struct webp_movie *movie, const struct webp_movie_frame *frame,
                            struct part part, webp_movie_write_fn *write, void *context,
                            struct error *error)
{
    uint8_t piece[PIECE_BYTES];
    if (frame->bytes)
        return put(movie, frame->bytes + part.at, part.bytes, write, context, error);
    for (size_t done = 0, bytes; done < part.bytes; done += bytes) {
        bytes = part.bytes - done < sizeof piece ? part.bytes - done : sizeof piece;
        if (get(frame, part.at + done, piece, bytes, error) != STATUS_OK ||
            put(movie, piece, bytes, write, context, error) != STATUS_OK)
            return error->status;
    }
    return STATUS_OK;
}

/* Writes what comes before the first frame. webp_movie_head replaces its beginning. */
static enum status begin(struct webp_movie *movie, const struct webp_movie_frame *frame,
                         const struct parts *parts, webp_movie_write_fn *write, void *context,
                         struct error *error)
{
    static const uint8_t head[HEAD_BYTES];
    uint8_t anim[CHUNK_BYTES + ANIM_BYTES] = "ANIM";
    uint32_t plays = frame->plays > UINT16_MAX ? 0 : frame->plays;
    movie->has_icc = parts->icc.bytes > 0;
    put_le(anim + 4, ANIM_BYTES, 4);
    put_le(anim + CHUNK_BYTES + 4, plays, 2);
    enum status status = put(movie, head, sizeof head, write, context, error);
    if (status == STATUS_OK)
        status = put_part(movie, frame, parts->icc, write, context, error);
    return status == STATUS_OK ? put(movie, anim, sizeof anim, write, context, error) : status;
}

enum status webp_movie_add(struct webp_movie *movie, const struct webp_movie_frame *frame,
                           webp_movie_write_fn *write, void *context, struct error *error)
{
    uint8_t head[CHUNK_BYTES + ANMF_BYTES] = "ANMF";
    struct parts parts;
    movie->is_still = frame->frames == 1;
    movie->width = movie->bytes == 0 ? frame->width : movie->width;
    movie->height = movie->bytes == 0 ? frame->height : movie->height;
    if (movie->is_still)
        return put_part(movie, frame, (struct part){0, frame->length}, write, context, error);
    if (find_parts(frame, &parts, error) != STATUS_OK)
        return error->status;
    if (parts.image.bytes == 0) /* uncovered: net (tests/coverage/reasons.txt) */
        return error_set(error, STATUS_ENCODE_FAILED, "a frame of the animation has no image");
    if (movie->bytes + parts.image.bytes + parts.icc.bytes > UINT32_MAX - 4096) /* uncovered: net */
        return error_set(error, STATUS_ENCODE_FAILED,
                         "the animation has more than 4 GiB, the most that a WebP can hold");
    if (movie->bytes == 0 && begin(movie, frame, &parts, write, context, error) != STATUS_OK)
        return error->status;
    movie->has_alpha |= frame->has_alpha;
    put_le(head + 4, (uint32_t)(ANMF_BYTES + parts.image.bytes), 4);
    put_le(head + CHUNK_BYTES + 6, frame->width - 1, 3);
    put_le(head + CHUNK_BYTES + 9, frame->height - 1, 3);
    put_le(head + CHUNK_BYTES + 12, frame->delay_ms < 1u << 24 ? frame->delay_ms : (1u << 24) - 1,
           3);
    head[CHUNK_BYTES + 15] = OVERWRITES;
    if (put(movie, head, sizeof head, write, context, error) != STATUS_OK)
        return error->status;
    return put_part(movie, frame, parts.image, write, context, error);
}

size_t webp_movie_head(const struct webp_movie *movie, uint8_t to[WEBP_MOVIE_HEAD_BYTES])
{
    if (movie->is_still || movie->bytes == 0)
        return 0;
    memcpy(to, "RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0", RIFF_BYTES + CHUNK_BYTES + 4);
    put_le(to + 4, (uint32_t)(movie->bytes - CHUNK_BYTES), 4);
    put_le(to + RIFF_BYTES + 4, VP8X_BYTES - CHUNK_BYTES, 4);
    to[RIFF_BYTES + CHUNK_BYTES] = (uint8_t)(FLAG_ANIMATION | (movie->has_alpha ? FLAG_ALPHA : 0) |
                                             (movie->has_icc ? FLAG_ICC : 0));
    put_le(to + RIFF_BYTES + CHUNK_BYTES + 4, movie->width - 1, 3);
    put_le(to + RIFF_BYTES + CHUNK_BYTES + 7, movie->height - 1, 3);
    return WEBP_MOVIE_HEAD_BYTES;
}
