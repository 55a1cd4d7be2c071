/*
 * pattern.h - names for results and ids that are made of a picture's name.
 *
 * %n is its name without suffix, %e the result's suffix, %p the folders between the one that was
 * named and the picture, %i its number, %% a percent sign.
 */
#ifndef GPUIMGD_QUEUE_CTL_SUBMIT_PATTERN_H
#define GPUIMGD_QUEUE_CTL_SUBMIT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/ctl/submit/source.h"

/* format: of the result, by name; NULL: the picture's own. false: the name is longer than
 * size - 1, or a % stands before another letter. */
bool pattern_expand(const char *pattern, const struct source_file *file, uint64_t number,
                    const char *format, char *to, size_t size);

#endif
