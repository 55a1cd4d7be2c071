/*
 * set_pack.h - one output of a job with many images that holds all of them: a tar, an array, or an
 * animation (a movie).
 *
 * Images are added in their order. The file is temporary until set_pack_place renames it. A pack
 * belongs to the worker that runs the job.
 */
#pragma once

#include "codecs/archive/tar_writer.h"
#include "codecs/movie.h"
#include "daemon/files/spool.h"
#include "queue/job/job.h"

/* An image to add, or a member to copy. */
struct pack_image {
    const char *name;   /* of the input or the member */
    bool is_copy;       /* the bytes keep this name */
    const char *suffix; /* of the output's format; unused for copies */
    uint64_t modified_s;
    const uint8_t *bytes;      /* NULL: they are in `spool` from `offset` on */
    struct files_spool *spool; /* borrowed */
    uint64_t offset;
    size_t length;
    uint32_t width, height, channels; /* of an image of an array or a movie */
    uint32_t delay_ms, plays, frames; /* of a movie: of this frame, and of the animation */
};

struct set_pack {
    const struct job_output *output; /* borrowed */
    struct files_output file;
    bool is_begun;
    struct tar_writer *tar;
    uint8_t *buffer; /* of an array: `buffered` bytes that are not written yet */
    size_t buffered;
    uint64_t bytes; /* of the file */
    uint64_t images;
    uint32_t shape[3]; /* of each image of an array; 0 before the first */
    struct movie movie;
    char *sample;      /* names of the members of the last sample, each with its NUL */
    size_t sample_bytes, sample_room;
};

/* Creates the temporary file. The numbers are those of files_output_begin. Call set_pack_end in any
 * case. Errors: as files_output_begin, out_of_memory. */
enum status set_pack_begin(struct set_pack *pack, const struct job_output *output,
                           struct files *files, uint64_t job, uint64_t fetch, size_t index,
                           const struct files_making *making, struct error *error) MUST_CHECK;
/* Whether the image can be added. Else *own says why: its shape differs, or an earlier member of
 * its sample has its name. The caller asks all packs of the job first, so that an image is in each
 * of them or in none. */
bool set_pack_takes(struct set_pack *pack, const struct pack_image *image, struct error *own);
/* Adds an image that the pack takes. Errors: write_failed, out_of_memory. */
enum status set_pack_put(struct set_pack *pack, const struct pack_image *image,
                         struct error *error) MUST_CHECK;
/* Writes the end of the tar or the header of the array, and closes the file. sync: as
 * files_output_finish. */
enum status set_pack_finish(struct set_pack *pack, bool sync, struct error *error) MUST_CHECK;
/* Closes everything, and removes the file unless it has been renamed. Idempotent. */
void set_pack_end(struct set_pack *pack);
