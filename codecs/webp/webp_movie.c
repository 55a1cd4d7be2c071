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

static enum status find_parts(const struct movie_frame *frame, struct parts *parts,
                              struct error *error)
{
    uint8_t chunk[CHUNK_BYTES];
    *parts = (struct parts){0};
    for (size_t at = RIFF_BYTES; at + CHUNK_BYTES <= frame->length;) {
        if (movie_get(frame, at, chunk, sizeof chunk, error) != STATUS_OK)
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

/* Writes what comes before the first frame. webp_movie_head replaces its beginning. */
static enum status begin(struct movie *movie, const struct movie_frame *frame,
                         const struct parts *parts, movie_write_fn *write, void *context,
                         struct error *error)
{
    static const uint8_t head[HEAD_BYTES];
    uint8_t anim[CHUNK_BYTES + ANIM_BYTES] = "ANIM";
    uint32_t plays = frame->plays < UINT16_MAX ? frame->plays : UINT16_MAX;
    movie->has_icc = parts->icc.bytes > 0;
    put_le(anim + 4, ANIM_BYTES, 4);
    put_le(anim + CHUNK_BYTES + 4, plays, 2);
    enum status status = movie_put(movie, head, sizeof head, write, context, error);
    if (status == STATUS_OK)
        status =
            movie_put_part(movie, frame, parts->icc.at, parts->icc.bytes, write, context, error);
    return status == STATUS_OK ? movie_put(movie, anim, sizeof anim, write, context, error)
                               : status;
}

enum status webp_movie_add(struct movie *movie, const struct movie_frame *frame,
                           movie_write_fn *write, void *context, struct error *error)
{
    uint8_t head[CHUNK_BYTES + ANMF_BYTES] = "ANMF";
    struct parts parts;
    if (find_parts(frame, &parts, error) != STATUS_OK)
        return error->status;
    if (parts.image.bytes == 0) /* uncovered: net (tests/coverage/reasons.txt) */
        return error_set(error, STATUS_ENCODE_FAILED, "a frame of the animation has no image");
    if (movie_check_size(movie, (uint64_t)parts.image.bytes + parts.icc.bytes, error) != STATUS_OK)
        return error->status; /* uncovered: net */
    if (movie->bytes == 0 && begin(movie, frame, &parts, write, context, error) != STATUS_OK)
        return error->status;
    movie->has_alpha |= frame->has_alpha;
    put_le(head + 4, (uint32_t)(ANMF_BYTES + parts.image.bytes), 4);
    put_le(head + CHUNK_BYTES + 6, frame->width - 1, 3);
    put_le(head + CHUNK_BYTES + 9, frame->height - 1, 3);
    put_le(head + CHUNK_BYTES + 12, frame->delay_ms < 1u << 24 ? frame->delay_ms : (1u << 24) - 1,
           3);
    head[CHUNK_BYTES + 15] = OVERWRITES;
    if (movie_put(movie, head, sizeof head, write, context, error) != STATUS_OK)
        return error->status;
    return movie_put_part(movie, frame, parts.image.at, parts.image.bytes, write, context, error);
}

size_t webp_movie_head(const struct movie *movie, uint8_t *to)
{
    memcpy(to, "RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0", RIFF_BYTES + CHUNK_BYTES + 4);
    put_le(to + 4, (uint32_t)(movie->bytes - CHUNK_BYTES), 4);
    put_le(to + RIFF_BYTES + 4, VP8X_BYTES - CHUNK_BYTES, 4);
    to[RIFF_BYTES + CHUNK_BYTES] = (uint8_t)(FLAG_ANIMATION | (movie->has_alpha ? FLAG_ALPHA : 0) |
                                             (movie->has_icc ? FLAG_ICC : 0));
    put_le(to + RIFF_BYTES + CHUNK_BYTES + 4, movie->width - 1, 3);
    put_le(to + RIFF_BYTES + CHUNK_BYTES + 7, movie->height - 1, 3);
    return WEBP_MOVIE_HEAD_BYTES;
}
