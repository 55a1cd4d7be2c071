/* explain_set.h - chooses the image for which gpuimgd --explain explains a job with many images.
 *
 * It is the first image of the list or folder that exists, or the first one in the archive. An
 * archive in Redis or at a URL is not read: then only the job itself is checked. */
#pragma once

#include <limits.h>
#include <stdio.h>

#include "daemon/pipeline/job_run.h"

struct explain_set {
    size_t count;                                 /* images of the list or folder */
    size_t index;                                 /* of the chosen image */
    bool is_closed; /* an archive that is not read: there is no plan */
    char format[8]; /* of an archive that is read: "tar" or "zip" */
    struct job_place whole;                       /* the folder or archive; borrowed from the job */
    char path[JOB_PATH_BYTES_MAX + NAME_MAX + 2]; /* of the chosen image of a folder or
                                                     an archive */
};

/* Makes the chosen image the input of the job, reads it if it is in an archive, and checks the
 * names of its outputs. Sets run->error if no image can be explained. */
void explain_set_choose(struct explain_set *set, struct job_run *run,
                        const struct options *options);
/* Prints the inputs as a line, or adds them to the JSON. */
void explain_set_print(const struct explain_set *set, const struct job_run *run, FILE *out);
bool explain_set_add(cJSON *json, const struct explain_set *set, const struct job_run *run);
