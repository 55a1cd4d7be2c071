/* job_template.h - makes the job of each image from a template.
 *
 * The template comes from the command line or from a job file. Its names are patterns (gpuimgctl
 * submit -h). One thread. */
#pragma once

#include <limits.h>

#include "conf/limits.h"
#include "queue/ctl/ctl.h"
#include "queue/ctl/submit/key_file.h"
#include "queue/ctl/submit/overlay_files.h"
#include "queue/ctl/submit/source.h"

/* Expiry in seconds of a result in Redis, for a client that dies before it downloads it. */
#define OUTPUT_KEY_TTL_S 3600

struct job_template {
    cJSON *job;              /* the template, without input and id */
    size_t output_count;     /* outputs of the template, with or without a path */
    const char *single;      /* a path without a pattern, good for one image only; or NULL */
    char *id;                /* a pattern; NULL: jobs have no id */
    bool made_ids;           /* the user gave no id */
    bool keys;               /* images travel through Redis */
    int priority;            /* 0 to JOB_PRIORITIES - 1; -1: none, or not valid */
    char input_root[PATH_MAX], output_root[PATH_MAX]; /* resolved, without a final slash */
    char run[64];            /* unique name of this submit, part of its keys and ids */
    struct overlay_files overlays;
    bool replies;            /* results go to a reply list of the shard */
};

/* An image, the shard of its job, and the paths of its outputs: with keys on this machine,
 * otherwise below output_root. NULL if an output has no path or stays in Redis. urls: the same for
 * outputs with a URL. */
struct job_image {
    struct source_file file;
    uint64_t number; /* from 1; 0: none */
    const struct ctl_shard *shard;
    char *outs[JOB_OUTPUTS_MAX], *urls[JOB_OUTPUTS_MAX];
};
void job_image_clear(struct job_image *image); /* idempotent */

/* Reads the template from the command line, or ends the program with an error. */
void job_template_read(struct job_template *template, struct ctl *ctl);
void job_template_clear(struct job_template *template);
/* Write the keys of a shard's list that the jobs are pushed to, and of its reply list. */
void job_template_list(const struct job_template *template, const struct ctl_shard *shard,
                       char key[SUBMIT_KEY_BYTES]);
void job_template_reply_to(const struct job_template *template, const struct ctl_shard *shard,
                           char key[SUBMIT_KEY_BYTES]);

/* Sets the paths of the image's outputs. Returns false and sets `error` if a pattern is invalid or
 * memory is short. Call job_image_clear in any case. */
bool job_template_name_outputs(const struct job_template *template, struct job_image *image,
                               struct error *error) MUST_CHECK;
/* Writes the id of the image's job, "" if it has none. Fails as job_template_name_outputs. */
bool job_template_name_id(const struct job_template *template, const struct job_image *image,
                          char id[PATH_MAX], struct error *error) MUST_CHECK;
/* Returns the job of an image whose shard is set, with this id, as malloc'd text. Returns NULL with
 * `error` set on failure. */
char *job_template_fill(const struct job_template *template, const struct job_image *image,
                        const char *id, struct error *error);

/* The Redis keys of an image and of one of its results. */
void job_template_input_key(const struct job_template *template, const struct job_image *image,
                            char key[SUBMIT_KEY_BYTES]);
void job_template_output_key(const struct job_template *template, const struct job_image *image,
                             size_t index, char key[SUBMIT_KEY_BYTES]);
