#include "codecs/movie.h"

#include <stdlib.h>
#include <string.h>

#include "codecs/avif/avif_movie.h"
#include "codecs/webp/webp_movie.h"
#include "conf/limits.h"

/* Bytes of a frame that are read at once. */
#define PIECE_BYTES (32 * KIB)

enum status movie_get(const struct movie_frame *frame, size_t at, uint8_t *to, size_t bytes,
                      struct error *error)
{
    if (!frame->bytes)
        return frame->read(frame->source, at, to, bytes, error);
    memcpy(to, frame->bytes + at, bytes);
    return STATUS_OK;
}

enum status movie_put(struct movie *movie, const uint8_t *bytes, size_t length,
                      movie_write_fn *write, void *context, struct error *error)
{
    movie->bytes += length;
    return length > 0 ? write(context, bytes, length, error) : STATUS_OK;
}

enum status movie_put_part(struct movie *movie, const struct movie_frame *frame, size_t at,
                           size_t bytes, movie_write_fn *write, void *context, struct error *error)
{
    uint8_t piece[PIECE_BYTES];
    if (frame->bytes)
        return movie_put(movie, frame->bytes + at, bytes, write, context, error);
    for (size_t done = 0, count; done < bytes; done += count) {
        count = bytes - done < sizeof piece ? bytes - done : sizeof piece;
        if (movie_get(frame, at + done, piece, count, error) != STATUS_OK ||
            movie_put(movie, piece, count, write, context, error) != STATUS_OK)
            return error->status;
    }
    return STATUS_OK;
}

enum status movie_check_size(const struct movie *movie, uint64_t more, struct error *error)
{
    enum { spare = 4096 };                        /* headers of chunks */
    if (movie->bytes + more > UINT32_MAX - spare) /* uncovered: net (tests/coverage/reasons.txt) */
        return error_set(error, STATUS_ENCODE_FAILED,
                         "the animation has more than 4 GiB, the most that %s can hold",
                         movie->format->noun);
    return STATUS_OK;
}

enum status movie_add(struct movie *movie, const struct movie_frame *frame, movie_write_fn *write,
                      void *context, struct error *error)
{
    movie->is_still = frame->frames == 1;
    movie->width = movie->bytes == 0 ? frame->width : movie->width;
    movie->height = movie->bytes == 0 ? frame->height : movie->height;
    if (movie->is_still)
        return movie_put_part(movie, frame, 0, frame->length, write, context, error);
    return (movie->format == &formats[FORMAT_avif] ? avif_movie_add : webp_movie_add)(
        movie, frame, write, context, error);
}

enum status movie_head(const struct movie *movie, uint8_t **head, size_t *bytes,
                       struct error *error)
{
    bool is_avif = movie->format == &formats[FORMAT_avif];
    *head = NULL;
    *bytes = 0;
    if (movie->is_still || movie->bytes == 0)
        return STATUS_OK;
    *head = malloc(is_avif ? avif_movie_head_bytes(movie) : WEBP_MOVIE_HEAD_BYTES);
    if (!*head) /* uncovered: memory */
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the header of an animation");
    *bytes = (is_avif ? avif_movie_head : webp_movie_head)(movie, *head);
    return STATUS_OK;
}

void movie_clear(struct movie *movie)
{
    avif_movie_clear(movie);
}
