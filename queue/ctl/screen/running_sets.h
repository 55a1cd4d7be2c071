/* running_sets.h - shows the jobs with many images that daemons run, from their statistics. One
 * thread. */
#pragma once

#include "queue/ctl/screen/overview.h"

/* Returns the number of jobs with many images that run. */
size_t running_sets_count(const struct overview *overview);
/* Appends the titles of the columns to the line (out_put): 67 columns. */
void running_sets_put_titles(void);
/* Appends job `index`: its number, id, images, those that failed, and the percentage. */
void running_sets_put(const struct overview *overview, size_t index);
