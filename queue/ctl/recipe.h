/*
 * recipe.h - what is to be made of every picture of a submit, and the job of one picture.
 */
#ifndef GPUIMGD_QUEUE_CTL_RECIPE_H
#define GPUIMGD_QUEUE_CTL_RECIPE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "queue/ctl/ctl.h"
#include "queue/ctl/source.h"

struct recipe {
    cJSON *ops;              /* NULL: none, a transcode */
    cJSON *extra;            /* further keys of the job, an object */
    char out[PATH_MAX];      /* a pattern; "" where no picture is made */
    bool single;             /* it is one file's name */
    const char *format;      /* or NULL */
    double quality;          /* 0: not given */
    const char *id;          /* a pattern, or NULL */
    bool keys;
    const char *ns;
    char input_root[PATH_MAX], output_root[PATH_MAX]; /* without links and slash at the end */
    char run[64];            /* of this submit: a part of keys' names */
    char reply_to[320];      /* "": none is asked for */
};

/* From the command line. CTL_OK, or a status after a sentence; recipe_clear is due in any case. */
int recipe_read(struct recipe *recipe, struct ctl *ctl) MUST_CHECK;
void recipe_clear(struct recipe *recipe);

/* Where the result of a picture goes, by the pattern; false with a sentence when that is too
 * long. */
bool recipe_place(const struct recipe *recipe, const struct source_file *file, uint64_t number,
                  char out[PATH_MAX], struct error *error) MUST_CHECK;

/* The job as text, malloc'd; NULL with a sentence. number: of the picture, from 1. */
char *recipe_job(const struct recipe *recipe, const struct source_file *file, uint64_t number,
                 struct error *error);

/* The keys of a picture that travels through Redis. */
void recipe_keys(const struct recipe *recipe, uint64_t number, char in[320], char out[320]);

#endif
