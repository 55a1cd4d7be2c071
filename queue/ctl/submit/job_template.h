/*
 * job_template.h - makes the job of each image from a template.
 *
 * The template comes from the command line or from a job file. Its names are patterns (gpuimgctl
 * submit -h). One thread.
 */
#ifndef GPUIMGD_QUEUE_CTL_SUBMIT_JOB_TEMPLATE_H
#define GPUIMGD_QUEUE_CTL_SUBMIT_JOB_TEMPLATE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

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
    const char *ns;          /* the namespace */
    char input_root[PATH_MAX], output_root[PATH_MAX]; /* resolved, without a final slash */
    char run[64];            /* unique name of this submit, part of its keys and ids */
    char reply_to[320];      /* the reply list; "": results are not awaited */
};

/* Reads the template from the command line. Returns CTL_OK, or prints an error and returns its
 * status. Call job_template_clear in any case. */
int job_template_read(struct job_template *template, struct ctl *ctl) MUST_CHECK;
void job_template_clear(struct job_template *template);

/* Writes the path of output `index` of an image: with keys on this machine, otherwise below
 * output_root. "" if the output has no path or stays in Redis. Returns false and sets `error` if
 * the pattern is invalid. */
bool job_template_output_path(const struct job_template *template, const struct source_file *file,
                              uint64_t number, size_t index, char out[PATH_MAX],
                              struct error *error) MUST_CHECK;

/* Returns an image's job as malloc'd text; NULL with `error` set. number: the image's number, from
 * 1. Writes the job's id to `id`, "" if it has none. */
char *job_template_fill(const struct job_template *template, const struct source_file *file,
                        uint64_t number, char id[JOB_ID_BYTES_MAX + 1], struct error *error);

/* The Redis keys of an image and of one of its results. */
void job_template_input_key(const struct job_template *template, uint64_t number, char key[320]);
void job_template_output_key(const struct job_template *template, uint64_t number, size_t index,
                             char key[320]);

#endif
