/*
 * job_template.h - the job that a submit makes of every picture: a template from the command line or from
 * a file, whose names are patterns (pattern.h), and the job of one picture.
 */
#ifndef GPUIMGD_QUEUE_CTL_SUBMIT_JOB_TEMPLATE_H
#define GPUIMGD_QUEUE_CTL_SUBMIT_JOB_TEMPLATE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "conf/limits.h"
#include "queue/ctl/ctl.h"
#include "queue/ctl/submit/source.h"

/* How long a result stays in Redis that nobody fetches, because this client died. */
#define OUTPUT_KEY_TTL_S 3600

struct job_template {
    cJSON *job;              /* the template, without input and id */
    size_t output_count;     /* of the template, with or without a place */
    const char *single;      /* a place without a pattern, which serves one picture; or NULL */
    char *id;                /* a pattern, or NULL: jobs have none */
    bool keys;               /* pictures travel through Redis */
    const char *ns;
    char input_root[PATH_MAX], output_root[PATH_MAX]; /* without links and slash at the end */
    char run[64];            /* of this submit: a part of keys' names and of ids */
    char reply_to[320];      /* "": none is asked for */
};

/* From the command line. CTL_OK, or a status after a sentence; job_template_clear is due in any
 * case. */
int job_template_read(struct job_template *template, struct ctl *ctl) MUST_CHECK;
void job_template_clear(struct job_template *template);

/* Where output `index` of a picture goes: with keys a path on this machine, else one below
 * output_root. "": it has none, or stays in Redis. false with a sentence: the pattern makes no
 * name. */
bool job_template_output_path(const struct job_template *template, const struct source_file *file,
                              uint64_t number, size_t index, char out[PATH_MAX],
                              struct error *error) MUST_CHECK;

/* The job as text, malloc'd; NULL with a sentence. number: of the picture, from 1. id: the job's,
 * "" if it has none. */
char *job_template_fill(const struct job_template *template, const struct source_file *file,
                        uint64_t number, char id[JOB_ID_BYTES_MAX + 1], struct error *error);

/* The keys of a picture that travels through Redis, and of one of its results. */
void job_template_input_key(const struct job_template *template, uint64_t number, char key[320]);
void job_template_output_key(const struct job_template *template, uint64_t number, size_t index,
                             char key[320]);

#endif
