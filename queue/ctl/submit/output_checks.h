/* output_checks.h - refuses outputs whose name another image has, or that would replace an image.
 * One thread. */
#pragma once

#include "queue/ctl/submit/job_template.h"
#include "queue/ctl/submit/output_file.h"

struct output_checks {
    const struct job_template *template;
    const struct source_options *options; /* of the images */
    struct output_names names;            /* of the outputs so far */
    struct output_file_rules rules;
    bool refused; /* an image was refused because of its output's name */
    bool scanned; /* `rules` has all images on the command line */
    bool full;    /* `names` is full */
};

/* Checks a path or URL of an output. Returns false and sets `error` if it cannot be used. */
bool output_checks_try(struct output_checks *checks, const char *place, struct error *error);
/* The same for all outputs of a job. */
bool output_checks_try_all(struct output_checks *checks, const struct job_image *image,
                           struct error *error);
/* Remembers a path or URL that an image has. */
void output_checks_add(struct output_checks *checks, const char *place, const char *image);
/* The same for all outputs of a job. */
void output_checks_add_all(struct output_checks *checks, const struct job_image *image);
void output_checks_clear(struct output_checks *checks); /* idempotent */

/* Returns the path or URL of an output; NULL: it has neither. */
static inline const char *job_image_place(const struct job_image *image, size_t index)
{
    return image->outs[index] ? image->outs[index] : image->urls[index];
}
