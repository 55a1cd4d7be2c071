/*
 * pattern.h - makes the names of results and the ids of jobs from a pattern and an image.
 *
 * %n is the image's name without suffix, %e the result's suffix, %p the folders between the one on
 * the command line and the image, %i the image's number, %% a percent sign.
 */
#ifndef GPUIMGD_QUEUE_CTL_SUBMIT_PATTERN_H
#define GPUIMGD_QUEUE_CTL_SUBMIT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/ctl/submit/source.h"

/* Writes the name to `to`. format: the name of the result's format; NULL: the image's own.
 * Returns false if the name is longer than size - 1 bytes, or another letter follows a %. */
bool pattern_expand(const char *pattern, const struct source_file *file, uint64_t number,
                    const char *format, char *to, size_t size);

#endif
