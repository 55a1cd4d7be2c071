/* set_pattern.h - names of the outputs of jobs with many images.
 *
 * submit replaces %i, %a and %e in the pattern of --out. The daemon replaces the rest: %p by the
 * image's name without suffix, %n by its index from 0 with at least six digits, %% by a percent
 * sign (gpuimgd-job(5)). One thread. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "conf/status.h"

struct set_name {
    uint64_t number;     /* of the job, from 1: %i */
    const char *archive; /* its name without folders and suffix, or that of an animation, for %a;
                            NULL: a list */
    const char *ending;  /* the suffix of the results, for %e; NULL: images have several */
    bool is_url;         /* the archive's name comes from a URL: it is escaped already */
};

/* Whether a pattern has %p or %n, so that each image gets a name of its own. */
bool set_pattern_names_images(const char *pattern);
/* Whether a pattern has %e, so that the names depend on the suffix. */
bool set_pattern_has_ending(const char *pattern);
/* Whether different jobs get different names. */
bool set_pattern_names_jobs(const char *pattern);

/* Writes the pattern of a job's output for the daemon. whole: the output is one file for all
 * images, whose name the daemon takes as it is. Returns false and sets `error` if the pattern is
 * invalid or the name is too long. */
bool set_pattern_expand(const char *pattern, bool whole, const struct set_name *name,
                        char to[PATH_MAX], struct error *error) MUST_CHECK;
/* Writes the name that the daemon gives the output of an image. pattern: of set_pattern_expand;
 * stem: the image's name for %p; is_url: of an image that is a URL. Fails likewise. */
bool set_pattern_name(const char *pattern, const char *stem, bool is_url, uint64_t index,
                      char to[PATH_MAX], struct error *error) MUST_CHECK;
