/*
 * image_set.h - a job with many images (a list, a folder or an archive) while its images run.
 *
 * Each image is a struct job_run of its own, without a lease: an image of the set. It passes the
 * stages as a job does. The job itself waits in STAGE_SET (set_stage.h) meanwhile. The items form a
 * ring: a window over the images in their order, which bounds the memory of a job of any length.
 *
 *   FREE -> READ     the source has given the image                    source's thread
 *   READ -> RUNS     its run has begun                                 loop
 *   RUNS -> DONE     its outputs for tars and arrays are in memory     loop
 *   READ -> DONE     a member that is copied                           source's thread
 *   DONE -> PACKED   they are written                                  worker
 *   any  -> ENDED    it has ended, with its outputs or with an error   loop
 *
 * The owner of the job's run owns the set: a worker, or the loop. But while a worker runs the job,
 * the loop still begins and ends images, so `state` and the ends of the ring are atomic.
 *
 * A set outlives its job while an image still uses it, such as a zombie.
 */
#pragma once

#include <stdatomic.h>

#include "daemon/pipeline/job_run.h"
#include "daemon/sets/set_names.h"
#include "daemon/sets/set_pack.h"
#include "daemon/sets/set_source.h"

enum set_item_state { ITEM_FREE, ITEM_READ, ITEM_RUNS, ITEM_DONE, ITEM_PACKED, ITEM_ENDED };

struct set_item {
    _Atomic enum set_item_state state;
    bool is_copy;
    struct job_run *run;        /* of an image, from RUNS to PACKED */
    uint64_t image;             /* the index of the image */
    struct source_image source; /* The run takes `block` and `name`. `error`: of the read, or of the
                                   tar or array */
    uint64_t spilled_at;        /* offset in image_set->spill; set_spill.h */
    bool is_spilled;
    char *values; /* for the result: elements of image_set->values; malloc'd, or NULL */
    uint32_t value_count;
};

/* The images of one of the job's outputs. */
struct set_total {
    const struct format *format; /* of the last image; NULL: none, or no picture */
    enum codec_place encoder;    /* the same */
    uint64_t images, bytes;
};

/* What every image takes from the job. No thread changes it after the set is opened, so workers
 * read it, too. */
struct set_model {
    bool is_early;  /* the loop prepares an image, not the worker that reads it: set_image.h */
    struct job job; /* its strings are those of the job */
    struct op_item *ops[JOB_OUTPUTS_MAX];
    struct job_run_bounds bounds;
    uint32_t overlays, overlay_keys;
};

struct image_set {
    struct list_node node; /* in pipeline->sets */
    struct pipeline *pipeline;
    struct job_run *owner; /* the job; NULL after it has left STAGE_SET */
    uint32_t references;   /* the job, pipeline->sets, and the runs of images; loop only */
    struct job job;        /* the job's, after the job has ended */
    struct op_item *ops[JOB_OUTPUTS_MAX]; /* the same */

    bool is_active;    /* it may run images: pipeline->sets_active counts it */
    _Atomic bool is_opened; /* the source, and the packs */
    bool is_spooled;        /* the archive is in a file of its own, which counts as an open input */
    uint32_t pack_count;    /* outputs that are a tar or an array */
    bool holds_packs;       /* pipeline->packs_open counts them */
    bool must_spill;   /* for the worker: set_spill.h */
    bool is_finishing; /* the worker puts the packs in their places */
    bool is_placed;    /* they are there */
    bool is_unshared;  /* while is_finishing: no zombie of an image may still read the source */
    bool is_ending;    /* the job has left: its images have been ended, or end soon */
    bool has_zombie;   /* a worker may still use the set after the job has left */
    struct set_model model;
    struct files_known inputs_known, outputs_known;
    struct set_source source;
    enum source_step step;  /* that the source gave last */
    struct set_pack *packs; /* one per output of the job; NULL before the set is opened */

    struct files_spool spill;
    uint64_t spilled; /* items in it that are not written yet */

    struct set_item *items;              /* SET_WINDOW; NULL before the set is opened */
    /* The ring: the oldest item that is not free, and the next one to begin (the loop writes them);
     * the next one to fill (the thread of the source), and to pack (the owner of the set). */
    _Atomic uint64_t first, begun, read, packed;
    uint64_t images;                     /* that the source has given */
    uint64_t files_given;                /* pipeline->files_given when the source lacked room */
    double fraction;                     /* of the source; for the loop */
    uint64_t stepped_ns;                 /* when the worker's last step was submitted */

    /* Loop only: */
    uint32_t running;             /* runs of images that have not ended */
    bool must_return, lacks_room; /* an image must return to the queue, and so must the job */
    struct error error;           /* ends the job: of an image that is retried, or of `fail` */
    struct error first_error;     /* of the failed image with the lowest index: first_failed */
    uint64_t first_failed;
    uint64_t done, failed, copied, pixels;
    struct set_total totals[JOB_OUTPUTS_MAX];
    struct set_names names; /* of outputs that are files, keys or URLs; and of inputs, if input_root
                               is output_root */
    bool has_input_names;
    uint32_t device;       /* of the last image that is done */
    char *errors, *values; /* JSON arrays without the closing bracket; NULL: empty */
    char warning[ERROR_TEXT_MAX]; /* for the result; "": none */
    size_t errors_bytes, values_bytes;
    uint64_t error_count, value_count, errors_omitted, values_omitted;
};

static inline struct set_item *image_set_item(struct image_set *set, uint64_t position)
{
    return &set->items[position % SET_WINDOW];
}

/* What was written before is seen by the thread that reads the state. */
static inline void set_item_mark(struct set_item *item, enum set_item_state state)
{
    atomic_store_explicit(&item->state, state, memory_order_release);
}

/* A set for the job, with one reference. On a worker. NULL: no memory. */
struct image_set *image_set_create(struct job_run *run);
/* Loop only. The last one frees the set. */
void image_set_unref(struct image_set *set);
/* The job has ended, or is a zombie, which may last: its tars and arrays do not count any more. */
void image_set_forget_packs(struct image_set *set);
/* The job ends: takes its struct job and its operations, which images may still use. Loop only. */
void image_set_adopt(struct image_set *set, struct job_run *run);

/* Frees what the source has given for an item, and its values. */
void image_set_clear_item(struct image_set *set, struct set_item *item);

/* Loop only: note how an image has ended, for the result. name: of the image. The values stay with
 * the item until image_set_take_values, so that they are in the order of the images. */
void image_set_note_error(struct image_set *set, uint64_t image, const char *name,
                          const struct error *error);
void image_set_note_values(struct image_set *set, struct set_item *item, size_t output,
                           const cJSON *values);
void image_set_take_values(struct image_set *set, struct set_item *item);
/* Closes the JSON arrays, and fills in the part of the result. Borrowed from the set. */
struct result_images image_set_result(struct image_set *set);
