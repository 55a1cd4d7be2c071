/* pattern.h - makes names of outputs and ids from patterns: "%n" becomes the image's name, "%i" its
 * number, and so on (gpuimgctl submit -h). One thread. */
#pragma once

#include "queue/ctl/submit/job_template.h"

/* Whether a text begins with a URL's escape: % and two hexadecimal digits. */
bool pattern_is_escape(const char *text);
/* Appends bytes to a name. Returns false if it would be too long. */
bool pattern_append(char to[PATH_MAX], const char *text, size_t length);

/* Whether the pattern gives different names for different images. In a URL, % and two hexadecimal
 * digits are an escape and stay unchanged. */
bool pattern_varies(const char *pattern);

/* Writes the name that a pattern gives for an image. format: of the result, for %e; NULL: that of
 * the image. Returns false and sets `error` if the name is too long, or if another letter follows a
 * %. */
bool pattern_expand(const char *pattern, const struct job_image *image, const char *format,
                    char to[PATH_MAX], struct error *error) MUST_CHECK;
