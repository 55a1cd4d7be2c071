/* pattern.h - makes the names of results, and ids, from patterns (gpuimgctl submit -h). One
 * thread. */
#pragma once

#include "queue/ctl/submit/job_template.h"

/* Whether names of different images differ. In the pattern of a URL, % and two hexadecimal digits
 * are not a pattern: they stay. */
bool pattern_varies(const char *pattern);

/* Writes the name that a pattern gives for an image. format: the name of the result's format; NULL:
 * the image's own. Returns false and sets `error` if the name is too long, or if another letter
 * follows a %. */
bool pattern_expand(const char *pattern, const struct job_image *image, const char *format,
                    char to[PATH_MAX], struct error *error) MUST_CHECK;
