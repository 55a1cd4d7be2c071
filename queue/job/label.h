/*
 * label.h - writes the name of a job for log lines: its number, its id if it has one, its input.
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

/* A label shows the last bytes of a long input name. Most file systems allow file names of 255
 * bytes, but a folder and a file name rarely exceed 160. A result has the whole name. */
#define LABEL_INPUT_BYTES_MAX 160
#define LABEL_BYTES (LABEL_INPUT_BYTES_MAX + JOB_ID_BYTES_MAX + 32)

/* Writes the input's name with control characters escaped. If the input is unknown, writes the
 * beginning of the job's text, or "" without a text. job and text may be NULL. Returns `name`. */
const char *label_input(char name[LABEL_INPUT_BYTES_MAX + 1], const struct job *job,
                        const char *text, size_t length);
/* Returns `label`. */
const char *label_job(char label[LABEL_BYTES], uint64_t number, const struct job *job,
                      const char *text, size_t length);

#endif
