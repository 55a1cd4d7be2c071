/*
 * label.h - how a log line names a job: its number, its id if it has one, and its input.
 *
 *     12 holiday (a/cat.jpg)
 *
 * Any thread.
 */
#ifndef GPUIMGD_QUEUE_JOB_LABEL_H
#define GPUIMGD_QUEUE_JOB_LABEL_H

#include <stddef.h>
#include <stdint.h>

#include "queue/job/job.h"

/* The end of an input's name that a label shows: a file name, which most file systems bound to 255
 * bytes, and its folder are rarely longer. A result has the whole name. */
#define LABEL_INPUT_BYTES_MAX 160
#define LABEL_BYTES (LABEL_INPUT_BYTES_MAX + JOB_ID_BYTES_MAX + 32)

/* The input's name alone, control characters escaped; that of a job whose input is not known is the
 * beginning of its text, and "" without one. job, text: may be NULL. Returns `name`. */
const char *label_input(char name[LABEL_INPUT_BYTES_MAX + 1], const struct job *job,
                        const char *text, size_t length);
/* Returns `label`. */
const char *label_job(char label[LABEL_BYTES], uint64_t number, const struct job *job,
                      const char *text, size_t length);

#endif
