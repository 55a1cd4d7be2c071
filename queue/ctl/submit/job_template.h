/* job_template.h - makes the job of each image from a template.
 *
 * The template comes from the command line or from a job file. Its names are patterns (gpuimgctl
 * submit -h). One thread. */
#pragma once

#include <limits.h>

#include "conf/limits.h"
#include "queue/ctl/ctl.h"
#include "queue/ctl/submit/source.h"

/* Expiry in seconds of a result in Redis, for a client that dies before it downloads it. */
#define OUTPUT_KEY_TTL_S 3600

struct job_template {
    cJSON *job;              /* the template, without input and id */
    size_t output_count;     /* outputs of the template, with or without a path */
    const char *single;      /* a path without a pattern, good for one image only; or NULL */
    char *id;                /* a pattern; NULL: jobs have no id */
    bool keys;               /* images travel through Redis */
    int priority;            /* 0 to JOB_PRIORITIES - 1; -1: none, or not valid */
    const char *ns;          /* the namespace */
    char input_root[PATH_MAX], output_root[PATH_MAX]; /* resolved, without a final slash */
    char run[64];            /* unique name of this submit, part of its keys and ids */
    char reply_to[320];      /* the reply list; "": results are not awaited */
};

/* An image, and the paths of its outputs: with keys on this machine, otherwise below output_root.
 * NULL if an output has no path or stays in Redis. */
struct job_image {
    struct source_file file;
    uint64_t number; /* from 1; 0: none */
    char *outs[JOB_OUTPUTS_MAX];
};
void job_image_clear(struct job_image *image); /* idempotent */

/* Reads the template from the command line, or ends the program with an error. */
void job_template_read(struct job_template *template, struct ctl *ctl);
void job_template_clear(struct job_template *template);
/* Writes the key of the list that the jobs are pushed to. */
void job_template_list(const struct job_template *template, char *key, size_t size);

/* Sets the paths of the image's outputs. Returns false and sets `error` if a pattern is invalid or
 * memory is short. Call job_image_clear in any case. */
bool job_template_name_outputs(const struct job_template *template, struct job_image *image,
                               struct error *error) MUST_CHECK;
/* Returns an image's job as malloc'd text, and writes its id to `id`, "" if it has none. Returns
 * NULL with `error` set on failure. */
char *job_template_fill(const struct job_template *template, const struct job_image *image,
                        char id[JOB_ID_BYTES_MAX + 1], struct error *error);

/* The Redis keys of an image and of one of its results. */
void job_template_input_key(const struct job_template *template, uint64_t number, char key[320]);
void job_template_output_key(const struct job_template *template, uint64_t number, size_t index,
                             char key[320]);
