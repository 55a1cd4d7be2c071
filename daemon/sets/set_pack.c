#include "daemon/sets/set_pack.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codecs/tensor.h"
#include "queue/job/member_name.h"

/* Of an array, whose images may be small. A tar has a buffer of its own. */
#define PACK_BUFFER_BYTES TAR_BLOCK_BYTES
/* An image in a spool file is copied in pieces of this size, on the stack. */
#define PACK_PIECE_BYTES (32 * KIB)

/* ---- bytes of the file ---------------------------------------------------------------------- */

static enum status flush(struct set_pack *pack, struct error *error)
{
    size_t bytes = pack->buffered;
    pack->buffered = 0;
    return bytes > 0 ? files_output_write(&pack->file, pack->buffer, bytes, error) : STATUS_OK;
}

static enum status append(void *context, const uint8_t *bytes, size_t length, struct error *error)
{
    struct set_pack *pack = context;
    pack->bytes += length;
    bool fits = pack->buffer && length <= PACK_BUFFER_BYTES - pack->buffered;
    if (!fits && flush(pack, error) != STATUS_OK)
        return error->status;
    if (!pack->buffer || length >= PACK_BUFFER_BYTES)
        return files_output_write(&pack->file, bytes, length, error);
    memcpy(pack->buffer + pack->buffered, bytes, length);
    pack->buffered += length;
    return STATUS_OK;
}

/* Appends a part of the image. */
static enum status add_bytes(struct set_pack *pack, const uint8_t *bytes, size_t length,
                             struct error *error)
{
    return pack->tar ? tar_writer_add(pack->tar, bytes, length, error)
                     : append(pack, bytes, length, error);
}

static enum status add_image(struct set_pack *pack, const struct pack_image *image,
                             struct error *error)
{
    uint8_t piece[PACK_PIECE_BYTES];
    if (image->bytes)
        return add_bytes(pack, image->bytes, image->length, error);
    for (size_t at = 0, count; at < image->length; at += count) {
        count = image->length - at < sizeof piece ? image->length - at : sizeof piece;
        if (files_spool_read(image->spool, image->offset + at, piece, count, error) != STATUS_OK ||
            add_bytes(pack, piece, count, error) != STATUS_OK)
            break;
    }
    return error->status;
}

/* Of an array or a movie. */
static const struct format *pack_format(const struct set_pack *pack)
{
    const struct job_output *output = pack->output;
    return output->format ? format_by_name(output->format) : format_of_path(output->place.path);
}

static enum status begin_content(struct set_pack *pack, struct error *error)
{
    static const uint8_t zeros[NPY_HEADER_BYTES];
    if (pack->output->pack == JOB_TAR) {
        pack->tar = tar_writer_open(append, pack, error);
        return error->status;
    }
    pack->movie.format = pack_format(pack);
    if (pack->output->pack == JOB_MOVIE)
        return STATUS_OK;
    pack->buffer = malloc(PACK_BUFFER_BYTES);
    if (!pack->buffer)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a buffer of \"%.200s\"",
                         pack->output->place.path);
    /* The count of images is known only at the end. */
    return append(pack, zeros, tensor_header_bytes(pack_format(pack)), error);
}

enum status set_pack_begin(struct set_pack *pack, const struct job_output *output,
                           struct files *files, uint64_t job, uint64_t fetch, size_t index,
                           const struct files_making *making, struct error *error)
{
    *pack = (struct set_pack){.output = output, .is_begun = true};
    if (files_output_begin(files, &pack->file, output->place.path, job, fetch, index, making,
                           error) != STATUS_OK)
        return error->status;
    return begin_content(pack, error);
}

/* ---- images --------------------------------------------------------------------------------- */

/* The key of a WebDataset's sample: the name up to the first dot of its last part. */
static size_t key_bytes(const char *name)
{
    const char *slash = strrchr(name, '/'), *dot = strchr(slash ? slash + 1 : name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

static bool same_key(const char *a, const char *b)
{
    size_t bytes = key_bytes(a);
    return bytes == key_bytes(b) && memcmp(a, b, bytes) == 0;
}

/* Whether the last sample has this name already. Forgets it if the name is of another sample. */
static bool is_taken(struct set_pack *pack, const char *name)
{
    if (pack->sample_bytes > 0 && !same_key(pack->sample, name))
        pack->sample_bytes = 0;
    for (size_t at = 0; at < pack->sample_bytes; at += strlen(pack->sample + at) + 1)
        if (strcmp(pack->sample + at, name) == 0)
            return true;
    return false;
}

static enum status note_name(struct set_pack *pack, const char *name, struct error *error)
{
    size_t bytes = strlen(name) + 1;
    if (pack->sample_bytes + bytes > SET_SAMPLE_BYTES_MAX)
        pack->sample_bytes = 0; /* a hostile sample of very many members */
    if (pack->sample_bytes + bytes > pack->sample_room) {
        size_t room = 2 * (pack->sample_bytes + bytes);
        char *grown = realloc(pack->sample, room);
        if (!grown)
            return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the names of a sample");
        pack->sample = grown;
        pack->sample_room = room;
    }
    memcpy(pack->sample + pack->sample_bytes, name, bytes);
    pack->sample_bytes += bytes;
    return STATUS_OK;
}

struct member_name {
    char text[SET_NAME_BYTES_MAX + 16];
};

/* As much as there is room for. Returns the end. snprintf takes several times as long. */
static char *append_text(char *to, char *end, const char *text, size_t bytes)
{
    size_t room = (size_t)(end - to);
    bytes = bytes < room ? bytes : room;
    memcpy(to, text, bytes);
    return to + bytes;
}

static struct member_name name_member(const struct pack_image *image)
{
    struct member_name name;
    char *end = name.text + sizeof name.text - 1;
    size_t stem = image->is_copy ? strlen(image->name) : member_stem(image->name);
    char *at = append_text(name.text, end, image->name, stem);
    if (!image->is_copy) {
        at = append_text(at, end, ".", 1);
        at = append_text(at, end, image->suffix, strlen(image->suffix));
    }
    *at = '\0';
    return name;
}

static enum status put_member(struct set_pack *pack, const struct pack_image *image,
                              struct error *error)
{
    struct member_name name = name_member(image);
    is_taken(pack, name.text); /* forgets another sample */
    if (note_name(pack, name.text, error) != STATUS_OK)
        return error->status;
    if (tar_writer_begin(pack->tar, name.text, image->modified_s, image->length, error) !=
        STATUS_OK)
        return error->status;
    return add_image(pack, image, error);
}

static void measure(const struct set_pack *pack, const struct pack_image *image, uint32_t shape[3])
{
    tensor_shape(&pack->output->encoder, image->width, image->height, image->channels, shape);
}

static bool takes_shape(const struct set_pack *pack, const struct pack_image *image,
                        struct error *own)
{
    uint32_t shape[3];
    const uint32_t *first = pack->shape;
    measure(pack, image, shape);
    if (pack->images == 0 || memcmp(first, shape, sizeof shape) == 0)
        return true;
    error_set(own, STATUS_BAD_JOB,
              "the image has the shape %u x %u x %u, but those before it in "
              "\"%.100s\" have %u x %u x %u; resize, crop or pad all images to one size, and set "
              "channels",
              shape[0], shape[1], shape[2], pack->output->place.path, first[0], first[1], first[2]);
    return false;
}

static bool takes_size(const struct set_pack *pack, const struct pack_image *image,
                       struct error *own)
{
    const struct movie *movie = &pack->movie;
    if (pack->images == 0 || (movie->width == image->width && movie->height == image->height))
        return true;
    error_set(
        own, STATUS_BAD_JOB,
        "the frame has %u x %u pixels, but those before it in \"%.100s\" have %u x %u; resize, "
        "crop or pad all frames to one size",
        image->width, image->height, pack->output->place.path, movie->width, movie->height);
    return false;
}

bool set_pack_takes(struct set_pack *pack, const struct pack_image *image, struct error *own)
{
    if (image->is_copy)
        return true;
    if (pack->output->pack == JOB_MOVIE)
        return takes_size(pack, image, own);
    if (pack->output->pack != JOB_TAR)
        return takes_shape(pack, image, own);
    struct member_name name = name_member(image);
    if (!is_taken(pack, name.text))
        return true;
    error_set(own, STATUS_BAD_JOB,
              "an earlier member of the same sample has the name \"%.150s\" "
              "in \"%.100s\", too",
              name.text, pack->output->place.path);
    return false;
}

static enum status read_spilled(void *source, size_t at, uint8_t *to, size_t bytes,
                                struct error *error)
{
    const struct pack_image *image = source;
    return files_spool_read(image->spool, image->offset + at, to, bytes, error);
}

static enum status put_frame(struct set_pack *pack, const struct pack_image *image,
                             struct error *error)
{
    struct pack_image source = *image;
    const struct movie_frame frame = {.bytes = image->bytes,
                                      .read = read_spilled,
                                      .source = &source,
                                      .length = image->length,
                                      .width = image->width,
                                      .height = image->height,
                                      .has_alpha = image->channels == 4,
                                      .delay_ms = image->delay_ms,
                                      .plays = image->plays,
                                      .frames = image->frames};
    return movie_add(&pack->movie, &frame, append, pack, error);
}

enum status set_pack_put(struct set_pack *pack, const struct pack_image *image, struct error *error)
{
    if (pack->output->pack == JOB_TAR) {
        put_member(pack, image, error);
    } else if (pack->output->pack == JOB_MOVIE) {
        put_frame(pack, image, error);
    } else if (!image->is_copy) {
        measure(pack, image, pack->shape);
        add_image(pack, image, error);
    }
    pack->images += error->status == STATUS_OK && !image->is_copy;
    return error->status;
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Writes the beginning of the file, which is known only at the end. */
static enum status write_head(struct set_pack *pack, const uint8_t *head, size_t bytes,
                              struct error *error)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t count = pwrite(pack->file.fd, head + at, bytes - at, (off_t)at);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0) {
            pack->file.reason = errno;
            return error_set(error, STATUS_WRITE_FAILED,
                             "the header of \"%.200s\" cannot be written: %s",
                             pack->output->place.path, strerror(errno));
        }
        at += (size_t)count;
    }
    return STATUS_OK;
}

static enum status finish_array(struct set_pack *pack, struct error *error)
{
    uint8_t header[NPY_HEADER_BYTES];
    tensor_write_array_header(&pack->output->encoder, pack->images, pack->shape, header);
    return write_head(pack, header, tensor_header_bytes(pack_format(pack)), error);
}

static enum status finish_movie(struct set_pack *pack, struct error *error)
{
    uint8_t *head;
    size_t bytes;
    if (movie_head(&pack->movie, &head, &bytes, error) != STATUS_OK)
        return error->status;
    enum status status = write_head(pack, head, bytes, error);
    free(head);
    return status;
}

enum status set_pack_finish(struct set_pack *pack, bool sync, struct error *error)
{
    if (pack->tar && tar_writer_finish(pack->tar, error) != STATUS_OK)
        return error->status;
    if (flush(pack, error) != STATUS_OK)
        return error->status;
    if (!pack->tar &&
        (pack->output->pack == JOB_MOVIE ? finish_movie : finish_array)(pack, error) != STATUS_OK)
        return error->status;
    return files_output_finish(&pack->file, sync, error);
}

void set_pack_end(struct set_pack *pack)
{
    if (!pack->is_begun)
        return;
    tar_writer_close(pack->tar);
    movie_clear(&pack->movie);
    free(pack->buffer);
    free(pack->sample);
    files_output_end(&pack->file);
    *pack = (struct set_pack){0};
}
