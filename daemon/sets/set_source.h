/*
 * set_source.h - gives the images of a job with many images, one after the other: the places of a
 * list, the files of a folder, the members of an archive, or the frames of an animation.
 *
 * A source belongs to the owner of its job: a worker, or the loop while no worker runs the job.
 */
#pragma once

#include "codecs/archive/archive_reader.h"
#include "daemon/files/folder.h"
#include "daemon/files/spool.h"
#include "daemon/sets/frame_source.h"
#include "gpu/engine/pool.h"
#include "queue/job/job.h"

struct admission;
struct overlays;

/* What a source gives next. */
enum source_step {
    SOURCE_IMAGE, /* an image to process */
    SOURCE_COPY,  /* a member of an archive that is copied as it is */
    SOURCE_END,   /* there is nothing more */
    SOURCE_WAITS, /* the pool of input files has no room for the member now */
    SOURCE_FAILED /* the error says why the job cannot go on */
};

struct source_image {
    const struct job_place *place; /* of a list; borrowed. NULL: see `name` */
    char *name; /* of a file, "folder/name", or of a member; malloc'd, for the caller. NULL: see
                   `place` */
    struct pool_block block; /* a member's bytes, for the caller; empty: none, or an error */
    uint64_t bytes;          /* of the member */
    bool is_in_file;         /* the member's bytes are at `offset` in the file of set_source, and
                                `block` is empty */
    uint64_t offset;
    uint64_t modified_s;     /* Unix time of the member; 0 for others */
    uint32_t delay_ms;       /* how long a frame is shown */
    struct error error;      /* of this image only: the job may go on without it */
};

struct set_source {
    const struct job *job;     /* borrowed */
    const char *ns;            /* the namespace; borrowed */
    const struct files *files; /* borrowed */
    struct pool *pool;         /* of input files; borrowed */
    struct overlays *overlays; /* in this pool; borrowed */
    /* admission_lend_long and admission_end_long, for the codec of an animation. */
    bool (*lend)(struct admission *admission, size_t bytes, bool *exhausted);
    void (*end_loan)(struct admission *admission, size_t bytes);
    struct admission *admission;
    size_t lent;               /* bytes of a loan */
    uint64_t taken_bytes;      /* of the pool, by all members so far */
    bool is_idle;              /* no image of the set is in flight: it may take more room */
    bool copies;               /* whether the caller wants members that do not match */
    uint64_t bytes_max;        /* of a member */
    uint32_t sharers;          /* jobs that may hold a canvas at once */
    int fd;                    /* of an archive; -1: none */
    uint64_t archive_bytes;    /* of the file with this descriptor */
    struct files_identity identity; /* of an archive with a path */
    struct archive_reader *reader;
    struct archive_member member; /* that waits for room */
    bool has_member;
    struct files_names names; /* of a folder */
    struct frame_source frames;  /* of an animation */
    struct codec_limits limits;  /* the same, without a deadline */
    double decode_timeout_s;     /* of each frame */
    uint64_t deadline_ns;        /* of the job, for the next image */
    struct image_info animation; /* of its header, without metadata, after the first frame */
    uint32_t plays;              /* how often it is shown; 0: for ever */
    uint64_t next;            /* index of the next place or name */
    uint64_t skipped;         /* links and special files that match, or that would be copied */
};

/* Stores an archive from a key or a URL in a file without a name, so that it needs no memory while
 * the job waits for its turn. If it fails, the caller closes *spool, which says why. */
enum status set_source_spool(struct set_source *source, const uint8_t *bytes, size_t length,
                             struct files_spool *spool, struct error *error) MUST_CHECK;
/* Opens the archive, or reads the folder. Call set_source_close in any case. Errors: those of
 * files_open_input, files_list and archive_reader_open. */
enum status set_source_open(struct set_source *source, struct error *error) MUST_CHECK;
/* Fills in *image for SOURCE_IMAGE and SOURCE_COPY. */
enum source_step set_source_next(struct set_source *source, struct source_image *image,
                                 struct error *error);
/* Whether all frames of an animation with this header can be composed with this much memory.
 * Errors: over_budget. */
bool set_source_may_compose(const struct image_info *info, size_t file_bytes, uint64_t host_bytes,
                            uint32_t sharers, struct error *error);
/* Whether the job writes an AVIF sequence, whose frames have alpha all or none. */
bool set_source_keeps_alpha(const struct job *job);
/* Whether a file of a folder or a member of an archive is an image of the job. By default: whether
 * its name has the suffix of a format that this program reads. */
bool set_source_wants(const struct job *job, const char *name);
/* The path of the input with this index, in `text` if it is in a folder; NULL: it is no path, or
 * there is no such input. For lists and folders. */
const char *set_source_path(const struct set_source *source, uint64_t index,
                            char text[JOB_URL_BYTES_MAX + 1]);
/* The bounds of an archive in which a member may have so many bytes. */
struct archive_limits set_source_limits(uint64_t bytes_max);
/* Whether set_source_next neither reads a file nor takes memory of a pool, so that the loop may
 * call it. */
bool set_source_is_quick(const struct set_source *source);
/* The part that was given, 0 to 1. */
double set_source_fraction(const struct set_source *source);
/* "tar" or "zip"; NULL: no archive, or not known yet. */
const char *set_source_format(const struct set_source *source);
/* Closes the file of a source that is at its end, on a worker: if the file was deleted meanwhile,
 * the kernel frees it now, which takes 10 ms for 100 MB in a tmpfs. */
void set_source_release(struct set_source *source);
void set_source_close(struct set_source *source); /* idempotent */
