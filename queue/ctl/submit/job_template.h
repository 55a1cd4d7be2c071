/* job_template.h - makes the job of each image of a submit from a template.
 *
 * The template comes from the options of gpuimgctl submit or from a job file. The paths, keys and
 * URLs of its outputs, and its id, are patterns (pattern.h). One thread. */
#pragma once

#include <limits.h>

#include "conf/limits.h"
#include "queue/ctl/ctl.h"
#include "queue/ctl/sets/set_options.h"
#include "queue/ctl/submit/key_file.h"
#include "queue/ctl/submit/overlay_files.h"
#include "queue/ctl/submit/source.h"

/* Expiry in seconds of an output in Redis, in case this program dies before it downloads it. */
#define OUTPUT_KEY_TTL_S 3600

struct job_template {
    cJSON *job;              /* the template, without input and id */
    size_t output_count;     /* outputs of the template, with or without a path */
    const char *single; /* a path that is the same for all images, so allows only one; or NULL */
    char *id;                /* a pattern; NULL: jobs have no id */
    bool made_ids;           /* the user gave no id, so the program chose `id` */
    bool keys;               /* --keys: images and results go through Redis */
    int priority;            /* 0 to JOB_PRIORITIES - 1; -1: none, or an invalid one */
    char input_root[PATH_MAX], output_root[PATH_MAX]; /* resolved, without a final slash */
    char run[64]; /* unique name of this run of the program, part of its keys and ids */
    struct overlay_files overlays;
    struct set_options set; /* of jobs with many images */
    bool replies; /* results go to the reply list of this run in each shard */
    bool recompresses; /* outputs are recompressed */
};

/* The image of a job, or its set of images, and the names that the job needs. */
struct job_image {
    struct source_file file;       /* of a list only `name`, for messages */
    const cJSON *inputs;           /* of a list: its images as a JSON array */
    const char *ending;            /* of a list: the suffix of its images */
    uint64_t number;               /* from 1; 0: the struct is unused */
    const struct ctl_shard *shard; /* of its job */
    char *outs[JOB_OUTPUTS_MAX];   /* path of each output: with --keys on this machine, otherwise
                                      below output_root. NULL: it has none, or stays in Redis. Of a
                                      set: a pattern (set_pattern_name), or one tar or array */
    char *urls[JOB_OUTPUTS_MAX];   /* URL of each output; NULL: none. Of a set: a pattern */
};
void job_image_clear(struct job_image *image); /* idempotent */

/* Reads the template from the command line, or ends the program with an error. */
void job_template_read(struct job_template *template, struct ctl *ctl);
void job_template_clear(struct job_template *template);
/* The suffix of a result that has no other, for an image with this suffix. */
const char *job_template_ending(const struct job_template *template, const char *suffix);
/* Writes the key of the list to which the jobs of a shard are pushed. */
void job_template_list(const struct job_template *template, const struct ctl_shard *shard,
                       char key[SUBMIT_KEY_BYTES]);
/* Writes the key of the reply list of a shard. */
void job_template_reply_to(const struct job_template *template, const struct ctl_shard *shard,
                           char key[SUBMIT_KEY_BYTES]);

/* Sets the paths and URLs of the image's outputs. Returns false and sets `error` if a pattern is
 * invalid or memory is short. Call job_image_clear in any case. */
bool job_template_name_outputs(const struct job_template *template, struct job_image *image,
                               struct error *error) MUST_CHECK;
/* Writes the id of the image's job; "": it has none. Fails like job_template_name_outputs. */
bool job_template_name_id(const struct job_template *template, const struct job_image *image,
                          char id[PATH_MAX], struct error *error) MUST_CHECK;
/* Returns the job of an image as malloc'd text, with this id. image->shard must be set. Returns
 * NULL with `error` set on failure. */
char *job_template_fill(const struct job_template *template, const struct job_image *image,
                        const char *id, struct error *error);

/* Finds the file's path below input_root: `below`, in `path`. Returns false and sets `error` if it
 * is elsewhere. */
bool job_template_find_below(const struct job_template *template, const char *file,
                             char path[PATH_MAX], const char **below,
                             struct error *error) MUST_CHECK;
/* Returns the output `index` of the template, with its keys or as a path; NULL: it has no place. */
const cJSON *job_template_output(const struct job_template *template, size_t index);

/* Write the Redis keys of an image and of its output `index`. */
void job_template_input_key(const struct job_template *template, const struct job_image *image,
                            char key[SUBMIT_KEY_BYTES]);
void job_template_output_key(const struct job_template *template, const struct job_image *image,
                             size_t index, char key[SUBMIT_KEY_BYTES]);
