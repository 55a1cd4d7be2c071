/* inputs.h - reads where the images of a job come from, and how many images share an output.
 *
 * Each function returns false and sets the error if a member is wrong. Loop thread only. */
#pragma once

#include "queue/job/check.h"

/* Keeps the names of the input as the job gives them, for the result of a refused job. */
void note_inputs(struct job *job);
/* Reads `input`, or `inputs` and `on_error`. */
bool read_inputs(const struct check *check, struct job *job);
/* Reads `pack` of an output whose place and format are known, and checks its template. */
bool read_pack(const struct check *check, const struct job *job, const cJSON *object,
               const char *where, struct job_output *output);
