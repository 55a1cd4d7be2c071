/* image_list.h - the images of one job of gpuimgctl submit --list, and the names that they have.
 *
 * A job with an archive is a list without images. One thread. */
#pragma once

#include "queue/ctl/submit/job_template.h"

#define LIST_ENDING_BYTES 32

struct image_list {
    struct job_image image;         /* the job: its number, shard and outputs */
    char id[JOB_ID_BYTES_MAX + 1];  /* of the job; "": none */
    char ending[LIST_ENDING_BYTES]; /* the suffix of all images, if outputs need it */
    char *label;                    /* what messages call the job */
    cJSON *inputs;                  /* the job's key inputs; NULL after image_list_close */
    size_t bytes;                   /* of the job's text, at most */
    char **names, **stems;          /* of each image: for messages, and for %p */
    size_t count;
    double fraction;                 /* how much of the job a daemon has done (heartbeats.h) */
    uint64_t live_done, live_failed; /* images, likewise */
};

/* Returns a list for at most `images` images; NULL if memory is short. */
struct image_list *image_list_new(size_t images);
/* Adds an image. Takes ownership of `item` and copies the names. Returns false if memory is short.
 */
bool image_list_add(struct image_list *list, cJSON *item, const char *name, const char *stem);
/* Removes the last image. */
void image_list_drop(struct image_list *list);
/* Sets `label`: "cat.jpg and 255 more". Returns false if memory is short. */
bool image_list_set_label(struct image_list *list);
/* Frees what only an unsent list needs. */
void image_list_close(struct image_list *list);
void image_list_free(struct image_list *list); /* NULL is allowed */
