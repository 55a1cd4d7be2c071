/* set_job.h - the parts of a job with many images that differ from a job with one. One thread. */
#pragma once

#include "queue/ctl/sets/set_options.h"
#include "queue/ctl/submit/job_template.h"

/* Writes the name of an output for the daemon. place: its pattern in the template. */
bool set_job_name_output(const struct set_options *set, const struct job_image *image,
                         const cJSON *output, const char *place, char to[PATH_MAX],
                         struct error *error) MUST_CHECK;
/* Writes the id of the job, from a pattern with %i, %a and %%. */
bool set_job_name_id(const struct set_options *set, const struct job_image *image,
                     const char *pattern, char id[PATH_MAX], struct error *error) MUST_CHECK;
/* Adds the key inputs. path: of the archive below input_root, or NULL. Returns false if memory is
 * short. */
bool set_job_add_inputs(const struct set_options *set, cJSON *job, const struct job_image *image,
                        const char *path);
/* Writes the key of an image of a list. */
void set_job_input_key(const struct job_template *template, const struct job_image *image,
                       size_t index, char key[SUBMIT_KEY_BYTES]);
/* Writes the key of an output as the job gives it, with %n for the index of the image. */
void set_job_output_key(const struct job_template *template, const struct job_image *image,
                        size_t output, char key[SUBMIT_KEY_BYTES]);
/* Writes the key that this gives for an image. */
void set_job_image_key(const struct job_template *template, const struct job_image *image,
                       size_t output, size_t index, char key[SUBMIT_KEY_BYTES]);
